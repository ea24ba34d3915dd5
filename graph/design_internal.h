/* Shared by the files of the pass `design`. */
#ifndef GRAPH_DESIGN_INTERNAL_H
#define GRAPH_DESIGN_INTERNAL_H

#include "design.h"
#include "library.h"

/* Axes of a tile; more in a dry run, where every axis is whole, than in what is written, for which
 * the language sets the limit. */
enum { DESIGN_RANK = 16, DESIGN_TILE_RANK = 8, DESIGN_AXES = 32, DESIGN_NESTS = 64 };

enum { DESIGN_SMALL_FOLD = 8 }; /* a constant extent up to here is looped over index by index */

/* An axis of the loop nest that is being written: of its output, or folded. */
typedef struct DesignAxis DesignAxis;
struct DesignAxis {
    unsigned id; /* position among the nest's axes: the canonical order */
    const Aff *extent;
    const Aff *var;   /* AFF_VAR that stands for it; its identity is this axis */
    const char *name; /* loop variable, index of views */
    DesignWalk walk;
    const char *tile; /* WALK_TILE: the constexpr that holds the extent */
    /* WALK_TILE of a sketch of the library: its own slice and where that begins; else null. */
    const char *slice;
    const Aff *begin;
    bool folded;
    bool ends;        /* what has been loaded along it is absent behind its end */
    bool single;      /* of the output, of extent 1: its index is 0, and no tile has it */
    bool phase;       /* of the output: a part of an axis that is walked index by index beside the other part */
    const Aff *turns; /* of a loop over indices: it ends here; null: at the extent */
    /* What the dry run found out. */
    /* Terms of the sum that it is folded in are 0 before and behind: expressions over the output's axes; null: nowhere. */
    const DesignAxis *low, *high;
    int64_t low_offset, high_offset;
    bool coupled;     /* a value folded along it is used along it again: it has to be whole */
    bool contiguous;  /* the last axis of a tensor that is read */
    bool repeated;    /* of the output: lines along the output's last axis are read that do not vary along it */
    unsigned product; /* which sides of a product vary along it: bits 1 and 2 */
};

/* A value that has been computed: what stands in the text for it, and the axes it varies along, in
 * the order of the tile. Rank 0 and not a tile: a number. */
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
    bool direct; /* zeros may stand in lanes outside */
} DesignKnown;

/* What a region argument of index notation stands for now. */
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

/* An axis of the results that two axes of the nest stand for, index = size * first + second, of which one is a phase; or one of two that one axis of the nest stands for. */
typedef struct {
    const Aff *first, *second; /* the axes' variables */
    const Aff *rows;           /* extent of the first one */
    const Aff *size;           /* null: one axis stands for it */
    bool strided;              /* the second one is the phase */
    bool grouped;              /* elements are folded along the second one */
    const Aff *row;            /* this axis and the next one are one, with so many indices for each of this one; null: not so */
    bool follows;              /* of two that are one it is the second */
} DesignSplit;

/* Results of one shape that are computed together. */
typedef struct {
    unsigned count;
    uint64_t bits; /* which of the operator's */
    IrValue *values[DESIGN_AXES];
    const char *names[DESIGN_AXES];
    bool unique; /* parts of one tensor are among them: the front end does not prove that their elements are others */
} DesignResults;

/* What a clash in memory asks for (design_order.c), a bit for each result. */
typedef struct {
    uint64_t apart; /* has a nest of its own */
    uint64_t kept;  /* what its tensor holds at first is copied to a workspace */
} DesignRemedy;

/* A tensor that the sketch declares with fewer axes than the operator: neighbouring ones are one. */
typedef struct {
    const char *tensor;
    const IrType *type;       /* as declared */
    unsigned to[DESIGN_RANK]; /* which of its axes each axis is part of */
} DesignMerge;
typedef struct {
    VEC(DesignMerge) all;
    bool grew; /* what has been written has to be written again */
} DesignMerges;

/* Axes of a product that are one axis of a sketch of the library. */
typedef struct {
    const char *symbol; /* its extent in the file */
    unsigned count;
    unsigned at[3][DESIGN_RANK]; /* where they stand in the left factor, the right one and the result */
    const Aff *extents[DESIGN_RANK];
} LibraryAxis;

typedef struct {
    const LibrarySketch *sketch;
    unsigned count;
    LibraryAxis axes[LIBRARY_RANK];
} LibraryMatch;

