/* Loads of tile slices: addresses, masks, vector widths (stores: lower_store.c); shared memory and scratch. */
#include "analysis/analysis.h"
#include "gpu.h"
#include "lower_internal.h"
#include "plant.h"

enum {
    LOADS_AT_ONCE = 4 /* elements of a thread from which on its loads take predicates, no branches */
};

/* The index tile as the tile sees it whose axes it gives from `first` on. */
static Rep index_lanes(Lower *x, IrValue *index, int first) {
    Rep rep = *lower_rep(x, index);
    for (unsigned a = 0; rep.is_frag && a < rep.dist.rank; a++)
        if (rep.axis_map[a] >= 0) rep.axis_map[a] += first;
    return rep;
}

static AccessPlan slice_of(Lower *x, IrOp *op) {
    IrSlice slice = ir_slice(op);
    IrValue *tensor = op->operands[slice.base];
    AccessPlan s = {.tensor = tensor, .type = tensor->type, .rank = slice.rank, .width = 1};
    if (view_joins_rows(x->module, tensor)) tensor = memory_of(tensor); /* addresses are the tensor's; where it ends the view says */
    s.view = is_view(tensor) ? tensor->def : NULL;
    for (; is_view(tensor); tensor = tensor->def->operands[0]) s.depth++;
    s.inside_view = ARENA_ARRAY(x->ctx->scratch, IrValue *, s.depth + 1);
    s.pointer = lower_scalar(x, tensor);
    s.facts = ir_facts_at(x->ctx->scratch, op);
    aff_facts_effort(s.facts, 64); /* a check left in costs less than a long search */
    for (unsigned i = 0; i < s.rank; i++) {
        const IrSliceAxis *axis = &slice.axes[i];
        bool range = axis->letter == IR_LETTER_RANGE;
        s.step[i] = axis->step;
        s.tile_axis[i] = range ? axis->axis : -1;
        s.end[i] = range ? op->operands[axis->operand + 1] : NULL;
        if (axis->letter == IR_LETTER_GATHER)
            s.lanes[i] = index_lanes(x, op->operands[axis->operand], axis->axis);
        else
            s.begin[i] = op->operands[axis->operand];
    }
    const IrType *memory = tensor->type;
    s.memory_rank = memory->rank;
    for (unsigned i = 0; i < memory->rank; i++) s.stride[i] = ir_type_stride(x->module, memory, i);
    return s;
}

/* The vector width in elements that this access may use. */
static int64_t slice_vector(Lower *x, const AccessPlan *s, const Dist *dist) {
    if (!x->gpu || !s->rank || s->view) return 1;
    unsigned last = s->rank - 1;
    if (s->tile_axis[last] < 0 || s->step[last] != 1 || s->stride[last] != aff_const(x->module->affs, 1)) return 1;
    int64_t widest = x->vector_bytes / (int64_t)dtype_size(s->type->dtype);
    if (widest < 2) return 1;
    int64_t width = dist_vector(dist, (unsigned)s->tile_axis[last], widest);
    const Aff *begin = ir_aff_of(x->module, s->begin[last]), *lanes = aff_const(x->module->affs, dist->extents[s->tile_axis[last]]);
    const Aff *ends[] = {begin, ir_aff_of(x->module, s->end[last]), s->type->extents[last]};
    while (width > 1 && dist->extents[s->tile_axis[last]] % width) width /= 2;
    for (unsigned i = 0; i < COUNT_OF(ends); i++) {
        /* What lies behind the tile ends no piece of it. */
        if (i && width > 1 && aff_prove_le(s->facts, aff_add(x->module->affs, begin, lanes), ends[i])) continue;
        while (width > 1 && aff_known_divisor(s->facts, ends[i], width) % width) width /= 2;
    }
    for (unsigned i = 0; i < last; i++)
        while (width > 1 && aff_known_divisor(s->facts, s->stride[i], width) % width) width /= 2;
    return width;
}

/* Proofs about axis i: coordinate begin + step * [0, padded) against 0, end and the extent. */
typedef struct {
    bool low, end, extent, pad; /* a run-time check is needed */
} AxisChecks;

