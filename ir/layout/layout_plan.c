/* What lowering asks of layouts: widths, conflicts, rolled loops, reductions, conversions. */
#include <string.h>

#include "layout_internal.h"

/* ---- Vector widths ---- */

unsigned layout_vector_width(const Layout *l, unsigned axis) {
    unsigned width = 0;
    if (l->is_memory || axis >= l->rank) return 1;
    for (; width < l->in_bits[LAYOUT_REGISTER]; width++) {
        const uint32_t *basis = layout_basis(l, LAYOUT_REGISTER, width);
        for (unsigned k = 0; k < l->rank; k++)
            if (basis[k] != (k == axis ? (uint32_t)1 << width : 0)) goto aligned;
    }
aligned:
    for (unsigned dim = 0; dim < LAYOUT_DIMS; dim++)
        for (unsigned b = dim == LAYOUT_REGISTER ? width : 0; b < l->in_bits[dim]; b++)
            while (width && layout_basis(l, (LayoutDim)dim, b)[axis] & (((uint32_t)1 << width) - 1)) width--;
    return 1u << width;
}

bool layout_offsets(const Layout *distributed, const Layout *memory, Gf2Map *map) {
    Gf2Map tile, offsets, inverse;
    if (distributed->is_memory || !memory->is_memory || !layout_same_tile(distributed, memory)) return false;
    layout_map(distributed, &tile);
    layout_map(memory, &offsets);
    if (!gf2_invert(&offsets, &inverse)) return false;
    gf2_compose(&inverse, &tile, map);
    return true;
}

static unsigned offset_width(const Gf2Map *map, unsigned register_bits) {
    unsigned width = 0;
    while (width < register_bits && map->column[width] == (uint64_t)1 << width) width++;
    for (unsigned b = 0; b < map->in_bits; b++)
        while (b >= width && (map->column[b] & (((uint64_t)1 << width) - 1))) width--;
    return 1u << width;
}

unsigned layout_memory_width(const Layout *distributed, const Layout *memory) {
    Gf2Map map;
    if (!layout_offsets(distributed, memory, &map)) return 0;
    return offset_width(&map, distributed->in_bits[LAYOUT_REGISTER]);
}

/* ---- Bank conflicts ---- */

enum { BANKS = 32, WORD_BYTES = 4, WARP_SIZE = 32, WORDS_LIMIT = WARP_SIZE * 4 };

/* The most distinct words that fall into one bank. */
static unsigned deepest_bank(const uint64_t *words, unsigned count) {
    unsigned depth[BANKS] = {0}, deepest = 0;
    for (unsigned i = 0; i < count; i++) {
        bool repeated = false;
        for (unsigned j = 0; j < i && !repeated; j++) repeated = words[j] == words[i];
        unsigned *bank = &depth[words[i] % BANKS];
        if (!repeated && ++*bank > deepest) deepest = *bank;
    }
    return deepest;
}

/* Lanes served together: all for up to 4 bytes each, half or a quarter of a warp for 8 or 16. */
static unsigned group_lanes(unsigned bytes) {
    return bytes <= WORD_BYTES ? WARP_SIZE : WARP_SIZE * WORD_BYTES / bytes;
}

unsigned layout_wavefronts(const Layout *distributed, const Layout *memory, unsigned element_bytes, unsigned vector) {
    Gf2Map map;
    unsigned bytes = element_bytes * vector, registers = distributed->in_bits[LAYOUT_REGISTER];
    unsigned lanes = 1u << distributed->in_bits[LAYOUT_LANE];
    if (!layout_offsets(distributed, memory, &map) || !layout_is_power(bytes) || bytes > 16 || vector > offset_width(&map, registers) ||
        lanes > WARP_SIZE)
        return 0;
    unsigned total = 0, group = group_lanes(bytes);
    for (unsigned first = 0; first < lanes; first += group) {
        uint64_t words[WORDS_LIMIT];
        unsigned count = 0;
        for (unsigned lane = first; lane < first + group && lane < lanes; lane++) {
            uint64_t address = gf2_apply(&map, (uint64_t)lane << registers) * element_bytes;
            for (unsigned b = 0; b < bytes; b += WORD_BYTES) words[count++] = (address + b) / WORD_BYTES;
        }
        total += deepest_bank(words, count);
    }
    return total;
}

