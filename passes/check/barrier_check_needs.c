/* Which values the walk of a kernel evaluates: addresses in shared memory, conditions, loop bounds, and all values that these depend on.
 * Values that only determine an address in a tensor are not evaluated. */
#include "barrier_check.h"

static uint8_t *mark_of(BarrierCheck *r, const IrValue *v) {
    return &r->needed[barrier_check_slot(r, v) - r->values];
}

static void need(BarrierCheck *r, const IrValue *v) {
    if (*mark_of(r, v)) return;
    *mark_of(r, v) = 1;
    VEC_PUSH(r->arena, &r->asked, v);
}

static void need_operands(BarrierCheck *r, const IrOp *op, unsigned first, unsigned end) {
    for (unsigned i = first; i < end && i < op->operand_count; i++) need(r, op->operands[i]);
}

/* A loop's number, or what it carries from one iteration to the next. */
static void need_argument(BarrierCheck *r, const IrValue *v) {
    const IrOp *loop = v->block->parent;
    if (!loop || loop->opcode != IR_FOR) return;
    if (v->index == 0) {
        need_operands(r, loop, 0, 3);
        return;
    }
    need(r, loop->operands[v->index + 2]);
    need(r, v->block->last->operands[v->index - 1]);
}

static void need_parts(BarrierCheck *r, const IrValue *v) {
    const IrOp *op = v->def;
    if (!op) {
        need_argument(r, v);
    } else if (op->opcode == IR_FOR) {
        need(r, op->operands[v->index + 3]);
        need(r, op->regions[0]->last->operands[v->index]);
    } else if (op->region_count) {
        need_operands(r, op, 0, op->operand_count);
        for (unsigned i = 0; i < op->region_count; i++)
            if (op->regions[i] && op->regions[i]->last) need(r, op->regions[i]->last->operands[v->index]);
    } else {
        need_operands(r, op, 0, op->operand_count);
    }
}

static void ask(void *context, IrOp *op) {
    BarrierCheck *r = context;
    if (!r->relevant[op->mark]) return;
    switch (op->opcode) {
    case IR_FOR:
        need_operands(r, op, 0, 3);
        break;
    case IR_IF:
        need_operands(r, op, 0, 1);
        break;
    case IR_MEM_STORE:
        need_operands(r, op, 1, op->operand_count);
        break;
    case IR_ASYNC_COPY:
        need_operands(r, op, 2, 4);
        break; /* not what is copied, nor how much of it */
    default:
        need_operands(r, op, 0, op->operand_count);
    }
}

void barrier_check_find_needs(BarrierCheck *r) {
    r->needed = ARENA_ARRAY(r->arena, uint8_t, r->value_count + 1);
    ir_walk(r->func->body, ask, r);
    for (size_t i = 0; i < r->asked.len; i++) need_parts(r, r->asked.data[i]);
}

bool barrier_check_needed(BarrierCheck *r, const IrValue *v) {
    return *mark_of(r, v);
}
