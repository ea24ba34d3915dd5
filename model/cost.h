/* The cost model: how long launches should take on a target, and which roof binds. Plain numbers in,
 * plain numbers out; who plans (passes) and who explains (--explain) fill the same struct.
 *
 * A launch is blocks of equal work that run in waves. A wave takes as long as its slowest roof: bytes
 * of device memory at the rate of a copy or of reading, bytes through the L2 cache and through shared
 * memory, instructions issued, products of the tensor cores; or the time of one block alone, whose loads wait for memory as many
 * times in a row as they depend on each other (Little's law: a block's rate is its bytes in flight
 * over the latency). Source: the roofline model (Williams, Waterman, Patterson 2009) with bytes in
 * flight as in Volkov's "Understanding latency hiding on GPUs" (2016).
 *
 * Units: bytes, seconds, bytes a second; everything of a launch as a whole unless said otherwise. */
#ifndef MODEL_COST_H
#define MODEL_COST_H

#include "target.h"

/* Ceilings of one device: the target's document, or what `sketchc calibrate` measured. */
typedef struct {
    double copy, read, fill; /* device memory, bytes a second; copy counts both directions */
    double l2, shared;       /* bytes a second of the whole device */
    double sm;               /* bytes a second that one multiprocessor can take from L2 */
    double issue;            /* warp instructions a second of the whole device */
    double products;         /* 16-bit multiply-adds a second of the whole device's tensor cores; 0: not known */
    double latency;          /* seconds until a load from device memory arrives */
    double launch;           /* seconds of an empty launch, and of every other beside its work */
    int64_t sms, l2_bytes;
    int64_t threads_sm, blocks_sm, registers_sm, shared_sm; /* what a multiprocessor holds */
} CostMachine;

/* False where the target's document has no such numbers (processors). */
bool cost_machine(const Target *target, CostMachine *machine);

/* An access to shared memory whose lanes want different words of one bank. */
typedef struct {
    const struct IrOp *op;
    unsigned degree; /* most words of one bank that lanes served together want; without conflict 1 */
    double bytes;    /* through shared memory beyond what the access would take without */
} CostConflict;
/* Accesses with bank conflicts that an explanation names, the worst first. */
enum { COST_CONFLICTS = 8 };

typedef struct {
    double blocks;                          /* of the launch */
    int64_t threads;                        /* of a block */
    int64_t registers;                      /* of a thread; 0: not known, no limit */
    int64_t shared_bytes;                   /* of a block, static and dynamic */
    int64_t cluster;                        /* blocks that must be resident together; 0 is 1 */
    int64_t meeting;                        /* blocks that wait for each other; 0: none */
    double read, written;                   /* device memory */
    double l2;                              /* through L2, both directions; at least read + written */
    double shared;                          /* through shared memory, a bank conflict counting as a second access */
    double shared_least;                    /* what threads' accesses would take of it without conflicts */
    CostConflict conflicts[COST_CONFLICTS]; /* the worst */
    unsigned conflict_count;
    double spilled;         /* bytes of a thread that registers have no room for, in a loop that runs them to memory and back */
    unsigned unchecked;     /* accesses to shared memory at addresses that are not known */
    unsigned exceptions;    /* parts behind flags of earlier launches, which were left out */
    double instructions;    /* warp instructions */
    double products;        /* multiply-adds of the tensor cores, of 16-bit factors; one of 8 bits is half of one */
    double bytes_in_flight; /* of a thread: asked for before it has to wait */
    double waits;           /* of a block: times in a row that all its threads wait for memory */
} CostLaunch;

typedef enum { COST_COPY, COST_READ, COST_L2, COST_SHARED, COST_ISSUE, COST_PRODUCTS, COST_LATENCY, COST_EMPTY, COST_ROOFS } CostRoof;
const char *cost_roof_name(CostRoof roof); /* "device memory, reading" */

typedef struct {
    double seconds;
    double roofs[COST_ROOFS]; /* seconds each roof alone would take; the largest binds */
    CostRoof roof;
    int64_t blocks_per_sm; /* that fit at a time */
    const char *limit;     /* what keeps it from being more: "threads", "registers", ... */
    int64_t meeting;       /* as the launch's */
    double waves;
    double bytes_in_flight, bytes_needed; /* of a multiprocessor: as planned; to fill the memory */
} CostEstimate;

/* A launch that fits nowhere (0 blocks a multiprocessor) takes forever: seconds is infinite. */
CostEstimate cost_estimate(const CostMachine *machine, const CostLaunch *launch);

/* Seconds that moving `read` and `written` bytes once takes at the device's ceilings: what
 * predictions and measurements are held against. */
double cost_floor(const CostMachine *machine, double read, double written);

/* One sentence: the binding roof, the part of the floor that is reached, and why. */
void cost_explain(const CostEstimate *estimate, double floor_seconds, Str *out);

#endif
