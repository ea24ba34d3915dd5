/* verify: the judge of every kernel. Input data as a pure function of (seed, tensor, index), a
 * reference evaluator of operators that carries (value, error bound) per element, comparison with
 * named checks, the choice of samples and ragged sizes, and an interpreter of tile and kernel IR.
 *
 * Nothing here looks at a sketch: the bound belongs to the operator. docs/notes/001-error-bounds.md has the
 * constants and their evidence. Functions that can fail return false or null and put a sentence
 * into `*error` (owned by the arena they were given). */
#ifndef VERIFY_VERIFY_H
#define VERIFY_VERIFY_H

#include "ir.h"

enum { VERIFY_MAX_RANK = 8 };

/* A result's rms of error over bound stays below this; docs/notes/001-error-bounds.md has the evidence. */
#define VERIFY_RMS_FIGURE 0.7

/* ---- Sizes ---- */

typedef struct {
    const char *name;
    int64_t value;
} SymbolValue;
typedef struct {
    size_t count;
    SymbolValue *values;
} Sizes;

/* The value of `e` under `sizes`; false on an unknown leaf or overflow. */
bool sizes_eval(const Sizes *sizes, const Aff *e, int64_t *value);
/* Completes `given` with the derived symbols of `f`, and with those that are strides only: of tensors without gaps. Null and *error when a symbol has no value, an
 * extent is negative or a constraint does not hold. */
const Sizes *sizes_bind(Arena *arena, const IrFunc *f, const Sizes *given, const char **error);

/* A tensor at concrete sizes. */
typedef struct {
    const char *name;
    Dtype dtype;
    unsigned rank;
    int64_t extents[VERIFY_MAX_RANK];
    int64_t elements;
} Shape;
bool shape_of(const Sizes *sizes, const char *name, const IrType *type, Shape *shape);

/* ---- Tensors with strides (placement.c) ---- */

/* Where the elements of a tensor lie; `memory`: elements from the first to behind the last. */
typedef struct {
    unsigned rank;
    int64_t extents[VERIFY_MAX_RANK], strides[VERIFY_MAX_RANK];
    int64_t memory;
} Placement;
/* False on a negative stride and beyond 64 bits. */
bool placement_init(Placement *p, unsigned rank, const int64_t *extents, const int64_t *strides);
/* A stride that nobody gave, of a tensor without gaps: the elements that the axes with known strides reach over.
 * Unknown strides are -1; -1 where an extent is. */
int64_t placement_packed_stride(unsigned rank, const int64_t *extents, const int64_t *strides);
/* Elements of `size` bytes from row-major order to their places, and back. What lies between them stays. */
void placement_spread(const Placement *p, size_t size, const void *dense, void *memory);
void placement_collect(const Placement *p, size_t size, const void *memory, void *dense);
/* The first place between elements that does not hold this round's poison any more, or -1. */
int64_t placement_find_stray(const Placement *p, Dtype dtype, unsigned round, const void *memory);

/* ---- Inputs (inputs.c) ---- */

typedef enum {
#define INPUT(id, ...) INPUT_##id,
#include "inputs.def"
#undef INPUT
    INPUT_COUNT
} InputKind;

typedef struct {
    InputKind kind;
    Shape shape;
    uint64_t key[2]; /* from seed and name */
    double a, b;
    bool nonzero;     /* of exact data: none is 0 */
    bool beyond;      /* of special integers: beyond the range of the case, too */
    unsigned special; /* 1 + the axis along which lines hold special values (special.c); 0: none does */
} InputSpec;
/* The element's special value, or `own`; lo, hi: the least and the greatest of the case. */
double input_special(const InputSpec *spec, int64_t index, double own);
int64_t input_special_integer(const InputSpec *spec, int64_t index, int64_t own, int64_t lo, int64_t hi);

