/* Pass stage_buffers: gemm operands go through shared memory, in stages.
 *
 * what:   in a loop, each tile.load whose only use is a tile.gemm of that loop becomes asynchronous
 *         copies into a buffer of S stages, S-1 iterations ahead; an operand that does not change in the
 *         loop is stored once in front of it, any other one at the gemm. tile.gemm becomes buf.gemm.
 * needs:  static extents, target cuda, gemms prepared.
 * keeps:  values; the order of k.
 * breaks: nothing; the function becomes `mapped`.
 *         Where all gemms of a kernel fit a warpgroup's instruction and the copy engine can bring their
 *         factors, tma_pipeline.c makes the schedule.
 * source: multistage cp.async pipelines as in CUTLASS and Triton: wait, barrier, issue the copy that
 *         is S-1 ahead into the stage that was consumed last, compute. One barrier an iteration.
 *
 *   for (k) { %a = tile.load(...); %b = tile.load(...); %c1 = tile.gemm(%a, %b, %c) ... }
 * becomes
 *   if (0 < n) { buf.copy(A, %bufA, 0, ...) ... }; async.commit; ...
 *   for (k) { async.wait(S-2); barrier; if (k+S-1 < n) { buf.copy ... }; async.commit
 *             %c1 = buf.gemm(%bufA, k % S, %bufB, k % S, %c) ... }
 *   async.wait(0); barrier
 */
#include "plant.h"
#include "stage_internal.h"

enum {
    MAX_STAGES = 8,  /* of a ring */
    ROW_PADDING = 16 /* elements, at most */
};
enum {
    MAX_GEMMS = 8 /* of a block: room */
};

static void wait(IrBuilder *b, int64_t pending) {
    ir_attr_set_int(ir_op_create(b, IR_ASYNC_WAIT, 0, NULL, 0, NULL), "pending", pending);
}

/* ---- The schedule of a ring ---- */

static void emit_copies(Staging *s, IrBuilder *b, const Ring *ring, IrValue *iteration, IrValue *stage) {
    for (size_t i = 0; i < ring->count; i++)
        if (ring->operands[i].fill == FILL_AHEAD) stage_copy(s, b, ring, &ring->operands[i], (StageFetch){.iteration = iteration}, stage);
}

/* Copies for `iteration` if there is one, then the group's commit. */
static void emit_group(Staging *s, IrBuilder *b, const Ring *ring, IrValue *iteration, IrValue *stage) {
    IrValue *exists = ir_binary(b, IR_LT, iteration, ring->upper);
    IrOp *branch = ir_op_create(b, IR_IF, 1, &exists, 0, NULL);
    IrBuilder inner = ir_builder_at_end(branch->regions[0]);
    emit_copies(s, &inner, ring, iteration, stage);
    ir_yield(&inner, 0, NULL);
    ir_op_create(b, IR_ASYNC_COMMIT, 0, NULL, 0, NULL);
}

IrValue *stage_number(IrBuilder *b, const Ring *ring, IrValue *i) {
    IrValue *number = ir_binary(b, IR_FLOORDIV, ir_binary(b, IR_SUB, i, ring->lower), ring->step);
    return ring->persistent.loop ? ir_binary(b, IR_ADD, ring->persistent.base, number) : number;
}

IrValue *stage_of(IrBuilder *b, const Ring *ring, IrValue *i, int64_t ahead) {
    if (!ring->loop || ring->stages == 1) return ir_const_index(b, 0);
    IrValue *number = stage_number(b, ring, i);
    if (PLANTED(7)) ahead++;
    if (ahead) number = ir_binary(b, IR_ADD, number, ir_const_index(b, ahead));
    return ir_binary(b, IR_MOD, number, ir_const_index(b, ring->stages));
}

static void emit_prologue(Staging *s, IrBuilder *b, const Ring *ring) {
    for (int64_t n = 0; n + 1 < ring->stages; n++) {
        IrValue *ahead = ir_binary(b, IR_MUL, ring->step, ir_const_index(b, n));
        emit_group(s, b, ring, ir_binary(b, IR_ADD, ring->lower, ahead), ir_const_index(b, n));
    }
}

