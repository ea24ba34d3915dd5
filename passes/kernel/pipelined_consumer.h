/* Blocks that map an item one stage behind its sums: a pipelined consumer (fuse_by_grid_barrier.c, prefetch_rows.c). */
#ifndef PASSES_KERNEL_PIPELINED_CONSUMER_H
#define PASSES_KERNEL_PIPELINED_CONSUMER_H

#include "analysis/analysis.h"

typedef struct {
    IrOp *loop;             /* over iterations: from 0 on, one more than the block has items */
    IrOp *first, *second;   /* branches: what an iteration does of the item that comes, and of the one of the iteration before */
    IrValue *coming, *item; /* their numbers, in the branches */
    IrValue *block, *blocks, *iterations; /* outside of the loop; the block's item of iteration t is block + t * blocks */
} PipelinedConsumer;
/* What the parts load by their item's number alone is copied to shared memory an iteration ahead; what the second part needs of it is carried to the next iteration. */
void prefetch_for_consumer(PassContext *ctx, IrFunc *f, PipelinedConsumer *consumer);
/* Reductions of the block that need nothing of each other wait once (share_barriers.c). */
void share_barriers(Arena *scratch, IrBlock *block);

#endif
