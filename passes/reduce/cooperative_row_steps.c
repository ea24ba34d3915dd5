/* The step that cooperative_row_reduction makes of three: its nest, the blocks' shares, and the sums that they keep. */
#include "analysis/analysis.h"
#include "cooperative_row_internal.h"

#include <string.h>

/* ---- The new steps ---- */

static void add_symbols(const Rows *r, IrFunc *func) {
    const Aff *sms = aff_sym(r->ctx->module->affs, "num_sms");
    func_add_symbol(func, (DerivedSymbol){sms, sms});
    func_add_symbol(func, r->used);
}

/* Rows of whole pieces of 16 bytes. */
static void add_workspaces(const Rows *r, IrFunc *func) {
    enum { PIECE_ELEMENTS = 4 };
    IrModule *m = r->ctx->module;
    const Aff *piece = aff_const(m->affs, PIECE_ELEMENTS), *pitch = aff_mul(m->affs, piece, aff_ceildiv(m->affs, r->chunks, piece));
    const Aff *extents[] = {r->rows, pitch}, *elements = aff_mul(m->affs, r->used.name, r->rows);
    for (unsigned i = 0; i < r->fold_count; i++) {
        Dtype dtype = r->folds[i]->results[0].type->dtype;
        func_add_workspace(func, r->sums[i], ir_type_tensor(m, dtype, 2, extents), aff_mul(m->affs, elements, pitch));
    }
    if (r->counters) func_add_workspace(func, r->counters, ir_type_tensor(m, DTYPE_I32, 1, extents), elements);
}

/* Loops over `trips` ahead of all that the function does, one in the other; a builder in the innermost. */
static IrBuilder make_nest(IrFunc *func, unsigned depth, const Aff *const *trips, const char *const *names, IrValue **variables) {
    IrBuilder b = ir_builder_before(func->body->first);
    for (unsigned i = 0; i < depth; i++) {
        IrValue *bounds[] = {ir_const_index(&b, 0), ir_aff_emit(&b, trips[i]), ir_const_index(&b, 1)};
        IrOp *loop = ir_op_create(&b, IR_PARALLEL, 3, bounds, 0, NULL);
        variables[i] = ir_region_add_arg(loop->regions[0], ir_type_index(func->module), names[i]);
        IrBuilder in = ir_builder_at_end(loop->regions[0]);
        ir_yield(&in, 0, NULL);
        b = ir_builder_before(loop->regions[0]->last);
    }
    return b;
}

enum { USED, ROW, INNER, PIECE, NEST };

static IrBuilder make_grid(const Rows *r, IrFunc *func, IrValue **variables) {
    const Aff *trips[] = {r->used.name, r->rows, r->inner, cooperative_chunks_of_part(r)};
    static const char *const names[] = {"used", "row", "inner", "chunk"};
    return make_nest(func, NEST, trips, names, variables);
}

static void erase_loop(IrOp *loop) {
    for (IrOp *op = loop->regions[0]->last, *before; op; op = before) {
        before = op->prev;
        if (op->region_count)
            erase_loop(op);
        else
            ir_op_erase(op);
    }
    ir_op_erase(loop);
}

/* The old body goes, with what it computed ahead of its loops. */
static void drop_old(const Rows *r, IrFunc *func, IrOp *loop) {
    erase_loop(loop);
    remove_unused(r->ctx->scratch, func->body);
    ir_func_set_int(func, IR_FN_NUM_WARPS, r->shape->threads / 32);
    ir_func_set_int(func, IR_FN_MIN_BLOCKS, r->shape->blocks);
    ir_func_set_int(func, IR_FN_ROW_LANES, cooperative_chunk_of(r)); /* no passes over a chunk */
}

