/* Checks of operations on buffers in shared memory, and of barriers. */
#include "verify_internal.h"

#include <string.h>

/* ---- Buffers ---- */

bool ir_check_alloc(Verifier *v, const IrOp *op) {
    NEED(v, op, op->results[0].type->kind == IR_TYPE_BUF, "gives a buffer");
    return true;
}

static bool check_stage(Verifier *v, const IrOp *op, unsigned buf) {
    IrConst stage;
    const IrType *t = op->operands[buf]->type;
    NEED(v, op, t->kind == IR_TYPE_BUF, "operand %u is no buffer", buf);
    NEED(v, op, ir_type_is_index(op->operands[buf + 1]->type), "the stage is an index");
    NEED(v, op, !ir_const_of(op->operands[buf + 1], &stage) || (stage.integer >= 0 && stage.integer < (int64_t)t->stages),
         "there is no such stage");
    return true;
}

/* A ring of barriers and one of its stages. */
static bool check_barriers(Verifier *v, const IrOp *op, unsigned buf) {
    const IrType *t = op->operands[buf]->type;
    NEED(v, op, t->kind == IR_TYPE_BUF && t->dtype == DTYPE_U64 && t->rank == 1 && ir_type_extent(t, 0) == 1,
         "operand %u is no ring of barriers", buf);
    return check_stage(v, op, buf);
}

bool ir_check_mbar_alloc(Verifier *v, const IrOp *op) {
    const IrType *t = op->results[0].type;
    NEED(v, op, t->kind == IR_TYPE_BUF && t->dtype == DTYPE_U64 && t->space == IR_SPACE_SHARED && t->rank == 1 && ir_type_extent(t, 0) == 1,
         "gives a ring of barriers, buf<S x [1] x u64, shared>");
    NEED(v, op, ir_attr_int(op, "arrivals", 0) >= 1, "a phase has an arrival at least");
    return true;
}

bool ir_check_tma_copy(Verifier *v, const IrOp *op) {
    unsigned kept = 0;
    const IrType *tensor = op->operands[0]->type, *buf = op->operands[1]->type;
    const IrAttr *extents = ir_attr(op, "extents");
    NEED(v, op, tensor->kind == IR_TYPE_TENSOR && tensor->rank <= IR_MAP_RANK, "slices a tensor of at most 5 axes");
    if (!check_stage(v, op, 1) || !check_barriers(v, op, 3) || !ir_check_slice(v, op, tensor, &kept)) return false;
    const char *axes = ir_attr_str(op, "axes", "");
    NEED(v, op, buf->rank == kept && buf->dtype == tensor->dtype, "the buffer has the slice's rank and the tensor's dtype");
    NEED(v, op, strspn(axes, "rp") == tensor->rank && axes[tensor->rank - 1] == IR_LETTER_RANGE,
         "the slice runs along the tensor's last axis");
    NEED(v, op, extents->count == kept, "extents has an entry per axis of the slice");
    for (unsigned i = 0; i < kept; i++) NEED(v, op, extents->ints[i] == ir_type_extent(buf, i), "a copy fills its stage");
    return true;
}

bool ir_check_copy(Verifier *v, const IrOp *op) {
    unsigned kept = 0;
    const IrType *tensor = op->operands[0]->type, *buf = op->operands[1]->type;
    const IrAttr *extents = ir_attr(op, "extents");
    NEED(v, op, tensor->kind == IR_TYPE_TENSOR, "slices a tensor");
    if (!check_stage(v, op, 1) || !ir_check_slice(v, op, tensor, &kept)) return false;
    NEED(v, op, buf->rank == kept && buf->dtype == tensor->dtype, "the buffer has the slice's rank and the tensor's dtype");
    NEED(v, op, op->results[0].type->kind == IR_TYPE_TOKEN, "the result is a token");
    NEED(v, op, extents->count == kept, "extents has an entry per axis of the slice");
    for (unsigned i = 0; i < kept; i++)
        NEED(v, op, extents->ints[i] >= 0 && extents->ints[i] <= ir_type_extent(buf, i), "extents are within the buffer's");
    return true;
}

static bool fits_buffer(const IrType *tile, const IrType *buf) {
    return tile->kind == IR_TYPE_TILE && tile->dtype == buf->dtype && ir_same_shape(tile, buf);
}

