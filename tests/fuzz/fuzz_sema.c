/* The whole front end on any bytes: parse, check, print and, without errors, lower to IR. A first
 * line `#D NAME=VALUE NAME=VALUE` gives values as -D does. */
#include "build.h"

#include <stdlib.h>
#include <string.h>

enum { DEFINES_MAX = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t read_defines(Arena *unit, const uint8_t *data, size_t size, FrontendDefine *defines) {
    if (size < 3 || memcmp(data, "#D ", 3) != 0) return 0;
    char *line = arena_strndup(unit, (const char *)data + 3, size - 3), *rest = NULL;
    line[strcspn(line, "\n")] = 0;
    size_t count = 0;
    for (char *word = strtok_r(line, " ", &rest); word && count < DEFINES_MAX; word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');
        if (!equals) continue;
        *equals = 0;
        defines[count++] = (FrontendDefine){word, equals + 1};
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Arena *unit = arena_create();
    SourceMap *sources = source_map_create(unit);
    DiagList diags;
    FrontendDefine defines[DEFINES_MAX];
    FrontendOptions options = {.defines = defines};
    diag_list_init(&diags, unit, sources);
    options.define_count = read_defines(unit, data, size, defines);
    uint32_t id = source_add(sources, "fuzz", (const char *)data, size);
    File *file = frontend_parse(unit, sources, id, &diags);
    bool ok = frontend_check(unit, file, &options, &diags);
    if (ok && diags.error_count) abort(); /* an error that the caller would not see */
    Str out;
    str_init(&out);
    ast_print(file, &out);
    if (ok && !frontend_build(unit, sources, file, &diags) && !diags.error_count) abort();
    diag_render_json(&diags, &out);
    str_release(&out);
    arena_destroy(unit);
    return 0;
}
