/* Updates of memory that other threads may update as well. */
#include "c_internal.h"

static const char *element_of(CPrinter *p, const IrOp *op) {
    return c_element(p, op->operands[1], op->operands[2]);
}

/* One instruction or builtin; integers alone where the name is missing for floats. */
static void single(CPrinter *p, const IrOp *op) {
    IrKind kind = ir_op_kind(op);
    const IrValue *v = op->operands[0];
    const char *to = element_of(p, op), *x = c_use(p, v).text;
    if (!p->dialect->gpu) {
        c_statement(p, "__atomic_fetch_add(&%s, %s, __ATOMIC_RELAXED);", to, x);
        if (kind != IR_KIND_ADD) c_fail(p, op, "this atomic operation");
        return;
    }
    const char *name = kind == IR_KIND_ADD ? "atomicAdd" : kind == IR_KIND_MAX ? "atomicMax" : "atomicMin";
    bool wraps = v->type->dtype == DTYPE_I64 && kind == IR_KIND_ADD;
    const char *cast = wraps ? "(unsigned long long *)" : "";
    if (wraps) x = arena_printf(p->arena, "(unsigned long long)(%s)", x);
    c_statement(p, "%s(%s&%s, %s);", name, cast, to, x);
}

static const char *swap_text(CPrinter *p, Dtype t, const char *to, const char *seen, const char *next) {
    static const CHelper by_size[] = {[1] = C_HELPER_SWAP_8, [2] = C_HELPER_SWAP_16, [4] = C_HELPER_SWAP_32, [8] = C_HELPER_SWAP_64};
    CHelper id = p->dialect->gpu ? by_size[dtype_size(t)] : C_HELPER_SWAP;
    return arena_printf(p->arena, "%s(&%s, &%s, %s)", c_helper(p, id, t, DTYPE_NONE), to, seen, next);
}

/* The region's value is put in until nobody came between. Its names are the block's: the next update may
 * stand in the same one. */
static void repeated(CPrinter *p, const IrOp *op) {
    const IrBlock *body = op->regions[0];
    Dtype t = op->operands[0]->type->dtype;
    c_materialise(p, op->operands[2]);
    const char *to = element_of(p, op), *type = c_type(p, t);
    const char *seen = name_claim(&p->names, "seen"), *next = name_claim(&p->names, "next");
    c_line(p, "%s %s, %s;", type, seen, next);
    if (p->dialect->gpu)
        c_statement(p, "%s = %s;", seen, to);
    else
        c_statement(p, "__atomic_load(&%s, &%s, __ATOMIC_RELAXED);", to, seen);
    c_line(p, "do {");
    p->indent++;
    size_t inside = name_mark(&p->names);
    CExpr old = {seen, C_PREC_PRIMARY};
    if (t == DTYPE_BOOL) old = c_make(p, C_PREC_EQ, "%s != 0", seen);
    c_value(p, body->args[0])->expr = old;
    c_block(p, body);
    c_statement(p, "%s = %s;", next, c_use(p, body->last->operands[0]).text);
    name_release(&p->names, inside);
    p->indent--;
    c_statement(p, "} while (!%s);", swap_text(p, t, to, seen, next));
}

void c_atomic(CPrinter *p, const IrOp *op) {
    bool masked = op->operand_count > 3, repeats = op->regions[0]->last != NULL;
    CBody b;
    if (repeats) c_materialise(p, op->operands[0]);
    if (masked) c_body_begin(p, &b, arena_printf(p->arena, "if (%s)", c_use(p, op->operands[3]).text));
    if (repeats)
        repeated(p, op);
    else
        single(p, op);
    if (masked) c_body_end(p, &b);
}
