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
    IrValue *full; /* barriers on which the copy engine's copies arrive; null: cp.async */
    int64_t stages;
    IrOp *behind; /* the last op that belongs to the loop; null: itself */
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
/* The same for the copy engine and wgmma. */
void stage_alloc_boxes(Staging *s, IrBuilder *b, Operand *o, int64_t stages);
/* Whether the copy engine can bring this load's slice: two ranges of whole extents, the second along the
 * tensor's last axis, its rows in blocks that a swizzle has. */
bool stage_fits_boxes(PassContext *ctx, const IrOp *load);
/* Copies the slice of `iteration` into the ring's stage number `stage`. */
void stage_copy(Staging *s, IrBuilder *b, const Ring *ring, const Operand *o, IrValue *iteration, IrValue *stage);
/* By the copy engine and wgmma (stage_boxes.c): the rows of the function's gemms if all may be, else 0; the ring's
 * barriers in front of its loop; an iteration's schedule, around the gemms that stand in its block already;
 * what follows the loop. */
int64_t stage_wants_boxes(PassContext *ctx, IrFunc *f);
/* Asks in the function's guard for extents that the engine's coordinates reach; other sizes take another version. */
void stage_boxes_guard(PassContext *ctx, IrFunc *f);
void stage_boxes_prologue(Staging *s, IrBuilder *b, Ring *ring);
void stage_boxes_iteration(Staging *s, Ring *ring, IrOp *const *gemms, size_t count);
void stage_boxes_epilogue(const Ring *ring);
/* The number of an iteration, from 0, modulo the stages `ahead` of it. */
IrValue *stage_number(IrBuilder *b, const Ring *ring, IrValue *iteration);
IrValue *stage_of(IrBuilder *b, const Ring *ring, IrValue *iteration, int64_t ahead);
/* The loop whose body the block is, or null. */
IrOp *stage_loop(IrBlock *block);
/* The first of the operand's matrices in a stage of the ring. */
IrValue *stage_first_matrix(IrBuilder *b, const Operand *o, IrValue *stage);

#endif
