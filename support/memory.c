#include "memory.h"
#include "support_internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Blocks stand in a ring of the scope in which they were allocated, so that a jump to its beginning can free them. One that
 * outlives its scope goes to the scope around it, or to none. */
typedef struct Block {
    struct Block *next, *before;
    MemoryScope *scope;        /* null: stands in no ring */
    void (*end)(void *memory); /* null: free */
    _Alignas(16) unsigned char data[];
} Block;

struct MemoryScope {
    MemoryScope *around;
    Block ring;
    MemoryUndo *undo;
    pthread_mutex_t lock; /* what a worker thread allocated another may free */
    jmp_buf landing;
};

static _Thread_local MemoryScope *innermost;

bool (*memory_refuse)(void);
void (*memory_program_ends)(void);

static Block *block_of(void *memory) {
    return (Block *)(void *)((unsigned char *)memory - offsetof(Block, data));
}

static void link_block(Block *b, MemoryScope *scope) {
    b->scope = scope;
    if (!scope) return;
    pthread_mutex_lock(&scope->lock);
    b->next = scope->ring.next;
    b->before = &scope->ring;
    b->next->before = b->before->next = b;
    pthread_mutex_unlock(&scope->lock);
}

static void unlink_block(Block *b) {
    if (!b->scope) return; /* NOLINT(*ArrayBound): block_of goes back from the data to the block around them */
    pthread_mutex_lock(&b->scope->lock);
    b->next->before = b->before;
    b->before->next = b->next;
    pthread_mutex_unlock(&b->scope->lock);
    b->scope = NULL;
}

void *memory_alloc(size_t size) {
    void *memory = memory_resize(NULL, size);
    memset(memory, 0, size);
    return memory;
}

void *memory_resize(void *memory, size_t size) {
    Block *old = memory ? block_of(memory) : NULL;
    MemoryScope *scope = old ? old->scope : innermost;
    if (size > SIZE_MAX / 2) memory_out();
    if (old) unlink_block(old);
    Block *b = memory_refuse && memory_refuse() ? NULL : realloc(old, sizeof *b + size);
    if (!b && old) link_block(old, scope);
    if (!b) memory_out();
    if (!old) b->end = NULL;
    link_block(b, scope);
    return b->data;
}

void memory_free(void *memory) {
    if (!memory) return;
    Block *b = block_of(memory);
    unlink_block(b);
    free(b);
}

void memory_ends_by(void *memory, void (*end)(void *memory)) {
    block_of(memory)->end = end;
}

/* ---- Scopes ---- */

void memory_push(MemoryUndo *record, void (*undo)(void *ctx), void *ctx) {
    *record = (MemoryUndo){undo, ctx, innermost ? innermost->undo : NULL};
    if (innermost) innermost->undo = record;
}

void memory_pop(MemoryUndo *record) {
    if (innermost) innermost->undo = record->below;
}

_Noreturn void memory_out(void) {
    if (!innermost && memory_program_ends) memory_program_ends();
    if (!innermost) abort();
    /* From here, while the frames of the records still are. */
    for (MemoryUndo *u = innermost->undo; u; u = innermost->undo) {
        innermost->undo = u->below;
        u->undo(u->ctx);
    }
    longjmp(innermost->landing, 1);
}

static void free_all(MemoryScope *scope) {
    while (scope->ring.next != &scope->ring) {
        Block *b = scope->ring.next;
        if (b->end)
            b->end(b->data);
        else
            memory_free(b->data);
    }
}

static void hand_over(MemoryScope *scope) {
    for (Block *b = scope->ring.next, *next; b != &scope->ring; b = next) {
        next = b->next;
        link_block(b, scope->around);
    }
}

bool memory_try(void (*work)(void *ctx), void *ctx) {
    MemoryScope scope = {.around = innermost, .lock = PTHREAD_MUTEX_INITIALIZER};
    scope.ring.next = scope.ring.before = &scope.ring;
    volatile bool done = false;
    innermost = &scope;
    if (!setjmp(scope.landing)) {
        work(ctx);
        done = true;
    }
    innermost = scope.around;
    if (done)
        hand_over(&scope);
    else
        free_all(&scope);
    return done;
}

bool memory_guard(void (*work)(void *ctx), void *ctx) {
    if (memory_try(work, ctx)) return true;
    if (innermost) memory_out();
    return false;
}
