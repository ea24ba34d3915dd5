/* Pass split_spatial_loop: blocks that walk take shorter ways where the grid is small.
 *
 * what:   in this kernel each block runs one serial loop that moves a window along an axis and encloses all of its work (a walk). The
 *         kernel gets one more parallel loop, over parts of the walk. The launch's sizes determine the number of parts: as many as
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
#include <string.h>

#include "analysis/analysis.h"

/* WARPS of a multiprocessor fill it: as many parts as there is room for blocks beside each other (WARPS = 0: the switch, walks are never
 * divided), none where the grid has as many. A warp has WARP_BYTES of the tile that is stored, as assign_layouts gives them, a block up to MOST_WARPS. */
enum { WARPS = 16, MOST_WARPS = 8, WARP_BYTES = 512 };

typedef struct {
    PassContext *ctx;
    IrModule *m;
    IrFunc *func;
    OpList ops;
    IrOp *walk;
    const Aff *blocks, *most; /* of the kernel; iterations of the longest walk */
    int64_t bytes;            /* of the largest tile that is stored */
} Walk;

/* ---- Which ---- */

/* The loop that stands alone in the innermost of the parallel loops around it; null: there is more. */
static IrOp *find_walk(const OpList *ops) {
    IrOp *walk = NULL;
    for (size_t i = 0; i < ops->len; i++) {
        IrOp *op = ops->data[i];
        if (walk && is_inside_op(op->block, walk)) continue;
        if (op->opcode == IR_FOR && !walk && op->block->parent)
            walk = op;
        else if (!is_terminator(op) && op->opcode != IR_PARALLEL && (op->region_count || !is_scalar_arithmetic(op)))
            return NULL;
    }
    for (size_t i = 0; walk && i < ops->len; i++)
        if (ops->data[i]->opcode == IR_PARALLEL && !is_inside_op(walk->block, ops->data[i])) return NULL;
    return walk;
}

/* Do iterations of the walk leave the elements of those before behind? */
static bool leaves_behind(Walk *w, const IrOp *store) {
    IrSlice s = ir_slice(store);
    const IrType *tile = store->operands[0]->type;
    for (unsigned i = 0; i < s.rank; i++) {
        const IrSliceAxis *axis = &s.axes[i];
        if (axis->letter == 'g') continue;
        int64_t span = axis->letter == 'r' ? ir_type_extent(tile, (unsigned)axis->axis) * axis->step : 1;
        if (moves_by(w->m, w->walk, ir_aff_of(w->m, store->operands[axis->operand])) >= span) return true;
    }
    return false;
}

static bool is_only_stored_once(const IrValue *tensor) {
    return !is_view(tensor) && tensor->uses && !tensor->uses->next;
}

static bool stays_apart(Walk *w) {
    bool stores = false;
    for (size_t i = 0; i < w->ops.len; i++) {
        IrOp *op = w->ops.data[i];
        if (op->opcode == IR_TILE_LOAD && is_stored_to(op->operands[0])) return false;
        if (op->region_count || is_terminator(op) || is_repeatable(op)) continue;
        bool plain = op->opcode == IR_TILE_STORE && op->block == w->walk->regions[0] && strcmp(ir_attr_str(op, "mode", "set"), "set") == 0;
        if (!plain || !is_only_stored_once(op->operands[1]) || !leaves_behind(w, op)) return false;
        const IrType *tile = op->operands[0]->type;
        int64_t bytes = (int64_t)dtype_size(tile->dtype);
        for (unsigned a = 0; a < tile->rank; a++) bytes *= ir_type_extent(tile, a);
        if (bytes > w->bytes) w->bytes = bytes;
        stores = true;
    }
    return stores;
}

static const Aff *first_leaf(void *ctx, const Aff *leaf) {
    const Walk *w = ctx;
    for (const IrOp *loop = w->walk->block->parent; leaf->kind == AFF_VAR && loop; loop = loop->block->parent)
        if (leaf->var == loop->regions[0]->args[0]) return ir_aff_of(w->m, loop->operands[0]);
    return NULL;
}

/* An upper bound over sizes of how many iterations a walk has: that of the first block where none has more. */
static const Aff *longest(Walk *w, const Aff *trips) {
    AffCtx *c = w->m->affs;
    const Aff *first = aff_substitute(c, trips, first_leaf, w);
    if (aff_over_symbols(first) && aff_prove_le(ir_facts_at(w->ctx->scratch, w->walk), trips, first)) return first;
    for (const IrOp *loop = w->walk->block->parent; loop; loop = loop->block->parent)
        trips = aff_bound_without(c, trips, loop->regions[0]->args[0]);
    return aff_over_symbols(trips) ? trips : NULL;
}

static bool find(Walk *w) {
    int64_t first, step;
    w->ops = ops_collect(w->ctx->scratch, w->func->body);
    w->walk = find_walk(&w->ops);
    if (!w->walk || w->walk->result_count || !window_axes(w->func).rank || !stays_apart(w)) return false;
    if (!aff_is_const(ir_aff_of(w->m, w->walk->operands[0]), &first) || first ||
        !aff_is_const(ir_aff_of(w->m, w->walk->operands[2]), &step) || step != 1)
        return false;
    w->blocks = parallel_iterations(w->m, &w->ops);
    w->most = w->blocks ? longest(w, loop_trips(w->m, w->walk)) : NULL;
    return w->most;
}

/* ---- The parts ---- */

static DerivedSymbol named(Walk *w, const char *stem, const Aff *formula) {
    DerivedSymbol symbol = derived_symbol(w->m, stem, formula);
    kernel_add_symbol(w->func, symbol);
    return symbol;
}

static void divide(Walk *w) {
    AffCtx *c = w->m->affs;
    const Aff *one = aff_const(c, 1);
    int64_t warps = 1;
    while (warps < MOST_WARPS && 2 * warps * WARP_BYTES <= w->bytes) warps *= 2;
    const Aff *sms = aff_sym(c, "num_sms");
    kernel_add_symbol(w->func, (DerivedSymbol){sms, sms}); /* the device's */
    const Aff *places = aff_mul(c, sms, aff_const(c, WARPS / warps)), *room = aff_floordiv(c, places, aff_max(c, one, w->blocks));
    DerivedSymbol way = named(w, "way", aff_max(c, one, aff_ceildiv(c, w->most, aff_max(c, one, room))));
    DerivedSymbol parts = named(w, "parts", aff_max(c, one, aff_ceildiv(c, w->most, way.name)));

    IrOp *walk = w->walk, *loop = repeat_ops(walk, walk->next, parts.name, "part");
    IrBuilder b = ir_builder_before(walk);
    b.span = walk->span;
    IrValue *length = ir_aff_emit(&b, way.name), *first = ir_binary(&b, IR_MUL, loop->regions[0]->args[0], length);
    ir_set_operand(walk, 1, ir_binary(&b, IR_MIN, length, ir_binary(&b, IR_SUB, walk->operands[1], first)));
    IrValue *number = walk->regions[0]->args[0];
    IrBuilder in = ir_builder_before(walk->regions[0]->first);
    in.span = walk->span;
    IrValue *at = ir_binary(&in, IR_ADD, first, number);
    ir_replace_uses(number, at);
    ir_set_operand(at->def, 1, number);
}

bool pass_split_spatial_loop(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f; f = f->next) {
        Walk w = {.ctx = ctx, .m = ctx->module, .func = f};
        bool may = WARPS && ctx->target->kind == TARGET_CUDA && f->level == IR_LEVEL_TILE && f->state == IR_STATE_STATIC;
        if (may && find(&w)) divide(&w);
    }
    return true;
}
