/* Signs and exponentials. */
#include "exponentials.h"

#include <math.h>

/* Above 0, if it is a number: a positive constant, also over a root. */
bool is_positive(const IrValue *v) {
    const IrOp *op = v->def;
    while (op && op->opcode == IR_CAST && dtype_is_float(op->operands[0]->type->dtype)) op = op->operands[0]->def;
    const IrOp *over = op && op->opcode == IR_DIV ? op->operands[1]->def : NULL;
    if (over && over->opcode == IR_SQRT) return is_positive(op->operands[0]);
    const IrAttr *value = op && op->opcode == IR_CONST ? ir_attr(op, "value") : NULL;
    return value && value->kind == IR_ATTR_FLOAT && value->number > 0 && isfinite(value->number);
}

bool is_exponential_of_filled(const IrValue *v, PresenceCache *cache, unsigned axis, PresenceAxis *absent) {
    const IrOp *op = v->def;
    while (op && op->opcode == IR_CAST) op = op->operands[0]->def;
    if (!op || (op->opcode != IR_EXP && op->opcode != IR_EXP2) || !ir_attr_bool(op, "not_positive")) return false;
    const IrOp *argument = op->operands[0]->def;
    bool scaled = argument && argument->opcode == IR_FMA && is_positive(argument->operands[1]);
    const IrOp *fill = argument && (scaled || argument->opcode == IR_SUB) ? argument->operands[0]->def : NULL;
    if (!fill || fill->opcode != IR_TILE_FILL || ir_attr_int(fill, "axis", -1) != (int64_t)axis) return false;
    const IrAttr *value = ir_attr(fill, "value");
    if (value->kind != IR_ATTR_FLOAT || value->number != -INFINITY) return false;
    *absent = presence_in(cache, fill->operands[0]).axes[axis];
    return true;
}
