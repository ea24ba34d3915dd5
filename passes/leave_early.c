/* Pass leave_early: threads whose elements all lie behind a tensor's end compute nothing.
 *
 * what:   where all that a kernel does are stores under masks e < L, with e at least 0 and one limit L for all, what comes behind L stands in
 *         a branch that threads with L > 0 take: of a row's last tile whole warps have nothing to do. Only kernels that make functions, whose time is
 *         arithmetic; loads and stores alone under masks cost nothing.
 * needs:  kernel level, target cuda, after expand_math, before coalesce
 * keeps:  everything
 * breaks: nothing
 * source: -
 *
 *     %l = sub(%N, %at)                              %l = sub(%N, %at); %c = lt(0, %l)
 *     %x = map { mem.load(%X, ..., lt(%e, %l)) }  => if(%c) { %x = map ...; %y = map ...
 *     %y = map ... mem.store(%y, ..., lt(%e, %l))             mem.store(...) }
 */
#include "passes_internal.h"

/* Operations on floats of all a thread's elements below which a kernel is left as it was (INT32_MAX: always). */
enum { LEAST_OPERATIONS = 64 };

typedef struct {
    IrFunc *func;
    IrValue *limit;
    int64_t operations;
} Leave;

/* Known to be at least 0: constants, numbers of iterations and lanes, and their products and sums. */
static bool is_natural(const IrValue *v) {
    const IrOp *op = v->def;
    if (!op) return v->block->parent && v->block->parent->opcode == IR_MAP;
    if (op->opcode == IR_CONST) return ir_attr_int(op, "value", -1) >= 0;
    return (op->opcode == IR_ADD || op->opcode == IR_MUL) && is_natural(op->operands[0]) && is_natural(op->operands[1]);
}

/* Is the store under a mask that no thread beyond the limit has? */
static bool is_within(Leave *l, const IrOp *store) {
    const IrOp *mask = store->operand_count > 3 ? store->operands[3]->def : NULL;
    if (store->operands[1]->type->space != IR_SPACE_GLOBAL || !mask || mask->opcode != IR_LT || !is_natural(mask->operands[0])) return false;
    IrValue *limit = mask->operands[1];
    if (!limit->def || limit->def->block != l->func->body || (l->limit && l->limit != limit)) return false;
    l->limit = limit;
    return true;
}

static bool is_taken(Leave *l, const IrOp *op, int64_t times) {
    if (op->opcode == IR_MEM_STORE) return is_within(l, op);
    if (op->opcode == IR_MEM_LOAD) return op->operands[0]->type->space == IR_SPACE_GLOBAL;
    if (op->opcode != IR_MAP && op->region_count) return false;
    if (op->opcode != IR_CONST && op->result_count && !op->region_count && dtype_is_float(op->results[0].type->dtype)) l->operations += times;
    return op->opcode == IR_MAP || is_terminator(op) || (ir_has_trait(op, IR_PURE) && op->opcode != IR_ATOM);
}

static bool find(Leave *l) {
    for (const IrOp *op = l->func->body->first; op; op = op->next) {
        if (!is_taken(l, op, 1)) return false;
        if (op->opcode != IR_MAP) continue;
        const IrAttr *extents = ir_attr(op, "extents");
        int64_t times = 1;
        for (size_t i = 0; i < extents->count; i++) times *= extents->ints[i];
        for (const IrOp *inner = op->regions[0]->first; inner; inner = inner->next)
            if (inner->opcode == IR_MAP || !is_taken(l, inner, times)) return false;
    }
    return l->limit && l->operations >= LEAST_OPERATIONS;
}

static void leave(const Leave *l) {
    IrBuilder b = ir_builder_after(l->limit->def);
    b.span = l->limit->def->span;
    IrValue *some = ir_binary(&b, IR_LT, ir_const_index(&b, 0), l->limit);
    IrOp *branch = ir_op_create(&b, IR_IF, 1, &some, 0, NULL);
    while (!is_terminator(branch->next)) ir_op_move_to_end(branch->next, branch->regions[0]);
    for (unsigned r = 0; r < branch->region_count; r++) {
        IrBuilder end = ir_builder_at_end(branch->regions[r]);
        ir_yield(&end, 0, NULL);
    }
}

bool pass_leave_early(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f; f = f->next) {
        if (f->level != IR_LEVEL_KERNEL) continue;
        Leave l = {.func = f};
        if (find(&l)) leave(&l);
    }
    return true;
}