/* Clones an op of the class for a chunk in place of what it was made for. */
static IrOp *clone_chunk(const Rows *r, IrBuilder *b, IrOp *op, IrValueMap *map, const Axes *axes, size_t index, IrValue *const *span) {
    IrModule *m = r->ctx->module;
    IrOp *copy = ir_op_clone(b, op, map);
    bool store = op->opcode == IR_TILE_STORE;
    const IrValue *tile = store ? op->operands[0] : op->result_count ? &op->results[0] : NULL;
    int axis = tile && is_tile(tile) ? axes_find(axes, tile, index) : -1;
    if (axis < 0) return copy;
    if (!store) copy->results[0].type = type_with_extent(m, copy->results[0].type, (unsigned)axis, cooperative_chunk_of(r));
    unsigned operand, tensor_axis;
    if ((store || op->opcode == IR_TILE_LOAD) && slice_operand(op, (unsigned)axis, &operand, &tensor_axis)) {
        ir_set_operand(copy, operand, span[0]);
        ir_set_operand(copy, operand + 1, span[1]);
    }
    return copy;
}

static void make_span(const Rows *r, IrBuilder *b, IrValue *chunk, IrValue **span) {
    IrValue *length = ir_const_index(b, cooperative_chunk_of(r));
    span[0] = ir_binary(b, IR_MUL, chunk, length);
    span[1] = ir_binary(b, IR_ADD, span[0], length);
}

/* The chunk's place among those of its row. */
static IrValue *number_of(const Rows *r, IrBuilder *b, IrValue *const *variables) {
    return ir_binary(b, IR_ADD, ir_binary(b, IR_MUL, variables[INNER], ir_aff_emit(b, cooperative_chunks_of_part(r))), variables[PIECE]);
}

static bool is_cloned(const IrOp *op) {
    return !op->region_count && !is_terminator(op);
}

static void make_shares(const Rows *r, IrFunc *func) {
    OpList ops = ops_collect(r->ctx->scratch, func->body);
    IrOp *outer = NULL;
    const Axes *axes = axes_analyse(r->ctx->scratch, func);
    IrValue *variables[NEST], *span[2];
    IrValueMap *map = ir_value_map_create(r->ctx->scratch);
    IrBuilder b = make_grid(r, func, variables);
    make_span(r, &b, variables[PIECE], span);
    unsigned loop = 0;
    size_t index = SIZE_MAX;
    for (size_t i = 0; i < ops.len; i++) {
        IrOp *op = ops.data[i];
        if (op->opcode == IR_PARALLEL) { /* in the order in which the loops of A were found */
            if (!outer) outer = op;
            const IrValue *old = r->part.loops[loop++]->regions[0]->args[0];
            ir_value_map_set(map, op->regions[0]->args[0], variables[old == r->part_row ? ROW : INNER]);
        }
        if (r->part.ops.data[i] == r->load) index = axes_of(axes, &op->results[0], 0);
    }
    for (size_t i = 0; i < ops.len; i++) {
        IrOp *op = ops.data[i];
        if (!is_cloned(op)) continue;
        if (op->opcode != IR_TILE_STORE) {
            clone_chunk(r, &b, op, map, axes, index, span);
            continue;
        }
        unsigned k = 0;
        while (r->stores[k] != r->part.ops.data[i]) k++;
        b.span = op->span;
        IrValue *fold = ir_value_map_get(map, op->operands[0]), *number = number_of(r, &b, variables);
        IrValue *operands[] = {fold, param_named(func, r->sums[k]), variables[ROW], number};
        ir_attr_set_str(ir_op_create(&b, IR_TILE_STORE, 4, operands, 0, NULL), "axes", "pp");
    }
    drop_old(r, func, outer);
}

