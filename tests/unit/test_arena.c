#include "check.h"
#include "support.h"

int main(void) {
    Arena *arena = arena_create();
    VEC(int) numbers = {0};
    for (int i = 0; i < 10000; i++) VEC_PUSH(arena, &numbers, i);
    for (int i = 0; i < 10000; i++) CHECK(numbers.data[i] == i);
    char *big = arena_alloc(arena, 3u << 20);
    CHECK(big[0] == 0 && big[(3u << 20) - 1] == 0);
    CHECK((uintptr_t)arena_alloc(arena, 1) % 16 == 0);
    CHECK_STR(arena_printf(arena, "%d-%s", 42, "x"), "42-x");

    jmp_buf target;
    volatile int caught = 0;
    arena_set_oom_target(arena, &target);
    if (setjmp(target)) caught = 1;
    else arena_alloc_array(arena, SIZE_MAX / 2, 4);
    CHECK(caught);
    arena_destroy(arena);
    return 0;
}
