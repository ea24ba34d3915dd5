/* May chunks of an axis run in any order? If a tensor is stored to, the chunks must access disjoint elements: either all accesses of the
 * tensor begin at the same place along the axis, which no inner loop moves, or they are disjoint for other reasons. Analysis for
 * strip_mine; changes nothing. */

#include "analysis.h"

typedef struct {
    PassContext *ctx;
    const Axes *axes;
    size_t index;
    const IrBlock *scope;
} Cut;

typedef struct {
    IrOp *op;
    IrValue *tensor, *tile;
    IrValue *seen;      /* the tensor, or the view of it that the slice is of */
    bool stores, along; /* along: the cut axis is one of the slice's */
    unsigned operand, tensor_axis;
    const Aff *begin, *width; /* along the cut axis, in elements */
} Access;

static bool read_access(const Cut *c, IrOp *op, Access *a) {
    if (op->opcode != IR_TILE_LOAD && op->opcode != IR_TILE_STORE) return false;
    IrModule *m = c->ctx->module;
    *a = (Access){.op = op, .stores = op->opcode == IR_TILE_STORE};
    a->tile = a->stores ? op->operands[0] : &op->results[0];
    a->seen = op->operands[a->stores];
    a->tensor = memory_of(a->seen);
    int axis = axes_find(c->axes, a->tile, c->index);
    a->along = axis >= 0 && slice_operand(op, (unsigned)axis, &a->operand, &a->tensor_axis);
    if (!a->along) return true;
    const Aff *step = aff_const(m->affs, slice_step(op, (unsigned)axis));
    a->begin = ir_aff_of(m, op->operands[a->operand]);
    a->width = aff_mul(m->affs, step, a->tile->type->extents[axis]);
    return true;
}

/* ---- Loops inside the scope ---- */

static const IrOp *loop_of(const IrValue *v, const IrBlock *scope) {
    const IrBlock *b = home_of(v);
    for (; b && b != scope; b = b->parent ? b->parent->block : NULL)
        if (b->parent && (b->parent->opcode == IR_FOR || b->parent->opcode == IR_PARALLEL)) return b->parent;
    return NULL;
}

typedef struct {
    const Cut *cut;
    const IrValue *variable; /* of the one loop that moves the expression */
    bool other;              /* something else moves it too */
} Moves;

static void find_moves(Moves *m, const Aff *e) {
    if (e->kind == AFF_VAR) {
        const IrValue *v = e->var;
        const IrOp *loop = loop_of(v, m->cut->scope);
        bool counts = loop && v == loop->regions[0]->args[0];
        if (loop && (!counts || (m->variable && m->variable != v))) m->other = true;
        if (counts) m->variable = v;
    }
    for (size_t i = 0; i < e->count; i++) find_moves(m, e->args[i]);
}

/* Does the slice stay where it is in all iterations, or leave its elements behind? */
static bool keeps_place(const Cut *c, const Access *a) {
    AffCtx *affs = c->ctx->module->affs;
    Moves m = {.cut = c};
    find_moves(&m, a->begin);
    if (!m.variable && !m.other) return true;
    if (m.other) return false;
    const AffFacts *facts = ir_facts_at(c->ctx->scratch, a->op);
    const IrOp *loop = m.variable->block->parent;
    const Aff *next = aff_add(affs, aff_var(affs, m.variable, m.variable->name), ir_aff_of(c->ctx->module, loop->operands[2]));
    const Aff *moved = aff_sub(affs, aff_with(affs, a->begin, m.variable, next), a->begin);
    return aff_prove_le(facts, a->width, moved) || aff_prove_le(facts, a->width, aff_sub(affs, aff_const(affs, 0), moved));
}

static const Aff *moving_leaf(const Cut *c, const Aff *e) {
    if (e->kind == AFF_VAR) return loop_of(e->var, c->scope) ? e : NULL;
    const Aff *found = NULL;
    for (size_t i = 0; i < e->count && !found; i++) found = moving_leaf(c, e->args[i]);
    return found;
}

/* The place of the slice within a period of its own width, where loops move it by whole periods only;
 * null where they do not. */
static const Aff *place_in_period(const Cut *c, const Access *a) {
    AffCtx *affs = c->ctx->module->affs;
    const AffFacts *facts = ir_facts_at(c->ctx->scratch, a->op);
    const Aff *e = a->begin, *leaf;
    int64_t zero;
    while ((leaf = moving_leaf(c, e))) {
        const Aff *next = aff_with(affs, e, leaf->var, aff_add(affs, leaf, aff_const(affs, 1)));
        const Aff *step = aff_sub(affs, next, e);
        const Aff *rest = aff_simplify(facts, aff_mod(affs, step, a->width));
        bool whole = step == a->width || (aff_is_const(rest, &zero) && zero == 0);
        if (!whole || aff_depends_on(step, leaf->var)) return NULL;
        e = aff_with(affs, e, leaf->var, aff_const(affs, 0));
    }
    return e;
}