static void emit_steady(Staging *s, IrBuilder *b, const Ring *ring, IrValue *i) {
    if (ring->stages == 1) {
        build_barrier(b, IR_SCOPE_BLOCK); /* the stage was read by the iteration before */
        emit_copies(s, b, ring, i, ir_const_index(b, 0));
        ir_op_create(b, IR_ASYNC_COMMIT, 0, NULL, 0, NULL);
        wait(b, 0);
        build_barrier(b, IR_SCOPE_BLOCK);
        return;
    }
    int64_t ahead = ring->stages - 1;
    wait(b, ahead - 1);
    build_barrier(b, IR_SCOPE_BLOCK);
    IrValue *next = ir_binary(b, IR_ADD, i, ir_binary(b, IR_MUL, ring->step, ir_const_index(b, ahead)));
    emit_group(s, b, ring, next, stage_of(b, ring, i, ahead));
}

/* ---- One block's gemms ---- */

int64_t stage_count_wanted(const IrOp *loop) {
    if (!loop) return 1;
    int64_t stages = ir_attr_int(loop, "pipeline", 0);
    return stages > 1 ? (stages > MAX_STAGES ? MAX_STAGES : stages) : 2;
}

static int64_t operand_bytes(const Operand *o, int64_t padding) {
    return o->matrices * (o->rows * (o->columns + padding)) * (int64_t)dtype_size(o->value->type->dtype);
}

static GemmPlan plan_of(Staging *s, const IrOp *gemm) {
    return gemm_plan(s->ctx->target, gemm_shape(gemm), &s->warps);
}

static Operand operand_of(PassContext *ctx, const Ring *ring, IrBlock *block, const IrOp *first, IrOp *gemm, const GemmPlan *p,
                          unsigned which) {
    Operand o = {.value = gemm->operands[which], .trans = ir_attr_bool(gemm, which ? "trans_b" : "trans_a")};
    o.across = o.trans ^ (which == 1);
    int64_t rows = which ? p->pad_k : p->pad_m, columns = which ? p->pad_n : p->pad_k;
    o.rows = o.trans ? columns : rows;
    o.columns = o.trans ? rows : columns;
    o.matrices = stage_matrices(o.value->type);
    bool groups = which == 0 && gemm_plan_is_wgmma(p), registers = groups && stage_from_registers(ctx, gemm);
    o.fill = registers ? FILL_NEVER : stage_fill(ring, block, first, o.value);
    if (groups && o.fill == FILL_BEFORE) o.fill = FILL_ONCE;
    return o;
}

/* Lanes that are absent in the operands are so in the result: as operands of buf.gemm from number `count`
 * on, a pair for each of the axes. How many. */
static unsigned add_bounds(Staging *s, IrBuilder *b, IrOp *gemm, IrValue **operands, unsigned count, int64_t *axes) {
    unsigned rank = gemm->results[0].type->rank;
    Presence p = presence_of_product(s->ctx, gemm);
    for (unsigned i = 0; i < rank; i++) {
        if (!p.axes[i].hi) continue;
        *axes++ = i;
        operands[count++] = ir_aff_emit(b, p.axes[i].lo);
        operands[count++] = ir_aff_emit(b, p.axes[i].hi);
    }
    return count;
}

static void store_operand(IrBuilder *b, const Operand *o) {
    IrValue *operands[3] = {o->value, o->buf, ir_const_index(b, 0)};
    ir_op_create(b, IR_BUF_STORE, 3, operands, 0, NULL);
}

static void store_operands(IrBuilder *b, const Operand *operands, size_t count, Fill fill) {
    bool any = false;
    for (size_t i = 0; i < count; i++) any = any || operands[i].fill == fill;
    if (!any) return;
    build_barrier(b, IR_SCOPE_BLOCK);
    for (size_t i = 0; i < count; i++)
        if (operands[i].fill == fill) store_operand(b, &operands[i]);
    build_barrier(b, IR_SCOPE_BLOCK);
}

/* By how many matrices a step along each leading axis of the product moves in the factor. */
static void set_leading(IrOp *op, const char *key, const IrType *factor) {
    unsigned lead = op->results[0].type->rank - 2, own = factor->rank - 2;
    int64_t moves[STAGE_MAX_RANK] = {0}, weight = 1;
    for (unsigned i = 0; i < own; i++) {
        int64_t extent = ir_type_extent(factor, own - 1 - i);
        moves[lead - 1 - i] = extent == 1 ? 0 : weight;
        weight *= extent;
    }
    if (lead) ir_attr_set_ints(op, key, lead, moves);
}