static AxisChecks axis_checks(Lower *x, const AccessPlan *s, unsigned i, const Dist *dist) {
    AffCtx *c = x->module->affs;
    const Aff *begin = ir_aff_of(x->module, s->begin[i]), *extent = s->type->extents[i];
    AxisChecks need = {.low = !aff_prove_nonneg(s->facts, begin)};
    const Aff *last = begin;
    if (s->tile_axis[i] >= 0) {
        unsigned a = (unsigned)s->tile_axis[i];
        need.pad = dist->padded[a] > dist->extents[a]; /* and then lanes of the padding are left out by that */
        last = aff_add(c, begin, aff_const(c, s->step[i] * (dist->extents[a] - 1)));
        const Aff *end = ir_aff_of(x->module, s->end[i]);
        need.end = !aff_prove_nonneg(s->facts, aff_sub(c, aff_sub(c, end, last), aff_const(c, 1)));
    }
    need.extent = !aff_prove_nonneg(s->facts, aff_sub(c, aff_sub(c, extent, last), aff_const(c, 1)));
    return need;
}

const Aff *lower_slice_limit(Lower *x, const AccessPlan *s, unsigned i) {
    AffCtx *c = x->module->affs;
    /* NOLINTNEXTLINE(*ArrayBound): i is an axis of the slice */
    const Aff *end = aff_min(c, ir_aff_of(x->module, s->end[i]), s->type->extents[i]);
    return aff_sub(c, end, ir_aff_of(x->module, s->begin[i]));
}

AccessPlan access_plan(Lower *x, IrOp *op, const Dist *dist) {
    AccessPlan plan = slice_of(x, op);
    if (dist) plan.width = is_rotated(x, dist) ? rotated_width(x, op, &plan, dist) : slice_vector(x, &plan, dist);
    return plan;
}

IrValue *access_pointer(const AccessPlan *plan) {
    return plan->pointer;
}

static IrValue *or_zero(IrBuilder *b, IrValue *v) {
    return v ? v : ir_const_index(b, 0);
}

/* The offset of a lane along an axis that an index tile gives; outside of the tensor the lane is masked. */
static IrValue *gathered_index(Lower *x, IrBuilder *inner, const AccessPlan *s, unsigned i, const Dist *dist, IrValue *const *index,
                               IrValue **mask) {
    IrValue *at = ir_cast(inner, rep_get(x, inner, &s->lanes[i], dist, index, 1), ir_type_index(x->module));
    *mask = mask_and(inner, *mask, ir_binary(inner, IR_LE, ir_const_index(inner, 0), at));
    *mask = mask_and(inner, *mask, index_less(inner, at, ir_aff_emit(&x->b, s->type->extents[i])));
    return at;
}

/* A value of the view's region at kernel level: its own ops again, what it takes from outside as it is. */
static IrValue *view_value(Lower *x, IrBuilder *inner, const IrOp *view, IrValueMap *done, IrValue *v) {
    IrValue *known = ir_value_map_get(done, v), *operands[4];
    if (known != v) return known;
    if (!v->def || v->def->block != view->regions[0]) return lower_scalar(x, v);
    for (unsigned i = 0; i < v->def->operand_count && i < 4; i++) operands[i] = view_value(x, inner, view, done, v->def->operands[i]);
    IrOp *copy = ir_op_create(inner, v->def->opcode, v->def->operand_count, operands, 1, &v->type);
    copy->attrs = v->def->attrs;
    ir_value_map_set(done, v, ir_result(copy, 0));
    return ir_result(copy, 0);
}

/* From the indices `at` of a view to those of what it sees, in place; outside of that the lane is masked. */
static void through_view(Lower *x, IrBuilder *inner, const IrOp *view, IrValue **at, IrValue **mask) {
    const IrBlock *map = view->regions[0];
    const IrType *base = view->operands[0]->type;
    IrValueMap *done = ir_value_map_create(x->ctx->scratch);
    for (unsigned i = 0; i < map->arg_count; i++) ir_value_map_set(done, map->args[i], at[i]);
    for (unsigned i = 0; i < base->rank; i++) {
        at[i] = view_value(x, inner, view, done, map->last->operands[i]);
        *mask = mask_and(inner, *mask, ir_binary(inner, IR_LE, ir_const_index(inner, 0), at[i]));
        *mask = mask_and(inner, *mask, index_less(inner, at[i], ir_aff_emit(&x->b, base->extents[i])));
    }
}

