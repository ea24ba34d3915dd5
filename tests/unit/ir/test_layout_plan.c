/* Widths, conflicts, rolled loops, reductions and conversions, against brute force. */
#include "layout_check.h"

enum { THREADS = 128 }; /* of random_distributed */

static const int64_t shapes[][2] = {{16, 32}, {64, 64}, {32, 96}, {8, 16}, {48, 80}, {1, 128}, {64, 8}};
static const int64_t *random_shape(void) {
    return shapes[random_below(COUNT_OF(shapes))];
}

static void apply_thread(const Layout *l, uint32_t reg, uint32_t thread, int64_t *out) {
    layout_apply(l, (uint32_t[LAYOUT_DIMS]){reg, thread % 32, thread / 32}, out);
}

/* ---- Free bits and widths ---- */

static void check_free(const Layout *l) {
    uint32_t free_bits[3];
    for (unsigned d = 0; d < 3; d++) free_bits[d] = layout_free_mask(l, (LayoutDim)d);
    int64_t columns = l->extents[1], size = l->extents[0] * columns, owned = 0, covered = 0;
    unsigned char *seen = ARENA_ARRAY(arena, unsigned char, (size_t)size);
    uint32_t registers = (uint32_t)layout_register_count(l);
    for (uint32_t t = 0; t < THREADS; t++)
        for (uint32_t r = 0; r < registers; r++) {
            int64_t at[LAYOUT_RANK_LIMIT];
            apply_thread(l, r, t, at);
            CHECK(at[0] >= 0 && at[0] < l->extents[0] && at[1] >= 0 && at[1] < columns);
            unsigned char *cell = &seen[at[0] * columns + at[1]];
            covered += !(*cell & 1);
            *cell |= 1;
            if ((r & free_bits[0]) || (t % 32 & free_bits[1]) || (t / 32 & free_bits[2])) continue;
            CHECK(!(*cell & 2));
            *cell |= 2;
            owned++;
        }
    CHECK(owned == covered && layout_is_surjective(l) == (covered == size));
}

static bool groups_run(const Layout *l, unsigned axis, uint32_t width) {
    if (width > 1u << l->in_bits[LAYOUT_REGISTER]) return false;
    for (uint32_t t = 0; t < THREADS; t++)
        for (uint32_t r = 0; r < layout_register_count(l); r++) {
            int64_t at[LAYOUT_RANK_LIMIT], first[LAYOUT_RANK_LIMIT];
            apply_thread(l, r, t, at);
            apply_thread(l, r - r % width, t, first);
            if (first[axis] % width || at[axis] != first[axis] + r % width) return false;
            if (at[1 - axis] != first[1 - axis]) return false;
        }
    return true;
}

static void check_width(const Layout *l) {
    for (unsigned axis = 0; axis < 2; axis++) {
        unsigned width = layout_vector_width(l, axis);
        CHECK(groups_run(l, axis, width) && !groups_run(l, axis, 2 * width));
    }
}

/* ---- Loops and terms ---- */

static void loop_index(const LayoutLoop *loops, size_t count, int64_t r, int64_t *at) {
    for (size_t i = count; i-- > 0; r /= loops[i].extent)
        for (unsigned k = 0; k < 2; k++) at[k] += r % loops[i].extent * loops[i].stride[k];
    CHECK(r == 0);
}

static bool check_loops(const Layout *l, uint32_t split) {
    LayoutLoop loops[LAYOUT_LOOP_LIMIT];
    LayoutTerm terms[LAYOUT_TERM_LIMIT];
    size_t loop_count, term_count;
    bool additive = layout_register_dims(l, split, loops, &loop_count);
    CHECK(layout_lane_terms(l, terms, &term_count) == additive);
    if (!additive) return false;
    for (uint32_t t = 0; t < THREADS; t++)
        for (uint32_t r = 0; r < layout_register_count(l); r++) {
            int64_t want[LAYOUT_RANK_LIMIT], got[2] = {0, 0};
            apply_thread(l, r, t, want);
            loop_index(loops, loop_count, r, got);
            for (size_t i = 0; i < term_count; i++) {
                uint32_t in = terms[i].dim == LAYOUT_LANE ? t % 32 : t / 32;
                got[terms[i].axis] += ((in >> terms[i].shift) & ((1u << terms[i].bits) - 1)) * terms[i].stride;
            }
            CHECK(got[0] == want[0] && got[1] == want[1]);
        }
    return true;
}

