/* The walk: every way through a kernel, all threads at once, with what they touched and what is in flight.
 * Loops are barrier_check_loops.c's, products of warpgroups barrier_check_products.c's, the copy engine's part barrier_check_engine.c's. */
#include "barrier_check.h"

#include <string.h>

enum { OLDEST = 64 }; /* groups of copies: older ones count as equally old */

/* ---- What matters ---- */

static bool in_shared(const IrValue *ptr) {
    const IrType *t = ptr->type;
    return t->kind == IR_TYPE_PTR && (t->space == IR_SPACE_SHARED || t->space == IR_SPACE_CLUSTER);
}

static bool matters(const IrOp *op) {
    switch (op->opcode) {
    case IR_MEM_LOAD:
        return in_shared(op->operands[0]);
    case IR_CLUSTER_BEGUN:
    case IR_CLUSTER_SEND:
    case IR_CLUSTER_MEET:
        return true;
    case IR_MEM_STORE:
        return in_shared(op->operands[1]);
    case IR_MEM_ATOMIC:
        return in_shared(op->operands[1]);
    case IR_ATOM:
        return in_shared(op->operands[0]);
    case IR_ASYNC_COPY:
    case IR_ASYNC_COMMIT:
    case IR_ASYNC_WAIT:
    case IR_BARRIER:
    case IR_GRID_BARRIER_ARRIVE:
    case IR_GRID_BARRIER_WAIT:
    case IR_MBAR_INIT:
    case IR_MBAR_DROP:
    case IR_MBAR_EXPECT:
    case IR_MBAR_WAIT:
    case IR_MBAR_ARRIVE:
    case IR_TMA_LOAD:
    case IR_WGMMA:
    case IR_WGMMA_FENCE:
    case IR_WGMMA_COMMIT:
    case IR_WGMMA_WAIT:
        return true;
    default:
        return false;
    }
}

static void find_relevant(void *context, IrOp *op) {
    BarrierCheck *r = context;
    if (!matters(op)) return;
    for (const IrOp *up = op; up && !r->relevant[up->mark]; up = up->block->parent) r->relevant[up->mark] = 1;
}

/* ---- Places ---- */

/* The shared.ptr behind a pointer, and the block whose memory it is, null: the thread's own. */
const IrOp *barrier_check_array_of(const IrValue *pointer, const IrValue **rank) {
    *rank = NULL;
    const IrOp *def = pointer->def;
    if (def && def->opcode == IR_CLUSTER_PTR) {
        *rank = def->operands[1];
        def = def->operands[0]->def;
    }
    return def && def->opcode == IR_SHARED_PTR ? def : NULL;
}

static Threads all_active(const BarrierCheck *r, int64_t block) {
    Threads who = NOBODY;
    for (int64_t t = block * r->block_threads; t < (block + 1) * r->block_threads; t++) {
        if (!r->active[t]) continue;
        if (who == NOBODY)
            who = (Threads)t;
        else if (who >= 0 && who / WARP == t / WARP)
            who = WARP_SET - (Threads)(t / WARP);
        else if (who >= 0 || WARP_SET - who != t / WARP)
            return BLOCK_SET - (Threads)block;
    }
    return who;
}

