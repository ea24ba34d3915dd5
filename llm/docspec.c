/* Reading documents: front matter, built-in and the user's. */
#include "docspec.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "document_data.h"

enum { DOCUMENT_LIMIT = 256 << 10, OWN_LIMIT = 500 };

static const char *const categories[DOC_CATEGORY_COUNT] = {"basic", "api", "expert", "example"};

const char *doc_category_name(DocCategory c) {
    return categories[c];
}

/* ---- Front matter ---- */

typedef struct {
    Arena *arena;
    const char *path;
    Document *doc;
    Str *problems;
    bool ok, has_category;
} Reader;

static void complain(Reader *r, unsigned line, const char *format, ...) PRINTF_LIKE(3, 4);
static void complain(Reader *r, unsigned line, const char *format, ...) {
    va_list args;
    r->ok = false;
    str_printf(r->problems, "%s:%u: ", r->path, line);
    va_start(args, format);
    str_vprintf(r->problems, format, args);
    va_end(args);
    str_append_char(r->problems, '\n');
}

static const char *trimmed(Arena *arena, const char *text, size_t size) {
    while (size && strchr(" \t\r", text[size - 1])) size--;
    while (size && strchr(" \t", *text)) text++, size--;
    return arena_strndup(arena, text, size);
}

static void set_category(Reader *r, unsigned line, const char *value) {
    for (int i = 0; i < DOC_CATEGORY_COUNT; i++)
        if (strcmp(categories[i], value) == 0) {
            r->doc->category = (DocCategory)i;
            r->has_category = true;
        }
    if (!r->has_category) complain(r, line, "category is basic, api, expert or example");
}

static void set_field(Reader *r, unsigned line, const char *name, const char *value) {
    Document *d = r->doc;
    if (strcmp(name, "title") == 0) {
        d->title = value;
    } else if (strcmp(name, "category") == 0) {
        set_category(r, line, value);
    } else if (strcmp(name, "scope") == 0) {
        d->scope = value;
    } else if (strcmp(name, "operations") == 0) {
        d->operations = value;
    } else if (strcmp(name, "priority") == 0) {
        d->priority = value[0] - '0';
        if (!value[0] || value[1] || value[0] < '0' || value[0] > '9') complain(r, line, "priority is a digit, 0 to 9");
    } else if (strcmp(name, "fixed") == 0) {
        d->fixed = strcmp(value, "true") == 0;
        if (!d->fixed && strcmp(value, "false") != 0) complain(r, line, "fixed is true or false");
    } else {
        complain(r, line, "the front matter has no member \"%.40s\"", name);
    }
}

/* Behind the line at `p`, which ends at `end` at the latest. */
static const char *next_line(const char *p, const char *end, size_t *size) {
    const char *newline = memchr(p, '\n', (size_t)(end - p));
    *size = (size_t)((newline ? newline : end) - p);
    return newline ? newline + 1 : end;
}

static bool is_fence(const char *line, size_t size) {
    return size >= 3 && memcmp(line, "---", 3) == 0 && (size == 3 || (size == 4 && line[3] == '\r'));
}

/* The members, up to the second fence; gives what follows it. */
static const char *read_front(Reader *r, const char *p, const char *end) {
    size_t size;
    const char *line = p;
    p = next_line(p, end, &size);
    if (!is_fence(line, size)) {
        complain(r, 1, "a document begins with a front matter between lines of ---");
        return line;
    }
    for (unsigned number = 2; p < end; number++) {
        line = p;
        p = next_line(p, end, &size);
        if (is_fence(line, size)) return p;
        const char *text = trimmed(r->arena, line, size), *colon = strchr(text, ':');
        const char *comment = strstr(text, " #");
        size_t length = comment ? (size_t)(comment - text) : strlen(text);
        if (colon && colon < text + length)
            set_field(r, number, trimmed(r->arena, text, (size_t)(colon - text)),
                      trimmed(r->arena, colon + 1, (size_t)(text + length - colon - 1)));
        else if (text[0])
            complain(r, number, "a line of the front matter is \"name: value\"");
    }
    complain(r, 1, "the front matter is not closed by ---");
    return end;
}

static const char *stem(Arena *arena, const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    return dot && dot > name ? arena_strndup(arena, name, (size_t)(dot - name)) : arena_strdup(arena, name);
}

bool document_parse(Arena *arena, const char *path, const char *text, size_t size, Document *doc, Str *problems) {
    *doc = (Document){.name = stem(arena, path), .title = "", .scope = "", .operations = "", .body = "", .priority = 5};
    Reader r = {arena, path, doc, problems, true, false};
    if (size > DOCUMENT_LIMIT) {
        complain(&r, 1, "a document has at most 256 KiB");
        return false;
    }
    if (memchr(text, 0, size)) {
        complain(&r, 1, "a document is text, without NUL bytes");
        return false;
    }
    const char *body = read_front(&r, text, text + size), *end = text + size;
    while (body < end && strchr(" \t\r\n", *body)) body++;
    while (end > body && strchr(" \t\r\n", end[-1])) end--;
    doc->body = arena_strndup(arena, body, (size_t)(end - body));
    if (r.ok && !doc->title[0]) complain(&r, 1, "the front matter has no title");
    if (r.ok && !r.has_category) complain(&r, 1, "the front matter has no category");
    if (r.ok && !doc->scope[0]) complain(&r, 1, "the front matter has no scope");
    if (r.ok && !doc->body[0]) complain(&r, 1, "there is nothing behind the front matter");
    return r.ok;
}

