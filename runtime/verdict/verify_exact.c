/* Small whole numbers, whose sums are exact in every order: a term that is missing or taken twice shows however many there are. */
#include "verify_task.h"

#include <math.h>
#include <stdlib.h>

enum { SAMPLES = 1 << 12, PROBES = 16, LEVELS = 8 };
/* The largest sum of whole numbers that f32 has for certain. */
#define EXACT_LIMIT 0x1p24

/* ---- How many of the numbers are not 0 ---- */

typedef struct {
    bool exact, beyond; /* some element is; some sum is too large to be */
} Found;

static bool probe(Arena *arena, const Evaluator *ev, uint64_t seed, int64_t limit, Found *found) {
    EvalRun *run = eval_run_create(ev);
    *found = (Found){false, false};
    for (unsigned k = 0; run && k < evaluator_output_count(ev); k++) {
        const Shape *shape = evaluator_output(ev, k);
        Samples samples = samples_choose(arena, shape, PROBES, seed);
        int64_t flat[PROBES], integer[PROBES];
        double value[PROBES], bound[PROBES];
        bool undecided[PROBES];
        EvalResult result = {.value = value, .integer = integer, .bound = bound, .undecided = undecided};
        size_t n = samples.count < (size_t)limit ? samples.count : (size_t)limit;
        for (size_t i = 0; i < n; i++) {
            size_t at = i * samples.count / n;
            flat[i] = samples.flat ? samples.flat[at] : (int64_t)at;
        }
        eval_run(run, k, n, flat, &result);
        bool mean = evaluator_is_mean(ev, k);
        for (size_t i = 0; i < n; i++)
            found->exact |= dtype_is_float(shape->dtype) && (mean || bound[i] == 0) && isfinite(value[i]) && !undecided[i];
    }
    if (run) found->beyond = eval_run_is_beyond(run);
    eval_run_destroy(run);
    return run != NULL;
}

RtError exact_thin(OneTask *t, TaskInput *inputs) {
    const char *error = NULL;
    EvalBinding *binding;
    RT_TRY(one_task_operands(t, inputs, false, &binding));
    binding->exact = true;
    const Evaluator *ev = evaluator_create(t->arena, t->r->plan.graph, binding, &error); /* of these data: made anew where they change */
    double longest = ev ? evaluator_longest_sum(ev) : 0, share = fmin(1, EXACT_LIMIT / fmax(longest, 1));
    t->exact_share = 0;
    if (longest * 256 <= EXACT_LIMIT) return rt_ok();
    for (int level = 0; ev && level < LEVELS; level++) {
        Found found;
        if (!probe(t->arena, ev, t->r->plan.options->seed, 4, &found)) return rt_error(RT_MISSING, "out of memory for the exact data");
        if (!found.beyond) return rt_ok();
        t->exact_share = share;
        for (size_t i = 0; i < t->r->plan.a->param_count; i++)
            if (inputs[i].read) input_spec_thin(&inputs[i].spec, share);
        share /= 4;
        ev = evaluator_create(t->arena, t->r->plan.graph, binding, &error);
    }
    return rt_ok(); /* what is not exact is judged by its bounds */
}

/* ---- The trial ---- */

/* Numbers drawn from a range become whole ones, none of them 0, so that each shows; structure, as of a triangle, and indices are a case's own. */
static bool make_inputs(const OneTask *t, uint64_t seed, TaskInput *inputs) {
    bool any = false;
    for (size_t i = 0; i < t->r->plan.a->param_count; i++) {
        inputs[i] = t->inputs[i];
        bool drawn = inputs[i].spec.kind == INPUT_UNIFORM || inputs[i].spec.kind == INPUT_NORMAL;
        if (!inputs[i].read || !drawn || !dtype_is_float(inputs[i].shape.dtype)) continue;
        input_spec_exact(&inputs[i].spec, seed, &inputs[i].shape);
        inputs[i].spec.nonzero = true;
        any = true;
    }
    return any;
}

