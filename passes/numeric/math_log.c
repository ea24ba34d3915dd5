/* Logarithms, by x = 2^n (1 + f) with 1 + f from sqrt(1/2) to sqrt(2), or from 3/4 to 3/2. */
#include "math_internal.h"

#include "math_tables.h"

#include <math.h>

enum { THREE_QUARTERS = 0x3F400000 }; /* in f32 */

typedef struct {
    IrValue *f, *n; /* n as an integer, or times 2^mantissa */
} Parts;

static int64_t root_of_half(const Math *m) {
    return m->wide ? 0x3FE6A09E667F3BCD : 0x3F3504F3;
}

/* x > 0, 1 + f from `root` on, times 2^n; n in place, times 2^mantissa, from 3/4 on. */
static Parts split_normal(Math *m, IrValue *x, int64_t root) {
    IrValue *bits = math_bits(m, x), *shift = math_int(m, m->mantissa), *up, *n = math_sub(m, bits, math_int(m, root));
    if (root == THREE_QUARTERS) {
        n = up = math_op(m, IR_AND, n, math_int(m, -(1 << m->mantissa)));
    } else {
        n = math_op(m, IR_SHR, n, shift);
        up = math_op(m, IR_SHL, n, shift);
    }
    return (Parts){math_sub(m, math_float(m, math_sub(m, bits, up)), math_num(m, 1)), n};
}

/* The same; denormals, where there may be any, are scaled into the normal range first. */
static Parts split(Math *m, IrValue *x, int64_t root, MathRange range) {
    double least = m->wide ? 0x1p-1022 : 0x1p-126;
    if (range.lo >= least) return split_normal(m, x, root);
    int64_t base = root == THREE_QUARTERS ? -m->mantissa * (1LL << m->mantissa) : -m->mantissa;
    IrValue *tiny = math_lt(m, x, math_num(m, least));
    Parts p = split_normal(m, math_select(m, tiny, math_mul(m, x, math_num(m, ldexp(1, m->mantissa))), x), root);
    p.n = math_add(m, p.n, math_select(m, tiny, math_int(m, base), math_int(m, 0)));
    return p;
}

/* log(1 + f) = f - square + odd, square = f^2 / 2. */
static void log_terms(Math *m, IrValue *f, IrValue **square, IrValue **odd) {
    IrValue *s = math_div(m, f, math_add(m, math_num(m, 2), f)), *z = math_mul(m, s, s);
    IrValue *r = math_mul(m, z, MATH_POLYNOMIAL(m, z, log));
    *square = math_mul(m, math_mul(m, f, math_num(m, 0.5)), f);
    *odd = math_mul(m, s, math_add(m, *square, r));
}

/* n ln 2 + log(1 + f) + rest */
static IrValue *log_sum(Math *m, IrValue *f, IrValue *n, IrValue *rest) {
    IrValue *square, *odd;
    log_terms(m, f, &square, &odd);
    IrValue *k = ir_cast(&m->b, n, m->f);
    IrValue *low = math_num(m, m->ln2_lo);
    low = rest ? math_fma(m, k, low, rest) : math_mul(m, k, low);
    IrValue *y = math_sub(m, f, math_sub(m, square, math_add(m, odd, low)));
    return math_fma(m, k, math_num(m, m->ln2_hi), y);
}

/* inf and NaN stay; at the pole -inf, below it NaN, where x may be there. */
static IrValue *log_edges(Math *m, IrValue *x, IrValue *result, double pole, MathRange range) {
    IrValue *at = math_num(m, pole);
    result = math_select(m, math_lt(m, x, math_num(m, INFINITY)), result, x);
    if (range.lo <= pole) result = math_select(m, math_op(m, IR_EQ, x, at), math_num(m, -INFINITY), result);
    return range.lo >= pole ? result : math_select(m, math_lt(m, x, at), math_num(m, NAN), result);
}

/* (log(1 + f) - f) / f^2 in f32, f from -1/4 to 1/2. */
static IrValue *log_curve(Math *m, IrValue *f) {
    IrValue *p = math_polynomial(m, f, math_log_series_f32, COUNT_OF(math_log_series_f32));
    return math_fma(m, f, p, math_num(m, -0.5));
}

/* n ln 2 + log(1 + f) in f32 without a division, f from -1/4 to 1/2: f - f^2 / 2 + f^3 p(f). n stands in an exponent's place. */
static IrValue *log_series(Math *m, IrValue *f, IrValue *n) {
    IrValue *k = ir_cast(&m->b, n, m->f), *square = math_mul(m, f, f), *p = log_curve(m, f);
    double unit = ldexp(1, -m->mantissa);
    IrValue *y = math_fma(m, square, p, math_mul(m, k, math_num(m, m->ln2_lo * unit)));
    return math_fma(m, k, math_num(m, m->ln2_hi * unit), math_add(m, f, y));
}

