/* Which line of the source a line of IR or code comes from. */
#include "api_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static size_t line_length(const char *text) {
    return strcspn(text, "\n");
}

/* ---- Printed IR: by the ops' spans ---- */

uint32_t api_line_of(const sketchc_unit *unit, Span span) {
    const SourceFile *file = source_file(unit->sources, span.file);
    uint32_t line = 0, column;
    if (span.end > 0 && file) source_position(file, span.begin, &line, &column);
    return line;
}

void api_lines_of_ir(sketchc_unit *unit, const Str *text, const IrPlaces *places, LineMap *lines) {
    size_t next = 0;
    for (const char *at = text->data; *at;) {
        size_t end = (size_t)(at - text->data) + line_length(at);
        uint32_t line = 0;
        for (; next < places->len && places->data[next].offset < end; next++) line = api_line_of(unit, places->data[next].span);
        VEC_PUSH(unit->arena, lines, line);
        at = text->data + end;
        at += *at == '\n';
    }
}

/* ---- Code: by the comments that the emitters put before what comes from another line ---- */

/* The N of `// file:N`; 0: the line is no such comment. */
static uint32_t commented_line(const char *text, size_t length, const char *file) {
    size_t n = strlen(file), i = strspn(text, " \t");
    if (i + 3 + n + 1 >= length || strncmp(text + i, "// ", 3) != 0) return 0;
    const char *at = text + i + 3 + n;
    if (strncmp(text + i + 3, file, n) != 0 || *at++ != ':') return 0;
    uint32_t line = 0;
    for (; at < text + length && isdigit((unsigned char)*at); at++) line = line * 10 + (uint32_t)(*at - '0');
    return at == text + length ? line : 0;
}

/* What a comment says holds down to the next comment or to the end of the block that it stands in: of the first line
 * behind it, since directives (`#pragma`) and what stands before them keep to the margin. */
static void lines_of_comments(sketchc_unit *unit, const Str *text, LineMap *lines) {
    if (!unit->file->sketch) return;
    const char *path = source_file(unit->sources, unit->file->sketch->span.file)->path;
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    uint32_t line = 0;
    size_t depth = 0;
    for (const char *at = text->data; *at;) {
        size_t length = line_length(at), indent = strspn(at, " \t");
        uint32_t said = commented_line(at, length, file);
        if (said) {
            line = said;
            depth = SIZE_MAX;
        } else if (indent < length && at[indent] != '#') {
            if (depth == SIZE_MAX) depth = indent;
            if (indent < depth) line = 0;
        }
        VEC_PUSH(unit->arena, lines, line);
        at += length;
        at += *at == '\n';
    }
}

/* ---- PTX: by the directives `.loc FILE LINE COLUMN`, each in a line of its own ---- */

static bool begins(const char *line, const char *word) {
    size_t indent = strspn(line, " \t");
    return strncmp(line + indent, word, strlen(word)) == 0;
}

/* What comes with the directives, and is not in PTX without them. */
static bool comes_with_lines(const char *line) {
    static const char *const words[] = {".loc\t", ".file\t", ".section\t", "$L__func_", "$L__tmp"};
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (begins(line, words[i])) return true;
    return false;
}

static uint32_t located_line(const char *directive) {
    char *end;
    strtoul(strstr(directive, ".loc") + strlen(".loc"), &end, 10);
    return (uint32_t)strtoul(end, NULL, 10);
}

/* A directive holds down to the next one or to the end of its function. All are taken out of the text. */
static void lines_of_ptx(sketchc_unit *unit, Str *text, LineMap *lines) {
    Str kept;
    uint32_t line = 0;
    str_init(&kept);
    for (const char *at = text->data, *next; *at; at = next) {
        next = at + line_length(at);
        next += *next == '\n';
        if (begins(at, ".loc\t")) line = located_line(at);
        if (*at == '}') line = 0;
        if (comes_with_lines(at)) continue;
        str_append_n(&kept, at, (size_t)(next - at));
        VEC_PUSH(unit->arena, lines, line);
    }
    str_release(text);
    *text = kept;
}

void api_lines_of_code(sketchc_unit *unit, const Compile *c, Str *text, LineMap *lines) {
    if (c->line_directives && c->emitter == EMIT_NVPTX)
        lines_of_ptx(unit, text, lines);
    else
        lines_of_comments(unit, text, lines);
}
