/* Operations along axes, in both dialects: scans, sorts, arg-reductions, movement, indices. */
#include "build_internal.h"

#include <string.h>

static IrOpcode dialect(const Build *c, IrOpcode graph, IrOpcode tile) {
    return c->graph ? graph : tile;
}

static const IrType *shaped(Build *c, Dtype dtype, unsigned rank, const Aff *const *extents) {
    return c->graph ? ir_type_tensor(c->m, dtype, rank, extents) : ir_type_tile(c->m, dtype, rank, extents, NULL);
}

static IrOp *unary_op(Build *c, const Expr *e, IrOpcode opcode, IrValue *x, const IrType *type) {
    c->b.span = e->span;
    return ir_op_create(&c->b, opcode, 1, &x, 1, &type);
}

static void set_flag(Build *c, const Expr *e, IrOp *op, const char *name) {
    if (build_flag(c, e, name)) ir_attr_set_bool(op, name, true);
}

/* ---- Folds ---- */

/* Another shape, of the same number of elements. */
static IrValue *reshaped(Build *c, const Expr *e, IrValue *x, unsigned rank, const Aff *const *extents) {
    const IrType *t = shaped(c, x->type->dtype, rank, extents);
    if (t == x->type) return x;
    return ir_result(unary_op(c, e, dialect(c, IR_GRAPH_RESHAPE, IR_TILE_RESHAPE), x, t), 0);
}

IrValue *build_arg(Build *c, const Expr *e, IrValue *x) {
    const Aff *extents[AST_MAX_RANK], *one = aff_const(c->m->affs, 1);
    const IrType *from = x->type;
    bool all = e->reduce_axis < 0 && from->rank != 1;
    unsigned axis = e->reduce_axis < 0 ? 0 : (unsigned)e->reduce_axis, rank = 0;
    if (all) {
        const Aff *count = one;
        for (unsigned i = 0; i < from->rank; i++) count = aff_mul(c->m->affs, count, from->extents[i]);
        x = reshaped(c, e, x, 1, &count);
    }
    bool keep = e->keepdim && !all;
    for (unsigned i = 0; i < x->type->rank; i++)
        if (i != axis || keep) extents[rank++] = i == axis ? one : x->type->extents[i];
    IrOp *op = unary_op(c, e, dialect(c, IR_GRAPH_ARG, IR_TILE_ARG), x, shaped(c, DTYPE_I64, rank, extents));
    ir_attr_set_str(op, "kind", e->builtin == BUILTIN_ARGMAX ? "max" : "min");
    ir_attr_set_int(op, "axis", axis);
    if (keep) ir_attr_set_bool(op, "keepdim", true);
    if (!e->keepdim || keep) return ir_result(op, 0);
    for (unsigned i = 0; i < from->rank; i++) extents[i] = one;
    return reshaped(c, e, ir_result(op, 0), from->rank, extents);
}

/* ---- In place along an axis ---- */

/* A number that stands for a whole tile or tensor. */
static IrValue *spread(Build *c, const Expr *e, IrValue *v, const IrType *type) {
    if (!v || v->type->kind != IR_TYPE_SCALAR) return build_broadcast(c, v, type, e->span);
    IrOp *op = unary_op(c, e, dialect(c, IR_GRAPH_BROADCAST, IR_TILE_BROADCAST), v, type);
    ir_attr_set_ints(op, "axes", 0, NULL);
    return ir_result(op, 0);
}

/* What a recurrence of this type begins from: one lane along its axis. */
static IrValue *linear_start(Build *c, const Expr *e, const Expr *init, const IrType *t) {
    const Aff *extents[AST_MAX_RANK];
    for (unsigned i = 0; i < t->rank; i++) extents[i] = (int)i == e->reduce_axis ? aff_const(c->m->affs, 1) : t->extents[i];
    IrValue *v = build_operand(c, init, e->compute);
    return v ? spread(c, e, v, shaped(c, e->compute, t->rank, extents)) : NULL;
}

