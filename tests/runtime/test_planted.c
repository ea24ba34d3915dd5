/* The verifier says no: each planted fault is rejected, by the status that names it. */
#include "book.h"
#include "plant.h"

#include <stdlib.h>
#include <unistd.h>

static const struct {
    const char *name, *body;
    RtStatus status;
    const char *check;
} plants[] = {
    {"correct", PLANT_GOOD, RT_OK, ""},
    {"zeros", "memset(Y, 0, (size_t)(N * M) * 4); return 0;", RT_MISMATCH, "bound"},
    {"last tile skipped", "for (int64_t i = 0; i < N * M / 16 * 16; i++) Y[i] = X[i] + X[i]; return 0;", RT_NOT_WRITTEN, "unwritten"},
    {"moved element",
     "for (int64_t i = 0; i < N * M; i++) Y[i] = X[i] + X[i];"
     "if (N * M > 9) { float t = Y[8]; Y[8] = Y[9]; Y[9] = t; } return 0;",
     RT_MISMATCH, "bound"},
    {"swapped rows",
     "for (int64_t n = 0; n < N; n++) for (int64_t m = 0; m < M; m++) {"
     " int64_t s = n == 0 && N > 1 ? 1 : n == 1 ? 0 : n; Y[n * M + m] = 2 * X[s * M + m]; } return "
     "0;",
     RT_MISMATCH, "bound"},
    {"low precision",
     "for (int64_t i = 0; i < N * M; i++) { float s = X[i] + X[i]; uint32_t u; memcpy(&u, &s, 4); "
     "u &= 0xffffff00u;"
     " memcpy(&Y[i], &u, 4); } return 0;",
     RT_MISMATCH, "bound"},
    {"input modified",
     "for (int64_t i = 0; i < N * M; i++) { Y[i] = X[i] + X[i]; } if (N * M) X[N * M - 1] += 1; "
     "return 0;",
     RT_INPUT_MODIFIED, "input_modified"},
    {"write past the end", "for (int64_t i = 0; i < N * M + 1; i++) Y[i] = i < N * M ? X[i] + X[i] : 1; return 0;", RT_OUT_OF_BOUNDS,
     "guard"},
    {"write before the start", "for (int64_t i = -2; i < N * M; i++) Y[i] = i >= 0 ? X[i] + X[i] : 1; return 0;", RT_OUT_OF_BOUNDS,
     "guard"},
    {"write 10 KiB past the end", "for (int64_t i = 0; i < N * M; i++) Y[i] = X[i] + X[i]; Y[N * M + 2560] = 1; return 0;",
     RT_OUT_OF_BOUNDS, "guard"},
    {"write 10 KiB before the start", "for (int64_t i = 0; i < N * M; i++) Y[i] = X[i] + X[i]; Y[-2560] = 1; return 0;", RT_OUT_OF_BOUNDS,
     "guard"},
    {"read one element past the end",
     "volatile float next = X[N * M]; for (int64_t i = 0; i < N * M; i++) Y[i] = X[i] + X[i]; return next == 12345;", RT_OUT_OF_BOUNDS,
     "guard"},
    {"read one element before the start",
     "volatile float last = X[-1]; for (int64_t i = 0; i < N * M; i++) Y[i] = X[i] + X[i]; return last == 12345;", RT_OUT_OF_BOUNDS,
     "guard"},
    {"takes the key for a result", /* no variable of that name, nor its value in what the system shows of the process */
     "static char all[1 << 20]; FILE *f = fopen(\"/proc/self/environ\", \"rb\"); size_t n = f ? fread(all, 1, sizeof all - 1, f) : 0; "
     "for (size_t i = 0; i + 1 < n; i++) if (!all[i]) all[i] = 32;"
     "int found = getenv(\"SKETCHC_API_KEY\") || getenv(\"UNKNOWN_SECRET\") || strstr(all, \"hunter2\") || !getenv(\"PATH\");"
     "for (int64_t i = 0; i < N * M; i++) Y[i] = found ? 1 : X[i] + X[i]; return 0;",
     RT_OK, ""},
    {"looks for a channel to the judge",
     PLANT_LOOKS_FOR_CHANNELS "for (int64_t i = 0; i < N * M; i++) Y[i] = channels > 1 ? 1 : X[i] + X[i]; return 0;", RT_OK, ""},
    {"looks for what a search has evaluated", /* the memory is not its process's */
     "static char all[1 << 20]; FILE *f = fopen(\"/proc/self/maps\", \"rb\"); size_t n = f ? fread(all, 1, sizeof all - 1, f) : 0; "
     "int found = !n || strstr(all, \"sketchc-book\"); for (int64_t i = 0; i < N * M; i++) Y[i] = found ? 1 : X[i] + X[i]; return 0;",
     RT_OK, ""},
    {"answers in its process's name", /* that all went well, to every request to come */
     "static char well[1 << 16]; for (int fd = 3; fd < 1024; fd++) send(fd, well, sizeof well, MSG_DONTWAIT | MSG_NOSIGNAL); return 0;",
     RT_FAULT, NULL},
    {"skipped from the second launch on",
     "static int calls; if (calls++) return 0; for (int64_t i = 0; i < N * M; i++) Y[i] = X[i] + "
     "X[i]; return 0;",
     RT_SECOND_LAUNCH, "second_launch"},
    {"hang", "for (volatile int64_t i = 0;; i++) Y[0] = 1; return (int)M;", RT_HANG, "timeout"},
    {"invalid access", "*(volatile int *)(uintptr_t)(8 + N - N) = (int)M; return 0;", RT_FAULT, "fault"},
    {"illegal instruction", "__builtin_trap(); return 0;", RT_FAULT, "fault"},
    {"abort", "abort(); return 0;", RT_ABORT, "fault"},
    {"exit", "exit(0); return 0;", RT_ABORT, "fault"},
    {"refused", "return 1;", RT_LAUNCH_FAILED, ""},
};

