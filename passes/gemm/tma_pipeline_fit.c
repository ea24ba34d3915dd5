/* Whether the factors of a loop's products fit the copy engine and shared memory, for tma_pipeline. */
#include "plant.h"
#include "stage_internal.h"

#include <string.h>

enum {
    MAX_IN_BLOCK = 7,       /* products in the body of a loop: room */
    MAX_ACCUMULATORS = 168, /* of a thread, in flight */
    MAX_REGISTERS = 192,    /* with factors */
    THREADS = 256,          /* of a block that leave each its 255 registers, twice as many half of them */
    BARRIERS_BYTES = 2048   /* of shared memory, kept for mbarriers and the alignment of boxes */
};
/* Coordinates of the copy engine have 32 bits, signed; a tile may begin below the extent and reach beyond it. A tensor
 * without elements has no map: a load through one stops the kernel. */
enum { REACH = 1 << 18 };

/* ---- Whether it fits ---- */

typedef struct {
    PassContext *ctx;
    int64_t rows; /* of all gemms so far; -1: one does not fit */
} Fit;

/* Whether lane (i, j) of the value comes from lane (i, j) of a product of the block, or of what its loop carries: loaded an iteration ahead, for one. */
static bool lies_as_product(const IrBlock *block, const IrValue *v) {
    const IrOp *op = v->def;
    if (!op && v->block == block && v->index && v->type->rank == 2) return true;
    if (!op || (op->block != block && (!op->block->parent || op->block->parent->block != block))) return false;
    if (op->opcode == IR_TILE_GEMM) return op->block == block;
    if (op->opcode == IR_IF)
        return lies_as_product(block, op->regions[0]->last->operands[v->index]) &&
               lies_as_product(block, op->regions[1]->last->operands[v->index]);
    if (!ir_has_trait(op, IR_ELEMENTWISE) && op->opcode != IR_TILE_FILL) return false;
    for (unsigned i = 0; i < op->operand_count; i++)
        if (lies_as_product(block, op->operands[i])) return true;
    return false;
}

/* Whether the block could have the first factor in registers, room or not. */
static bool may_be_in_registers(const Target *target, IrOp *gemm) {
    const GemmShape shape = gemm_shape(gemm);
    IrBlock *block = gemm->block;
    IrValue *factor = gemm->operands[0];
    const Ring ring = {.loop = stage_loop(block)};
    if (!ring.loop || ir_attr_bool(gemm, "trans_a") || !gemm_has_registers(target, shape)) return false;
    return stage_fill(&ring, block, gemm, factor) == FILL_BEFORE || lies_as_product(block, factor);
}

/* Whether an earlier gemm of the block has the same factor. */
static bool is_shared(const IrOp *gemm, unsigned which) {
    IrValue *v = gemm->operands[which];
    if (which == 1 && v == gemm->operands[0]) return true;
    for (const IrOp *op = gemm->prev; op; op = op->prev)
        if (op->opcode == IR_TILE_GEMM && (op->operands[0] == v || op->operands[1] == v)) return true;
    return false;
}

/* Of a thread, for what the block's gemms add to; those that are first factors where these may be in registers. */
typedef struct {
    int64_t sums, factors, most_sums, most;
} BlockRegisters;

static BlockRegisters registers_of(const Target *target, IrBlock *block) {
    BlockRegisters r = {.most_sums = MAX_ACCUMULATORS, .most = MAX_REGISTERS};
    for (IrOp *op = block->first; op; op = op->next) {
        if (op->opcode != IR_TILE_GEMM) continue;
        GemmShape s = gemm_shape(op);
        const IrOp *before = op->operands[2]->def;
        if (!is_shared(op, 0) && may_be_in_registers(target, op)) r.factors += s.k / 4;
        if (!before || before->opcode != IR_TILE_GEMM || before->block != block) r.sums += s.n / 2;
        if (2 * s.m > THREADS) r.most_sums = MAX_ACCUMULATORS / 2, r.most = MAX_REGISTERS / 2;
    }
    return r;
}

