/* Diagnostics for programs: our JSON (docs/schemas/diagnostics.schema.json) and SARIF 2.1.0. */
#include "diag.h"
#include "support_internal.h"

#include <string.h>

enum { JSON_VERSION = 1 };

static const char *const severity_names[] = {"note", "warning", "error", "bug"};
static const char *const sarif_levels[] = {"note", "warning", "error", "error"};

/* Appends `"name":"text"`. */
static void put_field(Str *out, const char *name, const char *text) {
    str_printf(out, "\"%s\":", name);
    str_append_json(out, text);
}

static void put_position(Str *out, const char *name, const SourceFile *file, uint32_t offset) {
    uint32_t line, column;
    source_position(file, offset, &line, &column);
    str_printf(out, "\"%s\":{\"line\":%u,\"column\":%u,\"offset\":%u}", name, line, column, offset);
}

/* An object with file, begin and end, or null. */
static void put_location(Str *out, const DiagList *list, Span span) {
    const SourceFile *file = source_file(list->sources, span.file);
    if (!file) {
        str_append(out, "null");
        return;
    }
    str_append_char(out, '{');
    put_field(out, "file", file->path);
    str_append_char(out, ',');
    put_position(out, "begin", file, span.begin);
    str_append_char(out, ',');
    put_position(out, "end", file, span.end);
    str_append_char(out, '}');
}

static void put_notes(Str *out, const DiagList *list, const Diag *diag) {
    str_append(out, ",\"notes\":[");
    for (const DiagNote *note = diag->notes; note; note = note->next) {
        str_append_char(out, '{');
        put_field(out, "message", note->text);
        str_append(out, ",\"location\":");
        put_location(out, list, note->span);
        str_append(out, note->next ? "}," : "}");
    }
    str_append_char(out, ']');
}

static void put_fix(Str *out, const DiagList *list, const Diag *diag) {
    str_append(out, ",\"fix\":");
    if (!diag->fixes) {
        str_append(out, "null");
        return;
    }
    str_append_char(out, '{');
    put_field(out, "title", diag->fix_title ? diag->fix_title : "");
    str_append(out, ",\"edits\":[");
    for (const DiagFix *fix = diag->fixes; fix; fix = fix->next) {
        str_append(out, "{\"location\":");
        put_location(out, list, fix->span);
        str_append_char(out, ',');
        put_field(out, "text", fix->text);
        str_append(out, fix->next ? "}," : "}");
    }
    str_append(out, "]}");
}

static void put_diag(Str *out, const DiagList *list, const Diag *diag) {
    str_append_char(out, '{');
    put_field(out, "code", diag_code(diag->id));
    str_append_char(out, ',');
    put_field(out, "name", diag_name(diag->id));
    str_append_char(out, ',');
    put_field(out, "severity", severity_names[diag->severity]);
    str_append_char(out, ',');
    put_field(out, "message", diag->text);
    str_append(out, ",\"location\":");
    put_location(out, list, diag->span);
    put_notes(out, list, diag);
    put_fix(out, list, diag);
    str_append_char(out, '}');
}

void diag_render_json(const DiagList *list, Str *out) {
    str_printf(out, "{\"version\":%d,\"errors\":%u,\"warnings\":%u,\"diagnostics\":[", JSON_VERSION, list->error_count,
               list->warning_count);
    for (const Diag *diag = list->first; diag; diag = diag->next) {
        put_diag(out, list, diag);
        if (diag->next) str_append_char(out, ',');
    }
    str_append(out, "]}\n");
}

/* ---- SARIF ---- */

/* A path as a relative or file URI reference: everything but unreserved characters and '/' is
 * percent-encoded. */
static void put_uri(Str *out, const char *path) {
    str_append(out, path[0] == '/' ? "\"file://" : "\"");
    for (const char *c = path; *c; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        bool plain = letter || (*c >= '0' && *c <= '9') || strchr("-._~/", *c);
        if (plain)
            str_append_char(out, *c);
        else
            str_printf(out, "%%%02X", (unsigned)(unsigned char)*c);
    }
    str_append_char(out, '"');
}

/* SARIF counts code points, we count bytes. */
static void put_sarif_position(Str *out, const char *end, const SourceFile *file, uint32_t offset) {
    uint32_t line, column, points = 1, point;
    source_position(file, offset, &line, &column);
    const char *text = file->text + file->line_starts[line - 1];
    for (size_t at = 0; at + 1 < column; points++) at += utf8_decode(text + at, column - 1 - at, &point);
    str_printf(out, "\"%sLine\":%u,\"%sColumn\":%u", end, line, end, points);
}

