/* From a source text to IR, code and artifacts. */
#include "api_internal.h"

#include "emit.h"
#include "frontend.h"
#include "memory.h"
#include "runtime.h"
#include "sketchc_config.h"

#include <stdlib.h>
#include <string.h>

/* ---- Artifacts ---- */

/* The tile function of a built module: what the sketch declares. */
static const IrFunc *tile_function(const IrModule *m) {
    for (const IrFunc *f = m->first; f; f = f->next)
        if (f->level == IR_LEVEL_TILE) return f;
    return NULL;
}

typedef struct {
    const SourceMap *sources;
    Arena *arena;
    VEC(int64_t) places;
} Places;

static void note_place(void *ctx, IrOp *op) {
    Places *p = ctx;
    uint32_t line = 0, column = 0;
    bool compares = op->opcode == IR_LT || op->opcode == IR_LE || op->opcode == IR_EQ || op->opcode == IR_NE;
    if (!compares && op->opcode != IR_IF && op->opcode != IR_FOR && op->opcode != IR_PARALLEL) return;
    const SourceFile *file = op->span.file ? source_file(p->sources, op->span.file) : NULL;
    if (file) source_position(file, op->span.begin, &line, &column);
    VEC_PUSH(p->arena, &p->places, line);
    VEC_PUSH(p->arena, &p->places, column);
}

/* The tile functions as text, with the places of what verify/branches.c looks at. */
static const char *sketch_text(sketchc_unit *unit, IrModule *m, Arena *arena) {
    Str text;
    m->case_count = 0;
    for (IrFunc *f = m->first; f; f = f->next) {
        Places p = {.sources = unit->sources, .arena = arena};
        ir_walk(f->body, note_place, &p);
        if (p.places.len) ir_func_set_ints(f, IR_FN_PLACES, p.places.len, p.places.data);
    }
    str_init(&text);
    ir_print(m, &text);
    const char *copy = arena_strndup(arena, text.data, text.len);
    str_release(&text);
    return copy;
}

Artifact *api_artifact(sketchc_unit *unit, const Compile *c, Arena *arena) {
    IrModule *kernels = api_build(unit);
    if (!kernels) return NULL;
    IrModule *graph = ir_module_copy(kernels, IR_LEVEL_GRAPH), *signature = ir_module_copy(kernels, IR_LEVEL_TILE);
    bool no_graph = !graph->first;
    api_keep_level(kernels, IR_LEVEL_TILE);
    if (!kernels->first) {
        api_report_no_sketch(unit);
        return NULL;
    }
    if (!api_lower(unit, c, kernels)) return NULL;
    Str code;
    str_init(&code);
    Artifact *artifact = NULL;
    const EmitTarget *emitter = emit_target(c->emitter);
    if (api_code(unit, c, kernels, emitter->form, &code)) {
        ArtifactBlob blob = {emitter->blob, c->target->arch, (const unsigned char *)code.data, code.len};
        const IrFunc *declared = tile_function(signature);
        ArtifactSpec spec = {.kernels = kernels,
                             .signature = declared,
                             .graph = no_graph && !graph->case_count ? NULL : graph,
                             .name = declared ? declared->name : "kernel",
                             .arch = c->target->arch,
                             .tool_version = SKETCHC_VERSION,
                             .target = emitter->cpu ? ARTIFACT_CPU : ARTIFACT_CUDA,
                             .blob_count = 1,
                             .blobs = &blob};
        spec.constexpr_count = api_constexprs(arena, unit->file->sketch, &spec.constexprs);
        spec.rename_count = api_renames(arena, unit->file->sketch, &spec.renames);
        if (!no_graph) spec.sketch = sketch_text(unit, signature, arena);
        const char *error = NULL;
        artifact = artifact_from_module(arena, &spec, &error);
        if (!artifact) diag_report(&unit->diags, DIAG_pass_failed, SPAN_NONE, "artifact", error ? error : "no plan");
    }
    str_release(&code);
    return artifact;
}

/* ---- The interface ---- */

static const sketchc_options no_options = {.size = sizeof(sketchc_options)};

static bool known_options(sketchc_unit *unit, const sketchc_options **options) {
    if (!*options) *options = &no_options;
    return (*options)->size == sizeof(sketchc_options) ||
           api_usage(unit, "sketchc_options.size is not that of this version of the library");
}

/* The arguments of a call, and its results. */
typedef struct {
    sketchc_unit *unit;
    const sketchc_options *options;
    const char *form;
    char **data;
    size_t *size;
    uint32_t **lines;
    size_t *line_count;
    sketchc_artifact **artifact;
} Call;

