/* Rewrites of the ranges of sums: where a factor is 0 by a comparison of indices, as a triangle is, its terms need not be added.
 *
 * 0 times an infinity is NaN, so the terms only go where the other factor is finite there: where the tensors that it is made of are declared to be triangles, which is the promise of structure that
 * verification keeps (docs/language.md, special values). */
#include "rewrite_internal.h"

#include <string.h>

/* Axes of a tensor, twice those that the reference takes; the rewrite leaves a larger rank alone. */
enum { MOST_RANK = 16 };

/* A sum of products at work: what each result axis and the summed index stand for in expressions. */
typedef struct {
    IrModule *m;
    IrOp *op;
    unsigned rank;
    const Aff *result[MOST_RANK], *sum;
    bool has_low, has_high;
    int64_t low[2], high[2]; /* result axis, offset */
} Ranged;

/* ---- Indices ---- */

/* The operand's index of a move at an index of its result; false: it is none of those. */
static bool moved_index(IrModule *m, const IrOp *op, const Aff *const *index, const Aff **inner) {
    const IrAttr *axes = ir_attr(op, op->opcode == IR_GRAPH_TRANSPOSE ? "perm" : "axes");
    if (op->opcode != IR_GRAPH_TRANSPOSE && op->opcode != IR_GRAPH_BROADCAST) return false;
    const IrType *from = op->operands[0]->type;
    for (unsigned i = 0; i < from->rank; i++) {
        if (op->opcode == IR_GRAPH_TRANSPOSE)
            inner[axes->ints[i]] = index[i]; /* NOLINT(*uninitialized.Assign): a permutation names each axis */
        else
            inner[i] = from->extents[i] == aff_const(m->affs, 1) ? aff_const(m->affs, 0) : index[axes->ints[i]];
    }
    return true;
}

/* A value that counts, as an expression; null: it is made of data. */
static const Aff *counted(IrModule *m, IrValue *v, const Aff *const *index) {
    const Aff *inner[MOST_RANK], *part[2];
    IrOp *op = v->def;
    if (v->type->kind == IR_TYPE_SCALAR && v->type->is_index) return ir_aff_of(m, v);
    if (!op || !dtype_is_int(v->type->dtype)) return NULL;
    const IrAttr *value = op->opcode == IR_CONST ? ir_attr(op, "value") : NULL;
    if (value) return value->kind == IR_ATTR_INT ? aff_const(m->affs, value->integer) : NULL;
    if (op->opcode == IR_GRAPH_IOTA) return index[ir_attr_int(op, "axis", 0)];
    if (op->opcode == IR_CAST) return op->operands[0]->type->kind == v->type->kind ? counted(m, op->operands[0], index) : NULL;
    if (moved_index(m, op, index, inner)) return counted(m, op->operands[0], inner);
    if (op->opcode != IR_ADD && op->opcode != IR_SUB) return NULL;
    for (unsigned i = 0; i < 2; i++)
        if (!(part[i] = counted(m, op->operands[i], index))) return NULL;
    return op->opcode == IR_ADD ? aff_add(m->affs, part[0], part[1]) : aff_sub(m->affs, part[0], part[1]);
}

/* ---- Conditions ---- */

/* Where the terms are not 0 `e` >= 0 holds. */
static void take_bound(Ranged *g, const Aff *e) {
    AffCtx *c = g->m->affs;
    for (unsigned i = 0; i < g->rank; i++) {
        const Aff *ahead = aff_sub(c, g->sum, g->result[i]);
        int64_t offset;
        if (aff_is_const(aff_sub(c, e, ahead), &offset)) { /* sum >= result - offset */
            g->has_low = true;
            g->low[0] = i, g->low[1] = -offset;
        } else if (aff_is_const(aff_add(c, e, ahead), &offset)) { /* sum <= result + offset */
            g->has_high = true;
            g->high[0] = i, g->high[1] = offset;
        }
    }
}

static void take_condition(Ranged *g, IrValue *v, const Aff *const *index) {
    const Aff *inner[MOST_RANK], *side[2];
    IrOp *op = v->def;
    if (!op) return;
    if (op->opcode == IR_AND) {
        for (unsigned i = 0; i < 2; i++) take_condition(g, op->operands[i], index);
    } else if (op->opcode == IR_LE || op->opcode == IR_LT) {
        for (unsigned i = 0; i < 2; i++)
            if (!(side[i] = counted(g->m, op->operands[i], index))) return;
        const Aff *e = aff_sub(g->m->affs, side[1], side[0]);
        take_bound(g, op->opcode == IR_LE ? e : aff_sub(g->m->affs, e, aff_const(g->m->affs, 1)));
    } else if (moved_index(g->m, op, index, inner)) {
        take_condition(g, op->operands[0], inner);
    }
}

static bool is_zero(const IrValue *v) {
    const IrOp *op = v->def;
    if (op && op->opcode == IR_GRAPH_BROADCAST) return is_zero(op->operands[0]);
    const IrAttr *value = op && op->opcode == IR_CONST ? ir_attr(op, "value") : NULL;
    return value && (value->kind == IR_ATTR_FLOAT ? value->number == 0 : value->kind == IR_ATTR_INT && value->integer == 0);
}

