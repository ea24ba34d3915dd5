#include "ptx_internal.h"

#include <string.h>

/* ---- Values and types ---- */

PtxValue *ptx_value(Ptx *p, const IrValue *v) {
    void **place = value_map_at(&p->table, p->arena, v);
    if (*place) return *place;
    PtxValue *x = ARENA_NEW(p->arena, PtxValue);
    x->range = RANGE_ALL;
    *place = x;
    return x;
}

LLVMValueRef ptx_use(Ptx *p, const IrValue *v) {
    PtxValue *x = ptx_value(p, v);
    if (!x->value) {
        ptx_fail(p, v->def, "a value that is used before it is made");
        x->value = LLVMGetPoison(v->type->kind == IR_TYPE_SCALAR ? ptx_scalar_type(p, v->type) : LLVMPointerTypeInContext(p->context, 0));
    }
    return x->value;
}

void ptx_bind(Ptx *p, const IrValue *v, LLVMValueRef value) {
    ptx_value(p, v)->value = value;
}

Range ptx_range(Ptx *p, const IrValue *v) {
    return ptx_value(p, v)->range;
}

LLVMTypeRef ptx_type(Ptx *p, Dtype t) {
    switch (t) {
    case DTYPE_F64:
        return LLVMDoubleTypeInContext(p->context);
    case DTYPE_F32:
        return LLVMFloatTypeInContext(p->context);
    case DTYPE_F16:
        return LLVMHalfTypeInContext(p->context);
    case DTYPE_BF16:
        return LLVMBFloatTypeInContext(p->context);
    case DTYPE_BOOL:
        return LLVMInt1TypeInContext(p->context);
    default:
        return LLVMIntTypeInContext(p->context, dtype_bits(t));
    }
}

LLVMTypeRef ptx_scalar_type(Ptx *p, const IrType *t) {
    LLVMTypeRef e = ptx_type(p, t->dtype);
    return t->width > 1 ? LLVMVectorType(e, t->width) : e;
}

LLVMTypeRef ptx_frag_type(Ptx *p, const IrType *t) {
    LLVMTypeRef e = ptx_type(p, t->dtype);
    for (unsigned i = t->rank; i-- > 0;) e = LLVMArrayType2(e, (uint64_t)ir_type_extent(t, i));
    return e;
}

LLVMValueRef ptx_int(Ptx *p, Dtype t, int64_t value) {
    return LLVMConstInt(ptx_type(p, t), (unsigned long long)value, true);
}

LLVMValueRef ptx_index(Ptx *p, int64_t value) {
    return ptx_int(p, DTYPE_I64, value);
}

LLVMValueRef ptx_intrinsic(Ptx *p, const char *name, unsigned type_count, LLVMTypeRef *types, unsigned count, LLVMValueRef *args) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (!id) {
        ptx_fail(p, NULL, name);
        return LLVMGetPoison(LLVMInt32TypeInContext(p->context));
    }
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(p->llvm, id, types, type_count);
    LLVMTypeRef t = LLVMIntrinsicGetType(p->context, id, types, type_count);
    return LLVMBuildCall2(p->b, t, f, args, count, "");
}

static LLVMValueRef splat(Ptx *p, LLVMValueRef x, unsigned width) {
    if (width <= 1) return x;
    LLVMValueRef v = LLVMGetPoison(LLVMVectorType(LLVMTypeOf(x), width));
    for (unsigned i = 0; i < width; i++) v = LLVMBuildInsertElement(p->b, v, x, ptx_int(p, DTYPE_I32, i), "");
    return v;
}

/* An operand in the result's width: a scalar stands for every lane. */
static LLVMValueRef operand(Ptx *p, const IrOp *op, unsigned i, unsigned width) {
    LLVMValueRef x = ptx_use(p, op->operands[i]);
    return op->operands[i]->type->width < width ? splat(p, x, width) : x;
}

