/* Pass programmatic_dependent_launch: steps of a plan whose launches begin before the one ahead of them is over.
 *
 * what:   every step but the first waits in the kernel (steps.wait) until the preceding launch has finished, so that the device can
 *         start its blocks while the last blocks of the preceding step still run. Code that does not depend on preceding steps stays
 *         before the wait: scalar arithmetic, barriers, and loads of memory that no preceding step writes. The pass moves such loads
 *         before the wait if only other loads and scalar arithmetic stand between. As every step waits, a wait covers all preceding
 *         steps. Cooperative steps (whose blocks synchronise through memory) need all blocks resident at once: such a step is launched
 *         after the preceding step has finished, and so is the step that follows it.
 *         Each step but the last begins by permitting the next step to start (steps.release), so that blocks of the next step start,
 *         and execute their independent loads, as soon as there is room beside the last blocks of this step. Plans with
 *         products do not release, because their blocks leave no room.
 * needs:  kernel level, after fuse_by_grid_barrier and fuse_elementwise, before coalesce; target cuda with clusters (compute
 *         capability 9.0)
 * keeps:  values, order of effects
 * breaks: nothing
 * source: CUDA C++ Programming Guide, programmatic dependent launch
 *
 *     @b {step = 1}: %u = map { mem.load(%W, ..) }        @b {step = 1, dependent = 1}: %x = map { mem.load(%X, ..) }
 *                    %x = map { mem.load(%X, ..) }   =>                                 steps.wait()
 *                    map { mem.store(.., %Y, ..) }                                      %u = map { mem.load(%W, ..) }
 *                                                                                       map { mem.store(.., %Y, ..) }
 */
#include "analysis/analysis.h"

enum { RELEASE = 1 /* 0: the step behind begins when all blocks have ended */ };

typedef struct {
    const IrFunc *func;
    bool *late; /* by parameter: a step before writes it */
    bool bound; /* the op looked at must stand behind the waiting */
} Step;

static bool in_global(const IrValue *ptr) {
    return ptr->type->kind == IR_TYPE_PTR && (ptr->type->space == IR_SPACE_GLOBAL || ptr->type->space == IR_SPACE_MAP);
}

/* Memory that nobody writes while the kernel runs. */
static bool is_constant(const Step *s, const IrValue *ptr) {
    if (ptr->def || ptr->block != s->func->body || s->late[ptr->index]) return false;
    for (const IrUse *use = ptr->uses; use; use = use->next)
        if (use->index != 0 || (use->op->opcode != IR_MEM_LOAD && use->op->opcode != IR_ASYNC_COPY && use->op->opcode != IR_TMA_LOAD))
            return false;
    return true;
}

static void look_for_bounds(void *ctx, IrOp *op) {
    Step *s = ctx;
    if (op->opcode == IR_GRID_BARRIER_ARRIVE || op->opcode == IR_GRID_BARRIER_WAIT) s->bound = true;
    for (unsigned i = 0; i < op->operand_count; i++)
        if (in_global(op->operands[i]) && !is_constant(s, op->operands[i])) s->bound = true;
}

static void look_at(Step *s, IrOp *op) {
    s->bound = false;
    look_for_bounds(s, op);
    for (unsigned r = 0; r < op->region_count; r++) ir_walk(op->regions[r], look_for_bounds, s);
}

/* A number, or a load of memory that nobody writes: it may be anywhere. */
static void look_for_others(void *ctx, IrOp *op) {
    Step *s = ctx;
    bool load = op->opcode == IR_MEM_LOAD && in_global(op->operands[0]) && is_constant(s, op->operands[0]);
    if (!load && !ir_has_trait(op, IR_PURE) && !is_terminator(op)) s->bound = true;
}

typedef struct {
    const IrOp *from;
    bool needs;
} Needs;

/* Does it use what is made from `from` on, in the same block? */
static void look_for_needs(void *ctx, IrOp *op) {
    Needs *n = ctx;
    for (unsigned i = 0; i < op->operand_count; i++) {
        const IrOp *def = op->operands[i]->def;
        if (!def || def->block != n->from->block) continue;
        for (const IrOp *at = n->from; at; at = at->next) n->needs |= at == def;
    }
}

