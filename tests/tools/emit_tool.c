/* Kernel IR text to code: emit_tool FILE.skir -t cuda|openmp|nvptx|llvm [--arch=A] [--no-lines]
 * [--no-launcher] [--source=PATH] [--fault=NAME]. Tests the emitters without front end and passes.
 */
#include "emit.h"

#include <stdlib.h>
#include <string.h>

typedef bool (*Emitter)(const IrModule *m, const EmitOptions *options, Str *out, DiagList *diags);

static Emitter emitter_of(const char *target) {
    if (strcmp(target, "cuda") == 0) return emit_cuda;
    if (strcmp(target, "openmp") == 0) return emit_openmp;
    if (strcmp(target, "nvptx") == 0) return emit_ptx;
    return strcmp(target, "llvm") == 0 ? emit_llvm : NULL;
}

static const char *option(const char *arg, const char *name) {
    size_t n = strlen(name);
    return strncmp(arg, name, n) == 0 ? arg + n : NULL;
}

static bool read_options(int argc, char **argv, EmitOptions *o, const char **path, const char **target) {
    for (int i = 1; i < argc; i++) {
        const char *value;
        if (strcmp(argv[i], "-t") == 0 && i + 1 < argc)
            *target = argv[++i];
        else if ((value = option(argv[i], "--arch=")))
            o->arch = value;
        else if ((value = option(argv[i], "--source=")))
            o->source_path = value;
        else if ((value = option(argv[i], "--fault=")))
            o->fault = value;
        else if (strcmp(argv[i], "--no-lines") == 0)
            o->no_lines = true;
        else if (strcmp(argv[i], "--no-launcher") == 0)
            o->no_launcher = true;
        else if (!*path)
            *path = argv[i];
        else
            return false;
    }
    return *path && *target;
}

int main(int argc, char **argv) {
    EmitOptions options = {0};
    const char *path = NULL, *target = NULL;
    if (!read_options(argc, argv, &options, &path, &target) || !emitter_of(target)) return 2;
    Str text, out, messages;
    str_init(&text);
    str_init(&out);
    str_init(&messages);
    if (!file_read(path, 1 << 24, &text)) return 2;
    Arena *unit = arena_create();
    SourceMap *sources = source_map_create(unit);
    DiagList diags;
    diag_list_init(&diags, unit, sources);
    IrModule *m = ir_parse(unit, &diags, path, text.data, text.len);
    bool ok = m && emitter_of(target)(m, &options, &out, &diags);
    diag_render_text(&diags, false, &messages);
    fwrite(out.data, 1, out.len, stdout);
    fwrite(messages.data, 1, messages.len, stderr);
    str_release(&text);
    str_release(&out);
    str_release(&messages);
    arena_destroy(unit);
    return ok ? 0 : 1;
}
