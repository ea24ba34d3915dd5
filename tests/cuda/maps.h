/* A tensor map: what a CUtensorMap's 128 bytes hold here. Axes from the innermost one. */
#ifndef TESTS_CUDA_MAPS_H
#define TESTS_CUDA_MAPS_H

#include "machine.h"

enum { MAP_RANK = 5, MAP_MAGIC = 0x50414d54 };

typedef struct {
    uint32_t magic;
    uint16_t rank, size;
    uint64_t base;
    uint64_t strides[MAP_RANK - 1]; /* bytes, from the second axis on */
    uint32_t extents[MAP_RANK];
    uint16_t box[MAP_RANK], swizzle; /* span in bytes */
    uint16_t tf32;                   /* floats are rounded to it, ties to even */
} TensorMap;
_Static_assert(sizeof(TensorMap) <= 128, "a CUtensorMap");

#endif
