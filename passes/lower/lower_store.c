/* Stores of tiles, for lower_to_threads: whole pieces, edges, lanes that several threads hold. */
#include "analysis/analysis.h"
#include "lower_internal.h"
#include "plant.h"

#include <string.h>

/* A wide store is masked as one: what is present must begin and end where accesses do. */
static int64_t whole_pieces(Lower *x, IrValue *tile, const AccessPlan *plan, const Aff *const *checked) {
    int64_t width = plan->width;
    if (width == 1) return 1;
    Dist dist = dist_of(tile->type);
    unsigned axis = (unsigned)plan->tile_axis[plan->rank - 1]; /* NOLINT(*ArrayBound): what is wide has an axis */
    PresenceAxis p = presence_in(x->presence, tile).axes[axis];
    bool covered = p.hi && checked[axis] && aff_prove_le(plan->facts, checked[axis], p.hi);
    if (is_rotated(x, &dist))
        return (!p.hi || covered) && (!p.lo || aff_prove_le(plan->facts, p.lo, aff_const(x->module->affs, 0))) ? width : 1;
    while (width > 1 && p.lo && aff_known_divisor(plan->facts, p.lo, width) % width) width /= 2;
    while (width > 1 && p.hi && !covered && aff_known_divisor(plan->facts, p.hi, width) % width) width /= 2;
    return width;
}

/* With --deterministic an update is no atomic one: threads must not meet in an element. */
static bool meets_itself(Lower *x, IrOp *op) {
    if (!x->gpu || !x->ctx->deterministic || ir_slice(op).gather_axis < 0 || ir_attr_bool(op, "unique") ||
        !dtype_is_float(op->operands[0]->type->dtype) || ir_op_mode(op) != IR_KIND_ADD)
        return false;
    lower_error(x, op, "a scatter of float sums with --deterministic: claim unique=true where no index comes twice");
    return true;
}

/* How a tile is stored: pieces of plan.width, exchanged between lanes first or (widening.count 0) not; gathered: single elements, a
 * group of widening.width at a time. */
typedef struct {
    Dist dist;
    AccessPlan plan;
    Widening widening;
    bool gathered;
    const Aff *checked[DIST_MAX_RANK]; /* axes whose lanes are held against this limit anyway */
} StorePlan;

static void plan_pieces(Lower *x, IrOp *op, StorePlan *s) {
    bool is_tile = op->operands[0]->type->kind == IR_TYPE_TILE;
    s->plan = access_plan(x, op, is_tile ? &s->dist : NULL);
    for (unsigned i = 0; i < s->plan.rank; i++)
        if (s->plan.tile_axis[i] >= 0 && s->plan.step[i] == 1) s->checked[s->plan.tile_axis[i]] = lower_slice_limit(x, &s->plan, i);
    if (is_tile) s->plan.width = whole_pieces(x, op->operands[0], &s->plan, s->checked);
}

/* The widest pieces that exchanges within a warp lead to, where they pay. */
static void widen_pieces(Lower *x, IrOp *op, StorePlan *s) {
    const IrType *tile = op->operands[0]->type;
    int axis = s->plan.rank ? s->plan.tile_axis[s->plan.rank - 1] : -1;
    StorePlan wide = {.checked = {0}};
    if (!x->gpu || axis < 0 || s->plan.view) return;
    for (int64_t width = x->vector_bytes / (int64_t)dtype_size(tile->dtype); width > s->plan.width; width /= 2) {
        if (!widening_find(x, tile, (unsigned)axis, width, &wide.widening)) continue;
        wide.dist = wide.widening.to;
        plan_pieces(x, op, &wide);
        if (wide.plan.width < width) continue;
        wide.plan.width = width;
        if (widening_pays(&wide.widening, tile, (unsigned)axis, s->plan.width)) *s = wide;
        return;
    }
}

/* Single elements by lanes that are neighbours in memory, where the exchanges pay. */
static void gather_lanes(Lower *x, IrOp *op, StorePlan *s) {
    const IrType *tile = op->operands[0]->type;
    int axis = s->plan.rank ? s->plan.tile_axis[s->plan.rank - 1] : -1;
    StorePlan gathered = {.gathered = true};
    if (!x->gpu || axis < 0 || s->plan.view || s->plan.width > 1 || s->plan.step[s->plan.rank - 1] != 1 || is_rotated(x, &s->dist)) return;
    if (s->plan.stride[s->plan.rank - 1] != aff_const(x->module->affs, 1)) return;
    if (!gathering_find(x, tile, (unsigned)axis, &gathered.widening) || !widening_pays(&gathered.widening, tile, (unsigned)axis, 1)) return;
    gathered.dist = gathered.widening.to;
    plan_pieces(x, op, &gathered);
    gathered.plan.width = 1;
    *s = gathered;
}

