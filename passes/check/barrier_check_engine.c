/* The copy engine's part of the walk: mbarriers, the boxes that end their phases, and the arrivals of warps that give stages back. */

#include "analyzer.h"
#include "barrier_check.h"

/* ---- The copy engine ---- */

int64_t barrier_check_count_active(const BarrierCheck *r) {
    int64_t count = 0;
    for (int64_t t = 0; t < r->threads; t++) count += r->active[t];
    return count;
}

/* Each block's threads do what the first one's do. */
static bool blocks_do_alike(const BarrierCheck *r) {
    for (int64_t t = r->block_threads; t < r->threads; t++)
        if (r->active[t] != r->active[t % r->block_threads]) return false;
    return true;
}

/* The one thread of each block that does it, by its number there, and the place of its mbarrier. */
static bool barrier_place(BarrierCheck *r, const IrOp *op, unsigned operand, bool one, int64_t *place, Threads *who) {
    const IrValue *rank;
    const IrOp *array = barrier_check_array_of(op->operands[operand], &rank);
    const Value *at = barrier_check_value(r, op->operands[operand + 1]);
    if (!array || rank || at->kind != VALUE_LINEAR || at->rest) {
        barrier_check_fail(r, op, NULL, "which mbarrier it is is not known");
        return false;
    }
    if (!blocks_do_alike(r)) {
        barrier_check_fail(r, op, NULL, "blocks of a cluster do different things with their mbarriers");
        return false;
    }
    *who = NOBODY;
    for (int64_t t = 0; t < r->threads; t++) {
        if (!r->active[t]) continue;
        int64_t here = ir_attr_int(array, "offset", 0) + 8 * number_of(at, t);
        bool several = one && *who != NOBODY && t % r->block_threads != *who;
        if (several || (*who != NOBODY && here != *place)) {
            barrier_check_fail(r, op, NULL, several ? "several threads do what one has to do" : "threads name different mbarriers");
            return false;
        }
        *place = here;
        *who = (Threads)(t % r->block_threads);
    }
    return *who != NOBODY;
}

static Mbarrier *mbarrier_at(State *s, int64_t place) {
    for (size_t i = 0; i < s->mbarriers.len; i++)
        if (s->mbarriers.data[i].place == place) return &s->mbarriers.data[i];
    return NULL;
}

/* Where it is in a block's memory. */
static int64_t barrier_cell(const BarrierCheck *r, int64_t place, int64_t block) {
    return (block * r->shared_bytes + place) / r->grain;
}

/* The thread of that number in the block, or all of its threads. */
static Threads of_block(const BarrierCheck *r, Threads who, int64_t block) {
    return who >= 0 ? who + (Threads)(block * r->block_threads) : who == BLOCK_SET ? BLOCK_SET - (Threads)block : who;
}

/* Nothing may be in flight there: even a wait is for bytes that change. */
static void touch_barrier(BarrierCheck *r, State *s, const IrOp *op, int64_t place, Threads who, bool writes) {
    for (int64_t b = 0; b < r->blocks; b++) {
        int64_t cell = barrier_cell(r, place, b);
        Reach reach = {cell, cell + 8 / r->grain, of_block(r, who, b)};
        Record record = {.op = op, .count = 1, .reaches = &reach, .from = reach.from, .to = reach.to};
        state_check_flights(r, s, op, &record, true);
        state_touch(r, s, op, cell, 8 / r->grain, (Threads)reach.who, writes, 0);
    }
}

/* All that waited there for the phase before have gone on. */
static void check_left(BarrierCheck *r, const State *s, const IrOp *op, int64_t place, Threads who) {
    for (int64_t b = 0; b < r->blocks; b++) state_check(r, s, op, barrier_cell(r, place, b), 8 / r->grain, of_block(r, who, b), true);
}

/* The same for what other blocks' copying threads do there. */
static bool have_left(BarrierCheck *r, const State *s, int64_t place, Threads who) {
    bool left = true;
    for (int64_t b = 0; b < r->blocks; b++)
        for (int64_t from = 0; from < r->blocks; from++)
            left = left && state_orders(r, s, barrier_cell(r, place, b), 8 / r->grain, of_block(r, who, from));
    return left;
}

