/* How long the kernels of a sketch should take, and what binds them. */
#include "api_internal.h"

#include "cost_kernel.h"
#include "plan.h"

#include <math.h>
#include <string.h>

typedef struct {
    const IrCase *sizes;
    const IrFunc *f;
    const Target *target;
    unsigned depth;
} Sizes;

enum { MOST_DERIVED = 16 };

static bool symbol_leaf(void *ctx, const Aff *leaf, int64_t *value);

/* From the case, else computed from the others. */
static bool symbol_value(void *ctx, const char *name, int64_t *value) {
    Sizes *s = ctx;
    for (size_t i = 0; i < s->sizes->symbol_count; i++)
        if (strcmp(s->sizes->symbols[i], name) == 0) {
            *value = s->sizes->values[i];
            return true;
        }
    if (strcmp(name, "num_sms") == 0 || strcmp(name, "num_cores") == 0) {
        *value = s->target->sms;
        return true;
    }
    for (unsigned i = 0; s->f && i < s->f->param_count; i++) {
        const IrParam *p = &s->f->params[i];
        if (p->kind != IR_PARAM_SYMBOL || !p->derived || strcmp(p->name, name) != 0 || s->depth == MOST_DERIVED) continue;
        s->depth++;
        bool ok = aff_eval(p->derived, symbol_leaf, s, value);
        s->depth--;
        return ok;
    }
    return false;
}

static bool symbol_leaf(void *ctx, const Aff *leaf, int64_t *value) {
    return leaf->kind == AFF_SYM && symbol_value(ctx, leaf->name, value);
}

/* The first version of a step whose guard holds. */
static IrFunc *chosen(const IrStep *step, Sizes *s) {
    for (unsigned i = 0; i < step->version_count; i++) {
        IrFunc *f = step->versions[i];
        int64_t value = 1;
        s->f = f;
        if (f->guard && (!aff_eval(f->guard, symbol_leaf, s, &value) || value <= 0)) continue;
        return f;
    }
    return NULL;
}

/* Each tensor moved once: the case's floor. */
static double floor_of(const CostMachine *machine, const IrFunc *f, Sizes *s) {
    double read = 0, written = 0;
    for (unsigned i = 0; f && i < f->param_count; i++) {
        const IrParam *p = &f->params[i];
        if (p->kind != IR_PARAM_TENSOR || !p->type) continue;
        double bytes = (double)dtype_size(p->type->dtype);
        for (unsigned d = 0; d < p->type->rank; d++) {
            int64_t extent = 0;
            aff_eval(p->type->extents[d], symbol_leaf, s, &extent);
            bytes *= (double)extent;
        }
        if (p->direction & IR_DIR_IN) read += bytes;
        if (p->direction & IR_DIR_OUT) written += bytes;
    }
    return cost_floor(machine, read, written);
}

static bool add_launch(const CostMachine *machine, IrFunc *f, Sizes *s, bool flagged, Arena *arena, Prediction *p) {
    PredictedLaunch l = {.kernel = f};
    const Aff *order = ir_func_aff(f, IR_FN_ORDER);
    if (order) aff_eval(order, symbol_leaf, s, &l.rows_together);
    if (!cost_kernel(machine, f, symbol_value, s, flagged, &l.launch)) return false;
    if (l.launch.blocks <= 0) return true; /* not launched at all */
    l.estimate = cost_estimate(machine, &l.launch);
    l.floor_s = cost_floor(machine, l.launch.read, l.launch.written);
    p->seconds += l.estimate.seconds;
    VEC_PUSH(arena, &p->launches, l);
    return true;
}

static void predict_launches(IrModule *m, const CostMachine *machine, const Target *target, const IrCase *sizes, bool flagged, Arena *arena,
                             Prediction *p) {
    Sizes s = {.sizes = sizes, .target = target};
    *p = (Prediction){.known = true};
    IrPlan plan = ir_plan(arena, m, IR_LEVEL_KERNEL);
    for (size_t i = 0; i < plan.step_count && p->known; i++) {
        IrFunc *f = chosen(&plan.steps[i], &s);
        if (!f) continue;
        p->floor_s = floor_of(machine, f, &s);
        p->known = add_launch(machine, f, &s, flagged, arena, p);
    }
    if (!p->launches.len) p->seconds = machine->launch;
    p->known = p->known && p->seconds > 0 && isfinite(p->seconds);
    p->percent = p->known ? 100 * p->floor_s / p->seconds : 0;
}

/* Work behind flags without which not even the tensors are moved is no exception. */
void api_predict_case(IrModule *m, const CostMachine *machine, const Target *target, const IrCase *sizes, Arena *arena, Prediction *p) {
    predict_launches(m, machine, target, sizes, false, arena, p);
    bool left_out = false;
    for (size_t i = 0; i < p->launches.len; i++) left_out |= p->launches.data[i].launch.exceptions > 0;
    if (left_out && p->known && p->seconds < p->floor_s) predict_launches(m, machine, target, sizes, true, arena, p);
}

void api_predict_cases(IrModule *m, const Target *target, Arena *arena, DesignTrial *trial) {
    CostMachine machine;
    bool known = m->case_count && cost_machine(target, &machine);
    trial->seconds = trial->floor_s = 0;
    for (size_t i = 0; i < m->case_count && known; i++) {
        Prediction p;
        api_predict_case(m, &machine, target, &m->cases[i], arena, &p);
        known = p.known;
        trial->seconds += p.seconds;
        trial->floor_s += p.floor_s;
    }
    if (!known) trial->seconds = -1;
}
