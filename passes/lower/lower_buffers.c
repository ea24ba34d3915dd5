/* Staged buffers on a GPU: copies into shared memory and products of two stages. */
#include "analysis/gemm_plan.h"
#include "lower_internal.h"

/* Of a thread: for sums and single elements on their way, each of which takes REGISTERS_COPY, its address among them. */
enum {
    MOST_REGISTERS = 208, /* of a thread that fragments may take, of 255 */
    REGISTERS_COPY = 2,   /* registers that an element on its way takes, its address among them */
    STEPS_AT_ONCE = 16    /* copies of a thread that are in flight */
};

/* A buffer at kernel level. */
typedef struct {
    IrValue *shared;                     /* pointer to stage 0 */
    int64_t rows, columns, pitch, stage; /* elements; stage: from one to the next */
    int64_t vec, per_phase, max_phase;   /* swizzle; max_phase 1: none */
    Dtype dtype;
} Buffer;

static Buffer buffer_of(Lower *x, IrValue *buf) {
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
    Buffer b = buffer_of(x, &op->results[0]);
    const char *name = ir_attr_str(op, "name", "buffer");
    lower_bind_scalar(x, &op->results[0], lower_shared(x, b.dtype, b.stage * op->results[0].type->stages, name));
}

static IrValue *constant(IrBuilder *b, int64_t value) {
    return ir_const_index(b, value);
}

/* Element offset of (row, column) within a stage; `column` at a multiple of vec plus `within`. */
static IrValue *buffer_offset(IrBuilder *b, const Buffer *buf, IrValue *row, IrValue *column) {
    IrValue *line = index_mul_const(b, row, buf->pitch);
    if (buf->max_phase > 1) {
        IrValue *phase =
            buf->per_phase > 1 ? ir_binary(b, IR_SHR, row, constant(b, __builtin_ctzll((unsigned long long)buf->per_phase))) : row;
        phase = ir_binary(b, IR_AND, phase, constant(b, buf->max_phase - 1));
        column = ir_binary(b, IR_XOR, column, index_mul_const(b, phase, buf->vec));
    }
    return ir_binary(b, IR_ADD, line, column);
}

static IrValue *stage_offset(IrBuilder *b, const Buffer *buf, IrValue *stage) {
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
        if (!at[a]) at[a] = constant(b, 0);
    }
    Place t = {.buf = buf, .offset = index_add(b, place, buffer_offset(b, buf, at[0], at[1]))};
    if (dist->padded[0] > buf->rows) t.inside = index_less(b, at[0], constant(b, buf->rows));
    return t;
}

/* cp.async of `bytes`; masked ones fill with zeros. */
static void copy_async(IrBuilder *b, IrValue *pointer, IrValue *source, IrValue *mask, const Place *to, int64_t bytes) {
    IrValue *valid = constant(b, bytes);
    if (mask) valid = ir_select(b, mask, valid, constant(b, 0));
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
    Buffer buf = buffer_of(x, op->operands[1]);
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
        round = ir_for(&x->b, constant(&x->b, 0), constant(&x->b, rounds), constant(&x->b, 1), 0, NULL, "round");
        ir_attr_set_int(round, "unroll", 1);
        x->b = ir_builder_at_end(round->regions[0]);
        x->b.span = saved.span;
    }
    IrOp *map = dist_map(x, &part, width, DTYPE_NONE, &inner, index);
    if (round) {
        IrValue *first = ir_binary(&inner, IR_MUL, round->regions[0]->args[0], constant(&inner, part.dims[0].extent));
        index[0] = ir_binary(&inner, IR_ADD, first, index[0]);
        ir_yield(&x->b, 0, NULL);
    }
    x->b = ir_builder_before(round ? round : map);
    x->b.span = saved.span;
    IrValue *source = access_offset(x, &inner, &plan, &dist, index, &mask);
    IrValue *place = stage_offset(&x->b, &buf, stage);
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
    IrValue *index[DIST_MAX_DIMS], *place = stage_offset(&x->b, buf, stage);
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
    Buffer buf = buffer_of(x, op->operands[1]);
    Rep *rep = lower_rep(x, tile);
    Dist dist = dist_of(tile->type);
    unsigned lead = dist.rank - 2;
    if (buf.rows > dist.padded[lead] || buf.columns > dist.padded[lead + 1]) {
        IrValue *first = lower_scalar(x, op->operands[2]);
        for (int64_t i = 0; i < lead_count(&dist); i++) clear_stage(x, &buf, ir_binary(&x->b, IR_ADD, first, constant(&x->b, i)));
        lower_barrier(x);
    }
    IrBuilder inner, saved;
    IrOp *map = dist_map(x, &dist, 1, DTYPE_NONE, &inner, index);
    saved = x->b;
    x->b = ir_builder_before(map);
    IrValue *mask = presence_mask(x, &inner, tile, &dist, index, NULL);
    IrValue *place = stage_offset(&x->b, &buf, lower_scalar(x, op->operands[2]));
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
        at[a] = at[a] ? at[a] : constant(&inner, 0);
        if (dist.padded[a] > limit) inside = mask_and(&inner, inside, index_less(&inner, at[a], constant(&inner, limit)));
    }
    int64_t matrices = buf.stage;
    for (unsigned a = lead; a-- > 0; matrices *= dist.extents[a])
        place = index_add(&inner, place, index_mul_const(&inner, at[a], matrices));
    IrValue *target = index_add(&inner, place, buffer_offset(&inner, &buf, at[lead], at[lead + 1]));
    IrValue *operands[4] = {value, buf.shared, target, inside};
    ir_op_create(&inner, IR_MEM_STORE, inside ? 4 : 3, operands, 0, NULL);
    ir_yield(&inner, 0, NULL);
}

