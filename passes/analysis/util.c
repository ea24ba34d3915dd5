/* Helpers that several passes share. */
#include <math.h>
#include <string.h>

#include "analysis.h"
#include "analyzer.h"
#include "distribution.h"
#include "gpu.h"
#include "layout.h"
#include "plant.h"

enum {
    WINDOW_TRIPS = 32 /* iterations of a loop that still counts as one over a window */
};

static void note_product(void *ctx, IrOp *op) {
    if (op->opcode == IR_TILE_GEMM || op->opcode == IR_BUF_GEMM) *(bool *)ctx = true;
}

bool module_multiplies(const IrModule *m) {
    bool found = false;
    for (const IrFunc *f = m->first; f; f = f->next)
        if (f->level == IR_LEVEL_TILE) ir_walk(f->body, note_product, &found);
    return found;
}

/* ---- Views and slices ---- */

int64_t view_joins_rows(IrModule *m, const IrValue *tensor) {
    if (!is_view(tensor)) return 0;
    AffCtx *c = m->affs;
    const IrType *of = tensor->def->operands[0]->type, *t = tensor->type;
    const IrBlock *region = tensor->def->regions[0];
    unsigned last = t->rank - 1;
    int64_t row, all, fewer;
    if (is_view(tensor->def->operands[0]) || of->strides || of->rank != t->rank || t->rank < 2 || !aff_is_const(of->extents[last], &row) ||
        !aff_is_const(t->extents[last], &all) || row < 1 || row * (int64_t)dtype_size(t->dtype) % PIECE_BYTES || all <= row || all % row)
        return 0;
    if (!aff_is_const(aff_sub(c, of->extents[last - 1], t->extents[last - 1]), &fewer) || fewer < all / row - 1) return 0;
    const Aff *column = ir_aff_of(m, region->args[last]), *width = aff_const(c, row);
    for (unsigned a = 0; a <= last; a++) {
        const Aff *at = ir_aff_of(m, region->args[a]);
        if (a + 1 == last) at = aff_add(c, at, aff_floordiv(c, column, width));
        if (a == last) at = aff_mod(c, column, width);
        if (ir_aff_of(m, region->last->operands[a]) != at || (a + 1 < last && of->extents[a] != t->extents[a])) return 0;
    }
    return all / row;
}

/* Axes that index tiles give move with the tiles. */
void slice_shift(IrOp *op, unsigned tile_axis, IrValue *offset) {
    IrSlice s = ir_slice(op);
    const IrSliceAxis *axis = ir_slice_range(&s, tile_axis, NULL);
    if (!axis) return;
    IrBuilder b = ir_builder_before(op);
    b.span = op->span;
    IrValue *elements = ir_binary(&b, IR_MUL, offset, ir_const_index(&b, axis->step));
    if (PLANTED(12)) elements = ir_binary(&b, IR_ADD, elements, ir_const_index(&b, 1));
    ir_set_operand(op, axis->operand, ir_binary(&b, IR_ADD, op->operands[axis->operand], elements));
}

/* ---- Windows ---- */

/* The number of iterations, 2 to WINDOW_TRIPS by 1; else 0. */
static int64_t few_iterations(IrModule *m, const IrOp *loop) {
    int64_t trips, step;
    const Aff *span = aff_sub(m->affs, ir_aff_of(m, loop->operands[1]), ir_aff_of(m, loop->operands[0]));
    if (!aff_is_const(ir_aff_of(m, loop->operands[2]), &step) || step != 1 || !aff_is_const(span, &trips)) return 0;
    return trips > 1 && trips <= WINDOW_TRIPS ? trips : 0;
}

int64_t moves_by(IrModule *m, const IrOp *loop, const Aff *e) {
    const IrValue *number = loop->regions[0]->args[0];
    const Aff *next = aff_add(m->affs, aff_var(m->affs, number, number->name), aff_const(m->affs, 1));
    int64_t step = 0;
    aff_is_const(aff_sub(m->affs, aff_with(m->affs, e, number, next), e), &step);
    return step;
}

typedef struct {
    IrModule *m;
    WindowAxes axes;
    int64_t lanes;
    bool product; /* the function has one: its factors are staged in layouts of their own */
} FindWindows;

