/* Shared by the files split_*.c and row_plan.c: chunks of values along one axis. */
#ifndef PASSES_TILE_SPLIT_H
#define PASSES_TILE_SPLIT_H

#include "analysis/analysis.h"

enum {
    SPLIT_SCANS = 16 /* that a loop carries */,
    SPLIT_TOGETHER = 3 /* reductions of one pass */,
    SPLIT_ANEW = 64 /* loops of a kernel for those that it does not */
};

/* A loop or branch that is being repeated for a chunk, and those around it that are. */
typedef struct Repeated {
    const IrOp *op;
    const struct Repeated *outer;
} Repeated;

typedef struct {
    PassContext *ctx;
    const Axes *axes;
    size_t index; /* the axis class */
    int64_t chunk;
    IrBuilder *b;    /* inside the loop over chunks */
    IrValue *begin;  /* first lane of the chunk */
    IrValueMap *map; /* original -> its chunk */
    /* Scans that feed the loop: what they carry from chunk to chunk. */
    unsigned scan_count;
    IrOp *scans[SPLIT_SCANS];
    IrValue *totals[SPLIT_SCANS], *next[SPLIT_SCANS];
    bool reverse;  /* chunks from the last to the first */
    unsigned anew; /* loops for scans that are not carried, so far */
    const Repeated *repeated;
    bool ok;
} Slice;

/* The lanes of a tile beside one along the class: other axes that are still to be cut into chunks count as the least of these. */
int64_t split_lanes_beside(const Axes *axes, size_t index);
/* The most lanes that the class can have in `f`, by what its sizes must be; INT64_MAX: nothing bounds it. */
int64_t split_most_lanes(PassContext *ctx, IrFunc *f, const AxisClass *c);

/* ---- Versions by the length of a row (row_plan.c) ---- */

enum {
    ROW_VERSIONS = 4 /* of a step */,
    ROW_LEAST_CAP = 64 /* lanes: two a thread of a warp */,
    ROW_SHORT = 1024 /* lanes that a warp keeps */
};

/* A version that keeps rows of up to `cap` lanes, over `cluster` blocks of `warps` warps; aligned: it asks for
 * rows and addresses of whole 16-byte pieces. cap INT64_MAX: several passes, aligned. */
typedef struct {
    int64_t cap, warps, cluster;
    int64_t held; /* lanes of one tile in a thread */
    bool aligned;
    bool last; /* no row is longer, and it asks for no alignment */
} RowClass;

/* Fills `taken` (at most ROW_VERSIONS - 1, or ROW_VERSIONS of which the last serves all that the others do not), shortest
 * rows first, for the axis of symbolic extent; 0: only several passes can serve it. */
size_t row_plan(PassContext *ctx, IrFunc *f, const Axes *axes, size_t index, RowClass *taken);
/* Is the kernel one that a sketch chooses by sizes, but not for the heaviest of the cases? */
bool row_of_small_sizes(const PassContext *ctx, IrFunc *f);
/* The length of a row in the heaviest of the cases; 0: no case tells it. */
int64_t row_usual(const PassContext *ctx, const IrFunc *f, const Aff *extent);
/* The length of a row in the heaviest of the cases where it is at most `most`, else 0: the lanes of a tile for it, and whether it
 * is of whole 16-byte pieces. */
int64_t row_short(const PassContext *ctx, const IrFunc *f, const Aff *extent, int64_t most, int64_t *lanes, bool *aligned);
/* The extent of a tile for rows of that length, in pieces of so many elements: a little longer. */
int64_t row_lanes_for(int64_t row, int64_t piece);
/* Moves loads that wait for a reduction behind it. True: something moved, and as classes are numbered in the
 * order of values, `axes` and `index` no longer name what an analysis of `f` or of its copies finds. */
bool row_sink_loads(PassContext *ctx, IrFunc *f, const Axes *axes, size_t index);
/* May a version hold rows of any alignment rotated (docs/ir.md, `rotated`)? */
bool row_may_rotate(PassContext *ctx, IrFunc *f, const Axes *axes, size_t index);

/* ---- What becomes a loop over chunks (split_sinks.c) ---- */

/* What a thread needs beside its lanes of a row: where a block is alone with 64 of them, the other half of what two blocks leave. */
enum { SPLIT_REGISTERS_BESIDE = 20, SPLIT_REGISTERS_ALONE = 56 };

/* Lanes of a tile in a thread. */
enum { SPLIT_STEP_LANES = 16 };

/* Must the lanes along the axis all be there at once: for a sort, a slice, or for what cannot be made a chunk
 * at a time? */
bool split_needs_all(PassContext *ctx, IrFunc *f, const Axes *axes, size_t index);
/* Loads are repeated at other times: what they read must not be written by this kernel, except in
 * place, by the last pass, where each chunk is read before it is written. */
