#include "fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { STATUS_USAGE = 2 };

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
