/* Pass fuse_by_grid_barrier: two steps whose blocks work on the same chunks become one launch. The second part of a row's chunk runs after
 * the first part of all chunks of that row.
 *
 * what:   a step with the attribute `fuse_behind` names a step with the same grid. Each block of the fused step takes several chunks, one after the other. For each
 *         chunk it executes the first step's body, waits for the other blocks of the row (`of_row` blocks a row), and then executes
 *         the second step's body: both bodies read the chunk, which is thus read once. All blocks of the launch are resident at once
 *         (cooperative launch), as many as the versions' registers allow (min_blocks); the step before sets the counters to zero.
 *         There is no deadlock if a row has no more blocks than the launch: blocks take rows in ascending order, so that the first
 *         unfinished row is the first one for all of its blocks, and these can always go on.
 *         Versions are paired by guard; if one has no partner, the steps stay two.
 *         With the attribute `pipelined_consumer`, a block executes the first part of its next chunk before the second part of this one. Partial
 *         results are then published and awaited one by one, without counters and fences. A block publishes before it waits, so that
 *         there is no deadlock either. Data that both parts load are copied to shared memory one iteration ahead (prefetch_for_consumer).
 * needs:  kernel functions, after lower_to_threads; target cuda
 * keeps:  values
 * breaks: grid_x; a step is gone
 * source: own; persistent blocks and barriers among those that share a row
 *
 *     @shares grid N: A(ctaid.x)               @kept grid min(N, resident), cooperative:
 *     @kept   grid N: B(ctaid.x)          =>     for(ctaid.x, N, nctaid.x) (%item) {
 *                                                  A(%item); grid_barrier.arrive(%counters, %item // K); grid_barrier.wait(%counters, %item // K, K); B(%item); barrier() }
 *
 *     lags:  for(0, iterations + 1) (%t) { if(%t < iterations) { A(%coming); publish } { barrier() }  if(0 < %t) { await; B(%item of t - 1) } { barrier() } }
 */
#include <string.h>

#include "analysis/analysis.h"
#include "analyzer.h"
#include "gpu.h"
#include "pipelined_consumer.h"

static bool has_same_shape(const IrFunc *f, const IrFunc *g) {
    static const IrFuncInt keys[] = {IR_FN_NUM_WARPS, IR_FN_VECTOR_BYTES, IR_FN_MIN_BLOCKS};
    for (size_t i = 0; i < COUNT_OF(keys); i++)
        if (ir_func_int(f, keys[i], 0) != ir_func_int(g, keys[i], 0)) return false;
    return f->guard == g->guard && ir_func_aff(f, IR_FN_GRID_X) && ir_func_aff(f, IR_FN_GRID_X) == ir_func_aff(g, IR_FN_GRID_X) &&
           ir_func_cluster(f) == 1 && ir_func_cluster(g) == 1;
}

/* The version of the step that `f` meets; null: there is none. */
static IrFunc *partner_of(const IrFunc *f) {
    const char *name = ir_func_str(f, IR_FN_FUSE_BEHIND, "");
    for (IrFunc *g = f->module->first; g; g = g->next)
        if (g->level == IR_LEVEL_KERNEL && strcmp(ir_step_name(g), name) == 0 && has_same_shape(f, g)) return g;
    return NULL;
}

static bool all_have_partners(const IrFunc *first) {
    for (const IrFunc *f = first; f; f = f->next)
        if (is_same_kernel(f, first) && (!partner_of(f) || ir_func_aff(f, IR_FN_GRID_X) != ir_func_aff(first, IR_FN_GRID_X))) return false;
    return true;
}

/* The body of `from` at the builder, for item number `item`. */
static void place(PassContext *ctx, IrBuilder *b, const IrFunc *from, IrFunc *to, IrValue *item) {
    IrValueMap *map = ir_value_map_create(ctx->scratch);
    for (unsigned i = 0; i < from->param_count; i++) ir_value_map_set(map, from->body->args[i], param_named(to, from->params[i].name));
    for (IrOp *op = from->body->first; op; op = op->next) {
        bool number = ir_op_special(op) == IR_SPECIAL_CTAID_X;
        if (number)
            ir_value_map_set(map, &op->results[0], item);
        else if (!is_terminator(op))
            ir_op_clone(b, op, map);
    }
}

/* ---- What both bodies load ---- */

