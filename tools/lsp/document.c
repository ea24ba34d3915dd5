/* Open documents: text, positions, analysis on demand. */
#include "lsp_internal.h"

#include <stdlib.h>
#include <string.h>

/* Whose memory is gone. */
void document_lose_analysis(Document *d) {
    d->arena = NULL;
    d->file = NULL;
    d->occurrences = (Occurrences){0};
}

static void forget_analysis(Document *d) {
    arena_destroy(d->arena);
    document_lose_analysis(d);
}

static void index_lines(Document *d) {
    size_t count = 1, at = 1;
    for (size_t i = 0; i < d->text.len; i++) count += d->text.data[i] == '\n';
    uint32_t *lines = server_resize(d->lines, count * sizeof *lines);
    lines[0] = 0;
    for (size_t i = 0; i < d->text.len; i++)
        if (d->text.data[i] == '\n') lines[at++] = (uint32_t)i + 1;
    d->lines = lines;
    d->line_count = count;
}

static void changed(Document *d) {
    forget_analysis(d);
    index_lines(d);
    d->needs_publishing = d->wants_facts = true;
    d->facts_fresh = false;
}

void document_set_text(Document *d, const char *text, size_t size) {
    str_release(&d->text);
    str_init(&d->text);
    str_append_n(&d->text, text, size < LSP_MAX_TEXT ? size : LSP_MAX_TEXT);
    changed(d);
}

bool document_replace(Document *d, size_t begin, size_t end, const char *text, size_t size) {
    if (begin > end || end > d->text.len || size > LSP_MAX_TEXT || d->text.len - (end - begin) + size > LSP_MAX_TEXT) return false;
    Str next;
    str_init(&next);
    str_append_n(&next, d->text.data, begin);
    str_append_n(&next, text, size);
    str_append_n(&next, d->text.data + end, d->text.len - end);
    str_release(&d->text);
    d->text = next;
    changed(d);
    return true;
}

Document *document_find(const Documents *list, const char *uri) {
    for (size_t i = 0; i < list->len; i++)
        if (strcmp(list->data[i]->uri, uri) == 0) return list->data[i];
    return NULL;
}

Document *document_open(Documents *list, const char *uri, const char *text, size_t size) {
    Document *d = document_find(list, uri);
    if (!d) {
        if (list->len == LSP_MAX_DOCUMENTS) return NULL;
        if (list->len == list->cap) {
            size_t more = list->cap ? 2 * list->cap : 8;
            list->data = server_resize(list->data, more * sizeof *list->data);
            list->cap = more;
        }
        d = server_resize(NULL, sizeof *d);
        *d = (Document){.uri = server_resize(NULL, strlen(uri) + 1)};
        memcpy(d->uri, uri, strlen(uri) + 1);
        str_init(&d->text);
        list->data[list->len++] = d;
    }
    document_set_text(d, text, size);
    return d;
}

static void release(Document *d) {
    forget_analysis(d);
    str_release(&d->text);
    json_release(d->facts);
    free(d->tokens.data);
    free(d->lines);
    free(d->uri);
    free(d);
}

void document_close(Documents *list, Document *d) {
    for (size_t i = 0; i < list->len; i++)
        if (list->data[i] == d) {
            list->data[i] = list->data[--list->len];
            break;
        }
    release(d);
}

void documents_release(Documents *list) {
    for (size_t i = 0; i < list->len; i++) release(list->data[i]);
    free(list->data);
    *list = (Documents){0};
}

void document_analyse(Document *d) {
    if (d->arena) return;
    d->arena = arena_create();
    d->sources = source_map_create(d->arena);
    diag_list_init(&d->diags, d->arena, d->sources);
    d->file_id = source_add(d->sources, d->uri, d->text.data, d->text.len);
    d->file = frontend_parse(d->arena, d->sources, d->file_id, &d->diags);
    FrontendOptions options = {.allow_unbound = true};
    frontend_check(d->arena, d->file, &options, &d->diags);
    /* What the default target says of the hints of allocs. */
    AllocMachine machine = {.gpu = true};
    if (!d->diags.error_count && d->file->sketch) frontend_report_allocs(d->file, &machine, &d->diags);
    occurrences_collect(d);
}

/* ---- Positions ---- */

/* Bytes of the UTF-8 sequence that begins with `c`; 1 for what begins none. */
static size_t sequence_length(unsigned char c) {
    return c >= 0xf0 && c < 0xf8 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
}

static size_t line_limit(const Document *d, size_t line) {
    size_t end = line + 1 < d->line_count ? d->lines[line + 1] - 1 : d->text.len;
    if (end > d->lines[line] && d->text.data[end - 1] == '\r') end--;
    return end;
}

size_t document_offset(const Document *d, Position p, bool utf8) {
    if (p.line >= d->line_count) return d->text.len;
    size_t at = d->lines[p.line], end = line_limit(d, p.line);
    if (utf8) return p.character > end - at ? end : at + p.character;
    for (uint32_t units = 0; at < end && units < p.character;) {
        size_t length = sequence_length((unsigned char)d->text.data[at]);
        units += length == 4 ? 2 : 1;
        at = end - at < length ? end : at + length;
    }
    return at;
}

static size_t line_of(const Document *d, size_t offset) {
    size_t low = 0, high = d->line_count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (d->lines[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

Position document_position(const Document *d, size_t offset, bool utf8) {
    if (offset > d->text.len) offset = d->text.len;
    size_t line = line_of(d, offset), at = d->lines[line];
    Position p = {.line = (uint32_t)line};
    if (utf8) {
        p.character = (uint32_t)(offset - at);
        return p;
    }
    while (at < offset) {
        size_t length = sequence_length((unsigned char)d->text.data[at]);
        p.character += length == 4 ? 2 : 1;
        at += length;
    }
    return p;
}
