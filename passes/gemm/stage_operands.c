/* Factors of gemms in shared memory: which are copied ahead, their buffers, their copies. */
#include "analyzer.h"
#include "stage_internal.h"

#include <string.h>

enum {
    BOX_BYTES = 128,      /* of a row of a box: the widest swizzle (CUDA driver API, CU_TENSOR_MAP_SWIZZLE_128B) */
    LEAST_BOX_BYTES = 32, /* the narrowest swizzle */
    BOX_EXTENT = 256      /* elements of a box along an axis, at most (CUDA driver API, cuTensorMapEncodeTiled) */
};
enum { MAP_NAME = 16 }; /* letters of a tensor's name: the map's has its box behind it */

int64_t stage_matrices(const IrType *tile) {
    int64_t count = 1;
    for (unsigned i = 0; i + 2 < tile->rank; i++) count *= ir_type_extent(tile, i);
    return count;
}

/* ---- How a factor gets there ---- */

/* Copies fill with zeros, stand earlier than the load (nobody may write its tensor), and leave slices by index tiles out. */
/* What copies can address from anywhere: a tensor, or a view of one by whose strides its rows lie, too. */
static bool is_memory(const IrValue *tensor) {
    if (!tensor->def) return true;
    return !home_of(tensor)->parent && view_joins_rows(home_of(tensor)->func->module, tensor);
}

static void lift_view(void *context, IrOp *load) {
    IrFunc *f = context;
    if (load->opcode != IR_TILE_LOAD || !is_view(load->operands[0]) || is_memory(load->operands[0])) return;
    IrValue *view = load->operands[0], *memory = memory_of(view), *at[IR_SLICE_MAX_RANK];
    if (memory->def || !view_joins_rows(f->module, view)) return;
    IrBuilder b = ir_builder_before(f->body->first);
    b.span = view->def->span;
    IrOp *op = ir_op_create(&b, IR_VIEW, 1, &memory, 1, &view->type);
    op->results[0].name = view->name;
    IrBuilder inner = ir_builder_at_end(op->regions[0]);
    inner.span = b.span;
    unsigned rank = view->type->rank;
    ANALYZER_ASSUME(rank >= 2 && rank <= COUNT_OF(at)); /* it joins rows */
    for (unsigned a = 0; a < rank; a++)
        at[a] = ir_region_add_arg(op->regions[0], ir_type_index(f->module), view->def->regions[0]->args[a]->name);
    IrValue *column = at[rank - 1], *row = ir_const_index(&inner, ir_type_extent(memory->type, rank - 1));
    at[rank - 2] = ir_binary(&inner, IR_ADD, at[rank - 2], ir_binary(&inner, IR_FLOORDIV, column, row));
    at[rank - 1] = ir_binary(&inner, IR_MOD, column, row);
    ir_yield(&inner, rank, at);
    ir_set_operand(load, 0, ir_result(op, 0));
}

void stage_lift_views(IrFunc *f) {
    ir_walk(f->body, lift_view, f);
}

static bool is_plain_load(const IrOp *load) {
    const IrAttr *pad = ir_attr(load, "pad");
    const char *axes = ir_attr_str(load, "axes", "");
    return load->opcode == IR_TILE_LOAD && is_memory(load->operands[0]) && (!pad || (pad->kind == IR_ATTR_FLOAT && pad->number == 0)) &&
           strspn(axes, "rp") == strlen(axes) && load->operands[0]->type->kind == IR_TYPE_TENSOR &&
           load->operands[0]->type->dtype == load->results[0].type->dtype && !is_stored_to(load->operands[0]);
}

bool stage_can_copy(const IrValue *factor) {
    return factor->def && is_plain_load(factor->def);
}

bool stage_is_before(const IrOp *a, const IrOp *b) {
    for (const IrOp *op = b->prev; op; op = op->prev)
        if (op == a) return true;
    return false;
}

static bool is_recomputable(const IrBlock *body, IrValue *value) {
    if (!value->def || value->def->block != body) {
        /* Of the loop's arguments only the variable itself is known ahead. */
        return value->block != body || value->index == 0;
    }
    if (!ir_has_trait(value->def, IR_PURE)) return false;
    for (unsigned i = 0; i < value->def->operand_count; i++)
        if (!is_recomputable(body, value->def->operands[i])) return false;
    return true;
}

/* Whether the value is a factor of the block's gemms and nothing else. */
static bool feeds_gemms(const IrBlock *block, const IrValue *value) {
    for (const IrUse *u = value->uses; u; u = u->next)
        if (u->op->opcode != IR_TILE_GEMM || u->op->block != block || u->index == 2) return false;
    return value->uses;
}