unsigned layout_bank_conflicts(const Layout *distributed, const Layout *memory, unsigned element_bytes, unsigned vector) {
    unsigned waves = layout_wavefronts(distributed, memory, element_bytes, vector);
    unsigned lanes = 1u << distributed->in_bits[LAYOUT_LANE];
    unsigned group = group_lanes(element_bytes * vector);
    unsigned least = lanes > group ? lanes / group : 1;
    return waves > least ? waves - least : 0;
}

/* ---- Rolled loops ---- */

static bool is_additive(const Layout *l) {
    Gf2Map map;
    layout_map(l, &map);
    return gf2_is_additive(&map);
}

static bool continues(const LayoutLoop *inner, const int64_t *stride, unsigned rank) {
    for (unsigned k = 0; k < rank; k++)
        if (stride[k] != inner->stride[k] * inner->extent) return false;
    return true;
}

/* Loops are gathered from the innermost on. */
static void add_loop(LayoutLoop *loops, size_t *count, bool may_merge, int64_t extent, const int64_t *stride, unsigned rank) {
    if (may_merge && *count && continues(&loops[*count - 1], stride, rank)) {
        loops[*count - 1].extent *= extent;
        return;
    }
    loops[*count].extent = extent;
    memset(loops[*count].stride, 0, sizeof loops[*count].stride);
    memcpy(loops[*count].stride, stride, rank * sizeof *stride);
    ++*count;
}

bool layout_register_dims(const Layout *l, uint32_t split, LayoutLoop *loops, size_t *count) {
    LayoutDim dim = l->is_memory ? LAYOUT_OFFSET : LAYOUT_REGISTER;
    unsigned bits = l->in_bits[dim];
    size_t n = 0;
    if (!is_additive(l)) return false;
    for (unsigned b = 0; b < bits; b++) {
        int64_t stride[LAYOUT_RANK_LIMIT];
        for (unsigned k = 0; k < l->rank; k++) stride[k] = layout_basis(l, dim, b)[k];
        add_loop(loops, &n, !(split >> b & 1), 2, stride, l->rank);
    }
    for (unsigned i = l->repeat_count; i-- > 0;) {
        int64_t stride[LAYOUT_RANK_LIMIT] = {0};
        unsigned axis = l->repeat_order[i];
        stride[axis] = (int64_t)1 << l->bits[axis];
        bool first = i + 1 == l->repeat_count;
        add_loop(loops, &n, !(first && (split >> bits & 1)), l->repeat[axis], stride, l->rank);
    }
    for (size_t i = 0; i < n / 2; i++) {
        LayoutLoop swap = loops[i];
        loops[i] = loops[n - 1 - i];
        loops[n - 1 - i] = swap;
    }
    *count = n;
    return true;
}

bool layout_lane_terms(const Layout *l, LayoutTerm *terms, size_t *count) {
    *count = 0;
    if (!is_additive(l)) return false;
    for (unsigned i = LAYOUT_LANE; i <= LAYOUT_BLOCK; i++) {
        LayoutDim dim = (LayoutDim)i;
        for (unsigned axis = 0; axis < l->rank; axis++)
            for (unsigned b = 0, run; b < l->in_bits[dim]; b += run) {
                uint32_t stride = layout_basis(l, dim, b)[axis];
                run = 1;
                if (!stride) continue;
                while (b + run < l->in_bits[dim] && layout_basis(l, dim, b + run)[axis] == stride << run) run++;
                terms[(*count)++] = (LayoutTerm){dim, b, run, axis, stride};
            }
    }
    return true;
}

/* ---- Reductions ---- */

