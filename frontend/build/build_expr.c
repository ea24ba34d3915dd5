/* Expressions over scalars, tiles and whole tensors: one lowering, with a graph and a tile dialect.
 */
#include "build_internal.h"

#include <math.h>
#include <string.h>

static bool is_shaped(const IrValue *v) {
    return v->type->kind == IR_TYPE_TILE || v->type->kind == IR_TYPE_TENSOR;
}

IrValue *build_cast(Build *c, IrValue *v, Dtype dtype) {
    if (!v || dtype == DTYPE_NONE || (v->type->dtype == dtype && !v->type->is_index)) return v;
    return ir_cast(&c->b, v, is_shaped(v) ? ir_type_with_dtype(c->m, v->type, dtype) : ir_type_scalar(c->m, dtype));
}

IrValue *build_single(Build *c, IrValue *v, Span span) {
    if (!v || v->type->kind != IR_TYPE_TILE) return v;
    const IrType *t = ir_type_scalar(c->m, v->type->dtype);
    c->b.span = span;
    return ir_result(ir_op_create(&c->b, IR_TILE_SCALAR, 1, &v, 1, &t), 0);
}

IrValue *build_number(Build *c, const Expr *e) {
    IrValue *v = build_single(c, build_expr(c, e), e->span);
    return !v || v->type->is_index ? v : ir_cast(&c->b, v, ir_type_index(c->m));
}

IrValue *build_splat(Build *c, const IrType *type, double value) {
    return ir_const_float(&c->b, type, value);
}

static const IrType *reshaped(Build *c, const IrType *shape, Dtype dtype) {
    return ir_type_with_dtype(c->m, shape, dtype);
}

/* Extents that the checker proved equal to those of `to`, but that are written differently. */
static IrValue *renamed_extents(Build *c, IrValue *v, const IrType *to, Span span) {
    const IrType *from = v->type;
    const Aff *extents[AST_MAX_RANK];
    unsigned rank = from->rank, shift = to->rank - rank;
    bool same = true;
    for (unsigned i = 0; i < rank; i++) {
        bool repeats = ir_type_extent(from, i) == 1;
        extents[i] = repeats ? from->extents[i] : to->extents[i + shift];
        same &= extents[i] == from->extents[i];
    }
    if (same) return v;
    const IrType *t = c->graph ? ir_type_tensor(c->m, from->dtype, rank, extents) : ir_type_tile(c->m, from->dtype, rank, extents, NULL);
    c->b.span = span;
    IrOpcode opcode = c->graph ? IR_GRAPH_RESHAPE : IR_TILE_RESHAPE;
    return ir_result(ir_op_create(&c->b, opcode, 1, &v, 1, &t), 0);
}

IrValue *build_broadcast(Build *c, IrValue *v, const IrType *shape, Span span) {
    if (!v || !is_shaped(v)) return v;
    const IrType *to = reshaped(c, shape, v->type->dtype);
    if (v->type == to) return v;
    int64_t axes[AST_MAX_RANK];
    unsigned rank = v->type->rank, shift = shape->rank - rank;
    if (rank > shape->rank) return build_unsupported(c, span, "operands of these shapes");
    v = renamed_extents(c, v, to, span);
    if (v->type == to) return v;
    for (unsigned i = 0; i < rank; i++) axes[i] = (int64_t)(i + shift);
    c->b.span = span;
    IrOp *op = ir_op_create(&c->b, c->graph ? IR_GRAPH_BROADCAST : IR_TILE_BROADCAST, 1, &v, 1, &to);
    ir_attr_set_ints(op, "axes", rank, axes);
    return &op->results[0];
}

/* ---- Leaves ---- */

static IrValue *constant(Build *c, const ConstValue *v, Dtype dtype) {
    const IrType *t = ir_type_scalar(c->m, dtype);
    if (v->kind == CONST_FLOAT) return ir_const_float(&c->b, t, v->f);
    return dtype_is_float(dtype) ? ir_const_float(&c->b, t, (double)v->i) : ir_const_int(&c->b, t, v->i);
}

static IrValue *named(Build *c, const Expr *e) {
    IrValue *v = e->decl ? build_get(c, e->decl) : NULL;
    if (v) return v;
    if (e->decl && e->decl->kind == DECL_PARAM) return build_operand(c, e->decl->value, e->decl->type.dtype);
    if (!c->graph && e->decl && e->decl->kind == DECL_VIEW) return build_unsupported(c, e->span, "views");
    return build_unsupported(c, e->span, arena_printf(c->unit, "the use of %s here", e->u.name.name));
}

