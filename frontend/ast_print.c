/* `--emit=ast`: one node a line, indented; types, values and actions where sema has decided them.
 */
#include "frontend_internal.h"

typedef struct {
    Str *out;
    int depth;
} Printer;

static void indent(Printer *p) {
    for (int i = 0; i < p->depth; i++) str_append(p->out, "  ");
}

static void print_const(Str *out, const ConstValue *v) {
    switch (v->kind) {
    case CONST_NONE:
        str_append(out, "?");
        break;
    case CONST_INT:
        str_printf(out, "%lld", (long long)v->i);
        break;
    case CONST_FLOAT:
        if (v->s)
            str_append(out, v->s);
        else
            str_append_double(out, v->f);
        break;
    case CONST_BOOL:
        str_append(out, v->i ? "true" : "false");
        break;
    case CONST_STRING:
        str_append_json(out, v->s);
        break;
    }
}

static void print_expr(Str *out, const Expr *e);

static void print_exprs(Str *out, Expr *const *items, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (i) str_append(out, ", ");
        print_expr(out, items[i]);
    }
}

static void print_args(Str *out, const Args *args) {
    bool arrow = false;
    str_append(out, "(");
    for (size_t i = 0; i < args->count; i++) {
        const Arg *arg = &args->data[i];
        bool starts_outputs = arg->is_output && !arrow;
        arrow |= arg->is_output;
        if (i) str_append(out, starts_outputs ? " -> " : ", ");
        if (arg->name) str_printf(out, "%s=", arg->name);
        print_expr(out, arg->value);
    }
    str_append(out, ")");
}

static void print_slice(Str *out, const Expr *e) {
    if (e->u.slice.lo) print_expr(out, e->u.slice.lo);
    str_append(out, ":");
    if (e->u.slice.hi) print_expr(out, e->u.slice.hi);
    if (e->u.slice.step) {
        str_append(out, ":");
        print_expr(out, e->u.slice.step);
    }
}

static void print_expr(Str *out, const Expr *e) {
    switch (e->kind) {
    case EXPR_ERROR:
        str_append(out, "<error>");
        break;
    case EXPR_CONST:
        print_const(out, &e->u.constant);
        break;
    case EXPR_NAME:
        str_append(out, e->u.name.name);
        break;
    case EXPR_UNARY:
        str_printf(out, "(%s ", oper_text(e->u.oper.op));
        print_expr(out, e->u.oper.a);
        str_append(out, ")");
        break;
    case EXPR_BINARY:
        str_append(out, "(");
        print_expr(out, e->u.oper.a);
        str_printf(out, " %s ", oper_text(e->u.oper.op));
        print_expr(out, e->u.oper.b);
        str_append(out, ")");
        break;
    case EXPR_CALL:
        str_append(out, e->u.call.callee);
        print_args(out, &e->u.call.args);
        break;
    case EXPR_INDEX:
        if (e->pad) str_append(out, "pad(");
        print_expr(out, e->u.index.base);
        if (e->pad) {
            str_append(out, ", ");
            print_expr(out, e->pad);
            str_append(out, ")");
        }
        str_append(out, "[");
        print_exprs(out, e->u.index.items, e->u.index.count);
        str_append(out, "]");
        break;
    case EXPR_SLICE:
        print_slice(out, e);
        break;
    case EXPR_IN:
        print_expr(out, e->u.in.index);
        str_append(out, " in ");
        print_expr(out, e->u.in.range);
        break;
    case EXPR_TUPLE:
    case EXPR_LIST:
        str_append(out, e->kind == EXPR_TUPLE ? "(" : "[");
        print_exprs(out, e->u.list.items, e->u.list.count);
        str_append(out, e->kind == EXPR_TUPLE ? (e->u.list.count == 1 ? ",)" : ")") : "]");
        break;
    }
}

static void print_interval(Str *out, const Interval *v) {
    if (!v->lo) {
        str_append(out, ":");
        return;
    }
    aff_print(v->lo, out);
    str_append(out, ":");
    aff_print(v->hi, out);
}