static bool is_only_read(const IrValue *ptr) {
    for (const IrUse *use = ptr->uses; use; use = use->next)
        if (use->op->opcode != IR_MEM_LOAD) return false;
    return !ptr->def && !ptr->block->parent;
}

static bool is_same_value(IrValueMap *map, IrValue *a, const IrValue *b) {
    bool constants = a->def && b->def && a->def->opcode == IR_CONST && b->def->opcode == IR_CONST;
    return ir_value_map_get(map, a) == b || (constants && ir_same_op(a->def, b->def));
}

static const IrOp *past_constants(const IrOp *op) {
    while (op && op->opcode == IR_CONST) op = op->next;
    return op;
}

/* Do two maps without effects come to the same, as memory that is only read stays as it is? */
static bool is_same_map(PassContext *ctx, const IrOp *a, const IrOp *b) {
    if (a->result_count != 1 || !ir_same_op(a, b)) return false;
    IrValueMap *map = ir_value_map_create(ctx->scratch);
    const IrBlock *in = a->regions[0], *other = b->regions[0];
    if (in->arg_count != other->arg_count) return false;
    for (unsigned i = 0; i < in->arg_count; i++) ir_value_map_set(map, in->args[i], other->args[i]);
    const IrOp *p = past_constants(in->first), *q = past_constants(other->first);
    for (; p && q; p = past_constants(p->next), q = past_constants(q->next)) {
        bool fine = ir_has_trait(p, IR_PURE) || is_terminator(p) || (p->opcode == IR_MEM_LOAD && is_only_read(p->operands[0]));
        if (!fine || p->region_count || !ir_same_op(p, q)) return false;
        for (unsigned i = 0; i < p->operand_count; i++)
            if (!is_same_value(map, p->operands[i], q->operands[i])) return false;
        for (unsigned i = 0; i < p->result_count; i++) ir_value_map_set(map, &p->results[i], &q->results[i]);
    }
    return !p && !q;
}

/* A fragment that was loaded before the meeting is not loaded again behind it. */
static void keep_loads(PassContext *ctx, IrBlock *body) {
    for (IrOp *op = body->first, *next; op; op = next) {
        next = op->next;
        if (op->opcode != IR_MAP || op->result_count != 1) continue;
        for (const IrOp *before = body->first; before != op; before = before->next) {
            if (before->opcode != IR_MAP || !is_same_map(ctx, before, op)) continue;
            ir_replace_uses(&op->results[0], (IrValue *)&before->results[0]);
            ir_op_erase(op);
            break;
        }
    }
}

/* What one body stores and the other loads is no longer memory that is only read. */
static void drop_promises(void *ctx, IrOp *op) {
    (void)ctx;
    if (op->opcode == IR_MEM_LOAD && !is_only_read(op->operands[0])) ir_attr_remove(op, "predicated");
}

/* ---- The step ---- */

/* The loop's bound as a derived symbol: no register holds it from iteration to iteration. */
static IrValue *item_count(IrFunc *f, const char *name, const Aff *items) {
    IrValue *arg = ir_func_add_param(f, IR_PARAM_SYMBOL, name, ir_type_index(f->module), IR_DIR_IN);
    f->params[arg->index].derived = items;
    return arg;
}

/* As many blocks as run at once, all of them, `row` of which wait for each other. */
static void make_resident(IrFunc *f, const Aff *items, const Aff *row) {
    AffCtx *c = f->module->affs;
    const Aff *resident = aff_mul(c, aff_sym(c, "num_sms"), aff_const(c, ir_func_int(f, IR_FN_MIN_BLOCKS, 1)));
    ir_func_set_aff(f, IR_FN_GRID_X, aff_min(c, items, resident));
    ir_func_set_aff(f, IR_FN_MEETING, row);
    ir_func_set_int(f, IR_FN_COOPERATIVE, 1);
}

