/* Index notation: C[i, j] = sum(k, A[i, k] * B[k, j]). A reduction inside a larger expression is an
 * equation of its own over the indices that it uses; the expression reads its elements. */
#include "build_internal.h"

#include <string.h>

typedef struct Notation {
    const Decl *decls[2 * AST_MAX_RANK]; /* the result's, then the reduced ones */
    unsigned count, outer;
    const Expr *body;
    const char *kind; /* null: nothing is reduced */
    Dtype dtype;      /* of the body */
    Span span;
    IrOp *op;
} Notation;

static bool add_index(Build *c, Notation *n, const Decl *d) {
    if (n->count == COUNT_OF(n->decls)) {
        build_unsupported(c, n->span, "more than 16 indices in one equation");
        return false;
    }
    n->decls[n->count++] = d;
    return true;
}

/* ---- Elements ---- */

static void set_pad(IrOp *op, const Expr *pad) {
    const ConstValue *v = &pad->value;
    ir_attr_set_float(op, "pad", v->kind == CONST_FLOAT ? v->f : (double)v->i);
}

/* X[1:N, 0] among whole tensors: the tensor of those elements. */
static IrValue *build_part(Build *c, const Expr *e, IrValue *tensor) {
    const IrType *whole = build_type(c, &e->type, e->type.dtype, e->span), *t = whole;
    IrValue *extents[AST_MAX_RANK], *at[AST_MAX_RANK + 1] = {tensor};
    if (!t->rank) t = ir_type_tensor(c->m, t->dtype, 1, (const Aff *[]){aff_const(c->m->affs, 1)}); /* a generic op has an axis */
    for (unsigned i = 0; i < t->rank; i++) extents[i] = ir_aff_emit(&c->b, t->extents[i]);
    c->b.span = e->span;
    IrOp *op = ir_op_create(&c->b, IR_GRAPH_GENERIC, t->rank, extents, 1, &t);
    ir_attr_set_int(op, "outer", t->rank);
    IrBuilder outside = c->b;
    c->b = ir_builder_at_end(op->regions[0]);
    for (size_t i = 0; i < e->axis_count; i++) {
        const AxisIndex *axis = &e->axes[i];
        at[i + 1] = build_index(c, axis->start, axis->span);
        if (axis->kind != AXIS_RANGE) continue;
        IrValue *lane = ir_region_add_arg(op->regions[0], ir_type_index(c->m), "at");
        lane = ir_binary(&c->b, IR_MUL, lane, build_index(c, axis->step, axis->span));
        at[i + 1] = ir_binary(&c->b, IR_ADD, at[i + 1], lane);
    }
    if (!whole->rank) ir_region_add_arg(op->regions[0], ir_type_index(c->m), "at");
    c->b.span = e->span;
    IrValue *element = ir_result(ir_op_create(&c->b, IR_GRAPH_ELEMENT, (unsigned)e->axis_count + 1, at, 1, NULL), 0);
    ir_yield(&c->b, 1, &element);
    c->b = outside;
    IrValue *part = ir_result(op, 0);
    return whole->rank ? part : ir_result(ir_op_create(&c->b, IR_GRAPH_RESHAPE, 1, &part, 1, &whole), 0);
}

IrValue *build_element(Build *c, const Expr *e) {
    IrValue *tensor = e->decl ? build_get(c, e->decl) : NULL;
    if (!tensor || tensor->type->kind != IR_TYPE_TENSOR) return build_unsupported(c, e->span, "an element of what is no tensor");
    if (!c->notation) return build_part(c, e, tensor);
    IrValue *operands[AST_MAX_RANK + 1] = {tensor};
    for (size_t i = 0; i < e->axis_count; i++) {
        if (e->axes[i].kind != AXIS_POINT || !e->axes[i].start) return build_unsupported(c, e->span, "slices of tensors in an operator");
        operands[i + 1] = build_index(c, e->axes[i].start, e->axes[i].span);
        if (!c->ok) return NULL;
    }
    c->b.span = e->span;
    IrOp *op = ir_op_create(&c->b, IR_GRAPH_ELEMENT, (unsigned)e->axis_count + 1, operands, 1, NULL);
    if (e->pad) set_pad(op, e->pad);
    return build_cast(c, &op->results[0], e->type.dtype);
}

