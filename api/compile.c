/* From a source text to diagnostics, IR, code and artifacts. */
#include "api_internal.h"

#include "build.h"
#include "emit.h"
#include "frontend.h"
#include "sketchc_config.h"

#include <stdlib.h>
#include <string.h>

const char *sketchc_version(void) { return SKETCHC_VERSION; }
unsigned sketchc_api_version(void) { return SKETCHC_API_VERSION; }
void sketchc_free(void *memory) { free(memory); }

const char *sketchc_llvm_version(void) {
    return SKETCHC_HAVE_LLVM ? SKETCHC_LLVM_VERSION : NULL;
}

char *api_string(const Str *s) {
    char *copy = malloc(s->len + 1);
    if (!copy) return NULL;
    memcpy(copy, s->data, s->len);
    copy[s->len] = 0;
    return copy;
}

/* ---- Units ---- */

sketchc_unit *sketchc_unit_create(const char *path, const char *text, size_t size) {
    sketchc_unit *unit = calloc(1, sizeof *unit);
    if (!unit) return NULL;
    unit->source_arena = arena_create();
    if (!unit->source_arena) {
        free(unit);
        return NULL;
    }
    unit->path = arena_strdup(unit->source_arena, path ? path : "<memory>");
    unit->text = arena_strndup(unit->source_arena, text, size);
    unit->size = size;
    str_init(&unit->dump);
    str_init(&unit->times);
    str_init(&unit->reproducer);
    return unit;
}

void sketchc_unit_destroy(sketchc_unit *unit) {
    if (!unit) return;
    arena_destroy(unit->arena);
    arena_destroy(unit->source_arena);
    str_release(&unit->dump);
    str_release(&unit->times);
    str_release(&unit->reproducer);
    free(unit);
}

static void clear(Str *s) {
    str_release(s);
    str_init(s);
}

bool api_begin(sketchc_unit *unit) {
    arena_destroy(unit->arena);
    unit->arena = arena_create();
    if (!unit->arena) return false;
    unit->sources = source_map_create(unit->arena);
    diag_list_init(&unit->diags, unit->arena, unit->sources);
    unit->file = NULL;
    clear(&unit->dump);
    clear(&unit->times);
    clear(&unit->reproducer);
    return true;
}

sketchc_status api_status(const sketchc_unit *unit) {
    if (!unit->arena || !unit->diags.error_count) return SKETCHC_OK;
    for (const Diag *d = unit->diags.first; d; d = d->next)
        if (d->severity == SEVERITY_BUG) return SKETCHC_BUG;
    return SKETCHC_SOURCE_ERROR;
}

/* ---- Steps ---- */

bool api_check(sketchc_unit *unit, const sketchc_options *options) {
    uint32_t id = source_add(unit->sources, unit->path, unit->text, unit->size);
    unit->file = frontend_parse(unit->arena, unit->sources, id, &unit->diags);
    FrontendDefine *defines = ARENA_ARRAY(unit->arena, FrontendDefine, options->define_count + 1);
    for (size_t i = 0; i < options->define_count; i++)
        defines[i] = (FrontendDefine){options->defines[i].name, options->defines[i].value};
    FrontendOptions front = {.defines = defines, .define_count = options->define_count, .sketch = options->sketch};
    bool checked = frontend_check(unit->arena, unit->file, &front, &unit->diags);
    return checked && !unit->diags.error_count;
}

IrModule *api_build(sketchc_unit *unit) {
    IrModule *module = frontend_build(unit->arena, unit->sources, unit->file, &unit->diags);
    return unit->diags.error_count ? NULL : module;
}

static bool usage(sketchc_unit *unit, const char *text) {
    diag_report(&unit->diags, DIAG_bad_option, SPAN_NONE, text);
    return false;
}

