#include "affine.h"
#include "analyzer.h"

#include <string.h>

#include "affine_internal.h"

/* A result of arithmetic, kept until another one takes its slot. */
typedef struct {
    AffKind kind; /* of the operation; AFF_CONST: an empty slot */
    const Aff *a, *b, *result;
} Known;

#ifdef SKETCHC_SMALL_TABLES /* fuzzing: many analyses of small texts, each with fresh tables */
enum { KNOWN_SLOTS = 1 << 8, VISIT_SLOTS = 1 << 7, SHALLOW_SLOTS = 1 << 7 };
#else
enum { KNOWN_SLOTS = 1 << 12, VISIT_SLOTS = 1 << 10, SHALLOW_SLOTS = 1 << 11 };
#endif

/* Most that are met on the way are others: seen by their hash, without a look at them. */
typedef struct {
    const Aff *e;
    uint64_t hash;
} Interned;

enum { LEAST_SMALL = -16, SMALL_CONSTANTS = 144 };

struct AffCtx {
    Arena *arena;
    Interned *table; /* open addressing, capacity a power of two */
    const Aff *small[SMALL_CONSTANTS];
    size_t capacity, used;
    uint32_t next_id;
    uint64_t queries;
    AffVisit *visits;
    AffShallow *shallow;
    Known *known; /* by operands: the same index arithmetic is asked for many times */
};

AffCtx *aff_ctx_create(Arena *arena) {
    AffCtx *c = ARENA_NEW(arena, AffCtx);
    c->arena = arena;
    c->capacity = 256;
    c->table = ARENA_ARRAY(arena, Interned, c->capacity);
    c->known = ARENA_ARRAY(arena, Known, KNOWN_SLOTS);
    c->visits = ARENA_ARRAY(arena, AffVisit, VISIT_SLOTS);
    c->shallow = ARENA_ARRAY(arena, AffShallow, SHALLOW_SLOTS);
    return c;
}

/* ---- Interning ---- */

static uint64_t mix(uint64_t h, uint64_t v) {
    h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    return h * 0xff51afd7ed558ccdu ^ (h >> 29);
}

static uint64_t node_hash(const Aff *e) {
    uint64_t h = mix((uint64_t)e->kind, (uint64_t)e->value);
    if (e->kind == AFF_SYM)
        for (const char *s = e->name; *s; s++) h = mix(h, (unsigned char)*s);
    h = mix(h, (uint64_t)(uintptr_t)e->var);
    for (size_t i = 0; i < e->count; i++) {
        h = mix(h, e->args[i]->id);
        if (e->coefs) h = mix(h, (uint64_t)e->coefs[i]);
    }
    return h;
}

static bool node_equal(const Aff *a, const Aff *b) {
    if (a->kind != b->kind || a->value != b->value || a->var != b->var || a->count != b->count) return false;
    if (a->kind == AFF_SYM && strcmp(a->name, b->name) != 0) return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->args[i] != b->args[i] || (a->coefs && a->coefs[i] != b->coefs[i])) return false;
    return true;
}

static void table_insert(AffCtx *c, Interned node) {
    size_t slot = node.hash & (c->capacity - 1);
    while (c->table[slot].e) slot = (slot + 1) & (c->capacity - 1);
    c->table[slot] = node;
}

static void table_grow(AffCtx *c) {
    const Interned *old = c->table;
    size_t old_capacity = c->capacity;
    c->capacity *= 2;
    c->table = ARENA_ARRAY(c->arena, Interned, c->capacity);
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].e) table_insert(c, old[i]);
}

static uint32_t size_of(const Aff *e) {
    uint64_t size = 1;
    for (size_t i = 0; i < e->count; i++) size += e->args[i]->size;
    return size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
}

static const Aff *copy_node(AffCtx *c, const Aff *probe) {
    Aff *e = ARENA_NEW(c->arena, Aff);
    *e = *probe;
    e->id = c->next_id++;
    e->size = size_of(probe);
    if (probe->name) e->name = arena_strdup(c->arena, probe->name);
    if (probe->count) {
        e->args = ARENA_ARRAY(c->arena, const Aff *, probe->count);
        memcpy(e->args, probe->args, probe->count * sizeof *e->args);
    }
    if (probe->coefs) {
        int64_t *coefs = ARENA_ARRAY(c->arena, int64_t, probe->count);
        memcpy(coefs, probe->coefs, probe->count * sizeof *coefs);
        e->coefs = coefs;
    }
    return e;
}

