/* Sums of floats, and the bounds of what adding them in any order may lose. */
#include "evaluate_internal.h"

#include <math.h>

/* Terms of a sum of so many of the last places of what it begins with, or fewer, are rounded one way. */
#define SMALL_TERMS 16

bool sum_repeats(const Node *node) {
    int64_t n = node->kind == NODE_SCAN ? node->shape.extents[node->axis] : node->reduced_count;
    return node->is_real && node->reduce <= REDUCE_MEAN && !node->tensor_core && n > (node->contract ? 4 : 30);
}

/* A term whose addition rounds. */
static inline void acc_round(Acc *acc, double v) {
    acc->run = v == acc->last ? acc->run + 1 : 1;
    acc->last = v;
    acc->squares += 2 * acc->run - 1;
    acc->rounding++;
    if (acc->repeats && v != 0 && fabs(v) < INFINITY) repeats_take(acc->repeats, acc->terms, v);
}

inline void acc_sum(Acc *acc, const Node *node, double v, double e) {
    acc->sum += v;
    acc->magnitude += fabs(v);
    if (fabs(v) < INFINITY) acc->finite += fabs(v);
    acc->error += e;
    if (!acc->fractional) acc->fractional = v != rint(v); /* a call on processors without it */
    acc->terms++;
    if (v != 0 || e != 0) acc_round(acc, v); /* 0 adds no rounding, and ends no run */
    if (node->tensor_core && acc->terms % BOUND_TENSOR_CORE_STEP == 0) acc->walk += fabs(acc->sum);
}

void acc_sum_lanes(Acc *acc, const Node *node, const Lanes *terms, size_t count, bool one) {
    bool certain = terms->certain;
    for (size_t l = 0; l < count; l++) {
        Acc *to = one ? acc : &acc[l];
        to->flags |= certain ? 0 : terms->tie[l] & LANE_PAST;
        acc_sum(to, node, terms->v[l], terms->e[l]);
    }
}

/* How many of n terms a kernel may add one after the other. A scan makes each of its partial sums, so in order is its plain form, and its early elements
 * are held to the bound of few terms. */
static double chain_length(const Node *node, double n) {
    if (node->kind == NODE_SCAN) return n;
    return fmin(n, node->contract ? BOUND_CONTRACT_BLOCK : BOUND_SUM_BLOCK);
}

/* Terms whose addition rounds. Those of 0 do not, but in a mean that goes along; and in products, whose factors may be split into parts by the largest of a row. */
static double rounding_terms(const Node *node, const Acc *acc) {
    return (double)(node->reduce == REDUCE_MEAN || node->contract ? acc->terms : acc->rounding);
}

/* Of the random walk that the roundings of a block of terms are, the root of the sum of squared steps. Equal terms are rounded alike: a run of k of
 * them walks k steps one way, and so do as many others as the share of equal pairs says, wherever they stand. */
static double walk_steps(const Node *node, const Acc *acc, double chain) {
    double n = rounding_terms(node, acc), part = n > 0 ? chain / n : 1;
    double alike = acc->repeats ? repeats_share(acc->repeats) : 0;
    return sqrt(fmax((acc->squares + n - (double)acc->rounding) * part, chain + alike * chain * chain));
}

static double tensor_core_bound(const Node *node, const Acc *acc) {
    double n = (double)acc->terms, chain = chain_length(node, n), magnitude = acc->finite;
    double bound = BOUND_CONTRACT_C * sqrt(chain) * node->core_unit * magnitude;
    bound += node->core_unit * fmin(acc->walk, n * magnitude) * (n > 0 ? chain / n : 1);
    return bound + (2 + node->input_unit) * node->input_unit * magnitude;
}

/* The roundings that add up in a sum of any order of blocks, at most all of a block. */
static double roundings_of(const Node *node, const Acc *acc) {
    double chain = chain_length(node, rounding_terms(node, acc)), steps = walk_steps(node, acc, chain);
    if (!node->contract) return fmin(chain, 8 + 4 * steps);
    return fmax(BOUND_CONTRACT_C * sqrt(chain), fmin(chain, BOUND_CONTRACT_C * steps));
}

