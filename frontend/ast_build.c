/* Constructors that the grammar's actions call. They build nodes, join lists and report what the
 * grammar is too coarse to see (the form of declarations); names are sema's. */
#include "frontend_internal.h"
#include "parse.tab.h"

#include <string.h>

/* ---- Lists ---- */

PtrVec *vec_make(Parser *p, void *first) {
    PtrVec *v = ARENA_NEW(p->arena, PtrVec);
    return first ? vec_add(p, v, first) : v;
}

PtrVec *vec_add(Parser *p, PtrVec *v, void *item) {
    if (item) VEC_PUSH(p->arena, v, item);
    return v;
}

ArgVec *args_make(Parser *p, const Arg *first) {
    ArgVec *v = ARENA_NEW(p->arena, ArgVec);
    return first ? args_add(p, v, first) : v;
}

ArgVec *args_add(Parser *p, ArgVec *v, const Arg *item) {
    VEC_PUSH(p->arena, v, *item);
    return v;
}

/* What stands right of `->` up to the first named argument is written. */
ArgVec *args_outputs(Parser *p, ArgVec *inputs, ArgVec *outputs) {
    for (size_t i = 0; i < outputs->len; i++) {
        Arg arg = outputs->data[i];
        arg.is_output = !arg.name;
        args_add(p, inputs, &arg);
    }
    return inputs;
}

Arg *arg_make(Parser *p, const char *name, Span name_span, Expr *value) {
    Arg *arg = ARENA_NEW(p->arena, Arg);
    *arg = (Arg){name, name_span, value, false};
    return arg;
}

/* ---- Expressions ---- */

static Expr *make_expr(Parser *p, ExprKind kind, Span span) {
    Expr *e = ARENA_NEW(p->arena, Expr);
    e->kind = kind;
    e->span = span;
    e->reduce_axis = -1;
    return e;
}

/* Deepens `e` by its child; a chain past the limit becomes an error node, reported once. */
static void add_child(Parser *p, Expr *e, const Expr *child) {
    if (!child || child->depth < e->depth) return;
    if (child->depth < FRONTEND_MAX_EXPR_DEPTH) {
        e->depth = (uint16_t)(child->depth + 1);
        return;
    }
    if (!p->depth_reported) diag_report(p->diags, DIAG_expression_too_deep, child->span, FRONTEND_MAX_EXPR_DEPTH);
    p->depth_reported = true;
    e->kind = EXPR_ERROR;
    e->depth = 0;
}

static void add_children(Parser *p, Expr *e, Expr *const *children, size_t count) {
    for (size_t i = 0; i < count && e->kind != EXPR_ERROR; i++) add_child(p, e, children[i]);
}

Expr *expr_error(Parser *p, Span span) {
    return make_expr(p, EXPR_ERROR, span);
}

Expr *expr_const(Parser *p, Span span, ConstValue value) {
    Expr *e = make_expr(p, EXPR_CONST, span);
    e->u.constant = value;
    return e;
}

Expr *expr_name(Parser *p, Span span, const char *name) {
    Expr *e = make_expr(p, EXPR_NAME, span);
    e->u.name.name = name;
    return e;
}

Expr *expr_unary(Parser *p, Span span, Oper op, Span op_span, Expr *a) {
    Expr *e = make_expr(p, EXPR_UNARY, span);
    e->u.oper.op = op;
    e->u.oper.op_span = op_span;
    e->u.oper.a = a;
    add_child(p, e, a);
    return e;
}

Expr *expr_binary(Parser *p, Span span, Oper op, Span op_span, Expr *a, Expr *b) {
    Expr *e = expr_unary(p, span, op, op_span, a);
    if (e->kind == EXPR_ERROR) return e;
    e->kind = EXPR_BINARY;
    e->u.oper.b = b;
    add_child(p, e, b);
    return e;
}

Expr *expr_call(Parser *p, Span span, const char *callee, Span callee_span, ArgVec *args) {
    Expr *e = make_expr(p, EXPR_CALL, span);
    e->u.call.callee = callee;
    e->u.call.callee_span = callee_span;
    e->u.call.args = (Args){args->data, args->len};
    for (size_t i = 0; i < args->len && e->kind == EXPR_CALL; i++) add_child(p, e, args->data[i].value);
    return e;
}

Expr *expr_index(Parser *p, Span span, Expr *base, PtrVec *items) {
    Expr *e = make_expr(p, EXPR_INDEX, span);
    e->u.index.base = base;
    e->u.index.items = (Expr **)items->data;
    e->u.index.count = items->len;
    add_child(p, e, base);
    if (e->kind == EXPR_INDEX) add_children(p, e, (Expr **)items->data, items->len);
    return e;
}

Expr *expr_slice(Parser *p, Span span, Expr *lo, Expr *hi, Expr *step) {
    Expr *e = make_expr(p, EXPR_SLICE, span), *parts[3] = {lo, hi, step};
    e->u.slice.lo = lo;
    e->u.slice.hi = hi;
    e->u.slice.step = step;
    add_children(p, e, parts, 3);
    return e;
}

