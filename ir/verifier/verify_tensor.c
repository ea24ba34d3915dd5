/* Rules of ops on whole tensors, tiles and staged buffers. */
#include "analyzer.h"
#include "verify_internal.h"

#include <string.h>

static bool is_array(const IrType *t) {
    return t->kind == IR_TYPE_TENSOR || t->kind == IR_TYPE_TILE;
}

bool ir_check_array(Verifier *v, const IrOp *op, const IrType *t) {
    IrTypeKind want = v->func->level == IR_LEVEL_GRAPH ? IR_TYPE_TENSOR : IR_TYPE_TILE;
    NEED(v, op, t->kind == want, "works on %s", want == IR_TYPE_TILE ? "tiles" : "tensors");
    return true;
}

static bool is_one(const Aff *e) {
    int64_t value = 0;
    return aff_is_const(e, &value) && value == 1;
}

/* ---- Shapes ---- */

static bool check_broadcast(Verifier *v, const IrOp *op) {
    const IrType *from = op->operands[0]->type, *to = op->results[0].type;
    const IrAttr *axes = NULL;
    NEED(v, op, is_array(from) || ir_type_is_scalar(from), "broadcasts a scalar, tile or tensor");
    if (!ir_check_array(v, op, to) || !ir_check_axes(v, op, "axes", to->rank, &axes)) return false;
    NEED(v, op, axes->count == from->rank, "axes has an entry for each axis of the operand");
    NEED(v, op, from->dtype == to->dtype && !from->is_index, "a broadcast keeps the dtype");
    for (unsigned i = 0; i < from->rank; i++)
        NEED(v, op, is_one(from->extents[i]) || from->extents[i] == to->extents[axes->ints[i]],
             "axis %u is neither 1 nor as large as the result's", i);
    return true;
}

static bool has_axis(const IrAttr *axes, unsigned axis) {
    for (size_t i = 0; i < axes->count; i++)
        if (axes->ints[i] == (int64_t)axis) return true;
    return false;
}

static bool check_reduce(Verifier *v, const IrOp *op) {
    const IrType *from = op->operands[0]->type, *to = op->results[0].type;
    const IrAttr *axes = NULL;
    bool graph = v->func->level == IR_LEVEL_GRAPH, keepdim = ir_attr_bool(op, "keepdim");
    if (!ir_check_array(v, op, from) || !ir_check_axes(v, op, "axes", from->rank, &axes)) return false;
    IrKind kind = ir_op_kind(op);
    bool bits = kind == IR_KIND_AND || kind == IR_KIND_OR;
    NEED(v, op, bits || ir_is_plain_kind(kind) || (graph && kind == IR_KIND_MEAN), "this kind of reduction does not exist here");
    NEED(v, op, !bits || !dtype_is_float(from->dtype), "and, or work on bool and integers");
    NEED(v, op, to->kind == from->kind || (ir_type_is_scalar(to) && !to->is_index), "the result has another kind of type");
    NEED(v, op, to->dtype == from->dtype, "a reduction keeps the dtype");
    unsigned at = 0;
    for (unsigned i = 0; i < from->rank; i++) {
        bool reduced = has_axis(axes, i);
        if (reduced && !keepdim) continue;
        NEED(v, op, at < to->rank && (reduced ? is_one(to->extents[at]) : to->extents[at] == from->extents[i]),
             "result axis %u does not fit", at);
        at++;
    }
    NEED(v, op, at == to->rank, "the result has rank %u, not %u", to->rank, at);
    return true;
}

static bool check_transpose(Verifier *v, const IrOp *op) {
    const IrType *from = op->operands[0]->type, *to = op->results[0].type;
    const IrAttr *perm = NULL;
    if (!ir_check_array(v, op, from) || !ir_check_axes(v, op, "perm", from->rank, &perm)) return false;
    NEED(v, op, perm->count == from->rank && to->rank == from->rank && to->kind == from->kind && to->dtype == from->dtype,
         "perm permutes the operand's axes");
    for (unsigned i = 0; i < to->rank; i++) NEED(v, op, to->extents[i] == from->extents[perm->ints[i]], "result axis %u does not fit", i);
    return true;
}

