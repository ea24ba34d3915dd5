#include "dtype.h"

#include <math.h>
#include <string.h>

typedef struct {
    const char *name, *c_name, *cuda_name, *npy;
} Info;

static const Info infos[DTYPE_COUNT] = {
    {"none", "void", "void", ""},
#define DTYPE(id, spelling, bits, cls, c, cuda, npy) {spelling, c, cuda, npy},
#include "dtypes.def"
#undef DTYPE
};

const struct DtypeFacts dtype_facts[DTYPE_COUNT] = {
    {0, DTYPE_CLASS_I},
#define DTYPE(id, spelling, bits, cls, c, cuda, npy) {bits, DTYPE_CLASS_##cls},
#include "dtypes.def"
#undef DTYPE
};

static const Info *info_of(Dtype t) {
    return &infos[(unsigned)t < DTYPE_COUNT ? t : DTYPE_NONE];
}

const char *dtype_name(Dtype t) {
    return info_of(t)->name;
}

bool dtype_find(const char *name, Dtype *t) {
    for (unsigned i = 1; i < DTYPE_COUNT; i++) {
        if (strcmp(infos[i].name, name) != 0) continue;
        *t = (Dtype)i;
        return true;
    }
    return false;
}

const char *dtype_c_name(Dtype t) {
    return info_of(t)->c_name;
}
const char *dtype_cuda_name(Dtype t) {
    return info_of(t)->cuda_name;
}
const char *dtype_npy(Dtype t) {
    return info_of(t)->npy;
}

/* ---- Float formats ---- */

typedef struct {
    int mantissa; /* stored bits */
    int bias;
    double max;
    bool has_inf; /* f8e4m3 has a single NaN pattern a sign and no infinity */
} Format;

static Format format_of(Dtype t) {
    switch (t) {
    case DTYPE_F64:
        return (Format){52, 1023, 0x1.fffffffffffffp1023, true};
    case DTYPE_BF16:
        return (Format){7, 127, 0x1.fep127, true};
    case DTYPE_F16:
        return (Format){10, 15, 65504.0, true};
    case DTYPE_F8E4M3:
        return (Format){3, 7, 448.0, false};
    case DTYPE_F8E5M2:
        return (Format){2, 15, 57344.0, true};
    default:
        return (Format){23, 127, 0x1.fffffep127, true};
    }
}

double dtype_unit_roundoff(Dtype t) {
    return dtype_is_float(t) ? ldexp(1.0, -(format_of(t).mantissa + 1)) : 0.0;
}

double dtype_max(Dtype t) {
    if (dtype_is_float(t)) return format_of(t).max;
    if (t == DTYPE_BOOL) return 1.0;
    unsigned value_bits = dtype_bits(t) - (dtype_is_signed(t) ? 1 : 0);
    if (value_bits >= 63) return value_bits == 64 ? 0x1p64 : 0x1p63; /* nearest double */
    return (double)(((uint64_t)1 << value_bits) - 1);
}

double dtype_min_normal(Dtype t) {
    return dtype_is_float(t) ? ldexp(1.0, 1 - format_of(t).bias) : 1.0;
}

static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double power_of_two(int exponent) {
    return double_of((uint64_t)(1023 + exponent) << 52);
}

/* The bits of a double beyond f's, and what the exponents differ by, at the place of f's exponent. */
static int dropped_bits(Format f) {
    return 52 - f.mantissa;
}
static uint64_t rebias(Format f) {
    return (uint64_t)(1023 - f.bias) << f.mantissa;
}

/* Rounds a finite double to `f`, narrower than f64, in one rounding. */
static inline double round_to_format(Format f, double value) {
    double rounded;
    if (fabs(value) < power_of_two(1 - f.bias)) { /* at f's least place: 2^52 of it swallow what is below */
        double swallow = copysign(power_of_two(52 + 1 - f.bias - f.mantissa), value);
        rounded = copysign((value + swallow) - swallow, value);
    } else { /* half of the last place less one bit for even ones; the carry runs into the exponent */
        int drop = dropped_bits(f);
        uint64_t bits = bits_of(value), half = UINT64_C(1) << (drop - 1);
        rounded = double_of((bits + half - 1 + (bits >> drop & 1)) & ~(2 * half - 1));
    }
    if (fabs(rounded) <= f.max) return rounded;
    return f.has_inf ? copysign(INFINITY, value) : copysign(NAN, value);
}

