/* design: what runs along an axis: scans, sorts, arg-reductions, and tensors that are joined. */
#include "design_fold_internal.h"
#include "design_internal.h"
#include "query.h"
#include <string.h>

/* ---- Along an axis ---- */

/* The axis of the nest that the index is, if it is nothing else and the whole extent. */
static DesignAxis *whole_axis(Design *d, const Aff *index, const Aff *extent) {
    for (unsigned i = 0; i < d->axis_count; i++)
        if (d->axes[i]->var == index && d->axes[i]->walk == WALK_WHOLE && (!extent || d->axes[i]->extent == extent)) {
            d->axes[i]->coupled = true;
            return d->axes[i];
        }
    return NULL;
}

static DesignTile in_place(Design *d, const IrOp *op, const char *call, DesignTile t, DesignAxis *axis) {
    if (design_axis_position(&t, axis) < 0) t = design_spread(d, &t, axis);
    const char *text =
        arena_printf(d->arena, "%s(%s, axis=%d%s%s%s)", call, t.text, design_axis_position(&t, axis),
                     ir_attr_bool(op, "reverse") ? ", reverse=true" : "", ir_attr_bool(op, "exclusive") ? ", exclusive=true" : "",
                     ir_attr_bool(op, "descending") ? ", descending=true" : "");
    return design_let(d, text, t.rank, t.axes, t.dtype);
}

static DesignTile arg_extreme(Design *d, IrOp *op, const Aff *const *index) {
    DesignOperand o = {.value = op->operands[0]};
    DesignFold f = {.kind = IR_KIND_MAX};
    unsigned axis = (unsigned)ir_attr_int(op, "axis", 0);
    if (!design_operand_index(d, o.value->type, 1u << axis, ir_attr_bool(op, "keepdim"), index, op->results[0].type->rank, true, o.index,
                              &f))
        return (DesignTile){0};
    DesignTile t = design_operand_body(d, &o);
    if (d->error) return t;
    if (design_axis_position(&t, f.axes[0]) < 0) t = design_spread(d, &t, f.axes[0]);
    int at = design_axis_position(&t, f.axes[0]);
    DesignAxis *left[DESIGN_RANK];
    unsigned rank = 0;
    for (unsigned i = 0; i < t.rank; i++)
        if ((int)i != at) left[rank++] = t.axes[i];
    const char *call = ir_op_kind(op) == IR_KIND_MIN ? "argmin" : "argmax";
    return design_let(d, arena_printf(d->arena, "%s(%s, axis=%d)", call, t.text, at), rank, left, DTYPE_I64);
}

/* The first k of a descending sort, with where they stood. */
static DesignTile best(Design *d, IrValue *v, const Aff *const *index, int64_t k) {
    IrOp *op = v->def;
    unsigned axis = (unsigned)ir_attr_int(op, "axis", 0), rank = v->type->rank;
    DesignAxis *short_axis = whole_axis(d, index[axis], NULL), *axes[DESIGN_RANK];
    const Aff *inner[DESIGN_RANK];
    for (unsigned i = 0; i < rank; i++) inner[i] = index[i];
    DesignAxis *whole = design_fold_axis(d, v->type->extents[axis], index, rank, &(DesignFold){0}, true);
    if (!whole) return (DesignTile){0};
    inner[axis] = whole->var;
    DesignTile t = design_value(d, op->operands[0], inner);
    if (d->error) return t;
    if (design_axis_position(&t, whole) < 0) t = design_spread(d, &t, whole);
    for (unsigned i = 0; i < t.rank; i++) axes[i] = t.axes[i] == whole ? short_axis : t.axes[i];
    const char *names[] = {design_name(d), design_name(d)};
    design_line(d, "%s, %s = topk(%s, %lld, axis=%d)", names[0], names[1], t.text, (long long)k, design_axis_position(&t, whole));
    DesignTile result = {0};
    for (unsigned i = 0; i < 2; i++) {
        DesignKnown known = {.value = &op->results[i], .count = rank};
        memcpy(known.index, index, rank * sizeof *index);
        known.tile = t;
        known.tile.text = names[i];
        known.tile.is_loaded = false;
        memcpy(known.tile.axes, axes, sizeof axes);
        if (i) known.tile.dtype = DTYPE_I64;
        if (v == known.value) result = known.tile;
        VEC_PUSH(d->arena, &d->known, known);
    }
    return result;
}

static DesignTile sorted(Design *d, IrValue *v, const Aff *const *index) {
    unsigned axis = (unsigned)ir_attr_int(v->def, "axis", 0);
    const Aff *extent = v->type->extents[axis];
    DesignAxis *whole = whole_axis(d, index[axis], extent);
    if (whole && v == &v->def->results[0]) {
        DesignTile t = design_value(d, v->def->operands[0], index);
        return d->error ? t : in_place(d, v->def, "sort", t, whole);
    }
    DesignAxis *part = whole_axis(d, index[axis], NULL);
    int64_t k;
    if (part && ir_attr_bool(v->def, "descending") && aff_is_const(part->extent, &k)) return best(d, v, index, k);
    design_fail(d, "the indices of a sort, and parts of one, are only designed for as topk");
    return (DesignTile){0};
}

