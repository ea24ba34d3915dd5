/* The interpreter before and after every pass that changed something, against the reference; then with
 * the hints stripped: the same bits, unless a reduction, scan or product may be re-associated. Barriers of
 * kernels for GPUs are proved. */
#include "build.h"
#include "check.h"
#include "check/barrier_check.h"
#include "passes.h"
#include "verify.h"

#include <stdlib.h>
#include <string.h>

#define STEP_LIMIT (UINT64_C(1) << 25) /* of one launch: some seconds */

typedef struct {
    Arena *arena;
    const Sizes *sizes;
    const IrFunc *graph;
    Evaluator *evaluator;
    EvalInput *inputs;
    size_t input_count, tensor_count;
    InterpretTensor *tensors; /* of the inputs, then of the outputs that are none */
    size_t *output;           /* the tensor of each output */
    bool exact, unordered;
} Stage;

/* ---- Building ---- */

static IrModule *build(Arena *arena, DiagList *diags, const RandomProgram *p, const CheckOptions *options) {
    Str text;
    str_init(&text);
    program_print(p, "r", &options->cases, &text);
    uint32_t id = source_add(diags->sources, "random.sketch", text.data, text.len);
    str_release(&text);
    File *file = frontend_parse(arena, diags->sources, id, diags);
    FrontendOptions front = {0};
    if (!frontend_check(arena, file, &front, diags)) return NULL;
    IrModule *m = frontend_build(arena, diags->sources, file, diags);
    return diags->error_count ? NULL : m;
}

static void judge_diags(const DiagList *diags, Outcome *outcome) {
    Str text;
    str_init(&text);
    diag_render_text(diags, false, &text);
    outcome_of_diagnostics(text.data, outcome);
    str_release(&text);
}

static const IrFunc *graph_of(const IrModule *m) {
    const IrFunc *f = m->first;
    while (f && f->level != IR_LEVEL_GRAPH) f = f->next;
    return f;
}

/* ---- Memory of a launch ---- */

static const Sizes *bind_case(Arena *arena, const IrModule *m, const IrFunc *graph, size_t number) {
    const IrCase *c = &m->cases[number];
    Sizes given = {c->symbol_count, ARENA_ARRAY(arena, SymbolValue, c->symbol_count + 1)};
    const char *error = NULL;
    for (size_t i = 0; i < c->symbol_count; i++) given.values[i] = (SymbolValue){c->symbols[i], c->values[i]};
    return sizes_bind(arena, graph, &given, &error);
}

static void add_tensor(Stage *s, const Shape *shape) {
    size_t bytes = (size_t)shape->elements * dtype_size(shape->dtype);
    s->tensors[s->tensor_count++] = (InterpretTensor){shape->name, arena_alloc(s->arena, bytes + 16), bytes};
}

static void make_input(Stage *s, const IrCase *c, uint64_t seed, EvalInput *in) {
    InputSpec *spec = ARENA_NEW(s->arena, InputSpec);
    const char *error = NULL;
    bool empty;
    input_spec_default(spec, seed, &in->shape);
    if (s->exact) input_spec_exact(spec, seed, &in->shape);
    for (size_t i = 0; i < c->data_count && !s->exact; i++)
        if (strcmp(c->data[i].tensor, in->shape.name) == 0)
            input_spec_of_case(spec, seed, &in->shape, &c->data[i], s->sizes, &empty, &error);
    void *data = arena_alloc(s->arena, (size_t)in->shape.elements * 8 + 16);
    input_fill(spec, data, 0, in->shape.elements, 1);
    in->spec = spec;
    in->data = data;
}

/* input_count: none. */
static size_t input_named(const Stage *s, const char *name) {
    size_t i = 0;
    while (i < s->input_count && strcmp(s->inputs[i].shape.name, name) != 0) i++;
    return i;
}