/* Adds what a loop around the load does to its slice; *overlaps: an iteration's slice overlaps the one before. */
static void add_loop(IrModule *m, const IrOp *load, const IrSlice *s, const IrOp *loop, WindowAxes *axes, bool *overlaps) {
    int64_t trips = few_iterations(m, loop);
    bool moves = false;
    for (unsigned i = 0; trips && i < s->rank; i++) {
        if (s->axes[i].letter == IR_LETTER_GATHER) continue;
        int64_t by = moves_by(m, loop, ir_aff_of(m, load->operands[s->axes[i].operand]));
        by = by < 0 ? -by : by;
        moves = moves || by;
        if (s->axes[i].letter != IR_LETTER_RANGE || !by) continue;
        int64_t step = s->axes[i].step, extent = ir_type_extent(load->results[0].type, (unsigned)s->axes[i].axis);
        *overlaps = *overlaps || by < step * extent;
        if (by < step * extent && by * (trips - 1) >= step) axes->shared |= 1u << s->axes[i].axis;
    }
    if (moves) axes->elements *= trips;
}

static void find_window(void *ctx, IrOp *op) {
    FindWindows *w = ctx;
    w->product = w->product || op->opcode == IR_TILE_GEMM || op->opcode == IR_BUF_GEMM;
    if (op->opcode != IR_TILE_LOAD || !is_tile(&op->results[0])) return;
    IrSlice s = ir_slice(op);
    const IrType *type = op->results[0].type;
    ANALYZER_ASSUME(type->rank > 0); /* a tile has an axis */
    WindowAxes axes = {.rank = type->rank, .elements = 1};
    bool overlaps = false;
    int64_t lanes = 1;
    for (unsigned i = 0; i < type->rank; i++) lanes *= ir_type_extent(type, i);
    for (const IrOp *loop = op->block->parent; loop && loop->opcode == IR_FOR; loop = loop->block->parent)
        add_loop(w->m, op, &s, loop, &axes, &overlaps);
    if (!overlaps || lanes <= w->lanes) return;
    /* NOLINTNEXTLINE(*ArrayBound): a slice whose tile has an axis has one, too */
    const IrSliceAxis *last = &s.axes[s.rank - 1];
    bool moves = false, by_one = false, in_long_loop = false;
    for (const IrOp *loop = op->block->parent; last->letter == IR_LETTER_RANGE && loop && loop->opcode == IR_FOR;
         loop = loop->block->parent) {
        int64_t by = few_iterations(w->m, loop) ? moves_by(w->m, loop, ir_aff_of(w->m, op->operands[last->operand])) : 0;
        moves = moves || by, by_one = by_one || by == 1;
        in_long_loop = in_long_loop || !few_iterations(w->m, loop);
    }
    axes.apart = last->letter == IR_LETTER_RANGE && (last->step != 1 || moves);
    axes.boxes = axes.apart && (axes.shared >> (type->rank - 1) & 1 || (in_long_loop && by_one));
    axes.slides = axes.boxes && by_one && !in_long_loop && last->step == 1 && last->axis == (int)type->rank - 1;
    w->lanes = lanes;
    w->axes = axes;
}

WindowAxes window_axes(IrFunc *f) {
    FindWindows w = {.m = f->module};
    ir_walk(f->body, find_window, &w);
    return w.product ? (WindowAxes){0} : w.axes;
}

/* ---- Types and constants ---- */

const IrType *type_with_extent(IrModule *m, const IrType *t, unsigned axis, int64_t extent) {
    const Aff *extents[PRESENCE_MAX_RANK];
    for (unsigned i = 0; i < t->rank; i++) extents[i] = i == axis ? aff_const(m->affs, extent) : t->extents[i];
    return ir_type_tile(m, t->dtype, t->rank, extents, t->layout);
}

static double lowest(Dtype t) {
    if (dtype_is_float(t)) return -INFINITY;
    return dtype_is_signed(t) ? -ldexp(1, (int)dtype_bits(t) - 1) : 0;
}

static double highest(Dtype t) {
    if (dtype_is_float(t)) return INFINITY;
    return dtype_is_signed(t) ? ldexp(1, (int)dtype_bits(t) - 1) - 1 : ldexp(1, (int)dtype_bits(t)) - 1;
}

double reduce_identity(IrKind kind, Dtype dtype) {
    if (kind == IR_KIND_MUL) return 1;
    if (kind == IR_KIND_AND) return dtype == DTYPE_BOOL ? 1 : dtype_is_signed(dtype) ? -1 : highest(dtype);
    if (kind == IR_KIND_MAX) return PLANTED(6) ? 0 : lowest(dtype);
    return kind == IR_KIND_MIN ? highest(dtype) : 0;
}

IrOpcode reduce_opcode(IrKind kind) {
    static const IrOpcode opcodes[] = {
        [IR_KIND_MUL] = IR_MUL, [IR_KIND_MAX] = IR_MAX, [IR_KIND_MIN] = IR_MIN, [IR_KIND_AND] = IR_AND, [IR_KIND_OR] = IR_OR};
    return kind < COUNT_OF(opcodes) && opcodes[kind] ? opcodes[kind] : IR_ADD;
}

IrValue *tile_splat(IrBuilder *b, const IrType *type, double value) {
    return ir_const_float(b, type, value);
}

