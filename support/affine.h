/* Quasi-affine integer expressions over symbols and opaque variables.
 *
 * Hash-consed: within one AffCtx, two expressions with the same canonical form are the same
 * pointer. Canonical form: a sum of products (integer coefficient times a sorted product of
 * atoms); atoms are symbols, variables, and floordiv/mod/min whose arguments are canonical. A min is
 * translation-canonical, x + min(0, y - x), so min((i+1)*T, N) - i*T is min(T, N - i*T); the
 * printer folds it back. Arithmetic is exact in int64_t; what overflows (or exceeds 256 terms, or
 * AFF_SIZE_LIMIT nodes, as walks take each of them) becomes a fresh AFF_OVERFLOW at build time, never a wrong value. Shared by tile extents, index
 * arithmetic, presence, launch formulas and guards.
 *
 * Semantics: floordiv and mod round toward minus infinity, and a zero divisor gives 0, as in the
 * language. Text form (aff_print / aff_parse): `+ - * // % min(a, b) max(a, b) ceildiv(a, b)`,
 * decimal integers, names. */
#ifndef SUPPORT_AFFINE_H
#define SUPPORT_AFFINE_H

#include "support.h"

typedef enum {
    AFF_CONST,
    AFF_SYM,
    AFF_VAR,
    AFF_SUM,
    AFF_PRODUCT,
    AFF_FLOORDIV,
    AFF_MOD,
    AFF_MIN,
    AFF_MAX,     /* never in a canonical form: max(a, b) is kept as -min(-a, -b) */
    AFF_OVERFLOW /* prints as overflow(); absorbs, never evaluates, has no bounds, equals nothing */
} AffKind;

typedef struct Aff Aff;
struct Aff {
    AffKind kind;
    uint32_t id;      /* creation order in its context */
    uint32_t size;    /* nodes when written out: what is shared counts each time */
    int64_t value;    /* AFF_CONST: the value; AFF_SUM: the constant term */
    const char *name; /* AFF_SYM: the symbol; AFF_VAR: a printing hint */
    const void *var;  /* AFF_VAR: identity (an IrValue, a loop, ...) */
    size_t count;
    const Aff **args;     /* SUM: non-constant terms; PRODUCT: factors; FLOORDIV..MAX: two */
    const int64_t *coefs; /* AFF_SUM: coefficient of each term */
};

enum {
    AFF_SIZE_LIMIT = 1 << 14,
    /* What names a value of its own is better left opaque beyond this: there is room for arithmetic on it. */
    AFF_VIEW_LIMIT = 1 << 9
};

typedef struct AffCtx AffCtx;
AffCtx *aff_ctx_create(Arena *arena); /* lives and dies with the arena */

const Aff *aff_const(AffCtx *c, int64_t value);
const Aff *aff_sym(AffCtx *c, const char *name);
const Aff *aff_var(AffCtx *c, const void *var, const char *hint);
const Aff *aff_add(AffCtx *c, const Aff *a, const Aff *b);
const Aff *aff_sub(AffCtx *c, const Aff *a, const Aff *b);
const Aff *aff_mul(AffCtx *c, const Aff *a, const Aff *b);
const Aff *aff_floordiv(AffCtx *c, const Aff *a, const Aff *b);
const Aff *aff_ceildiv(AffCtx *c, const Aff *a, const Aff *b); /* floordiv(a + b - 1, b) */
const Aff *aff_mod(AffCtx *c, const Aff *a, const Aff *b);
const Aff *aff_min(AffCtx *c, const Aff *a, const Aff *b);
const Aff *aff_max(AffCtx *c, const Aff *a, const Aff *b);
/* An upper bound of e: where e is the least of several, one of them that does not depend on the leaf; else e itself. */
const Aff *aff_bound_without(AffCtx *c, const Aff *e, const void *var);
bool aff_is_const(const Aff *e, int64_t *value);
/* Replaces each AFF_SYM / AFF_VAR for which `find` returns non-null. */
const Aff *aff_substitute(AffCtx *c, const Aff *e, const Aff *(*find)(void *ctx, const Aff *leaf), void *ctx);
/* The same of the one AFF_VAR of that identity. */
const Aff *aff_with(AffCtx *c, const Aff *e, const void *var, const Aff *value);
bool aff_depends_on(const Aff *e, const void *var); /* an AFF_VAR's identity, or a leaf itself */

/* Facts: what is known of the leaves. Symbols are >= 0 unless stated otherwise. */
typedef struct AffFacts AffFacts;
AffFacts *aff_facts_create(Arena *arena, AffCtx *c);
AffFacts *aff_facts_fork(const AffFacts *facts); /* inner scope: adds on top, the outer unchanged */
/* lo <= leaf <= hi; a null side states nothing. A stated lo replaces a symbol's default of 0. Any
 * expression is taken in place of a leaf. */
void aff_facts_range(AffFacts *f, const Aff *leaf, const Aff *lo, const Aff *hi);
void aff_facts_multiple(AffFacts *f, const Aff *leaf, int64_t divisor); /* leaf % divisor == 0 */
void aff_facts_nonneg(AffFacts *f, const Aff *e);                       /* e >= 0 holds */

/* e rewritten under the facts: (8*a + b)//8 is a when 0 <= b < 8; drops what cannot be the min. */
const Aff *aff_simplify(const AffFacts *f, const Aff *e);
/* How many expressions a proof or bound from these facts may visit: fewer is faster and proves less;
 * 0: the default. Cleanups that try everything set it low, decisions leave it. */
void aff_facts_effort(AffFacts *f, int visits);

/* Constant bounds; false where none is known. */
bool aff_lower_bound(const AffFacts *f, const Aff *e, int64_t *lo);
bool aff_upper_bound(const AffFacts *f, const Aff *e, int64_t *hi);
/* The largest d <= limit (a power of two times anything; limit > 0) known to divide e. */
int64_t aff_known_divisor(const AffFacts *f, const Aff *e, int64_t limit);
/* Three-valued proofs by canonical form and bounds: true only when proved. */
bool aff_prove_nonneg(const AffFacts *f, const Aff *e);
bool aff_prove_le(const AffFacts *f, const Aff *a, const Aff *b);
bool aff_prove_eq(const AffFacts *f, const Aff *a, const Aff *b);

/* Evaluates with `lookup` giving each leaf's value; false on an unknown leaf or overflow. */
bool aff_eval(const Aff *e, bool (*lookup)(void *ctx, const Aff *leaf, int64_t *value), void *ctx, int64_t *value);

/* What `e > 0` says, as people would: `N <= 4096` and `N % 4 == 0` for min(0, N - N%4 - 4096) - N + 4097. 0: in more than `limit` conditions. */
typedef struct {
    const Aff *left;
    const char *relation; /* "<=", ">" or "==" */
    int64_t right;
} AffCondition;
size_t aff_conditions(AffCtx *c, const Aff *e, AffCondition *found, size_t limit);

void aff_print(const Aff *e, Str *out);
/* Parses the text form; names become AFF_SYM unless `leaf` (may be null) maps them. On a mistake
 * returns null and sets *error_at to the offending byte. */
const Aff *aff_parse(AffCtx *c, const char *text, const Aff *(*leaf)(void *ctx, const char *name), void *ctx, size_t *error_at);

#endif
