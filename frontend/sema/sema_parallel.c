/* Whether the iterations of a loop are independent: no tile is carried, and what one iteration
 * stores no other touches.
 *
 * Two accesses of one memory are kept apart by an axis on which both start at c*v + rest, v being
 * the loop's variable: iterations differ by at least c times the loop's step, which must be at
 * least the width of either access plus the spread of `rest` over inner loops. */
#include "sema_internal.h"

typedef struct {
    const Stmt *stmt;
    const Expr *slice;
    bool is_store;
    const Stmt **loops; /* around it, outermost first */
    size_t loop_count;
} Access;

typedef struct {
    Sema *s;
    struct {
        Access *data;
        size_t len, cap;
    } accesses;
    PtrVec stack; /* Stmt*: loops around */
    PtrVec loops; /* Stmt*: all loops */
} Parallel;

enum { PAIRS_MAX = 20000 };

static void add_access(Parallel *p, const Stmt *stmt, const Expr *slice, bool is_store) {
    if (slice->kind != EXPR_INDEX || !slice->decl) return;
    if (slice->decl->kind == DECL_TILE && !slice->decl->is_workspace) return; /* a value, no memory */
    const Stmt **loops = ARENA_ARRAY(p->s->arena, const Stmt *, p->stack.len + 1);
    for (size_t i = 0; i < p->stack.len; i++) loops[i] = p->stack.data[i];
    VEC_PUSH(p->s->arena, &p->accesses, (Access){stmt, slice, is_store, loops, p->stack.len});
}

static void collect(Parallel *p, const Body *body) {
    for (size_t i = 0; i < body->count; i++) {
        Stmt *stmt = body->data[i];
        if (stmt->kind == STMT_FOR) {
            VEC_PUSH(p->s->arena, &p->loops, stmt);
            VEC_PUSH(p->s->arena, &p->stack, stmt);
            stmt->loop->proved_parallel = stmt->loop->carried_count == 0;
            collect(p, &stmt->u.loop.body);
            p->stack.len--;
        } else if (stmt->kind == STMT_IF) {
            collect(p, &stmt->u.branch.then_body);
            collect(p, &stmt->u.branch.else_body);
        } else if (stmt->action == ACTION_LOAD)
            add_access(p, stmt, stmt->value, false);
        else if (stmt->action == ACTION_STORE)
            add_access(p, stmt, stmt->into, true);
    }
}

/* A bound of the values of e over the loops inside number `from`, from above or below; null when not known. */
static const Aff *extreme(Sema *s, const Aff *e, const Access *a, size_t from, bool largest) {
    for (size_t i = a->loop_count; i-- > from;) {
        const LoopInfo *loop = a->loops[i]->loop;
        const Aff *coefficient, *rest;
        if (!aff_depends_on(e, loop->var)) continue;
        if (!loop->lo || !sema_linear_in(s, e, loop->var, &coefficient, &rest)) return NULL;
        bool rises = aff_prove_nonneg(loop->facts, coefficient);
        if (!rises && !aff_prove_nonneg(loop->facts, aff_sub(s->aff, aff_const(s->aff, 0), coefficient))) return NULL;
        const Aff *hi = from ? aff_bound_without(s->aff, loop->hi, a->loops[from - 1]->loop->var) : loop->hi;
        const Aff *last = aff_sub(s->aff, hi, aff_const(s->aff, 1));
        e = aff_add(s->aff, rest, aff_mul(s->aff, coefficient, rises == largest ? last : loop->lo));
    }
    return e;
}

static const Aff *width_of(Sema *s, const AxisIndex *axis) {
    const Aff *one = aff_const(s->aff, 1);
    if (axis->kind == AXIS_POINT) return one;
    return aff_add(s->aff, aff_mul(s->aff, aff_sub(s->aff, axis->count, one), axis->step), one);
}

/* x and y, the offsets of two accesses of widths wx and wy, stay apart when one moves by `stride`. */
static bool stay_apart(Sema *s, const LoopInfo *loop, const Aff *x_max, const Aff *wx, const Aff *y_min, const Aff *stride) {
    return aff_prove_le(loop->facts, aff_add(s->aff, x_max, wx), aff_add(s->aff, y_min, stride));
}

