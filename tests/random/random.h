/* Random valid sketches, each with an operator that means the same by construction.
 *
 * A RandomProgram is a graph of values over up to four axes, with a walk for each axis (one index at a time,
 * in tiles, or whole). The operator prints the graph over whole tensors; the sketch prints the same
 * graph over tiles, inside the loops that the walks ask for. Shrinking works on this structure, so
 * that what it leaves is still a valid program. docs/decisions/0007 tells the design. */
#ifndef TESTS_RANDOM_RANDOM_H
#define TESTS_RANDOM_RANDOM_H

#include "dtype.h"
#include "support.h"

/* ---- Numbers (rng.c) ---- */

typedef struct {
    uint64_t state;
} Rng;
uint64_t rng_next(Rng *rng);
/* Uniform in [0, limit); 0 when limit is 0. */
unsigned rng_below(Rng *rng, unsigned limit);
static inline bool rng_chance(Rng *rng, unsigned percent) {
    return rng_below(rng, 100) < percent;
}
/* An extent of those that compilers get wrong: 0, 1, primes, 2^k, 2^k +- 1, below a warp. */
int64_t rng_extent(Rng *rng, int64_t most);

/* ---- Programs ---- */

enum {
    MAX_DOMAIN = 4,             /* axes of a value */
    MAX_AXES = MAX_DOMAIN + 3,  /* with the summed axes of products and windows */
    MAX_NODES = 48,
    MAX_RESULTS = 3,
    MAX_OPERANDS = 3,
};

typedef enum { WALK_ONE, WALK_TILES, WALK_WHOLE } Walk;

typedef struct {
    bool constant;
    int64_t extent; /* when constant */
    Walk walk;
    int64_t tile;    /* of WALK_TILES */
    bool named_tile; /* the tile's size is a constexpr */
    bool by_step;    /* range(0, N, T) with i:i+T, else range(0, ceil(N, T)) with i*T:(i+1)*T */
    bool clipped;    /* the slice's end is written min(..., N) */
    bool folded;     /* walked inside of all other loops; reductions accumulate over it */
    unsigned hint;   /* which hint its loop gets */
} Axis;

typedef struct {
    unsigned axis;
    bool full; /* else an extent of 1 */
} Dim;
typedef struct {
    unsigned rank;
    Dim dims[MAX_DOMAIN];
} Form;

typedef enum {
    NODE_TENSOR,  /* an input */
    NODE_NUMBER,  /* a literal */
    NODE_SCALAR,  /* a value given at launch */
    NODE_EXTENT,  /* the extent of `axis`, as a number */
    NODE_CALL,    /* a lane by lane builtin */
    NODE_CAST,    /* cast to dtype */
    NODE_FOLD,    /* a reduction along `axis` */
    NODE_ALONG,   /* a builtin that keeps the shape, along `axis`, which is whole */
    NODE_PRODUCT, /* of two inputs of its own, summed along `axis` */
    NODE_REPEAT,  /* `rounds` times value = op(value, operand 1) in a loop */
} NodeKind;

typedef struct {
    NodeKind kind;
    unsigned op; /* a BuiltinId */
    Dtype dtype; /* the language's: what operands are joined to */
    Form form;
    unsigned operand_count, operands[MAX_OPERANDS];
    double number;
    unsigned axis, rounds;
    bool keepdim, trans_a, trans_b, batched_b;
    double magnitude; /* about how large |value| gets */
    double least;     /* above 0: every value is at least this */
    uint32_t style;   /* random bits: how it is written */
} Node;

typedef struct {
    unsigned node;
    Dtype dtype;
} Result;

typedef struct {
    uint64_t seed;
    unsigned rank, axis_count; /* the domain's axes come first */
    Axis axes[MAX_AXES];
    unsigned order[MAX_DOMAIN]; /* of the outer loops */
    unsigned node_count, result_count;
    Node nodes[MAX_NODES];
    Result results[MAX_RESULTS];
    bool hints, parallel;
} RandomProgram;

/* generate.c: the program of a seed. */
void program_generate(RandomProgram *p, uint64_t seed);

/* Which nodes the results need. */
void program_live(const RandomProgram *p, bool live[MAX_NODES]);
/* The axis that is folded, or MAX_AXES. */
unsigned program_folded(const RandomProgram *p);
/* Whether the form holds every axis that an outer loop walks: what results must. */
bool program_form_complete(const RandomProgram *p, const Form *form);

/* Sizes of the program's symbols, by axis; constant axes have theirs. The first ones are the case's. */
typedef struct {
    int64_t extents[MAX_AXES];
} ProgramSizes;
void program_sizes(const RandomProgram *p, unsigned number, int64_t most_elements, ProgramSizes *sizes);

/* print.c: the whole file, `name` being the sketch's; its cases take the first program_sizes. */
typedef struct {
    unsigned count;
    int64_t most_elements;
} CaseOptions;
void program_print(const RandomProgram *p, const char *name, const CaseOptions *cases, Str *out);

/* shrink.c: makes the program smaller while `fails` still holds of it; the number of tries. */
unsigned program_shrink(RandomProgram *p, bool (*fails)(void *ctx, const RandomProgram *p), void *ctx);

#endif
