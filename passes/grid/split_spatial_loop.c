/* Pass split_spatial_loop: a serial loop that moves a window is divided among blocks if the grid is small.
 *
 * what:   in this kernel each block runs one serial loop that moves a window along an axis and encloses all of its work. The
 *         kernel gets one more parallel loop, over parts of that loop. The launch's sizes determine the number of parts: as many as
 *         can be resident at once, and one if the grid fills the machine already. The number of parts and the iterations of a part
 *         are derived symbols: computed once a launch, not in each thread.
 * needs:  tile functions in state static, before grid; target cuda
 * keeps:  values: what iterations store stays apart
 * breaks: nothing
 * source: strip mining
 *
 *     parallel(0, ceildiv(N, 64)) (%t) {              parallel(0, ceildiv(N, 64)) (%t) {
 *       for(0, min(64, N - 64 t)) (%z) {                parallel(0, parts) (%part) {
 *         ... tile.store(%w, %Y, 64 t + z) }      =>      for(0, min(way, min(64, N - 64 t) - part way)) (%k) {
 *     }                                                     %z = add(mul(%part, way), %k)
 *                                                           ... tile.store(%w, %Y, 64 t + z) } } }
 */

#include "analysis/analysis.h"

/* WARPS of a multiprocessor fill it: as many parts as there is room for blocks beside each other (WARPS = 0: the switch, loops are never
 * divided), none where the grid has as many. A warp has WARP_BYTES of the tile that is stored, as assign_layouts gives them, a block up to MOST_WARPS. */
enum { WARPS = 16, MOST_WARPS = 8, WARP_BYTES = 512 };

typedef struct {
    PassContext *ctx;
    IrModule *m;
    IrFunc *func;
    OpList ops;
    IrOp *spatial;
    const Aff *blocks, *most; /* of the kernel; iterations of the longest such loop */
    int64_t bytes;            /* of the largest tile that is stored */
} SpatialLoop;

/* ---- Which ---- */

/* The loop that stands alone in the innermost of the parallel loops around it; null: there is more. */
static IrOp *find_spatial_loop(const OpList *ops) {
    IrOp *spatial = NULL;
    for (size_t i = 0; i < ops->len; i++) {
        IrOp *op = ops->data[i];
        if (spatial && is_inside_op(op->block, spatial)) continue;
        if (op->opcode == IR_FOR && !spatial && op->block->parent)
            spatial = op;
        else if (!is_terminator(op) && op->opcode != IR_PARALLEL && (op->region_count || !is_scalar_arithmetic(op)))
            return NULL;
    }
    for (size_t i = 0; spatial && i < ops->len; i++)
        if (ops->data[i]->opcode == IR_PARALLEL && !is_inside_op(spatial->block, ops->data[i])) return NULL;
    return spatial;
}

/* Do iterations of the loop leave the elements of those before behind? */
static bool moves_past(SpatialLoop *w, const IrOp *store) {
    IrSlice s = ir_slice(store);
    const IrType *tile = store->operands[0]->type;
    for (unsigned i = 0; i < s.rank; i++) {
        const IrSliceAxis *axis = &s.axes[i];
        if (axis->letter == IR_LETTER_GATHER) continue;
        int64_t span = axis->letter == IR_LETTER_RANGE ? ir_type_extent(tile, (unsigned)axis->axis) * axis->step : 1;
        if (moves_by(w->m, w->spatial, ir_aff_of(w->m, store->operands[axis->operand])) >= span) return true;
    }
    return false;
}

static bool is_only_stored_once(const IrValue *tensor) {
    return !is_view(tensor) && tensor->uses && !tensor->uses->next;
}

static bool stays_apart(SpatialLoop *w) {
    bool stores = false;
    for (size_t i = 0; i < w->ops.len; i++) {
        IrOp *op = w->ops.data[i];
        if (op->opcode == IR_TILE_LOAD && is_stored_to(op->operands[0])) return false;
        if (op->region_count || is_terminator(op) || is_repeatable(op)) continue;
        bool plain = op->opcode == IR_TILE_STORE && op->block == w->spatial->regions[0] && ir_op_mode(op) == IR_KIND_SET;
        if (!plain || !is_only_stored_once(op->operands[1]) || !moves_past(w, op)) return false;
        const IrType *tile = op->operands[0]->type;
        int64_t bytes = (int64_t)dtype_size(tile->dtype);
        for (unsigned a = 0; a < tile->rank; a++) bytes *= ir_type_extent(tile, a);
        if (bytes > w->bytes) w->bytes = bytes;
        stores = true;
    }
    return stores;
}

