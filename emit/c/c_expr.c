#include "c_internal.h"

#include <math.h>
#include <string.h>

/* ---- What is known of a value ---- */

CValue *c_value(CPrinter *p, const IrValue *v) {
    void **place = value_map_at(&p->table, p->arena, v);
    if (*place) return *place;
    CValue *c = ARENA_NEW(p->arena, CValue);
    c->value = v;
    c->range = RANGE_ALL;
    if (v->type->kind == IR_TYPE_SCALAR && v->type->dtype == DTYPE_BOOL) c->range = (Range){0, 1};
    *place = c;
    return c;
}

/* ---- Literals ---- */

const char *c_int_text(CPrinter *p, int64_t value) {
    if (value == INT64_MIN) return "(-9223372036854775807LL - 1)";
    return arena_printf(p->arena, value > INT32_MAX || value < -INT32_MAX ? "%lldLL" : "%lld", (long long)value);
}

/* Half the way to the nearer neighbour: a power of two has half the gap on one side, and beyond the largest float there is no number. */
static double half_gap(float value) {
    float magnitude = fabsf(value);
    return ((double)magnitude - (double)nextafterf(magnitude, 0)) / 2;
}

/* The shortest decimal text that a compiler reads as exactly this float. */
static const char *shortest_float(CPrinter *p, float value) {
    double near = half_gap(value);
    for (int digits = 1; digits <= 9; digits++) {
        char text[40];
        snprintf(text, sizeof text, "%.*e", digits - 1, (double)value);
        for (char *c = text; *c; c++)
            if (*c == ',') *c = '.'; /* a locale's decimal point */
        double back;
        if (!parse_double(text, &back) || (back != (double)value && fabs(back - (double)value) >= near * 0.99)) continue;
        Str s;
        str_init(&s);
        str_append_double(&s, back);
        const char *copy = arena_strdup(p->arena, s.data);
        str_release(&s);
        return copy;
    }
    return arena_printf(p->arena, "%a", (double)value);
}

static const char *special_float(CPrinter *p, Dtype t, double value) {
    bool wide = t == DTYPE_F64;
    if (!p->dialect->gpu) {
        if (isnan(value)) return wide ? "__builtin_nan(\"\")" : "__builtin_nanf(\"\")";
        return wide ? value > 0 ? "__builtin_inf()" : "-__builtin_inf()" : value > 0 ? "__builtin_inff()" : "-__builtin_inff()";
    }
    if (isnan(value)) return wide ? "__longlong_as_double(0x7ff8000000000000LL)" : "__int_as_float(0x7fffffff)";
    if (wide) return value > 0 ? "__longlong_as_double(0x7ff0000000000000LL)" : "-__longlong_as_double(0x7ff0000000000000LL)";
    return value > 0 ? "__int_as_float(0x7f800000)" : "-__int_as_float(0x7f800000)";
}

const char *c_float_text(CPrinter *p, Dtype t, double value) {
    if (isnan(value) || isinf(value)) return special_float(p, t, value);
    const char *text;
    if (t == DTYPE_F64) {
        Str s;
        str_init(&s);
        str_append_double(&s, value);
        text = arena_strdup(p->arena, s.data);
        str_release(&s);
    } else {
        text = shortest_float(p, (float)value);
    }
    const char *point = strpbrk(text, ".epx") ? "" : ".0";
    return arena_printf(p->arena, "%s%s%s", text, point, t == DTYPE_F64 ? "" : "f");
}

/* A 16-bit or 8-bit float constant: its bits, for both languages store it without a literal form. */
static const char *narrow_text(CPrinter *p, Dtype t, double value) {
    uint16_t bits = 0;
    dtype_write(t, &bits, value);
    if (dtype_bits(t) == 8) return arena_printf(p->arena, "0x%02x", bits);
    if (!p->dialect->gpu) return arena_printf(p->arena, "0x%04x", bits);
    return arena_printf(p->arena, t == DTYPE_F16 ? "__ushort_as_half(0x%04x)" : "__ushort_as_bfloat16(0x%04x)", bits);
}

