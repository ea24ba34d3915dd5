/* Facts about leaves, constant bounds and proofs.
 *
 * A lower bound of e is sought by interval arithmetic and by rewriting e into something that is
 * never larger: a leaf by the bound that minimises e, floordiv and mod by their defining
 * inequalities, a min by its operands, a stated fact f >= 0 by subtracting it. The search is
 * bounded in depth and in the number of expressions it visits, so it is incomplete but sound. */
#include "affine_internal.h"

typedef struct Fact {
    const Aff *leaf;    /* null: `lo` is an expression that is >= 0 */
    const Aff *lo, *hi; /* may be null */
    int64_t divisor;    /* 0: none stated */
    struct Fact *next;  /* the one before it in its list */
} Fact;

/* What was found out about an expression under facts of a certain number. */
typedef struct {
    const Aff *e;
    unsigned facts;
    enum { IS_NONNEG, HAS_BOUND } question;
    bool yes;
    int64_t bound; /* the lower bound, if it has one */
} Answer;

/* Facts of a leaf are in the list of its number, those of an expression in the last one. */
enum { LEAF_LISTS = 16, STATED = LEAF_LISTS };

/* A slot holds the last answer that fell into it; null until the first question. */
enum { ANSWER_SLOTS = 256 };
typedef struct {
    Answer *slots;
} Answers;

struct AffFacts {
    Arena *arena;
    AffCtx *ctx;
    const AffFacts *outer;
    Fact *first[LEAF_LISTS + 1]; /* newest first */
    unsigned count;
    int effort;          /* visits of a proof; 0: the default */
    bool bounds_symbols; /* states a lower bound of one, which has no default then */
    Answers *answers;
};

AffFacts *aff_facts_create(Arena *arena, AffCtx *c) {
    AffFacts *f = ARENA_NEW(arena, AffFacts);
    f->arena = arena;
    f->ctx = c;
    f->answers = ARENA_NEW(arena, Answers);
    return f;
}

AffFacts *aff_facts_fork(const AffFacts *facts) {
    AffFacts *f = aff_facts_create(facts->arena, facts->ctx);
    f->outer = facts;
    return f;
}

AffCtx *aff_facts_ctx(const AffFacts *facts) {
    return facts->ctx;
}

static unsigned list_of(const Aff *leaf) {
    return leaf ? leaf->id % LEAF_LISTS : STATED;
}

static void add_fact(AffFacts *f, Fact fact) {
    Fact *node = ARENA_NEW(f->arena, Fact), **list = &f->first[list_of(fact.leaf)];
    *node = fact;
    node->next = *list;
    *list = node;
    f->count++;
    f->bounds_symbols |= fact.leaf && fact.leaf->kind == AFF_SYM && fact.lo;
}

/* The slot of a question, and whether it holds the answer; if not, the caller is to put it there. */
static Answer *answer_of(const AffFacts *f, const Aff *e, int question, bool *known) {
    unsigned facts = 0;
    for (const AffFacts *scope = f; scope; scope = scope->outer) facts += scope->count;
    if (!f->answers->slots) f->answers->slots = ARENA_ARRAY(f->arena, Answer, ANSWER_SLOTS);
    Answer *a = &f->answers->slots[(e->id * 2 + (unsigned)question) % ANSWER_SLOTS];
    *known = a->e == e && a->facts == facts && (int)a->question == question;
    if (!*known) *a = (Answer){.e = e, .facts = facts, .question = question};
    return a;
}

static bool is_leaf(const Aff *e) {
    return e->kind == AFF_SYM || e->kind == AFF_VAR;
}

void aff_facts_range(AffFacts *f, const Aff *leaf, const Aff *lo, const Aff *hi) {
    if (is_leaf(leaf)) {
        add_fact(f, (Fact){.leaf = leaf, .lo = lo, .hi = hi});
        return;
    }
    if (lo) aff_facts_nonneg(f, aff_sub(f->ctx, leaf, lo));
    if (hi) aff_facts_nonneg(f, aff_sub(f->ctx, hi, leaf));
}

void aff_facts_multiple(AffFacts *f, const Aff *leaf, int64_t divisor) {
    if (divisor != 0 && divisor != INT64_MIN) add_fact(f, (Fact){.leaf = leaf, .divisor = divisor < 0 ? -divisor : divisor});
}

