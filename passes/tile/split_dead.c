/* What is left over once ops have been made again a chunk at a time, for split_passes: values that nobody
 * needs, those that loops carry and branches give among them. */
#include "split.h"

typedef struct {
    PointerTable live; /* values */
    struct {
        IrValue **data;
        size_t len, cap;
    } work;
    Arena *scratch;
} Live;

static bool is_live(const Live *l, const IrValue *v) {
    uint32_t found;
    return pointer_table_get(&l->live, v, &found);
}

static void need(Live *l, IrValue *v) {
    if (is_live(l, v)) return;
    pointer_table_set(&l->live, v, 1);
    VEC_PUSH(l->scratch, &l->work, v);
}

/* The bounds of a loop, the condition of a branch. */
static void need_control(Live *l, const IrOp *op) {
    unsigned count = op->opcode == IR_IF ? 1 : op->operand_count < 3 ? op->operand_count : 3;
    for (unsigned i = 0; i < count; i++) need(l, op->operands[i]);
}

static void need_given(Live *l, IrOp *op, unsigned index) {
    need_control(l, op);
    need(l, &op->results[index]);
    if (op->opcode == IR_FOR) {
        need(l, op->operands[3 + index]);
        need(l, op->regions[0]->args[1 + index]);
    }
    for (unsigned r = 0; r < op->region_count; r++) need(l, op->regions[r]->last->operands[index]);
}

static void follow(Live *l, IrValue *v) {
    IrOp *op = v->def ? v->def : v->block->parent;
    if (v->def && !is_control(op)) {
        for (unsigned i = 0; i < op->operand_count; i++) need(l, op->operands[i]);
    } else if (v->def) {
        need_given(l, op, v->index);
    } else if (op && op->opcode == IR_FOR && v->index) {
        need_given(l, op, v->index - 1);
    }
}

static bool is_yield_of_control(const IrOp *op) {
    return op->opcode == IR_YIELD && is_control(op->block->parent);
}

static void find_live(Live *l, const OpList *ops) {
    for (size_t i = 0; i < ops->len; i++) {
        IrOp *op = ops->data[i];
        if (is_repeatable(op) || is_control(op) || is_yield_of_control(op)) continue;
        for (unsigned k = 0; k < op->operand_count; k++) need(l, op->operands[k]);
        for (IrOp *outer = op->block->parent; outer; outer = outer->block->parent) need_control(l, outer);
    }
    for (size_t i = 0; i < l->work.len; i++) follow(l, l->work.data[i]);
}

/* ---- Removing ---- */

static void shorten_yield(Live *l, IrOp *yield) {
    IrOp *control = yield->block->parent;
    IrValue **kept = ARENA_ARRAY(l->scratch, IrValue *, yield->operand_count + 1);
    unsigned count = 0;
    for (unsigned i = 0; i < yield->operand_count; i++)
        if (is_live(l, &control->results[i])) kept[count++] = yield->operands[i];
    if (count == yield->operand_count) return;
    IrBuilder b = ir_builder_before(yield);
    ir_yield(&b, count, kept);
    ir_op_erase(yield);
}

static void move_body(IrBlock *from, IrBlock *to) {
    while (from->first) ir_op_move_to_end(from->first, to);
}

static IrOp *shorter_loop(Live *l, IrBuilder *b, IrOp *op, unsigned count) {
    IrValue **inits = ARENA_ARRAY(l->scratch, IrValue *, count + 1);
    unsigned n = 0;
    for (unsigned i = 0; i < op->result_count; i++)
        if (is_live(l, &op->results[i])) inits[n++] = op->operands[3 + i];
    IrBlock *from = op->regions[0];
    IrOp *loop = ir_for(b, op->operands[0], op->operands[1], op->operands[2], count, inits, from->args[0]->name);
    ir_replace_uses(from->args[0], loop->regions[0]->args[0]);
    n = 0;
    for (unsigned i = 0; i < op->result_count; i++)
        if (is_live(l, &op->results[i])) ir_replace_uses(from->args[1 + i], loop->regions[0]->args[1 + n++]);
    return loop;
}

static IrOp *shorter_branch(Live *l, IrBuilder *b, const IrOp *op, unsigned count) {
    const IrType **types = ARENA_ARRAY(l->scratch, const IrType *, count + 1);
    unsigned n = 0;
    for (unsigned i = 0; i < op->result_count; i++)
        if (is_live(l, &op->results[i])) types[n++] = op->results[i].type;
    return ir_op_create(b, IR_IF, 1, op->operands, count, types);
}

static void shorten_control(Live *l, IrOp *op) {
    unsigned count = 0, n = 0;
    bool effects = false;
    for (unsigned i = 0; i < op->result_count; i++) count += is_live(l, &op->results[i]);
    for (unsigned r = 0; r < op->region_count; r++) effects |= op->regions[r]->first != op->regions[r]->last;
    if (!count && !effects) {
        ir_op_erase(op);
        return;
    }
    if (count == op->result_count) return;
    IrBuilder b = ir_builder_before(op);
    IrOp *shorter = op->opcode == IR_FOR ? shorter_loop(l, &b, op, count) : shorter_branch(l, &b, op, count);
    shorter->attrs = op->attrs;
    for (unsigned r = 0; r < op->region_count; r++) move_body(op->regions[r], shorter->regions[r]);
    for (unsigned i = 0; i < op->result_count; i++)
        if (is_live(l, &op->results[i])) ir_replace_uses(&op->results[i], &shorter->results[n++]);
    ir_op_erase(op);
}

/* From the end, so that the users of what is removed have gone. */
void remove_dead(PassContext *ctx, IrFunc *f) {
    OpList ops = ops_collect(ctx->scratch, f->body);
    Live l = {.live = pointer_table(ctx->scratch), .scratch = ctx->scratch};
    find_live(&l, &ops);
    for (size_t i = ops.len; i-- > 0;) {
        IrOp *op = ops.data[i];
        bool live = op->result_count == 0 || is_control(op);
        for (unsigned r = 0; r < op->result_count; r++) live |= is_live(&l, &op->results[r]);
        if (is_yield_of_control(op))
            shorten_yield(&l, op);
        else if (is_control(op))
            shorten_control(&l, op);
        else if (is_repeatable(op) && !live)
            ir_op_erase(op);
    }
}