static IrValue *linear_scan(Build *c, const Expr *e) {
    const Expr *init = build_argument(c, e, "init");
    const IrType *t = build_type(c, &e->type, e->compute, e->span);
    IrValue *a = build_operand(c, e->bound[0], e->compute), *b = build_operand(c, e->bound[1], e->compute);
    if (!t || !a || !b) return NULL;
    IrValue *parts[3] = {spread(c, e, b, t), spread(c, e, a, t), init ? linear_start(c, e, init, t) : NULL};
    if (!parts[0] || !parts[1] || (init && !parts[2])) return NULL;
    c->b.span = e->span;
    IrOp *op = ir_op_create(&c->b, dialect(c, IR_GRAPH_SCAN, IR_TILE_SCAN), init ? 3 : 2, parts, 1, &t);
    ir_attr_set_str(op, "kind", "linear");
    ir_attr_set_int(op, "axis", e->reduce_axis);
    set_flag(c, e, op, "reverse");
    set_flag(c, e, op, "exclusive");
    return ir_result(op, 0);
}

static IrValue *scan(Build *c, const Expr *e) {
    IrValue *x = build_operand(c, e->bound[0], e->compute);
    if (!x) return NULL;
    IrOp *op = unary_op(c, e, dialect(c, IR_GRAPH_SCAN, IR_TILE_SCAN), x, x->type);
    ir_attr_set_str(op, "kind", builtin_info(e->builtin)->ir + strlen("scan_"));
    ir_attr_set_int(op, "axis", e->reduce_axis);
    set_flag(c, e, op, "reverse");
    set_flag(c, e, op, "exclusive");
    return ir_result(op, 0);
}

static IrOp *sorted(Build *c, const Expr *e, bool descending) {
    IrValue *x = build_operand(c, e->bound[0], e->compute);
    if (!x) return NULL;
    const IrType *types[2] = {x->type, ir_type_with_dtype(c->m, x->type, DTYPE_I64)};
    c->b.span = e->span;
    IrOp *op = ir_op_create(&c->b, dialect(c, IR_GRAPH_SORT, IR_TILE_SORT), 1, &x, 2, types);
    ir_attr_set_int(op, "axis", e->reduce_axis);
    if (descending) ir_attr_set_bool(op, "descending", true);
    return op;
}

static IrValue *flip(Build *c, const Expr *e) {
    IrValue *x = build_operand(c, e->bound[0], e->compute);
    if (!x) return NULL;
    IrOp *op = unary_op(c, e, dialect(c, IR_GRAPH_FLIP, IR_TILE_FLIP), x, x->type);
    ir_attr_set_int(op, "axis", e->reduce_axis);
    return ir_result(op, 0);
}

/* ---- topk: the first k lanes of the sorted tile ---- */

static IrValue *first_of_tile(Build *c, const Expr *e, IrValue *v, const IrType *t) {
    IrValue *operands[2 * AST_MAX_RANK + 1] = {v};
    char axes[AST_MAX_RANK + 1] = {0};
    for (unsigned i = 0; i < t->rank; i++) {
        operands[1 + 2 * i] = ir_const_index(&c->b, 0);
        operands[2 + 2 * i] = ir_aff_emit(&c->b, t->extents[i]);
        axes[i] = IR_LETTER_RANGE;
    }
    c->b.span = e->span;
    IrOp *op = ir_op_create(&c->b, IR_TILE_EXTRACT, 2 * t->rank + 1, operands, 1, &t);
    ir_attr_set_str(op, "axes", axes);
    return ir_result(op, 0);
}

static IrValue *first_of_tensor(Build *c, const Expr *e, IrValue *v, const IrType *t) {
    IrValue *extents[AST_MAX_RANK], *at[AST_MAX_RANK + 1] = {v};
    for (unsigned i = 0; i < t->rank; i++) extents[i] = ir_aff_emit(&c->b, t->extents[i]);
    c->b.span = e->span;
    IrOp *op = ir_op_create(&c->b, IR_GRAPH_GENERIC, t->rank, extents, 1, &t);
    ir_attr_set_int(op, "outer", t->rank);
    for (unsigned i = 0; i < t->rank; i++) at[i + 1] = ir_region_add_arg(op->regions[0], ir_type_index(c->m), NULL);
    IrBuilder inner = ir_builder_at_end(op->regions[0]);
    inner.span = e->span;
    IrValue *element = ir_result(ir_op_create(&inner, IR_GRAPH_ELEMENT, t->rank + 1, at, 1, NULL), 0);
    ir_yield(&inner, 1, &element);
    return ir_result(op, 0);
}

