/* The schedule of a ring that the copy engine fills and warpgroups multiply from: one thread copies S-1
 * iterations ahead, the copies' bytes arrive on a barrier a stage, the product of an iteration is in flight
 * while the next one is issued. One block's barrier an iteration, behind which the stage that was read last
 * is free. docs/decisions/0005-tile-lowering.md says why the copies have no warps of their own.
 *
 *   full = mbar.alloc; barrier; if (0 < n) { mbar.expect(full, 0); tma.copy ... } ...
 *   if (0 < n) for (k) { mbar.wait(full, k % S, k / S % 2)
 *             %c1 = buf.gemm(%bufA, k % S, %bufB, k % S, %c)
 *             %c2 = wgmma.wait(%c1) {pending = 1}                    the product of k - 1 is done
 *             barrier; if (k+S-1 < n) { mbar.expect ...; tma.copy ... } }
 *   wgmma.wait {pending = 0}; barrier
 */
#include "stage_internal.h"
#include "plant.h"

#include <string.h>

/* ---- Whether it fits ---- */

typedef struct {
    PassContext *ctx;
    int64_t rows; /* of all gemms so far; -1: one does not fit */
} Fit;

static bool factor_fits(Fit *fit, IrOp *gemm, unsigned which) {
    const Ring ring = {.loop = stage_loop(gemm->block)};
    IrValue *factor = gemm->operands[which];
    return stage_fill(&ring, gemm->block, gemm, factor) == FILL_AHEAD && stage_fits_boxes(fit->ctx, factor->def);
}

/* Room for two stages, without which nothing is copied ahead. */
static bool has_room(const Target *target, GemmShape s) {
    return 2 * (s.m + s.n) * s.k * (int64_t)dtype_size(s.in) <= target->shared_bytes_block * 9 / 10;
}

static void check_fit(void *context, IrOp *op) {
    Fit *fit = context;
    if (op->opcode != IR_TILE_GEMM || fit->rows < 0) return;
    GemmShape shape = gemm_shape(op);
    bool fits = stage_loop(op->block) && gemm_fits_wgmma(fit->ctx->target, shape) && has_room(fit->ctx->target, shape) &&
                (!fit->rows || fit->rows == shape.m) && factor_fits(fit, op, 0) && factor_fits(fit, op, 1);
    for (const IrOp *o = op->block->first; o && fits; o = o->next) fits = o == op || o->opcode != IR_TILE_GEMM;
    fit->rows = fits ? shape.m : -1;
}

int64_t stage_wants_boxes(PassContext *ctx, IrFunc *f) {
    Fit fit = {.ctx = ctx};
    if (ir_func_attr_int(f, "vector_bytes", 0) < 16 || ir_func_attr_int(f, "pointer_align", 0) < 16) return 0;
    ir_walk(f->body, check_fit, &fit);
    return fit.rows > 0 ? fit.rows : 0;
}

/* Coordinates of the copy engine have 32 bits, signed; a tile may begin below the extent and reach beyond it. */
enum { REACH = 1 << 18 };

static void limit_extents(void *context, IrOp *op) {
    PassContext *ctx = context;
    IrFunc *f = op->block->func;
    AffCtx *c = ctx->module->affs;
    const Aff *limit = aff_const(c, ((int64_t)1 << 31) - REACH);
    for (unsigned i = 0; i < 2 && op->opcode == IR_TILE_GEMM; i++) {
        const IrType *tensor = op->operands[i]->def->operands[0]->type;
        for (unsigned a = 0; a < tensor->rank; a++) {
            const Aff *room = aff_sub(c, limit, tensor->extents[a]);
            if (aff_prove_nonneg(ir_facts_at(ctx->scratch, op), aff_sub(c, room, aff_const(c, 1)))) continue;
            f->guard = f->guard ? aff_min(c, f->guard, room) : room;
        }
    }
}

void stage_boxes_guard(PassContext *ctx, IrFunc *f) { ir_walk(f->body, limit_extents, ctx); }

