/* Pass divide_by_reciprocal: what many lanes divide by is inverted once, in two parts.
 *
 * what:   x / b, f32, with b repeated along an axis, becomes x s (h + l): h + l is the reciprocal of b s in
 *         48 bits, s a power of two other than 1 only where b is so large or small that h or l would not
 *         be normal numbers. h is rounded down, so that l has its sign and infinities stay. The result is
 *         within 0.5000001 ulps and half the least denormal (a product with l may be one), exact where the
 *         quotient is a float; zeros, infinities and NaN are as of a division. Marks, too, each exp and exp2 of x
 *         less its own maximum, or more: `not_positive`. Where a quotient is asked few bits of (relax_precision), h is enough.
 *         log a - log b, f32 and the only use of both, is one op.
 * needs:  tile level, static
 * keeps:  values, to the bound above
 * breaks: nothing
 * source: Brisebarre, Muller, Raina, Accelerating Correctly Rounded Floating-Point Division when the Divisor
 *         Is Known in Advance (2004), the method of one multiplication and one fma
 *
 *     %c = tile.broadcast(%b)            %h, %l, %s = ... of %b : tile<[1] x f32>
 *     %y = div(%x, %c)             =>    %1 = mul(%x, broadcast(%s))
 *                                        %y = fma(%1, broadcast(%h), mul(%1, broadcast(%l)))
 */
#include "analysis/analysis.h"
#include "row_maximum.h"

enum { LEAST_SHARED = 4 }; /* lanes that divide by one */

static int64_t lanes_of(const IrType *type) {
    int64_t lanes = 1;
    for (unsigned a = 0; a < type->rank; a++) lanes *= ir_type_extent(type, a);
    return lanes;
}

static IrOp *repeated(const IrValue *v, int64_t least) {
    IrOp *op = v->def;
    if (!op || op->opcode != IR_TILE_BROADCAST || !is_tile(op->operands[0])) return NULL;
    return lanes_of(v->type) / lanes_of(op->operands[0]->type) >= least ? op : NULL;
}

/* Does each lane get back what was folded from its own row? */
static bool is_own_row(const IrOp *all, const IrOp *fold) {
    const IrAttr *to = ir_attr(all, "axes"), *gone = ir_attr(fold, "axes");
    size_t n = 0;
    for (unsigned a = 0; a < fold->operands[0]->type->rank; a++) {
        bool folded = false;
        for (size_t i = 0; i < gone->count; i++) folded |= gone->ints[i] == (int64_t)a;
        if (folded && !ir_attr_bool(fold, "keepdim")) continue;
        if (n == to->count || to->ints[n++] != (int64_t)a) return false;
    }
    return n == to->count;
}

/* v = x - (the maximum of x along some axes): the reduction. */
static const IrOp *less_maximum(const IrValue *v) {
    if (!v->def || v->def->opcode != IR_SUB) return NULL;
    const IrOp *all = repeated(v->def->operands[1], 1);
    const IrOp *fold = all ? all->operands[0]->def : NULL;
    if (!fold || fold->opcode != IR_TILE_REDUCE || ir_op_kind(fold) != IR_KIND_MAX) return NULL;
    return fold->operands[0] == v->def->operands[0] && is_own_row(all, fold) ? fold : NULL;
}

const IrOp *row_maximum(const IrValue *v) {
    const IrOp *own = less_maximum(v);
    if (own) return own;
    const IrOp *all = v->def && v->def->opcode == IR_SUB ? repeated(v->def->operands[1], 1) : NULL;
    const IrOp *most = all ? all->operands[0]->def : NULL;
    if (!most || most->opcode != IR_MAX) return NULL;
    for (unsigned i = 0; i < 2; i++) {
        const IrOp *fold = most->operands[i]->def;
        if (fold && fold->opcode == IR_TILE_REDUCE && ir_op_kind(fold) == IR_KIND_MAX && fold->operands[0] == v->def->operands[0] &&
            is_own_row(all, fold))
            return fold;
    }
    return NULL;
}

bool is_below_maximum(const IrValue *v) {
    return row_maximum(v);
}

/* Known to be 0, infinite, NaN or from 2^-100 to 2^100: a root, or the sum of exp(x - max x) where x was maximal. */
static bool is_moderate(const IrValue *b) {
    const IrOp *op = b->def;
    if (!op) return false;
    if (op->opcode == IR_SQRT) return true;
    if (op->opcode != IR_TILE_REDUCE || ir_op_kind(op) != IR_KIND_ADD) return false;
    const IrOp *e = op->operands[0]->def;
    const IrOp *top = e && e->opcode == IR_EXP ? less_maximum(e->operands[0]) : NULL;
    const IrAttr *axes = ir_attr(op, "axes"), *same = top ? ir_attr(top, "axes") : NULL;
    if (!axes || !same || axes->count != same->count) return false;
    for (size_t i = 0; i < axes->count; i++)
        if (axes->ints[i] != same->ints[i]) return false;
    return true;
}

typedef struct {
    IrValue *b, *high, *low, *scale; /* scale: NULL is 1 */
} Inverse;

