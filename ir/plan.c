#include "plan.h"

#include <string.h>

const char *ir_step_name(const IrFunc *f) {
    return ir_func_str(f, IR_FN_KERNEL, f->name);
}

bool ir_step_is_set(const IrFunc *f) {
    return ir_func_has(f, IR_FN_KERNEL);
}

int64_t ir_step_order(const IrFunc *f) {
    return ir_func_int(f, IR_FN_STEP, 0);
}

void ir_step_move(IrFunc *f, int64_t order) {
    ir_func_set_int(f, IR_FN_STEP, order);
}

void ir_step_set(IrFunc *f, const char *step, int64_t order) {
    ir_func_set_str(f, IR_FN_KERNEL, step);
    ir_step_move(f, order);
}

/* ---- The plan ---- */

static IrStep *step_of(IrPlan *plan, Arena *arena, const IrFunc *f, size_t functions) {
    const char *name = ir_step_name(f);
    for (size_t i = 0; i < plan->step_count; i++)
        if (strcmp(plan->steps[i].name, name) == 0) return &plan->steps[i];
    IrStep *step = &plan->steps[plan->step_count++];
    *step = (IrStep){.name = name, .order = ir_step_order(f), .versions = ARENA_ARRAY(arena, IrFunc *, functions)};
    return step;
}

static bool has_workspace(const IrPlan *plan, const char *name) {
    for (size_t i = 0; i < plan->workspace_count; i++)
        if (strcmp(plan->workspaces[i].func->params[plan->workspaces[i].param].name, name) == 0) return true;
    return false;
}

static void add_workspaces(IrPlan *plan, const IrFunc *f) {
    for (unsigned i = 0; i < f->param_count; i++)
        if (f->params[i].kind == IR_PARAM_WORKSPACE && !has_workspace(plan, f->params[i].name))
            plan->workspaces[plan->workspace_count++] = (IrWorkspace){f, i};
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
    size_t functions = 1, params = 1;
    for (const IrFunc *f = m->first; f; f = f->next) {
        functions += (f->level & levels) != 0;
        params += f->level & levels ? f->param_count : 0;
    }
    IrPlan plan = {.funcs = ARENA_ARRAY(arena, IrFunc *, functions),
                   .steps = ARENA_ARRAY(arena, IrStep, functions),
                   .workspaces = ARENA_ARRAY(arena, IrWorkspace, params)};
    for (IrFunc *f = m->first; f; f = f->next) {
        if (!(f->level & levels)) continue;
        IrStep *step = step_of(&plan, arena, f, functions);
        plan.funcs[plan.func_count++] = f;
        step->versions[step->version_count++] = f;
        add_workspaces(&plan, f);
    }
    sort(&plan);
    return plan;
}

const IrStep *ir_plan_step(const IrPlan *plan, const IrFunc *f) {
    const char *name = ir_step_name(f);
    const IrStep *step = plan->steps;
    while (strcmp(step->name, name) != 0) step++;
    return step;
}
