#include "emit_internal.h"

/* Open addressing, at most half full. */
static size_t slot_of(const ValueMap *m, const IrValue *v) {
    uint64_t h = (uint64_t)(uintptr_t)v * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(h >> 20) & (m->size - 1);
    while (m->keys[i] && m->keys[i] != v) i = (i + 1) & (m->size - 1);
    return i;
}

static void grow(ValueMap *m, Arena *arena) {
    ValueMap old = *m;
    m->size = old.size ? old.size * 2 : 64;
    m->keys = ARENA_ARRAY(arena, const IrValue *, m->size);
    m->values = ARENA_ARRAY(arena, void *, m->size);
    for (size_t i = 0; i < old.size; i++) {
        if (!old.keys[i]) continue;
        size_t at = slot_of(m, old.keys[i]);
        m->keys[at] = old.keys[i];
        m->values[at] = old.values[i];
    }
}

void **value_map_at(ValueMap *m, Arena *arena, const IrValue *v) {
    if (m->used * 2 >= m->size) grow(m, arena);
    size_t i = slot_of(m, v);
    if (!m->keys[i]) {
        m->keys[i] = v;
        m->used++;
    }
    return &m->values[i];
}
