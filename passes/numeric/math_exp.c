/* Functions built on e^x. */
#include "math_internal.h"

#include "math_tables.h"

#include <math.h>

enum {
    UP = 64,          /* results are computed 2^64 times as large, so that none is denormal on the way (tests/math) */
    MACHINE_BITS = 22 /* of a reciprocal by the machine's instruction alone */
};

/* e^r - 1 for |r| <= ln 2 / 2. */
static IrValue *grow(Math *m, IrValue *r) {
    return math_fma(m, math_mul(m, r, r), MATH_POLYNOMIAL(m, r, exp), r);
}

/* x = n ln 2 + r. With fma the first step is exact. */
static IrValue *reduce(Math *m, IrValue *x, int bias, IrValue **n) {
    IrValue *k = math_nearest(m, x, 0x1.71547652b82fep+0, bias, n);
    IrValue *r = math_fma(m, k, math_num(m, -m->ln2_hi), x);
    return math_fma(m, k, math_num(m, -m->ln2_lo), r);
}

/* 2^-up e^r for |r| <= ln 2 / 2: the power of two stands in the coefficients. In f32 the rounding of 1 + r q(r) weighs a third. */
static IrValue *exp_reduced(Math *m, IrValue *r, int up) {
    double scaled[16];
    const double *c = m->wide ? math_exp_f64 : math_exp_f32;
    size_t n = m->wide ? COUNT_OF(math_exp_f64) : COUNT_OF(math_exp_f32);
    IrValue *one = math_num(m, ldexp(1, -up));
    for (size_t i = 0; i < n; i++) scaled[i] = ldexp(c[i], -up);
    IrValue *p = math_polynomial(m, r, scaled, n);
    if (!m->wide) return math_fma(m, r, math_fma(m, r, p, one), one);
    IrValue *linear = up ? math_mul(m, r, one) : r;
    return math_add(m, one, math_fma(m, math_mul(m, r, r), p, linear));
}

IrValue *math_by_machine(Math *m, IrOpcode opcode, IrValue *x) {
    IrValue *y = ir_unary(&m->b, opcode, x);
    ir_attr_set_bool(y->def, "machine", true);
    return y;
}

/* 2^(x factor) where few bits are asked: the remainder in one step, 2^r by a polynomial whose error is half as large as
 * `bits` allows, or less. */
static IrValue *power_polynomial(Math *m, IrValue *x, double factor, bool not_positive) {
    bool few = m->bits <= 13;
    const double *c = few ? math_power_short_f32 : math_power_long_f32;
    double scaled[8];
    size_t count = few ? COUNT_OF(math_power_short_f32) : COUNT_OF(math_power_long_f32);
    IrValue *n, *f = math_num(m, factor), *y = math_op(m, IR_MAX, x, math_num(m, factor == 1 ? -151 : -104));
    if (!not_positive) y = math_op(m, IR_MIN, y, math_num(m, factor == 1 ? 129 : 89));
    IrValue *k = math_nearest(m, y, factor, not_positive ? m->bias + UP : 2 * m->bias, &n);
    IrValue *r = factor == 1 ? math_sub(m, y, k) : math_fma(m, y, f, math_neg(m, k));
    for (size_t i = 0; i < count; i++) scaled[i] = not_positive ? ldexp(c[i], -UP) : c[i];
    IrValue *p = math_polynomial(m, r, scaled, count);
    return not_positive ? math_mul(m, p, math_power_of_two(m, n)) : math_scale(m, p, n);
}

static bool is_narrow(const Math *m) {
    return !m->wide && m->bits && m->bits <= NARROW_BITS;
}

static const IrOp *made_by(const IrValue *v, IrOpcode opcode) {
    return v->def && v->def->opcode == opcode ? v->def : NULL;
}

/* factor x + UP in one step; the offset goes into what a product is added to, as a rule a row's own number. */
static IrValue *raised(Math *m, IrValue *x, double factor) {
    IrValue *up = math_num(m, UP);
    const IrOp *fma = factor == 1 ? made_by(x, IR_FMA) : NULL, *less = fma ? made_by(fma->operands[2], IR_NEG) : NULL;
    if (!fma) return factor == 1 ? math_add(m, x, up) : math_fma(m, x, math_num(m, factor), up);
    IrValue *rest = less ? math_sub(m, up, less->operands[0]) : math_add(m, fma->operands[2], up);
    return math_fma(m, fma->operands[0], fma->operands[1], rest);
}

