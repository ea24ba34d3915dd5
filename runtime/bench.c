/* `bench`: the declared cases, timed. Samples of the kernel and of a plain device copy alternate,
 * so that both see the same clocks; the last-level cache is flushed by reading before each unless
 * `warm`. The first and the last timed result are compared with the untimed first one. */
#include "baseline.h"
#include "ceilings.h"
#include "possible.h"
#include "runner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_SAMPLES = 10, MAX_SAMPLES = 100, WARM_UPS = 3 };
#define BUDGET_S 1.0
#define SEEN_FACTOR 1.5
#define ROUND_TRIP_S 1e-3
#define MIN_COPY ((uint64_t)64 << 20)
#define MAX_COPY ((uint64_t)1 << 30)

typedef struct {
    Runner *r;
    const Task *task;
    RtTiming *out;
    Arena *arena;
    Binding binding;
    Session session;
    TaskInput *inputs;
    Hash128 *expected; /* by parameter: outputs of the first launch */
    uint64_t copy_from, copy_to, copy_bytes;
    double *samples, *seen, *copies, *others; /* seen: the samples by this process's clock */
    unsigned count;
    double least_seen; /* of all launches that were timed; 0: of none yet */
    bool slow;         /* clearly slower than asked for: one sample */
    Baseline baseline;
    RtCeilings ceilings;
} Bench;

static bool is_output(const Artifact *a, size_t i) {
    return a->params[i].kind == ARTIFACT_TENSOR && (a->params[i].direction & ARTIFACT_OUT);
}

static bool has_inout(const Artifact *a) {
    for (size_t i = 0; i < a->param_count; i++)
        if (a->params[i].kind == ARTIFACT_TENSOR && a->params[i].direction == ARTIFACT_INOUT) return true;
    return false;
}

/* Multiplications and additions of the operator's contractions: 2 x result x summed extents. */
static double contraction_flops(const Task *task, const IrBlock *block) {
    double sum = 0;
    for (const IrOp *op = block->first; op; op = op->next) {
        Shape result, a;
        const IrAttr *axes = op->opcode == IR_GRAPH_CONTRACT ? ir_attr(op, "sum_a") : NULL;
        if (!axes || !shape_of(task->sizes, "", op->results[0].type, &result) || !shape_of(task->sizes, "", op->operands[0]->type, &a))
            continue;
        double terms = 1;
        for (size_t i = 0; i < axes->count; i++)
            if (axes->ints[i] >= 0 && axes->ints[i] < (int64_t)a.rank) terms *= (double)a.extents[axes->ints[i]];
        sum += 2 * (double)result.elements * terms;
    }
    return sum;
}

static RtError poison_outputs(Bench *b) {
    const Artifact *a = b->session.a;
    for (unsigned i = 0; i < a->param_count; i++)
        if (is_output(a, i)) RT_TRY(session_poison(&b->session, i));
    return task_upload(&b->session, b->inputs, true, b->r->plan.options->threads);
}

/* inout tensors go on from launch to launch when timed: only poisoned launches are compared. */
static RtError check_outputs(Bench *b, const char *which) {
    const Artifact *a = b->session.a;
    RT_TRY(session_check_guards(&b->session));
    for (unsigned i = 0; i < a->param_count; i++) {
        Hash128 hash;
        if (!is_output(a, i)) continue;
        RT_TRY(session_hash(&b->session, i, &hash));
        if (hash.lo != b->expected[i].lo || hash.hi != b->expected[i].hi)
            return rt_error(RT_SECOND_LAUNCH, "%s gave another '%s' than the first launch", which, a->params[i].name);
    }
    return rt_ok();
}

/* ---- Samples ---- */

static RtError timed_launch(Bench *b, double *seconds, double *seen) {
    RT_TRY(session_time(&b->session, !b->r->plan.options->warm, seconds, seen));
    if (b->least_seen <= 0 || *seen < b->least_seen) b->least_seen = *seen;
    return rt_ok();
}

static RtError timed_copy(Bench *b, double *seconds) {
    double seen;
    const TimedWork copy = {.kind = TIME_COPY, .flush = true, .to = b->copy_to, .from = b->copy_from, .bytes = b->copy_bytes};
    return device_time(&b->r->device, &copy, seconds, &seen);
}

