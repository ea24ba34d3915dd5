/* Arithmetic on values of the walk: numbers, expressions and truth. */
#include "barrier_check.h"

/* ---- Arithmetic ---- */

static int64_t floor_div(int64_t a, int64_t b) {
    if (!b || (a == INT64_MIN && b == -1)) return 0;
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static bool fold(IrOpcode op, int64_t a, int64_t b, int64_t *x) {
    switch (op) {
    case IR_ADD:
        return !__builtin_add_overflow(a, b, x);
    case IR_SUB:
        return !__builtin_sub_overflow(a, b, x);
    case IR_MUL:
        return !__builtin_mul_overflow(a, b, x);
    case IR_FLOORDIV:
        *x = floor_div(a, b);
        return true;
    case IR_MOD:
        *x = b ? a - floor_div(a, b) * b : 0;
        return true;
    case IR_MIN:
    case IR_MINNUM:
        *x = a < b ? a : b;
        return true;
    case IR_MAX:
    case IR_MAXNUM:
        *x = a > b ? a : b;
        return true;
    case IR_AND:
        *x = a & b;
        return true;
    case IR_OR:
        *x = a | b;
        return true;
    case IR_XOR:
        *x = a ^ b;
        return true;
    case IR_SHL:
        *x = b >= 0 && b < 62 ? (int64_t)((uint64_t)a << b) : 0;
        return b >= 0 && b < 62 && *x >> b == a;
    case IR_SHR:
        *x = b >= 0 && b < 63 ? a >> b : 0;
        return b >= 0 && b < 63;
    default:
        return false;
    }
}

/* e = divisor * *whole + *part, with nothing but a number in *part; false where e is no such sum. */
static bool split(BarrierCheck *r, const Aff *e, int64_t divisor, const Aff **whole, int64_t *part) {
    const Aff *zero = aff_const(r->affs, 0);
    *whole = zero, *part = 0;
    if (aff_is_const(e, part)) return true;
    if (e->kind != AFF_SUM) {
        *whole = e;
        return divisor == 1;
    }
    *part = e->value;
    for (size_t i = 0; i < e->count; i++) {
        if (e->coefs[i] % divisor) return false;
        *whole = aff_add(r->affs, *whole, aff_mul(r->affs, e->args[i], aff_const(r->affs, e->coefs[i] / divisor)));
    }
    return (*whole)->kind != AFF_OVERFLOW;
}

bool barrier_check_fits(const IrType *type, int64_t n) {
    if (type->is_index || dtype_size(type->dtype) == 8) return true;
    return n >= INT32_MIN && n <= INT32_MAX && dtype_size(type->dtype) == 4;
}

/* Number by number, with the rest given. */
static bool map_numbers(BarrierCheck *r, Value *v, const IrType *type, IrOpcode op, const Value *a, const Value *b, const Aff *rest) {
    barrier_check_make_room(r, v);
    int64_t count = a->flat && b->flat ? 1 : r->threads;
    for (int64_t t = 0; t < count; t++)
        if (!fold(op, number_of(a, t), number_of(b, t), &v->number[t]) || !barrier_check_fits(type, v->number[t])) return false;
    v->kind = VALUE_LINEAR;
    v->flat = a->flat && b->flat;
    v->rest = rest;
    return true;
}

const Aff *barrier_check_whole_of(BarrierCheck *r, const Value *v) {
    const Aff *number = aff_const(r->affs, v->number[0]);
    return v->rest ? aff_add(r->affs, v->rest, number) : number;
}

bool barrier_check_set_expression(BarrierCheck *r, Value *v, const Aff *e) {
    int64_t number = 0;
    if (e->kind == AFF_OVERFLOW) return false;
    bool constant = aff_is_const(e, &number);
    if (!constant && e->kind == AFF_SUM) number = e->value;
    const Aff *rest = constant ? NULL : aff_sub(r->affs, e, aff_const(r->affs, number));
    barrier_check_set_flat(r, v, VALUE_LINEAR, number, rest);
    return true;
}

static bool scale(BarrierCheck *r, Value *v, const IrType *type, const Value *a, int64_t by) {
    Value factor = {.flat = true, .number = &by};
    const Aff *rest = a->rest ? aff_mul(r->affs, a->rest, aff_const(r->affs, by)) : NULL;
    if (rest && rest->kind == AFF_OVERFLOW) return false;
    if (by == 0) rest = NULL;
    return map_numbers(r, v, type, IR_MUL, a, &factor, rest);
}

static bool divide(BarrierCheck *r, Value *v, const IrType *type, IrOpcode op, const Value *a, int64_t by) {
    const Aff *whole = NULL;
    int64_t part = 0;
    Value shifted = *a, divisor = {.flat = true, .number = &by};
    if (by <= 0) return false;
    if (a->rest && !split(r, a->rest, by, &whole, &part)) {
        if (!a->flat) return false;
        const Aff *e = barrier_check_whole_of(r, a), *d = aff_const(r->affs, by);
        e = op == IR_MOD ? aff_mod(r->affs, e, d) : aff_floordiv(r->affs, e, d);
        return barrier_check_set_expression(r, v, aff_simplify(r->facts, e));
    }
    int64_t *moved = NULL;
    if (part) {
        int64_t count = a->flat ? 1 : r->threads;
        moved = ARENA_ARRAY(r->arena, int64_t, (size_t)count);
        for (int64_t t = 0; t < count; t++) moved[t] = a->number[t] + part;
        shifted.number = moved;
    }
    int64_t zero = 0;
    if (whole && aff_is_const(whole, &zero)) whole = NULL;
    return map_numbers(r, v, type, op, &shifted, &divisor, op == IR_MOD ? NULL : whole);
}

static bool at_least(BarrierCheck *r, const Aff *e) {
    return e->kind != AFF_OVERFLOW && aff_prove_nonneg(r->facts, e);
}

static bool choose(BarrierCheck *r, Value *v, IrOpcode op, const Value *a, const Value *b) {
    if (!a->flat || !b->flat) return false;
    bool least = op == IR_MIN || op == IR_MINNUM;
    const Aff *x = barrier_check_whole_of(r, a), *y = barrier_check_whole_of(r, b), *difference = aff_sub(r->affs, y, x);
    if (at_least(r, difference)) return barrier_check_set_expression(r, v, least ? x : y);
    if (at_least(r, aff_sub(r->affs, x, y))) return barrier_check_set_expression(r, v, least ? y : x);
    return barrier_check_set_expression(r, v, least ? aff_min(r->affs, x, y) : aff_max(r->affs, x, y));
}

bool barrier_check_arithmetic(BarrierCheck *r, Value *v, const IrType *type, IrOpcode op, const Value *a, const Value *b) {
    AffCtx *c = r->affs;
    if (a->kind != VALUE_LINEAR || b->kind != VALUE_LINEAR) return false;
    if (!a->rest && !b->rest) return map_numbers(r, v, type, op, a, b, NULL);
    if (!type->is_index) return false;
    bool number = b->flat && !b->rest;
    int64_t by = number ? b->number[0] : 0;
    switch (op) {
    case IR_ADD:
    case IR_SUB: {
        const Aff *zero = aff_const(c, 0), *x = a->rest ? a->rest : zero, *y = b->rest ? b->rest : zero;
        const Aff *rest = op == IR_ADD ? aff_add(c, x, y) : aff_sub(c, x, y);
        int64_t n;
        if (rest->kind == AFF_OVERFLOW) return false;
        if (aff_is_const(rest, &n) && n == 0) rest = NULL;
        return map_numbers(r, v, type, op, a, b, rest);
    }
    case IR_MUL:
        if (number) return scale(r, v, type, a, by);
        if (a->flat && !a->rest) return scale(r, v, type, b, a->number[0]);
        return a->flat && b->flat &&
               barrier_check_set_expression(r, v, aff_mul(c, barrier_check_whole_of(r, a), barrier_check_whole_of(r, b)));
    case IR_FLOORDIV:
    case IR_MOD:
        if (number) return divide(r, v, type, op, a, by);
        if (!a->flat || !b->flat) return false;
        return barrier_check_set_expression(r, v,
                                            op == IR_MOD ? aff_mod(c, barrier_check_whole_of(r, a), barrier_check_whole_of(r, b))
                                                         : aff_floordiv(c, barrier_check_whole_of(r, a), barrier_check_whole_of(r, b)));
    case IR_MIN:
    case IR_MINNUM:
    case IR_MAX:
    case IR_MAXNUM:
        return choose(r, v, op, a, b);
    case IR_SHL:
        return number && by >= 0 && by < 62 && scale(r, v, type, a, (int64_t)1 << by);
    case IR_SHR:
        return number && by >= 0 && by < 62 && divide(r, v, type, IR_FLOORDIV, a, (int64_t)1 << by);
    case IR_AND:
        return number && by > 0 && (by & (by + 1)) == 0 && divide(r, v, type, IR_MOD, a, by + 1);
    default:
        return false;
    }
}

/* ---- Truth ---- */

static int64_t decide(IrOpcode op, int64_t a, int64_t b) {
    return op == IR_LT ? a < b : op == IR_LE ? a <= b : op == IR_EQ ? a == b : a != b;
}

bool barrier_check_compare(BarrierCheck *r, Value *v, IrOpcode op, const Value *a, const Value *b) {
    if (a->kind != VALUE_LINEAR || b->kind != VALUE_LINEAR) return false;
    AffCtx *c = r->affs;
    const Aff *zero = aff_const(c, 0), *rest = aff_sub(c, b->rest ? b->rest : zero, a->rest ? a->rest : zero);
    int64_t between;
    if (aff_is_const(rest, &between)) { /* b - a */
        barrier_check_make_room(r, v);
        int64_t count = a->flat && b->flat ? 1 : r->threads;
        for (int64_t t = 0; t < count; t++) v->number[t] = decide(op, number_of(a, t), number_of(b, t) + between);
        v->kind = VALUE_TRUTH;
        v->flat = a->flat && b->flat;
        v->rest = NULL;
        return true;
    }
    if (!a->flat || !b->flat || rest->kind == AFF_OVERFLOW || op == IR_NE || op == IR_EQ) return false;
    const Aff *holds = aff_add(c, rest, aff_const(c, b->number[0] - a->number[0] - (op == IR_LT)));
    if (at_least(r, holds))
        barrier_check_set_flat(r, v, VALUE_TRUTH, 1, NULL);
    else if (at_least(r, aff_sub(c, aff_const(c, -1), holds)))
        barrier_check_set_flat(r, v, VALUE_TRUTH, 0, NULL);
    else
        barrier_check_set_flat(r, v, VALUE_TRUTH, 2, holds);
    return true;
}

static int64_t logic(IrOpcode op, int64_t a, int64_t b) {
    if (op == IR_AND) return !a || !b ? 0 : a == 1 && b == 1 ? 1 : 2;
    if (op == IR_OR) return a == 1 || b == 1 ? 1 : a == 2 || b == 2 ? 2 : 0;
    return a == 2 || b == 2 ? 2 : a ^ b;
}

static int64_t truth_of(const Value *v, int64_t t) {
    return v->kind == VALUE_TRUTH ? number_of(v, t) : 2;
}

void barrier_check_combine(BarrierCheck *r, Value *v, IrOpcode op, const Value *a, const Value *b) {
    barrier_check_make_room(r, v);
    bool flat = a->kind == VALUE_TRUTH && b->kind == VALUE_TRUTH && a->flat && b->flat;
    const Aff *rest = NULL;
    if (flat && op == IR_AND && a->number[0] == 1) rest = b->rest;
    if (flat && op == IR_AND && b->number[0] == 1) rest = a->rest;
    for (int64_t t = 0; t < (flat ? 1 : r->threads); t++) v->number[t] = logic(op, truth_of(a, t), truth_of(b, t));
    v->kind = VALUE_TRUTH;
    v->flat = flat;
    v->rest = rest;
}

void barrier_check_negate(BarrierCheck *r, Value *v, const Value *a) {
    barrier_check_make_room(r, v);
    v->kind = VALUE_TRUTH;
    v->flat = a->kind == VALUE_TRUTH && a->flat;
    v->rest = v->flat && a->rest ? aff_sub(r->affs, aff_const(r->affs, -1), a->rest) : NULL;
    for (int64_t t = 0; t < (v->flat ? 1 : r->threads); t++) v->number[t] = truth_of(a, t) == 2 ? 2 : !truth_of(a, t);
}

bool barrier_check_pick(BarrierCheck *r, Value *v, const Value *cond, const Value *a, const Value *b) {
    if (cond->kind == VALUE_TRUTH && cond->flat && cond->number[0] != 2) {
        barrier_check_copy_value(r, v, cond->number[0] ? a : b);
        return true;
    }
    if (cond->kind != VALUE_TRUTH || a->kind != b->kind || a->kind == VALUE_ANY || a->rest != b->rest) return false;
    barrier_check_make_room(r, v);
    for (int64_t t = 0; t < r->threads; t++) {
        int64_t which = number_of(cond, t), x = number_of(a, t), y = number_of(b, t);
        if (which == 2 && x != y && a->kind == VALUE_LINEAR) return false;
        v->number[t] = which == 2 ? (x == y ? x : 2) : which ? x : y;
    }
    v->kind = a->kind;
    v->flat = false;
    v->rest = a->rest;
    return true;
}
