/* The schedule of a ring of stages in shared memory that the tensor memory accelerator (TMA, the copy engine) fills and warpgroups multiply
 * from. One thread issues copies S-1 iterations ahead; the copies of a stage complete on that stage's mbarrier; the product of one
 * iteration is in flight while the next one is issued. One block barrier an iteration shows that the stage that was read last is free.
 * No warps are specialised for the copies: docs/decisions/pipelining.md says why. docs/notes/017-attention-register-factors.md says
 * when a first factor needs no buffer. A factor that does not change in the loop and does not fit into registers is copied once, in front
 * of the loop.
 *
 *   full = mbar.alloc; barrier; if (0 < n) { mbar.expect(full, 0); tma.copy ... } ...
 *   if (0 < n) for (k) { mbar.wait(full, k % S, k / S % 2)
 *             %c1 = buf.gemm(%bufA, k % S, %bufB, k % S, %c)
 *             %c2 = wgmma.wait(%c1) {pending = 1}                    the product of k - 1 is done
 *             barrier; if (k+S-1 < n) { mbar.expect ...; tma.copy ... } }
 *   wgmma.wait {pending = 0}; barrier
 */
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

/* ---- The schedule ---- */

static IrValue *wait_product(IrBuilder *b, IrValue *product, int64_t pending) {
    IrOp *op = ir_op_create(b, IR_WGMMA_WAIT, 1, &product, 1, &product->type);
    ir_attr_set_int(op, "pending", pending);
    ir_result(op, 0)->name = product->name;
    return ir_result(op, 0);
}

static int64_t operand_bytes(const Operand *o) {
    return o->rows * o->columns * (int64_t)dtype_size(o->value->type->dtype);
}

static int64_t phase_bytes(const Ring *ring, unsigned phase) {
    int64_t bytes = 0;
    for (size_t i = 0; i < ring->count; i++)
        if (ring->operands[i].fill == FILL_AHEAD && ring->operands[i].late == phase) bytes += operand_bytes(&ring->operands[i]);
    return bytes;
}

/* The copies of a phase. */
static void emit_phase(Staging *s, IrBuilder *b, const Ring *ring, unsigned phase, StageFetch fetch, IrValue *stage) {
    IrValue *operands[2] = {ring->phases[phase].full, stage};
    ir_attr_set_int(ir_op_create(b, IR_MBAR_EXPECT, 2, operands, 0, NULL), "bytes", phase_bytes(ring, phase));
    for (size_t i = 0; i < ring->count; i++)
        if (ring->operands[i].fill == FILL_AHEAD && ring->operands[i].late == phase)
            stage_copy(s, b, ring, &ring->operands[i], fetch, stage);
}

static IrBuilder where_exists(IrBuilder *b, StageFetch fetch) {
    IrOp *branch = ir_op_create(b, IR_IF, 1, &fetch.exists, 0, NULL);
    IrBuilder inner = ir_builder_at_end(branch->regions[0]);
    inner.span = b->span;
    return inner;
}

/* The copies in front of the loop, of an iteration, if there is one. */
static void emit_first(Staging *s, IrBuilder *b, const Ring *ring, StageFetch fetch, int64_t number) {
    IrBuilder inner = where_exists(b, fetch);
    IrValue *stage = ir_const_index(&inner, number % ring->stages);
    for (unsigned p = 0; p < ring->phase_count; p++)
        if (number < ring->phases[p].ahead) emit_phase(s, &inner, ring, p, fetch, stage);
    ir_yield(&inner, 0, NULL);
}

/* The iteration `number` steps behind `from`. */
static StageFetch fetch_behind(IrBuilder *b, const Ring *ring, IrValue *from, int64_t number) {
    IrValue *way = ir_binary(b, IR_MUL, ring->step, ir_const_index(b, number));
    StageFetch fetch = {.iteration = ir_binary(b, IR_ADD, from, way)};
    fetch.exists = ir_binary(b, IR_LT, fetch.iteration, ring->upper);
    return fetch;
}

