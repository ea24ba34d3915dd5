/* Numbers that steer: integers in bounds, indices and sizes. Scalars are affine or a leaf of their
 * own; so is what a tile of rank 0 holds. Arithmetic around it is exact there, in 64 bits. */
#include "sema_internal.h"

/* A value that is not affine becomes a leaf of its own. */
static const Aff *opaque_leaf(Sema *s, Expr *e, const char *name) {
    Decl *d = sema_new_decl(s, DECL_LOCAL, name, e->span);
    d->type = type_scalar(DTYPE_I64);
    d->value = e;
    d->affine = aff_var(s->aff, d, d->name);
    bool unsigned_int = !dtype_is_signed(e->type.dtype) || e->type.dtype == DTYPE_BOOL;
    if (unsigned_int) aff_facts_range(s->facts, d->affine, aff_const(s->aff, 0), NULL);
    return d->affine;
}

/* What a tile holds until it may have changed: a write, or the begin or end of a block. */
static const Aff *tile_leaf(Sema *s, Expr *e) {
    Decl *tile = e->decl;
    if (!tile->number || tile->number_stretch != s->stretch) {
        tile->number = opaque_leaf(s, e, tile->name);
        tile->number_stretch = s->stretch;
    }
    return tile->number;
}

static bool is_number(const Expr *e) {
    bool single = e->type.kind == TYPE_SCALAR || (e->type.kind == TYPE_TILE && e->type.rank == 0);
    return single && dtype_is_int(e->type.dtype);
}

const Aff *sema_number(Sema *s, Expr *e) {
    if (e->affine) return e->affine;
    if (e->kind == EXPR_NAME && e->decl && e->decl->kind == DECL_TILE) return tile_leaf(s, e);
    bool foldable = e->bound_count >= 1 && e->builtin && e->kind != EXPR_NAME;
    for (size_t i = 0; foldable && i < e->bound_count; i++) foldable = i < 2 ? !e->bound[i] || is_number(e->bound[i]) : !e->bound[i];
    Expr *a = foldable ? e->bound[0] : NULL, *b = a && e->bound_count > 1 ? e->bound[1] : NULL;
    const Aff *folded = NULL;
    if (a && sema_folds(e->builtin, b != NULL))
        folded = sema_fold_affine(s->aff, e->builtin, sema_number(s, a), b ? sema_number(s, b) : NULL);
    return folded ? folded : opaque_leaf(s, e, e->kind == EXPR_NAME ? e->u.name.name : "value");
}

const Aff *sema_scalar(Sema *s, Expr *e, const char *what) {
    const Type *t = sema_expr(s, e);
    if (t->kind == TYPE_ERROR) return NULL;
    if (is_number(e)) return sema_number(s, e);
    Diag *d = sema_error(s, DIAG_not_integer, e->span, "%s must be an integer, not %s", what, sema_type_text(s, t));
    if (e->kind == EXPR_BINARY && e->u.oper.op == OPER_DIV && is_number(e->u.oper.a) && is_number(e->u.oper.b))
        diag_note(s->diags, d, SPAN_NONE, "of whole numbers `a // b` is the quotient rounded down, `ceil(a, b)` rounded up");
    return NULL;
}

/* ---- What changes from one iteration to the next ---- */

static bool leaf_varies(const Decl *leaf, const Changes *c) {
    if (leaf == c->variable) return true;
    if (leaf->kind != DECL_LOCAL || leaf->order < c->variable->order) return false;
    const Expr *of = leaf->value;
    const Decl *tile = of && of->kind == EXPR_NAME ? of->decl : NULL;
    if (!tile || tile->kind != DECL_TILE || tile->order > c->variable->order) return true;
    for (size_t i = 0; i < c->tile_count; i++)
        if (c->tiles[i] == tile) return true;
    return false;
}

bool sema_varies(const Aff *e, const Changes *c) {
    if (e->kind == AFF_VAR) return leaf_varies(e->var, c);
    for (size_t i = 0; i < e->count; i++)
        if (sema_varies(e->args[i], c)) return true;
    return false;
}

bool sema_is_dynamic(const Aff *e) {
    if (e->kind == AFF_VAR) return true;
    for (size_t i = 0; i < e->count; i++)
        if (sema_is_dynamic(e->args[i])) return true;
    return false;
}
