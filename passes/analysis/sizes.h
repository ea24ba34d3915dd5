/* The sizes to optimise for: those of the cases that a file declares, which no other source of passes/ reads. They say which
 * versions are made and how work is shared out; what is right at all sizes never depends on them. */
#ifndef PASSES_ANALYSIS_SIZES_H
#define PASSES_ANALYSIS_SIZES_H

#include "passes.h"

/* How many sets of sizes there are; the others take one by its number `asked`, from 0. */
size_t sizes_asked(const PassContext *ctx);
/* An expression there, over the caller's symbols alone. */
bool size_at_plain(const PassContext *ctx, size_t asked, const Aff *e, int64_t *value);
/* Over derived symbols of the function, too; num_sms is the target's. */
bool size_at(const PassContext *ctx, const IrFunc *func, size_t asked, const Aff *e, int64_t *value);
/* The largest value at any of them; 0: none tells, or none is positive. */
int64_t size_most(const PassContext *ctx, const IrFunc *func, const Aff *e);
/* The elements of the function's largest tensor, or `least` where that is more. */
double size_weight(const PassContext *ctx, const IrFunc *func, size_t asked, double least);
/* Do sizes ask for a step of the plan, at which `used` is 1, or is it 1 whatever the sizes are? */
bool step_is_asked_for(const PassContext *ctx, const IrFunc *func, const Aff *used);

#endif
