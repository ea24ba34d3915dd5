/* Pass cluster_scan: if the rows to scan are few and long, a cluster scans each row, not a single block.
 *
 * what:   a kernel that loads rows of symbolic extent, scans them in one direction and stores one tile of them gets a sibling: one more
 *         step behind it, in which the blocks of a cluster hold consecutive parts of a row (attribute `cluster`, and `blocks_in_order`
 *         for the layouts). Each block scans its part and sends its total to the others (lower_scan.c). A row that is longer than all
 *         blocks hold at once goes chunk by chunk, each chunk spread over the cluster. The sizes of the launch decide which of the two
 *         grids is empty: the original kernel takes rows that one block scans in a single chunk, and rows that are numerous enough to
 *         fill the machine, unless they also fill the lanes of the cluster's blocks. If no case has such sizes, nothing changes.
 * needs:  tile functions in state open, after split_reduction; target cuda with clusters
 * keeps:  values but for the order in which floats are summed; names
 * breaks: steps are numbered anew
 * source: reduce-then-scan over distributed shared memory
 *
 *     parallel(0, M) (%m) {            parallel(0, 1 - spread) { as it was }, and
 *       %x = tile.load(%X, %m, 0, N)   parallel(0, spread) { parallel(0, M) (%m) { ... } } in a function
 *       %y = tile.scan(%x)        =>   {cluster = [8, 1, 1], blocks_in_order = 1, num_warps = 8, row_lanes = 32768}
 *       tile.store(%y, %Y, %m, 0, N) }
 */

#include "analysis/analysis.h"

/* BLOCKS hold a row. Rows are few as long as all of their blocks are PLACES a multiprocessor at most (PLACES = 0: the pass does nothing), whatever of
 * the blocks' lanes they fill. Where they fill seven eighths, up to MORE_PLACES; where they do and are held at once, up to MOST_ROWS (0: as others).
 * Many rows only where a lane is MANY_BYTES of memory or more: what the blocks tell each other takes the time that half of them take (f16: 1.41 of the
 * floor, a block a row 1.13). */
enum { BLOCKS = 8, MANY_BYTES = 8, PLACES = 4, MORE_PLACES = 48, MOST_ROWS = 1 << 27, STEP_LANES = 16, MOST_SCANS = 4 };

typedef struct {
    PassContext *ctx;
    IrFunc *func;
    int64_t lane_bytes;       /* that a lane loads and stores */
    DerivedSymbol room, used; /* how much longer rows are than they have to be, or fewer; 1 where they are, else 0 */
} ClusterScan;

/* Does the op neither fold nor move lanes, or scan a row of numbers that a block can send? */
static bool is_taken(const Axes *axes, const IrOp *op, size_t index, unsigned *scans, int *reverse) {
    for (unsigned r = 0; r < op->result_count; r++)
        if (is_tile(&op->results[r]) && op->results[r].type->rank > 1) return false;
    if (op->opcode == IR_TILE_SCAN) {
        size_t size = dtype_size(op->results[0].type->dtype);
        int own = ir_attr_bool(op, "reverse");
        if (op->operand_count > 1) return false; /* pairs: blocks send one number */
        if (axes_find(axes, op->operands[0], index) != ir_attr_int(op, "axis", -2) || (size != 4 && size != 8)) return false;
        if (++*scans > MOST_SCANS || (*reverse >= 0 && *reverse != own)) return false;
        *reverse = own;
        return true;
    }
    bool access = op->opcode == IR_TILE_LOAD || op->opcode == IR_TILE_STORE;
    if (access) return !slice_gathers(op) && !ir_attr(op, "steps") && !(op->opcode == IR_TILE_LOAD && is_stored_to(op->operands[0]));
    return op->opcode == IR_PARALLEL || op->opcode == IR_CONST || op->opcode == IR_TILE_BROADCAST || op->opcode == IR_TILE_IOTA ||
           is_terminator(op) || is_scalar_arithmetic(op) || ir_has_trait(op, IR_ELEMENTWISE);
}

/* The rows' axis, along which the kernel does no more than to scan and to store once. */
static bool is_scanned_along(const Axes *axes, const OpList *ops, size_t index) {
    const AxisClass *c = axes_class(axes, index);
    unsigned scans = 0, stores = 0;
    int reverse = -1;
    const IrOp *store = NULL;
    if (c->constant >= 0 || !c->scanned || !c->innermost || c->reduced || c->contracted || c->multiplied || c->sorted || c->sliced ||
        c->rigid)
        return false;
    if (!aff_over_symbols(c->extent)) return false;
    for (size_t i = 0; i < ops->len; i++) {
        const IrOp *op = ops->data[i];
        if (!is_taken(axes, op, index, &scans, &reverse)) return false;
        if (op->opcode != IR_TILE_STORE) continue;
        if (!axes_touch(axes, op, index) || ir_op_mode(op) != IR_KIND_SET) return false;
        store = op, stores++;
    }
    return scans && stores == 1 && is_plain_nest(ops, store->block);
}

