#include "support.h"

/* Two 64-bit lanes, each step invertible in the state, so that no input loses what came before.
 * Words are read as little endian: the value is the same on every platform. The test holds fixed
 * values; changing them invalidates caches and artifacts. */

static const uint64_t MULTIPLIER_LO = 0x9e3779b97f4a7c15u, MULTIPLIER_HI = 0xd1342543de82ef95u;

static uint64_t rotate(uint64_t x, int bits) {
    return x << bits | x >> (64 - bits);
}

static uint64_t read_word(const unsigned char *bytes, size_t count) {
    uint64_t word = 0;
    for (size_t i = 0; i < count; i++) word |= (uint64_t)bytes[i] << (8 * i);
    return word;
}

static void mix(Hash128 *h, uint64_t first, uint64_t second) {
    h->lo = (h->lo ^ first) * MULTIPLIER_LO;
    h->lo ^= h->lo >> 32;
    h->hi = (h->hi ^ second) * MULTIPLIER_HI;
    h->hi ^= h->hi >> 29;
    h->lo += rotate(h->hi, 27);
    h->hi += rotate(h->lo, 41);
}

Hash128 hash128(const void *data, size_t size, Hash128 seed) {
    const unsigned char *bytes = data;
    Hash128 h = {seed.lo ^ MULTIPLIER_HI, seed.hi ^ MULTIPLIER_LO};
    size_t at = 0;
    for (; size - at >= 16; at += 16) mix(&h, read_word(bytes + at, 8), read_word(bytes + at + 8, 8));
    size_t rest = size - at, first = rest < 8 ? rest : 8;
    if (rest) mix(&h, read_word(bytes + at, first), read_word(bytes + at + first, rest - first));
    mix(&h, (uint64_t)size, ~(uint64_t)size);
    for (int i = 0; i < 4; i++) mix(&h, 0, 0);
    return h;
}

void hash128_hex(Hash128 hash, char out[33]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 16; i++) {
        out[15 - i] = digits[hash.hi >> (4 * i) & 15];
        out[31 - i] = digits[hash.lo >> (4 * i) & 15];
    }
    out[32] = 0;
}
