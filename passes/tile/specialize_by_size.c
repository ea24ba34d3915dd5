/* Pass specialize_by_size: loops that sizes choose are grids that may be empty.
 *
 * what:   a top-level `if` whose condition compares sizes, and which only holds loops that hand on no values, is replaced by
 *         those loops. Each loop is nested in a parallel loop that runs once if the condition selects it, and otherwise not at all.
 *         So each becomes a kernel of its own, whose grid is empty if it is not selected. All other branches stay inside one kernel.
 * needs:  tile functions in state open, before outline_kernels
 * keeps:  values, names
 * breaks: nothing
 * source: -
 *
 *     if(lt(K, 64)) { parallel(0, M) (%i) {...} }        parallel(0, max(0, min(1, 64 - K))) (%chosen) {
 *     else { parallel(0, N) (%j) {...} }           =>      parallel(0, M) (%i) {...} }
 *                                                        parallel(0, 1 - max(0, min(1, 64 - K))) (%chosen) {
 *                                                          parallel(0, N) (%j) {...} }
 */
#include "analysis/analysis.h"

enum {
    MOST_DEPTH = 8 /* operations of a condition that are looked through */
};

/* ---- Conditions as 0 or 1 ---- */

/* An integer of sizes; null: it is made of something else. A number of sizes in i64 is the sizes'. */
static const Aff *size_of(IrModule *m, IrValue *v) {
    IrOp *op = v->def;
    const IrAttr *value = op && op->opcode == IR_CONST ? ir_attr(op, "value") : NULL;
    if (value && value->kind == IR_ATTR_INT) return aff_const(m->affs, value->integer);
    if (op && op->opcode == IR_CAST && op->operands[0]->type == ir_type_index(m) && v->type == ir_type_scalar(m, DTYPE_I64))
        v = op->operands[0];
    if (v->type != ir_type_index(m)) return NULL;
    const Aff *e = ir_aff_of(m, v);
    return aff_over_symbols(e) ? e : NULL;
}

/* 1 where e is at least 1, else 0. */
static const Aff *above_zero(AffCtx *c, const Aff *e) {
    return aff_max(c, aff_const(c, 0), aff_min(c, aff_const(c, 1), e));
}

static const Aff *compared(IrModule *m, const IrOp *op) {
    AffCtx *c = m->affs;
    const Aff *a = size_of(m, op->operands[0]), *b = size_of(m, op->operands[1]), *one = aff_const(c, 1);
    if (!a || !b) return NULL;
    const Aff *below = above_zero(c, aff_sub(c, b, a)), *above = above_zero(c, aff_sub(c, a, b));
    const Aff *apart = aff_min(c, one, aff_max(c, aff_sub(c, a, b), aff_sub(c, b, a)));
    switch (op->opcode) {
    case IR_LT:
        return below;
    case IR_LE:
        return aff_sub(c, one, above);
    case IR_NE:
        return apart;
    case IR_EQ:
        return aff_sub(c, one, apart);
    default:
        return NULL;
    }
}

/* 1 where the condition holds, else 0; null: it depends on more than sizes. */
static const Aff *chosen_by(IrModule *m, const IrValue *condition, unsigned depth) {
    const IrOp *op = condition->def;
    AffCtx *c = m->affs;
    if (!op || !depth || op->operand_count < 1) return NULL;
    bool both = op->opcode == IR_AND || op->opcode == IR_OR;
    if (!both && op->opcode != IR_NOT) return op->operand_count == 2 ? compared(m, op) : NULL;
    const Aff *a = chosen_by(m, op->operands[0], depth - 1), *b = both ? chosen_by(m, op->operands[1], depth - 1) : NULL;
    if (!a || (both && !b)) return NULL;
    const Aff *one = aff_const(c, 1);
    if (op->opcode == IR_NOT) return aff_sub(c, one, a);
    if (op->opcode == IR_AND) return aff_min(c, a, b);
    return aff_sub(c, one, aff_min(c, aff_sub(c, one, a), aff_sub(c, one, b))); /* a maximum would have both twice */
}

/* ---- Branches ---- */

static bool is_loop(const IrOp *op) {
    return (op->opcode == IR_PARALLEL || op->opcode == IR_FOR) && !op->result_count;
}

/* Loops, and what may be computed without them; one of them is to be shared among blocks. */
static bool holds_loops(const IrOp *branch) {
    bool shared = false;
    for (unsigned r = 0; r < branch->region_count; r++)
        for (const IrOp *op = branch->regions[r]->first; op; op = op->next) {
            if (is_terminator(op)) continue;
            bool free = ir_has_trait(op, IR_PURE) && !op->region_count;
            if (!is_loop(op) && !free) return false;
            shared |= op->opcode == IR_PARALLEL;
        }
    return shared && !branch->result_count;
}

/* Branches of branches first: what is left of them are loops. */
static void lift(PassContext *ctx, IrBlock *block) {
    for (IrOp *branch = block->first, *next; branch; branch = next) {
        next = branch->next;
        if (branch->opcode != IR_IF) continue;
        for (unsigned r = 0; r < branch->region_count; r++) lift(ctx, branch->regions[r]);
        const Aff *chosen = chosen_by(ctx->module, branch->operands[0], MOST_DEPTH);
        if (!chosen || !holds_loops(branch)) continue;
        for (unsigned r = 0; r < branch->region_count; r++) {
            AffCtx *c = ctx->module->affs;
            const Aff *times = r ? aff_sub(c, aff_const(c, 1), chosen) : chosen;
            for (IrOp *op; (op = branch->regions[r]->first) && !is_terminator(op);) {
                ir_op_move_before(op, branch);
                if (is_loop(op)) repeat_ops(op, branch, times, "chosen");
            }
        }
        ir_op_erase(branch);
    }
}

bool pass_specialize_by_size(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f; f = f->next)
        if (f->level == IR_LEVEL_TILE && f->state == IR_STATE_OPEN) lift(ctx, f->body);
    return true;
}