static void print_type(Str *out, const Type *t) {
    static const char *const KINDS[] = {"", "error", "scalar", "tile", "tensor", "string", "list"};
    if (t->kind == TYPE_NONE) return;
    str_printf(out, "  : %s%s", t->weak ? "weak " : "", KINDS[t->kind]);
    if (t->dtype) str_printf(out, " %s", dtype_name(t->dtype));
    if (t->kind != TYPE_TILE && t->kind != TYPE_TENSOR) return;
    str_append(out, "[");
    for (unsigned i = 0; i < t->rank; i++) {
        if (i) str_append(out, ", ");
        aff_print(t->shape[i], out);
    }
    str_append(out, "]");
    if (!t->presence) return;
    str_append(out, " present[");
    for (unsigned i = 0; i < t->rank; i++) {
        if (i) str_append(out, ", ");
        print_interval(out, &t->presence[i]);
    }
    str_append(out, "]");
}

static void print_dims(Str *out, const Decl *d) {
    str_append(out, "[");
    for (size_t i = 0; i < d->dim_count; i++) {
        if (i) str_append(out, ", ");
        if (d->dim_names) str_printf(out, "%s: ", d->dim_names[i]);
        print_expr(out, d->dims[i]);
    }
    str_append(out, "]");
}

static void print_decl(Printer *p, const Decl *d) {
    static const char *const KINDS[] = {"symbol", "scalar", "tensor", "view",  "constexpr", "local",
                                        "tile",   "loop",   "index",  "param", "value",     "predefined"};
    static const char *const DIRECTIONS[] = {"", " in", " out", " inout"};
    static const char *const ORIGINS[] = {"", " from -D", " by default", " first of its space", " of the operator"};
    Str *out = p->out;
    indent(p);
    str_printf(out, "%s %s", KINDS[d->kind], d->name);
    if (d->dims) print_dims(out, d);
    if (d->dtype_name) str_printf(out, ": %s", d->dtype_name);
    if (d->strides) {
        str_append(out, " strides(");
        print_exprs(out, d->strides, d->stride_count);
        str_append(out, ")");
    }
    if (d->value || d->view_of) {
        str_append(out, " = ");
        print_expr(out, d->value ? d->value : d->view_of);
    }
    if (d->view_pad) {
        str_append(out, " pad ");
        print_expr(out, d->view_pad);
    }
    if (d->space) {
        str_append(out, " in {");
        print_exprs(out, d->space, d->space_count);
        str_append(out, "}");
    }
    if (d->space_lo) {
        str_append(out, " in ");
        print_expr(out, d->space_lo);
        str_append(out, "..");
        print_expr(out, d->space_hi);
    }
    print_type(out, &d->type);
    if (d->kind == DECL_CONSTEXPR && d->constant.kind) {
        str_append(out, "  is ");
        print_const(out, &d->constant);
        str_append(out, ORIGINS[d->origin]);
    }
    str_printf(out, "%s\n", DIRECTIONS[d->direction]);
}

static void print_body(Printer *p, const Body *body);

static void print_hints(Printer *p, const Stmt *s) {
    for (size_t i = 0; i < s->hint_count; i++) {
        indent(p);
        str_printf(p->out, "@%s", s->hints[i].name);
        print_args(p->out, &s->hints[i].args);
        str_append(p->out, "\n");
    }
}

static void print_action(Printer *p, const Stmt *s) {
    static const char *const ACTIONS[] = {"", "alloc", "load", "store", "compute", "scalar", "equation"};
    if (s->action == ACTION_NONE) return;
    p->depth++;
    indent(p);
    str_printf(p->out, "=> %s", ACTIONS[s->action]);
    for (size_t i = 0; i < s->target_count; i++) {
        const Decl *d = s->targets[i];
        str_printf(p->out, " %s", d->name);
        print_type(p->out, &d->type);
    }
    if (s->presence) {
        Type shown = {.kind = TYPE_TILE};
        if (s->target_count) shown = s->targets[0]->type;
        shown.presence = s->presence;
        str_append(p->out, "  then");
        print_type(p->out, &shown);
    }
    str_append(p->out, "\n");
    p->depth--;
}