static void test_loop_shapes(void) {
    LayoutLoop loops[LAYOUT_LOOP_LIMIT];
    LayoutTerm terms[LAYOUT_TERM_LIMIT];
    size_t count;
    const Layout *l = blocked(8, 96, 4, 1, 8, 2); /* 4 elements, 3 * 32 columns, 4 rows a warp */
    CHECK(layout_register_dims(l, 0, loops, &count) && count == 3);
    CHECK(loops[0].extent == 3 && loops[0].stride[1] == 32 && loops[0].stride[0] == 0);
    CHECK(loops[1].extent == 4 && loops[1].stride[0] == 2);
    CHECK(loops[2].extent == 4 && loops[2].stride[1] == 1);
    CHECK(layout_lane_terms(l, terms, &count) && count == 2);
    CHECK(terms[0].dim == LAYOUT_LANE && terms[0].bits == 3 && terms[0].stride == 4 && terms[0].axis == 1);
    CHECK(terms[1].dim == LAYOUT_WARP && terms[1].bits == 1 && terms[1].stride == 1 && terms[1].axis == 0);
    const Layout *row = layout_row_major(ctx, 2, (int64_t[]){1, 96});
    CHECK(layout_register_dims(row, 0, loops, &count) && count == 1 && loops[0].extent == 96);
    CHECK(layout_register_dims(row, 1u << 2 | 1u << 5, loops, &count) && count == 3);
    CHECK(loops[0].extent == 3 && loops[1].extent == 8 && loops[2].extent == 4);
    const Layout *c = layout_mma(ctx, LAYOUT_MMA_C, 32, 64, 64, 2, 2); /* [mi][ni][2][2] */
    CHECK(layout_register_dims(c, 1u << 2, loops, &count) && count == 4);
    CHECK(loops[0].extent == 2 && loops[0].stride[0] == 16 && loops[1].extent == 4 && loops[1].stride[1] == 8 && loops[2].stride[0] == 8 &&
          loops[3].stride[1] == 1);
}

/* ---- Memory ---- */

static unsigned wavefronts_by_hand(const Layout *d, const Layout *m, unsigned element, unsigned vector) {
    unsigned bytes = element * vector, group = bytes <= 4 ? 32 : 128 / bytes, total = 0;
    for (unsigned first = 0; first < 32; first += group) {
        unsigned deepest = 0;
        for (unsigned bank = 0; bank < 32; bank++) {
            uint32_t words[128], n = 0;
            for (unsigned lane = first; lane < first + group; lane++)
                for (unsigned v = 0; v < vector; v++) {
                    int64_t at[LAYOUT_RANK_LIMIT], there[LAYOUT_RANK_LIMIT];
                    uint32_t o = 0, word, i = 0;
                    apply_thread(d, v, lane, at);
                    for (;; o++) {
                        layout_apply(m, (uint32_t[LAYOUT_DIMS]){[LAYOUT_OFFSET] = o}, there);
                        if (there[0] == at[0] && there[1] == at[1]) break;
                    }
                    word = o * element / 4;
                    while (i < n && words[i] != word) i++;
                    if (word % 32 == bank && i == n) words[n++] = word;
                }
            if (n > deepest) deepest = n;
        }
        total += deepest;
    }
    return total;
}

