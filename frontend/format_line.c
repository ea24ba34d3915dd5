/* How one logical line is spelt: spaces between tokens, and line breaks where it is too long. */
#include "format_internal.h"

#include "parse.tab.h"

#include <string.h>

enum { MAX_OPEN = FRONTEND_MAX_NESTING };

/* What is open around a token: '(' of calls and groups, '[' of subscripts and lists, 'v' the
 * subscript of a view's head, '{' of a set, 'c' of a case. */
typedef struct {
    char open[MAX_OPEN + 1];
    unsigned depth, subscripts;
} Nesting;

static bool is_word(int kind) {
    switch (kind) {
    case TOK_NAME:
    case TOK_CONST:
        return true;
    default:
        return kind >= TOK_OPERATOR && kind <= TOK_NOT;
    }
}

static bool ends_operand(int kind) {
    return kind == TOK_NAME || kind == TOK_CONST || kind == ')' || kind == ']';
}

static bool is_arithmetic(int kind) {
    return (kind < 256 && kind > 0 && strchr("+-*/%@&|^", kind)) || kind == TOK_POW || kind == TOK_FLOORDIV || kind == TOK_SHL ||
           kind == TOK_SHR;
}

static bool is_sign(int kind) {
    return kind == '-' || kind == '+' || kind == '~';
}

static char top(const Nesting *n) {
    return n->depth ? n->open[n->depth - 1] : 0;
}

static void enter(Nesting *n, const FormatToken *line, size_t at) {
    int kind = line[at].kind;
    if (kind == '(' || kind == '[' || kind == '{') {
        char c = (char)kind;
        if (kind == '[' && at == 2 && line[0].kind == TOK_VIEW) c = 'v';
        if (kind == '{' && line[0].kind == TOK_CASE) c = 'c';
        if (n->depth < MAX_OPEN) n->open[n->depth++] = c;
        n->subscripts += kind == '[' && c != 'v';
    } else if ((kind == ')' || kind == ']' || kind == '}') && n->depth) {
        n->subscripts -= n->open[--n->depth] == '[';
    }
}

/* Whether the operator at `at` stands before its only operand. */
static bool is_unary(const FormatToken *line, size_t at) {
    if (!is_sign(line[at].kind)) return false;
    bool is_pad = at > 1 && line[at - 1].kind == TOK_NAME && line[at - 2].kind == ']';
    return at == 0 || is_pad || !ends_operand(line[at - 1].kind);
}

/* Around punctuation; -1: not decided here. */
static int space_at_punctuation(const Nesting *n, const FormatToken *line, size_t at) {
    int p = line[at - 1].kind, k = line[at].kind;
    if (k == ',' || k == ';' || k == ')' || k == ']' || p == '(' || p == '[') return 0;
    if (k == '}') return top(n) == 'c';
    if (p == '{') return top(n) == 'c';
    if (p == ',' || p == ';') return 1;
    if (k == ':') return 0;
    if (p == ':') return !n->depth || top(n) == 'v' || top(n) == 'c';
    if (k == TOK_DOTDOT || p == TOK_DOTDOT) return 0;
    if ((k == '(' || k == '[') && ends_operand(p) && p != TOK_CONST) return 0;
    if (k == '=' || p == '=') return !n->depth || top(n) == 'v';
    return -1;
}

/* Is there a space between the tokens at - 1 and at? `n` is what is open between them. */
static bool has_space(const Nesting *n, const FormatToken *line, size_t at) {
    int p = line[at - 1].kind, k = line[at].kind, decided = space_at_punctuation(n, line, at);
    if (decided >= 0) return decided;
    if (at == 1 && p == '@') return false;
    if (is_unary(line, at - 1)) return false;
    if (is_word(p) && is_word(k)) return true;
    bool binary = (is_arithmetic(k) && !is_unary(line, at)) || is_arithmetic(p);
    return !binary || !n->subscripts;
}

/* ---- Text of tokens ---- */

static void put_string(const char *text, size_t length, Str *out) {
    char quote = memchr(text + 1, '"', length - 2) ? '\'' : '"';
    str_append_char(out, quote);
    str_append_n(out, text + 1, length - 2);
    str_append_char(out, quote);
}

static void put_token(const FormatToken *t, Str *out) {
    size_t length = t->end - t->begin;
    if (t->kind == TOK_CONST && (*t->text == '"' || *t->text == '\''))
        put_string(t->text, length, out);
    else if (t->kind == TOK_CONST && (*t->text == 'T' || *t->text == 'F'))
        str_append(out, *t->text == 'T' ? "true" : "false");
    else
        str_append_n(out, t->text, length);
}

