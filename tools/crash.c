#include "crash.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STATUS_BUG = 5, STATUS_INTERRUPTED = 130, STACK = 1 << 16 };

/* The handler may do nothing but system calls: all that it writes lies ready here. */
typedef struct {
    const char *command, *file;
    const char *text;
    size_t size;
} Ready;
static Ready ready;
static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

static void put(int fd, const char *text, size_t size) {
    while (size) {
        ssize_t n = write(fd, text, size);
        if (n <= 0) return;
        text += n;
        size -= (size_t)n;
    }
}

static void put_text(int fd, const char *text) {
    put(fd, text, strlen(text));
}

static void on_crash(int number) {
    (void)number;
    unlink(ready.file);
    int fd = open(ready.file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    put_text(STDERR_FILENO, "sketchc: internal error: the compiler crashed; this is a bug of "
                            "sketchc, please report it");
    if (fd >= 0) {
        put(fd, ready.text, ready.size);
        put_text(fd, "\n# crashed: ");
        put_text(fd, ready.command);
        put_text(fd, "\n");
        close(fd);
        put_text(STDERR_FILENO, " with ");
        put_text(STDERR_FILENO, ready.file);
    }
    put_text(STDERR_FILENO, "\n");
    _exit(STATUS_BUG);
}

static void set_handlers(void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) sigaction(signals[i], &action, NULL);
}

void crash_guard(const char *command, const char *source, size_t size) {
    static char stack[STACK]; /* the program's own may be what ran out */
    ready = (Ready){command, "sketchc-bug.sketch", source, size};
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    set_handlers(on_crash);
}

void crash_have_ir(void *context, const char *text, size_t size) {
    const char *fault = context;
    ready.file = "sketchc-bug.skir";
    ready.text = text;
    ready.size = size;
    if (fault && strcmp(fault, "segfault") == 0) raise(SIGSEGV);
    if (fault && strcmp(fault, "abort") == 0) abort();
}

void crash_unguard(void) {
    set_handlers(SIG_DFL);
}

static void on_interrupt(int number) {
    (void)number;
    _exit(STATUS_INTERRUPTED);
}

void crash_on_interrupt(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_interrupt}, before;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
}
