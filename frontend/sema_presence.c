/* Flow over the statements of a sketch: which tiles are written when they are read, which lanes of
 * them are present, and which tiles a loop or a branch carries.
 *
 * One state a tile, with a journal of changes, so that a loop or branch costs what it writes. A
 * loop runs once with the state at its entry; where the back edge brings less presence, it runs
 * again with the intersection (at most twice: an interval that shrinks every time depends on the
 * loop and is an error). */
#include "sema_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    bool written;
    const Interval *presence; /* null: everywhere */
    const Stmt *writer;
} TileState;

typedef struct {
    Decl *tile;
    TileState old;
} Change;

typedef struct {
    Sema *s;
    TileState *states; /* by Decl.order */
    bool *reported;
    AffFacts *facts;
    struct {
        Change *data;
        size_t len, cap;
    } journal;
    size_t budget; /* statements that may still be visited */
} Flow;

enum { VISITS_SPARE = 20000, VISITS_EACH = 64, LOOP_RUNS = 3 };

static void set_state(Flow *f, Decl *tile, TileState state) {
    VEC_PUSH(f->s->arena, &f->journal, (Change){tile, f->states[tile->order]});
    f->states[tile->order] = state;
}

/* ---- Intervals ---- */

static bool is_full(const Interval *v) {
    return !v->lo;
}

static Interval trimmed(Flow *f, const Aff *lo, const Aff *hi, const Aff *extent) {
    int64_t zero;
    bool from_start = aff_is_const(lo, &zero) && zero == 0;
    if (from_start && aff_prove_le(f->facts, extent, hi)) return (Interval){NULL, NULL};
    return (Interval){lo, aff_simplify(f->facts, aff_min(f->s->aff, hi, extent))};
}

static Interval meet(Flow *f, Interval a, Interval b) {
    if (is_full(&a)) return b;
    if (is_full(&b) || (a.lo == b.lo && a.hi == b.hi)) return a;
    return (Interval){aff_simplify(f->facts, aff_max(f->s->aff, a.lo, b.lo)),
                      aff_simplify(f->facts, aff_min(f->s->aff, a.hi, b.hi))};
}

/* Null when every axis is full. */
static const Interval *keep(Flow *f, const Interval *axes, unsigned rank) {
    bool full = true;
    for (unsigned i = 0; i < rank; i++) full &= is_full(&axes[i]);
    if (full) return NULL;
    Interval *kept = ARENA_ARRAY(f->s->arena, Interval, AST_MAX_RANK);
    for (unsigned i = 0; i < rank; i++) kept[i] = axes[i];
    return kept;
}

static const Interval *meet_all(Flow *f, const Interval *a, const Interval *b, unsigned rank) {
    if (!a || !b) return a ? a : b;
    Interval axes[AST_MAX_RANK];
    for (unsigned i = 0; i < rank; i++) axes[i] = meet(f, a[i], b[i]);
    return keep(f, axes, rank);
}

static bool same_presence(const Interval *a, const Interval *b, unsigned rank) {
    if (!a || !b) return a == b;
    for (unsigned i = 0; i < rank; i++)
        if (a[i].lo != b[i].lo || a[i].hi != b[i].hi) return false;
    return true;
}

/* ---- Expressions ---- */

static const Interval *visit(Flow *f, Expr *e);

static void require_written(Flow *f, Decl *tile, Span span) {
    if (tile->kind != DECL_TILE || tile->is_workspace || f->states[tile->order].written ||
        f->reported[tile->order])
        return;
    f->reported[tile->order] = true;
    Diag *d = diag_report(f->s->diags, DIAG_unwritten_tile, span, tile->name);
    diag_note(f->s->diags, d, tile->span, "`%s` is made here without a value", tile->name);
    if (f->states[tile->order].writer)
        diag_note(
            f->s->diags, d, f->states[tile->order].writer->span,
            "this write may not happen: a loop may run zero times, a branch may not be taken");
}

static const Interval *visit_elementwise(Flow *f, const Expr *e) {
    Interval axes[AST_MAX_RANK] = {{0}};
    unsigned rank = e->type.rank;
    for (size_t i = 0; i < e->bound_count; i++) {
        Expr *x = e->bound[i];
        if (!x || x->type.kind != TYPE_TILE) continue;
        const Interval *p = visit(f, x);
        unsigned offset = rank >= x->type.rank ? rank - x->type.rank : 0;
        for (unsigned k = 0; p && k < x->type.rank && k + offset < rank; k++) {
            bool repeats = x->type.shape[k] != e->type.shape[k + offset] &&
                           aff_is_const(x->type.shape[k], &(int64_t){0});
            if (!repeats) axes[k + offset] = meet(f, axes[k + offset], p[k]);
        }
    }
    return keep(f, axes, rank);
}

