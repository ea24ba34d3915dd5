/* Where layouts come from, for assign_layouts: stores, loads and products give the first ones. */
#include "analysis/analysis.h"
#include "analysis/gemm_plan.h"
#include "assign_internal.h"
#include "layout.h"

#include <string.h>

/* ---- Seeds ---- */

int64_t assign_tile_elements(const IrValue *v) {
    int64_t n = 1;
    for (unsigned a = 0; a < v->type->rank; a++) n *= ir_type_extent(v->type, a);
    return n;
}

/* The axis along which memory is contiguous, or the last. */
static unsigned contiguous_axis(const IrValue *v) {
    unsigned last = v->type->rank - 1;
    const IrOp *op = v->def;
    if (!op || op->opcode != IR_TILE_LOAD) {
        op = NULL;
        for (const IrUse *u = v->uses; u && !op; u = u->next)
            if (u->op->opcode == IR_TILE_STORE && u->index == 0) op = u->op;
    }
    const char *axes = op ? ir_attr_str(op, "axes", "") : "";
    size_t n = strlen(axes);
    return n && axes[n - 1] == IR_LETTER_POINT ? 0 : last;
}

static unsigned log2_of(int64_t n) {
    return (unsigned)__builtin_ctzll((unsigned long long)n);
}

/* An extent that a layout may have: q * 2^k keeps its odd part where enough of it is even. */
static int64_t padded_extent(int64_t n, int64_t enough) {
    int64_t padded = layout_pad_extent(n ? n : 1);
    return (padded & -padded) >= enough ? padded : power_of_two_from(n);
}

/* One lane: a copy in every thread. */
static const Layout *copies(Assign *s) {
    const Layout *l =
        layout_blocked(s->layouts, 1, (int64_t[]){1}, (unsigned[]){1}, (unsigned[]){32}, (unsigned[]){(unsigned)s->warps}, (unsigned[]){0});
    return l ? layout_slice(s->layouts, l, 0) : NULL;
}

/* Of the registers along `axis` beyond its first `piece` lanes the lowest bits become blocks of the cluster, so that
 * the blocks' pieces alternate and a row shorter than the tile still is everybody's work; the highest where blocks are to hold parts one behind
 * the other, which scans need. */
static const Layout *over_blocks(Assign *s, const Layout *l, unsigned axis, unsigned piece) {
    unsigned wanted = log2_of(ir_func_cluster(s->func)), bits[LAYOUT_DIMS] = {0};
    if (!l || !wanted) return l;
    uint32_t held[LAYOUT_BITS_LIMIT * LAYOUT_RANK_LIMIT] = {0}, blocks[LAYOUT_BITS_LIMIT * LAYOUT_RANK_LIMIT] = {0};
    const uint32_t *bases[LAYOUT_DIMS];
    for (unsigned d = 0; d < LAYOUT_DIMS; d++) bases[d] = l->bases[d], bits[d] = l->in_bits[d];
    bases[LAYOUT_REGISTER] = held, bases[LAYOUT_BLOCK] = blocks;
    bits[LAYOUT_REGISTER] = 0;
    unsigned along = 0, left = 0; /* bits that may move, and those of them that stay */
    for (unsigned b = 0; b < l->in_bits[LAYOUT_REGISTER]; b++) along += l->bases[LAYOUT_REGISTER][b * l->rank + axis] >= piece;
    if (ir_func_has(s->func, IR_FN_BLOCKS_IN_ORDER) && along > wanted) left = along - wanted;
    for (unsigned b = 0; b < l->in_bits[LAYOUT_REGISTER]; b++) {
        const uint32_t *basis = &l->bases[LAYOUT_REGISTER][b * l->rank];
        bool moves = bits[LAYOUT_BLOCK] < wanted && basis[axis] >= piece && !left;
        left -= basis[axis] >= piece && left;
        unsigned to = moves ? bits[LAYOUT_BLOCK]++ : bits[LAYOUT_REGISTER]++;
        memcpy(&(moves ? blocks : held)[to * l->rank], basis, l->rank * sizeof *basis);
    }
    return layout_from_bases(s->layouts, false, l->rank, l->extents, bits, bases);
}

