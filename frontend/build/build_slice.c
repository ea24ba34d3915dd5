/* Accesses: load and store of slices of tensors. */
#include "analyzer.h"
#include "build_internal.h"

typedef struct {
    IrValue *operands[2 * AST_MAX_RANK + 2];
    unsigned count, ranges, kept; /* kept: axes of the tile */
    char axes[AST_MAX_RANK + 1];
    int64_t steps[AST_MAX_RANK]; /* one a range */
    bool has_step;
    const IrType *indices; /* the common type of index tiles but for the dtype; null: none */
    unsigned gather_axis;  /* where their axes stand */
} SliceOperands;

/* ---- Axes ---- */

/* Index tiles broadcast to their common shape, which stands in the slice's. */
static bool gather_axis(Build *c, const Expr *e, const AxisIndex *axis, SliceOperands *s) {
    IrValue *v = build_expr(c, axis->index);
    if (!v) return false;
    build_count_index(c, v, build_aff(c, e->decl->type.shape[axis - e->axes], axis->span), axis->span);
    if (!s->indices) {
        Type t = {.kind = TYPE_TILE, .rank = e->gather_rank, .shape = e->type.shape + s->kept};
        s->indices = build_type(c, &t, v->type->dtype, axis->span);
        s->gather_axis = s->kept;
        s->kept += e->gather_rank;
    }
    v = build_broadcast(c, v, s->indices, axis->span);
    s->operands[s->count++] = v;
    return v != NULL;
}

static bool range_axis(Build *c, const AxisIndex *axis, SliceOperands *s) {
    int64_t step = 1;
    s->operands[s->count++] = build_index(c, axis->end, axis->span);
    if (axis->step && !aff_is_const(axis->step, &step)) {
        build_unsupported(c, axis->span, "a step that is no constant");
        return false;
    }
    s->steps[s->ranges++] = step;
    s->has_step |= step != 1;
    s->kept++;
    return c->ok;
}

static bool slice_axis(Build *c, const Expr *e, unsigned at, SliceOperands *s) {
    const AxisIndex *axis = &e->axes[at];
    s->axes[at] = axis->kind == AXIS_POINT ? IR_LETTER_POINT : axis->kind == AXIS_RANGE ? IR_LETTER_RANGE : IR_LETTER_GATHER;
    if (axis->kind == AXIS_GATHER) return gather_axis(c, e, axis, s);
    if (!axis->start || (axis->kind == AXIS_RANGE && !axis->end)) {
        build_unsupported(c, axis->span, "this index");
        return false;
    }
    s->operands[s->count++] = build_index(c, axis->start, axis->span);
    return axis->kind == AXIS_POINT ? c->ok : range_axis(c, axis, s);
}

/* A view stands before each access of its own, so that every kernel has what it needs. */
static IrValue *build_view(Build *c, const Decl *d, Span span) {
    IrValue *base = d->base->kind == DECL_VIEW ? build_view(c, d->base, span) : build_get(c, d->base);
    IrValue *at[AST_MAX_RANK];
    if (!base) return NULL;
    const IrType *t = build_type(c, &d->type, d->type.dtype, d->span);
    c->b.span = span;
    IrOp *op = ir_op_create(&c->b, IR_VIEW, 1, &base, 1, &t);
    const ConstValue *pad = d->view_pad ? &d->view_pad->value : NULL;
    if (pad) ir_attr_set_float(op, "pad", pad->kind == CONST_FLOAT ? pad->f : (double)pad->i);
    op->results[0].name = build_name(c, d->name);
    IrBuilder outside = c->b;
    c->b = ir_builder_at_end(op->regions[0]);
    c->b.span = span;
    for (size_t i = 0; i < d->dim_count; i++)
        build_set(c, d->view_indices[i], ir_region_add_arg(op->regions[0], ir_type_index(c->m), build_name(c, d->dim_names[i])));
    const Expr *of = d->view_of;
    for (size_t i = 0; i < of->axis_count; i++) at[i] = build_index(c, of->axes[i].start, of->axes[i].span);
    if (c->ok) ir_yield(&c->b, (unsigned)of->axis_count, at);
    c->b = outside;
    return &op->results[0];
}