void aff_facts_nonneg(AffFacts *f, const Aff *e) {
    if (e->kind != AFF_CONST && e->kind != AFF_OVERFLOW) add_fact(f, (Fact){.lo = e});
}

/* Walks the facts of a leaf, or those of expressions (leaf null), inner scopes first. */
typedef struct {
    const Aff *leaf;
    const AffFacts *scope; /* the next one to look into */
    const Fact *fact;
} FactWalk;

static const Fact *next_fact(FactWalk *w) {
    unsigned list = list_of(w->leaf);
    if (w->fact) w->fact = w->fact->next;
    for (;;) {
        while (w->fact && w->fact->leaf != w->leaf) w->fact = w->fact->next;
        if (w->fact || !w->scope) return w->fact;
        w->fact = w->scope->first[list];
        w->scope = w->scope->outer;
    }
}

/* A symbol's default: >= 0 unless some lo was stated. */
static bool default_nonneg(const AffFacts *facts, const Aff *leaf) {
    if (!facts || leaf->kind != AFF_SYM) return false;
    FactWalk w = {leaf, facts, NULL};
    for (const Fact *fact; (fact = next_fact(&w));)
        if (fact->lo) return false;
    return true;
}

/* ---- Intervals ---- */

typedef AffRange Range;

typedef struct {
    AffCtx *ctx;
    const AffFacts *facts;
    int budget;        /* expressions left to visit */
    uint64_t number;   /* of this query */
    uint64_t defaults; /* of symbols; queries with the same number have the same ones */
} Query;

static Query query(AffCtx *c, const AffFacts *facts, int budget) {
    enum { NONE = 1, ALL, OWN };
    Query q = {c, facts, budget, aff_query_begin(c), facts ? ALL : NONE};
    for (const AffFacts *scope = facts; scope; scope = scope->outer)
        if (scope->bounds_symbols) q.defaults = OWN + q.number;
    return q;
}

static bool lower(Query *q, const Aff *e, int depth, int64_t stop, bool greedy, int64_t *out);
static Range range_of(Query *q, const Aff *e, int depth);

static Range point(int64_t v) {
    return (Range){true, true, v, v};
}

static Range range_negate(Range r) {
    Range n = {r.has_hi && r.hi != INT64_MIN, r.has_lo && r.lo != INT64_MIN, 0, 0};
    if (n.has_lo) n.lo = -r.hi;
    if (n.has_hi) n.hi = -r.lo;
    return n;
}

static Range range_add(Range a, Range b) {
    Range r = {a.has_lo && b.has_lo, a.has_hi && b.has_hi, 0, 0};
    if (r.has_lo) r.has_lo = !__builtin_add_overflow(a.lo, b.lo, &r.lo);
    if (r.has_hi) r.has_hi = !__builtin_add_overflow(a.hi, b.hi, &r.hi);
    return r;
}

static bool nonneg(Range r) {
    return r.has_lo && r.lo >= 0;
}
static bool nonpos(Range r) {
    return r.has_hi && r.hi <= 0;
}

static Range range_mul(Range a, Range b) {
    Range r = {false, false, 0, 0};
    if (nonpos(a) && !nonneg(a)) return range_negate(range_mul(range_negate(a), b));
    if (nonpos(b) && !nonneg(b)) return range_negate(range_mul(a, range_negate(b)));
    if (nonneg(a) && nonneg(b)) {
        r.has_lo = !__builtin_mul_overflow(a.lo, b.lo, &r.lo);
        r.has_hi = a.has_hi && b.has_hi && !__builtin_mul_overflow(a.hi, b.hi, &r.hi);
        if ((a.has_hi && a.hi == 0) || (b.has_hi && b.hi == 0)) r = point(0);
        return r;
    }
    if (nonneg(b)) { /* a of both signs or unknown */
        r.has_lo = a.has_lo && b.has_hi && !__builtin_mul_overflow(a.lo, b.hi, &r.lo);
        r.has_hi = a.has_hi && b.has_hi && !__builtin_mul_overflow(a.hi, b.hi, &r.hi);
        return r;
    }
    if (nonneg(a)) return range_mul(b, a);
    if (!a.has_lo || !a.has_hi || !b.has_lo || !b.has_hi) return r;
    int64_t p, s, t, u;
    if (__builtin_mul_overflow(a.lo, b.hi, &p) || __builtin_mul_overflow(a.hi, b.lo, &s) || __builtin_mul_overflow(a.lo, b.lo, &t) ||
        __builtin_mul_overflow(a.hi, b.hi, &u))
        return r;
    return (Range){true, true, p < s ? p : s, t > u ? t : u};
}

