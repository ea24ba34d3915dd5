/* From kernel-level functions to the launch plan. docs/decisions/artifact.md has the
 * attributes. Formulas move to the artifact's own context by way of their text. */
#include "artifact_internal.h"
#include "emit.h"
#include "ir.h"
#include "plan.h"

#include <math.h>
#include <string.h>

typedef struct {
    Artifact *a;
    Arena *arena;
    const ArtifactSpec *spec;
    const char *error;
    VEC(ArtifactParam) params;
    IrPlan plan;
} Build;

static void fail(Build *b, const char *format, const char *name) {
    if (!b->error) b->error = arena_printf(b->arena, format, name);
}

static const Aff *move_formula(Build *b, const Aff *e, const char *name) {
    Str text;
    size_t at;
    if (!e) return NULL;
    str_init(&text);
    aff_print(e, &text);
    const Aff *moved = aff_parse(b->a->affs, text.data, NULL, NULL, &at);
    str_release(&text);
    if (!moved) b->error = arena_printf(b->arena, "a formula of '%s' cannot be written", name);
    return moved;
}

/* How many blocks there are along an axis. */
static const Aff *grid_formula(Build *b, const IrFunc *f, IrFuncAff axis) {
    const Aff *blocks = ir_func_aff(f, axis);
    return blocks ? move_formula(b, blocks, f->name) : aff_const(b->a->affs, 1);
}

/* ---- Parameters ---- */

static const IrType *declared_type(const Build *b, const IrFunc *f, unsigned i) {
    const IrFunc *s = b->spec->signature;
    for (unsigned j = 0; s && j < s->param_count; j++)
        if (strcmp(s->params[j].name, f->params[i].name) == 0) return s->body->args[j]->type;
    if (f->params[i].type) return f->params[i].type;
    return f->body->args[i]->type;
}

static void build_tensor(Build *b, const IrFunc *f, unsigned i, ArtifactParam *p) {
    const IrType *type = declared_type(b, f, i);
    if (type->kind != IR_TYPE_TENSOR || type->rank > ARTIFACT_MAX_RANK) {
        fail(b, "the shape of the tensor '%s' is not known", p->name);
        return;
    }
    p->dtype = type->dtype;
    p->direction = (unsigned)f->params[i].direction;
    p->rank = type->rank;
    for (unsigned d = 0; d < p->rank; d++) p->extents[d] = move_formula(b, type->extents[d], p->name);
    p->strided = type->strides != NULL;
    for (unsigned d = 0; p->strided && d < p->rank; d++) p->strides[d] = move_formula(b, type->strides[d], p->name);
}

static const IrType *shape_called(const IrFunc *f, const char *name) {
    for (unsigned i = 0; i < f->param_count; i++)
        if (strcmp(f->params[i].name, name) == 0) return f->params[i].type;
    return NULL;
}

static void build_map(Build *b, const IrFunc *f, const IrTensorMap *from, ArtifactParam *p) {
    bool workspace = false;
    for (size_t i = 0; i < b->params.len; i++) {
        if (strcmp(b->params.data[i].name, from->tensor) != 0) continue;
        p->tensor = (unsigned)i;
        workspace = b->params.data[i].kind == ARTIFACT_WORKSPACE;
    }
    p->rank = from->rank;
    const IrType *shape = shape_called(f, from->tensor);
    for (unsigned d = 0; workspace && d < from->rank; d++) p->extents[d] = move_formula(b, shape->extents[d], p->name);
    p->swizzle = from->swizzle;
    p->tf32 = from->tf32;
    p->joined = from->joined;
    for (unsigned d = 0; d < from->rank; d++) p->box[d] = (unsigned)from->box[d];
}

/* What the operator calls a parameter of the sketch. */
static const char *operator_name(const Build *b, const char *name) {
    for (size_t i = 0; i < b->spec->rename_count; i++)
        if (strcmp(b->spec->renames[i].param, name) == 0) return b->spec->renames[i].graph_name;
    return name;
}

/* A sketch may leave a scalar's default to its operator. */
static double default_of(const Build *b, const IrParam *scalar) {
    const IrFunc *f = b->spec->graph ? b->spec->graph->first : NULL;
    const char *name = operator_name(b, scalar->name);
    while (f && f->level != IR_LEVEL_GRAPH) f = f->next;
    for (unsigned i = 0; f && isnan(scalar->fallback) && i < f->param_count; i++)
        if (f->params[i].kind == IR_PARAM_SCALAR && strcmp(f->params[i].name, name) == 0) return f->params[i].fallback;
    return scalar->fallback;
}

