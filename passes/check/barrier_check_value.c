/* Index arithmetic of all threads at once: a number for each thread, which the thread's number and the indices of
 * unrolled maps and loops determine, plus an expression that the block's threads share. */
#include "barrier_check.h"

#include <string.h>

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

void barrier_check_make_room(BarrierCheck *r, Value *v) {
    if (!v->number) v->number = ARENA_ARRAY(r->arena, int64_t, (size_t)r->threads);
}

void barrier_check_set_flat(BarrierCheck *r, Value *v, ValueKind kind, int64_t number, const Aff *rest) {
    barrier_check_make_room(r, v);
    v->kind = kind;
    v->flat = true;
    v->number[0] = number;
    v->rest = rest;
}

static void set_any(BarrierCheck *r, Value *v) {
    barrier_check_make_room(r, v);
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
        barrier_check_set_flat(r, v, VALUE_TRUTH, 2, NULL);
    } else if (flat) {
        barrier_check_set_flat(r, v, VALUE_LINEAR, 0, unknown(r, of));
    } else {
        set_any(r, v);
    }
}

void barrier_check_copy_value(BarrierCheck *r, Value *to, const Value *from) {
    barrier_check_make_room(r, to);
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

/* ---- Ops ---- */

static bool set_special(BarrierCheck *r, Value *v, IrSpecial special) {
    barrier_check_make_room(r, v);
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
    barrier_check_set_flat(r, v, truth ? VALUE_TRUTH : VALUE_LINEAR, value->integer, NULL);
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
        if (!barrier_check_fits(to, from->number[t])) return false;
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
        return barrier_check_compare(r, v, op->opcode, barrier_check_value(r, op->operands[0]), barrier_check_value(r, op->operands[1]));
    case IR_NOT:
        if (!truth) return false;
        barrier_check_negate(r, v, barrier_check_value(r, op->operands[0]));
        return true;
    case IR_SELECT:
        return barrier_check_pick(r, v, barrier_check_value(r, op->operands[0]), barrier_check_value(r, op->operands[1]),
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
    barrier_check_make_room(r, v);
    if (barrier_check_remainders(r, op, v->number)) {
        v->kind = VALUE_LINEAR, v->flat = false, v->rest = NULL;
        return true;
    }
    const Value *a = barrier_check_value(r, op->operands[0]), *b = barrier_check_value(r, op->operands[1]);
    if (!truth) return barrier_check_arithmetic(r, v, type, op->opcode, a, b);
    if (op->opcode != IR_AND && op->opcode != IR_OR && op->opcode != IR_XOR) return false;
    barrier_check_combine(r, v, op->opcode, a, b);
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
    n = aff_mul(c, n, barrier_check_whole_of(r, step));
    Value way = {0};
    if (!barrier_check_set_expression(r, &way, n)) return false;
    return barrier_check_arithmetic(r, v, ir_type_index(r->module), IR_ADD, lb, &way);
}

static bool evaluate_arg(BarrierCheck *r, Value *v, const IrValue *of) {
    const IrOp *parent = of->block->parent;
    if (!parent) {
        const IrFunc *f = of->block->func;
        if (of->index >= f->param_count || f->params[of->index].kind != IR_PARAM_SYMBOL) return false;
        barrier_check_set_flat(r, v, VALUE_LINEAR, 0, aff_sym(r->affs, f->params[of->index].name));
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