static Range range_floordiv(Range x, Range b) {
    Range r = {false, false, 0, 0};
    if (!nonneg(b)) { /* |x // b| <= |x| for any b, 0 too */
        if (!x.has_lo || !x.has_hi || x.lo == INT64_MIN) return r;
        int64_t m = x.hi > -x.lo ? x.hi : -x.lo;
        return (Range){true, true, -m, m};
    }
    bool zero = b.lo == 0;
    if (zero) b.lo = 1;
    if (b.has_hi && b.hi < 1) return point(0);
    if (x.has_lo) {
        r.has_lo = true;
        r.lo = x.lo < 0 ? aff_floor_quotient(x.lo, b.lo) : b.has_hi ? x.lo / b.hi : 0;
        if (zero && r.lo > 0) r.lo = 0;
    }
    if (x.has_hi) {
        r.has_hi = true;
        r.hi = x.hi >= 0 ? x.hi / b.lo : b.has_hi ? aff_floor_quotient(x.hi, b.hi) : -1;
        if (zero && r.hi < 0) r.hi = 0;
    }
    return r;
}

static Range range_mod(Range x, Range b) {
    Range r = {nonneg(b), false, 0, 0};
    if (b.has_lo && b.lo < 0) r = (Range){true, false, b.lo + 1, 0};
    if (b.has_hi) {
        r.has_hi = true;
        r.hi = b.hi > 1 ? b.hi - 1 : 0;
    }
    if (nonneg(b) && nonneg(x) && x.has_hi && (!r.has_hi || x.hi < r.hi)) {
        r.has_hi = true;
        r.hi = x.hi;
    }
    if (nonneg(x) && b.has_lo && x.has_hi && b.lo > x.hi) r = x;
    return r;
}

static Range range_min(Range a, Range b) {
    Range r = {a.has_lo && b.has_lo, a.has_hi || b.has_hi, 0, 0};
    r.lo = a.lo < b.lo ? a.lo : b.lo;
    r.hi = !a.has_hi ? b.hi : !b.has_hi ? a.hi : a.hi < b.hi ? a.hi : b.hi;
    return r;
}

static void raise_lo(Range *r, int64_t lo) {
    if (!r->has_lo || lo > r->lo) r->lo = lo;
    r->has_lo = true;
}

static void sink_hi(Range *r, int64_t hi) {
    if (!r->has_hi || hi < r->hi) r->hi = hi;
    r->has_hi = true;
}

/* Bounds of an argument by the full search, one level down. */
static Range deep_range(Query *q, const Aff *e, int depth) {
    Range r = range_of(q, e, depth);
    int64_t v;
    if (depth <= 0 || e->kind == AFF_CONST) return r;
    if (lower(q, e, depth - 1, INT64_MAX, true, &v)) raise_lo(&r, v);
    if (lower(q, aff_scale(q->ctx, e, -1), depth - 1, INT64_MAX, true, &v) && v != INT64_MIN) sink_hi(&r, -v);
    return r;
}

static Range leaf_range(Query *q, const Aff *leaf, int depth) {
    Range r = {false, false, 0, 0};
    if (default_nonneg(q->facts, leaf)) raise_lo(&r, 0);
    FactWalk w = {leaf, q->facts, NULL};
    for (const Fact *fact; depth > 0 && (fact = next_fact(&w));) {
        if (fact->lo) {
            Range lo = deep_range(q, fact->lo, depth - 1);
            if (lo.has_lo) raise_lo(&r, lo.lo);
        }
        if (fact->hi) {
            Range hi = deep_range(q, fact->hi, depth - 1);
            if (hi.has_hi) sink_hi(&r, hi.hi);
        }
    }
    return r;
}

