/* A process of its own tells: the library forks, which no thread should stand beside, and a step that takes long says nothing while
 * it runs. */
#define _GNU_SOURCE /* MSG_NOSIGNAL */
#include "progress.h"

#include "support.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SILENT_MS = 2000, TERMINAL_MS = 500, LINES_MS = 5000, MOST_TEXT = 200, MOST_COLUMNS = 79 };

typedef struct {
    const char *command;
    bool terminal, shown;
    int64_t began, next; /* milliseconds */
    char doing[MOST_TEXT + 1];
} Teller;

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void show(Teller *t) {
    char line[MOST_TEXT + 64];
    int64_t now = now_ms();
    int length = snprintf(line, sizeof line, "sketchc: %s, %lld s: %s", t->command, (long long)((now - t->began) / 1000), t->doing);
    if (t->terminal && length > MOST_COLUMNS) length = MOST_COLUMNS; /* a longer one could not be taken away */
    if (t->terminal)
        fprintf(stderr, "\r\033[K%.*s", length, line);
    else
        fprintf(stderr, "%s\n", line);
    fflush(stderr);
    t->shown = true;
    t->next = now + (t->terminal ? TERMINAL_MS : LINES_MS);
}

/* Names of kernels and cases come from files: nothing that moves a cursor. */
static void take(Teller *t, const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) t->doing[i] = text[i] >= ' ' && text[i] != 127 ? text[i] : '?';
    t->doing[size] = '\0';
}

/* Until the word to end, "", or the end of who sends. */
static void listen_and_tell(Teller *t, int from) {
    char text[MOST_TEXT];
    for (;;) {
        int64_t left = t->next - now_ms();
        struct pollfd in = {from, POLLIN, 0};
        if (left <= 0 && t->doing[0]) show(t);
        int n = poll(&in, 1, left > 0 ? (int)left : TERMINAL_MS);
        if (n < 0 && errno != EINTR) return;
        if (n <= 0) continue;
        ssize_t size = recv(from, text, sizeof text, 0);
        if (size <= 0) return;
        take(t, text, (size_t)size);
    }
}

static _Noreturn void tell(const char *command, int from, pid_t parent) {
    Teller t = {.command = command, .terminal = isatty(STDERR_FILENO), .began = now_ms()};
    t.next = t.began + SILENT_MS;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) listen_and_tell(&t, from);
    if (t.terminal && t.shown) fprintf(stderr, "\r\033[K");
    fflush(stderr);
    _exit(0);
}

void progress_begin(Progress *p, const char *command, bool wanted) {
    int ends[2];
    *p = (Progress){-1, -1};
    if (!wanted || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
    fflush(stderr);
    pid_t self = getpid(), process = fork();
    if (process == 0) {
        close(ends[0]);
        tell(command, ends[1], self);
    }
    close(ends[1]);
    if (process > 0)
        *p = (Progress){ends[0], process};
    else
        close(ends[0]);
}

void progress_say(void *progress, const char *doing) {
    const Progress *p = progress;
    size_t size = strnlen(doing, MOST_TEXT);
    if (p->to >= 0 && size) (void)!send(p->to, doing, size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void progress_end(Progress *p) {
    if (p->to < 0) return;
    shutdown(p->to, SHUT_WR); /* ends it, though children of the library may hold this end, too */
    while (waitpid(p->process, NULL, 0) < 0 && errno == EINTR) continue;
    close(p->to);
    *p = (Progress){-1, -1};
}
