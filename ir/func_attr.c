#include "func_attr.h"

#include <string.h>

#include "ir.h"
#include "ir_internal.h"

enum { G = IR_LEVEL_GRAPH, T = IR_LEVEL_TILE, K = IR_LEVEL_KERNEL };

static const IrFuncAttrInfo infos[IR_FN_COUNT] = {
#define IR_FN_ROW(id, kind, key, levels, set_by, read_by, summary) {key, IR_ATTR_##kind, levels, set_by, read_by, summary},
#include "func_attrs.def"
};

const IrFuncAttrInfo *ir_func_attr_info(unsigned attr) {
    return &infos[attr];
}

const IrFuncAttrInfo *ir_func_attr_find(const char *key) {
    for (unsigned i = 0; i < IR_FN_COUNT; i++)
        if (strcmp(infos[i].key, key) == 0) return &infos[i];
    return NULL;
}

/* ---- Asking ---- */

static const IrAttr *find(const IrFunc *f, unsigned attr) {
    const IrAttr *found = ir_attr_in(f->attrs, infos[attr].key);
    return found && found->kind == infos[attr].kind ? found : NULL;
}

bool ir_func_has(const IrFunc *f, unsigned attr) {
    return find(f, attr);
}

int64_t ir_func_int(const IrFunc *f, IrFuncInt attr, int64_t fallback) {
    const IrAttr *a = find(f, attr);
    return a ? a->integer : fallback;
}

const char *ir_func_str(const IrFunc *f, IrFuncStr attr, const char *fallback) {
    const IrAttr *a = find(f, attr);
    return a ? a->string : fallback;
}

unsigned ir_func_enum(const IrFunc *f, IrFuncEnum attr) {
    const IrAttr *a = find(f, attr);
    return a ? (unsigned)a->integer : 0;
}

const Aff *ir_func_aff(const IrFunc *f, IrFuncAff attr) {
    const IrAttr *a = find(f, attr);
    return a ? a->aff : NULL;
}

const int64_t *ir_func_ints(const IrFunc *f, IrFuncInts attr, size_t *count) {
    const IrAttr *a = find(f, attr);
    *count = a ? a->count : 0;
    return a ? a->ints : NULL;
}

int64_t ir_func_cluster(const IrFunc *f) {
    size_t count;
    const int64_t *blocks = ir_func_ints(f, IR_FN_CLUSTER, &count);
    return count ? blocks[0] : 1;
}

bool ir_func_is_cuda(const IrFunc *f) {
    return ir_func_enum(f, IR_FN_TARGET) == IR_TARGET_CUDA;
}

/* ---- Setting ---- */

static IrAttr *slot(IrFunc *f, unsigned attr) {
    return ir_attr_slot(f->module, &f->attrs, infos[attr].key, infos[attr].kind);
}

void ir_func_set_int(IrFunc *f, IrFuncInt attr, int64_t value) {
    slot(f, attr)->integer = value;
}

void ir_func_set_str(IrFunc *f, IrFuncStr attr, const char *value) {
    slot(f, attr)->string = ir_intern_string(f->module, value);
}

void ir_func_set_enum(IrFunc *f, IrFuncEnum attr, unsigned value) {
    ir_attr_fill_enum(slot(f, attr), ir_enum_named(infos[attr].key), value);
}

void ir_func_set_aff(IrFunc *f, IrFuncAff attr, const Aff *value) {
    slot(f, attr)->aff = value;
}

void ir_func_set_ints(IrFunc *f, IrFuncInts attr, size_t count, const int64_t *values) {
    int64_t *copy = ARENA_ARRAY(f->module->arena, int64_t, count);
    if (count) memcpy(copy, values, count * sizeof *copy);
    IrAttr *a = slot(f, attr);
    a->count = count;
    a->ints = copy;
}
