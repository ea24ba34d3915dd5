/* Shared by the files design*.c, which print a sketch for an operator that has none. */
#ifndef GRAPH_DESIGN_INTERNAL_H
#define GRAPH_DESIGN_INTERNAL_H

#include "design.h"
#include "library.h"

/* DESIGN_TILE_RANK: most axes of a tile in the printed text, a limit of the language. DESIGN_RANK: most axes of a tile in a dry run, which takes
 * every axis whole and so has more of them. DESIGN_AXES: of a nest. DESIGN_NESTS: of a sketch. */
enum { DESIGN_RANK = 16, DESIGN_TILE_RANK = 8, DESIGN_AXES = 32, DESIGN_NESTS = 64 };

enum { DESIGN_SMALL_FOLD = 8 }; /* the loop over a constant extent up to this one takes one index an iteration */

/* An axis of the loop nest that is being printed: an axis of the output, or one that is folded (reduced). */
typedef struct DesignAxis DesignAxis;
struct DesignAxis {
    unsigned id; /* position among the nest's axes; tiles list their axes in this order */
    const Aff *extent;
    const Aff *var;   /* the AFF_VAR that stands for the index along this axis */
    const char *name; /* the loop variable; also the index in views */
    DesignWalk walk;
    const char *tile; /* WALK_TILE: the constexpr that holds the tile's extent */
    /* WALK_TILE in a sketch from library/: the text of the slice there, and where the slice begins; else null. */
    const char *slice;
    const Aff *begin;
    bool folded;
    bool ends;   /* lanes behind the end of this axis are absent in what has been loaded */
    bool single; /* an output axis of extent 1: its index is always 0, and no tile has this axis */
    bool
        phase; /* an output axis that two axes of the nest stand for: this one is the remainder, and its loop takes one index an iteration */
    const Aff *turns; /* where the loop over this axis ends; null: at the extent */
    /* The rest is what the dry run found out. */
    /* A folded axis of which only a range counts, as in a triangular sum: terms below `low + low_offset` and above `high + high_offset` are 0;
     * null: there is no such bound. */
    const DesignAxis *low, *high;
    int64_t low_offset, high_offset;
    bool coupled;     /* a value that was reduced along this axis is used along it again (softmax): tiles hold the whole axis */
    bool contiguous;  /* it is the last axis of a tensor that is read */
    bool repeated;    /* an output axis: something that is read does not vary along it, so that its iterations read the same line again */
    unsigned product; /* which factors of a product vary along it: bit 1 the left one, bit 2 the right one */
};

/* A value that the printed text has computed: the expression that stands for it, and the axes along which it varies, in
 * the order of the tile. With rank 0 and is_tile false it is a number. */
typedef struct {
    const char *text;
    unsigned rank;
    DesignAxis *axes[DESIGN_RANK];
    bool is_tile, is_loaded;
    Dtype dtype;
} DesignTile;

typedef struct {
    IrValue *value;
    unsigned count;
    const Aff *index[2 * DESIGN_RANK];
    DesignTile tile;
    bool direct; /* its lanes outside of the tensor may hold zeros */
} DesignKnown;

/* In index notation: the index that an argument of the region stands for at present. */
typedef struct {
    IrValue *arg;
    const Aff *index;
} DesignBinding;

/* A value that was stored to a workspace. */
typedef struct {
    IrValue *value;
    const char *name;
} DesignStaged;

typedef struct {
    const char *name;
    int64_t value;
} DesignConstexpr;

/* How an axis of the results and the axes of the nest belong together where they are not one and the same. Either two axes of the nest make one axis of
 * the results: index = size * first + second, where one of the two is the phase. Or one axis of the nest stands for two axes of the results. */
typedef struct {
    const Aff *first, *second; /* the variables of the two axes of the nest */
    const Aff *rows;           /* the extent of the first */
    const Aff *size;           /* null: it is one axis of the nest */
    bool strided;              /* the second is the phase */
    bool grouped;              /* the values are reduced along the second */
    const Aff *row; /* this axis and the next are one axis of the nest, with `row` indices for each index of this one; null: they are not */
    bool follows;   /* this is the second of two such axes */
} DesignSplit;

