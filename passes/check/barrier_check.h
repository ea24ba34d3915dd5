/* What check_barriers is made of: a kernel's threads all walked at once, from one synchronisation to the next. It
 * shares no code with the passes that insert barriers, fences and waits. docs/decisions/barriers.md has the rules. */
#ifndef PASSES_CHECK_BARRIER_CHECK_H
#define PASSES_CHECK_BARRIER_CHECK_H

#include "gpu.h"
#include "ir.h"

/* ---- Values of all threads (barrier_check_value.c) ---- */

typedef enum {
    VALUE_ANY,    /* differs from thread to thread in ways that are not known */
    VALUE_LINEAR, /* thread t: number[t] + rest */
    VALUE_TRUTH   /* thread t: number[t] is 0 false, 1 true, 2 not known */
} ValueKind;
typedef struct {
    uint64_t stamp; /* of the run of its block that it belongs to; 0: none */
    ValueKind kind;
    bool flat; /* number[0] is that of all threads; with a rest, the value is one of the block */
    int64_t *number;
    const Aff *rest; /* LINEAR: of the block, null: 0. TRUTH, flat and 2: true where rest >= 0, may be null */
} Value;

/* A sum whose remainder by four a case says; the pivot is a term of it that later parts have not, its factor times `inverse` 1 more than a multiple of four. */
typedef struct {
    const Aff *sum, *pivot;
    int64_t inverse;
} ResiduePart;

/* An iteration of a loop: period * turn + number, turn of the block and at least 0. */
typedef struct {
    int64_t number, period;
    const Aff *turn; /* null: 0 */
} Iteration;

typedef struct BarrierCheck BarrierCheck;

/* The case being walked: of each part whose remainder by four was asked for, in that order, what it is. */
typedef struct {
    size_t count;
    int64_t remainder[8];
    Hash128 parts[8];
} ResidueCases;
enum {
    UNIFORM_NO = 1, /* what is remembered of a value */
    UNIFORM_YES,
    UNIFORM_ASKED
};

/* ---- What was touched since (barrier_check_memory.c) ---- */

/* Threads: one (>= 0), none, several of a warp, of a warpgroup, of a block, of the cluster. */
typedef int32_t Threads;
enum {
    NOBODY = -1,
    ANYBODY = -2,
    WARP_SET = -16,
    GROUP_SET = -32768,
    BLOCK_SET = -65536
}; /* a set and the number of its warp, group, block */

typedef struct {
    Threads who;
    uint32_t past;  /* what came since: PAST_... */
    const IrOp *op; /* one of those */
} Touch;
/* Barriers; TOGETHER: it was all threads' of its warps together, none went on before it was over; ARRIVED, one for each mbarrier of several
 * arrivals: every warp has arrived there; COPIER: the thread that issues copies has waited for such arrivals; COPIERS: that of each block of
 * the cluster has waited for arrivals of all blocks' warps, which say what has been read; SENT: all of it was sent, since the last meeting. */
enum {
    PAST_WARP = 1,
    PAST_BLOCK = 2,
    PAST_GROUP = 4,
    PAST_TOGETHER = 8,
    PAST_COPIER = 16,
    PAST_COPIERS = 32,
    PAST_SENT = 64,
    PAST_ARRIVED = 128,
    MOST_SLOTS = 24
};
typedef struct {
    Touch write, read;
} Cell;
enum { CELLS = 64 /* of a page */ };

typedef enum { FLIGHT_COPY, FLIGHT_BOX, FLIGHT_PRODUCT } FlightKind;
/* Bytes that an asynchronous operation writes (COPY, BOX) or reads (PRODUCT): from, to in cells. */
typedef struct {
    int64_t from, to, who;
} Reach;
typedef struct {
    FlightKind kind;
    const IrOp *op;
    int64_t barrier; /* BOX: where its barrier is */
    size_t count;
    Reach *reaches;
    int64_t from, to; /* all of them lie within */
    Hash128 hash;
} Record;
/* An operation that has not been waited for. */
typedef struct {
    const Record *record;
    int age;          /* groups closed since; COPY, PRODUCT */
    const IrOp *loop; /* it happened only where iteration `ahead` from now exists; null: not known */
    int64_t ahead;
    const Aff *guard; /* it happened only where guard >= 0; null: not known */
    uint64_t side;    /* of a branch that is being walked, whose other side its threads do not go; 0: none */
} Flight;

