/* Control flow in lockstep: a region runs for the threads whose byte in the mask is set. */
#include "interpret_internal.h"

#include <string.h>

static bool any(const uint8_t *mask, size_t count) {
    for (size_t t = 0; t < count; t++)
        if (mask[t]) return true;
    return false;
}

static const Inst *last_inst(const Code *code) {
    return code->count ? &code->insts[code->count - 1] : NULL;
}

/* Values on the back edge may be arguments of the same region: through a copy. */
static void pass_carried(Machine *m, Inst *inst, Slot **to, Slot **from, unsigned count, const uint8_t *active) {
    Cell *at = inst->carry;
    for (unsigned i = 0; i < count; i++) {
        size_t cells = m->threads * from[i]->n;
        memcpy(at, from[i]->cells, cells * sizeof *at);
        at += cells;
    }
    at = inst->carry;
    for (unsigned i = 0; i < count; i++) {
        size_t n = from[i]->n;
        for (size_t t = 0; t < m->threads; t++)
            if (active[t]) memcpy(&to[i]->cells[t * n], &at[t * n], n * sizeof *at);
        at += m->threads * n;
        memcpy(to[i]->lo, from[i]->lo, sizeof to[i]->lo);
        memcpy(to[i]->hi, from[i]->hi, sizeof to[i]->hi);
    }
}

static void run_for(Machine *m, Inst *inst, const uint8_t *active) {
    Code *body = inst->regions[0];
    uint8_t *inside = inst->masks[0];
    unsigned carried = inst->op->result_count;
    const Cell *lb = inst->operands[0]->cells, *ub = inst->operands[1]->cells;
    const Cell *step = inst->operands[2]->cells;
    Cell *i = body->args[0]->cells;
    for (size_t t = 0; t < m->threads; t++) {
        if (active[t] && step[t].i <= 0) machine_trap(m, "a loop's step is not positive");
        if (active[t]) i[t] = lb[t];
        inside[t] = active[t] && lb[t].i < ub[t].i;
    }
    pass_carried(m, inst, body->args + 1, inst->operands + 3, carried, active);
    while (any(inside, m->threads)) {
        run_code(m, body, inside);
        const Inst *yield = last_inst(body);
        pass_carried(m, inst, body->args + 1, yield->operands, carried, inside);
        for (size_t t = 0; t < m->threads; t++) {
            if (!inside[t]) continue;
            i[t].i += step[t].i;
            inside[t] = i[t].i < ub[t].i;
        }
    }
    for (unsigned k = 0; k < carried; k++) slot_copy(m, inst->results[k], body->args[k + 1], active);
}

/* Iterations are independent: with args->reverse the last comes first. */
static void run_parallel(Machine *m, Inst *inst, const uint8_t *active) {
    Code *body = inst->regions[0];
    size_t first = 0;
    while (first < m->threads && !active[first]) first++;
    if (first == m->threads) return;
    int64_t lb = inst->operands[0]->cells[first].i, ub = inst->operands[1]->cells[first].i;
    int64_t step = inst->operands[2]->cells[first].i;
    if (step <= 0) machine_trap(m, "a loop's step is not positive");
    int64_t count = ub > lb ? (ub - lb - 1) / step + 1 : 0;
    for (int64_t k = 0; k < count; k++) {
        int64_t at = lb + (m->args->reverse ? count - 1 - k : k) * step;
        for (size_t t = 0; t < m->threads; t++) body->args[0]->cells[t].i = at;
        run_code(m, body, active);
    }
}

static void run_if(Machine *m, Inst *inst, const uint8_t *active) {
    const Cell *cond = inst->operands[0]->cells;
    for (unsigned side = 0; side < 2; side++) {
        uint8_t *inside = inst->masks[side];
        for (size_t t = 0; t < m->threads; t++) inside[t] = active[t] && (cond[t].i != 0) == (side == 0);
        Code *body = inst->regions[side];
        if (!body || !body->count || !any(inside, m->threads)) continue;
        run_code(m, body, inside);
        for (unsigned k = 0; k < inst->op->result_count; k++) slot_copy(m, inst->results[k], last_inst(body)->operands[k], inside);
    }
}

