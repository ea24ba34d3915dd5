/* Private to passes/: the order of a product's tiles. */
#ifndef PASSES_GRID_TILE_ORDER_H
#define PASSES_GRID_TILE_ORDER_H

#include "analysis/analysis.h"

/* Of the rows x columns tiles that two loops of a grid make, one in the other: in groups of how many rows, column after column within
 * one, blocks should take them, as a constant or a derived symbol of the kernel (from 1 where there are rows). NULL: row after row. */
const Aff *tile_order_group(PassContext *ctx, IrFunc *f, IrOp *row, IrOp *column, const Aff *rows, const Aff *columns);
/* Is there a case whose tiles it puts in groups? */
bool tile_order_is_asked_for(PassContext *ctx, IrFunc *f, IrOp *row, IrOp *column);

#endif
