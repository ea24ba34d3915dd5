/* Linear layouts: how a tile lives in registers or in shared memory, as a linear map over GF(2)
 * from the bits of (register, lane, warp, block), or of (offset), to the bits of the tile's
 * indices (Zhou et al., "Linear Layouts", 2025; the same idea as in Triton).
 *
 * An axis has extent q * 2^k with q odd and at most 15. The map covers 2^k; q is an outer repeat:
 * index = r * 2^k + inner. The repeat indices are the slowest part of the register (or offset)
 * number, mixed radix, the axes in `repeat_order`, slowest first:
 *     register = repeats * 2^in_bits[LAYOUT_REGISTER] + register bits.
 *
 * Layouts are immutable and interned: two of one LayoutCtx are equal exactly when their pointers
 * are. Functions that make layouts return null where no such layout exists (an extent with too
 * large an odd part, a tile smaller than an instruction); they never return a different one. */
#ifndef IR_LAYOUT_H
#define IR_LAYOUT_H

#include "gf2.h"
#include "support.h"

enum { LAYOUT_RANK_LIMIT = 8, LAYOUT_BITS_LIMIT = 24, LAYOUT_REPEAT_LIMIT = 15 };

typedef enum { LAYOUT_REGISTER, LAYOUT_LANE, LAYOUT_WARP, LAYOUT_BLOCK, LAYOUT_OFFSET } LayoutDim;
enum { LAYOUT_DIMS = 5 };

typedef struct Layout Layout;
struct Layout {
    bool is_memory; /* offset -> tile; else (register, lane, warp, block) -> tile */
    unsigned rank;
    int64_t extents[LAYOUT_RANK_LIMIT];
    unsigned bits[LAYOUT_RANK_LIMIT];         /* k: the map covers 2^k of each axis */
    unsigned repeat[LAYOUT_RANK_LIMIT];       /* q */
    unsigned repeat_count;                    /* axes with q > 1 ... */
    unsigned repeat_order[LAYOUT_RANK_LIMIT]; /* ... slowest first */
    unsigned in_bits[LAYOUT_DIMS];
    /* bases[dim][bit * rank + axis]: what input bit `bit` adds (XOR) to the index along `axis` */
    const uint32_t *bases[LAYOUT_DIMS];
};

typedef struct LayoutCtx LayoutCtx;
LayoutCtx *layout_ctx_create(Arena *arena); /* lives and dies with the arena */

/* ---- Making ---- */

/* The least q * 2^k >= n (n >= 1) that an axis may have. */
int64_t layout_pad_extent(int64_t n);

/* From bases as in struct Layout; unused dimensions have 0 bits. */
const Layout *layout_from_bases(LayoutCtx *c, bool is_memory, unsigned rank, const int64_t *extents, const unsigned in_bits[LAYOUT_DIMS],
                                const uint32_t *const bases[LAYOUT_DIMS]);

/* The building blocks, for layout_product: 2^bits values of `dim` along `axis` of a tile of `rank`
 * axes, at a distance of 2^stride_bits; the other axes have extent 1. The extent is
 * 2^(bits + stride_bits). */
const Layout *layout_line(LayoutCtx *c, unsigned rank, unsigned axis, LayoutDim dim, unsigned bits, unsigned stride_bits);
/* 2^bits values of `dim` that all hold the same element. */
const Layout *layout_broadcast(LayoutCtx *c, unsigned rank, LayoutDim dim, unsigned bits);
/* Copies of `inner` placed as `outer` says: per axis index = inner + (outer << inner's bits); the
 * inner's input bits come first. No repeats in either. */
const Layout *layout_product(LayoutCtx *c, const Layout *inner, const Layout *outer);
/* The x with product(part, x) == l, or null. */
const Layout *layout_divide(LayoutCtx *c, const Layout *l, const Layout *part);

/* Every element in one thread's registers, row-major: the CPU's layout. */
const Layout *layout_row_major(LayoutCtx *c, unsigned rank, const int64_t *extents);
/* Elements, lanes and warps per axis (powers of two), laid out fastest axis order[0] first. Where
 * the tile is smaller than that, lanes and warps hold copies and registers are dropped; where it is
 * larger, registers repeat. */
const Layout *layout_blocked(LayoutCtx *c, unsigned rank, const int64_t *extents, const unsigned *per_thread, const unsigned *lanes,
                             const unsigned *warps, const unsigned *order);

typedef enum { LAYOUT_MMA_A, LAYOUT_MMA_B, LAYOUT_MMA_C } LayoutOperand;
/* Fragments of mma.sync m16n8kK, K = 256 / element_bits (k16 for 16 bits, k8 for tf32, k32 for 8
 * bits): A is M x K, B is K x N, C is M x N (32-bit accumulators). A warp owns a contiguous part of
 * the tile; low warp bits run along N, then along M. Register order: the instruction's own, then
 * its repeats along K (A, B) or N (C), then along M (A, C) or N (B). A and B are copied to the
 * warps that differ only in N or M. */
