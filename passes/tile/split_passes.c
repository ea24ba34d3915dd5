/* split_passes: axes of symbolic extent that are reduced, scanned, contracted or sorted get constant extents.
 *
 * The kernel gets two versions, in order of preference. Where "vectors" are asked for, a third version for short whole rows comes first.
 *   whole row   The axis gets the constant extent CAP. Slices keep their ends, so that lanes from the extent on are absent.
 *               The guard is CAP - extent + 1 > 0.
 *   in passes   Each reduction becomes a loop over chunks. The loop repeats the loads and the arithmetic that feed the reduction,
 *               accumulates lane by lane, and one reduction follows the loop. Each store becomes such a loop too. Absent lanes of the
 *               last chunk are filled with the identity; lanes that are absent along other axes stay absent.
 *               A gemm along the axis accumulates chunk by chunk; of more products than a processor may add in order, part by part.
 *               A scan carries its total from chunk to chunk. A scan that runs against the loop, or any beyond the first SPLIT_SCANS
 *               scans, instead recomputes the sum of all preceding chunks for each chunk.
 *               An arg-reduction carries the best value and its index. A sort takes the upper bound of the extent, and needs one.
 *
 * needs:  tile functions in state open, after strip_mine
 * keeps:  names, spans
 * breaks: one function becomes several versions (attribute `kernel` names the kernel they belong to); state static
 * source: size classes and re-executed loads, docs/language.md "Tiles of symbolic extent"
 *
 *     %x = tile.load(%X, ..., %c0, %N)               %a = for(%c0, %N, %c2048, %lowest) (%N_0, %acc) {
 *     %m = tile.reduce(%x) {kind = "max", ...}  =>     %x = tile.load(%X, ..., %N_0, %N)
 *                                                      %f = tile.fill(%x) {value = -inf}
 *                                                      yield(max(%acc, %f)) }
 *                                                    %m = tile.reduce(%a) {kind = "max", ...}
 */
#include "grid/group_rows.h"
#include "plant.h"
#include "split.h"

/* The least whole rows (lanes); the least chunk (lanes); the part of a cluster's cap from which on rows are worth a cluster; threads of a block. */
enum { LEAST_CAP = ROW_LEAST_CAP, LEAST_CHUNK = 32, SPREAD_LEAST = 16, MOST_THREADS = 1024 };

/* row_lanes: of a version by length, what its threads keep; long_rows: no version for short rows. */
static bool is_wide(const PassContext *ctx, const IrFunc *f, const AxisClass *c) {
    if (c->constant >= 0 && (c->sorted || c->sliced)) return false; /* whole at any length */
    int64_t most = ir_func_int(f, IR_FN_ROW_LANES, 0);
    return c->constant < 0 || c->constant > (most > ctx->target->row_large ? most : ctx->target->row_large);
}

int64_t split_lanes_beside(const Axes *axes, size_t index) {
    return axes_others(axes, index, LEAST_CHUNK, 1);
}

int64_t split_most_lanes(PassContext *ctx, IrFunc *f, const AxisClass *c) {
    int64_t most;
    if (!aff_upper_bound(ir_facts_at(ctx->scratch, f->body->first), c->extent, &most)) return INT64_MAX;
    return most > 0 ? most : 1;
}

