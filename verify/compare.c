#include "compare_internal.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { GRAIN = 8192, DENSE_CHUNK = 2048 };

double compare_paper_tau(Dtype dtype) {
    if (dtype == DTYPE_F16) return 0.004;
    return dtype_bits(dtype) < 32 ? 0.03 : 0.001;
}

/* What one piece of the elements adds up to; pieces are summed in order. */
typedef struct {
    int64_t checked, undecided, unknown, straddled, nans, stepped, outside, unwritten, inexact, rated, paper_off, allclose_off, strange;
    double ratio_squares, max_ratio, max_error;
    int64_t worst;
    double worst_got, worst_want, worst_bound;
} Tally;

typedef struct RunSlot {
    EvalRun *run;
    struct RunSlot *next;
} RunSlot;

typedef struct {
    const Evaluator *ev;
    unsigned output;
    const Shape *shape;
    const unsigned char *got;
    const Samples *samples;
    const Naive *naive;            /* to be asked the same; may be null */
    bool poisoned, exact, outside; /* outside: the operator reads outside of a tensor */
    Tally *tallies;                /* by piece */
    pthread_mutex_t mutex;
    RunSlot *free_runs; /* runs keep their memo from piece to piece */
    bool failed;
} Compare;

static RunSlot *take_run(Compare *c) {
    pthread_mutex_lock(&c->mutex);
    RunSlot *slot = c->free_runs;
    if (slot) c->free_runs = slot->next;
    pthread_mutex_unlock(&c->mutex);
    if (slot) return slot;
    slot = calloc(1, sizeof *slot);
    if (slot) slot->run = eval_run_create(c->ev);
    if (slot && slot->run) return slot;
    free(slot);
    return NULL;
}

static void put_run(Compare *c, RunSlot *slot) {
    pthread_mutex_lock(&c->mutex);
    slot->next = c->free_runs;
    c->free_runs = slot;
    pthread_mutex_unlock(&c->mutex);
}

/* Error over bound: 0 for equals (NaN equals NaN, an infinity only itself), infinite beyond a
 * bound of 0. */
static double error_of(double got, double want) {
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : INFINITY;
    return got == want ? 0 : fabs(got - want);
}

static double ratio_of(double error, double bound) {
    return error == 0 ? 0 : bound == 0 ? INFINITY : error / bound;
}

/* Eq. 2 of the paper: the relative error, of the reference or, where that is tiny, of the result.
 */
static bool paper_off(double got, double want, double tau) {
    double error = error_of(got, want), base = fabs(want) > 1e-8 ? fabs(want) : fabs(got);
    return error != 0 && !(error / base <= tau);
}

static bool allclose_off(double got, double want, Dtype dtype) {
    double tolerance = dtype_bits(dtype) < 32 ? 1e-2 : 1e-4, error = error_of(got, want);
    return error != 0 && !(error <= tolerance + tolerance * fabs(want));
}

static void tally_ratio(Tally *t, double error, double bound, double got, double want, int64_t index) {
    double ratio = ratio_of(error, bound);
    t->rated++;
    t->ratio_squares += ratio * ratio;
    if (error > t->max_error) t->max_error = error;
    t->outside += error != 0 && !(error <= bound);
    if (t->worst >= 0 && !(ratio > t->max_ratio)) return;
    t->max_ratio = ratio;
    t->worst = index;
    t->worst_got = got;
    t->worst_want = want;
    t->worst_bound = bound;
}

/* A near tie passes with either outcome, and counts where it came out otherwise than in the reference. */
static void tally_undecided(Tally *t, double got, double value, double error, double bound, EvalWay way, int64_t index) {
    bool step = way != EVAL_EITHER;
    bool inside = !(error > bound) && !(way == EVAL_STEP_UP && got < value) && !(way == EVAL_STEP_DOWN && got > value);
    if (!inside) {
        tally_ratio(t, error > bound ? error : INFINITY, bound, got, value, index);
        return;
    }
    t->straddled += step;
    t->stepped += step && error > 0;
    t->undecided += !step && error > 0;
}

