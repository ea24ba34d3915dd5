/* Operations: arguments sorted to parameters, and the type rules of builtins.def. */
#include "analyzer.h"
#include "sema_internal.h"

#include <math.h>
#include <string.h>

/* ---- Arguments ---- */

static void unknown_operation(Sema *s, Expr *e) {
    const char *names[BUILTIN_COUNT];
    for (int id = 1; id < BUILTIN_COUNT; id++) names[id - 1] = builtin_info((BuiltinId)id)->name;
    const char *close = closest_name(e->u.call.callee, names, BUILTIN_COUNT - 1);
    Diag *d = diag_report(s->diags, DIAG_unknown_operation, e->u.call.callee_span, e->u.call.callee);
    const char *instead = foreign_operation(e->u.call.callee);
    if (instead) {
        diag_note(s->diags, d, SPAN_NONE, "%s", instead);
    } else if (close) {
        diag_note(s->diags, d, SPAN_NONE, "did you mean `%s`?", close);
        diag_fix(s->diags, d, e->u.call.callee_span, close, "use the operation of this name");
    }
}

static int find_param(const CallInfo *info, const char *name) {
    for (size_t i = 0; i < info->param_count; i++)
        if (strcmp(info->params[i].name, name) == 0) return (int)i;
    return -1;
}

/* "its form is mul(a, b, dst)" */
static void note_form(Sema *s, Diag *d, const CallInfo *info) {
    const char *text = builtin_info(info->id)->name, *gap = "(";
    for (size_t i = 0; i < info->param_count; i++, gap = ", ") {
        const BuiltinParam *p = &info->params[i];
        text = arena_printf(s->arena, "%s%s%s%s", text, p->is_output && info->id <= BUILTIN_STORE ? " -> " : gap, p->name,
                            p->is_attribute  ? "="
                            : p->is_variadic ? ", ..."
                                             : "");
    }
    diag_note(s->diags, d, SPAN_NONE, "its form is %s)", text);
}

static void unknown_argument(Sema *s, const CallInfo *info, const Arg *arg) {
    const char *names[BUILTIN_MAX_PARAMS];
    size_t count = 0;
    for (size_t i = 0; i < info->param_count; i++)
        if (info->params[i].is_attribute) names[count++] = info->params[i].name; /* the others go without a name */
    const char *usual = foreign_argument(arg->name);
    const char *close = usual && find_param(info, usual) >= 0 ? usual : closest_name(arg->name, names, count);
    const BuiltinInfo *row = builtin_info(info->id);
    Diag *d = diag_report(s->diags, DIAG_unknown_argument, arg->name_span, row->name, arg->name);
    note_form(s, d, info);
    if (!close) return;
    diag_note(s->diags, d, SPAN_NONE, "did you mean `%s`?", close);
    diag_fix(s->diags, d, arg->name_span, close, "use the argument of this name");
}

/* The parameter that the next positional argument is for, -1 when there are too many. */
static int next_param(const CallInfo *info, bool *taken, bool outputs, bool inputs) {
    for (size_t i = 0; i < info->param_count; i++) {
        bool is_output = info->params[i].is_output;
        if ((is_output ? outputs : inputs) && (!taken[i] || info->params[i].is_variadic)) return (int)i;
    }
    return -1;
}

static bool place_argument(Sema *s, CallInfo *info, const Arg *arg, bool with_outputs, bool has_arrow, Expr **slots, bool *taken) {
    bool outputs = arg->is_output || (with_outputs && !has_arrow);
    int at = arg->name ? find_param(info, arg->name) : next_param(info, taken, outputs, !arg->is_output);
    const BuiltinInfo *row = builtin_info(info->id);
    if (at < 0 && arg->name) {
        unknown_argument(s, info, arg);
        return false;
    }
    if (at < 0 || (taken[at] && !info->params[at].is_variadic)) {
        Diag *d = at < 0
                      ? sema_error(s, DIAG_bad_argument, arg->value->span, "`%s` takes no more arguments", row->name)
                      : sema_error(s, DIAG_bad_argument, arg->value->span, "`%s` of `%s` is given twice", info->params[at].name, row->name);
        note_form(s, d, info);
        return false;
    }
    taken[at] = true;
    slots[at] = arg->value;
    return true;
}

