/* Rules of constants, control flow and synchronisation. */

#include "verify_internal.h"

/* ---- Constants ---- */

static bool value_fits(const IrAttr *value, const IrType *t) {
    return value->kind == (dtype_is_float(t->dtype) ? IR_ATTR_FLOAT : IR_ATTR_INT);
}

static bool check_const(Verifier *v, const IrOp *op) {
    const IrType *t = op->results[0].type;
    const IrAttr *value = ir_attr(op, "value");
    NEED(v, op, ir_type_is_scalar(t) || ir_type_is_shaped(t), "a constant is a scalar, vec, tile or tensor");
    NEED(v, op, value_fits(value, t), "value is an int for ints, index and bool, a float for floats");
    NEED(v, op, t->dtype != DTYPE_BOOL || value->integer == 0 || value->integer == 1, "a bool is 0 or 1");
    return true;
}

static bool check_fill(Verifier *v, const IrOp *op) {
    const IrType *t = op->results[0].type;
    NEED(v, op, t->kind == IR_TYPE_TILE && op->operands[0]->type == t, "fill keeps the tile's type");
    NEED(v, op, value_fits(ir_attr(op, "value"), t), "value does not fit the tile's dtype");
    NEED(v, op, !ir_attr(op, "axis") || (uint64_t)ir_attr_int(op, "axis", -1) < t->rank, "no such axis");
    return true;
}

static bool check_bitcast(Verifier *v, const IrOp *op) {
    const IrType *from = op->operands[0]->type, *to = op->results[0].type;
    NEED(v, op, from->kind == to->kind && !from->is_index && !to->is_index, "bitcast between these types");
    NEED(v, op, from->kind == IR_TYPE_SCALAR || (from->kind == IR_TYPE_TILE && ir_same_shape(from, to)), "bitcast keeps the shape");
    NEED(v, op, from->width * dtype_bits(from->dtype) == to->width * dtype_bits(to->dtype), "bitcast keeps the number of bits");
    return true;
}

/* ---- Regions ---- */

static bool check_yields(Verifier *v, const IrOp *op, const IrBlock *region) {
    const IrOp *last = region->last;
    if (!last && !op->result_count) return true; /* reported, or the empty branch of an if */
    NEED(v, op, last && last->operand_count == op->result_count, "a region does not yield %u values", op->result_count);
    for (unsigned i = 0; i < op->result_count; i++)
        NEED(v, op, last->operands[i]->type == op->results[i].type, "yielded value %u has another type than the result", i);
    return true;
}

static bool check_step(Verifier *v, const IrOp *op) {
    const char *unknown = ir_unknown_hint(op);
    NEED(v, op, !unknown, "%s is no hint (ir/enums.def)", unknown);
    IrConst step;
    for (unsigned i = 0; i < 3; i++) NEED(v, op, ir_type_is_index(op->operands[i]->type), "bounds and step are index values");
    NEED(v, op, !ir_const_of(op->operands[2], &step) || step.integer > 0, "the step is not positive");
    const IrBlock *body = op->regions[0];
    NEED(v, op, body->arg_count >= 1 && ir_type_is_index(body->args[0]->type), "the region's first argument is the index");
    return true;
}

static bool check_for(Verifier *v, const IrOp *op) {
    if (!check_step(v, op)) return false;
    const IrBlock *body = op->regions[0];
    NEED(v, op, op->operand_count == op->result_count + 3, "as many results as initial values");
    NEED(v, op, body->arg_count == op->result_count + 1, "as many arguments as carried values, and the index");
    for (unsigned i = 0; i < op->result_count; i++) {
        const IrType *t = op->results[i].type;
        NEED(v, op, op->operands[i + 3]->type == t && body->args[i + 1]->type == t, "carried value %u changes its type", i);
    }
    return check_yields(v, op, body);
}

static bool check_parallel(Verifier *v, const IrOp *op) {
    if (!check_step(v, op)) return false;
    NEED(v, op, op->regions[0]->arg_count == 1, "the region takes the index only");
    return check_yields(v, op, op->regions[0]);
}

static bool check_if(Verifier *v, const IrOp *op) {
    NEED(v, op, ir_type_is_bool(op->operands[0]->type), "the condition is a bool scalar");
    for (unsigned i = 0; i < 2; i++) {
        NEED(v, op, !op->regions[i]->arg_count, "the regions of an if take no arguments");
        if (!check_yields(v, op, op->regions[i])) return false;
    }
    return true;
}

static bool check_return(Verifier *v, const IrOp *op) {
    const IrAttr *names = ir_attr(op, "names");
    NEED(v, op, v->func->level == IR_LEVEL_GRAPH || !op->operand_count, "only graphs return values");
    NEED(v, op, !names || names->count == op->operand_count, "as many names as values");
    for (unsigned i = 0; i < op->operand_count; i++) NEED(v, op, op->operands[i]->type->kind == IR_TYPE_TENSOR, "value %u is no tensor", i);
    return true;
}

/* ---- Synchronisation ---- */

static bool check_barrier(Verifier *v, const IrOp *op) {
    IrScope scope = ir_op_scope(op);
    NEED(v, op, scope != IR_SCOPE_WARPGROUP || v->func->level != IR_LEVEL_KERNEL || ir_func_int(v->func, IR_FN_NUM_WARPS, 1) % 4 == 0,
         "the function's warps make no whole warpgroups");
    NEED(v, op, scope != IR_SCOPE_CLUSTER || ir_func_cluster(v->func) > 1, "the function has no clusters");
    return true;
}

static bool check_wait(Verifier *v, const IrOp *op) {
    int64_t pending = ir_attr_int(op, "pending", -1);
    NEED(v, op, pending >= 0 && pending < 64, "pending is from 0 to 63");
    return true;
}

IrCheck ir_control_check(IrOpcode opcode) {
    static const IrCheck checks[IR_OP_COUNT] = {
        [IR_CONST] = check_const,   [IR_TILE_FILL] = check_fill,    [IR_BITCAST] = check_bitcast,
        [IR_FOR] = check_for,       [IR_PARALLEL] = check_parallel, [IR_IF] = check_if,
        [IR_RETURN] = check_return, [IR_BARRIER] = check_barrier,   [IR_ASYNC_WAIT] = check_wait,
    };
    return checks[opcode];
}