static int64_t bytes_of_lane(const Axes *axes, const OpList *ops, size_t index) {
    int64_t bytes = 0;
    for (size_t i = 0; i < ops->len; i++) {
        const IrOp *op = ops->data[i];
        bool load = op->opcode == IR_TILE_LOAD;
        if ((load || op->opcode == IR_TILE_STORE) && axes_touch(axes, op, index))
            bytes += (int64_t)dtype_size((load ? &op->results[0] : op->operands[0])->type->dtype);
    }
    return bytes;
}

/* The most rows that are a cluster's each. */
static const Aff *most_rows(const ClusterScan *s, const Aff *extent) {
    const Target *t = s->ctx->target;
    AffCtx *c = s->ctx->module->affs;
    int64_t places = (int64_t)t->sms / BLOCKS;
    if (s->lane_bytes < MANY_BYTES) return aff_const(c, PLACES * places);
    const Aff *lanes = aff_const(c, BLOCKS * t->row_chunk), *held = aff_mul(c, aff_ceildiv(c, extent, lanes), lanes);
    const Aff *beyond = aff_sub(c, aff_mul(c, extent, aff_const(c, 8)), aff_mul(c, held, aff_const(c, 7)));
    const Aff *zero = aff_const(c, 0), *one = aff_const(c, 1), *fills = aff_add(c, beyond, one),
              *fits = aff_add(c, aff_sub(c, lanes, extent), one);
    const Aff *filled = aff_max(c, zero, aff_min(c, one, fills)), *at_once = aff_max(c, zero, aff_min(c, one, aff_min(c, fills, fits)));
    const Aff *more = aff_mul(c, aff_const(c, (MORE_PLACES - PLACES) * places), filled);
    return aff_add(c, aff_const(c, PLACES * places), aff_add(c, more, aff_mul(c, aff_const(c, MOST_ROWS), at_once)));
}

/* Positive where a launch's rows are. */
static const Aff *room_for(const ClusterScan *s, const Aff *rows, const Aff *extent) {
    AffCtx *c = s->ctx->module->affs;
    const Aff *few = aff_sub(c, aff_add(c, most_rows(s, extent), aff_const(c, 1)), rows);
    return aff_max(c, aff_const(c, 0),
                   aff_min(c, aff_sub(c, extent, aff_const(c, s->ctx->target->row_large)), few)); /* symbols are not negative */
}

static const Aff *used_with(const ClusterScan *s, const Aff *room) {
    AffCtx *c = s->ctx->module->affs;
    return aff_min(c, aff_const(c, 1), room);
}

static bool find(ClusterScan *s) {
    const Target *t = s->ctx->target;
    OpList ops = ops_collect(s->ctx->scratch, s->func->body);
    const Axes *axes = axes_analyse(s->ctx->scratch, s->func);
    const Aff *rows = parallel_iterations(s->ctx->module, &ops);
    if (!PLACES || !target_has(t, TARGET_CLUSTER) || !t->sms || !rows || ir_func_has(s->func, IR_FN_NUM_WARPS)) return false;
    for (size_t i = 0; i < axes_count(axes); i++) {
        if (!is_scanned_along(axes, &ops, i)) continue;
        s->lane_bytes = bytes_of_lane(axes, &ops, i);
        const Aff *room = room_for(s, rows, axes_class(axes, i)->extent);
        if (!step_is_asked_for(s->ctx, s->func, used_with(s, room))) return false;
        s->room = derived_symbol(s->ctx->module, "room", room);
        s->used = derived_symbol(s->ctx->module, "spread", used_with(s, s->room.name));
        return true;
    }
    return false;
}

static void make_sibling(ClusterScan *s) {
    IrModule *m = s->ctx->module;
    const char *name = s->func->name;
    int64_t step = ir_step_order(s->func), lanes = BLOCKS * s->ctx->target->row_chunk;
    steps_make_room(m, step, 1);
    IrFunc *together = ir_func_clone(s->func, name);
    step_name(s->func, name, step);
    step_name(together, step_new_name(m, name, "together"), step + 1);
    IrFunc *steps[] = {s->func, together};
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        func_add_symbol(steps[i], s->room);
        func_add_symbol(steps[i], s->used);
    }
    step_repeat(s->func, aff_sub(m->affs, aff_const(m->affs, 1), s->used.name), "alone");
    step_repeat(together, s->used.name, "used");
    ir_func_set_ints(together, IR_FN_CLUSTER, 3, (int64_t[]){BLOCKS, 1, 1});
    ir_func_set_int(together, IR_FN_BLOCKS_IN_ORDER, 1);
    ir_func_set_int(together, IR_FN_NUM_WARPS, lanes / BLOCKS / STEP_LANES / 32);
    ir_func_set_int(together, IR_FN_ROW_LANES, lanes);
}

bool pass_cluster_scan(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first, *next; f; f = next) {
        next = f->next;
        if (f->level != IR_LEVEL_TILE || f->state != IR_STATE_OPEN) continue;
        ClusterScan found = {.ctx = ctx, .func = f};
        if (find(&found)) make_sibling(&found);
    }
    return true;
}
