/* How a block's warps share a gemm tile: chosen once, read by staging, layouts and expansion. */
#ifndef PASSES_ANALYSIS_GEMM_PLAN_H
#define PASSES_ANALYSIS_GEMM_PLAN_H

#include "passes.h"

typedef struct {
    IrAtom atom;           /* of warps, of warpgroups, or fma */
    int64_t m, n, k;       /* of the tile */
    int64_t warps, wm, wn; /* warps in all, along m, along n */
    int64_t pad_m, pad_n, pad_k;
} GemmPlan;

typedef struct {
    IrAtom atom;
    Dtype in, acc;
    int64_t rows, columns, depth; /* what a warp covers at least; a step along k */
    bool k_major;                 /* both factors must be contiguous along k */
    unsigned features;            /* TARGET_* that it needs */
    int sums;                     /* bits that its sums keep */
    int bits;                     /* of a factor that count; 0: all of its type's */
    bool registers;               /* the first factor may come from registers */
} GemmAtom;

/* acc (lead x m x n) += a (m x k) b (k x n), `in` the factors' dtype, `acc` the accumulator's. */
typedef struct {
    int64_t lead, m, n, k;
    Dtype in, acc;
    bool k_major; /* both factors are contiguous along k */
    int sums;     /* bits that sums have to keep */
    int bits;     /* of a factor that have to count, where they may be fewer than its type's; else 0 */
} GemmShape;
GemmShape gemm_shape(const IrOp *gemm); /* of a tile.gemm */
/* What multiplies factors of this type into such accumulators. */
const GemmAtom *gemm_atom(const Target *target, const GemmShape *shape);

/* How all gemms of a function divide its warps: those of one height alike, so that what goes from
 * one to another stays in its registers. */
enum { GEMM_HEIGHTS = 8 };
typedef struct {
    int64_t all; /* 0: the function has no gemm */
    bool wgmma;  /* warpgroups of four multiply, 64 rows each */
    unsigned count;
    int64_t m[GEMM_HEIGHTS], wm[GEMM_HEIGHTS]; /* height of the tile, warps along it */
} GemmWarps;
GemmWarps gemm_warps(PassContext *ctx, IrFunc *f);
/* Whether a warpgroup's instruction does this product as it is: of a tile of 64, 128 or 256 rows and at most
 * 256 columns, in steps of the instruction's depth. */
bool gemm_fits_wgmma(const Target *target, GemmShape shape);
/* Whether it may have its first factor in registers. */
bool gemm_has_registers(const Target *target, GemmShape shape);
/* All gemms of a function, each of which fits and has `m` rows, done so. */
GemmWarps gemm_warps_wgmma(int64_t m);

GemmPlan gemm_plan(const Target *target, GemmShape shape, const GemmWarps *warps);
bool gemm_plan_is_mma(const GemmPlan *plan);
bool gemm_plan_is_wgmma(const GemmPlan *plan);
int64_t gemm_plan_depth(const GemmPlan *plan); /* of a step along k; 1 for fma */
/* The plan as attributes of a buf.gemm op, and back. */
void gemm_plan_set(IrOp *op, const GemmPlan *plan);
GemmPlan gemm_plan_get(const IrOp *op);

#endif
