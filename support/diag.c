#include "diag.h"

#include <string.h>

enum { DEFAULT_ERROR_LIMIT = 50 };

static const struct {
    const char *name, *code;
    Severity severity;
    const char *format, *explanation;
} rows[] = {
#define DIAG(id, code, severity, format, explanation) {#id, code, severity, format, explanation},
#include "diags.def"
#undef DIAG
};

const char *diag_code(DiagId id) {
    return rows[id].code;
}
const char *diag_name(DiagId id) {
    return rows[id].name;
}
const char *diag_explanation(DiagId id) {
    return rows[id].explanation;
}

bool diag_find(const char *code, DiagId *id) {
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (strcmp(rows[i].code, code) == 0 || strcmp(rows[i].name, code) == 0) {
            *id = (DiagId)i;
            return true;
        }
    return false;
}

void diag_list_init(DiagList *list, Arena *unit, SourceMap *sources) {
    *list = (DiagList){.arena = unit, .sources = sources};
}

static const char *format_text(Arena *arena, const char *format, va_list args) {
    Str text;
    str_init(&text);
    str_vprintf(&text, format, args);
    const char *copy = arena_strndup(arena, text.data, text.len);
    str_release(&text);
    return copy;
}

/* Counts it; false when it is one too many of its kind to keep. */
static bool count(DiagList *list, Severity severity) {
    unsigned limit = list->error_limit ? list->error_limit : DEFAULT_ERROR_LIMIT;
    if (severity == SEVERITY_WARNING) return list->warning_count++ < limit;
    if (severity < SEVERITY_ERROR) return true;
    return list->error_count++ < limit;
}

Diag *diag_report(DiagList *list, DiagId id, Span span, ...) {
    Diag *diag = ARENA_NEW(list->arena, Diag);
    *diag = (Diag){.id = id, .severity = rows[id].severity, .span = span};
    va_list args;
    va_start(args, span);
    diag->text = format_text(list->arena, rows[id].format, args);
    va_end(args);
    if (!count(list, diag->severity)) return diag;
    if (list->last)
        list->last->next = diag;
    else
        list->first = diag;
    list->last = diag;
    return diag;
}

void diag_note(DiagList *list, Diag *diag, Span span, const char *format, ...) {
    DiagNote *note = ARENA_NEW(list->arena, DiagNote);
    va_list args;
    va_start(args, format);
    *note = (DiagNote){.span = span, .text = format_text(list->arena, format, args)};
    va_end(args);
    DiagNote **end = &diag->notes;
    while (*end) end = &(*end)->next;
    *end = note;
}

void diag_fix(DiagList *list, Diag *diag, Span span, const char *replacement, const char *title) {
    DiagFix *fix = ARENA_NEW(list->arena, DiagFix);
    *fix = (DiagFix){.span = span, .text = arena_strdup(list->arena, replacement)};
    if (title) diag->fix_title = arena_strdup(list->arena, title);
    DiagFix **end = &diag->fixes;
    while (*end) end = &(*end)->next;
    *end = fix;
}
