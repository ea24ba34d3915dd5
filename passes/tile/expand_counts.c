/* expand_counts: the number of present lanes becomes index arithmetic.
 *
 * needs:  tile functions in state open
 * keeps:  everything
 * breaks: nothing; afterwards there is no tile.count
 * source: presence is one interval an axis, so that a count is a product of interval lengths
 *
 *     %n = tile.count(%row) {axes = [0]} : index    =>    %n = ... max(0, min(end, extent) - begin)
 */
#include "analysis/analysis.h"
#include "plant.h"

static const Aff *lanes_of(PassContext *ctx, const IrType *t, const Presence *p, unsigned axis) {
    AffCtx *affs = ctx->module->affs;
    if (!p->axes[axis].hi || PLANTED(19)) return t->extents[axis];
    return aff_max(affs, aff_const(affs, 0), aff_sub(affs, p->axes[axis].hi, p->axes[axis].lo));
}

static void expand(PassContext *ctx, IrOp *op) {
    IrValue *tile = op->operands[0];
    Presence p = presence_of(ctx, tile);
    const IrAttr *axes = ir_attr(op, "axes");
    const Aff *count = aff_const(ctx->module->affs, 1);
    for (size_t i = 0; axes && i < axes->count; i++)
        count = aff_mul(ctx->module->affs, count, lanes_of(ctx, tile->type, &p, (unsigned)axes->ints[i]));
    IrBuilder b = ir_builder_before(op);
    b.span = op->span;
    ir_replace_uses(&op->results[0], ir_aff_emit(&b, count));
    ir_op_erase(op);
}

bool pass_expand_counts(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f; f = f->next) {
        if (f->level != IR_LEVEL_TILE || f->state != IR_STATE_OPEN) continue;
        OpList ops = ops_collect(ctx->scratch, f->body);
        for (size_t i = 0; i < ops.len; i++)
            if (ops.data[i]->opcode == IR_TILE_COUNT) expand(ctx, ops.data[i]);
    }
    return true;
}
