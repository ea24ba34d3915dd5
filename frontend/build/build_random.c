/* random: in operators graph.random; in sketches Philox 4x32-10 (Salmon and others, 2011) from
 * tile.iota and integer operations, so that the reference stays independent. */
#include "build_internal.h"

#include <math.h>
#include <string.h>

/* A scalar argument that may be absent: 0. */
static IrValue *whole_number(Build *c, const Expr *e, const char *name) {
    BuiltinParam params[BUILTIN_MAX_PARAMS];
    size_t count = builtin_params(e->builtin, c->unit, params);
    for (size_t i = 0; i < count && i < e->bound_count; i++) {
        if (!e->bound[i] || strcmp(params[i].name, name) != 0) continue;
        IrValue *v = build_number(c, e->bound[i]);
        return v ? build_cast(c, v, DTYPE_I64) : NULL;
    }
    return ir_const_int(&c->b, ir_type_scalar(c->m, DTYPE_I64), 0);
}

/* ---- Integer arithmetic on tiles and scalars ---- */

static IrValue *constant(Build *c, Dtype dtype, int64_t value) {
    return ir_const_int(&c->b, ir_type_scalar(c->m, dtype), value);
}

static IrValue *shifted(Build *c, IrValue *v, int64_t bits) {
    return ir_binary(&c->b, IR_SHR, v, constant(c, v->type->dtype, bits));
}

static IrValue *mixed(Build *c, IrValue *a, IrValue *b) {
    return ir_binary(&c->b, IR_XOR, a, b);
}

/* ---- Philox ---- */

typedef struct {
    IrValue *word[4]; /* tiles of u32, null: 0 everywhere */
} Counter;

static IrValue *product(Build *c, IrValue *word, uint32_t factor) {
    return ir_binary(&c->b, IR_MUL, build_cast(c, word, DTYPE_U64), constant(c, DTYPE_U64, factor));
}

/* hi ^ word ^ key; word null: 0. */
static IrValue *stirred(Build *c, IrValue *wide, IrValue *word, IrValue *key) {
    IrValue *hi = build_cast(c, shifted(c, wide, 32), DTYPE_U32);
    if (word) hi = mixed(c, hi, word);
    return mixed(c, hi, key);
}

static Counter philox_round(Build *c, const Counter *x, IrValue *const key[2]) {
    const uint32_t factors[2] = {0xD2511F53U, 0xCD9E8D57U};
    Counter next = {{NULL}};
    for (int half = 0; half < 2; half++) {
        IrValue *word = x->word[2 * half], *other = x->word[half ? 1 : 3];
        int hi = half ? 0 : 2;
        if (!word) { /* 0 times anything */
            next.word[hi] = other ? mixed(c, other, key[hi / 2]) : NULL;
            continue;
        }
        IrValue *wide = product(c, word, factors[half]);
        next.word[hi] = stirred(c, wide, other, key[hi / 2]);
        next.word[hi + 1] = build_cast(c, wide, DTYPE_U32);
    }
    return next;
}

/* The first 64 bits for counter `index` (i64 lanes) under the key `seed` (an i64 scalar). */
static void philox(Build *c, IrValue *index, IrValue *seed, IrValue *out[2]) {
    static const int64_t steps[2] = {0x9E3779B9, 0xBB67AE85};
    Counter x = {{build_cast(c, index, DTYPE_U32), build_cast(c, shifted(c, index, 32), DTYPE_U32)}};
    IrValue *key[2] = {build_cast(c, seed, DTYPE_U32), build_cast(c, shifted(c, seed, 32), DTYPE_U32)};
    for (int round = 0; round < 10; round++) {
        x = philox_round(c, &x, key);
        for (int k = 0; k < 2; k++) key[k] = ir_binary(&c->b, IR_ADD, key[k], constant(c, DTYPE_U32, steps[k]));
    }
    out[0] = x.word[0];
    out[1] = x.word[1];
}

/* As many bits as the type's significand has: exact, and below 1. */
static IrValue *uniform(Build *c, IrValue *const words[2], Dtype dtype) {
    int digits = -ilogb(dtype_unit_roundoff(dtype));
    Dtype wide = digits > 32 ? DTYPE_F64 : DTYPE_F32;
    IrValue *bits = words[0];
    if (digits > 32) {
        IrValue *high = ir_binary(&c->b, IR_SHL, build_cast(c, words[0], DTYPE_U64), constant(c, DTYPE_U64, 32));
        bits = ir_binary(&c->b, IR_OR, high, build_cast(c, words[1], DTYPE_U64));
        bits = shifted(c, bits, 64 - digits);
    } else {
        bits = shifted(c, bits, 32 - digits);
    }
    IrValue *scale = ir_const_float(&c->b, ir_type_scalar(c->m, wide), ldexp(1, -digits));
    return build_cast(c, ir_binary(&c->b, IR_MUL, build_cast(c, bits, wide), scale), dtype);
}

/* ---- Row-major positions in a tile ---- */

static IrValue *positions(Build *c, const Expr *e) {
    const IrType *t = build_type(c, &e->type, DTYPE_I64, e->span);
    const Aff *stride = aff_const(c->m->affs, 1);
    IrValue *sum = t->rank ? NULL : ir_const_int(&c->b, t, 0);
    for (unsigned axis = t->rank; axis-- > 0;) {
        c->b.span = e->span;
        IrOp *op = ir_op_create(&c->b, IR_TILE_IOTA, 0, NULL, 1, &t);
        ir_attr_set_int(op, "axis", axis);
        IrValue *part = ir_result(op, 0);
        if (axis + 1 < t->rank) part = ir_binary(&c->b, IR_MUL, part, build_cast(c, ir_aff_emit(&c->b, stride), DTYPE_I64));
        sum = sum ? ir_binary(&c->b, IR_ADD, sum, part) : part;
        stride = aff_mul(c->m->affs, stride, t->extents[axis]);
    }
    return sum;
}

IrValue *build_random(Build *c, const Expr *e) {
    IrValue *seed = whole_number(c, e, "seed"), *offset = whole_number(c, e, "offset");
    if (!seed || !offset) return NULL;
    if (c->graph) {
        const IrType *t = build_type(c, &e->type, e->type.dtype, e->span);
        c->b.span = e->span;
        IrValue *operands[] = {seed, offset};
        return ir_result(ir_op_create(&c->b, IR_GRAPH_RANDOM, 2, operands, 1, &t), 0);
    }
    bool shape = e->bound[0]->kind == EXPR_LIST || e->bound[0]->kind == EXPR_TUPLE;
    IrValue *index = shape ? positions(c, e) : build_operand(c, e->bound[0], DTYPE_I64), *words[2];
    if (!index || !c->ok) return NULL;
    philox(c, ir_binary(&c->b, IR_ADD, index, offset), seed, words);
    return uniform(c, words, e->type.dtype);
}
