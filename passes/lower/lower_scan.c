/* Scans and arg-reductions: the lines of a tile along one axis, cut into segments, one a thread.
 *
 * Each thread passes over its segments; threads of one line then combine what they found by shuffles
 * and, where a line spans warps, through scratch in the order of the warps: the same order in every
 * run. On a CPU a line is one segment.
 * source: reduce-then-scan (Blelloch; Merrill and Garland). */
#include "analysis/analysis.h"
#include "lower_internal.h"

#include <string.h>

enum {
    SEGMENT_MOST = 33 /* places of a row that one warp's segments have, one more than lanes */
};
/* Where short segments do not end with their line, neutral places behind it are cheaper than a condition for each lane. */
enum { FILL_ENDS = 1 /* the switch */ };

typedef struct {
    Lower *x;
    IrOp *op;
    unsigned axis, rank;
    int64_t extents[DIST_MAX_RANK];
    int64_t rows, n;          /* lines, and lanes of one */
    int64_t segments, length; /* of a line */
    int64_t threads, rounds;
    int64_t blocks; /* of the cluster, that hold the line's parts one behind the other; lanes above are a block's */
    int64_t line, begin,
        end; /* places of a line in memory, those from `begin` to `end` without a lane; line 0: segments end with the lanes */
    Exchange lanes;
} Lines;

/* What one thread works on in one round. */
typedef struct {
    IrBuilder b;
    IrOp *loop;               /* null: there is one round */
    IrValue *row, *live;      /* live null: always */
    IrValue *segment, *first; /* its number in the line, its first lane */
    IrValue *at[DIST_MAX_RANK];
} Unit;

/* The blocks over which the lines are spread; -1: not so that each holds a part of one that is whole. */
static int64_t blocks_of(const Lower *x, const IrOp *op) {
    Dist d = dist_of(op->operands[0]->type);
    int64_t axis = ir_attr_int(op, "axis", 0);
    for (unsigned i = 0; i < d.term_count; i++) {
        const DistTerm *t = &d.terms[i];
        if (t->source != DIST_BLOCK) continue;
        bool all = t->shift == 0 && t->mask == x->cluster - 1 && t->axis == axis && d.rank == 1;
        return all && t->stride * x->cluster == d.padded[axis] && d.extents[axis] == d.padded[axis] ? x->cluster : -1;
    }
    return 1;
}

static Lines lines_of(Lower *x, IrOp *op, int64_t blocks) {
    const IrType *t = op->operands[0]->type;
    Lines l = {.x = x, .op = op, .rank = t->rank, .rows = 1, .segments = 1, .blocks = blocks};
    l.axis = (unsigned)ir_attr_int(op, "axis", 0);
    for (unsigned a = 0; a < t->rank; a++) {
        l.extents[a] = ir_type_extent(t, a);
        if (a != l.axis) l.rows *= l.extents[a];
    }
    l.n = l.extents[l.axis] /= blocks;
    l.threads = x->gpu ? 32 * x->num_warps : 1;
    while (2 * l.segments <= l.threads && l.rows * l.segments < l.threads && 2 * l.segments <= l.n) l.segments *= 2;
    l.length = (l.n + l.segments - 1) / l.segments;
    if (l.segments > 1) l.length |= 1; /* neighbours read from different banks */
    l.rounds = (l.rows * l.segments + l.threads - 1) / l.threads;
    return l;
}

static IrValue *thread_bits(Lower *x, int64_t lanes, int64_t warps) {
    Dist pack = {.rank = 1};
    if (lanes) pack.terms[pack.term_count++] = (DistTerm){DIST_LANE, 0, lanes, 0, 1};
    if (warps) pack.terms[pack.term_count++] = (DistTerm){DIST_WARP, 0, warps, 0, 32};
    return x->gpu ? dist_base(x, &pack, 0) : NULL;
}

IrValue *lower_thread(Lower *x) {
    return thread_bits(x, 31, x->num_warps - 1);
}

IrValue *lower_lane(Lower *x) {
    return thread_bits(x, 31, 0);
}

