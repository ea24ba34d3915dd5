/* Pass sink_single_lane_code: what one thread of a block stores, it computes alone.
 *
 * what:   a store under a mask that is true in one thread only, such as the store of a row's result, becomes a branch. The ops that
 *         only this store needs move into the branch: a logarithm, a root, a quotient, the sum of all warps' partial results.
 *         Otherwise nvcc executes all of them in all threads, and LLVM the sums. Loads of shared memory move along if there is neither
 *         a write nor a synchronisation between them and the store. The pass applies only if nothing but arithmetic and other such
 *         stores follows, and if the moved ops cost at least LEAST: for a few additions a branch does not pay.
 * needs:  kernel level, after programmatic_dependent_launch, before coalesce; target cuda
 * keeps:  values, order of effects
 * breaks: nothing
 * source: sinking of partially dead code (Knoop et al.)
 *
 *     %l = map [1] { log(..) }                             %first = eq(%thread, 0)
 *     %first = eq(%thread, 0)                       =>     if(%first) {
 *     mem.store(frag.get(%l, 0), %Y, %row, %first)           %l = map [1] { log(..) }
 *                                                            mem.store(frag.get(%l, 0), %Y, %row) }
 */

#include "analysis/analysis.h"

enum {
    LEAST = 28,       /* cost of the moved code, in additions: for less a branch does not pay */
    OF_A_QUOTIENT = 8 /* or of a root */
};

typedef struct {
    PassContext *ctx;
    PointerTable taken; /* ops that only the store needs */
    VEC(IrOp *) ops;    /* the last first */
    int64_t cost;
} SingleLane;

static bool tells_warps(const IrValue *v) {
    const IrOp *op = v->def;
    if (!op) return false;
    if (op->opcode == IR_SPECIAL) return ir_op_special(op) == IR_SPECIAL_WARP || ir_op_special(op) == IR_SPECIAL_TID_X;
    bool any = false;
    for (unsigned i = 0; i < op->operand_count && !op->region_count && ir_has_trait(op, IR_PURE); i++) any |= tells_warps(op->operands[i]);
    return any;
}

/* Is it false in all lanes of most warps? A warp that is there for one lane saves nothing. */
static bool asks_for_one(const IrValue *mask) {
    const IrOp *op = mask->def;
    if (!op) return false;
    if (op->opcode == IR_AND) return asks_for_one(op->operands[0]) || asks_for_one(op->operands[1]);
    if (op->opcode != IR_EQ) return false;
    return tells_warps(op->operands[0]) && ir_uniformity(op->operands[0]) == IR_UNIFORM_LANE &&
           ir_uniformity(op->operands[1]) <= IR_UNIFORM_BLOCK;
}

typedef struct {
    bool loads, bound, stays; /* bound: it is for all threads; stays: its place is chosen */
    int64_t cost;
} Content;

static void look_at(void *ctx, IrOp *op) {
    Content *c = ctx;
    bool load = op->opcode == IR_MEM_LOAD;
    c->loads |= load;
    c->stays |= load && op->operands[0]->type->space != IR_SPACE_SHARED; /* far from where it is needed */
    c->bound |= !load && op->opcode != IR_MAP && op->opcode != IR_FOR && !is_terminator(op) && !ir_has_trait(op, IR_PURE);
    c->bound |= op->opcode == IR_SHUFFLE_XOR;
    bool number = op->result_count && op->results[0].type->kind == IR_TYPE_SCALAR && !op->results[0].type->is_index && !op->region_count;
    if (op->opcode == IR_DIV || op->opcode == IR_SQRT)
        c->cost += OF_A_QUOTIENT;
    else
        c->cost += number && !load && op->opcode != IR_CONST && op->opcode != IR_FRAG_GET;
}

static Content content_of(IrOp *op) {
    Content c = {0};
    look_at(&c, op);
    for (unsigned r = 0; r < op->region_count; r++) ir_walk(op->regions[r], look_at, &c);
    return c;
}

/* Is every use the store's value, or in an op that is taken? */
static bool is_for_store(const SingleLane *l, const IrOp *op, const IrOp *store) {
    uint32_t yes;
    for (unsigned r = 0; r < op->result_count; r++)
        for (const IrUse *use = op->results[r].uses; use; use = use->next) {
            const IrOp *user = use->op;
            while (user->block != op->block && user->block->parent) user = user->block->parent;
            if (user == store ? use->index != 0 : !pointer_table_get(&l->taken, user, &yes)) return false;
        }
    return op->result_count != 0;
}

static void take_what_is_for(SingleLane *l, const IrOp *store) {
    bool loads = true; /* what was loaded there is still in memory */
    for (IrOp *op = store->prev; op; op = op->prev) {
        Content c = content_of(op);
        if (!c.bound && !c.stays && (loads || !c.loads) && is_for_store(l, op, store)) {
            pointer_table_set(&l->taken, op, 1);
            VEC_PUSH(l->ctx->scratch, &l->ops, op);
            l->cost += c.cost;
        }
        loads &= !c.bound;
    }
}

static bool is_single_lane_store(const IrOp *op) {
    return op->opcode == IR_MEM_STORE && op->operand_count == 4 && asks_for_one(op->operands[3]);
}

/* Does nothing but numbers and such stores stand behind it? Else what all threads do next would wait at the branch's end. */
static bool is_last(const IrOp *store) {
    for (const IrOp *op = store->next; op; op = op->next)
        if (!is_single_lane_store(op) && !is_terminator(op) && (!ir_has_trait(op, IR_PURE) || op->region_count)) return false;
    return true;
}

static void visit(void *ctx, IrOp *op) {
    PassContext *pass = ctx;
    if (!is_single_lane_store(op) || !is_last(op)) return;
    SingleLane l = {.ctx = pass, .taken = pointer_table(pass->scratch)};
    take_what_is_for(&l, op);
    if (l.cost < LEAST) return;
    IrBuilder b = ir_builder_before(op);
    b.span = op->span;
    IrBlock *body = ir_op_create(&b, IR_IF, 1, &op->operands[3], 0, NULL)->regions[0];
    for (size_t i = l.ops.len; i-- > 0;) ir_op_move_to_end(l.ops.data[i], body);
    IrBuilder in = ir_builder_at_end(body);
    in.span = op->span;
    IrOp *store = ir_op_create(&in, IR_MEM_STORE, 3, op->operands, 0, NULL);
    store->attrs = op->attrs;
    ir_yield(&in, 0, NULL);
    ir_op_erase(op);
}

bool pass_sink_single_lane_code(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f; f = f->next)
        if (f->level == IR_LEVEL_KERNEL) ir_walk(f->body, visit, ctx);
    return true;
}