static bool bind(Stage *s, const IrModule *m, size_t number, uint64_t seed) {
    s->graph = graph_of(m);
    s->sizes = s->graph ? bind_case(s->arena, m, s->graph, number) : NULL;
    if (!s->sizes) return false;
    s->inputs = ARENA_ARRAY(s->arena, EvalInput, s->graph->param_count + 1);
    for (unsigned i = 0; i < s->graph->param_count; i++) {
        if (s->graph->params[i].kind != IR_PARAM_TENSOR) continue;
        EvalInput *in = &s->inputs[s->input_count++];
        if (!shape_of(s->sizes, s->graph->params[i].name, s->graph->body->args[i]->type, &in->shape)) return false;
        make_input(s, &m->cases[number], seed, in);
    }
    EvalBinding *binding = ARENA_NEW(s->arena, EvalBinding);
    *binding = (EvalBinding){.sizes = s->sizes, .input_count = s->input_count, .inputs = s->inputs, .exact = s->exact};
    const char *error = NULL;
    s->evaluator = evaluator_create(s->arena, s->graph, binding, &error);
    if (!s->evaluator) return false;
    unsigned outputs = evaluator_output_count(s->evaluator);
    s->tensors = ARENA_ARRAY(s->arena, InterpretTensor, s->input_count + outputs + 1);
    for (size_t i = 0; i < s->input_count; i++) add_tensor(s, &s->inputs[i].shape);
    s->output = ARENA_ARRAY(s->arena, size_t, outputs + 1);
    for (unsigned k = 0; k < outputs; k++) {
        const Shape *shape = evaluator_output(s->evaluator, k);
        s->output[k] = input_named(s, shape->name);
        if (s->output[k] < s->input_count) continue;
        s->output[k] = s->tensor_count;
        add_tensor(s, shape);
    }
    return true;
}

/* What the operator goes on from keeps its data; other results are poison. */
static void reset(Stage *s) {
    for (unsigned k = 0; k < evaluator_output_count(s->evaluator); k++) {
        InterpretTensor *t = &s->tensors[s->output[k]];
        poison_fill(evaluator_output(s->evaluator, k)->dtype, t->data, t->bytes);
    }
    for (size_t i = 0; i < s->input_count; i++) memcpy(s->tensors[i].data, s->inputs[i].data, s->tensors[i].bytes);
}

static bool is_output(const Stage *s, size_t tensor) {
    for (unsigned k = 0; k < evaluator_output_count(s->evaluator); k++)
        if (s->output[k] == tensor) return true;
    return false;
}

/* ---- Judging ---- */

/* False: there is an outcome. */
static bool launch(Stage *s, const IrModule *m, bool reverse, const char *after, Outcome *outcome) {
    EvalScalar scalars[16];
    size_t scalar_count = 0;
    for (unsigned i = 0; i < s->graph->param_count && scalar_count < COUNT_OF(scalars); i++)
        if (s->graph->params[i].kind == IR_PARAM_SCALAR)
            scalars[scalar_count++] = (EvalScalar){s->graph->params[i].name, s->graph->params[i].fallback};
    InterpretArgs args = {.sizes = s->sizes,
                          .tensor_count = s->tensor_count,
                          .tensors = s->tensors,
                          .scalars = scalars,
                          .scalar_count = scalar_count,
                          .reverse = reverse,
                          .step_limit = STEP_LIMIT};
    const char *error = NULL;
    Arena *scratch = arena_create();
    reset(s);
    bool ok = interpret_module(scratch, m, &args, &error);
    if (!ok && strstr(error, "step limit"))
        outcome_set(outcome, OUTCOME_SKIPPED, "too long to interpret");
    else if (!ok)
        outcome_set(outcome, OUTCOME_WRONG, "%s: trap: %.200s", after, error);
    arena_destroy(scratch);
    return ok;
}