/* Results of one shape that one nest computes. */
typedef struct {
    unsigned count;
    uint64_t bits; /* which of the operator's results: a bit for each */
    IrValue *values[DESIGN_AXES];
    const char *names[DESIGN_AXES];
    bool unique; /* several of them are parts of one tensor, and the front end cannot prove that the parts do not overlap */
} DesignResults;

/* Nests that read and write one tensor may clash (design_order.c). What is done about it, a bit for each result. */
typedef struct {
    uint64_t apart; /* the result gets a nest of its own */
    uint64_t kept;  /* the first contents of its tensor are copied to a workspace */
} DesignRemedy;

/* A tensor that the sketch declares with fewer axes than the operator does: it merges neighbouring axes into one. */
typedef struct {
    const char *tensor;
    const IrType *type;       /* as declared */
    unsigned to[DESIGN_RANK]; /* for each axis of the operator's tensor, the axis of the sketch's that it is part of */
} DesignMerge;
typedef struct {
    VEC(DesignMerge) all;
    bool grew; /* a merge came in later: the text has to be printed again */
} DesignMerges;

/* The axes of a product that one axis of a sketch from library/ stands for. */
typedef struct {
    const char *symbol; /* the name of its extent in the file */
    unsigned count;
    unsigned at[3][DESIGN_RANK]; /* their positions in the left factor, the right factor and the result */
    const Aff *extents[DESIGN_RANK];
} LibraryAxis;

typedef struct {
    const LibrarySketch *sketch;
    const IrOp *product;
    unsigned count;
    LibraryAxis axes[LIBRARY_RANK];
} LibraryMatch;

typedef struct {
    Arena *arena;
    IrModule *module;
    IrFunc *f;
    const DesignStyle *style;
    Str *views, *nests, *body; /* text: declarations of views; finished nests; the nest that is being printed */
    Str *all_views;            /* the views of the final text; a dry run lets `views` point elsewhere */
    unsigned depth;            /* levels of indentation */
    unsigned names, view_count;
    bool vectors;    /* the outermost loops get the hint "vectorize" */
    bool dry;        /* a dry run: it takes all axes whole and finds out what DesignAxis keeps */
    bool in_product; /* what is being read is a factor of a product: zeros in lanes outside of its tensor do no harm */
    bool direct;     /* what is being read is the factor itself, or makes the factor 0 where it is 0 itself */
    bool lanes;      /* products are formed lane by lane, without gemm */
    bool turns;      /* the text stands inside of a loop over a folded axis */
    bool bounded;    /* a condition says which terms of the reduction count: the others may lie outside of tensors */
    bool reused;     /* loops whose iterations read the same line again are the inner ones, so that the line stays where it was loaded */
    bool ahead;      /* a loop prefetches the factors of products */
    const char *error;
    Span at, error_at; /* the place in the source of the operation that is being printed, and of the error */
    unsigned axis_count;
    DesignAxis *axes[DESIGN_AXES];
    unsigned outer_count; /* how many of them are the output's, which come first */
    unsigned rank;        /* of the results */
    DesignSplit splits[DESIGN_RANK];
    const Aff *const *extents;     /* of the results */
    const Aff *place[DESIGN_RANK]; /* the index of the results as expressions over the nest's axes */
    AffFacts *facts;               /* what is known of phases; null: there are none */
    bool singles;                  /* axes of extent 1 are left out of tiles (DesignAxis.single) */
    VEC(DesignKnown) known;
    VEC(DesignBinding) bindings;
    VEC(DesignStaged) staged;
    VEC(DesignConstexpr) constexprs;
    DesignAxis
        *beside; /* the phase whose indices a block makes one after the other, to store them as one tile; null: a loop runs over it */
    const DesignResults *staging; /* the values whose nest is being printed; it must not read them from memory */
    /* Sets of results, a bit for each. */
    uint64_t inout;       /* those stored to tensors that are also read */
    uint64_t stored;      /* those that finished nests have stored */
    uint64_t overwritten; /* those in both sets */
    uint64_t writes;      /* those of `inout` that the present nest stores */
    uint64_t late, moved; /* clashes: a tensor is read after it was overwritten; a nest reads other elements of a tensor than it stores */
    uint64_t crowded;     /* parts of one tensor in a nest whose tiles hold whole axes: each chunk of such a tile would store both parts */
    uint64_t *made_of;    /* for each operation, by its mark: the `inout` tensors whose first values it depends on */
    uint32_t op_count;
    const bool *live; /* for each parameter: whether the results depend on it */
    const DesignOptions *options;
    const LibrarySketch **library; /* null until it is asked for */
    size_t library_count;
    uint64_t uses_taken;  /* of options->uses, a bit each */
    const char *misfit;   /* why the last sketch of the library that was looked at does not fit; null: none was */
    const IrOp *bound;    /* the product that is being printed by a sketch from library/ */
    DesignMerges *merges; /* the merges that this and earlier printings found */
    unsigned variant;     /* which of the values that a sketch from library/ lists for a constexpr is taken */
    bool varied;          /* some constexpr has a value of that number */
    bool limited;         /* one was taken that is for the sizes of the cases, not for all */
    bool owned;           /* one of the user's own library has been used */
    unsigned bound_count; /* nests printed by sketches from library/ so far, with this one */
} Design;