/* store(Y[0:8] <- y): read as a comparison with -y. */
static void note_arrow(Sema *s, Diag *d, const Expr *e, const CallInfo *info) {
    const Args *args = &e->u.call.args;
    const Expr *only = args->count ? args->data[0].value : NULL;
    if ((info->id != BUILTIN_LOAD && info->id != BUILTIN_STORE) || !only || only->kind != EXPR_BINARY) return;
    const Expr *b = only->u.oper.b;
    if (only->u.oper.op != OPER_LT || b->kind != EXPR_UNARY || b->u.oper.op != OPER_NEG) return;
    diag_note(s->diags, d, SPAN_NONE, "the arrow points to where it goes: %s(%s -> %s)", builtin_info(info->id)->name,
              sema_source_text(s, b->u.oper.a->span), sema_source_text(s, only->u.oper.a->span));
}

static bool report_missing(Sema *s, Expr *e, const CallInfo *info, const bool *taken, bool with_outputs) {
    for (size_t i = 0; i < info->param_count; i++) {
        const BuiltinParam *p = &info->params[i];
        if (taken[i] || p->is_optional || (p->is_output && !with_outputs)) continue;
        const BuiltinInfo *row = builtin_info(info->id);
        Diag *d = diag_report(s->diags, DIAG_missing_argument, e->span, row->name, p->name);
        note_form(s, d, info);
        note_arrow(s, d, e, info);
        if (p->accumulates) diag_note(s->diags, d, SPAN_NONE, "`%s` adds to its destination, so it has no value of its own", row->name);
        return true;
    }
    return false;
}

/* The operands of a variadic first parameter. In call form without an arrow the last positional
 * argument is the destination. */
static void gather_operands(Sema *s, Expr *e, const CallInfo *info, bool with_outputs, bool has_arrow, bool *taken) {
    const Args *args = &e->u.call.args;
    if (!info->param_count || !info->params[0].is_variadic) return;
    e->many = ARENA_ARRAY(s->arena, Expr *, args->count + 1);
    e->many_count = 0;
    for (size_t i = 0; i < args->count; i++)
        if (!args->data[i].name && !args->data[i].is_output) e->many[e->many_count++] = args->data[i].value;
    if (!e->many_count) return;
    if (with_outputs && !has_arrow && !taken[1] && e->many_count > 1) {
        e->bound[1] = e->many[--e->many_count];
        taken[1] = true;
    }
    e->bound[0] = e->many[0];
}

/* `max(x, axis=1)` and `max(x)` fold, as in PyTorch; `max(a, b)` compares. */
static BuiltinId called(const Expr *e, bool with_outputs) {
    const Args *args = &e->u.call.args;
    BuiltinId id = builtin_find(e->u.call.callee, strlen(e->u.call.callee));
    bool folds = args->count == 1 && !with_outputs;
    for (size_t i = 0; i < args->count; i++) {
        const char *name = args->data[i].name;
        folds |= name && (strcmp(name, "axis") == 0 || strcmp(name, "keepdim") == 0);
    }
    if (!folds || (id != BUILTIN_MAX && id != BUILTIN_MIN)) return id;
    return id == BUILTIN_MAX ? BUILTIN_REDUCE_MAX : BUILTIN_REDUCE_MIN;
}

