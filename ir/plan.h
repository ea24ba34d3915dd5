/* The plan of a lowered module: its steps in the order of their launches, each with its versions. Artifacts, predictions and the
 * interpreter go by it; it is read from the attributes `kernel` and `step`. */
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
    size_t step_count;
    IrStep *steps;
} IrPlan;
/* Of the functions of these levels. */
IrPlan ir_plan(Arena *arena, const IrModule *m, unsigned levels);

#endif
