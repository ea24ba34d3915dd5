#include "support.h"

#include <string.h>

/* Open addressing, linear probing, at most half full; capacities are powers of two. Old tables stay
 * in the arena: their sizes double, so that together they are no larger than the last. */
typedef struct {
    const char *key; /* null: free */
    uint64_t hash;
    void *value;
} Slot;

struct Map {
    Slot *slots;
    size_t cap, len;
};

enum { FIRST_CAP = 16 };

Map *map_create(Arena *arena) {
    return ARENA_NEW(arena, Map);
}

static uint64_t key_hash(const char *key) {
    return hash128(key, strlen(key), (Hash128){0, 0}).lo;
}

/* The key's slot, or the free slot where it belongs. The map must have a free slot. */
static Slot *find_slot(const Map *map, const char *key, uint64_t hash) {
    for (size_t i = (size_t)hash & (map->cap - 1);; i = (i + 1) & (map->cap - 1)) {
        Slot *slot = &map->slots[i];
        if (!slot->key || (slot->hash == hash && strcmp(slot->key, key) == 0)) return slot;
    }
}

void *map_get(const Map *map, const char *key) {
    if (!map->cap) return NULL;
    return find_slot(map, key, key_hash(key))->value;
}

static void grow(Map *map, Arena *arena) {
    Map grown = {.cap = map->cap ? map->cap * 2 : FIRST_CAP, .len = map->len};
    grown.slots = ARENA_ARRAY(arena, Slot, grown.cap);
    for (size_t i = 0; i < map->cap; i++) {
        Slot *slot = &map->slots[i];
        if (slot->key) *find_slot(&grown, slot->key, slot->hash) = *slot;
    }
    *map = grown;
}

void map_set(Map *map, Arena *arena, const char *key, void *value) {
    if (map->len >= map->cap / 2) grow(map, arena);
    uint64_t hash = key_hash(key);
    Slot *slot = find_slot(map, key, hash);
    if (!slot->key) {
        slot->key = arena_strdup(arena, key);
        slot->hash = hash;
        map->len++;
    }
    slot->value = value;
}

size_t map_count(const Map *map) {
    return map->len;
}
