/* What happens when memory runs out: docs/notes/039-out-of-memory.md. */
#ifndef SUPPORT_MEMORY_H
#define SUPPORT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Does the work. False: memory ran out in it, in this thread. Then nothing is left of what it allocated in arenas, strings
 * and by memory_alloc, whoever was to own it: what outlives the work must not keep pointers to it. `work` must not be left
 * in another way. Threads that it starts have a memory_try of their own. */
bool memory_try(void (*work)(void *ctx), void *ctx);
/* The same for a work within others, which end with it. */
bool memory_guard(void (*work)(void *ctx), void *ctx);
/* Ends the innermost memory_try of this thread; without one the process ends: by memory_program_ends, else it aborts. */
_Noreturn void memory_out(void);

/* Zeroed, never null, until memory_free or the end of a memory_try that fails. A null pointer may be freed. */
void *memory_alloc(size_t size);
void *memory_resize(void *memory, size_t size); /* more is not zeroed; null: a new one */
void memory_free(void *memory);

/* What has to be undone when memory runs out between the two calls: the last first, before anything is freed. The record is
 * the caller's and lives that long; `undo` allocates nothing. */
typedef struct MemoryUndo {
    void (*undo)(void *ctx);
    void *ctx;
    struct MemoryUndo *below;
} MemoryUndo;
void memory_push(MemoryUndo *record, void (*undo)(void *ctx), void *ctx);
void memory_pop(MemoryUndo *record);

/* For tests: asked before each allocation of this memory and of arenas, whether it fails; null: nobody is asked. */
extern bool (*memory_refuse)(void);

/* A program's own way to end where memory runs out outside of any memory_try: says so and exits. Null in a library. */
extern void (*memory_program_ends)(void);

#endif
