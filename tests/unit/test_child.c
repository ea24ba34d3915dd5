/* Processes that do work: a phase ends late for time that was used or slept, not for time without a processor. */
#define _GNU_SOURCE /* sched_setaffinity */
#include "check.h"
#include "child.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HOGS = 6 };

static void stay_on(size_t processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static size_t first_processor(void) {
    cpu_set_t set;
    size_t i = 0;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        while (i < CPU_SETSIZE - 1 && !CPU_ISSET(i, &set)) i++;
    return i;
}

static double used(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct {
    double limit_s, use_s; /* of processor time; negative: sleeps for ever */
    size_t processor;
} Work;

static void work(void *context, ChildChannel *channel) {
    const Work *w = context;
    stay_on(w->processor);
    child_phase(channel, w->limit_s, "working");
    while (w->use_s < 0) pause();
    double begin = used();
    while (used() - begin < w->use_s) {
    }
}

static bool take(void *context, const void *data, size_t size) {
    (void)context, (void)data, (void)size;
    return true;
}

static ChildEndKind end_of(Work w) {
    return child_run(&(ChildSpec){.work = work, .receive = take, .ctx = &w}).kind;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Work that fits its limit ends well, unless it was kept from a processor for as long as the most that is waited. */
static bool ends_well_or_starves(Work w) {
    double begin = now();
    ChildEndKind kind = end_of(w);
    return kind == CHILD_WELL || (kind == CHILD_TIMED_OUT && now() - begin >= CHILD_STARVED * w.limit_s);
}

int main(void) {
    pid_t hogs[HOGS];
    size_t processor = first_processor();
    if (access("/proc/self/schedstat", R_OK) != 0) {
        puts("the system does not say how long a process waited for a processor");
        return 77;
    }
    for (int i = 0; i < HOGS; i++) {
        hogs[i] = fork();
        if (hogs[i] == 0) {
            stay_on(processor);
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (volatile unsigned long k = 0;; k++) {
            }
        }
    }
    /* Seven share a processor, at least: a quarter of a second of work takes nearly two. */
    CHECK(ends_well_or_starves((Work){.limit_s = 1, .use_s = 0.25, .processor = processor}));
    CHECK(end_of((Work){.limit_s = 0.3, .use_s = 1e6, .processor = processor}) == CHILD_TIMED_OUT);
    CHECK(end_of((Work){.limit_s = 0.3, .use_s = -1, .processor = processor}) == CHILD_TIMED_OUT);
    for (int i = 0; i < HOGS; i++) {
        kill(hogs[i], SIGKILL);
        waitpid(hogs[i], NULL, 0);
    }
    return 0;
}
