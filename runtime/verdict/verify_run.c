/* `verify`: every case and ragged size in a worker, against the reference evaluator. */
#include "verify_task.h"

#include <stdlib.h>
#include <string.h>

enum { DENSE = 1 << 18, SPARSE = 1 << 16 };
#define KEEP_INPUT_BYTES ((uint64_t)1 << 30)
#define DENSE_ELEMENTS ((uint64_t)1 << 22)

/* ---- One task, in the child ---- */

bool one_task_is_output(const Artifact *a, size_t i) {
    return a->params[i].kind == ARTIFACT_TENSOR && (a->params[i].direction & ARTIFACT_OUT);
}

/* The reference reads its inputs from memory when they are small, else makes each element anew. */
RtError one_task_operands(OneTask *t, const TaskInput *given, bool keep, EvalBinding **made) {
    const Artifact *a = t->r->plan.a;
    const RtOptions *o = t->r->plan.options;
    EvalInput *inputs = ARENA_ARRAY(t->arena, EvalInput, a->param_count + 1);
    EvalScalar *scalars = ARENA_ARRAY(t->arena, EvalScalar, a->param_count + 1);
    EvalBinding *binding = *made = ARENA_NEW(t->arena, EvalBinding);
    *binding =
        (EvalBinding){.sizes = t->task->sizes, .inputs = inputs, .scalars = scalars, .flushes = a->unordered && a->target == ARTIFACT_CUDA};
    uint64_t kept = 0;
    for (size_t i = 0; i < a->param_count; i++) {
        if (a->params[i].kind == ARTIFACT_SCALAR)
            scalars[binding->scalar_count++] = (EvalScalar){task_graph_name(&a->params[i]), t->binding.scalars[i]};
        if (!given[i].read) continue;
        void *data = NULL;
        uint64_t bytes = binding_element_bytes(&t->binding, i);
        if (keep && (kept += bytes) <= KEEP_INPUT_BYTES && (data = rt_alloc(bytes))) {
            input_fill(&given[i].spec, data, 0, given[i].shape.elements, o->threads);
            t->kept[t->kept_count++] = data;
        }
        inputs[binding->input_count++] = (EvalInput){given[i].shape, data, &given[i].spec};
    }
    return rt_ok();
}

static RtError make_evaluator(OneTask *t) {
    const char *error = NULL;
    t->kept = ARENA_ARRAY(t->arena, void *, t->r->plan.a->param_count + 1);
    if (t->r->plan.options->exact) RT_TRY(exact_thin(t, t->inputs));
    RT_TRY(one_task_operands(t, t->inputs, true, &t->operands));
    t->operands->exact = t->r->plan.options->exact;
    t->evaluator = evaluator_create(t->arena, t->r->plan.graph, t->operands, &error);
    return t->evaluator ? rt_ok() : rt_error(RT_BUG, "the operator cannot be evaluated: %.300s", error ? error : "");
}

RtError one_task_download(OneTask *t, size_t i, void **data) {
    *data = rt_alloc(binding_element_bytes(&t->binding, i));
    if (!*data) return rt_error(RT_MISSING, "out of memory for checking '%s'", t->r->plan.a->params[i].name);
    return session_download(&t->session, (unsigned)i, *data);
}

/* Guard zones and read-only tensors, after either launch. */
static RtError check_surroundings(OneTask *t) {
    const Artifact *a = t->r->plan.a;
    RtError e = session_check_guards(&t->session);
    if (e.status == RT_OUT_OF_BOUNDS)
        verdict_fail(&t->verdict, CHECK_GUARD, 1, "%s", e.text);
    else if (rt_failed(&e))
        return e;
    else
        verdict_pass(&t->verdict, CHECK_GUARD);
    for (size_t i = 0; i < a->param_count; i++) {
        if (!t->inputs[i].read || a->params[i].direction != ARTIFACT_IN) continue;
        void *data;
        RT_TRY(one_task_download(t, i, &data));
        verdict_check_input(&t->verdict, &t->inputs[i].spec, data, t->r->plan.options->threads);
        free(data);
    }
    return rt_ok();
}