bool ir_check_buf_store(Verifier *v, const IrOp *op) {
    if (!check_stage(v, op, 1)) return false;
    const IrType *tile = op->operands[0]->type, *buf = op->operands[1]->type;
    NEED(v, op, tile->kind == IR_TYPE_TILE && tile->dtype == buf->dtype && tile->rank >= buf->rank,
         "tile and buffer differ in shape or dtype");
    for (unsigned i = 0; i < buf->rank; i++)
        NEED(v, op, ir_type_extent(tile, i + tile->rank - buf->rank) <= ir_type_extent(buf, i), "the tile is larger than the buffer");
    return true;
}

bool ir_check_buf_load(Verifier *v, const IrOp *op) {
    if (!check_stage(v, op, 0)) return false;
    NEED(v, op, fits_buffer(op->results[0].type, op->operands[0]->type), "tile and buffer differ in shape or dtype");
    return true;
}

/* ---- Barriers: a ring and a stage, or at kernel level a pointer and an offset ---- */

bool ir_check_mbar(Verifier *v, const IrOp *op) {
    bool whole = op->opcode == IR_MBAR_DROP && op->operand_count == 1;
    if (v->func->level == IR_LEVEL_TILE) {
        NEED(v, op, whole == (op->opcode == IR_MBAR_DROP), "names a ring of barriers");
        if (whole)
            NEED(v, op, op->operands[0]->type->kind == IR_TYPE_BUF, "operand 0 is no ring of barriers");
        else if (!check_barriers(v, op, 0))
            return false;
    } else {
        const IrType *t = op->operands[0]->type;
        NEED(v, op,
             !whole && t->kind == IR_TYPE_PTR && t->space == IR_SPACE_SHARED && t->dtype == DTYPE_U64 &&
                 ir_type_is_index(op->operands[1]->type),
             "names a barrier by a shared pointer to u64 and an offset");
    }
    bool remote = op->opcode == IR_MBAR_ARRIVE && op->operand_count == 3;
    NEED(v, op, !remote || ir_type_is_index(op->operands[2]->type), "the rank is an index");
    NEED(v, op, !remote || v->func->level == IR_LEVEL_KERNEL, "a rank is named at kernel level");
    NEED(v, op, !remote || ir_func_cluster(v->func) > 1, "the function has no clusters");
    NEED(v, op, op->opcode != IR_MBAR_WAIT || ir_type_is_index(op->operands[2]->type), "the parity is an index");
    NEED(v, op, op->opcode != IR_MBAR_INIT || ir_attr_int(op, "arrivals", 0) >= 1, "a phase has an arrival at least");
    int64_t bytes = ir_attr_int(op, "bytes", 0);
    NEED(v, op, bytes >= 0 && bytes < 1 << 20, "a phase counts less than 2^20 bytes");
    return true;
}

/* That all groups which may still be in flight are newer than the product's own: counted in the block they stand in. */
static bool check_done(Verifier *v, const IrOp *op, int64_t pending) {
    const IrOp *product = op->operands[0]->def;
    NEED(v, op, product && product->block == op->block && (ir_is_wgmma(product) || product->opcode == IR_WGMMA),
         "done is for a product of the same block");
    int64_t newer = product->opcode == IR_WGMMA ? -1 : 0; /* its own group is closed behind it */
    const IrOp *o = product->next;
    for (; o && o != op; o = o->next) newer += o->opcode == IR_WGMMA_COMMIT || ir_is_wgmma(o);
    NEED(v, op, o == op && newer >= pending, "%lld groups in flight, but %lld are newer than these accumulators", (long long)pending,
         (long long)newer);
    return true;
}

bool ir_check_wgmma_wait(Verifier *v, const IrOp *op) {
    int64_t pending = ir_attr_int(op, "pending", -1);
    const IrType *t = op->operands[0]->type;
    NEED(v, op, pending >= 0 && pending < 8, "pending is from 0 to 7");
    NEED(v, op, t == op->results[0].type && (t->kind == IR_TYPE_TILE || t->kind == IR_TYPE_FRAG),
         "gives the accumulators that it waits for");
    if (ir_attr_bool(op, "done")) return check_done(v, op, pending);
    return !pending || ir_check_in_flight(v, op);
}
