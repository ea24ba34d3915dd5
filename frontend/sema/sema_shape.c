/* Extents: broadcasting, slices of tensors and tiles, and whether a slice fits a tile. */
#include "sema_internal.h"

bool sema_same_extent(Sema *s, const Aff *a, const Aff *b) {
    return a == b || aff_prove_eq(s->facts, a, b);
}

bool sema_same_shape(Sema *s, const Type *a, const Type *b) {
    if (a->rank != b->rank) return false;
    for (unsigned i = 0; i < a->rank; i++)
        if (!sema_same_extent(s, a->shape[i], b->shape[i])) return false;
    return true;
}

static bool is_one(const Aff *e) {
    int64_t value;
    return aff_is_const(e, &value) && value == 1;
}

bool sema_broadcast(Sema *s, Expr *at, const Type *a, const Type *b, Type *result) {
    const Type *wide = a->rank >= b->rank ? a : b, *narrow = wide == a ? b : a;
    const Aff **shape = ARENA_ARRAY(s->arena, const Aff *, AST_MAX_RANK);
    unsigned offset = wide->rank - narrow->rank;
    for (unsigned i = 0; i < wide->rank; i++) {
        const Aff *x = wide->shape[i], *y = i < offset ? x : narrow->shape[i - offset];
        shape[i] = is_one(x) ? y : x;
        if (is_one(x) || is_one(y) || sema_same_extent(s, x, y)) continue;
        Diag *d = diag_report(s->diags, DIAG_shape_mismatch, at->span, sema_type_text(s, a), sema_type_text(s, b));
        diag_note(s->diags, d, SPAN_NONE, "axes are matched from the last one; %s and %s differ", sema_aff_text(s, x), sema_aff_text(s, y));
        return false;
    }
    Type joined = *wide;
    joined.kind = a->kind == TYPE_TENSOR || b->kind == TYPE_TENSOR ? TYPE_TENSOR : TYPE_TILE;
    joined.dtype = dtype_join(a->dtype, b->dtype);
    joined.shape = shape;
    joined.presence = NULL;
    *result = joined;
    return true;
}

bool sema_repeats_to(Sema *s, const Type *from, const Type *to) {
    if (from->rank > to->rank) return false;
    unsigned offset = to->rank - from->rank;
    for (unsigned i = 0; i < from->rank; i++)
        if (!is_one(from->shape[i]) && !sema_same_extent(s, from->shape[i], to->shape[i + offset])) return false;
    return true;
}

const Aff **sema_shape_list(Sema *s, Expr *list, size_t *rank) {
    bool is_list = list->kind == EXPR_LIST || list->kind == EXPR_TUPLE;
    Expr **items = is_list ? list->u.list.items : &list;
    *rank = is_list ? list->u.list.count : 1;
    if (*rank > AST_MAX_RANK) {
        diag_report(s->diags, DIAG_rank_limit, list->span, "this shape", AST_MAX_RANK);
        return NULL;
    }
    const Aff **shape = ARENA_ARRAY(s->arena, const Aff *, AST_MAX_RANK);
    for (size_t i = 0; i < *rank; i++) {
        int64_t value;
        shape[i] = sema_scalar(s, items[i], "an extent");
        if (!shape[i]) return NULL;
        if (sema_is_dynamic(shape[i])) {
            sema_error(s, DIAG_bad_extent, items[i]->span, "an extent is known at launch; alloc the largest and load a part of it");
            return NULL;
        }
        if (!aff_is_const(shape[i], &value) || value >= 0) continue;
        sema_error(s, DIAG_bad_extent, items[i]->span, "an extent is never negative");
        return NULL;
    }
    list->type = (Type){.kind = TYPE_LIST};
    return shape;
}

/* ---- Slices ---- */

static bool is_negative(const Aff *e) {
    int64_t value;
    return aff_is_const(e, &value) && value < 0;
}

/* Proposes what X[-1] means in Python; returns false. */
static bool report_negative(Sema *s, const Expr *e, const Aff *at, const Aff *dim) {
    const char *text = sema_aff_text(s, aff_simplify(s->facts, aff_add(s->aff, dim, at)));
    Diag *d = diag_report(s->diags, DIAG_negative_start, e->span);
    diag_note(s->diags, d, SPAN_NONE, "the axis has extent %s; counted from its end this is %s", sema_aff_text(s, dim), text);
    diag_fix(s->diags, d, e->span, text, "count from the end of the axis");
    return false;
}