static IrValue *constant(IrBuilder *b, int64_t value) {
    return ir_const_index(b, value);
}

/* Opens the loop over rounds, if there are several; the caller fills u->b and closes it with close_rounds. */
static Unit open_rounds(const Lines *l) {
    Lower *x = l->x;
    IrBuilder *b = &x->b;
    IrValue *thread = lower_thread(x), *round = constant(b, 0), *none = NULL;
    Unit u = {.b = *b};
    if (l->rounds > 1) {
        u.loop = ir_for(b, round, constant(b, l->rounds), constant(b, 1), 0, &none, NULL);
        u.b = ir_builder_at_end(u.loop->regions[0]);
        u.b.span = b->span;
        round = u.loop->regions[0]->args[0];
    }
    IrValue *unit = index_mul_const(&u.b, round, l->threads);
    if (thread) unit = ir_binary(&u.b, IR_ADD, unit, thread);
    IrValue *segment = constant(&u.b, 0);
    u.row = unit;
    if (l->segments > 1) {
        u.row = ir_binary(&u.b, IR_FLOORDIV, unit, constant(&u.b, l->segments));
        segment = ir_binary(&u.b, IR_MOD, unit, constant(&u.b, l->segments));
    }
    u.segment = segment;
    u.first = index_mul_const(&u.b, segment, l->length);
    if (l->rounds * l->threads != l->rows * l->segments) u.live = index_less(&u.b, u.row, constant(&u.b, l->rows));
    IrValue *rest = u.row;
    unsigned last = l->axis ? 0 : 1; /* the outermost axis but the line's */
    for (unsigned a = l->rank; a-- > 0;) {
        if (a == l->axis) continue;
        IrValue *extent = constant(&u.b, l->extents[a]);
        u.at[a] = a > last ? ir_binary(&u.b, IR_MOD, rest, extent) : rest;
        if (a > last) rest = ir_binary(&u.b, IR_FLOORDIV, rest, extent);
    }
    return u;
}

static void close_rounds(Unit *u) {
    if (u->loop) ir_yield(&u->b, 0, NULL);
}

/* Lane `j` of the unit's segment; *mask is null where it always exists. */
static IrValue *lane_number(const Lines *l, IrBuilder *b, const Unit *u, IrValue *j, IrValue **mask) {
    IrValue *lane = ir_binary(b, IR_ADD, u->first, j);
    *mask = u->live;
    if (l->segments * l->length != l->n && !l->line) *mask = mask_and(b, *mask, index_less(b, lane, constant(b, l->n)));
    return lane;
}

static IrValue *lane_offset(const Lines *l, IrBuilder *b, const Unit *u, IrValue *lane, bool reverse) {
    IrValue *at[DIST_MAX_RANK];
    memcpy(at, u->at, sizeof at);
    at[l->axis] = reverse ? ir_binary(b, IR_SUB, constant(b, l->n - 1), lane) : lane;
    return exchange_offset(b, &l->lanes, at);
}

static IrValue *masked_load(IrBuilder *b, IrValue *memory, IrValue *offset, IrValue *mask, IrValue *other, const IrType *type) {
    IrValue *operands[4] = {memory, offset, mask, other};
    return ir_result(ir_op_create(b, IR_MEM_LOAD, mask ? 4 : 2, operands, 1, &type), 0);
}

static void masked_store(IrBuilder *b, IrValue *value, IrValue *memory, IrValue *offset, IrValue *mask) {
    IrValue *operands[4] = {value, memory, offset, mask};
    ir_op_create(b, IR_MEM_STORE, mask ? 4 : 3, operands, 0, NULL);
}

static IrBuilder body_of(const IrOp *loop, Span span) {
    IrBuilder b = ir_builder_at_end(loop->regions[0]);
    b.span = span;
    return b;
}

/* Is a bit of the thread's number set? */
static IrValue *has_bit(Lower *x, IrBuilder *b, int64_t bit) {
    IrValue *one = thread_bits(x, bit, 0);
    return ir_binary(b, IR_NE, one, constant(b, 0));
}

