/* What the ops mean on one number (docs/language.md, "Numerics"), shared by evaluator and
 * interpreter. Integers travel as int64_t, u64 by its bits. */
#ifndef VERIFY_SCALARS_H
#define VERIFY_SCALARS_H

#include "ir.h"

#include <math.h>

/* In line: once for every element and operation. */

static inline int64_t scalar_wrap(Dtype dtype, int64_t value) {
    if (dtype == DTYPE_BOOL) return value != 0;
    unsigned bits = dtype_bits(dtype);
    if (bits >= 64) return value;
    uint64_t low = (uint64_t)value << (64 - bits);
    return dtype_is_signed(dtype) ? (int64_t)low >> (64 - bits) : (int64_t)(low >> (64 - bits));
}

static inline int64_t scalar_wide_add(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
static inline int64_t scalar_wide_sub(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a - (uint64_t)b);
}
static inline int64_t scalar_wide_mul(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static inline int64_t scalar_integer_floor_divide(bool is_signed, int64_t a, int64_t b) {
    if (b == 0) return 0;
    if (!is_signed) return (int64_t)((uint64_t)a / (uint64_t)b);
    if (b == -1) return scalar_wide_sub(0, a);
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

static inline bool scalar_integer_less(bool is_signed, int64_t a, int64_t b) {
    return is_signed ? a < b : (uint64_t)a < (uint64_t)b;
}

static inline int64_t scalar_integer_shift(IrOpcode op, Dtype dtype, int64_t a, int64_t b) {
    bool is_signed = dtype_is_signed(dtype), over = (uint64_t)b >= dtype_bits(dtype);
    if (op == IR_SHL) return over ? 0 : (int64_t)((uint64_t)a << b);
    if (over) return is_signed && a < 0 ? -1 : 0;
    return is_signed ? a >> b : (int64_t)((uint64_t)a >> b);
}

static inline int64_t scalar_integer_binary(IrOpcode op, Dtype dtype, int64_t a, int64_t b) {
    bool is_signed = dtype_is_signed(dtype);
    switch (op) {
    case IR_ADD:
        return scalar_wrap(dtype, scalar_wide_add(a, b));
    case IR_SUB:
        return scalar_wrap(dtype, scalar_wide_sub(a, b));
    case IR_MUL:
        return scalar_wrap(dtype, scalar_wide_mul(a, b));
    case IR_DIV: /* integers have no true division; the front end casts */
    case IR_FLOORDIV:
        return scalar_wrap(dtype, scalar_integer_floor_divide(is_signed, a, b));
    case IR_MOD:
        return b ? scalar_wide_sub(a, scalar_wide_mul(scalar_integer_floor_divide(is_signed, a, b), b)) : 0;
    case IR_MIN:
    case IR_MINNUM:
        return scalar_integer_less(is_signed, a, b) ? a : b;
    case IR_MAX:
    case IR_MAXNUM:
        return scalar_integer_less(is_signed, a, b) ? b : a;
    case IR_AND:
        return a & b;
    case IR_OR:
        return a | b;
    case IR_XOR:
        return a ^ b;
    default:
        return scalar_wrap(dtype, scalar_integer_shift(op, dtype, a, b));
    }
}

static inline int64_t scalar_integer_unary(IrOpcode op, Dtype dtype, int64_t a) {
    switch (op) {
    case IR_NEG:
        return scalar_wrap(dtype, scalar_wide_sub(0, a));
    case IR_ABS:
        return scalar_wrap(dtype, dtype_is_signed(dtype) && a < 0 ? scalar_wide_sub(0, a) : a);
    case IR_NOT:
        return dtype == DTYPE_BOOL ? !a : scalar_wrap(dtype, ~a);
    default:
        return a; /* floor, ceil, trunc, rint */
    }
}

static inline bool scalar_compare_integer(IrOpcode op, Dtype dtype, int64_t a, int64_t b) {
    bool is_signed = dtype_is_signed(dtype);
    switch (op) {
    case IR_LT:
        return scalar_integer_less(is_signed, a, b);
    case IR_LE:
        return !scalar_integer_less(is_signed, b, a);
    case IR_EQ:
        return a == b;
    default:
        return a != b;
    }
}

static inline bool scalar_compare_real(IrOpcode op, double a, double b) {
    switch (op) {
    case IR_LT:
        return a < b;
    case IR_LE:
        return a <= b;
    case IR_EQ:
        return a == b;
    default:
        return a != b;
    }
}

/* NaN wins, -0 < +0. */
static inline double scalar_real_max(double a, double b) {
    if (isnan(a) || isnan(b)) return NAN;
    if (a == b) return signbit(a) ? b : a;
    return a > b ? a : b;
}

/* ---- scalars.c ---- */

int64_t scalar_limit(Dtype dtype, bool lowest);
int64_t scalar_to_integer(Dtype to, double value); /* truncates, saturates, NaN gives 0 */
double scalar_from_integer(Dtype from, int64_t value);
/* An integer rounded to a float type, once. */
double scalar_round_integer(Dtype to, Dtype from, int64_t value);
/* A function of ir/math.def in double; b is pow's exponent. */
double scalar_math(IrOpcode op, double a, double b);
/* floor(a / b) and a - floor(a / b) b, exact where |a / b| < 2^52. */
double scalar_floor_quotient(double a, double b);
double scalar_floor_remainder(double a, double b);

/* Of floats, in double: the result is not rounded to their type. */
static inline double scalar_real_binary(IrOpcode op, double a, double b) {
    switch (op) {
    case IR_ADD:
        return a + b;
    case IR_SUB:
        return a - b;
    case IR_MUL:
        return a * b;
    case IR_DIV:
        return a / b;
    case IR_FLOORDIV:
        return scalar_floor_quotient(a, b);
    case IR_MOD:
        return scalar_floor_remainder(a, b);
    case IR_MAX:
        return scalar_real_max(a, b);
    case IR_MIN:
        return -scalar_real_max(-a, -b);
    case IR_MAXNUM:
        return isnan(a) ? b : isnan(b) ? a : scalar_real_max(a, b);
    case IR_MINNUM:
        return isnan(a) ? b : isnan(b) ? a : -scalar_real_max(-a, -b);
    default: /* IR_POW */
        return pow(a, b);
    }
}

/* ---- random.c ---- */

void random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
/* The operation `random`: element `index` of the sequence that `seed` names. Counter: the index,
 * low word first; key: the seed; of the first 64 bits (the first word above the second) as many as
 * the type's significand has, so that the value is exact and below 1. */
double random_uniform(Dtype dtype, int64_t seed, int64_t index);

#endif
