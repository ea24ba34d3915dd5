/* `verify`: every case and ragged size in a worker, against the reference evaluator. */
#include "verify_plan.h"
#include "worker.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_CRASHES = 3, DENSE = 1 << 18, SPARSE = 1 << 16 };
#define KEEP_INPUT_BYTES ((uint64_t)1 << 30)
#define DENSE_ELEMENTS ((uint64_t)1 << 22)

typedef enum { FRAME_SETUP, FRAME_BEGIN, FRAME_VERDICT } FrameKind;
typedef struct {
    uint32_t kind, index;
    union {
        RtError setup;
        RtVerdict verdict;
    } u;
} Frame;

typedef struct {
    TaskPlan plan;
    RtVerdict *verdicts;
    size_t next;      /* the first task not yet begun */
    bool running;     /* task next - 1 was begun and has no verdict */
    RtError setup;
    /* in the child */
    WorkerChannel *channel;
    Device device;
    Program *program;
} Verify;

/* ---- One task, in the child ---- */

typedef struct {
    Verify *v;
    const Task *task;
    Arena *arena;
    Binding binding;
    Session session;
    TaskInput *inputs;
    Evaluator *evaluator;
    Verdict verdict;
    void **first; /* by parameter: outputs after the first launch */
} OneTask;

static bool is_output(const Artifact *a, size_t i) {
    return a->params[i].kind == ARTIFACT_TENSOR && (a->params[i].direction & ARTIFACT_OUT);
}

/* The reference reads its inputs from memory when they are small, else makes each element anew. */
static RtError make_evaluator(OneTask *t) {
    const Artifact *a = t->v->plan.a;
    const RtOptions *o = t->v->plan.options;
    EvalInput *inputs = ARENA_ARRAY(t->arena, EvalInput, a->param_count + 1);
    EvalScalar *scalars = ARENA_ARRAY(t->arena, EvalScalar, a->param_count + 1);
    EvalBinding binding = {.sizes = t->task->sizes, .inputs = inputs, .scalars = scalars};
    uint64_t kept = 0;
    for (size_t i = 0; i < a->param_count; i++) {
        if (a->params[i].kind == ARTIFACT_SCALAR)
            scalars[binding.scalar_count++] = (EvalScalar){task_graph_name(&a->params[i]), t->binding.scalars[i]};
        if (!t->inputs[i].read) continue;
        void *data = NULL;
        if ((kept += t->binding.bytes[i]) <= KEEP_INPUT_BYTES && (data = rt_alloc(t->binding.bytes[i])))
            input_fill(&t->inputs[i].spec, data, 0, t->inputs[i].shape.elements, o->threads);
        inputs[binding.input_count++] = (EvalInput){t->inputs[i].shape, data, &t->inputs[i].spec};
    }
    const char *error = NULL;
    t->evaluator = evaluator_create(t->arena, t->v->plan.graph, &binding, &error);
    return t->evaluator ? rt_ok() : rt_error(RT_BUG, "the operator cannot be evaluated: %.300s", error ? error : "");
}

static RtError launch(OneTask *t, const char *what) {
    const RtOptions *o = t->v->plan.options;
    worker_phase(t->v->channel, o->time_limit_s > 0 ? o->time_limit_s : 60, what);
    RT_TRY(session_launch(&t->session));
    worker_phase(t->v->channel, WORKER_PATIENCE, "checking the results");
    return rt_ok();
}

static RtError download(OneTask *t, size_t i, void **data) {
    *data = rt_alloc(t->binding.bytes[i]);
    if (!*data) return rt_error(RT_MISSING, "out of memory for checking '%s'", t->v->plan.a->params[i].name);
    Device *d = t->session.device;
    return d->ops->download(d, *data, t->session.addresses[i], t->binding.bytes[i]);
}