static bool may_be_early(Step *s, IrOp *op, const IrOp *wait) {
    Needs needs = {.from = wait};
    s->bound = false;
    if (op->opcode != IR_MAP) look_for_others(s, op);
    look_for_needs(&needs, op);
    for (unsigned r = 0; r < op->region_count; r++) {
        ir_walk(op->regions[r], look_for_others, s);
        ir_walk(op->regions[r], look_for_needs, &needs);
    }
    return !s->bound && !needs.needs;
}

static void look_for_loads(void *ctx, IrOp *op) {
    bool *loads = ctx;
    *loads |= op->opcode == IR_MEM_LOAD;
}

/* Behind other loads and numbers a load may go first; what computes marks the end, as fragments that go ahead of it are one more to hold. */
static bool may_be_passed(const IrOp *op) {
    bool loads = false, stores = op->opcode == IR_MAP && !op->result_count;
    if (op->opcode != IR_MAP)
        return op->opcode == IR_STEPS_WAIT || op->opcode == IR_MEM_LOAD || (ir_has_trait(op, IR_PURE) && !op->region_count);
    ir_walk(op->regions[0], look_for_loads, &loads);
    return loads && !stores;
}

static void load_early(Step *s, IrOp *wait) {
    for (IrOp *op = wait->next, *next; op && may_be_passed(op); op = next) {
        next = op->next;
        if (may_be_early(s, op, wait)) ir_op_move_before(op, wait);
    }
}

static void wait_in(PassContext *ctx, IrFunc *f) {
    Step s = {.func = f, .late = ARENA_ARRAY(ctx->scratch, bool, f->param_count + 1)};
    for (unsigned i = 0; i < f->param_count; i++) s.late[i] = ir_param_is_written_before(f, i);
    IrOp *first = f->body->first;
    for (; first != f->body->last; first = first->next) {
        look_at(&s, first);
        if (s.bound) break;
    }
    IrBuilder b = ir_builder_before(first);
    ir_func_set_int(f, IR_FN_DEPENDENT, 1);
    load_early(&s, ir_op_create(&b, IR_STEPS_WAIT, 0, NULL, 0, NULL));
}

static bool is_together(const IrFunc *f) {
    return ir_func_int(f, IR_FN_COOPERATIVE, 0) != 0;
}

static void look_for_products(void *ctx, IrOp *op) {
    bool *found = ctx;
    *found |= op->opcode == IR_WGMMA || op->opcode == IR_ATOM || op->opcode == IR_TMA_LOAD;
}

static bool multiplies(const IrModule *m) {
    bool found = false;
    for (const IrFunc *f = m->first; f; f = f->next)
        if (f->level == IR_LEVEL_KERNEL) ir_walk(f->body, look_for_products, &found);
    return found;
}

static void release_in(const IrFunc *f) {
    IrBuilder b = ir_builder_before(f->body->first);
    ir_op_create(&b, IR_STEPS_RELEASE, 0, NULL, 0, NULL);
}

bool pass_programmatic_dependent_launch(PassContext *ctx) {
    int64_t first = INT64_MAX, last = 0;
    if (!target_has(ctx->target, TARGET_CLUSTER)) return true;
    for (const IrFunc *f = ctx->module->first; f; f = f->next) {
        int64_t step = ir_step_order(f);
        if (f->level != IR_LEVEL_KERNEL) continue;
        first = step < first ? step : first;
        last = step > last ? step : last;
    }
    bool releases = RELEASE && !multiplies(ctx->module);
    for (IrFunc *f = ctx->module->first; f; f = f->next) {
        int64_t step = ir_step_order(f);
        if (f->level != IR_LEVEL_KERNEL || is_together(f)) continue;
        if (step < last && releases) release_in(f);
        if (step > first && !ir_func_has(f, IR_FN_DEPENDENT)) wait_in(ctx, f);
    }
    return true;
}
