/* outline_kernels: one function for each kernel.
 *
 * Top-level ops of a sketch run in order, as if each finished before the next. Each top-level loop
 * nest becomes a function of its own, and so do stores without a loop that share tiles; what they
 * share (arithmetic, constants, loads of tensors that the sketch does not write) is copied into
 * each.
 *
 * needs:  tile functions in state open
 * keeps:  everything else
 * breaks: nothing; sets the attributes `kernel` (a name for all versions of one kernel) and `step`
 * source: kernel outlining as in OpenMP compilers, along SSA values instead of variables
 *
 *     func @f tile open (...) {              func @f tile open (...) {kernel = "f", step = 0} {
 *       parallel(...) (%i: index) {...}  =>    parallel(...) (%i: index) {...} }
 *       parallel(...) (%j: index) {...}      func @f_2 tile open (...) {kernel = "f_2", step = 1} {
 *     }                                        parallel(...) (%j: index) {...} }
 */
#include <string.h>

#include "analysis/analysis.h"

typedef struct {
    IrFunc *func;
    OpList ops;        /* top level, the terminator left out */
    uint32_t *group;   /* of each op: the kernel that it is a root of, or FREE */
    uint32_t *painted; /* of each op: the last group that it feeds */
    uint32_t count;    /* groups */
} Outline;

enum { FREE = UINT32_MAX };

static bool stores_to(IrBlock *block, const IrValue *tensor) {
    for (IrOp *op = block->first; op; op = op->next) {
        if (op->opcode == IR_TILE_STORE && memory_of(op->operands[1]) == tensor) return true;
        for (unsigned r = 0; r < op->region_count; r++)
            if (stores_to(op->regions[r], tensor)) return true;
    }
    return false;
}

/* What may be copied into every kernel that uses it. */
static bool is_shareable(const Outline *o, const IrOp *op) {
    if (op->opcode == IR_TILE_LOAD) return !stores_to(o->func->body, memory_of(op->operands[0]));
    return ir_has_trait(op, IR_PURE) && !op->region_count;
}

/* The top-level op that holds `op`. */
static const IrOp *top_of(const IrOp *op) {
    while (op->block->parent) op = op->block->parent;
    return op;
}

/* For each top-level op, the last one that its results reach through any others. */
static size_t *reaches(const Outline *o, Arena *scratch) {
    size_t *reach = ARENA_ARRAY(scratch, size_t, o->ops.len + 1);
    for (size_t i = 0; i < o->ops.len; i++) o->ops.data[i]->mark = (uint32_t)i;
    for (size_t i = o->ops.len; i-- > 0;) {
        const IrOp *op = o->ops.data[i];
        reach[i] = i;
        for (unsigned r = 0; r < op->result_count; r++)
            for (IrUse *use = op->results[r].uses; use; use = use->next) {
                const IrOp *user = top_of(use->op);
                size_t far = is_terminator(user) ? i : reach[user->mark];
                reach[i] = far > reach[i] ? far : reach[i];
            }
    }
    return reach;
}

/* Visits the tile ops that feed top-level op `op`; with `paint` it marks them for the group,
 * without it tells whether one is marked so. */
static bool feeds(Outline *o, const IrOp *op, uint32_t group, bool paint) {
    for (unsigned i = 0; i < op->operand_count; i++) {
        const IrOp *def = op->operands[i]->def;
        if (!def || !is_tile(op->operands[i])) continue;
        bool seen = o->painted[def->mark] == group;
        if (seen && !paint) return true;
        if (!seen && paint) o->painted[def->mark] = group;
        if (!seen && feeds(o, def, group, paint)) return true;
    }
    return false;
}

/* A loop nest starts a kernel unless an earlier one hands it values; stores without a loop share
 * one when they share tiles. */
static void form_groups(Outline *o, Arena *scratch) {
    const size_t *reach = reaches(o, scratch);
    size_t open_until = 0;
    bool previous_is_loop = true;
    o->group = ARENA_ARRAY(scratch, uint32_t, o->ops.len + 1);
    o->painted = ARENA_ARRAY(scratch, uint32_t, o->ops.len + 1);
    for (size_t i = 0; i < o->ops.len; i++) o->painted[i] = FREE;
    for (size_t i = 0; i < o->ops.len; i++) {
        const IrOp *op = o->ops.data[i];
        o->group[i] = FREE;
        if (is_shareable(o, op)) continue;
        bool is_loop = op->region_count > 0;
        bool joins = o->count && (i <= open_until || (!is_loop && !previous_is_loop && feeds(o, op, o->count - 1, false)));
        o->count += !joins;
        o->group[i] = o->count - 1;
        feeds(o, op, o->count - 1, true);
        previous_is_loop = is_loop;
        open_until = reach[i] > open_until ? reach[i] : open_until;
    }
}

/* Backwards, so that users go first: the roots of other groups and what nobody needs any more. */
static void keep_group(PassContext *ctx, IrFunc *copy, const Outline *o, uint32_t group) {
    IrOp **ops = ARENA_ARRAY(ctx->scratch, IrOp *, o->ops.len + 1);
    IrOp *op = copy->body->first;
    for (size_t i = 0; i < o->ops.len; i++, op = op->next) ops[i] = op;
    for (size_t i = o->ops.len; i-- > 0;) {
        if (o->group[i] != FREE ? o->group[i] != group : is_unused(ops[i])) ir_op_erase(ops[i]);
    }
    remove_unused(ctx->scratch, copy->body);
}

static void look_for_vectors(void *context, IrOp *op) {
    if (ir_op_has_hint(op, IR_HINT_VECTORIZE)) *(bool *)context = true;
}

/* A processor's kernels that are to spend code on whole vectors; later passes ask for the attribute. */
static void note_vectors(const PassContext *ctx, IrFunc *f) {
    bool wanted = false;
    if (ctx->target->kind == TARGET_CPU) ir_walk(f->body, look_for_vectors, &wanted);
    if (wanted) ir_func_set_int(f, IR_FN_VECTORS, 1);
}

static void outline(PassContext *ctx, IrFunc *f) {
    Outline o = {.func = f};
    for (IrOp *op = f->body->first; op; op = op->next)
        if (!is_terminator(op)) VEC_PUSH(ctx->scratch, &o.ops, op);
    form_groups(&o, ctx->scratch);
    for (uint32_t g = o.count; g-- > 1;) {
        const char *name = arena_printf(ctx->module->arena, "%s_%u", f->name, g + 1);
        IrFunc *copy = ir_func_clone(f, name);
        keep_group(ctx, copy, &o, g);
        note_vectors(ctx, copy);
        ir_step_set(copy, name, g);
    }
    keep_group(ctx, f, &o, 0);
    note_vectors(ctx, f);
    ir_step_set(f, f->name, 0);
}

bool pass_outline_kernels(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first, *next; f; f = next) {
        next = f->next;
        if (f->level == IR_LEVEL_TILE && f->state == IR_STATE_OPEN && !ir_step_is_set(f)) outline(ctx, f);
    }
    return true;
}
