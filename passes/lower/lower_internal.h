/* Shared by the files of the pass `lower_to_threads`: tile ops to one thread's program. */
#ifndef PASSES_LOWER_LOWER_INTERNAL_H
#define PASSES_LOWER_LOWER_INTERNAL_H

#include "analysis/distribution.h"
#include "analysis/presence.h"
#include "layout.h"
#include "passes.h"

/* What stands for a tile-level value at kernel level: a scalar (also a splat tile: the same value in
 * every lane) or a fragment seen through `axis_map` (broadcast and transpose copy nothing). */
typedef struct {
    IrValue *value;
    bool is_frag;
    Dist dist;                   /* of the fragment's own tile */
    int axis_map[DIST_MAX_RANK]; /* its axis -> axis of the tile it stands for; -1: extent 1 */
} Rep;

typedef struct RepEntry RepEntry;

typedef struct {
    PassContext *ctx;
    IrModule *module;
    IrFunc *from, *to;
    PresenceCache *presence; /* of the tiles of `from`, which stays as it is */
    IrBuilder b;             /* where kernel ops go now */
    IrOp *at;                /* the tile-level op that is being lowered */
    IrOp *anchor;            /* entry code (strides, lane, warp) is inserted before it */
    RepEntry **table;        /* tile-level value -> Rep, open addressing */
    size_t table_size, table_used;
    IrValue *lane, *warp, *rank; /* made at first use */
    int64_t shared_bytes;
    int64_t num_warps;                  /* 1 on the CPU */
    int64_t cluster;                    /* blocks that share tiles; 1: none do */
    IrOp *cluster_begin;                /* null: nothing of it touches another block's memory so far */
    int64_t meetings;                   /* cluster.meet ops so far */
    int64_t vector_bytes;               /* widest access */
    int64_t scratch_used, scratch_most; /* bytes of scratch: of this op, of any */
    struct {
        IrOp **data;
        size_t len, cap;
    } scratch_pointers;
    IrValue *present_as;        /* exchange_put fills lanes that are absent in this tile; null: in its own */
    int64_t rotated, row_lanes; /* rows of so many lanes lie rotated, in pieces of `rotated` elements; 0: none do */
    IrValue *rotation;          /* by how many places; made at the first access of such a row ... */
    const Aff *rotated_from;    /* ... and what it is the remainder of */
    IrOp *elected;              /* the last `if` of one thread: more may go there */
    bool gpu, failed;
} Lower;

Rep *lower_rep(Lower *x, IrValue *value);
void lower_bind(Lower *x, IrValue *value, Rep rep);
void lower_bind_scalar(Lower *x, IrValue *value, IrValue *scalar);
void lower_bind_frag(Lower *x, IrValue *value, IrValue *frag, const Dist *dist);
IrValue *lower_scalar(Lower *x, IrValue *value); /* kernel value of a scalar */
void lower_error(Lower *x, const IrOp *op, const char *what);

/* Index helpers at a builder; constants fold. */
IrValue *index_add(IrBuilder *b, IrValue *a, IrValue *c);
IrValue *index_mul_const(IrBuilder *b, IrValue *a, int64_t k);
IrValue *index_less(IrBuilder *b, IrValue *a, IrValue *c);
IrValue *mask_and(IrBuilder *b, IrValue *a, IrValue *c); /* null stands for true */
/* Emits an affine expression over tile-level values at kernel level. */
IrValue *lower_aff(Lower *x, IrBuilder *b, const Aff *e);

/* The thread's part of a coordinate (lane and warp terms), or null when it is 0. */
IrValue *dist_base(Lower *x, const Dist *dist, unsigned axis);
/* The fragment's part of a coordinate at fragment indices `index`. */
IrValue *dist_local(IrBuilder *b, const Dist *dist, unsigned axis, IrValue *const *index);
/* Opens a map over the dims of `dist`, the last divided by `vector`; sets *inner to its region and
 * fills index[] (the last scaled back to elements). */
