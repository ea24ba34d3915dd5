#include "ir.h"

#include <string.h>

#include "ir_internal.h"

/* ---- Interning ---- */

static uint64_t mix(uint64_t h, uint64_t v) {
    h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    return (h ^ (h >> 31)) * 0xbf58476d1ce4e5b9u;
}

static uint64_t type_hash(const IrType *t) {
    uint64_t h = mix((uint64_t)t->kind, (uint64_t)t->dtype);
    h = mix(h, t->is_index);
    h = mix(h, t->width);
    h = mix(h, t->stages);
    h = mix(h, (uint64_t)t->space);
    h = mix(h, (uint64_t)(uintptr_t)t->layout);
    h = mix(h, t->rank);
    for (unsigned i = 0; i < t->rank; i++) h = mix(h, t->extents[i]->id);
    for (unsigned i = 0; t->strides && i < t->rank; i++) h = mix(h, t->strides[i]->id);
    return h;
}

static bool same_affs(const Aff *const *a, const Aff *const *b, unsigned count) {
    if (!a || !b) return a == b || !count;
    return !count || memcmp(a, b, count * sizeof *a) == 0;
}

static bool type_equal(const IrType *a, const IrType *b) {
    if (a->kind != b->kind || a->dtype != b->dtype || a->is_index != b->is_index || a->width != b->width || a->stages != b->stages ||
        a->space != b->space || a->layout != b->layout || a->rank != b->rank)
        return false;
    return same_affs(a->extents, b->extents, a->rank) && same_affs(a->strides, b->strides, a->rank);
}

static void table_insert(IrInterned *in, const IrType *t) {
    size_t slot = type_hash(t) & (in->capacity - 1);
    while (in->table[slot]) slot = (slot + 1) & (in->capacity - 1);
    in->table[slot] = t;
}

static void table_grow(IrModule *m, IrInterned *in) {
    const IrType **old = in->table;
    size_t old_capacity = in->capacity;
    in->capacity = old_capacity ? old_capacity * 2 : 64;
    in->table = ARENA_ARRAY(m->arena, const IrType *, in->capacity);
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i]) table_insert(in, old[i]);
}

static const Aff **copy_affs(IrModule *m, const Aff *const *from, unsigned count) {
    const Aff **to = ARENA_ARRAY(m->arena, const Aff *, count);
    memcpy(to, from, count * sizeof *to);
    return to;
}

static const IrType *intern(IrModule *m, const IrType *probe) {
    IrInterned *in = m->interned;
    if (in->used * 2 >= in->capacity) table_grow(m, in);
    size_t slot = type_hash(probe) & (in->capacity - 1);
    for (; in->table[slot]; slot = (slot + 1) & (in->capacity - 1))
        if (type_equal(in->table[slot], probe)) return in->table[slot];
    IrType *t = ARENA_NEW(m->arena, IrType);
    *t = *probe;
    t->extents = t->rank ? copy_affs(m, probe->extents, t->rank) : NULL;
    t->strides = t->rank && probe->strides ? copy_affs(m, probe->strides, t->rank) : NULL;
    in->used++;
    in->table[slot] = t;
    return t;
}

const char *ir_intern_string(IrModule *m, const char *text) {
    if (!text) return NULL;
    IrInterned *in = m->interned;
    char *found = map_get(in->strings, text);
    if (found) return found;
    char *copy = arena_strdup(m->arena, text);
    map_set(in->strings, m->arena, text, copy);
    return copy;
}

/* ---- Constructors ---- */

const IrType *ir_type_index(IrModule *m) {
    return intern(m, &(IrType){.kind = IR_TYPE_SCALAR, .dtype = DTYPE_I64, .is_index = true, .width = 1});
}

const IrType *ir_type_scalar(IrModule *m, Dtype dtype) {
    return ir_type_vec(m, dtype, 1);
}

const IrType *ir_type_vec(IrModule *m, Dtype dtype, unsigned width) {
    return intern(m, &(IrType){.kind = IR_TYPE_SCALAR, .dtype = dtype, .width = width});
}

