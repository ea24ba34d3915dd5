// Runs a command and writes the processor seconds of its processes to standard error, the last line there:
// tests/run.py gives it to meson as the wrapper of every test. Status and signal are the command's.
#include <signal.h>
#include <stdio.h>
#include <string.h>
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

int main(int count, char **arguments) {
    if (count < 2) return 127;
    pid_t child = fork();
    if (child == 0) {
        execvp(arguments[1], arguments + 1);
        perror(arguments[1]);
        _exit(127);
    }
    int status = 0;
    struct rusage used;
    memset(&used, 0, sizeof used);
    if (child < 0 || wait4(child, &status, 0, &used) < 0) return 127;
    fprintf(stderr, "\nprocessor seconds: %.2f\n", seconds(used.ru_utime) + seconds(used.ru_stime));
    return end_alike(status);
}