/* Guard zones and read-only tensors, after either launch. */
static RtError check_surroundings(OneTask *t) {
    const Artifact *a = t->v->plan.a;
    RtError e = session_check_guards(&t->session);
    if (e.status == RT_OUT_OF_BOUNDS) verdict_fail(&t->verdict, CHECK_GUARD, 1, "%s", e.text);
    else if (rt_failed(&e)) return e;
    else verdict_pass(&t->verdict, CHECK_GUARD);
    for (size_t i = 0; i < a->param_count; i++) {
        if (!t->inputs[i].read || a->params[i].direction != ARTIFACT_IN) continue;
        void *data;
        RT_TRY(download(t, i, &data));
        verdict_check_input(&t->verdict, &t->inputs[i].spec, data, t->v->plan.options->threads);
        free(data);
    }
    return rt_ok();
}

static RtError run_twice(OneTask *t) {
    const Artifact *a = t->v->plan.a;
    RT_TRY(task_upload(&t->session, t->inputs, false, t->v->plan.options->threads));
    RT_TRY(launch(t, "the first launch"));
    RT_TRY(check_surroundings(t));
    for (size_t i = 0; i < a->param_count; i++)
        if (is_output(a, i)) RT_TRY(download(t, i, &t->first[i]));
    for (unsigned i = 0; i < a->param_count; i++)
        if (is_output(a, i) || a->params[i].kind == ARTIFACT_WORKSPACE) RT_TRY(session_poison(&t->session, i));
    RT_TRY(task_upload(&t->session, t->inputs, true, t->v->plan.options->threads));
    RT_TRY(launch(t, "the second launch"));
    return check_surroundings(t);
}

static RtError check_outputs(OneTask *t) {
    const Artifact *a = t->v->plan.a;
    const RtOptions *o = t->v->plan.options;
    CompareOptions compare = {.seed = o->seed, .threads = o->threads};
    for (size_t i = 0; i < a->param_count; i++) {
        if (!is_output(a, i)) continue;
        unsigned n = evaluator_output_count(t->evaluator), k = 0;
        while (k < n && strcmp(evaluator_output(t->evaluator, k)->name, task_graph_name(&a->params[i])) != 0) k++;
        if (k == n) return rt_error(RT_BAD_ARTIFACT, "the operator does not compute '%s'", a->params[i].name);
        const Shape *shape = evaluator_output(t->evaluator, k);
        if (shape->dtype != a->params[i].dtype || (uint64_t)shape->elements != t->binding.elements[i])
            return rt_error(RT_BAD_ARTIFACT, "'%s' is another tensor in the operator (dtype or number of elements)", a->params[i].name);
        compare.sample_budget = t->binding.elements[i] <= DENSE_ELEMENTS ? DENSE : SPARSE;
        verdict_check_output(&t->verdict, t->evaluator, k, t->first[i], a->params[i].direction == ARTIFACT_OUT, &compare);
        void *second;
        RT_TRY(download(t, i, &second));
        verdict_check_second(&t->verdict, shape, t->first[i], second, true);
        free(second);
    }
    return rt_ok();
}

/* The order in which a failed check names the status: what else it may have caused comes later. */
static const struct {
    CheckId check;
    RtStatus status;
} decisive[] = {
    {CHECK_FAULT, RT_FAULT}, {CHECK_TIMEOUT, RT_HANG}, {CHECK_GUARD, RT_OUT_OF_BOUNDS},
    {CHECK_INPUT_MODIFIED, RT_INPUT_MODIFIED}, {CHECK_UNWRITTEN, RT_NOT_WRITTEN}, {CHECK_EXACT, RT_MISMATCH},
    {CHECK_BOUND, RT_MISMATCH}, {CHECK_RMS, RT_MISMATCH}, {CHECK_UNDECIDED, RT_MISMATCH},
    {CHECK_SECOND_LAUNCH, RT_SECOND_LAUNCH},
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
        if (i == 0 || o->max_ratio > out->worst_ratio) rt_copy(out->tensor, sizeof out->tensor, o->name);
        if (o->max_ratio > out->worst_ratio) out->worst_ratio = o->max_ratio;
        if (o->rms > out->rms_ratio) out->rms_ratio = o->rms;
        if (o->max_error > out->max_error) out->max_error = o->max_error;
    }
    out->sampled = out->compared < out->elements;
}