static void constant(Ptx *p, const IrOp *op) {
    const IrType *t = op->results[0].type;
    const IrAttr *a = ir_attr(op, "value");
    if (!a || t->kind != IR_TYPE_SCALAR) {
        ptx_fail(p, op, "constants that are no scalars or vectors");
        return;
    }
    LLVMValueRef x;
    if (dtype_is_float(t->dtype)) {
        double value = a->kind == IR_ATTR_FLOAT ? a->number : (double)a->integer;
        uint8_t byte = 0;
        if (dtype_bits(t->dtype) == 8) dtype_write(t->dtype, &byte, value);
        x = dtype_bits(t->dtype) == 8 ? ptx_int(p, t->dtype, byte) : LLVMConstReal(ptx_type(p, t->dtype), dtype_round(t->dtype, value));
    } else {
        x = ptx_int(p, t->dtype, a->integer);
        ptx_value(p, &op->results[0])->range = (Range){a->integer, a->integer};
    }
    ptx_bind(p, &op->results[0], splat(p, x, t->width));
}

/* ---- Integers ---- */

static LLVMValueRef zero_of(LLVMValueRef x) {
    return LLVMConstNull(LLVMTypeOf(x));
}

static LLVMValueRef all_of(Ptx *p, LLVMValueRef like, Dtype t, int64_t value, unsigned width) {
    (void)like;
    return splat(p, ptx_int(p, t, value), width);
}

/* Floor division; a zero divisor gives 0 and the smallest number by -1 wraps. */
static LLVMValueRef signed_division(Ptx *p, bool divide, LLVMValueRef a, LLVMValueRef b, Dtype t, unsigned width) {
    LLVMValueRef zero = zero_of(a), one = all_of(p, a, t, 1, width), minus = all_of(p, a, t, -1, width);
    LLVMValueRef by_zero = LLVMBuildICmp(p->b, LLVMIntEQ, b, zero, ""), by_minus = LLVMBuildICmp(p->b, LLVMIntEQ, b, minus, "");
    LLVMValueRef safe = LLVMBuildSelect(p->b, LLVMBuildOr(p->b, by_zero, by_minus, ""), one, b, "");
    LLVMValueRef r = LLVMBuildSRem(p->b, a, safe, "");
    LLVMValueRef odd = LLVMBuildICmp(p->b, LLVMIntNE, r, zero, "");
    LLVMValueRef differ = LLVMBuildICmp(p->b, LLVMIntSLT, LLVMBuildXor(p->b, r, safe, ""), zero, "");
    LLVMValueRef fix = LLVMBuildAnd(p->b, odd, differ, "");
    if (!divide) {
        LLVMValueRef m = LLVMBuildSelect(p->b, fix, LLVMBuildAdd(p->b, r, safe, ""), r, "");
        return LLVMBuildSelect(p->b, LLVMBuildOr(p->b, by_zero, by_minus, ""), zero, m, "");
    }
    LLVMValueRef q = LLVMBuildSDiv(p->b, a, safe, "");
    q = LLVMBuildSelect(p->b, fix, LLVMBuildSub(p->b, q, one, ""), q, "");
    q = LLVMBuildSelect(p->b, by_minus, LLVMBuildNeg(p->b, a, ""), q, "");
    return LLVMBuildSelect(p->b, by_zero, zero, q, "");
}

/* Of a below 2^32 - 1 by any b >= 0, in 32 bits; by 0 it is 0. Not in kernels of products, whose registers are all taken: there one more spills. */
static LLVMValueRef narrow_division(Ptx *p, bool divide, LLVMValueRef a, LLVMValueRef b, Range y) {
    LLVMTypeRef word = LLVMInt32TypeInContext(p->context), wide = LLVMTypeOf(a);
    LLVMValueRef most = LLVMConstInt(wide, UINT32_MAX, false), zero = LLVMConstNull(word);
    if (y.hi > UINT32_MAX) b = LLVMBuildSelect(p->b, LLVMBuildICmp(p->b, LLVMIntULT, b, most, ""), b, most, "");
    LLVMValueRef n = LLVMBuildTrunc(p->b, a, word, ""), by = LLVMBuildTrunc(p->b, b, word, "");
    LLVMValueRef by_zero = y.lo > 0 ? NULL : LLVMBuildICmp(p->b, LLVMIntEQ, by, zero, "");
    if (by_zero) by = LLVMBuildSelect(p->b, by_zero, LLVMConstInt(word, 1, false), by, "");
    LLVMValueRef q = divide ? LLVMBuildUDiv(p->b, n, by, "") : LLVMBuildURem(p->b, n, by, "");
    if (by_zero) q = LLVMBuildSelect(p->b, by_zero, zero, q, "");
    return LLVMBuildZExt(p->b, q, wide, "");
}

