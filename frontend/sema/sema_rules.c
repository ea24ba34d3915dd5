/* Type rules of calls: what elementwise operations, reductions and scans make of their operands. */
#include "sema_internal.h"

#include <string.h>

/* ---- Types of elements ---- */

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

Dtype sema_dtype(Sema *s, const char *name, Span span) {
    static const char *const NAMES[] = {
#define DTYPE(id, spelling, ...) spelling,
#include "dtypes.def"
#undef DTYPE
    };
    Dtype t = DTYPE_NONE;
    if (dtype_find(name, &t)) return t;
    const char *close = foreign_dtype(name);
    if (!close) close = closest_name(name, NAMES, COUNT_OF(NAMES));
    Diag *d = diag_report(s->diags, DIAG_unknown_dtype, span, name);
    if (strcmp(name, "tf32") == 0)
        diag_note(s->diags, d, SPAN_NONE, "tf32 is a precision of gemm, not a storage type");
    else if (close) {
        diag_note(s->diags, d, SPAN_NONE, "did you mean `%s`?", close);
        diag_fix(s->diags, d, span, close, "use this type");
    }
    return DTYPE_F32;
}

/* ---- Type rules ---- */

bool sema_bad_operand(Sema *s, Expr *operand, const char *name, const char *needs) {
    if (s->defining) name = s->defining->name;
    sema_error(s, DIAG_bad_operand, operand->span, "`%s` needs %s, not %s", name, needs, sema_type_text(s, &operand->type));
    return false;
}

static size_t operand_count(const Expr *e) {
    size_t count = 0;
    const BuiltinInfo *row = builtin_info(e->builtin);
    size_t limit = row->rule == RULE_UNARY || row->rule == RULE_UNARY_REAL || row->class == CLASS_REDUCE || row->rule == RULE_CAST ||
                           row->rule == RULE_SAME_SHAPE || row->rule == RULE_TRANSPOSE || row->rule == RULE_RESHAPE ||
                           row->rule == RULE_BROADCAST || row->rule == RULE_TOPK || row->rule == RULE_CONCAT
                       ? 1
                   : row->rule == RULE_WHERE || row->rule == RULE_TERNARY ? 3
                                                                          : 2;
    while (count < limit && count < e->bound_count && e->bound[count]) count++;
    return count;
}

void sema_settle(Expr *operand, Dtype join) {
    if (operand->type.kind != TYPE_TILE || operand->type.dtype != DTYPE_NONE) return;
    Dtype t = join ? dtype_temporary(join) : DTYPE_F32;
    operand->type.dtype = t;
    if (operand->decl) operand->decl->type.dtype = t;
}

/* Whether a value hangs on one that says its own type: a declared scalar, also by way of names and comparisons. */
static bool hangs_on_scalar(const Expr *e) {
    const Decl *d = e->kind == EXPR_NAME ? e->decl : NULL;
    if (d && d->kind == DECL_SCALAR) return true;
    const Expr *value = !d ? NULL : d->value ? d->value : d->site ? d->site->value : NULL;
    if (value && value->type.kind == TYPE_SCALAR) return hangs_on_scalar(value);
    for (size_t i = 0; !d && i < e->bound_count; i++)
        if (e->bound[i] && hangs_on_scalar(e->bound[i])) return true;
    return false;
}

/* Whether an operand has lanes, hangs on an index, or chooses by a scalar: what is made of numbers and sizes alone is computed once, in
 * f64. */
static bool repeats(const Expr *e) {
    for (size_t i = 0, n = operand_count(e); i < n; i++)
        if (type_is_shaped(&e->bound[i]->type) || e->bound[i]->type.moves) return true;
    return e->builtin == BUILTIN_WHERE && hangs_on_scalar(e->bound[0]);
}

