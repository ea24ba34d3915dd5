#include "layout.h"

#include <string.h>

#include "layout_internal.h"

struct LayoutCtx {
    Arena *arena;
    const Layout **table; /* open addressing, capacity a power of two */
    size_t capacity, used;
};

LayoutCtx *layout_ctx_create(Arena *arena) {
    LayoutCtx *c = ARENA_NEW(arena, LayoutCtx);
    c->arena = arena;
    c->capacity = 64;
    c->table = ARENA_ARRAY(arena, const Layout *, c->capacity);
    return c;
}

/* ---- Drafts and interning ---- */

bool layout_draft_init(LayoutDraft *d, bool is_memory, unsigned rank, const int64_t *extents) {
    enum { TILE_BITS_LIMIT = 60 };
    memset(d, 0, sizeof *d);
    if (rank > LAYOUT_RANK_LIMIT) return false;
    d->is_memory = is_memory;
    d->rank = rank;
    unsigned total = 0;
    for (unsigned k = 0; k < rank; k++) {
        if (extents[k] < 1) return false;
        d->extents[k] = extents[k];
        d->bits[k] = layout_log2((uint64_t)extents[k]);
        int64_t q = extents[k] >> d->bits[k];
        total += d->bits[k] + (q > 1 ? 4 : 0);
        if (q > LAYOUT_REPEAT_LIMIT || d->bits[k] > LAYOUT_BITS_LIMIT) return false;
        d->repeat[k] = (unsigned)q;
        if (q > 1) d->repeat_order[d->repeat_count++] = k;
    }
    return total <= TILE_BITS_LIMIT;
}

void layout_draft_push(LayoutDraft *d, LayoutDim dim, const uint32_t *coordinate) {
    if (d->in_bits[dim] == LAYOUT_BITS_LIMIT) {
        d->overflow = true;
        return;
    }
    for (unsigned k = 0; k < d->rank; k++)
        if (coordinate[k] >> d->bits[k]) d->overflow = true;
    memcpy(d->bases[dim][d->in_bits[dim]++], coordinate, d->rank * sizeof *coordinate);
}

static Hash128 layout_hash(const LayoutDraft *d) {
    Hash128 h = {d->rank, d->is_memory};
    h = hash128(d->extents, sizeof d->extents, h);
    h = hash128(d->repeat_order, sizeof d->repeat_order, h);
    for (unsigned dim = 0; dim < LAYOUT_DIMS; dim++) h = hash128(d->bases[dim], d->in_bits[dim] * sizeof d->bases[dim][0], h);
    return h;
}

static void draft_of(LayoutDraft *d, const Layout *l) {
    layout_draft_init(d, l->is_memory, l->rank, l->extents);
    memcpy(d->repeat_order, l->repeat_order, sizeof d->repeat_order);
    for (unsigned dim = 0; dim < LAYOUT_DIMS; dim++)
        for (unsigned i = 0; i < l->in_bits[dim]; i++) layout_draft_push(d, (LayoutDim)dim, layout_basis(l, (LayoutDim)dim, i));
}

static bool draft_matches(const LayoutDraft *d, const Layout *l) {
    if (d->is_memory != l->is_memory || d->rank != l->rank || memcmp(d->extents, l->extents, sizeof d->extents) != 0 ||
        memcmp(d->repeat_order, l->repeat_order, sizeof d->repeat_order) != 0 || memcmp(d->in_bits, l->in_bits, sizeof d->in_bits) != 0)
        return false;
    for (unsigned dim = 0; dim < LAYOUT_DIMS; dim++)
        for (unsigned i = 0; i < d->in_bits[dim]; i++)
            if (d->rank && memcmp(d->bases[dim][i], layout_basis(l, (LayoutDim)dim, i), d->rank * sizeof(uint32_t)) != 0) return false;
    return true;
}

static const Layout **find_slot(LayoutCtx *c, const LayoutDraft *d) {
    size_t slot = layout_hash(d).lo & (c->capacity - 1);
    while (c->table[slot] && !draft_matches(d, c->table[slot])) slot = (slot + 1) & (c->capacity - 1);
    return &c->table[slot];
}

