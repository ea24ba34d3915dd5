/* The plan of a lowered module: its steps in the order of their launches, each with its versions, and the memory that they hand
 * each other. Emitters, artifacts, predictions and the interpreter go by it. It stands in the attributes `kernel` and `step` of functions,
 * which plan.c alone reads and writes. */
#ifndef IR_PLAN_H
#define IR_PLAN_H

#include "ir.h"

typedef struct {
    const char *name;
    int64_t order;          /* attribute step; of equal ones the module's order counts */
    unsigned version_count; /* one at least */
    IrFunc **versions;      /* in order of preference: the first one whose guard holds runs */
} IrStep;
typedef struct {
    const IrFunc *func; /* the first one that has it */
    unsigned param;     /* its name, type and elements */
} IrWorkspace;
typedef struct {
    size_t func_count, step_count, workspace_count;
    IrFunc **funcs; /* all versions, in the module's order */
    IrStep *steps;
    IrWorkspace *workspaces; /* one a name, in the module's order */
} IrPlan;
/* Of the functions of these levels. */
IrPlan ir_plan(Arena *arena, const IrModule *m, unsigned levels);
/* The step that a function of the plan is a version of. */
const IrStep *ir_plan_step(const IrPlan *plan, const IrFunc *f);

/* The name of the step that a function is a version of; its own name where nothing was set. */
const char *ir_step_name(const IrFunc *f);
bool ir_step_is_set(const IrFunc *f);
/* The place of a function's step in the order of launches. */
int64_t ir_step_order(const IrFunc *f);
/* Makes the function a version of the step. */
void ir_step_set(IrFunc *f, const char *step, int64_t order);
void ir_step_move(IrFunc *f, int64_t order);

#endif
