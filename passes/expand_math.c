/* Pass expand_math: transcendental functions become +, *, fma and integer operations.
 *
 * what:   one expansion for all targets, so that they agree bit for bit; f32 on scalars and vectors.
 *         Narrower floats are computed in f32 and rounded once. Bounds, as multiples of 2^-24 relative to
 *         the exact value: exp, exp2 3; sigmoid 6; rsqrt 2; log 4 (absolute near 1: 4 * 2^-24 |log x|).
 * needs:  kernel level.
 * keeps:  special values: NaN propagates, exp(+inf) = inf, exp(-inf) = 0, log(0) = -inf, log(< 0) = NaN;
 *         results below the normal range are rounded once.
 * breaks: nothing.
 * source: argument reduction by Cody and Waite; Taylor and atanh series on the reduced interval.
 *
 *   %e = exp(%x) : f32    =>    n = rint(x log2 e); r = x - n ln 2; %e = p(r) 2^n
 */
#include "passes.h"

#include <math.h>

typedef struct {
    IrModule *module;
    IrBuilder b;
    const IrType *f, *i; /* f32 and i32 of the op's width */

} Math;

static IrValue *splat(Math *m, double value) {
    IrOp *op = ir_op_create(&m->b, IR_CONST, 0, NULL, 1, &m->f);
    ir_attr_set_float(op, "value", value);
    return ir_result(op, 0);
}

static IrValue *integer(Math *m, int64_t value) {
    IrOp *op = ir_op_create(&m->b, IR_CONST, 0, NULL, 1, &m->i);
    ir_attr_set_int(op, "value", value);
    return ir_result(op, 0);
}

static IrValue *fma3(Math *m, IrValue *a, IrValue *x, IrValue *c) {
    IrValue *operands[3] = {a, x, c};
    return ir_result(ir_op_create(&m->b, IR_FMA, 3, operands, 1, &m->f), 0);
}

static IrValue *bits(Math *m, IrValue *v, const IrType *type) {
    return ir_result(ir_op_create(&m->b, IR_BITCAST, 1, &v, 1, &type), 0);
}

static IrValue *op2(Math *m, IrOpcode opcode, IrValue *a, IrValue *b) { return ir_binary(&m->b, opcode, a, b); }

/* c[0] x^(n-1) + ... + c[n-1] */
static IrValue *polynomial(Math *m, IrValue *x, const double *c, size_t n) {
    IrValue *sum = splat(m, c[0]);
    for (size_t k = 1; k < n; k++) sum = fma3(m, sum, x, splat(m, c[k]));
    return sum;
}

/* p * 2^n for n in [-300, 300], rounded once: two exact or one exact and one rounding product. */
static IrValue *scale(Math *m, IrValue *p, IrValue *n) {
    IrValue *half = op2(m, IR_SHR, n, integer(m, 1)), *rest = op2(m, IR_SUB, n, half), *parts[2] = {half, rest};
    for (unsigned k = 0; k < 2; k++) {
        IrValue *exponent = op2(m, IR_SHL, op2(m, IR_ADD, parts[k], integer(m, 127)), integer(m, 23));
        p = op2(m, IR_MUL, p, bits(m, exponent, m->f));
    }
    return p;
}

/* The integer nearest to a * x as a float and an integer, by adding and taking off 1.5 * 2^23. */
static IrValue *nearest(Math *m, IrValue *x, double a, IrValue **n) {
    IrValue *magic = splat(m, 12582912.0), *shifted = fma3(m, x, splat(m, a), magic);
    *n = op2(m, IR_SUB, bits(m, shifted, m->i), integer(m, 0x4B400000));
    return op2(m, IR_SUB, shifted, magic);
}

static const double exp_series[] = {1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1};

static IrValue *expand_exp(Math *m, IrValue *x) {
    IrValue *n;
    x = op2(m, IR_MIN, op2(m, IR_MAX, x, splat(m, -104)), splat(m, 89));
    IrValue *k = nearest(m, x, 1.4426950408889634, &n);
    IrValue *r = fma3(m, k, splat(m, -0.693145751953125), x);
    r = fma3(m, k, splat(m, -1.428606820309417e-6), r);
    return scale(m, polynomial(m, r, exp_series, COUNT_OF(exp_series)), n);
}

static IrValue *expand_exp2(Math *m, IrValue *x) {
    IrValue *n;
    x = op2(m, IR_MIN, op2(m, IR_MAX, x, splat(m, -151)), splat(m, 129));
    IrValue *k = nearest(m, x, 1, &n), *r = op2(m, IR_SUB, x, k);
    r = op2(m, IR_MUL, r, splat(m, 0.6931471805599453));
    return scale(m, polynomial(m, r, exp_series, COUNT_OF(exp_series)), n);
}

