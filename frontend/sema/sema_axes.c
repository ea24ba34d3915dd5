/* Type rules of operations along axes: folded axes, scans, sorts, joins, indices. */
#include "sema_internal.h"

static bool one_axis(Sema *s, Expr *e, Expr *item, uint32_t *axes) {
    int64_t value, rank = e->type.rank;
    if (!sema_const_int(s, item, "the axis", &value)) return false;
    if (value < -rank || value >= rank) {
        diag_report(s->diags, DIAG_bad_axis, item->span, (long long)value, (long long)rank);
        return false;
    }
    uint32_t bit = (uint32_t)1 << (value < 0 ? value + rank : value);
    if (*axes & bit) {
        sema_error(s, DIAG_bad_argument, item->span, "axis %lld stands twice", (long long)value);
        return false;
    }
    *axes |= bit;
    return true;
}

bool sema_axes(Sema *s, Expr *arg, const Type *x, uint32_t *axes) {
    Expr shape = {.type = *x};
    *axes = 0;
    bool is_list = arg->kind == EXPR_LIST || arg->kind == EXPR_TUPLE;
    if (!is_list) return one_axis(s, &shape, arg, axes);
    arg->type = (Type){.kind = TYPE_LIST};
    for (size_t i = 0; i < arg->u.list.count; i++)
        if (!one_axis(s, &shape, arg->u.list.items[i], axes)) return false;
    return true;
}

bool sema_flags(Sema *s, Expr *e, const CallInfo *info) {
    static const char *const names[] = {"reverse", "exclusive", "descending"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        bool value;
        Expr *arg = sema_argument(e, info, names[i]);
        if (arg && !sema_const_bool(s, arg, names[i], &value)) return false;
    }
    return true;
}

/* The axis of an operation along one: the last unless axis= says which. */
static bool along(Sema *s, Expr *e, const CallInfo *info, const Type *x) {
    Expr *arg = sema_argument(e, info, "axis");
    uint32_t axes = 0;
    e->reduce_axis = x->rank - 1;
    if (!arg) return true;
    if (arg->kind == EXPR_LIST || arg->kind == EXPR_TUPLE) {
        sema_error(s, DIAG_bad_argument, arg->span, "`%s` works along one axis", builtin_info(e->builtin)->name);
        return false;
    }
    if (!sema_axes(s, arg, x, &axes)) return false;
    e->reduce_axis = __builtin_ctz(axes);
    return true;
}

static bool needs_shape(Sema *s, const Expr *e, Expr *x) {
    if (type_is_shaped(&x->type) && x->type.rank) return true;
    sema_error(s, DIAG_bad_operand, x->span, "`%s` needs a tile or tensor with an axis, not %s", builtin_info(e->builtin)->name,
               sema_type_text(s, &x->type));
    return false;
}

static const Aff **copy_shape(Sema *s, const Type *x) {
    const Aff **shape = ARENA_ARRAY(s->arena, const Aff *, AST_MAX_RANK);
    for (int i = 0; i < x->rank; i++) shape[i] = x->shape[i];
    return shape;
}

/* topk(x, k): values and indices, k along the axis. */
static bool topk(Sema *s, Expr *e, const CallInfo *info) {
    Expr *x = e->bound[0];
    int64_t value;
    if (!needs_shape(s, e, x) || !along(s, e, info, &x->type)) return false;
    const Aff *k = sema_scalar(s, e->bound[1], "k");
    if (!k) return false;
    if (aff_is_const(k, &value) && value < 0) {
        sema_error(s, DIAG_bad_extent, e->bound[1]->span, "an extent is never negative");
        return false;
    }
    const Aff *extent = x->type.shape[e->reduce_axis];
    if (aff_prove_le(s->facts, aff_add(s->aff, extent, aff_const(s->aff, 1)), k)) {
        sema_error(s, DIAG_bad_argument, e->bound[1]->span, "there are %s lanes, not %s", sema_aff_text(s, extent), sema_aff_text(s, k));
        return false;
    }
    Dtype t = sema_join_operands(e);
    const Aff **shape = copy_shape(s, &x->type);
    shape[e->reduce_axis] = k;
    e->type = (Type){.kind = x->type.kind, .rank = x->type.rank, .shape = shape, .dtype = t, .number = x->type.number};
    e->compute = t;
    return true;
}

