/* Ends of tiles, for split_passes: an axis of symbolic extent gets a larger constant one, and an op that folds along the axis must see
 * the lanes from the symbolic extent on as absent. A load whose slice ends at that extent leaves them absent. For other tiles
 * (`pad=`, `init=`, lanes of a broadcast) the pass inserts a slice from 0 to the symbolic extent.
 *
 *     %s = tile.reduce(%one) {...}   =>   %end = tile.extract(%one, 0, %N) {axes = "r"}
 *                                         %s = tile.reduce(%end) {...} */

#include "split.h"

static unsigned contracted_axis(const IrOp *gemm, unsigned operand) {
    unsigned rank = gemm->operands[operand]->type->rank;
    bool second = operand ? ir_attr_bool(gemm, "trans_b") : !ir_attr_bool(gemm, "trans_a");
    return rank - (second ? 1 : 2);
}

/* Does the op look at all lanes along the operand's axis, so that lanes past its end would count? */
static bool looks_along(const IrOp *op, unsigned operand, unsigned axis) {
    if (op->opcode == IR_TILE_GEMM) return operand < 2 && contracted_axis(op, operand) == axis;
    if (operand || !ir_has_trait(op, IR_FOLDS | IR_ALONG | IR_MOVES)) return false;
    IrAxisRelation relation = ir_axis_link(op, 0, axis).relation;
    bool part = op->opcode == IR_TILE_EXTRACT || op->opcode == IR_TILE_GATHER;
    return relation == IR_AXIS_FOLDED || (relation == IR_AXIS_MIXED && op->opcode != IR_TILE_FLIP) || (relation == IR_AXIS_APART && part);
}

static bool gets_longer(const PassContext *ctx, const IrValue *tile, unsigned axis) {
    int64_t extent = ir_type_extent(tile->type, axis);
    return extent < 0 || extent > ctx->target->row_large;
}

static bool ends_by_itself(PassContext *ctx, PresenceCache *cache, IrOp *op, unsigned operand, unsigned axis) {
    IrValue *tile = op->operands[operand];
    const Aff *hi = presence_in(cache, tile).axes[axis].hi;
    return hi && aff_prove_le(ir_facts_at(ctx->scratch, op), hi, tile->type->extents[axis]);
}

/* A load whose lanes past the end hold what changes nothing: `pad=0` of a factor or of a sum. */
static bool ends_neutral(PassContext *ctx, IrOp *op, unsigned operand, unsigned axis) {
    IrOp *load = op->operands[operand]->def;
    unsigned at, tensor_axis;
    bool gemm = op->opcode == IR_TILE_GEMM, reduce = op->opcode == IR_TILE_REDUCE;
    if ((!gemm && !reduce) || !load || load->opcode != IR_TILE_LOAD) return false;
    const IrAttr *pad = ir_attr(load, "pad");
    double neutral = gemm ? 0 : reduce_identity(ir_op_kind(op), load->results[0].type->dtype);
    if (!pad || pad->number != neutral || !slice_operand(load, axis, &at, &tensor_axis)) return false;
    IrModule *m = ctx->module;
    const Aff *lanes = aff_sub(m->affs, ir_aff_of(m, load->operands[at + 1]), ir_aff_of(m, load->operands[at]));
    const Aff *step = aff_const(m->affs, slice_step(load, axis));
    return aff_prove_le(ir_facts_at(ctx->scratch, load), lanes, aff_mul(m->affs, step, load->results[0].type->extents[axis]));
}

static void end_operand(IrOp *op, unsigned operand) {
    IrBuilder b = ir_builder_before(op);
    IrValue *tile = op->operands[operand], *operands[1 + 2 * PRESENCE_MAX_RANK] = {tile};
    char axes[PRESENCE_MAX_RANK + 1] = {0};
    unsigned rank = tile->type->rank;
    for (unsigned i = 0; i < rank; i++) {
        axes[i] = IR_LETTER_RANGE;
        operands[1 + 2 * i] = ir_const_index(&b, 0);
        operands[2 + 2 * i] = ir_aff_emit(&b, tile->type->extents[i]);
    }
    IrOp *end = ir_op_create(&b, IR_TILE_EXTRACT, 1 + 2 * rank, operands, 1, &tile->type);
    ir_attr_set_str(end, "axes", axes);
    end->results[0].name = tile->name;
    ir_set_operand(op, operand, &end->results[0]);
}

/* One factor that ends is enough: the other's lanes become zeros there (prepare_gemms). */
static void end_gemm(PassContext *ctx, PresenceCache *cache, IrOp *op) {
    unsigned axis[2] = {contracted_axis(op, 0), contracted_axis(op, 1)};
    if (!gets_longer(ctx, op->operands[0], axis[0])) return;
    bool neutral[2];
    for (unsigned i = 0; i < 2; i++) {
        if (ends_by_itself(ctx, cache, op, i, axis[i])) return;
        neutral[i] = ends_neutral(ctx, op, i, axis[i]);
    }
    if (!neutral[0] || !neutral[1]) end_operand(op, neutral[0] ? 1 : 0);
}

static void end_along(PassContext *ctx, PresenceCache *cache, IrOp *op) {
    bool open = false;
    for (unsigned axis = 0; axis < op->operands[0]->type->rank; axis++)
        open |= looks_along(op, 0, axis) && gets_longer(ctx, op->operands[0], axis) && !ends_by_itself(ctx, cache, op, 0, axis) &&
                !ends_neutral(ctx, op, 0, axis);
    if (open) end_operand(op, 0);
}

void end_folds(PassContext *ctx, IrFunc *f) {
    OpList ops = ops_collect(ctx->scratch, f->body);
    PresenceCache *cache = presence_cache_with_ends(ctx);
    for (size_t i = 0; i < ops.len; i++) {
        IrOp *op = ops.data[i];
        if (op->opcode == IR_TILE_GEMM)
            end_gemm(ctx, cache, op);
        else if (op->operand_count && is_tile(op->operands[0]))
            end_along(ctx, cache, op);
    }
}
