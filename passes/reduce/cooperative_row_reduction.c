/* Pass cooperative_row_reduction: rows that only many blocks together can hold are reduced and mapped by the same blocks.
 *
 * what:   three steps that reduce parts of rows, finish these reductions, and map the rows by what comes out,
 *           A   W[r, i] = fold(f(X[r, i, :]))      F   V[r] = g(fold(W[r, :]))      B   Y[r, i, t] = h(X[r, i, t], V[r])
 *         get a sibling of three other steps; by the sizes of the launch the grids of the ones or the others are empty:
 *           zeros     counters, one a row; where blocks await each other's sums, these
 *           shares    A for a chunk of a row in place of X[r, i, :], into a workspace of all chunks' partial results
 *           kept      F and B for the same chunk: each block finishes the row for itself, in the order of the chunks
 *         `shares` and `kept` have the same grid, row by row, so that fuse_by_grid_barrier can join them: the chunk is then read once.
 *         The new steps are used if all of this holds: a row has several chunks; all blocks of one row are resident at once (of two rows
 *         where blocks meet at a counter, so that one row's blocks load and store while the other's wait); chunks are at least half
 *         full; there are more rows than are resident at once; a row's partial results are small against what is read; and X is larger
 *         than the L2, which otherwise would hold it for the second reading. The sibling is made only if a case has such a size.
 * needs:  tile functions in state open, before split_reduction; target cuda
 * keeps:  values but for the order in which floats are summed; names
 * breaks: steps are numbered anew
 * source: own; the whole grid on a row, as persistent kernels with grid-wide barriers have it
 */
#include "analysis/analysis.h"
#include "cooperative_row_internal.h"

#include <string.h>

/* A thread's lanes fill half of its registers; as much again is under way to the shared memory. Blocks wait at a counter. */
static const Shape meeting = {.threads = 512, .lanes = 64, .blocks = 1, .teams = 2};

/* Blocks publish sums that others await, and map a chunk while the row's other blocks sum theirs. */
static const Shape pipelined_shape = {.threads = 512, .lanes = 64, .blocks = 1, .teams = 1, .pipelined = true};

int64_t cooperative_chunk_of(const Rows *r) {
    return r->shape->threads * r->shape->lanes;
}

/* ---- What the steps are ---- */

static bool is_zero(IrModule *m, IrValue *v) {
    int64_t value;
    return aff_is_const(ir_aff_of(m, v), &value) && value == 0;
}

/* Loops from 0 by 1, one in the other, around all effects. */
static bool read_nest(Rows *r, Step *s, IrFunc *func, unsigned depth) {
    IrModule *m = r->ctx->module;
    s->func = func;
    s->ops = ops_collect(r->ctx->scratch, func->body);
    s->depth = 0;
    for (size_t i = 0; i < s->ops.len; i++) {
        IrOp *op = s->ops.data[i];
        int64_t step;
        if (!op->region_count) continue;
        if (op->opcode != IR_PARALLEL || s->depth == depth || !aff_over_symbols(loop_trips(m, op))) return false;
        if (!is_zero(m, op->operands[0]) || !aff_is_const(ir_aff_of(m, op->operands[2]), &step) || step != 1) return false;
        s->loops[s->depth++] = op;
    }
    if (s->depth != depth) return false;
    s->inner = s->loops[depth - 1]->regions[0];
    return is_plain_nest(&s->ops, s->inner);
}

static bool is_variable(const Step *s, const IrValue *v) {
    for (unsigned i = 0; i < s->depth; i++)
        if (s->loops[i]->regions[0]->args[0] == v) return true;
    return false;
}

static const Aff *trips_of(Rows *r, const IrValue *variable) {
    return loop_trips(r->ctx->module, variable->block->parent);
}

const char *cooperative_workspace_of(const IrFunc *f, const IrValue *memory) {
    bool is = !memory->def && memory->block == f->body && f->params[memory->index].kind == IR_PARAM_WORKSPACE && !memory->type->strides;
    return is ? f->params[memory->index].name : NULL;
}

