/* Masked accesses that gcc up to 12 gets wrong at times, at -O3 too.
 *
 * It vectorises `inside ? x[i] : 0` into a masked load. Where a loop around it does not change the address, gcc takes
 * the address out of that loop, and yet reads its parts again at the access, when a register of theirs may serve
 * another value (internal-fn.cc, expand_call_mem_ref: the definition is taken even where it was not to be repeated).
 * Of the passes that it takes, the one that chooses what loops count by can be left out for a file (openmp.c). */
#include "c_internal.h"

/* The loops around an op, from outside in; those behind the first 64 count as changing everything. */
typedef struct {
    CPrinter *p;
    unsigned depth, ifs;
    uint64_t gone; /* by loop: of so few iterations that it may be unrolled away */
    bool found;
} Nest;

static uint64_t bit_of(unsigned loop) {
    return loop < 64 ? (uint64_t)1 << loop : 0;
}

static uint64_t varies_with(Nest *n, const IrOp *op, unsigned first) {
    uint64_t loops = 0;
    for (unsigned i = first; i < op->operand_count; i++) loops |= c_value(n->p, op->operands[i])->varies;
    return loops;
}

/* Without the loop that changes it, and those inside of that which may not be left as loops. */
static bool is_fixed(const Nest *n, uint64_t address) {
    for (unsigned k = n->depth; k-- > 0;) {
        if (k >= 64 || address & bit_of(k)) {
            if (k >= 64 || !(n->gone & bit_of(k))) return false;
        } else {
            return true;
        }
    }
    return false;
}

static void look_at_access(Nest *n, const IrOp *op) {
    unsigned pointer = op->opcode == IR_MEM_LOAD ? 0 : 1, mask = pointer + 2;
    bool masked = n->ifs || op->operand_count > mask;
    if (!masked || n->depth == 0) return;
    uint64_t address = c_value(n->p, op->operands[pointer])->varies | c_value(n->p, op->operands[pointer + 1])->varies;
    if (is_fixed(n, address)) n->found = true;
}

static void enter_loop(Nest *n, const IrValue *var, bool gone) {
    uint64_t bit = bit_of(n->depth++);
    n->gone = gone ? n->gone | bit : n->gone & ~bit;
    c_value(n->p, var)->varies = bit;
}

static uint64_t look_into(Nest *n, const IrOp *op);

/* What its yields vary with. */
static uint64_t look_at_block(Nest *n, const IrBlock *block) {
    uint64_t yields = 0;
    for (const IrOp *op = block->first; op; op = op->next) {
        uint64_t loops = varies_with(n, op, 0);
        if (op->opcode == IR_YIELD) yields |= loops;
        if (op->opcode == IR_MEM_LOAD || op->opcode == IR_MEM_STORE) look_at_access(n, op);
        if (op->region_count)
            loops |= look_into(n, op);
        else if (ir_op_info(op->opcode)->traits & (IR_READS | IR_WRITES))
            loops = ~(uint64_t)0;
        for (unsigned i = 0; i < op->result_count; i++) c_value(n->p, &op->results[i])->varies = loops;
    }
    return yields;
}

static bool is_constant(const IrValue *v) {
    return v->def && v->def->opcode == IR_CONST;
}

static uint64_t look_into(Nest *n, const IrOp *op) {
    Nest outer = *n;
    uint64_t loops = 0;
    const IrAttr *extents = op->opcode == IR_MAP ? ir_attr(op, "extents") : NULL;
    bool loop = op->opcode == IR_FOR || op->opcode == IR_PARALLEL;
    if (loop) enter_loop(n, op->regions[0]->args[0], is_constant(op->operands[0]) && is_constant(op->operands[1]));
    if (op->opcode == IR_IF) n->ifs++;
    for (unsigned r = 0; r < op->region_count; r++) {
        const IrBlock *body = op->regions[r];
        for (unsigned i = loop ? 1 : 0; i < body->arg_count; i++) {
            if (!extents)
                c_value(n->p, body->args[i])->varies = bit_of(n->depth - 1);
            else if (i < extents->count && extents->ints[i] > 1)
                enter_loop(n, body->args[i], true);
        }
        loops |= look_at_block(n, body);
    }
    bool found = n->found;
    *n = outer;
    n->found = found;
    return n->depth < 64 ? loops & (bit_of(n->depth) - 1) : loops;
}

bool c_has_fixed_masked_access(CPrinter *p, const IrFunc *f) {
    Nest n = {.p = p};
    look_at_block(&n, f->body);
    return n.found;
}
