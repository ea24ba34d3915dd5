/* Mean and variance over several axes in one pass over the elements.
 *
 * The variance about a mean needs the mean first: the elements are read for one, then for the other. Of parts of equal size, along the last of the folded axes, each has a mean and a variance while a block holds
 * it; the mean of all is that of the parts' means, and the variance the mean of the parts' variances plus the variance of their means (the law of total variance; Chan, Golub, LeVeque 1979). Nothing is subtracted that is
 * not a deviation from a mean, so nothing cancels as in the mean of squares less the squared mean; what is added to the error are the roundings of the parts' means. */
#include "rewrite_internal.h"

/* Axes of a tensor, twice those that the reference takes; the rewrite leaves a larger rank alone. */
enum { MOST_RANK = 16 };

/* mean((x - mean(x))^2), both along the same axes. */
typedef struct {
    IrOp *mean, *variance;
    IrValue *x;
    int64_t axes[MOST_RANK]; /* in order */
    size_t count;
} Moments;

static bool is_mean(const IrOp *op) {
    return op && op->opcode == IR_GRAPH_REDUCE && ir_op_kind(op) == IR_KIND_MEAN && !ir_attr_bool(op, "keepdim") &&
           op->operands[0]->type->rank <= MOST_RANK;
}

static uint32_t axes_of(const IrOp *op) {
    const IrAttr *axes = ir_attr(op, "axes");
    uint32_t bits = 0;
    for (size_t i = 0; i < axes->count; i++) bits |= (uint32_t)1 << axes->ints[i];
    return bits;
}

/* Does the broadcast put what was folded back to where it came from? */
static bool restores(const IrOp *broadcast, uint32_t folded) {
    const IrAttr *axes = ir_attr(broadcast, "axes");
    size_t at = 0;
    for (unsigned i = 0; i < broadcast->results[0].type->rank; i++) {
        if (folded >> i & 1) continue;
        if (at == axes->count || axes->ints[at++] != (int64_t)i) return false;
    }
    return at == axes->count;
}

static bool match(IrOp *op, Moments *m) {
    IrOp *square = is_mean(op) ? op->operands[0]->def : NULL;
    if (!square || square->opcode != IR_MUL || square->operands[0] != square->operands[1]) return false;
    IrOp *deviation = square->operands[0]->def, *repeated = deviation && deviation->opcode == IR_SUB ? deviation->operands[1]->def : NULL;
    if (!repeated || repeated->opcode != IR_GRAPH_BROADCAST) return false;
    *m = (Moments){.variance = op, .x = deviation->operands[0], .mean = repeated->operands[0]->def};
    if (!is_mean(m->mean) || m->mean->operands[0] != m->x || axes_of(m->mean) != axes_of(op) || !restores(repeated, axes_of(op)))
        return false;
    for (unsigned i = 0; i < m->x->type->rank; i++)
        if (axes_of(op) >> i & 1) m->axes[m->count++] = i;
    return true;
}

static IrValue *mean_of(IrBuilder *b, IrValue *x, const int64_t *axes, size_t count) {
    const Aff *shape[MOST_RANK];
    unsigned rank = 0;
    for (unsigned i = 0; i < x->type->rank; i++) {
        bool folded = false;
        for (size_t k = 0; k < count; k++) folded |= axes[k] == (int64_t)i;
        if (!folded) shape[rank++] = x->type->extents[i];
    }
    const IrType *t = ir_type_tensor(b->module, x->type->dtype, rank, shape);
    IrOp *op = ir_op_create(b, IR_GRAPH_REDUCE, 1, &x, 1, &t);
    ir_set_kind(op, IR_KIND_MEAN);
    ir_attr_set_ints(op, "axes", count, axes);
    return ir_result(op, 0);
}

/* The squared deviations from what is repeated along the axes. */
static IrValue *squares_about(IrBuilder *b, IrValue *x, IrValue *mean, const int64_t *axes, size_t count) {
    int64_t kept[MOST_RANK];
    size_t n = 0;
    for (unsigned i = 0; i < x->type->rank; i++) {
        bool folded = false;
        for (size_t k = 0; k < count; k++) folded |= axes[k] == (int64_t)i;
        if (!folded) kept[n++] = i;
    }
    IrOp *repeated = ir_op_create(b, IR_GRAPH_BROADCAST, 1, &mean, 1, &x->type);
    ir_attr_set_ints(repeated, "axes", n, kept);
    IrValue *deviation = ir_binary(b, IR_SUB, x, ir_result(repeated, 0));
    return ir_binary(b, IR_MUL, deviation, deviation);
}

bool rewrite_moments_by_parts(Rewriter *r, IrOp *op) {
    Moments m;
    if (!r->options->workspaces || !match(op, &m) || m.count < 2) return false;
    const int64_t *last = &m.axes[m.count - 1];
    size_t rest = m.count - 1; /* they lie ahead of the last one, and keep their numbers */
    IrBuilder b = ir_builder_before(m.mean);
    b.span = m.mean->span;
    IrValue *part = mean_of(&b, m.x, last, 1);
    b.span = op->span;
    IrValue *inner = mean_of(&b, squares_about(&b, m.x, part, last, 1), last, 1);
    b.span = m.mean->span;
    IrValue *mean = mean_of(&b, part, m.axes, rest);
    b.span = op->span;
    IrValue *outer = squares_about(&b, part, mean, m.axes, rest);
    IrValue *variance = mean_of(&b, ir_binary(&b, IR_ADD, inner, outer), m.axes, rest);
    ir_replace_uses(&op->results[0], variance);
    ir_op_erase(op);
    ir_replace_uses(&m.mean->results[0], mean);
    ir_op_erase(m.mean);
    return true;
}