/* Of a float without a bound nothing is known: that an infinity or NaN is the reference's, too, says nothing of it. */
static void tally_unknown(Tally *t, double got, double error) {
    t->unknown += error > 0 || !isfinite(got);
}

static void tally_element(const Compare *c, Tally *t, int64_t index, const EvalResult *want, size_t at) {
    Dtype dtype = c->shape->dtype;
    const unsigned char *memory = c->got + (size_t)index * dtype_size(dtype);
    bool real = dtype_is_float(dtype);
    double got = real ? dtype_read(dtype, memory) : (double)dtype_read_int(dtype, memory);
    double value = real ? want->value[at] : (double)want->integer[at];
    double error = error_of(got, value);
    if (!real && error == 0) /* beyond 2^53 the doubles are not enough */
        error = dtype_read_int(dtype, memory) != want->integer[at];
    t->checked++;
    t->nans += isnan(value);
    t->paper_off += paper_off(got, value, compare_paper_tau(dtype));
    t->allclose_off += allclose_off(got, value, dtype);
    t->inexact += want->bound[at] > 0 || want->undecided[at];
    if (c->poisoned && !poison_is_distinctive(dtype) && error > want->bound[at] && !want->undecided[at])
        t->unwritten += poison_at(dtype, 0, memory);
    if (real && want->bound[at] == INFINITY)
        tally_unknown(t, got, error);
    else if (want->undecided[at])
        tally_undecided(t, got, value, error, want->bound[at], (EvalWay)want->way[at], index);
    else
        tally_ratio(t, error, want->bound[at], got, value, index);
}

static void compare_chunk(Compare *c, EvalRun *run, Tally *t, int64_t begin, size_t count) {
    int64_t flat[DENSE_CHUNK], integer[DENSE_CHUNK];
    double value[DENSE_CHUNK], bound[DENSE_CHUNK];
    bool undecided[DENSE_CHUNK];
    uint8_t way[DENSE_CHUNK];
    EvalResult want = {value, integer, bound, undecided, way};
    for (size_t i = 0; i < count; i++) flat[i] = c->samples->flat ? c->samples->flat[begin + (int64_t)i] : begin + (int64_t)i;
    if (!eval_run(run, c->output, count, flat, &want)) c->outside = true; /* only ever set */
    for (size_t i = 0; i < count; i++) tally_element(c, t, flat[i], &want, i);
    bool real = dtype_is_float(c->shape->dtype);
    for (size_t i = 0; i < count && c->naive; i++)
        t->strange += !undecided[i] && !naive_agrees(c->naive, c->output, flat[i], real ? value[i] : 0, real ? 0 : integer[i], bound[i]);
}

static void compare_piece(void *ctx, int64_t begin, int64_t end) {
    Compare *c = ctx;
    RunSlot *slot = take_run(c);
    if (!slot) {
        c->failed = true; /* only ever set */
        return;
    }
    Tally *t = &c->tallies[begin / GRAIN];
    t->worst = -1;
    for (int64_t at = begin; at < end; at += DENSE_CHUNK) {
        int64_t left = end - at;
        compare_chunk(c, slot->run, t, at, left < DENSE_CHUNK ? (size_t)left : DENSE_CHUNK);
    }
    put_run(c, slot);
}

static void add_tally(Tally *sum, const Tally *t) {
    sum->checked += t->checked;
    sum->undecided += t->undecided;
    sum->unknown += t->unknown;
    sum->nans += t->nans;
    sum->straddled += t->straddled;
    sum->stepped += t->stepped;
    sum->outside += t->outside;
    sum->unwritten += t->unwritten;
    sum->inexact += t->inexact;
    sum->rated += t->rated;
    sum->paper_off += t->paper_off;
    sum->allclose_off += t->allclose_off;
    sum->strange += t->strange;
    sum->ratio_squares += t->ratio_squares;
    sum->max_error = fmax(sum->max_error, t->max_error);
    if (t->worst < 0 || (sum->worst >= 0 && !(t->max_ratio > sum->max_ratio))) return;
    sum->max_ratio = t->max_ratio;
    sum->worst = t->worst;
    sum->worst_got = t->worst_got;
    sum->worst_want = t->worst_want;
    sum->worst_bound = t->worst_bound;
}

