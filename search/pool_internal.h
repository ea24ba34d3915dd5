/* What goes between a pool and its judges, over a socket: a head and that many bytes. */
#ifndef SEARCH_POOL_INTERNAL_H
#define SEARCH_POOL_INTERNAL_H

#include "pool.h"

/* The word in front of a message ("JUDG"), and the bytes of a message: a damaged length must not take all memory. */
enum { POOL_MAGIC = 0x4a554447, POOL_MOST = 64 << 20 };

typedef struct {
    uint32_t magic, size;
    uint64_t memory_limit;
} PoolRequestHead;

typedef struct {
    uint32_t magic, size;
    uint32_t outcome, padding;
    char why[320];
} PoolAnswerHead;

/* False when the other side is gone. */
bool pool_send(int fd, const void *data, size_t size);

#endif
