/* Semantic tokens: keywords, numbers, strings and comments by the scanner, names by what they mean. */
#include "lsp_internal.h"

#include <ctype.h>
#include <string.h>

typedef enum {
#define TOKEN_TYPE(id, name) TOKEN_##id,
#include "token_types.def"
#undef TOKEN_TYPE
    TOKEN_NONE
} TokenType;

enum { DECLARATION = 1, READONLY = 2 };

typedef struct {
    Request *r;
    const Document *d;
    bool first;
    Position last;
} Tokens;

/* Tokens of one line each, as offsets to the one before. */
static void put(Tokens *t, size_t begin, size_t end, TokenType type, unsigned modifiers) {
    Position from = document_position(t->d, begin, t->r->server->utf8);
    Position to = document_position(t->d, end, t->r->server->utf8);
    if (type == TOKEN_NONE || to.line != from.line || to.character <= from.character) return;
    uint32_t lines = from.line - t->last.line;
    put_next(&t->r->out, &t->first);
    str_printf(&t->r->out, "%u,%u,%u,%d,%u", lines,
               lines ? from.character : from.character - t->last.character,
               to.character - from.character, (int)type, modifiers);
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
    static const TokenType types[] = {
        [OCC_OPERATION] = TOKEN_FUNCTION, [OCC_ARGUMENT] = TOKEN_PROPERTY, [OCC_DTYPE] = TOKEN_TYPE,
        [OCC_HINT] = TOKEN_DECORATOR,     [OCC_BLOCK] = TOKEN_CLASS};
    TokenType type = o->kind == OCC_NAME ? type_of_decl(o->decl) : types[o->kind];
    unsigned modifiers = o->is_definition ? DECLARATION : 0;
    if (type == TOKEN_ENUM_MEMBER) modifiers |= READONLY;
    put(t, o->span.begin, o->span.end, type, modifiers);
}

static bool is_keyword(const char *text, size_t length) {
    static const char *const words[] = {"operator", "sketch", "implements", "symbols", "tensors", "scalars",
                                        "constexpr", "precision", "view", "case", "edition", "for", "in", "if",
                                        "elif", "else", "and", "or", "not", "true", "false", "True", "False"};
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
        while (end < text->len && (isalnum((unsigned char)s[end]) || s[end] == '_' ||
                                   (s[end] == '.' && s[end + 1] != '.' && s[end - 1] != '.')))
            end++;
        *type = TOKEN_NUMBER;
    } else if (isalpha((unsigned char)s[at]) || s[at] == '_') {
        while (end < text->len && (isalnum((unsigned char)s[end]) || s[end] == '_')) end++;
        if (is_keyword(s + at, end - at)) *type = TOKEN_KEYWORD;
    }
    return end;
}

void lsp_semantic_tokens(Request *r) {
    Document *d = request_document(r);
    if (!d) return;
    Tokens t = {.r = r, .d = d, .first = true};
    str_append(&r->out, "{\"data\":[");
    size_t next = 0;
    for (size_t at = 0; at < d->text.len;) {
        while (next < d->occurrences.len && d->occurrences.data[next].span.begin < at) next++;
        if (next < d->occurrences.len && d->occurrences.data[next].span.begin == at) {
            put_occurrence(&t, &d->occurrences.data[next]);
            at = d->occurrences.data[next].span.end;
            continue;
        }
        TokenType type;
        size_t end = lex(&d->text, at, &type);
        put(&t, at, end, type, 0);
        at = end;
    }
    str_append(&r->out, "]}");
}