static int split(PassContext *ctx, IrFunc *f, const Axes *axes, size_t index) {
    Slice s = {.ctx = ctx, .axes = axes, .index = index, .ok = true};
    const AxisClass *c = axes_class(axes, index);
    OpList ops = ops_collect(ctx->scratch, f->body), served = {0};
    bool gemm = c->contracted || c->multiplied;
    int64_t others = axes_others(axes, index, 1, 1);
    int64_t chunk = power_of_two_below(ctx->target->row_chunk / split_lanes_beside(axes, index));
    s.chunk = gemm ? ctx->target->gemm_chunk : chunk > LEAST_CHUNK ? chunk : LEAST_CHUNK;
    if (s.chunk > ctx->target->row_large) s.chunk = ctx->target->row_large;
    s.chunk *= ir_func_cluster(f); /* its blocks pass over the row together */
    const IrOp *rows =
        ctx->target->kind == TARGET_CUDA && others == 1 && ir_func_cluster(f) == 1 ? rows_that_share(ctx, &ops, axes, index) : NULL;
    int64_t together = rows ? group_rows_that_share(ctx, rows) : 1; /* rows that will be one iteration */
    s.chunk /= together;
    bool alone = split_is_alone(ctx, f, &ops, axes, index);
    unsigned tiles = split_tiles_of_pass(ctx, f, &ops, axes, index, alone);
    if (alone) {
        s.chunk = SPLIT_STEP_LANES * MOST_THREADS;
        ir_func_set_int(f, IR_FN_NUM_WARPS, MOST_THREADS / 32);
        ir_func_set_int(f, IR_FN_ROW_LANES, s.chunk);
    }
    if (ir_func_cluster(f) > 1) ir_func_set_int(f, IR_FN_ROW_LANES, s.chunk);
    int passes = 0;
    if (!split_loads_repeatable(ctx, &ops, axes, index)) return -1;
    IrOp *group[SPLIT_TOGETHER];
    size_t n;
    bool one_arg = split_is_one_arg(ctx, f, &ops, axes, index);
    for (size_t at = 0; s.ok && (n = split_next_pass(ctx, &ops, axes, index, &at, &served, group)); passes++) {
        if (group[0]->opcode == IR_TILE_STORE)
            pass_for_store(&s, group[0]);
        else if (group[0]->opcode == IR_TILE_REDUCE)
            pass_for_reduces(&s, group, n);
        else if (group[0]->opcode == IR_TILE_ARG)
            pass_for_arg(&s, group[0]);
        else
            pass_for_gemm(&s, group[0]);
    }
    if (s.ok && tiles) split_keep_loads(ctx, f, tiles, s.chunk * others * together, alone);
    if (s.ok && one_arg) split_keep_blocks(ctx, f, s.chunk * others);
    if (s.ok) remove_dead(ctx, f);
    return s.ok ? passes : -1;
}

/* ---- Versions ---- */

static size_t pick(PassContext *ctx, IrFunc *f, const Axes *axes) {
    for (size_t i = 0; i < axes_count(axes); i++) {
        const AxisClass *c = axes_class(axes, i);
        if (is_wide(ctx, f, c) && (c->constant < 0 || !split_needs_all(ctx, f, axes, i))) return i;
    }
    return SIZE_MAX;
}

static const Aff *narrower_guard(PassContext *ctx, const IrFunc *f, const AxisClass *c, int64_t cap) {
    AffCtx *affs = ctx->module->affs;
    const Aff *room = aff_sub(affs, aff_const(affs, PLANTED(14) ? 4 * cap : cap + 1), c->extent);
    return f->guard ? aff_min(affs, f->guard, room) : room;
}

static void narrow_guard(PassContext *ctx, IrFunc *f, const AxisClass *c, int64_t cap) {
    f->guard = narrower_guard(ctx, f, c, cap);
}

/* Has the step a version for such rows already? Of copies of a tile each has its own class of the same extent. */
static bool is_served(PassContext *ctx, const IrFunc *f, const AxisClass *c, int64_t cap) {
    const Aff *guard = narrower_guard(ctx, f, c, cap);
    for (const IrFunc *other = ctx->module->first; other != f; other = other->next)
        if (other->guard == guard && is_same_kernel(other, f)) return true;
    return false;
}

/* The version whose rows fit: appended after f, which must come second. So f becomes the whole-row
 * version and the copy is split. */
static IrFunc *fork_version(PassContext *ctx, IrFunc *f, const AxisClass *c, int64_t cap) {
    IrFunc *copy = ir_func_clone(f, arena_printf(ctx->module->arena, "%s_passes", f->name));
    copy->guard = f->guard;
    f->name = arena_printf(ctx->module->arena, "%s_row", f->name);
    narrow_guard(ctx, f, c, cap);
    return copy;
}

/* A processor spends as much time on lanes that are absent as on others: where vectors are asked for, rows of the usual
 * length, if that is short, get a version of their own before `f`, which keeps rows of up to `cap`. The one that is returned is it; null: none. */
static IrFunc *fork_long_rows(PassContext *ctx, IrFunc *f, const AxisClass *c, int64_t cap, int64_t *usual) {
    int64_t row = ir_func_int(f, IR_FN_VECTORS, 0) ? row_usual(ctx, f, c->extent) : 0;
    for (*usual = LEAST_CAP; *usual < row; *usual *= 2) continue;
    if (!row || *usual >= cap || count_versions(f) >= MAX_VERSIONS) return NULL;
    IrFunc *longer = ir_func_clone(f, f->name);
    longer->guard = f->guard;
    f->name = arena_printf(ctx->module->arena, "%s%lld", f->name, (long long)*usual);
    narrow_guard(ctx, f, c, *usual);
    return longer;
}

