/* Blocked, tensor-core and shared-memory layouts. */
#include "layout_internal.h"

/* Puts the next `bits` bits of `dim` along `axis`, after what is covered already; beyond the tile
 * they hold copies, or are dropped when they are registers. */
static void extend(LayoutDraft *d, unsigned *covered, LayoutDim dim, unsigned axis, unsigned bits) {
    for (unsigned i = 0; i < bits; i++) {
        uint32_t coordinate[LAYOUT_RANK_LIMIT] = {0};
        bool inside = covered[axis] < d->bits[axis];
        if (inside) coordinate[axis] = (uint32_t)1 << covered[axis]++;
        if (inside || dim != LAYOUT_REGISTER) layout_draft_push(d, dim, coordinate);
    }
}

static bool is_order(const unsigned *order, unsigned rank) {
    unsigned seen = 0;
    for (unsigned i = 0; i < rank; i++) seen |= order[i] < rank ? 1u << order[i] : 0;
    return seen == (1u << rank) - 1;
}

const Layout *layout_row_major(LayoutCtx *c, unsigned rank, const int64_t *extents) {
    LayoutDraft d;
    unsigned covered[LAYOUT_RANK_LIMIT] = {0};
    if (!layout_draft_init(&d, false, rank, extents)) return NULL;
    for (unsigned k = rank; k-- > 0;) extend(&d, covered, LAYOUT_REGISTER, k, d.bits[k]);
    return layout_draft_finish(c, &d);
}

const Layout *layout_blocked(LayoutCtx *c, unsigned rank, const int64_t *extents, const unsigned *per_thread, const unsigned *lanes,
                             const unsigned *warps, const unsigned *order) {
    LayoutDraft d;
    unsigned covered[LAYOUT_RANK_LIMIT] = {0};
    if (!layout_draft_init(&d, false, rank, extents) || !is_order(order, rank)) return NULL;
    const unsigned *const sizes[] = {per_thread, lanes, warps};
    for (unsigned dim = 0; dim < 3; dim++)
        for (unsigned i = 0; i < rank; i++) {
            unsigned axis = order[i];
            if (!layout_is_power(sizes[dim][axis])) return NULL;
            extend(&d, covered, (LayoutDim)dim, axis, layout_log2(sizes[dim][axis]));
        }
    for (unsigned i = 0; i < rank; i++) extend(&d, covered, LAYOUT_REGISTER, order[i], d.bits[order[i]] - covered[order[i]]);
    return layout_draft_finish(c, &d);
}

const Layout *layout_stack(LayoutCtx *c, const Layout *l, unsigned count, const int64_t *extents) {
    LayoutDraft d;
    int64_t all[LAYOUT_RANK_LIMIT];
    unsigned covered[LAYOUT_RANK_LIMIT] = {0};
    if (l->is_memory || l->rank + count > LAYOUT_RANK_LIMIT) return NULL;
    for (unsigned k = 0; k < l->rank + count; k++) all[k] = k < count ? extents[k] : l->extents[k - count];
    if (!layout_draft_init(&d, false, l->rank + count, all)) return NULL;
    for (unsigned dim = 0; dim < LAYOUT_OFFSET; dim++)
        for (unsigned bit = 0; bit < l->in_bits[dim]; bit++) {
            uint32_t coordinate[LAYOUT_RANK_LIMIT] = {0};
            for (unsigned k = 0; k < l->rank; k++) coordinate[count + k] = layout_basis(l, (LayoutDim)dim, bit)[k];
            layout_draft_push(&d, (LayoutDim)dim, coordinate);
        }
    for (unsigned k = count; k-- > 0;) extend(&d, covered, LAYOUT_REGISTER, k, d.bits[k]);
    return layout_draft_finish(c, &d);
}

/* ---- Tensor cores ---- */

typedef struct {
    LayoutDraft d;
    unsigned covered[LAYOUT_RANK_LIMIT];
} Fragment;

static void put(Fragment *f, LayoutDim dim, unsigned axis, unsigned bits) {
    extend(&f->d, f->covered, dim, axis, bits);
}

/* The registers that bring `axis` up to the tile's extent divided by 2^warp_bits. */
static bool repeat_below(Fragment *f, unsigned axis, unsigned warp_bits) {
    if (f->covered[axis] + warp_bits > f->d.bits[axis]) return false;
    put(f, LAYOUT_REGISTER, axis, f->d.bits[axis] - f->covered[axis] - warp_bits);
    return true;
}

/* One instruction's fragment (PTX ISA, "Matrix Fragments for mma.m16n8k*"): `pack` elements of a
 * 32-bit register along the contraction; lanes: 4 along it, 8 along the other axis. */