typedef struct {
    Arena *arena;
    IrModule *module;
    IrFunc *f;
    const DesignStyle *style;
    Str *views, *nests, *body; /* declarations; finished nests; the nest at work */
    Str *all_views;            /* of what stays: `views` is another one in a dry run */
    unsigned depth;            /* of indentation */
    unsigned names, view_count;
    bool vectors;    /* outermost loops get the hint "vectorize" */
    bool dry;        /* finds out about axes: walks are whole */
    bool in_product; /* what is read is a factor: outside of it zeros do no harm */
    bool direct;     /* what is read is a factor as it is, or is 0 in it where it is 0 */
    bool lanes;      /* factors are multiplied lane by lane */
    bool turns;      /* inside of a loop over what is folded */
    bool bounded;    /* a condition says which of what is folded counts: the others may be outside of tensors */
    bool reused;     /* loops along which lines are read again are the inner ones: whoever has a line keeps it */
    bool ahead;      /* a loop brings the factors of products ahead */
    const char *error;
    Span at, error_at; /* of the operation at work; where the error is */
    unsigned axis_count;
    DesignAxis *axes[DESIGN_AXES];
    unsigned outer_count; /* axes of the output come first */
    unsigned rank;        /* of the results */
    DesignSplit splits[DESIGN_RANK];
    const Aff *const *extents;     /* of the results */
    const Aff *place[DESIGN_RANK]; /* the index of the results, over the nest's axes */
    AffFacts *facts;               /* of phases; null: there are none */
    bool singles;                  /* axes of extent 1 are none */
    VEC(DesignKnown) known;
    VEC(DesignBinding) bindings;
    VEC(DesignStaged) staged;
    VEC(DesignConstexpr) constexprs;
    const DesignResults *staging; /* the values whose nest is at work; they are not to be read */
    /* Bits are of results. */
    uint64_t inout;       /* are stored to tensors that are read, too */
    uint64_t stored;      /* have been, by finished nests */
    uint64_t overwritten; /* both */
    uint64_t writes;      /* of `inout`, those of the nest at work */
    uint64_t late, moved; /* clashes: a tensor is read behind its end; a nest reads other elements than it stores */
    uint64_t crowded;     /* parts of one tensor in a nest of whole axes: chunks of a tile would store both */
    uint64_t *made_of;    /* by an operation's mark: the `inout` tensors whose first values it is made of */
    uint32_t op_count;
    const bool *live;              /* by parameter: the results are made of it */
    const LibrarySketch **library; /* once it was asked for */
    const IrOp *bound;             /* the product whose sketch of the library is being printed */
    DesignMerges *merges;          /* of this writing and those before */
    unsigned variant;              /* which of the values that a sketch of the library lists for a constexpr */
    bool varied;                   /* one has so many */
    bool limited;                  /* one was taken that is for the sizes of the cases, not for all */
    unsigned bound_count;          /* such nests, this one included */
} Design;

bool design_fail(Design *d, const char *what); /* false */
void design_line(Design *d, const char *format, ...) PRINTF_LIKE(2, 3);
const char *design_name(Design *d); /* of a new tile */
const char *design_aff_text(Design *d, const Aff *e);
const char *design_constexpr(Design *d, const char *prefix, int64_t value);
DesignAxis *design_axis_add(Design *d, const Aff *extent, bool folded);
/* The extent of a tile along the axis. */
const char *design_extent(Design *d, const DesignAxis *axis);

/* A value at an index for each of its axes (scalars of a region: none). Text is appended for what is
 * not known yet. With d->error set the result means nothing. */
/* design_reshape.c: the row-major position; `inner` is where the element of the reshaped tensor at `index` was. */
const Aff *design_linear(Design *d, const Aff *const *extents, const Aff *const *index, unsigned rank);
void design_reshaped(Design *d, const IrType *to, const Aff *const *index, const IrType *from, const Aff **inner);
DesignTile design_value(Design *d, IrValue *v, const Aff *const *index);
/* The tile over exactly these axes in this order, an expression: transposed, with extents of 1. */
const char *design_align(Design *d, const DesignTile *t, unsigned rank, DesignAxis *const *axes);
/* The union of both, in the order of the larger one where it can be kept. */
unsigned design_union(const DesignTile *a, const DesignTile *b, DesignAxis **axes);
/* A statement that gives the expression a name. */
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
DesignTile design_generic(Design *d, IrOp *op, const Aff *const *index);
DesignTile design_contract(Design *d, IrOp *op, const Aff *const *index);
DesignTile design_along(Design *d, IrValue *v, const Aff *const *index);
bool design_is_product(const IrOp *op);

/* design_phases.c */
/* Which axes of the value are dealt out from two each (rewrite_phases.c)? Fills d->splits; false: none is. */
bool design_splits(Design *d, const IrValue *v);
/* Does notation without a fold read the element at its own index, or deal it out? */
bool design_is_in_place(Design *d, const IrOp *notation, const IrOp *element);
/* The axes of the nest, and the index of the results over them. */
bool design_outer_axes(Design *d, const IrType *type);
/* The expression, simpler where it is made of parts of the results' index. */
const Aff *design_parts(Design *d, const Aff *e);
/* Where the tiles of results are stored: slices of the tensor, or of a view of it over the nest's axes. */
const char *design_target(Design *d, const char *name);
/* What the notation folds: without a condition that the walk of its folded axes keeps by itself, as their loops end there. `axes` are those of its indices from
 * `outer` on. */