/* ---- Scans ---- */

typedef struct {
    Lines l;
    IrOpcode combine;
    IrValue *neutral;
    bool reverse, exclusive;
    IrValue *totals; /* a warp's, in scratch; null: lines lie within warps */
    IrValue *total;  /* of the line, once it is known */
    /* Short segments are read once, into registers: */
    IrValue *offset[SEGMENT_MOST], *mask[SEGMENT_MOST], *sums[SEGMENT_MOST];
} Scan;

static bool in_registers(const Scan *s) {
    return s->l.x->gpu && s->l.segments > 1 && s->l.length <= SEGMENT_MOST;
}

static void find_places(Scan *s) {
    Lines *l = &s->l;
    int64_t all = l->segments * l->length, size = (int64_t)dtype_size(l->op->results[0].type->dtype);
    Dist d = dist_of(l->op->operands[0]->type);
    int64_t padded = d.padded[l->axis] / l->blocks, first = s->reverse ? all - l->n : 0, line = padded + first > all ? padded + first : all;
    if (!FILL_ENDS || !in_registers(s) || all == l->n || l->rounds > 1 || l->axis + 1 != l->rank) return;
    if (l->x->shared_bytes + l->rows * line * size > l->x->ctx->target->shared_bytes_block) return;
    l->line = line;
    l->begin = s->reverse ? 0 : padded, l->end = s->reverse ? first : all;
}

static void fill_ends(const Scan *s, Unit *u) {
    const Lines *l = &s->l;
    IrBuilder *b = &u->b;
    IrValue *at[DIST_MAX_RANK];
    memcpy(at, u->at, sizeof at);
    for (int64_t done = l->begin; done < l->end; done += l->segments) {
        IrValue *mask = u->live;
        at[l->axis] = index_add(b, u->segment, constant(b, done - l->lanes.first));
        if (l->end - done < l->segments) mask = mask_and(b, mask, index_less(b, u->segment, constant(b, l->end - done)));
        masked_store(b, s->neutral, l->lanes.memory, exchange_offset(b, &l->lanes, at), mask);
    }
}

/* The sums of the segment's lanes from its first one on. */
static IrValue *read_segment(Scan *s, Unit *u) {
    IrBuilder *b = &u->b;
    for (int64_t j = 0; j < s->l.length; j++) {
        IrValue *lane = lane_number(&s->l, b, u, constant(b, j), &s->mask[j]);
        s->offset[j] = lane_offset(&s->l, b, u, lane, s->reverse);
        s->sums[j] = masked_load(b, s->l.lanes.memory, s->offset[j], s->mask[j], s->neutral, s->l.lanes.type);
    }
    for (int64_t j = 1; j < s->l.length; j++) s->sums[j] = ir_binary(b, s->combine, s->sums[j - 1], s->sums[j]);
    return s->sums[s->l.length - 1];
}

static void write_segment(const Scan *s, Unit *u, IrValue *before) {
    for (int64_t j = 0; j < s->l.length; j++) {
        int64_t last = j - s->exclusive;
        IrValue *v = last < 0 ? before : ir_binary(&u->b, s->combine, before, s->sums[last]);
        masked_store(&u->b, v, s->l.lanes.memory, s->offset[j], s->mask[j]);
    }
}

static IrValue *segment_total(Scan *s, Unit *u) {
    IrBuilder *b = &u->b;
    if (in_registers(s)) return read_segment(s, u);
    IrValue *start = s->neutral, *mask;
    IrOp *loop = ir_for(b, constant(b, 0), constant(b, s->l.length), constant(b, 1), 1, &start, NULL);
    IrBuilder in = body_of(loop, b->span);
    IrValue *lane = lane_number(&s->l, &in, u, loop->regions[0]->args[0], &mask);
    IrValue *v = masked_load(&in, s->l.lanes.memory, lane_offset(&s->l, &in, u, lane, s->reverse), mask, s->neutral, s->l.lanes.type);
    v = ir_binary(&in, s->combine, loop->regions[0]->args[1], v);
    ir_yield(&in, 1, &v);
    return ir_result(loop, 0);
}

