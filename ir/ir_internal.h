/* Shared by the files of ir/ only. */
#ifndef IR_IR_INTERNAL_H
#define IR_IR_INTERNAL_H

#include "ir.h"
#include "pointer_table.h"

/* Limits of text IR and of the verifier. */
enum {
    IR_MAX_RANK = 16,
    IR_MAX_NESTING = 256,
    IR_MAX_OPS = 1000000,
    IR_MAX_NAME = 40,
    IR_MAX_LIST = 4096,     /* operands, results, elements of a list */
    IR_MAX_AFF_TEXT = 8192, /* bytes of one affine expression */
    IR_MAX_TEXT = 64 << 20
};

typedef struct {
    const IrType **table; /* open addressing, capacity a power of two */
    size_t capacity, used;
    Map *strings;
} IrInterned;

const char *ir_intern_string(IrModule *m, const char *text); /* null stays null */

/* ---- Types ---- */

bool ir_type_is_shaped(const IrType *t); /* a tile, a tensor or a vec: has lanes */
bool ir_type_is_scalar(const IrType *t); /* one lane */
bool ir_type_is_index(const IrType *t);
bool ir_type_is_bool(const IrType *t); /* a scalar bool */
const char *ir_space_name(IrSpace space);
bool ir_space_find(const char *name, IrSpace *space);

/* ---- Ops ---- */

/* Result types of an op whose rule or operands determine them; false when they do not. */
bool ir_infer(IrModule *m, IrOpcode opcode, unsigned operand_count, IrValue *const *operands, unsigned result_count, const IrType **types);
/* Links an op into its block before `before` (null: at the end). */
void ir_op_link(IrOp *op, IrBlock *block, IrOp *before);
void ir_op_unlink(IrOp *op);
IrBlock *ir_block_create(IrModule *m, IrFunc *f, IrOp *parent);
unsigned ir_func_args_before(const IrFunc *f, IrParamKind kind);

/* ---- Attributes ---- */

/* Finds or appends the attribute of this key; the caller fills the value. */
IrAttr *ir_attr_slot(IrModule *m, IrAttr **list, const char *key, IrAttrKind kind);
const IrAttr *ir_attr_in(const IrAttr *list, const char *key);
/* Makes it the word; `value` is from 1 on. */
void ir_attr_fill_enum(IrAttr *attr, IrEnum set, unsigned value);
IrAttr *ir_attrs_clone(IrModule *m, const IrAttr *list);

/* One entry of an op's attribute spec ("kind:kind keepdim:bool?"). */
typedef struct {
    char key[24];
    bool any, optional;
    IrAttrKind kind;
    IrEnum set; /* ENUM */
} IrAttrSpec;
/* Reads the entry at *cursor and moves on; false at the end. */
bool ir_attr_spec_next(const char **cursor, IrAttrSpec *spec);
bool ir_attr_spec_find(const IrOpInfo *info, const char *key, IrAttrSpec *spec);
const char *ir_attr_kind_name(IrAttrKind kind);

/* ---- Constants (fold.c) ---- */

typedef struct {
    bool is_float;
    int64_t integer; /* ints, index, bool: wrapped to the type */
    double number;   /* floats: rounded to the type */
} IrConst;

bool ir_const_of(const IrValue *v, IrConst *c); /* v is defined by `const` */
IrValue *ir_const_emit(IrBuilder *b, const IrType *type, IrConst c);
/* Computes an op on constants; false when it is not exact or not known here. `operand` is the type
 * in which the op computes. */
bool ir_fold(IrOpcode opcode, const IrType *result, const IrType *operand, unsigned count, const IrConst *in, IrConst *out);
/* x op y where one side decides: an existing value in *value, or (null) a constant in *c. */
bool ir_fold_identity(IrOpcode opcode, IrValue *x, IrValue *y, const IrType *result, IrValue **value, IrConst *c);
int64_t ir_wrap_int(Dtype t, int64_t value);

/* ---- Simplification ---- */

bool ir_merge_equal(IrFunc *f, Arena *scratch); /* cse.c; true when something changed */

#endif
