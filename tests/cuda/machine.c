/* Fibers, blocks, barriers and warps. */
#define _GNU_SOURCE
#include "machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STACK = 256 << 10, ZONE = 1024, ZONE_BYTE = 0xa5, PAGE = 4096 };

Machine machine;
EXPORT extern const Place *cpu_self;
const Place *cpu_self;

_Noreturn EXPORT void cpu_fault(const char *format, ...) {
    va_list args;
    char text[400];
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const Thread *t = (const Thread *)cpu_self;
    if (t)
        fprintf(stderr, "%s, block %u thread %u: %s\n", machine.launch.kernel->name, t->place.block.x, t->place.thread.x, text);
    else
        fprintf(stderr, "%s\n", text);
    abort();
}

Thread *thread_self(void) {
    return (Thread *)(uintptr_t)cpu_self;
}

/* splitmix64 */
uint64_t machine_draw(uint64_t below) {
    uint64_t z = machine.random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % below;
}

static void *allocate(size_t bytes) {
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p) cpu_fault("out of memory");
    return p;
}

/* ---- Fibers ---- */

static void *scheduler; /* its stack pointer, while a thread runs */

static void thread_main(void);

#if defined(__x86_64__)
void fiber_switch(void **from, void *to);
__asm__(".text\n.type fiber_switch,@function\nfiber_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
        ".size fiber_switch,.-fiber_switch\n");

/* As if thread_main had been called: six registers, then where to go on. */
static void *fiber_begin(char *stack) {
    void **top = (void **)(void *)(stack + STACK);
    top[-2] = (void *)(uintptr_t)thread_main;
    memset(top - 8, 0, 6 * sizeof *top);
    return top - 8;
}
#else
#include <ucontext.h>
static void fiber_switch(void **from, void *to) {
    ucontext_t here;
    *from = &here;
    swapcontext(&here, to);
}

static void *fiber_begin(char *stack) {
    ucontext_t *context = (ucontext_t *)(void *)stack;
    getcontext(context);
    context->uc_stack.ss_sp = stack + sizeof *context;
    context->uc_stack.ss_size = STACK - sizeof *context;
    makecontext(context, thread_main, 0);
    return context;
}
#endif

/* Below each a page that may not be touched. They are kept: making one costs more than what runs on it. */
static struct {
    char **stacks;
    size_t count, room;
} spare;

static char *take_stack(void) {
    if (spare.count) return spare.stacks[--spare.count];
    char *p = mmap(NULL, STACK + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED || mprotect(p, PAGE, PROT_NONE) != 0) cpu_fault("no memory for a stack");
    return p + PAGE;
}

static void keep_stack(char *stack) {
    if (spare.count == spare.room) {
        spare.room = spare.room * 2 + 64;
        spare.stacks = realloc(spare.stacks, spare.room * sizeof *spare.stacks);
        if (!spare.stacks) cpu_fault("out of memory");
    }
    spare.stacks[spare.count++] = stack;
}

static void make_ready(Thread *t) {
    t->state = NULL;
    machine.ready[machine.ready_count++] = t;
}

void thread_wait(Waiting *list, const char *what) {
    Thread *t = thread_self();
    t->state = what;
    t->next = list->first;
    list->first = t;
    list->count++;
    fiber_switch(&t->stack_pointer, scheduler);
}

void wake_all(Waiting *list) {
    Thread *t = list->first;
    *list = (Waiting){0};
    while (t) {
        Thread *next = t->next;
        make_ready(t);
        t = next;
    }
}

/* To the end of the row, in either order. */
EXPORT void cpu_yield(void) {
    Thread *t = thread_self();
    make_ready(t);
    /* Behind all others, which keep their order: two that wait like this do not change places for ever. */
    memmove(machine.ready + 1, machine.ready, (machine.ready_count - 1) * sizeof *machine.ready);
    machine.ready[0] = t;
    fiber_switch(&t->stack_pointer, scheduler);
}

static void thread_main(void) {
    Thread *t = thread_self();
    machine.launch.kernel->invoke(machine.launch.parameters);
    t->done = true;
    fiber_switch(&t->stack_pointer, scheduler);
    abort();
}

/* The launch before this one is over as late as it may be: when nobody can go on without it. */
EXPORT void cpu_wait_for_steps(void) {
    if (machine.launch.over) thread_wait(&machine.early, "launch before its own");
}

static bool end_before(void) {
    if (!machine.launch.over || !machine.early.count) return false;
    machine.launch.over();
    machine.launch.over = NULL;
    wake_all(&machine.early);
    return true;
}

