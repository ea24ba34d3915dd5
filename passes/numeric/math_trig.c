/* Sine, cosine, tangent of any finite argument, and the arc tangent.
 *
 * Payne and Hanek: with x = M 2^e and M an integer, only the bits of 2/pi from weight 2^(1-e) on
 * matter modulo 4. They are picked from a table of constants by selects, multiplied by M in
 * integers, and give the quadrant and the fraction with more than 60 bits below the nearest
 * multiple of pi/2.
 *
 * Cody and Waite, for f32 below 2^20: k pi/2 is taken off in three parts. A GPU branches to the other
 * way; elsewhere, where lanes are vectors, both are made and chosen from: the same bits. */
#include "math_internal.h"

#include "math_tables.h"

#include <math.h>

enum {
    MAX_WORDS = 40,     /* of 2 / pi that f64's exponents reach */
    F32_WINDOW = 3,     /* words of 2 / pi that count for one f32 */
    F64_WINDOW = 6,     /* words of 2 / pi that count for one f64 */
    FEW_BITS = 20,      /* below 2^20 Cody and Waite is exact enough (tests/math) */
    FEW = 1 << FEW_BITS /* the same as a number */
};

typedef struct {
    const IrType *u32, *u64, *i64;
} Types;

typedef struct {
    IrValue *quadrant;  /* modulo 4; of f64 u64, of f32 i32 */
    IrValue *hi, *over; /* the argument less the quadrant's multiple of pi/2 is hi - over */
} Angle;

typedef IrValue *(*OfAngle)(Math *m, Angle r);

static Types types_of(const Math *m) {
    return (Types){math_type(m, DTYPE_U32), math_type(m, DTYPE_U64), math_type(m, DTYPE_I64)};
}

static IrValue *whole(Math *m, const IrType *type, uint64_t value) {
    return ir_const_int(&m->b, type, (int64_t)value);
}

static IrValue *shifted(Math *m, IrOpcode opcode, IrValue *x, unsigned count) {
    return math_op(m, opcode, x, whole(m, x->type, count));
}

static IrValue *masked(Math *m, IrValue *x, uint64_t mask) {
    return math_op(m, IR_AND, x, whole(m, x->type, mask));
}

/* Moves words[at + k] to words[k] for k < count, at < 2^levels. */
static void pick(Math *m, IrValue **words, IrValue *at, unsigned levels, unsigned count) {
    for (unsigned level = levels; level-- > 0;) {
        IrValue *bit = masked(m, at, 1u << level);
        IrValue *move = math_op(m, IR_NE, bit, whole(m, at->type, 0));
        unsigned left = count + (1u << level) - 1;
        for (unsigned k = 0; k < left; k++) words[k] = math_select(m, move, words[k + (1u << level)], words[k]);
    }
}

/* 32 bits of 2/pi from a bit on. */
static uint32_t word_from(unsigned bit) {
    unsigned k = bit / 32, skip = bit % 32;
    uint64_t both = k < COUNT_OF(math_two_over_pi) ? (uint64_t)math_two_over_pi[k] << 32 : 0;
    if (k + 1 < COUNT_OF(math_two_over_pi)) both |= math_two_over_pi[k + 1];
    return (uint32_t)(both << skip >> 32);
}

/* `count` words of 2/pi from bit `offset` on, which counts from `zeros` bits before it. */
static void window(Math *m, Types t, IrValue *offset, unsigned zeros, unsigned levels, unsigned count, IrValue **words) {
    IrValue *table[2 * MAX_WORDS + 32];
    unsigned size = count + 1 + (1u << levels) - 1;
    for (unsigned k = 0; k < size; k++) {
        unsigned end = 32 * (k + 1);
        uint32_t word = end <= zeros ? 0 : end - zeros < 32 ? word_from(0) >> (32 - (end - zeros)) : word_from(end - zeros - 32);
        table[k] = whole(m, t.u32, word);
    }
    pick(m, table, shifted(m, IR_SHR, offset, 5), levels, count + 1);
    IrValue *bits = masked(m, offset, 31);
    IrValue *rest = math_sub(m, whole(m, t.u32, 32), bits);
    for (unsigned k = 0; k < count; k++)
        words[k] = math_op(m, IR_OR, math_op(m, IR_SHL, table[k], bits), math_op(m, IR_SHR, table[k + 1], rest));
}

