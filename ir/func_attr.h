/* Attributes of functions: the closed set of func_attrs.def, by name. The names of one kind are one type, so that a compiler's
 * warning refuses an attribute that is asked for as another kind. */
#ifndef IR_FUNC_ATTR_H
#define IR_FUNC_ATTR_H

#include "affine.h"

typedef struct IrFunc IrFunc;

/* The places of the rows; IR_FN_COUNT of them. */
enum {
#define IR_FN_ROW(id, ...) IR_FN_AT_##id,
#include "func_attrs.def"
    IR_FN_COUNT
};
typedef enum {
#define IR_FN_INT_ROW(id, ...) IR_FN_##id = IR_FN_AT_##id,
#include "func_attrs.def"
} IrFuncInt;
typedef enum {
#define IR_FN_INTS_ROW(id, ...) IR_FN_##id = IR_FN_AT_##id,
#include "func_attrs.def"
} IrFuncInts;
typedef enum {
#define IR_FN_STR_ROW(id, ...) IR_FN_##id = IR_FN_AT_##id,
#include "func_attrs.def"
} IrFuncStr;
typedef enum {
#define IR_FN_AFF_ROW(id, ...) IR_FN_##id = IR_FN_AT_##id,
#include "func_attrs.def"
} IrFuncAff;
typedef enum {
#define IR_FN_ENUM_ROW(id, ...) IR_FN_##id = IR_FN_AT_##id,
#include "func_attrs.def"
} IrFuncEnum;

typedef struct {
    const char *key;
    unsigned kind;   /* IrAttrKind */
    unsigned levels; /* IR_LEVEL_* */
    const char *set_by, *read_by, *summary;
} IrFuncAttrInfo;
const IrFuncAttrInfo *ir_func_attr_info(unsigned attr);
const IrFuncAttrInfo *ir_func_attr_find(const char *key); /* null: there is none */

bool ir_func_has(const IrFunc *f, unsigned attr);
int64_t ir_func_int(const IrFunc *f, IrFuncInt attr, int64_t fallback);
const char *ir_func_str(const IrFunc *f, IrFuncStr attr, const char *fallback);
unsigned ir_func_enum(const IrFunc *f, IrFuncEnum attr);                      /* 0: absent */
const Aff *ir_func_aff(const IrFunc *f, IrFuncAff attr);                      /* null: absent */
const int64_t *ir_func_ints(const IrFunc *f, IrFuncInts attr, size_t *count); /* null: absent */
void ir_func_set_int(IrFunc *f, IrFuncInt attr, int64_t value);
void ir_func_set_str(IrFunc *f, IrFuncStr attr, const char *value);
void ir_func_set_enum(IrFunc *f, IrFuncEnum attr, unsigned value);
void ir_func_set_aff(IrFunc *f, IrFuncAff attr, const Aff *value);
void ir_func_set_ints(IrFunc *f, IrFuncInts attr, size_t count, const int64_t *values);

/* The number of blocks of a cluster (attribute cluster, along x); 1: there are no clusters. */
int64_t ir_func_cluster(const IrFunc *f);
/* Is it for GPUs (attribute target)? */
bool ir_func_is_cuda(const IrFunc *f);

#endif
