/* Shared by split_k.c and split_k_steps.c. */
#ifndef PASSES_REDUCE_SPLIT_K_INTERNAL_H
#define PASSES_REDUCE_SPLIT_K_INTERNAL_H

#include "analysis/analysis.h"

enum {
    TAIL_WAVES = 8 /* 0: none */,
    MOST_SUMS = 3,             /* accumulators of a loop */
    LEAST_TRIPS = 4,           /* iterations of a part: a ring of stages fills once a part */
    MARGIN_PERCENT = 20,       /* of the time, that a split must save by the cost model (note 32) */
    PARTS_AT_ONCE = 16,        /* parts that one block adds in a step */
    MOST_IN_FINISH = 4,        /* parts that the last step adds itself; of more another step makes a sum */
    MOST_PICOSECONDS = 1 << 30 /* the largest time in an index expression: sums of two stay in 32 bits */
};

typedef struct {
    PassContext *ctx;
    IrFunc *func;
    OpList ops;
    size_t at; /* the loop's place among them */
    IrOp *loop;
    int64_t rows, columns;  /* of each sum */
    const Aff *all, *trips; /* iterations of the parallel loops; of the serial one */
    const Aff *waves,
        *tiles; /* of those iterations what fills the machine, as whole waves, before those that are divided; null: nothing, and all are */
    int64_t step;                                    /* of the serial loop's variable */
    DerivedSymbol most, used, span, parts;           /* parts there may be; 1 where it is split, else 0; iterations of a part; parts */
    DerivedSymbol whole;                             /* the tiles of whole waves */
    DerivedSymbol far;                               /* 1 where a step of its own sums the parts, else 0 */
    bool may_be_far;                                 /* a case has so many parts; else there is no such step, and nothing of `far` */
    const char *pieces[MOST_SUMS], *sums[MOST_SUMS]; /* workspaces */
} Split;

/* Gives a step the derived symbols, and the workspaces of parts and of sums that it uses. */
void split_k_make_step(const Split *s, IrFunc *func, bool pieces, bool sums);
/* One loop over `count` iterations of the parallel loops, from number `first` on, in their place. */
void split_k_number_through(const Split *s, IrFunc *func, const Aff *count, const Aff *first);
/* Each iteration adds up a part of the loop, into a workspace. */
void split_k_make_part(const Split *s, IrFunc *func);
/* Adds up the parts of one sum, many at once. */
void split_k_make_sum(const Split *s, IrFunc *func);
/* No block of the new steps goes on to another tile: the parts are few, and the finish has no ring. */
void split_k_drop_persistent(const Split *s, IrFunc *func);
/* Takes the sums in place of the loop; few parts it adds itself. */
void split_k_make_finish(const Split *s, IrFunc *func);

#endif
