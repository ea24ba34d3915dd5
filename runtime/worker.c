#define _GNU_SOURCE /* pipe2 */
#include "worker.h"

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
enum { FRAME_MAGIC = 0x534b5746, FRAME_DATA = 1, FRAME_PHASE, FRAME_END, KEPT_ERRORS = 400 };
typedef struct {
    uint32_t magic, kind, size, padding;
    uint64_t hash;
} FrameHead;
typedef struct {
    double seconds;
    char what[RT_NAME];
} Phase;

struct WorkerChannel {
    int fd;
};

/* ---- Child ---- */

static void send_frame(WorkerChannel *channel, uint32_t kind, const void *data, size_t size) {
    FrameHead head = {FRAME_MAGIC, kind, (uint32_t)size, 0,
                      hash128(data, size, (Hash128){kind, size}).lo};
    unsigned char buffer[sizeof head + WORKER_MAX_FRAME];
    if (size > WORKER_MAX_FRAME) _exit(5);
    memcpy(buffer, &head, sizeof head);
    memcpy(buffer + sizeof head, data, size);
    for (size_t done = 0; done < sizeof head + size;) {
        ssize_t n = write(channel->fd, buffer + done, sizeof head + size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) _exit(5); /* nobody listens any more */
        done += (size_t)n;
    }
}

void worker_send(WorkerChannel *channel, const void *data, size_t size) {
    send_frame(channel, FRAME_DATA, data, size);
}

void worker_phase(WorkerChannel *channel, double seconds, const char *what) {
    Phase phase;
    memset(&phase, 0, sizeof phase);
    phase.seconds = seconds;
    rt_copy(phase.what, sizeof phase.what, what);
    send_frame(channel, FRAME_PHASE, &phase, sizeof phase);
}

