/* Shared by the files of the pass `expand`: tile ops to one thread's program. */
#ifndef PASSES_EXPAND_INTERNAL_H
#define PASSES_EXPAND_INTERNAL_H

#include "distribution.h"
#include "passes.h"
#include "presence.h"

/* What stands for a tile-level value at kernel level: a scalar (also a splat tile: the same value in
 * every lane) or a fragment seen through `axis_map` (broadcast and transpose copy nothing). */
typedef struct {
    IrValue *value;
    bool is_frag;
    Dist dist;                        /* of the fragment's own tile */
    int axis_map[DIST_MAX_RANK];      /* its axis -> axis of the tile it stands for; -1: extent 1 */
} Rep;

typedef struct RepEntry RepEntry;

typedef struct {
    PassContext *ctx;
    IrModule *module;
    IrFunc *from, *to;
    IrBuilder b;          /* where kernel ops go now */
    IrOp *anchor;         /* entry code (strides, lane, warp) is inserted before it */
    RepEntry **table;     /* tile-level value -> Rep, open addressing */
    size_t table_size, table_used;
    IrValue *lane, *warp; /* made at first use */
    int64_t shared_bytes;
    int64_t num_warps;    /* 1 on the CPU */
    int64_t vector_bytes; /* widest access */
    bool gpu, failed;
} Expand;

Rep *expand_rep(Expand *x, IrValue *value);
void expand_bind(Expand *x, IrValue *value, Rep rep);
void expand_bind_scalar(Expand *x, IrValue *value, IrValue *scalar);
void expand_bind_frag(Expand *x, IrValue *value, IrValue *frag, const Dist *dist);
IrValue *expand_scalar(Expand *x, IrValue *value); /* kernel value of a scalar */
void expand_error(Expand *x, const IrOp *op, const char *what);

/* Index helpers at a builder; constants fold. */
IrValue *index_add(IrBuilder *b, IrValue *a, IrValue *c);
IrValue *index_mul_const(IrBuilder *b, IrValue *a, int64_t k);
IrValue *index_less(IrBuilder *b, IrValue *a, IrValue *c);
IrValue *mask_and(IrBuilder *b, IrValue *a, IrValue *c); /* null stands for true */
/* Emits an affine expression over tile-level values at kernel level. */
IrValue *expand_aff(Expand *x, IrBuilder *b, const Aff *e);

/* The thread's part of a coordinate (lane and warp terms), or null when it is 0. */
IrValue *dist_base(Expand *x, const Dist *dist, unsigned axis);
/* The fragment's part of a coordinate at fragment indices `index`. */
IrValue *dist_local(IrBuilder *b, const Dist *dist, unsigned axis, IrValue *const *index);
/* Opens a map over the dims of `dist`, the last divided by `vector`; sets *inner to its region and
 * fills index[] (the last scaled back to elements). */
IrOp *dist_map(Expand *x, const Dist *dist, int64_t vector, Dtype result, IrBuilder *inner, IrValue **index);
/* The element of `rep` (or `width` consecutive ones) at indices of `at`, in a map's region. */
IrValue *rep_get(Expand *x, IrBuilder *b, const Rep *rep, const Dist *at, IrValue *const *index, int64_t width);
/* The index of sub `s` within dimension index `value`. */
IrValue *dist_sub_index(IrBuilder *b, const DistDim *dim, unsigned s, IrValue *value);
/* Is `rep` a fragment of its own in `dist`, not another one seen through a view? */
bool rep_is_own(const Rep *rep, const Dist *dist);
/* A fragment in `dist` with the lanes of `rep`: itself when it already is one. */
IrValue *rep_materialise(Expand *x, const Rep *rep, const Dist *dist, Dtype dtype);
/* Whether lane `index` of the tile `value`, distributed as `dist`, is present; null: always. Axis a
 * is left out where the caller already checks it against an upper bound of checked[a] (checked or
 * checked[a] may be null). */
IrValue *presence_mask(Expand *x, IrBuilder *b, IrValue *value, const Dist *dist, IrValue *const *index,
                       const Aff *const *checked);

/* A slice of a tensor as the kernel sees it. */
typedef struct {
    IrValue *tensor, *pointer;
    const IrType *type;
    unsigned rank;
    const char *letters;              /* 'r' or 'p' per tensor axis */
    IrValue *begin[DIST_MAX_RANK], *end[DIST_MAX_RANK]; /* tile-level values */
    int64_t step[DIST_MAX_RANK];
    int tile_axis[DIST_MAX_RANK];     /* -1: dropped */
    const Aff *stride[DIST_MAX_RANK]; /* elements */
    AffFacts *facts;
    int64_t width;                    /* elements of one access */
} AccessPlan;

/* The slice that `op` accesses: `tensor`, bounds from operand `first` on, lanes distributed as `dist`
 * (null: one element); with the widest access that alignment and contiguity license. */
AccessPlan access_plan(Expand *x, IrOp *op, unsigned first, IrValue *tensor, const Dist *dist);
IrValue *access_pointer(const AccessPlan *plan);
/* The element offset at fragment indices, emitted at `inner`, what is invariant at x->b; *mask is null
 * when the access is always inside. */
IrValue *access_offset(Expand *x, IrBuilder *inner, const AccessPlan *plan, const Dist *dist, IrValue *const *index,
                       IrValue **mask);

/* A barrier before an access of a tensor where other threads' accesses may have to come first. */
void expand_order(Expand *x, const IrOp *op);
void expand_barrier(Expand *x);

void expand_block(Expand *x, IrBlock *block);
void expand_load(Expand *x, IrOp *op);
void expand_store(Expand *x, IrOp *op);
/* One lane of a store of mode add, max or min: mem.atomic, with a region where the machine has no
 * instruction for it. */
void expand_update(Expand *x, IrBuilder *b, const char *kind, unsigned operand_count,
                   IrValue *const *operands);
void expand_reduce(Expand *x, IrOp *op);
void expand_convert(Expand *x, IrOp *op);
void expand_gemm(Expand *x, IrOp *op);      /* on fragments: CPU */
void expand_buf_op(Expand *x, IrOp *op);    /* staged buffers: GPU */
IrValue *expand_shared(Expand *x, Dtype dtype, int64_t elements, const char *name);

#endif
