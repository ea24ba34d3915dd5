/* Arithmetic of integers and floats as C expressions. */
#include "c_internal.h"

#include <string.h>

/* ---- Integers ---- */

CExpr c_infix(CPrinter *p, const IrOp *op, const char *symbol, int prec, int left, int right) {
    CExpr a = c_use(p, op->operands[0]), b = c_use(p, op->operands[1]);
    return c_make(p, prec, "%s %s %s", c_text(p, a, left), symbol, c_text(p, b, right));
}

/* The left operand of index arithmetic, widened when the result may not fit an int although both
 * operands do. */
static CExpr widened(CPrinter *p, const IrOp *op, unsigned index, Range result) {
    CExpr e = c_use(p, op->operands[index]);
    if (range_fits_int(result)) return e;
    for (unsigned i = 0; i < op->operand_count; i++)
        if (!range_fits_int(c_range(p, op->operands[i]))) return e;
    return c_make(p, C_PREC_UNARY, "(%s)%s", p->dialect->index_type, c_text(p, e, C_PREC_UNARY));
}

static CExpr index_sum(CPrinter *p, const IrOp *op, Range result) {
    Range x = c_range(p, op->operands[0]), y = c_range(p, op->operands[1]);
    CExpr a = widened(p, op, 0, result), b = c_use(p, op->operands[1]);
    bool minus = op->opcode == IR_SUB;
    if (range_is_const(y) && y.lo == 0) return a;
    if (!minus && range_is_const(x) && x.lo == 0) return b;
    if (!minus && range_is_const(y) && y.lo < 0 && y.lo > INT32_MIN)
        return c_make(p, C_PREC_ADD, "%s - %s", c_text(p, a, C_PREC_ADD), c_int_text(p, -y.lo));
    int right = minus ? C_PREC_ADD + 1 : C_PREC_ADD;
    return c_make(p, C_PREC_ADD, "%s %c %s", c_text(p, a, C_PREC_ADD), minus ? '-' : '+', c_text(p, b, right));
}

static CExpr index_product(CPrinter *p, const IrOp *op, Range result) {
    Range x = c_range(p, op->operands[0]), y = c_range(p, op->operands[1]);
    CExpr a = widened(p, op, 0, result), b = c_use(p, op->operands[1]);
    if (range_is_const(y) && y.lo == 1) return a;
    if (range_is_const(x) && x.lo == 1) return b;
    return c_make(p, C_PREC_MUL, "%s * %s", c_text(p, a, C_PREC_MUL), c_text(p, b, C_PREC_MUL + 1));
}

/* `/` and `%` truncate: they are floor division for a >= 0, b > 0. What fits an int (the number of a block) is divided by whatever extent
 * in 32 bits, which takes a device a tenth of the instructions. */
static CExpr division(CPrinter *p, const IrOp *op, Dtype t) {
    bool divide = op->opcode == IR_FLOORDIV;
    Range x = c_range(p, op->operands[0]), y = c_range(p, op->operands[1]);
    if (p->dialect->mask == C_CUDA && t == DTYPE_NONE && x.lo >= 0 && range_fits_int(x) && y.lo >= 0 && !range_fits_int(y))
        return c_helper_call(p, divide ? C_HELPER_DIV_NARROW : C_HELPER_MOD_NARROW, op);
    bool plain = y.lo > 0 && (x.lo >= 0 || (t != DTYPE_NONE && !dtype_is_signed(t)));
    if (plain) {
        if (t == DTYPE_NONE && range_is_const(y) && y.lo == 1 && divide) return c_use(p, op->operands[0]);
        return c_infix(p, op, divide ? "/" : "%", C_PREC_MUL, C_PREC_MUL, C_PREC_MUL + 1);
    }
    if ((t != DTYPE_NONE && !dtype_is_signed(t)) || (x.lo >= 0 && y.lo >= 0)) {
        CExpr by = c_use(p, op->operands[1]);
        if (by.prec == C_PREC_PRIMARY && !strpbrk(by.text, "([.")) {
            CExpr a = c_use(p, op->operands[0]);
            return c_make(p, C_PREC_COND, "%s == 0 ? 0 : %s %c %s", by.text, c_text(p, a, C_PREC_MUL), divide ? '/' : '%', by.text);
        }
        return c_helper_call(p, divide ? C_HELPER_UDIV : C_HELPER_UMOD, op);
    }
    return c_helper_call(p, divide ? C_HELPER_FLOORDIV : C_HELPER_FLOORMOD, op);
}

static CExpr shift(CPrinter *p, const IrOp *op, Dtype t) {
    bool left = op->opcode == IR_SHL, index = t == DTYPE_NONE;
    Range n = c_range(p, op->operands[1]);
    unsigned bits = index ? 64 : dtype_bits(t);
    bool constant = range_is_const(n) && n.lo >= 0 && n.lo < (int64_t)bits;
    bool wrapped = index || bits >= 32;
    if (constant && wrapped && (!left || !dtype_is_signed(t) || index)) {
        CExpr a = left && index ? widened(p, op, 0, c_range(p, &op->results[0])) : c_use(p, op->operands[0]);
        return c_make(p, C_PREC_SHIFT, "%s %s %s", c_text(p, a, C_PREC_UNARY), left ? "<<" : ">>", c_int_text(p, n.lo));
    }
    if (left) return c_helper_call(p, C_HELPER_SHL, op);
    return c_helper_call(p, !index && !dtype_is_signed(t) ? C_HELPER_SHR_UNSIGNED : C_HELPER_SHR_SIGNED, op);
}