/* The offset in the tensor behind the views of an access; outside of any of them the lane is masked. */
static IrValue *view_offset(Lower *x, IrBuilder *inner, const AccessPlan *s, IrValue **at, IrValue **mask) {
    const IrOp *view = s->view;
    IrValue *sum = NULL;
    for (unsigned d = 0; d < s->depth; d++, view = view->operands[0]->def) {
        s->inside_view[d] = *mask;
        through_view(x, inner, view, at, mask);
    }
    for (unsigned i = 0; i < s->memory_rank; i++)
        sum = index_add(inner, sum, ir_binary(inner, IR_MUL, at[i], ir_aff_emit(&x->b, s->stride[i])));
    return or_zero(inner, sum);
}

/* The offset of a lane along the axis of a rotated row, or of a piece that is one access; *fixed: what is invariant. */
static IrValue *rotated_offset(Lower *x, IrBuilder *inner, const AccessPlan *s, unsigned i, const Dist *dist, IrValue *const *index,
                               IrValue **fixed, IrValue **mask) {
    IrValue *limit = rotated_limit(x, lower_slice_limit(x, s, i)), *local = or_zero(inner, dist_local(inner, dist, 0, index));
    if (s->width == 1) {
        *mask = mask_and(inner, *mask, rotated_present(x, inner, dist, index, limit));
        return rotated_lane(x, inner, dist, index);
    }
    IrValue *base = dist_base(x, dist, 0);
    *fixed = base ? ir_binary(&x->b, IR_SUB, base, x->rotation) : ir_binary(&x->b, IR_SUB, ir_const_index(&x->b, 0), x->rotation);
    *mask = mask_and(inner, *mask, rotated_whole(x, inner, dist, local, limit));
    return local;
}

IrValue *access_offset(Lower *x, IrBuilder *inner, AccessPlan *s, const Dist *dist, IrValue *const *index, IrValue **mask_out) {
    IrBuilder *outer = &x->b;
    IrValue *fixed = NULL, *moving = NULL, *mask = NULL, *whole[DIST_MAX_RANK] = {NULL};
    for (unsigned i = 0; i < s->rank; i++) {
        if (!s->begin[i]) {
            whole[i] = gathered_index(x, inner, s, i, dist, index, &mask);
            if (!s->view) moving = index_add(inner, moving, ir_binary(inner, IR_MUL, whole[i], ir_aff_emit(outer, s->stride[i])));
            continue;
        }
        IrValue *begin = lower_scalar(x, s->begin[i]), *at = begin, *local = NULL;
        if (s->tile_axis[i] >= 0 && is_rotated(x, dist)) {
            IrValue *stride = ir_aff_emit(outer, s->stride[i]);
            local = rotated_offset(x, inner, s, i, dist, index, &at, &mask);
            bool is_first = ir_aff_of(x->module, s->begin[i]) == aff_const(x->module->affs, 0);
            if (at != begin || !is_first) fixed = index_add(outer, fixed, ir_binary(outer, IR_MUL, at, stride));
            moving = index_add(inner, moving, ir_binary(inner, IR_MUL, local, stride));
            continue;
        }
        AxisChecks need = axis_checks(x, s, i, dist);
        IrValue *extent = need.extent ? ir_aff_emit(outer, s->type->extents[i]) : NULL;
        if (s->tile_axis[i] >= 0) {
            unsigned a = (unsigned)s->tile_axis[i];
            IrValue *base = dist_base(x, dist, a);
            if (base) at = ir_binary(outer, IR_ADD, at, index_mul_const(outer, base, s->step[i]));
            local = dist_local(inner, dist, a, index);
            if (local) local = index_mul_const(inner, local, s->step[i]);
            IrValue *limit = need.end ? lower_scalar(x, s->end[i]) : extent;
            if (need.end && extent) limit = ir_binary(outer, IR_MIN, limit, extent);
            if (limit) limit = ir_binary(outer, IR_SUB, limit, at);
            if (need.pad) {
                IrValue *room = ir_const_index(outer, dist->extents[a] * s->step[i]);
                if (base) room = ir_binary(outer, IR_SUB, room, index_mul_const(outer, base, s->step[i]));
                limit = limit ? ir_binary(outer, IR_MIN, limit, room) : room;
            }
            if (limit && !PLANTED(1)) mask = mask_and(inner, mask, index_less(inner, or_zero(inner, local), limit));
        } else if (extent) {
            mask = mask_and(inner, mask, index_less(outer, begin, extent));
        }
        if (need.low || s->view) whole[i] = index_add(inner, at, local);
        if (need.low) mask = mask_and(inner, mask, ir_binary(inner, IR_LE, ir_const_index(inner, 0), whole[i]));
        if (s->view) continue;
        IrValue *stride = ir_aff_emit(outer, s->stride[PLANTED(3) && i == 0 ? s->rank - 1 : i]);
        fixed = index_add(outer, fixed, ir_binary(outer, IR_MUL, at, stride));
        if (local) moving = index_add(inner, moving, ir_binary(inner, IR_MUL, local, stride));
    }
    *mask_out = mask;
    if (s->view) return view_offset(x, inner, s, whole, mask_out);
    return or_zero(inner, index_add(inner, fixed, moving));
}

