/* The builder's short forms. Index arithmetic and scalar selects fold as they are built. */
#include "ir.h"

#include <math.h>
#include <stdlib.h>

#include "ir_internal.h"

static IrValue *create_one(IrBuilder *b, IrOpcode opcode, unsigned count, IrValue *const *operands, const IrType *type) {
    return ir_result(ir_op_create(b, opcode, count, operands, 1, type ? &type : NULL), 0);
}

/* ---- Constants ---- */

IrValue *ir_const_emit(IrBuilder *b, const IrType *type, IrConst c) {
    IrValue *v = create_one(b, IR_CONST, 0, NULL, type);
    if (c.is_float)
        ir_attr_set_float(v->def, "value", c.number);
    else
        ir_attr_set_int(v->def, "value", c.integer);
    return v;
}

IrValue *ir_const_index(IrBuilder *b, int64_t value) {
    return ir_const_emit(b, ir_type_index(b->module), (IrConst){.integer = value});
}

IrValue *ir_const_int(IrBuilder *b, const IrType *type, int64_t value) {
    if (dtype_is_float(type->dtype)) return ir_const_float(b, type, (double)value);
    return ir_const_emit(b, type, (IrConst){.integer = ir_wrap_int(type->dtype, value)});
}

IrValue *ir_const_float(IrBuilder *b, const IrType *type, double value) {
    double rounded = dtype_round(type->dtype, value);
    if (dtype_is_float(type->dtype)) return ir_const_emit(b, type, (IrConst){.is_float = true, .number = rounded});
    char memory[8] = {0};
    dtype_write(type->dtype, memory, value);
    return ir_const_int(b, type, dtype_read_int(type->dtype, memory));
}

/* ---- Arithmetic ---- */

static IrValue *fold_index(IrBuilder *b, IrOpcode opcode, unsigned count, IrValue *const *operands) {
    IrConst in[3] = {0}, out;
    unsigned constants = 0;
    for (unsigned i = 0; i < count; i++) constants += ir_const_of(operands[i], &in[i]);
    const IrType *type = NULL;
    if (!ir_infer(b->module, opcode, count, operands, 1, &type)) return NULL;
    if (constants == count && ir_fold(opcode, type, operands[0]->type, count, in, &out)) return ir_const_emit(b, type, out);
    IrValue *existing = NULL;
    if (count == 2 && ir_fold_identity(opcode, operands[0], operands[1], type, &existing, &out))
        return existing ? existing : ir_const_emit(b, type, out);
    return NULL;
}

IrValue *ir_special(IrBuilder *b, IrSpecial special) {
    const IrType *index = ir_type_index(b->module);
    IrOp *op = ir_op_create(b, IR_SPECIAL, 0, NULL, 1, &index);
    ir_set_special(op, special);
    return ir_result(op, 0);
}

IrValue *ir_unary(IrBuilder *b, IrOpcode opcode, IrValue *a) {
    IrValue *folded = ir_type_is_index(a->type) ? fold_index(b, opcode, 1, &a) : NULL;
    return folded ? folded : create_one(b, opcode, 1, &a, NULL);
}

IrValue *ir_binary(IrBuilder *b, IrOpcode opcode, IrValue *x, IrValue *y) {
    IrValue *operands[] = {x, y};
    IrValue *folded = NULL;
    if (ir_type_is_index(x->type) || ir_type_is_bool(x->type)) folded = fold_index(b, opcode, 2, operands);
    return folded ? folded : create_one(b, opcode, 2, operands, NULL);
}

IrValue *ir_select(IrBuilder *b, IrValue *cond, IrValue *x, IrValue *y) {
    IrConst c;
    if (x->type == y->type) {
        if (ir_type_is_bool(cond->type) && ir_const_of(cond, &c)) return c.integer ? x : y;
        if (x == y && (!ir_type_is_shaped(cond->type) || ir_type_is_shaped(x->type))) return x;
    }
    return create_one(b, IR_SELECT, 3, (IrValue *[]){cond, x, y}, NULL);
}

/* `to` a scalar beside a shaped x gives the dtype only. */
IrValue *ir_cast(IrBuilder *b, IrValue *x, const IrType *to) {
    if (ir_type_is_shaped(x->type) && ir_type_is_scalar(to)) to = ir_type_with_dtype(b->module, x->type, to->dtype);
    if (x->type == to) return x;
    return create_one(b, IR_CAST, 1, &x, to);
}

/* ---- Structure ---- */

IrOp *ir_for(IrBuilder *b, IrValue *lb, IrValue *ub, IrValue *step, unsigned carried, IrValue *const *inits, const char *name) {
    IrModule *m = b->module;
    IrValue **operands = ARENA_ARRAY(m->arena, IrValue *, carried + 3);
    const IrType **types = ARENA_ARRAY(m->arena, const IrType *, carried);
    operands[0] = lb;
    operands[1] = ub;
    operands[2] = step;
    for (unsigned i = 0; i < carried; i++) {
        operands[i + 3] = inits[i];
        types[i] = inits[i]->type;
    }
    IrOp *op = ir_op_create(b, IR_FOR, carried + 3, operands, carried, types);
    ir_region_add_arg(op->regions[0], ir_type_index(m), name);
    for (unsigned i = 0; i < carried; i++) ir_region_add_arg(op->regions[0], types[i], inits[i]->name);
    return op;
}

IrOp *ir_map(IrBuilder *b, unsigned rank, const int64_t *extents, unsigned result_count, const IrType *const *result_types) {
    IrOp *op = ir_op_create(b, IR_MAP, 0, NULL, result_count, result_types);
    ir_attr_set_ints(op, "extents", rank, extents);
    for (unsigned i = 0; i < rank; i++) ir_region_add_arg(op->regions[0], ir_type_index(b->module), NULL);
    return op;
}

void ir_yield(IrBuilder *b, unsigned count, IrValue *const *values) {
    ir_op_create(b, IR_YIELD, count, values, 0, NULL);
}