/* digits += M * words 2^(32 place), modulo 2^(32 count); digits[0] and words[0] are the highest. */
static void add_product(Math *m, Types t, IrValue *factor, IrValue **words, unsigned count, unsigned place, IrValue **digits) {
    IrValue *carry = NULL;
    for (unsigned k = count; k-- > place;) {
        IrValue *word = ir_cast(&m->b, words[k], t.u64), *p = math_mul(m, factor, word);
        unsigned to = k - place;
        if (digits[to]) p = math_add(m, p, digits[to]);
        if (carry) p = math_add(m, p, carry);
        digits[to] = masked(m, p, UINT32_MAX);
        carry = shifted(m, IR_SHR, p, 32);
    }
}

static IrValue *join(Math *m, IrValue *hi, IrValue *lo) {
    return math_op(m, IR_OR, shifted(m, IR_SHL, hi, 32), lo);
}

/* Takes the quadrant off a fraction of 2^62 to one: what remains is signed. */
static IrValue *take_quadrant(Math *m, Types t, IrValue *fraction, IrValue **quadrant) {
    IrValue *half = math_add(m, fraction, whole(m, t.u64, 1ull << 61));
    *quadrant = shifted(m, IR_SHR, half, 62);
    IrValue *rest = math_sub(m, fraction, shifted(m, IR_SHL, *quadrant, 62));
    return ir_cast(&m->b, rest, t.i64);
}

/* x signed, from FEW on; of what is not finite hi is NaN. */
static Angle reduce_many(Math *m, IrValue *x) {
    Types t = types_of(m);
    IrValue *a = math_abs(m, x), *negative = math_lt(m, x, math_num(m, 0));
    IrValue *bits = ir_cast(&m->b, math_bits(m, a), t.u32), *words[F32_WINDOW];
    IrValue *offset = math_sub(m, shifted(m, IR_SHR, bits, 23), whole(m, t.u32, 127 + FEW_BITS));
    window(m, t, offset, 32 - 7 - FEW_BITS, 2, F32_WINDOW, words);
    IrValue *factor = math_op(m, IR_OR, masked(m, bits, 0x7FFFFF), whole(m, t.u32, 0x800000));
    IrValue *digits[F32_WINDOW] = {0};
    add_product(m, t, ir_cast(&m->b, factor, t.u64), words, F32_WINDOW, 0, digits);
    Angle r;
    IrValue *turn = take_quadrant(m, t, join(m, digits[0], digits[1]), &r.quadrant);
    Math w = math_as(m, DTYPE_F64);
    IrValue *angle = math_mul(&w, ir_cast(&w.b, turn, w.f), math_num(&w, 0x1.921fb54442d18p-62));
    r.hi = ir_cast(&w.b, angle, m->f);
    r.over = ir_cast(&w.b, math_sub(&w, ir_cast(&w.b, r.hi, w.f), angle), m->f);
    m->b = w.b;
    r.hi = math_select(m, math_lt(m, a, math_num(m, INFINITY)), r.hi, math_num(m, NAN));
    r.hi = math_select(m, negative, math_neg(m, r.hi), r.hi);
    r.over = math_select(m, negative, math_neg(m, r.over), r.over);
    r.quadrant = ir_cast(&m->b, r.quadrant, m->i);
    r.quadrant = math_select(m, negative, math_sub(m, math_int(m, 0), r.quadrant), r.quadrant);
    return r;
}