static LLVMValueRef division(Ptx *p, const IrOp *op, LLVMValueRef a, LLVMValueRef b, Dtype t, unsigned width) {
    bool divide = op->opcode == IR_FLOORDIV;
    Range x = ptx_range(p, op->operands[0]), y = ptx_range(p, op->operands[1]);
    bool is_unsigned = !dtype_is_signed(t) || (width == 1 && x.lo >= 0 && y.lo >= 0);
    if (!is_unsigned) return signed_division(p, divide, a, b, t, width);
    bool near = width == 1 && dtype_bits(t) == 64 && x.lo >= 0 && x.hi < UINT32_MAX && y.lo >= 0;
    if (near && ((y.lo > 0 && y.hi <= UINT32_MAX) || !ptx_multiplies(p->func))) return narrow_division(p, divide, a, b, y);
    if (width == 1 && y.lo > 0) return divide ? LLVMBuildUDiv(p->b, a, b, "") : LLVMBuildURem(p->b, a, b, "");
    LLVMValueRef by_zero = LLVMBuildICmp(p->b, LLVMIntEQ, b, zero_of(b), "");
    LLVMValueRef safe = LLVMBuildSelect(p->b, by_zero, all_of(p, a, t, 1, width), b, "");
    LLVMValueRef q = divide ? LLVMBuildUDiv(p->b, a, safe, "") : LLVMBuildURem(p->b, a, safe, "");
    return LLVMBuildSelect(p->b, by_zero, zero_of(a), q, "");
}

static LLVMValueRef shift(Ptx *p, const IrOp *op, LLVMValueRef a, LLVMValueRef n, Dtype t, unsigned width) {
    int64_t bits = dtype_bits(t);
    LLVMValueRef legal = LLVMBuildICmp(p->b, LLVMIntULT, n, all_of(p, n, t, bits, width), "");
    bool arithmetic = op->opcode == IR_SHR && dtype_is_signed(t);
    LLVMValueRef safe = LLVMBuildSelect(p->b, legal, n, all_of(p, n, t, arithmetic ? bits - 1 : 0, width), "");
    if (arithmetic) return LLVMBuildAShr(p->b, a, safe, "");
    LLVMValueRef x = op->opcode == IR_SHL ? LLVMBuildShl(p->b, a, safe, "") : LLVMBuildLShr(p->b, a, safe, "");
    return LLVMBuildSelect(p->b, legal, x, zero_of(a), "");
}

static LLVMValueRef integer_binary(Ptx *p, const IrOp *op, LLVMValueRef a, LLVMValueRef b, Dtype t, unsigned width) {
    bool index = op->results[0].type->is_index, is_signed = dtype_is_signed(t);
    LLVMValueRef x;
    switch (op->opcode) {
    case IR_ADD:
        x = index ? LLVMBuildNSWAdd(p->b, a, b, "") : LLVMBuildAdd(p->b, a, b, "");
        break;
    case IR_SUB:
        x = index ? LLVMBuildNSWSub(p->b, a, b, "") : LLVMBuildSub(p->b, a, b, "");
        break;
    case IR_MUL:
        x = index ? LLVMBuildNSWMul(p->b, a, b, "") : LLVMBuildMul(p->b, a, b, "");
        break;
    case IR_FLOORDIV:
    case IR_MOD:
        x = division(p, op, a, b, t, width);
        break;
    case IR_MIN:
    case IR_MINNUM:
        x = LLVMBuildSelect(p->b, LLVMBuildICmp(p->b, is_signed ? LLVMIntSLT : LLVMIntULT, a, b, ""), a, b, "");
        break;
    case IR_MAX:
    case IR_MAXNUM:
        x = LLVMBuildSelect(p->b, LLVMBuildICmp(p->b, is_signed ? LLVMIntSGT : LLVMIntUGT, a, b, ""), a, b, "");
        break;
    case IR_AND:
        x = LLVMBuildAnd(p->b, a, b, "");
        break;
    case IR_OR:
        x = LLVMBuildOr(p->b, a, b, "");
        break;
    case IR_XOR:
        x = LLVMBuildXor(p->b, a, b, "");
        break;
    case IR_SHL:
    case IR_SHR:
        x = shift(p, op, a, b, t, width);
        break;
    default:
        ptx_fail(p, op, "this operation on integers");
        x = a;
    }
    return x;
}

