/* Pass split_reduction: a reduction of few rows is spread over more blocks than there are rows.
 *
 * what:   a kernel that does nothing along an axis of symbolic extent K but to read its lanes and reduce them, all in one
 *         pass, becomes three steps:
 *           part      reduces L lanes, as one of `parts` blocks in place of one; into a workspace
 *           finish    the kernel, reducing the parts of the workspace in their order; of an arg-reduction they are indices, and
 *                     the elements there are read again
 *           as it was
 *         The sizes of the launch decide which grids are empty: those of part and finish, or that of the last. If the kernel only stores
 *         its reductions to workspaces, and all readers of a workspace reduce it by the same kind of reduction, there is no finish: the
 *         workspace then holds `parts` numbers in place of each one, and its readers reduce all of them.
 *         `parts` is so large that the blocks fill the machine, but no part is smaller than is worth a block. If there would be fewer than
 *         LEAST_PARTS parts, or no case has such a size, the kernel stays as it was. The number of parts and the lanes of a part are
 *         derived symbols: computed once a launch, not in each thread.
 * needs:  tile functions in state open, after reshape_column_reduction; target cuda
 * keeps:  values but for the order in which floats are summed; names
 * breaks: steps are numbered anew
 * source: split reductions (as split K of products)
 *
 *     parallel(0, M) (%m) {                           parallel(0, parts) (%p) { parallel(0, M) (%m) {
 *       %x = tile.load(%X, %m, 0, K)            =>      %x = tile.load(%X, %m, pL, pL + L)
 *       %y = tile.reduce(%x)                            %y = tile.reduce(%x)
 *       tile.store(f(%y), %Y, %m)                       tile.store(%y, %W, %m, %p) } }
 */
#include "analysis/analysis.h"
#include "grid/group_rows.h"
#include "split_reduction_internal.h"
#include "tile/split.h"

#include <string.h>

/* ---- Which kernels ---- */

static bool is_whole_load(const SplitReduction *s, const IrOp *load) {
    IrModule *m = s->ctx->module;
    unsigned operand, tensor_axis;
    int64_t begin;
    int axis = axes_find(s->axes, &load->results[0], s->index);
    if (axis < 0 || slice_gathers(load) || ir_attr(load, "pad") || is_stored_to(load->operands[0])) return false;
    if (!slice_operand(load, (unsigned)axis, &operand, &tensor_axis) || slice_step(load, (unsigned)axis) != 1) return false;
    const Aff *extent = axes_class(s->axes, s->index)->extent, *end = ir_aff_of(m, load->operands[operand + 1]);
    bool all = end == extent || (end == load->operands[0]->type->extents[tensor_axis] && load->results[0].type->extents[axis] == extent);
    return all && aff_is_const(ir_aff_of(m, load->operands[operand]), &begin) && begin == 0;
}

static bool is_fold(const IrOp *op) {
    return op->opcode == IR_TILE_REDUCE || (op->opcode == IR_TILE_ARG && ARG_PARTS);
}

unsigned split_reduction_fold_axis(const IrOp *fold) {
    return (unsigned)(fold->opcode == IR_TILE_ARG ? ir_attr_int(fold, "axis", 0) : ir_attr(fold, "axes")->ints[0]);
}

/* The index of the best along the axis, of elements that a load alone gave: the finish reads them again. */
static bool is_plain_arg(const SplitReduction *s, const IrOp *op) {
    const IrOp *load = op->operands[0]->def;
    if (ir_attr_int(op, "axis", -1) != axes_find(s->axes, op->operands[0], s->index)) return false;
    if (!load || load->opcode != IR_TILE_LOAD || ir_attr(load, "steps") || op->results[0].type->dtype != DTYPE_I64) return false;
    IrSlice slice = ir_slice(load);
    unsigned axes = 0;
    for (unsigned i = 0; i < slice.rank; i++) axes += slice.axes[i].letter == IR_LETTER_RANGE;
    return axes == load->results[0].type->rank;
}