/* F's ops, for the row of this block; what it would store, by name, in `results`. */
static void finish_here(const Rows *r, IrFunc *func, IrBuilder *b, IrValue *const *variables, PointerTable *results, IrValue **values) {
    IrModule *m = r->ctx->module;
    IrValueMap *map = ir_value_map_create(r->ctx->scratch);
    const IrFunc *from = r->finish.func;
    int64_t lanes = cooperative_most_chunks(r);
    uint32_t count = 0;
    for (unsigned i = 0; i < from->param_count; i++) ir_value_map_set(map, from->body->args[i], param_named(func, from->params[i].name));
    ir_value_map_set(map, r->finish.loops[0]->regions[0]->args[0], variables[ROW]);
    for (size_t i = 0; i < r->finish.ops.len; i++) {
        IrOp *op = r->finish.ops.data[i];
        if (!is_cloned(op)) continue;
        if (op->opcode == IR_TILE_STORE) {
            values[count] = ir_value_map_get(map, op->operands[0]);
            pointer_table_set(results, op, count++);
            continue;
        }
        b->span = op->span;
        unsigned which = 0;
        const char *name = op->opcode == IR_TILE_LOAD ? cooperative_workspace_of(from, op->operands[0]) : NULL;
        while (which < r->fold_count && (!name || strcmp(r->partials[which], name) != 0)) which++;
        if (which < r->fold_count) {
            IrValue *operands[] = {param_named(func, r->sums[which]), variables[ROW], ir_const_index(b, 0), ir_aff_emit(b, r->chunks)};
            const IrType *type = type_with_extent(m, op->results[0].type, 0, lanes);
            IrOp *load = ir_op_create(b, IR_TILE_LOAD, 4, operands, 1, &type);
            ir_attr_set_str(load, "axes", "pr");
            ir_value_map_set(map, &op->results[0], ir_result(load, 0));
            continue;
        }
        IrOp *copy = ir_op_clone(b, op, map);
        if (copy->result_count && is_tile(&copy->results[0]) && copy->results[0].type->rank == 1)
            copy->results[0].type = type_with_extent(m, copy->results[0].type, 0, lanes);
    }
}

static void make_kept(const Rows *r, IrFunc *func) {
    OpList ops = ops_collect(r->ctx->scratch, func->body);
    const Axes *axes = axes_analyse(r->ctx->scratch, func);
    IrOp *outer = NULL;
    IrValue *variables[NEST], *span[2], **values = ARENA_ARRAY(r->ctx->scratch, IrValue *, r->finish.ops.len + 1);
    IrValueMap *map = ir_value_map_create(r->ctx->scratch);
    PointerTable results = pointer_table(r->ctx->scratch);
    IrBuilder b = make_grid(r, func, variables);
    make_span(r, &b, variables[PIECE], span);
    finish_here(r, func, &b, variables, &results, values);
    unsigned loop = 0;
    size_t index = SIZE_MAX;
    for (size_t i = 0; i < ops.len; i++) {
        IrOp *op = ops.data[i];
        if (r->map.ops.data[i] == r->again) index = axes_of(axes, &op->results[0], 0);
        if (op->opcode != IR_PARALLEL) continue;
        const IrValue *old = r->map.loops[loop++]->regions[0]->args[0];
        if (!outer) outer = op;
        ir_value_map_set(map, op->regions[0]->args[0], variables[old == r->map_row ? ROW : old == r->map_inner ? INNER : PIECE]);
    }
    for (size_t i = 0; i < ops.len; i++) {
        IrOp *op = ops.data[i];
        uint32_t which;
        if (!is_cloned(op)) continue;
        const IrOp *stored =
            op->opcode == IR_TILE_LOAD ? cooperative_store_named(r, cooperative_workspace_of(func, op->operands[0])) : NULL;
        if (stored && pointer_table_get(&results, stored, &which)) {
            ir_value_map_set(map, &op->results[0], values[which]);
            continue;
        }
        clone_chunk(r, &b, op, map, axes, index, span);
    }
    drop_old(r, func, outer);
}

/* What blocks wait for is not there yet. */
static void clear_sums(const Rows *r, IrFunc *func) {
    IrModule *m = r->ctx->module;
    const Aff *lanes = aff_const(m->affs, cooperative_most_chunks(r)), *trips[] = {r->used.name, r->rows};
    static const char *const names[] = {"used", "row"};
    IrValue *variables[2];
    IrBuilder b = make_nest(func, 2, trips, names, variables);
    IrValue *zero = tile_splat(&b, ir_type_tile(m, DTYPE_F32, 1, &lanes, NULL), 0);
    for (unsigned i = 0; i < r->fold_count; i++) {
        IrValue *operands[] = {zero, param_named(func, r->sums[i]), variables[1], ir_const_index(&b, 0), ir_aff_emit(&b, r->chunks)};
        ir_attr_set_str(ir_op_create(&b, IR_TILE_STORE, 5, operands, 0, NULL), "axes", "pr");
    }
}

