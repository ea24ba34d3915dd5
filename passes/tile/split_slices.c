/* Loops over chunks of an axis, for split_passes: each repeats the loads and the arithmetic that feed
 * one op, a chunk at a time. */
#include "analysis/sizes.h"
#include "split.h"

/* Of reductions of at most PAIR_TILES loaded tiles, whose loads do not fill a thread's registers already; 1: one by one. */
enum { CHUNKS_AT_ONCE = 2, PAIR_TILES = 1 };

/* Chunks of f32 that a processor adds one after the other where a case asks for more: a lane of the sum has so many terms at most. */
enum { CHUNKS_OF_PART = 1024 };

void slice_refuse(Slice *s, const IrOp *op, const char *what) {
    if (s->ok) report_unsupported(s->ctx, op ? op->span : SPAN_NONE, what);
    s->ok = false;
}

/* ---- Chunks ---- */

static bool is_repeated(Slice *s, const IrOp *op) {
    int axis = op && op->operand_count ? axes_find(s->axes, op->operands[0], s->index) : -1;
    bool whole =
        axis >= 0 && ir_has_trait(op, IR_ALONG) && !scans_along(s, op) && ir_axis_link(op, 0, (unsigned)axis).relation == IR_AXIS_MIXED;
    return op && is_repeatable(op) && !op->region_count && !whole;
}

const IrType *chunk_type(const Slice *s, const IrValue *v) {
    int axis = axes_find(s->axes, v, s->index);
    return axis < 0 ? v->type : type_with_extent(s->ctx->module, v->type, (unsigned)axis, s->chunk);
}

/* A slice that keeps the axis whole keeps its chunk: it ends where the axis does, less what has been passed. */
static void shift_end(Slice *s, IrOp *copy, unsigned axis) {
    unsigned operand, tile_axis;
    if (!slice_operand(copy, axis, &operand, &tile_axis)) return;
    IrBuilder b = ir_builder_before(copy);
    ir_set_operand(copy, operand + 1, ir_binary(&b, IR_SUB, copy->operands[operand + 1], s->begin));
}

/* `copy` stands for op `v->def` in the chunk; what its result is there. */
static IrValue *chunk_result(Slice *s, IrValue *v, IrOp *copy) {
    int axis = axes_find(s->axes, v, s->index);
    IrValue *result = &copy->results[v->index];
    if (axis < 0) return result;
    if (copy->opcode == IR_TILE_LOAD) slice_shift(copy, (unsigned)axis, s->begin);
    if (copy->opcode == IR_TILE_EXTRACT) shift_end(s, copy, (unsigned)axis);
    if (copy->opcode == IR_TILE_IOTA && ir_attr_int(copy, "axis", -1) == axis)
        return ir_binary(s->b, IR_ADD, result, ir_cast(s->b, s->begin, ir_type_scalar(s->ctx->module, v->type->dtype)));
    return scans_along(s, v->def) ? slice_scan(s, v->def, copy) : result;
}

IrValue *slice_value(Slice *s, IrValue *v) {
    if (!s->ok || (axes_find(s->axes, v, s->index) < 0 && !is_repeated_inside(s, v))) return v;
    IrValue *done = ir_value_map_get(s->map, v);
    if (done != v) return done;
    if (is_control(v->def)) {
        repeat_control(s, v->def);
        return ir_value_map_get(s->map, v);
    }
    if (!is_repeated(s, v->def)) {
        slice_refuse(s, v->def, "a tile along an axis of symbolic extent that is carried through a loop and reduced");
        return v;
    }
    for (unsigned i = 0; i < v->def->operand_count; i++) slice_value(s, v->def->operands[i]);
    if (!s->ok) return v;
    IrOp *copy = ir_op_clone(s->b, v->def, s->map);
    for (unsigned i = 0; i < copy->result_count; i++) copy->results[i].type = chunk_type(s, &v->def->results[i]);
    IrValue *result = chunk_result(s, v, copy);
    ir_value_map_set(s->map, v, result);
    return result;
}

