/* Shared by lower_scan.c, lower_recurrence.c and lower_arg.c: the lines of a tile along an axis, and a thread's segments of them. */
#ifndef PASSES_LOWER_LOWER_SCAN_INTERNAL_H
#define PASSES_LOWER_LOWER_SCAN_INTERNAL_H

#include "lower_internal.h"

typedef struct {
    Lower *x;
    IrOp *op;
    unsigned axis, rank;
    int64_t extents[DIST_MAX_RANK];
    int64_t rows, n;          /* lines, and lanes of one */
    int64_t segments, length; /* of a line */
    int64_t threads, rounds;
    int64_t blocks; /* of the cluster, that hold the line's parts one behind the other; lanes above are a block's */
    int64_t line, begin,
        end; /* places of a line in memory, those from `begin` to `end` without a lane; line 0: segments end with the lanes */
    Exchange lanes;
} Lines;

/* What one thread works on in one round. */
typedef struct {
    IrBuilder b;
    IrOp *loop;               /* null: there is one round */
    IrValue *row, *live;      /* live null: always */
    IrValue *segment, *first; /* its number in the line, its first lane */
    IrValue *at[DIST_MAX_RANK];
} Unit;

/* The lines of what the op scans, over so many blocks. */
Lines lower_lines_of(Lower *x, IrOp *op, int64_t blocks);
/* The thread's number among those that differ in these bits of lane and warp. */
IrValue *lower_thread_bits(Lower *x, int64_t lanes, int64_t warps);
/* Opens the loop over rounds, if there are several; the caller fills u->b and closes it with lower_close_rounds. */
Unit lower_open_rounds(const Lines *l);
/* Ends it. */
void lower_close_rounds(Unit *u);
/* Lane `j` of the unit's segment; *mask is null where it always exists. */
IrValue *lower_unit_lane(const Lines *l, IrBuilder *b, const Unit *u, IrValue *j, IrValue **mask);
/* Where the lane stands in memory. */
IrValue *lower_unit_offset(const Lines *l, IrBuilder *b, const Unit *u, IrValue *lane, bool reverse);
/* One element; `other` where the mask is false. mask null: always. */
IrValue *lower_masked_load(IrBuilder *b, IrValue *memory, IrValue *offset, IrValue *mask, IrValue *other, const IrType *type);
/* The same, to memory. */
void lower_masked_store(IrBuilder *b, IrValue *value, IrValue *memory, IrValue *offset, IrValue *mask);
/* A builder at the end of the loop's body. */
IrBuilder lower_body_of(const IrOp *loop, Span span);

/* The blocks over which the lines are spread; -1: not so that each holds a part of one that is whole. */
int64_t lower_blocks_of(const Lower *x, const IrOp *op);
/* Is a bit of the thread's number set? */
IrValue *lower_has_bit(Lower *x, IrBuilder *b, int64_t bit);
/* A linear scan. */
void lower_recurrence(Lower *x, IrOp *op);

#endif