static const Aff *overflow(AffCtx *c);

static const Aff *intern(AffCtx *c, const Aff *probe) {
    ANALYZER_ASSUME(c);
    uint64_t hash = node_hash(probe);
    size_t slot = hash & (c->capacity - 1);
    for (; c->table[slot].e; slot = (slot + 1) & (c->capacity - 1))
        if (c->table[slot].hash == hash && node_equal(c->table[slot].e, probe)) return c->table[slot].e;
    if (size_of(probe) > AFF_SIZE_LIMIT) return overflow(c);
    const Aff *e = copy_node(c, probe);
    if (++c->used * 2 > c->capacity) table_grow(c);
    table_insert(c, (Interned){e, hash});
    return e;
}

const Aff *aff_const(AffCtx *c, int64_t value) {
    bool small = value >= LEAST_SMALL && value < LEAST_SMALL + SMALL_CONSTANTS;
    const Aff **kept = small ? &c->small[value - LEAST_SMALL] : NULL;
    if (kept && *kept) return *kept;
    const Aff *e = intern(c, &(Aff){.kind = AFF_CONST, .value = value});
    if (kept) *kept = e;
    return e;
}

const Aff *aff_sym(AffCtx *c, const char *name) {
    return intern(c, &(Aff){.kind = AFF_SYM, .name = name});
}

const Aff *aff_var(AffCtx *c, const void *var, const char *hint) {
    return intern(c, &(Aff){.kind = AFF_VAR, .var = var, .name = hint});
}

/* Fresh each time: two overflows must never compare equal. */
static const Aff *overflow(AffCtx *c) {
    return copy_node(c, &(Aff){.kind = AFF_OVERFLOW});
}

static const Aff *binary(AffCtx *c, AffKind kind, const Aff *a, const Aff *b) {
    return intern(c, &(Aff){.kind = kind, .count = 2, .args = (const Aff *[]){a, b}});
}

const Aff *aff_min_node(AffCtx *c, const Aff *chain, const Aff *operand) {
    return binary(c, AFF_MIN, chain, operand);
}

static bool poisoned(const Aff *a, const Aff *b) {
    return a->kind == AFF_OVERFLOW || b->kind == AFF_OVERFLOW;
}

bool aff_is_const(const Aff *e, int64_t *value) {
    if (e->kind == AFF_CONST) *value = e->value;
    return e->kind == AFF_CONST;
}

/* ---- Results kept ---- */

typedef const Aff *(*Arithmetic)(AffCtx *c, const Aff *a, const Aff *b);

/* compute(a, b), looked up where it was asked for before. An overflow is fresh each time. */
static const Aff *known_or(AffCtx *c, AffKind kind, const Aff *a, const Aff *b, Arithmetic compute) {
    uint64_t h = mix(mix((uint64_t)kind, a->id), b->id);
    Known *slot = &c->known[(h ^ h >> 32) & (KNOWN_SLOTS - 1)];
    if (slot->kind == kind && slot->a == a && slot->b == b) return slot->result;
    const Aff *result = compute(c, a, b);
    if (result->kind != AFF_OVERFLOW) *slot = (Known){kind, a, b, result};
    return result;
}

uint64_t aff_query_begin(AffCtx *c) {
    return ++c->queries;
}

AffShallow *aff_shallow_slot(AffCtx *c, const Aff *e) {
    return &c->shallow[e->id % SHALLOW_SLOTS];
}

AffVisit *aff_visit_slot(AffCtx *c, const Aff *e, int depth) {
    return &c->visits[(e->id * 8 + (unsigned)depth) % VISIT_SLOTS];
}

/* ---- Numbers ---- */

int64_t aff_gcd(int64_t a, int64_t b) {
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (y) {
        uint64_t r = x % y;
        x = y;
        y = r;
    }
    return x > INT64_MAX ? 1 : (int64_t)x;
}

int64_t aff_floor_quotient(int64_t a, int64_t b) {
    int64_t q = a / b;
    return a % b < 0 ? q - 1 : q;
}

/* ---- Order ---- */

