/* Index notation (graph.generic) written again with other indices. */
#ifndef GRAPH_NOTATION_H
#define GRAPH_NOTATION_H

#include "ir.h"

/* Indices of a notation: those of an output of rank 16 and as many that are summed. */
enum { NOTATION_ARGS = 32 };

/* What the indices of the old notation mean, over those of the new one; whoever fills it refuses notation with more than NOTATION_ARGS indices. */
typedef struct {
    IrModule *m;
    const IrBlock *from;
    const Aff *meaning[NOTATION_ARGS];
    IrValueMap *map; /* of all other values */
    struct {
        const Aff *from, *to; /* first, one for the other, in what is made of the old indices */
    } parts[2];
    unsigned part_count;
} Notation;

/* An empty notation over these extents, the first `outer` of them its result's; the caller sets what it folds, adds its indices and fills it. */
IrOp *notation_create(IrBuilder *b, Dtype dtype, unsigned count, IrValue *const *extents, unsigned outer);
/* One more index of it, with this name (NULL: none), as an expression. */
const Aff *notation_arg(IrOp *to, const char *name);
/* Emits what the indices mean, for operations that take them as values. */
void notation_begin(IrBuilder *b, Notation *n);
/* An index of the old notation in the new one. */
IrValue *notation_index(IrBuilder *b, Notation *n, IrValue *index);
/* Copies an operation; what it computes of indices is simplified. */
void notation_copy_op(IrBuilder *b, Notation *n, const IrOp *op);
/* Fills the new notation with all operations of the old one. */
void notation_copy(IrOp *to, Notation *n, Span span);

/* The expression with another one in place of each `from` that stands in it. */
const Aff *notation_replace(AffCtx *c, const Aff *e, const Aff *from, const Aff *to);
/* The expression with another one in place of an index. */
const Aff *notation_with(IrModule *m, const Aff *e, const IrValue *arg, const Aff *value);
/* By how much the expression grows with the index, where that is a constant and the index stands nowhere else. */
bool notation_slope(IrModule *m, const Aff *e, const IrValue *arg, int64_t *by);

#endif