void lower_set_access_attrs(IrOp *access, const IrOp *from, int64_t width, Dtype dtype) {
    ir_attr_set_int(access, "align", width * (int64_t)dtype_size(dtype));
    ir_attr_copy(access, from, "cache");
}

static IrValue *pad_of(Lower *x, IrBuilder *b, const IrOp *op, Dtype dtype) {
    const IrAttr *pad = ir_attr(op, "pad");
    return ir_const_float(b, ir_type_scalar(x->module, dtype), pad ? pad->number : 0);
}

/* What a masked lane reads: the pad of the outermost view that it is inside of, `outside` of none. */
static IrValue *view_pad(Lower *x, IrBuilder *b, const AccessPlan *s, const IrOp *op, IrValue *outside) {
    const IrOp *view = s->view;
    bool reads_outside = ir_attr(op, "pad") || ir_slice(op).gather_axis >= 0;
    IrValue *value = reads_outside && s->inside_view[0] ? outside : NULL;
    for (unsigned d = 0; d < s->depth; d++, view = view->operands[0]->def) {
        IrValue *beyond = pad_of(x, b, view, s->type->dtype);
        value = value && s->inside_view[d] ? ir_select(b, s->inside_view[d], beyond, value) : beyond;
    }
    return value;
}

static IrValue *emit_load(Lower *x, IrBuilder *b, IrOp *op, const AccessPlan *s, IrValue *offset, IrValue *mask, int64_t width) {
    Dtype dtype = s->type->dtype;
    const IrType *type = ir_type_vec(x->module, dtype, (unsigned)width);
    IrValue *operands[4] = {s->pointer, offset, mask, NULL};
    if (mask) operands[3] = ir_const_float(b, ir_type_scalar(x->module, dtype), absent_fill(x, op));
    if (mask && s->view) operands[3] = view_pad(x, b, s, op, operands[3]);
    IrOp *load = ir_op_create(b, IR_MEM_LOAD, mask ? 4 : 2, operands, 1, &type);
    lower_set_access_attrs(load, op, width, dtype);
    return ir_result(load, 0);
}

IrValue *lower_lane_offset(Lower *x, IrBuilder *inner, const AccessPlan *s, const Dist *dist, IrValue *lane, IrValue **mask) {
    IrBuilder *outer = &x->b;
    IrValue *row = NULL;
    for (unsigned i = 0; i < s->rank; i++) {
        IrValue *begin = lower_scalar(x, s->begin[i]);
        row = index_add(outer, row, ir_binary(outer, IR_MUL, begin, ir_aff_emit(outer, s->stride[i])));
        if (s->tile_axis[i] >= 0) continue;
        AxisChecks need = axis_checks(x, s, i, dist);
        if (need.extent) *mask = mask_and(inner, *mask, index_less(outer, begin, ir_aff_emit(outer, s->type->extents[i])));
        if (need.low) *mask = mask_and(inner, *mask, ir_binary(outer, IR_LE, ir_const_index(outer, 0), begin));
    }
    return index_add(inner, row, lane);
}

