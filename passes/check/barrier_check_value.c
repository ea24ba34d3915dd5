/* Index arithmetic of all threads at once: a number for each thread, which the thread's number and the indices of
 * unrolled maps and loops determine, plus an expression that the block's threads share. */
#include <string.h>

#include "barrier_check.h"

uint32_t barrier_check_op_number(const IrOp *op) {
    return op->mark;
}

/* ---- Slots ---- */

static size_t slot_of(const BarrierCheck *r, const IrValue *v) {
    if (v->def) return r->first_result[v->def->mark] + v->index;
    const IrOp *parent = v->block->parent;
    if (!parent) return v->index;
    return r->first_arg[2 * parent->mark + (parent->regions[1] == v->block)] + v->index;
}

Value *barrier_check_slot(BarrierCheck *r, const IrValue *v) {
    return &r->values[slot_of(r, v)];
}

static uint64_t stamp_of(const BarrierCheck *r, const IrValue *v) {
    const IrBlock *block = v->def ? v->def->block : v->block;
    return block->parent ? r->stamps[2 * block->parent->mark + (block->parent->regions[1] == block)] : 1;
}

void barrier_check_enter(BarrierCheck *r, const IrOp *parent, unsigned region) {
    r->stamps[2 * parent->mark + region] = ++r->clock;
}

static void number_ops(void *context, IrOp *op) {
    BarrierCheck *r = context;
    op->mark = (uint32_t)r->op_count++;
}

static void number_values(void *context, IrOp *op) {
    BarrierCheck *r = context;
    r->first_result[op->mark] = (uint32_t)r->value_count;
    r->value_count += op->result_count;
    for (unsigned i = 0; i < op->region_count; i++) {
        r->first_arg[2 * op->mark + i] = (uint32_t)r->value_count;
        if (op->regions[i]) r->value_count += op->regions[i]->arg_count;
    }
}

void barrier_check_values_init(BarrierCheck *r) {
    r->op_count = 0;
    ir_walk(r->func->body, number_ops, r);
    r->first_result = ARENA_ARRAY(r->arena, uint32_t, r->op_count + 1);
    r->first_arg = ARENA_ARRAY(r->arena, uint32_t, 2 * r->op_count + 2);
    r->stamps = ARENA_ARRAY(r->arena, uint64_t, 2 * r->op_count + 2);
    r->iterations = ARENA_ARRAY(r->arena, Iteration, r->op_count + 1);
    r->loop_facts = ARENA_ARRAY(r->arena, AffFacts *, r->op_count + 1);
    r->relevant = ARENA_ARRAY(r->arena, uint8_t, r->op_count + 1);
    r->value_count = r->func->body->arg_count;
    ir_walk(r->func->body, number_values, r);
    r->values = ARENA_ARRAY(r->arena, Value, r->value_count + 1);
    r->uniform = ARENA_ARRAY(r->arena, uint8_t, r->value_count + 1);
    r->clock = 1;
}

/* ---- The same for all threads of the block? ---- */

static bool uniform_op(BarrierCheck *r, const IrOp *op, unsigned result) {
    IrSpecial special = ir_op_special(op);
    switch (op->opcode) {
    case IR_CONST:
        return true;
    case IR_UNIFORM:
        return r->blocks == 1;
    case IR_SPECIAL:
        return ir_is_block_count(special) || special == IR_SPECIAL_CLUSTERID_X || (r->blocks == 1 && ir_is_block_number(special));
    case IR_FOR:
        return barrier_check_uniform(r, op->regions[0]->args[result + 1]);
    case IR_IF:
        for (unsigned i = 0; i < 2; i++)
            if (!op->regions[i]->last || !barrier_check_uniform(r, op->regions[i]->last->operands[result])) return false;
        return barrier_check_uniform(r, op->operands[0]);
    default:
        break;
    }
    if (!ir_has_trait(op, IR_PURE) || op->region_count) return false;
    for (unsigned i = 0; i < op->operand_count; i++)
        if (!barrier_check_uniform(r, op->operands[i])) return false;
    return true;
}

