/* Artifacts: reading, running, verifying, timing. */
#include "api_internal.h"

#include "runtime.h"

#include <stdlib.h>
#include <string.h>

sketchc_status sketchc_artifact_read(const void *data, size_t size, sketchc_artifact **result,
                                     char **message) {
    *result = NULL;
    if (message) *message = NULL;
    Arena *arena = arena_create();
    if (!arena) return SKETCHC_BUG;
    const char *error = NULL;
    Artifact *artifact = artifact_read(arena, data, size, &error);
    if (artifact) *result = calloc(1, sizeof **result);
    if (*result) {
        **result = (sketchc_artifact){arena, artifact};
        return SKETCHC_OK;
    }
    if (message && error) *message = strdup(error);
    arena_destroy(arena);
    return artifact ? SKETCHC_BUG : SKETCHC_SOURCE_ERROR;
}

void sketchc_artifact_destroy(sketchc_artifact *artifact) {
    if (!artifact) return;
    arena_destroy(artifact->arena);
    free(artifact);
}

static RtOptions run_options(const sketchc_run_options *o, Arena *arena) {
    RtOptions r = {0};
    if (!o || o->size != sizeof *o) return r;
    RtSymbol *symbols = ARENA_ARRAY(arena, RtSymbol, o->symbol_count + 1);
    for (size_t i = 0; i < o->symbol_count; i++)
        symbols[i] = (RtSymbol){o->symbols[i].name, o->symbols[i].value};
    RtScalar *scalars = ARENA_ARRAY(arena, RtScalar, o->scalar_count + 1);
    for (size_t i = 0; i < o->scalar_count; i++)
        scalars[i] = (RtScalar){o->scalars[i].name, o->scalars[i].value};
    return (RtOptions){.seed = o->seed,
                       .time_limit_s = o->time_limit_s,
                       .max_bytes = o->max_bytes,
                       .case_name = o->case_name,
                       .symbol_count = o->symbol_count,
                       .symbols = symbols,
                       .scalar_count = o->scalar_count,
                       .scalars = scalars,
                       .cache_dir = o->cache_dir,
                       .no_ragged = o->no_ragged,
                       .warm = o->warm,
                       .samples = o->samples,
                       .device = o->device,
                       .threads = o->threads};
}

static RtFile *files(Arena *arena, const sketchc_file *from, size_t count) {
    RtFile *to = ARENA_ARRAY(arena, RtFile, count + 1);
    for (size_t i = 0; i < count; i++) to[i] = (RtFile){from[i].name, from[i].path};
    return to;
}

static bool is_json(const char *format) {
    return format && strcmp(format, "json") == 0;
}

static sketchc_status status_of(RtError error) {
    return (sketchc_status)rt_status_exit_code(error.status);
}

sketchc_status sketchc_run(const sketchc_artifact *artifact, const sketchc_run_options *options,
                           const sketchc_file *inputs, size_t input_count,
                           const sketchc_file *outputs, size_t output_count, const char *format,
                           char **report) {
    Arena *arena = arena_create();
    if (!arena) return SKETCHC_BUG;
    RtOptions o = run_options(options, arena);
    RtError error = rt_run(artifact->artifact, &o, input_count, files(arena, inputs, input_count),
                           output_count, files(arena, outputs, output_count));
    Str out;
    str_init(&out);
    if (is_json(format))
        rt_run_json(artifact->artifact, &error, &out);
    else if (error.status != RT_OK)
        str_printf(&out, "%s: %s\n", rt_status_name(error.status), error.text);
    *report = api_string(&out);
    str_release(&out);
    arena_destroy(arena);
    return status_of(error);
}

sketchc_status sketchc_verify(const sketchc_artifact *artifact, const sketchc_run_options *options,
                              const char *format, char **report) {
    Arena *arena = arena_create();
    if (!arena) return SKETCHC_BUG;
    RtOptions o = run_options(options, arena);
    RtVerifyReport r = rt_verify(artifact->artifact, &o, arena);
    Str out;
    str_init(&out);
    if (is_json(format))
        rt_verify_json(artifact->artifact, &r, &out);
    else
        rt_verify_text(artifact->artifact, &r, format && strcmp(format, "verbose") == 0, &out);
    *report = api_string(&out);
    str_release(&out);
    sketchc_status status = status_of(r.error);
    arena_destroy(arena);
    return status;
}

sketchc_status sketchc_bench(const sketchc_artifact *artifact, const sketchc_run_options *options,
                             const char *format, char **report) {
    Arena *arena = arena_create();
    if (!arena) return SKETCHC_BUG;
    RtOptions o = run_options(options, arena);
    RtBenchReport r = rt_bench(artifact->artifact, &o, arena);
    Str out;
    str_init(&out);
    if (is_json(format))
        rt_bench_json(artifact->artifact, &r, &out);
    else
        rt_bench_text(artifact->artifact, &r, &out);
    *report = api_string(&out);
    str_release(&out);
    sketchc_status status = status_of(r.error);
    arena_destroy(arena);
    return status;
}
