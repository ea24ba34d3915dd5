/* A writer of the store for store.py: puts results one after the other and says each that was
 * acknowledged.
 *
 *     test_store FILE write WRITER COUNT    writes; prints "WRITER N" behind each
 *     test_store FILE sample                searches for report.py: three operators, one with names like HTML,
 * one of which nothing runs
 *     test_store FILE tuple DEFINITION SKETCH ARTIFACT    one verified result of these files, for dataset.py
 *     test_store FILE check                 reads "WRITER N" lines and looks each up; status 1 when
 * one is lost */
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static StoreKey key_of(char *sketch, size_t size, int writer, int n) {
    snprintf(sketch, size, "sketch s%d_%d { }", writer, n);
    return (StoreKey){
        .definition = "operator o { }", .sketch = sketch, .target = "openmp", .device = "here", .case_name = "large", .environment = "{}"};
}

static int write_all(Store *store, int writer, int count) {
    char sketch[64], line[64];
    for (int n = 0; n < count; n++) {
        StoreKey key = key_of(sketch, sizeof sketch, writer, n);
        StoreResult r = {.status = "ok", .complete = n % 2, .seconds = 1e-3 * (n + 1), .noise = 0.1};
        if (!store_put(store, &key, &r, "test", n ? "sketch s { }" : NULL)) return 1;
        int size = snprintf(line, sizeof line, "%d %d\n", writer, n);
        if (write(STDOUT_FILENO, line, (size_t)size) != size) return 1;
    }
    return 0;
}

static int check(Store *store) {
    int writer, n, lost = 0, count = 0;
    char sketch[64];
    while (scanf("%d %d", &writer, &n) == 2) {
        StoreKey key = key_of(sketch, sizeof sketch, writer, n);
        StoreResult r = {0};
        bool right = store_find(store, &key, &r) && strcmp(r.status, "ok") == 0 && r.complete == n % 2 && r.seconds == 1e-3 * (n + 1);
        lost += !right;
        count++;
    }
    printf("%d results, %d lost, integrity %d\n", count, lost, store_check(store));
    return lost || store_check(store) ? 1 : 0;
}

/* ---- Searches ---- */

typedef struct {
    const char *name, *sizes;
    double naive, flops, roof; /* roof: bytes a second; 0: not known */
    bool ends;
} Sample;

static const char hostile[] = "\"><img src=x onerror='document.title=1'><script>document.title=2</script>&amp;";

static StoreResult result_of(const Sample *s, unsigned random, double seconds) {
    StoreResult r = {.status = "ok", .bytes = 64e6, .flops = s->flops, .roof_bytes = s->roof, .samples = 7, .noise = 0.02};
    static const char *const failures[] = {"hang", "mismatch", "shape and type", "capacity"};
    r.seconds = seconds;
    if (s->roof > 0) r.percent_of_roof = 100 * r.bytes / s->roof / seconds;
    if (random % 5 == 0 || s->naive <= 0) {
        r.seconds = r.percent_of_roof = 0;
        snprintf(r.status, sizeof r.status, "%s", failures[random / 5 % COUNT_OF(failures)]);
    }
    return r;
}

