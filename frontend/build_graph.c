/* `operator` blocks to graph functions: equations over whole tensors, and index notation. */
#include "build_internal.h"

#include <string.h>

/* ---- Index notation: C[i, j] = sum(k, A[i, k] * B[k, j]) ---- */

IrValue *build_element(Build *c, const Expr *e) {
    IrValue *tensor = e->decl ? build_get(c, e->decl) : NULL;
    if (!tensor || tensor->type->kind != IR_TYPE_TENSOR)
        return build_unsupported(c, e->span, "an element of what is no tensor");
    IrValue *operands[AST_MAX_RANK + 1] = {tensor};
    for (size_t i = 0; i < e->axis_count; i++) {
        if (e->axes[i].kind != AXIS_POINT || !e->axes[i].start)
            return build_unsupported(c, e->span, "slices of tensors in an operator");
        operands[i + 1] = build_index(c, e->axes[i].start, e->axes[i].span);
    }
    c->b.span = e->span;
    IrOp *op =
        ir_op_create(&c->b, IR_GRAPH_ELEMENT, (unsigned)e->axis_count + 1, operands, 1, NULL);
    return build_cast(c, &op->results[0], e->type.dtype);
}

typedef struct {
    const Decl *decls[2 * AST_MAX_RANK];
    unsigned count, outer;
    const Expr *body;
    const char *kind; /* null: nothing is reduced */
    Dtype dtype;      /* in which the body is summed */
} Notation;

static bool read_notation(Build *c, const Stmt *s, Notation *n) {
    for (size_t i = 0; i < s->index_count; i++) n->decls[n->count++] = s->indices[i];
    n->outer = n->count;
    n->body = s->value;
    n->dtype = s->value->compute != DTYPE_NONE ? s->value->compute : s->value->type.dtype;
    if (s->value->index_count) {
        const char *ir = builtin_info(s->value->builtin)->ir;
        n->kind = strncmp(ir, "reduce_", 7) == 0 ? ir + 7 : NULL;
        if (!n->kind || s->value->index_count + n->count > 2 * AST_MAX_RANK)
            return build_unsupported(c, s->span, "this reduction over indices") != NULL;
        for (size_t i = 0; i < s->value->index_count; i++)
            n->decls[n->count++] = s->value->indices[i];
        for (size_t i = 0; i < s->value->bound_count; i++)
            if (s->value->bound[i]) n->body = s->value->bound[i];
    }
    return true;
}

IrValue *build_notation(Build *c, const Stmt *s) {
    Notation n = {0};
    if (!read_notation(c, s, &n)) return NULL;
    IrValue *extents[2 * AST_MAX_RANK];
    const Aff *shape[AST_MAX_RANK] = {0};
    for (unsigned i = 0; i < n.count; i++) {
        const Decl *d = n.decls[i];
        const Aff *extent = aff_sub(c->m->affs, build_aff(c, d->index_hi, d->span),
                                    build_aff(c, d->index_lo, d->span));
        extents[i] = ir_aff_emit(&c->b, extent);
        if (i < n.outer) shape[i] = extent;
    }
    const IrType *t = ir_type_tensor(c->m, n.dtype, n.outer, shape);
    c->b.span = s->span;
    IrOp *op = ir_op_create(&c->b, IR_GRAPH_GENERIC, n.count, extents, 1, &t);
    ir_attr_set_int(op, "outer", n.outer);
    if (n.kind) ir_attr_set_str(op, "kind", n.kind);
    IrBuilder outside = c->b;
    c->b = ir_builder_at_end(op->regions[0]);
    for (unsigned i = 0; i < n.count; i++) {
        const Decl *d = n.decls[i];
        IrValue *arg =
            ir_region_add_arg(op->regions[0], ir_type_index(c->m), build_name(c, d->name));
        build_set(c, d, ir_binary(&c->b, IR_ADD, arg, build_index(c, d->index_lo, d->span)));
    }
    IrValue *value = build_operand(c, n.body, n.dtype);
    if (value) ir_yield(&c->b, 1, &value);
    c->b = outside;
    return value ? &op->results[0] : NULL;
}

/* ---- The operator ---- */

/* What an equation gives to a name: in its type and shape. */
static void define_value(Build *c, const Stmt *s, const Decl *d, IrValue *v) {
    const IrType *t = build_type(c, &d->type, d->type.dtype, s->span);
    if (v->type->kind != IR_TYPE_TENSOR) {
        c->b.span = s->span;
        IrOp *op = ir_op_create(&c->b, IR_GRAPH_BROADCAST, 1, &v, 1,
                                (const IrType *[]){ir_type_with_dtype(c->m, t, v->type->dtype)});
        ir_attr_set_ints(op, "axes", 0, NULL);
        v = &op->results[0];
    }
    v = build_broadcast(c, build_cast(c, v, d->type.dtype), t, s->span);
    if (!v) return;
    if (!v->name) v->name = build_name(c, d->name);
    build_set(c, d, v);
}

static void build_equation(Build *c, const Stmt *s) {
    IrValue *results[2];
    if (s->target_count == 2) {
        if (!build_topk(c, s->value, results)) return;
        for (size_t i = 0; i < 2; i++) define_value(c, s, s->targets[i], results[i]);
        return;
    }
    IrValue *v = s->index_count ? build_notation(c, s) : build_expr(c, s->value);
    if (v) define_value(c, s, s->targets[0], v);
}

static void build_inputs(Build *c) {
    for (size_t i = 0; i < c->block->decl_count; i++) {
        const Decl *d = c->block->decls[i];
        if (d->kind == DECL_VIEW) build_unsupported(c, d->span, "views");
        if (d->kind != DECL_TENSOR || d->direction == DIR_OUT) continue;
        IrDirection direction = d->direction == DIR_INOUT ? IR_DIR_INOUT : IR_DIR_IN;
        build_set(c, d,
                  ir_func_add_param(c->f, IR_PARAM_TENSOR, d->name,
                                    build_type(c, &d->type, d->type.dtype, d->span), direction));
    }
}

static void build_return(Build *c) {
    IrValue *values[64];
    const char *names[64];
    unsigned count = 0;
    for (size_t i = 0; i < c->block->decl_count; i++) {
        const Decl *d = c->block->decls[i];
        if (d->kind != DECL_TENSOR || d->direction == DIR_IN || d->direction == DIR_NONE) continue;
        IrValue *v = build_get(c, d);
        if (!v || count == COUNT_OF(values)) {
            build_unsupported(c, d->span,
                              v ? "more than 64 results" : "a result without an equation");
            return;
        }
        values[count] = v;
        names[count++] = d->name;
    }
    c->b.span = c->block->name_span;
    IrOp *op = ir_op_create(&c->b, IR_RETURN, count, values, 0, NULL);
    ir_attr_set_strs(op, "names", count, names);
}

void build_operator(Build *c) {
    build_symbols(c);
    build_inputs(c);
    const Body *body = &c->block->body;
    for (size_t i = 0; i < body->count && c->ok; i++) {
        const Stmt *s = body->data[i];
        if (s->action == ACTION_EQUATION)
            build_equation(c, s);
        else if (s->action == ACTION_SCALAR)
            for (size_t k = 0; k < s->target_count; k++)
                build_set(c, s->targets[k], build_expr(c, s->u.assign.values[k]));
        else if (s->action != ACTION_NONE)
            build_unsupported(c, s->span, "this statement in an operator");
    }
    if (c->ok) build_return(c);
}
