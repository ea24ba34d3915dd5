/* Pass reshape_column_reduction: a reduction over the rows of a matrix whose rows are not multiples of 16 bytes takes V rows as one, so
 * that its rows are.
 *
 * what:   V elements are 16 bytes. A kernel that only reduces a tensor [.., K, N] over all of its K rows, in tiles of columns, becomes
 *         three steps:
 *           fold      reduces the same memory as [.., K / V, V * N], whose rows begin at multiples of 16 bytes,
 *                     into a workspace [.., V * N]
 *           finish    the kernel, reducing the workspace as [.., V, N]
 *           as it was
 *         The workspace of an arg-reduction holds numbers of groups of V rows; the finish reads the rows of these groups again.
 *         The sizes of the launch decide which grids are empty: those of fold and finish, or that of the last. Fold and finish run if K is
 *         a multiple of V (then the matrices of the tensor begin at multiples of 16 bytes too), N is not a multiple of V, and K is
 *         so large that the finish costs little. The steps are made only if a case has such a size.
 * needs:  tile functions in state open, after strip_mine; target cuda
 * keeps:  values but for the order in which floats are summed; names
 * breaks: steps are numbered anew; all functions get one more workspace
 * source: own
 *
 *     parallel(0, ceil(N, T)) (%j) {                      parallel(0, folds) { parallel(0, ceil(V * N, T)) (%j) {
 *       %x = tile.load(%X, %b, 0, K, jT, jT + T)    =>      %x = tile.load(%X, %b, 0, K / V, jT, jT + T)
 *       %y = tile.reduce(%x)                                %y = tile.reduce(%x)
 *       tile.store(f(%y), %Y, ...)                          tile.store(%y, %W, %b, jT, jT + T) } }
 */
#include <string.h>

#include "analysis/analysis.h"

enum { WORTH = 64 }; /* rows of the fold, at least: the finish reads a share of 1 / WORTH again */

typedef struct {
    PassContext *ctx;
    IrFunc *func;
    IrOp *loop, *load, *reduce;
    size_t load_at, reduce_at, loop_at; /* their numbers in program order */
    uint8_t *chain;                     /* of each op: is it the load or between it and the reduction? */
    int64_t group, tile;                /* V, T */
    unsigned rank;                      /* of the tensor */
    const Aff *rows, *columns, *folds;  /* K, N; 1 where the fold is used, else 0 */
    const char *workspace;
} Fold;

/* ---- Which kernels ---- */

static IrOp *sole_reduction(const OpList *ops) {
    IrOp *found = NULL;
    for (size_t i = 0; i < ops->len; i++) {
        IrOp *op = ops->data[i];
        if ((op->opcode != IR_TILE_REDUCE && op->opcode != IR_TILE_ARG) || op->operands[0]->type->rank != 2) continue;
        if (found) return NULL;
        found = op;
    }
    return found;
}

/* Is the tile made of constants and one load alone, lane by lane? Marks what is between. */
static bool follow(Fold *f, const OpList *ops, const IrValue *v) {
    const IrOp *op = v->def;
    if (!op || op->block != f->loop->regions[0]) return op && op->opcode == IR_CONST;
    if (op->opcode == IR_CONST) return true;
    if (op->opcode == IR_TILE_LOAD) {
        if (f->load && f->load != op) return false;
        f->load = v->def;
    } else if (!ir_has_trait(op, IR_ELEMENTWISE)) {
        return false;
    }
    if (!is_tile(v) || v->type->rank != 2) return false;
    for (size_t i = 0; i < ops->len; i++)
        if (ops->data[i] == op) f->chain[i] = 1;
    for (unsigned i = 0; op != f->load && i < op->operand_count; i++)
        if (!follow(f, ops, op->operands[i])) return false;
    return true;
}

static bool used_by_chain_alone(const Fold *f, const OpList *ops) {
    for (size_t i = 0; i < ops->len; i++) {
        if (!f->chain[i]) continue;
        for (const IrUse *use = ops->data[i]->results[0].uses; use; use = use->next) {
            bool inside = use->op == f->reduce;
            for (size_t k = 0; k < ops->len && !inside; k++) inside = f->chain[k] && ops->data[k] == use->op;
            if (!inside) return false;
        }
    }
    return true;
}

