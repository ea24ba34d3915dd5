/* The interface's contract: statuses, ownership, repeated calls, options of another size. */
#include "sketchc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                                                   \
    do {                                                                                                                                   \
        if (!(condition)) {                                                                                                                \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                                                \
            exit(1);                                                                                                                       \
        }                                                                                                                                  \
    } while (0)

enum { STEPS = 1 << 14 };

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

/* Two sketches in one file's text, by the same code or by another one. */
static void identity_of(const char *sketch, char identity[33]) {
    sketchc_unit *unit = sketchc_unit_create("copy.sketch", sketch, strlen(sketch));
    sketchc_options options = {.size = sizeof options, .target = "openmp"};
    sketchc_artifact *artifact;
    CHECK(sketchc_compile(unit, &options, &artifact) == SKETCHC_OK);
    CHECK(sketchc_artifact_identity(artifact, identity) == SKETCHC_OK && strlen(identity) == 32);
    sketchc_artifact_destroy(artifact);
    sketchc_unit_destroy(unit);
}

#define NAMED(name, more, extent)                                                                                                          \
    "sketch " name " {\n    symbols: N;\n    tensors: X[N]: f32; Y[N]: f32;\n" more "    for i in range(ceil(N, " extent ")):\n"           \
    "        x = alloc([" extent "])\n        load(X[i*" extent " : (i+1)*" extent "] -> x)\n"                                             \
    "        store(x -> Y[i*" extent " : (i+1)*" extent "])\n}\n"

static void check_identities(void) {
    char first[33], other[33];
    identity_of(NAMED("copy", "", "64"), first);
    identity_of(NAMED("another", "    # as it was\n", "64"), other);
    CHECK(strcmp(first, other) == 0);
    identity_of(NAMED("copy", "", "128"), other);
    CHECK(strcmp(first, other) != 0);
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
    CHECK(emit(unit, &options, "ptx") == SKETCHC_USAGE_ERROR && says(unit, "does not go with -t openmp"));
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
    options = (sketchc_options){.size = sizeof options, .target = "openmp", .defines = &define, .define_count = 1};
    CHECK(emit(unit, &options, "c") == SKETCHC_USAGE_ERROR);
    define.value = "128";
    CHECK(emit(unit, &options, "c") == SKETCHC_OK && !sketchc_reproducer(unit));
    sketchc_unit_destroy(unit);
    sketchc_unit_destroy(NULL);
}

/* On the caller's own memory: buffers of the wrong size or name are refused, the right ones filled. */
static void check_kernel(void) {
    sketchc_unit *unit = sketchc_unit_create(NULL, text, sizeof text - 1);
    sketchc_options options = {.size = sizeof options, .target = "openmp"};
    sketchc_artifact *artifact;
    float from[100], to[100] = {0};
    for (int i = 0; i < 100; i++) from[i] = (float)i;
    sketchc_symbol size = {"N", 100};
    sketchc_run_options run = {.size = sizeof run, .symbols = &size, .symbol_count = 1, .cache_dir = ""};
    sketchc_buffer buffers[2] = {{"X", from, sizeof from}, {"Y", to, sizeof to - 4}};
    sketchc_kernel *kernel;
    char *message = NULL;
    CHECK(sketchc_compile(unit, &options, &artifact) == SKETCHC_OK);
    CHECK(sketchc_kernel_open(artifact, &run, buffers, 2, &kernel, &message) == SKETCHC_SOURCE_ERROR && !kernel &&
          strstr(message, "'Y' has 400 bytes at these sizes, the given buffer has 396"));
    sketchc_free(message);
    buffers[1] = (sketchc_buffer){"Z", to, sizeof to};
    CHECK(sketchc_kernel_open(artifact, &run, buffers, 2, &kernel, &message) == SKETCHC_SOURCE_ERROR && strstr(message, "the tensor 'Y'"));
    sketchc_free(message);
    buffers[1] = (sketchc_buffer){"Y", from + 50, sizeof to};
    CHECK(sketchc_kernel_open(artifact, &run, buffers, 2, &kernel, &message) == SKETCHC_SOURCE_ERROR && strstr(message, "overlaps"));
    sketchc_free(message);
    buffers[1] = (sketchc_buffer){"Y", to, sizeof to};
    sketchc_status status = sketchc_kernel_open(artifact, &run, buffers, 2, &kernel, &message);
    if (status == SKETCHC_MISSING) fprintf(stderr, "%s\n", message); /* no C compiler here */
    if (status == SKETCHC_OK) {
        char *info = sketchc_kernel_info(kernel);
        CHECK(sketchc_kernel_launch(kernel, NULL, NULL) == SKETCHC_OK && memcmp(from, to, sizeof to) == 0);
        CHECK(strstr(info, "\"entry\":\"copy\"") && strstr(info, "\"bytes\":800"));
        sketchc_free(info);
    }
    CHECK(status == SKETCHC_OK || status == SKETCHC_MISSING);
    if (status == SKETCHC_MISSING) sketchc_free(message);
    sketchc_kernel_close(kernel);
    sketchc_kernel_close(NULL);
    sketchc_define size_text[2] = {{"N", "x"}, {"N", "-1"}};
    run = (sketchc_run_options){.size = sizeof run, .cache_dir = "", .defines = size_text, .define_count = 2};
    CHECK(sketchc_kernel_open(artifact, &run, buffers, 2, &kernel, &message) == SKETCHC_USAGE_ERROR && strstr(message, "-D N=-1"));
    sketchc_free(message);
    run.size -= sizeof run.define_count; /* another version's options are refused, not left aside */
    char *report[3];
    CHECK(sketchc_run(artifact, &run, NULL, 0, NULL, 0, "text", &report[0]) == SKETCHC_USAGE_ERROR);
    CHECK(sketchc_verify(artifact, &run, "json", &report[1]) == SKETCHC_USAGE_ERROR);
    CHECK(sketchc_bench(artifact, &run, "text", &report[2]) == SKETCHC_USAGE_ERROR);
    for (size_t i = 0; i < 3; i++) {
        CHECK(strstr(report[i], "another version"));
        sketchc_free(report[i]);
    }
    sketchc_artifact_destroy(artifact);
    sketchc_unit_destroy(unit);
}

