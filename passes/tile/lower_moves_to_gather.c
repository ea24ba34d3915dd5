/* Pass lower_moves_to_gather: flips, joins and reshapes along an axis of symbolic extent become gathers.
 *
 * what:   where the extent of the axis that an op moves lanes along is no constant, each lane of the result is
 *         looked up by its index in the operand. Lanes must be present along the axis; else the op stays as it is
 *         and a later pass refuses it.
 * needs:  tile functions in state open, before strip_mine
 * keeps:  values; what is present
 * breaks: nothing
 * source: a permutation of lanes is a gather by computed indices
 *
 *     %y = tile.flip(%x) {axis = 0} : tile<[N] x f32>    =>    %i = (N - 1) - tile.iota() : tile<[N] x i64>
 *                                                              %y = tile.gather(%x, %i) {axis = 0}
 */
#include "analysis/analysis.h"

enum { COLUMNS_MAX = 32 }; /* of [A, B] that becomes [A * B]: each is a gather */

typedef struct {
    PassContext *ctx;
    IrModule *m;
    IrBuilder *b;
    PresenceCache *presence;
    IrOp *op;
} Move;

/* ---- Index tiles ---- */

static const IrType *index_type(const Move *v, const IrType *t, unsigned first, unsigned count) {
    return ir_type_tile(v->m, DTYPE_I64, count, t->extents + first, NULL);
}

static IrValue *positions(Move *v, const IrType *type, unsigned axis) {
    IrOp *op = ir_op_create(v->b, IR_TILE_IOTA, 0, NULL, 1, &type);
    ir_attr_set_int(op, "axis", axis);
    return ir_result(op, 0);
}

static IrValue *repeated(Move *v, const IrType *type, const Aff *e) {
    IrValue *number = ir_cast(v->b, ir_aff_emit(v->b, e), ir_type_scalar(v->m, DTYPE_I64));
    IrOp *op = ir_op_create(v->b, IR_TILE_BROADCAST, 1, &number, 1, &type);
    ir_attr_set_ints(op, "axes", 0, NULL);
    return ir_result(op, 0);
}

/* `index` stands in place of axis `axis` of x. */
static IrValue *gathered(Move *v, IrValue *x, IrValue *index, unsigned axis, const IrType *type) {
    type = ir_type_with_dtype(v->m, type, x->type->dtype);
    IrOp *op = ir_op_create(v->b, IR_TILE_GATHER, 2, (IrValue *[]){x, index}, 1, &type);
    ir_attr_set_int(op, "axis", axis);
    return ir_result(op, 0);
}

static bool is_symbolic(const IrValue *v, unsigned axis) {
    return ir_type_extent(v->type, axis) < 0;
}

static bool is_present(Move *v, IrValue *x, unsigned axis) {
    return !presence_in(v->presence, x).axes[axis].hi;
}

/* ---- Ops: the value in place of the result, or null ---- */

static IrValue *flipped(Move *v) {
    IrValue *x = v->op->operands[0];
    unsigned axis = (unsigned)ir_attr_int(v->op, "axis", 0);
    if (!is_symbolic(x, axis) || !is_present(v, x, axis)) return NULL;
    AffCtx *c = v->m->affs;
    const IrType *index = index_type(v, x->type, axis, 1);
    IrValue *last = repeated(v, index, aff_sub(c, x->type->extents[axis], aff_const(c, 1)));
    return gathered(v, x, ir_binary(v->b, IR_SUB, last, positions(v, index, 0)), axis, x->type);
}

static IrValue *joined(Move *v) {
    const IrOp *op = v->op;
    const IrType *type = op->results[0].type;
    unsigned axis = (unsigned)ir_attr_int(op, "axis", 0);
    if (!is_symbolic(&op->results[0], axis)) return NULL;
    for (unsigned i = 0; i < op->operand_count; i++)
        if (!is_present(v, op->operands[i], axis)) return NULL;
    AffCtx *c = v->m->affs;
    const IrType *index = index_type(v, type, axis, 1);
    const Aff *begin = aff_const(c, 0);
    IrValue *sum = NULL;
    for (unsigned i = 0; i < op->operand_count; i++) { /* each takes over from where it begins */
        IrValue *x = op->operands[i];
        IrValue *at = ir_binary(v->b, IR_SUB, positions(v, index, 0), repeated(v, index, begin));
        IrValue *part = gathered(v, x, at, axis, type);
        const IrType *whole = ir_type_with_dtype(v->m, type, DTYPE_I64);
        IrValue *before = i ? ir_binary(v->b, IR_LT, positions(v, whole, axis), repeated(v, whole, begin)) : NULL;
        sum = i ? ir_select(v->b, before, sum, part) : part;
        begin = aff_add(c, begin, x->type->extents[axis]);
    }
    return sum;
}

