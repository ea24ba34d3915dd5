/* design: a graph function (an operator) to a sketch that implements it, as text.
 *
 * The graph is read from its outputs backwards: each value is asked for at index expressions over the
 * axes of a loop nest, so maps, broadcasts, transpositions and index notation become slices and views,
 * and everything between two products is fused. How axes are walked is the style's: a row of
 * design_styles.def. Every decision is a function of graph and style, so the text is too.
 *
 * The text is only a proposal. It passes through the front end like any other sketch, and some
 * styles do not fit some operators: whoever asks compiles it and takes another where that fails.
 * docs/decisions/sketch-design.md says how the parts fit. */
#ifndef GRAPH_DESIGN_H
#define GRAPH_DESIGN_H

#include "ir.h"
#include "library.h"

/* How an axis of the output that nothing folds over is walked. */
typedef enum { WALK_WHOLE, WALK_TILE, WALK_POINT } DesignWalk;

/* What goes through a workspace, in a nest of its own. */
typedef enum {
    STAGE_NOTHING,
    STAGE_PRODUCTS, /* products that are used again */
    STAGE_FOLDED,   /* what is folded again, where it lacks an axis that was folded before */
    STAGE_FOLDS,    /* every fold that something is made of */
    STAGE_LIBRARY,  /* what is made of products that a sketch of the library makes, behind maps */
    STAGE_OWN,      /* the same, by sketches of the user's own library where they fit */
    STAGE_LIMITED,  /* the same, by sketches of the library for sizes within limits where they fit */
    STAGE_PACKED,   /* factors that are read through windows, in the order of the product (rewrite_packs.c) */
} DesignStaging;

typedef struct {
    const char *name;     /* the sketch is called OPERATOR_name */
    bool naive;           /* one output tile, no hints: the baseline */
    DesignWalk rest;      /* axes before those that `tiles` counts */
    int tiles;            /* so many innermost axes are cut; 0: none */
    int64_t inner, outer; /* extents of their tiles, innermost and those before it; 1: no tile, one index at a time */
    int64_t fold;         /* chunk of a folded axis; 0: whole, 1: one index at a time */
    int64_t stages;       /* of the hint "pipeline" on loops over products' factors; 0: none */
    DesignStaging staging;
    const char *summary;
} DesignStyle;

/* Is each nest of its sketches walked by its form? Then what is folded goes through workspaces. */
bool design_by_form(const DesignStyle *style);
/* Are products made by sketches of the library? */
bool design_of_library(const DesignStyle *style);
size_t design_style_count(void);
const DesignStyle *design_style(size_t index);

/* A product, also one in index notation, that is summed along common axes of its factors, which vary
 * along different axes of the output: of matrices, a convolution. */
bool design_is_contraction(const IrOp *op);
/* The same, but for products with a vector: of one row or column. */
bool design_is_matrix_product(const IrOp *op);

/* Is a factor of a product made of another product? */
bool design_has_inner_products(Arena *arena, const IrFunc *f);
/* Is something made of a fold along other axes than what is made of it, because a reshape merges or cuts them? Then a nest for both would fold anew for
 * each element. */
bool design_regroups_folds(IrModule *module, IrFunc *f);

/* Appends `sketch OPERATOR_STYLE implements OPERATOR { ... }`. False, with *error and nothing appended, when the style does not fit the graph. `f` is a graph function;
 * its module's expressions grow. */

/* `use NAME(BM=64)`: a sketch of the library, or the style that is printed. */
typedef struct {
    const char *name;
    int64_t value;
} DesignParam;
typedef struct {
    const char *name;
    size_t count;
    const DesignParam *params;
} DesignUse;

/* Nests that make values that are stored together. */
typedef struct {
    const char *values, *reads; /* names, with commas between */
    const char *sketch;         /* of the library; null: it is walked */
    const char *how;            /* its tiles, or how the axes are walked */
    const char *why;            /* it stands apart: a sentence without its beginning */
    unsigned nests;             /* loops at the top of the sketch, one behind the other */
} DesignRegion;
typedef struct {
    DesignRegion *data;
    size_t len, cap;
} DesignRegions;

typedef struct {
    const char *op_name;   /* in the file, where it may be longer than the name of the function */
    bool vectors;          /* the hint "vectorize" means something to the target; naive styles go without */
    bool copies;           /* what tensors hold that are updated in place is copied to workspaces first */
    const char *name;      /* of the sketch; null: OPERATOR_STYLE */
    const DesignUse *uses; /* of the library only these are taken, each somewhere; of none: all */
    size_t use_count;
    const LibraryFile *library; /* of the user's own, before those of the program */
    size_t library_count;
    bool (*has)(const void *target, const char *feature); /* for `require`; null: none */
    const void *target;
    bool fitting;           /* a style of convolutions whose blocks are far larger than the cases' extents does not fit */
    DesignRegions *regions; /* filled, in the order of the text; null: not wanted */
} DesignOptions;
typedef struct {
    const char *what; /* static or in the arena; null: none */
    Span at;          /* the operation; SPAN_NONE: the operator as a whole */
} DesignError;
bool design_sketch(Arena *arena, IrFunc *f, const DesignStyle *style, const DesignOptions *options, Str *out, DesignError *error);

/* Is a result stored to a tensor that is read, too? */
bool design_updates(Arena *arena, const IrFunc *f);

#endif
