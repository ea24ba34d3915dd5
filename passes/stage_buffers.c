/* Pass stage_buffers: gemm operands go through shared memory, in stages.
 *
 * what:   in a loop, each tile.load whose only use is a tile.gemm of that loop becomes asynchronous
 *         copies into a buffer of S stages, S-1 iterations ahead; other operands are stored to a buffer
 *         of one stage. tile.gemm becomes buf.gemm.
 * needs:  static extents, target cuda.
 * keeps:  values; the order of k.
 * breaks: nothing; the function becomes `mapped`.
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
#include "gemm_plan.h"
#include "passes.h"
#include "presence.h"

typedef struct {
    PassContext *ctx;
    IrModule *module;
    int64_t warps;
    bool failed;
} Staging;

/* One operand of a gemm, as a matrix in shared memory. */
typedef struct {
    IrOp *load;        /* staged by copies; null: stored from registers */
    IrValue *buf;
    int64_t rows, columns; /* padded */
} Operand;

typedef struct {
    IrOp *loop; /* null: the gemm is in no loop */
    int64_t stages;
    IrValue *lower, *upper, *step;
    size_t count;
    Operand operands[16];
} Ring;

/* A load is done earlier than it stands: nobody may write its tensor. */
static bool is_stored_to(const IrValue *tensor) {
    for (const IrUse *u = tensor->uses; u; u = u->next)
        if (u->op->opcode == IR_TILE_STORE && u->index == 1) return true;
    return false;
}

static bool is_staged_load(const IrValue *value, const IrBlock *block) {
    return value->def && value->def->opcode == IR_TILE_LOAD && value->def->block == block && value->uses &&
           !value->uses->next && !ir_attr(value->def, "pad") && !is_stored_to(value->def->operands[0]);
}

static bool is_before(const IrOp *a, const IrOp *b) {
    for (const IrOp *op = b->prev; op; op = op->prev)
        if (op == a) return true;
    return false;
}

/* ---- Buffers ---- */

static IrValue *alloc_buffer(Staging *s, IrBuilder *b, Dtype dtype, const Operand *o, int64_t stages, bool mma,
                             const char *name) {
    AffCtx *c = s->module->affs;
    int64_t size = (int64_t)dtype_size(dtype), row_bytes = o->columns * size;
    const Aff *extents[2] = {aff_const(c, o->rows), aff_const(c, o->columns)};
    const IrType *type = ir_type_buf(s->module, dtype, 2, extents, (unsigned)stages, IR_SPACE_SHARED, NULL);
    IrOp *op = ir_op_create(b, IR_BUF_ALLOC, 0, NULL, 1, &type);
    int64_t vec = 16 / size, pitch = o->columns, chunks = row_bytes / 16;
    if (mma && chunks > 1 && (chunks & (chunks - 1)) == 0) {
        /* 16-byte chunks of a row are permuted by row, so that eight rows at one column, which is
         * what ldmatrix reads, lie in different banks. */
        int64_t per_phase = row_bytes < 128 ? 128 / row_bytes : 1, most = 8 / per_phase;
        int64_t swizzle[3] = {vec, per_phase, chunks < most ? chunks : most};
        ir_attr_set_ints(op, "swizzle", 3, swizzle);
    } else {
        pitch += vec; /* rows start 16 bytes apart modulo the banks */
    }
    ir_attr_set_int(op, "pitch", pitch);
    if (name) ir_attr_set_str(op, "name", name);
    return ir_result(op, 0);
}

static void barrier(IrBuilder *b) {
    ir_attr_set_str(ir_op_create(b, IR_BARRIER, 0, NULL, 0, NULL), "scope", "block");
}

static void wait(IrBuilder *b, int64_t pending) {
    ir_attr_set_int(ir_op_create(b, IR_ASYNC_WAIT, 0, NULL, 0, NULL), "pending", pending);
}

/* ---- Copies ---- */

/* `value`, computed in the loop body from the loop variable, again at `b` for another iteration. */
static IrValue *recompute(IrBuilder *b, IrValueMap *map, const IrBlock *body, IrValue *value) {
    IrValue *known = ir_value_map_get(map, value);
    if (known != value || !value->def || value->def->block != body) return known;
    for (unsigned i = 0; i < value->def->operand_count; i++) recompute(b, map, body, value->def->operands[i]);
    ir_op_clone(b, value->def, map);
    return ir_value_map_get(map, value);
}

