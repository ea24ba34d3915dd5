/* What a block's threads touched in shared memory since they met, cell by cell, and what is in flight there. */
#include <stdlib.h>
#include <string.h>

#include "barrier_check.h"

void barrier_check_fail(BarrierCheck *r, const IrOp *op, const IrOp *other, const char *what) {
    if (r->failed) return;
    r->failed = true;
    r->fault = (BarrierFault){op, other, what};
}

/* ---- Sets of threads ---- */

static int64_t block_of(const BarrierCheck *r, Threads who) {
    if (who >= 0) return who / r->block_threads;
    if (who > GROUP_SET && who <= WARP_SET) return (int64_t)(WARP_SET - who) * WARP / r->block_threads;
    if (who > BLOCK_SET && who <= GROUP_SET) return (int64_t)(GROUP_SET - who) * WARPGROUP / r->block_threads;
    return who <= BLOCK_SET ? BLOCK_SET - who : -1;
}

static int64_t warp_of(Threads who) {
    if (who >= 0) return who / WARP;
    return who > GROUP_SET && who <= WARP_SET ? WARP_SET - who : -1;
}

/* Of a block that has no whole ones: none. */
static int64_t group_of(const BarrierCheck *r, Threads who) {
    if (r->block_threads % WARPGROUP) return -1;
    if (who > BLOCK_SET && who <= GROUP_SET) return GROUP_SET - who;
    return warp_of(who) >= 0 ? warp_of(who) * WARP / WARPGROUP : -1;
}

static Threads join_threads(const BarrierCheck *r, Threads a, Threads b) {
    if (a == b || b == NOBODY) return a;
    if (a == NOBODY) return b;
    if (warp_of(a) >= 0 && warp_of(a) == warp_of(b)) return WARP_SET - (Threads)warp_of(a);
    if (group_of(r, a) >= 0 && group_of(r, a) == group_of(r, b)) return GROUP_SET - (Threads)group_of(r, a);
    int64_t block = block_of(r, a);
    return block >= 0 && block == block_of(r, b) ? BLOCK_SET - (Threads)block : ANYBODY;
}

/* Whether the earlier accesses come before one of `who` now. */
static bool is_ordered(const BarrierCheck *r, const Touch *t, Threads who) {
    if (t->who == NOBODY || (t->who == who && who >= 0)) return true;
    bool copier = who >= 0 && who % r->block_threads == r->copier;
    if ((t->past & PAST_COPIERS) && copier) return true;
    if ((t->past & PAST_COPIER) && copier && block_of(r, t->who) == block_of(r, who)) return true;
    if ((t->past & PAST_BLOCK) && block_of(r, t->who) >= 0 && block_of(r, t->who) == block_of(r, who)) return true;
    if ((t->past & PAST_GROUP) && group_of(r, t->who) >= 0 && group_of(r, t->who) == group_of(r, who)) return true;
    return (t->past & PAST_WARP) && warp_of(t->who) >= 0 && warp_of(t->who) == warp_of(who);
}

static void add_touch(const BarrierCheck *r, Touch *t, const Touch *other) {
    if (other->who == NOBODY) return;
    bool none = t->who == NOBODY;
    t->past = none ? other->past : t->past & other->past;
    t->who = join_threads(r, t->who, other->who);
    if (none || !t->op) t->op = other->op;
}

/* ---- States ---- */

static Cell *new_page(BarrierCheck *r) {
    Cell *page = r->free_pages.len ? r->free_pages.data[--r->free_pages.len] : ARENA_ARRAY(r->arena, Cell, CELLS);
    for (size_t i = 0; i < CELLS; i++) page[i] = (Cell){{.who = NOBODY}, {.who = NOBODY}};
    return page;
}

static void drop_page(BarrierCheck *r, Cell **page) {
    if (*page) VEC_PUSH(r->arena, &r->free_pages, *page);
    *page = NULL;
}

State *state_new(BarrierCheck *r) {
    State *s = r->free_states.len ? r->free_states.data[--r->free_states.len] : NULL;
    if (!s) {
        s = ARENA_NEW(r->arena, State);
        s->pages = ARENA_ARRAY(r->arena, Cell *, r->page_count + 1);
    }
    s->flights.len = s->mbarriers.len = s->sums.len = 0;
    s->fenced = s->cluster = s->sent = s->dead = false;
    return s;
}

void state_free(BarrierCheck *r, State *s) {
    for (size_t i = 0; i < r->page_count; i++) drop_page(r, &s->pages[i]);
    VEC_PUSH(r->arena, &r->free_states, s);
}

