/* The scanner of text IR: ASCII tokens, `#` comments on lines of their own. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "parse_internal.h"

/* ---- Reports ---- */

Span ir_token_span(const Parser *p) {
    return (Span){p->file, p->token.begin, p->token.end};
}

static void report(Parser *p, Span span, const char *format, va_list args) {
    Str text;
    str_init(&text);
    str_vprintf(&text, format, args);
    diag_report(p->diags, DIAG_ir_syntax, span, arena_strdup(p->module->arena, text.data));
    str_release(&text);
    p->mistakes++;
}

bool ir_error(Parser *p, const char *format, ...) {
    va_list args;
    va_start(args, format);
    report(p, ir_token_span(p), format, args);
    va_end(args);
    return false;
}

bool ir_error_at(Parser *p, Span span, const char *format, ...) {
    va_list args;
    va_start(args, format);
    report(p, span, format, args);
    va_end(args);
    return false;
}

bool ir_expected(Parser *p, const char *what) {
    const Token *t = &p->token;
    if (t->kind == TOKEN_BAD) return false; /* reported already */
    if (t->kind == TOKEN_END) return ir_error(p, "expected %s, found the end of the text", what);
    uint32_t length = t->end - t->begin;
    return ir_error(p, "expected %s, found `%.*s`", what, (int)(length > 40 ? 40 : length), p->text + t->begin);
}

/* ---- Scanning ---- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

static char peek(const Parser *p, uint32_t ahead) {
    return p->size - p->at > ahead ? p->text[p->at + ahead] : '\0';
}

static bool skip_space(Parser *p) {
    bool line_start = p->at == 0;
    for (;;) {
        char c = peek(p, 0);
        if (p->at >= p->size) return line_start;
        if (c == '\n')
            line_start = true;
        else if (c == '#' && line_start)
            while (p->at + 1 < p->size && peek(p, 1) != '\n') p->at++;
        else if (c != ' ' && c != '\t' && c != '\r')
            return line_start;
        p->at++;
    }
}

static void scan_word(Parser *p, Token *t, TokenKind kind) {
    uint32_t begin = p->at;
    while (is_word(peek(p, 0)) || (peek(p, 0) == '.' && is_word(peek(p, 1)))) p->at++;
    t->kind = kind;
    t->text = arena_strndup(p->scratch, p->text + begin, p->at - begin);
}

static void scan_sigil(Parser *p, Token *t, TokenKind kind) {
    p->at++;
    uint32_t begin = p->at;
    while (is_word(peek(p, 0))) p->at++;
    t->kind = kind;
    t->text = arena_strndup(p->scratch, p->text + begin, p->at - begin);
    if (p->at > begin && p->at - begin <= 4 * IR_MAX_NAME) return;
    t->kind = TOKEN_BAD;
    ir_error_at(p, (Span){p->file, begin - 1, p->at}, p->at == begin ? "a name is missing here" : "this name is too long");
}

static bool number_byte(const Parser *p, uint32_t begin) {
    char c = peek(p, 0), last = p->at > begin ? p->text[p->at - 1] : '\0';
    if (is_digit(c) || c == '.' || c == 'e' || c == 'E') return true;
    return (c == '+' || c == '-') && (last == 'e' || last == 'E');
}

/* inf or nan, and not a symbol whose name begins so. */
static bool is_number_word(const Parser *p, uint32_t ahead) {
    const char *at = p->text + p->at + ahead;
    return (strncmp(at, "inf", 3) == 0 || strncmp(at, "nan", 3) == 0) && !is_word(at[3]);
}

static void scan_number(Parser *p, Token *t) {
    uint32_t begin = p->at;
    if (peek(p, 0) == '-') p->at++;
    if (is_number_word(p, 0))
        p->at += 3;
    else
        while (number_byte(p, begin)) p->at++;
    char *copy = arena_strndup(p->scratch, p->text + begin, p->at - begin);
    bool is_float = strpbrk(copy, ".eEin") != NULL;
    t->kind = is_float ? TOKEN_FLOAT : TOKEN_INT;
    errno = 0;
    char *end = NULL;
    if (!is_float) t->integer = strtoll(copy, &end, 10);
    bool good = is_float ? parse_double(copy, &t->number) : errno == 0 && end && !*end && end != copy;
    if (good && !is_word(peek(p, 0))) return;
    t->kind = TOKEN_BAD;
    ir_error_at(p, (Span){p->file, begin, p->at}, "this number cannot be read or is too large");
}