static void build_param(Build *b, const IrFunc *f, unsigned i) {
    static const ArtifactParamKind kinds[] = {[IR_PARAM_TENSOR] = ARTIFACT_TENSOR,
                                              [IR_PARAM_SYMBOL] = ARTIFACT_SYMBOL,
                                              [IR_PARAM_SCALAR] = ARTIFACT_SCALAR,
                                              [IR_PARAM_WORKSPACE] = ARTIFACT_WORKSPACE,
                                              [IR_PARAM_MAP] = ARTIFACT_MAP};
    const IrParam *from = &f->params[i];
    ArtifactParam p = {
        .kind = kinds[from->kind], .name = arena_strdup(b->arena, from->name), .dtype = f->body->args[i]->type->dtype, .fallback = NAN};
    if (p.kind == ARTIFACT_TENSOR) build_tensor(b, f, i, &p);
    if (p.kind == ARTIFACT_SYMBOL) p.derived = move_formula(b, from->derived, p.name);
    if (p.kind == ARTIFACT_SCALAR) p.fallback = default_of(b, from);
    if (p.kind == ARTIFACT_WORKSPACE) p.elements = move_formula(b, from->elements, p.name);
    if (p.kind == ARTIFACT_MAP) build_map(b, f, &from->map, &p);
    VEC_PUSH(b->arena, &b->params, p);
}

static bool has_param(const Build *b, const char *name) {
    for (size_t i = 0; i < b->params.len; i++)
        if (strcmp(b->params.data[i].name, name) == 0) return true;
    return false;
}

static void build_kind(Build *b, IrParamKind kind) {
    for (size_t k = 0; k < b->plan.func_count; k++) {
        const IrFunc *f = b->plan.funcs[k];
        for (unsigned i = 0; i < f->param_count; i++)
            if (f->params[i].kind == kind && !has_param(b, f->params[i].name)) build_param(b, f, i);
    }
}

/* The union over all kernels, kind by kind, each in declared order. */
static void build_params(Build *b) {
    const IrPlan *plan = &b->plan;
    for (unsigned kind = IR_PARAM_TENSOR; kind < IR_PARAM_WORKSPACE; kind++) build_kind(b, (IrParamKind)kind);
    for (size_t i = 0; i < plan->workspace_count; i++) build_param(b, plan->workspaces[i].func, plan->workspaces[i].param);
    build_kind(b, IR_PARAM_MAP);
    b->a->params = b->params.data;
    b->a->param_count = b->params.len;
}

static void build_graph_names(Build *b) {
    for (size_t i = 0; i < b->spec->rename_count; i++) {
        int p = artifact_find_param(b->a, b->spec->renames[i].param);
        if (p >= 0) b->a->params[p].graph_name = arena_strdup(b->arena, b->spec->renames[i].graph_name);
    }
}

static void build_constraints(Build *b) {
    const IrFunc *f = b->spec->signature ? b->spec->signature : b->plan.funcs[0];
    b->a->constraint_count = f->constraint_count;
    b->a->constraints = ARENA_ARRAY(b->arena, ArtifactConstraint, f->constraint_count + 1);
    for (size_t i = 0; i < f->constraint_count; i++) {
        const IrConstraint *c = &f->constraints[i];
        b->a->constraints[i] =
            (ArtifactConstraint){move_formula(b, c->expr, f->name), c->equal, arena_strdup(b->arena, c->text ? c->text : "")};
    }
}

static void note_unordered(void *ctx, IrOp *op) {
    bool *unordered = ctx;
    if (op->opcode == IR_MEM_ATOMIC && ir_op_kind(op) == IR_KIND_ADD && dtype_is_float(op->operands[0]->type->dtype)) *unordered = true;
}

static void build_order(Build *b) {
    for (size_t i = 0; i < b->plan.func_count; i++) ir_walk(b->plan.funcs[i]->body, note_unordered, &b->a->unordered);
}

/* ---- Steps ---- */

static void build_args(Build *b, const IrFunc *f, ArtifactVersion *v) {
    unsigned *args = ARENA_ARRAY(b->arena, unsigned, f->param_count + 1);
    for (unsigned i = 0; i < f->param_count; i++) args[i] = (unsigned)artifact_find_param(b->a, f->params[i].name);
    v->args = args;
    v->arg_count = f->param_count;
}

static ArtifactVersion build_version(Build *b, const IrFunc *f) {
    ArtifactVersion v = {.entry = emit_entry_name(b->arena, &b->plan, f), .guard = move_formula(b, f->guard, f->name)};
    bool cuda = b->spec->target == ARTIFACT_CUDA;
    static const IrFuncAff axes[3] = {IR_FN_GRID_X, IR_FN_GRID_Y, IR_FN_GRID_Z};
    for (int i = 0; i < 3; i++) v.grid[i] = cuda ? grid_formula(b, f, axes[i]) : aff_const(b->a->affs, 1);
    int64_t warps = ir_func_int(f, IR_FN_NUM_WARPS, 1), cap = ir_func_int(f, IR_FN_MAX_REGISTERS, 0);
    if (warps < 1 || warps > 32) fail(b, "'%s' has a number of warps outside 1 to 32", f->name);
    if (cap < 0 || cap > 255) fail(b, "'%s' has a register cap outside 0 to 255", f->name);
    v.block_threads = cuda ? (unsigned)warps * 32 : 1;
    v.shared_bytes = aff_const(b->a->affs, ir_func_int(f, IR_FN_SHARED_BYTES, 0));
    v.max_registers = (unsigned)cap;
    v.pointer_align = cuda ? (unsigned)ir_func_int(f, IR_FN_POINTER_ALIGN, 0) : 0;
    v.cooperative = ir_func_int(f, IR_FN_COOPERATIVE, 0) != 0;
    v.dependent = ir_func_int(f, IR_FN_DEPENDENT, 0) != 0;
    size_t axes_of_cluster;
    const int64_t *cluster = ir_func_ints(f, IR_FN_CLUSTER, &axes_of_cluster);
    for (size_t i = 0; i < 3; i++) v.cluster[i] = i < axes_of_cluster ? (unsigned)cluster[i] : 1;
    build_args(b, f, &v);
    return v;
}

