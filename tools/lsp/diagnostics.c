/* Diagnostics and their fix-its as quick fixes. */
#include "lsp_internal.h"

#include <string.h>

static int severity_of(Severity s) {
    switch (s) {
    case SEVERITY_NOTE:
        return 3;
    case SEVERITY_WARNING:
        return 2;
    default:
        return 1;
    }
}

/* A span as wide as a character at least, so that it can be seen. */
static Span visible(const Document *d, Span span) {
    if (span.file != d->file_id) return (Span){d->file_id, 0, 0};
    return span;
}

static void put_related(const Request *r, const Document *d, const Diag *diag, Str *out) {
    bool first = true;
    str_append(out, ",\"relatedInformation\":[");
    for (const DiagNote *n = diag->notes; n; n = n->next) {
        if (n->span.file != d->file_id) continue;
        put_next(out, &first);
        str_append(out, "{\"location\":");
        put_location(r, d, n->span, out);
        str_append(out, ",\"message\":");
        str_append_json(out, n->text);
        str_append(out, "}");
    }
    str_append(out, "]");
}

/* The text, with the notes that have no place of their own below it. */
static void put_message(const Document *d, const Diag *diag, Str *out) {
    Str text;
    str_init(&text);
    str_append(&text, diag->text);
    for (const DiagNote *n = diag->notes; n; n = n->next)
        if (n->span.file != d->file_id) str_printf(&text, "\n%s", n->text);
    str_append_json(out, text.data);
    str_release(&text);
}

static void put_diagnostic(const Request *r, const Document *d, const Diag *diag, Str *out) {
    str_append(out, "{\"range\":");
    put_span(r, d, visible(d, diag->span), out);
    str_printf(out, ",\"severity\":%d,\"code\":\"%s\",\"source\":\"sketchc\",\"message\":", severity_of(diag->severity),
               diag_code(diag->id));
    put_message(d, diag, out);
    put_related(r, d, diag, out);
    str_append(out, "}");
}

/* ---- What compiling said ---- */

typedef struct {
    const Request *r;
    const Document *d;
    Str *out;
    bool *first;
} SaidList;

static void put_said(void *context, const Json *said) {
    SaidList *l = context;
    static const char *const names[] = {"note", "warning"};
    size_t begin, end, severity = 0;
    while (severity < COUNT_OF(names) && strcmp(json_get_string(said, "severity", ""), names[severity]) != 0) severity++;
    facts_place(l->d, said, &begin, &end);
    put_next(l->out, l->first);
    str_append(l->out, "{\"range\":");
    put_range(l->r, l->d, begin, end, l->out);
    str_printf(l->out, ",\"severity\":%d,\"code\":\"%s\",\"source\":\"sketchc\",\"message\":", severity_of((Severity)severity),
               json_get_string(said, "code", ""));
    Str text;
    str_init(&text);
    str_append(&text, json_get_string(said, "message", ""));
    for (const Json *n = json_first(json_get(said, "notes")); n; n = json_next(n))
        str_printf(&text, "\n%s", json_get_string(n, "message", ""));
    str_append_json(l->out, text.data);
    str_release(&text);
    str_append(l->out, "}");
}

void put_diagnostics(LspServer *s, Document *d, Str *out) {
    Request r = {.server = s};
    bool first = true;
    document_analyse(d);
    str_append(out, "{\"uri\":");
    str_append_json(out, d->uri);
    str_printf(out, ",\"version\":%lld,\"diagnostics\":[", (long long)d->version);
    for (const Diag *diag = d->diags.first; diag; diag = diag->next) {
        if (diag->id == DIAG_other_sketches) continue; /* an editor shows them all */
        put_next(out, &first);
        put_diagnostic(&r, d, diag, out);
    }
    SaidList list = {&r, d, out, &first};
    facts_each(d, put_said, &list);
    str_append(out, "]}");
}

/* ---- Quick fixes ---- */

static void put_edits(const Request *r, const Document *d, const DiagFix *fix, Str *out) {
    bool first = true;
    str_append(out, "{\"changes\":{");
    str_append_json(out, d->uri);
    str_append(out, ":[");
    for (; fix; fix = fix->next) {
        if (fix->span.file != d->file_id) continue;
        put_next(out, &first);
        str_append(out, "{\"range\":");
        put_span(r, d, fix->span, out);
        str_append(out, ",\"newText\":");
        str_append_json(out, fix->text);
        str_append(out, "}");
    }
    str_append(out, "]}}");
}

static bool touches(Span span, size_t begin, size_t end) {
    return span.begin <= end && begin <= span.end;
}

void lsp_code_action(Request *r) {
    Document *d = request_document(r);
    if (!d) return;
    const Json *range = json_get(r->params, "range");
    size_t first_byte = document_offset_of(r->server, d, json_get(range, "start"));
    size_t last_byte = document_offset_of(r->server, d, json_get(range, "end"));
    bool first = true;
    str_append(&r->out, "[");
    for (const Diag *diag = d->diags.first; diag; diag = diag->next) {
        if (!diag->fixes || !touches(diag->span, first_byte, last_byte)) continue;
        put_next(&r->out, &first);
        str_append(&r->out, "{\"title\":");
        str_append_json(&r->out, diag->fix_title ? diag->fix_title : "fix");
        str_append(&r->out, ",\"kind\":\"quickfix\",\"isPreferred\":true,\"diagnostics\":[");
        put_diagnostic(r, d, diag, &r->out);
        str_append(&r->out, "],\"edit\":");
        put_edits(r, d, diag->fixes, &r->out);
        str_append(&r->out, "}");
    }
    str_append(&r->out, "]");
}
