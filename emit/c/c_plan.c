#include "c_internal.h"

/* Ops between a value and the statement that prints it are looked at one by one: no further. */
enum { HAZARD_WINDOW = 64 };

static unsigned depth_of(const IrBlock *b) {
    unsigned depth = 0;
    for (; b->parent; b = b->parent->block) depth++;
    return depth;
}

static const IrBlock *common_block(const IrBlock *a, const IrBlock *b) {
    unsigned da = depth_of(a), db = depth_of(b);
    for (; da > db; da--) a = a->parent->block;
    for (; db > da; db--) b = b->parent->block;
    while (a != b) {
        a = a->parent->block;
        b = b->parent->block;
    }
    return a;
}

/* The op of `block` that is or holds `op`. */
static const IrOp *ancestor_in(const IrBlock *block, const IrOp *op) {
    while (op->block != block) op = op->block->parent;
    return op;
}

static CGroup *group_of(CPrinter *p, const IrValue *v) {
    for (size_t i = 0; i < p->groups.len; i++)
        if (p->groups.data[i].storage == v->storage && p->groups.data[i].type == v->type) return &p->groups.data[i];
    VEC_PUSH(p->arena, &p->groups, (CGroup){.storage = v->storage, .type = v->type});
    return &p->groups.data[p->groups.len - 1];
}

/* Where an array for `v` has to be visible: a loop's own fragments outside of the loop. */
static const IrOp *home_op(const IrValue *v) {
    return v->def ? v->def : v->block->parent;
}

static void group_add(CPrinter *p, const IrValue *v) {
    if (v->type->kind != IR_TYPE_FRAG || !v->storage) return;
    CGroup *g = group_of(p, v);
    const IrBlock *home = home_op(v)->block;
    g->block = g->block ? common_block(g->block, home) : home;
    for (const IrUse *use = v->uses; use; use = use->next) g->block = common_block(g->block, use->op->block);
    /* the name of what a loop carries tells the most */
    if (v->name && (!g->hint || (!v->def && !g->carried))) g->hint = v->name;
    if (!v->def) g->carried = true;
}

static void group_first(CPrinter *p, const IrValue *v) {
    if (v->type->kind != IR_TYPE_FRAG || !v->storage) return;
    CGroup *g = group_of(p, v);
    const IrOp *op = ancestor_in(g->block, home_op(v));
    if (!g->first || op->mark < g->first->mark) g->first = op;
}

typedef void (*ValueVisit)(CPrinter *p, const IrValue *v);

static void visit_values(CPrinter *p, const IrBlock *block, ValueVisit visit) {
    for (const IrOp *op = block->first; op; op = op->next) {
        for (unsigned i = 0; i < op->result_count; i++) visit(p, &op->results[i]);
        for (unsigned r = 0; r < op->region_count; r++) {
            for (unsigned i = 0; i < op->regions[r]->arg_count; i++) visit(p, op->regions[r]->args[i]);
            visit_values(p, op->regions[r], visit);
        }
    }
}

static uint32_t number_ops(IrBlock *block, uint32_t next) {
    for (IrOp *op = block->first; op; op = op->next) {
        op->mark = next++;
        for (unsigned r = 0; r < op->region_count; r++) next = number_ops(op->regions[r], next);
    }
    return next;
}

/* ---- What may be printed where it is used ---- */

static bool has_effect(const IrOp *op) {
    return op->region_count || (ir_op_info(op->opcode)->traits & (IR_WRITES | IR_COLLECTIVE));
}

static bool reads_state(const IrOp *op) {
    return op->opcode == IR_MEM_LOAD || op->opcode == IR_FRAG_GET || op->opcode == IR_ATOM;
}

static bool hazard_before(const IrOp *op, const IrOp *root) {
    unsigned steps = 0;
    for (const IrOp *o = op->next; o && o != root; o = o->next)
        if (has_effect(o) || ++steps > HAZARD_WINDOW) return true;
    return root->opcode == IR_FOR || root->opcode == IR_PARALLEL;
}

