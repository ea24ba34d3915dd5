/* Ops: creation, uses, rewriting, cloning, walking. */
#include "ir.h"

#include <stdlib.h>

#include "ir_internal.h"

IrBuilder ir_builder_at_end(IrBlock *block) {
    return (IrBuilder){.module = block->func->module, .block = block};
}

IrBuilder ir_builder_before(IrOp *op) {
    return (IrBuilder){.module = op->block->func->module, .block = op->block, .before = op, .span = op->span};
}

IrBuilder ir_builder_after(IrOp *op) {
    return (IrBuilder){.module = op->block->func->module, .block = op->block, .before = op->next, .span = op->span};
}

/* ---- Lists ---- */

void ir_op_link(IrOp *op, IrBlock *block, IrOp *before) {
    op->block = block;
    op->next = before;
    op->prev = before ? before->prev : block->last;
    *(op->prev ? &op->prev->next : &block->first) = op;
    *(before ? &before->prev : &block->last) = op;
}

void ir_op_unlink(IrOp *op) {
    IrBlock *block = op->block;
    *(op->prev ? &op->prev->next : &block->first) = op->next;
    *(op->next ? &op->next->prev : &block->last) = op->prev;
    op->prev = op->next = NULL;
    op->block = NULL;
}

static void use_add(IrUse *use, IrValue *value) {
    use->next = value->uses;
    use->prev = &value->uses;
    if (value->uses) value->uses->prev = &use->next;
    value->uses = use;
}

static void use_remove(IrUse *use) {
    *use->prev = use->next;
    if (use->next) use->next->prev = use->prev;
}

/* ---- Creation ---- */

static void set_operands(IrModule *m, IrOp *op, unsigned count, IrValue *const *operands) {
    op->operand_count = count;
    if (!count) return;
    op->operands = ARENA_ARRAY(m->arena, IrValue *, count);
    op->operand_uses = ARENA_ARRAY(m->arena, IrUse, count);
    for (unsigned i = 0; i < count; i++) {
        op->operands[i] = operands[i];
        op->operand_uses[i] = (IrUse){.op = op, .index = i};
        use_add(&op->operand_uses[i], operands[i]);
    }
}

static void set_results(IrModule *m, IrOp *op, unsigned count, const IrType *const *types) {
    op->result_count = count;
    if (!count) return;
    op->results = ARENA_ARRAY(m->arena, IrValue, count);
    for (unsigned i = 0; i < count; i++) op->results[i] = (IrValue){.type = types[i], .def = op, .index = i};
}

IrOp *ir_op_create(IrBuilder *b, IrOpcode opcode, unsigned operand_count, IrValue *const *operands, unsigned result_count,
                   const IrType *const *result_types) {
    IrModule *m = b->module;
    const IrOpInfo *info = ir_op_info(opcode);
    const IrType *inferred[8];
    if (result_count && !result_types) {
        if (result_count > COUNT_OF(inferred) || !ir_infer(m, opcode, operand_count, operands, result_count, inferred))
            abort(); /* a bug of the caller: this op's types must be given */
        result_types = inferred;
    }
    IrOp *op = ARENA_NEW(m->arena, IrOp);
    op->opcode = opcode;
    op->span = b->span;
    set_operands(m, op, operand_count, operands);
    set_results(m, op, result_count, result_types);
    ir_op_link(op, b->block, b->before);
    op->region_count = (unsigned)info->regions;
    for (unsigned i = 0; i < op->region_count; i++) op->regions[i] = ir_block_create(m, b->block->func, op);
    return op;
}

IrValue *ir_result(IrOp *op, unsigned index) {
    return &op->results[index];
}

/* ---- Rewriting ---- */

void ir_set_operand(IrOp *op, unsigned index, IrValue *value) {
    use_remove(&op->operand_uses[index]);
    op->operands[index] = value;
    use_add(&op->operand_uses[index], value);
}

void ir_replace_uses(IrValue *old_value, IrValue *new_value) {
    if (old_value == new_value) return;
    while (old_value->uses) ir_set_operand(old_value->uses->op, old_value->uses->index, new_value);
    if (!new_value->name) new_value->name = old_value->name;
}

