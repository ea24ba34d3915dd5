/* Timing: figures are consistent, and a kernel that stops working after some launches is found. */
#include "ceilings.h"
#include "plant.h"

#include <unistd.h>

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
    RtBenchReport r = bench(arena, "static int calls; if (++calls > 9) return 0;\n" PLANT_GOOD, "tiles");
    CHECK(r.error.status == RT_SECOND_LAUNCH && strstr(r.error.text, "the last timed launch"));
    CHECK(r.timings[0].status == RT_SECOND_LAUNCH && !r.timings[0].checked);
    arena_destroy(arena);
}

static void test_hang(void) {
    Arena *arena = arena_create();
    RtOptions options = {.cache_dir = "", .time_limit_s = 1, .case_name = "small"};
    RtBenchReport r = rt_bench(plant(arena, "static volatile int n; if (n++ > 3) for (;;) n = 9;\n" PLANT_GOOD), &options, arena);
    CHECK(r.error.status == RT_HANG && strstr(r.error.text, "a timed launch"));
    arena_destroy(arena);
}

/* The code finds no way to speak in the name of what judges it. */
static void test_no_channel_to_the_judge(void) {
    Arena *arena = arena_create();
    RtBenchReport r = bench(arena, PLANT_LOOKS_FOR_CHANNELS "if (channels > 1) return 1;\n" PLANT_GOOD, "tiles");
    CHECK_STR(r.error.text, "");
    CHECK(r.error.status == RT_OK && r.timings[0].checked);
    arena_destroy(arena);
}

/* A kernel that takes 5 ms and stops the clock of its process before. */
static void test_clock_that_is_not_believed(void) {
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
    Arena *arena = arena_create();
    RtBenchReport r = bench(
        arena,
        "static const unsigned char stopped[] = {0x48, 0xc7, 0x06, 0, 0, 0, 0, 0x48, 0xc7, 0x46, 0x08, 0, 0, 0, 0, 0x31, 0xc0, 0xc3};\n"
        "unsigned char *clock = dlsym(RTLD_DEFAULT, \"clock_gettime\");\n"
        "mprotect((void *)((uintptr_t)clock & ~(uintptr_t)4095), 8192, PROT_READ | PROT_WRITE | PROT_EXEC);\n"
        "memcpy(clock, stopped, sizeof stopped);\n"
        "usleep(5000);\n" PLANT_GOOD,
        "tiles");
    CHECK(r.error.status == RT_OK && strstr(r.timings[0].text, "the judging process's clock"));
    CHECK(r.timings[0].median_s > 5e-3 && r.timings[0].p5_s > 5e-3);
    arena_destroy(arena);
#endif
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

/* A program beside ours: its answers become the figures, and what it does wrong has a name. */
static void test_baseline(void) {
    Arena *arena = arena_create();
    char folder[] = "/tmp/sketchc-baseline-XXXXXX"; /* compiled once */
    CHECK(mkdtemp(folder) != NULL);
    RtOptions options = {.cache_dir = folder, .samples = 11, .case_name = "tiles", .time_limit_s = 5};
    options.baseline = "sh -c 'read x; case \"$x\" in *tiles*) echo ready;; esac; while read x; do "
                       "echo 0.25; done'";
    RtBenchReport r = rt_bench(plant(arena, PLANT_GOOD), &options, arena);
    CHECK(r.error.status == RT_OK);
    CHECK(fabs(r.timings[0].baseline_s - 0.25) < 1e-12 && r.timings[0].baseline_noise == 0);
    CHECK(fabs(r.timings[0].speedup * r.timings[0].median_s - 0.25) < 1e-9);
    static const struct {
        const char *command, *text;
        RtStatus status;
    } wrong[] = {
        {"sh -c 'echo no'", "the baseline answered 'no', not 'ready'", RT_BAD_INPUT},
        {"sh -c 'echo ready; read x; read x; echo fast'", "the baseline answered 'fast', not a number of seconds", RT_BAD_INPUT},
        {"sh -c 'echo ready'", "the baseline ended", RT_ABORT},
        {"no-such-program-anywhere", "cannot be started", RT_BAD_OPTION},
        {"sh -c 'echo", "closed quotes", RT_BAD_OPTION},
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        options.baseline = wrong[i].command;
        r = rt_bench(plant(arena, PLANT_GOOD), &options, arena);
        CHECK(r.error.status == wrong[i].status && strstr(r.error.text, wrong[i].text));
    }
    CHECK(rt_cache_clear(folder) == 1 && rmdir(folder) == 0);
    arena_destroy(arena);
}

/* Measured once: the second time it comes from the folder, until it is asked for anew. */
static void test_calibration(void) {
    Arena *arena = arena_create();
    char folder[] = "/tmp/sketchc-calibration-XXXXXX";
    CHECK(mkdtemp(folder) != NULL);
    RtOptions options = {.cache_dir = folder};
    RtCeilings first, second;
    RtError e = rt_calibrate(true, &options, &first);
    CHECK(e.status == RT_OK && first.copy_gb_per_s > 0 && first.read_gb_per_s > 0 && first.fill_gb_per_s > 0);
    Device d;
    CHECK(device_open_cpu(&d).status == RT_OK && ceilings_recall(&d, folder, &second));
    CHECK(memcmp(&first, &second, sizeof first) == 0);
    d.ops->close(&d);
    options.samples = 10, options.case_name = "tiles";
    RtBenchReport r = rt_bench(plant(arena, PLANT_GOOD), &options, arena);
    CHECK(r.error.status == RT_OK && r.timings[0].null_s == first.null_s && r.timings[0].percent_of_read > 0);
    Str json;
    str_init(&json);
    rt_ceilings_json(&first, &e, &json);
    CHECK(strstr(json.data, "\"kind\":\"calibration\",\"status\":\"ok\""));
    str_release(&json);
    CHECK(rt_cache_clear(folder) == 2 && rmdir(folder) == 0);
    arena_destroy(arena);
}

int main(void) {
    test_baseline();
    test_calibration();
    test_without_operator();
    test_figures();
    test_timed_launches_are_checked();
    test_hang();
    test_no_channel_to_the_judge();
    test_clock_that_is_not_believed();
    return 0;
}
