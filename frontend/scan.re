/* Characters to tokens, re-entrant. What lines and indentation mean is scan_lines.c's. */
#include "frontend_internal.h"

#include "parse.tab.h"

#include <string.h>

/*!re2c
    re2c:yyfill:enable = 0;
    re2c:define:YYCTYPE = "unsigned char";
    re2c:define:YYCURSOR = cur;
    re2c:define:YYMARKER = marker;
    re2c:define:YYCTXMARKER = context;

    blank = [ \t];
    digit = [0-9];
    name  = [A-Za-z_][A-Za-z0-9_]*;
    exp   = [eE][+-]?digit+;
    float = digit+ "." digit* exp? | "." digit+ exp? | digit+ exp;
    after = blank+ [A-Za-z_];
    typed_ahead = blank* ":" blank* ([A-Za-z_] [A-Za-z0-9_]* blank* "[" | [\r\n#]); /* a tensor, or a block of them: `values` is a usual name */
*/

static const char *token_text(Scanner *s, size_t skip, size_t drop) {
    return arena_strndup(s->arena, s->first + skip, (size_t)(s->cursor - s->first) - skip - drop);
}

static ConstValue int_value(Scanner *s, int base) {
    ConstValue v = {CONST_INT, 0, 0, NULL};
    for (const char *at = s->first + (base == 16 ? 2 : 0); at < s->cursor; at++) {
        if (*at == '_') continue;
        int digit = *at <= '9' ? *at - '0' : (*at | 32) - 'a' + 10;
        if (v.i > (INT64_MAX - digit) / base) {
            diag_report(s->diags, DIAG_bad_number, scan_span(s, s->first, s->cursor),
                        "this integer does not fit in 64 bits");
            v.i = 0;
            break;
        }
        v.i = v.i * base + digit;
    }
    v.f = (double)v.i;
    return v;
}

static ConstValue float_value(Scanner *s) {
    ConstValue v = {CONST_FLOAT, 0, 0, token_text(s, 0, 0)};
    if (!parse_double(v.s, &v.f))
        diag_report(s->diags, DIAG_bad_number, scan_span(s, s->first, s->cursor),
                    "this is not a number");
    return v;
}

/* A run of bytes that no token begins with is one error. */
static void report_bytes(Scanner *s) {
    const unsigned char *at = (const unsigned char *)s->first;
    const unsigned char *end = (const unsigned char *)s->text + s->size;
    while (at < end && (*at >= 0x80 || (*at < 32 && !strchr("\t\n\r", *at)) || *at == 0 || *at == 127)) at++;
    if (at > (const unsigned char *)s->cursor) s->cursor = (const char *)at;
    unsigned first = (unsigned char)*s->first;
    const char *what = first >= 0x80 ? "outside comments and strings only ASCII is allowed"
                       : first < 32 || first == 127 ? "this control character is not allowed"
                                                    : "this character begins no token";
    Span span = scan_span(s, s->first, s->cursor);
    Diag *d = diag_report(s->diags, DIAG_invalid_byte, span, first, what);
    if (first == '.' && s->prev == TOK_NAME)
        diag_note(s->diags, d, SPAN_NONE, "there are no methods and no modules: `x.sum()` is `sum(x)`, `np.exp(x)` is `exp(x)`");
    if (first == '?') diag_note(s->diags, d, SPAN_NONE, "a choice by lanes is where(condition, a, b)");
    if (first == '!') diag_note(s->diags, d, SPAN_NONE, "truth values are joined by `and`, `or` and `not`");
    scan_is_news(s, span.begin);
    s->line_error = true;
}

static void add_comment(Scanner *s) {
    VEC_PUSH(s->arena, &s->comments, scan_span(s, s->first, s->cursor));
}

/* Words that open a declaration are names anywhere else: `view`, `case`... may be tiles. */
static bool opens_line(const Scanner *s) {
    return s->line_start || s->prev == TOK_NEWLINE || s->prev == ';' || s->prev == '{' ||
           s->prev == '}' || s->prev == 0 || s->prev == TOK_INDENT || s->prev == TOK_DEDENT;
}

static int word(Scanner *s, union SK_STYPE *value, int token) {
    if (opens_line(s)) return token;
    value->name = token_text(s, 0, 0);
    return TOK_NAME;
}

static int oper(union SK_STYPE *value, Oper op, int token) {
    value->oper = op;
    return token;
}