static LLVMValueRef integer_unary(Ptx *p, const IrOp *op, LLVMValueRef a, Dtype t) {
    switch (op->opcode) {
    case IR_NEG:
        return LLVMBuildNeg(p->b, a, "");
    case IR_NOT:
        return LLVMBuildNot(p->b, a, "");
    case IR_ABS: {
        if (!dtype_is_signed(t)) return a;
        LLVMValueRef negative = LLVMBuildICmp(p->b, LLVMIntSLT, a, zero_of(a), "");
        return LLVMBuildSelect(p->b, negative, LLVMBuildNeg(p->b, a, ""), a, "");
    }
    default:
        ptx_fail(p, op, "this operation on integers");
        return a;
    }
}

/* ---- Floats ---- */

static LLVMValueRef on_lanes(Ptx *p, const char *name, unsigned count, LLVMValueRef *args) {
    LLVMTypeRef t = LLVMTypeOf(args[0]);
    return ptx_intrinsic(p, name, 1, &t, count, args);
}

/* max.NaN exists for f32; f64 picks a NaN operand first. */
static LLVMValueRef extreme(Ptx *p, const IrOp *op, LLVMValueRef a, LLVMValueRef b, Dtype t) {
    LLVMValueRef args[2] = {a, b};
    bool less = op->opcode == IR_MIN || op->opcode == IR_MINNUM;
    bool number = op->opcode == IR_MINNUM || op->opcode == IR_MAXNUM;
    if (number || t == DTYPE_F64) {
        LLVMValueRef x = on_lanes(p, less ? "llvm.minnum" : "llvm.maxnum", 2, args);
        if (number) return x;
        x = LLVMBuildSelect(p->b, LLVMBuildFCmp(p->b, LLVMRealUNO, b, b, ""), b, x, "");
        return LLVMBuildSelect(p->b, LLVMBuildFCmp(p->b, LLVMRealUNO, a, a, ""), a, x, "");
    }
    return on_lanes(p, less ? "llvm.minimum" : "llvm.maximum", 2, args);
}

/* 1 / b for a normal b. One step of Newton's from the approximation rounds correctly, as every float from 2^-100
 * to 2^100 did on the machine; what LLVM would emit looks for the ends of the range first. */
static LLVMValueRef reciprocal(Ptx *p, LLVMValueRef b, bool narrow) {
    LLVMValueRef y = ptx_intrinsic(p, "llvm.nvvm.rcp.approx.ftz.f", 0, NULL, 1, &b);
    if (narrow) return y;
    LLVMValueRef rest[3] = {LLVMBuildFNeg(p->b, b, ""), y, LLVMConstReal(LLVMTypeOf(b), 1)};
    LLVMValueRef step[3] = {on_lanes(p, "llvm.fma", 3, rest), y, y};
    return on_lanes(p, "llvm.fma", 3, step);
}

/* 2^x by the instruction; LLVM 22 gave its name a type. */
static LLVMValueRef power_of_two(Ptx *p, LLVMValueRef x) {
    static const char name[] = "llvm.nvvm.ex2.approx.ftz.f";
    LLVMTypeRef t = LLVMTypeOf(x);
    unsigned id = LLVMLookupIntrinsicID(name, sizeof name - 1);
    return ptx_intrinsic(p, name, id && LLVMIntrinsicIsOverloaded(id) ? 1 : 0, &t, 1, &x);
}