static const Interval *visit_reduce(Flow *f, const Expr *e) {
    Interval axes[AST_MAX_RANK] = {{0}};
    const Interval *p = visit(f, e->bound[0]);
    unsigned rank = 0;
    for (int i = 0; p && i < e->bound[0]->type.rank; i++) {
        bool folded = e->reduce_axes >> i & 1;
        if (!folded)
            axes[rank++] = p[i];
        else if (e->keepdim)
            axes[rank++] = (Interval){NULL, NULL};
    }
    return p ? keep(f, axes, rank) : NULL;
}

static bool flag_of(Flow *f, const Expr *e, const char *name) {
    BuiltinParam params[BUILTIN_MAX_PARAMS];
    size_t count = builtin_params(e->builtin, f->s->arena, params);
    for (size_t i = 0; i < count && i < e->bound_count; i++)
        if (e->bound[i] && strcmp(params[i].name, name) == 0)
            return const_is_true(&e->bound[i]->value);
    return false;
}

/* Leading axes of a factor line up with the `lead` of the product from the last one. */
static void meet_leading(Flow *f, Interval *axes, unsigned lead, const Type *factor,
                         const Interval *p) {
    for (unsigned i = 0; p && i + 2 < factor->rank; i++) {
        Interval *axis = &axes[lead + i + 2 - factor->rank];
        int64_t extent;
        if (!aff_is_const(factor->shape[i], &extent) || extent != 1) *axis = meet(f, *axis, p[i]);
    }
}

/* M from a, N from b, leading axes the intersection; on K the rest counts as zero. */
static const Interval *visit_product(Flow *f, const Expr *e) {
    Interval axes[AST_MAX_RANK] = {{0}};
    Expr *a = e->bound[0], *b = e->bound[1];
    const Interval *pa = visit(f, a), *pb = visit(f, b);
    unsigned ra = a->type.rank, rb = b->type.rank, rank = e->type.rank;
    unsigned lead = rank - (ra > 1) - (rb > 1);
    if (!pa && !pb) return NULL;
    meet_leading(f, axes, lead, &a->type, pa);
    meet_leading(f, axes, lead, &b->type, pb);
    if (pa && ra > 1) axes[lead] = pa[ra - (flag_of(f, e, "trans_a") ? 1u : 2u)];
    if (pb && rb > 1) axes[rank - 1] = pb[rb - (flag_of(f, e, "trans_b") ? 2u : 1u)];
    return keep(f, axes, rank);
}

/* Operands and locals in order, then the result over them. */
static const Interval *visit_expansion(Flow *f, const Expansion *x) {
    for (size_t i = 0; i < x->count; i++) x->names[i]->type.presence = visit(f, x->names[i]->value);
    return visit(f, x->result);
}

/* ---- Along axes ---- */

static const Aff *start_of(Flow *f, const Interval *v) {
    return is_full(v) ? aff_const(f->s->aff, 0) : v->lo;
}

static const Aff *end_of(const Interval *v, const Aff *extent) {
    return is_full(v) ? extent : v->hi;
}

static bool is_whole_end(Flow *f, const Interval *v, const Aff *extent) {
    return is_full(v) || aff_prove_le(f->facts, extent, v->hi);
}

static bool begins_at_zero(Flow *f, const Interval *v) {
    int64_t zero;
    return is_full(v) || (aff_is_const(v->lo, &zero) && zero <= 0) ||
           aff_prove_le(f->facts, v->lo, aff_const(f->s->aff, 0));
}

static void report_no_interval(Flow *f, const Expr *e) {
    Diag *d = diag_report(f->s->diags, DIAG_no_interval, e->span, builtin_info(e->builtin)->name);
    diag_note(f->s->diags, d, SPAN_NONE,
              "load the operand with pad= so that all of its lanes are present");
}

static Interval flipped(Flow *f, const Interval *v, const Aff *extent) {
    if (is_full(v)) return *v;
    AffCtx *c = f->s->aff;
    return trimmed(f, aff_max(c, aff_const(c, 0), aff_sub(c, extent, v->hi)),
                   aff_sub(c, extent, v->lo), extent);
}

