/* The cut of a loop's body into two halves, for pingpong: what reads a product of the first and what makes one. */
#include "gpu.h"
#include "pingpong_internal.h"
#include "stage_internal.h"

/* ---- What an op reads ---- */

typedef bool (*Reads)(void *context, IrValue *v);

/* Does `reads` hold for a value from outside of the op that it or an op within reads? */
static bool any_read(const IrOp *op, const IrOp *within, Reads reads, void *context) {
    for (unsigned i = 0; i < op->operand_count; i++)
        if (!is_inside_op(home_of(op->operands[i]), within) && reads(context, op->operands[i])) return true;
    for (unsigned r = 0; r < op->region_count; r++)
        for (const IrOp *inner = op->regions[r]->first; inner; inner = inner->next)
            if (any_read(inner, within, reads, context)) return true;
    return false;
}

static bool op_reads(const IrOp *op, Reads reads, void *context) {
    return any_read(op, op, reads, context);
}

static const void *key_of(const IrValue *v) {
    return v->def ? (const void *)v->def : v;
}

static bool is_of_body(const Cut *c, const IrValue *v) {
    return home_of(v) == c->body;
}

static bool is_second(void *context, IrValue *v) {
    const Cut *c = context;
    return is_of_body(c, v) && pingpong_half_of(c, key_of(v)) == SECOND;
}

/* Neither the loop's variable alone nor from outside. */
static bool is_bound(void *context, IrValue *v) {
    const Cut *c = context;
    if (!is_of_body(c, v)) return false;
    return v->def ? pingpong_half_of(c, v->def) != FREE : v->index != 0;
}

/* Whether the value rests on a product of the body. */
static bool is_made(void *context, IrValue *v) {
    const Cut *c = context;
    uint32_t made;
    return v->def && is_of_body(c, v) && pointer_table_get(&c->made, v->def, &made);
}

/* ---- The cut ---- */

static bool only_computes(const IrOp *op) {
    if (op->region_count && op->opcode != IR_IF && op->opcode != IR_FOR) return false;
    if (!op->region_count && !pingpong_is_product(op) && op->opcode != IR_TILE_LOAD && !ir_has_trait(op, IR_PURE)) return false;
    for (unsigned r = 0; r < op->region_count; r++)
        for (const IrOp *inner = op->regions[r]->first; inner; inner = inner->next)
            if (pingpong_is_product(inner) || (!is_terminator(inner) && !only_computes(inner))) return false;
    return true;
}

/* A product that waits for another one's sums; one that goes on from these does not. */
static bool waits(Cut *c, const IrOp *product) {
    for (unsigned i = 0; i < product->operand_count; i++) {
        IrValue *v = product->operands[i];
        bool goes_on = v == pingpong_summand(product) && v->def && v->def->block == c->body && pingpong_is_product(v->def);
        if (goes_on ? is_second(c, v) : is_made(c, v)) return true;
    }
    return false;
}

/* What depends on the second half is of it, through carried values too. False: a first product does. */
static bool spread(Cut *c) {
    const IrOp *yield = c->body->last;
    for (bool changed = true; changed;) {
        changed = false;
        for (const IrOp *op = c->body->first; op != yield; op = op->next) {
            if (pingpong_half_of(c, op) == SECOND || !op_reads(op, is_second, c)) continue;
            if (pingpong_is_product(op)) return false;
            pointer_table_set(&c->half, op, SECOND);
            changed = true;
        }
        for (unsigned i = 0; i < yield->operand_count; i++) {
            const IrValue *arg = c->body->args[1 + i];
            if (!is_second(c, yield->operands[i]) || pingpong_half_of(c, arg) == SECOND) continue;
            pointer_table_set(&c->half, arg, SECOND);
            changed = true;
        }
    }
    return true;
}

/* The op of the body that the use is in. */
static const IrOp *user_in(const IrBlock *body, const IrUse *use) {
    const IrOp *op = use->op;
    while (op->block != body) op = op->block->parent;
    return op;
}

static bool is_read_by_second_alone(const Cut *c, const IrOp *op) {
    for (const IrUse *use = op->results[0].uses; use; use = use->next) {
        const IrOp *user = user_in(c->body, use);
        if (user == c->body->last || pingpong_half_of(c, user) != SECOND) return false;
    }
    return op->results[0].uses;
}

/* Broadcasts and conversions are made where they are read, and loaded there, but for conversions to fewer bytes, which take fewer
 * registers: two 16-bit lanes are carried as a word. */
static bool is_sunk(const IrOp *op) {
    bool narrows = op->opcode == IR_CAST && dtype_size(op->results[0].type->dtype) < dtype_size(op->operands[0]->type->dtype);
    return (op->opcode == IR_CAST && !narrows) || op->opcode == IR_TILE_BROADCAST || op->opcode == IR_TILE_LOAD;
}

static void sink(Cut *c) {
    for (IrOp *op = c->body->last->prev; op; op = op->prev) {
        if (is_sunk(op) && pingpong_half_of(c, op) == FIRST && is_read_by_second_alone(c, op)) pointer_table_set(&c->half, op, SECOND);
    }
}

bool pingpong_is_crossing(const Cut *c, const IrValue *v) {
    for (size_t i = 0; i < c->crossing.len; i++)
        if (c->crossing.data[i] == v) return true;
    return false;
}

static bool note_crossing(void *context, IrValue *v) {
    Cut *c = context;
    if (!is_bound(c, v) || is_second(c, v) || pingpong_is_crossing(c, v)) return false;
    VEC_PUSH(c->half.arena, &c->crossing, v);
    return false;
}

bool pingpong_cut_body(Arena *scratch, IrBlock *body, Cut *c) {
    *c = (Cut){.body = body, .half = pointer_table(scratch), .made = pointer_table(scratch)};
    unsigned first = 0, second = 0;
    for (IrOp *op = body->first; op != body->last; op = op->next) {
        if (!only_computes(op)) return false;
        bool free = (is_scalar_arithmetic(op) || op->opcode == IR_CONST) && !op->region_count && !op_reads(op, is_bound, c);
        if (free) pointer_table_set(&c->half, op, FREE);
        if (pingpong_is_product(op) || op_reads(op, is_made, c)) pointer_table_set(&c->made, op, 1);
        if (!pingpong_is_product(op)) continue;
        if (waits(c, op))
            pointer_table_set(&c->half, op, SECOND), second++;
        else
            first++;
    }
    if (!first || !second || !spread(c)) return false;
    sink(c);
    for (const IrOp *op = body->first; op != body->last; op = op->next)
        if (pingpong_half_of(c, op) == SECOND) op_reads(op, note_crossing, c);
    return true;
}
