/* Merges neighbouring axes that every operation keeps together: a tensor of four axes on which all is done lane by lane is one row, a norm over the last three has two axes. The parameters get their
 * new shapes, too; the elements of memory are the same.
 *
 * Between each two neighbouring axes of a value is a gap. Operations link the gaps of their operands and results: either all of a class close, or none. What tells the two axes apart
 * (folds along one of them, counts along it) leaves a gap open, and so its class. */
#include "analyzer.h"
#include "pointer_table.h"
#include "rewrite_internal.h"

#include <string.h>

/* Axes of a tensor, twice those that the reference takes; the rewrite leaves a larger rank alone. */
enum { MOST_RANK = 16 };

typedef struct {
    Rewriter *r;
    PointerTable first; /* of a value: its first gap */
    uint32_t *parent;   /* union and find; the class `open` is number 0 */
    uint32_t count, room;
} Gaps;

/* ---- Classes ---- */

static uint32_t root_of(Gaps *g, uint32_t gap) {
    while (g->parent[gap] != gap) gap = g->parent[gap] = g->parent[g->parent[gap]];
    return gap;
}

/* The smaller root stays, so that what is linked to 0 is open. */
static void link_gaps(Gaps *g, uint32_t a, uint32_t b) {
    a = root_of(g, a), b = root_of(g, b);
    if (a < b)
        g->parent[b] = a;
    else
        g->parent[a] = b;
}

/* The gap behind an axis of the value. */
static uint32_t gap_of(Gaps *g, const IrValue *v, unsigned axis) {
    uint32_t first = 0;
    pointer_table_get(&g->first, v, &first);
    return first + axis;
}

static void open_gap(Gaps *g, const IrValue *v, unsigned axis) {
    ANALYZER_ASSUME(v);
    if (axis + 1 < v->type->rank) link_gaps(g, gap_of(g, v, axis), 0);
}

static void open_all(Gaps *g, const IrValue *v) {
    for (unsigned i = 0; v->type->kind == IR_TYPE_TENSOR && i + 1 < v->type->rank; i++) open_gap(g, v, i);
}

/* The axis stays by itself. */
static void open_beside(Gaps *g, const IrValue *v, unsigned axis) {
    if (axis) open_gap(g, v, axis - 1);
    open_gap(g, v, axis);
}

static void add_value(Gaps *g, const IrValue *v) {
    if (v->type->kind != IR_TYPE_TENSOR || v->type->rank < 2) return;
    pointer_table_set(&g->first, v, g->count);
    for (unsigned i = 0; i + 1 < v->type->rank; i++) {
        if (g->count == g->room) {
            uint32_t *more = ARENA_ARRAY(g->r->arena, uint32_t, 2 * g->room);
            memcpy(more, g->parent, g->room * sizeof *more);
            g->parent = more;
            g->room *= 2;
        }
        g->parent[g->count] = g->count;
        g->count++;
    }
}

/* ---- Operations ---- */

/* Axes of an operand that become axes of the result (-1: none), in both: gaps between neighbours that stay neighbours are linked, others are open. `free`: gaps between two
 * axes that the other side has not may close by themselves. */
static void link_axes(Gaps *g, const IrValue *a, const IrValue *b, const int *to, bool free_a) {
    for (unsigned i = 0; i + 1 < a->type->rank; i++) {
        if (to[i] < 0 && to[i + 1] < 0 && free_a) continue;
        if (to[i] >= 0 && to[i + 1] == to[i] + 1)
            link_gaps(g, gap_of(g, a, i), gap_of(g, b, (unsigned)to[i]));
        else
            open_gap(g, a, i);
    }
}

static void link_both(Gaps *g, const IrValue *a, const IrValue *b, const int *to) {
    int from[MOST_RANK];
    for (unsigned i = 0; i < b->type->rank; i++) from[i] = -1;
    for (unsigned i = 0; i < a->type->rank; i++)
        if (to[i] >= 0) from[to[i]] = (int)i;
    link_axes(g, a, b, to, true);
    link_axes(g, b, a, from, true);
}

static void link_same(Gaps *g, const IrValue *a, const IrValue *b) {
    for (unsigned i = 0; a->type->kind == IR_TYPE_TENSOR && i + 1 < a->type->rank; i++) link_gaps(g, gap_of(g, a, i), gap_of(g, b, i));
}