static bool slice_operands(Build *c, const Expr *e, SliceOperands *s) {
    bool memory = e->decl && (e->decl->kind == DECL_TENSOR || e->decl->is_workspace);
    bool view = e->decl && e->decl->kind == DECL_VIEW;
    if (e->kind != EXPR_INDEX || (!memory && !view)) {
        build_unsupported(c, e->span, "this access");
        return false;
    }
    IrValue *tensor = view ? build_view(c, e->decl, e->span) : build_get(c, e->decl);
    if (!tensor) return false;
    s->operands[s->count++] = tensor;
    for (size_t i = 0; i < e->axis_count; i++)
        if (!slice_axis(c, e, (unsigned)i, s)) return false;
    return true;
}

static void slice_attributes(IrOp *op, const SliceOperands *s) {
    ir_attr_set_str(op, "axes", s->axes);
    if (s->has_step) ir_attr_set_ints(op, "steps", s->ranges, s->steps);
}

/* ---- Load and store ---- */

/* The tile's extents; the index tiles' where they give the axes. */
static const IrType *loaded_type(Build *c, const Decl *d, const SliceOperands *s, Dtype dtype) {
    const IrType *t = build_tile_type(c, d);
    const Aff *extents[AST_MAX_RANK] = {0};
    for (unsigned i = 0; i < t->rank; i++) extents[i] = t->extents[i];
    for (unsigned i = 0; s->indices && i < s->indices->rank; i++) extents[s->gather_axis + i] = s->indices->extents[i];
    return ir_type_tile(c->m, dtype, t->rank, extents, NULL);
}

void build_load(Build *c, const Stmt *s) {
    const Decl *d = s->target_count ? s->targets[0] : s->into->decl;
    if (s->value->kind == EXPR_NAME && s->value->decl && s->value->decl->kind == DECL_TILE) {
        build_write_tile(c, d, build_expr(c, s->value), s->span);
        return;
    }
    if (build_is_part(s->value)) {
        build_write_tile(c, d, build_extract(c, s, build_tile_type(c, d)), s->span);
        return;
    }
    SliceOperands slice = {0};
    if (!slice_operands(c, s->value, &slice)) return;
    if (slice.kept != d->type.rank) {
        build_unsupported(c, s->span, "a load into a tile of another rank");
        return;
    }
    ANALYZER_ASSUME(s->value->decl); /* of a slice */
    const IrType *t = loaded_type(c, d, &slice, s->value->decl->type.dtype);
    c->b.span = s->span;
    IrOp *op = ir_op_create(&c->b, IR_TILE_LOAD, slice.count, slice.operands, 1, &t);
    slice_attributes(op, &slice);
    if (s->pad && s->pad->value.kind == CONST_FLOAT)
        ir_attr_set_float(op, "pad", s->pad->value.f);
    else if (s->pad)
        ir_attr_set_float(op, "pad", (double)s->pad->value.i);
    op->results[0].name = build_name(c, d->name);
    build_write_tile(c, d, &op->results[0], s->span);
}

void build_store(Build *c, const Stmt *s) {
    static const char *const modes[] = {"set", "add", "max", "min"};
    if (build_is_part(s->into)) {
        const Decl *d = s->into->decl;
        IrValue *whole = build_insert(c, s, build_read_tile(c, d), build_expr(c, s->value));
        build_write_tile(c, d, whole, s->span);
        return;
    }
    SliceOperands slice = {.count = 1};
    if (!slice_operands(c, s->into, &slice)) return;
    IrValue *v = build_cast(c, build_expr(c, s->value), s->into->decl->type.dtype);
    if (!v) return;
    if (v->type->kind != IR_TYPE_TILE || v->type->rank != slice.kept) {
        build_unsupported(c, s->span, "a store from a tile of another rank");
        return;
    }
    v = build_broadcast(c, v, loaded_type(c, s->value->decl, &slice, v->type->dtype), s->span);
    if (!v) return;
    slice.operands[0] = v;
    c->b.span = s->span;
    IrOp *op = ir_op_create(&c->b, IR_TILE_STORE, slice.count, slice.operands, 0, NULL);
    slice_attributes(op, &slice);
    if (s->mode != STORE_SET) ir_attr_set_str(op, "mode", modes[s->mode]);
    if (s->unique) ir_attr_set_bool(op, "unique", true);
}
