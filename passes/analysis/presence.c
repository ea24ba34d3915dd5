/* Presence of tile values, from the ops that define them. Analysis; changes nothing.
 *
 * tile.load gives intervals, elementwise ops intersect, reduce drops axes, gemm takes M from a and
 * N from b; a carried tile has the intersection of its intervals on entry and on the back edge. */

#include "analysis.h"
#include "analyzer.h"
#include "plant.h"

typedef struct Entry {
    const IrValue *value;
    Presence presence;
} Entry;

struct PresenceCache {
    PassContext *ctx;
    AffCtx *affs;
    PointerTable index; /* IrValue* -> entry */
    struct {
        Entry *data;
        size_t len, cap;
    } entries;
    const PresenceCache *outer; /* answers that hold here too */
    bool keep_ends;             /* the interval of a load even where it fills the axis */
};

PresenceCache *presence_cache(PassContext *ctx) {
    PresenceCache *c = ARENA_NEW(ctx->scratch, PresenceCache);
    c->ctx = ctx;
    c->affs = ctx->module->affs;
    c->index = pointer_table(ctx->scratch);
    return c;
}

PresenceCache *presence_cache_with_ends(PassContext *ctx) {
    PresenceCache *c = presence_cache(ctx);
    c->keep_ends = true;
    return c;
}

static bool lookup(const PresenceCache *c, const IrValue *v, Presence *out) {
    uint32_t at;
    for (; c; c = c->outer)
        if (pointer_table_get(&c->index, v, &at)) {
            *out = c->entries.data[at].presence;
            return true;
        }
    return false;
}

static void remember(PresenceCache *c, const IrValue *v, Presence p) {
    pointer_table_set(&c->index, v, (uint32_t)c->entries.len);
    VEC_PUSH(c->ctx->scratch, &c->entries, ((Entry){v, p}));
}

static Presence whole(unsigned rank) {
    return (Presence){.rank = rank};
}

PresenceAxis presence_meet(AffCtx *affs, PresenceAxis a, PresenceAxis b) {
    if (!a.hi) return b;
    if (!b.hi) return a;
    return (PresenceAxis){aff_max(affs, a.lo, b.lo), aff_min(affs, a.hi, b.hi)};
}

static Presence intersect(AffCtx *affs, Presence a, Presence b) {
    for (unsigned i = 0; i < a.rank; i++) a.axes[i] = presence_meet(affs, a.axes[i], b.axes[i]);
    return a;
}

/* ---- Loads ---- */

static PresenceAxis load_axis(const PresenceCache *c, IrOp *op, const AffFacts *facts, unsigned axis) {
    AffCtx *affs = c->affs;
    unsigned operand, tensor_axis;
    if (!slice_operand(op, axis, &operand, &tensor_axis)) return (PresenceAxis){0};
    const Aff *begin = ir_aff_of(c->ctx->module, op->operands[operand]);
    const Aff *end = ir_aff_of(c->ctx->module, op->operands[operand + 1]);
    const Aff *limit = op->operands[0]->type->extents[tensor_axis];
    const Aff *extent = op->results[0].type->extents[axis];
    const Aff *step = aff_const(affs, slice_step(op, axis));
    if (aff_prove_le(facts, limit, end))
        end = limit;
    else if (!aff_prove_le(facts, end, limit))
        end = aff_min(affs, end, limit);
    const Aff *zero = aff_const(affs, 0);
    const Aff *lo = zero;
    if (!aff_prove_nonneg(facts, begin)) lo = aff_max(affs, zero, aff_ceildiv(affs, aff_sub(affs, zero, begin), step));
    const Aff *hi = aff_ceildiv(affs, aff_sub(affs, end, begin), step);
    if (PLANTED(9)) hi = aff_add(affs, hi, aff_const(affs, 1));
    if (lo == zero && !c->keep_ends && aff_prove_le(facts, extent, hi)) return (PresenceAxis){0};
    return (PresenceAxis){lo, hi};
}

