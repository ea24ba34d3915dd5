/* Pass dependent_steps: steps of a plan whose launches begin before the one ahead of them is over.
 *
 * what:   every step but the first waits itself, at its beginning, until the launch before it is over and all that it wrote is seen
 *         (`dependent`); so the device gets its blocks ready while the last ones of the step before run, instead of behind them.
 *         Every step that has one behind it lets that begin as soon as all of its own blocks have (`releases`). As all steps wait,
 *         what a step waits for are all steps before it. Steps whose blocks meet must be resident all at once: they are launched
 *         behind the step before, as ever, and the one behind them as well.
 * needs:  kernel level, after meet_steps; target cuda with clusters (compute capability 9.0)
 * keeps:  everything
 * breaks: nothing
 * source: CUDA C++ Programming Guide, programmatic dependent launch
 *
 *     @a(...) {kernel = "a", step = 0}           @a(...) {kernel = "a", step = 0, releases = 1}
 *     @b(...) {kernel = "b", step = 1}     =>    @b(...) {kernel = "b", step = 1, dependent = 1}
 */
#include "passes_internal.h"

static bool is_kernel(const IrFunc *f) {
    return f->level == IR_LEVEL_KERNEL;
}

static bool is_together(const IrFunc *f) {
    return ir_func_attr_int(f, "cooperative", 0) != 0;
}

bool pass_dependent_steps(PassContext *ctx) {
    int64_t first = INT64_MAX, last = INT64_MIN;
    if (!target_has(ctx->target, TARGET_CLUSTER)) return true;
    for (const IrFunc *f = ctx->module->first; f; f = f->next) {
        int64_t step = ir_func_attr_int(f, "step", 0);
        if (is_kernel(f) && step < first) first = step;
        if (is_kernel(f) && step > last) last = step;
    }
    for (IrFunc *f = ctx->module->first; f; f = f->next) {
        int64_t step = ir_func_attr_int(f, "step", 0);
        if (!is_kernel(f) || is_together(f)) continue;
        if (step > first) ir_func_attr_set_int(f, "dependent", 1);
        if (step < last) ir_func_attr_set_int(f, "releases", 1);
    }
    return true;
}