static bool judge(Stage *s, const char *after, Outcome *outcome) {
    Verdict v;
    Arena *scratch = arena_create();
    CompareOptions options = {.threads = 1};
    verdict_init(&v, scratch);
    for (size_t i = 0; i < s->input_count; i++)
        if (!is_output(s, i)) verdict_check_input(&v, s->inputs[i].spec, s->tensors[i].data, 1);
    for (unsigned k = 0; k < evaluator_output_count(s->evaluator); k++) {
        bool poisoned = s->output[k] >= s->input_count;
        verdict_check_output(&v, s->evaluator, k, s->tensors[s->output[k]].data, poisoned, &options);
    }
    bool ok = true;
    for (unsigned c = 0; c < CHECK_COUNT; c++) {
        if (v.checks[c].status != CHECK_FAILED || c == CHECK_PAPER_RULE || c == CHECK_ALLCLOSE) continue;
        if (c == CHECK_UNDECIDED) {
            outcome_set(outcome, OUTCOME_SKIPPED, "undecided");
            ok = false;
            continue;
        }
        outcome_set(outcome, OUTCOME_WRONG, "%s%s: %s: %.150s", after, s->exact ? " (exact)" : "", check_name((CheckId)c),
                    v.checks[c].detail ? v.checks[c].detail : "");
        ok = false;
        break;
    }
    arena_destroy(scratch);
    return ok;
}

static uint64_t hash_outputs(const Stage *s) {
    uint64_t hash = 0;
    for (unsigned k = 0; k < evaluator_output_count(s->evaluator); k++) {
        const InterpretTensor *t = &s->tensors[s->output[k]];
        Hash128 h = hash128(t->data, t->bytes, (Hash128){hash, k});
        hash ^= h.lo;
    }
    return hash;
}

/* Hash of the module's text: a pass that changed nothing needs no run. */
static uint64_t hash_module(const IrModule *m) {
    Str text;
    str_init(&text);
    ir_print(m, &text);
    uint64_t hash = hash128(text.data, text.len, (Hash128){1, 2}).lo;
    str_release(&text);
    return hash;
}

/* ---- One target ---- */

/* Some kernels of a target tuned small are longer than the prover walks. */
static bool prove_barriers(PassContext *ctx, Outcome *outcome) {
    for (IrFunc *f = ctx->module->first; f; f = f->next) {
        BarrierFault fault = {0};
        bool proved = f->level != IR_LEVEL_KERNEL || barrier_check_holds(f, &fault) || strstr(fault.what, "too long");
        if (!proved) outcome_set(outcome, OUTCOME_WRONG, "barriers of %s: %.150s", f->name, fault.what);
        if (!proved) return false;
    }
    return true;
}

static bool run_passes(Stage *s, PassContext *ctx, Outcome *outcome) {
    size_t count;
    const PassId *passes = pipeline_for(ctx->target->kind, &count);
    uint64_t before = hash_module(ctx->module);
    if (!launch(s, ctx->module, false, "source", outcome) || !judge(s, "source", outcome)) return false;
    for (size_t i = 0; i < count; i++) {
        PassReport report;
        PassOptions options = {.verify_each = true};
        pass_report_init(&report);
        bool ran = passes_run(ctx, &passes[i], 1, &options, &report);
        pass_report_release(&report);
        const char *name = pass_info(passes[i])->name;
        if (!ran) {
            judge_diags(ctx->diags, outcome);
            return false;
        }
        uint64_t after = hash_module(ctx->module);
        if (after == before) continue;
        before = after;
        if (!launch(s, ctx->module, false, name, outcome) || !judge(s, name, outcome)) return false;
    }
    if (ctx->target->kind == TARGET_CUDA && !prove_barriers(ctx, outcome)) return false;
    uint64_t forward = hash_outputs(s);
    if (!launch(s, ctx->module, true, "in reverse", outcome)) return false;
    if (s->unordered) return judge(s, "in reverse", outcome);
    if (hash_outputs(s) == forward) return true;
    outcome_set(outcome, OUTCOME_WRONG, "results differ when blocks run in reverse");
    return false;
}

/* The same machine with little room: rows that the interpreter can take reach the versions for long ones. */
static const Target *tuned_small(Arena *arena, const Target *target, uint64_t seed) {
    Target *small = ARENA_NEW(arena, Target);
    *small = *target;
    small->row_large = INT64_C(32) << seed % 4;
    small->row_chunk = 32;
    small->axis_chunk = small->axis_chunk < 32 ? small->axis_chunk : 32;
    return small;
}

