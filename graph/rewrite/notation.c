/* Index notation written again; notation.h says for whom. */
#include "notation.h"
#include "analyzer.h"

/* Terms of a sum or product that are put in order; a longer one stays as it is. */
enum { MOST_TERMS = 64 };

static const Aff *meaning_of(void *context, const Aff *leaf) {
    const Notation *n = context;
    if (leaf->kind != AFF_VAR) return NULL;
    for (unsigned i = 0; i < n->from->arg_count; i++)
        if (n->from->args[i] == leaf->var) return n->meaning[i];
    for (unsigned i = 0; i < n->part_count; i++)
        if (n->parts[i].to == leaf) return leaf;
    const IrValue *v = ir_value_map_get(n->map, (IrValue *)leaf->var);
    return aff_var(n->m->affs, v, v->name);
}

IrValue *notation_index(IrBuilder *b, Notation *n, IrValue *v) {
    bool index = v->type->kind == IR_TYPE_SCALAR && v->type->is_index;
    if (!index) return ir_value_map_get(n->map, v);
    const Aff *e = ir_aff_of(n->m, v);
    for (unsigned i = 0; i < n->part_count; i++) e = notation_replace(n->m->affs, e, n->parts[i].from, n->parts[i].to);
    e = aff_substitute(n->m->affs, e, meaning_of, n);
    return e->kind == AFF_OVERFLOW ? ir_value_map_get(n->map, v) : ir_aff_emit(b, e);
}

IrOp *notation_create(IrBuilder *b, Dtype dtype, unsigned count, IrValue *const *extents, unsigned outer) {
    IrModule *m = b->block->func->module;
    const Aff *shape[2 * NOTATION_ARGS];
    for (unsigned i = 0; i < outer; i++) shape[i] = ir_aff_of(m, extents[i]);
    const IrType *t = ir_type_tensor(m, dtype, outer, shape);
    IrOp *to = ir_op_create(b, IR_GRAPH_GENERIC, count, extents, 1, &t);
    ir_attr_set_int(to, "outer", outer);
    return to;
}

const Aff *notation_arg(IrOp *to, const char *name) {
    IrModule *m = to->block->func->module;
    const IrValue *arg = ir_region_add_arg(to->regions[0], ir_type_index(m), name);
    return aff_var(m->affs, arg, arg->name);
}

void notation_begin(IrBuilder *b, Notation *n) {
    for (unsigned i = 0; i < n->from->arg_count; i++) ir_value_map_set(n->map, n->from->args[i], ir_aff_emit(b, n->meaning[i]));
}

void notation_copy_op(IrBuilder *b, Notation *n, const IrOp *op) {
    IrOp *copy = ir_op_clone(b, op, n->map);
    IrBuilder before = ir_builder_before(copy);
    for (unsigned i = 0; i < op->operand_count; i++) ir_set_operand(copy, i, notation_index(&before, n, op->operands[i]));
}

void notation_copy(IrOp *to, Notation *n, Span span) {
    IrBuilder b = ir_builder_at_end(to->regions[0]);
    b.span = span;
    notation_begin(&b, n);
    for (const IrOp *op = n->from->first; op; op = op->next) notation_copy_op(&b, n, op);
}

const Aff *notation_with(IrModule *m, const Aff *e, const IrValue *arg, const Aff *value) {
    return aff_with(m->affs, e, arg, value);
}

bool notation_slope(IrModule *m, const Aff *e, const IrValue *arg, int64_t *by) {
    const Aff *at0 = notation_with(m, e, arg, aff_const(m->affs, 0)), *at1 = notation_with(m, e, arg, aff_const(m->affs, 1));
    if (!aff_is_const(aff_sub(m->affs, at1, at0), by)) return false;
    const Aff *line = aff_add(m->affs, at0, aff_mul(m->affs, aff_const(m->affs, *by), aff_var(m->affs, arg, arg->name)));
    return line == e;
}

static const Aff *combined(AffCtx *c, const Aff *e, const Aff *const *args) {
    ANALYZER_ASSUME(e->kind == AFF_SUM || e->kind == AFF_PRODUCT || e->count == 2);
    const Aff *all = aff_const(c, e->kind == AFF_SUM ? e->value : 1);
    switch (e->kind) {
    case AFF_SUM:
        for (size_t i = 0; i < e->count; i++) all = aff_add(c, all, aff_mul(c, aff_const(c, e->coefs[i]), args[i]));
        return all;
    case AFF_PRODUCT:
        for (size_t i = 0; i < e->count; i++) all = aff_mul(c, all, args[i]);
        return all;
    case AFF_FLOORDIV:
        return aff_floordiv(c, args[0], args[1]);
    case AFF_MOD:
        return aff_mod(c, args[0], args[1]);
    case AFF_MIN:
        return aff_min(c, args[0], args[1]);
    default:
        return e;
    }
}

const Aff *notation_replace(AffCtx *c, const Aff *e, const Aff *from, const Aff *to) {
    const Aff *args[MOST_TERMS];
    if (e == from) return to;
    if (!e->count || e->count > MOST_TERMS) return e;
    for (size_t i = 0; i < e->count; i++) args[i] = notation_replace(c, e->args[i], from, to);
    return combined(c, e, args);
}
