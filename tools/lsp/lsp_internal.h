/* Shared by the files of tools/lsp. */
#ifndef TOOLS_LSP_INTERNAL_H
#define TOOLS_LSP_INTERNAL_H

#include "frontend.h"
#include "json.h"
#include "lsp.h"
#include "memory.h"

/* Limits of what a client may send. */
enum {
    LSP_MAX_MESSAGE = 8 << 20, /* bytes of one message; a longer one is left aside */
    LSP_MAX_SKIPPED = 1 << 30, /* and one that says it is longer than this ends the connection */
    LSP_MAX_HEADER = 4096,
    LSP_MAX_QUEUE = 4096,
    LSP_MAX_DOCUMENTS = 1024,
    LSP_MAX_TEXT = 4 << 20
};

/* ---- Occurrences: what stands where in a document (occurrences.c) ---- */

typedef enum {
    OCC_NAME,      /* a use or definition of `decl` */
    OCC_OPERATION, /* `builtin` */
    OCC_ARGUMENT,  /* a named argument of `builtin` */
    OCC_DTYPE,
    OCC_HINT, /* a string of a hint or of llm_hint= */
    OCC_BLOCK /* the name of `block`, where it stands or is implemented */
} OccurrenceKind;

typedef struct {
    OccurrenceKind kind;
    Span span;
    bool is_definition;
    const Decl *decl;
    const Block *block; /* that it stands in; BLOCK: that it names */
    BuiltinId builtin;
} Occurrence;

typedef struct {
    Occurrence *data;
    size_t len, cap;
} Occurrences;

/* ---- Documents (document.c) ---- */

typedef struct {
    uint32_t *data;
    size_t len, cap;
} TokenData;

typedef struct {
    char *uri;
    Str text;
    int64_t version;
    uint32_t *lines; /* byte offset of each line's start */
    size_t line_count;
    bool needs_publishing, was_analysed;
    /* the last analysis; null before the first and after an edit */
    Arena *arena;
    SourceMap *sources;
    uint32_t file_id;
    DiagList diags;
    File *file;
    Occurrences occurrences; /* by place */
    /* what compiling said (facts.c), a list by sketch; null: nothing yet. Not fresh: of an earlier text */
    Json *facts;
    bool facts_fresh, wants_facts;
    /* the semantic tokens that the client was told last, five numbers each, under the id that it knows them by */
    TokenData tokens;
    int64_t tokens_id;
} Document;

typedef struct {
    uint32_t line, character; /* character: in the encoding agreed on */
} Position;

typedef struct {
    Document **data;
    size_t len, cap;
} Documents;

Document *document_open(Documents *list, const char *uri, const char *text, size_t size);
Document *document_find(const Documents *list, const char *uri);
void document_close(Documents *list, Document *d);
void documents_release(Documents *list);
void document_set_text(Document *d, const char *text, size_t size);
/* Replaces bytes [begin, end). False when the text would be too long. */
bool document_replace(Document *d, size_t begin, size_t end, const char *text, size_t size);
/* Parses and checks the text unless that was done. */
void document_analyse(Document *d);
/* The analysis is no more: memory ran out while it was made. */
void document_lose_analysis(Document *d);
/* Positions past the end of a line or text mean its end. */
size_t document_offset(const Document *d, Position p, bool utf8);
Position document_position(const Document *d, size_t offset, bool utf8);

void occurrences_collect(Document *d);
const Occurrence *occurrence_at(const Document *d, size_t offset);
/* Whether two declarations are one to the user: a tensor of a sketch and its operator's. */
bool same_decl(const Decl *a, const Decl *b);
/* The innermost block around an offset; null outside of all. */
const Block *document_block_at(const Document *d, size_t offset);
/* The alloc, load, ... statement that makes or first writes a tile; null when there is none. */
const Stmt *first_write(const Block *block, const Decl *decl);
typedef void (*StmtVisit)(void *context, const Stmt *stmt);
void visit_statements(const Body *body, StmtVisit visit, void *context);

/* ---- The server (server.c) ---- */

void *server_resize(void *data, size_t size); /* realloc that ends as memory_out does */

