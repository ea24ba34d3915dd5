/* Wider accesses by exchanges within a warp: lanes give low bits of an axis and take register bits for them. */
#include "layout_internal.h"

#include <string.h>

static bool is_unit(const uint32_t *basis, unsigned rank, unsigned axis, uint32_t step) {
    for (unsigned k = 0; k < rank; k++)
        if (basis[k] != (k == axis ? step : 0)) return false;
    return true;
}

/* The bit of `dim` that moves `step` along the axis and nothing else; -1: none. */
static int find_bit(const LayoutDraft *d, LayoutDim dim, unsigned axis, uint32_t step) {
    for (unsigned b = 0; b < d->in_bits[dim]; b++)
        if (is_unit(d->bases[dim][b], d->rank, axis, step)) return (int)b;
    return -1;
}

/* The register bit to give away for one below `width`: the lowest one along the axis, so that the lanes' pieces
 * lie next to each other, else any; -1: there is none. */
static int spare_bit(const LayoutDraft *d, unsigned axis, uint32_t width) {
    for (uint32_t step = width; step < (uint32_t)1 << d->bits[axis]; step *= 2) {
        int found = find_bit(d, LAYOUT_REGISTER, axis, step);
        if (found >= 0) return found;
    }
    for (unsigned b = 0; b < d->in_bits[LAYOUT_REGISTER]; b++)
        for (unsigned k = 0; k < d->rank; k++) {
            uint32_t step = d->bases[LAYOUT_REGISTER][b][k];
            if (k != axis && layout_is_power(step) && is_unit(d->bases[LAYOUT_REGISTER][b], d->rank, k, step)) return (int)b;
        }
    return -1;
}

static LayoutSwap swap_bits(LayoutDraft *d, unsigned reg, unsigned lane) {
    uint32_t *r = d->bases[LAYOUT_REGISTER][reg], *l = d->bases[LAYOUT_LANE][lane];
    LayoutSwap swap = {.lane = lane};
    while (!r[swap.axis]) swap.axis++;
    swap.stride = r[swap.axis];
    for (unsigned k = 0; k < d->rank; k++) {
        uint32_t old = r[k];
        r[k] = l[k];
        l[k] = old;
    }
    return swap;
}

static void move_to(LayoutDraft *d, unsigned from, unsigned to) {
    uint32_t moved[LAYOUT_RANK_LIMIT];
    memcpy(moved, d->bases[LAYOUT_REGISTER][from], sizeof moved);
    memmove(d->bases[LAYOUT_REGISTER][to + 1], d->bases[LAYOUT_REGISTER][to], (from - to) * sizeof moved);
    memcpy(d->bases[LAYOUT_REGISTER][to], moved, sizeof moved);
}

static void copy_bases(LayoutDraft *d, const Layout *l) {
    memcpy(d->repeat_order, l->repeat_order, sizeof d->repeat_order);
    for (unsigned dim = 0; dim < LAYOUT_DIMS; dim++)
        for (unsigned b = 0; b < l->in_bits[dim]; b++) layout_draft_push(d, (LayoutDim)dim, layout_basis(l, (LayoutDim)dim, b));
}

const Layout *layout_widen(LayoutCtx *c, const Layout *l, unsigned axis, unsigned width, LayoutSwap *swaps, unsigned *count) {
    LayoutDraft d;
    *count = 0;
    if (l->is_memory || axis >= l->rank || !layout_draft_init(&d, false, l->rank, l->extents)) return NULL;
    copy_bases(&d, l);
    for (unsigned bit = 0; bit < layout_log2(width); bit++) {
        int reg = find_bit(&d, LAYOUT_REGISTER, axis, (uint32_t)1 << bit);
        if (reg >= 0 && *count) return NULL;
        if (reg < 0) {
            int lane = find_bit(&d, LAYOUT_LANE, axis, (uint32_t)1 << bit);
            reg = lane < 0 ? -1 : spare_bit(&d, axis, width);
            if (reg < 0) return NULL;
            swaps[(*count)++] = swap_bits(&d, (unsigned)reg, (unsigned)lane);
        }
        if ((unsigned)reg < bit) return NULL;
        move_to(&d, (unsigned)reg, bit);
    }
    const Layout *wide = layout_draft_finish(c, &d);
    return wide && layout_vector_width(wide, axis) >= width ? wide : NULL;
}

/* A lane bit that moves along another axis than `axis`; -1: there is none. */
static int lane_beside(const LayoutDraft *d, unsigned axis) {
    for (unsigned b = 0; b < d->in_bits[LAYOUT_LANE]; b++)
        for (unsigned k = 0; k < d->rank; k++) {
            uint32_t step = d->bases[LAYOUT_LANE][b][k];
            if (k != axis && layout_is_power(step) && is_unit(d->bases[LAYOUT_LANE][b], d->rank, k, step)) return (int)b;
        }
    return -1;
}

const Layout *layout_gather(LayoutCtx *c, const Layout *l, unsigned axis, LayoutSwap *swaps, unsigned *count) {
    LayoutDraft d;
    *count = 0;
    if (l->is_memory || axis >= l->rank || !layout_draft_init(&d, false, l->rank, l->extents)) return NULL;
    copy_bases(&d, l);
    for (uint32_t step = 1; step < (uint32_t)1 << l->in_bits[LAYOUT_LANE]; step *= 2) {
        if (find_bit(&d, LAYOUT_LANE, axis, step) >= 0) continue;
        int reg = find_bit(&d, LAYOUT_REGISTER, axis, step), lane = lane_beside(&d, axis);
        if (reg < (int)*count || lane < 0) break;
        swaps[*count] = swap_bits(&d, (unsigned)reg, (unsigned)lane);
        move_to(&d, (unsigned)reg, (*count)++);
    }
    return *count ? layout_draft_finish(c, &d) : NULL;
}

unsigned layout_warp_lines(const Layout *l, unsigned axis, unsigned element_bytes) {
    enum { LANES = 32, LINE = 128 };
    int64_t seen[LANES][LAYOUT_RANK_LIMIT] = {{0}};
    unsigned lines = 0;
    for (uint32_t lane = 0; lane < LANES; lane++) {
        int64_t *at = seen[lines];
        layout_apply(l, (const uint32_t[LAYOUT_DIMS]){[LAYOUT_LANE] = lane}, at);
        at[axis] = at[axis] * element_bytes / LINE;
        bool known = false;
        for (unsigned i = 0; i < lines && !known; i++) known = memcmp(seen[i], at, l->rank * sizeof *at) == 0;
        lines += !known;
    }
    return lines;
}
