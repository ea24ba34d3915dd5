/* The steps that split_k makes of one: parts of the sum, and a step that adds them. */
#include "analysis/analysis.h"
#include "analysis/gemm_cost.h"
#include "analyzer.h"
#include "grid/tile_order.h"
#include "split_k_internal.h"

#include <string.h>

/* The workspaces, as matrices of `rows` rows of a tile's columns for each iteration of the parallel loops, of each part or summed. */
static void add_workspaces(const Split *s, IrFunc *func, bool pieces, bool sums) {
    IrModule *m = s->ctx->module;
    AffCtx *c = m->affs;
    const Aff *rows = aff_mul(c, s->tiles, aff_const(c, s->rows)), *columns = aff_const(c, s->columns);
    const Aff *elements = aff_mul(c, s->used.name, aff_mul(c, rows, columns)),
              *summed_elements = aff_mul(c, s->far.name, aff_mul(c, rows, columns));
    for (unsigned i = 0; i < s->loop->result_count; i++) {
        Dtype dtype = s->loop->results[i].type->dtype;
        const IrType *summed = ir_type_tensor(m, dtype, 2, (const Aff *[]){rows, columns});
        const IrType *parted = ir_type_tensor(m, dtype, 3, (const Aff *[]){s->parts.name, rows, columns});
        if (pieces) func_add_workspace(func, s->pieces[i], parted, aff_mul(c, elements, s->most.name));
        if (sums) func_add_workspace(func, s->sums[i], summed, summed_elements);
    }
}

void split_k_make_step(const Split *s, IrFunc *func, bool pieces, bool sums) {
    if (s->waves) func_add_symbol(func, s->whole);
    func_add_symbol(func, s->most);
    func_add_symbol(func, s->used);
    if (!pieces && !sums) return;
    func_add_symbol(func, s->span);
    func_add_symbol(func, s->parts);
    if (s->may_be_far) func_add_symbol(func, s->far);
    add_workspaces(s, func, pieces, sums);
}

void split_k_number_through(const Split *s, IrFunc *func, const Aff *count, const Aff *first) {
    OpList ops = ops_collect(s->ctx->scratch, func->body);
    IrModule *m = s->ctx->module;
    VEC(IrOp *) loops = {0};
    for (size_t i = 0; i < ops.len; i++)
        if (ops.data[i]->opcode == IR_PARALLEL) VEC_PUSH(s->ctx->scratch, &loops, ops.data[i]);
    ANALYZER_ASSUME(loops.data); /* the kernel has a parallel loop */
    IrOp *through = step_repeat(func, count, "tile"), *outermost = loops.data[0];
    ir_attr_copy(through, outermost, "hints");
    through->span = outermost->span;
    IrBuilder b = ir_builder_before(outermost);
    IrValue *rest = ir_binary(&b, IR_ADD, ir_aff_emit(&b, first), through->regions[0]->args[0]);
    for (size_t i = loops.len; i-- > 0;) {
        IrOp *loop = loops.data[i];
        IrValue *trips = ir_aff_emit(&b, loop_trips(m, loop)), *iteration = i ? ir_binary(&b, IR_MOD, rest, trips) : rest;
        rest = i ? ir_binary(&b, IR_FLOORDIV, rest, trips) : rest;
        IrValue *begin = ir_aff_emit(&b, ir_aff_of(m, loop->operands[0])), *step = ir_aff_emit(&b, ir_aff_of(m, loop->operands[2]));
        ir_replace_uses(loop->regions[0]->args[0], ir_binary(&b, IR_ADD, begin, ir_binary(&b, IR_MUL, iteration, step)));
    }
    for (size_t i = 0; i < loops.len; i++) {
        for (IrOp *op = loops.data[i]->regions[0]->first, *next; op; op = next) {
            next = op->next;
            if (is_terminator(op))
                ir_op_erase(op);
            else
                ir_op_move_before(op, loops.data[i]);
        }
        ir_op_erase(loops.data[i]);
    }
}

/* The function's loop of gemms. */
static IrOp *loop_in(const OpList *ops) {
    size_t i = 0;
    while (ops->data[i]->opcode != IR_FOR) i++;
    return ops->data[i];
}

/* The first row of this iteration of the parallel loops in a workspace. */
static IrValue *first_row(const Split *s, IrBuilder *b, const OpList *ops) {
    IrValue *number = ir_const_index(b, 0);
    for (size_t i = 0; i < ops->len; i++) {
        const IrOp *loop = ops->data[i];
        if (loop->opcode != IR_PARALLEL) continue;
        IrValue *iteration =
            ir_binary(b, IR_FLOORDIV, ir_binary(b, IR_SUB, loop->regions[0]->args[0], loop->operands[0]), loop->operands[2]);
        number = ir_binary(b, IR_ADD, ir_binary(b, IR_MUL, number, ir_aff_emit(b, loop_trips(b->module, loop))), iteration);
    }
    return ir_binary(b, IR_MUL, number, ir_const_index(b, s->rows));
}