/* For every index tuple: the yielded scalars or vectors go to their place in the result frags. */
static void run_map(Machine *m, Inst *inst, const uint8_t *active) {
    const IrAttr *extents = ir_attr(inst->op, "extents");
    Code *body = inst->regions[0];
    int64_t total = 1, index[SLOT_RANK] = {0};
    for (size_t d = 0; d < extents->count; d++) total *= extents->ints[d];
    for (int64_t at = 0; at < total; at++) {
        for (size_t d = 0; d < extents->count; d++)
            for (size_t t = 0; t < m->threads; t++) body->args[d]->cells[t].i = index[d];
        run_code(m, body, active);
        for (unsigned k = 0; k < inst->op->result_count; k++) {
            const Slot *from = last_inst(body)->operands[k];
            Slot *to = inst->results[k];
            for (size_t t = 0; t < m->threads; t++)
                if (active[t]) memcpy(&to->cells[t * to->n + (size_t)at * from->n], &from->cells[t * from->n], from->n * sizeof(Cell));
        }
        for (size_t d = extents->count; d-- > 0;) {
            if (++index[d] < extents->ints[d]) break;
            index[d] = 0;
        }
    }
}

static void run_frag_get(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *frag = inst->operands[0];
    Slot *r = inst->results[0];
    for (size_t t = 0; t < m->threads; t++) {
        if (!active[t]) continue;
        int64_t flat = 0;
        for (unsigned d = 0; d < frag->rank; d++) {
            int64_t at = inst->operands[d + 1]->cells[t].i;
            int64_t last = d + 1 == frag->rank ? (int64_t)r->n - 1 : 0;
            if (at < 0 || at + last >= frag->extents[d]) machine_trap(m, "index %lld is outside the fragment's axis %u", (long long)at, d);
            flat = flat * frag->extents[d] + at;
        }
        memcpy(&r->cells[t * r->n], &frag->cells[t * frag->n + (size_t)flat], r->n * sizeof(Cell));
    }
}

static int64_t special_value(const Machine *m, IrSpecial special, size_t thread) {
    size_t rank = thread / m->block_threads;
    switch (special) {
    case IR_SPECIAL_TID_X:
        return (int64_t)(thread % m->block_threads);
    case IR_SPECIAL_LANE:
        return (int64_t)(thread % WARP);
    case IR_SPECIAL_WARP:
        return (int64_t)(thread % m->block_threads / WARP);
    case IR_SPECIAL_CLUSTER_RANK:
        return (int64_t)rank;
    case IR_SPECIAL_CLUSTERID_X:
        return m->block[0] / (int64_t)m->blocks;
    case IR_SPECIAL_CTAID_X:
        return m->block[0] + (int64_t)rank;
    default:
        return ir_is_block_count(special) ? m->grid[special - IR_SPECIAL_NCTAID_X] : m->block[special - IR_SPECIAL_CTAID_X];
    }
}

static void run_special(Machine *m, Inst *inst, const uint8_t *active) {
    (void)active;
    for (size_t t = 0; t < m->threads; t++) {
        int64_t value = special_value(m, ir_op_special(inst->op), t);
        inst->results[0]->cells[t].i = inst->integers[0] ? m->grid[0] - 1 - value : value;
    }
}

static void run_nothing(Machine *m, Inst *inst, const uint8_t *active) {
    (void)m, (void)inst, (void)active;
}

InstRun interpret_control_op(IrOpcode op) {
    switch (op) {
    case IR_FOR:
        return run_for;
    case IR_PARALLEL:
        return run_parallel;
    case IR_IF:
        return run_if;
    case IR_MAP:
        return run_map;
    case IR_FRAG_GET:
        return run_frag_get;
    case IR_SPECIAL:
        return run_special;
    case IR_YIELD:
    case IR_RETURN:
        return run_nothing;
    default:
        return NULL;
    }
}
