/* strip_mine: tiles of symbolic extent are cut into chunks where nothing folds along the axis.
 *
 * An axis that nothing reduces, contracts or reshapes is cut around its whole scope: the scope's
 * ops move into a new inner `parallel` over chunks, every tile of the axis gets the chunk as its
 * constant extent, every slice begins a chunk further. Ends stay, so that the last chunk's lanes
 * past the end are absent as before. A tensor that is loaded and stored without the axis is loaded before
 * that loop and stored behind it; what else is stored without the axis the first chunk stores.
 *
 * needs:  tile functions in state open, without tile.count
 * keeps:  versions, names, spans
 * breaks: nothing
 * source: strip-mining (Wolfe); the chunk is the target's tile_elements over the other extents
 *
 *     parallel(...) (%b: index) {                     parallel(...) (%b: index) {
 *       %x = tile.load(%X, %b, %c0, %D)          =>     parallel(%c0, %D, %c256) (%D_0: index) {
 *            : tile<[D] x f32>                             %x = tile.load(%X, %b, %D_0, %D)
 *                                                              : tile<[256] x f32>
 */
#include "analysis/analysis.h"
#include "plant.h"

enum {
    SHARED_CHUNK = 64 /* lanes of a chunk, where several rows of a tile share it */
};

static bool needs_cut(const PassContext *ctx, const AxisClass *c) {
    if (c->reduced || c->contracted || c->scanned || c->sorted || c->sliced || c->rigid) return false;
    return c->constant < 0 || c->constant > ctx->target->row_large;
}

/* Innermost axes first: they get the longest chunks. */
static size_t pick(const PassContext *ctx, const Axes *axes) {
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < axes_count(axes); i++) {
        const AxisClass *c = axes_class(axes, i);
        if (needs_cut(ctx, c) && (found == SIZE_MAX || (c->innermost && !axes_class(axes, found)->innermost))) found = i;
    }
    return found;
}

/* Of a tile that is transposed two axes are contiguous in memory: neither gets all of it. */
static bool shares_tile(const PassContext *ctx, const Axes *axes, size_t index) {
    for (size_t i = 0; i < axes_count(axes); i++) {
        const AxisClass *c = axes_class(axes, i);
        if (i != index && c->innermost && needs_cut(ctx, c)) return true;
    }
    return false;
}

static int64_t chunk_for(const PassContext *ctx, const Axes *axes, size_t index) {
    const Target *t = ctx->target;
    int64_t others = axes_others(axes, index, t->row_large, t->gemm_chunk);
    int64_t goal = t->tile_elements / others;
    int64_t least = axes_class(axes, index)->innermost ? 32 : 1;
    int64_t most = t->axis_chunk < t->row_large ? t->axis_chunk : t->row_large;
    if (t->kind == TARGET_CUDA && axes_class(axes, index)->innermost && shares_tile(ctx, axes, index))
        most = most < SHARED_CHUNK ? most : SHARED_CHUNK;
    int64_t chunk = 1;
    while (2 * chunk <= goal && 2 * chunk <= most) chunk *= 2;
    return chunk > least ? chunk : least;
}

/* ---- The scope ---- */

static bool all_parallel_above(const IrBlock *block) {
    for (const IrOp *op = block->parent; op; op = op->block->parent)
        if (op->opcode != IR_PARALLEL) return false;
    return true;
}

/* The innermost block that holds all ops of the class and lies under parallel loops only. */
static IrBlock *scope_of(const Axes *axes, const OpList *ops, size_t index) {
    IrBlock *scope = NULL;
    for (size_t i = 0; i < ops->len; i++) {
        if (!axes_touch(axes, ops->data[i], index)) continue;
        if (!scope) scope = ops->data[i]->block;
        while (!is_inside(ops->data[i]->block, scope)) scope = scope->parent->block;
    }
    while (!all_parallel_above(scope)) scope = scope->parent->block;
    return scope;
}

/* ---- Rewriting ---- */

/* A store without the axis would run once a chunk: only the first one does it. */
static void guard_store(IrOp *store, IrValue *chunk_begin) {
    IrBuilder b = ir_builder_before(store);
    b.span = store->span;
    IrValue *first = ir_binary(&b, IR_EQ, chunk_begin, ir_const_index(&b, 0));
    IrOp *branch = ir_op_create(&b, IR_IF, 1, &first, 0, NULL);
    ir_op_move_to_end(store, branch->regions[0]);
    IrBuilder end = ir_builder_at_end(branch->regions[0]);
    ir_yield(&end, 0, NULL);
}

static void shift_op(IrOp *op, const Axes *axes, size_t index, IrValue *chunk_begin) {
    IrValue *tile = op->opcode == IR_TILE_STORE ? op->operands[0] : &op->results[0];
    int axis = axes_find(axes, tile, index);
    if (axis >= 0) slice_shift(op, (unsigned)axis, chunk_begin);
}