State *state_copy(BarrierCheck *r, const State *from) {
    State *s = state_new(r);
    for (size_t i = 0; i < r->page_count; i++)
        if (from->pages[i]) memcpy(s->pages[i] = new_page(r), from->pages[i], CELLS * sizeof(Cell));
    for (size_t i = 0; i < from->flights.len; i++) VEC_PUSH(r->arena, &s->flights, from->flights.data[i]);
    for (size_t i = 0; i < from->mbarriers.len; i++) VEC_PUSH(r->arena, &s->mbarriers, from->mbarriers.data[i]);
    for (size_t i = 0; i < from->sums.len; i++) VEC_PUSH(r->arena, &s->sums, from->sums.data[i]);
    s->fenced = from->fenced, s->cluster = from->cluster, s->sent = from->sent, s->dead = from->dead;
    return s;
}

static bool join_touch(const BarrierCheck *r, Touch *a, const Touch *b) {
    Touch before = *a;
    add_touch(r, a, b);
    return a->who != before.who || a->past != before.past;
}

static bool join_pages(BarrierCheck *r, State *a, State *b) {
    bool changed = false;
    for (size_t i = 0; i < r->page_count; i++) {
        if (!b->pages[i]) continue;
        if (!a->pages[i]) a->pages[i] = new_page(r);
        for (size_t k = 0; k < CELLS; k++) {
            changed |= join_touch(r, &a->pages[i][k].write, &b->pages[i][k].write);
            changed |= join_touch(r, &a->pages[i][k].read, &b->pages[i][k].read);
        }
    }
    return changed;
}

static bool join_flight(BarrierCheck *r, State *a, const Flight *f) {
    for (size_t i = 0; i < a->flights.len; i++) {
        Flight *g = &a->flights.data[i];
        if (g->record != f->record || g->age != f->age) continue;
        bool aside = g->side != f->side && g->side;
        if (aside) g->side = 0;
        if (g->loop == f->loop && g->ahead == f->ahead && g->guard == f->guard) return aside;
        if (!g->loop && !g->guard) return aside;
        if (g->loop != f->loop || g->ahead != f->ahead) g->loop = NULL, g->ahead = 0;
        if (g->guard != f->guard) g->guard = NULL;
        return true;
    }
    VEC_PUSH(r->arena, &a->flights, *f);
    return true;
}

static Mbarrier *find_mbarrier(const State *s, int64_t place) {
    for (size_t i = 0; i < s->mbarriers.len; i++)
        if (s->mbarriers.data[i].place == place) return &s->mbarriers.data[i];
    return NULL;
}

/* What differs is not known; a barrier that is in one of them only is none. */
static bool join_mbarriers(State *a, const State *b) {
    bool changed = false;
    size_t kept = 0;
    for (size_t i = 0; i < a->mbarriers.len; i++) {
        Mbarrier *x = &a->mbarriers.data[i];
        const Mbarrier *y = find_mbarrier(b, x->place);
        if (!y) {
            changed = true;
            continue;
        }
        if (x->several != y->several || x->far != y->far || x->single != y->single || x->slot != y->slot) {
            changed = true;
            continue;
        }
        if (x->phase != y->phase && x->phase >= 0) x->phase = -1, changed = true;
        if (x->seen > y->seen) x->seen = y->seen, changed = true;
        uint32_t told = !y->armed ? x->told : !x->armed ? y->told : x->told & y->told;
        if (x->told != told) x->told = told, changed = true;
        if (x->armed != y->armed && x->armed != 2) {
            if (!x->armed)
                x->loop = y->loop, x->ahead = y->ahead, x->guard = y->guard, x->expected = y->expected, x->issued = y->issued,
                x->left = y->left;
            x->armed = 2, changed = true;
        }
        if (x->armed && y->armed && (x->loop != y->loop || x->ahead != y->ahead) && x->loop) {
            x->loop = NULL, changed = true;
        }
        if (x->armed && y->armed && x->guard != y->guard && x->guard) x->guard = NULL, changed = true;
        if (x->armed && y->armed && x->left && !y->left) x->left = false, changed = true;
        if (x->armed && y->armed && (x->expected != y->expected || x->issued != y->issued) && x->issued >= 0)
            x->issued = -1, changed = true;
        a->mbarriers.data[kept++] = *x;
    }
    a->mbarriers.len = kept;
    return changed;
}

static bool join_sums(BarrierCheck *r, State *a, const State *b) {
    bool changed = false;
    for (size_t i = 0; i < b->sums.len; i++) {
        size_t k = 0;
        while (k < a->sums.len && (a->sums.data[k].value != b->sums.data[i].value || a->sums.data[k].age != b->sums.data[i].age)) k++;
        if (k < a->sums.len) continue;
        VEC_PUSH(r->arena, &a->sums, b->sums.data[i]);
        changed = true;
    }
    return changed;
}

static void swap_states(State *a, State *b) {
    State kept = *a;
    *a = *b;
    *b = kept;
}

