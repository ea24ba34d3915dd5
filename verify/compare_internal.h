#ifndef VERIFY_COMPARE_INTERNAL_H
#define VERIFY_COMPARE_INTERNAL_H

#include "naive.h"

/* Above this share of near ties that came out otherwise the case is refused; so many always pass, but of EITHER no more than
 * an eighth of the elements. */
#define COMPARE_UNDECIDED_SHARE 1e-3
/* Of the steps whose two neighbours the bound straddles: errors of rms r of the bound cross the tie in no more than r / 2 of them. */
#define COMPARE_STEP_SHARE (VERIFY_RMS_FIGURE / 2)
enum { COMPARE_UNDECIDED_FLOOR = 4, COMPARE_STEP_FLOOR = 8 };
enum { COMPARE_RMS_MIN_COUNT = 64 }; /* fewer elements have no meaningful rms */

double compare_paper_tau(Dtype dtype);

/* What differs from the naive form (compare_all.c). */
typedef struct {
    Samples suspects; /* those that differ most; `flat` is on the heap */
    double within;    /* the others differ by at most so many roundings of the dtype */
    bool all;         /* no other differs by more */
} NaiveDifferences;
/* Up to `limit` suspects, none among `known`. False: out of memory. */
bool compare_with_naive(const Naive *naive, unsigned output, const void *got, const Samples *known, size_t limit, unsigned threads,
                        NaiveDifferences *found);
/* Does the naive form say what the evaluator does of an element? */
bool naive_agrees(const Naive *naive, unsigned output, int64_t index, double value, int64_t integer, double bound);

/* True when the poison pattern cannot be an honest result of this dtype. */
bool poison_is_distinctive(Dtype dtype);
bool poison_at(Dtype dtype, unsigned round, const void *element);

#endif
