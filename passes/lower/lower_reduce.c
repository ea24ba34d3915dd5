/* Reductions: within the fragment, then over lanes by shuffles, then over warps through shared memory,
 * partials taken in index order at each step, so that the result does not depend on timing. */
#include "analysis/analysis.h"
#include "lower_internal.h"
#include "lower_reduce_internal.h"
#include "plant.h"

#include <math.h>

static bool reduction_kind(IrKind kind, IrOpcode *combine) {
    *combine = reduce_opcode(kind);
    return kind != IR_KIND_NONE && kind != IR_KIND_SET && kind != IR_KIND_MEAN && kind != IR_KIND_LINEAR;
}

static double neutral_float(IrOpcode combine) {
    return combine == IR_MAX ? -INFINITY : combine == IR_MIN ? INFINITY : combine == IR_MUL ? 1 : 0;
}

static IrValue *neutral(Lower *x, IrBuilder *b, IrOpcode combine, Dtype dtype) {
    const IrType *type = ir_type_scalar(x->module, dtype);
    bool is_max = combine == IR_MAX, extreme = is_max || combine == IR_MIN;
    if (dtype_is_float(dtype)) return ir_const_float(b, type, neutral_float(combine));
    if (combine == IR_AND) return ir_const_int(b, type, dtype == DTYPE_BOOL ? 1 : -1);
    unsigned bits = dtype_bits(dtype);
    int64_t top = dtype_is_signed(dtype) ? INT64_MAX >> (64 - bits) : (int64_t)(UINT64_MAX >> (64 - bits));
    int64_t bottom = dtype_is_signed(dtype) ? -top - 1 : 0;
    if (!extreme) return ir_const_int(b, type, combine == IR_MUL);
    return ir_const_int(b, type, is_max ? bottom : top);
}

IrValue *lower_identity(Lower *x, IrBuilder *b, IrKind kind, Dtype dtype, IrOpcode *combine) {
    return reduction_kind(kind, combine) ? neutral(x, b, *combine, dtype) : NULL;
}

static IrValue *identity(Lower *x, IrBuilder *b, const Reduction *r) {
    return neutral(x, b, r->combine, r->dtype);
}

/* Hardware shuffles words: narrow lanes travel as one. */
IrValue *lower_shuffle(Lower *x, IrBuilder *b, IrValue *v, int64_t mask) {
    const IrType *own = v->type;
    bool narrow = dtype_size(own->dtype) < 4;
    if (narrow) v = ir_cast(b, v, ir_type_scalar(x->module, dtype_is_float(own->dtype) ? DTYPE_F32 : DTYPE_I32));
    IrOp *op = ir_op_create(b, IR_SHUFFLE_XOR, 1, &v, 1, &v->type);
    ir_attr_set_int(op, "mask", mask);
    return narrow ? ir_cast(b, ir_result(op, 0), own) : ir_result(op, 0);
}

/* Where the operand is absent along an axis that is kept, so is the result: what it holds there is of no account. */
static Presence folded_presence(Lower *x, const Reduction *r) {
    Presence p = presence_in(x->presence, r->op->operands[0]);
    for (unsigned i = 0; i < p.rank; i++)
        if (!(r->axes >> i & 1)) p.axes[i] = (PresenceAxis){0};
    return p;
}

/* The operand as a fragment whose lanes that are absent along a folded axis hold the identity. */
static IrValue *masked_operand(Lower *x, Reduction *r) {
    IrValue *operand = r->op->operands[0], *index[DIST_MAX_DIMS];
    const Rep *rep = lower_rep(x, operand);
    IrBuilder inner, saved = x->b;
    IrOp *map = dist_map(x, &r->from, 1, r->dtype, &inner, index);
    x->b = ir_builder_before(map);
    Presence present = folded_presence(x, r);
    bool holds = dtype_is_float(r->dtype) && absent_holds(x, operand, r->axes, neutral_float(r->combine));
    IrValue *mask = holds ? NULL : interval_mask(x, &inner, &present, &r->from, index, NULL);
    x->b = saved;
    if (!mask && rep_is_own(rep, &r->from)) {
        ir_yield(&inner, 1, &(IrValue *){identity(x, &inner, r)});
        ir_op_erase(map);
        return rep->value;
    }
    IrValue *element = rep_get(x, &inner, rep, &r->from, index, 1);
    if (mask && !PLANTED(20)) element = ir_select(&inner, mask, element, identity(x, &inner, r));
    ir_yield(&inner, 1, &element);
    return ir_result(map, 0);
}