static bool is_recomputable(const IrBlock *body, IrValue *value) {
    if (!value->def || value->def->block != body) {
        /* Of the loop's arguments only the variable itself is known ahead. */
        return value->block != body || value->index == 0;
    }
    if (!ir_has_trait(value->def, IR_PURE)) return false;
    for (unsigned i = 0; i < value->def->operand_count; i++)
        if (!is_recomputable(body, value->def->operands[i])) return false;
    return true;
}

static void emit_copy(Staging *s, IrBuilder *b, const Ring *ring, const Operand *o, IrValue *iteration, IrValue *stage) {
    IrOp *load = o->load;
    IrValueMap *map = ir_value_map_create(s->ctx->scratch);
    const IrBlock *body = load->block;
    if (ring->loop) ir_value_map_set(map, ring->loop->regions[0]->args[0], iteration);
    IrValue *operands[2 * 8 + 3] = {load->operands[0], o->buf, stage};
    unsigned count = 3;
    for (unsigned i = 1; i < load->operand_count; i++)
        operands[count++] = ring->loop ? recompute(b, map, body, load->operands[i]) : load->operands[i];
    const IrType *token = ir_type_token(s->module);
    IrOp *copy = ir_op_create(b, IR_BUF_COPY, count, operands, 1, &token);
    copy->span = load->span;
    ir_attr_set_str(copy, "axes", ir_attr_str(load, "axes", ""));
    const IrAttr *steps = ir_attr(load, "steps");
    if (steps) ir_attr_set_ints(copy, "steps", steps->count, steps->ints);
    int64_t extents[2] = {ir_type_extent(load->results[0].type, 0), ir_type_extent(load->results[0].type, 1)};
    ir_attr_set_ints(copy, "extents", 2, extents);
}

/* Copies for `iteration` if there is one, then the group's commit. */
static void emit_group(Staging *s, IrBuilder *b, const Ring *ring, IrValue *iteration, IrValue *stage) {
    IrValue *exists = ir_binary(b, IR_LT, iteration, ring->upper);
    IrOp *branch = ir_op_create(b, IR_IF, 1, &exists, 0, NULL);
    IrBuilder inner = ir_builder_at_end(branch->regions[0]);
    for (size_t i = 0; i < ring->count; i++)
        if (ring->operands[i].load) emit_copy(s, &inner, ring, &ring->operands[i], iteration, stage);
    ir_yield(&inner, 0, NULL);
    ir_op_create(b, IR_ASYNC_COMMIT, 0, NULL, 0, NULL);
}

/* The number of an iteration, from 0. */
static IrValue *iteration_number(IrBuilder *b, const Ring *ring, IrValue *i) {
    return ir_binary(b, IR_FLOORDIV, ir_binary(b, IR_SUB, i, ring->lower), ring->step);
}

static IrValue *stage_of(IrBuilder *b, const Ring *ring, IrValue *i, int64_t ahead) {
    if (!ring->loop || ring->stages == 1) return ir_const_index(b, 0);
    IrValue *number = iteration_number(b, ring, i);
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
        barrier(b); /* the stage was read by the iteration before */
        for (size_t k = 0; k < ring->count; k++)
            if (ring->operands[k].load) emit_copy(s, b, ring, &ring->operands[k], i, ir_const_index(b, 0));
        ir_op_create(b, IR_ASYNC_COMMIT, 0, NULL, 0, NULL);
        wait(b, 0);
        barrier(b);
        return;
    }
    int64_t ahead = ring->stages - 1;
    wait(b, ahead - 1);
    barrier(b);
    IrValue *next = ir_binary(b, IR_ADD, i, ir_binary(b, IR_MUL, ring->step, ir_const_index(b, ahead)));
    emit_group(s, b, ring, next, stage_of(b, ring, i, ahead));
}

/* ---- One block's gemms ---- */

static int64_t wanted_stages(const IrOp *loop) {
    if (!loop) return 1;
    int64_t stages = ir_attr_int(loop, "pipeline", 0);
    return stages > 1 ? (stages > 8 ? 8 : stages) : 2;
}

static int64_t operand_bytes(const Operand *o, Dtype dtype) {
    return (o->rows * (o->columns + 16)) * (int64_t)dtype_size(dtype);
}

static bool same_depth(Staging *s, IrOp *gemm) {
    unsigned ka = ir_attr_bool(gemm, "trans_a") ? 0 : 1, kb = ir_attr_bool(gemm, "trans_b") ? 1 : 0;
    Presence a = presence_of(s->ctx, gemm->operands[0]), b = presence_of(s->ctx, gemm->operands[1]);
    return a.axes[ka].hi == b.axes[kb].hi && a.axes[ka].lo == b.axes[kb].lo;
}