/* ---- The schedule ---- */

static void barrier(IrBuilder *b) {
    ir_attr_set_str(ir_op_create(b, IR_BARRIER, 0, NULL, 0, NULL), "scope", "block");
}

static IrValue *wait_product(IrBuilder *b, IrValue *product, int64_t pending) {
    IrOp *op = ir_op_create(b, IR_WGMMA_WAIT, 1, &product, 1, &product->type);
    ir_attr_set_int(op, "pending", pending);
    ir_result(op, 0)->name = product->name;
    return ir_result(op, 0);
}

static int64_t stage_bytes(const Ring *ring) {
    int64_t bytes = 0;
    for (size_t i = 0; i < ring->count; i++)
        bytes += ring->operands[i].rows * ring->operands[i].columns * (int64_t)dtype_size(ring->operands[i].value->type->dtype);
    return bytes;
}

/* The copies of an iteration, if there is one. */
static void emit_copies(Staging *s, IrBuilder *b, const Ring *ring, StageFetch fetch, IrValue *stage) {
    IrOp *branch = ir_op_create(b, IR_IF, 1, &fetch.exists, 0, NULL);
    IrBuilder inner = ir_builder_at_end(branch->regions[0]);
    inner.span = b->span;
    IrValue *operands[2] = {ring->full, stage};
    ir_attr_set_int(ir_op_create(&inner, IR_MBAR_EXPECT, 2, operands, 0, NULL), "bytes", stage_bytes(ring));
    for (size_t i = 0; i < ring->count; i++) stage_copy(s, &inner, ring, &ring->operands[i], fetch, stage);
    ir_yield(&inner, 0, NULL);
}

/* The iteration `number` steps behind `from`. */
static StageFetch fetch_behind(IrBuilder *b, const Ring *ring, IrValue *from, int64_t number) {
    IrValue *way = ir_binary(b, IR_MUL, ring->step, ir_const_index(b, number));
    StageFetch fetch = {.iteration = ir_binary(b, IR_ADD, from, way)};
    fetch.exists = ir_binary(b, IR_LT, fetch.iteration, ring->upper);
    return fetch;
}

/* The first stages of all turns together; no iteration, no stage. */
static void fill_turns(Staging *s, IrBuilder *b, Ring *ring) {
    IrValue *runs = ir_binary(b, IR_LT, ring->lower, ring->upper);
    IrBuilder inner = ir_builder_at_end(ir_op_create(b, IR_IF, 1, &runs, 0, NULL)->regions[0]);
    inner.span = b->span;
    for (int64_t n = 0; n + 1 < ring->stages; n++)
        emit_copies(s, &inner, ring, stage_turns_first(&inner, ring, n), ir_const_index(&inner, n));
    ir_yield(&inner, 0, NULL);
    stage_turns_prepare(s, ring, b);
}

void stage_boxes_prologue(Staging *s, IrBuilder *b, Ring *ring) {
    const Aff *one = aff_const(s->module->affs, 1);
    const IrType *type = ir_type_buf(s->module, DTYPE_U64, 1, &one, (unsigned)ring->stages, IR_SPACE_SHARED, NULL);
    IrOp *alloc = ir_op_create(b, IR_MBAR_ALLOC, 0, NULL, 1, &type);
    ir_attr_set_int(alloc, "arrivals", 1);
    ring->full = ir_result(alloc, 0);
    ring->full->name = "full";
    barrier(b);
    if (ring->turns.loop) fill_turns(s, b, ring);
    for (int64_t n = 0; n + 1 < ring->stages && !ring->turns.loop; n++)
        emit_copies(s, b, ring, fetch_behind(b, ring, ring->lower, n), ir_const_index(b, n));
}

/* Whether the product only goes on into the next iteration's. */
static bool is_carried_on(const Ring *ring, const IrOp *gemm) {
    const IrUse *use = gemm->results[0].uses;
    const IrBlock *body = ring->loop->regions[0];
    if (!use || use->next || use->op != body->last) return false;
    const IrValue *arg = body->args[1 + use->index];
    return gemm->operands[4] == arg && arg->uses && !arg->uses->next;
}