static RtError run_twice(OneTask *t) {
    const Artifact *a = t->r->plan.a;
    RT_TRY(task_upload(&t->session, t->inputs, false, t->r->plan.options->threads));
    RT_TRY(runner_launch(t->r, &t->session, "the first launch"));
    RT_TRY(check_surroundings(t));
    for (size_t i = 0; i < a->param_count; i++)
        if (one_task_is_output(a, i)) RT_TRY(one_task_download(t, i, &t->first[i]));
    t->session.round = 1;
    bool fences = t->r->device.fences; /* the second launch's are on the other side of the buffers */
    if (fences) RT_TRY(session_turn(&t->session, t->arena));
    for (unsigned i = 0; i < a->param_count && !fences; i++)
        if (one_task_is_output(a, i) || a->params[i].kind == ARTIFACT_WORKSPACE) RT_TRY(session_poison(&t->session, i));
    RT_TRY(task_upload(&t->session, t->inputs, !fences, t->r->plan.options->threads));
    RT_TRY(runner_launch(t->r, &t->session, "the second launch"));
    return check_surroundings(t);
}

/* Targets agree on numbers bit for bit, but a NaN's sign and payload are each machine's own. */
static Hash128 hash_values(Dtype dtype, const void *data, size_t bytes, Hash128 hash) {
    unsigned char chunk[4096];
    if (!dtype_is_float(dtype)) return hash128(data, bytes, hash);
    for (size_t done = 0; done < bytes; done += sizeof chunk) {
        size_t n = bytes - done < sizeof chunk ? bytes - done : sizeof chunk;
        memcpy(chunk, (const unsigned char *)data + done, n);
        dtype_unify_nans(dtype, chunk, n / dtype_size(dtype));
        hash = hash128(chunk, n, hash);
    }
    return hash;
}

/* Of all outputs, in the order of the parameters. */
static void digest_outputs(const OneTask *t, char digest[33]) {
    Hash128 hash = {0, 0};
    for (size_t i = 0; i < t->r->plan.a->param_count; i++)
        if (one_task_is_output(t->r->plan.a, i))
            hash = hash_values(t->r->plan.a->params[i].dtype, t->first[i], binding_element_bytes(&t->binding, i), hash);
    hash128_hex(hash, digest);
}

RtError one_task_find_output(const OneTask *t, size_t i, unsigned *output) {
    const ArtifactParam *p = &t->r->plan.a->params[i];
    unsigned n = evaluator_output_count(t->evaluator), k = 0;
    while (k < n && strcmp(evaluator_output(t->evaluator, k)->name, task_graph_name(p)) != 0) k++;
    *output = k;
    return k < n ? rt_ok() : rt_error(RT_BAD_ARTIFACT, "the operator does not compute '%s'", p->name);
}

static size_t sample_budget(uint64_t elements) {
    return elements <= DENSE_ELEMENTS ? DENSE : SPARSE;
}

/* Where the evaluator takes samples only, the naive form is compiled. */
static void make_reference(OneTask *t) {
    for (unsigned k = 0; k < evaluator_output_count(t->evaluator); k++) {
        uint64_t elements = (uint64_t)evaluator_output(t->evaluator, k)->elements;
        if (elements <= sample_budget(elements)) continue;
        runner_phase(t->r, WORKER_PATIENCE, "running the naive form");
        reference_open(&t->reference, t->arena, t->evaluator, t->r->plan.options->threads);
        return;
    }
}

