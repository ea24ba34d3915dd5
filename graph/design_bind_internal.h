/* A product printed by a sketch of the library: shared by design_bind.c and design_bind_memory.c. */
#ifndef GRAPH_DESIGN_BIND_INTERNAL_H
#define GRAPH_DESIGN_BIND_INTERNAL_H

#include "design_internal.h"

/* Loops over nothing that are left out of a bound sketch. A file of the library has fewer. */
enum { MOST_DROPPED = 8 };

typedef struct {
    const char *from, *to;
} BindName;

typedef struct {
    const char *tile;
    unsigned rank;
    const char *extents[LIBRARY_RANK];
    bool turned; /* has the form in which its factor lies, for `gemm` */
} BindShape;

/* Where a factor is read: axis i of the tensor is axis axes[i] of the factor. */
typedef struct {
    const char *name;
    unsigned rank, axes[DESIGN_RANK];
} BindFactor;

/* What stands for an axis in brackets; null: the product has no such axis. */
typedef struct {
    const char *text;
    const char *begin; /* of a range; null: a point */
} BindSlice;

/* The printing of one sketch. */
typedef struct {
    Design *d;
    const LibraryMatch *match;
    IrOp *product;
    const DesignResults *results;
    BindFactor factors[2];
    VEC(BindName) names;
    VEC(BindShape) shapes;
    const LibraryLine *hint; /* of the next statement */
    unsigned dropped[MOST_DROPPED], drop_count;
} Binding;

/* The name that stands for a word of the file; null: the word stays. */
const char *bind_name_of(const Binding *b, const char *word);
const char *bind_in_parentheses(Design *d, const Aff *e);
/* The product of the extents that the axis stands for. */
const Aff *bind_whole_extent(Design *d, const LibraryAxis *a);
/* The tokens from `first` to `end` with their new names. */
const char *bind_text_of(const Binding *b, const LibraryLine *l, size_t first, size_t end);
/* The axis whose extent has this name in the file; null: there is none. */
const LibraryAxis *bind_axis_named(const LibraryMatch *m, const char *symbol);
/* The rows of the left factor. */
const LibraryAxis *bind_rows_of(const Binding *b);
/* What is known of a tile of the file; null: nothing. */
const BindShape *bind_shape_of(const Binding *b, const char *tile);
bool bind_is_factor_load(const Binding *b, const LibraryLine *l, unsigned side);
/* Is the tile of this line's alloc loaded from a factor that lies turned, and then multiplied? It is multiplied as it lies. */
bool bind_is_multiplied_turned(const Binding *b, size_t at);
/* load(A[..] -> x, ..): of the operand's tensor; where two ranges lie the other way round in it, through a tile of that form. */
void bind_print_load(Binding *b, const LibraryLine *l, unsigned side);
/* store(t -> C[..], ..): what is made of the tile. */
void bind_print_store(Binding *b, const LibraryLine *l);

#endif
