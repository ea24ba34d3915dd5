/* Constants and exact folding: what is computed here has the very bits the target would give. */
#include <math.h>

#include "analyzer.h"
#include "ir_internal.h"

int64_t ir_wrap_int(Dtype t, int64_t value) {
    unsigned bits = dtype_bits(t);
    if (t == DTYPE_BOOL) return value != 0;
    if (bits >= 64) return value;
    ANALYZER_ASSUME(bits > 0);
    uint64_t mask = ((uint64_t)1 << bits) - 1, low = (uint64_t)value & mask;
    bool negative = dtype_is_signed(t) && (low >> (bits - 1)) != 0;
    return (int64_t)(negative ? low | ~mask : low);
}

bool ir_const_of(const IrValue *v, IrConst *c) {
    if (!v->def || v->def->opcode != IR_CONST) return false;
    const IrAttr *value = ir_attr(v->def, "value");
    if (!value) return false;
    bool is_float = dtype_is_float(v->type->dtype);
    if (is_float && value->kind == IR_ATTR_FLOAT)
        *c = (IrConst){.is_float = true, .number = dtype_round(v->type->dtype, value->number)};
    else if (!is_float && value->kind == IR_ATTR_INT)
        *c = (IrConst){.integer = ir_wrap_int(v->type->dtype, value->integer)};
    else
        return false;
    return true;
}

/* ---- Integers ---- */