static RtError check_outputs(OneTask *t) {
    const Artifact *a = t->r->plan.a;
    const RtOptions *o = t->r->plan.options;
    CompareOptions compare = {.seed = o->seed, .threads = o->threads, .special = t->task->special != NULL, .derived = !t->task->own};
    make_reference(t);
    compare.naive = t->reference.naive;
    compare.fed = true;
    for (size_t i = 0; i < a->param_count; i++) compare.fed &= !t->inputs[i].read || t->inputs[i].shape.elements > 0;
    for (size_t i = 0; i < a->param_count; i++) {
        if (!one_task_is_output(a, i)) continue;
        unsigned k;
        RT_TRY(one_task_find_output(t, i, &k));
        const Shape *shape = evaluator_output(t->evaluator, k);
        if (shape->dtype != a->params[i].dtype || (uint64_t)shape->elements != t->binding.elements[i])
            return rt_error(RT_BAD_ARTIFACT, "'%s' is another tensor in the operator (dtype or number of elements)", a->params[i].name);
        compare.sample_budget = sample_budget(t->binding.elements[i]);
        void *second;
        RT_TRY(one_task_download(t, i, &second));
        compare.second = second;
        verdict_check_output(&t->verdict, t->evaluator, k, t->first[i], !t->inputs[i].read, &compare);
        verdict_check_second(&t->verdict, shape, t->first[i], second, !a->unordered);
        free(second);
    }
    return rt_ok();
}

static const Evaluator *make_wrong(OneTask *t, const EvalBinding *operands, const EvalInput *inputs, EvalFault fault) {
    const char *error = NULL;
    EvalBinding *binding = ARENA_NEW(t->arena, EvalBinding);
    *binding = *operands;
    binding->fault = fault;
    binding->trial = false;
    if (inputs) binding->inputs = inputs;
    return evaluator_create(t->arena, t->r->plan.graph, binding, &error);
}

/* The case's data of another seed, each element made when it is read; null: the operator has none. */
static RtError other_inputs(OneTask *t, TaskInput **inputs) {
    RtOptions options = *t->r->plan.options;
    TaskPlan plan = t->r->plan;
    options.seed = ~options.seed;
    plan.options = &options;
    RT_TRY(task_inputs(&plan, t->task, t->arena, &t->binding, inputs));
    for (size_t i = 0; options.exact && t->exact_share > 0 && i < plan.a->param_count; i++)
        if ((*inputs)[i].read) input_spec_thin(&(*inputs)[i].spec, t->exact_share);
    return rt_ok();
}

RtError one_task_power(OneTask *t, const TaskInput *others, const Evaluator *right, const EvalBinding *operands, PowerOutcome *worst,
                       const char **where) {
    const Evaluator *wrong[POWER_COUNT] = {NULL};
    EvalInput *made = ARENA_ARRAY(t->arena, EvalInput, t->r->plan.a->param_count + 1);
    size_t count = 0;
    for (size_t i = 0; i < t->r->plan.a->param_count; i++)
        if (others[i].read) made[count++] = (EvalInput){others[i].shape, NULL, &others[i].spec};
    if (count) wrong[POWER_SEED] = make_wrong(t, operands, made, EVAL_RIGHT);
    if (evaluator_sums(right)) {
        wrong[POWER_TENTH] = make_wrong(t, operands, NULL, EVAL_MISSING_TENTH);
        wrong[POWER_HALF] = make_wrong(t, operands, NULL, EVAL_DOUBLED_HALF);
    }
    memset(worst, 0, POWER_COUNT * sizeof *worst);
    for (unsigned k = 0; k < evaluator_output_count(right); k++) {
        PowerOutcome found[POWER_COUNT];
        if (!power_check(t->arena, right, wrong, k, t->r->plan.options->seed, found))
            return rt_error(RT_MISSING, "out of memory for the power check");
        for (int f = 0; f < POWER_COUNT; f++) {
            if (worst[f] == POWER_HIDDEN || found[f] == POWER_SAME) continue;
            worst[f] = found[f];
            where[f] = evaluator_output(right, k)->name;
        }
    }
    return rt_ok();
}

/* Of declared cases: the ragged sizes are many and small, and each draws data of its own. Where the bounds at the case's data hide a fault, exact
 * sums may decide. */
