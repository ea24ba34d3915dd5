/* Which lanes an expression over tiles has, and that what it reads was written. */
#include "sema_flow.h"

#include <string.h>

/* ---- Intervals ---- */

Interval flow_trim(Flow *f, const Aff *lo, const Aff *hi, const Aff *extent) {
    int64_t zero;
    bool from_start = aff_is_const(lo, &zero) && zero == 0;
    if (from_start && aff_prove_le(f->facts, extent, hi)) return (Interval){NULL, NULL};
    return (Interval){lo, aff_simplify(f->facts, aff_min(f->s->aff, hi, extent))};
}

Interval flow_meet(Flow *f, Interval a, Interval b) {
    if (flow_is_full(&a)) return b;
    if (flow_is_full(&b) || (a.lo == b.lo && a.hi == b.hi)) return a;
    return (Interval){aff_simplify(f->facts, aff_max(f->s->aff, a.lo, b.lo)), aff_simplify(f->facts, aff_min(f->s->aff, a.hi, b.hi))};
}

/* Null when every axis is full. */
const Interval *flow_keep(Flow *f, const Interval *axes, unsigned rank) {
    bool full = true;
    for (unsigned i = 0; i < rank; i++) full &= flow_is_full(&axes[i]);
    if (full) return NULL;
    Interval *kept = ARENA_ARRAY(f->s->arena, Interval, AST_MAX_RANK);
    for (unsigned i = 0; i < rank; i++) kept[i] = axes[i];
    return kept;
}

const Interval *flow_meet_all(Flow *f, const Interval *a, const Interval *b, unsigned rank) {
    if (!a || !b) return a ? a : b;
    Interval axes[AST_MAX_RANK];
    for (unsigned i = 0; i < rank; i++) axes[i] = flow_meet(f, a[i], b[i]);
    return flow_keep(f, axes, rank);
}

bool flow_same_presence(const Interval *a, const Interval *b, unsigned rank) {
    if (!a || !b) return a == b;
    for (unsigned i = 0; i < rank; i++)
        if (a[i].lo != b[i].lo || a[i].hi != b[i].hi) return false;
    return true;
}

/* ---- Expressions ---- */

void flow_require_written(Flow *f, Decl *tile, Span span) {
    if (tile->kind != DECL_TILE || tile->is_workspace) return;
    flow_read(f, tile);
    if (f->states[tile->order].written || f->reported[tile->order]) return;
    f->reported[tile->order] = true;
    Diag *d = diag_report(f->s->diags, DIAG_unwritten_tile, span, tile->name);
    diag_note(f->s->diags, d, tile->span, "`%s` is made here without a value", tile->name);
    if (f->states[tile->order].writer)
        diag_note(f->s->diags, d, f->states[tile->order].writer->span,
                  "this write may not happen: a loop may run zero times, a branch may not be taken");
}

static const Interval *visit_elementwise(Flow *f, const Expr *e) {
    Interval axes[AST_MAX_RANK] = {{0}};
    unsigned rank = e->type.rank;
    for (size_t i = 0; i < e->bound_count; i++) {
        Expr *x = e->bound[i];
        if (!x || x->type.kind != TYPE_TILE) continue;
        const Interval *p = flow_visit(f, x);
        unsigned offset = rank >= x->type.rank ? rank - x->type.rank : 0;
        for (unsigned k = 0; p && k < x->type.rank && k + offset < rank; k++) {
            bool repeats = x->type.shape[k] != e->type.shape[k + offset] && aff_is_const(x->type.shape[k], &(int64_t){0});
            if (!repeats) axes[k + offset] = flow_meet(f, axes[k + offset], p[k]);
        }
    }
    return flow_keep(f, axes, rank);
}

static const Interval *visit_reduce(Flow *f, const Expr *e) {
    Interval axes[AST_MAX_RANK] = {{0}};
    const Interval *p = flow_visit(f, e->bound[0]);
    unsigned rank = 0;
    for (int i = 0; p && i < e->bound[0]->type.rank; i++) {
        bool folded = e->reduce_axes >> i & 1;
        if (!folded)
            axes[rank++] = p[i];
        else if (e->keepdim)
            axes[rank++] = (Interval){NULL, NULL};
    }
    return p ? flow_keep(f, axes, rank) : NULL;
}

