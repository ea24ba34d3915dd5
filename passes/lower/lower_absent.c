/* What lanes that are absent hold in registers. A masked load puts a constant there; where what is made of it is the
 * identity of a reduction, lanes need no second look: e^(x - max x) of -inf is 0, x * x of 0 is 0. */
#include "analysis/analysis.h"
#include "lower_internal.h"

#include <math.h>

enum {
    DEPTH = 12 /* operations that are looked through */
};

static bool has_infinity(Dtype t) {
    return t == DTYPE_F16 || t == DTYPE_BF16 || t == DTYPE_F32 || t == DTYPE_F64;
}

static bool is_kind(const IrOp *op, IrKind kind) {
    return op->opcode == IR_TILE_REDUCE && ir_op_kind(op) == kind;
}

/* Neither by an index tile nor through a view. */
static bool is_plain(const IrOp *load) {
    return !is_view(load->operands[0]) && !slice_gathers(load);
}

/* The argument and the result of the loop around that go on with operand `index` of `op`. */
static bool carried(const IrOp *op, unsigned index, const IrValue *next[2]) {
    const IrOp *loop = op->opcode == IR_FOR ? op : op->opcode == IR_YIELD ? op->block->parent : NULL;
    if (!loop || loop->opcode != IR_FOR || (loop == op && index < 3)) return false;
    unsigned k = loop == op ? index - 3 : index;
    next[0] = loop->regions[0]->args[k + 1], next[1] = &loop->results[k];
    return true;
}

typedef struct {
    PointerTable seen;
    double wanted; /* by the first maximum or minimum of the loaded lanes themselves; else 0 */
} Uses;

/* What leaves a lane out of the maximum, minimum or running product that `op` is, or makes chunks ready for; else 0. */
static double left_out(const IrOp *op) {
    const IrAttr *value = op->opcode == IR_TILE_FILL ? ir_attr(op, "value") : NULL;
    IrKind scan = op->opcode == IR_TILE_SCAN ? ir_op_kind(op) : IR_KIND_NONE;
    if (scan == IR_KIND_MUL) return 1;
    if (scan == IR_KIND_MAX) return -INFINITY;
    if (scan == IR_KIND_MIN) return INFINITY;
    if (value) return value->kind == IR_ATTR_FLOAT && isinf(value->number) ? value->number : 0;
    return is_kind(op, IR_KIND_MAX) ? -INFINITY : is_kind(op, IR_KIND_MIN) ? INFINITY : 0;
}

/* Is it of no account to all ops behind it what absent lanes hold, or do they ask absent_holds? */
static bool may_hold_any(const Lower *x, Uses *uses, const IrValue *v, bool is_loaded) {
    uint32_t known;
    if (pointer_table_get(&uses->seen, v, &known)) return true;
    pointer_table_set(&uses->seen, v, 1);
    for (const IrUse *use = v->uses; use; use = use->next) {
        const IrOp *op = use->op;
        const IrValue *next[2];
        if (is_loaded && uses->wanted == 0) uses->wanted = left_out(op);
        bool asks = op->opcode == IR_TILE_REDUCE || op->opcode == IR_TILE_FILL || (op->opcode == IR_TILE_SCAN && x->gpu);
        if (asks || (op->opcode == IR_TILE_STORE && use->index == 0)) continue;
        if (ir_has_trait(op, IR_ELEMENTWISE) && is_tile(&op->results[0])) {
            if (!may_hold_any(x, uses, &op->results[0], is_loaded && op->opcode == IR_CAST)) return false;
        } else if (carried(op, use->index, next)) {
            if (!may_hold_any(x, uses, next[0], is_loaded) || !may_hold_any(x, uses, next[1], is_loaded)) return false;
        } else {
            return false;
        }
    }
    return true;
}

double absent_fill(Lower *x, const IrOp *load) {
    const IrAttr *pad = ir_attr(load, "pad");
    const IrValue *v = &load->results[0];
    Uses uses = {pointer_table(x->ctx->scratch), 0};
    if (pad) return pad->number;
    if (!is_tile(v) || !has_infinity(v->type->dtype) || !is_plain(load) || !may_hold_any(x, &uses, v, true)) return 0;
    return uses.wanted;
}

/* Of e^(x - max x), which divide_by_reciprocal marked: the maximum. */
static const IrOp *own_maximum(const IrOp *op) {
    const IrOp *less = op->operands[0]->def;
    if (!ir_attr_bool(op, "not_positive") || !less || less->opcode != IR_SUB) return NULL;
    const IrOp *all = less->operands[1]->def, *fold = all && all->opcode == IR_TILE_BROADCAST ? all->operands[0]->def : NULL;
    return fold && is_kind(fold, IR_KIND_MAX) && fold->operands[0] == less->operands[0] ? fold : NULL;
}

/* Has every lane that is absent along one of `axes` its maximum from a lane that is present? Then that is a number, or the present lanes
 * are NaN, too. What the maximum does not fold must not be absent there: a row of nothing but absent lanes has the maximum -inf. */