static void grow(LayoutCtx *c) {
    const Layout **old = c->table;
    size_t old_capacity = c->capacity;
    LayoutDraft d;
    c->capacity *= 2;
    c->table = ARENA_ARRAY(c->arena, const Layout *, c->capacity);
    for (size_t i = 0; i < old_capacity; i++) {
        if (!old[i]) continue;
        draft_of(&d, old[i]);
        *find_slot(c, &d) = old[i];
    }
}

static const Layout *copy_draft(LayoutCtx *c, const LayoutDraft *d) {
    Layout *l = ARENA_NEW(c->arena, Layout);
    l->is_memory = d->is_memory;
    l->rank = d->rank;
    l->repeat_count = d->repeat_count;
    memcpy(l->extents, d->extents, sizeof l->extents);
    memcpy(l->bits, d->bits, sizeof l->bits);
    memcpy(l->repeat, d->repeat, sizeof l->repeat);
    memcpy(l->repeat_order, d->repeat_order, sizeof l->repeat_order);
    memcpy(l->in_bits, d->in_bits, sizeof l->in_bits);
    for (unsigned dim = 0; dim < LAYOUT_DIMS; dim++) {
        uint32_t *bases = ARENA_ARRAY(c->arena, uint32_t, d->in_bits[dim] * d->rank);
        for (unsigned i = 0; i < d->in_bits[dim]; i++) memcpy(bases + i * d->rank, d->bases[dim][i], d->rank * sizeof *bases);
        l->bases[dim] = bases;
    }
    return l;
}

const Layout *layout_draft_finish(LayoutCtx *c, const LayoutDraft *d) {
    unsigned total = 0;
    for (unsigned dim = 0; dim < LAYOUT_DIMS; dim++) total += d->in_bits[dim];
    unsigned other = d->is_memory ? total - d->in_bits[LAYOUT_OFFSET] : d->in_bits[LAYOUT_OFFSET];
    if (d->overflow || total > 64 || other) return NULL;
    const Layout **slot = find_slot(c, d);
    if (*slot) return *slot;
    if (++c->used * 2 > c->capacity) {
        grow(c);
        slot = find_slot(c, d);
    }
    return *slot = copy_draft(c, d);
}

/* ---- Making ---- */

int64_t layout_pad_extent(int64_t n) {
    for (int64_t unit = 1;; unit *= 2) {
        int64_t q = n / unit + (n % unit != 0);
        if (q <= LAYOUT_REPEAT_LIMIT + 1) return q * unit;
    }
}

const Layout *layout_from_bases(LayoutCtx *c, bool is_memory, unsigned rank, const int64_t *extents, const unsigned in_bits[LAYOUT_DIMS],
                                const uint32_t *const bases[LAYOUT_DIMS]) {
    LayoutDraft d;
    if (!layout_draft_init(&d, is_memory, rank, extents)) return NULL;
    for (unsigned dim = 0; dim < LAYOUT_DIMS; dim++)
        for (unsigned i = 0; i < in_bits[dim]; i++) layout_draft_push(&d, (LayoutDim)dim, bases[dim] + (size_t)i * rank);
    return layout_draft_finish(c, &d);
}

static const Layout *line(LayoutCtx *c, unsigned rank, unsigned axis, LayoutDim dim, unsigned bits, unsigned stride_bits, bool copies) {
    LayoutDraft d;
    int64_t extents[LAYOUT_RANK_LIMIT];
    if (rank > LAYOUT_RANK_LIMIT || (rank && axis >= rank) || bits + stride_bits > LAYOUT_BITS_LIMIT) return NULL;
    for (unsigned k = 0; k < rank; k++) extents[k] = k == axis && !copies ? (int64_t)1 << (bits + stride_bits) : 1;
    if (!layout_draft_init(&d, dim == LAYOUT_OFFSET, rank, extents)) return NULL;
    for (unsigned i = 0; i < bits; i++) {
        uint32_t coordinate[LAYOUT_RANK_LIMIT] = {0};
        if (!copies) coordinate[axis] = (uint32_t)1 << (stride_bits + i);
        layout_draft_push(&d, dim, coordinate);
    }
    return layout_draft_finish(c, &d);
}

