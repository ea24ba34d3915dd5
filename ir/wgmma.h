/* What a warpgroup's instruction multiplies: the rows of wgmma.def. */
#ifndef IR_WGMMA_H
#define IR_WGMMA_H

#include "dtype.h"

typedef struct {
    const char *name;  /* of the atom */
    const char *types; /* in PTX */
    Dtype in, acc;
    unsigned depth;   /* elements along k */
    unsigned columns; /* the least step of n */
    int sums;         /* bits of the largest term that its sums keep at least */
    bool k_major;     /* both factors must be contiguous along k */
    int bits;         /* of a factor's significand, without what is cut off; 0: all */
    bool registers;   /* a may come from registers, as layout_wgmma_a has it */
} Wgmma;
/* Null: there is none for these factors and accumulators. */
const Wgmma *wgmma_find(Dtype in, Dtype acc);

#endif
