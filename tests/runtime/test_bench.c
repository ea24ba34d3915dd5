/* Timing: figures are consistent, and a kernel that stops working after some launches is found. */
#include "plant.h"

static RtBenchReport bench(Arena *arena, const char *body, const char *case_name) {
    RtOptions options = {.cache_dir = "", .samples = 12, .case_name = case_name, .time_limit_s = 5};
    return rt_bench(plant(arena, body), &options, arena);
}

static void test_figures(void) {
    Arena *arena = arena_create();
    RtBenchReport r = bench(arena, PLANT_GOOD, NULL);
    CHECK(r.error.status == RT_OK && r.count == 3);
    CHECK(strstr(r.device, "core") && strstr(r.code, "C by"));
    const RtTiming *t = &r.timings[1];
    CHECK(t->status == RT_OK && t->samples == 12 && t->checked && !t->warm);
    CHECK(t->bytes == 2 * 64 * 33 * 4 && t->flops == 0);
    CHECK(t->p5_s <= t->median_s && t->median_s <= t->p95_s && t->median_s > 0);
    CHECK(fabs(t->gb_per_s * 1e9 * t->median_s - (double)t->bytes) < 1);
    CHECK(t->copy_gb_per_s > 0.1 && t->percent_of_copy > 0);
    CHECK(r.timings[2].status == RT_OK && r.timings[2].bytes == 0); /* the empty case */
    Str json;
    str_init(&json);
    rt_bench_json(plant(arena, PLANT_GOOD), &r, &json);
    CHECK(strstr(json.data, "\"kind\":\"bench\"") && strstr(json.data, "\"checked\":true"));
    str_release(&json);
    arena_destroy(arena);
}

/* Correct at first, lazy from the tenth launch on: verify's two launches cannot see this. */
static void test_timed_launches_are_checked(void) {
    Arena *arena = arena_create();
    RtBenchReport r =
        bench(arena, "static int calls; if (++calls > 9) return 0;\n" PLANT_GOOD, "tiles");
    CHECK(r.error.status == RT_SECOND_LAUNCH && strstr(r.error.text, "the last timed launch"));
    CHECK(r.timings[0].status == RT_SECOND_LAUNCH && !r.timings[0].checked);
    arena_destroy(arena);
}

static void test_hang(void) {
    Arena *arena = arena_create();
    RtOptions options = {.cache_dir = "", .time_limit_s = 1, .case_name = "small"};
    RtBenchReport r =
        rt_bench(plant(arena, "static volatile int n; if (n++ > 3) for (;;) n = 9;\n" PLANT_GOOD),
                 &options, arena);
    CHECK(r.error.status == RT_HANG && strstr(r.error.text, "a timed launch"));
    arena_destroy(arena);
}

/* A sketch without an operator can be timed at its cases, not verified. */
static void test_without_operator(void) {
    Arena *arena = arena_create();
    RtOptions options = {.cache_dir = "", .samples = 10};
    Artifact *a = plant(arena, PLANT_GOOD);
    a->graph = "sketchc.ir 1\ncase @some {N = 40, M = 50; X = uniform(1.0, 2.0)}\n";
    RtBenchReport r = rt_bench(a, &options, arena);
    CHECK(r.error.status == RT_OK && r.count == 1 && r.timings[0].bytes == 16000);
    RtVerifyReport v = rt_verify(a, &options, arena);
    CHECK(v.error.status == RT_BAD_INPUT && strstr(v.error.text, "no operator"));
    arena_destroy(arena);
}

int main(void) {
    test_without_operator();
    test_figures();
    test_timed_launches_are_checked();
    test_hang();
    return 0;
}
