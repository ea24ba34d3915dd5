/* What the calls that run artifacts share. */
#ifndef API_EXECUTE_H
#define API_EXECUTE_H

#include "api_internal.h"
#include "runtime.h"

/* Options of a call for the runtime, in the arena; the error says what makes no sense. */
RtError api_run_options(const sketchc_run_options *o, const Artifact *a, Arena *arena, RtOptions *r);
sketchc_status api_status_of(const RtError *error);

#endif
