/* Staged buffers on a GPU: copies into shared memory and products of two stages. */
#include "analysis/gemm_plan.h"
#include "lower_buffers_internal.h"
#include "lower_internal.h"

/* Of a thread: for sums and single elements on their way, each of which takes REGISTERS_COPY, its address among them. */
enum {
    MOST_REGISTERS = 208, /* of a thread that fragments may take, of 255 */
    REGISTERS_COPY = 2,   /* registers that an element on its way takes, its address among them */
    STEPS_AT_ONCE = 16    /* copies of a thread that are in flight */
};

Buffer lower_buffer_of(Lower *x, IrValue *buf) {
    const IrType *t = buf->type;
    const IrAttr *swizzle = ir_attr(buf->def, "swizzle");
    Buffer b = {.rows = ir_type_extent(t, 0), .columns = ir_type_extent(t, 1), .dtype = t->dtype, .vec = 1, .per_phase = 1, .max_phase = 1};
    b.pitch = ir_attr_int(buf->def, "pitch", b.columns);
    b.stage = b.rows * b.pitch;
    if (swizzle) b.vec = swizzle->ints[0], b.per_phase = swizzle->ints[1], b.max_phase = swizzle->ints[2];
    Rep *rep = lower_rep(x, buf);
    b.shared = rep ? rep->value : NULL;
    return b;
}

static void lower_alloc(Lower *x, IrOp *op) {
    Buffer b = lower_buffer_of(x, &op->results[0]);
    const char *name = ir_attr_str(op, "name", "buffer");
    lower_bind_scalar(x, &op->results[0], lower_shared(x, b.dtype, b.stage * op->results[0].type->stages, name));
}

IrValue *lower_buffer_offset(IrBuilder *b, const Buffer *buf, IrValue *row, IrValue *column) {
    IrValue *line = index_mul_const(b, row, buf->pitch);
    if (buf->max_phase > 1) {
        IrValue *phase =
            buf->per_phase > 1 ? ir_binary(b, IR_SHR, row, ir_const_index(b, __builtin_ctzll((unsigned long long)buf->per_phase))) : row;
        phase = ir_binary(b, IR_AND, phase, ir_const_index(b, buf->max_phase - 1));
        column = ir_binary(b, IR_XOR, column, index_mul_const(b, phase, buf->vec));
    }
    return ir_binary(b, IR_ADD, line, column);
}

IrValue *lower_stage_offset(IrBuilder *b, const Buffer *buf, IrValue *stage) {
    return index_mul_const(b, stage, buf->stage);
}

/* ---- Copies ---- */

static int64_t power_of_two_part(int64_t n) {
    return n & -n;
}

/* Threads along the columns first, `vec` elements each, then along the rows; what is left repeats. */
static Dist copy_dist(const Lower *x, int64_t rows, int64_t columns, int64_t vec) {
    int64_t across = power_of_two_part(columns / vec), threads = 32 * x->num_warps;
    if (across > threads) across = threads;
    int64_t down = threads / across;
    Dist d = {.rank = 2};
    int64_t row_steps = (rows + down - 1) / down, column_steps = columns / vec / across;
    d.padded[0] = down * row_steps, d.padded[1] = columns;
    d.dims[d.dim_count++] = (DistDim){row_steps, 1, {{row_steps, 0, down}}};
    if (column_steps > 1) d.dims[d.dim_count++] = (DistDim){column_steps, 1, {{column_steps, 1, across * vec}}};
    d.dims[d.dim_count++] = (DistDim){vec, 1, {{vec, 1, 1}}};
    /* Thread number = warp * 32 + lane; its low bits run along the columns. */
    unsigned across_bits = (unsigned)__builtin_ctzll((unsigned long long)across);
    unsigned lane_across = across_bits < 5 ? across_bits : 5;
    if (lane_across) d.terms[d.term_count++] = (DistTerm){DIST_LANE, 0, (1 << lane_across) - 1, 1, vec};
    if (lane_across < 5) d.terms[d.term_count++] = (DistTerm){DIST_LANE, lane_across, (32 >> lane_across) - 1, 0, 1};
    unsigned warp_across = across_bits - lane_across;
    if (warp_across) d.terms[d.term_count++] = (DistTerm){DIST_WARP, 0, (1 << warp_across) - 1, 1, vec * 32};
    int64_t warp_rows = x->num_warps >> warp_across;
    if (warp_rows > 1) d.terms[d.term_count++] = (DistTerm){DIST_WARP, warp_across, warp_rows - 1, 0, 32 >> lane_across};
    return d;
}