static LLVMValueRef floating(Ptx *p, const IrOp *op, LLVMValueRef *x, Dtype t) {
    if (t != DTYPE_F32 && t != DTYPE_F64) ptx_fail(p, op, "arithmetic on floats narrower than f32");
    switch (op->opcode) {
    case IR_ADD:
        return LLVMBuildFAdd(p->b, x[0], x[1], "");
    case IR_SUB:
        return LLVMBuildFSub(p->b, x[0], x[1], "");
    case IR_MUL:
        return LLVMBuildFMul(p->b, x[0], x[1], "");
    case IR_DIV:
        if (t == DTYPE_F32 && op->results[0].type->width == 1 && ir_attr_bool(op, "reciprocal"))
            return reciprocal(p, x[1], ir_attr(op, "bits"));
        return LLVMBuildFDiv(p->b, x[0], x[1], "");
    case IR_NEG:
        return LLVMBuildFNeg(p->b, x[0], "");
    case IR_MIN:
    case IR_MAX:
    case IR_MINNUM:
    case IR_MAXNUM:
        return extreme(p, op, x[0], x[1], t);
    case IR_EXP2:
    case IR_LOG2:
        if (!ir_attr_bool(op, "machine")) break;
        return op->opcode == IR_EXP2 ? power_of_two(p, x[0]) : ptx_intrinsic(p, "llvm.nvvm.lg2.approx.ftz.f", 0, NULL, 1, x);
    case IR_FMA:
        return on_lanes(p, "llvm.fma", 3, x);
    case IR_ABS:
        return on_lanes(p, "llvm.fabs", 1, x);
    case IR_SQRT:
        return on_lanes(p, "llvm.sqrt", 1, x);
    case IR_FLOOR:
        return on_lanes(p, "llvm.floor", 1, x);
    case IR_CEIL:
        return on_lanes(p, "llvm.ceil", 1, x);
    case IR_TRUNC:
        return on_lanes(p, "llvm.trunc", 1, x);
    case IR_RINT:
        return on_lanes(p, "llvm.rint", 1, x);
    default:
        break;
    }
    ptx_fail(p, op, "this operation on floats: it is to be expanded before");
    return x[0];
}

static LLVMValueRef compare(Ptx *p, const IrOp *op, LLVMValueRef a, LLVMValueRef b) {
    Dtype t = op->operands[0]->type->dtype;
    if (dtype_is_float(t)) {
        LLVMRealPredicate k = op->opcode == IR_LT   ? LLVMRealOLT
                              : op->opcode == IR_LE ? LLVMRealOLE
                              : op->opcode == IR_EQ ? LLVMRealOEQ
                                                    : LLVMRealUNE;
        return LLVMBuildFCmp(p->b, k, a, b, "");
    }
    bool s = dtype_is_signed(t);
    LLVMIntPredicate k = op->opcode == IR_LT   ? s ? LLVMIntSLT : LLVMIntULT
                         : op->opcode == IR_LE ? s ? LLVMIntSLE : LLVMIntULE
                         : op->opcode == IR_EQ ? LLVMIntEQ
                                               : LLVMIntNE;
    return LLVMBuildICmp(p->b, k, a, b, "");
}

static LLVMValueRef cast(Ptx *p, const IrOp *op, LLVMValueRef a) {
    const IrType *from = op->operands[0]->type, *to = op->results[0].type;
    Dtype f = from->dtype, t = to->dtype;
    LLVMTypeRef type = ptx_scalar_type(p, to);
    if (f == t) return a;
    bool ff = dtype_is_float(f), tf = dtype_is_float(t);
    if (ff && tf) {
        bool half = dtype_bits(f) == 16 || dtype_bits(t) == 16;
        if (half && f != DTYPE_F32 && t != DTYPE_F32)
            ptx_fail(p, op, "a direct conversion between a 16-bit float and a type other than f32");
        return LLVMBuildFPCast(p->b, a, type, "");
    }
    if ((ff && dtype_bits(f) == 16) || (tf && dtype_bits(t) == 16))
        ptx_fail(p, op, "a direct conversion between a 16-bit float and an integer");
    if (t == DTYPE_BOOL && ff) return LLVMBuildFCmp(p->b, LLVMRealUNE, a, zero_of(a), "");
    if (t == DTYPE_BOOL) return LLVMBuildICmp(p->b, LLVMIntNE, a, zero_of(a), "");
    if (ff) {
        LLVMTypeRef types[2] = {type, LLVMTypeOf(a)};
        return ptx_intrinsic(p, dtype_is_signed(t) ? "llvm.fptosi.sat" : "llvm.fptoui.sat", 2, types, 1, &a);
    }
    if (tf) return dtype_is_signed(f) ? LLVMBuildSIToFP(p->b, a, type, "") : LLVMBuildUIToFP(p->b, a, type, "");
    return LLVMBuildIntCast2(p->b, a, type, dtype_is_signed(f), "");
}