static void drop_operands(IrOp *op) {
    for (unsigned i = 0; i < op->operand_count; i++) use_remove(&op->operand_uses[i]);
    op->operand_count = 0;
    for (unsigned r = 0; r < op->region_count; r++)
        for (IrOp *inner = op->regions[r]->first; inner; inner = inner->next) drop_operands(inner);
}

void ir_op_erase(IrOp *op) {
    for (unsigned i = 0; i < op->result_count; i++)
        if (op->results[i].uses) abort(); /* a dangling use would corrupt the IR: a caller's bug */
    drop_operands(op);
    ir_op_unlink(op);
}

void ir_op_move_before(IrOp *op, IrOp *before) {
    if (op == before) return;
    IrBlock *block = before->block;
    ir_op_unlink(op);
    ir_op_link(op, block, before);
}

void ir_op_move_to_end(IrOp *op, IrBlock *block) {
    ir_op_unlink(op);
    ir_op_link(op, block, NULL);
}

/* ---- Cloning ---- */

struct IrValueMap {
    PointerTable map;
};

IrValueMap *ir_value_map_create(Arena *scratch) {
    IrValueMap *map = ARENA_NEW(scratch, IrValueMap);
    map->map = pointer_table(scratch);
    return map;
}

void ir_value_map_set(IrValueMap *map, IrValue *from, IrValue *to) {
    pointer_table_put(&map->map, from, to);
}

IrValue *ir_value_map_get(IrValueMap *map, IrValue *from) {
    IrValue *to = pointer_table_find(&map->map, from);
    return to ? to : from;
}

static void clone_region(IrBuilder *b, const IrBlock *from, IrBlock *to, IrValueMap *map) {
    for (unsigned i = 0; i < from->arg_count; i++) {
        IrValue *arg = ir_region_add_arg(to, from->args[i]->type, from->args[i]->name);
        arg->storage = from->args[i]->storage;
        ir_value_map_set(map, from->args[i], arg);
    }
    IrBuilder inner = {.module = b->module, .block = to};
    for (const IrOp *op = from->first; op; op = op->next) ir_op_clone(&inner, op, map);
}

IrOp *ir_op_clone(IrBuilder *b, const IrOp *op, IrValueMap *map) {
    IrModule *m = b->module;
    IrValue **operands = ARENA_ARRAY(m->arena, IrValue *, op->operand_count);
    const IrType **types = ARENA_ARRAY(m->arena, const IrType *, op->result_count);
    for (unsigned i = 0; i < op->operand_count; i++) operands[i] = ir_value_map_get(map, op->operands[i]);
    for (unsigned i = 0; i < op->result_count; i++) types[i] = op->results[i].type;
    IrOp *copy = ir_op_create(b, op->opcode, op->operand_count, operands, op->result_count, types);
    copy->span = op->span;
    copy->attrs = ir_attrs_clone(m, op->attrs);
    for (unsigned i = 0; i < op->region_count; i++) clone_region(b, op->regions[i], copy->regions[i], map);
    for (unsigned i = 0; i < op->result_count; i++) {
        copy->results[i].name = op->results[i].name;
        copy->results[i].storage = op->results[i].storage;
        ir_value_map_set(map, (IrValue *)&op->results[i], &copy->results[i]);
    }
    return copy;
}

/* ---- Order ---- */

/* Steps outward from both ends of the block list at once, so that near ops are found fast. */
static bool precedes(const IrOp *a, const IrOp *b) {
    for (const IrOp *after = a->next, *before = a->prev; after || before;) {
        if (after == b && after) return true;
        if (before == b && before) return false;
        if (after) after = after->next;
        if (before) before = before->prev;
    }
    return false;
}

bool ir_dominates(const IrOp *a, const IrOp *b) {
    while (b && b->block != a->block) b = b->block ? b->block->parent : NULL;
    return b && b != a && precedes(a, b);
}

void ir_walk(IrBlock *block, IrVisit visit, void *ctx) {
    for (IrOp *op = block->first, *next; op; op = next) {
        next = op->next;
        visit(ctx, op);
        if (op->block != block) continue; /* erased or moved */
        for (unsigned i = 0; i < op->region_count; i++) ir_walk(op->regions[i], visit, ctx);
        next = op->next;
    }
}
