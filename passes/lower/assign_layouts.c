/* Pass assign_layouts: every tile of a GPU kernel gets a linear layout.
 *
 * what:   picks the number of warps, seeds accumulators of buf.gemm with the layout of their atom and the
 *         largest remaining tile with a blocked one (16-byte pieces along the axis that is contiguous in
 *         memory), carries layouts along elementwise ops, loops, reductions (slices) and broadcasts, and
 *         repeats until every tile has one. Where two meet, tile.convert.
 * needs:  static extents, target cuda, gemm operands staged.
 * keeps:  values.
 * breaks: nothing; state mapped.
 * source: layout propagation from anchors as in Triton; the layouts are ir/layout.h's.
 *
 *   %x = tile.load(...) : tile<[8, 256] x f32>
 * becomes
 *   %x = tile.load(...) : tile<[8, 256] x f32, #dist<[8, 256], register=[(0, 1)*2], lane=[(0, 4)*5], ...>>
 */
#include "analysis/analysis.h"
#include "analysis/gemm_plan.h"
#include "layout.h"

#include <string.h>

/* Elements of less than a word that a window slides over: so many neighbours a thread, which reads words of shared memory and each
 * element once, where a thread for each would read all of a window's. 1: none. */
enum { SLIDES = 4 /* the switch: 1 */ };
/* FEW_WARPS a multiprocessor hide little of what a thread waits for (0: the switch). */
enum {
    NEIGHBOURS = 8,     /* windows of a thread, one beside the other */
    WINDOW_READS = 128, /* of a thread from its windows, with all neighbours */
    FEW_WARPS = 16,
    MAP_WARPS = 4 /* 8: blocks as large as can be */,
    MAP_PIECES = 2,       /* pieces that blocks leave a thread, before they get more warps */
    FEW_FUNCTIONS = 2,    /* of a lane, from which on warps wait for them, not for memory */
    SHORT_BYTES = 1 << 30 /* tensors of as many are not short */
};

typedef struct {
    PassContext *ctx;
    IrModule *module;
    IrFunc *func;
    LayoutCtx *layouts;
    int64_t warps;
    int64_t vector_bytes;
    unsigned widest;         /* bytes of the widest element in memory, of the largest tiles there ... */
    int64_t widest_elements; /* ... which have so many */
    bool changed, failed;
    bool paired, crowded; /* some products leave registers for a second block; some of warpgroups do not */
    WindowAxes windows;   /* of the tiles that windows are loaded into */
    /* search for the next seed */
    IrValue *largest;
    int64_t largest_elements;
} Assign;

static const Layout *layout_of(const IrValue *v) {
    return is_tile(v) ? v->type->layout : NULL;
}

static void give(Assign *s, IrValue *v, const Layout *layout) {
    if (!is_tile(v) || v->type->layout || !layout) return;
    v->type = ir_type_tile(s->module, v->type->dtype, v->type->rank, v->type->extents, layout);
    s->changed = true;
}

static void unify(Assign *s, IrValue *const *values, size_t count) {
    const Layout *known = NULL;
    for (size_t i = 0; i < count && !known; i++) known = layout_of(values[i]);
    for (size_t i = 0; known && i < count; i++) give(s, values[i], known);
}

/* ---- Seeds ---- */

