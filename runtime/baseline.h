/* Another program that does the same work, timed in turn with a kernel: the protocol of
 * docs/cli.md. */
#ifndef RUNTIME_BASELINE_H
#define RUNTIME_BASELINE_H

#include "runtime_internal.h"

#include <sys/types.h>

typedef struct {
    pid_t pid; /* 0: none */
    int to, from;
    char line[256]; /* what it said last */
    size_t pending; /* of line: bytes read beyond it */
    char buffer[512];
} Baseline;

/* Starts the command (words split at blanks, quotes keep them together; no shell), tells it the
 * case and waits for "ready". */
RtError baseline_start(Baseline *b, const char *command, const Binding *binding, const char *case_name, uint64_t seed, double limit_s);
/* One sample: the seconds that the program says it took. */
RtError baseline_sample(Baseline *b, double limit_s, double *seconds);
/* Closes its input, waits a little, ends it. Harmless when there is none. */
void baseline_stop(Baseline *b);

#endif
