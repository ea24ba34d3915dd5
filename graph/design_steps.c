/* design: folds that others are made of, in nests of their own.
 *
 * A fold inside of another one along a different axis (the mean over rows of what was summed along
 * each) makes one nest whose tile has both axes: a block alone holds all of it, and code for as many
 * elements as its threads hold. Through a workspace each of the two is a nest over rows. */
#include "design_internal.h"
#include "pointer_table.h"

enum { SHORT_FOLD = 64 }; /* elements: an axis of a window, say, which lies in one block (not measured) */

bool design_folds(const IrOp *op) {
    return op->opcode == IR_GRAPH_REDUCE || op->opcode == IR_GRAPH_CONTRACT || op->opcode == IR_GRAPH_SCAN || op->opcode == IR_GRAPH_ARG ||
           op->opcode == IR_GRAPH_SORT || (op->opcode == IR_GRAPH_GENERIC && ir_op_kind(op));
}

bool design_folds_anything(const IrFunc *f) {
    for (const IrOp *op = f->body->first; op; op = op->next)
        if (design_folds(op)) return true;
    return false;
}

bool design_has_singles(const IrFunc *f) {
    bool found = false;
    for (const IrOp *op = f->body->first; op; op = op->next) {
        if (op->opcode == IR_GRAPH_SCAN || op->opcode == IR_GRAPH_SORT) return false;
        found |= op->opcode == IR_GRAPH_CONTRACT && !design_is_matrix_product(op);
    }
    return found;
}

static bool has_extent(const IrType *t, const Aff *extent) {
    for (unsigned i = 0; i < t->rank; i++)
        if (t->extents[i] == extent) return true;
    return false;
}

/* Has a value of this type all the axes along which the operation folds? One tile serves both then. */
static bool keeps_axes(Design *d, const IrType *t, const IrOp *fold) {
    const IrAttr *axes = ir_attr(fold, fold->opcode == IR_GRAPH_CONTRACT ? "sum_a" : "axes");
    if (fold->opcode == IR_GRAPH_SCAN || fold->opcode == IR_GRAPH_SORT) return true;
    const IrType *from = fold->operands[0]->type;
    if (fold->opcode == IR_GRAPH_ARG) return has_extent(t, from->extents[ir_attr_int(fold, "axis", 0)]);
    for (size_t i = 0; axes && i < axes->count; i++)
        if (!has_extent(t, from->extents[axes->ints[i]])) return false;
    for (unsigned i = (unsigned)ir_attr_int(fold, "outer", 0); fold->opcode == IR_GRAPH_GENERIC && i < fold->operand_count; i++)
        if (!has_extent(t, ir_aff_of(d->module, fold->operands[i]))) return false;
    return true;
}

static bool is_of_less(Design *d, PointerTable *seen, const IrType *t, const IrValue *v);

static bool operands_are(Design *d, PointerTable *seen, const IrType *t, const IrOp *op) {
    for (unsigned i = 0; i < op->operand_count; i++)
        if (is_of_less(d, seen, t, op->operands[i])) return true;
    for (unsigned r = 0; r < op->region_count; r++)
        for (const IrOp *inner = op->regions[r]->first; inner; inner = inner->next)
            if (operands_are(d, seen, t, inner)) return true;
    return false;
}

/* Is the value made of a fold along an axis that the type has not, and not stored yet? */
static bool is_of_less(Design *d, PointerTable *seen, const IrType *t, const IrValue *v) {
    uint32_t known;
    if (!v->def || design_staged_name(d, v) || pointer_table_get(seen, v, &known)) return false;
    pointer_table_set(seen, v, 1);
    if (design_folds(v->def) && !keeps_axes(d, t, v->def)) return true;
    return operands_are(d, seen, t, v->def);
}

static bool stage_smaller(Design *d, IrValue *v) {
    PointerTable seen = pointer_table(d->arena);
    return v->type->kind == IR_TYPE_TENSOR && v->def && is_of_less(d, &seen, v->type, v) && design_stage(d, v);
}

/* ---- One fold made two ---- */

