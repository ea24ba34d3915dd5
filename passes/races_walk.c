/* The walk: every way through a kernel, all threads at once, with what they touched and what is in flight. Loops of
 * few iterations and maps are walked iteration by iteration; any other loop until nothing new comes in at its head,
 * its iterations apart by their number modulo the length of the rings in it. */
#include <string.h>

#include "races.h"

static void walk_block(Races *r, const IrBlock *block, State **s);

/* ---- What matters ---- */

static bool in_shared(const IrValue *ptr) {
    const IrType *t = ptr->type;
    return t->kind == IR_TYPE_PTR && (t->space == IR_SPACE_SHARED || t->space == IR_SPACE_CLUSTER);
}

static bool matters(const IrOp *op) {
    switch (op->opcode) {
    case IR_MEM_LOAD: return in_shared(op->operands[0]);
    case IR_CLUSTER_BEGUN:
    case IR_CLUSTER_SEND:
    case IR_CLUSTER_MEET: return true;
    case IR_MEM_STORE: return in_shared(op->operands[1]);
    case IR_MEM_ATOMIC: return in_shared(op->operands[1]);
    case IR_ATOM: return in_shared(op->operands[0]);
    case IR_ASYNC_COPY:
    case IR_ASYNC_COMMIT:
    case IR_ASYNC_WAIT:
    case IR_BARRIER:
    case IR_ARRIVE:
    case IR_MEET:
    case IR_MBAR_INIT:
    case IR_MBAR_DROP:
    case IR_MBAR_EXPECT:
    case IR_MBAR_WAIT:
    case IR_MBAR_ARRIVE:
    case IR_TMA_LOAD:
    case IR_WGMMA:
    case IR_WGMMA_FENCE:
    case IR_WGMMA_COMMIT:
    case IR_WGMMA_WAIT: return true;
    default: return false;
    }
}

static void find_relevant(void *context, IrOp *op) {
    Races *r = context;
    if (!matters(op)) return;
    for (const IrOp *up = op; up && !r->relevant[up->mark]; up = up->block->parent) r->relevant[up->mark] = 1;
}

/* ---- Places ---- */

/* The shared.ptr behind a pointer, and the block whose memory it is, null: the thread's own. */
const IrOp *races_array_of(const IrValue *pointer, const IrValue **rank) {
    *rank = NULL;
    const IrOp *def = pointer->def;
    if (def && def->opcode == IR_CLUSTER_PTR) {
        *rank = def->operands[1];
        def = def->operands[0]->def;
    }
    return def && def->opcode == IR_SHARED_PTR ? def : NULL;
}

static Threads all_active(const Races *r, int64_t block) {
    Threads who = NOBODY;
    for (int64_t t = block * r->block_threads; t < (block + 1) * r->block_threads; t++) {
        if (!r->active[t]) continue;
        if (who == NOBODY) who = (Threads)t;
        else if (who >= 0 && who / WARP == t / WARP) who = WARP_SET - (Threads)(t / WARP);
        else if (who >= 0 || WARP_SET - who != t / WARP) return BLOCK_SET - (Threads)block;
    }
    return who;
}

