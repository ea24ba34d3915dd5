/* Pass group_rows: short rows, several to a block.
 *
 * what:   where the tiles of a parallel loop's iteration are too short to fill a block, some iterations become one, whose
 *         tiles have an additional leading axis of rows. Values that all of these rows share are broadcast along it. assign_layouts
 *         gives each row to a warp or to a part of one (attribute rows_apart), so that reductions along a row
 *         need no barrier. The number of rows is large enough that each thread has several loads in flight, and small enough that in the
 *         largest case every multiprocessor has blocks. If loops in the iteration move a window over rows, and one row occupies
 *         at most half a warp, the grouped loop may be an outer one, such as the loop over images.
 *         Rows of a view are such, too, where it has as many elements as its tensor (reshaped, transposed, shifted).
 *         Longer rows that all read the same row of another tensor are grouped by up to SHARE_ROWS; a thread holds the same lanes of each.
 * needs:  tile functions in state static, before grid; target cuda
 * keeps:  values; order within an iteration
 * breaks: nothing
 * source: vectorisation of an outer loop
 *
 *     parallel(0, M, 1) (%m) {                     parallel(0, M, 8) (%m) {
 *       %x = tile.load(%X, %m, 0, N)                 %x = tile.load(%X, %m, M, 0, N)
 *            : tile<[352] x f32>                =>        : tile<[8, 352] x f32>
 *       %y = tile.reduce(%x) {axes = [0]}            %y = tile.reduce(%x) {axes = [1]} : tile<[8] x f32>
 *       tile.store(%y, %Y, %m)                       tile.store(%y, %Y, %m, M)
 */

#include "group_rows.h"
#include "analysis/analysis.h"

enum {
    LANES = 4096 /* of a block */,
    SHORT = 1024 /* a row, at most */,
    MOST_WARPS = 8, /* of a block, a warp a row */
    BLOCKS_SM = 4   /* that a multiprocessor has at least: rows are not grouped where fewer would be left */
};
/* Of rows over which loops of the iteration move a window, one lane a thread: what is in flight is left to stencil_reuse. */
enum { WINDOW_LANES = 256, WINDOW_SHORT = 16 };
/* Of longer rows that all read another tensor's row, too, which comes from the L2 cache once for all of them. */
enum { SHARE_ROWS = 4, SHARE_LANES = 8192 };

typedef struct {
    PassContext *ctx;
    IrFunc *func;
    IrOp *loop, *innermost; /* of which iterations become one; of the parallel loops, one that it is or has in it */
    IrValue *number;        /* of the row */
    PointerTable varies;    /* values that are not the same for all rows */
    int64_t lanes;          /* of the longest tile */
    int64_t shared;         /* of the longest that is loaded for all rows alike */
    bool scans;
    int64_t rows;
    bool moves_window; /* the loop has loops in it */
} Group;

static bool varies(const Group *g, const IrValue *v) {
    uint32_t yes;
    return v == g->number || pointer_table_get(&g->varies, v, &yes);
}

/* ---- Which loops ---- */

/* The innermost of the parallel loops around all that the kernel does; null: there is control of another kind than loops in it. */
static IrOp *innermost_loop(Group *g) {
    OpList ops = ops_collect(g->ctx->scratch, g->func->body);
    IrOp *loop = NULL;
    for (size_t i = 0; i < ops.len; i++) {
        const IrOp *op = ops.data[i];
        if (!op->region_count || op->opcode == IR_VIEW) continue;
        g->moves_window |= op->opcode == IR_FOR;
        if (op->opcode == IR_FOR && loop && is_inside_op(op->block, loop)) continue;
        if (op->opcode != IR_PARALLEL || (loop && !is_inside_op(op->block, loop))) return NULL;
        loop = ops.data[i];
    }
    for (size_t i = 0; loop && i < ops.len; i++) {
        const IrOp *op = ops.data[i];
        if (!op->region_count && !is_terminator(op) && !is_repeatable(op) && !is_inside_op(op->block, loop)) return NULL;
    }
    for (const IrOp *op = loop; op; op = op->block->parent)
        if (op->opcode != IR_PARALLEL) return NULL;
    return loop;
}

static const Aff *elements_of(AffCtx *c, const IrType *t) {
    const Aff *all = aff_const(c, 1);
    for (unsigned i = 0; i < t->rank; i++) all = aff_mul(c, all, t->extents[i]);
    return all;
}

