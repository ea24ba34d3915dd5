/* Shared by stage_buffers.c and stage_operands.c: factors of gemms in shared memory. */
#ifndef PASSES_STAGE_INTERNAL_H
#define PASSES_STAGE_INTERNAL_H

#include "gemm_plan.h"
#include "passes_internal.h"

enum { STAGE_MAX_RANK = 16 };

typedef struct {
    PassContext *ctx;
    IrModule *module;
    GemmWarps warps; /* how every gemm of the function divides them */
    bool failed;
} Staging;

typedef enum {
    FILL_AHEAD,  /* copied from memory, stages ahead */
    FILL_BEFORE, /* does not change in the loop: stored once in front of it */
    FILL_INSIDE, /* stored from registers at the gemm */
    FILL_DONE    /* an earlier gemm of the block has the same factor in its buffer */
} Fill;

/* One factor of a gemm, as matrices in shared memory: one for each of its leading indices, in
 * consecutive stages. */
typedef struct {
    Fill fill;
    IrValue *value, *buf;
    bool trans;
    int64_t rows, columns; /* of a matrix, padded */
    int64_t matrices;
} Operand;

typedef struct {
    IrOp *loop; /* null: the gemm is in no loop */
    int64_t stages;
    IrValue *lower, *upper, *step;
    size_t count;
    Operand operands[16];
} Ring;

/* The number of leading indices of a tile. */
int64_t stage_matrices(const IrType *tile);
/* How the factor gets into shared memory; `first_gemm` is the first one of the block. */
Fill stage_fill(const Ring *ring, IrBlock *block, const IrOp *first_gemm, IrValue *value);
/* Allocates the operand's buffer: its matrices in each of `stages`. */
void stage_alloc(Staging *s, IrBuilder *b, Operand *o, int64_t stages, bool mma);
/* Copies the slice of `iteration` into the ring's stage number `stage`. */
void stage_copy(Staging *s, IrBuilder *b, const Ring *ring, const Operand *o, IrValue *iteration, IrValue *stage);
/* The first of the operand's matrices in a stage of the ring. */
IrValue *stage_first_matrix(IrBuilder *b, const Operand *o, IrValue *stage);

#endif