bool sema_bind_call(Sema *s, Expr *e, bool with_outputs, CallInfo *info) {
    const Args *args = &e->u.call.args;
    bool taken[BUILTIN_MAX_PARAMS] = {false}, has_arrow = false;
    info->id = e->builtin = called(e, with_outputs);
    if (!info->id) {
        unknown_operation(s, e);
        return false;
    }
    info->param_count = builtin_params(info->id, s->arena, info->params);
    e->bound = ARENA_ARRAY(s->arena, Expr *, info->param_count + 1);
    e->bound_count = info->param_count;
    for (size_t i = 0; i < args->count; i++) has_arrow |= args->data[i].is_output;
    for (size_t i = 0; i < args->count; i++)
        if (!place_argument(s, info, &args->data[i], with_outputs, has_arrow, e->bound, taken)) return false;
    gather_operands(s, e, info, with_outputs, has_arrow, taken);
    if (report_missing(s, e, info, taken, with_outputs || info->id == BUILTIN_GEMM)) return false;
    info->outputs = ARENA_ARRAY(s->arena, Expr *, BUILTIN_MAX_PARAMS);
    for (size_t i = 0; i < info->param_count; i++) {
        if (!info->params[i].is_output) continue;
        info->outputs[info->output_count++] = e->bound[i];
        e->bound[i] = NULL;
    }
    return true;
}

Expr *sema_argument(const Expr *e, const CallInfo *info, const char *name) {
    int at = find_param(info, name);
    return at < 0 || (size_t)at >= e->bound_count ? NULL : e->bound[at];
}

bool sema_dtype_arg(Sema *s, Expr *e, Dtype *dtype) {
    const char *name = e->kind == EXPR_NAME                                          ? e->u.name.name
                       : e->kind == EXPR_CONST && e->u.constant.kind == CONST_STRING ? e->u.constant.s
                                                                                     : NULL;
    e->type = (Type){.kind = TYPE_STRING};
    if (name && dtype_find(name, dtype)) return true;
    *dtype = sema_dtype(s, name ? name : sema_source_text(s, e->span), e->span);
    return false;
}

/* ---- Type rules ---- */