static IrValue *zero_of(IrBuilder *b, const IrType *scalar) {
    return dtype_is_float(scalar->dtype) ? ir_const_float(b, scalar, 0) : ir_const_int(b, scalar, 0);
}

/* Where a thread's piece goes, and whether the stage reaches so far. */
typedef struct {
    const Buffer *buf;
    IrValue *offset, *inside; /* inside null: always */
} Place;

static Place piece_target(Lower *x, IrBuilder *b, const Buffer *buf, const Dist *dist, IrValue *place, IrValue *const *index) {
    IrValue *at[2];
    for (unsigned a = 0; a < 2; a++) {
        at[a] = index_add(b, dist_base(x, dist, a), dist_local(b, dist, a, index));
        if (!at[a]) at[a] = ir_const_index(b, 0);
    }
    Place t = {.buf = buf, .offset = index_add(b, place, lower_buffer_offset(b, buf, at[0], at[1]))};
    if (dist->padded[0] > buf->rows) t.inside = index_less(b, at[0], ir_const_index(b, buf->rows));
    return t;
}

/* cp.async of `bytes`; masked ones fill with zeros. */
static void copy_async(IrBuilder *b, IrValue *pointer, IrValue *source, IrValue *mask, const Place *to, int64_t bytes) {
    IrValue *valid = ir_const_index(b, bytes);
    if (mask) valid = ir_select(b, mask, valid, ir_const_index(b, 0));
    IrValue *operands[5] = {pointer, source, to->buf->shared, to->offset, valid};
    IrBuilder at = *b;
    if (to->inside) {
        IrValue *inside = to->inside;
        IrOp *branch = ir_op_create(b, IR_IF, 1, &inside, 0, NULL);
        at = ir_builder_at_end(branch->regions[0]);
    }
    ir_attr_set_int(ir_op_create(&at, IR_ASYNC_COPY, 5, operands, 0, NULL), "bytes", bytes);
    if (to->inside) ir_yield(&at, 0, NULL);
}

/* One element through a register: too narrow for cp.async. */
static void copy_element(Lower *x, IrBuilder *b, IrValue *pointer, IrValue *source, IrValue *mask, const Place *to) {
    const IrType *type = ir_type_scalar(x->module, to->buf->dtype);
    IrValue *operands[4] = {pointer, source, mask, mask ? zero_of(b, type) : NULL};
    IrValue *value = ir_result(ir_op_create(b, IR_MEM_LOAD, mask ? 4 : 2, operands, 1, &type), 0);
    IrValue *stored[4] = {value, to->buf->shared, to->offset, to->inside};
    ir_op_create(b, IR_MEM_STORE, to->inside ? 4 : 3, stored, 0, NULL);
}

static Dist copied_dist(const Lower *x, const Buffer *buf, const IrOp *op, int64_t width) {
    const IrAttr *extents = ir_attr(op, "extents");
    Dist dist = copy_dist(x, buf->rows, buf->columns, width);
    for (unsigned a = 0; a < 2; a++) dist.extents[a] = extents->ints[a];
    return dist;
}

/* Sums that the products of a block, and of those around it, hold in a thread's registers. */
static int64_t held_sums(const Lower *x, const IrBlock *block) {
    int64_t held = block->parent ? held_sums(x, block->parent->block) : 0;
    for (const IrOp *op = block->first; op; op = op->next) {
        if (op->opcode != IR_BUF_GEMM) continue;
        const IrOp *before = op->operands[4]->def;
        GemmPlan plan = gemm_plan_get(op);
        if (before && before->opcode == IR_BUF_GEMM && before->block == block) continue;
        held += plan.pad_m * plan.pad_n / (32 * x->num_warps) * (before && before->opcode == IR_CONST ? 2 : 1);
    }
    return held;
}

