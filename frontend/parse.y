/* The grammar of .sketch files. No logic here: every action is one constructor call (ast_build.c);
 * names and shapes are sema's. Errors are recovered at statement level. */
%require "3.8"
%define api.pure full
%define api.prefix {sk_}
%define api.token.prefix {TOK_}
%define api.location.type {Span}
%define parse.error custom
%define parse.lac full
%locations
%expect 0
%param {Parser *p}

%code requires {
#include "frontend_internal.h"
}
%code top {
#include "frontend_internal.h"

#include <string.h>
/* Bounds the stack: brackets and blocks are limited by the scanner, chains of prefix operators by
 * this. All of it at once (300 kB on the C stack), so that an abandoned parse leaks nothing. */
#define YYMAXDEPTH 6000
#define YYINITDEPTH YYMAXDEPTH
#define YYLLOC_DEFAULT(Cur, Rhs, N)                                                                \
    ((Cur) = (N) ? span_join((Rhs)[1], (Rhs)[N])                                                   \
                 : (Span){(Rhs)[0].file, (Rhs)[0].end, (Rhs)[0].end})
}
%code {
static int sk_lex(SK_STYPE *value, SK_LTYPE *span, Parser *p) {
    return scan_next(&p->scanner, value, span);
}
static void sk_error(const SK_LTYPE *span, Parser *p, const char *text) {
    (void)text; /* only "memory exhausted" comes this way */
    parse_limit(p, *span);
}
}
%initial-action { @$ = (Span){p->file->file, 0, 0}; }

%union {
    const char *name;
    ConstValue constant;
    Oper oper;
    Expr *expr;
    PtrVec *vec;
    ArgVec *args;
    Arg *arg;
    Stmt *stmt;
    Item *item;
    Typed *typed;
    ConstexprItem *constexpr_item;
    SymbolItem *symbol;
    Setting *setting;
    Implements *implements;
}

%token END 0 "the end of the file"
%token <name> NAME "a name"
%token <constant> CONST "a constant"
%token <oper> UPDATE "an update operator"
%token NEWLINE "the end of the line" INDENT "an indented block" DEDENT "the end of the block"
%token LINE_END "a line end"
%token OPERATOR "operator" SKETCH "sketch" CASE "case" VIEW "view" EDITION "edition"
%token IMPLEMENTS "implements" SYMBOLS "symbols" TENSORS "tensors" SCALARS "scalars"
%token CONSTEXPR "constexpr" PRECISION "precision" VALUES "values"
%token REQUIRE "require" USE "use"
%token FOR "for" IN "in" IF "if" ELIF "elif" ELSE "else" AND "and" OR "or" NOT "not"
%token ARROW "->" DOTDOT ".." POW "**" FLOORDIV "//" SHL "<<" SHR ">>"
%token EQ "==" NE "!=" LE "<=" GE ">="

%left OR
%left AND
%precedence NOT
%nonassoc EQ NE LE GE '<' '>'
%left '|'
%left '^'
%left '&'
%left SHL SHR
%left '+' '-'
%left '*' '/' '%' '@' FLOORDIV
%precedence UNARY
%right POW
%precedence '['

%type <expr> expr slice slice_part subscript opt_expr
%type <vec> exprs opt_exprs subscripts stmts suite inline else_part items symbols typed_list
%type <vec> constexprs settings symbol_lines typed_lines constexpr_lines
%type <args> args arg_list
%type <arg> arg
%type <stmt> stmt simple compound
%type <item> item decl section
%type <typed> typed typed_head
%type <constexpr_item> constexpr constexpr_head
%type <symbol> symbol
%type <setting> setting
%type <implements> implements

%%

file: %empty | file top;
top: NEWLINE | ';'
   | EDITION CONST { file_edition(p, @2, &$2); }
   | OPERATOR NAME '{' items '}' { block_add(p, @$, BLOCK_OPERATOR, $2, @2, NULL, $4); }
   | SKETCH NAME implements '{' items '}' { block_add(p, @$, BLOCK_SKETCH, $2, @2, $3, $5); }
   | SKETCH implements '{' items '}' { block_add(p, @$, BLOCK_SKETCH, "", @1, $2, $4); }
   | OPERATOR error '{' items '}' { block_add(p, @$, BLOCK_OPERATOR, "", @1, NULL, $4); }
   | SKETCH error '{' items '}' { block_add(p, @$, BLOCK_SKETCH, "", @1, NULL, $4); }
   | error NEWLINE
   ;