static RtError check_power(OneTask *t) {
    PowerOutcome found[POWER_COUNT];
    const char *where[POWER_COUNT] = {NULL};
    TaskInput *others;
    bool decides = false;
    if (!verdict_passed(&t->verdict)) return rt_ok();
    if (t->task->trial) RT_TRY(exact_trial(t, &decides));
    if (!t->task->own) return rt_ok();
    RT_TRY(other_inputs(t, &others));
    RT_TRY(one_task_power(t, others, t->evaluator, t->operands, found, where));
    if (!t->task->special && !t->r->plan.options->exact) RT_TRY(exact_trial(t, &decides));
    for (int f = 0; f < POWER_COUNT && !decides; f++)
        if (found[f] == POWER_HIDDEN)
            verdict_fail(&t->verdict, CHECK_POWER, 1,
                         "%s: %s would pass as well, so wide are the bounds at this data; choose other data or another seed, "
                         "or --exact",
                         where[f], power_fault_text((PowerFault)f));
    verdict_pass(&t->verdict, CHECK_POWER);
    return rt_ok();
}

/* The order in which a failed check names the status: what else it may have caused comes later. */
static const struct {
    CheckId check;
    RtStatus status;
} decisive[] = {
    {CHECK_FAULT, RT_FAULT},
    {CHECK_TIMEOUT, RT_HANG},
    {CHECK_GUARD, RT_OUT_OF_BOUNDS},
    {CHECK_INPUT_MODIFIED, RT_INPUT_MODIFIED},
    {CHECK_REFERENCE, RT_MISMATCH},
    {CHECK_UNWRITTEN, RT_NOT_WRITTEN},
    {CHECK_EXACT, RT_MISMATCH},
    {CHECK_BOUND, RT_MISMATCH},
    {CHECK_RMS, RT_MISMATCH},
    {CHECK_UNDECIDED, RT_NEAR_TIES},
    {CHECK_SECOND_LAUNCH, RT_SECOND_LAUNCH},
    {CHECK_POWER, RT_POWERLESS},
};

static void summarise(const Verdict *v, RtVerdict *out) {
    for (size_t i = 0; i < COUNT_OF(decisive); i++) {
        const CheckResult *c = &v->checks[decisive[i].check];
        if (c->status != CHECK_FAILED) continue;
        out->status = decisive[i].status;
        rt_copy(out->check, sizeof out->check, check_name(decisive[i].check));
        rt_copy(out->text, sizeof out->text, c->detail ? c->detail : "");
        break;
    }
    if (out->status == RT_OK && !verdict_passed(v)) {
        out->status = RT_MISMATCH;
        rt_copy(out->text, sizeof out->text, "the result was not compared with the reference");
    }
    out->paper_rule = v->checks[CHECK_PAPER_RULE].status == CHECK_PASSED;
    out->kernelbench_rule = v->checks[CHECK_ALLCLOSE].status == CHECK_PASSED;
    for (size_t i = 0; i < v->output_count; i++) {
        const OutputVerdict *o = &v->outputs[i];
        out->elements += (uint64_t)o->elements;
        out->compared += (uint64_t)o->checked;
        out->undecided += (uint64_t)o->undecided;
        out->unknown += (uint64_t)o->unknown;
        if (i == 0 || o->max_ratio > out->worst_ratio) rt_copy(out->tensor, sizeof out->tensor, o->name);
        if (o->max_ratio > out->worst_ratio) out->worst_ratio = o->max_ratio;
        if (o->rms > out->rms_ratio) out->rms_ratio = o->rms;
        if (o->max_error > out->max_error) out->max_error = o->max_error;
        out->by_naive |= o->by_naive;
        if (o->within > out->within) out->within = o->within;
        if (o->hidden_element <= out->hidden_element) continue;
        out->hidden_element = o->hidden_element;
        out->hidden_tile = o->hidden_tile;
        memcpy(out->tile, o->tile, sizeof out->tile);
    }
    out->sampled = out->compared < out->elements;
}

static void print_special(const Task *task, char *out, size_t size) {
    size_t used = strlen(out);
    if (task->special) snprintf(out + used, size - used, ", special values in %s along axis %u", task->special, task->axis);
}

/* Scalars of a task that has other ones than its case. */
static void print_scalars(const OneTask *t, char *out, size_t size) {
    const Artifact *a = t->r->plan.a;
    for (size_t i = 0; t->task->scalars && i < a->param_count; i++) {
        size_t used = strlen(out);
        if (a->params[i].kind == ARTIFACT_SCALAR) snprintf(out + used, size - used, ", %s=%.9g", a->params[i].name, t->binding.scalars[i]);
    }
}

