/* judge_sketch in a process of its own. */
#ifndef SEARCH_JUDGE_APART_H
#define SEARCH_JUDGE_APART_H

#include "conductor.h"
#include "json.h"
#include "pool.h"

/* As judge_sketch, which a candidate cannot end: where the compiler crashes or grows without end the failure is BUG,
 * where it hangs TIMEOUT. False: stopped by *cancel or the deadline, or no judge can be had; `j` says nothing of the sketch. */
bool judge_apart(Pool *pool, const JudgeOptions *options, const char *sketch, const atomic_int *cancel, Judgement *j);

/* A judgement as JSON, with the artifact or without; `j` is as judgement_init leaves it where one is read. */
void judgement_write(const Judgement *j, bool artifact, Str *out);
bool judgement_read(const char *text, size_t size, Judgement *j);

/* In the judge: does such an order; `text` gets the judgement. */
void judge_order(const Json *order, ChildChannel *channel, Str *text);

#endif
