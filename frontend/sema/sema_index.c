/* Index notation of operators: C[i, j] = sum(k, A[i, k] * B[k, j]). */
#include "sema_internal.h"

#include <string.h>

static const Aff *const NO_EXTENTS = NULL;

static Decl *new_index(Sema *s, const char *name, Span span, const Aff *lo, const Aff *hi) {
    Decl *d = sema_new_decl(s, DECL_INDEX, name, span);
    d->type = type_scalar(DTYPE_I64);
    d->type.moves = true;
    d->affine = aff_var(s->aff, d, name);
    d->index_lo = lo;
    d->index_hi = hi;
    aff_facts_range(s->facts, d->affine, lo, aff_sub(s->aff, hi, aff_const(s->aff, 1)));
    sema_declare(s, d);
    return d;
}

static bool is_pad(const Expr *base) {
    return base->kind == EXPR_CALL && strcmp(base->u.call.callee, "pad") == 0;
}

/* The extent of the first axis that `name` indexes bare inside e; null when there is none. */
static const Aff *bare_extent(Sema *s, const Expr *e, const char *name) {
    const Aff *found = NULL;
    switch (e->kind) {
    case EXPR_UNARY:
    case EXPR_BINARY:
        found = bare_extent(s, e->u.oper.a, name);
        return found || e->kind == EXPR_UNARY ? found : bare_extent(s, e->u.oper.b, name);
    case EXPR_CALL:
        for (size_t i = 0; i < e->u.call.args.count && !found; i++) found = bare_extent(s, e->u.call.args.data[i].value, name);
        return found;
    case EXPR_INDEX:
        break;
    default:
        return NULL;
    }
    const Expr *base = e->u.index.base;
    if (is_pad(base) && base->u.call.args.count) base = base->u.call.args.data[0].value;
    const Decl *d = base->kind == EXPR_NAME ? sema_find(s, base->u.name.name) : NULL;
    for (size_t i = 0; d && type_is_shaped(&d->type) && i < e->u.index.count && i < d->type.rank; i++) {
        const Expr *item = e->u.index.items[i];
        if (item->kind == EXPR_NAME && strcmp(item->u.name.name, name) == 0) return d->type.shape[i];
    }
    return NULL;
}

/* The first tensor inside e that is read by a name which nothing usable stands for; null: there is none. */
static const Expr *unknown_base(Sema *s, const Expr *e) {
    const Expr *found = NULL;
    switch (e->kind) {
    case EXPR_UNARY:
    case EXPR_BINARY:
        found = unknown_base(s, e->u.oper.a);
        return found || e->kind == EXPR_UNARY ? found : unknown_base(s, e->u.oper.b);
    case EXPR_CALL:
        for (size_t i = 0; i < e->u.call.args.count && !found; i++) found = unknown_base(s, e->u.call.args.data[i].value);
        return found;
    case EXPR_INDEX:
        break;
    default:
        return NULL;
    }
    for (size_t i = 0; i < e->u.index.count && !found; i++) found = unknown_base(s, e->u.index.items[i]);
    const Expr *base = e->u.index.base;
    if (is_pad(base) && base->u.call.args.count) base = base->u.call.args.data[0].value;
    const Decl *d = base->kind == EXPR_NAME ? sema_find(s, base->u.name.name) : NULL;
    bool known = d && d->type.kind != TYPE_ERROR;
    return found || known || base->kind != EXPR_NAME ? found : base;
}

static bool moves(const Aff *e) {
    if (e->kind == AFF_VAR) return ((const Decl *)e->var)->kind == DECL_INDEX;
    for (size_t i = 0; i < e->count; i++)
        if (moves(e->args[i])) return true;
    return false;
}

