#include "evaluate_internal.h"

#include "memory.h"

#include <stdlib.h>
#include <string.h>

struct StackBlock {
    StackBlock *below;
    size_t capacity;
    double align[];
};

enum { BLOCK_BYTES = 1 << 20, MEMO_FIRST = 1 << 10, MEMO_LIMIT = 1 << 21 };

/* Where memory runs out what a run holds is lost: runs live in the disposable worker or in a test. */
void *stack_alloc(EvalRun *run, size_t bytes) {
    bytes = (bytes + 63) & ~(size_t)63;
    if (!run->stack || run->stack_used + bytes > run->stack->capacity) {
        size_t capacity = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        StackBlock *block = malloc(sizeof *block + capacity);
        if (!block) memory_out();
        block->below = run->stack;
        block->capacity = capacity;
        run->stack = block;
        run->stack_used = 0;
    }
    void *memory = (char *)run->stack->align + run->stack_used;
    run->stack_used += bytes;
    return memory;
}

void *eval_resize(void *memory, size_t bytes) {
    void *resized = realloc(memory, bytes);
    if (!resized) memory_out();
    return resized;
}

StackMark stack_mark(EvalRun *run) {
    return (StackMark){run->stack, run->stack_used};
}

void stack_release(EvalRun *run, StackMark mark) {
    while (run->stack != mark.block) {
        StackBlock *block = run->stack;
        /* One block is kept above the mark's, or a loop at a boundary would allocate each time. */
        if (block->below == mark.block && !mark.block) break;
        run->stack = block->below;
        free(block);
    }
    run->stack_used = run->stack == mark.block ? mark.used : 0;
}

void stack_destroy(EvalRun *run) {
    while (run->stack) {
        StackBlock *below = run->stack->below;
        free(run->stack);
        run->stack = below;
    }
}

Lanes *lanes_create(EvalRun *run, size_t count) {
    Lanes *lanes = stack_alloc(run, sizeof *lanes);
    lanes->v = stack_alloc(run, LANES * sizeof(double));
    lanes->e = stack_alloc(run, LANES * sizeof(double));
    lanes->tie = stack_alloc(run, LANES);
    memset(lanes->e, 0, count * sizeof(double));
    memset(lanes->tie, 0, count);
    lanes->certain = false;
    lanes->walks = NULL;
    lanes->factors = NULL;
    return lanes;
}

Frame *frame_create(EvalRun *run, size_t count) {
    Frame *frame = stack_alloc(run, sizeof *frame);
    size_t bytes = run->ev->node_count * sizeof(Lanes *);
    *frame = (Frame){.run = run, .count = count, .done = stack_alloc(run, bytes)};
    memset(frame->done, 0, bytes);
    return frame;
}

static void memo_clear(Memo *memo) {
    for (size_t i = 0; i < memo->capacity; i++) memo->entries[i].key = -1;
    memo->count = 0;
}

MemoEntry *memo_find(Memo *memo, int64_t key, bool *found) {
    uint64_t hash = (uint64_t)key * UINT64_C(0x9E3779B97F4A7C15);
    size_t mask = memo->capacity - 1, at = (size_t)(hash >> 20) & mask;
    /* NOLINTNEXTLINE(*UndefinedBinaryOperatorResult): memo_clear has set all keys */
    while (memo->entries[at].key >= 0 && memo->entries[at].key != key) at = (at + 1) & mask;
    *found = memo->entries[at].key == key;
    return &memo->entries[at];
}

void memo_make_room(Memo *memo, size_t extra) {
    if (memo->capacity && (memo->count + extra) * 2 <= memo->capacity) return;
    if (memo->capacity >= MEMO_LIMIT) {
        memo_clear(memo);
        return;
    }
    Memo grown = {.capacity = memo->capacity ? memo->capacity * 4 : MEMO_FIRST};
    grown.entries = eval_resize(NULL, grown.capacity * sizeof *grown.entries);
    memo_clear(&grown);
    for (size_t i = 0; i < memo->capacity; i++) {
        if (memo->entries[i].key < 0) continue;
        bool found;
        *memo_find(&grown, memo->entries[i].key, &found) = memo->entries[i];
        grown.count++;
    }
    free(memo->entries);
    *memo = grown;
}
