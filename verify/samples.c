#include "verify.h"

#include <stdlib.h>

/* ---- Samples ---- */

/* Samples come in rows of the last axis, because what a row costs (a softmax reduces all of it) is
 * paid once. */
enum { SAMPLES_PER_ROW = 64 };

typedef struct {
    uint64_t state;
} Random;

static uint64_t next_random(Random *r) {
    uint64_t z = r->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static int64_t random_below(Random *r, int64_t n) {
    return (int64_t)(next_random(r) % (uint64_t)n);
}

static int64_t clamp(int64_t at, int64_t extent) {
    return at < 0 ? 0 : at >= extent ? extent - 1 : at;
}

/* A coordinate where tiles go wrong: the ends, the neighbours of a multiple of a tile size, the
 * start of the last partial tile. */
static int64_t edge_coordinate(Random *r, int64_t extent) {
    int64_t tile = (int64_t)8 << random_below(r, 6); /* 8..256 */
    switch (random_below(r, 4)) {
    case 0:
        return clamp(random_below(r, 2), extent);
    case 1:
        return clamp(extent - 1 - random_below(r, 2), extent);
    case 2:
        return clamp((extent - 1) / tile * tile + random_below(r, 3) - 1, extent);
    default:
        return clamp(random_below(r, extent / tile + 1) * tile + random_below(r, 3) - 1, extent);
    }
}

static int64_t random_coordinate(Random *r, int64_t extent, unsigned style) {
    bool edge = style == 0 || (style == 1 && next_random(r) % 2);
    return edge ? edge_coordinate(r, extent) : random_below(r, extent);
}

/* The start of a row: all coordinates but the last. */
static int64_t random_row(Random *r, const Shape *shape, unsigned style) {
    int64_t row = 0;
    for (unsigned d = 0; d + 1 < shape->rank; d++) row = row * shape->extents[d] + random_coordinate(r, shape->extents[d], style);
    return row;
}

static size_t add_corners(const Shape *shape, int64_t *flat) {
    size_t count = (size_t)1 << shape->rank;
    for (size_t corner = 0; corner < count; corner++) {
        int64_t at = 0;
        for (unsigned d = 0; d < shape->rank; d++) at = at * shape->extents[d] + (corner >> d & 1 ? shape->extents[d] - 1 : 0);
        flat[corner] = at;
    }
    return count;
}

static int compare_indices(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

Samples samples_choose(Arena *arena, const Shape *shape, size_t budget, uint64_t seed) {
    if ((uint64_t)shape->elements <= budget) return (Samples){(size_t)shape->elements, NULL};
    size_t corners = (size_t)1 << shape->rank, wanted = budget > corners ? budget : corners;
    int64_t *flat = ARENA_ARRAY(arena, int64_t, wanted);
    Random random = {seed ^ UINT64_C(0x73616D706C6573)};
    size_t count = add_corners(shape, flat);
    int64_t columns = shape->extents[shape->rank - 1]; /* NOLINT(*ArrayBound): one element is no more than the budget */
    for (unsigned style = 0; count < wanted; style = (style + 1) % 3) {
        int64_t row = random_row(&random, shape, style);
        for (unsigned i = 0; i < SAMPLES_PER_ROW && count < wanted; i++)
            flat[count++] = row * columns + random_coordinate(&random, columns, (style + i) % 3);
    }
    qsort(flat, count, sizeof *flat, compare_indices);
    size_t distinct = 0;
    for (size_t i = 0; i < count; i++)
        if (i == 0 || flat[i] != flat[i - 1]) flat[distinct++] = flat[i];
    return (Samples){distinct, flat};
}

static int64_t parts(int64_t extent, int64_t size) {
    return (extent + size - 1) / size;
}

double samples_hide(const Shape *shape, const Samples *samples, int64_t rows, int64_t columns) {
    if (!samples->flat || !shape->elements) return 0;
    int64_t width = shape->extents[shape->rank - 1], height = shape->rank > 1 ? shape->extents[shape->rank - 2] : 1;
    int64_t across = parts(width, columns), down = parts(height, rows), tiles = shape->elements / (width * height) * across * down;
    int64_t *hit = malloc(samples->count * sizeof *hit + 1);
    size_t distinct = 0;
    if (!hit) return 1;
    for (size_t i = 0; i < samples->count; i++) {
        int64_t at = samples->flat[i], row = at / width;
        hit[i] = (row / height * down + row % height / rows) * across + at % width / columns;
    }
    qsort(hit, samples->count, sizeof *hit, compare_indices);
    for (size_t i = 0; i < samples->count; i++) distinct += i == 0 || hit[i] != hit[i - 1];
    free(hit);
    return 1 - (double)distinct / (double)tiles;
}