/* False and *error (a constant text) on an unknown generator or wrong arguments. */
bool input_spec_init(InputSpec *spec, uint64_t seed, const Shape *shape, const char *generator, size_t arg_count, const double *args,
                     const char **error);
/* What a case says, at these sizes. *empty: its sizes leave no value to choose from, as randint(0, N) of N = 0. */
bool input_spec_of_case(InputSpec *spec, uint64_t seed, const Shape *shape, const IrCaseData *data, const Sizes *sizes, bool *empty,
                        const char **error);
/* The data of a tensor no case speaks of: uniform(-1, 1); integers in [-8, 8), unsigned [0, 16). */
void input_spec_default(InputSpec *spec, uint64_t seed, const Shape *shape);
/* The default for exact mode. */
void input_spec_exact(InputSpec *spec, uint64_t seed, const Shape *shape);
/* Leaves of exact data 1, 0 and -1, a share of them not forced to 0 (1 and -1 where all may stay and none was 0); false: it is other data. */
bool input_spec_thin(InputSpec *spec, double share);
/* The element as stored (rounded to the dtype), integers as int64_t. */
double input_value(const InputSpec *spec, int64_t index);
int64_t input_value_int(const InputSpec *spec, int64_t index);
/* input_value at `count` indices. */
void input_values(const InputSpec *spec, size_t count, const int64_t *indices, double *values);
/* Writes elements [begin, end) to buffer (which holds element `begin` first). Threads 0: as many as
 * the size and the machine suggest. */
void input_fill(const InputSpec *spec, void *buffer, int64_t begin, int64_t end, unsigned threads);
/* The first index in [begin, end) where the buffer differs from the data, or -1. */
int64_t input_find_difference(const InputSpec *spec, const void *buffer, int64_t begin, int64_t end, unsigned threads);

/* Runs work(ctx, begin, end) over [0, count) in pieces of at least `grain` on up to `threads`
 * threads (0: the machine's). */
void verify_parallel(int64_t count, int64_t grain, unsigned threads, void (*work)(void *ctx, int64_t begin, int64_t end), void *ctx);

/* ---- Reference (evaluate*.c) ---- */

typedef struct Naive Naive; /* naive.h */

/* Where a graph's input comes from: memory, or generated on the fly when data is null. */
typedef struct {
    Shape shape;
    const void *data;
    const InputSpec *spec;
} EvalInput;
typedef struct {
    const char *name;
    double value;
} EvalScalar;

/* Operators that are wrong on purpose (power.c). */
typedef enum {
    EVAL_RIGHT,
    EVAL_MISSING_TENTH, /* sums leave out the last tenth of their terms */
    EVAL_DOUBLED_HALF   /* and take the second half twice */
} EvalFault;

typedef struct {
    const Sizes *sizes; /* complete: from sizes_bind */
    size_t input_count, scalar_count;
    const EvalInput *inputs;
    const EvalScalar *scalars; /* those missing take their default */
    bool exact;                /* sums and products of small integers have bound 0 */
    bool trial;                /* the same of whole numbers; what is not exact has the ordinary bound */
    bool flushes;              /* f32 is added up in a GPU's memory, which takes denormals for zero */
    EvalFault fault;
} EvalBinding;

typedef struct Evaluator Evaluator;
/* Prepares a graph-level function. The evaluator lives in the arena; it is read-only afterwards and
 * may be used by several threads. */
Evaluator *evaluator_create(Arena *arena, const IrFunc *f, const EvalBinding *binding, const char **error);
unsigned evaluator_output_count(const Evaluator *ev);
const Shape *evaluator_output(const Evaluator *ev, unsigned output); /* named as in `return` */
bool evaluator_sums(const Evaluator *ev);                            /* does a sum of more than one term enter? */
bool evaluator_is_mean(const Evaluator *ev, unsigned output);        /* is it a mean, moved or converted at most? */
double evaluator_longest_sum(const Evaluator *ev);                   /* terms that enter an element by sums of sums, at most */

