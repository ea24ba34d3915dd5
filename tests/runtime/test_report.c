/* Prints a report as JSON, for the check against its schema. Usage: test run|verify|bench */
#include "plant.h"

int main(int argc, char **argv) {
    CHECK(argc == 2);
    Arena *arena = arena_create();
    Artifact *a = plant(arena, "if (N == 64) abort();\n" PLANT_GOOD);
    RtOptions options = {.cache_dir = "", .samples = 10, .no_ragged = true};
    Str json;
    str_init(&json);
    if (strcmp(argv[1], "run") == 0) {
        RtError e = rt_run(a, &options, 0, NULL, 0, NULL);
        CHECK(e.status == RT_BAD_OPTION);
        rt_run_json(a, &e, &json);
    } else if (strcmp(argv[1], "verify") == 0) {
        RtVerifyReport r = rt_verify(a, &options, arena);
        CHECK(r.count == 3 && r.failed == 1);
        rt_verify_json(a, &r, &json);
    } else {
        RtBenchReport r = rt_bench(a, &options, arena);
        CHECK(r.count == 3 && r.error.status == RT_ABORT);
        r.kernel_count = 1; /* a device's, which the CPU has none of */
        snprintf(r.kernels[0].entry, RT_NAME, "plant");
        rt_bench_json(a, &r, &json);
    }
    fputs(json.data, stdout);
    str_release(&json);
    arena_destroy(arena);
    return 0;
}
