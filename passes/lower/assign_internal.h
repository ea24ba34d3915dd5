/* Shared by assign_layouts.c and assign_seeds.c: the layouts of a function's tiles. */
#ifndef PASSES_LOWER_ASSIGN_INTERNAL_H
#define PASSES_LOWER_ASSIGN_INTERNAL_H

#include "analysis/analysis.h"
#include "layout.h"

/* Elements of less than a word that a window slides over: so many neighbours a thread, which reads words of shared memory and each
 * element once, where a thread for each would read all of a window's. 1: none. */
enum { SLIDES = 4 /* the switch: 1 */ };

/* FEW_WARPS a multiprocessor hide little of what a thread waits for (0: the switch). */
enum {
    NEIGHBOURS = 8,     /* windows of a thread, one beside the other */
    WINDOW_READS = 128, /* of a thread from its windows, with all neighbours */
    FEW_WARPS = 16,
    MAP_WARPS = 4 /* 8: blocks as large as can be */,
    MAP_PIECES = 2,       /* pieces that blocks leave a thread, before they get more warps */
    FEW_FUNCTIONS = 2,    /* of a lane, from which on warps wait for them, not for memory */
    SHORT_BYTES = 1 << 30 /* tensors of as many are not short */
};

typedef struct {
    PassContext *ctx;
    IrModule *module;
    IrFunc *func;
    LayoutCtx *layouts;
    int64_t warps;
    int64_t vector_bytes;
    unsigned widest;         /* bytes of the widest element in memory, of the largest tiles there ... */
    int64_t widest_elements; /* ... which have so many */
    bool changed, failed;
    bool paired, crowded; /* some products leave registers for a second block; some of warpgroups do not */
    WindowAxes windows;   /* of the tiles that windows are loaded into */
    /* search for the next seed */
    IrValue *largest;
    int64_t largest_elements;
} Assign;

/* The value gets the layout, if it is a tile without one. */
void assign_give(Assign *s, IrValue *v, const Layout *layout);
/* Lanes of the tile. */
int64_t assign_tile_elements(const IrValue *v);
/* The axis, but for the fastest, along which a thread's elements should be neighbours, whose windows share what
 * they load. -1: none. */
int assign_shared_axis(const Assign *s, unsigned rank, unsigned fastest);
/* Elements that a thread holds side by side of tiles that windows slide over; 1: no such tile. */
int64_t assign_slid_piece(const Assign *s);
/* The layout of a tile that is stored or loaded whole: a thread has pieces of 16 bytes, neighbours of a warp stand side by side. */
const Layout *assign_blocked(Assign *s, const IrValue *v, int64_t slid);
/* What a first factor in registers must have. */
const Layout *assign_factor_in_registers(Assign *s, const IrOp *op);
/* Gives layouts to factors and sums of a product. */
void assign_seed_gemm(void *ctx, IrOp *op);
/* Notes the largest tile of the op's results and arguments without a layout. */
void assign_consider_op(void *ctx, IrOp *op);

#endif