static bool range_axis(Sema *s, Expr *item, const Aff *dim, AxisIndex *axis) {
    Expr *lo = item->u.slice.lo, *hi = item->u.slice.hi, *step = item->u.slice.step;
    int64_t by = 1;
    axis->kind = AXIS_RANGE;
    axis->start = lo ? sema_scalar(s, lo, "the start of a slice") : aff_const(s->aff, 0);
    axis->end = hi ? sema_scalar(s, hi, "the end of a slice") : dim;
    if (!axis->start || !axis->end || (step && !sema_const_int(s, step, "the step of a slice", &by))) return false;
    if (by <= 0) {
        diag_report(s->diags, DIAG_bad_step, step->span);
        return false;
    }
    if (lo && is_negative(axis->start)) return report_negative(s, lo, axis->start, dim);
    if (hi && is_negative(axis->end)) return report_negative(s, hi, axis->end, dim);
    axis->step = aff_const(s->aff, by);
    axis->count = aff_simplify(s->facts, aff_ceildiv(s->aff, aff_sub(s->aff, axis->end, axis->start), axis->step));
    return true;
}

static bool point_axis(Sema *s, Expr *item, const Aff *dim, AxisIndex *axis) {
    const Type *t = sema_expr(s, item);
    if (t->kind == TYPE_ERROR) return false;
    if (t->kind == TYPE_TILE && t->rank > 0) {
        if (!dtype_is_int(t->dtype)) {
            sema_error(s, DIAG_bad_operand, item->span,
                       "an index tile holds integers, this is %s: load it from a tensor of "
                       "integers or cast it",
                       sema_type_text(s, t));
            return false;
        }
        axis->kind = AXIS_GATHER;
        axis->index = item;
        return true;
    }
    axis->kind = AXIS_POINT;
    axis->start = sema_scalar(s, item, "an index");
    if (axis->start && is_negative(axis->start)) {
        report_negative(s, item, axis->start, dim);
        return false;
    }
    return axis->start != NULL;
}

static Decl *slice_base(Sema *s, Expr *e) {
    Expr *base = e->kind == EXPR_INDEX ? e->u.index.base : e;
    Decl *d = base->kind == EXPR_NAME ? sema_find(s, base->u.name.name) : NULL;
    if (!d && base->kind == EXPR_NAME) {
        sema_undeclared(s, base->u.name.name, base->span, USE_MEMORY);
        return NULL;
    }
    if (d && d->type.kind == TYPE_ERROR) return NULL;
    bool sliced = d && (d->kind == DECL_TENSOR || d->kind == DECL_VIEW || d->kind == DECL_TILE ||
                        (d->kind == DECL_VALUE && type_is_shaped(&d->type)));
    if (!sliced) {
        sema_error(s, DIAG_bad_operand, base->span, "only tensors, views and tiles have slices; this is %s",
                   d ? sema_type_text(s, &d->type) : "an expression");
        return NULL;
    }
    base->decl = e->decl = d;
    if (d->kind == DECL_VIEW) d->type.dtype = sema_memory(d)->type.dtype;
    base->type = d->type;
    d->used = true;
    return d;
}

/* Index tiles broadcast with each other; reports and gives false where they do not fit. */
static bool join_indices(Sema *s, Expr *e, Type *joined) {
    bool first = true;
    for (size_t i = 0; i < e->axis_count; i++) {
        const AxisIndex *axis = &e->axes[i];
        if (axis->kind != AXIS_GATHER) continue;
        Type before = *joined;
        if (first) *joined = axis->index->type;
        if (!first && !sema_broadcast(s, axis->index, &before, &axis->index->type, joined)) return false;
        first = false;
    }
    return true;
}

/* The axes of index tiles stand where the first of them stood. */
static bool set_slice_type(Sema *s, Expr *e) {
    const Aff **shape = ARENA_ARRAY(s->arena, const Aff *, 2 * AST_MAX_RANK);
    unsigned rank = 0;
    Type indices = {.rank = 0};
    bool gathered = false;
    if (!join_indices(s, e, &indices)) return false;
    e->gather_rank = indices.rank;
    for (size_t i = 0; i < e->axis_count; i++) {
        const AxisIndex *axis = &e->axes[i];
        if (axis->kind == AXIS_RANGE) shape[rank++] = axis->count;
        if (axis->kind != AXIS_GATHER || gathered) continue;
        for (unsigned k = 0; k < indices.rank; k++) shape[rank++] = indices.shape[k];
        gathered = true;
    }
    if (rank > AST_MAX_RANK) {
        diag_report(s->diags, DIAG_rank_limit, e->span, "this slice", AST_MAX_RANK);
        return false;
    }
    e->type = (Type){.kind = TYPE_TENSOR, .dtype = e->decl->type.dtype, .rank = (uint8_t)rank, .shape = shape};
    return true;
}

