#define _GNU_SOURCE /* pipe2 */
#include "child.h"
#include "memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* A kernel may have scribbled over the child's memory: frames are checked like foreign input. */
enum { FRAME_MAGIC = 0x534b5746, FRAME_DATA = 1, FRAME_PHASE, FRAME_END, WATCH_MS = 100 };
typedef struct {
    uint32_t magic, kind, size, padding;
    uint64_t hash;
} FrameHead;
typedef struct {
    double seconds;
    char what[CHILD_NAME];
} Phase;

struct ChildChannel {
    int fd;
};

/* ---- Child ---- */

static void send_frame(ChildChannel *channel, uint32_t kind, const void *data, size_t size) {
    FrameHead head = {FRAME_MAGIC, kind, (uint32_t)size, 0, hash128(data, size, (Hash128){kind, size}).lo};
    unsigned char buffer[sizeof head + CHILD_MAX_FRAME];
    if (size > CHILD_MAX_FRAME) _exit(5);
    memcpy(buffer, &head, sizeof head);
    memcpy(buffer + sizeof head, data, size);
    for (size_t done = 0; done < sizeof head + size;) {
        ssize_t n = write(channel->fd, buffer + done, sizeof head + size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) _exit(5); /* nobody listens any more */
        done += (size_t)n;
    }
}

void child_send(ChildChannel *channel, const void *data, size_t size) {
    send_frame(channel, FRAME_DATA, data, size);
}

void child_phase(ChildChannel *channel, double seconds, const char *what) {
    Phase phase;
    memset(&phase, 0, sizeof phase);
    phase.seconds = seconds;
    snprintf(phase.what, sizeof phase.what, "%s", what);
    send_frame(channel, FRAME_PHASE, &phase, sizeof phase);
}