/* Is it a sum, product or extreme along the axis alone, whose parts lose nothing in memory? */
static bool is_plain_fold(const SplitReduction *s, const IrOp *op) {
    if (op->opcode == IR_TILE_ARG) return is_plain_arg(s, op);
    const IrAttr *axes = ir_attr(op, "axes");
    IrKind kind = ir_op_kind(op);
    Dtype dtype = op->results[0].type->dtype;
    if (op->opcode != IR_TILE_REDUCE || axes->count != 1 || axes->ints[0] != axes_find(s->axes, op->operands[0], s->index)) return false;
    bool sums = reduce_opcode(kind) == IR_ADD || reduce_opcode(kind) == IR_MUL;
    return ir_is_plain_kind(kind) && dtype == op->operands[0]->type->dtype && !(sums && dtype_is_float(dtype) && dtype_size(dtype) < 4);
}

int64_t split_reduction_others_of(const SplitReduction *s, const IrValue *v) {
    int64_t product = 1;
    int axis = axes_find(s->axes, v, s->index);
    for (unsigned i = 0; i < v->type->rank; i++) {
        if ((int)i == axis) continue;
        int64_t extent = ir_type_extent(v->type, i);
        if (extent < 0 || extent > 1 << 20) return -1;
        product *= extent;
        if (product > 1 << 20) return -1;
    }
    return product;
}

/* May the op be done a part at a time? */
static bool is_taken(SplitReduction *s, const IrOp *op) {
    if (op->opcode == IR_TILE_LOAD && !is_whole_load(s, op)) return false;
    if (is_fold(op)) return is_plain_fold(s, op);
    bool other = op->opcode == IR_TILE_LOAD || op->opcode == IR_CONST || op->opcode == IR_TILE_BROADCAST;
    return other || ir_has_trait(op, IR_ELEMENTWISE);
}

/* Is a load among what the op along the axis is made of? Then what lies behind the axis is absent in the last part, too. */
static bool is_loaded(const PointerTable *loaded, const IrOp *op) {
    bool yes = op->opcode == IR_TILE_LOAD;
    uint32_t seen;
    for (unsigned k = 0; k < op->operand_count; k++) yes |= pointer_table_get(loaded, op->operands[k], &seen);
    return yes;
}

/* Do all ops along the axis feed reductions that need nothing of each other? Adds up what a lane costs. */
static bool follow(SplitReduction *s, int64_t *weight) {
    PointerTable behind = pointer_table(s->ctx->scratch), loaded = pointer_table(s->ctx->scratch);
    *weight = 0;
    for (size_t i = 0; i < s->ops.len; i++) {
        IrOp *op = s->ops.data[i];
        bool late = false, along = axes_touch(s->axes, op, s->index);
        uint32_t seen;
        for (unsigned k = 0; k < op->operand_count; k++) late |= pointer_table_get(&behind, op->operands[k], &seen);
        if (along && (late || op->region_count || !is_taken(s, op))) return false;
        bool fold = along && is_fold(op);
        bool ends = along && is_loaded(&loaded, op);
        if (fold && !ends) return false;
        if (ends && !fold) pointer_table_set(&loaded, &op->results[0], 1);
        if (fold && (s->fold_count == MOST_FOLDS || (s->fold_count && op->block != s->ops.data[s->folds[0]]->block))) return false;
        if (fold) s->folds[s->fold_count++] = i;
        for (unsigned r = 0; (late || fold) && r < op->result_count; r++) pointer_table_set(&behind, &op->results[r], 1);
        if (!along || fold) continue;
        int64_t others = split_reduction_others_of(s, &op->results[0]);
        if (others < 0) return false;
        if (op->opcode == IR_TILE_LOAD) *weight += others * (int64_t)dtype_size(op->operands[0]->type->dtype);
        if (ir_math_info(op->opcode)) *weight += others * FUNCTION_BYTES;
    }
    return s->fold_count && *weight;
}

/* A part is a multiple of so many lanes: what is worth a block, and a chunk of split_passes at least. */
static int64_t lanes_of_unit(const SplitReduction *s, int64_t weight) {
    int64_t chunk = s->ctx->target->row_chunk / axes_others(s->axes, s->index, 1, 1), unit = LEAST_UNIT;
    while (2 * unit * weight <= PART_BYTES || 2 * unit <= chunk) unit *= 2;
    return unit;
}

