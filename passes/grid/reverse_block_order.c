/* Pass reverse_block_order: a step that maps what a step before it has read begins at the end of it.
 *
 * what:   if a kernel loads a tensor that an earlier step has loaded too, and both traverse it from begin to end, the later kernel
 *         numbers its blocks from the last one down (attribute `backwards`, which grid puts on the block number): the end of the tensor,
 *         which the earlier step read last, is still in the L2 cache. This applies only to steps that read each tile once and store
 *         results, so that steps that only reduce the tensor keep one direction, and only if a case has a tensor that is larger
 *         than the L2 but at most TENSOR_L2 times as large.
 * needs:  tile functions in state static, before grid; target cuda
 * keeps:  everything; no result depends on which block computes what
 * breaks: nothing
 * source: loop reversal, for the sake of a cache
 *
 *     parallel(0, M) (%m) { %x = tile.load(%X, %m, 0, N); reduce }
 *     parallel(0, M) (%m) { %x = tile.load(%X, %m, 0, N); ... tile.store(%y, %Y, ...) }      => the second {backwards = true}
 */

#include "analysis/analysis.h"

enum { TENSOR_L2 = 16 /* times the L2, at most (0: never) */ };

/* Of the loops that make the grid the outermost of more than one iteration. */
static const IrOp *outermost_loop(const PassContext *ctx, const IrOp *op) {
    const IrOp *outermost = NULL;
    for (const IrOp *loop = op->block->parent; loop; loop = loop->block->parent) {
        int64_t most;
        bool once = loop->opcode == IR_PARALLEL &&
                    aff_upper_bound(ir_facts_at(ctx->scratch, (IrOp *)loop), loop_trips(ctx->module, loop), &most) && most <= 1;
        if (!once) outermost = loop;
    }
    return outermost && outermost->opcode == IR_PARALLEL ? outermost : NULL;
}

/* Does the kernel load the tensor from its begin to its end? By the first axis that moves with the blocks. */
static bool goes_forward(const PassContext *ctx, const IrFunc *f, const char *tensor) {
    const IrValue *memory = param_named(f, tensor);
    bool some = false;
    for (const IrUse *use = memory ? memory->uses : NULL; use; use = use->next) {
        const IrOp *load = use->op, *loop = outermost_loop(ctx, load);
        if (load->opcode != IR_TILE_LOAD || use->index != 0) return false;
        if (!load->results[0].type->rank) continue; /* a single element */
        IrSlice s = ir_slice(load);
        int64_t moves = 0;
        for (unsigned i = 0; loop && i < s.rank && !moves; i++)
            moves = moves_by(ctx->module, loop, ir_aff_of(ctx->module, load->operands[s.axes[i].operand]));
        if (moves <= 0 || s.gather_axis >= 0) return false;
        some = true;
    }
    return some;
}

static bool is_worth_it(const PassContext *ctx, const IrFunc *f, const IrType *t) {
    IrModule *m = ctx->module;
    const Aff *bytes = aff_const(m->affs, (int64_t)dtype_size(t->dtype));
    for (unsigned i = 0; i < t->rank; i++) bytes = aff_mul(m->affs, bytes, t->extents[i]);
    int64_t most = size_most(ctx, f, bytes);
    return most > ctx->target->l2_bytes && most <= TENSOR_L2 * ctx->target->l2_bytes;
}

static bool stores_result(const IrFunc *f) {
    for (size_t i = 0; i < f->param_count; i++) {
        IrValue *memory = param_named(f, f->params[i].name);
        if (f->params[i].kind == IR_PARAM_TENSOR && memory && is_stored_to(memory)) return true;
    }
    return false;
}

/* No loops and no products, which read again and have an order of their own. */
static bool reads_once(const PassContext *ctx, const IrFunc *f) {
    OpList ops = ops_collect(ctx->scratch, f->body);
    for (size_t i = 0; i < ops.len; i++)
        if (ops.data[i]->opcode == IR_TILE_GEMM || (ops.data[i]->region_count && ops.data[i]->opcode != IR_PARALLEL)) return false;
    return true;
}

static bool is_read_before(const PassContext *ctx, const IrFunc *f, const char *tensor) {
    int64_t step = ir_step_order(f);
    for (const IrFunc *g = ctx->module->first; g; g = g->next)
        if (g->level == IR_LEVEL_TILE && g->state == IR_STATE_STATIC && ir_step_order(g) < step && goes_forward(ctx, g, tensor))
            return true;
    return false;
}

static bool is_turned(const PassContext *ctx, const IrFunc *f) {
    if (ir_func_cluster(f) > 1 || ir_func_has(f, IR_FN_FUSE_BEHIND) || ir_func_has(f, IR_FN_RESIDENT) || !stores_result(f) ||
        !reads_once(ctx, f))
        return false;
    for (size_t i = 0; i < f->param_count; i++) {
        const IrParam *p = &f->params[i];
        IrValue *memory = p->kind == IR_PARAM_TENSOR ? param_named(f, p->name) : NULL;
        if (!memory || is_stored_to(memory) || !is_worth_it(ctx, f, memory->type)) continue;
        if (goes_forward(ctx, f, p->name) && is_read_before(ctx, f, p->name)) return true;
    }
    return false;
}

bool pass_reverse_block_order(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f; f = f->next)
        if (ctx->target->kind == TARGET_CUDA && f->level == IR_LEVEL_TILE && f->state == IR_STATE_STATIC && is_turned(ctx, f))
            ir_func_set_int(f, IR_FN_BACKWARDS, 1);
    return true;
}
