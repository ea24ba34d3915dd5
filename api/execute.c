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

/* Whether `name` is a parameter of that kind, by its own name or the operator's. */
static bool has_param(const Artifact *a, ArtifactParamKind kind, const char *name) {
    for (size_t i = 0; i < a->param_count; i++) {
        const ArtifactParam *p = &a->params[i];
        if (p->kind != kind) continue;
        if (strcmp(p->name, name) == 0 || (p->graph_name && strcmp(p->graph_name, name) == 0))
            return true;
    }
    return false;
}

/* Whether `name` was taken at compile time with this value. Another value is not, and is refused
 * later as a name that the artifact does not have. */
static bool is_constexpr(const Artifact *a, const char *name, double value) {
    for (size_t i = 0; i < a->constexpr_count; i++)
        if (strcmp(a->constexprs[i].name, name) == 0) {
            double taken;
            return parse_double(a->constexprs[i].value, &taken) && taken == value;
        }
    return false;
}

static bool has_symbol(const sketchc_run_options *o, const char *name) {
    for (size_t i = 0; i < o->symbol_count; i++)
        if (strcmp(o->symbols[i].name, name) == 0) return true;
    return false;
}

static bool has_scalar(const sketchc_run_options *o, const char *name) {
    for (size_t i = 0; i < o->scalar_count; i++)
        if (strcmp(o->scalars[i].name, name) == 0) return true;
    return false;
}

/* A caller that does not know what a name is gives it as symbol and as scalar: the artifact tells
 * which of the two it is, or that it was settled at compile time. What it does not know stays, and
 * is an error. */
static RtOptions run_options(const sketchc_run_options *o, const Artifact *a, Arena *arena) {
    RtOptions r = {0};
    if (!o || o->size != sizeof *o) return r;
    RtSymbol *symbols = ARENA_ARRAY(arena, RtSymbol, o->symbol_count + 1);
    RtScalar *scalars = ARENA_ARRAY(arena, RtScalar, o->scalar_count + 1);
    size_t symbol_count = 0, scalar_count = 0;
    for (size_t i = 0; i < o->symbol_count; i++) {
        const char *name = o->symbols[i].name;
        bool other = has_scalar(o, name) && (has_param(a, ARTIFACT_SCALAR, name) ||
                                             is_constexpr(a, name, (double)o->symbols[i].value));
        if (!other) symbols[symbol_count++] = (RtSymbol){name, o->symbols[i].value};
    }
    for (size_t i = 0; i < o->scalar_count; i++) {
        const char *name = o->scalars[i].name;
        bool other = (has_symbol(o, name) && has_param(a, ARTIFACT_SYMBOL, name)) ||
                     is_constexpr(a, name, o->scalars[i].value);
        if (!other) scalars[scalar_count++] = (RtScalar){name, o->scalars[i].value};
    }
    return (RtOptions){.seed = o->seed,
                       .time_limit_s = o->time_limit_s,
                       .max_bytes = o->max_bytes,
                       .case_name = o->case_name,
                       .symbol_count = symbol_count,
                       .symbols = symbols,
                       .scalar_count = scalar_count,
                       .scalars = scalars,
                       .cache_dir = o->cache_dir,
                       .no_ragged = o->no_ragged,
                       .warm = o->warm,
                       .samples = o->samples,
                       .device = o->device,
                       .threads = o->threads,
                       .exact = o->exact,
                       .baseline = o->baseline,
                       .give_up_s = o->give_up_s};
}