const Layout *layout_line(LayoutCtx *c, unsigned rank, unsigned axis, LayoutDim dim, unsigned bits, unsigned stride_bits) {
    return rank ? line(c, rank, axis, dim, bits, stride_bits, false) : NULL;
}

const Layout *layout_broadcast(LayoutCtx *c, unsigned rank, LayoutDim dim, unsigned bits) {
    return line(c, rank, 0, dim, bits, 0, true);
}

static void copy_repeat_order(LayoutDraft *d, const Layout *l) {
    memcpy(d->repeat_order, l->repeat_order, sizeof d->repeat_order);
}

const Layout *layout_product(LayoutCtx *c, const Layout *inner, const Layout *outer) {
    LayoutDraft d;
    int64_t extents[LAYOUT_RANK_LIMIT];
    if (inner->rank != outer->rank || inner->repeat_count || inner->is_memory != outer->is_memory) return NULL;
    for (unsigned k = 0; k < inner->rank; k++) {
        if (inner->bits[k] + outer->bits[k] > LAYOUT_BITS_LIMIT) return NULL;
        extents[k] = outer->extents[k] << inner->bits[k];
    }
    if (!layout_draft_init(&d, inner->is_memory, inner->rank, extents)) return NULL;
    copy_repeat_order(&d, outer);
    for (unsigned i = 0; i < LAYOUT_DIMS; i++) {
        LayoutDim dim = (LayoutDim)i;
        for (unsigned b = 0; b < inner->in_bits[dim]; b++) layout_draft_push(&d, dim, layout_basis(inner, dim, b));
        for (unsigned b = 0; b < outer->in_bits[dim]; b++) {
            uint32_t coordinate[LAYOUT_RANK_LIMIT];
            for (unsigned k = 0; k < d.rank; k++) coordinate[k] = layout_basis(outer, dim, b)[k] << inner->bits[k];
            layout_draft_push(&d, dim, coordinate);
        }
    }
    return layout_draft_finish(c, &d);
}

/* Takes bit `b` of l without its low bits, which must be those of no one but `part`. */
static bool divide_basis(LayoutDraft *d, const Layout *l, const Layout *part, LayoutDim dim, unsigned b) {
    const uint32_t *basis = layout_basis(l, dim, b);
    if (b < part->in_bits[dim]) return l->rank == 0 || memcmp(basis, layout_basis(part, dim, b), l->rank * sizeof *basis) == 0;
    uint32_t coordinate[LAYOUT_RANK_LIMIT];
    for (unsigned k = 0; k < l->rank; k++) {
        coordinate[k] = basis[k] >> part->bits[k];
        if (coordinate[k] << part->bits[k] != basis[k]) return false;
    }
    layout_draft_push(d, dim, coordinate);
    return true;
}

const Layout *layout_divide(LayoutCtx *c, const Layout *l, const Layout *part) {
    LayoutDraft d;
    int64_t extents[LAYOUT_RANK_LIMIT];
    if (l->rank != part->rank || part->repeat_count || l->is_memory != part->is_memory) return NULL;
    for (unsigned k = 0; k < l->rank; k++) {
        if (l->bits[k] < part->bits[k]) return NULL;
        extents[k] = l->extents[k] >> part->bits[k];
    }
    if (!layout_draft_init(&d, l->is_memory, l->rank, extents)) return NULL;
    copy_repeat_order(&d, l);
    for (unsigned dim = 0; dim < LAYOUT_DIMS; dim++) {
        if (l->in_bits[dim] < part->in_bits[dim]) return NULL;
        for (unsigned b = 0; b < l->in_bits[dim]; b++)
            if (!divide_basis(&d, l, part, (LayoutDim)dim, b)) return NULL;
    }
    return layout_draft_finish(c, &d);
}

/* ---- Reshaping ---- */

