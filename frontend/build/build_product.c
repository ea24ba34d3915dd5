/* gemm, matmul and dot: contractions of whole tensors, products of tiles. */
#include <string.h>

#include "build_internal.h"

static const Expr *attribute(const Expr *e, const char *name) {
    for (size_t i = 0; e->kind == EXPR_CALL && i < e->u.call.args.count; i++) {
        const Arg *a = &e->u.call.args.data[i];
        if (a->name && strcmp(a->name, name) == 0) return a->value;
    }
    return NULL;
}

static bool flag(const Expr *e, const char *name) {
    const Expr *v = attribute(e, name);
    return v && v->value.kind == CONST_BOOL && v->value.i;
}

static void set_precision(const Expr *e, IrOp *op) {
    const Expr *v = attribute(e, "precision");
    if (v && v->value.kind == CONST_STRING) ir_set_precision(op, (IrPrecision)ir_enum_find(IR_ENUM_PRECISION, v->value.s));
}

/* The axis that is summed over: the only one of a vector. */
static unsigned summed_axis(const Expr *e, const IrValue *v, unsigned which) {
    unsigned rank = v->type->rank;
    bool trans = flag(e, which ? "trans_b" : "trans_a");
    return rank == 1 ? 0 : rank - (trans ^ (which == 1) ? 2 : 1);
}

/* ---- Whole tensors ---- */

/* With the leading axes of the product, where the factors' own differ. */
static IrValue *with_leading(Build *c, IrValue *v, const IrType *product, unsigned lead, Span span) {
    const Aff *extents[AST_MAX_RANK];
    unsigned rank = v->type->rank;
    for (unsigned i = 0; i < lead; i++) extents[i] = product->extents[i];
    for (unsigned i = 0; i < 2; i++) extents[lead + i] = v->type->extents[rank - 2 + i];
    return build_broadcast(c, v, ir_type_tensor(c->m, v->type->dtype, lead + 2, extents), span);
}

static bool same_leading(const IrType *a, const IrType *b) {
    bool same = a->rank == b->rank;
    for (unsigned i = 0; same && i + 2 < a->rank; i++) same = a->extents[i] == b->extents[i];
    return same;
}

static IrValue *graph_product(Build *c, const Expr *e, IrValue *a, IrValue *b) {
    const IrType *t = build_type(c, &e->type, e->compute, e->span);
    bool matrices = a->type->rank > 1 && b->type->rank > 1;
    unsigned lead = matrices ? t->rank - 2 : 0;
    if (matrices && !same_leading(a->type, b->type)) {
        a = with_leading(c, a, t, lead, e->span);
        b = a ? with_leading(c, b, t, lead, e->span) : NULL;
        if (!b) return NULL;
    }
    int64_t batch[AST_MAX_RANK], ka = summed_axis(e, a, 0), kb = summed_axis(e, b, 1);
    for (unsigned i = 0; i < lead; i++) batch[i] = i;
    c->b.span = e->span;
    IrOp *op = ir_op_create(&c->b, IR_GRAPH_CONTRACT, 2, (IrValue *[]){a, b}, 1, &t);
    ir_attr_set_ints(op, "batch_a", lead, batch);
    ir_attr_set_ints(op, "batch_b", lead, batch);
    ir_attr_set_ints(op, "sum_a", 1, &ka);
    ir_attr_set_ints(op, "sum_b", 1, &kb);
    set_precision(e, op);
    return &op->results[0];
}

/* ---- Tiles ---- */

/* A vector along axis `axis` of tiles of `shape`. */
static IrValue *stretch(Build *c, IrValue *v, const IrType *shape, unsigned axis) {
    if (v->type->rank == shape->rank) return v;
    int64_t axes = axis;
    const IrType *to = ir_type_with_dtype(c->m, shape, v->type->dtype);
    IrOp *op = ir_op_create(&c->b, IR_TILE_BROADCAST, 1, &v, 1, &to);
    ir_attr_set_ints(op, "axes", 1, &axes);
    return &op->results[0];
}

/* A product with a vector reads each element once: products, then a sum. */
static IrValue *vector_product(Build *c, const Expr *e, IrValue *a, IrValue *b) {
    bool vector_a = a->type->rank == 1;
    unsigned axis = vector_a ? summed_axis(e, b, 1) : summed_axis(e, a, 0);
    a = build_cast(c, a, e->compute);
    b = build_cast(c, b, e->compute);
    const IrType *shape = vector_a ? b->type : a->type;
    c->b.span = e->span;
    IrValue *x = stretch(c, a, shape, axis), *y = stretch(c, b, shape, axis);
    return build_reduce(c, ir_binary(&c->b, IR_MUL, x, y), "add", 1u << axis, false, e->span);
}

/* acc in e->compute. Integers that are added to floats are converted first. */
static IrValue *tile_gemm(Build *c, const Expr *e, IrValue *a, IrValue *b, IrValue *acc) {
    if (dtype_is_float(e->compute) && !dtype_is_float(a->type->dtype)) {
        a = build_cast(c, a, e->compute);
        b = build_cast(c, b, e->compute);
    }
    c->b.span = e->span;
    IrOp *op = ir_op_create(&c->b, IR_TILE_GEMM, 3, (IrValue *[]){a, b, acc}, 1, NULL);
    if (flag(e, "trans_a")) ir_attr_set_bool(op, "trans_a", true);
    if (flag(e, "trans_b")) ir_attr_set_bool(op, "trans_b", true);
    set_precision(e, op);
    return &op->results[0];
}

IrValue *build_contract(Build *c, const Expr *e, IrValue *acc) {
    IrValue *a = build_operand(c, e->bound[0], DTYPE_NONE);
    IrValue *b = a ? build_operand(c, e->bound[1], DTYPE_NONE) : NULL;
    if (!b) return NULL;
    if (c->graph) return build_cast(c, graph_product(c, e, a, b), e->type.dtype);
    if (a->type->rank == 1 || b->type->rank == 1) return build_cast(c, vector_product(c, e, a, b), e->type.dtype);
    acc = acc ? build_cast(c, acc, e->compute) : build_splat(c, build_type(c, &e->type, e->compute, e->span), 0);
    return build_cast(c, tile_gemm(c, e, a, b, acc), e->type.dtype);
}
