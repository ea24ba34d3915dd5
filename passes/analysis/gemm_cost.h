/* Private to passes/: what an iteration of a loop of gemms costs, for those who choose before layouts are known. */
#ifndef PASSES_ANALYSIS_GEMM_COST_H
#define PASSES_ANALYSIS_GEMM_COST_H

#include "cost.h"
#include "gemm_plan.h"

typedef struct {
    const IrBlock *block; /* of the gemms */
    const IrOp *gemm;     /* the first one */
    int64_t bytes;        /* that the block's loads bring, an iteration */
    double shared;        /* bytes through shared memory of an iteration: written, and read by every warp that multiplies them */
    int64_t sums;         /* accumulators that do not go from one gemm into the next */
    double work;          /* multiply-adds, those of wide factors more than once */
    bool cores;           /* tensor cores do them */
} GemmCost;

/* Of all gemms of the function; false: there is none, or not all stand in one block. */
bool gemm_cost(PassContext *ctx, IrFunc *f, GemmCost *cost);
/* Seconds of the products of an iteration of one block on a multiprocessor of its own. */
double gemm_cost_seconds(const GemmCost *cost, const Target *target, const CostMachine *machine);
/* Blocks that a multiprocessor holds, by registers and the stages that the loop asks for. */
int64_t gemm_cost_beside(const GemmCost *cost, PassContext *ctx, IrFunc *f);
/* Does the load's slice depend on the loop's variable? */
bool gemm_cost_moves_with(PassContext *ctx, const IrOp *load, const IrOp *loop);
int64_t gemm_cost_tile_bytes(const IrType *tile); /* -1: an extent is symbolic */

#endif