/* Options of another length were declared by another version: none of them is taken. */
static RtError check_options(const sketchc_run_options *o) {
    if (!o || o->size == sizeof *o) return (RtError){.status = RT_OK};
    return (RtError){RT_BAD_OPTION, "sketchc_run_options.size is that of another version of the library: "
                                    "compile with this one's sketchc.h"};
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

/* Hands the report over and ends what the call made. */
static sketchc_status finish(Arena *arena, Str *out, RtError error, char **report) {
    *report = api_string(out);
    str_release(out);
    arena_destroy(arena);
    return status_of(error);
}

sketchc_status sketchc_run(const sketchc_artifact *artifact, const sketchc_run_options *options,
                           const sketchc_file *inputs, size_t input_count,
                           const sketchc_file *outputs, size_t output_count, const char *format,
                           char **report) {
    Arena *arena = arena_create();
    if (!arena) return SKETCHC_BUG;
    RtOptions o = run_options(options, artifact->artifact, arena);
    RtError error = check_options(options);
    if (error.status == RT_OK)
        error = rt_run(artifact->artifact, &o, input_count, files(arena, inputs, input_count),
                       output_count, files(arena, outputs, output_count));
    Str out;
    str_init(&out);
    if (is_json(format))
        rt_run_json(artifact->artifact, &error, &out);
    else if (error.status != RT_OK || error.text[0])
        str_printf(&out, "%s: %s\n", rt_status_name(error.status), error.text);
    return finish(arena, &out, error, report);
}

sketchc_status sketchc_verify(const sketchc_artifact *artifact, const sketchc_run_options *options,
                              const char *format, char **report) {
    Arena *arena = arena_create();
    if (!arena) return SKETCHC_BUG;
    RtOptions o = run_options(options, artifact->artifact, arena);
    RtVerifyReport r = {.error = check_options(options)};
    if (r.error.status == RT_OK) r = rt_verify(artifact->artifact, &o, arena);
    Str out;
    str_init(&out);
    if (is_json(format))
        rt_verify_json(artifact->artifact, &r, &out);
    else
        rt_verify_text(artifact->artifact, &r, format && strcmp(format, "verbose") == 0, &out);
    return finish(arena, &out, r.error, report);
}

sketchc_status sketchc_bench(const sketchc_artifact *artifact, const sketchc_run_options *options,
                             const char *format, char **report) {
    Arena *arena = arena_create();
    if (!arena) return SKETCHC_BUG;
    RtOptions o = run_options(options, artifact->artifact, arena);
    RtBenchReport r = {.error = check_options(options)};
    if (r.error.status == RT_OK) r = rt_bench(artifact->artifact, &o, arena);
    Str out;
    str_init(&out);
    if (is_json(format))
        rt_bench_json(artifact->artifact, &r, &out);
    else
        rt_bench_text(artifact->artifact, &r, &out);
    return finish(arena, &out, r.error, report);
}

sketchc_status sketchc_calibrate(const char *target, const sketchc_run_options *options,
                                 const char *format, char **report) {
    bool known = options && options->size == sizeof *options;
    RtOptions o = {.cache_dir = known ? options->cache_dir : NULL,
                   .device = known ? options->device : 0};
    RtCeilings ceilings;
    RtError error = rt_calibrate(target && strcmp(target, "openmp") == 0, &o, &ceilings);
    Str out;
    str_init(&out);
    if (is_json(format))
        rt_ceilings_json(&ceilings, &error, &out);
    else
        rt_ceilings_text(&ceilings, &error, &out);
    *report = api_string(&out);
    str_release(&out);
    return status_of(error);
}

/* ---- In the caller's process ---- */

/* The public handle is the runtime's. */
static RtKernel *kernel_of(const sketchc_kernel *kernel) {
    return (RtKernel *)(uintptr_t)kernel;
}

static sketchc_status told(RtError error, char **message) {
    if (message) *message = error.status == RT_OK ? NULL : strdup(error.text);
    return status_of(error);
}

sketchc_status sketchc_kernel_open(const sketchc_artifact *artifact, const sketchc_run_options *options,
                                   const sketchc_buffer *buffers, size_t buffer_count,
                                   sketchc_kernel **kernel, char **message) {
    Arena *arena = arena_create();
    *kernel = NULL;
    if (message) *message = NULL;
    if (!arena) return SKETCHC_BUG;
    RtError fits = check_options(options);
    if (fits.status != RT_OK) {
        arena_destroy(arena);
        return told(fits, message);
    }
    RtOptions o = run_options(options, artifact->artifact, arena);
    RtBuffer *list = ARENA_ARRAY(arena, RtBuffer, buffer_count + 1);
    for (size_t i = 0; i < buffer_count; i++)
        list[i] = (RtBuffer){buffers[i].name, (uint64_t)(uintptr_t)buffers[i].data, buffers[i].bytes};
    RtKernel *opened = NULL;
    RtError error = rt_kernel_open(artifact->artifact, &o, list, buffer_count, &opened);
    *kernel = (sketchc_kernel *)opened;
    arena_destroy(arena);
    return told(error, message);
}

sketchc_status sketchc_kernel_launch(sketchc_kernel *kernel, void *stream, char **message) {
    return told(rt_kernel_launch(kernel_of(kernel), stream), message);
}

char *sketchc_kernel_info(const sketchc_kernel *kernel) {
    Str out;
    str_init(&out);
    rt_kernel_json(kernel_of(kernel), &out);
    char *text = api_string(&out);
    str_release(&out);
    return text;
}

void sketchc_kernel_close(sketchc_kernel *kernel) {
    rt_kernel_close(kernel_of(kernel));
}
