/* Pass split_k: long K of a product of few tiles is divided among blocks.
 *
 * what:   a kernel of parallel loops around one serial loop of gemms, whose carried tiles are sums that begin at 0, becomes four steps:
 *           part      the loop's iterations in `parts` pieces, each a block; its sums go to a workspace
 *           sum       of the parts behind the first, in their order, where they are more than MOST_IN_FINISH
 *           finish    the kernel with the parts, or the first and the sum of the others, in place of the loop
 *           as it was
 *         The sizes of a launch decide which grids are empty: either the last, or those before it. K is split if there are so few tiles
 *         that two or more parts of each are resident at once, each part has LEAST_TRIPS iterations or more, and the cost model predicts
 *         a gain of MARGIN_PERCENT over one block a tile, counting two more launches and the workspace's traffic. If no case asks for a
 *         split, the kernel stays as it was. The decision is computed once a launch, as derived symbols.
 *         The tail: a grid of more than one wave leaves the machine half empty in its last wave. Where a case asks for it (at most
 *         TAIL_WAVES whole waves), only the tiles behind the last whole wave are divided, and the kernel as it was computes the %whole
 *         tiles before them, numbered consecutively. With less than one wave of tiles %whole is 0, and all tiles are divided.
 * needs:  tile functions in state open, after split_reduction; target cuda
 * keeps:  values but for the order in which floats are summed; names
 * breaks: steps are numbered anew
 * source: split K
 *
 *     parallel(0, I) (%i) {                            parallel(0, parts) (%p) { parallel(0, I) (%i) {
 *       %c = for(0, n, 1, 0) (%k, %s) {          =>      %c = for(p L, min(p L + L, n), 1, 0) (%k, %s) { ... }
 *         yield(tile.gemm(%a, %b, %s)) }                 tile.store(%c, %W, %p, i BM, i BM + BM, 0, BN) } }
 *       tile.store(f(%c), %C, ...) }                   parallel(0, I BM) (%r) { sum of %W[:, r, :] into %S[r, :] }
 *                                                      parallel(0, I) (%i) { tile.store(f(%S[i BM : i BM + BM, :]), %C, ...) }
 */
#include "analysis/analysis.h"
#include "analysis/gemm_cost.h"
#include "grid/tile_order.h"
#include "split_k_internal.h"

#include <math.h>
#include <string.h>

/* ---- Which kernels ---- */

/* Does the loop only add to the carried tile: through gemms and sums up to its yield? */
static bool is_only_added_to(const IrOp *loop, unsigned which) {
    const IrValue *v = loop->regions[0]->args[1 + which];
    for (;;) {
        const IrUse *use = v->uses;
        if (!use || use->next) return false;
        const IrOp *op = use->op;
        if (op->block != loop->regions[0]) return false;
        if (is_terminator(op)) return use->index == which;
        bool sum = op->opcode == IR_ADD || (op->opcode == IR_TILE_GEMM && use->index == 2);
        if (!sum || op->results[0].type != v->type) return false;
        v = &op->results[0];
    }
}

static bool begins_at_zero(const IrValue *v) {
    const IrAttr *value = v->def && v->def->opcode == IR_CONST ? ir_attr(v->def, "value") : NULL;
    if (!value) return false;
    if (value->kind == IR_ATTR_INT) return value->integer == 0;
    return value->kind == IR_ATTR_FLOAT && value->number == 0 && !signbit(value->number);
}

/* Sums of one shape, wide enough to be added in memory. */
static bool carries_sums(Split *s) {
    const IrOp *loop = s->loop;
    if (!loop->result_count || loop->result_count > MOST_SUMS) return false;
    for (unsigned i = 0; i < loop->result_count; i++) {
        const IrType *t = loop->results[i].type;
        if (t->kind != IR_TYPE_TILE || t->rank != 2 || dtype_size(t->dtype) < 4 || (i && t != loop->results[0].type)) return false;
        if (ir_type_extent(t, 0) < 1 || ir_type_extent(t, 1) < 1) return false;
        if (!begins_at_zero(loop->operands[3 + i]) || !is_only_added_to(loop, i)) return false;
    }
    s->rows = ir_type_extent(loop->results[0].type, 0), s->columns = ir_type_extent(loop->results[0].type, 1);
    return true;
}

