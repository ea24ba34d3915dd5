/* `operator` blocks to graph functions: equations over whole tensors. */
#include "build_internal.h"

/* ---- The operator ---- */

/* What an equation gives to a name: in its type and shape. */
static void define_value(Build *c, const Stmt *s, const Decl *d, IrValue *v) {
    const IrType *t = build_type(c, &d->type, d->type.dtype, s->span);
    if (v->type->kind != IR_TYPE_TENSOR) {
        c->b.span = s->span;
        IrOp *op = ir_op_create(&c->b, IR_GRAPH_BROADCAST, 1, &v, 1, (const IrType *[]){ir_type_with_dtype(c->m, t, v->type->dtype)});
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
        if (d->kind != DECL_TENSOR || d->direction == DIR_OUT) continue;
        IrDirection direction = d->direction == DIR_INOUT ? IR_DIR_INOUT : IR_DIR_IN;
        build_set(c, d, ir_func_add_param(c->f, IR_PARAM_TENSOR, d->name, build_type(c, &d->type, d->type.dtype, d->span), direction));
    }
}

/* A view is the tensor of its elements. */
static void build_graph_view(Build *c, const Decl *d) {
    const IrType *t = build_type(c, &d->type, d->type.dtype, d->span);
    IrValue *base = build_get(c, d->base), *extents[AST_MAX_RANK], *at[AST_MAX_RANK + 1] = {base};
    if (!base) {
        build_unsupported(c, d->span, "a view of what is no input");
        return;
    }
    for (unsigned i = 0; i < t->rank; i++) extents[i] = ir_aff_emit(&c->b, t->extents[i]);
    c->b.span = d->span;
    IrOp *op = ir_op_create(&c->b, IR_GRAPH_GENERIC, t->rank, extents, 1, &t);
    ir_attr_set_int(op, "outer", t->rank);
    IrBuilder outside = c->b;
    c->b = ir_builder_at_end(op->regions[0]);
    for (size_t i = 0; i < d->dim_count; i++)
        build_set(c, d->view_indices[i], ir_region_add_arg(op->regions[0], ir_type_index(c->m), build_name(c, d->dim_names[i])));
    const Expr *of = d->view_of;
    for (size_t i = 0; i < of->axis_count; i++) at[i + 1] = build_index(c, of->axes[i].start, of->axes[i].span);
    IrOp *element = ir_op_create(&c->b, IR_GRAPH_ELEMENT, (unsigned)of->axis_count + 1, at, 1, NULL);
    const ConstValue *pad = d->view_pad ? &d->view_pad->value : NULL;
    double value = !pad ? 0 : pad->kind == CONST_FLOAT ? pad->f : (double)pad->i;
    ir_attr_set_float(element, "pad", value);
    IrValue *result = ir_result(element, 0);
    ir_yield(&c->b, 1, &result);
    c->b = outside;
    build_set(c, d, ir_result(op, 0));
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
            build_unsupported(c, d->span, v ? "more than 64 results" : "a result without an equation");
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
    if (c->block->precision_name) ir_func_set_enum(c->f, IR_FN_PRECISION, ir_enum_find(IR_ENUM_PRECISION, c->block->precision_name));
    build_symbols(c);
    build_inputs(c);
    for (size_t i = 0; i < c->block->decl_count && c->ok; i++)
        if (c->block->decls[i]->kind == DECL_VIEW) build_graph_view(c, c->block->decls[i]);
    const Body *body = &c->block->body;
    for (size_t i = 0; i < body->count && c->ok; i++) {
        const Stmt *s = body->data[i];
        if (s->action == ACTION_EQUATION)
            build_equation(c, s);
        else if (s->action == ACTION_SCALAR)
            for (size_t k = 0; k < s->target_count; k++) build_set(c, s->targets[k], build_expr(c, s->u.assign.values[k]));
        else if (s->action != ACTION_NONE)
            build_unsupported(c, s->span, "this statement in an operator");
    }
    if (c->ok) build_return(c);
}