bool build_topk(Build *c, const Expr *e, IrValue *results[2]) {
    IrOp *op = sorted(c, e, true);
    const IrType *t = op ? build_type(c, &e->type, e->type.dtype, e->span) : NULL;
    if (!t) return false;
    for (unsigned i = 0; i < 2; i++) {
        IrValue *v = ir_result(op, i);
        const IrType *part = ir_type_with_dtype(c->m, t, v->type->dtype);
        results[i] = v->type == part ? v : c->graph ? first_of_tensor(c, e, v, part) : first_of_tile(c, e, v, part);
    }
    return c->ok;
}

/* ---- Movement ---- */

static IrValue *transpose(Build *c, const Expr *e) {
    IrValue *x = build_operand(c, e->bound[0], e->compute);
    const Aff *extents[AST_MAX_RANK];
    if (!x) return NULL;
    for (unsigned i = 0; i < x->type->rank; i++) extents[i] = x->type->extents[e->order[i]];
    IrOp *op = unary_op(c, e, dialect(c, IR_GRAPH_TRANSPOSE, IR_TILE_TRANSPOSE), x, shaped(c, x->type->dtype, x->type->rank, extents));
    ir_attr_set_ints(op, "perm", x->type->rank, e->order);
    return ir_result(op, 0);
}

static IrValue *reshape(Build *c, const Expr *e) {
    IrValue *x = build_operand(c, e->bound[0], e->compute);
    const IrType *t = x ? build_type(c, &e->type, x->type->dtype, e->span) : NULL;
    return t ? reshaped(c, e, x, t->rank, t->extents) : NULL;
}

static IrValue *broadcast(Build *c, const Expr *e) {
    IrValue *x = build_operand(c, e->bound[0], e->compute);
    const IrType *t = x ? build_type(c, &e->type, x->type->dtype, e->span) : NULL;
    return t ? build_broadcast(c, x, t, e->span) : NULL;
}

static IrValue *concat(Build *c, const Expr *e) {
    IrValue **x = ARENA_ARRAY(c->unit, IrValue *, e->many_count + 1);
    const IrType *t = build_type(c, &e->type, e->compute, e->span);
    for (size_t i = 0; i < e->many_count; i++)
        if (!(x[i] = build_operand(c, e->many[i], e->compute))) return NULL;
    if (e->many_count == 1) return x[0];
    c->b.span = e->span;
    IrOp *op = ir_op_create(&c->b, dialect(c, IR_GRAPH_CONCAT, IR_TILE_CONCAT), (unsigned)e->many_count, x, 1, &t);
    ir_attr_set_int(op, "axis", e->reduce_axis);
    return ir_result(op, 0);
}

static IrValue *iota(Build *c, const Expr *e) {
    Dtype dtype = e->type.dtype, whole = dtype_is_int(dtype) ? dtype : DTYPE_I64;
    const IrType *t = build_type(c, &e->type, whole, e->span);
    c->b.span = e->span;
    IrOp *op = ir_op_create(&c->b, dialect(c, IR_GRAPH_IOTA, IR_TILE_IOTA), 0, NULL, 1, &t);
    ir_attr_set_int(op, "axis", e->reduce_axis);
    return build_cast(c, ir_result(op, 0), dtype);
}

IrValue *build_axes(Build *c, const Expr *e) {
    IrValue *results[2];
    IrOp *op;
    switch (e->builtin) {
    case BUILTIN_CUMSUM:
    case BUILTIN_CUMPROD:
    case BUILTIN_CUMMAX:
        return build_cast(c, scan(c, e), e->type.dtype);
    case BUILTIN_LINEAR_SCAN:
        return build_cast(c, linear_scan(c, e), e->type.dtype);
    case BUILTIN_SORT:
        op = sorted(c, e, build_flag(c, e, "descending"));
        return op ? build_cast(c, ir_result(op, 0), e->type.dtype) : NULL;
    case BUILTIN_TOPK:
        return build_topk(c, e, results) ? results[0] : NULL;
    case BUILTIN_FLIP:
        return flip(c, e);
    case BUILTIN_TRANSPOSE:
        return transpose(c, e);
    case BUILTIN_RESHAPE:
        return reshape(c, e);
    case BUILTIN_BROADCAST:
        return broadcast(c, e);
    case BUILTIN_CONCAT:
        return concat(c, e);
    case BUILTIN_IOTA:
        return iota(c, e);
    case BUILTIN_RANDOM:
        return build_random(c, e);
    default:
        return build_unsupported(c, e->span, builtin_info(e->builtin)->name);
    }
}
