/* Artifacts: reading, running, verifying, timing. */
#include "execute.h"

#include "memory.h"

#include <stdlib.h>
#include <string.h>

/* The caller's copy of a message. */
static char *message_of(const char *text) {
    char *copy = strdup(text);
    if (!copy) memory_out();
    return copy;
}

typedef struct {
    const void *data;
    size_t size;
    sketchc_artifact **result;
    char **message;
} Read;

static void read_call(void *call) {
    Read *r = call;
    const char *error = NULL;
    sketchc_artifact *result = memory_alloc(sizeof *result);
    result->arena = arena_create();
    result->artifact = artifact_read(result->arena, r->data, r->size, &error);
    if (result->artifact) {
        *r->result = result;
        return;
    }
    if (r->message && error) *r->message = message_of(error);
    sketchc_artifact_destroy(result);
}

sketchc_status sketchc_artifact_read(const void *data, size_t size, sketchc_artifact **result, char **message) {
    *result = NULL;
    if (message) *message = NULL;
    if (!memory_guard(read_call, &(Read){data, size, result, message})) return SKETCHC_OUT_OF_MEMORY;
    return *result ? SKETCHC_OK : SKETCHC_SOURCE_ERROR;
}

void sketchc_artifact_destroy(sketchc_artifact *artifact) {
    if (!artifact) return;
    arena_destroy(artifact->arena);
    memory_free(artifact);
}

