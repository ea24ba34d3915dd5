/* Prints results one axis of which two loops walk (a quotient and a remainder, the *phase*), and sums whose loops end early.
 *
 * rewrite_phases turns a transposed convolution into Y[.., h, ..] = P[.., h % s, h // s, ..]. The nest then runs over the axes of P and stores to a view of Y. So a
 * transposed convolution becomes an ordinary convolution for each phase, and elementwise operations on its result stay in the same nest. */
#include "design_internal.h"
#include "notation.h"

#include <string.h>

enum { MOST_BOUNDED = 32 }; /* indices: the longest axis whose loop takes one an iteration; windows are shorter (not measured) */

/* ---- Results made of a quotient and a remainder ---- */

static bool is_arg(const Aff *e, const IrValue *arg) {
    return e->kind == AFF_VAR && e->var == arg;
}

static bool is_part(const Aff *e, AffKind kind, const IrValue *arg) {
    return e->kind == kind && is_arg(e->args[0], arg) && !aff_depends_on(e->args[1], arg);
}

/* Of index notation that reduces nothing: the one element of a computed value that it reads; null where it is anything else. */
static const IrOp *only_element(const IrOp *op) {
    if (op->opcode != IR_GRAPH_GENERIC || ir_attr(op, "kind")) return NULL;
    const IrOp *e = op->regions[0]->last->operands[0]->def;
    return e && e->opcode == IR_GRAPH_ELEMENT && e->operands[0]->def ? e : NULL;
}

/* `row` where the expression is `first * row + second`; null where it has another form. */
static const Aff *row_of(Design *d, const Aff *e, const IrValue *first, const IrValue *second) {
    AffCtx *c = d->module->affs;
    const Aff *zero = aff_const(c, 0), *rows = notation_with(d->module, e, second, zero);
    const Aff *row = aff_sub(c, notation_with(d->module, rows, first, aff_const(c, 1)), notation_with(d->module, rows, first, zero));
    const Aff *whole = aff_add(c, aff_mul(c, row, aff_var(c, first, first->name)), aff_var(c, second, second->name));
    return whole == e && !aff_depends_on(row, first) ? row : NULL;
}

/* How many axes of the nest (and of the value that is read) belong to an axis of the results; 0 for the second of two that are one. */
static unsigned axes_of(const DesignSplit *s) {
    return s->follows ? 0 : s->size ? 2 : 1;
}

/* Whether each index of the element is an index of the notation, in order, or the quotient and the remainder of one. */
static bool dealt(Design *d, const IrOp *op, const IrOp *element, DesignSplit *splits) {
    unsigned at = 1, found = 0;
    for (unsigned i = 0; i < op->operand_count; i++, at++) {
        const IrValue *arg = op->regions[0]->args[i];
        if (at >= element->operand_count) return false;
        const Aff *e = ir_aff_of(d->module, element->operands[at]);
        splits[i] = (DesignSplit){0};
        if (is_arg(e, arg)) continue;
        const Aff *row = i + 1 < op->operand_count ? row_of(d, e, arg, op->regions[0]->args[i + 1]) : NULL;
        if (row) {
            splits[i] = (DesignSplit){.row = row, .rows = element->operands[0]->type->extents[at - 1]};
            splits[++i] = (DesignSplit){.follows = true};
            found++;
            continue;
        }
        if (++at >= element->operand_count) return false;
        const Aff *next = ir_aff_of(d->module, element->operands[at]);
        bool strided = is_part(e, AFF_MOD, arg) && is_part(next, AFF_FLOORDIV, arg);
        bool apart = is_part(e, AFF_FLOORDIV, arg) && is_part(next, AFF_MOD, arg);
        if ((!strided && !apart) || e->args[1] != next->args[1]) return false;
        const IrType *from = element->operands[0]->type;
        splits[i] = (DesignSplit){.size = e->args[1], .strided = strided, .rows = from->extents[strided ? at - 1 : at - 2]};
        found++;
    }
    return found && at == element->operand_count;
}

/* The value that is read may itself be made of quotients and remainders, along other axes. */
static void add_inner(Design *d, const IrOp *op, const IrOp *element) {
    DesignSplit inner[DESIGN_RANK];
    const IrOp *from = element->operands[0]->def, *again = only_element(from);
    if (!again || !dealt(d, from, again, inner)) return;
    for (unsigned i = 0, at = 0; i < op->operand_count; i++) {
        bool own = d->splits[i].size || d->splits[i].row || d->splits[i].follows;
        at += axes_of(&d->splits[i]);
        if (!own) d->splits[i] = inner[at - 1];
    }
}

static bool reads_at_own_index(Design *d, const IrOp *notation, const IrOp *element) {
    bool same = element->operand_count == notation->operand_count + 1;
    for (unsigned i = 0; same && i < notation->operand_count; i++)
        same = is_arg(ir_aff_of(d->module, element->operands[i + 1]), notation->regions[0]->args[i]);
    return same;
}

