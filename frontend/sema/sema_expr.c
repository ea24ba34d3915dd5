/* Types and values of expressions: names, constants, folding of scalars. */
#include "sema_internal.h"

bool sema_is_error(const Expr *e) {
    return e->type.kind == TYPE_ERROR;
}
void sema_set_error(Expr *e) {
    e->type = (Type){.kind = TYPE_ERROR};
}

bool const_is_true(const ConstValue *v) {
    return v->kind == CONST_FLOAT ? v->f != 0 : v->kind != CONST_NONE && v->i != 0;
}

void sema_set_affine(Sema *s, Expr *e, const Aff *value) {
    int64_t number;
    (void)s;
    e->affine = value;
    if (value && aff_is_const(value, &number)) e->value = (ConstValue){CONST_INT, number, (double)number, NULL};
}

/* ---- Leaves ---- */

static void check_const(Sema *s, Expr *e) {
    static const Dtype DTYPES[] = {DTYPE_NONE, DTYPE_I64, DTYPE_F64, DTYPE_BOOL, DTYPE_NONE};
    e->value = e->u.constant;
    if (e->value.kind == CONST_STRING) {
        e->type = (Type){.kind = TYPE_STRING};
        return;
    }
    e->type = type_scalar(DTYPES[e->value.kind]);
    if (e->value.kind == CONST_INT) e->affine = aff_const(s->aff, e->value.i);
}

/* A whole tensor is a value in an operator; in a sketch it is memory, reached by load and store. */
static void check_tensor_name(Sema *s, Expr *e, Decl *d) {
    e->type = d->type;
    d->used = true;
    if (s->block->kind == BLOCK_OPERATOR) return;
    Diag *diag = diag_report(s->diags, DIAG_not_a_tile, e->span, d->name);
    diag_note(s->diags, diag, d->span, "`%s` is a tensor; load a slice of it into a tile first", d->name);
    sema_set_error(e);
}

/* num_sms, warp_size ... in an operator; inf and pi are numbers. */
static bool of_machine(const Sema *s, const Decl *d) {
    return s->block->kind == BLOCK_OPERATOR && d->constant.kind == CONST_NONE;
}

static void check_name(Sema *s, Expr *e) {
    Decl *d = e->decl && e->decl->kind == DECL_PARAM ? e->decl : sema_find(s, e->u.name.name);
    if (!d) {
        sema_undeclared(s, e->u.name.name, e->span, USE_VALUE);
        sema_set_error(e);
        return;
    }
    e->decl = d;
    d->used = true;
    switch (d->kind) {
    case DECL_TENSOR:
    case DECL_VIEW:
        check_tensor_name(s, e, d);
        break;
    case DECL_TILE:
    case DECL_VALUE:
        e->type = d->type;
        break;
    case DECL_PREDEFINED:
        if (of_machine(s, d)) {
            sema_error(s, DIAG_bad_call_place, e->span,
                       "what an operator computes does not depend on the machine: `%s` is for sketches, a size for operators "
                       "is a symbol or constexpr",
                       d->name);
            sema_set_error(e);
            break;
        }
        /* fall through */
    default:
        e->type = d->type;
        e->affine = d->affine;
        if (d->kind != DECL_SCALAR) e->value = d->constant; /* a scalar's constant is its default */
        break;
    }
}

/* ---- Operators ---- */

static void check_operands(Sema *s, Expr *e) {
    bool failed = false;
    for (size_t i = 0; i < e->bound_count; i++)
        if (e->bound[i]) failed |= sema_expr(s, e->bound[i])->kind == TYPE_ERROR;
    if (failed) sema_set_error(e);
}

void sema_operator(Sema *s, Expr *e) {
    bool is_binary = e->kind == EXPR_BINARY;
    CallInfo info = {.id = oper_builtin(e->u.oper.op)};
    e->builtin = info.id;
    e->bound_count = is_binary ? 2 : 1;
    e->bound = ARENA_ARRAY(s->arena, Expr *, 2);
    e->bound[0] = e->u.oper.a;
    e->bound[1] = e->u.oper.b;
    check_operands(s, e);
    if (!sema_is_error(e)) sema_apply(s, e, &info);
}

static void check_list(Sema *s, Expr *e) {
    e->type = (Type){.kind = TYPE_LIST};
    for (size_t i = 0; i < e->u.list.count; i++)
        if (sema_expr(s, e->u.list.items[i])->kind == TYPE_ERROR) sema_set_error(e);
}

static void check_index(Sema *s, Expr *e) {
    if (s->block->kind == BLOCK_OPERATOR) {
        sema_index_element(s, e);
        return;
    }
    sema_error(s, DIAG_bad_call_place, e->span, "a slice stands in load and store only; load it into a tile first");
    sema_set_error(e);
}

/* S, or S[], in index notation: the one element of a tensor without axes; elsewhere it is the tensor. */
static bool is_lone_element(Sema *s, const Expr *e) {
    bool parameter = e->decl && e->decl->kind == DECL_PARAM;
    const Decl *d = s->in_index_notation && e->kind == EXPR_NAME && !parameter ? sema_find(s, e->u.name.name) : NULL;
    return d && type_is_shaped(&d->type) && !d->type.rank;
}

static void check_lone_element(Sema *s, Expr *e) {
    Expr *base = ARENA_NEW(s->arena, Expr);
    *base = *e;
    e->kind = EXPR_INDEX;
    e->u.index.base = base;
    e->u.index.items = NULL;
    e->u.index.count = 0;
    check_index(s, e);
}

const Type *sema_expr(Sema *s, Expr *e) {
    switch (e->kind) {
    case EXPR_ERROR:
        sema_set_error(e);
        break;
    case EXPR_CONST:
        check_const(s, e);
        break;
    case EXPR_NAME:
        if (is_lone_element(s, e))
            check_lone_element(s, e);
        else
            check_name(s, e);
        break;
    case EXPR_UNARY:
    case EXPR_BINARY:
        sema_operator(s, e);
        break;
    case EXPR_CALL:
        sema_call(s, e);
        break;
    case EXPR_INDEX:
        if (!is_lone_element(s, e->u.index.base) && sema_unwrap_whole(e)) return sema_expr(s, e);
        check_index(s, e);
        break;
    case EXPR_SLICE:
    case EXPR_IN:
        sema_error(s, DIAG_bad_call_place, e->span, "a range stands inside brackets only");
        sema_set_error(e);
        break;
    case EXPR_TUPLE:
    case EXPR_LIST:
        check_list(s, e);
        break;
    }
    return &e->type;
}

/* ---- Scalars where a number is needed ---- */

bool sema_const_int(Sema *s, Expr *e, const char *what, int64_t *value) {
    const Aff *a = sema_scalar(s, e, what);
    if (!a) return false;
    if (aff_is_const(a, value)) return true;
    sema_error(s, DIAG_not_constant, e->span, "%s", what);
    return false;
}

bool sema_const_bool(Sema *s, Expr *e, const char *what, bool *value) {
    if (sema_expr(s, e)->kind == TYPE_ERROR) return false;
    *value = const_is_true(&e->value);
    if (e->value.kind == CONST_BOOL) return true;
    sema_error(s, DIAG_not_constant, e->span, "%s (true or false)", what);
    return false;
}