static Range atom_range(Query *q, const Aff *e, int depth) {
    if (is_leaf(e)) return leaf_range(q, e, depth);
    if (e->kind == AFF_OVERFLOW) return (Range){false, false, 0, 0};
    Range a = deep_range(q, e->args[0], depth - 1), b = deep_range(q, e->args[1], depth - 1);
    if (e->kind == AFF_FLOORDIV) return range_floordiv(a, b);
    return e->kind == AFF_MOD ? range_mod(a, b) : range_min(a, b);
}

static Range term_range(Query *q, const Aff *term, int depth) {
    if (term->kind != AFF_PRODUCT) return atom_range(q, term, depth);
    Range r = point(1);
    for (size_t i = 0; i < term->count; i++) {
        Range factor = atom_range(q, term->args[i], depth);
        if (i + 1 < term->count && term->args[i + 1] == term->args[i]) {
            factor = range_mul(factor, factor);
            raise_lo(&factor, 0);
            i++;
        }
        r = range_mul(r, factor);
    }
    return r;
}

/* By interval arithmetic on the canonical form alone. Without depth no fact is looked at, and it is one range. */
static Range range_of(Query *q, const Aff *e, int depth) {
    AffView v = aff_view(&e);
    Range r = point(v.constant);
    if (v.count == 0) return r;
    AffShallow *slot = depth > 0 ? NULL : aff_shallow_slot(q->ctx, e);
    if (slot && slot->e == e && slot->defaults == q->defaults) return slot->range;
    for (size_t i = 0; i < v.count; i++) r = range_add(r, range_mul(point(v.coefs[i]), term_range(q, v.terms[i], depth)));
    if (slot) *slot = (AffShallow){e, q->defaults, r};
    return r;
}

/* ---- The search for a lower bound ---- */

typedef struct {
    Query *q;
    const Aff *e;
    int depth;
    int64_t stop;
    bool greedy, found;
    int64_t best;
} Search;

static void note_bound(Search *s, int64_t v) {
    if (!s->found || v > s->best) s->best = v;
    s->found = true;
}

static bool done(const Search *s) {
    return s->q->budget <= 0 || (s->found && (s->best >= s->stop || s->greedy));
}

/* Takes a lower bound of smaller for one of scale * e. */
static void try_smaller(Search *s, const Aff *smaller, int64_t scale) {
    int64_t v, stop;
    if (smaller == s->e || done(s)) return;
    if (__builtin_mul_overflow(s->stop, scale, &stop)) stop = INT64_MAX;
    if (lower(s->q, smaller, s->depth - 1, stop, s->greedy, &v) && v != INT64_MIN) note_bound(s, -aff_floor_quotient(-v, scale));
}

/* with * atom + without, its parts and the sign of `with`. */
typedef struct {
    const Aff *atom, *with, *without;
    bool positive, negative;
} Linear;

static const Aff *replaced(Search *s, const Linear *l, const Aff *value) {
    return aff_add(s->q->ctx, aff_mul(s->q->ctx, l->with, value), l->without);
}

static void try_leaf(Search *s, const Linear *l) {
    FactWalk w = {l->atom, s->q->facts, NULL};
    for (const Fact *fact; (fact = next_fact(&w)) && !done(s);) {
        const Aff *bound = l->positive ? fact->lo : fact->hi;
        if (bound && !aff_depends_on(bound, l->atom)) try_smaller(s, replaced(s, l, bound), 1);
    }
    if (l->positive && default_nonneg(s->q->facts, l->atom)) try_smaller(s, l->without, 1);
}

static void try_min(Search *s, const Linear *l) {
    const Aff *operands[AFF_MIN_LIMIT];
    size_t count = aff_min_operands(l->atom, operands);
    if (l->negative) {
        for (size_t i = 0; i < count; i++) try_smaller(s, replaced(s, l, operands[i]), 1);
        return;
    }
    int64_t least = INT64_MAX, v;
    for (size_t i = 0; i < count; i++) {
        if (!lower(s->q, replaced(s, l, operands[i]), s->depth - 1, s->stop, s->greedy, &v)) return;
        if (v < least) least = v;
    }
    note_bound(s, least);
}

