/* Values that lie below the maximum of their row (divide_by_reciprocal.c). */
#ifndef PASSES_NUMERIC_ROW_MAXIMUM_H
#define PASSES_NUMERIC_ROW_MAXIMUM_H

#include "analysis/analysis.h"

/* Whether v is x - m, m the maximum of the row of x, or more: that maximum's reduction. */
const IrOp *row_maximum(const IrValue *v);
bool is_below_maximum(const IrValue *v);

#endif