bool api_target(sketchc_unit *unit, const sketchc_options *options, Compile *c) {
    static const struct {
        const char *name, *arch;
        int emitter;
    } targets[] = {{"nvptx", "sm_80", EMIT_NVPTX}, {"cuda", "sm_80", EMIT_CUDA}, {"openmp", "x86-64-v3", EMIT_OPENMP}};
    const char *name = options->target ? options->target : "nvptx";
    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        if (strcmp(targets[i].name, name) != 0) continue;
        c->given = *options;
        c->emitter = targets[i].emitter;
        const char *arch = options->arch ? options->arch : targets[i].arch;
        c->target = options->target_file
                        ? target_parse(unit->arena, &unit->diags, arch, options->target_file, strlen(options->target_file))
                        : target_find(unit->arena, &unit->diags, arch);
        if (!c->target) return false;
        if ((c->target->kind == TARGET_CPU) != (c->emitter == EMIT_OPENMP))
            return usage(unit, arena_printf(unit->arena, "--arch=%s does not go with -t %s", arch, name));
        return true;
    }
    return usage(unit, arena_printf(unit->arena, "there is no target \"%s\"; the targets are nvptx, cuda and openmp", name));
}

bool api_lower(sketchc_unit *unit, const Compile *c, IrModule *module) {
    PassContext ctx = {.module = module,
                       .target = c->target,
                       .diags = &unit->diags,
                       .deterministic = c->given.deterministic,
                       .strict_hints = c->given.strict_hints};
    PassOptions options = {.print_after = c->given.print_ir_after,
                           .stop_after = c->given.stop_after,
                           .verify_each = c->given.verify_each,
                           .dump = &unit->dump};
    size_t count;
    const PassId *passes = pipeline_for(c->target->kind, &count);
    if (c->given.passes && !pipeline_parse(unit->arena, &unit->diags, c->given.passes, &passes, &count)) return false;
    PassReport report;
    pass_report_init(&report);
    bool ok = passes_run(&ctx, passes, count, &options, &report);
    pass_report_print(&report, &unit->times);
    if (!ok && api_status(unit) == SKETCHC_BUG) str_append(&unit->reproducer, report.reproducer.data);
    pass_report_release(&report);
    return ok;
}

static IrModule *graph_only(sketchc_unit *unit, bool *none) {
    IrModule *module = api_build(unit);
    *none = true;
    for (IrFunc *f = module ? module->first : NULL, *next; f; f = next) {
        next = f->next;
        if (f->level == IR_LEVEL_GRAPH) *none = false;
        else ir_func_remove(f);
    }
    return module;
}

static void keep_level(IrModule *module, unsigned level) {
    for (IrFunc *f = module->first, *next; f; f = next) {
        next = f->next;
        if (f->level != level) ir_func_remove(f);
    }
}

static bool emit_form(sketchc_unit *unit, const Compile *c, const IrModule *kernels, const char *form, Str *out) {
    EmitOptions options = {.arch = c->target->arch, .fault = c->given.fault};
    if (strcmp(form, "ptx") == 0) return emit_ptx(kernels, &options, out, &unit->diags);
    if (strcmp(form, "llvm") == 0) return emit_llvm(kernels, &options, out, &unit->diags);
    if (strcmp(form, "cuda") == 0) return emit_cuda(kernels, &options, out, &unit->diags);
    return emit_openmp(kernels, &options, out, &unit->diags);
}

/* Code beyond this is refused: no assembler takes it in reasonable time. */
enum { CODE_LIMIT = 16 << 20 };

static bool emit_code(sketchc_unit *unit, const Compile *c, const IrModule *kernels, const char *form, Str *out) {
    if (!emit_form(unit, c, kernels, form, out)) return false;
    if (out->len <= CODE_LIMIT) return true;
    diag_report(&unit->diags, DIAG_code_too_large, SPAN_NONE, (long long)out->len, (long long)CODE_LIMIT);
    return false;
}

static const char *code_form(const Compile *c) {
    return c->emitter == EMIT_NVPTX ? "ptx" : c->emitter == EMIT_CUDA ? "cuda" : "c";
}

/* The tile function of a built module: what the sketch declares. */
static const IrFunc *tile_function(const IrModule *m) {
    for (const IrFunc *f = m->first; f; f = f->next)
        if (f->level == IR_LEVEL_TILE) return f;
    return NULL;
}