/* The columns of axes `axis` and `axis + 1`, each spread over the result's lanes. */
static IrValue *merged(Move *v, unsigned axis) {
    IrValue *x = v->op->operands[0], *sum = NULL;
    const IrType *from = x->type, *type = v->op->results[0].type;
    AffCtx *c = v->m->affs;
    int64_t columns = ir_type_extent(from, axis + 1);
    if (columns < 1 || columns > COLUMNS_MAX) return NULL;
    const IrType *index = index_type(v, type, axis, 1), *whole = ir_type_with_dtype(v->m, type, DTYPE_I64);
    const Aff *by = from->extents[axis + 1], *extents[IR_SLICE_MAX_RANK];
    for (unsigned i = 0; i + 1 < from->rank; i++) extents[i] = from->extents[i <= axis ? i : i + 1];
    const IrType *column_type = ir_type_tile(v->m, from->dtype, from->rank - 1, extents, NULL);
    IrValue *row = ir_binary(v->b, IR_FLOORDIV, positions(v, index, 0), repeated(v, index, by));
    IrValue *column = ir_binary(v->b, IR_MOD, positions(v, whole, axis), repeated(v, whole, by));
    for (int64_t k = 0; k < columns; k++) {
        IrValue *operands[1 + 2 * IR_SLICE_MAX_RANK] = {x};
        char axes[IR_SLICE_MAX_RANK + 1] = {0};
        unsigned count = 1;
        for (unsigned i = 0; i < from->rank; i++) {
            axes[i] = i == axis + 1 ? IR_LETTER_POINT : IR_LETTER_RANGE;
            operands[count++] = ir_const_index(v->b, i == axis + 1 ? k : 0);
            if (axes[i] == IR_LETTER_RANGE) operands[count++] = ir_aff_emit(v->b, from->extents[i]);
        }
        IrOp *extract = ir_op_create(v->b, IR_TILE_EXTRACT, count, operands, 1, &column_type);
        ir_attr_set_str(extract, "axes", axes);
        IrValue *part = gathered(v, ir_result(extract, 0), row, axis, type);
        IrValue *before = k ? ir_binary(v->b, IR_LT, column, repeated(v, whole, aff_const(c, k))) : NULL;
        sum = k ? ir_select(v->b, before, sum, part) : part;
    }
    return sum;
}

static IrValue *split(Move *v, unsigned axis) {
    IrValue *x = v->op->operands[0];
    const IrType *type = v->op->results[0].type, *index = index_type(v, type, axis, 2);
    IrValue *row = ir_binary(v->b, IR_MUL, positions(v, index, 0), repeated(v, index, type->extents[axis + 1]));
    return gathered(v, x, ir_binary(v->b, IR_ADD, row, positions(v, index, 1)), axis, type);
}

/* Two axes to one, or one to two; all others stay. */
static IrValue *reshaped(Move *v) {
    IrValue *x = v->op->operands[0];
    const IrType *from = x->type, *to = v->op->results[0].type;
    unsigned axis = 0, behind = 0, less = from->rank < to->rank ? from->rank : to->rank;
    if (from->rank != to->rank + 1 && to->rank != from->rank + 1) return NULL;
    while (axis < less && from->extents[axis] == to->extents[axis]) axis++;
    while (behind + axis + 1 < less && from->extents[from->rank - 1 - behind] == to->extents[to->rank - 1 - behind]) behind++;
    if (axis + behind + 1 != less) return NULL;
    bool merges = from->rank > to->rank, symbolic = is_symbolic(x, axis) || (merges && is_symbolic(x, axis + 1));
    if (!symbolic || !is_present(v, x, axis) || (merges && !is_present(v, x, axis + 1))) return NULL;
    return merges ? merged(v, axis) : split(v, axis);
}

static void rewrite(PassContext *ctx, IrOp *op, PresenceCache *presence) {
    IrBuilder b = ir_builder_before(op);
    b.span = op->span;
    Move v = {ctx, ctx->module, &b, presence, op};
    IrValue *value = op->opcode == IR_TILE_FLIP ? flipped(&v) : op->opcode == IR_TILE_CONCAT ? joined(&v) : reshaped(&v);
    if (!value) return;
    if (!value->name) value->name = op->results[0].name;
    ir_replace_uses(&op->results[0], value);
    ir_op_erase(op);
}

bool pass_lower_moves_to_gather(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f; f = f->next) {
        if (f->level != IR_LEVEL_TILE || f->state != IR_STATE_OPEN) continue;
        OpList ops = ops_collect(ctx->scratch, f->body);
        for (size_t i = 0; i < ops.len; i++) {
            IrOpcode opcode = ops.data[i]->opcode;
            if (opcode == IR_TILE_FLIP || opcode == IR_TILE_CONCAT || opcode == IR_TILE_RESHAPE)
                rewrite(ctx, ops.data[i], presence_cache(ctx));
        }
    }
    return true;
}