/* ---- Products ---- */

typedef struct {
    Lower *x;
    GemmPlan plan;
    Buffer buf[2];
    IrValue *place[2];      /* of the stage, in elements */
    const IrAttr *moves[2]; /* stages along each leading axis; null: there are none */
    bool trans[2];
    Dist acc;
    Dtype dtype; /* of the accumulator */
} Product;

/* The lane's part of an ldmatrix address: rows and columns of the 8x8 matrix it points into. With
 * `swap` the second matrix lies to the right, not below. across: elements of its 16-byte rows. */
typedef struct {
    IrValue *row, *column;
} LanePart;

static LanePart ldmatrix_lane(Lower *x, bool swap, int64_t across) {
    /* lane & 15 and lane >> 4, or (lane & 7) + 8 (lane >> 4) and (lane >> 3) & 1 */
    Dist row = {.rank = 1}, column = {.rank = 1};
    if (!swap) {
        row.terms[row.term_count++] = (DistTerm){DIST_LANE, 0, 15, 0, 1};
        column.terms[column.term_count++] = (DistTerm){DIST_LANE, 4, 1, 0, across};
    } else {
        row.terms[row.term_count++] = (DistTerm){DIST_LANE, 0, 7, 0, 1};
        row.terms[row.term_count++] = (DistTerm){DIST_LANE, 4, 1, 0, 8};
        column.terms[column.term_count++] = (DistTerm){DIST_LANE, 3, 1, 0, across};
    }
    return (LanePart){dist_base(x, &row, 0), dist_base(x, &column, 0)};
}

static IrValue *atom(Lower *x, IrBuilder *b, IrAtom which, unsigned count, IrValue *const *operands, Dtype dtype) {
    const IrType *type = ir_type_vec(x->module, dtype, 4);
    IrOp *op = ir_op_create(b, IR_ATOM, count, operands, 1, &type);
    ir_set_atom(op, which);
    return ir_result(op, 0);
}

/* The number of leading axes. */
static unsigned lead_of(const Product *p) {
    return p->acc.rank - 2;
}

/* Where the matrix of factor `which` at leading indices `lead` begins; indices of padding stay inside. */
static IrValue *matrix_place(const Product *p, IrBuilder *b, unsigned which, IrValue *const *lead) {
    IrValue *place = p->place[which];
    for (unsigned a = 0; a < lead_of(p); a++) {
        int64_t move = p->moves[which]->ints[a], last = p->acc.extents[a] - 1;
        if (!move || !lead[a]) continue;
        IrValue *at = p->acc.padded[a] > last + 1 ? ir_binary(b, IR_MIN, lead[a], constant(b, last)) : lead[a];
        place = index_add(b, place, index_mul_const(b, at, move * p->buf[which].stage));
    }
    return place;
}

/* The row (which 0) or column (1) of the accumulator where this warp's 16-wide block `block` begins. */
static IrValue *block_start(const Product *p, IrBuilder *b, unsigned which, IrValue *block) {
    Dist warp = {.rank = p->acc.rank};
    unsigned lead = lead_of(p);
    for (unsigned i = 0; i < p->acc.term_count; i++)
        if (p->acc.terms[i].source == DIST_WARP) warp.terms[warp.term_count++] = p->acc.terms[i];
    IrValue *zero = constant(b, 0), *index[DIST_MAX_DIMS];
    for (unsigned a = 0; a < lead; a++) index[a] = zero;
    index[lead] = which ? zero : block;
    index[lead + 1] = which ? index_mul_const(b, block, 8) : zero;
    return index_add(b, dist_base(p->x, &warp, lead + which), dist_local(b, &p->acc, lead + which, index));
}