static void join(PassContext *ctx, IrFunc *f, const IrFunc *before, const char *items_name) {
    const Aff *items = ir_func_aff(f, IR_FN_GRID_X), *row = ir_func_aff(f, IR_FN_OF_ROW);
    IrOp *end = f->body->last, *old = f->body->first == end ? NULL : f->body->first;
    IrBuilder b = ir_builder_before(f->body->first);
    IrOp *loop = ir_for(&b, ir_special(&b, IR_SPECIAL_CTAID_X), item_count(f, items_name, items), ir_special(&b, IR_SPECIAL_NCTAID_X), 0,
                        NULL, "item");
    IrValue *item = loop->regions[0]->args[0];
    IrBuilder in = ir_builder_at_end(loop->regions[0]);
    place(ctx, &in, before, f, item);
    IrValue *count = ir_aff_emit(&in, row);
    IrValue *operands[] = {param_named(f, ir_func_str(f, IR_FN_COUNTERS, "")), ir_binary(&in, IR_FLOORDIV, item, count), count};
    ir_op_create(&in, IR_GRID_BARRIER_ARRIVE, 2, operands, 0, NULL);
    ir_op_create(&in, IR_GRID_BARRIER_WAIT, 3, operands, 0, NULL);
    for (IrOp *op = old, *next; op != end; op = next) {
        ANALYZER_ASSUME(op); /* the end stands behind it */
        next = op->next;
        bool number = ir_op_special(op) == IR_SPECIAL_CTAID_X;
        if (number) {
            ir_replace_uses(&op->results[0], item);
            ir_op_erase(op);
        } else {
            ir_op_move_to_end(op, loop->regions[0]);
        }
    }
    /* The next iteration writes to the shared memory that this one read. */
    build_barrier(&in, IR_SCOPE_BLOCK);
    ir_yield(&in, 0, NULL);
    int64_t own = ir_func_int(f, IR_FN_SHARED_BYTES, 0), other = ir_func_int(before, IR_FN_SHARED_BYTES, 0);
    if (own || other) ir_func_set_int(f, IR_FN_SHARED_BYTES, own > other ? own : other);
    make_resident(f, items, row);
    ir_simplify(f);
    keep_loads(ctx, loop->regions[0]);
    ir_walk(f->body, drop_promises, NULL);
}

/* ---- The step whose blocks map an item an iteration behind its sums ---- */

/* What one part stores of a workspace and the other loads is published and awaited, element by element. */
static void tell(IrFunc *f, const IrOp *first, const IrOp *second) {
    for (unsigned i = 0; i < f->param_count; i++) {
        bool stored = false, loaded = false;
        if (f->params[i].kind != IR_PARAM_WORKSPACE) continue;
        for (const IrUse *use = f->body->args[i]->uses; use; use = use->next) {
            stored |= use->op->opcode == IR_MEM_STORE && is_inside_op(use->op->block, first);
            loaded |= use->op->opcode == IR_MEM_LOAD && is_inside_op(use->op->block, second);
        }
        for (const IrUse *use = f->body->args[i]->uses; stored && loaded && use; use = use->next)
            ir_attr_set_bool(use->op, use->op->opcode == IR_MEM_STORE ? "publishes" : "awaits", true);
    }
}

/* Behind the other part's shared memory. */
static void move_shared(void *context, IrOp *op) {
    const int64_t *by = context;
    if (op->opcode == IR_SHARED_PTR) ir_attr_set_int(op, "offset", ir_attr_int(op, "offset", 0) + *by);
}

static IrValue *item_of(const PipelinedConsumer *consumer, IrBuilder *b, IrValue *iteration) {
    return ir_binary(b, IR_ADD, consumer->block, ir_binary(b, IR_MUL, iteration, consumer->blocks));
}

static IrOp *branch(IrBuilder *b, IrValue *condition) {
    return ir_op_create(b, IR_IF, 1, &condition, 0, NULL);
}

/* How many items the block has: (items - block) / blocks, rounded up. */
static IrValue *iterations_of(const PipelinedConsumer *consumer, IrBuilder *b, IrValue *items) {
    IrValue *left =
        ir_binary(b, IR_SUB, ir_binary(b, IR_ADD, items, consumer->blocks), ir_binary(b, IR_ADD, consumer->block, ir_const_index(b, 1)));
    return ir_binary(b, IR_FLOORDIV, left, consumer->blocks);
}

static bool has_barrier(const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next)
        if (is_barrier(op, IR_SCOPE_BLOCK)) return true;
    return false;
}

/* Between a part's accesses of its shared memory in two iterations stands a barrier of the other part, which all iterations have: where
 * the other does nothing it is a barrier, too. */