/* Lane numbers go on from chunk to chunk. The tile has its chunk's type already. */
static void shift_iota(IrOp *op, const Axes *axes, size_t index, IrValue *chunk_begin) {
    IrValue *tile = &op->results[0];
    int axis = axes_find(axes, tile, index);
    if (axis < 0 || ir_attr_int(op, "axis", -1) != axis) return;
    IrBuilder b = ir_builder_after(op);
    b.span = op->span;
    IrValue *begin = ir_cast(&b, chunk_begin, ir_type_scalar(b.module, tile->type->dtype));
    IrValue *sum = ir_binary(&b, IR_ADD, tile, begin);
    ir_replace_uses(tile, sum);
    ir_set_operand(sum->def, 0, tile);
}

static bool has_foreign_store(const Axes *axes, const OpList *ops, const IrBlock *scope, size_t index) {
    for (size_t i = 0; i < ops->len; i++)
        if (ops->data[i]->opcode == IR_TILE_STORE && is_inside(ops->data[i]->block, scope) && !axes_touch(axes, ops->data[i], index))
            return true;
    return false;
}

/* parallel(0, extent, chunk) around what the block does; leading index arithmetic stays outside. */
static IrOp *wrap(IrBlock *scope, const Aff *extent, int64_t chunk, const char *name, bool at_least_once) {
    IrOp *first = scope->first;
    while (first && is_scalar_arithmetic(first)) first = first->next;
    IrBuilder b = ir_builder_before(first);
    b.span = first->span;
    IrValue *end = ir_aff_emit(&b, extent);
    if (PLANTED(4)) end = ir_binary(&b, IR_SUB, end, ir_const_index(&b, 1));
    if (at_least_once) end = ir_binary(&b, IR_MAX, end, ir_const_index(&b, 1));
    IrValue *bounds[] = {ir_const_index(&b, 0), end, ir_const_index(&b, chunk)};
    IrOp *loop = ir_op_create(&b, IR_PARALLEL, 3, bounds, 0, NULL);
    ir_region_add_arg(loop->regions[0], ir_type_index(b.module), name);
    for (IrOp *op = first, *next; op && !is_terminator(op); op = next) {
        next = op->next;
        ir_op_move_to_end(op, loop->regions[0]);
    }
    IrBuilder last = ir_builder_at_end(loop->regions[0]);
    ir_yield(&last, 0, NULL);
    return loop;
}

/* What is updated in place beside the tile is loaded before the chunks and stored behind them. */
static void leave_outside(const OpList *outside, IrOp *loop) {
    IrOp *behind = loop->next;
    for (size_t i = 0; i < outside->len; i++)
        ir_op_move_before(outside->data[i], outside->data[i]->opcode == IR_TILE_STORE ? behind : loop);
}

static const char *loop_name(PassContext *ctx, const Aff *extent) {
    return arena_printf(ctx->module->arena, "%.32s_0", extent->kind == AFF_SYM ? extent->name : "lane");
}

static bool cut(PassContext *ctx, IrFunc *f, Axes *axes, size_t index) {
    const Aff *extent = axes_class(axes, index)->extent;
    int64_t chunk = chunk_for(ctx, axes, index);
    OpList ops = ops_collect(ctx->scratch, f->body);
    IrBlock *scope = scope_of(axes, &ops, index);
    const IrOp *store, *other;
    if (!cut_is_safe(ctx, axes, &ops, scope, index, &store, &other)) {
        Diag *d = diag_report(ctx->diags, DIAG_chunks_meet, store->span, memory_of(store->operands[1])->name);
        if (other != store) diag_note(ctx->diags, d, other->span, "the other %s is here", other->opcode == IR_TILE_LOAD ? "load" : "store");
        diag_note(ctx->diags, d, SPAN_NONE, "store to another tensor or workspace, or to this one in a loop nest of its own");
        return false;
    }
    OpList outside = cut_outside(ctx, axes, &ops, scope, index);
    bool foreign = has_foreign_store(axes, &ops, scope, index);
    IrOp *loop = wrap(scope, extent, chunk, loop_name(ctx, extent), foreign);
    IrValue *begin = loop->regions[0]->args[0];
    leave_outside(&outside, loop);
    for (size_t i = 0; i < ops.len; i++) {
        IrOp *op = ops.data[i];
        if (op->opcode == IR_TILE_LOAD || op->opcode == IR_TILE_STORE) shift_op(op, axes, index, begin);
        if (op->opcode == IR_TILE_STORE && is_inside(op->block, loop->regions[0]) && !axes_touch(axes, op, index)) guard_store(op, begin);
    }
    axes_set_extent(axes, index, chunk);
    for (size_t i = 0; i < ops.len; i++)
        if (ops.data[i]->opcode == IR_TILE_IOTA) shift_iota(ops.data[i], axes, index, begin);
    return true;
}

bool pass_strip_mine(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f; f = f->next) {
        if (f->level != IR_LEVEL_TILE || f->state != IR_STATE_OPEN) continue;
        for (;;) {
            Axes *axes = axes_analyse(ctx->scratch, f);
            size_t index = pick(ctx, axes);
            if (index == SIZE_MAX) break;
            if (!cut(ctx, f, axes, index)) return false;
        }
    }
    return true;
}