/* The product of the last iteration is in flight behind the loop: it is waited for there, on the way out of a loop
 * that ran, before anything else. (ptxas serialises wgmma when what follows the loop stands in front of the
 * wait, and nvcc puts it there unless the wait has a block of its own.) */
static void carry_on(Ring *ring, const IrOp *gemm) {
    IrOp *loop = ring->loop;
    unsigned carried = gemm->results[0].uses->index;
    const IrType **types = ARENA_ARRAY(loop->block->func->module->arena, const IrType *, loop->result_count);
    IrValue **left = ARENA_ARRAY(loop->block->func->module->arena, IrValue *, loop->result_count);
    for (unsigned i = 0; i < loop->result_count; i++) types[i] = loop->results[i].type;
    IrBuilder before = ir_builder_before(loop);
    IrValue *runs = ir_binary(&before, IR_LT, ring->lower, ring->upper);
    IrOp *branch = ring->behind = ir_op_create(&before, IR_IF, 1, &runs, loop->result_count, types);
    for (unsigned i = 0; i < loop->result_count; i++) {
        ir_replace_uses(&loop->results[i], ir_result(branch, i));
        ir_result(branch, i)->name = loop->results[i].name;
        left[i] = &loop->results[i];
    }
    ir_op_move_to_end(loop, branch->regions[0]);
    IrBuilder ran = ir_builder_at_end(branch->regions[0]), otherwise = ir_builder_at_end(branch->regions[1]);
    left[carried] = wait_product(&ran, left[carried], 0);
    ir_yield(&ran, loop->result_count, left);
    ir_yield(&otherwise, loop->result_count, loop->operands + 3);
}

void stage_boxes_iteration(Staging *s, Ring *ring, IrOp *const *gemms, size_t count) {
    IrValue *i = ring->loop->regions[0]->args[0];
    /* A remainder loop's registers meet those in flight: ptxas would wait for each instruction. */
    ir_attr_set_int(ring->loop, "unroll", 1);
    IrBuilder before = ir_builder_before(ring->loop->regions[0]->first);
    IrValue *round = ir_binary(&before, IR_FLOORDIV, stage_number(&before, ring, i), ir_const_index(&before, ring->stages));
    IrValue *operands[3] = {ring->full, stage_of(&before, ring, i, 0), ir_binary(&before, IR_MOD, round, ir_const_index(&before, 2))};
    ir_op_create(&before, IR_MBAR_WAIT, 3, operands, 0, NULL);
    bool carried = count == 1 && is_carried_on(ring, gemms[0]);
    if (carried) carry_on(ring, gemms[0]);
    for (size_t g = 0; g < count; g++) {
        IrValue *product = &gemms[g]->results[0];
        IrBuilder after = ir_builder_after(gemms[g]);
        IrValue *done = wait_product(&after, product, carried ? 1 : 0);
        ir_replace_uses(product, done);
        ir_set_operand(done->def, 0, product);
    }
    IrBuilder behind = ir_builder_after(gemms[count - 1]->results[0].uses->op);
    int64_t ahead = ring->stages - 1;
    barrier(&behind);
    StageFetch fetch = ring->turns.loop ? stage_turns_ahead(&behind, ring, i) : fetch_behind(&behind, ring, i, ahead);
    emit_copies(s, &behind, ring, fetch, stage_of(&behind, ring, i, ahead));
}

/* Where the ring is made anew, its barriers' memory must be given back first. */
void stage_boxes_epilogue(const Ring *ring) {
    if (ring->turns.loop) return; /* the kernel ends */
    IrOp *last = ring->behind ? ring->behind : ring->loop;
    IrBuilder b = ir_builder_after(last);
    IrValue *full = ring->full;
    barrier(&b);
    if (last->block->parent) ir_op_create(&b, IR_MBAR_DROP, 1, &full, 0, NULL);
}