static bool bad_operand(Sema *s, Expr *operand, const char *name, const char *needs) {
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

static bool check_values(Sema *s, Expr *e, const char *name) {
    for (size_t i = 0, n = operand_count(e); i < n; i++) {
        TypeKind k = e->bound[i]->type.kind;
        if (k != TYPE_SCALAR && k != TYPE_TILE && k != TYPE_TENSOR) return bad_operand(s, e->bound[i], name, "a number, tile or tensor");
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
        if (needs_bool && t != DTYPE_BOOL) return bad_operand(s, e->bound[i], row->name, "a truth value (a comparison)");
        if (row->rule == RULE_BITS && dtype_is_float(t)) return bad_operand(s, e->bound[i], row->name, "integers");
        if ((row->rule == RULE_BINARY || row->rule == RULE_UNARY) && t == DTYPE_BOOL && row->id != BUILTIN_PLUS)
            return bad_operand(s, e->bound[i], row->name, "numbers");
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

static void elementwise(Sema *s, Expr *e, const BuiltinInfo *row) {
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

static bool read_flag(Sema *s, Expr *e, const CallInfo *info, const char *name, bool *flag) {
    Expr *arg = sema_argument(e, info, name);
    *flag = false;
    return !arg || sema_const_bool(s, arg, name, flag);
}

static void cast(Sema *s, Expr *e, const CallInfo *info) {
    Expr *arg = sema_argument(e, info, "dtype");
    Dtype dtype = DTYPE_NONE;
    bool saturates; /* the build reads it again */
    if ((arg && !sema_dtype_arg(s, arg, &dtype)) || !read_flag(s, e, info, "sat", &saturates)) {
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

static void reduce(Sema *s, Expr *e, const CallInfo *info, const BuiltinInfo *row) {
    Expr *keepdim = sema_argument(e, info, "keepdim");
    e->reduce_axis = -1;
    if (!type_is_shaped(&e->bound[0]->type)) {
        bad_operand(s, e->bound[0], row->name, "a tile or tensor");
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

/* How many lanes a reduction adds: of tiles the present ones, so that it is no affine value. */
static void count_lanes(Sema *s, Expr *e, const CallInfo *info, const BuiltinInfo *row) {
    e->reduce_axis = -1;
    sema_join_operands(e);
    bool good = type_is_shaped(&e->bound[0]->type) || bad_operand(s, e->bound[0], row->name, "a tile or tensor");
    if (good && read_axes(s, e, info))
        e->type = type_scalar(e->compute = DTYPE_I64);
    else
        sema_set_error(e);
}

static void same_shape(Sema *s, Expr *e, const CallInfo *info, const BuiltinInfo *row) {
    const Type *x = &e->bound[0]->type;
    if (!type_is_shaped(x) || x->rank == 0) {
        bad_operand(s, e->bound[0], row->name, "a tile or tensor with an axis");
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
    return good || bad_operand(s, init, "linear_scan", "as init= a number or one lane along its axis");
}

/* h = a * h + b: one of the two may be a number or repeat. */
static void linear_scan(Sema *s, Expr *e, const CallInfo *info) {
    if (all_scalar(e)) {
        bad_operand(s, e->bound[1], "linear_scan", "a tile or tensor");
        sema_set_error(e);
        return;
    }
    Dtype t = sema_join_operands(e);
    bool good = broadcast_operands(s, e);
    if (good && e->type.rank == 0) good = bad_operand(s, e->bound[1], "linear_scan", "a tile or tensor with an axis");
    e->reduce_axis = e->type.rank - 1;
    if (!good || !read_axis_of(s, e, info, e->type.rank, &e->reduce_axis) || !sema_flags(s, e, info) || !check_init(s, e, info)) {
        sema_set_error(e);
        return;
    }
    e->compute = e->type.dtype = dtype_temporary(real_of(t, false));
}

/* ---- Products ---- */

/* A factor made of numbers has the type of the other one: computed in f32 as ever, and rounded to it. */
static void take_factor_type(Sema *s, Expr *factor, const Type *other) {
    bool narrow = dtype_is_float(other->dtype) && dtype_size(other->dtype) < 4;
    if (!type_is_number(&factor->type) || type_is_number(other)) return;
    sema_widen(s, factor, other->dtype);
    if (narrow && factor->kind != EXPR_NAME && builtin_info(factor->builtin)->class == CLASS_ELEMENTWISE) {
        factor->type.dtype = other->dtype;
        factor->type.number = false;
    }
}

/* Integers beside a factor made of numbers: both join, as in X * 0.5. */
static Expr *as_floats(Sema *s, Expr *factor, const Type *other) {
    if (!type_is_number(other) || dtype_is_float(factor->type.dtype)) return factor;
    Expr *name = ARENA_NEW(s->arena, Expr), *call = ARENA_NEW(s->arena, Expr);
    *name = (Expr){.kind = EXPR_NAME, .span = factor->span, .u.name.name = dtype_name(other->dtype)};
    *call = (Expr){.kind = EXPR_CALL, .span = factor->span, .u.call = {.callee = "cast", .callee_span = factor->span}};
    Arg *args = ARENA_ARRAY(s->arena, Arg, 2);
    args[0] = (Arg){.value = factor, .name_span = factor->span};
    args[1] = (Arg){.name = "dtype", .value = name, .name_span = factor->span};
    call->u.call.args = (Args){.data = args, .count = 2};
    sema_expr(s, call);
    return call;
}

void sema_factor_types(Sema *s, Expr *e) {
    for (int i = 0; i < 2; i++) {
        const Type *other = &e->bound[1 - i]->type;
        e->bound[i] = as_floats(s, e->bound[i], other);
        take_factor_type(s, e->bound[i], other);
    }
}

static bool check_product_types(Sema *s, Expr *e, const BuiltinInfo *row) {
    Expr *a = e->bound[0], *b = e->bound[1];
    ANALYZER_ASSUME(a && b);
    for (int i = 0; i < 2; i++) {
        const Type *t = &e->bound[i]->type;
        bool vector = row->rule != RULE_GEMM && t->rank == 1;
        bool matrix = row->rule != RULE_DOT && t->rank >= 2;
        if (!type_is_shaped(t) || !(vector || matrix))
            return bad_operand(s, e->bound[i], row->name,
                               row->rule == RULE_DOT    ? "a vector, of rank 1"
                               : row->rule == RULE_GEMM ? "an operand of rank 2 or more"
                                                        : "an operand of rank 1 or more");
    }
    sema_settle(a, b->type.dtype);
    sema_settle(b, a->type.dtype);
    sema_factor_types(s, e);
    a = e->bound[0], b = e->bound[1];
    if (a->type.dtype == b->type.dtype) return true;
    Diag *d = diag_report(s->diags, DIAG_product_types, e->span, row->name, dtype_name(a->type.dtype), dtype_name(b->type.dtype));
    diag_note(s->diags, d, SPAN_NONE, "convert one of them: `cast(%s, dtype=%s)`", sema_source_text(s, b->span), dtype_name(a->type.dtype));
    return false;
}

/* No product of a sketch is less accurate than its operator allows; what is stored is accurate enough. */
static bool check_precision(Sema *s, Expr *e, Dtype factors) {
    if (e->kind == EXPR_NAME) { /* precision=tf32 and "tf32" are the same */
        e->value = (ConstValue){CONST_STRING, 0, 0, e->u.name.name};
        e->type = (Type){.kind = TYPE_STRING};
    } else
        sema_expr(s, e);
    const Precision *p = e->value.kind == CONST_STRING ? precision_find(e->value.s) : NULL;
    if (!p) {
        sema_error(s, DIAG_bad_argument, e->span, "precision= is one of: %s", precision_names());
        return false;
    }
    const Block *op = s->block->op;
    const char *name = op && op->precision_name ? op->precision_name : "f32";
    const Precision *least = precision_find(name);
    bool factors_count = least && (p->bits >= least->bits || ldexp(1, -p->bits) <= dtype_unit_roundoff(factors));
    bool sums_count = p->sums >= 24 || (least && p->sums >= least->sums);
    if (!op || !least || !dtype_is_float(factors) || (factors_count && sums_count)) return true;
    diag_report(s->diags, DIAG_precision_too_low, e->span, p->name, op->name, name);
    return false;
}

static void product(Sema *s, Expr *e, const CallInfo *info, const BuiltinInfo *row) {
    bool ta, tb;
    Expr *precision = sema_argument(e, info, "precision");
    if (!check_product_types(s, e, row) || !read_flag(s, e, info, "trans_a", &ta) || !read_flag(s, e, info, "trans_b", &tb)) {
        sema_set_error(e);
        return;
    }
    if (precision && !check_precision(s, precision, e->bound[0]->type.dtype)) {
        sema_set_error(e);
        return;
    }
    /* A vector stands for its one row or column, and has no axis of it in the result. */
    const Type *a = &e->bound[0]->type, *b = &e->bound[1]->type;
    bool row_vector = a->rank == 1, column_vector = b->rank == 1;
    const Aff *ka = a->shape[a->rank - (ta && !row_vector ? 2 : 1)];
    const Aff *kb = b->shape[b->rank - (tb || column_vector ? 1 : 2)];
    if (!sema_same_extent(s, ka, kb)) {
        Diag *d = diag_report(s->diags, DIAG_product_extents, e->span, row->name, sema_aff_text(s, ka), sema_aff_text(s, kb));
        diag_note(s->diags, d, SPAN_NONE, "a is %s and b is %s; trans_a=true and trans_b=true exchange the last two axes",
                  sema_type_text(s, a), sema_type_text(s, b));
        sema_set_error(e);
        return;
    }
    Type lead_a = *a, lead_b = *b, lead;
    lead_a.rank = (uint8_t)(row_vector ? 0 : lead_a.rank - 2);
    lead_b.rank = (uint8_t)(column_vector ? 0 : lead_b.rank - 2);
    if (!sema_broadcast(s, e, &lead_a, &lead_b, &lead)) {
        sema_set_error(e);
        return;
    }
    const Aff **shape = ARENA_ARRAY(s->arena, const Aff *, AST_MAX_RANK);
    for (unsigned i = 0; i < lead.rank; i++) shape[i] = lead.shape[i];
    unsigned rank = lead.rank;
    if (!row_vector) shape[rank++] = a->shape[a->rank - (ta ? 1 : 2)];
    if (!column_vector) shape[rank++] = b->shape[b->rank - (tb ? 2 : 1)];
    e->type = (Type){.kind = a->kind, .rank = (uint8_t)rank, .shape = shape};
    Dtype t = a->dtype;
    bool small_int = dtype_is_int(t) && dtype_size(t) < 4;
    e->type.dtype = e->compute = small_int ? DTYPE_I32 : dtype_temporary(t);
}

/* ---- Movement ---- */

static void transpose(Sema *s, Expr *e, const CallInfo *info) {
    const Type *x = &e->bound[0]->type;
    Expr *axes = sema_argument(e, info, "axes");
    int64_t order[AST_MAX_RANK];
    bool seen[AST_MAX_RANK] = {false}, good = type_is_shaped(x) && x->rank >= 2;
    for (int i = 0; i < x->rank; i++) order[i] = i + 2 < x->rank ? i : 2 * x->rank - 3 - i;
    good = good && (!axes || ((axes->kind == EXPR_LIST || axes->kind == EXPR_TUPLE) && axes->u.list.count == x->rank));
    for (int i = 0; good && axes && i < x->rank; i++) {
        good = sema_const_int(s, axes->u.list.items[i], "an axis", &order[i]) && order[i] >= 0 && order[i] < x->rank && !seen[order[i]];
        if (good) seen[order[i]] = true;
    }
    if (!good) {
        sema_error(s, DIAG_bad_argument, e->span, "transpose needs rank 2 or more, and axes= a permutation of its axes");
        sema_set_error(e);
        return;
    }
    const Aff **shape = ARENA_ARRAY(s->arena, const Aff *, AST_MAX_RANK);
    for (int i = 0; i < x->rank; i++) shape[i] = x->shape[order[i]];
    int64_t *kept = ARENA_ARRAY(s->arena, int64_t, AST_MAX_RANK);
    memcpy(kept, order, sizeof order);
    e->order = kept;
    e->type = *x;
    e->type.shape = shape;
    e->type.presence = NULL;
    e->compute = x->dtype;
}

static const Aff *element_count(Sema *s, const Type *t) {
    const Aff *n = aff_const(s->aff, 1);
    for (unsigned i = 0; i < t->rank; i++) n = aff_mul(s->aff, n, t->shape[i]);
    return n;
}

static void reshape(Sema *s, Expr *e, const BuiltinInfo *row) {
    size_t rank;
    const Type *x = &e->bound[0]->type;
    const Aff **shape = sema_shape_list(s, e->bound[1], &rank);
    if (!shape || !type_is_shaped(x)) {
        if (shape) bad_operand(s, e->bound[0], row->name, "a tile or tensor");
        sema_set_error(e);
        return;
    }
    Type to = *x;
    to.rank = (uint8_t)rank;
    to.shape = shape;
    to.presence = NULL;
    Type joined;
    bool fits = row->rule == RULE_RESHAPE ? aff_prove_eq(s->facts, element_count(s, x), element_count(s, &to))
                                          : sema_broadcast(s, e, x, &to, &joined);
    if (!fits && row->rule == RULE_RESHAPE)
        diag_report(s->diags, DIAG_reshape_count, e->span, sema_aff_text(s, element_count(s, x)), sema_aff_text(s, element_count(s, &to)));
    e->type = fits ? to : (Type){.kind = TYPE_ERROR};
    e->compute = x->dtype;
}

static void ceil_rule(Sema *s, Expr *e) {
    if (!e->bound[1] && type_is_shaped(&e->bound[0]->type)) {
        e->builtin = BUILTIN_CEILING;
        elementwise(s, e, builtin_info(e->builtin));
        return;
    }
    bool loaded = false;
    for (size_t i = 0; i < e->bound_count; i++) {
        if (!e->bound[i]) continue;
        const Type *t = &e->bound[i]->type;
        bool number = t->kind == TYPE_TILE && t->rank == 0;
        bool good = (t->kind == TYPE_SCALAR || number) && (dtype_is_int(t->dtype) || !e->bound[1]);
        loaded |= number;
        if (good) continue;
        bad_operand(s, e->bound[i], "ceil", "integers: ceil(a, b) is a / b rounded up");
        sema_set_error(e);
        return;
    }
    e->type = type_scalar(DTYPE_I64);
    if (loaded && e->bound[1])
        e->affine = aff_ceildiv(s->aff, sema_number(s, e->bound[0]), sema_number(s, e->bound[1]));
    else
        sema_fold(s, e);
    if (e->affine || e->type.kind == TYPE_ERROR) return;
    sema_error(s, DIAG_bad_argument, e->span, "ceil of a real is known only for a quotient of integers; write ceil(a, b)");
    sema_set_error(e);
}

/* ---- All ---- */

/* What has no type rule has no value either; only pad gets here. */
static void no_value(Sema *s, Expr *e, const BuiltinInfo *row) {
    sema_error(s, DIAG_bad_call_place, e->span, "`%s` has no value of its own; in index notation stands %s(X, 0)[i, j]", row->name,
               row->name);
    sema_set_error(e);
}

void sema_apply(Sema *s, Expr *e, const CallInfo *info) {
    const BuiltinInfo *row = builtin_info(e->builtin);
    ANALYZER_ASSUME(e->bound[0] || row->rule == RULE_OTHER || row->rule == RULE_IOTA ||
                    row->rule == RULE_RANDOM); /* a call without its first operand is reported before */
    if (row->rule != RULE_OTHER && row->rule != RULE_IOTA && row->rule != RULE_RANDOM && !check_values(s, e, row->name)) {
        sema_set_error(e);
        return;
    }
    switch (row->rule) {
    case RULE_UNARY:
    case RULE_UNARY_REAL:
    case RULE_BINARY:
    case RULE_BINARY_REAL:
    case RULE_TERNARY:
    case RULE_COMPARE:
    case RULE_LOGIC:
    case RULE_BITS:
    case RULE_WHERE:
        elementwise(s, e, row);
        break;
    case RULE_CAST:
        cast(s, e, info);
        break;
    case RULE_REDUCE:
    case RULE_REDUCE_REAL:
    case RULE_ARG_REDUCE:
        reduce(s, e, info, row);
        break;
    case RULE_COUNT:
        count_lanes(s, e, info, row);
        break;
    case RULE_DEFINED:
        sema_define(s, e);
        break;
    case RULE_SAME_SHAPE:
        same_shape(s, e, info, row);
        break;
    case RULE_LINEAR_SCAN:
        linear_scan(s, e, info);
        break;
    case RULE_GEMM:
    case RULE_MATMUL:
    case RULE_DOT:
        product(s, e, info, row);
        break;
    case RULE_CONV:
        sema_conv(s, e, info);
        break;
    case RULE_TRANSPOSE:
        transpose(s, e, info);
        break;
    case RULE_RESHAPE:
    case RULE_BROADCAST:
        reshape(s, e, row);
        break;
    case RULE_TOPK:
    case RULE_CONCAT:
    case RULE_IOTA:
    case RULE_RANDOM:
        sema_apply_axes(s, e, info);
        break;
    case RULE_OTHER:
    case RULE_NONE:
        if (e->builtin == BUILTIN_CEIL)
            ceil_rule(s, e);
        else
            no_value(s, e, row);
    }
}

/* Types the operands that are values; attributes are read by the rules. */
static bool check_inputs(Sema *s, Expr *e, const CallInfo *info) {
    const BuiltinRule rule = builtin_info(info->id)->rule;
    bool good = true;
    for (size_t i = 0; i < info->param_count; i++) {
        if (!e->bound[i] || info->params[i].is_attribute) continue;
        if (i == 1 && (rule == RULE_RESHAPE || rule == RULE_BROADCAST)) continue;
        if (rule == RULE_IOTA || (rule == RULE_RANDOM && sema_is_shape(e->bound[i]))) continue;
        good &= sema_expr(s, e->bound[i])->kind != TYPE_ERROR;
    }
    for (size_t i = 0; i < e->many_count; i++) good &= sema_expr(s, e->many[i])->kind != TYPE_ERROR;
    return good;
}

void sema_call_bound(Sema *s, Expr *e, const CallInfo *info) {
    if (check_inputs(s, e, info))
        sema_apply(s, e, info);
    else
        sema_set_error(e);
}

static bool is_index_form(Sema *s, const Expr *e) {
    if (s->block->kind != BLOCK_OPERATOR || e->u.call.args.count < 2) return false;
    for (size_t i = 0; i < e->u.call.args.count; i++)
        if (e->u.call.args.data[i].name) return false;
    const Arg *first = &e->u.call.args.data[0];
    if (first->name || first->value->decl) return false; /* a name of a definition */
    if (first->value->kind == EXPR_IN) return true;
    if (first->value->kind == EXPR_TUPLE) return true;
    return first->value->kind == EXPR_NAME && !sema_find(s, first->value->u.name.name);
}

void sema_call(Sema *s, Expr *e) {
    CallInfo info = {0};
    BuiltinId id = builtin_find(e->u.call.callee, strlen(e->u.call.callee));
    BuiltinClass class = id ? builtin_info(id)->class : CLASS_NONE;
    bool reduces = class == CLASS_REDUCE || id == BUILTIN_MAX || id == BUILTIN_MIN;
    if (reduces && is_index_form(s, e)) {
        e->builtin = id == BUILTIN_MAX ? BUILTIN_REDUCE_MAX : id == BUILTIN_MIN ? BUILTIN_REDUCE_MIN : id;
        sema_index_call(s, e);
        return;
    }
    if (class == CLASS_CORE || class == CLASS_DATA || id == BUILTIN_RANGE) {
        Diag *d = diag_report(s->diags, DIAG_bad_call_place, e->span, arena_printf(s->arena, "`%s` is no value", e->u.call.callee));
        const char *instead = foreign_operation(e->u.call.callee);
        if (id == BUILTIN_LOAD)
            diag_note(s->diags, d, SPAN_NONE,
                      "make a tile of the slice's shape and load into it: x = alloc([...]), then "
                      "load(TENSOR[...] -> x)");
        else
            diag_note(s->diags, d, SPAN_NONE, "%s", instead ? instead : builtin_info(id)->summary);
        sema_set_error(e);
        return;
    }
    if (!sema_bind_call(s, e, false, &info)) {
        for (size_t i = 0; !id && i < e->u.call.args.count; i++) /* what a name=value would mean nobody knows */
            if (!e->u.call.args.data[i].name) sema_expr(s, e->u.call.args.data[i].value);
        sema_set_error(e);
        return;
    }
    sema_call_bound(s, e, &info);
}
