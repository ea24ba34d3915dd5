/* The steps that split_reduction makes of one: parts that blocks reduce, and a step that finishes them. */
#include "analysis/analysis.h"
#include "grid/group_rows.h"
#include "split_reduction_internal.h"
#include "tile/split.h"

/* ---- The steps ---- */

void split_reduction_add_symbols(const SplitReduction *s, IrFunc *func) {
    func_add_symbol(func, s->most);
    func_add_symbol(func, s->used);
    func_add_symbol(func, s->pieces);
    func_add_symbol(func, s->parts);
}

/* Which of the kernel's iterations it is, in a builder of one of them. */
static IrValue *iteration(IrBuilder *b, const OpList *ops) {
    IrValue *number = ir_const_index(b, 0);
    for (size_t i = 0; i < ops->len; i++) {
        const IrOp *loop = ops->data[i];
        if (loop->opcode != IR_PARALLEL) continue;
        IrValue *iteration =
            ir_binary(b, IR_FLOORDIV, ir_binary(b, IR_SUB, loop->regions[0]->args[0], loop->operands[0]), loop->operands[2]);
        number = ir_binary(b, IR_ADD, ir_binary(b, IR_MUL, number, ir_aff_emit(b, loop_trips(b->module, loop))), iteration);
    }
    return number;
}

/* Of the parts of one reduction: by iteration, then as the reduced tile, with the parts in place of the axis. */
static const IrType *parts_type(const SplitReduction *s, const IrOp *fold) {
    const IrType *t = fold->operands[0]->type;
    unsigned own = split_reduction_fold_axis(fold);
    const Aff *extents[IR_SLICE_MAX_RANK + 1] = {s->iterations};
    for (unsigned i = 0; i < t->rank; i++) extents[i + 1] = i == own ? s->parts.name : t->extents[i];
    return ir_type_tensor(s->ctx->module, fold->results[0].type->dtype, t->rank + 1, extents);
}

void split_reduction_add_workspaces(SplitReduction *s, IrFunc *part, IrFunc *finish) {
    AffCtx *c = s->ctx->module->affs;
    for (unsigned i = 0; i < s->fold_count; i++) {
        const IrOp *fold = s->ops.data[s->folds[i]];
        const Aff *elements = aff_mul(c, aff_mul(c, s->used.name, s->iterations), split_reduction_room_in_memory(s));
        s->workspaces[i] = param_new_name(s->ctx->module, "partial");
        elements = aff_mul(c, elements, aff_const(c, split_reduction_others_of(s, fold->operands[0])));
        const IrType *type = parts_type(s, fold);
        func_add_workspace(part, s->workspaces[i], type, elements);
        func_add_workspace(finish, s->workspaces[i], type, elements);
    }
}

/* The indices of the tile's lanes in the workspace, along the reduced axis one part (`last` null) or from one to another. */
static unsigned parts_slice(const SplitReduction *s, IrBuilder *b, const IrOp *fold, const Presence *p, IrValue *number, IrValue *first,
                            IrValue *last, IrValue **operands, char *axes) {
    unsigned n = 0, own = split_reduction_fold_axis(fold);
    const IrType *t = fold->operands[0]->type;
    axes[0] = IR_LETTER_POINT;
    operands[n++] = number;
    for (unsigned a = 0; a < t->rank; a++) {
        axes[a + 1] = a == own && !last ? IR_LETTER_POINT : IR_LETTER_RANGE;
        operands[n++] = a == own ? first : ir_const_index(b, 0);
        if (a == own && last) operands[n++] = last;
        if (a != own)
            operands[n++] =
                ir_aff_emit(b, p && p->axes[a].hi ? aff_min(s->ctx->module->affs, p->axes[a].hi, t->extents[a]) : t->extents[a]);
    }
    return n;
}