static const Aff *element_count(Verifier *v, const IrType *t) {
    const Aff *count = aff_const(v->module->affs, 1);
    for (unsigned i = 0; i < t->rank; i++) count = aff_mul(v->module->affs, count, t->extents[i]);
    return count;
}

static bool check_reshape(Verifier *v, const IrOp *op) {
    const IrType *from = op->operands[0]->type, *to = op->results[0].type;
    int64_t a = 0, b = 0;
    if (!ir_check_array(v, op, from)) return false;
    NEED(v, op, to->kind == from->kind && to->dtype == from->dtype, "a reshape keeps dtype and kind");
    bool known = aff_is_const(element_count(v, from), &a) && aff_is_const(element_count(v, to), &b);
    NEED(v, op, !known || a == b, "a reshape keeps the number of elements");
    return true;
}

static bool check_convert(Verifier *v, const IrOp *op) {
    const IrType *from = op->operands[0]->type, *to = op->results[0].type;
    NEED(v, op, from->kind == IR_TYPE_TILE && to->kind == IR_TYPE_TILE && from->dtype == to->dtype && ir_same_shape(from, to),
         "a conversion changes the layout only");
    return true;
}

static bool check_combine(Verifier *v, const IrOp *op) {
    const IrType *t = op->operands[0]->type;
    int64_t lanes = ir_attr_int(op, "lanes", 0);
    NEED(v, op, t->kind == IR_TYPE_TILE && t == op->results[0].type, "parts of a tile's lanes have its layout");
    NEED(v, op, lanes > 0 && lanes < 32, "the parts differ in bits of the lane");
    return true;
}

static bool check_count(Verifier *v, const IrOp *op) {
    const IrAttr *axes = NULL;
    const IrType *t = op->operands[0]->type;
    NEED(v, op, t->kind == IR_TYPE_TILE, "counts lanes of a tile");
    NEED(v, op, ir_type_is_index(op->results[0].type), "the count is an index");
    return ir_check_axes(v, op, "axes", t->rank, &axes);
}

/* ---- Products ---- */

/* Leading axes line up from the last one; an extent of 1 repeats. */
static bool fits_leading(const IrType *factor, const IrType *acc, unsigned axis) {
    const Aff *extent = acc->extents[axis + acc->rank - factor->rank];
    return factor->extents[axis] == extent || ir_type_extent(factor, axis) == 1;
}

static bool check_gemm_shapes(Verifier *v, const IrOp *op, const IrType *a, const IrType *b, const IrType *acc) {
    unsigned rank = acc->rank, ra = a->rank, rb = b->rank;
    NEED(v, op, ra >= 2 && rb >= 2 && ra <= rank && rb <= rank, "factors have a rank of at least 2 and no more than the accumulator");
    NEED(v, op, a->dtype == b->dtype, "both factors have one dtype");
    bool ta = ir_attr_bool(op, "trans_a"), tb = ir_attr_bool(op, "trans_b");
    const Aff *m = a->extents[ra - 2 + ta], *ka = a->extents[ra - 1 - ta];
    const Aff *kb = b->extents[rb - 2 + tb], *n = b->extents[rb - 1 - tb];
    NEED(v, op, ka == kb, "the contracted extents differ");
    NEED(v, op, m == acc->extents[rank - 2] && n == acc->extents[rank - 1], "the accumulator has another shape");
    for (unsigned i = 0; i + 2 < ra; i++) NEED(v, op, fits_leading(a, acc, i), "leading axis %u of the first factor differs", i);
    for (unsigned i = 0; i + 2 < rb; i++) NEED(v, op, fits_leading(b, acc, i), "leading axis %u of the second factor differs", i);
    return true;
}

static bool check_gemm(Verifier *v, const IrOp *op) {
    const IrType *acc = op->results[0].type;
    for (unsigned i = 0; i < 3; i++) NEED(v, op, op->operands[i]->type->kind == IR_TYPE_TILE, "works on tiles");
    NEED(v, op, op->operands[2]->type == acc, "the result has the accumulator's type");
    return check_gemm_shapes(v, op, op->operands[0]->type, op->operands[1]->type, acc);
}