static GemmPlan plan_of(Staging *s, IrOp *gemm) {
    const IrType *acc = gemm->results[0].type, *a = gemm->operands[0]->type;
    return gemm_plan(s->ctx->target, ir_type_extent(acc, 0), ir_type_extent(acc, 1),
                     ir_type_extent(a, ir_attr_bool(gemm, "trans_a") ? 0 : 1), a->dtype, acc->dtype, s->warps);
}

static void set_operand_shape(Operand *o, const GemmPlan *p, unsigned which, bool trans) {
    int64_t rows = which ? p->pad_k : p->pad_m, columns = which ? p->pad_n : p->pad_k;
    o->rows = trans ? columns : rows;
    o->columns = trans ? rows : columns;
}

/* Rows and columns that are absent in the operands are so in the result: as operands of buf.gemm from
 * number `count` on, as letters in `letters`. */
static unsigned add_bounds(Staging *s, IrBuilder *b, IrOp *gemm, IrValue **operands, unsigned count, char *letters) {
    for (unsigned i = 0; i < 2; i++) {
        Presence p = presence_of(s->ctx, gemm->operands[i]);
        bool trans = ir_attr_bool(gemm, i ? "trans_b" : "trans_a");
        PresenceAxis axis = p.axes[trans ? 1 - i : i];
        if (!axis.hi) continue;
        *letters++ = i ? 'n' : 'm';
        operands[count++] = ir_aff_emit(b, axis.lo);
        operands[count++] = ir_aff_emit(b, axis.hi);
    }
    return count;
}

/* Replaces a gemm; its operands are ring->operands[first], [first + 1]. */
static void replace_gemm(Staging *s, IrOp *gemm, Ring *ring, size_t first, IrValue *stage) {
    IrBuilder b = ir_builder_before(gemm);
    GemmPlan plan = plan_of(s, gemm);
    IrValue *operands[9] = {NULL, NULL, NULL, NULL, gemm->operands[2]};
    char letters[3] = "";
    bool stored = false;
    for (unsigned i = 0; i < 2; i++) {
        Operand *o = &ring->operands[first + i];
        operands[2 * i] = o->buf;
        operands[2 * i + 1] = o->load ? stage : ir_const_index(&b, 0);
        stored = stored || !o->load;
    }
    if (stored) {
        barrier(&b);
        for (unsigned i = 0; i < 2; i++)
            if (!ring->operands[first + i].load) {
                IrValue *args[3] = {gemm->operands[i], ring->operands[first + i].buf, ir_const_index(&b, 0)};
                ir_op_create(&b, IR_BUF_STORE, 3, args, 0, NULL);
            }
        barrier(&b);
    }
    unsigned count = add_bounds(s, &b, gemm, operands, 5, letters);
    IrOp *op = ir_op_create(&b, IR_BUF_GEMM, count, operands, 1, &gemm->results[0].type);
    if (*letters) ir_attr_set_str(op, "bounds", letters);
    op->span = gemm->span;
    ir_attr_set_bool(op, "trans_a", ir_attr_bool(gemm, "trans_a"));
    ir_attr_set_bool(op, "trans_b", ir_attr_bool(gemm, "trans_b"));
    gemm_plan_set(op, &plan);
    ir_result(op, 0)->name = gemm->results[0].name;
    ir_replace_uses(&gemm->results[0], ir_result(op, 0));
    ir_op_erase(gemm);
}

static IrOp *enclosing_for(IrBlock *block) {
    return block->parent && block->parent->opcode == IR_FOR ? block->parent : NULL;
}

enum { MAX_GEMMS = 8 };

/* The gemms of a block in order; SIZE_MAX after an error. */
static size_t collect_gemms(Staging *s, IrBlock *block, IrOp **gemms) {
    size_t count = 0;
    for (IrOp *op = block->first; op; op = op->next) {
        if (op->opcode != IR_TILE_GEMM) continue;
        const char *problem = count == MAX_GEMMS                ? "more than 8 gemms in one block"
                              : op->results[0].type->rank != 2 ? "gemm of a batched tile"
                              : !same_depth(s, op)             ? "gemm of operands whose K slices differ"
                                                               : NULL;
        if (problem) {
            diag_report(s->ctx->diags, DIAG_not_lowered, op->span, problem);
            s->failed = true;
            return SIZE_MAX;
        }
        gemms[count++] = op;
    }
    return count;
}

