/* Sorts the items of a block into declarations, cases and statements. */
#include "frontend_internal.h"
#include "parse.tab.h"

#include <string.h>

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
    b->body = ast_make_body(p, &w.stmts);
    VEC_PUSH(p->arena, &p->blocks, b);
}
