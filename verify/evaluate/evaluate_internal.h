/* The reference evaluator's own program: a graph function decoded into nodes at concrete sizes.
 * Evaluation is driven by demand: a frame is a batch of up to LANES index tuples; a node is
 * evaluated over a frame at most once, reductions and products are remembered per run. */
#ifndef VERIFY_EVALUATE_EVALUATE_INTERNAL_H
#define VERIFY_EVALUATE_EVALUATE_INTERNAL_H

#include "scalars.h"
#include "verify.h"

enum { LANES = 256, DOMAIN_RANK = 16 };

/* Constants of docs/notes/001-error-bounds.md. */
#define BOUND_SLACK 1.5              /* of one rounding: keeps the rms of honest elementwise code below 2/3 */
#define BOUND_CONTRACT_C 2.0         /* |err| <= c sqrt(K) u (|A||B|) */
enum { BOUND_TENSOR_CORE_STEP = 8 }; /* products summed per truncation */
/* Terms that a kernel may add one after the other, whatever the sum's length: longer ones are judged as sums of blocks. */
enum { BOUND_SUM_BLOCK = 4096, BOUND_CONTRACT_BLOCK = 16384 };

typedef enum {
    NODE_SPLAT, /* constant, symbol or scalar */
    NODE_INPUT,
    NODE_INDEX, /* index `axis` of a generic's domain */
    NODE_LANEWISE,
    NODE_MOVE, /* broadcast, transpose: operand axis i is at result axis map[i], -1: 0 */
    NODE_RESHAPE,
    NODE_FLIP,
    NODE_CONCAT,
    NODE_IOTA,
    NODE_RANDOM, /* operands: seed, offset */
    NODE_ELEMENT,
    NODE_SCAN,   /* along `axis`, whole rows at a time */
    NODE_SORT,   /* the same; `second`: the indices */
    NODE_REDUCE, /* reduce, arg, contract, generic */
    NODE_BODY    /* a generic without reduced axes: its body over the same frame */
} NodeKind;

typedef enum {
    REDUCE_ADD,
    REDUCE_MEAN,
    REDUCE_MUL,
    REDUCE_MAX,
    REDUCE_MIN,
    REDUCE_AND,
    REDUCE_OR,
    REDUCE_ARGMAX,
    REDUCE_ARGMIN
} ReduceKind;

typedef struct Node Node;
struct Node {
    NodeKind kind;
    IrOpcode opcode;
    Shape shape;
    bool is_real; /* floats; else integers, bool, index */
    unsigned id, operand_count;
    Node **operands;
    double value;    /* SPLAT of a float; pad of ELEMENT */
    int64_t integer; /* SPLAT */
    const EvalInput *input;
    unsigned axis;           /* INDEX, FLIP, CONCAT, IOTA, SCAN, SORT */
    bool reverse, exclusive; /* SCAN; SORT: reverse is descending */
    bool second;             /* SORT: the indices, kept with the values' rows */
    bool padded;             /* ELEMENT: outside is the pad, else an error of the case */
    unsigned rows;           /* SCAN, SORT: whose row cache */
    int map[2][DOMAIN_RANK]; /* MOVE; REDUCE: per operand (contract has two) and axis: the result
                                axis, or -1 - r for reduced number r */
    ReduceKind reduce;
    unsigned reduced_rank;
    int64_t reduced[DOMAIN_RANK], reduced_count;
    double terms;                     /* of inputs that sums bring into an element, at most */
    double unit, largest, half, tiny; /* of the precision this node rounds to; half of the largest's last place */
    bool fused;        /* a product that a sum takes: a fused multiply-add need not round it, so that it may be no infinity */
    bool grouped;      /* a product or quotient that is a factor of another */
    bool contract;     /* a sum of products: its bound is the contraction's */
    bool tensor_core;  /* products of narrow floats: accumulators may truncate */
    double core_unit;  /* where they do: what the precision's sums keep */
    bool in_parts;     /* factors may be sums of two: of an infinite one a part times the other's is NaN, as may be their sum */
    double input_unit; /* rounding of a product's operands, 0: none */
};

/* What a sum that begins with another number is off by hangs on its terms. */
typedef struct {
    float terms, magnitude; /* that round; the sum of their magnitudes */
    float roundings;        /* of a walk of the size of a partial sum */
} SumWalk;

/* How far products of some of an element's factors reach: up to `up`, down to 1 / `down`. */
typedef struct FactorRange {
    double value;    /* as doubles have it, whose range f32 does not reach */
    double up, down; /* at least 1 */
} FactorRange;

typedef struct {
    union {
        double *v;  /* floats */
        int64_t *i; /* everything else */
    };
    double *e;                   /* error bound; integers: 0 unless undecided */
    uint8_t *tie;                /* LANE_TIE, ... */
    bool certain;                /* all of e and tie are known to be 0 */
    SumWalk *walks;              /* of sums of floats, else null */
    struct FactorRange *factors; /* of products that are factors, else null */
} Lanes;

