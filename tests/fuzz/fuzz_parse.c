/* Scanner and parser on any bytes: a tree comes back and prints, the diagnostics render. */
#include "frontend.h"

#include <stdlib.h>

enum { PRINT_EVERY = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Arena *unit = arena_create();
    SourceMap *sources = source_map_create(unit);
    DiagList diags;
    diag_list_init(&diags, unit, sources);
    uint32_t id = source_add(sources, "fuzz", (const char *)data, size);
    File *file = frontend_parse(unit, sources, id, &diags);
    if (!file) abort();
    /* Printing takes several times as long as parsing and depends less on the input. */
    if (size % PRINT_EVERY == 0) {
        Str out;
        str_init(&out);
        ast_print(file, &out);
        diag_render_text(&diags, true, &out);
        diag_render_json(&diags, &out);
        str_release(&out);
    }
    arena_destroy(unit);
    return 0;
}