static int64_t floor_divide(Dtype t, int64_t a, int64_t b) {
    if (!b) return 0;
    if (!dtype_is_signed(t)) return (int64_t)((uint64_t)a / (uint64_t)b);
    if (b == -1) return (int64_t)(0 - (uint64_t)a);
    int64_t quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t floor_modulo(Dtype t, int64_t a, int64_t b) {
    if (!b) return 0;
    return (int64_t)((uint64_t)a - (uint64_t)floor_divide(t, a, b) * (uint64_t)b);
}

static int64_t shift(IrOpcode opcode, Dtype t, int64_t a, int64_t count) {
    unsigned bits = dtype_bits(t);
    bool all = (uint64_t)count >= bits;
    if (opcode == IR_SHL) return all ? 0 : (int64_t)((uint64_t)a << count);
    if (!dtype_is_signed(t)) return all ? 0 : (int64_t)((uint64_t)a >> count);
    if (all) return a < 0 ? -1 : 0;
    return a < 0 ? ~(int64_t)(~(uint64_t)a >> count) : (int64_t)((uint64_t)a >> count);
}

static bool int_less(Dtype t, int64_t a, int64_t b) {
    return dtype_is_signed(t) ? a < b : (uint64_t)a < (uint64_t)b;
}

static bool fold_int(IrOpcode opcode, Dtype t, const IrConst *in, int64_t *out) {
    int64_t a = in[0].integer, b = in[1].integer;
    uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
    switch (opcode) {
    case IR_ADD:
        *out = (int64_t)(ua + ub);
        break;
    case IR_SUB:
        *out = (int64_t)(ua - ub);
        break;
    case IR_MUL:
        *out = (int64_t)(ua * ub);
        break;
    case IR_FLOORDIV:
        *out = floor_divide(t, a, b);
        break;
    case IR_MOD:
        *out = floor_modulo(t, a, b);
        break;
    case IR_MIN:
    case IR_MINNUM:
        *out = int_less(t, a, b) ? a : b;
        break;
    case IR_MAX:
    case IR_MAXNUM:
        *out = int_less(t, a, b) ? b : a;
        break;
    case IR_NEG:
        *out = (int64_t)(0 - ua);
        break;
    case IR_ABS:
        *out = dtype_is_signed(t) && a < 0 ? (int64_t)(0 - ua) : a;
        break;
    case IR_AND:
        *out = a & b;
        break;
    case IR_OR:
        *out = a | b;
        break;
    case IR_XOR:
        *out = a ^ b;
        break;
    case IR_NOT:
        *out = t == DTYPE_BOOL ? !a : ~a;
        break;
    case IR_SHL:
    case IR_SHR:
        *out = shift(opcode, t, a, b);
        break;
    case IR_LT:
        *out = int_less(t, a, b);
        break;
    case IR_LE:
        *out = !int_less(t, b, a);
        break;
    case IR_EQ:
        *out = a == b;
        break;
    case IR_NE:
        *out = a != b;
        break;
    default:
        return false;
    }
    return true;
}

/* ---- Floats ---- */

static double pick(double a, double b, bool smaller) {
    if (a == b) return (signbit(a) != 0) == smaller ? a : b;
    return (a < b) == smaller ? a : b;
}

static double min_max(IrOpcode opcode, double a, double b) {
    bool smaller = opcode == IR_MIN || opcode == IR_MINNUM;
    bool propagates = opcode == IR_MIN || opcode == IR_MAX;
    if (isnan(a)) return propagates ? a : b;
    if (isnan(b)) return propagates ? b : a;
    return pick(a, b, smaller);
}

/* One double operation and one rounding to t give the correctly rounded result for + - * / sqrt,
 * as 53 >= 2 p + 2 for every narrower format. fma has no such margin and uses its own type. */
static bool fold_float(IrOpcode opcode, Dtype t, const IrConst *in, double *out) {
    double a = in[0].number, b = in[1].number;
    switch (opcode) {
    case IR_ADD:
        *out = a + b;
        break;
    case IR_SUB:
        *out = a - b;
        break;
    case IR_MUL:
        *out = a * b;
        break;
    case IR_DIV:
        *out = a / b;
        break;
    case IR_MIN:
    case IR_MAX:
    case IR_MINNUM:
    case IR_MAXNUM:
        *out = min_max(opcode, a, b);
        break;
    case IR_NEG:
        *out = -a;
        break;
    case IR_ABS:
        *out = fabs(a);
        break;
    case IR_SQRT:
        *out = sqrt(a);
        break;
    case IR_FLOOR:
        *out = floor(a);
        break;
    case IR_CEIL:
        *out = ceil(a);
        break;
    case IR_TRUNC:
        *out = trunc(a);
        break;
    case IR_RINT:
        *out = nearbyint(a);
        break;
    case IR_FMA:
        if (t == DTYPE_F64)
            *out = fma(a, b, in[2].number);
        else if (t == DTYPE_F32)
            *out = (double)fmaf((float)a, (float)b, (float)in[2].number);
        else
            return false;
        break;
    default:
        return false;
    }
    *out = dtype_round(t, *out);
    return true;
}

static bool fold_float_compare(IrOpcode opcode, const IrConst *in, int64_t *out) {
    double a = in[0].number, b = in[1].number;
    switch (opcode) {
    case IR_LT:
        *out = a < b;
        break;
    case IR_LE:
        *out = a <= b;
        break;
    case IR_EQ:
        *out = a == b;
        break;
    case IR_NE:
        *out = a != b;
        break;
    default:
        return false;
    }
    return true;
}

static bool fold_cast(Dtype to, Dtype from, IrConst in, IrConst *out) {
    bool to_float = dtype_is_float(to);
    if (to == DTYPE_BOOL && from != DTYPE_BOOL) return false;
    *out = (IrConst){.is_float = to_float};
    if (in.is_float && to_float) {
        out->number = dtype_round(to, in.number);
    } else if (in.is_float) {
        char memory[8] = {0};
        dtype_write(to, memory, in.number);
        out->integer = dtype_read_int(to, memory);
    } else if (to_float) {
        /* Beyond 2^53 the way over double would round twice. */
        if (in.integer > (1ll << 53) || in.integer < -(1ll << 53)) return false;
        out->number = dtype_round(to, (double)in.integer);
    } else {
        out->integer = ir_wrap_int(to, in.integer);
    }
    return true;
}

bool ir_fold(IrOpcode opcode, const IrType *result, const IrType *operand, unsigned count, const IrConst *in, IrConst *out) {
    IrConst padded[3] = {{0}, {0}, {0}};
    for (unsigned i = 0; i < count && i < 3; i++) padded[i] = in[i];
    if (opcode == IR_CAST) return fold_cast(result->dtype, operand->dtype, in[0], out);
    if (opcode == IR_SELECT) {
        *out = padded[in[0].integer ? 1 : 2];
        return true;
    }
    *out = (IrConst){0};
    if (!dtype_is_float(operand->dtype)) {
        if (!fold_int(opcode, operand->dtype, padded, &out->integer)) return false;
        out->integer = ir_wrap_int(result->dtype, out->integer);
        return true;
    }
    if (fold_float_compare(opcode, padded, &out->integer)) return true;
    out->is_float = true;
    return fold_float(opcode, operand->dtype, padded, &out->number);
}

/* ---- Identities ---- */

typedef enum { KEEP_NONE, KEEP_X, KEEP_ZERO } Keep;

/* x op c for an integer or boolean constant c on the right. */
static Keep int_right(IrOpcode opcode, Dtype t, int64_t c) {
    int64_t ones = t == DTYPE_BOOL ? 1 : ir_wrap_int(t, -1);
    switch (opcode) {
    case IR_ADD:
    case IR_SUB:
    case IR_OR:
    case IR_XOR:
    case IR_SHL:
    case IR_SHR:
        return c == 0 ? KEEP_X : KEEP_NONE;
    case IR_MUL:
        return c == 1 ? KEEP_X : c == 0 ? KEEP_ZERO : KEEP_NONE;
    case IR_FLOORDIV:
        return c == 1 ? KEEP_X : c == 0 ? KEEP_ZERO : KEEP_NONE;
    case IR_MOD:
        return c == 1 || c == 0 ? KEEP_ZERO : KEEP_NONE;
    case IR_AND:
        return c == ones ? KEEP_X : c == 0 ? KEEP_ZERO : KEEP_NONE;
    default:
        return KEEP_NONE;
    }
}

/* Exact for every x, signed zeros and NaN included. */
static Keep float_right(IrOpcode opcode, double c) {
    switch (opcode) {
    case IR_ADD:
        return c == 0 && signbit(c) ? KEEP_X : KEEP_NONE;
    case IR_SUB:
        return c == 0 && !signbit(c) ? KEEP_X : KEEP_NONE;
    case IR_MUL:
    case IR_DIV:
        return c == 1 ? KEEP_X : KEEP_NONE;
    default:
        return KEEP_NONE;
    }
}

static Keep same_operands(IrOpcode opcode, Dtype t) {
    switch (opcode) {
    case IR_MIN:
    case IR_MAX:
    case IR_MINNUM:
    case IR_MAXNUM:
    case IR_AND:
    case IR_OR:
        return KEEP_X;
    case IR_SUB:
    case IR_XOR:
        return dtype_is_float(t) ? KEEP_NONE : KEEP_ZERO;
    case IR_MOD:
        return dtype_is_float(t) ? KEEP_NONE : KEEP_ZERO;
    default:
        return KEEP_NONE;
    }
}

bool ir_fold_identity(IrOpcode opcode, IrValue *x, IrValue *y, const IrType *result, IrValue **value, IrConst *c) {
    IrConst k;
    Keep keep = KEEP_NONE;
    if (x == y) keep = same_operands(opcode, x->type->dtype);
    if (keep == KEEP_NONE && (ir_op_info(opcode)->traits & IR_COMMUTATIVE) && ir_const_of(x, &k)) {
        IrValue *swap = x;
        x = y;
        y = swap;
    }
    if (keep == KEEP_NONE && ir_const_of(y, &k))
        keep = k.is_float ? float_right(opcode, k.number) : int_right(opcode, x->type->dtype, k.integer);
    *c = (IrConst){0};
    *value = keep == KEEP_X && x->type == result ? x : NULL;
    return *value || keep == KEEP_ZERO;
}