/* l with axis k of the result taken from axis from[k], or new (extent 1) where from[k] is NEW. */
enum { NEW = LAYOUT_RANK_LIMIT };
static const Layout *take_axes(LayoutCtx *c, const Layout *l, unsigned rank, const unsigned *from, bool drop_registers) {
    LayoutDraft d;
    int64_t extents[LAYOUT_RANK_LIMIT];
    for (unsigned k = 0; k < rank; k++) extents[k] = from[k] == NEW ? 1 : l->extents[from[k]];
    if (!layout_draft_init(&d, l->is_memory, rank, extents)) return NULL;
    unsigned repeats = 0;
    for (unsigned i = 0; i < l->repeat_count; i++)
        for (unsigned k = 0; k < rank; k++)
            if (from[k] == l->repeat_order[i]) d.repeat_order[repeats++] = k;
    for (unsigned i = 0; i < LAYOUT_DIMS; i++) {
        LayoutDim dim = (LayoutDim)i;
        for (unsigned b = 0; b < l->in_bits[dim]; b++) {
            uint32_t coordinate[LAYOUT_RANK_LIMIT] = {0}, any = 0;
            for (unsigned k = 0; k < rank; k++)
                if (from[k] != NEW) any |= coordinate[k] = layout_basis(l, dim, b)[from[k]];
            if (any || !drop_registers || dim != LAYOUT_REGISTER) layout_draft_push(&d, dim, coordinate);
        }
    }
    return layout_draft_finish(c, &d);
}

const Layout *layout_slice(LayoutCtx *c, const Layout *l, unsigned axis) {
    unsigned from[LAYOUT_RANK_LIMIT], rank = 0;
    if (axis >= l->rank || l->is_memory) return NULL;
    for (unsigned k = 0; k < l->rank; k++)
        if (k != axis) from[rank++] = k;
    return take_axes(c, l, rank, from, true);
}

const Layout *layout_expand_dims(LayoutCtx *c, const Layout *l, unsigned axis) {
    unsigned from[LAYOUT_RANK_LIMIT];
    if (axis > l->rank || l->rank == LAYOUT_RANK_LIMIT) return NULL;
    for (unsigned k = 0; k <= l->rank; k++) from[k] = k < axis ? k : k == axis ? NEW : k - 1;
    return take_axes(c, l, l->rank + 1, from, false);
}

const Layout *layout_transpose(LayoutCtx *c, const Layout *l, const unsigned *order) {
    unsigned seen = 0;
    for (unsigned k = 0; k < l->rank; k++) {
        if (order[k] >= l->rank) return NULL;
        seen |= 1u << order[k];
    }
    if (seen != (1u << l->rank) - 1) return NULL;
    return take_axes(c, l, l->rank, order, false);
}

/* Pairs each repeated axis of l with the one of the new shape that takes over its repeats:
 * to[old axis] = new axis. Row-major groups of axes with equal products, from the last axis; only
 * the slowest of a group may be repeated. */
static bool match_repeats(const Layout *l, const LayoutDraft *d, unsigned *to) {
    unsigned i = l->rank, j = d->rank;
    while (i > 0 || j > 0) {
        unsigned i_end = i, j_end = j;
        int64_t a = i > 0 ? l->extents[--i] : 1, b = j > 0 ? d->extents[--j] : 1;
        while (a != b) {
            if (a < b ? i == 0 : j == 0) return false;
            if (a < b)
                a *= l->extents[--i];
            else
                b *= d->extents[--j];
        }
        for (unsigned k = i + 1; k < i_end; k++)
            if (l->repeat[k] > 1) return false;
        for (unsigned k = j + 1; k < j_end; k++)
            if (d->repeat[k] > 1) return false;
        if (i < i_end) to[i] = j;
    }
    return true;
}

static uint64_t pack(const unsigned *bits, unsigned rank, const uint32_t *coordinate) {
    uint64_t packed = 0;
    for (unsigned k = 0; k < rank; k++) packed = packed << bits[k] | coordinate[k];
    return packed;
}

