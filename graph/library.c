/* library: texts to tokens; library.h says what they are. */
#include "library.h"

#include "library_sketches.h"

#include <stdlib.h>
#include <string.h>

size_t library_count(void) {
    return COUNT_OF(library_sketches);
}

LibraryFile library_file(size_t index) {
    return (LibraryFile){library_sketches[index].name, library_sketches[index].text, false};
}

/* ---- Tokens ---- */

static bool starts_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool goes_on(char c) {
    return starts_word(c) || (c >= '0' && c <= '9');
}

bool library_is_word(const char *text) {
    return starts_word(text[0]);
}

/* A number with its fraction and exponent. */
static size_t number_length(const char *at) {
    size_t n = 1;
    while (goes_on(at[n]) || at[n] == '.' || (strchr("+-", at[n]) && at[n] && strchr("eE", at[n - 1]))) n++;
    return n;
}

static size_t token_length(const char *at) {
    static const char *const pairs[] = {"->", "//", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "<<", ">>"};
    size_t n = 1;
    if (starts_word(*at)) {
        while (goes_on(at[n])) n++;
        return n;
    }
    if (*at >= '0' && *at <= '9') return number_length(at);
    if (*at == '"') return strcspn(at + 1, "\"") + 2;
    for (size_t i = 0; i < COUNT_OF(pairs); i++)
        if (strncmp(at, pairs[i], 2) == 0) return 2;
    return 1;
}

static int depth_change(char c) {
    return strchr("([{", c) ? 1 : strchr(")]}", c) ? -1 : 0;
}

bool library_is(const LibraryLine *line, size_t i, const char *text) {
    return i < line->count && strcmp(line->tokens[i].text, text) == 0;
}

size_t library_item_end(const LibraryLine *line, size_t i) {
    for (int depth = 0; i < line->count; i++) {
        char c = line->tokens[i].text[0];
        depth += depth_change(c);
        if (depth < 0 || (depth == 0 && c == ',')) break;
    }
    return i;
}

/* ---- Statements ---- */

typedef struct {
    Arena *arena;
    const char *at;
} Reader;

/* The tokens up to the end of the statement: a line break outside of brackets; of a section its last semicolon. */
static LibraryLine read_line(Reader *r, bool section) {
    VEC(LibraryToken) tokens = {0};
    LibraryLine line = {0};
    while (r->at[line.level] == ' ') line.level++;
    line.level /= 4;
    for (int depth = 0; *r->at; r->at++) {
        bool space = false;
        for (; *r->at == ' ' || (*r->at == '\n' && (depth || (section && r->at[-1] != ';'))); r->at++) space = true;
        if (*r->at == '\n' || !*r->at) break;
        size_t n = token_length(r->at);
        depth += depth_change(*r->at);
        VEC_PUSH(r->arena, &tokens, (LibraryToken){arena_strndup(r->arena, r->at, n), space});
        r->at += n - 1;
    }
    if (*r->at) r->at++;
    line.tokens = tokens.data;
    line.count = tokens.len;
    return line;
}

static bool is_next(const Reader *r, const char *text) {
    const char *at = r->at + strspn(r->at, " ");
    return strncmp(at, text, strlen(text)) == 0;
}

static void add_tensors(Arena *arena, const LibraryLine *l, LibrarySketch *s) {
    for (size_t i = 2; i < l->count; i++) {
        LibraryTensor t = {.name = l->tokens[i].text};
        for (i += 2; i < l->count && !library_is(l, i, ":"); i++)
            if (library_is_word(l->tokens[i].text) && t.rank < LIBRARY_RANK) t.axes[t.rank++] = l->tokens[i].text;
        t.dtype = l->tokens[i + 1].text;
        VEC_PUSH(arena, &s->tensors, t);
        i += 2; /* at the semicolon */
    }
}

static void add_constexprs(Arena *arena, const LibraryLine *l, LibrarySketch *s) {
    for (size_t i = 2; i + 2 < l->count; i++) {
        LibraryConstexpr c = {.name = l->tokens[i].text};
        size_t end = library_item_end(l, i);
        for (i += 2; i < end; i++) {
            char *rest;
            long long value = strtoll(l->tokens[i].text, &rest, 10);
            if (rest != l->tokens[i].text && c.count < LIBRARY_VARIANTS) c.values[c.count++] = value;
        }
        VEC_PUSH(arena, &s->constexprs, c);
    }
}

/* require: M <= 128, named; */
static void add_requires(Arena *arena, const LibraryLine *l, LibrarySketch *s) {
    for (size_t i = 2, end; i + 1 < l->count; i = end + 1) {
        end = library_item_end(l, i);
        if (end == l->count) end--; /* the semicolon */
        LibraryLine condition = {.count = end - i, .tokens = l->tokens + i};
        VEC_PUSH(arena, &s->requires, condition);
        s->by_name |= condition.count == 1 && library_is(&condition, 0, "named");
    }
}

static void read_statement(Reader *r, LibrarySketch *s) {
    bool tensors = is_next(r, "tensors:"), constexprs = is_next(r, "constexpr:"), symbols = is_next(r, "symbols:"),
         requires = is_next(r, "require:");
    LibraryLine line = read_line(r, tensors || constexprs || symbols || requires);
    if (tensors)
        add_tensors(r->arena, &line, s);
    else if (constexprs)
        add_constexprs(r->arena, &line, s);
    else if (requires)
        add_requires(r->arena, &line, s);
    else if (line.count && !symbols)
        VEC_PUSH(r->arena, &s->lines, line);
}

LibraryLine library_line(Arena *arena, const char *text) {
    Reader r = {arena, text};
    return read_line(&r, false);
}

LibrarySketch *library_sketch(Arena *arena, const LibraryFile *file) {
    LibrarySketch *s = ARENA_NEW(arena, LibrarySketch);
    const char *begin = strstr(file->text, "\nsketch "), *line = begin ? strchr(begin + 1, '\n') : NULL;
    if (!line) return NULL;
    Reader r = {arena, line + 1};
    s->name = file->name;
    s->own = file->own;
    s->text = file->text;
    while (*r.at && *r.at != '}') read_statement(&r, s);
    return s;
}
