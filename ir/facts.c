/* What is known of index values at a place: constraints, guard, loops, conditions, thread ids. */

#include "ir_internal.h"

typedef struct {
    IrModule *m;
    AffFacts *facts;
} Facts;

static const Aff *constant(const Facts *f, int64_t value) {
    return aff_const(f->m->affs, value);
}

static const Aff *difference(const Facts *f, const Aff *a, const Aff *b) {
    return aff_sub(f->m->affs, a, b);
}

static bool usable(const Aff *e) {
    return e->kind != AFF_OVERFLOW;
}

/* ---- Statements ---- */

/* d divides x when x mod d == 0, or x - d*(x//d) == 0, which is another canonical form of it. */
static void assume_divisibility(const Facts *f, const Aff *e) {
    int64_t d = 0;
    if (e->kind == AFF_MOD && aff_is_const(e->args[1], &d) && d > 0) {
        aff_facts_multiple(f->facts, e->args[0], d);
        return;
    }
    if (e->kind != AFF_SUM) return;
    for (size_t i = 0; i < e->count; i++) {
        const Aff *quotient = e->args[i];
        if (quotient->kind != AFF_FLOORDIV || !aff_is_const(quotient->args[1], &d) || d <= 0) continue;
        if (e->coefs[i] != -d) continue;
        const Aff *rest = aff_add(f->m->affs, e, aff_mul(f->m->affs, constant(f, d), quotient));
        if (rest == quotient->args[0]) aff_facts_multiple(f->facts, rest, d);
    }
}

static void assume_nonneg(const Facts *f, const Aff *e);

static void assume_zero(const Facts *f, const Aff *e) {
    if (!usable(e)) return;
    assume_divisibility(f, e);
    assume_divisibility(f, difference(f, constant(f, 0), e));
    aff_facts_nonneg(f->facts, e);
    aff_facts_nonneg(f->facts, difference(f, constant(f, 0), e));
}

/* base + min(a, b) >= 0 holds of both; -(x mod d) >= 0 says that d divides x. */
static void assume_nonneg(const Facts *f, const Aff *e) {
    if (!usable(e)) return;
    aff_facts_nonneg(f->facts, e);
    const Aff *minus = difference(f, constant(f, 0), e);
    if (minus->kind == AFF_MOD) assume_divisibility(f, minus);
    const Aff *const *terms = e->kind == AFF_SUM ? e->args : &e;
    for (size_t i = 0; i < (e->kind == AFF_SUM ? e->count : 1); i++) {
        const Aff *min = terms[i];
        if (min->kind != AFF_MIN || (e->kind == AFF_SUM && e->coefs[i] != 1)) continue;
        const Aff *base = difference(f, e, min);
        assume_nonneg(f, aff_add(f->m->affs, base, min->args[0]));
        assume_nonneg(f, aff_add(f->m->affs, base, min->args[1]));
        return;
    }
}

static void assume_less(const Facts *f, const Aff *a, const Aff *b) {
    assume_nonneg(f, difference(f, difference(f, b, a), constant(f, 1)));
}

/* A condition that is known to be true (or false). */
static void assume_condition(const Facts *f, IrValue *cond, bool holds, unsigned depth) {
    const IrOp *op = cond->def;
    if (!op || !depth) return;
    if (op->opcode == IR_NOT) assume_condition(f, op->operands[0], !holds, depth - 1);
    if (op->opcode == (holds ? IR_AND : IR_OR)) {
        assume_condition(f, op->operands[0], holds, depth - 1);
        assume_condition(f, op->operands[1], holds, depth - 1);
    }
    if (op->operand_count != 2 || !ir_type_is_index(op->operands[0]->type)) return;
    const Aff *a = ir_aff_of(f->m, op->operands[0]), *b = ir_aff_of(f->m, op->operands[1]);
    const Aff *one_more = aff_add(f->m->affs, b, constant(f, 1));
    if (op->opcode == (holds ? IR_EQ : IR_NE)) assume_zero(f, difference(f, a, b));
    if (op->opcode == IR_LT && holds) assume_less(f, a, b);
    if (op->opcode == IR_LT && !holds) assume_nonneg(f, difference(f, a, b));
    if (op->opcode == IR_LE && holds) assume_less(f, a, one_more);
    if (op->opcode == IR_LE && !holds) assume_less(f, b, a);
}

/* ---- Regions ---- */

static const Aff *leaf_of(const Facts *f, IrValue *v) {
    return aff_var(f->m->affs, v, v->name);
}

static int64_t greatest_divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* lb <= i < ub; from a constant step s: i - lb is a multiple of s, and the last i lies a whole step
 * below ub when ub - lb is one as well. */
static void assume_loop(const Facts *f, const IrOp *op) {
    IrValue *i = op->regions[0]->arg_count ? op->regions[0]->args[0] : NULL;
    if (!i) return;
    const Aff *lb = ir_aff_of(f->m, op->operands[0]), *ub = ir_aff_of(f->m, op->operands[1]);
    int64_t step = 0;
    if (!aff_is_const(ir_aff_of(f->m, op->operands[2]), &step)) step = 1; /* positive, or nothing runs */
    if (step < 1) return;
    bool whole = step > 1 && aff_known_divisor(f->facts, difference(f, ub, lb), step) == step;
    const Aff *hi = difference(f, ub, constant(f, whole ? step : 1));
    aff_facts_range(f->facts, leaf_of(f, i), lb, usable(hi) ? hi : NULL);
    /* The body runs, so the range is not empty. */
    assume_nonneg(f, difference(f, hi, lb));
    int64_t first = 0;
    bool from_zero = aff_is_const(lb, &first) && first == 0;
    int64_t common = from_zero ? step : greatest_divisor(aff_known_divisor(f->facts, lb, step), step);
    if (common > 1) aff_facts_multiple(f->facts, leaf_of(f, i), common);
}

