/* The closed sets of words in attributes of ops: enums.def. The value 0 is that of an absent attribute. */
#ifndef IR_ENUMS_H
#define IR_ENUMS_H

#include "dtype.h"

#include <stdbool.h>

typedef struct IrOp IrOp;

typedef enum {
    IR_ENUM_KIND,
    IR_ENUM_SCOPE,
    IR_ENUM_SPECIAL,
    IR_ENUM_CACHE,
    IR_ENUM_TARGET,
    IR_ENUM_GRID,
    IR_ENUM_PRECISION,
    IR_ENUM_HINT,
    IR_ENUM_ATOM,
    IR_ENUM_COUNT
} IrEnum;
typedef enum {
    IR_KIND_NONE,
#define IR_KIND_ROW(id, ...) IR_KIND_##id,
#include "enums.def"
} IrKind;
typedef enum {
    IR_SCOPE_NONE,
#define IR_SCOPE_ROW(id, ...) IR_SCOPE_##id,
#include "enums.def"
} IrScope;
typedef enum {
    IR_SPECIAL_NONE,
#define IR_SPECIAL_ROW(id, ...) IR_SPECIAL_##id,
#include "enums.def"
} IrSpecial;
typedef enum {
    IR_CACHE_NONE,
#define IR_CACHE_ROW(id, ...) IR_CACHE_##id,
#include "enums.def"
} IrCache;
typedef enum {
    IR_TARGET_NONE,
#define IR_TARGET_ROW(id, ...) IR_TARGET_##id,
#include "enums.def"
} IrTarget;
typedef enum {
    IR_GRID_NONE,
#define IR_GRID_ROW(id, ...) IR_GRID_##id,
#include "enums.def"
} IrGrid;
typedef enum {
    IR_PRECISION_NONE,
#define IR_PRECISION_ROW(id, ...) IR_PRECISION_##id,
#include "enums.def"
} IrPrecision;
typedef enum {
    IR_ATOM_NONE,
#define IR_ATOM_ROW(id, ...) IR_ATOM_##id,
#include "enums.def"
    IR_ATOM_COUNT
} IrAtom;
typedef enum {
    IR_HINT_NONE,
#define IR_HINT_ROW(id, ...) IR_HINT_##id,
#include "enums.def"
    IR_HINT_COUNT
} IrHint;
/* The letters themselves: IR_LETTER_RANGE is 'r'. */
typedef enum {
#define IR_LETTER_ROW(id, letter, summary) IR_LETTER_##id = letter,
#include "enums.def"
} IrLetter;

const char *ir_enum_name(IrEnum set);   /* as the types of attributes in ops.def */
IrEnum ir_enum_named(const char *name); /* IR_ENUM_COUNT: there is none */
/* The value's word, "" of 0. */
const char *ir_enum_word(IrEnum set, unsigned value);
const char *ir_enum_summary(IrEnum set, unsigned value);
unsigned ir_enum_count(IrEnum set);                  /* values are from 1 to this */
unsigned ir_enum_find(IrEnum set, const char *word); /* 0: there is none */

bool ir_is_plain_kind(IrKind kind);         /* add, mul, max or min: every dtype and level has it */
bool ir_is_block_number(IrSpecial special); /* ctaid.x, .y, .z */
bool ir_is_block_count(IrSpecial special);  /* nctaid.x, .y, .z */
bool ir_is_of_cluster(IrSpecial special);   /* clusterid.x, cluster.rank */

const Precision *ir_precision(unsigned precision); /* null of 0 */
bool ir_atom_multiplies(IrAtom atom);              /* mma.*: a product of a warp */
bool ir_atom_is_wgmma(IrAtom atom);                /* a product of a warpgroup */
unsigned ir_atom_matrices(IrAtom atom);            /* that ldmatrix.* and stmatrix.* move; 0: another one */
bool ir_atom_stores(IrAtom atom);                  /* stmatrix.* */
bool ir_atom_transposes(IrAtom atom);              /* the matrices that it moves */

/* ---- Attributes of ops ---- */

IrKind ir_op_kind(const IrOp *op);       /* attribute kind */
IrKind ir_op_mode(const IrOp *op);       /* attribute mode of a store; without it IR_KIND_SET */
IrScope ir_op_scope(const IrOp *op);     /* of a barrier */
IrSpecial ir_op_special(const IrOp *op); /* IR_SPECIAL_NONE: another op */
IrCache ir_op_cache(const IrOp *op);
IrGrid ir_op_grid(const IrOp *op);                /* attribute axis of a parallel loop */
const Precision *ir_op_precision(const IrOp *op); /* of a product; null: none is asked for */
IrAtom ir_op_atom(const IrOp *op);                /* of a buf.gemm; which instruction an atom is */
void ir_set_kind(IrOp *op, IrKind kind);
void ir_set_mode(IrOp *op, IrKind mode);
void ir_set_scope(IrOp *op, IrScope scope);
void ir_set_special(IrOp *op, IrSpecial special);
void ir_set_grid(IrOp *op, IrGrid axis);
void ir_set_precision(IrOp *op, IrPrecision precision);
void ir_set_atom(IrOp *op, IrAtom atom);

/* ---- Hints of a loop (hints.c) ---- */

/* Its hints in their order; how many there are. */
unsigned ir_op_hints(const IrOp *op, IrHint found[IR_HINT_COUNT]);
bool ir_op_has_hint(const IrOp *op, IrHint hint);
int64_t ir_op_swizzle(const IrOp *op); /* rows of a group; 0: the hint is not there */
/* `swizzle` is the argument of that hint. */
void ir_set_hints(IrOp *op, unsigned count, const IrHint *hints, int64_t swizzle);
/* What is no hint, for the verifier; null: all are. */
const char *ir_unknown_hint(const IrOp *op);

#endif