static void need_begun(BarrierCheck *r, const State *s, const IrOp *op) {
    if (!s->cluster) barrier_check_fail(r, op, NULL, "no barrier of the cluster says that the other block has begun");
}

static uint32_t slot_bit(const Mbarrier *m) {
    return (uint32_t)PAST_ARRIVED << m->slot;
}

static bool slot_is_taken(const State *s, unsigned slot) {
    for (size_t i = 0; i < s->mbarriers.len; i++)
        if (s->mbarriers.data[i].several && s->mbarriers.data[i].slot == slot) return true;
    return false;
}

void barrier_check_walk_init(BarrierCheck *r, State *s, const IrOp *op) {
    int64_t place;
    Threads who;
    if (!barrier_place(r, op, 0, true, &place, &who)) return;
    if (mbarrier_at(s, place)) barrier_check_fail(r, op, NULL, "an mbarrier is made where there is one");
    int64_t arrivals = ir_attr_int(op, "arrivals", 1);
    Mbarrier m = {.place = place,
                  .seen = 2,
                  .several = arrivals != 1,
                  .far = r->blocks > 1 && (arrivals == r->threads / WARP || arrivals == r->blocks)};
    m.single = m.far && arrivals != r->threads / WARP;
    if (m.several) {
        while (m.slot < MOST_SLOTS && slot_is_taken(s, m.slot)) m.slot++;
        if (!m.far && arrivals != r->block_threads / WARP)
            barrier_check_fail(r, op, NULL, "an mbarrier's arrivals are neither one nor one a warp");
        if (m.slot == MOST_SLOTS) barrier_check_fail(r, op, NULL, "mbarriers of several arrivals are more than can be told apart");
        if (r->failed) return;
        state_forget(r, s, slot_bit(&m));
    }
    touch_barrier(r, s, op, place, who, true);
    VEC_PUSH(r->arena, &s->mbarriers, m);
}

void barrier_check_walk_drop(BarrierCheck *r, State *s, const IrOp *op) {
    int64_t place;
    Threads who;
    if (!barrier_place(r, op, 0, true, &place, &who)) return;
    Mbarrier *m = mbarrier_at(s, place);
    if (!m || m->armed) {
        barrier_check_fail(r, op, NULL, m ? "an mbarrier is given back while its phase may run" : "there is no mbarrier at this place");
        return;
    }
    touch_barrier(r, s, op, place, who, true);
    *m = s->mbarriers.data[--s->mbarriers.len];
}

/* The slots of those whose phase before has ended as far as the thread knows; far: of all blocks' warps. */
static uint32_t known_to_have_ended(const BarrierCheck *r, const State *s, Threads who, bool far) {
    uint32_t slots = 0;
    for (size_t i = 0; i < s->mbarriers.len; i++) {
        const Mbarrier *m = &s->mbarriers.data[i];
        if (m->several && m->far == far && (m->seen == 2 || (m->seen == 1 && who == r->copier))) slots |= slot_bit(m);
    }
    return slots;
}

void barrier_check_walk_expect(BarrierCheck *r, State *s, const IrOp *op) {
    int64_t place;
    Threads who;
    if (!barrier_place(r, op, 0, true, &place, &who)) return;
    check_left(r, s, op, place, who);
    bool left = have_left(r, s, place, who);
    touch_barrier(r, s, op, place, who, false);
    Mbarrier *m = mbarrier_at(s, place);
    if (!m || m->armed || m->several) {
        barrier_check_fail(r, op, NULL, m ? "the mbarrier's phase may have its arrival already" : "there is no mbarrier at this place");
        return;
    }
    m->told = known_to_have_ended(r, s, who, false);
    m->armed = 1;
    m->left = left;
    m->expected = ir_attr_int(op, "bytes", 0);
    m->issued = 0;
    barrier_check_note_condition(r, &m->loop, &m->ahead, &m->guard);
}

/* A box of each block comes into all of them. Its bytes, from each block behind the wait of its own copying thread, tell who waits for
 * them that the phases ended which those waited for, in all blocks. */