/* Of a line that spans warps: the totals of the warps before this one. */
static IrValue *warps_before(Scan *s, Unit *u, IrValue *total) {
    Lower *x = s->l.x;
    IrBuilder *b = &u->b;
    int64_t span = s->l.segments / 32;
    Dist warp_dist = {.rank = 1, .term_count = 1, .terms = {{DIST_WARP, 0, x->num_warps - 1, 0, 1}}};
    IrValue *warp = dist_base(x, &warp_dist, 0), *lane = thread_bits(x, 31, 0);
    if (u->loop) build_barrier(b, IR_SCOPE_BLOCK); /* the round before has read them */
    masked_store(b, total, s->totals, warp, ir_binary(b, IR_EQ, lane, constant(b, 0)));
    build_barrier(b, IR_SCOPE_BLOCK);
    IrValue *mine = ir_binary(b, IR_MOD, warp, constant(b, span));
    IrValue *base = ir_binary(b, IR_SUB, warp, mine), *before = s->neutral, *sum = NULL;
    for (int64_t i = 0; i < span; i++) {
        IrValue *at = index_add(b, base, constant(b, i));
        IrValue *v = masked_load(b, s->totals, at, NULL, NULL, s->l.lanes.type);
        sum = sum ? ir_binary(b, s->combine, sum, v) : v;
        if (i + 1 < span) before = ir_select(b, index_less(b, constant(b, i), mine), sum, before);
    }
    s->total = sum;
    return before;
}

/* Of a line that spans blocks: the totals of the blocks before this one. */
static IrValue *blocks_before(Scan *s, Unit *u) {
    Lower *x = s->l.x;
    Dist rank = {.rank = 1, .term_count = 1, .terms = {{DIST_BLOCK, 0, x->cluster - 1, 0, 1}}};
    IrValue *totals = lower_found_by_blocks(x, s->total), *own = dist_base(x, &rank, 0), *before = s->neutral, *sum = NULL;
    IrBuilder *b = &u->b;
    for (int64_t k = 0; k < x->cluster; k++) {
        IrValue *at = constant(b, s->reverse ? x->cluster - 1 - k : k);
        IrValue *v = masked_load(b, totals, at, NULL, NULL, s->l.lanes.type);
        sum = sum ? ir_binary(b, s->combine, sum, v) : v;
        if (k + 1 == x->cluster) break;
        IrValue *behind = s->reverse ? index_less(b, own, at) : index_less(b, at, own);
        behind->name = "behind";
        before = ir_select(b, behind, sum, before);
    }
    s->total = sum;
    return before;
}

/* What stands before the unit's segment in its line. */
static IrValue *before_segment(Scan *s, Unit *u) {
    Lower *x = s->l.x;
    IrBuilder *b = &u->b;
    if (s->l.segments == 1) return s->neutral;
    IrValue *total = segment_total(s, u), *before = s->neutral;
    for (int64_t bit = 1; bit < 32 && bit < s->l.segments; bit *= 2) {
        IrValue *other = lower_shuffle(x, b, total, bit);
        IrValue *sum = ir_binary(b, s->combine, other, before);
        before = ir_select(b, has_bit(x, b, bit), sum, before);
        total = ir_binary(b, s->combine, total, other);
    }
    s->total = total;
    if (s->totals) before = ir_binary(b, s->combine, warps_before(s, u, total), before);
    return s->l.blocks > 1 ? ir_binary(b, s->combine, blocks_before(s, u), before) : before;
}

static void scan_segment(const Scan *s, Unit *u, IrValue *before) {
    IrBuilder *b = &u->b;
    IrValue *mask;
    if (in_registers(s)) {
        write_segment(s, u, before);
        return;
    }
    IrOp *loop = ir_for(b, constant(b, 0), constant(b, s->l.length), constant(b, 1), 1, &before, NULL);
    IrBuilder in = body_of(loop, b->span);
    IrValue *lane = lane_number(&s->l, &in, u, loop->regions[0]->args[0], &mask);
    IrValue *offset = lane_offset(&s->l, &in, u, lane, s->reverse);
    IrValue *v = masked_load(&in, s->l.lanes.memory, offset, mask, s->neutral, s->l.lanes.type);
    IrValue *sum = ir_binary(&in, s->combine, loop->regions[0]->args[1], v);
    masked_store(&in, s->exclusive ? loop->regions[0]->args[1] : sum, s->l.lanes.memory, offset, mask);
    ir_yield(&in, 1, &sum);
}