IrOp *dist_map(Lower *x, const Dist *dist, int64_t vector, Dtype result, IrBuilder *inner, IrValue **index);
/* Sets the index of the last dim to the first of its piece of `width` elements. */
void dist_piece(IrBuilder *b, const Dist *dist, int64_t width, IrValue **index);
/* The element of `rep` (or `width` consecutive ones) at indices of `at`, in a map's region. */
IrValue *rep_get(Lower *x, IrBuilder *b, const Rep *rep, const Dist *at, IrValue *const *index, int64_t width);
/* The index of sub `s` within dimension index `value`. */
IrValue *dist_sub_index(IrBuilder *b, const DistDim *dim, unsigned s, IrValue *value);
/* Is `rep` a fragment of its own in `dist`, not another one seen through a view? */
bool rep_is_own(const Rep *rep, const Dist *dist);
/* A fragment in `dist` with the lanes of `rep`: itself when it already is one. */
IrValue *rep_materialise(Lower *x, const Rep *rep, const Dist *dist, Dtype dtype);
/* Whether lane `index` of the tile `value`, distributed as `dist`, is present; null: always. Axis a
 * is left out where the caller already checks it against an upper bound of checked[a] (checked or
 * checked[a] may be null). */
IrValue *presence_mask(Lower *x, IrBuilder *b, IrValue *value, const Dist *dist, IrValue *const *index, const Aff *const *checked);

/* The same of given intervals. */
IrValue *interval_mask(Lower *x, IrBuilder *b, const Presence *p, const Dist *dist, IrValue *const *index, const Aff *const *checked);

/* A slice of a tensor as the kernel sees it. */
typedef struct {
    IrValue *tensor, *pointer;
    const IrType *type;
    unsigned rank;
    IrValue *begin[DIST_MAX_RANK], *end[DIST_MAX_RANK]; /* tile-level values; null: by index tile */
    Rep lanes[DIST_MAX_RANK];                           /* where begin is null: the index of each lane */
    int64_t step[DIST_MAX_RANK];
    int tile_axis[DIST_MAX_RANK];     /* of a range; -1: dropped, or by index tile */
    const Aff *stride[DIST_MAX_RANK]; /* elements */
    const IrOp *view;                 /* `tensor` is made by this op; stride is its memory's */
    unsigned depth, memory_rank;      /* views before the memory; the memory's axes */
    IrValue **inside_view;            /* of each, set by access_offset: null when a lane is always inside */
    AffFacts *facts;
    int64_t width; /* elements of one access */
} AccessPlan;

/* The slice that `op` accesses, lanes distributed as `dist` (null: one element); with the widest access that alignment and contiguity license. */
AccessPlan access_plan(Lower *x, IrOp *op, const Dist *dist);
IrValue *access_pointer(const AccessPlan *plan);
/* The element offset at fragment indices, emitted at `inner`, what is invariant at x->b; *mask is null
 * when the access is always inside. */
IrValue *access_offset(Lower *x, IrBuilder *inner, AccessPlan *plan, const Dist *dist, IrValue *const *index, IrValue **mask);

/* What a load puts into lanes that are absent (lower_absent.c): its pad, 0, or what a maximum or minimum of them leaves out. */
double absent_fill(Lower *x, const IrOp *load);
/* Do the lanes of the tile that are absent along one of `axes` hold `value`? */
bool absent_holds(Lower *x, const IrValue *tile, uint32_t axes, double value);

/* ---- Rows at odd addresses, held rotated (lower_rotated.c) ---- */

bool is_rotated(const Lower *x, const Dist *dist);
/* The elements of one access of a rotated row: a piece, or 1. */
int64_t rotated_width(Lower *x, IrOp *op, const AccessPlan *plan, const Dist *dist);
/* How many lanes are present, of a row that has `limit`. */
IrValue *rotated_limit(Lower *x, const Aff *limit);
IrValue *rotated_lane(Lower *x, IrBuilder *b, const Dist *dist, IrValue *const *index);
IrValue *rotated_present(Lower *x, IrBuilder *b, const Dist *dist, IrValue *const *index, IrValue *limit);
IrValue *rotated_whole(Lower *x, IrBuilder *b, const Dist *dist, IrValue *local, IrValue *limit);
/* The pieces at a row's begin and end, which are no one access: code of the threads that hold them. */
typedef struct {
    const Dist *dist;
    IrValue *limit;    /* so many lanes are of the row */
    IrValue *place[2]; /* where they begin, among the thread's places ... */
    IrValue *first[2]; /* ... and among the row's lanes; below 0: rotated behind the end */
    IrOp *branch;      /* null: every thread runs it */
    IrBuilder saved;
} RotatedEdges;
RotatedEdges rotated_edges(Lower *x, const Dist *dist, IrValue *limit, unsigned results, const IrType *const *types);
void rotated_edges_end(Lower *x, const RotatedEdges *e);
IrValue *rotated_edge_lane(Lower *x, IrBuilder *b, const RotatedEdges *e, unsigned which, IrValue *j, IrValue **mask);
IrValue *rotated_in_edge(Lower *x, IrBuilder *b, const RotatedEdges *e, unsigned which, IrValue *const *index, IrValue **j);