struct LspServer {
    LspWrite write;
    void *context;
    Str input;   /* received, not framed yet */
    size_t skip; /* bytes of a message that is left aside, still to come */
    struct {
        Json **data;
        size_t len, cap;
    } queue;
    size_t queue_head;
    Documents documents;
    bool utf8; /* positions count bytes, else UTF-16 units */
    bool background, can_refresh;
    struct {
        int pid, fd;
        Document *of; /* null: none runs */
        Str text;
    } job;
    int ending[8]; /* processes that were ended */
    size_t ending_count;
    char *target, *arch; /* to compile for; null: the usual ones */
    int64_t asked;       /* requests of the server's own */
    bool initialised, shut_down, ended;
};

/* A request at hand: a handler writes its result into `out`, or sets an error. */
typedef struct {
    LspServer *server;
    const Json *params;
    Str out;   /* the result as JSON; empty: null */
    int error; /* a code of JSON-RPC, 0: none */
    const char *message;
} Request;

typedef void (*Handler)(Request *r);

/* The document that the request names; null, with the error set, when it is not open. */
Document *request_document(Request *r);
/* The offset that a position in JSON means. */
size_t document_offset_of(const LspServer *s, const Document *d, const Json *position);
/* The offset of the request's `position`. */
size_t request_offset(const Request *r, const Document *d);
void request_fail(Request *r, int code, const char *message);
enum {
    LSP_PARSE_ERROR = -32700,
    LSP_INVALID_REQUEST = -32600,
    LSP_METHOD_NOT_FOUND = -32601,
    LSP_INVALID_PARAMS = -32602,
    LSP_INTERNAL = -32603,
    LSP_NOT_INITIALISED = -32002,
    LSP_CANCELLED = -32800,
    LSP_REQUEST_FAILED = -32803
};

void put_position(const Request *r, const Document *d, size_t offset, Str *out);
void put_range(const Request *r, const Document *d, size_t begin, size_t end, Str *out);
void put_span(const Request *r, const Document *d, Span span, Str *out);
/* `{"uri": ..., "range": ...}` */
void put_location(const Request *r, const Document *d, Span span, Str *out);
/* A list's separator: "[" or "{" first, then ",". */
void put_next(Str *out, bool *first);

/* `params` of textDocument/publishDiagnostics (diagnostics.c). */
void put_diagnostics(LspServer *s, Document *d, Str *out);

/* Text for people (describe.c): `tile f32[T, D2]`, the summary of an operation, ... */
void describe_type(const Type *t, Str *out);
void describe_decl(const Document *d, const Block *block, const Decl *decl, Str *out);
void describe_operation(BuiltinId id, Str *out);
const char *hint_summary(const char *name); /* null: unknown */
/* Bytes of a tile when its extents are constants, else 0. */
int64_t tile_bytes(const Type *t);

/* A request without parameters, whose answer does not matter. */
void server_ask(LspServer *s, const char *method);
void server_publish(LspServer *s, Document *d); /* its diagnostics */

/* ---- What compiling says (facts.c) ---- */

/* Ends the work on a document; null: on any. */
void facts_stop(LspServer *s, const Document *d);
/* Ends all work and waits for its end. */
void facts_end(LspServer *s);
/* What was said of a sketch; null: nothing yet. Clients that cannot be told later wait a little for work that goes on, or
 * that is begun here where `begin` says so. */
const Json *facts_of(LspServer *s, const Document *d, const char *sketch, bool begin);
/* Every message (of `--diagnostics=json`) that checking had not said. */
typedef void (*FactVisit)(void *context, const Json *said);
void facts_each(const Document *d, FactVisit visit, void *context);
/* The bytes that a message is about. */
void facts_place(const Document *d, const Json *said, size_t *begin, size_t *end);
void describe_hint(const Document *d, const Occurrence *o, Str *out); /* whether it is followed */
void describe_prediction(const Json *facts, Str *out);                /* the longest case, in one line */
void describe_predictions(const Json *facts, Str *out);               /* a table */

#define METHOD(name, handler) void handler(Request *r);
#include "methods.def"
#undef METHOD

#endif
