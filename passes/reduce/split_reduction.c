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
#include <string.h>

#include "analysis/analysis.h"
#include "grid/group_rows.h"
#include "tile/split.h"

/* BLOCKS a multiprocessor are aimed at, which fills it once. Where that many are there already but few times over, the last to begin
 * run alone: up to EVEN_PARTS parts then, and EVEN_BLOCKS a multiprocessor (EVEN_PARTS = 1: none), which leaves kernels alone that
 * have a third of these, since parts cost a little themselves, and those that fill it once or nearly, with RESIDENT blocks a multiprocessor.
 * Of arg-reductions ARG_BLOCKS and ARG_PARTS: the finish reads elements again, one by one, and holds all parts.
 * A part reads PART_BYTES, a transcendental function counting as so many. */
enum {
    MOST_FOLDS = 3,
    BLOCKS = 8,
    EVEN_BLOCKS = 48,
    EVEN_PARTS = 4,
    RESIDENT = 4,
    LEAST_PARTS = 3,
    PART_BYTES = 1 << 14,
    FUNCTION_BYTES = 16,
    LEAST_UNIT = 32,
    ARG_BLOCKS = 2,
    ARG_PARTS = 32 /* 0: no arg-reductions */
};

typedef struct {
    PassContext *ctx;
    IrFunc *func;
    const Axes *axes;
    size_t index; /* the axis class */
    OpList ops;
    size_t folds[MOST_FOLDS]; /* their numbers in program order */
    unsigned fold_count;
    const Aff *iterations; /* of the kernel, all loops together */
    int64_t unit;          /* parts are multiples of so many lanes */
    int64_t together;      /* iterations that will be one (group_rows) */
    const Aff *used_here;  /* over the sizes of a case: 1 or 0 */
    DerivedSymbol most, used, pieces, parts;
    const char *workspaces[MOST_FOLDS];
    unsigned axis[MOST_FOLDS]; /* in place: which axis of the workspace holds the parts */
} SplitReduction;

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