/* How an undecided element may differ: anything within its bound (infinite: anything at all), or by a step of a rounding to
 * whole numbers, whose two neighbours both are within the operator's error; up: value or value + bound; down: or value - bound. */
typedef enum { EVAL_EITHER, EVAL_STEP, EVAL_STEP_UP, EVAL_STEP_DOWN } EvalWay;

/* Reference values at `count` flat indices of an output. Floats: value, bound (of the absolute
 * error, the output's rounding included; infinite: nothing can be said). Integers: integer, bound
 * 0 unless undecided, then 1 of a step, else infinite. undecided: the element hangs on a near tie of a discontinuity. */
typedef struct {
    double *value;
    int64_t *integer;
    double *bound;
    bool *undecided;
    uint8_t *way; /* EvalWay of what is undecided; may be null */
} EvalResult;
/* A thread's evaluation state with its cache of reductions and products. */
typedef struct EvalRun EvalRun;
EvalRun *eval_run_create(const Evaluator *ev); /* on the heap */
void eval_run_destroy(EvalRun *run);
/* Was a sum of whole numbers too large to be exact, so far? */
bool eval_run_is_beyond(const EvalRun *run);
/* False when one of them hangs on an element outside of a tensor, read without pad(). */
bool eval_run(EvalRun *run, unsigned output, size_t count, const int64_t *flat, EvalResult *result);

/* ---- Samples (samples.c) and sizes (ragged.c) ---- */

typedef struct {
    size_t count;
    int64_t *flat; /* ascending, distinct; null: all of [0, count) */
} Samples;
/* All elements when there are at most `budget`, else about `budget` of them: corners, first and
 * last rows, neighbours of multiples of 8..256 on every axis, the rest at random. */
Samples samples_choose(Arena *arena, const Shape *shape, size_t budget, uint64_t seed);

/* The chance that none of the samples lies in a tile of at most so many rows and columns (the last two axes; of a tensor of one axis columns
 * alone), one of those that begin at multiples of them, each as likely. */
double samples_hide(const Shape *shape, const Samples *samples, int64_t rows, int64_t columns);

typedef struct {
    size_t count;
    const Sizes **sizes; /* each complete, within constraints */
} SizeList;
/* Ragged variations of `base`: each symbol in turn 0, 1, primes, tile +-1, the others small; and
 * all together. Sizes that break a constraint or need more than `max_elements` are left out. */
SizeList samples_ragged_sizes(Arena *arena, const IrFunc *f, const Sizes *base, size_t tile_count, const int64_t *tiles,
                              int64_t max_elements);

/* Whole numbers of a sketch's text. */
enum { SIZE_LITERALS = 64 };
typedef struct {
    size_t count;
    int64_t values[SIZE_LITERALS];
} SizeLiterals;
/* More sizes, none of `before`: the literals, their neighbours and multiples for each symbol, and sizes from the middle drawn by the
 * seed. Bounded in number and, by the product of the symbols, in the reference's work. */
SizeList samples_middle_sizes(Arena *arena, const IrFunc *f, const Sizes *base, const SizeList *before, const SizeLiterals *literals,
                              int64_t max_elements, uint64_t seed);
/* Whether the tensors have at most so many elements, and the reference so many steps. */
bool sizes_are_small(const IrFunc *f, const Sizes *sizes, int64_t max_elements, double max_work);
/* Any sizes within the same bounds, some of them those of one of `others`, near the literals and their multiples or not; null: these
 * break a constraint. */
const Sizes *samples_draw_sizes(Arena *arena, const IrFunc *f, const Sizes *base, const SizeList *others, const SizeLiterals *literals,
                                int64_t max_elements, uint64_t *state);

/* ---- Branches on sizes (branches.c) ---- */

/* A comparison, `if` or loop of a sketch's tile IR. Its place stands in the function's attribute `places`, line and
 * column for each in the order of the text; 0: not known. */
