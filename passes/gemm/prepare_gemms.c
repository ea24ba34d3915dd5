/* Pass prepare_gemms: factors of a tile.gemm become what the target multiplies.
 *
 * what:   where one factor is present along K and the other one is absent, the present one becomes 0 too, so that the
 *         values in absent lanes do not affect the product. Where tensor cores multiply and
 *         precision= allows it, f32 factors become f16 or bf16, or (bf16x3, tf32x3) sums of two bf16 or
 *         two tf32 numbers. Factors for tf32 keep the type f32; precision= selects the instruction.
 *         A factor is transposed if its atom wants it contiguous along K.
 * needs:  static extents.
 * keeps:  values.
 * breaks: nothing.
 * source: docs/language.md, "Presence": on K the intersection counts. Split products: Henry, Tang and
 *         Heinecke, "Leveraging the bfloat16 artificial intelligence datatype", 2019; the leading bits of an
 *         f32: Dekker, "A floating-point technique for extending the available precision", 1971.
 *
 *   %c1 = tile.gemm(%a, %b, %c)               a: all of K, b: lanes below n
 * becomes
 *   %i = tile.iota() {axis = 1}; %m = lt(%i, n); %a0 = select(%m, %a, 0)
 *   %c1 = tile.gemm(%a0, %b, %c)
 */
#include "analysis/analysis.h"
#include "analysis/exponentials.h"
#include "analysis/gemm_plan.h"

#include <math.h>

typedef struct {
    PassContext *ctx;
    IrOp *gemm;
    IrBuilder b;
} Prepare;

static unsigned summed_axis(const IrOp *gemm, unsigned which) {
    bool trans = ir_attr_bool(gemm, which ? "trans_b" : "trans_a");
    return gemm->operands[which]->type->rank - (trans ^ (which == 1) ? 2 : 1);
}

/* ---- Presence along K ---- */

static bool same_bound(const AffFacts *facts, const Aff *a, const Aff *b) {
    return a == b || (aff_prove_le(facts, a, b) && aff_prove_le(facts, b, a));
}

static bool same_interval(const AffFacts *facts, PresenceAxis a, PresenceAxis b) {
    if (!a.hi || !b.hi) return !a.hi && !b.hi;
    return same_bound(facts, a.lo, b.lo) && same_bound(facts, a.hi, b.hi);
}

/* A bound as a number of lanes, in the type of tile.iota. */
static IrValue *lane_bound(Prepare *p, const Aff *bound, int64_t extent, const IrType *type) {
    AffCtx *c = p->ctx->module->affs;
    const Aff *clamped = aff_max(c, aff_const(c, 0), aff_min(c, bound, aff_const(c, extent)));
    return ir_cast(&p->b, ir_aff_emit(&p->b, clamped), type);
}

/* Factor `which`, 0 outside of the interval along K. */
static void mask_factor(Prepare *p, unsigned which, PresenceAxis interval) {
    IrValue *v = p->gemm->operands[which];
    IrModule *m = p->ctx->module;
    unsigned axis = summed_axis(p->gemm, which);
    int64_t extent = ir_type_extent(v->type, axis);
    const IrType *lanes = ir_type_with_dtype(m, v->type, DTYPE_I32);
    const IrType *scalar = ir_type_scalar(m, DTYPE_I32);
    IrOp *iota = ir_op_create(&p->b, IR_TILE_IOTA, 0, NULL, 1, &lanes);
    ir_attr_set_int(iota, "axis", axis);
    IrValue *lane = ir_result(iota, 0);
    IrValue *below = ir_binary(&p->b, IR_LT, lane, lane_bound(p, interval.hi, extent, scalar));
    IrValue *outside = ir_binary(&p->b, IR_LT, lane, lane_bound(p, interval.lo, extent, scalar));
    IrValue *inside = ir_binary(&p->b, IR_AND, below, ir_unary(&p->b, IR_NOT, outside));
    IrValue *masked = ir_select(&p->b, inside, v, tile_splat(&p->b, v->type, 0));
    masked->name = v->name;
    ir_set_operand(p->gemm, which, masked);
}