/* Fragment indices of the operand from the indices of its kept subs (in order) and reduced subs. */
static void operand_index(IrBuilder *b, const Reduction *r, IrValue *const *kept, IrValue *const *reduced, IrValue **index) {
    unsigned next_kept = 0, next_reduced = 0;
    for (unsigned i = 0; i < r->from.dim_count; i++) {
        const DistDim *dim = &r->from.dims[i];
        int64_t kept_inner = 1, inner = 1;
        bool has_kept = false;
        for (unsigned s = 0; s < dim->sub_count; s++)
            if (!(r->axes >> dim->subs[s].axis & 1)) has_kept = true;
        unsigned reduced_count = 0;
        for (unsigned s = 0; s < dim->sub_count; s++) reduced_count += r->axes >> dim->subs[s].axis & 1;
        unsigned reduced_at = next_reduced + reduced_count;
        IrValue *sum = NULL;
        for (unsigned s = dim->sub_count; s-- > 0; inner *= dim->subs[s].extent) {
            IrValue *v;
            if (r->axes >> dim->subs[s].axis & 1) {
                v = reduced[--reduced_at];
            } else {
                v = kept[next_kept];
                if (kept_inner > 1) v = ir_binary(b, IR_FLOORDIV, v, ir_const_index(b, kept_inner));
                if (has_kept && dim->sub_count > reduced_count + 1) v = ir_binary(b, IR_MOD, v, ir_const_index(b, dim->subs[s].extent));
                kept_inner *= dim->subs[s].extent;
            }
            sum = index_add(b, sum, index_mul_const(b, v, inner));
        }
        index[i] = sum ? sum : ir_const_index(b, 0);
        next_reduced += reduced_count;
        next_kept += has_kept;
    }
}

typedef struct {
    unsigned count;
    int64_t extent[DIST_MAX_DIMS * 2];
} ReducedSubs;

static ReducedSubs reduced_subs(const Reduction *r) {
    ReducedSubs subs = {0};
    for (unsigned i = 0; i < r->from.dim_count; i++)
        for (unsigned s = 0; s < r->from.dims[i].sub_count; s++)
            if (r->axes >> r->from.dims[i].subs[s].axis & 1) subs.extent[subs.count++] = r->from.dims[i].subs[s].extent;
    return subs;
}

static IrValue *operand_element(IrBuilder *b, const Reduction *r, IrValue *const *kept, IrValue *const *reduced, const IrType *type) {
    IrValue *operands[DIST_MAX_DIMS + 1] = {r->frag};
    operand_index(b, r, kept, reduced, operands + 1);
    return ir_result(ir_op_create(b, IR_FRAG_GET, r->from.dim_count + 1, operands, 1, &type), 0);
}

/* Nested loops over the reduced subs from number `level` on; `width` lanes a step of the last. */
static IrValue *reduce_loops(Lower *x, IrBuilder *b, const Reduction *r, const ReducedSubs *subs, unsigned level, IrValue *const *kept,
                             IrValue **reduced, IrValue *acc, int64_t width) {
    if (level == subs->count) {
        IrValue *element = operand_element(b, r, kept, reduced, acc->type);
        return ir_binary(b, r->combine, acc, element);
    }
    int64_t step = level + 1 == subs->count ? width : 1;
    IrOp *loop = ir_for(b, ir_const_index(b, 0), ir_const_index(b, subs->extent[level]), ir_const_index(b, step), 1, &acc, NULL);
    if (x->gpu) ir_attr_set_int(loop, "unroll", -1);
    IrBuilder body = ir_builder_at_end(loop->regions[0]);
    body.span = b->span;
    reduced[level] = loop->regions[0]->args[0];
    IrValue *next = reduce_loops(x, &body, r, subs, level + 1, kept, reduced, loop->regions[0]->args[1], width);
    ir_yield(&body, 1, &next);
    return ir_result(loop, 0);
}