static CExpr const_expr(CPrinter *p, const IrOp *op) {
    const IrAttr *a = ir_attr(op, "value");
    Dtype t = op->results[0].type->dtype;
    if (!a) {
        c_fail(p, op, "a constant without value");
        return (CExpr){"0", C_PREC_PRIMARY};
    }
    double number = a->kind == IR_ATTR_FLOAT ? a->number : (double)a->integer;
    const char *text;
    if (dtype_is_float(t)) {
        text = dtype_bits(t) < 32 ? narrow_text(p, t, number) : c_float_text(p, t, number);
        c_type(p, t);
    } else if (t == DTYPE_BOOL) {
        text = a->integer ? "true" : "false";
    } else {
        uint64_t u = (uint64_t)a->integer;
        if (t == DTYPE_U64)
            text = arena_printf(p->arena, "%lluULL", (unsigned long long)u);
        else if (t == DTYPE_U32)
            text = arena_printf(p->arena, "%uu", (unsigned)u);
        else
            text = c_int_text(p, a->integer);
    }
    return (CExpr){text, text[0] == '-' ? C_PREC_UNARY : C_PREC_PRIMARY};
}

/* ---- Pieces ---- */

CExpr c_make(CPrinter *p, int prec, const char *format, ...) {
    Str s;
    str_init(&s);
    va_list args;
    va_start(args, format);
    str_vprintf(&s, format, args);
    va_end(args);
    CExpr e = {arena_strdup(p->arena, s.data), prec};
    str_release(&s);
    return e;
}

const char *c_text(CPrinter *p, CExpr e, int min_prec) {
    return e.prec >= min_prec ? e.text : arena_printf(p->arena, "(%s)", e.text);
}

const char *c_lane(CPrinter *p, CExpr e, const char *lane) {
    if (!strchr(e.text, C_LANE)) return e.text;
    Str s;
    str_init(&s);
    for (const char *c = e.text; *c; c++) {
        if (*c == C_LANE)
            str_append(&s, lane);
        else
            str_append_char(&s, *c);
    }
    const char *text = arena_strdup(p->arena, s.data);
    str_release(&s);
    return text;
}

const char *c_type(CPrinter *p, Dtype t) {
    p->types_used |= 1u << t;
    return p->dialect->gpu ? dtype_cuda_name(t) : dtype_c_name(t);
}

const char *c_scalar_type(CPrinter *p, const IrValue *v) {
    if (v->type->dtype == DTYPE_BOOL) return "bool";
    if (!v->type->is_index) return c_type(p, v->type->dtype);
    return range_fits_int(c_range(p, v)) ? "int" : p->dialect->index_type;
}

Range c_range(CPrinter *p, const IrValue *v) {
    if (v->def && v->def->opcode == IR_CONST && !dtype_is_float(v->type->dtype)) {
        const IrAttr *a = ir_attr(v->def, "value");
        if (a) return (Range){a->integer, a->integer};
    }
    return c_value(p, v)->range;
}

CExpr c_use(CPrinter *p, const IrValue *v) {
    if (v->def && v->def->opcode == IR_CONST && v->type->kind == IR_TYPE_SCALAR) return const_expr(p, v->def);
    CValue *c = c_value(p, v);
    if (c->pending || (!c->expr.text && c->deferrable)) c_materialise(p, v);
    if (v->type->is_index && range_is_const(c->range)) {
        const char *text = c_int_text(p, c->range.lo);
        return (CExpr){text, text[0] == '-' ? C_PREC_UNARY : C_PREC_PRIMARY};
    }
    if (!c->expr.text) {
        c_fail(p, v->def, "a value that is used before it is made");
        return (CExpr){"0", C_PREC_PRIMARY};
    }
    return c->expr;
}

CExpr c_call(CPrinter *p, const char *function, unsigned count, const IrOp *op) {
    const char *args = c_use(p, op->operands[0]).text;
    for (unsigned i = 1; i < count; i++) args = arena_printf(p->arena, "%s, %s", args, c_use(p, op->operands[i]).text);
    return c_make(p, C_PREC_PRIMARY, "%s(%s)", function, args);
}

