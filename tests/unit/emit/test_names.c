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
    const char *const taken[] = {"EOF",         "int",         "if",       "for",      "linux",   "unix",           "float4",
                                 "half",        "min",         "max",      "smem",     "stream",  "main",           "xor_eq",
                                 "sk_f16",      "threadIdx",   "typename", "restrict", "max_f32", "floordiv_index", "f32_to_i8",
                                 "bits_of_f32", "cp_async_16", "__x",      "_X",       "9lives"};
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

/* Functions and steps whose names are alike for longer than a symbol is are told apart; one step has one symbol. */
static void test_symbols(Arena *a) {
    static const char *const names[] = {"sums_of_columns_in_parts_and_groups_passes_aligned",
                                        "sums_of_columns_in_parts_and_groups_passes_unaligned",
                                        "sums_of_columns_in_parts_and_groups_row_aligned",
                                        "sums_of_columns_in_parts_and_groups_row_unaligned",
                                        "sums_of_columns_in_parts_and_groups_passes_part",
                                        "sums",
                                        "means_of_planes_in_groups_and_parts__1",
                                        "means_of_planes_in_groups_and_parts__12"};
    static const char *const steps[] = {"sums_of_columns_in_parts_and_groups_step_of_one",
                                        "sums_of_columns_in_parts_and_groups_step_of_one",
                                        "sums_of_columns_in_parts_and_groups_step_of_two",
                                        "sums_of_columns_in_parts_and_groups_step_of_two",
                                        NULL,
                                        NULL,
                                        "means_of_planes_in_groups_and_parts__10",
                                        "means_of_planes_in_groups_and_parts__13"};
    IrModule *m = ir_module_create(a, NULL);
    IrFunc *f[COUNT_OF(names)];
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        f[i] = ir_func_create(m, names[i], IR_LEVEL_KERNEL);
        if (steps[i]) ir_func_set_str(f[i], IR_FN_KERNEL, steps[i]);
    }
    IrPlan plan = ir_plan(a, m, IR_LEVEL_KERNEL);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        CHECK(strlen(emit_entry_name(a, &plan, f[i])) <= NAME_MAX_LENGTH);
        CHECK_STR(emit_entry_name(a, &plan, f[i]), emit_entry_name(a, &plan, f[i]));
        for (size_t k = 0; k < COUNT_OF(names); k++) {
            const char *own = steps[i] ? steps[i] : names[i], *other = steps[k] ? steps[k] : names[k];
            CHECK(k == i || strcmp(emit_entry_name(a, &plan, f[i]), emit_entry_name(a, &plan, f[k])) != 0);
            CHECK((strcmp(own, other) == 0) ==
                  (strcmp(emit_step_name(a, &plan, ir_plan_step(&plan, f[i])), emit_step_name(a, &plan, ir_plan_step(&plan, f[k]))) == 0));
            CHECK((strcmp(own, names[k]) == 0) ==
                  (strcmp(emit_step_name(a, &plan, ir_plan_step(&plan, f[i])), emit_entry_name(a, &plan, f[k])) == 0));
        }
    }
    CHECK_STR(emit_entry_name(a, &plan, f[5]), "sums");
}

int main(void) {
    Arena *a = arena_create();
    test_legal(a);
    test_scope(a);
    test_symbols(a);
    arena_destroy(a);
    return 0;
}
