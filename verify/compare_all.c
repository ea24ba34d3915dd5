/* All elements of an output beside the operator's naive form in f64. How much one differs is counted in roundings of the output's dtype,
 * in a histogram of quarter octaves; those that differ most are the evaluator's to judge, so no tolerance is chosen here. */
#include "compare_internal.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 16, STRIP = 2048, STEPS = 4, LEAST_POWER = -20, BUCKETS = 512 };

typedef struct {
    const Naive *naive;
    unsigned output;
    const Shape *shape;
    const unsigned char *got;
    double unit, tiny;
    int64_t counts[BUCKETS];
    uint16_t *worst; /* by piece */
    pthread_mutex_t mutex;
    /* The second time */
    const Samples *known;
    int least; /* bucket */
    int64_t *suspects;
    size_t count, limit;
} All;

/* 0: no difference; the last: infinitely many roundings. */
static int bucket_of(double roundings) {
    uint64_t bits;
    if (roundings == 0) return 0;
    if (!(roundings < INFINITY)) return BUCKETS - 1;
    memcpy(&bits, &roundings, sizeof bits);
    int64_t at = (int64_t)(bits >> 50) - (1023 + LEAST_POWER) * STEPS + 1;
    return at < 1 ? 1 : at > BUCKETS - 2 ? BUCKETS - 2 : (int)at;
}

/* What is in a bucket and those below differs by less. */
static double edge_of(int bucket) {
    if (bucket == 0) return 0;
    if (bucket >= BUCKETS - 2) return INFINITY;
    double octave = ldexp(1, LEAST_POWER + bucket / STEPS);
    return octave * (1 + (double)(bucket % STEPS) / STEPS);
}

static int bucket_of_real(const All *all, double got, double want) {
    if (got == want || (isnan(got) && isnan(want))) return 0;
    if (!isfinite(got) || !isfinite(want)) return dtype_round(all->shape->dtype, want) == got ? 0 : BUCKETS - 1;
    return bucket_of(fabs(got - want) / (all->unit * fabs(want) + all->tiny));
}

static double read_real(Dtype dtype, const unsigned char *memory, int64_t at) {
    return dtype == DTYPE_F32 ? (double)((const float *)(const void *)memory)[at]
                              : dtype_read(dtype, memory + (size_t)at * dtype_size(dtype));
}

/* The buckets of elements [begin, end), at most STRIP. */
static void find_buckets(const All *all, int64_t begin, int64_t end, int *buckets) {
    union {
        double real[STRIP];
        int64_t integer[STRIP];
    } want;
    Dtype dtype = all->shape->dtype;
    all->naive->outputs[all->output](&all->naive->args, begin, end, &want);
    for (int64_t i = 0; i < end - begin; i++) {
        if (dtype_is_float(dtype))
            buckets[i] = bucket_of_real(all, read_real(dtype, all->got, begin + i), want.real[i]);
        else
            buckets[i] = dtype_read_int(dtype, all->got + (size_t)(begin + i) * dtype_size(dtype)) == want.integer[i] ? 0 : BUCKETS - 1;
    }
}

static void count_piece(void *ctx, int64_t begin, int64_t end) {
    All *all = ctx;
    int64_t counts[BUCKETS] = {0};
    int buckets[STRIP], worst = 0;
    for (int64_t at = begin; at < end; at += STRIP) {
        int64_t stop = end - at < STRIP ? end : at + STRIP;
        find_buckets(all, at, stop, buckets);
        for (int64_t i = 0; i < stop - at; i++) {
            counts[buckets[i]]++;
            if (buckets[i] > worst) worst = buckets[i];
        }
    }
    all->worst[begin / PIECE] = (uint16_t)worst;
    pthread_mutex_lock(&all->mutex);
    for (int b = 0; b < BUCKETS; b++) all->counts[b] += counts[b];
    pthread_mutex_unlock(&all->mutex);
}

static int by_index(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void collect_piece(void *ctx, int64_t begin, int64_t end) {
    All *all = ctx;
    int buckets[STRIP];
    if (all->worst[begin / PIECE] < all->least) return;
    for (int64_t at = begin; at < end; at += STRIP) {
        int64_t stop = end - at < STRIP ? end : at + STRIP;
        find_buckets(all, at, stop, buckets);
        for (int64_t i = at; i < stop; i++) {
            /* NOLINTNEXTLINE(*UndefinedBinaryOperatorResult): find_buckets has set them */
            if (buckets[i - at] < all->least || bsearch(&i, all->known->flat, all->known->count, sizeof i, by_index)) continue;
            pthread_mutex_lock(&all->mutex);
            if (all->count < all->limit) all->suspects[all->count++] = i;
            pthread_mutex_unlock(&all->mutex);
        }
    }
}

/* The least bucket of which, with those above, no more than the limit are; the last has those that it has. */
static int least_bucket(const All *all) {
    int64_t above = 0;
    for (int b = BUCKETS - 1; b > 0; b--)
        if ((above += all->counts[b]) > (int64_t)all->limit) return b < BUCKETS - 1 ? b + 1 : b;
    return 1;
}

bool compare_with_naive(const Naive *naive, unsigned output, const void *got, const Samples *known, size_t limit, unsigned threads,
                        NaiveDifferences *found) {
    const Shape *shape = evaluator_output(naive->ev, output);
    All all = {.naive = naive, .output = output, .shape = shape, .got = got, .known = known, .limit = limit};
    all.unit = dtype_unit_roundoff(shape->dtype);
    all.tiny = dtype_is_float(shape->dtype) ? fmax(dtype_min_normal(shape->dtype) * all.unit, 0x1p-1074) : 0;
    all.worst = calloc((size_t)(shape->elements / PIECE) + 1, sizeof *all.worst);
    all.suspects = malloc(limit * sizeof *all.suspects);
    bool ok = all.worst && all.suspects;
    pthread_mutex_init(&all.mutex, NULL);
    if (ok) verify_parallel(shape->elements, PIECE, threads, count_piece, &all);
    all.least = least_bucket(&all);
    int64_t wanted = 0;
    for (int b = all.least; b < BUCKETS; b++) wanted += all.counts[b];
    if (ok && wanted) verify_parallel(shape->elements, PIECE, threads, collect_piece, &all);
    pthread_mutex_destroy(&all.mutex);
    int below = all.least - 1;
    while (below > 0 && !all.counts[below]) below--;
    qsort(all.suspects, all.count, sizeof *all.suspects, by_index);
    *found = (NaiveDifferences){.suspects = {all.count, all.suspects}, .within = edge_of(below), .all = wanted <= (int64_t)limit};
    free(all.worst);
    if (!ok) free(all.suspects);
    return ok;
}

bool naive_agrees(const Naive *naive, unsigned output, int64_t index, double value, int64_t integer, double bound) {
    union {
        double real;
        int64_t integer;
    } own;
    const Shape *shape = evaluator_output(naive->ev, output);
    naive->outputs[output](&naive->args, index, index + 1, &own);
    if (!dtype_is_float(shape->dtype)) return own.integer == integer;
    if (own.real == value || (isnan(own.real) && isnan(value))) return true;
    if (!isfinite(value)) return dtype_round(shape->dtype, own.real) == value;
    return fabs(own.real - value) <= 1e-9 * fabs(value) + bound / 64;
}