IrValue *slice_backward(Slice *s, const Aff *extent, IrValue *i) {
    AffCtx *c = s->ctx->module->affs;
    const Aff *by = aff_const(c, s->chunk);
    const Aff *last = aff_sub(c, aff_mul(c, aff_ceildiv(c, extent, by), by), by);
    return ir_binary(s->b, IR_SUB, ir_aff_emit(s->b, last), i);
}

IrOp *chunks_open(Slice *s, IrOp *op, IrValue *from, IrValue *to, unsigned chunks, unsigned fed, unsigned carried, IrValue *const *inits,
                  IrBuilder *inner) {
    IrBuilder b = ir_builder_before(op);
    b.span = op->span;
    PointerTable seen = pointer_table(s->ctx->scratch);
    IrValue *all[SPLIT_SCANS + 4];
    s->scan_count = 0;
    s->reverse = false;
    for (unsigned i = 0; i < fed; i++) slice_collect_scans(s, &seen, op->operands[i]);
    for (unsigned i = 0; i < carried; i++) all[i] = inits[i];
    for (unsigned i = 0; i < s->scan_count; i++) all[carried + i] = slice_scan_begin(&b, s, s->scans[i]);
    const Aff *extent = axes_class(s->axes, s->index)->extent;
    const char *name = arena_printf(s->ctx->module->arena, "%.32s_0", extent->kind == AFF_SYM ? extent->name : "lane");
    IrOp *loop = ir_for(&b, from, to, ir_const_index(&b, chunks * s->chunk), carried + s->scan_count, all, name);
    *inner = ir_builder_at_end(loop->regions[0]);
    inner->span = op->span;
    s->b = inner;
    s->begin = loop->regions[0]->args[0];
    if (s->reverse) s->begin = slice_backward(s, extent, s->begin);
    for (unsigned i = 0; i < s->scan_count; i++) s->totals[i] = s->next[i] = loop->regions[0]->args[1 + carried + i];
    s->map = ir_value_map_create(s->ctx->scratch);
    return loop;
}

/* The loop over all chunks. */
static IrOp *open_loop(Slice *s, IrOp *op, unsigned fed, unsigned carried, IrValue *const *inits, IrBuilder *inner) {
    IrBuilder b = ir_builder_before(op);
    b.span = op->span;
    IrValue *end = ir_aff_emit(&b, axes_class(s->axes, s->index)->extent);
    return chunks_open(s, op, ir_const_index(&b, 0), end, 1, fed, carried, inits, inner);
}

void chunks_close(Slice *s, unsigned count, IrValue *const *values) {
    IrValue *all[SPLIT_SCANS + 4];
    for (unsigned i = 0; i < count; i++) all[i] = values[i];
    for (unsigned i = 0; i < s->scan_count; i++) all[count + i] = s->next[i];
    ir_yield(s->b, count + s->scan_count, all);
}

/* ---- Ops ---- */

void pass_for_store(Slice *s, IrOp *store) {
    IrBuilder inner;
    open_loop(s, store, store->operand_count, 0, NULL, &inner);
    for (unsigned i = 0; i < store->operand_count; i++) slice_value(s, store->operands[i]);
    if (!s->ok) return;
    int axis = axes_find(s->axes, store->operands[0], s->index);
    IrOp *copy = ir_op_clone(&inner, store, s->map);
    slice_shift(copy, (unsigned)axis, s->begin);
    chunks_close(s, 0, NULL);
    ir_op_erase(store);
}

/* The loads of the axis that the value's chunk is made of; false: with loops, branches, scans or functions between, which take more than memory does. */
static bool collect_loads(const Slice *s, PointerTable *seen, IrValue *v, OpList *loads) {
    uint32_t done;
    IrOp *op = v->def;
    if (!op || axes_find(s->axes, v, s->index) < 0 || pointer_table_get(seen, v, &done)) return true;
    pointer_table_set(seen, v, 1);
    if (is_control(op) || scans_along(s, op) || ir_math_info(op->opcode)) return false;
    for (unsigned i = 0; i < op->operand_count; i++)
        if (!collect_loads(s, seen, op->operands[i], loads)) return false;
    if (op->opcode == IR_TILE_LOAD) VEC_PUSH(s->ctx->scratch, loads, op);
    return true;
}

