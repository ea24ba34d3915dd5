/* Shared by the scanner, the grammar's actions and sema; not for other folders. */
#ifndef FRONTEND_INTERNAL_H
#define FRONTEND_INTERNAL_H

#include "frontend.h"

typedef struct {
    void **data;
    size_t len, cap;
} PtrVec;
typedef struct {
    Arg *data;
    size_t len, cap;
} ArgVec;

/* ---- Scanner ---- */

typedef struct {
    char open;        /* '(', '[', or '{' */
    bool is_set;      /* '{' of `in {..}`: line ends do not count inside */
    uint32_t at;      /* where it stands */
    uint32_t indents; /* '{' of a block: height of the indentation stack outside */
} Bracket;

enum { SCAN_QUEUE = 4 * FRONTEND_MAX_NESTING + 8 };

typedef struct {
    int kind;
    Span span;
} QueuedToken;

typedef struct Scanner {
    Arena *arena;
    DiagList *diags;
    const char *text;        /* punctuation normalised; NUL-terminated */
    const uint32_t *offsets; /* into the source, null: the same */
    uint32_t file, size;
    const char *cursor, *line;
    Bracket brackets[FRONTEND_MAX_NESTING];
    uint32_t bracket_count;
    int indents[FRONTEND_MAX_NESTING + 1]; /* columns; -1: base of a brace, not known yet */
    uint32_t indent_count;
    QueuedToken queue[SCAN_QUEUE]; /* structure tokens that stand before the held token */
    uint32_t queue_head, queue_len;
    int held; /* -1: none */
    Span held_span;
    int prev;             /* last token handed out */
    bool line_start;      /* next token is the first of its line */
    bool opener;          /* the last line ended in `:` */
    bool section_line;    /* the last line began with `symbols:` or the like */
    bool line_error;      /* there is an error in this line: brackets may be open by mistake */
    const char *source;   /* as given */
    uint32_t quiet_until; /* syntax errors up to here are consequences of a reported one */
    bool dead;            /* a limit was passed: only ends of file from here on */
    const char *first;    /* start of the current token */
    struct {
        Span *data;
        size_t len, cap;
    } comments;
} Scanner;

void scanner_init(Scanner *s, Arena *arena, const SourceFile *source, uint32_t file, DiagList *diags);
/* The source with full-width punctuation made plain; null when there is none. */
char *scan_normalize(Scanner *s, const char *text, size_t size, uint32_t **offsets);
/* One token without regard to indentation; scan.re. */
union SK_STYPE;
int scan_raw(Scanner *s, union SK_STYPE *value);
/* The next token with NEWLINE, INDENT, DEDENT; scan_lines.c. */
int scan_next(Scanner *s, union SK_STYPE *value, Span *span);
/* Whether a syntax error at this offset of the source is to be reported; from then on the rest of
 * its line is quiet. */
bool scan_is_news(Scanner *s, uint32_t at);
Span scan_span(const Scanner *s, const char *begin, const char *end);

/* ---- foreign.c: what stands here for a habit of another language; null: nothing does ---- */
const char *foreign_statement(const char *word, size_t size);
const char *foreign_operation(const char *name); /* what says it here; null: nothing known */
const char *foreign_argument(const char *name);
const char *foreign_dtype(const char *name);

/* ---- Parser and the constructors that its actions call (ast_build.c) ---- */

typedef struct Parser {
    Arena *arena;
    Scanner scanner;
    File *file;
    DiagList *diags;
    PtrVec blocks;
    bool depth_reported;
} Parser;

typedef enum {
    ITEM_SYMBOLS,
    ITEM_TENSORS,
    ITEM_SCALARS,
    ITEM_VALUES,
    ITEM_TYPED, /* `X[N]: f32` that continues the section before it */
    ITEM_CONSTEXPR,
    ITEM_PRECISION,
    ITEM_REQUIRE,
    ITEM_USE,
    ITEM_VIEW,
    ITEM_CASE,
    ITEM_STMT
} ItemKind;