static void test_conflicts(void) {
    static const unsigned order[] = {1, 0};
    int64_t square[] = {32, 32};
    const Layout *plain = layout_shared(ctx, 2, square, order, 1, 1, 1);
    const Layout *swizzled = layout_shared(ctx, 2, square, order, 1, 1, 32);
    const Layout *rows = blocked(32, 32, 1, 1, 32, 4), *columns = blocked(32, 32, 1, 32, 1, 1);
    const Layout *wide = blocked(32, 32, 4, 4, 8, 4);
    CHECK(layout_wavefronts(rows, plain, 4, 1) == 1 && layout_bank_conflicts(rows, plain, 4, 1) == 0);
    CHECK(layout_wavefronts(columns, plain, 4, 1) == 32);
    CHECK(layout_bank_conflicts(columns, plain, 4, 1) == 31);
    CHECK(layout_bank_conflicts(columns, swizzled, 4, 1) == 0);
    CHECK(layout_bank_conflicts(rows, swizzled, 4, 1) == 0);
    CHECK(layout_memory_width(wide, plain) == 4 && layout_wavefronts(wide, plain, 4, 4) == 4);
    CHECK(layout_bank_conflicts(wide, plain, 4, 4) == 0 && layout_wavefronts(wide, plain, 4, 8) == 0);
    CHECK(layout_memory_width(wide, swizzled) == 1 && layout_wavefronts(wide, swizzled, 4, 4) == 0);
    const Layout *accesses[] = {rows, columns}, *best;
    best = layout_shared_best(ctx, accesses, 2, 4);
    CHECK(best && layout_bank_conflicts(rows, best, 4, layout_memory_width(rows, best)) == 0);
    CHECK(layout_bank_conflicts(columns, best, 4, layout_memory_width(columns, best)) == 0);
    /* ldmatrix: 8 rows of 16 bytes at a time, from a TMA tile of 128-byte rows */
    const Layout *matrices = blocked(64, 64, 8, 32, 1, 2);
    const Layout *tma = layout_shared_tma(ctx, 2, (int64_t[]){64, 64}, order, 2, 128);
    const Layout *flat = layout_shared_tma(ctx, 2, (int64_t[]){64, 64}, order, 2, 0);
    CHECK(layout_bank_conflicts(matrices, tma, 2, 8) == 0);
    CHECK(layout_bank_conflicts(matrices, flat, 2, 8) == 28);
}

static void check_memory(const Layout *d) {
    static const unsigned orders[2][2] = {{1, 0}, {0, 1}};
    const Layout *m =
        layout_shared(ctx, 2, d->extents, orders[random_below(2)], 1u << random_below(4), 1u << random_below(3), 1u << random_below(4));
    Gf2Map map;
    if (!m) return;
    CHECK(layout_offsets(d, m, &map));
    for (int n = 0; n < 20; n++) {
        uint32_t t = (uint32_t)random_below(THREADS), r = (uint32_t)random_below(1u << d->in_bits[0]);
        int64_t at[LAYOUT_RANK_LIMIT], there[LAYOUT_RANK_LIMIT];
        apply_thread(d, r, t, at);
        uint64_t o = gf2_apply(&map, r | (uint64_t)t << d->in_bits[0]);
        layout_apply(m, (uint32_t[LAYOUT_DIMS]){[LAYOUT_OFFSET] = (uint32_t)o}, there);
        CHECK(at[0] == there[0] && at[1] == there[1]);
    }
    unsigned vector = layout_memory_width(d, m);
    for (uint64_t x = 0; x < 1u << map.in_bits; x++)
        CHECK(gf2_apply(&map, x) == gf2_apply(&map, x - x % vector) + x % vector && gf2_apply(&map, x - x % vector) % vector == 0);
    vector = vector > 8 ? 8 : vector;
    if (d->extents[0] * d->extents[1] <= 512) CHECK(layout_wavefronts(d, m, 2, vector) == wavefronts_by_hand(d, m, 2, vector));
}

/* ---- Reductions: adding what the plan names gives the sum along the axis ---- */

