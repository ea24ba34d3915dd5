/* Arg-reductions, for lower_to_threads: the best value of each line and where it stands. */
#include "analysis/analysis.h"
#include "lower_internal.h"
#include "lower_scan_internal.h"

#include <string.h>

/* ---- Arg-reductions ---- */

typedef struct {
    Lines l;
    bool largest;
    Dtype compute;             /* in which values are compared */
    IrValue *lo, *hi;          /* present lanes; null: all */
    IrValue *found;            /* a line's index, in scratch */
    IrValue *values, *indices; /* a warp's best, in scratch; null: lines lie within warps */
} Arg;

typedef struct {
    IrValue *value, *index; /* index i32, -1: none */
} Best;

static IrValue *integer(Lower *x, IrBuilder *b, int64_t value) {
    return ir_const_int(b, ir_type_scalar(x->module, DTYPE_I32), value);
}

/* Is a strictly better than b? NaN is better than every number. */
static IrValue *better(const Arg *s, IrBuilder *b, IrValue *a, IrValue *c) {
    IrValue *more = s->largest ? ir_binary(b, IR_LT, c, a) : ir_binary(b, IR_LT, a, c);
    if (!dtype_is_float(s->compute)) return more;
    IrValue *nan = ir_binary(b, IR_AND, ir_binary(b, IR_NE, a, a), ir_binary(b, IR_EQ, c, c));
    return ir_binary(b, IR_OR, more, nan);
}

/* The better of two, at a tie the one of lower index. */
static Best choose(const Arg *s, IrBuilder *b, Best x, Best y) {
    Lower *e = s->l.x;
    IrValue *none = ir_binary(b, IR_LT, x.index, integer(e, b, 0));
    IrValue *exists = ir_binary(b, IR_LE, integer(e, b, 0), y.index);
    IrValue *wins = better(s, b, y.value, x.value), *loses = better(s, b, x.value, y.value);
    IrValue *first = ir_binary(b, IR_LT, y.index, x.index);
    IrValue *tie = ir_binary(b, IR_AND, first, ir_unary(b, IR_NOT, loses));
    IrValue *take = ir_binary(b, IR_OR, none, ir_binary(b, IR_OR, wins, tie));
    take = ir_binary(b, IR_AND, exists, take);
    return (Best){ir_select(b, take, y.value, x.value), ir_select(b, take, y.index, x.index)};
}

static IrValue *compared(const Arg *s, IrBuilder *b, IrValue *v) {
    return ir_cast(b, v, ir_type_scalar(s->l.x->module, s->compute));
}

static Best best_of_segment(const Arg *s, Unit *u) {
    Lower *x = s->l.x;
    IrBuilder *b = &u->b;
    const IrType *type = ir_type_scalar(x->module, s->compute), *own = s->l.lanes.type;
    IrValue *zero = dtype_is_float(s->compute) ? ir_const_float(b, type, 0) : ir_const_int(b, type, 0);
    IrValue *start[2] = {zero, integer(x, b, -1)}, *mask;
    IrOp *loop = ir_for(b, ir_const_index(b, 0), ir_const_index(b, s->l.length), ir_const_index(b, 1), 2, start, NULL);
    IrBuilder in = lower_body_of(loop, b->span);
    Best best = {loop->regions[0]->args[1], loop->regions[0]->args[2]};
    IrValue *lane = lower_unit_lane(&s->l, &in, u, loop->regions[0]->args[0], &mask), *at[DIST_MAX_RANK], *v;
    if (s->lo) mask = mask_and(&in, mask, ir_binary(&in, IR_LE, s->lo, lane));
    if (s->hi) mask = mask_and(&in, mask, index_less(&in, lane, s->hi));
    memcpy(at, u->at, sizeof at);
    at[s->l.axis] = lane;
    if (s->l.lanes.memory) {
        IrValue *other = mask && dtype_is_float(own->dtype) ? ir_const_float(&in, own, 0) : mask ? ir_const_int(&in, own, 0) : NULL;
        v = lower_masked_load(&in, s->l.lanes.memory, lower_unit_offset(&s->l, &in, u, lane, false), mask, other, own);
    } else {
        v = exchange_get(&in, &s->l.lanes, at);
    }
    v = compared(s, &in, v);
    IrValue *take = ir_binary(&in, IR_LT, best.index, integer(x, &in, 0));
    take = mask_and(&in, mask, ir_binary(&in, IR_OR, take, better(s, &in, v, best.value)));
    IrValue *number = ir_cast(&in, lane, ir_type_scalar(x->module, DTYPE_I32));
    IrValue *next[2] = {ir_select(&in, take, v, best.value), ir_select(&in, take, number, best.index)};
    ir_yield(&in, 2, next);
    return (Best){ir_result(loop, 0), ir_result(loop, 1)};
}

