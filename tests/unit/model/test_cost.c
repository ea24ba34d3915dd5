/* The model's known points on the numbers of sm_90a: what binds, and that it ranks as measured. */
#include "banks.h"
#include "check.h"
#include "cost.h"

#include <math.h>

static CostMachine machine;

/* A copy of n bytes each way by blocks of `threads` threads with `vector` bytes a thread. */
static CostLaunch copy(double n, int64_t threads, double vector) {
    double blocks = ceil(n / ((double)threads * vector));
    return (CostLaunch){.blocks = blocks,
                        .threads = threads,
                        .registers = 24,
                        .read = n,
                        .written = n,
                        .l2 = 2 * n,
                        .instructions = n / vector / 32 * 20,
                        .bytes_in_flight = vector,
                        .waits = 1};
}

static double percent(const CostLaunch *l) {
    return 100 * cost_floor(&machine, l->read, l->written) / cost_estimate(&machine, l).seconds;
}

static void check_copy(void) {
    CostLaunch wide = copy(6.4e9, 256, 16), narrow = copy(6.4e9, 256, 4), tiny = copy(6.4e9, 32, 16);
    CostEstimate e = cost_estimate(&machine, &wide);
    CHECK(e.roof == COST_COPY && e.blocks_per_sm == 8 && percent(&wide) > 97);
    CHECK(percent(&narrow) < 90);           /* a quarter of the bytes in flight */
    CHECK(percent(&tiny) < percent(&wide)); /* 32 blocks of 32 threads: half the threads */
    CHECK(cost_estimate(&machine, &tiny).blocks_per_sm == 32);
    CHECK_STR(cost_estimate(&machine, &tiny).limit, "blocks");
}

static void check_limits(void) {
    CostLaunch l = copy(1e9, 1024, 16);
    l.registers = 128; /* 128 * 1024 are twice what there is */
    CHECK(isinf(cost_estimate(&machine, &l).seconds));
    l.registers = 64;
    CHECK(cost_estimate(&machine, &l).blocks_per_sm == 1);
    CHECK_STR(cost_estimate(&machine, &l).limit, "registers");
    l.registers = 32, l.shared_bytes = 120 * 1024;
    CHECK(cost_estimate(&machine, &l).blocks_per_sm == 1);
    CHECK_STR(cost_estimate(&machine, &l).limit, "shared memory");
    l = copy(0, 256, 16);
    CHECK(cost_estimate(&machine, &l).roof == COST_EMPTY && cost_estimate(&machine, &l).seconds == machine.launch);
    /* Of a launch without threads registers say nothing. */
    l = (CostLaunch){.blocks = 1, .registers = 64};
    CHECK(cost_estimate(&machine, &l).blocks_per_sm == machine.blocks_sm);
}

/* One block of 4 warps has one warp a scheduler, whose instructions wait for each other; four such blocks do not. */
static void check_few_warps(void) {
    CostLaunch l = {.blocks = 13200, .threads = 128, .registers = 255, .shared_bytes = 120 * 1024, .instructions = 1e9};
    double alone = cost_estimate(&machine, &l).roofs[COST_ISSUE];
    l.registers = 128, l.shared_bytes = 0;
    CHECK(cost_estimate(&machine, &l).blocks_per_sm == 4 && alone > 3.9 * cost_estimate(&machine, &l).roofs[COST_ISSUE]);
    l.blocks = 264; /* two a multiprocessor, whatever would fit */
    CHECK(cost_estimate(&machine, &l).roofs[COST_ISSUE] > 0.49 * alone);
}

/* 133 blocks on 132 multiprocessors, one each: the last one runs alone. */
static void check_waves(void) {
    CostLaunch l = {.blocks = 132, .threads = 1024, .registers = 64, .read = 132e7, .bytes_in_flight = 64, .waits = 2};
    double even = cost_estimate(&machine, &l).seconds;
    l.blocks = 133, l.read = 133e7;
    CHECK(cost_estimate(&machine, &l).seconds > 1.2 * even);
}

static void check_roofs(void) {
    CostLaunch l = copy(1e9, 256, 16);
    l.written = 0, l.l2 = 0;
    CHECK(cost_estimate(&machine, &l).roof == COST_READ);
    l.l2 = 2e10;
    CHECK(cost_estimate(&machine, &l).roof == COST_L2);
    l.shared = 1e12;
    CHECK(cost_estimate(&machine, &l).roof == COST_SHARED);
    l.instructions = 1e12;
    CHECK(cost_estimate(&machine, &l).roof == COST_ISSUE);
    l.products = 1e15;
    CHECK(cost_estimate(&machine, &l).roof == COST_PRODUCTS);
    CostMachine unknown = machine; /* no rate of tensor cores: another roof binds */
    unknown.products = 0;
    CHECK(cost_estimate(&unknown, &l).roof == COST_ISSUE);
    l = (CostLaunch){.blocks = 1, .threads = 256, .read = 1e5, .instructions = 1e6, .bytes_in_flight = 64, .waits = 1};
    CHECK(cost_estimate(&machine, &l).roof == COST_ISSUE); /* of the one multiprocessor that has a block */
    l = (CostLaunch){.blocks = 4, .threads = 64, .read = 4e7, .bytes_in_flight = 4, .waits = 1};
    CostEstimate e = cost_estimate(&machine, &l);
    CHECK(e.roof == COST_LATENCY); /* four small blocks cannot ask for enough at a time */
    Str text;
    str_init(&text);
    cost_explain(&e, cost_floor(&machine, l.read, l.written), &text);
    CHECK(strstr(text.data, "waiting for memory binds; 32 blocks a multiprocessor (limited by"));
    str_release(&text);
    CHECK(cost_floor(&machine, 1e9, 0) < cost_floor(&machine, 5e8, 5e8));
}

static unsigned passes_at(int64_t step, unsigned lanes) {
    int64_t words[32];
    for (unsigned i = 0; i < lanes; i++) words[i] = i * step;
    return bank_passes(words, lanes);
}

static void check_banks(void) {
    CHECK(bank_passes(NULL, 0) == 1);
    CHECK(passes_at(1, 32) == 1 && passes_at(33, 32) == 1);
    CHECK(passes_at(0, 32) == 1); /* one word for all */
    CHECK(passes_at(2, 32) == 2 && passes_at(4, 32) == 4 && passes_at(32, 32) == 32);
    CHECK(passes_at(4, 8) == 1); /* 16 bytes a lane, a quarter of a warp at a time */
}

int main(void) {
    Arena *arena = arena_create();
    DiagList diags;
    diag_list_init(&diags, arena, NULL);
    CHECK(cost_machine(target_find(arena, &diags, "sm_90a"), &machine));
    CHECK(!cost_machine(target_find(arena, &diags, "x86-64-v3"), &(CostMachine){0}));
    check_copy();
    check_banks();
    check_limits();
    check_few_warps();
    check_waves();
    check_roofs();
    arena_destroy(arena);
    return 0;
}
