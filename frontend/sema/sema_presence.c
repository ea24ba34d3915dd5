/* Flow over the statements of a sketch: which tiles are written when they are read, which lanes of
 * them are present, and which tiles a loop or a branch carries.
 *
 * One state a tile, with a journal of changes, so that a loop or branch costs what it writes. A
 * loop runs once with the state at its entry; where the back edge brings less presence, it runs
 * again with the intersection (at most twice: an interval that shrinks every time depends on the
 * loop and is an error). */
#include "sema_flow.h"

#include <stdlib.h>

enum { VISITS_SPARE = 20000, VISITS_EACH = 64, LOOP_RUNS = 3 };

void flow_set(Flow *f, Decl *tile, TileState state) {
    VEC_PUSH(f->s->arena, &f->journal, (Change){tile, f->states[tile->order]});
    f->states[tile->order] = state;
}

static void write_tile(Flow *f, Decl *tile, const Interval *presence, const Stmt *writer) {
    flow_set(f, tile, (TileState){true, presence, writer, flow_new_value(f)});
}

/* ---- Statements ---- */

static Interval loaded_axis(Flow *f, const AxisIndex *axis, const Aff *dim) {
    AffCtx *c = f->s->aff;
    const Aff *zero = aff_const(c, 0), *left = aff_sub(c, aff_min(c, dim, axis->end), axis->start);
    const Aff *hi = aff_ceildiv(c, left, axis->step);
    const Aff *lo =
        aff_prove_nonneg(f->facts, axis->start) ? zero : aff_max(c, zero, aff_ceildiv(c, aff_sub(c, zero, axis->start), axis->step));
    return flow_trim(f, lo, aff_simplify(f->facts, hi), axis->count);
}

/* What is left of a slice of a tile whose lanes `of` are present. */
static Interval extracted_axis(Flow *f, const AxisIndex *axis, const Interval *of, Interval slice) {
    AffCtx *c = f->s->aff;
    if (flow_is_full(of)) return slice;
    const Aff *lo = aff_ceildiv(c, aff_sub(c, of->lo, axis->start), axis->step);
    const Aff *hi = aff_ceildiv(c, aff_sub(c, of->hi, axis->start), axis->step);
    return flow_meet(f, slice, flow_trim(f, aff_max(c, aff_const(c, 0), lo), hi, axis->count));
}

/* An index into an axis of a tile on which lanes are absent must hit a present one. */
static void require_lane(Flow *f, const Stmt *stmt, const AxisIndex *axis, const Interval *of, const Aff *dim) {
    const Decl *from = stmt->value->decl;
    const Aff *last = aff_sub(f->s->aff, flow_is_full(of) ? dim : of->hi, aff_const(f->s->aff, 1));
    if (flow_is_full(of) || f->reported[from->order] ||
        (aff_prove_le(f->facts, of->lo, axis->start) && aff_prove_le(f->facts, axis->start, last)))
        return;
    f->reported[from->order] = true;
    diag_report(f->s->diags, DIAG_scalar_presence, axis->span, stmt->targets[0]->name, from->name, sema_aff_text(f->s, dim));
}

static bool is_part(const Expr *slice) {
    return slice->decl->kind == DECL_TILE && !slice->decl->is_workspace;
}

static bool is_whole(const Expr *slice) {
    int64_t start;
    for (size_t i = 0; i < slice->axis_count; i++) {
        const AxisIndex *axis = &slice->axes[i];
        if (axis->kind != AXIS_RANGE || !aff_is_const(axis->start, &start) || start != 0 || axis->count != slice->decl->type.shape[i])
            return false;
    }
    return true;
}

/* A store to a tile leaves the lanes that it does not write, so that they need a value. */
static void visit_part_store(Flow *f, Stmt *stmt) {
    Decl *d = stmt->into->decl;
    const Interval *part = flow_visit(f, stmt->value);
    bool all = !part && stmt->mode == STORE_SET && is_whole(stmt->into);
    if (!all) flow_require_written(f, d, stmt->into->span);
    write_tile(f, d, all ? NULL : f->states[d->order].presence, stmt);
}

