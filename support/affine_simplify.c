/* Rewriting under facts, evaluation, substitution. */
#include "affine_internal.h"
#include "analyzer.h"

static bool is_zero(const Aff *e) {
    return e->kind == AFF_CONST && e->value == 0;
}

typedef struct {
    const AffFacts *facts;
    AffCtx *c;
} Ctx;

static bool proves(Ctx *s, const Aff *e) {
    return aff_quick_nonneg(s->c, s->facts, e);
}

/* x = d*quotient + rest, by coefficients, known divisibility and common factors. */
static void divide(Ctx *s, const Aff *x, const Aff *d, const Aff **quotient, const Aff **rest) {
    int64_t k;
    if (!aff_is_const(d, &k)) {
        aff_split_monomial(s->c, x, d, quotient, rest);
        return;
    }
    AffView v = aff_view(&x);
    AffPoly q, r;
    aff_poly_init(&q, 0);
    aff_poly_init(&r, v.constant);
    for (size_t i = 0; i < v.count; i++) {
        const Aff *term = aff_scale(s->c, v.terms[i], v.coefs[i]);
        if (aff_known_divisor(s->facts, term, k) == k)
            aff_poly_add(&q, aff_floordiv(s->c, term, d), 1);
        else
            aff_poly_add(&r, term, 1);
    }
    *quotient = aff_poly_finish(s->c, &q);
    *rest = aff_poly_finish(s->c, &r);
}

/* The value q for which d*q <= x < d*(q+1) is proved, d a positive constant; else null. */
static const Aff *constant_quotient(Ctx *s, const Aff *x, int64_t d) {
    int64_t lo, hi;
    if (!aff_lower_bound(s->facts, x, &lo) || !aff_upper_bound(s->facts, x, &hi)) return NULL;
    int64_t q = aff_floor_quotient(lo, d);
    return q == aff_floor_quotient(hi, d) ? aff_const(s->c, q) : NULL;
}

static const Aff *divide_under_facts(Ctx *s, const Aff *e, const Aff *x, const Aff *d) {
    int64_t k = 0;
    bool constant = aff_is_const(d, &k), floor = e->kind == AFF_FLOORDIV;
    AffView v = aff_view(&d);
    bool monomial = v.count == 1 && v.constant == 0 && v.coefs[0] == 1;
    if (!(constant && k > 0) && !(proves(s, aff_sub(s->c, d, aff_const(s->c, 1))))) return e;
    const Aff *quotient = aff_const(s->c, 0), *rest = x;
    if (constant || monomial) divide(s, x, d, &quotient, &rest);
    if (proves(s, rest) && proves(s, aff_sub(s->c, aff_sub(s->c, d, aff_const(s->c, 1)), rest))) return floor ? quotient : rest;
    if (constant) {
        const Aff *q = constant_quotient(s, rest, k);
        if (q && floor) return aff_add(s->c, quotient, q);
        if (q) return aff_sub(s->c, rest, aff_scale(s->c, q, k));
    }
    if (is_zero(quotient)) return e;
    if (!floor) return aff_mod(s->c, rest, d);
    return aff_add(s->c, quotient, aff_floordiv(s->c, rest, d));
}

static size_t term_count(const Aff *e) {
    return e->kind == AFF_OVERFLOW ? SIZE_MAX : aff_view(&e).count;
}