static Decl *reduction_index(Sema *s, Expr *item, const Expr *body) {
    Expr *named = item->kind == EXPR_IN ? item->u.in.index : item;
    const Aff *lo = aff_const(s->aff, 0), *hi = NULL;
    if (named->kind != EXPR_NAME) {
        sema_error(s, DIAG_bad_argument, item->span, "an index is a name, or a name with its range: k in 0:K");
        return NULL;
    }
    if (item->kind == EXPR_IN) {
        Expr *range = item->u.in.range;
        if (range->u.slice.lo) lo = sema_scalar(s, range->u.slice.lo, "the start of a range");
        hi = range->u.slice.hi ? sema_scalar(s, range->u.slice.hi, "the end of a range") : NULL;
    } else
        hi = bare_extent(s, body, named->u.name.name);
    if (lo && hi && (moves(lo) || moves(hi))) {
        sema_error(s, DIAG_bad_argument, item->span,
                   "the range of an index does not depend on another index: sum(k in 0:N, where(k <= i, X[k], 0)) stops at i");
        return NULL;
    }
    if (lo && hi) return new_index(s, named->u.name.name, named->span, lo, hi);
    const Expr *unknown = unknown_base(s, body);
    if (unknown && item->kind != EXPR_IN) {
        if (!sema_find(s, unknown->u.name.name)) sema_undeclared(s, unknown->u.name.name, unknown->span, USE_MEMORY);
        return NULL;
    }
    Diag *d = sema_error(s, DIAG_index_range, named->span, "%s", named->u.name.name);
    diag_note(s->diags, d, SPAN_NONE, "no axis is indexed by it alone: write the range, `%s in 0:N`", named->u.name.name);
    return NULL;
}

static bool is_truth(const Expr *e) {
    return e->builtin == BUILTIN_REDUCE_ANY || e->builtin == BUILTIN_REDUCE_ALL;
}

/* Whether the reduction exists over indices, and of such a body. */
static bool check_reduction(Sema *s, const Expr *e, const Expr *body) {
    const BuiltinInfo *row = builtin_info(e->builtin);
    const char *needs = is_truth(e) && body->type.dtype != DTYPE_BOOL ? "a truth value (a comparison)"
                        : row->rule == RULE_COUNT                     ? "a tensor; sum(k, 1) counts"
                                                                      : NULL;
    if (needs)
        sema_error(s, DIAG_bad_operand, body->span, "`%s` needs %s, not %s", row->name, needs, sema_type_text(s, &body->type));
    else if (row->rule == RULE_ARG_REDUCE && e->index_count != 1)
        sema_error(s, DIAG_bad_argument, e->span, "`%s` runs over one index", row->name);
    else
        return true;
    return false;
}

/* What stands for sum(k, ...): an element inside index notation, else a tensor of rank 0. */
static void reduced_type(Sema *s, Expr *e, const Expr *body) {
    BuiltinRule rule = builtin_info(e->builtin)->rule;
    Dtype t = body->type.dtype;
    if (!check_reduction(s, e, body)) {
        sema_set_error(e);
        return;
    }
    if (t == DTYPE_BOOL && !is_truth(e)) t = DTYPE_I32;
    if (rule == RULE_REDUCE_REAL && !dtype_is_float(t)) t = DTYPE_F32;
    bool number = body->type.number && dtype_is_float(t);
    if (number && t == DTYPE_F64) t = DTYPE_F32;
    e->compute = dtype_temporary(t);
    e->type = type_element(rule == RULE_ARG_REDUCE ? DTYPE_I64 : e->compute);
    e->type.number = number && rule != RULE_ARG_REDUCE;
    if (!s->in_index_notation)
        e->type = (Type){.kind = TYPE_TENSOR, .dtype = e->type.dtype, .number = e->type.number, .shape = &NO_EXTENTS};
}

void sema_index_call(Sema *s, Expr *e) {
    Args *args = &e->u.call.args;
    Expr *body = args->data[args->count - 1].value;
    PtrVec items = {0}, indices = {0};
    for (size_t i = 0; i + 1 < args->count; i++) {
        Expr *item = args->data[i].value;
        for (size_t k = 0; item->kind == EXPR_TUPLE && k < item->u.list.count; k++) VEC_PUSH(s->arena, &items, item->u.list.items[k]);
        if (item->kind != EXPR_TUPLE) VEC_PUSH(s->arena, &items, item);
    }
    bool was_inside = s->in_index_notation, good = true;
    AffFacts *outer = s->facts;
    s->in_index_notation = true;
    s->facts = aff_facts_fork(outer);
    sema_open_scope(s);
    for (size_t i = 0; i < items.len; i++) {
        Decl *d = reduction_index(s, items.data[i], body);
        if (d) VEC_PUSH(s->arena, &indices, d);
        good &= d != NULL;
    }
    good = good && sema_expr(s, body)->kind != TYPE_ERROR;
    sema_close_scope(s);
    s->facts = outer;
    s->in_index_notation = was_inside;
    e->bound = ARENA_ARRAY(s->arena, Expr *, 1);
    e->bound[0] = body;
    e->bound_count = 1;
    e->indices = (Decl **)indices.data;
    e->index_count = indices.len;
    if (good && body->type.kind != TYPE_SCALAR) {
        sema_error(s, DIAG_bad_operand, body->span, "inside index notation stand elements such as X[i, k], not %s",
                   sema_type_text(s, &body->type));
        good = false;
    }
    if (good)
        reduced_type(s, e, body);
    else
        sema_set_error(e);
}