/* The bound of a sum; u's share of the reference included. Infinite terms round nothing. */
static double sum_bound(const Node *node, const Acc *acc, double roundings) {
    return node->tensor_core ? tensor_core_bound(node, acc) : roundings * (node->unit + 0x1p-53) * acc->finite;
}

/* As sum_bound with x as a first term, less what it says of the others: every partial sum of its block may hold x. Terms of a few of its last places
 * do not walk: those below a half are lost one and all. */
double sum_begun_bound(const Node *node, const SumWalk *walk, double x) {
    double n = chain_length(node, (double)walk->terms), size = fabs(x), unit = node->tensor_core ? node->core_unit : node->unit;
    double last = (unit + 0x1p-53) * size, all = n * last;
    if (node->tensor_core) return (BOUND_CONTRACT_C * sqrt(n) + floor(n / BOUND_TENSOR_CORE_STEP)) * last;
    bool lost = (double)walk->magnitude < SMALL_TERMS * (double)walk->terms * last;
    return lost ? fmin(all, BOUND_SLACK * (double)walk->magnitude) : fmin(all, (double)walk->roundings * last);
}

/* What additions in a GPU's memory may lose beside: each takes two numbers and leaves one, and a
 * denormal among the three counts as zero. */
static double flushed(const Evaluator *ev, const Node *node, const Acc *acc) {
    bool f32 = node->unit == dtype_unit_roundoff(DTYPE_F32);
    return ev->flushes && f32 ? 3 * (double)acc->terms * dtype_min_normal(DTYPE_F32) : 0;
}

/* Some order of the terms has a partial sum beyond the largest number, whatever their sum is: then an infinite term is no certain
 * sum either. NaN is, of a NaN and of inf - inf, unless in doubles, too, it may be what overflowed that was infinite. */
static bool may_overflow(const Node *node, const Acc *acc, double e) {
    if (isnan(acc->magnitude)) return false;
    if (isnan(acc->sum)) return isinf(acc->finite);
    return acc->finite + (e < INFINITY ? e : 0) > node->largest * (1 + node->unit);
}

/* Whole numbers that every order adds up without rounding. Tensor cores may keep less than the precision does. */
static bool is_exact(EvalRun *run, const Node *node, const Acc *acc) {
    if (!run->ev->exact || acc->error != 0 || acc->fractional) return false;
    bool fits = acc->magnitude * (node->tensor_core ? fmax(node->unit, node->core_unit) : node->unit) <= 1;
    run->beyond |= !fits && isfinite(acc->magnitude);
    return fits;
}

/* Of whole numbers of both signs every partial sum is small, so that the mean tells their sum from the next one: times n it is off by less than a half,
 * whether the terms are added and then divided, divided and then added, or a mean goes along. */
static double mean_error(const Node *node, const Acc *acc) {
    double n = (double)acc->terms, u = node->unit + 0x1p-53, partial = fabs(acc->sum) + 2 * acc->finite / sqrt(n);
    double lost = (8 + 4 * sqrt(chain_length(node, n))) * u * partial;
    return (fmax(0.5, lost) + 4 * u * acc->finite) / n;
}

double sum_error(EvalRun *run, const Node *node, const Acc *acc, double *v, SumWalk *walk) {
    bool exact = is_exact(run, node, acc);
    double e = acc->error, roundings = node->tensor_core ? 0 : roundings_of(node, acc);
    *walk = (SumWalk){(float)rounding_terms(node, acc), (float)acc->finite, (float)roundings};
    if (!exact) e += sum_bound(node, acc, roundings) + flushed(run->ev, node, acc);
    if (!exact && node->contract) e += (double)acc->terms * node->tiny; /* products may be denormals */
    if (may_overflow(node, acc, e) || (node->in_parts && isinf(acc->sum))) e = INFINITY;
    *v = acc->sum;
    if (node->reduce == REDUCE_ADD) return e;
    *v /= (double)acc->terms;
    return exact && run->ev->trial ? mean_error(node, acc) : error_settle(node, *v, e / (double)acc->terms, 1);
}
