/* Reductions that need nothing of each other wait once: the partial results of both are in shared memory before a barrier, and are combined behind it.
 *
 *   store(%p, %P); barrier; %s = load(%P); store(%q, %Q); barrier; %t = load(%Q)
 *     =>  store(%p, %P); store(%q, %Q); barrier; %s = load(%P); %t = load(%Q)
 *
 * Not a pass: fuse_by_grid_barrier asks for it where what is between two barriers is known to be reductions. */

#include "analysis/analysis.h"
#include "pipelined_consumer.h"

typedef struct {
    bool known; /* nothing else than loads, stores, shuffles and arithmetic */
    Arena *scratch;
    VEC(const IrOp *) loaded, stored; /* pointers into shared memory */
} Touched;

static void look(void *context, IrOp *op) {
    Touched *t = context;
    if (op->opcode == IR_MEM_LOAD || op->opcode == IR_MEM_STORE) {
        bool store = op->opcode == IR_MEM_STORE;
        const IrValue *pointer = op->operands[store];
        if (pointer->type->space == IR_SPACE_GLOBAL) {
            t->known &= !store;
        } else if (pointer->def && pointer->def->opcode == IR_SHARED_PTR) {
            if (store)
                VEC_PUSH(t->scratch, &t->stored, pointer->def);
            else
                VEC_PUSH(t->scratch, &t->loaded, pointer->def);
        } else {
            t->known = false;
        }
        return;
    }
    bool plain =
        ir_has_trait(op, IR_PURE) || op->opcode == IR_MAP || op->opcode == IR_FOR || op->opcode == IR_SHUFFLE_XOR || is_terminator(op);
    t->known &= plain;
}

static void look_at(Touched *t, IrOp *op) {
    look(t, op);
    for (unsigned r = 0; r < op->region_count; r++) ir_walk(op->regions[r], look, t);
}

static Touched touched_between(Arena *scratch, IrOp *from, const IrOp *to) {
    Touched t = {.known = true, .scratch = scratch};
    for (IrOp *op = from; op && op != to; op = op->next) look_at(&t, op);
    return t;
}

static bool overlap(const IrOp *p, const IrOp *q) {
    int64_t a = ir_attr_int(p, "offset", 0), b = ir_attr_int(q, "offset", 0);
    return a < b + ir_attr_int(q, "bytes", 0) && b < a + ir_attr_int(p, "bytes", 0);
}

static bool any_overlap(const IrOp *const *a, size_t n, const IrOp *const *b, size_t k) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < k; j++)
            if (overlap(a[i], b[j])) return true;
    return false;
}

typedef struct {
    PointerTable values;
    bool some;
} Needs;

static void look_for_need(void *context, IrOp *op) {
    Needs *n = context;
    uint32_t seen;
    for (unsigned i = 0; i < op->operand_count; i++) n->some |= pointer_table_get(&n->values, op->operands[i], &seen);
}

static bool needs(Needs *n, IrOp *op) {
    n->some = false;
    look_for_need(n, op);
    for (unsigned r = 0; r < op->region_count; r++) ir_walk(op->regions[r], look_for_need, n);
    return n->some;
}

/* What reads the stores in front of the barrier, and all that is made of it; false where memory is touched with that, or read that what
 * stands behind the next barrier stores: nothing would be between. */
static bool find_late(Arena *scratch, IrOp *barrier, const IrOp *next, const Touched *before, const Touched *after, OpList *late) {
    Needs n = {.values = pointer_table(scratch)};
    for (IrOp *op = barrier->next; op != next; op = op->next) {
        Touched own = {.known = true, .scratch = scratch};
        look_at(&own, op);
        bool reads = any_overlap(own.loaded.data, own.loaded.len, before->stored.data, before->stored.len);
        if (!reads && !needs(&n, op)) continue;
        if (own.stored.len || op->opcode == IR_SHUFFLE_XOR) return false;
        if (any_overlap(own.loaded.data, own.loaded.len, after->stored.data, after->stored.len)) return false;
        for (unsigned i = 0; i < op->result_count; i++) pointer_table_set(&n.values, &op->results[i], 1);
        VEC_PUSH(scratch, late, op);
    }
    return true;
}

static const IrOp *next_barrier(const IrOp *op) {
    while (op && !is_barrier(op, IR_SCOPE_BLOCK)) op = op->next;
    return op;
}

/* Is the barrier needed no more once what it was for stands behind the next one? */
static bool merge(Arena *scratch, IrOp *begin, IrOp *barrier, IrOp *next) {
    Touched before = touched_between(scratch, begin, barrier), between = touched_between(scratch, barrier->next, next),
            after = touched_between(scratch, next->next, next_barrier(next->next));
    OpList late = {0};
    if (!before.known || !between.known) return false;
    if (any_overlap(before.stored.data, before.stored.len, between.stored.data, between.stored.len) ||
        any_overlap(before.loaded.data, before.loaded.len, between.stored.data, between.stored.len) ||
        any_overlap(after.stored.data, after.stored.len, before.stored.data, before.stored.len))
        return false;
    if (!find_late(scratch, barrier, next, &before, &after, &late)) return false;
    IrOp *place = next->next;
    for (size_t i = 0; i < late.len; i++) ir_op_move_before(late.data[i], place);
    ir_op_erase(barrier);
    return true;
}

void share_barriers(Arena *scratch, IrBlock *block) {
    IrOp *begin = block->first;
    for (IrOp *op = block->first, *after; op; op = after) {
        after = op->next;
        if (!is_barrier(op, IR_SCOPE_BLOCK)) continue;
        IrOp *next = (IrOp *)next_barrier(op->next);
        if (!next) return;
        if (merge(scratch, begin, op, next))
            after = next;
        else
            begin = op->next;
    }
}