/* A dropped axis whose index may lie outside of the tensor: then no lane is present. With `lanes` the
 * tile's extent, lanes * max(0, n) is 0 for n <= 0 and no bound for others. */
static void limit_by_point(const PresenceCache *c, const AffFacts *facts, const Aff *room, const IrType *tile, PresenceAxis *axis) {
    AffCtx *affs = c->affs;
    const Aff *zero = aff_const(affs, 0), *lanes = tile->extents[0];
    if (aff_prove_nonneg(facts, aff_sub(affs, room, aff_const(affs, 1)))) return;
    const Aff *limit = aff_mul(affs, lanes, aff_max(affs, zero, room));
    if (!axis->hi) *axis = (PresenceAxis){zero, lanes};
    axis->hi = aff_min(affs, axis->hi, limit);
}

static void limit_by_points(const PresenceCache *c, IrOp *op, const AffFacts *facts, Presence *p) {
    IrSlice s = ir_slice(op);
    for (unsigned i = 0; i < s.rank; i++) {
        if (s.axes[i].letter != IR_LETTER_POINT) continue;
        const Aff *at = ir_aff_of(c->ctx->module, op->operands[s.axes[i].operand]);
        const Aff *extent = op->operands[0]->type->extents[i], *one = aff_const(c->affs, 1);
        limit_by_point(c, facts, aff_add(c->affs, at, one), op->results[0].type, &p->axes[0]);
        limit_by_point(c, facts, aff_sub(c->affs, extent, at), op->results[0].type, &p->axes[0]);
    }
}

/* A lane whose index is absent is absent. */
static void limit_by_indices(PresenceCache *c, const IrOp *op, Presence *p) {
    IrSlice s = ir_slice(op);
    for (unsigned i = 0; i < s.rank && s.gather_axis >= 0; i++) {
        if (s.axes[i].letter != IR_LETTER_GATHER) continue;
        Presence index = presence_in(c, op->operands[s.axes[i].operand]);
        for (unsigned a = 0; a < s.gather_rank; a++) {
            PresenceAxis *axis = &p->axes[(unsigned)s.gather_axis + a];
            *axis = presence_meet(c->affs, *axis, index.axes[a]);
        }
    }
}

static Presence of_load(PresenceCache *c, IrOp *op) {
    Presence p = whole(op->results[0].type->rank);
    if (!ir_attr(op, "pad")) {
        const AffFacts *facts = ir_facts_at(c->ctx->scratch, op);
        for (unsigned i = 0; i < p.rank; i++) p.axes[i] = load_axis(c, op, facts, i);
        if (p.rank) limit_by_points(c, op, facts, &p);
    }
    limit_by_indices(c, op, &p);
    return p;
}

Presence presence_of_store(PassContext *ctx, IrOp *op) {
    PresenceCache *c = presence_cache(ctx);
    Presence p = presence_in(c, op->operands[0]);
    limit_by_indices(c, op, &p);
    return p;
}

/* ---- Shape ops ---- */

/* A stretched axis of extent 1 is present everywhere or nowhere: hi is 0 or 1 there. */
PresenceAxis presence_stretched(AffCtx *affs, PresenceAxis from, const Aff *extent) {
    if (!from.hi) return from;
    const Aff *zero = aff_const(affs, 0), *one = aff_const(affs, 1);
    const Aff *lanes = aff_sub(affs, aff_min(affs, from.hi, one), aff_min(affs, aff_max(affs, from.lo, zero), one));
    return (PresenceAxis){zero, aff_mul(affs, aff_max(affs, zero, lanes), extent)};
}

/* Leading axes of a factor line up with the product's from the last one; an extent of 1 repeats. */
static void intersect_leading(const PresenceCache *c, Presence *p, const IrType *acc, const Presence *from, const IrType *factor) {
    unsigned shift = acc->rank - factor->rank;
    for (unsigned i = 0; i + 2 < factor->rank; i++) {
        const Aff *extent = acc->extents[i + shift];
        bool same = factor->extents[i] == extent;
        if (!same && c->keep_ends) continue;
        PresenceAxis axis = same ? from->axes[i] : presence_stretched(c->affs, from->axes[i], extent);
        p->axes[i + shift] = presence_meet(c->affs, p->axes[i + shift], axis);
    }
}

