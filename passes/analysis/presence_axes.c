/* Presence of results of ops along axes, by the relations of their axes (ir/axis_link.c); the rulings
 * are docs/language.md, "Presence". */

#include "analysis.h"

typedef struct {
    AffCtx *affs;
    IrOp *op;
    const AffFacts *facts;
} Along;

static const Aff *not_negative(AffCtx *c, const Aff *e) {
    return aff_max(c, aff_const(c, 0), e);
}

/* Lanes along the axis of a scan, a sort or a flip. */
static PresenceAxis along_axis(const Along *a, PresenceAxis from, const Aff *extent) {
    AffCtx *c = a->affs;
    if (!from.hi || a->op->opcode == IR_TILE_SCAN) return from;
    if (a->op->opcode == IR_TILE_SORT) return (PresenceAxis){aff_const(c, 0), not_negative(c, aff_sub(c, from.hi, from.lo))};
    const Aff *lo = not_negative(c, aff_sub(c, extent, from.hi));
    return (PresenceAxis){lo, aff_sub(c, extent, from.lo)};
}

static Presence linked(PresenceCache *cache, const Along *a) {
    IrOp *op = a->op;
    Presence p = {.rank = op->results[0].type->rank};
    for (unsigned o = 0; o < op->operand_count; o++) {
        if (!is_tile(op->operands[o])) continue;
        Presence from = presence_in(cache, op->operands[o]);
        const Aff *const *extents = op->operands[o]->type->extents;
        for (unsigned i = 0; i < from.rank; i++) {
            IrAxisLink link = ir_axis_link(op, o, i);
            if (link.relation == IR_AXIS_FOLDED || link.axis < 0) continue;
            PresenceAxis axis = from.axes[i], *to = &p.axes[link.axis];
            if (link.relation == IR_AXIS_MIXED) axis = along_axis(a, axis, extents[i]);
            if (link.relation == IR_AXIS_REPEATED) axis = presence_stretched(a->affs, axis, op->results[0].type->extents[link.axis]);
            *to = presence_meet(a->affs, *to, axis);
        }
    }
    return p;
}

/* ---- Rules of their own ---- */

/* The operands before the last end whole, those behind the first begin whole: the front end's rule. */
static void concat_axis(PresenceCache *cache, const Along *a, Presence *p) {
    IrOp *op = a->op;
    AffCtx *c = a->affs;
    unsigned axis = (unsigned)ir_attr_int(op, "axis", 0), last = op->operand_count - 1;
    PresenceAxis head = presence_in(cache, op->operands[0]).axes[axis];
    PresenceAxis tail = presence_in(cache, op->operands[last]).axes[axis];
    if (!head.hi && !tail.hi) return;
    const Aff *extent = op->operands[last]->type->extents[axis];
    const Aff *begin = aff_sub(c, op->results[0].type->extents[axis], extent);
    p->axes[axis].lo = head.hi ? head.lo : aff_const(c, 0);
    p->axes[axis].hi = aff_add(c, begin, tail.hi ? tail.hi : extent);
}

static const Aff *lanes_behind(AffCtx *c, const IrType *t, unsigned axis) {
    const Aff *lanes = aff_const(c, 1);
    for (unsigned i = axis + 1; i < t->rank; i++) lanes = aff_mul(c, lanes, t->extents[i]);
    return lanes;
}

/* The first axis that a reshape changes may be partial where a whole number of lanes of the result
 * stands for each of its lanes. False when what is present is no interval. */
static bool reshape_axis(PresenceCache *cache, const Along *a, Presence *p) {
    const IrType *from = a->op->operands[0]->type, *to = a->op->results[0].type;
    Presence in = presence_in(cache, a->op->operands[0]);
    unsigned first = 0;
    int64_t behind, result;
    while (first < from->rank && first < to->rank && from->extents[first] == to->extents[first]) first++;
    for (unsigned i = 0; i < from->rank; i++) {
        if (!in.axes[i].hi || ir_axis_link(a->op, 0, i).relation == IR_AXIS_SAME) continue;
        if (i != first || first >= to->rank || !aff_is_const(lanes_behind(a->affs, from, i), &behind) ||
            !aff_is_const(lanes_behind(a->affs, to, i), &result) || result < 1 || behind % result)
            return false;
        const Aff *times = aff_const(a->affs, behind / result);
        p->axes[i].lo = aff_mul(a->affs, in.axes[i].lo, times);
        p->axes[i].hi = aff_mul(a->affs, in.axes[i].hi, times);
    }
    return true;
}