static bool flag_of(Flow *f, const Expr *e, const char *name) {
    BuiltinParam params[BUILTIN_MAX_PARAMS];
    size_t count = builtin_params(e->builtin, f->s->arena, params);
    for (size_t i = 0; i < count && i < e->bound_count; i++)
        if (e->bound[i] && strcmp(params[i].name, name) == 0) return const_is_true(&e->bound[i]->value);
    return false;
}

/* Leading axes of a factor line up with the `lead` of the product from the last one. */
static void meet_leading(Flow *f, Interval *axes, unsigned lead, const Type *factor, const Interval *p) {
    for (unsigned i = 0; p && i + 2 < factor->rank; i++) {
        Interval *axis = &axes[lead + i + 2 - factor->rank];
        int64_t extent;
        if (!aff_is_const(factor->shape[i], &extent) || extent != 1) *axis = flow_meet(f, *axis, p[i]);
    }
}

/* M from a, N from b, leading axes the intersection; on K the rest counts as zero. */
static const Interval *visit_product(Flow *f, const Expr *e) {
    Interval axes[AST_MAX_RANK] = {{0}};
    Expr *a = e->bound[0], *b = e->bound[1];
    const Interval *pa = flow_visit(f, a), *pb = flow_visit(f, b);
    unsigned ra = a->type.rank, rb = b->type.rank, rank = e->type.rank;
    unsigned lead = rank - (ra > 1) - (rb > 1);
    if (!pa && !pb) return NULL;
    meet_leading(f, axes, lead, &a->type, pa);
    meet_leading(f, axes, lead, &b->type, pb);
    if (pa && ra > 1) axes[lead] = pa[ra - (flag_of(f, e, "trans_a") ? 1u : 2u)];
    if (pb && rb > 1) axes[rank - 1] = pb[rb - (flag_of(f, e, "trans_b") ? 2u : 1u)];
    return flow_keep(f, axes, rank);
}

/* Operands and locals in order, then the result over them. */
static const Interval *visit_expansion(Flow *f, const Expansion *x) {
    for (size_t i = 0; i < x->count; i++) x->names[i]->type.presence = flow_visit(f, x->names[i]->value);
    return flow_visit(f, x->result);
}

/* ---- Along axes ---- */

static const Aff *start_of(Flow *f, const Interval *v) {
    return flow_is_full(v) ? aff_const(f->s->aff, 0) : v->lo;
}

static const Aff *end_of(const Interval *v, const Aff *extent) {
    return flow_is_full(v) ? extent : v->hi;
}

static bool is_whole_end(Flow *f, const Interval *v, const Aff *extent) {
    return flow_is_full(v) || aff_prove_le(f->facts, extent, v->hi);
}

static bool begins_at_zero(Flow *f, const Interval *v) {
    int64_t zero;
    return flow_is_full(v) || (aff_is_const(v->lo, &zero) && zero <= 0) || aff_prove_le(f->facts, v->lo, aff_const(f->s->aff, 0));
}

static void report_no_interval(Flow *f, const Expr *e) {
    Diag *d = diag_report(f->s->diags, DIAG_no_interval, e->span, builtin_info(e->builtin)->name);
    diag_note(f->s->diags, d, SPAN_NONE, "load the operand with pad= so that all of its lanes are present");
}

static Interval flipped(Flow *f, const Interval *v, const Aff *extent) {
    if (flow_is_full(v)) return *v;
    AffCtx *c = f->s->aff;
    return flow_trim(f, aff_max(c, aff_const(c, 0), aff_sub(c, extent, v->hi)), aff_sub(c, extent, v->lo), extent);
}

/* Sorted to the front, of k lanes. */
static Interval packed(Flow *f, const Interval *v, const Aff *extent, const Aff *k) {
    AffCtx *c = f->s->aff;
    const Aff *zero = aff_const(c, 0);
    const Aff *count = flow_is_full(v) ? extent : aff_max(c, zero, aff_sub(c, v->hi, v->lo));
    return flow_trim(f, zero, aff_simplify(f->facts, count), k);
}

static const Interval *visit_along(Flow *f, const Expr *e) {
    Interval axes[AST_MAX_RANK] = {{0}};
    const Expr *x = e->bound[0];
    const Interval *p = flow_visit(f, e->bound[0]);
    int at = e->reduce_axis;
    bool scan = builtin_info(e->builtin)->class == CLASS_SCAN;
    if (e->builtin == BUILTIN_LINEAR_SCAN) return visit_elementwise(f, e);
    if (scan || (!p && e->builtin != BUILTIN_TOPK)) return p;
    for (int i = 0; p && i < e->type.rank; i++) axes[i] = p[i];
    axes[at] =
        e->builtin == BUILTIN_FLIP ? flipped(f, &axes[at], x->type.shape[at]) : packed(f, &axes[at], x->type.shape[at], e->type.shape[at]);
    return flow_keep(f, axes, e->type.rank);
}