bool sema_is_inside(Sema *s, const Aff *at, const Aff *dim) {
    AffFacts *facts = s->guards.len ? aff_facts_fork(s->facts) : s->facts;
    for (size_t i = 0; i < s->guards.len; i++) aff_facts_nonneg(facts, s->guards.data[i]);
    return aff_prove_nonneg(facts, at) && aff_prove_le(facts, at, aff_sub(s->aff, dim, aff_const(s->aff, 1)));
}

/* Whether an index hangs on what is read from a tensor: checked when the reference runs. */
static bool is_read(const Aff *e) {
    if (e->kind == AFF_VAR) return ((const Decl *)e->var)->kind == DECL_LOCAL;
    for (size_t i = 0; i < e->count; i++)
        if (is_read(e->args[i])) return true;
    return false;
}

/* pad(X, v)[...] is X[...] with a value outside. */
static bool take_pad(Sema *s, Expr *e) {
    CallInfo info = {0};
    Expr *call = e->u.index.base;
    if (!sema_bind_call(s, call, false, &info)) return false;
    Expr *value = call->bound[1];
    if (sema_expr(s, value)->kind == TYPE_ERROR) return false;
    if (value->type.kind != TYPE_SCALAR || value->value.kind == CONST_NONE) {
        sema_error(s, DIAG_not_constant, value->span, "the value of pad");
        return false;
    }
    e->u.index.base = call->bound[0];
    e->pad = value;
    return true;
}

static void report_outside(Sema *s, const AxisIndex *axis, const Decl *d, const Aff *dim, const char *remedy) {
    Diag *diag = diag_report(s->diags, DIAG_index_outside, axis->span, d->name, sema_aff_text(s, dim));
    diag_note(s->diags, diag, SPAN_NONE, "%sstate what bounds it as a constraint of the symbols", remedy);
}

/* X[1:N, 0] among whole tensors: a tensor of those elements, all of which lie inside. */
static void check_part(Sema *s, Expr *e) {
    for (size_t i = 0; i < e->axis_count; i++) {
        const AxisIndex *axis = &e->axes[i];
        const Aff *dim = e->decl->type.shape[i];
        bool range = axis->kind == AXIS_RANGE;
        bool inside = range ? aff_prove_nonneg(s->facts, axis->start) && aff_prove_le(s->facts, axis->start, axis->end) &&
                                  aff_prove_le(s->facts, axis->end, dim)
                            : sema_is_inside(s, axis->start, dim);
        if (inside) continue;
        report_outside(s, axis, e->decl, dim, range ? "a part of a tensor in an operator lies inside it: " : "");
        sema_set_error(e);
        return;
    }
}

void sema_index_element(Sema *s, Expr *e) {
    if (is_pad(e->u.index.base) && !take_pad(s, e)) {
        sema_set_error(e);
        return;
    }
    if (!sema_slice(s, e)) return;
    Decl *d = e->decl;
    if (!s->in_index_notation && !e->pad) {
        check_part(s, e);
        return;
    }
    bool good = s->in_index_notation && e->u.index.count == d->type.rank;
    for (size_t i = 0; good && i < e->axis_count; i++) good = e->axes[i].kind == AXIS_POINT;
    if (!good) {
        sema_error(s, DIAG_bad_call_place, e->span,
                   "in index notation stand elements, with one index for each axis: a part of X is Y[i, j] = X[i + 1, j]");
        sema_set_error(e);
        return;
    }
    for (size_t i = 0; i < e->axis_count; i++) {
        if (e->pad || is_read(e->axes[i].start)) continue;
        if (sema_is_inside(s, e->axes[i].start, d->type.shape[i])) continue;
        report_outside(s, &e->axes[i], d, d->type.shape[i], arena_printf(s->arena, "wrap it, pad(%s, 0)[...], or ", d->name));
    }
    e->type = type_element(d->type.dtype);
}

