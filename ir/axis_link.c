/* How the axes of an op's tiles or tensors relate, by the traits of ops.def: what every analysis of
 * chunks, presence and layouts asks. */

#include "ir_internal.h"

static bool names_axis(const IrOp *op, unsigned axis) {
    const IrAttr *axes = ir_attr(op, "axes");
    if (!axes) return ir_attr_int(op, "axis", -1) == (int64_t)axis;
    for (size_t i = 0; i < axes->count; i++)
        if (axes->ints[i] == (int64_t)axis) return true;
    return false;
}

static IrAxisLink same(unsigned axis) {
    return (IrAxisLink){IR_AXIS_SAME, (int)axis};
}

static IrAxisLink apart(void) {
    return (IrAxisLink){IR_AXIS_APART, -1};
}

static IrAxisLink folded_link(const IrOp *op, unsigned axis) {
    bool keep = ir_attr_bool(op, "keepdim");
    unsigned to = 0;
    for (unsigned i = 0; i < axis; i++) to += keep || !names_axis(op, i);
    if (!names_axis(op, axis)) return same(to);
    return (IrAxisLink){IR_AXIS_FOLDED, keep ? (int)to : -1};
}

static IrAxisLink transposed_link(const IrOp *op, unsigned axis) {
    const IrAttr *perm = ir_attr(op, "perm");
    for (size_t i = 0; perm && i < perm->count; i++)
        if (perm->ints[i] == (int64_t)axis) return same((unsigned)i);
    return apart();
}

static IrAxisLink broadcast_link(const IrOp *op, unsigned axis) {
    const IrAttr *axes = ir_attr(op, "axes");
    const IrType *from = op->operands[0]->type, *to = op->results[0].type;
    if (!axes || axis >= axes->count) return apart();
    unsigned at = (unsigned)axes->ints[axis];
    if (from->extents[axis] == to->extents[at]) return same(at);
    return (IrAxisLink){IR_AXIS_REPEATED, (int)at};
}

/* Axes that a reshape leaves in place: equal ones from the front and from the back. */
static IrAxisLink reshaped_link(const IrOp *op, unsigned axis) {
    const IrType *from = op->operands[0]->type, *to = op->results[0].type;
    unsigned least = from->rank < to->rank ? from->rank : to->rank, front = 0, back = 0;
    while (front < least && from->extents[front] == to->extents[front]) front++;
    while (front + back < least && from->extents[from->rank - 1 - back] == to->extents[to->rank - 1 - back]) back++;
    if (axis < front) return same(axis);
    if (axis + back >= from->rank) return same(axis + to->rank - from->rank);
    return apart();
}

static bool is_whole_range(const IrOp *op, unsigned operand, const IrType *t, unsigned axis) {
    IrConst begin;
    return ir_const_of(op->operands[operand], &begin) && begin.integer == 0 &&
           ir_aff_of(op->block->func->module, op->operands[operand + 1]) == t->extents[axis];
}

/* A slice: of an axis that is kept whole the lanes stay. */
static IrAxisLink sliced_link(const IrOp *op, unsigned first, unsigned axis, bool from_part) {
    const char *letters = ir_attr_str(op, "axes", "");
    const IrAttr *steps = ir_attr(op, "steps");
    const IrType *whole = op->operands[0]->type;
    unsigned operand = first, kept = 0;
    for (unsigned i = 0; letters[i]; operand += letters[i++] == IR_LETTER_RANGE ? 2 : 1) {
        bool range = letters[i] == IR_LETTER_RANGE, wanted = from_part ? range && kept == axis : i == axis;
        if (wanted) {
            bool stays = range && (!steps || steps->ints[kept] == 1) && is_whole_range(op, operand, whole, i);
            if (!stays) return apart();
            return same(op->opcode == IR_TILE_EXTRACT ? kept : i);
        }
        kept += range;
    }
    return apart();
}

static IrAxisLink gathered_link(const IrOp *op, unsigned operand, unsigned axis) {
    unsigned at = (unsigned)ir_attr_int(op, "axis", 0), rank = op->operands[1]->type->rank;
    if (operand) return same(at + axis);
    if (axis == at) return apart();
    return same(axis < at ? axis : axis + rank - 1);
}

static IrAxisLink moved_link(const IrOp *op, unsigned operand, unsigned axis) {
    switch (op->opcode) {
    case IR_TILE_TRANSPOSE:
    case IR_GRAPH_TRANSPOSE:
        return transposed_link(op, axis);
    case IR_TILE_BROADCAST:
    case IR_GRAPH_BROADCAST:
        return broadcast_link(op, axis);
    case IR_TILE_RESHAPE:
    case IR_GRAPH_RESHAPE:
        return reshaped_link(op, axis);
    case IR_TILE_CONCAT:
    case IR_GRAPH_CONCAT:
        return names_axis(op, axis) ? apart() : same(axis);
    case IR_TILE_EXTRACT:
        return sliced_link(op, 1, axis, false);
    case IR_TILE_INSERT:
        return sliced_link(op, 2, axis, operand == 1);
    case IR_TILE_GATHER:
        return gathered_link(op, operand, axis);
    default:
        return apart();
    }
}

IrAxisLink ir_axis_link(const IrOp *op, unsigned operand, unsigned axis) {
    unsigned traits = ir_op_info(op->opcode)->traits;
    if (traits & IR_FOLDS) return folded_link(op, axis);
    if (traits & IR_MOVES) return moved_link(op, operand, axis);
    if ((traits & IR_ALONG) && names_axis(op, axis) && operand == 2) return apart(); /* the start of a scan */
    if ((traits & IR_ALONG) && names_axis(op, axis)) return (IrAxisLink){IR_AXIS_MIXED, (int)axis};
    return same(axis);
}
