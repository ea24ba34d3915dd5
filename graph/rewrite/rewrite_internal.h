/* Shared by the files of rewrites. */
#ifndef GRAPH_REWRITE_INTERNAL_H
#define GRAPH_REWRITE_INTERNAL_H

#include "rewrite.h"

struct Rewriter {
    Arena *arena;
    IrFunc *f;
    const RewriteOptions *options;
    RewriteCounts counts;
    bool merged; /* axes have been: of those that are folded one after the other none is to go any more */
};

#define REWRITE(name, function, ...) bool function(Rewriter *r, IrOp *op);
#include "rewrites.def"
#undef REWRITE

#endif