/* The cells that the active threads touch; false where they are not known: then the whole array, block by block. */
bool barrier_check_places(BarrierCheck *r, const IrOp *op, const Access *a, const Value *mask, Reach *reaches, size_t *count) {
    const IrValue *rank;
    const IrOp *array = barrier_check_array_of(a->pointer, &rank);
    *count = 0;
    if (!array) {
        barrier_check_fail(r, op, NULL, "the pointer's array is not known");
        return true;
    }
    int64_t size = (int64_t)dtype_size(a->pointer->type->dtype), base = ir_attr_int(array, "offset", 0),
            per_block = r->shared_bytes / r->grain;
    const Value *offset = barrier_check_value(r, a->offset), *home = rank ? barrier_check_value(r, rank) : NULL;
    bool known = offset->kind == VALUE_LINEAR && !offset->rest && (!home || (home->kind == VALUE_LINEAR && !home->rest));
    if (home && !known) {
        barrier_check_fail(r, op, NULL, "the place in another block's memory is not known");
        return true;
    }
    for (int64_t t = 0; t < r->threads && known; t++) {
        if (!r->active[t] || (mask && number_of(mask, t) == 0)) continue;
        int64_t at = base + number_of(offset, t) * size, block = home ? number_of(home, t) : t / r->block_threads;
        if (at < 0 || at + a->bytes > r->shared_bytes || at % r->grain || a->bytes % r->grain || block < 0 || block >= r->blocks) {
            if (mask && number_of(mask, t) == 2) continue; /* not there, or the mask is false */
            barrier_check_fail(r, op, NULL, "an access outside of shared memory");
            return true;
        }
        int64_t from = block * per_block + at / r->grain;
        reaches[(*count)++] = (Reach){from, from + a->bytes / r->grain, t};
    }
    for (int64_t b = 0; b < r->blocks && !known; b++) {
        Threads who = all_active(r, b);
        if (who == NOBODY) continue;
        int64_t from = b * per_block + base / r->grain, bytes = ir_attr_int(array, "bytes", 0);
        reaches[(*count)++] = (Reach){from, from + (bytes + r->grain - 1) / r->grain, who};
    }
    return known;
}

void barrier_check_mark(BarrierCheck *r, uint8_t *where, const Reach *reaches, size_t count) {
    (void)r;
    for (size_t i = 0; i < count; i++) memset(where + reaches[i].from, 1, (size_t)(reaches[i].to - reaches[i].from));
}

/* A remote place needs that its block has begun. */
static void check_remote(BarrierCheck *r, const State *s, const IrOp *op, const Access *a, const Reach *reaches, size_t count) {
    const IrValue *rank;
    if (!barrier_check_array_of(a->pointer, &rank) || !rank || s->cluster) return;
    for (size_t i = 0; i < count; i++)
        if (reaches[i].from / (r->shared_bytes / r->grain) != reaches[i].who / r->block_threads)
            barrier_check_fail(r, op, NULL, "no barrier of the cluster says that the other block has begun");
}

/* An access by loads and stores. */
static void touch(BarrierCheck *r, State *s, const IrOp *op, const Access *a, const Value *mask, bool writes) {
    size_t count;
    Reach *reaches = r->reaches;
    bool known = barrier_check_places(r, op, a, mask, reaches, &count);
    if (r->failed || !count) return;
    if (!known && writes && (count > 1 || reaches[0].who < 0)) {
        barrier_check_fail(r, op, NULL, "which places the threads write is not known");
        return;
    }
    if (writes) {
        barrier_check_mark(r, r->generic, reaches, count);
        r->generic_op = op;
    }
    check_remote(r, s, op, a, reaches, count);
    if (s->flights.len) {
        Record record = {.op = op, .count = count, .reaches = reaches, .from = INT64_MAX};
        for (size_t i = 0; i < count; i++) {
            if (reaches[i].from < record.from) record.from = reaches[i].from;
            if (reaches[i].to > record.to) record.to = reaches[i].to;
        }
        state_check_flights(r, s, op, &record, writes);
    }
    for (size_t i = 0; i < count && !r->failed; i++)
        state_touch(r, s, op, reaches[i].from, reaches[i].to - reaches[i].from, (Threads)reaches[i].who, writes, 0);
}

static int64_t bytes_of(const IrType *t) {
    return (int64_t)dtype_size(t->dtype) * (int64_t)t->width;
}

static void walk_access(BarrierCheck *r, State *s, const IrOp *op) {
    bool store = op->opcode != IR_MEM_LOAD;
    const IrValue *pointer = op->operands[store], *offset = op->operands[store + 1];
    if (!in_shared(pointer)) return;
    unsigned at = store ? 3 : 2;
    Access a = {pointer, offset, bytes_of(store ? op->operands[0]->type : op->results[0].type)};
    touch(r, s, op, &a, op->operand_count > at ? barrier_check_value(r, op->operands[at]) : NULL, store);
}