Fill stage_fill(const Ring *ring, IrBlock *block, const IrOp *first_gemm, IrValue *value) {
    if (ring->loop && !is_inside(home_of(value), block)) return FILL_BEFORE;
    if (!value->def || value->def->block != block || !is_plain_load(value->def) || !feeds_gemms(block, value)) return FILL_INSIDE;
    if (!ring->loop) return stage_is_before(value->def, first_gemm) ? FILL_AHEAD : FILL_INSIDE;
    for (unsigned k = 1; k < value->def->operand_count; k++)
        if (!is_recomputable(block, value->def->operands[k])) return FILL_INSIDE;
    return FILL_AHEAD;
}

/* ---- Buffers ---- */

void stage_alloc(Staging *s, IrBuilder *b, Operand *o, int64_t stages, bool mma) {
    AffCtx *c = s->module->affs;
    Dtype dtype = o->value->type->dtype;
    int64_t size = (int64_t)dtype_size(dtype), row_bytes = o->columns * size;
    const Aff *extents[2] = {aff_const(c, o->rows), aff_const(c, o->columns)};
    const IrType *type = ir_type_buf(s->module, dtype, 2, extents, (unsigned)(stages * o->matrices), IR_SPACE_SHARED, NULL);
    IrOp *op = ir_op_create(b, IR_BUF_ALLOC, 0, NULL, 1, &type);
    /* 16-byte chunks of a row are permuted by row, so that eight rows at one column, which is what ldmatrix reads,
     * lie in different banks; chunks of 32 bytes where four rows of eight words each are read. */
    int64_t chunk = o->across && size == 4 ? 32 : 16;
    int64_t vec = 16 / size, pitch = o->columns, chunks = row_bytes / chunk;
    if (mma && chunks > 1 && row_bytes % chunk == 0 && (chunks & (chunks - 1)) == 0) {
        vec = chunk / size;
        int64_t per_phase = row_bytes < 128 ? 128 / row_bytes : 1, most = 128 / chunk / per_phase;
        int64_t swizzle[3] = {vec, per_phase, chunks < most ? chunks : most};
        ir_attr_set_ints(op, "swizzle", 3, swizzle);
    } else {
        pitch += vec; /* rows start 16 bytes apart modulo the banks */
    }
    ir_attr_set_int(op, "pitch", pitch);
    if (o->value->name) ir_attr_set_str(op, "name", o->value->name);
    o->buf = ir_result(op, 0);
    o->buf->name = o->value->name;
}

/* Bytes of a row of a block of columns: what the swizzle permutes within, as many as divide a row. 0: there is none of that size. */
static int64_t box_bytes(int64_t row_bytes) {
    int64_t bytes = BOX_BYTES;
    while (bytes >= LEAST_BOX_BYTES && row_bytes % bytes) bytes /= 2;
    return bytes >= LEAST_BOX_BYTES ? bytes : 0;
}

void stage_alloc_tma(Staging *s, IrBuilder *b, Operand *o, int64_t stages) {
    AffCtx *c = s->module->affs;
    Dtype dtype = o->value->type->dtype;
    const Aff *extents[2] = {aff_const(c, o->rows), aff_const(c, o->columns)};
    const IrType *type = ir_type_buf(s->module, dtype, 2, extents, (unsigned)stages, IR_SPACE_SHARED, NULL);
    IrOp *op = ir_op_create(b, IR_BUF_ALLOC, 0, NULL, 1, &type);
    ir_attr_set_int(op, "tma", box_bytes(o->columns * (int64_t)dtype_size(dtype)));
    if (o->value->name) ir_attr_set_str(op, "name", o->value->name);
    o->buf = ir_result(op, 0);
    o->buf->name = o->value->name;
}

/* All of the lanes that a range names, whatever the sizes: what the engine brings beyond the range's end
 * would not be absent. */
static bool is_whole_range(IrModule *m, const IrOp *load, const IrSliceAxis *range, int64_t extent) {
    int64_t length;
    const Aff *begin = ir_aff_of(m, load->operands[range->operand]);
    const Aff *end = ir_aff_of(m, load->operands[range->operand + 1]);
    return range->step == 1 && aff_is_const(aff_sub(m->affs, end, begin), &length) && length >= extent;
}