static void assume_map(const Facts *f, const IrOp *op) {
    const IrAttr *extents = ir_attr(op, "extents");
    const IrBlock *body = op->regions[0];
    if (!extents || extents->kind != IR_ATTR_INTS) return;
    for (unsigned i = 0; i < body->arg_count && i < extents->count; i++)
        aff_facts_range(f->facts, leaf_of(f, body->args[i]), constant(f, 0), constant(f, extents->ints[i] - 1));
}

static void assume_generic(const Facts *f, const IrOp *op) {
    const IrBlock *body = op->regions[0];
    for (unsigned i = 0; i < body->arg_count && i < op->operand_count; i++) {
        const Aff *hi = difference(f, ir_aff_of(f->m, op->operands[i]), constant(f, 1));
        aff_facts_range(f->facts, leaf_of(f, body->args[i]), constant(f, 0), usable(hi) ? hi : NULL);
    }
}

static void assume_region(const Facts *f, const IrOp *parent, const IrBlock *region) {
    switch (parent->opcode) {
    case IR_FOR:
    case IR_PARALLEL:
        assume_loop(f, parent);
        break;
    case IR_MAP:
        assume_map(f, parent);
        break;
    case IR_GRAPH_GENERIC:
        assume_generic(f, parent);
        break;
    case IR_IF:
        assume_condition(f, parent->operands[0], region == parent->regions[0], 8);
        break;
    default:
        break;
    }
}

/* ---- Thread ids ---- */

static const Aff *special_extent(const Facts *f, const IrFunc *func, IrSpecial special) {
    int64_t warps = ir_func_int(func, IR_FN_NUM_WARPS, 0);
    switch (special) {
    case IR_SPECIAL_LANE:
        return warps ? constant(f, 32) : NULL;
    case IR_SPECIAL_WARP:
        return warps ? constant(f, warps) : NULL;
    case IR_SPECIAL_TID_X:
        return warps ? constant(f, warps * 32) : NULL;
    case IR_SPECIAL_CLUSTER_RANK:
        return constant(f, ir_func_cluster(func));
    case IR_SPECIAL_CLUSTERID_X: {
        const Aff *grid = ir_func_aff(func, IR_FN_GRID_X);
        return grid ? aff_floordiv(f->m->affs, grid, constant(f, ir_func_cluster(func))) : NULL;
    }
    case IR_SPECIAL_CTAID_X:
        return ir_func_aff(func, IR_FN_GRID_X);
    case IR_SPECIAL_CTAID_Y:
        return ir_func_aff(func, IR_FN_GRID_Y);
    case IR_SPECIAL_CTAID_Z:
        return ir_func_aff(func, IR_FN_GRID_Z);
    default:
        return NULL;
    }
}

/* A grid's loop variable, made from a block id, is below the loop's trip count. */
static void assume_below(const Facts *f, IrOp *op) {
    const IrAttr *below = ir_attr(op, "below");
    if (!below || below->kind != IR_ATTR_AFF) return;
    const Aff *value = ir_aff_of(f->m, ir_result(op, 0));
    assume_nonneg(f, value);
    assume_less(f, value, below->aff);
}

static void assume_specials(const Facts *f, const IrBlock *block) {
    for (IrOp *op = block->first; op; op = op->next) {
        if (op->opcode == IR_FLOORDIV || op->opcode == IR_MOD || op->opcode == IR_ADD) assume_below(f, op);
        if (op->opcode != IR_SPECIAL) continue;
        const IrAttr *below = ir_attr(op, "below");
        const Aff *extent = below && below->kind == IR_ATTR_AFF ? below->aff : special_extent(f, block->func, ir_op_special(op));
        const Aff *hi = extent ? difference(f, extent, constant(f, 1)) : NULL;
        aff_facts_range(f->facts, leaf_of(f, ir_result(op, 0)), constant(f, 0), hi);
    }
}

/* ---- Functions ---- */

static void assume_function(const Facts *f, const IrFunc *func) {
    for (size_t i = 0; i < func->constraint_count; i++) {
        const IrConstraint *c = &func->constraints[i];
        if (c->equal)
            assume_zero(f, c->expr);
        else
            assume_nonneg(f, c->expr);
    }
    for (unsigned i = 0; i < func->param_count; i++)
        if (func->params[i].derived) assume_zero(f, difference(f, aff_sym(f->m->affs, func->params[i].name), func->params[i].derived));
    if (func->guard) assume_nonneg(f, difference(f, func->guard, constant(f, 1)));
}

static void assume_enclosing(const Facts *f, const IrBlock *block) {
    if (block->parent) {
        assume_enclosing(f, block->parent->block);
        assume_region(f, block->parent, block);
    }
    assume_specials(f, block);
}

AffFacts *ir_facts_at(Arena *scratch, IrOp *op) {
    IrFunc *func = op->block->func;
    Facts f = {.m = func->module, .facts = aff_facts_create(scratch, func->module->affs)};
    assume_function(&f, func);
    assume_enclosing(&f, op->block);
    return f.facts;
}
