/* Notation over groups of channels.
 *
 *   Y[n, o, y, x] = sum(c in 0:C, ..) X[n, o // S * C + c, ..] * F[o // S * C + c, o % S, ..]
 *
 * becomes, with o = S*g + i,
 *
 *   P[n, g, i, y, x] = sum(c in 0:C, ..) X[n, g*C + c, ..] * F[g*C + c, i, ..]
 *   Y[n, o, y, x] = P[n, o // S, o % S, y, x]
 *
 * so that each group is a product of matrices. */
#include "rewrite_internal.h"

#include "notation.h"
#include "query.h"

/* Groups of channels that are tried, one after the other (not measured). */
enum { MOST_GROUPS = 1024 };

typedef struct {
    IrModule *m;
    IrOp *op;
    unsigned outer, index; /* which index is split */
    const Aff *size;
} Groups;

/* The divisor of the index in an expression: of o // S. Null: there is none. */
static const Aff *divisor_in(const Aff *e, const IrValue *arg) {
    bool divides = e->kind == AFF_FLOORDIV && e->args[0]->kind == AFF_VAR && e->args[0]->var == arg;
    if (divides) return e->args[1];
    for (size_t i = 0; i < e->count; i++) {
        const Aff *found = divisor_in(e->args[i], arg);
        if (found) return found;
    }
    return NULL;
}

static const Aff *find_divisor(const Groups *g, const IrValue *arg) {
    for (const IrOp *e = g->op->regions[0]->first; e; e = e->next)
        for (unsigned i = 1; e->opcode == IR_GRAPH_ELEMENT && i < e->operand_count; i++) {
            const Aff *found = divisor_in(ir_aff_of(g->m, e->operands[i]), arg);
            if (found) return found;
        }
    return NULL;
}

/* An expression over sizes alone, which the extents of the new notation may name. */
static bool is_size(const Groups *g, const Aff *e) {
    const IrBlock *body = g->op->regions[0];
    for (unsigned i = 0; i < body->arg_count; i++)
        if (aff_depends_on(e, body->args[i])) return false;
    return true;
}

static bool find_index(Groups *g) {
    AffCtx *c = g->m->affs;
    for (g->index = 0; g->index < g->outer; g->index++) {
        g->size = find_divisor(g, g->op->regions[0]->args[g->index]);
        const Aff *extent = ir_aff_of(g->m, g->op->operands[g->index]);
        if (g->size && is_size(g, g->size) && aff_mod(c, extent, g->size) == aff_const(c, 0)) return true;
    }
    return false;
}

static void fill(Groups *g, IrOp *to) {
    AffCtx *c = g->m->affs;
    Notation again = {.m = g->m, .from = g->op->regions[0], .map = ir_value_map_create(g->m->arena), .part_count = 2};
    for (unsigned i = 0; i < again.from->arg_count; i++) {
        again.meaning[i] = notation_arg(to, i == g->index ? "g" : again.from->args[i]->name);
        if (i != g->index) continue;
        const Aff *inside = notation_arg(to, again.from->args[i]->name), *whole = aff_var(c, again.from->args[i], "o");
        again.parts[0].from = aff_floordiv(c, whole, g->size);
        again.parts[0].to = again.meaning[i];
        again.parts[1].from = aff_mod(c, whole, g->size);
        again.parts[1].to = inside;
        again.meaning[i] = aff_add(c, aff_mul(c, g->size, again.meaning[i]), inside);
    }
    notation_copy(to, &again, g->op->span);
}

static IrOp *deal(Groups *g, IrBuilder *b, IrValue *groups) {
    AffCtx *c = g->m->affs;
    IrOp *to = ir_op_create(b, IR_GRAPH_GENERIC, g->outer, g->op->operands, 1, &g->op->results[0].type);
    IrValue *at[NOTATION_ARGS + 2] = {groups};
    unsigned n = 1;
    ir_attr_set_int(to, "outer", g->outer);
    IrBuilder inner = ir_builder_at_end(to->regions[0]);
    inner.span = g->op->span;
    for (unsigned i = 0; i < g->outer; i++) {
        const Aff *whole = notation_arg(to, g->op->regions[0]->args[i]->name);
        if (i == g->index) at[n++] = ir_aff_emit(&inner, aff_floordiv(c, whole, g->size));
        at[n++] = ir_aff_emit(&inner, i == g->index ? aff_mod(c, whole, g->size) : whole);
    }
    const IrType *scalar = ir_type_scalar(g->m, groups->type->dtype);
    IrValue *element = ir_result(ir_op_create(&inner, IR_GRAPH_ELEMENT, n, at, 1, &scalar), 0);
    ir_yield(&inner, 1, &element);
    return to;
}

/* How many groups: a number or a symbol, where it is one. */
static const Aff *quotient(const Groups *g, const Aff *extent) {
    AffCtx *c = g->m->affs;
    const IrFunc *f = g->op->block->func;
    for (int64_t k = 1; k <= MOST_GROUPS; k++)
        if (aff_mul(c, aff_const(c, k), g->size) == extent) return aff_const(c, k);
    for (unsigned i = 0; i < f->param_count; i++)
        if (f->params[i].kind == IR_PARAM_SYMBOL && aff_mul(c, aff_sym(c, f->params[i].name), g->size) == extent)
            return aff_sym(c, f->params[i].name);
    return aff_floordiv(c, extent, g->size);
}

static void split(Groups *g) {
    IrValue *extents[NOTATION_ARGS + 1];
    IrBuilder b = ir_builder_before(g->op);
    b.span = g->op->span;
    unsigned n = 0;
    for (unsigned i = 0; i < g->op->operand_count; i++) {
        const Aff *extent = ir_aff_of(g->m, g->op->operands[i]);
        if (i == g->index) extents[n++] = ir_aff_emit(&b, quotient(g, extent));
        extents[n++] = i == g->index ? ir_aff_emit(&b, g->size) : g->op->operands[i];
    }
    IrOp *groups = notation_create(&b, g->op->results[0].type->dtype, n, extents, g->outer + 1);
    ir_set_kind(groups, ir_op_kind(g->op));
    fill(g, groups);
    IrOp *dealt = deal(g, &b, ir_result(groups, 0));
    ir_replace_uses(&g->op->results[0], ir_result(dealt, 0));
    ir_op_erase(g->op);
}

bool rewrite_groups(Rewriter *r, IrOp *op) {
    if (op->opcode != IR_GRAPH_GENERIC || ir_op_kind(op) != IR_KIND_ADD || op->operand_count >= NOTATION_ARGS) return false;
    Groups g = {.m = r->f->module, .op = op, .outer = (unsigned)ir_attr_int(op, "outer", 0)};
    if (!find_index(&g)) return false;
    split(&g);
    return true;
}
