/* The judge's side of the pool. */
#include "book.h"
#include "pool_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool pool_send(int fd, const void *data, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t n = send(fd, (const char *)data + done, size - done, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

static bool receive_all(int fd, void *data, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t n = recv(fd, (char *)data + done, size - done, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

typedef struct {
    PoolWork work;
    const char *request;
    size_t size;
    Str answer;
} Job;

static void do_job(void *context, ChildChannel *channel) {
    Job *job = context;
    job->work(job->request, job->size, channel, &job->answer);
    for (size_t done = 0; done < job->answer.len;) {
        size_t n = job->answer.len - done;
        if (n > CHILD_MAX_FRAME) n = CHILD_MAX_FRAME;
        child_send(channel, job->answer.data + done, n);
        done += n;
    }
}

static bool take_part(void *context, const void *data, size_t size) {
    Job *job = context;
    if (size > POOL_MOST - job->answer.len) return false;
    str_append_n(&job->answer, data, size);
    return true;
}

static PoolOutcome outcome_of(const ChildEnd *end) {
    switch (end->kind) {
    case CHILD_WELL:
        return POOL_DONE;
    case CHILD_TIMED_OUT:
        return POOL_HUNG;
    case CHILD_TOO_LARGE:
        return POOL_TOO_LARGE;
    case CHILD_SIGNALED:
        return end->number == SIGKILL ? POOL_KILLED : POOL_CRASHED;
    case CHILD_NONSENSE:
    case CHILD_EXITED:
        return POOL_CRASHED;
    case CHILD_NOT_STARTED:
    case CHILD_STOPPED:
        break;
    }
    return POOL_NOT_RUN;
}

static void explain(const ChildEnd *end, char *why, size_t size) {
    const char *colon = end->said[0] ? ": " : "";
    switch (end->kind) {
    case CHILD_WELL:
        break;
    case CHILD_NOT_STARTED:
        snprintf(why, size, "no process: %s", strerror(end->number));
        break;
    case CHILD_TIMED_OUT:
        snprintf(why, size, "%s took longer than %g s", end->phase, end->seconds);
        break;
    case CHILD_TOO_LARGE:
        snprintf(why, size, "too much memory in %s", end->phase);
        break;
    case CHILD_STOPPED:
        snprintf(why, size, "stopped");
        break;
    case CHILD_NONSENSE:
        snprintf(why, size, "damaged its memory in %s", end->phase);
        break;
    case CHILD_SIGNALED:
        snprintf(why, size, "signal %d in %s%s%.200s", end->number, end->phase, colon, end->said);
        break;
    case CHILD_EXITED:
        snprintf(why, size, "exit with status %d in %s%s%.200s", end->number, end->phase, colon, end->said);
        break;
    }
}

static bool serve_one(int fd, PoolWork work, const PoolRequestHead *head, char *request) {
    Job job = {work, request, head->size, {0}};
    PoolAnswerHead answer;
    memset(&answer, 0, sizeof answer);
    str_init(&job.answer);
    ChildEnd end = child_run(
        &(ChildSpec){.work = do_job, .receive = take_part, .ctx = &job, .session = true, .memory_limit = head->memory_limit, .stop = &fd});
    answer.magic = POOL_MAGIC;
    answer.outcome = outcome_of(&end);
    explain(&end, answer.why, sizeof answer.why);
    answer.size = answer.outcome == POOL_DONE ? (uint32_t)job.answer.len : 0;
    bool sent = end.kind != CHILD_STOPPED && pool_send(fd, &answer, sizeof answer) && pool_send(fd, job.answer.data, answer.size);
    str_release(&job.answer);
    return sent;
}

/* It comes as the standard output, which is nobody's afterwards. */
static void take_book(void) {
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    bool joined = book_join(STDOUT_FILENO);
    if (nowhere >= 0) {
        dup2(nowhere, STDOUT_FILENO);
        close(nowhere);
    } else {
        if (joined) book_leave();
        close(STDOUT_FILENO);
    }
}

void pool_serve(PoolWork work) {
    PoolRequestHead head;
    /* The jobs' standard input is another one. */
    int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    bool go_on = fd >= 0;
    take_book();
    while (go_on && receive_all(fd, &head, sizeof head) && head.magic == POOL_MAGIC && head.size <= POOL_MOST) {
        char *request = malloc((size_t)head.size + 1);
        go_on = request && receive_all(fd, request, head.size);
        if (go_on) {
            request[head.size] = '\0';
            go_on = serve_one(fd, work, &head, request);
        }
        free(request);
    }
    if (fd >= 0) close(fd);
}
