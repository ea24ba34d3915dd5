/* Memory runs out at every place in turn: each call of the interface returns a status, its unit can be used again, and, under
 * LeakSanitizer, nothing is lost.   test_memory [STEP] */
#include "memory.h"
#include "sketchc.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char text[] = "operator scale {\n    symbols: N\n    tensors: X[N]: f32; Y[N]: f32\n    Y = X * 2\n"
                           "    case small { N=300 }\n}\n"
                           "sketch scale_rows implements scale {\n    symbols: N\n    tensors: X[N]: f32; Y[N]: f32\n"
                           "    constexpr: T in {64}\n    for i in range(ceil(N, T)):\n"
                           "        x = alloc([T])\n        load(X[i*T : (i+1)*T] -> x)\n"
                           "        y = x * 2\n        store(y -> Y[i*T : (i+1)*T])\n}\n";
static long count, refused_at;

static bool refuse(void) {
    return ++count == refused_at;
}

/* cJSON's memory counts likewise. */
static void *allocate(size_t size) {
    return memory_refuse && refuse() ? NULL : malloc(size);
}

static void fail(const char *what) {
    fprintf(stderr, "%s, allocation %ld refused\n", what, refused_at);
    exit(1);
}

typedef struct {
    const char *name, *target, *form;
} Step;

static const Step steps[] = {
    {"check", NULL, NULL},      {"emit", "openmp", "c"},      {"emit", "cuda", "cuda"},   {"emit", "nvptx", "ptx"},
    {"emit", "openmp", "ast"},  {"emit", "cuda", "artifact"}, {"lines", "cuda", "cuda"},  {"format", NULL, NULL},
    {"page", "cuda", NULL},     {"predict", "cuda", NULL},    {"design", NULL, NULL},     {"compile", "openmp", NULL},
    {"read", "openmp", NULL},   {"wrong", NULL, NULL},        {"verify", "openmp", NULL}, {"run", "openmp", NULL},
    {"kernel", "openmp", NULL},
};

static sketchc_artifact *made; /* without refusals: what is read, run and verified */
static char input_path[] = "/tmp/test_memory-XXXXXX";
static const long places[] = {1, 6, 12, 18, 40, 150, 600};
static char *bytes;
static size_t byte_count;

static sketchc_status use_kernel(void) {
    float from[5] = {0}, to[5];
    sketchc_symbol size = {"N", 5};
    sketchc_run_options run = {.size = sizeof run, .symbols = &size, .symbol_count = 1, .cache_dir = ""};
    sketchc_buffer buffers[] = {{"X", from, sizeof from}, {"Y", to, sizeof to}};
    sketchc_kernel *kernel;
    sketchc_status status = sketchc_kernel_open(made, &run, buffers, 2, &kernel, NULL);
    if ((status == SKETCHC_OK) != (kernel != NULL)) fail("a kernel without a status");
    if (kernel) sketchc_free(sketchc_kernel_info(kernel));
    sketchc_kernel_close(kernel);
    return status;
}

static sketchc_status execute(const char *name, char **data) {
    sketchc_run_options run = {.size = sizeof run, .cache_dir = "", .no_ragged = true, .threads = 2};
    if (strcmp(name, "run") == 0) return sketchc_run(made, &run, &(sketchc_file){"X", input_path}, 1, NULL, 0, "json", data);
    return sketchc_verify(made, &run, "json", data);
}

static sketchc_status take(const Step *s, sketchc_unit *unit, char **data) {
    sketchc_options options = {.size = sizeof options, .target = s->target};
    sketchc_artifact *artifact = NULL;
    sketchc_status status = SKETCHC_OK;
    size_t size;
    uint32_t *lines;
    switch (s->name[0]) {
    case 'c':
        if (s->name[1] == 'h') return sketchc_check(unit, &options);
        status = sketchc_compile(unit, &options, &artifact);
        break;
    case 'e':
        return sketchc_emit(unit, &options, s->form, data, &size);
    case 'l':
        status = sketchc_emit_lines(unit, &options, s->form, data, &lines, &size);
        sketchc_free(lines);
        return status;
    case 'f':
        return sketchc_format(unit, data, &size);
    case 'd':
        return sketchc_design(unit, &options, 0, data, &size);
    case 'p':
        return s->name[1] == 'a' ? sketchc_explain_page(unit, &options, data, &size) : sketchc_predict(unit, &options, "json", data);
    case 'w':
        options.passes = "no_such_pass";
        status = sketchc_emit(unit, &options, "cuda", data, &size);
        sketchc_free(sketchc_diagnostics(unit, "sarif"));
        return status == SKETCHC_USAGE_ERROR ? SKETCHC_OK : status;
    case 'r':
        if (s->name[1] == 'u') return execute(s->name, data);
        status = sketchc_artifact_read(bytes, byte_count, &artifact, NULL);
        break;
    case 'v':
        return execute(s->name, data);
    default:
        return use_kernel();
    }
    if ((status == SKETCHC_OK) != (artifact != NULL)) fail("an artifact without a status");
    sketchc_artifact_destroy(artifact);
    return status;
}

