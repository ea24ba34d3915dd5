/* Questions about ops, values and functions that passes and the designer ask (query.h). */
#include "query.h"
#include "plan.h"

#include <string.h>

static void collect(Arena *scratch, IrBlock *block, OpList *list) {
    for (IrOp *op = block->first; op; op = op->next) {
        VEC_PUSH(scratch, list, op);
        for (unsigned r = 0; r < op->region_count; r++) collect(scratch, op->regions[r], list);
    }
}

OpList ops_collect(Arena *scratch, IrBlock *block) {
    OpList list = {0};
    collect(scratch, block, &list);
    return list;
}

bool is_tile(const IrValue *v) {
    return v->type->kind == IR_TYPE_TILE;
}

bool is_terminator(const IrOp *op) {
    return ir_has_trait(op, IR_TERMINATOR);
}

bool is_scalar_arithmetic(const IrOp *op) {
    if (!ir_has_trait(op, IR_PURE) || op->region_count) return false;
    for (unsigned i = 0; i < op->result_count; i++)
        if (op->results[i].type->kind != IR_TYPE_SCALAR) return false;
    for (unsigned i = 0; i < op->operand_count; i++)
        if (op->operands[i]->type->kind != IR_TYPE_SCALAR) return false;
    return true;
}

IrBlock *home_of(const IrValue *v) {
    return v->def ? v->def->block : v->block;
}

bool is_inside(const IrBlock *block, const IrBlock *of) {
    for (; block; block = block->parent ? block->parent->block : NULL)
        if (block == of) return true;
    return false;
}

bool is_inside_op(const IrBlock *block, const IrOp *op) {
    for (; block && block->parent; block = block->parent->block)
        if (block->parent == op) return true;
    return false;
}

bool is_view(const IrValue *tensor) {
    return tensor->def && tensor->def->opcode == IR_VIEW;
}

IrValue *memory_of(IrValue *tensor) {
    while (is_view(tensor)) tensor = tensor->def->operands[0];
    return tensor;
}

typedef struct {
    const IrBlock *of, *as;
    IrModule *module;
} ViewIndices;

static const Aff *rename_index(void *ctx, const Aff *leaf) {
    const ViewIndices *r = ctx;
    for (unsigned i = 0; i < r->of->arg_count; i++)
        if (leaf->kind == AFF_VAR && leaf->var == r->of->args[i]) return ir_aff_of(r->module, r->as->args[i]);
    return NULL;
}

bool is_same_tensor(IrModule *m, const IrValue *a, const IrValue *b) {
    if (a == b) return true;
    if (!is_view(a) || !is_view(b) || a->type != b->type || a->def->operands[0]->type != b->def->operands[0]->type) return false;
    const IrOp *x = a->def->regions[0]->last, *y = b->def->regions[0]->last;
    ViewIndices r = {b->def->regions[0], a->def->regions[0], m};
    for (unsigned i = 0; i < x->operand_count; i++)
        if (ir_aff_of(m, x->operands[i]) != aff_substitute(m->affs, ir_aff_of(m, y->operands[i]), rename_index, &r)) return false;
    return is_same_tensor(m, a->def->operands[0], b->def->operands[0]);
}

static bool stores_through(const IrValue *tensor) {
    for (const IrUse *u = tensor->uses; u; u = u->next) {
        if (u->op->opcode == IR_TILE_STORE && u->index == 1) return true;
        if (u->op->opcode == IR_VIEW && stores_through(&u->op->results[0])) return true;
    }
    return false;
}

bool is_stored_to(IrValue *tensor) {
    return stores_through(memory_of(tensor));
}

bool is_same_kernel(const IrFunc *f, const IrFunc *g) {
    return f == g || strcmp(ir_step_name(f), ir_step_name(g)) == 0;
}

unsigned count_versions(const IrFunc *f) {
    unsigned count = 0;
    for (const IrFunc *g = f->module->first; g; g = g->next) count += g->level == IR_LEVEL_TILE && is_same_kernel(f, g);
    return count;
}

bool is_repeatable(const IrOp *op) {
    return ir_has_trait(op, IR_PURE) || op->opcode == IR_TILE_LOAD;
}

bool is_unused(const IrOp *op) {
    for (unsigned i = 0; i < op->result_count; i++)
        if (op->results[i].uses) return false;
    return op->result_count > 0;
}

void remove_unused(Arena *scratch, IrBlock *block) {
    OpList ops = ops_collect(scratch, block);
    for (size_t i = ops.len; i-- > 0;)
        if (is_repeatable(ops.data[i]) && is_unused(ops.data[i])) ir_op_erase(ops.data[i]);
}

bool case_symbol(void *ctx, const Aff *leaf, int64_t *value) {
    const IrCase *c = ctx;
    for (size_t i = 0; leaf->kind == AFF_SYM && i < c->symbol_count; i++)
        if (strcmp(c->symbols[i], leaf->name) == 0) {
            *value = c->values[i];
            return true;
        }
    return false;
}

int64_t case_most(const IrModule *m, const Aff *e) {
    int64_t most = 0, value;
    for (size_t i = 0; i < m->case_count; i++)
        if (aff_eval(e, case_symbol, &m->cases[i], &value) && value > most) most = value;
    return most;
}

bool case_within(const IrModule *m, const Aff *e, int64_t most) {
    int64_t value;
    for (size_t i = 0; i < m->case_count; i++)
        if (!aff_eval(e, case_symbol, &m->cases[i], &value) || value > most) return false;
    return m->case_count > 0;
}