/* What is left of e without the loops inside `level`, whose variables all count whole periods. */
static const Aff *within_period(Sema *s, const Aff *e, const Access *a, size_t level, const Aff *period) {
    for (size_t i = level + 1; i < a->loop_count; i++) {
        const Aff *coefficient, *rest;
        int64_t none = 1;
        if (!sema_linear_in(s, e, a->loops[i]->loop->var, &coefficient, &rest)) return NULL;
        bool absent = aff_is_const(coefficient, &none) && none == 0;
        if (!absent && !aff_prove_eq(a->loops[level]->loop->facts, coefficient, period)) return NULL;
        e = rest;
    }
    return e;
}

/* Interleaved: loop variable v of range(n) takes places c*v in periods of c*n. */
static bool interleaves(Sema *s, const Access *a, const Access *b, size_t axis, size_t level, const Aff *c, const Aff *rests[2]) {
    const LoopInfo *loop = a->loops[level]->loop;
    int64_t lo, step;
    bool counts = aff_is_const(loop->lo, &lo) && lo == 0 && aff_is_const(loop->step, &step) && step == 1;
    if (!counts || !loop->hi) return false;
    const Aff *period = aff_mul(s->aff, c, loop->hi);
    const Aff *x = within_period(s, rests[0], a, level, period);
    const Aff *y = within_period(s, rests[1], b, level, period);
    Changes changes = {loop->var, a->loops[level]->written, a->loops[level]->written_count};
    if (!x || !y || sema_varies(x, &changes) || sema_varies(y, &changes)) return false;
    const Aff *wx = width_of(s, &a->slice->axes[axis]), *wy = width_of(s, &b->slice->axes[axis]);
    return stay_apart(s, loop, x, wx, y, c) && stay_apart(s, loop, y, wy, x, c);
}

static bool axis_separates(Sema *s, const Access *a, const Access *b, size_t axis, size_t level) {
    const AxisIndex *x = &a->slice->axes[axis], *y = &b->slice->axes[axis];
    const LoopInfo *loop = a->loops[level]->loop;
    const Aff *cx, *cy, *rx, *ry;
    if (x->kind == AXIS_GATHER || y->kind == AXIS_GATHER || !loop->step || !loop->lo) return false;
    if (!sema_linear_in(s, x->start, loop->var, &cx, &rx) || !sema_linear_in(s, y->start, loop->var, &cy, &ry) || cx != cy) return false;
    if (interleaves(s, a, b, axis, level, cx, (const Aff *[]){rx, ry})) return true;
    const Aff *x_max = extreme(s, rx, a, level + 1, true), *x_min = extreme(s, rx, a, level + 1, false);
    const Aff *y_max = extreme(s, ry, b, level + 1, true), *y_min = extreme(s, ry, b, level + 1, false);
    if (!x_max || !x_min || !y_max || !y_min) return false;
    const Aff *wx = width_of(s, x), *wy = width_of(s, y);
    const Aff *parts[] = {cx, x_max, x_min, y_max, y_min, wx, wy};
    Changes changes = {loop->var, a->loops[level]->written, a->loops[level]->written_count};
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        if (sema_varies(parts[i], &changes)) return false;
    const Aff *stride = aff_mul(s->aff, cx, loop->step);
    if (!aff_prove_nonneg(loop->facts, stride)) stride = aff_sub(s->aff, aff_const(s->aff, 0), stride);
    return stay_apart(s, loop, x_max, wx, y_min, stride) && stay_apart(s, loop, y_max, wy, x_min, stride);
}

/* Elements of a view are elements of its tensor; of one that is stored to, each is another one. */
static const Decl *memory_of(const Access *a) {
    return sema_memory(a->slice->decl);
}

static bool separates(Sema *s, const Access *a, const Access *b, size_t level) {
    if (a->slice->decl != b->slice->decl) return false;
    for (size_t i = 0; i < a->slice->axis_count && i < b->slice->axis_count; i++)
        if (axis_separates(s, a, b, i, level)) return true;
    return false;
}

/* Float sums in an order that --deterministic asks for. */
static bool needs_order(const Sema *s, const Access *a) {
    return s->options->deterministic && a->stmt->mode == STORE_ADD && dtype_is_float(a->slice->decl->type.dtype);
}