static RtError prepare_copy(Bench *b) {
    Device *d = &b->r->device;
    b->copy_bytes = binding_traffic_bytes(&b->binding) / 2;
    if (b->copy_bytes < MIN_COPY) b->copy_bytes = MIN_COPY;
    if (b->copy_bytes > MAX_COPY) b->copy_bytes = MAX_COPY;
    b->copy_bytes = b->copy_bytes / 4096 * 4096;
    RtError e = d->ops->alloc(d, b->copy_bytes, &b->copy_from);
    if (!rt_failed(&e)) e = d->ops->alloc(d, b->copy_bytes, &b->copy_to);
    if (!rt_failed(&e)) e = d->ops->fill(d, b->copy_from, 1, b->copy_bytes);
    if (!rt_failed(&e)) e = d->ops->fill(d, b->copy_to, 2, b->copy_bytes);
    if (e.status == RT_MISSING) b->copy_bytes = 0; /* no memory for it: no comparison */
    return e.status == RT_MISSING ? rt_ok() : e;
}

static unsigned sample_count(const Bench *b, double once) {
    if (b->r->plan.options->samples) return b->r->plan.options->samples;
    double n = BUDGET_S / (once > 1e-6 ? once : 1e-6);
    return n < MIN_SAMPLES ? MIN_SAMPLES : n > MAX_SAMPLES ? MAX_SAMPLES : (unsigned)n;
}

/* Two launches that are too slow end it: one alone may have been disturbed. */
static RtError warm_up(Bench *b, double limit, double *once) {
    double enough = b->r->plan.options->give_up_s, before = 0, seen;
    for (int i = 0; i < WARM_UPS && !b->slow; i++) {
        runner_phase(b->r, limit, "a timed launch");
        RT_TRY(timed_launch(b, once, &seen));
        b->slow = enough > 0 && before > enough && *once > enough;
        before = *once;
    }
    return rt_ok();
}

static RtError take_samples(Bench *b) {
    Device *d = &b->r->device;
    double limit = b->r->plan.options->time_limit_s > 0 ? b->r->plan.options->time_limit_s : 60, once = 0;
    RT_TRY(warm_up(b, limit, &once));
    b->count = b->slow ? 1 : sample_count(b, once);
    b->samples = ARENA_ARRAY(b->arena, double, b->count);
    b->seen = ARENA_ARRAY(b->arena, double, b->count);
    b->copies = ARENA_ARRAY(b->arena, double, b->count);
    b->others = ARENA_ARRAY(b->arena, double, b->count);
    for (unsigned i = 0; i < b->count; i++) {
        bool check = i == 0 || i + 1 == b->count;
        runner_phase(b->r, WORKER_PATIENCE, "preparing a sample");
        if (check) RT_TRY(poison_outputs(b));
        RT_TRY(d->ops->sync(d));
        runner_phase(b->r, limit, "a timed launch");
        RT_TRY(timed_launch(b, &b->samples[i], &b->seen[i]));
        if (b->copy_bytes) RT_TRY(timed_copy(b, &b->copies[i]));
        if (b->baseline.pid) {
            runner_phase(b->r, 2 * limit, "the baseline");
            RT_TRY(baseline_sample(&b->baseline, limit, &b->others[i]));
        }
        runner_phase(b->r, WORKER_PATIENCE, "checking the results");
        if (check) RT_TRY(check_outputs(b, i == 0 ? "the first timed launch" : "the last timed launch"));
    }
    b->out->checked = true;
    return rt_ok();
}

/* ---- Figures ---- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Linear between the two nearest of the sorted samples. */
static double quantile(const double *sorted, unsigned count, double q) {
    double at = q * (double)(count - 1), low = floor(at);
    unsigned i = (unsigned)low;
    if (i + 1 >= count) return sorted[count - 1];
    return sorted[i] + (at - low) * (sorted[i + 1] - sorted[i]);
}

/* The code's process reads the clock right beside the launch, and the code can get at it. What this process sees is more by a round
 * trip and, on a GPU, a flush. */
static bool is_believed(const Bench *b) {
    return b->least_seen <= SEEN_FACTOR * quantile(b->samples, b->count, 0.5) + ROUND_TRIP_S;
}

/* Round trips may be long on a machine with other work: more launches, until one is as quick as is said. Where none is, what this
 * process saw counts. */