typedef struct {
    IrOp *op;
    int64_t line, column;
    bool is_loop;
} Branch;
enum { BRANCH_FALSE = 1, BRANCH_TRUE = 2 }; /* of a loop: no iteration, some */
typedef struct BranchMap BranchMap;
bool branch_is_site(const IrOp *op);
/* Numbers the values of the module's tile functions (IrValue.storage, IrOp.mark), which nothing else may use. */
BranchMap *branches_create(Arena *arena, const IrModule *m);
size_t branches_count(const BranchMap *map);
const Branch *branches_site(const BranchMap *map, size_t site);
/* Adds to seen[site], for each site that only sizes decide, the ways it goes at these sizes of the sketch's symbols. Long loops are
 * walked in part. */
void branches_walk(BranchMap *map, const Sizes *sizes, uint8_t *seen);
/* The ways that were not gone, less those that no sizes can lead to. */
uint8_t branches_missing(const BranchMap *map, size_t site, const uint8_t *seen);

/* Adds the whole numbers from 2 to 2^20 that the sketch's text holds, its tiles' extents too. */
void branches_literals(const IrModule *m, SizeLiterals *list);

/* ---- Power (power.c) ---- */

typedef enum { POWER_ZERO, POWER_SEED, POWER_TENTH, POWER_HALF, POWER_COUNT } PowerFault;
typedef enum {
    POWER_SAME,   /* no fault here: it gives the right result */
    POWER_HIDDEN, /* another result, within the bounds */
    POWER_SEEN    /* some element is outside of its bound */
} PowerOutcome;
const char *power_fault_text(PowerFault fault);
/* What the bounds of an output would make of each fault, by up to 1,024 of its elements. `wrong`: by fault an evaluator that makes the wrong
 * result, null where the output itself is spoilt instead (another seed: is left out). False: out of memory. */
bool power_check(Arena *arena, const Evaluator *right, const Evaluator *const *wrong, unsigned output, uint64_t seed, PowerOutcome *found);

/* ---- Comparison (compare.c) ---- */

typedef enum {
#define VERIFY_CHECK(id, ...) CHECK_##id,
#include "checks.def"
#undef VERIFY_CHECK
    CHECK_COUNT
} CheckId;
typedef enum { CHECK_NOT_RUN, CHECK_PASSED, CHECK_FAILED } CheckStatus;

const char *check_name(CheckId id);

typedef struct {
    CheckStatus status;
    int64_t count;      /* of what was found wrong */
    const char *detail; /* a sentence, or null */
} CheckResult;

typedef struct {
    const char *name;
    Dtype dtype;
    int64_t elements, checked, outside; /* outside: beyond the bound */
    int64_t undecided;                  /* near ties of which the other outcome came out */
    int64_t unknown;                    /* without a bound, and other than the reference or no number */
    bool by_naive; /* all were compared with the naive form, and by the evaluator where they differ by more than `within` */
    double within; /* in roundings of the dtype; 0: what differs at all was judged */
    double hidden_element, hidden_tile; /* chance that a fault of so many elements is at none that was compared */
    int64_t tile[2];                    /* rows and columns of that tile */
    double rms, max_ratio;              /* of error over bound */
    double max_error;                   /* absolute */
    int64_t worst;                      /* flat index of max_ratio, -1 when none */
    double worst_got, worst_want, worst_bound;
    double paper_fraction, paper_tau;
} OutputVerdict;

typedef struct {
    Arena *arena;
    CheckResult checks[CHECK_COUNT];
    size_t output_count;
    OutputVerdict *outputs;
} Verdict;