static bool uniform_arg(BarrierCheck *r, const IrValue *v) {
    const IrOp *parent = v->block->parent;
    if (!parent || parent->opcode == IR_MAP) return true;
    if (parent->opcode != IR_FOR) return false;
    for (unsigned i = 0; i < 3; i++)
        if (!barrier_check_uniform(r, parent->operands[i])) return false;
    return !v->index ||
           (barrier_check_uniform(r, parent->operands[v->index + 2]) && barrier_check_uniform(r, v->block->last->operands[v->index - 1]));
}

/* On a way around a loop only what else goes in counts; what was found so is forgotten where that differs. */
bool barrier_check_uniform(BarrierCheck *r, const IrValue *v) {
    uint8_t *known = &r->uniform[slot_of(r, v)];
    if (*known) return *known != UNIFORM_NO;
    size_t before = r->found.len;
    *known = UNIFORM_ASKED;
    bool is = v->def ? uniform_op(r, v->def, v->index) : uniform_arg(r, v);
    if (!is)
        for (; r->found.len > before; r->found.len--) r->uniform[r->found.data[r->found.len - 1]] = 0;
    else
        VEC_PUSH(r->arena, &r->found, (uint32_t)slot_of(r, v));
    *known = is ? UNIFORM_YES : UNIFORM_NO;
    return is;
}

/* ---- Making values ---- */

static void make_room(BarrierCheck *r, Value *v) {
    if (!v->number) v->number = ARENA_ARRAY(r->arena, int64_t, (size_t)r->threads);
}

static void set_flat(BarrierCheck *r, Value *v, ValueKind kind, int64_t number, const Aff *rest) {
    make_room(r, v);
    v->kind = kind;
    v->flat = true;
    v->number[0] = number;
    v->rest = rest;
}

static void set_any(BarrierCheck *r, Value *v) {
    make_room(r, v);
    v->kind = VALUE_ANY;
    v->flat = false;
    v->rest = NULL;
}

static bool in_loop(const IrValue *v) {
    const IrBlock *block = v->def ? v->def->block : v->block;
    while (block->parent && block->parent->opcode != IR_FOR) block = block->parent->block;
    return block->parent != NULL;
}

static const Aff *unknown(BarrierCheck *r, const IrValue *of) {
    const Aff *var = barrier_check_new_variable(r, of->name ? of->name : "v");
    if (in_loop(of)) VEC_PUSH(r->arena, &r->varying, var);
    return var;
}

/* A number of the block's that nothing more is known of. */
static void set_unknown(BarrierCheck *r, Value *v, const IrValue *of) {
    if (of->type->kind != IR_TYPE_SCALAR || of->type->width > 1 || dtype_is_float(of->type->dtype)) {
        set_any(r, v);
        return;
    }
    bool truth = of->type->dtype == DTYPE_BOOL, flat = barrier_check_uniform(r, of);
    if (truth && !flat) {
        set_any(r, v);
        v->kind = VALUE_TRUTH;
        for (int64_t t = 0; t < r->threads; t++) v->number[t] = 2;
    } else if (truth) {
        set_flat(r, v, VALUE_TRUTH, 2, NULL);
    } else if (flat) {
        set_flat(r, v, VALUE_LINEAR, 0, unknown(r, of));
    } else {
        set_any(r, v);
    }
}

void barrier_check_copy_value(BarrierCheck *r, Value *to, const Value *from) {
    make_room(r, to);
    to->kind = from->kind;
    to->flat = from->flat;
    to->rest = from->rest;
    memcpy(to->number, from->number, sizeof *to->number * (size_t)(from->flat ? 1 : r->threads));
}

void barrier_check_set(BarrierCheck *r, const IrValue *v, const Value *from) {
    Value *to = barrier_check_slot(r, v);
    barrier_check_copy_value(r, to, from);
    to->stamp = stamp_of(r, v);
}

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

static bool fits(const IrType *type, int64_t n) {
    if (type->is_index || dtype_size(type->dtype) == 8) return true;
    return n >= INT32_MIN && n <= INT32_MAX && dtype_size(type->dtype) == 4;
}