bool split_reduction_has_arg(const SplitReduction *s) {
    for (unsigned i = 0; i < s->fold_count; i++)
        if (s->ops.data[s->folds[i]]->opcode == IR_TILE_ARG) return true;
    return false;
}

static const Aff *units_of(const SplitReduction *s) {
    AffCtx *c = s->ctx->module->affs;
    return aff_ceildiv(c, axes_class(s->axes, s->index)->extent, aff_const(c, s->unit));
}

static const Aff *parts_for(const SplitReduction *s, int64_t blocks) {
    AffCtx *c = s->ctx->module->affs;
    return aff_floordiv(c, aff_const(c, blocks * s->ctx->target->sms), aff_max(c, aff_const(c, 1), s->iterations));
}

/* How many parts there may be of an iteration, so that the machine is filled, and evenly. */
static const Aff *room(const SplitReduction *s) {
    AffCtx *c = s->ctx->module->affs;
    if (split_reduction_has_arg(s)) return aff_min(c, aff_const(c, ARG_PARTS), parts_for(s, ARG_BLOCKS));
    const Aff *zero = aff_const(c, 0);
    int64_t places = RESIDENT * s->ctx->target->sms * s->together;
    const Aff *fewer = aff_max(c, zero, aff_sub(c, aff_const(c, places * 3 / 4), s->iterations)); /* than fill it nearly */
    const Aff *more = aff_max(c, zero, aff_sub(c, s->iterations, aff_const(c, places)));
    const Aff *even = aff_min(c, aff_const(c, EVEN_PARTS), aff_add(c, fewer, more));
    return aff_max(c, parts_for(s, BLOCKS), aff_min(c, even, parts_for(s, EVEN_BLOCKS * s->together)));
}

static const Aff *used_with(const SplitReduction *s, const Aff *most) {
    AffCtx *c = s->ctx->module->affs;
    const Aff *enough = aff_sub(c, most, aff_const(c, LEAST_PARTS - 1));
    return aff_max(c, aff_const(c, 0), aff_min(c, aff_const(c, 1), aff_min(c, enough, s->iterations)));
}

const Aff *split_reduction_room_in_memory(const SplitReduction *s) {
    return aff_add(s->ctx->module->affs, parts_for(s, BLOCKS), aff_const(s->ctx->module->affs, EVEN_PARTS));
}

/* The most parts that there may be; 1 where the kernel is spread, else 0; units in a part; parts, of which there is 1 where it is not. */
static void name_symbols(SplitReduction *s) {
    AffCtx *c = s->ctx->module->affs;
    const Aff *one = aff_const(c, 1);
    s->most = derived_symbol(s->ctx->module, "most", aff_min(c, room(s), units_of(s)));
    s->used = derived_symbol(s->ctx->module, "spread", used_with(s, s->most.name));
    s->pieces = derived_symbol(s->ctx->module, "pieces", aff_max(c, one, aff_ceildiv(c, units_of(s), aff_max(c, one, s->most.name))));
    const Aff *parts = aff_ceildiv(c, units_of(s), s->pieces.name);
    s->parts = derived_symbol(s->ctx->module, "parts", aff_add(c, one, aff_mul(c, s->used.name, aff_sub(c, parts, one))));
}

/* In the finish, what was absent along other axes is what the loads of the workspace leave out: from a lane on. */
static bool ends_are_known(const SplitReduction *s) {
    for (unsigned i = 0; i < s->fold_count; i++) {
        const IrOp *fold = s->ops.data[s->folds[i]];
        Presence p = presence_of(s->ctx, fold->operands[0]);
        for (unsigned a = 0; a < p.rank; a++) {
            int64_t lo;
            bool own = (int)a == axes_find(s->axes, fold->operands[0], s->index);
            if (!own && p.axes[a].hi && !(aff_is_const(p.axes[a].lo, &lo) && lo == 0)) return false;
        }
    }
    return true;
}