static void set_range(Ptx *p, const IrOp *op) {
    const IrType *t = op->results[0].type;
    if (!t->is_index || t->width > 1) return;
    if (op->opcode == IR_CAST) {
        Dtype from = op->operands[0]->type->dtype;
        if (dtype_is_int(from) && !dtype_is_signed(from)) ptx_value(p, &op->results[0])->range = (Range){0, INT64_MAX};
        return;
    }
    Range x[3] = {RANGE_ALL, RANGE_ALL, RANGE_ALL};
    for (unsigned i = 0; i < op->operand_count && i < 3; i++) x[i] = ptx_range(p, op->operands[i]);
    ptx_value(p, &op->results[0])->range = range_of_op(op, x);
}

static LLVMValueRef pack(Ptx *p, const IrOp *op) {
    LLVMValueRef v = LLVMGetPoison(ptx_scalar_type(p, op->results[0].type));
    for (unsigned i = 0; i < op->operand_count; i++)
        v = LLVMBuildInsertElement(p->b, v, ptx_use(p, op->operands[i]), ptx_int(p, DTYPE_I32, i), "");
    return v;
}

static LLVMValueRef elementwise(Ptx *p, const IrOp *op) {
    const IrType *t = op->results[0].type;
    unsigned width = t->width;
    LLVMValueRef x[3] = {NULL, NULL, NULL};
    for (unsigned i = 0; i < op->operand_count && i < 3; i++) {
        /* a scalar condition selects whole vectors */
        bool lanes = op->opcode != IR_BITCAST && (op->opcode != IR_SELECT || i > 0);
        x[i] = lanes ? operand(p, op, i, width) : ptx_use(p, op->operands[i]);
    }
    switch (op->opcode) {
    case IR_LT:
    case IR_LE:
    case IR_EQ:
    case IR_NE:
        return compare(p, op, x[0], x[1]);
    case IR_SELECT:
        return LLVMBuildSelect(p->b, x[0], x[1], x[2], "");
    case IR_CAST:
        return cast(p, op, x[0]);
    case IR_BITCAST:
        return LLVMBuildBitCast(p->b, x[0], ptx_scalar_type(p, t), "");
    default:
        break;
    }
    if (dtype_is_float(t->dtype)) return floating(p, op, x, t->dtype);
    return op->operand_count == 1 ? integer_unary(p, op, x[0], t->dtype) : integer_binary(p, op, x[0], x[1], t->dtype, width);
}

void ptx_pure(Ptx *p, const IrOp *op) {
    const IrValue *r = &op->results[0];
    if (op->opcode == IR_CONST) {
        constant(p, op);
    } else if (op->opcode == IR_UNIFORM) {
        ptx_bind(p, r, ptx_use(p, op->operands[0]));
    } else if (op->opcode == IR_PACK) {
        ptx_bind(p, r, pack(p, op));
    } else if (op->opcode == IR_EXTRACT) {
        LLVMValueRef lane = ptx_int(p, DTYPE_I32, ir_attr_int(op, "lane", 0));
        ptx_bind(p, r, LLVMBuildExtractElement(p->b, ptx_use(p, op->operands[0]), lane, ""));
    } else if (!(ir_op_info(op->opcode)->traits & IR_ELEMENTWISE) && op->opcode != IR_BITCAST) {
        ptx_fail(p, op, "this operation at kernel level");
    } else {
        set_range(p, op);
        ptx_bind(p, r, elementwise(p, op));
    }
}
