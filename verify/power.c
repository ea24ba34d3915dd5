/* What a case can tell apart. A comparison is worth what it refuses: before a result passes, results that are wrong in four ways
 * are held against the same bounds, and a case that would accept one of them says nothing. */
#include "evaluate/evaluate_internal.h"

#include <math.h>
#include <stdlib.h>

enum { SAMPLES = 1024, BATCH = 16 };
/* The reference's own rounding, in bounds of an operator in f32 or less. */
#define NOISE 1e-6

static const char *const fault_texts[POWER_COUNT] = {
    [POWER_ZERO] = "nothing but 0",
    [POWER_SEED] = "the result of another seed",
    [POWER_TENTH] = "a result that leaves a tenth out",
    [POWER_HALF] = "a result that takes a half twice",
};
const char *power_fault_text(PowerFault fault) {
    return fault_texts[fault];
}

typedef struct {
    int64_t flat[BATCH], integer[BATCH];
    double value[BATCH], bound[BATCH];
    bool undecided[BATCH];
    size_t count;
} Batch;

static bool evaluate(EvalRun *run, unsigned output, Batch *b) {
    EvalResult result = {.value = b->value, .integer = b->integer, .bound = b->bound, .undecided = b->undecided};
    return eval_run(run, output, b->count, b->flat, &result);
}

static double value_at(const Shape *shape, const Batch *b, size_t i) {
    return dtype_is_float(shape->dtype) ? b->value[i] : (double)b->integer[i];
}

/* A fault of an operator that sums nothing is one of its elements. */
static double spoilt(const Shape *shape, PowerFault fault, double right, int64_t flat) {
    if (fault == POWER_ZERO) return 0;
    if (fault == POWER_TENTH) return flat >= shape->elements - (shape->elements + 9) / 10 ? 0 : right;
    return flat >= shape->elements / 2 ? 2 * right : right;
}

/* A difference that the output's own rounding takes away is none, and neither is one that only the reference's makes. */
static PowerOutcome outcome_of(const Shape *shape, double got, double want, double bound) {
    if (isnan(got) || isnan(want)) return isnan(got) && isnan(want) ? POWER_SAME : POWER_SEEN;
    if (got == want) return POWER_SAME;
    double error = fabs(got - want);
    if (error > bound) return POWER_SEEN;
    double least = dtype_is_float(shape->dtype) ? dtype_unit_roundoff(shape->dtype) * fabs(want) : 0;
    return shape->dtype == DTYPE_F64 || error <= fmax(NOISE * bound, least) ? POWER_SAME : POWER_HIDDEN;
}

static PowerOutcome judge(const Shape *shape, PowerFault fault, const Batch *right, const Batch *wrong) {
    PowerOutcome worst = POWER_SAME;
    for (size_t i = 0; i < right->count; i++) {
        if (right->undecided[i]) continue;
        double want = value_at(shape, right, i);
        double got = wrong ? value_at(shape, wrong, i) : spoilt(shape, fault, want, right->flat[i]);
        PowerOutcome one = outcome_of(shape, got, want, right->bound[i]);
        if (one > worst) worst = one;
    }
    return worst;
}

/* Spread over all samples, so that each batch has some of each part. */
static void choose_batch(const Samples *samples, size_t number, size_t batches, Batch *b) {
    b->count = 0;
    for (size_t i = number; i < samples->count && b->count < BATCH; i += batches)
        b->flat[b->count++] = samples->flat ? samples->flat[i] : (int64_t)i;
}

static bool look(const Shape *shape, unsigned output, EvalRun *const *runs, EvalRun *right_run, const Batch *chosen, PowerOutcome *found) {
    Batch right = *chosen, wrong = *chosen;
    bool open = false;
    evaluate(right_run, output, &right);
    for (int f = 0; f < POWER_COUNT; f++) {
        if (found[f] == POWER_SEEN || (f == POWER_SEED && !runs[f])) continue;
        if (runs[f]) evaluate(runs[f], output, &wrong);
        PowerOutcome one = judge(shape, (PowerFault)f, &right, runs[f] ? &wrong : NULL);
        if (one > found[f]) found[f] = one;
        open |= found[f] != POWER_SEEN;
    }
    return open;
}

bool power_check(Arena *arena, const Evaluator *right, const Evaluator *const *wrong, unsigned output, uint64_t seed, PowerOutcome *found) {
    const Shape *shape = evaluator_output(right, output);
    Samples samples = samples_choose(arena, shape, SAMPLES, seed);
    size_t batches = (samples.count + BATCH - 1) / BATCH;
    EvalRun *right_run = eval_run_create(right), *runs[POWER_COUNT] = {NULL};
    bool made = right_run != NULL;
    for (int f = 0; f < POWER_COUNT; f++) {
        found[f] = POWER_SAME;
        if (wrong[f]) made &= (runs[f] = eval_run_create(wrong[f])) != NULL;
    }
    for (size_t i = 0; made && i < batches; i++) {
        Batch b;
        choose_batch(&samples, i, batches, &b);
        if (!look(shape, output, runs, right_run, &b, found)) break;
    }
    for (int f = 0; f < POWER_COUNT; f++) eval_run_destroy(runs[f]);
    eval_run_destroy(right_run);
    return made;
}