/* A first factor that stays the same, whose registers the block does not have; the copy engine brings it in front of the loop. */
static bool is_brought_once(PassContext *ctx, IrOp *gemm) {
    const Ring ring = {.loop = stage_loop(gemm->block)};
    IrValue *factor = gemm->operands[0];
    if (!ring.loop || stage_fill(&ring, gemm->block, gemm, factor) != FILL_BEFORE) return false;
    BlockRegisters r = registers_of(ctx->target, gemm->block);
    return r.sums + r.factors > r.most && stage_can_copy(factor) && stage_fits_tma(ctx, factor->def);
}

bool stage_from_registers(PassContext *ctx, IrOp *gemm) {
    return may_be_in_registers(ctx->target, gemm) && !is_brought_once(ctx, gemm);
}

static bool factor_fits(Fit *fit, IrOp *gemm, unsigned which) {
    const Ring ring = {.loop = stage_loop(gemm->block)};
    IrValue *factor = gemm->operands[which];
    if (which == 0 && (stage_from_registers(fit->ctx, gemm) || is_brought_once(fit->ctx, gemm))) return true;
    return stage_fill(&ring, gemm->block, gemm, factor) == FILL_AHEAD && stage_fits_tma(fit->ctx, factor->def);
}

/* Whether the value's lanes lie as a product's of the kernel do, by rows that are one warp's: they do where one of those that it is made of does. */
static bool lies_by_rows(PointerTable *seen, const IrValue *v) {
    const IrOp *op = v->def;
    uint32_t at;
    if (!op || !is_tile(v) || pointer_table_get(seen, v, &at)) return false;
    pointer_table_set(seen, v, 0);
    if (op->opcode == IR_TILE_GEMM || op->opcode == IR_BUF_GEMM) return true;
    for (unsigned r = 0; r < op->region_count; r++)
        if (lies_by_rows(seen, op->regions[r]->last->operands[v->index])) return true;
    bool lane_by_lane = ir_has_trait(op, IR_ELEMENTWISE) || op->opcode == IR_TILE_FILL || op->opcode == IR_WGMMA_WAIT;
    for (unsigned i = 0; i < op->operand_count && lane_by_lane; i++)
        if (lies_by_rows(seen, op->operands[i])) return true;
    return false;
}

typedef struct {
    PassContext *ctx;
    bool none;
} Exchanges;

/* Whether the op exchanges nothing between warps, where each has rows of its own. */
static bool stays_in_rows(PassContext *ctx, const IrOp *op) {
    PointerTable seen = pointer_table(ctx->scratch);
    switch (op->opcode) {
    case IR_TILE_GEMM:
    case IR_TILE_LOAD:
    case IR_TILE_STORE:
    case IR_TILE_BROADCAST:
    case IR_TILE_FILL:
    case IR_TILE_IOTA:
        return true;
    case IR_TILE_REDUCE: {
        const IrAttr *axes = ir_attr(op, "axes");
        return axes && axes->count == 1 && axes->ints[0] + 1 == op->operands[0]->type->rank && lies_by_rows(&seen, op->operands[0]);
    }
    default:
        return strncmp(ir_op_info(op->opcode)->name, "tile.", 5) != 0;
    }
}

static void note_exchange(void *context, IrOp *op) {
    Exchanges *e = context;
    e->none = e->none && stays_in_rows(e->ctx, op);
}

/* Beside what is copied once: all but the barriers, where nothing else is in shared memory; of rings behind others, what these left. */
int64_t tma_pipeline_room(PassContext *ctx, IrFunc *f, int64_t once, int64_t taken) {
    int64_t all = ctx->target->shared_bytes_block, left = all - BARRIERS_BYTES - taken;
    Exchanges e = {.ctx = ctx, .none = once > 0};
    if (e.none) ir_walk(f->body, note_exchange, &e);
    int64_t room = e.none ? all - BARRIERS_BYTES : all * 9 / 10;
    return (room < left ? room : left) - once;
}

