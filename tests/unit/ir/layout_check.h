/* Shared by the layout tests: contexts, random numbers, one-line calls. */
#ifndef TESTS_UNIT_IR_LAYOUT_CHECK_H
#define TESTS_UNIT_IR_LAYOUT_CHECK_H

#include "check.h"
#include "layout.h"

static Arena *arena;
static LayoutCtx *ctx;
static uint64_t random_state = 0x2545f4914f6cdd1du;

static inline uint64_t random_below(uint64_t n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (random_state >> 11) % n;
}

static inline int64_t index_of(const Layout *l, uint32_t reg, uint32_t lane, uint32_t warp, unsigned axis) {
    int64_t out[LAYOUT_RANK_LIMIT];
    layout_apply(l, (uint32_t[LAYOUT_DIMS]){reg, lane, warp}, out);
    return out[axis];
}

static inline int64_t memory_index(const Layout *l, uint32_t offset, unsigned axis) {
    int64_t out[LAYOUT_RANK_LIMIT];
    layout_apply(l, (uint32_t[LAYOUT_DIMS]){[LAYOUT_OFFSET] = offset}, out);
    return out[axis];
}

static inline void check_text(const Layout *l) {
    Str s;
    size_t end;
    str_init(&s);
    layout_print(l, &s);
    str_append(&s, "!");
    const Layout *again = layout_parse(ctx, s.data, &end);
    if (again != l) fprintf(stderr, "%s at %zu\n", s.data, end);
    CHECK(again == l && end == s.len - 1);
    str_release(&s);
}

static inline const Layout *blocked(int64_t rows, int64_t columns, unsigned regs, unsigned lanes_r, unsigned lanes_c, unsigned warps) {
    return layout_blocked(ctx, 2, (int64_t[]){rows, columns}, (unsigned[]){1, regs}, (unsigned[]){lanes_r, lanes_c}, (unsigned[]){warps, 1},
                          (unsigned[]){1, 0});
}

/* A random distributed layout of rank 2 with 32 lanes and 4 warps, mma or blocked or any bases. */
static inline const Layout *random_distributed(const int64_t *extents) {
    unsigned in_bits[LAYOUT_DIMS] = {(unsigned)random_below(5), 5, 2};
    static uint32_t bases[3][16];
    for (unsigned d = 0; d < 3; d++)
        for (unsigned i = 0; i < 16; i++) {
            int64_t extent = extents[i % 2];
            bases[d][i] = (uint32_t)random_below((uint64_t)(extent & -extent));
        }
    const uint32_t *const pointers[LAYOUT_DIMS] = {bases[0], bases[1], bases[2]};
    static const unsigned warps[][2] = {{4, 1}, {1, 4}, {2, 2}};
    unsigned lanes = 1u << random_below(6), w = (unsigned)random_below(3);
    unsigned fast = (unsigned)random_below(2);
    switch (random_below(3)) {
    case 0:
        return layout_from_bases(ctx, false, 2, extents, in_bits, pointers);
    case 1:
        return layout_mma(ctx, LAYOUT_MMA_C, 32, extents[0], extents[1], warps[w][0], warps[w][1]);
    default:
        return layout_blocked(ctx, 2, extents, (unsigned[]){1u << random_below(3), 1u << random_below(3)}, (unsigned[]){lanes, 32 / lanes},
                              warps[w], (unsigned[]){fast, 1 - fast});
    }
}

#endif