typedef struct {
    size_t sample_budget; /* elements compared with the reference per output; 0: all */
    uint64_t seed;
    unsigned threads;   /* 0: the machine's */
    bool exact;         /* the evaluator was made with `exact` */
    const Naive *naive; /* ready to run: where not all elements are samples the others are compared with it; null: they are not */
    bool special;       /* special values: any share of the elements may be undecided */
    bool fed;           /* no input is empty */
    bool derived;       /* sizes that no case declares: of any share of the elements nothing may be known */
    const void *second; /* the result of a second launch, over the poison of round 1; null: none. What neither launch
                           has written is told by both, in every type; by one launch only where poison is distinctive */
} CompareOptions;

void verdict_init(Verdict *v, Arena *arena);
bool verdict_passed(const Verdict *v); /* no judging check failed, and `bound` ran */
/* Marks a check passed unless it failed before; or failed with a sentence. */
void verdict_pass(Verdict *v, CheckId id);
void verdict_fail(Verdict *v, CheckId id, int64_t count, const char *format, ...) PRINTF_LIKE(4, 5);
/* Compares a whole output buffer with the reference: bound, rms, undecided, unwritten (when
 * `poisoned`), exact, paper_rule, allclose. */
void verdict_check_output(Verdict *v, const Evaluator *ev, unsigned output, const void *got, bool poisoned, const CompareOptions *options);
/* After a second launch from the same state, over the poison of round 1: equal bytes when `deterministic`, and no poison
 * that the first had overwritten. */
void verdict_check_second(Verdict *v, const Shape *shape, const void *first, const void *second, bool deterministic);
void verdict_check_input(Verdict *v, const InputSpec *spec, const void *buffer, unsigned threads);
void verdict_print_json(const Verdict *v, Str *out); /* docs/schemas/verify.schema.json */
void verdict_print_text(const Verdict *v, Str *out); /* one line a check that ran */

/* ---- Interpreter of tile and kernel IR (interpret*.c) ---- */

/* Memory of a tensor by its name; at least as large as the tensor. */
typedef struct {
    const char *name;
    void *data;
    size_t bytes;
} InterpretTensor;

typedef struct {
    const Sizes *sizes; /* values of the symbols; derived ones are worked out */
    size_t tensor_count, scalar_count;
    const InterpretTensor *tensors;
    const EvalScalar *scalars;
    bool reverse;        /* independent iterations and blocks run in reverse order */
    uint64_t step_limit; /* ops run before giving up; 0: 2^36 */
} InterpretArgs;

/* Runs a tile-level function (any state: presence as the language has it) or a kernel-level one: on
 * the CPU in sequence, for target cuda block by block with all threads in lockstep. Arithmetic
 * rounds once per op in the op's dtype. Traps, with *error saying what and where: an access outside
 * memory or misaligned, a collective under divergent control, shared memory reached by two threads
 * without a barrier between them. Asynchronous copies land when they are waited for, no earlier. */
bool interpret_func(Arena *arena, const IrFunc *f, const InterpretArgs *args, const char **error);
/* Runs a module's tile or kernel functions in order, as one launch: of the versions of a kernel the
 * first whose guard holds; workspaces are shared by name and poisoned first. */
bool interpret_module(Arena *arena, const IrModule *m, const InterpretArgs *args, const char **error);

/* Poison: a byte pattern no honest result holds (floats: NaN). */
void poison_fill(Dtype dtype, void *buffer, size_t bytes);
/* A launch's own poison: each byte pattern may be an honest result, of eight bits most of all, but no honest result
 * is the poison of both rounds. */
enum { POISON_ROUNDS = 2 };
void poison_fill_round(Dtype dtype, unsigned round, void *buffer, size_t bytes);
/* Elements that hold the poison of round 0 in `first` and of round 1 in `second`, the results of a launch each; of one launch
 * alone when `second` is null. *at: the first of them; may be null. */
int64_t poison_count(Dtype dtype, const void *first, const void *second, int64_t elements, int64_t *at);
/* Guard zones: `size` bytes of a pattern before and after a buffer. */
void guard_fill(void *zone, size_t size);
int64_t guard_find_damage(const void *zone, size_t size); /* first changed byte, or -1 */

#endif
