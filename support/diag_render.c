/* Diagnostics for a terminal:
 *
 *   x.sketch:3:14: error[E0101]: text
 *     3 |     for i in rnge(4):
 *       |              ^~~~
 *   x.sketch:1:1: note: text
 *   fix: title
 *     3 +     for i in range(4):
 *
 * Source text is shown as it is except for what would disturb a terminal or mislead its reader:
 * control characters, bytes that are not UTF-8, and bidirectional overrides. */
#include "diag.h"
#include "support_internal.h"

#include <string.h>

enum { WINDOW = 160, LEAD = 60 }; /* columns shown of a long line, and of them before the caret */

typedef struct {
    const DiagList *list;
    bool color;
    Str *out;
} Renderer;

typedef struct {
    uint32_t number, begin, end; /* 1-based number; bytes without the line end */
} Line;

static const char *const severity_names[] = {"note", "warning", "error", "internal error"};
static const char *const severity_colors[] = {"\033[1;36m", "\033[1;35m", "\033[1;31m", "\033[1;31m"};

static void paint(const Renderer *r, const char *sequence) {
    if (r->color) str_append(r->out, sequence);
}

static bool is_bidi_control(uint32_t point) {
    return (point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
}

/* One character of source or message; returns its bytes, sets the columns it takes. Lines of a
 * message pass, carriage returns and escapes do not. */
static size_t put_character(Str *out, const char *bytes, size_t size, int *columns) {
    uint32_t point;
    size_t length = utf8_decode(bytes, size, &point);
    bool control = point < 0x20 || (point >= 0x7f && point < 0xa0);
    bool shown = !control && point != UINT32_MAX && !is_bidi_control(point);
    *columns = shown ? utf8_width(point) : 1;
    if (!out) return length;
    if (shown || point == '\t')
        str_append_n(out, bytes, length);
    else
        str_append(out, "\xef\xbf\xbd");
    return length;
}

static void put_text(Str *out, const char *text) {
    for (size_t i = 0, size = strlen(text); i < size;) {
        int columns;
        if (text[i] == '\n') {
            str_append_char(out, '\n');
            i++;
        } else {
            i += put_character(out, text + i, size - i, &columns);
        }
    }
}

static Line line_at(const SourceFile *file, uint32_t offset) {
    uint32_t column;
    Line line;
    source_position(file, offset, &line.number, &column);
    line.begin = file->line_starts[line.number - 1];
    line.end = line.number < file->line_count ? file->line_starts[line.number] - 1 : (uint32_t)file->size;
    if (line.end > line.begin && file->text[line.end - 1] == '\r') line.end--;
    return line;
}

/* Shortens a long line to a window around `focus`, at character boundaries. */
static Line clip(const SourceFile *file, Line line, uint32_t focus) {
    if (line.end - line.begin <= WINDOW) return line;
    Line shown = line;
    if (focus > line.begin + WINDOW - LEAD) shown.begin = focus - LEAD;
    while (shown.begin > line.begin && (file->text[shown.begin] & 0xc0) == 0x80) shown.begin--;
    if (line.end - shown.begin > WINDOW) shown.end = shown.begin + WINDOW;
    while (shown.end < line.end && (file->text[shown.end] & 0xc0) == 0x80) shown.end++;
    return shown;
}

static int gutter_width(uint32_t number) {
    int width = 3;
    for (; number >= 1000; number /= 10) width++;
    return width;
}

static void put_source_line(const Renderer *r, const SourceFile *file, Line line, Line shown) {
    str_printf(r->out, "%*u | %s", gutter_width(line.number), line.number, shown.begin > line.begin ? "..." : "");
    for (uint32_t i = shown.begin; i < shown.end;) {
        int columns;
        i += (uint32_t)put_character(r->out, file->text + i, shown.end - i, &columns);
    }
    str_append(r->out, shown.end < line.end ? "...\n" : "\n");
}

/* Blanks up to the span (tabs kept, so that the columns agree), then ^~~~ over it. */
static void put_marks(const Renderer *r, const SourceFile *file, Line line, Line shown, Span span) {
    str_printf(r->out, "%*s | %s", gutter_width(line.number), "", shown.begin > line.begin ? "   " : "");
    uint32_t at = shown.begin;
    int columns, marks = 0;
    while (at < span.begin && at < shown.end) {
        bool tab = file->text[at] == '\t';
        at += (uint32_t)put_character(NULL, file->text + at, shown.end - at, &columns);
        for (int i = 0; i < columns; i++) str_append_char(r->out, tab ? '\t' : ' ');
    }
    for (; at < span.end && at < shown.end; marks += columns)
        at += (uint32_t)put_character(NULL, file->text + at, shown.end - at, &columns);
    paint(r, "\033[1;32m");
    str_append_char(r->out, '^');
    for (int i = 1; i < marks; i++) str_append_char(r->out, '~');
    paint(r, "\033[0m");
    str_append_char(r->out, '\n');
}

static void put_excerpt(const Renderer *r, const SourceFile *file, Span span) {
    Line line = line_at(file, span.begin), shown = clip(file, line, span.begin);
    put_source_line(r, file, line, shown);
    put_marks(r, file, line, shown, span);
}

static void put_head(const Renderer *r, Span span, Severity severity, const char *code, const char *text) {
    const SourceFile *file = source_file(r->list->sources, span.file);
    paint(r, "\033[1m");
    if (file) {
        uint32_t line, column;
        source_position(file, span.begin, &line, &column);
        put_text(r->out, file->path);
        str_printf(r->out, ":%u:%u: ", line, column);
    } else {
        str_append(r->out, "sketchc: ");
    }
    paint(r, "\033[0m");
    paint(r, severity_colors[severity]);
    str_append(r->out, severity_names[severity]);
    if (code) str_printf(r->out, "[%s]", code);
    str_append(r->out, ": ");
    paint(r, "\033[0m");
    put_text(r->out, text);
    str_append_char(r->out, '\n');
    if (file) put_excerpt(r, file, span);
}

/* True when the edits lie in one line, in order and apart, and insert no line: then the line can be
 * shown as it would become. */
static bool fits_one_line(const DiagFix *fixes, Line line) {
    uint32_t at = line.begin;
    for (const DiagFix *fix = fixes; fix; fix = fix->next) {
        if (fix->span.file != fixes->span.file) return false;
        if (fix->span.begin < at || fix->span.end > line.end) return false;
        if (fix->span.end < fix->span.begin || strchr(fix->text, '\n')) return false;
        at = fix->span.end;
    }
    return line.end - line.begin <= WINDOW;
}

static void put_bytes(Str *out, const char *bytes, uint32_t count) {
    for (uint32_t i = 0; i < count;) {
        int columns;
        i += (uint32_t)put_character(out, bytes + i, count - i, &columns);
    }
}

static void put_fixed_line(const Renderer *r, const SourceFile *file, const DiagFix *fixes, Line line) {
    str_printf(r->out, "%*u + ", gutter_width(line.number), line.number);
    uint32_t at = line.begin;
    for (const DiagFix *fix = fixes; fix; fix = fix->next) {
        put_bytes(r->out, file->text + at, fix->span.begin - at);
        put_text(r->out, fix->text);
        at = fix->span.end;
    }
    put_bytes(r->out, file->text + at, line.end - at);
    str_append_char(r->out, '\n');
}

static void put_edit(const Renderer *r, const SourceFile *file, const DiagFix *fix) {
    uint32_t line, column;
    source_position(file, fix->span.begin, &line, &column);
    const char *verb = fix->span.begin == fix->span.end ? "insert" : *fix->text ? "replace by" : "delete";
    bool below = fix->span.begin == fix->span.end && *fix->text == '\n'; /* a line of its own */
    str_printf(r->out, "    %u:%u: %s ", line, column, below ? "insert below:" : verb);
    put_text(r->out, below ? fix->text + 1 + strspn(fix->text + 1, " ") : fix->text);
    str_append_char(r->out, '\n');
}

static void put_fixes(const Renderer *r, const Diag *diag) {
    const SourceFile *file = source_file(r->list->sources, diag->fixes->span.file);
    if (!file) return;
    paint(r, "\033[1;32m");
    str_append(r->out, "fix: ");
    paint(r, "\033[0m");
    put_text(r->out, diag->fix_title ? diag->fix_title : "change it so");
    str_append_char(r->out, '\n');
    Line line = line_at(file, diag->fixes->span.begin);
    if (fits_one_line(diag->fixes, line)) {
        put_fixed_line(r, file, diag->fixes, line);
        return;
    }
    for (const DiagFix *fix = diag->fixes; fix; fix = fix->next)
        if (fix->span.file == diag->fixes->span.file) put_edit(r, file, fix);
}

static void put_rest(Str *out, unsigned count, unsigned kept, const char *what) {
    if (count <= kept) return;
    unsigned more = count - kept;
    const char *are = more == 1 ? " is" : "s are";
    str_printf(out, "sketchc: %u more %s%s not shown\n", more, what, are);
}

/* Hints that are not followed: where there are several, one line stands for them in a brief report. */
static unsigned count_hints(const DiagList *list) {
    unsigned count = 0;
    for (const Diag *diag = list->first; diag; diag = diag->next) count += diag->id == DIAG_hint_not_followed;
    return count;
}

static void render(const DiagList *list, bool color, bool brief, Str *out) {
    unsigned hints = brief ? count_hints(list) : 0;
    Renderer r = {list, color, out};
    unsigned errors_kept = 0, warnings_kept = 0;
    for (const Diag *diag = list->first; diag; diag = diag->next) {
        if (hints > 1 && diag->id == DIAG_hint_not_followed) continue;
        put_head(&r, diag->span, diag->severity, diag_code(diag->id), diag->text);
        for (const DiagNote *note = diag->notes; note; note = note->next) put_head(&r, note->span, SEVERITY_NOTE, NULL, note->text);
        if (diag->fixes) put_fixes(&r, diag);
        errors_kept += diag->severity >= SEVERITY_ERROR;
        warnings_kept += diag->severity == SEVERITY_WARNING;
    }
    const char *folded = hints > 1 ? arena_printf(list->arena, "%u hints are not followed; -v lists them", hints) : NULL;
    if (folded) put_head(&r, SPAN_NONE, SEVERITY_NOTE, diag_code(DIAG_hint_not_followed), folded);
    put_rest(out, list->error_count, errors_kept, "error");
    put_rest(out, list->warning_count, warnings_kept, "warning");
}

void diag_render_text(const DiagList *list, bool color, Str *out) {
    render(list, color, false, out);
}
void diag_render_brief(const DiagList *list, bool color, Str *out) {
    render(list, color, true, out);
}