/* Into each block's memory, as a store to each of them. */
static void walk_send(BarrierCheck *r, State *s, const IrOp *op) {
    size_t count;
    Access a = {op->operands[1], op->operands[2], bytes_of(op->operands[0]->type)};
    Reach *reaches = r->reaches;
    bool known = barrier_check_places(r, op, &a, op->operand_count > 4 ? barrier_check_value(r, op->operands[4]) : NULL, reaches, &count);
    if (r->failed || !count) return;
    if (!known) barrier_check_fail(r, op, NULL, "which places the threads write is not known");
    if (!s->cluster) barrier_check_fail(r, op, NULL, "no barrier of the cluster says that the other block has begun");
    s->sent = true;
    int64_t per_block = r->shared_bytes / r->grain;
    for (int64_t block = 0; block < r->blocks && !r->failed; block++) {
        for (size_t i = 0; i < count; i++) {
            int64_t at = reaches[i].from % per_block, size = reaches[i].to - reaches[i].from;
            reaches[i].from = block * per_block + at, reaches[i].to = reaches[i].from + size;
        }
        barrier_check_mark(r, r->generic, reaches, count);
        r->generic_op = op;
        Record record = {.op = op, .count = count, .reaches = reaches, .from = 0, .to = r->cells};
        if (s->flights.len) state_check_flights(r, s, op, &record, true);
        for (size_t i = 0; i < count && !r->failed; i++)
            state_touch(r, s, op, reaches[i].from, reaches[i].to - reaches[i].from, (Threads)reaches[i].who, true, PAST_SENT);
    }
}

/* ldmatrix, stmatrix: lanes give the addresses of rows of 16 bytes, which the whole warp reads or writes. */
static void walk_matrices(BarrierCheck *r, State *s, const IrOp *op) {
    const IrAtom atom = ir_op_atom(op);
    if (!in_shared(op->operands[0])) return;
    bool writes = ir_atom_stores(atom);
    if (!ir_atom_matrices(atom)) {
        barrier_check_fail(r, op, NULL, "it is not known what this instruction reads");
        return;
    }
    int64_t lanes = ir_atom_matrices(atom) * 8;
    size_t count, kept = 0;
    Access a = {op->operands[0], op->operands[1], 16};
    bool known = barrier_check_places(r, op, &a, NULL, r->reaches, &count);
    for (size_t i = 0; i < count && known; i++) {
        Reach reach = r->reaches[i];
        if (reach.who % WARP >= lanes) continue;
        reach.who = WARP_SET - reach.who / WARP;
        r->reaches[kept++] = reach;
    }
    if (!known) kept = count;
    if (writes && !known && !r->failed) barrier_check_fail(r, op, NULL, "which places the threads write is not known");
    if (writes && !r->failed) barrier_check_mark(r, r->generic, r->reaches, kept), r->generic_op = op;
    Record record = {.op = op, .count = kept, .reaches = r->reaches, .from = 0, .to = r->cells};
    if (s->flights.len && !r->failed) state_check_flights(r, s, op, &record, writes);
    for (size_t i = 0; i < kept && !r->failed; i++)
        state_touch(r, s, op, r->reaches[i].from, r->reaches[i].to - r->reaches[i].from, (Threads)r->reaches[i].who, writes, 0);
}

/* ---- In flight ---- */

bool barrier_check_iterations_ahead(BarrierCheck *r, const IrOp *loop, const Aff *guard, bool first, int64_t *ahead) {
    const Value *at = barrier_check_value(r, first ? loop->operands[0] : loop->regions[0]->args[0]);
    const Value *ub = barrier_check_value(r, loop->operands[1]), *step = barrier_check_value(r, loop->operands[2]);
    if (!guard || !at->flat || !ub->flat || !step->flat || at->kind != VALUE_LINEAR || ub->kind != VALUE_LINEAR) return false;
    AffCtx *c = r->affs;
    const Aff *zero = aff_const(c, 0), *exists = aff_sub(c, ub->rest ? ub->rest : zero, at->rest ? at->rest : zero);
    exists = aff_add(c, exists, aff_const(c, ub->number[0] - at->number[0] - 1));
    const Aff *way = aff_sub(c, exists, guard);
    int64_t distance;
    if (!step->rest) {
        if (!aff_is_const(way, &distance) || step->number[0] <= 0 || distance % step->number[0]) return false;
        *ahead = distance / step->number[0];
        return true;
    }
    const Aff *each = aff_add(c, step->rest, aff_const(c, step->number[0]));
    for (*ahead = -16; *ahead < 16; ++*ahead)
        if (aff_mul(c, each, aff_const(c, *ahead)) == way) return true;
    return false;
}