/* A view of more or fewer elements than its tensor has: windows, which reuse_windows and its kin take. Lanes outside of the tensor read what the view says, grouped or not. */
static bool is_window(const Group *g, const IrValue *tensor) {
    if (!is_view(tensor)) return false;
    AffCtx *c = g->ctx->module->affs;
    const IrValue *from = tensor->def->operands[0];
    return ir_attr(tensor->def, "pad") || is_view(from) || elements_of(c, tensor->type) != elements_of(c, from->type);
}

/* Does the slice follow the row by one index, of the same step, ahead of all ranges? *at: its axis; rank: not at all. */
static bool follows(const Group *g, const IrOp *op, unsigned *at) {
    IrSlice s = ir_slice(op);
    IrModule *m = g->ctx->module;
    *at = s.rank;
    if (s.gather_axis >= 0 || is_window(g, op->operands[s.base])) return false;
    bool ranged = false;
    for (unsigned i = 0; i < s.rank; i++) {
        const IrSliceAxis *axis = &s.axes[i];
        const IrValue *v = op->operands[axis->operand];
        if (axis->letter == IR_LETTER_RANGE) {
            ranged = true;
            if (varies(g, v) || varies(g, op->operands[axis->operand + 1])) return false;
            continue;
        }
        if (!varies(g, v)) continue;
        const Aff *apart = aff_sub(m->affs, ir_aff_of(m, op->operands[axis->operand]), ir_aff_of(m, g->number));
        if (ranged || *at < s.rank || aff_depends_on(apart, g->number)) return false;
        *at = i;
    }
    return true;
}

/* A row outside of the tensor leaves a row's lanes absent, but what they are reduced to is there: for all rows at once it is not told. */
static bool lies_inside(const Group *g, IrOp *load, unsigned at) {
    IrSlice s = ir_slice(load);
    if (at == s.rank || ir_attr(load, "pad")) return true;
    AffCtx *c = g->ctx->module->affs;
    AffFacts *facts = ir_facts_at(g->ctx->scratch, load);
    const Aff *row = ir_aff_of(g->ctx->module, load->operands[s.axes[at].operand]), *extent = load->operands[0]->type->extents[at];
    return aff_prove_nonneg(facts, row) && aff_prove_nonneg(facts, aff_sub(c, aff_sub(c, extent, row), aff_const(c, 1)));
}

/* Slices of tiles take the same lanes of each row. */
static bool takes_alike(const Group *g, const IrOp *op) {
    if (ir_slice(op).gather_axis >= 0) return false;
    for (unsigned i = 1; i < op->operand_count; i++)
        if (varies(g, op->operands[i])) return false;
    return true;
}

static bool is_loop(const IrOp *op) {
    return op->opcode == IR_FOR || op->opcode == IR_PARALLEL;
}

/* A loop of as many iterations for each row, that carries tiles alone. */
static bool loops_alike(const Group *g, const IrOp *loop) {
    for (unsigned i = 0; i < loop->operand_count; i++)
        if (i < 3 ? varies(g, loop->operands[i]) : !is_tile(loop->operands[i])) return false;
    return true;
}

/* Can the op work on several rows at once? */
static bool can_group(const Group *g, IrOp *op) {
    unsigned at;
    if (is_terminator(op) || is_scalar_arithmetic(op)) return true;
    for (unsigned i = 0; i < op->operand_count; i++)
        if (is_tile(op->operands[i]) && op->operands[i]->type->rank > 1) return false;
    if (is_loop(op)) return loops_alike(g, op);
    switch (op->opcode) {
    case IR_TILE_LOAD:
        return is_tile(&op->results[0]) && follows(g, op, &at) && lies_inside(g, op, at);
    case IR_TILE_STORE:
        return is_tile(op->operands[0]) && ir_op_mode(op) == IR_KIND_SET && follows(g, op, &at) && at < ir_slice(op).rank;
    case IR_TILE_EXTRACT:
        return takes_alike(g, op);
    case IR_CONST:
    case IR_VIEW:
    case IR_TILE_IOTA:
    case IR_TILE_FILL:
    case IR_TILE_REDUCE:
    case IR_TILE_SCAN:
    case IR_TILE_ARG:
        return true;
    case IR_TILE_BROADCAST:
        return is_tile(op->operands[0]) || !varies(g, op->operands[0]);
    default:
        break;
    }
    if (!ir_has_trait(op, IR_ELEMENTWISE)) return false;
    for (unsigned i = 0; i < op->operand_count; i++)
        if (!is_tile(op->operands[i]) && varies(g, op->operands[i])) return false;
    return true;
}

static void note_lanes(Group *g, const IrValue *v) {
    int64_t lanes = v->type->rank ? ir_type_extent(v->type, 0) : 1;
    g->lanes = lanes > g->lanes ? lanes : g->lanes;
}

