/* Rewrites of an operator's graph: the same value in a form that the design of a sketch makes more of.
 *
 * Each is a row of rewrites.def with what it may do to the error. They are for the copy of a graph that `design_sketch` reads, never for the one
 * that the reference evaluates. docs/decisions/rewrites.md says which there are and why. */
#ifndef GRAPH_REWRITE_H
#define GRAPH_REWRITE_H

#include "ir.h"

typedef enum {
    REWRITE_EXACT, /* the same value, bit for bit */
    REWRITE_ORDER, /* sums and products grouped otherwise: inside every bound */
    REWRITE_SHARE, /* up to a share of the bound is taken */
} RewriteError;

typedef struct Rewriter Rewriter;
typedef struct {
    const char *name;
    /* Tries it at an operation of the graph's body, `return` for what concerns the graph as a whole; true when it changed something. May erase the operation. */
    bool (*apply)(Rewriter *r, IrOp *op);
    RewriteError error;
    double share;
    bool asked; /* by name alone: a style wants it */
    const char *summary;
} Rewrite;

size_t rewrite_count(void);
const Rewrite *rewrite_row(size_t index);
const char *rewrite_error_name(RewriteError error);

/* How often each row was applied. */
typedef struct {
    unsigned *times; /* rewrite_count() of them */
    double share;    /* of the bound, of all together */
} RewriteCounts;

typedef struct {
    /* The name of the one row that is tried; null: all but those that are asked for by name. */
    const char *only;
    /* Axes that are folded together stay axes, so that a processor's code, which adds along one of them in order, has short chains. */
    bool apart;
    /* What is folded goes through workspaces: of axes that are folded together the last one, or two, are folded first. */
    bool workspaces;
    /* Elements along the innermost axis of a tile: what is shorter is laid behind each other. */
    int64_t tile;
} RewriteOptions;

/* Rewrites a graph function in place until nothing fits. */
RewriteCounts rewrite_graph(Arena *arena, IrFunc *f, const RewriteOptions *options);

unsigned rewrite_counts_all(const RewriteCounts *counts); /* of all rows together */
/* "nested_folds (order) x 2, ..."; empty where nothing was applied. */
void rewrite_counts_print(const RewriteCounts *counts, Str *out);

#endif
