/* Times that no machine can have are errors: of a kernel that works only when it is looked at, and by the figures of a description. */
#include "plant.h"
#include "possible.h"

/* Launches: the first, three to warm up, twelve timed ones, of which the first and the last are looked at. */
#define LAZY "static int calls; if (++calls > 5 && calls < 16) return 0;\n"

static RtTiming time_plant(Arena *arena, const char *body) {
    RtSymbol symbols[] = {{"N", 4096}, {"M", 4096}};
    RtOptions options = {.cache_dir = "", .samples = 12, .case_name = "tiles", .symbol_count = 2, .symbols = symbols};
    RtBenchReport r = rt_bench(plant(arena, body), &options, arena);
    CHECK(r.count == 1 && r.error.status == r.timings[0].status);
    return r.timings[0];
}

static void test_lazy_kernel(void) {
    Arena *arena = arena_create();
    RtTiming honest = time_plant(arena, PLANT_GOOD), lazy = time_plant(arena, LAZY PLANT_GOOD);
    CHECK(honest.status == RT_OK);
    CHECK(lazy.status == RT_IMPOSSIBLE_TIME && strstr(lazy.text, "bytes have to move") && strstr(lazy.text, "at most"));
    arena_destroy(arena);
}

/* ---- What has to be done ---- */

static NecessaryWork work_of(Arena *arena, const char *data, const char *body) {
    Artifact *a = plant(arena, PLANT_GOOD);
    RtOptions options = {.cache_dir = ""};
    TaskPlan plan;
    Binding b;
    a->graph = arena_printf(arena,
                            "sketchc.ir 1\ncase @square {N = 128, M = 128%s}\n"
                            "func @f graph (tensor %%X: tensor<[N, N] x f32> in, symbol %%N: index, symbol %%M: index) {\n%s"
                            "    return(%%Y) {names = [\"Y\"]}\n}\n",
                            data, body);
    RtError e = task_plan_create(&plan, arena, a, &options, false);
    CHECK(e.status == RT_OK);
    binding_init(&b, arena, a, 1, 1);
    CHECK(task_bind(&plan, &plan.tasks[0], &b).status == RT_OK);
    return possible_work(&plan, &plan.tasks[0], &b);
}

#define PRODUCT "    %%%s = graph.contract(%%%s, %%X) {batch_a = [], batch_b = [], sum_a = [1], sum_b = [0]} : tensor<[N, N] x f32>\n"

static void test_work(void) {
    Arena *arena = arena_create();
    double tensor = 4 * 128 * 128;
    NecessaryWork w = work_of(arena, "", "    %Y = add(%X, %X) : tensor<[N, N] x f32>\n");
    CHECK(w.written == tensor && w.read == tensor && w.products == 0);
    w = work_of(arena, "", arena_printf(arena, PRODUCT, "Y", "X"));
    CHECK(w.written == tensor && w.read == tensor && w.products == 128.0 * 128 * 128 && w.factor_bytes == 4);
    /* A triangle's zeros need not be read, products of products may be formed in another order, a choice may leave its operands out. */
    w = work_of(arena, "; X = tril(0.0, 1.0)", arena_printf(arena, PRODUCT, "Y", "X"));
    CHECK(w.written == tensor && w.read == 0 && w.products == 0);
    w = work_of(arena, "", arena_printf(arena, PRODUCT PRODUCT, "Z", "X", "Y", "Z"));
    CHECK(w.written == tensor && w.read == 0 && w.products == 0);
    w = work_of(arena, "", "    %c = lt(%X, %X) : tensor<[N, N] x bool>\n    %Y = select(%c, %X, %X) : tensor<[N, N] x f32>\n");
    CHECK(w.written == tensor && w.read == 0 && w.products == 0);
    arena_destroy(arena);
}

/* ---- What can be done ---- */

static void test_peaks(void) {
    Device d = {.num_sms = 132, .arch = "sm_90"};
    RtOptions described = {.peak_arch = "sm_90a", .peak_gb_per_s = 4000, .peak_products_sm = 3e12, .peak_cache_bytes = 6e7}, none = {0};
    RtCeilings measured = {.read_gb_per_s = 3000};
    Peaks p = possible_peaks(&d, &described, &measured, 5000, 2);
    CHECK(p.bytes == 5e12 && p.products == 132 * 3e12 && p.cache == 6e7);
    CHECK(possible_peaks(&d, &described, &measured, 0, 1).products == 2 * p.products);
    Peaks other = possible_peaks(&d, &none, &measured, 0, 2);
    CHECK(other.bytes == 3e12 && other.products == 0 && other.cache > p.cache);
    snprintf(d.arch, sizeof d.arch, "sm_100");
    CHECK(possible_peaks(&d, &described, &measured, 0, 2).products == 0);
}

static void test_margins(void) {
    Peaks p = {.bytes = 1e12, .products = 1e15, .cache = 1e8};
    NecessaryWork w = {.written = 2e8, .read = 4e8};
    CHECK(possible_check(&w, &p, false, 5e-4).status == RT_OK && possible_check(&w, &p, false, 4.1e-4).status == RT_OK);
    CHECK(possible_check(&w, &p, false, 3.9e-4).status == RT_IMPOSSIBLE_TIME); /* 5e8 bytes at 1.25e12 */
    w = (NecessaryWork){.written = 2e8};
    CHECK(possible_check(&w, &p, false, 9e-5).status == RT_OK && possible_check(&w, &p, false, 7e-5).status == RT_IMPOSSIBLE_TIME);
    w = (NecessaryWork){.written = 1e7, .read = 5e7};
    CHECK(possible_check(&w, &p, true, 1e-6).status == RT_OK && possible_check(&w, &p, false, 1e-6).status == RT_IMPOSSIBLE_TIME);
    w = (NecessaryWork){.products = 1e12, .factor_bytes = 2};
    RtError e = possible_check(&w, &p, false, 7e-4);
    CHECK(possible_check(&w, &p, false, 9e-4).status == RT_OK && e.status == RT_IMPOSSIBLE_TIME && strstr(e.text, "TFLOP/s"));
    CHECK(possible_check(&w, &(Peaks){0}, false, 1e-9).status == RT_OK); /* nothing is known of the machine */
}

int main(void) {
    test_lazy_kernel();
    test_work();
    test_peaks();
    test_margins();
    return 0;
}