/* The first stages of all tiles of the block together; no iteration, no stage. */
static void fill_first_tiles(Staging *s, IrBuilder *b, Ring *ring) {
    IrValue *runs = ir_binary(b, IR_LT, ring->lower, ring->upper);
    IrBuilder inner = ir_builder_at_end(ir_op_create(b, IR_IF, 1, &runs, 0, NULL)->regions[0]);
    inner.span = b->span;
    for (int64_t n = 0; n + 1 < ring->stages; n++) emit_first(s, &inner, ring, persistent_gemm_first(&inner, ring, n), n);
    ir_yield(&inner, 0, NULL);
    persistent_gemm_prepare(s, ring, b);
}

static IrValue *make_barriers(Staging *s, IrBuilder *b, int64_t count, const char *name, int64_t arrivals) {
    const Aff *one = aff_const(s->module->affs, 1);
    const IrType *type = ir_type_buf(s->module, DTYPE_U64, 1, &one, (unsigned)count, IR_SPACE_SHARED, NULL);
    IrOp *alloc = ir_op_create(b, IR_MBAR_ALLOC, 0, NULL, 1, &type);
    ir_attr_set_int(alloc, "arrivals", arrivals);
    ir_attr_set_str(alloc, "name", name);
    ir_result(alloc, 0)->name = name;
    return ir_result(alloc, 0);
}

static int64_t once_bytes(const Ring *ring) {
    int64_t bytes = 0;
    for (size_t i = 0; i < ring->count; i++)
        if (ring->operands[i].fill == FILL_ONCE) bytes += operand_bytes(&ring->operands[i]);
    return bytes;
}

static void copy_once(Staging *s, IrBuilder *b, const Ring *ring, int64_t bytes) {
    IrValue *operands[2] = {ring->once, ir_const_index(b, 0)};
    ir_attr_set_int(ir_op_create(b, IR_MBAR_EXPECT, 2, operands, 0, NULL), "bytes", bytes);
    for (size_t i = 0; i < ring->count; i++)
        if (ring->operands[i].fill == FILL_ONCE) stage_copy_once(s, b, ring, &ring->operands[i]);
}

static void wait_once(IrBuilder *b, const Ring *ring) {
    IrValue *operands[3] = {ring->once, ir_const_index(b, 0), ir_const_index(b, 0)};
    ir_op_create(b, IR_MBAR_WAIT, 3, operands, 0, NULL);
}

void tma_pipeline_prologue(Staging *s, IrBuilder *b, Ring *ring) {
    if (!ring->phase_count) ring->phase_count = 1;
    for (unsigned p = 0; p < ring->phase_count; p++) {
        bool early = p + 1 < ring->phase_count; /* read an iteration before what is late, and free as much earlier */
        ring->phases[p] = (Phase){make_barriers(s, b, ring->stages, p ? "full_late" : "full", 1), ring->stages - 1 + early};
    }
    if (ring->given_back) ring->empty = make_barriers(s, b, ring->stages, "empty", s->warps.all);
    int64_t once = once_bytes(ring);
    if (once) ring->once = make_barriers(s, b, 1, "full_once", 1);
    build_barrier(b, IR_SCOPE_BLOCK);
    if (once) copy_once(s, b, ring, once);
    if (ring->persistent.loop) fill_first_tiles(s, b, ring);
    for (int64_t n = 0; n < ring->phases[0].ahead && !ring->persistent.loop; n++)
        emit_first(s, b, ring, fetch_behind(b, ring, ring->lower, n), n);
    if (once) wait_once(b, ring);
}

/* The first gemm of the block that adds to what this one gives; itself, when it begins with something else. */
static const IrOp *chain_begin(const IrOp *gemm) {
    const IrOp *before = gemm->operands[4]->def;
    while (before && before->opcode == IR_BUF_GEMM && before->block == gemm->block) gemm = before, before = gemm->operands[4]->def;
    return gemm;
}

static bool is_chained(const IrOp *gemm) {
    const IrUse *use = gemm->results[0].uses;
    return use && !use->next && use->op->opcode == IR_BUF_GEMM && use->index == 4 && use->op->block == gemm->block;
}

static bool rests_on_product(PointerTable *seen, const IrBlock *block, const IrValue *v) {
    const IrOp *op = v->def;
    uint32_t at;
    if (!op || op->block != block || pointer_table_get(seen, op, &at)) return false;
    pointer_table_set(seen, op, 0);
    if (op->opcode == IR_BUF_GEMM) return true;
    for (unsigned i = 0; i < op->operand_count; i++)
        if (rests_on_product(seen, block, op->operands[i])) return true;
    return false;
}

