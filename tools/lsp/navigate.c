/* Definition, implementations, references, highlights, rename; symbols, selections and folding of a document. */
#include "lsp_internal.h"

#include <ctype.h>
#include <string.h>

static const Occurrence *occurrence_here(Request *r, Document **d) {
    *d = request_document(r);
    return *d ? occurrence_at(*d, request_offset(r, *d)) : NULL;
}

static bool same_thing(const Occurrence *a, const Occurrence *b) {
    if (a->kind != b->kind) return false;
    if (a->kind == OCC_NAME) return same_decl(a->decl, b->decl);
    if (a->kind == OCC_BLOCK) return a->block == b->block;
    return a->kind == OCC_OPERATION && a->builtin == b->builtin;
}

void lsp_definition(Request *r) {
    Document *d;
    const Occurrence *o = occurrence_here(r, &d);
    if (!o || (o->kind != OCC_NAME && o->kind != OCC_BLOCK)) return;
    Span span = o->kind == OCC_BLOCK ? o->block->name_span : o->decl->span;
    if (span.file == d->file_id) put_location(r, d, span, &r->out);
}

/* The sketches that implement the operator; of a sketch those beside it. */
void lsp_implementation(Request *r) {
    Document *d;
    const Occurrence *o = occurrence_here(r, &d);
    if (!o || o->kind != OCC_BLOCK) return;
    const Block *op = o->block->kind == BLOCK_OPERATOR ? o->block : o->block->op;
    bool first = true;
    str_append(&r->out, "[");
    for (size_t i = 0; op && i < d->file->block_count; i++) {
        const Block *b = d->file->blocks[i];
        if (b->kind != BLOCK_SKETCH || b->op != op) continue;
        put_next(&r->out, &first);
        put_location(r, d, b->name_span, &r->out);
    }
    str_append(&r->out, "]");
}

static void put_all(Request *r, bool locations) {
    Document *d;
    const Occurrence *o = occurrence_here(r, &d);
    bool first = true;
    bool definitions = !locations || json_get_bool(json_get(r->params, "context"), "includeDeclaration", true);
    if (r->error) return;
    str_append(&r->out, "[");
    for (size_t i = 0; o && i < d->occurrences.len; i++) {
        const Occurrence *other = &d->occurrences.data[i];
        if (!same_thing(o, other) || (other->is_definition && !definitions)) continue;
        put_next(&r->out, &first);
        if (locations) {
            put_location(r, d, other->span, &r->out);
        } else {
            str_append(&r->out, "{\"range\":");
            put_span(r, d, other->span, &r->out);
            str_printf(&r->out, ",\"kind\":%d}", other->is_definition ? 3 : 2);
        }
    }
    str_append(&r->out, "]");
}

void lsp_references(Request *r) {
    put_all(r, true);
}
void lsp_highlight(Request *r) {
    put_all(r, false);
}

/* ---- Rename ---- */

static bool can_rename(const Document *d, const Occurrence *o) {
    if (!o) return false;
    if (o->kind == OCC_BLOCK) return true;
    return o->kind == OCC_NAME && o->decl->kind != DECL_PREDEFINED && o->decl->span.file == d->file_id;
}

void lsp_prepare_rename(Request *r) {
    Document *d;
    const Occurrence *o = occurrence_here(r, &d);
    if (d && can_rename(d, o)) put_span(r, d, o->span, &r->out);
}

static bool is_name(const char *text) {
    if (!isalpha((unsigned char)*text) && *text != '_') return false;
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && *text != '_') return false;
    return true;
}

static bool is_reserved(const char *text) {
    static const char *const words[] = {"for", "in",   "if",    "elif", "else",  "and",       "or",
                                        "not", "true", "false", "True", "False", "implements"};
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (strcmp(words[i], text) == 0) return true;
    return false;
}

/* A declaration of that name in a block where the renamed thing occurs. */
static bool is_taken(const Document *d, const Occurrence *o, const char *name) {
    for (size_t i = 0; i < d->occurrences.len; i++) {
        const Occurrence *other = &d->occurrences.data[i];
        if (!same_thing(o, other)) continue;
        for (size_t k = 0; k < d->occurrences.len; k++) {
            const Occurrence *use = &d->occurrences.data[k];
            if (use->kind == OCC_NAME && use->block == other->block && strcmp(use->decl->name, name) == 0) return true;
        }
    }
    return false;
}