/* Sorted to the front, of k lanes. */
static Interval packed(Flow *f, const Interval *v, const Aff *extent, const Aff *k) {
    AffCtx *c = f->s->aff;
    const Aff *zero = aff_const(c, 0);
    const Aff *count = is_full(v) ? extent : aff_max(c, zero, aff_sub(c, v->hi, v->lo));
    return trimmed(f, zero, aff_simplify(f->facts, count), k);
}

static const Interval *visit_along(Flow *f, const Expr *e) {
    Interval axes[AST_MAX_RANK] = {{0}};
    const Expr *x = e->bound[0];
    const Interval *p = visit(f, e->bound[0]);
    int at = e->reduce_axis;
    bool scan = builtin_info(e->builtin)->class == CLASS_SCAN;
    if (scan || (!p && e->builtin != BUILTIN_TOPK)) return p;
    for (int i = 0; p && i < e->type.rank; i++) axes[i] = p[i];
    axes[at] = e->builtin == BUILTIN_FLIP
                   ? flipped(f, &axes[at], x->type.shape[at])
                   : packed(f, &axes[at], x->type.shape[at], e->type.shape[at]);
    return keep(f, axes, e->type.rank);
}

static const Interval *visit_transpose(Flow *f, const Expr *e) {
    Interval axes[AST_MAX_RANK] = {{0}};
    const Interval *p = visit(f, e->bound[0]);
    int rank = e->type.rank;
    for (int i = 0; p && i < rank; i++) axes[i] = p[e->order[i]];
    return p ? keep(f, axes, (unsigned)rank) : NULL;
}

/* Leading axes that stay keep their interval; one interval may lie on the first axis that changes
 * when the lanes behind it are the same number, or a constant multiple, on both sides. */
static const Interval *visit_reshape(Flow *f, const Expr *e) {
    Interval axes[AST_MAX_RANK] = {{0}};
    const Type *x = &e->bound[0]->type, *to = &e->type;
    const Interval *p = visit(f, e->bound[0]);
    AffCtx *c = f->s->aff;
    int same = 0;
    if (!p) return NULL;
    for (; same < x->rank && same < to->rank && x->shape[same] == to->shape[same]; same++)
        axes[same] = p[same];
    const Aff *inner_x = aff_const(c, 1), *inner_to = inner_x;
    for (int i = same + 1; i < x->rank; i++) inner_x = aff_mul(c, inner_x, x->shape[i]);
    for (int i = same + 1; i < to->rank; i++) inner_to = aff_mul(c, inner_to, to->shape[i]);
    for (int i = same; i < x->rank; i++) {
        int64_t ratio;
        if (is_full(&p[i])) continue;
        const Aff *times = aff_floordiv(c, inner_x, inner_to);
        bool scales = i == same && same < to->rank && aff_is_const(times, &ratio) && ratio > 0 &&
                      aff_mul(c, times, inner_to) == inner_x;
        if (!scales) {
            report_no_interval(f, e);
            return NULL;
        }
        axes[same] = trimmed(f, aff_mul(c, p[i].lo, times), aff_mul(c, p[i].hi, times), to->shape[same]);
    }
    return keep(f, axes, to->rank);
}

/* Along the axis all but the last operand must end whole, all but the first begin whole; across it
 * the intervals must be one. */
static const Interval *visit_concat(Flow *f, const Expr *e) {
    Interval axes[AST_MAX_RANK] = {{0}};
    AffCtx *c = f->s->aff;
    const Aff *begin = aff_const(c, 0), *lo = begin, *hi = begin;
    int at = e->reduce_axis, rank = e->type.rank;
    bool good = true, any = false;
    for (size_t k = 0; k < e->many_count; k++) {
        const Interval *p = visit(f, e->many[k]);
        const Aff *extent = e->many[k]->type.shape[at];
        Interval none = {NULL, NULL}, along = p ? p[at] : none;
        any |= p != NULL;
        for (int i = 0; i < rank; i++) {
            Interval mine = p ? p[i] : none;
            if (i == at) continue;
            if (k == 0) axes[i] = mine;
            good &= mine.lo == axes[i].lo && mine.hi == axes[i].hi;
        }
        good &= k == 0 || begins_at_zero(f, &along);
        good &= k + 1 == e->many_count || is_whole_end(f, &along, extent);
        if (k == 0) lo = start_of(f, &along);
        hi = aff_add(c, begin, end_of(&along, extent));
        begin = aff_add(c, begin, extent);
    }
    if (!any) return NULL;
    if (!good) {
        report_no_interval(f, e);
        return NULL;
    }
    axes[at] = trimmed(f, lo, hi, e->type.shape[at]);
    return keep(f, axes, (unsigned)rank);
}