/* Updates in any order give the same (float sums up to rounding), and unique=true is the user's
 * claim. */
static bool is_exempt(const Sema *s, const Access *a, const Access *b) {
    if (!a->is_store || !b->is_store) return false;
    if (a->stmt->unique && b->stmt->unique) return true;
    return a->stmt->mode != STORE_SET && a->stmt->mode == b->stmt->mode && !needs_order(s, a);
}

static void report_conflict(Sema *s, const Access *a, const Access *b, Stmt *loop) {
    const char *var = loop->u.loop.var, *name = a->slice->decl->name;
    Diag *d;
    if (b->is_store) {
        d = diag_report(s->diags, DIAG_parallel_overlap, a->slice->span, var, name);
        if (a != b) diag_note(s->diags, d, b->slice->span, "the other store is here");
        if (needs_order(s, a))
            diag_note(s->diags, d, SPAN_NONE,
                      "--deterministic asks for sums in a fixed order: without the hint the loop "
                      "runs in order");
        else if (a->slice->decl != b->slice->decl)
            diag_note(s->diags, d, SPAN_NONE,
                      "`%s` and `%s` are names of one memory, and only elements of one name are proved apart: store both by one view with "
                      "an axis "
                      "more, as V[i, 0] and V[i, 1] of `view V[i: N, j: 2] = Y[2*i + j]`",
                      name, b->slice->decl->name);
        else
            diag_note(s->diags, d, SPAN_NONE,
                      "store to elements of each iteration's own, or with mode=add, max or min; unique=true claims what "
                      "cannot be proved");
    } else {
        d = diag_report(s->diags, DIAG_parallel_read, b->slice->span, var, name);
        diag_note(s->diags, d, a->slice->span, "the store is here");
        diag_note(s->diags, d, SPAN_NONE, "read in a loop nest of its own: nests at the top level run one after the other");
    }
    diag_note(s->diags, d, loop->hint_count ? loop->hints[0].span : loop->u.loop.var_span,
              "the loop over `%s` is claimed to be parallel here", var);
}

static void compare(Sema *s, const Access *a, const Access *b) {
    if (memory_of(a) != memory_of(b) || is_exempt(s, a, b)) return;
    for (size_t i = 0; i < a->loop_count && i < b->loop_count && a->loops[i] == b->loops[i]; i++) {
        Stmt *loop = (Stmt *)a->loops[i];
        if (separates(s, a, b, i)) continue;
        bool first = loop->loop->proved_parallel;
        loop->loop->proved_parallel = false;
        if (first && loop->loop->parallel) report_conflict(s, a, b, loop);
    }
}

static void report_carried(Sema *s, const Stmt *stmt) {
    const LoopInfo *loop = stmt->loop;
    if (!loop->parallel || !loop->carried_count) return;
    const Decl *tile = loop->carried[0];
    Diag *d = diag_report(s->diags, DIAG_parallel_carries, stmt->u.loop.var_span, stmt->u.loop.var, tile->name);
    diag_note(s->diags, d, tile->span, "`%s` is made here, outside the loop", tile->name);
    diag_note(
        s->diags, d, SPAN_NONE,
        loop->goes_on[0]
            ? "overwrite it in each iteration before it is read, or leave the hint out: iterations that go on from each other run in order"
            : "it is read behind the loop, which holds what the last iteration wrote: use it inside, or leave the hint out");
}

void sema_parallel(Sema *s, Block *sketch) {
    Parallel p = {.s = s};
    size_t pairs = 0;
    collect(&p, &sketch->body);
    for (size_t i = 0; i < p.accesses.len; i++) {
        const Access *a = &p.accesses.data[i];
        for (size_t k = 0; a->is_store && k < p.accesses.len; k++) {
            const Access *b = &p.accesses.data[k];
            if (b->is_store && k < i) continue;
            if (memory_of(a) == memory_of(b) && ++pairs > PAIRS_MAX) {
                diag_report(s->diags, DIAG_flow_limit, a->stmt->span);
                return;
            }
            compare(s, a, b);
        }
    }
    for (size_t i = 0; i < p.loops.len; i++) report_carried(s, p.loops.data[i]);
}