const IrType *ir_type_tile(IrModule *m, Dtype dtype, unsigned rank, const Aff *const *extents, const Layout *layout) {
    return intern(m, &(IrType){.kind = IR_TYPE_TILE, .dtype = dtype, .rank = rank, .extents = (const Aff **)extents, .layout = layout});
}

const IrType *ir_type_tensor(IrModule *m, Dtype dtype, unsigned rank, const Aff *const *extents) {
    return intern(m, &(IrType){.kind = IR_TYPE_TENSOR, .dtype = dtype, .rank = rank, .extents = (const Aff **)extents});
}

const IrType *ir_type_strided(IrModule *m, const IrType *t, const Aff *const *strides) {
    IrType probe = *t;
    probe.strides = (const Aff **)strides;
    return intern(m, &probe);
}

const IrType *ir_type_buf(IrModule *m, Dtype dtype, unsigned rank, const Aff *const *extents, unsigned stages, IrSpace space,
                          const Layout *layout) {
    return intern(m, &(IrType){.kind = IR_TYPE_BUF,
                               .dtype = dtype,
                               .rank = rank,
                               .extents = (const Aff **)extents,
                               .stages = stages,
                               .space = space,
                               .layout = layout});
}

const IrType *ir_type_frag(IrModule *m, Dtype dtype, unsigned rank, const int64_t *extents) {
    const Aff *affs[IR_MAX_RANK];
    if (rank > IR_MAX_RANK) rank = IR_MAX_RANK;
    for (unsigned i = 0; i < rank; i++) affs[i] = aff_const(m->affs, extents[i]);
    return intern(m, &(IrType){.kind = IR_TYPE_FRAG, .dtype = dtype, .rank = rank, .extents = affs});
}

const IrType *ir_type_ptr(IrModule *m, Dtype dtype, IrSpace space) {
    return intern(m, &(IrType){.kind = IR_TYPE_PTR, .dtype = dtype, .space = space});
}

const IrType *ir_type_token(IrModule *m) {
    return intern(m, &(IrType){.kind = IR_TYPE_TOKEN});
}

const IrType *ir_type_with_dtype(IrModule *m, const IrType *t, Dtype dtype) {
    IrType probe = *t;
    probe.dtype = dtype;
    probe.is_index = false;
    return intern(m, &probe);
}

/* ---- Queries ---- */

int64_t ir_type_extent(const IrType *t, unsigned axis) {
    int64_t value = -1;
    return axis < t->rank && aff_is_const(t->extents[axis], &value) ? value : -1;
}

const Aff *ir_type_stride(IrModule *m, const IrType *t, unsigned axis) {
    if (t->strides) return t->strides[axis];
    const Aff *stride = aff_const(m->affs, 1);
    for (unsigned i = t->rank; i-- > axis + 1;) stride = aff_mul(m->affs, stride, t->extents[i]);
    return stride;
}

bool ir_type_is_shaped(const IrType *t) {
    return t->kind == IR_TYPE_TILE || t->kind == IR_TYPE_TENSOR || (t->kind == IR_TYPE_SCALAR && t->width > 1);
}

bool ir_same_shape(const IrType *a, const IrType *b) {
    if (a->rank != b->rank) return false;
    return !a->rank || memcmp(a->extents, b->extents, a->rank * sizeof *a->extents) == 0;
}

bool ir_type_is_scalar(const IrType *t) {
    return t->kind == IR_TYPE_SCALAR && t->width == 1;
}

bool ir_type_is_index(const IrType *t) {
    return t->kind == IR_TYPE_SCALAR && t->is_index;
}

bool ir_type_is_bool(const IrType *t) {
    return ir_type_is_scalar(t) && t->dtype == DTYPE_BOOL;
}

static const char *const space_names[] = {"global", "shared", "local", "cluster", "map"};

const char *ir_space_name(IrSpace space) {
    return space_names[space];
}

bool ir_space_find(const char *name, IrSpace *space) {
    for (unsigned i = 0; i < COUNT_OF(space_names); i++) {
        if (strcmp(space_names[i], name) != 0) continue;
        *space = (IrSpace)i;
        return true;
    }
    return false;
}