/* With the allocation refused_at refused, then once more without; false: it came to no such allocation. */
static bool refused(const Step *s) {
    char *data = NULL, *again = NULL;
    count = 0;
    memory_refuse = refuse;
    sketchc_unit *unit = sketchc_unit_create("scale.sketch", text, sizeof text - 1);
    sketchc_status status = unit ? take(s, unit, &data) : SKETCHC_OUT_OF_MEMORY;
    bool reached = count >= refused_at;
    memory_refuse = NULL;
    if (reached && status != SKETCHC_OUT_OF_MEMORY && status != SKETCHC_MISSING && status != SKETCHC_OK) fail("another status");
    if (!reached && status != SKETCHC_OK && status != SKETCHC_MISSING) fail(data ? data : "fails with all memory");
    if (status == SKETCHC_OUT_OF_MEMORY && data) fail("a result without memory");
    if (unit && reached && refused_at % 7 == 0 && (s->name[0] == 'c' || s->name[0] == 'e') && take(s, unit, &again) != SKETCHC_OK)
        fail("the unit cannot be used again");
    sketchc_free(again);
    sketchc_free(data);
    sketchc_unit_destroy(unit);
    return reached;
}

static bool refused_by(const Step *s, long at) {
    refused_at = at;
    return refused(s);
}

/* An input of run, in numpy's format. */
static bool write_input(void) {
    static const char start[] = "\x93NUMPY\x01\x00\x76", about[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (300,), }";
    int fd = mkstemp(input_path);
    FILE *f = fd >= 0 ? fdopen(fd, "wb") : NULL;
    float data[300] = {0};
    if (!f) return false;
    bool ok = fwrite(start, 1, sizeof start, f) == sizeof start && fprintf(f, "%-117s\n", about) == 118 && fwrite(data, sizeof data, 1, f);
    return fclose(f) == 0 && ok;
}

int main(int argc, char **argv) {
    cJSON_InitHooks(&(cJSON_Hooks){allocate, free});
    long step = argc > 1 ? strtol(argv[1], NULL, 10) : 1, total = 0;
    sketchc_options options = {.size = sizeof options, .target = "openmp"};
    sketchc_unit *unit = sketchc_unit_create(NULL, text, sizeof text - 1);
    if (sketchc_compile(unit, &options, &made) != SKETCHC_OK || sketchc_emit(unit, &options, "artifact", &bytes, &byte_count) ||
        !write_input()) {
        char *said = sketchc_diagnostics(unit, NULL);
        fprintf(stderr, "%s", said);
        return 1;
    }
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (steps[i].target && strcmp(steps[i].target, "nvptx") == 0 && !sketchc_llvm_version()) continue;
        bool runs = strchr("vk", steps[i].name[0]) || strcmp(steps[i].name, "run") == 0;
        long tried = 0;
        if (runs) /* what compiles C: a few places here, and in the worker, whose count goes on from this one's */
            for (size_t k = 0; k < sizeof places / sizeof *places; k++) tried += refused_by(&steps[i], places[k]);
        else
            for (long at = 1; refused_by(&steps[i], at); at += at < 20 ? 1 : step) tried++;
        printf("%s to %s: %ld of %ld allocations refused\n", steps[i].name, steps[i].target ? steps[i].target : "-", tried, count);
        total += tried;
    }
    remove(input_path);
    if (total < 100) fail("too few");
    sketchc_free(bytes);
    sketchc_artifact_destroy(made);
    sketchc_unit_destroy(unit);
    return 0;
}