/* One value from the lanes of a vec, pairwise. */
static IrValue *fold_vec(Lower *x, IrBuilder *b, const Reduction *r, IrValue *vec) {
    unsigned width = vec->type->width;
    IrValue *lanes[64];
    const IrType *scalar = ir_type_scalar(x->module, r->dtype);
    for (unsigned i = 0; i < width; i++) {
        IrOp *extract = ir_op_create(b, IR_EXTRACT, 1, &vec, 1, &scalar);
        ir_attr_set_int(extract, "lane", i);
        lanes[i] = ir_result(extract, 0);
    }
    for (unsigned half = width / 2; half; half /= 2)
        for (unsigned i = 0; i < half; i++) lanes[i] = ir_binary(b, r->combine, lanes[i], lanes[i + half]);
    return lanes[0]; /* NOLINT(*uninitialized.UndefReturn): a vec has a lane */
}

/* How many lanes of the fragment's last dim one step reduces on a CPU. */
static int64_t vector_width(const Lower *x, const Reduction *r) {
    const DistDim *last = &r->from.dims[r->from.dim_count - 1];
    if (x->gpu || last->sub_count != 1 || !(r->axes >> last->subs[0].axis & 1)) return 1;
    int64_t width = 32;
    while (width > 1 && last->extent % width) width /= 2;
    return width;
}

static IrValue *reduce_in_thread(Lower *x, const Reduction *r) {
    ReducedSubs subs = reduced_subs(r);
    IrBuilder inner;
    IrValue *kept[DIST_MAX_DIMS], *reduced[DIST_MAX_DIMS * 2];
    IrOp *map = dist_map(x, &r->kept, 1, r->dtype, &inner, kept);
    int64_t width = vector_width(x, r);
    IrValue *acc = identity(x, &inner, r);
    if (width > 1) {
        const IrType *vec = ir_type_vec(x->module, r->dtype, (unsigned)width);
        IrOp *splat = ir_op_create(&inner, IR_CONST, 0, NULL, 1, &vec);
        splat->attrs = acc->def->attrs;
        acc = ir_result(splat, 0);
    }
    acc = reduce_loops(x, &inner, r, &subs, 0, kept, reduced, acc, width);
    if (width > 1) acc = fold_vec(x, &inner, r, acc);
    ir_yield(&inner, 1, &acc);
    return ir_result(map, 0);
}

/* CPU, kept last dim: the loops outside, a vectorisable map inside. */
static IrValue *reduce_rows(Lower *x, IrBuilder *b, const Reduction *r, const ReducedSubs *subs, unsigned level, IrValue **reduced,
                            IrValue *acc) {
    IrBuilder saved = x->b, inner;
    if (level == subs->count) {
        IrValue *kept[DIST_MAX_DIMS];
        x->b = *b;
        IrOp *map = dist_map(x, &r->kept, 1, r->dtype, &inner, kept);
        *b = x->b;
        x->b = saved;
        IrValue *operands[DIST_MAX_DIMS + 1] = {acc};
        for (unsigned i = 0; i < r->kept.dim_count; i++) operands[i + 1] = kept[i];
        const IrType *type = ir_type_scalar(x->module, r->dtype);
        IrValue *old = ir_result(ir_op_create(&inner, IR_FRAG_GET, r->kept.dim_count + 1, operands, 1, &type), 0);
        IrValue *element = operand_element(&inner, r, kept, reduced, type);
        IrValue *next = ir_binary(&inner, r->combine, old, element);
        ir_yield(&inner, 1, &next);
        return ir_result(map, 0);
    }
    IrOp *loop = ir_for(b, ir_const_index(b, 0), ir_const_index(b, subs->extent[level]), ir_const_index(b, 1), 1, &acc, NULL);
    IrBuilder body = ir_builder_at_end(loop->regions[0]);
    reduced[level] = loop->regions[0]->args[0];
    IrValue *next = reduce_rows(x, &body, r, subs, level + 1, reduced, loop->regions[0]->args[1]);
    ir_yield(&body, 1, &next);
    return ir_result(loop, 0);
}

