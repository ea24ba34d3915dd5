/* What is varied beside sizes: whole numbers at some of the ragged sizes, other scalars, and special values in each tensor. */
#include "analyzer.h"
#include "verify_plan.h"

#include <math.h>
#include <string.h>

enum { SPECIAL_ELEMENTS = 1 << 17 };
#define SPECIAL_WORK ((double)(1 << 22))

/* ---- Special values ---- */

static bool is_one_of(const char *generator, const char *a, const char *b) {
    return strcmp(generator, a) == 0 || strcmp(generator, b) == 0;
}

/* Structure is a promise that a sketch may build on; numbers drawn from a range are none. */
static bool takes_specials(const TaskPlan *plan, unsigned i) {
    const IrParam *p = &plan->graph->params[i];
    const IrCase *c = plan->tasks[0].data;
    if (p->kind != IR_PARAM_TENSOR) return false;
    const IrValue *value = plan->graph->body->args[i];
    bool is_float = dtype_is_float(value->type->dtype);
    if (!value->uses || !value->type->rank) return false;
    for (size_t k = 0; c && k < c->data_count; k++)
        if (strcmp(c->data[k].tensor, p->name) == 0)
            return is_one_of(c->data[k].generator, is_float ? "uniform" : "randint", is_float ? "normal" : "randint");
    return true;
}

/* Whether the elements are numbers that are computed with, and not also indices, lengths or choices, whose range a sketch may rely on: whatever is made
 * of them goes through arithmetic, moves and folds to the results. */
static bool is_number(const IrValue *value, unsigned depth) {
    enum { DEEP = 64 };
    for (const IrUse *use = value->uses; use; use = use->next) {
        const IrOp *op = use->op;
        if (op->opcode == IR_RETURN) continue;
        bool compares = op->result_count && op->results[0].type->dtype == DTYPE_BOOL && value->type->dtype != DTYPE_BOOL;
        if (depth == DEEP || compares || !ir_has_trait(op, IR_ELEMENTWISE | IR_FOLDS | IR_ALONG)) return false;
        for (unsigned i = 0; i < op->result_count; i++)
            if (!is_number(&op->results[i], depth + 1)) return false;
    }
    return true;
}

static bool may_go_beyond(const IrValue *value) {
    Dtype dtype = value->type->dtype;
    return !dtype_is_float(dtype) && dtype != DTYPE_BOOL && is_number(value, 0);
}

/* Of the sizes with few elements: where all symbols are large, and where the largest is. */
static void choose_special_sizes(const TaskPlan *plan, const Task *chosen[2]) {
    double best[2] = {0, 0};
    for (size_t i = 0; i < plan->count; i++) {
        const Task *t = &plan->tasks[i];
        if (!t->sizes || !sizes_are_small(plan->graph, t->sizes, SPECIAL_ELEMENTS, SPECIAL_WORK)) continue;
        double least = INFINITY, most = 0;
        for (size_t k = 0; k < t->sizes->count; k++) {
            least = fmin(least, (double)t->sizes->values[k].value);
            most = fmax(most, (double)t->sizes->values[k].value);
        }
        double scores[2] = {least, least < 2 ? 0 : most};
        for (int w = 0; w < 2; w++)
            if (scores[w] > best[w]) best[w] = scores[w], chosen[w] = t;
    }
    if (chosen[0] == chosen[1]) chosen[1] = NULL;
}

static bool suits_a_trial(const TaskPlan *plan, const Task *t) {
    for (size_t k = 0; t->sizes && k < t->sizes->count; k++)
        if (t->sizes->values[k].value < 2) return false;
    return t->sizes && sizes_are_small(plan->graph, t->sizes, SPECIAL_ELEMENTS, SPECIAL_WORK);
}

/* Of the ragged sizes a dozen, from all over the list. */
static void choose_trials(TaskPlan *plan, size_t from) {
    enum { TRIALS = 12 };
    size_t count = 0, number = 0;
    for (size_t i = from; i < plan->count; i++) count += suits_a_trial(plan, &plan->tasks[i]);
    for (size_t i = from; i < plan->count; i++)
        if (suits_a_trial(plan, &plan->tasks[i])) {
            number++;
            ANALYZER_ASSUME(count >= number);
            plan->tasks[i].trial = number * TRIALS / count != (number - 1) * TRIALS / count;
        }
}

static void add_special(TaskPlan *plan, const Task *at, unsigned param, unsigned axis, bool beyond, size_t *number) {
    Task *t = task_plan_add(plan, arena_printf(plan->arena, "special %zu", ++*number), at->sizes, at->data);
    t->own = at->own;
    t->special = plan->graph->params[param].name;
    t->axis = axis;
    t->beyond = beyond;
}

/* At both sizes, along the last and the first axis. */
static void add_specials_of(TaskPlan *plan, const Task chosen[2], unsigned param, bool beyond, size_t *number) {
    unsigned rank = plan->graph->body->args[param]->type->rank;
    for (int w = 0; w < 2; w++)
        for (unsigned k = 0; chosen[w].sizes && k < (rank > 1 ? 2u : 1u); k++)
            add_special(plan, &chosen[w], param, k ? 0 : rank - 1, beyond, number);
}

static void add_specials(TaskPlan *plan) {
    enum { TENSORS = 4, PLACES = 2 * 2 * 3 * TENSORS }; /* of floats, of integers, of these beyond their range */
    const Task *at[2] = {NULL, NULL};
    size_t number = 0, before = plan->count;
    choose_special_sizes(plan, at);
    Task *tasks = ARENA_ARRAY(plan->arena, Task, plan->count + PLACES + 1), chosen[2] = {{.name = ""}, {.name = ""}};
    for (int w = 0; w < 2; w++)
        if (at[w]) chosen[w] = *at[w];
    memcpy(tasks, plan->tasks, before * sizeof *tasks);
    plan->tasks = tasks;
    for (int floats = 1; floats >= 0; floats--)
        for (unsigned i = 0, tensors = 0; i < plan->graph->param_count && tensors < TENSORS; i++) {
            const IrValue *value = plan->graph->body->args[i];
            if (!takes_specials(plan, i) || dtype_is_float(value->type->dtype) != (bool)floats) continue;
            tensors++;
            add_specials_of(plan, chosen, i, false, &number);
            if (may_go_beyond(value)) add_specials_of(plan, chosen, i, true, &number);
        }
}

/* ---- Scalars ---- */

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

double task_other_scalar(Dtype dtype, double own, uint64_t bits) {
    double u = (double)(bits >> 11) * 0x1p-53;
    if (dtype == DTYPE_BOOL) return own;
    if (dtype_is_float(dtype)) return dtype_round(dtype, own == 0 ? 0.25 + u / 2 : own * (0.25 + u / 2));
    double size = fabs(own);
    return size < 2 ? own + 1 : copysign(1 + floor((size - 1) * u), own);
}

static bool has_scalars(const TaskPlan *plan) {
    for (unsigned i = 0; i < plan->graph->param_count; i++)
        if (plan->graph->params[i].kind == IR_PARAM_SCALAR) return true;
    return false;
}

/* Of the ragged sizes every other one. */
static void vary_scalars(TaskPlan *plan, size_t from) {
    for (size_t i = from; has_scalars(plan) && i < plan->count; i += 2)
        plan->tasks[i].scalars = mix(plan->options->seed + (i + 1) * UINT64_C(0x9E3779B97F4A7C15)) | 1;
}

void task_plan_vary(TaskPlan *plan, size_t ragged) {
    choose_trials(plan, ragged);
    vary_scalars(plan, ragged);
    add_specials(plan);
}
