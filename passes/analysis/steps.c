/* Kernels that become several steps: reshape_column_reduction.c, split_reduction.c. */
#include <string.h>

#include "analysis.h"

IrValue *param_named(const IrFunc *func, const char *name) {
    for (unsigned i = 0; i < func->param_count; i++)
        if (strcmp(func->params[i].name, name) == 0) return func->body->args[i];
    return NULL;
}

static bool is_taken(const IrModule *m, const char *name) {
    for (const IrFunc *f = m->first; f; f = f->next)
        if (param_named(f, name)) return true;
    return false;
}

const char *param_new_name(const IrModule *m, const char *stem) {
    for (unsigned k = 0;; k++) {
        const char *name = arena_printf(m->arena, "%s%u", stem, k);
        if (!is_taken(m, name)) return name;
    }
}

void param_see_as(IrFunc *func, IrValue *arg, const IrType *type) {
    IrParam *param = &func->params[arg->index];
    if (!param->type) param->type = arg->type;
    arg->type = type;
}

void func_add_workspace(IrFunc *func, const char *name, const IrType *type, const Aff *elements) {
    IrValue *arg = ir_func_add_param(func, IR_PARAM_WORKSPACE, name, type, IR_DIR_INOUT);
    func->params[arg->index].elements = elements;
}

DerivedSymbol derived_symbol(const IrModule *m, const char *stem, const Aff *formula) {
    return (DerivedSymbol){aff_sym(m->affs, param_new_name(m, stem)), formula};
}

void func_add_symbol(IrFunc *func, DerivedSymbol symbol) {
    if (param_named(func, symbol.name->name)) return;
    IrValue *arg = ir_func_add_param(func, IR_PARAM_SYMBOL, symbol.name->name, ir_type_index(func->module), IR_DIR_IN);
    func->params[arg->index].derived = symbol.formula;
}

void kernel_add_symbol(IrFunc *func, DerivedSymbol symbol) {
    for (IrFunc *f = func->module->first; f; f = f->next)
        if (f->level == func->level && is_same_kernel(f, func)) func_add_symbol(f, symbol);
}

IrOp *repeat_ops(IrOp *first, IrOp *last, const Aff *times, const char *name) {
    IrBuilder b = ir_builder_before(first);
    b.span = first->span;
    IrValue *bounds[] = {ir_const_index(&b, 0), ir_aff_emit(&b, times), ir_const_index(&b, 1)};
    IrOp *loop = ir_op_create(&b, IR_PARALLEL, 3, bounds, 0, NULL);
    ir_region_add_arg(loop->regions[0], ir_type_index(b.module), name);
    for (IrOp *op = first, *next; op != last; op = next) {
        next = op->next;
        ir_op_move_to_end(op, loop->regions[0]);
    }
    IrBuilder end = ir_builder_at_end(loop->regions[0]);
    ir_yield(&end, 0, NULL);
    return loop;
}

IrOp *step_repeat(IrFunc *func, const Aff *times, const char *name) {
    return repeat_ops(func->body->first, func->body->last, times, name);
}

void steps_make_room(IrModule *m, int64_t step, int64_t count) {
    for (IrFunc *g = m->first; g; g = g->next) {
        int64_t own = ir_step_order(g);
        if (g->level == IR_LEVEL_TILE && own > step) ir_step_move(g, own + count);
    }
}

const char *step_new_name(const IrModule *m, const char *of, const char *what) {
    const char *name = arena_printf(m->arena, "%s_%s", of, what);
    for (const IrFunc *f = m->first; f; f = f->next)
        if (strcmp(f->name, name) == 0) return step_new_name(m, name, what);
    return name;
}

void step_name(IrFunc *func, const char *name, int64_t step) {
    func->name = name;
    ir_step_set(func, name, step);
}

bool is_plain_nest(const OpList *ops, const IrBlock *inner) {
    for (size_t i = 0; i < ops->len; i++) {
        const IrOp *op = ops->data[i];
        if (op->region_count && (op->opcode != IR_PARALLEL || !is_inside_op(inner, op))) return false;
        bool effect = !op->region_count && !is_terminator(op) && !is_repeatable(op);
        if (effect && (op->opcode != IR_TILE_STORE || op->block != inner)) return false;
        if (op->opcode == IR_TILE_STORE && ir_op_mode(op) != IR_KIND_SET) return false;
    }
    return true;
}

bool aff_over_symbols(const Aff *e) {
    if (e->kind == AFF_VAR) return false;
    for (size_t i = 0; i < e->count; i++)
        if (!aff_over_symbols(e->args[i])) return false;
    return true;
}

const Aff *loop_trips(IrModule *m, const IrOp *loop) {
    const Aff *length = aff_sub(m->affs, ir_aff_of(m, loop->operands[1]), ir_aff_of(m, loop->operands[0]));
    return aff_ceildiv(m->affs, length, ir_aff_of(m, loop->operands[2]));
}

const Aff *parallel_iterations(IrModule *m, const OpList *ops) {
    const Aff *iterations = aff_const(m->affs, 1);
    for (size_t i = 0; i < ops->len; i++) {
        const IrOp *loop = ops->data[i];
        if (loop->opcode != IR_PARALLEL) continue;
        const Aff *trips = loop_trips(m, loop);
        if (!aff_over_symbols(trips) || !aff_over_symbols(ir_aff_of(m, loop->operands[0]))) return NULL;
        iterations = aff_mul(m->affs, iterations, trips);
    }
    return iterations;
}
