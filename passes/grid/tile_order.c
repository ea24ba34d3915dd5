/* In which order blocks take the tiles of a product's result: for grid.c, where the sketch does not say `swizzle`.
 *
 * The R resident blocks of a wave advance through K together. In row-major order a wave reads R / columns panels of the left factor and
 * min(R, columns) panels of the right one; in groups of g rows it reads g and R / g. Grouped order costs divisions in
 * front of each tile. It saves memory traffic, which costs power even where products hide it (docs/decisions/split-products.md). So groups are used
 * only if both hold:
 *
 *   - reading what row-major order reads takes device memory longer than WORTH_PERCENT of the time that the wave's products take,
 *     which depends on tiles and columns alone, and
 *   - the right factor is larger than its share of L2: otherwise it is read once anyway.
 *
 * The group is the larger of two numbers: the power of two at which a wave reads least, and the rows whose left factors fit into half of
 * L2's share, which are then read once for the group. Columns and bytes are those of the launch; if no case needs groups, there are none.
 *
 * source: Triton's grouped ordering; the roofs are those of model/cost.h */
#include "tile_order.h"

#include "analysis/gemm_cost.h"

enum {
    WORTH_PERCENT = 35, /* of the time of a wave's products that reading may take without groups (note 28) */
    L2_PERCENT = 60     /* of L2 that factors may fill (note 28) */
};

typedef struct {
    PassContext *ctx;
    IrFunc *func;
    IrOp *row, *column;
    const Aff *rows, *columns;
    GemmCost cost;
    int64_t row_bytes, column_bytes; /* of one iteration's factors, that of a row of tiles and that of a column */
} Tiles;

/* ---- What is multiplied ---- */

/* Loads of the gemms' block by the loop that moves them; false: one moves with both. */
static bool add_load(Tiles *t, const IrOp *load) {
    bool row = gemm_cost_moves_with(t->ctx, load, t->row), column = gemm_cost_moves_with(t->ctx, load, t->column);
    if (row) t->row_bytes += gemm_cost_tile_bytes(load->results[0].type);
    if (column) t->column_bytes += gemm_cost_tile_bytes(load->results[0].type);
    return !(row && column);
}

/* All gemms stand in one block, in the innermost of the loops or in one loop there, and move with the one loop or with the other. */
static bool survey(Tiles *t) {
    if (!gemm_cost(t->ctx, t->func, &t->cost)) return false;
    const IrOp *around = t->cost.block->parent;
    if (around != t->column && (!around || around->opcode != IR_FOR || around->block != t->column->regions[0])) return false;
    for (const IrOp *op = t->cost.block->first; op; op = op->next)
        if (op->opcode == IR_TILE_LOAD && !add_load(t, op)) return false;
    return t->row_bytes > 0 && t->column_bytes > 0;
}

/* ---- What it costs ---- */

/* Bytes that a wave reads in an iteration in groups of `group` rows, where there are so many columns. */
static double wave_bytes(const Tiles *t, double resident, double group, double columns) {
    double wide = resident / group < columns ? resident / group : columns;
    return resident / wide * (double)t->row_bytes + wide * (double)t->column_bytes;
}

/* The least number of columns at which row after row is too much for the memory; 0: it never is. */
static int64_t columns_too_many(const Tiles *t, const CostMachine *m, double resident) {
    double blocks = resident / (double)m->sms, seconds = blocks * gemm_cost_seconds(&t->cost, t->ctx->target, m);
    double room = m->read * seconds * WORTH_PERCENT / 100;
    int64_t columns = 1; /* where rows and columns of a wave are worth the same, the bytes are least */
    while ((double)(columns * columns) * (double)t->column_bytes < resident * (double)t->row_bytes) columns++;
    for (; (double)columns <= resident; columns++)
        if (wave_bytes(t, resident, 1, (double)columns) > room) return columns;
    return 0;
}

static int64_t best_group(const Tiles *t, double resident) {
    int64_t best = 1;
    for (int64_t group = 2; (double)group <= resident; group *= 2)
        if (wave_bytes(t, resident, (double)group, resident) < wave_bytes(t, resident, (double)best, resident)) best = group;
    return best;
}

