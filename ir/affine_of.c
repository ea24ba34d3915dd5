/* The affine view of index values, and the way back to ops. */
#include <stdlib.h>

#include "ir_internal.h"

/* One query looks at this many ops; what lies deeper is opaque. It bounds both the time and the
 * depth of the recursion. */
enum { VISIT_LIMIT = 4096 };

static const Aff *view(IrModule *m, IrValue *v, unsigned *budget);

static const Aff *opaque(IrModule *m, IrValue *v) {
    return aff_var(m->affs, v, v->name);
}

static const Aff *view_param(IrModule *m, IrValue *v) {
    IrFunc *f = v->block->func;
    if (v->block == f->body && v->index < f->param_count && f->params[v->index].kind == IR_PARAM_SYMBOL)
        return aff_sym(m->affs, f->params[v->index].name);
    return opaque(m, v);
}

static const Aff *view_binary(AffCtx *c, IrOpcode opcode, const Aff *a, const Aff *b) {
    switch (opcode) {
    case IR_ADD:
        return aff_add(c, a, b);
    case IR_SUB:
        return aff_sub(c, a, b);
    case IR_MUL:
        return aff_mul(c, a, b);
    case IR_FLOORDIV:
        return aff_floordiv(c, a, b);
    case IR_MOD:
        return aff_mod(c, a, b);
    case IR_MIN:
    case IR_MINNUM:
        return aff_min(c, a, b);
    case IR_MAX:
    case IR_MAXNUM:
        return aff_max(c, a, b);
    default:
        return NULL;
    }
}

/* Shifts and masks by constants are arithmetic too: two's complement makes x >> k a floor division
 * and x & (2^k - 1) a modulus, also of negative numbers. */
static const Aff *view_bits(IrModule *m, const IrOp *op, unsigned *budget) {
    IrConst c;
    AffCtx *affs = m->affs;
    if (!ir_const_of(op->operands[1], &c) || c.integer < 0) return NULL;
    bool mask = op->opcode == IR_AND;
    if (mask ? (c.integer & (c.integer + 1)) != 0 || c.integer == INT64_MAX : c.integer > 61) return NULL;
    const Aff *x = view(m, op->operands[0], budget);
    const Aff *power = aff_const(affs, mask ? c.integer + 1 : (int64_t)1 << c.integer);
    if (mask) return aff_mod(affs, x, power);
    return op->opcode == IR_SHR ? aff_floordiv(affs, x, power) : aff_mul(affs, x, power);
}

static const Aff *view_op(IrModule *m, IrValue *v, unsigned *budget) {
    const IrOp *op = v->def;
    IrConst c;
    if (ir_const_of(v, &c)) return aff_const(m->affs, c.integer);
    if (!ir_has_trait(op, IR_ELEMENTWISE) || !op->operand_count) return NULL;
    if (!ir_type_is_index(op->operands[0]->type)) return NULL;
    if (op->opcode == IR_CAST) return view(m, op->operands[0], budget);
    const Aff *zero = aff_const(m->affs, 0);
    if (op->opcode == IR_NEG) return aff_sub(m->affs, zero, view(m, op->operands[0], budget));
    if (op->operand_count != 2) return NULL;
    if (op->opcode == IR_AND || op->opcode == IR_SHR || op->opcode == IR_SHL) return view_bits(m, op, budget);
    if (!view_binary(m->affs, op->opcode, zero, zero)) return NULL; /* no such arithmetic here */
    const Aff *a = view(m, op->operands[0], budget);
    return view_binary(m->affs, op->opcode, a, view(m, op->operands[1], budget));
}

static const Aff *view(IrModule *m, IrValue *v, unsigned *budget) {
    if (!v->def) return view_param(m, v);
    if (!*budget) return opaque(m, v);
    --*budget;
    const Aff *e = view_op(m, v, budget);
    return e && e->kind != AFF_OVERFLOW && e->size <= AFF_VIEW_LIMIT ? e : opaque(m, v);
}

const Aff *ir_aff_of(IrModule *m, IrValue *value) {
    unsigned budget = VISIT_LIMIT;
    return view(m, value, &budget);
}

/* ---- Back to ops ---- */

static IrValue *emit_leaf(IrBuilder *b, const Aff *e) {
    if (e->kind == AFF_VAR) return (IrValue *)e->var;
    IrValue *symbol = ir_func_symbol(b->block->func, e->name);
    if (!symbol) abort(); /* the verifier holds that symbols of types and attributes are parameters */
    return symbol;
}

static IrValue *emit_product(IrBuilder *b, const Aff *e) {
    IrValue *v = ir_aff_emit(b, e->args[0]);
    for (size_t i = 1; i < e->count; i++) v = ir_binary(b, IR_MUL, v, ir_aff_emit(b, e->args[i]));
    return v;
}

/* What is added first, then what is subtracted, then the constant. */
static IrValue *emit_sum(IrBuilder *b, const Aff *e) {
    IrValue *sum = NULL;
    for (int negative = 0; negative < 2; negative++) {
        for (size_t i = 0; i < e->count; i++) {
            int64_t k = e->coefs[i];
            bool subtract = negative && sum && k != INT64_MIN;
            if ((k < 0) != negative) continue;
            IrValue *term = ir_aff_emit(b, e->args[i]);
            term = ir_binary(b, IR_MUL, term, ir_const_index(b, subtract ? -k : k));
            sum = !sum ? term : ir_binary(b, subtract ? IR_SUB : IR_ADD, sum, term);
        }
    }
    if (!sum) return ir_const_index(b, e->value);
    if (!e->value) return sum;
    if (e->value > 0 || e->value == INT64_MIN) return ir_binary(b, IR_ADD, sum, ir_const_index(b, e->value));
    return ir_binary(b, IR_SUB, sum, ir_const_index(b, -e->value));
}

IrValue *ir_aff_emit(IrBuilder *b, const Aff *e) {
    IrOpcode opcode = IR_MAX;
    switch (e->kind) {
    case AFF_CONST:
        return ir_const_index(b, e->value);
    case AFF_SYM:
    case AFF_VAR:
        return emit_leaf(b, e);
    case AFF_SUM:
        return emit_sum(b, e);
    case AFF_PRODUCT:
        return emit_product(b, e);
    case AFF_FLOORDIV:
        opcode = IR_FLOORDIV;
        break;
    case AFF_MOD:
        opcode = IR_MOD;
        break;
    case AFF_MIN:
        opcode = IR_MIN;
        break;
    case AFF_MAX:
        break;
    case AFF_OVERFLOW:
        abort(); /* has no value; who builds expressions for emission checks */
    }
    IrValue *x = ir_aff_emit(b, e->args[0]);
    return ir_binary(b, opcode, x, ir_aff_emit(b, e->args[1]));
}