/* Does the load take all rows, and each iteration of its loop the next T columns, to the end? */
static bool reads_all(Fold *f) {
    IrModule *m = f->ctx->module;
    AffCtx *c = m->affs;
    IrSlice slice = ir_slice(f->load);
    const IrType *tensor = f->load->operands[0]->type;
    unsigned row = slice.rank - 2, column = slice.rank - 1;
    if (slice.rank < 2 || slice.axes[row].letter != IR_LETTER_RANGE || slice.axes[column].letter != IR_LETTER_RANGE) return false;
    if (slice.axes[row].step != 1 || slice.axes[column].step != 1 || ir_attr(f->load, "pad")) return false;
    IrValue *variable = f->loop->regions[0]->args[0], **operands = f->load->operands;
    for (unsigned i = 0; i < row; i++)
        if (slice.axes[i].letter != IR_LETTER_POINT || aff_depends_on(ir_aff_of(m, operands[slice.axes[i].operand]), variable))
            return false;
    f->rank = slice.rank;
    f->rows = tensor->extents[row], f->columns = tensor->extents[column];
    int64_t constant, step;
    if (!aff_is_const(f->load->results[0].type->extents[1], &f->tile) || aff_is_const(f->rows, &constant)) return false;
    const Aff *zero = aff_const(c, 0), *tile = aff_const(c, f->tile);
    if (ir_aff_of(m, operands[slice.axes[row].operand]) != zero || ir_aff_of(m, operands[slice.axes[row].operand + 1]) != f->rows)
        return false;
    const Aff *begin = ir_aff_of(m, operands[slice.axes[column].operand]), *v = ir_aff_of(m, variable);
    const Aff *end = ir_aff_of(m, operands[slice.axes[column].operand + 1]), *bound = ir_aff_of(m, f->loop->operands[1]);
    if (!aff_is_const(ir_aff_of(m, f->loop->operands[2]), &step) || ir_aff_of(m, f->loop->operands[0]) != zero) return false;
    bool numbered = step == 1 && begin == aff_mul(c, v, tile) && bound == aff_ceildiv(c, f->columns, tile);
    bool stepped = step == f->tile && begin == v && bound == f->columns;
    return (numbered || stepped) && (end == aff_add(c, begin, tile) || end == f->columns);
}

/* 1 for sizes that the fold is for, else 0. */
static const Aff *use_of(const Fold *f) {
    AffCtx *c = f->ctx->module->affs;
    const Aff *one = aff_const(c, 1), *group = aff_const(c, f->group);
    const Aff *whole = aff_sub(c, one, aff_mod(c, f->rows, group));
    const Aff *odd = aff_mod(c, f->columns, group);
    const Aff *worth = aff_sub(c, f->rows, aff_const(c, WORTH * f->group));
    return aff_max(c, aff_const(c, 0), aff_min(c, one, aff_min(c, whole, aff_min(c, odd, worth))));
}

static bool folds_rows(const IrOp *reduce) {
    const IrAttr *axes = ir_attr(reduce, "axes");
    return reduce->opcode == IR_TILE_ARG ? ir_attr_int(reduce, "axis", -1) == 0 : axes->count == 1 && axes->ints[0] == 0;
}

/* Would the workspace round what the kernel does not? */
static bool rounds(const IrOp *reduce) {
    Dtype dtype = reduce->results[0].type->dtype;
    if (reduce->opcode == IR_TILE_ARG || !dtype_is_float(dtype) || dtype_size(dtype) >= 4) return false;
    IrOpcode combine = reduce_opcode(ir_op_kind(reduce));
    return combine == IR_ADD || combine == IR_MUL;
}

static bool find(Fold *f) {
    OpList ops = ops_collect(f->ctx->scratch, f->func->body);
    f->reduce = sole_reduction(&ops);
    if (!f->reduce || !f->reduce->block->parent) return false;
    f->loop = f->reduce->block->parent;
    f->chain = ARENA_ARRAY(f->ctx->scratch, uint8_t, ops.len + 1);
    memset(f->chain, 0, ops.len);
    if (f->loop->opcode != IR_PARALLEL || !folds_rows(f->reduce) || rounds(f->reduce)) return false;
    if (!is_plain_nest(&ops, f->reduce->block) || !follow(f, &ops, f->reduce->operands[0]) || !f->load) return false;
    IrValue *tensor = f->load->operands[0];
    if (tensor->def || tensor->type->strides || is_stored_to(tensor) || !used_by_chain_alone(f, &ops) || !reads_all(f)) return false;
    if (f->reduce->opcode == IR_TILE_ARG && f->reduce->operands[0]->def != f->load) return false; /* read again by its index */
    f->group = 16 / (int64_t)dtype_size(tensor->type->dtype);
    f->folds = use_of(f);
    for (size_t i = 0; i < ops.len; i++) {
        if (ops.data[i] == f->load) f->load_at = i;
        if (ops.data[i] == f->loop) f->loop_at = i;
        if (ops.data[i] == f->reduce) f->reduce_at = i;
    }
    return f->group > 1 && step_is_asked_for(f->ctx, f->func, f->folds);
}

/* ---- The three steps ---- */