/* ---- Equations ---- */

/* A new name on its own right side: its elements are made at once, none before another. Reports. */
static bool reads_itself(Sema *s, const Expr *target, const Expr *value) {
    const char *name = target->u.index.base->u.name.name;
    const Expr *own = unknown_base(s, value);
    if (!own || strcmp(own->u.name.name, name) != 0) return false;
    Diag *d = sema_error(s, DIAG_bad_target, own->span,
                         "`%s` is made by this equation, which cannot read it: all its elements are made at once", name);
    diag_note(s->diags, d, SPAN_NONE, "what goes on from element to element is a scan: cumsum, cumprod, cummax");
    return true;
}

/* Why the extent of an index is not known: what it would come from is unknown itself, or nothing says it. */
static void report_extent(Sema *s, const Expr *target, const Expr *item, const Expr *value) {
    const char *name = target->u.index.base->u.name.name;
    const Expr *unknown = unknown_base(s, value);
    const Decl *d = unknown ? sema_find(s, unknown->u.name.name) : NULL;
    if (d) return; /* in error, and reported where it was made */
    if (unknown) {
        sema_undeclared(s, unknown->u.name.name, unknown->span, USE_MEMORY);
    } else {
        Diag *open = sema_error(s, DIAG_index_range, item->span, "%s", item->u.name.name);
        diag_note(s->diags, open, SPAN_NONE, "no axis on the right is indexed by it alone: say how far it runs, `%s[%s in 0:N]`", name,
                  item->u.name.name);
    }
}

/* The range of an index on the left that says its own: from 0, as an axis begins there. Null after a report. */
static const Aff *stated_extent(Sema *s, const Expr *item) {
    Expr *lo = item->u.in.range->u.slice.lo, *hi = item->u.in.range->u.slice.hi, *step = item->u.in.range->u.slice.step;
    int64_t start = 0;
    if (lo && !sema_const_int(s, lo, "the start of an axis", &start)) return NULL;
    if (!hi || step || start != 0 || item->u.in.index->kind != EXPR_NAME) {
        sema_error(s, DIAG_bad_target, item->span, "an index on the left is a name, or a name with its whole axis: i in 0:N");
        return NULL;
    }
    const Aff *extent = sema_scalar(s, hi, "an extent");
    if (!extent) return NULL;
    if (!moves(extent) && aff_prove_nonneg(s->facts, extent)) return extent;
    sema_error(s, DIAG_bad_extent, hi->span, "%s may be negative; state what bounds it as a constraint of the symbols",
               sema_source_text(s, hi->span));
    return NULL;
}

/* The extent of the axis that an index on the left runs over; `axis`: of what is declared, else null. Null after a report. */
static const Aff *left_extent(Sema *s, const Expr *target, size_t i, const Expr *value, const Aff *axis) {
    const Expr *item = target->u.index.items[i];
    if (item->kind == EXPR_IN) {
        const Aff *stated = stated_extent(s, item);
        if (!stated || !axis || sema_same_extent(s, stated, axis)) return stated;
        sema_error(s, DIAG_bad_target, item->span, "the axis has extent %s, and the index runs to %s", sema_aff_text(s, axis),
                   sema_aff_text(s, stated));
        return NULL;
    }
    if (item->kind != EXPR_NAME) {
        sema_error(s, DIAG_bad_target, item->span, "an index on the left is a name that runs over its whole axis");
        return NULL;
    }
    const Aff *extent = axis ? axis : bare_extent(s, value, item->u.name.name);
    if (!extent) report_extent(s, target, item, value);
    return extent;
}

