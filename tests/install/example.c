/* A program that knows the installed files only: compiles a sketch from memory for the CPU, shows the
 * diagnostics of a wrong one, does both in several threads at once, and launches the kernel on tensors of two sizes. */
#include <pthread.h>
#include <sketchc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char good[] = "sketch twice {\n"
                           "    symbols: N;\n"
                           "    tensors: X[N]: f32; Y[N]: f32;\n"
                           "    for i in range(ceil(N, 64)):\n"
                           "        x = alloc([64])\n"
                           "        load(X[i*64 : (i+1)*64] -> x)\n"
                           "        mul(x, 2, x)\n"
                           "        store(x -> Y[i*64 : (i+1)*64])\n"
                           "}\n";
static const char wrong[] = "sketch twice {\n    symbols: N;\n    for i in rnge(N):\n}\n";

static void fail(const char *what, sketchc_unit *unit) {
    char *text = sketchc_diagnostics(unit, "text");
    fprintf(stderr, "%s\n%s", what, text);
    exit(1);
}

/* The emitted C; the caller frees. */
static char *compile(void) {
    sketchc_options options = {.size = sizeof options, .target = "openmp"};
    sketchc_unit *unit = sketchc_unit_create("twice.sketch", good, strlen(good));
    char *code = NULL;
    size_t size = 0;
    if (sketchc_emit(unit, &options, "c", &code, &size) != SKETCHC_OK) fail("emit", unit);
    if (strlen(code) != size || !strstr(code, "twice")) fail("not the code asked for", unit);
    sketchc_unit_destroy(unit);
    return code;
}

static void *work(void *unused) {
    (void)unused;
    sketchc_options options = {.size = sizeof options, .target = "openmp"};
    sketchc_unit *unit = sketchc_unit_create("wrong.sketch", wrong, strlen(wrong));
    if (sketchc_check(unit, &options) != SKETCHC_SOURCE_ERROR) fail("a wrong sketch passes", unit);
    char *text = sketchc_diagnostics(unit, "json");
    if (!sketchc_error_count(unit) || !strstr(text, "wrong.sketch")) fail("no diagnostics", unit);
    sketchc_free(text);
    sketchc_unit_destroy(unit);
    return compile();
}

static sketchc_dltensor vector(float *data, const int64_t *n) {
    return (sketchc_dltensor){.data = data, .device = {1, 0}, .ndim = 1, .dtype = {2, 32, 1}, .shape = n};
}

/* Sizes come with the tensors. What is wrong is told: a tensor of another size. */
static int launch(const sketchc_artifact *artifact) {
    float x[100], y[100];
    const int64_t all = 100, few = 7;
    char *message = NULL;
    sketchc_launcher *launcher;
    if (sketchc_launcher_open(artifact, NULL, &launcher, &message) != SKETCHC_OK) {
        fprintf(stderr, "%s\n", message);
        sketchc_free(message);
        return 1;
    }
    for (int i = 0; i < 100; i++) x[i] = (float)i;
    sketchc_dltensor long_x = vector(x, &all), long_y = vector(y, &all), short_x = vector(x + 10, &few), short_y = vector(y, &few);
    const sketchc_dltensor *large[2] = {&long_x, &long_y}, *small[2] = {&short_x, &short_y}, *mixed[2] = {&long_x, &short_y};
    if (sketchc_launch(launcher, large, 2, NULL, 0, NULL, NULL) != SKETCHC_OK || y[99] != 198) return 1;
    if (sketchc_launch(launcher, small, 2, NULL, 0, NULL, NULL) != SKETCHC_OK || y[0] != 20 || y[7] != 14) return 1;
    if (sketchc_launch(launcher, mixed, 2, NULL, 0, NULL, &message) != SKETCHC_SOURCE_ERROR) return 1;
    printf("launched on 100 and on 7 elements; %s\n", message);
    sketchc_free(message);
    sketchc_launcher_close(launcher);
    return 0;
}

int main(void) {
    if (sketchc_api_version() < SKETCHC_API_VERSION) return 1;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, work, NULL)) return 1;
    char *first = compile();
    for (int i = 0; i < 4; i++) {
        void *code;
        if (pthread_join(threads[i], &code) || strcmp(code, first) != 0) {
            fprintf(stderr, "threads compile to different code\n");
            return 1;
        }
        sketchc_free(code);
    }
    sketchc_artifact *artifact = NULL;
    sketchc_options options = {.size = sizeof options, .target = "openmp"};
    sketchc_unit *unit = sketchc_unit_create("twice.sketch", good, strlen(good));
    if (sketchc_compile(unit, &options, &artifact) != SKETCHC_OK) fail("compile", unit);
    if (launch(artifact)) return 1;
    sketchc_artifact_destroy(artifact);
    sketchc_unit_destroy(unit);
    printf("sketchc %s: %zu bytes of C, the same in 5 threads\n", sketchc_version(), strlen(first));
    sketchc_free(first);
    return 0;
}
