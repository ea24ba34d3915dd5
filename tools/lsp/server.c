/* Frames, the queue, dispatch, and the notifications that keep documents in step. */
#include "lsp_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- Sending ---- */

static void send(LspServer *s, const Str *body) {
    Str frame;
    str_init(&frame);
    str_printf(&frame, "Content-Length: %zu\r\n\r\n", body->len);
    str_append_n(&frame, body->data, body->len);
    s->write(s->context, frame.data, frame.len);
    str_release(&frame);
}

/* Ids are numbers or strings; anything else is answered as null. */
static void put_id(const Json *id, Str *out) {
    int64_t number;
    if (json_kind(id) == JSON_STRING)
        str_append_json(out, json_string(id, ""));
    else if (json_int(id, &number))
        str_printf(out, "%lld", (long long)number);
    else
        str_append(out, "null");
}

static void send_error(LspServer *s, const Json *id, int code, const char *message) {
    Str body;
    str_init(&body);
    str_append(&body, "{\"jsonrpc\":\"2.0\",\"id\":");
    put_id(id, &body);
    str_printf(&body, ",\"error\":{\"code\":%d,\"message\":", code);
    str_append_json(&body, message);
    str_append(&body, "}}");
    send(s, &body);
    str_release(&body);
}

static void send_result(LspServer *s, const Json *id, const Str *result) {
    Str body;
    str_init(&body);
    str_append(&body, "{\"jsonrpc\":\"2.0\",\"id\":");
    put_id(id, &body);
    str_append(&body, ",\"result\":");
    str_append(&body, result->len ? result->data : "null");
    str_append(&body, "}");
    send(s, &body);
    str_release(&body);
}

void server_ask(LspServer *s, const char *method) {
    Str body;
    str_init(&body);
    str_printf(&body, "{\"jsonrpc\":\"2.0\",\"id\":\"sketchc-%lld\",\"method\":\"%s\"}", (long long)++s->asked, method);
    send(s, &body);
    str_release(&body);
}

void server_publish(LspServer *s, Document *d) {
    Str body;
    str_init(&body);
    str_append(&body, "{\"jsonrpc\":\"2.0\",\"method\":\"textDocument/publishDiagnostics\",\"params\":");
    put_diagnostics(s, d, &body);
    str_append(&body, "}");
    send(s, &body);
    str_release(&body);
    d->needs_publishing = false;
}

/* ---- Helpers of the handlers ---- */

void request_fail(Request *r, int code, const char *message) {
    r->error = code;
    r->message = message;
}

Document *request_document(Request *r) {
    const Json *document = json_get(r->params, "textDocument");
    Document *d = document_find(&r->server->documents, json_get_string(document, "uri", ""));
    if (!d) request_fail(r, LSP_INVALID_PARAMS, "the document is not open");
    if (d) document_analyse(d);
    return d;
}

