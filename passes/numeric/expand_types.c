/* Pass expand_types: what machines have no instruction for becomes f32 and integer operations.
 *
 * what:   arithmetic and comparisons of floats narrower than f32 are done in f32 and rounded once;
 *         conversions go by steps that every target has (f32 with f16 and bf16; f32, f64 and
 *         integers), and so that nothing is rounded twice; 8-bit floats are integer operations on
 *         their bits. After it, a narrow float is loaded, stored, selected, bitcast, or converted
 *         from or to f32, the 8-bit ones without the last.
 * needs:  kernel level.
 * keeps:  values, to the bit (of a NaN, only that it is one).
 * breaks: nothing.
 * source: rounding to odd: Boldo and Melquiond, Emulation of FMA and correctly rounded sums (2008).
 *
 *   %y = cast(%x : f64) : f16    =>    %s = f64 to f32, to odd; %y = cast(%s) : f16
 */
#include "math_internal.h"

#include <math.h>

static bool is_narrow(Dtype t) {
    return dtype_is_float(t) && dtype_bits(t) < 32;
}

static IrValue *constant(Math *m, const IrType *type, uint64_t value) {
    return ir_const_int(&m->b, type, (int64_t)value);
}

static IrValue *with(Math *m, IrOpcode opcode, IrValue *a, uint64_t value) {
    return math_op(m, opcode, a, constant(m, a->type, value));
}

static IrValue *to(Math *m, IrValue *x, Dtype dtype) {
    const IrType *type = ir_type_vec(m->module, dtype, x->type->width);
    return x->type == type ? x : ir_cast(&m->b, x, type);
}

static IrValue *reinterpret(Math *m, IrValue *x, Dtype dtype) {
    const IrType *type = ir_type_vec(m->module, dtype, x->type->width);
    return ir_result(ir_op_create(&m->b, IR_BITCAST, 1, &x, 1, &type), 0);
}

/* ---- 8-bit floats ---- */

typedef struct {
    unsigned mantissa, bias;
    unsigned nan;      /* the NaN that conversions give */
    unsigned overflow; /* beyond the largest number: infinity or NaN */
} ByteFormat;

static ByteFormat byte_format(Dtype t) {
    return t == DTYPE_F8E4M3 ? (ByteFormat){3, 7, 0x7F, 0x7F} : (ByteFormat){2, 15, 0x7E, 0x7C};
}

/* The bits as those of an f32 with a bias too small, times a power of two; exact for denormals. */
static IrValue *byte_to_f32(Math *m, IrValue *x) {
    ByteFormat f = byte_format(x->type->dtype);
    IrValue *bits = to(m, reinterpret(m, x, DTYPE_U8), DTYPE_U32);
    IrValue *magnitude = with(m, IR_AND, bits, 0x7F);
    IrValue *sign = with(m, IR_SHL, with(m, IR_AND, bits, 0x80), 24);
    IrValue *small = reinterpret(m, with(m, IR_SHL, magnitude, 23 - f.mantissa), DTYPE_F32);
    IrValue *value = math_mul(m, small, math_num(m, ldexp(1, 127 - (int)f.bias)));
    IrValue *special = with(m, IR_LT, magnitude, f.overflow);
    IrValue *extra = math_select(m, special, constant(m, bits->type, 0), constant(m, bits->type, 0x7F800000));
    IrValue *out = math_op(m, IR_OR, reinterpret(m, value, DTYPE_U32), extra);
    return reinterpret(m, math_op(m, IR_OR, out, sign), DTYPE_F32);
}

/* Normal numbers round by an integer addition, denormals by adding the power of two whose last
 * place is theirs. */
static IrValue *f32_to_byte(Math *m, IrValue *x, Dtype dtype) {
    ByteFormat f = byte_format(dtype);
    unsigned drop = 23 - f.mantissa, shift = (127 - f.bias) << 23;
    IrValue *bits = reinterpret(m, x, DTYPE_U32), *a = with(m, IR_AND, bits, 0x7FFFFFFF);
    IrValue *even = with(m, IR_AND, with(m, IR_SHR, a, drop), 1);
    IrValue *up = with(m, IR_SUB, math_add(m, a, even), shift - ((1u << (drop - 1)) - 1));
    IrValue *normal = with(m, IR_SHR, up, drop);
    float step = ldexpf(1, 24 - (int)f.bias - (int)f.mantissa);
    IrValue *stepped = math_add(m, reinterpret(m, a, DTYPE_F32), math_num(m, (double)step));
    uint32_t step_bits = (uint32_t)(127 + 24 - (int)f.bias - (int)f.mantissa) << 23;
    IrValue *tiny = with(m, IR_SUB, reinterpret(m, stepped, DTYPE_U32), step_bits);
    IrValue *code = math_select(m, with(m, IR_LT, a, (128 - f.bias) << 23), tiny, normal);
    code = with(m, IR_MIN, code, f.overflow);
    IrValue *is_number = with(m, IR_LE, a, 0x7F800000);
    code = math_select(m, is_number, code, constant(m, a->type, f.nan));
    code = math_op(m, IR_OR, code, with(m, IR_AND, with(m, IR_SHR, bits, 24), 0x80));
    return reinterpret(m, to(m, code, DTYPE_U8), dtype);
}

/* ---- Conversions ---- */