/* ---- Blocks ---- */

static Cluster *live;

/* Shared memory is as far aligned as the kernel asks, and no further. */
unsigned shared_base(void) {
    return (unsigned)machine.launch.kernel->align;
}

static void start_thread(Block *b, int i) {
    const MachineLaunch *l = &machine.launch;
    Thread *t = &b->threads[i];
    *t = (Thread){.block = b, .warp = &b->warps[i / WARP], .lane = i % WARP, .stack = take_stack()};
    t->place = (Place){{(unsigned)i, 0, 0}, b->index, {l->threads, 1, 1}, {l->grid[0], l->grid[1], l->grid[2]}};
    t->warp->lanes |= (uint32_t)1 << t->lane;
    t->warp->block = b;
    t->stack_pointer = fiber_begin(t->stack);
    make_ready(t);
}

static void start_block(Cluster *c, int rank, uint64_t number) {
    const MachineLaunch *l = &machine.launch;
    Block *b = &c->blocks[rank];
    uintptr_t align = shared_base();
    b->cluster = c;
    b->rank = rank;
    b->alive = (int)l->threads;
    b->index.x = (unsigned)(number % l->grid[0]);
    b->index.y = (unsigned)(number / l->grid[0] % l->grid[1]);
    b->index.z = (unsigned)(number / l->grid[0] / l->grid[1]);
    b->threads = allocate(l->threads * sizeof *b->threads);
    b->warps = allocate((l->threads + WARP - 1) / WARP * sizeof *b->warps);
    b->memory = allocate(l->shared_bytes + 2 * ZONE + 3 * align);
    b->shared = (unsigned char *)(((uintptr_t)b->memory + ZONE + 2 * align - 1) / (2 * align) * (2 * align) + align);
    memset(b->shared - ZONE, ZONE_BYTE, ZONE);
    memset(b->shared + l->shared_bytes, ZONE_BYTE, ZONE);
    for (int i = 0; i < b->alive; i++) start_thread(b, i);
}

static void start_cluster(void) {
    const MachineLaunch *l = &machine.launch;
    uint64_t number = machine.order ? machine.order[machine.started] : machine.started;
    Cluster *c = allocate(sizeof *c);
    machine.started++;
    *c = (Cluster){.count = (int)l->cluster, .alive = (int)(l->cluster * l->threads), .next = live};
    live = c;
    c->blocks = allocate(l->cluster * sizeof *c->blocks);
    for (int i = 0; i < c->count; i++) start_block(c, i, number * l->cluster + (unsigned)i);
}

static void end_block(Block *b) {
    for (int i = 0; i < ZONE; i++)
        if (b->shared[-1 - i] != ZONE_BYTE || b->shared[machine.launch.shared_bytes + (unsigned)i] != ZONE_BYTE)
            cpu_fault("memory outside of the block's shared memory was written");
    mbars_end(b);
    for (unsigned i = 0; i < (machine.launch.threads + WARP - 1) / WARP; i++) products_end(&b->warps[i]);
    memset(b->shared, POISON, machine.launch.shared_bytes); /* others of its cluster may not look any more */
}

static void end_cluster(Cluster *c) {
    Cluster **at = &live;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    for (int i = 0; i < c->count; i++) {
        free(c->blocks[i].threads);
        free(c->blocks[i].warps);
        free(c->blocks[i].memory);
    }
    free(c->blocks);
    free(c);
    if (machine.started < machine.clusters) start_cluster();
}

static void end_thread(Thread *t) {
    Block *b = t->block;
    Cluster *c = b->cluster;
    copies_end(t);
    if (machine.launch.over) {
        cpu_self = &t->place;
        cpu_fault("ended without waiting for the launch before its own");
    }
    keep_stack(t->stack);
    if (--b->alive == 0) end_block(b);
    if (--c->alive == 0) end_cluster(c);
}

/* ---- The order ---- */

static Thread *take_next(void) {
    size_t window = machine.window < machine.ready_count ? machine.window : machine.ready_count;
    size_t i = machine.ready_count - 1 - (size_t)machine_draw(window);
    Thread *t = machine.ready[i];
    machine.ready[i] = machine.ready[--machine.ready_count];
    return t;
}

/* What others of its cluster wrote before a block began is lost. */
static void begin_block(Block *b) {
    b->begun = true;
    memset(b->shared, POISON, machine.launch.shared_bytes);
}

static void run_thread(Thread *t) {
    if (!t->block->begun) begin_block(t->block);
    cpu_self = &t->place;
    fiber_switch(&scheduler, t->stack_pointer);
    if (t->done) end_thread(t);
}