/* 2^(x factor) by the machine's instruction, which takes results below the normal ones for 0: where these are asked for, it makes 2^(x + 64)
 * of x not above 0, else the root. */
static IrValue *power_machine(Math *m, IrValue *x, double factor, bool not_positive) {
    if (m->flushed) return math_by_machine(m, IR_EXP2, factor == 1 ? x : math_mul(m, x, math_num(m, factor)));
    IrValue *y = not_positive ? raised(m, x, factor) : math_mul(m, x, math_num(m, factor / 2));
    IrValue *e = math_by_machine(m, IR_EXP2, y);
    return math_mul(m, e, not_positive ? math_num(m, ldexp(1, -UP)) : e);
}

static IrValue *power_narrow(Math *m, IrValue *x, double factor, bool not_positive) {
    return (m->machine ? power_machine : power_polynomial)(m, x, factor, not_positive);
}

IrValue *math_exp(Math *m, IrValue *x) {
    IrValue *n, *y;
    bool not_positive = m->not_positive || math_not_positive(x);
    if (is_narrow(m)) return power_narrow(m, x, 0x1.71547652b82fep+0, not_positive);
    y = math_op(m, IR_MAX, x, math_num(m, m->wide ? -746 : -104));
    if (not_positive) { /* 2^(n + up) 2^-up e^r: n may be below the least exponent only */
        int up = m->wide ? 2 * UP : UP;
        IrValue *r = reduce(m, y, m->bias + up, &n);
        return math_mul(m, exp_reduced(m, r, up), math_power_of_two(m, n));
    }
    y = math_op(m, IR_MIN, y, math_num(m, m->wide ? 710 : 89));
    IrValue *r = reduce(m, y, 2 * m->bias, &n);
    return math_scale(m, exp_reduced(m, r, 0), n);
}

/* 2^r - 1 for |r| <= 1/2: the factor ln 2 in two parts. */
static IrValue *grow2(Math *m, IrValue *r) {
    IrValue *low = math_mul(m, math_mul(m, r, r), MATH_POLYNOMIAL(m, r, exp2));
    low = math_fma(m, r, math_num(m, m->ln2_lo), low);
    return math_fma(m, r, math_num(m, m->ln2_hi), low);
}

IrValue *math_exp2(Math *m, IrValue *x) {
    IrValue *n;
    if (is_narrow(m)) return power_narrow(m, x, 1, m->not_positive);
    x = math_clamp(m, x, m->wide ? -1076 : -151, m->wide ? 1025 : 129);
    IrValue *r = math_sub(m, x, math_nearest(m, x, 1, 2 * m->bias, &n));
    return math_scale(m, math_add(m, math_num(m, 1), grow2(m, r)), n);
}

/* 2^(r + lo) = 2^r + 2^r lo ln 2 */
IrValue *math_exp2_pair(Math *m, MathPair y) {
    IrValue *n, *one = math_num(m, 1);
    IrValue *r = math_sub(m, y.hi, math_nearest(m, y.hi, 1, 2 * m->bias, &n));
    IrValue *t = grow2(m, r), *low = math_mul(m, y.lo, math_num(m, m->ln2_hi));
    t = math_fma(m, math_add(m, one, t), low, t);
    return math_scale(m, math_add(m, one, t), n);
}

/* e^x - 1 for x from -20 (f64: -40) to the overflow; by half as much, as 2^n itself overflows. */
static IrValue *expm1_core(Math *m, IrValue *x) {
    IrValue *n, *r = reduce(m, x, m->bias - 1, &n), *e = grow(m, r);
    IrValue *half = math_power_of_two(m, n), *point = math_num(m, 0.5);
    IrValue *rest = math_sub(m, half, point);
    IrValue *large = math_mul(m, math_fma(m, half, e, rest), math_num(m, 2));
    return math_select(m, math_op(m, IR_EQ, half, point), e, large);
}

IrValue *math_expm1(Math *m, IrValue *x) {
    IrValue *y = math_clamp(m, x, m->wide ? -40 : -20, m->wide ? 710 : 89);
    return math_keep_zero(m, x, expm1_core(m, y));
}

