/* Shared by rolling_window.c and rolling_plan.c: a window whose outer loop moves along one of its axes. */
#ifndef PASSES_STENCIL_ROLLING_INTERNAL_H
#define PASSES_STENCIL_ROLLING_INTERNAL_H

#include "window_internal.h"

enum {
    MAX_LINES = 16,            /* carried */
    MAX_CARRIED = 64,          /* registers */
    MAX_RING_BYTES = 72 << 10, /* of MAX_BOXES: three blocks on a multiprocessor ... */
    RING_WARPS = 8,            /* ... of so many warps */
    MAX_GROUP = 16,            /* iterations */
    MAX_FRONT = 3,             /* boxes that are copied in front of the loop (note 19) */
    MAX_BOXES = 3,             /* of a ring (note 19) */
    HELD = 56,                 /* elements of a line, results and what is carried, for which a thread has ... */
    REGISTERS = 80,            /* ... that many registers */
};

typedef struct {
    PassContext *ctx;
    IrModule *m;
    IrFunc *func;
    Window w;                   /* all loops: the outermost goes over the lines */
    IrOp *by, *loop;            /* what combines; the loop that is_rolling */
    int64_t forward, later;     /* S/g, D/g */
    int64_t lines, kept, fresh; /* of an iteration; those that earlier ones had, and had not */
    int64_t boxes, held, unrolled;
    int64_t group;        /* iterations whose new lines are one box; 0: each line has a box of its own */
    int64_t front;        /* such boxes with the lines in front of the loop */
    IrOp *groups;         /* the loop over groups around `loop`, null: none */
    IrValue *total, *box; /* of groups: iterations of all, the box that is read */
    WindowStage *stage;
} RollingWindow;

/* The op may be repeated in front of the loop. */
bool rolling_is_scalar(const RollingWindow *r, const IrOp *op);
/* What combined with a value leaves it. */
IrValue *rolling_neutral_of(IrBuilder *b, const IrOp *by);
/* Does a loop around the map's window roll it? Fills `r`. */
bool rolling_finds(RollingWindow *r, IrOp *map);

#endif