static const Interval *visit_move(Flow *f, const Expr *e) {
    switch (e->builtin) {
    case BUILTIN_TRANSPOSE:
        return visit_transpose(f, e);
    case BUILTIN_RESHAPE:
        return visit_reshape(f, e);
    case BUILTIN_CONCAT:
        return visit_concat(f, e);
    case BUILTIN_FLIP:
        return visit_along(f, e);
    default:
        return visit_elementwise(f, e);
    }
}

static const Interval *visit_operation(Flow *f, const Expr *e) {
    const BuiltinInfo *row = builtin_info(e->builtin);
    if (e->expansion) return visit_expansion(f, e->expansion);
    if (row->rule == RULE_RANDOM) return visit(f, e->bound[0]); /* a shape is present everywhere */
    switch (row->class) {
    case CLASS_ELEMENTWISE:
        return visit_elementwise(f, e);
    case CLASS_REDUCE:
        return visit_reduce(f, e);
    case CLASS_CONTRACT:
        return visit_product(f, e);
    case CLASS_COMPOSITE:
        return visit(f, e->bound[0]);
    case CLASS_SCAN:
    case CLASS_SORT:
        return visit_along(f, e);
    case CLASS_MOVE:
        return visit_move(f, e);
    default:
        break;
    }
    for (size_t i = 0; i < e->bound_count; i++)
        if (e->bound[i] && e->bound[i]->type.kind == TYPE_TILE) visit(f, e->bound[i]);
    return NULL;
}

static const Interval *visit(Flow *f, Expr *e) {
    if (e->type.kind != TYPE_TILE) return NULL;
    const Interval *p = NULL;
    if (e->kind == EXPR_NAME && e->decl && e->decl->kind == DECL_PARAM)
        p = e->decl->type.presence;
    else if (e->kind == EXPR_NAME && e->decl) {
        require_written(f, e->decl, e->span);
        p = f->states[e->decl->order].presence;
        e->type.dtype = e->decl->type.dtype;
    } else if (e->builtin)
        p = visit_operation(f, e);
    e->type.presence = p;
    return p;
}

/* ---- Statements ---- */

static Interval loaded_axis(Flow *f, const AxisIndex *axis, const Aff *dim) {
    AffCtx *c = f->s->aff;
    const Aff *zero = aff_const(c, 0), *left = aff_sub(c, aff_min(c, dim, axis->end), axis->start);
    const Aff *hi = aff_ceildiv(c, left, axis->step);
    const Aff *lo =
        aff_prove_nonneg(f->facts, axis->start)
            ? zero
            : aff_max(c, zero, aff_ceildiv(c, aff_sub(c, zero, axis->start), axis->step));
    return trimmed(f, lo, aff_simplify(f->facts, hi), axis->count);
}

/* What is left of a slice of a tile whose lanes `of` are present. */
static Interval extracted_axis(Flow *f, const AxisIndex *axis, const Interval *of, Interval slice) {
    AffCtx *c = f->s->aff;
    if (is_full(of)) return slice;
    const Aff *lo = aff_ceildiv(c, aff_sub(c, of->lo, axis->start), axis->step);
    const Aff *hi = aff_ceildiv(c, aff_sub(c, of->hi, axis->start), axis->step);
    return meet(f, slice, trimmed(f, aff_max(c, aff_const(c, 0), lo), hi, axis->count));
}

/* An index into an axis of a tile on which lanes are absent must hit a present one. */
static void require_lane(Flow *f, const Stmt *stmt, const AxisIndex *axis, const Interval *of,
                         const Aff *dim) {
    const Decl *from = stmt->value->decl;
    const Aff *last = aff_sub(f->s->aff, is_full(of) ? dim : of->hi, aff_const(f->s->aff, 1));
    if (is_full(of) || f->reported[from->order] ||
        (aff_prove_le(f->facts, of->lo, axis->start) && aff_prove_le(f->facts, axis->start, last)))
        return;
    f->reported[from->order] = true;
    diag_report(f->s->diags, DIAG_scalar_presence, axis->span, stmt->targets[0]->name, from->name,
                sema_aff_text(f->s, dim));
}

