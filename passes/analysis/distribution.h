/* How the elements of a tile are spread over a thread's fragment, lanes and warps: what the
 * expansion to kernel level needs of a layout. A tile without a layout (CPU) lies wholly in one
 * thread's fragment, in row-major order. */
#ifndef PASSES_ANALYSIS_DISTRIBUTION_H
#define PASSES_ANALYSIS_DISTRIBUTION_H

#include "ir.h"

enum {
    DIST_MAX_RANK = 8,  /* axes: room */
    DIST_MAX_DIMS = 20, /* loops of a thread over its registers: room */
    DIST_MAX_SUBS = 8,  /* parts of an axis: room */
    DIST_MAX_TERMS = 24 /* bits of a thread's number and of registers: room */
};

/* A run of fragment index values that steps along one tile axis. */
typedef struct {
    int64_t extent;
    unsigned axis;
    int64_t stride; /* tile elements along axis a step */
} DistSub;

/* One dimension of the fragment; its index is mixed-radix over `subs`, the last one fastest. */
typedef struct {
    int64_t extent;
    unsigned sub_count;
    DistSub subs[DIST_MAX_SUBS];
} DistDim;

typedef enum { DIST_LANE, DIST_WARP, DIST_BLOCK } DistSource;

/* coordinate[axis] += ((source >> shift) & mask) * stride */
typedef struct {
    DistSource source;
    unsigned shift;
    int64_t mask;
    unsigned axis;
    int64_t stride;
} DistTerm;

typedef struct {
    unsigned rank;                  /* of the tile */
    int64_t extents[DIST_MAX_RANK]; /* of the tile, before padding */
    int64_t padded[DIST_MAX_RANK];  /* what the distribution covers */
    unsigned dim_count;             /* of the fragment, at least 1 */
    DistDim dims[DIST_MAX_DIMS];
    unsigned term_count;
    DistTerm terms[DIST_MAX_TERMS];
    int64_t free_lanes, free_warps; /* bits of lane and warp that hold copies */
    int64_t used_blocks;            /* bits of the rank in the cluster that do not */
} Dist;

/* Can a layout be read as a distribution? Each of its bits must move along one axis, over elements that no
 * other bit reaches. */
bool dist_can_read(const struct Layout *l);
/* The distribution of a static tile type. */
Dist dist_of(const IrType *type);
/* The fragment type that holds a tile distributed as `dist`. */
const IrType *dist_frag_type(IrModule *m, const Dist *dist, Dtype dtype);
bool dist_equal(const Dist *a, const Dist *b);
/* The widest power-of-two run of consecutive fragment elements that are consecutive along `axis`,
 * at most `limit`. */
int64_t dist_vector(const Dist *dist, unsigned axis, int64_t limit);
/* What remains of `dist` once `axes` (a bit mask) are reduced away: as the slice of its layout. With
 * keepdim the axes stay with extent 1. */
Dist dist_reduce(const Dist *dist, uint32_t axes, bool keepdim);

#endif
