/* Scans and arg-reductions: the lines of a tile along one axis, cut into segments, one a thread.
 *
 * Each thread passes over its segments; threads of one line then combine what they found by shuffles
 * and, where a line spans warps, through scratch in the order of the warps: the same order in every
 * run. On a CPU a line is one segment.
 * source: reduce-then-scan (Blelloch; Merrill and Garland). */
#include "analysis/analysis.h"
#include "lower_internal.h"
#include "lower_scan_internal.h"

#include <string.h>

enum {
    SEGMENT_MOST = 33 /* places of a row that one warp's segments have, one more than lanes */
};
/* Where short segments do not end with their line, neutral places behind it are cheaper than a condition for each lane. */
enum { FILL_ENDS = 1 /* the switch */ };

int64_t lower_blocks_of(const Lower *x, const IrOp *op) {
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

Lines lower_lines_of(Lower *x, IrOp *op, int64_t blocks) {
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

IrValue *lower_thread_bits(Lower *x, int64_t lanes, int64_t warps) {
    Dist pack = {.rank = 1};
    if (lanes) pack.terms[pack.term_count++] = (DistTerm){DIST_LANE, 0, lanes, 0, 1};
    if (warps) pack.terms[pack.term_count++] = (DistTerm){DIST_WARP, 0, warps, 0, 32};
    return x->gpu ? dist_base(x, &pack, 0) : NULL;
}

IrValue *lower_thread(Lower *x) {
    return lower_thread_bits(x, 31, x->num_warps - 1);
}

IrValue *lower_lane(Lower *x) {
    return lower_thread_bits(x, 31, 0);
}

Unit lower_open_rounds(const Lines *l) {
    Lower *x = l->x;
    IrBuilder *b = &x->b;
    IrValue *thread = lower_thread(x), *round = ir_const_index(b, 0), *none = NULL;
    Unit u = {.b = *b};
    if (l->rounds > 1) {
        u.loop = ir_for(b, round, ir_const_index(b, l->rounds), ir_const_index(b, 1), 0, &none, NULL);
        u.b = ir_builder_at_end(u.loop->regions[0]);
        u.b.span = b->span;
        round = u.loop->regions[0]->args[0];
    }
    IrValue *unit = index_mul_const(&u.b, round, l->threads);
    if (thread) unit = ir_binary(&u.b, IR_ADD, unit, thread);
    IrValue *segment = ir_const_index(&u.b, 0);
    u.row = unit;
    if (l->segments > 1) {
        u.row = ir_binary(&u.b, IR_FLOORDIV, unit, ir_const_index(&u.b, l->segments));
        segment = ir_binary(&u.b, IR_MOD, unit, ir_const_index(&u.b, l->segments));
    }
    u.segment = segment;
    u.first = index_mul_const(&u.b, segment, l->length);
    if (l->rounds * l->threads != l->rows * l->segments) u.live = index_less(&u.b, u.row, ir_const_index(&u.b, l->rows));
    IrValue *rest = u.row;
    unsigned last = l->axis ? 0 : 1; /* the outermost axis but the line's */
    for (unsigned a = l->rank; a-- > 0;) {
        if (a == l->axis) continue;
        IrValue *extent = ir_const_index(&u.b, l->extents[a]);
        u.at[a] = a > last ? ir_binary(&u.b, IR_MOD, rest, extent) : rest;
        if (a > last) rest = ir_binary(&u.b, IR_FLOORDIV, rest, extent);
    }
    return u;
}

void lower_close_rounds(Unit *u) {
    if (u->loop) ir_yield(&u->b, 0, NULL);
}

IrValue *lower_unit_lane(const Lines *l, IrBuilder *b, const Unit *u, IrValue *j, IrValue **mask) {
    IrValue *lane = ir_binary(b, IR_ADD, u->first, j);
    *mask = u->live;
    if (l->segments * l->length != l->n && !l->line) *mask = mask_and(b, *mask, index_less(b, lane, ir_const_index(b, l->n)));
    return lane;
}

IrValue *lower_unit_offset(const Lines *l, IrBuilder *b, const Unit *u, IrValue *lane, bool reverse) {
    IrValue *at[DIST_MAX_RANK];
    memcpy(at, u->at, sizeof at);
    at[l->axis] = reverse ? ir_binary(b, IR_SUB, ir_const_index(b, l->n - 1), lane) : lane;
    return exchange_offset(b, &l->lanes, at);
}

IrValue *lower_masked_load(IrBuilder *b, IrValue *memory, IrValue *offset, IrValue *mask, IrValue *other, const IrType *type) {
    IrValue *operands[4] = {memory, offset, mask, other};
    return ir_result(ir_op_create(b, IR_MEM_LOAD, mask ? 4 : 2, operands, 1, &type), 0);
}

void lower_masked_store(IrBuilder *b, IrValue *value, IrValue *memory, IrValue *offset, IrValue *mask) {
    IrValue *operands[4] = {value, memory, offset, mask};
    ir_op_create(b, IR_MEM_STORE, mask ? 4 : 3, operands, 0, NULL);
}

IrBuilder lower_body_of(const IrOp *loop, Span span) {
    IrBuilder b = ir_builder_at_end(loop->regions[0]);
    b.span = span;
    return b;
}

IrValue *lower_has_bit(Lower *x, IrBuilder *b, int64_t bit) {
    IrValue *one = lower_thread_bits(x, bit, 0);
    return ir_binary(b, IR_NE, one, ir_const_index(b, 0));
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
        at[l->axis] = index_add(b, u->segment, ir_const_index(b, done - l->lanes.first));
        if (l->end - done < l->segments) mask = mask_and(b, mask, index_less(b, u->segment, ir_const_index(b, l->end - done)));
        lower_masked_store(b, s->neutral, l->lanes.memory, exchange_offset(b, &l->lanes, at), mask);
    }
}

/* The sums of the segment's lanes from its first one on. */
static IrValue *read_segment(Scan *s, Unit *u) {
    IrBuilder *b = &u->b;
    for (int64_t j = 0; j < s->l.length; j++) {
        IrValue *lane = lower_unit_lane(&s->l, b, u, ir_const_index(b, j), &s->mask[j]);
        s->offset[j] = lower_unit_offset(&s->l, b, u, lane, s->reverse);
        s->sums[j] = lower_masked_load(b, s->l.lanes.memory, s->offset[j], s->mask[j], s->neutral, s->l.lanes.type);
    }
    for (int64_t j = 1; j < s->l.length; j++) s->sums[j] = ir_binary(b, s->combine, s->sums[j - 1], s->sums[j]);
    return s->sums[s->l.length - 1]; /* NOLINT(*ArrayBound): a segment has a lane */
}

static void write_segment(const Scan *s, Unit *u, IrValue *before) {
    for (int64_t j = 0; j < s->l.length; j++) {
        int64_t last = j - s->exclusive;
        IrValue *v = last < 0 ? before : ir_binary(&u->b, s->combine, before, s->sums[last]);
        lower_masked_store(&u->b, v, s->l.lanes.memory, s->offset[j], s->mask[j]);
    }
}

static IrValue *segment_total(Scan *s, Unit *u) {
    IrBuilder *b = &u->b;
    if (in_registers(s)) return read_segment(s, u);
    IrValue *start = s->neutral, *mask;
    IrOp *loop = ir_for(b, ir_const_index(b, 0), ir_const_index(b, s->l.length), ir_const_index(b, 1), 1, &start, NULL);
    IrBuilder in = lower_body_of(loop, b->span);
    IrValue *lane = lower_unit_lane(&s->l, &in, u, loop->regions[0]->args[0], &mask);
    IrValue *v =
        lower_masked_load(&in, s->l.lanes.memory, lower_unit_offset(&s->l, &in, u, lane, s->reverse), mask, s->neutral, s->l.lanes.type);
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
    IrValue *warp = dist_base(x, &warp_dist, 0), *lane = lower_thread_bits(x, 31, 0);
    if (u->loop) build_barrier(b, IR_SCOPE_BLOCK); /* the round before has read them */
    lower_masked_store(b, total, s->totals, warp, ir_binary(b, IR_EQ, lane, ir_const_index(b, 0)));
    build_barrier(b, IR_SCOPE_BLOCK);
    IrValue *mine = ir_binary(b, IR_MOD, warp, ir_const_index(b, span));
    IrValue *base = ir_binary(b, IR_SUB, warp, mine), *before = s->neutral, *sum = NULL;
    for (int64_t i = 0; i < span; i++) {
        IrValue *at = index_add(b, base, ir_const_index(b, i));
        IrValue *v = lower_masked_load(b, s->totals, at, NULL, NULL, s->l.lanes.type);
        sum = sum ? ir_binary(b, s->combine, sum, v) : v;
        if (i + 1 < span) before = ir_select(b, index_less(b, ir_const_index(b, i), mine), sum, before);
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
        IrValue *at = ir_const_index(b, s->reverse ? x->cluster - 1 - k : k);
        IrValue *v = lower_masked_load(b, totals, at, NULL, NULL, s->l.lanes.type);
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
        before = ir_select(b, lower_has_bit(x, b, bit), sum, before);
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
    IrOp *loop = ir_for(b, ir_const_index(b, 0), ir_const_index(b, s->l.length), ir_const_index(b, 1), 1, &before, NULL);
    IrBuilder in = lower_body_of(loop, b->span);
    IrValue *lane = lower_unit_lane(&s->l, &in, u, loop->regions[0]->args[0], &mask);
    IrValue *offset = lower_unit_offset(&s->l, &in, u, lane, s->reverse);
    IrValue *v = lower_masked_load(&in, s->l.lanes.memory, offset, mask, s->neutral, s->l.lanes.type);
    IrValue *sum = ir_binary(&in, s->combine, loop->regions[0]->args[1], v);
    lower_masked_store(&in, s->exclusive ? loop->regions[0]->args[1] : sum, s->l.lanes.memory, offset, mask);
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

void lower_scan(Lower *x, IrOp *op) {
    IrValue *result = &op->results[0];
    if (op->operand_count > 1) {
        lower_recurrence(x, op);
        return;
    }
    int64_t blocks = lower_blocks_of(x, op);
    Scan s = {.l = lower_lines_of(x, op, blocks > 0 ? blocks : 1)};
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
        u = lower_open_rounds(&s.l);
        fill_ends(&s, &u);
        lower_barrier(x);
    } else {
        lower_barrier(x);
        u = lower_open_rounds(&s.l);
    }
    IrValue *before = before_segment(&s, &u);
    scan_segment(&s, &u, before);
    lower_close_rounds(&u);
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