/* Axes that are folded one after the other stay axes, but for the last two of three. */
static void open_ahead_of_last(Gaps *g, const IrValue *v, const int *to) {
    int folded = 0, last = 0;
    for (int i = 0; i < (int)v->type->rank; i++)
        if (to[i] < 0) folded++, last = i;
    for (int i = 0; i + 1 < (int)v->type->rank; i++)
        if (to[i] < 0 && to[i + 1] < 0 && (g->r->options->apart || g->r->merged || folded < 3 || i + 1 != last))
            open_gap(g, v, (unsigned)i);
}

static void link_reduction(Gaps *g, const IrOp *op) {
    const IrAttr *axes = ir_attr(op, "axes");
    int to[MOST_RANK], next = 0;
    for (unsigned i = 0; i < op->operands[0]->type->rank; i++) {
        bool folded = false;
        for (size_t k = 0; k < axes->count; k++) folded |= axes->ints[k] == i;
        to[i] = folded ? -1 : next++;
    }
    link_both(g, op->operands[0], &op->results[0], to);
    if (g->r->options->workspaces || g->r->options->apart) open_ahead_of_last(g, op->operands[0], to);
}

static void link_broadcast(Gaps *g, const IrOp *op) {
    const IrAttr *axes = ir_attr(op, "axes");
    const IrValue *v = op->operands[0], *result = &op->results[0];
    int to[MOST_RANK];
    if (v->type->kind != IR_TYPE_TENSOR) return;
    for (unsigned i = 0; i < v->type->rank; i++) to[i] = (int)axes->ints[i];
    link_both(g, v, result, to);
    for (unsigned i = 0; i < v->type->rank; i++)
        if (v->type->extents[i] != result->type->extents[to[i]]) open_beside(g, v, i), open_beside(g, result, (unsigned)to[i]);
}

static void link_transposition(Gaps *g, const IrOp *op) {
    const IrAttr *perm = ir_attr(op, "perm");
    int to[MOST_RANK] = {0};
    for (unsigned i = 0; i < perm->count; i++) to[perm->ints[i]] = (int)i;
    link_both(g, op->operands[0], &op->results[0], to);
}

static void link_op(Gaps *g, const IrOp *op) {
    const IrValue *result = op->result_count ? &op->results[0] : NULL;
    switch (op->opcode) {
    case IR_GRAPH_REDUCE:
        if (!ir_attr_bool(op, "keepdim")) {
            link_reduction(g, op);
            return;
        }
        break;
    case IR_GRAPH_BROADCAST:
        link_broadcast(g, op);
        return;
    case IR_GRAPH_TRANSPOSE:
        link_transposition(g, op);
        return;
    case IR_GRAPH_SCAN:
    case IR_GRAPH_FLIP:
        ANALYZER_ASSUME(result);
        for (unsigned i = 0; i < op->operand_count; i++) {
            if (op->operands[i]->type != result->type) open_all(g, op->operands[i]), open_all(g, result);
            link_same(g, op->operands[i], result);
        }
        open_beside(g, result, (unsigned)ir_attr_int(op, "axis", 0));
        return;
    case IR_GRAPH_IOTA:
        open_beside(g, result, (unsigned)ir_attr_int(op, "axis", 0));
        return;
    case IR_CONST:
    case IR_RETURN:
        return;
    default:
        if (!ir_has_trait(op, IR_ELEMENTWISE)) break;
        for (unsigned i = 0; i < op->operand_count; i++)
            if (op->operands[i]->type->kind == IR_TYPE_TENSOR) link_same(g, op->operands[i], result);
        return;
    }
    for (unsigned i = 0; i < op->operand_count; i++) open_all(g, op->operands[i]);
    for (unsigned i = 0; i < op->result_count; i++) open_all(g, &op->results[i]);
}

static void open_elements(void *gaps, IrOp *op) {
    Gaps *g = gaps;
    if (op->opcode == IR_GRAPH_ELEMENT) open_all(g, op->operands[0]);
}

/* What is stored to a tensor that is read has its shape. */
static void link_results(Gaps *g, const IrFunc *f) {
    const IrOp *last = f->body->last;
    const IrAttr *names = ir_attr(last, "names");
    for (unsigned i = 0; i < f->param_count; i++)
        for (unsigned k = 0; names && k < last->operand_count; k++)
            if (f->params[i].kind == IR_PARAM_TENSOR && strcmp(f->params[i].name, names->strs[k]) == 0)
                link_same(g, f->body->args[i], last->operands[k]);
}

static bool fits(const IrFunc *f) {
    for (const IrOp *op = f->body->first; op; op = op->next)
        for (unsigned i = 0; i < op->result_count; i++)
            if (op->results[i].type->kind == IR_TYPE_TENSOR && op->results[i].type->rank > MOST_RANK) return false;
    return true;
}