IrValue *build_operand(Build *c, const Expr *e, Dtype dtype) {
    c->b.span = e->span;
    if (e->type.kind == TYPE_SCALAR) {
        if (e->value.kind != CONST_NONE && e->value.kind != CONST_STRING)
            return constant(c, &e->value, dtype != DTYPE_NONE ? dtype : e->type.dtype);
        if (e->affine) return build_cast(c, build_index(c, e->affine, e->span), dtype != DTYPE_NONE ? dtype : e->type.dtype);
    }
    return build_cast(c, build_expr(c, e), dtype);
}

const Expr *build_argument(Build *c, const Expr *e, const char *name) {
    BuiltinParam params[BUILTIN_MAX_PARAMS];
    size_t count = builtin_params(e->builtin, c->unit, params);
    for (size_t i = 0; i < count && i < e->bound_count; i++)
        if (e->bound[i] && strcmp(params[i].name, name) == 0) return e->bound[i];
    return NULL;
}

bool build_flag(Build *c, const Expr *e, const char *name) {
    const Expr *flag = build_argument(c, e, name);
    return flag && flag->value.kind == CONST_BOOL && flag->value.i;
}

/* ---- Elementwise ---- */

/* A whole number is its own floor, and integers round nothing; null: the op takes integers itself. */
static IrValue *of_integers(Build *c, IrOpcode opcode, IrValue *const *v) {
    if (dtype_is_float(v[0]->type->dtype)) return NULL;
    if (opcode == IR_FLOOR || opcode == IR_RINT || opcode == IR_TRUNC || opcode == IR_CEIL) return v[0];
    if (opcode != IR_FMA) return NULL;
    IrValue *product = ir_result(ir_op_create(&c->b, IR_MUL, 2, v, 1, NULL), 0);
    return ir_result(ir_op_create(&c->b, IR_ADD, 2, (IrValue *[]){product, v[2]}, 1, NULL), 0);
}

static IrValue *limit(Build *c, IrOpcode opcode, IrValue *v, Dtype to, bool largest) {
    const IrType *t = v->type;
    double top = dtype_max(to);
    if (dtype_is_float(t->dtype)) return ir_binary(&c->b, opcode, v, ir_const_float(&c->b, t, largest ? top : -top));
    int64_t bound = top >= 0x1p63 ? INT64_MAX : (int64_t)top;
    if (!largest) bound = dtype_is_float(to) ? -bound : dtype_is_signed(to) ? -bound - 1 : 0;
    return ir_binary(&c->b, opcode, v, ir_const_int(&c->b, t, bound));
}

/* cast(x, sat=true): x limited to what the type holds; float to integer saturates anyway. */
static IrValue *saturate(Build *c, IrValue *v, Dtype to) {
    Dtype from = v->type->dtype;
    bool floats = dtype_is_float(from), wider = dtype_max(from) > dtype_max(to);
    if (to == DTYPE_BOOL || from == DTYPE_BOOL || (floats && !dtype_is_float(to))) return v;
    bool below = floats ? wider : dtype_is_signed(from) && (!dtype_is_signed(to) || wider);
    if (wider) v = limit(c, IR_MIN, v, to, true);
    return below ? limit(c, IR_MAX, v, to, false) : v;
}

static bool is_nonzero(const Expr *e) {
    return e->value.kind == CONST_INT && e->value.i != 0;
}