static RtError launch(OneTask *t, const TaskInput *inputs) {
    const Artifact *a = t->r->plan.a;
    for (unsigned i = 0; i < a->param_count; i++)
        if (one_task_is_output(a, i) || a->params[i].kind == ARTIFACT_WORKSPACE) RT_TRY(session_poison(&t->session, i));
    RT_TRY(task_upload(&t->session, inputs, false, t->r->plan.options->threads));
    return runner_launch(t->r, &t->session, "the launch on small whole numbers");
}

/* Bounds of exact sums are 0; what fails here fails the task. */
static RtError compare(OneTask *t, const Evaluator *ev, const TaskInput *inputs) {
    const Artifact *a = t->r->plan.a;
    const RtOptions *o = t->r->plan.options;
    CompareOptions options = {.sample_budget = SAMPLES, .seed = o->seed, .threads = o->threads, .special = true};
    for (size_t i = 0; i < a->param_count; i++) {
        unsigned k;
        void *got;
        Verdict v;
        if (!one_task_is_output(a, i)) continue;
        RT_TRY(one_task_find_output(t, i, &k));
        RT_TRY(one_task_download(t, i, &got));
        verdict_init(&v, t->arena);
        verdict_check_output(&v, ev, k, got, !inputs[i].read, &options);
        free(got);
        if (v.checks[CHECK_REFERENCE].status == CHECK_FAILED) continue; /* not defined at such values */
        CheckId failed = v.checks[CHECK_BOUND].status == CHECK_FAILED ? CHECK_BOUND : CHECK_RMS;
        if (v.checks[failed].status == CHECK_FAILED)
            verdict_fail(&t->verdict, CHECK_EXACT, v.checks[failed].count, "on small whole numbers, whose sums are exact: %s",
                         v.checks[failed].detail);
    }
    verdict_pass(&t->verdict, CHECK_EXACT);
    return rt_ok();
}

RtError exact_trial(OneTask *t, bool *decides) {
    const Artifact *a = t->r->plan.a;
    const char *error = NULL, *where[POWER_COUNT] = {NULL};
    TaskInput *inputs = ARENA_ARRAY(t->arena, TaskInput, a->param_count + 1);
    TaskInput *others = ARENA_ARRAY(t->arena, TaskInput, a->param_count + 1);
    uint64_t seed = t->r->plan.options->seed;
    EvalBinding *binding;
    PowerOutcome power[POWER_COUNT];
    Found found;
    *decides = false;
    if (!evaluator_sums(t->evaluator) || !make_inputs(t, seed, inputs)) return rt_ok();
    RT_TRY(exact_thin(t, inputs));
    while (t->kept_count) free(t->kept[--t->kept_count]);
    RT_TRY(one_task_operands(t, inputs, true, &binding));
    binding->exact = binding->trial = true;
    const Evaluator *ev = evaluator_create(t->arena, t->r->plan.graph, binding, &error);
    if (!ev) return rt_error(RT_BUG, "the operator cannot be evaluated: %.300s", error ? error : "");
    if (!probe(t->arena, ev, seed, PROBES, &found)) return rt_error(RT_MISSING, "out of memory for the exact data");
    if (!found.exact) return rt_ok(); /* its bounds are those of any data */
    RT_TRY(launch(t, inputs));
    RT_TRY(compare(t, ev, inputs));
    if (!t->task->own) return rt_ok();
    make_inputs(t, ~seed, others);
    for (size_t i = 0; t->exact_share > 0 && i < a->param_count; i++)
        if (others[i].read) input_spec_thin(&others[i].spec, t->exact_share);
    RT_TRY(one_task_power(t, others, ev, binding, power, where));
    *decides = power[POWER_ZERO] == POWER_SEEN;
    for (int f = 0; f < POWER_COUNT; f++) *decides &= power[f] != POWER_HIDDEN;
    return rt_ok();
}