/* The join of the operands from `first` on: its type, and whether it is made of numbers alone. */
static Type join_operands(Expr *e) {
    const BuiltinInfo *row = builtin_info(e->builtin);
    size_t first = row->rule == RULE_WHERE ? 1 : 0, count = operand_count(e);
    Type join = {0};
    for (size_t i = first; i < count; i++) {
        const Type *t = &e->bound[i]->type;
        if (!join.kind) {
            join = *t;
            continue;
        }
        join.dtype = type_join(&join, t);
        join.number &= t->number;
        join.weak &= t->weak;
        if (t->kind != TYPE_SCALAR) join.kind = t->kind;
    }
    for (size_t i = first; i < count; i++) sema_settle(e->bound[i], join.dtype);
    if (type_is_number(&join) && repeats(e)) join.dtype = DTYPE_F32;
    if (!join.dtype) join.dtype = DTYPE_F32;
    return join;
}

Dtype sema_join_operands(Expr *e) {
    return join_operands(e).dtype;
}

static void widen_operands(Sema *s, Expr *e, Dtype dtype) {
    for (size_t i = 0; i < e->bound_count; i++)
        if (e->bound[i]) sema_widen(s, e->bound[i], dtype);
    for (size_t i = 0; i < e->many_count; i++) sema_widen(s, e->many[i], dtype);
}

/* A name stands for its value; constants and scalars take the type where they are used. */
void sema_widen(Sema *s, Expr *e, Dtype dtype) {
    if (dtype != DTYPE_F64 || !type_is_number(&e->type) || e->type.dtype == DTYPE_F64) return;
    Decl *d = e->kind == EXPR_NAME ? e->decl : NULL;
    e->type.dtype = e->compute = dtype;
    if (d && d->type.dtype != dtype) {
        Expr *value = d->value ? d->value : d->site ? d->site->value : NULL;
        d->type.dtype = dtype;
        if (value) sema_widen(s, value, dtype);
    }
    if (!d) widen_operands(s, e, dtype);
    if (e->expansion) sema_define_as(s, e, dtype);
}

static bool all_scalar(const Expr *e) {
    for (size_t i = 0, n = operand_count(e); i < n; i++)
        if (e->bound[i]->type.kind != TYPE_SCALAR) return false;
    return true;
}

static bool all_weak(const Expr *e) {
    for (size_t i = 0, n = operand_count(e); i < n; i++)
        if (!e->bound[i]->type.weak) return false;
    return true;
}

bool sema_check_value_kinds(Sema *s, Expr *e, const char *name) {
    for (size_t i = 0, n = operand_count(e); i < n; i++) {
        TypeKind k = e->bound[i]->type.kind;
        if (k != TYPE_SCALAR && k != TYPE_TILE && k != TYPE_TENSOR)
            return sema_bad_operand(s, e->bound[i], name, "a number, tile or tensor");
    }
    return true;
}

static bool broadcast_operands(Sema *s, Expr *e) {
    Type shape = {0};
    for (size_t i = 0, n = operand_count(e); i < n; i++) {
        const Type *t = &e->bound[i]->type;
        if (!type_is_shaped(t)) continue;
        if (!shape.kind)
            shape = *t;
        else if (!sema_broadcast(s, e, &shape, t, &shape))
            return false;
    }
    e->type = shape;
    e->type.presence = NULL;
    return true;
}

static Dtype real_of(Dtype t, bool once) {
    return dtype_is_float(t) ? t : once ? DTYPE_F64 : DTYPE_F32;
}

static bool check_classes(Sema *s, Expr *e, const BuiltinInfo *row) {
    for (size_t i = 0, n = operand_count(e); i < n; i++) {
        Dtype t = e->bound[i]->type.dtype;
        bool needs_bool = row->rule == RULE_LOGIC || (row->rule == RULE_WHERE && i == 0);
        if (needs_bool && t != DTYPE_BOOL) return sema_bad_operand(s, e->bound[i], row->name, "a truth value (a comparison)");
        if (row->rule == RULE_BITS && dtype_is_float(t)) return sema_bad_operand(s, e->bound[i], row->name, "integers");
        if ((row->rule == RULE_BINARY || row->rule == RULE_UNARY) && t == DTYPE_BOOL && row->id != BUILTIN_PLUS)
            return sema_bad_operand(s, e->bound[i], row->name, "numbers");
    }
    return true;
}