/* Whether `name` is a parameter of that kind, by its own name or the operator's. */
static bool has_param(const Artifact *a, ArtifactParamKind kind, const char *name) {
    for (size_t i = 0; i < a->param_count; i++) {
        const ArtifactParam *p = &a->params[i];
        if (p->kind != kind) continue;
        if (strcmp(p->name, name) == 0 || (p->graph_name && strcmp(p->graph_name, name) == 0)) return true;
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

RtError api_run_options(const sketchc_run_options *o, const Artifact *a, Arena *arena, RtOptions *r) {
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
                     .give_up_s = o->give_up_s,
                     .on_progress = o->on_progress,
                     .progress_context = o->progress_context};
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

sketchc_status api_status_of(const RtError *error) {
    return (sketchc_status)rt_status_exit_code(error->status);
}

/* What runs, verifies or times, and its results. */
typedef struct Execution {
    const Artifact *artifact;
    const sketchc_run_options *options;
    /* Executes and reports; where the options made no sense (`given`), reports that. The error is what the report says. */
    RtError (*execute)(struct Execution *x, RtError given, RtOptions *options, Arena *arena, Str *out);
    const sketchc_file *inputs, *outputs;
    size_t input_count, output_count;
    const char *format;
    char *report;
    sketchc_status status;
} Execution;

static void execute_call(void *call) {
    Execution *x = call;
    Arena *arena = arena_create();
    RtOptions o;
    Str out;
    str_init(&out);
    RtError error = x->execute(x, api_run_options(x->options, x->artifact, arena, &o), &o, arena, &out);
    x->report = api_string(&out);
    x->status = api_status_of(&error);
    str_release(&out);
    arena_destroy(arena);
}

static sketchc_status execute(Execution x, char **report) {
    bool done = memory_guard(execute_call, &x);
    *report = done ? x.report : NULL;
    return done ? x.status : SKETCHC_OUT_OF_MEMORY;
}

static RtError execute_run(Execution *x, RtError error, RtOptions *o, Arena *arena, Str *out) {
    if (error.status == RT_OK)
        error = rt_run(x->artifact, o, x->input_count, files(arena, x->inputs, x->input_count), x->output_count,
                       files(arena, x->outputs, x->output_count));
    if (is_json(x->format))
        rt_run_json(x->artifact, &error, out);
    else if (error.status != RT_OK || error.text[0])
        str_printf(out, "%s: %s\n", rt_status_name(error.status), error.text);
    return error;
}

sketchc_status sketchc_run(const sketchc_artifact *artifact, const sketchc_run_options *options, const sketchc_file *inputs,
                           size_t input_count, const sketchc_file *outputs, size_t output_count, const char *format, char **report) {
    return execute((Execution){.artifact = artifact->artifact,
                               .options = options,
                               .execute = execute_run,
                               .inputs = inputs,
                               .outputs = outputs,
                               .input_count = input_count,
                               .output_count = output_count,
                               .format = format},
                   report);
}

static RtError execute_verify(Execution *x, RtError given, RtOptions *o, Arena *arena, Str *out) {
    RtVerifyReport r = {.error = given};
    if (given.status == RT_OK) r = rt_verify(x->artifact, o, arena);
    if (is_json(x->format))
        rt_verify_json(x->artifact, &r, out);
    else
        rt_verify_text(x->artifact, &r, x->format && strcmp(x->format, "verbose") == 0, out);
    return r.error;
}

sketchc_status sketchc_verify(const sketchc_artifact *artifact, const sketchc_run_options *options, const char *format, char **report) {
    return execute((Execution){.artifact = artifact->artifact, .options = options, .execute = execute_verify, .format = format}, report);
}

/* What the artifact's machine is described to do at most. */
static void describe_peaks(const Artifact *a, Arena *arena, RtOptions *o) {
    DiagList diags;
    diag_list_init(&diags, arena, source_map_create(arena));
    const Target *t = a->target == ARTIFACT_CUDA ? target_find(arena, &diags, a->arch) : NULL;
    if (!t) return;
    int64_t most = t->copy_gb_s > t->read_gb_s ? t->copy_gb_s : t->read_gb_s;
    o->peak_arch = t->arch;
    o->peak_gb_per_s = (double)(most > t->fill_gb_s ? most : t->fill_gb_s);
    o->peak_products_sm = (double)t->clock_mhz * 1e6 * (double)t->mma_clock;
    o->peak_cache_bytes = (double)t->l2_bytes;
}

static RtError execute_bench(Execution *x, RtError given, RtOptions *o, Arena *arena, Str *out) {
    RtBenchReport r = {.error = given};
    if (given.status == RT_OK) {
        describe_peaks(x->artifact, arena, o);
        r = rt_bench(x->artifact, o, arena);
    }
    if (is_json(x->format))
        rt_bench_json(x->artifact, &r, out);
    else
        rt_bench_text(x->artifact, &r, out);
    return r.error;
}

sketchc_status sketchc_bench(const sketchc_artifact *artifact, const sketchc_run_options *options, const char *format, char **report) {
    return execute((Execution){.artifact = artifact->artifact, .options = options, .execute = execute_bench, .format = format}, report);
}

typedef struct {
    bool openmp, json;
    RtOptions options;
    char *report;
    sketchc_status status;
} Calibration;

static void calibrate_call(void *call) {
    Calibration *c = call;
    RtCeilings ceilings;
    RtError error = rt_calibrate(c->openmp, &c->options, &ceilings);
    Str out;
    str_init(&out);
    if (c->json)
        rt_ceilings_json(&ceilings, &error, &out);
    else
        rt_ceilings_text(&ceilings, &error, &out);
    c->report = api_string(&out);
    c->status = api_status_of(&error);
    str_release(&out);
}

sketchc_status sketchc_calibrate(const char *target, const sketchc_run_options *options, const char *format, char **report) {
    bool known = options && options->size == sizeof *options;
    Calibration c = {.openmp = target && strcmp(target, "openmp") == 0, .json = is_json(format)};
    c.options = (RtOptions){.cache_dir = known ? options->cache_dir : NULL, .device = known ? options->device : 0};
    bool done = memory_guard(calibrate_call, &c);
    *report = done ? c.report : NULL;
    return done ? c.status : SKETCHC_OUT_OF_MEMORY;
}

/* ---- In the caller's process ---- */

/* The public handle is the runtime's. */
static RtKernel *kernel_of(const sketchc_kernel *kernel) {
    return (RtKernel *)(uintptr_t)kernel;
}

typedef struct {
    const Artifact *artifact;
    const sketchc_run_options *options;
    const sketchc_buffer *buffers;
    size_t buffer_count;
    RtKernel *kernel;
    void *stream;
    char *text;
    RtError error;
} KernelCall;

/* The error's text is the caller's where it wants one; no memory for the text changes nothing of the status. */
static sketchc_status told(bool done, const KernelCall *c, char **message) {
    if (message) *message = !done || c->error.status == RT_OK ? NULL : strdup(c->error.text);
    return done ? api_status_of(&c->error) : SKETCHC_OUT_OF_MEMORY;
}

static void open_call(void *call) {
    KernelCall *c = call;
    Arena *arena = arena_create();
    RtOptions o;
    c->error = api_run_options(c->options, c->artifact, arena, &o);
    if (c->error.status == RT_OK) {
        RtBuffer *list = ARENA_ARRAY(arena, RtBuffer, c->buffer_count + 1);
        for (size_t i = 0; i < c->buffer_count; i++)
            list[i] = (RtBuffer){c->buffers[i].name, (uint64_t)(uintptr_t)c->buffers[i].data, c->buffers[i].bytes};
        c->error = rt_kernel_open(c->artifact, &o, list, c->buffer_count, &c->kernel);
    }
    arena_destroy(arena);
}

sketchc_status sketchc_kernel_open(const sketchc_artifact *artifact, const sketchc_run_options *options, const sketchc_buffer *buffers,
                                   size_t buffer_count, sketchc_kernel **kernel, char **message) {
    KernelCall c = {.artifact = artifact->artifact, .options = options, .buffers = buffers, .buffer_count = buffer_count};
    bool done = memory_guard(open_call, &c);
    *kernel = done ? (sketchc_kernel *)c.kernel : NULL;
    return told(done, &c, message);
}

static void launch_call(void *call) {
    KernelCall *c = call;
    c->error = rt_kernel_launch(c->kernel, c->stream);
}

sketchc_status sketchc_kernel_launch(sketchc_kernel *kernel, void *stream, char **message) {
    KernelCall c = {.kernel = kernel_of(kernel), .stream = stream};
    return told(memory_guard(launch_call, &c), &c, message);
}

static void info_call(void *call) {
    KernelCall *c = call;
    Str out;
    str_init(&out);
    rt_kernel_json(c->kernel, &out);
    c->text = api_string(&out);
    str_release(&out);
}

char *sketchc_kernel_info(const sketchc_kernel *kernel) {
    KernelCall c = {.kernel = kernel_of(kernel)};
    return memory_guard(info_call, &c) ? c.text : NULL;
}

void sketchc_kernel_close(sketchc_kernel *kernel) {
    rt_kernel_close(kernel_of(kernel));
}
