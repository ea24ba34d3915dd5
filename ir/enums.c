#include "enums.h"

#include <string.h>

#include "ir.h"
#include "ir_internal.h"

typedef struct {
    IrEnum set;
    unsigned value;
    const char *word, *summary;
} Row;

static const Row rows[] = {
#define IR_ENUM_ROW(set, id, word, summary) {IR_ENUM_##set, IR_##set##_##id, word, summary},
#include "enums.def"
};

static const char *const names[IR_ENUM_COUNT] = {"kind", "scope", "special", "cache"};

const char *ir_enum_name(IrEnum set) {
    return names[set];
}

static const Row *row_of(IrEnum set, unsigned value) {
    static const Row none = {.word = "", .summary = ""};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].set == set && rows[i].value == value) return &rows[i];
    return &none;
}

const char *ir_enum_word(IrEnum set, unsigned value) {
    return row_of(set, value)->word;
}

const char *ir_enum_summary(IrEnum set, unsigned value) {
    return row_of(set, value)->summary;
}

unsigned ir_enum_count(IrEnum set) {
    unsigned count = 0;
    for (size_t i = 0; i < COUNT_OF(rows); i++) count += rows[i].set == set;
    return count;
}

unsigned ir_enum_find(IrEnum set, const char *word) {
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].set == set && strcmp(rows[i].word, word) == 0) return rows[i].value;
    return 0;
}

bool ir_is_plain_kind(IrKind kind) {
    return kind >= IR_KIND_ADD && kind <= IR_KIND_MIN;
}

bool ir_is_block_number(IrSpecial special) {
    return special >= IR_SPECIAL_CTAID_X && special <= IR_SPECIAL_CTAID_Z;
}

bool ir_is_block_count(IrSpecial special) {
    return special >= IR_SPECIAL_NCTAID_X && special <= IR_SPECIAL_NCTAID_Z;
}

bool ir_is_of_cluster(IrSpecial special) {
    return special == IR_SPECIAL_CLUSTERID_X || special == IR_SPECIAL_CLUSTER_RANK;
}

/* ---- Attributes of ops ---- */

static unsigned value_of(const IrOp *op, const char *key) {
    const IrAttr *attr = ir_attr(op, key);
    return attr && attr->kind == IR_ATTR_ENUM ? (unsigned)attr->integer : 0;
}

IrKind ir_op_kind(const IrOp *op) {
    return (IrKind)value_of(op, "kind");
}

IrKind ir_op_mode(const IrOp *op) {
    IrKind mode = (IrKind)value_of(op, "mode");
    return mode ? mode : IR_KIND_SET;
}

IrScope ir_op_scope(const IrOp *op) {
    return (IrScope)value_of(op, "scope");
}

IrSpecial ir_op_special(const IrOp *op) {
    return op->opcode == IR_SPECIAL ? (IrSpecial)value_of(op, "name") : IR_SPECIAL_NONE;
}

IrCache ir_op_cache(const IrOp *op) {
    return (IrCache)value_of(op, "cache");
}

void ir_attr_fill_enum(IrAttr *attr, IrEnum set, unsigned value) {
    attr->kind = IR_ATTR_ENUM;
    attr->integer = value;
    attr->string = ir_enum_word(set, value);
}

static void set_value(IrOp *op, const char *key, IrEnum set, unsigned value) {
    ir_attr_fill_enum(ir_attr_slot(op->block->func->module, &op->attrs, key, IR_ATTR_ENUM), set, value);
}

void ir_set_kind(IrOp *op, IrKind kind) {
    set_value(op, "kind", IR_ENUM_KIND, kind);
}

void ir_set_mode(IrOp *op, IrKind mode) {
    set_value(op, "mode", IR_ENUM_KIND, mode);
}

void ir_set_scope(IrOp *op, IrScope scope) {
    set_value(op, "scope", IR_ENUM_SCOPE, scope);
}

void ir_set_special(IrOp *op, IrSpecial special) {
    set_value(op, "name", IR_ENUM_SPECIAL, special);
}