/* The pieces of a rotated row that are no one access: their elements one by one, then put where the pieces are. */
static IrValue *load_edges(Lower *x, IrOp *op, const AccessPlan *plan, const Dist *dist, IrValue *frag) {
    const IrType *type = ir_type_scalar(x->module, plan->type->dtype), *piece = ir_type_frag(x->module, type->dtype, 1, &x->rotated);
    RotatedEdges e = rotated_edges(x, dist, rotated_limit(x, lower_slice_limit(x, plan, plan->rank - 1)), 1, &frag->type);
    IrValue *edges[2], *index[DIST_MAX_DIMS], *at[DIST_MAX_DIMS + 1] = {frag}, *mask, *j;
    for (unsigned k = 0; k < 2; k++) {
        IrOp *map = ir_map(&x->b, 1, &x->rotated, 1, &piece);
        IrBuilder inner = ir_builder_at_end(map->regions[0]), after = x->b;
        x->b = ir_builder_before(map);
        IrValue *lane = rotated_edge_lane(x, &inner, &e, k, map->regions[0]->args[0], &mask);
        IrValue *offset = lower_lane_offset(x, &inner, plan, dist, lane, &mask);
        IrValue *value = emit_load(x, &inner, op, plan, offset, mask, 1);
        x->b = after;
        ir_yield(&inner, 1, &value);
        edges[k] = ir_result(map, 0);
    }
    IrBuilder inner;
    IrOp *map = dist_map(x, dist, 1, type->dtype, &inner, index);
    for (unsigned i = 0; i < dist->dim_count; i++) at[i + 1] = index[i];
    IrValue *value = ir_result(ir_op_create(&inner, IR_FRAG_GET, dist->dim_count + 1, at, 1, &type), 0);
    for (unsigned k = 0; k < 2; k++) {
        IrValue *inside = rotated_in_edge(x, &inner, &e, k, index, &j);
        IrValue *edge = ir_result(ir_op_create(&inner, IR_FRAG_GET, 2, (IrValue *[]){edges[k], j}, 1, &type), 0);
        value = ir_select(&inner, inside, edge, value);
    }
    ir_yield(&inner, 1, &value);
    value = ir_result(map, 0);
    if (!e.branch) return value;
    ir_yield(&x->b, 1, &value);
    IrBuilder otherwise = ir_builder_at_end(e.branch->regions[1]);
    ir_yield(&otherwise, 1, &frag);
    rotated_edges_end(x, &e);
    return ir_result(e.branch, 0);
}

/* So many elements of a thread, one each: nvcc writes a branch around each, and no two of them are in flight. */
static void predicate_lanes(const Lower *x, const AccessPlan *plan, const Dist *dist, const IrValue *loaded) {
    IrOp *load = loaded->def;
    if (!x->gpu || !load || load->opcode != IR_MEM_LOAD || load->operand_count < 4 || plan->width > 1 || plan->view) return;
    if (is_stored_to(plan->tensor)) return;
    int64_t elements = 1;
    for (unsigned i = 0; i < dist->dim_count; i++) elements *= dist->dims[i].extent;
    if (elements >= LOADS_AT_ONCE) ir_attr_set_bool(load, "predicated", true);
}

void lower_load(Lower *x, IrOp *op) {
    IrValue *result = &op->results[0], *mask;
    lower_order(x, op);
    if (result->type->kind != IR_TYPE_TILE) {
        Dist none = {.dim_count = 1, .dims = {{.extent = 1}}};
        AccessPlan plan = access_plan(x, op, NULL);
        IrValue *offset = access_offset(x, &x->b, &plan, &none, NULL, &mask);
        lower_bind_scalar(x, result, emit_load(x, &x->b, op, &plan, offset, mask, 1));
        return;
    }
    Dist dist = dist_of(result->type);
    AccessPlan plan = access_plan(x, op, &dist);
    IrBuilder inner;
    IrValue *index[DIST_MAX_DIMS];
    IrOp *map = dist_map(x, &dist, plan.width, plan.type->dtype, &inner, index);
    /* What is invariant goes before the map. */
    IrBuilder saved = x->b;
    x->b = ir_builder_before(map);
    x->b.span = saved.span;
    IrValue *offset = access_offset(x, &inner, &plan, &dist, index, &mask);
    x->b = saved;
    IrValue *value = emit_load(x, &inner, op, &plan, offset, mask, plan.width);
    predicate_lanes(x, &plan, &dist, value);
    ir_yield(&inner, 1, &value);
    IrValue *frag = ir_result(map, 0);
    if (plan.width > 1 && is_rotated(x, &dist)) frag = load_edges(x, op, &plan, &dist, frag);
    lower_bind_frag(x, result, frag, &dist);
}

