/* Shared by stencil_reuse.c and window_stage.c: what the iterations of short loops read of a tensor. */
#ifndef PASSES_STENCIL_WINDOW_INTERNAL_H
#define PASSES_STENCIL_WINDOW_INTERNAL_H

#include "analysis/analysis.h"

enum {
    WINDOW_VARS = 8,  /* loops and map axes */
    WINDOW_LOOPS = 4, /* loops of a window: room */
    WINDOW_ATOMS = 24 /* conditions of a mask */
};

/* A loop's number of iteration or an index of the map: 0 .. count - 1. */
typedef struct {
    IrValue *value;
    int64_t first, count;
    const Aff *stride; /* of the offset, elements */
    int axis;          /* of the fragment; -1: all numbers read one element */
    int64_t scale;     /* steps of that axis */
} WindowVar;

/* An axis of the fragment: index = start + sum of scale * number over its variables. */
typedef struct {
    int64_t extent, start;
    const Aff *stride;
} WindowAxis;

/* A condition: e >= 0, or a value of its own. */
typedef struct {
    const Aff *fixed; /* at all numbers 0 */
    int64_t slope[WINDOW_VARS];
    int64_t held[WINDOW_VARS]; /* the slope along each axis of the fragment */
    IrValue *other;
} WindowAtom;

typedef struct {
    PassContext *ctx;
    IrModule *m;
    IrOp *map, *load;
    IrOp *loops[WINDOW_LOOPS]; /* innermost first */
    unsigned loop_count, var_count, axis_count, atom_count;
    WindowVar vars[WINDOW_VARS]; /* the map's, then the loops' */
    unsigned map_rank;
    WindowAxis axes[WINDOW_VARS];
    WindowAtom atoms[WINDOW_ATOMS];
    const Aff *base; /* the offset at all numbers 0 */
    IrOp *outermost;
} Window;

/* The largest common step of two strides: a = p * step, b = q * step, q > 0; false: there is none. */
bool window_common_step(AffCtx *c, const Aff *a, const Aff *b, int64_t *p, int64_t *q, const Aff **step);

/* The one load of a map that does nothing else; null: there is more. */
IrOp *window_load_of(const IrOp *map);
/* The window over the `depth` innermost loops around the map; false where it is none. *unrolled: ops of the loops. */
bool window_find(PassContext *ctx, IrOp *map, IrOp *load, unsigned depth, Window *w, int64_t *unrolled);
/* The window of one iteration of w's outermost loop, whose number is a variable of its base and conditions. */
void window_line_of(const Window *w, Window *line);
/* The op by which a nest that does nothing else combines what the map loads with what it carries; null: none, or one
 * whose operands may not be grouped otherwise. */
IrOp *window_combining(const Window *w);

/* What a block reads by a window, in shared memory (window_stage.c). */
typedef struct WindowStage WindowStage;
/* Where the boxes of a kernel lie; all 0 at first. Nothing else of the kernel's is there: this pass comes after what else
 * takes shared memory. */
typedef struct {
    int64_t offset, bytes;
    bool ahead; /* boxes are copied while others are read: worth it even where each is read but once */
} WindowMemory;
/* What the block's threads read in all iterations, of which a thread loads `each` elements; null: it cannot be
 * staged, or is not read often enough. */
WindowStage *window_stage_plan(const Window *w, int64_t each, WindowMemory *memory);
/* Fills it in front of the window's loops. */
void window_stage_fill(WindowStage *s);
/* By hand: memory for so many boxes, side by side; copies into number `box`, not waited for, of what is read where the
 * variables have other values. */
typedef struct {
    const IrValue *variable;
    IrValue *at;
} WindowIteration;
int64_t window_stage_bytes(const WindowStage *s);
bool window_stage_is_async(const WindowStage *s);
void window_stage_ring(WindowStage *s, IrBuilder *b, int64_t boxes);
/* A window's last variable without a value numbers lines of a box, which have an axis of their own; false: they have not. */
bool window_stage_has_lines(const WindowStage *s);
/* lines: so many are copied, at most; null: all. */
void window_stage_copy(const WindowStage *s, IrBuilder *b, unsigned count, const WindowIteration *iterations, IrValue *box, IrValue *lines);
/* The fragment of `inner`, a window of fewer of the loops, in front of these; of that box, null: the only one; of that line of it. */
IrValue *window_stage_read(WindowStage *s, const Window *inner, IrValue *box, IrValue *line);

/* Are the window's elements few enough to be held and read by unrolled loops? */
bool window_fits(const Window *w, int64_t unrolled);
/* Makes the window's loads reads of `held`, the fragment in front of it. */
void window_take(Window *w, IrValue *held);

/* Where a loop around a window's own loops moves along one of its axes: what two of its iterations have in common is
 * combined once, and boxes are copied ahead (rolling_window.c). Rolled one? Then maps have come and gone. */
bool window_make_rolling(PassContext *ctx, IrFunc *f);

/* ---- Fragments (stencil_reuse.c, stencil_fragment.c) ---- */

enum {
    MAX_TRIPS = 32,     /* of one loop */
    MAX_HELD = 64,      /* registers of a fragment ... */
    MAX_ALL_HELD = 128, /* and of all in a block */
    OTHERS = 16,        /* registers of a thread beside those of what loops carry, where windows lie in shared memory */
    MAX_READS = 256,    /* of it, unrolled */
    MAX_UNROLLED = 4096 /* ops of the loops, unrolled */
};

/* Elements of the fragment. */
int64_t window_held_elements(const Window *w);
/* Registers of a thread that hold it. */
int64_t window_held_registers(const Window *w);
/* Reads of the fragment, all loops unrolled. */
int64_t window_reads(const Window *w);
/* Loads the fragment in front of the loops. */
IrValue *window_load_window(const Window *w);
/* Does it fit where lines are combined as they are read? */
bool window_fits_folded(const Window *w, int64_t unrolled);
/* Elements of less than a word: those side by side in memory are the last axis of the fragment, so that words of them can be read. */
void window_put_words_last(Window *w);

#endif