struct Evaluator {
    Arena *arena;
    const Sizes *sizes;
    const EvalBinding *binding;
    bool exact, trial, flushes, sums;
    double longest;            /* the most `terms` of a node */
    const Evaluator *ordinary; /* of a trial: whose bounds hold where nothing is exact */
    EvalFault fault;
    Hash128 identity; /* of operator, sizes and data */
    bool recorded;    /* its values may be in the book of a search, under that */
    unsigned node_count;
    unsigned output_count;
    Node **outputs;
    Shape *output_shapes;
};

enum {
    LANE_TIE = 1,     /* hangs on a near tie */
    LANE_OUTSIDE = 2, /* hangs on an element outside of a tensor */
    LANE_STEP = 4,    /* one of two neighbours that a rounding to whole numbers chooses between */
    LANE_UP = 8,      /* the error is one way: what may come out is [v, v + e] */
    LANE_DOWN = 16,   /* [v - e, v] */
    LANE_OVER = 32,   /* on the way numbers made an infinity, which a kernel that computes in another order need not make */
    LANE_WAYS = LANE_UP | LANE_DOWN,
    LANE_PAST = LANE_OUTSIDE | LANE_OVER /* what holds of all that is made of a lane */
};

enum { REPEAT_BITS = 6, REPEAT_PLACES = 1 << REPEAT_BITS, REPEAT_STRIDE = 64 };
/* How often terms come again: in all of a sum, and in those of every 64th place, as what strides by a power of two adds them. */
typedef struct {
    int32_t all[REPEAT_PLACES], strided[REPEAT_PLACES];
    int64_t all_squares, strided_squares, count;
    double found;             /* the most of what earlier tables said */
    unsigned dropped, rarely; /* bits of a term that tell no terms apart; one of 2^rarely terms is looked at */
} Repeats;

/* What a reduction or scan has taken so far. */
typedef struct {
    double finite;                      /* the magnitude of the finite terms, which round */
    double sum, magnitude, error, walk; /* walk: sum of |partial sums| at truncation points */
    double last, run, squares;          /* the last term but 0, how often it came in a row; the sum of the
                                  squares of these runs' lengths */
    double most, least, span_most,
        span_least; /* products: of the terms that some grouping multiplies first, the largest and the smallest; of a scan neighbours */
    bool nan, zero, infinite;         /* products: among the terms */
    Repeats *repeats;                 /* sums, null: not counted */
    int64_t integer, terms, rounding; /* rounding: terms but those of 0 */
    int64_t exponent;                 /* products: sum and error are times 2^exponent */
    double largest_error;
    double rival;                        /* arg: the most that a term other than the best may be */
    int64_t best;                        /* arg: its position */
    bool uncertain, fractional, decided; /* decided: a certain term fixes an `and` or `or` */
    uint8_t flags;
} Acc;

/* Memory of a run: a stack of blocks, released to a mark. */
typedef struct StackBlock StackBlock;
typedef struct {
    StackBlock *block;
    size_t used;
} StackMark;

typedef struct {
    int64_t key; /* flat index of the result, -1: empty */
    union {
        double v;
        int64_t i;
    };
    double e;
    SumWalk walk;
    uint8_t flags;   /* of LANE_PAST */
    int32_t pending; /* its number in the batch being computed, -1: done */
} MemoEntry;
typedef struct {
    MemoEntry *entries;
    size_t capacity, count;
} Memo;

/* A whole row of a scan or sort. */
typedef struct {
    union {
        double *v;
        int64_t *i;
    };
    double *e;
    uint8_t *tie;
    int64_t *index; /* sort */
    uint8_t *index_tie;
    void *memory;
} Row;
typedef struct {
    Memo memo; /* key: the row; i: its place */
    Row *rows;
    size_t count, capacity;
    int64_t elements;
} RowCache;

struct EvalRun {
    const Evaluator *ev;
    StackBlock *stack;
    size_t stack_used;
    Memo *memos;       /* by node id */
    RowCache *caches;  /* by node id */
    bool beyond;       /* a sum of whole numbers was too large to be exact */
    EvalRun *ordinary; /* of a trial, made when it is needed */
};

typedef struct {
    EvalRun *run;
    size_t count;
    const int64_t *index[DOMAIN_RANK];
    Lanes **done; /* by node id */
} Frame;

/* evaluate_memory.c */
void *stack_alloc(EvalRun *run, size_t bytes);
/* realloc that does not fail; free() releases. */
void *eval_resize(void *memory, size_t bytes);
StackMark stack_mark(EvalRun *run);
void stack_release(EvalRun *run, StackMark mark);
void stack_destroy(EvalRun *run);
Lanes *lanes_create(EvalRun *run, size_t count); /* without errors and flags, not yet said to be certain */
Frame *frame_create(EvalRun *run, size_t count);
/* Room for `extra` more entries, growing or emptying the memo. */
void memo_make_room(Memo *memo, size_t extra);
MemoEntry *memo_find(Memo *memo, int64_t key, bool *found); /* the entry, or where it goes */