/* The stages have the padded extents of `shape`, the accumulator the tile's own. */
static bool check_buf_gemm_shape(Verifier *v, const IrOp *op, const IrType *a, const IrType *b, const IrType *acc) {
    const IrAttr *shape = ir_attr(op, "shape");
    unsigned ta = ir_attr_bool(op, "trans_a"), tb = ir_attr_bool(op, "trans_b");
    unsigned lead = acc->rank - 2;
    NEED(v, op, a->rank == 2 && b->rank == 2 && acc->rank >= 2, "factors have rank 2, acc 2 or more");
    for (unsigned i = 0; i < 2; i++) {
        const IrAttr *moves = ir_attr(op, i ? "lead_b" : "lead_a");
        NEED(v, op, moves ? moves->count == lead : lead == 0, "lead_a and lead_b have a number for each leading axis");
    }
    NEED(v, op, a->dtype == b->dtype, "both factors have one dtype");
    NEED(v, op, shape->count == 6, "shape is [m, n, k, padded m, n, k]");
    const int64_t *s = shape->ints;
    NEED(v, op, ir_type_extent(acc, lead) == s[0] && ir_type_extent(acc, lead + 1) == s[1], "the accumulator has another shape");
    NEED(v, op, ir_type_extent(a, ta) == s[3] && ir_type_extent(a, 1 - ta) == s[5], "the first factor has another shape");
    NEED(v, op, ir_type_extent(b, tb) == s[5] && ir_type_extent(b, 1 - tb) == s[4], "the second factor has another shape");
    NEED(v, op, s[0] <= s[3] && s[1] <= s[4] && s[2] <= s[5], "padding makes larger");
    return true;
}

bool ir_is_wgmma(const IrOp *op) {
    return op->opcode == IR_BUF_GEMM && ir_atom_is_wgmma(ir_op_atom(op));
}

bool ir_check_in_flight(Verifier *v, const IrOp *op) {
    for (const IrUse *u = op->results[0].uses; u; u = u->next) {
        bool chained = ir_is_wgmma(u->op) && u->index == 4;
        NEED(v, op, chained || u->op->opcode == IR_WGMMA_WAIT || u->op->opcode == IR_YIELD, "accumulators in flight are used by %s",
             ir_op_info(u->op->opcode)->name);
    }
    return true;
}

static bool check_buf_gemm(Verifier *v, const IrOp *op) {
    const IrType *a = op->operands[0]->type, *b = op->operands[2]->type, *acc = op->results[0].type;
    bool registers = a->kind == IR_TYPE_TILE && ir_is_wgmma(op) && !ir_attr_bool(op, "trans_a");
    NEED(v, op, (a->kind == IR_TYPE_BUF || registers) && b->kind == IR_TYPE_BUF, "the factors are buffers");
    NEED(v, op, ir_type_is_index(op->operands[1]->type) && ir_type_is_index(op->operands[3]->type), "stages are index values");
    NEED(v, op, acc->kind == IR_TYPE_TILE && op->operands[4]->type == acc, "the result has the accumulator's type");
    const IrAttr *bounds = ir_attr(op, "bounds");
    size_t bounded = bounds ? bounds->count : 0;
    NEED(v, op, op->operand_count == 5 + 2 * bounded, "each axis of `bounds` has a lower and an upper bound");
    for (size_t i = 0; i < bounded; i++)
        NEED(v, op, bounds->ints[i] >= (i ? bounds->ints[i - 1] + 1 : 0) && bounds->ints[i] < (int64_t)acc->rank,
             "`bounds` names axes of the result in order");
    for (unsigned i = 5; i < op->operand_count; i++) NEED(v, op, ir_type_is_index(op->operands[i]->type), "bounds are index values");
    return check_buf_gemm_shape(v, op, a, b, acc) && (!ir_is_wgmma(op) || ir_check_in_flight(v, op));
}