static void link_all(Gaps *g, IrFunc *f) {
    g->room = 64;
    g->parent = ARENA_ARRAY(g->r->arena, uint32_t, g->room);
    g->first = pointer_table(g->r->arena);
    g->count = 1;
    for (unsigned i = 0; i < f->body->arg_count; i++) add_value(g, f->body->args[i]);
    for (const IrOp *op = f->body->first; op; op = op->next)
        for (unsigned i = 0; i < op->result_count; i++) add_value(g, &op->results[i]);
    for (const IrOp *op = f->body->first; op; op = op->next) link_op(g, op);
    ir_walk(f->body, open_elements, g);
    link_results(g, f);
}

/* ---- New shapes ---- */

static bool closes(Gaps *g, const IrValue *v, unsigned axis) {
    return axis + 1 < v->type->rank && root_of(g, gap_of(g, v, axis)) != 0;
}

/* Which axis of the new shape each axis is part of; how many there are. */
static unsigned merged_axes(Gaps *g, const IrValue *v, unsigned *merged) {
    unsigned next = 0;
    for (unsigned i = 0; i < v->type->rank; i++) {
        merged[i] = next;
        next += !closes(g, v, i);
    }
    return next;
}

static void rename_axes(IrOp *op, const char *key, const unsigned *merged) {
    const IrAttr *axes = ir_attr(op, key);
    int64_t left[MOST_RANK];
    size_t count = 0;
    for (size_t i = 0; i < axes->count; i++) {
        bool seen = false;
        for (size_t k = 0; k < count; k++) seen |= left[k] == merged[axes->ints[i]];
        if (!seen) left[count++] = merged[axes->ints[i]];
    }
    ir_attr_set_ints(op, key, count, left);
}

static void rename_op(Gaps *g, IrOp *op) {
    unsigned merged[MOST_RANK];
    bool along = op->opcode == IR_GRAPH_SCAN || op->opcode == IR_GRAPH_FLIP || op->opcode == IR_GRAPH_IOTA;
    if (along) {
        merged_axes(g, &op->results[0], merged);
        ir_attr_set_int(op, "axis", merged[ir_attr_int(op, "axis", 0)]);
    } else if (op->opcode == IR_GRAPH_REDUCE) {
        merged_axes(g, op->operands[0], merged);
        rename_axes(op, "axes", merged);
    } else if (op->opcode == IR_GRAPH_BROADCAST && op->operands[0]->type->kind == IR_TYPE_TENSOR) {
        merged_axes(g, &op->results[0], merged);
        rename_axes(op, "axes", merged);
    } else if (op->opcode == IR_GRAPH_TRANSPOSE) {
        merged_axes(g, op->operands[0], merged);
        rename_axes(op, "perm", merged);
    }
}

static const IrType *merged_type(Gaps *g, const IrValue *v) {
    unsigned merged[MOST_RANK], rank = merged_axes(g, v, merged);
    const Aff *shape[MOST_RANK] = {0};
    AffCtx *c = g->r->f->module->affs;
    for (unsigned i = 0; i < v->type->rank; i++) {
        const Aff **at = &shape[merged[i]];
        *at = *at ? aff_mul(c, *at, v->type->extents[i]) : v->type->extents[i];
    }
    return ir_type_tensor(g->r->f->module, v->type->dtype, rank, shape);
}

/* All names first: they are found by the old shapes. */
static void merge(Gaps *g, IrFunc *f) {
    for (IrOp *op = f->body->first; op; op = op->next) rename_op(g, op);
    for (unsigned i = 0; i < f->body->arg_count; i++) {
        IrValue *v = f->body->args[i];
        if (v->type->kind == IR_TYPE_TENSOR) f->params[i].type = v->type = merged_type(g, v);
    }
    for (IrOp *op = f->body->first; op; op = op->next)
        for (unsigned i = 0; i < op->result_count; i++)
            if (op->results[i].type->kind == IR_TYPE_TENSOR) op->results[i].type = merged_type(g, &op->results[i]);
}

static bool any_closes(Gaps *g) {
    for (uint32_t i = 1; i < g->count; i++)
        if (root_of(g, i) != 0) return true;
    return false;
}

bool rewrite_merge_axes(Rewriter *r, IrOp *op) {
    Gaps g = {.r = r};
    if (op != r->f->body->last || !fits(r->f)) return false;
    link_all(&g, r->f);
    if (!any_closes(&g)) return false;
    merge(&g, r->f);
    r->merged = true;
    return true;
}