static uint64_t *drawn_order(uint64_t count) {
    uint64_t *order = allocate(count * sizeof *order);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t j = machine_draw(i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    return order;
}

static void grow_ready(size_t threads) {
    static size_t room;
    if (threads <= room) return;
    room = threads;
    machine.ready = realloc(machine.ready, room * sizeof *machine.ready);
    if (!machine.ready) cpu_fault("out of memory");
}

static _Noreturn void report_waiting(void) {
    for (int b = 0; b < live->count; b++)
        for (unsigned i = 0; i < machine.launch.threads; i++) {
            Thread *t = &live->blocks[b].threads[i];
            if (t->done || !t->state) continue;
            cpu_self = &t->place;
            cpu_fault("waits at a %s for ever", t->state);
        }
    cpu_fault("a cluster neither runs nor waits");
}

/* Clusters live several at once, so that those that wait for one that began before find it running. */
void machine_run(const MachineLaunch *launch) {
    enum { LIVE = 2 };
    /* Threads of one warp are near each other in memory, those of all a block are not. */
    static const size_t windows[] = {1, WARP, WARP, WARP, SIZE_MAX};
    machine.launch = *launch;
    machine.clusters = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2] / launch->cluster;
    machine.started = 0;
    machine.window = windows[machine_draw(sizeof windows / sizeof *windows)];
    uint64_t together = launch->cooperative ? machine.clusters : 1 + machine_draw(LIVE);
    if (together > machine.clusters) together = machine.clusters;
    machine.order = drawn_order(machine.clusters);
    grow_ready((size_t)together * launch->cluster * launch->threads);
    for (uint64_t i = 0; i < together; i++) start_cluster();
    while (machine.ready_count || copy_engine_step() || end_before()) {
        if (machine.in_flight && machine_draw(64) == 0) copy_engine_step();
        if (machine.ready_count) run_thread(take_next());
    }
    if (live) report_waiting();
    cpu_self = NULL;
    free(machine.order);
    machine.order = NULL;
}

/* ---- Barriers and warps ---- */

/* What a block of so many threads meets at; 0: all of the block. */
static void meet(int id, int threads, bool stay) {
    Block *b = thread_self()->block;
    int expected = threads ? threads : (int)machine.launch.threads;
    if (id < 0 || id >= BARRIERS || expected % WARP) cpu_fault("barrier %d of %d threads", id, expected);
    if (b->barriers[id].arrived && b->barriers[id].expected != expected)
        cpu_fault("barrier %d is met by %d and by %d threads", id, b->barriers[id].expected, expected);
    b->barriers[id].expected = expected;
    if (++b->barriers[id].arrived == expected) {
        b->barriers[id].arrived = 0;
        wake_all(&b->barriers[id].waiting);
    } else if (stay) {
        thread_wait(&b->barriers[id].waiting, "barrier of its block");
    }
}

EXPORT void cpu_sync_block(int barrier, int threads) {
    meet(barrier, threads, true);
}

EXPORT void cpu_arrive_block(int barrier, int threads) {
    meet(barrier, threads, false);
}

bool warp_meet(const char *what, uint32_t mask, const void *arguments) {
    Thread *t = thread_self();
    Warp *w = t->warp;
    uint32_t bit = (uint32_t)1 << t->lane;
    if (!(mask & bit)) cpu_fault("%s: lane %d is not in its mask %08x", what, t->lane, mask);
    if (mask & ~w->lanes) cpu_fault("%s: mask %08x names lanes that the block does not have", what, mask);
    if (w->arrived && (strcmp(w->what, what) != 0 || w->mask != mask))
        cpu_fault("lanes of a warp are at %s with mask %08x and at %s with mask %08x", w->what, w->mask, what, mask);
    w->what = what;
    w->mask = mask;
    w->arguments[t->lane] = arguments;
    w->arrived |= bit;
    if (w->arrived == mask) return true;
    thread_wait(&w->waiting, what);
    return false;
}

void warp_go_on(Warp *w) {
    w->arrived = 0;
    wake_all(&w->waiting);
}

EXPORT void cpu_sync_warp(unsigned mask) {
    if (warp_meet("__syncwarp", mask, NULL)) warp_go_on(thread_self()->warp);
}

typedef struct {
    uint64_t given, got;
    int source;
} Exchange;

