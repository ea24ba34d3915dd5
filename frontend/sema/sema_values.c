/* Which values of tiles are read. A loop or branch hands on the tiles whose value it has made is read behind
 * it, a loop also those of which an iteration reads what they held before. The others are private to it: each
 * run overwrites them before it reads them, wherever they were made.
 *
 * Values are made as the flow goes, in SSA form: at the begin of a loop for those of outside that its body
 * uses, at the end of loops and branches for what they write. A read marks its value and all that it is made
 * of (pruned SSA form: Cytron and others, 1991). */
#include "sema_flow.h"

#include <stdlib.h>

TileValue *flow_new_value(Flow *f) {
    TileValue *v = ARENA_NEW(f->s->arena, TileValue);
    v->born = ++f->clock;
    return v;
}

/* ---- Reads ---- */

static void push(TileValue **list, TileValue *v) {
    if (!v || v->read) return;
    v->read = true;
    v->next = *list;
    *list = v;
}

static void mark_read(Flow *f, TileValue *v) {
    TileValue *list = NULL;
    push(&list, v);
    while (list) {
        v = list;
        list = v->next;
        if (v->fault) flow_report_fault(f, v->fault);
        for (int i = 0; i < 2; i++) push(&list, v->from[i]);
    }
}

/* The value as an iteration of the loop at hand sees it: one from before the iteration is the loop's argument,
 * and so is it of all loops that it comes from outside of. */
static TileValue *local_in(Flow *f, LoopFrame *frame, Decl *tile, TileValue *v) {
    if (!frame || (v && v->born > frame->begin)) return v;
    if (f->argument[tile->order].frame == frame) return f->argument[tile->order].value;
    TileValue *outside = local_in(f, frame->outer, tile, v);
    v = flow_new_value(f);
    v->from[0] = outside;
    f->argument[tile->order] = (LoopArgument){frame, tile, v};
    VEC_PUSH(f->s->arena, &frame->arguments, f->argument[tile->order]);
    return v;
}

TileValue *flow_join(Flow *f, Decl *tile, TileValue *a, TileValue *b) {
    a = local_in(f, f->frame, tile, a);
    if (b) b = local_in(f, f->frame, tile, b);
    TileValue *v = flow_new_value(f);
    v->from[0] = a;
    v->from[1] = b;
    return v;
}

void flow_read(Flow *f, Decl *tile) {
    TileState *state = &f->states[tile->order];
    state->value = local_in(f, f->frame, tile, state->value);
    mark_read(f, state->value);
}

/* ---- Loops ---- */

LoopFrame *flow_enter_loop(Flow *f) {
    LoopFrame *frame = ARENA_NEW(f->s->arena, LoopFrame);
    frame->outer = f->frame;
    frame->begin = ++f->clock;
    return f->frame = frame;
}

static int by_order(const void *a, const void *b) {
    const Decl *x = ((const JoinedTile *)a)->tile, *y = ((const JoinedTile *)b)->tile;
    return x->order < y->order ? -1 : x->order > y->order;
}

static JoinedTile *find_joined(JoinedTile *tiles, size_t count, Decl *tile) {
    JoinedTile key = {.tile = tile};
    return count ? bsearch(&key, tiles, count, sizeof *tiles, by_order) : NULL;
}

JoinedTile *flow_leave_loop(Flow *f, Stmt *loop, Decl **tiles, const TileState *entry, size_t count) {
    LoopFrame *frame = f->frame;
    JoinedTile *joined = ARENA_ARRAY(f->s->arena, JoinedTile, count + 1);
    for (size_t i = 0; i < count; i++) joined[i] = (JoinedTile){.tile = tiles[i], .before = entry[i].writer};
    for (size_t i = 0; i < frame->arguments.len; i++) {
        LoopArgument *a = &frame->arguments.data[i];
        JoinedTile *found = find_joined(joined, count, a->tile);
        if (!found) continue;
        a->value->from[1] = f->states[a->tile->order].value;
        if (a->value->read) mark_read(f, a->value->from[1]);
        found->goes_on |= a->value->read;
    }
    f->frame = frame->outer;
    flow_add_join(f, (Join){loop, joined, count, frame});
    return joined;
}

void flow_add_join(Flow *f, Join join) {
    VEC_PUSH(f->s->arena, &f->joins, join);
}

/* ---- What is handed on ---- */

static const Stmt *deciding_writer(const JoinedTile *t) {
    return t->goes_on ? t->before : t->writer;
}

static size_t place_among_targets(const Stmt *writer, const Decl *tile) {
    size_t at = 0;
    while (writer && at < writer->target_count && writer->targets[at] != tile) at++;
    return at;
}

/* In the order in which what they hold was written: it is the same wherever the allocs stand. */
static int by_writer(const void *a, const void *b) {
    const JoinedTile *x = a, *y = b;
    const Stmt *wx = deciding_writer(x), *wy = deciding_writer(y);
    uint32_t at_x = wx ? wx->span.begin : x->tile->span.begin, at_y = wy ? wy->span.begin : y->tile->span.begin;
    if (at_x != at_y) return at_x < at_y ? -1 : 1;
    size_t place_x = place_among_targets(wx, x->tile), place_y = place_among_targets(wy, y->tile);
    return place_x != place_y ? (place_x < place_y ? -1 : 1) : by_order(a, b);
}

static void settle_loop(LoopInfo *loop, Arena *arena, const JoinedTile *kept, size_t count) {
    loop->carried = ARENA_ARRAY(arena, Decl *, count + 1);
    loop->goes_on = ARENA_ARRAY(arena, bool, count + 1);
    loop->carried_count = count;
    for (size_t i = 0; i < count; i++) {
        loop->carried[i] = kept[i].tile;
        loop->goes_on[i] = kept[i].goes_on;
    }
}

static void settle_branch(Stmt *branch, Arena *arena, const JoinedTile *kept, size_t count) {
    branch->assigned = ARENA_ARRAY(arena, Decl *, count + 1);
    branch->assigned_count = count;
    for (size_t i = 0; i < count; i++) branch->assigned[i] = kept[i].tile;
}

static void settle(Flow *f, Join *j) {
    Arena *arena = f->s->arena;
    for (size_t i = 0; j->frame && i < j->frame->arguments.len; i++) {
        const LoopArgument *a = &j->frame->arguments.data[i];
        JoinedTile *found = find_joined(j->tiles, j->count, a->tile);
        if (found) found->goes_on |= a->value->read;
    }
    j->stmt->written = ARENA_ARRAY(arena, Decl *, j->count + 1);
    j->stmt->written_count = j->count;
    JoinedTile *kept = ARENA_ARRAY(arena, JoinedTile, j->count + 1);
    size_t count = 0;
    for (size_t i = 0; i < j->count; i++) {
        j->stmt->written[i] = j->tiles[i].tile;
        if (j->tiles[i].goes_on || j->tiles[i].behind->read) kept[count++] = j->tiles[i];
    }
    qsort(kept, count, sizeof *kept, by_writer);
    if (j->frame)
        settle_loop(j->stmt->loop, arena, kept, count);
    else
        settle_branch(j->stmt, arena, kept, count);
}

void flow_settle(Flow *f) {
    for (size_t i = 0; i < f->joins.len; i++) settle(f, &f->joins.data[i]);
}