static void test_plant(size_t i) {
    Arena *arena = arena_create();
    RtOptions options = {.cache_dir = "", .seed = 7, .time_limit_s = 2, .no_ragged = true};
    RtVerifyReport report = rt_verify(plant(arena, plants[i].body), &options, arena);
    printf("%-36s %-15s %s\n", plants[i].name, rt_status_name(report.error.status), report.error.text);
    if (!plants[i].check) {                                        /* any verdict but a good one */
        CHECK(report.error.status != RT_OK && report.passed <= 1); /* one of no elements */
        arena_destroy(arena);
        return;
    }
    CHECK(report.error.status == plants[i].status);
    CHECK(report.count == 3);
    bool named = plants[i].status == RT_OK;
    for (size_t k = 0; k < report.count; k++)
        named = named || (report.verdicts[k].status == plants[i].status && strcmp(report.verdicts[k].check, plants[i].check) == 0);
    CHECK(named);
    if (plants[i].status == RT_OK) {
        CHECK(report.passed == 3 && report.failed == 0);
        CHECK(report.verdicts[0].compared == 35 && report.verdicts[0].elements == 35 && !report.verdicts[0].sampled);
        CHECK(report.verdicts[0].worst_ratio <= 1);
    }
    arena_destroy(arena);
}

/* After a crash the remaining cases get a worker of their own. */
static void test_crash_is_confined(void) {
    Arena *arena = arena_create();
    RtOptions options = {.cache_dir = "", .no_ragged = true};
    Artifact *a = plant(arena, "if (N == 64) abort(); for (int64_t i = 0; i < N * M; i++) Y[i] = X[i] + X[i]; return 0;");
    RtVerifyReport report = rt_verify(a, &options, arena);
    CHECK(report.count == 3 && report.passed == 2 && report.failed == 1);
    CHECK(report.verdicts[0].status == RT_OK && report.verdicts[1].status == RT_ABORT && report.verdicts[2].status == RT_OK);
    arena_destroy(arena);
}

