/* Loops and branches that feed an op which split_passes executes chunk by chunk: the loop or branch is cloned for each
 * chunk, with the part of its body that the chunk needs. If a loop carries a tile, the whole loop is cloned for each chunk. This
 * is not possible if the loop's body folds the carried tile: a chunk of one iteration would need all
 * chunks of the preceding iterations.
 *
 *     %t = for(%c0, %M, %c1, %z) ...          %a = for(%c0, %N, %c2048, %lowest) (%N_0, %acc) {
 *     %m = tile.reduce(%t) {kind = "max"}  =>     %z_0 = <the chunk of %z>
 *                                                 %t_0 = for(%c0, %M, %c1, %z_0) ... */

#include "split.h"

bool is_control(const IrOp *op) {
    return op && (op->opcode == IR_FOR || op->opcode == IR_IF);
}

/* Is the value made inside of a loop or branch that is being repeated? */
bool is_repeated_inside(const Slice *s, const IrValue *v) {
    for (const Repeated *r = s->repeated; r; r = r->outer)
        if (is_inside_op(home_of(v), r->op)) return true;
    return false;
}

/* ---- Can it be repeated? ---- */

typedef struct {
    PassContext *ctx;
    const Axes *axes;
    size_t index;
    PointerTable seen, repeated; /* values; loops and branches */
} Question;

static bool value_repeats(Question *q, IrValue *v);

static bool is_repeated_op(const Question *q, const IrOp *op) {
    uint32_t found;
    return op && pointer_table_get(&q->repeated, op, &found);
}

static bool within_repeated(const Question *q, const IrValue *v) {
    const IrBlock *b = home_of(v);
    for (; b; b = b->parent ? b->parent->block : NULL)
        if (is_repeated_op(q, b->parent)) return true;
    return false;
}

static bool control_repeats(Question *q, IrOp *op) {
    pointer_table_set(&q->repeated, op, 1);
    for (unsigned r = 0; r < op->region_count; r++) {
        IrOp *yield = op->regions[r]->last;
        for (unsigned i = 0; yield && i < yield->operand_count; i++)
            if (!value_repeats(q, yield->operands[i])) return false;
    }
    return true;
}

/* Lanes that are made at once: of a sort; of a scan inside of a loop, whose total would be of one iteration. */
static bool needs_all_lanes(const Question *q, const IrOp *op) {
    int axis = op->operand_count ? axes_find(q->axes, op->operands[0], q->index) : -1;
    if (axis < 0 || !ir_has_trait(op, IR_ALONG)) return false;
    bool mixed = ir_axis_link(op, 0, (unsigned)axis).relation == IR_AXIS_MIXED;
    return mixed && (op->opcode != IR_TILE_SCAN || within_repeated(q, &op->results[0]));
}

static bool value_repeats(Question *q, IrValue *v) {
    uint32_t seen;
    bool inside = within_repeated(q, v);
    if (pointer_table_get(&q->seen, v, &seen)) return true;
    if (axes_find(q->axes, v, q->index) < 0 && !inside) return true;
    pointer_table_set(&q->seen, v, 1);
    IrOp *op = v->def;
    if (!op) return is_repeated_op(q, v->block->parent);
    if (is_control(op)) {
        if (!control_repeats(q, op)) return false;
    } else if (op->region_count || !is_repeatable(op) || needs_all_lanes(q, op)) {
        return false;
    }
    if (inside && op->opcode == IR_TILE_LOAD && is_stored_to(op->operands[0])) return false;
    for (unsigned i = 0; i < op->operand_count; i++)
        if (!value_repeats(q, op->operands[i])) return false;
    return true;
}

bool chunks_repeat(PassContext *ctx, const Axes *axes, size_t index, const IrOp *sink) {
    Question q = {ctx, axes, index, pointer_table(ctx->scratch), pointer_table(ctx->scratch)};
    for (unsigned i = 0; i < sink->operand_count; i++)
        if (!value_repeats(&q, sink->operands[i])) return false;
    return true;
}

/* ---- Repeating ---- */