/* Steps along the rows that are under way at once where single elements go through registers: all, or what divides them and leaves
 * the block's copies, with an address each, beside its sums; at most half, so that the copies are loops and stay one behind the other. */
static int64_t steps_at_once(const Lower *x, const IrOp *op, const Dist *dist, int64_t width) {
    int64_t steps = dist->dims[0].extent, across = 1, copies = 0;
    for (unsigned i = 1; i < dist->dim_count; i++) across *= dist->dims[i].extent;
    for (const IrOp *other = op->block->first; other; other = other->next) copies += other->opcode == IR_BUF_COPY;
    int64_t room = (MOST_REGISTERS - held_sums(x, op->block)) / REGISTERS_COPY, most = STEPS_AT_ONCE;
    if (steps * across / width * copies <= room) return steps;
    if (steps > 1 && most > steps / 2) most = steps / 2;
    while (most > 1 && steps % most) most--;
    return most;
}

static void lower_copy(Lower *x, IrOp *op) {
    lower_order(x, op);
    Buffer buf = lower_buffer_of(x, op->operands[1]);
    IrValue *stage = lower_scalar(x, op->operands[2]);
    int64_t size = (int64_t)dtype_size(buf.dtype), width = 16 / size;
    while (width > 1 && buf.columns % width) width /= 2;
    Dist dist = copied_dist(x, &buf, op, width);
    AccessPlan plan = access_plan(x, op, &dist);
    if (plan.width < width) {
        width = plan.width;
        dist = copied_dist(x, &buf, op, width);
    }
    IrBuilder inner, saved = x->b;
    IrValue *index[DIST_MAX_DIMS], *mask;
    Dist part = dist;
    if (width * size < 4) part.dims[0].extent = steps_at_once(x, op, &dist, width);
    int64_t rounds = dist.dims[0].extent / part.dims[0].extent;
    IrOp *round = NULL;
    if (rounds > 1) {
        round = ir_for(&x->b, ir_const_index(&x->b, 0), ir_const_index(&x->b, rounds), ir_const_index(&x->b, 1), 0, NULL, "round");
        ir_attr_set_int(round, "unroll", 1);
        x->b = ir_builder_at_end(round->regions[0]);
        x->b.span = saved.span;
    }
    IrOp *map = dist_map(x, &part, width, DTYPE_NONE, &inner, index);
    if (round) {
        IrValue *first = ir_binary(&inner, IR_MUL, round->regions[0]->args[0], ir_const_index(&inner, part.dims[0].extent));
        index[0] = ir_binary(&inner, IR_ADD, first, index[0]);
        ir_yield(&x->b, 0, NULL);
    }
    x->b = ir_builder_before(round ? round : map);
    x->b.span = saved.span;
    IrValue *source = access_offset(x, &inner, &plan, &dist, index, &mask);
    IrValue *place = lower_stage_offset(&x->b, &buf, stage);
    x->b = saved;
    Place to = piece_target(x, &inner, &buf, &dist, place, index);
    if (width * size >= 4)
        copy_async(&inner, access_pointer(&plan), source, mask, &to, width * size);
    else
        copy_element(x, &inner, access_pointer(&plan), source, mask, &to);
    ir_yield(&inner, 0, NULL);
}

/* Zeros in a whole stage: the tile to be stored leaves padding out. */
static void clear_stage(Lower *x, const Buffer *buf, IrValue *stage) {
    Dist dist = copy_dist(x, buf->rows, buf->columns, 1);
    IrBuilder inner;
    IrValue *index[DIST_MAX_DIMS], *place = lower_stage_offset(&x->b, buf, stage);
    dist_map(x, &dist, 1, DTYPE_NONE, &inner, index);
    Place to = piece_target(x, &inner, buf, &dist, place, index);
    IrValue *zero = zero_of(&inner, ir_type_scalar(x->module, buf->dtype));
    IrValue *operands[4] = {zero, buf->shared, to.offset, to.inside};
    ir_op_create(&inner, IR_MEM_STORE, to.inside ? 4 : 3, operands, 0, NULL);
    ir_yield(&inner, 0, NULL);
}

