#include "compare_internal.h"

#include <string.h>

/* Floats: all bits set, a NaN that no arithmetic produces (hardware's NaNs are quiet ones with an
 * empty or full payload of the other sign). */
enum { POISON_FLOAT = 0xFF, POISON_INTEGER = 0xA5, GUARD_BYTE = 0x5C };

static unsigned char poison_byte(Dtype dtype) {
    return dtype_is_float(dtype) ? POISON_FLOAT : POISON_INTEGER;
}

void poison_fill(Dtype dtype, void *buffer, size_t bytes) {
    memset(buffer, poison_byte(dtype), bytes);
}

bool poison_is_distinctive(Dtype dtype) {
    if (dtype == DTYPE_BOOL) return true;
    return dtype_bits(dtype) >= (dtype_is_float(dtype) ? 16u : 32u);
}

bool poison_at(Dtype dtype, const void *element) {
    const unsigned char *bytes = element;
    for (size_t i = 0; i < dtype_size(dtype); i++)
        if (bytes[i] != poison_byte(dtype)) return false;
    return true;
}

int64_t poison_count(Dtype dtype, const void *buffer, int64_t elements) {
    const unsigned char *bytes = buffer;
    size_t size = dtype_size(dtype);
    int64_t count = 0;
    for (int64_t i = 0; i < elements; i++) count += poison_at(dtype, bytes + (size_t)i * size);
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