/* ---- Values reduced in groups, as in a group norm ---- */

/* Whether the value depends on a reduction over a tensor of this type whose result is not in a workspace. */
static bool is_of_fold(const Design *d, const IrValue *v, const IrType *type, unsigned *fuel) {
    const IrOp *op = v->def;
    if (!op || !*fuel || --*fuel == 0 || design_home(d, v)) return false;
    if (op->opcode == IR_GRAPH_REDUCE && op->operands[0]->type == type) return true;
    for (unsigned i = 0; i < op->operand_count; i++)
        if (is_of_fold(d, op->operands[i], type, fuel)) return true;
    return false;
}

/* Whether each axis of `to` is one axis of `from` or the product of two neighbouring ones. */
static bool joins_axes(Design *d, const IrType *from, const IrType *to, DesignSplit *splits) {
    unsigned at = 0, found = 0;
    for (unsigned i = 0; i < to->rank; i++, at++) {
        if (at >= from->rank) return false;
        splits[i] = (DesignSplit){0};
        if (from->extents[at] == to->extents[i]) continue;
        if (at + 1 >= from->rank || aff_mul(d->module->affs, from->extents[at], from->extents[at + 1]) != to->extents[i]) return false;
        splits[i] = (DesignSplit){.rows = from->extents[at], .size = from->extents[at + 1], .grouped = true};
        at++;
        found++;
    }
    return found && at == from->rank;
}

/* Y[m, G*P] = reshape(a value that is reduced along P): the iteration that reduces a group also makes all of its elements. */
static bool joins_groups(Design *d, const IrOp *op, DesignSplit *splits) {
    unsigned fuel = 256;
    const IrValue *from = op->operand_count ? op->operands[0] : NULL;
    return op->opcode == IR_GRAPH_RESHAPE && from->type->kind == IR_TYPE_TENSOR && from->type->rank <= DESIGN_RANK &&
           is_of_fold(d, from, from->type, &fuel) && joins_axes(d, from->type, op->results[0].type, splits);
}

/* Whether the value is an elementwise function of one of the two forms above that is not in a workspace. `fuel` limits the search where many operations read the
 * same value. */
static bool find_splits(Design *d, const IrValue *v, unsigned *fuel) {
    const IrOp *op = v->def;
    if (!op || design_home(d, v) || !*fuel || --*fuel == 0) return false;
    const IrOp *element = only_element(op);
    if (joins_groups(d, op, d->splits)) return true;
    if (element && dealt(d, op, element, d->splits)) {
        add_inner(d, op, element);
        return true;
    }
    if (op->opcode == IR_GRAPH_GENERIC && !ir_attr(op, "kind"))
        for (const IrOp *e = op->regions[0]->first; e; e = e->next)
            if (e->opcode == IR_GRAPH_ELEMENT && reads_at_own_index(d, op, e) && find_splits(d, e->operands[0], fuel)) return true;
    for (unsigned i = 0; ir_has_trait(op, IR_ELEMENTWISE) && i < op->operand_count; i++)
        if (op->operands[i]->type->kind == IR_TYPE_TENSOR && find_splits(d, op->operands[i], fuel)) return true;
    return false;
}

bool design_is_in_place(Design *d, const IrOp *notation, const IrOp *element) {
    DesignSplit splits[DESIGN_RANK];
    return reads_at_own_index(d, notation, element) || (only_element(notation) == element && dealt(d, notation, element, splits));
}

bool design_splits(Design *d, const IrValue *v) {
    unsigned fuel = 256;
    bool found = !d->style->naive && find_splits(d, v, &fuel);
    if (!found) memset(d->splits, 0, sizeof d->splits);
    return found;
}

/* ---- Axes ---- */

static DesignAxis *add_phase(Design *d, const Aff *extent) {
    DesignAxis *axis = design_axis_add(d, extent, false);
    if (!axis) return NULL;
    axis->phase = true;
    return axis;
}

static bool add_split(Design *d, unsigned i) {
    AffCtx *c = d->module->affs;
    DesignSplit *s = &d->splits[i];
    const Aff *rows = s->rows;
    DesignAxis *first = s->strided ? design_axis_add(d, rows, false) : add_phase(d, rows);
    DesignAxis *second = s->strided ? add_phase(d, s->size) : design_axis_add(d, s->size, false);
    if (!first || !second) return false;
    s->first = first->var;
    s->second = second->var;
    if (!d->facts) d->facts = aff_facts_create(d->arena, c);
    aff_facts_range(d->facts, second->var, aff_const(c, 0), aff_sub(c, s->size, aff_const(c, 1)));
    d->place[i] = aff_add(c, aff_mul(c, s->size, first->var), second->var);
    return true;
}

