#include "gf2.h"

uint64_t gf2_apply(const Gf2Map *map, uint64_t x) {
    uint64_t y = 0;
    for (unsigned i = 0; i < map->in_bits; i++)
        if (x >> i & 1) y ^= map->column[i];
    return y;
}

void gf2_compose(const Gf2Map *outer, const Gf2Map *inner, Gf2Map *result) {
    *result = (Gf2Map){.in_bits = inner->in_bits, .out_bits = outer->out_bits};
    for (unsigned i = 0; i < inner->in_bits; i++) result->column[i] = gf2_apply(outer, inner->column[i]);
}

/* Columns reduced so that each has a leading bit of its own; `from` is the set of original columns
 * whose XOR it is. */
typedef struct {
    uint64_t lead[64], from[64]; /* by leading bit; lead 0: none */
    uint64_t free_bits;
} Echelon;

static uint64_t reduce(const Echelon *e, uint64_t y, uint64_t *from) {
    for (unsigned bit = 64; bit-- > 0;) {
        if (!(y >> bit & 1) || !e->lead[bit]) continue;
        y ^= e->lead[bit];
        *from ^= e->from[bit];
    }
    return y;
}

static void eliminate(const Gf2Map *map, Echelon *e) {
    *e = (Echelon){.free_bits = 0};
    for (unsigned i = 0; i < map->in_bits; i++) {
        uint64_t from = (uint64_t)1 << i, rest = reduce(e, map->column[i], &from);
        if (rest == 0) {
            e->free_bits |= (uint64_t)1 << i;
            continue;
        }
        unsigned bit = 63 - (unsigned)__builtin_clzll(rest);
        e->lead[bit] = rest;
        e->from[bit] = from;
    }
}

uint64_t gf2_free_bits(const Gf2Map *map) {
    Echelon e;
    eliminate(map, &e);
    return e.free_bits;
}

unsigned gf2_rank(const Gf2Map *map) {
    return map->in_bits - (unsigned)__builtin_popcountll(gf2_free_bits(map));
}

static bool solve(const Echelon *e, uint64_t y, uint64_t *x) {
    *x = 0;
    return reduce(e, y, x) == 0;
}

bool gf2_solve(const Gf2Map *map, uint64_t y, uint64_t *x) {
    Echelon e;
    eliminate(map, &e);
    return solve(&e, y, x);
}

bool gf2_invert(const Gf2Map *map, Gf2Map *inverse) {
    Echelon e;
    eliminate(map, &e);
    *inverse = (Gf2Map){.in_bits = map->out_bits, .out_bits = map->in_bits};
    for (unsigned i = 0; i < map->out_bits; i++)
        if (!solve(&e, (uint64_t)1 << i, &inverse->column[i])) return false;
    return true;
}

bool gf2_is_additive(const Gf2Map *map) {
    uint64_t seen = 0;
    for (unsigned i = 0; i < map->in_bits; i++) {
        if (seen & map->column[i]) return false;
        seen |= map->column[i];
    }
    return true;
}

static bool has(const Gf2Map *map, unsigned in, unsigned out) {
    return out < 64 && (map->column[in] >> out & 1);
}

size_t gf2_terms(const Gf2Map *map, unsigned first, unsigned bits, Gf2Term *terms, size_t limit) {
    size_t count = 0;
    for (unsigned i = 0; i < bits; i++)
        for (unsigned to = 0; to < map->out_bits; to++) {
            if (!has(map, first + i, to)) continue;
            if (i > 0 && to > 0 && has(map, first + i - 1, to - 1)) continue; /* inside a run */
            unsigned n = 1;
            while (i + n < bits && has(map, first + i + n, to + n)) n++;
            if (count < limit) terms[count] = (Gf2Term){i, n, to};
            count++;
        }
    return count;
}