/* May the op be done for a part of the lanes of the class? */
static bool is_lane_by_lane(const IrOp *op) {
    return op->opcode == IR_CONST || op->opcode == IR_TILE_BROADCAST || ir_has_trait(op, IR_ELEMENTWISE);
}

static bool is_kept_alive(const AxisClass *c) {
    return !c->contracted && !c->multiplied && !c->scanned && !c->sorted && !c->sliced && !c->rigid;
}

static bool is_plain_fold(const Axes *axes, size_t index, const IrOp *op) {
    Dtype dtype = op->results[0].type->dtype;
    if (op->opcode != IR_TILE_REDUCE || op->results[0].type->rank || axes_find(axes, op->operands[0], index) != 0) return false;
    return ir_is_plain_kind(ir_op_kind(op)) && dtype == op->operands[0]->type->dtype && dtype_size(dtype) >= 4;
}

/* ---- A: X[r, i, :] to W[r, i] ---- */

static bool take_store(Rows *r, IrOp *store) {
    IrOp *fold = store->operands[0]->def;
    const char *name = cooperative_workspace_of(r->part.func, store->operands[1]);
    if (r->fold_count == MOST_FOLDS || !fold || fold->opcode != IR_TILE_REDUCE || !name || store->operands[1]->uses->next) return false;
    if (!slice_is(store, "pp") || !fold->results[0].uses || fold->results[0].uses->next) return false;
    if (store->operands[1]->type->dtype != fold->results[0].type->dtype) return false;
    for (unsigned k = 2; k < 4; k++) {
        if (!is_variable(&r->part, store->operands[k])) return false;
        if (r->fold_count && store->operands[k] != r->stores[0]->operands[k]) return false;
    }
    r->partials[r->fold_count] = name;
    r->stores[r->fold_count] = store;
    r->folds[r->fold_count++] = fold;
    return store->operands[2] != store->operands[3];
}

/* One load of whole lanes, and what is made of it and folded. */
static bool read_part_lanes(Rows *r) {
    PointerTable loaded = pointer_table(r->ctx->scratch);
    uint32_t seen;
    for (size_t i = 0; i < r->part.ops.len; i++) {
        IrOp *op = r->part.ops.data[i];
        if (op->region_count || !axes_touch(r->part_axes, op, r->part_class)) continue;
        bool own = op->opcode == IR_TILE_LOAD, is_fold = op->opcode == IR_TILE_REDUCE;
        for (unsigned k = 0; k < op->operand_count; k++) own |= pointer_table_get(&loaded, op->operands[k], &seen);
        if (is_fold && (!own || !is_plain_fold(r->part_axes, r->part_class, op))) return false;
        if (is_fold) continue;
        if (op->opcode == IR_TILE_LOAD ? r->load != NULL : !is_lane_by_lane(op)) return false;
        if (op->opcode == IR_TILE_LOAD) r->load = op;
        if (op->results[0].type->rank != 1) return false;
        if (own) pointer_table_set(&loaded, &op->results[0], 1);
    }
    return r->load;
}

static bool is_whole(Rows *r, const IrOp *load, unsigned axis) {
    IrModule *m = r->ctx->module;
    unsigned operand, tensor_axis;
    if (ir_attr(load, "pad") || slice_gathers(load) || slice_step(load, axis) != 1) return false;
    if (!slice_operand(load, axis, &operand, &tensor_axis) || !is_zero(m, load->operands[operand])) return false;
    const Aff *end = ir_aff_of(m, load->operands[operand + 1]), *extent = load->operands[0]->type->extents[tensor_axis];
    return end == extent && load->results[0].type->extents[axis] == extent;
}

static bool read_part(Rows *r, IrFunc *func) {
    if (!read_nest(r, &r->part, func, 2)) return false;
    for (size_t i = 0; i < r->part.ops.len; i++)
        if (r->part.ops.data[i]->opcode == IR_TILE_STORE && !take_store(r, r->part.ops.data[i])) return false;
    if (!r->fold_count || r->folds[0]->operands[0]->type->rank != 1) return false;
    r->part_axes = axes_analyse(r->ctx->scratch, func);
    r->part_class = axes_of(r->part_axes, r->folds[0]->operands[0], 0);
    const AxisClass *c = axes_class(r->part_axes, r->part_class);
    if (c->constant >= 0 || !is_kept_alive(c) || !aff_over_symbols(c->extent) || !read_part_lanes(r)) return false;
    r->extent = c->extent;
    for (unsigned i = 0; i < r->fold_count; i++)
        if (!is_plain_fold(r->part_axes, r->part_class, r->folds[i])) return false;
    if (dtype_size(r->load->operands[0]->type->dtype) > ELEMENT_BYTES) return false;
    return is_whole(r, r->load, 0) && !is_stored_to(r->load->operands[0]) && !is_view(r->load->operands[0]);
}