/* `begin`: the part's first lane, from which an index counts. */
static void store_part(const SplitReduction *s, IrFunc *func, IrOp *fold, unsigned which, const OpList *ops, IrValue *part,
                       IrValue *begin) {
    IrModule *m = s->ctx->module;
    unsigned own = split_reduction_fold_axis(fold), rank = 0;
    const IrType *t = fold->operands[0]->type;
    const Aff *extents[IR_SLICE_MAX_RANK];
    for (unsigned a = 0; a < t->rank; a++)
        if (a != own) extents[rank++] = t->extents[a];
    ir_attr_remove(fold, "keepdim");
    IrValue *result = ir_result(fold, 0);
    result->type = ir_type_tile(m, result->type->dtype, rank, extents, NULL);
    IrBuilder b = ir_builder_after(fold);
    b.span = fold->span;
    if (fold->opcode == IR_TILE_ARG) result = ir_binary(&b, IR_ADD, result, ir_cast(&b, begin, ir_type_scalar(m, DTYPE_I64)));
    IrValue *operands[2 * IR_SLICE_MAX_RANK + 4] = {result, param_named(func, s->workspaces[which])};
    char axes[IR_SLICE_MAX_RANK + 2] = {0};
    unsigned n = parts_slice(s, &b, fold, NULL, iteration(&b, ops), part, NULL, operands + 2, axes);
    ir_attr_set_str(ir_op_create(&b, IR_TILE_STORE, n + 2, operands, 0, NULL), "axes", axes);
}

/* Part after part, an element each, so that neighbours stay neighbours (group_rows); where an index may lie outside, each element's parts side by side. */
static void store_in_place(const SplitReduction *s, IrFunc *func, IrOp *store, unsigned which, IrValue *part) {
    IrModule *m = s->ctx->module;
    AffFacts *facts = ir_facts_at(s->ctx->scratch, store);
    IrBuilder b = ir_builder_before(store);
    unsigned operand = 2 + s->axis[which];
    IrValue *index = store->operands[operand], *parts = ir_aff_emit(&b, s->parts.name);
    const Aff *at = ir_aff_of(m, index), *extent = store->operands[1]->type->extents[s->axis[which]];
    bool inside =
        aff_prove_nonneg(facts, at) && aff_prove_nonneg(facts, aff_sub(m->affs, aff_sub(m->affs, extent, at), aff_const(m->affs, 1)));
    split_reduction_widen(s, func, s->workspaces[which], s->axis[which]);
    IrValue *first = ir_binary(&b, IR_MUL, inside ? part : index, inside ? ir_aff_emit(&b, extent) : parts);
    ir_set_operand(store, operand, ir_binary(&b, IR_ADD, first, inside ? index : part));
}

void split_reduction_make_part(const SplitReduction *s, IrFunc *func, bool in_place) {
    IrModule *m = s->ctx->module;
    AffCtx *c = m->affs;
    OpList ops = ops_collect(s->ctx->scratch, func->body);
    const Axes *axes = axes_analyse(s->ctx->scratch, func);
    const Aff *lanes = aff_mul(c, aff_const(c, s->unit), s->pieces.name);
    IrOp *loop = step_repeat(func, aff_mul(c, s->used.name, s->parts.name), "part");
    IrBuilder b = ir_builder_before(loop->regions[0]->first);
    IrValue *part = loop->regions[0]->args[0], *length = ir_aff_emit(&b, lanes);
    IrValue *begin = ir_binary(&b, IR_MUL, part, length), *end = ir_binary(&b, IR_ADD, begin, length);
    end = ir_binary(&b, IR_MIN, end, ir_aff_emit(&b, axes_class(axes, s->index)->extent)); /* one bound, not two in each lane */
    for (size_t i = 0; i < ops.len; i++) {
        IrOp *op = ops.data[i];
        for (unsigned r = 0; r < op->result_count; r++) {
            unsigned operand, tensor_axis;
            int axis = axes_find(axes, &op->results[r], s->index);
            if (axis < 0) continue;
            op->results[r].type = split_reduction_tile_with_extent(m, op->results[r].type, (unsigned)axis, lanes);
            if (op->opcode != IR_TILE_LOAD || !slice_operand(op, (unsigned)axis, &operand, &tensor_axis)) continue;
            ir_set_operand(op, operand, begin);
            ir_set_operand(op, operand + 1, end);
        }
    }
    for (size_t i = 0; !in_place && i < ops.len; i++)
        if (ops.data[i]->opcode == IR_TILE_STORE) ir_op_erase(ops.data[i]);
    for (unsigned i = 0; i < s->fold_count; i++) {
        IrOp *fold = ops.data[s->folds[i]];
        if (in_place)
            store_in_place(s, func, fold->results[0].uses->op, i, part);
        else
            store_part(s, func, fold, i, &ops, part, begin);
    }
    remove_unused(s->ctx->scratch, func->body);
    ir_func_set_int(func, IR_FN_LONG_ROWS, 1); /* none is short enough to be kept whole */
}