/* The notation with its first indices only, `kind` along those from `outer` on, over the elements of the tensor. */
static IrOp *fold_elements(const IrOp *op, IrValue *tensor) {
    const IrBlock *from = op->regions[0];
    IrValue *at[DESIGN_RANK + 1] = {tensor};
    unsigned n = tensor->type->rank;
    IrBuilder b = ir_builder_before((IrOp *)op);
    b.span = op->span;
    IrOp *fold = ir_op_create(&b, IR_GRAPH_GENERIC, n, op->operands, 1, &op->results[0].type);
    ir_attr_set_int(fold, "outer", ir_attr_int(op, "outer", 0));
    ir_set_kind(fold, ir_op_kind(op));
    for (unsigned i = 0; i < n; i++) at[i + 1] = ir_region_add_arg(fold->regions[0], from->args[i]->type, from->args[i]->name);
    b = ir_builder_at_end(fold->regions[0]);
    b.span = op->span;
    IrValue *element = ir_result(ir_op_create(&b, IR_GRAPH_ELEMENT, n + 1, at, 1, NULL), 0);
    ir_yield(&b, 1, &element);
    return fold;
}

/* What the notation folds, as a tensor over its first n indices, along the others folded already; the rest of it folds that one's elements
 * and is returned. */
static IrOp *split_notation(Design *d, IrOp *op, unsigned n) {
    const Aff *shape[DESIGN_RANK];
    IrBlock *from = op->regions[0];
    for (unsigned i = 0; i < n; i++) shape[i] = ir_aff_of(d->module, op->operands[i]);
    Dtype dtype = n < op->operand_count ? op->results[0].type->dtype : from->last->operands[0]->type->dtype;
    const IrType *t = ir_type_tensor(d->module, dtype, n, shape);
    IrBuilder b = ir_builder_before(op);
    b.span = op->span;
    IrOp *inner = ir_op_create(&b, IR_GRAPH_GENERIC, op->operand_count, op->operands, 1, &t);
    ir_attr_set_int(inner, "outer", n);
    if (n < op->operand_count) ir_set_kind(inner, ir_op_kind(op));
    IrOp *fold = fold_elements(op, ir_result(inner, 0));
    for (unsigned i = 0; i < op->operand_count; i++)
        ir_replace_uses(from->args[i], ir_region_add_arg(inner->regions[0], from->args[i]->type, from->args[i]->name));
    while (from->first) ir_op_move_to_end(from->first, inner->regions[0]);
    ir_replace_uses(&op->results[0], ir_result(fold, 0));
    ir_op_erase(op);
    return fold;
}

/* The last folded axis by itself, then the others. */
static IrOp *split_reduction(Design *d, IrOp *op) {
    const IrAttr *axes = ir_attr(op, "axes");
    const IrType *from = op->operands[0]->type, *whole = op->results[0].type;
    const Aff *shape[DESIGN_RANK], *left[DESIGN_RANK];
    int64_t last = axes->ints[0], rest[DESIGN_RANK];
    unsigned n = 0, kept = 0, count = 0;
    for (size_t i = 0; i < axes->count; i++) last = axes->ints[i] > last ? axes->ints[i] : last;
    for (size_t i = 0; i < axes->count; i++)
        if (axes->ints[i] != last) rest[count++] = axes->ints[i];
    for (unsigned i = 0; i < from->rank; i++) {
        bool folded = i == last;
        for (unsigned k = 0; k < count; k++) folded |= rest[k] == i;
        if (i != last) shape[n++] = from->extents[i];
        if (!folded) left[kept++] = from->extents[i];
    }
    IrBuilder b = ir_builder_before(op);
    b.span = op->span;
    const IrType *between = ir_type_tensor(d->module, whole->dtype, n, shape), *t = ir_type_tensor(d->module, whole->dtype, kept, left);
    IrOp *inner = ir_op_create(&b, IR_GRAPH_REDUCE, 1, op->operands, 1, &between);
    IrValue *part = ir_result(inner, 0);
    ir_set_kind(inner, ir_op_kind(op));
    ir_attr_set_ints(inner, "axes", 1, &last);
    IrOp *fold = ir_op_create(&b, IR_GRAPH_REDUCE, 1, &part, 1, &t);
    ir_set_kind(fold, ir_op_kind(op));
    ir_attr_set_ints(fold, "axes", count, rest);
    IrValue *result = ir_result(fold, 0);
    if (ir_attr_bool(op, "keepdim")) result = ir_result(ir_op_create(&b, IR_GRAPH_RESHAPE, 1, &result, 1, &whole), 0);
    ir_replace_uses(&op->results[0], result);
    ir_op_erase(op);
    return fold;
}

