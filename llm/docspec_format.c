/* Raw documentation to the standard form. */
#include "docspec.h"

#include <string.h>

enum { WIDTH = 120 };

typedef struct {
    Str *out;
    Str paragraph; /* words with single blanks */
    bool in_code, in_comment, any;
    bool in_list; /* the last line stood alone, with no blank line since */
} Writer;

static void blank(Writer *w) {
    if (w->any) str_append_char(w->out, '\n');
    w->any = true;
}

static void end_paragraph(Writer *w) {
    if (!w->paragraph.len) return;
    blank(w);
    size_t column = 0;
    for (const char *p = w->paragraph.data; *p;) {
        size_t n = strcspn(p, " ");
        if (column && column + 1 + n > WIDTH) {
            str_append_char(w->out, '\n');
            column = 0;
        } else if (column) {
            str_append_char(w->out, ' ');
            column++;
        }
        str_append_n(w->out, p, n);
        column += n;
        p += n + (p[n] == ' ');
    }
    str_append_char(w->out, '\n');
    str_release(&w->paragraph);
    str_init(&w->paragraph);
}

static bool is_tag(const char *p, const char *end) {
    if (p + 1 >= end) return false;
    char c = p[1] == '/' && p + 2 < end ? p[2] : p[1];
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '!';
}

/* Behind an image or the target of a link, which say nothing to a reader without a browser. */
static const char *skip_markup(const char *p, const char *end, Writer *w) {
    if (end - p >= 4 && memcmp(p, "<!--", 4) == 0) {
        w->in_comment = true;
        return p + 4;
    }
    if (*p == '<' && is_tag(p, end)) {
        const char *close = memchr(p, '>', (size_t)(end - p));
        return close ? close + 1 : p;
    }
    if (*p == ']' && p + 1 < end && p[1] == '(') {
        const char *close = memchr(p, ')', (size_t)(end - p));
        return close ? close + 1 : p;
    }
    return p;
}

/* Adds the words of a line of prose. Code between backquotes stays as it is. */
static void add_prose(Writer *w, const char *p, const char *end) {
    bool quoted = false, space = w->paragraph.len > 0;
    while (p < end) {
        if (w->in_comment) {
            bool closes = end - p >= 3 && memcmp(p, "-->", 3) == 0;
            w->in_comment = !closes;
            p += closes ? 3 : 1;
            continue;
        }
        const char *after = quoted ? p : skip_markup(p, end, w);
        if (after != p) {
            p = after;
            continue;
        }
        bool opens_link =
            !quoted && *p == '[' && memchr(p, ']', (size_t)(end - p)) && ((const char *)memchr(p, ']', (size_t)(end - p)))[1] == '(';
        if (*p == '`') quoted = !quoted;
        if (strchr(" \t\r", *p)) {
            space = true;
        } else if (!opens_link) {
            if (space && w->paragraph.len) str_append_char(&w->paragraph, ' ');
            space = false;
            str_append_char(&w->paragraph, *p);
        }
        p++;
    }
}

static bool begins(const char *line, size_t size, const char *with) {
    size_t n = strlen(with);
    return size >= n && memcmp(line, with, n) == 0;
}

/* Lists, headings, tables and indented text keep their lines. */
static bool stands_alone(const char *line, size_t size) {
    size_t digits = strspn(line, "0123456789");
    return begins(line, size, "#") || begins(line, size, "- ") || begins(line, size, "* ") || begins(line, size, "|") ||
           begins(line, size, "    ") || begins(line, size, "  ") || (digits && digits < size && line[digits] == '.');
}

static void add_line(Writer *w, const char *line, size_t size) {
    while (size && strchr(" \t\r", line[size - 1])) size--;
    bool fence = begins(line, size, "```") && !w->in_comment;
    if (fence || w->in_code) {
        if (fence && !w->in_code) end_paragraph(w), blank(w);
        w->in_list = false;
        if (fence) w->in_code = !w->in_code;
        str_append_n(w->out, line, size);
        str_append_char(w->out, '\n');
    } else if (!size) {
        end_paragraph(w);
        w->in_list = false;
    } else if (!w->in_comment && stands_alone(line, size)) {
        end_paragraph(w);
        if (!w->in_list || line[0] == '#') blank(w);
        str_append_n(w->out, line, size);
        str_append_char(w->out, '\n');
        w->in_list = line[0] != '#';
    } else {
        w->in_list = false;
        add_prose(w, line, line + size);
    }
}

/* The first heading, or else the file's name, is the title of a text that has no front matter. */
static void make_front(const char *path, const char *text, Str *out) {
    const char *heading = strncmp(text, "# ", 2) == 0 ? text : strstr(text, "\n# ");
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    str_append(out, "---\ntitle: ");
    if (heading) {
        heading = strchr(heading, '#') + 1;
        heading += strspn(heading, " ");
        size_t n = strcspn(heading, "\r\n");
        for (size_t i = 0; i < n; i++) str_append_char(out, heading[i] == ':' || heading[i] == '#' ? ' ' : heading[i]);
    } else {
        str_append_n(out, name, strcspn(name, "."));
    }
    str_append(out, "\ncategory: expert\nscope: language\n---\n");
}

void document_format(const char *path, const char *text, size_t size, Str *out) {
    Writer w = {.out = out};
    str_init(&w.paragraph);
    const char *p = text, *end = text + size;
    bool front = size >= 4 && memcmp(text, "---\n", 4) == 0;
    const char *close = front ? strstr(text + 3, "\n---\n") : NULL;
    if (close) {
        str_append_n(out, text, (size_t)(close + 5 - text));
        p = close + 5;
    } else {
        make_front(path, text, out);
    }
    while (p < end) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((newline ? newline : end) - p);
        add_line(&w, p, n);
        p = newline ? newline + 1 : end;
    }
    end_paragraph(&w);
    str_release(&w.paragraph);
}

/* ---- Shorter ---- */

/* The next line that begins with a fence, at or behind `p`; null. */
static const char *fence(const char *p) {
    while (p && *p && strncmp(p, "```", 3) != 0) p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL;
    return p && *p ? p : NULL;
}

/* The code block at or behind *p with its fences; *p goes behind it. */
static const char *code_block(const char **p, size_t *size) {
    const char *begin = fence(*p), *line = begin ? strchr(begin, '\n') : NULL, *end = line ? fence(line + 1) : NULL;
    *p = end ? end + 3 : NULL;
    *size = end ? (size_t)(end + 3 - begin) : 0;
    return end ? begin : NULL;
}

/* The same code blocks in the same order, and no others. */
static bool same_code(const char *a, const char *b) {
    for (;;) {
        size_t n, k;
        const char *x = code_block(&a, &n), *y = code_block(&b, &k);
        if (!x || !y) return !x && !y;
        if (n != k || memcmp(x, y, n) != 0) return false;
    }
}

bool document_shortened(const char *path, const char *formed, const char *shorter, Str *out) {
    static const char end[] = "\n---\n";
    const char *front = strstr(formed, end), *body = front ? front + sizeof end - 1 : NULL;
    while (*shorter == '\n' || *shorter == ' ') shorter++;
    if (!body || !*shorter || strncmp(shorter, "---", 3) == 0 || strlen(shorter) >= strlen(body)) return false;
    if (!same_code(body, shorter)) return false;
    Str whole;
    str_init(&whole);
    str_append_n(&whole, formed, (size_t)(body - formed));
    str_append_char(&whole, '\n');
    str_append(&whole, shorter);
    document_format(path, whole.data, whole.len, out);
    str_release(&whole);
    return true;
}