typedef struct {
    PassContext *ctx;
    VEC(Inverse) known;
} Sharing;

/* 2^-64 or 2^64 where |b| is beyond 2^100 or below 2^-100. */
static IrValue *scale_of(IrBuilder *at, IrValue *b) {
    const IrType *type = b->type;
    IrValue *size = ir_unary(at, IR_ABS, b), *one = tile_splat(at, type, 1);
    IrValue *small = ir_binary(at, IR_LT, size, tile_splat(at, type, 0x1p-100));
    IrValue *large = ir_binary(at, IR_LT, tile_splat(at, type, 0x1p100), size);
    IrValue *up = ir_select(at, small, tile_splat(at, type, 0x1p64), one);
    return ir_select(at, large, tile_splat(at, type, 0x1p-64), up);
}

static IrValue *fma_of(IrBuilder *at, IrValue *a, IrValue *b, IrValue *c) {
    IrValue *operands[3] = {a, b, c};
    return ir_result(ir_op_create(at, IR_FMA, 3, operands, 1, &a->type), 0);
}

/* 1 / b = high + low, high one or two units below; low = (1 - b high) / b. Of 0, infinity and NaN both are 1 / b. */
static Inverse invert(Sharing *s, IrValue *b, IrOp *use) {
    for (size_t i = 0; i < s->known.len; i++)
        if (s->known.data[i].b == b) return s->known.data[i];
    IrBuilder at = b->def ? ir_builder_after(b->def) : ir_builder_before(use);
    at.span = use->span;
    Inverse inverse = {.b = b, .scale = is_moderate(b) ? NULL : scale_of(&at, b)};
    if (inverse.scale) b = ir_binary(&at, IR_MUL, b, inverse.scale);
    const IrType *type = b->type;
    IrValue *one = tile_splat(&at, type, 1), *y = ir_binary(&at, IR_DIV, one, b);
    IrValue *down = fma_of(&at, y, tile_splat(&at, type, -0x1p-23), y);
    IrValue *rest = fma_of(&at, ir_unary(&at, IR_NEG, b), down, one);
    IrValue *finite = ir_binary(&at, IR_LT, rest, one); /* else NaN */
    inverse.high = ir_select(&at, finite, down, y);
    inverse.low = ir_select(&at, finite, ir_binary(&at, IR_MUL, rest, y), y);
    if (b->def) VEC_PUSH(s->ctx->scratch, &s->known, inverse);
    return inverse;
}

static IrValue *spread(IrBuilder *at, const IrOp *broadcast, IrValue *v) {
    IrOp *op = ir_op_create(at, IR_TILE_BROADCAST, 1, &v, 1, &broadcast->results[0].type);
    op->attrs = broadcast->attrs;
    return ir_result(op, 0);
}

static void divide(Sharing *s, IrOp *op) {
    const IrOp *all = repeated(op->operands[1], LEAST_SHARED);
    if (!all || op->results[0].type->dtype != DTYPE_F32) return;
    Inverse inverse = invert(s, all->operands[0], op);
    IrBuilder at = ir_builder_before(op);
    at.span = op->span;
    IrValue *x = op->operands[0];
    if (inverse.scale) x = ir_binary(&at, IR_MUL, x, spread(&at, all, inverse.scale));
    IrValue *high = spread(&at, all, inverse.high), *y;
    if (ir_attr(op, "bits")) /* high is within 2^-22 */
        y = ir_binary(&at, IR_MUL, x, high);
    else
        y = fma_of(&at, x, high, ir_binary(&at, IR_MUL, x, spread(&at, all, inverse.low)));
    y->name = op->results[0].name;
    ir_replace_uses(&op->results[0], y);
    ir_op_erase(op);
}

static bool is_own_log(const IrValue *v) {
    return v->def && v->def->opcode == IR_LOG && !v->uses->next;
}

static void join_logs(IrOp *op) {
    IrValue *const *x = op->operands;
    if (op->results[0].type->dtype != DTYPE_F32 || !is_own_log(x[0]) || !is_own_log(x[1])) return;
    IrBuilder at = ir_builder_before(op);
    at.span = op->span;
    IrValue *y = ir_binary(&at, IR_LOG_RATIO, x[0]->def->operands[0], x[1]->def->operands[0]);
    y->name = op->results[0].name;
    ir_replace_uses(&op->results[0], y);
    ir_op_erase(op);
}

bool pass_divide_by_reciprocal(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f; f = f->next) {
        if (f->level != IR_LEVEL_TILE || f->state != IR_STATE_STATIC) continue;
        Sharing s = {.ctx = ctx};
        OpList ops = ops_collect(ctx->scratch, f->body);
        for (size_t i = 0; i < ops.len; i++) {
            IrOp *op = ops.data[i];
            bool power = op->opcode == IR_EXP || op->opcode == IR_EXP2;
            if (power && is_below_maximum(op->operands[0])) ir_attr_set_bool(op, "not_positive", true);
            if (op->opcode == IR_SUB && is_tile(op->operands[0])) join_logs(op);
            if (op->opcode == IR_DIV && is_tile(op->operands[0])) divide(&s, op);
        }
    }
    return true;
}