/* Replaces a gemm; its operands are o[0] and o[1]. */
static IrOp *replace_gemm(Staging *s, IrOp *gemm, const Operand *o, IrValue *stage) {
    IrBuilder b = ir_builder_before(gemm);
    b.span = gemm->span;
    GemmPlan plan = plan_of(s, gemm);
    IrValue *operands[5 + 2 * STAGE_MAX_RANK] = {NULL, NULL, NULL, NULL, gemm->operands[2]};
    int64_t axes[STAGE_MAX_RANK];
    for (unsigned i = 0; i < 2; i++) {
        operands[2 * i] = o[i].buf;
        operands[2 * i + 1] =
            (o[i].twin ? o[i].twin : &o[i])->fill == FILL_AHEAD ? stage_first_matrix(&b, &o[i], stage) : ir_const_index(&b, 0);
    }
    store_operands(&b, o, 2, FILL_INSIDE);
    unsigned count = add_bounds(s, &b, gemm, operands, 5, axes);
    IrOp *op = ir_op_create(&b, IR_BUF_GEMM, count, operands, 1, &gemm->results[0].type);
    if (count > 5) ir_attr_set_ints(op, "bounds", (count - 5) / 2, axes);
    ir_attr_set_bool(op, "trans_a", o[0].trans);
    ir_attr_set_bool(op, "trans_b", o[1].trans);
    set_leading(op, "lead_a", o[0].value->type);
    set_leading(op, "lead_b", o[1].value->type);
    gemm_plan_set(op, &plan);
    ir_result(op, 0)->name = gemm->results[0].name;
    ir_replace_uses(&gemm->results[0], ir_result(op, 0));
    ir_op_erase(gemm);
    return op;
}

IrOp *stage_loop(IrBlock *block) {
    return block->parent && block->parent->opcode == IR_FOR ? block->parent : NULL;
}

/* The gemms of a block in order; SIZE_MAX after an error. */
static size_t collect_gemms(Staging *s, IrBlock *block, IrOp **gemms) {
    size_t count = 0;
    for (IrOp *op = block->first; op; op = op->next) {
        if (op->opcode != IR_TILE_GEMM) continue;
        if (count == MAX_GEMMS) {
            diag_report(s->ctx->diags, DIAG_not_lowered, op->span, "more than 8 gemms in one block");
            s->failed = true;
            return SIZE_MAX;
        }
        gemms[count++] = op;
    }
    return count;
}

/* A factor that an earlier gemm of the block has in the same form is there already. */
static void share_operand(const Ring *ring, Operand *o) {
    for (const Operand *p = ring->operands; p < o; p++) {
        bool same = p->value == o->value && p->rows == o->rows && p->columns == o->columns;
        if (!same || p->fill == FILL_DONE || p->fill == FILL_NEVER) continue;
        o->fill = FILL_DONE;
        o->twin = p;
        return;
    }
}

static bool has_fill(const Ring *ring, Fill fill) {
    for (size_t i = 0; i < ring->count; i++)
        if (ring->operands[i].fill == fill) return true;
    return false;
}

/* A pipeline of fewer stages than asked for. */
static void report_depth(Staging *s, const Ring *ring, int64_t stage_bytes) {
    int64_t asked = ring->loop ? ir_attr_int(ring->loop, "pipeline", 0) : 0;
    if (!asked || (stage_bytes && ring->stages >= asked)) return;
    const char *reason = "no operand of a gemm can be loaded ahead in this loop";
    if (stage_bytes && ring->stages == MAX_STAGES)
        reason = arena_printf(s->ctx->diags->arena, "%d stages are used, the most there are", MAX_STAGES);
    else if (stage_bytes)
        reason = arena_printf(s->ctx->diags->arena, "%lld stages of %lld bytes are what shared memory has room for",
                              (long long)ring->stages, (long long)stage_bytes);
    report_hint(s->ctx, ring->loop->span, "pipeline", reason);
}

static IrValue *zeros_along_k(IrValue *v, IrBuilder b) {
    IrOp *fill = ir_op_create(&b, IR_TILE_FILL, 1, &v, 1, &v->type);
    ir_attr_set_float(fill, "value", 0);
    ir_attr_set_int(fill, "axis", 1);
    ir_result(fill, 0)->name = v->name;
    return ir_result(fill, 0);
}