/* Where is the factor 0? */
static void take_factor(Ranged *g, IrValue *v, const Aff *const *index) {
    const Aff *inner[MOST_RANK];
    IrOp *op = v->def;
    if (!op) return;
    if (op->opcode == IR_SELECT && is_zero(op->operands[2])) {
        take_condition(g, op->operands[0], index);
        take_factor(g, op->operands[1], index);
    } else if (op->opcode == IR_CAST) {
        take_factor(g, op->operands[0], index);
    } else if (moved_index(g->m, op, index, inner)) {
        take_factor(g, op->operands[0], inner);
    }
}

/* ---- Data ---- */

static bool is_triangle_in(const IrCase *c, const char *tensor) {
    for (size_t i = 0; i < c->data_count; i++)
        if (strcmp(c->data[i].tensor, tensor) == 0)
            return strcmp(c->data[i].generator, "triu") == 0 || strcmp(c->data[i].generator, "tril") == 0;
    return false;
}

/* In every case: one that draws it otherwise is no promise. */
static bool is_triangle(const IrModule *m, const char *tensor) {
    bool always = m->case_count > 0;
    for (size_t i = 0; i < m->case_count; i++) always &= is_triangle_in(&m->cases[i], tensor);
    return always;
}

/* Is the value finite by what the operator promises: a triangle of data, moved, or cut by a condition? */
static bool is_finite(const IrFunc *f, const IrValue *v) {
    const IrOp *op = v->def;
    for (unsigned i = 0; !op && i < f->param_count; i++)
        if (f->body->args[i] == v) return f->params[i].kind == IR_PARAM_TENSOR && is_triangle(f->module, f->params[i].name);
    if (!op) return false;
    if (op->opcode == IR_SELECT) return is_zero(op->operands[2]) && is_finite(f, op->operands[1]);
    bool moves = op->opcode == IR_GRAPH_TRANSPOSE || op->opcode == IR_GRAPH_BROADCAST || op->opcode == IR_GRAPH_RESHAPE;
    return (moves || op->opcode == IR_GRAPH_ELEMENT) && is_finite(f, op->operands[0]);
}

/* ---- The forms of a sum of products ---- */

static bool in_list(const IrAttr *list, unsigned axis) {
    for (size_t i = 0; i < list->count; i++)
        if (list->ints[i] == (int64_t)axis) return true;
    return false;
}

static void factors_of_contraction(Ranged *g) {
    const IrOp *op = g->op;
    unsigned next = (unsigned)ir_attr(op, "batch_a")->count;
    for (unsigned k = 0; k < 2; k++) {
        const IrAttr *sum = ir_attr(op, k ? "sum_b" : "sum_a"), *batch = ir_attr(op, k ? "batch_b" : "batch_a");
        const Aff *index[MOST_RANK];
        for (unsigned i = 0; i < op->operands[k]->type->rank; i++) {
            index[i] = in_list(sum, i) ? g->sum : in_list(batch, i) ? NULL : g->result[next++];
            for (size_t n = 0; !index[i] && n < batch->count; n++)
                if (batch->ints[n] == (int64_t)i) index[i] = g->result[n];
        }
        if (is_finite(op->block->func, op->operands[1 - k])) take_factor(g, op->operands[k], index);
    }
}

static void factors_of_notation(Ranged *g) {
    const IrOp *mul = g->op->regions[0]->last->operands[0]->def;
    for (unsigned k = 0; k < 2; k++)
        if (is_finite(g->op->block->func, mul->operands[1 - k])) take_factor(g, mul->operands[k], NULL);
}

static bool is_sum_of_products(const IrOp *op) {
    if (op->results[0].type->rank > MOST_RANK) return false;
    if (op->opcode == IR_GRAPH_CONTRACT) return ir_attr(op, "sum_a")->count == 1;
    bool adds = op->opcode == IR_GRAPH_GENERIC && ir_op_kind(op) == IR_KIND_ADD;
    if (!adds || op->operand_count != (unsigned)ir_attr_int(op, "outer", 0) + 1) return false;
    const IrOp *yielded = op->regions[0]->last->operands[0]->def;
    return yielded && yielded->opcode == IR_MUL && yielded->block == op->regions[0];
}

bool rewrite_narrow_sums(Rewriter *r, IrOp *op) {
    if (!op->result_count || !is_sum_of_products(op) || ir_attr(op, "low") || ir_attr(op, "high")) return false;
    bool notation = op->opcode == IR_GRAPH_GENERIC;
    Ranged g = {.m = r->f->module, .op = op, .rank = op->results[0].type->rank};
    char *axes = ARENA_ARRAY(r->arena, char, MOST_RANK + 1); /* identities, where there are no values for them */
    for (unsigned i = 0; i <= g.rank; i++) {
        const Aff *at = aff_var(g.m->affs, notation ? (void *)op->regions[0]->args[i] : &axes[i], "i");
        *(i < g.rank ? &g.result[i] : &g.sum) = at;
    }
    if (notation)
        factors_of_notation(&g);
    else
        factors_of_contraction(&g);
    if (g.has_low) ir_attr_set_ints(op, "low", 2, g.low);
    if (g.has_high) ir_attr_set_ints(op, "high", 2, g.high);
    return g.has_low || g.has_high;
}
