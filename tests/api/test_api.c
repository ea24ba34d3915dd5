/* The interface's contract: statuses, ownership, repeated calls, options of another size. */
#include "sketchc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static const char text[] = "sketch copy {\n    symbols: N;\n    tensors: X[N]: f32; Y[N]: f32;\n"
                           "    constexpr: T in {64, 128};\n    for i in range(ceil(N, T)):\n"
                           "        x = alloc([T])\n        load(X[i*T : (i+1)*T] -> x)\n"
                           "        store(x -> Y[i*T : (i+1)*T])\n}\n";

static sketchc_status emit(sketchc_unit *unit, const sketchc_options *options, const char *form) {
    char *data;
    size_t size;
    sketchc_status status = sketchc_emit(unit, options, form, &data, &size);
    CHECK((status == SKETCHC_OK) == (data != NULL) && (!data || (size && !data[size])));
    sketchc_free(data);
    return status;
}

static bool says(const sketchc_unit *unit, const char *words) {
    char *diagnostics = sketchc_diagnostics(unit, "text");
    bool found = strstr(diagnostics, words) != NULL;
    sketchc_free(diagnostics);
    return found;
}

static void check_statuses(void) {
    sketchc_unit *unit = sketchc_unit_create("copy.sketch", text, sizeof text - 1);
    sketchc_options options = {.size = sizeof options, .target = "openmp"};
    CHECK(sketchc_check(unit, &options) == SKETCHC_OK && sketchc_error_count(unit) == 0);
    CHECK(emit(unit, &options, "c") == SKETCHC_OK && emit(unit, &options, NULL) == SKETCHC_OK);
    CHECK(emit(unit, &options, "ptx") == SKETCHC_USAGE_ERROR &&
          says(unit, "does not go with -t openmp"));
    CHECK(emit(unit, &options, "elf") == SKETCHC_USAGE_ERROR && sketchc_error_count(unit) == 1);
    options.target = NULL;
    CHECK(emit(unit, &options, "c") == SKETCHC_OK && emit(unit, &options, "cuda") == SKETCHC_OK);
    CHECK(emit(unit, &options, "ptx") == (sketchc_llvm_version() ? SKETCHC_OK : SKETCHC_MISSING));
    CHECK(emit(unit, NULL, "tile") == SKETCHC_OK);
    options.arch = "sm_1";
    CHECK(emit(unit, &options, "cuda") == SKETCHC_USAGE_ERROR);
    options = (sketchc_options){.size = 8};
    CHECK(emit(unit, &options, "c") == SKETCHC_USAGE_ERROR && says(unit, "sketchc_options.size"));
    sketchc_define define = {"T", "wide"};
    options = (sketchc_options){
        .size = sizeof options, .target = "openmp", .defines = &define, .define_count = 1};
    CHECK(emit(unit, &options, "c") == SKETCHC_SOURCE_ERROR);
    define.value = "128";
    CHECK(emit(unit, &options, "c") == SKETCHC_OK && !sketchc_reproducer(unit));
    sketchc_unit_destroy(unit);
    sketchc_unit_destroy(NULL);
}

static void check_artifact(void) {
    sketchc_unit *unit = sketchc_unit_create(NULL, text, sizeof text - 1);
    sketchc_options options = {.size = sizeof options, .target = "openmp"};
    sketchc_artifact *artifact;
    char *message = NULL, *data;
    size_t size;
    CHECK(sketchc_compile(unit, &options, &artifact) == SKETCHC_OK && artifact);
    sketchc_artifact_destroy(artifact);
    CHECK(sketchc_emit(unit, &options, "artifact", &data, &size) == SKETCHC_OK);
    CHECK(sketchc_artifact_read(data, size, &artifact, &message) == SKETCHC_OK && !message);
    sketchc_artifact_destroy(artifact);
    CHECK(sketchc_artifact_read(data, size - 1, &artifact, &message) == SKETCHC_SOURCE_ERROR &&
          !artifact && message);
    sketchc_free(message);
    sketchc_free(data);
    sketchc_unit_destroy(unit);
}

int main(void) {
    check_statuses();
    check_artifact();
    CHECK(sketchc_explain("E0201") && !sketchc_explain("E9999") && !sketchc_explain(""));
    puts("the interface keeps its contract");
    return 0;
}