/* ---- What stays outside of the chunks ---- */

static bool holds(const OpList *ops, const IrOp *op) {
    for (size_t i = 0; i < ops->len; i++)
        if (ops->data[i] == op) return true;
    return false;
}

/* The op and what it is made of, each behind its operands: pure ops, loads, stores without the axis. False: some depend on chunks or on loops. */
static bool add_outside(const Cut *c, IrOp *op, OpList *outside) {
    if (holds(outside, op)) return true;
    bool movable = ir_has_trait(op, IR_PURE) || op->opcode == IR_TILE_LOAD || op->opcode == IR_TILE_STORE;
    if (op->block != c->scope || op->region_count || !movable || axes_touch(c->axes, op, c->index)) return false;
    for (unsigned i = 0; i < op->operand_count; i++) {
        IrOp *def = op->operands[i]->def;
        if (def && is_inside(def->block, c->scope) && !add_outside(c, def, outside)) return false;
    }
    VEC_PUSH(c->ctx->scratch, outside, op);
    return true;
}

static bool comes_before(const IrOp *a, const IrOp *b) {
    for (const IrOp *op = a->next; op; op = op->next)
        if (op == b) return true;
    return false;
}

/* Can what is stored be loaded before the chunks and stored behind them? */
static bool stays_outside(const Cut *c, const Access *store, const Access *load) {
    OpList outside = {0};
    return load->op->block == c->scope && store->op->block == c->scope && comes_before(load->op, store->op) &&
           add_outside(c, load->op, &outside) && add_outside(c, store->op, &outside);
}

/* ---- Pairs ---- */

static bool apart_along(const Cut *c, const Access *a, const Access *b) {
    AffCtx *affs = c->ctx->module->affs;
    const AffFacts *facts = ir_facts_at(c->ctx->scratch, b->op);
    return aff_prove_le(facts, aff_add(affs, a->begin, a->width), b->begin) ||
           aff_prove_le(facts, aff_add(affs, b->begin, b->width), a->begin);
}

static bool pair_is_safe(const Cut *c, const Access *a, const Access *b) {
    IrKind mode = ir_op_mode(a->op), other = ir_op_mode(b->op);
    bool commute = a->stores && b->stores && mode != IR_KIND_SET && mode == other;
    if (commute || (!a->stores && !b->stores)) return true;
    if (!a->along && !b->along) return b->stores || stays_outside(c, a, b); /* the first chunk stores, all load */
    if (!is_same_tensor(c->ctx->module, a->seen, b->seen)) return false;
    if (!a->along || !b->along || a->tensor_axis != b->tensor_axis) return false;
    const Aff *place = a->width == b->width ? place_in_period(c, a) : NULL;
    if (place && place == place_in_period(c, b)) return true;
    if (a->begin == b->begin) return keeps_place(c, a);
    Moves m = {.cut = c};
    find_moves(&m, a->begin);
    find_moves(&m, b->begin);
    return !m.variable && !m.other && apart_along(c, a, b);
}

bool cut_is_safe(PassContext *ctx, const Axes *axes, const OpList *ops, const IrBlock *scope, size_t index, const IrOp **store,
                 const IrOp **other) {
    Cut c = {ctx, axes, index, scope};
    for (size_t i = 0; i < ops->len; i++) {
        Access a, b;
        if (!is_inside(ops->data[i]->block, scope) || !read_access(&c, ops->data[i], &a)) continue;
        for (size_t k = 0; a.stores && k < ops->len; k++) {
            if (!is_inside(ops->data[k]->block, scope) || !read_access(&c, ops->data[k], &b)) continue;
            if (a.tensor != b.tensor || pair_is_safe(&c, &a, &b)) continue;
            *store = a.op;
            *other = b.op;
            return false;
        }
    }
    return true;
}

static bool is_updated(const Cut *c, const OpList *ops, const IrValue *tensor) {
    bool loads = false, stores = false;
    Access a;
    for (size_t i = 0; i < ops->len; i++) {
        if (!is_inside(ops->data[i]->block, c->scope) || !read_access(c, ops->data[i], &a) || a.tensor != tensor || a.along) continue;
        loads |= !a.stores;
        stores |= a.stores;
    }
    return loads && stores;
}

OpList cut_outside(PassContext *ctx, const Axes *axes, const OpList *ops, const IrBlock *scope, size_t index) {
    Cut c = {ctx, axes, index, scope};
    OpList outside = {0};
    Access a;
    for (size_t i = 0; i < ops->len; i++)
        if (is_inside(ops->data[i]->block, scope) && read_access(&c, ops->data[i], &a) && !a.along && is_updated(&c, ops, a.tensor))
            add_outside(&c, a.op, &outside);
    return outside;
}