/* An mbarrier; in a cluster, those in the same place of all blocks, with which all blocks do the same. */
typedef struct {
    int64_t place;
    int phase;                /* parity of the phase that runs */
    int armed;                /* its arrival has come: 0 no, 1 yes, 2 perhaps (see loop, ahead, guard of a Flight) */
    int64_t expected, issued; /* bytes in this phase */
    const IrOp *loop;
    int64_t ahead;
    const Aff *guard;
    bool several;  /* of one arrival a warp, none of bytes: */
    bool far;      /* of the warps of all of the cluster's blocks */
    bool single;   /* far, of one warp of each block, for what was done in front of the block's barrier */
    bool left;     /* of one arrival: when it came, each block's copying thread knew that all blocks' had left the phase before */
    unsigned slot; /* its bit among PAST_ARRIVED */
    int seen;      /* who knows that the phase before has ended: 0 nobody, 1 the copier, 2 all threads */
    uint32_t told; /* of one arrival, bits of slots: who waits for its phase knows that theirs before have ended */
} Mbarrier;

typedef struct {
    const IrValue *value;
    int age;
} InFlight;

typedef struct {
    Cell **pages;
    VEC(Flight) flights;
    VEC(Mbarrier) mbarriers;
    VEC(InFlight) sums; /* accumulators whose product has not been waited for */
    bool fenced;        /* wgmma.fence since registers were touched */
    bool cluster;       /* a cluster's barrier has been passed, or all of its blocks have begun */
    bool sent;          /* cluster.send since the last cluster.meet */
    bool dead;          /* nobody gets here */
} State;

typedef struct {
    const IrOp *op, *other; /* other: the earlier access, may be null */
    const char *what;
} BarrierFault;

struct BarrierCheck {
    Arena *arena;
    IrModule *module;
    IrFunc *func;
    AffCtx *affs;
    AffFacts *facts, *func_facts, **loop_facts; /* here; of the function; by op number, of loops being walked */
    int64_t threads, block_threads, blocks;
    int64_t grain, shared_bytes, cells; /* bytes of a cell; of a block; cells of all blocks */
    size_t page_count;
    /* values */
    uint64_t clock;
    uint64_t *stamps;                   /* of regions: two an op */
    uint32_t *first_result, *first_arg; /* by op number; first_arg: two an op */
    Value *values;
    Iteration *iterations;       /* of loops, by op number */
    uint8_t *relevant, *uniform; /* by op number; by value number: UNIFORM_... */
    uint8_t *needed;             /* by value number */
    VEC(const IrValue *) asked;  /* values that are, in the order found */
    ResidueCases *cases;
    VEC(ResiduePart) parts;   /* whose remainders the case says */
    VEC(const Aff *) varying; /* from iteration to iteration of a loop */
    VEC(uint32_t) found;      /* values found to be uniform, in order */
    size_t op_count, value_count;
    uint8_t *active;           /* a byte a thread */
    Reach *reaches;            /* of the access being looked at */
    bool together;             /* every thread is here */
    Threads copier;            /* the one thread of a block, by its number there, that waits for arrivals of warps */
    VEC(const Aff *) guards;   /* each is >= 0 here */
    uint64_t side;             /* being walked, of a branch whose other one comes after; 0: none */
    VEC(uint64_t) other_sides; /* walked before, of branches that some threads take one way and some the other */
    VEC(const IrOp *) loops;   /* around here, whose iterations are not walked one by one */
    VEC(Cell *) free_pages;
    VEC(State *) free_states;
    VEC(Record *) records;
    uint8_t *generic, *engine; /* cells written by threads; written or read by the copy engine and products */
    const IrOp *generic_op, *engine_op;
    uint8_t *bits; /* of all cells, zero between uses */
    int64_t work, work_limit;
    BarrierFault fault;
    bool failed;
};

