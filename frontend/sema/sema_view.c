/* Which views and strided tensors may be stored to: no two elements of such a view are the same element of the
 * tensor, no two of such a tensor the same place in memory.
 *
 * The indices of the tensor (the place in memory) are known; shown is that the view's follow. Each index of the tensor is a sum of
 * coefficient times atom, an atom being an index of the view, or a floordiv or mod of one. Within a sum atoms
 * follow where it is a mixed radix number: in some order each coefficient is larger than all that the atoms
 * before it can add. An index m follows from m // d and m % d, and m // d from (m // d) % e and m // (d*e),
 * where d = 0 leaves the view without elements. */
#include "sema_internal.h"

enum { ATOMS_MAX = 32 };

typedef struct {
    Sema *s;
    const Type *type;  /* of the view or strided tensor */
    const Aff **index; /* one a dim of it */
    AffFacts *facts;
    const Aff *known[ATOMS_MAX]; /* atoms that follow from the tensor's indices */
    size_t count;
} Inverse;

typedef struct {
    const Aff *atom, *coefficient;
} Part;

static bool has_index(const Inverse *v, const Aff *e) {
    for (unsigned i = 0; i < v->type->rank; i++)
        if (aff_depends_on(e, v->index[i])) return true;
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
        if (!has_index(v, factor))
            coefficient = aff_mul(c, coefficient, factor);
        else if (atom)
            return false;
        else
            atom = factor;
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
    for (unsigned i = 0; i < v->type->rank; i++) {
        const Aff *last = aff_sub(c, v->type->shape[i], one);
        if (atom == v->index[i]) return last;
        if (atom->kind == AFF_FLOORDIV && atom->args[0] == v->index[i]) return aff_floordiv(c, last, atom->args[1]);
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
        const Aff *quotient = e->kind == AFF_FLOORDIV ? aff_floordiv(c, e->args[0], aff_mul(c, e->args[1], digit->args[1]))
                                                      : aff_floordiv(c, e, digit->args[1]);
        if (follows(v, quotient, extent, depth - 1)) return true;
    }
    return false;
}

static bool index_follows(const Inverse *v, unsigned i) {
    return follows(v, v->index[i], v->type->shape[i], AST_MAX_RANK);
}

static Inverse inverse_of(Sema *s, const Type *type) {
    Inverse v = {.s = s, .type = type, .facts = aff_facts_fork(s->facts)};
    v.index = ARENA_ARRAY(s->arena, const Aff *, type->rank + 1);
    return v;
}

/* Of a type whose indices are set: does each follow from these sums? */
static bool all_follow(Inverse *v, const Aff *const *sums, size_t sum_count) {
    const Aff *zero = aff_const(v->s->aff, 0), *one = aff_const(v->s->aff, 1);
    for (unsigned i = 0; i < v->type->rank; i++) {
        const Aff *last = aff_sub(v->s->aff, v->type->shape[i], one);
        aff_facts_range(v->facts, v->index[i], zero, last);
        aff_facts_nonneg(v->facts, last); /* without elements there is nothing to show */
        if (aff_prove_le(v->facts, last, zero)) add_known(v, v->index[i]);
    }
    for (size_t round = 0; round <= sum_count; round++) { /* what is known helps other sums */
        for (size_t i = 0; i < sum_count; i++)
            if (sums[i]) invert_sum(v, sums[i]);
        for (unsigned i = 0; i < v->type->rank; i++)
            if (index_follows(v, i)) add_known(v, v->index[i]);
    }
    for (unsigned i = 0; i < v->type->rank; i++)
        if (!index_follows(v, i)) return false;
    return true;
}

bool sema_view_is_injective(Sema *s, const Decl *view) {
    Inverse v = inverse_of(s, &view->type);
    const Expr *of = view->view_of;
    const Aff **sums = ARENA_ARRAY(s->arena, const Aff *, of->axis_count + 1);
    for (unsigned i = 0; i < v.type->rank; i++) v.index[i] = view->view_indices[i]->affine;
    for (size_t i = 0; i < of->axis_count; i++) sums[i] = of->axes[i].start;
    return all_follow(&v, sums, of->axis_count);
}

bool sema_strides_are_injective(Sema *s, const Decl *tensor) {
    Inverse v = inverse_of(s, &tensor->type);
    const Aff *place = aff_const(s->aff, 0);
    for (unsigned i = 0; i < v.type->rank; i++) {
        v.index[i] = aff_var(s->aff, tensor->strides[i], "index");
        place = aff_add(s->aff, place, aff_mul(s->aff, v.index[i], tensor->stride_affs[i]));
    }
    return all_follow(&v, &place, 1);
}