static IrValue *expand_sigmoid(Math *m, IrValue *x) {
    IrValue *e = expand_exp(m, ir_unary(&m->b, IR_NEG, x)), *one = splat(m, 1);
    return op2(m, IR_DIV, one, op2(m, IR_ADD, one, e));
}

static IrValue *expand_rsqrt(Math *m, IrValue *x) {
    return op2(m, IR_DIV, splat(m, 1), ir_unary(&m->b, IR_SQRT, x));
}

/* log x = e ln 2 + 2 atanh(s), s = (y - 1) / (y + 1), y = x 2^-e in [sqrt(1/2), sqrt(2)). */
static IrValue *expand_log(Math *m, IrValue *x) {
    static const double series[] = {2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3, 2};
    IrValue *zero = splat(m, 0), *one = splat(m, 1);
    IrValue *small = op2(m, IR_LT, x, splat(m, 1.1754943508222875e-38));
    IrValue *normal = ir_select(&m->b, small, op2(m, IR_MUL, x, splat(m, 8388608)), x);
    IrValue *base = ir_select(&m->b, small, integer(m, -23), integer(m, 0));
    IrValue *i = bits(m, normal, m->i), *above = op2(m, IR_SUB, i, integer(m, 0x3F3504F3));
    IrValue *e = op2(m, IR_SHR, above, integer(m, 23));
    IrValue *y = bits(m, op2(m, IR_SUB, i, op2(m, IR_SHL, e, integer(m, 23))), m->f);
    IrValue *s = op2(m, IR_DIV, op2(m, IR_SUB, y, one), op2(m, IR_ADD, y, one));
    IrValue *log_y = op2(m, IR_MUL, s, polynomial(m, op2(m, IR_MUL, s, s), series, COUNT_OF(series)));
    IrValue *k = ir_cast(&m->b, op2(m, IR_ADD, e, base), m->f);
    IrValue *result = fma3(m, k, splat(m, 0.693145751953125), fma3(m, k, splat(m, 1.428606820309417e-6), log_y));
    result = ir_select(&m->b, op2(m, IR_LT, x, splat(m, INFINITY)), result, x); /* inf, NaN */
    result = ir_select(&m->b, op2(m, IR_EQ, x, zero), splat(m, -INFINITY), result);
    return ir_select(&m->b, op2(m, IR_LT, x, zero), splat(m, NAN), result);
}

typedef IrValue *(*Expansion)(Math *m, IrValue *x);

static Expansion expansion_of(IrOpcode opcode) {
    switch (opcode) {
    case IR_EXP: return expand_exp;
    case IR_EXP2: return expand_exp2;
    case IR_LOG: return expand_log;
    case IR_SIGMOID: return expand_sigmoid;
    case IR_RSQRT: return expand_rsqrt;
    default: return NULL;
    }
}

static bool is_transcendental(IrOpcode opcode) {
    return expansion_of(opcode) || opcode == IR_TANH || opcode == IR_ERF || opcode == IR_POW;
}

typedef struct {
    PassContext *ctx;
    bool ok;
} Walk;

static void expand_op(void *ctx, IrOp *op) {
    Walk *w = ctx;
    if (!is_transcendental(op->opcode)) return;
    Expansion expand = expansion_of(op->opcode);
    const IrType *type = op->results[0].type;
    if (!expand || type->dtype == DTYPE_F64 || !dtype_is_float(type->dtype)) {
        const char *text = arena_printf(w->ctx->diags->arena, "%s of %s", ir_op_info(op->opcode)->name, dtype_name(type->dtype));
        diag_report(w->ctx->diags, DIAG_not_lowered, op->span, text);
        w->ok = false;
        return;
    }
    IrModule *module = w->ctx->module;
    Math m = {.module = module, .b = ir_builder_before(op),
              .f = ir_type_vec(module, DTYPE_F32, type->width), .i = ir_type_vec(module, DTYPE_I32, type->width)};
    m.b.span = op->span;
    IrValue *x = op->operands[0];
    if (type->dtype != DTYPE_F32) x = ir_cast(&m.b, x, m.f);
    IrValue *result = expand(&m, x);
    if (type->dtype != DTYPE_F32) result = ir_cast(&m.b, result, type);
    result->name = op->results[0].name;
    ir_replace_uses(&op->results[0], result);
    ir_op_erase(op);
}

bool pass_expand_math(PassContext *ctx) {
    Walk w = {.ctx = ctx, .ok = true};
    for (IrFunc *f = ctx->module->first; f; f = f->next)
        if (f->level == IR_LEVEL_KERNEL) ir_walk(f->body, expand_op, &w);
    return w.ok;
}
