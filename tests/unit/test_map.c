#include "check.h"
#include "support.h"

int main(void) {
    Arena *arena = arena_create();
    Map *map = map_create(arena);
    CHECK(!map_get(map, "missing") && map_count(map) == 0);
    static int values[5000];
    char key[16];
    for (int i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "key%d", i); /* one buffer: the map must copy */
        map_set(map, arena, key, &values[i]);
    }
    CHECK(map_count(map) == 5000);
    for (int i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "key%d", i);
        CHECK(map_get(map, key) == &values[i]);
    }
    map_set(map, arena, "key7", &values[0]);
    map_set(map, arena, "", &values[1]);
    CHECK(map_get(map, "key7") == &values[0] && map_get(map, "") == &values[1]);
    CHECK(map_count(map) == 5001 && !map_get(map, "key5000"));
    arena_destroy(arena);
    return 0;
}