static void reset_signals(void) {
    struct sigaction deflt;
    memset(&deflt, 0, sizeof deflt);
    deflt.sa_handler = SIG_DFL;
    for (int s = 1; s < NSIG; s++) sigaction(s, &deflt, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is its writer's error */
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

typedef struct {
    const ChildSpec *spec;
    ChildChannel *channel;
} Work;

static void do_work(void *ctx) {
    const Work *w = ctx;
    w->spec->work(w->spec->ctx, w->channel);
}

static void child_main(const ChildSpec *spec, int fd, int errors, pid_t parent) {
    if (spec->session)
        setsid();
    else
        setpgid(0, 0);
    if (spec->stop) close(*spec->stop);
    /* Sent when the thread that forked ends: child_run stays in it until the child is gone. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(5);
    reset_signals();
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_DUMPABLE, 1); /* memory checkers attach to it; no core is written */
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing >= 0) {
        dup2(nothing, STDIN_FILENO);
        dup2(nothing, STDOUT_FILENO);
    }
    dup2(errors, STDERR_FILENO);
    ChildChannel channel = {fd};
    if (!memory_try(do_work, &(Work){spec, &channel})) _exit(CHILD_NO_MEMORY); /* the scopes of the parent are not its own */
    send_frame(&channel, FRAME_END, "", 0);
    _exit(0);
}

/* ---- Parent ---- */

typedef struct {
    const ChildSpec *spec;
    pid_t pid;
    int frames, errors;
    unsigned char buffer[sizeof(FrameHead) + CHILD_MAX_FRAME];
    size_t filled;
    double began, deadline; /* of the phase */
    double waited;          /* for a processor, before the phase */
    Phase phase;
    char said[CHILD_SAID + 1]; /* the end of the child's standard error */
    size_t said_len;
    bool ended, nonsense, timed_out, too_large, stopped;
} Parent;

/* Seconds that the child waited for a processor, the one of its threads that waited longest; 0: the system does not say. */
static double waited_by(pid_t pid) {
    char path[64];
    unsigned long long ran, waited, most = 0;
    snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    DIR *threads = opendir(path);
    for (struct dirent *e; threads && (e = readdir(threads));) {
        char file[sizeof e->d_name + 16], text[128] = "";
        snprintf(file, sizeof file, "%s/schedstat", e->d_name);
        /* NOLINTNEXTLINE(*StdCLibraryFunctions): of no descriptor nothing is there */
        int fd = openat(dirfd(threads), file, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
        if (fd >= 0) close(fd);
        if (n > 0 && sscanf(text, "%llu %llu", &ran, &waited) == 2 && waited > most) most = waited;
    }
    if (threads) closedir(threads);
    return 1e-9 * (double)most;
}

static void set_phase(Parent *p, const Phase *phase) {
    p->phase = *phase;
    p->phase.what[CHILD_NAME - 1] = '\0';
    if (!(p->phase.seconds > 0 && p->phase.seconds < 1e6)) p->phase.seconds = CHILD_PATIENCE;
    p->began = seconds_now();
    p->deadline = p->began + p->phase.seconds;
    p->waited = waited_by(p->pid);
}

/* Has the phase had its time? What the child waited for a processor is added. */
static bool is_late(Parent *p) {
    if (p->deadline > seconds_now()) return false;
    double more = waited_by(p->pid) - p->waited, most = CHILD_STARVED * p->phase.seconds;
    if (more > 0) p->deadline = p->began + p->phase.seconds + (more < most ? more : most);
    return p->deadline <= seconds_now();
}

static void take_frame(Parent *p, const FrameHead *head, const unsigned char *data) {
    Phase phase;
    if (head->kind == FRAME_END) {
        p->ended = true;
    } else if (head->kind == FRAME_PHASE && head->size == sizeof phase) {
        memcpy(&phase, data, sizeof phase);
        set_phase(p, &phase);
        if (p->spec->begins) p->spec->begins(p->spec->ctx, p->phase.what);
    } else if (head->kind == FRAME_DATA) {
        Phase rest = {.seconds = CHILD_PATIENCE, .what = "the next step"};
        set_phase(p, &rest);
        if (!p->spec->receive(p->spec->ctx, data, head->size)) p->nonsense = true;
    } else {
        p->nonsense = true;
    }
}

static void take_frames(Parent *p) {
    FrameHead head;
    while (p->filled >= sizeof head && !p->nonsense) {
        memcpy(&head, p->buffer, sizeof head);
        if (head.magic != FRAME_MAGIC || head.size > CHILD_MAX_FRAME) {
            p->nonsense = true;
            return;
        }
        size_t total = sizeof head + head.size;
        if (p->filled < total) return;
        const unsigned char *data = p->buffer + sizeof head;
        if (hash128(data, head.size, (Hash128){head.kind, head.size}).lo != head.hash)
            p->nonsense = true;
        else
            take_frame(p, &head, data);
        p->filled -= total;
        memmove(p->buffer, p->buffer + total, p->filled);
    }
}

static bool read_frames(Parent *p) {
    ssize_t n = read(p->frames, p->buffer + p->filled, sizeof p->buffer - p->filled);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (n <= 0) return false;
    p->filled += (size_t)n;
    take_frames(p);
    return true;
}

static bool read_errors(Parent *p) {
    char part[CHILD_SAID];
    ssize_t n = read(p->errors, part, sizeof part);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (n <= 0) return false;
    size_t add = (size_t)n, keep = p->said_len;
    if (keep > CHILD_SAID - add) keep = CHILD_SAID - add;
    memmove(p->said, p->said + p->said_len - keep, keep);
    memcpy(p->said + keep, part, add);
    p->said_len = keep + add;
    p->said[p->said_len] = '\0';
    return true;
}

/* Bytes of the child that are in main memory; 0: not known. */
static uint64_t resident(pid_t pid) {
    char path[64], text[128] = "";
    unsigned long long whole, pages;
    snprintf(path, sizeof path, "/proc/%ld/statm", (long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0) close(fd);
    return n > 0 && sscanf(text, "%llu %llu", &whole, &pages) == 2 ? pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* It is left unreaped. */
static bool is_dead(pid_t pid) {
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
}

/* Must the child be ended? */
static bool is_over(Parent *p) {
    uint64_t limit = p->spec->memory_limit;
    p->timed_out = is_late(p);
    p->too_large = !p->timed_out && limit && resident(p->pid) > limit;
    return p->timed_out || p->too_large || p->stopped;
}

static void listen_to_child(Parent *p) {
    bool frames = true, errors = true;
    while (frames && !p->nonsense && !is_over(p)) {
        double left_ms = 1e3 * (p->deadline - seconds_now());
        int most = p->spec->session || p->spec->memory_limit ? WATCH_MS : 1000;
        struct pollfd fds[] = {
            {p->frames, POLLIN, 0}, {errors ? p->errors : -1, POLLIN, 0}, {p->spec->stop ? *p->spec->stop : -1, POLLIN, 0}};
        int n = poll(fds, COUNT_OF(fds), left_ms > most ? most : left_ms > 0 ? (int)left_ms + 1 : 0);
        if (n < 0 && errno != EINTR) return;
        /* What it started may hold its pipes open. */
        if (n == 0 && p->spec->session && is_dead(p->pid)) return;
        if (n <= 0) continue;
        p->stopped = fds[2].revents != 0;
        if (fds[1].revents) errors = read_errors(p);
        if (fds[0].revents) frames = read_frames(p);
    }
}

/* What the child left on standard error as it died. It may have left helpers that hold the pipe
 * open, so this does not wait for its end. */
static void drain_errors(Parent *p) {
    fcntl(p->errors, F_SETFL, O_NONBLOCK);
    struct pollfd fd = {p->errors, POLLIN, 0};
    for (int i = 0; i < 64 && poll(&fd, 1, 0) > 0 && read_errors(p); i++) {
    }
    for (char *s = p->said; *s; s++)
        if ((unsigned char)*s < 32 || (unsigned char)*s == 127) *s = ' ';
}

static ChildEnd describe(const Parent *p, int status) {
    ChildEnd end = {.kind = CHILD_EXITED, .seconds = p->phase.seconds};
    snprintf(end.phase, sizeof end.phase, "%s", p->phase.what);
    snprintf(end.said, sizeof end.said, "%s", p->said);
    end.number = WIFSIGNALED(status) ? WTERMSIG(status) : WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (p->timed_out)
        end.kind = CHILD_TIMED_OUT;
    else if (p->too_large)
        end.kind = CHILD_TOO_LARGE;
    else if (p->stopped)
        end.kind = CHILD_STOPPED;
    else if (p->nonsense)
        end.kind = CHILD_NONSENSE;
    else if (WIFSIGNALED(status))
        end.kind = CHILD_SIGNALED;
    else if (p->ended && end.number == 0)
        end.kind = CHILD_WELL;
    return end;
}

/* All of a session, also what is in groups of its own; again, as one may have forked meanwhile. */
static void end_session(pid_t session) {
    for (int round = 0; round < 8; round++) {
        DIR *processes = opendir("/proc");
        bool any = false;
        for (struct dirent *e; processes && (e = readdir(processes));) {
            pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
            if (pid > 0 && pid != session && getsid(pid) == session) any |= kill(pid, SIGKILL) == 0;
        }
        if (processes) closedir(processes);
        if (!any) return;
        poll(NULL, 0, 1);
    }
}

/* The whole group goes when the child has not ended well: compilers that it started, too. */
static int reap(Parent *p) {
    int status = 0;
    if (!p->ended) kill(-p->pid, SIGKILL);
    bool killed = p->timed_out || p->nonsense || p->too_large || p->stopped;
    if (killed) kill(p->pid, SIGKILL);
    siginfo_t info;
    if (p->spec->session && (killed || !p->ended)) {
        /* While it is not reaped nobody else gets its number. */
        waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOWAIT);
        end_session(p->pid);
    }
    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR) {
    }
    kill(-p->pid, SIGKILL);
    return status;
}

/* A child that closed its pipe by dying has a signal to tell; one that merely closed it has not. */
static void await_death(Parent *p) {
    for (int i = 0; i < 200 && !p->ended && !is_dead(p->pid); i++) poll(NULL, 0, 10);
}

static ChildEnd parent_main(Parent *p) {
    Phase first = {.seconds = CHILD_PATIENCE, .what = "the start"};
    set_phase(p, &first);
    listen_to_child(p);
    if (!p->timed_out && !p->nonsense && !p->too_large && !p->stopped) await_death(p);
    int status = reap(p);
    drain_errors(p);
    return describe(p, status);
}

static ChildEnd not_started(int error) {
    return (ChildEnd){.kind = CHILD_NOT_STARTED, .number = error};
}

static void drop_child(void *ctx) {
    Parent *p = ctx;
    p->stopped = true;
    reap(p);
    close(p->frames);
    close(p->errors);
    free(p);
}

static ChildEnd start(Parent *p, int frames[2], int errors[2]) {
    fflush(NULL); /* else the child would print what is buffered here again */
    pid_t parent = getpid();
    p->pid = fork();
    if (p->pid == 0) child_main(p->spec, frames[1], errors[1], parent);
    int error = errno;
    close(frames[1]);
    close(errors[1]);
    if (p->pid < 0) return not_started(error);
    if (!p->spec->session) setpgid(p->pid, p->pid);
    p->frames = frames[0];
    p->errors = errors[0];
    MemoryUndo drop; /* where memory runs out in what takes the frames */
    memory_push(&drop, drop_child, p);
    ChildEnd end = parent_main(p);
    memory_pop(&drop);
    return end;
}

ChildEnd child_run(const ChildSpec *spec) {
    int frames[2], errors[2];
    if (pipe2(frames, O_CLOEXEC) != 0) return not_started(errno);
    if (pipe2(errors, O_CLOEXEC) != 0) {
        int error = errno;
        close(frames[0]);
        close(frames[1]);
        return not_started(error);
    }
    Parent *p = calloc(1, sizeof *p);
    if (p) p->spec = spec;
    ChildEnd end = p ? start(p, frames, errors) : not_started(ENOMEM);
    if (!p) {
        close(frames[1]);
        close(errors[1]);
    }
    free(p);
    close(frames[0]);
    close(errors[0]);
    return end;
}