/* Lanes and warps that hold copies leave the store to the first of them. */
IrValue *owner_mask(Lower *x, const Dist *dist) {
    if (!x->gpu || PLANTED(10)) return NULL;
    Dist copies = {.rank = 1};
    if (dist->free_lanes) copies.terms[copies.term_count++] = (DistTerm){DIST_LANE, 0, dist->free_lanes, 0, 1};
    if (dist->free_warps & (x->num_warps - 1))
        copies.terms[copies.term_count++] = (DistTerm){DIST_WARP, 0, dist->free_warps & (x->num_warps - 1), 0, 1};
    int64_t free_blocks = ~dist->used_blocks & (x->cluster - 1);
    if (free_blocks) copies.terms[copies.term_count++] = (DistTerm){DIST_BLOCK, 0, free_blocks, 0, 1};
    IrValue *sum = dist_base(x, &copies, 0);
    if (!sum) return NULL;
    return ir_binary(&x->b, IR_EQ, sum, ir_const_index(&x->b, 0));
}

IrValue *lower_shared(Lower *x, Dtype dtype, int64_t elements, const char *name) {
    return lower_shared_aligned(x, dtype, elements, SHARED_ALIGN, name);
}

IrValue *lower_shared_aligned(Lower *x, Dtype dtype, int64_t elements, int64_t align, const char *name) {
    const IrType *type = ir_type_ptr(x->module, dtype, IR_SPACE_SHARED);
    IrBuilder entry = ir_builder_before(x->anchor);
    IrOp *op = ir_op_create(&entry, IR_SHARED_PTR, 0, NULL, 1, &type);
    int64_t bytes = elements * (int64_t)dtype_size(dtype);
    x->shared_bytes = (x->shared_bytes + align - 1) / align * align;
    ir_attr_set_int(op, "offset", x->shared_bytes);
    if (align > SHARED_ALIGN) ir_attr_set_int(op, "align", align);
    ir_attr_set_int(op, "bytes", bytes);
    ir_attr_set_str(op, "name", name);
    x->shared_bytes += (bytes + SHARED_ALIGN - 1) / SHARED_ALIGN * SHARED_ALIGN;
    return ir_result(op, 0);
}

/* ---- Scratch ---- */

void scratch_begin(Lower *x) {
    x->scratch_used = 0;
    lower_barrier(x); /* readers of an earlier use are done */
}

IrValue *scratch_array(Lower *x, Dtype dtype, int64_t elements, const char *name) {
    const IrType *type = ir_type_ptr(x->module, dtype, IR_SPACE_SHARED);
    IrBuilder entry = ir_builder_before(x->anchor);
    IrOp *op = ir_op_create(x->gpu ? &entry : &x->b, IR_SHARED_PTR, 0, NULL, 1, &type);
    int64_t bytes = elements * (int64_t)dtype_size(dtype);
    ir_attr_set_int(op, "offset", x->scratch_used);
    ir_attr_set_int(op, "bytes", bytes);
    ir_attr_set_str(op, "name", name);
    x->scratch_used += whole_lines(bytes);
    if (x->scratch_used > x->scratch_most) x->scratch_most = x->scratch_used;
    VEC_PUSH(x->ctx->scratch, &x->scratch_pointers, op);
    return ir_result(op, 0);
}

/* Scratch lies behind all that stays: rings, partials. */
void scratch_end(Lower *x) {
    for (size_t i = 0; i < x->scratch_pointers.len; i++) {
        IrOp *op = x->scratch_pointers.data[i];
        ir_attr_set_int(op, "offset", ir_attr_int(op, "offset", 0) + x->shared_bytes);
    }
    x->shared_bytes += x->scratch_most;
}