static StorePlan plan_store(Lower *x, IrOp *op, bool updates) {
    const IrType *type = op->operands[0]->type;
    bool is_tile = type->kind == IR_TYPE_TILE;
    Dist one = {.dim_count = 1, .dims = {{.extent = 1}}, .free_lanes = 31, .free_warps = -1};
    StorePlan s = {.dist = is_tile ? dist_of(type) : one};
    bool own = !updates && rep_is_own(lower_rep(x, op->operands[0]), &s.dist);
    plan_pieces(x, op, &s);
    bool alone = ir_slice(op).gather_axis < 0; /* no tile of indices, whose lanes stay where they are */
    if (is_tile && own && alone) widen_pieces(x, op, &s);
    if (!own) s.plan.width = 1;
    if (is_tile && alone && !updates && !s.widening.count && lower_rep(x, op->operands[0])->is_frag) gather_lanes(x, op, &s);
    return s;
}

/* The pieces of a rotated row that are no one access, element by element. */
static void store_edges(Lower *x, IrOp *op, const StorePlan *s, IrValue *owner) {
    const AccessPlan *plan = &s->plan;
    RotatedEdges e = rotated_edges(x, &s->dist, rotated_limit(x, lower_slice_limit(x, plan, plan->rank - 1)), 0, NULL);
    for (unsigned k = 0; k < 2; k++) {
        IrValue *index[DIST_MAX_DIMS], *inside, *mask, *j;
        IrBuilder inner;
        IrOp *map = dist_map(x, &s->dist, 1, DTYPE_NONE, &inner, index);
        IrBuilder after = x->b;
        x->b = ir_builder_before(map);
        inside = rotated_in_edge(x, &inner, &e, k, index, &j);
        IrValue *lane = rotated_edge_lane(x, &inner, &e, k, j, &mask), *offset = lower_lane_offset(x, &inner, plan, &s->dist, lane, &mask);
        x->b = after;
        mask = mask_and(&inner, owner, mask_and(&inner, inside, mask));
        IrValue *operands[4] = {rep_get(x, &inner, lower_rep(x, op->operands[0]), &s->dist, index, 1), plan->pointer, offset, mask};
        lower_set_access_attrs(ir_op_create(&inner, IR_MEM_STORE, 4, operands, 0, NULL), op, 1, plan->type->dtype);
        ir_yield(&inner, 0, NULL);
    }
    if (e.branch) ir_yield(&x->b, 0, NULL);
    rotated_edges_end(x, &e);
}

/* One access of a store's map, at `index`. */
static void store_piece(Lower *x, IrBuilder *inner, IrOp *op, StorePlan *s, IrValue *owner, IrValue *const *index, IrValue *value) {
    IrKind mode = ir_op_mode(op);
    IrValue *mask;
    IrBuilder saved = x->b;
    x->b = ir_builder_before(inner->block->parent);
    x->b.span = saved.span;
    IrValue *offset = access_offset(x, inner, &s->plan, &s->dist, index, &mask);
    mask = mask_and(inner, owner, mask);
    if (op->operands[0]->type->kind == IR_TYPE_TILE) {
        Presence present = presence_of_store(x->ctx, op);
        if (!PLANTED(2)) mask = mask_and(inner, mask, interval_mask(x, inner, &present, &s->dist, index, s->checked));
    }
    x->b = saved;
    if (!value)
        value = s->widening.count ? widening_get(x, inner, lower_rep(x, op->operands[0]), &s->widening, index)
                                  : rep_get(x, inner, lower_rep(x, op->operands[0]), &s->dist, index, s->plan.width);
    IrValue *operands[4] = {value, s->plan.pointer, offset, mask};
    if (mode != IR_KIND_SET) {
        lower_update(x, inner, mode, mask ? 4 : 3, operands);
        return;
    }
    IrOp *store = ir_op_create(inner, IR_MEM_STORE, mask ? 4 : 3, operands, 0, NULL);
    lower_set_access_attrs(store, op, s->plan.width, s->plan.type->dtype);
}

/* A group of elements, each in a row of its own. */
static void store_group(Lower *x, IrBuilder *inner, IrOp *op, StorePlan *s, IrValue *owner, IrValue *const *index) {
    IrValue *elements[WIDENING_MAX], *at[DIST_MAX_DIMS];
    unsigned last = s->dist.dim_count - 1;
    memcpy(at, index, sizeof(IrValue *) * s->dist.dim_count);
    gathering_get(x, inner, lower_rep(x, op->operands[0]), &s->widening, index, elements);
    for (int64_t i = 0; i < s->widening.width; i++) {
        at[last] = index_add(inner, index[last], ir_const_index(inner, i));
        store_piece(x, inner, op, s, owner, at, elements[i]);
    }
}

void lower_store(Lower *x, IrOp *op) {
    IrValue *index[DIST_MAX_DIMS];
    bool updates = ir_op_mode(op) != IR_KIND_SET;
    lower_order(x, op);
    if (updates && meets_itself(x, op)) return;
    StorePlan s = plan_store(x, op, updates);
    IrValue *owner = owner_mask(x, &s.dist);
    widening_begin(x, &s.widening);
    IrBuilder inner;
    dist_map(x, &s.dist, s.gathered ? s.widening.width : s.plan.width, DTYPE_NONE, &inner, index);
    if (s.gathered)
        store_group(x, &inner, op, &s, owner, index);
    else
        store_piece(x, &inner, op, &s, owner, index, NULL);
    ir_yield(&inner, 0, NULL);
    if (s.plan.width > 1 && is_rotated(x, &s.dist)) store_edges(x, op, &s, owner);
}