/* A box begins at a multiple of 16 bytes of its rows, or the engine stops the kernel. */
static bool begins_aligned(PassContext *ctx, const IrOp *load, const IrSliceAxis *range, Dtype dtype) {
    const Aff *begin = ir_aff_of(ctx->module, load->operands[range->operand]);
    int64_t elements = 16 / (int64_t)dtype_size(dtype);
    return aff_known_divisor(ir_facts_at(ctx->scratch, (IrOp *)(uintptr_t)load), begin, elements) % elements == 0;
}

/* A map of joined rows ends where its tensor does; a view that ends before has zeros there, which products sum up. */
static bool ends_with_map(IrModule *m, const IrValue *view) {
    int64_t joined = view_joins_rows(m, view), fewer;
    const IrType *of = view->def->operands[0]->type, *t = view->type;
    unsigned axis = t->rank - 2;
    return joined && aff_is_const(aff_sub(m->affs, of->extents[axis], t->extents[axis]), &fewer) && fewer == joined - 1;
}

bool stage_fits_tma(PassContext *ctx, const IrOp *load) {
    const IrType *tile = load->results[0].type, *tensor = load->operands[0]->type;
    IrSlice slice = ir_slice(load);
    if (is_view(load->operands[0]) && !ends_with_map(ctx->module, load->operands[0])) return false;
    if (tile->rank != 2 || slice.kept != 2 || tensor->rank > IR_MAP_RANK || tensor->strides ||
        strlen(memory_of(load->operands[0])->name) > MAP_NAME || slice.axes[slice.rank - 1].letter != IR_LETTER_RANGE)
        return false;
    for (unsigned a = 0; a < 2; a++) {
        const IrSliceAxis *range = ir_slice_range(&slice, a, NULL);
        if (!range || !is_whole_range(ctx->module, load, range, ir_type_extent(tile, a))) return false;
        if (a == 1 && !begins_aligned(ctx, load, range, tile->dtype)) return false;
    }
    int64_t rows = ir_type_extent(tile, 0), bytes = ir_type_extent(tile, 1) * (int64_t)dtype_size(tile->dtype);
    return rows % 8 == 0 && rows <= BOX_EXTENT && box_bytes(bytes);
}

IrValue *stage_first_matrix(IrBuilder *b, const Operand *o, IrValue *stage) {
    return ir_binary(b, IR_MUL, stage, ir_const_index(b, o->matrices));
}

/* ---- Copies ---- */

IrValue *stage_recompute(IrBuilder *b, IrValueMap *map, const IrBlock *body, IrValue *value) {
    IrValue *known = ir_value_map_get(map, value);
    if (known != value || !value->def || !is_inside(value->def->block, body)) return known;
    for (unsigned i = 0; i < value->def->operand_count; i++) stage_recompute(b, map, body, value->def->operands[i]);
    ir_op_clone(b, value->def, map);
    return ir_value_map_get(map, value);
}

/* The slice of a load: letters, operands and steps of what one copy takes. */
typedef struct {
    char axes[STAGE_MAX_RANK + 1];
    IrValue *operands[2 * STAGE_MAX_RANK + 5];
    unsigned count, steps_count;
    int64_t steps[STAGE_MAX_RANK];
} Slice;

/* The index of lane `lane` of a range, -1 (absent) behind its end. */
static IrValue *range_point(IrBuilder *b, IrValue *begin, IrValue *end, int64_t step, IrValue *lane, int64_t lanes) {
    IrModule *m = b->module;
    IrValue *at = ir_binary(b, IR_MUL, lane, ir_const_index(b, step)), *point = ir_binary(b, IR_ADD, begin, at);
    const Aff *length = aff_sub(m->affs, ir_aff_of(m, end), ir_aff_of(m, begin));
    int64_t constant;
    if (aff_is_const(length, &constant) && constant > (lanes - 1) * step) return point;
    IrValue *inside = ir_binary(b, IR_LT, at, ir_binary(b, IR_SUB, end, begin));
    return ir_select(b, inside, point, ir_const_index(b, -1));
}