static void put_comment(const FormatText *text, const FormatComment *c, Str *out) {
    uint32_t end = c->end;
    while (end > c->begin && strchr(" \t", text->source[end - 1])) end--;
    str_append_n(out, text->source + c->begin, end - c->begin);
}

static void put_indent(size_t columns, Str *out) {
    for (size_t i = 0; i < columns; i++) str_append_char(out, ' ');
}

/* ---- Breaking ---- */

/* The tokens of a line as pieces that stay together; a line may be broken before each. */
typedef struct {
    size_t first, count, width; /* tokens; columns, without the space before */
    bool space;                 /* before it, when it does not begin a line */
    bool forced;                /* a comment ends the line before it */
    unsigned depth;             /* brackets open before it */
    bool strong;                /* behind a `;`: broken here first */
} Piece;

typedef struct {
    Piece *data;
    size_t count;
} Pieces;

static bool may_break_before(const Nesting *n, const FormatToken *line, size_t at) {
    int p = line[at - 1].kind;
    if (p == ';' || p == ',' || p == TOK_ARROW) return true;
    return n->depth && !n->subscripts && is_arithmetic(p) && !is_unary(line, at - 1);
}

static size_t token_width(const FormatToken *t) {
    Str text;
    str_init(&text);
    put_token(t, &text);
    size_t width = text.len;
    str_release(&text);
    return width;
}

static void cut_pieces(Arena *arena, const FormatText *text, const FormatLine *line, Pieces *out) {
    const FormatToken *t = text->tokens + line->first;
    Nesting n = {0};
    out->data = ARENA_ARRAY(arena, Piece, line->count + 1);
    out->count = 0;
    for (size_t i = 0; i < line->count; i++) {
        bool space = i > 0 && has_space(&n, t, i), forced = i > 0 && t[i - 1].comment_count;
        if (i == 0 || forced || may_break_before(&n, t, i)) {
            bool strong = i > 0 && t[i - 1].kind == ';';
            out->data[out->count++] = (Piece){i, 0, 0, space, forced, n.depth, strong};
            space = false;
        }
        Piece *p = &out->data[out->count - 1];
        p->count++;
        p->width += token_width(&t[i]) + space;
        enter(&n, t, i);
    }
}

static bool breaks_better(const Piece *a, const Piece *b) {
    if (a->strong != b->strong) return a->strong;
    return a->depth <= b->depth;
}

/* The end of the physical line that begins with piece `from`, at column `column`. */
static size_t line_end(const Pieces *p, size_t from, size_t column) {
    size_t at = from, best = 0;
    for (; at < p->count; at++) {
        const Piece *piece = &p->data[at];
        if (at > from && piece->forced) return at;
        column += (at > from && piece->space) + piece->width;
        if (at > from && (!best || breaks_better(piece, &p->data[best]))) best = at;
        if (column > FORMAT_WIDTH && at > from) return best;
    }
    return p->count;
}

static void put_piece(const FormatToken *tokens, const Piece *piece, Nesting *n, Str *out) {
    for (size_t i = piece->first; i < piece->first + piece->count; i++) {
        if (i > piece->first && has_space(n, tokens, i)) str_append_char(out, ' ');
        put_token(&tokens[i], out);
        enter(n, tokens, i);
    }
}

/* Comments behind a token: the first beside it, others on lines of their own. */
static void put_comments(const FormatText *text, const FormatToken *t, size_t column, Str *out) {
    for (size_t i = 0; i < t->comment_count; i++) {
        const FormatComment *c = &text->comments[t->comment + i];
        if (c->own_line) {
            str_append_char(out, '\n');
            put_indent(column, out);
        } else {
            str_append(out, "  ");
        }
        put_comment(text, c, out);
    }
}

void format_line(const FormatText *text, const FormatLine *line, Str *out) {
    Arena *arena = arena_create();
    Pieces p;
    cut_pieces(arena, text, line, &p);
    const FormatToken *tokens = text->tokens + line->first;
    Nesting n = {0};
    size_t base = (size_t)line->level * FORMAT_INDENT, column = base;
    for (size_t at = 0; at < p.count;) {
        size_t end = line_end(&p, at, column + line->adds_semicolon);
        put_indent(column, out);
        for (size_t i = at; i < end; i++) {
            if (i > at && p.data[i].space) str_append_char(out, ' ');
            put_piece(tokens, &p.data[i], &n, out);
        }
        const Piece *last = &p.data[end - 1];
        column = base + FORMAT_INDENT * (n.depth ? n.depth : 1);
        if (end == p.count && line->adds_semicolon) str_append_char(out, ';');
        put_comments(text, &tokens[last->first + last->count - 1], end < p.count ? column : base, out);
        str_append_char(out, '\n');
        at = end;
    }
    arena_destroy(arena);
}
