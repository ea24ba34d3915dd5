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

static const char *const names[IR_ENUM_COUNT] = {"kind", "scope", "special", "cache", "target", "grid", "precision", "hint", "atom"};

const char *ir_enum_name(IrEnum set) {
    return names[set];
}

IrEnum ir_enum_named(const char *name) {
    unsigned set = 0;
    while (set < IR_ENUM_COUNT && strcmp(names[set], name) != 0) set++;
    return (IrEnum)set;
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

const Precision *ir_precision(unsigned precision) {
    return precision ? precision_find(ir_enum_word(IR_ENUM_PRECISION, precision)) : NULL;
}

bool ir_atom_multiplies(IrAtom atom) {
    return atom >= IR_ATOM_MMA_M16N8K16_F32_F16 && atom <= IR_ATOM_MMA_M16N8K8_F32_TF32;
}

bool ir_atom_is_wgmma(IrAtom atom) {
    return atom >= IR_ATOM_WGMMA_F32_F16 && atom <= IR_ATOM_WGMMA_F32_TF32;
}

static const struct {
    unsigned matrices;
    bool stores, transposes;
} moves[IR_ATOM_COUNT] = {[IR_ATOM_LDMATRIX_X4] = {4, false, false}, [IR_ATOM_LDMATRIX_X4_TRANS] = {4, false, true},
                          [IR_ATOM_LDMATRIX_X2] = {2, false, false}, [IR_ATOM_LDMATRIX_X2_TRANS] = {2, false, true},
                          [IR_ATOM_STMATRIX_X4] = {4, true, false},  [IR_ATOM_STMATRIX_X4_TRANS] = {4, true, true},
                          [IR_ATOM_STMATRIX_X2] = {2, true, false},  [IR_ATOM_STMATRIX_X2_TRANS] = {2, true, true}};

unsigned ir_atom_matrices(IrAtom atom) {
    return moves[atom].matrices;
}

bool ir_atom_stores(IrAtom atom) {
    return moves[atom].stores;
}

bool ir_atom_transposes(IrAtom atom) {
    return moves[atom].transposes;
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

IrGrid ir_op_grid(const IrOp *op) {
    return (IrGrid)value_of(op, "axis");
}

const Precision *ir_op_precision(const IrOp *op) {
    return ir_precision(value_of(op, "precision"));
}

IrAtom ir_op_atom(const IrOp *op) {
    return op->opcode == IR_ATOM ? (IrAtom)value_of(op, "name") : op->opcode == IR_BUF_GEMM ? (IrAtom)value_of(op, "atom") : IR_ATOM_NONE;
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

void ir_set_grid(IrOp *op, IrGrid axis) {
    set_value(op, "axis", IR_ENUM_GRID, axis);
}

void ir_set_precision(IrOp *op, IrPrecision precision) {
    set_value(op, "precision", IR_ENUM_PRECISION, precision);
}

void ir_set_atom(IrOp *op, IrAtom atom) {
    set_value(op, op->opcode == IR_ATOM ? "name" : "atom", IR_ENUM_ATOM, atom);
}
