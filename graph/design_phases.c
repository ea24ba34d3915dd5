/* design: axes of results that are walked as two, and sums whose loops end early.
 *
 * What rewrite_phases deals out, Y[.., h, ..] = P[.., h % s, h // s, ..], is computed over the axes of P and stored to a view of Y: so a transposed convolution is a convolution
 * for each phase, and what is made of it lane by lane stays in its nest. */
#include "design_internal.h"

#include <string.h>

/* ---- What is dealt out ---- */

static bool is_arg(const Aff *e, const IrValue *arg) {
    return e->kind == AFF_VAR && e->var == arg;
}

static bool is_part(const Aff *e, AffKind kind, const IrValue *arg) {
    return e->kind == kind && is_arg(e->args[0], arg) && !aff_depends_on(e->args[1], arg);
}

/* The element that notation without a fold is: of a value that was computed. */
static const IrOp *only_element(const IrOp *op) {
    if (op->opcode != IR_GRAPH_GENERIC || ir_attr(op, "kind")) return NULL;
    const IrOp *e = op->regions[0]->last->operands[0]->def;
    return e && e->opcode == IR_GRAPH_ELEMENT && e->operands[0]->def ? e : NULL;
}

/* Is every index of the element one of the notation's, in order, or the two parts of one? */
static bool dealt(Design *d, const IrOp *op, const IrOp *element, DesignSplit *splits) {
    unsigned at = 1, found = 0;
    for (unsigned i = 0; i < op->operand_count; i++, at++) {
        const IrValue *arg = op->regions[0]->args[i];
        if (at >= element->operand_count) return false;
        const Aff *e = ir_aff_of(d->module, element->operands[at]);
        splits[i] = (DesignSplit){0};
        if (is_arg(e, arg)) continue;
        if (++at >= element->operand_count) return false;
        const Aff *next = ir_aff_of(d->module, element->operands[at]);
        bool strided = is_part(e, AFF_MOD, arg) && is_part(next, AFF_FLOORDIV, arg);
        bool apart = is_part(e, AFF_FLOORDIV, arg) && is_part(next, AFF_MOD, arg);
        if ((!strided && !apart) || e->args[1] != next->args[1]) return false;
        splits[i] = (DesignSplit){e->args[1], strided};
        found++;
    }
    return found && at == element->operand_count;
}

static bool reads_at_own_index(Design *d, const IrOp *notation, const IrOp *element) {
    bool same = element->operand_count == notation->operand_count + 1;
    for (unsigned i = 0; same && i < notation->operand_count; i++)
        same = is_arg(ir_aff_of(d->module, element->operands[i + 1]), notation->regions[0]->args[i]);
    return same;
}

/* Is it made of what is dealt out, lane by lane? `fuel` ends a search in a graph that shares much. */
static bool find_splits(Design *d, const IrValue *v, unsigned *fuel) {
    const IrOp *op = v->def;
    if (!op || !*fuel || --*fuel == 0) return false;
    const IrOp *element = only_element(op);
    if (element && dealt(d, op, element, d->splits)) return true;
    if (op->opcode == IR_GRAPH_GENERIC && !ir_attr(op, "kind"))
        for (const IrOp *e = op->regions[0]->first; e; e = e->next)
            if (e->opcode == IR_GRAPH_ELEMENT && reads_at_own_index(d, op, e) && find_splits(d, e->operands[0], fuel)) return true;
    for (unsigned i = 0; ir_has_trait(op, IR_ELEMENTWISE) && i < op->operand_count; i++)
        if (op->operands[i]->type->kind == IR_TYPE_TENSOR && find_splits(d, op->operands[i], fuel)) return true;
    return false;
}

bool design_splits(Design *d, const IrValue *v) {
    unsigned fuel = 256;
    bool found = !d->style->naive && find_splits(d, v, &fuel);
    if (!found) memset(d->splits, 0, sizeof d->splits);
    return found;
}

/* ---- Axes ---- */

static DesignAxis *add_phase(Design *d, const Aff *extent) {
    AffCtx *c = d->module->affs;
    DesignAxis *axis = design_axis_add(d, extent, false);
    if (!axis) return NULL;
    axis->phase = true;
    if (!d->facts) d->facts = aff_facts_create(d->arena, c);
    aff_facts_range(d->facts, axis->var, aff_const(c, 0), aff_sub(c, extent, aff_const(c, 1)));
    return axis;
}

static bool add_split(Design *d, const Aff *extent, unsigned i) {
    AffCtx *c = d->module->affs;
    const DesignSplit *s = &d->splits[i];
    const Aff *rows = aff_ceildiv(c, extent, s->size);
    DesignAxis *first = s->strided ? design_axis_add(d, rows, false) : add_phase(d, rows);
    DesignAxis *second = s->strided ? add_phase(d, s->size) : design_axis_add(d, s->size, false);
    if (!first || !second) return false;
    d->place[i] = aff_add(c, aff_mul(c, s->size, first->var), second->var);
    return true;
}