/* Can the load be made before the iteration (without a loop: before the first gemm)? */
static bool goes_ahead(const Ring *ring, IrBlock *block, const IrOp *first_gemm, IrValue *value) {
    if (!is_staged_load(value, block)) return false;
    if (!ring->loop) return is_before(value->def, first_gemm);
    for (unsigned k = 1; k < value->def->operand_count; k++)
        if (!is_recomputable(block, value->def->operands[k])) return false;
    return true;
}

static void plan_ring(Staging *s, Ring *ring, IrBlock *block, IrOp *const *gemms, size_t count) {
    int64_t bytes = 0;
    for (size_t g = 0; g < count; g++) {
        GemmPlan plan = plan_of(s, gemms[g]);
        for (unsigned i = 0; i < 2; i++) {
            Operand *o = &ring->operands[ring->count++];
            IrValue *value = gemms[g]->operands[i];
            o->load = goes_ahead(ring, block, gemms[0], value) ? value->def : NULL;
            set_operand_shape(o, &plan, i, ir_attr_bool(gemms[g], i ? "trans_b" : "trans_a"));
            bytes += operand_bytes(o, value->type->dtype);
        }
    }
    int64_t room = s->ctx->target->shared_bytes_block * 9 / 10 / (bytes ? bytes : 1);
    ring->stages = wanted_stages(ring->loop);
    if (ring->stages > room) ring->stages = room > 1 ? room : 1;
}

static void alloc_ring(Staging *s, IrBuilder *b, Ring *ring, IrOp *const *gemms) {
    for (size_t k = 0; k < ring->count; k++) {
        IrValue *value = gemms[k / 2]->operands[k % 2];
        GemmPlan plan = plan_of(s, gemms[k / 2]);
        Operand *o = &ring->operands[k];
        o->buf = alloc_buffer(s, b, value->type->dtype, o, o->load ? ring->stages : 1, gemm_plan_is_mma(&plan),
                              value->name);
        o->buf->name = value->name;
    }
}

static void stage_block(Staging *s, IrBlock *block) {
    IrOp *gemms[MAX_GEMMS];
    size_t count = collect_gemms(s, block, gemms);
    if (!count || count == SIZE_MAX) return;
    Ring ring = {.loop = enclosing_for(block)};
    if (ring.loop)
        ring.lower = ring.loop->operands[0], ring.upper = ring.loop->operands[1], ring.step = ring.loop->operands[2];
    plan_ring(s, &ring, block, gemms, count);
    IrBuilder outside = ir_builder_before(ring.loop ? ring.loop : block->first);
    alloc_ring(s, &outside, &ring, gemms);
    IrBuilder inside = ir_builder_before(ring.loop ? block->first : gemms[0]);
    IrValue *i = ring.loop ? block->args[0] : NULL;
    if (ring.loop && ring.stages > 1) emit_prologue(s, &outside, &ring);
    emit_steady(s, &inside, &ring, i);
    for (size_t g = 0; g < count; g++) {
        IrBuilder at = ir_builder_before(gemms[g]);
        replace_gemm(s, gemms[g], &ring, 2 * g, stage_of(&at, &ring, i, 0));
    }
    for (size_t k = 0; k < ring.count; k++)
        if (ring.operands[k].load) ir_op_erase(ring.operands[k].load);
    if (!ring.loop) return;
    IrBuilder after = ir_builder_after(ring.loop);
    wait(&after, 0);
    barrier(&after);
}

static void stage_nested(Staging *s, IrBlock *block) {
    for (IrOp *op = block->first, *next; op && !s->failed; op = next) {
        next = op->next;
        for (unsigned r = 0; r < op->region_count; r++) stage_nested(s, op->regions[r]);
    }
    stage_block(s, block);
}

static void find_warps(void *ctx, IrOp *op) {
    Staging *s = ctx;
    if (op->opcode != IR_TILE_GEMM || op->results[0].type->rank != 2) return;
    GemmPlan plan = plan_of(s, op);
    if (plan.warps > s->warps) s->warps = plan.warps;
}

bool pass_stage_buffers(PassContext *ctx) {
    bool ok = true;
    for (IrFunc *f = ctx->module->first; f; f = f->next) {
        if (f->level != IR_LEVEL_TILE) continue;
        f->state = IR_STATE_MAPPED;
        Staging search = {.ctx = ctx, .module = ctx->module}, s = search;
        ir_walk(f->body, find_warps, &search);
        if (!search.warps) continue;
        s.warps = search.warps;
        ir_func_attr_set_int(f, "num_warps", s.warps);
        stage_nested(&s, f->body);
        ok = ok && !s.failed;
    }
    return ok;
}
