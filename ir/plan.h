/* The plan of a lowered module: its steps in the order of their launches, each with its versions, and the memory that they hand
 * each other. Artifacts, predictions and the interpreter go by it. It stands in the attributes `kernel` and `step` of functions,
 * which this file alone reads and writes, but for the name (ir_func_kernel). */
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
    size_t step_count, workspace_count;
    IrStep *steps;
    IrWorkspace *workspaces; /* one a name, in the module's order */
} IrPlan;
/* Of the functions of these levels. */
IrPlan ir_plan(Arena *arena, const IrModule *m, unsigned levels);

/* The place of a function's step in the order of launches. */
int64_t ir_step_order(const IrFunc *f);
/* Makes it a version of the step. */
void ir_step_set(IrFunc *f, const char *step, int64_t order);
void ir_step_move(IrFunc *f, int64_t order);

#endif