/* ---- Which indices an expression uses ---- */

static bool uses(const Expr *e, const Decl *d);

static bool size_uses(const Aff *a, const Decl *d) {
    if (!a) return false;
    if (a->kind == AFF_VAR) {
        const Decl *leaf = a->var;
        return leaf == d || (leaf->kind == DECL_LOCAL && leaf->value && uses(leaf->value, d));
    }
    for (size_t i = 0; i < a->count; i++)
        if (size_uses(a->args[i], d)) return true;
    return false;
}

static bool parts_use(const Expr *e, const Decl *d) {
    for (size_t i = 0; i < e->bound_count; i++)
        if (uses(e->bound[i], d)) return true;
    for (size_t i = 0; i < e->axis_count; i++)
        if (size_uses(e->axes[i].start, d)) return true;
    for (size_t i = 0; i < e->index_count; i++)
        if (size_uses(e->indices[i]->index_lo, d) || size_uses(e->indices[i]->index_hi, d)) return true;
    return false;
}

static bool uses(const Expr *e, const Decl *d) {
    if (!e) return false;
    if (e->decl == d || size_uses(e->affine, d)) return true;
    for (size_t i = 0; e->expansion && i < e->expansion->count; i++)
        if (uses(e->expansion->names[i]->value, d)) return true;
    return (e->expansion && uses(e->expansion->result, d)) || parts_use(e, d);
}

/* ---- Equations ---- */

static IrOp *open_generic(Build *c, Notation *n) {
    IrValue *extents[2 * AST_MAX_RANK];
    const Aff *shape[AST_MAX_RANK] = {0};
    for (unsigned i = 0; i < n->count; i++) {
        const Decl *d = n->decls[i];
        const Aff *extent = aff_sub(c->m->affs, build_aff(c, d->index_hi, d->span), build_aff(c, d->index_lo, d->span));
        extents[i] = ir_aff_emit(&c->b, extent);
        if (i < n->outer) shape[i] = extent;
    }
    const IrType *t = ir_type_tensor(c->m, n->dtype, n->outer, shape);
    c->b.span = n->span;
    IrOp *op = ir_op_create(&c->b, IR_GRAPH_GENERIC, n->count, extents, 1, &t);
    ir_attr_set_int(op, "outer", n->outer);
    if (n->kind) ir_attr_set_str(op, "kind", n->kind);
    return op;
}

/* The tensor that an equation defines, made at c->b. */
static IrValue *build_generic(Build *c, Notation *n) {
    if (n->outer > AST_MAX_RANK) return build_unsupported(c, n->span, "a reduction that uses more than 8 outer indices");
    n->op = open_generic(c, n);
    if (!c->ok) return NULL;
    IrBuilder outside = c->b;
    const Notation *around = c->notation;
    IrValue *hidden[2 * AST_MAX_RANK];
    unsigned count = n->count;
    c->b = ir_builder_at_end(n->op->regions[0]);
    c->notation = n;
    for (unsigned i = 0; i < count; i++) {
        const Decl *d = n->decls[i];
        IrValue *arg = ir_region_add_arg(n->op->regions[0], ir_type_index(c->m), build_name(c, d->name));
        hidden[i] = build_get(c, d);
        build_set(c, d, ir_binary(&c->b, IR_ADD, arg, build_index(c, d->index_lo, d->span)));
    }
    IrValue *value = build_operand(c, n->body, n->dtype);
    if (value) ir_yield(&c->b, 1, &value);
    for (unsigned i = 0; i < count; i++) build_set(c, n->decls[i], hidden[i]);
    c->notation = around;
    c->b = outside;
    return value ? &n->op->results[0] : NULL;
}

