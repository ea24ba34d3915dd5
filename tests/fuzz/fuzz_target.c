/* A target document from any bytes: a target, or an error that says why not. */
#include "target.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Arena *arena = arena_create();
    DiagList diags;
    diag_list_init(&diags, arena, source_map_create(arena));
    const Target *target = target_parse(arena, &diags, "fuzz", (const char *)data, size);
    if (!target && !diags.error_count) abort();
    arena_destroy(arena);
    return 0;
}