IrValue *tile_iota(IrBuilder *b, const IrType *type, int64_t axis) {
    IrOp *op = ir_op_create(b, IR_TILE_IOTA, 0, NULL, 1, &type);
    ir_attr_set_int(op, "axis", axis);
    return ir_result(op, 0);
}

IrValue *tile_reduced(IrBuilder *b, IrValue *tile, IrKind kind, int64_t axis, bool keepdim, const IrType *type) {
    IrOp *op = ir_op_create(b, IR_TILE_REDUCE, 1, &tile, 1, &type);
    ir_set_kind(op, kind);
    ir_attr_set_ints(op, "axes", 1, &axis);
    if (keepdim) ir_attr_set_bool(op, "keepdim", true);
    return ir_result(op, 0);
}

IrValue *tile_first_of_best(IrBuilder *b, const IrOp *arg, int64_t axis, IrValue *best, IrValue *index) {
    const IrType *lanes = best->type, *row = type_with_extent(b->module, lanes, (unsigned)axis, 1);
    IrValue *top = tile_reduced(b, best, ir_op_kind(arg), axis, true, row);
    IrOp *all = ir_op_create(b, IR_TILE_BROADCAST, 1, &top, 1, &lanes);
    int64_t axes[IR_SLICE_MAX_RANK];
    for (unsigned i = 0; i < lanes->rank; i++) axes[i] = i;
    ir_attr_set_ints(all, "axes", lanes->rank, axes);
    IrValue *is_top = ir_binary(b, IR_EQ, best, ir_result(all, 0));
    if (dtype_is_float(lanes->dtype)) is_top = ir_binary(b, IR_OR, is_top, ir_binary(b, IR_NE, best, best));
    index = ir_select(b, is_top, index, tile_splat(b, index->type, 0x1p62));
    return tile_reduced(b, index, IR_KIND_MIN, axis, ir_attr_bool(arg, "keepdim"), arg->results[0].type);
}

bool is_reported(const PassContext *ctx, DiagId id, Span span, const char *text) {
    for (const Diag *d = ctx->diags->first; span.end && d; d = d->next)
        if (d->id == id && d->span.begin == span.begin && d->span.file == span.file && strstr(d->text, text)) return true;
    return false;
}

void report_unsupported(PassContext *ctx, Span span, const char *what) {
    if (!is_reported(ctx, DIAG_not_lowered, span, what)) diag_report(ctx->diags, DIAG_not_lowered, span, what);
}

void report_hint(PassContext *ctx, Span span, const char *hint, const char *reason) {
    DiagId id = ctx->strict_hints ? DIAG_hint_refused : DIAG_hint_not_followed;
    if (!is_reported(ctx, id, span, reason)) diag_report(ctx->diags, id, span, hint, reason);
}

typedef struct {
    PassContext *ctx;
    bool ok;
} RankCheck;

static void check_type(RankCheck *c, const IrOp *op, const IrType *t) {
    bool deep = t->rank > LAYOUT_RANK_LIMIT;
    bool strange = !deep && t->kind == IR_TYPE_TILE && t->layout && !dist_can_read(t->layout);
    if (!c->ok || (!deep && !strange)) return;
    report_unsupported(c->ctx, op->span, deep ? "more than 8 axes" : "a layout with a bit that moves along two axes");
    c->ok = false;
}

static void check_op_ranks(void *ctx, IrOp *op) {
    for (unsigned i = 0; i < op->result_count; i++) check_type(ctx, op, op->results[i].type);
    for (unsigned i = 0; i < op->operand_count; i++) check_type(ctx, op, op->operands[i]->type);
}

bool check_ranks(PassContext *ctx, IrFunc *f) {
    RankCheck c = {ctx, true};
    ir_walk(f->body, check_op_ranks, &c);
    return c.ok;
}

bool is_number_along_x(const IrOp *op) {
    IrSpecial s = ir_op_special(op);
    return s == IR_SPECIAL_CTAID_X || s == IR_SPECIAL_CLUSTERID_X || s == IR_SPECIAL_NCTAID_X || s == IR_SPECIAL_TID_X;
}

bool is_barrier(const IrOp *op, IrScope scope) {
    return op->opcode == IR_BARRIER && ir_op_scope(op) == scope;
}

void build_barrier(IrBuilder *b, IrScope scope) {
    ir_set_scope(ir_op_create(b, IR_BARRIER, 0, NULL, 0, NULL), scope);
}

int64_t power_of_two_below(int64_t most) {
    int64_t p = 1;
    while (2 * p <= most) p *= 2;
    return p;
}

int64_t power_of_two_from(int64_t least) {
    int64_t p = 1;
    while (p < least) p *= 2;
    return p;
}
