/* The expansions of ir/math.def (expand_math.c): each builds its function of a lane from +, -, *,
 * /, fma, sqrt, comparisons and integer operations, for f32 and f64 and vectors of them. */
#ifndef PASSES_NUMERIC_MATH_INTERNAL_H
#define PASSES_NUMERIC_MATH_INTERNAL_H

#include "passes.h"

typedef struct {
    IrBuilder b;
    IrModule *module;
    unsigned width;
    bool wide;             /* f64 */
    int bits;              /* a relative error below 2^-bits is all that is asked; 0: what ir/math.def says */
    bool not_positive;     /* the argument is known to be at most 0, or NaN */
    bool flushed;          /* results below 2^-126 may be 0 */
    bool machine;          /* scalars of a GPU: instructions for 2^x and log2 x, branches that few lanes take */
    const IrType *f, *i;   /* the float, and the signed integer of its size */
    int mantissa, bias;    /* stored bits, bias of the exponent */
    double ln2_hi, ln2_lo; /* ln 2 = hi + lo, and its reciprocal */
    double log2e_hi, log2e_lo;
} Math;

enum { NARROW_BITS = 18 }; /* the most that count as few */

/* From lo to hi, or NaN. */
typedef struct {
    double lo, hi;
} MathRange;

typedef IrValue *(*MathExpansion)(Math *m, IrValue *x);

/* A value as the unevaluated sum of two. */
typedef struct {
    IrValue *hi, *lo;
} MathPair;

/* math_build.c */
Math math_begin(IrModule *module, IrOp *before, Dtype dtype, unsigned width);
Math math_as(const Math *m, Dtype dtype); /* the same place, another float */
const IrType *math_type(const Math *m, Dtype dtype);
IrValue *math_num(Math *m, double value); /* rounded to the type */
IrValue *math_int(Math *m, int64_t value);
IrValue *math_op(Math *m, IrOpcode opcode, IrValue *a, IrValue *b);
IrValue *math_add(Math *m, IrValue *a, IrValue *b);
IrValue *math_sub(Math *m, IrValue *a, IrValue *b);
IrValue *math_mul(Math *m, IrValue *a, IrValue *b);
IrValue *math_div(Math *m, IrValue *a, IrValue *b);
IrValue *math_fma(Math *m, IrValue *a, IrValue *b, IrValue *c);
IrValue *math_neg(Math *m, IrValue *a);
IrValue *math_abs(Math *m, IrValue *a);
IrValue *math_lt(Math *m, IrValue *a, IrValue *b);
IrValue *math_select(Math *m, IrValue *c, IrValue *a, IrValue *b);
IrValue *math_bits(Math *m, IrValue *a);                           /* float to integer */
IrValue *math_float(Math *m, IrValue *a);                          /* integer to float, by bits */
IrValue *math_clamp(Math *m, IrValue *x, double low, double high); /* NaN stays */
/* c[0] x^(n-1) + ... + c[n-1] */
IrValue *math_polynomial(Math *m, IrValue *x, const double *c, size_t n);
/* p 2^n, rounded once, for n that two floats can carry: |n| up to twice the largest exponent.
 * n from math_nearest with twice the bias. */
IrValue *math_scale(Math *m, IrValue *p, IrValue *n);
/* 2^n of the normal range; n from math_nearest with the bias. */
IrValue *math_power_of_two(Math *m, IrValue *n);
/* The integer nearest to factor x, below 2^(mantissa - 2): as a float, and in *n as an integer, plus
 * the bias, of which only the bits of an exponent count. */
IrValue *math_nearest(Math *m, IrValue *x, double factor, int bias, IrValue **n);
bool math_not_positive(const IrValue *x);     /* known to be at most 0, or NaN */
bool math_from_0_to_1(const IrValue *x);      /* known to be in [0, 1], or NaN */
bool math_is(const IrValue *x, double value); /* that constant */
IrValue *math_copysign(Math *m, IrValue *magnitude, IrValue *sign);
/* x where x is zero or NaN is to stay: the sign of zero. */
IrValue *math_keep_zero(Math *m, IrValue *x, IrValue *result);
MathPair math_product(Math *m, IrValue *a, IrValue *b);     /* exactly */
MathPair math_sum(Math *m, IrValue *large, IrValue *small); /* exactly, |large| >= |small| */

#define MATH_POLYNOMIAL(m, x, name)                                                                                                        \
    ((m)->wide ? math_polynomial(m, x, math_##name##_f64, COUNT_OF(math_##name##_f64))                                                     \
               : math_polynomial(m, x, math_##name##_f32, COUNT_OF(math_##name##_f32)))

/* The functions of math.def: in math_exp.c, math_log.c, math_trig.c and math_pow.c. */
#define MATH(id, name, ...) IrValue *math_##name(Math *m, IrValue *x);
#define MATH2(id, name, ...) IrValue *math_##name(Math *m, IrValue *a, IrValue *b);
#include "math.def"
#undef MATH

/* math_range.c */
MathRange math_range(const IrValue *x); /* by what makes it, as long as that is not expanded */

/* math_exp.c */
IrValue *math_exp2_pair(Math *m, MathPair y); /* 2^(hi + lo) */
/* a / b for b from 2^-100 to 2^100 and a finite; within 0.6 ulps, of tiny a within one. */
IrValue *math_quotient(Math *m, IrValue *a, IrValue *b);
IrValue *math_reciprocal(Math *m, IrValue *b);                  /* b from 2^-100 to 2^100 */
IrValue *math_by_machine(Math *m, IrOpcode opcode, IrValue *x); /* 2^x or log2 x by one instruction */
IrValue *math_share(Math *m, IrValue *a, IrValue *b);           /* a sigmoid's quotient; NULL: a / b is none */
IrValue *math_erfc(Math *m, IrValue *x);                        /* where few bits are asked */

/* math_log.c */
IrValue *math_log_ratio(Math *m, IrValue *a, IrValue *b); /* log a - log b */
MathPair math_log2_pair(Math *m, IrValue *x);             /* f64, x > 0 */

/* math_pow.c */
IrValue *math_floordiv(Math *m, IrValue *a, IrValue *b);
IrValue *math_mod(Math *m, IrValue *a, IrValue *b);

#endif
