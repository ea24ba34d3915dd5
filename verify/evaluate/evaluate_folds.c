/* Decodes reductions and products, and by which bound they are judged. */
#include "evaluate_build.h"

static bool contains(const IrAttr *list, unsigned rank, unsigned axis, unsigned *position) {
    for (size_t i = 0; list && i < list->count; i++)
        if (eval_decode_axis(list->ints[i], rank) == axis) {
            *position = (unsigned)i;
            return true;
        }
    return false;
}

bool eval_decode_reduce_kind(Build *b, Node *node, IrKind kind) {
    static const IrKind kinds[] = {
        [REDUCE_ADD] = IR_KIND_ADD, [REDUCE_MEAN] = IR_KIND_MEAN, [REDUCE_MUL] = IR_KIND_MUL, [REDUCE_MAX] = IR_KIND_MAX,
        [REDUCE_MIN] = IR_KIND_MIN, [REDUCE_AND] = IR_KIND_AND,   [REDUCE_OR] = IR_KIND_OR};
    node->kind = NODE_REDUCE;
    for (unsigned i = 0; i < COUNT_OF(kinds); i++)
        if (kinds[i] == kind) {
            node->reduce = (ReduceKind)i;
            if (i == REDUCE_MEAN && !node->is_real) return eval_decode_fail(b, "mean needs floats", "graph.reduce");
            if (i >= REDUCE_AND && node->is_real) return eval_decode_fail(b, "and, or need integers or bool", "graph.reduce");
            return true;
        }
    return eval_decode_fail(b, "the evaluator knows no such reduction", ir_enum_word(IR_ENUM_KIND, kind));
}

void eval_decode_add_reduced(Node *node, int64_t extent) {
    node->reduced[node->reduced_rank++] = extent;
    if (node->reduced_rank == 1) node->reduced_count = 1;
    node->reduced_count *= extent;
}

bool eval_decode_reduce(Build *b, Node *node, const IrOp *op) {
    const IrAttr *axes = ir_attr(op, "axes");
    const Shape *from = &node->operands[0]->shape;
    bool keep = ir_attr_bool(op, "keepdim");
    int next = 0;
    node->reduced_count = 1;
    for (unsigned i = 0; i < from->rank; i++) {
        unsigned position;
        if (contains(axes, from->rank, i, &position)) {
            node->map[0][i] = -1 - (int)node->reduced_rank;
            eval_decode_add_reduced(node, from->extents[i]);
            next += keep;
        } else {
            node->map[0][i] = next++;
        }
    }
    return eval_decode_reduce_kind(b, node, ir_op_kind(op));
}

bool eval_decode_narrow_float(Dtype dtype) {
    return dtype_is_float(dtype) && dtype_bits(dtype) < 32;
}

/* Products of factors of which `from` is the most accurate, all of them narrow or not, in a precision. */
bool eval_decode_judge_products(Node *node, const Precision *precision, Dtype from, bool narrow) {
    node->contract = node->is_real;
    if (!node->is_real || from == DTYPE_F64) return true;
    node->input_unit = ldexp(1, -precision->bits);
    node->core_unit = ldexp(1, 1 - precision->sums);
    node->in_parts = precision->parts > 1 && !narrow;
    bool lowered = node->input_unit > dtype_unit_roundoff(DTYPE_F32);
    node->tensor_core = lowered || narrow;
    if (node->input_unit <= dtype_unit_roundoff(from)) node->input_unit = 0; /* as stored */
    return true;
}

/* The operator's own precision. */
const Precision *eval_decode_default_precision(const Build *b) {
    unsigned own = ir_func_enum(b->f, IR_FN_PRECISION);
    return ir_precision(own ? own : IR_PRECISION_F32);
}

static bool contract_precision(Build *b, Node *node, const IrOp *op) {
    Dtype from = node->operands[0]->shape.dtype;
    const Precision *own = ir_op_precision(op);
    return eval_decode_judge_products(node, own ? own : eval_decode_default_precision(b), from, eval_decode_narrow_float(from));
}

bool eval_decode_contract(Build *b, Node *node, const IrOp *op) {
    static const char *const keys[2][2] = {{"batch_a", "sum_a"}, {"batch_b", "sum_b"}};
    int next = 0;
    node->kind = NODE_REDUCE;
    node->reduced_count = 1;
    for (unsigned t = 0; t < 2; t++) {
        const Shape *from = &node->operands[t]->shape;
        const IrAttr *batch = ir_attr(op, keys[t][0]), *sum = ir_attr(op, keys[t][1]);
        if (t == 0) next = batch ? (int)batch->count : 0;
        for (unsigned i = 0, at; i < from->rank; i++) {
            if (contains(batch, from->rank, i, &at))
                node->map[t][i] = (int)at;
            else if (contains(sum, from->rank, i, &at))
                node->map[t][i] = -1 - (int)at;
            else
                node->map[t][i] = next++;
        }
        for (size_t i = 0; t == 0 && sum && i < sum->count; i++)
            eval_decode_add_reduced(node, from->extents[eval_decode_axis(sum->ints[i], from->rank)]);
    }
    if (next != (int)node->shape.rank) return eval_decode_fail(b, "the result's rank does not fit its axes", "graph.contract");
    return contract_precision(b, node, op);
}