/* The cells that the active threads touch; false where they are not known: then the whole array, block by block. */
bool races_places(Races *r, const IrOp *op, const Access *a, const Value *mask, Reach *reaches, size_t *count) {
    const IrValue *rank;
    const IrOp *array = races_array_of(a->pointer, &rank);
    *count = 0;
    if (!array) {
        races_fail(r, op, NULL, "the pointer's array is not known");
        return true;
    }
    int64_t size = (int64_t)dtype_size(a->pointer->type->dtype), base = ir_attr_int(array, "offset", 0), per_block = r->shared_bytes / r->grain;
    const Value *offset = races_value(r, a->offset), *home = rank ? races_value(r, rank) : NULL;
    bool known = offset->kind == VALUE_LINEAR && !offset->rest && (!home || (home->kind == VALUE_LINEAR && !home->rest));
    if (home && !known) {
        races_fail(r, op, NULL, "the place in another block's memory is not known");
        return true;
    }
    for (int64_t t = 0; t < r->threads && known; t++) {
        if (!r->active[t] || (mask && number_of(mask, t) == 0)) continue;
        int64_t at = base + number_of(offset, t) * size, block = home ? number_of(home, t) : t / r->block_threads;
        if (at < 0 || at + a->bytes > r->shared_bytes || at % r->grain || a->bytes % r->grain || block < 0 || block >= r->blocks) {
            if (mask && number_of(mask, t) == 2) continue; /* not there, or the mask is false */
            races_fail(r, op, NULL, "an access outside of shared memory");
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

void races_mark(Races *r, uint8_t *where, const Reach *reaches, size_t count) {
    (void)r;
    for (size_t i = 0; i < count; i++) memset(where + reaches[i].from, 1, (size_t)(reaches[i].to - reaches[i].from));
}

/* A remote place needs that its block has begun. */
static void check_remote(Races *r, const State *s, const IrOp *op, const Access *a, const Reach *reaches, size_t count) {
    const IrValue *rank;
    if (!races_array_of(a->pointer, &rank) || !rank || s->cluster) return;
    for (size_t i = 0; i < count; i++)
        if (reaches[i].from / (r->shared_bytes / r->grain) != reaches[i].who / r->block_threads)
            races_fail(r, op, NULL, "no barrier of the cluster says that the other block has begun");
}

/* An access by loads and stores. */
static void touch(Races *r, State *s, const IrOp *op, const Access *a, const Value *mask, bool writes) {
    size_t count;
    Reach *reaches = r->reaches;
    bool known = races_places(r, op, a, mask, reaches, &count);
    if (r->failed || !count) return;
    if (!known && writes && (count > 1 || reaches[0].who < 0)) {
        races_fail(r, op, NULL, "which places the threads write is not known");
        return;
    }
    if (writes) {
        races_mark(r, r->generic, reaches, count);
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

static int64_t bytes_of(const IrType *t) { return (int64_t)dtype_size(t->dtype) * (int64_t)t->width; }

static void walk_access(Races *r, State *s, const IrOp *op) {
    bool store = op->opcode != IR_MEM_LOAD;
    const IrValue *pointer = op->operands[store], *offset = op->operands[store + 1];
    if (!in_shared(pointer)) return;
    unsigned at = store ? 3 : 2;
    Access a = {pointer, offset, bytes_of(store ? op->operands[0]->type : op->results[0].type)};
    touch(r, s, op, &a, op->operand_count > at ? races_value(r, op->operands[at]) : NULL, store);
}

/* Into each block's memory, as a store to each of them. */
static void walk_send(Races *r, State *s, const IrOp *op) {
    size_t count;
    Access a = {op->operands[1], op->operands[2], bytes_of(op->operands[0]->type)};
    Reach *reaches = r->reaches;
    bool known = races_places(r, op, &a, op->operand_count > 4 ? races_value(r, op->operands[4]) : NULL, reaches, &count);
    if (r->failed || !count) return;
    if (!known) races_fail(r, op, NULL, "which places the threads write is not known");
    if (!s->cluster) races_fail(r, op, NULL, "no barrier of the cluster says that the other block has begun");
    s->sent = true;
    int64_t per_block = r->shared_bytes / r->grain;
    for (int64_t block = 0; block < r->blocks && !r->failed; block++) {
        for (size_t i = 0; i < count; i++) {
            int64_t at = reaches[i].from % per_block, size = reaches[i].to - reaches[i].from;
            reaches[i].from = block * per_block + at, reaches[i].to = reaches[i].from + size;
        }
        races_mark(r, r->generic, reaches, count);
        r->generic_op = op;
        Record record = {.op = op, .count = count, .reaches = reaches, .from = 0, .to = r->cells};
        if (s->flights.len) state_check_flights(r, s, op, &record, true);
        for (size_t i = 0; i < count && !r->failed; i++)
            state_touch(r, s, op, reaches[i].from, reaches[i].to - reaches[i].from, (Threads)reaches[i].who, true, 0);
    }
}

/* ldmatrix, stmatrix: lanes give the addresses of rows of 16 bytes, which the whole warp reads or writes. */
static void walk_matrices(Races *r, State *s, const IrOp *op) {
    const char *name = ir_attr_str(op, "name", "");
    if (!in_shared(op->operands[0])) return;
    bool writes = strncmp(name, "stmatrix.x", 10) == 0;
    if (!writes && strncmp(name, "ldmatrix.x", 10) != 0) {
        races_fail(r, op, NULL, "it is not known what this instruction reads");
        return;
    }
    int64_t lanes = (name[10] - '0') * 8;
    size_t count, kept = 0;
    Access a = {op->operands[0], op->operands[1], 16};
    bool known = races_places(r, op, &a, NULL, r->reaches, &count);
    for (size_t i = 0; i < count && known; i++) {
        Reach reach = r->reaches[i];
        if (reach.who % WARP >= lanes) continue;
        reach.who = WARP_SET - reach.who / WARP;
        r->reaches[kept++] = reach;
    }
    if (!known) kept = count;
    if (writes && !known && !r->failed) races_fail(r, op, NULL, "which places the threads write is not known");
    if (writes && !r->failed) races_mark(r, r->generic, r->reaches, kept), r->generic_op = op;
    Record record = {.op = op, .count = kept, .reaches = r->reaches, .from = 0, .to = r->cells};
    if (s->flights.len && !r->failed) state_check_flights(r, s, op, &record, writes);
    for (size_t i = 0; i < kept && !r->failed; i++)
        state_touch(r, s, op, r->reaches[i].from, r->reaches[i].to - r->reaches[i].from, (Threads)r->reaches[i].who, writes, 0);
}

/* ---- In flight ---- */

/* How many iterations from this one (`first`: the first, from before the loop) the guard speaks of. */
static bool iterations_ahead(Races *r, const IrOp *loop, const Aff *guard, bool first, int64_t *ahead) {
    const Value *at = races_value(r, first ? loop->operands[0] : loop->regions[0]->args[0]);
    const Value *ub = races_value(r, loop->operands[1]), *step = races_value(r, loop->operands[2]);
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
void races_note_condition(Races *r, const IrOp **loop, int64_t *ahead, const Aff **guard) {
    *loop = NULL, *ahead = 0, *guard = NULL;
    if (!r->guards.len) return;
    *guard = r->guards.data[r->guards.len - 1];
    for (size_t i = r->guards.len; r->loops.len && i-- > 0;)
        if (iterations_ahead(r, r->loops.data[r->loops.len - 1], r->guards.data[i], false, ahead)) {
            *loop = r->loops.data[r->loops.len - 1];
            *guard = NULL;
            return;
        }
}

void races_launch(Races *r, State *s, const Record *record) {
    Flight f = {.record = record};
    races_note_condition(r, &f.loop, &f.ahead, &f.guard);
    for (size_t i = 0; i < s->flights.len; i++)
        if (s->flights.data[i].record == record && s->flights.data[i].age == 0) {
            s->flights.data[i].loop = NULL, s->flights.data[i].guard = NULL;
            return;
        }
    VEC_PUSH(r->arena, &s->flights, f);
}

static void walk_copy(Races *r, State *s, const IrOp *op) {
    size_t count;
    Access a = {op->operands[2], op->operands[3], ir_attr_int(op, "bytes", 0)};
    bool known = races_places(r, op, &a, NULL, r->reaches, &count);
    if (!known && !r->failed) races_fail(r, op, NULL, "where the asynchronous copy goes is not known");
    if (r->failed || !count) return;
    races_mark(r, r->generic, r->reaches, count);
    r->generic_op = op;
    for (size_t i = 0; i < count; i++) {
        for (int64_t c = r->reaches[i].from; c < r->reaches[i].to; c++) {
            if (r->bits[c]) races_fail(r, op, op, "two threads copy to one place");
            r->bits[c] = 1;
        }
    }
    for (size_t i = 0; i < count; i++) memset(r->bits + r->reaches[i].from, 0, (size_t)(r->reaches[i].to - r->reaches[i].from));
    const Record *record = races_record(r, FLIGHT_COPY, op, r->reaches, count, 0);
    state_check_flights(r, s, op, record, true);
    for (size_t i = 0; i < count && !r->failed; i++)
        state_check(r, s, op, r->reaches[i].from, r->reaches[i].to - r->reaches[i].from, (Threads)r->reaches[i].who, true);
    races_launch(r, s, record);
}

enum { OLDEST = 64 };

static void close_group(State *s, FlightKind kind) {
    for (size_t i = 0; i < s->flights.len; i++)
        if (s->flights.data[i].record->kind == kind && s->flights.data[i].age < OLDEST) s->flights.data[i].age++;
}

/* Groups older than the newest `pending` are done: what they did counts as done by their threads now. */
static void finish_groups(Races *r, State *s, FlightKind kind, int64_t pending) {
    size_t kept = 0;
    for (size_t i = 0; i < s->flights.len; i++) {
        Flight f = s->flights.data[i];
        if (f.record->kind != kind || f.age <= pending) {
            s->flights.data[kept++] = f;
            continue;
        }
        for (size_t k = 0; k < f.record->count && !r->failed; k++) {
            const Reach *reach = &f.record->reaches[k];
            state_touch(r, s, f.record->op, reach->from, reach->to - reach->from, (Threads)reach->who, kind == FLIGHT_COPY, kind == FLIGHT_PRODUCT ? PAST_TOGETHER : 0);
        }
    }
    s->flights.len = kept;
}

/* ---- Products of warpgroups ---- */

enum { GROUP = 4 * WARP, ROWS = 64, STEP_BYTES = 32 };

/* Places of a factor of which a product reads some, of the warpgroup that begins with thread `first`; where they are not known, but the
 * same for all threads: all of the array. */
static void add_factor(Races *r, const IrOp *op, unsigned which, int64_t along, int64_t first, size_t *count) {
    const IrValue *rank;
    const IrOp *array = races_array_of(op->operands[2 * which], &rank);
    const Value *at = races_value(r, op->operands[2 * which + 1]);
    bool known = at->kind == VALUE_LINEAR && !at->rest;
    if (!array || rank || (!known && !races_uniform(r, op->operands[2 * which + 1]))) {
        races_fail(r, op, NULL, "where the product's factor lies is not known");
        return;
    }
    int64_t block = first / r->block_threads, own = BLOCK_SET - block, base = block * (r->shared_bytes / r->grain);
    if (!known) {
        int64_t from = ir_attr_int(array, "offset", 0), to = from + ir_attr_int(array, "bytes", 0);
        r->reaches[(*count)++] = (Reach){base + from / r->grain, base + (to + r->grain - 1) / r->grain, own};
        return;
    }
    int64_t size = (int64_t)dtype_size(op->operands[2 * which]->type->dtype), swizzle = ir_attr(op, "swizzle")->ints[which];
    int64_t start = ir_attr_int(array, "offset", 0) + number_of(at, first) * size, lead = ir_attr(op, "lead")->ints[which];
    bool across = ir_attr_bool(op, which ? "trans_b" : "trans_a");
    for (int64_t t = first; t < first + GROUP; t++)
        if (number_of(at, t) != number_of(at, first)) races_fail(r, op, NULL, "threads of a warpgroup name different factors");
    int64_t blocks = across ? (along * size + swizzle - 1) / swizzle : 1, rows = across ? STEP_BYTES / size : along;
    for (int64_t b = 0; b < blocks && !r->failed; b++) {
        int64_t from = start + b * lead, to;
        to = from + rows * swizzle;
        from -= from % swizzle; /* pieces are permuted within rows */
        to += (swizzle - to % swizzle) % swizzle;
        if (!across) to = from + rows * swizzle;
        if (from < 0 || to > r->shared_bytes) {
            races_fail(r, op, NULL, "a factor outside of shared memory");
            return;
        }
        r->reaches[(*count)++] = (Reach){base + from / r->grain, base + to / r->grain, own};
    }
}

/* The instruction waits for all lanes of the warp: none of them waits for an earlier phase any longer. */
static void leave_waits(const Races *r, State *s) {
    for (size_t i = 0; i < s->mbarriers.len; i++)
        for (int64_t b = 0; b < r->blocks; b++)
            for (int64_t cell = (b * r->shared_bytes + s->mbarriers.data[i].place) / r->grain, end = cell + 8 / r->grain; cell < end; cell++)
                if (s->pages[cell / CELLS]) s->pages[cell / CELLS][cell % CELLS].read.past |= PAST_WARP;
}

static void walk_product(Races *r, State *s, const IrOp *op) {
    const IrType *acc = op->results[0].type;
    int64_t columns = 2;
    size_t count = 0;
    for (unsigned a = 0; a < acc->rank; a++) columns *= ir_type_extent(acc, a);
    if (!r->together || r->block_threads % GROUP) races_fail(r, op, NULL, "a warpgroup's instruction that not all threads come to");
    if (!s->fenced) races_fail(r, op, NULL, "no wgmma.fence stands between the registers' last use and this product");
    for (int64_t first = 0; first < r->threads && !r->failed; first += GROUP) {
        if (op->operands[0]->type->kind != IR_TYPE_FRAG) add_factor(r, op, 0, ROWS, first, &count);
        add_factor(r, op, 1, columns, first, &count);
    }
    if (r->failed) return;
    races_mark(r, r->engine, r->reaches, count);
    r->engine_op = op;
    leave_waits(r, s);
    const Record *record = races_record(r, FLIGHT_PRODUCT, op, r->reaches, count, 0);
    state_check_flights(r, s, op, record, false);
    for (size_t i = 0; i < count && !r->failed; i++)
        state_check(r, s, op, r->reaches[i].from, r->reaches[i].to - r->reaches[i].from, (Threads)r->reaches[i].who, false);
    races_launch(r, s, record);
    VEC_PUSH(r->arena, &s->sums, (InFlight){&op->results[0], 0});
}

static void walk_product_wait(Races *r, State *s, const IrOp *op) {
    int64_t pending = ir_attr_int(op, "pending", 0);
    if (!r->together) races_fail(r, op, NULL, "a warpgroup's instruction that not all threads come to");
    finish_groups(r, s, FLIGHT_PRODUCT, pending);
    size_t kept = 0;
    int still = -1;
    for (size_t i = 0; i < s->sums.len; i++) {
        if (s->sums.data[i].age > pending) continue;
        if (s->sums.data[i].value == op->operands[0]) still = s->sums.data[i].age;
        s->sums.data[kept++] = s->sums.data[i];
    }
    s->sums.len = kept;
    s->fenced = false;
    if (still < 0) return;
    if (ir_attr_bool(op, "done")) races_fail(r, op, NULL, "the product that is waited for is one of those that may be in flight");
    VEC_PUSH(r->arena, &s->sums, (InFlight){&op->results[0], still});
}

static bool is_in_flight(const State *s, const IrValue *v) {
    for (size_t i = 0; i < s->sums.len; i++)
        if (s->sums.data[i].value == v) return true;
    return false;
}

static void check_sums(Races *r, const State *s, const IrOp *op, bool inside) {
    bool passes = op->opcode == IR_WGMMA || op->opcode == IR_WGMMA_WAIT || op->opcode == IR_YIELD || op->opcode == IR_FOR;
    for (unsigned i = 0; i < op->operand_count && !passes; i++)
        if (is_in_flight(s, op->operands[i])) races_fail(r, op, NULL, "accumulators are used while their product is in flight");
    for (unsigned g = 0; g < op->region_count && inside; g++)
        for (const IrOp *o = op->regions[g] ? op->regions[g]->first : NULL; o; o = o->next) check_sums(r, s, o, true);
}

/* What was in flight as `from` is so as `to`, too. */
static void pass_sum(Races *r, State *s, const IrValue *from, const IrValue *to) {
    for (size_t i = 0, count = s->sums.len; i < count; i++)
        if (s->sums.data[i].value == from) VEC_PUSH(r->arena, &s->sums, (InFlight){to, s->sums.data[i].age});
}

static bool lies_in(const IrValue *v, const IrOp *op) {
    for (const IrBlock *b = v->def ? v->def->block : v->block; b && b->parent; b = b->parent->block)
        if (b->parent == op) return true;
    return false;
}

/* Those of the region are gone, but as what it yields; arg null: as the op's results. */
static void leave_sums(Races *r, State *s, const IrOp *op, const IrBlock *region, IrValue *const *args) {
    VEC(InFlight) gone = {0};
    size_t kept = 0;
    for (size_t i = 0; i < s->sums.len; i++) {
        InFlight f = s->sums.data[i];
        for (unsigned k = 0; k < op->result_count; k++)
            if (region->last->operands[k] == f.value) VEC_PUSH(r->arena, &gone, (InFlight){args ? args[k] : &op->results[k], f.age});
        if (!lies_in(f.value, op)) s->sums.data[kept++] = f;
    }
    s->sums.len = kept;
    for (size_t i = 0; i < gone.len; i++) VEC_PUSH(r->arena, &s->sums, gone.data[i]);
}

/* ---- Control flow ---- */

static void yield_values(Races *r, const IrOp *op, const IrBlock *region) {
    for (unsigned k = 0; k < op->result_count; k++) {
        const IrValue *v = region->last->operands[k];
        if (v->type->kind == IR_TYPE_SCALAR && v->type->width == 1 && !dtype_is_float(v->type->dtype)) races_set(r, &op->results[k], races_value(r, v));
    }
}

static void walk_region(Races *r, const IrOp *op, unsigned region, State **s) {
    races_enter(r, op, region);
    if (op->regions[region] && op->regions[region]->first) walk_block(r, op->regions[region], s);
}

static void leave_branch(Races *r, State *s, const IrOp *op, unsigned region) {
    if (op->regions[region] && op->regions[region]->last) leave_sums(r, s, op, op->regions[region], NULL);
}

/* All threads together, one way or the other. */
static void walk_choice(Races *r, const IrOp *op, const Value *cond, State **s) {
    const Aff *holds = cond->rest;
    State *other = state_copy(r, *s);
    for (unsigned side = 0; side < 2 && !r->failed; side++) {
        State **now = side ? &other : s;
        if (holds) VEC_PUSH(r->arena, &r->guards, side ? aff_sub(r->affs, aff_const(r->affs, -1), holds) : holds);
        walk_region(r, op, side, now);
        leave_branch(r, *now, op, side);
        if (holds) r->guards.len--;
    }
    state_join(r, *s, other);
}

/* Some threads one way, then the others the other way, with nothing that orders them. */
static void walk_divergence(Races *r, const IrOp *op, const Value *cond, State **s) {
    uint8_t *before = ARENA_ARRAY(r->arena, uint8_t, (size_t)r->threads), *truth = ARENA_ARRAY(r->arena, uint8_t, (size_t)r->threads);
    bool together = r->together;
    uint64_t one_side = ++r->clock;
    memcpy(before, r->active, (size_t)r->threads);
    for (int64_t t = 0; t < r->threads; t++) truth[t] = (uint8_t)number_of(cond, t);
    for (unsigned side = 0; side < 2 && !r->failed; side++) {
        bool all = true, sure = true;
        for (int64_t t = 0; t < r->threads; t++) {
            r->active[t] = before[t] && truth[t] != side;
            all = all && r->active[t] == before[t];
            sure = sure && (!before[t] || truth[t] != 2);
        }
        r->together = together && all && sure;
        if (!races_count_active(r)) continue;
        size_t earlier = (*s)->flights.len;
        if (side) VEC_PUSH(r->arena, &r->other_sides, one_side);
        walk_region(r, op, side, s);
        leave_branch(r, *s, op, side);
        for (size_t i = earlier; !side && i < (*s)->flights.len; i++) (*s)->flights.data[i].side = one_side;
        if (side) r->other_sides.len--;
    }
    for (size_t i = 0; i < (*s)->flights.len; i++)
        if ((*s)->flights.data[i].side == one_side) (*s)->flights.data[i].side = 0;
    memcpy(r->active, before, (size_t)r->threads);
    r->together = together;
}

static void walk_if(Races *r, const IrOp *op, State **s) {
    const Value *cond = races_value(r, op->operands[0]);
    if (cond->kind == VALUE_TRUTH && cond->flat && cond->number[0] != 2) {
        unsigned side = !cond->number[0];
        walk_region(r, op, side, s);
        if (r->failed || !op->regions[side]->last) return;
        yield_values(r, op, op->regions[side]);
        leave_branch(r, *s, op, side);
    } else if (cond->kind == VALUE_TRUTH && cond->flat) {
        walk_choice(r, op, cond, s);
    } else {
        walk_divergence(r, op, cond, s);
    }
}

static void walk_map(Races *r, const IrOp *op, State **s) {
    const IrAttr *extents = ir_attr(op, "extents");
    int64_t total = 1, index[16] = {0};
    for (size_t d = 0; d < extents->count; d++) total *= extents->ints[d];
    for (int64_t i = 0; i < total && !r->failed; i++) {
        races_enter(r, op, 0);
        for (size_t d = 0; d < extents->count; d++) {
            Value at = {.kind = VALUE_LINEAR, .flat = true, .number = &index[d]};
            races_set(r, op->regions[0]->args[d], &at);
        }
        walk_block(r, op->regions[0], s);
        for (size_t d = extents->count; d-- > 0 && ++index[d] == extents->ints[d];) index[d] = 0;
    }
}

/* ---- Loops ---- */

enum { FEW = 64, MANY_PLACES = 1 << 21 };

static int64_t weight(const Races *r, const IrBlock *block) {
    int64_t sum = 0;
    for (const IrOp *op = block->first; op; op = op->next) {
        if (!r->relevant[op->mark]) continue;
        int64_t times = 1, inner = 1;
        const IrAttr *extents = op->opcode == IR_MAP ? ir_attr(op, "extents") : NULL;
        for (size_t i = 0; extents && i < extents->count; i++) times *= extents->ints[i];
        for (unsigned g = 0; g < op->region_count; g++)
            if (op->regions[g]) inner += weight(r, op->regions[g]);
        sum += times * inner;
        if (sum > INT32_MAX) return INT32_MAX;
    }
    return sum;
}

/* The number of iterations of each thread in *trips; false where it is not known. */
static bool count_trips(Races *r, const IrOp *op, int64_t **trips, int64_t *most) {
    const Value *lb = races_value(r, op->operands[0]), *ub = races_value(r, op->operands[1]), *step = races_value(r, op->operands[2]);
    bool known = lb->kind == VALUE_LINEAR && ub->kind == VALUE_LINEAR && step->kind == VALUE_LINEAR && step->flat && !step->rest && step->number[0] > 0;
    if (!known || lb->rest != ub->rest) return false;
    *trips = ARENA_ARRAY(r->arena, int64_t, (size_t)r->threads);
    *most = 0;
    for (int64_t t = 0; t < r->threads; t++) {
        int64_t way = number_of(ub, t) - number_of(lb, t);
        (*trips)[t] = way > 0 ? (way - 1) / step->number[0] + 1 : 0;
        if (r->active[t] && (*trips)[t] > *most) *most = (*trips)[t];
    }
    return true;
}

static bool is_counted(const IrValue *v) {
    return v->type->kind == IR_TYPE_SCALAR && v->type->width == 1 && !dtype_is_float(v->type->dtype);
}

static void walk_each(Races *r, const IrOp *op, State **s, const int64_t *trips, int64_t most) {
    const IrBlock *body = op->regions[0];
    uint8_t *before = ARENA_ARRAY(r->arena, uint8_t, (size_t)r->threads);
    Value *carried = ARENA_ARRAY(r->arena, Value, op->result_count + 1);
    bool together = r->together, same = true;
    memcpy(before, r->active, (size_t)r->threads);
    for (unsigned k = 0; k < op->result_count; k++)
        if (is_counted(&op->results[k])) races_copy_value(r, &carried[k], races_value(r, op->operands[k + 3]));
    for (unsigned k = 0; k < op->result_count; k++) pass_sum(r, *s, op->operands[k + 3], body->args[k + 1]);
    for (int64_t n = 0; n < most && !r->failed; n++) {
        for (int64_t t = 0; t < r->threads; t++) {
            r->active[t] = before[t] && n < trips[t];
            same = same && r->active[t] == before[t];
        }
        r->together = together && same;
        r->iterations[op->mark] = (Iteration){.number = n};
        races_enter(r, op, 0);
        for (unsigned k = 0; k < op->result_count; k++)
            if (is_counted(&op->results[k])) races_set(r, body->args[k + 1], &carried[k]);
        (*s)->fenced = false;
        walk_block(r, body, s);
        if (r->failed) return;
        for (unsigned k = 0; k < op->result_count; k++)
            if (is_counted(&op->results[k])) races_copy_value(r, &carried[k], races_value(r, body->last->operands[k]));
        leave_sums(r, *s, op, body, n + 1 < most ? body->args + 1 : NULL);
    }
    memcpy(r->active, before, (size_t)r->threads);
    r->together = together;
    for (unsigned k = 0; k < op->result_count && same; k++)
        if (is_counted(&op->results[k])) races_set(r, &op->results[k], &carried[k]);
    if (!most)
        for (unsigned k = 0; k < op->result_count; k++) pass_sum(r, *s, op->operands[k + 3], &op->results[k]);
}

static int64_t common_multiple(int64_t a, int64_t b) {
    int64_t x = a, y = b;
    while (y) {
        int64_t rest = x % y;
        x = y, y = rest;
    }
    return a / x * b;
}

static int64_t constant_of(const IrValue *v) {
    const IrAttr *value = v->def && v->def->opcode == IR_CONST ? ir_attr(v->def, "value") : NULL;
    return value && value->kind == IR_ATTR_INT ? value->integer : 0;
}

enum { LONGEST = 64 };

/* After so many iterations the numbers come again that index rings: those modulo something, and how often modulo 2. */
static int64_t period_of(Races *r, const IrBlock *block, int64_t period) {
    for (const IrOp *op = block->first; op; op = op->next) {
        for (unsigned g = 0; g < op->region_count && r->relevant[op->mark]; g++)
            if (op->regions[g]) period = period_of(r, op->regions[g], period);
        if (op->opcode != IR_MOD || !races_uniform(r, &op->results[0])) continue;
        int64_t by = constant_of(op->operands[1]);
        const IrOp *inner = op->operands[0]->def;
        if (inner && inner->opcode == IR_FLOORDIV) by *= constant_of(inner->operands[1]);
        if (by < 2 || by > LONGEST) continue;
        int64_t longer = common_multiple(period, by);
        if (longer <= LONGEST) period = longer;
    }
    return period;
}

/* Before the loop: what happened only where iterations exist. */
static void see_ahead(Races *r, State *s, const IrOp *op) {
    for (size_t i = 0; i < s->flights.len; i++)
        if (iterations_ahead(r, op, s->flights.data[i].guard, true, &s->flights.data[i].ahead)) s->flights.data[i].loop = op, s->flights.data[i].guard = NULL;
    for (size_t i = 0; i < s->mbarriers.len; i++)
        if (iterations_ahead(r, op, s->mbarriers.data[i].guard, true, &s->mbarriers.data[i].ahead)) s->mbarriers.data[i].loop = op, s->mbarriers.data[i].guard = NULL;
}

static void step_ahead(State *s, const IrOp *op) {
    for (size_t i = 0; i < s->flights.len; i++)
        if (s->flights.data[i].loop == op) s->flights.data[i].ahead--;
    for (size_t i = 0; i < s->mbarriers.len; i++)
        if (s->mbarriers.data[i].loop == op) s->mbarriers.data[i].ahead--;
}

/* The number of the iteration becomes another one: what was said of it is no longer so. */
static void forget_turn(State *s, const Aff *turn) {
    for (size_t i = 0; turn && i < s->flights.len; i++)
        if (s->flights.data[i].guard && aff_depends_on(s->flights.data[i].guard, turn)) s->flights.data[i].guard = NULL;
    for (size_t i = 0; turn && i < s->mbarriers.len; i++)
        if (s->mbarriers.data[i].guard && aff_depends_on(s->mbarriers.data[i].guard, turn)) s->mbarriers.data[i].guard = NULL;
}

/* No iteration follows: what happened only where there is one did not. */
static void leave_loop(State *s, const IrOp *op) {
    size_t kept = 0;
    for (size_t i = 0; i < s->flights.len; i++) {
        Flight f = s->flights.data[i];
        if (f.loop == op && f.ahead >= 0) continue;
        if (f.loop == op) f.loop = NULL;
        s->flights.data[kept++] = f;
    }
    s->flights.len = kept;
    for (size_t i = 0; i < s->mbarriers.len; i++) {
        Mbarrier *m = &s->mbarriers.data[i];
        if (m->armed && m->loop == op && m->ahead >= 0) m->armed = 0, m->expected = m->issued = 0;
        if (m->loop == op) m->loop = NULL;
    }
}

static void add_state(Races *r, State **to, State *s, bool *changed) {
    if (!*to) {
        *to = s;
        *changed = true;
    } else if (state_join(r, *to, s)) {
        *changed = true;
    }
}

static bool at_least_zero(const Races *r, const Aff *e) { return e->kind != AFF_OVERFLOW && aff_prove_nonneg(r->facts, e); }

/* Does it say that another iteration follows? */
static bool walk_iteration(Races *r, const IrOp *op, State **s, int64_t number, int64_t period, const Aff *turn) {
    AffFacts *facts = r->facts;
    bool follows = false;
    r->iterations[op->mark] = (Iteration){number, period, turn};
    races_enter(r, op, 0);
    r->facts = r->loop_facts[op->mark] = aff_facts_fork(facts);
    const Value *i = races_value(r, op->regions[0]->args[0]), *ub = races_value(r, op->operands[1]), *step = races_value(r, op->operands[2]);
    if (i->kind == VALUE_LINEAR && ub->kind == VALUE_LINEAR && i->flat && ub->flat) {
        const Aff *zero = aff_const(r->affs, 0), *room = aff_sub(r->affs, ub->rest ? ub->rest : zero, i->rest ? i->rest : zero);
        room = aff_add(r->affs, room, aff_const(r->affs, ub->number[0] - i->number[0] - 1));
        if (room->kind != AFF_OVERFLOW) aff_facts_nonneg(r->facts, room);
        bool steady = step->kind == VALUE_LINEAR && step->flat && !step->rest;
        follows = steady && at_least_zero(r, aff_sub(r->affs, room, aff_const(r->affs, step->number[0])));
    }
    (*s)->fenced = false;
    walk_block(r, op->regions[0], s);
    r->facts = facts;
    r->loop_facts[op->mark] = NULL;
    return follows;
}

/* From the lower bound to the upper one; null where it is not one way for all threads. */
static const Aff *way_of(Races *r, const IrOp *op) {
    const Value *lb = races_value(r, op->operands[0]), *ub = races_value(r, op->operands[1]);
    if (lb->kind != VALUE_LINEAR || ub->kind != VALUE_LINEAR || !lb->flat || !ub->flat) return NULL;
    const Aff *zero = aff_const(r->affs, 0), *way = aff_sub(r->affs, ub->rest ? ub->rest : zero, lb->rest ? lb->rest : zero);
    way = aff_add(r->affs, way, aff_const(r->affs, ub->number[0] - lb->number[0]));
    return way->kind == AFF_OVERFLOW ? NULL : way;
}

static bool surely_runs(Races *r, const IrOp *op) {
    const Aff *way = way_of(r, op);
    return way && at_least_zero(r, aff_sub(r->affs, way, aff_const(r->affs, 1)));
}

static bool is_number(const Value *v) { return v->kind == VALUE_LINEAR && v->flat && !v->rest; }

/* The number of iterations that there are at most, 0: not known. */
static int64_t most_trips(Races *r, const IrOp *op) {
    const Aff *way = way_of(r, op);
    const Value *lb = races_value(r, op->operands[0]), *step = races_value(r, op->operands[2]);
    const IrOp *ub = op->operands[1]->def;
    int64_t longest = INT64_MAX, bound;
    if (!is_number(step) || step->number[0] <= 0) return 0;
    if (way && aff_upper_bound(r->facts, way, &bound)) longest = bound;
    for (unsigned i = 0; i < 2 && ub && ub->opcode == IR_MIN && is_number(lb); i++) { /* expressions lose what each part says */
        const Value *part = races_value(r, ub->operands[i]);
        if (is_number(part) && part->number[0] - lb->number[0] < longest) longest = part->number[0] - lb->number[0];
    }
    for (int64_t n = 0; way && n < longest && n < LONGEST; n++)
        if (at_least_zero(r, aff_sub(r->affs, aff_const(r->affs, n), way))) longest = n;
    if (longest == INT64_MAX) return 0;
    return longest > 0 ? (longest - 1) / step->number[0] + 1 : 0;
}

static void walk_any(Races *r, const IrOp *op, State **s) {
    const IrBlock *body = op->regions[0];
    int64_t period = period_of(r, body, 1), most = most_trips(r, op);
    const Aff *turn = aff_var(r->affs, arena_alloc(r->arena, 1), "turn");
    bool bounded = most > 0 && most <= LONGEST / 4;
    if (bounded) period = most, turn = NULL;
    else aff_facts_range(r->func_facts, turn, aff_const(r->affs, 0), NULL), aff_facts_range(r->facts, turn, aff_const(r->affs, 0), NULL);
    State **head = ARENA_ARRAY(r->arena, State *, (size_t)period), *left = NULL;
    bool *open = ARENA_ARRAY(r->arena, bool, (size_t)period), together = r->together, ignored = false;
    for (unsigned i = 0; i < 3; i++) r->together = r->together && races_value(r, op->operands[i])->flat;
    see_ahead(r, *s, op);
    if (!surely_runs(r, op)) {
        left = state_copy(r, *s);
        leave_loop(left, op);
        for (unsigned k = 0; k < op->result_count; k++) pass_sum(r, left, op->operands[k + 3], &op->results[k]);
    }
    for (unsigned k = 0; k < op->result_count; k++) pass_sum(r, *s, op->operands[k + 3], body->args[k + 1]);
    head[0] = *s;
    open[0] = true;
    VEC_PUSH(r->arena, &r->loops, op);
    for (int64_t n = 0; !r->failed; n = (n + 1) % period) {
        int64_t waiting = 0;
        while (waiting < period && !open[(n + waiting) % period]) waiting++;
        if (waiting == period) break;
        n = (n + waiting) % period;
        open[n] = false;
        State *now = state_copy(r, head[n]);
        bool follows = walk_iteration(r, op, &now, n, period, turn);
        if (r->failed) break;
        step_ahead(now, op);
        forget_turn(now, turn);
        if (!follows) {
            State *out = state_copy(r, now);
            leave_loop(out, op);
            leave_sums(r, out, op, body, NULL);
            add_state(r, &left, out, &ignored);
        }
        leave_sums(r, now, op, body, body->args + 1);
        if (bounded && n + 1 == period) state_free(r, now);
        else add_state(r, &head[(n + 1) % period], now, &open[(n + 1) % period]);
        if (r->work > r->work_limit) races_fail(r, op, NULL, "the kernel is too long to be walked");
    }
    r->loops.len--;
    for (int64_t n = 0; n < period; n++)
        if (head[n]) state_free(r, head[n]);
    if (!left) left = state_new(r), left->dead = true;
    r->together = together;
    *s = left;
}

static void walk_for(Races *r, const IrOp *op, State **s) {
    int64_t *trips, most;
    if (count_trips(r, op, &trips, &most) && (most <= 2 || (most <= FEW * 16 && most * weight(r, op->regions[0]) * r->threads <= MANY_PLACES)))
        walk_each(r, op, s, trips, most);
    else
        walk_any(r, op, s);
}

/* ---- Ops ---- */

static void walk_op(Races *r, const IrOp *op, State **s) {
    switch (op->opcode) {
    case IR_FOR: walk_for(r, op, s); return;
    case IR_IF: walk_if(r, op, s); return;
    case IR_MAP: walk_map(r, op, s); return;
    case IR_MEM_LOAD:
    case IR_MEM_STORE:
    case IR_MEM_ATOMIC: walk_access(r, *s, op); return;
    case IR_ATOM: walk_matrices(r, *s, op); return;
    case IR_ASYNC_COPY: walk_copy(r, *s, op); return;
    case IR_ASYNC_COMMIT:
        if (r->together) close_group(*s, FLIGHT_COPY);
        return;
    case IR_ASYNC_WAIT:
        if (r->together) finish_groups(r, *s, FLIGHT_COPY, ir_attr_int(op, "pending", 0));
        return;
    case IR_BARRIER:
        if ((*s)->sent && strcmp(ir_attr_str(op, "scope", "block"), "block") == 0)
            races_fail(r, op, NULL, "a barrier of the block between what is sent and the meeting");
        if (r->together) state_barrier(r, *s, ir_attr_str(op, "scope", "block"));
        return;
    case IR_ARRIVE: /* begins with a barrier of the block */
    case IR_MEET:   /* ends with one */
        if (r->together) state_barrier(r, *s, "block");
        return;
    case IR_CLUSTER_BEGUN:
        if (r->together) (*s)->cluster = true;
        return;
    case IR_CLUSTER_SEND: walk_send(r, *s, op); return;
    case IR_CLUSTER_MEET:
        if (r->together) state_meet(r, *s);
        return;
    case IR_MBAR_INIT: races_walk_init(r, *s, op); return;
    case IR_MBAR_DROP: races_walk_drop(r, *s, op); return;
    case IR_MBAR_EXPECT: races_walk_expect(r, *s, op); return;
    case IR_MBAR_WAIT: races_walk_phase(r, *s, op); return;
    case IR_MBAR_ARRIVE: races_walk_arrive(r, *s, op); return;
    case IR_TMA_LOAD: races_walk_box(r, *s, op); return;
    case IR_WGMMA: walk_product(r, *s, op); return;
    case IR_WGMMA_FENCE: (*s)->fenced = true; return;
    case IR_WGMMA_COMMIT:
        close_group(*s, FLIGHT_PRODUCT);
        for (size_t i = 0; i < (*s)->sums.len; i++)
            if ((*s)->sums.data[i].age < OLDEST) (*s)->sums.data[i].age++;
        (*s)->fenced = false;
        return;
    case IR_WGMMA_WAIT: walk_product_wait(r, *s, op); return;
    default: races_fail(r, op, NULL, "it is not known what this op does"); return;
    }
}

static void walk_block(Races *r, const IrBlock *block, State **s) {
    for (const IrOp *op = block->first; op && !r->failed; op = op->next) {
        if ((*s)->sums.len) check_sums(r, *s, op, !r->relevant[op->mark]);
        if (r->relevant[op->mark]) walk_op(r, op, s);
        if (r->work > r->work_limit) races_fail(r, op, NULL, "the kernel is too long to be walked");
    }
}

/* ---- The kernel ---- */

static void find_grain(void *context, IrOp *op) {
    Races *r = context;
    if (op->opcode != IR_SHARED_PTR) return;
    int64_t size = (int64_t)dtype_size(op->results[0].type->dtype), end = ir_attr_int(op, "offset", 0) + ir_attr_int(op, "bytes", 0);
    while (size < r->grain || ir_attr_int(op, "offset", 0) % r->grain) r->grain /= 2;
    if (end > r->shared_bytes) r->shared_bytes = end;
}

/* A block ends when all that others touch in its memory is over. */
static void check_end(Races *r, const State *s) {
    for (size_t i = 0; i < s->flights.len && r->blocks > 1; i++)
        if (s->flights.data[i].record->kind == FLIGHT_BOX) races_fail(r, s->flights.data[i].record->op, NULL, "a block may have ended when a box comes into its memory");
    for (int64_t i = 0; i < r->cells && r->blocks > 1 && !r->failed; i++) {
        const Cell *page = s->pages[i / CELLS];
        if (!page) continue;
        int64_t home = i / (r->shared_bytes / r->grain);
        const Touch *touches[2] = {&page[i % CELLS].write, &page[i % CELLS].read};
        for (unsigned k = 0; k < 2; k++)
            if (touches[k]->who != NOBODY && (touches[k]->who < 0 ? touches[k]->who == ANYBODY : touches[k]->who / r->block_threads != home))
                races_fail(r, touches[k]->op, NULL, "a block may have ended when another touches its memory");
    }
}

static void check_proxies(Races *r) {
    for (int64_t i = 0; i < r->cells && !r->failed; i++)
        if (r->generic[i] && r->engine[i])
            races_fail(r, r->engine_op, r->generic_op, "no proxy fence stands between a thread's write and the copy engine or a product");
}

static Races *create(Arena *scratch, IrFunc *f) {
    Races *r = ARENA_NEW(scratch, Races);
    *r = (Races){.arena = scratch, .module = f->module, .func = f, .affs = f->module->affs, .grain = 8, .copier = NOBODY, .work_limit = INT64_C(400) << 20};
    r->blocks = ir_func_cluster(f);
    r->block_threads = ir_func_attr_int(f, "num_warps", 1) * WARP;
    r->threads = r->blocks * r->block_threads;
    ir_walk(f->body, find_grain, r);
    r->shared_bytes = (r->shared_bytes + 127) / 128 * 128;
    r->cells = r->blocks * (r->shared_bytes / r->grain);
    r->page_count = (size_t)((r->cells + CELLS - 1) / CELLS);
    r->generic = ARENA_ARRAY(scratch, uint8_t, (size_t)r->cells + 1);
    r->engine = ARENA_ARRAY(scratch, uint8_t, (size_t)r->cells + 1);
    r->bits = ARENA_ARRAY(scratch, uint8_t, (size_t)r->cells + 1);
    r->active = ARENA_ARRAY(scratch, uint8_t, (size_t)r->threads);
    r->reaches = ARENA_ARRAY(scratch, Reach, (size_t)r->threads + 4096);
    memset(r->active, 1, (size_t)r->threads);
    r->together = true;
    races_values_init(r);
    ir_walk(f->body, find_relevant, r);
    return r;
}

bool races_absent(Arena *scratch, IrFunc *f, RaceFault *fault) {
    Races *r = create(scratch, f);
    r->facts = r->func_facts = aff_facts_fork(ir_facts_at(scratch, f->body->first));
    State *s = state_new(r);
    walk_block(r, f->body, &s);
    if (!r->failed) check_end(r, s);
    if (!r->failed) check_proxies(r);
    *fault = r->fault;
    return !r->failed;
}
