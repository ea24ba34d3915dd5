/* Semantic tokens: keywords, numbers, strings and comments by the scanner, names by what they mean; all of a document, of a part
 * of it, or what has changed since they were told. */
#include "lsp_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef enum {
#define TOKEN_TYPE(id, name) TOKEN_##id,
#include "token_types.def"
#undef TOKEN_TYPE
    TOKEN_NONE
} TokenType;

enum { DECLARATION = 1, READONLY = 2 };

typedef struct {
    const Document *d;
    bool utf8;
    size_t begin, end; /* tokens that touch these bytes are wanted */
    TokenData *out;
    Position last;
} Tokens;

static void push(TokenData *out, uint32_t number) {
    if (out->len == out->cap) {
        size_t more = out->cap ? 2 * out->cap : 1024;
        out->data = server_resize(out->data, more * sizeof *out->data);
        out->cap = more;
    }
    out->data[out->len++] = number;
}

/* Tokens of one line each, as offsets to the one before. */
static void put(Tokens *t, size_t begin, size_t end, TokenType type, unsigned modifiers) {
    if (type == TOKEN_NONE || end < t->begin || begin > t->end) return;
    Position from = document_position(t->d, begin, t->utf8);
    Position to = document_position(t->d, end, t->utf8);
    if (to.line != from.line || to.character <= from.character) return;
    uint32_t lines = from.line - t->last.line;
    push(t->out, lines);
    push(t->out, lines ? from.character : from.character - t->last.character);
    push(t->out, to.character - from.character);
    push(t->out, (uint32_t)type);
    push(t->out, modifiers);
    t->last = from;
}

static TokenType type_of_decl(const Decl *decl) {
    switch (decl->kind) {
    case DECL_TENSOR:
    case DECL_VIEW:
    case DECL_SCALAR:
        return TOKEN_PARAMETER;
    case DECL_CONSTEXPR:
    case DECL_PREDEFINED:
    case DECL_SYMBOL:
        return TOKEN_ENUM_MEMBER;
    default:
        return TOKEN_VARIABLE;
    }
}

static void put_occurrence(Tokens *t, const Occurrence *o) {
    static const TokenType types[] = {[OCC_OPERATION] = TOKEN_FUNCTION,
                                      [OCC_ARGUMENT] = TOKEN_PROPERTY,
                                      [OCC_DTYPE] = TOKEN_TYPE,
                                      [OCC_HINT] = TOKEN_DECORATOR,
                                      [OCC_BLOCK] = TOKEN_CLASS};
    TokenType type = o->kind == OCC_NAME ? type_of_decl(o->decl) : types[o->kind];
    unsigned modifiers = o->is_definition ? DECLARATION : 0;
    if (type == TOKEN_ENUM_MEMBER) modifiers |= READONLY;
    put(t, o->span.begin, o->span.end, type, modifiers);
}

static bool is_keyword(const char *text, size_t length) {
    static const char *const words[] = {"operator",  "sketch", "implements", "symbols", "tensors", "scalars", "constexpr",
                                        "precision", "view",   "case",       "edition", "for",     "in",      "if",
                                        "elif",      "else",   "and",        "or",      "not",     "true",    "false",
                                        "True",      "False",  "values",     "require", "use"};
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (strlen(words[i]) == length && memcmp(words[i], text, length) == 0) return true;
    return false;
}

/* The end of the word, number, string or comment at `at`, and its kind; at + 1 and NONE for others. */
static size_t lex(const Str *text, size_t at, TokenType *type) {
    const char *s = text->data;
    size_t end = at + 1;
    *type = TOKEN_NONE;
    if (s[at] == '#') {
        while (end < text->len && s[end] != '\n' && s[end] != '\r') end++;
        *type = TOKEN_COMMENT;
    } else if (s[at] == '"' || s[at] == '\'') {
        while (end < text->len && s[end] != s[at] && s[end] != '\n') end++;
        end += end < text->len && s[end] == s[at];
        *type = TOKEN_STRING;
    } else if (isdigit((unsigned char)s[at])) {
        while (end < text->len &&
               (isalnum((unsigned char)s[end]) || s[end] == '_' || (s[end] == '.' && s[end + 1] != '.' && s[end - 1] != '.')))
            end++;
        *type = TOKEN_NUMBER;
    } else if (isalpha((unsigned char)s[at]) || s[at] == '_') {
        while (end < text->len && (isalnum((unsigned char)s[end]) || s[end] == '_')) end++;
        if (is_keyword(s + at, end - at)) *type = TOKEN_KEYWORD;
    }
    return end;
}