bool layout_plan_reduction(const Layout *l, unsigned axis, LayoutReduction *plan) {
    uint32_t *const masks[] = {&plan->register_bits, &plan->lane_bits, &plan->warp_bits, &plan->block_bits};
    Gf2Map along = {.out_bits = 32};
    if (l->is_memory || axis >= l->rank) return false;
    *plan = (LayoutReduction){.repeat = l->repeat[axis]};
    for (unsigned dim = 0; dim <= LAYOUT_BLOCK; dim++)
        for (unsigned b = 0; b < l->in_bits[dim]; b++) {
            const uint32_t *basis = layout_basis(l, (LayoutDim)dim, b);
            if (!basis[axis]) continue;
            for (unsigned k = 0; k < l->rank; k++)
                if (k != axis && basis[k]) return false;
            *masks[dim] |= 1u << b;
            along.column[along.in_bits++] = basis[axis];
        }
    return gf2_free_bits(&along) == 0;
}

/* ---- Conversions ---- */

typedef struct {
    Gf2Map from, to;
    unsigned from_first[LAYOUT_DIMS], to_first[LAYOUT_DIMS];
} Pair;

/* The input bits of `from` whose column is that of input bit `bit` of `to`: the same bit where the
 * two agree, else a combination of the first `searched` bits. */
static bool find_source(const Pair *p, const Layout *to, LayoutDim dim, unsigned b, unsigned searched, uint64_t *source) {
    uint64_t wanted = p->to.column[p->to_first[dim] + b];
    unsigned same = p->from_first[dim] + b;
    (void)to;
    if (dim != LAYOUT_REGISTER && p->from.column[same] == wanted) {
        *source = (uint64_t)1 << same;
        return true;
    }
    Gf2Map part = p->from;
    part.in_bits = searched;
    return gf2_solve(&part, wanted, source);
}

/* Lets bits of registers (and lanes, if asked) be found among the registers (and lanes); all others
 * must agree. */
static bool try_conversion(const Pair *p, const Layout *to, bool lanes, Gf2Map *source) {
    unsigned searched = p->from_first[lanes ? LAYOUT_WARP : LAYOUT_LANE];
    *source = (Gf2Map){.in_bits = p->to.in_bits, .out_bits = p->from.in_bits};
    for (unsigned i = 0; i <= LAYOUT_BLOCK; i++) {
        LayoutDim dim = (LayoutDim)i;
        bool free_choice = dim == LAYOUT_REGISTER || (lanes && dim == LAYOUT_LANE);
        for (unsigned b = 0; b < to->in_bits[dim]; b++) {
            uint64_t found;
            if (!find_source(p, to, dim, b, free_choice ? searched : 0, &found)) return false;
            if (!free_choice && found != (uint64_t)1 << (p->from_first[dim] + b)) return false;
            source->column[p->to_first[dim] + b] = found;
        }
    }
    return true;
}

static unsigned select_bits(const Pair *p, const Layout *to, const Gf2Map *source) {
    Gf2Map registers = {.out_bits = p->from_first[LAYOUT_LANE]};
    uint64_t mask = ((uint64_t)1 << registers.out_bits) - 1;
    for (unsigned b = 0; b < to->in_bits[LAYOUT_LANE]; b++)
        registers.column[registers.in_bits++] = source->column[p->to_first[LAYOUT_LANE] + b] & mask;
    return gf2_rank(&registers);
}

void layout_plan_conversion(const Layout *from, const Layout *to, LayoutConversion *plan) {
    Pair p;
    *plan = (LayoutConversion){.kind = LAYOUT_CONVERT_INVALID};
    if (from->is_memory || to->is_memory || !layout_same_tile(from, to)) return;
    plan->kind = from == to ? LAYOUT_CONVERT_NONE : LAYOUT_CONVERT_SHARED;
    layout_map(from, &p.from);
    layout_map(to, &p.to);
    bool same_threads = true;
    for (unsigned i = 0; i < LAYOUT_DIMS; i++) {
        p.from_first[i] = layout_first_bit(from, (LayoutDim)i);
        p.to_first[i] = layout_first_bit(to, (LayoutDim)i);
        same_threads = same_threads && (i == LAYOUT_REGISTER || from->in_bits[i] == to->in_bits[i]);
    }
    if (from == to || !same_threads) return;
    if (try_conversion(&p, to, false, &plan->source)) {
        plan->kind = LAYOUT_CONVERT_REGISTERS;
    } else if (try_conversion(&p, to, true, &plan->source)) {
        plan->kind = LAYOUT_CONVERT_SHUFFLE;
        plan->select_bits = select_bits(&p, to, &plan->source);
    }
}
