// Runs a command and writes the processor seconds of its processes to standard error, the last line there:
// tests/run.py gives it to meson as the wrapper of every test. Status and signal are the command's.
// Those whose parent ended before them are counted, too: they become children of this process.
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static double seconds(struct timeval t) {
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static int end_alike(int status) {
    if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
    return 128 + WTERMSIG(status);
}

/* Until the command ends, then of what has ended by then; false if there is no such child. */
static bool wait_for(pid_t command, int *status, double *used) {
    bool ended = false;
    for (;;) {
        struct rusage one;
        memset(&one, 0, sizeof one);
        int said = 0;
        pid_t pid = wait4(-1, &said, ended ? WNOHANG : 0, &one);
        if (pid <= 0) return ended;
        *used += seconds(one.ru_utime) + seconds(one.ru_stime);
        if (pid != command) continue;
        *status = said;
        ended = true;
    }
}

int main(int count, char **arguments) {
    if (count < 2) return 127;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t child = fork();
    if (child == 0) {
        execvp(arguments[1], arguments + 1);
        perror(arguments[1]);
        _exit(127);
    }
    int status = 0;
    double used = 0;
    if (child < 0 || !wait_for(child, &status, &used)) return 127;
    fprintf(stderr, "\nprocessor seconds: %.2f\n", used);
    return end_alike(status);
}
