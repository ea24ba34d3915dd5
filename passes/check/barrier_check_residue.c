/* Remainders modulo four of unknown index expressions. window_misaligned.c places a line in shared memory at the same distance from a multiple of
 * 16 bytes as in the tensor, so that addresses depend on such remainders. The check walks the kernel once for each remainder that a part
 * of such an expression may have. */

#include "barrier_check.h"

enum {
    BY = 4,         /* remainders: elements of 16 bytes */
    MOST_PARTS = 5, /* of an expression: 4^5 walks */
    MOST_SUMS = 256 /* looked through for one remainder */
};

static int64_t rest_of(int64_t n) {
    return (n % BY + BY) % BY;
}

/* Is it the same number wherever it is asked for? */
static bool is_fixed(const BarrierCheck *r, const Aff *part) {
    for (size_t i = 0; i < r->varying.len; i++)
        if (aff_depends_on(part, r->varying.data[i])) return false;
    return true;
}

static size_t term_count(const Aff *e) {
    return e->kind == AFF_SUM ? e->count : e->kind != AFF_CONST;
}

/* A sum's i-th term is factor * the result; anything else is one term. */
static const Aff *term_of(const Aff *e, size_t i, int64_t *factor) {
    *factor = e->kind == AFF_SUM ? rest_of(e->coefs[i]) : 1;
    return e->kind == AFF_SUM ? e->args[i] : e;
}

static int64_t factor_of(const Aff *e, const Aff *term) {
    int64_t factor;
    for (size_t i = 0; i < term_count(e); i++)
        if (term_of(e, i, &factor) == term) return factor;
    return 0;
}

static int64_t constant_in(const Aff *e) {
    return e->kind == AFF_SUM || e->kind == AFF_CONST ? rest_of(e->value) : 0;
}

const Aff *barrier_check_new_variable(BarrierCheck *r, const char *name) {
    return aff_var(r->affs, arena_alloc(r->module->arena, 1), name);
}

/* What is left of a sum whose parts are taken out becomes a part: as a whole where a term has a factor of 1 or 3, by which others can be
 * rid of it, else its first term. False: nothing is left. */
static bool next_part(BarrierCheck *r, const Aff *e, ResiduePart *part) {
    int64_t factor;
    *part = (ResiduePart){.sum = aff_const(r->affs, 0)};
    const Aff *first = NULL;
    for (size_t i = 0; i < term_count(e); i++) {
        const Aff *term = term_of(e, i, &factor);
        if (!factor) continue;
        if (!first) first = term;
        if (factor % 2 && !part->pivot) part->pivot = term, part->inverse = factor;
        part->sum = aff_add(r->affs, part->sum, aff_mul(r->affs, term, aff_const(r->affs, factor)));
    }
    if (first && !part->pivot) *part = (ResiduePart){.sum = first, .pivot = first, .inverse = 1};
    return first != NULL;
}

/* Cases go through the remainders of one list of parts: it has to be the same in each, as far as they go alike. */
static bool note_part(BarrierCheck *r, ResiduePart part) {
    size_t i = r->parts.len;
    Str text;
    str_init(&text);
    aff_print(part.sum, &text);
    str_append(&text, " by ");
    aff_print(part.pivot, &text);
    Hash128 hash = hash128(text.data, text.len, (Hash128){0, 0});
    str_release(&text);
    bool same = i >= r->cases->count || (r->cases->parts[i].lo == hash.lo && r->cases->parts[i].hi == hash.hi);
    if (r->cases->count == i) r->cases->remainder[r->cases->count++] = 0;
    r->cases->parts[i] = hash;
    VEC_PUSH(r->arena, &r->parts, part);
    return same;
}

/* *n by four is e's; as in Gauss's elimination, so that there are as many parts as the expressions asked for are independent of each other.
 */
static bool remainder_of(BarrierCheck *r, const Aff *e, int64_t *n) {
    *n = 0;
    for (size_t i = 0; e && e->kind != AFF_OVERFLOW; i++) {
        ResiduePart part;
        if (i == r->parts.len) {
            if (!next_part(r, e, &part)) {
                *n += constant_in(e);
                return true;
            }
            if (i == MOST_PARTS || part.sum->kind == AFF_OVERFLOW || !is_fixed(r, part.sum)) return false;
            if (!note_part(r, part)) barrier_check_fail(r, r->func->body->first, NULL, "remainders are asked for in another order");
        }
        part = r->parts.data[i];
        int64_t times = rest_of(factor_of(e, part.pivot) * part.inverse);
        if (!times) continue;
        *n += times * r->cases->remainder[i];
        e = aff_sub(r->affs, e, aff_mul(r->affs, part.sum, aff_const(r->affs, times)));
    }
    return !e;
}

static int64_t combined(IrOpcode op, int64_t a, int64_t b) {
    return rest_of(op == IR_ADD ? a + b : op == IR_SUB ? a - b : a * b);
}

/* By thread, through sums and products that are no expression of the block and a number. */
static bool remainders(BarrierCheck *r, const IrValue *v, int64_t *numbers, unsigned *left) {
    const Value *known = barrier_check_value(r, v);
    int64_t rest;
    if (known->kind == VALUE_LINEAR) {
        if (!remainder_of(r, known->rest, &rest)) return false;
        for (int64_t t = 0; t < r->threads; t++) numbers[t] = rest_of(rest_of(number_of(known, t)) + rest_of(rest));
        return true;
    }
    const IrOp *op = v->def;
    if (!op || !v->type->is_index || (op->opcode != IR_ADD && op->opcode != IR_SUB && op->opcode != IR_MUL) || !*left) return false;
    --*left;
    int64_t *others = ARENA_ARRAY(r->arena, int64_t, (size_t)r->threads);
    if (!remainders(r, op->operands[0], numbers, left) || !remainders(r, op->operands[1], others, left)) return false;
    for (int64_t t = 0; t < r->threads; t++) numbers[t] = combined(op->opcode, numbers[t], others[t]);
    return true;
}

bool barrier_check_remainders(BarrierCheck *r, const IrOp *op, int64_t *numbers) {
    bool mask = op->opcode == IR_AND;
    if ((!mask && op->opcode != IR_MOD) || !op->results[0].type->is_index || !barrier_check_needed(r, &op->results[0])) return false;
    const Value *by = barrier_check_value(r, op->operands[1]), *of = barrier_check_value(r, op->operands[0]);
    if (by->kind != VALUE_LINEAR || !by->flat || by->rest || by->number[0] != (mask ? BY - 1 : BY)) return false;
    if (of->kind == VALUE_LINEAR && !of->rest) return false;
    unsigned left = MOST_SUMS;
    return remainders(r, op->operands[0], numbers, &left);
}

bool barrier_check_of_thread(const IrValue *v) {
    const IrOp *op = v->def;
    if (!op) return v->block->parent && v->block->parent->opcode == IR_MAP;
    if (op->opcode == IR_CONST) return true;
    if (op->opcode == IR_SPECIAL) return !ir_is_block_number(ir_op_special(op));
    if (!ir_has_trait(op, IR_ELEMENTWISE)) return false;
    for (unsigned i = 0; i < op->operand_count; i++)
        if (!barrier_check_of_thread(op->operands[i])) return false;
    return true;
}

bool barrier_check_next_case(ResidueCases *c) {
    while (c->count && c->remainder[c->count - 1] == BY - 1) c->count--;
    if (c->count) c->remainder[c->count - 1]++;
    return c->count > 0;
}
