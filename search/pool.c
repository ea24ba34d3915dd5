/* The search's side of the pool: one thread that waits for all judges. */
#define _GNU_SOURCE /* nftw */
#include "book.h"
#include "pool_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* None was measured: each bounds what a stuck helper may cost, far above what a sound one takes. */
enum {
    MOST_SLOTS = 64,    /* helpers at once */
    TRIES = 2,          /* of a job whose helper died: a second death is the job's own doing */
    LOOK_MS = 50,       /* between two looks at the helpers' limits of time */
    FAREWELL_MS = 1500, /* for a helper to end by itself */
    SEND_LIMIT_S = 5    /* for a helper to take a job */
};
static const uint64_t usual_memory = (uint64_t)4 << 30;

typedef struct {
    pid_t pid; /* 0: none was started */
    int fd;
    PoolJob *job; /* null: idle */
    Str in;
} Slot;

struct Pool {
    const PoolOptions *options;
    unsigned count;
    char folder[200]; /* the jobs' temporary files, a folder for each slot */
    int lock;         /* held while the folder is in use */
    int book;         /* what judges compute once for all (book.h); -1: each for itself */
    Slot slots[MOST_SLOTS];
};

/* ---- Temporary files ---- */

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)st, (void)kind, (void)at;
    remove(path);
    return 0;
}

/* What a job that was ended left behind goes, too. */
static void remove_tree(const char *path) {
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static void slot_folder(const Pool *p, const Slot *s, char *out, size_t size) {
    snprintf(out, size, "%s/%u", p->folder, (unsigned)(s - p->slots));
}

static void clean(const Pool *p, const Slot *s) {
    char folder[240];
    slot_folder(p, s, folder, sizeof folder);
    remove_tree(folder);
    mkdir(folder, 0700);
}

static const char prefix[] = "sketchc-pool-";

/* Held for as long as this process is there. The name comes when it is held: nobody else takes it in between. */
static int hold(const char *folder) {
    char fresh[240], path[240];
    snprintf(fresh, sizeof fresh, "%s/lock.new", folder);
    snprintf(path, sizeof path, "%s/lock", folder);
    int fd = open(fresh, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) (void)!flock(fd, LOCK_EX | LOCK_NB);
    (void)!rename(fresh, path);
    return fd;
}

/* Is it a folder of ours whose search was killed? One without a lock may be just being made. */
static bool is_left_behind(const char *folder) {
    enum { DAY_S = 86400 };
    char path[PATH_MAX];
    struct stat st;
    if (lstat(folder, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid()) return false;
    int n = snprintf(path, sizeof path, "%s/lock", folder);
    int fd = n > 0 && (size_t)n < sizeof path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    bool left = fd >= 0 ? flock(fd, LOCK_EX | LOCK_NB) == 0 : time(NULL) - st.st_mtime > DAY_S;
    if (fd >= 0) close(fd);
    return left;
}

static void sweep(const char *base) {
    DIR *entries = opendir(base);
    for (struct dirent *e; entries && (e = readdir(entries));) {
        char path[PATH_MAX];
        int n = strncmp(e->d_name, prefix, sizeof prefix - 1) == 0 ? snprintf(path, sizeof path, "%s/%s", base, e->d_name) : 0;
        if (n > 0 && (size_t)n < sizeof path && is_left_behind(path)) remove_tree(path);
    }
    if (entries) closedir(entries);
}

Pool *pool_create(const PoolOptions *options) {
    const char *base = env_get(ENV_TMPDIR);
    Pool *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->options = options;
    p->count = options->slots ? options->slots : 2;
    if (p->count > MOST_SLOTS) p->count = MOST_SLOTS;
    if (!base || base[0] != '/') base = "/tmp";
    sweep(base);
    int n = snprintf(p->folder, sizeof p->folder, "%s/%sXXXXXX", base, prefix);
    if (n < 0 || (size_t)n >= sizeof p->folder || !mkdtemp(p->folder)) {
        free(p);
        return NULL;
    }
    p->lock = hold(p->folder);
    p->book = book_create();
    return p;
}

/* ---- Judges ---- */

static bool start(Pool *p, Slot *s) {
    int ends[2];
    char folder[240], variable[256];
    if (s->pid) return true;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
    clean(p, s);
    slot_folder(p, s, folder, sizeof folder);
    snprintf(variable, sizeof variable, "TMPDIR=%s", folder);
    const char *more[] = {variable, NULL};
    bool ok = subprocess_start(p->options->argv, (int[]){ends[1], p->book, -1}, more, &s->pid);
    close(ends[1]);
    if (!ok) {
        close(ends[0]);
        s->pid = 0;
        return false;
    }
    struct timeval limit = {SEND_LIMIT_S, 0};
    setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    s->fd = ends[0];
    str_init(&s->in);
    return true;
}

static bool is_gone(const Slot *s) {
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)s->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid;
}

/* A judge whose socket is closed ends what it runs and then itself. */
static void part(Slot *const *slots, size_t count) {
    for (size_t i = 0; i < count; i++) close(slots[i]->fd);
    double deadline = seconds_now() + 1e-3 * FAREWELL_MS;
    for (size_t i = 0; i < count; i++) {
        Slot *s = slots[i];
        while (!is_gone(s) && seconds_now() < deadline) poll(NULL, 0, 2);
        kill(s->pid, SIGKILL);
        while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR) {
        }
        str_release(&s->in);
        *s = (Slot){0};
    }
}

