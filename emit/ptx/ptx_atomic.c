/* Updates of memory that other threads may update as well. */
#include "ptx_internal.h"

static LLVMAtomicRMWBinOp operation(IrKind kind, Dtype t) {
    if (kind == IR_KIND_ADD) return dtype_is_float(t) ? LLVMAtomicRMWBinOpFAdd : LLVMAtomicRMWBinOpAdd;
    if (kind == IR_KIND_MAX) return dtype_is_signed(t) ? LLVMAtomicRMWBinOpMax : LLVMAtomicRMWBinOpUMax;
    return dtype_is_signed(t) ? LLVMAtomicRMWBinOpMin : LLVMAtomicRMWBinOpUMin;
}

static LLVMBasicBlockRef new_block(Ptx *p) {
    return LLVMAppendBasicBlockInContext(p->context, p->function, "");
}

/* bool is a byte in memory, a bit in registers. */
static LLVMValueRef to_bits(Ptx *p, LLVMValueRef x, Dtype t, LLVMTypeRef bits) {
    return t == DTYPE_BOOL ? LLVMBuildZExt(p->b, x, bits, "") : LLVMBuildBitCast(p->b, x, bits, "");
}

static LLVMValueRef from_bits(Ptx *p, LLVMValueRef x, Dtype t) {
    if (t == DTYPE_BOOL) return LLVMBuildICmp(p->b, LLVMIntNE, x, LLVMConstNull(LLVMTypeOf(x)), "");
    return LLVMBuildBitCast(p->b, x, ptx_type(p, t), "");
}

/* The region's value is put in until nobody came between. */
static void repeated(Ptx *p, const IrOp *op, LLVMValueRef address) {
    const IrBlock *body = op->regions[0];
    Dtype t = op->operands[0]->type->dtype;
    LLVMTypeRef bits = LLVMIntTypeInContext(p->context, 8 * (unsigned)dtype_size(t));
    LLVMValueRef first = LLVMBuildLoad2(p->b, bits, address, "");
    LLVMSetAlignment(first, (unsigned)dtype_size(t));
    LLVMSetVolatile(first, true);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(p->b), loop = new_block(p), done = new_block(p);
    LLVMBuildBr(p->b, loop);
    LLVMPositionBuilderAtEnd(p->b, loop);
    LLVMValueRef seen = LLVMBuildPhi(p->b, bits, "");
    ptx_bind(p, body->args[0], from_bits(p, seen, t));
    ptx_block(p, body);
    if (p->failed) return;
    LLVMValueRef next = to_bits(p, ptx_use(p, body->last->operands[0]), t, bits);
    LLVMValueRef pair = LLVMBuildAtomicCmpXchg(p->b, address, seen, next, LLVMAtomicOrderingMonotonic, LLVMAtomicOrderingMonotonic, false);
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(p->b);
    LLVMValueRef values[2] = {first, LLVMBuildExtractValue(p->b, pair, 0, "")};
    LLVMBasicBlockRef blocks[2] = {from, latch};
    LLVMAddIncoming(seen, values, blocks, 2);
    LLVMBuildCondBr(p->b, LLVMBuildExtractValue(p->b, pair, 1, ""), done, loop);
    LLVMPositionBuilderAtEnd(p->b, done);
}

void ptx_atomic(Ptx *p, const IrOp *op) {
    const IrValue *v = op->operands[0];
    LLVMValueRef x = ptx_use(p, v), address = ptx_address(p, op->operands[1], op->operands[2]);
    LLVMBasicBlockRef join = NULL;
    if (op->operand_count > 3) {
        LLVMBasicBlockRef update = new_block(p);
        join = new_block(p);
        LLVMBuildCondBr(p->b, ptx_use(p, op->operands[3]), update, join);
        LLVMPositionBuilderAtEnd(p->b, update);
    }
    if (op->regions[0]->last)
        repeated(p, op, address);
    else
        LLVMBuildAtomicRMW(p->b, operation(ir_op_kind(op), v->type->dtype), address, x, LLVMAtomicOrderingMonotonic, false);
    if (!join || p->failed) return;
    LLVMBuildBr(p->b, join);
    LLVMPositionBuilderAtEnd(p->b, join);
}
