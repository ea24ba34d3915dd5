#define _GNU_SOURCE /* nftw */
#include "supervise.h"

#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STATUS_INTERRUPTED = 130, ROUNDS = 200 };

static const int ends[] = {SIGINT, SIGTERM, SIGHUP};

void supervise_prepare(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    signal(SIGXFSZ, SIG_IGN);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)st, (void)kind, (void)at;
    remove(path);
    return 0;
}

/* ---- Processes ---- */

/* The parent of a process, from /proc; 0: it is gone. */
static pid_t parent_of(const char *pid) {
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0) close(fd);
    /* The name, in brackets, may hold anything. */
    const char *behind = n > 0 ? strrchr(text, ')') : NULL;
    return behind && behind[1] && behind[2] ? (pid_t)strtol(behind + 3, NULL, 10) : 0;
}

static void kill_children(void) {
    DIR *processes = opendir("/proc");
    pid_t self = getpid();
    for (struct dirent *e; processes && (e = readdir(processes));) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        if (pid > 0 && parent_of(e->d_name) == self) kill(pid, SIGKILL);
    }
    if (processes) closedir(processes);
}

/* Whose parent ends becomes a child of this process (PR_SET_CHILD_SUBREAPER): so this ends when all are gone. */
static void end_all(void) {
    for (int round = 0; round < ROUNDS; round++) {
        pid_t gone;
        kill_children();
        while ((gone = waitpid(-1, NULL, WNOHANG)) > 0) continue;
        if (gone < 0 && errno == ECHILD) return;
        poll(NULL, 0, 2);
    }
}

/* ---- Waiting ---- */

static bool is_ignored(int number) {
    struct sigaction before;
    return sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_IGN;
}

/* True: interrupted, here or there (a terminal tells both). Other children of ours were the child's, and are reaped. */
static bool wait_for_child(pid_t child, const sigset_t *all, int *status) {
    for (;;) {
        int one, number = sigwaitinfo(all, NULL);
        for (pid_t gone; (gone = waitpid(-1, &one, WNOHANG)) > 0;) {
            if (gone != child) continue;
            *status = one;
            for (size_t i = 0; i < COUNT_OF(ends); i++)
                if (WIFSIGNALED(one) && WTERMSIG(one) == ends[i]) return true;
            return false;
        }
        if (number > 0 && number != SIGCHLD) return true;
    }
}

/* As the child ended, by status or by signal. */
static _Noreturn void end_as(int status) {
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        raise(WTERMSIG(status));
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static _Noreturn void stay_behind(pid_t child, const sigset_t *all, const char *folder) {
    int status = 0;
    bool interrupted = wait_for_child(child, all, &status);
    if (interrupted) end_all();
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    if (interrupted) _exit(STATUS_INTERRUPTED);
    end_as(status);
}

void supervise_from_here(void) {
    const char *base = env_get(ENV_TMPDIR);
    char folder[512];
    sigset_t all, before;
    sigemptyset(&all);
    sigaddset(&all, SIGCHLD);
    for (size_t i = 0; i < COUNT_OF(ends); i++)
        if (!is_ignored(ends[i])) sigaddset(&all, ends[i]);
    if (!base || base[0] != '/') base = "/tmp";
    int n = snprintf(folder, sizeof folder, "%s/sketchc-run-XXXXXX", base);
    if (n < 0 || (size_t)n >= sizeof folder) return;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signal(SIGCHLD, SIG_DFL); /* ignored, it would lose statuses */
    sigprocmask(SIG_BLOCK, &all, &before);
    pid_t self = getpid(), child = mkdtemp(folder) ? fork() : -2;
    if (child > 0) stay_behind(child, &all, folder);
    if (child == 0) {
        /* What the parent does not live to remove, it cannot: but nothing goes on without it. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != self) _exit(STATUS_INTERRUPTED);
        for (size_t i = 0; i < COUNT_OF(ends); i++)
            if (!is_ignored(ends[i])) signal(ends[i], SIG_DFL);
        setenv("TMPDIR", folder, 1);
    } else if (child == -1) {
        rmdir(folder);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
}