/* Whether the next iteration could write the registers of the product's first factor before that one is read: it waits for no product to make it. */
static bool has_early_factor(const IrBlock *body, const IrOp *gemm) {
    const IrValue *factor = gemm->operands[0];
    PointerTable seen = pointer_table(body->func->module->arena);
    return is_tile(factor) && factor->def && factor->def->block == body && !rests_on_product(&seen, body, factor);
}

/* Whether the product only goes on into the next iteration's. */
static bool is_carried_on(const Ring *ring, const IrOp *gemm) {
    const IrUse *use = gemm->results[0].uses;
    const IrBlock *body = ring->loop->regions[0];
    if (!use || use->next || use->op != body->last || has_early_factor(body, gemm)) return false;
    const IrValue *arg = body->args[1 + use->index];
    return chain_begin(gemm)->operands[4] == arg && arg->uses && !arg->uses->next;
}

/* Products of the last iteration are in flight behind the loop: they are waited for there, on the way out of a loop
 * that ran, before anything else. (ptxas serialises wgmma when what follows the loop stands in front of the
 * wait, and nvcc puts it there unless the wait has a block of its own.) */
static void carry_on(Ring *ring, IrOp *const *carried, size_t count) {
    IrOp *loop = ring->loop;
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
    for (size_t i = 0; i < count; i++) {
        unsigned at = carried[i]->results[0].uses->index;
        left[at] = wait_product(&ran, left[at], 0);
    }
    ir_yield(&ran, loop->result_count, left);
    ir_yield(&otherwise, loop->result_count, loop->operands + 3);
}

/* The first op of the block that uses the value, itself or within. */
static IrOp *first_user(const IrBlock *block, const IrValue *value) {
    IrOp *first = block->last;
    for (const IrUse *u = value->uses; u; u = u->next) {
        IrOp *op = u->op;
        while (op->block != block) op = op->block->parent;
        if (stage_is_before(op, first)) first = op;
    }
    return first;
}

/* The block's products issued between the gemm and `until`. */
static int64_t issued_between(const IrOp *gemm, const IrOp *until) {
    int64_t count = 0;
    for (const IrOp *op = gemm->next; op && op != until; op = op->next) count += op->opcode == IR_BUF_GEMM;
    return count;
}

/* Waits for a product in front of its first use, with those behind it in flight. */
static IrOp *wait_before_use(IrBlock *block, IrOp *gemm) {
    IrValue *product = &gemm->results[0];
    IrOp *user = first_user(block, product);
    IrBuilder b = ir_builder_before(user);
    b.span = gemm->span;
    int64_t pending = issued_between(gemm, user);
    IrValue *done = wait_product(&b, product, pending);
    if (pending) ir_attr_set_bool(done->def, "done", true);
    ir_replace_uses(product, done);
    ir_set_operand(done->def, 0, product);
    return done->def;
}

/* Waits for the products that this iteration needs: the first wait behind which no product of the iteration before is in flight. */
static IrOp *place_waits(Ring *ring, IrOp *const *gemms, size_t count) {
    IrBlock *block = ring->loop->regions[0];
    IrOp *carried[16], *last = gemms[count - 1], *first = NULL;
    size_t carried_count = 0;
    for (size_t g = 0; g < count; g++) {
        if (is_chained(gemms[g])) continue;
        if (is_carried_on(ring, gemms[g])) {
            carried[carried_count++] = gemms[g];
            continue;
        }
        IrOp *wait = wait_before_use(block, gemms[g]);
        if (!first || stage_is_before(wait, first)) first = wait;
    }
    if (carried_count) carry_on(ring, carried, carried_count);
    if (first) return first;
    IrValue *product = &last->results[0];
    IrBuilder after = ir_builder_after(last);
    IrValue *done = wait_product(&after, product, (int64_t)count);
    ir_replace_uses(product, done);
    ir_set_operand(done->def, 0, product);
    return done->def;
}

void tma_pipeline_waits(IrBlock *block, IrOp *const *gemms, size_t count) {
    for (size_t g = 0; g < count; g++)
        if (!is_chained(gemms[g])) wait_before_use(block, gemms[g]);
}