/* The tensor's leading extents, then `rows` unless it is null, then `columns`. */
static const IrType *matrix_type(const Fold *f, Dtype dtype, const Aff *rows, const Aff *columns) {
    const Aff *extents[IR_SLICE_MAX_RANK];
    unsigned rank = f->rank - 2;
    for (unsigned i = 0; i < rank; i++) extents[i] = f->load->operands[0]->type->extents[i];
    if (rows) extents[rank++] = rows;
    extents[rank++] = columns;
    return ir_type_tensor(f->ctx->module, dtype, rank, extents);
}

static void add_workspace(Fold *f) {
    IrModule *m = f->ctx->module;
    AffCtx *c = m->affs;
    const Aff *group = aff_const(c, f->group);
    const IrType *type = matrix_type(f, f->reduce->results[0].type->dtype, NULL, aff_mul(c, group, f->columns));
    const Aff *elements = f->folds;
    for (unsigned i = 0; i < type->rank; i++) elements = aff_mul(c, elements, type->extents[i]);
    f->workspace = param_new_name(m, "folded");
    for (IrFunc *g = m->first; g; g = g->next)
        if (g->level == IR_LEVEL_TILE) func_add_workspace(g, f->workspace, type, elements);
}

static const IrType *with_rows(IrModule *m, const IrType *t, const Aff *rows) {
    const Aff *extents[] = {rows, t->extents[1]};
    return ir_type_tile(m, t->dtype, 2, extents, NULL);
}

/* The store of the fold, or the load of the finish: leading indices as the load of the tensor has them. */
static unsigned leading_operands(const IrOp *load, unsigned rank, IrValue **operands, char *axes) {
    IrSlice slice = ir_slice(load);
    for (unsigned i = 0; i + 2 < rank; i++) {
        operands[i] = load->operands[slice.axes[i].operand];
        axes[i] = IR_LETTER_POINT;
    }
    return rank - 2;
}

static void drop_stores(PassContext *ctx, IrFunc *func) {
    OpList ops = ops_collect(ctx->scratch, func->body);
    for (size_t i = 0; i < ops.len; i++)
        if (ops.data[i]->opcode == IR_TILE_STORE) ir_op_erase(ops.data[i]);
}

static void make_fold(const Fold *f, IrFunc *func) {
    IrModule *m = f->ctx->module;
    AffCtx *c = m->affs;
    OpList ops = ops_collect(f->ctx->scratch, func->body);
    IrOp *load = ops.data[f->load_at], *reduce = ops.data[f->reduce_at], *loop = ops.data[f->loop_at];
    const Aff *group = aff_const(c, f->group), *rows = aff_floordiv(c, f->rows, group), *columns = aff_mul(c, group, f->columns);
    IrValue *tensor = load->operands[0];
    IrSlice slice = ir_slice(load);
    unsigned row = slice.axes[f->rank - 2].operand, column = slice.axes[f->rank - 1].operand;
    drop_stores(f->ctx, func);
    param_see_as(func, tensor, matrix_type(f, tensor->type->dtype, rows, columns));
    IrBuilder b = ir_builder_before(load);
    b.span = load->span;
    ir_set_operand(load, row + 1, ir_aff_emit(&b, rows));
    ir_set_operand(load, column + 1, ir_binary(&b, IR_ADD, load->operands[column], ir_const_index(&b, f->tile)));
    for (size_t i = 0; i < ops.len; i++) {
        if (!f->chain[i]) continue;
        ops.data[i]->results[0].type = with_rows(m, ops.data[i]->results[0].type, rows);
        for (unsigned k = 0; ops.data[i] != load && k < ops.data[i]->operand_count; k++) {
            IrValue *v = ops.data[i]->operands[k];
            if (is_tile(v) && v->def->opcode == IR_CONST) v->type = with_rows(m, v->type, rows);
        }
    }
    ir_attr_remove(reduce, "keepdim");
    reduce->results[0].type = ir_type_tile(m, reduce->results[0].type->dtype, 1, &load->results[0].type->extents[1], NULL);
    b = ir_builder_after(reduce);
    b.span = reduce->span;
    IrValue *operands[IR_SLICE_MAX_RANK + 4] = {&reduce->results[0], param_named(func, f->workspace)};
    char axes[IR_SLICE_MAX_RANK] = {0};
    unsigned n = leading_operands(load, f->rank, operands + 2, axes);
    axes[n] = IR_LETTER_RANGE;
    operands[n + 2] = load->operands[column], operands[n + 3] = load->operands[column + 1];
    ir_attr_set_str(ir_op_create(&b, IR_TILE_STORE, n + 4, operands, 0, NULL), "axes", axes);
    int64_t step;
    b = ir_builder_before(loop);
    if (aff_is_const(ir_aff_of(m, loop->operands[2]), &step) && step == 1) columns = aff_ceildiv(c, columns, aff_const(c, f->tile));
    ir_set_operand(loop, 1, ir_aff_emit(&b, columns));
    remove_unused(f->ctx->scratch, func->body);
    step_repeat(func, f->folds, "used");
}