static bool run_compare(Compare *c, unsigned threads, Tally *sum) {
    int64_t count = (int64_t)c->samples->count;
    c->tallies = calloc((size_t)(count / GRAIN) + 1, sizeof *c->tallies);
    *sum = (Tally){.worst = -1};
    if (!c->tallies) return false;
    pthread_mutex_init(&c->mutex, NULL);
    verify_parallel(count, GRAIN, threads, compare_piece, c);
    for (int64_t at = 0; at < count; at += GRAIN) add_tally(sum, &c->tallies[at / GRAIN]);
    while (c->free_runs) {
        RunSlot *slot = c->free_runs;
        c->free_runs = slot->next;
        eval_run_destroy(slot->run);
        free(slot);
    }
    pthread_mutex_destroy(&c->mutex);
    free(c->tallies);
    return !c->failed;
}

static OutputVerdict *add_output(Verdict *v, const Shape *shape, const Tally *t) {
    OutputVerdict *grown = ARENA_ARRAY(v->arena, OutputVerdict, v->output_count + 1);
    if (v->output_count) memcpy(grown, v->outputs, v->output_count * sizeof *grown);
    v->outputs = grown;
    OutputVerdict *o = &v->outputs[v->output_count++];
    *o = (OutputVerdict){.name = shape->name,
                         .dtype = shape->dtype,
                         .elements = shape->elements,
                         .checked = t->checked,
                         .undecided = t->undecided + t->stepped,
                         .unknown = t->unknown,
                         .outside = t->outside,
                         .rms = t->rated ? sqrt(t->ratio_squares / (double)t->rated) : 0,
                         .max_ratio = t->max_ratio,
                         .max_error = t->max_error,
                         .worst = t->worst,
                         .worst_got = t->worst_got,
                         .worst_want = t->worst_want,
                         .worst_bound = t->worst_bound,
                         .paper_tau = compare_paper_tau(shape->dtype)};
    o->paper_fraction = t->checked ? (double)t->paper_off / (double)t->checked : 0;
    return o;
}

static int64_t limit_of_ties(int64_t checked, double share, int64_t least, int64_t part) {
    int64_t of_few = least < checked / part ? least : checked / part, of_many = (int64_t)(share * (double)checked);
    return of_few > of_many ? of_few : of_many;
}

static void judge_ties(Verdict *v, const OutputVerdict *o, int64_t count, int64_t limit) {
    if (count > limit)
        verdict_fail(v, CHECK_UNDECIDED, count,
                     "%s: %lld of %lld elements hang on a near tie and came out otherwise than in the reference, %lld may: at these "
                     "data the case cannot be judged; the result is not said to be wrong",
                     o->name, (long long)count, (long long)o->checked, (long long)limit);
}

/* At sizes that a case does not declare nobody chose what is known. NaN of empty inputs, as their mean is, is the operator's own. */
static void judge_unknown(Verdict *v, const OutputVerdict *o, const Tally *t, const CompareOptions *options) {
    int64_t limit = limit_of_ties(o->checked, COMPARE_UNDECIDED_SHARE, COMPARE_UNDECIDED_FLOOR, 8);
    if (t->unknown > limit)
        verdict_fail(
            v, CHECK_POWER, t->unknown,
            "%s: nothing is known of %lld of %lld elements, %lld may be so: on the way a number leaves the range of its type, or "
            "divides or is taken the logarithm of where it may be 0, as products of many factors do; choose sizes or data at which "
            "they stay within it",
            o->name, (long long)t->unknown, (long long)o->checked, (long long)limit);
    else if (options->fed && t->nans > 0 && t->nans == t->checked)
        verdict_fail(v, CHECK_POWER, t->nans,
                     "%s: the operator makes NaN of all %lld elements, and so may any kernel that overflows; choose sizes or data at which "
                     "it makes numbers",
                     o->name, (long long)o->checked);
}