static void put_artifact(Str *out, const SourceFile *file) {
    str_append(out, "\"artifactLocation\":{\"uri\":");
    put_uri(out, file->path);
    str_append_char(out, '}');
}

static void put_region(Str *out, const char *name, const SourceFile *file, Span span) {
    str_printf(out, "\"%s\":{", name);
    put_sarif_position(out, "start", file, span.begin);
    str_append_char(out, ',');
    put_sarif_position(out, "end", file, span.end);
    str_append_char(out, '}');
}

static void put_physical(Str *out, const SourceFile *file, Span span) {
    str_append(out, "\"physicalLocation\":{");
    put_artifact(out, file);
    str_append_char(out, ',');
    put_region(out, "region", file, span);
    str_append_char(out, '}');
}

static void put_message(Str *out, const char *text) {
    str_append(out, "\"message\":{");
    put_field(out, "text", text);
    str_append_char(out, '}');
}

static void put_related(Str *out, const DiagList *list, const Diag *diag) {
    str_append(out, ",\"relatedLocations\":[");
    for (const DiagNote *note = diag->notes; note; note = note->next) {
        const SourceFile *file = source_file(list->sources, note->span.file);
        str_append_char(out, '{');
        put_message(out, note->text);
        if (file) {
            str_append_char(out, ',');
            put_physical(out, file, note->span);
        }
        str_append(out, note->next ? "}," : "}");
    }
    str_append_char(out, ']');
}

/* One fix is one change of one file; edits elsewhere are left to our own JSON. */
static void put_sarif_fix(Str *out, const DiagList *list, const Diag *diag) {
    const SourceFile *file = diag->fixes ? source_file(list->sources, diag->fixes->span.file) : NULL;
    if (!file) return;
    str_append(out, ",\"fixes\":[{\"description\":{");
    put_field(out, "text", diag->fix_title ? diag->fix_title : "fix");
    str_append(out, "},\"artifactChanges\":[{");
    put_artifact(out, file);
    str_append(out, ",\"replacements\":[");
    for (const DiagFix *fix = diag->fixes; fix; fix = fix->next) {
        if (fix->span.file != diag->fixes->span.file) continue;
        str_append(out, fix == diag->fixes ? "{" : ",{");
        put_region(out, "deletedRegion", file, fix->span);
        str_append(out, ",\"insertedContent\":{");
        put_field(out, "text", fix->text);
        str_append(out, "}}");
    }
    str_append(out, "]}]}]");
}

static void put_result(Str *out, const DiagList *list, const Diag *diag) {
    const SourceFile *file = source_file(list->sources, diag->span.file);
    str_append_char(out, '{');
    put_field(out, "ruleId", diag_code(diag->id));
    str_printf(out, ",\"ruleIndex\":%d,", (int)diag->id);
    put_field(out, "level", sarif_levels[diag->severity]);
    str_append_char(out, ',');
    put_message(out, diag->text);
    str_append(out, ",\"locations\":[");
    if (file) {
        str_append_char(out, '{');
        put_physical(out, file, diag->span);
        str_append_char(out, '}');
    }
    str_append_char(out, ']');
    put_related(out, list, diag);
    put_sarif_fix(out, list, diag);
    str_append_char(out, '}');
}

/* Every diagnostic there is, in the order of diags.def: ruleIndex is the id. */
static void put_rules(Str *out) {
    for (int id = 0; id < DIAG_COUNT; id++) {
        str_append(out, id ? ",{" : "{");
        put_field(out, "id", diag_code((DiagId)id));
        str_append_char(out, ',');
        put_field(out, "name", diag_name((DiagId)id));
        str_append(out, ",\"fullDescription\":{");
        put_field(out, "text", diag_explanation((DiagId)id));
        str_append(out, "}}");
    }
}

void diag_render_sarif(const DiagList *list, const char *version, Str *out) {
    str_append(out, "{\"$schema\":\"https://json.schemastore.org/sarif-2.1.0.json\","
                    "\"version\":\"2.1.0\",\"runs\":[{\"tool\":{\"driver\":{\"name\":\"sketchc\",");
    put_field(out, "version", version);
    str_append(out, ",\"rules\":[");
    put_rules(out);
    str_append(out, "]}},\"columnKind\":\"unicodeCodePoints\",\"results\":[");
    for (const Diag *diag = list->first; diag; diag = diag->next) {
        put_result(out, list, diag);
        if (diag->next) str_append_char(out, ',');
    }
    str_append(out, "]}]}\n");
}
