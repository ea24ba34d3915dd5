/* --check: counts of what the language defines away, index values outside of their axis and integer
 * divisions by zero. A place in the source has a workspace of one number, sk_count_index_LINE_COLUMN; lanes
 * that are wrong add 1 to it by a scatter, which drops the index -1 of all others and what is absent. */
#include "build_internal.h"

#include <string.h>

static IrValue *store_ones(Build *c, IrValue *memory, IrValue *at) {
    IrValue *operands[] = {build_splat(c, at->type, 1), memory, at};
    IrOp *op = ir_op_create(&c->b, IR_TILE_STORE, 3, operands, 0, NULL);
    ir_attr_set_str(op, "axes", "g");
    ir_set_mode(op, IR_KIND_ADD);
    return memory;
}

/* Set to 0 before everything else. */
static void store_zero(Build *c, IrValue *memory) {
    IrBuilder here = c->b;
    c->b.block = c->f->body;
    c->b.before = c->f->body->first;
    const IrType *t = ir_type_tile(c->m, DTYPE_I64, 1, memory->type->extents, NULL);
    IrValue *operands[] = {build_splat(c, t, 0), memory, ir_const_index(&c->b, 0), ir_const_index(&c->b, 1)};
    IrOp *op = ir_op_create(&c->b, IR_TILE_STORE, 4, operands, 0, NULL);
    ir_attr_set_str(op, "axes", "r");
    c->b = here;
}

static IrValue *counter(Build *c, const char *what, Span span) {
    const SourceFile *file = c->sources ? source_file(c->sources, span.file) : NULL;
    uint32_t line = 0, column = 0;
    if (file) source_position(file, span.begin, &line, &column);
    const char *name = arena_printf(c->unit, "%s%s_%u_%u", IR_COUNTER, what, line, column);
    for (unsigned i = 0; i < c->f->param_count; i++)
        if (strcmp(c->f->params[i].name, name) == 0) return c->f->body->args[i];
    const Aff *one = aff_const(c->m->affs, 1);
    const IrType *t = ir_type_tensor(c->m, DTYPE_I64, 1, &one);
    IrValue *memory = ir_func_add_param(c->f, IR_PARAM_WORKSPACE, name, t, IR_DIR_INOUT);
    c->f->params[c->f->param_count - 1].elements = one;
    store_zero(c, memory);
    return memory;
}

/* As an index tile of rank 1 or more. */
static IrValue *of_rank(Build *c, IrValue *wrong) {
    if (wrong->type->kind == IR_TYPE_TILE && wrong->type->rank) return wrong;
    const Aff *one = aff_const(c->m->affs, 1);
    const IrType *t = ir_type_tile(c->m, DTYPE_BOOL, 1, &one, NULL);
    IrOp *op = ir_op_create(&c->b, IR_TILE_BROADCAST, 1, &wrong, 1, &t);
    ir_attr_set_ints(op, "axes", 0, NULL);
    return &op->results[0];
}

static void count(Build *c, IrValue *wrong, const char *what, Span span) {
    c->b.span = span;
    wrong = of_rank(c, wrong);
    const IrType *t = ir_type_with_dtype(c->m, wrong->type, DTYPE_I64);
    IrValue *at = ir_select(&c->b, wrong, build_splat(c, t, 0), build_splat(c, t, -1));
    store_ones(c, counter(c, what, span), at);
}

void build_count_index(Build *c, IrValue *index, const Aff *extent, Span span) {
    if (!c->file->check || c->graph || !index) return;
    IrValue *at = build_cast(c, index, DTYPE_I64);
    IrValue *end = build_cast(c, ir_aff_emit(&c->b, extent), DTYPE_I64);
    IrValue *below = ir_binary(&c->b, IR_LT, at, build_splat(c, at->type, 0));
    count(c, ir_binary(&c->b, IR_OR, below, ir_binary(&c->b, IR_LE, end, at)), "index", span);
}

/* `quotient` is 0 where the divisor is, and present where both operands are. */
void build_count_division(Build *c, IrValue *quotient, IrValue *divisor, Span span) {
    if (!c->file->check || c->graph || dtype_is_float(divisor->type->dtype)) return;
    IrValue *zero = ir_binary(&c->b, IR_EQ, divisor, build_splat(c, divisor->type, 0));
    IrValue *present = ir_binary(&c->b, IR_EQ, quotient, build_splat(c, quotient->type, 0));
    count(c, ir_binary(&c->b, IR_AND, zero, present), "division", span);
}
