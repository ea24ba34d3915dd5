/* conv2d: the equation
 * Y[n, o, y, x] = sum(c, r, s, pad(X, 0)[n, o//g*C + c, y*stride + r*dilation - padding, ...] * W[o, c, r, s])
 * with g output and C input channels a group. */
#include "build_internal.h"

enum { N, O, Y, X, C, R, S, INDICES };

static IrValue *scaled(Build *c, IrValue *v, int64_t by) {
    return ir_binary(&c->b, IR_MUL, v, ir_const_index(&c->b, by));
}

static IrValue *element(Build *c, IrValue *const *operands, Dtype dtype, bool pads) {
    IrOp *op = ir_op_create(&c->b, IR_GRAPH_ELEMENT, 5, operands, 1, NULL);
    if (pads) ir_attr_set_float(op, "pad", 0);
    return build_cast(c, ir_result(op, 0), dtype);
}

/* y*stride + r*dilation - padding */
static IrValue *position(Build *c, const Window *w, unsigned i, IrValue *y, IrValue *r) {
    IrValue *at = ir_binary(&c->b, IR_ADD, scaled(c, y, w->stride[i]), scaled(c, r, w->dilation[i]));
    return ir_binary(&c->b, IR_SUB, at, ir_const_index(&c->b, w->padding[i]));
}

/* The first channel of x is 0 where there is one group only. */
static IrValue *channel(Build *c, const Expr *e, const IrType *weight, IrValue *const *index) {
    const Aff *width = build_aff(c, e->window->group_width, e->span);
    if (width == weight->extents[0]) return index[C];
    IrValue *group = ir_binary(&c->b, IR_FLOORDIV, index[O], ir_aff_emit(&c->b, width));
    IrValue *first = ir_binary(&c->b, IR_MUL, group, ir_aff_emit(&c->b, weight->extents[1]));
    return ir_binary(&c->b, IR_ADD, first, index[C]);
}

static void build_term(Build *c, const Expr *e, IrValue *x, IrValue *weight, IrValue *const *index) {
    const Window *w = e->window;
    IrValue *at[] = {x, index[N], channel(c, e, weight->type, index), position(c, w, 0, index[Y], index[R]),
                     position(c, w, 1, index[X], index[S])};
    IrValue *to[] = {weight, index[O], index[C], index[R], index[S]};
    IrValue *a = element(c, at, e->compute, true), *b = element(c, to, e->compute, false);
    IrValue *term = ir_binary(&c->b, IR_MUL, a, b);
    ir_yield(&c->b, 1, &term);
}

static IrValue *build_sum(Build *c, const Expr *e, IrValue *x, IrValue *weight) {
    static const char *const names[INDICES] = {"n", "o", "y", "x", "c", "r", "s"};
    const IrType *t = build_type(c, &e->type, e->compute, e->span);
    IrValue *extents[INDICES], *index[INDICES];
    for (unsigned i = 0; i < INDICES; i++) extents[i] = ir_aff_emit(&c->b, i < C ? t->extents[i] : weight->type->extents[i - C + 1]);
    c->b.span = e->span;
    IrOp *op = ir_op_create(&c->b, IR_GRAPH_GENERIC, INDICES, extents, 1, &t);
    ir_attr_set_int(op, "outer", C);
    ir_set_kind(op, IR_KIND_ADD);
    IrBuilder outside = c->b;
    c->b = ir_builder_at_end(op->regions[0]);
    for (unsigned i = 0; i < INDICES; i++) index[i] = ir_region_add_arg(op->regions[0], ir_type_index(c->m), names[i]);
    build_term(c, e, x, weight, index);
    c->b = outside;
    return ir_result(op, 0);
}

static IrValue *add_bias(Build *c, const Expr *e, IrValue *sum) {
    IrValue *bias = build_operand(c, e->bound[2], e->type.dtype);
    if (!bias) return NULL;
    int64_t axis = O;
    sum = build_cast(c, sum, e->type.dtype);
    const Aff *extents[] = {sum->type->extents[O]};
    const IrType *t = ir_type_tensor(c->m, e->type.dtype, 1, extents);
    c->b.span = e->span;
    if (bias->type != t) bias = ir_result(ir_op_create(&c->b, IR_GRAPH_RESHAPE, 1, &bias, 1, &t), 0);
    IrOp *op = ir_op_create(&c->b, IR_GRAPH_BROADCAST, 1, &bias, 1, &sum->type);
    ir_attr_set_ints(op, "axes", 1, &axis);
    return ir_binary(&c->b, IR_ADD, sum, ir_result(op, 0));
}

IrValue *build_conv(Build *c, const Expr *e) {
    IrValue *x = build_operand(c, e->bound[0], DTYPE_NONE);
    IrValue *weight = x ? build_operand(c, e->bound[1], DTYPE_NONE) : NULL;
    if (!weight) return NULL;
    IrValue *sum = build_sum(c, e, x, weight);
    return e->bound[2] ? add_bias(c, e, sum) : sum;
}
