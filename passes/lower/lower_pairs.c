/* Products of one step that have their first factor in common: it is read and rounded once for both.
 *
 *     %c = buf.gemm(%a, %s, %b, %s, %c0)            for(kk) { %x = fragments of %a
 *     %t = mod(%k, 3)                        =>               %y = fragments of %b    c += x y
 *     %d = buf.gemm(%a, %t, %v, %t, %d0)                      %z = fragments of %v    d += x z }
 *
 * Only for 32-bit factors (tf32), each of which costs three instructions beside its load; a factor of 16 bits or less costs a quarter of an
 * ldmatrix. Each sum's products keep their order. */
#include "lower_internal.h"

#include "analysis/gemm_plan.h"

#include <string.h>

enum { PAIRS = 1 /* the switch */ };

/* The next (or previous) product, where there is nothing but arithmetic on indices in between. */
static IrOp *product_beside(IrOp *op, bool behind) {
    for (op = behind ? op->next : op->prev; op; op = behind ? op->next : op->prev) {
        if (op->opcode == IR_BUF_GEMM) return op;
        bool index = op->result_count == 1 && op->results[0].type->kind == IR_TYPE_SCALAR;
        if (!index || op->region_count || !ir_has_trait(op, IR_PURE)) return NULL;
    }
    return NULL;
}

static bool same_plan(const IrOp *first, const IrOp *second) {
    GemmPlan a = gemm_plan_get(first), b = gemm_plan_get(second);
    return gemm_plan_is_mma(&a) && a.atom == b.atom && a.pad_m == b.pad_m && a.pad_n == b.pad_n && a.pad_k == b.pad_k &&
           a.warps == b.warps && a.wm == b.wm && a.wn == b.wn;
}

static bool shares(Lower *x, const IrOp *first, const IrOp *second) {
    const IrType *factor = first->operands[0]->type, *other = second->operands[2]->type;
    if (!PAIRS || first->operands[0] != second->operands[0] || second->operands[4] == &first->results[0]) return false;
    if (factor->dtype != DTYPE_F32 || other->dtype != DTYPE_F32 || first->results[0].type != second->results[0].type ||
        !same_plan(first, second))
        return false;
    if (ir_attr_bool(first, "trans_a") != ir_attr_bool(second, "trans_a") || first->results[0].type->rank != 2) return false;
    return ir_aff_of(x->module, first->operands[1]) == ir_aff_of(x->module, second->operands[1]);
}

IrOp *lower_pair_before(Lower *x, IrOp *op) {
    IrOp *first = product_beside(op, false);
    return first && shares(x, first, op) && !lower_pair_before(x, first) ? first : NULL;
}

bool lower_pair_waits(Lower *x, IrOp *op) {
    IrOp *second = product_beside(op, true);
    return second && lower_pair_before(x, second) == op;
}
