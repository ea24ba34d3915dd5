/* How often terms repeat. Partial sums of one binade lose the same of the same term, so equal terms are no steps of a random walk, wherever they
 * stand. What is counted is the chance that two terms of a sum lose the same (0: none repeats; 1: all do), by sums of signs in a table that hashing
 * fills: the expected sum of their squares is the sum of the squares of how often each came. A term and its negative lose opposite amounts. */
#include "evaluate_internal.h"

#include <math.h>
#include <string.h>

enum { FULL = 8192, KEPT_BITS = 4 }; /* terms until every second of those so far is looked at; bits below the last place of a block's sum */

void repeats_begin(Repeats *r, const Node *node) {
    int64_t longest = node->kind == NODE_SCAN ? node->shape.extents[node->axis] : node->reduced_count;
    int64_t block = node->contract ? BOUND_CONTRACT_BLOCK : BOUND_SUM_BLOCK;
    int bits = -(int)logb(node->unit) - 1 - (int)logb((double)(longest < 1 ? 1 : longest < block ? longest : block)) + KEPT_BITS;
    memset(r, 0, sizeof *r);
    r->dropped = bits >= 52 ? 0 : (unsigned)(52 - bits);
}

static uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 32)) * UINT64_C(0xD6E8FEB86659FD93);
    x = (x ^ (x >> 32)) * UINT64_C(0xD6E8FEB86659FD93);
    return x ^ (x >> 32);
}

/* Adds a sign to its place of a table whose sum of squares is kept. */
static inline void table_take(int32_t *table, int64_t *squares, uint64_t hash, bool negative) {
    int32_t *place = &table[hash >> (64 - REPEAT_BITS)], sign = ((hash >> 40) & 1) ^ negative ? -1 : 1;
    *squares += 2 * sign * (int64_t)*place + 1;
    *place += sign;
}

/* The share of pairs that are equal, of `count` terms that are compared with one in `apart`. What hashing makes of terms that differ is none. */
static double share(int64_t squares, int64_t count, double apart) {
    double n = (double)count, excess = (double)(squares - count);
    return excess > 0.75 * n ? fmin(1, excess * apart / (n * n)) : 0;
}

static double share_so_far(const Repeats *r) {
    return fmax(share(r->all_squares, r->count, 1), share(r->strided_squares, r->count, REPEAT_STRIDE));
}

static void count_less(Repeats *r) {
    double found = fmax(r->found, share_so_far(r));
    *r = (Repeats){.dropped = r->dropped, .rarely = r->rarely + 1, .found = found};
}

void repeats_take(Repeats *r, int64_t at, double v) {
    uint64_t bits;
    if (r->rarely && mixed((uint64_t)at) >> (64 - r->rarely)) return;
    memcpy(&bits, &v, sizeof bits);
    bits &= ~(UINT64_C(1) << 63);
    bits = (bits + ((UINT64_C(1) << r->dropped) >> 1)) >> r->dropped;
    uint64_t hash = (bits + 1) * UINT64_C(0x9E3779B97F4A7C15), stride = ((uint64_t)at % REPEAT_STRIDE + 1) * UINT64_C(0xD6E8FEB86659FD93);
    hash ^= hash >> 29;
    table_take(r->all, &r->all_squares, hash * UINT64_C(0xBF58476D1CE4E5B9), v < 0);
    table_take(r->strided, &r->strided_squares, (hash ^ stride) * UINT64_C(0x94D049BB133111EB), v < 0);
    if (++r->count == FULL) count_less(r);
}

double repeats_share(const Repeats *r) {
    bool enough = !r->rarely || r->count >= FULL / 8;
    return enough ? fmax(r->found, share_so_far(r)) : r->found;
}