/* f64 to f32, to odd: what was not exact has an odd last bit, so that a second rounding, to a
 * type of at least two bits less, is as if it were the first. */
static IrValue *to_odd(Math *m, IrValue *x) {
    IrValue *near = to(m, x, DTYPE_F32), *back = to(m, near, DTYPE_F64);
    IrValue *bits = reinterpret(m, near, DTYPE_U32), *one = constant(m, bits->type, 1);
    IrValue *larger = math_lt(m, math_abs(m, back), math_abs(m, x));
    IrValue *smaller = math_lt(m, math_abs(m, x), math_abs(m, back));
    IrValue *even = with(m, IR_EQ, with(m, IR_AND, bits, 1), 0);
    bits = math_select(m, math_op(m, IR_AND, even, larger), math_add(m, bits, one), bits);
    bits = math_select(m, math_op(m, IR_AND, even, smaller), math_sub(m, bits, one), bits);
    return reinterpret(m, bits, DTYPE_F32);
}

/* An integer of 64 bits as f64: exact below 2^53, beyond its last 12 bits become one sticky bit. */
static IrValue *sticky_f64(Math *m, IrValue *x) {
    const IrType *type = x->type;
    IrValue *zero = constant(m, type, 0), *bound = constant(m, type, 1ull << 53);
    IrValue *low = with(m, IR_AND, x, 0xFFF);
    IrValue *lost = math_op(m, IR_NE, low, zero);
    IrValue *sticky = math_select(m, lost, constant(m, type, 0x800), zero);
    IrValue *high = math_op(m, IR_OR, math_sub(m, x, low), sticky);
    IrValue *small = math_lt(m, x, bound);
    if (dtype_is_signed(type->dtype)) small = math_op(m, IR_AND, small, math_lt(m, math_sub(m, zero, bound), x));
    return to(m, math_select(m, small, x, high), DTYPE_F64);
}

/* A number as an f32 from which one more rounding, to a narrower float, is correct. */
static IrValue *to_f32_for(Math *m, IrValue *x, Dtype target) {
    Dtype from = x->type->dtype;
    if (from == DTYPE_F32) return x;
    if (from == DTYPE_F64) return to_odd(m, x);
    if (dtype_is_float(from)) return dtype_bits(from) == 8 ? byte_to_f32(m, x) : to(m, x, DTYPE_F32);
    /* f32 holds 24 bits exactly; what is longer overflows all but bf16. */
    if (dtype_bits(from) < 32 || target != DTYPE_BF16) return to(m, x, DTYPE_F32);
    return to_odd(m, dtype_bits(from) == 64 ? sticky_f64(m, x) : to(m, x, DTYPE_F64));
}

static IrValue *from_f32(Math *m, IrValue *x, Dtype target) {
    if (target == DTYPE_F8E4M3 || target == DTYPE_F8E5M2) return f32_to_byte(m, x, target);
    return to(m, x, target);
}

/* A conversion that needs more than one step; null: it is one. */
static IrValue *convert(Math *m, IrValue *x, const IrType *type) {
    Dtype from = x->type->dtype, target = type->dtype;
    if (from == target || (!is_narrow(from) && !is_narrow(target))) return NULL;
    bool halves = dtype_bits(from) != 8 && dtype_bits(target) != 8;
    if (halves && (from == DTYPE_F32 || target == DTYPE_F32)) return NULL;
    IrValue *single = to_f32_for(m, x, target);
    if (is_narrow(target)) return from_f32(m, single, target);
    return single->type == type ? single : ir_cast(&m->b, single, type);
}

/* ---- Ops ---- */

static void replace(IrOp *op, IrValue *result) {
    result->name = op->results[0].name;
    ir_replace_uses(&op->results[0], result);
    ir_op_erase(op);
}

static bool computes(const IrOp *op) {
    return ir_has_trait(op, IR_ELEMENTWISE) && op->opcode != IR_CAST && op->opcode != IR_SELECT && op->operand_count > 0 &&
           is_narrow(op->operands[op->operand_count - 1]->type->dtype);
}

/* The op in f32; its result, when a float, is rounded back. */
static void widen(IrModule *module, IrOp *op) {
    IrValue *x[3] = {NULL, NULL, NULL};
    const IrType *type = op->results[0].type;
    Math m = math_begin(module, op, DTYPE_F32, type->width);
    for (unsigned i = 0; i < op->operand_count; i++) x[i] = to_f32_for(&m, op->operands[i], DTYPE_F32);
    const IrType *wide = is_narrow(type->dtype) ? m.f : type;
    IrValue *result = ir_result(ir_op_create(&m.b, op->opcode, op->operand_count, x, 1, &wide), 0);
    replace(op, is_narrow(type->dtype) ? from_f32(&m, result, type->dtype) : result);
}

static void expand_op(void *ctx, IrOp *op) {
    IrModule *module = ctx;
    if (computes(op)) {
        widen(module, op);
    } else if (op->opcode == IR_CAST) {
        const IrType *type = op->results[0].type;
        if (type->kind != IR_TYPE_SCALAR) return;
        Math m = math_begin(module, op, DTYPE_F32, type->width);
        IrValue *result = convert(&m, op->operands[0], type);
        if (result) replace(op, result);
    }
}

bool pass_expand_types(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f; f = f->next)
        if (f->level == IR_LEVEL_KERNEL) ir_walk(f->body, expand_op, ctx->module);
    return true;
}
