/* min and max: an n-ary minimum is kept as base + MIN(MIN(0, d1), d2)..., the operands sorted by
 * an order that translation does not change and the first one taken out as the base. */
#include <string.h>

#include "affine_internal.h"

size_t aff_min_operands(const Aff *min, const Aff **operands) {
    size_t count = 0;
    const Aff *chain[AFF_MIN_LIMIT];
    while (min->kind == AFF_MIN && count < AFF_MIN_LIMIT - 1) {
        chain[count++] = min->args[1];
        min = min->args[0];
    }
    chain[count++] = min;
    for (size_t i = 0; i < count; i++) operands[i] = chain[count - 1 - i];
    return count;
}

/* The sign of a's first coefficient (or constant) that differs from b's. */
static int compare(const Aff *a, const Aff *b) {
    AffView x = aff_view(&a), y = aff_view(&b);
    size_t i = 0, j = 0;
    while (i < x.count || j < y.count) {
        bool left = j == y.count || (i < x.count && aff_before(x.terms[i], y.terms[j]));
        bool right = i == x.count || (j < y.count && aff_before(y.terms[j], x.terms[i]));
        int64_t p = right ? 0 : x.coefs[i], q = left ? 0 : y.coefs[j];
        if (p != q) return p < q ? -1 : 1;
        i += !right;
        j += !left;
    }
    return (x.constant > y.constant) - (x.constant < y.constant);
}

/* The one MIN term with coefficient 1, or null when there is none or more than one. */
static const Aff *only_min(const Aff *e) {
    AffView v = aff_view(&e);
    const Aff *found = NULL;
    for (size_t i = 0; i < v.count; i++)
        if (v.terms[i]->kind == AFF_MIN && v.coefs[i] == 1) {
            if (found) return NULL;
            found = v.terms[i];
        }
    return found;
}

const Aff *aff_bound_without(AffCtx *c, const Aff *e, const void *var) {
    const Aff *min = aff_depends_on(e, var) ? only_min(e) : NULL, *operands[AFF_MIN_LIMIT];
    size_t count = min ? aff_min_operands(min, operands) : 0;
    for (size_t i = 0; i < count; i++) {
        const Aff *bound = aff_add(c, aff_sub(c, e, min), operands[i]);
        if (!aff_depends_on(bound, var)) return bound;
    }
    return e;
}

typedef struct {
    const Aff *e[AFF_MIN_LIMIT];
    size_t count;
} Operands;

static bool push(Operands *list, const Aff *e) {
    if (list->count == AFF_MIN_LIMIT || e->kind == AFF_OVERFLOW) return false;
    size_t at = 0;
    while (at < list->count && compare(list->e[at], e) < 0) at++;
    if (at < list->count && list->e[at] == e) return true;
    memmove(&list->e[at + 1], &list->e[at], (list->count - at) * sizeof list->e[0]);
    list->e[at] = e;
    list->count++;
    return true;
}

/* Adds e - shift, opened when it is x + min(...). False: too many operands, or an overflow. */
static bool push_flat(AffCtx *c, Operands *list, const Aff *e, const Aff *shift, bool *opened) {
    e = aff_sub(c, e, shift);
    const Aff *min = e->kind == AFF_OVERFLOW ? NULL : only_min(e);
    if (!min) return push(list, e);
    *opened = true;
    const Aff *inner[AFF_MIN_LIMIT], *rest = aff_sub(c, e, min);
    size_t count = aff_min_operands(min, inner);
    for (size_t i = 0; i < count; i++)
        if (!push(list, aff_add(c, rest, inner[i]))) return false;
    return true;
}

static void drop_dominated(AffCtx *c, const AffFacts *facts, Operands *list) {
    for (size_t i = 0; i < list->count; i++)
        for (size_t j = 0; j < list->count; j++) {
            if (i == j || !aff_quick_nonneg(c, facts, aff_sub(c, list->e[i], list->e[j]))) continue;
            list->count--;
            memmove(&list->e[i], &list->e[i + 1], (list->count - i) * sizeof list->e[0]);
            i = (size_t)-1;
            break;
        }
}

const Aff *aff_min_of(AffCtx *c, const AffFacts *facts, const Aff *const *operands, size_t count) {
    Operands list = {.count = 0}, next;
    const Aff *base = aff_const(c, 0);
    bool opened = false, fits = true;
    for (size_t i = 0; i < count && fits; i++) fits = push_flat(c, &list, operands[i], base, &opened);
    for (opened = true; fits && opened; list = next) {
        drop_dominated(c, facts, &list);
        opened = false;
        next.count = 0;
        const Aff *shift = list.e[0];
        base = aff_add(c, base, shift);
        for (size_t i = 0; i < list.count && fits; i++) fits = push_flat(c, &next, list.e[i], shift, &opened);
    }
    if (!fits) { /* never wrong: what cannot be held exactly is an overflow */
        return aff_add(c, aff_const(c, INT64_MAX), aff_const(c, 1));
    }
    const Aff *chain = list.e[0];
    for (size_t i = 1; i < list.count; i++) chain = aff_min_node(c, chain, list.e[i]);
    return aff_add(c, base, chain);
}

const Aff *aff_min(AffCtx *c, const Aff *a, const Aff *b) {
    return aff_min_of(c, NULL, (const Aff *[]){a, b}, 2);
}

const Aff *aff_max(AffCtx *c, const Aff *a, const Aff *b) {
    const Aff *negated[] = {aff_scale(c, a, -1), aff_scale(c, b, -1)};
    return aff_scale(c, aff_min_of(c, NULL, negated, 2), -1);
}

/* ---- Conditions ---- */

static AffCondition condition(AffCtx *c, const Aff *e) {
    AffView v = aff_view(&e);
    bool below = v.constant > 0, above = v.constant < 0;
    for (size_t i = 0; i < v.count; i++) {
        below = below && v.coefs[i] < 0;
        above = above && v.coefs[i] > 0;
    }
    const Aff *limit = aff_const(c, v.constant);
    if (above && v.constant > INT64_MIN) return (AffCondition){aff_sub(c, e, limit), ">", -v.constant};
    if (!below) return (AffCondition){e, ">", 0};
    AffCondition found = {aff_sub(c, limit, e), "<=", v.constant - 1};
    int64_t divisor;
    if (v.constant == 1 && found.left->kind == AFF_MOD && aff_is_const(found.left->args[1], &divisor) && divisor > 0) found.relation = "==";
    return found;
}

/* A minimum above 0 is all of its operands above 0. */
size_t aff_conditions(AffCtx *c, const Aff *e, AffCondition *found, size_t limit) {
    const Aff *min = only_min(e);
    if (!limit || e->kind == AFF_OVERFLOW) return 0;
    if (!min) {
        *found = condition(c, e);
        return 1;
    }
    const Aff *rest = aff_sub(c, e, min);
    size_t first = aff_conditions(c, aff_add(c, rest, min->args[0]), found, limit);
    size_t second = first ? aff_conditions(c, aff_add(c, rest, min->args[1]), found + first, limit - first) : 0;
    return second ? first + second : 0;
}