Expr *expr_in(Parser *p, Span span, Expr *index, Expr *range) {
    Expr *e = make_expr(p, EXPR_IN, span);
    e->u.in.index = index;
    e->u.in.range = range;
    add_child(p, e, range);
    return e;
}

Expr *expr_list(Parser *p, Span span, ExprKind kind, PtrVec *items) {
    Expr *e = make_expr(p, kind, span);
    /* `(a, b, c)` arrives as b, c, a: the grammar knows a tuple only at its first comma */
    if (kind == EXPR_TUPLE && items->len > 1) {
        void *first = items->data[items->len - 1];
        memmove(items->data + 1, items->data, (items->len - 1) * sizeof *items->data);
        items->data[0] = first;
    }
    e->u.list.items = (Expr **)items->data;
    e->u.list.count = items->len;
    add_children(p, e, (Expr **)items->data, items->len);
    return e;
}

/* ---- Statements ---- */

static Stmt *make_stmt(Parser *p, StmtKind kind, Span span) {
    Stmt *s = ARENA_NEW(p->arena, Stmt);
    s->kind = kind;
    s->span = span;
    return s;
}

Stmt *stmt_assign(Parser *p, Span span, PtrVec *targets, PtrVec *values) {
    Stmt *s = make_stmt(p, STMT_ASSIGN, span);
    s->u.assign.targets = (Expr **)targets->data;
    s->u.assign.target_count = targets->len;
    s->u.assign.values = (Expr **)values->data;
    s->u.assign.value_count = values->len;
    return s;
}

Stmt *stmt_update(Parser *p, Span span, PtrVec *targets, Oper op, Span op_span, Expr *value) {
    Expr *target = targets->data[targets->len - 1];
    if (targets->len > 1) diag_report(p->diags, DIAG_bad_target, target->span, "an update has one target");
    Expr *sum = expr_binary(p, span, op, op_span, target, value);
    return stmt_assign(p, span, vec_make(p, target), vec_make(p, sum));
}

Stmt *stmt_expr(Parser *p, Span span, PtrVec *exprs) {
    Stmt *s = make_stmt(p, STMT_EXPR, span);
    s->u.expr.value = exprs->len == 1 ? exprs->data[0] : expr_list(p, span, EXPR_LIST, exprs);
    return s;
}

Stmt *stmt_hint(Parser *p, Span span, const char *name, Span name_span, ArgVec *args) {
    Stmt *s = make_stmt(p, STMT_HINT, span);
    s->hints = ARENA_NEW(p->arena, Hint);
    s->hints[0] = (Hint){name, name_span, {args->data, args->len}};
    s->hint_count = 1;
    return s;
}

static void attach_hints(Parser *p, PtrVec *pending, Stmt *stmt) {
    stmt->hints = ARENA_ARRAY(p->arena, Hint, pending->len);
    stmt->hint_count = pending->len;
    for (size_t i = 0; i < pending->len; i++) stmt->hints[i] = ((Stmt *)pending->data[i])->hints[0];
    pending->len = 0;
}

Body ast_make_body(Parser *p, const PtrVec *stmts) {
    PtrVec kept = {0}, pending = {0};
    for (size_t i = 0; stmts && i < stmts->len; i++) {
        Stmt *s = stmts->data[i];
        if (s->kind == STMT_HINT) {
            VEC_PUSH(p->arena, &pending, s);
            continue;
        }
        if (pending.len) attach_hints(p, &pending, s);
        VEC_PUSH(p->arena, &kept, s);
    }
    for (size_t i = 0; i < pending.len; i++) diag_report(p->diags, DIAG_hint_before_nothing, ((Stmt *)pending.data[i])->span);
    return (Body){(Stmt **)kept.data, kept.len};
}

Stmt *stmt_for(Parser *p, Span span, const char *var, Span var_span, Expr *range, PtrVec *body) {
    Stmt *s = make_stmt(p, STMT_FOR, span);
    s->u.loop.var = var;
    s->u.loop.var_span = var_span;
    s->u.loop.range = range;
    s->u.loop.body = ast_make_body(p, body);
    return s;
}

Stmt *stmt_if(Parser *p, Span span, Expr *condition, PtrVec *then_body, PtrVec *else_body) {
    Stmt *s = make_stmt(p, STMT_IF, span);
    s->u.branch.condition = condition;
    s->u.branch.then_body = ast_make_body(p, then_body);
    s->u.branch.else_body = ast_make_body(p, else_body);
    return s;
}

/* ---- Declarations before they are sorted into a block ---- */

Typed *typed_make(Parser *p, Span span, Expr *head, const char *dtype, Span dtype_span) {
    Typed *t = ARENA_NEW(p->arena, Typed);
    t->span = span;
    t->head = head;
    t->dtype = dtype;
    t->dtype_span = dtype_span;
    return t;
}

Typed *typed_attr(Typed *t, const char *attr, Span attr_span, ArgVec *args) {
    t->attr = attr;
    t->attr_span = attr_span;
    t->attr_args = args;
    return t;
}

