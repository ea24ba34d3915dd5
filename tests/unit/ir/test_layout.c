/* Making and reshaping layouts; fragments against the formulas of the PTX ISA. */
#include "layout_check.h"

static void prints(const Layout *l, const char *want) {
    Str s;
    str_init(&s);
    CHECK(l);
    layout_print(l, &s);
    CHECK_STR(s.data, want);
    str_release(&s);
}

static void test_pad(void) {
    static const int64_t cases[][2] = {{1, 1},       {7, 7},   {15, 15},  {16, 16},     {17, 18},
                                       {33, 34 + 2}, {96, 96}, {97, 104}, {1000, 1024}, {100, 104}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int64_t padded = layout_pad_extent(cases[i][0]);
        CHECK(padded >= cases[i][0] && padded / (padded & -padded) <= LAYOUT_REPEAT_LIMIT);
        for (int64_t n = cases[i][0]; n < padded; n++) CHECK(n / (n & -n) > LAYOUT_REPEAT_LIMIT);
        CHECK(padded == cases[i][1]);
    }
}

static void test_product(void) {
    const Layout *regs = layout_line(ctx, 2, 1, LAYOUT_REGISTER, 2, 0);
    const Layout *lanes = layout_product(ctx, layout_line(ctx, 2, 1, LAYOUT_LANE, 3, 0), layout_line(ctx, 2, 0, LAYOUT_LANE, 2, 0));
    const Layout *warps = layout_line(ctx, 2, 0, LAYOUT_WARP, 1, 0);
    const Layout *all = layout_product(ctx, layout_product(ctx, regs, lanes), warps);
    CHECK(all == blocked(8, 32, 4, 4, 8, 2));
    prints(all, "#dist<[8, 32], register=[(0, 1)*2], lane=[(0, 4)*3, (1, 0)*2], warp=[(4, 0)]>");
    CHECK(layout_divide(ctx, all, regs) == layout_product(ctx, lanes, warps));
    CHECK(layout_divide(ctx, layout_product(ctx, regs, lanes), layout_product(ctx, regs, lanes)) ==
          layout_from_bases(ctx, false, 2, (int64_t[]){1, 1}, (unsigned[LAYOUT_DIMS]){0}, (const uint32_t *const[LAYOUT_DIMS]){NULL}));
    CHECK(!layout_divide(ctx, all, layout_line(ctx, 2, 1, LAYOUT_REGISTER, 1, 1)));
    CHECK(!layout_divide(ctx, all, lanes));
    const Layout *strided = layout_line(ctx, 1, 0, LAYOUT_LANE, 3, 2);
    CHECK(index_of(strided, 0, 5, 0, 0) == 20 && strided->extents[0] == 32);
    CHECK(!layout_is_surjective(strided) && layout_is_injective(strided));
    const Layout *copies = layout_product(ctx, regs, layout_broadcast(ctx, 2, LAYOUT_WARP, 2));
    CHECK(layout_free_mask(copies, LAYOUT_WARP) == 3 && layout_free_mask(copies, LAYOUT_REGISTER) == 0);
    CHECK(layout_is_surjective(copies) && !layout_is_injective(copies));
}

static void test_blocked(void) {
    const Layout *l = blocked(64, 96, 4, 4, 8, 2); /* 96 = 3 * 32 */
    CHECK(layout_register_count(l) == 64 * 96 / 64 && layout_vector_width(l, 1) == 4);
    for (uint32_t r = 0; r < 96; r++)
        for (uint32_t lane = 0; lane < 32; lane++) {
            CHECK(index_of(l, r, lane, 1, 0) == lane / 8 + 4 + 8 * (r / 4 % 8));
            CHECK(index_of(l, r, lane, 1, 1) == r % 4 + 4 * (lane % 8) + 32 * (r / 32));
        }
    const Layout *small = blocked(2, 8, 4, 4, 8, 2); /* smaller than the threads: copies */
    CHECK(layout_register_count(small) == 4 && layout_is_surjective(small));
    CHECK(layout_free_mask(small, LAYOUT_LANE) == 0x16 && layout_free_mask(small, LAYOUT_WARP) == 1);
    CHECK(index_of(small, 3, 9, 1, 0) == 1 && index_of(small, 3, 9, 1, 1) == 7);
    CHECK(!blocked(64, 34, 4, 4, 8, 2) && !blocked(0, 32, 4, 4, 8, 2) && !blocked(64, 32, 3, 4, 8, 2));
    const Layout *flat = layout_row_major(ctx, 2, (int64_t[]){4, 24});
    CHECK(layout_register_count(flat) == 96 && layout_vector_width(flat, 1) == 8);
    prints(flat, "#dist<[4, 24], register=[(0, 1)*3, (1, 0)*2]>");
}