static bool reshapes_fit(PassContext *ctx, IrFunc *f) {
    OpList ops = ops_collect(ctx->scratch, f->body);
    for (size_t i = 0; i < ops.len; i++) {
        if (ops.data[i]->opcode != IR_TILE_RESHAPE) continue;
        if (!presence_reshape_fits(ctx, ops.data[i])) {
            report_unsupported(ctx, ops.data[i]->span, "a reshape after which what is present is no interval; load with pad=");
            return false;
        }
    }
    return true;
}

static bool make_static(PassContext *ctx, IrFunc *f);

/* What needs all lanes at once: the extent's upper bound becomes the extent. */
static bool bind_axis(PassContext *ctx, IrFunc *f, Axes *axes, size_t index) {
    AxisClass *c = axes_class(axes, index);
    int64_t bound = 0;
    if (!aff_upper_bound(ir_facts_at(ctx->scratch, f->body->first), c->extent, &bound)) {
        Str extent;
        str_init(&extent);
        aff_print(c->extent, &extent);
        const char *what = c->sorted ? "sort" : c->sliced ? "slice or rearrangement" : "loop that carries and reduces a tile";
        diag_report(ctx->diags, DIAG_no_bound, c->span, what, extent.data, extent.data);
        str_release(&extent);
        return false;
    }
    axes_set_extent(axes, index, bound > 0 ? bound : 1);
    return true;
}

/* The guard of f, and more lanes than `least`: what one block passes over quickly is not worth a cluster. */
static const Aff *above(PassContext *ctx, const IrFunc *f, const AxisClass *c, int64_t least) {
    AffCtx *affs = ctx->module->affs;
    const Aff *more = aff_sub(affs, c->extent, aff_const(affs, least));
    return f->guard ? aff_min(affs, f->guard, more) : more;
}

/* The bytes of the widest element of rows in memory. */
static int64_t widest_in_memory(PassContext *ctx, IrFunc *f, const Axes *axes, size_t index) {
    OpList ops = ops_collect(ctx->scratch, f->body);
    int64_t widest = 1;
    for (size_t i = 0; i < ops.len; i++) {
        const IrOp *op = ops.data[i];
        bool store = op->opcode == IR_TILE_STORE;
        if ((!store && op->opcode != IR_TILE_LOAD) || !axes_touch(axes, op, index)) continue;
        int64_t size = (int64_t)dtype_size(op->operands[store]->type->dtype);
        widest = size > widest ? size : widest;
    }
    return widest;
}

static bool make_row(PassContext *ctx, IrFunc *f, const RowClass *row, size_t index) {
    Axes *axes = axes_analyse(ctx->scratch, f);
    IrModule *m = ctx->module;
    ir_func_set_int(f, IR_FN_VECTOR_BYTES, row->aligned ? 16 : 1);
    if (row->cluster > 1) ir_func_set_ints(f, IR_FN_CLUSTER, 3, (int64_t[]){row->cluster, 1, 1});
    if (row->cap == INT64_MAX) {
        f->name = arena_printf(m->arena, "%s_long", f->name);
        if (row->cluster > 1) f->guard = above(ctx, f, axes_class(axes, index), row->cluster * ctx->target->row_chunk);
        if (row->warps) ir_func_set_int(f, IR_FN_NUM_WARPS, row->warps);
        return split(ctx, f, axes, index) >= 0 && make_static(ctx, f);
    }
    f->name = arena_printf(m->arena, row->aligned ? "%s_row%lld" : "%s_odd%lld", f->name, (long long)row->cap);
    if (!row->last) narrow_guard(ctx, f, axes_class(axes, index), row->cap);
    bool rotated = !row->aligned && row->warps > 1 && row_may_rotate(ctx, f, axes, index);
    int64_t piece = rotated ? 16 / widest_in_memory(ctx, f, axes, index) : 1;
    if (piece > 1) {
        ir_func_set_int(f, IR_FN_VECTOR_BYTES, 16);
        ir_func_set_int(f, IR_FN_ROTATED, piece);
    }
    if (row->cluster > 1) f->guard = above(ctx, f, axes_class(axes, index), row->cap / SPREAD_LEAST);
    axes_set_extent(axes, index, row->cap);
    ir_func_set_int(f, IR_FN_ROW_LANES, row->cap);
    if (row->warps) ir_func_set_int(f, IR_FN_NUM_WARPS, row->warps);
    int64_t beside = row->cluster == 1 && row->held >= 48 ? SPLIT_REGISTERS_ALONE : SPLIT_REGISTERS_BESIDE;
    int64_t fit = ctx->target->registers_sm / ((row->held + beside) * 32 * row->warps);
    int64_t resident = row->cluster == 1 ? ctx->target->sms : row->cluster == 8 ? ctx->target->clusters : 0;
    if (fit <= 1 && resident && piece == 1) ir_func_set_int(f, IR_FN_RESIDENT, resident);
    /* What was planned with: neither more registers, nor spills for the sake of further blocks. */
    if (row->held >= (piece > 1 ? 32 : 48)) ir_func_set_int(f, IR_FN_MIN_BLOCKS, fit < 1 ? 1 : fit);
    return make_static(ctx, f);
}