static bool put_sample(Store *store, const Sample *s, unsigned random) {
    enum { COUNT = 40, DESIGNS = 8 };
    static const char *const sources[] = {"naive", "rows", "columns", "tune", "unroll", "interchange", "qwen3-coder"};
    char definition[512], sketches[COUNT][64];
    snprintf(definition, sizeof definition, "operator %s {\n}\n", s->name);
    StoreKey key = {.definition = definition,
                    .target = "openmp",
                    .arch = "x86-64-v3",
                    .case_name = "large",
                    .device = s->ends ? "AMD EPYC, 2 cores" : hostile,
                    .environment = "{\"sketchc\": \"0.1.0\"}"};
    bool ok = store_put_case(store, definition, "large", s->sizes);
    int64_t run = store_run_begin(store, &key, "islands", 3);
    double best = s->naive;
    int from = 0, winner = -1;
    for (int i = 0; ok && i < COUNT; i++) {
        random = random * 1103515245u + 12345u;
        unsigned draw = random >> 16;
        snprintf(sketches[i], sizeof sketches[i], "sketch s%d implements o {\n    # \"<b>\"\n}\n", i);
        key.sketch = sketches[i];
        double seconds = i ? best * (0.86 + 0.005 * (draw % 90)) : s->naive;
        StoreResult r = result_of(s, i ? draw : 1, seconds);
        const char *source = i == 0 ? "naive" : i == 4 ? hostile : sources[1 + draw % (COUNT_OF(sources) - 1)];
        StoreTrial trial = {.source = source, .at = 0.7 * (i + 1), .known = i % 7 == 3};
        int parent = i < DESIGNS ? -1 : draw % 3 ? from : (int)(draw % (unsigned)i);
        if (r.seconds > 0 && (winner < 0 || r.seconds < best)) {
            best = r.seconds;
            from = winner = i;
        }
        ok = store_put(store, &key, &r, source, parent < 0 ? NULL : sketches[parent]) && store_put_trial(store, run, &key, &r, &trial);
    }
    /* Three first answers, one of them right, one mended at once; and one that nobody gave. */
    StoreCall call = {.proposer = "qwen3-coder",
                      .status = "proposed",
                      .tokens_in = 4100,
                      .tokens_out = 600,
                      .tokens_cached = 3500,
                      .cost = s->roof > 0 ? 0.002 : -1,
                      .seconds = 3,
                      .task = "first",
                      .definition = definition,
                      .target = "openmp"};
    for (int i = 0; ok && s->ends && i < 3; i++) {
        call.verified = i == 0;
        call.outcome = i == 0 ? "ok" : "syntax";
        call.chain = 0;
        int64_t chain = store_put_call(store, run, &call);
        ok = chain > 0;
        if (i != 1 || !ok) continue;
        for (unsigned round = 1; ok && round < 3; round++) {
            StoreCall repair = call;
            repair.task = "repair";
            repair.chain = chain;
            repair.round = round;
            repair.verified = true;
            ok = store_put_call(store, run, &repair) > chain;
        }
    }
    StoreCall failed = call;
    failed.status = "failed";
    if (ok && s->ends) ok = store_put_call(store, run, &failed) > 0;
    /* A second, smaller case, at which the winner is half as fast as naive. */
    StoreKey small = key;
    small.case_name = "small";
    StoreResult times[] = {{.seconds = 1e-4, .percent_of_roof = 5, .samples = 5, .noise = 0.1}, {.seconds = 2e-4, .samples = 5}};
    ok = ok && store_put_case(store, definition, "small", "M=1");
    small.sketch = sketches[0];
    if (ok && winner > 0) ok = store_put_measurement(store, &small, &times[0]);
    small.sketch = winner < 0 ? "" : sketches[winner];
    if (ok && winner > 0) ok = store_put_measurement(store, &small, &times[1]);
    key.sketch = winner < 0 ? NULL : sketches[winner];
    StoreRunEnd end = {
        .tried = COUNT + 5, .repeated = 5, .elapsed = 31, .naive_seconds = s->naive, .best_seconds = best, .complete = winner >= 0};
    return ok && (!s->ends || store_run_end(store, run, &key, &end));
}

static int write_samples(Store *store) {
    const Sample samples[] = {{"softmax_rows", "M=1024, N=4096", 9e-3, 2e7, 2.2e10, true},
                              {"product", "M=512, N=512, K=512", 6e-2, 2.7e8, 2.2e10, true},
                              {hostile, hostile, 4e-4, 0, 0, false},
                              {"nothing_runs", "N=8", 0, 0, 0, true}};
    for (size_t i = 0; i < COUNT_OF(samples); i++)
        if (!put_sample(store, &samples[i], 77 + (unsigned)i)) return 1;
    return 0;
}

static int write_tuple(Store *store, char **paths) {
    Str texts[3];
    bool ok = true;
    for (int i = 0; i < 3; i++) {
        str_init(&texts[i]);
        ok = ok && file_read(paths[i], 1 << 24, &texts[i]);
    }
    StoreKey key = {.definition = texts[0].data,
                    .sketch = texts[1].data,
                    .target = "openmp",
                    .arch = "x86-64-v3",
                    .device = "here",
                    .environment = "{}",
                    .case_name = "large"};
    StoreResult r = {.status = "ok", .complete = true, .seconds = 0.25, .noise = 0.5, .samples = 7};
    ok = ok && store_put(store, &key, &r, "rows", NULL) && store_put_artifact(store, &key, texts[2].data, texts[2].len);
    for (int i = 0; i < 3; i++) str_release(&texts[i]);
    return !ok;
}

int main(int argc, char **argv) {
    char *message = NULL;
    Store *store = argc > 2 ? store_open(argv[1], &message) : NULL;
    if (!store) {
        fprintf(stderr, "test_store: %s\n", message ? message : "usage");
        free(message);
        return 2;
    }
    int status = strcmp(argv[2], "sample") == 0               ? write_samples(store)
                 : strcmp(argv[2], "tuple") == 0 && argc == 6 ? write_tuple(store, argv + 3)
                 : strcmp(argv[2], "write") == 0 && argc == 5
                     ? write_all(store, (int)strtol(argv[3], NULL, 10), (int)strtol(argv[4], NULL, 10))
                     : check(store);
    store_close(store);
    return status;
}
