#include "memory.h"
#include "support_internal.h"

#include <stdlib.h>
#include <string.h>

/* Under AddressSanitizer what is not handed out is poisoned, with a gap behind every allocation, so
 * that overruns inside an arena are found as on the heap. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
enum { GAP = 16, CHUNK_MAX = 1 << 16 }; /* larger blocks it maps and unmaps one by one, which is slow */
#else
#define ASAN_POISON_MEMORY_REGION(memory, size) ((void)(memory), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(memory, size) ((void)(memory), (void)(size))
enum { GAP = 0, CHUNK_MAX = 1 << 20 };
#endif

/* Chunks double up to CHUNK_MAX; an allocation larger than a chunk gets one of its own. */
enum { CHUNK_MIN = 4096, ALIGNMENT = 16 };

typedef struct Chunk {
    struct Chunk *next;
    size_t size, used; /* of data */
    _Alignas(ALIGNMENT) unsigned char data[];
} Chunk;

struct Arena {
    Chunk *chunks;
    size_t next_size;
};

static void end_arena(void *arena) {
    arena_destroy(arena);
}

Arena *arena_create(void) {
    Arena *arena = memory_alloc(sizeof *arena);
    memory_ends_by(arena, end_arena);
    arena->next_size = CHUNK_MIN;
    return arena;
}

void arena_destroy(Arena *arena) {
    if (!arena) return;
    for (Chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        ASAN_UNPOISON_MEMORY_REGION(chunk->data, chunk->size);
        free(chunk);
    }
    memory_free(arena);
}

static Chunk *add_chunk(Arena *arena, size_t size) {
    size_t room = size > arena->next_size ? size : arena->next_size;
    if (room > SIZE_MAX - sizeof(Chunk)) memory_out();
    Chunk *chunk = memory_refuse && memory_refuse() ? NULL : calloc(1, sizeof *chunk + room);
    if (!chunk) memory_out();
    ASAN_POISON_MEMORY_REGION(chunk->data, room);
    chunk->size = room;
    if (arena->next_size < CHUNK_MAX) arena->next_size *= 2;
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    return chunk;
}

void *arena_alloc(Arena *arena, size_t size) {
    if (size > SIZE_MAX - ALIGNMENT - GAP) memory_out();
    size_t taken = (size + GAP + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    Chunk *chunk = arena->chunks;
    if (!chunk || chunk->size - chunk->used < taken) chunk = add_chunk(arena, taken);
    void *memory = chunk->data + chunk->used;
    ASAN_UNPOISON_MEMORY_REGION(memory, size);
    chunk->used += taken;
    return memory;
}

void *arena_alloc_array(Arena *arena, size_t count, size_t size) {
    if (size && count > SIZE_MAX / size) memory_out();
    return arena_alloc(arena, count * size);
}

char *arena_strndup(Arena *arena, const char *text, size_t length) {
    char *copy = arena_alloc(arena, length + 1);
    if (length) memcpy(copy, text, length);
    return copy;
}

char *arena_strdup(Arena *arena, const char *text) {
    return arena_strndup(arena, text, strlen(text));
}

char *arena_printf(Arena *arena, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = arena_alloc(arena, (size_t)(length < 0 ? 0 : length) + 1);
    if (length > 0) vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

void *vec_grow(Arena *arena, void *data, size_t len, size_t *cap, size_t element_size) {
    size_t new_cap = *cap ? *cap * 2 : 8;
    void *grown = arena_alloc_array(arena, new_cap, element_size);
    if (len) memcpy(grown, data, len * element_size);
    *cap = new_cap;
    return grown;
}