static bool instruction(Fragment *f, LayoutOperand operand, unsigned element_bits) {
    if (element_bits != 8 && element_bits != 16 && element_bits != 32) return false;
    unsigned packed = operand == LAYOUT_MMA_C ? 1 : layout_log2(32 / element_bits);
    unsigned along = operand == LAYOUT_MMA_B ? 0 : 1, across = 1 - along;
    bool sixteen = operand != LAYOUT_MMA_B;
    unsigned along_need = packed + (operand == LAYOUT_MMA_C ? 2 : 3);
    if (f->d.bits[along] < along_need || f->d.bits[across] < (sixteen ? 4u : 3u)) return false;
    put(f, LAYOUT_REGISTER, along, packed);
    put(f, LAYOUT_LANE, along, 2);
    put(f, LAYOUT_LANE, across, 3);
    if (sixteen) put(f, LAYOUT_REGISTER, across, 1);
    if (operand != LAYOUT_MMA_C) put(f, LAYOUT_REGISTER, along, 1);
    return true;
}

static void put_copies(Fragment *f, LayoutDim dim, unsigned bits) {
    uint32_t zero[LAYOUT_RANK_LIMIT] = {0};
    for (unsigned i = 0; i < bits; i++) layout_draft_push(&f->d, dim, zero);
}

const Layout *layout_mma(LayoutCtx *c, LayoutOperand operand, unsigned element_bits, int64_t rows, int64_t columns, unsigned warps_m,
                         unsigned warps_n) {
    Fragment f = {.covered = {0}};
    int64_t extents[] = {rows, columns};
    if (!layout_is_power(warps_m) || !layout_is_power(warps_n) || !layout_draft_init(&f.d, false, 2, extents) ||
        !instruction(&f, operand, element_bits))
        return NULL;
    unsigned m = layout_log2(warps_m), n = layout_log2(warps_n);
    bool fits = operand == LAYOUT_MMA_A   ? repeat_below(&f, 1, 0) && repeat_below(&f, 0, m)
                : operand == LAYOUT_MMA_B ? repeat_below(&f, 0, 0) && repeat_below(&f, 1, n)
                                          : repeat_below(&f, 1, n) && repeat_below(&f, 0, m);
    if (!fits) return NULL;
    if (operand == LAYOUT_MMA_A)
        put_copies(&f, LAYOUT_WARP, n);
    else
        put(&f, LAYOUT_WARP, 1, n);
    if (operand == LAYOUT_MMA_B)
        put_copies(&f, LAYOUT_WARP, m);
    else
        put(&f, LAYOUT_WARP, 0, m);
    return layout_draft_finish(c, &f.d);
}

static const Layout *wgmma(LayoutCtx *c, LayoutOperand operand, unsigned element_bits, int64_t rows, int64_t columns, unsigned warpgroups) {
    Fragment f = {.covered = {0}};
    int64_t extents[] = {rows, columns};
    if (!layout_is_power(warpgroups) || !layout_draft_init(&f.d, false, 2, extents) || f.d.bits[0] < 6 ||
        !instruction(&f, operand, element_bits))
        return NULL;
    put(&f, LAYOUT_WARP, 0, 2);
    if (!repeat_below(&f, 1, 0) || !repeat_below(&f, 0, layout_log2(warpgroups))) return NULL;
    put(&f, LAYOUT_WARP, 0, layout_log2(warpgroups));
    return layout_draft_finish(c, &f.d);
}

const Layout *layout_wgmma_c(LayoutCtx *c, int64_t rows, int64_t columns, unsigned warpgroups) {
    return wgmma(c, LAYOUT_MMA_C, 32, rows, columns, warpgroups);
}

const Layout *layout_wgmma_a(LayoutCtx *c, unsigned element_bits, int64_t rows, int64_t columns, unsigned warpgroups) {
    return wgmma(c, LAYOUT_MMA_A, element_bits, rows, columns, warpgroups);
}

/* ---- Shared memory ---- */

static void extend_rest(LayoutDraft *d, unsigned *covered, const unsigned *order) {
    for (unsigned i = 0; i < d->rank; i++) extend(d, covered, LAYOUT_OFFSET, order[i], d->bits[order[i]] - covered[order[i]]);
}

/* XORs the basis of offset bit `to` into that of bit `from`. */
static void swizzle_bit(LayoutDraft *d, unsigned from, unsigned to) {
    for (unsigned k = 0; k < d->rank; k++) d->bases[LAYOUT_OFFSET][from][k] ^= d->bases[LAYOUT_OFFSET][to][k];
}

