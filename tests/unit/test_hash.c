#include "check.h"
#include "support.h"

static void check_hex(const char *text, const char *want) {
    char hex[33];
    hash128_hex(hash128(text, strlen(text), (Hash128){0, 0}), hex);
    CHECK_STR(hex, want);
}

static int distance(Hash128 a, Hash128 b) {
    return __builtin_popcountll(a.lo ^ b.lo) + __builtin_popcountll(a.hi ^ b.hi);
}

/* Flipping any bit of any length changes about half of the 128 output bits. */
static void check_avalanche(void) {
    unsigned char data[48];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i * 37);
    for (size_t size = 1; size <= sizeof data; size++)
        for (size_t bit = 0; bit < size * 8; bit++) {
            Hash128 before = hash128(data, size, (Hash128){1, 2});
            data[bit / 8] ^= (unsigned char)(1u << (bit % 8));
            int changed = distance(before, hash128(data, size, (Hash128){1, 2}));
            data[bit / 8] ^= (unsigned char)(1u << (bit % 8));
            CHECK(changed > 24 && changed < 104);
        }
}

static int compare_words(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* 2^17 inputs that differ in few bits: no two agree in 64 bits, in either lane. */
static void check_collisions(void) {
    enum { COUNT = 1 << 17 };
    static uint64_t lo[COUNT], hi[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        uint64_t pair[2] = {i & 0x1ff, (uint64_t)(i >> 9) << 56};
        Hash128 hash = hash128(pair, sizeof pair, (Hash128){0, 0});
        lo[i] = hash.lo;
        hi[i] = hash.hi;
    }
    qsort(lo, COUNT, sizeof *lo, compare_words);
    qsort(hi, COUNT, sizeof *hi, compare_words);
    for (int i = 1; i < COUNT; i++) CHECK(lo[i] != lo[i - 1] && hi[i] != hi[i - 1]);
}

int main(void) {
    check_hex("", "3fa20e59fe889da541871600353829c1");
    check_hex("sketchc", "a79cff4b584819b581b8a40eab6a0064");
    check_hex("a text of more than sixteen bytes", "ee2217dc52a5ba2a99390e1f06df58d7");
    check_avalanche();
    check_collisions();
    Hash128 zeros1 = hash128("\0", 1, (Hash128){0, 0}), zeros2 = hash128("\0\0", 2, (Hash128){0, 0});
    CHECK(distance(zeros1, zeros2) > 24);                            /* the length counts */
    CHECK(distance(zeros1, hash128("\0", 1, (Hash128){0, 1})) > 24); /* and so does the seed */
    return 0;
}
