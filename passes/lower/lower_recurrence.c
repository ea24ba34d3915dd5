/* Linear recurrences along an axis, for lower_to_threads: a scan of pairs. */
#include "analysis/analysis.h"
#include "lower_internal.h"
#include "lower_scan_internal.h"

#include <string.h>

/* ---- Linear recurrences: h = a * h + b, a scan of the pairs (a, b) ---- */

typedef struct {
    IrValue *a, *b; /* of some lanes one behind the other: what they make of h is a * h + b */
} Pair;

typedef struct {
    Lines b, a; /* the same lines, of the two operands */
    IrValue *zero, *one;
    Exchange start; /* what lines begin from */
    bool reverse, exclusive, starts;
    IrValue *totals_a, *totals_b; /* a warp's, in scratch; null: lines lie within warps */
} Recurrence;

/* a * h + b; h null: 0. */
static IrValue *step_of(IrBuilder *b, Pair p, IrValue *h) {
    return h ? ir_binary(b, IR_ADD, ir_binary(b, IR_MUL, p.a, h), p.b) : p.b;
}

static Pair pair_then(IrBuilder *b, Pair first, Pair then) {
    return (Pair){ir_binary(b, IR_MUL, first.a, then.a), step_of(b, then, first.b)};
}

static Pair pair_select(IrBuilder *b, IrValue *mask, Pair x, Pair y) {
    return (Pair){ir_select(b, mask, x.a, y.a), ir_select(b, mask, x.b, y.b)};
}

/* Lane `j` of the unit's segment; its place is left in *offset, of the lanes of b. */
static Pair read_pair(const Recurrence *s, IrBuilder *b, const Unit *u, IrValue *j, IrValue **offset, IrValue **mask) {
    IrValue *lane = lower_unit_lane(&s->b, b, u, j, mask);
    *offset = lower_unit_offset(&s->b, b, u, lane, s->reverse);
    IrValue *value = lower_masked_load(b, s->b.lanes.memory, *offset, *mask, s->zero, s->b.lanes.type);
    IrValue *at = lower_unit_offset(&s->a, b, u, lane, s->reverse);
    return (Pair){lower_masked_load(b, s->a.lanes.memory, at, *mask, s->one, s->a.lanes.type), value};
}

static Pair pair_of_segment(const Recurrence *s, Unit *u) {
    IrBuilder *b = &u->b;
    IrValue *start[2] = {s->one, s->zero}, *offset, *mask;
    IrOp *loop = ir_for(b, ir_const_index(b, 0), ir_const_index(b, s->b.length), ir_const_index(b, 1), 2, start, NULL);
    IrBuilder in = lower_body_of(loop, b->span);
    Pair sofar = {loop->regions[0]->args[1], loop->regions[0]->args[2]};
    sofar = pair_then(&in, sofar, read_pair(s, &in, u, loop->regions[0]->args[0], &offset, &mask));
    IrValue *next[2] = {sofar.a, sofar.b};
    ir_yield(&in, 2, next);
    return (Pair){ir_result(loop, 0), ir_result(loop, 1)};
}

/* Of a line that spans warps: h behind the warps before this one. */
static IrValue *behind_warps(const Recurrence *s, Unit *u, Pair total, IrValue *h) {
    Lower *x = s->b.x;
    IrBuilder *b = &u->b;
    int64_t span = s->b.segments / 32;
    Dist warp_dist = {.rank = 1, .term_count = 1, .terms = {{DIST_WARP, 0, x->num_warps - 1, 0, 1}}};
    IrValue *warp = dist_base(x, &warp_dist, 0), *first = ir_binary(b, IR_EQ, lower_thread_bits(x, 31, 0), ir_const_index(b, 0));
    if (u->loop) build_barrier(b, IR_SCOPE_BLOCK); /* the round before has read them */
    lower_masked_store(b, total.a, s->totals_a, warp, first);
    lower_masked_store(b, total.b, s->totals_b, warp, first);
    build_barrier(b, IR_SCOPE_BLOCK);
    IrValue *mine = ir_binary(b, IR_MOD, warp, ir_const_index(b, span)), *base = ir_binary(b, IR_SUB, warp, mine);
    for (int64_t i = 0; i + 1 < span; i++) {
        IrValue *at = index_add(b, base, ir_const_index(b, i));
        Pair p = {lower_masked_load(b, s->totals_a, at, NULL, NULL, s->a.lanes.type),
                  lower_masked_load(b, s->totals_b, at, NULL, NULL, s->b.lanes.type)};
        h = ir_select(b, index_less(b, ir_const_index(b, i), mine), step_of(b, p, h), h ? h : s->zero);
    }
    return h;
}

