/* Presence: which lanes of a tile hold data. Per axis one interval [lo, hi), computed from the ops
 * that define the tile (docs/language.md, "Presence"). */
#ifndef PASSES_ANALYSIS_PRESENCE_H
#define PASSES_ANALYSIS_PRESENCE_H

#include "passes.h"

enum {
    PRESENCE_MAX_RANK = 16 /* axes: room */
};

/* Lanes lo <= l < hi are present; both null: all lanes of the axis. The expressions are over
 * symbols and, as AFF_VAR, index values of the function (loop variables, loaded scalars). hi may
 * lie below lo: then nothing is present. */
typedef struct {
    const Aff *lo, *hi;
} PresenceAxis;
typedef struct {
    unsigned rank;
    PresenceAxis axes[PRESENCE_MAX_RANK];
} Presence;

/* A memory of answers; good until the function changes. */
typedef struct PresenceCache PresenceCache;
PresenceCache *presence_cache(PassContext *ctx);
Presence presence_in(PresenceCache *cache, IrValue *tile);

/* One question without a memory of its own. */
Presence presence_of(PassContext *ctx, IrValue *tile);
/* What a tile.gemm's factors leave present of its result: rows, columns, leading axes. */
Presence presence_of_product(PassContext *ctx, IrOp *gemm);
/* The lanes that a tile.store writes: present in the tile and in all index tiles. */
Presence presence_of_store(PassContext *ctx, IrOp *op);

#endif