IrValue *math_log(Math *m, IrValue *x) {
    MathRange range = math_range(x);
    Parts p = split(m, x, m->wide ? root_of_half(m) : THREE_QUARTERS, range);
    IrValue *y = m->wide ? log_sum(m, p.f, p.n, NULL) : log_series(m, p.f, p.n);
    return log_edges(m, x, y, 0, range);
}

/* x > 0 in the normal range, and the power of two that brought it there. */
typedef struct {
    IrValue *bits, *scale, *log2; /* log2: by the machine, infinite or NaN where the logarithm is */
} Normal;

static Normal normal(Math *m, IrValue *x) {
    IrValue *tiny = math_lt(m, x, math_num(m, 0x1p-126));
    IrValue *scale = math_select(m, tiny, math_num(m, 0x1p23), math_num(m, 1)), *y = math_mul(m, x, scale);
    return (Normal){math_bits(m, y), math_bits(m, scale), math_by_machine(m, IR_LOG2, y)};
}

/* In f32 by the machine: 2^k b is within a factor of 3/2 of a, a over it is (1 + s) / (1 - s). The bits of
 * a float are nearly its logarithm, which gives k; that of the machine only tells where a or b is not a positive number. */
static IrValue *log_ratio(Math *m, IrValue *a, IrValue *b) {
    Normal p = normal(m, a), q = normal(m, b);
    IrValue *nearest = math_int(m, 1 << (m->mantissa - 1)), *exponent = math_int(m, -(1 << m->mantissa));
    IrValue *apart = math_op(m, IR_AND, math_add(m, math_sub(m, p.bits, q.bits), nearest), exponent);
    IrValue *k = ir_cast(&m->b, apart, m->f); /* of both sums at once 32 bits are too few */
    k = math_add(m, k, ir_cast(&m->b, math_sub(m, q.scale, p.scale), m->f));
    IrValue *one = math_op(m, IR_AND, p.bits, math_int(m, (1 << m->mantissa) - 1)); /* a without its exponent */
    one = math_op(m, IR_OR, one, math_int(m, (int64_t)m->bias << m->mantissa));
    IrValue *other = math_add(m, q.bits, math_add(m, apart, math_sub(m, one, p.bits)));
    IrValue *x = math_float(m, one), *y = math_float(m, other);
    IrValue *top = math_sub(m, x, y), *bottom = math_add(m, x, y); /* the difference is exact */
    m->bits = NARROW_BITS;
    IrValue *r = math_reciprocal(m, bottom);
    m->bits = 0;
    IrValue *s = math_mul(m, top, r), *rest = math_mul(m, math_fma(m, math_neg(m, s), bottom, top), r);
    IrValue *z = math_mul(m, s, s), *poly = math_polynomial(m, z, math_log_ratio_f32, COUNT_OF(math_log_ratio_f32));
    double unit = ldexp(1, -m->mantissa);
    IrValue *low = math_fma(m, math_mul(m, s, z), poly, math_mul(m, k, math_num(m, m->ln2_lo * unit)));
    low = math_fma(m, s, math_num(m, 2), math_fma(m, rest, math_num(m, 2), low));
    IrValue *result = math_fma(m, k, math_num(m, m->ln2_hi * unit), low), *edge = math_sub(m, p.log2, q.log2);
    return math_select(m, math_lt(m, math_abs(m, edge), math_num(m, INFINITY)), result, edge);
}

IrValue *math_log_ratio(Math *m, IrValue *a, IrValue *b) {
    return m->machine && !m->wide ? log_ratio(m, a, b) : math_sub(m, math_log(m, a), math_log(m, b));
}

/* f = 2^-n x + (2^-n - 1), exactly, as 3/4 <= 2^-n (1 + x) < 3/2. 2^-n as a float needs n < 127, so
 * a large x is scaled by its exponent. */
static Parts split_after_one(Math *m, IrValue *x) {
    IrValue *one = math_num(m, 1);
    IrValue *n = math_sub(m, math_bits(m, math_add(m, one, x)), math_int(m, THREE_QUARTERS));
    IrValue *up = math_op(m, IR_AND, n, math_int(m, -(1 << m->mantissa)));
    IrValue *four = math_float(m, math_sub(m, math_bits(m, math_num(m, 4)), up));
    IrValue *rest = math_fma(m, math_num(m, 0.25), four, math_num(m, -1));
    IrValue *scaled = math_float(m, math_sub(m, math_bits(m, x), up));
    return (Parts){math_add(m, scaled, rest), up};
}

