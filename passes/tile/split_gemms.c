/* Products along an axis, a chunk at a time, for split_passes. */
#include "analysis/sizes.h"
#include "query.h"
#include "split.h"

/* Products that code for a processor adds one after the other where a case asks for more: f32 keeps its promise for so many (docs/decisions/error-bounds.md). */
enum { CHAIN = 16384 };

/* Would code for a processor add more products in order than that? A GPU's divides them among threads. */
static bool is_long_chain(const Slice *s, const IrOp *gemm) {
    const Aff *extent = axes_class(s->axes, s->index)->extent;
    if (s->ctx->target->kind == TARGET_CUDA || gemm->results[0].type->dtype != DTYPE_F32) return false;
    bool is_long = size_most(s->ctx, gemm->block->func, extent) > CHAIN;
    OpList ops = ops_collect(s->ctx->scratch, gemm->block->func->body);
    for (size_t i = 0; i < ops.len; i++) is_long &= !scans_along(s, ops.data[i]);
    return is_long;
}

static void gemm_by_chunks(Slice *s, IrOp *op, IrValue *from, IrValue *to) {
    IrBuilder inner;
    IrOp *loop = chunks_open(s, op, from, to, 1, 2, 1, &op->operands[2], &inner);
    slice_value(s, op->operands[0]);
    slice_value(s, op->operands[1]);
    if (!s->ok) return;
    ir_value_map_set(s->map, op->operands[2], loop->regions[0]->args[1]);
    IrOp *copy = ir_op_clone(&inner, op, s->map);
    IrValue *sum = &copy->results[0];
    chunks_close(s, 1, &sum);
    ir_replace_uses(&op->results[0], &loop->results[0]);
    ir_op_erase(op);
}

/* A loop around the op: each iteration sums CHAIN products from 0 and adds them to the others'. */
static void gemm_by_chains(Slice *s, IrOp *op, IrValue *end) {
    IrBuilder b = ir_builder_before(op);
    b.span = op->span;
    IrOp *loop = ir_for(&b, ir_const_index(&b, 0), end, ir_const_index(&b, CHAIN), 1, &op->operands[2], "chain");
    IrBuilder inner = ir_builder_at_end(loop->regions[0]);
    inner.span = op->span;
    IrValue *from = loop->regions[0]->args[0];
    IrValue *to = ir_binary(&inner, IR_MIN, ir_binary(&inner, IR_ADD, from, ir_const_index(&inner, CHAIN)), end);
    IrOp *part = ir_op_clone(&inner, op, ir_value_map_create(s->ctx->scratch));
    ir_set_operand(part, 2, tile_splat(&inner, op->operands[2]->type, 0));
    IrValue *sum = ir_binary(&inner, IR_ADD, loop->regions[0]->args[1], &part->results[0]);
    ir_yield(&inner, 1, &sum);
    ir_replace_uses(&op->results[0], &loop->results[0]);
    ir_op_erase(op);
    gemm_by_chunks(s, part, from, to);
}

void pass_for_gemm(Slice *s, IrOp *op) {
    IrBuilder b = ir_builder_before(op);
    b.span = op->span;
    bool chains = is_long_chain(s, op);
    IrValue *end = ir_aff_emit(&b, axes_class(s->axes, s->index)->extent);
    if (chains)
        gemm_by_chains(s, op, end);
    else
        gemm_by_chunks(s, op, ir_const_index(&b, 0), end);
}