/* Reductions of the tile along the same axis, which loops over chunks carry to the next one: the scan knows the total. Where lanes are
 * fewer than threads, only those that have a segment know it. */
static void bind_totals(const Scan *s, const Unit *u) {
    IrOp *scan = s->l.op;
    if (!s->total || u->loop || u->live || s->l.rows > 1) return;
    for (IrUse *use = scan->operands[0]->uses; use; use = use->next) {
        const IrOp *op = use->op;
        const IrAttr *axes = ir_attr(op, "axes");
        if (op->opcode != IR_TILE_REDUCE || op->block != scan->block || axes->count != 1 || axes->ints[0] != s->l.axis) continue;
        if (ir_op_kind(op) != ir_op_kind(scan) || ir_attr_bool(op, "apart")) continue;
        if (lower_rep(s->l.x, &op->results[0])) continue;
        lower_bind_scalar(s->l.x, &op->results[0], s->total);
    }
}

static void lower_recurrence(Lower *x, IrOp *op);

void lower_scan(Lower *x, IrOp *op) {
    IrValue *result = &op->results[0];
    if (op->operand_count > 1) {
        lower_recurrence(x, op);
        return;
    }
    int64_t blocks = blocks_of(x, op);
    Scan s = {.l = lines_of(x, op, blocks > 0 ? blocks : 1)};
    s.reverse = ir_attr_bool(op, "reverse");
    s.exclusive = ir_attr_bool(op, "exclusive");
    s.neutral = lower_identity(x, &x->b, ir_op_kind(op), result->type->dtype, &s.combine);
    bool split = blocks < 0 || (blocks > 1 && (s.l.segments != s.l.threads || s.l.rows > 1));
    if (split) lower_error(x, op, "a scan over lanes that a cluster's blocks do not hold one behind the other");
    if (split || !s.l.n || !s.l.rows) {
        lower_bind_scalar(x, result, s.neutral);
        return;
    }
    if (x->b.block != x->to->body || x->scratch_pointers.len) scratch_begin(x); /* else nobody has read anything there */
    find_places(&s);
    int64_t line = s.l.line || blocks == 1 ? s.l.line : s.l.n;
    s.l.lanes = line ? exchange_put_lines(x, op->operands[0], s.neutral, line, s.reverse ? s.l.end : 0, blocks > 1)
                     : exchange_put(x, op->operands[0], s.neutral, true);
    if (s.l.segments > 32) s.totals = scratch_array(x, result->type->dtype, x->num_warps, "totals");
    Unit u;
    if (s.l.line) {
        u = open_rounds(&s.l);
        fill_ends(&s, &u);
        lower_barrier(x);
    } else {
        lower_barrier(x);
        u = open_rounds(&s.l);
    }
    IrValue *before = before_segment(&s, &u);
    scan_segment(&s, &u, before);
    close_rounds(&u);
    bind_totals(&s, &u);
    IrOp *loop = x->b.block->parent;
    if (x->gpu && loop && loop->opcode == IR_FOR) ir_attr_set_bool(loop, "scans", true); /* pipeline_scan_loads */
    lower_barrier(x);
    ResultMap r;
    if (blocks > 1)
        result_map_open_in_block(x, result, &r);
    else
        result_map_open(x, result, &r);
    result_map_close(x, result, &r, exchange_get(&r.inner, &s.l.lanes, r.at));
}

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
    IrValue *lane = lane_number(&s->b, b, u, j, mask);
    *offset = lane_offset(&s->b, b, u, lane, s->reverse);
    IrValue *value = masked_load(b, s->b.lanes.memory, *offset, *mask, s->zero, s->b.lanes.type);
    IrValue *at = lane_offset(&s->a, b, u, lane, s->reverse);
    return (Pair){masked_load(b, s->a.lanes.memory, at, *mask, s->one, s->a.lanes.type), value};
}