static bool is_part(const Expr *slice) {
    return slice->decl->kind == DECL_TILE && !slice->decl->is_workspace;
}

static bool is_whole(const Expr *slice) {
    int64_t start;
    for (size_t i = 0; i < slice->axis_count; i++) {
        const AxisIndex *axis = &slice->axes[i];
        if (axis->kind != AXIS_RANGE || !aff_is_const(axis->start, &start) || start != 0 ||
            axis->count != slice->decl->type.shape[i])
            return false;
    }
    return true;
}

/* A store to a tile leaves the lanes that it does not write, so that they need a value. */
static void visit_part_store(Flow *f, Stmt *stmt) {
    Decl *d = stmt->into->decl;
    const Interval *part = visit(f, stmt->value);
    bool all = !part && stmt->mode == STORE_SET && is_whole(stmt->into);
    if (!all) require_written(f, d, stmt->into->span);
    set_state(f, d, (TileState){true, all ? NULL : f->states[d->order].presence, stmt});
}

/* Tiles of rank 0 that a scalar is computed from. */
static void visit_number(Flow *f, Expr *e) {
    if (!e) return;
    if (e->type.kind == TYPE_TILE) {
        visit(f, e);
        return;
    }
    for (size_t i = 0; i < e->bound_count; i++) visit_number(f, e->bound[i]);
}

static void visit_indices(Flow *f, Expr *slice) {
    for (size_t i = 0; slice->kind == EXPR_INDEX && i < slice->u.index.count; i++) {
        Expr *item = slice->u.index.items[i];
        visit_number(f, item);
        if (item->kind != EXPR_SLICE) continue;
        visit_number(f, item->u.slice.lo);
        visit_number(f, item->u.slice.hi);
    }
}

/* A dropped axis whose index may lie outside leaves no lane: `lanes` * max(0, room) is 0 where there is
 * no room, and no bound elsewhere. */
static void limit_by_room(Flow *f, const Aff *room, const Aff *lanes, Interval *axis) {
    AffCtx *c = f->s->aff;
    if (aff_prove_nonneg(f->facts, aff_sub(c, room, aff_const(c, 1)))) return;
    if (is_full(axis)) *axis = (Interval){aff_const(c, 0), lanes};
    const Aff *limit = aff_mul(c, lanes, aff_max(c, aff_const(c, 0), room));
    axis->hi = aff_min(c, axis->hi, limit);
}

static void limit_by_points(Flow *f, const Stmt *stmt, Interval *first) {
    AffCtx *c = f->s->aff;
    const Expr *e = stmt->value;
    const Aff *lanes = stmt->targets[0]->type.shape[0];
    for (size_t i = 0; i < e->axis_count; i++) {
        if (e->axes[i].kind != AXIS_POINT) continue;
        const Aff *at = e->axes[i].start;
        limit_by_room(f, aff_add(c, at, aff_const(c, 1)), lanes, first);
        limit_by_room(f, aff_sub(c, e->decl->type.shape[i], at), lanes, first);
    }
}

/* A lane whose index is absent is absent, whatever pad= says. */
static void meet_index(Flow *f, const Expr *slice, const Expr *index, Interval *axes) {
    const Type *t = &index->type;
    unsigned shift = slice->gather_rank - t->rank;
    for (unsigned k = 0; t->presence && k < t->rank; k++) {
        int64_t one;
        if (aff_is_const(t->shape[k], &one) && one == 1) continue;
        axes[k + shift] = meet(f, axes[k + shift], t->presence[k]);
    }
}

/* What a range or a dropped axis of the slice leaves present. */
static void loaded_one(Flow *f, const Stmt *stmt, const AxisIndex *axis, const Interval *of,
                       const Aff *dim, Interval *to) {
    if (axis->kind == AXIS_POINT && of) require_lane(f, stmt, axis, of, dim);
    if (axis->kind == AXIS_RANGE) *to = loaded_axis(f, axis, dim);
    if (axis->kind == AXIS_RANGE && of) *to = extracted_axis(f, axis, of, *to);
}