/* A factor that stays in registers: zeros where it is absent along K, as the other one has them; in front of a conversion for it alone. */
static IrValue *present_along_k(Staging *s, IrValue *factor) {
    if (!presence_of(s->ctx, factor).axes[1].hi) return factor;
    IrOp *cast = factor->def && factor->def->opcode == IR_CAST && !factor->uses->next ? factor->def : NULL;
    if (cast && dtype_is_float(cast->operands[0]->type->dtype) && dtype_is_float(factor->type->dtype)) {
        ir_set_operand(cast, 0, zeros_along_k(cast->operands[0], ir_builder_before(cast)));
        return factor;
    }
    return zeros_along_k(factor, factor->def ? ir_builder_after(factor->def) : ir_builder_before(factor->block->first));
}

static void plan_halves(Staging *s, Ring *ring, IrOp *const *gemms, size_t count, int64_t room, int64_t blocks) {
    pingpong_phases(s, ring, gemms, count);
    int64_t stages = pingpong_stages(ring, ring->stages, room);
    if (!stages) return;
    ring->halves = true;
    ring->given_back = pingpong_give_back(s);
    ring->stages = stages;
    if (blocks > 1) ir_func_set_int(gemms[0]->block->func, IR_FN_MIN_BLOCKS, blocks);
}

static void plan_ring(Staging *s, Ring *ring, IrBlock *block, IrOp *const *gemms, size_t count) {
    int64_t ahead = 0, once = 0;
    for (size_t g = 0; g < count; g++) {
        GemmPlan plan = plan_of(s, gemms[g]);
        for (unsigned i = 0; i < 2; i++) {
            Operand *o = &ring->operands[ring->count++];
            *o = operand_of(s->ctx, ring, block, gemms[0], gemms[g], &plan, i);
            if (o->fill == FILL_NEVER)
                o->buf = present_along_k(s, o->value);
            else
                share_operand(ring, o);
            if (o->fill == FILL_DONE || o->fill == FILL_NEVER) continue;
            *(o->fill == FILL_AHEAD ? &ahead : &once) += operand_bytes(o, s->warps.wgmma ? 0 : ROW_PADDING);
        }
    }
    const Target *target = s->ctx->target;
    int64_t bytes = s->warps.wgmma ? tma_pipeline_room(s->ctx, block->func, once, s->taken) : target->shared_bytes_block * 9 / 10 - once;
    int64_t room = bytes / (ahead ? ahead : 1), least = s->warps.wgmma ? 2 : 1;
    ring->stages = stage_count_wanted(ring->loop);
    int64_t blocks = s->warps.wgmma ? pingpong_fit(s, ring, gemms, count, ahead) : 0;
    if (blocks) plan_halves(s, ring, gemms, count, room, blocks);
    if (ring->stages > room) ring->stages = room > least ? room : least;
    if (s->warps.wgmma) s->taken += once + ring->stages * ahead;
    report_depth(s, ring, ahead);
}

static void alloc_ring(Staging *s, IrBuilder *b, Ring *ring, IrOp *const *gemms) {
    for (size_t k = 0; k < ring->count; k++) {
        GemmPlan plan = plan_of(s, gemms[k / 2]);
        Operand *o = &ring->operands[k];
        if (o->fill == FILL_NEVER) continue;
        if (o->twin)
            o->buf = o->twin->buf;
        else if (s->warps.wgmma)
            stage_alloc_tma(s, b, o, o->fill == FILL_ONCE ? 1 : ring->stages);
        else
            stage_alloc(s, b, o, o->fill == FILL_AHEAD ? ring->stages : 1, gemm_plan_is_mma(&plan));
    }
}

/* Factors of one load in different forms are copies of their own. */
static void erase_load(const Ring *ring, size_t k) {
    for (size_t i = k + 1; i < ring->count; i++)
        if (ring->operands[i].fill == FILL_AHEAD && ring->operands[i].value == ring->operands[k].value) return;
    ir_op_erase(ring->operands[k].value->def);
}

static void erase_once(const Ring *ring) {
    for (size_t k = 0; k < ring->count; k++) {
        IrOp *load = ring->operands[k].fill == FILL_ONCE ? ring->operands[k].value->def : NULL;
        bool again = false;
        for (size_t i = k + 1; load && i < ring->count; i++)
            again = again || (ring->operands[i].fill == FILL_ONCE && ring->operands[i].value == ring->operands[k].value);
        if (load && !again && !load->results[0].uses) ir_op_erase(load);
    }
}