static Pair pair_of_segment(const Recurrence *s, Unit *u) {
    IrBuilder *b = &u->b;
    IrValue *start[2] = {s->one, s->zero}, *offset, *mask;
    IrOp *loop = ir_for(b, constant(b, 0), constant(b, s->b.length), constant(b, 1), 2, start, NULL);
    IrBuilder in = body_of(loop, b->span);
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
    IrValue *warp = dist_base(x, &warp_dist, 0), *first = ir_binary(b, IR_EQ, thread_bits(x, 31, 0), constant(b, 0));
    if (u->loop) build_barrier(b, IR_SCOPE_BLOCK); /* the round before has read them */
    masked_store(b, total.a, s->totals_a, warp, first);
    masked_store(b, total.b, s->totals_b, warp, first);
    build_barrier(b, IR_SCOPE_BLOCK);
    IrValue *mine = ir_binary(b, IR_MOD, warp, constant(b, span)), *base = ir_binary(b, IR_SUB, warp, mine);
    for (int64_t i = 0; i + 1 < span; i++) {
        IrValue *at = index_add(b, base, constant(b, i));
        Pair p = {masked_load(b, s->totals_a, at, NULL, NULL, s->a.lanes.type),
                  masked_load(b, s->totals_b, at, NULL, NULL, s->b.lanes.type)};
        h = ir_select(b, index_less(b, constant(b, i), mine), step_of(b, p, h), h ? h : s->zero);
    }
    return h;
}

/* h before the unit's first lane. */
static IrValue *h_before(const Recurrence *s, Unit *u) {
    Lower *x = s->b.x;
    IrBuilder *b = &u->b;
    IrValue *h = NULL, *at[DIST_MAX_RANK];
    memcpy(at, u->at, sizeof at);
    at[s->b.axis] = constant(b, 0);
    for (unsigned a = 0; a < s->b.rank && u->live; a++) /* a unit without a line reads that of line 0 */
        if (a != s->b.axis) at[a] = ir_select(b, u->live, at[a], constant(b, 0));
    if (s->starts) h = exchange_get(b, &s->start, at);
    if (s->b.segments == 1) return h ? h : s->zero;
    Pair total = pair_of_segment(s, u), before = {s->one, s->zero};
    for (int64_t bit = 1; bit < 32 && bit < s->b.segments; bit *= 2) {
        Pair other = {lower_shuffle(x, b, total.a, bit), lower_shuffle(x, b, total.b, bit)};
        IrValue *later = has_bit(x, b, bit);
        before = pair_select(b, later, pair_then(b, other, before), before);
        total = pair_then(b, pair_select(b, later, other, total), pair_select(b, later, total, other));
    }
    if (s->totals_a) h = behind_warps(s, u, total, h);
    return step_of(b, before, h);
}

static void recur_segment(const Recurrence *s, Unit *u, IrValue *before) {
    IrBuilder *b = &u->b;
    IrValue *offset, *mask;
    IrOp *loop = ir_for(b, constant(b, 0), constant(b, s->b.length), constant(b, 1), 1, &before, NULL);
    IrBuilder in = body_of(loop, b->span);
    Pair p = read_pair(s, &in, u, loop->regions[0]->args[0], &offset, &mask);
    IrValue *h = step_of(&in, p, loop->regions[0]->args[1]);
    masked_store(&in, s->exclusive ? loop->regions[0]->args[1] : h, s->b.lanes.memory, offset, mask);
    ir_yield(&in, 1, &h);
}