static bool proves_at_least(Query *q, const Aff *e, int depth, int64_t bound) {
    Range r = range_of(q, e, depth);
    if (r.has_lo && r.lo >= bound) return true;
    int64_t v;
    return depth > 0 && lower(q, e, depth - 1, bound, true, &v) && v >= bound;
}

/* With a symbolic d >= 1, e >= v exactly when d*(e - v) + d - 1 >= 0: tried for the v asked for. */
static void try_scaled_floordiv(Search *s, const Linear *l, const Aff *bound, const Aff *d) {
    AffCtx *c = s->q->ctx;
    int64_t v = s->stop == INT64_MAX ? 0 : s->stop;
    const Aff *shifted = aff_sub(c, l->without, aff_const(c, v - 1));
    const Aff *scaled = aff_add(c, aff_mul(c, d, shifted), aff_mul(c, l->with, bound));
    if (proves_at_least(s->q, aff_sub(c, scaled, aff_const(c, 1)), s->depth, 0)) note_bound(s, v);
}

/* d * (x // d) lies in [x - d + 1, x]. */
static void try_floordiv(Search *s, const Linear *l) {
    AffCtx *c = s->q->ctx;
    const Aff *x = l->atom->args[0], *d = l->atom->args[1];
    const Aff *least = aff_sub(c, aff_add(c, x, aff_const(c, 1)), d);
    const Aff *bound = l->negative ? x : least;
    int64_t divisor;
    if (aff_is_const(d, &divisor)) {
        int64_t g = aff_gcd(aff_content(l->with, true), divisor);
        Linear scaled = *l;
        scaled.with = aff_divide_exact(c, l->with, g);
        scaled.without = aff_scale(c, l->without, divisor / g);
        try_smaller(s, replaced(s, &scaled, bound), divisor / g);
        return;
    }
    AffView v = aff_view(&d);
    bool monomial = v.count == 1 && v.constant == 0 && v.coefs[0] == 1;
    if (proves_at_least(s->q, d, s->depth - 1, 1)) {
        Linear divided = *l;
        const Aff *rest = d;
        if (monomial) aff_split_monomial(c, l->with, d, &divided.with, &rest);
        if (rest->kind == AFF_CONST && rest->value == 0)
            try_smaller(s, replaced(s, &divided, bound), 1);
        else if (s->stop != INT64_MIN)
            try_scaled_floordiv(s, l, bound, d);
    }
    if (done(s) || !proves_at_least(s->q, x, s->depth - 1, 0) || !proves_at_least(s->q, d, s->depth - 1, 0)) return;
    try_smaller(s, l->negative ? replaced(s, l, x) : l->without, 1);
}

static void try_mod(Search *s, const Linear *l) {
    AffCtx *c = s->q->ctx;
    const Aff *x = l->atom->args[0], *d = l->atom->args[1];
    if (!proves_at_least(s->q, d, s->depth - 1, 0)) return;
    if (l->positive) {
        try_smaller(s, l->without, 1);
        return;
    }
    if (proves_at_least(s->q, d, s->depth - 1, 1)) try_smaller(s, replaced(s, l, aff_sub(c, d, aff_const(c, 1))), 1);
    if (!done(s) && proves_at_least(s->q, x, s->depth - 1, 0)) try_smaller(s, replaced(s, l, x), 1);
}

static void try_atom(Search *s, const Aff *atom) {
    Linear l = {.atom = atom};
    if (!aff_split_linear(s->q->ctx, s->e, atom, &l.with, &l.without)) return;
    int64_t k;
    if (aff_is_const(l.with, &k)) {
        l.positive = k > 0;
        l.negative = k < 0;
    } else {
        l.positive = proves_at_least(s->q, l.with, s->depth - 2, 0);
        l.negative = !l.positive && proves_at_least(s->q, aff_scale(s->q->ctx, l.with, -1), s->depth - 2, 0);
    }
    if (!l.positive && !l.negative) return;
    switch (atom->kind) {
    case AFF_MIN:
        try_min(s, &l);
        return;
    case AFF_FLOORDIV:
        try_floordiv(s, &l);
        return;
    case AFF_MOD:
        try_mod(s, &l);
        return;
    default:
        try_leaf(s, &l);
        return;
    }
}