static void report_split(PassContext *ctx, const AxisClass *c, int64_t cap, int passes) {
    Str extent;
    str_init(&extent);
    aff_print(c->extent, &extent);
    diag_report(ctx->diags, DIAG_axis_split, c->span, extent.data, (long long)cap, passes);
    str_release(&extent);
}

/* The longest that a version keeps whole. */
static int64_t longest_row(const RowClass *rows, size_t count) {
    int64_t longest = 0;
    for (size_t i = 0; i < count; i++)
        if (rows[i].cap < INT64_MAX && rows[i].cap > longest) longest = rows[i].cap;
    return longest;
}

/* The version for rows that no other one keeps. */
static int split_last(PassContext *ctx, IrFunc *last, size_t index) {
    Axes *axes = axes_analyse(ctx->scratch, last);
    ir_func_set_int(last, IR_FN_VECTOR_BYTES, 1);
    return split(ctx, last, axes, index);
}

/* Versions by length, where a row is needed again after a reduction: 1, done, or loads have moved and the axes
 * are to be analysed anew; 0, a single pass is as good; -1, failed. */
static int handle_rows(PassContext *ctx, IrFunc *f, Axes *axes, size_t index) {
    const AxisClass *c = axes_class(axes, index);
    RowClass rows[ROW_VERSIONS];
    if (split_passes_along(ctx, f, axes, index) < 2) return 0;
    if (row_sink_loads(ctx, f, axes, index)) return 1;
    size_t count = row_plan(ctx, f, axes, index, rows);
    if (!count) return 0;
    size_t more = rows[count - 1].last ? count - 1 : count; /* f is the first of them; the last one serves all else */
    if (count_versions(f) + more > MAX_VERSIONS) return 0;  /* another axis has versions already */
    const char *name = f->name;
    IrFunc *versions[ROW_VERSIONS] = {f};
    IrFunc *last = rows[count - 1].last ? NULL : ir_func_clone(f, arena_printf(ctx->module->arena, "%s_passes", name));
    for (size_t i = count; i-- > 1;) versions[i] = ir_func_clone(f, name);
    int passes = last ? split_last(ctx, last, index) : 1;
    if (passes < 0) return -1;
    if (last) report_split(ctx, c, longest_row(rows, count), passes);
    for (size_t i = 0; i < count; i++)
        if (!make_row(ctx, versions[i], &rows[i], index)) return -1;
    return !last || make_static(ctx, last) ? 1 : -1;
}

/* All lanes at once, in a tile that has room for the most that there can be. */
static void keep_whole(PassContext *ctx, IrFunc *f, size_t index, int64_t most) {
    axes_set_extent(axes_analyse(ctx->scratch, f), index, power_of_two_from(most));
}

/* Where no row is longer than a tile takes: one version, and one for rows of the usual length, if that is short. */
static bool handle_bounded_rows(PassContext *ctx, IrFunc *f, size_t index, int64_t most) {
    int64_t usual;
    const char *name = f->name;
    f->name = arena_printf(ctx->module->arena, "%s_row", name);
    IrFunc *longer = fork_long_rows(ctx, f, axes_class(axes_analyse(ctx->scratch, f), index), power_of_two_from(most), &usual);
    if (!longer) f->name = name;
    keep_whole(ctx, longer ? longer : f, index, most);
    if (longer) keep_whole(ctx, f, index, usual);
    return !longer || make_static(ctx, longer);
}

/* On a GPU, where the cases' rows are no longer than a block keeps, a version for rows of that length, and chunks for longer ones: lanes that are absent
 * cost as much as others. Where no row is longer than `most_whole` these are kept whole, too. 1, done; 0, rows are longer; -1, failed. */