static void lower_recurrence(Lower *x, IrOp *op) {
    IrValue *result = &op->results[0];
    const IrType *type = ir_type_scalar(x->module, result->type->dtype);
    Recurrence s = {.b = lines_of(x, op, 1), .reverse = ir_attr_bool(op, "reverse"), .starts = op->operand_count > 2};
    s.exclusive = ir_attr_bool(op, "exclusive");
    s.zero = ir_const_float(&x->b, type, 0);
    s.one = ir_const_float(&x->b, type, 1);
    bool split = blocks_of(x, op) != 1;
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
    Unit u = open_rounds(&s.b);
    recur_segment(&s, &u, h_before(&s, &u));
    close_rounds(&u);
    lower_barrier(x);
    ResultMap r;
    result_map_open(x, result, &r);
    result_map_close(x, result, &r, exchange_get(&r.inner, &s.b.lanes, r.at));
}

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
    IrOp *loop = ir_for(b, constant(b, 0), constant(b, s->l.length), constant(b, 1), 2, start, NULL);
    IrBuilder in = body_of(loop, b->span);
    Best best = {loop->regions[0]->args[1], loop->regions[0]->args[2]};
    IrValue *lane = lane_number(&s->l, &in, u, loop->regions[0]->args[0], &mask), *at[DIST_MAX_RANK], *v;
    if (s->lo) mask = mask_and(&in, mask, ir_binary(&in, IR_LE, s->lo, lane));
    if (s->hi) mask = mask_and(&in, mask, index_less(&in, lane, s->hi));
    memcpy(at, u->at, sizeof at);
    at[s->l.axis] = lane;
    if (s->l.lanes.memory) {
        IrValue *other = mask && dtype_is_float(own->dtype) ? ir_const_float(&in, own, 0) : mask ? ir_const_int(&in, own, 0) : NULL;
        v = masked_load(&in, s->l.lanes.memory, lane_offset(&s->l, &in, u, lane, false), mask, other, own);
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
    IrValue *first = ir_binary(b, IR_EQ, thread_bits(x, 31, 0), constant(b, 0));
    build_barrier(b, IR_SCOPE_BLOCK);
    masked_store(b, best.value, s->values, warp, first);
    masked_store(b, best.index, s->indices, warp, first);
    build_barrier(b, IR_SCOPE_BLOCK);
    IrValue *base = ir_binary(b, IR_SUB, warp, ir_binary(b, IR_MOD, warp, constant(b, span)));
    for (int64_t i = 0; i < span; i++) {
        IrValue *at = index_add(b, base, constant(b, i));
        Best other = {masked_load(b, s->values, at, NULL, NULL, best.value->type),
                      masked_load(b, s->indices, at, NULL, NULL, best.index->type)};
        best = i ? choose(s, b, best, other) : other;
    }
    return best;
}

static void find_best(const Arg *s) {
    Unit u = open_rounds(&s->l);
    IrBuilder *b = &u.b;
    Best best = best_of_segment(s, &u);
    for (int64_t bit = 1; bit < 32 && bit < s->l.segments; bit *= 2) {
        Best other = {lower_shuffle(s->l.x, b, best.value, bit), lower_shuffle(s->l.x, b, best.index, bit)};
        best = choose(s, b, best, other);
    }
    if (s->values) best = best_of_warps(s, &u, best);
    IrValue *owner = s->l.segments > 1 ? ir_binary(b, IR_EQ, u.first, constant(b, 0)) : NULL;
    masked_store(b, best.index, s->found, u.row, mask_and(b, owner, u.live));
    close_rounds(&u);
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
    IrValue *row = constant(&r->inner, 0);
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
    Arg s = {.l = lines_of(x, op, 1), .largest = ir_op_kind(op) == IR_KIND_MAX};
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
            IrValue *ok = index_less(b, r.at[a], constant(b, r.dist.extents[a]));
            r.at[a] = ir_select(b, ok, r.at[a], constant(b, 0));
        }
    IrValue *loaded[2] = {s.found, line_number(&s, &r)};
    const IrType *type = ir_type_scalar(x->module, DTYPE_I32);
    IrValue *index = ir_result(ir_op_create(b, IR_MEM_LOAD, 2, loaded, 1, &type), 0);
    result_map_close(x, result, &r, ir_cast(b, index, ir_type_scalar(x->module, DTYPE_I64)));
}
