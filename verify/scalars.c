#include "scalars.h"

#include <math.h>

int64_t scalar_wrap(Dtype dtype, int64_t value) {
    if (dtype == DTYPE_BOOL) return value != 0;
    unsigned bits = dtype_bits(dtype);
    if (bits >= 64) return value;
    uint64_t low = (uint64_t)value << (64 - bits);
    return dtype_is_signed(dtype) ? (int64_t)low >> (64 - bits) : (int64_t)(low >> (64 - bits));
}

int64_t scalar_limit(Dtype dtype, bool lowest) {
    if (dtype == DTYPE_BOOL) return !lowest;
    unsigned bits = dtype_bits(dtype);
    if (!dtype_is_signed(dtype)) return lowest ? 0 : scalar_wrap(dtype, -1);
    int64_t top = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
    return lowest ? -top - 1 : top;
}

static int64_t wide_add(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
static int64_t wide_sub(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a - (uint64_t)b);
}
static int64_t wide_mul(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static int64_t floor_divide(bool is_signed, int64_t a, int64_t b) {
    if (b == 0) return 0;
    if (!is_signed) return (int64_t)((uint64_t)a / (uint64_t)b);
    if (b == -1) return wide_sub(0, a);
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

static bool less(bool is_signed, int64_t a, int64_t b) {
    return is_signed ? a < b : (uint64_t)a < (uint64_t)b;
}

static int64_t shift(IrOpcode op, Dtype dtype, int64_t a, int64_t b) {
    bool is_signed = dtype_is_signed(dtype), over = (uint64_t)b >= dtype_bits(dtype);
    if (op == IR_SHL) return over ? 0 : (int64_t)((uint64_t)a << b);
    if (over) return is_signed && a < 0 ? -1 : 0;
    return is_signed ? a >> b : (int64_t)((uint64_t)a >> b);
}

int64_t scalar_integer_binary(IrOpcode op, Dtype dtype, int64_t a, int64_t b) {
    bool is_signed = dtype_is_signed(dtype);
    switch (op) {
    case IR_ADD:
        return scalar_wrap(dtype, wide_add(a, b));
    case IR_SUB:
        return scalar_wrap(dtype, wide_sub(a, b));
    case IR_MUL:
        return scalar_wrap(dtype, wide_mul(a, b));
    case IR_DIV: /* integers have no true division; the front end casts */
    case IR_FLOORDIV:
        return scalar_wrap(dtype, floor_divide(is_signed, a, b));
    case IR_MOD:
        return b ? wide_sub(a, wide_mul(floor_divide(is_signed, a, b), b)) : 0;
    case IR_MIN:
    case IR_MINNUM:
        return less(is_signed, a, b) ? a : b;
    case IR_MAX:
    case IR_MAXNUM:
        return less(is_signed, a, b) ? b : a;
    case IR_AND:
        return a & b;
    case IR_OR:
        return a | b;
    case IR_XOR:
        return a ^ b;
    default:
        return scalar_wrap(dtype, shift(op, dtype, a, b));
    }
}

int64_t scalar_integer_unary(IrOpcode op, Dtype dtype, int64_t a) {
    switch (op) {
    case IR_NEG:
        return scalar_wrap(dtype, wide_sub(0, a));
    case IR_ABS:
        return scalar_wrap(dtype, dtype_is_signed(dtype) && a < 0 ? wide_sub(0, a) : a);
    case IR_NOT:
        return dtype == DTYPE_BOOL ? !a : scalar_wrap(dtype, ~a);
    default:
        return a; /* floor, ceil, trunc, rint */
    }
}

bool scalar_compare_integer(IrOpcode op, Dtype dtype, int64_t a, int64_t b) {
    bool is_signed = dtype_is_signed(dtype);
    switch (op) {
    case IR_LT:
        return less(is_signed, a, b);
    case IR_LE:
        return !less(is_signed, b, a);
    case IR_EQ:
        return a == b;
    default:
        return a != b;
    }
}

bool scalar_compare_real(IrOpcode op, double a, double b) {
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

double scalar_real_max(double a, double b) {
    if (isnan(a) || isnan(b)) return NAN;
    if (a == b) return signbit(a) ? b : a;
    return a > b ? a : b;
}

int64_t scalar_to_integer(Dtype to, double value) {
    double memory;
    dtype_write(to, &memory, value);
    return dtype_read_int(to, &memory);
}

double scalar_from_integer(Dtype from, int64_t value) {
    return from == DTYPE_U64 ? (double)(uint64_t)value : (double)value;
}

/* Beyond 53 bits the last ones become a sticky bit first: double then holds it, unless it is asked
 * for itself. */
double scalar_round_integer(Dtype to, Dtype from, int64_t value) {
    bool negative = from != DTYPE_U64 && value < 0;
    uint64_t size = negative ? 0 - (uint64_t)value : (uint64_t)value;
    if (to != DTYPE_F64 && size >> 53 != 0 && size & 0xFFF) size = (size & ~0xFFFull) | 0x800;
    return dtype_round(to, negative ? -(double)size : (double)size);
}

double scalar_math(IrOpcode op, double a, double b) {
    typedef double (*Unary)(double);
    static const Unary unary[IR_OP_COUNT] = {
#define pow NULL /* the one function of two operands */
#define MATH(id, name, ulps_f32, ulps_f64, reference, slope, domain, method) [IR_##id] = reference,
#include "math.def"
#undef MATH
#undef pow
    };
    return op == IR_POW ? pow(a, b) : unary[op](a);
}

double scalar_floor_remainder(double a, double b) {
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

double scalar_floor_quotient(double a, double b) {
    if (isinf(b) && isfinite(a)) return a != 0 && (a < 0) != (b < 0) ? -1 : a / b;
    return b == 0 || !isfinite(a / b) ? a / b : rint((a - scalar_floor_remainder(a, b)) / b);
}
