/* Shared by prefetch_rows.c and prefetch_consumer.c: rows that a loop copies ahead. */
#ifndef PASSES_KERNEL_PREFETCH_INTERNAL_H
#define PASSES_KERNEL_PREFETCH_INTERNAL_H

#include "analysis/analysis.h"

/* A carried fragment, or one that an iteration loads. */
typedef struct {
    unsigned index;              /* among what the loop carries */
    IrOp *first, *next;          /* the maps that load it; one map where the iteration loads it itself */
    int64_t pieces, width, size; /* of a thread; elements of one access; bytes of an element */
    bool alike;                  /* the same lanes are absent at every iteration */
    IrOp *mapped; /* of items that are mapped an iteration behind their sums: what loads it for the map; null: the sums alone need it */
    IrValue *shared;
} Row;

typedef struct {
    PassContext *ctx;
    IrFunc *func;
    IrOp *loop;
    Row *rows;
    unsigned count;
    int64_t threads;
    IrOp *meets;         /* where the block has told the others that it arrived; null: it tells nobody */
    IrValue *number;     /* that of the iteration, which the loads depend on */
    const IrBlock *part; /* of the loop's body, where the loads stand; null: they stand in the body itself */
} Prefetch;

/* The load of a map that does nothing else; null: there is more. */
IrOp *prefetch_load_of(const IrOp *map);
/* May the map's load stand an iteration earlier? */
bool prefetch_map_is_movable(const Prefetch *a, const IrOp *map);
/* What an iteration loads by its number alone. */
bool prefetch_read_own(const Prefetch *a, IrOp *map, Row *row);
/* A place for the row, if the block's part of the shared memory has room. */
void prefetch_keep_row(Prefetch *a, Row row, int64_t *used);
/* A map over the extents of the one that loads the row; result: with a fragment of its type. */
IrOp *prefetch_like(const Row *row, IrBuilder *b, bool result);
/* The value made again at `b`. */
void prefetch_make_again(const Prefetch *a, IrBuilder *b, IrValueMap *values, IrValue *v);
/* What `map` loads, copied at `b`, in the iteration of that number. */
void prefetch_copy_row(const Prefetch *a, const Row *row, IrBuilder *b, const IrOp *map, IrValue *number, bool others);
/* The row from its place, as a fragment. */
IrValue *prefetch_read_back(const Prefetch *a, const Row *row, IrBuilder *b);
/* Waits for the thread's copies. */
void prefetch_wait_for_all(IrBuilder *b);

#endif
