/* Shared by build.c, build_expr.c, build_graph.c and build_tile.c. */
#ifndef FRONTEND_BUILD_BUILD_INTERNAL_H
#define FRONTEND_BUILD_BUILD_INTERNAL_H

#include "build.h"

typedef struct {
    const Decl *decl;
    IrValue *value;
} NameValue;

typedef struct {
    Arena *unit;
    SourceMap *sources;
    const File *file;
    const Block *block; /* operator or sketch that is built */
    DiagList *diags;
    IrModule *m;
    IrFunc *f;
    IrBuilder b;
    bool graph;                      /* whole tensors, not tiles */
    const struct Notation *notation; /* graph: the index notation around, or null */
    bool under_serial;               /* tile: inside a loop that is not parallel, or an `if` */
    unsigned depth;                  /* tile: parallel loops around */
    bool ok;
    struct {
        NameValue *data;
        size_t len, cap;
    } env; /* what each name holds now; a later entry hides an earlier one */
    struct {
        const Aff **data;
        size_t len, cap;
    } extents; /* of tiles, each in the form that stands for all equal ones */
} Build;

/* Reports E0724 once a place and fails the build; returns null for convenience. */
IrValue *build_unsupported(Build *c, Span span, const char *what);

IrValue *build_get(const Build *c, const Decl *d); /* null when nothing is bound */
void build_set(Build *c, const Decl *d, IrValue *v);

/* ---- Sizes (build.c) ---- */

const Aff *build_aff(Build *c, const Aff *e, Span span);                   /* into the module's context */
IrValue *build_index(Build *c, const Aff *e, Span span);                   /* emitted as an index value */
const IrType *build_type(Build *c, const Type *t, Dtype dtype, Span span); /* tile, tensor or scalar */
const char *build_name(Build *c, const char *name);                        /* [A-Za-z0-9_]{1,40} */
const char *build_text(Build *c, Span span);                               /* as it stands in the source */
void build_symbols(Build *c);                                              /* symbol and scalar parameters, constraints of the block */

/* ---- Expressions (build_expr.c) ---- */

/* The value of an expression in the type that sema gave it: a tile, a tensor or a scalar. Null
 * after an error. */
IrValue *build_expr(Build *c, const Expr *e);
/* The same, converted. Scalars are made in that type directly. */
IrValue *build_operand(Build *c, const Expr *e, Dtype dtype);
/* An attribute of a call that is a truth value, known when compiling. */
const Expr *build_argument(Build *c, const Expr *e, const char *name); /* null: not given */
bool build_flag(Build *c, const Expr *e, const char *name);
/* Broadcast (right-aligned) to the extents of `shape` (a tile or tensor type); scalars stay. */
IrValue *build_broadcast(Build *c, IrValue *v, const IrType *shape, Span span);
/* The one lane of a tile of rank 0 as a scalar; scalars stay. */
IrValue *build_single(Build *c, IrValue *v, Span span);
/* An integer that is not affine, as an index value. */
IrValue *build_number(Build *c, const Expr *e);
IrValue *build_cast(Build *c, IrValue *v, Dtype dtype);
/* kind add, mul, max, min ... over the axes of a bit mask. */
IrValue *build_reduce(Build *c, IrValue *x, const char *kind, uint32_t folded_axes, bool keepdim, Span span);
IrValue *build_splat(Build *c, const IrType *type, double value);

/* ---- Along axes (build_axes.c) ---- */

IrValue *build_axes(Build *c, const Expr *e);                  /* classes SCAN, SORT, MOVE; iota */
IrValue *build_arg(Build *c, const Expr *e, IrValue *x);       /* argmax, argmin */
IrValue *build_random(Build *c, const Expr *e);                /* build_random.c */
bool build_topk(Build *c, const Expr *e, IrValue *results[2]); /* values, indices */

/* Slices of tiles (build_part.c): whether `e` is one; what a load from it gives; the tile with the
 * value stored to it. */
bool build_is_part(const Expr *e);
IrValue *build_extract(Build *c, const Stmt *s, const IrType *type);
IrValue *build_insert(Build *c, const Stmt *s, IrValue *whole, IrValue *part);
/* ---- Tiles (build_tile.c) and accesses (build_slice.c) ---- */

const IrType *build_tile_type(Build *c, const Decl *d);
/* Writes a tile: the value in the tile's own type and shape. */
void build_write_tile(Build *c, const Decl *d, IrValue *v, Span span);
/* What a tile holds; one that nobody wrote holds nothing that anyone may read. */
IrValue *build_read_tile(Build *c, const Decl *d);
void build_load(Build *c, const Stmt *s);
void build_store(Build *c, const Stmt *s);

/* ---- --check (build_counts.c): nothing without the option ---- */

void build_count_index(Build *c, IrValue *index, const Aff *extent, Span span); /* extent: in the module's context */
void build_count_division(Build *c, IrValue *quotient, IrValue *divisor, Span span);

void build_operator(Build *c);                                  /* build_graph.c */
void build_sketch(Build *c);                                    /* build_tile.c */
IrValue *build_contract(Build *c, const Expr *e, IrValue *acc); /* gemm, matmul, dot; acc: of gemm */
IrValue *build_conv(Build *c, const Expr *e);                   /* conv2d, in operators */

/* ---- Index notation (build_index.c) ---- */

IrValue *build_notation(Build *c, const Stmt *s); /* C[i, j] = ... */
IrValue *build_element(Build *c, const Expr *e);  /* X[i, j] inside it */
/* sum(k, ...): an element inside index notation, else a tensor of rank 0. */
IrValue *build_index_reduction(Build *c, const Expr *e);

#endif