/* Nothing but parallel loops around the loop's block, which stores behind it. */
static bool is_plain(const Split *s) {
    for (size_t i = 0; i < s->ops.len; i++) {
        const IrOp *op = s->ops.data[i];
        bool around = op->opcode == IR_PARALLEL && is_inside_op(s->loop->block, op);
        if (op->region_count && op != s->loop && !around) return false;
        if (op->region_count || is_terminator(op)) continue;
        if (op->opcode == IR_TILE_LOAD && is_stored_to(op->operands[0])) return false;
        if (is_repeatable(op)) continue;
        if (op->opcode != IR_TILE_STORE || op->block != s->loop->block || i < s->at) return false;
        if (ir_op_mode(op) != IR_KIND_SET) return false;
    }
    return true;
}

static bool counts(Split *s) {
    IrModule *m = s->ctx->module;
    s->all = parallel_iterations(m, &s->ops);
    if (!s->all) return false;
    s->trips = loop_trips(m, s->loop);
    return aff_over_symbols(s->trips) && aff_over_symbols(ir_aff_of(m, s->loop->operands[0])) &&
           aff_is_const(ir_aff_of(m, s->loop->operands[2]), &s->step) && s->step > 0;
}

/* ---- What it saves ---- */

static int64_t picoseconds(double seconds) {
    double ps = ceil(seconds * 1e12);
    return ps < MOST_PICOSECONDS ? (int64_t)ps : MOST_PICOSECONDS;
}

static const Aff *most_parts(const Split *s, int64_t resident) {
    AffCtx *c = s->ctx->module->affs;
    const Aff *room = aff_floordiv(c, aff_const(c, resident), aff_max(c, aff_const(c, 1), s->tiles));
    return aff_min(c, room, aff_floordiv(c, s->trips, aff_const(c, LEAST_TRIPS)));
}

/* Bytes that an iteration of all tiles takes from memory: what several of them load counts once. Those of a last wave take no more than each for itself. */
static const Aff *bytes_of_all(const Split *s, const GemmCost *cost) {
    IrModule *m = s->ctx->module;
    const Aff *all = aff_const(m->affs, 0);
    for (const IrOp *load = s->loop->regions[0]->first; load; load = load->next) {
        if (load->opcode != IR_TILE_LOAD) continue;
        const Aff *bytes = aff_const(m->affs, gemm_cost_tile_bytes(load->results[0].type));
        for (size_t i = 0; i < s->at; i++)
            if (s->ops.data[i]->opcode == IR_PARALLEL && gemm_cost_moves_with(s->ctx, load, s->ops.data[i]))
                bytes = aff_mul(m->affs, bytes, loop_trips(m, s->ops.data[i]));
        all = aff_add(m->affs, all, bytes);
    }
    return s->waves ? aff_min(m->affs, all, aff_mul(m->affs, s->tiles, aff_const(m->affs, cost->bytes))) : all;
}

/* Of one block a tile, less the margin, what parts and their sums do not take: the longest of the parts' blocks, of what they bring from L2
 * and of what that takes from memory. `most`: parts of a tile. */
static const Aff *saving(const Split *s, const GemmCost *cost, const CostMachine *m, double beside, const Aff *most) {
    AffCtx *c = s->ctx->module->affs;
    double products = gemm_cost_seconds(cost, s->ctx->target, m), brought = (double)cost->bytes / m->sm;
    double shared = cost->shared * (double)m->sms / m->shared, sums = 2.0 * 4 * (double)(s->rows * s->columns) * s->loop->result_count;
    double alone = fmax(products, fmax(brought, shared));
    const Aff *brought_to_all = aff_mul(c, aff_mul(c, s->tiles, s->trips), aff_const(c, picoseconds((double)cost->bytes / m->l2)));
    const Aff *before = aff_mul(c, s->trips, aff_const(c, picoseconds(alone * (100 - MARGIN_PERCENT) / 100)));
    const Aff *longest = aff_ceildiv(c, s->trips, aff_max(c, aff_const(c, 1), most));
    const Aff *after = aff_max(c, aff_mul(c, longest, aff_const(c, picoseconds(alone * beside))), brought_to_all);
    int64_t rate = (int64_t)(m->read * 256e-12); /* bytes in 256 picoseconds */
    const Aff *moved = aff_floordiv(c, aff_mul(c, bytes_of_all(s, cost), aff_const(c, 256)), aff_const(c, rate > 1 ? rate : 1));
    after = aff_max(c, after, aff_mul(c, s->trips, moved));
    after = aff_add(c, after, aff_mul(c, aff_mul(c, s->tiles, most), aff_const(c, picoseconds(sums / m->copy))));
    return aff_sub(c, before, aff_add(c, after, aff_const(c, picoseconds(2 * (m->launch + 2 * m->latency)))));
}