static RtError check_task(OneTask *t) {
    RtError e = task_bind(&t->v->plan, t->task, &t->binding);
    if (e.status == RT_BAD_INPUT) e.status = RT_SKIPPED; /* the kernel's own constraints may be narrower */
    RT_TRY(e);
    binding_print(&t->binding, t->v->verdicts[t->v->next - 1].sizes, sizeof t->v->verdicts->sizes);
    RT_TRY(task_check_size(&t->v->plan, t->task, &t->v->device, &t->binding));
    RT_TRY(task_inputs(&t->v->plan, t->task, t->arena, &t->binding, &t->inputs));
    RT_TRY(make_evaluator(t));
    RT_TRY(session_open(&t->session, t->arena, &t->v->device, t->v->program, &t->binding));
    RT_TRY(run_twice(t));
    return check_outputs(t);
}

static void run_task(Verify *v, const Task *task, RtVerdict *out) {
    OneTask t = {.v = v, .task = task, .arena = arena_create()};
    double start = rt_now();
    verdict_init(&t.verdict, t.arena);
    t.first = ARENA_ARRAY(t.arena, void *, v->plan.a->param_count + 1);
    binding_init(&t.binding, t.arena, v->plan.a, v->device.num_sms, v->device.num_cores);
    RtError e = task->sizes ? check_task(&t) : rt_error(RT_SKIPPED, "%s", task->skip);
    if (e.status == RT_OK) {
        summarise(&t.verdict, out);
    } else {
        out->status = e.status;
        rt_copy(out->text, sizeof out->text, e.text);
        if (e.status == RT_FAULT) rt_copy(out->check, sizeof out->check, check_name(CHECK_FAULT));
    }
    out->seconds = rt_now() - start;
    if (t.session.bases) session_close(&t.session);
    for (size_t i = 0; i < v->plan.a->param_count; i++) free(t.first[i]);
    arena_destroy(t.arena);
}

static void send(Verify *v, Frame *frame, FrameKind kind, size_t index) {
    frame->kind = kind;
    frame->index = (uint32_t)index;
    worker_send(v->channel, frame, sizeof *frame);
}

/* After a fault the device's context is lost: the process ends and the parent starts another. */
static void work(void *ctx, WorkerChannel *channel) {
    Verify *v = ctx;
    Frame frame;
    memset(&frame, 0, sizeof frame);
    v->channel = channel;
    RtError e = device_open(&v->device, v->plan.a->target, v->plan.options->device);
    worker_phase(channel, WORKER_PATIENCE, "loading the code");
    if (!rt_failed(&e)) e = v->device.ops->load(&v->device, v->plan.a, v->plan.options, &v->program);
    if (rt_failed(&e)) {
        frame.u.setup = e;
        send(v, &frame, FRAME_SETUP, 0);
        return;
    }
    while (v->next < v->plan.count) {
        size_t i = v->next++;
        send(v, &frame, FRAME_BEGIN, i);
        run_task(v, &v->plan.tasks[i], &v->verdicts[i]);
        frame.u.verdict = v->verdicts[i];
        send(v, &frame, FRAME_VERDICT, i);
        if (v->verdicts[i].status == RT_FAULT) return;
    }
}

/* ---- Parent ---- */

