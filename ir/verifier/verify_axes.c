/* Rules of ops that work along axes: scans, arg-reductions, sorts, joins, slices of tiles. */

#include "verify_internal.h"

static bool check_axis(Verifier *v, const IrOp *op, const IrType *t) {
    int64_t axis = ir_attr_int(op, "axis", -1);
    if (!ir_check_array(v, op, t)) return false;
    NEED(v, op, axis >= 0 && axis < (int64_t)t->rank, "there is no such axis");
    return true;
}

/* Axis i of `to` has the extents of `from`'s, apart from `except`. */
static bool check_others(Verifier *v, const IrOp *op, const IrType *from, const IrType *to, int64_t except) {
    NEED(v, op, to->kind == from->kind && to->rank == from->rank, "the ranks differ");
    for (unsigned i = 0; i < to->rank; i++)
        NEED(v, op, (int64_t)i == except || to->extents[i] == from->extents[i], "axis %u does not fit", i);
    return true;
}

static bool check_scan(Verifier *v, const IrOp *op) {
    const IrType *from = op->operands[0]->type;
    if (!check_axis(v, op, from)) return false;
    IrKind kind = ir_op_kind(op);
    NEED(v, op, kind == IR_KIND_LINEAR || ir_is_plain_kind(kind), "a scan is of kind add, mul, max, min or linear");
    NEED(v, op, op->results[0].type == from, "the result has the operand's type");
    bool linear = kind == IR_KIND_LINEAR;
    NEED(v, op, linear ? op->operand_count > 1 && dtype_is_float(from->dtype) : op->operand_count == 1,
         "a linear scan has b and a, of floats; the others have one operand");
    for (unsigned i = 1; i < op->operand_count; i++) {
        const IrType *t = op->operands[i]->type;
        int64_t axis = ir_attr_int(op, "axis", -1), one = 0;
        if (!check_others(v, op, from, t, i == 2 ? axis : -1)) return false;
        NEED(v, op, t->dtype == from->dtype, "operands have one dtype");
        NEED(v, op, i == 1 || (aff_is_const(t->extents[axis], &one) && one == 1), "the start has one lane along the axis");
    }
    NEED(v, op, from->dtype != DTYPE_BOOL, "there is no scan of bool");
    return true;
}

static bool check_flip(Verifier *v, const IrOp *op) {
    if (!check_axis(v, op, op->operands[0]->type)) return false;
    NEED(v, op, op->results[0].type == op->operands[0]->type, "the result has the operand's type");
    return true;
}

static bool check_arg(Verifier *v, const IrOp *op) {
    const IrType *from = op->operands[0]->type, *to = op->results[0].type;
    if (!check_axis(v, op, from)) return false;
    NEED(v, op, ir_op_kind(op) == IR_KIND_MAX || ir_op_kind(op) == IR_KIND_MIN, "the kind is max or min");
    unsigned axis = (unsigned)ir_attr_int(op, "axis", 0), keep = ir_attr_bool(op, "keepdim");
    int64_t one = 0;
    NEED(v, op, to->kind == from->kind && to->dtype == DTYPE_I64, "gives indices of type i64");
    NEED(v, op, to->rank == from->rank - 1 + keep, "the result has another rank");
    for (unsigned i = 0, at = 0; i < from->rank; i++) {
        if (i == axis && !keep) continue;
        bool fits = i == axis ? aff_is_const(to->extents[at], &one) && one == 1 : to->extents[at] == from->extents[i];
        NEED(v, op, fits, "result axis %u does not fit", at);
        at++;
    }
    return true;
}

static bool check_sort(Verifier *v, const IrOp *op) {
    const IrType *from = op->operands[0]->type;
    if (!check_axis(v, op, from)) return false;
    NEED(v, op, op->results[0].type == from, "the sorted values have the operand's type");
    NEED(v, op, op->results[1].type == ir_type_with_dtype(v->module, from, DTYPE_I64), "the indices are i64 in the operand's shape");
    return true;
}

static bool check_concat(Verifier *v, const IrOp *op) {
    const IrType *to = op->results[0].type;
    int64_t axis = ir_attr_int(op, "axis", -1);
    if (!check_axis(v, op, to)) return false;
    const Aff *sum = aff_const(v->module->affs, 0);
    for (unsigned i = 0; i < op->operand_count; i++) {
        const IrType *t = op->operands[i]->type;
        NEED(v, op, t->dtype == to->dtype, "operands and result have one dtype");
        if (!check_others(v, op, t, to, axis)) return false;
        sum = aff_add(v->module->affs, sum, t->extents[axis]);
    }
    NEED(v, op, sum == to->extents[axis], "the result is not as long as the operands together");
    return true;
}