static void visit_indices(Flow *f, Expr *slice) {
    for (size_t i = 0; slice->kind == EXPR_INDEX && i < slice->u.index.count; i++) {
        Expr *item = slice->u.index.items[i];
        flow_visit_number(f, item);
        if (item->kind != EXPR_SLICE) continue;
        flow_visit_number(f, item->u.slice.lo);
        flow_visit_number(f, item->u.slice.hi);
    }
}

/* A dropped axis whose index may lie outside leaves no lane: `lanes` * max(0, room) is 0 where there is
 * no room, and no bound elsewhere. */
static void limit_by_room(Flow *f, const Aff *room, const Aff *lanes, Interval *axis) {
    AffCtx *c = f->s->aff;
    if (aff_prove_nonneg(f->facts, aff_sub(c, room, aff_const(c, 1)))) return;
    if (flow_is_full(axis)) *axis = (Interval){aff_const(c, 0), lanes};
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
        axes[k + shift] = flow_meet(f, axes[k + shift], t->presence[k]);
    }
}

/* What a range or a dropped axis of the slice leaves present. */
static void loaded_one(Flow *f, const Stmt *stmt, const AxisIndex *axis, const Interval *of, const Aff *dim, Interval *to) {
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
    if (is_part(e)) flow_require_written(f, e->decl, e->span);
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
    return flow_keep(f, axes, rank);
}

static void report_uninitialised(Flow *f, const Stmt *stmt, Decl *tile) {
    if (f->reported[tile->order]) return;
    f->reported[tile->order] = true;
    Diag *d = diag_report(f->s->diags, DIAG_gemm_uninitialised, stmt->span, tile->name);
    const Stmt *site = tile->site;
    if (!site || site->action != ACTION_ALLOC) return;
    Span call = site->u.assign.values[0]->span;
    diag_note(f->s->diags, d, tile->span, "`%s` is made here without a value", tile->name);
    diag_fix(f->s->diags, d, (Span){call.file, call.end - 1, call.end - 1}, ", init=0", "start from zero");
}

static void visit_compute(Flow *f, Stmt *stmt) {
    Decl *d = stmt->targets[0];
    const Interval *p = flow_visit(f, stmt->value);
    if (stmt->value->builtin == BUILTIN_GEMM) {
        flow_read(f, d);
        if (!f->states[d->order].written && !d->is_workspace) report_uninitialised(f, stmt, d);
        p = flow_meet_all(f, p, f->states[d->order].presence, d->type.rank);
    }
    stmt->presence = p;
    for (size_t i = 0; i < stmt->target_count; i++) write_tile(f, stmt->targets[i], p, stmt);
}

static void visit_action(Flow *f, Stmt *stmt) {
    switch (stmt->action) {
    case ACTION_ALLOC:
        flow_set(f, stmt->targets[0], (TileState){stmt->targets[0]->has_init, NULL, NULL, flow_new_value(f)});
        break;
    case ACTION_LOAD:
        visit_indices(f, stmt->value);
        stmt->presence = loaded(f, stmt);
        write_tile(f, stmt->targets[0], stmt->presence, stmt);
        break;
    case ACTION_STORE:
        visit_indices(f, stmt->into);
        if (is_part(stmt->into))
            visit_part_store(f, stmt);
        else
            flow_visit(f, stmt->value);
        break;
    case ACTION_COMPUTE:
        visit_compute(f, stmt);
        break;
    case ACTION_SCALAR:
        for (size_t i = 0; i < stmt->target_count; i++) flow_visit_number(f, stmt->u.assign.values[i]);
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
        Decl *tile = f->journal.data[i].tile, **at = kept ? bsearch(&tile, found, kept, sizeof *found, by_order) : NULL;
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
        if (from && from->action == ACTION_LOAD && !from->pad && from->kind == STMT_EXPR) return from;
    }
    return NULL;
}

