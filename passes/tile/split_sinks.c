/* What along an axis becomes a loop over chunks, for split_passes: the ops, those that share a pass, and what such a loop asks of a block. */
#include "split.h"

#include <string.h>

/* What split_keep_loads and split_keep_row_loads ask for: tiles that a loop keeps at most, threads of a multiprocessor, and of one whose loop
 * calls functions (of split_tiles_of_pass). */
enum { KEEP_TILES = 4, KEEP_THREADS = 1024, FUNCTIONS = 99, FUNCTION_THREADS = 1280 };

static bool is_fold(const Axes *axes, const IrOp *op, size_t index) {
    if (op->opcode != IR_TILE_REDUCE && op->opcode != IR_TILE_ARG && op->opcode != IR_TILE_GEMM) return false;
    return axes_find(axes, op->operands[0], index) >= 0 && axes_find(axes, &op->results[0], index) < 0;
}

static bool is_sink(const Axes *axes, const IrOp *op, size_t index) {
    return is_fold(axes, op, index) || (op->opcode == IR_TILE_STORE && axes_touch(axes, op, index));
}

bool split_needs_all(PassContext *ctx, IrFunc *f, const Axes *axes, size_t index) {
    const AxisClass *c = axes_class(axes, index);
    OpList ops = ops_collect(ctx->scratch, f->body);
    for (size_t i = 0; i < ops.len; i++)
        if (is_sink(axes, ops.data[i], index) && !chunks_repeat(ctx, axes, index, ops.data[i])) return true;
    return c->sorted || c->sliced;
}

static bool same_slice(IrModule *m, const IrOp *load, const IrOp *store) {
    if (!is_same_tensor(m, load->operands[0], store->operands[1]) || load->operand_count + 1 != store->operand_count ||
        ir_attr(load, "steps") || ir_attr(store, "steps") || !slices_alike(load, store))
        return false;
    for (unsigned i = 1; i < load->operand_count; i++)
        if (load->operands[i] != store->operands[i + 1]) return false;
    return true;
}

/* The last op that a split turns into a loop. */
static const IrOp *last_sink(const OpList *ops, const Axes *axes, size_t index) {
    for (size_t i = ops->len; i-- > 0;)
        if (is_sink(axes, ops->data[i], index)) return ops->data[i];
    return NULL;
}

/* Are there scans that no loop over chunks carries? Chunks are then made before and after their turn. */
static bool scans_anew(const OpList *ops, const Axes *axes, size_t index) {
    size_t found[2] = {0};
    for (size_t i = 0; i < ops->len; i++) {
        const IrOp *op = ops->data[i];
        if (op->opcode != IR_TILE_SCAN || axes_find(axes, op->operands[0], index) != ir_attr_int(op, "axis", -2)) continue;
        found[ir_attr_bool(op, "reverse")]++;
    }
    return (found[0] && found[1]) || found[0] + found[1] > SPLIT_SCANS;
}

bool split_loads_repeatable(PassContext *ctx, const OpList *ops, const Axes *axes, size_t index) {
    const IrOp *last = scans_anew(ops, axes, index) ? NULL : last_sink(ops, axes, index);
    for (size_t i = 0; i < ops->len; i++) {
        IrOp *load = ops->data[i];
        if (load->opcode != IR_TILE_LOAD || !axes_touch(axes, load, index)) continue;
        for (size_t k = 0; k < ops->len; k++) {
            const IrOp *store = ops->data[k];
            if (store->opcode != IR_TILE_STORE || memory_of(store->operands[1]) != memory_of(load->operands[0])) continue;
            if (store == last && same_slice(ctx->module, load, store) && load->block == last->block) continue;
            report_unsupported(ctx, load->span,
                               "several passes over a tensor that the same kernel writes; store to another tensor or workspace, or in a "
                               "loop nest of its own");
            return false;
        }
    }
    return true;
}

/* Can the value be made before `op`, a chunk at a time: from loads and lane by lane, and from what is there already? */
static bool is_ready(PointerTable *seen, const Axes *axes, size_t index, const IrValue *v, const IrOp *op) {
    uint32_t done;
    if (!v->def || pointer_table_get(seen, v, &done)) return true;
    if (axes_find(axes, v, index) < 0) return ir_dominates(v->def, op);
    if (v->def->block != op->block || v->def->region_count || ir_has_trait(v->def, IR_ALONG))
        return ir_dominates(v->def, op) && v->def->opcode == IR_CONST;
    for (unsigned i = 0; i < v->def->operand_count; i++)
        if (!is_ready(seen, axes, index, v->def->operands[i], op)) return false;
    pointer_table_set(seen, v, 1);
    return true;
}