/* 1 where there are tiles, two parts of each are resident and something is saved, else 0. */
static const Aff *used_with(const Split *s, const Aff *most, const Aff *saved) {
    AffCtx *c = s->ctx->module->affs;
    const Aff *worth = aff_min(c, s->tiles, aff_min(c, aff_sub(c, most, aff_const(c, 1)), saved));
    return aff_max(c, aff_const(c, 0), aff_min(c, aff_const(c, 1), worth));
}

/* Used, and where there are whole waves few enough of them. */
static const Aff *used_behind(const Split *s, const Aff *most, const Aff *saved, int64_t resident) {
    AffCtx *c = s->ctx->module->affs;
    const Aff *used = used_with(s, most, saved);
    if (!s->waves) return used;
    return aff_max(c, aff_const(c, 0), aff_min(c, used, aff_sub(c, aff_const(c, TAIL_WAVES * resident + 1), s->waves)));
}

/* The order of tiles that a case or the sketch asks for is one of rows and columns, which tiles that are numbered through do not have. */
static bool is_ordered(const Split *s) {
    IrOp *row = NULL;
    for (size_t i = 0; i < s->at; i++) {
        IrOp *loop = s->ops.data[i];
        if (loop->opcode != IR_PARALLEL) continue;
        if (ir_op_swizzle(loop)) return true;
        if (row && tile_order_is_asked_for(s->ctx, s->func, row, loop)) return true;
        row = loop;
    }
    return false;
}

/* Which tiles are divided: those of the last wave where a case asks for that, else all. */
static bool choose_tiles(Split *s, const GemmCost *cost, const CostMachine *machine, int64_t beside) {
    AffCtx *c = s->ctx->module->affs;
    const Aff *resident = aff_const(c, beside * machine->sms);
    for (int tail = TAIL_WAVES && !is_ordered(s); tail >= 0; tail--) {
        s->waves = tail ? aff_mul(c, aff_floordiv(c, s->all, resident), resident) : NULL;
        s->tiles = tail ? aff_sub(c, s->all, s->waves) : s->all;
        const Aff *most = most_parts(s, beside * machine->sms);
        const Aff *used = used_behind(s, most, saving(s, cost, machine, (double)beside, most), beside * machine->sms);
        if (step_is_asked_for(s->ctx, s->func, tail ? aff_min(c, used, s->waves) : used)) return true;
    }
    return false;
}

static bool is_worth_it(Split *s) {
    AffCtx *c = s->ctx->module->affs;
    GemmCost cost;
    CostMachine machine;
    if (!gemm_cost(s->ctx, s->func, &cost) || cost.block != s->loop->regions[0]) return false;
    if (!cost_machine(s->ctx->target, &machine) || machine.products <= 0) return false;
    int64_t beside = gemm_cost_beside(&cost, s->ctx, s->func), resident = beside * machine.sms;
    if (!choose_tiles(s, &cost, &machine, beside)) return false;
    const Aff *most = most_parts(s, resident), *one = aff_const(c, 1);
    const Aff *used = used_behind(s, most, saving(s, &cost, &machine, (double)beside, most), resident);
    s->may_be_far = step_is_asked_for(s->ctx, s->func, aff_min(c, used, aff_sub(c, most, aff_const(c, MOST_IN_FINISH))));
    if (s->waves) {
        s->whole = derived_symbol(s->ctx->module, "whole", s->waves);
        s->waves = s->whole.name;
        s->tiles = aff_sub(c, s->all, s->waves);
        most = most_parts(s, resident);
    }
    s->most = derived_symbol(s->ctx->module, "most", aff_max(c, aff_const(c, 0), most));
    s->used = derived_symbol(s->ctx->module, "split",
                             used_behind(s, s->most.name, saving(s, &cost, &machine, (double)beside, s->most.name), resident));
    s->span = derived_symbol(s->ctx->module, "span", aff_max(c, one, aff_ceildiv(c, s->trips, aff_max(c, one, s->most.name))));
    s->parts = derived_symbol(s->ctx->module, "parts", aff_mul(c, s->used.name, aff_ceildiv(c, s->trips, s->span.name)));
    const Aff *beyond = aff_sub(c, s->parts.name, aff_const(c, MOST_IN_FINISH));
    s->far = derived_symbol(s->ctx->module, "far", aff_max(c, aff_const(c, 0), aff_min(c, one, beyond)));
    return true;
}