static void whole_axis(Sema *s, const Type *t, size_t i, AxisIndex *axis) {
    axis->kind = AXIS_RANGE;
    axis->start = aff_const(s->aff, 0);
    axis->end = axis->count = t->shape[i];
    axis->step = aff_const(s->aff, 1);
}

bool sema_slice(Sema *s, Expr *e) {
    Decl *d = slice_base(s, e);
    bool good = d != NULL;
    size_t count = e->kind == EXPR_INDEX ? e->u.index.count : 0;
    if (d && count > d->type.rank) {
        Diag *diag = diag_report(s->diags, DIAG_index_count, e->span, d->name, d->type.rank, (unsigned)count);
        diag_note(s->diags, diag, d->span, "`%s` is %s", d->name, sema_type_text(s, &d->type));
        good = false;
    }
    e->axis_count = good ? d->type.rank : 0;
    e->axes = ARENA_ARRAY(s->arena, AxisIndex, AST_MAX_RANK);
    for (size_t i = 0; i < count; i++) {
        Expr *item = e->u.index.items[i];
        AxisIndex spare = {0}, *axis = good ? &e->axes[i] : &spare;
        const Aff *dim = good ? d->type.shape[i] : aff_const(s->aff, 1);
        axis->span = item->span;
        if (item->kind == EXPR_SLICE)
            good &= range_axis(s, item, dim, axis);
        else
            good &= point_axis(s, item, dim, axis);
    }
    if (!good) {
        sema_set_error(e);
        return false;
    }
    for (size_t i = count; i < e->axis_count; i++) {
        e->axes[i].span = e->span;
        whole_axis(s, &d->type, i, &e->axes[i]);
    }
    if (set_slice_type(s, e)) return true;
    sema_set_error(e);
    return false;
}

void sema_whole_slice(Sema *s, Expr *e) {
    Expr *base = ARENA_NEW(s->arena, Expr);
    *base = *e;
    e->kind = EXPR_INDEX;
    e->u.index.base = base;
    e->u.index.items = NULL;
    e->u.index.count = 0;
    sema_slice(s, e);
}

bool sema_unwrap_whole(Expr *e) {
    if (e->kind != EXPR_INDEX || e->u.index.count || e->u.index.base->kind != EXPR_NAME) return false;
    Expr base = *e->u.index.base;
    base.span = e->span;
    *e = base;
    return true;
}

/* ---- Does a slice fit a tile? ---- */

/* The slice is what is left of the tensor from its start, up to the tile's extent. */
static bool is_ragged(Sema *s, const AxisIndex *axis, const Aff *dim, const Aff *extent) {
    const Aff *left = aff_ceildiv(s->aff, aff_sub(s->aff, dim, axis->start), axis->step);
    return aff_prove_eq(s->facts, axis->count, aff_min(s->aff, extent, left));
}

/* Whether `count` is the extent or less because it is written so: a:min(a + extent, end). */
static bool is_cut(Sema *s, const Aff *count, const Aff *extent) {
    bool single = count->kind == AFF_MIN;
    if (aff_prove_eq(s->facts, count, extent)) return true;
    for (size_t i = 0; i < (single ? 1 : count->kind == AFF_SUM ? count->count : 0); i++) {
        const Aff *least = single ? count : count->args[i];
        if (least->kind != AFF_MIN || (!single && count->coefs[i] != 1)) continue;
        const Aff *rest = aff_sub(s->aff, count, least);
        if (is_cut(s, aff_add(s->aff, rest, least->args[0]), extent) || is_cut(s, aff_add(s->aff, rest, least->args[1]), extent))
            return true;
    }
    return false;
}

/* A loop over ceil(D, w) tiles whose variable is used as if it counted elements. */
static const Stmt *stride_mistake(Sema *s, const AxisIndex *axis, const Aff *dim, const Aff *width) {
    for (size_t i = s->loops.len; i-- > 0;) {
        const LoopInfo *loop = s->loops.data[i]->loop;
        const Aff *coefficient, *rest;
        if (!loop->hi || !loop->step || !is_one(loop->step) || is_one(width) || !aff_depends_on(axis->start, loop->var)) continue;
        if (!sema_linear_in(s, axis->start, loop->var, &coefficient, &rest) || !is_one(coefficient)) continue;
        bool divides = loop->hi->kind == AFF_FLOORDIV && loop->hi->args[1] == width;
        if (divides || loop->hi == aff_ceildiv(s->aff, dim, width)) return s->loops.data[i];
    }
    return NULL;
}

