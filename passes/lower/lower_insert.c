/* tile.insert: the part goes to where every thread can read it; each lane of the whole that the slice
 * covers is replaced by the part's, where that is present. */
#include "analysis/analysis.h"
#include "lower_internal.h"

typedef struct {
    Lower *x;
    IrBuilder *b;
    IrOp *op;
    const IrType *part;
    Presence presence;
    IrValue *mask, *coordinates[DIST_MAX_RANK];
} Insert;

static void need(Insert *n, IrValue *condition) {
    n->mask = mask_and(n->b, n->mask, condition);
}

/* The coordinate along axis k of the part for a lane of the whole; 0 where the slice has none. */
static void add_range(Insert *n, IrValue *at, IrValue *begin, const Aff *end, unsigned k) {
    AffCtx *c = n->x->module->affs;
    IrBuilder *b = n->b;
    int64_t step = slice_step(n->op, k), extent = ir_type_extent(n->part, k);
    IrValue *zero = ir_const_index(b, 0), *offset = ir_binary(b, IR_SUB, at, begin);
    IrValue *lane = step == 1 ? offset : ir_binary(b, IR_FLOORDIV, offset, ir_const_index(b, step));
    PresenceAxis p = n->presence.axes[k];
    need(n, index_less(b, at, lower_aff(n->x, b, end)));
    if (step != 1) need(n, ir_binary(b, IR_EQ, index_mul_const(b, lane, step), offset));
    const Aff *lo = p.hi ? aff_max(c, p.lo, aff_const(c, 0)) : aff_const(c, 0);
    const Aff *hi = p.hi ? aff_min(c, p.hi, aff_const(c, extent)) : aff_const(c, extent);
    need(n, ir_binary(b, IR_LE, lower_aff(n->x, b, lo), lane));
    need(n, index_less(b, lane, lower_aff(n->x, b, hi)));
    n->coordinates[k] = ir_select(b, n->mask, lane, zero);
}

static void find_lane(Insert *n, const Dist *dist, IrValue *const *index) {
    const char *letters = ir_attr_str(n->op, "axes", "");
    unsigned operand = 2, kept = 0;
    for (unsigned i = 0; letters[i]; i++) {
        IrValue *at = coordinate(n->x, n->b, dist, i, index);
        IrValue *begin = lower_scalar(n->x, n->op->operands[operand++]);
        if (letters[i] == IR_LETTER_RANGE)
            add_range(n, at, begin, ir_aff_of(n->x->module, n->op->operands[operand++]), kept++);
        else
            need(n, ir_binary(n->b, IR_EQ, at, begin));
    }
}

static bool is_empty(const IrType *t) {
    for (unsigned a = 0; a < t->rank; a++)
        if (ir_type_extent(t, a) == 0) return true;
    return false;
}

void lower_insert(Lower *x, IrOp *op) {
    IrValue *result = &op->results[0], *index[DIST_MAX_DIMS];
    IrBuilder inner;
    Insert n = {.x = x, .b = &inner, .op = op, .part = op->operands[1]->type};
    if (is_empty(n.part) || is_empty(result->type)) {
        lower_bind(x, result, *lower_rep(x, op->operands[0]));
        return;
    }
    n.presence = presence_in(x->presence, op->operands[1]);
    scratch_begin(x);
    Exchange e = exchange_put(x, op->operands[1], NULL, false);
    lower_barrier(x);
    Dist dist = dist_of(result->type);
    IrOp *map = dist_map(x, &dist, 1, result->type->dtype, &inner, index);
    find_lane(&n, &dist, index);
    IrValue *value = rep_get(x, &inner, lower_rep(x, op->operands[0]), &dist, index, 1);
    IrValue *part = exchange_get(&inner, &e, n.coordinates);
    if (n.mask) part = ir_select(&inner, n.mask, part, value);
    ir_yield(&inner, 1, &part);
    lower_bind_frag(x, result, ir_result(map, 0), &dist);
}