bool state_join(BarrierCheck *r, State *a, State *b) {
    bool changed = false;
    if (a->dead && !b->dead)
        swap_states(a, b), changed = true;
    else if (!b->dead) {
        changed |= join_pages(r, a, b);
        for (size_t i = 0; i < b->flights.len; i++) changed |= join_flight(r, a, &b->flights.data[i]);
        changed |= join_mbarriers(a, b);
        changed |= join_sums(r, a, b);
        changed |= (a->fenced && !b->fenced) || (a->cluster && !b->cluster);
        changed |= b->sent && !a->sent;
        a->fenced = a->fenced && b->fenced, a->cluster = a->cluster && b->cluster, a->sent = a->sent || b->sent;
    }
    state_free(r, b);
    return changed;
}

/* ---- Accesses ---- */

static const char missing_barrier[] = "no barrier stands between these accesses of shared memory by different threads";

void state_check(BarrierCheck *r, const State *s, const IrOp *op, int64_t cell, int64_t count, Threads who, bool writes) {
    r->work += count;
    for (int64_t i = cell; i < cell + count && !r->failed; i++) {
        const Cell *page = s->pages[i / CELLS];
        if (!page) {
            i = i / CELLS * CELLS + CELLS - 1;
            continue;
        }
        const Cell *c = &page[i % CELLS];
        if (!is_ordered(r, &c->write, who))
            barrier_check_fail(r, op, c->write.op, missing_barrier);
        else if (writes && !is_ordered(r, &c->read, who))
            barrier_check_fail(r, op, c->read.op, missing_barrier);
    }
}

bool state_orders(BarrierCheck *r, const State *s, int64_t cell, int64_t count, Threads who) {
    for (int64_t i = cell; i < cell + count; i++) {
        const Cell *page = s->pages[i / CELLS];
        if (page && !(is_ordered(r, &page[i % CELLS].write, who) && is_ordered(r, &page[i % CELLS].read, who))) return false;
    }
    return true;
}

void state_touch(BarrierCheck *r, State *s, const IrOp *op, int64_t cell, int64_t count, Threads who, bool writes, uint32_t past) {
    state_check(r, s, op, cell, count, who, writes);
    state_mark(r, s, op, cell, count, who, writes, past);
}

void state_mark(BarrierCheck *r, State *s, const IrOp *op, int64_t cell, int64_t count, Threads who, bool writes, uint32_t past) {
    Touch mine = {.who = who, .past = past, .op = op};
    for (int64_t i = cell; i < cell + count; i++) {
        Cell **page = &s->pages[i / CELLS];
        if (!*page) *page = new_page(r);
        Cell *c = &(*page)[i % CELLS];
        Touch *t = writes ? &c->write : &c->read;
        add_touch(r, t, &mine);
        t->op = op;
    }
}

void state_pass(BarrierCheck *r, State *s, uint32_t before, uint32_t past) {
    for (size_t i = 0; i < r->page_count; i++)
        for (size_t k = 0; s->pages[i] && k < CELLS; k++) {
            Touch *touches[2] = {&s->pages[i][k].write, &s->pages[i][k].read};
            for (unsigned n = 0; n < 2; n++) {
                bool stored = n == 0 && touches[n]->op && touches[n]->op->opcode != IR_TMA_LOAD;
                if (touches[n]->past & before) touches[n]->past |= stored ? past & ~(uint32_t)PAST_COPIERS : past;
            }
        }
}

void state_forget(BarrierCheck *r, State *s, uint32_t past) {
    for (size_t i = 0; i < r->page_count; i++)
        for (size_t k = 0; s->pages[i] && k < CELLS; k++) {
            s->pages[i][k].write.past &= ~past;
            s->pages[i][k].read.past &= ~past;
        }
}

/* ---- Operations in flight ---- */

static bool meets(BarrierCheck *r, const Record *a, const Record *b) {
    if (a->to <= b->from || b->to <= a->from) return false;
    bool found = false;
    for (size_t i = 0; i < a->count; i++) memset(r->bits + a->reaches[i].from, 1, (size_t)(a->reaches[i].to - a->reaches[i].from));
    for (size_t i = 0; i < b->count && !found; i++)
        found = memchr(r->bits + b->reaches[i].from, 1, (size_t)(b->reaches[i].to - b->reaches[i].from));
    for (size_t i = 0; i < a->count; i++) memset(r->bits + a->reaches[i].from, 0, (size_t)(a->reaches[i].to - a->reaches[i].from));
    r->work += (a->to - a->from) / 8 + (int64_t)b->count;
    return found;
}

static bool is_other_side(const BarrierCheck *r, uint64_t side) {
    for (size_t i = 0; side && i < r->other_sides.len; i++)
        if (r->other_sides.data[i] == side) return true;
    return false;
}

