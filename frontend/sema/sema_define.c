/* Operations that are defined by others (`=` in builtins.def). A definition is read once a check;
 * each call gets a copy of its own in which an operand's name stands for the operand's value, so
 * that it is computed once, and an attribute's name for its text. */
#include "sema_internal.h"

#include <string.h>

typedef struct {
    const char *name;
    const Expr *value;
} Named;

/* `name = value; ...; result`, with the defaults of absent parameters. */
struct Definition {
    BuiltinParam params[BUILTIN_MAX_PARAMS];
    size_t param_count;
    const Expr *defaults[BUILTIN_MAX_PARAMS]; /* null: none */
    Named *locals;
    size_t local_count;
    const Expr *result;
};

bool builtin_is_defined(BuiltinId id) {
    return builtin_info(id)->ir[0] == '=';
}

/* ---- Reading ---- */

/* The definition as the body of an operator: first `parameter = default`, then its statements. */
static void definition_text(const BuiltinInfo *row, const Definition *d, Str *text) {
    str_append(text, "operator definition {\n");
    for (size_t i = 0; i < d->param_count; i++)
        if (d->params[i].fallback) str_printf(text, "%s = %s\n", d->params[i].name, d->params[i].fallback);
    str_printf(text, "%s\n}\n", row->ir + strspn(row->ir, "= ")); /* not indented */
}

static void take_statement(Sema *s, Definition *d, const Stmt *stmt, size_t *next_default) {
    if (stmt->kind == STMT_EXPR) {
        d->result = stmt->u.expr.value;
        return;
    }
    while (*next_default < d->param_count && !d->params[*next_default].fallback) ++*next_default;
    const Expr *value = stmt->u.assign.values[0];
    if (*next_default < d->param_count) {
        d->defaults[(*next_default)++] = value;
        return;
    }
    Named *locals = ARENA_ARRAY(s->arena, Named, d->local_count + 1);
    for (size_t i = 0; i < d->local_count; i++) locals[i] = d->locals[i];
    locals[d->local_count++] = (Named){stmt->u.assign.targets[0]->u.name.name, value};
    d->locals = locals;
}

static const Definition *definition_of(Sema *s, BuiltinId id) {
    if (s->definitions[id]) return s->definitions[id];
    Definition *d = s->definitions[id] = ARENA_NEW(s->arena, Definition);
    SourceMap *sources = source_map_create(s->arena);
    DiagList diags;
    Str text;
    diag_list_init(&diags, s->arena, sources);
    d->param_count = builtin_params(id, s->arena, d->params);
    str_init(&text);
    definition_text(builtin_info(id), d, &text);
    uint32_t file = source_add(sources, builtin_info(id)->name, text.data, text.len);
    str_release(&text);
    const File *parsed = frontend_parse(s->arena, sources, file, &diags);
    if (diags.error_count || !parsed->block_count) return d; /* a test parses every row */
    const Body *body = &parsed->blocks[0]->body;
    size_t next_default = 0;
    for (size_t i = 0; i < body->count; i++) take_statement(s, d, body->data[i], &next_default);
    return d;
}

/* ---- A copy for one call ---- */

typedef struct {
    Sema *s;
    const Definition *from;
    Expr *call;
    Expansion *to;
    Expr *attributes[BUILTIN_MAX_PARAMS]; /* null: an operand, or absent */
} Copy;

static Expr *copy_expr(Copy *c, const Expr *e);

static Decl *find_name(const Copy *c, const char *name) {
    for (size_t i = c->to->count; i-- > 0;)
        if (strcmp(c->to->names[i]->name, name) == 0) return c->to->names[i];
    return NULL;
}

/* An attribute is shared, not copied: it is typed alike wherever it stands. Null: absent. */
static Expr *copy_name(Copy *c, Expr *copy) {
    const char *name = copy->u.name.name;
    copy->decl = find_name(c, name);
    for (size_t i = 0; !copy->decl && i < c->from->param_count; i++)
        if (strcmp(c->from->params[i].name, name) == 0) return c->attributes[i];
    if (copy->decl && copy->decl->value) copy->span = copy->decl->span;
    return copy;
}

/* `axis=axis` of an absent axis is absent too. */
static void copy_args(Copy *c, Expr *copy, const Expr *e) {
    const Args *from = &e->u.call.args;
    Args *to = &copy->u.call.args;
    to->data = ARENA_ARRAY(c->s->arena, Arg, from->count + 1);
    to->count = 0;
    for (size_t i = 0; i < from->count; i++) {
        Expr *value = copy_expr(c, from->data[i].value);
        if (!value) continue;
        to->data[to->count] = from->data[i];
        to->data[to->count].name_span = c->call->span;
        to->data[to->count++].value = value;
    }
    copy->u.call.callee_span = c->call->span;
}

static void copy_list(Copy *c, Expr *copy, const Expr *e) {
    copy->u.list.items = ARENA_ARRAY(c->s->arena, Expr *, e->u.list.count + 1);
    for (size_t i = 0; i < e->u.list.count; i++) copy->u.list.items[i] = copy_expr(c, e->u.list.items[i]);
}

