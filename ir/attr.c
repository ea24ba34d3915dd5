#include "ir.h"

#include <string.h>

#include "ir_internal.h"
#include "plan.h"

const IrAttr *ir_attr_in(const IrAttr *list, const char *key) {
    for (; list; list = list->next)
        if (strcmp(list->key, key) == 0) return list;
    return NULL;
}

IrAttr *ir_attr_slot(IrModule *m, IrAttr **list, const char *key, IrAttrKind kind) {
    while (*list && strcmp((*list)->key, key) != 0) list = &(*list)->next;
    if (!*list) *list = ARENA_NEW(m->arena, IrAttr);
    struct IrAttr *next = (*list)->next;
    **list = (IrAttr){.key = ir_intern_string(m, key), .kind = kind, .next = next};
    return *list;
}

IrAttr *ir_attrs_clone(IrModule *m, const IrAttr *list) {
    IrAttr *first = NULL, **link = &first;
    for (; list; list = list->next) {
        *link = ARENA_NEW(m->arena, IrAttr);
        **link = *list; /* strings, lists and types are immutable: shared */
        link = &(*link)->next;
    }
    return first;
}

static IrModule *module_of(const IrOp *op) {
    return op->block->func->module;
}

/* ---- Ops ---- */

void ir_attr_set_int(IrOp *op, const char *key, int64_t value) {
    ir_attr_slot(module_of(op), &op->attrs, key, IR_ATTR_INT)->integer = value;
}

void ir_attr_set_float(IrOp *op, const char *key, double value) {
    ir_attr_slot(module_of(op), &op->attrs, key, IR_ATTR_FLOAT)->number = value;
}

void ir_attr_set_bool(IrOp *op, const char *key, bool value) {
    ir_attr_slot(module_of(op), &op->attrs, key, IR_ATTR_BOOL)->integer = value;
}

void ir_attr_set_str(IrOp *op, const char *key, const char *value) {
    IrModule *m = module_of(op);
    IrAttr *attr = ir_attr_slot(m, &op->attrs, key, IR_ATTR_STR);
    IrAttrSpec spec;
    bool is_enum = ir_attr_spec_find(ir_op_info(op->opcode), key, &spec) && spec.kind == IR_ATTR_ENUM && !spec.any;
    unsigned word = is_enum ? ir_enum_find(spec.set, value) : 0;
    attr->string = ir_intern_string(m, value);
    if (word) ir_attr_fill_enum(attr, spec.set, word);
}

void ir_attr_set_ints(IrOp *op, const char *key, size_t count, const int64_t *values) {
    IrModule *m = module_of(op);
    int64_t *copy = ARENA_ARRAY(m->arena, int64_t, count);
    if (count) memcpy(copy, values, count * sizeof *copy);
    IrAttr *attr = ir_attr_slot(m, &op->attrs, key, IR_ATTR_INTS);
    attr->count = count;
    attr->ints = copy;
}

void ir_attr_set_strs(IrOp *op, const char *key, size_t count, const char *const *values) {
    IrModule *m = module_of(op);
    const char **copy = ARENA_ARRAY(m->arena, const char *, count);
    for (size_t i = 0; i < count; i++) copy[i] = ir_intern_string(m, values[i]);
    IrAttr *attr = ir_attr_slot(m, &op->attrs, key, IR_ATTR_STRS);
    attr->count = count;
    attr->strs = copy;
}

void ir_attr_set_aff(IrOp *op, const char *key, const Aff *value) {
    ir_attr_slot(module_of(op), &op->attrs, key, IR_ATTR_AFF)->aff = value;
}

void ir_attr_copy(IrOp *to, const IrOp *from, const char *key) {
    const IrAttr *attr = ir_attr(from, key);
    if (!attr) return;
    IrAttr *copy = ir_attr_slot(module_of(to), &to->attrs, key, attr->kind), *next = copy->next;
    *copy = *attr;
    copy->next = next;
}

const IrAttr *ir_attr(const IrOp *op, const char *key) {
    return ir_attr_in(op->attrs, key);
}

int64_t ir_attr_int(const IrOp *op, const char *key, int64_t fallback) {
    const IrAttr *attr = ir_attr(op, key);
    return attr && attr->kind == IR_ATTR_INT ? attr->integer : fallback;
}

const char *ir_attr_str(const IrOp *op, const char *key, const char *fallback) {
    const IrAttr *attr = ir_attr(op, key);
    return attr && (attr->kind == IR_ATTR_STR || attr->kind == IR_ATTR_ENUM) ? attr->string : fallback;
}

bool ir_attr_bool(const IrOp *op, const char *key) {
    const IrAttr *attr = ir_attr(op, key);
    return attr && attr->kind == IR_ATTR_BOOL && attr->integer;
}

void ir_attr_remove(IrOp *op, const char *key) {
    for (IrAttr **link = &op->attrs; *link; link = &(*link)->next) {
        if (strcmp((*link)->key, key) != 0) continue;
        *link = (*link)->next;
        return;
    }
}

/* ---- Parameters of functions ---- */

static bool is_written(const IrValue *ptr) {
    for (const IrUse *use = ptr->uses; use; use = use->next)
        if (use->index != 0 || (use->op->opcode != IR_MEM_LOAD && use->op->opcode != IR_ASYNC_COPY)) return true;
    return false;
}

typedef enum { BEFORE_USED, BEFORE_WRITTEN } Before;

/* Does a step before that of `f` touch the memory behind the parameter in this way? */
static bool is_touched_before(const IrFunc *f, unsigned index, Before how) {
    const IrParam *param = &f->params[index];
    const char *name = param->kind == IR_PARAM_MAP ? param->map.tensor : param->name;
    int64_t step = ir_step_order(f);
    if (param->kind == IR_PARAM_SYMBOL || param->kind == IR_PARAM_SCALAR) return false;
    for (const IrFunc *g = f->module->first; g; g = g->next) {
        if (g->level != IR_LEVEL_KERNEL || ir_step_order(g) >= step) continue;
        for (unsigned i = 0; i < g->param_count; i++) {
            bool map = g->params[i].kind == IR_PARAM_MAP;
            if (strcmp(map ? g->params[i].map.tensor : g->params[i].name, name) != 0) continue;
            if (how == BEFORE_USED ? g->body->args[i]->uses != NULL : !map && is_written(g->body->args[i])) return true;
        }
    }
    return false;
}

bool ir_param_is_used_before(const IrFunc *f, unsigned index) {
    return is_touched_before(f, index, BEFORE_USED);
}

bool ir_param_is_written_before(const IrFunc *f, unsigned index) {
    return is_touched_before(f, index, BEFORE_WRITTEN);
}
