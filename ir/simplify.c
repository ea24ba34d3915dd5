/* Local cleanups: constants, identities, common subexpressions, loops of no or one trip, dead code.
 * The meaning is kept bit for bit: floats fold only where the result is exact. */

#include "ir_internal.h"

typedef struct {
    IrModule *m;
    Arena *scratch;
    bool changed;
    const IrBlock *facts_of; /* the block that `facts` are of, or null */
    AffFacts *facts;
} Simplifier;

static void replace_with(Simplifier *s, IrOp *op, IrValue *value) {
    ir_replace_uses(ir_result(op, 0), value);
    ir_op_erase(op);
    s->changed = true;
}

static void replace_with_const(Simplifier *s, IrOp *op, IrConst c) {
    IrBuilder b = ir_builder_before(op);
    replace_with(s, op, ir_const_emit(&b, ir_result(op, 0)->type, c));
}

/* ---- Single ops ---- */

/* Constant operands may be splats of any shape: the result is a splat of the result's type. */
static bool fold_constants(Simplifier *s, IrOp *op) {
    IrConst in[3], out;
    if (op->operand_count < 1 || op->operand_count > 3) return false;
    for (unsigned i = 0; i < op->operand_count; i++)
        if (!ir_const_of(op->operands[i], &in[i])) return false;
    const IrType *type = ir_result(op, 0)->type;
    const IrType *operand = op->operands[0]->type;
    if (!ir_fold(op->opcode, type, operand, op->operand_count, in, &out)) return false;
    replace_with_const(s, op, out);
    return true;
}

/* A constant or scalar has no absent lanes; what else is left out might take lanes from the result. */
static bool is_present(const IrValue *v) {
    IrConst c;
    return v->type->kind != IR_TYPE_TILE || ir_const_of(v, &c);
}

static bool fold_identity(Simplifier *s, IrOp *op) {
    IrValue *value = NULL;
    IrConst c;
    if (op->operand_count != 2) return false;
    if (!ir_fold_identity(op->opcode, op->operands[0], op->operands[1], ir_result(op, 0)->type, &value, &c)) return false;
    if (!value && !(is_present(op->operands[0]) && is_present(op->operands[1]))) return false;
    if (value)
        replace_with(s, op, value);
    else
        replace_with_const(s, op, c);
    return true;
}

static bool fold_select(Simplifier *s, IrOp *op) {
    IrConst c;
    const IrType *type = ir_result(op, 0)->type;
    IrValue *x = op->operands[1], *y = op->operands[2], *kept = x == y ? x : NULL;
    if (ir_const_of(op->operands[0], &c)) kept = c.integer ? x : y;
    if (!kept || kept->type != type || !is_present(op->operands[0])) return false;
    if (x != y && !is_present(kept == x ? y : x)) return false;
    replace_with(s, op, kept);
    return true;
}

/* Facts with little effort: a cleanup tries every op, most in vain. They are the block's; what is
 * simplified meanwhile leaves them true. */
static const AffFacts *facts_at(Simplifier *s, IrOp *op) {
    if (s->facts_of != op->block) {
        s->facts = ir_facts_at(s->scratch, op);
        s->facts_of = op->block;
        aff_facts_effort(s->facts, 24);
    }
    return s->facts;
}

static bool fold_cast(Simplifier *s, IrOp *op) {
    if (op->operands[0]->type != ir_result(op, 0)->type) return false;
    replace_with(s, op, op->operands[0]);
    return true;
}

/* An index expression whose canonical form is a constant or one existing value. */
static bool fold_affine(Simplifier *s, IrOp *op) {
    IrValue *result = ir_result(op, 0);
    const Aff *e = ir_aff_of(s->m, result);
    int64_t value = 0;
    if (e->kind == AFF_FLOORDIV || e->kind == AFF_MOD || e->kind == AFF_MIN || e->kind == AFF_SUM)
        if (op->opcode == IR_MIN || op->opcode == IR_MAX || op->opcode == IR_FLOORDIV || op->opcode == IR_MOD) {
            const Aff *known = aff_simplify(facts_at(s, op), e);
            if (known->kind != AFF_OVERFLOW) e = known;
        }
    if (aff_is_const(e, &value)) {
        replace_with_const(s, op, (IrConst){.integer = value});
        return true;
    }
    IrValue *existing = NULL;
    if (e->kind == AFF_VAR) existing = (IrValue *)e->var;
    if (e->kind == AFF_SYM) existing = ir_func_symbol(op->block->func, e->name);
    if (!existing || existing == result || existing->type != result->type) return false;
    replace_with(s, op, existing);
    return true;
}