/* Name of a storage type for c_helper: the index type has none. */
static Dtype helper_type(const IrType *t) {
    return t->is_index ? DTYPE_NONE : t->dtype;
}

CExpr c_helper_call(CPrinter *p, CHelper id, const IrOp *op) {
    Dtype t = helper_type(op->results[0].type);
    if (dtype_is_float(t)) t = DTYPE_NONE; /* float helpers are one row a type */
    return c_call(p, c_helper(p, id, t, DTYPE_NONE), op->operand_count, op);
}

/* ---- Conversions ---- */

static CExpr half_cast(CPrinter *p, const IrOp *op, Dtype from, Dtype to) {
    CExpr a = c_use(p, op->operands[0]);
    c_type(p, from);
    c_type(p, to);
    if (p->dialect->gpu) {
        const char *name = from == DTYPE_F16    ? "__half2float"
                           : from == DTYPE_BF16 ? "__bfloat162float"
                           : to == DTYPE_F16    ? "__float2half_rn"
                                                : "__float2bfloat16_rn";
        return c_make(p, C_PREC_PRIMARY, "%s(%s)", name, a.text);
    }
    CHelper id = from == DTYPE_F16    ? C_HELPER_F16_TO_F32
                 : from == DTYPE_BF16 ? C_HELPER_BF16_TO_F32
                 : to == DTYPE_F16    ? C_HELPER_F32_TO_F16
                                      : C_HELPER_F32_TO_BF16;
    return c_make(p, C_PREC_PRIMARY, "%s(%s)", c_helper(p, id, DTYPE_NONE, DTYPE_NONE), a.text);
}

static CExpr cast(CPrinter *p, const IrOp *op) {
    const IrType *from = op->operands[0]->type, *to = op->results[0].type;
    Dtype f = from->dtype, t = to->dtype;
    CExpr a = c_use(p, op->operands[0]);
    if (f == t && !to->is_index && !from->is_index) return a;
    if (dtype_is_float(f) && dtype_is_float(t) && f != t && (dtype_bits(f) == 16 || dtype_bits(t) == 16)) {
        if (f == DTYPE_F32 || t == DTYPE_F32) return half_cast(p, op, f, t);
        c_fail(p, op, "a direct conversion between a 16-bit float and a type other than f32");
    } else if (dtype_bits(f) == 16 && dtype_is_float(f)) {
        c_fail(p, op, "a direct conversion of a 16-bit float to an integer");
    } else if (dtype_bits(t) == 16 && dtype_is_float(t)) {
        c_fail(p, op, "a direct conversion of an integer to a 16-bit float");
    }
    if (t == DTYPE_BOOL) return c_make(p, C_PREC_EQ, "%s != 0", c_text(p, a, C_PREC_ADD));
    if (dtype_is_float(f) && !dtype_is_float(t))
        return c_make(p, C_PREC_PRIMARY, "%s(%s)", c_helper(p, C_HELPER_FLOAT_TO_INT, f, helper_type(to)), a.text);
    const char *type = to->is_index ? p->dialect->index_type : c_type(p, t);
    return c_make(p, C_PREC_UNARY, "(%s)%s", type, c_text(p, a, C_PREC_UNARY));
}

