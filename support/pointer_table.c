/* A table from pointers to numbers or pointers: open addressing, at most half full. */
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

static void set(PointerTable *t, const void *key, uintptr_t value);

static void grow(PointerTable *t) {
    PointerTable bigger = {.arena = t->arena, .capacity = t->capacity ? 2 * t->capacity : 64};
    bigger.keys = ARENA_ARRAY(t->arena, const void *, bigger.capacity);
    bigger.values = ARENA_ARRAY(t->arena, uintptr_t, bigger.capacity);
    for (size_t i = 0; i < t->capacity; i++)
        if (t->keys[i]) set(&bigger, t->keys[i], t->values[i]);
    *t = bigger;
}

static void set(PointerTable *t, const void *key, uintptr_t value) {
    if (2 * (t->used + 1) > t->capacity) grow(t);
    size_t i = slot_of(t, key);
    t->used += !t->keys[i];
    t->keys[i] = key;
    t->values[i] = value;
}

void pointer_table_set(PointerTable *t, const void *key, uint32_t value) {
    set(t, key, value);
}

void pointer_table_put(PointerTable *t, const void *key, void *value) {
    set(t, key, (uintptr_t)value);
}

bool pointer_table_get(const PointerTable *t, const void *key, uint32_t *value) {
    if (!t->capacity) return false;
    size_t i = slot_of(t, key);
    if (!t->keys[i]) return false;
    *value = (uint32_t)t->values[i];
    return true;
}

void *pointer_table_find(const PointerTable *t, const void *key) {
    return t->capacity ? (void *)t->values[slot_of(t, key)] : NULL;
}
