/* How a block's warps share a gemm tile: chosen once, read by staging, layouts and expansion. */
#ifndef PASSES_GEMM_PLAN_H
#define PASSES_GEMM_PLAN_H

#include "ir.h"
#include "target.h"

typedef struct {
    const char *atom;       /* a row of atoms.def, or "fma" */
    int64_t m, n, k;        /* of the tile */
    int64_t warps, wm, wn;  /* warps in all, along m, along n */
    int64_t pad_m, pad_n, pad_k;
} GemmPlan;

/* The plan for acc (m x n) += a (m x k) b (k x n), `in` the operands' dtype, `acc` the accumulator's;
 * warps 0: chosen. */
GemmPlan gemm_plan(const Target *target, int64_t m, int64_t n, int64_t k, Dtype in, Dtype acc, int64_t warps);
bool gemm_plan_is_mma(const GemmPlan *plan);
/* The plan as attributes of a buf.gemm op, and back. */
void gemm_plan_set(IrOp *op, const GemmPlan *plan);
GemmPlan gemm_plan_get(const IrOp *op);

#endif
