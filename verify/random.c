/* Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3, 2011).
 */
#include "scalars.h"

#include <math.h>

void random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]}, k[2] = {key[0], key[1]};
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53U * c[0], b = (uint64_t)0xCD9E8D57U * c[2];
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k[1], (uint32_t)a};
        for (int i = 0; i < 4; i++) c[i] = next[i];
        k[0] += 0x9E3779B9U;
        k[1] += 0xBB67AE85U;
    }
    for (int i = 0; i < 4; i++) out[i] = c[i];
}

double random_uniform(Dtype dtype, int64_t seed, int64_t index) {
    uint64_t s = (uint64_t)seed, at = (uint64_t)index;
    uint32_t counter[4] = {(uint32_t)at, (uint32_t)(at >> 32), 0, 0}, out[4];
    uint32_t key[2] = {(uint32_t)s, (uint32_t)(s >> 32)};
    random_philox(counter, key, out);
    int digits = -ilogb(dtype_unit_roundoff(dtype));
    uint64_t word = (uint64_t)out[0] << 32 | out[1];
    return ldexp((double)(word >> (64 - digits)), -digits);
}