/* h before the unit's first lane. */
static IrValue *h_before(const Recurrence *s, Unit *u) {
    Lower *x = s->b.x;
    IrBuilder *b = &u->b;
    IrValue *h = NULL, *at[DIST_MAX_RANK];
    memcpy(at, u->at, sizeof at);
    at[s->b.axis] = ir_const_index(b, 0);
    for (unsigned a = 0; a < s->b.rank && u->live; a++) /* a unit without a line reads that of line 0 */
        if (a != s->b.axis) at[a] = ir_select(b, u->live, at[a], ir_const_index(b, 0));
    if (s->starts) h = exchange_get(b, &s->start, at);
    if (s->b.segments == 1) return h ? h : s->zero;
    Pair total = pair_of_segment(s, u), before = {s->one, s->zero};
    for (int64_t bit = 1; bit < 32 && bit < s->b.segments; bit *= 2) {
        Pair other = {lower_shuffle(x, b, total.a, bit), lower_shuffle(x, b, total.b, bit)};
        IrValue *later = lower_has_bit(x, b, bit);
        before = pair_select(b, later, pair_then(b, other, before), before);
        total = pair_then(b, pair_select(b, later, other, total), pair_select(b, later, total, other));
    }
    if (s->totals_a) h = behind_warps(s, u, total, h);
    return step_of(b, before, h);
}

static void recur_segment(const Recurrence *s, Unit *u, IrValue *before) {
    IrBuilder *b = &u->b;
    IrValue *offset, *mask;
    IrOp *loop = ir_for(b, ir_const_index(b, 0), ir_const_index(b, s->b.length), ir_const_index(b, 1), 1, &before, NULL);
    IrBuilder in = lower_body_of(loop, b->span);
    Pair p = read_pair(s, &in, u, loop->regions[0]->args[0], &offset, &mask);
    IrValue *h = step_of(&in, p, loop->regions[0]->args[1]);
    lower_masked_store(&in, s->exclusive ? loop->regions[0]->args[1] : h, s->b.lanes.memory, offset, mask);
    ir_yield(&in, 1, &h);
}

void lower_recurrence(Lower *x, IrOp *op) {
    IrValue *result = &op->results[0];
    const IrType *type = ir_type_scalar(x->module, result->type->dtype);
    Recurrence s = {.b = lower_lines_of(x, op, 1), .reverse = ir_attr_bool(op, "reverse"), .starts = op->operand_count > 2};
    s.exclusive = ir_attr_bool(op, "exclusive");
    s.zero = ir_const_float(&x->b, type, 0);
    s.one = ir_const_float(&x->b, type, 1);
    bool split = lower_blocks_of(x, op) != 1;
    if (split) lower_error(x, op, "a linear scan over lanes of several blocks");
    if (split || !s.b.n || !s.b.rows) {
        lower_bind_scalar(x, result, s.zero);
        return;
    }
    scratch_begin(x);
    s.a = s.b;
    x->present_as = result; /* a lane where one of the two is absent is skipped */
    s.b.lanes = exchange_put(x, op->operands[0], s.zero, true);
    s.a.lanes = exchange_put(x, op->operands[1], s.one, true);
    x->present_as = NULL;
    if (s.starts) s.start = exchange_put(x, op->operands[2], NULL, x->gpu);
    if (s.b.segments > 32) {
        s.totals_a = scratch_array(x, type->dtype, x->num_warps, "factors");
        s.totals_b = scratch_array(x, type->dtype, x->num_warps, "totals");
    }
    lower_barrier(x);
    Unit u = lower_open_rounds(&s.b);
    recur_segment(&s, &u, h_before(&s, &u));
    lower_close_rounds(&u);
    lower_barrier(x);
    ResultMap r;
    result_map_open(x, result, &r);
    result_map_close(x, result, &r, exchange_get(&r.inner, &s.b.lanes, r.at));
}
