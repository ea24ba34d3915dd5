/* Linear maps over GF(2) between words of at most 64 bits: column i is the image of bit i. */
#ifndef IR_GF2_H
#define IR_GF2_H

#include "support.h"

typedef struct {
    unsigned in_bits, out_bits; /* at most 64 */
    uint64_t column[64];
} Gf2Map;

uint64_t gf2_apply(const Gf2Map *map, uint64_t x);
/* outer(inner(x)); inner->out_bits <= outer->in_bits. `result` is neither of them. */
void gf2_compose(const Gf2Map *outer, const Gf2Map *inner, Gf2Map *result);
unsigned gf2_rank(const Gf2Map *map);
/* The input bits whose columns depend on those of lower bits. With them held at 0 the map is
 * injective and its image the same. */
uint64_t gf2_free_bits(const Gf2Map *map);
/* The x with map(x) == y and all free bits 0; false when y is not in the image. */
bool gf2_solve(const Gf2Map *map, uint64_t y, uint64_t *x);
/* A right inverse, map(inverse(y)) == y, with the free bits 0; false unless map is surjective. */
bool gf2_invert(const Gf2Map *map, Gf2Map *inverse);
/* No two columns share a bit: then map(x) is also the sum of the columns of x's bits. */
bool gf2_is_additive(const Gf2Map *map);

/* ((x >> shift) & ((1 << count) - 1)) << to: a run of input bits moved as one. */
typedef struct {
    unsigned shift, count, to;
} Gf2Term;
/* The map restricted to input bits [first, first + bits) as an XOR of terms of x, a value that
 * holds these bits from bit 0 on. Returns how many there are; at most `limit` are written. */
size_t gf2_terms(const Gf2Map *map, unsigned first, unsigned bits, Gf2Term *terms, size_t limit);

#endif
