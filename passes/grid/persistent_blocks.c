/* Pass persistent_blocks: each block that fills a multiprocessor executes several iterations, and loads the rows of the
 * next one while it stores this one's.
 *
 * what:   a kernel with the attribute `resident` (blocks, or clusters, that run at once) whose body is one
 *         iteration without control becomes a loop over iterations, as many apart as run at once. The rows
 *         that it reads before its first reduction are carried: those of the next iteration are loaded at
 *         the end of the body, where their registers are free again. The index of the next row is clamped to the last row, so that
 *         these loads need no condition on whether there is a next iteration.
 * needs:  tile functions in state static, after grid
 * keeps:  values; order within an iteration
 * breaks: grid_x counts what runs at once
 * source: software pipelining of a loop of one stage (Rau); persistent blocks
 *
 *     %m = special() {name = "ctaid.x"}          %b = special() {name = "ctaid.x"}
 *     %x = tile.load(%X, %m, ...)           =>   %0 = tile.load(%X, %b, ...)
 *     ...                                        for(%b, %M, %n, %0) (%m, %x) {
 *     tile.store(%y, %Y, %m, ...)                  ...
 *                                                  tile.store(%y, %Y, %m, ...)
 *                                                  %1 = tile.load(%X, min(%m + %n, M - 1), ...)
 *                                                  yield(%1)
 */

#include "analysis/analysis.h"

enum {
    MOST_CARRIED = 4 /* tiles that are loaded an iteration ahead: room */
};

typedef struct {
    PassContext *ctx;
    IrFunc *func;
    OpList ops;
    IrOp *number; /* special: the iteration of this block or cluster */
    unsigned load_count;
    IrOp *loads[MOST_CARRIED];
    const Aff *iterations;
} PersistentRows;

static bool is_present_alike(PassContext *ctx, IrValue *row) {
    PresenceAxis lanes = presence_of(ctx, row).axes[0];
    return !lanes.hi || (aff_over_symbols(lanes.lo) && aff_over_symbols(lanes.hi));
}

/* The loads before the first reduction of the row; false when the body is not one plain iteration. */
static bool read_body(PersistentRows *t) {
    int64_t lanes = ir_func_int(t->func, IR_FN_ROW_LANES, 0);
    bool folded = false;
    for (size_t i = 0; i < t->ops.len; i++) {
        IrOp *op = t->ops.data[i];
        if (op->region_count || op->opcode == IR_BARRIER) return false;
        if (is_number_along_x(op)) {
            if (t->number) return false;
            t->number = op;
        }
        if (op->opcode == IR_TILE_LOAD && is_stored_to(op->operands[0])) return false;
        /* Index arithmetic is repeated ahead of the loop: nothing that was loaded may be in it. */
        bool scalar = op->result_count && op->results[0].type->kind == IR_TYPE_SCALAR;
        if (scalar && op->opcode != IR_SPECIAL && !is_scalar_arithmetic(op)) return false;
        folded |= ir_has_trait(op, IR_FOLDS);
        if (op->opcode != IR_TILE_LOAD || folded || t->load_count == MOST_CARRIED) continue;
        const IrType *type = op->results[0].type;
        bool row = type->rank == 1 && ir_type_extent(type, 0) == lanes;
        if (row && is_present_alike(t->ctx, &op->results[0])) t->loads[t->load_count++] = op;
    }
    return t->number && t->load_count && folded;
}

static bool is_carried(const PersistentRows *t, const IrOp *op) {
    for (unsigned i = 0; i < t->load_count; i++)
        if (t->loads[i] == op) return true;
    return false;
}

/* The loads at iteration `number`. */
static void prefetch_rows(PersistentRows *t, IrBuilder *b, IrValue *number, IrValue **loaded) {
    IrValueMap *map = ir_value_map_create(t->ctx->scratch);
    ir_value_map_set(map, &t->number->results[0], number);
    for (size_t i = 0; i < t->ops.len; i++) {
        IrOp *op = t->ops.data[i];
        if (op == t->number || !(is_scalar_arithmetic(op) || is_carried(t, op))) continue;
        ir_op_clone(b, op, map);
    }
    for (unsigned i = 0; i < t->load_count; i++) loaded[i] = ir_value_map_get(map, &t->loads[i]->results[0]);
}

static void make_loop(PersistentRows *t) {
    IrFunc *f = t->func;
    IrModule *m = t->ctx->module;
    IrBuilder b = ir_builder_before(f->body->last);
    int64_t cluster = ir_func_cluster(f);
    IrValue *first = &t->number->results[0], *inits[MOST_CARRIED], *next[MOST_CARRIED];
    for (unsigned i = 0; i < t->load_count; i++) inits[i] = &t->loads[i]->results[0];
    IrValue *step = ir_binary(&b, IR_FLOORDIV, ir_special(&b, IR_SPECIAL_NCTAID_X), ir_const_index(&b, cluster));
    IrOp *loop = ir_for(&b, first, ir_aff_emit(&b, t->iterations), step, t->load_count, inits, "item");
    ir_attr_set_bool(loop, "independent", true); /* they were blocks of their own */
    IrBuilder body = ir_builder_at_end(loop->regions[0]);
    IrValueMap *map = ir_value_map_create(t->ctx->scratch);
    ir_value_map_set(map, first, loop->regions[0]->args[0]);
    for (unsigned i = 0; i < t->load_count; i++) ir_value_map_set(map, inits[i], loop->regions[0]->args[1 + i]);
    for (size_t i = 0; i < t->ops.len; i++) {
        IrOp *op = t->ops.data[i];
        if (op != t->number && !is_carried(t, op) && !is_terminator(op)) ir_op_clone(&body, op, map);
    }
    IrValue *last = ir_aff_emit(&body, aff_sub(m->affs, t->iterations, aff_const(m->affs, 1)));
    IrValue *ahead = ir_binary(&body, IR_MIN, ir_binary(&body, IR_ADD, loop->regions[0]->args[0], step), last);
    prefetch_rows(t, &body, ahead, next);
    ir_yield(&body, t->load_count, next);
    for (size_t i = t->ops.len; i-- > 0;) {
        IrOp *op = t->ops.data[i];
        if (!is_terminator(op) && !is_scalar_arithmetic(op) && !is_carried(t, op) && op != t->number) ir_op_erase(op);
    }
}

static void persistent_blocks(PassContext *ctx, IrFunc *f) {
    int64_t resident = ir_func_int(f, IR_FN_RESIDENT, 0);
    const Aff *grid = ir_func_aff(f, IR_FN_GRID_X);
    if (!resident || !grid) return;
    AffCtx *affs = ctx->module->affs;
    const Aff *cluster = aff_const(affs, ir_func_cluster(f));
    PersistentRows t = {.ctx = ctx, .func = f, .ops = ops_collect(ctx->scratch, f->body)};
    if (!read_body(&t)) return;
    t.iterations = aff_floordiv(affs, grid, cluster);
    ir_attr_remove(t.number, "persistent"); /* followed */
    make_loop(&t);
    ir_func_set_aff(f, IR_FN_GRID_X, aff_mul(affs, aff_min(affs, t.iterations, aff_const(affs, resident)), cluster));
}

bool pass_persistent_blocks(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f; f = f->next)
        if (f->level == IR_LEVEL_TILE && f->state == IR_STATE_STATIC) persistent_blocks(ctx, f);
    return true;
}