static const char *constant_text(Arena *arena, const ConstValue *v) {
    if (v->kind == CONST_STRING || (v->kind == CONST_FLOAT && v->s)) return v->s;
    if (v->kind == CONST_INT) return arena_printf(arena, "%lld", (long long)v->i);
    if (v->kind == CONST_BOOL) return v->i ? "true" : "false";
    Str text;
    str_init(&text);
    str_append_double(&text, v->f);
    const char *copy = arena_strdup(arena, text.data);
    str_release(&text);
    return copy;
}

/* The constexprs of the sketch with the values that were taken. */
static size_t taken_constexprs(Arena *arena, const Block *sketch, const ArtifactConstexpr **list) {
    size_t count = 0;
    ArtifactConstexpr *taken = ARENA_ARRAY(arena, ArtifactConstexpr, (sketch ? sketch->decl_count : 0) + 1);
    for (size_t i = 0; sketch && i < sketch->decl_count; i++) {
        const Decl *d = sketch->decls[i];
        if (d->kind == DECL_CONSTEXPR && d->constant.kind != CONST_NONE)
            taken[count++] = (ArtifactConstexpr){d->name, constant_text(arena, &d->constant)};
    }
    *list = taken;
    return count;
}

/* `implements op(X=A)`: where the operator's names are others. Symbols follow from the shapes. */
static size_t renames(Arena *arena, const Block *sketch, const ArtifactRename **list) {
    size_t count = 0;
    ArtifactRename *names = ARENA_ARRAY(arena, ArtifactRename, (sketch ? sketch->binding_count : 0) + 1);
    for (size_t i = 0; sketch && i < sketch->binding_count; i++) {
        const Binding *b = &sketch->bindings[i];
        if (b->sketch_decl && strcmp(b->sketch_decl->name, b->op_decl->name) != 0)
            names[count++] = (ArtifactRename){b->sketch_decl->name, b->op_decl->name};
    }
    *list = names;
    return count;
}

