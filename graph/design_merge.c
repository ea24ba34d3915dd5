/* design: tensors whose neighbouring axes are one in the sketch, as their elements lie in memory anyway.
 *
 * A sketch of the library has one loop over all rows. Where the operator has several axes of rows it stores them as one, so that no tile ends within. A
 * tensor is declared once: what was read of it before it was known to be merged is written again. */
#include "design_internal.h"

#include <string.h>

const DesignMerge *design_merge_of(const Design *d, const char *tensor) {
    for (size_t i = 0; i < d->merges->all.len; i++)
        if (strcmp(d->merges->all.data[i].tensor, tensor) == 0) return &d->merges->all.data[i];
    return NULL;
}

const IrType *design_merged_type(Design *d, const IrType *type, unsigned first, unsigned count) {
    const Aff *extents[DESIGN_RANK];
    unsigned rank = 0;
    for (unsigned i = 0; i < type->rank; i++) {
        bool joins = i > first && i < first + count;
        if (joins)
            extents[rank - 1] = aff_mul(d->module->affs, extents[rank - 1], type->extents[i]);
        else
            extents[rank++] = type->extents[i];
    }
    return ir_type_tensor(d->module, type->dtype, rank, extents);
}

bool design_merge(Design *d, const char *tensor, const IrType *type, unsigned first, unsigned count) {
    const DesignMerge *known = design_merge_of(d, tensor);
    DesignMerge m = {.tensor = tensor, .type = design_merged_type(d, type, first, count)};
    if (known) return known->type == m.type || design_fail(d, "a tensor that two products read with other axes as one");
    for (unsigned i = 0, next = 0; i < type->rank; i++) {
        m.to[i] = next;
        next += !(i >= first && i + 1 < first + count);
    }
    VEC_PUSH(d->arena, &d->merges->all, m);
    d->merges->grew = true;
    return true;
}

/* The index that has been taken apart into these two of axes of which the second has `extent` elements and `behind` stand behind; else null. */
static const Aff *put_together(const Design *d, const Aff *first, const Aff *second, const Aff *extent, const Aff *behind) {
    AffCtx *c = d->module->affs;
    for (unsigned i = 0; i < d->axis_count; i++) {
        const Aff *whole = aff_floordiv(c, d->axes[i]->var, behind);
        if (aff_floordiv(c, whole, extent) == first && aff_mod(c, whole, extent) == second) return whole;
    }
    return NULL;
}

void design_merged_index(Design *d, const DesignMerge *m, const IrType *type, const Aff *const *index, const Aff **merged) {
    AffCtx *c = d->module->affs;
    memset(merged, 0, DESIGN_RANK * sizeof *merged);
    for (unsigned i = 0; i < type->rank; i++) {
        const Aff **at = &merged[m->to[i]], *behind = aff_const(c, 1);
        for (unsigned k = i + 1; k < type->rank && m->to[k] == m->to[i]; k++) behind = aff_mul(c, behind, type->extents[k]);
        const Aff *whole = *at ? put_together(d, *at, index[i], type->extents[i], behind) : index[i];
        *at = whole ? whole : aff_add(c, aff_mul(c, *at, type->extents[i]), index[i]);
    }
}

const IrType *design_declared(const Design *d, const char *tensor, const IrType *type) {
    const DesignMerge *m = design_merge_of(d, tensor);
    return m ? m->type : type;
}

IrValue *design_make_reshape(Design *d, IrValue *v, const IrType *t, IrOp *before) {
    for (const IrUse *u = v->uses; u; u = u->next) /* of an earlier writing */
        if (u->op->opcode == IR_GRAPH_RESHAPE && u->op->results[0].type == t) return &u->op->results[0];
    IrBuilder b = ir_builder_before(before);
    b.span = before->span;
    IrOp *op = ir_op_create(&b, IR_GRAPH_RESHAPE, 1, &v, 1, &t);
    design_order_init(d);
    return ir_result(op, 0);
}
