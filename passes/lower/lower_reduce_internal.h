/* Shared by lower_reduce.c and lower_reduce_warps.c: a reduction along an axis of a tile. */
#ifndef PASSES_LOWER_LOWER_REDUCE_INTERNAL_H
#define PASSES_LOWER_LOWER_REDUCE_INTERNAL_H

#include "lower_internal.h"

/* Barriers of the cluster wait until each thread's stores are in global memory, too, of which a block that stores rows has many on
 * their way. What a block's own barrier counts needs no fence. */
enum { SENDS = 1, MOST_MEETINGS = 32 };

typedef struct {
    IrOp *op;
    IrOpcode combine;
    Dtype dtype;
    uint32_t axes;
    Dist from, kept; /* of the operand, of the result */
    IrValue *frag;   /* the operand with the identity in absent lanes */
} Reduction;

/* An element of what is left, at its index in the result. */
IrValue *lower_kept_get(Lower *x, IrBuilder *b, const Reduction *r, IrValue *frag, IrValue *const *index);
/* The bits of lane or warp along the reduced axes. */
int64_t lower_reduced_bits(const Reduction *r, DistSource source);
/* Combines the lanes of all warps of a block that hold parts of one result. */
IrValue *lower_reduce_warps(Lower *x, const Reduction *r, IrValue *frag);
/* Each block writes its partial into all blocks' memory; every thread combines them in the order of the ranks. */
IrValue *lower_reduce_blocks(Lower *x, const Reduction *r, IrValue *frag);
/* A reduction of the same lanes that was lowered before in the same block: it may only differ in keeping the axes. */
const Rep *lower_found_before(Lower *x, const IrOp *op);

#endif
