#include "plan.h"

#include <string.h>

static IrStep *step_of(IrPlan *plan, Arena *arena, const IrFunc *f, size_t functions) {
    const char *name = ir_func_kernel(f);
    for (size_t i = 0; i < plan->step_count; i++)
        if (strcmp(plan->steps[i].name, name) == 0) return &plan->steps[i];
    IrStep *step = &plan->steps[plan->step_count++];
    *step = (IrStep){.name = name, .order = ir_func_int(f, IR_FN_STEP, 0), .versions = ARENA_ARRAY(arena, IrFunc *, functions)};
    return step;
}

static void sort(IrPlan *plan) {
    for (size_t i = 1; i < plan->step_count; i++) {
        IrStep step = plan->steps[i];
        size_t at = i;
        for (; at > 0 && plan->steps[at - 1].order > step.order; at--) plan->steps[at] = plan->steps[at - 1];
        plan->steps[at] = step;
    }
}

IrPlan ir_plan(Arena *arena, const IrModule *m, unsigned levels) {
    size_t functions = 1;
    for (const IrFunc *f = m->first; f; f = f->next) functions += (f->level & levels) != 0;
    IrPlan plan = {.steps = ARENA_ARRAY(arena, IrStep, functions)};
    for (IrFunc *f = m->first; f; f = f->next) {
        if (!(f->level & levels)) continue;
        IrStep *step = step_of(&plan, arena, f, functions);
        step->versions[step->version_count++] = f;
    }
    sort(&plan);
    return plan;
}
