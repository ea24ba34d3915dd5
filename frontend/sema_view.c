/* Which views may be stored to: no two elements of such a view are the same element of the tensor.
 *
 * The indices of the tensor are known; shown is that the view's follow. Each index of the tensor is a sum of
 * coefficient times atom, an atom being an index of the view, or a floordiv or mod of one. Within a sum atoms
 * follow where it is a mixed radix number: in some order each coefficient is larger than all that the atoms
 * before it can add. An index m follows from m // d and m % d, and m // d from (m // d) % e and m // (d*e),
 * where d = 0 leaves the view without elements. */
#include "sema_internal.h"

enum { ATOMS_MAX = 32 };

typedef struct {
    Sema *s;
    const Decl *view;
    AffFacts *facts;
    const Aff *known[ATOMS_MAX]; /* atoms that follow from the tensor's indices */
    size_t count;
} Inverse;

typedef struct {
    const Aff *atom, *coefficient;
} Part;

static bool has_index(const Inverse *v, const Aff *e) {
    for (size_t i = 0; i < v->view->dim_count; i++)
        if (aff_depends_on(e, v->view->view_indices[i])) return true;
    return false;
}

static bool is_known(const Inverse *v, const Aff *e) {
    for (size_t i = 0; i < v->count; i++)
        if (v->known[i] == e) return true;
    return false;
}

static void add_known(Inverse *v, const Aff *e) {
    if (v->count < ATOMS_MAX && !is_known(v, e)) v->known[v->count++] = e;
}

/* ---- Sums ---- */

/* One term of a sum: adds its coefficient to the part of its atom. A term without indices of the view, or
 * with a known atom, says nothing new. False where a term has two atoms. */
static bool add_part(Inverse *v, const Aff *term, int64_t number, Part *parts, size_t *count) {
    AffCtx *c = v->s->aff;
    const Aff *atom = NULL, *coefficient = aff_const(c, number);
    bool product = term->kind == AFF_PRODUCT;
    for (size_t i = 0; i < (product ? term->count : 1); i++) {
        const Aff *factor = product ? term->args[i] : term;
        if (!has_index(v, factor)) coefficient = aff_mul(c, coefficient, factor);
        else if (atom) return false;
        else atom = factor;
    }
    if (!atom || is_known(v, atom)) return true;
    for (size_t i = 0; i < *count; i++)
        if (parts[i].atom == atom) {
            parts[i].coefficient = aff_add(c, parts[i].coefficient, coefficient);
            return true;
        }
    if (*count == ATOMS_MAX) return false;
    parts[(*count)++] = (Part){atom, coefficient};
    return true;
}

/* The largest value of an atom whose smallest is 0; null where that is not known. */
static const Aff *largest(Inverse *v, const Aff *atom) {
    AffCtx *c = v->s->aff;
    const Aff *one = aff_const(c, 1);
    const Decl *view = v->view;
    for (size_t i = 0; i < view->dim_count; i++) {
        if (atom == view->view_indices[i]->affine) return aff_sub(c, view->type.shape[i], one);
        if (atom->kind == AFF_FLOORDIV && atom->args[0] == view->view_indices[i]->affine)
            return aff_floordiv(c, aff_sub(c, view->type.shape[i], one), atom->args[1]);
    }
    return atom->kind == AFF_MOD ? aff_sub(c, atom->args[1], one) : NULL;
}

/* Puts the next digit of the mixed radix number to the front: all others' coefficients are larger than what
 * it and those before it can add. */
static bool next_digit(Inverse *v, Part *parts, size_t count, const Aff **below) {
    AffCtx *c = v->s->aff;
    for (size_t i = 0; i < count; i++) {
        const Aff *most = count > 1 ? largest(v, parts[i].atom) : NULL;
        if (!aff_prove_le(v->facts, aff_add(c, *below, aff_const(c, 1)), parts[i].coefficient)) continue;
        if (count > 1 && !most) continue;
        const Aff *sum = most ? aff_add(c, *below, aff_mul(c, parts[i].coefficient, most)) : *below;
        bool fits = true;
        for (size_t k = 0; k < count && fits; k++)
            fits = k == i || aff_prove_le(v->facts, aff_add(c, sum, aff_const(c, 1)), parts[k].coefficient);
        if (!fits) continue;
        Part digit = parts[i];
        parts[i] = parts[0];
        parts[0] = digit;
        *below = sum;
        return true;
    }
    return false;
}