static const Interval *loaded(Flow *f, const Stmt *stmt) {
    Interval axes[AST_MAX_RANK] = {{0}};
    unsigned rank = 0, first = 0;
    const Expr *e = stmt->value;
    const Interval *of = is_part(e) ? f->states[e->decl->order].presence : NULL;
    bool gathered = false;
    if (is_part(e)) require_written(f, e->decl, e->span);
    for (size_t i = 0; i < e->axis_count; i++) {
        const AxisIndex *axis = &e->axes[i];
        if (axis->kind == AXIS_GATHER) {
            if (!gathered) {
                first = rank;
                rank += e->gather_rank;
            }
            gathered = true;
            meet_index(f, e, axis->index, &axes[first]);
        } else if (!stmt->pad) {
            loaded_one(f, stmt, axis, of ? &of[i] : NULL, e->decl->type.shape[i], &axes[rank]);
        }
        rank += axis->kind == AXIS_RANGE;
    }
    if (rank && !is_part(e) && !stmt->pad) limit_by_points(f, stmt, &axes[0]);
    return keep(f, axes, rank);
}

static void report_uninitialised(Flow *f, const Stmt *stmt, Decl *tile) {
    if (f->reported[tile->order]) return;
    f->reported[tile->order] = true;
    Diag *d = diag_report(f->s->diags, DIAG_gemm_uninitialised, stmt->span, tile->name);
    const Stmt *site = tile->site;
    if (!site || site->action != ACTION_ALLOC) return;
    Span call = site->u.assign.values[0]->span;
    diag_note(f->s->diags, d, tile->span, "`%s` is made here without a value", tile->name);
    diag_fix(f->s->diags, d, (Span){call.file, call.end - 1, call.end - 1}, ", init=0",
             "start from zero");
}

static void visit_compute(Flow *f, Stmt *stmt) {
    Decl *d = stmt->targets[0];
    const Interval *p = visit(f, stmt->value);
    if (stmt->value->builtin == BUILTIN_GEMM) {
        if (!f->states[d->order].written && !d->is_workspace) report_uninitialised(f, stmt, d);
        p = meet_all(f, p, f->states[d->order].presence, d->type.rank);
    }
    stmt->presence = p;
    for (size_t i = 0; i < stmt->target_count; i++)
        set_state(f, stmt->targets[i], (TileState){true, p, stmt});
}

static void visit_action(Flow *f, Stmt *stmt) {
    switch (stmt->action) {
    case ACTION_ALLOC:
        set_state(f, stmt->targets[0], (TileState){stmt->targets[0]->has_init, NULL, NULL});
        break;
    case ACTION_LOAD:
        visit_indices(f, stmt->value);
        stmt->presence = loaded(f, stmt);
        set_state(f, stmt->targets[0], (TileState){true, stmt->presence, stmt});
        break;
    case ACTION_STORE:
        visit_indices(f, stmt->into);
        if (is_part(stmt->into))
            visit_part_store(f, stmt);
        else
            visit(f, stmt->value);
        break;
    case ACTION_COMPUTE:
        visit_compute(f, stmt);
        break;
    case ACTION_SCALAR:
        for (size_t i = 0; i < stmt->target_count; i++)
            visit_number(f, stmt->u.assign.values[i]);
        break;
    case ACTION_EQUATION:
    case ACTION_NONE:
        break;
    }
}

/* ---- Loops and branches ---- */

static int by_order(const void *a, const void *b) {
    const Decl *x = *(Decl *const *)a, *y = *(Decl *const *)b;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Tiles older than `before` that were changed since `mark`, each once, in order; with the state
 * that they had then. */
static size_t changed_since(Flow *f, size_t mark, uint32_t before, Decl ***tiles, TileState **old) {
    size_t count = 0;
    Decl **found = ARENA_ARRAY(f->s->arena, Decl *, f->journal.len - mark + 1);
    for (size_t i = mark; i < f->journal.len; i++)
        if (f->journal.data[i].tile->order < before) found[count++] = f->journal.data[i].tile;
    qsort(found, count, sizeof *found, by_order);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || found[kept - 1] != found[i]) found[kept++] = found[i];
    *tiles = found;
    *old = ARENA_ARRAY(f->s->arena, TileState, kept + 1);
    for (size_t i = f->journal.len; i-- > mark;) {
        Decl *tile = f->journal.data[i].tile,
             **at = kept ? bsearch(&tile, found, kept, sizeof *found, by_order) : NULL;
        if (at) (*old)[at - found] = f->journal.data[i].old;
    }
    return kept;
}

static void visit_body(Flow *f, Body *body);

