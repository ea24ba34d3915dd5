/* The operator's naive form as C: every element at once and in f64, without any pass. Whoever has a C compiler builds the source and
 * runs it beside the evaluator, which is too slow for all elements of a large tensor (docs/decisions/verification.md). */
#ifndef VERIFY_NAIVE_H
#define VERIFY_NAIVE_H

#include "verify.h"

/* What a function of the source is given; the source declares the same structure. */
typedef struct {
    const void *const *inputs; /* by number of the evaluator's inputs */
    void *const *made;         /* by stage: its results, double or int64_t */
    double (*read)(Dtype dtype, const void *memory);
    int64_t (*read_int)(Dtype dtype, const void *memory);
    int64_t (*to_integer)(Dtype to, double value);
    double (*quotient)(double a, double b), (*remainder)(double a, double b);
} NaiveArgs;
/* Elements [begin, end) of a stage or an output in row-major order, double or int64_t. */
typedef void (*NaiveFunc)(const NaiveArgs *args, int64_t begin, int64_t end, void *out);

typedef struct {
    int64_t elements;
    NaiveFunc run; /* set by who built the source: naive_stage_N */
} NaiveStage;

struct Naive {
    const Evaluator *ev;
    const char *source;
    double steps; /* of all stages and outputs */
    double cost;  /* about the evaluator's steps for an element that shares nothing with others */
    size_t stage_count;
    NaiveStage *stages;
    NaiveFunc *outputs; /* set likewise: naive_output_N */
    NaiveArgs args;
    void **made;
};

/* Null and *why (a constant text) when the form is not known here: a scan, a sort, inputs that are not in memory. */
Naive *naive_print(Arena *arena, const Evaluator *ev, const char **why);
/* Runs the stages; false: out of memory. */
bool naive_prepare(Naive *naive, unsigned threads);
void naive_release(Naive *naive);

#endif