Typed *typed_value(Typed *t, Span span, Expr *value) {
    t->value = value;
    t->span = span;
    return t;
}

ConstexprItem *constexpr_make(Parser *p, const char *name, Span span, Expr *value) {
    ConstexprItem *c = ARENA_NEW(p->arena, ConstexprItem);
    c->name = name;
    c->span = span;
    c->value = value;
    return c;
}

ConstexprItem *constexpr_space(ConstexprItem *c, PtrVec *space) {
    c->space = space;
    return c;
}

ConstexprItem *constexpr_range(ConstexprItem *c, Expr *lo, Expr *hi) {
    c->lo = lo;
    c->hi = hi;
    return c;
}

SymbolItem *symbol_make(Parser *p, Expr *head, Expr *value) {
    SymbolItem *s = ARENA_NEW(p->arena, SymbolItem);
    s->head = head;
    s->value = value;
    return s;
}

Item *item_section(Parser *p, Span span, ItemKind kind, PtrVec *list) {
    Item *item = ARENA_NEW(p->arena, Item);
    item->kind = kind;
    item->span = span;
    item->list = list;
    return item;
}

Item *item_stmt(Parser *p, Stmt *stmt) {
    Item *item = item_section(p, stmt->span, ITEM_STMT, NULL);
    item->stmt = stmt;
    return item;
}

Item *item_precision(Parser *p, Span span, const char *name, Span name_span) {
    Item *item = item_section(p, span, ITEM_PRECISION, NULL);
    item->name = name;
    item->name_span = name_span;
    return item;
}

Item *item_use(Parser *p, Span span, const char *name, Span name_span, ArgVec *args) {
    Item *item = item_precision(p, span, name, name_span);
    item->kind = ITEM_USE;
    item->args = args;
    return item;
}

Item *item_view(Parser *p, Span span, Expr *head, Expr *value, const char *word, Span word_span, Expr *pad) {
    Item *item = item_section(p, span, ITEM_VIEW, NULL);
    item->head = head;
    item->value = value;
    item->name = word;
    item->name_span = word_span;
    item->pad = pad;
    return item;
}

Setting *setting_make(Parser *p, Span span, const char *name, SettingKind kind, Expr *value) {
    Setting *s = ARENA_NEW(p->arena, Setting);
    s->kind = kind;
    s->name = name;
    s->span = span;
    s->value = value;
    return s;
}

Item *item_case(Parser *p, Span span, const char *name, PtrVec *settings) {
    Item *item = item_section(p, span, ITEM_CASE, NULL);
    Case *c = item->one_case = ARENA_NEW(p->arena, Case);
    c->name = name;
    c->span = span;
    c->setting_count = settings->len;
    c->settings = ARENA_ARRAY(p->arena, Setting, settings->len);
    for (size_t i = 0; i < settings->len; i++) c->settings[i] = *(Setting *)settings->data[i];
    return item;
}

Implements *implements_make(Parser *p, const char *op, Span span, ArgVec *renames) {
    Implements *made = ARENA_NEW(p->arena, Implements);
    made->op = op;
    made->span = span;
    if (renames) made->renames = (Args){renames->data, renames->len};
    return made;
}

void file_edition(Parser *p, Span span, const ConstValue *value) {
    if (value->kind != CONST_INT || value->i != 1)
        diag_report(p->diags, DIAG_unknown_edition, span);
    else if (p->blocks.len)
        diag_report(p->diags, DIAG_late_edition, span);
}

void parse_limit(Parser *p, Span span) {
    if (!p->scanner.dead) diag_report(p->diags, DIAG_nesting_too_deep, span, FRONTEND_MAX_NESTING);
    p->scanner.dead = true;
}

/* ---- Blocks: sorts items into declarations, cases and statements ---- */

Use *use_make(Parser *p, const Item *item) {
    Use *u = ARENA_NEW(p->arena, Use);
    *u = (Use){.name = item->name, .span = item->name_span};
    if (item->args) u->params = (Args){item->args->data, item->args->len};
    return u;
}

File *frontend_parse(Arena *unit, SourceMap *sources, uint32_t file, DiagList *diags) {
    const SourceFile *source = source_file(sources, file);
    Parser *p = ARENA_NEW(unit, Parser);
    p->arena = unit;
    p->diags = diags;
    p->file = ARENA_NEW(unit, File);
    p->file->file = file;
    p->file->edition = 1;
    if (source->size > FRONTEND_MAX_SOURCE) {
        diag_report(diags, DIAG_source_too_large, (Span){file, 0, 0}, (unsigned)source->size, (unsigned)FRONTEND_MAX_SOURCE);
        return p->file;
    }
    scanner_init(&p->scanner, unit, source, file, diags);
    sk_parse(p);
    p->file->blocks = (Block **)p->blocks.data;
    p->file->block_count = p->blocks.len;
    p->file->comments = p->scanner.comments.data;
    p->file->comment_count = p->scanner.comments.len;
    return p->file;
}