/* The reductions that one pass serves: number `first`, and those behind it that need nothing of it. */
static size_t find_together(PassContext *ctx, const OpList *ops, const Axes *axes, size_t index, size_t first, IrOp **group) {
    IrOp *op = group[0] = ops->data[first];
    size_t n = 1;
    PointerTable seen = pointer_table(ctx->scratch);
    if (op->opcode != IR_TILE_REDUCE || !is_ready(&seen, axes, index, op->operands[0], op)) return n;
    for (size_t i = first + 1; i < ops->len && n < SPLIT_TOGETHER; i++) {
        IrOp *other = ops->data[i];
        if (other->opcode != IR_TILE_REDUCE || other->block != op->block || !is_fold(axes, other, index)) continue;
        if (is_ready(&seen, axes, index, other->operands[0], op)) group[n++] = other;
    }
    return n;
}

static bool holds(IrOp *const *group, size_t n, const IrOp *op) {
    for (size_t i = 0; i < n; i++)
        if (group[i] == op) return true;
    return false;
}

size_t split_next_pass(PassContext *ctx, const OpList *ops, const Axes *axes, size_t index, size_t *at, OpList *served, IrOp **group) {
    for (; *at < ops->len; ++*at) {
        IrOp *op = ops->data[*at];
        if (!is_sink(axes, op, index) || holds(served->data, served->len, op)) continue;
        size_t n = find_together(ctx, ops, axes, index, (*at)++, group);
        for (size_t i = 1; i < n; i++) VEC_PUSH(ctx->scratch, served, group[i]);
        return n;
    }
    return 0;
}

int split_passes_along(PassContext *ctx, IrFunc *f, const Axes *axes, size_t index) {
    OpList ops = ops_collect(ctx->scratch, f->body), served = {0};
    IrOp *group[SPLIT_TOGETHER];
    int passes = 0;
    for (size_t at = 0; split_next_pass(ctx, &ops, axes, index, &at, &served, group);) passes++;
    return passes;
}

bool split_is_one_arg(const PassContext *ctx, const IrFunc *f, const OpList *ops, const Axes *axes, size_t index) {
    unsigned loads = 0, folds = 0;
    if (ctx->target->kind != TARGET_CUDA || ir_func_has(f, IR_FN_NUM_WARPS) || ir_func_has(f, IR_FN_MIN_BLOCKS)) return false;
    for (size_t i = 0; i < ops->len; i++) {
        const IrOp *op = ops->data[i];
        if ((op->region_count && op->opcode != IR_PARALLEL) || op->opcode == IR_TILE_SCAN) return false;
        loads += op->opcode == IR_TILE_LOAD && axes_touch(axes, op, index);
        if (!is_sink(axes, op, index)) continue;
        if (op->opcode != IR_TILE_ARG || dtype_size(op->operands[0]->type->dtype) > 4) return false;
        folds++;
    }
    return loads == 1 && folds == 1;
}

void split_keep_blocks(PassContext *ctx, IrFunc *f, int64_t lanes) {
    int64_t registers = 3 * SPLIT_STEP_LANES + SPLIT_REGISTERS_BESIDE, threads = lanes / SPLIT_STEP_LANES;
    if (threads >= 32) ir_func_set_int(f, IR_FN_MIN_BLOCKS, ctx->target->registers_sm / (registers * threads));
}

bool split_is_alone(const PassContext *ctx, const IrFunc *f, const OpList *ops, const Axes *axes, size_t index) {
    if (ctx->target->kind != TARGET_CUDA || ir_func_cluster(f) > 1 || ir_func_has(f, IR_FN_NUM_WARPS) ||
        split_lanes_beside(axes, index) > 1)
        return false;
    for (size_t i = 0; i < ops->len; i++) {
        const IrOp *op = ops->data[i];
        if (op->region_count || op->opcode == IR_TILE_SCAN) return false;
        if (is_sink(axes, op, index) && (op->opcode != IR_TILE_REDUCE || dtype_size(op->operands[0]->type->dtype) > 4)) return false;
    }
    return true;
}