static void print_loop(Printer *p, const Stmt *s) {
    static const char *const CONTEXTS[] = {
        "", " parallel", " parallel grid", " parallel core", " parallel thread", " parallel warp", " parallel simd"};
    str_printf(p->out, "for %s in ", s->u.loop.var);
    print_expr(p->out, s->u.loop.range);
    if (s->loop) {
        str_append(p->out, CONTEXTS[s->loop->parallel]);
        if (s->loop->proved_parallel) str_append(p->out, " (free)");
        if (s->loop->pipeline) str_append(p->out, " pipeline");
        if (s->loop->carried_count) str_append(p->out, " carries");
        for (size_t i = 0; i < s->loop->carried_count; i++) str_printf(p->out, " %s", s->loop->carried[i]->name);
    }
    str_append(p->out, "\n");
    print_body(p, &s->u.loop.body);
}

static void print_branch(Printer *p, const Stmt *s) {
    str_append(p->out, "if ");
    print_expr(p->out, s->u.branch.condition);
    str_append(p->out, "\n");
    print_body(p, &s->u.branch.then_body);
    if (!s->u.branch.else_body.count) return;
    indent(p);
    str_append(p->out, "else\n");
    print_body(p, &s->u.branch.else_body);
}

static void print_stmt(Printer *p, const Stmt *s) {
    print_hints(p, s);
    indent(p);
    switch (s->kind) {
    case STMT_ERROR:
    case STMT_HINT:
        str_append(p->out, "error\n");
        break;
    case STMT_ASSIGN:
        print_exprs(p->out, s->u.assign.targets, s->u.assign.target_count);
        str_append(p->out, " = ");
        print_exprs(p->out, s->u.assign.values, s->u.assign.value_count);
        str_append(p->out, "\n");
        break;
    case STMT_EXPR:
        print_expr(p->out, s->u.expr.value);
        str_append(p->out, "\n");
        break;
    case STMT_FOR:
        print_loop(p, s);
        break;
    case STMT_IF:
        print_branch(p, s);
        break;
    }
    print_action(p, s);
}

static void print_body(Printer *p, const Body *body) {
    p->depth++;
    for (size_t i = 0; i < body->count; i++) print_stmt(p, body->data[i]);
    p->depth--;
}

static void print_case(Printer *p, const Case *c) {
    indent(p);
    str_printf(p->out, "case %s", c->name);
    for (size_t i = 0; i < c->setting_count; i++) {
        const Setting *s = &c->settings[i];
        str_printf(p->out, "%s%s%s", i ? ", " : " ", s->name, s->kind == SETTING_VALUE ? " = " : ": ");
        print_expr(p->out, s->value);
    }
    str_append(p->out, "\n");
}

static void print_requires(Printer *p, const Block *b) {
    for (size_t i = 0; i < b->require_count; i++) {
        indent(p);
        str_append(p->out, "require ");
        print_expr(p->out, b->requires[i]);
        str_append(p->out, "\n");
    }
    for (size_t i = 0; i < b->use_count; i++) {
        indent(p);
        str_printf(p->out, "use %s", b->uses[i].name);
        print_args(p->out, &b->uses[i].params);
        str_append(p->out, "\n");
    }
}

static void print_block(Printer *p, const Block *b) {
    str_printf(p->out, "%s%s%s", b->kind == BLOCK_OPERATOR ? "operator" : "sketch", b->name[0] ? " " : "", b->name);
    if (b->implements.op) {
        str_printf(p->out, " implements %s", b->implements.op);
        if (b->implements.renames.count) print_args(p->out, &b->implements.renames);
    }
    str_append(p->out, "\n");
    p->depth++;
    if (b->precision_name) {
        indent(p);
        str_printf(p->out, "precision %s\n", b->precision_name);
    }
    for (size_t i = 0; i < b->decl_count; i++) print_decl(p, b->decls[i]);
    for (size_t i = 0; i < b->constraint_count; i++) {
        indent(p);
        str_append(p->out, "constraint ");
        print_expr(p->out, b->constraints[i]);
        str_append(p->out, "\n");
    }
    print_requires(p, b);
    for (size_t i = 0; i < b->case_count; i++) print_case(p, &b->cases[i]);
    indent(p);
    str_append(p->out, "body\n");
    print_body(p, &b->body);
    p->depth--;
}

void ast_print(const File *file, Str *out) {
    Printer p = {out, 0};
    str_printf(out, "edition %lld\n", (long long)file->edition);
    for (size_t i = 0; i < file->block_count; i++) print_block(&p, file->blocks[i]);
}