static RtError check_task(OneTask *t, RtVerdict *out) {
    RtError e = task_bind(&t->r->plan, t->task, &t->binding);
    if (e.status == RT_BAD_INPUT || e.status == RT_BAD_OPTION) e.status = RT_SKIPPED; /* the kernel's own constraints may be narrower */
    RT_TRY(e);
    binding_print(&t->binding, out->sizes, sizeof out->sizes);
    print_scalars(t, out->sizes, sizeof out->sizes);
    print_special(t->task, out->sizes, sizeof out->sizes);
    RT_TRY(task_check_size(&t->r->plan, t->task, &t->r->device, &t->binding));
    RT_TRY(task_inputs(&t->r->plan, t->task, t->arena, &t->binding, &t->inputs));
    RT_TRY(make_evaluator(t));
    RT_TRY(session_open(&t->session, t->arena, &t->r->device, t->r->program, &t->binding));
    RT_TRY(run_twice(t));
    digest_outputs(t, out->digest);
    RT_TRY(session_counts(&t->session, out->text, sizeof out->text));
    RT_TRY(check_outputs(t));
    return check_power(t);
}

static bool run_task(Runner *r, size_t index, void *record) {
    const Task *task = &r->plan.tasks[index];
    RtVerdict *out = record;
    OneTask t = {.r = r, .task = task, .arena = arena_create()};
    double start = rt_now();
    verdict_init(&t.verdict, t.arena);
    t.first = ARENA_ARRAY(t.arena, void *, r->plan.a->param_count + 1);
    binding_init(&t.binding, t.arena, r->plan.a, r->device.num_sms, r->device.num_cores);
    RtError e = task->sizes ? check_task(&t, out) : rt_error(RT_SKIPPED, "%s", task->skip);
    if (e.status == RT_OK && (task->special || task->scalars) && t.verdict.checks[CHECK_REFERENCE].status == CHECK_FAILED)
        e = rt_error(RT_SKIPPED, "the operator reads outside of a tensor at these values");
    if (e.status == RT_OK) {
        summarise(&t.verdict, out);
        if (out->sampled)
            rt_copy(out->why_sampled, sizeof out->why_sampled, t.reference.why ? t.reference.why : "it differs from the evaluator");
    } else {
        out->status = e.status;
        rt_copy(out->text, sizeof out->text, e.text);
        bool fault = e.status == RT_FAULT || e.status == RT_ABORT;
        if (fault) rt_copy(out->check, sizeof out->check, check_name(CHECK_FAULT));
        if (e.status == RT_OUT_OF_BOUNDS) rt_copy(out->check, sizeof out->check, check_name(CHECK_GUARD)); /* it met a fence */
    }
    out->seconds = rt_now() - start;
    if (t.session.bases) session_close(&t.session);
    for (size_t i = 0; i < r->plan.a->param_count; i++) free(t.first[i]);
    for (size_t i = 0; i < t.kept_count; i++) free(t.kept[i]);
    reference_close(&t.reference);
    arena_destroy(t.arena);
    return e.status != RT_FAULT && e.status != RT_HANG && e.status != RT_ABORT && e.status != RT_OUT_OF_BOUNDS;
}

/* ---- Parent ---- */

static bool accept(Runner *r, size_t index, void *record) {
    RtVerdict *v = record;
    if ((unsigned)v->status >= RT_STATUS_COUNT) return false;
    v->sizes[sizeof v->sizes - 1] = v->check[RT_NAME - 1] = v->text[RT_TEXT - 1] = v->tensor[RT_NAME - 1] = v->digest[32] =
        v->why_sampled[RT_NAME - 1] = '\0';
    rt_copy(v->name, sizeof v->name, r->plan.tasks[index].name);
    return true;
}

static void blame(Runner *r, size_t index, const RtError *e, void *record) {
    RtVerdict *v = record;
    (void)r, (void)index;
    v->status = e->status;
    rt_copy(v->text, sizeof v->text, e->text);
    if (e->status != RT_SKIPPED) rt_copy(v->check, sizeof v->check, check_name(e->status == RT_HANG ? CHECK_TIMEOUT : CHECK_FAULT));
}

