/* Folds of the designer: shared by design_fold.c, design_contract.c and design_along.c. */
#ifndef GRAPH_DESIGN_FOLD_INTERNAL_H
#define GRAPH_DESIGN_FOLD_INTERNAL_H

#include "design_internal.h"

/* A fold along axes of the nest. */
/* Of an axis that a convolution is summed along: one of its window, or one that both factors have of their own. */
typedef enum { FOLD_ANY, FOLD_TAP, FOLD_CHANNEL } FoldRole;

typedef struct {
    IrKind kind;
    Dtype dtype;
    FoldRole role;   /* of the axis that is added next */
    int64_t longest; /* of a product: the largest extent; 0: no product */
    bool product;    /* a contraction's: what uses its result uses no tile of its factors, so no axis of the output serves both */
    unsigned count;
    DesignAxis *axes[2 * DESIGN_RANK];
} DesignFold;

/* What is folded, read at an index. */
typedef struct {
    IrValue *value;
    const Aff *index[DESIGN_RANK];
} DesignOperand;

/* The axis to fold over: one of the nest's that is whole, of this extent, free in `index` and not
 * folded over by `f` already, so that one tile serves the fold and what uses its result, else a new
 * one. */
DesignAxis *design_fold_axis(Design *d, const Aff *extent, const Aff *const *index, unsigned count, const DesignFold *f, bool rigid);
/* Where the tile has the axis; -1: nowhere. */
int design_axis_position(const DesignTile *t, const DesignAxis *axis);
/* The tile repeated along an axis that it does not vary along. */
DesignTile design_spread(Design *d, const DesignTile *t, DesignAxis *axis);
/* A DesignBody: the value of the DesignOperand at its index. */
DesignTile design_operand_body(Design *d, void *context);
/* Fills the operand's index: its folded axes, a bit each in `folded`, get axes of the nest. */
bool design_operand_index(Design *d, const IrType *from, uint32_t folded, bool keepdim, const Aff *const *index, unsigned count, bool rigid,
                          const Aff **inner, DesignFold *f);

/* Prints what a loop folds, and gives its tile. */
typedef DesignTile (*DesignBody)(Design *d, void *context);

/* Loops that add into `acc`. Of more turns than f32 adds in order those of the innermost loop are summed in parts of so many: `inner` is what the body
 * adds to, which design_close_loops adds to `acc`. */
typedef struct {
    unsigned opened, in_part;
    DesignTile acc, inner;
} DesignLoops;

/* Does the fold walk one of its axes in a loop? */
bool design_has_loops(const DesignFold *f);
/* What sums of values of this type are kept in. */
Dtype design_accumulator(Dtype dtype);
/* Of products of these: narrow integers are added in 32 bits, as tensor cores do. */
Dtype design_product_accumulator(Dtype dtype);
/* Prints the accumulator of a fold: a tile over these axes that holds `init`. */
DesignTile design_new_accumulator(Design *d, unsigned rank, DesignAxis *const *axes, Dtype dtype, const char *init);
/* The most terms of a fold in a case, on a processor; of loops their turns. A GPU's passes divide long sums. */
double design_most_turns(const Design *d, const DesignFold *f, bool turns);
/* So many turns' terms are summed apart; null: there are not too many to be added in order. */
const char *design_parts_of(Design *d, const DesignFold *f, Dtype dtype);
/* Which terms of a sum of products are 0, as the operation says. */
void design_set_range(const Design *d, const IrOp *op, const Aff *const *index, DesignAxis *axis);
/* `stages`: the innermost loop brings so many of its turns' loads ahead; 0: none. */
DesignLoops design_open_loops(Design *d, const DesignFold *f, int64_t stages, DesignTile acc, const char *parts);
/* Ends them, and adds the last part. */
void design_close_loops(Design *d, const DesignLoops *l);
/* Runs the body for its axes only: nothing that it writes stays. */
DesignTile design_probe(Design *d, DesignBody body, void *context);
/* The body's tile, folded along the axes of `f`, in loops along those that are not whole. */
DesignTile design_folded(Design *d, const DesignFold *f, DesignBody body, void *context);

#endif