static IrValue *emit_elementwise(Build *c, const Expr *e, const IrType *shape) {
    const BuiltinInfo *info = builtin_info(e->builtin);
    const char *name = info->ir;
    bool swap = e->builtin == BUILTIN_GT || e->builtin == BUILTIN_GE;
    if (swap) name = e->builtin == BUILTIN_GT ? "lt" : "le";
    IrOpcode opcode;
    bool copy = e->builtin == BUILTIN_PLUS || e->builtin == BUILTIN_CAST;
    bool saturates = e->builtin == BUILTIN_CAST && build_flag(c, e, "sat");
    if (!copy && !ir_op_find(name, &opcode)) return build_unsupported(c, e->span, info->name);
    IrValue *v[3] = {0};
    size_t count = copy ? 1 : (size_t)ir_op_info(opcode)->max_operands;
    for (size_t i = 0; i < count; i++) {
        size_t at = swap ? 1 - i : i;
        if (at >= e->bound_count || !e->bound[at]) return build_unsupported(c, e->span, info->name);
        Dtype dtype = e->compute;
        if (info->rule == RULE_LOGIC || (e->builtin == BUILTIN_WHERE && at == 0)) dtype = DTYPE_BOOL;
        if (e->builtin == BUILTIN_CAST) dtype = e->bound[at]->type.weak && !saturates ? e->type.dtype : e->bound[at]->type.dtype;
        v[i] = build_operand(c, e->bound[at], dtype);
        if (v[i] && shape) v[i] = build_broadcast(c, v[i], shape, e->span);
        if (!v[i]) return NULL;
    }
    c->b.span = e->span;
    if (saturates) return saturate(c, v[0], e->type.dtype);
    if (copy) return v[0];
    IrValue *integers = of_integers(c, opcode, v);
    if (integers) return integers;
    if (opcode == IR_SELECT && shape && !is_shaped(v[0]) && !is_shaped(v[1]) && !is_shaped(v[2]))
        return build_unsupported(c, e->span, "where over scalars only");
    IrValue *result = ir_result(ir_op_create(&c->b, opcode, (unsigned)count, v, 1, NULL), 0);
    if ((opcode == IR_FLOORDIV || opcode == IR_MOD) && !is_nonzero(e->bound[1])) build_count_division(c, result, v[1], e->span);
    return result;
}

/* `* weight` and `+ bias` of a definition whose weight or bias is absent. */
static bool is_absent_factor(const Expr *e) {
    if ((e->builtin != BUILTIN_MUL && e->builtin != BUILTIN_ADD) || e->bound[1]->kind != EXPR_NAME) return false;
    const Decl *d = e->bound[1]->decl;
    return d && d->kind == DECL_PARAM && d->origin == ORIGIN_DEFAULT;
}

static IrValue *elementwise(Build *c, const Expr *e) {
    bool scalar = e->type.kind == TYPE_SCALAR;
    const IrType *shape = scalar ? NULL : build_type(c, &e->type, e->type.dtype, e->span);
    if (is_absent_factor(e)) return build_cast(c, build_operand(c, e->bound[0], e->compute), e->type.dtype);
    return build_cast(c, emit_elementwise(c, e, shape), e->type.dtype);
}

/* ---- Reductions ---- */

IrValue *build_reduce(Build *c, IrValue *x, const char *kind, uint32_t folded_axes, bool keepdim, Span span) {
    int64_t axes[AST_MAX_RANK];
    const Aff *extents[AST_MAX_RANK];
    size_t count = 0;
    unsigned rank = 0;
    for (unsigned i = 0; i < x->type->rank; i++) {
        bool folded = folded_axes >> i & 1;
        if (folded) axes[count++] = (int64_t)i;
        if (!folded || keepdim) extents[rank++] = folded ? aff_const(c->m->affs, 1) : x->type->extents[i];
    }
    const IrType *t =
        c->graph ? ir_type_tensor(c->m, x->type->dtype, rank, extents) : ir_type_tile(c->m, x->type->dtype, rank, extents, NULL);
    c->b.span = span;
    IrOp *op = ir_op_create(&c->b, c->graph ? IR_GRAPH_REDUCE : IR_TILE_REDUCE, 1, &x, 1, &t);
    ir_attr_set_str(op, "kind", kind);
    ir_attr_set_ints(op, "axes", count, axes);
    if (keepdim) ir_attr_set_bool(op, "keepdim", true);
    return &op->results[0];
}

static IrValue *tile_count(Build *c, IrValue *x, uint32_t folded_axes, Span span) {
    int64_t axes[AST_MAX_RANK];
    size_t count = 0;
    for (unsigned i = 0; i < x->type->rank; i++)
        if (folded_axes >> i & 1) axes[count++] = (int64_t)i;
    c->b.span = span;
    IrOp *op = ir_op_create(&c->b, IR_TILE_COUNT, 1, &x, 1, NULL);
    ir_attr_set_ints(op, "axes", count, axes);
    return &op->results[0];
}