static void judge_all_ties(Verdict *v, const OutputVerdict *o, const Tally *t, const CompareOptions *options) {
    if (options->special) return;
    if (!options->derived) judge_unknown(v, o, t, options);
    judge_ties(v, o, t->undecided, limit_of_ties(o->checked, COMPARE_UNDECIDED_SHARE, COMPARE_UNDECIDED_FLOOR, 8));
    int64_t steps = limit_of_ties(o->checked, COMPARE_UNDECIDED_SHARE, COMPARE_STEP_FLOOR, 1),
            near = (int64_t)(COMPARE_STEP_SHARE * (double)t->straddled);
    judge_ties(v, o, t->stepped, steps > near ? steps : near);
}

static void judge_bounds(Verdict *v, const OutputVerdict *o, const Tally *t) {
    if (o->outside)
        verdict_fail(v, CHECK_BOUND, o->outside,
                     "%s: %lld of %lld elements are outside their bound; worst at %lld: got %.9g, "
                     "want %.9g within %.3g",
                     o->name, (long long)o->outside, (long long)o->checked, (long long)o->worst, o->worst_got, o->worst_want,
                     o->worst_bound);
    verdict_pass(v, CHECK_BOUND);
    if (t->rated >= COMPARE_RMS_MIN_COUNT) {
        if (!(o->rms < VERIFY_RMS_FIGURE))
            verdict_fail(v, CHECK_RMS, 1, "%s: rms of error over bound is %.3g, allowed %.3g", o->name, o->rms, VERIFY_RMS_FIGURE);
        verdict_pass(v, CHECK_RMS);
    }
    verdict_pass(v, CHECK_UNDECIDED);
}

static void judge_exact(Verdict *v, const OutputVerdict *o, const Tally *t) {
    if (t->inexact)
        verdict_fail(v, CHECK_EXACT, t->inexact, "%s: %lld elements are not exact at these sizes and data", o->name, (long long)t->inexact);
    else if (o->outside)
        verdict_fail(v, CHECK_EXACT, o->outside, "%s: %lld elements differ from the exact result", o->name, (long long)o->outside);
    verdict_pass(v, CHECK_EXACT);
}

static void judge_other_rules(Verdict *v, const OutputVerdict *o, const Tally *t) {
    if (!(o->paper_fraction <= o->paper_tau))
        verdict_fail(v, CHECK_PAPER_RULE, t->paper_off, "%s: a fraction of %.3g is off by more than %.3g", o->name, o->paper_fraction,
                     o->paper_tau);
    verdict_pass(v, CHECK_PAPER_RULE);
    if (t->allclose_off)
        verdict_fail(v, CHECK_ALLCLOSE, t->allclose_off, "%s: %lld elements are not close", o->name, (long long)t->allclose_off);
    verdict_pass(v, CHECK_ALLCLOSE);
}

/* `found` by one launch among the elements that were compared. */
static void judge_unwritten(Verdict *v, const Shape *shape, const void *got, const void *second, int64_t found) {
    if (second || poison_is_distinctive(shape->dtype)) found = poison_count(shape->dtype, got, second, shape->elements, NULL);
    if (found)
        verdict_fail(v, CHECK_UNWRITTEN, found, "%s: %lld of %lld elements were never written", shape->name, (long long)found,
                     (long long)shape->elements);
    verdict_pass(v, CHECK_UNWRITTEN);
}