static IrValue *reduce_kept_last(Lower *x, const Reduction *r) {
    ReducedSubs subs = reduced_subs(r);
    IrBuilder inner;
    IrValue *kept[DIST_MAX_DIMS], *reduced[DIST_MAX_DIMS * 2];
    IrOp *start = dist_map(x, &r->kept, 1, r->dtype, &inner, kept);
    IrValue *zero = identity(x, &inner, r);
    ir_yield(&inner, 1, &zero);
    return reduce_rows(x, &x->b, r, &subs, 0, reduced, ir_result(start, 0));
}

IrValue *lower_kept_get(Lower *x, IrBuilder *b, const Reduction *r, IrValue *frag, IrValue *const *index) {
    IrValue *operands[DIST_MAX_DIMS + 1] = {frag};
    for (unsigned i = 0; i < r->kept.dim_count; i++) operands[i + 1] = index[i];
    const IrType *type = ir_type_scalar(x->module, r->dtype);
    return ir_result(ir_op_create(b, IR_FRAG_GET, r->kept.dim_count + 1, operands, 1, &type), 0);
}

int64_t lower_reduced_bits(const Reduction *r, DistSource source) {
    int64_t bits = 0;
    for (unsigned i = 0; i < r->from.term_count; i++) {
        const DistTerm *t = &r->from.terms[i];
        if (t->source == source && (r->axes >> t->axis & 1)) bits |= t->mask << t->shift;
    }
    return bits;
}

static IrValue *reduce_lanes(Lower *x, const Reduction *r, IrValue *frag, int64_t bits) {
    if (!bits) return frag;
    IrBuilder inner;
    IrValue *index[DIST_MAX_DIMS];
    IrOp *map = dist_map(x, &r->kept, 1, r->dtype, &inner, index);
    IrValue *v = lower_kept_get(x, &inner, r, frag, index);
    for (int64_t bit = 1; bit < 32; bit *= 2) {
        if (!(bits & bit) || (PLANTED(16) && bit == 1)) continue;
        v = ir_binary(&inner, r->combine, v, lower_shuffle(x, &inner, v, bit));
    }
    ir_yield(&inner, 1, &v);
    return ir_result(map, 0);
}

void lower_barrier(Lower *x) {
    if (PLANTED(5)) return;
    build_barrier(&x->b, IR_SCOPE_BLOCK);
}

void lower_reduce(Lower *x, IrOp *op) {
    if (lower_rep(x, &op->results[0])) return; /* a scan has found it */
    Reduction r = {.op = op, .dtype = op->results[0].type->dtype, .from = dist_of(op->operands[0]->type)};
    if (!reduction_kind(ir_op_kind(op), &r.combine)) {
        lower_error(x, op, "this kind of reduction has no lowering yet");
        return;
    }
    const IrAttr *axes = ir_attr(op, "axes");
    for (size_t i = 0; i < axes->count; i++) r.axes |= 1u << axes->ints[i];
    r.kept = dist_reduce(&r.from, r.axes, ir_attr_bool(op, "keepdim"));
    const Rep *before = lower_found_before(x, op);
    if (before && !before->is_frag) {
        lower_bind_scalar(x, &op->results[0], before->value);
        return;
    }
    if (before) {
        lower_bind_frag(x, &op->results[0], before->value, &r.kept);
        return;
    }
    r.frag = masked_operand(x, &r);
    const DistDim *last = &r.from.dims[r.from.dim_count - 1];
    bool kept_last = !x->gpu && last->sub_count == 1 && !(r.axes >> last->subs[0].axis & 1);
    IrValue *frag = kept_last ? reduce_kept_last(x, &r) : reduce_in_thread(x, &r);
    if (!ir_attr_bool(op, "apart"))
        frag = lower_reduce_blocks(x, &r, lower_reduce_warps(x, &r, reduce_lanes(x, &r, frag, lower_reduced_bits(&r, DIST_LANE))));
    lower_bind_frag(x, &op->results[0], frag, &r.kept);
}

void lower_combine(Lower *x, IrOp *op) {
    Reduction r = {.op = op, .combine = IR_ADD, .dtype = op->results[0].type->dtype, .kept = dist_of(op->results[0].type)};
    IrValue *parts = rep_materialise(x, lower_rep(x, op->operands[0]), &r.kept, r.dtype);
    lower_bind_frag(x, &op->results[0], reduce_lanes(x, &r, parts, ir_attr_int(op, "lanes", 0)), &r.kept);
}
