#ifndef VERIFY_COMPARE_INTERNAL_H
#define VERIFY_COMPARE_INTERNAL_H

#include "verify.h"

/* Above this share of near ties that came out otherwise the case is refused; so many always pass, but of EITHER no more than
 * an eighth of the elements. */
#define COMPARE_UNDECIDED_SHARE 1e-3
enum { COMPARE_UNDECIDED_FLOOR = 4, COMPARE_STEP_FLOOR = 8 };
enum { COMPARE_RMS_MIN_COUNT = 64 }; /* fewer elements have no meaningful rms */

double compare_paper_tau(Dtype dtype);

/* True when the poison pattern cannot be an honest result of this dtype. */
bool poison_is_distinctive(Dtype dtype);
bool poison_at(Dtype dtype, unsigned round, const void *element);

#endif