implements: %empty { $$ = NULL; }
   | IMPLEMENTS NAME { $$ = implements_make(p, $2, @2, NULL); }
   | IMPLEMENTS NAME '(' args ')' { $$ = implements_make(p, $2, @2, $4); }
   ;

items: %empty { $$ = vec_make(p, NULL); }
   | items item { $$ = vec_add(p, $1, $2); }
   ;
item: NEWLINE { $$ = NULL; }
   | ';' { $$ = NULL; }
   | decl NEWLINE
   | decl ';'
   | section
   | typed_list NEWLINE { $$ = item_section(p, @1, ITEM_TYPED, $1); }
   | typed_list ';' { $$ = item_section(p, @1, ITEM_TYPED, $1); }
   | simple NEWLINE { $$ = item_stmt(p, $1); }
   | simple ';' { $$ = item_stmt(p, $1); }
   | compound { $$ = item_stmt(p, $1); }
   | INDENT stmts DEDENT { $$ = NULL; }
   | error NEWLINE { $$ = NULL; }
   ;
decl: SYMBOLS ':' symbols { $$ = item_section(p, @$, ITEM_SYMBOLS, $3); }
   | TENSORS ':' typed_list { $$ = item_section(p, @$, ITEM_TENSORS, $3); }
   | VALUES ':' typed_list { $$ = item_section(p, @$, ITEM_VALUES, $3); }
   | SCALARS ':' typed_list { $$ = item_section(p, @$, ITEM_SCALARS, $3); }
   | CONSTEXPR ':' constexprs { $$ = item_section(p, @$, ITEM_CONSTEXPR, $3); }
   | PRECISION ':' NAME { $$ = item_precision(p, @$, $3, @3); }
   | REQUIRE ':' exprs { $$ = item_section(p, @$, ITEM_REQUIRE, $3); }
   | USE NAME { $$ = item_use(p, @$, $2, @2, NULL); }
   | USE NAME '(' args ')' { $$ = item_use(p, @$, $2, @2, $4); }
   | VIEW expr '=' expr { $$ = item_view(p, @$, $2, $4, NULL, @$, NULL); }
   | VIEW expr '=' expr NAME expr { $$ = item_view(p, @$, $2, $4, $5, @5, $6); }
   | CASE NAME '{' settings '}' { $$ = item_case(p, @$, $2, $4); }
   ;
section: SYMBOLS ':' NEWLINE INDENT symbol_lines DEDENT { $$ = item_section(p, @$, ITEM_SYMBOLS, $5); }
   | TENSORS ':' NEWLINE INDENT typed_lines DEDENT { $$ = item_section(p, @$, ITEM_TENSORS, $5); }
   | VALUES ':' NEWLINE INDENT typed_lines DEDENT { $$ = item_section(p, @$, ITEM_VALUES, $5); }
   | SCALARS ':' NEWLINE INDENT typed_lines DEDENT { $$ = item_section(p, @$, ITEM_SCALARS, $5); }
   | CONSTEXPR ':' NEWLINE INDENT constexpr_lines DEDENT { $$ = item_section(p, @$, ITEM_CONSTEXPR, $5); }
   ;

symbols: symbol { $$ = vec_make(p, $1); }
   | symbols ',' symbol { $$ = vec_add(p, $1, $3); }
   ;
symbol_lines: symbol { $$ = vec_make(p, $1); }
   | symbol_lines ',' symbol { $$ = vec_add(p, $1, $3); }
   | symbol_lines line_end symbol { $$ = vec_add(p, $1, $3); }
   | symbol_lines line_end
   ;
symbol: expr { $$ = symbol_make(p, $1, NULL); }
   | expr '=' expr { $$ = symbol_make(p, $1, $3); }
   ;
typed_list: typed { $$ = vec_make(p, $1); }
   | typed_list ',' typed { $$ = vec_add(p, $1, $3); }
   ;
typed_lines: typed { $$ = vec_make(p, $1); }
   | typed_lines ',' typed { $$ = vec_add(p, $1, $3); }
   | typed_lines line_end typed { $$ = vec_add(p, $1, $3); }
   | typed_lines line_end
   ;
typed: typed_head
   | typed_head '=' expr { $$ = typed_value($1, @$, $3); }
   ;
typed_head: expr ':' NAME { $$ = typed_make(p, @$, $1, $3, @3); }
   | expr ':' NAME NAME '(' args ')' { $$ = typed_attr(typed_make(p, @$, $1, $3, @3), $4, @4, $6); }
   ;
