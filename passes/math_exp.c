/* Functions built on e^x. */
#include "math_internal.h"

#include "math_tables.h"

#include <math.h>

/* e^r - 1 for |r| <= ln 2 / 2. */
static IrValue *grow(Math *m, IrValue *r) {
    return math_fma(m, math_mul(m, r, r), MATH_POLYNOMIAL(m, r, exp), r);
}

/* x = n ln 2 + r. With fma the first step is exact. */
static IrValue *reduce(Math *m, IrValue *x, IrValue **n) {
    IrValue *k = math_nearest(m, x, 0x1.71547652b82fep+0, n);
    IrValue *r = math_fma(m, k, math_num(m, -m->ln2_hi), x);
    return math_fma(m, k, math_num(m, -m->ln2_lo), r);
}

IrValue *math_exp_core(Math *m, IrValue *y) {
    IrValue *n, *r = reduce(m, y, &n);
    return math_scale(m, math_add(m, math_num(m, 1), grow(m, r)), n);
}

IrValue *math_exp(Math *m, IrValue *x) {
    IrValue *y = math_op(m, IR_MAX, x, math_num(m, m->wide ? -746 : -104));
    if (!math_not_positive(x)) y = math_op(m, IR_MIN, y, math_num(m, m->wide ? 710 : 89));
    return math_exp_core(m, y);
}

/* 2^r - 1 for |r| <= 1/2: the factor ln 2 in two parts. */
static IrValue *grow2(Math *m, IrValue *r) {
    IrValue *low = math_mul(m, math_mul(m, r, r), MATH_POLYNOMIAL(m, r, exp2));
    low = math_fma(m, r, math_num(m, m->ln2_lo), low);
    return math_fma(m, r, math_num(m, m->ln2_hi), low);
}

IrValue *math_exp2(Math *m, IrValue *x) {
    IrValue *n;
    x = math_clamp(m, x, m->wide ? -1076 : -151, m->wide ? 1025 : 129);
    IrValue *r = math_sub(m, x, math_nearest(m, x, 1, &n));
    return math_scale(m, math_add(m, math_num(m, 1), grow2(m, r)), n);
}

/* 2^(r + lo) = 2^r + 2^r lo ln 2 */
IrValue *math_exp2_pair(Math *m, MathPair y) {
    IrValue *n, *one = math_num(m, 1);
    IrValue *r = math_sub(m, y.hi, math_nearest(m, y.hi, 1, &n));
    IrValue *t = grow2(m, r), *low = math_mul(m, y.lo, math_num(m, m->ln2_hi));
    t = math_fma(m, math_add(m, one, t), low, t);
    return math_scale(m, math_add(m, one, t), n);
}

/* e^x - 1 for x from -20 (f64: -40) to the overflow; by half as much, as 2^n itself overflows. */
static IrValue *expm1_core(Math *m, IrValue *x) {
    IrValue *n, *r = reduce(m, x, &n), *e = grow(m, r);
    IrValue *half = math_power_of_two(m, math_sub(m, n, math_int(m, 1)));
    IrValue *rest = math_sub(m, half, math_num(m, 0.5));
    IrValue *large = math_mul(m, math_fma(m, half, e, rest), math_num(m, 2));
    return math_select(m, math_op(m, IR_EQ, n, math_int(m, 0)), e, large);
}

IrValue *math_expm1(Math *m, IrValue *x) {
    IrValue *y = math_clamp(m, x, m->wide ? -40 : -20, m->wide ? 710 : 89);
    return math_keep_zero(m, x, expm1_core(m, y));
}

/* e^|x| / 2, infinite where the hyperbolic functions are. */
static IrValue *half_exp(Math *m, IrValue *magnitude) {
    IrValue *n;
    IrValue *r = reduce(m, math_op(m, IR_MIN, magnitude, math_num(m, m->wide ? 712 : 91)), &n);
    IrValue *p = math_add(m, math_num(m, 1), grow(m, r));
    return math_scale(m, p, math_sub(m, n, math_int(m, 1)));
}

IrValue *math_sinh(Math *m, IrValue *x) {
    IrValue *a = math_abs(m, x), *h = half_exp(m, a);
    IrValue *large = math_sub(m, h, math_div(m, math_num(m, 0.25), h));
    IrValue *z = math_mul(m, a, a);
    IrValue *small = math_fma(m, math_mul(m, a, z), MATH_POLYNOMIAL(m, z, sinh), a);
    IrValue *is_small = math_lt(m, a, math_num(m, 1));
    return math_copysign(m, math_select(m, is_small, small, large), x);
}

IrValue *math_cosh(Math *m, IrValue *x) {
    IrValue *h = half_exp(m, math_abs(m, x));
    return math_add(m, h, math_div(m, math_num(m, 0.25), h));
}

IrValue *math_tanh(Math *m, IrValue *x) {
    IrValue *a = math_op(m, IR_MIN, math_abs(m, x), math_num(m, m->wide ? 20 : 10));
    IrValue *t = expm1_core(m, math_add(m, a, a));
    return math_copysign(m, math_div(m, t, math_add(m, t, math_num(m, 2))), x);
}

IrValue *math_erf(Math *m, IrValue *x) {
    IrValue *a = math_abs(m, x), *z = math_mul(m, a, a), *one = math_num(m, 1);
    IrValue *small = math_fma(m, a, MATH_POLYNOMIAL(m, z, erf), a);
    IrValue *c = math_op(m, IR_MIN, a, math_num(m, m->wide ? 6 : 4));
    IrValue *y = math_fma(m, c, c, MATH_POLYNOMIAL(m, c, erfc));
    IrValue *large = math_sub(m, one, math_exp_core(m, math_neg(m, y)));
    return math_copysign(m, math_select(m, math_lt(m, a, one), small, large), x);
}
