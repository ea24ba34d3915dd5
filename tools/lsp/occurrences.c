/* What stands where: every name of a checked tree with the declaration that it means, in order of
 * place. Hover, navigation, renaming and colours are questions to this list. */
#include "lsp_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    Document *d;
    const Block *block;
} Walk;

static void add(Walk *w, Occurrence o) {
    if (o.span.file != w->d->file_id || o.span.begin >= o.span.end) return;
    if (!o.block) o.block = w->block;
    VEC_PUSH(w->d->arena, &w->d->occurrences, o);
}

static void add_name(Walk *w, Span span, const Decl *decl) {
    if (!decl) return;
    bool here = span.begin == decl->span.begin && span.file == decl->span.file;
    add(w, (Occurrence){.kind = OCC_NAME, .span = span, .decl = decl, .is_definition = here});
}

/* ---- Expressions ---- */

static void walk_expr(Walk *w, const Expr *e);

static void walk_list(Walk *w, Expr *const *items, size_t count) {
    for (size_t i = 0; i < count; i++) walk_expr(w, items[i]);
}

static void walk_hint_strings(Walk *w, const Expr *e) {
    if (e->kind == EXPR_LIST || e->kind == EXPR_TUPLE)
        for (size_t i = 0; i < e->u.list.count; i++) walk_hint_strings(w, e->u.list.items[i]);
    else if (e->kind == EXPR_CONST && e->u.constant.kind == CONST_STRING)
        add(w, (Occurrence){.kind = OCC_HINT, .span = e->span});
}

static bool is_dtype_name(const Expr *e) {
    Dtype dtype;
    return e->kind == EXPR_NAME && !e->decl && dtype_find(e->u.name.name, &dtype);
}

static void walk_args(Walk *w, const Args *args, BuiltinId builtin) {
    for (size_t i = 0; i < args->count; i++) {
        const Arg *a = &args->data[i];
        if (a->name) add(w, (Occurrence){.kind = OCC_ARGUMENT, .span = a->name_span, .builtin = builtin});
        if (a->name && strcmp(a->name, "llm_hint") == 0)
            walk_hint_strings(w, a->value);
        else
            walk_expr(w, a->value);
    }
}

static void walk_call(Walk *w, const Expr *e) {
    BuiltinId id = builtin_find(e->u.call.callee, strlen(e->u.call.callee));
    if (id) add(w, (Occurrence){.kind = OCC_OPERATION, .span = e->u.call.callee_span, .builtin = id});
    walk_args(w, &e->u.call.args, id);
}

static void walk_expr(Walk *w, const Expr *e) {
    if (!e) return;
    switch (e->kind) {
    case EXPR_ERROR:
    case EXPR_CONST:
        break;
    case EXPR_NAME:
        if (is_dtype_name(e))
            add(w, (Occurrence){.kind = OCC_DTYPE, .span = e->span});
        else
            add_name(w, e->span, e->decl);
        break;
    case EXPR_UNARY:
    case EXPR_BINARY:
        walk_expr(w, e->u.oper.a);
        walk_expr(w, e->u.oper.b);
        break;
    case EXPR_CALL:
        walk_call(w, e);
        break;
    case EXPR_INDEX:
        if (e->decl && e->u.index.base->kind == EXPR_NAME)
            add_name(w, e->u.index.base->span, e->decl);
        else
            walk_expr(w, e->u.index.base);
        walk_list(w, e->u.index.items, e->u.index.count);
        break;
    case EXPR_SLICE:
        walk_expr(w, e->u.slice.lo);
        walk_expr(w, e->u.slice.hi);
        walk_expr(w, e->u.slice.step);
        break;
    case EXPR_IN:
        walk_expr(w, e->u.in.index);
        walk_expr(w, e->u.in.range);
        break;
    case EXPR_TUPLE:
    case EXPR_LIST:
        walk_list(w, e->u.list.items, e->u.list.count);
        break;
    }
}

/* ---- Statements ---- */

/* A destination whose name the checker resolved into the statement and not into the expression. */
static void walk_target(Walk *w, const Stmt *s, size_t at, const Expr *e) {
    const Decl *decl = at < s->target_count && s->targets ? s->targets[at] : NULL;
    if (e->kind == EXPR_NAME && !e->decl)
        add_name(w, e->span, decl);
    else if (e->kind == EXPR_INDEX && !e->decl && e->u.index.base->kind == EXPR_NAME) {
        add_name(w, e->u.index.base->span, decl);
        walk_list(w, e->u.index.items, e->u.index.count);
    } else
        walk_expr(w, e);
}

static void walk_body(Walk *w, const Body *body);

static void walk_hints(Walk *w, const Stmt *s) {
    for (size_t i = 0; i < s->hint_count; i++)
        for (size_t k = 0; k < s->hints[i].args.count; k++) {
            const Arg *a = &s->hints[i].args.data[k];
            if (a->name) add(w, (Occurrence){.kind = OCC_ARGUMENT, .span = a->name_span});
            walk_hint_strings(w, a->value);
            walk_expr(w, a->value);
        }
}

static void walk_stmt(Walk *w, const Stmt *s) {
    walk_hints(w, s);
    switch (s->kind) {
    case STMT_ERROR:
    case STMT_HINT:
        break;
    case STMT_ASSIGN:
        for (size_t i = 0; i < s->u.assign.target_count; i++) walk_target(w, s, i, s->u.assign.targets[i]);
        walk_list(w, s->u.assign.values, s->u.assign.value_count);
        break;
    case STMT_EXPR:
        walk_expr(w, s->u.expr.value);
        break;
    case STMT_FOR:
        if (s->loop) add_name(w, s->u.loop.var_span, s->loop->var);
        walk_expr(w, s->u.loop.range);
        walk_body(w, &s->u.loop.body);
        break;
    case STMT_IF:
        walk_expr(w, s->u.branch.condition);
        walk_body(w, &s->u.branch.then_body);
        walk_body(w, &s->u.branch.else_body);
        break;
    }
}

