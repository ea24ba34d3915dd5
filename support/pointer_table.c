/* A table from pointers to numbers: open addressing, at most half full. */
#include "pointer_table.h"

PointerTable pointer_table(Arena *arena) {
    return (PointerTable){.arena = arena};
}

static size_t slot_of(const PointerTable *t, const void *key) {
    uint64_t hash = (uint64_t)(uintptr_t)key * 0x9E3779B97F4A7C15u;
    size_t i = (size_t)(hash >> 32) & (t->capacity - 1);
    while (t->keys[i] && t->keys[i] != key) i = (i + 1) & (t->capacity - 1);
    return i;
}

static void grow(PointerTable *t) {
    PointerTable bigger = {.arena = t->arena, .capacity = t->capacity ? 2 * t->capacity : 64};
    bigger.keys = ARENA_ARRAY(t->arena, const void *, bigger.capacity);
    bigger.values = ARENA_ARRAY(t->arena, uint32_t, bigger.capacity);
    for (size_t i = 0; i < t->capacity; i++)
        if (t->keys[i]) pointer_table_set(&bigger, t->keys[i], t->values[i]);
    *t = bigger;
}

void pointer_table_set(PointerTable *t, const void *key, uint32_t value) {
    if (2 * (t->used + 1) > t->capacity) grow(t);
    size_t i = slot_of(t, key);
    t->used += !t->keys[i];
    t->keys[i] = key;
    t->values[i] = value;
}

bool pointer_table_get(const PointerTable *t, const void *key, uint32_t *value) {
    if (!t->capacity) return false;
    size_t i = slot_of(t, key);
    if (!t->keys[i]) return false;
    *value = t->values[i];
    return true;
}
