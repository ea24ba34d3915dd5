/* What formatting must keep; for the tests of frontend/ and of random sketches. */
#ifndef TESTS_FORMAT_TEXT_H
#define TESTS_FORMAT_TEXT_H

#include "parse_text.h"

/* The text in the one style, malloc'ed, or null when it does not parse. */
static char *formatted(const char *text, size_t size, size_t *length) {
    Arena *arena = arena_create();
    SourceMap *sources = source_map_create(arena);
    DiagList diags;
    diag_list_init(&diags, arena, sources);
    uint32_t id = source_add(sources, "test.sketch", text, size);
    Str out;
    str_init(&out);
    bool ok = frontend_format(arena, sources, id, &diags, &out);
    CHECK(ok || (diags.error_count && out.len == 0));
    char *copy = ok ? malloc(out.len + 1) : NULL;
    if (copy) memcpy(copy, out.data, out.len + 1);
    *length = out.len;
    str_release(&out);
    arena_destroy(arena);
    return copy;
}

static void print_tree(const char *text, size_t size, Str *out) {
    Checked c = parse_text(text, size, NULL);
    str_init(out);
    ast_print(c.file, out);
    arena_destroy(c.arena);
}

/* Formatting once more changes nothing, and the tree stays. False when the text does not parse. */
static bool check_text(const char *path, const char *text, size_t size) {
    size_t once_size, twice_size;
    char *once = formatted(text, size, &once_size);
    if (!once) return false;
    char *twice = formatted(once, once_size, &twice_size);
    if (!twice || strcmp(once, twice) != 0) {
        fprintf(stderr, "%s: formatting again changes it:\n%s\nand then\n%s", path, once, twice ? twice : "does not parse");
        exit(1);
    }
    Str before, after;
    print_tree(text, size, &before);
    print_tree(once, once_size, &after);
    if (strcmp(before.data, after.data) != 0) {
        fprintf(stderr, "%s: another tree:\n%s\nand formatted\n%s", path, before.data, after.data);
        exit(1);
    }
    str_release(&before);
    str_release(&after);
    free(once);
    free(twice);
    return true;
}

#endif