/* Scalars of one width: between floats and integers of their size. A vector as one scalar: its bytes. */
static CExpr bitcast(CPrinter *p, const IrOp *op) {
    Dtype f = op->operands[0]->type->dtype, t = op->results[0].type->dtype;
    if (p->dialect->gpu && op->operands[0]->type->width > op->results[0].type->width)
        return c_make(p, C_PREC_UNARY, "*(const %s *)%s", c_type(p, t), c_vec_address(p, op->operands[0]));
    CExpr a = c_use(p, op->operands[0]);
    bool from_float = dtype_is_float(f), to_float = dtype_is_float(t), wide = dtype_bits(f) == 64;
    if (f == t) return a;
    if (from_float == to_float || dtype_bits(f) == 8) return c_make(p, C_PREC_UNARY, "(%s)%s", c_type(p, t), c_text(p, a, C_PREC_UNARY));
    bool gpu = p->dialect->gpu;
    const char *fn = NULL;
    Dtype real = from_float ? f : t;
    c_type(p, real);
    if (dtype_bits(f) == 16) {
        if (!gpu) return c_make(p, C_PREC_UNARY, "(%s)%s", c_type(p, t), c_text(p, a, C_PREC_UNARY));
        fn = real == DTYPE_F16 ? from_float ? "__half_as_ushort" : "__ushort_as_half"
             : from_float      ? "__bfloat16_as_ushort"
                               : "__ushort_as_bfloat16";
    } else if (gpu) {
        fn = wide ? from_float ? "__double_as_longlong" : "__longlong_as_double" : from_float ? "__float_as_uint" : "__uint_as_float";
    } else {
        fn = c_helper(p,
                      wide         ? from_float ? C_HELPER_BITS_F64 : C_HELPER_F64_BITS
                      : from_float ? C_HELPER_BITS_F32
                                   : C_HELPER_F32_BITS,
                      DTYPE_NONE, DTYPE_NONE);
    }
    CExpr bits = c_make(p, C_PREC_PRIMARY, "%s(%s)", fn, a.text);
    bool exact = to_float || t == (wide ? gpu ? DTYPE_I64 : DTYPE_U64 : DTYPE_U32);
    return exact ? bits : c_make(p, C_PREC_UNARY, "(%s)%s", c_type(p, t), bits.text);
}

static CExpr compare(CPrinter *p, const IrOp *op) {
    const char *symbol = op->opcode == IR_LT ? "<" : op->opcode == IR_LE ? "<=" : op->opcode == IR_EQ ? "==" : "!=";
    int prec = op->opcode == IR_LT || op->opcode == IR_LE ? C_PREC_REL : C_PREC_EQ;
    return c_infix(p, op, symbol, prec, C_PREC_ADD, C_PREC_ADD);
}

static CExpr choose(CPrinter *p, const IrOp *op) {
    CExpr c = c_use(p, op->operands[0]), a = c_use(p, op->operands[1]), b = c_use(p, op->operands[2]);
    return c_make(p, C_PREC_COND, "%s ? %s : %s", c_text(p, c, C_PREC_COND + 1), c_text(p, a, C_PREC_COND + 1),
                  c_text(p, b, C_PREC_COND + 1));
}

CExpr c_pure(CPrinter *p, const IrOp *op) {
    const IrType *t = op->results[0].type;
    switch (op->opcode) {
    case IR_LT:
    case IR_LE:
    case IR_EQ:
    case IR_NE:
        return compare(p, op);
    case IR_SELECT:
        return choose(p, op);
    case IR_CAST:
        return cast(p, op);
    case IR_BITCAST:
        return bitcast(p, op);
    case IR_UNIFORM:
        return c_use(p, op->operands[0]);
    default:
        return dtype_is_float(t->dtype) ? c_floating(p, op, t->dtype) : c_integer(p, op, helper_type(t));
    }
}

/* ---- Affine expressions over symbols ---- */

bool c_aff_nonneg(const Aff *e) {
    int64_t k;
    switch (e->kind) {
    case AFF_CONST:
        return e->value >= 0;
    case AFF_SYM:
        return true;
    case AFF_SUM:
        if (e->value < 0) return false;
        for (size_t i = 0; i < e->count; i++)
            if (e->coefs[i] < 0 || !c_aff_nonneg(e->args[i])) return false;
        return true;
    case AFF_PRODUCT:
        for (size_t i = 0; i < e->count; i++)
            if (!c_aff_nonneg(e->args[i])) return false;
        return true;
    case AFF_FLOORDIV:
        return c_aff_nonneg(e->args[0]) && c_aff_nonneg(e->args[1]);
    case AFF_MOD:
        return aff_is_const(e->args[1], &k) && k >= 0;
    case AFF_MIN:
        return c_aff_nonneg(e->args[0]) && c_aff_nonneg(e->args[1]);
    case AFF_MAX:
        return c_aff_nonneg(e->args[0]) || c_aff_nonneg(e->args[1]);
    default:
        return false;
    }
}

