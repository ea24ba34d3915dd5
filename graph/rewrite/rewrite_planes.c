/* Positions of several rows in one index, for convolutions whose rows are shorter than a tile.
 *
 *   P[n, o, y, x] = sum(j, e) XP[n, y + a(e), x + b(e), j] * FP[e, o, j]
 *
 * becomes, with rows of W = OW + max b - min b positions, the window's reach past their end among them,
 *
 *   XQ[n, p, j] = XP[n, p // W + min a, p % W + min b, j], 0 outside
 *   Q[n, o, p] = sum(j, e) XQ[n, p + (a(e) - min a)*W + b(e) - min b, j] * FP[e, o, j]
 *   P[n, o, y, x] = Q[n, o, y*W + x]
 *
 * What Q has at the positions behind a row's end is dealt out to nobody. */
#include "analyzer.h"
#include "rewrite_internal.h"

#include "notation.h"
#include "query.h"

/* Taps of a window, each of which becomes code of the sketch or a plane in memory: 512 are a window of 8 by 8 by 8 (not measured). Axes of
 * what is written, taps among them; a larger rank stays as it is. */
enum { MOST_TAPS = 512, MOST_RANK = 12 };

/* Of what tiles make of whole rows, planes have to save so much. */
#define WORTH 1.1

typedef struct {
    IrModule *m;
    IrOp *op, *window, *pack; /* the element; what stores its tensor */
    unsigned outer;
    IrValue **args;
    const Aff *row, *shift; /* positions of a row; how far the window's begins behind the result's, over the tap's index */
    int64_t low[2], high[2];
} Plane;

/* Least and greatest value of the window's index along an axis less the result's, over all taps. */
static bool reach(Plane *p, unsigned operand, const IrValue *own, unsigned axis, const Aff **rest) {
    AffCtx *c = p->m->affs;
    const Aff *e = ir_aff_of(p->m, p->window->operands[operand]);
    const IrValue *tap = p->args[p->op->operand_count - 1];
    int64_t by, taps, at;
    if (!notation_slope(p->m, e, own, &by) || by != 1) return false;
    *rest = notation_with(p->m, e, own, aff_const(c, 0));
    if (!aff_is_const(ir_aff_of(p->m, p->op->operands[p->op->operand_count - 1]), &taps)) {
        if (aff_depends_on(*rest, tap)) return false;
        taps = 1;
    }
    if (taps > MOST_TAPS) return false;
    for (int64_t i = 0; i < taps; i++) {
        if (!aff_is_const(notation_with(p->m, *rest, tap, aff_const(c, i)), &at)) return false;
        if (!i || at < p->low[axis]) p->low[axis] = at;
        if (!i || at > p->high[axis]) p->high[axis] = at;
    }
    return true;
}

/* Is it the factor of the window: stored, its last axes but one the rows and columns of the result? Nothing else may name these. */
static bool is_window(Plane *p, IrOp *e) {
    const Aff *rows, *columns;
    const IrValue *y = p->args[p->outer - 2], *x = p->args[p->outer - 1];
    AffCtx *c = p->m->affs;
    if (!e || e->opcode != IR_GRAPH_ELEMENT || e->operand_count < 4 || e->operand_count > MOST_RANK || !e->operands[0]->def) return false;
    p->pack = e->operands[0]->def;
    p->window = e;
    if (ir_attr_int(p->pack, "stored", 0) == 0) return false;
    for (unsigned i = 1; i < e->operand_count; i++) {
        const Aff *at = ir_aff_of(p->m, e->operands[i]);
        if (i + 3 != e->operand_count && aff_depends_on(at, y)) return false;
        if (i + 2 != e->operand_count && aff_depends_on(at, x)) return false;
    }
    if (!reach(p, e->operand_count - 3, y, 0, &rows) || !reach(p, e->operand_count - 2, x, 1, &columns)) return false;
    p->row = aff_add(c, ir_aff_of(p->m, p->op->operands[p->outer - 1]), aff_const(c, p->high[1] - p->low[1]));
    p->shift = aff_add(c, aff_mul(c, aff_sub(c, rows, aff_const(c, p->low[0])), p->row), aff_sub(c, columns, aff_const(c, p->low[1])));
    return true;
}

/* Do tiles of so many positions leave enough of the rows of the longest case? */
static bool is_worth(const Plane *p, int64_t tile) {
    const Aff *width = ir_aff_of(p->m, p->op->operands[p->outer - 1]);
    int64_t most = 0, extent, row = 0, long_row = 0;
    for (size_t i = 0; i < p->m->case_count; i++)
        if (aff_eval(width, case_symbol, &p->m->cases[i], &extent) && aff_eval(p->row, case_symbol, &p->m->cases[i], &row) && extent > most)
            most = extent, long_row = row;
    int64_t covered = (most + tile - 1) / tile * tile;
    return most && (double)covered > WORTH * (double)long_row;
}

