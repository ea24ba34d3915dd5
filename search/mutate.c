/* mutate.h. A sketch is an array of lines; a mutation picks one of the places where it applies. */
#include "mutate.h"

#include <stdlib.h>
#include <string.h>

/* Lines of a sketch that is changed; the compiler's own have some hundreds at most. */
enum { MAX_LINES = 4096 };

typedef struct {
    const char *text;
    size_t size;   /* without the newline */
    size_t indent; /* blanks before it */
} Line;

typedef struct {
    Line *lines;
    size_t count;
} Lines;

uint64_t mutate_random(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static Lines read_lines(const char *text) {
    Lines l = {.lines = calloc(MAX_LINES, sizeof(Line))};
    for (const char *p = text; l.lines && *p && l.count < MAX_LINES;) {
        Line *line = &l.lines[l.count++];
        line->text = p;
        line->size = strcspn(p, "\n");
        line->indent = strspn(p, " ");
        p += line->size;
        if (*p) p++;
    }
    return l;
}

static bool begins(const Line *l, const char *word) {
    size_t n = strlen(word);
    return l->size >= l->indent + n && strncmp(l->text + l->indent, word, n) == 0;
}

static bool is_for(const Line *l) {
    return begins(l, "for ");
}

/* Copies the lines, with `text` in place of the lines [from, from + removed). */
static void splice(const Lines *l, size_t from, size_t removed, const char *text, Str *out) {
    for (size_t i = 0; i < l->count; i++) {
        if (i == from) str_append(out, text);
        if (i >= from && i < from + removed) continue;
        str_append_n(out, l->lines[i].text, l->lines[i].size);
        str_append_char(out, '\n');
    }
}

/* ---- Numbers ---- */

/* A constexpr's number, in its declaration: `NAME = 64`. */
static const char *next_number(const char *p, const char *end) {
    for (; p < end; p++)
        if (p[0] == '=' && p + 2 < end && p[1] == ' ' && p[2] >= '0' && p[2] <= '9') return p + 2;
    return NULL;
}

static bool tune(const Lines *l, uint64_t *state, Str *out) {
    const char *places[64];
    size_t at[64], count = 0;
    for (size_t i = 0; i < l->count; i++) {
        if (!begins(&l->lines[i], "constexpr:")) continue;
        const char *end = l->lines[i].text + l->lines[i].size;
        for (const char *p = l->lines[i].text; (p = next_number(p, end)) && count < COUNT_OF(places);) {
            places[count] = p;
            at[count++] = i;
        }
    }
    if (!count) return false;
    size_t pick = mutate_random(state) % count;
    char *rest;
    long long value = strtoll(places[pick], &rest, 10), old = value;
    bool fraction = *rest == '.' || *rest == 'e';
    switch (mutate_random(state) % 4) {
    case 0:
        value /= 2;
        break;
    case 1:
        value *= 4;
        break;
    default:
        value *= 2;
    }
    if (fraction || value < 1 || value > 8192 || value == old) return false;
    Str line;
    str_init(&line);
    const Line *from = &l->lines[at[pick]];
    str_append_n(&line, from->text, (size_t)(places[pick] - from->text));
    str_printf(&line, "%lld", value);
    str_append_n(&line, rest, (size_t)(from->text + from->size - rest));
    str_append_char(&line, '\n');
    splice(l, at[pick], 1, line.data, out);
    str_release(&line);
    return true;
}

/* ---- Hints ---- */

/* Some loop, or SIZE_MAX. */
static size_t pick_loop(const Lines *l, uint64_t *state) {
    size_t count = 0;
    for (size_t i = 0; i < l->count; i++) count += is_for(&l->lines[i]);
    if (!count) return SIZE_MAX;
    size_t pick = mutate_random(state) % count;
    for (size_t i = 0;; i++)
        if (is_for(&l->lines[i]) && !pick--) return i;
}

/* Takes the loop's hint of this name away, or gives it one. */
static bool toggle(const Lines *l, uint64_t *state, const char *name, const char *hint, Str *out) {
    size_t loop = pick_loop(l, state), at = loop;
    if (loop == SIZE_MAX) return false;
    while (at > 0 && begins(&l->lines[at - 1], "@")) {
        at--;
        const Line *h = &l->lines[at];
        char start[64];
        snprintf(start, sizeof start, "@llm_hint(\"%s\"", name);
        if (begins(h, start)) {
            splice(l, at, 1, "", out);
            return true;
        }
    }
    Str text;
    str_init(&text);
    for (size_t i = 0; i < l->lines[loop].indent; i++) str_append_char(&text, ' ');
    str_append(&text, hint);
    str_append_char(&text, '\n');
    splice(l, loop, 0, text.data, out);
    str_release(&text);
    return true;
}

static bool unroll(const Lines *l, uint64_t *state, Str *out) {
    char hint[64];
    snprintf(hint, sizeof hint, "@llm_hint(\"unroll\", factor=%d)", 2 << mutate_random(state) % 3);
    return toggle(l, state, "unroll", hint, out);
}

static bool parallel(const Lines *l, uint64_t *state, Str *out) {
    return toggle(l, state, "parallel", "@llm_hint(\"parallel\", \"coreidx\")", out);
}

static bool pipeline(const Lines *l, uint64_t *state, Str *out) {
    char hint[64];
    snprintf(hint, sizeof hint, "@llm_hint(\"pipeline\", stages=%d)", 2 + (int)(mutate_random(state) % 3));
    return toggle(l, state, "pipeline", hint, out);
}

/* ---- Loops ---- */

/* The loop that is all of this loop's body begins; SIZE_MAX: there is none. */
static size_t inner_loop(const Lines *l, size_t loop) {
    size_t next = loop + 1;
    while (next < l->count && begins(&l->lines[next], "@")) next++;
    bool nested = next < l->count && is_for(&l->lines[next]) && l->lines[next].indent > l->lines[loop].indent;
    if (!nested) return SIZE_MAX;
    for (size_t i = next + 1; i < l->count && l->lines[i].indent > l->lines[loop].indent; i++)
        if (l->lines[i].indent <= l->lines[next].indent) return SIZE_MAX;
    return next;
}

static bool interchange(const Lines *l, uint64_t *state, Str *out) {
    size_t loop = pick_loop(l, state), inner = loop == SIZE_MAX ? loop : inner_loop(l, loop);
    if (inner == SIZE_MAX) return false;
    for (size_t i = 0; i < l->count; i++) {
        const Line *own = &l->lines[i], *from = i == loop ? &l->lines[inner] : i == inner ? &l->lines[loop] : own;
        str_append_n(out, own->text, own->indent);
        str_append_n(out, from->text + from->indent, from->size - from->indent);
        str_append_char(out, '\n');
    }
    return true;
}

/* ---- The table ---- */

static const struct {
    const char *name;
    bool (*apply)(const Lines *l, uint64_t *state, Str *out);
    const char *summary;
} mutations[] = {
#define MUTATION(id, name, apply, summary) {name, apply, summary},
#include "mutations.def"
#undef MUTATION
};

const char *mutation_name(Mutation mutation) {
    return mutations[mutation].name;
}
bool mutation_find(const char *name, Mutation *mutation) {
    for (size_t i = 0; i < MUTATION_COUNT; i++)
        if (strcmp(mutations[i].name, name) == 0) {
            *mutation = (Mutation)i;
            return true;
        }
    return false;
}

bool mutate_sketch(const char *sketch, Mutation mutation, uint64_t *state, Str *out) {
    str_release(out);
    str_init(out);
    Lines l = read_lines(sketch);
    bool changed = l.lines && mutations[mutation].apply(&l, state, out);
    free(l.lines);
    return changed;
}