/* |x| < FEW. pi/2 = c1 + c2 + c3 + 2^-71, each rounded down to 24 bits so that zeros keep their sign. x - k c1 is exact: below 1, and
 * a multiple of 2^-24; so is hi less it, as what is taken off is a float. */
static Angle reduce_few(Math *m, IrValue *x) {
    Angle r;
    IrValue *k = math_nearest(m, x, 0x1.45f306dc9c883p-1, 0, &r.quadrant), *c2 = math_num(m, 0x1.4442dp-24);
    IrValue *t = math_fma(m, k, math_num(m, -0x1.921fb4p+0), x);
    r.hi = math_sub(m, t, math_mul(m, k, c2));
    r.over = math_fma(m, k, c2, math_sub(m, r.hi, t));
    r.over = math_fma(m, k, math_num(m, 0x1.846988p-48), r.over);
    return r;
}

static Angle chosen(Math *m, IrValue *c, Angle a, Angle b) {
    return (Angle){math_select(m, c, a.quadrant, b.quadrant), math_select(m, c, a.hi, b.hi), math_select(m, c, a.over, b.over)};
}

/* hi 2^64 + lo >= 0 as a sum of two floats, times 2^-64. */
static MathPair wide_to_float(Math *m, Types t, IrValue *hi, IrValue *lo) {
    IrValue *first = ir_cast(&m->b, hi, m->f);
    IrValue *rest = math_sub(m, hi, ir_cast(&m->b, first, t.i64));
    IrValue *low = ir_cast(&m->b, shifted(m, IR_SHR, lo, 11), t.i64);
    low = math_mul(m, ir_cast(&m->b, low, m->f), math_num(m, 0x1p-53));
    return math_sum(m, first, math_add(m, ir_cast(&m->b, rest, m->f), low));
}

static Angle reduce_f64(Math *m, IrValue *a) {
    Types t = types_of(m);
    IrValue *bits = ir_cast(&m->b, math_bits(m, a), t.u64), *words[F64_WINDOW];
    IrValue *exponent = ir_cast(&m->b, shifted(m, IR_SHR, bits, 52), t.u32);
    window(m, t, math_sub(m, exponent, whole(m, t.u32, 1013)), 64, 6, F64_WINDOW, words);
    IrValue *factor = masked(m, bits, (1ull << 52) - 1);
    factor = math_op(m, IR_OR, factor, whole(m, t.u64, 1ull << 52));
    IrValue *digits[F64_WINDOW] = {0};
    add_product(m, t, masked(m, factor, UINT32_MAX), words, F64_WINDOW, 0, digits);
    add_product(m, t, shifted(m, IR_SHR, factor, 32), words, F64_WINDOW, 1, digits);
    Angle r;
    IrValue *hi = take_quadrant(m, t, join(m, digits[0], digits[1]), &r.quadrant);
    IrValue *sign = shifted(m, IR_SHR, hi, 63); /* all ones when negative */
    IrValue *lo = math_op(m, IR_XOR, join(m, digits[2], digits[3]), ir_cast(&m->b, sign, t.u64));
    MathPair f = wide_to_float(m, t, math_op(m, IR_XOR, hi, sign), lo);
    IrValue *half_pi = math_num(m, 0x1.921fb54442d18p-62);
    MathPair p = math_product(m, f.hi, half_pi);
    IrValue *cross = math_mul(m, f.hi, math_num(m, 0x1.1a62633145c07p-116));
    p.lo = math_add(m, p.lo, math_fma(m, f.lo, half_pi, cross));
    IrValue *negative = math_lt(m, sign, whole(m, t.i64, 0));
    r.hi = math_select(m, negative, math_neg(m, p.hi), p.hi);
    r.over = math_select(m, negative, p.lo, math_neg(m, p.lo));
    return r;
}

