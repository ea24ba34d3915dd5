#include "diag.h"

struct SourceMap {
    Arena *arena;
    VEC(SourceFile *) files; /* file n is files.data[n - 1] */
};

SourceMap *source_map_create(Arena *unit) {
    SourceMap *map = ARENA_NEW(unit, SourceMap);
    map->arena = unit;
    return map;
}

static void find_lines(Arena *arena, SourceFile *file) {
    uint32_t count = 1;
    for (size_t i = 0; i < file->size; i++) count += file->text[i] == '\n';
    file->line_starts = ARENA_ARRAY(arena, uint32_t, count);
    file->line_count = count;
    uint32_t line = 1;
    for (size_t i = 0; i < file->size; i++)
        if (file->text[i] == '\n') file->line_starts[line++] = (uint32_t)(i + 1);
}

uint32_t source_add(SourceMap *map, const char *path, const char *text, size_t size) {
    SourceFile *file = ARENA_NEW(map->arena, SourceFile);
    file->path = arena_strdup(map->arena, path);
    file->text = arena_strndup(map->arena, text, size);
    file->size = size;
    find_lines(map->arena, file);
    VEC_PUSH(map->arena, &map->files, file);
    return (uint32_t)map->files.len;
}

const SourceFile *source_file(const SourceMap *map, uint32_t file) {
    return file && file <= map->files.len ? map->files.data[file - 1] : NULL;
}

void source_position(const SourceFile *file, uint32_t offset, uint32_t *line, uint32_t *column) {
    if (offset > file->size) offset = (uint32_t)file->size;
    uint32_t low = 0, high = file->line_count; /* line_starts[low] <= offset < line_starts[high] */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (file->line_starts[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    *line = low + 1;
    *column = offset - file->line_starts[low] + 1;
}

/* Spans of different files do not join: the first one stands. */
Span span_join(Span a, Span b) {
    if (!a.file) return b;
    if (a.file != b.file) return a;
    return (Span){a.file, a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end};
}