/* ---- As formulas over the launch's sizes ---- */

static const Aff *once_a_launch(IrFunc *f, const char *stem, const Aff *formula) {
    int64_t value;
    if (aff_is_const(formula, &value)) return formula;
    DerivedSymbol symbol = derived_symbol(f->module, stem, formula);
    kernel_add_symbol(f, symbol);
    return symbol.name;
}

/* 1 where groups are worth it, else 0: enough columns, whose factor is larger than its share. */
static const Aff *worth_formula(const Tiles *t, const Aff *trips, int64_t too_many) {
    AffCtx *c = t->ctx->module->affs;
    const Aff *share = aff_const(c, t->ctx->target->l2_bytes / 100 * L2_PERCENT);
    const Aff *beyond = aff_sub(c, aff_mul(c, aff_mul(c, t->columns, trips), aff_const(c, t->column_bytes)), share);
    const Aff *least = aff_min(c, aff_sub(c, t->columns, aff_const(c, too_many - 1)), beyond);
    return aff_max(c, aff_const(c, 0), aff_min(c, aff_const(c, 1), least));
}

static const Aff *group_formula(const Tiles *t, const Aff *trips, const Aff *worth, int64_t best) {
    AffCtx *c = t->ctx->module->affs;
    const Aff *one = aff_const(c, 1), *half = aff_const(c, t->ctx->target->l2_bytes / 200 * L2_PERCENT);
    const Aff *kept = aff_floordiv(c, half, aff_add(c, one, aff_mul(c, trips, aff_const(c, t->row_bytes))));
    const Aff *group = aff_min(c, aff_max(c, kept, aff_const(c, best)), t->rows);
    return aff_add(c, one, aff_mul(c, worth, aff_sub(c, group, one)));
}

/* Whether groups are worth it, by the launch's sizes; NULL: for no case. */
static const Aff *worth_for_cases(Tiles *t, const Aff **trips, double *resident) {
    PassContext *ctx = t->ctx;
    CostMachine machine;
    if (!cost_machine(ctx->target, &machine) || machine.products <= 0 || !survey(t)) return NULL;
    const IrOp *loop = t->cost.block->parent;
    *trips = loop == t->column ? aff_const(ctx->module->affs, 1) : loop_trips(ctx->module, loop);
    bool known = aff_over_symbols(*trips) && aff_over_symbols(t->rows) && aff_over_symbols(t->columns);
    if (!known || !aff_prove_nonneg(ir_facts_at(ctx->scratch, t->row), *trips)) return NULL;
    *resident = (double)(gemm_cost_beside(&t->cost, ctx, t->func) * ctx->target->sms);
    int64_t too_many = columns_too_many(t, &machine, *resident);
    const Aff *worth = too_many ? worth_formula(t, *trips, too_many) : NULL;
    return worth && step_is_asked_for(ctx, t->func, worth) ? worth : NULL;
}

bool tile_order_is_asked_for(PassContext *ctx, IrFunc *f, IrOp *row, IrOp *column) {
    Tiles t = {.ctx = ctx,
               .func = f,
               .row = row,
               .column = column,
               .rows = loop_trips(ctx->module, row),
               .columns = loop_trips(ctx->module, column)};
    const Aff *trips;
    double resident;
    return worth_for_cases(&t, &trips, &resident);
}

const Aff *tile_order_group(PassContext *ctx, IrFunc *f, IrOp *row, IrOp *column, const Aff *rows, const Aff *columns) {
    Tiles t = {.ctx = ctx, .func = f, .row = row, .column = column, .rows = rows, .columns = columns};
    const Aff *trips;
    double resident;
    const Aff *worth = worth_for_cases(&t, &trips, &resident);
    if (!worth) return NULL;
    worth = once_a_launch(f, "grouped", worth);
    return once_a_launch(f, "order", group_formula(&t, trips, worth, best_group(&t, resident)));
}