bool design_fail(Design *d, const char *what); /* returns false */
void design_line(Design *d, const char *format, ...) PRINTF_LIKE(2, 3);
const char *design_name(Design *d); /* the name of a new tile */
const char *design_aff_text(Design *d, const Aff *e);
const char *design_constexpr(Design *d, const char *prefix, int64_t value);
DesignAxis *design_axis_add(Design *d, const Aff *extent, bool folded);
/* The text of a tile's extent along the axis. */
const char *design_extent(Design *d, const DesignAxis *axis);

/* design_reshape.c: the row-major position of an index; and of the element at `index` of a reshaped tensor the index `inner` before the reshape. */
const Aff *design_linear(Design *d, const Aff *const *extents, const Aff *const *index, unsigned rank);
void design_reshaped(Design *d, const IrType *to, const Aff *const *index, const IrType *from, const Aff **inner);
/* The value at these indices, one for each of its axes (none for scalars of a region). Prints what has not been computed yet. Where d->error is set the
 * result means nothing. */
DesignTile design_value(Design *d, IrValue *v, const Aff *const *index);
/* The expression of the tile over exactly these axes in this order: transposed, and with axes of extent 1 where it has none. */
const char *design_align(Design *d, const DesignTile *t, unsigned rank, DesignAxis *const *axes);
/* The union of both tiles' axes, in the order of the larger tile where that can be kept. */
unsigned design_union(const DesignTile *a, const DesignTile *b, DesignAxis **axes);
/* Prints a statement that gives the expression a name. */
DesignTile design_let(Design *d, const char *expression, unsigned rank, DesignAxis *const *axes, Dtype dtype);

/* design_access.c */
DesignTile design_load(Design *d, const char *tensor, const IrType *type, const Aff *const *index, const double *pad);
DesignTile design_gather(Design *d, IrOp *element);
/* An index expression as a tile of integers. */
DesignTile design_index_tile(Design *d, const Aff *e, Dtype dtype);
const Aff *design_index(Design *d, IrValue *v); /* null: it depends on data */
const char *design_slice(Design *d, const DesignAxis *axis);
const char *design_number(Design *d, double value, Dtype dtype);

/* design_fold.c */
DesignTile design_reduce(Design *d, IrOp *op, const Aff *const *index);

/* design_contract.c */
DesignTile design_generic(Design *d, IrOp *op, const Aff *const *index);
DesignTile design_contract(Design *d, IrOp *op, const Aff *const *index);
bool design_is_product(const IrOp *op);