static const Interval *visit_transpose(Flow *f, const Expr *e) {
    Interval axes[AST_MAX_RANK] = {{0}};
    const Interval *p = flow_visit(f, e->bound[0]);
    int rank = e->type.rank;
    for (int i = 0; p && i < rank; i++) axes[i] = p[e->order[i]];
    return p ? flow_keep(f, axes, (unsigned)rank) : NULL;
}

/* Leading axes that stay keep their interval; one interval may lie on the first axis that changes
 * when the lanes behind it are the same number, or a constant multiple, on both sides. */
static const Interval *visit_reshape(Flow *f, const Expr *e) {
    Interval axes[AST_MAX_RANK] = {{0}};
    const Type *x = &e->bound[0]->type, *to = &e->type;
    const Interval *p = flow_visit(f, e->bound[0]);
    AffCtx *c = f->s->aff;
    int same = 0;
    if (!p) return NULL;
    for (; same < x->rank && same < to->rank && x->shape[same] == to->shape[same]; same++) axes[same] = p[same];
    const Aff *inner_x = aff_const(c, 1), *inner_to = inner_x;
    for (int i = same + 1; i < x->rank; i++) inner_x = aff_mul(c, inner_x, x->shape[i]);
    for (int i = same + 1; i < to->rank; i++) inner_to = aff_mul(c, inner_to, to->shape[i]);
    for (int i = same; i < x->rank; i++) {
        int64_t ratio;
        if (flow_is_full(&p[i])) continue;
        const Aff *times = aff_floordiv(c, inner_x, inner_to);
        bool scales = i == same && same < to->rank && aff_is_const(times, &ratio) && ratio > 0 && aff_mul(c, times, inner_to) == inner_x;
        if (!scales) {
            report_no_interval(f, e);
            return NULL;
        }
        axes[same] = flow_trim(f, aff_mul(c, p[i].lo, times), aff_mul(c, p[i].hi, times), to->shape[same]);
    }
    return flow_keep(f, axes, to->rank);
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
        const Interval *p = flow_visit(f, e->many[k]);
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
    axes[at] = flow_trim(f, lo, hi, e->type.shape[at]);
    return flow_keep(f, axes, (unsigned)rank);
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
    if (row->rule == RULE_RANDOM) { /* a shape is present everywhere */
        for (size_t i = 1; i < e->bound_count; i++) flow_visit_number(f, e->bound[i]);
        return flow_visit(f, e->bound[0]);
    }
    switch (row->class) {
    case CLASS_ELEMENTWISE:
        return visit_elementwise(f, e);
    case CLASS_REDUCE:
        return visit_reduce(f, e);
    case CLASS_CONTRACT:
        return visit_product(f, e);
    case CLASS_COMPOSITE:
        return flow_visit(f, e->bound[0]);
    case CLASS_SCAN:
    case CLASS_SORT:
        return visit_along(f, e);
    case CLASS_MOVE:
        return visit_move(f, e);
    default:
        break;
    }
    for (size_t i = 0; i < e->bound_count; i++)
        if (e->bound[i] && e->bound[i]->type.kind == TYPE_TILE) flow_visit(f, e->bound[i]);
    return NULL;
}

const Interval *flow_visit(Flow *f, Expr *e) {
    if (e->type.kind != TYPE_TILE) return NULL;
    const Interval *p = NULL;
    if (e->kind == EXPR_NAME && e->decl && e->decl->kind == DECL_PARAM)
        p = e->decl->type.presence;
    else if (e->kind == EXPR_NAME && e->decl) {
        flow_require_written(f, e->decl, e->span);
        p = f->states[e->decl->order].presence;
        e->type.dtype = e->decl->type.dtype;
    } else if (e->builtin)
        p = visit_operation(f, e);
    e->type.presence = p;
    return p;
}

void flow_visit_number(Flow *f, Expr *e) {
    if (!e) return;
    if (e->type.kind == TYPE_TILE) {
        flow_visit(f, e);
        return;
    }
    for (size_t i = 0; i < e->bound_count; i++) flow_visit_number(f, e->bound[i]);
}