IrValue *design_folded_value(Design *d, IrOp *op, DesignAxis *const *axes);
/* The same, whether or not they do. */
IrValue *design_bounded_value(const IrOp *op);

/* design.c: writes a nest that stores the value to a workspace; false on an error. */
bool design_stage(Design *d, IrValue *v);
/* The same of several values of one shape. */
bool design_stage_together(Design *d, size_t count, IrValue *const *values);
const char *design_staged_name(const Design *d, const IrValue *v);
/* The name, changed where the operator has it. */
const char *design_free_name(const Design *d, const char *name);
/* What is stored is a tile of its own over all axes of the output. */
DesignTile design_storable(Design *d, DesignTile t, const IrType *type, unsigned rank, DesignAxis *const *axes);
/* Begins the text of a nest, and adds it to the nests: the state of the one around is kept in `around`. */
void design_begin_nest(Design *d, Design *around, const DesignResults *r, Str *body);
bool design_end_nest(Design *d, const Design *around, Str *body);
bool design_is_stored(const IrValue *v); /* the graph says that it is kept in memory */

/* design_results.c: the nests of the results, with a bit for each result and part of one; at most DESIGN_NESTS. Those in `apart` (bits) share none. */
size_t design_group_results(Design *d, uint64_t apart, DesignResults *nests);

/* design_products.c: nests of their own for products that others are made of, and for the factors that they are in. */
void design_stage_products(Design *d);
/* Is it made of a contraction, behind no workspace? */
bool design_has_product(const Design *d, const IrValue *v);

/* design_forms.c: how the nest is walked, once a dry run has found out about its axes. */
const DesignStyle *design_nest_style(Design *d, const DesignResults *r);

/* design_windows.c: products whose factors are stored (rewrite_packs.c). */
bool design_is_packed(const IrOp *op);
/* Has the nest that makes the value such a product? */
bool design_has_packed(const Design *d, const IrValue *v);
/* Puts into workspaces what is read of them but by maps: each product is made once, with the maps behind it. Is there any? */
bool design_stage_windows(Design *d);

/* design_steps.c: nests of their own for what folds hand to each other. */
bool design_folds(const IrOp *op); /* does it reduce, or run along an axis? */
bool design_folds_anything(const IrFunc *f);
/* Are there products with one row or column? Not where a value runs along an axis, or stands in an order: it needs the axis. */
bool design_has_singles(const IrFunc *f);
bool design_stage_folds(Design *d); /* was there any? */
/* Reductions whose values are repeated where no result has what they fold: each element would fold it again. */
void design_stage_handed(Design *d);

/* design_library.c: products by sketches of the library. */
/* Is there a sketch for the product? */
bool design_match(Design *d, const IrOp *product, LibraryMatch *m);
/* The product that a sketch of the library makes and that the value is, or a map of in its own index space; null: none. */
IrOp *design_anchor(Design *d, const IrValue *v);
/* Puts into workspaces what folds, moves and other products read of such products. */
void design_stage_library(Design *d);

/* design_merge.c: tensors that are declared with fewer axes. */
const DesignMerge *design_merge_of(const Design *d, const char *tensor); /* null: as the operator has it */
/* From now on `count` axes from `first` on are one. False where it has been declared otherwise. */
bool design_merge(Design *d, const char *tensor, const IrType *type, unsigned first, unsigned count);
const IrType *design_merged_type(Design *d, const IrType *type, unsigned first, unsigned count);
/* The type that the sketch declares the tensor with. */
const IrType *design_declared(const Design *d, const char *tensor, const IrType *type);
/* The value with some axes as one, made ahead of an operation. */
IrValue *design_make_reshape(Design *d, IrValue *v, const IrType *t, IrOp *before);
/* The index of a tensor's merged axes. */
void design_merged_index(Design *d, const DesignMerge *m, const IrType *type, const Aff *const *index, const Aff **merged);

/* design_bind.c: writes the nests that make the results, whose anchor is the product. */
bool design_bind(Design *d, IrOp *product, const DesignResults *r);

/* design_order.c */
/* Which parameters the results are made of. */
bool *design_live_params(Arena *arena, const IrFunc *f);
void design_order_init(Design *d);
/* The workspace or stored result that a value is to be read from; null: it is to be made. */
const char *design_home(const Design *d, const IrValue *v);
/* The same, or the parameter that the value is: read at `index` (null: at indices from data). */
const char *design_source(Design *d, const IrValue *v, const Aff *const *index);
/* Which nest comes next: the first one that ends no tensor that others still read. */
size_t design_next_nest(const Design *d, const DesignResults *nests, size_t count);
/* Was there a clash? Adds what mends it. */
bool design_remedy(Design *d, const DesignResults *nests, size_t count, DesignRemedy *remedy);

#endif