static CExpr aff_sum(CPrinter *p, const Aff *e) {
    Str s;
    str_init(&s);
    for (int pass = 0; pass < 2; pass++) { /* what is added first */
        for (size_t i = 0; i < e->count; i++) {
            int64_t k = e->coefs[i];
            if ((k < 0) != (pass == 1)) continue;
            CExpr term = c_aff(p, e->args[i]);
            const char *sign = s.len ? k < 0 ? " - " : " + " : k < 0 ? "-" : "";
            int64_t magnitude = k < 0 ? -k : k;
            str_append(&s, sign);
            if (magnitude != 1) str_printf(&s, "%s * ", c_int_text(p, magnitude));
            str_append(&s, c_text(p, term, magnitude != 1 || k < 0 ? C_PREC_UNARY : C_PREC_ADD));
        }
    }
    if (e->value) str_printf(&s, " %c %s", e->value < 0 ? '-' : '+', c_int_text(p, e->value < 0 ? -e->value : e->value));
    CExpr r = {arena_strdup(p->arena, s.data), C_PREC_ADD};
    if (e->count == 1 && !e->value) r.prec = e->coefs[0] < 0 ? C_PREC_UNARY - 2 : C_PREC_MUL;
    str_release(&s);
    return r;
}

static CExpr aff_call(CPrinter *p, CHelper id, CExpr a, CExpr b) {
    return c_make(p, C_PREC_PRIMARY, "%s(%s, %s)", c_helper(p, id, DTYPE_NONE, DTYPE_NONE), a.text, b.text);
}

CExpr c_aff(CPrinter *p, const Aff *e) {
    if (e->kind == AFF_CONST) return (CExpr){c_int_text(p, e->value), e->value < 0 ? C_PREC_UNARY : C_PREC_PRIMARY};
    if (e->kind == AFF_SUM) return aff_sum(p, e);
    if (e->kind == AFF_SYM) {
        IrValue *v = ir_func_symbol((IrFunc *)p->func, e->name);
        if (v) return c_use(p, v);
    }
    if (e->kind == AFF_SYM || e->kind == AFF_VAR) {
        c_fail(p, NULL, "a launch formula over something else than symbols");
        return (CExpr){"0", C_PREC_PRIMARY};
    }
    CExpr a = c_aff(p, e->args[0]);
    if (e->kind == AFF_PRODUCT) {
        const char *text = c_text(p, a, C_PREC_UNARY);
        for (size_t i = 1; i < e->count; i++) text = arena_printf(p->arena, "%s * %s", text, c_text(p, c_aff(p, e->args[i]), C_PREC_UNARY));
        return (CExpr){text, C_PREC_MUL};
    }
    CExpr b = c_aff(p, e->args[1]);
    int64_t k;
    bool plain = aff_is_const(e->args[1], &k) && k > 0 && c_aff_nonneg(e->args[0]);
    switch (e->kind) {
    case AFF_FLOORDIV:
        if (plain) return c_make(p, C_PREC_MUL, "%s / %s", c_text(p, a, C_PREC_MUL), b.text);
        return aff_call(p, C_HELPER_FLOORDIV, a, b);
    case AFF_MOD:
        if (plain) return c_make(p, C_PREC_MUL, "%s %% %s", c_text(p, a, C_PREC_MUL), b.text);
        return aff_call(p, C_HELPER_FLOORMOD, a, b);
    case AFF_MIN:
        return aff_call(p, C_HELPER_MIN_INT, a, b);
    default:
        return aff_call(p, C_HELPER_MAX_INT, a, b);
    }
}

const char *c_guard(CPrinter *p, const IrFunc *f) {
    enum { MOST = 16 };
    AffCondition found[MOST];
    size_t count = f->guard ? aff_conditions(p->module->affs, f->guard, found, MOST) : 0;
    const char *text = NULL;
    if (f->guard && !count) return arena_printf(p->arena, "%s > 0", c_text(p, c_aff(p, f->guard), C_PREC_ADD));
    for (size_t i = 0; i < count; i++)
        text = arena_printf(p->arena, "%s%s%s %s %lld", text ? text : "", text ? " && " : "",
                            c_text(p, c_aff(p, found[i].left), C_PREC_ADD), found[i].relation, (long long)found[i].right);
    return text;
}