/* d*(x//d) is x where d is known to divide x; d*(x//d) + x%d is x where d >= 1. */
static const Aff *recombine(Ctx *s, const Aff *e) {
    AffView v = aff_view(&e);
    for (size_t i = 0; i < v.count; i++) {
        const Aff *t = v.terms[i], *replacement;
        int64_t d;
        if (t->kind == AFF_FLOORDIV && aff_is_const(t->args[1], &d) && v.coefs[i] % d == 0 &&
            aff_known_divisor(s->facts, t->args[0], d) == d) {
            replacement = aff_scale(s->c, t->args[0], v.coefs[i] / d);
        } else if (t->kind == AFF_MOD && t->args[1]->kind != AFF_CONST) {
            const Aff *q = aff_floordiv(s->c, t->args[0], t->args[1]);
            replacement = aff_sub(s->c, t->args[0], aff_mul(s->c, q, t->args[1]));
            replacement = aff_scale(s->c, replacement, v.coefs[i]);
        } else {
            continue;
        }
        const Aff *rest = aff_sub(s->c, e, aff_scale(s->c, t, v.coefs[i]));
        const Aff *result = aff_add(s->c, rest, replacement);
        if (t->kind == AFF_MOD && (term_count(result) >= v.count || !proves(s, aff_sub(s->c, t->args[1], aff_const(s->c, 1))))) continue;
        if (result->kind != AFF_OVERFLOW) return result;
    }
    return e;
}

static const Aff *simplify(Ctx *s, const Aff *e);

static const Aff *simplify_min(Ctx *s, const Aff *e) {
    const Aff *operands[AFF_MIN_LIMIT];
    size_t count = aff_min_operands(e, operands);
    for (size_t i = 0; i < count; i++) operands[i] = simplify(s, operands[i]);
    return aff_min_of(s->c, s->facts, operands, count);
}

static const Aff *simplify_atom(Ctx *s, const Aff *e) {
    if (e->kind == AFF_MIN) return simplify_min(s, e);
    if (e->kind != AFF_FLOORDIV && e->kind != AFF_MOD) return e;
    const Aff *x = simplify(s, e->args[0]), *d = simplify(s, e->args[1]);
    bool floor = e->kind == AFF_FLOORDIV;
    const Aff *built = floor ? aff_floordiv(s->c, x, d) : aff_mod(s->c, x, d);
    if (built->kind != e->kind) return built;
    return divide_under_facts(s, built, built->args[0], built->args[1]);
}

static const Aff *simplify(Ctx *s, const Aff *e) {
    AffView v = aff_view(&e);
    AffPoly p;
    aff_poly_init(&p, v.constant);
    for (size_t i = 0; i < v.count; i++) {
        const Aff *term = v.terms[i], *product = aff_const(s->c, 1);
        if (term->kind != AFF_PRODUCT)
            product = simplify_atom(s, term);
        else
            for (size_t f = 0; f < term->count; f++) product = aff_mul(s->c, product, simplify_atom(s, term->args[f]));
        aff_poly_add(&p, product, v.coefs[i]);
    }
    const Aff *result = aff_poly_finish(s->c, &p);
    for (int round = 0; round < 8; round++) {
        const Aff *next = recombine(s, result);
        if (next == result) break;
        result = next;
    }
    return result->kind == AFF_OVERFLOW ? e : result;
}

const Aff *aff_simplify(const AffFacts *f, const Aff *e) {
    Ctx s = {f, aff_facts_ctx(f)};
    for (int round = 0; round < 3 && e->kind != AFF_OVERFLOW; round++) {
        const Aff *next = simplify(&s, e);
        if (next == e) break;
        e = next;
    }
    return e;
}

/* ---- Evaluation ---- */

typedef bool (*Lookup)(void *ctx, const Aff *leaf, int64_t *value);

static bool narrow(__int128 wide, int64_t *value) {
    *value = (int64_t)wide;
    return *value == wide;
}

static bool eval_sum(const Aff *e, Lookup lookup, void *ctx, int64_t *value) {
    __int128 total = e->value;
    for (size_t i = 0; i < e->count; i++) {
        int64_t v;
        if (!aff_eval(e->args[i], lookup, ctx, &v)) return false;
        if (__builtin_add_overflow(total, (__int128)v * e->coefs[i], &total)) return false;
    }
    return narrow(total, value);
}

static bool eval_product(const Aff *e, Lookup lookup, void *ctx, int64_t *value) {
    int64_t total = 1, v;
    bool overflow = false, zero = false;
    for (size_t i = 0; i < e->count; i++) {
        if (!aff_eval(e->args[i], lookup, ctx, &v)) return false;
        zero = zero || v == 0;
        overflow = overflow || __builtin_mul_overflow(total, v, &total);
    }
    *value = zero ? 0 : total;
    return zero || !overflow;
}