static void print_sizes(const Task *task, char *out, size_t size) {
    size_t used = 0;
    for (size_t i = 0; task->sizes && i < task->sizes->count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s=%lld", i ? " " : "", task->sizes->values[i].name,
                                 (long long)task->sizes->values[i].value);
    if (task->sizes) print_special(task, out, size);
}

/* ---- Branches on sizes ---- */

static const char *describe(Arena *arena, const Branch *b, uint8_t missing) {
    const char *what = b->is_loop               ? "the loop ran no iteration"
                       : b->op->opcode == IR_IF ? (missing & BRANCH_TRUE ? "the condition never held" : "the condition always held")
                       : missing & BRANCH_TRUE  ? "the comparison never held"
                                                : "the comparison always held";
    return arena_printf(arena, "%lld:%lld: %s at the sizes that were verified: a case of such sizes shows what the sketch does there",
                        (long long)b->line, (long long)b->column, what);
}

/* What sizes decide in the sketch and was not seen. Of what --case or --no-ragged leave out nothing is said. */
static void find_missing(const Runner *r, RtVerifyReport *report, Arena *arena) {
    const TaskPlan *plan = &r->plan;
    if (!plan->branches || !report->passed) return;
    size_t sites = branches_count(plan->branches);
    uint8_t *seen = ARENA_ARRAY(arena, uint8_t, sites + 1);
    report->missing = ARENA_ARRAY(arena, const char *, sites + 1);
    for (size_t i = 0; i < plan->count; i++)
        if (report->verdicts[i].status == RT_OK) task_walk_branches(plan, plan->tasks[i].sizes, plan->tasks[i].own, seen);
    int64_t line = 0;
    for (size_t i = 0; i < sites; i++) {
        uint8_t missing = branches_missing(plan->branches, i, seen);
        const Branch *b = branches_site(plan->branches, i);
        if (!missing || (b->line && b->line == line)) continue; /* a condition and its comparison are one place */
        line = b->line;
        report->missing[report->missing_count++] = describe(arena, b, missing);
    }
}

static void count_verdicts(const Runner *r, RtVerifyReport *report, Arena *arena) {
    for (size_t i = 0; i < report->count; i++) {
        const RtVerdict *v = &report->verdicts[i];
        if (v->status == RT_OK)
            report->passed++;
        else if (v->status == RT_SKIPPED)
            report->skipped++;
        else {
            report->failed++;
            if (rt_failed(&report->error)) continue;
            report->error = rt_error(v->status, "case %s: %.400s", v->name, v->text);
        }
    }
    if (!rt_failed(&report->error)) find_missing(r, report, arena);
    if (report->missing_count) report->error = rt_error(RT_INCOMPLETE, "%.500s", report->missing[0]);
    if (!rt_failed(&report->error) && !report->passed)
        report->error = rt_error(RT_BAD_INPUT, "no case was run: %.400s", report->count ? report->verdicts[0].text : "there is none");
}

RtVerifyReport rt_verify(const Artifact *a, const RtOptions *options, Arena *arena) {
    Runner r = {.fences = true, .record_size = sizeof(RtVerdict), .run = run_task, .accept = accept, .blame = blame};
    RtVerifyReport report = {.error = task_plan_create(&r.plan, arena, a, options, true)};
    if (rt_failed(&report.error)) return report;
    RtVerdict *verdicts = ARENA_ARRAY(arena, RtVerdict, r.plan.count + 1);
    for (size_t i = 0; i < r.plan.count; i++) {
        rt_copy(verdicts[i].name, RT_NAME, r.plan.tasks[i].name);
        print_sizes(&r.plan.tasks[i], verdicts[i].sizes, sizeof verdicts[i].sizes);
    }
    r.records = (unsigned char *)verdicts;
    report.error = runner_run(&r);
    if (rt_failed(&report.error)) return report;
    report.count = r.plan.count;
    report.verdicts = verdicts;
    count_verdicts(&r, &report, arena);
    return report;
}