static Expr *copy_expr(Copy *c, const Expr *e) {
    if (!e) return NULL;
    Expr *copy = ARENA_NEW(c->s->arena, Expr);
    *copy = *e;
    copy->span = c->call->span;
    switch (e->kind) {
    case EXPR_NAME:
        return copy_name(c, copy);
    case EXPR_UNARY:
    case EXPR_BINARY:
        copy->u.oper.op_span = c->call->span;
        copy->u.oper.a = copy_expr(c, e->u.oper.a);
        copy->u.oper.b = copy_expr(c, e->u.oper.b);
        break;
    case EXPR_CALL:
        copy_args(c, copy, e);
        break;
    case EXPR_TUPLE:
    case EXPR_LIST:
        copy_list(c, copy, e);
        break;
    default: /* constants; definitions have no subscripts */
        break;
    }
    return copy;
}

/* ---- Names ---- */

/* An operand or a local: its value is typed; `dtype`: what a tile or tensor is converted to. */
static void add_name(Copy *c, const char *name, Expr *value, Dtype dtype) {
    Decl *d = ARENA_NEW(c->s->arena, Decl);
    d->kind = DECL_PARAM;
    d->name = name;
    d->span = value->span;
    d->value = value;
    d->type = value->type;
    d->affine = value->affine;
    d->constant = value->value;
    d->type.presence = NULL;
    bool number = type_is_number(&d->type) && d->type.dtype == dtype;
    if (number) d->type.number = d->type.weak = false; /* of the type that it took */
    if (type_is_shaped(&d->type) && dtype) d->type.dtype = dtype;
    c->to->names[c->to->count++] = d;
}

/* The join of the operands that are tiles or tensors; a tile whose type nothing has decided takes
 * it. */
static Dtype join_shaped(const Definition *d, const Expr *e) {
    Dtype join = DTYPE_NONE;
    for (size_t i = 0; i < d->param_count; i++)
        if (e->bound[i] && !d->params[i].is_attribute && type_is_shaped(&e->bound[i]->type))
            join = dtype_join(join, e->bound[i]->type.dtype);
    for (size_t i = 0; i < d->param_count; i++)
        if (e->bound[i] && !d->params[i].is_attribute) sema_settle(e->bound[i], join);
    return join ? join : DTYPE_F32;
}

static bool take_operands(Copy *c, Dtype dtype) {
    Sema *s = c->s;
    for (size_t i = 0; i < c->from->param_count; i++) {
        const BuiltinParam *p = &c->from->params[i];
        Expr *given = c->call->bound[i];
        if (p->is_output) continue;
        if (p->is_attribute) {
            c->attributes[i] = given ? given : copy_expr(c, c->from->defaults[i]);
            continue;
        }
        Expr *value = given ? given : copy_expr(c, c->from->defaults[i]);
        if (!given && sema_expr(s, value)->kind == TYPE_ERROR) return false;
        add_name(c, p->name, value, dtype);
        if (!given) c->to->names[c->to->count - 1]->origin = ORIGIN_DEFAULT;
    }
    return true;
}

static bool take_locals(Copy *c) {
    for (size_t i = 0; i < c->from->local_count; i++) {
        Expr *value = copy_expr(c, c->from->locals[i].value);
        if (sema_expr(c->s, value)->kind == TYPE_ERROR) return false;
        add_name(c, c->from->locals[i].name, value, DTYPE_NONE);
    }
    return true;
}

/* Types a copy for the call e; tiles and tensors enter it as `dtype`, or as they are. */
static void expand(Sema *s, Expr *e, Dtype dtype) {
    const Definition *d = definition_of(s, e->builtin);
    Copy c = {.s = s, .from = d, .call = e};
    const BuiltinInfo *outer = s->defining;
    if (!outer) s->defining = builtin_info(e->builtin);
    c.to = e->expansion = ARENA_NEW(s->arena, Expansion);
    c.to->names = ARENA_ARRAY(s->arena, Decl *, d->param_count + d->local_count + 1);
    bool good = take_operands(&c, dtype) && take_locals(&c);
    Expr *result = good ? c.to->result = copy_expr(&c, d->result) : NULL;
    good = result && sema_expr(s, result)->kind != TYPE_ERROR;
    s->defining = outer;
    if (!good) {
        sema_set_error(e);
        return;
    }
    e->type = result->type;
    e->compute = result->type.dtype;
    e->affine = result->affine;
    e->value = result->value;
}

void sema_define(Sema *s, Expr *e) {
    join_shaped(definition_of(s, e->builtin), e);
    expand(s, e, DTYPE_NONE);
}

void sema_define_as(Sema *s, Expr *e, Dtype dtype) {
    expand(s, e, dtype);
}

void sema_define_into(Sema *s, Expr *e, Dtype dst) {
    Dtype raw = join_shaped(definition_of(s, e->builtin), e);
    Dtype join = dtype_temporary(dtype_join(raw, dst));
    if (e->type.dtype == DTYPE_BOOL || join == dtype_temporary(raw)) return;
    expand(s, e, join);
}
