/* What is known of signs and exponentials. */
#ifndef PASSES_ANALYSIS_EXPONENTIALS_H
#define PASSES_ANALYSIS_EXPONENTIALS_H

#include "analysis.h"
#include "presence.h"

/* Whether the scalar is known to be above 0, or NaN. */
bool is_positive(const IrValue *v);
/* Whether v is made of exponentials of what was filled with -inf along the axis, and where that was absent: v is 0 there. */
bool is_exponential_of_filled(const IrValue *v, PresenceCache *cache, unsigned axis, PresenceAxis *absent);

#endif