static const char *identity_of(const Expr *e) {
    switch (e->builtin) {
    case BUILTIN_ADD:
    case BUILTIN_SUB:
        return "0";
    case BUILTIN_MUL:
    case BUILTIN_DIV:
        return "1";
    case BUILTIN_MAX:
        return "-inf";
    case BUILTIN_MIN:
        return "inf";
    default:
        return NULL;
    }
}

/* The load behind an operand of the statement that writes the carried tile. */
static const Stmt *load_behind(const Flow *f, const Stmt *writer) {
    for (size_t i = 0; writer && writer->value && i < writer->value->bound_count; i++) {
        const Expr *x = writer->value->bound[i];
        const Decl *d = x && x->kind == EXPR_NAME ? x->decl : NULL;
        if (!d || d->kind != DECL_TILE) continue;
        const Stmt *from = f->states[d->order].writer;
        if (from && from->action == ACTION_LOAD && !from->pad && from->kind == STMT_EXPR)
            return from;
    }
    return NULL;
}

static void report_carried(Flow *f, const Decl *tile, const Stmt *loop, const Stmt *writer) {
    if (f->reported[tile->order]) return;
    f->reported[tile->order] = true;
    Diag *d = diag_report(f->s->diags, DIAG_carried_presence, writer ? writer->span : tile->span,
                          tile->name, loop->u.loop.var);
    const Stmt *load = load_behind(f, writer);
    const char *identity = writer && writer->value ? identity_of(writer->value) : NULL;
    diag_note(f->s->diags, d, loop->u.loop.var_span, "which lanes are present changes with `%s`",
              loop->u.loop.var);
    if (!load || !identity) return;
    Span at = load->u.expr.value->span;
    diag_fix(f->s->diags, d, (Span){at.file, at.end - 1, at.end - 1},
             arena_printf(f->s->arena, ", pad=%s", identity),
             "fill the absent lanes with the identity");
}

static bool depends_on_loop(const Interval *p, unsigned rank, const Changes *changes) {
    for (unsigned i = 0; p && i < rank; i++)
        if (!is_full(&p[i]) && (sema_varies(p[i].lo, changes) || sema_varies(p[i].hi, changes)))
            return true;
    return false;
}

static void finish_loop(Flow *f, Stmt *stmt, Decl **tiles, const TileState *entry, size_t count) {
    LoopInfo *loop = stmt->loop;
    int64_t trips = 0;
    bool runs = loop->trips && aff_lower_bound(loop->facts, loop->trips, &trips) && trips > 0;
    loop->carried = tiles;
    loop->carried_count = count;
    for (size_t i = 0; i < count; i++) {
        TileState after = f->states[tiles[i]->order];
        unsigned rank = tiles[i]->type.rank;
        after.written = entry[i].written || (runs && after.written);
        after.presence = entry[i].written ? meet_all(f, entry[i].presence, after.presence, rank)
                                          : after.presence;
        if (depends_on_loop(after.presence, rank, &(Changes){loop->var, tiles, count})) {
            report_carried(f, tiles[i], stmt, after.writer);
            after.presence = NULL;
        }
        set_state(f, tiles[i], after);
    }
}

/* True when the back edge brings less than the entry, so that the body must be seen again. */
static bool shrinks(Flow *f, Decl **tiles, TileState *entry, size_t count, const Decl *var) {
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        unsigned rank = tiles[i]->type.rank;
        const Interval *back = f->states[tiles[i]->order].presence;
        if (!entry[i].written || depends_on_loop(back, rank, &(Changes){var, tiles, count}))
            continue;
        const Interval *both = meet_all(f, entry[i].presence, back, rank);
        any |= !same_presence(both, entry[i].presence, rank);
        entry[i].presence = both;
    }
    return any;
}

static void visit_loop(Flow *f, Stmt *stmt) {
    AffFacts *outer = f->facts;
    if (stmt->loop->facts) f->facts = stmt->loop->facts;
    size_t mark = f->journal.len, count = 0;
    Decl **tiles = NULL;
    TileState *entry = NULL;
    for (int run = 0; run < LOOP_RUNS; run++) {
        visit_body(f, &stmt->u.loop.body);
        size_t before = count;
        TileState *known = entry;
        count = changed_since(f, mark, stmt->loop->var->order, &tiles, &entry);
        if (before == count && known) entry = known; /* the same tiles: their narrowed entry */
        if (run + 1 == LOOP_RUNS || !shrinks(f, tiles, entry, count, stmt->loop->var)) break;
        for (size_t i = 0; i < count; i++) f->states[tiles[i]->order] = entry[i];
    }
    f->facts = outer;
    finish_loop(f, stmt, tiles, entry, count);
}