static bool check_iota(Verifier *v, const IrOp *op) {
    const IrType *t = op->results[0].type;
    if (!check_axis(v, op, t)) return false;
    NEED(v, op, dtype_is_int(t->dtype), "iota gives integers");
    return true;
}

static bool check_random(Verifier *v, const IrOp *op) {
    for (unsigned i = 0; i < 2; i++)
        NEED(v, op, ir_type_is_scalar(op->operands[i]->type) && op->operands[i]->type->dtype == DTYPE_I64,
             "seed and offset are i64 scalars");
    NEED(v, op, dtype_is_float(op->results[0].type->dtype), "random gives floats");
    return ir_check_array(v, op, op->results[0].type);
}

static bool check_extract(Verifier *v, const IrOp *op) {
    unsigned kept = 0;
    const IrType *from = op->operands[0]->type;
    NEED(v, op, from->kind == IR_TYPE_TILE, "slices a tile");
    if (!ir_check_slice(v, op, from, &kept)) return false;
    const IrType *to = op->results[0].type;
    NEED(v, op, to->kind == IR_TYPE_TILE && ir_is_slice_type(to, from, kept), "the result has the slice's rank and the tile's dtype");
    return true;
}

static bool check_insert(Verifier *v, const IrOp *op) {
    unsigned kept = 0;
    const IrType *whole = op->operands[0]->type, *part = op->operands[1]->type;
    NEED(v, op, whole->kind == IR_TYPE_TILE, "replaces a slice of a tile");
    if (!ir_check_slice(v, op, whole, &kept)) return false;
    NEED(v, op, ir_is_slice_type(part, whole, kept), "the part has the slice's rank and the tile's dtype");
    NEED(v, op, op->results[0].type == whole, "the result has the tile's type");
    return true;
}

static bool check_gather(Verifier *v, const IrOp *op) {
    const IrType *from = op->operands[0]->type, *index = op->operands[1]->type;
    const IrType *to = op->results[0].type;
    if (!check_axis(v, op, from)) return false;
    unsigned axis = (unsigned)ir_attr_int(op, "axis", 0);
    NEED(v, op, index->kind == IR_TYPE_TILE && dtype_is_int(index->dtype), "indices are a tile of integers");
    NEED(v, op, to->kind == IR_TYPE_TILE && to->dtype == from->dtype && to->rank == from->rank - 1 + index->rank,
         "the index tile's axes stand in place of the axis");
    for (unsigned i = 0; i < to->rank; i++) {
        const Aff *want = i < axis                 ? from->extents[i]
                          : i < axis + index->rank ? index->extents[i - axis]
                                                   : from->extents[i + 1 - index->rank];
        NEED(v, op, to->extents[i] == want, "result axis %u does not fit", i);
    }
    return true;
}

static bool check_scalar(Verifier *v, const IrOp *op) {
    const IrType *from = op->operands[0]->type;
    NEED(v, op, from->kind == IR_TYPE_TILE && from->rank == 0, "reads a tile of rank 0");
    NEED(v, op, op->results[0].type == ir_type_scalar(v->module, from->dtype), "gives a scalar of the tile's dtype");
    return true;
}

IrCheck ir_axes_check(IrOpcode opcode) {
    static const IrCheck checks[IR_OP_COUNT] = {
        [IR_GRAPH_SCAN] = check_scan,     [IR_TILE_SCAN] = check_scan,       [IR_GRAPH_ARG] = check_arg,
        [IR_TILE_ARG] = check_arg,        [IR_GRAPH_SORT] = check_sort,      [IR_TILE_SORT] = check_sort,
        [IR_GRAPH_FLIP] = check_flip,     [IR_TILE_FLIP] = check_flip,       [IR_GRAPH_CONCAT] = check_concat,
        [IR_TILE_CONCAT] = check_concat,  [IR_GRAPH_IOTA] = check_iota,      [IR_TILE_IOTA] = check_iota,
        [IR_GRAPH_RANDOM] = check_random, [IR_TILE_EXTRACT] = check_extract, [IR_TILE_INSERT] = check_insert,
        [IR_TILE_GATHER] = check_gather,  [IR_TILE_SCALAR] = check_scalar,
    };
    return checks[opcode];
}
