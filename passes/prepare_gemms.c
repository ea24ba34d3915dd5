/* Pass prepare_gemms: factors of a tile.gemm become what the target multiplies.
 *
 * what:   a factor that is present along K where the other one is absent is 0 there, so that what
 *         stands in for absent lanes (zeros) decides nothing.
 * needs:  static extents.
 * keeps:  values.
 * breaks: nothing.
 * source: docs/language.md, "Presence": on K the intersection counts.
 *
 *   %c1 = tile.gemm(%a, %b, %c)               a: all of K, b: lanes below n
 * becomes
 *   %i = tile.iota() {axis = 1}; %m = lt(%i, n); %a0 = select(%m, %a, 0)
 *   %c1 = tile.gemm(%a0, %b, %c)
 */
#include "passes_internal.h"

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
    for (unsigned i = 0; i < 2; i++)
        k[i] = presence_of(p->ctx, p->gemm->operands[i]).axes[summed_axis(p->gemm, i)];
    if (same_interval(facts, k[0], k[1])) return;
    for (unsigned i = 0; i < 2; i++)
        if (k[1 - i].hi) mask_factor(p, i, k[1 - i]);
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
        }
    }
    return true;
}
