/* Rewrites of folds. */
#include "rewrite_internal.h"

/* ---- Nested folds ---- */

/* Axes of a tensor, twice those that the reference takes; the rewrite leaves a larger rank alone. */
enum { MOST_AXES = 16 };

static uint32_t axes_of(const IrOp *reduce) {
    const IrAttr *axes = ir_attr(reduce, "axes");
    uint32_t bits = 0;
    for (size_t i = 0; i < axes->count; i++) bits |= (uint32_t)1 << axes->ints[i];
    return bits;
}

/* The axes of the inner fold's operand along which both fold. */
static uint32_t axes_of_both(const IrOp *outer, const IrOp *inner) {
    uint32_t folded = axes_of(inner), again = axes_of(outer), both = folded;
    bool keeps = ir_attr_bool(inner, "keepdim");
    for (unsigned i = 0, k = 0; i < inner->operands[0]->type->rank; i++) {
        if (!keeps && folded >> i & 1) continue;
        both |= (again >> k++ & 1) << i;
    }
    return both;
}

static IrValue *folded_along(IrOp *op, IrOp *inner, uint32_t bits, bool keeps) {
    const IrType *from = inner->operands[0]->type;
    int64_t axes[MOST_AXES];
    const Aff *shape[MOST_AXES];
    size_t count = 0;
    unsigned rank = 0;
    for (unsigned i = 0; i < from->rank; i++) {
        bool folded = bits >> i & 1;
        if (folded) axes[count++] = i;
        if (!folded || keeps) shape[rank++] = folded ? aff_const(op->block->func->module->affs, 1) : from->extents[i];
    }
    const IrType *t = ir_type_tensor(op->block->func->module, op->results[0].type->dtype, rank, shape);
    IrBuilder b = ir_builder_before(op);
    b.span = op->span;
    IrOp *fold = ir_op_create(&b, IR_GRAPH_REDUCE, 1, inner->operands, 1, &t);
    ir_attr_copy(fold, op, "kind");
    ir_attr_set_ints(fold, "axes", count, axes);
    if (keeps) ir_attr_set_bool(fold, "keepdim", true);
    return ir_result(fold, 0);
}

bool rewrite_nested_folds(Rewriter *r, IrOp *op) {
    (void)r;
    IrOp *inner = op->opcode == IR_GRAPH_REDUCE ? op->operands[0]->def : NULL;
    if (!inner || inner->opcode != IR_GRAPH_REDUCE || inner->operands[0]->type->rank > MOST_AXES) return false;
    if (ir_op_kind(op) != ir_op_kind(inner) || inner->results[0].type->dtype != op->results[0].type->dtype) return false;
    if (inner->results[0].uses->next) return false; /* something else is made of it, too */
    bool keeps = ir_attr_bool(op, "keepdim") && ir_attr_bool(inner, "keepdim");
    const IrType *whole = op->results[0].type;
    IrValue *result = folded_along(op, inner, axes_of_both(op, inner), keeps);
    IrBuilder b = ir_builder_before(op);
    b.span = op->span;
    if (result->type != whole) result = ir_result(ir_op_create(&b, IR_GRAPH_RESHAPE, 1, &result, 1, &whole), 0);
    ir_replace_uses(&op->results[0], result);
    ir_op_erase(op);
    return true;
}