bool split_loads_repeatable(PassContext *ctx, const OpList *ops, const Axes *axes, size_t index);
/* The next op from number `*at` on that a pass is for, and those of its pass; 0: there is none. What an earlier pass served is in `served`. */
size_t split_next_pass(PassContext *ctx, const OpList *ops, const Axes *axes, size_t index, size_t *at, OpList *served, IrOp **group);
/* In how many passes would several passes read the rows? */
int split_passes_along(PassContext *ctx, IrFunc *f, const Axes *axes, size_t index);
/* Does the kernel read one tensor once, for one arg-reduction? */
bool split_is_one_arg(const PassContext *ctx, const IrFunc *f, const OpList *ops, const Axes *axes, size_t index);
/* A thread of such a loop needs registers for its lanes of a chunk, of the best and of the best's chunk; what hides the latency is
 * the number of threads. */
void split_keep_blocks(PassContext *ctx, IrFunc *f, int64_t lanes);
/* Is one block all that there is, and folds a row? Nobody else asks memory for anything then. */
bool split_is_alone(const PassContext *ctx, const IrFunc *f, const OpList *ops, const Axes *axes, size_t index);
/* Tiles that a single pass loads and adds up along the axis; 0: it is not one, or does something else; FUNCTIONS: it calls some. Beside other blocks, one tile is loaded alone: two
 * are loads enough under way, and took longer with more registers (matvec by CUDA C 1.01 to 1.14 of its floor). */
unsigned split_tiles_of_pass(PassContext *ctx, IrFunc *f, const OpList *ops, const Axes *axes, size_t index, bool alone);
/* The registers that a loop over chunks needs to have all loads of a chunk under way at once, beside what it adds up, as long as KEEP_THREADS stand on a
 * multiprocessor. Where nothing is said of blocks ptxas takes fewer, for the sake of blocks that may not be there, and has one or two loads under way.
 * load_blocks: for versions that load 16 bytes at once (align_versions); one by one, the loads need more registers than that. */
void split_keep_loads(PassContext *ctx, IrFunc *f, unsigned tiles, int64_t lanes, bool alone);
/* A kernel for small sizes has few blocks: a row that is held whole has all of its loads under way at once, too: each has an address beside it. */
void split_keep_row_loads(PassContext *ctx, IrFunc *f, const Axes *axes, size_t index, int64_t lanes);

/* ---- Ends (split_ends.c), loops and branches (split_loops.c), chunks (split_slices.c) ---- */

/* Whatever folds along an axis whose extent will be replaced sees its lanes end there. */
void end_folds(PassContext *ctx, IrFunc *f);

bool is_control(const IrOp *op);
bool is_repeated_inside(const Slice *s, const IrValue *v);
/* Can what the op takes be made a chunk at a time, each chunk from the start? */
bool chunks_repeat(PassContext *ctx, const Axes *axes, size_t index, const IrOp *sink);
void repeat_control(Slice *s, IrOp *op);
/* Removes what nobody needs, also from what loops carry and branches give (split_dead.c). */
void remove_dead(PassContext *ctx, IrFunc *f);

/* The chunk of a value of the class: its defining ops again, a chunk at a time. */
IrValue *slice_value(Slice *s, IrValue *v);
const IrType *chunk_type(const Slice *s, const IrValue *v);

bool scans_along(const Slice *s, const IrOp *op);
/* Starts a loop before `op` over the lanes from one to another, for a chunk of `fed` values; the slice's builder stands in
 * its body. Carried are `inits`, then the totals of scans. */
IrOp *chunks_open(Slice *s, IrOp *op, IrValue *from, IrValue *to, unsigned chunks, unsigned fed, unsigned carried, IrValue *const *inits,
                  IrBuilder *inner);
void chunks_close(Slice *s, unsigned count, IrValue *const *values);

/* ---- Scans of chunks (split_scans.c) ---- */

/* Says that `op` (null: nothing of the source) is unsupported, once. */
void slice_refuse(Slice *s, const IrOp *op, const char *what);
/* Adds to the slice the scans that feed the value, up to SPLIT_SCANS of one direction: the loop over chunks carries them. */
void slice_collect_scans(Slice *s, PointerTable *seen, IrValue *v);
/* A tile of the identity of a reduction. */
IrValue *slice_splat(IrBuilder *b, IrKind kind, const IrType *type);
/* What the scan has before its first lane. */
IrValue *slice_scan_begin(IrBuilder *b, const Slice *s, const IrOp *scan);
/* The chunk's own scan after the total of the chunks before; the total goes on. */
IrValue *slice_scan(Slice *s, IrOp *scan, IrOp *copy);
/* From the end: the first lane of the last chunk, less what has been passed. */
IrValue *slice_backward(Slice *s, const Aff *extent, IrValue *i);

/* One op becomes a loop over chunks that repeats what feeds it. */
void pass_for_store(Slice *s, IrOp *store);
void pass_for_reduces(Slice *s, IrOp *const *ops, size_t count); /* none needs another's result; of several, none a scan's */
void pass_for_arg(Slice *s, IrOp *op);
void pass_for_gemm(Slice *s, IrOp *op); /* (split_gemms.c) */

/* The innermost of the parallel loops around a kernel that only reduces rows of a tensor with one that all of them read; null: it is another. */
const IrOp *rows_that_share(PassContext *ctx, const OpList *ops, const Axes *axes, size_t index);

#endif
