/* Pass hoist_attention_mask: absent scores become -inf once, so that no later op on them needs a mask.
 *
 * what:   lanes of a product may be absent along an axis. If the product's only uses are its maximum along that axis, and exponentials of
 *         its difference to that maximum (`not_positive`) that are only summed or multiplied along that axis, the absent lanes become
 *         -inf in front of all these uses. Their exponentials are 0, or NaN where the row has no present number either.
 *         lower_to_threads.c then tests the presence of whole tiles once for all of their lanes.
 *         A select between the product and a constant, by a comparison of numbers that grow along the axes (a causal mask), goes
 *         under a branch on the whole tile: most tiles lie on one side of the diagonal and need no select.
 * needs:  tile static, after divide_by_reciprocal
 * keeps:  values
 * breaks: nothing
 * source: docs/notes/015-relaxed-precision.md
 *
 *     %s = tile.gemm(%q, %k, %c)                    %s = tile.gemm(%q, %k, %c)
 *     %m = tile.reduce(%s) {kind = "max"}     =>    %f = tile.fill(%s) {value = -inf, axis = 1}
 *     %e = exp(sub(%s, ...%m))                      %m = tile.reduce(%f) {kind = "max"}; %e = exp(sub(%f, ...%m))
 */
#include "analysis/analysis.h"
#include "analysis/exponentials.h"
#include "analysis/presence.h"

#include <math.h>

enum {
    DEPTH = 8 /* operations that are looked through */
};

static bool is_along(const IrOp *fold, IrKind kind, unsigned axis) {
    const IrAttr *axes = ir_attr(fold, "axes");
    if (fold->opcode != IR_TILE_REDUCE || ir_op_kind(fold) != kind) return false;
    return axes->count == 1 && axes->ints[0] == (int64_t)axis;
}

/* Is the tile only summed along the axis, itself or multiplied by another tile's lanes? */
static bool is_only_summed(const IrValue *v, unsigned axis, int depth) {
    for (const IrUse *use = v->uses; use; use = use->next) {
        const IrOp *op = use->op;
        if (op->opcode == IR_CAST && depth > 0 && dtype_is_float(op->results[0].type->dtype)) {
            if (!is_only_summed(&op->results[0], axis, depth - 1)) return false;
        } else if (op->opcode == IR_TILE_GEMM) {
            if (use->index != 0 || axis + 1 != v->type->rank || ir_attr_bool(op, "trans_a")) return false;
        } else if (!is_along(op, IR_KIND_ADD, axis)) {
            return false;
        }
    }
    return true;
}

/* The exponential of what the use subtracts a maximum from, or scales and subtracts it; NULL: it is none. */
static IrOp *exponential_of(const IrUse *use) {
    const IrOp *op = use->op;
    bool less = op->opcode == IR_SUB, scaled = op->opcode == IR_FMA && is_positive(op->operands[1]);
    const IrUse *next = op->result_count == 1 ? op->results[0].uses : NULL;
    if (use->index != 0 || (!less && !scaled) || !next || next->next) return NULL;
    bool power = next->op->opcode == IR_EXP || next->op->opcode == IR_EXP2;
    return power && ir_attr_bool(next->op, "not_positive") ? next->op : NULL;
}

static bool is_masked_once(const IrValue *v, unsigned axis) {
    unsigned maxima = 0, powers = 0;
    for (const IrUse *use = v->uses; use; use = use->next) {
        const IrOp *power = exponential_of(use);
        if (power && !is_only_summed(&power->results[0], axis, DEPTH)) return false;
        if (!power && !is_along(use->op, IR_KIND_MAX, axis)) return false;
        powers += power != NULL, maxima += power == NULL;
    }
    return maxima && powers;
}

static bool is_of_product(const IrValue *v, int depth) {
    const IrOp *op = v->def;
    if (!op || depth <= 0) return false;
    if (op->opcode == IR_TILE_GEMM) return true;
    for (unsigned i = 0; i < op->operand_count && ir_has_trait(op, IR_ELEMENTWISE); i++)
        if (is_of_product(op->operands[i], depth - 1)) return true;
    return false;
}

static void fill_absent(IrOp *op, unsigned axis) {
    IrValue *v = &op->results[0];
    IrBuilder b = ir_builder_after(op);
    b.span = op->span;
    IrOp *fill = ir_op_create(&b, IR_TILE_FILL, 1, &v, 1, &v->type);
    ir_attr_set_float(fill, "value", -INFINITY);
    ir_attr_set_int(fill, "axis", axis);
    ir_attr_set_bool(fill, "rare", true);
    ir_result(fill, 0)->name = v->name;
    ir_replace_uses(v, ir_result(fill, 0));
    ir_set_operand(fill, 0, v);
}