const Layout *layout_mma(LayoutCtx *c, LayoutOperand operand, unsigned element_bits, int64_t rows, int64_t columns, unsigned warps_m,
                         unsigned warps_n);
/* The accumulators of wgmma m64nNk*: 64 rows per warpgroup (warp bits 0 and 1), then all of N in
 * registers, then further 64-row blocks, then warpgroups (a power of two) along M. */
const Layout *layout_wgmma_c(LayoutCtx *c, int64_t rows, int64_t columns, unsigned warpgroups);
/* wgmma's A operand (M x K) from registers, the warpgroups as in layout_wgmma_c. */
const Layout *layout_wgmma_a(LayoutCtx *c, unsigned element_bits, int64_t rows, int64_t columns, unsigned warpgroups);

/* Shared memory, fastest axis order[0] first, with the fastest index i swizzled by the next one j:
 * i ^ (j / per_phase % max_phase) * vec. All three are powers of two; max_phase 1: no swizzle. */
const Layout *layout_shared(LayoutCtx *c, unsigned rank, const int64_t *extents, const unsigned *order, unsigned vec, unsigned per_phase,
                            unsigned max_phase);
/* Hopper's (TMA, wgmma) swizzles of 32, 64 or 128 bytes, 0: none. The fastest axis is cut into
 * boxes of that many bytes; a box holds all of the other axes. */
const Layout *layout_shared_tma(LayoutCtx *c, unsigned rank, const int64_t *extents, const unsigned *order, unsigned element_bytes,
                                unsigned swizzle_bytes);
/* The layout_shared (over the two choices of a rank-2 tile's order and all swizzles) by which the
 * accesses, each a distributed layout of the tile, need the fewest wavefronts. */
const Layout *layout_shared_best(LayoutCtx *c, const Layout *const *accesses, size_t count, unsigned element_bytes);

/* ---- Reshaping: the same storage seen as another tile ---- */

/* Without `axis`: a reduction's result. Register bits left with no coordinate are dropped; lanes
 * and warps that lay along the axis hold copies. */
const Layout *layout_slice(LayoutCtx *c, const Layout *l, unsigned axis);
/* `count` further axes in front, of these extents: l at each of their indices, in further registers. */
const Layout *layout_stack(LayoutCtx *c, const Layout *l, unsigned count, const int64_t *extents);
const Layout *layout_expand_dims(LayoutCtx *c, const Layout *l, unsigned axis); /* extent 1 */
/* Axis i of the result is axis order[i] of l. */
const Layout *layout_transpose(LayoutCtx *c, const Layout *l, const unsigned *order);
/* Row-major reshape; null where repeats do not stay repeats. */
const Layout *layout_reshape(LayoutCtx *c, const Layout *l, unsigned rank, const int64_t *extents);

/* ---- Asking ---- */

/* Tile indices of an input; in[LAYOUT_REGISTER] (or OFFSET) includes the repeats. */
void layout_apply(const Layout *l, const uint32_t in[LAYOUT_DIMS], int64_t *out);
/* Registers per thread, or elements of memory, repeats included. */
int64_t layout_register_count(const Layout *l);
/* The map without repeats: input bits register, lane, warp, block (or offset), low to high; output
 * bits the axes' indices as one row-major number (the last axis lowest). */
void layout_map(const Layout *l, Gf2Map *map);
unsigned layout_first_bit(const Layout *l, LayoutDim dim); /* of `dim` in layout_map's input */
bool layout_is_surjective(const Layout *l);
bool layout_is_injective(const Layout *l);
/* Bits of `dim` that only address copies: a store is done where all of them are 0. */
uint32_t layout_free_mask(const Layout *l, LayoutDim dim);
/* The largest 2^n such that registers in aligned groups of 2^n hold consecutive elements along
 * `axis`, at an index that is a multiple of 2^n. */
unsigned layout_vector_width(const Layout *l, unsigned axis);

/* Where (register, lane, warp, block) bits of a distributed layout lie in memory: input bits as in
 * layout_map, output the offset's. False when the tiles differ. Repeats: equal indices of both. */
bool layout_offsets(const Layout *distributed, const Layout *memory, Gf2Map *map);
/* As layout_vector_width, for consecutive and aligned offsets in memory. */
unsigned layout_memory_width(const Layout *distributed, const Layout *memory);
/* Shared-memory wavefronts of one warp-wide access of `vector` elements a lane (at most 16 bytes,
 * at most layout_memory_width); 0 when it is not such an access. */
unsigned layout_wavefronts(const Layout *distributed, const Layout *memory, unsigned element_bytes, unsigned vector);
/* Wavefronts above the 1, 2 or 4 that the access's width needs. */
unsigned layout_bank_conflicts(const Layout *distributed, const Layout *memory, unsigned element_bytes, unsigned vector);

