/* The generator is a counter-based 64-bit hash: the finaliser of splitmix64 (Steele, Lea, Flood
 * 2014; Stafford's mix 13) over key0 + index * golden ratio, with a second key between its rounds.
 * Normal numbers are its inverse distribution by Wichura's AS 241 (PPND7) with a logarithm of our
 * own, so that no math library's last bit enters: the same data on every machine. */
#include "verify.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

typedef struct {
    const char *name;
    unsigned min_args, max_args;
    double a, b;
} InputInfo;
static const InputInfo input_infos[INPUT_COUNT] = {
#define INPUT(id, name, min_args, max_args, a, b, summary) {name, min_args, max_args, a, b},
#include "inputs.def"
#undef INPUT
};

static inline uint64_t mix(const InputSpec *s, int64_t index) {
    uint64_t z = s->key[0] + (uint64_t)index * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z ^= s->key[1];
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* [0, 1) with 53 bits. */
static inline double unit(const InputSpec *s, int64_t index) {
    return (double)(int64_t)(mix(s, index) >> 11) * 0x1p-53;
}

static inline double own_log(double x) { /* x in (0, 1), no denormal, relative error near 1e-15 */
    static const double terms[] = {1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0};
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1022;
    bits = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1022) << 52;
    double m; /* in [1/2, 1) */
    memcpy(&m, &bits, sizeof m);
    if (m < 0.70710678118654752) {
        m *= 2;
        exponent--;
    }
    double f = (m - 1) / (m + 1), f2 = f * f, sum = 0;
    for (size_t k = 0; k < COUNT_OF(terms); k++) sum = sum * f2 + terms[k];
    return exponent * 0.69314718055994530942 + 2 * f * sum;
}

