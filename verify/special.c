/* Special and extreme values: lines of a tensor (along one of its axes) that hold NaN, infinities, both zeros, denormals, numbers near the
 * largest, one value throughout, and so on, a kind a line, beside lines of the case's own data. What a kernel of rows does with a kind
 * shows in the rows that have it, so that one NaN does not hide all else. */
#include "scalars.h"
#include "verify.h"

#include <math.h>

/* How many elements in a row are a line where the tensor has one axis. */
enum { BLOCK = 16 };

typedef enum {
#define SPECIAL(id, summary) SPECIAL_##id,
#include "specials.def"
#undef SPECIAL
    SPECIAL_COUNT
} SpecialKind;

typedef enum {
#define INTEGER_SPECIAL(id, summary) INTEGER_##id,
#include "integer_specials.def"
#undef INTEGER_SPECIAL
    INTEGER_COUNT,
    INTEGER_BEYOND = INTEGER_BITS /* the first that leaves the range */
} IntegerKind;

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

typedef struct {
    uint64_t number, bits; /* of the line, drawn for it */
    int64_t at, length;    /* of the element in its line */
} Line;

static Line find_line(const InputSpec *s, int64_t index) {
    const Shape *shape = &s->shape;
    unsigned axis = s->special - 1;
    Line line = {0, 0, index % BLOCK, BLOCK};
    if (shape->rank < 2) {
        line.number = (uint64_t)(index / BLOCK);
    } else {
        int64_t inner = 1;
        for (unsigned d = axis + 1; d < shape->rank; d++) inner *= shape->extents[d];
        line.length = shape->extents[axis];
        line.at = index / inner % line.length;
        line.number = (uint64_t)(index / inner / line.length * inner + index % inner);
    }
    line.bits = mix(s->key[0] ^ mix(line.number + s->key[1]));
    return line;
}

/* The line's kind, one of `count` in turn. */
static unsigned kind_of(const InputSpec *s, const Line *line, unsigned count) {
    return (unsigned)((line->number + s->key[0] % count) % count);
}

static uint64_t bits_of(const Line *line, int64_t index) {
    return mix(line->bits + (uint64_t)index * UINT64_C(0x9E3779B97F4A7C15));
}

static double sign_of(uint64_t bits) {
    return bits & 1 ? -1 : 1;
}

/* `own`: the case's element; `first`: that of the line's beginning. */
static double value_of(const InputSpec *s, const Line *line, SpecialKind kind, uint64_t bits, double own) {
    Dtype dtype = s->shape.dtype;
    double u = (double)(bits >> 11) * 0x1p-53, largest = dtype_max(dtype), least = dtype_min_normal(dtype);
    bool chosen = line->at == (int64_t)(line->bits % (uint64_t)line->length);
    switch (kind) {
    case SPECIAL_ONE_NAN:
        return chosen ? NAN : own;
    case SPECIAL_ALL_NAN:
        return NAN;
    case SPECIAL_ONE_INF:
        return chosen ? INFINITY : own;
    case SPECIAL_ONE_MINUS_INF:
        return chosen ? -INFINITY : own;
    case SPECIAL_ALL_INF:
        return INFINITY;
    case SPECIAL_ALL_MINUS_INF:
        return -INFINITY;
    case SPECIAL_BOTH_INF:
        return bits % 4 == 0 ? INFINITY : bits % 4 == 1 ? -INFINITY : own;
    case SPECIAL_MASKED_FRONT:
        return 2 * line->at < line->length ? -INFINITY : own;
    case SPECIAL_MASKED_BACK:
        return 2 * line->at > line->length ? -INFINITY : own;
    case SPECIAL_MASKED_BUT_ONE:
        return chosen ? own : -INFINITY;
    case SPECIAL_LARGE:
        return sign_of(bits) * fmin(exp2(u * log2(1000)), largest / 2);
    case SPECIAL_HUGE:
        if (line->bits & 1) return sign_of(bits) * largest * (0.25 + 0.75 * u);
        return sign_of(bits) * least * exp2((double)(line->bits >> 11) * 0x1p-53 * (log2(largest) - log2(least) - 1)) * (1 + u);
    case SPECIAL_LARGEST:
        return largest;
    case SPECIAL_DENORMALS:
        return sign_of(bits) * least * u;
    case SPECIAL_TINY:
        return sign_of(bits) * least * (1 + u);
    case SPECIAL_ZEROS:
        return sign_of(bits) * 0.0;
    case SPECIAL_CONSTANT:
        return 1 + (double)(line->bits >> 11) * 0x1p-53;
    case SPECIAL_ONE_HOT:
        return chosen;
    default:
        return own;
    }
}

double input_special(const InputSpec *s, int64_t index, double own) {
    Line line = find_line(s, index);
    SpecialKind kind = (SpecialKind)kind_of(s, &line, SPECIAL_COUNT);
    return value_of(s, &line, kind, bits_of(&line, index), own);
}

/* ---- Integers ---- */

static int64_t within(int64_t lo, int64_t hi, uint64_t bits) {
    return (int64_t)((uint64_t)lo + bits % ((uint64_t)hi - (uint64_t)lo + 1));
}

static int64_t integer_of(const InputSpec *s, const Line *line, IntegerKind kind, uint64_t bits, int64_t own, int64_t lo, int64_t hi) {
    Dtype dtype = s->shape.dtype;
    bool chosen = line->at == (int64_t)(line->bits % (uint64_t)line->length);
    switch (kind) {
    case INTEGER_ONE_VALUE:
        return within(lo, hi, line->bits);
    case INTEGER_LEAST:
        return lo;
    case INTEGER_RISING:
        return within(lo, hi, (uint64_t)line->at);
    case INTEGER_GREATEST:
        return hi;
    case INTEGER_ONE_GREATEST:
        return chosen ? hi : lo;
    case INTEGER_BITS:
        return scalar_wrap(dtype, (int64_t)bits);
    case INTEGER_LOWEST:
        return scalar_limit(dtype, true);
    case INTEGER_ENDS:
        return bits % 4 < 2 ? scalar_limit(dtype, bits % 2) : own;
    case INTEGER_LENGTHS:
        return scalar_wrap(dtype, (int64_t)(bits >> 8) >> mix(bits) % 56);
    case INTEGER_HIGHEST:
        return scalar_limit(dtype, false);
    default:
        return own;
    }
}

int64_t input_special_integer(const InputSpec *s, int64_t index, int64_t own, int64_t lo, int64_t hi) {
    Line line = find_line(s, index);
    unsigned kind = s->beyond ? INTEGER_BEYOND + kind_of(s, &line, INTEGER_COUNT - INTEGER_BEYOND) : kind_of(s, &line, INTEGER_BEYOND);
    return integer_of(s, &line, (IntegerKind)kind, bits_of(&line, index), own, lo, hi);
}