static unsigned fold_axis(const IrOp *fold) {
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

/* Its other extents, or -1 where one is not constant. */
static int64_t others_of(const SplitReduction *s, const IrValue *v) {
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
        int64_t others = others_of(s, &op->results[0]);
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

static bool has_arg(const SplitReduction *s) {
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
    if (has_arg(s)) return aff_min(c, aff_const(c, ARG_PARTS), parts_for(s, ARG_BLOCKS));
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

/* No fewer than there are parts, in few words: of workspaces. */
static const Aff *room_in_memory(const SplitReduction *s) {
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

static const IrType *tile_with_extent(IrModule *m, const IrType *t, unsigned axis, const Aff *extent) {
    const Aff *extents[IR_SLICE_MAX_RANK];
    for (unsigned i = 0; i < t->rank; i++) extents[i] = i == axis ? extent : t->extents[i];
    return ir_type_tile(m, t->dtype, t->rank, extents, NULL);
}

/* `parts` numbers in place of each along the axis. */
static void widen(const SplitReduction *s, IrFunc *func, const char *workspace, unsigned axis) {
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
        load->results[0].type = tile_with_extent(m, load->results[0].type, (unsigned)slice.axes[axis].axis, extent);
    }
}

/* ---- The steps ---- */

static void add_symbols(const SplitReduction *s, IrFunc *func) {
    func_add_symbol(func, s->most);
    func_add_symbol(func, s->used);
    func_add_symbol(func, s->pieces);
    func_add_symbol(func, s->parts);
}

/* Which of the kernel's iterations it is, in a builder of one of them. */
static IrValue *iteration(IrBuilder *b, const OpList *ops) {
    IrValue *number = ir_const_index(b, 0);
    for (size_t i = 0; i < ops->len; i++) {
        const IrOp *loop = ops->data[i];
        if (loop->opcode != IR_PARALLEL) continue;
        IrValue *iteration =
            ir_binary(b, IR_FLOORDIV, ir_binary(b, IR_SUB, loop->regions[0]->args[0], loop->operands[0]), loop->operands[2]);
        number = ir_binary(b, IR_ADD, ir_binary(b, IR_MUL, number, ir_aff_emit(b, loop_trips(b->module, loop))), iteration);
    }
    return number;
}

/* Of the parts of one reduction: by iteration, then as the reduced tile, with the parts in place of the axis. */
static const IrType *parts_type(const SplitReduction *s, const IrOp *fold) {
    const IrType *t = fold->operands[0]->type;
    unsigned own = fold_axis(fold);
    const Aff *extents[IR_SLICE_MAX_RANK + 1] = {s->iterations};
    for (unsigned i = 0; i < t->rank; i++) extents[i + 1] = i == own ? s->parts.name : t->extents[i];
    return ir_type_tensor(s->ctx->module, fold->results[0].type->dtype, t->rank + 1, extents);
}

/* Workspaces for the parts, in the two functions that use them. */
static void add_workspaces(SplitReduction *s, IrFunc *part, IrFunc *finish) {
    AffCtx *c = s->ctx->module->affs;
    for (unsigned i = 0; i < s->fold_count; i++) {
        const IrOp *fold = s->ops.data[s->folds[i]];
        const Aff *elements = aff_mul(c, aff_mul(c, s->used.name, s->iterations), room_in_memory(s));
        s->workspaces[i] = param_new_name(s->ctx->module, "partial");
        elements = aff_mul(c, elements, aff_const(c, others_of(s, fold->operands[0])));
        const IrType *type = parts_type(s, fold);
        func_add_workspace(part, s->workspaces[i], type, elements);
        func_add_workspace(finish, s->workspaces[i], type, elements);
    }
}

/* The indices of the tile's lanes in the workspace, along the reduced axis one part (`last` null) or from one to another. */
static unsigned parts_slice(const SplitReduction *s, IrBuilder *b, const IrOp *fold, const Presence *p, IrValue *number, IrValue *first,
                            IrValue *last, IrValue **operands, char *axes) {
    unsigned n = 0, own = fold_axis(fold);
    const IrType *t = fold->operands[0]->type;
    axes[0] = IR_LETTER_POINT;
    operands[n++] = number;
    for (unsigned a = 0; a < t->rank; a++) {
        axes[a + 1] = a == own && !last ? IR_LETTER_POINT : IR_LETTER_RANGE;
        operands[n++] = a == own ? first : ir_const_index(b, 0);
        if (a == own && last) operands[n++] = last;
        if (a != own)
            operands[n++] =
                ir_aff_emit(b, p && p->axes[a].hi ? aff_min(s->ctx->module->affs, p->axes[a].hi, t->extents[a]) : t->extents[a]);
    }
    return n;
}

/* `begin`: the part's first lane, from which an index counts. */
static void store_part(const SplitReduction *s, IrFunc *func, IrOp *fold, unsigned which, const OpList *ops, IrValue *part,
                       IrValue *begin) {
    IrModule *m = s->ctx->module;
    unsigned own = fold_axis(fold), rank = 0;
    const IrType *t = fold->operands[0]->type;
    const Aff *extents[IR_SLICE_MAX_RANK];
    for (unsigned a = 0; a < t->rank; a++)
        if (a != own) extents[rank++] = t->extents[a];
    ir_attr_remove(fold, "keepdim");
    IrValue *result = ir_result(fold, 0);
    result->type = ir_type_tile(m, result->type->dtype, rank, extents, NULL);
    IrBuilder b = ir_builder_after(fold);
    b.span = fold->span;
    if (fold->opcode == IR_TILE_ARG) result = ir_binary(&b, IR_ADD, result, ir_cast(&b, begin, ir_type_scalar(m, DTYPE_I64)));
    IrValue *operands[2 * IR_SLICE_MAX_RANK + 4] = {result, param_named(func, s->workspaces[which])};
    char axes[IR_SLICE_MAX_RANK + 2] = {0};
    unsigned n = parts_slice(s, &b, fold, NULL, iteration(&b, ops), part, NULL, operands + 2, axes);
    ir_attr_set_str(ir_op_create(&b, IR_TILE_STORE, n + 2, operands, 0, NULL), "axes", axes);
}

/* Part after part, an element each, so that neighbours stay neighbours (group_rows); where an index may lie outside, each element's parts side by side. */
static void store_in_place(const SplitReduction *s, IrFunc *func, IrOp *store, unsigned which, IrValue *part) {
    IrModule *m = s->ctx->module;
    AffFacts *facts = ir_facts_at(s->ctx->scratch, store);
    IrBuilder b = ir_builder_before(store);
    unsigned operand = 2 + s->axis[which];
    IrValue *index = store->operands[operand], *parts = ir_aff_emit(&b, s->parts.name);
    const Aff *at = ir_aff_of(m, index), *extent = store->operands[1]->type->extents[s->axis[which]];
    bool inside =
        aff_prove_nonneg(facts, at) && aff_prove_nonneg(facts, aff_sub(m->affs, aff_sub(m->affs, extent, at), aff_const(m->affs, 1)));
    widen(s, func, s->workspaces[which], s->axis[which]);
    IrValue *first = ir_binary(&b, IR_MUL, inside ? part : index, inside ? ir_aff_emit(&b, extent) : parts);
    ir_set_operand(store, operand, ir_binary(&b, IR_ADD, first, inside ? index : part));
}

static void make_part(const SplitReduction *s, IrFunc *func, bool in_place) {
    IrModule *m = s->ctx->module;
    AffCtx *c = m->affs;
    OpList ops = ops_collect(s->ctx->scratch, func->body);
    const Axes *axes = axes_analyse(s->ctx->scratch, func);
    const Aff *lanes = aff_mul(c, aff_const(c, s->unit), s->pieces.name);
    IrOp *loop = step_repeat(func, aff_mul(c, s->used.name, s->parts.name), "part");
    IrBuilder b = ir_builder_before(loop->regions[0]->first);
    IrValue *part = loop->regions[0]->args[0], *length = ir_aff_emit(&b, lanes);
    IrValue *begin = ir_binary(&b, IR_MUL, part, length), *end = ir_binary(&b, IR_ADD, begin, length);
    end = ir_binary(&b, IR_MIN, end, ir_aff_emit(&b, axes_class(axes, s->index)->extent)); /* one bound, not two in each lane */
    for (size_t i = 0; i < ops.len; i++) {
        IrOp *op = ops.data[i];
        for (unsigned r = 0; r < op->result_count; r++) {
            unsigned operand, tensor_axis;
            int axis = axes_find(axes, &op->results[r], s->index);
            if (axis < 0) continue;
            op->results[r].type = tile_with_extent(m, op->results[r].type, (unsigned)axis, lanes);
            if (op->opcode != IR_TILE_LOAD || !slice_operand(op, (unsigned)axis, &operand, &tensor_axis)) continue;
            ir_set_operand(op, operand, begin);
            ir_set_operand(op, operand + 1, end);
        }
    }
    for (size_t i = 0; !in_place && i < ops.len; i++)
        if (ops.data[i]->opcode == IR_TILE_STORE) ir_op_erase(ops.data[i]);
    for (unsigned i = 0; i < s->fold_count; i++) {
        IrOp *fold = ops.data[s->folds[i]];
        if (in_place)
            store_in_place(s, func, fold->results[0].uses->op, i, part);
        else
            store_part(s, func, fold, i, &ops, part, begin);
    }
    remove_unused(s->ctx->scratch, func->body);
    ir_func_set_int(func, IR_FN_LONG_ROWS, 1); /* none is short enough to be kept whole */
}

/* Of each part the index of its best is known; reads these elements again. */
static void finish_arg(IrOp *arg, IrValue *index) {
    IrOp *load = arg->operands[0]->def;
    IrBuilder b = ir_builder_before(arg);
    b.span = load->span;
    const IrType *number = ir_type_scalar(b.module, DTYPE_I64);
    int64_t own = ir_attr_int(arg, "axis", 0);
    IrSlice slice = ir_slice(load);
    IrValue *operands[IR_SLICE_MAX_RANK + 1] = {load->operands[0]};
    char axes[IR_SLICE_MAX_RANK + 1] = {0};
    for (unsigned i = 0; i < slice.rank; i++) {
        IrValue *begin = load->operands[slice.axes[i].operand];
        bool along = slice.axes[i].letter == IR_LETTER_RANGE, other = along && slice.axes[i].axis != own;
        axes[i] = along ? IR_LETTER_GATHER : IR_LETTER_POINT;
        operands[i + 1] = along ? index : begin;
        if (other) operands[i + 1] = ir_binary(&b, IR_ADD, tile_iota(&b, index->type, slice.axes[i].axis), ir_cast(&b, begin, number));
    }
    const IrType *type = ir_type_with_dtype(b.module, index->type, load->results[0].type->dtype);
    IrOp *again = ir_op_create(&b, IR_TILE_LOAD, slice.rank + 1, operands, 1, &type);
    ir_attr_set_str(again, "axes", axes);
    ir_replace_uses(&arg->results[0], tile_first_of_best(&b, arg, own, ir_result(again, 0), index));
}

static void make_finish(const SplitReduction *s, IrFunc *func) {
    IrModule *m = s->ctx->module;
    OpList ops = ops_collect(s->ctx->scratch, func->body);
    Presence present[MOST_FOLDS];
    for (unsigned i = 0; i < s->fold_count; i++) present[i] = presence_of(s->ctx, ops.data[s->folds[i]]->operands[0]);
    for (unsigned i = 0; i < s->fold_count; i++) {
        IrOp *fold = ops.data[s->folds[i]];
        IrBuilder b = ir_builder_before(fold);
        b.span = fold->span;
        IrValue *operands[2 * IR_SLICE_MAX_RANK + 4] = {param_named(func, s->workspaces[i])};
        char axes[IR_SLICE_MAX_RANK + 2] = {0};
        unsigned n = parts_slice(s, &b, fold, &present[i], iteration(&b, &ops), ir_const_index(&b, 0), ir_aff_emit(&b, s->parts.name),
                                 operands + 1, axes);
        const Aff *extent = has_arg(s) ? aff_const(m->affs, ARG_PARTS) : s->parts.name;
        const IrType *type = tile_with_extent(m, fold->operands[0]->type, fold_axis(fold), extent);
        type = ir_type_with_dtype(m, type, fold->results[0].type->dtype);
        IrOp *load = ir_op_create(&b, IR_TILE_LOAD, n + 1, operands, 1, &type);
        ir_attr_set_str(load, "axes", axes);
        if (fold->opcode == IR_TILE_ARG)
            finish_arg(fold, ir_result(load, 0));
        else
            ir_set_operand(fold, 0, ir_result(load, 0));
    }
    remove_unused(s->ctx->scratch, func->body);
    step_repeat(func, s->used.name, "used");
}

/* Who reads the workspaces, and how large they are. */
static void widen_readers(const SplitReduction *s) {
    IrModule *m = s->ctx->module;
    for (IrFunc *g = m->first; g; g = g->next)
        for (unsigned i = 0; g->level == IR_LEVEL_TILE && i < s->fold_count; i++) {
            const IrValue *memory = param_named(g, s->workspaces[i]);
            if (!memory) continue;
            IrParam *param = &g->params[memory->index];
            param->elements = aff_mul(m->affs, param->elements, room_in_memory(s));
            if (g == s->func || !memory->uses) continue;
            add_symbols(s, g);
            widen(s, g, s->workspaces[i], s->axis[i]);
        }
}

static void split(SplitReduction *s) {
    IrModule *m = s->ctx->module;
    const char *name = s->func->name;
    int64_t step = ir_step_order(s->func);
    bool in_place = may_stay_in_place(s);
    name_symbols(s);
    steps_make_room(m, step, in_place ? 1 : 2);
    if (in_place) widen_readers(s);
    IrFunc *as_it_was = ir_func_clone(s->func, name); /* clones follow the function at once: the steps stand in order */
    IrFunc *finish = in_place ? NULL : ir_func_clone(s->func, name);
    step_name(as_it_was, name, step + (in_place ? 1 : 2));
    step_name(s->func, step_new_name(m, name, "part"), step);
    func_add_symbol(as_it_was, s->most);
    func_add_symbol(as_it_was, s->used);
    step_repeat(as_it_was, aff_sub(m->affs, aff_const(m->affs, 1), s->used.name), "alone");
    add_symbols(s, s->func);
    if (finish) {
        step_name(finish, step_new_name(m, name, "finish"), step + 1);
        add_symbols(s, finish);
        add_workspaces(s, s->func, finish);
        make_finish(s, finish);
    }
    make_part(s, s->func, in_place);
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