void lsp_rename(Request *r) {
    Document *d;
    const Occurrence *o = occurrence_here(r, &d);
    const char *name = json_get_string(r->params, "newName", "");
    if (!d) return;
    if (!can_rename(d, o)) {
        request_fail(r, LSP_REQUEST_FAILED, "there is nothing here that can be renamed");
        return;
    }
    if (!is_name(name) || is_reserved(name)) {
        request_fail(r, LSP_REQUEST_FAILED, "a name is letters, digits and _, not a keyword, and begins with no digit");
        return;
    }
    if (o->kind == OCC_NAME && strcmp(o->decl->name, name) != 0 && is_taken(d, o, name)) {
        request_fail(r, LSP_REQUEST_FAILED, "this name is taken in the block");
        return;
    }
    bool first = true;
    str_append(&r->out, "{\"changes\":{");
    str_append_json(&r->out, d->uri);
    str_append(&r->out, ":[");
    for (size_t i = 0; i < d->occurrences.len; i++) {
        if (!same_thing(o, &d->occurrences.data[i])) continue;
        put_next(&r->out, &first);
        str_append(&r->out, "{\"range\":");
        put_span(r, d, d->occurrences.data[i].span, &r->out);
        str_append(&r->out, ",\"newText\":");
        str_append_json(&r->out, name);
        str_append(&r->out, "}");
    }
    str_append(&r->out, "]}}");
}

/* ---- Symbols ---- */

enum { SYMBOL_CLASS = 5, SYMBOL_FUNCTION = 12, SYMBOL_VARIABLE = 13, SYMBOL_CONSTANT = 14, SYMBOL_EVENT = 24 };

static void open_symbol(const Request *r, const Document *d, const char *name, int kind, Span span, Span name_span, Str *out) {
    str_append(out, "{\"name\":");
    str_append_json(out, *name ? name : "(no name)");
    str_printf(out, ",\"kind\":%d,\"range\":", kind);
    put_span(r, d, span, out);
    str_append(out, ",\"selectionRange\":");
    put_span(r, d, name_span.begin >= span.begin && name_span.end <= span.end ? name_span : span, out);
}

static void put_block_symbol(const Request *r, const Document *d, const Block *b, Str *out) {
    bool first = true;
    open_symbol(r, d, b->name, b->kind == BLOCK_OPERATOR ? SYMBOL_CLASS : SYMBOL_FUNCTION, b->span, b->name_span, out);
    str_append(out, ",\"children\":[");
    for (size_t i = 0; i < b->decl_count; i++) {
        const Decl *decl = b->decls[i];
        put_next(out, &first);
        open_symbol(r, d, decl->name, decl->kind == DECL_CONSTEXPR ? SYMBOL_CONSTANT : SYMBOL_VARIABLE, decl->span, decl->span, out);
        str_append(out, "}");
    }
    for (size_t i = 0; i < b->case_count; i++) {
        put_next(out, &first);
        open_symbol(r, d, b->cases[i].name, SYMBOL_EVENT, b->cases[i].span, b->cases[i].span, out);
        str_append(out, "}");
    }
    str_append(out, "]}");
}

void lsp_document_symbol(Request *r) {
    Document *d = request_document(r);
    if (!d) return;
    bool first = true;
    str_append(&r->out, "[");
    for (size_t i = 0; i < d->file->block_count; i++) {
        put_next(&r->out, &first);
        put_block_symbol(r, d, d->file->blocks[i], &r->out);
    }
    str_append(&r->out, "]");
}

/* The letters of `query` in order, large or small: what editors take for a match. */
static bool is_match(const char *name, const char *query) {
    for (; *name && *query; name++)
        if (tolower((unsigned char)*name) == tolower((unsigned char)*query)) query++;
    return !*query;
}

/* Operators and sketches of the open documents. */
void lsp_workspace_symbol(Request *r) {
    const char *query = json_get_string(r->params, "query", "");
    bool first = true;
    str_append(&r->out, "[");
    for (size_t i = 0; i < r->server->documents.len; i++) {
        Document *d = r->server->documents.data[i];
        document_analyse(d);
        for (size_t k = 0; k < d->file->block_count; k++) {
            const Block *b = d->file->blocks[k];
            if (!*b->name || !is_match(b->name, query)) continue;
            put_next(&r->out, &first);
            str_append(&r->out, "{\"name\":");
            str_append_json(&r->out, b->name);
            str_printf(&r->out, ",\"kind\":%d,\"location\":", b->kind == BLOCK_OPERATOR ? SYMBOL_CLASS : SYMBOL_FUNCTION);
            put_location(r, d, b->name_span, &r->out);
            str_append(&r->out, "}");
        }
    }
    str_append(&r->out, "]");
}