static bool check_contract_side(Verifier *v, const IrOp *op, unsigned side, const IrAttr **batch, const IrAttr **sum) {
    const IrType *t = op->operands[side]->type;
    NEED(v, op, t->kind == IR_TYPE_TENSOR, "works on tensors");
    if (!ir_check_axes(v, op, side ? "batch_b" : "batch_a", t->rank, batch)) return false;
    if (!ir_check_axes(v, op, side ? "sum_b" : "sum_a", t->rank, sum)) return false;
    for (size_t i = 0; i < (*sum)->count; i++)
        NEED(v, op, !has_axis(*batch, (unsigned)(*sum)->ints[i]), "an axis is batch and sum at once");
    return true;
}

static bool check_contract(Verifier *v, const IrOp *op) {
    const IrAttr *batch[2] = {0}, *sum[2] = {0};
    const IrType *a = op->operands[0]->type, *b = op->operands[1]->type, *to = op->results[0].type;
    if (!check_contract_side(v, op, 0, &batch[0], &sum[0]) || !check_contract_side(v, op, 1, &batch[1], &sum[1])) return false;
    ANALYZER_ASSUME(batch[0] && batch[1] && sum[0] && sum[1]);
    NEED(v, op, batch[0]->count == batch[1]->count && sum[0]->count == sum[1]->count, "axes come in pairs");
    NEED(v, op, a->dtype == b->dtype && to->kind == IR_TYPE_TENSOR, "both factors have one dtype");
    for (size_t i = 0; i < sum[0]->count; i++)
        NEED(v, op, a->extents[sum[0]->ints[i]] == b->extents[sum[1]->ints[i]], "the contracted extents differ");
    unsigned at = 0, want = a->rank + b->rank - (unsigned)(batch[0]->count + 2 * sum[0]->count);
    NEED(v, op, to->rank == want, "the result has rank %u, not %u", to->rank, want);
    for (size_t i = 0; i < batch[0]->count; i++, at++)
        NEED(v, op, a->extents[batch[0]->ints[i]] == b->extents[batch[1]->ints[i]] && to->extents[at] == a->extents[batch[0]->ints[i]],
             "the batch extents differ");
    for (unsigned side = 0; side < 2; side++) {
        const IrType *t = op->operands[side]->type;
        for (unsigned i = 0; i < t->rank; i++) {
            if (has_axis(batch[side], i) || has_axis(sum[side], i)) continue;
            NEED(v, op, to->extents[at] == t->extents[i], "result axis %u does not fit", at);
            at++;
        }
    }
    return true;
}

/* ---- Index notation ---- */

static bool check_generic(Verifier *v, const IrOp *op) {
    const IrType *to = op->results[0].type;
    const IrBlock *body = op->regions[0];
    int64_t outer = ir_attr_int(op, "outer", -1);
    IrKind kind = ir_op_kind(op);
    if (!ir_check_index_operands(v, op, 0)) return false;
    NEED(v, op, outer >= 0 && outer <= (int64_t)op->operand_count, "outer counts operands");
    NEED(v, op, to->kind == IR_TYPE_TENSOR && to->rank == (unsigned)outer, "the result has the rank `outer`");
    NEED(v, op, outer == (int64_t)op->operand_count || (kind != IR_KIND_NONE && kind != IR_KIND_SET && kind != IR_KIND_LINEAR),
         "what is reduced needs a kind: add, mul, max, min, mean, and, or");
    NEED(v, op, body->arg_count == op->operand_count, "the region takes an index for each operand");
    for (unsigned i = 0; i < body->arg_count; i++) NEED(v, op, ir_type_is_index(body->args[i]->type), "the region's arguments are indices");
    for (unsigned i = 0; i < to->rank; i++)
        NEED(v, op, ir_aff_of(v->module, op->operands[i]) == to->extents[i], "extent %u differs from its operand", i);
    const IrOp *last = body->last;
    NEED(v, op,
         last && last->operand_count == 1 && ir_type_is_scalar(last->operands[0]->type) && last->operands[0]->type->dtype == to->dtype,
         "the region yields a scalar of the result's dtype");
    return true;
}