/* min and max of which one side is proved to be the result. */
static bool fold_min_max(Simplifier *s, IrOp *op) {
    if (op->opcode != IR_MIN && op->opcode != IR_MAX) return false;
    IrValue *x = op->operands[0], *y = op->operands[1];
    const Aff *a = ir_aff_of(s->m, x), *b = ir_aff_of(s->m, y);
    const AffFacts *facts = facts_at(s, op);
    bool x_less = aff_prove_le(facts, a, b), y_less = !x_less && aff_prove_le(facts, b, a);
    if (!x_less && !y_less) return false;
    replace_with(s, op, x_less == (op->opcode == IR_MIN) ? x : y);
    return true;
}

/* Comparisons of index values that the facts decide. */
static bool fold_compare(Simplifier *s, IrOp *op) {
    if (op->opcode != IR_LT && op->opcode != IR_LE) return false;
    const Aff *a = ir_aff_of(s->m, op->operands[0]), *b = ir_aff_of(s->m, op->operands[1]);
    const AffFacts *facts = facts_at(s, op);
    const Aff *one = aff_const(s->m->affs, 1);
    const Aff *above = op->opcode == IR_LT ? aff_add(s->m->affs, a, one) : a;
    const Aff *below = op->opcode == IR_LT ? b : aff_add(s->m->affs, b, one);
    bool yes = aff_prove_le(facts, above, b), no = !yes && aff_prove_le(facts, below, a);
    if (!yes && !no) return false;
    replace_with_const(s, op, (IrConst){.integer = yes});
    return true;
}

static bool simplify_value(Simplifier *s, IrOp *op) {
    if (op->opcode == IR_SELECT && fold_select(s, op)) return true;
    if (op->opcode == IR_CAST && fold_cast(s, op)) return true;
    if (!ir_has_trait(op, IR_ELEMENTWISE)) return false;
    if (fold_constants(s, op) || fold_identity(s, op)) return true;
    if (!op->operand_count || !ir_type_is_index(op->operands[0]->type)) return false;
    if (ir_type_is_index(ir_result(op, 0)->type) && op->opcode != IR_SELECT && fold_affine(s, op)) return true;
    return fold_min_max(s, op) || fold_compare(s, op);
}

/* ---- Loops and conditions ---- */

static void inline_region(IrOp *op, IrBlock *region) {
    IrOp *last = region->last;
    if (last && last->opcode == IR_YIELD) {
        for (unsigned i = 0; i < op->result_count && i < last->operand_count; i++) ir_replace_uses(ir_result(op, i), last->operands[i]);
        ir_op_erase(last);
    }
    while (region->first) ir_op_move_before(region->first, op);
    ir_op_erase(op);
}

static bool trip_bounds(Simplifier *s, IrOp *op, int64_t *step, const Aff **span) {
    if (!aff_is_const(ir_aff_of(s->m, op->operands[2]), step) || *step < 1) return false;
    *span = aff_sub(s->m->affs, ir_aff_of(s->m, op->operands[1]), ir_aff_of(s->m, op->operands[0]));
    return (*span)->kind != AFF_OVERFLOW;
}

static void drop_loop(IrOp *op) {
    for (unsigned i = 0; i < op->result_count; i++) ir_replace_uses(ir_result(op, i), op->operands[i + 3]);
    ir_op_erase(op);
}

static void unwrap_loop(IrOp *op) {
    IrBlock *body = op->regions[0];
    ir_replace_uses(body->args[0], op->operands[0]);
    for (unsigned i = 0; i < op->result_count; i++) ir_replace_uses(body->args[i + 1], op->operands[i + 3]);
    inline_region(op, body);
}