/* What a recurrence begins from, at its lane along the axis. */
static DesignTile started(Design *d, const IrOp *op, const Aff *const *index) {
    unsigned axis = (unsigned)ir_attr_int(op, "axis", 0);
    const Aff *inner[DESIGN_RANK];
    for (unsigned i = 0; i < op->results[0].type->rank; i++) inner[i] = i == axis ? aff_const(d->module->affs, 0) : index[i];
    return design_value(d, op->operands[2], inner);
}

/* h = a * h + b: both parts have the axis, or one of them repeats along it; what it begins from has none that they have not. */
static DesignTile recurred(Design *d, const IrOp *op, const Aff *const *index, DesignAxis *axis) {
    DesignTile part[2], all = {0}, start = {0};
    DesignAxis *axes[DESIGN_RANK];
    bool starts = op->operand_count > 2;
    if (starts) start = started(d, op, index);
    for (unsigned i = 0; i < 2; i++) {
        part[i] = design_value(d, op->operands[1 - i], index);
        if (d->error) return all;
        all.rank = design_union(&all, &part[i], axes);
        memcpy(all.axes, axes, sizeof axes);
    }
    for (unsigned i = 0; i <= start.rank && !d->error; i++) {
        DesignAxis *wanted = i < start.rank ? start.axes[i] : axis;
        if (design_axis_position(&all, wanted) >= 0) continue;
        part[1] = design_spread(d, &part[1], wanted);
        all.rank = design_union(&all, &part[1], axes);
        memcpy(all.axes, axes, sizeof axes);
    }
    const char *a = design_align(d, &part[0], all.rank, all.axes), *b = design_align(d, &part[1], all.rank, all.axes);
    const char *begin = starts ? arena_printf(d->arena, ", init=%s", design_align(d, &start, all.rank, all.axes)) : "";
    const char *text =
        arena_printf(d->arena, "linear_scan(%s, %s, axis=%d%s%s%s)", a, b, design_axis_position(&all, axis),
                     ir_attr_bool(op, "reverse") ? ", reverse=true" : "", ir_attr_bool(op, "exclusive") ? ", exclusive=true" : "", begin);
    return design_let(d, text, all.rank, all.axes, op->results[0].type->dtype);
}

static DesignTile scanned(Design *d, IrOp *op, const Aff *const *index) {
    static const char *const calls[] = {[IR_KIND_ADD] = "cumsum", [IR_KIND_MUL] = "cumprod", [IR_KIND_MAX] = "cummax"};
    IrKind kind = ir_op_kind(op);
    unsigned axis = (unsigned)ir_attr_int(op, "axis", 0);
    DesignAxis *whole = whole_axis(d, index[axis], op->results[0].type->extents[axis]);
    if (whole && kind == IR_KIND_LINEAR) return recurred(d, op, index, whole);
    if (whole && kind < COUNT_OF(calls) && calls[kind]) {
        DesignTile t = design_value(d, op->operands[0], index);
        return d->error ? t : in_place(d, op, calls[kind], t, whole);
    }
    if (!design_stage(d, &op->results[0])) return (DesignTile){0};
    return design_load(d, design_staged_name(d, &op->results[0]), op->results[0].type, index, NULL);
}

static DesignTile joined(Design *d, IrOp *op, const Aff *const *index) {
    AffCtx *c = d->module->affs;
    unsigned axis = (unsigned)ir_attr_int(op, "axis", 0), rank = op->results[0].type->rank;
    const Aff *begin = aff_const(c, 0), *inner[DESIGN_RANK];
    DesignTile at = design_index_tile(d, index[axis], DTYPE_I64), result = {0};
    double zero = 0;
    for (unsigned i = 0; i < op->operand_count && !d->error; i++) {
        IrValue *v = op->operands[i];
        for (unsigned k = 0; k < rank; k++) inner[k] = k == axis ? aff_sub(c, index[k], begin) : index[k];
        const char *name = design_source(d, v, inner);
        if (!name && !design_stage(d, v)) break;
        if (!name) name = design_staged_name(d, v);
        DesignTile part = design_load(d, name, v->type, inner, &zero);
        if (i) {
            DesignAxis *axes[DESIGN_RANK];
            unsigned n = design_union(&part, &result, axes);
            const char *text = arena_printf(d->arena, "where(%s < %s, %s, %s)", design_align(d, &at, n, axes), design_aff_text(d, begin),
                                            design_align(d, &result, n, axes), design_align(d, &part, n, axes));
            part = design_let(d, text, n, axes, part.dtype);
        }
        result = part;
        begin = aff_add(c, begin, v->type->extents[axis]);
    }
    return result;
}

DesignTile design_along(Design *d, IrValue *v, const Aff *const *index) {
    switch (v->def->opcode) {
    case IR_GRAPH_SCAN:
        return scanned(d, v->def, index);
    case IR_GRAPH_ARG:
        return arg_extreme(d, v->def, index);
    case IR_GRAPH_SORT:
        return sorted(d, v, index);
    default:
        return joined(d, v->def, index);
    }
}