/* What is known of the conditions under which something happens here. */
void barrier_check_note_condition(BarrierCheck *r, const IrOp **loop, int64_t *ahead, const Aff **guard) {
    *loop = NULL, *ahead = 0, *guard = NULL;
    if (!r->guards.len) return;
    *guard = r->guards.data[r->guards.len - 1];
    for (size_t i = r->guards.len; r->loops.len && i-- > 0;)
        if (barrier_check_iterations_ahead(r, r->loops.data[r->loops.len - 1], r->guards.data[i], false, ahead)) {
            *loop = r->loops.data[r->loops.len - 1];
            *guard = NULL;
            return;
        }
}

void barrier_check_launch(BarrierCheck *r, State *s, const Record *record) {
    Flight f = {.record = record, .side = r->side};
    barrier_check_note_condition(r, &f.loop, &f.ahead, &f.guard);
    for (size_t i = 0; i < s->flights.len; i++)
        if (s->flights.data[i].record == record && s->flights.data[i].age == 0) {
            s->flights.data[i].loop = NULL, s->flights.data[i].guard = NULL;
            if (s->flights.data[i].side != f.side) s->flights.data[i].side = 0;
            return;
        }
    VEC_PUSH(r->arena, &s->flights, f);
}

static void walk_copy(BarrierCheck *r, State *s, const IrOp *op) {
    size_t count;
    Access a = {op->operands[2], op->operands[3], ir_attr_int(op, "bytes", 0)};
    bool known = barrier_check_places(r, op, &a, NULL, r->reaches, &count);
    if (!known && !r->failed) barrier_check_fail(r, op, NULL, "where the asynchronous copy goes is not known");
    if (r->failed || !count) return;
    barrier_check_mark(r, r->generic, r->reaches, count);
    r->generic_op = op;
    for (size_t i = 0; i < count; i++) {
        for (int64_t c = r->reaches[i].from; c < r->reaches[i].to; c++) {
            if (r->bits[c]) barrier_check_fail(r, op, op, "two threads copy to one place");
            r->bits[c] = 1;
        }
    }
    for (size_t i = 0; i < count; i++) memset(r->bits + r->reaches[i].from, 0, (size_t)(r->reaches[i].to - r->reaches[i].from));
    const Record *record = barrier_check_record(r, FLIGHT_COPY, op, r->reaches, count, 0);
    state_check_flights(r, s, op, record, true);
    for (size_t i = 0; i < count && !r->failed; i++)
        state_check(r, s, op, r->reaches[i].from, r->reaches[i].to - r->reaches[i].from, (Threads)r->reaches[i].who, true);
    barrier_check_launch(r, s, record);
}

static void close_group(State *s, FlightKind kind) {
    for (size_t i = 0; i < s->flights.len; i++)
        if (s->flights.data[i].record->kind == kind && s->flights.data[i].age < OLDEST) s->flights.data[i].age++;
}

/* What is over is only noted: whatever touched its place meanwhile was held against it then, and what touched it before was as it began. What
 * meets it here all the same came another way, where it was not. */
void barrier_check_finish_groups(BarrierCheck *r, State *s, FlightKind kind, int64_t pending) {
    size_t kept = 0;
    for (size_t i = 0; i < s->flights.len; i++) {
        Flight f = s->flights.data[i];
        if (f.record->kind != kind || f.age <= pending) {
            s->flights.data[kept++] = f;
            continue;
        }
        for (size_t k = 0; k < f.record->count; k++) {
            const Reach *reach = &f.record->reaches[k];
            state_mark(r, s, f.record->op, reach->from, reach->to - reach->from, (Threads)reach->who, kind == FLIGHT_COPY,
                       kind == FLIGHT_PRODUCT ? PAST_TOGETHER : 0);
        }
    }
    s->flights.len = kept;
}

