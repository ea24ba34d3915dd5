/* `sketch` blocks to tile functions in state open. Tiles are names with value meaning: each write
 * makes a new SSA value; loops carry what they write. */
#include "build_internal.h"

#include <limits.h>
#include <string.h>

static void build_body(Build *c, const Body *body);

const IrType *build_tile_type(Build *c, const Decl *d) {
    return build_type(c, &d->type, d->type.dtype, d->span);
}

void build_write_tile(Build *c, const Decl *d, IrValue *v, Span span) {
    if (!v) return;
    const IrType *t = build_tile_type(c, d);
    v = build_cast(c, v, d->type.dtype);
    if (v->type->kind == IR_TYPE_SCALAR) {
        c->b.span = span;
        IrOp *op = ir_op_create(&c->b, IR_TILE_BROADCAST, 1, &v, 1, &t);
        ir_attr_set_ints(op, "axes", 0, NULL);
        v = &op->results[0];
    }
    v = build_broadcast(c, v, t, span);
    if (!v) return;
    if (!v->name) v->name = build_name(c, d->name);
    build_set(c, d, v);
}

IrValue *build_read_tile(Build *c, const Decl *d) {
    IrValue *v = build_get(c, d);
    if (!v) {
        v = build_splat(c, build_tile_type(c, d), 0);
        v->name = build_name(c, d->name);
    }
    return v;
}

static double constant_number(const ConstValue *v) {
    return v->kind == CONST_FLOAT ? v->f : (double)v->i;
}

static const char *parameter_name(Build *c, const char *name) {
    bool counts = strncmp(name, IR_COUNTER, strlen(IR_COUNTER)) == 0; /* a name that means more */
    const char *unique = counts ? "workspace" : name;
    for (unsigned i = 0, k = 1; i < c->f->param_count; i++)
        if (strcmp(c->f->params[i].name, unique) == 0) {
            unique = arena_printf(c->unit, "%.32s_w%u", counts ? "workspace" : name, k++);
            i = UINT_MAX; /* from the start */
        }
    return unique;
}

/* Memory of the launch, shared by its kernels. */
static void build_workspace(Build *c, const Stmt *s) {
    const Decl *d = s->targets[0];
    AffCtx *a = c->m->affs;
    const IrType *tile = build_tile_type(c, d);
    const IrType *t = ir_type_tensor(c->m, d->type.dtype, tile->rank, tile->extents);
    const Aff *elements = aff_const(a, 1);
    for (unsigned i = 0; i < t->rank; i++) elements = aff_mul(a, elements, t->extents[i]);
    const char *name = parameter_name(c, build_name(c, d->name));
    IrValue *memory = ir_func_add_param(c->f, IR_PARAM_WORKSPACE, name, t, IR_DIR_INOUT);
    c->f->params[c->f->param_count - 1].elements = elements;
    build_set(c, d, memory);
    if (!d->has_init) return;
    IrValue *operands[2 + 2 * AST_MAX_RANK] = {build_splat(c, tile, constant_number(&d->init)), memory};
    char axes[AST_MAX_RANK + 1] = {0};
    for (unsigned i = 0; i < t->rank; i++) {
        axes[i] = IR_LETTER_RANGE;
        operands[2 + 2 * i] = ir_const_index(&c->b, 0);
        operands[3 + 2 * i] = ir_aff_emit(&c->b, t->extents[i]);
    }
    c->b.span = s->span;
    IrOp *op = ir_op_create(&c->b, IR_TILE_STORE, 2 + 2 * t->rank, operands, 0, NULL);
    ir_attr_set_str(op, "axes", axes);
}

static void build_alloc(Build *c, const Stmt *s) {
    const Decl *d = s->targets[0];
    if (d->is_workspace) {
        build_workspace(c, s);
        return;
    }
    build_set(c, d, NULL); /* a new tile in every run of its block */
    /* Without a type nothing reads or writes it: each use would have given it one. */
    if (!d->has_init || d->type.dtype == DTYPE_NONE) return;
    c->b.span = s->span;
    IrValue *init = build_splat(c, build_tile_type(c, d), constant_number(&d->init));
    build_write_tile(c, d, init, s->span);
}