typedef struct {
    size_t number;     /* of the case */
    bool exact, small; /* data, machine */
} Launch;

static bool check_target(const RandomProgram *p, const CheckOptions *options, const char *arch, Launch how, uint64_t *bits,
                         Outcome *outcome) {
    Arena *arena = arena_create();
    DiagList diags;
    diag_list_init(&diags, arena, source_map_create(arena));
    IrModule *m = build(arena, &diags, p, options);
    PassContext ctx = {.module = m, .diags = &diags, .target = target_find(arena, &diags, arch)};
    if (ctx.target && how.small) ctx.target = tuned_small(arena, ctx.target, p->seed);
    Stage s = {.arena = arena, .exact = how.exact, .unordered = program_is_unordered(p)};
    bool ok = m && ctx.target;
    if (!ok)
        judge_diags(&diags, outcome);
    else if (!bind(&s, m, how.number, p->seed))
        outcome_set(outcome, OUTCOME_BUG, "case %zu cannot be bound", how.number);
    else
        ok = run_passes(&s, &ctx, outcome);
    if (ok && outcome->kind == OUTCOME_OK) *bits = hash_outputs(&s);
    arena_destroy(arena);
    return ok && outcome->kind == OUTCOME_OK;
}

static bool may_be_reassociated(const RandomProgram *p) {
    bool live[MAX_NODES];
    program_live(p, live);
    for (unsigned i = 0; i < p->node_count; i++) {
        NodeKind kind = p->nodes[i].kind;
        bool along = kind == NODE_FOLD || kind == NODE_ALONG || kind == NODE_PRODUCT || kind == NODE_MATMUL || kind == NODE_DOT ||
                     kind == NODE_RAGGED;
        if (live[i] && along) return true;
    }
    return program_is_unordered(p);
}

static void check_hints(const RandomProgram *p, const CheckOptions *options, const char *arch, uint64_t bits, Outcome *outcome) {
    RandomProgram plain = *p;
    uint64_t stripped = 0;
    plain.hints = plain.parallel = false;
    if (check_target(&plain, options, arch, (Launch){0}, &stripped, outcome) && stripped != bits)
        outcome_set(outcome, OUTCOME_WRONG, "hints change the result on %s", arch);
}

static void check_program(const RandomProgram *p, const CheckOptions *options, Outcome *outcome) {
    static const char *const archs[] = {"x86-64-v3", "sm_80", "sm_90a"};
    outcome_set(outcome, OUTCOME_OK, "%s", "");
    bool hinted = (p->hints || p->parallel) && !may_be_reassociated(p);
    for (size_t a = 0; a < COUNT_OF(archs); a++) {
        uint64_t bits = 0;
        if (options->arch && strcmp(options->arch, archs[a]) != 0) continue;
        for (size_t n = 0; n < options->cases.count; n++) {
            Launch how = {n, .exact = n % 2 == 1, .small = (p->seed + n / 2) % 2 == 1};
            if (!check_target(p, options, archs[a], how, &bits, outcome)) {
                char kept[sizeof outcome->what];
                memcpy(kept, outcome->what, sizeof kept);
                if (outcome_failed(outcome->kind))
                    outcome_set(outcome, outcome->kind, "%.190s (%s%s, case %zu)", kept, archs[a], how.small ? ", tuned small" : "", n);
                return;
            }
        }
        uint64_t first = 0;
        if (hinted && check_target(p, options, archs[a], (Launch){0}, &first, outcome)) check_hints(p, options, archs[a], first, outcome);
        if (outcome->kind != OUTCOME_OK) return;
    }
}

void check_passes(const RandomProgram *programs, size_t count, const CheckOptions *options, Outcome *outcomes) {
    for (size_t i = 0; i < count; i++) {
        check_limit_time(60);
        check_program(&programs[i], options, &outcomes[i]);
    }
    check_lift_limit();
}