void split_k_make_part(const Split *s, IrFunc *func) {
    OpList ops = ops_collect(s->ctx->scratch, func->body);
    IrOp *loop = loop_in(&ops);
    AffCtx *c = s->ctx->module->affs;
    while (loop->block->last->prev != loop) ir_op_erase(loop->block->last->prev); /* what is done with the sums */
    IrOp *around = step_repeat(func, s->parts.name, "part");
    IrBuilder b = ir_builder_before(loop);
    IrValue *part = around->regions[0]->args[0], *length = ir_aff_emit(&b, aff_mul(c, s->span.name, aff_const(c, s->step)));
    IrValue *begin = ir_binary(&b, IR_ADD, loop->operands[0], ir_binary(&b, IR_MUL, part, length));
    IrValue *end = ir_binary(&b, IR_MIN, ir_binary(&b, IR_ADD, begin, length), loop->operands[1]);
    ir_set_operand(loop, 0, begin);
    ir_set_operand(loop, 1, end);
    b = ir_builder_after(loop);
    b.span = loop->span;
    IrValue *row = first_row(s, &b, &ops), *last = ir_binary(&b, IR_ADD, row, ir_const_index(&b, s->rows));
    for (unsigned i = 0; i < loop->result_count; i++) {
        IrOp *fill = ir_op_create(&b, IR_TILE_FILL, 1, (IrValue *[]){&loop->results[i]}, 1, &loop->results[i].type);
        if (dtype_is_float(loop->results[i].type->dtype))
            ir_attr_set_float(fill, "value", 0);
        else
            ir_attr_set_int(fill, "value", 0);
        IrValue *zero = ir_const_index(&b, 0), *columns = ir_const_index(&b, s->columns);
        IrValue *operands[] = {ir_result(fill, 0), param_named(func, s->pieces[i]), part, row, last, zero, columns};
        ir_attr_set_str(ir_op_create(&b, IR_TILE_STORE, COUNT_OF(operands), operands, 0, NULL), "axes", "prr");
    }
    remove_unused(s->ctx->scratch, func->body);
}

/* Sums of `row` over the parts behind the first, several of them at once: a row of S. */
static void sum_parts(const Split *s, IrFunc *func, IrBuilder *b, IrValue *row, unsigned i) {
    IrModule *m = s->ctx->module;
    const Aff *extents[] = {aff_const(m->affs, PARTS_AT_ONCE), aff_const(m->affs, s->columns)};
    Dtype dtype = s->loop->results[i].type->dtype;
    const IrType *several = ir_type_tile(m, dtype, 2, extents, NULL), *one = ir_type_tile(m, dtype, 1, extents + 1, NULL);
    IrValue *zero = ir_const_index(b, 0), *columns = ir_const_index(b, s->columns), *at_once = ir_const_index(b, PARTS_AT_ONCE);
    IrValue *parts = ir_aff_emit(b, s->parts.name), *none = tile_splat(b, one, 0);
    IrOp *loop = ir_for(b, ir_const_index(b, 1), parts, at_once, 1, &none, "first");
    IrBuilder in = ir_builder_at_end(loop->regions[0]);
    IrValue *first = loop->regions[0]->args[0];
    IrValue *from[] = {param_named(func, s->pieces[i]), first, ir_binary(&in, IR_ADD, first, at_once), row, zero, columns};
    IrOp *load = ir_op_create(&in, IR_TILE_LOAD, COUNT_OF(from), from, 1, &several);
    ir_attr_set_str(load, "axes", "rpr");
    IrValue *sum = ir_binary(&in, IR_ADD, loop->regions[0]->args[1], tile_reduced(&in, ir_result(load, 0), IR_KIND_ADD, 0, false, one));
    ir_yield(&in, 1, &sum);
    IrValue *to[] = {ir_result(loop, 0), param_named(func, s->sums[i]), row, zero, columns};
    ir_attr_set_str(ir_op_create(b, IR_TILE_STORE, COUNT_OF(to), to, 0, NULL), "axes", "pr");
}