/* ---- Compute ---- */

static void build_compute(Build *c, const Stmt *s) {
    const Decl *d = s->targets[0];
    if (s->target_count == 2) {
        IrValue *results[2];
        if (!build_topk(c, s->value, results)) return;
        for (size_t i = 0; i < 2; i++) build_write_tile(c, s->targets[i], results[i], s->span);
        return;
    }
    IrValue *v = s->value->builtin == BUILTIN_GEMM ? build_contract(c, s->value, build_read_tile(c, d)) : build_expr(c, s->value);
    build_write_tile(c, d, v, s->span);
}

static void build_scalars(Build *c, const Stmt *s) {
    for (size_t i = 0; i < s->target_count; i++) {
        const Decl *d = s->targets[i];
        const Expr *e = s->u.assign.values[i];
        bool opaque = d->affine && d->affine->kind == AFF_VAR && d->affine->var == d;
        if (opaque)
            build_set(c, d, build_number(c, e));
        else if (d->affine)
            build_aff(c, d->affine, e->span); /* what it is computed from, as it is now */
        else if (d->constant.kind == CONST_NONE)
            build_set(c, d, build_expr(c, e));
    }
}

/* ---- Control flow ---- */

/* Rows of a group where the hint swizzle has no group=, as docs/language.md says. */
enum { DEFAULT_GROUP = 8 };

/* Hints that a pass may follow or report. */
static void loop_hints(IrOp *op, const LoopInfo *info) {
    IrHint hints[IR_HINT_COUNT];
    bool parallel = op->opcode == IR_PARALLEL;
    unsigned count = 0;
    if (info->parallel && parallel) hints[count++] = IR_HINT_PARALLEL;
    if (info->pipeline && parallel) hints[count++] = IR_HINT_PIPELINE;
    if (info->unroll && parallel) hints[count++] = IR_HINT_UNROLL;
    if (info->vectorize) hints[count++] = IR_HINT_VECTORIZE;
    if (info->swizzle) hints[count++] = IR_HINT_SWIZZLE;
    if (info->split_k) hints[count++] = IR_HINT_SPLIT_K;
    if (info->cluster) hints[count++] = IR_HINT_CLUSTER;
    if (info->persistent) hints[count++] = IR_HINT_PERSISTENT;
    if (info->parallel == PARALLEL_THREAD) hints[count++] = IR_HINT_THREAD;
    if (info->parallel == PARALLEL_WARP) hints[count++] = IR_HINT_WARP;
    if (info->parallel == PARALLEL_SIMD) hints[count++] = IR_HINT_SIMD;
    ir_set_hints(op, count, hints, info->group > 0 ? info->group : DEFAULT_GROUP);
}

static void loop_attributes(IrOp *op, const LoopInfo *info) {
    loop_hints(op, info);
    if (op->opcode == IR_PARALLEL && info->grid_axis) ir_set_grid(op, (IrGrid)(IR_GRID_X + info->grid_axis - 'x'));
    if (op->opcode == IR_FOR && info->pipeline) ir_attr_set_int(op, "pipeline", info->stages > 0 ? info->stages : 2);
    if (op->opcode == IR_FOR && info->unroll) ir_attr_set_int(op, "unroll", info->factor > 0 ? info->factor : -1);
}

static bool loop_bounds(Build *c, const Stmt *s, IrValue *bounds[3]) {
    const LoopInfo *info = s->loop;
    if (!info->lo || !info->hi || !info->step) {
        build_unsupported(c, s->span, "a loop bound that is no affine expression");
        return false;
    }
    bounds[0] = build_index(c, info->lo, s->span);
    bounds[1] = build_index(c, info->hi, s->span);
    bounds[2] = build_index(c, info->step, s->span);
    return c->ok;
}

