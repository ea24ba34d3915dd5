/* What a kernel moves and does at given sizes, counted from its kernel-level IR. */
#ifndef MODEL_COST_KERNEL_H
#define MODEL_COST_KERNEL_H

#include "cost.h"
#include "ir.h"

/* A symbol's value at launch; false: unknown. */
typedef bool (*CostSymbol)(void *ctx, const char *name, int64_t *value);

/* Counts one block in the middle of the grid, all its threads side by side: index arithmetic is
 * carried out, so that masks, trip counts, the sectors that a warp's access touches and the
 * conflicts of its shared-memory banks are those of the addresses; data-dependent conditions count
 * as held, but for those on flags that an earlier launch left (whole numbers in a workspace), unless `flagged` is to count too. A loop is walked once, at its middle iteration. Device memory: a tensor that is read
 * again comes from L2 where what the resident blocks share fits there. False when grid or trip
 * counts need a value that is not known. */
bool cost_kernel(const CostMachine *machine, IrFunc *kernel, CostSymbol symbol, void *ctx, bool flagged, CostLaunch *launch);

#endif