static sketchc_status end_of(sketchc_unit *unit, bool done) {
    return done ? api_status(unit) : SKETCHC_OUT_OF_MEMORY;
}

static void hand_out(const Call *c, Str *out) {
    if (api_status(c->unit) == SKETCHC_OK) {
        *c->data = api_string(out);
        *c->size = out->len;
    }
    str_release(out);
}

static void check_call(void *call) {
    Call *c = call;
    if (known_options(c->unit, &c->options)) api_check(c->unit, c->options);
}

sketchc_status sketchc_check(sketchc_unit *unit, const sketchc_options *options) {
    Call c = {.unit = unit, .options = options};
    return end_of(unit, api_call(unit, check_call, &c));
}

/* A form of code by CUDA's own tools. */
static void emit_cubin(sketchc_unit *unit, const Compile *c, Str *out) {
    Artifact *artifact = api_artifact(unit, c, unit->arena);
    if (!artifact) return;
    api_progress(unit, &c->given, "assembling with", "ptxas");
    RtError e = rt_cubin(artifact, NULL, out);
    if (e.status == RT_MISSING)
        diag_report(&unit->diags, DIAG_no_tool, SPAN_NONE, e.text);
    else if (e.status != RT_OK)
        diag_report(&unit->diags, DIAG_tool_failed, SPAN_NONE, e.text);
}

static void emit_artifact(sketchc_unit *unit, const Compile *c, Str *out) {
    Artifact *artifact = api_artifact(unit, c, unit->arena);
    if (artifact) artifact_write(artifact, out);
}

static void print_ir(sketchc_unit *unit, const IrModule *module, Str *out) {
    ir_print_places(module, unit->arena, out, unit->places);
}

static void emit_lowered(sketchc_unit *unit, const Compile *c, const char *form, IrModule *module, Str *out) {
    api_keep_level(module, IR_LEVEL_TILE);
    if (!module->first) {
        api_report_no_sketch(unit);
        return;
    }
    if (!api_lower(unit, c, module)) return;
    if (strcmp(form, "kernel") == 0 || c->given.stop_after)
        print_ir(unit, module, out);
    else
        api_code(unit, c, module, form, out);
}

static void emit_module(sketchc_unit *unit, const Compile *c, const char *form, Str *out) {
    IrModule *module = api_build(unit);
    if (!module) return;
    bool graph = strcmp(form, "graph") == 0;
    if (!graph && strcmp(form, "tile") != 0) {
        emit_lowered(unit, c, form, module, out);
        return;
    }
    api_keep_level(module, graph ? IR_LEVEL_GRAPH : IR_LEVEL_TILE);
    print_ir(unit, module, out);
}

/* What is compiled, as a file of its own: the operator, then the sketch, in the user's words. */
static void emit_sketch(sketchc_unit *unit, Str *out) {
    const Block *blocks[] = {unit->file->op, unit->file->sketch};
    if (!unit->file->sketch) {
        api_report_no_sketch(unit);
        return;
    }
    str_printf(out, "edition %lld\n", (long long)unit->file->edition);
    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
        if (!blocks[i]) continue;
        Span span = blocks[i]->span;
        const SourceFile *source = source_file(unit->sources, span.file);
        str_append_char(out, '\n');
        str_append_n(out, source->text + span.begin, span.end - span.begin);
        str_append_char(out, '\n');
    }
}

static void emit_into(sketchc_unit *unit, const sketchc_options *options, const char *form, Compile *c, Str *out) {
    if (!known_options(unit, &options)) return;
    bool source = form && (strcmp(form, "ast") == 0 || strcmp(form, "graph") == 0);
    bool checked = source ? api_check(unit, options) : api_check_with_sketch(unit, options);
    if (form && strcmp(form, "ast") == 0) ast_print(unit->file, out);
    if ((form && strcmp(form, "ast") == 0) || !checked || !api_target(unit, options, form, c)) return;
    if (!form) form = emit_target(c->emitter)->form;
    if (strcmp(form, "artifact") == 0)
        emit_artifact(unit, c, out);
    else if (strcmp(form, "cubin") == 0)
        emit_cubin(unit, c, out);
    else if (strcmp(form, "sketch") == 0)
        emit_sketch(unit, out);
    else
        emit_module(unit, c, form, out);
}

static bool known_form(const char *form) {
    static const char *const forms[] = {"ast", "graph", "tile", "kernel", "sketch", "artifact"};
    for (size_t i = 0; form && i < COUNT_OF(forms); i++)
        if (strcmp(forms[i], form) == 0) return true;
    return !form || emit_form_named(form);
}

