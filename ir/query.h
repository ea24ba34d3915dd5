/* Questions about ops, values and functions that passes and the designer ask. */
#ifndef IR_QUERY_H
#define IR_QUERY_H

#include "ir.h"

/* ---- Ops and values (query.c) ---- */

/* Ops in the arena of who collected them. */
typedef struct {
    IrOp **data;
    size_t len, cap;
} OpList;
/* Every op of the block and its regions, in program order. */
OpList ops_collect(Arena *scratch, IrBlock *block);

bool is_tile(const IrValue *v);
bool is_terminator(const IrOp *op);
/* No effect and no tile among its results: index and scalar arithmetic, constants. */
bool is_scalar_arithmetic(const IrOp *op);
/* Can the op be executed again, or removed when unused? (pure, or a load) */
bool is_repeatable(const IrOp *op);
bool is_unused(const IrOp *op); /* it has results, and nobody uses them */
/* Removes ops whose results nobody uses and that only compute or load. */
void remove_unused(Arena *scratch, IrBlock *block);

/* The block of the op or of the argument that the value is. */
IrBlock *home_of(const IrValue *v);
/* Is `block` that block, or nested in it? Nested in a region of that op? A null block is in nothing. */
bool is_inside(const IrBlock *block, const IrBlock *of);
bool is_inside_op(const IrBlock *block, const IrOp *op);
bool is_view(const IrValue *tensor);
/* The tensor behind a view, or behind views of views, else the tensor itself. */
IrValue *memory_of(IrValue *tensor);

/* One tensor, or views by one index map: equal indices are one element. */
bool is_same_tensor(IrModule *m, const IrValue *a, const IrValue *b);
/* One function, or versions of one kernel. */
bool is_same_kernel(const IrFunc *f, const IrFunc *g);
/* Does any op store to it, directly or through a view? */
bool is_stored_to(IrValue *tensor);

/* ---- Versions of a kernel (query.c) ---- */

unsigned count_versions(const IrFunc *f); /* of its kernel, itself among them */

/* ---- Slices (slice.c) ---- */

/* Operand position of the begin of range axis `tile_axis` of a tile.load or tile.store (its end is
 * the next operand) and the tensor axis; false when there is no such axis. */
bool slice_operand(const IrOp *op, unsigned tile_axis, unsigned *operand, unsigned *tensor_axis);
int64_t slice_step(const IrOp *op, unsigned tile_axis);
/* Do `letters` (IR_LETTER_*) say what its operands stand for? The same for both ops? */
bool slice_is(const IrOp *op, const char *letters);
bool slices_alike(const IrOp *a, const IrOp *b);
bool slice_gathers(const IrOp *op); /* by an index tile; false for ops without slices */
/* A tile.extract that leaves every lane in its place: it only says where the present ones end. */
bool keeps_lanes(const IrOp *op);

/* ---- Cases (query.c) ---- */

/* A leaf of an expression at the sizes of a case (an IrCase), for aff_eval. */
bool case_symbol(void *ctx, const Aff *leaf, int64_t *value);
/* The largest value of the expression in any case; 0: none tells it, or none is positive. */
int64_t case_most(const IrModule *m, const Aff *e);
/* Do all cases tell it, and none says more than `most`? Without a case: no. */
bool case_within(const IrModule *m, const Aff *e, int64_t most);

#endif
