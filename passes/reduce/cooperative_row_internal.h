/* Shared by cooperative_row_reduction.c and cooperative_row_steps.c: rows that several steps read and reduce. */
#ifndef PASSES_REDUCE_COOPERATIVE_ROW_INTERNAL_H
#define PASSES_REDUCE_COOPERATIVE_ROW_INTERNAL_H

#include "analysis/analysis.h"

enum {
    MOST_FOLDS = 3,    /* reductions of a row that one pass makes */
    ELEMENT_BYTES = 4, /* of the tensor, at most: pieces of 16 bytes have four or more */
    LITTLE = 4,        /* a chunk's partial results may be one in so many of its bytes (note 26) */
    LOOPS = 3          /* around a nest */
};

/* How rows are cut into chunks, and what holds these: `threads` of `lanes` each, `blocks` a multiprocessor; the blocks of `teams` rows are resident. */
typedef struct {
    int64_t threads, lanes, blocks, teams;
    bool pipelined; /* a chunk is mapped behind the sums of the next one */
} Shape;

typedef struct {
    IrFunc *func;
    OpList ops;
    IrOp *loops[LOOPS];
    unsigned depth;
    IrBlock *inner;
} Step;

typedef struct {
    PassContext *ctx;
    Step part, finish, map;
    IrOp *load, *again; /* of X: in A, in B */
    unsigned fold_count;
    IrOp *folds[MOST_FOLDS], *stores[MOST_FOLDS];
    const char *partials[MOST_FOLDS], *sums[MOST_FOLDS]; /* the workspace W; the one of all chunks */
    unsigned row_axis;                                   /* of W */
    IrValue *part_row, *part_inner;                      /* A's loop variables */
    IrValue *map_row, *map_inner, *map_chunk;
    const Axes *part_axes, *finish_axes, *map_axes;
    size_t part_class, map_class;
    const Aff *rows, *inner, *extent, *chunks; /* chunks: of a row */
    DerivedSymbol used;
    const char *counters;
    const Shape *shape;
} Rows;

/* Lanes of a chunk. */
int64_t cooperative_chunk_of(const Rows *r);
/* The name of the workspace; null: it is none. */
const char *cooperative_workspace_of(const IrFunc *f, const IrValue *memory);
/* The op of the second step that stores to the workspace of that name. */
IrOp *cooperative_store_named(const Rows *r, const char *name);
/* Chunks of a row. */
const Aff *cooperative_chunks_of_part(const Rows *r);
/* So many lanes hold the partial results of a row. */
int64_t cooperative_most_chunks(const Rows *r);
/* 1 or 0; sms: how many multiprocessors there are. */
const Aff *cooperative_used_with(const Rows *r, const Aff *sms);
/* Puts the one step in the place of the three. */
void cooperative_keep(Rows *r);

#endif
