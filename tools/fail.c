#include "fail.h"
#include "memory.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STATUS_USAGE = 2, STATUS_NO_MEMORY = 6 };

static const char *program_name;
static long until_refused;

int fail(int status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("sketchc: ", stderr);
    vfprintf(stderr, format, args);
    fputs("\n", stderr);
    va_end(args);
    return status;
}

int fail_output(int status) {
    static bool said;
    errno = 0;
    bool lost = fflush(stdout) != 0, before = ferror(stdout);
    if (!lost && !before) return status;
    /* Where an earlier write failed, its reason is gone. */
    if (!said)
        fail(0, "cannot write to standard output%s%s; where the command knows it, -o FILE names a file", errno ? ": " : "",
             errno ? strerror(errno) : "");
    said = true;
    return status ? status : STATUS_USAGE;
}

/* Without stdio, which may want memory. */
static void end_program(void) {
    static const char said[] = ": out of memory\n";
    (void)!write(STDERR_FILENO, program_name, strlen(program_name));
    (void)!write(STDERR_FILENO, said, sizeof said - 1);
    _exit(STATUS_NO_MEMORY);
}

void fail_without_memory(const char *program) {
    program_name = program;
    memory_program_ends = end_program;
}

static bool is_refused(void) {
    return --until_refused == 0;
}

void fail_allocation(long number) {
    until_refused = number;
    memory_refuse = is_refused;
}
