/* Pass specialize_tiles: a version for rows that are well below the tiles' extent.
 *
 * what:   a parallel loop goes over an axis tile by tile, and in the heaviest case the axis is much shorter than one tile. The kernel
 *         then gets a version for extents up to a little more than that: its tiles have this length, and the loop, which would have
 *         one iteration, is gone. Absent lanes cost as much as present ones, and rows that short may be grouped (group_rows).
 *         Not where a product lacks the axis, or a fold of two axes: what it costs stays, and the version is only more code.
 * needs:  tile functions after strip_mine; target cuda
 * keeps:  values, names
 * breaks: one function becomes two versions
 * source: own
 *
 *     parallel(0, ceil(N, 1024)) (%j) {                           func @f_short288 guard 289 - N
 *       %x = tile.load(%X, %i, 1024 j, 1024 j + 1024)      =>       %x = tile.load(%X, %i, 0, 1024) : tile<[288] x f32>
 *            : tile<[1024] x f32>                                   tile.store(f(%x), %Y, %i, 0, 1024)
 *       tile.store(f(%x), %Y, %i, 1024 j, 1024 j + 1024) }        func @f as it was
 */
#include "split.h"

typedef struct {
    PassContext *ctx;
    IrFunc *func;
    Axes *axes;
    IrOp *loop;
    size_t index;      /* the class of axes */
    const Aff *extent; /* of what is stored */
} Short;

/* The innermost of the loops around all that is stored; null: there is none. */
static IrOp *loop_around(const OpList *ops) {
    IrOp *loop = NULL;
    for (size_t i = 0; i < ops->len; i++)
        if (ops->data[i]->opcode == IR_PARALLEL && (!loop || is_inside_op(ops->data[i]->block, loop))) loop = ops->data[i];
    for (size_t i = 0; loop && i < ops->len; i++)
        if (ops->data[i]->opcode == IR_TILE_STORE && !is_inside_op(ops->data[i]->block, loop)) return NULL;
    return loop;
}

/* Does the store put the class's lanes from the first of the axis on? */
static bool stores_from_first(Short *s, const IrOp *store) {
    IrModule *m = s->ctx->module;
    int axis = axes_find(s->axes, store->operands[0], s->index);
    unsigned operand, at;
    int64_t begin;
    if (axis < 0 || !slice_operand(store, (unsigned)axis, &operand, &at) || slice_step(store, (unsigned)axis) != 1) return false;
    const Aff *extent = store->operands[1]->type->extents[at];
    if (s->extent && s->extent != extent) return false;
    s->extent = extent;
    const Aff *first = aff_with(m->affs, ir_aff_of(m, store->operands[operand]), s->loop->regions[0]->args[0], aff_const(m->affs, 0));
    return aff_is_const(first, &begin) && begin == 0;
}

/* Has the loop no second iteration where the extent is at most that of a tile? */
static bool goes_by_tiles(const Short *s, int64_t tile) {
    IrModule *m = s->ctx->module;
    int64_t begin, step;
    const Aff *end = ir_aff_of(m, s->loop->operands[1]);
    if (!aff_is_const(ir_aff_of(m, s->loop->operands[0]), &begin) || begin || !aff_is_const(ir_aff_of(m, s->loop->operands[2]), &step))
        return false;
    return (step == 1 && end == aff_ceildiv(m->affs, s->extent, aff_const(m->affs, tile))) || (step == tile && end == s->extent);
}

/* A product by tensor cores, or what is folded of a tile of two axes or more: such as a product by lanes. */
static bool is_product_or_fold(const IrOp *op) {
    return op->opcode == IR_TILE_GEMM || (op->opcode == IR_TILE_REDUCE && op->operands[0]->type->rank > 1);
}

/* Of attention: the weights are a product that the columns of the values say nothing of, and most of the work. */
static bool has_product_without(const Short *s, const OpList *ops) {
    for (size_t i = 0; i < ops->len; i++) {
        IrOp *op = ops->data[i];
        if (is_product_or_fold(op) && axes_find(s->axes, op->opcode == IR_TILE_GEMM ? ir_result(op, 0) : op->operands[0], s->index) < 0)
            return true;
    }
    return false;
}

/* Lanes of the class are worth nothing to each other, and nothing but what is stored counts. */
static bool find(Short *s) {
    OpList ops = ops_collect(s->ctx->scratch, s->func->body);
    s->loop = loop_around(&ops);
    s->axes = axes_analyse(s->ctx->scratch, s->func);
    for (s->index = 0; s->loop && s->index < axes_count(s->axes); s->index++) {
        const AxisClass *c = axes_class(s->axes, s->index);
        bool tied = c->reduced || c->contracted || c->multiplied || c->scanned || c->sorted || c->sliced || c->rigid;
        if (tied || !c->innermost || c->constant < 2) continue;
        bool fits = true;
        s->extent = NULL;
        for (size_t i = 0; fits && i < ops.len; i++)
            if (ops.data[i]->opcode == IR_TILE_STORE) fits = stores_from_first(s, ops.data[i]);
        if (fits && s->extent && goes_by_tiles(s, c->constant) && !has_product_without(s, &ops)) return true;
    }
    return false;
}

static void shorten(Short *s, int64_t lanes) {
    AffCtx *affs = s->ctx->module->affs;
    IrFunc *f = s->func;
    IrFunc *copy = ir_func_clone(f, f->name);
    copy->guard = f->guard;
    f->name = arena_printf(s->ctx->module->arena, "%s_short%lld", f->name, (long long)lanes);
    const Aff *room = aff_sub(affs, aff_const(affs, lanes + 1), s->extent);
    f->guard = f->guard ? aff_min(affs, f->guard, room) : room;
    axes_set_extent(s->axes, s->index, lanes);
    IrBuilder b = ir_builder_before(s->loop);
    ir_replace_uses(s->loop->regions[0]->args[0], ir_const_index(&b, 0));
    for (IrOp *op = s->loop->regions[0]->first, *next; op; op = next) {
        next = op->next;
        if (is_terminator(op))
            ir_op_erase(op);
        else
            ir_op_move_before(op, s->loop);
    }
    ir_op_erase(s->loop);
}

bool pass_specialize_tiles(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first, *next; f; f = next) {
        next = f->next;
        Short s = {.ctx = ctx, .func = f};
        int64_t lanes;
        bool aligned;
        if (ctx->target->kind != TARGET_CUDA || f->level != IR_LEVEL_TILE || f->state != IR_STATE_OPEN ||
            ir_func_has(f, IR_FN_VECTOR_BYTES))
            continue;
        if (!find(&s) || !row_short(ctx, f, s.extent, ROW_SHORT, &lanes, &aligned)) continue;
        if (4 * lanes > 3 * axes_class(s.axes, s.index)->constant) continue;
        shorten(&s, lanes);
        if (!aligned) ir_func_set_int(f, IR_FN_VECTOR_BYTES, 1);
    }
    return true;
}
