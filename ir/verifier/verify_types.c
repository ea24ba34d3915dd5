/* Types, attributes and the type rules of elementwise ops. */
#include <string.h>

#include "layout.h"
#include "verify_internal.h"

/* ---- Affine expressions: symbols of the function only ---- */

static const char *find_stranger(const IrFunc *f, const Aff *e, unsigned depth) {
    if (!depth) return "an expression nested too deep";
    if (e->kind == AFF_VAR) return "a value that is no symbol";
    if (e->kind == AFF_OVERFLOW) return "an overflow";
    if (e->kind == AFF_SYM && !ir_func_symbol((IrFunc *)f, e->name)) return e->name;
    for (size_t i = 0; i < e->count; i++) {
        const char *found = find_stranger(f, e->args[i], depth - 1);
        if (found) return found;
    }
    return NULL;
}

bool ir_check_aff(Verifier *v, const IrOp *op, const Aff *e) {
    const char *stranger = find_stranger(v->func, e, 128);
    NEED(v, op, !stranger, "an affine expression mentions %s, which is no symbol of the function", stranger);
    return true;
}

/* ---- Types ---- */

static bool kind_exists(const Verifier *v, const IrType *t) {
    bool mapped = v->func->level == IR_LEVEL_TILE && v->func->state == IR_STATE_MAPPED;
    switch (t->kind) {
    case IR_TYPE_SCALAR:
        return t->width == 1 || (v->func->level == IR_LEVEL_KERNEL && !t->is_index);
    case IR_TYPE_TILE:
        return v->func->level == IR_LEVEL_TILE;
    case IR_TYPE_TENSOR:
        return v->func->level != IR_LEVEL_KERNEL;
    case IR_TYPE_BUF:
    case IR_TYPE_TOKEN:
        return mapped;
    case IR_TYPE_FRAG:
    case IR_TYPE_PTR:
        return v->func->level == IR_LEVEL_KERNEL;
    }
    return false;
}

static bool check_stride(Verifier *v, const IrOp *op, const IrType *t, unsigned axis) {
    int64_t value = 0;
    if (!ir_check_aff(v, op, t->strides[axis])) return false;
    NEED(v, op, v->func->level == IR_LEVEL_TILE, "strides exist at tile level only");
    NEED(v, op, !aff_is_const(t->strides[axis], &value) || value >= 0, "stride %u is negative", axis);
    return true;
}

static bool check_extent(Verifier *v, const IrOp *op, const IrType *t, unsigned axis) {
    int64_t value = 0;
    if (!ir_check_aff(v, op, t->extents[axis])) return false;
    if (t->strides && !check_stride(v, op, t, axis)) return false;
    bool constant = aff_is_const(t->extents[axis], &value);
    NEED(v, op, !constant || value >= 0, "extent %u is negative", axis);
    bool fixed = t->kind == IR_TYPE_FRAG || t->kind == IR_TYPE_BUF || (t->kind == IR_TYPE_TILE && v->func->state != IR_STATE_OPEN);
    NEED(v, op, constant || !fixed, "extent %u is not constant", axis);
    NEED(v, op, !t->layout || t->layout->extents[axis] >= value, "the layout is smaller than extent %u", axis);
    NEED(v, op, t->kind != IR_TYPE_FRAG || value >= 1, "a frag's extents are at least 1");
    return true;
}

bool ir_check_type(Verifier *v, const IrOp *op, const IrType *t) {
    if (pointer_table_find(&v->types, t)) return true;
    NEED(v, op, kind_exists(v, t), "a value of this kind of type does not exist at this level");
    NEED(v, op, t->kind == IR_TYPE_TOKEN || (t->dtype > DTYPE_NONE && t->dtype < DTYPE_COUNT), "a type has no dtype");
    NEED(v, op, t->rank <= IR_MAX_RANK, "the rank is larger than %d", (int)IR_MAX_RANK);
    NEED(v, op, !t->layout || v->func->state == IR_STATE_MAPPED, "layouts exist in state mapped only");
    NEED(v, op, !t->layout || (t->layout->rank == t->rank && t->layout->is_memory == (t->kind == IR_TYPE_BUF)),
         "a layout of another rank or place than its type");
    for (unsigned i = 0; i < t->rank; i++)
        if (!check_extent(v, op, t, i)) return false;
    pointer_table_put(&v->types, t, (void *)t);
    return true;
}

/* ---- Attributes ---- */

bool ir_check_attrs(Verifier *v, const IrOp *op) {
    const IrOpInfo *info = ir_op_info(op->opcode);
    const char *cursor = info->attrs;
    IrAttrSpec spec;
    while (ir_attr_spec_next(&cursor, &spec)) NEED(v, op, spec.optional || ir_attr(op, spec.key), "the attribute %s is missing", spec.key);
    for (const IrAttr *attr = op->attrs; attr; attr = attr->next) {
        NEED(v, op, ir_attr_spec_find(info, attr->key, &spec), "%s has no attribute %s", info->name, attr->key);
        NEED(v, op, spec.any || spec.kind == attr->kind, "the attribute %s is of kind %s, not %s", attr->key, ir_attr_kind_name(attr->kind),
             ir_attr_kind_name(spec.kind));
        if (attr->kind == IR_ATTR_AFF && !ir_check_aff(v, op, attr->aff)) return false;
        if (attr->kind == IR_ATTR_TYPE && !ir_check_type(v, op, attr->type)) return false;
    }
    return true;
}