/* a >= 0, f64; arguments below pi/4 are their own remainder, to the last denormal. */
static Angle reduce(Math *m, IrValue *a) {
    IrValue *small = math_lt(m, a, math_num(m, 0.785)), *zero = whole(m, math_type(m, DTYPE_U64), 0);
    return chosen(m, small, (Angle){zero, a, math_num(m, 0)}, reduce_f64(m, a));
}

static IrValue *sine(Math *m, Angle r) {
    IrValue *z = math_mul(m, r.hi, r.hi), *cube = math_mul(m, r.hi, z);
    IrValue *p = MATH_POLYNOMIAL(m, z, sin);
    IrValue *slope = math_fma(m, z, math_num(m, 0.5), math_num(m, -1));
    return math_add(m, r.hi, math_fma(m, cube, p, math_mul(m, r.over, slope)));
}

static IrValue *cosine(Math *m, Angle r) {
    IrValue *z = math_mul(m, r.hi, r.hi), *half = math_mul(m, z, math_num(m, 0.5));
    IrValue *one = math_num(m, 1), *w = math_sub(m, one, half);
    IrValue *lost = math_sub(m, math_sub(m, one, w), half);
    IrValue *low = math_mul(m, math_mul(m, z, z), MATH_POLYNOMIAL(m, z, cos));
    low = math_fma(m, r.hi, r.over, low);
    return math_add(m, w, math_add(m, lost, low));
}

static IrValue *has_bit(Math *m, IrValue *quadrant, unsigned bit) {
    return math_op(m, IR_NE, masked(m, quadrant, bit), whole(m, quadrant->type, 0));
}

static IrValue *finite_only(Math *m, IrValue *a, IrValue *result) {
    return math_select(m, math_lt(m, a, math_num(m, INFINITY)), result, math_num(m, NAN));
}

/* -v where bit 1 of the quadrant is set: by the sign's bit, since a choice would hold a predicate for
 * each element of a tile. */
static IrValue *quadrant_sign(Math *m, IrValue *v, IrValue *quadrant) {
    IrValue *bits = math_bits(m, v);
    IrValue *sign = masked(m, ir_cast(&m->b, quadrant, bits->type), 2);
    return math_float(m, math_op(m, IR_XOR, bits, shifted(m, IR_SHL, sign, m->wide ? 62 : 30)));
}

/* Of f32, in fewer steps: z = (hi - over)^2 serves both; `over` is not multiplied by the sine's slope, and is what is taken off last, so
 * that -0 stays. */
static void sine_and_cosine(Math *m, Angle r, IrValue **s, IrValue **c) {
    IrValue *twice = math_mul(m, r.hi, math_add(m, r.over, r.over)), *z = math_fma(m, r.hi, r.hi, math_neg(m, twice));
    double minus[COUNT_OF(math_sin_f32)];
    for (size_t i = 0; i < COUNT_OF(minus); i++) minus[i] = -math_sin_f32[i];
    IrValue *p = math_polynomial(m, z, minus, COUNT_OF(minus));
    *s = math_sub(m, r.hi, math_fma(m, math_mul(m, r.hi, z), p, r.over));
    p = math_fma(m, z, math_polynomial(m, z, math_cos_f32, COUNT_OF(math_cos_f32)), math_num(m, -0.5));
    *c = math_fma(m, z, p, math_num(m, 1));
}

static IrValue *quarter(Math *m, Angle r, unsigned turns) {
    IrValue *q = math_add(m, r.quadrant, whole(m, r.quadrant->type, turns)), *s, *c;
    if (m->wide)
        s = sine(m, r), c = cosine(m, r);
    else
        sine_and_cosine(m, r, &s, &c);
    return quadrant_sign(m, math_select(m, has_bit(m, q, 1), c, s), q);
}

static IrValue *sine_of(Math *m, Angle r) {
    return quarter(m, r, 0);
}

static IrValue *cosine_of(Math *m, Angle r) {
    return quarter(m, r, 1);
}