static bool receive(void *ctx, const void *data, size_t size) {
    Verify *v = ctx;
    Frame frame;
    if (size != sizeof frame) return false;
    memcpy(&frame, data, size);
    if (frame.kind == FRAME_SETUP) {
        v->setup = frame.u.setup;
        v->setup.text[RT_TEXT - 1] = '\0';
        return (unsigned)v->setup.status < RT_STATUS_COUNT;
    }
    if (frame.kind == FRAME_BEGIN && frame.index == v->next && !v->running && v->next < v->plan.count) {
        v->next++;
        v->running = true;
        return true;
    }
    if (frame.kind != FRAME_VERDICT || !v->running || frame.index != v->next - 1) return false;
    RtVerdict *r = &frame.u.verdict;
    if ((unsigned)r->status >= RT_STATUS_COUNT) return false;
    r->sizes[sizeof r->sizes - 1] = r->check[RT_NAME - 1] = r->text[RT_TEXT - 1] = r->tensor[RT_NAME - 1] = '\0';
    rt_copy(r->name, sizeof r->name, v->plan.tasks[frame.index].name);
    v->verdicts[frame.index] = *r;
    v->running = false;
    return true;
}

static void blame(Verify *v, const RtError *e) {
    RtVerdict *r = &v->verdicts[v->next - 1];
    r->status = e->status;
    rt_copy(r->text, sizeof r->text, e->text);
    rt_copy(r->check, sizeof r->check, check_name(e->status == RT_HANG ? CHECK_TIMEOUT : CHECK_FAULT));
    v->running = false;
}

static void print_sizes(const Task *task, char *out, size_t size) {
    size_t used = 0;
    for (size_t i = 0; task->sizes && i < task->sizes->count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s=%lld", i ? " " : "", task->sizes->values[i].name,
                                 (long long)task->sizes->values[i].value);
}

static RtError run_all(Verify *v) {
    unsigned crashes = 0;
    while (v->next < v->plan.count) {
        size_t before = v->next;
        RtError e = worker_run(&(WorkerSpec){work, receive, v});
        if (rt_failed(&v->setup)) return v->setup;
        if (v->running && !rt_failed(&e)) e = rt_error(RT_BUG, "the worker left a case unfinished");
        if (v->running) blame(v, &e);
        else if (rt_failed(&e) || v->next == before) return rt_failed(&e) ? e : rt_error(RT_BUG, "the worker did nothing");
        if (v->next < v->plan.count && ++crashes == MAX_CRASHES) break;
    }
    for (; v->next < v->plan.count; v->next++) {
        v->verdicts[v->next].status = RT_SKIPPED;
        snprintf(v->verdicts[v->next].text, RT_TEXT, "left out after %d crashes", MAX_CRASHES);
    }
    return rt_ok();
}

static void count_verdicts(RtVerifyReport *report) {
    for (size_t i = 0; i < report->count; i++) {
        const RtVerdict *v = &report->verdicts[i];
        if (v->status == RT_OK) report->passed++;
        else if (v->status == RT_SKIPPED) report->skipped++;
        else {
            report->failed++;
            if (rt_failed(&report->error)) continue;
            report->error = rt_error(v->status, "case %s: %.400s", v->name, v->text);
        }
    }
    if (!rt_failed(&report->error) && !report->passed)
        report->error = rt_error(RT_BAD_INPUT, "no case was run: %.400s", report->count ? report->verdicts[0].text : "there is none");
}

RtVerifyReport rt_verify(const Artifact *a, const RtOptions *options, Arena *arena) {
    Verify v = {.next = 0};
    RtVerifyReport report = {.error = task_plan_create(&v.plan, arena, a, options, true)};
    if (rt_failed(&report.error)) return report;
    v.verdicts = ARENA_ARRAY(arena, RtVerdict, v.plan.count + 1);
    for (size_t i = 0; i < v.plan.count; i++) {
        rt_copy(v.verdicts[i].name, RT_NAME, v.plan.tasks[i].name);
        print_sizes(&v.plan.tasks[i], v.verdicts[i].sizes, sizeof v.verdicts[i].sizes);
    }
    report.error = run_all(&v);
    if (rt_failed(&report.error)) return report;
    report.count = v.plan.count;
    report.verdicts = v.verdicts;
    count_verdicts(&report);
    return report;
}
