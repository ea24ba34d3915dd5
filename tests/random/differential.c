/* The reference against the OpenMP output. The C of many programs becomes one library, as starting a
 * compiler costs more than compiling; every artifact gets that library as its code, and the runtime's
 * own verification runs it in a worker: guard zones, unchanged inputs, a second launch, the bound. */
#include "check.h"
#include "load_cpu.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    Arena *arena;
    Artifact *artifact; /* null: an outcome says why */
    char source[64];    /* its C file in the folder */
} Item;

static const ArtifactBlob *c_blob(const Artifact *a) {
    for (size_t i = 0; i < a->blob_count; i++)
        if (a->blobs[i].kind == ARTIFACT_C) return &a->blobs[i];
    return NULL;
}

static bool write_source(const Item *item, const char *folder) {
    const ArtifactBlob *blob = c_blob(item->artifact);
    Str source, wrappers;
    char path[512];
    str_init(&source);
    str_init(&wrappers);
    str_append_n(&source, (const char *)blob->data, blob->size);
    cpu_print_wrappers(item->artifact, source.data, &wrappers);
    str_append(&source, wrappers.data);
    snprintf(path, sizeof path, "%s/%s", folder, item->source);
    bool ok = file_write_atomic(path, source.data, source.len, 0600);
    str_release(&source);
    str_release(&wrappers);
    return ok;
}

/* One library of the items' sources. */
static RtError build_library(Item *items, size_t count, const CheckOptions *options, Arena *arena, const char *library) {
    const char **argv = ARENA_ARRAY(arena, const char *, count + 16);
    size_t n = 0;
    static const char *const flags[] = {"-std=c17",
                                        "-march=x86-64-v3",
                                        "-ffp-contract=off",
                                        "-fno-math-errno",
                                        "-fno-trapping-math",
                                        "-fopenmp",
                                        "-fPIC",
                                        "-shared",
                                        "-Wl,-Bsymbolic",
                                        "-o"};
    argv[n++] = "/usr/bin/cc";
    argv[n++] = options->optimise;
    for (size_t i = 0; i < COUNT_OF(flags); i++) argv[n++] = flags[i];
    argv[n++] = library;
    for (size_t i = 0; i < count; i++)
        if (items[i].artifact) argv[n++] = arena_printf(arena, "%s/%s", options->folder, items[i].source);
    argv[n++] = "-lm";
    argv[n] = NULL;
    return tool_run(argv, RT_BUILD_FAILED, NULL);
}

static void give_code(Item *item, const Str *library) {
    ArtifactBlob *blob = ARENA_NEW(item->arena, ArtifactBlob);
    *blob = (ArtifactBlob){ARTIFACT_SO, "x86-64-v3", (const unsigned char *)library->data, library->len};
    item->artifact->blobs = blob;
    item->artifact->blob_count = 1;
}

/* Where only near ties spoil the verdict, or the program's data could not tell a wrong result, it shows nothing either way. */
static bool is_undecided(const RtVerdict *v) {
    return v->status == RT_POWERLESS || strcmp(v->check, "undecided") == 0;
}

static void verify(Item *item, uint64_t seed, bool exact, Outcome *outcome) {
    Arena *arena = arena_create();
    RtOptions options = {.seed = seed, .time_limit_s = 20, .no_ragged = true, .cache_dir = "", .threads = 1, .exact = exact};
    RtVerifyReport report = rt_verify(item->artifact, &options, arena);
    if (rt_failed(&report.error) && !report.count)
        outcome_set(outcome, OUTCOME_BUG, "%s: %.180s", rt_status_name(report.error.status), report.error.text);
    for (size_t i = 0; i < report.count; i++) {
        const RtVerdict *v = &report.verdicts[i];
        if (v->status == RT_OK || v->status == RT_SKIPPED) continue;
        if (is_undecided(v)) {
            if (outcome->kind == OUTCOME_OK) outcome_set(outcome, OUTCOME_SKIPPED, "undecided");
            continue;
        }
        outcome_set(outcome, OUTCOME_WRONG, "%s%s at %s: %.140s", rt_status_name(v->status), exact ? " (exact)" : "", v->sizes, v->text);
        break;
    }
    arena_destroy(arena);
}

static void verify_both(Item *item, const RandomProgram *p, Outcome *outcome) {
    outcome_set(outcome, OUTCOME_OK, "%s", "");
    verify(item, p->seed, false, outcome);
    if (!outcome_failed(outcome->kind)) verify(item, p->seed, true, outcome);
}

static void run_library(Item *items, const RandomProgram *programs, size_t count, const char *path, Outcome *outcomes) {
    Str library;
    str_init(&library);
    bool read = file_read(path, (size_t)1 << 30, &library);
    for (size_t i = 0; i < count; i++) {
        if (!items[i].artifact) continue;
        if (!read) {
            outcome_set(&outcomes[i], OUTCOME_BUG, "the library cannot be read");
            continue;
        }
        give_code(&items[i], &library);
        verify_both(&items[i], &programs[i], &outcomes[i]);
    }
    str_release(&library);
}

/* One source that the compiler refuses would hide the others. */
static void build_and_run(Item *items, const RandomProgram *programs, size_t count, const CheckOptions *options, Outcome *outcomes) {
    Arena *arena = arena_create();
    char library[512];
    snprintf(library, sizeof library, "%s/batch.so", options->folder);
    RtError e = build_library(items, count, options, arena, library);
    if (!rt_failed(&e)) {
        run_library(items, programs, count, library, outcomes);
    } else if (count == 1) {
        outcome_set(outcomes, OUTCOME_BUG, "C compiler: %.200s", e.text);
    } else {
        for (size_t i = 0; i < count; i++)
            if (items[i].artifact) build_and_run(&items[i], &programs[i], 1, options, &outcomes[i]);
    }
    unlink(library);
    arena_destroy(arena);
}

void check_batch(const RandomProgram *programs, size_t count, const CheckOptions *options, Outcome *outcomes) {
    Item *items = calloc(count, sizeof *items);
    size_t compiled = 0;
    for (size_t i = 0; items && i < count; i++) {
        char name[40];
        snprintf(name, sizeof name, "r%llu", (unsigned long long)programs[i].seed);
        snprintf(items[i].source, sizeof items[i].source, "%s.c", name);
        items[i].arena = arena_create();
        check_limit_time(8);
        items[i].artifact = check_compile(&programs[i], name, options, items[i].arena, &outcomes[i]);
        if (!items[i].artifact) continue;
        compiled++;
        if (!write_source(&items[i], options->folder)) outcome_set(&outcomes[i], OUTCOME_BUG, "the source cannot be written");
    }
    check_lift_limit();
    if (compiled) build_and_run(items, programs, count, options, outcomes);
    for (size_t i = 0; items && i < count; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", options->folder, items[i].source);
        unlink(path);
        arena_destroy(items[i].arena);
    }
    free(items);
}
