/* Shared by pingpong.c and pingpong_cut.c: the halves of a loop's body. */
#ifndef PASSES_GEMM_PINGPONG_INTERNAL_H
#define PASSES_GEMM_PINGPONG_INTERNAL_H

#include "stage_internal.h"

typedef enum { FREE, FIRST, SECOND } Half; /* FREE: made of the loop's variable alone, again wherever it is read */

typedef struct {
    const IrBlock *body;
    PointerTable half; /* of ops and of the loop's arguments */
    PointerTable made; /* ops that are products or rest on one */
    VEC(IrValue *) crossing;
} Cut;

/* Where an op, or an argument of the loop, is computed. */
Half pingpong_half_of(const Cut *c, const void *key);
/* Is it a product of warpgroups? */
bool pingpong_is_product(const IrOp *op);
/* What the product is added to. */
IrValue *pingpong_summand(const IrOp *product);
/* Does an iteration hand the value to the next one's second half? */
bool pingpong_is_crossing(const Cut *c, const IrValue *v);
/* Deals the body's ops to the halves; false: it has not two products one behind the other. */
bool pingpong_cut_body(Arena *scratch, IrBlock *body, Cut *c);

#endif