static bool find_along(SplitReduction *s, size_t index) {
    const AxisClass *c = axes_class(s->axes, index);
    s->index = index;
    s->fold_count = 0;
    int64_t weight;
    if (c->constant >= 0 || !c->reduced || c->contracted || c->multiplied || c->scanned || c->sorted || c->sliced || c->rigid) return false;
    if (!aff_over_symbols(c->extent) || !follow(s, &weight)) return false;
    if (!is_plain_nest(&s->ops, s->ops.data[s->folds[0]]->block)) return false;
    s->unit = lanes_of_unit(s, weight);
    const IrOp *rows = axes_others(s->axes, index, 1, 1) == 1 ? rows_that_share(s->ctx, &s->ops, s->axes, index) : NULL;
    s->together = rows ? group_rows_that_share(s->ctx, rows) : 1;
    s->used_here = used_with(s, aff_min(s->ctx->module->affs, room(s), units_of(s)));
    return step_is_asked_for(s->ctx, s->func, s->used_here) && ends_are_known(s);
}

static bool find(SplitReduction *s) {
    s->ops = ops_collect(s->ctx->scratch, s->func->body);
    s->axes = axes_analyse(s->ctx->scratch, s->func);
    s->iterations = parallel_iterations(s->ctx->module, &s->ops);
    if (!s->ctx->target->sms || !s->iterations) return false;
    for (size_t i = 0; i < axes_count(s->axes); i++)
        if (find_along(s, i)) return true;
    return false;
}

/* ---- Parts in place of results ---- */

/* Does the function only load the workspace, whole along the axis, to reduce it along that axis by that kind? */
static bool reads_to_fold(IrModule *m, const IrValue *memory, unsigned axis, IrKind kind) {
    for (const IrUse *use = memory->uses; use; use = use->next) {
        IrOp *load = use->op;
        int64_t begin;
        if (load->opcode != IR_TILE_LOAD || use->index != 0) return false;
        IrSlice slice = ir_slice(load);
        if (slice.axes[axis].letter != IR_LETTER_RANGE || slice.axes[axis].step != 1 || slice.gather_axis >= 0 || ir_attr(load, "pad"))
            return false;
        unsigned operand = slice.axes[axis].operand;
        const Aff *extent = memory->type->extents[axis];
        if (!aff_is_const(ir_aff_of(m, load->operands[operand]), &begin) || begin) return false;
        if (ir_aff_of(m, load->operands[operand + 1]) != extent || load->results[0].type->extents[slice.axes[axis].axis] != extent)
            return false;
        for (const IrUse *user = load->results[0].uses; user; user = user->next) {
            const IrAttr *axes = ir_attr(user->op, "axes");
            if (user->op->opcode != IR_TILE_REDUCE || ir_op_kind(user->op) != kind) return false;
            if (axes->count != 1 || axes->ints[0] != slice.axes[axis].axis) return false;
        }
    }
    return true;
}

/* The axis of the workspace along which all other kernels reduce it; -1: none. */
static int axis_to_fold(const SplitReduction *s, const char *workspace, IrKind kind) {
    IrModule *m = s->ctx->module;
    const IrType *type = param_named(s->func, workspace)->type;
    for (unsigned axis = 0; axis < type->rank; axis++) {
        bool all = true;
        for (const IrFunc *g = m->first; g && all; g = g->next) {
            const IrValue *memory = g->level == IR_LEVEL_TILE && g != s->func ? param_named(g, workspace) : NULL;
            all = !memory || (memory->type == type && reads_to_fold(m, memory, axis, kind));
        }
        if (all) return (int)axis;
    }
    return -1;
}