/* ---- F: W[r, :] to V[r] ---- */

/* What A folds to make that workspace; null: it is another. */
static const IrOp *fold_of(const Rows *r, const char *name) {
    for (unsigned i = 0; name && i < r->fold_count; i++)
        if (strcmp(r->partials[i], name) == 0) return r->folds[i];
    return NULL;
}

static bool is_partial(const Rows *r, const char *name) {
    return fold_of(r, name);
}

/* Partial results of more and smaller parts come to the same where they are folded at once, as A folds. */
static bool folds_on(const Rows *r, const IrOp *reduce) {
    const IrOp *load = reduce->operands[0]->def, *fold;
    if (reduce->opcode != IR_TILE_REDUCE || !load || load->opcode != IR_TILE_LOAD) return false;
    fold = fold_of(r, cooperative_workspace_of(r->finish.func, load->operands[0]));
    return fold && ir_op_kind(reduce) == ir_op_kind(fold);
}

IrOp *cooperative_store_named(const Rows *r, const char *name) {
    for (size_t i = 0; name && i < r->finish.ops.len; i++) {
        IrOp *op = r->finish.ops.data[i];
        if (op->opcode == IR_TILE_STORE && strcmp(cooperative_workspace_of(r->finish.func, op->operands[1]), name) == 0) return op;
    }
    return NULL;
}

static bool read_finish_load(Rows *r, const IrOp *load, IrValue *row) {
    unsigned p = slice_is(load, "rp");
    if (!p && !slice_is(load, "pr")) return false;
    if (load->operands[p ? 3 : 1] != row || !is_whole(r, load, 0) || load->results[0].type->rank != 1) return false;
    if (r->row_axis != 2 && r->row_axis != p) return false;
    r->row_axis = p;
    const AxisClass *c = axes_class(r->finish_axes, axes_of(r->finish_axes, &load->results[0], 0));
    return is_kept_alive(c) && c->reduced;
}

static bool read_finish(Rows *r, IrFunc *func) {
    if (!read_nest(r, &r->finish, func, 1)) return false;
    IrValue *row = r->finish.loops[0]->regions[0]->args[0];
    unsigned loads = 0;
    r->finish_axes = axes_analyse(r->ctx->scratch, func);
    r->row_axis = 2;
    for (size_t i = 0; i < r->finish.ops.len; i++) {
        const IrOp *op = r->finish.ops.data[i];
        bool store = op->opcode == IR_TILE_STORE;
        if (store || op->opcode == IR_TILE_LOAD) {
            const char *name = cooperative_workspace_of(func, op->operands[store]);
            if (store && (!name || !slice_is(op, "p"))) return false;
            if (store && (op->operands[2] != row || op->operands[0]->type->rank)) return false;
            if (store && (op->operands[0]->type->dtype != op->operands[1]->type->dtype || cooperative_store_named(r, name) != op))
                return false;
            if (!store && is_stored_to(op->operands[0])) return false;
            if (!store && !is_partial(r, name) && op->results[0].type->rank) return false;
            if (store || !is_partial(r, name)) continue;
            if (!read_finish_load(r, op, row)) return false;
            loads++;
        } else if (!op->region_count && !is_terminator(op) && op->result_count && is_tile(&op->results[0])) {
            if (op->results[0].type->rank || (!folds_on(r, op) && !is_lane_by_lane(op))) return false;
        }
    }
    return loads;
}

/* ---- B: X[r, i, t] and V[r] to Y[r, i, t] ---- */

