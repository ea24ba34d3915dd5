/* Takes the promises out of optimised LLVM IR that make a value poison where they are broken (nsw, nuw, exact,
 * disjoint, nneg, inbounds, samesign): the code generator gains nothing from them, and without them an instruction
 * may stand for any other of the same value. Straight-line strength reduction, which asks that of every pair of
 * integer additions and took up to four fifths of a compilation, then need not ask (ptx.c turns its guard off). */
#include "ptx_internal.h"

/* `or disjoint` is an addition that the code generator would no longer see as one. */
static void or_to_add(LLVMBuilderRef b, LLVMValueRef op) {
    LLVMPositionBuilderBefore(b, op);
    LLVMValueRef sum = LLVMBuildAdd(b, LLVMGetOperand(op, 0), LLVMGetOperand(op, 1), "");
    LLVMReplaceAllUsesWith(op, sum);
    LLVMInstructionEraseFromParent(op);
}

static void drop(LLVMBuilderRef b, LLVMValueRef op) {
    switch (LLVMGetInstructionOpcode(op)) {
    case LLVMAdd:
    case LLVMSub:
    case LLVMMul:
    case LLVMShl:
    case LLVMTrunc:
        LLVMSetNUW(op, false);
        LLVMSetNSW(op, false);
        return;
    case LLVMUDiv:
    case LLVMSDiv:
    case LLVMLShr:
    case LLVMAShr:
        LLVMSetExact(op, false);
        return;
    case LLVMZExt:
    case LLVMUIToFP:
        LLVMSetNNeg(op, false);
        return;
    case LLVMICmp:
        LLVMSetICmpSameSign(op, false);
        return;
    case LLVMGetElementPtr:
        LLVMGEPSetNoWrapFlags(op, 0);
        return;
    case LLVMOr:
        if (LLVMGetIsDisjoint(op)) or_to_add(b, op);
        return;
    default:
        return;
    }
}

void ptx_drop_promises(LLVMModuleRef module, LLVMBuilderRef b) {
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
        for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(f); block; block = LLVMGetNextBasicBlock(block))
            for (LLVMValueRef op = LLVMGetFirstInstruction(block), next; op; op = next) {
                next = LLVMGetNextInstruction(op);
                drop(b, op);
            }
}