constexprs: constexpr { $$ = vec_make(p, $1); }
   | constexprs ',' constexpr { $$ = vec_add(p, $1, $3); }
   ;
constexpr_lines: constexpr { $$ = vec_make(p, $1); }
   | constexpr_lines ',' constexpr { $$ = vec_add(p, $1, $3); }
   | constexpr_lines line_end constexpr { $$ = vec_add(p, $1, $3); }
   | constexpr_lines line_end
   ;
constexpr: constexpr_head
   | constexpr_head IN '{' exprs '}' { $$ = constexpr_space($1, $4); }
   | constexpr_head IN '{' exprs ',' '}' { $$ = constexpr_space($1, $4); }
   | constexpr_head IN expr DOTDOT expr { $$ = constexpr_range($1, $3, $5); }
   ;
constexpr_head: NAME { $$ = constexpr_make(p, $1, @1, NULL); }
   | NAME '=' expr { $$ = constexpr_make(p, $1, @1, $3); }
   ;
line_end: NEWLINE | ';';

settings: %empty { $$ = vec_make(p, NULL); }
   | settings setting { $$ = vec_add(p, $1, $2); }
   ;
setting: ',' { $$ = NULL; }
   | ';' { $$ = NULL; }
   | NEWLINE { $$ = NULL; }
   | NAME '=' expr { $$ = setting_make(p, @$, $1, SETTING_VALUE, $3); }
   | NAME ':' expr { $$ = setting_make(p, @$, $1, SETTING_DATA, $3); }
   | error NEWLINE { $$ = NULL; }
   | error ';' { $$ = NULL; }
   ;

suite: NEWLINE INDENT stmts DEDENT { $$ = $3; }
   | inline NEWLINE
   ;
inline: simple { $$ = vec_make(p, $1); }
   | inline ';' simple { $$ = vec_add(p, $1, $3); }
   | inline ';'
   ;
stmts: %empty { $$ = vec_make(p, NULL); }
   | stmts stmt { $$ = vec_add(p, $1, $2); }
   ;
stmt: NEWLINE { $$ = NULL; }
   | ';' { $$ = NULL; }
   | simple NEWLINE
   | simple ';'
   | compound
   | INDENT stmts DEDENT { $$ = NULL; }
   | error NEWLINE { $$ = NULL; }
   ;
simple: exprs { $$ = stmt_expr(p, @$, $1); }
   | exprs '=' exprs { $$ = stmt_assign(p, @$, $1, $3); }
   | exprs '=' error { $$ = stmt_assign(p, @$, $1, vec_make(p, expr_error(p, @3))); }
   | exprs UPDATE expr { $$ = stmt_update(p, @$, $1, $2, @2, $3); }
   | '@' NAME '(' args ')' { $$ = stmt_hint(p, @$, $2, @2, $4); }
   ;
compound: FOR NAME IN expr ':' suite { $$ = stmt_for(p, @$, $2, @2, $4, $6); }
   | FOR NAME IN expr error suite { $$ = stmt_for(p, @$, $2, @2, $4, $6); }
   | IF expr ':' suite else_part { $$ = stmt_if(p, @$, $2, $4, $5); }
   ;
else_part: %empty { $$ = NULL; }
   | ELSE ':' suite { $$ = $3; }
   | ELIF expr ':' suite else_part { $$ = vec_make(p, stmt_if(p, @$, $2, $4, $5)); }
   ;

exprs: expr { $$ = vec_make(p, $1); }
   | exprs ',' expr { $$ = vec_add(p, $1, $3); }
   ;
opt_exprs: %empty { $$ = vec_make(p, NULL); }
   | exprs
   | exprs ','
   ;