static void test_mma16(void) {
    const Layout *a = layout_mma(ctx, LAYOUT_MMA_A, 16, 16, 16, 1, 1);
    const Layout *b = layout_mma(ctx, LAYOUT_MMA_B, 16, 16, 8, 1, 1);
    const Layout *c = layout_mma(ctx, LAYOUT_MMA_C, 32, 16, 8, 1, 1);
    CHECK(layout_register_count(a) == 8 && layout_register_count(b) == 4 && layout_register_count(c) == 4);
    for (uint32_t lane = 0; lane < 32; lane++) {
        uint32_t group = lane >> 2, thread = lane % 4;
        for (uint32_t i = 0; i < 8; i++) {
            bool upper = i < 2 || (i >= 4 && i < 6);
            CHECK(index_of(a, i, lane, 0, 0) == (upper ? group : group + 8));
            CHECK(index_of(a, i, lane, 0, 1) == thread * 2 + (i & 1) + (i < 4 ? 0 : 8));
        }
        for (uint32_t i = 0; i < 4; i++) {
            CHECK(index_of(b, i, lane, 0, 0) == thread * 2 + (i & 1) + (i < 2 ? 0 : 8));
            CHECK(index_of(b, i, lane, 0, 1) == group);
            CHECK(index_of(c, i, lane, 0, 0) == (i < 2 ? group : group + 8));
            CHECK(index_of(c, i, lane, 0, 1) == thread * 2 + (i & 1));
        }
    }
    CHECK(!layout_mma(ctx, LAYOUT_MMA_A, 16, 8, 16, 1, 1));
    CHECK(!layout_mma(ctx, LAYOUT_MMA_A, 16, 16, 8, 1, 1));
    CHECK(!layout_mma(ctx, LAYOUT_MMA_C, 32, 16, 8, 2, 1));
    CHECK(!layout_mma(ctx, LAYOUT_MMA_C, 32, 32, 8, 2, 3));
}

static void test_mma_tf32_and_8(void) {
    const Layout *a = layout_mma(ctx, LAYOUT_MMA_A, 32, 16, 8, 1, 1);
    const Layout *b = layout_mma(ctx, LAYOUT_MMA_B, 32, 8, 8, 1, 1);
    const Layout *a8 = layout_mma(ctx, LAYOUT_MMA_A, 8, 16, 32, 1, 1);
    const Layout *b8 = layout_mma(ctx, LAYOUT_MMA_B, 8, 32, 8, 1, 1);
    for (uint32_t lane = 0; lane < 32; lane++) {
        uint32_t group = lane >> 2, thread = lane % 4;
        for (uint32_t i = 0; i < 4; i++) {
            CHECK(index_of(a, i, lane, 0, 0) == (i == 0 || i == 2 ? group : group + 8));
            CHECK(index_of(a, i, lane, 0, 1) == (i < 2 ? thread : thread + 4));
        }
        for (uint32_t i = 0; i < 2; i++) {
            CHECK(index_of(b, i, lane, 0, 0) == (i == 0 ? thread : thread + 4));
            CHECK(index_of(b, i, lane, 0, 1) == group);
        }
        for (uint32_t i = 0; i < 16; i++) {
            bool upper = i < 4 || (i >= 8 && i < 12);
            CHECK(index_of(a8, i, lane, 0, 0) == (upper ? group : group + 8));
            CHECK(index_of(a8, i, lane, 0, 1) == thread * 4 + (i & 3) + (i < 8 ? 0 : 16));
        }
        for (uint32_t i = 0; i < 8; i++) {
            CHECK(index_of(b8, i, lane, 0, 0) == thread * 4 + (i & 3) + (i < 4 ? 0 : 16));
            CHECK(index_of(b8, i, lane, 0, 1) == group);
        }
    }
}

static void test_mma_tiles(void) {
    const Layout *c = layout_mma(ctx, LAYOUT_MMA_C, 32, 64, 96, 2, 4);
    const Layout *a = layout_mma(ctx, LAYOUT_MMA_A, 16, 64, 32, 2, 4);
    const Layout *b = layout_mma(ctx, LAYOUT_MMA_B, 16, 32, 96, 2, 4);
    CHECK(layout_register_count(c) == 24 && layout_is_injective(c) && layout_is_surjective(c));
    CHECK(layout_free_mask(a, LAYOUT_WARP) == 3 && layout_free_mask(b, LAYOUT_WARP) == 4);
    for (uint32_t w = 0; w < 8; w++)
        for (uint32_t r = 0; r < 24; r++) {
            uint32_t lane = (uint32_t)random_below(32), inner = r % 4, group = lane >> 2;
            CHECK(index_of(c, r, lane, w, 0) == w / 4 * 32 + group + (inner < 2 ? 0 : 8) + 16 * (r % 8 / 4));
            CHECK(index_of(c, r, lane, w, 1) == w % 4 * 8 + lane % 4 * 2 + (inner & 1) + 32 * (r / 8));
            CHECK(index_of(a, r, lane, w, 0) == index_of(a, r, lane, w ^ 3, 0));
        }
    CHECK(index_of(a, 8, 0, 0, 1) == 16 && index_of(a, 16, 0, 0, 0) == 16);
    CHECK(index_of(b, 4, 0, 0, 0) == 16 && index_of(b, 8, 0, 0, 1) == 32);
    LayoutConversion plan; /* C is A of the next product, repacked: flash attention */
    layout_plan_conversion(layout_mma(ctx, LAYOUT_MMA_C, 32, 64, 64, 4, 1), layout_mma(ctx, LAYOUT_MMA_A, 16, 64, 64, 4, 1), &plan);
    CHECK(plan.kind == LAYOUT_CONVERT_NONE);
}

