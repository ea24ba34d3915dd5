/* Storage types and exact conversions between them and double / int64. */
#ifndef SUPPORT_DTYPE_H
#define SUPPORT_DTYPE_H

#include "support.h"

typedef enum {
    DTYPE_NONE,
#define DTYPE(id, spelling, bits, cls, c, cuda, npy) DTYPE_##id,
#include "dtypes.def"
#undef DTYPE
    DTYPE_COUNT
} Dtype;

const char *dtype_name(Dtype t); /* "f32" */
bool dtype_find(const char *name, Dtype *t);
/* Asked for every element by evaluator and interpreter: in line. */
enum { DTYPE_CLASS_I, DTYPE_CLASS_F, DTYPE_CLASS_U, DTYPE_CLASS_B };
extern const struct DtypeFacts { uint8_t bits, cls; } dtype_facts[DTYPE_COUNT];
static inline struct DtypeFacts dtype_facts_of(Dtype t) {
    return dtype_facts[(unsigned)t < DTYPE_COUNT ? t : DTYPE_NONE];
}
static inline unsigned dtype_bits(Dtype t) {
    return dtype_facts_of(t).bits;
}
static inline size_t dtype_size(Dtype t) {
    return dtype_bits(t) / 8;
} /* bytes in memory */
static inline bool dtype_is_float(Dtype t) {
    return dtype_facts_of(t).cls == DTYPE_CLASS_F;
}
static inline bool dtype_is_int(Dtype t) { /* signed or unsigned, not bool */
    return t != DTYPE_NONE && (dtype_facts_of(t).cls == DTYPE_CLASS_I || dtype_facts_of(t).cls == DTYPE_CLASS_U);
}
static inline bool dtype_is_signed(Dtype t) { /* floats and signed integers */
    return t != DTYPE_NONE && (dtype_facts_of(t).cls == DTYPE_CLASS_F || dtype_facts_of(t).cls == DTYPE_CLASS_I);
}
const char *dtype_c_name(Dtype t);
const char *dtype_cuda_name(Dtype t);
const char *dtype_npy(Dtype t);
/* Unit roundoff u = 2^-p with p the precision in bits (f32: 2^-24); 0 for integers. */
double dtype_unit_roundoff(Dtype t);
double dtype_max(Dtype t);        /* largest finite value */
double dtype_min_normal(Dtype t); /* smallest positive normal; denormals are kept */

/* How the factors of a product are read: a row of precisions.def; null when there is none so called. */
typedef struct {
    const char *name;
    int bits;      /* of a factor's significand */
    Dtype factors; /* in which they are multiplied; f32 where fewer bits count: as tf32 */
    int parts;     /* of a factor, whose sum it is */
    int sums;      /* bits of the largest term that sums of products keep at least, where tensor cores add */
} Precision;
const Precision *precision_find(const char *name);
const char *precision_names(void); /* "f64 f32 ...", for a message */

/* Reads / writes one element at `memory`. Writing rounds to nearest even (floats; overflow gives
 * infinity, in f8e4m3 NaN as it has none); integers saturate from double, NaN gives 0. */
double dtype_read(Dtype t, const void *memory);
void dtype_write(Dtype t, void *memory, double value);
/* The same for `count` elements in a row; memory is aligned for them. */
void dtype_write_all(Dtype t, void *memory, const double *values, size_t count);
/* Integer types without the detour over double; bool counts as 0 or 1. */
int64_t dtype_read_int(Dtype t, const void *memory);
void dtype_write_int(Dtype t, void *memory, int64_t value); /* wraps */
/* Gives every NaN among `count` floats the same bits. */
void dtype_unify_nans(Dtype t, void *memory, size_t count);
/* The double that `value` becomes when stored as `t` and read back. */
double dtype_round(Dtype t, double value);

#endif
