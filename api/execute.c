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

/* What was taken when the artifact was compiled may be named, at that value. */
static RtError check_constexpr(const Artifact *a, const char *name, const char *text) {
    double taken, given;
    for (size_t i = 0; i < a->constexpr_count; i++) {
        const char *value = a->constexprs[i].value;
        if (strcmp(a->constexprs[i].name, name) != 0) continue;
        bool numbers = parse_double(value, &taken) && parse_double(text, &given);
        if (strcmp(value, text) == 0 || (numbers && taken == given)) return rt_ok();
        return rt_error(RT_BAD_OPTION, "-D %.64s=%.64s: %s was compiled with %s = %.64s; compile the sketch again for another value", name,
                        text, a->name, name, value);
    }
    return rt_error(RT_BAD_OPTION, "-D %.64s: %s has no symbol, scalar or constexpr of this name", name, a->name);
}

/* Options of another length were declared by another version: none of them is taken. */
static RtError check_options(const sketchc_run_options *o) {
    if (!o || o->size == sizeof *o) return (RtError){.status = RT_OK};
    return (RtError){RT_BAD_OPTION, "sketchc_run_options.size is that of another version of the library: "
                                    "compile with this one's sketchc.h"};
}

/* Symbols and scalars of a call, as they are told apart. */
typedef struct {
    const Artifact *a;
    RtSymbol *symbols;
    RtScalar *scalars;
    size_t symbol_count, scalar_count;
} Given;

static bool is_last(const sketchc_run_options *o, size_t at) {
    for (size_t i = at + 1; i < o->define_count; i++)
        if (strcmp(o->defines[i].name, o->defines[at].name) == 0) return false;
    return true;
}

static RtError take_define(Given *g, const char *name, const char *text) {
    int64_t integer;
    double number;
    if (has_param(g->a, ARTIFACT_SYMBOL, name)) {
        if (!parse_int64(text, &integer) || integer < 0)
            return rt_error(RT_BAD_OPTION, "-D %.64s=%.64s: the symbol wants an integer of at least 0", name, text);
        g->symbols[g->symbol_count++] = (RtSymbol){name, integer};
    } else if (has_param(g->a, ARTIFACT_SCALAR, name)) {
        if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
            number = text[0] == 't';
        else if (!parse_double(text, &number))
            return rt_error(RT_BAD_OPTION, "-D %.64s=%.64s: the scalar wants a number", name, text);
        g->scalars[g->scalar_count++] = (RtScalar){name, number};
    } else {
        return check_constexpr(g->a, name, text);
    }
    return rt_ok();
}

static RtError run_options(const sketchc_run_options *o, const Artifact *a, Arena *arena, RtOptions *r) {
    *r = (RtOptions){0};
    RtError e = check_options(o);
    if (!o || rt_failed(&e)) return e;
    Given g = {.a = a};
    g.symbols = ARENA_ARRAY(arena, RtSymbol, o->symbol_count + o->define_count + 1);
    g.scalars = ARENA_ARRAY(arena, RtScalar, o->scalar_count + o->define_count + 1);
    for (size_t i = 0; i < o->symbol_count; i++) g.symbols[g.symbol_count++] = (RtSymbol){o->symbols[i].name, o->symbols[i].value};
    for (size_t i = 0; i < o->scalar_count; i++) g.scalars[g.scalar_count++] = (RtScalar){o->scalars[i].name, o->scalars[i].value};
    for (size_t i = 0; i < o->define_count && !rt_failed(&e); i++)
        if (is_last(o, i)) e = take_define(&g, o->defines[i].name, o->defines[i].value);
    *r = (RtOptions){.seed = o->seed,
                       .time_limit_s = o->time_limit_s,
                       .max_bytes = o->max_bytes,
                       .case_name = o->case_name,
                       .symbol_count = g.symbol_count,
                       .symbols = g.symbols,
                       .scalar_count = g.scalar_count,
                       .scalars = g.scalars,
                       .cache_dir = o->cache_dir,
                       .no_ragged = o->no_ragged,
                       .warm = o->warm,
                       .samples = o->samples,
                       .device = o->device,
                       .threads = o->threads,
                       .exact = o->exact,
                       .baseline = o->baseline,
                       .give_up_s = o->give_up_s};
    return e;
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
    RtOptions o;
    RtError error = run_options(options, artifact->artifact, arena, &o);
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
    RtOptions o;
    RtVerifyReport r = {.error = run_options(options, artifact->artifact, arena, &o)};
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
    RtOptions o;
    RtBenchReport r = {.error = run_options(options, artifact->artifact, arena, &o)};
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
    RtOptions o;
    RtError fits = run_options(options, artifact->artifact, arena, &o);
    if (fits.status != RT_OK) {
        arena_destroy(arena);
        return told(fits, message);
    }
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