void barrier_check_values_init(BarrierCheck *r);
/* The value in this run of its block. */
const Value *barrier_check_value(BarrierCheck *r, const IrValue *v);
static inline int64_t number_of(const Value *v, int64_t thread) {
    return v->number[v->flat ? 0 : thread];
}
bool barrier_check_uniform(BarrierCheck *r, const IrValue *v);
void barrier_check_enter(BarrierCheck *r, const IrOp *parent, unsigned region); /* a new run of the region */
Value *barrier_check_slot(BarrierCheck *r, const IrValue *v);
void barrier_check_set(BarrierCheck *r, const IrValue *v, const Value *from);
void barrier_check_copy_value(BarrierCheck *r, Value *to, const Value *from);
uint32_t barrier_check_op_number(const IrOp *op);
/* Once it is known which ops are relevant: the values that places in shared memory, conditions and bounds of loops are made of. */
void barrier_check_find_needs(BarrierCheck *r);
bool barrier_check_needed(BarrierCheck *r, const IrValue *v);
/* Never one that was before, in other cases either: variables are in the order in which they were made. */
const Aff *barrier_check_new_variable(BarrierCheck *r, const char *name);
/* The number of each thread, of an op that is a remainder by four, in this case (barrier_check_residue.c). */
bool barrier_check_remainders(BarrierCheck *r, const IrOp *op, int64_t *numbers);
/* Is it made of the thread's number and of constants alone? */
bool barrier_check_of_thread(const IrValue *v);
/* False: there is none, all have been walked. */
bool barrier_check_next_case(ResidueCases *c);

/* The first fault counts. */
void barrier_check_fail(BarrierCheck *r, const IrOp *op, const IrOp *other, const char *what);

State *state_new(BarrierCheck *r);
State *state_copy(BarrierCheck *r, const State *s);
void state_free(BarrierCheck *r, State *s);
/* a becomes what is true in either; did it change? b is freed. */
bool state_join(BarrierCheck *r, State *a, State *b);

/* An access of `count` cells from `cell` by a thread (or by all of a set), checked and noted. */
void state_touch(BarrierCheck *r, State *s, const IrOp *op, int64_t cell, int64_t count, Threads who, bool writes, uint32_t past);
/* As state_touch, without a look. */
void state_mark(BarrierCheck *r, State *s, const IrOp *op, int64_t cell, int64_t count, Threads who, bool writes, uint32_t past);
/* Adds `past` to what was touched and has one of `before`. */
void state_pass(BarrierCheck *r, State *s, uint32_t before, uint32_t past);
/* Takes `past` from all that was touched. */
void state_forget(BarrierCheck *r, State *s, uint32_t past);
/* The same, checked only. */
void state_check(BarrierCheck *r, const State *s, const IrOp *op, int64_t cell, int64_t count, Threads who, bool writes);
/* Is all that was done there ordered before what `who` does now? */
bool state_orders(BarrierCheck *r, const State *s, int64_t cell, int64_t count, Threads who);
/* Against operations in flight: does [from, to) meet one that conflicts? */
void state_check_flights(BarrierCheck *r, const State *s, const IrOp *op, const Record *mine, bool writes);
const Record *barrier_check_record(BarrierCheck *r, FlightKind kind, const IrOp *op, const Reach *reaches, size_t count, int64_t barrier);
void state_meet(BarrierCheck *r, State *s);
/* A box has come into these cells; all of the block that they are of know. */
void state_land(BarrierCheck *r, State *s, const Record *record);
void state_barrier(BarrierCheck *r, State *s, IrScope scope);

/* ---- The walk (barrier_check_walk.c) ---- */

typedef struct {
    const IrValue *pointer, *offset;
    int64_t bytes;
} Access;

/* The shared.ptr behind a pointer, and the block whose memory it is, null: the thread's own. */
const IrOp *barrier_check_array_of(const IrValue *pointer, const IrValue **rank);
/* From here on the operation is in flight. */
void barrier_check_launch(BarrierCheck *r, State *s, const Record *record);
/* Notes that the cells are touched by threads, or by the engine. */
void barrier_check_mark(BarrierCheck *r, uint8_t *where, const Reach *reaches, size_t count);
/* Under which condition an operation that is walked here happens. */
void barrier_check_note_condition(BarrierCheck *r, const IrOp **loop, int64_t *ahead, const Aff **guard);
/* The cells that each thread, or each where the mask holds, reaches; false: not known. */
bool barrier_check_places(BarrierCheck *r, const IrOp *op, const Access *a, const Value *mask, Reach *reaches, size_t *count);
/* How many iterations from this one (`first`: the first, from before the loop) the guard speaks of. */
bool barrier_check_iterations_ahead(BarrierCheck *r, const IrOp *loop, const Aff *guard, bool first, int64_t *ahead);
/* Groups older than the newest `pending` are done: what they did counts as done by their threads now. */
void barrier_check_finish_groups(BarrierCheck *r, State *s, FlightKind kind, int64_t pending);
void barrier_check_walk_block(BarrierCheck *r, const IrBlock *block, State **s);

