/* Pass coalesce: fragments that never live at the same time share one array.
 *
 * what:   gives the start value, the carried value, the yielded value and the result of a loop one
 *         `storage` where no reader would see an overwritten element, so that C-family output updates
 *         in place. Only IrValue.storage changes.
 * needs:  kernel level, no pass after it that moves ops.
 * keeps:  everything.
 * breaks: nothing.
 * source: copy coalescing when leaving SSA.
 *
 *   %r = for(..., %init) (%i, %acc) { %next = map { frag.get(%acc, own index) ... } yield(%next) }
 *   %init, %acc, %next and %r get storage 1. So do accumulators that an instruction changes in place, and the
 *   results of a branch around such a loop.
 */
#include "analysis/analysis.h"
#include "plant.h"

typedef struct {
    IrFunc *func;
    unsigned next;
    unsigned from, to; /* renaming */
} Coalesce;

static bool is_before(const IrOp *a, const IrOp *b) {
    for (const IrOp *op = b->prev; op; op = op->prev)
        if (op == a) return true;
    return false;
}

/* `index` is `arg` times `width`, or zero where `arg` is never more. */
static bool is_scaled(IrModule *m, IrValue *index, IrValue *arg, int64_t extent, unsigned width) {
    if (extent == 1 && ir_aff_of(m, index) == aff_const(m->affs, 0)) return true;
    return ir_aff_of(m, index) == aff_mul(m->affs, ir_aff_of(m, arg), aff_const(m->affs, width));
}

/* A read by `map` of the very elements that this iteration writes to result `r`. */
static bool reads_what_it_writes(IrModule *m, const IrOp *get, const IrOp *map, unsigned r) {
    const IrBlock *body = map->regions[0];
    unsigned width = body->last->operands[r]->type->width;
    if (get->opcode != IR_FRAG_GET || get->block != body || get->results[0].type->width != width) return false;
    if (get->operand_count != body->arg_count + 1) return false;
    for (unsigned i = 0; i < body->arg_count; i++)
        if (!is_scaled(m, get->operands[i + 1], body->args[i], ir_attr(map, "extents")->ints[i], i + 1 == body->arg_count ? width : 1))
            return false;
    return true;
}

/* May `writer`, which makes the new value (its result r), write over `old`? `start`: old may be its
 * start operand. */
static bool may_overwrite(Coalesce *c, const IrValue *old, const IrOp *writer, unsigned r) {
    if (home_of(old) != writer->block) return false;
    for (const IrUse *u = old->uses; u; u = u->next) {
        const IrOp *top = u->op;
        if (writer->opcode == IR_FOR && top == writer) {
            if (u->index != r + 3) return false;
            continue;
        }
        if (is_inside_op(top->block, writer)) {
            if (PLANTED(15)) continue;
            if (writer->opcode == IR_MAP && reads_what_it_writes(c->func->module, top, writer, r)) continue;
            return false;
        }
        if (top == writer) continue;
        while (top->block != writer->block && top->block->parent) top = top->block->parent;
        if (top->block != writer->block || !is_before(top, writer)) return false;
    }
    return true;
}

static void rename_value(Coalesce *c, IrValue *v) {
    if (v->storage == c->from) v->storage = c->to;
}

static void rename_op(void *ctx, IrOp *op) {
    Coalesce *c = ctx;
    for (unsigned i = 0; i < op->result_count; i++) rename_value(c, &op->results[i]);
    for (unsigned r = 0; r < op->region_count; r++)
        for (unsigned i = 0; op->regions[r] && i < op->regions[r]->arg_count; i++) rename_value(c, op->regions[r]->args[i]);
}

static void share(Coalesce *c, IrValue *a, IrValue *b) {
    if (!a->storage && !b->storage) a->storage = ++c->next;
    if (!a->storage) a->storage = b->storage;
    if (!b->storage) b->storage = a->storage;
    if (a->storage == b->storage) return;
    c->from = b->storage, c->to = a->storage;
    ir_walk(c->func->body, rename_op, c);
}

static bool is_frag(const IrValue *v) {
    return v->type->kind == IR_TYPE_FRAG;
}

