#include "compare_internal.h"

#include <string.h>

enum { POISON_INTEGER = 0xA5, GUARD_BYTE = 0x5C };
_Static_assert(POISON_ROUNDS == 2, "every integer byte has its complement");

/* Floats: a quiet NaN whose payload no arithmetic makes. Hardware's NaNs have an empty payload (x86, f64 on a GPU) or a full one (f32, f16
 * and bf16 on a GPU), and either sign once they are negated. Eight bits have room for a full one alone. */
static uint64_t poison_bits(Dtype dtype) {
    switch (dtype) {
    case DTYPE_F64:
        return 0xFFFADADADADADADA;
    case DTYPE_F32:
        return 0xFFDADADA;
    case DTYPE_BF16:
        return 0xFFDA;
    case DTYPE_F16:
        return 0xFEDA;
    default:
        return dtype_is_float(dtype) ? UINT64_MAX : 0x0101010101010101u * POISON_INTEGER;
    }
}

/* The second round's: the NaN without the sign, the complement of an integer. */
static void poison_element(Dtype dtype, unsigned round, unsigned char element[8]) {
    uint64_t sign = dtype_is_float(dtype) ? (uint64_t)1 << (dtype_bits(dtype) - 1) : UINT64_MAX;
    uint64_t bits = poison_bits(dtype) ^ (round ? sign : 0);
    for (unsigned i = 0; i < 8; i++) element[i] = (unsigned char)(bits >> 8 * i);
}

void poison_fill(Dtype dtype, void *buffer, size_t bytes) {
    poison_fill_round(dtype, 0, buffer, bytes);
}

void poison_fill_round(Dtype dtype, unsigned round, void *buffer, size_t bytes) {
    unsigned char element[8], *to = buffer;
    poison_element(dtype, round, element);
    size_t size = dtype_size(dtype), done = size < bytes ? size : bytes;
    memcpy(to, element, done);
    for (size_t n; done < bytes; done += n) {
        n = done < bytes - done ? done : bytes - done;
        memcpy(to + done, to, n);
    }
}

bool poison_is_distinctive(Dtype dtype) {
    if (dtype == DTYPE_BOOL) return true;
    return dtype_bits(dtype) >= (dtype_is_float(dtype) ? 16u : 32u);
}

bool poison_at(Dtype dtype, unsigned round, const void *element) {
    unsigned char poison[8];
    poison_element(dtype, round, poison);
    return memcmp(element, poison, dtype_size(dtype)) == 0;
}

/* Elements are compared a whole one at a time: memory is large, and the poison one number. */
int64_t poison_count(Dtype dtype, const void *first, const void *second, int64_t elements, int64_t *at) {
    const unsigned char *a = first, *b = second;
    unsigned char poison[POISON_ROUNDS][8];
    size_t size = dtype_size(dtype);
    int64_t count = 0;
    for (unsigned r = 0; r < POISON_ROUNDS; r++) poison_element(dtype, r, poison[r]);
    for (int64_t i = 0; i < elements; i++) {
        size_t place = (size_t)i * size;
        if (a[place] != poison[0][0] || memcmp(a + place, poison[0], size) != 0) continue;
        if (b && memcmp(b + place, poison[1], size) != 0) continue;
        if (count++ == 0 && at) *at = i;
    }
    return count;
}

void guard_fill(void *zone, size_t size) {
    memset(zone, GUARD_BYTE, size);
}

int64_t guard_find_damage(const void *zone, size_t size) {
    const unsigned char *bytes = zone;
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != GUARD_BYTE) return (int64_t)i;
    return -1;
}