/* ---- Loops (barrier_check_loops.c) ---- */

void barrier_check_walk_for(BarrierCheck *r, const IrOp *op, State **s);

/* ---- Products of warpgroups (barrier_check_products.c) ---- */

void barrier_check_walk_product(BarrierCheck *r, State *s, const IrOp *op);
void barrier_check_walk_product_wait(BarrierCheck *r, State *s, const IrOp *op);
/* That no accumulators are used while their product is in flight. */
void barrier_check_sums(BarrierCheck *r, const State *s, const IrOp *op, bool inside);
/* What was in flight as `from` is so as `to`, too. */
void barrier_check_pass_sum(BarrierCheck *r, State *s, const IrValue *from, const IrValue *to);
/* Those of the region are gone, but as what it yields; arg null: as the op's results. */
void barrier_check_leave_sums(BarrierCheck *r, State *s, const IrOp *op, const IrBlock *region, IrValue *const *args);

/* ---- The copy engine (barrier_check_engine.c) ---- */

/* Threads that are here. */
int64_t barrier_check_count_active(const BarrierCheck *r);
void barrier_check_walk_arrive(BarrierCheck *r, State *s, const IrOp *op);
void barrier_check_walk_box(BarrierCheck *r, State *s, const IrOp *op);
void barrier_check_walk_drop(BarrierCheck *r, State *s, const IrOp *op);
void barrier_check_walk_expect(BarrierCheck *r, State *s, const IrOp *op);
void barrier_check_walk_init(BarrierCheck *r, State *s, const IrOp *op);
void barrier_check_walk_phase(BarrierCheck *r, State *s, const IrOp *op);

/* Whether every two accesses of a cuda kernel are ordered or apart; *fault otherwise. */
bool barrier_check_holds(IrFunc *f, BarrierFault *fault);

/* ---- Control flow (barrier_check_control.c) ---- */

/* Walks the branches that threads may take. */
void barrier_check_walk_if(BarrierCheck *r, const IrOp *op, State **s);
/* Walks a map's body once. */
void barrier_check_walk_map(BarrierCheck *r, const IrOp *op, State **s);

/* ---- Arithmetic (barrier_check_arithmetic.c) ---- */

/* Gives the value room for a number of each thread. */
void barrier_check_make_room(BarrierCheck *r, Value *v);
/* The same for all threads of the block. */
void barrier_check_set_flat(BarrierCheck *r, Value *v, ValueKind kind, int64_t number, const Aff *rest);
/* Can the type hold the number? */
bool barrier_check_fits(const IrType *type, int64_t n);
/* The value as one expression; null: it is none. */
const Aff *barrier_check_whole_of(BarrierCheck *r, const Value *v);
/* The value is `e`, of the block. */
bool barrier_check_set_expression(BarrierCheck *r, Value *v, const Aff *e);
/* Two's complement: shifts and masks by numbers are divisions. */
bool barrier_check_arithmetic(BarrierCheck *r, Value *v, const IrType *type, IrOpcode op, const Value *a, const Value *b);
/* A comparison; false: it is not known. */
bool barrier_check_compare(BarrierCheck *r, Value *v, IrOpcode op, const Value *a, const Value *b);
/* And, or of truth values. */
void barrier_check_combine(BarrierCheck *r, Value *v, IrOpcode op, const Value *a, const Value *b);
/* Not. */
void barrier_check_negate(BarrierCheck *r, Value *v, const Value *a);
/* A select; false: it is not known. */
bool barrier_check_pick(BarrierCheck *r, Value *v, const Value *cond, const Value *a, const Value *b);

#endif