/* design_along.c: scans, sorts, arg-reductions, tensors that are joined. */
DesignTile design_along(Design *d, IrValue *v, const Aff *const *index);

/* design_phases.c */
/* Which axes of the value are dealt out from two each (rewrite_phases.c)? Fills d->splits; false: none is. */
bool design_splits(Design *d, const IrValue *v);
/* Does notation without a fold read the element at its own index, or deal it out? */
bool design_is_in_place(Design *d, const IrOp *notation, const IrOp *element);
/* Makes the axes of the nest, and the index of the results as expressions over them. */
bool design_outer_axes(Design *d, const IrType *type);
/* Replaces a quotient or remainder of the results' index in the expression by the axis of the nest that stands for it. */
const Aff *design_parts(Design *d, const Aff *e);
/* The text of the slice to which tiles of the results are stored: of the tensor, or of a view of it over the nest's axes. */
const char *design_target(Design *d, const char *name);
/* The value that index notation reduces. A condition such as `k < i` around it is left out where the loops over the folded axes end there anyway. `axes` are
 * those of its indices from `outer` on. */
IrValue *design_folded_value(Design *d, IrOp *op, DesignAxis *const *axes);
/* The same value without the condition in any case. */
IrValue *design_bounded_value(const IrOp *op);

/* design.c: prints a nest that stores the value to a workspace; false on an error. */
bool design_stage(Design *d, IrValue *v);
/* The same for several values of one shape, in one nest. */
bool design_stage_together(Design *d, size_t count, IrValue *const *values);
const char *design_staged_name(const Design *d, const IrValue *v);
/* A name like this one that the operator does not use. */
const char *design_free_name(const Design *d, const char *name);
/* Makes of a value what a store takes: a tile of its own over all axes of the output. */
DesignTile design_storable(Design *d, DesignTile t, const IrType *type, unsigned rank, DesignAxis *const *axes);
/* Begins the text of a nest; design_end_nest adds it to the finished nests. `around` keeps the state of the nest that was interrupted. */
void design_begin_nest(Design *d, Design *around, const DesignResults *r, Str *body);
bool design_end_nest(Design *d, const Design *around, Str *body);
bool design_is_stored(const IrValue *v); /* whether the graph says that it lies in memory */

/* design_beside.c: phases of one axis as one tile. */
/* The axis of the phases along the results' last axis, where a block makes all of them: in `share` of what its tile would hold of the axis `rows`. Null: a loop
 * runs over them, or there are none. */
DesignAxis *design_phases_beside(const Design *d, const DesignAxis *rows, int64_t *share);
/* The value with its phases as the last axis of the tile. */
DesignTile design_beside(Design *d, IrValue *v);

/* design_results.c: deals the results, and parts of results, to at most DESIGN_NESTS nests. Results whose bit is in `apart` get a nest of their own. */
size_t design_group_results(Design *d, uint64_t apart, DesignResults *nests);

/* design_products.c: gives a nest of its own to each product that another product reads, and to the factor that is computed from it. */
void design_stage_products(Design *d);
/* Whether the value depends on a contraction whose result is not in a workspace. */
bool design_has_product(const Design *d, const IrValue *v);

/* design_forms.c. The largest extent of all cases; 1: none is known. */
int64_t design_longest(const Design *d, const Aff *extent);
/* Would blocks of so many, in a nest of a convolution that is one style's among others, be empty for the most part? Says so, then. */
bool design_is_too_large(Design *d, const DesignAxis *axis, int64_t size, int64_t most);
/* How the nest is walked, once a dry run has found out about its axes. */
const DesignStyle *design_nest_style(Design *d, const DesignResults *r);

/* design_windows.c: products whose factors are stored (rewrite_packs.c). */
bool design_is_packed(const IrOp *op);
/* Has the nest that makes the value such a product? */
bool design_has_packed(const Design *d, const IrValue *v);
/* Puts into workspaces what is read of them but by maps: each product is made once, with the maps behind it. Is there any? */
bool design_stage_windows(Design *d);

