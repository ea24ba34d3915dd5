#include "compare_internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

bool placement_init(Placement *p, unsigned rank, const int64_t *extents, const int64_t *strides) {
    bool fits = rank <= VERIFY_MAX_RANK, empty = false;
    *p = (Placement){.rank = rank, .memory = 1};
    for (unsigned i = 0; fits && i < rank; i++) {
        int64_t reach;
        p->extents[i] = extents[i];
        p->strides[i] = strides[i];
        empty = empty || extents[i] == 0;
        fits = extents[i] >= 0 && strides[i] >= 0;
        if (!fits || empty) continue;
        fits = !__builtin_mul_overflow(extents[i] - 1, strides[i], &reach) && !__builtin_add_overflow(p->memory, reach, &p->memory);
    }
    if (empty) p->memory = 0;
    return fits;
}

int64_t placement_packed_stride(unsigned rank, const int64_t *extents, const int64_t *strides) {
    int64_t stride = 1, reach;
    for (unsigned i = 0; i < rank; i++) {
        if (strides[i] < 0 || extents[i] == 0) continue;
        if (extents[i] < 0 || __builtin_mul_overflow(extents[i] - 1, strides[i], &reach) || __builtin_add_overflow(stride, reach, &stride))
            return -1;
    }
    return stride;
}

/* What is done with one row: elements along the last axis, the first of them at these two places. */
typedef struct {
    const Placement *p;
    size_t size;
    unsigned char *memory;
    unsigned char *dense; /* or, of marks, null */
} Rows;
typedef void (*RowWork)(const Rows *r, int64_t memory, int64_t dense, int64_t count, int64_t stride);

static void for_rows(const Rows *r, RowWork work) {
    const Placement *p = r->p;
    int64_t index[VERIFY_MAX_RANK] = {0}, memory = 0, dense = 0;
    unsigned lead = p->rank ? p->rank - 1 : 0;
    int64_t count = p->rank ? p->extents[lead] : 1, stride = p->rank ? p->strides[lead] : 1;
    while (p->memory) {
        work(r, memory, dense, count, stride);
        dense += count;
        unsigned d = lead;
        while (d-- > 0) {
            memory += p->strides[d];
            if (++index[d] < p->extents[d]) break;
            memory -= index[d] * p->strides[d];
            index[d] = 0;
        }
        if (d == UINT_MAX) return;
    }
}

static void spread_row(const Rows *r, int64_t memory, int64_t dense, int64_t count, int64_t stride) {
    for (int64_t i = 0; i < count; i++)
        memcpy(r->memory + (size_t)(memory + i * stride) * r->size, r->dense + (size_t)(dense + i) * r->size, r->size);
}

static void collect_row(const Rows *r, int64_t memory, int64_t dense, int64_t count, int64_t stride) {
    for (int64_t i = 0; i < count; i++)
        memcpy(r->dense + (size_t)(dense + i) * r->size, r->memory + (size_t)(memory + i * stride) * r->size, r->size);
}

static void mark_row(const Rows *r, int64_t memory, int64_t dense, int64_t count, int64_t stride) {
    (void)dense;
    for (int64_t i = 0; i < count; i++) r->memory[memory + i * stride] = 1;
}

void placement_spread(const Placement *p, size_t size, const void *dense, void *memory) {
    for_rows(&(Rows){p, size, memory, (unsigned char *)(uintptr_t)dense}, spread_row);
}

void placement_collect(const Placement *p, size_t size, const void *memory, void *dense) {
    for_rows(&(Rows){p, size, (unsigned char *)(uintptr_t)memory, dense}, collect_row);
}

int64_t placement_find_stray(const Placement *p, Dtype dtype, unsigned round, const void *memory) {
    unsigned char *marks = calloc((size_t)p->memory + 1, 1);
    if (!marks) return -1;
    for_rows(&(Rows){p, 1, marks, NULL}, mark_row);
    int64_t found = -1;
    for (int64_t i = 0; i < p->memory && found < 0; i++)
        if (!marks[i] && !poison_at(dtype, round, (const unsigned char *)memory + (size_t)i * dtype_size(dtype))) found = i;
    free(marks);
    return found;
}