/* ---- Pieces wider than a thread's own, by shuffles (lower_widen.c) ---- */

enum { WIDENING_MAX = 16 }; /* elements */
typedef struct {
    unsigned count;
    LayoutSwap swaps[5];
    IrValue *high[5];    /* whether this lane's bit of the swap is set */
    Dist to, from;       /* pieces of `width` elements; how the fragment is read for them */
    int64_t width, word; /* word: elements that are exchanged as one */
    int64_t cost;        /* lines of memory touched and shuffles, a warp's for the whole tile */
} Widening;
/* How a tile's lanes come into pieces of `width` along the axis; false: not by exchanges within a warp. */
bool widening_find(Lower *x, const IrType *tile, unsigned axis, int64_t width, Widening *w);
/* Whether the exchanges cost less than they save beside pieces of `width` without them. */
bool widening_pays(const Widening *w, const IrType *tile, unsigned axis, int64_t width);
void widening_begin(Lower *x, Widening *w); /* before the map */
/* How a tile's lanes come to be neighbours along the axis, each with single elements; a group is what one round of exchanges gives. */
bool gathering_find(Lower *x, const IrType *tile, unsigned axis, Widening *w);
/* A group at indices of w->to, in its map's region: w->width elements, at the last index and behind it. */
void gathering_get(Lower *x, IrBuilder *b, const Rep *rep, const Widening *w, IrValue *const *index, IrValue **elements);
/* A piece at indices of w->to, in its map's region; `rep` is the tile's own fragment. */
IrValue *widening_get(Lower *x, IrBuilder *b, const Rep *rep, const Widening *w, IrValue *const *index);

/* A barrier before an access of a tensor where other threads' accesses may have to come first. */
void lower_order(Lower *x, const IrOp *op);
void lower_barrier(Lower *x);

void lower_block(Lower *x, IrBlock *block);
void lower_load(Lower *x, IrOp *op);
void lower_store(Lower *x, IrOp *op);
/* One lane of a store of mode add, max or min: mem.atomic, with a region where the machine has no
 * instruction for it. */
void lower_update(Lower *x, IrBuilder *b, IrKind kind, unsigned operand_count, IrValue *const *operands);
void lower_reduce(Lower *x, IrOp *op);
void lower_combine(Lower *x, IrOp *op);
/* What the blocks of the cluster found, of 4 or 8 bytes and the same in all threads of a block, in the order of their ranks: an array that all threads may
 * read until the block's next barrier. In a loop a barrier of the block stands between reading and the next run. */
IrValue *lower_found_by_blocks(Lower *x, IrValue *value);
void lower_convert(Lower *x, IrOp *op);
bool lower_along(Lower *x, IrOp *op); /* false: none of the ops of lower_exchange.c and below */
void lower_scan(Lower *x, IrOp *op);  /* lower_scan.c */
void lower_arg(Lower *x, IrOp *op);
void lower_sort(Lower *x, IrOp *op);         /* lower_sort.c */
void lower_gemm(Lower *x, IrOp *op);         /* on fragments: CPU */
IrOp *lower_pair_before(Lower *x, IrOp *op); /* the product that is made with this one (lower_pairs.c) */
bool lower_pair_waits(Lower *x, IrOp *op);   /* it is made with a later one */
void lower_buf_op(Lower *x, IrOp *op);       /* staged buffers: GPU */
void lower_box_op(Lower *x, IrOp *op);       /* the copy engine, its barriers, wgmma (lower_tma.c) */
void lower_box_alloc(Lower *x, IrOp *op);    /* a buffer of the copy engine's */
void lower_box_gemm(Lower *x, IrOp *op);     /* a product of two of them */
/* Of lanes and warps that hold copies, the first; null: there are none. */
IrValue *owner_mask(Lower *x, const Dist *dist);

/* ---- Lanes at computed coordinates (lower_exchange.c) ---- */

