#include "check.h"
#include "memory.h"
#include "support.h"

#include <string.h>

static bool refuse(void) {
    return true;
}

typedef struct {
    Arena *arena;
    int undone;
} Case;

static void count_undone(void *ctx) {
    ((Case *)ctx)->undone++;
}

static void too_large(void *ctx) {
    arena_alloc_array(((Case *)ctx)->arena, SIZE_MAX / 2, 4);
}

/* Leaves an arena, a string and a block behind, which LeakSanitizer would tell. */
static void run_out(void *ctx) {
    MemoryUndo kept, popped;
    Str text;
    str_init(&text);
    str_append(&text, "a text");
    memory_alloc(100);
    arena_alloc(arena_create(), 10000);
    memory_push(&kept, count_undone, ctx);
    memory_push(&popped, count_undone, ctx);
    memory_pop(&popped);
    arena_alloc(((Case *)ctx)->arena, 10000);
    memory_refuse = refuse;
    while (true) str_append(&text, "more");
}

static void run_out_inside(void *ctx) {
    memory_guard(run_out, ctx);
    CHECK(!"comes back");
}

static void keep(void *ctx) {
    *(Str *)ctx = (Str){0};
    str_init(ctx);
    str_append(ctx, "kept");
}

int main(void) {
    Arena *arena = arena_create();
    VEC(int) numbers = {0};
    for (int i = 0; i < 10000; i++) VEC_PUSH(arena, &numbers, i);
    for (int i = 0; i < 10000; i++) CHECK(numbers.data[i] == i);
    char *big = arena_alloc(arena, 3u << 20);
    CHECK(big[0] == 0 && big[(3u << 20) - 1] == 0);
    CHECK((uintptr_t)arena_alloc(arena, 1) % 16 == 0);
    CHECK_STR(arena_printf(arena, "%d-%s", 42, "x"), "42-x");

    Case c = {.arena = arena};
    CHECK(!memory_try(too_large, &c));
    CHECK(!memory_try(run_out, &c) && c.undone == 1);
    memory_refuse = NULL;
    CHECK(!memory_guard(run_out_inside, &c) && c.undone == 2);
    memory_refuse = NULL;
    Str text;
    CHECK(memory_try(keep, &text) && strcmp(text.data, "kept") == 0);
    str_release(&text);
    arena_destroy(arena);
    return 0;
}