int assign_shared_axis(const Assign *s, unsigned rank, unsigned fastest) {
    for (unsigned a = rank; a-- > 0 && rank == s->windows.rank;)
        if (a != fastest && s->windows.shared >> a & 1) return (int)a;
    return -1;
}

/* Elements that neighbours in a thread are stored as one access of: a reshaped tile comes out of memory in any layout, and where single
 * elements are stored lanes are neighbours. */
static int64_t stored_piece(const Assign *s, const IrValue *v, int64_t piece) {
    const IrUse *u = v->uses;
    if (!v->def || v->def->opcode != IR_TILE_RESHAPE || !u || u->next || u->op->opcode != IR_TILE_STORE) return piece;
    const IrValue *tensor = u->op->operands[1];
    if (tensor->def && tensor->def->opcode == IR_VIEW) return 1;
    AffFacts *facts = ir_facts_at(s->ctx->scratch, u->op);
    for (unsigned a = 0; a + 1 < tensor->type->rank; a++)
        while (piece > 1 && aff_known_divisor(facts, ir_type_stride(s->module, tensor->type, a), piece) % piece) piece /= 2;
    return piece;
}

int64_t assign_slid_piece(const Assign *s) {
    return s->windows.slides && s->widest < 4 ? SLIDES : 1;
}

const Layout *assign_blocked(Assign *s, const IrValue *v, int64_t slid) {
    if (!v->type->rank) return copies(s);
    unsigned rank = v->type->rank, order[LAYOUT_RANK_LIMIT] = {0};
    int64_t extents[LAYOUT_RANK_LIMIT] = {0};
    unsigned vec[LAYOUT_RANK_LIMIT], lanes[LAYOUT_RANK_LIMIT], warps[LAYOUT_RANK_LIMIT];
    unsigned fastest = rank ? contiguous_axis(v) : 0, n = 0;
    int64_t piece = s->windows.apart ? slid : stored_piece(s, v, s->vector_bytes / s->widest);
    int shared = assign_shared_axis(s, rank, fastest);
    for (unsigned a = rank; a-- > 0;) {
        if (n == 0) order[n++] = fastest;
        if (a != fastest) order[n++] = a;
        extents[a] = padded_extent(ir_type_extent(v->type, a), a == fastest ? 32 * piece : 1);
        vec[a] = lanes[a] = warps[a] = 1;
    }
    if (shared >= 0) { /* no more than leaves every thread an element */
        int64_t total = 1, even = extents[shared] & -extents[shared];
        for (unsigned a = 0; a < rank; a++) total *= extents[a] & -extents[a];
        while (vec[shared] * 2 <= even && vec[shared] * 2 * piece * 32 * s->warps <= total) vec[shared] *= 2;
    }
    unsigned lane_bits = 5, warp_bits = log2_of(s->warps);
    for (unsigned i = 0; i < rank; i++) {
        unsigned a = order[i];
        int64_t even = extents[a] & -extents[a];
        if (i == 0) {
            /* Not so wide that threads are left without an element. */
            int64_t total = 1;
            for (unsigned k = 0; k < rank; k++) total *= extents[k];
            while (piece > 1 && (piece > even || total / piece < 32 * s->warps)) piece /= 2;
            vec[a] = (unsigned)(piece < 1 ? 1 : piece);
        }
        unsigned room = log2_of(even / vec[a]);
        unsigned take = room < lane_bits ? room : lane_bits;
        lanes[a] = 1u << take, lane_bits -= take, room -= take;
        bool apart = rank > 1 && a == fastest && ir_func_has(s->func, IR_FN_ROWS_IN_WARP); /* no row in two warps */
        take = lane_bits || apart ? 0 : room < warp_bits ? room : warp_bits;
        warps[a] = 1u << take, warp_bits -= take;
    }
    if (rank && lane_bits) lanes[order[rank - 1]] <<= lane_bits;
    if (rank && warp_bits) warps[order[rank - 1]] <<= warp_bits;
    unsigned first = vec[fastest] * lanes[fastest] * warps[fastest];
    return over_blocks(s, layout_blocked(s->layouts, rank, extents, vec, lanes, warps, order), fastest, first);
}

