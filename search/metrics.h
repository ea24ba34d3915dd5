/* The figures by which searches are compared, as the AKG Kernel Agent paper defines them. A figure that cannot be had from
 * the numbers given (no tasks, a time that is not positive, ...) is NAN: not known is not 0. */
#ifndef SEARCH_METRICS_H
#define SEARCH_METRICS_H

#include <stddef.h>

/* One task: `samples` answers, of which `correct` were verified. */
typedef struct {
    unsigned samples, correct;
} MetricsTask;

/* Eq. 4 for one task: the chance that of k answers, drawn without putting back, one is right:
 * 1 - C(n-c, k) / C(n, k). Unbiased for n >= k; NAN for fewer samples than k, k = 0 or correct > samples. */
double metrics_pass_at(MetricsTask task, unsigned k);
/* The mean over tasks; NAN when there is none or one has none. */
double metrics_mean_pass_at(const MetricsTask *tasks, size_t count, unsigned k);

/* Eq. 5: how many times faster than the baseline. */
double metrics_speedup(double base_seconds, double seconds);
/* Eq. 6: the part of all `count` tasks whose speedup is at least p. A task without a right answer has the speedup 0 (or
 * NAN) and counts as one that is not fast. */
double metrics_fast(const double *speedups, size_t count, double p);
/* Eq. 11: the geometric mean of the positive speedups; tasks without one (0 or NAN) are left out, so it is
 * to be told beside how many were solved. */
double metrics_geometric_mean(const double *speedups, size_t count);

/* How evenly a kernel keeps up over dynamic shapes. Each shape's efficiency is what it reaches of a bound (floor over
 * measured time) or its speedup: anything where more is better. */
typedef struct {
    double least, mean, worst_of_best; /* mean: geometric; worst_of_best: least / largest, 1 is perfectly even */
    double covered;                    /* part of the shapes that ran at all */
} MetricsRobustness;
MetricsRobustness metrics_robustness(const double *efficiencies, size_t count);

/* Questions to a model. Negative counts and costs are not known; a sum with one of them is. */
typedef struct {
    size_t calls, without_tokens, without_cost;
    double tokens_in, tokens_out, tokens_cached, cost; /* of those that are known */
} MetricsUse;
void metrics_add_call(MetricsUse *use, double tokens_in, double tokens_out, double tokens_cached, double cost);

#endif