expr: NAME { $$ = expr_name(p, @$, $1); }
   | CONST { $$ = expr_const(p, @$, $1); }
   | '(' expr ')' { $$ = $2; }
   | '(' ')' { $$ = expr_list(p, @$, EXPR_TUPLE, vec_make(p, NULL)); }
   | '(' expr ',' opt_exprs ')' { $$ = expr_list(p, @$, EXPR_TUPLE, vec_add(p, $4, $2)); }
   | '[' opt_exprs ']' { $$ = expr_list(p, @$, EXPR_LIST, $2); }
   | NAME '(' args ')' { $$ = expr_call(p, @$, $1, @1, $3); }
   | expr '[' subscripts ']' { $$ = expr_index(p, @$, $1, $3); }
   | expr '[' ']' { $$ = expr_index(p, @$, $1, vec_make(p, NULL)); }
   | '-' expr %prec UNARY { $$ = expr_unary(p, @$, OPER_NEG, @1, $2); }
   | '+' expr %prec UNARY { $$ = expr_unary(p, @$, OPER_PLUS, @1, $2); }
   | '~' expr %prec UNARY { $$ = expr_unary(p, @$, OPER_BIT_NOT, @1, $2); }
   | NOT expr { $$ = expr_unary(p, @$, OPER_NOT, @1, $2); }
   | expr '+' expr { $$ = expr_binary(p, @$, OPER_ADD, @2, $1, $3); }
   | expr '-' expr { $$ = expr_binary(p, @$, OPER_SUB, @2, $1, $3); }
   | expr '*' expr { $$ = expr_binary(p, @$, OPER_MUL, @2, $1, $3); }
   | expr '/' expr { $$ = expr_binary(p, @$, OPER_DIV, @2, $1, $3); }
   | expr FLOORDIV expr { $$ = expr_binary(p, @$, OPER_FLOORDIV, @2, $1, $3); }
   | expr '%' expr { $$ = expr_binary(p, @$, OPER_MOD, @2, $1, $3); }
   | expr POW expr { $$ = expr_binary(p, @$, OPER_POW, @2, $1, $3); }
   | expr '@' expr { $$ = expr_binary(p, @$, OPER_MATMUL, @2, $1, $3); }
   | expr SHL expr { $$ = expr_binary(p, @$, OPER_SHL, @2, $1, $3); }
   | expr SHR expr { $$ = expr_binary(p, @$, OPER_SHR, @2, $1, $3); }
   | expr '&' expr { $$ = expr_binary(p, @$, OPER_BIT_AND, @2, $1, $3); }
   | expr '|' expr { $$ = expr_binary(p, @$, OPER_BIT_OR, @2, $1, $3); }
   | expr '^' expr { $$ = expr_binary(p, @$, OPER_BIT_XOR, @2, $1, $3); }
   | expr EQ expr { $$ = expr_binary(p, @$, OPER_EQ, @2, $1, $3); }
   | expr NE expr { $$ = expr_binary(p, @$, OPER_NE, @2, $1, $3); }
   | expr '<' expr { $$ = expr_binary(p, @$, OPER_LT, @2, $1, $3); }
   | expr '>' expr { $$ = expr_binary(p, @$, OPER_GT, @2, $1, $3); }
   | expr LE expr { $$ = expr_binary(p, @$, OPER_LE, @2, $1, $3); }
   | expr GE expr { $$ = expr_binary(p, @$, OPER_GE, @2, $1, $3); }
   | expr AND expr { $$ = expr_binary(p, @$, OPER_AND, @2, $1, $3); }
   | expr OR expr { $$ = expr_binary(p, @$, OPER_OR, @2, $1, $3); }
   ;

subscripts: subscript { $$ = vec_make(p, $1); }
   | subscripts ',' subscript { $$ = vec_add(p, $1, $3); }
   ;
subscript: expr
   | slice
   | expr IN slice { $$ = expr_in(p, @$, $1, $3); }
   ;
slice: slice_part
   | opt_expr ':' opt_expr ':' opt_expr { $$ = expr_slice(p, @$, $1, $3, $5); }
   ;
slice_part: opt_expr ':' opt_expr { $$ = expr_slice(p, @$, $1, $3, NULL); };
opt_expr: %empty { $$ = NULL; }
   | expr
   ;

args: %empty { $$ = args_make(p, NULL); }
   | arg_list
   | arg_list ','
   | arg_list ARROW arg_list { $$ = args_outputs(p, $1, $3); }
   ;
arg_list: arg { $$ = args_make(p, $1); }
   | arg_list ',' arg { $$ = args_add(p, $1, $3); }
   ;
arg: expr { $$ = arg_make(p, NULL, @1, $1); }
   | NAME '=' expr { $$ = arg_make(p, $1, @1, $3); }
   | expr IN slice { $$ = arg_make(p, NULL, @1, expr_in(p, @$, $1, $3)); }
   ;

%%

enum { EXPECTED_SHOWN = 6 };

