/* `use` and `require`: what can be said of them without the library and the target. */
#include "sema_internal.h"

#include <string.h>

/* ---- use ---- */

static void check_params(Sema *s, Use *u) {
    u->values = ARENA_ARRAY(s->arena, int64_t, u->params.count);
    for (size_t i = 0; i < u->params.count; i++) {
        const Arg *a = &u->params.data[i];
        if (a->name && !a->is_output)
            sema_const_int(s, a->value, "a parameter of `use`", &u->values[i]);
        else
            sema_error(s, DIAG_bad_use, a->value->span, "its parameters are named, as in use %s(BM=128)", u->name);
    }
}

void sema_uses(Sema *s, Block *b) {
    bool own = b->decl_count || b->body.count || b->case_count || b->require_count;
    if (b->kind == BLOCK_OPERATOR)
        sema_error(s, DIAG_bad_use, b->uses[0].span, "it stands in a sketch; an operator says what is computed, not how");
    else if (!b->implements.op)
        sema_error(s, DIAG_bad_use, b->uses[0].span, "the sketch implements no operator: write sketch %s implements OPERATOR { ... }",
                   b->name[0] ? b->name : "NAME");
    else if (own)
        sema_error(s, DIAG_bad_use, b->uses[0].span,
                   "names, sizes and statements come from the operator and from what is used: the sketch has none of its own");
    for (size_t i = 0; i < b->use_count; i++) check_params(s, &b->uses[i]);
}

/* ---- require ---- */

static bool is_dtype_or_flag(const char *name) {
    Dtype dtype;
    return strcmp(name, "named") == 0 || dtype_find(name, &dtype);
}

static void check_condition(Sema *s, const Expr *e);

/* has(wgmma), dtype(A) */
static void check_call(Sema *s, const Expr *e) {
    const char *callee = e->u.call.callee;
    const Args *args = &e->u.call.args;
    bool is_dtype = strcmp(callee, "dtype") == 0, named = is_dtype || strcmp(callee, "has") == 0;
    bool folds = strcmp(callee, "min") == 0 || strcmp(callee, "max") == 0 || strcmp(callee, "ceil") == 0;
    const Expr *first = args->count ? args->data[0].value : NULL;
    if (named && args->count == 1 && first->kind == EXPR_NAME) {
        const Decl *d = sema_find(s, first->u.name.name);
        if (is_dtype && (!d || d->kind != DECL_TENSOR))
            sema_error(s, DIAG_bad_require, first->span, "`%s` is no tensor", first->u.name.name);
    } else if (folds && args->count == 2) {
        for (size_t i = 0; i < 2; i++) check_condition(s, args->data[i].value);
    } else {
        sema_error(s, DIAG_bad_require, e->span, "conditions call has(FEATURE), dtype(TENSOR), min, max and ceil");
    }
}

static void check_name(Sema *s, const Expr *e) {
    Decl *d = sema_find(s, e->u.name.name);
    bool fits = d && (d->kind == DECL_SYMBOL || d->kind == DECL_CONSTEXPR);
    if (fits)
        d->used = true;
    else if (!is_dtype_or_flag(e->u.name.name))
        sema_error(s, DIAG_bad_require, e->span, "`%s` is no symbol and no constexpr of this sketch", e->u.name.name);
}

static void check_condition(Sema *s, const Expr *e) {
    bool whole = e->kind == EXPR_CONST && (e->u.constant.kind == CONST_INT || e->u.constant.kind == CONST_BOOL);
    bool divides = e->kind == EXPR_BINARY && e->u.oper.op == OPER_DIV;
    switch (e->kind) {
    case EXPR_NAME:
        check_name(s, e);
        break;
    case EXPR_UNARY:
        check_condition(s, e->u.oper.a);
        break;
    case EXPR_BINARY:
        if (divides) sema_error(s, DIAG_bad_require, e->u.oper.op_span, "whole numbers are divided by //");
        check_condition(s, e->u.oper.a);
        check_condition(s, e->u.oper.b);
        break;
    case EXPR_CALL:
        check_call(s, e);
        break;
    default:
        if (!whole && e->kind != EXPR_ERROR) sema_error(s, DIAG_bad_require, e->span, "it is no whole number and no condition");
    }
}

void sema_requires(Sema *s, const Block *b) {
    if (b->kind == BLOCK_OPERATOR && b->require_count)
        sema_error(s, DIAG_bad_require, b->requires[0] -> span,
                   "it stands in a sketch; what an operator asks of sizes is a constraint of its symbols");
    for (size_t i = 0; i < b->require_count && b->kind == BLOCK_SKETCH; i++) check_condition(s, b->requires[i]);
}