/* ---- Choices ---- */

/* The least and the largest lane of a sum of iotas and of numbers that all lanes share, as index values, before anything wraps. */
static bool lane_bounds(IrBuilder *b, IrValue *v, IrValue *bounds[2], int depth) {
    const IrOp *op = v->def;
    if (!is_tile(v)) {
        if (v->type->dtype != DTYPE_I32 && !v->type->is_index) return false;
        bounds[0] = bounds[1] = v->type->is_index ? v : ir_cast(b, v, ir_const_index(b, 0)->type);
        return true;
    }
    if (!op || depth <= 0) return false;
    if (op->opcode == IR_TILE_IOTA) {
        bounds[0] = ir_const_index(b, 0), bounds[1] = ir_const_index(b, ir_type_extent(v->type, (unsigned)ir_attr_int(op, "axis", 0)) - 1);
        return true;
    }
    if (op->opcode == IR_TILE_BROADCAST) return lane_bounds(b, op->operands[0], bounds, depth - 1);
    IrValue *x[2], *y[2];
    if (op->opcode != IR_ADD || !lane_bounds(b, op->operands[0], x, depth - 1)) return false;
    if (!lane_bounds(b, op->operands[1], y, depth - 1)) return false;
    for (unsigned i = 0; i < 2; i++) bounds[i] = ir_binary(b, IR_ADD, x[i], y[i]);
    return true;
}

/* Moves what only the op's tiles are made of into its block, in front of it. */
static void take_along(IrOp *op, const IrBlock *from, int depth) {
    for (unsigned i = 0; i < op->operand_count; i++) {
        IrOp *maker = op->operands[i]->def;
        if (!maker || maker->block != from || !is_tile(op->operands[i]) || maker->region_count || !ir_has_trait(maker, IR_PURE)) continue;
        const IrUse *use = maker->results[0].uses;
        if (depth <= 0 || maker->result_count != 1 || use->next) continue;
        ir_op_move_before(maker, op);
        take_along(maker, from, depth - 1);
    }
}

/* if (all lanes are chosen) the product's, else a choice. */
static void choose_in_tiles(IrOp *op) {
    IrOp *compare = op->operands[0]->def;
    IrBlock *block = op->block;
    IrValue *left[2], *right[2];
    if (!compare || (compare->opcode != IR_LE && compare->opcode != IR_LT)) return;
    if (!is_tile(op->operands[0]) || !is_tile(op->operands[1])) return;
    if (op->operands[0]->uses->next || !is_of_product(op->operands[1], DEPTH)) return;
    IrBuilder b = ir_builder_before(op);
    b.span = op->span;
    if (!lane_bounds(&b, compare->operands[0], left, DEPTH) || !lane_bounds(&b, compare->operands[1], right, DEPTH)) return;
    IrValue *above = ir_binary(&b, compare->opcode, left[1], right[0]);
    IrValue *fits = ir_binary(&b, IR_AND, ir_binary(&b, IR_LE, ir_const_index(&b, INT32_MIN), left[0]),
                              ir_binary(&b, IR_LE, right[1], ir_const_index(&b, INT32_MAX)));
    IrValue *all = ir_binary(&b, IR_AND, above, fits);
    IrValue *result = &op->results[0];
    IrOp *branch = ir_op_create(&b, IR_IF, 1, &all, 1, &result->type);
    ir_result(branch, 0)->name = result->name;
    ir_replace_uses(result, ir_result(branch, 0));
    IrBuilder whole = ir_builder_at_end(branch->regions[0]), parts = ir_builder_at_end(branch->regions[1]);
    ir_yield(&whole, 1, &op->operands[1]);
    ir_op_move_to_end(op, branch->regions[1]);
    ir_yield(&parts, 1, &result);
    take_along(op, block, DEPTH);
}

bool pass_hoist_attention_mask(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f; f = f->next) {
        if (f->level != IR_LEVEL_TILE || f->state != IR_STATE_STATIC) continue;
        OpList ops = ops_collect(ctx->scratch, f->body);
        for (size_t i = 0; i < ops.len; i++) {
            IrOp *op = ops.data[i];
            if (op->result_count != 1 || !is_tile(&op->results[0]) || op->results[0].type->dtype != DTYPE_F32) continue;
            if (!is_of_product(&op->results[0], DEPTH)) continue;
            unsigned axis = op->results[0].type->rank - 1;
            if (is_masked_once(&op->results[0], axis) && presence_of(ctx, &op->results[0]).axes[axis].hi) fill_absent(op, axis);
        }
        for (size_t i = 0; i < ops.len; i++)
            if (ops.data[i]->opcode == IR_SELECT && is_tile(&ops.data[i]->results[0])) choose_in_tiles(ops.data[i]);
    }
    return true;
}