/* The slice with leading tile axes at matrix number `matrix`. */
static void slice_of_matrix(IrBuilder *b, const IrOp *load, IrValue *const *operands, IrValue *matrix, Slice *s) {
    const IrType *tile = load->results[0].type;
    const char *axes = ir_attr_str(load, "axes", "");
    unsigned tile_axis = 0, from = 0, lead = tile->rank - 2;
    for (unsigned i = 0; axes[i]; i++) {
        bool range = axes[i] == IR_LETTER_RANGE, is_lead = range && tile_axis < lead;
        int64_t step = range ? slice_step(load, tile_axis) : 1;
        s->axes[i] = is_lead ? IR_LETTER_POINT : axes[i];
        if (is_lead) {
            int64_t after = 1, lanes = ir_type_extent(tile, tile_axis);
            for (unsigned a = tile_axis + 1; a < lead; a++) after *= ir_type_extent(tile, a);
            IrValue *lane = ir_binary(b, IR_FLOORDIV, matrix, ir_const_index(b, after));
            if (tile_axis) lane = ir_binary(b, IR_MOD, lane, ir_const_index(b, lanes));
            /* NOLINTNEXTLINE(*CallAndMessage): the load has these operands */
            s->operands[s->count++] = range_point(b, operands[from], operands[from + 1], step, lane, lanes);
        } else {
            /* NOLINTBEGIN(*uninitialized.Assign): as above */
            s->operands[s->count++] = operands[from];
            if (range) s->operands[s->count++] = operands[from + 1], s->steps[s->steps_count++] = step;
            /* NOLINTEND(*uninitialized.Assign) */
        }
        from += range ? 2 : 1;
        tile_axis += range;
    }
}

static void copy_matrix(Staging *s, IrBuilder *b, const Operand *o, IrValue *full, IrValue *const *operands, IrValue *first,
                        IrValue *matrix) {
    IrOp *load = o->value->def;
    Slice slice = {.operands = {load->operands[0], o->buf, ir_binary(b, IR_ADD, first, matrix)}, .count = 3};
    if (full) slice.operands[slice.count++] = full, slice.operands[slice.count++] = first;
    slice_of_matrix(b, load, operands, matrix, &slice);
    const IrType *token = ir_type_token(s->module), *tile = load->results[0].type;
    IrOp *copy = ir_op_create(b, full ? IR_TMA_COPY : IR_BUF_COPY, slice.count, slice.operands, 1, &token);
    copy->span = load->span;
    ir_attr_set_str(copy, "axes", slice.axes);
    if (ir_attr(load, "steps")) ir_attr_set_ints(copy, "steps", slice.steps_count, slice.steps);
    int64_t extents[2] = {ir_type_extent(tile, tile->rank - 2), ir_type_extent(tile, tile->rank - 1)};
    ir_attr_set_ints(copy, "extents", 2, extents);
    /* The engine rounds them on the way: the instruction would cut them off. */
    if (full && tile->dtype == DTYPE_F32) ir_attr_set_bool(copy, "tf32", true);
}

/* What stands for the loop's variable, and for the tile's number or what comes from it. */
static IrValueMap *map_fetch(Staging *s, const Ring *ring, StageFetch fetch) {
    IrValueMap *map = ir_value_map_create(s->ctx->scratch);
    if (ring->loop) ir_value_map_set(map, ring->loop->regions[0]->args[0], fetch.iteration);
    if (fetch.tile) ir_value_map_set(map, ring->persistent.loop->regions[0]->args[0], fetch.tile);
    for (size_t i = 0; i < ring->persistent.leaves.len && !fetch.tile; i++)
        ir_value_map_set(map, ring->persistent.leaves.data[i].value, ring->persistent.leaves.data[i].there);
    return map;
}

void stage_copy_once(Staging *s, IrBuilder *b, const Ring *ring, const Operand *o) {
    copy_matrix(s, b, o, ring->once, o->value->def->operands + 1, ir_const_index(b, 0), ir_const_index(b, 0));
}

void stage_copy(Staging *s, IrBuilder *b, const Ring *ring, const Operand *o, StageFetch fetch, IrValue *stage) {
    IrOp *load = o->value->def;
    IrValueMap *map = map_fetch(s, ring, fetch);
    const IrBlock *body = ring->persistent.loop ? ring->persistent.loop->regions[0] : load->block;
    IrValue *operands[2 * STAGE_MAX_RANK];
    for (unsigned i = 1; i < load->operand_count; i++)
        operands[i - 1] = ring->loop ? stage_recompute(b, map, body, load->operands[i]) : load->operands[i];
    IrValue *first = stage_first_matrix(b, o, stage), *zero = ir_const_index(b, 0);
    if (o->matrices == 1) {
        copy_matrix(s, b, o, ring->phases[o->late].full, operands, first, zero);
        return;
    }
    IrOp *loop = ir_for(b, zero, ir_const_index(b, o->matrices), ir_const_index(b, 1), 0, NULL, "matrix");
    IrBuilder inner = ir_builder_at_end(loop->regions[0]);
    inner.span = b->span;
    copy_matrix(s, &inner, o, ring->phases[o->late].full, operands, first, loop->regions[0]->args[0]);
    ir_yield(&inner, 0, NULL);
}