static void match_depth(Prepare *p) {
    const AffFacts *facts = ir_facts_at(p->ctx->scratch, p->gemm);
    PresenceAxis k[2];
    for (unsigned i = 0; i < 2; i++) k[i] = presence_of(p->ctx, p->gemm->operands[i]).axes[summed_axis(p->gemm, i)];
    if (same_interval(facts, k[0], k[1])) return;
    PresenceAxis zero;
    bool filled = !k[0].hi && is_exponential_of_filled(p->gemm->operands[0], presence_cache(p->ctx), summed_axis(p->gemm, 0), &zero);
    if (filled && same_interval(facts, zero, k[1])) return; /* 0 times the zeros that stand for absent lanes */
    for (unsigned i = 0; i < 2; i++)
        if (k[1 - i].hi) mask_factor(p, i, k[1 - i]);
}

/* ---- Precision ---- */

static IrValue *cast_factor(Prepare *p, IrValue *v, Dtype dtype) {
    IrValue *cast = ir_cast(&p->b, v, ir_type_with_dtype(p->ctx->module, v->type, dtype));
    cast->name = v->name;
    return cast;
}

/* Of a number's bits tf32 has 13 fewer than f32: from v 2^13 + v in f32 they fall away. Numbers whose multiple would
 * be infinite are taken 2^-14 times. */
static IrValue *tensor_float(Prepare *p, IrValue *v) {
    const IrType *type = v->type;
    IrBuilder *b = &p->b;
    IrValue *large = ir_binary(b, IR_LE, tile_splat(b, type, 0x1p114), ir_unary(b, IR_ABS, v));
    IrValue *x = ir_select(b, large, ir_binary(b, IR_MUL, v, tile_splat(b, type, 0x1p-14)), v);
    IrValue *multiple = ir_binary(b, IR_MUL, x, tile_splat(b, type, 8193));
    IrValue *high = ir_binary(b, IR_SUB, multiple, ir_binary(b, IR_SUB, multiple, x));
    /* The nearest to f32's largest numbers is infinite, of which nothing would be left. */
    IrValue *least = tile_splat(b, type, -(0x1p114 - 0x1p103)), *most = tile_splat(b, type, 0x1p114 - 0x1p103);
    IrValue *finite = ir_binary(b, IR_MIN, ir_binary(b, IR_MAX, high, least), most);
    high = ir_select(b, large, ir_binary(b, IR_MUL, finite, tile_splat(b, type, 0x1p14)), high);
    return ir_select(b, ir_binary(b, IR_EQ, high, high), high, v); /* of infinities it is none */
}

/* The nearest to f32's largest numbers is infinite, of which nothing would be left. */
static IrValue *brain_float(Prepare *p, IrValue *v) {
    IrBuilder *b = &p->b;
    const double largest = 0x1.fep127;
    IrValue *near = ir_binary(b, IR_MIN, ir_binary(b, IR_MAX, v, tile_splat(b, v->type, -largest)), tile_splat(b, v->type, largest));
    IrValue *infinite = ir_binary(b, IR_EQ, ir_unary(b, IR_ABS, v), tile_splat(b, v->type, INFINITY));
    return cast_factor(p, ir_select(b, infinite, v, near), DTYPE_BF16);
}

/* The leading part of a factor in `dtype`. */
static IrValue *leading_part(Prepare *p, IrValue *v, Dtype dtype) {
    return dtype == DTYPE_F32 ? tensor_float(p, v) : brain_float(p, v);
}

/* What the leading part leaves of v; nothing of an infinity. */
static IrValue *remainder_of(Prepare *p, IrValue *v, IrValue *high) {
    Dtype dtype = high->type->dtype;
    IrValue *rest = ir_binary(&p->b, IR_SUB, v, dtype == DTYPE_F32 ? high : cast_factor(p, high, DTYPE_F32));
    IrValue *finite = ir_binary(&p->b, IR_EQ, rest, rest);
    return leading_part(p, ir_select(&p->b, finite, rest, tile_splat(&p->b, rest->type, 0)), dtype);
}

/* acc plus a b, before the gemm and with its transpositions. */
static IrValue *further_product(Prepare *p, IrValue *a, IrValue *b, IrValue *acc) {
    IrOp *op = ir_op_create(&p->b, IR_TILE_GEMM, 3, (IrValue *[]){a, b, acc}, 1, NULL);
    ir_attr_set_bool(op, "trans_a", ir_attr_bool(p->gemm, "trans_a"));
    ir_attr_set_bool(op, "trans_b", ir_attr_bool(p->gemm, "trans_b"));
    ir_attr_copy(op, p->gemm, "precision");
    return ir_result(op, 0);
}