static bool inlinable(const IrOp *op) {
    if (op->result_count != 1 || op->region_count) return false;
    const IrType *t = op->results[0].type;
    if (t->kind != IR_TYPE_SCALAR) return false;
    if (op->opcode == IR_ATOM) return t->width > 1;
    if (op->opcode == IR_SHUFFLE_XOR || op->opcode == IR_SPECIAL || op->opcode == IR_SHARED_PTR || op->opcode == IR_CLUSTER_PTR)
        return false;
    return op->opcode == IR_MEM_LOAD || (ir_op_info(op->opcode)->traits & IR_PURE);
}

/* The statement in which a deferred `user` is printed. */
static const IrOp *root_of(CPrinter *p, const IrOp *user) {
    for (;;) {
        if (user->result_count != 1 || !c_value(p, &user->results[0])->deferrable) return user;
        if (user->results[0].type->kind != IR_TYPE_SCALAR) return user;
        const IrOp *next = NULL;
        for (const IrUse *u = user->results[0].uses; u; u = u->next)
            if (!next || u->op->mark > next->mark) next = u->op;
        user = next;
    }
}

static bool is_masked_load(const IrOp *op) {
    return op->opcode == IR_MEM_LOAD && op->operand_count > 2;
}

/* Whether the statement computes with integers on the way from `op` to its root: gcc 13 and 14 then read
 * `(inside ? x[i] : 0) ^ 4` where it is outside, too (as `inside * (x[i] ^ ...)`). */
static bool feeds_integers(CPrinter *p, const IrOp *op) {
    for (const IrOp *user = op->results[0].uses->op;; user = user->results[0].uses->op) {
        if (user->result_count != 1 || user->results[0].type->kind != IR_TYPE_SCALAR) return false;
        if (!dtype_is_float(user->results[0].type->dtype)) return true;
        if (!c_value(p, &user->results[0])->deferrable) return false;
    }
}

/* Whether it would be printed into an arm of `?:`. There gcc 12 makes a masked load of what may be read anywhere, which
 * is slower, and wrong where the condition is stored as bytes and the loop is one of two that it vectorises as one. */
static bool feeds_arm(CPrinter *p, const IrOp *op) {
    for (const IrOp *user = op->results[0].uses->op;; op = user, user = user->results[0].uses->op) {
        if (user->opcode == IR_SELECT && user->operands[0] != &op->results[0]) return true;
        if (user->result_count != 1 || !c_value(p, &user->results[0])->deferrable) return false;
    }
}

static void plan_op(CPrinter *p, const IrOp *op) {
    if (!inlinable(op)) return;
    const IrOp *root = NULL;
    unsigned uses = 0;
    for (const IrUse *u = op->results[0].uses; u; u = u->next, uses++) {
        if (u->op->block != op->block) return;
        const IrOp *r = root_of(p, u->op);
        if (!root || r->mark > root->mark) root = r;
    }
    if (uses != 1 && !(op->opcode == IR_FRAG_GET && uses == 2)) return;
    if (reads_state(op) && hazard_before(op, root)) return;
    if (!p->dialect->gpu && is_masked_load(op) && feeds_integers(p, op)) return;
    if (!p->dialect->gpu && op->opcode == IR_MEM_LOAD && feeds_arm(p, op)) return;
    c_value(p, &op->results[0])->deferrable = true;
}

static void plan_block(CPrinter *p, const IrBlock *block) {
    for (const IrOp *op = block->last; op; op = op->prev) {
        plan_op(p, op);
        for (unsigned r = 0; r < op->region_count; r++) plan_block(p, op->regions[r]);
    }
}

void c_plan(CPrinter *p, const IrFunc *f) {
    p->groups.len = 0;
    number_ops(f->body, 1);
    visit_values(p, f->body, group_add);
    visit_values(p, f->body, group_first);
    plan_block(p, f->body);
}