/* ---- Loading ---- */

const char *docspec_folder(Arena *arena) {
    const char *data = env_get(ENV_XDG_DATA_HOME), *home = env_get(ENV_HOME);
    if (data && data[0] == '/') return arena_printf(arena, "%s/sketchc/docspec", data);
    return home && home[0] == '/' ? arena_printf(arena, "%s/.local/share/sketchc/docspec", home) : NULL;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_document(const struct dirent *entry) {
    size_t n = strlen(entry->d_name);
    return entry->d_name[0] != '.' && n > 3 && strcmp(entry->d_name + n - 3, ".md") == 0;
}

static void load_own(Documents *d, const char *folder, Str *problems) {
    struct dirent **entries;
    int count = scandir(folder, &entries, is_document, by_name);
    for (int i = 0; i < count; i++) {
        const char *path = arena_printf(d->arena, "%s/%s", folder, entries[i]->d_name);
        Str text;
        str_init(&text);
        Document doc;
        bool ok = i < OWN_LIMIT && file_read_regular(path, DOCUMENT_LIMIT, &text);
        if (!ok) str_printf(problems, "%s: cannot be read\n", path);
        if (ok && document_parse(d->arena, path, text.data, text.len, &doc, problems)) {
            doc.own = true;
            VEC_PUSH(d->arena, &d->list, doc);
        }
        str_release(&text);
        free(entries[i]);
    }
    if (count >= 0) free(entries);
}

void docspec_load(Documents *d, const char *folder, Str *problems) {
    *d = (Documents){.arena = arena_create()};
    for (size_t i = 0; i < COUNT_OF(llm_documents); i++) {
        Document doc;
        const char *path = arena_printf(d->arena, "%s.md", llm_documents[i].name);
        if (document_parse(d->arena, path, llm_documents[i].text, llm_documents[i].size, &doc, problems)) VEC_PUSH(d->arena, &d->list, doc);
    }
    if (folder) load_own(d, folder, problems);
}

void docspec_release(Documents *d) {
    arena_destroy(d->arena);
    *d = (Documents){0};
}

/* ---- Matching ---- */

/* The items of a list with commas, one after the other; false at the end. Commas in quotes are an item's own. */
static bool next_item(const char **p, const char **item, size_t *size) {
    *p += strspn(*p, " ,");
    if (!**p) return false;
    *item = *p;
    const char *quote = **p == '"' ? strchr(*p + 1, '"') : NULL;
    *size = quote ? (size_t)(quote + 1 - *p) : 0;
    *size += strcspn(*p + *size, ",");
    *p += *size;
    while (*size && (*item)[*size - 1] == ' ') --*size;
    return true;
}

static bool list_has(const char *list, const char *word) {
    const char *item;
    for (size_t n; word && next_item(&list, &item, &n);)
        if (strlen(word) == n && memcmp(word, item, n) == 0) return true;
    return false;
}

bool document_covers(const Document *doc, const char *target, const char *arch) {
    return list_has(doc->scope, "language") || list_has(doc->scope, target) || list_has(doc->scope, arch);
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Where it begins or ends with a letter, a word begins or ends; signs such as @ anywhere. */
static bool occurs(const char *text, const char *word) {
    size_t n = strlen(word);
    for (const char *p = text; n && (p = strstr(p, word)); p++) {
        bool begins = !is_word(word[0]) || p == text || !is_word(p[-1]);
        if (begins && (!is_word(word[n - 1]) || !is_word(p[n]))) return true;
    }
    return false;
}

/* A word that is called: what a tensor or a comment is called is no operation. */
static bool calls(const char *text, const char *word) {
    size_t n = strlen(word);
    for (const char *p = text; n && (p = strstr(p, word)); p++)
        if ((p == text || !is_word(p[-1])) && p[n + strspn(p + n, " ")] == '(') return true;
    return false;
}

/* An element whose index is an element: W[I[i], j]. */
static bool picks(const char *text) {
    unsigned depth = 0;
    for (const char *p = text; *p; p++) {
        if (*p == ']' && depth) depth--;
        if (*p != '[') continue;
        bool reads = p > text && (is_word(p[-1]) || p[-1] == ')');
        if (reads && depth) return true;
        depth += reads || depth;
    }
    return false;
}

static bool is_used(const char *text, const char *word, bool quoted) {
    if (strcmp(word, "[[") == 0) return picks(text);
    return quoted ? occurs(text, word) : calls(text, word);
}

const char *document_matches(Arena *arena, const Document *doc, const char *text) {
    const char *list = doc->operations, *item;
    if (!list[0]) return "";
    for (size_t n; next_item(&list, &item, &n);) {
        bool quoted = n > 2 && item[0] == '"';
        const char *word = arena_strndup(arena, item + quoted, n - 2 * quoted);
        if (is_used(text, word, quoted)) return strcmp(word, "[[") == 0 ? "an index within an index" : word;
    }
    return NULL;
}