/* e^|x| / 2, infinite where the hyperbolic functions are. */
static IrValue *half_exp(Math *m, IrValue *magnitude) {
    IrValue *n;
    IrValue *y = math_op(m, IR_MIN, magnitude, math_num(m, m->wide ? 712 : 91));
    IrValue *r = reduce(m, y, 2 * m->bias - 1, &n);
    return math_scale(m, exp_reduced(m, r, 0), n);
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

IrValue *math_reciprocal(Math *m, IrValue *b) {
    IrValue *y = math_div(m, math_num(m, 1), b);
    if (!m->wide) ir_attr_set_bool(y->def, "reciprocal", true);
    if (is_narrow(m)) ir_attr_set_int(y->def, "bits", m->bits);
    return y;
}

IrValue *math_quotient(Math *m, IrValue *a, IrValue *b) {
    if (m->wide) return math_div(m, a, b);
    IrValue *y = math_reciprocal(m, b), *q = math_mul(m, a, y);
    if (is_narrow(m)) return q;
    return math_fma(m, math_fma(m, math_neg(m, q), b, a), y, q);
}

/* (e^2h - 1) / 2 for |h| <= ln 2 / 4: grow of 2h, the powers of two in the coefficients. */
static IrValue *grow_half(Math *m, IrValue *h) {
    double scaled[16];
    const double *c = m->wide ? math_exp_f64 : math_exp_f32;
    size_t n = m->wide ? COUNT_OF(math_exp_f64) : COUNT_OF(math_exp_f32);
    for (size_t i = 0; i < n; i++) scaled[i] = ldexp(c[i], (int)(n - i));
    return math_fma(m, math_mul(m, h, h), math_polynomial(m, h, scaled, n), h);
}

/* t = e^2a - 1 with 2a = n ln 2 + 2h. 2^n does not overflow here, and 1 e^r - 1 + (1 - 1) is exact. */
static IrValue *tanh_by_quotient(Math *m, IrValue *a) {
    a = math_op(m, IR_MIN, a, math_num(m, m->wide ? 20 : 10));
    IrValue *n, *k = math_nearest(m, a, 2 * 0x1.71547652b82fep+0, m->bias + 1, &n), *twice = math_power_of_two(m, n);
    IrValue *h = math_fma(m, k, math_num(m, -m->ln2_hi / 2), a);
    h = math_fma(m, k, math_num(m, -m->ln2_lo / 2), h);
    IrValue *rest = math_fma(m, twice, math_num(m, 0.5), math_num(m, -1));
    IrValue *t = math_fma(m, twice, grow_half(m, h), rest);
    return math_quotient(m, t, math_add(m, t, math_num(m, 2)));
}

/* In f32 by the machine's power of two and reciprocal: 1 - 2 / (1 + e^2a) from 0.8 on, where their errors weigh 0.28 and 0.34 of
 * what they are relative to; an odd polynomial below. */
static IrValue *tanh_machine(Math *m, IrValue *a) {
    IrValue *z = math_mul(m, a, a), *p = math_polynomial(m, z, math_tanh_near_f32, COUNT_OF(math_tanh_near_f32)), *one = math_num(m, 1);
    IrValue *e = math_by_machine(m, IR_EXP2, math_mul(m, a, math_num(m, 2 * 0x1.71547652b82fep+0)));
    IrValue *r = math_div(m, one, math_add(m, e, one));
    ir_attr_set_bool(r->def, "reciprocal", true);
    ir_attr_set_int(r->def, "bits", MACHINE_BITS);
    IrValue *far = math_fma(m, r, math_num(m, -2), one);
    return math_select(m, math_lt(m, a, math_num(m, 0.8)), math_fma(m, a, math_mul(m, z, p), a), far);
}

IrValue *math_tanh(Math *m, IrValue *x) {
    IrValue *a = math_abs(m, x);
    return math_copysign(m, (m->machine && !m->wide ? tanh_machine : tanh_by_quotient)(m, a), x);
}

/* e / (1 + e) or 1 / (1 + e), e from 0 to 1. */
IrValue *math_share(Math *m, IrValue *a, IrValue *b) {
    if (m->wide || !b->def || b->def->opcode != IR_ADD || !a->def || a->def->opcode != IR_SELECT) return NULL;
    IrValue *const *parts = b->def->operands, *const *ends = a->def->operands + 1;
    for (unsigned i = 0; i < 2; i++) {
        IrValue *e = parts[i];
        if (!math_from_0_to_1(e) || !math_is(parts[1 - i], 1)) continue;
        for (unsigned k = 0; k < 2; k++)
            if (ends[k] == e && math_is(ends[1 - k], 1)) return math_quotient(m, a, b);
    }
    return NULL;
}

/* In f32 by one formula: y = -log(erfc a) = a + a P(a), and 1 - e^-y = 2^k (1 - e^-r) + (1 - 2^k), y = r - k ln 2. Near 0
 * k is 0, so nothing cancels. */
static IrValue *erf_narrow(Math *m, IrValue *a) {
    a = math_op(m, IR_MIN, a, math_num(m, 4));
    IrValue *p = math_polynomial(m, a, math_erf_exponent_f32, COUNT_OF(math_erf_exponent_f32));
    IrValue *n, *y = math_fma(m, a, p, a);
    IrValue *k = math_nearest(m, y, -0x1.71547652b82fep+0, m->bias, &n);
    IrValue *r = math_fma(m, k, math_num(m, m->ln2_hi), y), *s = math_power_of_two(m, n);
    IrValue *lost = math_fma(m, a, p, math_sub(m, a, y)); /* by rounding y */
    IrValue *q = math_polynomial(m, r, math_shrink_f32, COUNT_OF(math_shrink_f32));
    IrValue *shrink = math_fma(m, math_mul(m, r, r), q, lost);
    return math_fma(m, s, math_add(m, shrink, r), math_sub(m, math_num(m, 1), s));
}

/* In f32 by the machine's power of two, whose error weighs erfc |x|: at most 0.3 ulps from 1.1 on, where the polynomial of |x| - 1,
 * an exact difference, falls beyond where it was fitted, so that infinity gives 1; an odd polynomial below. */
static IrValue *erf_machine(Math *m, IrValue *a) {
    IrValue *z = math_mul(m, a, a), *q = math_polynomial(m, z, math_erf_near_f32, COUNT_OF(math_erf_near_f32)), *one = math_num(m, 1);
    IrValue *p = math_polynomial(m, math_sub(m, a, one), math_erfc_far_f32, COUNT_OF(math_erfc_far_f32));
    IrValue *far = math_sub(m, one, math_by_machine(m, IR_EXP2, p));
    return math_select(m, math_lt(m, a, math_num(m, 1.1)), math_fma(m, a, q, a), far);
}

static IrValue *erf_wide(Math *m, IrValue *a) {
    IrValue *z = math_mul(m, a, a), *one = math_num(m, 1);
    IrValue *small = math_fma(m, a, math_polynomial(m, z, math_erf_f64, COUNT_OF(math_erf_f64)), a);
    IrValue *c = math_op(m, IR_MIN, a, math_num(m, 6));
    IrValue *y = math_fma(m, c, c, math_polynomial(m, c, math_erfc_f64, COUNT_OF(math_erfc_f64)));
    m->not_positive = true;
    IrValue *large = math_sub(m, one, math_exp(m, math_neg(m, y)));
    return math_select(m, math_lt(m, a, one), small, large);
}

/* Of |x|: 2^-p(|x|); p grows beyond where it was fitted, so that infinity gives 0. */
IrValue *math_erfc(Math *m, IrValue *x) {
    IrValue *a = math_abs(m, x), *zero = math_num(m, 0);
    IrValue *p = math_mul(m, a, math_polynomial(m, a, math_erfc_short_f32, COUNT_OF(math_erfc_short_f32)));
    m->bits = 0; /* they are spent */
    IrValue *e = m->machine ? math_by_machine(m, IR_EXP2, p) : math_exp2(m, p);
    return math_select(m, math_lt(m, x, zero), math_sub(m, math_num(m, 2), e), e);
}

IrValue *math_erf(Math *m, IrValue *x) {
    IrValue *a = math_abs(m, x);
    return math_copysign(m, (m->wide ? erf_wide : m->machine ? erf_machine : erf_narrow)(m, a), x);
}