/* Number by number, with the rest given. */
static bool map_numbers(BarrierCheck *r, Value *v, const IrType *type, IrOpcode op, const Value *a, const Value *b, const Aff *rest) {
    make_room(r, v);
    int64_t count = a->flat && b->flat ? 1 : r->threads;
    for (int64_t t = 0; t < count; t++)
        if (!fold(op, number_of(a, t), number_of(b, t), &v->number[t]) || !fits(type, v->number[t])) return false;
    v->kind = VALUE_LINEAR;
    v->flat = a->flat && b->flat;
    v->rest = rest;
    return true;
}

static const Aff *whole_of(BarrierCheck *r, const Value *v) {
    const Aff *number = aff_const(r->affs, v->number[0]);
    return v->rest ? aff_add(r->affs, v->rest, number) : number;
}

/* The value is `e`, of the block. */
static bool set_expression(BarrierCheck *r, Value *v, const Aff *e) {
    int64_t number = 0;
    if (e->kind == AFF_OVERFLOW) return false;
    bool constant = aff_is_const(e, &number);
    if (!constant && e->kind == AFF_SUM) number = e->value;
    const Aff *rest = constant ? NULL : aff_sub(r->affs, e, aff_const(r->affs, number));
    set_flat(r, v, VALUE_LINEAR, number, rest);
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
        const Aff *e = whole_of(r, a), *d = aff_const(r->affs, by);
        e = op == IR_MOD ? aff_mod(r->affs, e, d) : aff_floordiv(r->affs, e, d);
        return set_expression(r, v, aff_simplify(r->facts, e));
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
    const Aff *x = whole_of(r, a), *y = whole_of(r, b), *difference = aff_sub(r->affs, y, x);
    if (at_least(r, difference)) return set_expression(r, v, least ? x : y);
    if (at_least(r, aff_sub(r->affs, x, y))) return set_expression(r, v, least ? y : x);
    return set_expression(r, v, least ? aff_min(r->affs, x, y) : aff_max(r->affs, x, y));
}