/* add, sub, mul of typed integers wrap: signed ones go through unsigned arithmetic. */
static CExpr wrapping(CPrinter *p, const IrOp *op, Dtype t, const char *symbol, int prec, CHelper helper) {
    if (t == DTYPE_U32 || t == DTYPE_U64) return c_infix(p, op, symbol, prec, prec, prec + 1);
    return c_helper_call(p, helper, op);
}

static CExpr bitwise(CPrinter *p, const IrOp *op, Dtype t) {
    bool logic = t == DTYPE_BOOL;
    if (op->opcode == IR_AND)
        return logic ? c_infix(p, op, "&&", C_PREC_AND, C_PREC_AND, C_PREC_BIT_OR)
                     : c_infix(p, op, "&", C_PREC_BIT_AND, C_PREC_UNARY, C_PREC_UNARY);
    if (op->opcode == IR_OR)
        return logic ? c_infix(p, op, "||", C_PREC_OR, C_PREC_BIT_OR, C_PREC_BIT_OR)
                     : c_infix(p, op, "|", C_PREC_BIT_OR, C_PREC_UNARY, C_PREC_UNARY);
    return logic ? c_infix(p, op, "!=", C_PREC_EQ, C_PREC_UNARY, C_PREC_UNARY)
                 : c_infix(p, op, "^", C_PREC_BIT_XOR, C_PREC_UNARY, C_PREC_UNARY);
}

/* CUDA's min and max are overloaded: both operands take the index type. */
static CExpr index_extreme(CPrinter *p, const IrOp *op, const char *name) {
    const char *x[2];
    for (unsigned i = 0; i < 2; i++) {
        CExpr e = c_use(p, op->operands[i]);
        Range r = c_range(p, op->operands[i]);
        x[i] = e.text;
        if (range_is_const(r))
            x[i] = arena_printf(p->arena, "%lldLL", (long long)r.lo);
        else if (range_fits_int(r))
            x[i] = arena_printf(p->arena, "(%s)%s", p->dialect->index_type, c_text(p, e, C_PREC_UNARY));
    }
    return c_make(p, C_PREC_PRIMARY, "%s(%s, %s)", name, x[0], x[1]);
}

CExpr c_integer(CPrinter *p, const IrOp *op, Dtype t) {
    Range result = c_range(p, &op->results[0]);
    bool index = t == DTYPE_NONE;
    switch (op->opcode) {
    case IR_ADD:
        return index ? index_sum(p, op, result) : wrapping(p, op, t, "+", C_PREC_ADD, C_HELPER_ADD_WRAP);
    case IR_SUB:
        return index ? index_sum(p, op, result) : wrapping(p, op, t, "-", C_PREC_ADD, C_HELPER_SUB_WRAP);
    case IR_MUL:
        return index ? index_product(p, op, result) : wrapping(p, op, t, "*", C_PREC_MUL, C_HELPER_MUL_WRAP);
    case IR_FLOORDIV:
    case IR_MOD:
        return division(p, op, t);
    case IR_MIN:
    case IR_MINNUM:
        if (index && p->dialect->gpu) return index_extreme(p, op, "min");
        return c_helper_call(p, C_HELPER_MIN_INT, op);
    case IR_MAX:
    case IR_MAXNUM:
        if (index && p->dialect->gpu) return index_extreme(p, op, "max");
        return c_helper_call(p, C_HELPER_MAX_INT, op);
    case IR_NEG:
        if (index) return c_make(p, C_PREC_UNARY, "-%s", c_text(p, c_use(p, op->operands[0]), C_PREC_PRIMARY));
        return c_helper_call(p, C_HELPER_NEG_WRAP, op);
    case IR_ABS:
        if (!index && !dtype_is_signed(t)) return c_use(p, op->operands[0]);
        return c_helper_call(p, C_HELPER_ABS_WRAP, op);
    case IR_AND:
    case IR_OR:
    case IR_XOR:
        return bitwise(p, op, t);
    case IR_NOT:
        if (t == DTYPE_BOOL) return c_make(p, C_PREC_UNARY, "!%s", c_text(p, c_use(p, op->operands[0]), C_PREC_UNARY));
        return c_make(p, C_PREC_UNARY, "(%s)~%s", index ? p->dialect->index_type : c_type(p, t),
                      c_text(p, c_use(p, op->operands[0]), C_PREC_UNARY));
    case IR_SHL:
    case IR_SHR:
        return shift(p, op, t);
    default:
        break;
    }
    c_fail(p, op, "this operation on integers");
    return (CExpr){"0", C_PREC_PRIMARY};
}

