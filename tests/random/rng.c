#include "random.h"

/* splitmix64 (Steele, Lea, Flood 2014). */
uint64_t rng_next(Rng *rng) {
    uint64_t z = rng->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

unsigned rng_below(Rng *rng, unsigned limit) {
    return limit ? (unsigned)((rng_next(rng) >> 32) % limit) : 0;
}

static const int64_t extents[] = {
#define EXTENT(value) value,
#include "weights.def"
};

int64_t rng_extent(Rng *rng, int64_t most) {
    for (unsigned tries = 0; tries < 32; tries++) {
        int64_t e = extents[rng_below(rng, COUNT_OF(extents))];
        if (e <= most) return e;
    }
    return most > 0;
}