void tma_pipeline_arrived(IrBuilder *b, const Ring *ring, unsigned phase, IrValue *i) {
    IrValue *round = ir_binary(b, IR_FLOORDIV, stage_number(b, ring, i), ir_const_index(b, ring->stages));
    IrValue *operands[3] = {ring->phases[phase].full, stage_of(b, ring, i, 0), ir_binary(b, IR_MOD, round, ir_const_index(b, 2))};
    ir_op_create(b, IR_MBAR_WAIT, 3, operands, 0, NULL);
}

/* The parity of the phase before the one that the stage of the iteration `ahead` is given back in: of its round's number less 1. The first
 * round's stages are free: the phase before the first one counts as ended. */
static IrValue *given_back_in(IrBuilder *b, const Ring *ring, IrValue *i, int64_t ahead) {
    IrValue *number = ir_binary(b, IR_ADD, stage_number(b, ring, i), ir_const_index(b, ahead + ring->stages));
    return ir_binary(b, IR_MOD, ir_binary(b, IR_FLOORDIV, number, ir_const_index(b, ring->stages)), ir_const_index(b, 2));
}

/* By the copying thread. */
static void wait_given_back(IrBuilder *b, const Ring *ring, IrValue *i, int64_t ahead) {
    IrValue *operands[3] = {ring->empty, stage_of(b, ring, i, ahead), given_back_in(b, ring, i, ahead)};
    ir_attr_set_bool(ir_op_create(b, IR_MBAR_WAIT, 3, operands, 0, NULL), "one", true);
}

void tma_pipeline_refill(Staging *s, IrBuilder *b, Ring *ring, IrValue *i) {
    const Phase *last = &ring->phases[ring->phase_count - 1];
    if (!ring->empty) build_barrier(b, IR_SCOPE_BLOCK);
    StageFetch fetch = ring->persistent.loop ? persistent_gemm_ahead(b, ring, i) : fetch_behind(b, ring, i, last->ahead);
    IrValue *stage = stage_of(b, ring, i, last->ahead);
    IrBuilder inner = where_exists(b, fetch);
    if (ring->empty) wait_given_back(&inner, ring, i, ring->phases[0].ahead);
    for (const Phase *p = ring->phases; p < last; p++) { /* these are further ahead: there may be none where there is a last one */
        StageFetch further = fetch_behind(&inner, ring, i, p->ahead);
        IrBuilder more = where_exists(&inner, further);
        emit_phase(s, &more, ring, (unsigned)(p - ring->phases), further, stage_of(&more, ring, i, p->ahead));
        ir_yield(&more, 0, NULL);
    }
    emit_phase(s, &inner, ring, ring->phase_count - 1, fetch, stage);
    ir_yield(&inner, 0, NULL);
}

void tma_pipeline_give_back(IrBuilder *b, const Ring *ring, IrValue *i) {
    IrValue *operands[2] = {ring->empty, stage_of(b, ring, i, 0)};
    ir_op_create(b, IR_MBAR_ARRIVE, 2, operands, 0, NULL);
}

void tma_pipeline_iteration(Staging *s, Ring *ring, IrOp *const *gemms, size_t count) {
    IrValue *i = ring->loop->regions[0]->args[0];
    /* A remainder loop's registers meet those in flight: ptxas would wait for each instruction. */
    ir_attr_set_int(ring->loop, "unroll", 1);
    if (ring->halves) {
        pingpong_make(s, ring);
        return;
    }
    IrBuilder before = ir_builder_before(ring->loop->regions[0]->first);
    tma_pipeline_arrived(&before, ring, 0, i);
    IrBuilder behind = ir_builder_after(place_waits(ring, gemms, count));
    tma_pipeline_refill(s, &behind, ring, i);
}

/* Where the ring is made anew, its barriers' memory must be given back first. */
void tma_pipeline_epilogue(const Ring *ring) {
    if (ring->persistent.loop) return; /* the kernel ends */
    IrOp *last = ring->behind ? ring->behind : ring->loop;
    IrBuilder b = ir_builder_after(last);
    IrValue *rings[STAGE_PHASES + 2] = {ring->phases[0].full, ring->phases[1].full, ring->empty, ring->once};
    build_barrier(&b, IR_SCOPE_BLOCK);
    for (unsigned k = 0; k < STAGE_PHASES + 2; k++)
        if (last->block->parent && rings[k]) ir_op_create(&b, IR_MBAR_DROP, 1, &rings[k], 0, NULL);
}
