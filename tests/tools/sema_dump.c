/* sema_dump [--deterministic] [--emit=ast] [--parse-only] [--json] [-D NAME=VALUE]... [--sketch=NAME] FILE
 * Parses and checks one file; diagnostics go to standard output. Status 1 when there are errors. */
#include "frontend.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    const char *path;
    bool emit_ast, parse_only, json, timing;
    FrontendDefine defines[64];
    FrontendOptions options;
} Command;

static bool read_option(Command *c, Arena *arena, char **argv, int *at) {
    const char *arg = argv[*at];
    if (strcmp(arg, "--emit=ast") == 0)
        c->emit_ast = true;
    else if (strcmp(arg, "--deterministic") == 0)
        c->options.deterministic = true;
    else if (strcmp(arg, "--parse-only") == 0)
        c->parse_only = true;
    else if (strcmp(arg, "--json") == 0)
        c->json = true;
    else if (strcmp(arg, "--time") == 0)
        c->timing = true;
    else if (strncmp(arg, "--sketch=", 9) == 0)
        c->options.sketch = arg + 9;
    else if (strcmp(arg, "-D") == 0 && argv[*at + 1] && c->options.define_count < 64) {
        char *text = arena_strdup(arena, argv[++*at]), *eq = strchr(text, '=');
        if (!eq) return false;
        *eq = 0;
        c->defines[c->options.define_count++] = (FrontendDefine){text, eq + 1};
    } else if (arg[0] == '-' && arg[1])
        return false;
    else
        c->path = arg;
    return true;
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int main(int argc, char **argv) {
    Arena *arena = arena_create();
    Command c = {0};
    c.options.defines = c.defines;
    for (int i = 1; i < argc; i++)
        if (!read_option(&c, arena, argv, &i)) c.path = NULL, i = argc;
    Str text, out;
    str_init(&text);
    str_init(&out);
    if (!c.path || !file_read(c.path, FRONTEND_MAX_SOURCE + 4096, &text)) {
        fprintf(stderr, "usage: sema_dump [options] FILE (see the head of sema_dump.c)\n");
        return 2;
    }
    SourceMap *sources = source_map_create(arena);
    DiagList diags;
    diag_list_init(&diags, arena, sources);
    const char *shown = strrchr(c.path, '/') ? strrchr(c.path, '/') + 1 : c.path;
    uint32_t id = source_add(sources, shown, text.data, text.len);
    double start = now_ms();
    File *file = frontend_parse(arena, sources, id, &diags);
    double parsed = now_ms();
    if (!c.parse_only) frontend_check(arena, file, &c.options, &diags);
    double checked = now_ms();
    if (c.emit_ast) ast_print(file, &out);
    if (c.json)
        diag_render_json(&diags, &out);
    else
        diag_render_text(&diags, false, &out);
    fwrite(out.data, 1, out.len, stdout);
    if (c.timing) fprintf(stderr, "parse %.1f ms, check %.1f ms\n", parsed - start, checked - parsed);
    int status = diags.error_count ? 1 : 0;
    str_release(&text);
    str_release(&out);
    arena_destroy(arena);
    return status;
}