/* `head: dtype strides(...) = value`, before it is known what is declared */
typedef struct {
    Expr *head;
    const char *dtype;
    Span dtype_span, span;
    const char *attr;
    Span attr_span;
    ArgVec *attr_args;
    Expr *value;
} Typed;
typedef struct {
    const char *name;
    Span span;
    Expr *value;   /* default; null */
    PtrVec *space; /* null: none */
    Expr *lo, *hi; /* range; null: none */
} ConstexprItem;
typedef struct {
    Expr *head, *value; /* value: derived, else null */
} SymbolItem;
typedef struct {
    ItemKind kind;
    Span span;
    PtrVec *list; /* SYMBOLS: SymbolItem; TENSORS, SCALARS, TYPED: Typed; CONSTEXPR; REQUIRE: Expr */
    Stmt *stmt;
    Case *one_case;
    const char *name; /* PRECISION, USE; VIEW: the word before the padding */
    Span name_span;
    Expr *head, *value, *pad; /* VIEW */
    ArgVec *args;             /* USE; null: none */
} Item;

PtrVec *vec_make(Parser *p, void *first);          /* null: empty */
PtrVec *vec_add(Parser *p, PtrVec *v, void *item); /* null items are left out */
ArgVec *args_make(Parser *p, const Arg *first);
ArgVec *args_add(Parser *p, ArgVec *v, const Arg *item);
ArgVec *args_outputs(Parser *p, ArgVec *inputs, ArgVec *outputs);
Arg *arg_make(Parser *p, const char *name, Span name_span, Expr *value);

Expr *expr_const(Parser *p, Span span, ConstValue value);
Expr *expr_name(Parser *p, Span span, const char *name);
Expr *expr_unary(Parser *p, Span span, Oper op, Span op_span, Expr *a);
Expr *expr_binary(Parser *p, Span span, Oper op, Span op_span, Expr *a, Expr *b);
Expr *expr_call(Parser *p, Span span, const char *callee, Span callee_span, ArgVec *args);
Expr *expr_index(Parser *p, Span span, Expr *base, PtrVec *items);
Expr *expr_slice(Parser *p, Span span, Expr *lo, Expr *hi, Expr *step);
Expr *expr_in(Parser *p, Span span, Expr *index, Expr *range);
Expr *expr_list(Parser *p, Span span, ExprKind kind, PtrVec *items);
Expr *expr_error(Parser *p, Span span);

Stmt *stmt_assign(Parser *p, Span span, PtrVec *targets, PtrVec *values);
Stmt *stmt_update(Parser *p, Span span, PtrVec *targets, Oper op, Span op_span, Expr *value);
Stmt *stmt_expr(Parser *p, Span span, PtrVec *exprs);
Stmt *stmt_hint(Parser *p, Span span, const char *name, Span name_span, ArgVec *args);
Stmt *stmt_for(Parser *p, Span span, const char *var, Span var_span, Expr *range, PtrVec *body);
Stmt *stmt_if(Parser *p, Span span, Expr *condition, PtrVec *then_body, PtrVec *else_body);

Typed *typed_make(Parser *p, Span span, Expr *head, const char *dtype, Span dtype_span);
Typed *typed_attr(Typed *t, const char *attr, Span attr_span, ArgVec *args);
Typed *typed_value(Typed *t, Span span, Expr *value);
ConstexprItem *constexpr_make(Parser *p, const char *name, Span span, Expr *value);
ConstexprItem *constexpr_space(ConstexprItem *c, PtrVec *space);
ConstexprItem *constexpr_range(ConstexprItem *c, Expr *lo, Expr *hi);
SymbolItem *symbol_make(Parser *p, Expr *head, Expr *value);
Item *item_section(Parser *p, Span span, ItemKind kind, PtrVec *list);
Item *item_stmt(Parser *p, Stmt *stmt);
Item *item_precision(Parser *p, Span span, const char *name, Span name_span);
Item *item_use(Parser *p, Span span, const char *name, Span name_span, ArgVec *args);
Item *item_view(Parser *p, Span span, Expr *head, Expr *value, const char *word, Span word_span, Expr *pad);
Setting *setting_make(Parser *p, Span span, const char *name, SettingKind kind, Expr *value);
Item *item_case(Parser *p, Span span, const char *name, PtrVec *settings);
/* The statements in order; a hint belongs to the statement after it. */
Body ast_make_body(Parser *p, const PtrVec *stmts);
void block_add(Parser *p, Span span, BlockKind kind, const char *name, Span name_span, const Implements *implements, PtrVec *items);
Implements *implements_make(Parser *p, const char *op, Span span, ArgVec *renames);
void file_edition(Parser *p, Span span, const ConstValue *value);
void parse_limit(Parser *p, Span span);

/* The statements in order; a hint belongs to the statement after it. */
Body ast_make_body(Parser *p, const PtrVec *stmts);
Use *use_make(Parser *p, const Item *item);

#endif
