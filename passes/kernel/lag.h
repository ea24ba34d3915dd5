/* Blocks that map an item a turn behind its sums (fuse_by_grid_barrier.c, prefetch_rows.c). */
#ifndef PASSES_KERNEL_LAG_H
#define PASSES_KERNEL_LAG_H

#include "analysis/analysis.h"

typedef struct {
    IrOp *loop;                      /* over turns: from 0 on, one more than the block has items */
    IrOp *first, *second;            /* branches: what a turn does of the item that comes, and of the one of the turn before */
    IrValue *coming, *item;          /* their numbers, in the branches */
    IrValue *block, *blocks, *turns; /* outside of the loop; the block's item of turn t is block + t * blocks */
} Lag;
/* What the parts load by their item's number alone is copied to shared memory a turn ahead; what the second part needs of it is carried to the next turn. */
void load_lagging(PassContext *ctx, IrFunc *f, Lag *lag);
/* Reductions of the block that need nothing of each other wait once (share_barriers.c). */
void share_barriers(Arena *scratch, IrBlock *block);

#endif
