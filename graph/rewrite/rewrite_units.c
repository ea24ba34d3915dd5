/* Rewrites of axes of extent 1: what a fold keeps of the axes that it folded, and what broadcasts of that repeat. They go: a fold keeps nothing, what is made of it lane by lane has its
 * other axes only, and the broadcast says which those are. */
#include "analyzer.h"
#include "rewrite_internal.h"

/* Axes of a tensor, twice those that the reference takes; the rewrite leaves a larger rank alone. */
enum { MOST_RANK = 16 };

static bool is_one(const Aff *extent) {
    int64_t one;
    return aff_is_const(extent, &one) && one == 1;
}

/* Of a reshape that only adds axes of extent 1: the axes of the result that are the operand's, in their order. False: it is another. */
static bool added_units(const IrOp *op, int64_t *kept) {
    if (op->opcode != IR_GRAPH_RESHAPE) return false;
    const IrType *from = op->operands[0]->type, *to = op->results[0].type;
    unsigned k = 0;
    if (from->rank >= to->rank) return false;
    for (unsigned i = 0; i < to->rank; i++) {
        bool same = k < from->rank && to->extents[i] == from->extents[k];
        if (same)
            kept[k++] = i;
        else if (!is_one(to->extents[i]))
            return false;
    }
    return k == from->rank;
}

static IrValue *reshaped(IrOp *before, IrValue *v, const IrType *to) {
    IrBuilder b = ir_builder_before(before);
    b.span = before->span;
    return v->type == to ? v : ir_result(ir_op_create(&b, IR_GRAPH_RESHAPE, 1, &v, 1, &to), 0);
}

static bool replace(IrOp *op, IrValue *with) {
    ir_replace_uses(&op->results[0], with);
    ir_op_erase(op);
    return true;
}

/* ---- Folds that keep axes ---- */

bool rewrite_kept_axes(Rewriter *r, IrOp *op) {
    bool folds = op->opcode == IR_GRAPH_REDUCE || op->opcode == IR_GRAPH_ARG;
    const IrAttr *axes = folds && ir_attr_bool(op, "keepdim") ? ir_attr(op, op->opcode == IR_GRAPH_ARG ? "axis" : "axes") : NULL;
    const IrType *from = folds ? op->operands[0]->type : NULL, *whole = op->result_count ? op->results[0].type : NULL;
    const Aff *shape[MOST_RANK];
    unsigned rank = 0;
    if (!axes || from->rank > MOST_RANK) return false;
    for (unsigned i = 0; i < from->rank; i++) {
        bool folded = axes->kind == IR_ATTR_INT && axes->integer == i;
        for (size_t k = 0; k < axes->count; k++) folded |= axes->ints[k] == i;
        if (!folded) shape[rank++] = from->extents[i];
    }
    ANALYZER_ASSUME(whole); /* a fold has a result */
    const IrType *t = ir_type_tensor(r->f->module, whole->dtype, rank, shape);
    IrBuilder b = ir_builder_before(op);
    b.span = op->span;
    IrOp *fold = ir_op_create(&b, op->opcode, 1, op->operands, 1, &t);
    ir_attr_copy(fold, op, "kind");
    ir_attr_copy(fold, op, axes->key);
    return replace(op, reshaped(op, ir_result(fold, 0), whole));
}

/* ---- What is made of them ---- */

/* Lane by lane of values that all have the same axes of extent 1 added, and of numbers: ahead of the axes. */
static bool ahead_of_units(Rewriter *r, IrOp *op) {
    IrValue *parts[3];
    const IrType *shape = NULL;
    int64_t kept[MOST_RANK];
    if (!ir_has_trait(op, IR_ELEMENTWISE) || op->operand_count > 3 || op->results[0].type->rank > MOST_RANK) return false;
    for (unsigned i = 0; i < op->operand_count; i++) {
        IrOp *def = op->operands[i]->def;
        bool number = op->operands[i]->type->kind == IR_TYPE_SCALAR;
        if (!number && (!def || !added_units(def, kept))) return false;
        parts[i] = number ? op->operands[i] : def->operands[0];
        if (number) continue;
        if (shape &&
            (shape->rank != parts[i]->type->rank || ir_type_with_dtype(r->f->module, shape, parts[i]->type->dtype) != parts[i]->type))
            return false;
        shape = parts[i]->type;
    }
    if (!shape) return false;
    const IrType *whole = op->results[0].type, *t = ir_type_with_dtype(r->f->module, shape, whole->dtype);
    IrBuilder b = ir_builder_before(op);
    b.span = op->span;
    IrOp *small = ir_op_create(&b, op->opcode, op->operand_count, parts, 1, &t);
    return replace(op, reshaped(op, ir_result(small, 0), whole));
}

/* A broadcast of what has them is one of what has them not. */
static bool broadcast_of_units(IrOp *op) {
    IrOp *def = op->opcode == IR_GRAPH_BROADCAST ? op->operands[0]->def : NULL;
    int64_t kept[MOST_RANK], axes[MOST_RANK];
    if (!def || op->operands[0]->type->rank > MOST_RANK || !added_units(def, kept)) return false;
    unsigned rank = def->operands[0]->type->rank;
    for (unsigned i = 0; i < rank; i++) axes[i] = ir_attr(op, "axes")->ints[kept[i]];
    IrBuilder b = ir_builder_before(op);
    b.span = op->span;
    IrOp *small = ir_op_create(&b, IR_GRAPH_BROADCAST, 1, def->operands, 1, &op->results[0].type);
    ir_attr_set_ints(small, "axes", rank, axes);
    return replace(op, ir_result(small, 0));
}

/* A reshape of a reshape is one, and of what has the shape already none. */
static bool reshape_of_reshape(IrOp *op) {
    if (op->opcode != IR_GRAPH_RESHAPE) return false;
    IrOp *def = op->operands[0]->def;
    if (op->operands[0]->type == op->results[0].type) return replace(op, op->operands[0]);
    if (!def || def->opcode != IR_GRAPH_RESHAPE) return false;
    ir_set_operand(op, 0, def->operands[0]);
    return true;
}

bool rewrite_unit_axes(Rewriter *r, IrOp *op) {
    if (op->result_count != 1) return false;
    return ahead_of_units(r, op) || broadcast_of_units(op) || reshape_of_reshape(op);
}