/* Of each part the index of its best is known; reads these elements again. */
static void finish_arg(IrOp *arg, IrValue *index) {
    IrOp *load = arg->operands[0]->def;
    IrBuilder b = ir_builder_before(arg);
    b.span = load->span;
    const IrType *number = ir_type_scalar(b.module, DTYPE_I64);
    int64_t own = ir_attr_int(arg, "axis", 0);
    IrSlice slice = ir_slice(load);
    IrValue *operands[IR_SLICE_MAX_RANK + 1] = {load->operands[0]};
    char axes[IR_SLICE_MAX_RANK + 1] = {0};
    for (unsigned i = 0; i < slice.rank; i++) {
        IrValue *begin = load->operands[slice.axes[i].operand];
        bool along = slice.axes[i].letter == IR_LETTER_RANGE, other = along && slice.axes[i].axis != own;
        axes[i] = along ? IR_LETTER_GATHER : IR_LETTER_POINT;
        operands[i + 1] = along ? index : begin;
        if (other) operands[i + 1] = ir_binary(&b, IR_ADD, tile_iota(&b, index->type, slice.axes[i].axis), ir_cast(&b, begin, number));
    }
    const IrType *type = ir_type_with_dtype(b.module, index->type, load->results[0].type->dtype);
    IrOp *again = ir_op_create(&b, IR_TILE_LOAD, slice.rank + 1, operands, 1, &type);
    ir_attr_set_str(again, "axes", axes);
    ir_replace_uses(&arg->results[0], tile_first_of_best(&b, arg, own, ir_result(again, 0), index));
}

void split_reduction_make_finish(const SplitReduction *s, IrFunc *func) {
    IrModule *m = s->ctx->module;
    OpList ops = ops_collect(s->ctx->scratch, func->body);
    Presence present[MOST_FOLDS];
    for (unsigned i = 0; i < s->fold_count; i++) present[i] = presence_of(s->ctx, ops.data[s->folds[i]]->operands[0]);
    for (unsigned i = 0; i < s->fold_count; i++) {
        IrOp *fold = ops.data[s->folds[i]];
        IrBuilder b = ir_builder_before(fold);
        b.span = fold->span;
        IrValue *operands[2 * IR_SLICE_MAX_RANK + 4] = {param_named(func, s->workspaces[i])};
        char axes[IR_SLICE_MAX_RANK + 2] = {0};
        unsigned n = parts_slice(s, &b, fold, &present[i], iteration(&b, &ops), ir_const_index(&b, 0), ir_aff_emit(&b, s->parts.name),
                                 operands + 1, axes);
        const Aff *extent = split_reduction_has_arg(s) ? aff_const(m->affs, ARG_PARTS) : s->parts.name;
        const IrType *type = split_reduction_tile_with_extent(m, fold->operands[0]->type, split_reduction_fold_axis(fold), extent);
        type = ir_type_with_dtype(m, type, fold->results[0].type->dtype);
        IrOp *load = ir_op_create(&b, IR_TILE_LOAD, n + 1, operands, 1, &type);
        ir_attr_set_str(load, "axes", axes);
        if (fold->opcode == IR_TILE_ARG)
            finish_arg(fold, ir_result(load, 0));
        else
            ir_set_operand(fold, 0, ir_result(load, 0));
    }
    remove_unused(s->ctx->scratch, func->body);
    step_repeat(func, s->used.name, "used");
}

void split_reduction_widen_readers(const SplitReduction *s) {
    IrModule *m = s->ctx->module;
    for (IrFunc *g = m->first; g; g = g->next)
        for (unsigned i = 0; g->level == IR_LEVEL_TILE && i < s->fold_count; i++) {
            const IrValue *memory = param_named(g, s->workspaces[i]);
            if (!memory) continue;
            IrParam *param = &g->params[memory->index];
            param->elements = aff_mul(m->affs, param->elements, split_reduction_room_in_memory(s));
            if (g == s->func || !memory->uses) continue;
            split_reduction_add_symbols(s, g);
            split_reduction_widen(s, g, s->workspaces[i], s->axis[i]);
        }
}