static Presence of_factors(PresenceCache *c, IrOp *op) {
    Presence a = presence_in(c, op->operands[0]), b = presence_in(c, op->operands[1]);
    Presence p = whole(op->results[0].type->rank);
    unsigned m = p.rank - 2, n = p.rank - 1;
    unsigned am = a.rank - (ir_attr_bool(op, "trans_a") ? 1 : 2);
    unsigned bn = b.rank - (ir_attr_bool(op, "trans_b") ? 2 : 1);
    p.axes[m] = a.axes[am];
    p.axes[n] = b.axes[bn];
    ANALYZER_ASSUME(op->operand_count == 3 && op->operands[0] && op->operands[1] && op->operands[2]);
    const IrType *acc = op->operands[2]->type;
    intersect_leading(c, &p, acc, &a, op->operands[0]->type);
    intersect_leading(c, &p, acc, &b, op->operands[1]->type);
    return p;
}

static Presence of_gemm(PresenceCache *c, IrOp *op) {
    return intersect(c->affs, presence_in(c, op->operands[2]), of_factors(c, op));
}

Presence presence_of_product(PassContext *ctx, IrOp *gemm) {
    return of_factors(presence_cache(ctx), gemm);
}

/* Operands in buffers: what was absent in them stands with the op. */
static Presence of_buf_gemm(PresenceCache *c, IrOp *op) {
    Presence p = presence_in(c, op->operands[4]);
    const IrAttr *bounds = ir_attr(op, "bounds");
    for (unsigned i = 0; bounds && i < bounds->count; i++) {
        PresenceAxis given = {ir_aff_of(c->ctx->module, op->operands[5 + 2 * i]), ir_aff_of(c->ctx->module, op->operands[6 + 2 * i])};
        PresenceAxis *axis = &p.axes[bounds->ints[i]];
        *axis = presence_meet(c->affs, *axis, given);
    }
    return p;
}

static Presence of_elementwise(PresenceCache *c, IrOp *op) {
    Presence p = whole(op->results[0].type->rank);
    for (unsigned i = 0; i < op->operand_count; i++)
        if (is_tile(op->operands[i])) p = intersect(c->affs, p, presence_in(c, op->operands[i]));
    return p;
}

/* ---- Control flow ---- */

/* What the back edge says when nothing is known of the carried tiles themselves. */
static Presence of_back_edge(const PresenceCache *c, IrOp *loop, unsigned carried) {
    PresenceCache inner = {.ctx = c->ctx, .affs = c->affs, .index = pointer_table(c->ctx->scratch), .outer = c, .keep_ends = c->keep_ends};
    IrBlock *body = loop->regions[0];
    for (unsigned i = 1; i < body->arg_count; i++)
        if (is_tile(body->args[i])) remember(&inner, body->args[i], whole(body->args[i]->type->rank));
    Presence p = presence_in(&inner, body->last->operands[carried]);
    for (unsigned i = 0; i < p.rank; i++) p.axes[i] = presence_in_all_turns(c->ctx, loop, p.axes[i]);
    return p;
}

/* One or the other: what is known of both. An axis ends by itself only if both do. */
static Presence either(const PresenceCache *c, Presence a, Presence b) {
    Presence p = intersect(c->affs, a, b);
    for (unsigned i = 0; i < p.rank && c->keep_ends; i++)
        if (!a.axes[i].hi || !b.axes[i].hi) p.axes[i] = (PresenceAxis){0};
    return p;
}

/* The loop may not run. */
static Presence of_carried(PresenceCache *c, IrOp *loop, unsigned carried) {
    Presence entry = presence_in(c, loop->operands[3 + carried]);
    return either(c, entry, of_back_edge(c, loop, carried));
}

