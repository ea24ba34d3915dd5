/* A CUDA machine on one thread of the CPU (README.md). Every CUDA thread is a fiber that runs to its next point
 * of synchronisation; who runs next is drawn. What is asynchronous happens when somebody waits for it, and no
 * earlier than it has to; until then its destination holds poison. */
#ifndef TESTS_CUDA_MACHINE_H
#define TESTS_CUDA_MACHINE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

enum { WARP = 32, MAX_BLOCK = 1024, MAX_CLUSTER = 16, BARRIERS = 16, POISON = 0xff };

typedef struct {
    unsigned x, y, z;
} Index;

/* The layout of cpu.h's CpuKernel and CpuThread. */
typedef struct {
    const char *name;
    int threads, cluster, align;
    void (*invoke)(void **parameters);
} Kernel;
typedef struct {
    Index thread, block, threads, blocks;
} Place;

typedef struct Thread Thread;
typedef struct Block Block;
typedef struct Copies Copies;     /* of a thread: cp.async */
typedef struct Products Products; /* of a warp: wgmma */
typedef struct Mbar Mbar;

typedef struct {
    Thread *first;
    int count;
} Waiting;

typedef struct {
    Block *block;
    uint32_t lanes, arrived, mask;
    const char *what; /* the instruction that those arrived are at */
    const void *arguments[WARP];
    Waiting waiting;
    Products *products;
} Warp;

struct Thread {
    Place place;
    Block *block;
    Warp *warp;
    int lane;
    char *stack;
    void *stack_pointer; /* while it does not run */
    Thread *next;        /* in the list that it waits in */
    const char *state;   /* what it waits for */
    bool done;
    unsigned cluster_phase;
    Copies *copies;
};

typedef struct Cluster Cluster;
struct Cluster {
    Cluster *next; /* of those that live */
    Block *blocks;
    int count, alive; /* blocks; threads that have not ended */
    int arrived;
    unsigned phase;
    Waiting waiting;
};

struct Block {
    Cluster *cluster;
    int rank, alive;
    bool begun; /* one of its threads has run */
    Index index;
    Thread *threads;
    Warp *warps;
    unsigned char *memory, *shared; /* allocated; the block's own */
    struct {
        int arrived, expected;
        Waiting waiting;
    } barriers[BARRIERS];
    Mbar *mbars;
};

typedef struct {
    const Kernel *kernel;
    void **parameters;
    unsigned grid[3], threads, cluster, shared_bytes;
    bool cooperative;
    void (*over)(void); /* the launch before this one is over; null: it was when this one began */
} MachineLaunch;

typedef struct {
    MachineLaunch launch;
    uint64_t random;
    size_t window; /* the order of this launch: one of so many threads that were woken last goes on */
    Thread **ready;
    size_t ready_count;
    uint64_t started, clusters; /* so far, in all */
    uint64_t *order;            /* of the clusters; null: as they are numbered */
    size_t in_flight;           /* boxes that the copy engine has not brought yet */
    Waiting early;              /* for the launch before this one */
} Machine;

extern Machine machine;

/* ---- machine.c ---- */

void machine_run(const MachineLaunch *launch);
_Noreturn void cpu_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
Thread *thread_self(void);
uint64_t machine_draw(uint64_t below);
/* The thread stops until it is woken. */
void thread_wait(Waiting *list, const char *what);
void wake_all(Waiting *list);
/* Lanes of a warp meet: true in the one that comes last, which does the work and calls warp_go_on. */
bool warp_meet(const char *what, uint32_t mask, const void *arguments);
void warp_go_on(Warp *w);
/* An address in the block's window of shared memory. */
unsigned char *shared_at(const Block *b, unsigned address, unsigned bytes, const char *what);
unsigned shared_base(void); /* where dynamic shared memory begins in the window */

/* ---- copies.c ---- */

void copies_end(Thread *t);
void mbars_end(Block *b);
bool copy_engine_step(void); /* brings one box in flight; false: there is none */

/* ---- products.c ---- */

void products_end(Warp *w);
unsigned swizzled(unsigned address, unsigned span);

#endif