/* As meets, but for what the same thread does. */
static bool meets_another(BarrierCheck *r, const Record *a, const Record *b) {
    r->work += (int64_t)(a->count * b->count) / 8;
    for (size_t i = 0; i < a->count; i++)
        for (size_t k = 0; k < b->count; k++) {
            const Reach *x = &a->reaches[i], *y = &b->reaches[k];
            if (x->from < y->to && y->from < x->to && (x->who != y->who || x->who < 0)) return true;
        }
    return false;
}

void state_check_flights(BarrierCheck *r, const State *s, const IrOp *op, const Record *mine, bool writes) {
    for (size_t i = 0; i < s->flights.len && !r->failed; i++) {
        const Record *other = s->flights.data[i].record;
        bool theirs = other->kind != FLIGHT_PRODUCT;
        if ((!writes && !theirs) || !meets(r, other, mine)) continue;
        if (is_other_side(r, s->flights.data[i].side) && !meets_another(r, other, mine)) continue;
        barrier_check_fail(r, op, other->op,
                           other->kind == FLIGHT_COPY  ? "the asynchronous copy has not been waited for"
                           : other->kind == FLIGHT_BOX ? "the copy engine's box has not been waited for"
                                                       : "the product that reads there has not been waited for");
    }
}

const Record *barrier_check_record(BarrierCheck *r, FlightKind kind, const IrOp *op, const Reach *reaches, size_t count, int64_t barrier) {
    struct {
        const IrOp *op;
        int64_t kind, barrier;
    } key = {op, kind, barrier};
    Hash128 hash = hash128(&key, sizeof key, (Hash128){0, 0});
    hash = hash128(reaches, count * sizeof *reaches, hash);
    for (size_t i = 0; i < r->records.len; i++)
        if (r->records.data[i]->hash.lo == hash.lo && r->records.data[i]->hash.hi == hash.hi) return r->records.data[i];
    Record *record = ARENA_NEW(r->arena, Record);
    *record = (Record){.kind = kind, .op = op, .barrier = barrier, .count = count, .hash = hash, .from = INT64_MAX};
    record->reaches = ARENA_ARRAY(r->arena, Reach, count + 1);
    for (size_t i = 0; i < count; i++) {
        record->reaches[i] = reaches[i];
        if (reaches[i].from < record->from) record->from = reaches[i].from;
        if (reaches[i].to > record->to) record->to = reaches[i].to;
    }
    VEC_PUSH(r->arena, &r->records, record);
    return record;
}

/* ---- Barriers ---- */

void state_barrier(BarrierCheck *r, State *s, IrScope scope) {
    bool block = scope == IR_SCOPE_BLOCK, cluster = scope == IR_SCOPE_CLUSTER;
    uint32_t past = block ? PAST_BLOCK | PAST_GROUP | PAST_WARP : scope == IR_SCOPE_WARPGROUP ? PAST_GROUP | PAST_WARP : PAST_WARP;
    if (cluster) s->cluster = true;
    for (size_t i = 0; i < s->mbarriers.len; i++) /* all have arrived, or none */
        if (cluster || (block && !s->mbarriers.data[i].far)) s->mbarriers.data[i].seen = 2;
    for (size_t i = 0; i < r->page_count; i++) {
        if (!s->pages[i]) continue;
        if (cluster || (block && r->blocks == 1)) {
            drop_page(r, &s->pages[i]);
            continue;
        }
        for (size_t k = 0; k < CELLS; k++) {
            s->pages[i][k].write.past |= past;
            s->pages[i][k].read.past |= past;
        }
    }
}

/* What was there before is ordered before the box's beginning. */
void state_land(BarrierCheck *r, State *s, const Record *record) {
    int64_t per_block = r->shared_bytes / r->grain;
    for (size_t i = 0; i < record->count; i++)
        for (int64_t c = record->reaches[i].from; c < record->reaches[i].to; c++) {
            Cell **page = &s->pages[c / CELLS];
            if (!*page) *page = new_page(r);
            Touch here = {BLOCK_SET - (Threads)(c / per_block), PAST_BLOCK | PAST_GROUP | PAST_WARP | PAST_TOGETHER, record->op};
            (*page)[c % CELLS] = (Cell){.write = here, .read = {.who = NOBODY}};
        }
}

static void forget_met(Touch *t) {
    if (t->who != NOBODY && (t->past & (PAST_SENT | PAST_BLOCK))) *t = (Touch){.who = NOBODY};
}

/* All blocks have sent: what their threads did in front of the block's barrier before is over, and what was sent is there. What they did
 * behind that barrier may be under way still. */
void state_meet(BarrierCheck *r, State *s) {
    s->sent = false;
    for (size_t i = 0; i < r->page_count; i++)
        for (size_t k = 0; k < CELLS && s->pages[i]; k++) {
            forget_met(&s->pages[i][k].write);
            forget_met(&s->pages[i][k].read);
        }
}