/* Whether a leaf was made inside the statement. */
static bool made_inside(const Aff *e, const Stmt *stmt) {
    if (e->kind == AFF_VAR) {
        const Decl *d = e->var;
        return d->kind == DECL_LOCAL && d->span.begin >= stmt->span.begin;
    }
    for (size_t i = 0; i < e->count; i++)
        if (made_inside(e->args[i], stmt)) return true;
    return false;
}

/* Behind a branch its own numbers are unknown, so no interval may name one. */
static void settle_branch(Flow *f, const Stmt *stmt, Decl *tile, TileState *state) {
    for (unsigned i = 0; state->presence && i < tile->type.rank; i++) {
        const Interval *p = &state->presence[i];
        if (is_full(p) || (!made_inside(p->lo, stmt) && !made_inside(p->hi, stmt))) continue;
        if (!f->reported[tile->order])
            diag_note(f->s->diags,
                      diag_report(f->s->diags, DIAG_branch_presence,
                                  state->writer ? state->writer->span : tile->span, tile->name),
                      SPAN_NONE, "load the bound before the `if`, or give the load a pad=");
        f->reported[tile->order] = true;
        state->presence = NULL;
    }
}

static void visit_branch(Flow *f, Stmt *stmt) {
    uint32_t now = UINT32_MAX;
    size_t mark = f->journal.len;
    Decl **a, **b, **all;
    TileState *old_a, *old_b, *then_states;
    visit_body(f, &stmt->u.branch.then_body);
    size_t count_a = changed_since(f, mark, now, &a, &old_a);
    then_states = ARENA_ARRAY(f->s->arena, TileState, count_a + 1);
    for (size_t i = 0; i < count_a; i++) then_states[i] = f->states[a[i]->order];
    for (size_t i = 0; i < count_a; i++) f->states[a[i]->order] = old_a[i];
    size_t middle = f->journal.len;
    visit_body(f, &stmt->u.branch.else_body);
    changed_since(f, middle, now, &b, &old_b);
    size_t count = changed_since(f, mark, now, &all, &old_b), kept = 0;
    for (size_t i = 0, k = 0; i < count; i++) {
        TileState other = old_b[i], *mine = &f->states[all[i]->order];
        if (k < count_a && a[k] == all[i]) other = then_states[k++];
        TileState both = {other.written && mine->written,
                          meet_all(f, other.presence, mine->presence, all[i]->type.rank),
                          mine->writer ? mine->writer : other.writer};
        if (other.writer && other.writer->span.begin > stmt->span.begin) both.writer = other.writer;
        bool outside = all[i]->span.begin < stmt->span.begin;
        if (outside) settle_branch(f, stmt, all[i], &both);
        set_state(f, all[i], both);
        if (outside) all[kept++] = all[i];
    }
    stmt->assigned = all;
    stmt->assigned_count = kept;
}

static void visit_body(Flow *f, Body *body) {
    for (size_t i = 0; i < body->count && f->budget; i++) {
        Stmt *stmt = body->data[i];
        if (--f->budget == 0) diag_report(f->s->diags, DIAG_flow_limit, stmt->span);
        if (stmt->kind == STMT_FOR && stmt->loop) {
            visit_number(f, stmt->u.loop.range);
            visit_loop(f, stmt);
        } else if (stmt->kind == STMT_IF) {
            visit_number(f, stmt->u.branch.condition);
            visit_branch(f, stmt);
        } else
            visit_action(f, stmt);
    }
}

static size_t count_statements(const Body *body) {
    size_t count = body->count;
    for (size_t i = 0; i < body->count; i++) {
        const Stmt *stmt = body->data[i];
        if (stmt->kind == STMT_FOR) count += count_statements(&stmt->u.loop.body);
        if (stmt->kind == STMT_IF)
            count += count_statements(&stmt->u.branch.then_body) +
                     count_statements(&stmt->u.branch.else_body);
    }
    return count;
}

void sema_presence(Sema *s, Block *sketch) {
    Flow f = {.s = s, .facts = s->facts};
    f.states = ARENA_ARRAY(s->arena, TileState, s->next_order + 1);
    f.reported = ARENA_ARRAY(s->arena, bool, s->next_order + 1);
    f.budget = VISITS_SPARE + VISITS_EACH * count_statements(&sketch->body);
    visit_body(&f, &sketch->body);
}
