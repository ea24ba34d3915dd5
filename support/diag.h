/* Source files, spans and diagnostics as values. The same list feeds the terminal, JSON, SARIF and
 * the language server. Nothing here prints by itself. */
#ifndef SUPPORT_DIAG_H
#define SUPPORT_DIAG_H

#include "support.h"

typedef struct {
    const char *path; /* as the user gave it */
    const char *text; /* NUL-terminated, owned by the source map's arena */
    size_t size;
    uint32_t *line_starts; /* byte offset of each line */
    uint32_t line_count;
} SourceFile;

/* Bytes [begin, end) of file `file`; file 0 means "no place". */
typedef struct {
    uint32_t file, begin, end;
} Span;
#define SPAN_NONE ((Span){0, 0, 0})
Span span_join(Span a, Span b);

typedef struct SourceMap SourceMap;
SourceMap *source_map_create(Arena *unit);
uint32_t source_add(SourceMap *map, const char *path, const char *text, size_t size); /* copies */
const SourceFile *source_file(const SourceMap *map, uint32_t file);
/* 1-based line and column (bytes) of a byte offset. */
void source_position(const SourceFile *file, uint32_t offset, uint32_t *line, uint32_t *column);

typedef enum { SEVERITY_NOTE, SEVERITY_WARNING, SEVERITY_ERROR, SEVERITY_BUG } Severity;

/* One row a diagnostic in diags.def: DIAG(id, code, severity, format, explanation). */
typedef enum {
#define DIAG(id, code, severity, format, explanation) DIAG_##id,
#include "diags.def"
#undef DIAG
    DIAG_COUNT
} DiagId;

typedef struct DiagNote {
    Span span; /* SPAN_NONE: no place */
    const char *text;
    struct DiagNote *next;
} DiagNote;
typedef struct DiagFix {
    Span span; /* replaced by `text`; empty span: an insertion */
    const char *text;
    struct DiagFix *next;
} DiagFix;
typedef struct Diag {
    DiagId id;
    Severity severity;
    Span span;
    const char *text;
    DiagNote *notes;
    DiagFix *fixes;
    const char *fix_title;
    struct Diag *next;
} Diag;

typedef struct {
    Arena *arena; /* the unit's */
    SourceMap *sources;
    Diag *first, *last;
    unsigned error_count, warning_count;
    unsigned error_limit; /* 0: 50; beyond it errors, and warnings, are counted but not kept */
} DiagList;
void diag_list_init(DiagList *list, Arena *unit, SourceMap *sources);

/* Adds a diagnostic; the format is the one of its row in diags.def. Never null. */
Diag *diag_report(DiagList *list, DiagId id, Span span, ...);
void diag_note(DiagList *list, Diag *diag, Span span, const char *format, ...) PRINTF_LIKE(4, 5);
void diag_fix(DiagList *list, Diag *diag, Span span, const char *replacement, const char *title);

const char *diag_code(DiagId id);        /* "E0101" */
const char *diag_name(DiagId id);        /* "syntax_error" */
const char *diag_explanation(DiagId id); /* the text of `sketchc explain` */
bool diag_find(const char *code, DiagId *id);

/* file:line:col, source line, caret and tildes, notes, fix-its. */
void diag_render_text(const DiagList *list, bool color, Str *out);
void diag_render_brief(const DiagList *list, bool color, Str *out); /* hints that are not followed, if several, in one line */
void diag_render_json(const DiagList *list, Str *out);
void diag_render_sarif(const DiagList *list, const char *version, Str *out);

/* The candidate closest to `name` by edit distance, or null when none is close. */
const char *closest_name(const char *name, const char *const *candidates, size_t count);

#endif