/* Reductions that one loop over chunks serves. */
typedef struct {
    IrOp *const *ops;
    size_t count;
    IrValue *inits[SPLIT_TOGETHER];
    int axis[SPLIT_TOGETHER];
} Together;

/* `sums` and the chunk that the slice stands at. */
static void add_chunk(Slice *s, const Together *t, IrValue **sums) {
    for (size_t i = 0; i < t->count && s->ok; i++) {
        IrValue *part = slice_value(s, t->ops[i]->operands[0]);
        if (!s->ok) return;
        IrOp *fill = ir_op_create(s->b, IR_TILE_FILL, 1, &part, 1, &t->inits[i]->type);
        ir_attr_copy(fill, t->inits[i]->def, "value");
        ir_attr_set_int(fill, "axis", t->axis[i]);
        sums[i] = ir_binary(s->b, reduce_opcode(ir_op_kind(t->ops[i])), sums[i], &fill->results[0]);
    }
}

static void add_chunks(Slice *s, const Together *t, unsigned chunks, const OpList *loads, IrValue *const *args) {
    IrValueMap *maps[CHUNKS_AT_ONCE];
    IrValue *sums[SPLIT_TOGETHER], *begins[CHUNKS_AT_ONCE], *first = s->begin;
    for (unsigned k = 0; k < chunks; k++) {
        begins[k] = s->begin = k ? ir_binary(s->b, IR_ADD, first, ir_const_index(s->b, k * s->chunk)) : first;
        maps[k] = s->map = ir_value_map_create(s->ctx->scratch);
        for (size_t i = 0; i < loads->len; i++) slice_value(s, &loads->data[i]->results[0]);
    }
    for (size_t i = 0; i < t->count; i++) sums[i] = args[i];
    for (unsigned k = 0; k < chunks; k++) {
        s->begin = begins[k];
        s->map = maps[k];
        add_chunk(s, t, sums);
    }
    if (s->ok) chunks_close(s, (unsigned)t->count, sums);
}

/* The chunks that an iteration takes two of, for the loads of the second not to wait for the sums of the first: all, or all but the last. */
static const Aff *end_of_pairs(const Slice *s) {
    AffCtx *c = s->ctx->module->affs;
    const Aff *chunk = aff_const(c, s->chunk), *both = aff_const(c, CHUNKS_AT_ONCE * s->chunk);
    const Aff *lanes = aff_add(c, axes_class(s->axes, s->index)->extent, aff_sub(c, chunk, aff_const(c, 1)));
    return aff_mul(c, both, aff_floordiv(c, lanes, both));
}

/* One chunk is left of pairs. Where there are none the compilers behind may still make two chunks an iteration. */
static void ask_ahead(const Slice *s, IrOp *loop, bool pairs) {
    for (const IrOp *op = loop->regions[0]->first; op; op = op->next)
        if (op->region_count) return;
    if (s->ctx->target->kind == TARGET_CUDA && !s->scan_count) ir_attr_set_int(loop, "unroll", pairs ? 1 : 2);
}

/* Would code for a processor add more than that in order? A GPU's threads have few terms each. */
static bool is_long_sum(const Slice *s, IrOp *const *ops, size_t count) {
    if (s->ctx->target->kind == TARGET_CUDA) return false;
    bool sums = false;
    for (size_t i = 0; i < count; i++) sums |= ir_op_kind(ops[i]) == IR_KIND_ADD && ops[i]->operands[0]->type->dtype == DTYPE_F32;
    double chunks = (double)size_most(s->ctx, ops[0]->block->func, axes_class(s->axes, s->index)->extent) / (double)s->chunk;
    OpList all = ops_collect(s->ctx->scratch, ops[0]->block->func->body);
    for (size_t i = 0; i < all.len; i++) sums &= !scans_along(s, all.data[i]);
    return sums && chunks > CHUNKS_OF_PART;
}

