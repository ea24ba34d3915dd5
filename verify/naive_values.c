/* Values of the operator as C expressions, for the naive form. */
#include "evaluate/evaluate_internal.h"
#include "naive.h"
#include "naive_internal.h"

#include <math.h>

/* ---- Values ---- */

const char *naive_number_text(Printer *p, const Node *node, double real, int64_t integer) {
    if (!node->is_real) return arena_printf(p->arena, "(int64_t)UINT64_C(%llu)", (unsigned long long)integer);
    if (isnan(real)) return "NAN";
    if (isinf(real)) return real > 0 ? "INFINITY" : "(-INFINITY)";
    return arena_printf(p->arena, "(%a)", real);
}

static const char *integer_c_name(Dtype dtype) {
    static const char *const names[2][4] = {{"uint8_t", "uint16_t", "uint32_t", "uint64_t"}, {"int8_t", "int16_t", "int32_t", "int64_t"}};
    unsigned size = (unsigned)dtype_size(dtype);
    for (unsigned k = 0; k < 4; k++)
        if (dtype != DTYPE_BOOL && size == 1u << k && dtype_bits(dtype) == 8 * size) return names[dtype_is_signed(dtype)][k];
    return NULL;
}

const char *naive_print_input(Printer *p, const Node *node, const Place *at) {
    size_t number = 0;
    Dtype dtype = node->shape.dtype;
    while (number < p->ev->binding->input_count && node->input != &p->ev->binding->inputs[number]) number++;
    if (!node->input->data || number == p->ev->binding->input_count) return naive_give_up(p, "its inputs are too large to be kept");
    if (!node->shape.elements) return "0";
    const char *flat = naive_flat_of(p, &node->shape, at);
    const char *direct = dtype == DTYPE_F32 ? "float" : dtype == DTYPE_F64 ? "double" : node->is_real ? NULL : integer_c_name(dtype);
    const char *text = direct ? arena_printf(p->arena, "((const %s *)args->inputs[%zu])[%s]", direct, number, flat)
                              : arena_printf(p->arena, "args->%s(%d, (const char *)args->inputs[%zu] + %u * (%s))",
                                             node->is_real ? "read" : "read_int", (int)dtype, number, (unsigned)dtype_size(dtype), flat);
    return naive_assign(p, node->is_real, direct ? 1 : 8, text);
}

const char *naive_wrapped(Printer *p, Dtype dtype, const char *value) {
    if (dtype == DTYPE_BOOL) return arena_printf(p->arena, "(%s) != 0", value);
    if (dtype_bits(dtype) >= 64) return value;
    return arena_printf(p->arena, "cut(%u, %d, %s)", dtype_bits(dtype), dtype_is_signed(dtype), value);
}

const char *naive_less_text(Printer *p, Dtype dtype, const char *a, const char *b) {
    return dtype_is_signed(dtype) ? arena_printf(p->arena, "%s < %s", a, b) : arena_printf(p->arena, "(uint64_t)%s < (uint64_t)%s", a, b);
}

const char *naive_integer_text(Printer *p, IrOpcode op, Dtype dtype, const char *a, const char *b) {
    Arena *arena = p->arena;
    const char *divide = dtype_is_signed(dtype) ? "floor_signed" : "floor_unsigned";
    switch (op) {
    case IR_ADD:
    case IR_SUB:
    case IR_MUL:
        return naive_wrapped(p, dtype,
                             arena_printf(arena, "(int64_t)((uint64_t)%s %c (uint64_t)%s)", a,
                                          op == IR_ADD   ? '+'
                                          : op == IR_SUB ? '-'
                                                         : '*',
                                          b));
    case IR_DIV:
    case IR_FLOORDIV:
        return naive_wrapped(p, dtype, arena_printf(arena, "%s(%s, %s)", divide, a, b));
    case IR_MOD:
        return arena_printf(arena, "%s ? (int64_t)((uint64_t)%s - (uint64_t)%s(%s, %s) * (uint64_t)%s) : 0", b, a, divide, a, b, b);
    case IR_MIN:
    case IR_MINNUM:
        return arena_printf(arena, "%s ? %s : %s", naive_less_text(p, dtype, a, b), a, b);
    case IR_MAX:
    case IR_MAXNUM:
        return arena_printf(arena, "%s ? %s : %s", naive_less_text(p, dtype, a, b), b, a);
    case IR_AND:
    case IR_OR:
    case IR_XOR:
        return arena_printf(arena, "%s %c %s", a, op == IR_AND ? '&' : op == IR_OR ? '|' : '^', b);
    case IR_NEG:
        return naive_wrapped(p, dtype, arena_printf(arena, "(int64_t)(0 - (uint64_t)%s)", a));
    case IR_ABS:
        return naive_wrapped(p, dtype,
                             dtype_is_signed(dtype) ? arena_printf(arena, "(%s < 0 ? (int64_t)(0 - (uint64_t)%s) : %s)", a, a, a) : a);
    case IR_NOT:
        return dtype == DTYPE_BOOL ? arena_printf(arena, "!%s", a) : naive_wrapped(p, dtype, arena_printf(arena, "~%s", a));
    case IR_FLOOR:
    case IR_CEIL:
    case IR_TRUNC:
    case IR_RINT:
        return a;
    default:
        return naive_give_up(p, "an integer operation has no naive form");
    }
}