/* ---- Floats ---- */

static CExpr library(CPrinter *p, const IrOp *op, const char *stem, Dtype t) {
    const char *name = arena_printf(p->arena, "%s%s%s", p->dialect->builtin, stem, t == DTYPE_F32 ? "f" : "");
    return c_call(p, name, op->operand_count, op);
}

static CExpr float_extreme(CPrinter *p, const IrOp *op, Dtype t) {
    bool gpu = p->dialect->gpu, wide = t == DTYPE_F64;
    if (gpu && op->opcode == IR_MINNUM) return library(p, op, "fmin", t);
    if (gpu && op->opcode == IR_MAXNUM) return library(p, op, "fmax", t);
    CHelper id;
    switch (op->opcode) {
    case IR_MIN:
        id = gpu ? wide ? C_HELPER_MIN_F64_PTX : C_HELPER_MIN_F32_PTX : wide ? C_HELPER_MIN_F64 : C_HELPER_MIN_F32;
        break;
    case IR_MAX:
        id = gpu ? wide ? C_HELPER_MAX_F64_PTX : C_HELPER_MAX_F32_PTX : wide ? C_HELPER_MAX_F64 : C_HELPER_MAX_F32;
        break;
    case IR_MINNUM:
        id = wide ? C_HELPER_MINNUM_F64 : C_HELPER_MINNUM_F32;
        break;
    default:
        id = wide ? C_HELPER_MAXNUM_F64 : C_HELPER_MAXNUM_F32;
        break;
    }
    return c_helper_call(p, id, op);
}

static CExpr negated(CPrinter *p, const IrOp *op) {
    CExpr a = c_use(p, op->operands[0]);
    return c_make(p, C_PREC_UNARY, "-%s", a.text[0] == '-' ? arena_printf(p->arena, "(%s)", a.text) : c_text(p, a, C_PREC_UNARY));
}

/* nvcc's own reciprocal looks for divisors near the ends of the range first, and warns of a quotient by a constant zero, whose result is defined. */
static CExpr quotient(CPrinter *p, const IrOp *op, Dtype t) {
    if (p->dialect->gpu && t == DTYPE_F32 && op->results[0].type->width == 1 && ir_attr_bool(op, "reciprocal")) {
        CHelper id = ir_attr(op, "bits") ? C_HELPER_RECIPROCAL_NARROW : C_HELPER_RECIPROCAL;
        return c_make(p, C_PREC_PRIMARY, "%s(%s)", c_helper(p, id, DTYPE_NONE, DTYPE_NONE), c_use(p, op->operands[1]).text);
    }
    const IrOp *by = op->operands[1]->def;
    const IrAttr *value = by && by->opcode == IR_CONST ? ir_attr(by, "value") : NULL;
    if (p->dialect->gpu && value && value->kind == IR_ATTR_FLOAT && value->number == 0)
        return c_call(p, t == DTYPE_F32 ? "__fdiv_rn" : "__ddiv_rn", 2, op);
    return c_infix(p, op, "/", C_PREC_MUL, C_PREC_MUL, C_PREC_MUL + 1);
}

CExpr c_floating(CPrinter *p, const IrOp *op, Dtype t) {
    if (t != DTYPE_F32 && t != DTYPE_F64) c_fail(p, op, "arithmetic on floats narrower than f32");
    switch (op->opcode) {
    case IR_ADD:
        return c_infix(p, op, "+", C_PREC_ADD, C_PREC_ADD, C_PREC_ADD + 1);
    case IR_SUB:
        return c_infix(p, op, "-", C_PREC_ADD, C_PREC_ADD, C_PREC_ADD + 1);
    case IR_MUL:
        return c_infix(p, op, "*", C_PREC_MUL, C_PREC_MUL, C_PREC_MUL + 1);
    case IR_DIV:
        return quotient(p, op, t);
    case IR_NEG:
        return negated(p, op);
    case IR_MIN:
    case IR_MAX:
    case IR_MINNUM:
    case IR_MAXNUM:
        return float_extreme(p, op, t);
    case IR_FMA:
        return library(p, op, "fma", t);
    case IR_EXP2:
    case IR_LOG2:
        if (!p->dialect->gpu || !ir_attr_bool(op, "machine")) break;
        return c_helper_call(p, op->opcode == IR_EXP2 ? C_HELPER_POWER_OF_TWO : C_HELPER_BINARY_LOGARITHM, op);
    case IR_ABS:
        return library(p, op, "fabs", t);
    case IR_SQRT:
        return library(p, op, "sqrt", t);
    case IR_FLOOR:
        return library(p, op, "floor", t);
    case IR_CEIL:
        return library(p, op, "ceil", t);
    case IR_TRUNC:
        return library(p, op, "trunc", t);
    case IR_RINT:
        return library(p, op, "rint", t);
    default:
        break;
    }
    c_fail(p, op, "this operation on floats: it is to be expanded before");
    return (CExpr){"0", C_PREC_PRIMARY};
}