static int64_t saturate(double value, int64_t lo, int64_t hi) {
    if (isnan(value)) return 0;
    if (value <= (double)lo) return lo;
    if (value >= (double)hi) return hi;
    return (int64_t)value;
}

static uint64_t saturate_u64(double value) {
    if (!(value > 0)) return 0;
    return value >= 0x1p64 ? UINT64_MAX : (uint64_t)value;
}

static int64_t int_max(Dtype t) {
    unsigned bits = dtype_bits(t) - (dtype_is_signed(t) ? 1 : 0);
    return bits >= 63 ? INT64_MAX : ((int64_t)1 << bits) - 1;
}

static int64_t int_min(Dtype t) {
    return dtype_is_signed(t) ? -int_max(t) - 1 : 0;
}

static inline double round_small(Format f, double value) {
    if (isnan(value) || value == 0) return value;
    if (isinf(value)) return f.has_inf ? value : copysign(NAN, value);
    return round_to_format(f, value);
}

static double round_float(Dtype t, double value) {
    if (t == DTYPE_F64) return value;
    if (t == DTYPE_F32) return (double)(float)value;
    return round_small(format_of(t), value);
}

double dtype_round(Dtype t, double value) {
    if (dtype_is_float(t)) return round_float(t, value);
    if (t == DTYPE_BOOL) return value != 0;
    if (t == DTYPE_U64) return (double)saturate_u64(value);
    return (double)saturate(value, int_min(t), int_max(t));
}

/* ---- Small floats as bits (16 and 8 bits wide) ---- */

static inline unsigned encode_small(Format f, unsigned bits, double value) {
    unsigned exponent_bits = bits - 1 - (unsigned)f.mantissa;
    unsigned all_ones = (1u << exponent_bits) - 1;
    unsigned sign = signbit(value) ? 1u << (bits - 1) : 0;
    value = fabs(round_small(f, value));
    if (isnan(value)) {
        unsigned mantissa = f.has_inf ? 1u << (f.mantissa - 1) : (1u << f.mantissa) - 1;
        return sign | all_ones << f.mantissa | mantissa;
    }
    if (isinf(value)) return sign | all_ones << f.mantissa;
    if (value == 0) return sign;
    int lowest = 1 - f.bias;
    if (value < power_of_two(lowest)) return sign | (unsigned)(value * power_of_two(f.mantissa - lowest));
    return sign | (unsigned)((bits_of(value) >> dropped_bits(f)) - rebias(f));
}

static double decode_small(Dtype t, unsigned code) {
    Format f = format_of(t);
    unsigned bits = dtype_bits(t), all_ones = (1u << (bits - 1 - (unsigned)f.mantissa)) - 1;
    double sign = code >> (bits - 1) & 1 ? -1.0 : 1.0;
    unsigned mantissa = code & ((1u << f.mantissa) - 1);
    unsigned exponent = code >> f.mantissa & all_ones;
    if (exponent == all_ones) {
        if (f.has_inf) return mantissa ? copysign(NAN, sign) : sign * INFINITY;
        if (mantissa == (1u << f.mantissa) - 1) return copysign(NAN, sign);
    }
    if (!exponent) return sign * mantissa * power_of_two(1 - f.bias - f.mantissa);
    uint64_t magnitude = code & ((1u << (bits - 1)) - 1);
    return sign * double_of((magnitude + rebias(f)) << dropped_bits(f));
}

/* ---- Memory ---- */

#define LOAD(T, memory) (*(const T *)memcpy(&(T){0}, (memory), sizeof(T)))

double dtype_read(Dtype t, const void *memory) {
    switch (t) {
    case DTYPE_F64:
        return LOAD(double, memory);
    case DTYPE_F32:
        return (double)LOAD(float, memory);
    case DTYPE_BF16:
    case DTYPE_F16:
        return decode_small(t, LOAD(uint16_t, memory));
    case DTYPE_F8E4M3:
    case DTYPE_F8E5M2:
        return decode_small(t, LOAD(uint8_t, memory));
    case DTYPE_U64:
        return (double)LOAD(uint64_t, memory);
    default:
        return (double)dtype_read_int(t, memory);
    }
}

