/* A unified diff by the longest common subsequence of lines. */
#include "diff.h"

#include <string.h>

enum { CONTEXT = 3, MAX_CELLS = 1 << 24 };

typedef struct {
    const char *text;
    size_t length;
} Line;

typedef struct {
    Line *data;
    size_t count;
} Lines;

/* ' ' common, '-' only before, '+' only after. */
typedef struct {
    char sign;
    Line line;
} Edit;
typedef struct {
    Edit *data;
    size_t len, cap;
} Edits;

static Lines split(Arena *arena, const Str *text) {
    Lines lines = {0};
    size_t count = 1;
    for (size_t i = 0; i < text->len; i++) count += text->data[i] == '\n';
    lines.data = ARENA_ARRAY(arena, Line, count);
    const char *at = text->data, *end = text->data + text->len;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        lines.data[lines.count++] = (Line){at, (size_t)(stop - at)};
        at = stop + 1;
    }
    return lines;
}

static bool same(const Line *a, const Line *b) {
    return a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
}

static void add(Arena *arena, Edits *edits, char sign, Line line) {
    VEC_PUSH(arena, edits, ((Edit){sign, line}));
}

/* Edits of the parts that differ, after a common start and before a common end. */
static void edit_middle(Arena *arena, Lines a, Lines b, Edits *out) {
    size_t i = 0, j = 0, width = b.count + 1;
    bool fits = a.count < MAX_CELLS / width;
    uint32_t *best = fits ? ARENA_ARRAY(arena, uint32_t, (a.count + 1) * width) : NULL;
    for (size_t r = a.count; fits && r-- > 0;)
        for (size_t c = b.count; c-- > 0;) {
            uint32_t down = best[(r + 1) * width + c], right = best[r * width + c + 1];
            best[r * width + c] = same(&a.data[r], &b.data[c]) ? best[(r + 1) * width + c + 1] + 1 : down > right ? down : right;
        }
    while (fits && i < a.count && j < b.count) {
        if (same(&a.data[i], &b.data[j])) {
            add(arena, out, ' ', a.data[i]);
            i++, j++;
        } else if (best[(i + 1) * width + j] >= best[i * width + j + 1]) {
            add(arena, out, '-', a.data[i++]);
        } else {
            add(arena, out, '+', b.data[j++]);
        }
    }
    while (i < a.count) add(arena, out, '-', a.data[i++]);
    while (j < b.count) add(arena, out, '+', b.data[j++]);
}

static Edits edits_of(Arena *arena, Lines a, Lines b) {
    Edits edits = {0};
    size_t start = 0, end = 0;
    while (start < a.count && start < b.count && same(&a.data[start], &b.data[start])) start++;
    while (end < a.count - start && end < b.count - start && same(&a.data[a.count - 1 - end], &b.data[b.count - 1 - end])) end++;
    for (size_t i = 0; i < start; i++) add(arena, &edits, ' ', a.data[i]);
    edit_middle(arena, (Lines){a.data + start, a.count - start - end}, (Lines){b.data + start, b.count - start - end}, &edits);
    for (size_t i = a.count - end; i < a.count; i++) add(arena, &edits, ' ', a.data[i]);
    return edits;
}

/* The end of the hunk that begins at `from`: behind its last change and some context. */
static size_t hunk_end(const Edits *edits, size_t from) {
    size_t end = from, quiet = 0;
    for (size_t i = from; i < edits->len && quiet <= 2 * CONTEXT; i++) {
        quiet = edits->data[i].sign == ' ' ? quiet + 1 : 0;
        if (!quiet) end = i + 1;
    }
    return end + CONTEXT < edits->len ? end + CONTEXT : edits->len;
}

static void put_hunk(const Edits *edits, size_t from, size_t to, size_t old_line, size_t new_line, Str *out) {
    size_t old_count = 0, new_count = 0;
    for (size_t i = from; i < to; i++) {
        old_count += edits->data[i].sign != '+';
        new_count += edits->data[i].sign != '-';
    }
    str_printf(out, "@@ -%zu,%zu +%zu,%zu @@\n", old_line, old_count, new_line, new_count);
    for (size_t i = from; i < to; i++) {
        str_append_char(out, edits->data[i].sign);
        str_append_n(out, edits->data[i].line.text, edits->data[i].line.length);
        str_append_char(out, '\n');
    }
}

void diff_lines(const char *path, const Str *from, const Str *to, Str *out) {
    Arena *arena = arena_create();
    Edits edits = edits_of(arena, split(arena, from), split(arena, to));
    size_t old_line = 1, new_line = 1, at = 0;
    bool any = false;
    while (at < edits.len) {
        size_t change = at;
        while (change < edits.len && edits.data[change].sign == ' ') change++;
        if (change == edits.len) break;
        size_t begin = change - at > CONTEXT ? change - CONTEXT : at, end = hunk_end(&edits, change);
        old_line += begin - at;
        new_line += begin - at;
        if (!any) str_printf(out, "--- %s\n+++ %s\n", path, path);
        any = true;
        put_hunk(&edits, begin, end, old_line, new_line, out);
        for (at = begin; at < end; at++) {
            old_line += edits.data[at].sign != '+';
            new_line += edits.data[at].sign != '-';
        }
    }
    arena_destroy(arena);
}