static void unpack(const unsigned *bits, unsigned rank, uint64_t packed, uint32_t *coordinate) {
    for (unsigned k = rank; k-- > 0; packed >>= bits[k]) coordinate[k] = (uint32_t)(packed & (((uint64_t)1 << bits[k]) - 1));
}

const Layout *layout_reshape(LayoutCtx *c, const Layout *l, unsigned rank, const int64_t *extents) {
    LayoutDraft d;
    unsigned to[LAYOUT_RANK_LIMIT];
    if (!layout_draft_init(&d, l->is_memory, rank, extents) || !match_repeats(l, &d, to)) return NULL;
    for (unsigned i = 0; i < l->repeat_count; i++) d.repeat_order[i] = to[l->repeat_order[i]];
    for (unsigned i = 0; i < LAYOUT_DIMS; i++) {
        LayoutDim dim = (LayoutDim)i;
        for (unsigned b = 0; b < l->in_bits[dim]; b++) {
            uint32_t coordinate[LAYOUT_RANK_LIMIT];
            unpack(d.bits, rank, pack(l->bits, l->rank, layout_basis(l, dim, b)), coordinate);
            layout_draft_push(&d, dim, coordinate);
        }
    }
    return layout_draft_finish(c, &d);
}

/* ---- Asking ---- */

bool layout_same_tile(const Layout *a, const Layout *b) {
    return a->rank == b->rank && memcmp(a->extents, b->extents, sizeof a->extents) == 0;
}

void layout_apply(const Layout *l, const uint32_t in[LAYOUT_DIMS], int64_t *out) {
    uint32_t index[LAYOUT_RANK_LIMIT] = {0};
    for (unsigned dim = 0; dim < LAYOUT_DIMS; dim++)
        for (unsigned b = 0; b < l->in_bits[dim]; b++)
            for (unsigned k = 0; k < l->rank && (in[dim] >> b & 1); k++) index[k] ^= layout_basis(l, (LayoutDim)dim, b)[k];
    for (unsigned k = 0; k < l->rank; k++) out[k] = index[k];
    LayoutDim dim = l->is_memory ? LAYOUT_OFFSET : LAYOUT_REGISTER;
    uint32_t repeats = in[dim] >> l->in_bits[dim];
    for (unsigned i = l->repeat_count; i-- > 0;) {
        unsigned axis = l->repeat_order[i];
        out[axis] += (int64_t)(repeats % l->repeat[axis]) << l->bits[axis];
        repeats /= l->repeat[axis];
    }
}

int64_t layout_register_count(const Layout *l) {
    int64_t count = (int64_t)1 << l->in_bits[l->is_memory ? LAYOUT_OFFSET : LAYOUT_REGISTER];
    for (unsigned k = 0; k < l->rank; k++) count *= l->repeat[k];
    return count;
}

unsigned layout_first_bit(const Layout *l, LayoutDim dim) {
    unsigned first = 0;
    for (unsigned i = 0; i < (unsigned)dim; i++) first += l->in_bits[i];
    return first;
}

void layout_map(const Layout *l, Gf2Map *map) {
    *map = (Gf2Map){.in_bits = 0};
    for (unsigned k = 0; k < l->rank; k++) map->out_bits += l->bits[k];
    for (unsigned dim = 0; dim < LAYOUT_DIMS; dim++)
        for (unsigned b = 0; b < l->in_bits[dim]; b++)
            map->column[map->in_bits++] = pack(l->bits, l->rank, layout_basis(l, (LayoutDim)dim, b));
}

bool layout_is_surjective(const Layout *l) {
    Gf2Map map;
    layout_map(l, &map);
    return gf2_rank(&map) == map.out_bits;
}

bool layout_is_injective(const Layout *l) {
    Gf2Map map;
    layout_map(l, &map);
    return gf2_free_bits(&map) == 0;
}

uint32_t layout_free_mask(const Layout *l, LayoutDim dim) {
    Gf2Map map;
    layout_map(l, &map);
    uint64_t free_bits = gf2_free_bits(&map) >> layout_first_bit(l, dim);
    return (uint32_t)(free_bits & (((uint64_t)1 << l->in_bits[dim]) - 1));
}
