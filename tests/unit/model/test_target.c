#include "check.h"
#include "target.h"

static const char *first_error(const char *text) {
    Arena *arena = arena_create();
    DiagList diags;
    diag_list_init(&diags, arena, NULL);
    const Target *t = target_parse(arena, &diags, "t.json", text, strlen(text));
    static char kept[256];
    snprintf(kept, sizeof kept, "%s", t ? "accepted" : diags.first->text);
    CHECK((t == NULL) == (diags.error_count > 0));
    arena_destroy(arena);
    return kept;
}

#define HEAD "{\"format\": \"sketchc.target 1\", \"name\": \"a\", \"arch\": \"a\", \"kind\": \"cpu\", "
#define TUNING "\"tuning\": {\"tile_elements\": 64, \"axis_chunk\": 64, \"row_large\": 64, \"row_chunk\": 64, \"gemm_chunk\": 32}"

int main(void) {
    Arena *arena = arena_create();
    DiagList diags;
    diag_list_init(&diags, arena, NULL);
    CHECK(target_count() == 5);
    for (size_t i = 0; i < target_count(); i++) {
        const Target *t = target_find(arena, &diags, target_name(i));
        CHECK(t && diags.error_count == 0);
        CHECK_STR(t->name, target_name(i));
        CHECK(t->tile_elements > 0);
        CHECK((t->kind == TARGET_CUDA) == (t->warp_size == 32));
    }
    CHECK(target_has(target_find(arena, &diags, "sm_90a"), TARGET_MMA | TARGET_WGMMA));
    CHECK(!target_has(target_find(arena, &diags, "sm_80"), TARGET_MMA | TARGET_WGMMA));
    CHECK(target_has(target_find(arena, &diags, "sm_100a"), TARGET_MMA_F8 | TARGET_STMATRIX));
    CHECK(!target_has(target_find(arena, &diags, "sm_80"), TARGET_MMA_F8));
    CHECK(!target_has(target_find(arena, &diags, "sm_80"), TARGET_STMATRIX));
    CHECK(!target_find(arena, &diags, "sm_90"));
    CHECK_STR(diags.first->text, "unknown target \"sm_90\"");
    CHECK(diags.first->notes != NULL);
    CHECK_STR(first_error(HEAD TUNING ", \"machine\": {\"simd_bytes\": 32, \"l1_bytes\": 32768, \"l2_bytes\": 1048576}, \"features\": []}"),
              "accepted");
    CHECK_STR(first_error(HEAD TUNING ", \"machine\": {\"simd_bytes\": 8, \"l1_bytes\": 32768, \"l2_bytes\": 1048576}, \"features\": []}"),
              "t.json: \"simd_bytes\" in \"machine\" must be a whole number from 16 to 256");
    CHECK_STR(first_error(HEAD TUNING
                          ", \"machine\": {\"simd_bytes\": 32, \"l1_bytes\": 32768, \"l2_bytes\": 1048576, \"sms\": 3}, \"features\": []}"),
              "t.json: \"machine\" has no member \"sms\" for this kind of target");
    CHECK_STR(first_error("[1]"), "t.json: it is not a JSON object");
    CHECK_STR(first_error("{\"format\": \"sketchc.target 2\"}"), "t.json: \"format\" must be \"sketchc.target 1\"");
    arena_destroy(arena);
    return 0;
}
