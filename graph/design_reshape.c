/* Where an element of a reshaped tensor was: axes whose extents together are those of axes before stay among themselves, so that only
 * what is really cut or merged is divided. */
#include "design_internal.h"

const Aff *design_linear(Design *d, const Aff *const *extents, const Aff *const *index, unsigned rank) {
    AffCtx *c = d->module->affs;
    const Aff *at = aff_const(c, 0);
    for (unsigned i = 0; i < rank; i++) at = aff_add(c, aff_mul(c, at, extents[i]), index[i]);
    return at;
}

static const Aff *known_parts(Design *d, const Aff *e) {
    return d->facts ? design_parts(d, e) : e;
}

static void unfold(Design *d, const AffFacts *facts, const Aff *const *extents, unsigned rank, const Aff *at, const Aff **index) {
    AffCtx *c = d->module->affs;
    for (unsigned i = rank; i-- > 0;) {
        index[i] = aff_simplify(facts, known_parts(d, i ? aff_mod(c, at, extents[i]) : at));
        at = aff_simplify(facts, known_parts(d, aff_floordiv(c, at, extents[i])));
    }
}

static const Aff *product(AffCtx *c, const Aff *const *extents, unsigned count) {
    const Aff *all = aff_const(c, 1);
    for (unsigned i = 0; i < count; i++) all = aff_mul(c, all, extents[i]);
    return all;
}

/* The fewest last axes of both that have the same extent together: all, if no fewer have. */
static void last_group(AffCtx *c, const IrType *to, unsigned a, const IrType *from, unsigned b, unsigned *of_to, unsigned *of_from) {
    for (unsigned both = 1; both < a + b; both++)
        for (unsigned x = both > b ? both - b : 0; x <= a && x <= both; x++)
            if (product(c, to->extents + a - x, x) == product(c, from->extents + b - (both - x), both - x)) {
                *of_to = x;
                *of_from = both - x;
                return;
            }
    *of_to = a;
    *of_from = b;
}

/* An element is asked for where there is one: then no extent is 0. */
static AffFacts *facts_of_element(Design *d, const IrType *from) {
    AffFacts *facts = aff_facts_create(d->arena, d->module->affs);
    for (unsigned i = 0; i < from->rank; i++) aff_facts_range(facts, from->extents[i], aff_const(d->module->affs, 1), NULL);
    return facts;
}

void design_reshaped(Design *d, const IrType *to, const Aff *const *index, const IrType *from, const Aff **inner) {
    const AffFacts *facts = facts_of_element(d, from);
    unsigned a = to->rank, b = from->rank, of_to, of_from;
    while (a || b) {
        last_group(d->module->affs, to, a, from, b, &of_to, &of_from);
        a -= of_to;
        b -= of_from;
        if (of_to == 1 && of_from == 1)
            inner[b] = index[a];
        else
            unfold(d, facts, from->extents + b, of_from, design_linear(d, to->extents + a, index + a, of_to), inner + b);
    }
}

/* Does it merge or cut axes? Those of one lane come and go. */
static bool regroups(AffCtx *c, const IrOp *op) {
    const IrType *from = op->operands[0]->type, *to = op->results[0].type;
    unsigned a = to->rank, b = from->rank, of_to, of_from;
    while (a || b) {
        last_group(c, to, a, from, b, &of_to, &of_from);
        if (of_to > 1 || of_from > 1) return true;
        a -= of_to;
        b -= of_from;
    }
    return false;
}

bool design_regroups_folds(IrModule *module, IrFunc *f) {
    for (IrOp *op = f->body->first; op; op = op->next) {
        op->mark = op->opcode == IR_GRAPH_REDUCE;
        for (unsigned i = 0; i < op->operand_count; i++) op->mark |= op->operands[i]->def && op->operands[i]->def->mark;
        if (op->mark && op->opcode == IR_GRAPH_RESHAPE && regroups(module->affs, op)) return true;
    }
    return false;
}