static void emit_call(void *call) {
    Call *c = call;
    Str out;
    Compile compile = {0};
    str_init(&out);
    if (known_form(c->form))
        emit_into(c->unit, c->options, c->form, &compile, &out);
    else
        api_usage(c->unit, arena_printf(c->unit->arena, "there is no output form \"%s\"", c->form));
    hand_out(c, &out);
}

sketchc_status sketchc_emit(sketchc_unit *unit, const sketchc_options *options, const char *form, char **data, size_t *size) {
    Call c = {.unit = unit, .options = options, .form = form, .data = data, .size = size};
    *data = NULL;
    *size = 0;
    return end_of(unit, api_call(unit, emit_call, &c));
}

static void lines_into(sketchc_unit *unit, const sketchc_options *options, const char *form, Str *out, LineMap *lines) {
    IrPlaces places = {0};
    Compile c = {.line_directives = !form || strcmp(form, "ptx") == 0};
    unit->places = &places;
    emit_into(unit, options, form, &c, out);
    unit->places = NULL;
    if (unit->diags.error_count || unit->designed) return; /* its lines are not the caller's */
    if (places.len)
        api_lines_of_ir(unit, out, &places, lines);
    else
        api_lines_of_code(unit, &c, out, lines);
}

/* Of two copies the first is freed where the second cannot be had. */
static void hand_lines_out(const Call *c, const LineMap *map, Str *out) {
    if (api_status(c->unit) == SKETCHC_OK) {
        uint32_t *lines = malloc((map->len + 1) * sizeof *lines);
        char *data = lines ? malloc(out->len + 1) : NULL;
        if (!data) {
            free(lines);
            memory_out();
        }
        if (map->len) memcpy(lines, map->data, map->len * sizeof *lines);
        memcpy(data, out->data, out->len + 1);
        *c->lines = lines;
        *c->line_count = map->len;
        *c->data = data;
    }
    str_release(out);
}

static void emit_lines_call(void *call) {
    Call *c = call;
    Str out;
    LineMap map = {0};
    str_init(&out);
    if (known_form(c->form) && !(c->form && strcmp(c->form, "artifact") == 0))
        lines_into(c->unit, c->options, c->form, &out, &map);
    else
        api_usage(c->unit, arena_printf(c->unit->arena, "\"%s\" is no form of text", c->form));
    hand_lines_out(c, &map, &out);
}

sketchc_status sketchc_emit_lines(sketchc_unit *unit, const sketchc_options *options, const char *form, char **data, uint32_t **lines,
                                  size_t *line_count) {
    Call c = {.unit = unit, .options = options, .form = form, .data = data, .lines = lines, .line_count = line_count};
    *data = NULL;
    *lines = NULL;
    *line_count = 0;
    return end_of(unit, api_call(unit, emit_lines_call, &c));
}

/* ---- The page that explains (page.c) ---- */

static void page_call(void *call) {
    Call *c = call;
    Compile compile = {0};
    Str out;
    str_init(&out);
    if (known_options(c->unit, &c->options) && api_check_with_sketch(c->unit, c->options) &&
        api_target(c->unit, c->options, NULL, &compile))
        api_page(c->unit, &compile, &out);
    hand_out(c, &out);
}

sketchc_status sketchc_explain_page(sketchc_unit *unit, const sketchc_options *options, char **text, size_t *size) {
    Call c = {.unit = unit, .options = options, .data = text, .size = size};
    *text = NULL;
    *size = 0;
    return end_of(unit, api_call(unit, page_call, &c));
}

static void compile_call(void *call) {
    Call *c = call;
    Compile compile = {0};
    if (!known_options(c->unit, &c->options) || !api_check_with_sketch(c->unit, c->options) ||
        !api_target(c->unit, c->options, NULL, &compile))
        return;
    sketchc_artifact *result = memory_alloc(sizeof *result);
    Arena *arena = arena_create();
    Artifact *artifact = api_artifact(c->unit, &compile, arena);
    *result = (sketchc_artifact){arena, artifact};
    if (artifact)
        *c->artifact = result;
    else
        sketchc_artifact_destroy(result);
}

sketchc_status sketchc_compile(sketchc_unit *unit, const sketchc_options *options, sketchc_artifact **result) {
    Call c = {.unit = unit, .options = options, .artifact = result};
    *result = NULL;
    return end_of(unit, api_call(unit, compile_call, &c));
}