static void note_shared(Group *g, const IrOp *op) {
    g->scans |= ir_has_trait(op, IR_ALONG) || op->opcode == IR_TILE_ARG;
    if (op->opcode != IR_TILE_LOAD || varies(g, ir_result((IrOp *)op, 0)) || !op->results[0].type->rank) return;
    for (unsigned i = 1; i < op->operand_count; i++)
        if (varies(g, op->operands[i])) return;
    int64_t lanes = ir_type_extent(op->results[0].type, 0);
    g->shared = lanes > g->shared ? lanes : g->shared;
}

/* Marks it where it varies; false: a tile that has no room for an axis more. */
static bool read_value(Group *g, const IrValue *v, bool some) {
    if (some) pointer_table_set(&g->varies, v, 1);
    if (!is_tile(v)) return true;
    if (v->type->rank > 1) return false;
    note_lanes(g, v);
    return true;
}

/* Marks what varies from row to row, in program order; what loops carry always does. False where an op cannot work on several rows. */
static bool read_body(Group *g, const IrBlock *body) {
    for (IrOp *op = body->first; op; op = op->next) {
        bool some = is_loop(op);
        for (unsigned i = 0; i < op->operand_count; i++) {
            some |= varies(g, op->operands[i]);
            if (is_tile(op->operands[i])) note_lanes(g, op->operands[i]); /* from outside of the loop, too */
        }
        if (!can_group(g, op)) return false;
        note_shared(g, op);
        for (unsigned r = 0; r < op->result_count; r++)
            if (!read_value(g, &op->results[r], some)) return false;
        if (!is_loop(op)) continue;
        for (unsigned i = 1; i < op->regions[0]->arg_count; i++)
            if (!read_value(g, op->regions[0]->args[i], true)) return false;
        if (!read_body(g, op->regions[0])) return false;
    }
    return true;
}

/* ---- How many ---- */

/* Iterations of the loop and those around it in the largest of the cases; 0: no case tells. */
static int64_t most_iterations(const PassContext *ctx, const IrOp *innermost) {
    IrModule *m = ctx->module;
    int64_t most = 0;
    for (size_t i = 0; i < sizes_asked(ctx); i++) {
        int64_t all = 1, lb, ub, step;
        for (const IrOp *loop = innermost; loop && all; loop = loop->block->parent) {
            bool told = size_at(ctx, loop->block->func, i, ir_aff_of(m, loop->operands[0]), &lb) &&
                        size_at(ctx, loop->block->func, i, ir_aff_of(m, loop->operands[1]), &ub) &&
                        size_at(ctx, loop->block->func, i, ir_aff_of(m, loop->operands[2]), &step);
            int64_t trips = told && step > 0 && ub > lb ? (ub - lb + step - 1) / step : 0;
            all = trips && all > INT32_MAX / trips ? INT32_MAX : all * trips;
        }
        most = all > most ? all : most;
    }
    return most;
}

/* A power of two of at most `limit`, such that the largest case has blocks for all multiprocessors. */
static int64_t rows_within(const PassContext *ctx, const IrOp *innermost, int64_t limit) {
    int64_t rows = 1, most = most_iterations(ctx, innermost), blocks = (int64_t)BLOCKS_SM * ctx->target->sms;
    while (2 * rows <= limit && (!most || 2 * rows * blocks <= most)) rows *= 2;
    return rows;
}

int64_t group_rows_that_share(const PassContext *ctx, const IrOp *innermost) {
    return rows_within(ctx, innermost, SHARE_ROWS);
}

/* Rows too long to be short that read one of another tensor alike. */
static bool is_shared(const Group *g) {
    return g->lanes > (g->moves_window ? WINDOW_SHORT : SHORT) && g->shared == g->lanes && !g->scans;
}

static int64_t rows_for(const Group *g) {
    /* Where chunks of a row were cut for several rows (split_passes) these fill a block; what a loop carries needs registers, too. */
    int64_t lanes = is_shared(g)      ? (g->moves_window ? LANES : SHARE_LANES)
                    : g->moves_window ? WINDOW_LANES
                                      : LANES,
            limit = lanes / (g->lanes > 0 ? g->lanes : 1);
    return rows_within(g->ctx, g->innermost, is_shared(g) && limit > SHARE_ROWS ? SHARE_ROWS : limit);
}

/* ---- The rewriting ---- */

static const IrType *grouped_type(const Group *g, const IrType *t) {
    IrModule *m = g->ctx->module;
    const Aff *extents[2] = {aff_const(m->affs, g->rows), t->rank ? t->extents[0] : NULL};
    return ir_type_tile(m, t->dtype, t->rank + 1, extents, NULL);
}