static RtError check_clock(Bench *b) {
    double begin = rt_now(), said, seen;
    qsort(b->samples, b->count, sizeof *b->samples, by_value);
    while (!is_believed(b) && !b->slow && rt_now() - begin < BUDGET_S) {
        runner_phase(b->r, 60, "a timed launch");
        RT_TRY(timed_launch(b, &said, &seen));
    }
    if (is_believed(b)) return rt_ok();
    memcpy(b->samples, b->seen, b->count * sizeof *b->samples);
    rt_copy(b->out->text, sizeof b->out->text,
            "timed by the judging process's clock, which saw longer launches than that of the code's process");
    return rt_ok();
}

/* A time that no kernel can have is an error, whatever the results were. */
static RtError check_possible(const Bench *b) {
    const Runner *r = b->r;
    NecessaryWork work = possible_work(&r->plan, b->task, &b->binding);
    Peaks peaks = possible_peaks(&r->device, r->plan.options, &b->ceilings, b->out->copy_gb_per_s, work.factor_bytes);
    return possible_check(&work, &peaks, r->plan.options->warm, b->out->median_s);
}

static RtError figures(Bench *b) {
    RtTiming *t = b->out;
    qsort(b->samples, b->count, sizeof *b->samples, by_value);
    qsort(b->copies, b->count, sizeof *b->copies, by_value);
    t->samples = b->count;
    t->median_s = quantile(b->samples, b->count, 0.5);
    t->p5_s = quantile(b->samples, b->count, 0.05);
    t->p95_s = quantile(b->samples, b->count, 0.95);
    if (t->median_s <= 0) return rt_ok(); /* nothing was launched: empty tensors */
    t->noise = (t->p95_s - t->p5_s) / t->median_s;
    t->gb_per_s = (double)t->bytes / t->median_s * 1e-9;
    t->tflop_per_s = t->flops / t->median_s * 1e-12;
    double copy = b->copy_bytes ? quantile(b->copies, b->count, 0.5) : 0;
    if (copy > 0) {
        t->copy_gb_per_s = 2 * (double)b->copy_bytes / copy * 1e-9;
        t->percent_of_copy = 100 * t->gb_per_s / t->copy_gb_per_s;
    }
    t->null_s = b->ceilings.null_s;
    if (b->ceilings.read_gb_per_s > 0) t->percent_of_read = 100 * t->gb_per_s / b->ceilings.read_gb_per_s;
    if (b->baseline.pid) {
        qsort(b->others, b->count, sizeof *b->others, by_value);
        t->baseline_s = quantile(b->others, b->count, 0.5);
        t->baseline_noise = (quantile(b->others, b->count, 0.95) - quantile(b->others, b->count, 0.05)) / t->baseline_s;
        t->speedup = t->baseline_s / t->median_s;
    }
    RT_TRY(check_possible(b));
    if (!b->slow) return rt_ok();
    return rt_error(RT_SLOW, "two launches took longer than %g s: timed once", b->r->plan.options->give_up_s);
}

/* As calibrated; a GPU that was not is measured now. Ceilings that cannot be had leave their
 * figures out; that is no reason not to time. */
static void find_ceilings(Bench *b) {
    Runner *r = b->r;
    const char *dir = r->plan.options->cache_dir;
    if (ceilings_recall(&r->device, dir, &b->ceilings)) return;
    b->ceilings = (RtCeilings){0};
    if (r->plan.a->target != ARTIFACT_CUDA) return;
    runner_phase(r, 120, "measuring the device");
    RtError e = ceilings_measure(&r->device, dir, &b->ceilings);
    if (rt_failed(&e)) b->ceilings = (RtCeilings){0};
}

static RtError start_baseline(Bench *b) {
    const RtOptions *o = b->r->plan.options;
    double limit = o->time_limit_s > 0 ? o->time_limit_s : 60;
    if (!o->baseline) return rt_ok();
    runner_phase(b->r, 10 * limit, "starting the baseline");
    return baseline_start(&b->baseline, o->baseline, &b->binding, b->task->name, o->seed, 9 * limit);
}