/* e - m*f for a stated f >= 0, m > 0 such that one term of e goes away. */
static void try_stated(Search *s) {
    AffCtx *c = s->q->ctx;
    AffView v = aff_view(&s->e);
    FactWalk w = {NULL, s->q->facts, NULL};
    for (const Fact *fact; (fact = next_fact(&w)) && !done(s);) {
        AffView f = aff_view(&fact->lo);
        for (size_t i = 0; i < v.count; i++)
            for (size_t j = 0; j < f.count && !done(s); j++) {
                if (v.terms[i] != f.terms[j] || (v.coefs[i] < 0) != (f.coefs[j] < 0)) continue;
                int64_t g = aff_gcd(v.coefs[i], f.coefs[j]);
                int64_t m = v.coefs[i] / g, scale = f.coefs[j] / g;
                if (m == INT64_MIN || scale == INT64_MIN) continue;
                const Aff *scaled = aff_scale(c, s->e, scale < 0 ? -scale : scale);
                const Aff *less = aff_scale(c, fact->lo, m < 0 ? m : -m);
                try_smaller(s, aff_add(c, scaled, less), scale < 0 ? -scale : scale);
            }
    }
}

/* e is a stated f >= 0 and a constant: needs no search, so it is looked for before one. */
static void try_as_stated(Search *s) {
    FactWalk w = {NULL, s->q->facts, NULL};
    AffView v = aff_view(&s->e);
    for (const Fact *fact; (fact = next_fact(&w)) && !done(s);) {
        int64_t more;
        AffView f = aff_view(&fact->lo);
        if (f.count == v.count && f.count && f.terms[0] == v.terms[0] && aff_is_const(aff_sub(s->q->ctx, s->e, fact->lo), &more))
            note_bound(s, more);
    }
}

/* Non-leaves first, then variables and symbols from the newest: inner loops depend on outer. */
static size_t collect_atoms(const Aff *e, const Aff **atoms, size_t limit) {
    size_t count = 0;
    AffView v = aff_view(&e);
    for (size_t i = 0; i < v.count; i++) {
        const Aff *term = v.terms[i];
        bool product = term->kind == AFF_PRODUCT;
        for (size_t f = 0; f < (product ? term->count : 1) && count < limit; f++) {
            const Aff *atom = product ? term->args[f] : term;
            size_t at = 0;
            while (at < count && (is_leaf(atoms[at]) != is_leaf(atom) ? is_leaf(atom) : atoms[at]->id > atom->id)) at++;
            if (at < count && atoms[at] == atom) continue;
            for (size_t k = count++; k > at; k--) atoms[k] = atoms[k - 1];
            atoms[at] = atom;
        }
    }
    return count;
}

/* The least value >= lo that e can have, given a divisor of its non-constant part. */
static int64_t tighten(const AffFacts *facts, const Aff *e, int64_t lo) {
    AffView v = aff_view(&e);
    AffPoly p;
    if (!facts || v.count == 0 || v.count > 16) return lo;
    aff_poly_init(&p, 0);
    aff_poly_add(&p, e, 1);
    p.constant = 0;
    int64_t d = aff_known_divisor(facts, aff_poly_finish(facts->ctx, &p), INT64_MAX), up;
    if (d <= 1 || __builtin_sub_overflow(v.constant, lo, &up)) return lo;
    up = up % d < 0 ? up % d + d : up % d;
    return lo > INT64_MAX - up ? lo : lo + up;
}

