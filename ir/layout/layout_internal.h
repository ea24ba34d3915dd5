/* Shared by the layout_*.c files only. */
#ifndef IR_LAYOUT_LAYOUT_INTERNAL_H
#define IR_LAYOUT_LAYOUT_INTERNAL_H

#include "layout.h"

/* A layout under construction. */
typedef struct {
    bool is_memory, overflow;
    unsigned rank;
    int64_t extents[LAYOUT_RANK_LIMIT];
    unsigned bits[LAYOUT_RANK_LIMIT], repeat[LAYOUT_RANK_LIMIT];
    unsigned repeat_count, repeat_order[LAYOUT_RANK_LIMIT];
    unsigned in_bits[LAYOUT_DIMS];
    uint32_t bases[LAYOUT_DIMS][LAYOUT_BITS_LIMIT][LAYOUT_RANK_LIMIT];
} LayoutDraft;

/* False when an extent is not q * 2^k, or the tile too large. */
bool layout_draft_init(LayoutDraft *d, bool is_memory, unsigned rank, const int64_t *extents);
void layout_draft_push(LayoutDraft *d, LayoutDim dim, const uint32_t *coordinate);
const Layout *layout_draft_finish(LayoutCtx *c, const LayoutDraft *d); /* null on overflow */

static inline const uint32_t *layout_basis(const Layout *l, LayoutDim dim, unsigned bit) {
    return l->bases[dim] + (size_t)bit * l->rank;
}
bool layout_same_tile(const Layout *a, const Layout *b);
static inline unsigned layout_log2(uint64_t power) {
    return (unsigned)__builtin_ctzll(power);
}
static inline bool layout_is_power(uint64_t n) {
    return n && !(n & (n - 1));
}

#endif
