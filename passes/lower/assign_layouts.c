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
#include "analyzer.h"
#include "assign_internal.h"
#include "layout.h"

static const Layout *layout_of(const IrValue *v) {
    ANALYZER_ASSUME(v);
    return is_tile(v) ? v->type->layout : NULL;
}

void assign_give(Assign *s, IrValue *v, const Layout *layout) {
    ANALYZER_ASSUME(v);
    if (!is_tile(v) || v->type->layout || !layout) return;
    v->type = ir_type_tile(s->module, v->type->dtype, v->type->rank, v->type->extents, layout);
    s->changed = true;
}

static void unify(Assign *s, IrValue *const *values, size_t count) {
    const Layout *known = NULL;
    /* NOLINTBEGIN(*ArrayBound): there are `count` values */
    for (size_t i = 0; i < count && !known; i++) known = layout_of(values[i]);
    for (size_t i = 0; known && i < count; i++) assign_give(s, values[i], known);
    /* NOLINTEND(*ArrayBound) */
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
    assign_give(s, op->operands[operand], layout);
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
        if (layout_of(op->operands[0]))
            assign_give(s, result, sliced(s, layout_of(op->operands[0]), axis_mask(op), ir_attr_bool(op, "keepdim")));
        return;
    case IR_TILE_BROADCAST:
        if (layout_of(result) && is_tile(op->operands[0])) assign_give(s, op->operands[0], broadcast_operand(s, op, layout_of(result)));
        return;
    case IR_TILE_TRANSPOSE: {
        unsigned order[LAYOUT_RANK_LIMIT];
        const IrAttr *perm = ir_attr(op, "perm");
        for (size_t i = 0; i < perm->count; i++) order[i] = (unsigned)perm->ints[i];
        if (layout_of(op->operands[0])) assign_give(s, result, layout_transpose(s->layouts, layout_of(op->operands[0]), order));
        return;
    }
    case IR_BUF_GEMM: {
        IrValue *tied[2] = {result, op->operands[4]};
        unify(s, tied, 2);
        if (is_tile(op->operands[0])) assign_give(s, op->operands[0], assign_factor_in_registers(s, op));
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
        require(s, op, 0, assign_factor_in_registers(s, op));
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
    int64_t elements = is_tile(tile) ? assign_tile_elements(tile) : 0;
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
    if (!cooperates && assign_shared_axis(s, s->windows.rank, s->windows.rank - 1) >= 0)
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
    if (!whole || aff_known_divisor(facts, begin, SLIDES) % SLIDES) require(s, op, 0, assign_blocked(s, op->operands[0], 1));
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
    ir_walk(f->body, assign_consider_op, &s);
    s.warps = ir_func_int(f, IR_FN_NUM_WARPS, 0);
    if (!s.warps) s.warps = choose_warps(&s);
    ir_func_set_int(f, IR_FN_NUM_WARPS, s.warps);
    ir_walk(f->body, assign_seed_gemm, &s);
    if (s.paired && !s.crowded) ir_func_set_int(f, IR_FN_MIN_BLOCKS, 2);
    for (;;) {
        settle(&s);
        s.largest = NULL;
        ir_walk(f->body, assign_consider_op, &s);
        if (!s.largest) break;
        const Layout *layout = assign_blocked(&s, s.largest, assign_slid_piece(&s));
        if (!layout) break;
        assign_give(&s, s.largest, layout);
    }
    ir_walk(f->body, check_assigned, &s);
    if (!s.failed) ir_walk(f->body, reconcile, &s);
    if (!s.failed && assign_slid_piece(&s) > 1) ir_walk(f->body, store_by_lanes, &s);
    f->state = IR_STATE_MAPPED;
    return !s.failed;
}

bool pass_assign_layouts(PassContext *ctx) {
    bool ok = true;
    for (IrFunc *f = ctx->module->first; f; f = f->next)
        if (f->level == IR_LEVEL_TILE) ok = assign_func(ctx, f) && ok;
    return ok;
}
