/* Result types by type rule, and by operands for ops whose types follow from them. */
#include <string.h>

#include "analyzer.h"
#include "ir_internal.h"

static const IrType *first_shaped(unsigned count, IrValue *const *operands) {
    for (unsigned i = 0; i < count; i++)
        if (ir_type_is_shaped(operands[i]->type)) return operands[i]->type;
    return NULL;
}

static const IrType *infer_elementwise(IrModule *m, const char *rule, unsigned count, IrValue *const *operands) {
    const IrType *shape = first_shaped(count, operands);
    if (strcmp(rule, "same") == 0) return shape ? shape : operands[0]->type;
    if (strcmp(rule, "compare") == 0) return shape ? ir_type_with_dtype(m, shape, DTYPE_BOOL) : ir_type_scalar(m, DTYPE_BOOL);
    if (strcmp(rule, "select") == 0 && count == 3) {
        if (!shape) return operands[1]->type;
        return ir_type_with_dtype(m, shape, operands[1]->type->dtype);
    }
    return NULL;
}

/* Ops of rule "given" with one result whose type follows from the operands. */
static const IrType *infer_one(IrModule *m, IrOpcode opcode, unsigned count, IrValue *const *operands) {
    ANALYZER_ASSUME(!count || operands[0]->type);
    switch (opcode) {
    case IR_TILE_GEMM:
        return operands[2]->type;
    case IR_BUF_GEMM:
        return operands[4]->type;
    case IR_TILE_COUNT:
    case IR_SPECIAL:
        return ir_type_index(m);
    case IR_BUF_COPY:
    case IR_TMA_COPY:
        return ir_type_token(m);
    case IR_WGMMA:
        return count == 5 ? operands[4]->type : NULL;
    case IR_FRAG_GET:
    case IR_MEM_LOAD:
    case IR_EXTRACT:
    case IR_GRAPH_ELEMENT:
        return ir_type_scalar(m, operands[0]->type->dtype);
    case IR_TILE_SCALAR:
        return ir_type_scalar(m, operands[0]->type->dtype);
    case IR_GRAPH_SCAN:
    case IR_TILE_SCAN:
    case IR_GRAPH_FLIP:
    case IR_TILE_FLIP:
    case IR_TILE_INSERT:
    case IR_WGMMA_WAIT:
    case IR_SHUFFLE_XOR:
        return operands[0]->type;
    case IR_PACK:
        return ir_type_vec(m, operands[0]->type->dtype, count);
    default:
        return NULL;
    }
}

bool ir_infer(IrModule *m, IrOpcode opcode, unsigned operand_count, IrValue *const *operands, unsigned result_count, const IrType **types) {
    if (opcode == IR_FOR) {
        if (operand_count != result_count + 3) return false;
        for (unsigned i = 0; i < result_count; i++) types[i] = operands[i + 3]->type;
        return true;
    }
    if (opcode == IR_TILE_SORT || opcode == IR_GRAPH_SORT) {
        if (operand_count != 1 || result_count != 2) return false;
        types[0] = operands[0]->type;
        types[1] = ir_type_with_dtype(m, types[0], DTYPE_I64);
        return true;
    }
    if (result_count != 1) return false;
    types[0] = NULL;
    if (operand_count) types[0] = infer_elementwise(m, ir_op_info(opcode)->type_rule, operand_count, operands);
    if (!types[0]) types[0] = infer_one(m, opcode, operand_count, operands);
    return types[0] != NULL;
}
