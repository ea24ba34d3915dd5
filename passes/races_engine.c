/* The copy engine's part of the walk: mbarriers, the boxes that end their phases, and the arrivals of warps that give stages back. */
#include <string.h>

#include "races.h"

/* ---- The copy engine ---- */

int64_t races_count_active(const Races *r) {
    int64_t count = 0;
    for (int64_t t = 0; t < r->threads; t++) count += r->active[t];
    return count;
}

/* The one thread that does it, and the place of its mbarrier. */
static bool barrier_place(Races *r, const IrOp *op, unsigned operand, bool one, int64_t *place, Threads *who) {
    const IrValue *rank;
    const IrOp *array = races_array_of(op->operands[operand], &rank);
    const Value *at = races_value(r, op->operands[operand + 1]);
    if (!array || rank || r->blocks > 1 || at->kind != VALUE_LINEAR || at->rest) {
        races_fail(r, op, NULL, "which mbarrier it is is not known");
        return false;
    }
    *who = NOBODY;
    for (int64_t t = 0; t < r->threads; t++) {
        if (!r->active[t]) continue;
        int64_t here = ir_attr_int(array, "offset", 0) + 8 * number_of(at, t);
        if (*who != NOBODY && (one || here != *place)) {
            races_fail(r, op, NULL, one ? "several threads do what one has to do" : "threads name different mbarriers");
            return false;
        }
        *place = here;
        *who = (Threads)t;
    }
    return *who != NOBODY;
}

static Mbarrier *mbarrier_at(State *s, int64_t place) {
    for (size_t i = 0; i < s->mbarriers.len; i++)
        if (s->mbarriers.data[i].place == place) return &s->mbarriers.data[i];
    return NULL;
}

static void touch_barrier(Races *r, State *s, const IrOp *op, int64_t place, Threads who, bool writes) {
    state_touch(r, s, op, place / r->grain, 8 / r->grain, who, writes, 0);
}

static uint32_t slot_bit(const Mbarrier *m) { return (uint32_t)PAST_ARRIVED << m->slot; }

static bool slot_is_taken(const State *s, unsigned slot) {
    for (size_t i = 0; i < s->mbarriers.len; i++)
        if (s->mbarriers.data[i].several && s->mbarriers.data[i].slot == slot) return true;
    return false;
}

void races_walk_init(Races *r, State *s, const IrOp *op) {
    int64_t place;
    Threads who;
    if (!barrier_place(r, op, 0, true, &place, &who)) return;
    if (mbarrier_at(s, place)) races_fail(r, op, NULL, "an mbarrier is made where there is one");
    Mbarrier m = {.place = place, .seen = 2, .several = ir_attr_int(op, "arrivals", 1) != 1};
    if (m.several) {
        while (m.slot < MOST_SLOTS && slot_is_taken(s, m.slot)) m.slot++;
        if (ir_attr_int(op, "arrivals", 1) != r->threads / WARP) races_fail(r, op, NULL, "an mbarrier's arrivals are neither one nor one a warp");
        if (m.slot == MOST_SLOTS) races_fail(r, op, NULL, "mbarriers of several arrivals are more than can be told apart");
        if (r->failed) return;
        state_forget(r, s, slot_bit(&m));
    }
    touch_barrier(r, s, op, place, who, true);
    VEC_PUSH(r->arena, &s->mbarriers, m);
}

void races_walk_drop(Races *r, State *s, const IrOp *op) {
    int64_t place;
    Threads who;
    if (!barrier_place(r, op, 0, true, &place, &who)) return;
    Mbarrier *m = mbarrier_at(s, place);
    if (!m || m->armed) {
        races_fail(r, op, NULL, m ? "an mbarrier is given back while its phase may run" : "there is no mbarrier at this place");
        return;
    }
    touch_barrier(r, s, op, place, who, true);
    *m = s->mbarriers.data[--s->mbarriers.len];
}

/* The slots of those whose phase before has ended as far as the thread knows. */
static uint32_t known_to_have_ended(const Races *r, const State *s, Threads who) {
    uint32_t slots = 0;
    for (size_t i = 0; i < s->mbarriers.len; i++) {
        const Mbarrier *m = &s->mbarriers.data[i];
        if (m->several && (m->seen == 2 || (m->seen == 1 && who == r->copier))) slots |= slot_bit(m);
    }
    return slots;
}

void races_walk_expect(Races *r, State *s, const IrOp *op) {
    int64_t place;
    Threads who;
    if (!barrier_place(r, op, 0, true, &place, &who)) return;
    state_check(r, s, op, place / r->grain, 8 / r->grain, who, true); /* all have left the phase before */
    touch_barrier(r, s, op, place, who, false);
    Mbarrier *m = mbarrier_at(s, place);
    if (!m || m->armed || m->several) {
        races_fail(r, op, NULL, m ? "the mbarrier's phase may have its arrival already" : "there is no mbarrier at this place");
        return;
    }
    m->told = known_to_have_ended(r, s, who);
    m->armed = 1;
    m->expected = ir_attr_int(op, "bytes", 0);
    m->issued = 0;
    races_note_condition(r, &m->loop, &m->ahead, &m->guard);
}

