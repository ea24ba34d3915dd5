/* Modules, functions and their parameters, blocks. */
#include "ir.h"

#include <math.h>
#include <string.h>

#include "ir_internal.h"
#include "layout.h"

IrModule *ir_module_create(Arena *arena, SourceMap *sources) {
    IrModule *m = ARENA_NEW(arena, IrModule);
    IrInterned *in = ARENA_NEW(arena, IrInterned);
    in->strings = map_create(arena);
    *m = (IrModule){.arena = arena, .affs = aff_ctx_create(arena), .sources = sources, .interned = in};
    return m;
}

IrBlock *ir_block_create(IrModule *m, IrFunc *f, IrOp *parent) {
    IrBlock *block = ARENA_NEW(m->arena, IrBlock);
    block->func = f;
    block->parent = parent;
    return block;
}

/* ---- Functions ---- */

static IrFunc *func_new(IrModule *m, const char *name, unsigned level) {
    IrFunc *f = ARENA_NEW(m->arena, IrFunc);
    f->module = m;
    f->name = ir_intern_string(m, name);
    f->level = level;
    f->body = ir_block_create(m, f, NULL);
    return f;
}

IrFunc *ir_func_create(IrModule *m, const char *name, unsigned level) {
    IrFunc *f = func_new(m, name, level);
    if (m->last)
        m->last->next = f;
    else
        m->first = f;
    m->last = f;
    return f;
}

void ir_func_remove(IrFunc *f) {
    IrModule *m = f->module;
    IrFunc *previous = NULL;
    for (IrFunc *g = m->first; g && g != f; g = g->next) previous = g;
    if (previous)
        previous->next = f->next;
    else
        m->first = f->next;
    if (m->last == f) m->last = previous;
    f->next = NULL;
}

unsigned ir_func_args_before(const IrFunc *f, IrParamKind kind) {
    unsigned count = 0;
    while (count < f->param_count && f->params[count].kind <= kind) count++;
    return count;
}

static void block_insert_arg(IrModule *m, IrBlock *block, IrValue *arg, unsigned at) {
    IrValue **args = ARENA_ARRAY(m->arena, IrValue *, block->arg_count + 1);
    for (unsigned i = 0; i < at; i++) args[i] = block->args[i];
    args[at] = arg;
    for (unsigned i = at; i < block->arg_count; i++) args[i + 1] = block->args[i];
    block->args = args;
    block->arg_count++;
    for (unsigned i = at; i < block->arg_count; i++) args[i]->index = i;
}

IrValue *ir_region_add_arg(IrBlock *region, const IrType *type, const char *name) {
    IrModule *m = region->func->module;
    IrValue *arg = ARENA_NEW(m->arena, IrValue);
    *arg = (IrValue){.type = type, .block = region, .name = ir_intern_string(m, name)};
    block_insert_arg(m, region, arg, region->arg_count);
    return arg;
}

/* Keeps the order of kinds: a symbol added late still stands before the scalars. */
IrValue *ir_func_add_param(IrFunc *f, IrParamKind kind, const char *name, const IrType *type, IrDirection direction) {
    IrModule *m = f->module;
    unsigned at = ir_func_args_before(f, kind);
    IrParam *params = ARENA_ARRAY(m->arena, IrParam, f->param_count + 1);
    if (at) memcpy(params, f->params, at * sizeof *params);
    params[at] = (IrParam){.kind = kind, .name = ir_intern_string(m, name), .direction = direction, .type = type, .fallback = NAN};
    if (f->param_count > at) memcpy(params + at + 1, f->params + at, (f->param_count - at) * sizeof *params);
    f->params = params;
    f->param_count++;
    IrValue *arg = ARENA_NEW(m->arena, IrValue);
    *arg = (IrValue){.type = type, .block = f->body, .name = params[at].name};
    block_insert_arg(m, f->body, arg, at);
    return arg;
}

IrValue *ir_func_symbol(IrFunc *f, const char *name) {
    for (unsigned i = 0; i < f->param_count; i++)
        if (f->params[i].kind == IR_PARAM_SYMBOL && strcmp(f->params[i].name, name) == 0) return f->body->args[i];
    return NULL;
}

void ir_func_add_constraint(IrFunc *f, const Aff *expr, bool equal, const char *text) {
    IrModule *m = f->module;
    IrConstraint *list = ARENA_ARRAY(m->arena, IrConstraint, f->constraint_count + 1);
    if (f->constraint_count) memcpy(list, f->constraints, f->constraint_count * sizeof *list);
    list[f->constraint_count++] = (IrConstraint){.expr = expr, .equal = equal, .text = ir_intern_string(m, text)};
    f->constraints = list;
}