static Presence of_if(PresenceCache *c, IrOp *op, unsigned result) {
    return either(c, presence_in(c, op->regions[0]->last->operands[result]), presence_in(c, op->regions[1]->last->operands[result]));
}

/* What is repeated along an axis ends nothing there: in a longer tile it reaches as far as that. */
static Presence of_moved(PresenceCache *c, IrOp *op) {
    Presence p = presence_along(c, c->ctx, op);
    for (unsigned o = 0; o < op->operand_count && c->keep_ends; o++)
        for (unsigned i = 0; is_tile(op->operands[o]) && i < op->operands[o]->type->rank; i++) {
            IrAxisLink link = ir_axis_link(op, o, i);
            if (link.relation == IR_AXIS_REPEATED && link.axis >= 0) p.axes[link.axis] = (PresenceAxis){0};
        }
    return p;
}

static Presence of_fill(PresenceCache *c, IrOp *op) {
    int64_t axis = ir_attr_int(op, "axis", -1);
    if (axis < 0) return whole(op->results[0].type->rank);
    Presence p = presence_in(c, op->operands[0]);
    p.axes[axis] = (PresenceAxis){0};
    return p;
}

static Presence compute(PresenceCache *c, IrValue *v) {
    IrOp *op = v->def;
    if (!op) {
        IrOp *loop = v->block->parent;
        return loop && loop->opcode == IR_FOR ? of_carried(c, loop, v->index - 1) : whole(v->type->rank);
    }
    switch (op->opcode) {
    case IR_TILE_LOAD:
        return of_load(c, op);
    case IR_TILE_GEMM:
        return of_gemm(c, op);
    case IR_BUF_GEMM:
        return of_buf_gemm(c, op);
    case IR_TILE_CONVERT:
    case IR_TILE_COMBINE:
    case IR_WGMMA_WAIT:
        return presence_in(c, op->operands[0]);
    case IR_TILE_FILL:
        return of_fill(c, op);
    case IR_FOR:
        return of_carried(c, op, v->index);
    case IR_IF:
        return of_if(c, op, v->index);
    default:
        if (ir_has_trait(op, IR_FOLDS | IR_ALONG | IR_MOVES)) return of_moved(c, op);
        return ir_has_trait(op, IR_ELEMENTWISE) ? of_elementwise(c, op) : whole(v->type->rank);
    }
}

/* ---- Answers ---- */

/* Tile `i` that the answer for `v` rests on, but for a back edge; null when there are no more. */
static IrValue *rests_on(IrValue *v, unsigned i) {
    IrOp *op = v->def;
    if (!op || op->opcode == IR_FOR) {
        IrOp *loop = op ? op : v->block->parent;
        unsigned carried = op ? v->index : v->index - 1;
        return loop && loop->opcode == IR_FOR && i == 0 ? loop->operands[3 + carried] : NULL;
    }
    if (op->opcode == IR_IF) return i < 2 ? op->regions[i]->last->operands[v->index] : NULL;
    if (op->region_count) return NULL;
    for (unsigned o = 0; o < op->operand_count; o++)
        if (is_tile(op->operands[o]) && i-- == 0) return op->operands[o];
    return NULL;
}

/* What the answer rests on comes first, by a list and not by recursion: a sketch may have a chain of thousands. */
Presence presence_in(PresenceCache *cache, IrValue *tile) {
    Presence p;
    VEC(IrValue *) open = {0};
    if (lookup(cache, tile, &p)) return p;
    VEC_PUSH(cache->ctx->scratch, &open, tile);
    while (open.len) {
        IrValue *v = open.data[open.len - 1], *from;
        size_t before = open.len;
        for (unsigned i = 0; (from = rests_on(v, i)); i++)
            if (!lookup(cache, from, &p)) VEC_PUSH(cache->ctx->scratch, &open, from);
        if (open.len > before) continue;
        open.len--;
        if (!lookup(cache, v, &p)) remember(cache, v, p = compute(cache, v));
    }
    return p;
}

Presence presence_of(PassContext *ctx, IrValue *tile) {
    return presence_in(presence_cache(ctx), tile);
}
