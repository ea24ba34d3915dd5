/* Shared by what follows a sketch's statements:
 *   sema_presence.c  statements, loops, branches: the state of each tile
 *   sema_lanes.c     expressions: which lanes they have, which tiles they read
 *   sema_values.c    which of the values that a tile has held are read */
#ifndef SEMA_FLOW_H
#define SEMA_FLOW_H

#include "sema_internal.h"

typedef struct LoopFrame LoopFrame;

/* What makes a value unfit to be read, which is no mistake where nothing reads it. */
typedef struct {
    DiagId id;
    const Decl *tile;
    const Stmt *stmt, *writer; /* the loop or branch that ended; where the value was written; null: alloc */
} ValueFault;

/* What a tile holds from one write to the next, as in SSA form: of a statement, at the begin of a loop's
 * iterations, behind a loop, behind a branch. One that is read has read what it is made of. */
typedef struct TileValue {
    bool read;
    uint32_t born;             /* Flow.clock then */
    struct TileValue *from[2]; /* what it is made of; null: nothing more */
    struct TileValue *next;    /* in a work list */
    const ValueFault *fault;   /* null: none */
} TileValue;

typedef struct {
    bool written;
    const Interval *presence; /* null: everywhere */
    const Stmt *writer;
    TileValue *value;
} TileState;

typedef struct {
    Decl *tile;
    TileState old;
} Change;

/* A tile from outside whose value from before an iteration is used in the loop. */
typedef struct {
    LoopFrame *frame;
    Decl *tile;
    TileValue *value;
} LoopArgument;

/* A loop around the statement at hand, in one visit. */
struct LoopFrame {
    LoopFrame *outer;
    uint32_t begin; /* Flow.clock then */
    struct {
        LoopArgument *data;
        size_t len, cap;
    } arguments;
};

/* A tile from outside that a loop or branch writes. */
typedef struct {
    Decl *tile;
    TileValue *behind;           /* what it holds behind the statement */
    const Stmt *before, *writer; /* where the values before and behind were written; null: alloc */
    bool goes_on;                /* LOOP: an iteration reads what it held before */
} JoinedTile;

typedef struct {
    Stmt *stmt;
    JoinedTile *tiles;
    size_t count;
    LoopFrame *frame; /* of a loop */
} Join;

typedef struct {
    Sema *s;
    TileState *states; /* by Decl.order */
    bool *reported;
    AffFacts *facts;
    struct {
        Change *data;
        size_t len, cap;
    } journal;
    size_t budget; /* statements that may still be visited */
    uint32_t clock;
    LoopFrame *frame;       /* innermost loop; null: none */
    LoopArgument *argument; /* by Decl.order: the last one made */
    struct {
        Join *data;
        size_t len, cap;
    } joins; /* in order of their ends; of one that was visited again the last counts */
} Flow;

/* ---- sema_presence.c ---- */
void flow_set(Flow *f, Decl *tile, TileState state);

/* ---- sema_lanes.c ---- */
static inline bool flow_is_full(const Interval *v) {
    return !v->lo;
}
Interval flow_trim(Flow *f, const Aff *lo, const Aff *hi, const Aff *extent);
Interval flow_meet(Flow *f, Interval a, Interval b);
/* Null when every axis is full. */
const Interval *flow_keep(Flow *f, const Interval *axes, unsigned rank);
const Interval *flow_meet_all(Flow *f, const Interval *a, const Interval *b, unsigned rank);
bool flow_same_presence(const Interval *a, const Interval *b, unsigned rank);
/* The tile is read here: reports one that may not have been written. */
void flow_require_written(Flow *f, Decl *tile, Span span);
const Interval *flow_visit(Flow *f, Expr *e);
/* Tiles of rank 0 that a scalar is computed from. */
void flow_visit_number(Flow *f, Expr *e);

/* ---- sema_values.c ---- */
TileValue *flow_new_value(Flow *f);
/* One of two: behind a loop or branch. b may be null. */
TileValue *flow_join(Flow *f, Decl *tile, TileValue *a, TileValue *b);
void flow_read(Flow *f, Decl *tile); /* what it holds now */
LoopFrame *flow_enter_loop(Flow *f);
/* `tiles` (by declaration order, with the states at the loop's begin) are those that the body wrote: what they
 * hold now goes to the next iteration. */
JoinedTile *flow_leave_loop(Flow *f, Stmt *loop, Decl **tiles, const TileState *entry, size_t count);
void flow_add_join(Flow *f, Join join);
/* At the end: which of the tiles that loops and branches write they hand on. */
void flow_settle(Flow *f);
/* Reports the value's fault. */
void flow_report_fault(Flow *f, const ValueFault *fault);

#endif