/* Opens the scratch memory for one op: what is put there by code before is gone. */
void scratch_begin(Lower *x);
/* An array in scratch; a barrier must stand between writing and reading of other threads. */
IrValue *scratch_array(Lower *x, Dtype dtype, int64_t elements, const char *name);
/* Gives scratch its place, behind all that lower_shared handed out. */
void scratch_end(Lower *x);

/* A tile of which every thread may read every lane. One of scalar, memory and frag is set. */
typedef struct {
    IrValue *scalar, *memory, *frag;
    const IrType *type; /* of an element */
    unsigned rank;
    int64_t pitch[DIST_MAX_RANK], elements; /* memory */
    int64_t first;                          /* where lane 0 is */
    bool own;                               /* the lanes that this block of the cluster holds, coordinates counted from its first */
} Exchange;
/* Puts a tile where it can be read; absent lanes and padding hold `fill`, or anything when null.
 * in_memory: in scratch on a CPU too, to be worked on. A barrier must follow. */
Exchange exchange_put(Lower *x, IrValue *tile, IrValue *fill, bool in_memory);
/* For lines along the last axis: `line` places for each, the lanes from the place `first` on. own: only this block's lanes. */
Exchange exchange_put_lines(Lower *x, IrValue *tile, IrValue *fill, int64_t line, int64_t first, bool own);
/* How the lanes of one block of the cluster lie, coordinates counted from its first. */
Dist dist_in_block(const Dist *dist);
IrValue *exchange_get(IrBuilder *b, const Exchange *e, IrValue *const *coordinates);
IrValue *exchange_offset(IrBuilder *b, const Exchange *e, IrValue *const *coordinates);
/* A reshape or transpose whose lanes only the reshape behind it has. */
bool is_passed_on(const IrOp *op);
/* The coordinate of a lane at fragment indices. */
IrValue *coordinate(Lower *x, IrBuilder *b, const Dist *dist, unsigned axis, IrValue *const *index);

/* A map that makes the lanes of `result` from their coordinates. */
typedef struct {
    Dist dist;
    IrOp *map;
    IrBuilder inner;
    IrValue *at[DIST_MAX_RANK];
} ResultMap;
void result_map_open(Lower *x, IrValue *result, ResultMap *r);
void result_map_open_in_block(Lower *x, IrValue *result, ResultMap *r); /* coordinates count from the block's first lane */
void result_map_close(Lower *x, IrValue *result, ResultMap *r, IrValue *element);
void lower_insert(Lower *x, IrOp *op);

/* The number of this thread in its block; null on a CPU. */
IrValue *lower_thread(Lower *x);
/* And in its warp. */
IrValue *lower_lane(Lower *x);
/* The lane `lane ^ mask`'s value; of any type. */
IrValue *lower_shuffle(Lower *x, IrBuilder *b, IrValue *v, int64_t mask);
/* The neutral element of a reduction or scan kind, and what it combines by; null: no such kind. */
IrValue *lower_identity(Lower *x, IrBuilder *b, IrKind kind, Dtype dtype, IrOpcode *combine);
/* Shared memory of the kernel's own, aligned to SHARED_ALIGN bytes or to a larger power of two. */
enum { SHARED_ALIGN = 128 };
IrValue *lower_shared(Lower *x, Dtype dtype, int64_t elements, const char *name);
IrValue *lower_shared_aligned(Lower *x, Dtype dtype, int64_t elements, int64_t align, const char *name);

/* The lanes along the axis between the two, of those at `index`; null: all of them. */
IrValue *lower_bound_mask(Lower *x, IrBuilder *b, const Dist *dist, unsigned axis, const Aff *lo, const Aff *hi, IrValue *const *index);

/* ---- Shared by lower_memory.c and lower_store.c ---- */

/* The number of lanes of axis i before the slice or the tensor ends. */
const Aff *lower_slice_limit(Lower *x, const AccessPlan *s, unsigned i);
/* What every load and store of a kernel says of its access. */
void lower_set_access_attrs(IrOp *access, const IrOp *from, int64_t width, Dtype dtype);
/* The element offset of the lane along the last axis, the others being dropped; *mask: and these are inside. */
IrValue *lower_lane_offset(Lower *x, IrBuilder *inner, const AccessPlan *s, const Dist *dist, IrValue *lane, IrValue **mask);

#endif
