/* What passes ask about a function of tile level, and what several of them build: steps, symbols, small tiles. */
#ifndef PASSES_ANALYSIS_ANALYSIS_H
#define PASSES_ANALYSIS_ANALYSIS_H

#include "passes.h"
#include "plan.h"
#include "pointer_table.h"
#include "presence.h"
#include "query.h"
#include "sizes.h"

/* ---- One kernel as several steps (steps.c) ---- */

IrValue *param_named(const IrFunc *func, const char *name); /* the argument; null: none */
/* The stem and a number, as no parameter of the module is called. */
const char *param_new_name(const IrModule *m, const char *stem);
/* The argument seen as a tensor of another form; it stays declared as it was. */
void param_see_as(IrFunc *func, IrValue *arg, const IrType *type);
void func_add_workspace(IrFunc *func, const char *name, const IrType *type, const Aff *elements);
/* A parallel loop of `times` iterations around the ops from `first` up to `last`, that one left out; around all that the kernel does. */
IrOp *repeat_ops(IrOp *first, IrOp *last, const Aff *times, const char *variable);
IrOp *step_repeat(IrFunc *func, const Aff *times, const char *variable);
/* Steps behind `step` are numbered `count` higher. */
void steps_make_room(IrModule *m, int64_t step, int64_t count);
/* OF_WHAT, unless a function is called so. */
const char *step_new_name(const IrModule *m, const char *of, const char *what);
void step_name(IrFunc *func, const char *name, int64_t step);
/* Nothing but parallel loops, each the only one of its block, around the ops of the block `inner`, which stores? */
bool is_plain_nest(const OpList *ops, const IrBlock *inner);
/* How many iterations a loop has. */
const Aff *loop_trips(IrModule *m, const IrOp *loop);
/* Of all parallel loops among the ops together; null where a bound is not over symbols. */
const Aff *parallel_iterations(IrModule *m, const OpList *ops);
bool aff_over_symbols(const Aff *e);

/* A parameter that is computed from others once a launch. */
typedef struct {
    const Aff *name, *formula;
} DerivedSymbol;
/* One with a new name, as `stem` or near it, which no function has yet. */
DerivedSymbol derived_symbol(const IrModule *m, const char *stem, const Aff *formula);
/* Gives it to a function that may have it. */
void func_add_symbol(IrFunc *func, DerivedSymbol symbol);
/* And to the other versions of its kernel: all have the same parameters. */
void kernel_add_symbol(IrFunc *func, DerivedSymbol symbol);

/* Is there a product in one of the kernels? */
bool module_multiplies(const IrModule *m);

/* How many rows of its tensor one row of the view has, whose rows begin where the tensor's do: V[.., x: X - (n - 1), c: n*C] is
 * T[.., x + c//C, c%C] of T[.., X, C], C a constant, rows of whole 16-byte pieces. All of the view lies in the tensor, by the tensor's own strides. 0: it is no such view. */
int64_t view_joins_rows(IrModule *m, const IrValue *tensor);
enum { MAX_VERSIONS = 4 }; /* of a step; docs/decisions/artifact.md */
/* Adds `offset` (lanes along the tile axis) to the begin of a load's or store's slice. */
void slice_shift(IrOp *op, unsigned tile_axis, IrValue *offset);
/* Loads that the iterations of a loop with few of them repeat a little further on: a window's elements. */
typedef struct {
    unsigned rank;    /* of the largest tile that is loaded so; 0: none, or beside products */
    uint32_t shared;  /* axes along which neighbours' windows have elements in common */
    int64_t elements; /* of a window */
    bool apart;       /* slices begin beside 16-byte boundaries, or take every other element ... */
    bool boxes;       /* ... but what a block reads may be copied in pieces: neighbours share elements of the last axis, or a window
                       * that a long loop moves has them side by side */
    bool
        slides; /* neighbours along the last axis read elements side by side, but the first and the last the same, and no long loop moves them */
} WindowAxes;
WindowAxes window_axes(IrFunc *f);
/* A tile type with one extent replaced. */
const IrType *type_with_extent(IrModule *m, const IrType *t, unsigned axis, int64_t extent);
/* The neutral element of a reduction kind in a storage type. */
double reduce_identity(IrKind kind, Dtype dtype);
IrOpcode reduce_opcode(IrKind kind);
/* How far `e` moves from one iteration of the loop to the next; 0: not at all, or not by a constant. */
int64_t moves_by(IrModule *m, const IrOp *loop, const Aff *e);
/* Barriers by their scope: block, cluster. */
/* A special that is numbered along x: the number of the block, cluster or thread, or how many blocks there are. */
bool is_number_along_x(const IrOp *op);
bool is_barrier(const IrOp *op, IrScope scope);
void build_barrier(IrBuilder *b, IrScope scope);
/* A tile of `type` that holds `value` everywhere. */
IrValue *tile_splat(IrBuilder *b, const IrType *type, double value);
IrValue *tile_iota(IrBuilder *b, const IrType *type, int64_t axis);
IrValue *tile_reduced(IrBuilder *b, IrValue *tile, IrKind kind, int64_t axis, bool keepdim, const IrType *type);
/* What the arg-reduction `arg` gives for lanes that hold `best`, each with its `index` (i64, not below 0). */
IrValue *tile_first_of_best(IrBuilder *b, const IrOp *arg, int64_t axis, IrValue *best, IrValue *index);