bool design_outer_axes(Design *d, const IrType *type) {
    d->facts = NULL;
    d->rank = type->rank;
    for (unsigned i = 0; i < type->rank; i++) {
        if (d->splits[i].size) {
            if (!add_split(d, type->extents[i], i)) return false;
            continue;
        }
        DesignAxis *axis = design_axis_add(d, type->extents[i], false);
        if (!axis) return false;
        d->place[i] = axis->var;
    }
    d->outer_count = d->axis_count;
    return true;
}

const char *design_target(Design *d, const char *name) {
    if (d->outer_count == d->rank) return name;
    const char *view = arena_printf(d->arena, "V%u", d->view_count++);
    str_printf(d->views, "    view %s[", view);
    for (unsigned i = 0; i < d->outer_count; i++)
        str_printf(d->views, "%s%s: %s", i ? ", " : "", d->axes[i]->single ? arena_printf(d->arena, "s%u", i) : d->axes[i]->name,
                   design_aff_text(d, d->axes[i]->extent));
    str_printf(d->views, "] = %s[", name);
    for (unsigned i = 0; i < d->rank; i++) str_printf(d->views, "%s%s", i ? ", " : "", design_aff_text(d, d->place[i]));
    str_append(d->views, "]\n");
    return view;
}

/* ---- Sums that end early ---- */

enum { MOST_BOUNDED = 32 }; /* indices that are looped over one by one */

/* `index < end` of two index values, cast or not. */
static bool is_bound(const IrValue *condition, IrValue **index, IrValue **end) {
    const IrOp *op = condition->def;
    if (!op || op->opcode != IR_LT) return false;
    *index = op->operands[0];
    *end = op->operands[1];
    if ((*index)->def && (*index)->def->opcode == IR_CAST) *index = (*index)->def->operands[0];
    if ((*end)->def && (*end)->def->opcode == IR_CAST) *end = (*end)->def->operands[0];
    return (*index)->type->is_index && (*end)->type->is_index;
}

static bool is_short(IrModule *m, IrValue *extent) {
    int64_t n;
    return aff_is_const(ir_aff_of(m, extent), &n) && n <= MOST_BOUNDED;
}

/* Which index that the notation folds, of few, is bounded? -1: the condition is another. */
static int bounded_index(const IrOp *op, const IrValue *condition, IrValue **end) {
    IrValue *index;
    if (!is_bound(condition, &index, end)) return -1;
    for (unsigned i = (unsigned)ir_attr_int(op, "outer", 0); i < op->operand_count; i++)
        if (op->regions[0]->args[i] == index) return is_short(op->block->func->module, op->operands[i]) ? (int)i : -1;
    return -1;
}

static bool all_bounds(const IrOp *op, const IrValue *condition) {
    IrValue *end;
    if (condition->def && condition->def->opcode == IR_AND)
        return all_bounds(op, condition->def->operands[0]) && all_bounds(op, condition->def->operands[1]);
    return bounded_index(op, condition, &end) >= 0;
}

static const IrOp *choice_of(const IrOp *op) {
    const IrOp *choice = op->regions[0]->last->operands[0]->def;
    if (!choice || choice->opcode != IR_SELECT || strcmp(ir_attr_str(op, "kind", ""), "add") != 0) return NULL;
    const IrOp *none = choice->operands[2]->def;
    const IrAttr *value = none && none->opcode == IR_CONST ? ir_attr(none, "value") : NULL;
    bool zero = value && (value->kind == IR_ATTR_FLOAT ? value->number == 0 : value->integer == 0);
    return zero && all_bounds(op, choice->operands[0]) ? choice : NULL;
}

IrValue *design_bounded_value(const IrOp *op) {
    const IrOp *choice = choice_of(op);
    return choice ? choice->operands[1] : op->regions[0]->last->operands[0];
}

/* Does the expression only name indices that stand still inside of the loops? */
static bool is_fixed(const Design *d, const Aff *e) {
    for (unsigned i = 0; i < d->axis_count; i++)
        if (aff_depends_on(e, d->axes[i]) && (d->axes[i]->walk != WALK_POINT || d->axes[i]->folded)) return false;
    return true;
}

static bool set_turns(Design *d, const IrOp *op, const IrValue *condition, DesignAxis *const *axes, bool check) {
    IrValue *end;
    if (condition->def->opcode == IR_AND)
        return set_turns(d, op, condition->def->operands[0], axes, check) && set_turns(d, op, condition->def->operands[1], axes, check);
    DesignAxis *axis = axes[bounded_index(op, condition, &end) - (int)ir_attr_int(op, "outer", 0)];
    const Aff *e = design_index(d, end);
    if (!e) return false;
    if (check) return d->dry || (axis->walk == WALK_POINT && axis->folded && is_fixed(d, e));
    if (!d->dry) axis->turns = aff_min(d->module->affs, e, axis->extent);
    return true;
}

IrValue *design_folded_value(Design *d, IrOp *op, DesignAxis *const *axes) {
    const IrOp *choice = choice_of(op);
    bool ends = choice && set_turns(d, op, choice->operands[0], axes, true) && set_turns(d, op, choice->operands[0], axes, false);
    return ends ? choice->operands[1] : op->regions[0]->last->operands[0];
}
