/* Products of buffers in shared memory, for lower_to_threads: tensor cores, and lane by lane. */
#include "analysis/gemm_plan.h"
#include "lower_buffers_internal.h"
#include "lower_internal.h"

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
        IrValue *at = p->acc.padded[a] > last + 1 ? ir_binary(b, IR_MIN, lead[a], ir_const_index(b, last)) : lead[a];
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
    IrValue *zero = ir_const_index(b, 0), *index[DIST_MAX_DIMS];
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
        IrValue *at_row = deep ? ir_binary(b, IR_ADD, own_row, ir_const_index(b, deep)) : own_row;
        IrValue *at_column = far ? ir_binary(b, IR_ADD, own_column, ir_const_index(b, far)) : own_column;
        IrValue *operands[2] = {buf->shared, index_add(b, place, lower_buffer_offset(b, buf, at_row, at_column))};
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
        IrValue *operands[2] = {buf->shared, index_add(&inner, place, lower_buffer_offset(&inner, buf, row, column))};
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
    for (unsigned a = 0; a < lead_of(p); a++) index[a] = p->moves[which]->ints[a] ? lead[a] : ir_const_index(b, 0);
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
    IrValue *along = at[lead] ? at[lead] : ir_const_index(&inner, 0);
    IrValue *offset = lower_buffer_offset(&inner, buf, rows_are_k ? k : along, rows_are_k ? along : k);
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
        p.buf[i] = lower_buffer_of(x, op->operands[2 * i]);
        p.place[i] = lower_stage_offset(&x->b, &p.buf[i], lower_scalar(x, op->operands[2 * i + 1]));
        p.trans[i] = ir_attr_bool(op, i ? "trans_b" : "trans_a");
        p.moves[i] = ir_attr(op, i ? "lead_b" : "lead_a");
    }
    return p;
}

void lower_buf_gemm(Lower *x, IrOp *op) {
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
    IrOp *loop =
        ir_for(&x->b, ir_const_index(&x->b, 0), ir_const_index(&x->b, p[0].plan.pad_k), ir_const_index(&x->b, step), count, acc, "kk");
    ir_attr_set_int(loop, "unroll", -1);
    IrBuilder body = ir_builder_at_end(loop->regions[0]);
    body.span = op->span;
    IrValue **args = loop->regions[0]->args;
    for (unsigned i = 0; i < count; i++)
        next[i] = mma ? mma_step(&p[i], &body, args[0], &shared, args[i + 1]) : fma_step(&p[i], &body, args[0], args[i + 1]);
    ir_yield(&body, count, next);
    for (unsigned i = 0; i < count; i++) lower_bind_frag(x, &ops[i]->results[0], &loop->results[i], &p[i].acc);
}