static inline double normal_quantile(double p) {
    double q = p - 0.5;
    if (fabs(q) <= 0.425) {
        double r = 0.180625 - q * q;
        return q * (((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179) /
               (((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0);
    }
    double r = sqrt(-own_log(q < 0 ? p : 1 - p)), x;
    if (r <= 5) {
        r -= 1.6;
        x = (((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777) / ((0.12021132975 * r + 0.73700164250) * r + 1.0);
    } else {
        r -= 5;
        x = (((0.017337203997 * r + 0.42868294337) * r + 3.0812263860) * r + 6.6579051150) /
            ((0.012258202635 * r + 0.24197894225) * r + 1.0);
    }
    return q < 0 ? -x : x;
}

static inline double spread(const InputSpec *s, int64_t index) {
    return s->a + (s->b - s->a) * unit(s, index);
}

static inline double normal(const InputSpec *s, int64_t index) {
    return s->a + s->b * normal_quantile(unit(s, index) + 0x1p-54);
}

/* 2^floor(x) (1 + x - floor(x)): exact in double, so that no library's exp2 enters. */
static double wide(const InputSpec *s, int64_t index) {
    double x = spread(s, index), whole = floor(x), value = ldexp(1 + (x - whole), (int)whole);
    return mix(s, index) & 1 ? -value : value; /* a bit that unit() leaves out */
}

/* Generators over the last two axes: the element's matrix, row and column. */
static double matrix_value(const InputSpec *s, int64_t index) {
    unsigned rank = s->shape.rank;
    int64_t columns = s->shape.extents[rank - 1], rows = s->shape.extents[rank - 2];
    int64_t column = index % columns, row = index / columns % rows;
    if (s->kind == INPUT_TRIU && column < row) return 0;
    if (s->kind == INPUT_TRIL && column > row) return 0;
    if (s->kind == INPUT_SYMMETRIC && column < row) index += (column - row) * columns + (row - column);
    return spread(s, index);
}

/* Neighbours 2k, 2k+1 of a row get (1 +- u) / n: the row's sum is 1 whatever u is. */
static double softmax_value(const InputSpec *s, int64_t index) {
    unsigned rank = s->shape.rank;
    int64_t n = rank ? s->shape.extents[rank - 1] : 1, column = index % n;
    if (column == n - 1 && n % 2) return 1.0 / (double)n;
    double u = unit(s, index - column % 2);
    return (column % 2 ? 1 - u : 1 + u) / (double)n;
}

static int64_t row_length(const InputSpec *s) {
    return s->shape.rank ? s->shape.extents[s->shape.rank - 1] : 1;
}

static int64_t one_hot_value(const InputSpec *s, int64_t index) {
    int64_t n = row_length(s);
    return index % n == (int64_t)(mix(s, index / n) % (uint64_t)n);
}

/* A bijection of [0, 4^half): four Feistel rounds on halves of `half` bits (Luby, Rackoff 1988). */
static uint64_t shuffle(const InputSpec *s, int64_t row, unsigned half, uint64_t x) {
    uint64_t mask = (UINT64_C(1) << half) - 1, left = x >> half, right = x & mask;
    for (int round = 0; round < 4; round++) {
        uint64_t salt = (uint64_t)row * 4 + (uint64_t)round;
        uint64_t next = left ^ (mix(s, (int64_t)(salt << 32 ^ right)) & mask);
        left = right;
        right = next;
    }
    return left << half | right;
}

/* The bijection is repeated until it leads back into [0, n). */
static int64_t permutation_value(const InputSpec *s, int64_t index) {
    int64_t n = row_length(s), row = index / n;
    unsigned half = 1;
    while (half < 31 && (INT64_C(1) << (2 * half)) < n) half++;
    uint64_t x = (uint64_t)(index % n);
    do x = shuffle(s, row, half, x);
    while (x >= (uint64_t)n);
    return (int64_t)x;
}

static bool makes_integers(const InputSpec *s) {
    return s->kind == INPUT_RANDINT || s->kind == INPUT_EXACT || s->kind == INPUT_ONE_HOT || s->kind == INPUT_PERMUTATION;
}

static int64_t integer_value(const InputSpec *s, int64_t index) {
    if (s->kind == INPUT_ONE_HOT) return one_hot_value(s, index);
    if (s->kind == INPUT_PERMUTATION) return permutation_value(s, index);
    bool positive = !dtype_is_signed(s->shape.dtype);
    int64_t lo = s->kind == INPUT_RANDINT ? (int64_t)s->a : positive ? 0 : -(int64_t)s->a;
    int64_t hi = s->kind == INPUT_RANDINT ? (int64_t)s->b : (int64_t)s->a + 1;
    int64_t left_out = s->nonzero && lo <= 0;
    uint64_t range = (uint64_t)hi - (uint64_t)lo - (uint64_t)left_out;
    uint64_t bits = mix(s, index);
    if (s->kind == INPUT_EXACT && s->b < 1 && (double)(uint32_t)bits >= s->b * 0x1p32) return 0;
    int64_t value = lo + (int64_t)(((bits >> 32) * range) >> 32);
    if (value >= 0) value += left_out;
    return s->special ? input_special_integer(s, index, value, lo, hi - 1) : value;
}

static double plain_value(const InputSpec *s, int64_t index) {
    switch (s->kind) {
    case INPUT_UNIFORM:
        return spread(s, index);
    case INPUT_NORMAL:
        return normal(s, index);
    case INPUT_ZEROS:
    case INPUT_ONES:
    case INPUT_CONST:
        return s->a;
    case INPUT_ARANGE:
        return s->a + s->b * (double)index;
    case INPUT_SYMMETRIC:
    case INPUT_TRIU:
    case INPUT_TRIL:
        return matrix_value(s, index);
    case INPUT_SOFTMAX:
        return softmax_value(s, index);
    case INPUT_WIDE:
        return wide(s, index);
    default:
        return (double)integer_value(s, index);
    }
}

static double real_value(const InputSpec *s, int64_t index) {
    double own = plain_value(s, index);
    return s->special ? input_special(s, index, own) : own;
}

static void write_element(const InputSpec *s, void *memory, int64_t index) {
    Dtype dtype = s->shape.dtype;
    if (makes_integers(s) && !dtype_is_float(dtype))
        dtype_write_int(dtype, memory, integer_value(s, index));
    else
        dtype_write(dtype, memory, real_value(s, index));
}

double input_value(const InputSpec *spec, int64_t index) {
    unsigned char memory[16];
    write_element(spec, memory, index);
    return dtype_read(spec->shape.dtype, memory);
}

int64_t input_value_int(const InputSpec *spec, int64_t index) {
    unsigned char memory[16];
    write_element(spec, memory, index);
    return dtype_read_int(spec->shape.dtype, memory);
}

void input_values(const InputSpec *spec, size_t count, const int64_t *indices, double *values) {
    if (spec->kind == INPUT_UNIFORM && spec->shape.dtype == DTYPE_F32 && !spec->special) {
        for (size_t i = 0; i < count; i++) values[i] = (float)spread(spec, indices[i]);
        return;
    }
    for (size_t i = 0; i < count; i++) values[i] = input_value(spec, indices[i]);
}

/* ---- Specs ---- */

static void set_keys(InputSpec *spec, uint64_t seed, const char *name) {
    Hash128 hash = hash128(name, strlen(name), (Hash128){seed, UINT64_C(0x736b65746368)});
    spec->key[0] = hash.lo;
    spec->key[1] = hash.hi;
}

static bool arguments_fit(const InputSpec *spec, const char **error) {
    unsigned rank = spec->shape.rank;
    bool matrix = spec->kind == INPUT_SYMMETRIC || spec->kind == INPUT_TRIU || spec->kind == INPUT_TRIL;
    if (matrix && rank < 2) {
        *error = "this generator needs a tensor of rank 2 or more";
    } else if (spec->kind == INPUT_SYMMETRIC && spec->shape.extents[rank - 1] != spec->shape.extents[rank - 2]) {
        *error = "symmetric needs its last two extents equal";
    } else if (spec->kind == INPUT_RANDINT && !(fabs(spec->a) <= 0x1p31 && fabs(spec->b) <= 0x1p31 && floor(spec->a) == spec->a &&
                                                floor(spec->b) == spec->b && spec->a < spec->b)) {
        *error = "randint needs integers lo < hi within 2^31";
    } else if (spec->kind == INPUT_EXACT &&
               !(spec->a >= 0 && spec->a <= 0x1p20 && floor(spec->a) == spec->a && spec->b >= 0 && spec->b <= 1)) {
        *error = "exact needs an integer from 0 to 2^20 and a share from 0 to 1";
    } else if (spec->kind == INPUT_WIDE && !(spec->a >= -1100 && spec->b <= 1024 && spec->a <= spec->b)) {
        *error = "wide needs powers of two lo <= hi from -1100 to 1024";
    } else {
        return true;
    }
    return false;
}

bool input_spec_init(InputSpec *spec, uint64_t seed, const Shape *shape, const char *generator, size_t arg_count, const double *args,
                     const char **error) {
    int kind = 0;
    while (kind < INPUT_COUNT && strcmp(input_infos[kind].name, generator) != 0) kind++;
    if (kind == INPUT_COUNT) {
        *error = "unknown generator";
        return false;
    }
    const InputInfo *info = &input_infos[kind];
    if (arg_count < info->min_args || arg_count > info->max_args) {
        *error = "wrong number of arguments to the generator";
        return false;
    }
    *spec = (InputSpec){.kind = (InputKind)kind, .shape = *shape, .a = info->a, .b = info->b};
    if (arg_count > 0) spec->a = args[0];
    if (arg_count > 1) spec->b = args[1];
    set_keys(spec, seed, shape->name);
    return arguments_fit(spec, error);
}

bool input_spec_of_case(InputSpec *spec, uint64_t seed, const Shape *shape, const IrCaseData *data, const Sizes *sizes, bool *empty,
                        const char **error) {
    double args[4];
    bool sized = false;
    *empty = false;
    if (data->arg_count > COUNT_OF(args)) {
        *error = "wrong number of arguments to the generator";
        return false;
    }
    for (size_t i = 0; i < data->arg_count; i++) {
        int64_t value = 0;
        args[i] = data->args[i].number;
        if (!data->args[i].size) continue;
        if (!sizes || !sizes_eval(sizes, data->args[i].size, &value)) {
            *error = "it depends on a size that is not known";
            return false;
        }
        args[i] = (double)value;
        sized = true;
    }
    *empty = sized && strcmp(data->generator, "randint") == 0 && data->arg_count == 2 && args[0] >= args[1];
    return input_spec_init(spec, seed, shape, data->generator, data->arg_count, args, error);
}

void input_spec_default(InputSpec *spec, uint64_t seed, const Shape *shape) {
    *spec = (InputSpec){.kind = INPUT_RANDINT, .shape = *shape, .a = -8, .b = 8};
    if (dtype_is_float(shape->dtype)) {
        spec->kind = INPUT_UNIFORM;
        spec->a = -1;
        spec->b = 1;
    } else if (!dtype_is_signed(shape->dtype)) {
        spec->a = 0;
        spec->b = shape->dtype == DTYPE_BOOL ? 2 : 16;
    }
    set_keys(spec, seed, shape->name);
}

void input_spec_exact(InputSpec *spec, uint64_t seed, const Shape *shape) {
    double bound = shape->dtype == DTYPE_BOOL ? 1 : input_infos[INPUT_EXACT].a;
    *spec = (InputSpec){.kind = INPUT_EXACT, .shape = *shape, .a = bound, .b = input_infos[INPUT_EXACT].b};
    set_keys(spec, seed, shape->name);
}

bool input_spec_thin(InputSpec *spec, double share) {
    if (spec->kind != INPUT_EXACT) return false;
    spec->a = 1;
    spec->b = share;
    spec->nonzero &= share >= 1;
    return true;
}

/* ---- Filling ---- */

typedef struct {
    const InputSpec *spec;
    unsigned char *buffer; /* element `begin` of the tensor first */
    int64_t begin;
    atomic_llong difference; /* the least index found */
} Fill;

enum { GRAIN = 1 << 16, STRIP = 512 };

static void fill_strip(const InputSpec *spec, unsigned char *out, int64_t begin, int64_t end) {
    const InputSpec s = *spec; /* which nothing written can change */
    size_t size = dtype_size(s.shape.dtype), count = (size_t)(end - begin);
    double values[STRIP];
    if (s.kind == INPUT_UNIFORM && !s.special) {
        for (size_t i = 0; i < count; i++) values[i] = spread(&s, begin + (int64_t)i);
    } else if (s.kind == INPUT_NORMAL && !s.special) {
        for (size_t i = 0; i < count; i++) values[i] = normal(&s, begin + (int64_t)i);
    } else if (dtype_is_float(s.shape.dtype)) {
        for (size_t i = 0; i < count; i++) values[i] = real_value(&s, begin + (int64_t)i);
    } else {
        for (size_t i = 0; i < count; i++) write_element(&s, out + i * size, begin + (int64_t)i);
        return;
    }
    dtype_write_all(s.shape.dtype, out, values, count);
}

static void fill_piece(void *ctx, int64_t begin, int64_t end) {
    Fill *fill = ctx;
    size_t size = dtype_size(fill->spec->shape.dtype);
    for (int64_t at = begin; at < end; at += STRIP)
        fill_strip(fill->spec, fill->buffer + (size_t)at * size, fill->begin + at, fill->begin + (end - at < STRIP ? end : at + STRIP));
}

void input_fill(const InputSpec *spec, void *buffer, int64_t begin, int64_t end, unsigned threads) {
    Fill fill = {.spec = spec, .buffer = buffer, .begin = begin};
    verify_parallel(end - begin, GRAIN, threads, fill_piece, &fill);
}

static void note_difference(Fill *fill, long long index) {
    long long seen = atomic_load(&fill->difference);
    while ((seen < 0 || index < seen) && !atomic_compare_exchange_weak(&fill->difference, &seen, index)) {
    }
}

static void compare_piece(void *ctx, int64_t begin, int64_t end) {
    Fill *fill = ctx;
    size_t size = dtype_size(fill->spec->shape.dtype);
    double aligned[STRIP];
    unsigned char *strip = (unsigned char *)aligned;
    for (int64_t at = begin; at < end; at += STRIP) {
        int64_t count = end - at < STRIP ? end - at : STRIP;
        fill_strip(fill->spec, strip, fill->begin + at, fill->begin + at + count);
        const unsigned char *have = fill->buffer + (size_t)at * size;
        if (memcmp(strip, have, (size_t)count * size) == 0) continue;
        int64_t i = 0;
        while (memcmp(strip + (size_t)i * size, have + (size_t)i * size, size) == 0) i++;
        note_difference(fill, fill->begin + at + i);
        return;
    }
}

int64_t input_find_difference(const InputSpec *spec, const void *buffer, int64_t begin, int64_t end, unsigned threads) {
    Fill fill = {.spec = spec, .buffer = (unsigned char *)(uintptr_t)buffer, .begin = begin};
    atomic_init(&fill.difference, -1);
    verify_parallel(end - begin, GRAIN, threads, compare_piece, &fill);
    return (int64_t)atomic_load(&fill.difference);
}