static bool check_reduction(const Layout *l, unsigned axis) {
    LayoutReduction plan;
    if (!layout_plan_reduction(l, axis, &plan)) return false;
    CHECK(plan.repeat == l->repeat[axis]);
    uint32_t masks[3] = {plan.register_bits, plan.lane_bits, plan.warp_bits};
    uint32_t thread = (uint32_t)random_below(THREADS), reg = (uint32_t)random_below(1u << l->in_bits[0]);
    unsigned char *seen = ARENA_ARRAY(arena, unsigned char, (size_t)l->extents[axis]);
    int64_t count = 0, base[LAYOUT_RANK_LIMIT], at[LAYOUT_RANK_LIMIT];
    apply_thread(l, reg, thread, base);
    for (uint32_t r = 0; r < 1u << l->in_bits[0]; r++)
        for (uint32_t t = 0; t < THREADS; t++) {
            if ((r & ~masks[0]) || (t % 32 & ~masks[1]) || (t / 32 & ~masks[2])) continue;
            apply_thread(l, reg ^ r, thread ^ t, at);
            CHECK(at[1 - axis] == base[1 - axis] && !seen[at[axis]]);
            seen[at[axis]] = 1;
            count++;
        }
    CHECK(!layout_is_surjective(l) || count * plan.repeat == l->extents[axis]);
    const Layout *result = layout_slice(ctx, l, axis);
    CHECK(result && (!layout_is_surjective(l) || layout_is_surjective(result)));
    return true;
}

static void test_reductions(void) {
    LayoutReduction plan;
    const Layout *c = layout_mma(ctx, LAYOUT_MMA_C, 32, 64, 96, 2, 2);
    CHECK(layout_plan_reduction(c, 1, &plan));
    CHECK(plan.register_bits == 5 && plan.lane_bits == 3 && plan.warp_bits == 1 && plan.repeat == 3);
    CHECK(layout_plan_reduction(c, 0, &plan));
    CHECK(plan.register_bits == 10 && plan.lane_bits == 28 && plan.warp_bits == 2 && plan.repeat == 1);
    CHECK(!layout_plan_reduction(c, 2, &plan));
    size_t end;
    CHECK(!layout_plan_reduction(layout_parse(ctx, "#dist<[4, 4], lane=[(1, 1), (2, 0)], register=[(0, 1)*2]>", &end), 0, &plan));
    CHECK(!layout_plan_reduction(layout_parse(ctx, "#dist<[4], lane=[(1), (1)]>", &end), 0, &plan));
}

/* ---- Conversions ---- */

static LayoutConversionKind check_conversion(const Layout *from, const Layout *to) {
    LayoutConversion plan;
    layout_plan_conversion(from, to, &plan);
    CHECK(plan.kind != LAYOUT_CONVERT_INVALID && (plan.kind == LAYOUT_CONVERT_NONE) == (from == to));
    if (plan.kind == LAYOUT_CONVERT_NONE || plan.kind == LAYOUT_CONVERT_SHARED) return plan.kind;
    unsigned from_bits = from->in_bits[0], to_bits = to->in_bits[0];
    for (uint32_t t = 0; t < THREADS; t++)
        for (uint32_t r = 0; r < 1u << to_bits; r++) {
            uint64_t source = gf2_apply(&plan.source, r | (uint64_t)t << to_bits);
            uint32_t source_reg = (uint32_t)(source & ((1u << from_bits) - 1));
            uint32_t source_thread = (uint32_t)(source >> from_bits);
            int64_t a[LAYOUT_RANK_LIMIT], b[LAYOUT_RANK_LIMIT];
            apply_thread(from, source_reg, source_thread, a);
            apply_thread(to, r, t, b);
            CHECK(a[0] == b[0] && a[1] == b[1] && source_thread / 32 == t / 32);
            if (plan.kind == LAYOUT_CONVERT_REGISTERS) CHECK(source_thread == t);
        }
    return plan.kind;
}

/* Wider pieces by swaps of lane and register bits: found in the same warp, as wide as asked for. */
static unsigned check_widen(const Layout *l, unsigned axis, unsigned width) {
    LayoutSwap swaps[5];
    unsigned count;
    const Layout *wide = layout_widen(ctx, l, axis, width, swaps, &count);
    if (!wide) return 0;
    LayoutConversionKind kind = check_conversion(l, wide);
    CHECK(layout_vector_width(wide, axis) >= width && kind != LAYOUT_CONVERT_SHARED);
    CHECK(!count == (layout_vector_width(l, axis) >= width || kind == LAYOUT_CONVERT_REGISTERS));
    return count;
}

