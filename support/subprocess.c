#define _GNU_SOURCE /* pipe2, addclosefrom_np */
#include "memory.h"
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { DEFAULT_OUTPUT_LIMIT = 1 << 20, POLL_MS = 50 };
enum { TO_STDIN, FROM_STDOUT, FROM_STDERR, STREAMS };

typedef struct {
    const SubprocessSpec *spec;
    SubprocessResult *result;
    int parent[STREAMS], child[STREAMS]; /* -1: closed */
    size_t sent;
    pid_t pid;
    double deadline; /* seconds of the monotonic clock */
} Run;

double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void close_fd(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static void close_all(int fds[STREAMS]) {
    for (int i = 0; i < STREAMS; i++) close_fd(&fds[i]);
}

/* A caller that closed its standard streams gets pipes numbered 0 to 2, which the child's dup2
 * calls would overwrite. */
static bool move_above_standard(int *fd) {
    if (*fd > STDERR_FILENO) return true;
    int moved = fcntl(*fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close_fd(fd);
    *fd = moved;
    return moved >= 0;
}

static bool open_pipe(Run *run, int stream) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    int child_end = stream == TO_STDIN ? 0 : 1;
    run->child[stream] = ends[child_end];
    run->parent[stream] = ends[1 - child_end];
    if (!move_above_standard(&run->child[stream])) return false;
    if (!move_above_standard(&run->parent[stream])) return false;
    return fcntl(run->parent[stream], F_SETFL, O_NONBLOCK) == 0;
}

static bool is_name_of(const char *entry, const char *name) {
    size_t length = strlen(name);
    return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

static bool is_kept(const char *entry, const char *const *keep) {
    for (unsigned i = 0; i < ENV_COUNT; i++)
        if (env_is_secret((EnvId)i) && is_name_of(entry, env_name((EnvId)i))) return false;
    while (keep && *keep && !is_name_of(entry, *keep)) keep++;
    return !keep || *keep;
}

static bool is_replaced(const char *entry, const char *const *more) {
    size_t length = strcspn(entry, "=") + 1;
    while (more && *more && strncmp(*more, entry, length) != 0) more++;
    return more && *more;
}

/* The kept part of the environment, with `more` (null: nothing) in place of equal names; the array is the
 * caller's, the strings are environ's and more's. */
static char **filter_environment(const char *const *keep, const char *const *more) {
    size_t count = 0, added = 0, kept = 0;
    while (environ[count]) count++;
    while (more && more[added]) added++;
    char **filtered = calloc(count + added + 1, sizeof *filtered);
    for (size_t i = 0; filtered && i < count; i++)
        if (is_kept(environ[i], keep) && !is_replaced(environ[i], more)) filtered[kept++] = environ[i];
    for (size_t i = 0; filtered && i < added; i++) filtered[kept++] = (char *)(uintptr_t)more[i];
    return filtered;
}

static int set_actions(posix_spawn_file_actions_t *actions, const Run *run) {
    int error = 0;
    for (int i = 0; !error && i < STREAMS; i++)
        error = run->child[i] < 0 ? posix_spawn_file_actions_addopen(actions, i, "/dev/null", i == TO_STDIN ? O_RDONLY : O_WRONLY, 0)
                                  : posix_spawn_file_actions_adddup2(actions, run->child[i], i);
    /* Descriptors that the host program did not mark close-on-exec are no business of the child. */
    if (!error) error = posix_spawn_file_actions_addclosefrom_np(actions, 3);
    return error;
}

/* Own process group; no blocked signals and default handling of what the driver may ignore. */
static int set_attributes(posix_spawnattr_t *attributes) {
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGINT);
    sigaddset(&defaults, SIGXFSZ);
    posix_spawnattr_setpgroup(attributes, 0);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setsigdefault(attributes, &defaults);
    return posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

/* posix_spawnp takes `char *const []` for history's sake and writes to neither array. */
static int spawn(Run *run, char **environment) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (error) return error;
    error = posix_spawnattr_init(&attributes);
    if (!error) {
        error = set_actions(&actions, run);
        if (!error) error = set_attributes(&attributes);
        char *const *argv = (char *const *)(uintptr_t)run->spec->argv;
        if (!error) error = posix_spawnp(&run->pid, argv[0], &actions, &attributes, argv, environment);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static bool start(Run *run) {
    bool ok = true;
    if (run->spec->input) ok = open_pipe(run, TO_STDIN);
    ok = ok && open_pipe(run, FROM_STDOUT) && open_pipe(run, FROM_STDERR);
    int error = ok ? 0 : errno;
    if (!error) {
        char **filtered = filter_environment(run->spec->env_keep, NULL);
        error = filtered ? spawn(run, filtered) : ENOMEM;
        free(filtered);
    }
    close_all(run->child);
    if (error) close_all(run->parent);
    errno = error;
    return !error;
}

/* Writes what the pipe takes. The child may have closed it: SIGPIPE is blocked for this thread and
 * taken back, since the process's signal handling is not ours to change. */
static void feed(Run *run) {
    sigset_t pipe_signal, before, pending;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigpending(&pending);
    bool was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    size_t rest = run->spec->input_size - run->sent;
    ssize_t put = rest ? write(run->parent[TO_STDIN], run->spec->input + run->sent, rest) : 0;
    int error = put < 0 ? errno : 0;
    if (error == EPIPE && !was_pending)
        while (sigtimedwait(&pipe_signal, NULL, &(struct timespec){0, 0}) < 0 && errno == EINTR) {
        }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (put > 0) run->sent += (size_t)put;
    bool later = error == EAGAIN || error == EINTR;
    if (run->sent == run->spec->input_size || (error && !later)) close_fd(&run->parent[TO_STDIN]);
}

/* Reads what is there, keeps what fits. */
static void drain(Run *run, int stream) {
    Str *into = stream == FROM_STDOUT ? &run->result->out : &run->result->err;
    size_t limit = run->spec->output_limit ? run->spec->output_limit : DEFAULT_OUTPUT_LIMIT;
    char block[8192];
    for (int round = 0; round < 16 && run->parent[stream] >= 0; round++) {
        ssize_t got = read(run->parent[stream], block, sizeof block);
        if (got > 0) {
            size_t room = limit - into->len;
            str_append_n(into, block, (size_t)got < room ? (size_t)got : room);
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            close_fd(&run->parent[stream]);
        } else {
            return;
        }
    }
}

static void exchange(Run *run, int wait_ms) {
    struct pollfd polls[STREAMS];
    for (int i = 0; i < STREAMS; i++) polls[i] = (struct pollfd){run->parent[i], i == TO_STDIN ? POLLOUT : POLLIN, 0};
    if (poll(polls, STREAMS, wait_ms) <= 0) return;
    if (polls[TO_STDIN].revents) feed(run);
    if (polls[FROM_STDOUT].revents) drain(run, FROM_STDOUT);
    if (polls[FROM_STDERR].revents) drain(run, FROM_STDERR);
}

/* Leaves the child unreaped, so that its pid and group stay ours until the group is killed. */
static bool has_ended(const Run *run) {
    siginfo_t info = {0};
    int status = waitid(P_PID, (id_t)run->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    return (status == 0 && info.si_pid == run->pid) || (status < 0 && errno == ECHILD);
}

static bool must_stop(Run *run) {
    const atomic_int *cancel = run->spec->cancel;
    run->result->cancelled = cancel && atomic_load(cancel);
    run->result->timed_out = !run->result->cancelled && seconds_now() >= run->deadline;
    return run->result->cancelled || run->result->timed_out;
}

static void wait_for_end(Run *run) {
    int idle_ms = 0;
    while (!has_ended(run)) {
        if (must_stop(run)) return;
        bool open = run->parent[FROM_STDOUT] >= 0 || run->parent[FROM_STDERR] >= 0;
        double left_ms = 1e3 * (run->deadline - seconds_now());
        if (left_ms < 1) left_ms = 1;
        int wait_ms = left_ms < (double)POLL_MS ? (int)left_ms : POLL_MS;
        /* With the output closed the end is near: look again soon, but not in a busy loop. */
        if (!open) wait_ms = idle_ms < 10 ? idle_ms++ : 10;
        exchange(run, wait_ms);
    }
}

static void finish(Run *run) {
    kill(-run->pid, SIGKILL);
    /* What the child wrote before its end is in the pipes; a process that escaped from the group
     * may hold them open, hence no waiting for the end of file. */
    if (!run->result->timed_out && !run->result->cancelled)
        for (int stream = FROM_STDOUT; stream < STREAMS; stream++)
            for (int i = 0; i < 64 && run->parent[stream] >= 0; i++) drain(run, stream);
    close_all(run->parent);
    int status = 0;
    pid_t reaped;
    do reaped = waitpid(run->pid, &status, 0);
    while (reaped < 0 && errno == EINTR);
    if (reaped < 0) return; /* the caller ignores SIGCHLD: the status is lost, so neither flag */
    run->result->exited = WIFEXITED(status);
    run->result->signaled = WIFSIGNALED(status);
    if (run->result->exited) run->result->exit_status = WEXITSTATUS(status);
    if (run->result->signaled) run->result->signal = WTERMSIG(status);
}

static void drop(void *ctx) {
    Run *run = ctx;
    kill(-run->pid, SIGKILL);
    close_all(run->parent);
    while (waitpid(run->pid, NULL, 0) < 0 && errno == EINTR) {
    }
}

bool subprocess_run(const SubprocessSpec *spec, SubprocessResult *result) {
    *result = (SubprocessResult){0};
    str_init(&result->out);
    str_init(&result->err);
    double deadline = spec->timeout_s > 0 ? seconds_now() + spec->timeout_s : 1e300;
    Run run = {.spec = spec, .result = result, .parent = {-1, -1, -1}, .child = {-1, -1, -1}, .deadline = deadline};
    if (!start(&run)) return false;
    MemoryUndo undo; /* memory may run out in what is read */
    memory_push(&undo, drop, &run);
    wait_for_end(&run);
    finish(&run);
    memory_pop(&undo);
    return true;
}

bool subprocess_start(const char *const *argv, const int streams[3], const char *const *more, pid_t *pid) {
    SubprocessSpec spec = {.argv = argv};
    Run run = {.spec = &spec, .child = {streams[0], streams[1], streams[2]}};
    char **environment = filter_environment(NULL, more);
    int error = environment ? spawn(&run, environment) : ENOMEM;
    free(environment);
    *pid = run.pid;
    errno = error;
    return !error;
}

void subprocess_release(SubprocessResult *result) {
    str_release(&result->out);
    str_release(&result->err);
}