static int64_t tile_elements(const IrValue *v) {
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

static int64_t power_of_two_up(int64_t n) {
    int64_t p = 1;
    while (p < n) p *= 2;
    return p;
}

/* An extent that a layout may have: q * 2^k keeps its odd part where enough of it is even. */
static int64_t padded_extent(int64_t n, int64_t enough) {
    int64_t padded = layout_pad_extent(n ? n : 1);
    return (padded & -padded) >= enough ? padded : power_of_two_up(n);
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

/* The axis, but for the fastest, along which a thread's elements should be neighbours, whose windows share what
 * they load. -1: none. */
static int shared_axis(const Assign *s, unsigned rank, unsigned fastest) {
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

static int64_t slid_piece(const Assign *s) {
    return s->windows.slides && s->widest < 4 ? SLIDES : 1;
}

static const Layout *blocked(Assign *s, const IrValue *v, int64_t slid) {
    if (!v->type->rank) return copies(s);
    unsigned rank = v->type->rank, order[LAYOUT_RANK_LIMIT] = {0};
    int64_t extents[LAYOUT_RANK_LIMIT] = {0};
    unsigned vec[LAYOUT_RANK_LIMIT], lanes[LAYOUT_RANK_LIMIT], warps[LAYOUT_RANK_LIMIT];
    unsigned fastest = rank ? contiguous_axis(v) : 0, n = 0;
    int64_t piece = s->windows.apart ? slid : stored_piece(s, v, s->vector_bytes / s->widest);
    int shared = shared_axis(s, rank, fastest);
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

/* What a first factor in registers must have. */
static const Layout *factor_in_registers(Assign *s, const IrOp *op) {
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

static void seed_gemm(void *ctx, IrOp *op) {
    Assign *s = ctx;
    if (op->opcode != IR_BUF_GEMM) return;
    const Layout *layout = accumulator(s, op);
    if (!layout) {
        diag_report(s->ctx->diags, DIAG_not_lowered, op->span, "an accumulator of this shape has no layout on this target");
        s->failed = true;
    }
    give(s, &op->results[0], layout);
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
    int64_t n = tile_elements(v) * 2 + (v->def && v->def->opcode == IR_TILE_LOAD);
    if (s->largest && n <= s->largest_elements) return;
    s->largest = v;
    s->largest_elements = n;
}

static void consider_op(void *ctx, IrOp *op) {
    for (unsigned i = 0; i < op->result_count; i++) consider(ctx, &op->results[i]);
    for (unsigned r = 0; r < op->region_count; r++)
        for (unsigned i = 0; op->regions[r] && i < op->regions[r]->arg_count; i++) consider(ctx, op->regions[r]->args[i]);
}

/* ---- Propagation ---- */

static uint32_t axis_mask(const IrOp *op) {
    uint32_t mask = 0;
    for (unsigned a = 0; a < op->operands[0]->type->rank; a++)
        if (ir_axis_link(op, 0, a).relation == IR_AXIS_FOLDED) mask |= 1u << a;
    return mask;
}

/* `l` without `axes`; with keepdim they stay with extent 1. */
static const Layout *sliced(Assign *s, const Layout *l, uint32_t axes, bool keepdim) {
    for (unsigned a = l->rank; l && a-- > 0;) {
        if (!(axes >> a & 1)) continue;
        l = layout_slice(s->layouts, l, a);
        if (l && keepdim) l = layout_expand_dims(s->layouts, l, a);
    }
    return l;
}

/* What a broadcast's operand must have so that each thread holds what its result lanes need. */
static const Layout *broadcast_operand(Assign *s, const IrOp *op, const Layout *result) {
    const IrAttr *axes = ir_attr(op, "axes");
    const IrType *from = op->operands[0]->type;
    uint32_t dropped = (1u << result->rank) - 1, ones = 0;
    for (size_t i = 0; i < axes->count; i++) {
        if (ir_type_extent(from, (unsigned)i) == 1 && result->extents[axes->ints[i]] != 1) ones |= 1u << axes->ints[i];
        dropped &= ~(1u << axes->ints[i]);
    }
    const Layout *l = sliced(s, result, ones, true);
    return l ? sliced(s, l, dropped, false) : NULL;
}

/* What the index tiles of an access must have beside the tile's layout; null: there are none. */
static const Layout *index_layout(Assign *s, const IrSlice *slice, const Layout *tile) {
    if (slice->gather_axis < 0 || !tile) return NULL;
    uint32_t kept = ((1u << slice->gather_rank) - 1) << slice->gather_axis;
    return sliced(s, tile, ((1u << tile->rank) - 1) & ~kept, false);
}

typedef void (*SetLayout)(Assign *s, IrOp *op, unsigned operand, const Layout *layout);

static void each_index_tile(Assign *s, IrOp *op, SetLayout set) {
    IrSlice slice = ir_slice(op);
    const Layout *layout = index_layout(s, &slice, layout_of(op->opcode == IR_TILE_STORE ? op->operands[0] : &op->results[0]));
    for (unsigned i = 0; i < slice.rank && layout; i++)
        if (slice.axes[i].letter == IR_LETTER_GATHER) set(s, op, slice.axes[i].operand, layout);
}

static void give_operand(Assign *s, IrOp *op, unsigned operand, const Layout *layout) {
    give(s, op->operands[operand], layout);
}

static void propagate_region(Assign *s, IrOp *op) {
    unsigned first = op->opcode == IR_FOR ? 1 : 0;
    for (unsigned i = 0; i < op->result_count; i++) {
        IrValue *tied[6];
        size_t n = 0;
        tied[n++] = &op->results[i];
        for (unsigned r = 0; r < op->region_count; r++) {
            IrBlock *region = op->regions[r];
            if (!region || !region->last) continue;
            if (i < region->last->operand_count) tied[n++] = region->last->operands[i];
            if (first) tied[n++] = region->args[i + first];
        }
        if (op->opcode == IR_FOR) tied[n++] = op->operands[3 + i];
        unify(s, tied, n);
    }
}

static void propagate(void *ctx, IrOp *op) {
    Assign *s = ctx;
    IrValue *result = op->result_count ? &op->results[0] : NULL;
    switch (op->opcode) {
    case IR_FOR:
    case IR_IF:
        propagate_region(s, op);
        return;
    case IR_TILE_LOAD:
    case IR_TILE_STORE:
        each_index_tile(s, op, give_operand);
        return;
    case IR_TILE_REDUCE:
    case IR_TILE_ARG:
        if (layout_of(op->operands[0])) give(s, result, sliced(s, layout_of(op->operands[0]), axis_mask(op), ir_attr_bool(op, "keepdim")));
        return;
    case IR_TILE_BROADCAST:
        if (layout_of(result) && is_tile(op->operands[0])) give(s, op->operands[0], broadcast_operand(s, op, layout_of(result)));
        return;
    case IR_TILE_TRANSPOSE: {
        unsigned order[LAYOUT_RANK_LIMIT];
        const IrAttr *perm = ir_attr(op, "perm");
        for (size_t i = 0; i < perm->count; i++) order[i] = (unsigned)perm->ints[i];
        if (layout_of(op->operands[0])) give(s, result, layout_transpose(s->layouts, layout_of(op->operands[0]), order));
        return;
    }
    case IR_BUF_GEMM: {
        IrValue *tied[2] = {result, op->operands[4]};
        unify(s, tied, 2);
        if (is_tile(op->operands[0])) give(s, op->operands[0], factor_in_registers(s, op));
        return;
    }
    default:
        break;
    }
    if (op->opcode == IR_TILE_INSERT) { /* the whole in place, the part through memory */
        unify(s, (IrValue *[]){result, op->operands[0]}, 2);
        return;
    }
    if (op->opcode == IR_WGMMA_WAIT || keeps_lanes(op)) unify(s, (IrValue *[]){result, op->operands[0]}, 2);
    if (ir_has_trait(op, IR_ALONG)) { /* through memory: any layout would do, one saves a conversion */
        IrValue *tied[3] = {result, op->operands[0], op->result_count > 1 ? &op->results[1] : NULL};
        unify(s, tied, op->result_count + 1);
        return;
    }
    if (!ir_has_trait(op, IR_ELEMENTWISE) && op->opcode != IR_TILE_FILL) return;
    IrValue *tied[5] = {result};
    for (unsigned i = 0; i < op->operand_count && i < 4; i++) tied[i + 1] = op->operands[i];
    unify(s, tied, op->operand_count + 1);
}

static void settle(Assign *s) {
    do {
        s->changed = false;
        ir_walk(s->func->body, propagate, s);
    } while (s->changed);
}

/* ---- Conversions where layouts meet ---- */

static void require(Assign *s, IrOp *op, unsigned operand, const Layout *layout) {
    IrValue *v = op->operands[operand];
    if (!is_tile(v) || !layout || v->type->layout == layout) return;
    IrBuilder b = ir_builder_before(op);
    const IrType *type = ir_type_tile(s->module, v->type->dtype, v->type->rank, v->type->extents, layout);
    IrValue *converted = ir_result(ir_op_create(&b, IR_TILE_CONVERT, 1, &v, 1, &type), 0);
    converted->name = v->name;
    ir_set_operand(op, operand, converted);
}

/* A result whose layout follows from the operand but is wanted in another one. */
static void derive(Assign *s, IrOp *op, const Layout *layout) {
    IrValue *v = &op->results[0];
    const Layout *wanted = v->type->layout;
    if (!layout || wanted == layout) return;
    v->type = ir_type_tile(s->module, v->type->dtype, v->type->rank, v->type->extents, layout);
    IrBuilder b = ir_builder_after(op);
    const IrType *type = ir_type_tile(s->module, v->type->dtype, v->type->rank, v->type->extents, wanted);
    IrOp *convert = ir_op_create(&b, IR_TILE_CONVERT, 1, &v, 1, &type);
    ir_replace_uses(v, ir_result(convert, 0));
    ir_set_operand(convert, 0, v);
}

/* A carried tile enters its iteration as the loop leaves it; the body may want another layout. */
static void settle_argument(IrOp *loop, unsigned i) {
    IrValue *arg = loop->regions[0]->args[1 + i];
    const IrType *wanted = arg->type, *type = loop->results[i].type;
    if (!is_tile(arg) || type == wanted) return;
    arg->type = type;
    IrBuilder b = loop->regions[0]->first ? ir_builder_before(loop->regions[0]->first) : ir_builder_at_end(loop->regions[0]);
    IrOp *convert = ir_op_create(&b, IR_TILE_CONVERT, 1, &arg, 1, &wanted);
    ir_replace_uses(arg, ir_result(convert, 0));
    ir_set_operand(convert, 0, arg);
}

static void reconcile(void *ctx, IrOp *op) {
    Assign *s = ctx;
    IrValue *result = op->result_count ? &op->results[0] : NULL;
    switch (op->opcode) {
    case IR_FOR:
        for (unsigned i = 0; i < op->result_count; i++) {
            require(s, op, 3 + i, layout_of(&op->results[i]));
            settle_argument(op, i);
        }
        break;
    case IR_TILE_INSERT:
        require(s, op, 0, layout_of(result));
        return;
    case IR_TILE_LOAD:
    case IR_TILE_STORE:
        each_index_tile(s, op, require);
        return;
    case IR_TILE_REDUCE:
        derive(s, op, sliced(s, layout_of(op->operands[0]), axis_mask(op), ir_attr_bool(op, "keepdim")));
        return;
    case IR_TILE_BROADCAST:
        if (is_tile(op->operands[0])) require(s, op, 0, broadcast_operand(s, op, layout_of(result)));
        return;
    case IR_TILE_TRANSPOSE: {
        unsigned order[LAYOUT_RANK_LIMIT];
        const IrAttr *perm = ir_attr(op, "perm");
        for (size_t i = 0; i < perm->count; i++) order[i] = (unsigned)perm->ints[i];
        derive(s, op, layout_transpose(s->layouts, layout_of(op->operands[0]), order));
        return;
    }
    case IR_BUF_GEMM:
        require(s, op, 4, layout_of(result));
        require(s, op, 0, factor_in_registers(s, op));
        return;
    case IR_WGMMA_WAIT:
        require(s, op, 0, layout_of(result));
        return;
    default:
        break;
    }
    for (unsigned r = 0; r < op->region_count; r++) {
        IrOp *yield = op->regions[r] ? op->regions[r]->last : NULL;
        for (unsigned i = 0; yield && i < op->result_count; i++) require(s, yield, i, layout_of(&op->results[i]));
    }
    if (!ir_has_trait(op, IR_ELEMENTWISE) && op->opcode != IR_TILE_FILL) return;
    for (unsigned i = 0; i < op->operand_count; i++) require(s, op, i, layout_of(result));
}

/* ---- Functions ---- */

/* A warp's access of the widest elements in memory should be of neighbouring 16-byte pieces; narrower ones
 * then take smaller pieces. Small tiles do not count. */
static void widest_element(void *ctx, IrOp *op) {
    Assign *s = ctx;
    if (op->opcode != IR_TILE_LOAD && op->opcode != IR_TILE_STORE) return;
    bool store = op->opcode == IR_TILE_STORE;
    const IrValue *tile = store ? op->operands[0] : &op->results[0];
    int64_t elements = is_tile(tile) ? tile_elements(tile) : 0;
    unsigned bytes = (unsigned)dtype_size(op->operands[store]->type->dtype);
    if (elements < s->widest_elements || (elements == s->widest_elements && bytes < s->widest)) return;
    s->widest = bytes;
    s->widest_elements = elements;
}

static void note_cooperation(void *ctx, IrOp *op) {
    bool *cooperates = ctx;
    if (ir_has_trait(op, IR_FOLDS) || ir_has_trait(op, IR_ALONG)) *cooperates = true;
}

typedef struct {
    bool loops, elements; /* single ones that are loaded for all lanes */
    const IrBlock *block;
    int here, functions; /* of tiles, in the block with the most: dozens of instructions an element each */
} Contents;

static void note_contents(void *ctx, IrOp *op) {
    Contents *c = ctx;
    c->loops |= op->opcode == IR_FOR;
    c->elements |= op->opcode == IR_TILE_LOAD && is_tile(&op->results[0]) && !op->results[0].type->rank;
    if (c->block != op->block) c->here = 0;
    c->block = op->block;
    c->here += op->result_count && is_tile(&op->results[0]) && ir_math_info(op->opcode);
    c->functions = c->here > c->functions ? c->here : c->functions;
}

/* Is all that the kernel may touch, in every case, less than what takes a few waves of blocks? */
static bool is_short(const Assign *s) {
    for (size_t i = 0; i < sizes_asked(s->ctx); i++) {
        int64_t all = 0, extent;
        for (unsigned k = 0; k < s->func->param_count; k++) {
            const IrType *t = s->func->body->args[k]->type;
            if (t->kind != IR_TYPE_TENSOR) continue;
            int64_t bytes = (int64_t)dtype_size(t->dtype);
            for (unsigned a = 0; a < t->rank; a++) {
                if (!size_at(s->ctx, s->func, i, t->extents[a], &extent)) return false;
                bytes = extent > SHORT_BYTES / bytes ? SHORT_BYTES : bytes * (extent > 0 ? extent : 1);
            }
            all += bytes;
        }
        if (all >= SHORT_BYTES) return false;
    }
    return sizes_asked(s->ctx) > 0;
}

/* Whether blocks are of a few warps that take two accesses each: what is loaded, mapped and stored once, where that is short, so that what begins together
 * ends together, takes many instructions, so that one access waits while the other is computed, or waits for single elements besides. */
static bool is_for_few_warps(const Assign *s) {
    Contents c = {0};
    ir_walk(s->func->body, note_contents, &c);
    return !c.loops && !s->windows.rank && (c.elements || c.functions >= FEW_FUNCTIONS || is_short(s));
}

/* The most blocks that a case launches of a kernel that sizes choose, in a plan without products; 0: it is another. */
static int64_t few_blocks(const Assign *s) {
    const Aff *grid = ir_func_aff(s->func, IR_FN_GRID_X);
    int64_t most = 0, least = 1, blocks;
    if (!FEW_WARPS || !grid || s->ctx->target->kind != TARGET_CUDA || module_multiplies(s->module)) return 0;
    for (size_t i = 0; i < sizes_asked(s->ctx); i++) {
        if (!size_at(s->ctx, s->func, i, grid, &blocks)) return 0;
        most = blocks > most ? blocks : most;
        least = blocks < least ? blocks : least;
    }
    return least > 0 ? 0 : most;
}

/* Where no thread needs another's lanes a thread takes one access of 16 bytes and blocks are many: while one
 * waits for memory others come and go. Where they cooperate a thread keeps more, so that a block has several
 * accesses in flight between its barriers; beyond that the block grows. Neighbours whose windows share elements
 * are more than the bytes of an access, as long as their windows' elements are few. Of a kernel for small sizes a thread takes one window, where blocks are few. */
static int64_t choose_warps(const Assign *s) {
    bool cooperates = false;
    ir_walk(s->func->body, note_cooperation, &cooperates);
    int64_t each = cooperates ? 16 : 16 / s->widest;
    if (!cooperates && shared_axis(s, s->windows.rank, s->windows.rank - 1) >= 0)
        while (each < NEIGHBOURS && each * 2 * s->windows.elements <= WINDOW_READS) each *= 2;
    int64_t most = cooperates ? 16 : 8, warps = 1;
    while (warps < most && warps * 2 * 32 * each <= s->largest_elements / 2) warps *= 2;
    bool few = !cooperates && is_for_few_warps(s);
    while (few && warps > MAP_WARPS && warps * 2 * 32 * each * MAP_PIECES > s->largest_elements) warps /= 2;
    int64_t blocks = s->windows.rank ? few_blocks(s) : 0; /* a window's elements are loads enough for a thread */
    while (blocks && warps < most && warps * 2 * 32 <= s->largest_elements && blocks * warps < FEW_WARPS * s->ctx->target->sms) warps *= 2;
    return warps;
}

/* Where rows begin at any element lanes are neighbours again in what is stored. */
static void store_by_lanes(void *ctx, IrOp *op) {
    Assign *s = ctx;
    if (op->opcode != IR_TILE_STORE || !is_tile(op->operands[0]) || op->operands[0]->type->rank != s->windows.rank) return;
    AffFacts *facts = ir_facts_at(s->ctx->scratch, op);
    const IrType *tensor = op->operands[1]->type;
    IrSlice slice = ir_slice(op);
    bool whole = s->vector_bytes >= SLIDES * (int64_t)dtype_size(tensor->dtype) && !is_view(op->operands[1]);
    for (unsigned a = 0; a + 1 < tensor->rank; a++)
        whole = whole && aff_known_divisor(facts, ir_type_stride(s->module, tensor, a), SLIDES) % SLIDES == 0;
    const Aff *begin = ir_aff_of(s->module, op->operands[slice.axes[slice.rank - 1].operand]);
    if (!whole || aff_known_divisor(facts, begin, SLIDES) % SLIDES) require(s, op, 0, blocked(s, op->operands[0], 1));
}

static void check_assigned(void *ctx, IrOp *op) {
    Assign *s = ctx;
    for (unsigned i = 0; i < op->result_count; i++)
        if (is_tile(&op->results[i]) && !layout_of(&op->results[i]) && !s->failed) {
            diag_report(s->ctx->diags, DIAG_not_lowered, op->span, "a tile of this shape has no layout on this target");
            s->failed = true;
        }
}

static bool assign_func(PassContext *ctx, IrFunc *f) {
    if (!check_ranks(ctx, f)) return false;
    Assign s = {.ctx = ctx, .module = ctx->module, .func = f, .layouts = ir_module_layouts(ctx->module)};
    ir_walk(f->body, widest_element, &s);
    if (!s.widest) s.widest = 4;
    s.windows = window_axes(f);
    s.vector_bytes = ir_func_int(f, IR_FN_VECTOR_BYTES, 16);
    if (s.vector_bytes < s.widest) s.vector_bytes = s.widest;
    ir_walk(f->body, consider_op, &s);
    s.warps = ir_func_int(f, IR_FN_NUM_WARPS, 0);
    if (!s.warps) s.warps = choose_warps(&s);
    ir_func_set_int(f, IR_FN_NUM_WARPS, s.warps);
    ir_walk(f->body, seed_gemm, &s);
    if (s.paired && !s.crowded) ir_func_set_int(f, IR_FN_MIN_BLOCKS, 2);
    for (;;) {
        settle(&s);
        s.largest = NULL;
        ir_walk(f->body, consider_op, &s);
        if (!s.largest) break;
        const Layout *layout = blocked(&s, s.largest, slid_piece(&s));
        if (!layout) break;
        give(&s, s.largest, layout);
    }
    ir_walk(f->body, check_assigned, &s);
    if (!s.failed) ir_walk(f->body, reconcile, &s);
    if (!s.failed && slid_piece(&s) > 1) ir_walk(f->body, store_by_lanes, &s);
    f->state = IR_STATE_MAPPED;
    return !s.failed;
}

bool pass_assign_layouts(PassContext *ctx) {
    bool ok = true;
    for (IrFunc *f = ctx->module->first; f; f = f->next)
        if (f->level == IR_LEVEL_TILE) ok = assign_func(ctx, f) && ok;
    return ok;
}
