/* Pass defer_cross_lane_reduction: the cross-lane part of a loop-carried sum runs once after the loop, not in each iteration.
 *
 * what:   a loop carries %t, and its next value is linear in %t and in sums over lanes of tiles, as in %t * %scale + sum(%p). Each thread
 *         then accumulates only the lanes that it holds (the reductions get the attribute `apart`), and a tile.combine in front of the
 *         first use after the loop adds the threads' partial sums by shuffles. The scale must be the same in all threads that hold parts
 *         of one sum, and the initial value must be 0 or such a sum itself.
 * needs:  tile mapped, after assign_layouts; layouts that need no conversion of the sum's lanes
 * keeps:  values but for the order of float sums
 * breaks: nothing
 * source: FlashAttention-2, which sums a row's parts once, at the end; docs/notes/025-pingpong.md
 *
 *   %r = for(...) (%t = 0) {                              %s = for(...) (%t = 0) {
 *     %a = tile.reduce(%p) {kind = "add"}           =>      %a = tile.reduce(%p) {kind = "add", apart = true}
 *     yield(%t * %scale + %a)                               yield(%t * %scale + %a)
 *   }                                                     }
 *                                                         %r = tile.combine(%s) {lanes = 3}
 */
#include "analysis/analysis.h"
#include "analysis/distribution.h"

/* The switch: 0 adds up in each iteration. */
enum { DEFER_SUMS = 1, DEPTH = 16, MOST_SUMS = 16 };

/* What is linear in a carried value and in sums. */
typedef struct {
    const IrValue *carried; /* null: none */
    bool is_reached;        /* its one use leads to what the loop goes on with */
    IrOp *sums[MOST_SUMS];
    size_t count;
    int64_t lanes; /* bits of the lane that the sums go across, the same of all */
} Linear;

static bool is_zero(const IrValue *v) {
    const IrAttr *value = v->def && v->def->opcode == IR_CONST ? ir_attr(v->def, "value") : NULL;
    return value && (value->kind == IR_ATTR_FLOAT ? value->number == 0 : value->kind == IR_ATTR_INT && value->integer == 0);
}

/* The bits of the lane that a sum goes across; 0: none, or warps and blocks have parts of it, too. */
static int64_t lanes_across(const IrOp *sum) {
    Dist d = dist_of(sum->operands[0]->type);
    const IrAttr *axes = ir_attr(sum, "axes");
    int64_t lanes = 0;
    for (unsigned i = 0; i < d.term_count; i++) {
        bool folded = false;
        for (size_t k = 0; k < axes->count; k++) folded = folded || axes->ints[k] == d.terms[i].axis;
        if (folded && d.terms[i].source != DIST_LANE) return 0;
        if (folded) lanes |= d.terms[i].mask << d.terms[i].shift;
    }
    return lanes;
}

/* A scan of the same lanes knows the sum. */
static bool is_scanned(const IrValue *v) {
    for (const IrUse *use = v->uses; use; use = use->next)
        if (use->op->opcode == IR_TILE_SCAN) return true;
    return false;
}

static bool add_sum(Linear *l, IrOp *op) {
    if (ir_op_kind(op) != IR_KIND_ADD || l->count == MOST_SUMS || is_scanned(op->operands[0])) return false;
    int64_t lanes = lanes_across(op);
    if (!lanes || (l->lanes && l->lanes != lanes)) return false;
    l->lanes = lanes;
    l->sums[l->count++] = op;
    return true;
}

/* Each value on the way is of no other use. */
static bool is_linear(Linear *l, const IrValue *v, int depth) {
    if (is_zero(v)) return true;
    if (!v->uses || v->uses->next || depth == 0) return false;
    if (v == l->carried) return l->is_reached = true;
    IrOp *op = v->def;
    if (!op) return false;
    if (op->opcode == IR_TILE_REDUCE) return add_sum(l, op);
    if (op->opcode == IR_ADD) return is_linear(l, op->operands[0], depth - 1) && is_linear(l, op->operands[1], depth - 1);
    if (op->opcode != IR_MUL) return false;
    Linear before = *l;
    for (unsigned i = 0; i < 2; i++) {
        if (is_linear(l, op->operands[i], depth - 1)) return true;
        *l = before;
    }
    return false;
}

/* The first op behind the loop that reads the value, itself or within. */
static IrOp *first_user(const IrOp *loop, const IrValue *v) {
    for (IrOp *op = loop->next; op; op = op->next)
        for (const IrUse *use = v->uses; use; use = use->next)
            if (use->op == op || is_inside_op(use->op->block, op)) return op;
    return NULL;
}

static void combine(IrOp *loop, unsigned i, int64_t lanes) {
    IrValue *parts = ir_result(loop, i);
    IrOp *user = first_user(loop, parts);
    if (!user) return;
    IrBuilder b = ir_builder_before(user);
    b.span = loop->span;
    IrOp *op = ir_op_create(&b, IR_TILE_COMBINE, 1, &parts, 1, &parts->type);
    ir_attr_set_int(op, "lanes", lanes);
    ir_replace_uses(parts, ir_result(op, 0));
    ir_set_operand(op, 0, parts);
    ir_result(op, 0)->name = parts->name;
}

static void move_after_loop(IrOp *loop, unsigned i) {
    IrBlock *body = loop->regions[0];
    Linear l = {.carried = body->args[1 + i]};
    if (!is_tile(l.carried) || !is_linear(&l, body->last->operands[i], DEPTH) || !l.count) return;
    if (l.carried->uses && !l.is_reached) return; /* something else in the loop reads the sum */
    l.carried = NULL;
    if (!is_linear(&l, loop->operands[3 + i], DEPTH)) return;
    for (size_t k = 0; k < l.count; k++) ir_attr_set_bool(l.sums[k], "apart", true);
    combine(loop, i, l.lanes);
}

static void visit(void *context, IrOp *op) {
    (void)context;
    if (op->opcode != IR_FOR) return;
    for (unsigned i = 0; i < op->result_count; i++) move_after_loop(op, i);
}

bool pass_defer_cross_lane_reduction(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; DEFER_SUMS && f; f = f->next)
        if (f->level == IR_LEVEL_TILE && f->state == IR_STATE_MAPPED) ir_walk(f->body, visit, NULL);
    return true;
}