static const char *function_name(IrOpcode op) {
    switch (op) {
#define MATH(id, name, ulps_f32, ulps_f64, reference, slope, domain, method)                                                               \
    case IR_##id:                                                                                                                          \
        return #reference;
#include "math.def"
#undef MATH
    case IR_SQRT:
        return "sqrt";
    case IR_ABS:
        return "fabs";
    case IR_FLOOR:
        return "floor";
    case IR_CEIL:
        return "ceil";
    case IR_TRUNC:
        return "trunc";
    case IR_RINT:
        return "rint";
    case IR_NEG:
        return "-";
    case IR_FLOORDIV:
        return "args->quotient";
    case IR_MOD:
        return "args->remainder";
    case IR_MAX:
        return "most";
    default:
        return NULL;
    }
}

static const char *real_text(Printer *p, const Node *node, const char *const *x) {
    IrOpcode op = node->opcode;
    char sign = op == IR_ADD ? '+' : op == IR_SUB ? '-' : op == IR_MUL ? '*' : op == IR_DIV ? '/' : 0;
    if (sign) return arena_printf(p->arena, "%s %c %s", x[0], sign, x[1]);
    if (op == IR_FMA) return arena_printf(p->arena, "fma(%s, %s, %s)", x[0], x[1], x[2]);
    if (op == IR_MIN) return arena_printf(p->arena, "-most(-%s, -%s)", x[0], x[1]);
    if (op == IR_MAXNUM) return arena_printf(p->arena, "number(%s, %s, most(%s, %s))", x[0], x[1], x[0], x[1]);
    if (op == IR_MINNUM) return arena_printf(p->arena, "number(%s, %s, -most(-%s, -%s))", x[0], x[1], x[0], x[1]);
    const char *name = function_name(op);
    if (!name) return naive_give_up(p, "an operation has no naive form");
    return node->operand_count == 1 ? arena_printf(p->arena, "%s(%s)", name, x[0]) : arena_printf(p->arena, "%s(%s, %s)", name, x[0], x[1]);
}

static const char *cast_text(Printer *p, const Node *node, const char *x) {
    const Node *from = node->operands[0];
    Dtype to = node->shape.dtype;
    if (node->is_real)
        return from->is_real ? x : arena_printf(p->arena, from->shape.dtype == DTYPE_U64 ? "(double)(uint64_t)%s" : "(double)%s", x);
    if (!from->is_real) return naive_wrapped(p, to, x);
    return to == DTYPE_BOOL ? arena_printf(p->arena, "%s != 0", x) : arena_printf(p->arena, "args->to_integer(%d, %s)", (int)to, x);
}

static const char *compare_text(Printer *p, const Node *node, const char *a, const char *b) {
    const Node *from = node->operands[0];
    bool plain = from->is_real || dtype_is_signed(from->shape.dtype);
    const char *sign = node->opcode == IR_LT ? "<" : node->opcode == IR_LE ? "<=" : node->opcode == IR_EQ ? "==" : "!=";
    return arena_printf(p->arena, plain ? "%s %s %s" : "(uint64_t)%s %s (uint64_t)%s", a, sign, b);
}

const char *naive_print_lanewise(Printer *p, const Node *node, size_t place) {
    const char *x[3] = {"0", "0", "0"};
    for (unsigned i = 0; i < node->operand_count; i++) x[i] = naive_print_value(p, node->operands[i], place);
    switch (node->opcode) {
    case IR_LT:
    case IR_LE:
    case IR_EQ:
    case IR_NE:
        return naive_assign(p, false, 1, compare_text(p, node, x[0], x[1]));
    case IR_SELECT:
        return naive_assign(p, node->is_real, 1, arena_printf(p->arena, "%s ? %s : %s", x[0], x[1], x[2]));
    case IR_CAST:
        return naive_assign(p, node->is_real, 1, cast_text(p, node, x[0]));
    default:
        break;
    }
    if (node->is_real) return naive_assign(p, true, ir_math_info(node->opcode) ? 16 : 1, real_text(p, node, x));
    if (node->opcode == IR_FMA) {
        const char *product = naive_assign(p, false, 1, naive_integer_text(p, IR_MUL, node->shape.dtype, x[0], x[1]));
        return naive_assign(p, false, 1, naive_integer_text(p, IR_ADD, node->shape.dtype, product, x[2]));
    }
    return naive_assign(p, false, 1, naive_integer_text(p, node->opcode, node->shape.dtype, x[0], x[1]));
}