/* What the header says may be null. */
static void check_null(void) {
    sketchc_unit *unit = sketchc_unit_create(NULL, text, sizeof text - 1);
    sketchc_artifact *artifact;
    sketchc_kernel *kernel;
    char *data, *said[7];
    size_t size;
    CHECK(sketchc_check(unit, NULL) == SKETCHC_OK && sketchc_emit(unit, NULL, NULL, &data, &size) == SKETCHC_OK);
    sketchc_free(data);
    CHECK(sketchc_explain_page(unit, NULL, &data, &size) == SKETCHC_OK);
    sketchc_free(data);
    CHECK(sketchc_predict(unit, NULL, NULL, &data) == SKETCHC_OK);
    sketchc_free(data);
    CHECK(sketchc_compile(unit, NULL, &artifact) == SKETCHC_OK);
    CHECK(sketchc_kernel_open(artifact, NULL, NULL, 0, &kernel, NULL) != SKETCHC_OK && !kernel);
    said[0] = sketchc_diagnostics(unit, NULL);
    CHECK(sketchc_run(artifact, NULL, NULL, 0, NULL, 0, NULL, &said[1]) != SKETCHC_OK);
    CHECK(sketchc_verify(artifact, NULL, NULL, &said[2]) != SKETCHC_OK);
    CHECK(sketchc_bench(artifact, NULL, NULL, &said[3]) != SKETCHC_OK);
    sketchc_artifact_destroy(artifact);
    CHECK(sketchc_artifact_read("", 0, &artifact, NULL) == SKETCHC_SOURCE_ERROR && !artifact);
    said[4] = sketchc_doctor(NULL);
    said[5] = sketchc_cache_info(NULL);
    said[6] = sketchc_native_arch("openmp");
    for (size_t i = 0; i < 7; i++) sketchc_free(said[i]);
    sketchc_unit_destroy(unit);
    sketchc_artifact_destroy(NULL);
    sketchc_kernel_close(NULL);
    sketchc_free(NULL);
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
    CHECK(sketchc_artifact_read(data, size - 1, &artifact, &message) == SKETCHC_SOURCE_ERROR && !artifact && message);
    sketchc_free(message);
    sketchc_free(data);
    sketchc_unit_destroy(unit);
}

/* What was told, in the order in which it was. */
static void add_step(void *context, const char *doing) {
    char *steps = context;
    size_t length = strlen(steps);
    snprintf(steps + length, STEPS - length, "%s\n", doing);
}

/* Steps are told in this process as they begin: passes, the code, then the cases of a verification. */
static void check_progress(void) {
    static char steps[STEPS];
    static const char source[] = "operator twice {\n    symbols: N;\n    tensors: X[N]: f32, Y[N]: f32;\n    Y = X * 2\n"
                                 "    case few { N=5; X: normal(0, 1) }\n}\n";
    sketchc_unit *unit = sketchc_unit_create(NULL, source, sizeof source - 1);
    sketchc_options options = {.size = sizeof options, .target = "openmp", .on_progress = add_step, .progress_context = steps};
    sketchc_artifact *artifact;
    CHECK(sketchc_compile(unit, &options, &artifact) == SKETCHC_OK);
    const char *pass = strstr(steps, "design rows, pass split_passes\n");
    CHECK(pass && strstr(pass, "\npass split_passes\n") && strstr(pass, "code as c\n"));
    *steps = '\0';
    sketchc_run_options run = {.size = sizeof run, .cache_dir = "", .no_ragged = true, .on_progress = add_step, .progress_context = steps};
    char *report;
    sketchc_status status = sketchc_verify(artifact, &run, "text", &report);
    CHECK(status == SKETCHC_MISSING || strstr(steps, "loading the code\n1 of 1, few: preparing\n1 of 1, few: the first launch\n"));
    sketchc_free(report);
    sketchc_artifact_destroy(artifact);
    sketchc_unit_destroy(unit);
}

int main(void) {
    check_progress();
    check_identities();
    check_statuses();
    check_artifact();
    check_null();
    check_kernel();
    CHECK(sketchc_explain("E0201") && !sketchc_explain("E9999") && !sketchc_explain(""));
    puts("the interface keeps its contract");
    return 0;
}