static bool has_present(Lower *x, const IrOp *fold, uint32_t axes) {
    Presence p = presence_in(x->presence, fold->operands[0]);
    const IrAttr *own = ir_attr(fold, "axes");
    uint32_t folded = 0;
    AffCtx *c = x->module->affs;
    AffFacts *facts = ir_facts_at(x->ctx->scratch, (IrOp *)fold);
    for (size_t i = 0; i < own->count; i++) folded |= 1u << own->ints[i];
    for (unsigned i = 0; i < p.rank; i++) {
        PresenceAxis axis = p.axes[i];
        const Aff *lo = axis.lo ? axis.lo : aff_const(c, 0);
        if (!axis.hi || !((folded | axes) >> i & 1)) continue;
        if (!(folded >> i & 1) || !aff_prove_nonneg(facts, aff_sub(c, aff_sub(c, axis.hi, lo), aff_const(c, 1)))) return false;
    }
    return true;
}

static bool same_axis(const PresenceAxis *a, const PresenceAxis *b) {
    return a->lo == b->lo && a->hi == b->hi;
}

static bool value_at(Lower *x, const IrValue *tile, uint32_t axes, int depth, double *value);

/* What an op of several tiles makes of its operands from `first` on: each of these is the same in all lanes, or absent where the result is.
 * An operand before them says nothing where it is absent itself, as the others would hold what they hold there. */
static bool values_at(Lower *x, const IrOp *op, unsigned first, uint32_t axes, int depth, double *values) {
    Presence all = presence_in(x->presence, (IrValue *)&op->results[0]);
    for (unsigned i = 0; i < op->operand_count; i++) {
        const IrValue *v = op->operands[i];
        const IrAttr *constant = v->def && v->def->opcode == IR_CONST ? ir_attr(v->def, "value") : NULL;
        if (constant && i >= first) {
            if (constant->kind != IR_ATTR_FLOAT) return false;
            values[i - first] = constant->number;
            continue;
        }
        Presence own = presence_in(x->presence, (IrValue *)v);
        for (unsigned a = 0; a < all.rank; a++)
            if ((axes >> a & 1) && !same_axis(&own.axes[a], &all.axes[a])) return false;
        if (i >= first && !value_at(x, v, axes, depth + 1, &values[i - first])) return false;
    }
    return true;
}

/* What the lanes of the tile that are absent along `axes` hold, where it is known. */
static bool value_at(Lower *x, const IrValue *tile, uint32_t axes, int depth, double *value) {
    const IrOp *op = tile->def;
    double a, b, two[2];
    if (depth > DEPTH) return false;
    if (!op) {
        const IrOp *loop = tile->block->parent;
        if (!loop || loop->opcode != IR_FOR || !tile->index) return false;
        const IrValue *next = loop->regions[0]->last->operands[tile->index - 1];
        return value_at(x, loop->operands[tile->index + 2], axes, depth + 1, &a) && value_at(x, next, axes, depth + DEPTH / 2, &b) &&
               a == b && (*value = a, true);
    }
    switch (op->opcode) {
    case IR_TILE_LOAD:
        *value = absent_fill(x, op);
        return is_plain(op) && dtype_is_float(tile->type->dtype) && !ir_attr(op, "pad");
    case IR_CAST: {
        Dtype from = op->operands[0]->type->dtype, to = tile->type->dtype;
        if (!dtype_is_float(from) || !dtype_is_float(to) || !value_at(x, op->operands[0], axes, depth + 1, value)) return false;
        return *value == 0 || has_infinity(to);
    }
    case IR_TILE_FILL: {
        const IrAttr *filled = ir_attr(op, "value");
        *value = filled->number;
        return filled->kind == IR_ATTR_FLOAT;
    }
    /* NOLINTBEGIN(*UndefinedBinaryOperatorResult): values_at has set both numbers where it is true */
    case IR_SELECT:
        return values_at(x, op, 1, axes, depth, two) && two[0] == two[1] && signbit(two[0]) == signbit(two[1]) && (*value = two[0], true);
    case IR_SUB:
        return values_at(x, op, 0, axes, depth, two) && (*value = two[0] - two[1], *value == 0);
    /* NOLINTEND(*UndefinedBinaryOperatorResult) */
    case IR_ABS:
        return value_at(x, op->operands[0], axes, depth + 1, value) && (*value = fabs(*value), true);
    case IR_MUL:
        return op->operands[0] == op->operands[1] && value_at(x, op->operands[0], axes, depth + 1, value) && (*value *= *value, true);
    case IR_SQRT:
    case IR_SIN:
    case IR_TAN:
    case IR_ATAN:
    case IR_SINH:
    case IR_TANH:
    case IR_ERF:
    case IR_EXPM1:
    case IR_LOG1P: /* zeros stay what they are */
        return value_at(x, op->operands[0], axes, depth + 1, value) && *value == 0;
    case IR_EXP: {
        const IrOp *fold = own_maximum(op);
        if (!fold || !value_at(x, fold->operands[0], axes, depth + 1, &a) || a != -INFINITY || !has_present(x, fold, axes)) return false;
        *value = 0;
        return true;
    }
    default:
        return false;
    }
}

bool absent_holds(Lower *x, const IrValue *tile, uint32_t axes, double value) {
    double held;
    return value_at(x, tile, axes, 0, &held) && held == value && signbit(held) == signbit(value);
}