static void stage_block(Staging *s, IrBlock *block) {
    IrOp *gemms[MAX_GEMMS];
    size_t count = collect_gemms(s, block, gemms);
    if (!count || count == SIZE_MAX) return;
    Ring ring = {.loop = stage_loop(block), .persistent = s->persistent};
    if (ring.loop) ring.lower = ring.loop->operands[0], ring.upper = ring.loop->operands[1], ring.step = ring.loop->operands[2];
    plan_ring(s, &ring, block, gemms, count);
    IrBuilder outside = ir_builder_before(ring.persistent.loop ? ring.persistent.loop : ring.loop ? ring.loop : block->first);
    alloc_ring(s, &outside, &ring, gemms);
    IrBuilder inside = ir_builder_before(ring.loop ? block->first : gemms[0]);
    IrValue *i = ring.loop ? block->args[0] : NULL;
    bool ahead = has_fill(&ring, FILL_AHEAD);
    bool boxes = s->warps.wgmma;
    if (boxes)
        tma_pipeline_prologue(s, &outside, &ring);
    else if (ahead && ring.loop && ring.stages > 1)
        emit_prologue(s, &outside, &ring);
    if (ring.loop) store_operands(&outside, ring.operands, ring.count, FILL_BEFORE);
    if (ahead && !boxes) emit_steady(s, &inside, &ring, i);
    for (size_t g = 0; g < count; g++) {
        IrBuilder at = ir_builder_before(gemms[g]);
        const IrValue *product = &gemms[g]->results[0];
        gemms[g] = replace_gemm(s, gemms[g], &ring.operands[2 * g], stage_of(&at, &ring, i, 0));
        for (size_t k = 0; k < ring.count; k++) /* a factor of the next one */
            if (ring.operands[k].value == product) ring.operands[k].value = ir_result(gemms[g], 0);
    }
    if (boxes) tma_pipeline_iteration(s, &ring, gemms, count);
    for (size_t k = 0; k < ring.count && !ring.halves; k++)
        if (ring.operands[k].fill == FILL_AHEAD) erase_load(&ring, k);
    erase_once(&ring);
    if (!ring.loop) return;
    IrBuilder after = ir_builder_after(ring.loop);
    if (boxes) tma_pipeline_epilogue(&ring);
    if (ahead && !boxes) wait(&after, 0);
    if (!boxes) build_barrier(&after, IR_SCOPE_BLOCK);
}

static void stage_nested(Staging *s, IrBlock *block) {
    for (IrOp *op = block->first, *next; op && !s->failed; op = next) {
        next = op->next;
        for (unsigned r = 0; r < op->region_count; r++) stage_nested(s, op->regions[r]);
    }
    stage_block(s, block);
}

/* The hint "persistent" where no version of the kernel followed it. */
static void report_persistent(PassContext *ctx, const IrFunc *f) {
    for (const IrFunc *g = ctx->module->first; g; g = g->next)
        if (ir_func_has(g, IR_FN_PERSISTENT_TILES) && is_same_kernel(f, g)) return;
    for (const IrOp *op = f->body->first; op; op = op->next)
        if (op->opcode == IR_SPECIAL && ir_attr_bool(op, "persistent"))
            report_hint(ctx, op->span, "persistent", "only gemms whose factors the copy engine brings go on from tile to tile");
}

bool pass_stage_buffers(PassContext *ctx) {
    bool ok = true;
    for (IrFunc *f = ctx->module->first; f; f = f->next) {
        if (f->level != IR_LEVEL_TILE) continue;
        f->state = IR_STATE_MAPPED;
        Staging s = {.ctx = ctx, .module = ctx->module, .warps = gemm_warps(ctx, f)};
        stage_lift_views(f);
        int64_t rows = tma_pipeline_rows(ctx, f);
        if (rows) {
            s.warps = gemm_warps_wgmma(rows);
            tma_pipeline_guard(ctx, f);
            if (persistent_gemm_make(ctx, f, &s.persistent)) ir_func_set_int(f, IR_FN_PERSISTENT_TILES, 1);
            stage_lift_views(f); /* out of the loop over tiles, too, which took all there was */
        }
        if (!s.warps.all) continue;
        ir_func_set_int(f, IR_FN_NUM_WARPS, s.warps.all);
        stage_nested(&s, f->body);
        ok = ok && !s.failed;
    }
    for (IrFunc *f = ctx->module->first; f; f = f->next) report_persistent(ctx, f);
    return ok;
}