static bool is_long(const Aff *extent) {
    int64_t n = INT64_MAX;
    aff_is_const(extent, &n);
    return n > SHORT_FOLD;
}

/* Along two long axes at once a block would hold both: one after the other. */
static IrOp *split_axes(Design *d, IrOp *op) {
    const IrAttr *axes = op->opcode == IR_GRAPH_REDUCE ? ir_attr(op, "axes") : NULL;
    unsigned count = op->operand_count, outer = (unsigned)ir_attr_int(op, "outer", 0), lengths = 0;
    for (size_t i = 0; axes && i < axes->count; i++) lengths += is_long(op->operands[0]->type->extents[axes->ints[i]]);
    if (axes && lengths > 1) return split_reduction(d, op);
    if (op->opcode != IR_GRAPH_GENERIC || design_is_contraction(op) || count - 1 > DESIGN_TILE_RANK) return NULL;
    for (unsigned i = outer; i < count; i++) lengths += is_long(ir_aff_of(d->module, op->operands[i]));
    return lengths > 1 ? split_notation(d, op, count - 1) : NULL;
}

/* ---- Nests ---- */

static bool stage_elements(Design *d, IrOp *op) {
    bool found = false;
    for (IrOp *inner = op->regions[0]->first; inner && !d->error; inner = inner->next)
        if (inner->opcode == IR_GRAPH_ELEMENT) found |= stage_smaller(d, inner->operands[0]);
    return found;
}

/* What the operation folds; a factor of a product for each. */
static bool stage_folded(Design *d, IrOp *op) {
    bool found = false;
    if (op->opcode != IR_GRAPH_GENERIC) {
        for (unsigned i = 0; i < op->operand_count && !d->error; i++) found |= stage_smaller(d, op->operands[i]);
        return found;
    }
    if (design_is_contraction(op)) return stage_elements(d, op);
    const Aff *shape[2 * DESIGN_RANK];
    PointerTable seen = pointer_table(d->arena);
    for (unsigned i = 0; i < op->operand_count; i++) shape[i] = ir_aff_of(d->module, op->operands[i]);
    if (op->operand_count > DESIGN_TILE_RANK) return stage_elements(d, op);
    const IrType *t = ir_type_tensor(d->module, DTYPE_F32, op->operand_count, shape);
    if (!operands_are(d, &seen, t, op)) return false;
    op = split_notation(d, op, op->operand_count);
    design_order_init(d);
    return design_stage(d, op->prev->results);
}

/* Is it folded again, or repeated along axes that it has not? What is stored as it is, or lane by lane, needs no other nest. */
static bool is_repeated(const IrValue *v) {
    for (const IrUse *u = v->uses; u; u = u->next) {
        const IrOp *op = u->op;
        while (op->block->parent) op = op->block->parent;
        bool broadcasts = op->opcode == IR_GRAPH_BROADCAST || (op->opcode == IR_GRAPH_GENERIC && op->operand_count > v->type->rank);
        if (design_folds(op) || broadcasts) return true;
        for (unsigned i = 0; i < op->result_count; i++)
            if (is_repeated(&op->results[i])) return true;
    }
    return false;
}

/* Does another scan run along another axis? One tile of both would be the whole tensor. */
static bool is_crossed(const Design *d, const IrOp *op) {
    unsigned rank = op->results[0].type->rank;
    if (op->opcode != IR_GRAPH_SCAN) return false;
    for (const IrOp *other = d->f->body->first; other; other = other->next) {
        bool scans = other->opcode == IR_GRAPH_SCAN && other->results[0].type->rank == rank;
        if (scans && ir_attr_int(other, "axis", 0) != ir_attr_int(op, "axis", 0)) return true;
    }
    return false;
}

/* ---- Folds of one row ---- */

/* Do both reductions fold along the same axes? */
static bool has_axes_of(const IrOp *a, const IrOp *b) {
    const IrAttr *x = ir_attr(a, "axes"), *y = ir_attr(b, "axes");
    if (x->count != y->count) return false;
    for (size_t i = 0; i < x->count; i++)
        if (x->ints[i] != y->ints[i]) return false;
    return true;
}

/* Do both fold tensors of one shape along the same axes? */
static bool is_alike(const IrOp *a, const IrOp *b) {
    bool reductions = a->opcode == IR_GRAPH_REDUCE && b->opcode == IR_GRAPH_REDUCE;
    return reductions && a->results[0].type == b->results[0].type && has_axes_of(a, b) && a->operands[0]->type == b->operands[0]->type;
}