static void walk_op(BarrierCheck *r, const IrOp *op, State **s) {
    switch (op->opcode) {
    case IR_FOR:
        barrier_check_walk_for(r, op, s);
        return;
    case IR_IF:
        barrier_check_walk_if(r, op, s);
        return;
    case IR_MAP:
        barrier_check_walk_map(r, op, s);
        return;
    case IR_MEM_LOAD:
    case IR_MEM_STORE:
    case IR_MEM_ATOMIC:
        walk_access(r, *s, op);
        return;
    case IR_ATOM:
        walk_matrices(r, *s, op);
        return;
    case IR_ASYNC_COPY:
        walk_copy(r, *s, op);
        return;
    case IR_ASYNC_COMMIT:
        if (r->together) close_group(*s, FLIGHT_COPY);
        return;
    case IR_ASYNC_WAIT:
        if (r->together) barrier_check_finish_groups(r, *s, FLIGHT_COPY, ir_attr_int(op, "pending", 0));
        return;
    case IR_BARRIER:
        if ((*s)->sent && ir_op_scope(op) == IR_SCOPE_BLOCK)
            barrier_check_fail(r, op, NULL, "a barrier of the block between what is sent and the meeting");
        if (r->together) state_barrier(r, *s, ir_op_scope(op));
        return;
    case IR_GRID_BARRIER_ARRIVE: /* begins with a barrier of the block */
    case IR_GRID_BARRIER_WAIT:   /* ends with one */
        if (r->together) state_barrier(r, *s, IR_SCOPE_BLOCK);
        return;
    case IR_CLUSTER_BEGUN:
        if (r->together) (*s)->cluster = true;
        return;
    case IR_CLUSTER_SEND:
        walk_send(r, *s, op);
        return;
    case IR_CLUSTER_MEET:
        if (r->together) state_meet(r, *s);
        return;
    case IR_MBAR_INIT:
        barrier_check_walk_init(r, *s, op);
        return;
    case IR_MBAR_DROP:
        barrier_check_walk_drop(r, *s, op);
        return;
    case IR_MBAR_EXPECT:
        barrier_check_walk_expect(r, *s, op);
        return;
    case IR_MBAR_WAIT:
        barrier_check_walk_phase(r, *s, op);
        return;
    case IR_MBAR_ARRIVE:
        barrier_check_walk_arrive(r, *s, op);
        return;
    case IR_TMA_LOAD:
        barrier_check_walk_box(r, *s, op);
        return;
    case IR_WGMMA:
        barrier_check_walk_product(r, *s, op);
        return;
    case IR_WGMMA_FENCE:
        (*s)->fenced = true;
        return;
    case IR_WGMMA_COMMIT:
        close_group(*s, FLIGHT_PRODUCT);
        for (size_t i = 0; i < (*s)->sums.len; i++)
            if ((*s)->sums.data[i].age < OLDEST) (*s)->sums.data[i].age++;
        (*s)->fenced = false;
        return;
    case IR_WGMMA_WAIT:
        barrier_check_walk_product_wait(r, *s, op);
        return;
    default:
        barrier_check_fail(r, op, NULL, "it is not known what this op does");
        return;
    }
}

void barrier_check_walk_block(BarrierCheck *r, const IrBlock *block, State **s) {
    for (const IrOp *op = block->first; op && !r->failed; op = op->next) {
        if ((*s)->sums.len) barrier_check_sums(r, *s, op, !r->relevant[op->mark]);
        if (r->relevant[op->mark]) walk_op(r, op, s);
        if (r->work > r->work_limit) barrier_check_fail(r, op, NULL, "the kernel is too long to be walked");
    }
}

/* ---- The kernel ---- */

static void find_grain(void *context, IrOp *op) {
    BarrierCheck *r = context;
    if (op->opcode != IR_SHARED_PTR) return;
    int64_t size = (int64_t)dtype_size(op->results[0].type->dtype), end = ir_attr_int(op, "offset", 0) + ir_attr_int(op, "bytes", 0);
    while (size < r->grain || ir_attr_int(op, "offset", 0) % r->grain) r->grain /= 2;
    if (end > r->shared_bytes) r->shared_bytes = end;
}