/* evaluate_lanes.c: elementwise arithmetic on (value, error). */
void lanes_compute(const Evaluator *ev, const Node *node, const Lanes *const *operands, size_t count, Lanes *out);
/* May the op, an exponential of an operator, be 0 where it is below the least normal number of f32? Of the graph alone. */
bool evaluate_may_flush(const IrOp *op);

/* Adds a rounding of `units` half-ulps of the node's precision to an error. */
double error_settle(const Node *node, double value, double error, double units);

/* evaluate_products.c */
/* The error of a * b of operands off by ea and eb: none of an infinity, whose sign and size no error of a number changes, unless that may be 0. */
double product_error(double a, double ea, double b, double eb);
/* Is a product of numbers infinite in double? Fused with an addition, or in another grouping, it may be a number. */
bool product_overflows(double a, double b);
/* Takes a factor. */
void acc_multiply(Acc *acc, const Node *node, double v, double e);
/* The product of the factors so far, formed with as large an exponent as it takes. What passes beyond the range on the way is held to be formed
 * so that it does not, but where that decides between an infinity (a zero) and NaN. */
double acc_product(const Node *node, const Acc *acc, double *error);

/* evaluate_groups.c */
/* Says of the node's factors that they are. */
void groups_mark(const Node *node);
/* Adds what other groupings of the factors may make of a product or quotient. */
void groups_judge(EvalRun *run, const Node *node, const Lanes *const *operands, size_t count, Lanes *out);

/* evaluate_repeats.c */
void repeats_begin(Repeats *repeats, const Node *node);
/* Takes the term v, not 0, of a place in the sum. */
void repeats_take(Repeats *repeats, int64_t at, double v);
/* The share of pairs of terms that are rounded alike, 0 to 1. */
double repeats_share(const Repeats *repeats);

/* evaluate_sums.c */
/* Are the terms of a node so many that a random walk says less than the worst case, so that repeated ones count? */
bool sum_repeats(const Node *node);
void acc_sum(Acc *acc, const Node *node, double v, double e);
/* Takes lane after lane, of one sum or each of its own. */
void acc_sum_lanes(Acc *acc, const Node *node, const Lanes *terms, size_t count, bool one);
/* The bound, and *v: the result, of a sum or mean of what was taken so far. */
double sum_error(EvalRun *run, const Node *node, const Acc *acc, double *v, SumWalk *walk);
/* What the error of a sum (a REDUCE_ADD of floats) grows by when its accumulator begins with x. */
double sum_begun_bound(const Node *node, const SumWalk *walk, double x);
/* evaluate_reduce.c */
Acc acc_identity(const Node *node);
/* Takes lane l of the terms. */
void acc_take(Acc *acc, const Node *node, const Lanes *terms, size_t l);
/* The result so far. */
void acc_finish(EvalRun *run, const Node *node, const Acc *acc, MemoEntry *entry);
Lanes *evaluate_reduction(Frame *frame, const Node *node);
/* evaluate_rows.c */
const Lanes *evaluate_scan(Frame *frame, const Node *node);
const Lanes *evaluate_sort(Frame *frame, const Node *node);
void row_caches_destroy(EvalRun *run);
/* evaluate_move.c */
const Lanes *evaluate_move(Frame *frame, const Node *node);
const Lanes *evaluate_reshape(Frame *frame, const Node *node);
const Lanes *evaluate_flip(Frame *frame, const Node *node);
const Lanes *evaluate_concat(Frame *frame, const Node *node);
const Lanes *evaluate_element(Frame *frame, const Node *node);
void frame_flatten(const Frame *frame, const Shape *shape, int64_t *flat);
void shape_unflatten(const Shape *shape, const int64_t *flat, size_t count, int64_t **index);
/* Arrays of LANES indices for the first `rank` axes. */
void index_arrays(EvalRun *run, unsigned rank, int64_t **arrays);
/* evaluate.c */
const Lanes *evaluate_node(Frame *frame, const Node *node);
/* eval_run without the book. */
bool eval_elements(EvalRun *run, unsigned output, size_t count, const int64_t *flat, EvalResult *result);
/* evaluate_recorded.c */
/* The key of all that the values follow from: the specs of the inputs must not change as long as the evaluator is used. */
void evaluator_identify(Evaluator *ev, const IrFunc *f);
bool eval_recorded(EvalRun *run, unsigned output, size_t count, const int64_t *flat, EvalResult *result);

/* evaluate_axes.c: decodes scan, arg, sort, flip, concat, iota, random into a node whose operands
 * are known; false and a complaint when they do not fit. */
bool axes_decode(Node *node, const IrOp *op, const char **complaint);
/* evaluate_build.c: null and *error when an op has no meaning at graph level. */
Evaluator *evaluator_build(Arena *arena, const IrFunc *f, const EvalBinding *binding, const char **error);

#endif