static void test_wgmma(void) {
    const Layout *c = layout_wgmma_c(ctx, 128, 192, 2);
    CHECK(layout_register_count(c) == 96 && layout_is_injective(c) && layout_is_surjective(c));
    for (uint32_t warp = 0; warp < 8; warp++)
        for (uint32_t lane = 0; lane < 32; lane++)
            for (uint32_t i = 0; i < 96; i++) {
                CHECK(index_of(c, i, lane, warp, 0) == warp * 16 + (lane >> 2) + 8 * (i / 2 % 2));
                CHECK(index_of(c, i, lane, warp, 1) == i / 4 * 8 + lane % 4 * 2 + (i & 1));
            }
    const Layout *a = layout_wgmma_a(ctx, 16, 64, 64, 1);
    LayoutConversion plan;
    layout_plan_conversion(layout_wgmma_c(ctx, 64, 64, 1), a, &plan);
    CHECK(plan.kind == LAYOUT_CONVERT_NONE);
    const Layout *two = layout_wgmma_c(ctx, 256, 64, 2); /* two blocks of 64 rows each */
    CHECK(index_of(two, 32, 0, 0, 0) == 64 && index_of(two, 0, 0, 4, 0) == 128);
    CHECK(!layout_wgmma_c(ctx, 32, 64, 1) && !layout_wgmma_c(ctx, 64, 136, 1));
}

static void test_reshapes(void) {
    const Layout *l = blocked(64, 96, 4, 4, 8, 2);
    const Layout *rows = layout_slice(ctx, l, 1);
    CHECK(rows->rank == 1 && layout_register_count(rows) == 8);
    CHECK(layout_free_mask(rows, LAYOUT_LANE) == 7 && layout_is_surjective(rows));
    CHECK(index_of(rows, 3, 31, 1, 0) == 3 + 4 + 8 * 3);
    const Layout *expanded = layout_expand_dims(ctx, rows, 1);
    CHECK(expanded->rank == 2 && expanded->extents[1] == 1);
    CHECK(layout_slice(ctx, expanded, 1) == rows);
    const Layout *turned = layout_transpose(ctx, l, (unsigned[]){1, 0});
    CHECK(turned != l && layout_transpose(ctx, turned, (unsigned[]){1, 0}) == l);
    CHECK(index_of(turned, 77, 13, 1, 0) == index_of(l, 77, 13, 1, 1));
    CHECK(!layout_transpose(ctx, l, (unsigned[]){0, 0}));
    const Layout *cube = layout_reshape(ctx, l, 3, (int64_t[]){8, 8, 96});
    CHECK(cube && layout_reshape(ctx, cube, 2, (int64_t[]){64, 96}) == l);
    for (int n = 0; n < 200; n++) {
        uint32_t r = (uint32_t)random_below(96), lane = (uint32_t)random_below(32);
        CHECK(index_of(cube, r, lane, 1, 0) * 8 + index_of(cube, r, lane, 1, 1) == index_of(l, r, lane, 1, 0));
        CHECK(index_of(cube, r, lane, 1, 2) == index_of(l, r, lane, 1, 1));
    }
    CHECK(layout_reshape(ctx, l, 3, (int64_t[]){64, 3, 32}));
    CHECK(!layout_reshape(ctx, l, 3, (int64_t[]){64, 2, 48 + 1}));
    CHECK(!layout_reshape(ctx, l, 1, (int64_t[]){64 * 96}));
    CHECK(layout_reshape(ctx, blocked(96, 64, 4, 4, 8, 2), 1, (int64_t[]){64 * 96}));
    const Layout *both = blocked(48, 80, 1, 4, 8, 2);
    const Layout *both_turned = layout_transpose(ctx, both, (unsigned[]){1, 0});
    for (uint32_t r = 0; r < layout_register_count(both); r++)
        CHECK(index_of(both, r, 9, 1, 0) == index_of(both_turned, r, 9, 1, 1) &&
              index_of(both, r, 9, 1, 1) == index_of(both_turned, r, 9, 1, 0));
    check_text(both_turned);
}

