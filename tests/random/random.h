/* Random valid sketches, each with an operator that means the same by construction.
 *
 * A RandomProgram is a graph of values over up to four axes, with a walk for each axis (one index at a time,
 * in tiles, or whole). The operator prints the graph over whole tensors; the sketch prints the same
 * graph over tiles, inside the loops that the walks ask for. Shrinking works on this structure, so
 * that what it leaves is still a valid program. docs/notes/004-random-sketches.md tells the design. */
#ifndef TESTS_RANDOM_RANDOM_H
#define TESTS_RANDOM_RANDOM_H

#include "dtype.h"
#include "support.h"

/* ---- Numbers (rng.c) ---- */

typedef struct {
    uint64_t state;
    bool biased; /* toward what passes change: program_generate_biased */
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
    MAX_DOMAIN = 4,            /* axes of a value */
    MAX_AXES = MAX_DOMAIN + 8, /* with summed axes, and those that concat, reshape and topk make */
    MAX_NODES = 48,
    MAX_RESULTS = 5,
    MAX_OPERANDS = 3,
};

typedef enum { WALK_ONE, WALK_TILES, WALK_WHOLE } Walk;

typedef struct {
    bool constant;
    int64_t extent; /* when constant */
    int64_t most;   /* above 0: the symbol's bound, stated as a constraint */
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
    NODE_TENSOR, /* an input */
    NODE_NUMBER, /* a literal */
    NODE_SCALAR, /* a value given at launch */
    NODE_EXTENT, /* the extent of `axis`, as a number */
    NODE_COUNT,  /* how many lanes of the operand a reduction along `axis` takes, as a number */
    NODE_IOTA,   /* positions along `axis` */
    NODE_RANDOM, /* random over its form */
    NODE_CALL,   /* a lane by lane builtin */
    NODE_CAST,   /* cast to dtype */
    NODE_FOLD,   /* a reduction along `axis` */
    NODE_ALONG,  /* a builtin that keeps the shape, along `axis`, which is whole; of a recurrence operand 1, or the number, is the factor */
    NODE_TOPK,   /* the `rounds` largest along `axis`, or their indices (second) */
    NODE_TRANSPOSE, /* dim i is the operand's dim perm[i] */
    NODE_CONCAT,    /* two operands behind each other in dim `place` */
    NODE_RESHAPE,   /* the operand's last dims merged, or its last one split */
    NODE_BROADCAST, /* dims of extent 1 repeated */
    NODE_PRODUCT,   /* of two inputs of its own, summed along `axis` */
    NODE_MATMUL,    /* of the operand and an input of its own, summed along the operand's last dim */
    NODE_DOT,       /* of two vectors */
    NODE_REPEAT,    /* `rounds` times value = op(value, operand 1) in a loop; swapped: of the value's transpose */
    NODE_VIEW,      /* an input of its own, read through index arithmetic */
    NODE_GATHER,    /* an input of its own, whose dims from `place` on the operand's values index; a result */
    NODE_WINDOW,    /* sum or maximum of `rounds` shifted loads along `axis`; a result */
    NODE_RAGGED,    /* a reduction over the first lanes of `axis`, as many as an input says */
} NodeKind;

/* How a view's index i becomes one of its source. */
typedef enum { MAP_SAME, MAP_REVERSED, MAP_SHIFTED, MAP_STRIDED, MAP_HALVED } MapKind;
typedef struct {
    MapKind kind;
    int amount; /* SHIFTED: by; STRIDED: the step */
} IndexMap;

typedef struct {
    NodeKind kind;
    unsigned op; /* a BuiltinId */
    Dtype dtype; /* the language's: what operands are joined to */
    Form form;
    unsigned operand_count, operands[MAX_OPERANDS];
    double number; /* the value; of loads the padding */
    unsigned axis, rounds, place;
    int stride, dilation; /* of windows */
    unsigned perm[MAX_DOMAIN];
    IndexMap maps[MAX_DOMAIN];
    bool keepdim, trans_a, trans_b, batched_b;
    bool reverse, exclusive; /* scans; reverse also: descending */
    bool second, saturate, swapped;
    bool padded;      /* loaded with pad=: lanes outside of the tensor are present */
    unsigned data;    /* how a case fills an input: a row of weights.def */
    unsigned strict;  /* bits of the axes along which lanes outside of the tensor are surely absent */
    double magnitude; /* about how large |value| gets */
    double least;     /* above 0: every value is at least this */
    uint32_t style;   /* random bits: how it is written */
} Node;

typedef enum {
    STORE_WHOLE,    /* every element */
    STORE_MODE,     /* added to, or the extremum with, what is there; reduced along `dropped` axes */
    STORE_LIMITED,  /* the first lanes along `axis` only, as many as an input says */
    STORE_FLIPPED,  /* from the end along `axis`, in tiles */
    STORE_SCATTER,  /* added at the elements that a tensor of indices says for dim 0 */
    STORE_INDEXED,  /* at computed positions along `axis` */
    STORE_IN_PLACE, /* over the input that node `axis` is */
} StoreKind;

typedef struct {
    unsigned node;
    Dtype dtype;
    StoreKind kind;
    unsigned mode;    /* a BuiltinId: ADD, MAX, MIN */
    unsigned dropped; /* bits of axes */
    unsigned axis;
    bool zeroed; /* begins with 0, from a loop nest before */
} Result;

typedef struct {
    uint64_t seed;
    unsigned rank, axis_count; /* the domain's axes come first */
    Axis axes[MAX_AXES];
    unsigned order[MAX_DOMAIN]; /* of the outer loops */
    unsigned node_count, result_count;
    Node nodes[MAX_NODES];
    Result results[MAX_RESULTS];
    unsigned cut;                  /* this node goes through a workspace to a nest of its own; MAX_NODES: none */
    int64_t second_tile[MAX_AXES]; /* the tiles of the nest behind the cut */
    bool hints, parallel;
    bool biased; /* by program_generate_biased: sizes, too */
} RandomProgram;

/* generate.c: the program of a seed. */
void program_generate(RandomProgram *p, uint64_t seed);
/* One that is biased toward what passes get wrong, and cheap to check: few operations, axes walked in tiles,
 * the last one's long enough for wide accesses, data of one sign. */
void program_generate_biased(RandomProgram *p, uint64_t seed);

/* Which nodes the results need. */
void program_live(const RandomProgram *p, bool live[MAX_NODES]);
/* The axis that is folded, or MAX_AXES. */
unsigned program_folded(const RandomProgram *p);
/* Whether the form holds every axis that an outer loop walks: what results must. */
bool program_form_complete(const RandomProgram *p, const Form *form);
/* The same axes, of the same extents. */
bool form_same(const Form *a, const Form *b);
/* A number among scalars: no tile. */
bool node_is_bare(const Node *n);
/* Of the last two dims: whole, and of the same constant extent. */
bool node_is_square(const RandomProgram *p, const Node *n);
/* An operator can say it in index notation only, so that it is a result. */
bool node_is_indexed(const Node *n);
/* What shrinking may break: indexed nodes are results, results are complete. */
bool program_is_valid(const RandomProgram *p);
/* Whether sums of floats come in no fixed order: updates of memory that may meet. */
bool program_is_unordered(const RandomProgram *p);

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
