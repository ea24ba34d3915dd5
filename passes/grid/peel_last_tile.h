/* A version of a kernel for tiles that are whole. */
#ifndef PASSES_GRID_WHOLE_TILES_H
#define PASSES_GRID_WHOLE_TILES_H

#include "analysis/analysis.h"

/* Does the kernel, behind grid, take tensors of one axis tile by tile, of which a case's last one is not whole? Then: its body
 * once for tiles that are whole, and as it was for the last. */
bool has_whole_tiles(PassContext *ctx, IrFunc *f);
void part_whole_tiles(PassContext *ctx, IrFunc *f);

#endif