/* The window's tensor in planes: zeros around it are stored, too. */
static IrValue *store_planes(Plane *p) {
    AffCtx *c = p->m->affs;
    IrValue *extents[MOST_RANK];
    unsigned rank = p->pack->operand_count, n = 0;
    IrBuilder b = ir_builder_before(p->op);
    b.span = p->op->span;
    const Aff *rows = aff_add(c, ir_aff_of(p->m, p->op->operands[p->outer - 2]), aff_const(c, p->high[0] - p->low[0]));
    for (unsigned i = 0; i + 3 < rank; i++) extents[n++] = p->pack->operands[i];
    extents[n++] = ir_aff_emit(&b, aff_mul(c, rows, p->row));
    extents[n++] = p->pack->operands[rank - 1];
    IrOp *to = notation_create(&b, p->pack->results[0].type->dtype, n, extents, n);
    ir_attr_set_int(to, "stored", ir_attr_int(p->pack, "stored", 0));
    Notation again = {.m = p->m, .from = p->pack->regions[0], .map = ir_value_map_create(p->m->arena)};
    for (unsigned i = 0; i + 3 < rank; i++) again.meaning[i] = notation_arg(to, NULL);
    const Aff *at = notation_arg(to, "p");
    again.meaning[rank - 3] = aff_add(c, aff_floordiv(c, at, p->row), aff_const(c, p->low[0]));
    again.meaning[rank - 2] = aff_add(c, aff_mod(c, at, p->row), aff_const(c, p->low[1]));
    again.meaning[rank - 1] = notation_arg(to, NULL);
    notation_copy(to, &again, SPAN_NONE);
    const IrAttr *pad = ir_attr(p->window, "pad");
    IrOp *element = to->regions[0]->last->operands[0]->def;
    if (!ir_attr(element, "pad")) ir_attr_set_float(element, "pad", pad ? pad->number : 0);
    return ir_result(to, 0);
}

/* The copy of the window's element reads the planes. */
static void read_planes(IrOp *element, IrValue *planes, const Aff *at) {
    IrValue *operands[MOST_RANK + 1] = {planes};
    const IrType *scalar = element->results[0].type;
    unsigned n = 1;
    IrBuilder b = ir_builder_before(element);
    for (unsigned i = 1; i + 3 < element->operand_count; i++) operands[n++] = element->operands[i];
    operands[n++] = ir_aff_emit(&b, at);
    operands[n++] = element->operands[element->operand_count - 1];
    IrOp *to = ir_op_create(&b, IR_GRAPH_ELEMENT, n, operands, 1, &scalar);
    ir_attr_set_float(to, "pad", 0); /* behind the last row */
    ir_replace_uses(&element->results[0], ir_result(to, 0));
    ir_op_erase(element);
}

static IrOp *sum_planes(Plane *p, IrValue *planes) {
    AffCtx *c = p->m->affs;
    IrValue *extents[NOTATION_ARGS];
    unsigned n = 0, count = p->op->operand_count;
    IrBuilder b = ir_builder_before(p->op);
    ANALYZER_ASSUME(count > 0 && count <= NOTATION_ARGS);
    b.span = p->op->span;
    for (unsigned i = 0; i < count; i++)
        if (i + 1 != p->outer)
            extents[n++] =
                i + 2 == p->outer ? ir_aff_emit(&b, aff_mul(c, ir_aff_of(p->m, p->op->operands[i]), p->row)) : p->op->operands[i];
    IrOp *to = notation_create(&b, p->op->results[0].type->dtype, n, extents, p->outer - 1);
    ir_set_kind(to, IR_KIND_ADD);
    Notation again = {.m = p->m, .from = p->op->regions[0], .map = ir_value_map_create(p->m->arena)};
    const Aff *at = NULL;
    for (unsigned i = 0; i < count; i++) {
        again.meaning[i] = i + 1 == p->outer ? aff_const(c, 0) : notation_arg(to, p->args[i]->name);
        if (i + 2 == p->outer) at = again.meaning[i], again.meaning[i] = aff_const(c, 0);
    }
    notation_copy(to, &again, SPAN_NONE);
    at = aff_add(c, at, notation_with(p->m, p->shift, p->args[count - 1], again.meaning[count - 1]));
    read_planes(ir_value_map_get(again.map, &p->window->results[0])->def, planes, at);
    return to;
}

static void deal(Plane *p, IrOp *sums) {
    AffCtx *c = p->m->affs;
    IrBuilder b = ir_builder_before(p->op);
    b.span = p->op->span;
    IrOp *to = ir_op_create(&b, IR_GRAPH_GENERIC, p->outer, p->op->operands, 1, &p->op->results[0].type);
    IrValue *at[NOTATION_ARGS] = {ir_result(sums, 0)};
    const Aff *last = NULL, *own;
    ANALYZER_ASSUME(p->outer > 1 && p->outer < NOTATION_ARGS);
    ir_attr_set_int(to, "outer", p->outer);
    for (unsigned i = 0; i < p->outer; i++) {
        own = notation_arg(to, p->args[i]->name);
        at[i + 1] = to->regions[0]->args[i];
        last = i + 1 == p->outer ? aff_add(c, aff_mul(c, last, p->row), own) : own;
    }
    b = ir_builder_at_end(to->regions[0]);
    at[p->outer - 1] = ir_aff_emit(&b, last);
    const IrType *scalar = ir_type_scalar(p->m, sums->results[0].type->dtype);
    IrValue *element = ir_result(ir_op_create(&b, IR_GRAPH_ELEMENT, p->outer, at, 1, &scalar), 0);
    ir_yield(&b, 1, &element);
    ir_replace_uses(&p->op->results[0], ir_result(to, 0));
    ir_op_erase(p->op);
}

bool rewrite_planes(Rewriter *r, IrOp *op) {
    if (op->opcode != IR_GRAPH_GENERIC || ir_op_kind(op) != IR_KIND_ADD || op->operand_count > NOTATION_ARGS) return false;
    Plane p = {.m = r->f->module, .op = op, .outer = (unsigned)ir_attr_int(op, "outer", 0), .args = op->regions[0]->args};
    const IrOp *mul = op->regions[0]->last->operands[0]->def;
    if (p.outer < 3 || p.outer == op->operand_count || !mul || mul->opcode != IR_MUL) return false;
    if (!is_window(&p, mul->operands[0]->def) && !is_window(&p, mul->operands[1]->def)) return false;
    if (!is_worth(&p, r->options->tile)) return false;
    deal(&p, sum_planes(&p, store_planes(&p)));
    return true;
}