const Layout *layout_shared(LayoutCtx *c, unsigned rank, const int64_t *extents, const unsigned *order, unsigned vec, unsigned per_phase,
                            unsigned max_phase) {
    LayoutDraft d;
    unsigned covered[LAYOUT_RANK_LIMIT] = {0};
    if (!layout_draft_init(&d, true, rank, extents) || !is_order(order, rank) || !layout_is_power(vec) || !layout_is_power(per_phase) ||
        !layout_is_power(max_phase))
        return NULL;
    extend_rest(&d, covered, order);
    unsigned phases = layout_log2(max_phase);
    if (phases == 0) return layout_draft_finish(c, &d);
    unsigned fast = d.bits[order[0]], to = layout_log2(vec), skip = layout_log2(per_phase);
    if (rank < 2 || to + phases > fast) return NULL;
    for (unsigned i = 0; i < phases && skip + i < d.bits[order[1]]; i++) swizzle_bit(&d, fast + skip + i, to + i);
    return layout_draft_finish(c, &d);
}

const Layout *layout_shared_tma(LayoutCtx *c, unsigned rank, const int64_t *extents, const unsigned *order, unsigned element_bytes,
                                unsigned swizzle_bytes) {
    LayoutDraft d;
    unsigned covered[LAYOUT_RANK_LIMIT] = {0};
    if (!layout_draft_init(&d, true, rank, extents) || !is_order(order, rank) || rank == 0 || !layout_is_power(element_bytes) ||
        element_bytes > 16)
        return NULL;
    if (swizzle_bytes != 0 && swizzle_bytes != 32 && swizzle_bytes != 64 && swizzle_bytes != 128) return NULL;
    unsigned element = layout_log2(element_bytes), fast = d.bits[order[0]];
    unsigned box = swizzle_bytes ? layout_log2(swizzle_bytes) - element : fast;
    if (box > fast) return NULL;
    extend(&d, covered, LAYOUT_OFFSET, order[0], box);
    for (unsigned i = 1; i < rank; i++) extend(&d, covered, LAYOUT_OFFSET, order[i], d.bits[order[i]]);
    extend_rest(&d, covered, order);
    /* byte address bits 4.. are XORed with bits 7.. (one, two or three of them), whatever lies
     * there: the hardware looks at the address, which is why the buffer is aligned to 1024 bytes */
    unsigned swizzled = swizzle_bytes ? layout_log2(swizzle_bytes) - 4 : 0;
    for (unsigned i = 0; i < swizzled && 7 + i - element < d.in_bits[LAYOUT_OFFSET]; i++) swizzle_bit(&d, 7 + i - element, 4 + i - element);
    return layout_draft_finish(c, &d);
}

/* ---- Choosing a swizzle ---- */

/* Wavefronts of all accesses; 0: a layout that does not fit them. */
static uint64_t cost(const Layout *memory, const Layout *const *accesses, size_t count, unsigned element_bytes) {
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned vector = layout_memory_width(accesses[i], memory);
        if (vector == 0) return 0;
        if (vector > 16 / element_bytes) vector = 16 / element_bytes;
        unsigned waves = layout_wavefronts(accesses[i], memory, element_bytes, vector);
        total += (uint64_t)waves * (uint64_t)layout_register_count(accesses[i]) / vector;
    }
    return total;
}

const Layout *layout_shared_best(LayoutCtx *c, const Layout *const *accesses, size_t count, unsigned element_bytes) {
    static const unsigned orders[2][2] = {{1, 0}, {0, 1}};
    const Layout *best = NULL;
    uint64_t best_cost = UINT64_MAX;
    if (count == 0 || accesses[0]->rank != 2 || !layout_is_power(element_bytes) || element_bytes > 16) return NULL;
    const int64_t *extents = accesses[0]->extents;
    for (unsigned max_phase = 1; max_phase <= 32; max_phase *= 2)
        for (unsigned o = 0; o < 2; o++)
            for (unsigned vec = 16 / element_bytes; vec >= 1; vec /= 2)
                for (unsigned per_phase = 1; per_phase <= 8; per_phase *= 2) {
                    if (max_phase == 1 && (per_phase > 1 || vec < 16 / element_bytes)) continue;
                    const Layout *memory = layout_shared(c, 2, extents, orders[o], vec, per_phase, max_phase);
                    uint64_t n = memory ? cost(memory, accesses, count, element_bytes) : 0;
                    if (n == 0 || n >= best_cost) continue;
                    best = memory;
                    best_cost = n;
                }
    return best;
}
