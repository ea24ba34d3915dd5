/* The interpreter's program: a function decoded into instructions over slots. A slot holds a
 * value of every thread: `threads` times `n` cells, thread after thread; a tile is the value of one
 * thread and has an interval of present lanes per axis. */
#ifndef VERIFY_INTERPRET_INTERPRET_INTERNAL_H
#define VERIFY_INTERPRET_INTERPRET_INTERNAL_H

#include <setjmp.h>
#include <string.h>

#include "scalars.h"
#include "verify.h"

enum { SLOT_RANK = 16, WARP = 32, WARPGROUP = 4 * WARP };

typedef union {
    double f;
    int64_t i;
} Cell;

/* Who touched an element of shared memory last, and in which interval between barriers. */
typedef struct {
    int32_t writer, reader;                                       /* thread, -1: none; reader: interpret_memory.c */
    uint32_t read_home;                                           /* the readers' block in the cluster */
    uint32_t write_block, write_group, write_warp, write_cluster; /* barrier counts at that time */
    uint32_t read_block, read_group, read_warp, read_cluster;
    uint32_t write_arrivals, read_arrivals; /* Machine.arrivals at that time */
} Shadow;

typedef struct {
    const char *name;
    unsigned char *data;
    int64_t bytes;
    Shadow *shadow; /* of each `grain` bytes, or null: memory of one thread, or too large to watch */
    int64_t grain;  /* of bytes that were all accessed together so far: a power of two */
    bool late;      /* a step before may write it until this one has waited */
} Memory;

typedef struct Inst Inst;
typedef struct {
    const IrType *type;
    Dtype dtype;
    bool is_real, is_tile;
    size_t n; /* cells per thread */
    Cell *cells;
    unsigned rank;
    int64_t extents[SLOT_RANK];
    int64_t strides[SLOT_RANK];           /* of tensors, in elements */
    int64_t lo[SLOT_RANK], hi[SLOT_RANK]; /* present lanes, of tiles */
    const Inst *view;                     /* tensor: the op view that makes it, or null */
    Memory *memory;                       /* tensor, buffer, pointer */
    int64_t offset;                       /* pointer: bytes into memory */
} Slot;

typedef struct Code Code;
typedef struct Machine Machine;
/* Runs one op; `active` has a byte per thread. */
typedef void (*InstRun)(Machine *m, Inst *inst, const uint8_t *active);
struct Inst {
    const IrOp *op;
    InstRun run;
    Slot **operands, **results;
    Code *regions[2];
    uint8_t *masks[2];   /* of control flow: the threads inside */
    Cell *carry;         /* room for the values on a loop's back edge */
    int64_t integers[2]; /* decoded attributes, by opcode */
};
struct Code {
    size_t count;
    Inst *insts;
    unsigned arg_count;
    Slot **args;
};

/* An asynchronous copy that was issued and not waited for, with what it read (on the heap). */
typedef struct {
    unsigned char *data;
    Memory *memory;
    int64_t offset, bytes, group;
    size_t thread;
} PendingCopy;

/* A barrier that counts arrivals and the copy engine's bytes, at a place in shared memory. */
typedef struct {
    Memory *memory;
    int64_t at, arrivals, arrived, bytes, copied; /* of the phase: bytes expected, bytes on their way */
    int64_t phase;                                /* phases that have ended */
    uint32_t begun, ended;                        /* Machine.arrivals at the phase's first arrival; of the phase that ended last */
    bool apart, ended_apart;                      /* an arrival of this phase, of the one that ended last, was for its own block alone */
    bool some, ended_some; /* not all warps of a block arrived together: they say what was done in front of the block's last barrier */
    uint32_t *fences, *ended_fences; /* of a cluster: block_barriers when the first came */
} Barrier;
typedef struct Product Product; /* of a warpgroup, in flight (interpret_async.c) */

struct Machine {
    Arena *arena;
    const IrFunc *f;
    const Sizes *sizes;
    const InterpretArgs *args;
    size_t threads;
    size_t blocks, block_threads; /* that run in lockstep: of a cluster; 1 without clusters */
    int64_t grid[3], block[3];
    uint64_t steps, step_limit;
    Memory shared;        /* of all blocks of a cluster, one after the other */
    int64_t shared_block; /* bytes of one block */
    bool begun;           /* the cluster's blocks have, and it is known */
    int64_t *sent;        /* bytes that came to each block since the cluster met */
    uint32_t cluster_barriers, *block_barriers, *group_barriers, *warp_barriers;
    uint32_t arrivals,
        *behind; /* times that warps arrived at barriers; per thread: what its block did before that many is ordered before it */
    uint32_t *behind_all,
        *behind_fence; /* the same of what any block of the cluster read; what each block did in front of so many of its barriers (null: nothing) */
    bool early;             /* the block has not yet waited for the steps before */
    uint32_t cluster_start; /* cluster_barriers when this cluster began */
    int64_t *open_group;    /* per thread: the group that the next commit closes */
    VEC(PendingCopy) pending;
    unsigned char *box[2];  /* what the running tma.load has read, and as it will lie: freed at its end, or where it traps */
    VEC(PendingCopy) boxes; /* of the copy engine; group: the place of its barrier */
    VEC(Barrier) barriers;
    VEC(Product *) products;
    int64_t *open_batch; /* per warpgroup: the batch of products that the next commit closes */
    const IrOp *at;      /* the op being run */
    const char *error;
    jmp_buf trap;
};