void split_k_make_sum(const Split *s, IrFunc *func) {
    AffCtx *c = s->ctx->module->affs;
    while (func->body->last->prev) ir_op_erase(func->body->last->prev);
    const Aff *rows = aff_mul(c, s->far.name, aff_mul(c, s->tiles, aff_const(c, s->rows)));
    IrOp *loop = step_repeat(func, rows, "row");
    IrBuilder b = ir_builder_before(loop->regions[0]->last);
    for (unsigned i = 0; i < s->loop->result_count; i++) sum_parts(s, func, &b, loop->regions[0]->args[0], i);
}

void split_k_drop_persistent(const Split *s, IrFunc *func) {
    OpList ops = ops_collect(s->ctx->scratch, func->body);
    for (size_t i = 0; i < ops.len; i++) {
        IrHint hints[IR_HINT_COUNT], kept[IR_HINT_COUNT];
        unsigned all = ir_op_hints(ops.data[i], hints), count = 0;
        for (unsigned h = 0; h < all; h++)
            if (hints[h] != IR_HINT_PERSISTENT) kept[count++] = hints[h];
        if (count < all) ir_set_hints(ops.data[i], count, kept, ir_op_swizzle(ops.data[i]));
    }
}

/* What is loaded of a tile's sums: from `row` on, as much as is present. */
typedef struct {
    IrValue *row, *height, *width;
} Place;

/* Of one sum, in part number `part` of what is split, or (null) of what the step before summed. */
static IrValue *load_sum(const Split *s, IrFunc *func, IrBuilder *b, const Place *at, IrValue *part, unsigned i) {
    IrValue *from[6], *zero = ir_const_index(b, 0);
    unsigned n = 0;
    from[n++] = param_named(func, part ? s->pieces[i] : s->sums[i]);
    if (part) from[n++] = part;
    from[n++] = at->row, from[n++] = ir_binary(b, IR_ADD, at->row, at->height);
    from[n++] = zero, from[n++] = at->width;
    IrOp *load = ir_op_create(b, IR_TILE_LOAD, n, from, 1, &s->loop->results[i].type);
    ir_attr_set_str(load, "axes", part ? "prr" : "rr");
    return ir_result(load, 0);
}

/* Adds to `sums` what a loop from `begin` to `end` loads. */
static void add_more(const Split *s, IrFunc *func, IrBuilder *b, const Place *at, const Aff *end, bool parts, IrValue **sums) {
    unsigned count = s->loop->result_count;
    IrOp *loop = ir_for(b, ir_const_index(b, parts), ir_aff_emit(b, end), ir_const_index(b, 1), count, sums, "more");
    IrBuilder in = ir_builder_at_end(loop->regions[0]);
    IrValue *added[MOST_SUMS];
    for (unsigned i = 0; i < count; i++)
        added[i] =
            ir_binary(&in, IR_ADD, loop->regions[0]->args[1 + i], load_sum(s, func, &in, at, parts ? loop->regions[0]->args[0] : NULL, i));
    ir_yield(&in, count, added);
    for (unsigned i = 0; i < count; i++) sums[i] = ir_result(loop, i);
}

void split_k_make_finish(const Split *s, IrFunc *func) {
    AffCtx *c = s->ctx->module->affs;
    OpList ops = ops_collect(s->ctx->scratch, func->body);
    IrOp *loop = loop_in(&ops);
    IrBuilder b = ir_builder_before(loop);
    b.span = loop->span;
    const Aff *rows = aff_const(c, s->rows), *columns = aff_const(c, s->columns);
    Place at = {.row = first_row(s, &b, &ops)};
    IrValue *sums[MOST_SUMS];
    for (unsigned i = 0; i < loop->result_count; i++) {
        Presence p = presence_of(s->ctx, &loop->results[i]);
        at.height = ir_aff_emit(&b, p.axes[0].hi ? aff_min(c, p.axes[0].hi, rows) : rows);
        at.width = ir_aff_emit(&b, p.axes[1].hi ? aff_min(c, p.axes[1].hi, columns) : columns);
        sums[i] = load_sum(s, func, &b, &at, ir_const_index(&b, 0), i);
    }
    at.height = ir_const_index(&b, s->rows), at.width = ir_const_index(&b, s->columns); /* the first load says what is present */
    const Aff *near = s->may_be_far ? aff_sub(c, s->parts.name, aff_mul(c, s->parts.name, s->far.name)) : s->parts.name;
    add_more(s, func, &b, &at, near, true, sums);
    if (s->may_be_far) add_more(s, func, &b, &at, s->far.name, false, sums);
    for (unsigned i = 0; i < loop->result_count; i++) {
        sums[i]->name = loop->results[i].name;
        ir_replace_uses(&loop->results[i], sums[i]);
    }
    ir_op_erase(loop);
    remove_unused(s->ctx->scratch, func->body);
    step_repeat(func, s->used.name, "used");
}
