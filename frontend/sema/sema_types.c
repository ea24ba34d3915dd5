#include "sema_internal.h"

static int type_class(Dtype t) {
    if (dtype_is_float(t)) return 3;
    return t == DTYPE_BOOL ? 1 : 2;
}

static Dtype signed_of_size(size_t bytes) {
    return bytes >= 8 ? DTYPE_I64 : bytes == 4 ? DTYPE_I32 : bytes == 2 ? DTYPE_I16 : DTYPE_I8;
}

/* A float beats an integer beats bool; the wider of one class wins; two floats of one width give
 * f32; an unsigned with a signed integer gives the signed one that holds both (u64: i64). */
Dtype dtype_join(Dtype a, Dtype b) {
    if (a == b || b == DTYPE_NONE) return a;
    if (a == DTYPE_NONE) return b;
    int ca = type_class(a), cb = type_class(b);
    if (ca != cb) return ca > cb ? a : b;
    size_t sa = dtype_size(a), sb = dtype_size(b);
    if (ca == 3 && sa == sb) return DTYPE_F32;
    if (ca == 2 && dtype_is_signed(a) != dtype_is_signed(b)) {
        size_t s = dtype_is_signed(a) ? sa : sb, u = dtype_is_signed(a) ? sb : sa;
        return signed_of_size(s > 2 * u ? s : 2 * u);
    }
    return sa > sb ? a : b;
}

Dtype dtype_temporary(Dtype t) {
    return dtype_is_float(t) && dtype_size(t) < 4 ? DTYPE_F32 : t;
}

/* A scalar is weak: it raises the class (integer to float) but not the width. */
static Dtype join_weak(Dtype strong, Dtype weak) {
    if (strong == DTYPE_NONE) return DTYPE_NONE;
    if (type_class(weak) <= type_class(strong)) return strong;
    return dtype_is_float(weak) ? DTYPE_F32 : DTYPE_I32;
}

/* 0: a float made of numbers, which yields to all others; 1: another scalar; 2: what has a type of its own. */
static int join_rank(const Type *t) {
    return type_is_number(t) ? 0 : t->weak ? 1 : 2;
}

Dtype type_join(const Type *a, const Type *b) {
    int ra = join_rank(a), rb = join_rank(b);
    if (ra == rb || (a->number && b->number)) return dtype_join(a->dtype, b->dtype);
    return ra < rb ? join_weak(b->dtype, a->dtype) : join_weak(a->dtype, b->dtype);
}

bool type_is_number(const Type *t) {
    return t->number && dtype_is_float(t->dtype);
}

bool type_is_shaped(const Type *t) {
    return t->kind == TYPE_TILE || t->kind == TYPE_TENSOR;
}

Type type_scalar(Dtype dtype) {
    return (Type){.kind = TYPE_SCALAR, .dtype = dtype, .weak = true, .number = true};
}

Type type_element(Dtype dtype) {
    return (Type){.kind = TYPE_SCALAR, .dtype = dtype};
}