_Noreturn void machine_trap(Machine *m, const char *format, ...) PRINTF_LIKE(2, 3);

/* interpret_build.c */
Code *interpret_decode(Machine *m, Memory *const *memories, const double *scalars);

/* interpret.c */
void run_code(Machine *m, const Code *code, const uint8_t *active);
void slot_copy(const Machine *m, Slot *to, const Slot *from, const uint8_t *active);

/* interpret.c; null: the op cannot be run */
InstRun interpret_op(IrOpcode op);
InstRun interpret_lanes_op(IrOpcode op);   /* interpret_lanes.c; null: not one of its ops */
InstRun interpret_control_op(IrOpcode op); /* interpret_control.c */
InstRun interpret_tile_op(IrOpcode op);    /* interpret_tile.c */
InstRun interpret_axes_op(IrOpcode op);    /* interpret_axes.c */
InstRun interpret_slice_op(IrOpcode op);   /* interpret_slice.c */
InstRun interpret_memory_op(IrOpcode op);  /* interpret_memory.c */
InstRun interpret_warp_op(IrOpcode op);    /* interpret_warp.c */
InstRun interpret_async_op(IrOpcode op);   /* interpret_async.c */
/* Nothing is on its way to the memory of blocks that end (interpret_async.c). */
void async_check_end(Machine *m);
void async_free_box(Machine *m);

/* interpret_lanes.c */
Cell cell_round(const Slot *as, Cell value); /* to the slot's dtype; integers wrap */
Cell cell_binary(IrOpcode op, Dtype dtype, Cell a, Cell b);
double real_fma(Dtype dtype, double a, double b, double c);
Cell cell_load(Dtype dtype, const void *memory);
void cell_store(Dtype dtype, void *memory, Cell value);
Cell cell_poison(Dtype dtype);

/* interpret_slice.c: what a store of this mode and an atomic of this kind do with two values. */
IrOpcode interpret_update(IrKind kind);
/* ... and what the op's `pad` is in the slot's type. */
Cell cell_pad(const IrOp *op, const Slot *r);
/* interpret_tile.c: what a reduction or scan kind combines by, and its neutral element */
IrOpcode interpret_reduce_op(Machine *m, IrKind kind);
Cell interpret_identity(IrOpcode op, const Slot *r);

/* interpret_memory.c: traps unless [offset, offset + bytes) is inside; notes the access. */
void memory_check(Machine *m, Memory *memory, int64_t offset, int64_t bytes, int64_t align);
void memory_watch(Machine *m, Memory *memory);
void memory_forget(Memory *memory);                                            /* what was noted */
void memory_landed(Machine *m, Memory *memory, int64_t offset, int64_t bytes); /* forgets who wrote these bytes */
void memory_note(Machine *m, Memory *memory, int64_t offset, int64_t bytes, size_t thread, bool writes);
/* The byte of element `index` behind a pointer as thread t sees it, of `bytes` that must lie inside: shared
 * memory is that of the thread's own block, or of the block whose rank the pointer holds. */
int64_t memory_address(Machine *m, const Slot *ptr, int64_t index, int64_t bytes, int64_t align, size_t thread);
/* Another block's memory may be touched: it has begun. */
void memory_need_begun(Machine *m);

/* interpret_async.c: the sum of terms of which each keeps `bits` bits of the largest one and loses the rest: what tensor
 * cores do at worst. */
double interpret_cut_sum(const double *terms, size_t count, int bits);
enum { F8_SUM_BITS = 14 };

/* What instructions read of the 32-bit float with these bits as tf32. */
#define TF32_BITS UINT32_C(0xffffe000)
/* acc and `depth` products as tensor cores of sm_80 add them: 16 bytes of factors at a time, the sum of which is cut
 * off to f32, not rounded (Fasi, Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores", 2021). */
float tensor_core_sum(float acc, const double *products, size_t depth, size_t factor_bytes);

static inline double tf32_read(uint32_t bits) {
    float value;
    bits &= TF32_BITS;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

#endif