static bool eval_binary(AffKind kind, int64_t a, int64_t b, int64_t *value) {
    if (kind == AFF_MIN || kind == AFF_MAX) {
        *value = (a < b) == (kind == AFF_MIN) ? a : b;
        return true;
    }
    *value = 0;
    if (b == 0) return true;
    if (b == -1) return kind == AFF_MOD || narrow(-(__int128)a, value);
    int64_t q = a / b, r = a % b;
    if (r != 0 && (r < 0) != (b < 0)) {
        q--;
        r += b;
    }
    *value = kind == AFF_FLOORDIV ? q : r;
    return true;
}

bool aff_eval(const Aff *e, Lookup lookup, void *ctx, int64_t *value) {
    switch (e->kind) {
    case AFF_CONST:
        *value = e->value;
        return true;
    case AFF_SYM:
    case AFF_VAR:
        return lookup(ctx, e, value);
    case AFF_SUM:
        return eval_sum(e, lookup, ctx, value);
    case AFF_PRODUCT:
        return eval_product(e, lookup, ctx, value);
    case AFF_OVERFLOW:
        return false;
    default:
        break;
    }
    int64_t a, b;
    return aff_eval(e->args[0], lookup, ctx, &a) && aff_eval(e->args[1], lookup, ctx, &b) && eval_binary(e->kind, a, b, value);
}

/* ---- Substitution ---- */

typedef const Aff *(*Find)(void *ctx, const Aff *leaf);

static const Aff *substitute_sum(AffCtx *c, const Aff *e, Find find, void *ctx) {
    AffPoly p;
    aff_poly_init(&p, e->value);
    for (size_t i = 0; i < e->count; i++) aff_poly_add(&p, aff_substitute(c, e->args[i], find, ctx), e->coefs[i]);
    return aff_poly_finish(c, &p); /* NOLINT(*StackAddressEscape): as there */
}

const Aff *aff_substitute(AffCtx *c, const Aff *e, Find find, void *ctx) {
    if (e->kind == AFF_CONST || e->kind == AFF_OVERFLOW) return e;
    if (e->kind == AFF_SYM || e->kind == AFF_VAR) {
        const Aff *found = find(ctx, e);
        return found ? found : e;
    }
    if (e->kind == AFF_SUM) return substitute_sum(c, e, find, ctx);
    const Aff *result = aff_substitute(c, e->args[0], find, ctx);
    bool same = result == e->args[0];
    const Aff *rest[64];
    for (size_t i = 1; i < e->count; i++) {
        rest[i] = aff_substitute(c, e->args[i], find, ctx);
        same = same && rest[i] == e->args[i];
    }
    if (same) return e;
    ANALYZER_ASSUME(e->kind == AFF_PRODUCT || e->count == 2);
    switch (e->kind) {
    case AFF_PRODUCT:
        for (size_t i = 1; i < e->count; i++) result = aff_mul(c, result, rest[i]);
        return result;
    case AFF_FLOORDIV:
        return aff_floordiv(c, result, rest[1]);
    case AFF_MOD:
        return aff_mod(c, result, rest[1]);
    default:
        return aff_min(c, result, rest[1]);
    }
}

typedef struct {
    const void *var;
    const Aff *value;
} With;

static const Aff *with_leaf(void *ctx, const Aff *leaf) {
    const With *w = ctx;
    return leaf->kind == AFF_VAR && leaf->var == w->var ? w->value : NULL;
}

const Aff *aff_with(AffCtx *c, const Aff *e, const void *var, const Aff *value) {
    return aff_substitute(c, e, with_leaf, &(With){var, value});
}

bool aff_depends_on(const Aff *e, const void *var) {
    if (e == var || (e->kind == AFF_VAR && e->var == var)) return true;
    for (size_t i = 0; i < e->count; i++)
        if (aff_depends_on(e->args[i], var)) return true;
    return false;
}
