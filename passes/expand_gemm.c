/* tile.gemm on fragments (CPU): rows of the accumulator as vectors in registers, the k loop inside. */
#include "expand_internal.h"

#include <string.h>

static bool same_presence(Expand *x, IrValue *a, unsigned ka, IrValue *b, unsigned kb) {
    Presence p = presence_of(x->ctx, a), q = presence_of(x->ctx, b);
    return p.axes[ka].lo == q.axes[kb].lo && p.axes[ka].hi == q.axes[kb].hi;
}

static bool zero_filled(IrValue *value) {
    return value->def && value->def->opcode == IR_TILE_LOAD && !ir_attr(value->def, "pad");
}

/* An operand as an f32-or-wider fragment in `dist`, zero where it is absent itself or, along K, where
 * the other operand is. */
static IrValue *gemm_operand(Expand *x, IrValue *value, const Dist *dist, bool transposed, bool clean, Dtype dtype,
                             IrValue *other, unsigned k_axis, unsigned other_k) {
    Rep rep = *expand_rep(x, value);
    if (transposed && rep.is_frag)
        for (unsigned a = 0; a < rep.dist.rank; a++)
            if (rep.axis_map[a] >= 0) rep.axis_map[a] = 1 - rep.axis_map[a];
    bool plain = clean && rep.is_frag && value->type->dtype == dtype;
    if (plain) return rep_materialise(x, &rep, dist, dtype);
    IrBuilder inner, saved = x->b;
    IrValue *index[DIST_MAX_DIMS];
    IrOp *map = dist_map(x, dist, 1, dtype, &inner, index);
    IrValue *mask = NULL;
    if (!clean) {
        x->b = ir_builder_before(map);
        IrValue *own_index[2] = {index[transposed], index[!transposed]};
        Dist own = dist_of(value->type);
        mask = presence_mask(x, &inner, value, &own, own_index, NULL);
        Presence p = presence_of(x->ctx, other);
        IrValue *k = own_index[k_axis];
        if (p.axes[other_k].hi) mask = mask_and(&inner, mask, index_less(&inner, k, expand_aff(x, &x->b, p.axes[other_k].hi)));
        if (p.axes[other_k].lo)
            mask = mask_and(&inner, mask, ir_binary(&inner, IR_LE, expand_aff(x, &x->b, p.axes[other_k].lo), k));
        x->b = saved;
    }
    IrValue *element = rep_get(x, &inner, &rep, dist, index, 1);
    const IrType *type = ir_type_scalar(x->module, dtype);
    if (element->type != type) element = ir_cast(&inner, element, type);
    if (mask) element = ir_select(&inner, mask, element, dtype_is_float(dtype) ? ir_const_float(&inner, type, 0) : ir_const_int(&inner, type, 0));
    ir_yield(&inner, 1, &element);
    return ir_result(map, 0);
}

static IrValue *get2(Expand *x, IrBuilder *b, IrValue *frag, IrValue *i, IrValue *j, int64_t width) {
    const IrType *type = ir_type_vec(x->module, frag->type->dtype, (unsigned)width);
    IrValue *operands[3] = {frag, i, j};
    return ir_result(ir_op_create(b, IR_FRAG_GET, 3, operands, 1, &type), 0);
}

static Dist plain_dist(int64_t rows, int64_t columns) {
    return (Dist){.rank = 2,
                  .extents = {rows, columns},
                  .padded = {rows, columns},
                  .dim_count = 2,
                  .dims = {{rows, 1, {{rows, 0, 1}}}, {columns, 1, {{columns, 1, 1}}}}};
}

void expand_gemm(Expand *x, IrOp *op) {
    IrValue *a = op->operands[0], *b = op->operands[1], *acc = op->operands[2];
    const IrType *type = op->results[0].type;
    Dtype dtype = type->dtype;
    bool trans_a = ir_attr_bool(op, "trans_a"), trans_b = ir_attr_bool(op, "trans_b");
    if (x->gpu || type->rank != 2) {
        expand_error(x, op, x->gpu ? "its operands are not staged in shared memory" : "batched gemm tiles come later");
        return;
    }
    int64_t m = ir_type_extent(type, 0), n = ir_type_extent(type, 1), k = ir_type_extent(a->type, trans_a ? 0 : 1);
    unsigned ka = trans_a ? 0 : 1, kb = trans_b ? 1 : 0;
    bool clean = same_presence(x, a, ka, b, kb) && zero_filled(a) && zero_filled(b);
    Dist da = plain_dist(m, k), db = plain_dist(k, n), dc = dist_of(type);
    IrValue *fa = gemm_operand(x, a, &da, trans_a, clean, dtype, b, ka, kb);
    IrValue *fb = gemm_operand(x, b, &db, trans_b, clean, dtype, a, kb, ka);
    IrValue *fc = rep_materialise(x, expand_rep(x, acc), &dc, dtype);
    int64_t width = 64;
    while (n % width) width /= 2;
    IrBuilder inner;
    IrValue *index[DIST_MAX_DIMS];
    IrOp *map = dist_map(x, &dc, width, dtype, &inner, index);
    IrValue *row = get2(x, &inner, fc, index[0], index[1], width);
    IrOp *loop = ir_for(&inner, ir_const_index(&inner, 0), ir_const_index(&inner, k), ir_const_index(&inner, 1), 1, &row, "k");
    IrBuilder body = ir_builder_at_end(loop->regions[0]);
    body.span = x->b.span;
    IrValue *at = loop->regions[0]->args[0];
    IrValue *products[3] = {get2(x, &body, fa, index[0], at, 1), get2(x, &body, fb, at, index[1], width),
                            loop->regions[0]->args[1]};
    IrValue *next;
    if (dtype_is_float(dtype)) {
        next = ir_result(ir_op_create(&body, IR_FMA, 3, products, 1, &row->type), 0);
    } else {
        next = ir_binary(&body, IR_ADD, products[2], ir_binary(&body, IR_MUL, products[1], products[0]));
    }
    ir_yield(&body, 1, &next);
    IrValue *result = ir_result(loop, 0);
    ir_yield(&inner, 1, &result);
    expand_bind_frag(x, &op->results[0], ir_result(map, 0), &dc);
}