static void test_ragged_sizes(void) {
    Arena *arena = arena_create();
    RtOptions options = {.cache_dir = ""};
    Artifact *a = plant(arena, PLANT_GOOD);
    ArtifactConstexpr tile = {"TILE", "16"};
    a->constexprs = &tile;
    a->constexpr_count = 1;
    RtVerifyReport report = rt_verify(a, &options, arena);
    CHECK(report.error.status == RT_OK && report.passed > 8);
    /* A fault at sizes just above the tile, which no declared case has. */
    a = plant(arena, "for (int64_t i = 0; i < N * M; i++) Y[i] = M == 17 ? 0 : X[i] + X[i]; return 0;");
    a->constexprs = &tile;
    a->constexpr_count = 1;
    report = rt_verify(a, &options, arena);
    CHECK(report.error.status == RT_MISMATCH);
    arena_destroy(arena);
}

static void test_size_limit(void) {
    Arena *arena = arena_create();
    RtOptions options = {.cache_dir = "", .no_ragged = true, .max_bytes = 1000};
    RtVerifyReport report = rt_verify(plant(arena, PLANT_GOOD), &options, arena);
    CHECK(report.error.status == RT_OK && report.skipped == 1 && report.passed == 2);
    CHECK(report.verdicts[1].status == RT_SKIPPED && strstr(report.verdicts[1].text, "--max-bytes"));
    options.case_name = "tiles"; /* asked for by name: run all the same */
    report = rt_verify(plant(arena, PLANT_GOOD), &options, arena);
    CHECK(report.error.status == RT_OK && report.passed == 1 && report.count == 1);
    options.case_name = "nothing";
    report = rt_verify(plant(arena, PLANT_GOOD), &options, arena);
    CHECK(report.error.status == RT_BAD_OPTION);
    arena_destroy(arena);
}

static void test_broken_source(void) {
    Arena *arena = arena_create();
    RtOptions options = {.cache_dir = ""};
    RtVerifyReport report = rt_verify(plant(arena, "return nonsense;"), &options, arena);
    CHECK(report.error.status == RT_BUILD_FAILED && strstr(report.error.text, "nonsense"));
    arena_destroy(arena);
}

/* Built code comes back from the cache; a damaged entry is built anew, never loaded. */
static void test_cached_code(void) {
    char dir[] = "/tmp/sketchc-code-XXXXXX", path[1200];
    Arena *arena = arena_create();
    CHECK(mkdtemp(dir));
    RtOptions options = {.cache_dir = dir, .no_ragged = true};
    RtCacheInfo info;
    for (int round = 0; round < 3; round++) {
        RtVerifyReport report = rt_verify(plant(arena, PLANT_GOOD), &options, arena);
        CHECK(report.error.status == RT_OK && report.passed == 3);
        CHECK(rt_cache_info(dir, &info) && info.entries == 1);
        if (round != 1) continue;
        snprintf(path, sizeof path, "truncate -s 1000 %s/*.so", dir);
        CHECK(system(path) == 0);
        CHECK(rt_cache_info(dir, &info) && info.bytes == 1000);
    }
    CHECK(info.bytes > 1000);
    CHECK(rt_cache_clear(dir) == 1 && rmdir(dir) == 0);
    arena_destroy(arena);
}

int main(int argc, char **argv) {
    (void)argc;
    /* One in the block that the system made, as the caller has it, and one that the program added. */
    if (!getenv("UNKNOWN_SECRET")) {
        setenv("UNKNOWN_SECRET", "hunter2-of-another", 1);
        setenv("SKETCHC_API_KEY", "hunter2", 1);
        execv("/proc/self/exe", argv);
        CHECK(false);
    }
    setenv("SKETCHC_API_KEY", "hunter2-set-later", 1);
    test_cached_code();
    setvbuf(stdout, NULL, _IOLBF, 0);
    CHECK(book_create() >= 0);
    for (size_t i = 0; i < COUNT_OF(plants); i++) test_plant(i);
    test_crash_is_confined();
    test_ragged_sizes();
    test_size_limit();
    test_broken_source();
    return 0;
}
