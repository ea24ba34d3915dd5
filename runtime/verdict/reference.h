/* The operator's naive form, compiled and run in the process that judges: nothing of the artifact enters. */
#ifndef RUNTIME_VERDICT_REFERENCE_H
#define RUNTIME_VERDICT_REFERENCE_H

#include "naive.h"

typedef struct {
    Naive *naive;    /* ready to run; null: it cannot be */
    const char *why; /* then why */
} Reference;

void reference_open(Reference *reference, Arena *arena, const Evaluator *ev, unsigned threads);
void reference_close(Reference *reference);

#endif