static const Aff *first_leaf(void *ctx, const Aff *leaf) {
    const SpatialLoop *w = ctx;
    for (const IrOp *loop = w->spatial->block->parent; leaf->kind == AFF_VAR && loop; loop = loop->block->parent)
        if (leaf->var == loop->regions[0]->args[0]) return ir_aff_of(w->m, loop->operands[0]);
    return NULL;
}

/* An upper bound over sizes of how many iterations the loop has: that of the first block where none has more. */
static const Aff *longest(SpatialLoop *w, const Aff *trips) {
    AffCtx *c = w->m->affs;
    const Aff *first = aff_substitute(c, trips, first_leaf, w);
    if (aff_over_symbols(first) && aff_prove_le(ir_facts_at(w->ctx->scratch, w->spatial), trips, first)) return first;
    for (const IrOp *loop = w->spatial->block->parent; loop; loop = loop->block->parent)
        trips = aff_bound_without(c, trips, loop->regions[0]->args[0]);
    return aff_over_symbols(trips) ? trips : NULL;
}

static bool find(SpatialLoop *w) {
    int64_t first, step;
    w->ops = ops_collect(w->ctx->scratch, w->func->body);
    w->spatial = find_spatial_loop(&w->ops);
    if (!w->spatial || w->spatial->result_count || !window_axes(w->func).rank || !stays_apart(w)) return false;
    if (!aff_is_const(ir_aff_of(w->m, w->spatial->operands[0]), &first) || first ||
        !aff_is_const(ir_aff_of(w->m, w->spatial->operands[2]), &step) || step != 1)
        return false;
    w->blocks = parallel_iterations(w->m, &w->ops);
    w->most = w->blocks ? longest(w, loop_trips(w->m, w->spatial)) : NULL;
    return w->most;
}

/* ---- The parts ---- */

static DerivedSymbol named(SpatialLoop *w, const char *stem, const Aff *formula) {
    DerivedSymbol symbol = derived_symbol(w->m, stem, formula);
    kernel_add_symbol(w->func, symbol);
    return symbol;
}

static void divide(SpatialLoop *w) {
    AffCtx *c = w->m->affs;
    const Aff *one = aff_const(c, 1);
    int64_t warps = 1;
    while (warps < MOST_WARPS && 2 * warps * WARP_BYTES <= w->bytes) warps *= 2;
    const Aff *sms = aff_sym(c, "num_sms");
    kernel_add_symbol(w->func, (DerivedSymbol){sms, sms}); /* the device's */
    const Aff *places = aff_mul(c, sms, aff_const(c, WARPS / warps)), *room = aff_floordiv(c, places, aff_max(c, one, w->blocks));
    DerivedSymbol way = named(w, "way", aff_max(c, one, aff_ceildiv(c, w->most, aff_max(c, one, room))));
    DerivedSymbol parts = named(w, "parts", aff_max(c, one, aff_ceildiv(c, w->most, way.name)));

    IrOp *spatial = w->spatial, *loop = repeat_ops(spatial, spatial->next, parts.name, "part");
    IrBuilder b = ir_builder_before(spatial);
    b.span = spatial->span;
    IrValue *length = ir_aff_emit(&b, way.name), *first = ir_binary(&b, IR_MUL, loop->regions[0]->args[0], length);
    ir_set_operand(spatial, 1, ir_binary(&b, IR_MIN, length, ir_binary(&b, IR_SUB, spatial->operands[1], first)));
    IrValue *number = spatial->regions[0]->args[0];
    IrBuilder in = ir_builder_before(spatial->regions[0]->first);
    in.span = spatial->span;
    IrValue *at = ir_binary(&in, IR_ADD, first, number);
    ir_replace_uses(number, at);
    ir_set_operand(at->def, 1, number);
}

bool pass_split_spatial_loop(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f; f = f->next) {
        SpatialLoop w = {.ctx = ctx, .m = ctx->module, .func = f};
        bool may = WARPS && ctx->target->kind == TARGET_CUDA && f->level == IR_LEVEL_TILE && f->state == IR_STATE_STATIC;
        if (may && find(&w)) divide(&w);
    }
    return true;
}