/* Tensor cores cut off what a sum has no bits for, at every few products, so that sums of one sign drift. The three
 * products are therefore summed by themselves, the small ones first, and added to the accumulator with rounding. */
static void split_factors(Prepare *p, Dtype dtype) {
    IrValue *high[2], *low[2], *sum = p->gemm->operands[2], *result = ir_result(p->gemm, 0);
    for (unsigned i = 0; i < 2; i++) {
        IrValue *v = p->gemm->operands[i];
        high[i] = leading_part(p, v, dtype);
        low[i] = remainder_of(p, v, high[i]);
    }
    IrValue *acc = further_product(p, low[0], high[1], tile_splat(&p->b, sum->type, 0));
    acc = further_product(p, high[0], low[1], acc);
    for (unsigned i = 0; i < 2; i++) ir_set_operand(p->gemm, i, high[i]);
    ir_set_operand(p->gemm, 2, acc);
    IrBuilder behind = ir_builder_after(p->gemm);
    behind.span = p->gemm->span;
    IrValue *all = ir_binary(&behind, IR_ADD, sum, sum);
    ir_replace_uses(result, all);
    ir_set_operand(all->def, 1, result);
}

static void lower_precision(Prepare *p) {
    const Precision *precision = ir_op_precision(p->gemm);
    if (precision && precision->sums >= 24) ir_attr_remove(p->gemm, "precision"); /* else the choice of atoms asks */
    bool single = p->gemm->operands[0]->type->dtype == DTYPE_F32 && p->gemm->results[0].type->dtype == DTYPE_F32;
    bool plain = !precision || precision->bits >= 24 || !single;
    if (plain || !target_has(p->ctx->target, TARGET_MMA)) return;
    if (precision->factors == DTYPE_F32) ir_set_precision(p->gemm, IR_PRECISION_TF32);
    if (precision->parts > 1) {
        split_factors(p, precision->factors);
        return;
    }
    for (unsigned i = 0; i < 2 && precision->factors != DTYPE_F32; i++)
        ir_set_operand(p->gemm, i, cast_factor(p, p->gemm->operands[i], precision->factors));
}

/* ---- Orders that atoms want ---- */

static void make_k_major(Prepare *p) {
    const GemmShape shape = gemm_shape(p->gemm);
    if (!gemm_atom(p->ctx->target, &shape)->k_major) return;
    for (unsigned i = 0; i < 2; i++) {
        const char *flag = i ? "trans_b" : "trans_a";
        IrValue *v = p->gemm->operands[i];
        unsigned rank = v->type->rank;
        if (ir_attr_bool(p->gemm, flag) == (i == 1)) continue;
        int64_t perm[PRESENCE_MAX_RANK];
        const Aff *extents[PRESENCE_MAX_RANK];
        for (unsigned a = 0; a < rank; a++) {
            perm[a] = a + 2 < rank ? a : 2 * rank - 3 - a;
            extents[a] = v->type->extents[perm[a]];
        }
        const IrType *type = ir_type_tile(p->ctx->module, v->type->dtype, rank, extents, NULL);
        IrOp *op = ir_op_create(&p->b, IR_TILE_TRANSPOSE, 1, &v, 1, &type);
        ir_attr_set_ints(op, "perm", rank, perm);
        ir_result(op, 0)->name = v->name;
        ir_set_operand(p->gemm, i, ir_result(op, 0));
        ir_attr_set_bool(p->gemm, flag, i == 1);
    }
}

bool pass_prepare_gemms(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f; f = f->next) {
        if (f->level != IR_LEVEL_TILE) continue;
        OpList ops = ops_collect(ctx->scratch, f->body);
        for (size_t i = 0; i < ops.len; i++) {
            if (ops.data[i]->opcode != IR_TILE_GEMM) continue;
            Prepare p = {.ctx = ctx, .gemm = ops.data[i], .b = ir_builder_before(ops.data[i])};
            p.b.span = ops.data[i]->span;
            match_depth(&p);
            lower_precision(&p);
            if (ctx->target->kind == TARGET_CUDA) make_k_major(&p);
        }
    }
    return true;
}