/* Kinds of token that a message names together. */
static const char *group_of(const char *name) {
    static const char *const OPERATORS[] = {"'+'", "'-'", "'*'", "'/'", "'%'", "'@'", "'<'", "'>'", "'&'", "'|'",
                                            "'^'", "'['", "//", "**", "<<", ">>", "==", "!=", "<=", ">=", "and", "or",
                                            "an update operator"};
    static const char *const STARTS[] = {"a name", "a constant", "'('", "'~'", "not"};
    for (size_t i = 0; i < COUNT_OF(STARTS); i++)
        if (strcmp(STARTS[i], name) == 0) return "an expression";
    for (size_t i = 0; i < COUNT_OF(OPERATORS); i++)
        if (strcmp(OPERATORS[i], name) == 0) return "an operator";
    return name;
}

/* The expected tokens, grouped; null-terminated. Where an expression may begin, the signs and
 * brackets that begin one are not named beside it. */
static size_t group_expected(const yypcontext_t *context, const char **groups) {
    yysymbol_kind_t expected[YYNTOKENS];
    int count = yypcontext_expected_tokens(context, expected, YYNTOKENS);
    size_t kept = 0;
    bool begins = false;
    for (int i = 0; i < count; i++) begins |= expected[i] == YYSYMBOL_CONST;
    for (int i = 0; i < count; i++) {
        const char *name = yysymbol_name(expected[i]), *group = group_of(name);
        bool known = begins && strcmp(group, "an operator") == 0;
        if (!begins && strcmp(group, "an expression") == 0) group = name;
        for (size_t k = 0; k < kept; k++) known |= strcmp(groups[k], group) == 0;
        if (!known) groups[kept++] = group;
    }
    return kept;
}

/* What stands here for the word that begins the line, where it is one of another language. */
static const char *first_word_instead(const Parser *p, uint32_t at) {
    const char *text = p->scanner.source, *line = text + at;
    while (line > text && line[-1] != '\n') line--;
    line += strspn(line, " \t");
    return foreign_statement(line, strspn(line, "abcdefghijklmnopqrstuvwxyz_"));
}

static bool compares(const char *name) {
    static const char *const COMPARISONS[] = {"'<'", "'>'", "<=", ">=", "==", "!="};
    for (size_t i = 0; i < COUNT_OF(COMPARISONS); i++)
        if (strcmp(COMPARISONS[i], name) == 0) return true;
    return false;
}

/* Habits inside a line: a second comparison, a choice written as in Python. */
static const char *form_instead(const Parser *p, const char *found, uint32_t at) {
    const char *text = p->scanner.source, *line = text + at;
    bool joined = false;
    if (strcmp(found, "if") == 0) return "a choice by lanes is where(condition, a, b)";
    if ((*found == '\'' && (found[1] == '&' || found[1] == '|')) && at && text[at - 1] == found[1])
        return "truth values are joined by `and`, `or` and `not`";
    if (!compares(found)) return NULL;
    for (; line > text && line[-1] != '\n'; line--) joined |= line[-1] == '&' || line[-1] == '|';
    return joined ? "`&` and `|` bind stronger than comparisons: write `(a > 0) & (a < 1)`, or `a > 0 and a < 1`"
                  : "comparisons do not chain: write `0 < a and a < 1`";
}

/* "found X; expected A, B or C", one a line: what follows in the line is often a consequence. */
static int yyreport_syntax_error(const yypcontext_t *context, Parser *p) {
    const char *groups[YYNTOKENS];
    yysymbol_kind_t found = yypcontext_token(context);
    const Span *place = yypcontext_location(context);
    p->scanner.line_error = true;
    if (p->scanner.dead || found == YYSYMBOL_YYEMPTY || !scan_is_news(&p->scanner, place->begin))
        return 0;
    Str text;
    str_init(&text);
    str_printf(&text, "found %s", yysymbol_name(found));
    size_t count = group_expected(context, groups);
    if (count == 0 || count > EXPECTED_SHOWN) str_append(&text, ", which cannot stand here");
    for (size_t i = 0; i < count && count <= EXPECTED_SHOWN; i++)
        str_printf(&text, "%s%s", i == 0 ? "; expected " : i + 1 == count ? " or " : ", ", groups[i]);
    Diag *d = diag_report(p->diags, DIAG_syntax_error, *place, text.data);
    const char *instead = first_word_instead(p, place->begin);
    if (!instead) instead = form_instead(p, yysymbol_name(found), place->begin);
    if (instead) diag_note(p->diags, d, SPAN_NONE, "%s", instead);
    str_release(&text);
    return 0;
}