static RtError bench_task(Bench *b) {
    Runner *r = b->r;
    RtError e = task_bind(&r->plan, b->task, &b->binding);
    if (e.status == RT_BAD_INPUT || e.status == RT_BAD_OPTION) e.status = RT_SKIPPED; /* the kernel's own constraints may be narrower */
    RT_TRY(e);
    binding_print(&b->binding, b->out->sizes, sizeof b->out->sizes);
    RT_TRY(task_check_size(&r->plan, b->task, &r->device, &b->binding));
    RT_TRY(task_inputs(&r->plan, b->task, b->arena, &b->binding, &b->inputs));
    RT_TRY(session_open(&b->session, b->arena, &r->device, r->program, &b->binding));
    RT_TRY(task_upload(&b->session, b->inputs, false, r->plan.options->threads));
    b->out->bytes = binding_traffic_bytes(&b->binding);
    if (r->plan.graph) b->out->flops = contraction_flops(b->task, r->plan.graph->body);
    double start = rt_now();
    RT_TRY(runner_launch(r, &b->session, "the first launch"));
    b->out->first_s = rt_now() - start;
    RT_TRY(session_check_guards(&b->session));
    for (unsigned i = 0; i < b->session.a->param_count; i++)
        if (is_output(b->session.a, i)) RT_TRY(session_hash(&b->session, i, &b->expected[i]));
    find_ceilings(b);
    RT_TRY(prepare_copy(b));
    RT_TRY(start_baseline(b));
    RT_TRY(take_samples(b));
    RT_TRY(check_clock(b));
    return figures(b);
}

static bool run_task(Runner *r, size_t index, void *record) {
    const Task *task = &r->plan.tasks[index];
    Bench b = {.r = r, .task = task, .out = record, .arena = arena_create(), .baseline = {.to = -1, .from = -1}};
    b.expected = ARENA_ARRAY(b.arena, Hash128, r->plan.a->param_count + 1);
    b.out->warm = r->plan.options->warm;
    binding_init(&b.binding, b.arena, r->plan.a, r->device.num_sms, r->device.num_cores);
    RtError e = task->sizes ? bench_task(&b) : rt_error(RT_SKIPPED, "%s", task->skip);
    b.out->status = e.status;
    if (rt_failed(&e)) rt_copy(b.out->text, sizeof b.out->text, e.text);
    if (!rt_failed(&e) && !b.out->text[0] && has_inout(r->plan.a))
        rt_copy(b.out->text, sizeof b.out->text, "inout tensors are restored in checked launches only");
    baseline_stop(&b.baseline);
    if (b.copy_from) r->device.ops->release(&r->device, b.copy_from);
    if (b.copy_to) r->device.ops->release(&r->device, b.copy_to);
    if (b.session.bases) session_close(&b.session);
    arena_destroy(b.arena);
    return e.status != RT_FAULT && e.status != RT_HANG && e.status != RT_ABORT;
}

/* ---- Parent ---- */

static bool accept(Runner *r, size_t index, void *record) {
    RtTiming *t = record;
    if ((unsigned)t->status >= RT_STATUS_COUNT) return false;
    t->sizes[sizeof t->sizes - 1] = t->text[RT_TEXT - 1] = '\0';
    rt_copy(t->name, sizeof t->name, r->plan.tasks[index].name);
    return true;
}

static void blame(Runner *r, size_t index, const RtError *e, void *record) {
    RtTiming *t = record;
    (void)r, (void)index;
    t->status = e->status;
    rt_copy(t->text, sizeof t->text, e->text);
}

RtBenchReport rt_bench(const Artifact *a, const RtOptions *options, Arena *arena) {
    Runner r = {.record_size = sizeof(RtTiming), .run = run_task, .accept = accept, .blame = blame};
    RtBenchReport report = {.error = task_plan_create(&r.plan, arena, a, options, false)};
    if (rt_failed(&report.error)) return report;
    report.timings = ARENA_ARRAY(arena, RtTiming, r.plan.count + 1);
    report.count = r.plan.count;
    for (size_t i = 0; i < report.count; i++) rt_copy(report.timings[i].name, RT_NAME, r.plan.tasks[i].name);
    r.records = (unsigned char *)report.timings;
    report.error = runner_run(&r);
    rt_copy(report.device, sizeof report.device, r.info.device);
    rt_copy(report.code, sizeof report.code, r.info.how);
    report.kernel_count = r.info.kernel_count;
    memcpy(report.kernels, r.info.kernels, sizeof report.kernels);
    size_t timed = 0;
    for (size_t i = 0; i < report.count && !rt_failed(&report.error); i++) {
        const RtTiming *t = &report.timings[i];
        timed += t->status == RT_OK || t->status == RT_SLOW;
        if (t->status != RT_OK && t->status != RT_SLOW && t->status != RT_SKIPPED)
            report.error = rt_error(t->status, "case %s: %.400s", t->name, t->text);
    }
    if (!rt_failed(&report.error) && !timed)
        report.error = rt_error(RT_BAD_INPUT, "no case was timed: %.400s", report.count ? report.timings[0].text : "");
    return report;
}
