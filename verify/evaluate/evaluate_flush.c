/* Which exponentials of an operator kernels may take for 0 below the normal numbers. */
#include "analyzer.h"
#include "evaluate_internal.h"

/* How a use of an exponential, or of what is made of it, goes on. */
typedef struct {
    bool mixed, rounded; /* more than the exponential itself by now; rounded to 16 bits */
    unsigned steps;      /* left */
} Path;

static bool ends_in_products(const IrValue *v, Path *path);

/* Do all uses of v end in sums of the exponential itself, or in products of what it was rounded to? */
static bool use_ends(const IrOp *op, unsigned index, Path *path) {
    Path on = *path;
    const IrValue *made = op->result_count ? &op->results[0] : NULL;
    bool ends = false;
    switch (op->opcode) {
    case IR_GRAPH_CONTRACT:
        return path->rounded;
    case IR_GRAPH_REDUCE:
    case IR_YIELD: {
        const IrOp *from = op->opcode == IR_YIELD ? op->block->parent : op;
        IrKind kind = from && from->opcode != IR_FOR ? ir_op_kind(from) : IR_KIND_MAX;
        if (kind == IR_KIND_ADD) return path->rounded || !path->mixed;
        if (kind || op->opcode != IR_YIELD) return false;
        ends = ends_in_products(&from->results[0], &on);
        break;
    }
    case IR_CAST:
        ANALYZER_ASSUME(made);
        if (!dtype_is_float(made->type->dtype)) return false;
        on.rounded |= dtype_bits(made->type->dtype) == 16;
        ends = ends_in_products(made, &on);
        break;
    case IR_MUL:
    case IR_DIV:
    case IR_SELECT:
        if (index == (op->opcode == IR_DIV ? 1 : op->opcode == IR_SELECT ? 0 : 2)) return false; /* a divisor, a condition */
        on.mixed = true;
        ends = ends_in_products(made, &on);
        break;
    case IR_GRAPH_BROADCAST:
    case IR_GRAPH_RESHAPE:
    case IR_GRAPH_TRANSPOSE:
    case IR_GRAPH_ELEMENT:
        ends = index == 0 && ends_in_products(made, &on);
        break;
    default:
        return false;
    }
    path->steps = on.steps;
    return ends;
}

static bool ends_in_products(const IrValue *v, Path *path) {
    ANALYZER_ASSUME(v);
    for (const IrUse *use = v->uses; use; use = use->next)
        if (!path->steps || (path->steps--, !use_ends(use->op, use->index, path))) return false;
    return v->uses;
}

/* Weights of a softmax that are rounded to 16 bits for products, and else summed: kernels may take an exponential below the least normal
 * number of f32 for 0 (passes/numeric/relax_precision.c), of a row whose greatest is 1. What becomes of that is the operator's to tell. */
bool evaluate_may_flush(const IrOp *op) {
    if ((op->opcode != IR_EXP && op->opcode != IR_EXP2) || op->results[0].type->dtype != DTYPE_F32) return false;
    const IrOp *less = op->operands[0]->def, *all = less && less->opcode == IR_SUB ? less->operands[1]->def : NULL;
    Path path = {.steps = 1000};
    return all && all->opcode == IR_GRAPH_BROADCAST && ends_in_products(&op->results[0], &path);
}