/* The reduction that made an operand, as it stands or by name. */
static const Expr *reduction_of(const Expr *e) {
    if (e->kind == EXPR_NAME && e->decl && e->decl->site && e->decl->site->value) e = e->decl->site->value;
    return e->builtin && builtin_info(e->builtin)->class == CLASS_REDUCE ? e : NULL;
}

/* x - reduce_max(x, axis=1) lines the row results up with the columns; on a square tile that fits.
 */
static void warn_square(Sema *s, Expr *e) {
    for (size_t i = 0; i < 2 && operand_count(e) == 2; i++) {
        const Expr *sum = reduction_of(e->bound[i]);
        const Type *x = &e->bound[1 - i]->type;
        if (!sum || sum->keepdim || !type_is_shaped(x) || x->rank < 2) continue;
        bool last = sum->reduce_axis == x->rank - 1 && sum->type.rank == x->rank - 1;
        if (last && sema_same_extent(s, x->shape[x->rank - 1], x->shape[x->rank - 2]))
            diag_note(s->diags, diag_report(s->diags, DIAG_square_broadcast, e->bound[i]->span), SPAN_NONE,
                      "if the rows are meant: keepdim=true in the reduction");
    }
}

/* max(X, 1) beside sum(X, 1): the second may be meant as an axis. Not 0, which a ReLU has, and not of integers, whose counts are kept above
 * 0. */
static void warn_axis(Sema *s, const Expr *e) {
    bool extreme = e->builtin == BUILTIN_MAX || e->builtin == BUILTIN_MIN;
    if (!extreme || e->kind != EXPR_CALL || s->defining) return;
    const Expr *x = e->bound[0], *second = e->bound[1];
    const Expr *number = second->kind == EXPR_UNARY && second->u.oper.op == OPER_NEG ? second->u.oper.a : second;
    if (number->kind != EXPR_CONST || second->value.kind != CONST_INT || !second->value.i) return;
    int64_t axis = second->value.i, rank = x->type.rank;
    if (!type_is_shaped(&x->type) || !dtype_is_float(x->type.dtype) || axis >= rank || axis < -rank) return;
    const char *name = builtin_info(e->builtin)->name, *text = sema_source_text(s, second->span);
    Diag *d = diag_report(s->diags, DIAG_extreme_of_axis, second->span, name, text);
    diag_fix(s->diags, d, second->span, arena_printf(s->arena, "axis=%s", text), "fold the axis");
    diag_note(s->diags, d, SPAN_NONE, "if the number is meant: `%s.0`", text);
}

void sema_elementwise(Sema *s, Expr *e, const BuiltinInfo *row) {
    bool scalar = all_scalar(e), weak = all_weak(e), again = repeats(e);
    Type joined = join_operands(e);
    Dtype join = joined.dtype;
    if (!scalar) warn_square(s, e);
    if (!scalar) warn_axis(s, e);
    if (!check_classes(s, e, row) || (!scalar && !broadcast_operands(s, e))) {
        sema_set_error(e);
        return;
    }
    bool is_real = row->rule == RULE_UNARY_REAL || row->rule == RULE_BINARY_REAL;
    if (is_real) join = real_of(join, weak && !again);
    if (!joined.number) widen_operands(s, e, join);
    bool gives_bool = row->rule == RULE_COMPARE || row->rule == RULE_LOGIC;
    bool is_lane = s->in_index_notation || !scalar; /* sizes and bounds keep their type */
    e->compute = is_lane ? dtype_temporary(join) : join;
    if (scalar)
        e->type = (weak ? type_scalar : type_element)(gives_bool ? DTYPE_BOOL : e->compute);
    else
        e->type.dtype = gives_bool ? DTYPE_BOOL : e->compute;
    e->type.number = joined.number && !gives_bool && (dtype_is_float(e->compute) || (scalar && weak));
    e->type.moves = scalar && again;
    if (scalar) sema_fold(s, e);
}

