#include "math_internal.h"

#include <math.h>

const IrType *math_type(const Math *m, Dtype dtype) {
    return ir_type_vec(m->module, dtype, m->width);
}

static void set_format(Math *m, Dtype dtype) {
    m->wide = dtype == DTYPE_F64;
    m->f = math_type(m, dtype);
    m->i = math_type(m, m->wide ? DTYPE_I64 : DTYPE_I32);
    m->mantissa = m->wide ? 52 : 23;
    m->bias = m->wide ? 1023 : 127;
    m->ln2_hi = dtype_round(dtype, 0x1.62e42fefa39efp-1);
    m->ln2_lo = m->wide ? 0x1.abc9e3b39803fp-56 : 0x1.62e42fefa39efp-1 - m->ln2_hi;
    m->log2e_hi = dtype_round(dtype, 0x1.71547652b82fep+0);
    m->log2e_lo = m->wide ? 0x1.777d0ffda0d24p-56 : 0x1.71547652b82fep+0 - m->log2e_hi;
}

Math math_begin(IrModule *module, IrOp *before, Dtype dtype, unsigned width) {
    Math m = {.module = module, .b = ir_builder_before(before), .width = width};
    m.b.span = before->span;
    set_format(&m, dtype);
    return m;
}

Math math_as(const Math *m, Dtype dtype) {
    Math other = *m;
    set_format(&other, dtype);
    return other;
}

IrValue *math_num(Math *m, double value) {
    IrOp *op = ir_op_create(&m->b, IR_CONST, 0, NULL, 1, &m->f);
    ir_attr_set_float(op, "value", m->wide ? value : (double)(float)value);
    return ir_result(op, 0);
}

IrValue *math_int(Math *m, int64_t value) {
    IrOp *op = ir_op_create(&m->b, IR_CONST, 0, NULL, 1, &m->i);
    ir_attr_set_int(op, "value", value);
    return ir_result(op, 0);
}

IrValue *math_op(Math *m, IrOpcode opcode, IrValue *a, IrValue *b) {
    return ir_binary(&m->b, opcode, a, b);
}

IrValue *math_add(Math *m, IrValue *a, IrValue *b) {
    return math_op(m, IR_ADD, a, b);
}

IrValue *math_sub(Math *m, IrValue *a, IrValue *b) {
    return math_op(m, IR_SUB, a, b);
}

IrValue *math_mul(Math *m, IrValue *a, IrValue *b) {
    return math_op(m, IR_MUL, a, b);
}

IrValue *math_div(Math *m, IrValue *a, IrValue *b) {
    return math_op(m, IR_DIV, a, b);
}

IrValue *math_fma(Math *m, IrValue *a, IrValue *b, IrValue *c) {
    IrValue *operands[3] = {a, b, c};
    return ir_result(ir_op_create(&m->b, IR_FMA, 3, operands, 1, &a->type), 0);
}

IrValue *math_neg(Math *m, IrValue *a) {
    return ir_unary(&m->b, IR_NEG, a);
}

IrValue *math_abs(Math *m, IrValue *a) {
    return ir_unary(&m->b, IR_ABS, a);
}

IrValue *math_lt(Math *m, IrValue *a, IrValue *b) {
    return math_op(m, IR_LT, a, b);
}

IrValue *math_select(Math *m, IrValue *c, IrValue *a, IrValue *b) {
    return ir_select(&m->b, c, a, b);
}

static IrValue *bitcast(Math *m, IrValue *a, const IrType *type) {
    return ir_result(ir_op_create(&m->b, IR_BITCAST, 1, &a, 1, &type), 0);
}

IrValue *math_bits(Math *m, IrValue *a) {
    return bitcast(m, a, m->i);
}

IrValue *math_float(Math *m, IrValue *a) {
    return bitcast(m, a, m->f);
}

IrValue *math_clamp(Math *m, IrValue *x, double low, double high) {
    x = math_op(m, IR_MAX, x, math_num(m, low));
    return math_op(m, IR_MIN, x, math_num(m, high));
}

IrValue *math_polynomial(Math *m, IrValue *x, const double *c, size_t n) {
    IrValue *sum = math_num(m, c[0]);
    for (size_t k = 1; k < n; k++) sum = math_fma(m, sum, x, math_num(m, c[k]));
    return sum;
}

IrValue *math_power_of_two(Math *m, IrValue *n) {
    return math_float(m, math_op(m, IR_SHL, n, math_int(m, m->mantissa)));
}

/* The first product is exact, the second rounds. n = h + (n - h), each with a bias of its own. */
IrValue *math_scale(Math *m, IrValue *p, IrValue *n) {
    IrValue *half = math_op(m, IR_SHR, n, math_int(m, 1));
    p = math_mul(m, p, math_power_of_two(m, half));
    return math_mul(m, p, math_power_of_two(m, math_sub(m, n, half)));
}

/* Adding 1.5 * 2^mantissa leaves the integer in the lowest bits; what stands above them, a shift
 * to the exponent's place drops. */
IrValue *math_nearest(Math *m, IrValue *x, double factor, int bias, IrValue **n) {
    IrValue *magic = math_num(m, ldexp(1.5, m->mantissa) + bias);
    IrValue *shifted = factor == 1 ? math_add(m, x, magic) : math_fma(m, x, math_num(m, factor), magic);
    *n = math_bits(m, shifted);
    return math_sub(m, shifted, magic);
}

bool math_not_positive(const IrValue *x) {
    if (!x->def || x->def->opcode != IR_NEG) return false;
    const IrOp *inner = x->def->operands[0]->def;
    return inner && inner->opcode == IR_ABS;
}

bool math_is(const IrValue *x, double value) {
    const IrAttr *a = x->def && x->def->opcode == IR_CONST ? ir_attr(x->def, "value") : NULL;
    return a && (a->kind == IR_ATTR_FLOAT ? a->number : (double)a->integer) == value;
}

bool math_from_0_to_1(const IrValue *x) {
    if (!x->def || x->def->opcode != IR_EXP) return false;
    return ir_attr_bool(x->def, "not_positive") || math_not_positive(x->def->operands[0]);
}

IrValue *math_copysign(Math *m, IrValue *magnitude, IrValue *sign) {
    IrValue *mask = math_int(m, m->wide ? INT64_MIN : INT32_MIN);
    IrValue *bit = math_op(m, IR_AND, math_bits(m, sign), mask);
    return math_float(m, math_op(m, IR_OR, math_bits(m, magnitude), bit));
}

IrValue *math_keep_zero(Math *m, IrValue *x, IrValue *result) {
    return math_select(m, math_op(m, IR_EQ, x, math_num(m, 0)), x, result);
}

MathPair math_product(Math *m, IrValue *a, IrValue *b) {
    IrValue *hi = math_mul(m, a, b);
    return (MathPair){hi, math_fma(m, a, b, math_neg(m, hi))};
}

MathPair math_sum(Math *m, IrValue *large, IrValue *small) {
    IrValue *hi = math_add(m, large, small);
    return (MathPair){hi, math_add(m, math_sub(m, large, hi), small)};
}