/* Extents of the fragments of factor `which`: 1 along leading axes where it repeats. */
static unsigned fragment_extents(const Product *p, unsigned which, int64_t blocks, int64_t *extents) {
    unsigned lead = lead_of(p);
    for (unsigned a = 0; a < lead; a++) extents[a] = p->moves[which]->ints[a] ? p->acc.padded[a] : 1;
    extents[lead] = blocks;
    return lead + 1;
}

/* Four registers of a 16 by 8 block of 32-bit elements whose rows run along K: ldmatrix turns 16-bit ones only. */
static IrValue *load_words(const Product *p, IrBuilder *b, unsigned which, IrValue *place, IrValue *k, IrValue *along) {
    Lower *x = p->x;
    const Buffer *buf = &p->buf[which];
    Dist row = {.rank = 1, .term_count = 1, .terms = {{DIST_LANE, 0, 3, 0, 1}}};
    Dist column = {.rank = 1, .term_count = 1, .terms = {{DIST_LANE, 2, 7, 0, 1}}};
    IrValue *own_row = index_add(b, dist_base(x, &row, 0), k), *own_column = index_add(b, dist_base(x, &column, 0), along);
    const IrType *element = ir_type_scalar(x->module, buf->dtype), *word = ir_type_scalar(x->module, DTYPE_U32);
    IrValue *words[4];
    for (int64_t r = 0; r < 4; r++) {
        int64_t deep = 4 * (which ? r % 2 : r / 2), far = 8 * (which ? r / 2 : r % 2);
        IrValue *at_row = deep ? ir_binary(b, IR_ADD, own_row, constant(b, deep)) : own_row;
        IrValue *at_column = far ? ir_binary(b, IR_ADD, own_column, constant(b, far)) : own_column;
        IrValue *operands[2] = {buf->shared, index_add(b, place, buffer_offset(b, buf, at_row, at_column))};
        IrValue *value = ir_result(ir_op_create(b, IR_MEM_LOAD, 2, operands, 1, &element), 0);
        words[r] = ir_result(ir_op_create(b, IR_BITCAST, 1, &value, 1, &word), 0);
    }
    const IrType *type = ir_type_vec(x->module, DTYPE_U32, 4);
    return ir_result(ir_op_create(b, IR_PACK, 4, words, 1, &type), 0);
}

/* Blocks of 16 by 32 bytes of operand `which` at depth k: four registers a block, blocks along M or N, of each of
 * its matrices. f32 is rounded to tf32, whose other bits the instruction would cut off. */
static IrValue *load_fragments(const Product *p, IrBuilder *b, unsigned which, IrValue *k, int64_t blocks) {
    Lower *x = p->x;
    const Buffer *buf = &p->buf[which];
    /* A stored M x K and B stored N x K are read as they lie; the others transposed. B's register
     * order pairs K first, A's pairs M first. */
    bool rows_are_k = p->trans[which] ^ (which == 1), transposed = rows_are_k;
    LanePart lane = ldmatrix_lane(x, rows_are_k ? which == 0 : which == 1, 16 / (int64_t)dtype_size(buf->dtype));
    int64_t extents[DIST_MAX_RANK];
    unsigned rank = fragment_extents(p, which, blocks * 4, extents);
    const IrType *type = ir_type_frag(x->module, DTYPE_U32, rank, extents);
    extents[rank - 1] = blocks;
    IrOp *map = ir_map(b, rank, extents, 1, &type);
    IrBuilder inner = ir_builder_at_end(map->regions[0]);
    inner.span = b->span;
    IrValue **args = map->regions[0]->args, *along = block_start(p, &inner, which, args[rank - 1]);
    IrValue *place = matrix_place(p, &inner, which, args), *value;
    if (transposed && dtype_size(buf->dtype) == 4) {
        value = load_words(p, &inner, which, place, k, along);
    } else {
        IrValue *row = index_add(&inner, lane.row, rows_are_k ? k : along);
        IrValue *column = index_add(&inner, lane.column, rows_are_k ? along : k);
        IrValue *operands[2] = {buf->shared, index_add(&inner, place, buffer_offset(&inner, buf, row, column))};
        value = atom(x, &inner, transposed ? IR_ATOM_LDMATRIX_X4_TRANS : IR_ATOM_LDMATRIX_X4, 2, operands, DTYPE_U32);
    }
    if (buf->dtype == DTYPE_F32) value = atom(x, &inner, IR_ATOM_CVT_TF32_X4, 1, &value, DTYPE_U32);
    ir_yield(&inner, 1, &value);
    return ir_result(map, 0);
}