/* mean: the sum over the number of present lanes; nothing present gives 0 / 0. */
static IrValue *tile_mean(Build *c, IrValue *x, uint32_t folded_axes, bool keepdim, Span span) {
    IrValue *sum = build_reduce(c, x, "add", folded_axes, keepdim, span);
    IrValue *lanes = build_cast(c, tile_count(c, x, folded_axes, span), x->type->dtype);
    return ir_binary(&c->b, IR_DIV, sum, lanes);
}

static IrValue *reduction(Build *c, const Expr *e) {
    if (e->index_count) return build_index_reduction(c, e);
    bool truth = e->builtin == BUILTIN_REDUCE_ANY || e->builtin == BUILTIN_REDUCE_ALL;
    IrValue *x = build_operand(c, e->bound[0], truth ? DTYPE_NONE : e->compute);
    if (!x) return NULL;
    if (truth && x->type->dtype != DTYPE_BOOL) x = ir_binary(&c->b, IR_NE, x, build_splat(c, x->type, 0));
    if (builtin_info(e->builtin)->rule == RULE_ARG_REDUCE) return build_arg(c, e, x);
    const char *kind = builtin_info(e->builtin)->ir + strlen("reduce_");
    IrValue *v = strcmp(kind, "mean") == 0 && !c->graph ? tile_mean(c, x, e->reduce_axes, e->keepdim, e->span)
                                                        : build_reduce(c, x, kind, e->reduce_axes, e->keepdim, e->span);
    return build_cast(c, v, e->type.dtype);
}

static IrValue *graph_count(Build *c, const IrType *t, uint32_t folded_axes) {
    const Aff *count = aff_const(c->m->affs, 1);
    for (unsigned i = 0; i < t->rank; i++)
        if (folded_axes >> i & 1) count = aff_mul(c->m->affs, count, t->extents[i]);
    return ir_aff_emit(&c->b, count);
}

static IrValue *lane_count(Build *c, const Expr *e) {
    IrValue *x = build_operand(c, e->bound[0], DTYPE_NONE);
    if (!x) return NULL;
    IrValue *count = c->graph ? graph_count(c, x->type, e->reduce_axes) : tile_count(c, x, e->reduce_axes, e->span);
    return build_cast(c, count, e->type.dtype);
}

/* ---- Definitions ---- */

/* What is known as a constant or a size stays one: it takes the type of what it meets. */
static bool is_known(const Expr *e) {
    return e->type.kind == TYPE_SCALAR && (e->affine || e->value.kind != CONST_NONE);
}

static IrValue *expansion(Build *c, const Expr *e) {
    const Expansion *x = e->expansion;
    for (size_t i = 0; i < x->count && c->ok; i++) {
        const Decl *d = x->names[i];
        if (!is_known(d->value)) build_set(c, d, build_operand(c, d->value, d->type.dtype));
    }
    return c->ok ? build_operand(c, x->result, e->type.dtype) : NULL;
}

/* ---- All ---- */

static IrValue *operation(Build *c, const Expr *e) {
    const BuiltinInfo *info = builtin_info(e->builtin);
    if (e->expansion) return expansion(c, e);
    if (info->rule == RULE_COUNT) return lane_count(c, e);
    if (info->rule == RULE_CONV) return build_conv(c, e);
    switch (info->class) {
    case CLASS_ELEMENTWISE:
        return elementwise(c, e);
    case CLASS_REDUCE:
        return reduction(c, e);
    case CLASS_CONTRACT:
        return build_contract(c, e, NULL);
    case CLASS_SCAN:
    case CLASS_SORT:
    case CLASS_MOVE:
    case CLASS_CREATE:
        return build_axes(c, e);
    default:
        break;
    }
    return build_unsupported(c, e->span, info->name);
}

IrValue *build_expr(Build *c, const Expr *e) {
    c->b.span = e->span;
    if (e->type.kind == TYPE_SCALAR && (e->affine || (e->value.kind != CONST_NONE && e->value.kind != CONST_STRING)))
        return build_operand(c, e, e->type.dtype);
    switch (e->kind) {
    case EXPR_NAME:
        return named(c, e);
    case EXPR_UNARY:
    case EXPR_BINARY:
    case EXPR_CALL:
        return operation(c, e);
    case EXPR_INDEX:
        if (c->graph) return build_element(c, e);
        break;
    default:
        break;
    }
    return build_unsupported(c, e->span, "this expression");
}