/* An exchange's own lane may be its partner; one outside of the mask gives poison. */
EXPORT uint64_t cpu_shuffle(unsigned mask, uint64_t x, int source) {
    Exchange e = {.given = x, .source = source};
    if (!warp_meet("shuffle", mask, &e)) return e.got;
    Warp *w = thread_self()->warp;
    for (int i = 0; i < WARP; i++) {
        if (!(mask >> i & 1)) continue;
        Exchange *mine = (Exchange *)(uintptr_t)w->arguments[i];
        if (mine->source < 0 || mine->source >= WARP) cpu_fault("a shuffle from lane %d", mine->source);
        const Exchange *theirs = w->arguments[mine->source];
        mine->got = mask >> mine->source & 1 ? theirs->given : ~(uint64_t)0;
    }
    warp_go_on(w);
    return e.got;
}

EXPORT unsigned cpu_ballot(unsigned mask, int predicate) {
    Exchange e = {.given = predicate != 0};
    if (!warp_meet("vote", mask, &e)) return (unsigned)e.got;
    Warp *w = thread_self()->warp;
    uint64_t all = 0;
    for (int i = 0; i < WARP; i++)
        if (mask >> i & 1) all |= ((const Exchange *)w->arguments[i])->given << i;
    for (int i = 0; i < WARP; i++)
        if (mask >> i & 1) ((Exchange *)(uintptr_t)w->arguments[i])->got = all;
    warp_go_on(w);
    return (unsigned)all;
}

/* -1, 0 or 1, of one number the same in every run, as of a machine. */
static int way_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (int)((bits * 2654435761u >> 16) % 3) - 1;
}

static float one_off(float y, float x) {
    int way = way_of(x);
    return way == 0 || isinf(y) || y == 0 ? y : nextafterf(y, way == 1 ? INFINITY : -INFINITY);
}

/* rcp.approx may be one unit of the last place away. */
EXPORT float cpu_reciprocal(float x) {
    return one_off(1 / x, x);
}

/* lg2.approx is 2^-22 away at most, near 1 not in relation to the result. */
EXPORT float cpu_binary_logarithm(float x) {
    float y = log2f(fabsf(x) < 0x1p-126f ? 0 : x), off = 0x1p-22f * fmaxf(1, fabsf(y));
    return isfinite(y) ? y + (float)way_of(x) * off : y;
}

/* ex2.approx.ftz: within 2^-22, the same for the same argument; what is denormal is 0. */
EXPORT float cpu_power_of_two(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    double off = ((double)(bits * UINT32_C(0x9e3779b1) % 3) - 1) * 0x1p-22, y = exp2((double)x) * (1 + off);
    return y < 0x1p-126 ? 0 : (float)y;
}

/* ---- Shared memory and clusters ---- */

EXPORT unsigned char *cpu_shared(void) {
    return thread_self()->block->shared;
}

EXPORT unsigned cpu_shared_address(const void *p) {
    const Block *b = thread_self()->block;
    uintptr_t offset = (uintptr_t)p - (uintptr_t)b->shared;
    if (offset > machine.launch.shared_bytes) cpu_fault("an address that is not in the block's shared memory");
    return (unsigned)offset + shared_base();
}

unsigned char *shared_at(const Block *b, unsigned address, unsigned bytes, const char *what) {
    if (address < shared_base() || address - shared_base() + bytes > machine.launch.shared_bytes)
        cpu_fault("%s: bytes %u to %u of %u of shared memory", what, address - shared_base(), address - shared_base() + bytes,
                  machine.launch.shared_bytes);
    return b->shared + (address - shared_base());
}

EXPORT int cpu_cluster_rank(void) {
    return thread_self()->block->rank;
}

EXPORT int cpu_cluster_number(void) {
    return (int)(thread_self()->place.block.x / machine.launch.cluster);
}

EXPORT void *cpu_mapa(const void *own, int rank) {
    const Block *b = thread_self()->block;
    if (rank < 0 || rank >= b->cluster->count) cpu_fault("block %d of a cluster of %d", rank, b->cluster->count);
    unsigned at = cpu_shared_address(own) - shared_base();
    return b->cluster->blocks[rank].shared + at;
}

EXPORT void cpu_cluster_arrive(void) {
    Thread *t = thread_self();
    Cluster *c = t->block->cluster;
    t->cluster_phase = c->phase;
    if (++c->arrived < (int)(machine.launch.cluster * machine.launch.threads)) return;
    c->arrived = 0;
    c->phase++;
    wake_all(&c->waiting);
}

EXPORT void cpu_cluster_wait(void) {
    Thread *t = thread_self();
    Cluster *c = t->block->cluster;
    if (c->phase == t->cluster_phase) thread_wait(&c->waiting, "barrier of its cluster");
}
