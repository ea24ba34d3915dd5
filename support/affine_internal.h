/* Shared by the affine_*.c files only. */
#ifndef SUPPORT_AFFINE_INTERNAL_H
#define SUPPORT_AFFINE_INTERNAL_H

#include "affine.h"

enum { AFF_TERM_LIMIT = 256, AFF_MIN_LIMIT = 16 };

/* The order of terms and factors. */
bool aff_before(const Aff *a, const Aff *b);

/* A sum under construction: terms in order, no zero coefficients. */
typedef struct {
    int64_t constant;
    size_t count;
    const Aff *terms[AFF_TERM_LIMIT];
    int64_t coefs[AFF_TERM_LIMIT];
    bool overflow;
} AffPoly;

void aff_poly_init(AffPoly *p, int64_t constant);
void aff_poly_add(AffPoly *p, const Aff *e, int64_t scale); /* p += scale * e */
const Aff *aff_poly_finish(AffCtx *c, const AffPoly *p);

/* The constant and the terms of e seen as a sum; a term that is no sum stands for itself. */
typedef struct {
    int64_t constant;
    size_t count;
    const Aff *const *terms;
    const int64_t *coefs;
} AffView;
AffView aff_view(const Aff *const *e);

const Aff *aff_scale(AffCtx *c, const Aff *e, int64_t k);
/* e / k for a k that divides constant and coefficients. */
const Aff *aff_divide_exact(AffCtx *c, const Aff *e, int64_t k);
/* e = *with * atom + *without where no term of *with holds the atom; false when it occurs squared.
 */
bool aff_split_linear(AffCtx *c, const Aff *e, const Aff *atom, const Aff **with, const Aff **without);
/* The terms of e that hold all factors of `monomial`, divided by it, and the rest. */
void aff_split_monomial(AffCtx *c, const Aff *e, const Aff *monomial, const Aff **quotient, const Aff **rest);
/* gcd of the coefficients (and of the constant, if asked); 0 when there are none. */
int64_t aff_content(const Aff *e, bool with_constant);
int64_t aff_gcd(int64_t a, int64_t b);
int64_t aff_floor_quotient(int64_t a, int64_t b); /* b > 0 */
/* The operands of an AFF_MIN chain; at most AFF_MIN_LIMIT. */
size_t aff_min_operands(const Aff *min, const Aff **operands);
const Aff *aff_min_node(AffCtx *c, const Aff *chain, const Aff *operand); /* interns as it is */
const Aff *aff_min_of(AffCtx *c, const AffFacts *facts, const Aff *const *operands, size_t count);
/* What the search for a lower bound of `e` gave in a query: the same expression is met by many ways. */
typedef struct {
    uint64_t query;
    const Aff *e;
    int depth;
    int64_t stop;
    bool greedy, found;
    int64_t bound;
} AffVisit;
/* The interval of `e` by interval arithmetic on what is said of symbols by default alone. */
typedef struct {
    bool has_lo, has_hi;
    int64_t lo, hi;
} AffRange;
typedef struct {
    const Aff *e;
    uint64_t defaults; /* which of them held */
    AffRange range;
} AffShallow;
AffShallow *aff_shallow_slot(AffCtx *c, const Aff *e);        /* may hold another expression */
uint64_t aff_query_begin(AffCtx *c);                          /* the number of a new query */
AffVisit *aff_visit_slot(AffCtx *c, const Aff *e, int depth); /* may hold another expression */
AffCtx *aff_facts_ctx(const AffFacts *facts);
/* A cheap proof that needs no facts. `facts` may be null here. */
bool aff_quick_nonneg(AffCtx *c, const AffFacts *facts, const Aff *e);
bool aff_in_range(AffCtx *c, const AffFacts *facts, const Aff *e, int64_t lo, int64_t hi);

#endif
