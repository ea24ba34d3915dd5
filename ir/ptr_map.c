#include "ir_internal.h"

static size_t slot_of(const PtrMap *map, const void *key) {
    uint64_t h = (uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u;
    size_t slot = (size_t)(h ^ (h >> 32)) & (map->capacity - 1);
    while (map->keys[slot] && map->keys[slot] != key) slot = (slot + 1) & (map->capacity - 1);
    return slot;
}

void ptr_map_init(PtrMap *map, Arena *arena) {
    *map = (PtrMap){.arena = arena};
}

static void grow(PtrMap *map) {
    PtrMap old = *map;
    map->capacity = old.capacity ? old.capacity * 2 : 32;
    map->keys = ARENA_ARRAY(map->arena, const void *, map->capacity);
    map->values = ARENA_ARRAY(map->arena, void *, map->capacity);
    for (size_t i = 0; i < old.capacity; i++) {
        if (!old.keys[i]) continue;
        size_t slot = slot_of(map, old.keys[i]);
        map->keys[slot] = old.keys[i];
        map->values[slot] = old.values[i];
    }
}

void ptr_map_set(PtrMap *map, const void *key, void *value) {
    if (map->used * 2 >= map->capacity) grow(map);
    size_t slot = slot_of(map, key);
    if (!map->keys[slot]) map->used++;
    map->keys[slot] = key;
    map->values[slot] = value;
}

void *ptr_map_get(const PtrMap *map, const void *key) {
    return map->capacity ? map->values[slot_of(map, key)] : NULL;
}

/* ---- Value maps ---- */

struct IrValueMap {
    PtrMap map;
};

IrValueMap *ir_value_map_create(Arena *scratch) {
    IrValueMap *map = ARENA_NEW(scratch, IrValueMap);
    ptr_map_init(&map->map, scratch);
    return map;
}

void ir_value_map_set(IrValueMap *map, IrValue *from, IrValue *to) {
    ptr_map_set(&map->map, from, to);
}

IrValue *ir_value_map_get(IrValueMap *map, IrValue *from) {
    IrValue *to = ptr_map_get(&map->map, from);
    return to ? to : from;
}