/* Behind a write in a loop or branch, what a tile held before is not what it holds: until it is written again,
 * or handed on, it holds nothing. */
static void forget_written(Build *c, const Stmt *s) {
    for (size_t i = 0; i < s->written_count; i++) build_set(c, s->written[i], NULL);
}

static void parallel_loop(Build *c, const Stmt *s, IrValue *bounds[3]) {
    c->b.span = s->span;
    IrOp *op = ir_op_create(&c->b, IR_PARALLEL, 3, bounds, 0, NULL);
    IrBuilder outside = c->b;
    c->b = ir_builder_at_end(op->regions[0]);
    const char *name = build_name(c, s->u.loop.var);
    build_set(c, s->loop->var, ir_region_add_arg(op->regions[0], ir_type_index(c->m), name));
    loop_attributes(op, s->loop);
    forget_written(c, s);
    c->depth++;
    build_body(c, &s->u.loop.body);
    c->depth--;
    ir_yield(&c->b, 0, NULL);
    c->b = outside;
    forget_written(c, s);
}

static void serial_loop(Build *c, const Stmt *s, IrValue *bounds[3]) {
    const LoopInfo *info = s->loop;
    unsigned count = (unsigned)info->carried_count;
    IrValue **carried = ARENA_ARRAY(c->unit, IrValue *, count + 1);
    for (unsigned i = 0; i < count; i++) carried[i] = build_read_tile(c, info->carried[i]);
    c->b.span = s->span;
    IrOp *op = ir_for(&c->b, bounds[0], bounds[1], bounds[2], count, carried, build_name(c, s->u.loop.var));
    loop_attributes(op, info);
    IrBuilder outside = c->b;
    bool was_serial = c->under_serial;
    c->under_serial = true;
    c->b = ir_builder_at_end(op->regions[0]);
    build_set(c, info->var, op->regions[0]->args[0]);
    forget_written(c, s);
    for (unsigned i = 0; i < count; i++) {
        op->regions[0]->args[i + 1]->name = build_name(c, info->carried[i]->name);
        build_set(c, info->carried[i], op->regions[0]->args[i + 1]);
    }
    build_body(c, &s->u.loop.body);
    for (unsigned i = 0; i < count; i++) carried[i] = build_get(c, info->carried[i]);
    if (c->ok) ir_yield(&c->b, count, carried);
    c->b = outside;
    c->under_serial = was_serial;
    forget_written(c, s);
    for (unsigned i = 0; i < count; i++) {
        op->results[i].name = build_name(c, info->carried[i]->name);
        build_set(c, info->carried[i], &op->results[i]);
    }
}

/* A hinted loop; without a hint the outermost loops, and where nothing is hinted all that are under
 * parallel loops only. A loop hinted otherwise (pipeline ...) is meant to run in order. */
static bool is_parallel(const Build *c, const LoopInfo *info) {
    if (info->carried_count || c->under_serial) return info->parallel != PARALLEL_NONE && !info->carried_count;
    if (info->parallel != PARALLEL_NONE) return true;
    bool other_hint = info->pipeline || info->vectorize || info->unroll;
    return info->proved_parallel && !other_hint && (c->depth == 0 || !c->block->has_parallel);
}

static void build_loop(Build *c, const Stmt *s) {
    IrValue *bounds[3];
    if (!loop_bounds(c, s, bounds)) return;
    if (is_parallel(c, s->loop))
        parallel_loop(c, s, bounds);
    else
        serial_loop(c, s, bounds);
}

/* One branch; `values` receives what the assigned tiles hold behind it. */
static void build_branch(Build *c, const Stmt *s, IrBlock *region, const Body *body, IrValue **values) {
    IrBuilder outside = c->b;
    bool was_serial = c->under_serial;
    c->under_serial = true;
    c->b = ir_builder_at_end(region);
    build_body(c, body);
    for (size_t i = 0; i < s->assigned_count; i++) values[i] = build_read_tile(c, s->assigned[i]);
    if (c->ok) ir_yield(&c->b, (unsigned)s->assigned_count, values);
    c->b = outside;
    c->under_serial = was_serial;
}

