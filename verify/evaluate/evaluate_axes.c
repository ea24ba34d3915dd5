/* Decodes the operations along axes. */
#include "evaluate_internal.h"

static bool complain(const char **complaint, const char *text) {
    *complaint = text;
    return false;
}

static bool scan_kind(Node *node, IrKind kind) {
    static const ReduceKind kinds[] = {[IR_KIND_ADD] = REDUCE_ADD,
                                       [IR_KIND_LINEAR] = REDUCE_ADD,
                                       [IR_KIND_MUL] = REDUCE_MUL,
                                       [IR_KIND_MAX] = REDUCE_MAX,
                                       [IR_KIND_MIN] = REDUCE_MIN};
    node->reduce = kinds[kind];
    return kind == IR_KIND_LINEAR || ir_is_plain_kind(kind);
}

static bool same_shape(const Node *node, const char **complaint) {
    const Shape *from = &node->operands[0]->shape;
    bool same = from->rank == node->shape.rank;
    for (unsigned d = 0; same && d < from->rank; d++) same = from->extents[d] == node->shape.extents[d];
    return same || complain(complaint, "the result has another shape");
}

/* What a recurrence begins from has one lane along the axis. */
static bool fits_start(const Node *node, const char **complaint) {
    const Shape *from = node->operand_count > 2 ? &node->operands[2]->shape : &node->shape;
    bool fits = from->rank == node->shape.rank;
    for (unsigned d = 0; fits && d < from->rank && node->operand_count > 2; d++)
        fits = from->extents[d] == (d == node->axis ? 1 : node->shape.extents[d]);
    return fits || complain(complaint, "the start has another shape");
}

/* One axis is gone; the result's others are the operand's in order. */
static bool decode_arg(Node *node, const IrOp *op, const char **complaint) {
    const Shape *from = &node->operands[0]->shape;
    bool keep = ir_attr_bool(op, "keepdim");
    int next = 0;
    node->kind = NODE_REDUCE;
    node->reduce = ir_op_kind(op) == IR_KIND_MIN ? REDUCE_ARGMIN : REDUCE_ARGMAX;
    if (node->axis >= from->rank) return complain(complaint, "no such axis");
    node->reduced_rank = 1;
    node->reduced[0] = node->reduced_count = from->extents[node->axis];
    for (unsigned d = 0; d < from->rank; d++) {
        if (d != node->axis)
            node->map[0][d] = next++;
        else
            node->map[0][d] = -1, next += keep;
    }
    return true;
}

static bool decode_concat(const Node *node, const char **complaint) {
    int64_t total = 0;
    for (unsigned i = 0; i < node->operand_count; i++) {
        const Shape *part = &node->operands[i]->shape;
        for (unsigned d = 0; d < node->shape.rank; d++)
            if (part->rank != node->shape.rank || (d != node->axis && part->extents[d] != node->shape.extents[d]))
                return complain(complaint, "the operands' shapes do not fit");
        total += part->extents[node->axis];
    }
    return total == node->shape.extents[node->axis] || complain(complaint, "the result is not as long as its operands");
}

bool axes_decode(Node *node, const IrOp *op, const char **complaint) {
    int64_t axis = ir_attr_int(op, "axis", 0);
    node->axis = (unsigned)axis;
    node->rows = node->id;
    if (op->opcode == IR_GRAPH_ARG) return decode_arg(node, op, complaint);
    if (op->opcode == IR_GRAPH_RANDOM) {
        node->kind = NODE_RANDOM;
        return true;
    }
    if (axis < 0 || axis >= (int64_t)node->shape.rank) return complain(complaint, "no such axis");
    switch (op->opcode) {
    case IR_GRAPH_SCAN:
        node->kind = NODE_SCAN;
        node->reverse = ir_attr_bool(op, "reverse");
        node->exclusive = ir_attr_bool(op, "exclusive");
        if (!scan_kind(node, ir_op_kind(op))) return complain(complaint, "the evaluator knows no such scan");
        return same_shape(node, complaint) && fits_start(node, complaint);
    case IR_GRAPH_SORT:
        node->kind = NODE_SORT;
        node->reverse = ir_attr_bool(op, "descending");
        return same_shape(node, complaint);
    case IR_GRAPH_FLIP:
        node->kind = NODE_FLIP;
        return same_shape(node, complaint);
    case IR_GRAPH_CONCAT:
        node->kind = NODE_CONCAT;
        return decode_concat(node, complaint);
    default: /* IR_GRAPH_IOTA */
        node->kind = NODE_IOTA;
        return true;
    }
}
