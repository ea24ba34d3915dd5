/* Shared by stage_buffers.c and stage_operands.c: factors of gemms in shared memory. */
#ifndef PASSES_GEMM_STAGE_INTERNAL_H
#define PASSES_GEMM_STAGE_INTERNAL_H

#include "analysis/analysis.h"
#include "analysis/gemm_plan.h"

enum {
    STAGE_MAX_RANK = 16 /* axes of a staged operand: room */
};

typedef enum {
    FILL_AHEAD,  /* copied from memory, stages ahead */
    FILL_BEFORE, /* does not change in the loop: stored once in front of it */
    FILL_ONCE,   /* the same, copied there by the copy engine */
    FILL_INSIDE, /* stored from registers at the gemm */
    FILL_NEVER,  /* multiplied from registers */
    FILL_DONE    /* an earlier factor of the block's gemms is the same (`twin`) */
} Fill;

/* One factor of a gemm, as matrices in shared memory: one for each of its leading indices, in
 * consecutive stages. */
typedef struct Operand {
    Fill fill;
    IrValue *value, *buf; /* buf: its place in shared memory; what is multiplied from registers: itself */
    const struct Operand *twin;
    bool trans;
    bool across;           /* K runs across the rows as they are stored */
    int64_t rows, columns; /* of a matrix, padded */
    int64_t matrices;
    bool late; /* FILL_AHEAD: multiplied with in the second half of an iteration alone (pingpong.c) */
} Operand;

/* A block computes several tiles, one after the other (persistent_gemm.c). */
typedef struct {
    IrValue *value;      /* from which indices of this tile come */
    IrValue *near, *far; /* for the tile that is fetched for first, and for the one behind it */
    IrValue *there;      /* for the iteration that is fetched for */
} TileLeaf;
typedef struct {
    IrOp *loop;              /* over the tiles of a block; null: a block a tile */
    IrValue *tiles, *blocks; /* of the launch */
    IrValue *trips;          /* iterations of a tile, at least 1 */
    IrValue *base;           /* iterations of the tiles before */
    IrValue *skipped, *rest; /* stages - 1 = skipped trips + rest */
    IrValue *near, *far;     /* tiles that are fetched for */
    VEC(TileLeaf) leaves;
} PersistentTiles;

typedef struct {
    PassContext *ctx;
    IrModule *module;
    GemmWarps warps;            /* how every gemm of the function divides them */
    int64_t taken;              /* bytes of the copy engine's rings so far */
    PersistentTiles persistent; /* of the function's ring */
    bool failed;
} Staging;

/* Factors of a stage whose copies arrive together. */
typedef struct {
    IrValue *full; /* barriers on which the copy engine's copies arrive; null: cp.async */
    int64_t ahead; /* so many iterations are filled in front of the loop; an iteration fills for the one as far on */
} Phase;

enum { STAGE_PHASES = 2 /* of a ring: with operands that come late */ };

typedef struct {
    IrOp *loop;                 /* null: the gemm is in no loop */
    Phase phases[STAGE_PHASES]; /* the second one: of the operands that are `late` */
    unsigned phase_count;
    bool
        given_back; /* warps arrive on the barriers `empty` when they have read a stage; else a block's barrier stands before it is filled */
    IrValue *empty;
    IrValue *once; /* the barrier on which the copies of FILL_ONCE arrive; null: there are none */
    int64_t stages;
    bool halves;  /* the first half of an iteration stands beside the second one of the iteration before */
    IrOp *behind; /* the last op that belongs to the loop; null: itself */
    IrValue *lower, *upper, *step;
    PersistentTiles persistent;
    size_t count;
    Operand operands[16];
} Ring;

/* The number of leading indices of a tile. */
int64_t stage_matrices(const IrType *tile);
/* How the factor gets into shared memory; `first_gemm` is the first one of the block. */
Fill stage_fill(const Ring *ring, IrBlock *block, const IrOp *first_gemm, IrValue *value);
/* Allocates the operand's buffer: its matrices in each of `stages`. */
void stage_alloc(Staging *s, IrBuilder *b, Operand *o, int64_t stages, bool mma);
/* The same for the copy engine and wgmma. */
void stage_alloc_tma(Staging *s, IrBuilder *b, Operand *o, int64_t stages);
/* Whether the factor is a load that copies can stand for. */
bool stage_can_copy(const IrValue *factor);
/* Whether the copy engine can bring this load's slice: two ranges of whole extents, the second along the
 * tensor's last axis, its rows in blocks that a swizzle has. */