static void collect(const Request *r, const Document *d, size_t begin, size_t end, TokenData *out) {
    Tokens t = {.d = d, .utf8 = r->server->utf8, .begin = begin, .end = end, .out = out};
    size_t next = 0;
    for (size_t at = 0; at < d->text.len;) {
        while (next < d->occurrences.len && d->occurrences.data[next].span.begin < at) next++;
        if (next < d->occurrences.len && d->occurrences.data[next].span.begin == at) {
            put_occurrence(&t, &d->occurrences.data[next]);
            at = d->occurrences.data[next].span.end;
            continue;
        }
        TokenType type;
        size_t stop = lex(&d->text, at, &type);
        put(&t, at, stop, type, 0);
        at = stop;
    }
}

static void put_numbers(const TokenData *tokens, size_t begin, size_t end, Str *out) {
    str_append(out, "\"data\":[");
    for (size_t i = begin; i < end; i++) str_printf(out, "%s%u", i > begin ? "," : "", tokens->data[i]);
    str_append(out, "]");
}

/* What was told becomes what the client knows. */
static void keep(Document *d, TokenData *tokens) {
    free(d->tokens.data);
    d->tokens = *tokens;
    d->tokens_id++;
}

static void tell_all(Request *r, Document *d) {
    TokenData tokens = {0};
    collect(r, d, 0, d->text.len, &tokens);
    keep(d, &tokens);
    str_printf(&r->out, "{\"resultId\":\"%lld\",", (long long)d->tokens_id);
    put_numbers(&d->tokens, 0, d->tokens.len, &r->out);
    str_append(&r->out, "}");
}

void lsp_semantic_tokens(Request *r) {
    Document *d = request_document(r);
    if (d) tell_all(r, d);
}

void lsp_semantic_tokens_range(Request *r) {
    Document *d = request_document(r);
    if (!d) return;
    const Json *range = json_get(r->params, "range");
    TokenData tokens = {0};
    collect(r, d, document_offset_of(r->server, d, json_get(range, "start")), document_offset_of(r->server, d, json_get(range, "end")),
            &tokens);
    str_append(&r->out, "{");
    put_numbers(&tokens, 0, tokens.len, &r->out);
    str_append(&r->out, "}");
    free(tokens.data);
}

/* One edit: the numbers between what is alike at the start and at the end. */
void lsp_semantic_tokens_delta(Request *r) {
    Document *d = request_document(r);
    char known[24];
    if (!d) return;
    snprintf(known, sizeof known, "%lld", (long long)d->tokens_id);
    if (!d->tokens_id || strcmp(json_get_string(r->params, "previousResultId", ""), known) != 0) {
        tell_all(r, d);
        return;
    }
    TokenData now = {0};
    collect(r, d, 0, d->text.len, &now);
    const TokenData *old = &d->tokens;
    size_t start = 0, end = 0, least = now.len < old->len ? now.len : old->len;
    while (start < least && now.data[start] == old->data[start]) start++;
    while (end < least - start && now.data[now.len - 1 - end] == old->data[old->len - 1 - end]) end++;
    str_printf(&r->out, "{\"resultId\":\"%lld\",\"edits\":[", (long long)d->tokens_id + 1);
    if (start < now.len || start < old->len) {
        str_printf(&r->out, "{\"start\":%zu,\"deleteCount\":%zu,", start, old->len - start - end);
        put_numbers(&now, start, now.len - end, &r->out);
        str_append(&r->out, "}");
    }
    str_append(&r->out, "]}");
    keep(d, &now);
}