void dtype_write(Dtype t, void *memory, double value) {
    if (!dtype_is_float(t)) {
        int64_t integer = t == DTYPE_U64    ? (int64_t)saturate_u64(value)
                          : t == DTYPE_BOOL ? value != 0
                                            : saturate(value, int_min(t), int_max(t));
        dtype_write_int(t, memory, integer);
        return;
    }
    float single = (float)value;
    unsigned code = t == DTYPE_F64 || t == DTYPE_F32 ? 0 : encode_small(format_of(t), dtype_bits(t), value);
    uint16_t half = (uint16_t)code;
    uint8_t byte = (uint8_t)code;
    const void *bytes = &value;
    if (t == DTYPE_F32)
        bytes = &single;
    else if (dtype_bits(t) == 16)
        bytes = &half;
    else if (dtype_bits(t) == 8)
        bytes = &byte;
    memcpy(memory, bytes, dtype_size(t));
}

void dtype_write_all(Dtype t, void *memory, const double *values, size_t count) {
    Format f = format_of(t);
    if (t == DTYPE_F64) {
        memcpy(memory, values, count * sizeof *values);
    } else if (t == DTYPE_F32) {
        float *to = memory;
        for (size_t i = 0; i < count; i++) to[i] = (float)values[i];
    } else if (t == DTYPE_F16 || t == DTYPE_BF16) {
        uint16_t *to = memory;
        for (size_t i = 0; i < count; i++) to[i] = (uint16_t)encode_small(f, 16, values[i]);
    } else {
        size_t size = dtype_size(t);
        for (size_t i = 0; i < count; i++) dtype_write(t, (char *)memory + i * size, values[i]);
    }
}

int64_t dtype_read_int(Dtype t, const void *memory) {
    switch (t) {
    case DTYPE_I64:
    case DTYPE_U64:
        return LOAD(int64_t, memory);
    case DTYPE_I32:
        return LOAD(int32_t, memory);
    case DTYPE_I16:
        return LOAD(int16_t, memory);
    case DTYPE_I8:
        return LOAD(int8_t, memory);
    case DTYPE_U32:
        return LOAD(uint32_t, memory);
    case DTYPE_U16:
        return LOAD(uint16_t, memory);
    case DTYPE_U8:
        return LOAD(uint8_t, memory);
    case DTYPE_BOOL:
        return LOAD(uint8_t, memory) != 0;
    default:
        return dtype_is_float(t) ? saturate(dtype_read(t, memory), INT64_MIN, INT64_MAX) : 0;
    }
}

void dtype_write_int(Dtype t, void *memory, int64_t value) {
    if (dtype_is_float(t)) {
        dtype_write(t, memory, (double)value);
        return;
    }
    if (t == DTYPE_BOOL) value = value != 0;
    uint32_t word = (uint32_t)value;
    uint16_t half = (uint16_t)value;
    uint8_t byte = (uint8_t)value;
    const void *bytes = &value;
    if (dtype_bits(t) == 32)
        bytes = &word;
    else if (dtype_bits(t) == 16)
        bytes = &half;
    else if (dtype_bits(t) == 8)
        bytes = &byte;
    memcpy(memory, bytes, dtype_size(t));
}

void dtype_unify_nans(Dtype t, void *memory, size_t count) {
    size_t size = dtype_size(t);
    for (unsigned char *at = memory; count-- > 0; at += size)
        if (isnan(dtype_read(t, at))) dtype_write(t, at, (double)NAN);
}

/* ---- Precisions of products ---- */

static const Precision precisions[] = {
#define PRECISION(id, name, bits, factors, parts, sums, summary) {name, bits, DTYPE_##factors, parts, sums},
#include "precisions.def"
};

const Precision *precision_find(const char *name) {
    for (size_t i = 0; i < COUNT_OF(precisions); i++)
        if (strcmp(precisions[i].name, name) == 0) return &precisions[i];
    return NULL;
}

const char *precision_names(void) {
    static const char text[] =
#define PRECISION(id, name, bits, factors, parts, sums, summary) " " name
#include "precisions.def"
        ;
    return text + 1;
}
