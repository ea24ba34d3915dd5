/* Control flow of the walk: branches, maps and threads that diverge. */
#include "barrier_check.h"

#include <string.h>

/* ---- Control flow ---- */

static void yield_values(BarrierCheck *r, const IrOp *op, const IrBlock *region) {
    for (unsigned k = 0; k < op->result_count; k++) {
        const IrValue *v = region->last->operands[k];
        if (v->type->kind == IR_TYPE_SCALAR && v->type->width == 1 && !dtype_is_float(v->type->dtype))
            barrier_check_set(r, &op->results[k], barrier_check_value(r, v));
    }
}

static void walk_region(BarrierCheck *r, const IrOp *op, unsigned region, State **s) {
    barrier_check_enter(r, op, region);
    if (op->regions[region] && op->regions[region]->first) barrier_check_walk_block(r, op->regions[region], s);
}

static void leave_branch(BarrierCheck *r, State *s, const IrOp *op, unsigned region) {
    if (op->regions[region] && op->regions[region]->last) barrier_check_leave_sums(r, s, op, op->regions[region], NULL);
}

/* All threads together, one way or the other. */
static void walk_choice(BarrierCheck *r, const IrOp *op, const Value *cond, State **s) {
    const Aff *holds = cond->rest;
    State *other = state_copy(r, *s);
    for (unsigned side = 0; side < 2 && !r->failed; side++) {
        State **now = side ? &other : s;
        if (holds) VEC_PUSH(r->arena, &r->guards, side ? aff_sub(r->affs, aff_const(r->affs, -1), holds) : holds);
        walk_region(r, op, side, now);
        leave_branch(r, *now, op, side);
        if (holds) r->guards.len--;
    }
    state_join(r, *s, other);
}

/* Some threads one way, then the others the other way, with nothing that orders them. */
static void walk_divergence(BarrierCheck *r, const IrOp *op, const Value *cond, State **s) {
    uint8_t *before = ARENA_ARRAY(r->arena, uint8_t, (size_t)r->threads), *truth = ARENA_ARRAY(r->arena, uint8_t, (size_t)r->threads);
    bool together = r->together;
    uint64_t one_side = ++r->clock, around = r->side;
    memcpy(before, r->active, (size_t)r->threads);
    for (int64_t t = 0; t < r->threads; t++) truth[t] = (uint8_t)number_of(cond, t);
    for (unsigned side = 0; side < 2 && !r->failed; side++) {
        bool all = true, sure = true;
        for (int64_t t = 0; t < r->threads; t++) {
            r->active[t] = before[t] && truth[t] != side;
            all = all && r->active[t] == before[t];
            sure = sure && (!before[t] || truth[t] != 2);
        }
        r->together = together && all && sure;
        if (!barrier_check_count_active(r)) continue;
        r->side = side ? around : one_side;
        if (side) VEC_PUSH(r->arena, &r->other_sides, one_side);
        walk_region(r, op, side, s);
        leave_branch(r, *s, op, side);
        if (side) r->other_sides.len--;
    }
    for (size_t i = 0; i < (*s)->flights.len; i++)
        if ((*s)->flights.data[i].side == one_side) (*s)->flights.data[i].side = around;
    r->side = around;
    memcpy(r->active, before, (size_t)r->threads);
    r->together = together;
}

void barrier_check_walk_if(BarrierCheck *r, const IrOp *op, State **s) {
    const Value *cond = barrier_check_value(r, op->operands[0]);
    if (cond->kind == VALUE_TRUTH && cond->flat && cond->number[0] != 2) {
        unsigned side = !cond->number[0];
        walk_region(r, op, side, s);
        if (r->failed || !op->regions[side]->last) return;
        yield_values(r, op, op->regions[side]);
        leave_branch(r, *s, op, side);
    } else if (cond->kind == VALUE_TRUTH && cond->flat) {
        walk_choice(r, op, cond, s);
    } else {
        walk_divergence(r, op, cond, s);
    }
}

void barrier_check_walk_map(BarrierCheck *r, const IrOp *op, State **s) {
    const IrAttr *extents = ir_attr(op, "extents");
    int64_t total = 1, index[16] = {0};
    for (size_t d = 0; d < extents->count; d++) total *= extents->ints[d];
    for (int64_t i = 0; i < total && !r->failed; i++) {
        barrier_check_enter(r, op, 0);
        for (size_t d = 0; d < extents->count; d++) {
            Value at = {.kind = VALUE_LINEAR, .flat = true, .number = &index[d]};
            barrier_check_set(r, op->regions[0]->args[d], &at);
        }
        barrier_check_walk_block(r, op->regions[0], s);
        for (size_t d = extents->count; d-- > 0 && ++index[d] == extents->ints[d];) index[d] = 0;
    }
}