static int64_t lead_count(const Dist *dist) {
    int64_t count = 1;
    for (unsigned a = 0; a + 2 < dist->rank; a++) count *= dist->extents[a];
    return count;
}

/* A tile from registers into a buffer, zero where it is absent; of leading axes a stage for each index. */
static void lower_buf_store(Lower *x, IrOp *op) {
    IrValue *tile = op->operands[0], *index[DIST_MAX_DIMS];
    Buffer buf = lower_buffer_of(x, op->operands[1]);
    Rep *rep = lower_rep(x, tile);
    Dist dist = dist_of(tile->type);
    unsigned lead = dist.rank - 2;
    if (buf.rows > dist.padded[lead] || buf.columns > dist.padded[lead + 1]) {
        IrValue *first = lower_scalar(x, op->operands[2]);
        for (int64_t i = 0; i < lead_count(&dist); i++) clear_stage(x, &buf, ir_binary(&x->b, IR_ADD, first, ir_const_index(&x->b, i)));
        lower_barrier(x);
    }
    IrBuilder inner, saved;
    IrOp *map = dist_map(x, &dist, 1, DTYPE_NONE, &inner, index);
    saved = x->b;
    x->b = ir_builder_before(map);
    IrValue *mask = presence_mask(x, &inner, tile, &dist, index, NULL);
    IrValue *place = lower_stage_offset(&x->b, &buf, lower_scalar(x, op->operands[2]));
    Dist own = dist;
    own.used_blocks = x->cluster - 1; /* each block has a buffer of its own */
    IrValue *inside = owner_mask(x, &own);
    x->b = saved;
    IrValue *value = rep_get(x, &inner, rep, &dist, index, 1), *at[DIST_MAX_RANK] = {0};
    const IrType *type = value->type;
    if (mask)
        value = ir_select(&inner, mask, value, dtype_is_float(buf.dtype) ? ir_const_float(&inner, type, 0) : ir_const_int(&inner, type, 0));
    for (unsigned a = 0; a < dist.rank; a++) {
        int64_t limit = a == lead ? buf.rows : a > lead ? buf.columns : dist.extents[a];
        at[a] = index_add(&inner, dist_base(x, &dist, a), dist_local(&inner, &dist, a, index));
        at[a] = at[a] ? at[a] : ir_const_index(&inner, 0);
        if (dist.padded[a] > limit) inside = mask_and(&inner, inside, index_less(&inner, at[a], ir_const_index(&inner, limit)));
    }
    int64_t matrices = buf.stage;
    for (unsigned a = lead; a-- > 0; matrices *= dist.extents[a])
        place = index_add(&inner, place, index_mul_const(&inner, at[a], matrices));
    IrValue *target = index_add(&inner, place, lower_buffer_offset(&inner, &buf, at[lead], at[lead + 1]));
    IrValue *operands[4] = {value, buf.shared, target, inside};
    ir_op_create(&inner, IR_MEM_STORE, inside ? 4 : 3, operands, 0, NULL);
    ir_yield(&inner, 0, NULL);
}

static void lower_sync(Lower *x, IrOp *op) {
    IrOp *copy = ir_op_create(&x->b, op->opcode, 0, NULL, 0, NULL);
    copy->attrs = op->attrs;
}

void lower_buf_op(Lower *x, IrOp *op) {
    switch (op->opcode) {
    case IR_BUF_ALLOC:
        (ir_attr(op, "tma") ? lower_box_alloc : lower_alloc)(x, op);
        return;
    case IR_BUF_COPY:
        lower_copy(x, op);
        return;
    case IR_BUF_STORE:
        lower_buf_store(x, op);
        return;
    case IR_BUF_GEMM: {
        GemmPlan plan = gemm_plan_get(op);
        (gemm_plan_is_wgmma(&plan) ? lower_box_gemm : lower_buf_gemm)(x, op);
        return;
    }
    case IR_BARRIER:
    case IR_ASYNC_COMMIT:
    case IR_ASYNC_WAIT:
        lower_sync(x, op);
        return;
    default:
        lower_error(x, op, "no lowering to kernel level yet");
        return;
    }
}