static int three_way(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

/* By structure, so that canonical forms and their text do not depend on what was built before;
 * only variables and overflows, which have no text form, go by age. Different pointers differ, so
 * that a single path is followed down. */
static int order(const Aff *a, const Aff *b) {
    if (a == b) return 0;
    if (a->kind != b->kind) return three_way((int64_t)a->kind, (int64_t)b->kind);
    if (a->kind == AFF_SYM) return strcmp(a->name, b->name);
    if (a->kind == AFF_VAR || a->kind == AFF_OVERFLOW) return three_way(a->id, b->id);
    for (size_t i = 0; i < a->count && i < b->count; i++) {
        if (a->args[i] != b->args[i]) return order(a->args[i], b->args[i]);
        if (a->coefs && a->coefs[i] != b->coefs[i]) return three_way(a->coefs[i], b->coefs[i]);
    }
    int by_count = three_way((int64_t)a->count, (int64_t)b->count);
    return by_count ? by_count : three_way(a->value, b->value);
}

bool aff_before(const Aff *a, const Aff *b) {
    return order(a, b) < 0;
}

/* ---- Sums ---- */

AffView aff_view(const Aff *const *e) {
    static const int64_t one = 1;
    if ((*e)->kind == AFF_CONST) return (AffView){(*e)->value, 0, NULL, NULL};
    if ((*e)->kind == AFF_SUM) return (AffView){(*e)->value, (*e)->count, (*e)->args, (*e)->coefs};
    return (AffView){0, 1, e, &one};
}

void aff_poly_init(AffPoly *p, int64_t constant) {
    p->constant = constant;
    p->count = 0;
    p->overflow = false;
}

static void poly_remove(AffPoly *p, size_t at) {
    p->count--;
    memmove(&p->terms[at], &p->terms[at + 1], (p->count - at) * sizeof p->terms[0]);
    memmove(&p->coefs[at], &p->coefs[at + 1], (p->count - at) * sizeof p->coefs[0]);
}

static size_t poly_find(const AffPoly *p, const Aff *term) {
    size_t lo = 0, hi = p->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (aff_before(p->terms[mid], term))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static int64_t poly_coef(const AffPoly *p, const Aff *term) {
    size_t at = poly_find(p, term);
    return at < p->count && p->terms[at] == term ? p->coefs[at] : 0;
}

static void poly_add_term(AffPoly *p, const Aff *term, int64_t coef) {
    size_t at = poly_find(p, term);
    if (at < p->count && p->terms[at] == term) {
        if (__builtin_add_overflow(p->coefs[at], coef, &p->coefs[at])) p->overflow = true;
        if (p->coefs[at] == 0) poly_remove(p, at);
        return;
    }
    if (coef == 0) return;
    if (p->count == AFF_TERM_LIMIT) {
        p->overflow = true;
        return;
    }
    memmove(&p->terms[at + 1], &p->terms[at], (p->count - at) * sizeof p->terms[0]);
    memmove(&p->coefs[at + 1], &p->coefs[at], (p->count - at) * sizeof p->coefs[0]);
    p->terms[at] = term;
    p->coefs[at] = coef;
    p->count++;
}

void aff_poly_add(AffPoly *p, const Aff *e, int64_t scale) {
    if (e->kind == AFF_OVERFLOW) p->overflow = true;
    AffView v = aff_view(&e);
    int64_t k;
    if (__builtin_mul_overflow(v.constant, scale, &k) || __builtin_add_overflow(p->constant, k, &p->constant)) p->overflow = true;
    for (size_t i = 0; i < v.count && !p->overflow; i++) {
        if (__builtin_mul_overflow(v.coefs[i], scale, &k))
            p->overflow = true;
        else
            poly_add_term(p, v.terms[i], k);
    }
}

static const Aff *sum_intern(AffCtx *c, AffPoly *p) {
    if (p->overflow) return overflow(c);
    if (p->count == 0) return aff_const(c, p->constant);
    if (p->count == 1 && p->constant == 0 && p->coefs[0] == 1) return p->terms[0];
    return intern(c, &(Aff){.kind = AFF_SUM, .value = p->constant, .count = p->count, .args = p->terms, .coefs = p->coefs});
}

/* The factors of a term: a product's, or the term itself. */
static AffView factors_of(const Aff *const *term) {
    if ((*term)->kind == AFF_PRODUCT) return (AffView){0, (*term)->count, (*term)->args, NULL};
    return (AffView){0, 1, term, NULL};
}

static const Aff *product_without(AffCtx *c, const AffView *factors, size_t skip) {
    const Aff *rest = aff_const(c, 1);
    for (size_t i = 0; i < factors->count; i++)
        if (i != skip) rest = aff_mul(c, rest, factors->terms[i]);
    return rest;
}

/* With q = x//d: replaces k*r*(x % d) + k*d*r*q by k*r*x, and k*r*(x % d) + k*d*r*(q % d2) by
 * k*r*(x % (d*d2)). `at` is the term with the mod, its factor `f`. */
static bool merge_mod(AffCtx *c, AffPoly *p, size_t at, size_t f) {
    const Aff *term = p->terms[at];
    AffView factors = factors_of(&term);
    const Aff *mod = factors.terms[f];
    int64_t d, k = p->coefs[at], kd;
    if (!aff_is_const(mod->args[1], &d) || __builtin_mul_overflow(k, d, &kd) || kd == INT64_MIN) return false;
    const Aff *r = product_without(c, &factors, f), *q = aff_floordiv(c, mod->args[0], mod->args[1]);
    const Aff *partner = aff_mul(c, r, q), *whole = mod->args[0];
    if (partner->kind == AFF_SUM || poly_coef(p, partner) != kd) {
        for (partner = NULL, at = 0; at < p->count && !partner; at++) {
            AffView other = factors_of(&p->terms[at]);
            for (size_t i = 0; i < other.count && p->coefs[at] == kd; i++) {
                const Aff *m = other.terms[i];
                int64_t d2, product;
                if (m->kind != AFF_MOD || m->args[0] != q || !aff_is_const(m->args[1], &d2) || __builtin_mul_overflow(d, d2, &product) ||
                    product_without(c, &other, i) != r)
                    continue;
                partner = p->terms[at];
                whole = aff_mod(c, whole, aff_const(c, product));
                break;
            }
        }
        if (!partner) return false;
    }
    poly_add_term(p, partner, -kd);
    poly_add_term(p, term, -k);
    aff_poly_add(p, aff_mul(c, r, whole), k);
    return true;
}

static bool merge_any_mod(AffCtx *c, AffPoly *p) {
    if (p->count < 2 || p->overflow) return false;
    for (size_t i = 0; i < p->count; i++) {
        AffView factors = factors_of(&p->terms[i]);
        for (size_t f = 0; f < factors.count; f++)
            if (factors.terms[f]->kind == AFF_MOD && p->coefs[i] != INT64_MIN && merge_mod(c, p, i, f)) return true;
    }
    return false;
}

const Aff *aff_poly_finish(AffCtx *c, const AffPoly *p) {
    AffPoly copy; /* of the terms in use: a polynomial has room for many more */
    aff_poly_init(&copy, p->constant);
    copy.count = p->count;
    copy.overflow = p->overflow;
    memcpy(copy.terms, p->terms, p->count * sizeof p->terms[0]);
    memcpy(copy.coefs, p->coefs, p->count * sizeof p->coefs[0]);
    while (merge_any_mod(c, &copy)) continue;
    return sum_intern(c, &copy); /* NOLINT(*StackAddressEscape): what is interned is copied */
}

static const Aff *combine(AffCtx *c, const Aff *a, const Aff *b, int64_t scale) {
    AffPoly p;
    aff_poly_init(&p, 0);
    aff_poly_add(&p, a, 1);
    aff_poly_add(&p, b, scale);
    return aff_poly_finish(c, &p);
}

static const Aff *compute_sub(AffCtx *c, const Aff *a, const Aff *b) {
    return combine(c, a, b, -1);
}

static const Aff *compute_add(AffCtx *c, const Aff *a, const Aff *b) {
    return combine(c, a, b, 1);
}

/* Kinds of `known_or`: any that tells the operations apart. */
const Aff *aff_add(AffCtx *c, const Aff *a, const Aff *b) {
    return known_or(c, AFF_VAR, a, b, compute_add);
}
const Aff *aff_sub(AffCtx *c, const Aff *a, const Aff *b) {
    return known_or(c, AFF_SUM, a, b, compute_sub);
}
const Aff *aff_scale(AffCtx *c, const Aff *e, int64_t k) {
    const Aff *zero = aff_const(c, 0);
    return k == -1 ? aff_sub(c, zero, e) : combine(c, zero, e, k);
}

const Aff *aff_divide_exact(AffCtx *c, const Aff *e, int64_t k) {
    AffView v = aff_view(&e);
    AffPoly p;
    aff_poly_init(&p, v.constant / k);
    for (size_t i = 0; i < v.count; i++) poly_add_term(&p, v.terms[i], v.coefs[i] / k);
    return aff_poly_finish(c, &p);
}

int64_t aff_content(const Aff *e, bool with_constant) {
    AffView v = aff_view(&e);
    int64_t g = with_constant ? aff_gcd(v.constant, 0) : 0;
    for (size_t i = 0; i < v.count; i++) g = aff_gcd(g, v.coefs[i]);
    return g;
}

/* ---- Products ---- */

/* Two terms' factors merged in order. Null: more factors than the limit. */
static const Aff *term_mul(AffCtx *c, const Aff *a, const Aff *b) {
    enum { LIMIT = 64 };
    const Aff *merged[LIMIT];
    AffView x = factors_of(&a), y = factors_of(&b);
    if (x.count + y.count > LIMIT) return NULL;
    size_t i = 0, j = 0, n = 0;
    while (i < x.count || j < y.count) {
        bool left = j == y.count || (i < x.count && !aff_before(y.terms[j], x.terms[i]));
        merged[n++] = left ? x.terms[i++] : y.terms[j++];
    }
    return intern(c, &(Aff){.kind = AFF_PRODUCT, .count = n, .args = merged});
}

static void mul_into(AffCtx *c, AffPoly *p, const AffView *x, const AffView *y) {
    for (size_t i = 0; i < x->count; i++)
        for (size_t j = 0; j < y->count && !p->overflow; j++) {
            const Aff *term = term_mul(c, x->terms[i], y->terms[j]);
            int64_t k;
            if (!term || term->kind == AFF_OVERFLOW || __builtin_mul_overflow(x->coefs[i], y->coefs[j], &k))
                p->overflow = true;
            else
                poly_add_term(p, term, k);
        }
}

static const Aff *compute_mul(AffCtx *c, const Aff *a, const Aff *b) {
    if (poisoned(a, b)) return overflow(c);
    AffView x = aff_view(&a), y = aff_view(&b);
    AffPoly p;
    aff_poly_init(&p, 0);
    if (y.count == 0)
        aff_poly_add(&p, a, y.constant);
    else if (x.count == 0)
        aff_poly_add(&p, b, x.constant);
    else {
        if (__builtin_mul_overflow(x.constant, y.constant, &p.constant)) p.overflow = true;
        AffView xc = {0, x.count, x.terms, x.coefs};
        mul_into(c, &p, &x, &y);
        for (size_t i = 0; i < xc.count && y.constant && !p.overflow; i++) {
            int64_t k;
            if (__builtin_mul_overflow(xc.coefs[i], y.constant, &k))
                p.overflow = true;
            else
                poly_add_term(&p, xc.terms[i], k);
        }
        for (size_t j = 0; j < y.count && x.constant && !p.overflow; j++) {
            int64_t k;
            if (__builtin_mul_overflow(y.coefs[j], x.constant, &k))
                p.overflow = true;
            else
                poly_add_term(&p, y.terms[j], k);
        }
    }
    return aff_poly_finish(c, &p);
}

const Aff *aff_mul(AffCtx *c, const Aff *a, const Aff *b) {
    return known_or(c, AFF_PRODUCT, a, b, compute_mul);
}

/* term / monomial when every factor of the monomial occurs in it, else null. */
static const Aff *term_divide(AffCtx *c, const Aff *term, const Aff *monomial) {
    AffView t = factors_of(&term), m = factors_of(&monomial);
    const Aff *result = aff_const(c, 1);
    size_t j = 0;
    for (size_t i = 0; i < t.count; i++) {
        if (j < m.count && t.terms[i] == m.terms[j])
            j++;
        else
            result = aff_mul(c, result, t.terms[i]);
    }
    return j == m.count ? result : NULL;
}

void aff_split_monomial(AffCtx *c, const Aff *e, const Aff *monomial, const Aff **quotient, const Aff **rest) {
    AffView v = aff_view(&e);
    AffPoly q, r;
    aff_poly_init(&q, 0);
    aff_poly_init(&r, v.constant);
    for (size_t i = 0; i < v.count; i++) {
        const Aff *part = term_divide(c, v.terms[i], monomial);
        if (part)
            aff_poly_add(&q, part, v.coefs[i]);
        else
            poly_add_term(&r, v.terms[i], v.coefs[i]);
    }
    *quotient = aff_poly_finish(c, &q);
    *rest = aff_poly_finish(c, &r);
}

bool aff_split_linear(AffCtx *c, const Aff *e, const Aff *atom, const Aff **with, const Aff **without) {
    const Aff *squared, *ignored;
    aff_split_monomial(c, e, atom, with, without);
    aff_split_monomial(c, *with, atom, &squared, &ignored);
    return squared->kind == AFF_CONST && squared->value == 0;
}

/* ---- Division ---- */

/* a = d*q + r, every coefficient of r below d in magnitude and of a's sign, its constant in
 * [0, d). */
static void split_by(AffCtx *c, const Aff *a, int64_t d, const Aff **quotient, const Aff **rest) {
    AffView v = aff_view(&a);
    AffPoly q, r;
    aff_poly_init(&q, aff_floor_quotient(v.constant, d));
    aff_poly_init(&r, v.constant - q.constant * d);
    for (size_t i = 0; i < v.count; i++) {
        poly_add_term(&q, v.terms[i], v.coefs[i] / d);
        poly_add_term(&r, v.terms[i], v.coefs[i] % d);
    }
    *quotient = aff_poly_finish(c, &q);
    *rest = aff_poly_finish(c, &r);
}

/* e / g rounded down, for a g that divides every coefficient; the constant's remainder is lost. */
static const Aff *shrink(AffCtx *c, const Aff *e, int64_t g) {
    AffView v = aff_view(&e);
    AffPoly p;
    aff_poly_init(&p, aff_floor_quotient(v.constant, g));
    for (size_t i = 0; i < v.count; i++) poly_add_term(&p, v.terms[i], v.coefs[i] / g);
    return aff_poly_finish(c, &p);
}

static bool const_divisor(const Aff *e, AffKind kind, int64_t *d) {
    return e->kind == kind && aff_is_const(e->args[1], d);
}

/* floordiv(r, d) for a rest r of split_by whose content shares nothing with d. */
static const Aff *floordiv_rest(AffCtx *c, const Aff *r, int64_t d) {
    if (aff_in_range(c, NULL, r, 0, d - 1)) return aff_const(c, 0);
    AffView v = aff_view(&r);
    int64_t inner, product, shift;
    if (v.count == 1 && v.coefs[0] == 1 && const_divisor(v.terms[0], AFF_FLOORDIV, &inner) && !__builtin_mul_overflow(inner, d, &product) &&
        !__builtin_mul_overflow(inner, v.constant, &shift)) {
        const Aff *x = aff_add(c, v.terms[0]->args[0], aff_const(c, shift));
        if (x->kind != AFF_OVERFLOW) return aff_floordiv(c, x, aff_const(c, product));
    }
    if (r->kind == AFF_MOD && const_divisor(r, AFF_MOD, &inner) && inner % d == 0) {
        const Aff *x = aff_floordiv(c, r->args[0], aff_const(c, d));
        return aff_mod(c, x, aff_const(c, inner / d));
    }
    return binary(c, AFF_FLOORDIV, r, aff_const(c, d));
}

static const Aff *floordiv_const(AffCtx *c, const Aff *a, int64_t d) {
    const Aff *total = aff_const(c, 0), *q, *r = a;
    for (;;) { /* merging terms of a rest may make it divisible again */
        const Aff *before = r;
        split_by(c, before, d, &q, &r);
        total = aff_add(c, total, q);
        int64_t g = aff_gcd(aff_content(r, false), d);
        if (g > 1) {
            r = shrink(c, r, g);
            d /= g;
        }
        if (r->kind == AFF_OVERFLOW || d == 1) return aff_add(c, total, r);
        if (r == before) return aff_add(c, total, floordiv_rest(c, r, d));
    }
}

/* Replaces k*(y % m) by k*y where d divides k*m: the value modulo d stays. */
static const Aff *unwrap_mods(AffCtx *c, const Aff *e, int64_t d, bool *changed) {
    AffView v = aff_view(&e);
    AffPoly p;
    aff_poly_init(&p, v.constant);
    *changed = false;
    for (size_t i = 0; i < v.count; i++) {
        int64_t m, km;
        if (const_divisor(v.terms[i], AFF_MOD, &m) && !__builtin_mul_overflow(v.coefs[i], m, &km) && km % d == 0) {
            aff_poly_add(&p, v.terms[i]->args[0], v.coefs[i]);
            *changed = true;
        } else {
            poly_add_term(&p, v.terms[i], v.coefs[i]);
        }
    }
    const Aff *result = *changed ? aff_poly_finish(c, &p) : e;
    if (result->kind == AFF_OVERFLOW) {
        *changed = false;
        return e;
    }
    return result;
}

static const Aff *mod_const(AffCtx *c, const Aff *a, int64_t d) {
    const Aff *q, *r = a, *before;
    bool changed;
    do {
        before = r;
        split_by(c, before, d, &q, &r);
        if (r->kind == AFF_OVERFLOW || aff_in_range(c, NULL, r, 0, d - 1)) return r;
        r = unwrap_mods(c, r, d, &changed);
    } while (r != before);
    int64_t g = aff_gcd(aff_content(r, false), d);
    if (g > 1) {
        int64_t left = aff_view(&r).constant % g;
        const Aff *inner = d == g ? aff_const(c, 0) : mod_const(c, shrink(c, r, g), d / g);
        return aff_add(c, aff_scale(c, inner, g), aff_const(c, left));
    }
    return binary(c, AFF_MOD, r, aff_const(c, d));
}

/* Both by the gcd of their contents, the divisor's first coefficient positive; false when this
 * would overflow. */
static bool normalise_division(AffCtx *c, const Aff **a, const Aff **b, int64_t *scale) {
    int64_t g = aff_gcd(aff_content(*a, true), aff_content(*b, true));
    AffView v = aff_view(b);
    if (g == 0) g = 1;
    if (v.coefs[0] < 0) g = -g;
    if (g < 0) {
        const Aff *na = aff_scale(c, *a, -1), *nb = aff_scale(c, *b, -1);
        if (poisoned(na, nb)) return false;
        *a = aff_divide_exact(c, na, -g);
        *b = aff_divide_exact(c, nb, -g);
    } else if (g > 1) {
        *a = aff_divide_exact(c, *a, g);
        *b = aff_divide_exact(c, *b, g);
    }
    *scale = g;
    return true;
}

static const Aff *compute_floordiv(AffCtx *c, const Aff *a, const Aff *b) {
    if (poisoned(a, b)) return overflow(c);
    int64_t d, scale;
    if (aff_is_const(b, &d)) {
        if (d == 0) return b;
        if (d < 0) {
            a = aff_scale(c, a, -1);
            if (a->kind == AFF_OVERFLOW || d == INT64_MIN) return overflow(c);
            d = -d;
        }
        return d == 1 ? a : floordiv_const(c, a, d);
    }
    if (a->kind == AFF_CONST && a->value == 0) return a;
    if (!normalise_division(c, &a, &b, &scale)) return overflow(c);
    return b->kind == AFF_CONST ? aff_floordiv(c, a, b) : binary(c, AFF_FLOORDIV, a, b);
}

const Aff *aff_floordiv(AffCtx *c, const Aff *a, const Aff *b) {
    return known_or(c, AFF_FLOORDIV, a, b, compute_floordiv);
}

const Aff *aff_ceildiv(AffCtx *c, const Aff *a, const Aff *b) {
    const Aff *top = aff_add(c, a, aff_sub(c, b, aff_const(c, 1)));
    return aff_floordiv(c, top, b);
}

static const Aff *compute_mod(AffCtx *c, const Aff *a, const Aff *b) {
    if (poisoned(a, b)) return overflow(c);
    int64_t d, scale;
    if (aff_is_const(b, &d)) {
        if (d == 0 || d == 1 || d == -1) return aff_const(c, 0);
        if (d > 0) return mod_const(c, a, d);
        a = aff_scale(c, a, -1);
        if (a->kind == AFF_OVERFLOW || d == INT64_MIN) return overflow(c);
        return aff_scale(c, mod_const(c, a, -d), -1);
    }
    AffView v = aff_view(&b);
    if (v.count == 1 && v.constant == 0 && v.coefs[0] != INT64_MIN) { /* multiples of b vanish, for b == 0 too */
        const Aff *q, *r;
        aff_split_monomial(c, a, v.terms[0], &q, &r);
        if (aff_content(q, true) % aff_gcd(v.coefs[0], 0) == 0) a = r;
    }
    if (a->kind == AFF_CONST && a->value == 0) return a;
    if (!normalise_division(c, &a, &b, &scale)) return overflow(c);
    return aff_scale(c, b->kind == AFF_CONST ? aff_mod(c, a, b) : binary(c, AFF_MOD, a, b), scale);
}

const Aff *aff_mod(AffCtx *c, const Aff *a, const Aff *b) {
    return known_or(c, AFF_MOD, a, b, compute_mod);
}
