/* How the driver says that something cannot be done. */
#ifndef TOOLS_FAIL_H
#define TOOLS_FAIL_H

#include "support.h"

/* Prints "sketchc: ..." and a line end to standard error; returns `status`. */
int fail(int status, const char *format, ...) PRINTF_LIKE(2, 3);
/* Has all that was printed reached standard output? If not that is said, once; returns `status`, or 2 in place of 0. */
int fail_output(int status);

/* Where memory runs out outside of the library's calls, the program says so and ends with SKETCHC_OUT_OF_MEMORY. */
void fail_without_memory(const char *program);
/* Tests only: the allocation of that number from here on is refused. */
void fail_allocation(long number);

#endif
