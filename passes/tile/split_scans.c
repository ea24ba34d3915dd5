/* Scans in loops over chunks, for split_slices: each chunk goes on from the total of those before it. */
#include "split.h"

#include <string.h>

bool scans_along(const Slice *s, const IrOp *op) {
    int axis = op->opcode == IR_TILE_SCAN ? axes_find(s->axes, op->operands[0], s->index) : -1;
    return axis >= 0 && ir_attr_int(op, "axis", -1) == axis;
}

static bool is_linear(const IrOp *scan) {
    return scan->operand_count > 1;
}

static void collect_captured(Slice *s, PointerTable *seen, IrOp *control) {
    for (unsigned r = 0; r < control->region_count; r++) {
        OpList ops = ops_collect(s->ctx->scratch, control->regions[r]);
        for (size_t i = 0; i < ops.len; i++)
            for (unsigned o = 0; o < ops.data[i]->operand_count; o++) slice_collect_scans(s, seen, ops.data[i]->operands[o]);
    }
}

void slice_collect_scans(Slice *s, PointerTable *seen, IrValue *v) {
    uint32_t done;
    IrOp *op = v->def;
    if (!op || axes_find(s->axes, v, s->index) < 0 || pointer_table_get(seen, v, &done)) return;
    pointer_table_set(seen, v, 1);
    for (unsigned i = 0; i < op->operand_count; i++) slice_collect_scans(s, seen, op->operands[i]);
    if (is_control(op)) collect_captured(s, seen, op);
    if (!scans_along(s, op)) return;
    bool reverse = ir_attr_bool(op, "reverse");
    if (s->scan_count == SPLIT_SCANS || (s->scan_count && reverse != s->reverse)) return; /* total_behind */
    s->reverse = reverse;
    s->scans[s->scan_count++] = op;
}

/* A tile without the axis' lanes but one. */
static const IrType *total_type(const Slice *s, const IrOp *scan) {
    return type_with_extent(s->ctx->module, scan->operands[0]->type, (unsigned)ir_attr_int(scan, "axis", 0), 1);
}

static IrValue *repeated(Slice *s, IrValue *total, const IrType *type) {
    int64_t axes[PRESENCE_MAX_RANK];
    for (unsigned i = 0; i < type->rank; i++) axes[i] = i;
    IrOp *op = ir_op_create(s->b, IR_TILE_BROADCAST, 1, &total, 1, &type);
    ir_attr_set_ints(op, "axes", type->rank, axes);
    return ir_result(op, 0);
}

IrValue *slice_splat(IrBuilder *b, IrKind kind, const IrType *type) {
    return tile_splat(b, type, reduce_identity(kind, type->dtype));
}

IrValue *slice_scan_begin(IrBuilder *b, const Slice *s, const IrOp *scan) {
    if (scan->operand_count > 2) return scan->operands[2];
    return slice_splat(b, is_linear(scan) ? IR_KIND_ADD : ir_op_kind(scan), total_type(s, scan));
}

static IrValue *linear_of(Slice *s, const IrOp *scan, IrValue *const *from, bool exclusive) {
    IrOp *op = ir_op_create(s->b, IR_TILE_SCAN, 3, from, 1, &from[0]->type);
    for (const IrAttr *at = scan->attrs; at; at = at->next)
        if (strcmp(at->key, "exclusive") != 0) ir_attr_copy(op, scan, at->key);
    if (exclusive) ir_attr_set_bool(op, "exclusive", true);
    return ir_result(op, 0);
}

/* The linear scan of a chunk from h = `before`; *last: h behind its last lane, which an exclusive one does not hold. */
static IrValue *recur_from(Slice *s, const IrOp *scan, IrValue *b, IrValue *a, IrValue *before, IrValue **last) {
    unsigned axis = (unsigned)ir_attr_int(scan, "axis", 0);
    IrValue *from[3] = {b, a, before}, *slice[2 * PRESENCE_MAX_RANK + 1], *result = linear_of(s, scan, from, false);
    char axes[PRESENCE_MAX_RANK + 1] = {0};
    slice[0] = result;
    for (unsigned i = 0; i < b->type->rank; i++) {
        int64_t at = i == axis && !ir_attr_bool(scan, "reverse") ? s->chunk - 1 : 0;
        slice[1 + 2 * i] = ir_const_index(s->b, at);
        slice[2 + 2 * i] = i == axis ? ir_const_index(s->b, at + 1) : ir_aff_emit(s->b, b->type->extents[i]);
        axes[i] = IR_LETTER_RANGE;
    }
    const IrType *type = total_type(s, scan);
    IrOp *lane = ir_op_create(s->b, IR_TILE_EXTRACT, 2 * b->type->rank + 1, slice, 1, &type);
    ir_attr_set_str(lane, "axes", axes);
    *last = ir_result(lane, 0);
    return ir_attr_bool(scan, "exclusive") ? linear_of(s, scan, from, true) : result;
}