static void send_to_all(BarrierCheck *r, State *s, const IrOp *op, Mbarrier *m, Threads who, size_t *count) {
    int64_t per_block = r->shared_bytes / r->grain;
    size_t own = *count;
    need_begun(r, s, op);
    if (!m->left) barrier_check_fail(r, op, NULL, "a box comes to another block's mbarrier, where the phase before may be waited for");
    m->told |= known_to_have_ended(r, s, who, true);
    for (size_t i = 0; i < own; i++) {
        Reach from = r->reaches[i];
        int64_t home = from.who / r->block_threads;
        for (int64_t b = 0; b < r->blocks; b++) {
            if (b != home) r->reaches[(*count)++] = (Reach){from.from + (b - home) * per_block, from.to + (b - home) * per_block, from.who};
        }
    }
    for (size_t i = 0; i < *count; i++)
        for (size_t k = 0; k < i; k++)
            if (r->reaches[i].from < r->reaches[k].to && r->reaches[k].from < r->reaches[i].to)
                barrier_check_fail(r, op, op, "boxes of two blocks come to one place");
}

void barrier_check_walk_box(BarrierCheck *r, State *s, const IrOp *op) {
    bool multicast = ir_attr_bool(op, "multicast");
    int64_t place, bytes = (int64_t)dtype_size(op->operands[0]->type->dtype);
    Threads who;
    size_t count;
    const IrTensorMap *map = &r->func->params[op->operands[0]->index].map;
    for (unsigned a = 0; a < map->rank; a++) bytes *= map->box[a];
    if (!barrier_place(r, op, 3, true, &place, &who)) return;
    touch_barrier(r, s, op, place, who, false);
    Mbarrier *m = mbarrier_at(s, place);
    if (!m || !m->armed) {
        barrier_check_fail(r, op, NULL, m ? "the mbarrier's phase has no arrival yet" : "there is no mbarrier at this place");
        return;
    }
    if (m->issued >= 0) m->issued += multicast ? bytes * r->blocks : bytes;
    Access a = {op->operands[1], op->operands[2], bytes};
    bool known = barrier_check_places(r, op, &a, NULL, r->reaches, &count);
    if (!known && !r->failed) barrier_check_fail(r, op, NULL, "where the copy engine's box goes is not known");
    if (r->failed || count != (size_t)r->blocks) return;
    if (multicast) send_to_all(r, s, op, m, who, &count);
    barrier_check_mark(r, r->engine, r->reaches, count);
    r->engine_op = op;
    const Record *record = barrier_check_record(r, FLIGHT_BOX, op, r->reaches, count, place);
    state_check_flights(r, s, op, record, true);
    for (size_t i = 0; i < count; i++)
        state_check(r, s, op, r->reaches[i].from, r->reaches[i].to - r->reaches[i].from, (Threads)r->reaches[i].who, true);
    barrier_check_launch(r, s, record);
}

/* ---- Arrivals of warps ---- */

static bool is_one_of_each_warp(const BarrierCheck *r) {
    for (int64_t warp = 0; warp < r->threads / WARP; warp++) {
        int64_t lanes = 0;
        for (int64_t t = warp * WARP; t < (warp + 1) * WARP; t++) lanes += r->active[t];
        if (lanes != 1) return false;
    }
    return true;
}

/* One lane of each warp, or of one warp of each block, for each block, whose rank it names. */
static bool is_one_for_each_block(BarrierCheck *r, const IrOp *op, bool single) {
    const Value *rank = barrier_check_value(r, op->operands[2]);
    int64_t threads = single ? r->block_threads : WARP;
    if (rank->kind != VALUE_LINEAR || rank->rest || r->blocks > 32) return false;
    for (int64_t first = 0; first < r->threads; first += threads) {
        uint32_t named = 0;
        for (int64_t t = first; t < first + threads; t++) {
            int64_t to = number_of(rank, t);
            if (!r->active[t]) continue;
            if (to < 0 || to >= r->blocks || (named >> to & 1)) return false;
            named |= UINT32_C(1) << to;
        }
        if (named != (UINT32_C(1) << r->blocks) - 1) return false;
    }
    return true;
}

/* The phase ends, for what all threads of the warps have done: what they did together, or a barrier stands behind. No warp may come here again
 * before it has: two arrivals of one would end the phase without another one's. */