static void build_step(Build *b, const IrStep *from, ArtifactStep *step) {
    *step = (ArtifactStep){.kind = ARTIFACT_KERNEL, .name = emit_step_name(b->arena, &b->plan, from)};
    step->versions = ARENA_ARRAY(b->arena, ArtifactVersion, ARTIFACT_MAX_VERSIONS);
    if (from->version_count > ARTIFACT_MAX_VERSIONS) fail(b, "the step '%s' has more than four versions", step->name);
    for (unsigned i = 0; i < from->version_count && !b->error; i++)
        step->versions[step->version_count++] = build_version(b, from->versions[i]);
}

static void build_steps(Build *b) {
    b->a->steps = ARENA_ARRAY(b->arena, ArtifactStep, b->plan.step_count + 1);
    for (size_t i = 0; i < b->plan.step_count && !b->error; i++) build_step(b, &b->plan.steps[i], &b->a->steps[b->a->step_count++]);
}

/* ---- The rest ---- */

static void build_blobs(Build *b) {
    Artifact *a = b->a;
    a->blob_count = b->spec->blob_count;
    a->blobs = ARENA_ARRAY(b->arena, ArtifactBlob, a->blob_count + 1);
    for (size_t i = 0; i < a->blob_count; i++) {
        a->blobs[i] = b->spec->blobs[i];
        a->blobs[i].arch = arena_strdup(b->arena, a->blobs[i].arch);
        a->blobs[i].data = (const unsigned char *)arena_strndup(b->arena, (const char *)b->spec->blobs[i].data, a->blobs[i].size);
    }
    a->constexpr_count = b->spec->constexpr_count;
    a->constexprs = ARENA_ARRAY(b->arena, ArtifactConstexpr, a->constexpr_count + 1);
    for (size_t i = 0; i < a->constexpr_count; i++)
        a->constexprs[i] =
            (ArtifactConstexpr){arena_strdup(b->arena, b->spec->constexprs[i].name), arena_strdup(b->arena, b->spec->constexprs[i].value)};
}

/* The operator and the cases, without what else the module holds: through text, so that the given
 * module stays as it is. */
static void build_graph(Build *b) {
    Str text;
    DiagList diags;
    if (!b->spec->graph) return;
    str_init(&text);
    ir_print(b->spec->graph, &text);
    diag_list_init(&diags, b->arena, source_map_create(b->arena));
    IrModule *copy = ir_parse(b->arena, &diags, "operator", text.data, text.len);
    for (IrFunc *f = copy ? copy->first : NULL, *next; f; f = next) {
        next = f->next;
        if (f->level != IR_LEVEL_GRAPH) ir_func_remove(f);
    }
    text.len = 0;
    if (copy)
        ir_print(copy, &text);
    else
        fail(b, "the operator of '%s' cannot be printed and parsed", b->spec->name);
    if (copy && (copy->first || copy->case_count)) b->a->graph = arena_strndup(b->arena, text.data, text.len);
    str_release(&text);
}

Artifact *artifact_from_module(Arena *arena, const ArtifactSpec *spec, const char **error) {
    Build b = {.arena = arena, .spec = spec};
    Artifact *a = b.a = ARENA_NEW(arena, Artifact);
    *a = (Artifact){.arena = arena,
                    .affs = aff_ctx_create(arena),
                    .target = spec->target,
                    .name = arena_strdup(arena, spec->name),
                    .arch = arena_strdup(arena, spec->arch),
                    .tool_version = arena_strdup(arena, spec->tool_version)};
    b.plan = ir_plan(arena, spec->kernels, IR_LEVEL_KERNEL);
    if (!b.plan.func_count) fail(&b, "the module '%s' holds no kernel", spec->name);
    if (!b.error) build_params(&b);
    if (!b.error) build_graph_names(&b);
    if (!b.error) build_constraints(&b);
    if (!b.error) build_order(&b);
    if (!b.error) build_steps(&b);
    if (!b.error) build_blobs(&b);
    if (!b.error) build_graph(&b);
    if (!b.error && spec->sketch) a->sketch = arena_strdup(arena, spec->sketch);
    if (!b.error) b.error = artifact_check(a, arena);
    *error = b.error;
    return b.error ? NULL : a;
}
