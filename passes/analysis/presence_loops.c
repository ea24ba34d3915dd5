/* Presence of a tile that a loop carries, whose ends move with the loop's index: what is present in all turns. */
#include "analysis.h"

/* Which way an expression goes as the index grows. */
typedef enum { STANDS = 0, GROWS = 1, FALLS = 2, UNKNOWN = GROWS | FALLS } Way;

static Way turned(Way w) {
    return w == GROWS ? FALLS : w == FALLS ? GROWS : w;
}

static Way way_of(const Aff *e, const IrValue *index);

static Way way_of_sum(const Aff *e, const IrValue *index) {
    Way all = STANDS;
    for (size_t i = 0; i < e->count; i++) {
        Way w = way_of(e->args[i], index);
        all |= e->coefs[i] < 0 ? turned(w) : w;
    }
    return all;
}

static Way way_of(const Aff *e, const IrValue *index) {
    int64_t divisor = 0;
    if (!aff_depends_on(e, index)) return STANDS;
    switch (e->kind) {
    case AFF_VAR:
        return GROWS;
    case AFF_SUM:
        return way_of_sum(e, index);
    case AFF_MIN:
        return way_of(e->args[0], index) | way_of(e->args[1], index);
    case AFF_FLOORDIV:
        return aff_is_const(e->args[1], &divisor) && divisor > 0 ? way_of(e->args[0], index) : UNKNOWN;
    default:
        return UNKNOWN;
    }
}

/* The index of the last turn. */
static const Aff *last_turn(PassContext *ctx, const IrOp *loop) {
    AffCtx *c = ctx->module->affs;
    const Aff *first = ir_aff_of(ctx->module, loop->operands[0]), *step = ir_aff_of(ctx->module, loop->operands[2]);
    const Aff *span = aff_sub(c, aff_sub(c, ir_aff_of(ctx->module, loop->operands[1]), first), aff_const(c, 1));
    return aff_add(c, first, aff_mul(c, aff_floordiv(c, span, step), step));
}

/* The least (or largest) value that a bound has in any turn; itself, where that is not known. */
static const Aff *extreme(PassContext *ctx, const IrOp *loop, const Aff *e, Way largest) {
    const IrValue *index = loop->regions[0]->args[0];
    Way way = way_of(e, index);
    if (way == STANDS || way == UNKNOWN) return e;
    const Aff *turn = way == largest ? last_turn(ctx, loop) : ir_aff_of(ctx->module, loop->operands[0]);
    return aff_with(ctx->module->affs, e, index, turn);
}

PresenceAxis presence_in_all_turns(PassContext *ctx, const IrOp *loop, PresenceAxis axis) {
    if (!axis.hi) return axis;
    return (PresenceAxis){extreme(ctx, loop, axis.lo, GROWS), extreme(ctx, loop, axis.hi, FALLS)};
}