IrFunc *ir_func_clone(IrFunc *f, const char *name) {
    IrModule *m = f->module;
    Arena *scratch = arena_create();
    IrFunc *copy = func_new(m, name, f->level);
    copy->state = f->state;
    copy->constraint_count = f->constraint_count;
    copy->constraints = f->constraints; /* replaced, never changed in place */
    copy->guard = f->guard;
    copy->attrs = ir_attrs_clone(m, f->attrs);
    copy->param_count = f->param_count;
    copy->params = ARENA_ARRAY(m->arena, IrParam, f->param_count);
    if (f->param_count) memcpy(copy->params, f->params, f->param_count * sizeof *f->params);
    IrValueMap *map = ir_value_map_create(scratch);
    for (unsigned i = 0; i < f->body->arg_count; i++) {
        IrValue *from = f->body->args[i];
        IrValue *to = ir_region_add_arg(copy->body, from->type, from->name);
        to->storage = from->storage;
        ir_value_map_set(map, from, to);
    }
    IrBuilder b = ir_builder_at_end(copy->body);
    for (const IrOp *op = f->body->first; op; op = op->next) ir_op_clone(&b, op, map);
    arena_destroy(scratch);
    copy->next = f->next;
    f->next = copy;
    if (m->last == f) m->last = copy;
    return copy;
}

IrModule *ir_module_copy(IrModule *m, unsigned levels) {
    IrModule *copy = ARENA_NEW(m->arena, IrModule);
    *copy = *m;
    copy->first = copy->last = NULL;
    for (IrFunc *f = m->first; f; f = f->next) {
        if (!(f->level & levels)) continue;
        IrFunc *g = ir_func_clone(f, f->name);
        ir_func_remove(g);
        g->module = copy;
        if (copy->last)
            copy->last->next = g;
        else
            copy->first = g;
        copy->last = g;
    }
    return copy;
}

/* ---- Cases ---- */

IrCase *ir_module_add_case(IrModule *m, const char *name) {
    IrCase *cases = ARENA_ARRAY(m->arena, IrCase, m->case_count + 1);
    if (m->case_count) memcpy(cases, m->cases, m->case_count * sizeof *cases);
    m->cases = cases;
    cases[m->case_count] = (IrCase){.name = ir_intern_string(m, name)};
    return &cases[m->case_count++];
}

void ir_case_set_symbol(IrModule *m, IrCase *c, const char *symbol, int64_t value) {
    for (size_t i = 0; i < c->symbol_count; i++) {
        if (strcmp(c->symbols[i], symbol) != 0) continue;
        c->values[i] = value;
        return;
    }
    const char **symbols = ARENA_ARRAY(m->arena, const char *, c->symbol_count + 1);
    int64_t *values = ARENA_ARRAY(m->arena, int64_t, c->symbol_count + 1);
    for (size_t i = 0; i < c->symbol_count; i++) {
        symbols[i] = c->symbols[i];
        values[i] = c->values[i];
    }
    symbols[c->symbol_count] = ir_intern_string(m, symbol);
    values[c->symbol_count++] = value;
    c->symbols = symbols;
    c->values = values;
}

void ir_case_set_data(IrModule *m, IrCase *c, const char *tensor, const char *generator, size_t arg_count, const IrCaseArg *args) {
    size_t at = 0;
    while (at < c->data_count && strcmp(c->data[at].tensor, tensor) != 0) at++;
    if (at == c->data_count) {
        IrCaseData *data = ARENA_ARRAY(m->arena, IrCaseData, c->data_count + 1);
        if (at) memcpy(data, c->data, at * sizeof *data);
        c->data = data;
        c->data_count++;
    }
    IrCaseArg *copy = ARENA_ARRAY(m->arena, IrCaseArg, arg_count);
    if (arg_count) memcpy(copy, args, arg_count * sizeof *copy);
    c->data[at] = (IrCaseData){
        .tensor = ir_intern_string(m, tensor), .generator = ir_intern_string(m, generator), .arg_count = arg_count, .args = copy};
}

struct LayoutCtx *ir_module_layouts(IrModule *m) {
    if (!m->layouts) m->layouts = layout_ctx_create(m->arena);
    return m->layouts;
}