/* The body and indices of sum(k, ...) behind the outer ones. */
static bool add_reduction(Build *c, Notation *n, const Expr *e) {
    const BuiltinInfo *info = builtin_info(e->builtin);
    bool is_arg = info->rule == RULE_ARG_REDUCE;
    for (size_t i = 0; i < e->index_count; i++)
        if (!add_index(c, n, e->indices[i])) return false;
    if (is_arg)
        n->outer = n->count;
    else
        n->kind = info->ir + strlen("reduce_");
    n->body = e->bound[0];
    n->dtype = e->compute;
    return true;
}

/* argmax(k, ...): where along the last axis; an index counts from the start of its range. */
static IrValue *find_extreme(Build *c, const Expr *e, IrValue *terms) {
    const IrType *from = terms->type;
    unsigned axis = from->rank - 1u;
    const IrType *t = ir_type_tensor(c->m, DTYPE_I64, axis, from->extents);
    IrOp *op = ir_op_create(&c->b, IR_GRAPH_ARG, 1, &terms, 1, &t);
    ir_attr_set_str(op, "kind", e->builtin == BUILTIN_ARGMAX ? "max" : "min");
    ir_attr_set_int(op, "axis", axis);
    return &op->results[0];
}

static IrValue *reduction_tensor(Build *c, Notation *n, const Expr *e) {
    if (!add_reduction(c, n, e)) return NULL;
    IrValue *v = build_generic(c, n);
    return v && builtin_info(e->builtin)->rule == RULE_ARG_REDUCE ? find_extreme(c, e, v) : v;
}

/* An element of the tensor at the indices around; they count from 0 there. */
static IrValue *read_element(Build *c, const Expr *e, IrValue *tensor, const Notation *n) {
    IrValue *operands[AST_MAX_RANK + 1] = {tensor};
    unsigned rank = tensor->type->rank;
    for (unsigned i = 0; i < rank; i++) {
        const Decl *d = n->decls[i];
        IrValue *lo = build_index(c, d->index_lo, d->span);
        operands[i + 1] = ir_binary(&c->b, IR_SUB, build_get(c, d), lo);
    }
    c->b.span = e->span;
    IrOp *op = ir_op_create(&c->b, IR_GRAPH_ELEMENT, rank + 1, operands, 1, NULL);
    IrValue *v = &op->results[0];
    if (builtin_info(e->builtin)->rule != RULE_ARG_REDUCE) return v;
    IrValue *start = build_index(c, e->indices[0]->index_lo, e->span);
    return ir_binary(&c->b, IR_ADD, v, build_cast(c, start, DTYPE_I64));
}

IrValue *build_index_reduction(Build *c, const Expr *e) {
    Notation n = {.span = e->span};
    const Notation *around = c->notation;
    for (unsigned i = 0; around && i < around->count; i++)
        if (uses(e, around->decls[i]) && !add_index(c, &n, around->decls[i])) return NULL;
    n.outer = n.count;
    if (!around) {
        IrValue *whole = reduction_tensor(c, &n, e);
        if (!whole || builtin_info(e->builtin)->rule != RULE_ARG_REDUCE) return whole;
        IrValue *start = build_index(c, e->indices[0]->index_lo, e->span);
        return ir_binary(&c->b, IR_ADD, whole, build_cast(c, start, DTYPE_I64));
    }
    IrBuilder inside = c->b;
    c->b = ir_builder_before(around->op);
    IrValue *tensor = reduction_tensor(c, &n, e);
    c->b = inside;
    return tensor ? read_element(c, e, tensor, &n) : NULL;
}

IrValue *build_notation(Build *c, const Stmt *s) {
    const Expr *value = s->value;
    Notation n = {.body = value, .dtype = value->type.dtype, .span = s->span};
    for (size_t i = 0; i < s->index_count; i++)
        if (!add_index(c, &n, s->indices[i])) return NULL;
    n.outer = n.count;
    bool sums = value->index_count && builtin_info(value->builtin)->rule != RULE_ARG_REDUCE;
    return sums ? reduction_tensor(c, &n, value) : build_generic(c, &n);
}