static void reset_signals(void) {
    struct sigaction deflt;
    memset(&deflt, 0, sizeof deflt);
    deflt.sa_handler = SIG_DFL;
    for (int s = 1; s < NSIG; s++) sigaction(s, &deflt, NULL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void child_main(const WorkerSpec *spec, int fd, int errors, pid_t parent) {
    setpgid(0, 0);
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
    WorkerChannel channel = {fd};
    spec->work(spec->ctx, &channel);
    send_frame(&channel, FRAME_END, "", 0);
    _exit(0);
}

/* ---- Parent ---- */

typedef struct {
    const WorkerSpec *spec;
    pid_t pid;
    int frames, errors;
    unsigned char buffer[sizeof(FrameHead) + WORKER_MAX_FRAME];
    size_t filled;
    double deadline;
    Phase phase;
    char said[KEPT_ERRORS + 1]; /* the end of the child's standard error */
    size_t said_len;
    bool ended, nonsense, timed_out;
} Parent;

static void set_phase(Parent *p, const Phase *phase) {
    p->phase = *phase;
    p->phase.what[RT_NAME - 1] = '\0';
    if (!(p->phase.seconds > 0 && p->phase.seconds < 1e6)) p->phase.seconds = WORKER_PATIENCE;
    p->deadline = rt_now() + p->phase.seconds;
}

static void take_frame(Parent *p, const FrameHead *head, const unsigned char *data) {
    Phase phase;
    if (head->kind == FRAME_END) {
        p->ended = true;
    } else if (head->kind == FRAME_PHASE && head->size == sizeof phase) {
        memcpy(&phase, data, sizeof phase);
        set_phase(p, &phase);
    } else if (head->kind == FRAME_DATA) {
        Phase rest = {.seconds = WORKER_PATIENCE, .what = "the next step"};
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
        if (head.magic != FRAME_MAGIC || head.size > WORKER_MAX_FRAME) {
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
    char part[KEPT_ERRORS];
    ssize_t n = read(p->errors, part, sizeof part);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (n <= 0) return false;
    size_t add = (size_t)n, keep = p->said_len;
    if (keep > KEPT_ERRORS - add) keep = KEPT_ERRORS - add;
    memmove(p->said, p->said + p->said_len - keep, keep);
    memcpy(p->said + keep, part, add);
    p->said_len = keep + add;
    p->said[p->said_len] = '\0';
    return true;
}

static void listen_to_child(Parent *p) {
    bool frames = true, errors = true;
    while (frames && !p->nonsense) {
        double left = p->deadline - rt_now();
        if (left <= 0) {
            p->timed_out = true;
            return;
        }
        struct pollfd fds[2] = {{p->frames, POLLIN, 0}, {errors ? p->errors : -1, POLLIN, 0}};
        int n = poll(fds, 2, left > 1 ? 1000 : (int)(left * 1000) + 1);
        if (n < 0 && errno != EINTR) return;
        if (n <= 0) continue;
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

static RtError signal_status(const Parent *p, int signal) {
    const char *what = p->phase.what;
    switch (signal) {
    case SIGSEGV:
    case SIGBUS:
        return rt_error(RT_FAULT, "invalid memory access (signal %d) during %s", signal, what);
    case SIGILL:
        return rt_error(RT_FAULT, "illegal instruction during %s", what);
    case SIGFPE:
        return rt_error(RT_FAULT, "arithmetic trap during %s", what);
    case SIGABRT:
        return rt_error(RT_ABORT, "the worker aborted during %s: %.300s", what, p->said);
    case SIGKILL:
        return rt_error(RT_MISSING, "the worker was killed from outside during %s (out of memory?)",
                        what);
    default:
        return rt_error(RT_ABORT, "the worker was ended by signal %d during %s", signal, what);
    }
}

static RtError end_status(const Parent *p, int status) {
    if (p->timed_out)
        return rt_error(RT_HANG, "%s did not end within %g s", p->phase.what, p->phase.seconds);
    if (p->nonsense)
        return rt_error(RT_FAULT, "the worker's memory was damaged during %s: it sent nonsense",
                        p->phase.what);
    if (WIFSIGNALED(status)) return signal_status(p, WTERMSIG(status));
    if (p->ended && WIFEXITED(status) && WEXITSTATUS(status) == 0) return rt_ok();
    return rt_error(RT_ABORT, "the worker exited with status %d during %s: %.300s",
                    WIFEXITED(status) ? WEXITSTATUS(status) : -1, p->phase.what, p->said);
}

/* The whole group goes when the child has not ended well: compilers that it started, too. */
static int reap(Parent *p) {
    int status = 0;
    if (!p->ended) kill(-p->pid, SIGKILL);
    if (p->timed_out || p->nonsense) kill(p->pid, SIGKILL);
    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR) {
    }
    kill(-p->pid, SIGKILL);
    return status;
}

/* A child that closed its pipe by dying has a signal to tell; one that merely closed it has not. */
static void await_death(Parent *p) {
    siginfo_t info;
    for (int i = 0; i < 200 && !p->ended; i++) {
        info.si_pid = 0;
        if (waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid != 0)
            return;
        poll(NULL, 0, 10);
    }
}

static RtError parent_main(Parent *p) {
    Phase first = {.seconds = WORKER_PATIENCE, .what = "the start"};
    set_phase(p, &first);
    listen_to_child(p);
    if (!p->timed_out && !p->nonsense) await_death(p);
    int status = reap(p);
    drain_errors(p);
    return end_status(p, status);
}

RtError worker_run(const WorkerSpec *spec) {
    int frames[2], errors[2];
    if (pipe2(frames, O_CLOEXEC) != 0)
        return rt_error(RT_MISSING, "cannot make a pipe: %s", strerror(errno));
    if (pipe2(errors, O_CLOEXEC) != 0) {
        close(frames[0]);
        close(frames[1]);
        return rt_error(RT_MISSING, "cannot make a pipe: %s", strerror(errno));
    }
    fflush(NULL); /* else the child would print what is buffered here again */
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) child_main(spec, frames[1], errors[1], parent);
    close(frames[1]);
    close(errors[1]);
    RtError e =
        pid < 0 ? rt_error(RT_MISSING, "cannot start a worker: %s", strerror(errno)) : rt_ok();
    if (pid > 0) {
        setpgid(pid, pid);
        Parent *p = calloc(1, sizeof *p);
        if (p) {
            p->spec = spec;
            p->pid = pid;
            p->frames = frames[0];
            p->errors = errors[0];
            e = parent_main(p);
        } else {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
            e = rt_error(RT_MISSING, "out of memory");
        }
        free(p);
    }
    close(frames[0]);
    close(errors[0]);
    return e;
}