static void clear_counters(const Rows *r, IrFunc *func) {
    enum { ZEROS = 1024 };
    IrModule *m = r->ctx->module;
    const Aff *lanes = aff_const(m->affs, ZEROS), *trips[] = {r->used.name, aff_ceildiv(m->affs, r->rows, lanes)};
    static const char *const names[] = {"used", "some"};
    IrValue *variables[2];
    IrBuilder b = make_nest(func, 2, trips, names, variables);
    IrValue *begin = ir_binary(&b, IR_MUL, variables[1], ir_const_index(&b, ZEROS));
    IrValue *zero = tile_splat(&b, ir_type_tile(m, DTYPE_I32, 1, &lanes, NULL), 0);
    IrValue *operands[] = {zero, param_named(func, r->counters), begin, ir_binary(&b, IR_ADD, begin, ir_const_index(&b, ZEROS))};
    ir_attr_set_str(ir_op_create(&b, IR_TILE_STORE, 4, operands, 0, NULL), "axes", "r");
}

static void make_zeros(const Rows *r, IrFunc *func) {
    OpList ops = ops_collect(r->ctx->scratch, func->body);
    if (r->counters)
        clear_counters(r, func);
    else
        clear_sums(r, func);
    ir_func_set_int(func, IR_FN_VECTOR_BYTES, 1); /* too little for versions */
    for (size_t i = 0; i < ops.len; i++)
        if (ops.data[i]->opcode == IR_PARALLEL) {
            erase_loop(ops.data[i]);
            break;
        }
    remove_unused(r->ctx->scratch, func->body);
}

/* A sibling right behind `of`, with the symbols and workspaces. */
static IrFunc *add_step(const Rows *r, IrFunc *of, const char *what) {
    IrFunc *func = ir_func_clone(of, of->name);
    step_name(func, step_new_name(r->ctx->module, r->part.func->name, what), 0);
    add_symbols(r, func);
    add_workspaces(r, func);
    return func;
}

void cooperative_keep(Rows *r) {
    IrModule *m = r->ctx->module;
    IrFunc *old[] = {r->part.func, r->finish.func, r->map.func};
    int64_t step = ir_step_order(old[0]);
    r->used = derived_symbol(m, "kept", cooperative_used_with(r, aff_sym(m->affs, "num_sms")));
    if (!r->shape->pipelined) r->counters = param_new_name(m, "arrived");
    for (unsigned i = 0; i < r->fold_count; i++) r->sums[i] = param_new_name(m, arena_printf(m->arena, "%s_all", r->partials[i]));
    steps_make_room(m, step + 2, 3);
    IrFunc *shares = add_step(r, old[0], "shares"), *zeros = add_step(r, old[0], "zeros"), *kept = add_step(r, old[2], "kept");
    make_zeros(r, zeros);
    make_shares(r, shares);
    make_kept(r, kept);
    ir_func_set_str(kept, IR_FN_FUSE_BEHIND, shares->name);
    if (r->counters)
        ir_func_set_str(kept, IR_FN_COUNTERS, r->counters);
    else
        ir_func_set_int(kept, IR_FN_PIPELINED_CONSUMER, 1);
    ir_func_set_aff(kept, IR_FN_OF_ROW, r->chunks);
    for (unsigned i = 0; i < COUNT_OF(old); i++) {
        add_symbols(r, old[i]);
        step_repeat(old[i], aff_sub(m->affs, aff_const(m->affs, 1), r->used.name), "alone");
    }
    IrFunc *all[] = {old[0], zeros, shares, old[1], old[2], kept}; /* as they stand in the module */
    for (unsigned i = 0; i < COUNT_OF(all); i++) ir_step_move(all[i], step + (int64_t)i);
}