/* A loop around the chunks: each iteration folds so many of them from the identities, and folds the results with the others'. */
static void reduces_by_parts(Slice *s, Together *t, IrValue *end) {
    IrOp *first = t->ops[0];
    IrBuilder b = ir_builder_before(first), inner, unused;
    b.span = first->span;
    IrValue *begin = ir_const_index(&b, 0), *step = ir_const_index(&b, CHUNKS_OF_PART * s->chunk), *folded[SPLIT_TOGETHER];
    IrOp *parts = ir_for(&b, begin, end, step, (unsigned)t->count, t->inits, "part");
    inner = ir_builder_at_end(parts->regions[0]);
    inner.span = first->span;
    IrValue *from = parts->regions[0]->args[0];
    IrValue *to = ir_binary(&inner, IR_MIN, ir_binary(&inner, IR_ADD, from, step), end);
    ir_yield(&inner, (unsigned)t->count, parts->regions[0]->args + 1);
    IrOp *yield = parts->regions[0]->last;
    IrOp *loop = chunks_open(s, yield, from, to, 1, 1, (unsigned)t->count, t->inits, &unused);
    add_chunks(s, t, 1, &(OpList){0}, loop->regions[0]->args + 1);
    if (!s->ok) return;
    ask_ahead(s, loop, false);
    IrBuilder last = ir_builder_before(yield);
    last.span = first->span;
    for (size_t i = 0; i < t->count; i++) {
        folded[i] = ir_binary(&last, reduce_opcode(ir_op_kind(t->ops[i])), parts->regions[0]->args[i + 1], &loop->results[i]);
        ir_set_operand(yield, (unsigned)i, folded[i]);
        ir_set_operand(t->ops[i], 0, &parts->results[i]);
    }
}

void pass_for_reduces(Slice *s, IrOp *const *ops, size_t count) {
    Together t = {.ops = ops, .count = count};
    IrBuilder before = ir_builder_before(ops[0]), inner;
    PointerTable seen = pointer_table(s->ctx->scratch);
    OpList loads = {0};
    bool pairs = s->ctx->target->kind == TARGET_CUDA && CHUNKS_AT_ONCE > 1;
    for (size_t i = 0; i < count; i++) {
        IrValue *x = ops[i]->operands[0];
        t.axis[i] = axes_find(s->axes, x, s->index);
        t.inits[i] = slice_splat(&before, ir_op_kind(ops[i]), type_with_extent(s->ctx->module, x->type, (unsigned)t.axis[i], s->chunk));
        t.inits[i]->name = ops[i]->results[0].name;
        pairs = pairs && collect_loads(s, &seen, x, &loads);
    }
    IrValue **sums = t.inits, *carried[SPLIT_TOGETHER];
    IrBuilder at = ir_builder_before(ops[0]);
    at.span = ops[0]->span;
    IrValue *begin = ir_const_index(&at, 0);
    pairs = pairs && loads.len <= PAIR_TILES;
    if (!pairs) loads.len = 0;
    if (pairs) {
        IrValue *end = ir_aff_emit(&at, end_of_pairs(s));
        IrOp *loop = chunks_open(s, ops[0], begin, end, CHUNKS_AT_ONCE, 1, (unsigned)count, sums, &inner);
        add_chunks(s, &t, CHUNKS_AT_ONCE, &loads, loop->regions[0]->args + 1);
        if (!s->ok) return;
        ir_attr_set_int(loop, "unroll", 1);
        for (size_t i = 0; i < count; i++) carried[i] = &loop->results[i];
        sums = carried, begin = end;
        loads.len = 0;
    }
    IrValue *end = ir_aff_emit(&at, axes_class(s->axes, s->index)->extent);
    if (is_long_sum(s, ops, count)) {
        reduces_by_parts(s, &t, end);
        return;
    }
    IrOp *loop = chunks_open(s, ops[0], begin, end, 1, 1, (unsigned)count, sums, &inner);
    add_chunks(s, &t, 1, &loads, loop->regions[0]->args + 1);
    if (!s->ok) return;
    ask_ahead(s, loop, pairs);
    for (size_t i = 0; i < count; i++) ir_set_operand(ops[i], 0, &loop->results[i]);
}