/* Does the kernel do no more than to store each of its reductions in an element of a workspace of its own? */
static bool may_stay_in_place(SplitReduction *s) {
    size_t stores = 0;
    for (size_t i = 0; i < s->ops.len; i++) stores += s->ops.data[i]->opcode == IR_TILE_STORE;
    if (stores != s->fold_count) return false;
    for (unsigned i = 0; i < s->fold_count; i++) {
        const IrOp *fold = s->ops.data[s->folds[i]];
        const IrUse *use = fold->results[0].uses;
        if (fold->opcode == IR_TILE_ARG || fold->results[0].type->rank || !use || use->next || use->op->opcode != IR_TILE_STORE)
            return false;
        const IrValue *memory = use->op->operands[1];
        const char *axes = ir_attr_str(use->op, "axes", "");
        if (memory->def || memory->type->strides || s->func->params[memory->index].kind != IR_PARAM_WORKSPACE) return false;
        if (memory->uses->next || strspn(axes, "p") != strlen(axes)) return false;
        s->workspaces[i] = s->func->params[memory->index].name;
        int axis = axis_to_fold(s, s->workspaces[i], ir_op_kind(fold));
        if (axis < 0) return false;
        s->axis[i] = (unsigned)axis;
    }
    return true;
}

static const IrType *tensor_with_extent(IrModule *m, const IrType *t, unsigned axis, const Aff *extent) {
    const Aff *extents[IR_SLICE_MAX_RANK];
    for (unsigned i = 0; i < t->rank; i++) extents[i] = i == axis ? extent : t->extents[i];
    return ir_type_tensor(m, t->dtype, t->rank, extents);
}

const IrType *split_reduction_tile_with_extent(IrModule *m, const IrType *t, unsigned axis, const Aff *extent) {
    const Aff *extents[IR_SLICE_MAX_RANK];
    for (unsigned i = 0; i < t->rank; i++) extents[i] = i == axis ? extent : t->extents[i];
    return ir_type_tile(m, t->dtype, t->rank, extents, NULL);
}

void split_reduction_widen(const SplitReduction *s, IrFunc *func, const char *workspace, unsigned axis) {
    IrModule *m = s->ctx->module;
    IrValue *memory = param_named(func, workspace);
    const Aff *extent = aff_mul(m->affs, memory->type->extents[axis], s->parts.name);
    param_see_as(func, memory, tensor_with_extent(m, memory->type, axis, extent));
    for (const IrUse *use = memory->uses; use; use = use->next) {
        IrOp *load = use->op;
        if (load->opcode != IR_TILE_LOAD) continue;
        IrSlice slice = ir_slice(load);
        IrBuilder b = ir_builder_before(load);
        ir_set_operand(load, slice.axes[axis].operand + 1, ir_aff_emit(&b, extent));
        load->results[0].type = split_reduction_tile_with_extent(m, load->results[0].type, (unsigned)slice.axes[axis].axis, extent);
    }
}

static void split(SplitReduction *s) {
    IrModule *m = s->ctx->module;
    const char *name = s->func->name;
    int64_t step = ir_step_order(s->func);
    bool in_place = may_stay_in_place(s);
    name_symbols(s);
    steps_make_room(m, step, in_place ? 1 : 2);
    if (in_place) split_reduction_widen_readers(s);
    IrFunc *as_it_was = ir_func_clone(s->func, name); /* clones follow the function at once: the steps stand in order */
    IrFunc *finish = in_place ? NULL : ir_func_clone(s->func, name);
    step_name(as_it_was, name, step + (in_place ? 1 : 2));
    step_name(s->func, step_new_name(m, name, "part"), step);
    func_add_symbol(as_it_was, s->most);
    func_add_symbol(as_it_was, s->used);
    step_repeat(as_it_was, aff_sub(m->affs, aff_const(m->affs, 1), s->used.name), "alone");
    split_reduction_add_symbols(s, s->func);
    if (finish) {
        step_name(finish, step_new_name(m, name, "finish"), step + 1);
        split_reduction_add_symbols(s, finish);
        split_reduction_add_workspaces(s, s->func, finish);
        split_reduction_make_finish(s, finish);
    }
    split_reduction_make_part(s, s->func, in_place);
}

bool pass_split_reduction(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first, *next; f; f = next) {
        next = f->next;
        if (f->level != IR_LEVEL_TILE || f->state != IR_STATE_OPEN) continue;
        SplitReduction found = {.ctx = ctx, .func = f};
        if (find(&found)) split(&found);
    }
    return true;
}