static bool check_element(Verifier *v, const IrOp *op) {
    const IrType *from = op->operands[0]->type;
    const IrOp *parent = op->block->parent;
    while (parent && parent->opcode != IR_GRAPH_GENERIC) parent = parent->block->parent;
    NEED(v, op, parent, "stands inside graph.generic");
    NEED(v, op, from->kind == IR_TYPE_TENSOR && op->operand_count == from->rank + 1, "one index for each axis of a tensor");
    NEED(v, op, op->results[0].type == ir_type_scalar(v->module, from->dtype), "the result is a scalar of the tensor's dtype");
    return ir_check_index_operands(v, op, 1);
}

/* ---- Slices ---- */

/* `axes` and the slice operands from `from` on; `kept` counts the axes that stay. */
static bool check_index_tile(Verifier *v, const IrOp *op, const IrSlice *s, unsigned operand) {
    const IrType *t = op->operands[operand]->type;
    unsigned first = operand;
    for (unsigned i = s->rank; i-- > 0;)
        if (s->axes[i].letter == IR_LETTER_GATHER) first = s->axes[i].operand;
    NEED(v, op, op->opcode == IR_TILE_LOAD || op->opcode == IR_TILE_STORE, "only tensors are sliced by index tiles");
    NEED(v, op, t->kind == IR_TYPE_TILE && t->rank > 0 && dtype_is_int(t->dtype), "operand %u is no tile of indices", operand);
    NEED(v, op, ir_same_shape(t, op->operands[first]->type), "index tiles have one shape");
    return true;
}

bool ir_check_slice(Verifier *v, const IrOp *op, const IrType *whole, unsigned *kept) {
    const char *axes = ir_attr_str(op, "axes", "");
    const IrAttr *steps = ir_attr(op, "steps");
    NEED(v, op, strlen(axes) == whole->rank && strspn(axes, "rpg") == whole->rank,
         "axes has a letter r, p or g for each axis of what is sliced");
    IrSlice s = ir_slice(op);
    *kept = s.kept;
    NEED(v, op, op->operand_count == s.operand_count, "the slice needs %u operands", s.operand_count);
    NEED(v, op, !steps || steps->count == s.ranges, "steps has an entry for each range");
    for (size_t i = 0; steps && i < steps->count; i++) NEED(v, op, steps->ints[i] > 0, "steps are positive");
    for (unsigned i = 0; i < s.rank; i++) {
        const IrSliceAxis *axis = &s.axes[i];
        if (axis->letter == IR_LETTER_GATHER) {
            if (!check_index_tile(v, op, &s, axis->operand)) return false;
            continue;
        }
        for (unsigned k = 0; k < (axis->letter == IR_LETTER_RANGE ? 2u : 1u); k++)
            NEED(v, op, ir_type_is_index(op->operands[axis->operand + k]->type), "operand %u is not an index", axis->operand + k);
    }
    return true;
}

/* Axes that index tiles give have their extents. */
static bool check_gathered(Verifier *v, const IrOp *op, const IrType *tile) {
    IrSlice s = ir_slice(op);
    for (unsigned i = 0; i < s.rank && s.gather_axis >= 0; i++)
        for (unsigned a = 0; s.axes[i].letter == IR_LETTER_GATHER && a < s.gather_rank; a++)
            NEED(v, op, tile->extents[(unsigned)s.gather_axis + a] == op->operands[s.axes[i].operand]->type->extents[a],
                 "the tile has the index tile's extents");
    return true;
}

bool ir_is_slice_type(const IrType *t, const IrType *tensor, unsigned kept) {
    bool scalar = kept == 0 && ir_type_is_scalar(t) && !t->is_index;
    return (scalar || (t->kind == IR_TYPE_TILE && t->rank == kept)) && t->dtype == tensor->dtype;
}