/* An operand for all rows: as it is, or what they share once for each. */
static IrValue *for_all(Group *g, IrOp *user, IrValue *v) {
    if (!is_tile(v) || varies(g, v)) return v;
    IrBuilder b = ir_builder_before(user);
    b.span = user->span;
    const IrType *type = grouped_type(g, v->type);
    IrOp *op = v->def && v->def->opcode == IR_CONST ? ir_op_create(&b, IR_CONST, 0, NULL, 1, &type)
                                                    : ir_op_create(&b, IR_TILE_BROADCAST, 1, &v, 1, &type);
    if (op->opcode == IR_CONST)
        ir_attr_copy(op, v->def, "value");
    else
        ir_attr_set_ints(op, "axes", v->type->rank, (int64_t[]){1});
    op->results[0].name = v->name;
    return ir_result(op, 0);
}

static void insert_axis(IrOp *op, const char *key) {
    const IrAttr *axes = ir_attr(op, key);
    if (!axes) return;
    if (axes->kind == IR_ATTR_INT) {
        ir_attr_set_int(op, key, axes->integer + 1);
        return;
    }
    int64_t moved[IR_SLICE_MAX_RANK];
    size_t n = 0;
    if (op->opcode == IR_TILE_BROADCAST) moved[n++] = 0;
    for (size_t i = 0; i < axes->count; i++) moved[n++] = axes->ints[i] + 1;
    ir_attr_set_ints(op, key, n, moved);
}

static void insert_step(IrOp *op, const IrOp *from) {
    const IrAttr *steps = ir_attr(from, "steps");
    int64_t all[IR_SLICE_MAX_RANK] = {1};
    if (!steps) return;
    for (size_t i = 0; i < steps->count; i++) all[i + 1] = steps->ints[i];
    ir_attr_set_ints(op, "steps", steps->count + 1, all);
}

/* The access with a range of rows where it has the index of one. Nothing lies behind the loop's last row. */
static void group_access(Group *g, IrOp *op) {
    static const char *const kept[] = {"pad", "cache", "mode", "unique"};
    IrModule *m = g->ctx->module;
    IrSlice s = ir_slice(op);
    IrBuilder b = ir_builder_before(op);
    b.span = op->span;
    unsigned at, n = 0, from;
    follows(g, op, &at);
    IrValue *operands[2 * IR_SLICE_MAX_RANK + 3];
    char axes[IR_SLICE_MAX_RANK + 1] = {0};
    for (unsigned i = 0; i < s.axes[at].operand; i++) operands[n++] = op->operands[i];
    const Aff *row = ir_aff_of(m, op->operands[s.axes[at].operand]);
    const Aff *left = aff_sub(m->affs, ir_aff_of(m, g->loop->operands[1]), ir_aff_of(m, g->number));
    operands[n++] = op->operands[s.axes[at].operand];
    operands[n++] = ir_aff_emit(&b, aff_add(m->affs, row, left));
    for (from = s.axes[at].operand + 1; from < op->operand_count; from++) operands[n++] = op->operands[from];
    for (unsigned i = 0; i < s.rank; i++) axes[i] = i == at ? IR_LETTER_RANGE : s.axes[i].letter;
    bool store = op->opcode == IR_TILE_STORE;
    if (store) operands[0] = for_all(g, op, op->operands[0]);
    const IrType *type = store ? NULL : grouped_type(g, op->results[0].type);
    IrOp *copy = ir_op_create(&b, op->opcode, n, operands, !store, &type);
    for (size_t i = 0; i < COUNT_OF(kept); i++) ir_attr_copy(copy, op, kept[i]);
    ir_attr_set_str(copy, "axes", axes);
    insert_step(copy, op);
    if (!store) {
        copy->results[0].name = op->results[0].name;
        pointer_table_set(&g->varies, &copy->results[0], 1);
        ir_replace_uses(&op->results[0], &copy->results[0]);
    }
    ir_op_erase(op);
}

static void group_extract(Group *g, IrOp *op) {
    IrBuilder b = ir_builder_before(op);
    b.span = op->span;
    IrValue *operands[2 * IR_SLICE_MAX_RANK + 3] = {op->operands[0], ir_const_index(&b, 0), ir_const_index(&b, g->rows)};
    for (unsigned i = 1; i < op->operand_count; i++) operands[i + 2] = op->operands[i];
    const IrType *type = grouped_type(g, op->results[0].type);
    IrOp *copy = ir_op_create(&b, IR_TILE_EXTRACT, op->operand_count + 2, operands, 1, &type);
    ir_attr_set_str(copy, "axes", arena_printf(b.module->arena, "r%s", ir_attr_str(op, "axes", "")));
    insert_step(copy, op);
    copy->results[0].name = op->results[0].name;
    pointer_table_set(&g->varies, &copy->results[0], 1);
    ir_replace_uses(&op->results[0], &copy->results[0]);
    ir_op_erase(op);
}

