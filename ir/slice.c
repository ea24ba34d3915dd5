/* Slices: which operands of an access stand for which axis of what it accesses. */
#include "ir_internal.h"
#include "query.h"

#include <string.h>

static unsigned first_operand(const IrOp *op, unsigned *base) {
    *base = op->opcode == IR_TILE_STORE;
    if (op->opcode == IR_BUF_COPY) return 3;
    if (op->opcode == IR_TMA_COPY) return 5;
    return op->opcode == IR_TILE_STORE || op->opcode == IR_TILE_INSERT ? 2 : 1;
}

static unsigned rank_of(const IrOp *op, unsigned operand) {
    return operand < op->operand_count ? op->operands[operand]->type->rank : 0;
}

IrSlice ir_slice(const IrOp *op) {
    IrSlice s = {.gather_axis = -1};
    const char *letters = ir_attr_str(op, "axes", "");
    const IrAttr *steps = ir_attr(op, "steps");
    unsigned next = first_operand(op, &s.base), ranges = 0;
    for (; letters[s.rank] && s.rank < IR_SLICE_MAX_RANK; s.rank++) {
        IrSliceAxis *axis = &s.axes[s.rank];
        *axis = (IrSliceAxis){letters[s.rank], next, -1, 1};
        if (axis->letter == IR_LETTER_RANGE) {
            axis->axis = (int)s.kept++;
            axis->step = steps && ranges < steps->count ? steps->ints[ranges] : 1;
            ranges++;
        } else if (axis->letter == IR_LETTER_GATHER) {
            if (s.gather_axis < 0) {
                s.gather_axis = (int)s.kept;
                s.gather_rank = rank_of(op, next);
                s.kept += s.gather_rank;
            }
            axis->axis = s.gather_axis;
        }
        next += axis->letter == IR_LETTER_RANGE ? 2 : 1;
    }
    s.ranges = ranges;
    s.operand_count = next;
    return s;
}

const IrSliceAxis *ir_slice_range(const IrSlice *s, unsigned tile_axis, unsigned *base_axis) {
    for (unsigned i = 0; i < s->rank; i++)
        if (s->axes[i].letter == IR_LETTER_RANGE && s->axes[i].axis == (int)tile_axis) {
            if (base_axis) *base_axis = i;
            return &s->axes[i];
        }
    return NULL;
}

bool slice_operand(const IrOp *op, unsigned tile_axis, unsigned *operand, unsigned *tensor_axis) {
    IrSlice s = ir_slice(op);
    const IrSliceAxis *axis = ir_slice_range(&s, tile_axis, tensor_axis);
    if (axis) *operand = axis->operand;
    return axis != NULL;
}

bool keeps_lanes(const IrOp *op) {
    if (op->opcode != IR_TILE_EXTRACT || ir_attr(op, "steps")) return false;
    const IrType *from = op->operands[0]->type, *to = op->results[0].type;
    if (to->kind != IR_TYPE_TILE || to->rank != from->rank) return false;
    for (unsigned i = 0; i < from->rank; i++) {
        unsigned operand, axis;
        int64_t begin;
        if (from->extents[i] != to->extents[i] || !slice_operand(op, i, &operand, &axis) ||
            !aff_is_const(ir_aff_of(op->block->func->module, op->operands[operand]), &begin) || begin != 0)
            return false;
    }
    return true;
}

int64_t slice_step(const IrOp *op, unsigned tile_axis) {
    IrSlice s = ir_slice(op);
    const IrSliceAxis *axis = ir_slice_range(&s, tile_axis, NULL);
    return axis ? axis->step : 1;
}

bool slice_is(const IrOp *op, const char *letters) {
    return strcmp(ir_attr_str(op, "axes", ""), letters) == 0;
}

bool slices_alike(const IrOp *a, const IrOp *b) {
    return slice_is(a, ir_attr_str(b, "axes", ""));
}

bool slice_gathers(const IrOp *op) {
    return strchr(ir_attr_str(op, "axes", ""), IR_LETTER_GATHER);
}
