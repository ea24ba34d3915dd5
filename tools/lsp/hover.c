/* Hover, inlay hints, signature help: what the checker knows, where the reader looks. */
#include "lsp_internal.h"

#include <ctype.h>

/* The text of a span without quotes. */
static const char *span_text(const Document *d, Span span) {
    const char *text = d->text.data + span.begin;
    size_t length = span.end - span.begin;
    if (length >= 2 && (*text == '"' || *text == '\'')) text++, length -= 2;
    return arena_strndup(d->arena, text, length);
}

static void put_block(LspServer *s, const Document *d, const Block *block, Str *out) {
    bool is_sketch = block->kind == BLOCK_SKETCH;
    str_printf(out, "%s `%s`", is_sketch ? "sketch" : "operator", block->name);
    const Json *facts = is_sketch ? facts_of(s, d, block->name, true) : NULL;
    if (facts) {
        str_append(out, "\n\n");
        describe_prediction(facts, out);
        describe_predictions(facts, out);
    }
}

static void put_occurrence(LspServer *s, const Document *d, const Occurrence *o, Str *out) {
    const char *summary;
    switch (o->kind) {
    case OCC_NAME:
        describe_decl(d, o->block, o->decl, out);
        break;
    case OCC_OPERATION:
        describe_operation(o->builtin, out);
        break;
    case OCC_HINT:
        summary = hint_summary(span_text(d, o->span));
        if (summary) str_append(out, summary), describe_hint(d, o, out);
        break;
    case OCC_BLOCK:
        put_block(s, d, o->block, out);
        break;
    case OCC_ARGUMENT:
    case OCC_DTYPE:
        break;
    }
}

void lsp_hover(Request *r) {
    Document *d = request_document(r);
    const Occurrence *o = d ? occurrence_at(d, request_offset(r, d)) : NULL;
    if (!o) return;
    Str text;
    str_init(&text);
    put_occurrence(r->server, d, o, &text);
    if (text.len) {
        str_append(&r->out, "{\"contents\":{\"kind\":\"markdown\",\"value\":");
        str_append_json(&r->out, text.data);
        str_append(&r->out, "},\"range\":");
        put_span(r, d, o->span, &r->out);
        str_append(&r->out, "}");
    }
    str_release(&text);
}

/* ---- Inlay hints ---- */

typedef struct {
    Request *r;
    const Document *d;
    size_t begin, end;
    bool first;
} Inlay;

static void put_hint(Inlay *in, size_t at, const char *label, const char *tooltip) {
    if (at < in->begin || at > in->end) return;
    Str *out = &in->r->out;
    put_next(out, &in->first);
    str_append(out, "{\"position\":");
    put_position(in->r, in->d, at, out);
    str_append(out, ",\"label\":");
    str_append_json(out, label);
    str_append(out, ",\"paddingLeft\":true");
    if (tooltip) {
        str_append(out, ",\"tooltip\":");
        str_append_json(out, tooltip);
    }
    str_append(out, "}");
}

static void hint_tile(Inlay *in, const Occurrence *o) {
    Str label;
    str_init(&label);
    str_append(&label, ": ");
    describe_type(&o->decl->type, &label);
    put_hint(in, o->span.end, label.data, NULL);
    str_release(&label);
}

static void hint_loop(Inlay *in, const Occurrence *o) {
    const LoopInfo *info = o->decl->loop ? o->decl->loop->loop : NULL;
    if (!info || !info->trips) return;
    Str label;
    str_init(&label);
    str_append(&label, "x ");
    aff_print(info->trips, &label);
    const Expr *range = o->decl->loop->u.loop.range;
    put_hint(in, range ? range->span.end : o->span.end, label.data, "trip count");
    str_release(&label);
}

static void hint_sketch(Inlay *in, const Occurrence *o) {
    const Json *facts = facts_of(in->r->server, in->d, o->block->name, false);
    if (!facts) return; /* the client asks again when they are there */
    Str label;
    str_init(&label);
    describe_prediction(facts, &label);
    put_hint(in, o->span.end, label.data, "by the cost model, for the case that takes longest");
    str_release(&label);
}

void lsp_inlay_hint(Request *r) {
    Document *d = request_document(r);
    if (!d) return;
    const Json *range = json_get(r->params, "range");
    Inlay in = {.r = r, .d = d, .first = true, .end = d->text.len};
    if (json_kind(range) == JSON_OBJECT) {
        in.begin = document_offset_of(r->server, d, json_get(range, "start"));
        in.end = document_offset_of(r->server, d, json_get(range, "end"));
    }
    str_append(&r->out, "[");
    for (size_t i = 0; i < d->occurrences.len; i++) {
        const Occurrence *o = &d->occurrences.data[i];
        if (!o->is_definition) continue;
        if (o->kind == OCC_BLOCK && o->block->kind == BLOCK_SKETCH)
            hint_sketch(&in, o);
        else if (o->kind == OCC_NAME && (o->decl->kind == DECL_TILE || o->decl->kind == DECL_VALUE))
            hint_tile(&in, o);
        else if (o->kind == OCC_NAME && o->decl->kind == DECL_LOOP)
            hint_loop(&in, o);
    }
    str_append(&r->out, "]");
}

/* ---- Signature help ---- */

typedef struct {
    BuiltinId id;
    unsigned argument; /* the number of the one at the cursor */
} OpenCall;

/* The call whose brackets are open at the offset; text decides, since a call that is being written does
 * not parse. */
static bool open_call(const Document *d, size_t offset, OpenCall *call) {
    int depth = 0;
    const char *text = d->text.data;
    call->argument = 0;
    for (size_t at = offset; at-- > 0;) {
        char c = text[at];
        if (c == ')' || c == ']') depth++;
        if (c == '[' && depth-- == 0) return false;
        if (depth == 0 && (c == ',' || (c == '>' && at && text[at - 1] == '-'))) call->argument++;
        if (c == '{' || c == '}') return false;
        if (c != '(' || depth-- > 0) continue;
        size_t begin = at;
        while (begin > 0 && (isalnum((unsigned char)text[begin - 1]) || text[begin - 1] == '_')) begin--;
        call->id = builtin_find(text + begin, at - begin);
        return call->id != BUILTIN_NONE;
    }
    return false;
}

void lsp_signature_help(Request *r) {
    Document *d = request_document(r);
    OpenCall call;
    if (!d || !open_call(d, request_offset(r, d), &call)) return;
    const BuiltinInfo *info = builtin_info(call.id);
    BuiltinParam params[BUILTIN_MAX_PARAMS];
    size_t count = builtin_params(call.id, d->arena, params);
    Str label, list;
    str_init(&label);
    str_init(&list);
    str_printf(&label, "%s(", info->name);
    for (size_t i = 0; i < count; i++) {
        size_t begin = label.len + (i ? 2 : 0);
        str_printf(&label, "%s%s%s", i ? ", " : "", params[i].name, params[i].is_attribute ? "=" : "");
        str_printf(&list, "%s{\"label\":[%zu,%zu]}", i ? "," : "", begin, label.len);
    }
    str_append(&label, ")");
    str_append(&r->out, "{\"signatures\":[{\"label\":");
    str_append_json(&r->out, label.data);
    str_append(&r->out, ",\"documentation\":");
    str_append_json(&r->out, info->summary);
    str_printf(&r->out, ",\"parameters\":[%s]}],\"activeSignature\":0,\"activeParameter\":%u}", list.data, call.argument);
    str_release(&label);
    str_release(&list);
}