/* A name that nothing declares keeps what its equation makes: a value, or what no more is said of after an error. */
static Decl *new_value(Sema *s, Decl *declared, const Expr *base, const Expr *value, const Aff *const *shape, size_t rank, bool good) {
    Decl *d = declared ? declared : sema_new_decl(s, DECL_VALUE, base->u.name.name, base->span);
    d->type = (Type){.kind = good ? TYPE_TENSOR : TYPE_ERROR,
                     .rank = (uint8_t)rank,
                     .shape = shape,
                     .dtype = declared ? declared->type.dtype : value->type.dtype};
    d->type.number = !declared && type_is_number(&value->type);
    if (d->type.number) d->type.dtype = DTYPE_F32;
    d->value = (Expr *)value;
    const Decl *known = sema_find(s, d->name);
    if (!known) sema_declare(s, d);
    if (good) VEC_PUSH(s->arena, &s->values, d);
    return d;
}

/* Opens the indices of the left side over `shape`; false after a report. */
static bool open_indices(Sema *s, Stmt *stmt, const Decl *d, const Aff **shape) {
    const Expr *target = stmt->u.assign.targets[0], *value = stmt->u.assign.values[0];
    bool good = true;
    stmt->indices = ARENA_ARRAY(s->arena, Decl *, AST_MAX_RANK);
    for (size_t i = 0; i < target->u.index.count; i++) {
        const Expr *item = target->u.index.items[i], *name = item->kind == EXPR_IN ? item->u.in.index : item;
        shape[i] = left_extent(s, target, i, value, d ? d->type.shape[i] : NULL);
        good &= shape[i] != NULL;
        if (!good && !d) return false;                                              /* one report: the others may come of it */
        if (!shape[i] && d && name->kind == EXPR_NAME) shape[i] = d->type.shape[i]; /* reported: its uses are not */
        if (shape[i]) stmt->indices[stmt->index_count++] = new_index(s, name->u.name.name, name->span, aff_const(s->aff, 0), shape[i]);
    }
    return good;
}

/* Whether what stands on the left can be defined so. */
static bool check_left(Sema *s, const Expr *target, const Decl *d) {
    bool named = target->u.index.base->kind == EXPR_NAME;
    if (target->u.index.count > AST_MAX_RANK)
        diag_report(s->diags, DIAG_rank_limit, target->span, "this tensor", AST_MAX_RANK);
    else if (!named || (d && ((d->kind != DECL_TENSOR && !d->dtype_name) || d->type.rank != target->u.index.count)))
        sema_error(s, DIAG_bad_target, target->span, "index notation defines a tensor, or a new name, with one index for each axis");
    else
        return true;
    return false;
}

void sema_index_equation(Sema *s, Stmt *stmt) {
    Expr *target = stmt->u.assign.targets[0], *value = stmt->u.assign.values[0];
    Expr *base = target->u.index.base;
    Decl *d = base->kind == EXPR_NAME ? sema_find(s, base->u.name.name) : NULL;
    Decl *declared = !d && base->kind == EXPR_NAME ? sema_declared_value(s, base->u.name.name) : NULL;
    if (!check_left(s, target, d ? d : declared)) {
        if (declared) new_value(s, declared, base, value, declared->type.shape, declared->type.rank, false);
        return;
    }
    AffFacts *outer = s->facts;
    const Aff **shape = ARENA_ARRAY(s->arena, const Aff *, AST_MAX_RANK);
    s->facts = aff_facts_fork(outer);
    s->in_index_notation = true;
    sema_open_scope(s);
    bool good = (d || !reads_itself(s, target, value)) && open_indices(s, stmt, d ? d : declared, shape);
    const Type *t = good || d ? sema_expr(s, value) : &value->type;
    if (type_is_shaped(t)) {
        sema_error(s, DIAG_bad_operand, value->span, "inside index notation stand elements such as X[i, k], not %s", sema_type_text(s, t));
        good = false;
    }
    good &= t->kind == TYPE_SCALAR;
    if (good && (d || declared)) sema_widen(s, value, (d ? d : declared)->type.dtype);
    sema_close_scope(s);
    s->in_index_notation = false;
    s->facts = outer;
    if (!d) d = new_value(s, declared, base, value, shape, target->u.index.count, good);
    stmt->targets = ARENA_ARRAY(s->arena, Decl *, 1);
    stmt->targets[0] = d;
    stmt->target_count = 1;
    stmt->value = value;
    if (good) stmt->action = ACTION_EQUATION;
}