bool presence_reshape_fits(PassContext *ctx, IrOp *op) {
    PresenceCache *cache = presence_cache(ctx);
    Along a = {ctx->module->affs, op, NULL};
    Presence p = {.rank = op->results[0].type->rank};
    return reshape_axis(cache, &a, &p);
}

/* Lane l of a kept axis is lane begin + l * step of the tile, between begin and end. */
static PresenceAxis extracted(const Along *a, PresenceAxis from, const Aff *extent, const Aff *begin, const Aff *end, int64_t step,
                              const Aff *lanes) {
    AffCtx *c = a->affs;
    const Aff *by = aff_const(c, step), *zero = aff_const(c, 0);
    const Aff *first = from.hi ? from.lo : zero, *limit = from.hi ? from.hi : extent;
    const Aff *lo = zero;
    if (!aff_prove_le(a->facts, first, begin)) lo = not_negative(c, aff_ceildiv(c, aff_sub(c, first, begin), by));
    if (aff_prove_le(a->facts, end, limit))
        limit = end;
    else if (!aff_prove_le(a->facts, limit, end))
        limit = aff_min(c, limit, end);
    const Aff *hi = aff_ceildiv(c, aff_sub(c, limit, begin), by);
    if (lo == zero && aff_prove_le(a->facts, lanes, hi)) return (PresenceAxis){0};
    return (PresenceAxis){lo, hi};
}

/* A dropped axis: nothing is present unless its lane is. */
static void need_lane(const Along *a, PresenceAxis from, const Aff *extent, const Aff *at, Presence *p) {
    AffCtx *c = a->affs;
    const Aff *one = aff_const(c, 1), *lo = from.hi ? from.lo : aff_const(c, 0);
    const Aff *room[2] = {aff_sub(c, aff_add(c, at, one), lo), aff_sub(c, from.hi ? from.hi : extent, at)};
    const Aff *lanes = p->rank ? a->op->results[0].type->extents[0] : NULL;
    for (unsigned i = 0; lanes && i < 2; i++) {
        if (aff_prove_nonneg(a->facts, aff_sub(c, room[i], one))) continue;
        if (!p->axes[0].hi) p->axes[0] = (PresenceAxis){aff_const(c, 0), lanes};
        p->axes[0].hi = aff_min(c, p->axes[0].hi, aff_mul(c, lanes, not_negative(c, room[i])));
    }
}

static Presence of_extract(PresenceCache *cache, const Along *a) {
    IrOp *op = a->op;
    IrModule *m = op->block->func->module;
    Presence from = presence_in(cache, op->operands[0]);
    Presence p = {.rank = op->results[0].type->kind == IR_TYPE_TILE ? op->results[0].type->rank : 0};
    const char *letters = ir_attr_str(op, "axes", "");
    const Aff *const *extents = op->operands[0]->type->extents;
    unsigned operand = 1, kept = 0;
    for (unsigned i = 0; letters[i]; i++) {
        const Aff *at = ir_aff_of(m, op->operands[operand++]);
        if (letters[i] != IR_LETTER_RANGE) continue;
        const Aff *end = ir_aff_of(m, op->operands[operand++]);
        p.axes[kept] = extracted(a, from.axes[i], extents[i], at, end, slice_step(op, kept), op->results[0].type->extents[kept]);
        kept++;
    }
    operand = 1;
    for (unsigned i = 0; letters[i]; operand += letters[i++] == IR_LETTER_RANGE ? 2 : 1)
        if (letters[i] == IR_LETTER_POINT) need_lane(a, from.axes[i], extents[i], ir_aff_of(m, op->operands[operand]), &p);
    return p;
}

Presence presence_along(PresenceCache *cache, PassContext *ctx, IrOp *op) {
    Along a = {ctx->module->affs, op, NULL};
    if (op->opcode == IR_TILE_EXTRACT) {
        a.facts = ir_facts_at(ctx->scratch, op);
        return of_extract(cache, &a);
    }
    if (op->opcode == IR_TILE_INSERT) return presence_in(cache, op->operands[0]);
    Presence p = linked(cache, &a);
    if (op->opcode == IR_TILE_CONCAT) concat_axis(cache, &a, &p);
    if (op->opcode == IR_TILE_RESHAPE) reshape_axis(cache, &a, &p);
    return p;
}