/* Are the lanes of the op's slice along the class those of the chunk, no less and no more? */
static bool is_of_chunk(Rows *r, const IrOp *op, unsigned axis, unsigned *operand) {
    IrModule *m = r->ctx->module;
    unsigned tensor_axis;
    int64_t tile = axes_class(r->map_axes, r->map_class)->constant;
    if (slice_gathers(op) || slice_step(op, axis) != 1) return false;
    if (!slice_operand(op, axis, operand, &tensor_axis)) return false;
    const Aff *begin = ir_aff_of(m, op->operands[*operand]), *end = ir_aff_of(m, op->operands[*operand + 1]);
    if (begin->kind == AFF_CONST || end != aff_add(m->affs, begin, aff_const(m->affs, tile))) return false;
    for (unsigned i = 0; i < r->map.depth; i++) {
        IrValue *v = r->map.loops[i]->regions[0]->args[0];
        if (begin != aff_mul(m->affs, ir_aff_of(m, v), aff_const(m->affs, tile))) continue;
        if (!r->map_chunk) r->map_chunk = v;
        return r->map_chunk == v;
    }
    return false;
}

/* Nothing but the chunk's lanes depends on which chunk it is. */
static bool is_chunk_alone(Rows *r) {
    PointerTable made = pointer_table(r->ctx->scratch);
    uint32_t seen;
    pointer_table_set(&made, r->map_chunk, 1);
    for (size_t i = 0; i < r->map.ops.len; i++) {
        IrOp *op = r->map.ops.data[i];
        const IrValue *tile = op->opcode == IR_TILE_STORE ? op->operands[0] : op->result_count ? &op->results[0] : NULL;
        int axis = tile && is_tile(tile) ? axes_find(r->map_axes, tile, r->map_class) : -1;
        for (unsigned k = 0; k < op->operand_count; k++) {
            unsigned operand = 0;
            if (!pointer_table_get(&made, op->operands[k], &seen)) continue;
            if (is_scalar_arithmetic(op))
                pointer_table_set(&made, &op->results[0], 1);
            else if (axis < 0 || !is_of_chunk(r, op, (unsigned)axis, &operand) || (k != operand && k != operand + 1))
                return false;
        }
    }
    return true;
}

static bool read_map_lanes(Rows *r) {
    for (size_t i = 0; i < r->map.ops.len; i++) {
        IrOp *op = r->map.ops.data[i];
        bool access = op->opcode == IR_TILE_STORE || op->opcode == IR_TILE_LOAD;
        if (op->region_count || !axes_touch(r->map_axes, op, r->map_class)) continue;
        if (!access && !is_lane_by_lane(op)) return false;
        if (op->opcode == IR_TILE_LOAD && op != r->again) return false; /* weights: from the L2 for each row, and beside the chunk */
        const IrValue *tile = op->opcode == IR_TILE_STORE ? op->operands[0] : &op->results[0];
        unsigned operand;
        if (tile->type->rank != 1 || (access && !is_of_chunk(r, op, 0, &operand))) return false;
    }
    return r->map_chunk && is_chunk_alone(r);
}

/* Is B's index the one that A has in its place? Learns which variable is which. */
static bool is_same_index(Rows *r, IrValue *in_part, IrValue *in_map) {
    IrModule *m = r->ctx->module;
    if (in_part == r->part_row) return in_map == r->map_row;
    if (in_part != r->part_inner) return ir_aff_of(m, in_part)->kind == AFF_CONST && ir_aff_of(m, in_part) == ir_aff_of(m, in_map);
    if (!is_variable(&r->map, in_map) || in_map == r->map_row) return false;
    if (!r->map_inner) r->map_inner = in_map;
    return r->map_inner == in_map;
}

static bool reads_again(Rows *r, IrOp *load) {
    const IrOp *first = r->load;
    if (!slices_alike(load, first) || ir_attr(load, "pad") || ir_attr(load, "steps")) return false;
    IrSlice slice = ir_slice(load);
    for (unsigned a = 0; a < slice.rank; a++) {
        unsigned k = slice.axes[a].operand;
        if (slice.axes[a].letter == IR_LETTER_POINT && !is_same_index(r, first->operands[k], load->operands[k])) return false;
    }
    return true;
}