static void invert_sum(Inverse *v, const Aff *e) {
    AffCtx *c = v->s->aff;
    Part parts[ATOMS_MAX];
    size_t count = 0;
    if (e->kind == AFF_OVERFLOW || e->kind == AFF_CONST) return;
    if (e->kind != AFF_SUM && !add_part(v, e, 1, parts, &count)) return;
    for (size_t i = 0; e->kind == AFF_SUM && i < e->count; i++)
        if (!add_part(v, e->args[i], e->coefs[i], parts, &count)) return;
    const Aff *zero = aff_const(c, 0), *below = zero;
    for (size_t i = 0; i < count; i++) { /* a digit that counts down is one that counts up, seen from its end */
        const Aff *negated = aff_sub(c, zero, parts[i].coefficient);
        if (aff_prove_nonneg(v->facts, negated)) parts[i].coefficient = negated;
    }
    for (size_t i = 0; i < count; i++)
        if (!next_digit(v, parts + i, count - i, &below)) return;
    for (size_t i = 0; i < count; i++) add_known(v, parts[i].atom);
}

/* ---- Quotients and remainders ---- */

/* Positive, or 0 only where the view has no elements: the extent of the index is a multiple. */
static bool divides(const Inverse *v, const Aff *d, const Aff *extent) {
    const Aff *rest = aff_mod(v->s->aff, extent, d);
    return aff_prove_le(v->facts, aff_const(v->s->aff, 1), d) || (rest->kind == AFF_CONST && rest->value == 0);
}

/* Does e, an index of the view or a quotient of it, follow from known remainders and a known quotient? */
static bool follows(const Inverse *v, const Aff *e, const Aff *extent, unsigned depth) {
    AffCtx *c = v->s->aff;
    if (is_known(v, e)) return true;
    for (size_t i = 0; i < v->count && depth; i++) {
        const Aff *digit = v->known[i];
        if (digit->kind != AFF_MOD || digit->args[0] != e || !divides(v, digit->args[1], extent)) continue;
        const Aff *quotient = e->kind == AFF_FLOORDIV
                                  ? aff_floordiv(c, e->args[0], aff_mul(c, e->args[1], digit->args[1]))
                                  : aff_floordiv(c, e, digit->args[1]);
        if (follows(v, quotient, extent, depth - 1)) return true;
    }
    return false;
}

static bool all_follow(const Inverse *v) {
    for (size_t i = 0; i < v->view->dim_count; i++)
        if (!follows(v, v->view->view_indices[i]->affine, v->view->type.shape[i], AST_MAX_RANK)) return false;
    return true;
}

bool sema_view_is_injective(Sema *s, const Decl *view) {
    Inverse v = {.s = s, .view = view, .facts = aff_facts_fork(s->facts)};
    const Aff *one = aff_const(s->aff, 1);
    for (size_t i = 0; i < view->dim_count; i++) {
        const Aff *last = aff_sub(s->aff, view->type.shape[i], one);
        aff_facts_range(v.facts, view->view_indices[i]->affine, aff_const(s->aff, 0), last);
        aff_facts_nonneg(v.facts, last); /* a view without elements has nothing to show */
    }
    for (size_t round = 0; round <= view->view_of->axis_count; round++) { /* what is known helps other sums */
        for (size_t i = 0; i < view->view_of->axis_count; i++)
            if (view->view_of->axes[i].start) invert_sum(&v, view->view_of->axes[i].start);
        for (size_t i = 0; i < view->dim_count; i++)
            if (follows(&v, view->view_indices[i]->affine, view->type.shape[i], AST_MAX_RANK))
                add_known(&v, view->view_indices[i]->affine);
    }
    return all_follow(&v);
}
