#include "scalars.h"

#include <math.h>

int64_t scalar_limit(Dtype dtype, bool lowest) {
    if (dtype == DTYPE_BOOL) return !lowest;
    unsigned bits = dtype_bits(dtype);
    if (!dtype_is_signed(dtype)) return lowest ? 0 : scalar_wrap(dtype, -1);
    int64_t top = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
    return lowest ? -top - 1 : top;
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
#define MATH(id, name, ulps_f32, ulps_f64, reference, slope, domain, method) [IR_##id] = reference,
#define MATH2(...)
#include "math.def"
#undef MATH
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