bool sema_read_flag(Sema *s, Expr *e, const CallInfo *info, const char *name, bool *flag) {
    Expr *arg = sema_argument(e, info, name);
    *flag = false;
    return !arg || sema_const_bool(s, arg, name, flag);
}

void sema_cast(Sema *s, Expr *e, const CallInfo *info) {
    Expr *arg = sema_argument(e, info, "dtype");
    Dtype dtype = DTYPE_NONE;
    bool saturates; /* the build reads it again */
    if ((arg && !sema_dtype_arg(s, arg, &dtype)) || !sema_read_flag(s, e, info, "sat", &saturates)) {
        sema_set_error(e);
        return;
    }
    sema_join_operands(e);
    e->type = e->bound[0]->type;
    e->type.presence = NULL;
    e->type.dtype = e->compute = dtype; /* NONE: the destination's, filled in by the statement */
    e->type.number = false;
    if (dtype || (info->output_count && info->outputs[0])) return;
    sema_error(s, DIAG_missing_dtype, e->span, "cast");
    sema_set_error(e);
}

static bool read_axis_of(Sema *s, Expr *e, const CallInfo *info, int64_t rank, int *axis) {
    Expr *arg = sema_argument(e, info, "axis");
    int64_t value;
    if (!arg) return true;
    if (!sema_const_int(s, arg, "the axis", &value)) return false;
    if (value < -rank || value >= rank) {
        diag_report(s->diags, DIAG_bad_axis, arg->span, (long long)value, (long long)rank);
        return false;
    }
    *axis = (int)(value < 0 ? value + rank : value);
    return true;
}

static bool read_axis(Sema *s, Expr *e, const CallInfo *info, int *axis) {
    return read_axis_of(s, e, info, e->bound[0]->type.rank, axis);
}

/* The axes that a reduction folds: those of axis=, else all. */
static bool read_axes(Sema *s, Expr *e, const CallInfo *info) {
    Expr *arg = sema_argument(e, info, "axis");
    const Type *x = &e->bound[0]->type;
    bool one = builtin_info(e->builtin)->rule == RULE_ARG_REDUCE;
    e->reduce_axes = ((uint32_t)1 << x->rank) - 1;
    if (arg && !sema_axes(s, arg, x, &e->reduce_axes)) return false;
    unsigned count = (unsigned)__builtin_popcount(e->reduce_axes);
    if (arg && count == 1) e->reduce_axis = __builtin_ctz(e->reduce_axes);
    if (!arg || count == 1 || !one) return true;
    sema_error(s, DIAG_bad_argument, arg->span, "`%s` works along one axis, or all", builtin_info(e->builtin)->name);
    return false;
}

static bool reduced_shape(Sema *s, Expr *e) {
    const Type *x = &e->bound[0]->type;
    const Aff **shape = ARENA_ARRAY(s->arena, const Aff *, AST_MAX_RANK);
    unsigned rank = 0;
    for (int i = 0; i < x->rank; i++) {
        bool folded = e->reduce_axes >> i & 1;
        if (!folded)
            shape[rank++] = x->shape[i];
        else if (e->keepdim)
            shape[rank++] = aff_const(s->aff, 1);
    }
    e->type = (Type){.kind = x->kind, .rank = (uint8_t)rank, .shape = shape};
    return true;
}