static int handle_short_rows(PassContext *ctx, IrFunc *f, Axes *axes, size_t index, int64_t most_whole) {
    const AxisClass *c = axes_class(axes, index);
    int64_t cap;
    bool aligned;
    if (ctx->target->kind != TARGET_CUDA || axes_others(axes, index, 1, 1) > 1 || !row_short(ctx, f, c->extent, most_whole, &cap, &aligned))
        return 0;
    IrFunc *copy = fork_version(ctx, f, c, cap);
    int64_t most = split_most_lanes(ctx, copy, c);
    int passes = 1;
    if (most <= most_whole)
        keep_whole(ctx, copy, index, most);
    else
        passes = split(ctx, copy, axes_analyse(ctx->scratch, copy), index);
    if (passes < 0) return -1;
    if (!aligned && cap <= ROW_SHORT) ir_func_set_int(f, IR_FN_VECTOR_BYTES, 1); /* its lanes are one warp's */
    if (most > most_whole) report_split(ctx, c, cap, passes);
    axes_set_extent(axes, index, cap);
    return make_static(ctx, copy) ? 1 : -1;
}

static bool handle_axis(PassContext *ctx, IrFunc *f, Axes *axes, size_t index) {
    AxisClass *c = axes_class(axes, index);
    if (c->rigid) {
        report_unsupported(ctx, c->span,
                           "a tile of symbolic extent that is reshaped, joined, flipped or joined with its own "
                           "transpose");
        return false;
    }
    if (split_needs_all(ctx, f, axes, index)) return bind_axis(ctx, f, axes, index);
    if (ctx->target->kind == TARGET_CUDA && c->constant < 0 && !c->contracted && !c->multiplied && !ir_func_has(f, IR_FN_VECTOR_BYTES)) {
        int done = handle_rows(ctx, f, axes, index);
        if (done) return done > 0;
    }
    int64_t cap = power_of_two_below(ctx->target->row_large / split_lanes_beside(axes, index)), cluster = ir_func_cluster(f);
    if (cluster > 1) cap = ctx->target->row_chunk * cluster; /* cluster_scan: what its blocks hold at once */
    bool whole_row = c->constant < 0 && !c->contracted && !c->multiplied && cap >= LEAST_CAP && !ir_func_has(f, IR_FN_LONG_ROWS) &&
                     count_versions(f) < MAX_VERSIONS;
    if (!whole_row) return split(ctx, f, axes, index) >= 0;
    int done = cluster > 1 ? 0 : handle_short_rows(ctx, f, axes, index, cap);
    if (done) return done > 0;
    int64_t most = split_most_lanes(ctx, f, c);
    if (cluster == 1 && most <= cap) return handle_bounded_rows(ctx, f, index, most);
    if (is_served(ctx, f, c, cap)) return split(ctx, f, axes, index) >= 0;
    IrFunc *copy = fork_version(ctx, f, c, cap);
    if (cluster == 1 && row_of_small_sizes(ctx, f)) split_keep_row_loads(ctx, f, axes, index, cap * axes_others(axes, index, 1, 1));
    Axes *copy_axes = axes_analyse(ctx->scratch, copy);
    int passes = split(ctx, copy, copy_axes, index);
    int64_t usual;
    IrFunc *longer = fork_long_rows(ctx, f, c, cap, &usual);
    if (longer) axes_set_extent(axes_analyse(ctx->scratch, longer), index, cap);
    axes_set_extent(axes, index, longer ? usual : cap);
    if (passes < 0) return false;
    report_split(ctx, c, cap, passes);
    return (!longer || make_static(ctx, longer)) && make_static(ctx, copy);
}

static bool make_static(PassContext *ctx, IrFunc *f) {
    for (;;) {
        Axes *axes = axes_analyse(ctx->scratch, f);
        size_t index = pick(ctx, f, axes);
        if (index == SIZE_MAX) break;
        if (!handle_axis(ctx, f, axes, index)) return false;
    }
    f->state = IR_STATE_STATIC;
    return reshapes_fit(ctx, f);
}

bool pass_split_passes(PassContext *ctx) {
    bool ok = true;
    for (IrFunc *f = ctx->module->first, *next; f; f = next) {
        next = f->next; /* versions are added behind f and made static with it */
        if (f->level != IR_LEVEL_TILE || f->state != IR_STATE_OPEN) continue;
        end_folds(ctx, f);
        ok &= make_static(ctx, f);
    }
    return ok;
}
