/* What the ops mean on one number (docs/language.md, "Numerics"), shared by evaluator and
 * interpreter. Integers travel as int64_t, u64 by its bits. */
#ifndef VERIFY_SCALARS_H
#define VERIFY_SCALARS_H

#include "ir.h"

int64_t scalar_wrap(Dtype dtype, int64_t value);
int64_t scalar_limit(Dtype dtype, bool lowest);
int64_t scalar_integer_unary(IrOpcode op, Dtype dtype, int64_t a);
int64_t scalar_integer_binary(IrOpcode op, Dtype dtype, int64_t a, int64_t b);
bool scalar_compare_integer(IrOpcode op, Dtype dtype, int64_t a, int64_t b);
bool scalar_compare_real(IrOpcode op, double a, double b);
double scalar_real_max(double a, double b);        /* NaN wins, -0 < +0 */
int64_t scalar_to_integer(Dtype to, double value); /* truncates, saturates, NaN gives 0 */
double scalar_from_integer(Dtype from, int64_t value);
/* An integer rounded to a float type, once. */
double scalar_round_integer(Dtype to, Dtype from, int64_t value);
/* A function of ir/math.def in double; b is pow's exponent. */
double scalar_math(IrOpcode op, double a, double b);
/* floor(a / b) and a - floor(a / b) b, exact where |a / b| < 2^52. */
double scalar_floor_quotient(double a, double b);
double scalar_floor_remainder(double a, double b);

/* ---- random.c ---- */

void random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
/* The operation `random`: element `index` of the sequence that `seed` names. Counter: the index,
 * low word first; key: the seed; of the first 64 bits (the first word above the second) as many as
 * the type's significand has, so that the value is exact and below 1. */
double random_uniform(Dtype dtype, int64_t seed, int64_t index);

#endif