static void report_carried(Flow *f, const Decl *tile, const Stmt *loop, const Stmt *writer) {
    if (f->reported[tile->order]) return;
    f->reported[tile->order] = true;
    Diag *d = diag_report(f->s->diags, DIAG_carried_presence, writer ? writer->span : tile->span, tile->name, loop->u.loop.var);
    const Stmt *load = load_behind(f, writer);
    const char *identity = writer && writer->value ? identity_of(writer->value) : NULL;
    diag_note(f->s->diags, d, loop->u.loop.var_span, "which lanes are present changes with `%s`", loop->u.loop.var);
    if (!load || !identity) return;
    Span at = load->u.expr.value->span;
    diag_fix(f->s->diags, d, (Span){at.file, at.end - 1, at.end - 1}, arena_printf(f->s->arena, ", pad=%s", identity),
             "fill the absent lanes with the identity");
}

void flow_report_fault(Flow *f, const ValueFault *fault) {
    if (f->reported[fault->tile->order]) return;
    f->reported[fault->tile->order] = true;
    Span span = fault->writer ? fault->writer->span : fault->tile->span;
    bool loop = fault->stmt->kind == STMT_FOR;
    Diag *d = loop ? diag_report(f->s->diags, fault->id, span, fault->tile->name, fault->stmt->u.loop.var)
                   : diag_report(f->s->diags, fault->id, span, fault->tile->name);
    diag_note(f->s->diags, d, SPAN_NONE,
              loop ? "use the tile inside the loop, or make all of its lanes present: pad= in the load"
                   : "load the bound before the `if`, or give the load a pad=");
}

/* What the state holds is not to be read. */
static void forbid(Flow *f, DiagId id, const Decl *tile, const Stmt *stmt, TileState *state) {
    ValueFault *fault = ARENA_NEW(f->s->arena, ValueFault);
    *fault = (ValueFault){id, tile, stmt, state->writer};
    state->value->fault = fault;
    state->presence = NULL;
}

static bool depends_on_loop(const Interval *p, unsigned rank, const Changes *changes) {
    for (unsigned i = 0; p && i < rank; i++)
        if (!flow_is_full(&p[i]) && (sema_varies(p[i].lo, changes) || sema_varies(p[i].hi, changes))) return true;
    return false;
}

/* The tile behind the loop. Where an iteration reads what the tile held, lanes that it lacks would be lost;
 * else they only are unknown behind the loop. */
static void finish_tile(Flow *f, Stmt *stmt, JoinedTile *joined, const TileState *entry, bool runs, const Changes *changes) {
    Decl *tile = joined->tile;
    TileState after = f->states[tile->order];
    bool from_entry = !(runs && after.written);
    unsigned rank = tile->type.rank;
    after.written = entry->written || !from_entry;
    after.presence = entry->written ? flow_meet_all(f, entry->presence, after.presence, rank) : after.presence;
    after.value = joined->behind = flow_join(f, tile, after.value, from_entry ? entry->value : NULL);
    joined->writer = after.writer;
    if (depends_on_loop(after.presence, rank, changes)) {
        if (joined->goes_on && entry->written)
            report_carried(f, tile, stmt, after.writer);
        else if (after.written)
            forbid(f, DIAG_presence_behind_loop, tile, stmt, &after);
        after.presence = NULL;
    }
    flow_set(f, tile, after);
}

static void finish_loop(Flow *f, Stmt *stmt, Decl **tiles, const TileState *entry, size_t count) {
    LoopInfo *loop = stmt->loop;
    int64_t trips = 0;
    bool runs = loop->trips && aff_lower_bound(loop->facts, loop->trips, &trips) && trips > 0;
    Changes changes = {loop->var, tiles, count};
    JoinedTile *joined = flow_leave_loop(f, stmt, tiles, entry, count);
    for (size_t i = 0; i < count; i++) finish_tile(f, stmt, &joined[i], &entry[i], runs, &changes);
}