/* Of each group's rows the best is known by number: `group` tells which group of V rows. Reads them again. */
static void finish_arg(const Fold *f, IrOp *load, IrOp *arg, IrValue *group) {
    IrBuilder b = ir_builder_before(arg);
    b.span = load->span;
    const IrType *number = ir_type_scalar(b.module, DTYPE_I64);
    IrValue *row = ir_binary(&b, IR_ADD, ir_binary(&b, IR_MUL, group, ir_const_int(&b, number, f->group)), tile_iota(&b, group->type, 0));
    IrValue *begin = ir_cast(&b, load->operands[ir_slice(load).axes[f->rank - 1].operand], number);
    IrValue *column = ir_binary(&b, IR_ADD, tile_iota(&b, group->type, 1), begin);
    IrValue *operands[IR_SLICE_MAX_RANK + 3] = {load->operands[0]};
    char axes[IR_SLICE_MAX_RANK + 1] = {0};
    unsigned n = leading_operands(load, f->rank, operands + 1, axes);
    axes[n] = axes[n + 1] = IR_LETTER_GATHER;
    operands[n + 1] = row, operands[n + 2] = column;
    const IrType *type = ir_type_with_dtype(b.module, group->type, load->results[0].type->dtype);
    IrOp *again = ir_op_create(&b, IR_TILE_LOAD, n + 3, operands, 1, &type);
    ir_attr_set_str(again, "axes", axes);
    ir_replace_uses(&arg->results[0], tile_first_of_best(&b, arg, 0, ir_result(again, 0), row));
}

static void make_finish(const Fold *f, IrFunc *func) {
    IrModule *m = f->ctx->module;
    AffCtx *c = m->affs;
    OpList ops = ops_collect(f->ctx->scratch, func->body);
    IrOp *load = ops.data[f->load_at], *reduce = ops.data[f->reduce_at];
    const Aff *group = aff_const(c, f->group), *extents[] = {group, load->results[0].type->extents[1]};
    Dtype dtype = reduce->results[0].type->dtype;
    IrValue *workspace = param_named(func, f->workspace);
    param_see_as(func, workspace, matrix_type(f, dtype, group, f->columns));
    IrBuilder b = ir_builder_before(reduce);
    b.span = load->span;
    IrValue *operands[IR_SLICE_MAX_RANK + 5] = {workspace};
    char axes[IR_SLICE_MAX_RANK + 1] = {0};
    unsigned n = leading_operands(load, f->rank, operands + 1, axes), column = ir_slice(load).axes[f->rank - 1].operand;
    axes[n] = axes[n + 1] = IR_LETTER_RANGE;
    operands[n + 1] = ir_const_index(&b, 0), operands[n + 2] = ir_const_index(&b, f->group);
    operands[n + 3] = load->operands[column], operands[n + 4] = load->operands[column + 1];
    const IrType *type = ir_type_tile(m, dtype, 2, extents, NULL);
    IrOp *partial = ir_op_create(&b, IR_TILE_LOAD, n + 5, operands, 1, &type);
    ir_attr_set_str(partial, "axes", axes);
    partial->results[0].name = load->results[0].name;
    if (reduce->opcode == IR_TILE_ARG)
        finish_arg(f, load, reduce, ir_result(partial, 0));
    else
        ir_set_operand(reduce, 0, ir_result(partial, 0));
    remove_unused(f->ctx->scratch, func->body);
    step_repeat(func, f->folds, "used");
}

static void fold(Fold *f) {
    IrModule *m = f->ctx->module;
    const char *name = f->func->name;
    int64_t step = ir_step_order(f->func);
    steps_make_room(m, step, 2);
    add_workspace(f);
    IrFunc *as_it_was = ir_func_clone(f->func, name); /* clones follow the function at once: the steps stand in order */
    IrFunc *finish = ir_func_clone(f->func, name);
    step_name(as_it_was, name, step + 2);
    step_name(finish, step_new_name(m, name, "finish"), step + 1);
    step_name(f->func, step_new_name(m, name, "fold"), step);
    step_repeat(as_it_was, aff_sub(m->affs, aff_const(m->affs, 1), f->folds), "used");
    make_finish(f, finish);
    make_fold(f, f->func);
    ir_func_set_int(f->func, IR_FN_LONG_ROWS, 1); /* none is short enough to be kept whole */
}

bool pass_reshape_column_reduction(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first, *next; f; f = next) {
        next = f->next;
        if (f->level != IR_LEVEL_TILE || f->state != IR_STATE_OPEN) continue;
        Fold found = {.ctx = ctx, .func = f};
        if (find(&found)) fold(&found);
    }
    return true;
}