/* Swaps that make lanes neighbours along the axis: within a warp, and no fewer lanes are than were. */
static unsigned check_gather(const Layout *l, unsigned axis) {
    LayoutSwap swaps[5];
    unsigned count;
    const Layout *gathered = layout_gather(ctx, l, axis, swaps, &count);
    CHECK(!gathered == !count);
    if (!gathered) return 0;
    CHECK(check_conversion(l, gathered) != LAYOUT_CONVERT_SHARED);
    CHECK(layout_warp_lines(gathered, axis, 4) <= layout_warp_lines(l, axis, 4));
    return count;
}

static void test_gather(void) {
    const Layout *wgmma = layout_wgmma_c(ctx, 64, 32, 1), *mma = layout_mma(ctx, LAYOUT_MMA_C, 16, 64, 32, 4, 1);
    CHECK(check_gather(wgmma, 1) == 3 && check_gather(mma, 1) == 3); /* columns 1, 8 and 16 for three of the rows */
    CHECK(check_gather(wgmma, 0) == 1);                              /* row 8; row 16 is another warp's */
    CHECK(check_gather(blocked(8, 128, 1, 1, 1, 32), 1) == 0 && check_gather(blocked(8, 128, 1, 4, 2, 16), 1) == 2);
    for (int n = 0; n < 200; n++) {
        const Layout *l = random_distributed(random_shape());
        for (unsigned axis = 0; l && axis < 2; axis++) check_gather(l, axis);
    }
}

static void test_widen(void) {
    const Layout *wgmma = layout_wgmma_c(ctx, 64, 32, 1), *mma = layout_mma(ctx, LAYOUT_MMA_C, 16, 64, 32, 4, 1);
    CHECK(check_widen(wgmma, 1, 8) == 2 && check_widen(mma, 1, 4) == 1 && check_widen(mma, 1, 2) == 0);
    CHECK(check_widen(wgmma, 0, 2) == 1); /* rows lie in lanes as well */
    CHECK(layout_warp_lines(wgmma, 1, 2) == 8 && layout_warp_lines(blocked(8, 128, 1, 4, 1, 32), 1, 4) == 4);
    const Layout *narrow = layout_mma(ctx, LAYOUT_MMA_C, 16, 64, 8, 4, 1); /* no further column: a row's bit goes */
    CHECK(check_widen(narrow, 1, 4) == 1 && check_widen(narrow, 1, 8) == 0);
    for (int n = 0; n < 200; n++) {
        const Layout *l = random_distributed(random_shape());
        for (unsigned axis = 0; l && axis < 2; axis++)
            for (unsigned width = 2; width <= 16; width *= 2) check_widen(l, axis, width);
    }
}

/* l with columns of registers (and lanes) added to one another: the same warp holds the same. */
static const Layout *mixed(const Layout *l, bool lanes) {
    uint32_t bases[LAYOUT_BITS_LIMIT * 2][2];
    const unsigned registers = l->in_bits[0], limit = registers + (lanes ? l->in_bits[1] : 0);
    memcpy(bases, l->bases[0], registers * sizeof bases[0]);
    memcpy(bases + registers, l->bases[1], l->in_bits[1] * sizeof bases[0]);
    for (int n = 0; n < 6 && limit > 1; n++) {
        unsigned i = (unsigned)random_below(limit), j = (unsigned)random_below(limit);
        for (unsigned k = 0; k < 2 && i != j; k++) bases[i][k] ^= bases[j][k];
    }
    return layout_from_bases(ctx, false, 2, l->extents, l->in_bits,
                             (const uint32_t *const[LAYOUT_DIMS]){bases[0], bases[registers], l->bases[2]});
}