static IrValue *tangent_of(Math *m, Angle r) {
    IrValue *s = sine(m, r), *c = cosine(m, r), *turn = has_bit(m, r.quadrant, 1);
    IrValue *top = math_select(m, turn, math_neg(m, c), s);
    return math_div(m, top, math_select(m, turn, s, c));
}

/* f of x, f32. The branch's result is the function's, so that a tile's lanes hold one number each behind their branches. */
static IrValue *of_f32(Math *m, IrValue *x, OfAngle f) {
    IrValue *is_few = math_lt(m, math_abs(m, x), math_num(m, FEW));
    Angle few = reduce_few(m, x);
    if (!m->machine) return f(m, chosen(m, is_few, few, reduce_many(m, x)));
    IrValue *near = f(m, few);
    IrOp *branch = ir_op_create(&m->b, IR_IF, 1, &is_few, 1, &m->f);
    IrBuilder then = ir_builder_at_end(branch->regions[0]);
    ir_yield(&then, 1, &near);
    Math rare = *m;
    rare.b = ir_builder_at_end(branch->regions[1]);
    rare.b.span = m->b.span;
    IrValue *far = f(&rare, reduce_many(&rare, x));
    ir_yield(&rare.b, 1, &far);
    return ir_result(branch, 0);
}

static IrValue *odd(Math *m, IrValue *x, IrValue *result) {
    IrValue *negative = math_lt(m, math_bits(m, x), math_int(m, 0));
    return math_select(m, negative, math_neg(m, result), result);
}

IrValue *math_sin(Math *m, IrValue *x) {
    if (!m->wide) return of_f32(m, x, sine_of);
    IrValue *a = math_abs(m, x);
    return finite_only(m, a, odd(m, x, sine_of(m, reduce(m, a))));
}

IrValue *math_cos(Math *m, IrValue *x) {
    if (!m->wide) return of_f32(m, x, cosine_of);
    IrValue *a = math_abs(m, x);
    return finite_only(m, a, cosine_of(m, reduce(m, a)));
}

IrValue *math_tan(Math *m, IrValue *x) {
    IrValue *a = math_abs(m, x), *t = m->wide ? tangent_of(m, reduce(m, a)) : of_f32(m, a, tangent_of);
    return finite_only(m, a, odd(m, x, t));
}

/* Around 0, 1 or infinity: t = x, (x - 1) / (x + 1) or -1 / x. */
IrValue *math_atan(Math *m, IrValue *x) {
    IrValue *a = math_abs(m, x), *zero = math_num(m, 0), *one = math_num(m, 1);
    IrValue *large = math_lt(m, math_num(m, 2.414213562373095), a);
    IrValue *middle = math_lt(m, math_num(m, 0.41421356237309503), a);
    IrValue *top = math_select(m, middle, math_sub(m, a, one), a);
    IrValue *bottom = math_select(m, middle, math_add(m, a, one), one);
    IrValue *t = math_div(m, math_select(m, large, math_num(m, -1), top), math_select(m, large, a, bottom));
    double half_pi = m->wide ? 0x1.921fb54442d18p+0 : 0x1.921fb6p+0;
    double rest = m->wide ? 0x1.1a62633145c07p-54 : 0x1.921fb54442d18p+0 - half_pi;
    IrValue *hi = math_select(m, middle, math_num(m, half_pi / 2), zero);
    IrValue *lo = math_select(m, middle, math_num(m, rest / 2), zero);
    hi = math_select(m, large, math_num(m, half_pi), hi);
    lo = math_select(m, large, math_num(m, rest), lo);
    IrValue *z = math_mul(m, t, t), *p = MATH_POLYNOMIAL(m, z, atan);
    IrValue *y = math_add(m, t, math_fma(m, math_mul(m, t, z), p, lo));
    return math_copysign(m, math_add(m, hi, y), x);
}