unsigned split_tiles_of_pass(PassContext *ctx, IrFunc *f, const OpList *ops, const Axes *axes, size_t index, bool alone) {
    unsigned tiles = 0, loads = 0;
    bool functions = false;
    if (split_passes_along(ctx, f, axes, index) != 1) return 0;
    for (size_t i = 0; i < ops->len; i++) {
        const IrOp *op = ops->data[i];
        bool sink = is_sink(axes, op, index);
        if (sink && op->opcode != IR_TILE_REDUCE) return 0;
        if (axes_touch(axes, op, index) && (ir_math_info(op->opcode) || op->opcode == IR_LOG_RATIO)) functions = true;
        bool load = op->opcode == IR_TILE_LOAD && axes_touch(axes, op, index);
        loads += load;
        tiles += sink || load;
    }
    if (functions) return FUNCTIONS; /* other warps' loads are under way meanwhile */
    return alone || loads == 1 ? tiles : 0;
}

void split_keep_loads(PassContext *ctx, IrFunc *f, unsigned tiles, int64_t lanes, bool alone) {
    int64_t registers = SPLIT_STEP_LANES * tiles + SPLIT_REGISTERS_BESIDE, threads = lanes / SPLIT_STEP_LANES;
    if (ctx->target->kind != TARGET_CUDA || (tiles > KEEP_TILES && tiles != FUNCTIONS) || threads < 32 || ir_func_has(f, IR_FN_MIN_BLOCKS))
        return;
    int64_t blocks = ctx->target->registers_sm / (registers * threads), least = KEEP_THREADS / threads;
    blocks = blocks > least ? blocks : least;
    if (tiles == FUNCTIONS) blocks = FUNCTION_THREADS / threads;
    if (blocks > 0) ir_func_set_int(f, alone ? IR_FN_MIN_BLOCKS : IR_FN_LOAD_BLOCKS, blocks);
}

void split_keep_row_loads(PassContext *ctx, IrFunc *f, const Axes *axes, size_t index, int64_t lanes) {
    OpList ops = ops_collect(ctx->scratch, f->body);
    if (ctx->target->kind != TARGET_CUDA || ir_func_has(f, IR_FN_NUM_WARPS) || split_passes_along(ctx, f, axes, index) != 1) return;
    unsigned tiles = split_tiles_of_pass(ctx, f, &ops, axes, index, true);
    int64_t registers = SPLIT_STEP_LANES * tiles + SPLIT_REGISTERS_BESIDE, threads = lanes / SPLIT_STEP_LANES;
    if (tiles && tiles <= KEEP_TILES && threads >= 32 && threads <= 512)
        ir_func_set_int(f, IR_FN_MIN_BLOCKS, ctx->target->registers_sm / (registers * threads));
}

static bool is_own(IrModule *m, const IrOp *load, const IrValue *row) {
    for (unsigned i = 1; i < load->operand_count; i++)
        if (aff_depends_on(ir_aff_of(m, load->operands[i]), row)) return true;
    return false;
}

/* The innermost of the parallel loops around a kernel that only reduces rows of a tensor with one that all of them read; null: it is another.
 * Several rows will be one iteration (group_rows). */
const IrOp *rows_that_share(PassContext *ctx, const OpList *ops, const Axes *axes, size_t index) {
    const IrOp *loop = NULL;
    bool own = false, shared = false;
    for (size_t i = 0; i < ops->len; i++) {
        const IrOp *op = ops->data[i];
        if (op->region_count && op->opcode != IR_PARALLEL) return NULL;
        if (op->region_count) loop = op;
        if (ir_has_trait(op, IR_ALONG) || op->opcode == IR_TILE_ARG || op->opcode == IR_TILE_GEMM || op->opcode == IR_VIEW) return NULL;
        for (unsigned r = 0; r < op->result_count; r++)
            if (is_tile(&op->results[r]) && op->results[r].type->rank > 1) return NULL;
    }
    for (size_t i = 0; loop && i < ops->len; i++) {
        const IrOp *op = ops->data[i];
        if ((op->opcode != IR_TILE_LOAD && op->opcode != IR_TILE_STORE) || !axes_touch(axes, op, index)) continue;
        if (op->opcode == IR_TILE_STORE || slice_gathers(op)) return NULL;
        bool of_row = is_own(ctx->module, op, loop->regions[0]->args[0]);
        own |= of_row, shared |= !of_row;
    }
    return own && shared ? loop : NULL;
}