/* design_steps.c: gives nests of their own to values that one reduction hands to another. */
bool design_folds(const IrOp *op); /* whether it reduces an axis, or works along one (scan, sort) */
bool design_folds_anything(const IrFunc *f);
/* Whether there are products with one row or one column. False where some value works along an axis or sorts: it needs the axis. */
bool design_has_singles(const IrFunc *f);
bool design_stage_folds(Design *d); /* was there any? */
/* Stages a reduction whose value is broadcast and whose folded axis no result has: else each element of the result would reduce anew. */
void design_stage_handed(Design *d);

/* design_library.c: products that sketches from library/ compute. */
/* Whether there is a sketch for the product. */
bool design_match(Design *d, const IrOp *product, LibraryMatch *m);
/* The product, computed by a sketch from library/, that the value is or is an elementwise function of; null: there is none. */
IrOp *design_anchor(Design *d, const IrValue *v);
/* Puts such products into workspaces where reductions, moves or other products read them. */
void design_stage_library(Design *d);

/* design_merge.c: tensors that are declared with fewer axes. */
const DesignMerge *design_merge_of(const Design *d, const char *tensor); /* null: it is declared as the operator has it */
/* Merges `count` axes from `first` on into one. False where the tensor has been declared in another way. */
bool design_merge(Design *d, const char *tensor, const IrType *type, unsigned first, unsigned count);
const IrType *design_merged_type(Design *d, const IrType *type, unsigned first, unsigned count);
/* The type with which the sketch declares the tensor. */
const IrType *design_declared(const Design *d, const char *tensor, const IrType *type);
/* A reshape of the value that merges axes, inserted before an operation. */
IrValue *design_make_reshape(Design *d, IrValue *v, const IrType *t, IrOp *before);
/* From an index of the operator's tensor the index of the merged one. */
void design_merged_index(Design *d, const DesignMerge *m, const IrType *type, const Aff *const *index, const Aff **merged);

/* design_use.c: `use` and `require`. */
/* The style with the parameters that `use` gives it; reports what it has not. */
DesignStyle design_style_used(Design *d, const DesignStyle *style, const DesignOptions *options);
/* The use of this sketch of the library; null: it is taken without one. */
const DesignUse *design_use_of(const Design *d, const LibrarySketch *s);
/* Do the conditions of the sketch hold in all cases? */
bool design_meets(Design *d, const LibraryMatch *m);
/* The extent that a symbol of the sketch stands for; 1 where it stands for none. */
const Aff *design_extent_of(Design *d, const LibraryMatch *m, const char *symbol);
/* Fails where a use was taken nowhere, or has a parameter that its sketch has not. */
void design_check_uses(Design *d);

/* design_regions.c: notes, for options->regions, what the nest stores whose text this is. `by`: its sketch of the library; null: none. */
void design_add_region(Design *d, const DesignResults *r, const LibrarySketch *by, const Str *body);

/* design_bind.c: prints the nests that compute the results, around the product that is their anchor (design_anchor). */
bool design_bind(Design *d, IrOp *product, const DesignResults *r);

/* design_order.c */
/* For each parameter, whether the results depend on it. */
bool *design_live_params(Arena *arena, const IrFunc *f);
void design_order_init(Design *d);
/* The workspace or stored result from which a value can be read; null: it has to be computed. */
const char *design_home(const Design *d, const IrValue *v);
/* The same, or the name of the parameter that the value is; it is read at `index` (null: at indices from data). */
const char *design_source(Design *d, const IrValue *v, const Aff *const *index);
/* The nest that comes next: the first that overwrites no tensor which other nests still read. */
size_t design_next_nest(const Design *d, const DesignResults *nests, size_t count);
/* Whether there was a clash in memory; adds to `remedy` what avoids it. */
bool design_remedy(Design *d, const DesignResults *nests, size_t count, DesignRemedy *remedy);

#endif