/* True when the back edge brings less than the entry, so that the body must be seen again. */
static bool shrinks(Flow *f, Decl **tiles, TileState *entry, size_t count, const Decl *var) {
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        unsigned rank = tiles[i]->type.rank;
        const Interval *back = f->states[tiles[i]->order].presence;
        if (!entry[i].written || depends_on_loop(back, rank, &(Changes){var, tiles, count})) continue;
        const Interval *both = flow_meet_all(f, entry[i].presence, back, rank);
        any |= !flow_same_presence(both, entry[i].presence, rank);
        entry[i].presence = both;
    }
    return any;
}

static void visit_loop(Flow *f, Stmt *stmt) {
    AffFacts *outer = f->facts;
    LoopFrame *around = f->frame;
    if (stmt->loop->facts) f->facts = stmt->loop->facts;
    size_t mark = f->journal.len, count = 0;
    Decl **tiles = NULL;
    TileState *entry = NULL;
    for (int run = 0; run < LOOP_RUNS; run++) {
        f->frame = around;
        flow_enter_loop(f);
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
static void settle_branch(Flow *f, const Stmt *stmt, const Decl *tile, TileState *state) {
    for (unsigned i = 0; state->presence && i < tile->type.rank; i++) {
        const Interval *p = &state->presence[i];
        if (flow_is_full(p) || (!made_inside(p->lo, stmt) && !made_inside(p->hi, stmt))) continue;
        forbid(f, DIAG_branch_presence, tile, stmt, state);
    }
}

/* What the tile is behind the branches that leave it in the states a (then) and b (else). */
static TileState behind_branches(Flow *f, const Stmt *stmt, Decl *tile, const TileState *a, const TileState *b) {
    TileState both = {a->written && b->written, flow_meet_all(f, a->presence, b->presence, tile->type.rank),
                      b->writer ? b->writer : a->writer, flow_join(f, tile, a->value, b->value)};
    if (a->writer && a->writer->span.begin > stmt->span.begin) both.writer = a->writer;
    return both;
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
    JoinedTile *joined = ARENA_ARRAY(f->s->arena, JoinedTile, count + 1);
    for (size_t i = 0, k = 0; i < count; i++) {
        TileState other = old_b[i], *mine = &f->states[all[i]->order];
        if (k < count_a && a[k] == all[i]) other = then_states[k++];
        TileState both = behind_branches(f, stmt, all[i], &other, mine);
        bool outside = all[i]->span.begin < stmt->span.begin;
        if (outside) settle_branch(f, stmt, all[i], &both);
        if (outside) joined[kept++] = (JoinedTile){.tile = all[i], .behind = both.value, .writer = both.writer};
        flow_set(f, all[i], both);
    }
    flow_add_join(f, (Join){.stmt = stmt, .tiles = joined, .count = kept});
}

static void visit_body(Flow *f, Body *body) {
    for (size_t i = 0; i < body->count && f->budget; i++) {
        Stmt *stmt = body->data[i];
        if (--f->budget == 0) diag_report(f->s->diags, DIAG_flow_limit, stmt->span);
        if (stmt->kind == STMT_FOR && stmt->loop) {
            flow_visit_number(f, stmt->u.loop.range);
            visit_loop(f, stmt);
        } else if (stmt->kind == STMT_IF) {
            flow_visit_number(f, stmt->u.branch.condition);
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
        if (stmt->kind == STMT_IF) count += count_statements(&stmt->u.branch.then_body) + count_statements(&stmt->u.branch.else_body);
    }
    return count;
}

void sema_presence(Sema *s, Block *sketch) {
    Flow f = {.s = s, .facts = s->facts};
    f.states = ARENA_ARRAY(s->arena, TileState, s->next_order + 1);
    f.reported = ARENA_ARRAY(s->arena, bool, s->next_order + 1);
    f.argument = ARENA_ARRAY(s->arena, LoopArgument, s->next_order + 1);
    f.budget = VISITS_SPARE + VISITS_EACH * count_statements(&sketch->body);
    visit_body(&f, &sketch->body);
    flow_settle(&f);
}
