#ifndef PASSES_ANALYSIS_DISTRIBUTION_INTERNAL_H
#define PASSES_ANALYSIS_DISTRIBUTION_INTERNAL_H

#include "distribution.h"
#include "layout.h"

/* Fills what a layout says; rank and extents are set. */
void dist_from_layout(Dist *d, const Layout *l);

#endif