int scan_raw(Scanner *s, union SK_STYPE *value) {
    const unsigned char *cur = (const unsigned char *)s->cursor, *marker, *context;
again:
    s->first = (const char *)cur;
#define TAKE (s->cursor = (const char *)cur)
    /*!re2c
    blank+ | "\\" blank* ("\r\n" | "\n") { goto again; }
    "#" [^\n\r\x00]* { TAKE; add_comment(s); goto again; }
    "\r\n" | "\n" | "\r" { TAKE; return TOK_LINE_END; }
    "\x00" {
        if ((const char *)cur > s->text + s->size) { s->cursor = s->text + s->size; s->first = s->cursor; return 0; }
        TAKE; report_bytes(s); cur = (const unsigned char *)s->cursor; goto again;
    }

    "operator" / after { TAKE; return word(s, value, TOK_OPERATOR); }
    "sketch" / (after | blank* "{") { TAKE; return word(s, value, TOK_SKETCH); }
    "case" / after { TAKE; return word(s, value, TOK_CASE); }
    "view" / after { TAKE; return word(s, value, TOK_VIEW); }
    "edition" / blank+ digit { TAKE; return word(s, value, TOK_EDITION); }
    "implements" / after { TAKE; return TOK_IMPLEMENTS; }
    "symbols" / blank* ":" { TAKE; return word(s, value, TOK_SYMBOLS); }
    "tensors" / blank* ":" { TAKE; return word(s, value, TOK_TENSORS); }
    "scalars" / blank* ":" { TAKE; return word(s, value, TOK_SCALARS); }
    "constexpr" / blank* ":" { TAKE; return word(s, value, TOK_CONSTEXPR); }
    "require" / blank* ":" { TAKE; return word(s, value, TOK_REQUIRE); }
    "use" / after { TAKE; return word(s, value, TOK_USE); }
    "precision" / blank* ":" { TAKE; return word(s, value, TOK_PRECISION); }
    "values" / typed_ahead { TAKE; return word(s, value, TOK_VALUES); }
    "for" { TAKE; return TOK_FOR; }
    "in" { TAKE; return TOK_IN; }
    "if" { TAKE; return TOK_IF; }
    "elif" { TAKE; return TOK_ELIF; }
    "else" { TAKE; return TOK_ELSE; }
    "and" { TAKE; return TOK_AND; }
    "or" { TAKE; return TOK_OR; }
    "not" { TAKE; return TOK_NOT; }
    "true" | "True" { TAKE; value->constant = (ConstValue){CONST_BOOL, 1, 1, NULL}; return TOK_CONST; }
    "false" | "False" { TAKE; value->constant = (ConstValue){CONST_BOOL, 0, 0, NULL}; return TOK_CONST; }
    name { TAKE; value->name = token_text(s, 0, 0); return TOK_NAME; }

    digit [0-9_]* { TAKE; value->constant = int_value(s, 10); return TOK_CONST; }
    digit [0-9_]* / ".." { TAKE; value->constant = int_value(s, 10); return TOK_CONST; }
    "0" [xX] [0-9a-fA-F]+ { TAKE; value->constant = int_value(s, 16); return TOK_CONST; }
    float { TAKE; value->constant = float_value(s); return TOK_CONST; }
    (digit+ "." digit* exp? | digit [0-9_]*) name {
        TAKE;
        diag_report(s->diags, DIAG_bad_number, scan_span(s, s->first, s->cursor), "a number ends before letters; a name cannot begin with a digit");
        value->constant = (ConstValue){CONST_INT, 0, 0, NULL};
        return TOK_CONST;
    }
    ["] [^"\n\r\x00]* ["] | ['] [^'\n\r\x00]* ['] {
        TAKE; value->constant = (ConstValue){CONST_STRING, 0, 0, token_text(s, 1, 1)}; return TOK_CONST;
    }
    ["] [^"\n\r\x00]* | ['] [^'\n\r\x00]* {
        TAKE;
        diag_report(s->diags, DIAG_unclosed_string, scan_span(s, s->first, s->cursor));
        s->line_error = true;
        value->constant = (ConstValue){CONST_STRING, 0, 0, token_text(s, 1, 0)};
        return TOK_CONST;
    }

    "->" { TAKE; return TOK_ARROW; }
    ".." { TAKE; return TOK_DOTDOT; }
    "**" { TAKE; return TOK_POW; }
    "//" { TAKE; return TOK_FLOORDIV; }
    "<<" { TAKE; return TOK_SHL; }
    ">>" { TAKE; return TOK_SHR; }
    "==" { TAKE; return TOK_EQ; }
    "!=" { TAKE; return TOK_NE; }
    "<=" { TAKE; return TOK_LE; }
    ">=" { TAKE; return TOK_GE; }
    "+=" { TAKE; return oper(value, OPER_ADD, TOK_UPDATE); }
    "-=" { TAKE; return oper(value, OPER_SUB, TOK_UPDATE); }
    "*=" { TAKE; return oper(value, OPER_MUL, TOK_UPDATE); }
    "/=" { TAKE; return oper(value, OPER_DIV, TOK_UPDATE); }
    [-+*/%@<>=&|^~,;:()[\]{}] { TAKE; return (unsigned char)*s->first; }
    * { TAKE; report_bytes(s); cur = (const unsigned char *)s->cursor; goto again; }
    */
#undef TAKE
}
