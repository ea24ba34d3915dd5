/* Range analysis of values: an interval, and whether the value may be NaN. The expansions of functions ask it, to omit special cases that
 * cannot occur. */
#include "math_internal.h"

#include <math.h>

enum {
    MOST_DEPTH = 8 /* operations that are looked through */
};

static const MathRange all = {-INFINITY, INFINITY};

/* A bound that rounding does not cross; an interval's that is not a number is none. */
static MathRange outward(Dtype dtype, double lo, double hi) {
    if (isnan(lo)) lo = -INFINITY;
    if (isnan(hi)) hi = INFINITY;
    double least = dtype_round(dtype, lo), most = dtype_round(dtype, hi);
    if (least != lo && dtype == DTYPE_F32) least = nextafterf((float)least, -INFINITY);
    if (most != hi && dtype == DTYPE_F32) most = nextafterf((float)most, INFINITY);
    return (MathRange){least, most};
}

static MathRange widest(MathRange a, MathRange b) {
    return (MathRange){fmin(a.lo, b.lo), fmax(a.hi, b.hi)};
}

static MathRange product(const IrOp *op, MathRange a, MathRange b) {
    Dtype dtype = op->results[0].type->dtype;
    if (op->operands[0] == op->operands[1]) return outward(dtype, 0, INFINITY);
    return a.lo >= 0 && b.lo >= 0 ? outward(dtype, a.lo * b.lo, INFINITY) : all;
}

/* As its type holds it: 1e-50 is 0 in f32. */
static MathRange constant(const IrOp *op) {
    const IrAttr *value = ir_attr(op, "value");
    double number = dtype_round(op->results[0].type->dtype, value->kind == IR_ATTR_FLOAT ? value->number : (double)value->integer);
    return isnan(number) ? all : (MathRange){number, number};
}

static MathRange range_within(const IrValue *x, unsigned depth);

/* Of what is made of two values. */
static MathRange range_of_two(const IrOp *op, unsigned depth) {
    Dtype dtype = op->results[0].type->dtype;
    bool chosen = op->opcode == IR_SELECT;
    MathRange a = range_within(op->operands[chosen], depth), b = range_within(op->operands[1 + chosen], depth);
    switch (op->opcode) {
    case IR_ADD:
        return outward(dtype, a.lo + b.lo, a.hi + b.hi);
    case IR_SUB:
        return outward(dtype, a.lo - b.hi, a.hi - b.lo);
    case IR_MUL:
        return product(op, a, b);
    case IR_MAX:
        return (MathRange){fmax(a.lo, b.lo), fmax(a.hi, b.hi)};
    case IR_MIN:
        return (MathRange){fmin(a.lo, b.lo), fmin(a.hi, b.hi)};
    default:
        return widest(a, b);
    }
}

static MathRange range_within(const IrValue *x, unsigned depth) {
    const IrOp *op = x->def;
    if (!op || !depth || !dtype_is_float(x->type->dtype) || dtype_bits(x->type->dtype) < 32) return all;
    switch (op->opcode) {
    case IR_CONST:
        return constant(op);
    case IR_ABS:
    case IR_SQRT:
        return (MathRange){0, INFINITY};
    case IR_EXP:
        return (MathRange){0, math_from_0_to_1(x) ? 1 : INFINITY};
    case IR_NEG: {
        MathRange a = range_within(op->operands[0], depth - 1);
        return (MathRange){-a.hi, -a.lo};
    }
    case IR_ADD:
    case IR_SUB:
    case IR_MUL:
    case IR_MAX:
    case IR_MIN:
    case IR_SELECT:
        return range_of_two(op, depth - 1);
    default:
        return all;
    }
}

MathRange math_range(const IrValue *x) {
    return range_within(x, MOST_DEPTH);
}