static bool check_load(Verifier *v, const IrOp *op) {
    unsigned kept = 0;
    const IrType *tensor = op->operands[0]->type;
    NEED(v, op, tensor->kind == IR_TYPE_TENSOR, "slices a tensor");
    if (!ir_check_slice(v, op, tensor, &kept)) return false;
    NEED(v, op, ir_is_slice_type(op->results[0].type, tensor, kept), "the result has the slice's rank and the tensor's dtype");
    return check_gathered(v, op, op->results[0].type);
}

static bool check_store(Verifier *v, const IrOp *op) {
    unsigned kept = 0;
    const IrType *tensor = op->operands[1]->type;
    NEED(v, op, tensor->kind == IR_TYPE_TENSOR, "slices a tensor");
    if (!ir_check_slice(v, op, tensor, &kept)) return false;
    NEED(v, op, ir_is_slice_type(op->operands[0]->type, tensor, kept), "the tile has the slice's rank and the tensor's dtype");
    IrKind mode = ir_op_mode(op);
    NEED(v, op, mode == IR_KIND_SET || mode == IR_KIND_ADD || mode == IR_KIND_MAX || mode == IR_KIND_MIN, "mode is set, add, max or min");
    return check_gathered(v, op, op->operands[0]->type);
}

static bool check_view(Verifier *v, const IrOp *op) {
    const IrType *from = op->operands[0]->type, *to = op->results[0].type;
    const IrBlock *map = op->regions[0];
    NEED(v, op, from->kind == IR_TYPE_TENSOR && to->kind == IR_TYPE_TENSOR && from->dtype == to->dtype,
         "a view is a tensor of the tensor's dtype");
    NEED(v, op, map->arg_count == to->rank && map->last && map->last->operand_count == from->rank,
         "the region takes the view's indices and yields the tensor's");
    for (unsigned i = 0; i < map->arg_count; i++) NEED(v, op, ir_type_is_index(map->args[i]->type), "the view's indices are index values");
    for (unsigned i = 0; i < from->rank; i++) NEED(v, op, ir_type_is_index(map->last->operands[i]->type), "a view yields index values");
    return true;
}

IrCheck ir_tensor_check(IrOpcode opcode) {
    static const IrCheck checks[IR_OP_COUNT] = {
        [IR_GRAPH_BROADCAST] = check_broadcast, [IR_GRAPH_REDUCE] = check_reduce,
        [IR_GRAPH_CONTRACT] = check_contract,   [IR_GRAPH_GENERIC] = check_generic,
        [IR_GRAPH_ELEMENT] = check_element,     [IR_GRAPH_TRANSPOSE] = check_transpose,
        [IR_GRAPH_RESHAPE] = check_reshape,     [IR_TILE_LOAD] = check_load,
        [IR_TILE_STORE] = check_store,          [IR_VIEW] = check_view,
        [IR_TILE_BROADCAST] = check_broadcast,  [IR_TILE_REDUCE] = check_reduce,
        [IR_TILE_COUNT] = check_count,          [IR_TILE_GEMM] = check_gemm,
        [IR_TILE_TRANSPOSE] = check_transpose,  [IR_TILE_RESHAPE] = check_reshape,
        [IR_TILE_CONVERT] = check_convert,      [IR_TILE_COMBINE] = check_combine,
        [IR_BUF_ALLOC] = ir_check_alloc,        [IR_BUF_COPY] = ir_check_copy,
        [IR_BUF_STORE] = ir_check_buf_store,    [IR_BUF_LOAD] = ir_check_buf_load,
        [IR_BUF_GEMM] = check_buf_gemm,         [IR_MBAR_ALLOC] = ir_check_mbar_alloc,
        [IR_TMA_COPY] = ir_check_tma_copy,      [IR_MBAR_DROP] = ir_check_mbar,
        [IR_MBAR_EXPECT] = ir_check_mbar,       [IR_MBAR_WAIT] = ir_check_mbar,
        [IR_MBAR_INIT] = ir_check_mbar,         [IR_MBAR_ARRIVE] = ir_check_mbar,
        [IR_WGMMA_WAIT] = ir_check_wgmma_wait,
    };
    return checks[opcode];
}