static bool find_map_row(Rows *r) {
    for (size_t i = 0; i < r->map.ops.len; i++) {
        IrOp *op = r->map.ops.data[i];
        if (op->opcode != IR_TILE_LOAD) continue;
        const char *name = cooperative_workspace_of(r->map.func, op->operands[0]);
        if (is_partial(r, name)) return false;
        if (!cooperative_store_named(r, name)) continue;
        if (!slice_is(op, "p") || !is_variable(&r->map, op->operands[1])) return false;
        if (r->map_row && r->map_row != op->operands[1]) return false;
        r->map_row = op->operands[1];
    }
    return r->map_row;
}

static bool read_map(Rows *r, IrFunc *func) {
    if (!read_nest(r, &r->map, func, 3) || !find_map_row(r)) return false;
    const char *x = r->part.func->params[r->load->operands[0]->index].name;
    const IrValue *again = param_named(func, x);
    if (!again || is_stored_to((IrValue *)again)) return false;
    for (const IrUse *use = again->uses; use; use = use->next)
        if (use->op->opcode == IR_TILE_LOAD && use->op->results[0].type->rank == 1 && !r->again) r->again = use->op;
    if (!r->again || ir_type_extent(r->again->results[0].type, 0) < 1) return false;
    r->map_axes = axes_analyse(r->ctx->scratch, func);
    r->map_class = axes_of(r->map_axes, &r->again->results[0], 0);
    const AxisClass *c = axes_class(r->map_axes, r->map_class);
    if (c->constant < 1 || cooperative_chunk_of(r) % c->constant || !is_kept_alive(c) || c->reduced) return false;
    if (!read_map_lanes(r) || !reads_again(r, r->again)) return false;
    return r->map_inner && r->map_inner != r->map_chunk && r->map_row != r->map_chunk;
}

/* ---- Do they belong together? ---- */

/* Nothing that B stores is read, and nobody else has to do with the workspaces. */
static bool is_alone(const Rows *r) {
    const Step *steps[] = {&r->part, &r->finish, &r->map};
    const IrFunc *b = r->map.func;
    for (unsigned i = 0; i < b->param_count; i++) {
        if (!is_stored_to(b->body->args[i])) continue;
        if (b->params[i].kind != IR_PARAM_TENSOR) return false;
        for (size_t s = 0; s < COUNT_OF(steps); s++) {
            const IrValue *v = param_named(steps[s]->func, b->params[i].name);
            for (const IrUse *use = v ? v->uses : NULL; use; use = use->next)
                if (use->op->opcode != IR_TILE_STORE) return false;
        }
    }
    for (const IrFunc *g = r->ctx->module->first; g; g = g->next)
        for (unsigned i = 0; i < g->param_count; i++) {
            const IrParam *p = &g->params[i];
            bool own = g == r->part.func || g == r->finish.func || g == b;
            if (own || g->level != IR_LEVEL_TILE || p->kind != IR_PARAM_WORKSPACE || !g->body->args[i]->uses) continue;
            if (is_partial(r, p->name) || cooperative_store_named(r, p->name)) return false;
        }
    return true;
}

static bool have_same_sizes(Rows *r) {
    AffCtx *c = r->ctx->module->affs;
    int64_t tile = axes_class(r->map_axes, r->map_class)->constant;
    r->rows = trips_of(r, r->part_row);
    r->inner = trips_of(r, r->part_inner);
    return r->rows == trips_of(r, r->map_row) && r->rows == loop_trips(r->ctx->module, r->finish.loops[0]) &&
           r->inner == trips_of(r, r->map_inner) && trips_of(r, r->map_chunk) == aff_ceildiv(c, r->extent, aff_const(c, tile));
}

/* ---- When ---- */

const Aff *cooperative_chunks_of_part(const Rows *r) {
    AffCtx *c = r->ctx->module->affs;
    return aff_ceildiv(c, r->extent, aff_const(c, cooperative_chunk_of(r)));
}