static Best best_of_warps(const Arg *s, Unit *u, Best best) {
    Lower *x = s->l.x;
    IrBuilder *b = &u->b;
    int64_t span = s->l.segments / 32;
    Dist warp_dist = {.rank = 1, .term_count = 1, .terms = {{DIST_WARP, 0, x->num_warps - 1, 0, 1}}};
    IrValue *warp = dist_base(x, &warp_dist, 0);
    IrValue *first = ir_binary(b, IR_EQ, lower_thread_bits(x, 31, 0), ir_const_index(b, 0));
    build_barrier(b, IR_SCOPE_BLOCK);
    lower_masked_store(b, best.value, s->values, warp, first);
    lower_masked_store(b, best.index, s->indices, warp, first);
    build_barrier(b, IR_SCOPE_BLOCK);
    IrValue *base = ir_binary(b, IR_SUB, warp, ir_binary(b, IR_MOD, warp, ir_const_index(b, span)));
    for (int64_t i = 0; i < span; i++) {
        IrValue *at = index_add(b, base, ir_const_index(b, i));
        Best other = {lower_masked_load(b, s->values, at, NULL, NULL, best.value->type),
                      lower_masked_load(b, s->indices, at, NULL, NULL, best.index->type)};
        best = i ? choose(s, b, best, other) : other;
    }
    return best;
}

static void find_best(const Arg *s) {
    Unit u = lower_open_rounds(&s->l);
    IrBuilder *b = &u.b;
    Best best = best_of_segment(s, &u);
    for (int64_t bit = 1; bit < 32 && bit < s->l.segments; bit *= 2) {
        Best other = {lower_shuffle(s->l.x, b, best.value, bit), lower_shuffle(s->l.x, b, best.index, bit)};
        best = choose(s, b, best, other);
    }
    if (s->values) best = best_of_warps(s, &u, best);
    IrValue *owner = s->l.segments > 1 ? ir_binary(b, IR_EQ, u.first, ir_const_index(b, 0)) : NULL;
    lower_masked_store(b, best.index, s->found, u.row, mask_and(b, owner, u.live));
    lower_close_rounds(&u);
}

static void set_present(Arg *s) {
    Lower *x = s->l.x;
    PresenceAxis p = presence_in(x->presence, s->l.op->operands[0]).axes[s->l.axis];
    int64_t c;
    if (!p.hi) return;
    if (!aff_is_const(p.lo, &c) || c > 0) s->lo = lower_aff(x, &x->b, p.lo);
    if (!aff_is_const(p.hi, &c) || c < s->l.n) s->hi = lower_aff(x, &x->b, p.hi);
}

/* The number of the line that a lane of the result stands for. */
static IrValue *line_number(const Arg *s, ResultMap *r) {
    bool keep = r->dist.rank == s->l.rank;
    IrValue *row = ir_const_index(&r->inner, 0);
    int64_t pitch = 1;
    for (unsigned a = s->l.rank; a-- > 0;) {
        unsigned at = keep || a < s->l.axis ? a : a - 1;
        if (a == s->l.axis) continue;
        row = index_add(&r->inner, row, index_mul_const(&r->inner, r->at[at], pitch));
        pitch *= s->l.extents[a];
    }
    return row;
}

void lower_arg(Lower *x, IrOp *op) {
    IrValue *result = &op->results[0];
    Dtype own = op->operands[0]->type->dtype;
    bool narrow = dtype_size(own) < 4;
    Arg s = {.l = lower_lines_of(x, op, 1), .largest = ir_op_kind(op) == IR_KIND_MAX};
    s.compute = !narrow ? own : dtype_is_float(own) ? DTYPE_F32 : DTYPE_I32;
    if (!s.l.n || !s.l.rows) {
        lower_bind_scalar(x, result, ir_const_int(&x->b, ir_type_scalar(x->module, DTYPE_I64), -1));
        return;
    }
    scratch_begin(x);
    s.l.lanes = exchange_put(x, op->operands[0], NULL, x->gpu);
    s.found = scratch_array(x, DTYPE_I32, s.l.rows, "found");
    if (s.l.segments > 32) {
        s.values = scratch_array(x, s.compute, x->num_warps, "values");
        s.indices = scratch_array(x, DTYPE_I32, x->num_warps, "indices");
    }
    set_present(&s);
    lower_barrier(x);
    find_best(&s);
    lower_barrier(x);
    ResultMap r;
    result_map_open(x, result, &r);
    IrBuilder *b = &r.inner;
    for (unsigned a = 0; a < r.dist.rank; a++)
        if (r.dist.padded[a] != r.dist.extents[a]) {
            IrValue *ok = index_less(b, r.at[a], ir_const_index(b, r.dist.extents[a]));
            r.at[a] = ir_select(b, ok, r.at[a], ir_const_index(b, 0));
        }
    IrValue *loaded[2] = {s.found, line_number(&s, &r)};
    const IrType *type = ir_type_scalar(x->module, DTYPE_I32);
    IrValue *index = ir_result(ir_op_create(b, IR_MEM_LOAD, 2, loaded, 1, &type), 0);
    result_map_close(x, result, &r, ir_cast(b, index, ir_type_scalar(x->module, DTYPE_I64)));
}
