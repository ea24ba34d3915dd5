/* How the driver says that something cannot be done. */
#ifndef TOOLS_FAIL_H
#define TOOLS_FAIL_H

#include "support.h"

/* Prints "sketchc: ..." and a line end to standard error; returns `status`. */
int fail(int status, const char *format, ...) PRINTF_LIKE(2, 3);
/* Has all that was printed reached standard output? If not that is said, once; returns `status`, or 2 in place of 0. */
int fail_output(int status);

#endif
