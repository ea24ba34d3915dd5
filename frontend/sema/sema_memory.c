/* Which top-level allocs are workspaces: memory that loop nests reach by load and store only. One
 * that is computed with is a tile, even where slices of it are taken. */
#include "sema_internal.h"

#include <string.h>

typedef struct {
    const char *name;
    bool sliced, computed;
} Uses;

static bool is_named(const Expr *e, const char *name) {
    return e && e->kind == EXPR_NAME && strcmp(e->u.name.name, name) == 0;
}

static void find_in(Uses *u, const Expr *e);

static void find_in_list(Uses *u, Expr *const *items, size_t count) {
    for (size_t i = 0; i < count; i++) find_in(u, items[i]);
}

static void find_in(Uses *u, const Expr *e) {
    if (!e) return;
    switch (e->kind) {
    case EXPR_NAME:
        u->computed |= is_named(e, u->name);
        break;
    case EXPR_UNARY:
    case EXPR_BINARY:
        find_in(u, e->u.oper.a);
        find_in(u, e->u.oper.b);
        break;
    case EXPR_CALL:
        for (size_t i = 0; i < e->u.call.args.count; i++) find_in(u, e->u.call.args.data[i].value);
        break;
    case EXPR_INDEX:
        find_in(u, e->u.index.base);
        find_in_list(u, e->u.index.items, e->u.index.count);
        break;
    case EXPR_SLICE:
        find_in(u, e->u.slice.lo);
        find_in(u, e->u.slice.hi);
        find_in(u, e->u.slice.step);
        break;
    case EXPR_TUPLE:
    case EXPR_LIST:
        find_in_list(u, e->u.list.items, e->u.list.count);
        break;
    default:
        break;
    }
}

/* The side of a load or store that is memory. */
static void find_in_memory(Uses *u, const Expr *e) {
    const Expr *base = e->kind == EXPR_INDEX ? e->u.index.base : e;
    if (!is_named(base, u->name)) {
        find_in(u, e);
        return;
    }
    u->sliced = true;
    if (e->kind == EXPR_INDEX) find_in_list(u, e->u.index.items, e->u.index.count);
}

static void find_in_access(Uses *u, const Expr *call, bool is_store) {
    for (size_t i = 0; i < call->u.call.args.count; i++) {
        const Arg *arg = &call->u.call.args.data[i];
        bool second = arg->name ? strcmp(arg->name, "target") == 0 : arg->is_output || i == 1;
        bool first = arg->name ? strcmp(arg->name, "source") == 0 : !arg->is_output && i == 0;
        if (is_store ? second : first)
            find_in_memory(u, arg->value);
        else
            find_in(u, arg->value);
    }
}

static void find_in_body(Uses *u, const Body *body);

static void find_in_stmt(Uses *u, const Stmt *s) {
    switch (s->kind) {
    case STMT_ASSIGN:
        for (size_t i = 0; i < s->u.assign.value_count; i++) {
            const Expr *value = s->u.assign.values[i];
            bool alloc = value->kind == EXPR_CALL && strcmp(value->u.call.callee, "alloc") == 0;
            find_in(u, value);
            if (!alloc && i < s->u.assign.target_count) find_in(u, s->u.assign.targets[i]);
        }
        break;
    case STMT_EXPR: {
        const Expr *call = s->u.expr.value;
        bool load = call->kind == EXPR_CALL && strcmp(call->u.call.callee, "load") == 0;
        bool store = call->kind == EXPR_CALL && strcmp(call->u.call.callee, "store") == 0;
        if (load || store)
            find_in_access(u, call, store);
        else
            find_in(u, call);
        break;
    }
    case STMT_FOR:
        find_in(u, s->u.loop.range);
        find_in_body(u, &s->u.loop.body);
        break;
    case STMT_IF:
        find_in(u, s->u.branch.condition);
        find_in_body(u, &s->u.branch.then_body);
        find_in_body(u, &s->u.branch.else_body);
        break;
    default:
        break;
    }
}

static void find_in_body(Uses *u, const Body *body) {
    for (size_t i = 0; i < body->count; i++) find_in_stmt(u, body->data[i]);
}

bool sema_is_memory(const Sema *s, const Decl *tile) {
    Uses uses = {.name = tile->name};
    if (s->loop_depth > 0 || tile->type.rank == 0) return false;
    find_in_body(&uses, &s->block->body);
    return (uses.sliced || sema_is_viewed(s, tile->name)) && !uses.computed;
}
