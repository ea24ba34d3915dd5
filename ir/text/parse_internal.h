/* Shared by the files of the text IR parser only. */
#ifndef IR_TEXT_PARSE_INTERNAL_H
#define IR_TEXT_PARSE_INTERNAL_H

#include "ir_internal.h"

typedef enum {
    TOKEN_END,
    TOKEN_NAME,   /* letters, digits, _ and inner dots */
    TOKEN_VALUE,  /* %name */
    TOKEN_SYMBOL, /* @name */
    TOKEN_INT,
    TOKEN_FLOAT,
    TOKEN_STRING,
    TOKEN_PUNCT, /* one byte */
    TOKEN_BAD    /* reported by the scanner */
} TokenKind;

typedef struct {
    TokenKind kind;
    uint32_t begin, end;
    bool first_on_line;
    char punct;
    const char *text; /* NAME, VALUE, SYMBOL without sigil, STRING decoded */
    int64_t integer;
    double number;
} Token;

typedef struct {
    Arena *scratch;
    IrModule *module;
    DiagList *diags;
    uint32_t file;
    const char *text;
    uint32_t size;
    uint32_t at; /* where the scanner goes on */
    Token token; /* the current one */
    unsigned mistakes, nesting;
    size_t op_count;
    IrFunc *func;
    Map *values;      /* names of the function so far */
    IrValue *missing; /* stands for what was not found; the module is dropped anyway */
} Parser;

/* ---- ir_lex.c ---- */

void ir_next(Parser *p);
bool ir_at(const Parser *p, char punct);
bool ir_at_name(const Parser *p, const char *name);
bool ir_accept(Parser *p, char punct);
bool ir_accept_name(Parser *p, const char *name);
bool ir_expect(Parser *p, char punct);
Span ir_token_span(const Parser *p);
/* Reports at the current token (or a span); returns false. */
bool ir_error(Parser *p, const char *format, ...) PRINTF_LIKE(2, 3);
bool ir_error_at(Parser *p, Span span, const char *format, ...) PRINTF_LIKE(3, 4);
/* "expected X, found Y" at the current token; returns false. */
bool ir_expected(Parser *p, const char *what);
/* An affine expression that starts at the current token and ends before , ) ] } > = " or the line's
 * end outside parentheses. Null after a report. */
const Aff *ir_parse_aff(Parser *p);

/* ---- ir_parse_type.c ---- */

const IrType *ir_parse_type(Parser *p);                              /* null after a report */
bool ir_parse_attrs(Parser *p, IrAttr **list, const IrOpInfo *info); /* after `{`, through `}`; null: a function's */
bool ir_at_attrs(const Parser *p);                                   /* at `{ name =` */
bool ir_parse_number(Parser *p, double *value);
bool ir_parse_integer(Parser *p, int64_t *value);

/* ---- ir_parse_func.c ---- */

bool ir_parse_func(Parser *p);                 /* at `func` */
bool ir_parse_body(Parser *p, IrBlock *block); /* at `{` */
bool ir_parse_case(Parser *p);                 /* at `case` */
bool ir_define_value(Parser *p, const Token *name, IrValue *value);
bool ir_parse_definition(Parser *p, Token *name, unsigned *storage);

#endif