static void separate_iterations(PassContext *ctx, const PipelinedConsumer *consumer) {
    IrOp *const parts[] = {consumer->first, consumer->second};
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        share_barriers(ctx->scratch, parts[i]->regions[0]);
        IrBuilder end = ir_builder_before(parts[i]->regions[0]->last);
        if (!has_barrier(parts[i]->regions[0])) build_barrier(&end, IR_SCOPE_BLOCK);
        IrBuilder other = ir_builder_at_end(parts[i]->regions[1]);
        build_barrier(&other, IR_SCOPE_BLOCK);
        ir_yield(&other, 0, NULL);
    }
}

static void join_pipelined(PassContext *ctx, IrFunc *f, const IrFunc *before, const char *items_name) {
    const Aff *items = ir_func_aff(f, IR_FN_GRID_X), *row = ir_func_aff(f, IR_FN_OF_ROW);
    int64_t own = whole_lines(ir_func_int(f, IR_FN_SHARED_BYTES, 0)), other = ir_func_int(before, IR_FN_SHARED_BYTES, 0);
    IrOp *end = f->body->last, *old = f->body->first;
    IrBuilder b = ir_builder_before(old);
    IrValue *zero = ir_const_index(&b, 0), *one = ir_const_index(&b, 1);
    PipelinedConsumer consumer = {.block = ir_special(&b, IR_SPECIAL_CTAID_X), .blocks = ir_special(&b, IR_SPECIAL_NCTAID_X)};
    consumer.iterations = iterations_of(&consumer, &b, item_count(f, items_name, items));
    consumer.loop = ir_for(&b, zero, ir_binary(&b, IR_ADD, consumer.iterations, one), one, 0, NULL, "item");
    IrValue *iteration = consumer.loop->regions[0]->args[0];
    IrBuilder in = ir_builder_at_end(consumer.loop->regions[0]);
    consumer.first = branch(&in, ir_binary(&in, IR_LT, iteration, consumer.iterations));
    IrBuilder first = ir_builder_at_end(consumer.first->regions[0]);
    consumer.coming = item_of(&consumer, &first, iteration);
    place(ctx, &first, before, f, consumer.coming);
    ir_walk(consumer.first->regions[0], move_shared, &own);
    ir_yield(&first, 0, NULL);
    consumer.second = branch(&in, ir_binary(&in, IR_LT, zero, iteration));
    IrBuilder second = ir_builder_at_end(consumer.second->regions[0]);
    consumer.item = item_of(&consumer, &second, ir_binary(&second, IR_SUB, iteration, one));
    for (IrOp *op = old, *next; op != end; op = next) {
        ANALYZER_ASSUME(op); /* the end stands behind it */
        next = op->next;
        bool number = ir_op_special(op) == IR_SPECIAL_CTAID_X;
        if (number) {
            ir_replace_uses(&op->results[0], consumer.item);
            ir_op_erase(op);
        } else {
            ir_op_move_to_end(op, consumer.second->regions[0]);
        }
    }
    ir_yield(&second, 0, NULL);
    ir_yield(&in, 0, NULL);
    ir_func_set_int(f, IR_FN_SHARED_BYTES, own + other);
    make_resident(f, items, row);
    tell(f, consumer.first, consumer.second);
    ir_walk(f->body, drop_promises, NULL);
    prefetch_for_consumer(ctx, f, &consumer);
    ir_simplify(f);
    separate_iterations(ctx, &consumer);
}

static void remove_versions(IrModule *m, const char *name) {
    for (IrFunc *f = m->first, *next; f; f = next) {
        next = f->next;
        if (f->level == IR_LEVEL_KERNEL && strcmp(ir_step_name(f), name) == 0) ir_func_remove(f);
    }
}

bool pass_fuse_by_grid_barrier(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f; f = f->next) {
        bool meets = ir_func_has(f, IR_FN_FUSE_BEHIND);
        if (f->level != IR_LEVEL_KERNEL || !meets || ir_func_has(f, IR_FN_MEETING) || !all_have_partners(f)) continue;
        const char *name = ir_func_str(f, IR_FN_FUSE_BEHIND, ""), *items = param_new_name(ctx->module, "items");
        for (IrFunc *g = f; g; g = g->next)
            if (is_same_kernel(g, f)) (ir_func_int(g, IR_FN_PIPELINED_CONSUMER, 0) ? join_pipelined : join)(ctx, g, partner_of(g), items);
        remove_versions(ctx->module, name);
    }
    return true;
}