static void walk_body(Walk *w, const Body *body) {
    for (size_t i = 0; i < body->count; i++) walk_stmt(w, body->data[i]);
}

/* ---- Blocks ---- */

static void walk_decl(Walk *w, const Decl *d) {
    add_name(w, d->span, d);
    if (d->dtype_name) add(w, (Occurrence){.kind = OCC_DTYPE, .span = d->dtype_span});
    walk_list(w, d->dims, d->dim_count);
    walk_list(w, d->strides, d->stride_count);
    walk_list(w, d->space, d->space_count);
    walk_expr(w, d->space_lo);
    walk_expr(w, d->space_hi);
    walk_expr(w, d->value);
    walk_expr(w, d->view_of);
    walk_expr(w, d->view_pad);
}

static void walk_case(Walk *w, const Case *c) {
    for (size_t i = 0; i < c->setting_count; i++) {
        const Setting *s = &c->settings[i];
        Span name = {s->span.file, s->span.begin, s->span.begin + (uint32_t)strlen(s->name)};
        add_name(w, name, s->decl);
        walk_expr(w, s->value);
    }
}

static const Block *block_named(const File *file, const char *name) {
    for (size_t i = 0; i < file->block_count; i++)
        if (file->blocks[i]->kind == BLOCK_OPERATOR && strcmp(file->blocks[i]->name, name) == 0) return file->blocks[i];
    return NULL;
}

static void walk_block(Walk *w, const Block *b) {
    w->block = b;
    if (*b->name) add(w, (Occurrence){.kind = OCC_BLOCK, .span = b->name_span, .block = b, .is_definition = true});
    const Block *op = b->implements.op ? block_named(w->d->file, b->implements.op) : NULL;
    if (op) {
        Span span = b->implements.span;
        span.end = span.begin + (uint32_t)strlen(b->implements.op);
        add(w, (Occurrence){.kind = OCC_BLOCK, .span = span, .block = op});
    }
    for (size_t i = 0; i < b->decl_count; i++) walk_decl(w, b->decls[i]);
    walk_list(w, b->constraints, b->constraint_count);
    if (b->precision_name) add(w, (Occurrence){.kind = OCC_DTYPE, .span = b->precision_span});
    walk_body(w, &b->body);
    for (size_t i = 0; i < b->case_count; i++) walk_case(w, &b->cases[i]);
}

static int by_place(const void *a, const void *b) {
    const Occurrence *x = a, *y = b;
    if (x->span.begin != y->span.begin) return x->span.begin < y->span.begin ? -1 : 1;
    return (int)y->is_definition - (int)x->is_definition;
}

void occurrences_collect(Document *d) {
    Walk w = {.d = d};
    d->occurrences = (Occurrences){0};
    for (size_t i = 0; i < d->file->block_count; i++) walk_block(&w, d->file->blocks[i]);
    Occurrences *list = &d->occurrences;
    if (list->len) qsort(list->data, list->len, sizeof *list->data, by_place);
    size_t kept = 0;
    for (size_t i = 0; i < list->len; i++) /* a declaration may be met twice */
        if (!kept || list->data[i].span.begin != list->data[kept - 1].span.begin) list->data[kept++] = list->data[i];
    list->len = kept;
}

const Occurrence *occurrence_at(const Document *d, size_t offset) {
    const Occurrences *list = &d->occurrences;
    size_t low = 0, high = list->len;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (list->data[middle].span.begin <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    /* The cursor may stand behind a name's last letter. */
    return low > 0 && offset <= list->data[low - 1].span.end ? &list->data[low - 1] : NULL;
}

bool same_decl(const Decl *a, const Decl *b) {
    if (!a || !b) return false;
    if (a == b) return true;
    bool bound = a->bound_to == b || b->bound_to == a;
    return bound && strcmp(a->name, b->name) == 0;
}

const Block *document_block_at(const Document *d, size_t offset) {
    for (size_t i = 0; i < d->file->block_count; i++) {
        const Block *b = d->file->blocks[i];
        if (b->span.begin <= offset && offset <= b->span.end) return b;
    }
    return NULL;
}

void visit_statements(const Body *body, StmtVisit visit, void *context) {
    for (size_t i = 0; i < body->count; i++) {
        const Stmt *s = body->data[i];
        visit(context, s);
        if (s->kind == STMT_FOR) visit_statements(&s->u.loop.body, visit, context);
        if (s->kind == STMT_IF) {
            visit_statements(&s->u.branch.then_body, visit, context);
            visit_statements(&s->u.branch.else_body, visit, context);
        }
    }
}

typedef struct {
    const Decl *decl;
    const Stmt *found;
} FirstWrite;

static void match_write(void *context, const Stmt *s) {
    FirstWrite *f = context;
    if (f->found || s->action == ACTION_ALLOC || s->action == ACTION_STORE) return;
    for (size_t i = 0; i < s->target_count; i++)
        if (s->targets[i] == f->decl) f->found = s;
    if (s->action == ACTION_LOAD && s->into && s->into->decl == f->decl) f->found = s;
}

const Stmt *first_write(const Block *block, const Decl *decl) {
    FirstWrite f = {.decl = decl};
    visit_statements(&block->body, match_write, &f);
    return f.found;
}
