/* What a judge does with a candidate: format, compile, verify, time. Requests and answers are JSON objects. */
#ifndef SEARCH_WORK_H
#define SEARCH_WORK_H

#include "pool.h"

/* Tasks: "format" (the text in the one style), "judge" (small cases, then the time), "verify" (all cases and
 * ragged sizes), "time", "choose" (the case with the most bytes), "shapes" (the time at every case), "sketch" (judge_sketch). */
void search_work(const char *request, size_t size, ChildChannel *channel, Str *answer);

#endif