/* x from 0 to 1, or NaN: from 1/2 on half of 1 + x is 1 + f. The second part of ln 2 weighs 0.07 ulps. */
static IrValue *log1p_small(Math *m, IrValue *x) {
    IrValue *half = math_num(m, 0.5), *below = math_lt(m, x, half);
    IrValue *f = math_select(m, below, x, math_fma(m, x, half, math_num(m, -0.5)));
    IrValue *k = math_select(m, below, math_num(m, 0), math_num(m, m->ln2_hi));
    return math_add(m, math_fma(m, math_mul(m, f, f), log_curve(m, f), f), k);
}

static IrValue *log1p_narrow(Math *m, IrValue *x) {
    if (math_from_0_to_1(x)) return log1p_small(m, x);
    MathRange range = math_range(x);
    Parts p = split_after_one(m, x);
    return math_keep_zero(m, x, log_edges(m, x, log_series(m, p.f, p.n), -1, range));
}

IrValue *math_log1p(Math *m, IrValue *x) {
    if (!m->wide) return log1p_narrow(m, x);
    MathRange range = math_range(x);
    IrValue *one = math_num(m, 1), *u = math_add(m, one, x);
    Parts p = split(m, u, root_of_half(m), math_range(u));
    IrValue *near = math_op(m, IR_EQ, p.n, math_int(m, 0));
    IrValue *lost_small = math_sub(m, x, math_sub(m, u, one));
    IrValue *lost_large = math_sub(m, one, math_sub(m, u, x));
    IrValue *lost = math_select(m, math_lt(m, x, one), lost_small, lost_large);
    lost = math_select(m, near, math_num(m, 0), math_div(m, lost, u));
    IrValue *f = math_select(m, near, x, p.f);
    return math_keep_zero(m, x, log_edges(m, x, log_sum(m, f, p.n, lost), -1, range));
}

/* k + l / ln 2, rounded once at the end. */
static MathPair over_ln2(Math *m, IrValue *n, MathPair l) {
    IrValue *k = ir_cast(&m->b, n, m->f), *c = math_num(m, m->log2e_hi);
    MathPair p = math_product(m, l.hi, c);
    p.lo = math_add(m, p.lo, math_fma(m, l.lo, c, math_mul(m, l.hi, math_num(m, m->log2e_lo))));
    MathPair sum = math_sum(m, k, p.hi);
    return (MathPair){sum.hi, math_add(m, sum.lo, p.lo)};
}

IrValue *math_log2(Math *m, IrValue *x) {
    MathRange range = math_range(x);
    Parts p = split(m, x, root_of_half(m), range);
    IrValue *square, *odd;
    log_terms(m, p.f, &square, &odd);
    MathPair y = over_ln2(m, p.n, math_sum(m, p.f, math_sub(m, odd, square)));
    return log_edges(m, x, math_add(m, y.hi, y.lo), 0, range);
}

/* s = f / (2 + f) in two parts. */
static MathPair quotient(Math *m, IrValue *f) {
    MathPair d = math_sum(m, math_num(m, 2), f);
    IrValue *s = math_div(m, f, d.hi), *minus = math_neg(m, s);
    IrValue *rest = math_fma(m, minus, d.lo, math_fma(m, minus, d.hi, f));
    return (MathPair){s, math_div(m, rest, d.hi)};
}

/* a b, where the last factors' low parts multiply to nothing. */
static MathPair pair_product(Math *m, MathPair a, MathPair b) {
    MathPair p = math_product(m, a.hi, b.hi);
    IrValue *cross = math_fma(m, a.hi, b.lo, math_mul(m, a.lo, b.hi));
    return (MathPair){p.hi, math_add(m, p.lo, cross)};
}

/* log(1 + f) = s (2 + z (2/3 + z tail)), z = s^2: all but the tail in two parts. */
MathPair math_log2_pair(Math *m, IrValue *x) {
    Parts p = split(m, x, root_of_half(m), math_range(x));
    MathPair s = quotient(m, p.f), z = pair_product(m, s, s);
    IrValue *tail = math_mul(m, z.hi, math_polynomial(m, z.hi, math_log_tail_f64, COUNT_OF(math_log_tail_f64)));
    MathPair c = math_sum(m, math_num(m, 0x1.5555555555555p-1), tail);
    c.lo = math_add(m, c.lo, math_num(m, 0x1.5555555555555p-55));
    MathPair q = pair_product(m, z, c), t = math_sum(m, math_num(m, 2), q.hi);
    t.lo = math_add(m, t.lo, q.lo);
    return over_ln2(m, p.n, pair_product(m, s, t));
}