static void build_if(Build *c, const Stmt *s) {
    IrValue *condition = build_single(c, build_operand(c, s->u.branch.condition, DTYPE_BOOL), s->span);
    if (!condition) return;
    size_t count = s->assigned_count, written = s->written_count;
    const IrType **types = ARENA_ARRAY(c->unit, const IrType *, count + 1);
    IrValue **before = ARENA_ARRAY(c->unit, IrValue *, written + 1);
    IrValue **values = ARENA_ARRAY(c->unit, IrValue *, count + 1);
    for (size_t i = 0; i < count; i++) types[i] = build_tile_type(c, s->assigned[i]);
    for (size_t i = 0; i < written; i++) before[i] = build_get(c, s->written[i]);
    c->b.span = s->span;
    IrOp *op = ir_op_create(&c->b, IR_IF, 1, &condition, (unsigned)count, types);
    for (unsigned r = 0; r < 2; r++) {
        const Body *body = r ? &s->u.branch.else_body : &s->u.branch.then_body;
        for (size_t i = 0; i < written; i++) build_set(c, s->written[i], before[i]);
        if (r == 0 || body->count || count) build_branch(c, s, op->regions[r], body, values);
    }
    forget_written(c, s);
    for (size_t i = 0; i < count; i++) build_set(c, s->assigned[i], &op->results[i]);
}

static void build_stmt(Build *c, const Stmt *s) {
    if (s->kind == STMT_FOR) {
        build_loop(c, s);
        return;
    }
    if (s->kind == STMT_IF) {
        build_if(c, s);
        return;
    }
    switch (s->action) {
    case ACTION_NONE:
        break;
    case ACTION_ALLOC:
        build_alloc(c, s);
        break;
    case ACTION_LOAD:
        build_load(c, s);
        break;
    case ACTION_STORE:
        build_store(c, s);
        break;
    case ACTION_COMPUTE:
        build_compute(c, s);
        break;
    case ACTION_SCALAR:
        build_scalars(c, s);
        break;
    case ACTION_EQUATION:
        build_unsupported(c, s->span, "an equation in a sketch");
        break;
    }
}

static void build_body(Build *c, const Body *body) {
    for (size_t i = 0; i < body->count && c->ok; i++) build_stmt(c, body->data[i]);
}

/* ---- The sketch ---- */

/* What is not known to hold of the strides is checked at launch. */
static const IrType *build_tensor_type(Build *c, const Decl *d) {
    const IrType *t = build_type(c, &d->type, d->type.dtype, d->span);
    const Aff *strides[AST_MAX_RANK];
    for (unsigned i = 0; d->stride_affs && i < d->type.rank; i++) {
        strides[i] = build_aff(c, d->stride_affs[i], d->span);
        if (aff_prove_nonneg(c->file->facts, d->stride_affs[i])) continue;
        const char *text = arena_printf(c->unit, "%s >= 0", build_text(c, d->strides[i]->span));
        ir_func_add_constraint(c->f, strides[i], false, text);
    }
    return d->stride_affs ? ir_type_strided(c->m, t, strides) : t;
}

static void build_tensors(Build *c) {
    for (size_t i = 0; i < c->block->decl_count; i++) {
        const Decl *d = c->block->decls[i];
        if (d->kind != DECL_TENSOR) continue;
        IrDirection direction = d->direction == DIR_OUT ? IR_DIR_OUT : d->direction == DIR_INOUT ? IR_DIR_INOUT : IR_DIR_IN;
        const IrType *t = build_tensor_type(c, d);
        build_set(c, d, ir_func_add_param(c->f, IR_PARAM_TENSOR, d->name, t, direction));
    }
}

void build_sketch(Build *c) {
    build_symbols(c);
    build_tensors(c);
    build_body(c, &c->block->body);
    c->b.span = c->block->name_span;
    if (c->ok) ir_op_create(&c->b, IR_RETURN, 0, NULL, 0, NULL);
}
