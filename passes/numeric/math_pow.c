/* Functions of two operands. */
#include "math_internal.h"

#include <math.h>

/* log2 |a| in f64, with infinities at its ends. */
static MathPair exponent_of(Math *m, IrValue *magnitude) {
    MathPair l = math_log2_pair(m, magnitude);
    IrValue *zero = math_num(m, 0), *inf = math_num(m, INFINITY);
    l.hi = math_select(m, math_lt(m, magnitude, inf), l.hi, magnitude); /* NaN too */
    IrValue *is_zero = math_op(m, IR_EQ, magnitude, zero);
    l.hi = math_select(m, is_zero, math_num(m, -INFINITY), l.hi);
    return l;
}

/* |a|^b in f64 for a >= 0 or NaN: 2^(b log2 a), the exponent in two parts. */
static IrValue *magnitude_power(Math *m, IrValue *a, IrValue *b) {
    MathPair l = exponent_of(m, a), y = math_product(m, b, l.hi);
    IrValue *zero = math_num(m, 0), *limit = math_num(m, 1100);
    y.lo = math_fma(m, b, l.lo, y.lo);
    y.lo = math_select(m, math_lt(m, math_abs(m, y.hi), limit), y.lo, zero);
    y.hi = math_clamp(m, y.hi, -1100, 1100);
    IrValue *is_one = math_op(m, IR_EQ, a, math_num(m, 1)); /* also to an infinite power */
    y.hi = math_select(m, is_one, zero, y.hi);
    y.lo = math_select(m, is_one, zero, y.lo);
    return math_exp2_pair(m, y);
}

static IrValue *is_whole(Math *m, IrValue *x) {
    return math_op(m, IR_EQ, ir_unary(&m->b, IR_RINT, x), x);
}

/* In f64 for f32 too: its result is then rounded once. */
IrValue *math_pow(Math *m, IrValue *a, IrValue *b) {
    Math w = math_as(m, DTYPE_F64);
    IrValue *x = m->wide ? a : ir_cast(&m->b, a, w.f), *y = m->wide ? b : ir_cast(&m->b, b, w.f);
    IrValue *zero = math_num(&w, 0), *one = math_num(&w, 1), *size = math_abs(&w, x);
    IrValue *result = magnitude_power(&w, size, y);
    IrValue *whole = is_whole(&w, y), *half = math_mul(&w, y, math_num(&w, 0.5));
    IrValue *not_even = ir_unary(&w.b, IR_NOT, is_whole(&w, half));
    IrValue *odd = math_op(&w, IR_AND, whole, not_even);
    result = math_select(&w, odd, math_copysign(&w, result, x), result);
    IrValue *negative = math_op(&w, IR_AND, math_lt(&w, x, zero), math_lt(&w, size, math_num(&w, INFINITY)));
    IrValue *undefined = math_op(&w, IR_AND, negative, ir_unary(&w.b, IR_NOT, whole));
    result = math_select(&w, undefined, math_num(&w, NAN), result);
    /* NaN to the power 0, and 1 to any power, are 1. */
    result = math_select(&w, math_op(&w, IR_EQ, y, y), result, y);
    IrValue *is_one = math_op(&w, IR_OR, math_op(&w, IR_EQ, y, zero), math_op(&w, IR_EQ, x, one));
    result = math_select(&w, is_one, one, result);
    m->b = w.b;
    return m->wide ? result : ir_cast(&m->b, result, m->f);
}

/* The floor of the rounded quotient is at most one too large; then the remainder shows it by its
 * sign. */
static IrValue *divide(Math *m, IrValue *a, IrValue *b, IrValue **remainder) {
    IrValue *zero = math_num(m, 0), *q = ir_unary(&m->b, IR_FLOOR, math_div(m, a, b));
    IrValue *r = math_fma(m, math_neg(m, q), b, a);
    r = math_select(m, math_op(m, IR_EQ, q, zero), a, r); /* b may be infinite */
    IrValue *below = math_op(m, IR_AND, math_lt(m, r, zero), math_lt(m, zero, b));
    IrValue *above = math_op(m, IR_AND, math_lt(m, zero, r), math_lt(m, b, zero));
    IrValue *over = math_op(m, IR_OR, below, above);
    *remainder = math_select(m, over, math_add(m, r, b), r);
    return math_select(m, over, math_sub(m, q, math_num(m, 1)), q);
}

IrValue *math_floordiv(Math *m, IrValue *a, IrValue *b) {
    IrValue *remainder;
    return divide(m, a, b, &remainder);
}

IrValue *math_mod(Math *m, IrValue *a, IrValue *b) {
    IrValue *remainder;
    divide(m, a, b, &remainder);
    return remainder;
}