/* No tile or tensor of the function has more axes than layouts have, and no layout is one that a
 * distribution cannot say; else false with an error. */
bool check_ranks(PassContext *ctx, IrFunc *f);
/* Has a diagnostic with these words told of this place, as for another version of a kernel? */
bool is_reported(const PassContext *ctx, DiagId id, Span span, const char *text);
void report_unsupported(PassContext *ctx, Span span, const char *what);
/* A hint that is left aside: a note, once a place and reason, or an error under --strict-hints. */
void report_hint(PassContext *ctx, Span span, const char *hint, const char *reason);

/* A cache that gives the interval of a load even where it fills the axis today: what holds when the
 * axis gets a longer constant extent. */
PresenceCache *presence_cache_with_ends(PassContext *ctx);

/* What is present in both; of an axis of extent 1 that is repeated `extent` times. */
PresenceAxis presence_meet(AffCtx *affs, PresenceAxis a, PresenceAxis b);
PresenceAxis presence_stretched(AffCtx *affs, PresenceAxis from, const Aff *extent);
/* Of the results of an op with a trait IR_FOLDS, IR_ALONG or IR_MOVES (presence_axes.c). */
Presence presence_along(PresenceCache *cache, PassContext *ctx, IrOp *op);
/* What is present of it in every turn of the loop, whose index its ends may name (presence_loops.c). */
PresenceAxis presence_in_all_turns(PassContext *ctx, const IrOp *loop, PresenceAxis axis);
/* Is what is present behind a tile.reshape one interval an axis? */
bool presence_reshape_fits(PassContext *ctx, IrOp *op);

/* ---- Axis classes (axes.c) ----
 * Tile axes that must have one extent and one chunking because ops join them lane by lane. */

typedef struct {
    const Aff *extent;
    int64_t constant; /* the extent, or -1 when symbolic */
    bool reduced;     /* some op folds along it (reduce, count) */
    bool contracted;  /* K of a gemm */
    bool multiplied;  /* rows or columns of a gemm that a loop repeats: its factors are staged, so no row is kept whole */
    bool scanned;     /* some op's lanes along it depend on each other: a scan */
    bool sorted;      /* likewise: a sort, which needs all of them at once */
    bool sliced;      /* a part of it is taken: cannot be cut, but may have lanes behind its end */
    bool rigid;       /* reshaped, joined, flipped: cannot be cut */
    bool innermost;   /* the last axis of a loaded or stored tile */
    Span span;        /* of an op that touches it */
} AxisClass;
typedef struct Axes Axes;
Axes *axes_analyse(Arena *scratch, IrFunc *f);
size_t axes_count(const Axes *axes);
AxisClass *axes_class(const Axes *axes, size_t index);
/* The class of one axis of a tile value; SIZE_MAX for values made after the analysis. */
size_t axes_of(const Axes *axes, const IrValue *v, unsigned axis);
/* The axis of v that is in the class; -1 when there is none. */
int axes_find(const Axes *axes, const IrValue *v, size_t index);
bool axes_touch(const Axes *axes, const IrOp *op, size_t index);
/* May the ops of `scope` run chunk by chunk along the class, chunks in any order? Else `store` stands against it,
 * beside `other` (cut_safety.c). */
bool cut_is_safe(PassContext *ctx, const Axes *axes, const OpList *ops, const IrBlock *scope, size_t index, const IrOp **store,
                 const IrOp **other);
/* Where that is so: the ops that load and store in place without the axis, with what they are made of, each behind its operands. They
 * run once, loads before the chunks and stores behind them. */
OpList cut_outside(PassContext *ctx, const Axes *axes, const OpList *ops, const IrBlock *scope, size_t index);
/* The largest product of the other extents of a tile of the class. Symbolic axes count as `row`
 * when reduced, as `gemm` when contracted, else as 1. */
int64_t axes_others(const Axes *axes, size_t index, int64_t row, int64_t gemm);
/* Gives every value of the class the extent. */
void axes_set_extent(Axes *axes, size_t index, int64_t extent);

/* The largest power of two that is at most `most` (1 at least), the smallest that is at least `least`. */
int64_t power_of_two_below(int64_t most);
int64_t power_of_two_from(int64_t least);

#endif
