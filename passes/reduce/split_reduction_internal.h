/* Shared by split_reduction.c and split_reduction_steps.c. */
#ifndef PASSES_REDUCE_SPLIT_REDUCTION_INTERNAL_H
#define PASSES_REDUCE_SPLIT_REDUCTION_INTERNAL_H

#include "analysis/analysis.h"

/* BLOCKS a multiprocessor are aimed at, which fills it once. Where that many are there already but few times over, the last to begin
 * run alone: up to EVEN_PARTS parts then, and EVEN_BLOCKS a multiprocessor (EVEN_PARTS = 1: none), which leaves kernels alone that
 * have a third of these, since parts cost a little themselves, and those that fill it once or nearly, with RESIDENT blocks a multiprocessor.
 * Of arg-reductions ARG_BLOCKS and ARG_PARTS: the finish reads elements again, one by one, and holds all parts.
 * A part reads PART_BYTES, a transcendental function counting as so many. */
enum {
    MOST_FOLDS = 3,
    BLOCKS = 8,
    EVEN_BLOCKS = 48,
    EVEN_PARTS = 4,
    RESIDENT = 4,
    LEAST_PARTS = 3,
    PART_BYTES = 1 << 14,
    FUNCTION_BYTES = 16,
    LEAST_UNIT = 32,
    ARG_BLOCKS = 2,
    ARG_PARTS = 32 /* 0: no arg-reductions */
};

typedef struct {
    PassContext *ctx;
    IrFunc *func;
    const Axes *axes;
    size_t index; /* the axis class */
    OpList ops;
    size_t folds[MOST_FOLDS]; /* their numbers in program order */
    unsigned fold_count;
    const Aff *iterations; /* of the kernel, all loops together */
    int64_t unit;          /* parts are multiples of so many lanes */
    int64_t together;      /* iterations that will be one (group_rows) */
    const Aff *used_here;  /* over the sizes of a case: 1 or 0 */
    DerivedSymbol most, used, pieces, parts;
    const char *workspaces[MOST_FOLDS];
    unsigned axis[MOST_FOLDS]; /* in place: which axis of the workspace holds the parts */
} SplitReduction;

/* The axis that it reduces. */
unsigned split_reduction_fold_axis(const IrOp *fold);
/* Its other extents, or -1 where one is not constant. */
int64_t split_reduction_others_of(const SplitReduction *s, const IrValue *v);
/* Is one of the reductions an arg-reduction? */
bool split_reduction_has_arg(const SplitReduction *s);
/* No fewer than there are parts, in few words: of workspaces. */
const Aff *split_reduction_room_in_memory(const SplitReduction *s);
/* The type with another extent along the axis. */
const IrType *split_reduction_tile_with_extent(IrModule *m, const IrType *t, unsigned axis, const Aff *extent);
/* `parts` numbers in place of each along the axis. */
void split_reduction_widen(const SplitReduction *s, IrFunc *func, const char *workspace, unsigned axis);
/* Adds the derived symbols to a step. */
void split_reduction_add_symbols(const SplitReduction *s, IrFunc *func);
/* Workspaces for the parts, in the two functions that use them. */
void split_reduction_add_workspaces(SplitReduction *s, IrFunc *part, IrFunc *finish);
/* The step whose iterations reduce a part each; in_place: into the workspace that held the results. */
void split_reduction_make_part(const SplitReduction *s, IrFunc *func, bool in_place);
/* The step that reduces the parts. */
void split_reduction_make_finish(const SplitReduction *s, IrFunc *func);
/* Who reads the workspaces, and how large they are. */
void split_reduction_widen_readers(const SplitReduction *s);

#endif