/* A grid axis keeps its loop: it is the launch's shape, not control flow. */
static bool simplify_loop(Simplifier *s, IrOp *op) {
    const Aff *span = NULL;
    int64_t step = 0;
    IrBlock *body = op->regions[0];
    if (body->arg_count != op->result_count + 1 || !trip_bounds(s, op, &step, &span)) return false;
    const AffFacts *facts = facts_at(s, op);
    if (aff_prove_le(facts, span, aff_const(s->m->affs, 0))) {
        drop_loop(op);
        return true;
    }
    if (op->opcode == IR_PARALLEL && ir_attr(op, "axis")) return false;
    if (!aff_prove_le(facts, span, aff_const(s->m->affs, step)) || !aff_prove_le(facts, aff_const(s->m->affs, 1), span)) return false;
    unwrap_loop(op);
    return true;
}

static bool simplify_if(IrOp *op) {
    IrConst c;
    if (ir_const_of(op->operands[0], &c)) {
        inline_region(op, op->regions[c.integer ? 0 : 1]);
        return true;
    }
    return false;
}

/* The index of an axis of extent 1 is 0; a map of one point without results is its body. */
static bool simplify_map(Simplifier *s, IrOp *op) {
    const IrAttr *extents = ir_attr(op, "extents");
    IrBlock *body = op->regions[0];
    bool one_point = true;
    if (!extents || extents->count != body->arg_count) return false;
    for (unsigned i = 0; i < body->arg_count; i++) {
        one_point = one_point && extents->ints[i] == 1;
        if (extents->ints[i] != 1 || !body->args[i]->uses) continue;
        IrBuilder b = ir_builder_before(op);
        ir_replace_uses(body->args[i], ir_const_index(&b, 0));
        s->changed = true;
    }
    if (!one_point || op->result_count) return false;
    inline_region(op, body);
    return true;
}

static bool simplify_control(Simplifier *s, IrOp *op) {
    bool done = false;
    if (op->opcode == IR_FOR || op->opcode == IR_PARALLEL) done = simplify_loop(s, op);
    if (op->opcode == IR_IF) done = simplify_if(op);
    if (op->opcode == IR_MAP) done = simplify_map(s, op);
    s->changed = s->changed || done;
    return done;
}

/* ---- Dead code ---- */

static bool has_effects(const IrOp *op);

static bool region_has_effects(const IrBlock *region) {
    for (const IrOp *op = region->first; op; op = op->next)
        if (!ir_has_trait(op, IR_TERMINATOR) && has_effects(op)) return true;
    return false;
}

static bool has_effects(const IrOp *op) {
    if (ir_has_trait(op, IR_WRITES | IR_COLLECTIVE | IR_TERMINATOR)) return true;
    for (unsigned i = 0; i < op->region_count; i++)
        if (region_has_effects(op->regions[i])) return true;
    return false;
}

static bool is_unused(const IrOp *op) {
    for (unsigned i = 0; i < op->result_count; i++)
        if (op->results[i].uses) return false;
    return true;
}

/* Backwards, so that what only dead ops use goes in the same sweep. */
static void remove_dead(Simplifier *s, IrBlock *block) {
    for (IrOp *op = block->last, *previous; op; op = previous) {
        previous = op->prev;
        for (unsigned i = 0; i < op->region_count; i++) remove_dead(s, op->regions[i]);
        bool storage = op->opcode == IR_BUF_ALLOC; /* its only effect is its result */
        if (!is_unused(op) || (has_effects(op) && !storage)) continue;
        ir_op_erase(op);
        s->changed = true;
    }
}

/* ---- The sweep ---- */

static void sweep(Simplifier *s, IrBlock *block) {
    for (IrOp *op = block->first, *next; op; op = next) {
        IrOp *before = op->prev;
        if (simplify_value(s, op)) {
            next = before ? before->next : block->first;
            continue;
        }
        for (unsigned i = 0; i < op->region_count; i++) sweep(s, op->regions[i]);
        bool gone = op->region_count && simplify_control(s, op);
        next = !gone ? op->next : before ? before->next : block->first;
    }
}

bool ir_simplify(IrFunc *f) {
    bool changed = false;
    for (unsigned round = 0; round < 8; round++) {
        Simplifier s = {.m = f->module, .scratch = arena_create()};
        sweep(&s, f->body);
        s.changed |= ir_merge_equal(f, s.scratch);
        remove_dead(&s, f->body);
        arena_destroy(s.scratch);
        if (!s.changed) break;
        changed = true;
    }
    return changed;
}