static void coalesce_loop(Coalesce *c, IrOp *loop) {
    IrBlock *body = loop->regions[0];
    for (unsigned r = 0; r < loop->result_count; r++) {
        IrValue *start = loop->operands[r + 3], *arg = body->args[r + 1], *next = body->last->operands[r];
        if (!is_frag(arg)) continue;
        share(c, arg, &loop->results[r]);
        bool taken = false; /* one start value for two carried ones */
        for (unsigned k = 0; k < loop->result_count; k++) taken = taken || (k != r && loop->operands[k + 3] == start);
        if (!taken && may_overwrite(c, start, loop, r)) share(c, arg, start);
        if (!next->def || next->block == body || next->def->block != body) continue;
        bool shared_next = false; /* one value yielded twice */
        for (unsigned k = 0; k < loop->result_count; k++) shared_next = shared_next || (k != r && body->last->operands[k] == next);
        if (!shared_next && (next->def->opcode == IR_MAP || next->def->opcode == IR_FOR) && may_overwrite(c, arg, next->def, next->index))
            share(c, arg, next);
    }
}

/* Instructions that change the registers they are given: the last operand's. */
static void coalesce_in_place(Coalesce *c, IrOp *op) {
    IrValue *operand = op->operands[op->operand_count - 1];
    if (may_overwrite(c, operand, op, 0)) share(c, operand, &op->results[0]);
}

static bool is_in_place(const IrOp *op) {
    return op && (op->opcode == IR_WGMMA || op->opcode == IR_WGMMA_WAIT) && is_frag(op->operands[op->operand_count - 1]);
}

/* Is `old`, which the loop in one branch goes on from and the other branch leaves as it is, read by nobody else
 * from there on? */
static bool only_loop_reads(const IrOp *branch, const IrValue *old, const IrOp *loop) {
    for (const IrUse *u = old->uses; u; u = u->next) {
        const IrOp *top = u->op;
        if (top == loop || top == branch->regions[1]->last) continue;
        while (top->block != branch->block && top->block->parent) top = top->block->parent;
        if (top->block != branch->block || !is_before(top, branch)) return false;
    }
    return true;
}

/* A fragment that a map of the branch makes, for the branch's result alone. */
static bool is_made_in(const IrValue *v, const IrBlock *region) {
    return v->def && v->def->opcode == IR_MAP && v->def->block == region && !v->storage && v->uses && !v->uses->next;
}

/* if (...) { %l = for(..., %old); %w = wait(%l); yield(%w) } { yield(%old) }: all of them are one; so too where each
 * branch makes its own start, or a map in each makes the whole. */
static void coalesce_if(Coalesce *c, IrOp *op) {
    for (unsigned r = 0; r < op->result_count; r++) {
        if (!is_frag(&op->results[r])) continue;
        IrValue *changed = op->regions[0]->last->operands[r], *old = op->regions[1]->last->operands[r];
        const IrValue *from = is_in_place(changed->def) ? changed->def->operands[changed->def->operand_count - 1] : changed;
        const IrOp *loop = from->def;
        if (is_made_in(changed, op->regions[0]) && is_made_in(old, op->regions[1])) {
            share(c, &op->results[r], changed);
            share(c, changed, old);
            continue;
        }
        if (!loop || loop->opcode != IR_FOR || loop->block != op->regions[0]) continue;
        if (!from->storage || from->storage != changed->storage) continue;
        const IrValue *start = loop->operands[3 + from->index];
        bool inside = home_of(start) == op->regions[0] && home_of(old) == op->regions[1] && !old->storage;
        if (!inside && (start != old || home_of(old) != op->block || !only_loop_reads(op, old, loop))) continue;
        share(c, &op->results[r], changed);
        share(c, changed, old);
    }
}

static void coalesce_block(Coalesce *c, IrBlock *block) {
    for (IrOp *op = block->first; op; op = op->next) {
        for (unsigned r = 0; r < op->region_count; r++)
            if (op->regions[r]) coalesce_block(c, op->regions[r]);
        if (op->opcode == IR_FOR) coalesce_loop(c, op);
        if (op->opcode == IR_IF) coalesce_if(c, op);
        if (is_in_place(op)) coalesce_in_place(c, op);
    }
}

bool pass_coalesce(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f; f = f->next) {
        Coalesce c = {.func = f};
        if (f->level == IR_LEVEL_KERNEL) coalesce_block(&c, f->body);
    }
    return true;
}