static void drop(Pool *p, bool idle_too) {
    Slot *gone[MOST_SLOTS];
    size_t count = 0;
    for (unsigned i = 0; i < p->count; i++)
        if (p->slots[i].pid && (p->slots[i].job || idle_too)) gone[count++] = &p->slots[i];
    part(gone, count);
}

void pool_destroy(Pool *p) {
    if (!p) return;
    drop(p, true);
    remove_tree(p->folder);
    if (p->lock >= 0) close(p->lock);
    free(p);
}

/* ---- Jobs ---- */

typedef struct {
    Pool *pool;
    PoolJob *jobs;
    size_t count, next;
    PoolJob *again[MOST_SLOTS]; /* were not run, through no fault of their own */
    size_t again_count;
} Batch;

static void end_job(Slot *s, PoolOutcome outcome, const char *why) {
    s->job->outcome = outcome;
    s->job->ended = seconds_now();
    snprintf(s->job->why, sizeof s->job->why, "%s", why);
    s->job = NULL;
}

/* The judge is gone without an answer, or somebody killed the job: it is run once more. */
static void end_or_retry(Batch *b, Slot *s, PoolOutcome outcome, const char *why) {
    PoolJob *job = s->job;
    end_job(s, outcome, why);
    if (job->tries < TRIES && b->again_count < MOST_SLOTS) b->again[b->again_count++] = job;
}

static void lose(Batch *b, Slot *s) {
    Slot *gone = s;
    end_or_retry(b, s, POOL_NOT_RUN, "the judge was ended from outside");
    part(&gone, 1);
}

static void give(Batch *b, Slot *s, PoolJob *job) {
    const PoolOptions *o = b->pool->options;
    PoolRequestHead head = {POOL_MAGIC, (uint32_t)job->size, o->memory_limit ? o->memory_limit : usual_memory};
    job->outcome = POOL_NOT_RUN;
    if (job->size > POOL_MOST || !start(b->pool, s)) {
        snprintf(job->why, sizeof job->why, "no judge can be started: %s", strerror(errno));
        return;
    }
    s->job = job;
    job->tries++;
    if (!pool_send(s->fd, &head, sizeof head) || !pool_send(s->fd, job->request, job->size)) lose(b, s);
}

static PoolJob *next_job(Batch *b) {
    if (b->again_count) return b->again[--b->again_count];
    return b->next < b->count ? &b->jobs[b->next++] : NULL;
}

static void give_all(Batch *b) {
    PoolJob *job;
    for (unsigned i = 0; i < b->pool->count; i++)
        while (!b->pool->slots[i].job && (job = next_job(b))) give(b, &b->pool->slots[i], job);
}

static void take_answer(Batch *b, Slot *s) {
    PoolAnswerHead head;
    if (s->in.len < sizeof head) return;
    memcpy(&head, s->in.data, sizeof head);
    head.why[sizeof head.why - 1] = '\0';
    if (head.magic != POOL_MAGIC || head.size > POOL_MOST) {
        lose(b, s);
        return;
    }
    if (s->in.len < sizeof head + head.size) return;
    if (head.outcome == POOL_DONE) str_append_n(&s->job->answer, s->in.data + sizeof head, head.size);
    str_release(&s->in);
    str_init(&s->in);
    if (head.outcome != POOL_DONE) clean(b->pool, s);
    if (head.outcome == POOL_KILLED)
        end_or_retry(b, s, POOL_KILLED, head.why);
    else
        end_job(s, head.outcome <= POOL_KILLED ? (PoolOutcome)head.outcome : POOL_NOT_RUN, head.why);
}

static void read_answer(Batch *b, Slot *s) {
    char part_of_it[16384];
    ssize_t n = recv(s->fd, part_of_it, sizeof part_of_it, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n <= 0) {
        lose(b, s);
        return;
    }
    str_append_n(&s->in, part_of_it, (size_t)n);
    take_answer(b, s);
}

static bool wait_for_answers(Batch *b) {
    struct pollfd fds[MOST_SLOTS];
    Slot *busy[MOST_SLOTS];
    nfds_t count = 0;
    for (unsigned i = 0; i < b->pool->count; i++) {
        Slot *s = &b->pool->slots[i];
        if (!s->job) continue;
        busy[count] = s;
        fds[count++] = (struct pollfd){s->fd, POLLIN, 0};
    }
    if (count && poll(fds, count, LOOK_MS) > 0)
        for (nfds_t i = 0; i < count; i++)
            if (fds[i].revents) read_answer(b, busy[i]);
    return count;
}

static bool is_over(double deadline, const atomic_int *cancel) {
    return (cancel && atomic_load(cancel)) || (deadline > 0 && seconds_now() >= deadline);
}

void pool_run(Pool *p, PoolJob *jobs, size_t count, double deadline, const atomic_int *cancel) {
    Batch b = {.pool = p, .jobs = jobs, .count = count};
    for (size_t i = 0; i < count; i++) {
        jobs[i].outcome = POOL_NOT_RUN;
        jobs[i].tries = 0;
        jobs[i].why[0] = '\0';
        str_init(&jobs[i].answer);
    }
    while (!is_over(deadline, cancel)) {
        give_all(&b);
        if (!wait_for_answers(&b) && !b.again_count && b.next == count) return;
    }
    drop(p, false);
}