static void report_stride(Sema *s, const AxisIndex *axis, const Expr *item, const Stmt *loop, const Aff *width) {
    const char *var = loop->u.loop.var, *by = sema_aff_text(s, width);
    const Expr *hi = item->u.slice.hi;
    if (hi && hi->kind == EXPR_BINARY && hi->u.oper.op == OPER_ADD && hi->u.oper.b->kind == EXPR_NAME) by = hi->u.oper.b->u.name.name;
    Diag *d = diag_report(s->diags, DIAG_slice_stride, axis->span, var, by);
    diag_note(s->diags, d, loop->u.loop.range->span, "`%s` counts tiles of %s elements here", var, by);
    diag_fix(s->diags, d, axis->span, arena_printf(s->arena, "%s*%s:(%s+1)*%s", var, by, var, by), "let the slice mean elements");
    diag_note(s->diags, d, SPAN_NONE, "if a sliding window is meant, say so: @llm_hint(\"sliding_window\")");
}

static bool axis_fits(Sema *s, Expr *slice, size_t i, const Decl *tile, unsigned k) {
    AxisIndex *axis = &slice->axes[i];
    const Aff *dim = slice->decl->type.shape[i], *extent = tile->type.shape[k];
    bool ragged = !sema_same_extent(s, axis->count, extent) && (is_ragged(s, axis, dim, extent) || is_cut(s, axis->count, extent));
    if (!ragged && !sema_same_extent(s, axis->count, extent)) {
        Diag *d =
            diag_report(s->diags, DIAG_extent_mismatch, axis->span, sema_aff_text(s, axis->count), tile->name, sema_aff_text(s, extent), k);
        diag_note(s->diags, d, tile->span, "`%s` is made here", tile->name);
        return false;
    }
    axis->count = extent;
    const Expr *item = slice->u.index.count > i ? slice->u.index.items[i] : NULL;
    const Stmt *loop = item && !sema_has_hint(s->stmt, "sliding_window") ? stride_mistake(s, axis, dim, extent) : NULL;
    if (loop) report_stride(s, axis, item, loop, extent);
    return !loop;
}

/* The index tiles' axes are the tile's from `k` on. */
static bool indices_fit(Sema *s, const Expr *slice, const AxisIndex *axis, const Decl *tile, unsigned k) {
    for (unsigned a = 0; a < slice->gather_rank; a++, k++) {
        const Aff *have = slice->type.shape[k], *want = tile->type.shape[k];
        if (sema_same_extent(s, have, want)) continue;
        Diag *d = diag_report(s->diags, DIAG_extent_mismatch, axis->span, sema_aff_text(s, have), tile->name, sema_aff_text(s, want), k);
        diag_note(s->diags, d, tile->span, "`%s` is made here", tile->name);
        return false;
    }
    return true;
}

bool sema_slice_fits(Sema *s, Expr *slice, const Decl *tile, Span span) {
    if (slice->type.rank != tile->type.rank) {
        Diag *d = diag_report(s->diags, DIAG_rank_mismatch, span, slice->type.rank, tile->name, tile->type.rank);
        diag_note(s->diags, d, slice->span, "the slice is %s; an index without `:` drops its axis", sema_type_text(s, &slice->type));
        diag_note(s->diags, d, tile->span, "`%s` is %s", tile->name, sema_type_text(s, &tile->type));
        return false;
    }
    bool good = true, gathered = false;
    unsigned k = 0;
    for (size_t i = 0; i < slice->axis_count; i++) {
        const AxisIndex *axis = &slice->axes[i];
        if (axis->kind == AXIS_RANGE) good &= axis_fits(s, slice, i, tile, k++);
        if (axis->kind != AXIS_GATHER || gathered) continue;
        gathered = true;
        good &= indices_fit(s, slice, axis, tile, k);
        k += slice->gather_rank;
    }
    return good;
}

/* ---- Linear forms ---- */

bool sema_linear_in(Sema *s, const Aff *e, const Decl *var, const Aff **coefficient, const Aff **rest) {
    *rest = aff_with(s->aff, e, var, aff_const(s->aff, 0));
    *coefficient = aff_sub(s->aff, aff_with(s->aff, e, var, aff_const(s->aff, 1)), *rest);
    return aff_add(s->aff, *rest, aff_mul(s->aff, *coefficient, var->affine)) == e;
}