/* What the op's regions take from outside is made before it. */
static void slice_captured(Slice *s, const IrOp *op, PointerTable *seen, IrValue *v) {
    uint32_t done;
    if (pointer_table_get(seen, v, &done)) return;
    pointer_table_set(seen, v, 1);
    if (!is_inside_op(home_of(v), op)) {
        slice_value(s, v);
        return;
    }
    IrOp *def = v->def;
    if (!def) return; /* carried: the yields of its loop are looked at too */
    for (unsigned i = 0; i < def->operand_count; i++) slice_captured(s, op, seen, def->operands[i]);
    for (unsigned r = 0; is_control(def) && r < def->region_count; r++)
        for (unsigned i = 0; i < def->regions[r]->last->operand_count; i++) slice_captured(s, op, seen, def->regions[r]->last->operands[i]);
}

static void forget(Slice *s, IrValue *v) {
    ir_value_map_set(s->map, v, v);
}

/* A loop that is repeated a second time is made anew. */
static void forget_region(Slice *s, IrBlock *region) {
    OpList ops = ops_collect(s->ctx->scratch, region);
    for (unsigned i = 0; i < region->arg_count; i++) forget(s, region->args[i]);
    for (size_t i = 0; i < ops.len; i++) {
        for (unsigned r = 0; r < ops.data[i]->result_count; r++) forget(s, &ops.data[i]->results[r]);
        for (unsigned r = 0; r < ops.data[i]->region_count; r++) forget_region(s, ops.data[i]->regions[r]);
    }
}

static void repeat_region(Slice *s, IrOp *op, IrBlock *from, IrBlock *to) {
    IrBuilder *outer = s->b, inner = ir_builder_at_end(to);
    IrValue **values = ARENA_ARRAY(s->ctx->scratch, IrValue *, op->result_count + 1);
    Repeated repeated = {op, s->repeated};
    inner.span = op->span;
    s->repeated = &repeated;
    s->b = &inner;
    for (unsigned i = 0; i < op->result_count; i++) values[i] = slice_value(s, from->last->operands[i]);
    if (s->ok) ir_yield(&inner, op->result_count, values);
    s->b = outer;
    s->repeated = repeated.outer;
    forget_region(s, from);
}

static void repeat_for(Slice *s, IrOp *op) {
    IrValue **inits = ARENA_ARRAY(s->ctx->scratch, IrValue *, op->operand_count);
    for (unsigned i = 0; i < op->operand_count; i++) inits[i] = slice_value(s, op->operands[i]);
    if (!s->ok) return;
    IrBlock *from = op->regions[0];
    IrOp *loop = ir_for(s->b, inits[0], inits[1], inits[2], op->result_count, inits + 3, from->args[0]->name);
    IrBlock *to = loop->regions[0];
    loop->attrs = op->attrs;
    loop->span = op->span;
    for (unsigned i = 0; i < from->arg_count; i++) ir_value_map_set(s->map, from->args[i], to->args[i]);
    repeat_region(s, op, from, to);
    for (unsigned i = 0; i < op->result_count; i++) ir_value_map_set(s->map, &op->results[i], &loop->results[i]);
}

static void repeat_if(Slice *s, IrOp *op) {
    IrValue *condition = slice_value(s, op->operands[0]);
    const IrType **types = ARENA_ARRAY(s->ctx->scratch, const IrType *, op->result_count + 1);
    for (unsigned i = 0; i < op->result_count; i++) types[i] = chunk_type(s, &op->results[i]);
    IrOp *branch = ir_op_create(s->b, IR_IF, 1, &condition, op->result_count, types);
    branch->attrs = op->attrs;
    for (unsigned r = 0; r < 2 && s->ok; r++) repeat_region(s, op, op->regions[r], branch->regions[r]);
    for (unsigned i = 0; i < op->result_count; i++) ir_value_map_set(s->map, &op->results[i], &branch->results[i]);
}

void repeat_control(Slice *s, IrOp *op) {
    PointerTable seen = pointer_table(s->ctx->scratch);
    for (unsigned r = 0; r < op->region_count; r++)
        for (unsigned i = 0; i < op->regions[r]->last->operand_count; i++) slice_captured(s, op, &seen, op->regions[r]->last->operands[i]);
    if (!s->ok) return;
    if (op->opcode == IR_FOR)
        repeat_for(s, op);
    else
        repeat_if(s, op);
}