static const Layout *accumulator(Assign *s, const IrOp *op) {
    GemmPlan plan = gemm_plan_get(op);
    const IrType *acc = op->results[0].type;
    int64_t extents[LAYOUT_RANK_LIMIT] = {plan.pad_m, plan.pad_n};
    unsigned vec[2] = {1, 4}, lanes[2] = {4, 8}, warps[2] = {(unsigned)plan.wm, (unsigned)plan.wn}, order[2] = {1, 0};
    const Layout *l = gemm_plan_is_wgmma(&plan) ? layout_wgmma_c(s->layouts, plan.pad_m, plan.pad_n, warps[0] / 4)
                      : gemm_plan_is_mma(&plan) ? layout_mma(s->layouts, LAYOUT_MMA_C, 16, plan.pad_m, plan.pad_n, warps[0], warps[1])
                                                : layout_blocked(s->layouts, 2, extents, vec, lanes, warps, order);
    if (acc->rank == 2 || !l) return l;
    for (unsigned a = 0; a + 2 < acc->rank; a++) extents[a] = layout_pad_extent(ir_type_extent(acc, a));
    return layout_stack(s->layouts, l, acc->rank - 2, extents);
}

const Layout *assign_factor_in_registers(Assign *s, const IrOp *op) {
    if (!is_tile(op->operands[0])) return NULL;
    GemmPlan plan = gemm_plan_get(op);
    return layout_wgmma_a(s->layouts, dtype_bits(op->operands[0]->type->dtype), plan.pad_m, plan.pad_k, (unsigned)plan.wm / 4);
}

/* Elements that the products of a block of wgmma add to; one that begins anew is added to something that lives as long. */
static int64_t sums_in_flight(const IrBlock *block) {
    int64_t sums = 0;
    for (const IrOp *op = block->first; op; op = op->next) {
        if (op->opcode != IR_BUF_GEMM) continue;
        const IrOp *before = op->operands[4]->def;
        if (before && before->opcode == IR_BUF_GEMM && before->block == block) continue;
        GemmPlan plan = gemm_plan_get(op);
        if (is_tile(op->operands[0])) sums += plan.pad_m * plan.pad_k / 2;
        sums += plan.pad_m * plan.pad_n * (before && before->opcode == IR_CONST ? 2 : 1);
    }
    return sums;
}

void assign_seed_gemm(void *ctx, IrOp *op) {
    Assign *s = ctx;
    if (op->opcode != IR_BUF_GEMM) return;
    const Layout *layout = accumulator(s, op);
    if (!layout) {
        diag_report(s->ctx->diags, DIAG_not_lowered, op->span, "an accumulator of this shape has no layout on this target");
        s->failed = true;
    }
    assign_give(s, &op->results[0], layout);
    GemmPlan plan = gemm_plan_get(op);
    /* Two blocks of eight warps share a multiprocessor's registers: while one waits at its barrier the
     * other multiplies. Only where 64 accumulators leave room for the rest: not beside 32-bit factors, whose stages
     * leave no room for a second block's either. */
    int64_t sums = gemm_plan_is_wgmma(&plan) ? sums_in_flight(op->block) : plan.pad_m * plan.pad_n;
    bool fits = plan.warps == 8 && sums <= 64 * 32 * plan.warps && dtype_size(op->operands[0]->type->dtype) < 4;
    s->crowded = s->crowded || (gemm_plan_is_wgmma(&plan) && !fits);
    s->paired = s->paired || (gemm_plan_is_mma(&plan) && fits && s->vector_bytes == 16);
}

static void consider(Assign *s, IrValue *v) {
    if (!is_tile(v) || v->type->layout) return;
    int64_t n = assign_tile_elements(v) * 2 + (v->def && v->def->opcode == IR_TILE_LOAD);
    if (s->largest && n <= s->largest_elements) return;
    s->largest = v;
    s->largest_elements = n;
}

void assign_consider_op(void *ctx, IrOp *op) {
    for (unsigned i = 0; i < op->result_count; i++) consider(ctx, &op->results[i]);
    for (unsigned r = 0; r < op->region_count; r++)
        for (unsigned i = 0; op->regions[r] && i < op->regions[r]->arg_count; i++) consider(ctx, op->regions[r]->args[i]);
}
