/* Formatting, and the command that shows what a sketch becomes. */
#include "lsp_internal.h"

#include "sketchc.h"

#include <stdlib.h>
#include <string.h>

void lsp_formatting(Request *r) {
    Document *d = request_document(r);
    if (!d) return;
    Arena *arena = arena_create();
    SourceMap *sources = source_map_create(arena);
    DiagList diags;
    diag_list_init(&diags, arena, sources);
    uint32_t file = source_add(sources, d->uri, d->text.data, d->text.len);
    Str text;
    str_init(&text);
    if (!frontend_format(arena, sources, file, &diags, &text)) {
        request_fail(r, LSP_REQUEST_FAILED, "a file with syntax errors is not formatted");
    } else if (strcmp(text.data, d->text.data) == 0) {
        str_append(&r->out, "[]");
    } else {
        str_append(&r->out, "[{\"range\":");
        put_range(r, d, 0, d->text.len, &r->out);
        str_append(&r->out, ",\"newText\":");
        str_append_json(&r->out, text.data);
        str_append(&r->out, "}]");
    }
    str_release(&text);
    arena_destroy(arena);
}

/* ---- sketchc.show ---- */

/* Pairs [line of the text, line of the source], both from 0, where the text changes its source line. */
static void put_line_map(const uint32_t *lines, size_t count, Str *out) {
    bool first = true;
    uint32_t last = 0;
    str_append(out, "[");
    for (size_t at = 0; at < count; at++) {
        if (!lines[at] || lines[at] == last) continue;
        last = lines[at];
        put_next(out, &first);
        str_printf(out, "[%zu,%u]", at, last - 1);
    }
    str_append(out, "]");
}

static const char *name_at(const Document *d, size_t offset) {
    const Block *b = document_block_at(d, offset);
    return b && b->kind == BLOCK_SKETCH && *b->name ? b->name : NULL;
}

/* What the client compiles for, where the form is of such a machine. */
static void choose_machine(const LspServer *s, const char *form, sketchc_options *options) {
    bool either = strcmp(form, "tile") == 0 || strcmp(form, "kernel") == 0, processor = strcmp(form, "c") == 0;
    bool for_processor = s->target && strcmp(s->target, "openmp") == 0;
    if (either) options->target = s->target ? s->target : "cuda";
    if (either || processor == for_processor) options->arch = s->arch;
}

static void show(Request *r, Document *d, const char *form, const char *sketch) {
    sketchc_unit *unit = sketchc_unit_create(d->uri, d->text.data, d->text.len);
    if (!unit) {
        request_fail(r, LSP_INTERNAL, "out of memory");
        return;
    }
    sketchc_options options = {.size = sizeof options, .sketch = sketch};
    choose_machine(r->server, form, &options);
    char *text = NULL;
    uint32_t *lines = NULL;
    size_t line_count = 0;
    sketchc_status status = sketchc_emit_lines(unit, &options, form, &text, &lines, &line_count);
    str_append(&r->out, "{\"form\":");
    str_append_json(&r->out, form);
    str_append(&r->out, ",\"text\":");
    char *problems = status ? sketchc_diagnostics(unit, "text") : NULL;
    str_append_json(&r->out, !status ? text : problems ? problems : "");
    str_printf(&r->out, ",\"ok\":%s,\"lines\":", status ? "false" : "true");
    put_line_map(lines, line_count, &r->out);
    str_append(&r->out, "}");
    sketchc_free(problems);
    sketchc_free(text);
    sketchc_free(lines);
    sketchc_unit_destroy(unit);
}

/* Arguments: [{"uri": ..., "position": ..., "form": "tile|kernel|cuda|ptx|c"}]. */
void lsp_execute_command(Request *r) {
    static const char *const forms[] = {"graph", "tile", "kernel", "cuda", "ptx", "c"};
    const Json *argument = json_first(json_get(r->params, "arguments"));
    const char *form = json_get_string(argument, "form", "");
    Document *d = document_find(&r->server->documents, json_get_string(argument, "uri", ""));
    bool known = false;
    for (size_t i = 0; i < COUNT_OF(forms); i++) known |= strcmp(forms[i], form) == 0;
    if (strcmp(json_get_string(r->params, "command", ""), "sketchc.show") != 0)
        request_fail(r, LSP_INVALID_PARAMS, "the command is sketchc.show");
    else if (!d || !known)
        request_fail(r, LSP_INVALID_PARAMS, "sketchc.show takes an open uri and a form: graph, tile, kernel, cuda, ptx, c");
    else {
        document_analyse(d);
        size_t offset = document_offset_of(r->server, d, json_get(argument, "position"));
        show(r, d, form, name_at(d, offset));
    }
}
