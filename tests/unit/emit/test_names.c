/* Names in emitted code: legal in every target, the source's where that is possible. */
#include "check.h"
#include "emit_internal.h"

static void check_same(Arena *a, const char *name) {
    CHECK_STR(name_legal(a, name), name);
}

static void check_prefixed(Arena *a, const char *name) {
    CHECK_STR(name_legal(a, name), arena_printf(a, "v_%s", name));
}

static void test_legal(Arena *a) {
    const char *const kept[] = {"x_row", "acc", "B", "max_row", "add_bias", "tile_1", "_x", "I"};
    for (size_t i = 0; i < COUNT_OF(kept); i++) check_same(a, kept[i]);
    const char *const taken[] = {"EOF",       "int",         "if",          "for",
                                 "linux",     "unix",        "float4",      "half",
                                 "min",       "max",         "smem",        "stream",
                                 "main",      "xor_eq",      "sk_f16",      "threadIdx",
                                 "typename",  "restrict",    "max_f32",     "floordiv_index",
                                 "f32_to_i8", "bits_of_f32", "cp_async_16", "__x",
                                 "_X",        "9lives"};
    for (size_t i = 0; i < COUNT_OF(taken); i++) check_prefixed(a, taken[i]);
    CHECK_STR(name_legal(a, "a-b c\"\n*/"), "a_b_c____");
    CHECK_STR(name_legal(a, ""), "v_x");
    CHECK_STR(name_legal(a, NULL), "v_x");
    char long_name[200];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    CHECK(strlen(name_legal(a, long_name)) <= NAME_MAX_LENGTH);
    long_name[0] = '1';
    CHECK(strlen(name_legal(a, long_name)) <= NAME_MAX_LENGTH);
}

static void test_scope(Arena *a) {
    NameScope scope = {.arena = a};
    CHECK_STR(name_claim(&scope, "x"), "x");
    size_t mark = name_mark(&scope);
    CHECK_STR(name_claim(&scope, "x"), "x_2");
    CHECK_STR(name_claim(&scope, "x"), "x_3");
    CHECK_STR(name_claim(&scope, "int"), "v_int");
    name_release(&scope, mark);
    CHECK_STR(name_claim(&scope, "x"), "x_2");
    char long_name[100];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    const char *first = name_claim(&scope, long_name), *second = name_claim(&scope, long_name);
    CHECK(strcmp(first, second) != 0 && strlen(second) <= NAME_MAX_LENGTH);
}

int main(void) {
    Arena *a = arena_create();
    test_legal(a);
    test_scope(a);
    arena_destroy(a);
    return 0;
}