static int hex_digit(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

/* Decodes one escape after the backslash; 0 when there is none such. */
static char scan_escape(Parser *p) {
    if (p->at >= p->size) return 0;
    char c = peek(p, 0);
    p->at++;
    if (c == '"' || c == '\\') return c;
    if (c != 'x' || hex_digit(peek(p, 0)) < 0 || hex_digit(peek(p, 1)) < 0) return 0;
    int value = hex_digit(peek(p, 0)) * 16 + hex_digit(peek(p, 1));
    p->at += 2;
    return (char)value;
}

static void scan_string(Parser *p, Token *t) {
    uint32_t begin = p->at++;
    Str text;
    str_init(&text);
    bool good = true;
    while (p->at < p->size && peek(p, 0) != '"' && peek(p, 0) != '\n') {
        char c = peek(p, 0);
        p->at++;
        if (c == '\\') c = scan_escape(p);
        good = good && c;
        str_append_char(&text, c);
    }
    good = good && peek(p, 0) == '"';
    if (peek(p, 0) == '"') p->at++;
    if (p->at > p->size) p->at = p->size;
    t->kind = good ? TOKEN_STRING : TOKEN_BAD;
    t->text = arena_strndup(p->scratch, text.data, text.len);
    str_release(&text);
    if (!good) ir_error_at(p, (Span){p->file, begin, p->at}, "this string does not end or has a bad escape");
}

void ir_next(Parser *p) {
    bool line_start = skip_space(p);
    Token *t = &p->token;
    *t = (Token){.begin = p->at, .first_on_line = line_start};
    char c = peek(p, 0), next = peek(p, 1);
    if (p->at >= p->size)
        t->kind = TOKEN_END;
    else if (c == '%')
        scan_sigil(p, t, TOKEN_VALUE);
    else if (c == '@')
        scan_sigil(p, t, TOKEN_SYMBOL);
    else if (c == '"')
        scan_string(p, t);
    else if (is_digit(c) || (c == '-' && (is_digit(next) || is_number_word(p, 1))))
        scan_number(p, t);
    else if (is_word(c))
        scan_word(p, t, TOKEN_NAME);
    else {
        t->kind = TOKEN_PUNCT;
        t->punct = c;
        p->at++;
    }
    t->end = p->at;
}

/* ---- Matching ---- */

bool ir_at(const Parser *p, char punct) {
    return p->token.kind == TOKEN_PUNCT && p->token.punct == punct;
}

bool ir_at_name(const Parser *p, const char *name) {
    return p->token.kind == TOKEN_NAME && strcmp(p->token.text, name) == 0;
}

bool ir_accept(Parser *p, char punct) {
    if (!ir_at(p, punct)) return false;
    ir_next(p);
    return true;
}

bool ir_accept_name(Parser *p, const char *name) {
    if (!ir_at_name(p, name)) return false;
    ir_next(p);
    return true;
}

bool ir_expect(Parser *p, char punct) {
    if (ir_accept(p, punct)) return true;
    return ir_expected(p, (char[]){'`', punct, '`', '\0'});
}

/* ---- Affine text ---- */

static uint32_t aff_end(const Parser *p) {
    uint32_t at = p->token.begin;
    for (int depth = 0; at < p->size; at++) {
        char c = p->text[at];
        if (c == '\n' || c == '=' || c == '>' || c == '"' || c == '{' || c == '}' || c == ']') break;
        if (depth == 0 && (c == ',' || c == ')')) break;
        depth += (c == '(') - (c == ')');
    }
    while (at > p->token.begin && strchr(" \t\r", p->text[at - 1])) at--;
    return at;
}

static bool mentions_overflow(const Aff *e, unsigned depth) {
    if (e->kind == AFF_OVERFLOW) return true;
    for (size_t i = 0; i < e->count && depth; i++)
        if (mentions_overflow(e->args[i], depth - 1)) return true;
    return false;
}

const Aff *ir_parse_aff(Parser *p) {
    uint32_t begin = p->token.begin, end = aff_end(p);
    Span span = {p->file, begin, end > begin ? end : p->token.end};
    if (end == begin || p->token.kind == TOKEN_BAD) {
        ir_expected(p, "an affine expression");
        return NULL;
    }
    if (end - begin > IR_MAX_AFF_TEXT) {
        ir_error_at(p, span, "this expression is longer than %d bytes", (int)IR_MAX_AFF_TEXT);
        return NULL;
    }
    char *text = arena_strndup(p->scratch, p->text + begin, end - begin);
    size_t error_at = 0;
    const Aff *e = aff_parse(p->module->affs, text, NULL, NULL, &error_at);
    if (!e) {
        if (error_at >= end - begin) error_at = end - begin - 1;
        span.begin = begin + (uint32_t)error_at;
        ir_error_at(p, span, "this is not an affine expression");
        return NULL;
    }
    if (mentions_overflow(e, 64)) {
        ir_error_at(p, span, "this expression does not fit into 64 bits");
        return NULL;
    }
    p->at = end;
    ir_next(p);
    return e;
}