void barrier_check_walk_arrive(BarrierCheck *r, State *s, const IrOp *op) {
    int64_t place;
    Threads who;
    if (!barrier_place(r, op, 0, false, &place, &who)) return;
    bool far = op->operand_count == 3;
    if (far) need_begun(r, s, op);
    touch_barrier(r, s, op, place, far ? ANYBODY : BLOCK_SET, false);
    Mbarrier *m = mbarrier_at(s, place);
    if (!m || !m->several)
        barrier_check_fail(r, op, NULL,
                           m ? "an arrival without bytes at an mbarrier that counts them" : "there is no mbarrier at this place");
    else if (far != m->far)
        barrier_check_fail(r, op, NULL,
                           far ? "an arrival at another block's mbarrier that counts its own warps"
                               : "an arrival at the own block's mbarrier, which counts all blocks' warps");
    else if (far && !is_one_for_each_block(r, op, m->single))
        barrier_check_fail(r, op, NULL, "an arrival that is not one thread's of each warp for each block");
    else if (!far && !is_one_of_each_warp(r))
        barrier_check_fail(r, op, NULL, "an arrival that is not one thread's of each warp");
    else if (m->phase < 0)
        barrier_check_fail(r, op, NULL, "which phase an arrival is of is not known");
    else if (m->seen < 2)
        barrier_check_fail(r, op, NULL, "a warp may arrive before all know that the phase before has ended");
    if (r->failed) return;
    ANALYZER_ASSUME(m); /* else it has failed */
    m->phase ^= 1;
    m->seen = 0;
    for (size_t i = 0; i < s->mbarriers.len; i++) s->mbarriers.data[i].told &= ~slot_bit(m);
    state_pass(r, s, m->single ? PAST_BLOCK : PAST_WARP | PAST_GROUP | PAST_BLOCK | PAST_TOGETHER, slot_bit(m));
}

/* By one thread, the same one everywhere: it comes behind what was done before the arrivals. */
static void wait_for_warps(BarrierCheck *r, State *s, const IrOp *op, Mbarrier *m, Threads who, int64_t parity) {
    if (r->copier == NOBODY) r->copier = who;
    if (r->copier != who || barrier_check_count_active(r) != r->blocks)
        barrier_check_fail(r, op, NULL, "arrivals of warps are waited for by another thread than the one that copies");
    if (parity == m->phase) barrier_check_fail(r, op, NULL, "a phase is waited for that nothing ends");
    state_pass(r, s, slot_bit(m), m->far ? PAST_COPIER | PAST_COPIERS : PAST_COPIER);
    if (!m->seen) m->seen = 1;
}

/* All have waited for what the copier did behind its own waits. */
static void tell_all(State *s, Mbarrier *m) {
    for (size_t i = 0; i < s->mbarriers.len; i++)
        if (s->mbarriers.data[i].several && (m->told & slot_bit(&s->mbarriers.data[i]))) s->mbarriers.data[i].seen = 2;
    m->told = 0;
}

void barrier_check_walk_phase(BarrierCheck *r, State *s, const IrOp *op) {
    int64_t place;
    Threads who;
    const Value *parity = barrier_check_value(r, op->operands[2]);
    if (!barrier_place(r, op, 0, false, &place, &who)) return;
    touch_barrier(r, s, op, place, BLOCK_SET, false);
    Mbarrier *m = mbarrier_at(s, place);
    bool known = m && m->phase >= 0 && parity->kind == VALUE_LINEAR && parity->flat && !parity->rest;
    if (!known) barrier_check_fail(r, op, NULL, m ? "which phase is waited for is not known" : "there is no mbarrier at this place");
    if (known && m->several) wait_for_warps(r, s, op, m, who, parity->number[0]);
    if (!known || m->several || !r->together || parity->number[0] != m->phase) return;
    if (!m->armed) barrier_check_fail(r, op, NULL, "a phase is waited for that nothing ends");
    if (m->issued != m->expected) barrier_check_fail(r, op, NULL, "the bytes of the phase are not those that are copied in it");
    size_t kept = 0;
    for (size_t i = 0; i < s->flights.len; i++) {
        const Record *record = s->flights.data[i].record;
        if (record->kind != FLIGHT_BOX || record->barrier != place)
            s->flights.data[kept++] = s->flights.data[i];
        else if (r->blocks > 1)
            state_land(r, s, record);
    }
    s->flights.len = kept;
    tell_all(s, m);
    m->phase ^= 1;
    m->armed = 0;
    m->loop = NULL, m->guard = NULL;
}
