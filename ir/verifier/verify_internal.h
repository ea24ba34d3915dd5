/* Shared by the files of the verifier only. */
#ifndef IR_VERIFIER_VERIFY_INTERNAL_H
#define IR_VERIFIER_VERIFY_INTERNAL_H

#include "ir_internal.h"

typedef struct {
    IrModule *module;
    DiagList *diags;
    Arena *scratch;
    IrFunc *func;
    PointerTable types;   /* of the function that were checked */
    PointerTable control; /* op -> uniformity of what decides about its regions, plus 1 */
    uint32_t clock;       /* numbers ops in program order */
    unsigned findings;
} Verifier;

/* Reports a finding at an op (null: the function) and returns false. */
bool ir_finding(Verifier *v, const IrOp *op, const char *format, ...) PRINTF_LIKE(3, 4);
/* Stops a check at its first finding. */
#define NEED(v, op, condition, ...)                                                                                                        \
    do {                                                                                                                                   \
        if (!(condition)) return ir_finding((v), (op), __VA_ARGS__);                                                                       \
    } while (0)

typedef bool (*IrCheck)(Verifier *v, const IrOp *op);

/* ---- verify_types.c ---- */

bool ir_check_type(Verifier *v, const IrOp *op, const IrType *t);
bool ir_check_aff(Verifier *v, const IrOp *op, const Aff *e);
bool ir_check_attrs(Verifier *v, const IrOp *op);
bool ir_check_type_rule(Verifier *v, const IrOp *op);

/* ---- verify_control.c, verify_tensor.c, verify_axes.c, verify_kernel.c: an op's own rule, or null ---- */

IrCheck ir_control_check(IrOpcode opcode);
IrCheck ir_tensor_check(IrOpcode opcode);
IrCheck ir_axes_check(IrOpcode opcode);
IrCheck ir_kernel_check(IrOpcode opcode);

/* A tensor at graph level, else a tile. */
bool ir_check_array(Verifier *v, const IrOp *op, const IrType *t);
/* `axes` and the slice operands of what is sliced, a tensor or tile; `kept` counts the tile's axes. */
bool ir_check_slice(Verifier *v, const IrOp *op, const IrType *whole, unsigned *kept);
/* Is `t` what a slice of `whole` with `kept` axes is: a tile, or a scalar when none is kept? */
bool ir_is_slice_type(const IrType *t, const IrType *whole, unsigned kept);

/* The list attribute of this key, its values inside [0, limit) and different. */
bool ir_check_axes(Verifier *v, const IrOp *op, const char *key, unsigned limit, const IrAttr **axes);
bool ir_check_index_operands(Verifier *v, const IrOp *op, unsigned from);

/* ---- Buffers and barriers (verify_buffers.c) ---- */

/* Is the product one of warpgroups? */
bool ir_is_wgmma(const IrOp *op);
/* Accumulators in flight: nobody looks at them before they have been waited for. */
bool ir_check_in_flight(Verifier *v, const IrOp *op);
/* One check an operation: says what is wrong, and returns false. */
bool ir_check_alloc(Verifier *v, const IrOp *op);
bool ir_check_mbar_alloc(Verifier *v, const IrOp *op);
bool ir_check_tma_copy(Verifier *v, const IrOp *op);
bool ir_check_copy(Verifier *v, const IrOp *op);
/* The stage may be padded beyond the tile. */
bool ir_check_buf_store(Verifier *v, const IrOp *op);
bool ir_check_buf_load(Verifier *v, const IrOp *op);
bool ir_check_mbar(Verifier *v, const IrOp *op);
bool ir_check_wgmma_wait(Verifier *v, const IrOp *op);

#endif