void sema_reduce(Sema *s, Expr *e, const CallInfo *info, const BuiltinInfo *row) {
    Expr *keepdim = sema_argument(e, info, "keepdim");
    e->reduce_axis = -1;
    if (!type_is_shaped(&e->bound[0]->type)) {
        sema_bad_operand(s, e->bound[0], row->name, "a tile or tensor");
        sema_set_error(e);
        return;
    }
    Dtype t = sema_join_operands(e);
    if ((keepdim && !sema_const_bool(s, keepdim, "keepdim", &e->keepdim)) || !read_axes(s, e, info)) {
        sema_set_error(e);
        return;
    }
    reduced_shape(s, e);
    if (row->rule == RULE_REDUCE_REAL) t = real_of(t, false);
    bool truth = row->id == BUILTIN_REDUCE_ANY || row->id == BUILTIN_REDUCE_ALL;
    if (t == DTYPE_BOOL && !truth) t = DTYPE_I32;
    if (truth) t = DTYPE_BOOL;
    e->compute = dtype_temporary(t);
    e->type.dtype = row->rule == RULE_ARG_REDUCE ? DTYPE_I64 : e->compute;
    e->type.number = type_is_number(&e->bound[0]->type) && dtype_is_float(e->type.dtype);
}

void sema_count_lanes(Sema *s, Expr *e, const CallInfo *info, const BuiltinInfo *row) {
    e->reduce_axis = -1;
    sema_join_operands(e);
    bool good = type_is_shaped(&e->bound[0]->type) || sema_bad_operand(s, e->bound[0], row->name, "a tile or tensor");
    if (good && read_axes(s, e, info))
        e->type = type_scalar(e->compute = DTYPE_I64);
    else
        sema_set_error(e);
}

void sema_keep_shape(Sema *s, Expr *e, const CallInfo *info, const BuiltinInfo *row) {
    const Type *x = &e->bound[0]->type;
    if (!type_is_shaped(x) || x->rank == 0) {
        sema_bad_operand(s, e->bound[0], row->name, "a tile or tensor with an axis");
        sema_set_error(e);
        return;
    }
    Dtype t = sema_join_operands(e);
    e->reduce_axis = x->rank - 1;
    if (!read_axis(s, e, info, &e->reduce_axis) || !sema_flags(s, e, info)) {
        sema_set_error(e);
        return;
    }
    if (row->class == CLASS_SCAN && t == DTYPE_BOOL) t = DTYPE_I32;
    e->type = e->bound[0]->type;
    e->type.presence = NULL;
    e->type.dtype = e->compute = row->class == CLASS_SORT || row->class == CLASS_MOVE ? t : dtype_temporary(t);
}

/* What a recurrence begins from: a number, or one lane along its axis. */
static bool check_init(Sema *s, Expr *e, const CallInfo *info) {
    Expr *init = sema_argument(e, info, "init");
    const Aff *shape[AST_MAX_RANK];
    Type one = e->type, joined;
    if (!init) return true;
    if (sema_expr(s, init)->kind == TYPE_ERROR) return false;
    if (init->type.kind == TYPE_SCALAR) return true;
    for (unsigned i = 0; i < one.rank; i++) shape[i] = (int)i == e->reduce_axis ? aff_const(s->aff, 1) : one.shape[i];
    one.shape = shape;
    bool good = type_is_shaped(&init->type) && init->type.rank <= one.rank;
    if (good && !sema_broadcast(s, init, &one, &init->type, &joined)) return false;
    for (unsigned i = 0; good && i < one.rank; i++) good = sema_same_extent(s, joined.shape[i], shape[i]);
    return good || sema_bad_operand(s, init, "linear_scan", "as init= a number or one lane along its axis");
}

void sema_linear_scan(Sema *s, Expr *e, const CallInfo *info) {
    if (all_scalar(e)) {
        sema_bad_operand(s, e->bound[1], "linear_scan", "a tile or tensor");
        sema_set_error(e);
        return;
    }
    Dtype t = sema_join_operands(e);
    bool good = broadcast_operands(s, e);
    if (good && e->type.rank == 0) good = sema_bad_operand(s, e->bound[1], "linear_scan", "a tile or tensor with an axis");
    e->reduce_axis = e->type.rank - 1;
    if (!good || !read_axis_of(s, e, info, e->type.rank, &e->reduce_axis) || !sema_flags(s, e, info) || !check_init(s, e, info)) {
        sema_set_error(e);
        return;
    }
    e->compute = e->type.dtype = dtype_temporary(real_of(t, false));
}