/* ---- Rolled loops: index along axis k = base_k(lane, warp, block) + sum_j i_j * stride_jk ---- */

typedef struct {
    int64_t extent;
    int64_t stride[LAYOUT_RANK_LIMIT];
} LayoutLoop;
enum { LAYOUT_LOOP_LIMIT = LAYOUT_BITS_LIMIT + LAYOUT_RANK_LIMIT };
/* The register number as nested loops, outermost first (repeats included): register = the row-major
 * number of (i_0, i_1, ...). A loop starts anew at each bit in `split`. False, nothing written,
 * when the layout is not additive (swizzled). At most LAYOUT_LOOP_LIMIT loops; none for one
 * register. */
bool layout_register_dims(const Layout *l, uint32_t split, LayoutLoop *loops, size_t *count);

typedef struct {
    LayoutDim dim; /* lane, warp or block */
    unsigned shift, bits;
    unsigned axis;
    int64_t stride;
} LayoutTerm; /* adds ((dim >> shift) & ((1 << bits) - 1)) * stride along `axis` */
enum { LAYOUT_TERM_LIMIT = 3 * LAYOUT_BITS_LIMIT };
/* base_k as a sum of terms; false when the layout is not additive. */
bool layout_lane_terms(const Layout *l, LayoutTerm *terms, size_t *count);

/* ---- Plans ---- */

typedef struct {
    uint32_t register_bits; /* registers to combine within a thread */
    uint32_t lane_bits;     /* one xor-shuffle for each bit */
    uint32_t warp_bits;     /* combined through shared memory */
    uint32_t block_bits;    /* of a cluster */
    unsigned repeat;        /* of the axis: further registers */
} LayoutReduction;
/* What lies along `axis`; false when a bit moves along another axis too, or holds copies that a
 * sum would count twice. The result's layout is layout_slice. */
bool layout_plan_reduction(const Layout *l, unsigned axis, LayoutReduction *plan);

typedef enum {
    LAYOUT_CONVERT_NONE,      /* the same layout */
    LAYOUT_CONVERT_REGISTERS, /* each thread renames its registers */
    LAYOUT_CONVERT_SHUFFLE,   /* within a warp */
    LAYOUT_CONVERT_SHARED,    /* through shared memory */
    LAYOUT_CONVERT_INVALID    /* not the same tile, or memory */
} LayoutConversionKind;
typedef struct {
    LayoutConversionKind kind;
    /* REGISTERS, SHUFFLE: where a destination's (register, lane, ...) finds its element, as bits of
     * the source; both as in layout_map. Repeats map by their indices along the axes. */
    Gf2Map source;
    unsigned select_bits; /* SHUFFLE: the rank by which the source register depends on the lane */
} LayoutConversion;
void layout_plan_conversion(const Layout *from, const Layout *to, LayoutConversion *plan);

/* A lane bit and a register bit that change places: the one that moved `stride` along `axis` in the register. */
typedef struct {
    unsigned lane, axis;
    int64_t stride;
} LayoutSwap;
/* The layout whose registers, in groups of `width` (a power of two), hold consecutive elements along `axis`, by
 * swaps of lane and register bits (at most 5; the lanes' bits lie above all that registers hold of a group, in
 * ascending order); null where they do not lead there. */
const Layout *layout_widen(LayoutCtx *c, const Layout *l, unsigned axis, unsigned width, LayoutSwap *swaps, unsigned *count);
/* The layout whose lanes are neighbours along `axis` as far as threads hold them, by swaps of register bits along the axis with lane bits
 * along others; the lowest registers hold what the lanes gave, in the order of the swaps. Null: there is nothing to swap. */
const Layout *layout_gather(LayoutCtx *c, const Layout *l, unsigned axis, LayoutSwap *swaps, unsigned *count);
/* Lines of 128 bytes that a warp's access of memory touches where `axis` is consecutive there and rows are far apart. */
unsigned layout_warp_lines(const Layout *l, unsigned axis, unsigned element_bytes);

/* ---- Text ---- */

/* #dist<[96, 64], register=[(0, 1)*2, (8, 0)], lane=[(0, 4)*3, (1, 0)*2], warp=[(4, 0)]>, or
 * #memory<[..], offset=[..]>. `b*n` stands for b, 2b, 4b, ... (n of them); dimensions without bits
 * are left out; `repeats=[1, 0]` stands last where the repeated axes are not in ascending order. */
void layout_print(const Layout *l, Str *out);
/* Reads the text form at the start of `text` and sets *end behind it. On a mistake returns null and
 * sets *end to the offending byte. */
const Layout *layout_parse(LayoutCtx *c, const char *text, size_t *end);

#endif