/* One axis of the nest for this axis of the results and the next. */
static bool add_merged(Design *d, unsigned i) {
    AffCtx *c = d->module->affs;
    DesignSplit *s = &d->splits[i];
    DesignAxis *axis = design_axis_add(d, s->rows, false);
    if (!axis) return false;
    if (!d->facts) d->facts = aff_facts_create(d->arena, c);
    s->first = axis->var;
    d->place[i] = aff_floordiv(c, axis->var, s->row);
    d->place[i + 1] = aff_mod(c, axis->var, s->row);
    return true;
}

bool design_outer_axes(Design *d, const IrType *type) {
    d->facts = NULL;
    d->rank = type->rank;
    d->extents = type->extents;
    for (unsigned i = 0; i < type->rank; i++) {
        const DesignSplit *s = &d->splits[i];
        if (s->follows) continue;
        if (s->size || s->row) {
            if (s->size ? !add_split(d, i) : !add_merged(d, i)) return false;
            continue;
        }
        DesignAxis *axis = design_axis_add(d, type->extents[i], false);
        if (!axis) return false;
        d->place[i] = axis->var;
    }
    d->outer_count = d->axis_count;
    return true;
}

const Aff *design_parts(Design *d, const Aff *e) {
    AffCtx *c = d->module->affs;
    for (unsigned i = 0; i < d->rank; i++) {
        const DesignSplit *s = &d->splits[i];
        if (s->row) e = notation_replace(c, e, aff_add(c, aff_mul(c, s->row, d->place[i]), d->place[i + 1]), s->first);
        if (!s->size) continue;
        e = notation_replace(c, e, aff_floordiv(c, d->place[i], s->size), s->first);
        e = notation_replace(c, e, aff_mod(c, d->place[i], s->size), s->second);
    }
    return aff_simplify(d->facts, e);
}

/* Whether the loops over both axes of the split take one index an iteration. Then the view has the results' axis itself. */
static bool is_one_index(const DesignSplit *s, DesignAxis *const *axes) {
    return s->size && axes[0]->walk == WALK_POINT && axes[1]->walk == WALK_POINT;
}

static void add_dim(Design *d, Str *head, Str *index, Str *slices, unsigned at, unsigned i) {
    DesignAxis *const *axes = &d->axes[at];
    const DesignSplit *s = &d->splits[i];
    const char *between = at ? ", " : "";
    if (is_one_index(s, axes)) {
        str_printf(head, "%sa%u: %s", between, i, design_aff_text(d, d->extents[i]));
        str_printf(index, "%sa%u", between, i);
        str_printf(slices, "%s%s", between, design_aff_text(d, d->place[i]));
        return;
    }
    str_printf(index, "%s%s", between, design_aff_text(d, d->place[i]));
    for (unsigned k = 0; k < axes_of(s); k++) {
        const char *name = axes[k]->single ? arena_printf(d->arena, "s%u", i) : axes[k]->name;
        str_printf(head, "%s%s: %s", k ? ", " : between, name, design_aff_text(d, axes[k]->extent));
        str_printf(slices, "%s%s", k ? ", " : between, design_slice(d, axes[k]));
    }
}

const char *design_target(Design *d, const char *name) {
    Str head, index, slices;
    str_init(&head);
    str_init(&index);
    str_init(&slices);
    bool apart = false;
    for (unsigned i = 0, at = 0; i < d->rank; at += axes_of(&d->splits[i++])) {
        add_dim(d, &head, &index, &slices, at, i);
        apart |= d->splits[i].size || d->splits[i].row;
    }
    if (apart) {
        const char *view = arena_printf(d->arena, "V%u", d->view_count++);
        str_printf(d->views, "    view %s[%s] = %s[%s]\n", view, head.data, name, index.data);
        name = view;
    }
    const char *target = d->rank ? arena_printf(d->arena, "%s[%s]", name, slices.data) : name;
    str_release(&head);
    str_release(&index);
    str_release(&slices);
    return target;
}

/* ---- Sums that end early ---- */

/* Whether the condition is `index < end` of two index values, with or without casts. */
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

/* The short folded index that the condition bounds; -1: it is another condition. */
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
    if (!choice || choice->opcode != IR_SELECT || ir_op_kind(op) != IR_KIND_ADD) return NULL;
    const IrOp *none = choice->operands[2]->def;
    const IrAttr *value = none && none->opcode == IR_CONST ? ir_attr(none, "value") : NULL;
    bool zero = value && (value->kind == IR_ATTR_FLOAT ? value->number == 0 : value->integer == 0);
    return zero && all_bounds(op, choice->operands[0]) ? choice : NULL;
}

IrValue *design_bounded_value(const IrOp *op) {
    const IrOp *choice = choice_of(op);
    return choice ? choice->operands[1] : op->regions[0]->last->operands[0];
}

/* Whether the expression depends only on indices that do not change inside of the loops. */
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