/* Room for two stages, without which nothing is copied ahead, beside what is copied once; registers for what the block's gemms add to. */
static bool has_room(PassContext *ctx, IrBlock *block) {
    int64_t bytes = 0, once = 0, in_memory = 0, count = 0;
    for (IrOp *op = block->first; op; op = op->next) {
        if (op->opcode != IR_TILE_GEMM) continue;
        GemmShape s = gemm_shape(op);
        bool kept = is_brought_once(ctx, op);
        if (kept && !is_shared(op, 0)) in_memory += s.k / 4, once += s.m * s.k * (int64_t)dtype_size(s.in);
        for (unsigned i = kept || stage_from_registers(ctx, op); i < 2; i++)
            if (!is_shared(op, i)) bytes += (i ? s.n : s.m) * s.k * (int64_t)dtype_size(s.in);
        count++;
    }
    BlockRegisters r = registers_of(ctx->target, block);
    return count <= MAX_IN_BLOCK && r.sums <= r.most_sums && r.sums + r.factors - in_memory <= r.most &&
           2 * bytes <= tma_pipeline_room(ctx, block->func, once, 0);
}

static void check_fit(void *context, IrOp *op) {
    Fit *fit = context;
    if (op->opcode != IR_TILE_GEMM || fit->rows < 0) return;
    GemmShape shape = gemm_shape(op);
    bool fits = stage_loop(op->block) && gemm_fits_wgmma(fit->ctx->target, shape) && has_room(fit->ctx, op->block) &&
                (!fit->rows || fit->rows == shape.m) && factor_fits(fit, op, 0) && factor_fits(fit, op, 1);
    fit->rows = fits ? shape.m : -1;
}

int64_t tma_pipeline_rows(PassContext *ctx, IrFunc *f) {
    Fit fit = {.ctx = ctx};
    if (ir_func_int(f, IR_FN_VECTOR_BYTES, 0) < 16 || ir_func_int(f, IR_FN_POINTER_ALIGN, 0) < 16) return 0;
    ir_walk(f->body, check_fit, &fit);
    return fit.rows > 0 ? fit.rows : 0;
}

static void ask_for(PassContext *ctx, IrOp *op, const Aff *positive) {
    AffCtx *c = ctx->module->affs;
    IrFunc *f = op->block->func;
    if (aff_prove_nonneg(ir_facts_at(ctx->scratch, op), aff_sub(c, positive, aff_const(c, 1)))) return;
    f->guard = f->guard ? aff_min(c, f->guard, positive) : positive;
}

/* Rows of a map are whole pieces of 16 bytes; those of a factor far smaller than what else is read need not be (align_versions.c). */
static void ask_for_pieces(PassContext *ctx, IrOp *op, const IrType *tensor) {
    AffCtx *c = ctx->module->affs;
    const Aff *row = tensor->extents[tensor->rank - 1];
    int64_t elements = 16 / (int64_t)dtype_size(tensor->dtype);
    if (aff_known_divisor(ir_facts_at(ctx->scratch, op), row, elements) % elements == 0) return;
    ask_for(ctx, op, aff_sub(c, aff_const(c, 1), aff_mod(c, row, aff_const(c, elements))));
}

static void limit_extents(void *context, IrOp *op) {
    PassContext *ctx = context;
    AffCtx *c = ctx->module->affs;
    const Aff *limit = aff_const(c, ((int64_t)1 << 31) - REACH);
    if (op->opcode != IR_TILE_GEMM) return;
    for (unsigned i = stage_from_registers(ctx, op); i < 2; i++) {
        const IrType *tensor = op->operands[i]->def->operands[0]->type;
        ask_for_pieces(ctx, op, tensor);
        for (unsigned a = 0; a < tensor->rank; a++) {
            ask_for(ctx, op, tensor->extents[a]);
            ask_for(ctx, op, aff_sub(c, limit, tensor->extents[a]));
        }
    }
}

void tma_pipeline_guard(PassContext *ctx, IrFunc *f) {
    ir_walk(f->body, limit_extents, ctx);
}
