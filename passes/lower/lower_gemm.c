/* tile.gemm on fragments (CPU): rows of the accumulator as vectors in registers, the k loop inside. */
#include "analyzer.h"
#include "lower_internal.h"
#include "query.h"

/* Where the index of a gather is absent, its load reads some element or other. */
static bool zero_filled(IrValue *value) {
    const IrOp *load = value->def;
    return load && load->opcode == IR_TILE_LOAD && !ir_attr(load, "pad") && !slice_gathers(load);
}

/* The two last axes change places. */
static void swap_last(Rep *rep, unsigned rank) {
    for (unsigned a = 0; rep->is_frag && a < rep->dist.rank; a++)
        if (rep->axis_map[a] >= (int)rank - 2) rep->axis_map[a] = 2 * (int)rank - 3 - rep->axis_map[a];
}

/* The factor as it is read: leading axes, rows, columns; in one thread, row-major. */
static Dist factor_dist(const IrType *type, bool transposed) {
    unsigned rank = type->rank;
    Dist d = {.rank = rank, .dim_count = rank};
    for (unsigned a = 0; a < rank; a++) {
        unsigned from = transposed && a + 2 >= rank ? 2 * rank - 3 - a : a;
        d.extents[a] = d.padded[a] = ir_type_extent(type, from);
        d.dims[a] = (DistDim){d.extents[a], 1, {{d.extents[a], a, 1}}};
    }
    return d;
}

/* A factor as a fragment of `dtype`, zero where it is absent. */
static IrValue *factor(Lower *x, IrValue *value, bool transposed, Dtype dtype) {
    unsigned rank = value->type->rank;
    Dist dist = factor_dist(value->type, transposed), own = dist_of(value->type);
    Rep rep = *lower_rep(x, value);
    bool clean = zero_filled(value);
    if (transposed) swap_last(&rep, rank);
    if (clean && rep.is_frag && value->type->dtype == dtype) return rep_materialise(x, &rep, &dist, dtype);
    IrBuilder inner, saved = x->b;
    IrValue *index[DIST_MAX_DIMS], *own_index[DIST_MAX_DIMS], *mask = NULL;
    IrOp *map = dist_map(x, &dist, 1, dtype, &inner, index);
    /* NOLINTNEXTLINE(*ArrayBound): a factor has two axes or more */
    for (unsigned a = 0; a < rank; a++) own_index[a] = index[transposed && a + 2 >= rank ? 2 * rank - 3 - a : a];
    x->b = ir_builder_before(map);
    if (!clean) mask = presence_mask(x, &inner, value, &own, own_index, NULL);
    x->b = saved;
    IrValue *element = rep_get(x, &inner, &rep, &dist, index, 1);
    const IrType *type = ir_type_scalar(x->module, dtype);
    if (element->type != type) element = ir_cast(&inner, element, type);
    IrValue *zero = !mask ? NULL : dtype_is_float(dtype) ? ir_const_float(&inner, type, 0) : ir_const_int(&inner, type, 0);
    if (mask) element = ir_select(&inner, mask, element, zero);
    ir_yield(&inner, 1, &element);
    return ir_result(map, 0);
}

/* `width` elements of a factor's fragment at leading indices of the accumulator, row and column. */
static IrValue *element_at(Lower *x, IrBuilder *b, IrValue *frag, unsigned rank, IrValue *const *lead, unsigned lead_count, IrValue *row,
                           IrValue *column, int64_t width) {
    IrValue *operands[DIST_MAX_RANK + 1] = {frag};
    for (unsigned i = 0; i + 2 < rank; i++) {
        bool repeats = ir_type_extent(frag->type, i) == 1;
        operands[i + 1] = repeats ? ir_const_index(b, 0) : lead[lead_count + 2 - rank + i];
    }
    ANALYZER_ASSUME(rank >= 2 && rank <= DIST_MAX_RANK);
    operands[rank - 1] = row;
    operands[rank] = column;
    const IrType *type = ir_type_vec(x->module, frag->type->dtype, (unsigned)width);
    return ir_result(ir_op_create(b, IR_FRAG_GET, rank + 1, operands, 1, &type), 0);
}

static IrValue *multiply_add(IrBuilder *b, IrValue *a, IrValue *c, IrValue *acc) {
    IrValue *operands[3] = {a, c, acc};
    if (!dtype_is_float(acc->type->dtype)) return ir_binary(b, IR_ADD, acc, ir_binary(b, IR_MUL, c, a));
    return ir_result(ir_op_create(b, IR_FMA, 3, operands, 1, &acc->type), 0);
}

void lower_gemm(Lower *x, IrOp *op) {
    IrValue *a = op->operands[0], *b = op->operands[1];
    const IrType *type = op->results[0].type;
    Dtype dtype = type->dtype;
    bool trans_a = ir_attr_bool(op, "trans_a"), trans_b = ir_attr_bool(op, "trans_b");
    if (x->gpu) {
        lower_error(x, op, "its operands are not staged in shared memory");
        return;
    }
    unsigned lead = type->rank - 2, ra = a->type->rank, rb = b->type->rank;
    int64_t n = ir_type_extent(type, lead + 1), k = ir_type_extent(a->type, ra - (trans_a ? 2 : 1)), width = 64;
    Dist dc = dist_of(type);
    IrValue *fa = factor(x, a, trans_a, dtype), *fb = factor(x, b, trans_b, dtype);
    IrValue *fc = rep_materialise(x, lower_rep(x, op->operands[2]), &dc, dtype);
    while (n % width) width /= 2;
    IrBuilder inner;
    IrValue *index[DIST_MAX_DIMS];
    IrOp *map = dist_map(x, &dc, width, dtype, &inner, index);
    bool blocks = ir_func_int(x->to, IR_FN_VECTORS, 0) && lead == 0 && ra == 2 && rb == 2 && dtype == DTYPE_F32 && n % 16 == 0;
    if (blocks) ir_attr_set_bool(map, "product", true);
    IrValue *i = index[lead], *j = index[lead + 1];
    IrValue *row = element_at(x, &inner, fc, type->rank, index, lead, i, j, width);
    IrOp *loop = ir_for(&inner, ir_const_index(&inner, 0), ir_const_index(&inner, k), ir_const_index(&inner, 1), 1, &row, "k");
    IrBuilder body = ir_builder_at_end(loop->regions[0]);
    body.span = x->b.span;
    IrValue *at = loop->regions[0]->args[0];
    IrValue *left = element_at(x, &body, fa, ra, index, lead, i, at, 1);
    IrValue *right = element_at(x, &body, fb, rb, index, lead, at, j, width);
    IrValue *next = multiply_add(&body, left, right, loop->regions[0]->args[1]);
    ir_yield(&body, 1, &next);
    IrValue *result = ir_result(loop, 0);
    ir_yield(&inner, 1, &result);
    lower_bind_frag(x, &op->results[0], ir_result(map, 0), &dc);
}
