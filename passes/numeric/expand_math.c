/* Pass expand_math: transcendental functions become +, *, fma and integer operations.
 *
 * what:   one expansion for all targets, so that they agree bit for bit; f32 and f64, on scalars
 *         and vectors. Narrower floats are computed in f32 and rounded once. Methods and error
 *         bounds are rows of ir/math.def, coefficients stand in math_tables.h, the functions in
 *         math_*.c. Floor division and remainder of floats are expanded here, too.
 * needs:  kernel level.
 * keeps:  special values as in C17, Annex F; signed zeros; denormals.
 * breaks: nothing.
 * source: Cody and Waite; Payne and Hanek; Muller et al., Handbook of Floating-Point Arithmetic.
 *
 *   %e = exp(%x) : f32    =>    n = rint(x log2 e); r = x - n ln 2; %e = p(r) 2^n
 */
#include "math_internal.h"

typedef IrValue *(*BinaryExpansion)(Math *m, IrValue *a, IrValue *b);

static MathExpansion unary_expansion(IrOpcode opcode) {
    static const MathExpansion expansions[IR_OP_COUNT] = {
#define MATH(id, name, ulps_f32, ulps_f64, reference, slope, domain, method) [IR_##id] = math_##name,
#define MATH2(...)
#include "math.def"
#undef MATH
    };
    return opcode == IR_ERFC ? math_erfc : expansions[opcode];
}

static BinaryExpansion binary_expansion(IrOpcode opcode) {
    switch (opcode) {
    case IR_POW:
        return math_pow;
    case IR_FLOORDIV:
        return math_floordiv;
    case IR_MOD:
        return math_mod;
    case IR_LOG_RATIO:
        return math_log_ratio;
    default:
        return NULL;
    }
}

/* An operand in the computation's type: a scalar stands for every lane of a vector. */
static IrValue *operand(Math *m, IrValue *x) {
    const IrType *type = ir_type_vec(m->module, m->f->dtype, x->type->width);
    if (x->type != type) x = ir_cast(&m->b, x, type);
    if (type == m->f) return x;
    IrValue **lanes = ARENA_ARRAY(m->module->arena, IrValue *, m->width);
    for (unsigned i = 0; i < m->width; i++) lanes[i] = x;
    return ir_result(ir_op_create(&m->b, IR_PACK, m->width, lanes, 1, &m->f), 0);
}

static void expand_op(void *context, IrOp *op) {
    const PassContext *ctx = context;
    IrModule *module = ctx->module;
    MathExpansion unary = unary_expansion(op->opcode);
    BinaryExpansion binary = binary_expansion(op->opcode);
    if ((!unary && !binary) || ir_attr_bool(op, "machine")) return;
    const IrType *type = op->results[0].type;
    if (!dtype_is_float(type->dtype)) return;
    bool narrow = dtype_bits(type->dtype) < 32;
    Math m = math_begin(module, op, narrow ? DTYPE_F32 : type->dtype, type->width);
    m.not_positive = ir_attr_bool(op, "not_positive");
    m.flushed = ir_attr_bool(op, "flushed");
    m.bits = (int)ir_attr_int(op, "bits", 0);
    m.machine = ctx->target->kind == TARGET_CUDA && type->width == 1;
    IrValue *x = operand(&m, op->operands[0]);
    IrValue *result = unary ? unary(&m, x) : binary(&m, x, operand(&m, op->operands[1]));
    if (narrow) result = ir_cast(&m.b, result, type);
    result->name = op->results[0].name;
    ir_replace_uses(&op->results[0], result);
    ir_op_erase(op);
}

static void expand_share(IrModule *module, IrOp *op) {
    const IrType *type = op->results[0].type;
    if (type->dtype != DTYPE_F32 || op->operands[0]->type != type || op->operands[1]->type != type) return;
    Math m = math_begin(module, op, DTYPE_F32, type->width);
    m.bits = (int)ir_attr_int(op, "bits", 0);
    IrValue *result = math_share(&m, op->operands[0], op->operands[1]);
    if (!result) return;
    result->name = op->results[0].name;
    ir_replace_uses(&op->results[0], result);
    ir_op_erase(op);
}

/* Logarithms and sigmoids come first: where an exponential is still one, its range is known. */
static void expand_first(void *context, IrOp *op) {
    const PassContext *ctx = context;
    if (op->opcode == IR_LOG1P || op->opcode == IR_LOG || op->opcode == IR_LOG2) expand_op(context, op);
    if (op->opcode == IR_DIV) expand_share(ctx->module, op);
}

bool pass_expand_math(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f; f = f->next) {
        if (f->level != IR_LEVEL_KERNEL) continue;
        ir_walk(f->body, expand_first, ctx);
        ir_walk(f->body, expand_op, ctx);
    }
    return true;
}
