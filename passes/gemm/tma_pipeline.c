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
#include "analyzer.h"
#include "plant.h"
#include "stage_internal.h"

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
        ANALYZER_ASSUME(p < COUNT_OF(ring->phases));
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
