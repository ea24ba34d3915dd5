/* A program that knows the installed files only: compiles a sketch from memory for the CPU, shows the
 * diagnostics of a wrong one, and does both in several threads at once. */
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
    sketchc_artifact_destroy(artifact);
    sketchc_unit_destroy(unit);
    printf("sketchc %s: %zu bytes of C, the same in 5 threads\n", sketchc_version(), strlen(first));
    sketchc_free(first);
    return 0;
}