static IrValue *frag_get(Lower *x, IrBuilder *b, IrValue *frag, unsigned rank, IrValue *const *index, unsigned width) {
    IrValue *operands[DIST_MAX_DIMS + 1] = {frag};
    for (unsigned i = 0; i < rank; i++) operands[i + 1] = index[i];
    const IrType *type = ir_type_vec(x->module, frag->type->dtype, width);
    return ir_result(ir_op_create(b, IR_FRAG_GET, rank + 1, operands, 1, &type), 0);
}

/* `width` registers of factor `which` from register `at` on, of the matrix at leading indices `lead`. */
static IrValue *fragment_get(const Product *p, IrBuilder *b, unsigned which, IrValue *frag, IrValue *const *lead, IrValue *at,
                             unsigned width) {
    IrValue *index[DIST_MAX_RANK];
    for (unsigned a = 0; a < lead_of(p); a++) index[a] = p->moves[which]->ints[a] ? lead[a] : constant(b, 0);
    index[lead_of(p)] = at;
    return frag_get(p->x, b, frag, lead_of(p) + 1, index, width);
}

/* fa: the first factor's fragments where an earlier product read them, which are set else. */
static IrValue *mma_step(const Product *p, IrBuilder *b, IrValue *k, IrValue **fa, IrValue *acc) {
    Lower *x = p->x;
    unsigned lead = lead_of(p);
    int64_t extents[DIST_MAX_RANK];
    for (unsigned a = 0; a < lead; a++) extents[a] = p->acc.padded[a];
    extents[lead] = p->plan.pad_m / p->plan.wm / 16;
    extents[lead + 1] = p->plan.pad_n / p->plan.wn / 8;
    if (!*fa) *fa = load_fragments(p, b, 0, k, extents[lead]);
    IrValue *fb = load_fragments(p, b, 1, k, extents[lead + 1] / 2);
    const IrType *type = dist_frag_type(x->module, &p->acc, p->dtype);
    IrOp *map = ir_map(b, lead + 2, extents, 1, &type);
    IrBuilder inner = ir_builder_at_end(map->regions[0]);
    inner.span = b->span;
    IrValue **args = map->regions[0]->args, *i = args[lead], *j = args[lead + 1], *at[DIST_MAX_RANK];
    for (unsigned a = 0; a < lead; a++) at[a] = args[a];
    at[lead] = i;
    at[lead + 1] = index_mul_const(&inner, j, 4);
    IrValue *operands[3] = {fragment_get(p, &inner, 0, *fa, args, index_mul_const(&inner, i, 4), 4),
                            fragment_get(p, &inner, 1, fb, args, index_mul_const(&inner, j, 2), 2),
                            frag_get(x, &inner, acc, lead + 2, at, 4)};
    IrValue *value = atom(x, &inner, p->plan.atom, 3, operands, p->dtype);
    ir_yield(&inner, 1, &value);
    return ir_result(map, 0);
}

/* The operand's elements at depth k for every row (or column) this thread accumulates. */
static IrValue *load_line(const Product *p, IrBuilder *b, unsigned which, const Dist *line, IrValue *k) {
    Lower *x = p->x;
    const Buffer *buf = &p->buf[which];
    bool rows_are_k = p->trans[which] ^ (which == 1);
    unsigned lead = lead_of(p);
    int64_t width = rows_are_k ? dist_vector(line, lead, 16 / (int64_t)dtype_size(buf->dtype)) : 1;
    IrBuilder saved = x->b, inner;
    IrValue *index[DIST_MAX_DIMS];
    x->b = *b;
    IrOp *map = dist_map(x, line, width, buf->dtype, &inner, index);
    *b = x->b;
    x->b = saved;
    IrValue *at[DIST_MAX_RANK] = {0};
    for (unsigned a = 0; a <= lead; a++) at[a] = index_add(&inner, dist_base(x, line, a), dist_local(&inner, line, a, index));
    IrValue *along = at[lead] ? at[lead] : constant(&inner, 0);
    IrValue *offset = buffer_offset(&inner, buf, rows_are_k ? k : along, rows_are_k ? along : k);
    IrValue *operands[2] = {buf->shared, index_add(&inner, matrix_place(p, &inner, which, at), offset)};
    const IrType *type = ir_type_vec(x->module, buf->dtype, (unsigned)width);
    IrOp *load = ir_op_create(&inner, IR_MEM_LOAD, 2, operands, 1, &type);
    ir_attr_set_int(load, "align", width * (int64_t)dtype_size(buf->dtype));
    IrValue *value = ir_result(load, 0);
    ir_yield(&inner, 1, &value);
    return ir_result(map, 0);
}

