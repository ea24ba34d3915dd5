/* Reading a fragment at the indices of another distribution of its tile: broadcasts, transposes and
 * slices copy nothing, they are other indices into the same fragment. */
#include "lower_internal.h"

IrValue *dist_sub_index(IrBuilder *b, const DistDim *dim, unsigned s, IrValue *value) {
    int64_t inner = 1;
    for (unsigned k = s + 1; k < dim->sub_count; k++) inner *= dim->subs[k].extent;
    if (inner > 1) value = ir_binary(b, IR_FLOORDIV, value, ir_const_index(b, inner));
    if (s > 0) value = ir_binary(b, IR_MOD, value, ir_const_index(b, dim->subs[s].extent));
    return value;
}

/* What digit `v` of `have` says of `want`, two runs along one axis, in steps of `want`; *covered
 * grows by the number of values that are decided so. Null: nothing. */
static IrValue *shared_digits(IrBuilder *b, const DistSub *want, const DistSub *have, IrValue *v, int64_t *covered) {
    int64_t low = want->stride > have->stride ? want->stride : have->stride;
    int64_t end_want = want->stride * want->extent, end_have = have->stride * have->extent;
    int64_t high = end_want < end_have ? end_want : end_have;
    if (low >= high || high % low || low % want->stride || low % have->stride) return NULL;
    if (low > have->stride) v = ir_binary(b, IR_FLOORDIV, v, ir_const_index(b, low / have->stride));
    if (high < end_have) v = ir_binary(b, IR_MOD, v, ir_const_index(b, high / low));
    *covered *= high / low;
    return index_mul_const(b, v, low / want->stride);
}

/* The index of run `want` of the rep's fragment: its digits lie in one or several runs of `at`. */
static IrValue *run_index(IrBuilder *b, const DistSub *want, unsigned axis, const Dist *at, IrValue *const *index) {
    IrValue *sum = NULL;
    int64_t covered = 1;
    for (unsigned i = 0; i < at->dim_count; i++)
        for (unsigned k = 0; k < at->dims[i].sub_count; k++) {
            const DistSub *have = &at->dims[i].subs[k];
            if (have->axis != axis || have->extent == 1) continue;
            if (want->stride >= have->stride * have->extent || have->stride >= want->stride * want->extent) continue;
            IrValue *v = shared_digits(b, want, have, dist_sub_index(b, &at->dims[i], k, index[i]), &covered);
            if (!v) return NULL;
            sum = index_add(b, sum, v);
        }
    return covered == want->extent ? sum : NULL;
}

/* The fragment index along `want`, a dimension of the rep's fragment. */
static IrValue *matching_index(IrBuilder *b, const Rep *rep, const DistDim *want, const Dist *at, IrValue *const *index) {
    IrValue *sum = NULL;
    int64_t inner = 1;
    for (unsigned s = want->sub_count; s-- > 0; inner *= want->subs[s].extent) {
        const DistSub *sub = &want->subs[s];
        int axis = rep->axis_map[sub->axis];
        if (sub->extent == 1 || axis < 0) continue;
        IrValue *found = run_index(b, sub, (unsigned)axis, at, index);
        if (!found) return NULL;
        sum = index_add(b, sum, index_mul_const(b, found, inner));
    }
    return sum ? sum : ir_const_index(b, 0);
}

/* How far bit `bit` of lane or warp moves along the axis. */
static int64_t bit_stride(const Dist *d, DistSource source, unsigned bit, unsigned axis) {
    for (unsigned i = 0; i < d->term_count; i++) {
        const DistTerm *t = &d->terms[i];
        if (t->source == source && t->axis == axis && bit >= t->shift && t->mask >> (bit - t->shift) & 1)
            return t->stride << (bit - t->shift);
    }
    return 0;
}

/* Does each thread hold, of the rep's fragment, what its lanes of `at` need? */
static bool same_threads(const Rep *rep, const Dist *at) {
    for (unsigned a = 0; a < rep->dist.rank; a++) {
        int axis = rep->axis_map[a];
        for (unsigned bit = 0; axis >= 0 && bit < 5; bit++)
            for (DistSource source = DIST_LANE; source <= DIST_WARP; source++)
                if (bit_stride(&rep->dist, source, bit, a) != bit_stride(at, source, bit, (unsigned)axis)) return false;
    }
    return true;
}

IrValue *rep_get(Lower *x, IrBuilder *b, const Rep *rep, const Dist *at, IrValue *const *index, int64_t width) {
    if (!rep->is_frag) return rep->value;
    IrValue *operands[DIST_MAX_DIMS + 1] = {rep->value};
    bool same = same_threads(rep, at);
    for (unsigned i = 0; i < rep->dist.dim_count; i++) {
        IrValue *v = same ? matching_index(b, rep, &rep->dist.dims[i], at, index) : NULL;
        if (!v) {
            if (!x->failed) diag_report(x->ctx->diags, DIAG_not_lowered, b->span, "a tile is read in a layout that does not match");
            x->failed = true;
            v = ir_const_index(b, 0);
        }
        operands[i + 1] = v;
    }
    const IrType *type = ir_type_vec(x->module, rep->value->type->dtype, (unsigned)width);
    return ir_result(ir_op_create(b, IR_FRAG_GET, rep->dist.dim_count + 1, operands, 1, &type), 0);
}

bool rep_is_own(const Rep *rep, const Dist *dist) {
    if (!rep->is_frag || !dist_equal(&rep->dist, dist)) return false;
    for (unsigned a = 0; a < dist->rank; a++)
        if (rep->axis_map[a] != (int)a) return false;
    return true;
}

IrValue *rep_materialise(Lower *x, const Rep *rep, const Dist *dist, Dtype dtype) {
    if (rep_is_own(rep, dist)) return rep->value;
    IrBuilder inner;
    IrValue *index[DIST_MAX_DIMS];
    IrOp *map = dist_map(x, dist, 1, dtype, &inner, index);
    IrValue *element = rep_get(x, &inner, rep, dist, index, 1);
    ir_yield(&inner, 1, &element);
    return ir_result(map, 0);
}