static uint32_t small_number(const Json *object, const char *key) {
    int64_t v = json_get_int(object, key, 0);
    return v < 0 ? 0 : v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

size_t document_offset_of(const LspServer *s, const Document *d, const Json *position) {
    Position p = {small_number(position, "line"), small_number(position, "character")};
    return document_offset(d, p, s->utf8);
}

size_t request_offset(const Request *r, const Document *d) {
    return document_offset_of(r->server, d, json_get(r->params, "position"));
}

void put_position(const Request *r, const Document *d, size_t offset, Str *out) {
    Position p = document_position(d, offset, r->server->utf8);
    str_printf(out, "{\"line\":%u,\"character\":%u}", p.line, p.character);
}

void put_range(const Request *r, const Document *d, size_t begin, size_t end, Str *out) {
    str_append(out, "{\"start\":");
    put_position(r, d, begin, out);
    str_append(out, ",\"end\":");
    put_position(r, d, end, out);
    str_append(out, "}");
}

void put_span(const Request *r, const Document *d, Span span, Str *out) {
    put_range(r, d, span.begin, span.end, out);
}

void put_location(const Request *r, const Document *d, Span span, Str *out) {
    str_append(out, "{\"uri\":");
    str_append_json(out, d->uri);
    str_append(out, ",\"range\":");
    put_span(r, d, span, out);
    str_append(out, "}");
}

void put_next(Str *out, bool *first) {
    if (!*first) str_append_char(out, ',');
    *first = false;
}

/* ---- Notifications ---- */

static void did_open(LspServer *s, const Json *params) {
    const Json *document = json_get(params, "textDocument");
    const char *uri = json_get_string(document, "uri", NULL);
    const char *text = json_get_string(document, "text", "");
    if (!uri) return;
    facts_stop(s, document_find(&s->documents, uri));
    Document *d = document_open(&s->documents, uri, text, strlen(text));
    if (d) d->version = json_get_int(document, "version", 0);
}

static void apply_change(LspServer *s, Document *d, const Json *change) {
    const char *text = json_get_string(change, "text", "");
    const Json *range = json_get(change, "range");
    if (json_kind(range) != JSON_OBJECT) {
        document_set_text(d, text, strlen(text));
        return;
    }
    size_t begin = document_offset_of(s, d, json_get(range, "start"));
    size_t end = document_offset_of(s, d, json_get(range, "end"));
    document_replace(d, begin, end < begin ? begin : end, text, strlen(text));
}

static void did_change(LspServer *s, const Json *params) {
    const Json *document = json_get(params, "textDocument");
    Document *d = document_find(&s->documents, json_get_string(document, "uri", ""));
    if (!d) return;
    facts_stop(s, d);
    const Json *changes = json_get(params, "contentChanges");
    for (const Json *c = json_first(changes); c; c = json_next(c)) apply_change(s, d, c);
    d->version = json_get_int(document, "version", d->version);
}

static void did_close(LspServer *s, const Json *params) {
    const Json *document = json_get(params, "textDocument");
    Document *d = document_find(&s->documents, json_get_string(document, "uri", ""));
    if (!d) return;
    Str body; /* what was reported goes away with it */
    str_init(&body);
    str_append(&body, "{\"jsonrpc\":\"2.0\",\"method\":\"textDocument/publishDiagnostics\",\"params\":{\"uri\":");
    str_append_json(&body, d->uri);
    str_append(&body, ",\"diagnostics\":[]}}");
    send(s, &body);
    str_release(&body);
    facts_stop(s, d);
    document_close(&s->documents, d);
}

static void notify(LspServer *s, const char *method, const Json *params) {
    static const struct {
        const char *name;
        void (*run)(LspServer *s, const Json *params);
    } known[] = {
        {"textDocument/didOpen", did_open},
        {"textDocument/didChange", did_change},
        {"textDocument/didClose", did_close},
    };
    if (strcmp(method, "exit") == 0) s->ended = true;
    for (size_t i = 0; i < COUNT_OF(known) && s->initialised && !s->shut_down; i++)
        if (strcmp(known[i].name, method) == 0) known[i].run(s, params);
}

/* ---- Requests ---- */

static bool wants_utf8(const Json *params) {
    const Json *general = json_get(json_get(params, "capabilities"), "general");
    const Json *list = json_get(general, "positionEncodings");
    for (const Json *e = json_first(list); e; e = json_next(e))
        if (strcmp(json_string(e, ""), "utf-8") == 0) return true;
    return false;
}

static char *copied(const Json *object, const char *key) {
    const char *text = json_get_string(object, key, "");
    return *text ? strdup(text) : NULL;
}

/* initializationOptions: {"target": "cuda" | "openmp", "arch": "sm_90a"} */
static void take_options(LspServer *s, const Json *params) {
    const Json *options = json_get(params, "initializationOptions");
    const Json *hints = json_get(json_get(json_get(params, "capabilities"), "workspace"), "inlayHint");
    s->can_refresh = json_get_bool(hints, "refreshSupport", false);
    s->target = copied(options, "target");
    s->arch = copied(options, "arch");
}

static void initialize(Request *r) {
    LspServer *s = r->server;
    take_options(s, r->params);
    s->utf8 = wants_utf8(r->params);
    s->initialised = true;
    str_printf(&r->out, "{\"capabilities\":{\"positionEncoding\":\"%s\",", s->utf8 ? "utf-8" : "utf-16");
    str_append(&r->out, "\"textDocumentSync\":{\"openClose\":true,\"change\":2},"
                        "\"codeActionProvider\":{\"codeActionKinds\":[\"quickfix\"]},"
                        "\"hoverProvider\":true,\"implementationProvider\":true,\"selectionRangeProvider\":true,"
                        "\"workspaceSymbolProvider\":true,\"inlayHintProvider\":true,"
                        "\"completionProvider\":{\"resolveProvider\":true,\"triggerCharacters\":[\"\\\"\",\"(\",\",\",\":\"]},"
                        "\"signatureHelpProvider\":{\"triggerCharacters\":[\"(\",\",\"]},"
                        "\"definitionProvider\":true,\"referencesProvider\":true,"
                        "\"documentHighlightProvider\":true,\"renameProvider\":{\"prepareProvider\":true},"
                        "\"documentSymbolProvider\":true,\"foldingRangeProvider\":true,"
                        "\"documentFormattingProvider\":true,"
                        "\"executeCommandProvider\":{\"commands\":[\"sketchc.show\"]},"
                        "\"semanticTokensProvider\":{\"full\":{\"delta\":true},\"range\":true,\"legend\":{\"tokenTypes\":[");
    bool first = true;
#define TOKEN_TYPE(id, name)                                                                                                               \
    put_next(&r->out, &first);                                                                                                             \
    str_append_json(&r->out, name);
#include "token_types.def"
#undef TOKEN_TYPE
    str_append(&r->out, "],\"tokenModifiers\":[\"declaration\",\"readonly\"]}}},"
                        "\"serverInfo\":{\"name\":\"sketchc\"}}");
}

static void shutdown_request(Request *r) {
    r->server->shut_down = true;
}

static const struct {
    const char *name;
    Handler run;
} methods[] = {
    {"initialize", initialize},
    {"shutdown", shutdown_request},
#define METHOD(name, handler) {name, handler},
#include "methods.def"
#undef METHOD
};

typedef struct {
    Request r;
    const Json *id;
    Handler run;
} Work;

static void work_on(void *work) {
    Work *w = work;
    str_init(&w->r.out);
    w->run(&w->r);
    if (w->r.error)
        send_error(w->r.server, w->id, w->r.error, w->r.message);
    else
        send_result(w->r.server, w->id, &w->r.out);
    str_release(&w->r.out);
}

/* False: memory ran out before there was an answer. What was analysed meanwhile went with it; texts stay what they are, as no request changes one. */
static bool with_memory(LspServer *s, const Json *id, const Json *params, Handler run) {
    Work w = {.r = {.server = s, .params = params}, .id = id, .run = run};
    for (size_t i = 0; i < s->documents.len; i++) s->documents.data[i]->was_analysed = s->documents.data[i]->arena != NULL;
    if (memory_try(work_on, &w)) return true;
    for (size_t i = 0; i < s->documents.len; i++)
        if (!s->documents.data[i]->was_analysed) document_lose_analysis(s->documents.data[i]);
    return false;
}

static void answer(LspServer *s, const Json *id, const char *method, const Json *params) {
    size_t i = 0;
    while (i < COUNT_OF(methods) && strcmp(methods[i].name, method) != 0) i++;
    bool starts = strcmp(method, "initialize") == 0;
    if (s->shut_down || (starts && s->initialised)) {
        send_error(s, id, LSP_INVALID_REQUEST, starts ? "initialize came twice" : "the server was shut down");
        return;
    }
    if (!s->initialised && !starts) {
        send_error(s, id, LSP_NOT_INITIALISED, "initialize comes first");
        return;
    }
    if (i == COUNT_OF(methods)) {
        send_error(s, id, LSP_METHOD_NOT_FOUND, "this method is not known");
        return;
    }
    if (!with_memory(s, id, params, methods[i].run)) send_error(s, id, LSP_INTERNAL, "out of memory");
}

static bool same_id(const Json *a, const Json *b) {
    if (json_kind(a) != json_kind(b)) return false;
    if (json_kind(a) == JSON_STRING) return strcmp(json_string(a, ""), json_string(b, "")) == 0;
    return json_kind(a) == JSON_NUMBER && json_number(a, 0) == json_number(b, 0);
}

/* A cancellation is queued behind the request it names. */
static bool is_cancelled(const LspServer *s, const Json *id) {
    for (size_t i = s->queue_head; i < s->queue.len; i++) {
        const Json *m = s->queue.data[i];
        if (strcmp(json_get_string(m, "method", ""), "$/cancelRequest") == 0 && same_id(json_get(json_get(m, "params"), "id"), id))
            return true;
    }
    return false;
}

static void handle(LspServer *s, const Json *message) {
    const Json *id = json_get(message, "id");
    const char *method = json_get_string(message, "method", NULL);
    if (json_kind(message) != JSON_OBJECT || (!method && !json_get(message, "result") && !json_get(message, "error")))
        send_error(s, id, LSP_INVALID_REQUEST, "a message is an object with a method");
    else if (method && id && is_cancelled(s, id))
        send_error(s, id, LSP_CANCELLED, "cancelled");
    else if (method && id)
        answer(s, id, method, json_get(message, "params"));
    else if (method)
        notify(s, method, json_get(message, "params"));
}

/* ---- Receiving ---- */

static void enqueue(LspServer *s, Json *message) {
    if (s->queue_head == s->queue.len) s->queue_head = s->queue.len = 0;
    if (s->queue.len == s->queue.cap) {
        size_t more = s->queue.cap ? 2 * s->queue.cap : 16;
        s->queue.data = server_resize(s->queue.data, more * sizeof *s->queue.data);
        s->queue.cap = more;
    }
    s->queue.data[s->queue.len++] = message;
}

/* Reads the header at the start of `input`: its length with the empty line, 0 when it is not whole yet.
 * *length is the body's, SIZE_MAX when the header says none that is allowed. */
static size_t read_header(const Str *input, size_t *length) {
    const char *end = input->len ? strstr(input->data, "\r\n\r\n") : NULL;
    *length = SIZE_MAX;
    if (!end) {
        if (input->len <= LSP_MAX_HEADER && strlen(input->data) == input->len) return 0;
        return input->len;
    }
    for (const char *line = input->data; line < end + 2;) {
        const char *next = strstr(line, "\r\n") + 2;
        static const char key[] = "content-length:";
        size_t i = 0;
        while (key[i] && (line[i] | 32) == (key[i] | 32)) i++;
        if (!key[i]) {
            unsigned long long v = strtoull(line + i, NULL, 10);
            *length = v <= LSP_MAX_SKIPPED ? (size_t)v : SIZE_MAX;
        }
        line = next;
    }
    return (size_t)(end + 4 - input->data);
}

static void drop_input(LspServer *s, size_t count) {
    Str rest;
    str_init(&rest);
    str_append_n(&rest, s->input.data + count, s->input.len - count);
    str_release(&s->input);
    s->input = rest;
}

static void take_body(LspServer *s, const char *body, size_t size) {
    char error[128];
    JsonLimits limits = {.bytes = LSP_MAX_MESSAGE, .depth = 64, .values = 200000};
    Json *message = json_read(body, size, &limits, error);
    if (message && s->queue.len - s->queue_head < LSP_MAX_QUEUE)
        enqueue(s, message);
    else
        json_release(message);
    if (!message) send_error(s, NULL, LSP_PARSE_ERROR, error);
}

bool lsp_receive(LspServer *s, const char *bytes, size_t size) {
    size_t aside = s->skip < size ? s->skip : size;
    s->skip -= aside;
    str_append_n(&s->input, bytes + aside, size - aside);
    for (size_t used = 0, length;; used = 0) {
        size_t header = read_header(&s->input, &length);
        if (!header) return true;
        if (length == SIZE_MAX) return false;
        if (length > LSP_MAX_MESSAGE) {
            size_t there = s->input.len - header;
            send_error(s, NULL, LSP_PARSE_ERROR, "a message of more than 8 MiB is left aside");
            s->skip = there < length ? length - there : 0;
            drop_input(s, header + (there < length ? there : length));
            continue;
        }
        if (s->input.len - header < length) return true;
        take_body(s, s->input.data + header, length);
        used = header + length;
        drop_input(s, used);
    }
}

bool lsp_step(LspServer *s) {
    if (s->queue_head < s->queue.len) {
        Json *message = s->queue.data[s->queue_head++];
        handle(s, message);
        json_release(message);
        return true;
    }
    for (size_t i = 0; i < s->documents.len; i++)
        if (s->documents.data[i]->needs_publishing) {
            server_publish(s, s->documents.data[i]);
            return true;
        }
    return false;
}

/* ---- Lifetime ---- */

void *server_resize(void *data, size_t size) {
    void *more = memory_refuse && memory_refuse() ? NULL : realloc(data, size);
    if (!more) memory_out();
    return more;
}

LspServer *lsp_create(LspWrite write, void *context) {
    LspServer *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->write = write;
    s->context = context;
    str_init(&s->input);
    return s;
}

void lsp_destroy(LspServer *s) {
    if (!s) return;
    facts_end(s);
    free(s->target);
    free(s->arch);
    while (s->queue_head < s->queue.len) json_release(s->queue.data[s->queue_head++]);
    free(s->queue.data);
    documents_release(&s->documents);
    str_release(&s->input);
    free(s);
}

void lsp_set_background(LspServer *s) {
    s->background = true;
}

bool lsp_has_ended(const LspServer *s, int *status) {
    *status = s->shut_down ? 0 : 1;
    return s->ended;
}