static bool joins(Sema *s, Expr *e, const Type *a, const Type *b, Expr *at) {
    bool fits = a->rank == b->rank && a->kind == b->kind;
    for (int i = 0; fits && i < a->rank; i++) fits = i == e->reduce_axis || sema_same_extent(s, a->shape[i], b->shape[i]);
    if (fits) return true;
    sema_error(s, DIAG_bad_operand, at->span, "`concat` along axis %d needs equal other axes: %s, %s", e->reduce_axis, sema_type_text(s, a),
               sema_type_text(s, b));
    return false;
}

static bool concat(Sema *s, Expr *e, const CallInfo *info) {
    Expr **x = e->many;
    if (!needs_shape(s, e, x[0]) || !along(s, e, info, &x[0]->type)) return false;
    const Aff **shape = copy_shape(s, &x[0]->type);
    Type join = x[0]->type;
    for (size_t i = 1; i < e->many_count; i++) {
        if (!needs_shape(s, e, x[i]) || !joins(s, e, &x[0]->type, &x[i]->type, x[i])) return false;
        shape[e->reduce_axis] = aff_add(s->aff, shape[e->reduce_axis], x[i]->type.shape[e->reduce_axis]);
        join.dtype = type_join(&join, &x[i]->type);
        join.number &= x[i]->type.number;
    }
    if (!join.number)
        for (size_t i = 0; i < e->many_count; i++) sema_widen(s, x[i], join.dtype);
    e->type = (Type){.kind = join.kind, .rank = join.rank, .shape = shape, .number = join.number};
    e->type.dtype = e->compute = join.dtype ? join.dtype : DTYPE_F32;
    return true;
}

static bool iota(Sema *s, Expr *e, const CallInfo *info) {
    size_t rank;
    Expr *dtype = sema_argument(e, info, "dtype");
    const Aff **shape = sema_shape_list(s, e->bound[0], &rank);
    if (!shape) return false;
    e->type = (Type){.rank = (uint8_t)rank, .shape = shape, .dtype = DTYPE_I32};
    e->type.kind = s->block->kind == BLOCK_OPERATOR ? TYPE_TENSOR : TYPE_TILE;
    if (dtype && !sema_dtype_arg(s, dtype, &e->type.dtype)) return false;
    if (rank == 0 || e->type.dtype == DTYPE_BOOL) {
        sema_error(s, DIAG_bad_argument, e->span, "iota needs an axis, and a type of numbers");
        return false;
    }
    e->compute = e->type.dtype;
    return along(s, e, info, &e->type);
}

bool sema_is_shape(const Expr *e) {
    return e->kind == EXPR_LIST || e->kind == EXPR_TUPLE;
}

/* seed= and offset= are whole numbers, which may be known at launch only. */
static bool whole_number(Sema *s, const Expr *e, const CallInfo *info, const char *name) {
    Expr *arg = sema_argument(e, info, name);
    return !arg || sema_scalar(s, arg, name) != NULL;
}

static bool random_type(Sema *s, Expr *e) {
    size_t rank;
    Expr *x = e->bound[0];
    bool graph = s->block->kind == BLOCK_OPERATOR;
    if (sema_is_shape(x)) {
        const Aff **shape = sema_shape_list(s, x, &rank);
        e->type = (Type){.kind = graph ? TYPE_TENSOR : TYPE_TILE, .rank = (uint8_t)rank, .shape = shape};
        return shape != NULL;
    }
    e->type = x->type;
    e->type.presence = NULL;
    if (x->type.kind == TYPE_TILE && dtype_is_int(x->type.dtype)) return true;
    sema_error(s, DIAG_bad_operand, x->span, "`random` needs a shape%s, not %s", graph ? " in an operator" : " or a tile of integers",
               sema_type_text(s, &x->type));
    return false;
}

static bool random_values(Sema *s, Expr *e, const CallInfo *info) {
    Expr *dtype = sema_argument(e, info, "dtype");
    Dtype t = DTYPE_F32;
    if (!random_type(s, e) || !whole_number(s, e, info, "seed") || !whole_number(s, e, info, "offset") ||
        (dtype && !sema_dtype_arg(s, dtype, &t)))
        return false;
    e->type.dtype = e->compute = t;
    if (!dtype || dtype_is_float(t)) return true;
    sema_error(s, DIAG_bad_argument, dtype->span, "random gives floats");
    return false;
}

void sema_apply_axes(Sema *s, Expr *e, const CallInfo *info) {
    BuiltinRule rule = builtin_info(e->builtin)->rule;
    bool good = rule == RULE_TOPK     ? topk(s, e, info)
                : rule == RULE_CONCAT ? concat(s, e, info)
                : rule == RULE_RANDOM ? random_values(s, e, info)
                                      : iota(s, e, info);
    if (!good) sema_set_error(e);
}