/* A block ends when all that others touch in its memory is over. */
static void check_end(BarrierCheck *r, const State *s) {
    for (size_t i = 0; i < s->flights.len && r->blocks > 1; i++)
        if (s->flights.data[i].record->kind == FLIGHT_BOX)
            barrier_check_fail(r, s->flights.data[i].record->op, NULL, "a block may have ended when a box comes into its memory");
    for (int64_t i = 0; i < r->cells && r->blocks > 1 && !r->failed; i++) {
        const Cell *page = s->pages[i / CELLS];
        if (!page) continue;
        int64_t home = i / (r->shared_bytes / r->grain);
        const Touch *touches[2] = {&page[i % CELLS].write, &page[i % CELLS].read};
        for (unsigned k = 0; k < 2; k++)
            if (touches[k]->who != NOBODY &&
                (touches[k]->who < 0 ? touches[k]->who == ANYBODY : touches[k]->who / r->block_threads != home))
                barrier_check_fail(r, touches[k]->op, NULL, "a block may have ended when another touches its memory");
    }
}

static void check_proxies(BarrierCheck *r) {
    for (int64_t i = 0; i < r->cells && !r->failed; i++)
        if (r->generic[i] && r->engine[i])
            barrier_check_fail(r, r->engine_op, r->generic_op,
                               "no proxy fence stands between a thread's write and the copy engine or a product");
}

static BarrierCheck *create(Arena *scratch, IrFunc *f, ResidueCases *cases) {
    BarrierCheck *r = ARENA_NEW(scratch, BarrierCheck);
    *r = (BarrierCheck){.arena = scratch,
                        .module = f->module,
                        .func = f,
                        .affs = f->module->affs,
                        .grain = 8,
                        .copier = NOBODY,
                        .cases = cases,
                        .work_limit = INT64_C(400) << 20};
    r->blocks = ir_func_cluster(f);
    r->block_threads = ir_func_int(f, IR_FN_NUM_WARPS, 1) * WARP;
    r->threads = r->blocks * r->block_threads;
    ir_walk(f->body, find_grain, r);
    r->shared_bytes = whole_lines(r->shared_bytes);
    r->cells = r->blocks * (r->shared_bytes / r->grain);
    r->page_count = (size_t)((r->cells + CELLS - 1) / CELLS);
    r->generic = ARENA_ARRAY(scratch, uint8_t, (size_t)r->cells + 1);
    r->engine = ARENA_ARRAY(scratch, uint8_t, (size_t)r->cells + 1);
    r->bits = ARENA_ARRAY(scratch, uint8_t, (size_t)r->cells + 1);
    r->active = ARENA_ARRAY(scratch, uint8_t, (size_t)r->threads);
    r->reaches = ARENA_ARRAY(scratch, Reach, (size_t)r->threads + 4096);
    memset(r->active, 1, (size_t)r->threads);
    r->together = true;
    barrier_check_values_init(r);
    ir_walk(f->body, find_relevant, r);
    barrier_check_find_needs(r);
    return r;
}

static bool absent_in(Arena *scratch, IrFunc *f, ResidueCases *cases, BarrierFault *fault) {
    BarrierCheck *r = create(scratch, f, cases);
    r->facts = r->func_facts = aff_facts_fork(ir_facts_at(scratch, f->body->first));
    State *s = state_new(r);
    barrier_check_walk_block(r, f->body, &s);
    if (!r->failed) check_end(r, s);
    if (!r->failed) check_proxies(r);
    *fault = r->fault;
    return !r->failed;
}

bool barrier_check_holds(IrFunc *f, BarrierFault *fault) {
    ResidueCases cases = {0};
    bool absent = true;
    do {
        Arena *arena = arena_create();
        absent = absent_in(arena, f, &cases, fault);
        arena_destroy(arena);
    } while (absent && barrier_check_next_case(&cases));
    return absent;
}
