/* Shared by lower_buffers.c and lower_buf_gemm.c: buffers in shared memory. */
#ifndef PASSES_LOWER_LOWER_BUFFERS_INTERNAL_H
#define PASSES_LOWER_LOWER_BUFFERS_INTERNAL_H

#include "lower_internal.h"

/* A buffer at kernel level. */
typedef struct {
    IrValue *shared;                     /* pointer to stage 0 */
    int64_t rows, columns, pitch, stage; /* elements; stage: from one to the next */
    int64_t vec, per_phase, max_phase;   /* swizzle; max_phase 1: none */
    Dtype dtype;
} Buffer;

/* What stands for the buffer. */
Buffer lower_buffer_of(Lower *x, IrValue *buf);
/* Element offset of (row, column) within a stage; `column` at a multiple of vec plus `within`. */
IrValue *lower_buffer_offset(IrBuilder *b, const Buffer *buf, IrValue *row, IrValue *column);
/* Where a stage begins. */
IrValue *lower_stage_offset(IrBuilder *b, const Buffer *buf, IrValue *stage);
/* One product, or two that have their first factor in common. */
void lower_buf_gemm(Lower *x, IrOp *op);

#endif