static bool lower(Query *q, const Aff *e, int depth, int64_t stop, bool greedy, int64_t *out) {
    enum { ATOM_LIMIT = 24 };
    if (e->kind == AFF_OVERFLOW || --q->budget < 0) return false;
    if (aff_is_const(e, out)) return true;
    AffVisit *visit = aff_visit_slot(q->ctx, e, depth);
    if (visit->query == q->number && visit->e == e && visit->depth == depth && visit->stop == stop && visit->greedy == greedy) {
        *out = visit->bound;
        return visit->found;
    }
    Search s = {q, e, depth, stop, greedy, false, 0};
    Range r = range_of(q, e, depth > 2 ? 2 : depth);
    Search rewrites = s;
    if (depth > 0 && !(r.has_lo && r.lo >= stop)) {
        const Aff *atoms[ATOM_LIMIT];
        size_t count = collect_atoms(e, atoms, ATOM_LIMIT);
        try_as_stated(&rewrites);
        for (size_t i = 0; i < count && !done(&rewrites); i++) try_atom(&rewrites, atoms[i]);
        try_stated(&rewrites);
    }
    if (rewrites.found) note_bound(&s, rewrites.best);
    if (r.has_lo) note_bound(&s, r.lo);
    if (s.found) *out = tighten(q->facts, e, s.best);
    *visit = (AffVisit){q->number, e, depth, stop, greedy, s.found, s.found ? *out : 0};
    return s.found;
}

/* ---- What the header offers ---- */

enum { QUICK_BUDGET = 40, BOUND_BUDGET = 150, PROOF_BUDGET = 600, DEPTH = 8 };

void aff_facts_effort(AffFacts *f, int visits) {
    f->effort = visits;
    f->answers->slots = NULL;
}

/* A proof of little effort does not go deep either. */
static int depth_of(const AffFacts *f) {
    return f->effort ? 4 : DEPTH;
}
static int visits_of(const AffFacts *f, int usual) {
    return f->effort && f->effort < usual ? f->effort : usual;
}

bool aff_quick_nonneg(AffCtx *c, const AffFacts *facts, const Aff *e) {
    Query q = query(c, facts, facts ? visits_of(facts, PROOF_BUDGET / 4) : QUICK_BUDGET);
    int64_t v;
    return lower(&q, e, facts ? (facts->effort ? 4 : 6) : 3, 0, false, &v) && v >= 0;
}

bool aff_in_range(AffCtx *c, const AffFacts *facts, const Aff *e, int64_t lo, int64_t hi) {
    return aff_quick_nonneg(c, facts, aff_sub(c, e, aff_const(c, lo))) && aff_quick_nonneg(c, facts, aff_sub(c, aff_const(c, hi), e));
}

bool aff_lower_bound(const AffFacts *f, const Aff *e, int64_t *lo) {
    bool known;
    Answer *a = answer_of(f, e, HAS_BOUND, &known);
    if (!known) {
        Query q = query(f->ctx, f, visits_of(f, BOUND_BUDGET));
        a->yes = lower(&q, e, depth_of(f), INT64_MAX, false, &a->bound);
    }
    if (a->yes) *lo = a->bound;
    return a->yes;
}

bool aff_upper_bound(const AffFacts *f, const Aff *e, int64_t *hi) {
    int64_t v;
    if (aff_is_const(e, hi)) return true;
    if (!aff_lower_bound(f, aff_scale(f->ctx, e, -1), &v) || v == INT64_MIN) return false;
    *hi = -v;
    return true;
}

static bool prove_nonneg(const AffFacts *f, const Aff *e) {
    Query q = query(f->ctx, f, visits_of(f, PROOF_BUDGET));
    int64_t v;
    if (lower(&q, e, depth_of(f), 0, false, &v) && v >= 0) return true;
    if (f->effort) return false;
    const Aff *simple = aff_simplify(f, e);
    if (simple == e) return false;
    q = query(f->ctx, f, PROOF_BUDGET);
    return lower(&q, simple, DEPTH, 0, false, &v) && v >= 0;
}

bool aff_prove_nonneg(const AffFacts *f, const Aff *e) {
    bool known;
    Answer *a = answer_of(f, e, IS_NONNEG, &known);
    if (known) return a->yes;
    bool yes = prove_nonneg(f, e); /* asks more: the slot may be another's by now */
    a = answer_of(f, e, IS_NONNEG, &known);
    return a->yes = yes;
}

bool aff_prove_le(const AffFacts *f, const Aff *a, const Aff *b) {
    return aff_prove_nonneg(f, aff_sub(f->ctx, b, a));
}

bool aff_prove_eq(const AffFacts *f, const Aff *a, const Aff *b) {
    const Aff *difference = aff_sub(f->ctx, a, b);
    if (difference->kind == AFF_OVERFLOW) return false;
    const Aff *simple = aff_simplify(f, difference);
    if (simple->kind == AFF_CONST) return simple->value == 0;
    return aff_prove_nonneg(f, simple) && aff_prove_nonneg(f, aff_scale(f->ctx, simple, -1));
}