/* `axis`: of the accumulator, that the line lies along. */
static IrValue *line_get(Lower *x, IrBuilder *b, IrValue *frag, const Dist *line, unsigned axis, const Dist *acc, IrValue *const *index,
                         Dtype dtype) {
    Rep rep = {.value = frag, .is_frag = true, .dist = *line};
    for (unsigned a = 0; a + 2 < acc->rank; a++) rep.axis_map[a] = (int)a;
    rep.axis_map[acc->rank - 2] = (int)axis;
    IrValue *value = rep_get(x, b, &rep, acc, index, 1);
    return frag->type->dtype == dtype ? value : ir_cast(b, value, ir_type_scalar(x->module, dtype));
}

static IrValue *fma_step(const Product *p, IrBuilder *b, IrValue *k, IrValue *acc) {
    Lower *x = p->x;
    unsigned lead = lead_of(p);
    Dist rows = dist_reduce(&p->acc, 2u << lead, false), columns = dist_reduce(&p->acc, 1u << lead, false);
    IrValue *fa = load_line(p, b, 0, &rows, k), *fb = load_line(p, b, 1, &columns, k);
    IrBuilder saved = x->b, inner;
    IrValue *index[DIST_MAX_DIMS];
    x->b = *b;
    IrOp *map = dist_map(x, &p->acc, 1, p->dtype, &inner, index);
    *b = x->b;
    x->b = saved;
    IrValue *operands[3] = {line_get(x, &inner, fa, &rows, lead, &p->acc, index, p->dtype),
                            line_get(x, &inner, fb, &columns, lead + 1, &p->acc, index, p->dtype),
                            frag_get(x, &inner, acc, p->acc.dim_count, index, 1)};
    IrValue *value;
    if (dtype_is_float(p->dtype)) {
        value = ir_result(ir_op_create(&inner, IR_FMA, 3, operands, 1, &operands[2]->type), 0);
    } else {
        value = ir_binary(&inner, IR_ADD, operands[2], ir_binary(&inner, IR_MUL, operands[0], operands[1]));
    }
    ir_yield(&inner, 1, &value);
    return ir_result(map, 0);
}

static Product product_of(Lower *x, IrOp *op) {
    Product p = {.x = x, .plan = gemm_plan_get(op), .acc = dist_of(op->results[0].type), .dtype = op->results[0].type->dtype};
    for (unsigned i = 0; i < 2; i++) {
        p.buf[i] = buffer_of(x, op->operands[2 * i]);
        p.place[i] = stage_offset(&x->b, &p.buf[i], lower_scalar(x, op->operands[2 * i + 1]));
        p.trans[i] = ir_attr_bool(op, i ? "trans_b" : "trans_a");
        p.moves[i] = ir_attr(op, i ? "lead_b" : "lead_a");
    }
    return p;
}

/* One product, or two that have their first factor in common. */
static void lower_buf_gemm(Lower *x, IrOp *op) {
    enum { PAIR = 2 };
    if (lower_pair_waits(x, op)) return;
    IrOp *before = lower_pair_before(x, op), *ops[PAIR] = {before ? before : op, op};
    unsigned count = before ? PAIR : 1;
    Product p[PAIR];
    IrValue *acc[PAIR], *next[PAIR], *shared = NULL;
    for (unsigned i = 0; i < count; i++) {
        p[i] = product_of(x, ops[i]);
        acc[i] = rep_materialise(x, lower_rep(x, ops[i]->operands[4]), &p[i].acc, p[i].dtype);
    }
    bool mma = gemm_plan_is_mma(&p[0].plan);
    int64_t step = gemm_plan_depth(&p[0].plan);
    IrOp *loop = ir_for(&x->b, constant(&x->b, 0), constant(&x->b, p[0].plan.pad_k), constant(&x->b, step), count, acc, "kk");
    ir_attr_set_int(loop, "unroll", -1);
    IrBuilder body = ir_builder_at_end(loop->regions[0]);
    body.span = op->span;
    IrValue **args = loop->regions[0]->args;
    for (unsigned i = 0; i < count; i++)
        next[i] = mma ? mma_step(&p[i], &body, args[0], &shared, args[i + 1]) : fma_step(&p[i], &body, args[0], args[i + 1]);
    ir_yield(&body, count, next);
    for (unsigned i = 0; i < count; i++) lower_bind_frag(x, &ops[i]->results[0], &loop->results[i], &p[i].acc);
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
