/* What is left of a crash of the compiler itself: a file that repeats it, and exit status 5. */
#ifndef TOOLS_CRASH_H
#define TOOLS_CRASH_H

#include <stddef.h>

/* From here on a crash writes `source`, and once crash_have_ir was called that text instead, into
 * the current folder and ends the process with status 5. `command` is what was asked for, one line.
 * All stay alive until crash_unguard. */
void crash_guard(const char *command, const char *source, size_t size);
/* Fits sketchc_options.on_reproducer. */
void crash_have_ir(void *context, const char *text, size_t size);
void crash_unguard(void);
/* SIGINT, SIGTERM and SIGHUP end the process with status 130, unless it was started with the signal ignored (nohup). */
void crash_on_interrupt(void);

#endif
