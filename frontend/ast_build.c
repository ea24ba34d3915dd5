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

/* The statements in order; a hint belongs to the statement after it. */
static Body make_body(Parser *p, const PtrVec *stmts) {
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
    s->u.loop.body = make_body(p, body);
    return s;
}

Stmt *stmt_if(Parser *p, Span span, Expr *condition, PtrVec *then_body, PtrVec *else_body) {
    Stmt *s = make_stmt(p, STMT_IF, span);
    s->u.branch.condition = condition;
    s->u.branch.then_body = make_body(p, then_body);
    s->u.branch.else_body = make_body(p, else_body);
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

typedef struct {
    Parser *parser;
    Block *block;
    PtrVec decls, constraints, cases, stmts, requires, uses;
    ItemKind section; /* that `NAME: dtype` continues */
} Sorter;

static Decl *add_decl(Sorter *w, DeclKind kind, const char *name, Span span) {
    Decl *d = ARENA_NEW(w->parser->arena, Decl);
    d->kind = kind;
    d->name = name;
    d->span = span;
    d->order = (uint32_t)w->decls.len;
    VEC_PUSH(w->parser->arena, &w->decls, d);
    return d;
}

static const Expr *leftmost_name(const Expr *e) {
    while (e && e->kind != EXPR_NAME) {
        if (e->kind == EXPR_BINARY || e->kind == EXPR_UNARY)
            e = e->u.oper.a;
        else
            return NULL;
    }
    return e;
}

static bool is_declared(const Sorter *w, const char *name) {
    for (size_t i = 0; i < w->decls.len; i++) {
        const Decl *d = w->decls.data[i];
        if (d->kind == DECL_SYMBOL && strcmp(d->name, name) == 0) return true;
    }
    return false;
}

static bool is_comparison(const Expr *e) {
    return e->kind == EXPR_BINARY && e->u.oper.op >= OPER_EQ && e->u.oper.op <= OPER_OR;
}

static void add_symbol(Sorter *w, const SymbolItem *item) {
    Parser *p = w->parser;
    const Expr *name = leftmost_name(item->head);
    bool plain = item->head->kind == EXPR_NAME;
    if (item->head->kind == EXPR_ERROR) return;
    if (!name || (!plain && (item->value || !is_comparison(item->head)))) {
        diag_report(p->diags, DIAG_bad_declaration, item->head->span,
                    "a symbol is declared as NAME, NAME = expression, or by a constraint such as "
                    "NAME % 16 == 0");
        return;
    }
    if (plain || !is_declared(w, name->u.name.name)) {
        Decl *d = add_decl(w, DECL_SYMBOL, name->u.name.name, name->span);
        d->value = item->value;
        d->is_implied = !plain;
    }
    if (!plain) VEC_PUSH(p->arena, &w->constraints, item->head);
}

static void set_strides(Sorter *w, Decl *d, const Typed *t) {
    Parser *p = w->parser;
    if (!t->attr) return;
    if (strcmp(t->attr, "strides") != 0) {
        diag_report(p->diags, DIAG_bad_declaration, t->attr_span, "after the type of a tensor only strides(...) may stand");
        return;
    }
    d->stride_count = t->attr_args->len;
    d->strides = ARENA_ARRAY(p->arena, Expr *, d->stride_count);
    for (size_t i = 0; i < d->stride_count; i++) d->strides[i] = t->attr_args->data[i].value;
}

static void add_tensor(Sorter *w, DeclKind kind, const Typed *t) {
    const Expr *head = t->head;
    if (head->kind != EXPR_INDEX || head->u.index.base->kind != EXPR_NAME || t->value) {
        diag_report(w->parser->diags, DIAG_bad_declaration, t->span,
                    "a tensor is declared as NAME[dims]: dtype, a scalar under `scalars:` as "
                    "NAME: dtype");
        return;
    }
    Decl *d = add_decl(w, kind, head->u.index.base->u.name.name, head->u.index.base->span);
    d->dims = head->u.index.items;
    d->dim_count = head->u.index.count;
    d->dtype_name = t->dtype;
    d->dtype_span = t->dtype_span;
    set_strides(w, d, t);
}

static void add_scalar(Sorter *w, const Typed *t) {
    if (t->head->kind != EXPR_NAME || t->attr) {
        diag_report(w->parser->diags, DIAG_bad_declaration, t->span, "a scalar is declared as NAME: dtype or NAME: dtype = value");
        return;
    }
    Decl *d = add_decl(w, DECL_SCALAR, t->head->u.name.name, t->head->span);
    d->value = t->value;
    d->dtype_name = t->dtype;
    d->dtype_span = t->dtype_span;
}

static void add_typed(Sorter *w, const Item *item) {
    ItemKind kind = item->kind == ITEM_TYPED ? w->section : item->kind;
    for (size_t i = 0; i < item->list->len; i++) {
        Typed *t = item->list->data[i];
        if (kind == ITEM_SCALARS)
            add_scalar(w, t);
        else
            add_tensor(w, kind == ITEM_VALUES ? DECL_VALUE : DECL_TENSOR, t);
    }
}

static void add_constexprs(Sorter *w, const Item *item) {
    for (size_t i = 0; i < item->list->len; i++) {
        const ConstexprItem *c = item->list->data[i];
        Decl *d = add_decl(w, DECL_CONSTEXPR, c->name, c->span);
        d->value = c->value;
        if (c->space) d->space = (Expr **)c->space->data, d->space_count = c->space->len;
        d->space_lo = c->lo;
        d->space_hi = c->hi;
    }
}

/* `A[m: extent, k: extent]`: each dim is written like a slice. */
static bool set_view_dims(Parser *p, Decl *d, const Expr *head) {
    d->dim_count = head->u.index.count;
    d->dims = ARENA_ARRAY(p->arena, Expr *, d->dim_count);
    d->dim_names = ARENA_ARRAY(p->arena, const char *, d->dim_count);
    for (size_t i = 0; i < d->dim_count; i++) {
        const Expr *dim = head->u.index.items[i];
        if (dim->kind != EXPR_SLICE || !dim->u.slice.lo || dim->u.slice.lo->kind != EXPR_NAME || !dim->u.slice.hi || dim->u.slice.step)
            return false;
        d->dim_names[i] = dim->u.slice.lo->u.name.name;
        d->dims[i] = dim->u.slice.hi;
    }
    return true;
}

static void add_view(Sorter *w, const Item *item) {
    Parser *p = w->parser;
    const Expr *head = item->head;
    bool named = head->kind == EXPR_INDEX && head->u.index.base->kind == EXPR_NAME;
    bool padded = !item->name || strcmp(item->name, "pad") == 0;
    Decl *d = named ? add_decl(w, DECL_VIEW, head->u.index.base->u.name.name, head->u.index.base->span) : NULL;
    if (!d || !padded || !set_view_dims(p, d, head) || item->value->kind != EXPR_INDEX) {
        diag_report(p->diags, DIAG_bad_declaration, padded ? item->span : item->name_span,
                    "a view is declared as view NAME[i: extent, ...] = TENSOR[indices] pad value");
        if (d) d->dim_count = 0;
        return;
    }
    d->view_of = item->value;
    d->view_pad = item->pad;
}

static void set_precision(Sorter *w, const Item *item) {
    if (w->block->precision_name) diag_report(w->parser->diags, DIAG_bad_declaration, item->span, "the precision is given twice");
    w->block->precision_name = item->name;
    w->block->precision_span = item->name_span;
}

static Use *use_make(Parser *p, const Item *item) {
    Use *u = ARENA_NEW(p->arena, Use);
    *u = (Use){.name = item->name, .span = item->name_span};
    if (item->args) u->params = (Args){item->args->data, item->args->len};
    return u;
}

static void sort_item(Sorter *w, const Item *item) {
    Arena *arena = w->parser->arena;
    if (item->kind != ITEM_TYPED) w->section = item->kind;
    switch (item->kind) {
    case ITEM_SYMBOLS:
        for (size_t i = 0; i < item->list->len; i++) add_symbol(w, item->list->data[i]);
        break;
    case ITEM_TENSORS:
    case ITEM_SCALARS:
    case ITEM_VALUES:
    case ITEM_TYPED:
        add_typed(w, item);
        break;
    case ITEM_CONSTEXPR:
        add_constexprs(w, item);
        break;
    case ITEM_PRECISION:
        set_precision(w, item);
        break;
    case ITEM_REQUIRE:
        for (size_t i = 0; i < item->list->len; i++) VEC_PUSH(arena, &w->requires, item->list->data[i]);
        break;
    case ITEM_USE:
        VEC_PUSH(arena, &w->uses, use_make(w->parser, item));
        break;
    case ITEM_VIEW:
        add_view(w, item);
        break;
    case ITEM_CASE:
        VEC_PUSH(arena, &w->cases, item->one_case);
        break;
    case ITEM_STMT:
        VEC_PUSH(arena, &w->stmts, item->stmt);
        break;
    }
}

static void take_cases(Parser *p, Block *b, const PtrVec *cases) {
    b->case_count = cases->len;
    b->cases = ARENA_ARRAY(p->arena, Case, cases->len);
    for (size_t i = 0; i < cases->len; i++) b->cases[i] = *(Case *)cases->data[i];
}

static void take_uses(Parser *p, Block *b, const PtrVec *uses) {
    b->use_count = uses->len;
    b->uses = ARENA_ARRAY(p->arena, Use, uses->len);
    for (size_t i = 0; i < uses->len; i++) b->uses[i] = *(Use *)uses->data[i];
}

static bool is_declared_otherwise(const PtrVec *decls, const Decl *d) {
    for (size_t i = 0; i < decls->len; i++) {
        const Decl *other = decls->data[i];
        if (other != d && strcmp(other->name, d->name) == 0) return true;
    }
    return false;
}

/* A constraint declares its first name, `K <= 8192`, where nothing else in the block does. */
static void take_decls(Parser *p, Block *b, const PtrVec *decls) {
    b->decls = ARENA_ARRAY(p->arena, Decl *, decls->len + 1);
    for (size_t i = 0; i < decls->len; i++) {
        Decl *d = decls->data[i];
        if (d->is_implied && is_declared_otherwise(decls, d)) continue;
        d->order = (uint32_t)b->decl_count;
        b->decls[b->decl_count++] = d;
    }
}

void block_add(Parser *p, Span span, BlockKind kind, const char *name, Span name_span, const Implements *implements, PtrVec *items) {
    Block *b = ARENA_NEW(p->arena, Block);
    Sorter w = {.parser = p, .block = b, .section = ITEM_STMT};
    b->kind = kind;
    b->name = name;
    b->span = span;
    b->name_span = name_span;
    if (implements) b->implements = *implements;
    for (size_t i = 0; i < items->len; i++) sort_item(&w, items->data[i]);
    take_decls(p, b, &w.decls);
    b->constraints = (Expr **)w.constraints.data;
    b->constraint_count = w.constraints.len;
    take_cases(p, b, &w.cases);
    take_uses(p, b, &w.uses);
    b->requires = (Expr **)w.requires.data;
    b->require_count = w.requires.len;
    b->body = make_body(p, &w.stmts);
    VEC_PUSH(p->arena, &p->blocks, b);
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
