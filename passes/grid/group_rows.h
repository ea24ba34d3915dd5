/* How many rows make one iteration. */
#ifndef PASSES_GRID_GROUP_ROWS_H
#define PASSES_GRID_GROUP_ROWS_H

#include "analysis/analysis.h"

/* Of rows that all read another tensor's row, too (rows_that_share), so many make one iteration, around which loops go. */
int64_t group_rows_that_share(const PassContext *ctx, const IrOp *innermost);

#endif
