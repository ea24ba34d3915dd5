/* Scalars: the affine form and the constant value of operations on them. */
#include "sema_internal.h"

#include <math.h>

const Aff *sema_fold_affine(AffCtx *c, BuiltinId id, const Aff *a, const Aff *b) {
    switch (id) {
    case BUILTIN_NEG:
        return aff_sub(c, aff_const(c, 0), a);
    case BUILTIN_PLUS:
        return a;
    case BUILTIN_ADD:
        return aff_add(c, a, b);
    case BUILTIN_SUB:
        return aff_sub(c, a, b);
    case BUILTIN_MUL:
        return aff_mul(c, a, b);
    case BUILTIN_FLOORDIV:
        return aff_floordiv(c, a, b);
    case BUILTIN_MOD:
        return aff_mod(c, a, b);
    case BUILTIN_MIN:
        return aff_min(c, a, b);
    case BUILTIN_MAX:
        return aff_max(c, a, b);
    case BUILTIN_CEIL:
        return b ? aff_ceildiv(c, a, b) : a;
    default:
        return NULL;
    }
}

bool sema_folds(BuiltinId id, bool two) {
    switch (id) {
    case BUILTIN_NEG:
    case BUILTIN_PLUS:
        return !two;
    case BUILTIN_ADD:
    case BUILTIN_SUB:
    case BUILTIN_MUL:
    case BUILTIN_FLOORDIV:
    case BUILTIN_MOD:
    case BUILTIN_MIN:
    case BUILTIN_MAX:
        return two;
    default:
        return false;
    }
}

static double number(const ConstValue *v) {
    return v->kind == CONST_FLOAT ? v->f : (double)v->i;
}

static bool fold_float(BuiltinId id, double a, double b, double *out) {
    switch (id) {
    case BUILTIN_NEG:
        *out = -a;
        return true;
    case BUILTIN_PLUS:
        *out = a;
        return true;
    case BUILTIN_ADD:
        *out = a + b;
        return true;
    case BUILTIN_SUB:
        *out = a - b;
        return true;
    case BUILTIN_MUL:
        *out = a * b;
        return true;
    case BUILTIN_DIV:
        *out = a / b;
        return true;
    case BUILTIN_MIN:
        *out = a < b || isnan(a) ? a : b;
        return true;
    case BUILTIN_MAX:
        *out = a > b || isnan(a) ? a : b;
        return true;
    case BUILTIN_ABS:
        *out = fabs(a);
        return true;
    case BUILTIN_SQRT:
        *out = sqrt(a);
        return true;
    default:
        return false;
    }
}

static bool fold_compare(BuiltinId id, double a, double b, bool *out) {
    switch (id) {
    case BUILTIN_EQ:
        *out = a == b;
        return true;
    case BUILTIN_NE:
        *out = a != b;
        return true;
    case BUILTIN_LT:
        *out = a < b;
        return true;
    case BUILTIN_LE:
        *out = a <= b;
        return true;
    case BUILTIN_GT:
        *out = a > b;
        return true;
    case BUILTIN_GE:
        *out = a >= b;
        return true;
    case BUILTIN_AND:
        *out = a != 0 && b != 0;
        return true;
    case BUILTIN_OR:
        *out = a != 0 || b != 0;
        return true;
    case BUILTIN_NOT:
        *out = a == 0;
        return true;
    default:
        return false;
    }
}

/* Small integer powers of constants, as in 2**20. */
static bool fold_power(const ConstValue *a, const ConstValue *b, int64_t *out) {
    if (a->kind != CONST_INT || b->kind != CONST_INT || b->i < 0 || b->i > 62) return false;
    int64_t product = 1;
    for (int64_t i = 0; i < b->i; i++)
        if (__builtin_mul_overflow(product, a->i, &product)) return false;
    *out = product;
    return true;
}

/* ceil(M / BM): the true division of two integers, rounded up, is ceiling division. */
static const Expr *ceiled_quotient(const Expr *e) {
    const Expr *q = e->bound[0];
    return e->builtin == BUILTIN_CEIL && !e->bound[1] && q->builtin == BUILTIN_DIV ? q : NULL;
}

static const Aff *ceil_of_division(Sema *s, const Expr *e) {
    const Expr *q = ceiled_quotient(e);
    const Aff *a = q ? q->bound[0]->affine : NULL, *b = q ? q->bound[1]->affine : NULL;
    return a && b ? aff_ceildiv(s->aff, a, b) : NULL;
}

/* A count of tiles of no lanes: 0 by the language's rule, so that the loop would not run. */
static bool counts_empty_tiles(const Expr *e) {
    const Expr *q = ceiled_quotient(e), *by = q ? q->bound[1] : e->builtin == BUILTIN_CEIL ? e->bound[1] : NULL;
    int64_t size;
    return by && by->affine && aff_is_const(by->affine, &size) && size == 0;
}

/* A choice by what is known when compiling. */
static void fold_where(Sema *s, Expr *e) {
    if (e->bound[0]->value.kind != CONST_BOOL) return;
    const Expr *taken = e->bound[e->bound[0]->value.i ? 1 : 2];
    e->value = taken->value;
    if (taken->affine) sema_set_affine(s, e, taken->affine);
}

void sema_fold(Sema *s, Expr *e) {
    if (e->builtin == BUILTIN_WHERE) {
        fold_where(s, e);
        return;
    }
    const Expr *a = e->bound[0], *b = e->bound_count > 1 ? e->bound[1] : NULL;
    const Aff *affine = ceil_of_division(s, e);
    bool truth;
    int64_t power;
    double value;
    if (counts_empty_tiles(e)) {
        sema_error(s, DIAG_bad_argument, e->span, "ceil divides by 0 here; a tile has at least one lane");
        sema_set_error(e);
        return;
    }
    if (!affine && a->affine && (!b || b->affine)) affine = sema_fold_affine(s->aff, e->builtin, a->affine, b ? b->affine : NULL);
    if (affine) {
        sema_set_affine(s, e, affine);
        return;
    }
    if (!a->value.kind || a->value.kind == CONST_STRING || (b && (!b->value.kind || b->value.kind == CONST_STRING))) return;
    double x = number(&a->value), y = b ? number(&b->value) : 0;
    if (fold_compare(e->builtin, x, y, &truth))
        e->value = (ConstValue){CONST_BOOL, truth, truth, NULL};
    else if (e->builtin == BUILTIN_POW && b && fold_power(&a->value, &b->value, &power)) {
        e->type = type_scalar(DTYPE_I64);
        sema_set_affine(s, e, aff_const(s->aff, power));
    } else if (fold_float(e->builtin, x, y, &value))
        e->value = (ConstValue){CONST_FLOAT, 0, value, NULL};
}