static void group_body(Group *g, IrBlock *body);

static void group_loop(Group *g, IrOp *loop) {
    for (unsigned i = 3; i < loop->operand_count; i++) ir_set_operand(loop, i, for_all(g, loop, loop->operands[i]));
    for (unsigned i = 1; i < loop->regions[0]->arg_count; i++)
        loop->regions[0]->args[i]->type = grouped_type(g, loop->regions[0]->args[i]->type);
    for (unsigned r = 0; r < loop->result_count; r++) loop->results[r].type = grouped_type(g, loop->results[r].type);
    group_body(g, loop->regions[0]);
    IrOp *yield = loop->regions[0]->last;
    for (unsigned i = 0; i < yield->operand_count; i++) ir_set_operand(yield, i, for_all(g, yield, yield->operands[i]));
}

static void group_op(Group *g, IrOp *op) {
    if (is_terminator(op) || is_scalar_arithmetic(op)) return;
    if (is_loop(op)) {
        group_loop(g, op);
        return;
    }
    if (op->opcode == IR_TILE_STORE) {
        group_access(g, op);
        return;
    }
    if (!varies(g, &op->results[0])) return;
    if (op->opcode == IR_TILE_LOAD) {
        group_access(g, op);
        return;
    }
    if (op->opcode == IR_TILE_EXTRACT) {
        group_extract(g, op);
        return;
    }
    bool together = ir_has_trait(op, IR_ELEMENTWISE) || op->opcode == IR_TILE_SCAN; /* operands of one shape */
    for (unsigned i = 0; together && i < op->operand_count; i++) ir_set_operand(op, i, for_all(g, op, op->operands[i]));
    insert_axis(op, "axes");
    insert_axis(op, "axis");
    for (unsigned r = 0; r < op->result_count; r++) op->results[r].type = grouped_type(g, op->results[r].type);
}

static void group_body(Group *g, IrBlock *body) {
    for (IrOp *op = body->first, *next; op; op = next) {
        next = op->next;
        group_op(g, op);
    }
}

static void group(Group *g) {
    IrBuilder b = ir_builder_before(g->loop);
    group_body(g, g->loop->regions[0]);
    ir_set_operand(g->loop, 2, ir_const_index(&b, g->rows));
    if (is_shared(g)) return; /* a thread holds the same lanes of all rows */
    int64_t warps = 1;
    while (2 * warps <= MOST_WARPS && 2 * warps <= g->rows) warps *= 2;
    ir_func_set_int(g->func, IR_FN_NUM_WARPS, warps);
    if (!g->moves_window) ir_func_set_int(g->func, IR_FN_ROWS_IN_WARP, 1);
}

/* Can iterations of that loop become one? */
static bool may_group(Group *g, IrOp *loop) {
    int64_t step;
    if (!aff_is_const(ir_aff_of(g->ctx->module, loop->operands[2]), &step) || step != 1) return false;
    g->loop = loop;
    g->number = loop->regions[0]->args[0];
    g->varies = pointer_table(g->ctx->scratch);
    g->lanes = g->shared = 0;
    g->scans = false;
    if (!read_body(g, loop->regions[0])) return false;
    return is_shared(g) || (g->lanes <= (g->moves_window ? WINDOW_SHORT : SHORT) && (g->moves_window || loop == g->innermost));
}

/* It may be a loop around the innermost one whose iterations are alike. */
static void group_rows(PassContext *ctx, IrFunc *f) {
    Group g = {.ctx = ctx, .func = f};
    if (ir_func_cluster(f) > 1 || ir_func_has(f, IR_FN_RESIDENT) || ir_func_has(f, IR_FN_ROTATED) || ir_func_int(f, IR_FN_NUM_WARPS, 1) > 1)
        return;
    g.innermost = innermost_loop(&g);
    for (IrOp *loop = g.innermost; loop; loop = loop->block->parent) {
        if (!may_group(&g, loop)) continue;
        g.rows = rows_for(&g);
        if (g.rows > 1) group(&g);
        return;
    }
}

bool pass_group_rows(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f; f = f->next)
        if (ctx->target->kind == TARGET_CUDA && f->level == IR_LEVEL_TILE && f->state == IR_STATE_STATIC) group_rows(ctx, f);
    return true;
}