bool ir_check_axes(Verifier *v, const IrOp *op, const char *key, unsigned limit, const IrAttr **axes) {
    *axes = ir_attr(op, key);
    uint64_t seen = 0;
    NEED(v, op, (*axes)->count <= IR_MAX_RANK, "%s is too long", key);
    for (size_t i = 0; i < (*axes)->count; i++) {
        int64_t axis = (*axes)->ints[i];
        NEED(v, op, axis >= 0 && axis < (int64_t)limit, "%s: there is no axis %lld", key, (long long)axis);
        NEED(v, op, !(seen >> axis & 1), "%s: axis %lld stands twice", key, (long long)axis);
        seen |= (uint64_t)1 << axis;
    }
    return true;
}

bool ir_check_index_operands(Verifier *v, const IrOp *op, unsigned from) {
    for (unsigned i = from; i < op->operand_count; i++) NEED(v, op, ir_type_is_index(op->operands[i]->type), "operand %u is no index", i);
    return true;
}

/* ---- Type rules ---- */

static bool is_lanes(const IrType *t) {
    return ir_type_is_shaped(t) || ir_type_is_scalar(t);
}

/* `t` beside lanes of type `whole`: of that very type, or a scalar of its dtype for every lane. */
static bool fits(const IrType *t, const IrType *whole) {
    return t == whole || (ir_type_is_shaped(whole) && ir_type_is_scalar(t) && !t->is_index && t->dtype == whole->dtype);
}

static bool any_shaped(const IrOp *op) {
    for (unsigned i = 0; i < op->operand_count; i++)
        if (ir_type_is_shaped(op->operands[i]->type)) return true;
    return false;
}

static bool check_fit(Verifier *v, const IrOp *op, unsigned from, const IrType *whole) {
    for (unsigned i = from; i < op->operand_count; i++)
        NEED(v, op, fits(op->operands[i]->type, whole), "operand %u does not have the type of the others", i);
    return true;
}

static bool check_same(Verifier *v, const IrOp *op) {
    return check_fit(v, op, 0, op->results[0].type);
}

static bool check_compare(Verifier *v, const IrOp *op) {
    const IrType *result = op->results[0].type, *operand = op->operands[0]->type;
    for (unsigned i = 0; i < op->operand_count; i++)
        if (ir_type_is_shaped(op->operands[i]->type)) operand = op->operands[i]->type;
    NEED(v, op, result == ir_type_with_dtype(v->module, operand, DTYPE_BOOL), "the result is not bool in the operands' shape");
    return check_fit(v, op, 0, operand);
}

static bool check_select(Verifier *v, const IrOp *op) {
    const IrType *result = op->results[0].type, *cond = op->operands[0]->type;
    NEED(v, op, ir_type_is_bool(cond) || (ir_type_is_shaped(result) && cond == ir_type_with_dtype(v->module, result, DTYPE_BOOL)),
         "the condition is not bool in the result's shape");
    return check_fit(v, op, 1, result);
}

static bool check_cast(Verifier *v, const IrOp *op) {
    const IrType *from = op->operands[0]->type, *to = op->results[0].type;
    bool scalars = ir_type_is_scalar(from) && ir_type_is_scalar(to);
    NEED(v, op, scalars || (ir_type_is_shaped(from) && ir_type_with_dtype(v->module, from, to->dtype) == to), "a cast keeps the shape");
    return true;
}

/* What the dtype of the computation must be, by op. */
static bool dtype_allowed(IrOpcode opcode, Dtype t) {
    if (ir_math_info(opcode)) return dtype_is_float(t);
    switch (opcode) {
    case IR_DIV:
    case IR_FMA:
    case IR_SQRT:
    case IR_FLOOR:
    case IR_CEIL:
    case IR_TRUNC:
    case IR_RINT:
        return dtype_is_float(t);
    case IR_AND:
    case IR_OR:
    case IR_XOR:
    case IR_NOT:
        return !dtype_is_float(t);
    case IR_SHL:
    case IR_SHR:
        return dtype_is_int(t);
    case IR_ADD:
    case IR_SUB:
    case IR_MUL:
    case IR_FLOORDIV:
    case IR_MOD:
    case IR_NEG:
    case IR_ABS:
        return t != DTYPE_BOOL;
    default:
        return true;
    }
}

bool ir_check_type_rule(Verifier *v, const IrOp *op) {
    static const struct {
        const char *name;
        IrCheck check;
    } rules[] = {{"same", check_same}, {"compare", check_compare}, {"select", check_select}, {"cast", check_cast}};
    const char *rule = ir_op_info(op->opcode)->type_rule;
    if (strcmp(rule, "given") == 0) return true;
    const IrType *result = op->results[0].type;
    NEED(v, op, is_lanes(result), "the result is no scalar, vec, tile or tensor");
    NEED(v, op, !ir_type_is_shaped(result) || any_shaped(op), "scalars give a shape here; broadcast is an op of its own");
    NEED(v, op, dtype_allowed(op->opcode, op->operands[0]->type->dtype), "the op does not exist for %s",
         dtype_name(op->operands[0]->type->dtype));
    for (size_t i = 0; i < COUNT_OF(rules); i++)
        if (strcmp(rule, rules[i].name) == 0) return rules[i].check(v, op);
    return ir_finding(v, op, "ops.def names an unknown type rule");
}
