/* Type rules of products and of what moves a tile's lanes. */
#include "analyzer.h"
#include "sema_internal.h"

#include <math.h>
#include <string.h>

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
            return sema_bad_operand(s, e->bound[i], row->name,
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

void sema_product(Sema *s, Expr *e, const CallInfo *info, const BuiltinInfo *row) {
    bool ta, tb;
    Expr *precision = sema_argument(e, info, "precision");
    if (!check_product_types(s, e, row) || !sema_read_flag(s, e, info, "trans_a", &ta) || !sema_read_flag(s, e, info, "trans_b", &tb)) {
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

void sema_transpose(Sema *s, Expr *e, const CallInfo *info) {
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

void sema_reshape(Sema *s, Expr *e, const BuiltinInfo *row) {
    size_t rank;
    const Type *x = &e->bound[0]->type;
    const Aff **shape = sema_shape_list(s, e->bound[1], &rank);
    if (!shape || !type_is_shaped(x)) {
        if (shape) sema_bad_operand(s, e->bound[0], row->name, "a tile or tensor");
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

void sema_ceil_rule(Sema *s, Expr *e) {
    if (!e->bound[1] && type_is_shaped(&e->bound[0]->type)) {
        e->builtin = BUILTIN_CEILING;
        sema_elementwise(s, e, builtin_info(e->builtin));
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
        sema_bad_operand(s, e->bound[i], "ceil", "integers: ceil(a, b) is a / b rounded up");
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