/* What is absent of a sum is left out when it is loaded: from a lane on. */
static bool ends_are_known(const Split *s) {
    for (unsigned i = 0; i < s->loop->result_count; i++) {
        Presence p = presence_of(s->ctx, &s->loop->results[i]);
        for (unsigned a = 0; a < p.rank; a++) {
            int64_t lo;
            if (p.axes[a].hi && !(aff_is_const(p.axes[a].lo, &lo) && lo == 0)) return false;
        }
    }
    return true;
}

static bool find(Split *s) {
    s->ops = ops_collect(s->ctx->scratch, s->func->body);
    for (s->at = 0; s->at < s->ops.len && s->ops.data[s->at]->opcode != IR_FOR; s->at++) {
    }
    if (s->at == s->ops.len || !s->ctx->target->sms) return false;
    s->loop = s->ops.data[s->at];
    return carries_sums(s) && is_plain(s) && counts(s) && ends_are_known(s) && is_worth_it(s);
}

/* ---- The steps ---- */

static void split(Split *s) {
    IrModule *m = s->ctx->module;
    AffCtx *c = m->affs;
    const char *name = s->func->name;
    int64_t step = ir_step_order(s->func);
    for (unsigned i = 0; i < s->loop->result_count; i++) {
        s->pieces[i] = param_new_name(m, arena_printf(m->arena, "pieces%u_", i));
        s->sums[i] = param_new_name(m, arena_printf(m->arena, "sums%u_", i));
    }
    unsigned before = s->may_be_far ? 3 : 2; /* steps in front of the kernel as it was */
    steps_make_room(m, step, before);
    IrFunc *as_it_was = ir_func_clone(s->func, name); /* clones follow the function at once: the steps stand in order */
    IrFunc *finish = ir_func_clone(s->func, name), *sum = s->may_be_far ? ir_func_clone(s->func, name) : NULL;
    step_name(as_it_was, name, step + before);
    step_name(s->func, step_new_name(m, name, "part"), step);
    if (sum) step_name(sum, step_new_name(m, name, "sum"), step + 1);
    step_name(finish, step_new_name(m, name, "finish"), step + before - 1);
    split_k_make_step(s, as_it_was, false, false);
    if (s->waves)
        split_k_number_through(s, as_it_was, aff_sub(c, s->all, aff_mul(c, s->used.name, s->tiles)), aff_const(c, 0));
    else
        step_repeat(as_it_was, aff_sub(c, aff_const(c, 1), s->used.name), "alone");
    if (sum) split_k_make_step(s, sum, true, true), split_k_make_sum(s, sum);
    split_k_make_step(s, finish, true, s->may_be_far);
    if (s->waves) split_k_number_through(s, finish, s->tiles, s->waves);
    split_k_make_finish(s, finish);
    split_k_drop_persistent(s, finish);
    split_k_make_step(s, s->func, true, false);
    if (s->waves) split_k_number_through(s, s->func, s->tiles, s->waves);
    split_k_drop_persistent(s, s->func);
    split_k_make_part(s, s->func);
}

bool pass_split_k(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first, *next; f; f = next) {
        next = f->next;
        if (f->level != IR_LEVEL_TILE || f->state != IR_STATE_OPEN || f->guard || count_versions(f) > 1) continue;
        Split found = {.ctx = ctx, .func = f};
        if (find(&found)) split(&found);
    }
    return true;
}