Artifact *api_artifact(sketchc_unit *unit, const Compile *c, Arena *arena) {
    IrModule *signature = api_build(unit), *kernels = signature ? api_build(unit) : NULL;
    bool no_graph = true;
    IrModule *graph = kernels ? graph_only(unit, &no_graph) : NULL;
    if (!graph) return NULL;
    keep_level(kernels, IR_LEVEL_TILE);
    if (!api_lower(unit, c, kernels)) return NULL;
    Str code;
    str_init(&code);
    Artifact *artifact = NULL;
    static const ArtifactBlobKind kinds[] = {ARTIFACT_PTX, ARTIFACT_CUDA_C, ARTIFACT_C};
    if (emit_code(unit, c, kernels, code_form(c), &code)) {
        ArtifactBlob blob = {kinds[c->emitter], c->target->arch, (const unsigned char *)code.data, code.len};
        const IrFunc *declared = tile_function(signature);
        ArtifactSpec spec = {.kernels = kernels, .signature = declared, .graph = no_graph ? NULL : graph,
                             .name = declared ? declared->name : "kernel", .arch = c->target->arch,
                             .tool_version = SKETCHC_VERSION,
                             .target = c->emitter == EMIT_OPENMP ? ARTIFACT_CPU : ARTIFACT_CUDA,
                             .blob_count = 1, .blobs = &blob};
        spec.constexpr_count = taken_constexprs(arena, unit->file->sketch, &spec.constexprs);
        spec.rename_count = renames(arena, unit->file->sketch, &spec.renames);
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
           usage(unit, "sketchc_options.size is not that of this version of the library");
}

/* An error target for running out of memory, around `body`. */
#define GUARDED(unit, body)                                                                        \
    do {                                                                                           \
        jmp_buf oom;                                                                               \
        if (!api_begin(unit)) return SKETCHC_BUG;                                                  \
        if (setjmp(oom)) return SKETCHC_BUG;                                                       \
        arena_set_oom_target((unit)->arena, &oom);                                                 \
        body;                                                                                      \
        arena_set_oom_target((unit)->arena, NULL);                                                 \
    } while (0)

static void check_into(sketchc_unit *unit, const sketchc_options *options) {
    if (known_options(unit, &options)) api_check(unit, options);
}

sketchc_status sketchc_check(sketchc_unit *unit, const sketchc_options *options) {
    GUARDED(unit, check_into(unit, options));
    return api_status(unit);
}

static void emit_into(sketchc_unit *unit, const sketchc_options *options, const char *form, Str *out) {
    Compile c = {0};
    if (!known_options(unit, &options)) return;
    bool checked = api_check(unit, options);
    if (strcmp(form, "ast") == 0) {
        ast_print(unit->file, out);
        return;
    }
    if (!checked || !api_target(unit, options, &c)) return;
    if (strcmp(form, "artifact") == 0) {
        Artifact *artifact = api_artifact(unit, &c, unit->arena);
        if (artifact) artifact_write(artifact, out);
        return;
    }
    IrModule *module = api_build(unit);
    if (!module) return;
    if (strcmp(form, "graph") == 0 || strcmp(form, "tile") == 0) {
        keep_level(module, form[0] == 'g' ? IR_LEVEL_GRAPH : IR_LEVEL_TILE);
        ir_print(module, out);
        return;
    }
    keep_level(module, IR_LEVEL_TILE);
    if (!module->first) {
        diag_report(&unit->diags, DIAG_no_sketch, SPAN_NONE);
        return;
    }
    if (!api_lower(unit, &c, module)) return;
    if (strcmp(form, "kernel") == 0 || options->stop_after) ir_print(module, out);
    else emit_code(unit, &c, module, form, out);
}

static bool known_form(const char *form) {
    static const char *const forms[] = {"ast", "graph", "tile", "kernel", "llvm", "ptx", "cuda", "c", "artifact"};
    for (size_t i = 0; i < COUNT_OF(forms); i++)
        if (strcmp(forms[i], form) == 0) return true;
    return false;
}

sketchc_status sketchc_emit(sketchc_unit *unit, const sketchc_options *options, const char *form, char **data,
                            size_t *size) {
    *data = NULL;
    *size = 0;
    Str out;
    str_init(&out);
    GUARDED(unit, {
        if (known_form(form)) emit_into(unit, options, form, &out);
        else usage(unit, arena_printf(unit->arena, "there is no output form \"%s\"", form));
    });
    sketchc_status status = api_status(unit);
    if (status == SKETCHC_OK) {
        *data = api_string(&out);
        *size = out.len;
    }
    str_release(&out);
    return status;
}

static sketchc_artifact *compile_into(sketchc_unit *unit, const sketchc_options *options) {
    Compile c = {0};
    if (!known_options(unit, &options) || !api_check(unit, options) || !api_target(unit, options, &c)) return NULL;
    Arena *arena = arena_create();
    Artifact *artifact = arena ? api_artifact(unit, &c, arena) : NULL;
    sketchc_artifact *result = artifact ? calloc(1, sizeof *result) : NULL;
    if (result) *result = (sketchc_artifact){arena, artifact};
    else arena_destroy(arena);
    return result;
}

sketchc_status sketchc_compile(sketchc_unit *unit, const sketchc_options *options, sketchc_artifact **result) {
    *result = NULL;
    GUARDED(unit, *result = compile_into(unit, options));
    return api_status(unit);
}

/* ---- Diagnostics ---- */

char *sketchc_diagnostics(const sketchc_unit *unit, const char *format) {
    Str out;
    str_init(&out);
    if (unit->arena) {
        if (strcmp(format, "json") == 0) diag_render_json(&unit->diags, &out);
        else if (strcmp(format, "sarif") == 0) diag_render_sarif(&unit->diags, SKETCHC_VERSION, &out);
        else diag_render_text(&unit->diags, strcmp(format, "color") == 0, &out);
    }
    char *text = api_string(&out);
    str_release(&out);
    return text;
}

unsigned sketchc_error_count(const sketchc_unit *unit) { return unit->arena ? unit->diags.error_count : 0; }
char *sketchc_ir_dump(const sketchc_unit *unit) { return api_string(&unit->dump); }
char *sketchc_time_report(const sketchc_unit *unit) { return api_string(&unit->times); }

char *sketchc_reproducer(const sketchc_unit *unit) {
    return unit->reproducer.len ? api_string(&unit->reproducer) : NULL;
}

const char *sketchc_explain(const char *code) {
    DiagId id;
    return diag_find(code, &id) ? diag_explanation(id) : NULL;
}