/* ---- Divisibility ---- */

static int64_t divisor_of(const AffFacts *f, const Aff *e);

static int64_t atom_divisor(const AffFacts *f, const Aff *e) {
    if (e->kind == AFF_MIN || e->kind == AFF_MOD) return aff_gcd(divisor_of(f, e->args[0]), divisor_of(f, e->args[1]));
    int64_t d;
    if (e->kind == AFF_FLOORDIV && aff_is_const(e->args[1], &d)) {
        int64_t inner = divisor_of(f, e->args[0]);
        return inner % d == 0 ? inner / d : 1;
    }
    int64_t result = 1;
    FactWalk w = {e, f, NULL};
    for (const Fact *fact; (fact = next_fact(&w));) {
        int64_t lcm;
        if (fact->divisor && !__builtin_mul_overflow(result / aff_gcd(result, fact->divisor), fact->divisor, &lcm)) result = lcm;
    }
    return result;
}

/* The factors of `term` that are left when those of `part` are taken out; false: part is no part of it. */
static bool other_factors(const Aff *term, const Aff *part, const Aff **others, size_t *count) {
    size_t at = 0;
    *count = 0;
    for (size_t i = 0; i < term->count; i++) {
        bool taken = at < part->count && part->args[at] == term->args[i];
        if (taken)
            at++;
        else
            others[(*count)++] = term->args[i];
    }
    return at == part->count;
}

static int64_t least_multiple(int64_t a, int64_t b) {
    int64_t lcm;
    return __builtin_mul_overflow(a / aff_gcd(a, b), b, &lcm) ? a : lcm;
}

/* Of a product: the factors' divisors, and what is stated of several of them together. */
static int64_t product_divisor(const AffFacts *f, const Aff *term) {
    enum { FACTORS = 16 };
    const Aff *others[FACTORS];
    int64_t d = 1, result;
    size_t count;
    for (size_t i = 0; i < term->count; i++)
        if (__builtin_mul_overflow(d, atom_divisor(f, term->args[i]), &result))
            return d;
        else
            d = result;
    for (const AffFacts *scope = f; scope && term->count <= FACTORS; scope = scope->outer)
        for (unsigned list = 0; list < LEAF_LISTS; list++)
            for (const Fact *fact = scope->first[list]; fact; fact = fact->next) {
                if (!fact->divisor || fact->leaf->kind != AFF_PRODUCT || !other_factors(term, fact->leaf, others, &count)) continue;
                int64_t stated = fact->divisor, wider;
                for (size_t i = 0; i < count; i++)
                    if (!__builtin_mul_overflow(stated, atom_divisor(f, others[i]), &wider)) stated = wider;
                d = least_multiple(d, stated);
            }
    return d;
}

/* A divisor of e; 0 when e is 0. */
static int64_t divisor_of(const AffFacts *f, const Aff *e) {
    AffView v = aff_view(&e);
    int64_t g = v.constant ? aff_gcd(v.constant, 0) : 0;
    if (e->kind == AFF_OVERFLOW) return 1;
    for (size_t i = 0; i < v.count; i++) {
        int64_t d = aff_gcd(v.coefs[i], 0), wider;
        const Aff *term = v.terms[i];
        int64_t of_term = term->kind == AFF_PRODUCT ? product_divisor(f, term) : atom_divisor(f, term);
        if (!__builtin_mul_overflow(d, of_term, &wider)) d = wider;
        g = aff_gcd(g, d);
    }
    return g;
}

int64_t aff_known_divisor(const AffFacts *f, const Aff *e, int64_t limit) {
    enum { TRIALS = 1 << 16 };
    int64_t g = divisor_of(f, e), best = 1;
    if (g == 0) return limit;
    if (g <= limit) return g;
    for (int64_t d = 1; d <= TRIALS && d <= limit && d <= g / d; d++) {
        if (g % d) continue;
        if (d > best) best = d;
        if (g / d <= limit && g / d > best) best = g / d;
    }
    return best;
}