static size_t body_end(const Body *body, size_t otherwise) {
    return body->count ? body->data[body->count - 1]->span.end : otherwise;
}

/* ---- Growing a selection: word, statement, loops around it, block, file ---- */

enum { MOST_SPANS = 300 }; /* blocks nest at most 256 deep */

typedef struct {
    size_t offset, len;
    Span spans[MOST_SPANS]; /* from the outermost */
} Around;

static void take_span(Around *a, Span span) {
    if (span.begin <= a->offset && a->offset <= span.end && a->len < MOST_SPANS) a->spans[a->len++] = span;
}

static void take_stmt(void *context, const Stmt *s) {
    Around *a = context;
    Span span = s->span;
    if (s->kind == STMT_FOR) span.end = (uint32_t)body_end(&s->u.loop.body, span.end);
    if (s->kind == STMT_IF) {
        span.end = (uint32_t)body_end(&s->u.branch.then_body, span.end);
        span.end = (uint32_t)body_end(&s->u.branch.else_body, span.end);
    }
    take_span(a, span);
}

static void put_selection(Request *r, const Document *d, size_t offset) {
    Around a = {.offset = offset};
    take_span(&a, (Span){d->file_id, 0, (uint32_t)d->text.len});
    const Block *b = document_block_at(d, offset);
    if (b) take_span(&a, b->span);
    if (b) visit_statements(&b->body, take_stmt, &a);
    const Occurrence *o = occurrence_at(d, offset);
    if (o) take_span(&a, o->span);
    size_t open = 0;
    for (size_t i = a.len; i-- > 0;) {
        Span s = a.spans[i];
        bool inner = i + 1 == a.len || (s.begin <= a.spans[i + 1].begin && s.end >= a.spans[i + 1].end);
        if (!inner) { /* statements of one line touch each other */
            a.spans[i] = a.spans[i + 1];
            continue;
        }
        str_append(&r->out, open++ ? ",\"parent\":{\"range\":" : "{\"range\":");
        put_span(r, d, s, &r->out);
    }
    while (open-- > 0) str_append(&r->out, "}");
}

void lsp_selection_range(Request *r) {
    Document *d = request_document(r);
    if (!d) return;
    bool first = true;
    str_append(&r->out, "[");
    const Json *positions = json_get(r->params, "positions");
    for (const Json *p = json_first(positions); p; p = json_next(p)) {
        put_next(&r->out, &first);
        put_selection(r, d, document_offset_of(r->server, d, p));
    }
    str_append(&r->out, "]");
}

/* ---- Folding ---- */

typedef struct {
    Request *r;
    const Document *d;
    bool first;
} Fold;

static void put_fold(Fold *f, size_t begin, size_t end, const char *kind) {
    uint32_t from = document_position(f->d, begin, true).line;
    uint32_t to = document_position(f->d, end, true).line;
    if (to <= from) return;
    put_next(&f->r->out, &f->first);
    str_printf(&f->r->out, "{\"startLine\":%u,\"endLine\":%u%s%s%s}", from, to, kind ? ",\"kind\":\"" : "", kind ? kind : "",
               kind ? "\"" : "");
}

static void fold_stmt(void *context, const Stmt *s) {
    Fold *f = context;
    if (s->kind == STMT_FOR) put_fold(f, s->span.begin, body_end(&s->u.loop.body, s->span.end), NULL);
    if (s->kind == STMT_IF) put_fold(f, s->span.begin, body_end(&s->u.branch.then_body, s->span.end), NULL);
}

/* Comments on lines that follow each other fold together. */
static void fold_comments(Fold *f) {
    const File *file = f->d->file;
    for (size_t i = 0; i < file->comment_count;) {
        size_t last = i;
        uint32_t line = document_position(f->d, file->comments[i].begin, true).line;
        while (last + 1 < file->comment_count &&
               document_position(f->d, file->comments[last + 1].begin, true).line == line + (last + 1 - i))
            last++;
        put_fold(f, file->comments[i].begin, file->comments[last].begin, "comment");
        i = last + 1;
    }
}

void lsp_folding_range(Request *r) {
    Document *d = request_document(r);
    if (!d) return;
    Fold f = {.r = r, .d = d, .first = true};
    str_append(&r->out, "[");
    for (size_t i = 0; i < d->file->block_count; i++) {
        const Block *b = d->file->blocks[i];
        put_fold(&f, b->span.begin, b->span.end, NULL);
        visit_statements(&b->body, fold_stmt, &f);
    }
    fold_comments(&f);
    str_append(&r->out, "]");
}