int64_t cooperative_most_chunks(const Rows *r) {
    int64_t lanes = 32, bytes = cooperative_chunk_of(r) * (int64_t)dtype_size(r->load->operands[0]->type->dtype);
    while (lanes < r->ctx->target->sms * r->shape->blocks / r->shape->teams && lanes < r->shape->threads) lanes *= 2;
    int64_t few = bytes / LITTLE / (int64_t)(r->fold_count * dtype_size(r->folds[0]->results[0].type->dtype));
    return lanes < few ? lanes : few;
}

const Aff *cooperative_used_with(const Rows *r, const Aff *sms) {
    AffCtx *c = r->ctx->module->affs;
    const Target *t = r->ctx->target;
    const Aff *one = aff_const(c, 1), *blocks = aff_mul(c, r->rows, r->chunks), *room = aff_mul(c, sms, aff_const(c, r->shape->blocks));
    const Aff *of_row = aff_floordiv(c, room, aff_const(c, r->shape->teams));
    const Aff *size = aff_const(c, (int64_t)dtype_size(r->load->operands[0]->type->dtype));
    const Aff *bytes = aff_mul(c, aff_mul(c, aff_mul(c, r->rows, r->inner), r->extent), size);
    const Aff *all = aff_min(c, one, aff_sub(c, r->chunks, one)); /* more blocks than one */
    all = aff_min(
        c, all,
        aff_sub(c, aff_add(c, aff_min(c, of_row, aff_const(c, cooperative_most_chunks(r))), one), r->chunks)); /* several rows at a time */
    all = aff_min(c, all, aff_sub(c, blocks, room));                                                           /* more rows than these */
    all = aff_min(c, all, aff_sub(c, r->extent, aff_const(c, cooperative_chunk_of(r) / 2)));                   /* chunks are half full */
    all = aff_min(c, all, aff_sub(c, bytes, aff_const(c, t->l2_bytes)));
    return aff_max(c, aff_const(c, 0), all);
}

/* Are the partial results sums that can be awaited themselves? They add the same as -0, and their bits are 0 before. */
static bool may_pipeline(const Rows *r) {
    const Target *t = r->ctx->target;
    int64_t room = t->shared_bytes_sm / pipelined_shape.blocks,
            own = pipelined_shape.threads * pipelined_shape.lanes * (int64_t)dtype_size(r->load->operands[0]->type->dtype);
    for (unsigned i = 0; i < r->fold_count; i++)
        if (ir_op_kind(r->folds[i]) != IR_KIND_ADD || r->folds[i]->results[0].type->dtype != DTYPE_F32) return false;
    return target_has(t, TARGET_CP_ASYNC) && own < (room < t->shared_bytes_block ? room : t->shared_bytes_block);
}

static bool find(Rows *r, IrFunc *a) {
    IrFunc *f = a->next, *b = f ? f->next : NULL;
    const Target *t = r->ctx->target;
    if (!b || f->level != IR_LEVEL_TILE || b->level != IR_LEVEL_TILE || !t->sms || !t->l2_bytes || t->threads_sm < r->shape->threads)
        return false;
    if (param_named(a, "num_sms")) return false; /* a size that is called so */
    int64_t step = ir_step_order(a);
    if (ir_step_order(f) != step + 1 || ir_step_order(b) != step + 2) return false;
    if (!read_part(r, a) || !read_finish(r, f)) return false;
    if (may_pipeline(r)) r->shape = &pipelined_shape;
    r->part_row = r->stores[0]->operands[2 + r->row_axis];
    r->part_inner = r->stores[0]->operands[3 - r->row_axis];
    if (!read_map(r, b) || !is_alone(r) || !have_same_sizes(r)) return false;
    r->chunks = aff_mul(r->ctx->module->affs, r->inner, cooperative_chunks_of_part(r));
    return step_is_asked_for(r->ctx, a, cooperative_used_with(r, aff_const(r->ctx->module->affs, t->sms)));
}

bool pass_cooperative_row_reduction(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first, *next; f; f = next) {
        next = f->next;
        if (f->level != IR_LEVEL_TILE || f->state != IR_STATE_OPEN) continue;
        Rows found = {.ctx = ctx, .shape = &meeting};
        if (find(&found, f)) cooperative_keep(&found);
    }
    return true;
}
