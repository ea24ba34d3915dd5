#include "fail.h"

#include <stdarg.h>
#include <stdio.h>

int fail(int status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("sketchc: ", stderr);
    vfprintf(stderr, format, args);
    fputs("\n", stderr);
    va_end(args);
    return status;
}
