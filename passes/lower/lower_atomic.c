/* Stores of mode add, max, min: updates that may meet others of the same element. */
#include "lower_internal.h"

/* Does one instruction (on a CPU: one builtin of the compiler) do `kind` at this dtype? f32 and f64
 * addition rounds as the language says; on a GPU f32 flushes denormals to zero. */
static bool has_instruction(const Lower *x, IrKind kind, Dtype t) {
    bool is_add = kind == IR_KIND_ADD, is_int = dtype_is_int(t);
    if (!x->gpu) return is_add && is_int;
    if (is_int) return dtype_size(t) >= 4;
    return is_add && (t == DTYPE_F64 || t == DTYPE_F32 || t == DTYPE_F16);
}

static IrOpcode update_opcode(IrKind kind, Dtype t) {
    if (kind == IR_KIND_MAX) return t == DTYPE_BOOL ? IR_OR : IR_MAX;
    if (kind == IR_KIND_MIN) return t == DTYPE_BOOL ? IR_AND : IR_MIN;
    return IR_ADD;
}

/* The new element from the old one; narrow floats in f32, rounded once. */
static void fill_region(Lower *x, IrOp *atomic, IrKind kind, IrValue *value) {
    const IrType *t = value->type, *wide = t;
    IrBlock *region = atomic->regions[0];
    IrBuilder b = ir_builder_at_end(region);
    b.span = atomic->span;
    if (dtype_is_float(t->dtype) && dtype_size(t->dtype) < 4) wide = ir_type_scalar(x->module, DTYPE_F32);
    IrValue *old = ir_cast(&b, ir_region_add_arg(region, t, "old"), wide);
    IrValue *now = ir_binary(&b, update_opcode(kind, t->dtype), old, ir_cast(&b, value, wide));
    now = ir_cast(&b, now, t);
    ir_yield(&b, 1, &now);
}

/* With --deterministic no other thread is at this element (the front end and lower_order see to
 * it): a load, an addition and a store. */
static void update_in_order(Lower *x, IrBuilder *b, IrKind kind, unsigned operand_count, IrValue *const *operands) {
    const IrType *t = operands[0]->type, *wide = t;
    if (dtype_size(t->dtype) < 4) wide = ir_type_scalar(x->module, DTYPE_F32);
    IrValue *from[4] = {operands[1], operands[2], operand_count > 3 ? operands[3] : NULL, NULL};
    if (from[2]) from[3] = ir_const_float(b, t, 0);
    IrOp *load = ir_op_create(b, IR_MEM_LOAD, from[2] ? 4 : 2, from, 1, &t);
    IrValue *old = ir_cast(b, ir_result(load, 0), wide), *value = ir_cast(b, operands[0], wide);
    IrValue *to[4] = {ir_cast(b, ir_binary(b, update_opcode(kind, t->dtype), old, value), t), operands[1], operands[2], from[2]};
    ir_op_create(b, IR_MEM_STORE, operand_count, to, 0, NULL);
}

void lower_update(Lower *x, IrBuilder *b, IrKind kind, unsigned operand_count, IrValue *const *operands) {
    if (x->ctx->deterministic && dtype_is_float(operands[0]->type->dtype) && kind == IR_KIND_ADD) {
        update_in_order(x, b, kind, operand_count, operands);
        return;
    }
    IrOp *op = ir_op_create(b, IR_MEM_ATOMIC, operand_count, operands, 0, NULL);
    ir_set_kind(op, kind);
    if (!has_instruction(x, kind, operands[0]->type->dtype)) fill_region(x, op, kind, operands[0]);
}