bool stage_fits_tma(PassContext *ctx, const IrOp *load);
/* Views by whose strides rows lie stand in front of all loops: a copy of a later iteration's slice may come before them. */
void stage_lift_views(IrFunc *f);
/* What a stage is filled for: an iteration, of the tile in `tile` or by the leaves of the tile; bool `exists`. */
typedef struct {
    IrValue *iteration, *tile, *exists;
} StageFetch;
/* Copies the slice of an iteration into the ring's stage number `stage`. */
void stage_copy(Staging *s, IrBuilder *b, const Ring *ring, const Operand *o, StageFetch fetch, IrValue *stage);
/* Copies what does not change in the ring's loop, in front of it. */
void stage_copy_once(Staging *s, IrBuilder *b, const Ring *ring, const Operand *o);
/* `value`, computed in `body` or in a block within, again at `b` from what `map` has in place of loop variables. */
IrValue *stage_recompute(IrBuilder *b, IrValueMap *map, const IrBlock *body, IrValue *value);
/* Stages that the loop's pipeline hint asks for. */
int64_t stage_count_wanted(const IrOp *loop);
/* Makes the function's body a loop over tiles where its gemm's loop has one ring and a multiprocessor holds one block, or
 * the hint persistent asks for it. False: a block a tile. */
bool persistent_gemm_make(PassContext *ctx, IrFunc *f, PersistentTiles *tiles);
/* Once the ring's stages are known: which tiles the block fetches for during a tile, computed in front of its loop. */
void persistent_gemm_prepare(Staging *s, Ring *ring, IrBuilder *outside);
/* What iteration `number` of the block's first tiles is; what iteration `i` of a tile fetches for. */
StageFetch persistent_gemm_first(IrBuilder *b, const Ring *ring, int64_t number);
StageFetch persistent_gemm_ahead(IrBuilder *b, Ring *ring, IrValue *i);
/* By the copy engine and wgmma (tma_pipeline.c): the rows of the function's gemms if all may be, else 0; the ring's
 * barriers in front of its loop; an iteration's schedule, around the gemms that stand in its block already;
 * what follows the loop. */
int64_t tma_pipeline_rows(PassContext *ctx, IrFunc *f);
/* Asks in the function's guard for extents that a map may have and the engine's coordinates reach; other sizes take another version. */
void tma_pipeline_guard(PassContext *ctx, IrFunc *f);
/* Bytes of shared memory that stages may take beside what is copied once and what earlier rings have taken. */
int64_t tma_pipeline_room(PassContext *ctx, IrFunc *f, int64_t once, int64_t taken);
void tma_pipeline_prologue(Staging *s, IrBuilder *b, Ring *ring);
void tma_pipeline_iteration(Staging *s, Ring *ring, IrOp *const *gemms, size_t count);
void tma_pipeline_epilogue(const Ring *ring);
/* Its parts: waits for the block's products in front of their first uses; for a phase of the stage of iteration `i`; the barrier, or the copying
 * thread's wait, behind which what was read before `i` is filled anew; the stage of iteration `i` given back. */
void tma_pipeline_waits(IrBlock *block, IrOp *const *gemms, size_t count);
void tma_pipeline_arrived(IrBuilder *b, const Ring *ring, unsigned phase, IrValue *i);
void tma_pipeline_refill(Staging *s, IrBuilder *b, Ring *ring, IrValue *i);
void tma_pipeline_give_back(IrBuilder *b, const Ring *ring, IrValue *i);
/* Pipelining by half an iteration (pingpong.c): how many blocks a multiprocessor is to hold if the ring's loop is pipelined, 0 where it is not
 * to be; how many stages it takes, 0 where there is no room; the new loop, once the loop's gemms stand in their buffers. The old loop, with the loads of its
 * factors, is gone then. */
int64_t pingpong_fit(const Staging *s, const Ring *ring, IrOp *const *gemms, size_t count, int64_t stage_bytes);
int64_t pingpong_stages(const Ring *ring, int64_t wanted, int64_t room);
/* Tells which factors the second half alone reads, where each one is of one half: the boxes of these arrive in a phase of their own. */
void pingpong_phases(const Staging *s, Ring *ring, IrOp *const *gemms, size_t count);
/* Whether its stages are given back warp by warp: several warpgroups need not wait for each other then. */
bool pingpong_give_back(const Staging *s);
void pingpong_make(Staging *s, Ring *ring);
/* The number of an iteration, from 0, modulo the stages `ahead` of it. */
IrValue *stage_number(IrBuilder *b, const Ring *ring, IrValue *iteration);
IrValue *stage_of(IrBuilder *b, const Ring *ring, IrValue *iteration, int64_t ahead);
/* The loop whose body the block is, or null. */
IrOp *stage_loop(IrBlock *block);
/* Whether warpgroups multiply by this first factor from registers: it does not change in the gemm's loop and registers have room for
 * it, or it comes lane by lane from a product of its block, and so lies as the instruction wants it. */
bool stage_from_registers(PassContext *ctx, IrOp *gemm);
/* Whether `a` stands in front of `b` in one block. */
bool stage_is_before(const IrOp *a, const IrOp *b);
/* The first of the operand's matrices in a stage of the ring. */
IrValue *stage_first_matrix(IrBuilder *b, const Operand *o, IrValue *stage);

#endif