/* What the elements that differ most from the naive form add to the samples. All elements are compared after it. */
static void add_suspects(OutputVerdict *o, Tally *sum, const Tally *t, const NaiveDifferences *found) {
    sum->undecided += t->undecided;
    sum->unknown += t->unknown;
    sum->straddled += t->straddled;
    sum->stepped += t->stepped;
    sum->unwritten += t->unwritten;
    o->outside = sum->outside += t->outside;
    o->undecided += t->undecided + t->stepped;
    o->unknown += t->unknown;
    o->max_error = fmax(o->max_error, t->max_error);
    if (t->worst >= 0 && t->max_ratio > o->max_ratio) {
        o->max_ratio = t->max_ratio;
        o->worst = t->worst;
        o->worst_got = t->worst_got;
        o->worst_want = t->worst_want;
        o->worst_bound = t->worst_bound;
    }
    o->by_naive = found->all;
    o->within = found->within;
    o->checked = found->all ? o->elements : o->checked + t->checked;
}

/* False: out of memory. Not run where the naive form says other things than the evaluator. */
static bool compare_others(Compare *c, const CompareOptions *options, OutputVerdict *o, Tally *sum) {
    enum { SUSPECTS = 1 << 16, LEAST = 64, STRANGE_PART = 1000 };
    const double work = 1 << 22;
    const Samples *samples = c->samples;
    NaiveDifferences found;
    Tally t;
    if (!samples->flat || !options->naive || sum->strange > sum->checked / STRANGE_PART) return true;
    double cost = work / options->naive->cost;
    size_t limit = cost > SUSPECTS ? SUSPECTS : cost < LEAST ? LEAST : (size_t)cost;
    if (!compare_with_naive(options->naive, c->output, c->got, samples, limit, options->threads, &found)) return false;
    c->samples = &found.suspects;
    c->naive = NULL;
    bool ok = run_compare(c, options->threads, &t);
    if (ok) add_suspects(o, sum, &t, &found);
    free(found.suspects.flat);
    c->samples = samples;
    return ok;
}

static void say_what_hides(OutputVerdict *o, const Shape *shape, const Samples *samples) {
    enum { SIDE = 128 };
    o->tile[0] = shape->rank > 1 ? SIDE : 1;
    o->tile[1] = shape->rank > 1 ? SIDE : SIDE * SIDE;
    if (o->by_naive || !samples->flat) return;
    o->hidden_element = samples_hide(shape, samples, 1, 1);
    o->hidden_tile = samples_hide(shape, samples, o->tile[0], o->tile[1]);
}

void verdict_check_output(Verdict *v, const Evaluator *ev, unsigned output, const void *got, bool poisoned, const CompareOptions *options) {
    const Shape *shape = evaluator_output(ev, output);
    size_t budget = options->sample_budget ? options->sample_budget : SIZE_MAX;
    Samples samples = samples_choose(v->arena, shape, budget, options->seed);
    Compare c = {.ev = ev,
                 .output = output,
                 .shape = shape,
                 .got = got,
                 .samples = &samples,
                 .naive = samples.flat ? options->naive : NULL,
                 .poisoned = poisoned,
                 .exact = options->exact};
    Tally t;
    if (!run_compare(&c, options->threads, &t)) {
        verdict_fail(v, CHECK_BOUND, 0, "%s: out of memory for the reference", shape->name);
        return;
    }
    OutputVerdict *o = add_output(v, shape, &t);
    judge_all_ties(v, o, &t, options);
    if (!compare_others(&c, options, o, &t)) {
        verdict_fail(v, CHECK_BOUND, 0, "%s: out of memory for the reference", shape->name);
        return;
    }
    if (o->by_naive) judge_all_ties(v, o, &t, options);
    say_what_hides(o, shape, &samples);
    if (c.outside)
        verdict_fail(v, CHECK_REFERENCE, 1,
                     "%s: the operator reads outside of a tensor at this data; wrap it, "
                     "pad(TENSOR, value)[...], or choose other data",
                     shape->name);
    verdict_pass(v, CHECK_REFERENCE);
    judge_bounds(v, o, &t);
    if (options->exact) judge_exact(v, o, &t);
    if (dtype_is_float(shape->dtype)) judge_other_rules(v, o, &t);
    if (poisoned) judge_unwritten(v, shape, got, options->second, t.unwritten);
}