static void test_conversions(void) {
    const Layout *rows = blocked(32, 64, 4, 2, 16, 4), *other = blocked(32, 64, 2, 2, 16, 4);
    LayoutConversion plan;
    CHECK(check_conversion(rows, rows) == LAYOUT_CONVERT_NONE);
    CHECK(check_conversion(rows, other) == LAYOUT_CONVERT_SHARED || check_conversion(rows, other) == LAYOUT_CONVERT_SHUFFLE);
    const Layout *swapped =
        layout_blocked(ctx, 2, (int64_t[]){32, 64}, (unsigned[]){2, 2}, (unsigned[]){4, 8}, (unsigned[]){4, 1}, (unsigned[]){0, 1});
    const Layout *straight =
        layout_blocked(ctx, 2, (int64_t[]){32, 64}, (unsigned[]){2, 2}, (unsigned[]){4, 8}, (unsigned[]){4, 1}, (unsigned[]){1, 0});
    CHECK(check_conversion(straight, swapped) == LAYOUT_CONVERT_SHUFFLE); /* lanes in another order */
    layout_plan_conversion(straight, swapped, &plan);
    CHECK(plan.select_bits == 0);
    size_t end;
    const Layout *ab = layout_parse(ctx, "#dist<[4, 32], register=[(1, 0)*2], lane=[(0, 1)*5], warp=[(0, 0)*2]>", &end);
    const Layout *ba = layout_parse(ctx, "#dist<[4, 32], register=[(2, 0), (1, 0)], lane=[(0, 1)*5], warp=[(0, 0)*2]>", &end);
    const Layout *moved = layout_parse(ctx, "#dist<[4, 32], register=[(0, 1), (1, 0)], lane=[(2, 0), (0, 2)*4], warp=[(0, 0)*2]>", &end);
    CHECK(check_conversion(ab, ba) == LAYOUT_CONVERT_REGISTERS);
    CHECK(check_conversion(ab, moved) == LAYOUT_CONVERT_SHUFFLE);
    layout_plan_conversion(ab, moved, &plan);
    CHECK(plan.select_bits == 1);
    layout_plan_conversion(rows, blocked(64, 32, 4, 2, 16, 4), &plan);
    CHECK(plan.kind == LAYOUT_CONVERT_INVALID);
    const Layout *more_warps = blocked(32, 64, 4, 2, 16, 8);
    layout_plan_conversion(rows, more_warps, &plan);
    CHECK(plan.kind == LAYOUT_CONVERT_SHARED);
}

int main(void) {
    arena = arena_create();
    ctx = layout_ctx_create(arena);
    test_loop_shapes();
    test_conflicts();
    test_reductions();
    test_conversions();
    test_widen();
    test_gather();
    int made = 0, additive = 0, reduced = 0, kinds[LAYOUT_CONVERT_INVALID] = {0};
    for (int n = 0; n < 400; n++) {
        const int64_t *shape = random_shape();
        const Layout *l = random_distributed(shape), *to = random_distributed(shape);
        if (!l) continue;
        made++;
        check_free(l);
        check_width(l);
        additive += check_loops(l, (uint32_t)random_below(64));
        check_memory(l);
        reduced += check_reduction(l, 0) + check_reduction(l, 1);
        if (to) kinds[check_conversion(l, to)]++;
        LayoutConversionKind kind = check_conversion(l, mixed(l, false));
        CHECK(kind == LAYOUT_CONVERT_NONE || kind == LAYOUT_CONVERT_REGISTERS);
        kinds[kind]++;
        kind = check_conversion(l, mixed(l, true));
        CHECK(kind != LAYOUT_CONVERT_SHARED);
        kinds[kind]++;
    }
    printf("%d layouts, %d additive, %d reductions; conversions: %d none, %d registers, %d "
           "shuffle, %d shared\n",
           made, additive, reduced, kinds[0], kinds[1], kinds[2], kinds[3]);
    CHECK(made > 250 && additive > 100 && additive < made && reduced > 100);
    CHECK(kinds[LAYOUT_CONVERT_REGISTERS] > 20 && kinds[LAYOUT_CONVERT_SHUFFLE] > 20 && kinds[LAYOUT_CONVERT_SHARED] > 50);
    arena_destroy(arena);
    return 0;
}