static void count_anew(Slice *s, IrOp *scan) {
    if (s->anew++ == SPLIT_ANEW)
        slice_refuse(s, scan,
                     "so many scans of scans in both directions along one axis of symbolic extent; store some of them, "
                     "and scan what was stored in a loop nest of its own");
}

/* As total_behind, of a linear scan: h behind the chunks that come before this one, one after the other in the scan's direction. */
static IrValue *last_behind(Slice *s, IrOp *scan) {
    const Aff *extent = axes_class(s->axes, s->index)->extent;
    IrValue *chunk = ir_const_index(s->b, s->chunk), *upper = s->begin, *last = NULL;
    bool reverse = ir_attr_bool(scan, "reverse");
    count_anew(s, scan);
    Slice outer = *s;
    if (reverse) upper = slice_backward(s, extent, s->begin); /* lanes of the chunks behind this one */
    IrValue *init = slice_scan_begin(s->b, s, scan);
    IrOp *loop = ir_for(s->b, ir_const_index(s->b, 0), upper, chunk, 1, &init, "behind");
    IrBuilder inner = ir_builder_at_end(loop->regions[0]);
    inner.span = scan->span;
    s->b = &inner;
    s->begin = loop->regions[0]->args[0];
    if (reverse) s->begin = slice_backward(s, extent, s->begin);
    s->map = ir_value_map_create(s->ctx->scratch);
    s->scan_count = 0;
    IrValue *b = slice_value(s, scan->operands[0]), *a = slice_value(s, scan->operands[1]);
    if (s->ok) {
        recur_from(s, scan, b, a, loop->regions[0]->args[1], &last);
        ir_yield(&inner, 1, &last);
    }
    outer.ok = s->ok;
    outer.anew = s->anew;
    *s = outer;
    return ir_result(loop, 0);
}

/* Of a scan that the loop over chunks does not carry, as it goes the other way or as there are many: the total of the chunks that come
 * before this one in the scan's own direction, in a loop that makes them once more. Scans that feed it do so too. */
static IrValue *total_behind(Slice *s, IrOp *scan) {
    IrKind kind = ir_op_kind(scan);
    const IrType *type = total_type(s, scan);
    count_anew(s, scan);
    Slice outer = *s;
    IrValue *chunk = ir_const_index(s->b, s->chunk), *lower = ir_const_index(s->b, 0), *upper = s->begin;
    if (ir_attr_bool(scan, "reverse")) {
        lower = ir_binary(s->b, IR_ADD, s->begin, chunk);
        upper = ir_aff_emit(s->b, axes_class(s->axes, s->index)->extent);
    }
    IrValue *init = slice_splat(s->b, kind, type);
    IrOp *loop = ir_for(s->b, lower, upper, chunk, 1, &init, "behind");
    IrBuilder inner = ir_builder_at_end(loop->regions[0]);
    inner.span = scan->span;
    s->b = &inner;
    s->begin = loop->regions[0]->args[0];
    s->map = ir_value_map_create(s->ctx->scratch);
    s->scan_count = 0;
    IrValue *part = slice_value(s, scan->operands[0]);
    if (s->ok) {
        IrValue *sum = tile_reduced(s->b, part, kind, ir_attr_int(scan, "axis", 0), true, type);
        sum = ir_binary(&inner, reduce_opcode(kind), loop->regions[0]->args[1], sum);
        ir_yield(&inner, 1, &sum);
    }
    outer.ok = s->ok;
    outer.anew = s->anew;
    *s = outer;
    return ir_result(loop, 0);
}

/* h = a * h + b goes on from the last lane of the chunk before. */
static IrValue *recur_chunk(Slice *s, IrOp *scan, IrOp *copy, unsigned k) {
    IrValue *last, *before = k < s->scan_count ? s->totals[k] : last_behind(s, scan);
    IrValue *result = recur_from(s, scan, copy->operands[0], copy->operands[1], before, &last);
    if (k < s->scan_count) s->next[k] = last;
    return result;
}

IrValue *slice_scan(Slice *s, IrOp *scan, IrOp *copy) {
    IrKind kind = ir_op_kind(scan);
    unsigned k = 0;
    while (k < s->scan_count && s->scans[k] != scan) k++;
    if (is_linear(scan)) return recur_chunk(s, scan, copy, k);
    IrValue *part = copy->operands[0], *own = ir_result(copy, 0);
    IrValue *total = k < s->scan_count ? s->totals[k] : total_behind(s, scan);
    if (k < s->scan_count) {
        IrValue *sum = tile_reduced(s->b, part, kind, ir_attr_int(scan, "axis", 0), true, total->type);
        s->next[k] = ir_binary(s->b, reduce_opcode(kind), total, sum);
    }
    return ir_binary(s->b, reduce_opcode(kind), repeated(s, total, own->type), own);
}