/* Is the value made of no fold but those that are stored, and these? */
static bool is_made_of(const Design *d, PointerTable *seen, const IrValue *v, size_t count, IrValue *const *folds) {
    uint32_t known;
    if (!v->def || design_staged_name(d, v) || pointer_table_get(seen, v->def, &known)) return true;
    pointer_table_set(seen, v->def, 1);
    for (size_t i = 0; i < count; i++)
        if (folds[i] == v) return true;
    if (design_folds(v->def) || v->def->region_count) return false;
    for (unsigned i = 0; i < v->def->operand_count; i++)
        if (!is_made_of(d, seen, v->def->operands[i], count, folds)) return false;
    return true;
}

/* With the folds of the same elements that need nothing else: a mean and the squared deviations from it are made while a block has the row. */
static bool stage_alike(Design *d, IrOp *op) {
    IrValue *values[DESIGN_AXES] = {&op->results[0]};
    size_t count = 1;
    if (design_staged_name(d, values[0])) return false;
    for (IrOp *other = op->next; other && count < DESIGN_AXES; other = other->next) {
        PointerTable seen = pointer_table(d->arena);
        bool fits = is_alike(op, other) && !design_staged_name(d, &other->results[0]) && is_repeated(&other->results[0]);
        if (fits && is_made_of(d, &seen, other->operands[0], count, values)) values[count++] = &other->results[0];
    }
    return design_stage_together(d, count, values);
}

/* Do groups that the nest of the value walks (design_phases.c) hold what the reduction folds? */
static bool is_in_groups(Design *d, const IrValue *v, const IrOp *op) {
    const IrAttr *axes = ir_attr(op, "axes");
    if (axes->count != 1 || !design_splits(d, v)) return false;
    for (unsigned i = 0; i < v->type->rank; i++)
        if (d->splits[i].size == op->operands[0]->type->extents[axes->ints[0]]) return true;
    return false;
}

/* Is what the value is made into, on its way to the results, folded along other axes of what `fold` folds? A block would hold both. */
static bool meets_fold_across(PointerTable *seen, const IrOp *fold, const IrValue *v) {
    for (const IrUse *u = v->uses; u; u = u->next) {
        const IrOp *op = u->op;
        uint32_t known;
        while (op->block->parent) op = op->block->parent;
        if (pointer_table_get(seen, op, &known)) continue;
        pointer_table_set(seen, op, 1);
        if (op->opcode == IR_GRAPH_REDUCE && op->operands[0]->type == fold->operands[0]->type && !has_axes_of(op, fold)) return true;
        for (unsigned i = 0; i < op->result_count; i++)
            if (meets_fold_across(seen, fold, &op->results[i])) return true;
    }
    return false;
}

/* Does a nest of a result hold what the reduction folds? */
static bool is_kept(Design *d, const IrOp *op) {
    const IrOp *results = d->f->body->last;
    for (unsigned i = 0; i < results->operand_count; i++)
        if (keeps_axes(d, results->operands[i]->type, op) || is_in_groups(d, results->operands[i], op)) return true;
    return false;
}

static bool is_handed(Design *d, const IrOp *op) {
    PointerTable seen = pointer_table(d->arena);
    return is_repeated(&op->results[0]) && (!is_kept(d, op) || meets_fold_across(&seen, op, &op->results[0]));
}

void design_stage_handed(Design *d) {
    for (IrOp *op = d->f->body->first; op && !d->error; op = op->next)
        if (op->opcode == IR_GRAPH_REDUCE && is_handed(d, op)) stage_alike(d, op);
}

bool design_stage_folds(Design *d) {
    bool found = false;
    for (IrOp *op = d->f->body->first, *next; op && !d->error; op = next) {
        next = op->next;
        if (!design_folds(op) || design_is_packed(op)) continue;
        IrOp *rest = split_axes(d, op);
        if (rest) {
            design_order_init(d); /* there are new operations */
            next = rest;          /* folds what `op` does now */
            op = rest->prev;
        }
        if (d->style->staging == STAGE_FOLDED)
            found |= stage_folded(d, op);
        else if (is_repeated(&op->results[0]) || is_crossed(d, op))
            found |= stage_alike(d, op);
    }
    return found;
}