/* Every element of the tile is in memory once. */
static void check_bijective(const Layout *l) {
    int64_t count = layout_register_count(l), columns = l->extents[1];
    bool *seen = ARENA_ARRAY(arena, bool, (size_t)count);
    CHECK(l->extents[0] * columns == count);
    for (uint32_t o = 0; o < count; o++) {
        int64_t at = memory_index(l, o, 0) * columns + memory_index(l, o, 1);
        CHECK(!seen[at]);
        seen[at] = true;
    }
}

static void test_shared(void) {
    static const unsigned order[] = {1, 0};
    const Layout *plain = layout_shared(ctx, 2, (int64_t[]){16, 64}, order, 1, 1, 1);
    CHECK(memory_index(plain, 3 * 64 + 5, 0) == 3 && memory_index(plain, 3 * 64 + 5, 1) == 5);
    const Layout *l = layout_shared(ctx, 2, (int64_t[]){16, 64}, order, 8, 2, 4);
    check_bijective(l);
    for (uint32_t o = 0; o < 1024; o++) {
        uint32_t row = o / 64, column = o % 64;
        CHECK(memory_index(l, o, 0) == row);
        CHECK(memory_index(l, o, 1) == (column ^ (row / 2 % 4 * 8)));
    }
    for (unsigned bytes = 32; bytes <= 128; bytes *= 2) {
        const Layout *tma = layout_shared_tma(ctx, 2, (int64_t[]){48, 128}, order, 2, bytes);
        uint32_t box = bytes / 2;
        check_bijective(tma);
        for (uint32_t row = 0; row < 16; row++)
            for (uint32_t column = 0; column < 128; column++) {
                uint32_t linear = (column / box * 16 + row) * box + column % box;
                uint32_t chunk = linear * 2 >> 7 & (bytes / 16 - 1);
                uint32_t offset = linear ^ (chunk * 8);
                CHECK(memory_index(tma, offset, 0) == row && memory_index(tma, offset, 1) == column);
            }
    }
    CHECK(!layout_shared_tma(ctx, 2, (int64_t[]){16, 32}, order, 2, 128));
    CHECK(!layout_shared_tma(ctx, 2, (int64_t[]){16, 64}, order, 2, 48));
    check_bijective(layout_shared_tma(ctx, 2, (int64_t[]){16, 96}, order, 4, 0));
}

static void test_text(void) {
    static const char *const wrong[] = {"",
                                        "#dist",
                                        "#dist<[8], register=[(8)]>",
                                        "#dist<[8], offset=[(1)]>",
                                        "#dist<[34]>",
                                        "#dist<[8], lane=[(1, 1)]>",
                                        "#dist<[8], lane=[(1)], lane=[(2)]>",
                                        "#dist<[8], lane=[(1)*4]>",
                                        "#memory<[8], lane=[(1)]>",
                                        "#dist<[8], lane=[]>",
                                        "#dist<[3, 5], repeats=[0, 0]>",
                                        "#dist<[8], lane=[(99999999999)]>",
                                        "#dist<[8]",
                                        "#dist<[1,1,1,1,1,1,1,1,1]>"};
    size_t end;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) CHECK(!layout_parse(ctx, wrong[i], &end));
    CHECK(layout_parse(ctx, "#dist<[8], register=[(1), (2)], lane=[(4)]> tail", &end) && end == 43);
    CHECK(layout_parse(ctx, "#dist<[8],lane=[(1)*3]>", &end) == layout_parse(ctx, "#dist< [8], lane=[(1), (2), (4)]>", &end));
    prints(layout_parse(ctx, "#dist<[3, 5], repeats=[1, 0]>", &end), "#dist<[3, 5], repeats=[1, 0]>");
    prints(layout_parse(ctx, "#dist<[3, 5], repeats=[0, 1]>", &end), "#dist<[3, 5]>");
    prints(layout_parse(ctx, "#dist<[], lane=[()*5]>", &end), "#dist<[], lane=[()*5]>");
    for (int n = 0; n < 500; n++) {
        static const int64_t sizes[] = {1, 3, 8, 16, 32, 96, 64};
        const Layout *l = random_distributed((int64_t[]){sizes[random_below(7)], sizes[random_below(7)]});
        if (l) check_text(l);
    }
}

int main(void) {
    arena = arena_create();
    ctx = layout_ctx_create(arena);
    test_pad();
    test_product();
    test_blocked();
    test_mma16();
    test_mma_tf32_and_8();
    test_mma_tiles();
    test_wgmma();
    test_reshapes();
    test_shared();
    test_text();
    arena_destroy(arena);
    return 0;
}
