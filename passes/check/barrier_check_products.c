/* The walk's products of warpgroups: the factors that they read in flight, and the accumulators that nothing else may touch meanwhile. */
#include "barrier_check.h"

enum {
    GROUP = 4 * WARP, /* threads of a warpgroup */
    ROWS = 64,        /* of a product of one (PTX ISA, wgmma) */
    STEP_BYTES = 32   /* of a factor along k */
};

/* Places of a factor of which a product reads some, of the warpgroup that begins with thread `first`; where they are not known, but the
 * same for all threads: all of the array. */
static void add_factor(BarrierCheck *r, const IrOp *op, unsigned which, int64_t along, int64_t first, size_t *count) {
    const IrValue *rank;
    const IrOp *array = barrier_check_array_of(op->operands[2 * which], &rank);
    const Value *at = barrier_check_value(r, op->operands[2 * which + 1]);
    bool known = at->kind == VALUE_LINEAR && !at->rest;
    if (!array || rank || (!known && !barrier_check_uniform(r, op->operands[2 * which + 1]))) {
        barrier_check_fail(r, op, NULL, "where the product's factor lies is not known");
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
        if (number_of(at, t) != number_of(at, first)) barrier_check_fail(r, op, NULL, "threads of a warpgroup name different factors");
    int64_t blocks = across ? (along * size + swizzle - 1) / swizzle : 1, rows = across ? STEP_BYTES / size : along;
    for (int64_t b = 0; b < blocks && !r->failed; b++) {
        int64_t from = start + b * lead, to;
        to = from + rows * swizzle;
        from -= from % swizzle; /* pieces are permuted within rows */
        to += (swizzle - to % swizzle) % swizzle;
        if (!across) to = from + rows * swizzle;
        if (from < 0 || to > r->shared_bytes) {
            barrier_check_fail(r, op, NULL, "a factor outside of shared memory");
            return;
        }
        r->reaches[(*count)++] = (Reach){base + from / r->grain, base + to / r->grain, own};
    }
}

/* The instruction waits for all lanes of the warp: none of them waits for an earlier phase any longer. */
static void leave_waits(const BarrierCheck *r, State *s) {
    for (size_t i = 0; i < s->mbarriers.len; i++)
        for (int64_t b = 0; b < r->blocks; b++)
            for (int64_t cell = (b * r->shared_bytes + s->mbarriers.data[i].place) / r->grain, end = cell + 8 / r->grain; cell < end;
                 cell++)
                if (s->pages[cell / CELLS]) s->pages[cell / CELLS][cell % CELLS].read.past |= PAST_WARP;
}

void barrier_check_walk_product(BarrierCheck *r, State *s, const IrOp *op) {
    const IrType *acc = op->results[0].type;
    int64_t columns = 2;
    size_t count = 0;
    for (unsigned a = 0; a < acc->rank; a++) columns *= ir_type_extent(acc, a);
    if (!r->together || r->block_threads % GROUP) barrier_check_fail(r, op, NULL, "a warpgroup's instruction that not all threads come to");
    if (!s->fenced) barrier_check_fail(r, op, NULL, "no wgmma.fence stands between the registers' last use and this product");
    for (int64_t first = 0; first < r->threads && !r->failed; first += GROUP) {
        if (op->operands[0]->type->kind != IR_TYPE_FRAG) add_factor(r, op, 0, ROWS, first, &count);
        add_factor(r, op, 1, columns, first, &count);
    }
    if (r->failed) return;
    barrier_check_mark(r, r->engine, r->reaches, count);
    r->engine_op = op;
    leave_waits(r, s);
    const Record *record = barrier_check_record(r, FLIGHT_PRODUCT, op, r->reaches, count, 0);
    state_check_flights(r, s, op, record, false);
    for (size_t i = 0; i < count && !r->failed; i++)
        state_check(r, s, op, r->reaches[i].from, r->reaches[i].to - r->reaches[i].from, (Threads)r->reaches[i].who, false);
    barrier_check_launch(r, s, record);
    VEC_PUSH(r->arena, &s->sums, (InFlight){&op->results[0], 0});
}

void barrier_check_walk_product_wait(BarrierCheck *r, State *s, const IrOp *op) {
    int64_t pending = ir_attr_int(op, "pending", 0);
    if (!r->together) barrier_check_fail(r, op, NULL, "a warpgroup's instruction that not all threads come to");
    barrier_check_finish_groups(r, s, FLIGHT_PRODUCT, pending);
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
    if (ir_attr_bool(op, "done")) barrier_check_fail(r, op, NULL, "the product that is waited for is one of those that may be in flight");
    VEC_PUSH(r->arena, &s->sums, (InFlight){&op->results[0], still});
}

static bool is_in_flight(const State *s, const IrValue *v) {
    for (size_t i = 0; i < s->sums.len; i++)
        if (s->sums.data[i].value == v) return true;
    return false;
}

void barrier_check_sums(BarrierCheck *r, const State *s, const IrOp *op, bool inside) {
    bool passes = op->opcode == IR_WGMMA || op->opcode == IR_WGMMA_WAIT || op->opcode == IR_YIELD || op->opcode == IR_FOR;
    for (unsigned i = 0; i < op->operand_count && !passes; i++)
        if (is_in_flight(s, op->operands[i])) barrier_check_fail(r, op, NULL, "accumulators are used while their product is in flight");
    for (unsigned g = 0; g < op->region_count && inside; g++) /* NOLINTNEXTLINE(*ArrayBound): an op has two regions at most */
        for (const IrOp *o = op->regions[g] ? op->regions[g]->first : NULL; o; o = o->next) barrier_check_sums(r, s, o, true);
}

void barrier_check_pass_sum(BarrierCheck *r, State *s, const IrValue *from, const IrValue *to) {
    for (size_t i = 0, count = s->sums.len; i < count; i++)
        if (s->sums.data[i].value == from) VEC_PUSH(r->arena, &s->sums, (InFlight){to, s->sums.data[i].age});
}

static bool lies_in(const IrValue *v, const IrOp *op) {
    for (const IrBlock *b = v->def ? v->def->block : v->block; b && b->parent; b = b->parent->block)
        if (b->parent == op) return true;
    return false;
}

void barrier_check_leave_sums(BarrierCheck *r, State *s, const IrOp *op, const IrBlock *region, IrValue *const *args) {
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