/* Two's complement: shifts and masks by numbers are divisions. */
static bool arithmetic(BarrierCheck *r, Value *v, const IrType *type, IrOpcode op, const Value *a, const Value *b) {
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
        return a->flat && b->flat && set_expression(r, v, aff_mul(c, whole_of(r, a), whole_of(r, b)));
    case IR_FLOORDIV:
    case IR_MOD:
        if (number) return divide(r, v, type, op, a, by);
        if (!a->flat || !b->flat) return false;
        return set_expression(r, v,
                              op == IR_MOD ? aff_mod(c, whole_of(r, a), whole_of(r, b)) : aff_floordiv(c, whole_of(r, a), whole_of(r, b)));
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

static bool compare(BarrierCheck *r, Value *v, IrOpcode op, const Value *a, const Value *b) {
    if (a->kind != VALUE_LINEAR || b->kind != VALUE_LINEAR) return false;
    AffCtx *c = r->affs;
    const Aff *zero = aff_const(c, 0), *rest = aff_sub(c, b->rest ? b->rest : zero, a->rest ? a->rest : zero);
    int64_t between;
    if (aff_is_const(rest, &between)) { /* b - a */
        make_room(r, v);
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
        set_flat(r, v, VALUE_TRUTH, 1, NULL);
    else if (at_least(r, aff_sub(c, aff_const(c, -1), holds)))
        set_flat(r, v, VALUE_TRUTH, 0, NULL);
    else
        set_flat(r, v, VALUE_TRUTH, 2, holds);
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

static void combine(BarrierCheck *r, Value *v, IrOpcode op, const Value *a, const Value *b) {
    make_room(r, v);
    bool flat = a->kind == VALUE_TRUTH && b->kind == VALUE_TRUTH && a->flat && b->flat;
    const Aff *rest = NULL;
    if (flat && op == IR_AND && a->number[0] == 1) rest = b->rest;
    if (flat && op == IR_AND && b->number[0] == 1) rest = a->rest;
    for (int64_t t = 0; t < (flat ? 1 : r->threads); t++) v->number[t] = logic(op, truth_of(a, t), truth_of(b, t));
    v->kind = VALUE_TRUTH;
    v->flat = flat;
    v->rest = rest;
}

static void negate(BarrierCheck *r, Value *v, const Value *a) {
    make_room(r, v);
    v->kind = VALUE_TRUTH;
    v->flat = a->kind == VALUE_TRUTH && a->flat;
    v->rest = v->flat && a->rest ? aff_sub(r->affs, aff_const(r->affs, -1), a->rest) : NULL;
    for (int64_t t = 0; t < (v->flat ? 1 : r->threads); t++) v->number[t] = truth_of(a, t) == 2 ? 2 : !truth_of(a, t);
}

static bool pick(BarrierCheck *r, Value *v, const Value *cond, const Value *a, const Value *b) {
    if (cond->kind == VALUE_TRUTH && cond->flat && cond->number[0] != 2) {
        barrier_check_copy_value(r, v, cond->number[0] ? a : b);
        return true;
    }
    if (cond->kind != VALUE_TRUTH || a->kind != b->kind || a->kind == VALUE_ANY || a->rest != b->rest) return false;
    make_room(r, v);
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

/* ---- Ops ---- */

static bool set_special(BarrierCheck *r, Value *v, IrSpecial special) {
    make_room(r, v);
    for (int64_t t = 0; t < r->threads; t++) {
        int64_t at = t % r->block_threads;
        if (special == IR_SPECIAL_TID_X)
            v->number[t] = at;
        else if (special == IR_SPECIAL_LANE)
            v->number[t] = at % WARP;
        else if (special == IR_SPECIAL_WARP)
            v->number[t] = at / WARP;
        else if (special == IR_SPECIAL_CLUSTER_RANK)
            v->number[t] = t / r->block_threads;
        else
            return false;
    }
    v->kind = VALUE_LINEAR;
    v->flat = false;
    v->rest = NULL;
    return true;
}

static bool set_constant(BarrierCheck *r, Value *v, const IrOp *op) {
    const IrType *type = op->results[0].type;
    const IrAttr *value = ir_attr(op, "value");
    if (type->kind != IR_TYPE_SCALAR || type->width > 1 || !value || value->kind == IR_ATTR_FLOAT) return false;
    bool truth = !type->is_index && type->dtype == DTYPE_BOOL;
    set_flat(r, v, truth ? VALUE_TRUTH : VALUE_LINEAR, value->integer, NULL);
    return true;
}

static bool is_whole_number(const IrType *t) {
    return t->kind == IR_TYPE_SCALAR && t->width == 1 && (t->is_index || (!dtype_is_float(t->dtype) && t->dtype != DTYPE_BOOL));
}

static bool set_cast(BarrierCheck *r, Value *v, const IrOp *op) {
    const IrType *to = op->results[0].type;
    if (!is_whole_number(to) || !is_whole_number(op->operands[0]->type)) return false;
    const Value *from = barrier_check_value(r, op->operands[0]);
    if (from->kind != VALUE_LINEAR) return false;
    if (from->rest && !to->is_index && dtype_size(to->dtype) < 8) return false;
    for (int64_t t = 0; t < (from->flat ? 1 : r->threads); t++)
        if (!fits(to, from->number[t])) return false;
    barrier_check_copy_value(r, v, from);
    return true;
}

static bool evaluate(BarrierCheck *r, Value *v, const IrOp *op) {
    const IrType *type = op->result_count ? op->results[0].type : NULL;
    if (!type || type->kind != IR_TYPE_SCALAR || type->width > 1) return false;
    bool truth = !type->is_index && type->dtype == DTYPE_BOOL;
    if (!truth && !is_whole_number(type)) return false;
    switch (op->opcode) {
    case IR_CONST:
        return set_constant(r, v, op);
    case IR_SPECIAL:
        return set_special(r, v, ir_op_special(op));
    case IR_CAST:
        return set_cast(r, v, op);
    case IR_LT:
    case IR_LE:
    case IR_EQ:
    case IR_NE:
        if (!is_whole_number(op->operands[0]->type)) return false;
        return compare(r, v, op->opcode, barrier_check_value(r, op->operands[0]), barrier_check_value(r, op->operands[1]));
    case IR_NOT:
        if (!truth) return false;
        negate(r, v, barrier_check_value(r, op->operands[0]));
        return true;
    case IR_SELECT:
        return pick(r, v, barrier_check_value(r, op->operands[0]), barrier_check_value(r, op->operands[1]),
                    barrier_check_value(r, op->operands[2]));
    case IR_UNIFORM: {
        const Value *a = barrier_check_value(r, op->operands[0]);
        if (!a->flat || a->kind == VALUE_ANY) return false;
        barrier_check_copy_value(r, v, a);
        return true;
    }
    default:
        break;
    }
    if (op->operand_count != 2 || !ir_has_trait(op, IR_ELEMENTWISE)) return false;
    make_room(r, v);
    if (barrier_check_remainders(r, op, v->number)) {
        v->kind = VALUE_LINEAR, v->flat = false, v->rest = NULL;
        return true;
    }
    const Value *a = barrier_check_value(r, op->operands[0]), *b = barrier_check_value(r, op->operands[1]);
    if (!truth) return arithmetic(r, v, type, op->opcode, a, b);
    if (op->opcode != IR_AND && op->opcode != IR_OR && op->opcode != IR_XOR) return false;
    combine(r, v, op->opcode, a, b);
    return true;
}

/* lb + step * (period * turn + number). */
static bool set_loop_variable(BarrierCheck *r, Value *v, const IrOp *loop) {
    const Iteration *i = &r->iterations[loop->mark];
    const Value *lb = barrier_check_value(r, loop->operands[0]), *step = barrier_check_value(r, loop->operands[2]);
    if (lb->kind != VALUE_LINEAR || step->kind != VALUE_LINEAR || !step->flat) return false;
    AffCtx *c = r->affs;
    const Aff *n = aff_const(c, i->number);
    if (i->turn) n = aff_add(c, n, aff_mul(c, i->turn, aff_const(c, i->period)));
    n = aff_mul(c, n, whole_of(r, step));
    Value way = {0};
    if (!set_expression(r, &way, n)) return false;
    return arithmetic(r, v, ir_type_index(r->module), IR_ADD, lb, &way);
}

static bool evaluate_arg(BarrierCheck *r, Value *v, const IrValue *of) {
    const IrOp *parent = of->block->parent;
    if (!parent) {
        const IrFunc *f = of->block->func;
        if (of->index >= f->param_count || f->params[of->index].kind != IR_PARAM_SYMBOL) return false;
        set_flat(r, v, VALUE_LINEAR, 0, aff_sym(r->affs, f->params[of->index].name));
        return true;
    }
    return parent->opcode == IR_FOR && !of->index && set_loop_variable(r, v, parent);
}

/* What is known where the value is made, which may be outside of the loop that asks for it. */
static AffFacts *facts_of(const BarrierCheck *r, const IrValue *v) {
    const IrBlock *block = v->def ? v->def->block : v->block;
    for (; block->parent; block = block->parent->block)
        if (r->loop_facts[block->parent->mark]) return r->loop_facts[block->parent->mark];
    return r->func_facts;
}

const Value *barrier_check_value(BarrierCheck *r, const IrValue *of) {
    Value *v = barrier_check_slot(r, of);
    uint64_t stamp = stamp_of(r, of);
    if (v->stamp == stamp) return v;
    AffFacts *facts = r->facts;
    r->facts = facts_of(r, of);
    bool known = of->def ? evaluate(r, v, of->def) : evaluate_arg(r, v, of);
    if (!known) set_unknown(r, v, of);
    r->facts = facts;
    v->stamp = stamp;
    r->work += v->flat ? 8 : r->threads;
    return v;
}