/* Is the value better than the best before? NaN is better than every number. */
static IrValue *is_better(IrBuilder *b, IrKind kind, IrValue *value, IrValue *best) {
    bool largest = kind == IR_KIND_MAX;
    IrValue *more = largest ? ir_binary(b, IR_LT, best, value) : ir_binary(b, IR_LT, value, best);
    if (!dtype_is_float(value->type->dtype)) return more;
    IrValue *nan = ir_binary(b, IR_AND, ir_binary(b, IR_NE, value, value), ir_binary(b, IR_EQ, best, best));
    return ir_binary(b, IR_OR, more, nan);
}

/* From each lane's best and the number of the chunk where it was: the first index of the best of all. Lanes that were never
 * there hold the identity in chunk 0: where that is the best of all, lane 0 has it too, and comes first. */
static IrValue *index_of_best(Slice *s, IrBuilder *b, const IrOp *op, int axis, IrValue *best, IrValue *chunk) {
    const IrType *wide = ir_type_with_dtype(b->module, best->type, DTYPE_I64), *number = ir_type_scalar(b->module, DTYPE_I64);
    IrValue *index = ir_binary(b, IR_MUL, ir_cast(b, chunk, wide), ir_const_int(b, number, s->chunk));
    index = ir_binary(b, IR_ADD, index, tile_iota(b, wide, axis));
    index = tile_first_of_best(b, op, axis, best, index);
    /* -1 where there is no lane. */
    IrValue *last = ir_binary(b, IR_SUB, ir_aff_emit(b, axes_class(s->axes, s->index)->extent), ir_const_index(b, 1));
    return ir_binary(b, IR_MIN, index, ir_cast(b, last, number));
}

/* Each lane carries its best and the chunk that it was in; from the last chunk to the first, an equal one is taken. */
void pass_for_arg(Slice *s, IrOp *op) {
    IrModule *m = s->ctx->module;
    IrKind kind = ir_op_kind(op);
    IrValue *x = op->operands[0];
    int axis = axes_find(s->axes, x, s->index);
    const IrType *type = type_with_extent(m, x->type, (unsigned)axis, s->chunk), *number = ir_type_scalar(m, DTYPE_I32);
    IrBuilder before = ir_builder_before(op), inner;
    before.span = op->span;
    IrValue *inits[2] = {slice_splat(&before, kind, type), tile_splat(&before, ir_type_with_dtype(m, type, DTYPE_I32), 0)};
    IrOp *loop = open_loop(s, op, 1, 2, inits, &inner);
    IrValue *part = slice_value(s, x);
    if (!s->ok) return;
    IrValue *best = loop->regions[0]->args[1], *at = loop->regions[0]->args[2];
    IrOp *fill = ir_op_create(&inner, IR_TILE_FILL, 1, &part, 1, &type);
    ir_attr_copy(fill, inits[0]->def, "value");
    ir_attr_set_int(fill, "axis", axis);
    IrValue *value = ir_result(fill, 0);
    IrValue *take = is_better(&inner, kind, s->reverse ? best : value, s->reverse ? value : best);
    IrValue *chunk = ir_cast(&inner, ir_binary(&inner, IR_FLOORDIV, s->begin, ir_const_index(&inner, s->chunk)), number);
    IrOp *here = ir_op_create(&inner, IR_TILE_BROADCAST, 1, &chunk, 1, &at->type);
    ir_attr_set_ints(here, "axes", 0, NULL);
    IrValue *old[2] = {best, at}, *new[2] = {value, ir_result(here, 0)}, *next[2];
    for (int i = 0; i < 2; i++) next[i] = s->reverse ? ir_select(&inner, take, old[i], new[i]) : ir_select(&inner, take, new[i], old[i]);
    chunks_close(s, 2, next);
    IrValue *first = index_of_best(s, &before, op, axis, &loop->results[0], &loop->results[1]);
    ir_replace_uses(&op->results[0], first);
    ir_op_erase(op);
}