void races_walk_box(Races *r, State *s, const IrOp *op) {
    int64_t place, bytes = (int64_t)dtype_size(op->operands[0]->type->dtype);
    Threads who;
    size_t count;
    const IrTensorMap *map = &r->func->params[op->operands[0]->index].map;
    for (unsigned a = 0; a < map->rank; a++) bytes *= map->box[a];
    if (!barrier_place(r, op, 3, true, &place, &who)) return;
    touch_barrier(r, s, op, place, who, false);
    Mbarrier *m = mbarrier_at(s, place);
    if (!m || !m->armed) {
        races_fail(r, op, NULL, m ? "the mbarrier's phase has no arrival yet" : "there is no mbarrier at this place");
        return;
    }
    if (m->issued >= 0) m->issued += bytes;
    Access a = {op->operands[1], op->operands[2], bytes};
    bool known = races_places(r, op, &a, NULL, r->reaches, &count);
    if (!known && !r->failed) races_fail(r, op, NULL, "where the copy engine's box goes is not known");
    if (r->failed || count != 1) return;
    races_mark(r, r->engine, r->reaches, count);
    r->engine_op = op;
    const Record *record = races_record(r, FLIGHT_BOX, op, r->reaches, count, place);
    state_check_flights(r, s, op, record, true);
    state_check(r, s, op, r->reaches[0].from, r->reaches[0].to - r->reaches[0].from, who, true);
    races_launch(r, s, record);
}

/* ---- Arrivals of warps ---- */

static bool is_one_of_each_warp(const Races *r) {
    for (int64_t warp = 0; warp < r->threads / WARP; warp++) {
        int64_t lanes = 0;
        for (int64_t t = warp * WARP; t < (warp + 1) * WARP; t++) lanes += r->active[t];
        if (lanes != 1) return false;
    }
    return true;
}

/* The phase ends, for what all threads of the warps have done: what they did together, or a barrier stands behind. No warp may come here again
 * before it has: two arrivals of one would end the phase without another one's. */
void races_walk_arrive(Races *r, State *s, const IrOp *op) {
    int64_t place;
    Threads who;
    if (!barrier_place(r, op, 0, false, &place, &who)) return;
    touch_barrier(r, s, op, place, BLOCK_SET, false);
    Mbarrier *m = mbarrier_at(s, place);
    if (!m || !m->several) races_fail(r, op, NULL, m ? "an arrival without bytes at an mbarrier that counts them" : "there is no mbarrier at this place");
    else if (!is_one_of_each_warp(r)) races_fail(r, op, NULL, "an arrival that is not one thread's of each warp");
    else if (m->phase < 0) races_fail(r, op, NULL, "which phase an arrival is of is not known");
    else if (m->seen < 2) races_fail(r, op, NULL, "a warp may arrive before all know that the phase before has ended");
    if (r->failed) return;
    m->phase ^= 1;
    m->seen = 0;
    for (size_t i = 0; i < s->mbarriers.len; i++) s->mbarriers.data[i].told &= ~slot_bit(m);
    state_pass(r, s, PAST_WARP | PAST_GROUP | PAST_BLOCK | PAST_TOGETHER, slot_bit(m));
}

/* By one thread, the same one everywhere: it comes behind what was done before the arrivals. */
static void wait_for_warps(Races *r, State *s, const IrOp *op, Mbarrier *m, Threads who, int64_t parity) {
    if (r->copier == NOBODY) r->copier = who;
    if (r->copier != who || races_count_active(r) != 1) races_fail(r, op, NULL, "arrivals of warps are waited for by another thread than the one that copies");
    if (parity == m->phase) races_fail(r, op, NULL, "a phase is waited for that nothing ends");
    state_pass(r, s, slot_bit(m), PAST_COPIER);
    if (!m->seen) m->seen = 1;
}

/* All have waited for what the copier did behind its own waits. */
static void tell_all(State *s, Mbarrier *m) {
    for (size_t i = 0; i < s->mbarriers.len; i++)
        if (s->mbarriers.data[i].several && (m->told & slot_bit(&s->mbarriers.data[i]))) s->mbarriers.data[i].seen = 2;
    m->told = 0;
}

void races_walk_phase(Races *r, State *s, const IrOp *op) {
    int64_t place;
    Threads who;
    const Value *parity = races_value(r, op->operands[2]);
    if (!barrier_place(r, op, 0, false, &place, &who)) return;
    touch_barrier(r, s, op, place, BLOCK_SET, false);
    Mbarrier *m = mbarrier_at(s, place);
    bool known = m && m->phase >= 0 && parity->kind == VALUE_LINEAR && parity->flat && !parity->rest;
    if (!known) races_fail(r, op, NULL, m ? "which phase is waited for is not known" : "there is no mbarrier at this place");
    if (known && m->several) wait_for_warps(r, s, op, m, who, parity->number[0]);
    if (!known || m->several || !r->together || parity->number[0] != m->phase) return;
    if (!m->armed) races_fail(r, op, NULL, "a phase is waited for that nothing ends");
    if (m->issued != m->expected) races_fail(r, op, NULL, "the bytes of the phase are not those that are copied in it");
    size_t kept = 0;
    for (size_t i = 0; i < s->flights.len; i++) {
        const Record *record = s->flights.data[i].record;
        if (record->kind != FLIGHT_BOX || record->barrier != place) s->flights.data[kept++] = s->flights.data[i];
    }
    s->flights.len = kept;
    tell_all(s, m);
    m->phase ^= 1;
    m->armed = 0;
    m->loop = NULL, m->guard = NULL;
}
