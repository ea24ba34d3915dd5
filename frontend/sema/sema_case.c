/* Cases, and what `implements` binds. */
#include "sema_internal.h"

#include <string.h>

/* ---- Cases ---- */

static Decl *find_decl(const Block *b, const char *name) {
    for (size_t i = 0; i < b->decl_count; i++)
        if (strcmp(b->decls[i]->name, name) == 0) return b->decls[i];
    return NULL;
}

static void unknown_setting(Sema *s, const Block *b, const Setting *set) {
    const Decl *missed = sema_find(s, set->name);
    if (missed && missed->type.kind == TYPE_ERROR) return; /* reported where it was missed */
    const char **names = ARENA_ARRAY(s->arena, const char *, b->decl_count + 1);
    for (size_t i = 0; i < b->decl_count; i++) names[i] = b->decls[i]->name;
    const char *close = closest_name(set->name, names, b->decl_count);
    Diag *d = sema_error(s, DIAG_bad_case, set->span, "`%s` is declared nowhere in this block", set->name);
    if (close) diag_note(s->diags, d, SPAN_NONE, "did you mean `%s`?", close);
}

static void set_value(Sema *s, Setting *set) {
    Decl *d = set->decl;
    if (d->kind == DECL_TENSOR) {
        sema_error(s, DIAG_bad_case, set->span, "data of a tensor is written `%s: normal(0, 1)`", set->name);
        return;
    }
    if (d->kind != DECL_SYMBOL && d->kind != DECL_SCALAR) {
        sema_error(s, DIAG_bad_case, set->span, "%s is known when compiling, the same for all cases; give it by -D %s=VALUE", set->name,
                   set->name);
        return;
    }
    if (d->kind == DECL_SYMBOL && d->value) {
        sema_error(s, DIAG_bad_case, set->span, "%s is derived from other symbols and never set", set->name);
        return;
    }
    if (sema_expr(s, set->value)->kind == TYPE_ERROR) return;
    set->constant = set->value->value;
    if (set->constant.kind == CONST_NONE)
        sema_error(s, DIAG_not_constant, set->value->span, "the value in a case");
    else if (d->kind == DECL_SYMBOL && (set->constant.kind != CONST_INT || set->constant.i < 0))
        sema_error(s, DIAG_bad_case, set->span, "a symbol is a whole number, 0 or more");
}

/* Made of the block's symbols alone, which a case and every ragged size give. */
static bool is_size(const Block *b, const Aff *e) {
    const Decl *d = e->kind == AFF_SYM ? find_decl(b, e->name) : NULL;
    if (e->kind == AFF_VAR || (e->kind == AFF_SYM && (!d || d->kind != DECL_SYMBOL))) return false;
    for (size_t i = 0; i < e->count; i++)
        if (!is_size(b, e->args[i])) return false;
    return true;
}

static bool set_param(Sema *s, const Block *b, Setting *set, Expr *arg) {
    if (sema_expr(s, arg)->kind == TYPE_ERROR) return false;
    ConstKind kind = arg->value.kind;
    bool number = kind == CONST_INT || kind == CONST_FLOAT;
    if (!number && (!arg->affine || !is_size(b, arg->affine))) {
        sema_error(s, DIAG_bad_case, arg->span, "data are made of numbers, constexprs and sizes");
        return false;
    }
    if (set->param_count == COUNT_OF(set->params)) {
        sema_error(s, DIAG_bad_case, arg->span, "data takes at most four numbers");
        return false;
    }
    set->sizes[set->param_count] = number ? NULL : arg->affine;
    set->params[set->param_count++] = kind == CONST_FLOAT ? arg->value.f : number ? (double)arg->value.i : 0;
    return true;
}

static void set_data(Sema *s, const Block *b, Setting *set) {
    Expr *e = set->value;
    const char *name = e->kind == EXPR_CALL ? e->u.call.callee : e->kind == EXPR_NAME ? e->u.name.name : "";
    set->data = builtin_find(name, strlen(name));
    bool is_data = set->data && (builtin_info(set->data)->class == CLASS_DATA || set->data == BUILTIN_SOFTMAX);
    if (!is_data || set->decl->kind != DECL_TENSOR) {
        sema_error(s, DIAG_bad_case, set->span,
                   "`NAME: kind(...)` gives a tensor its data: uniform(lo, hi), normal(mean, "
                   "deviation), randint(lo, hi), wide(lo, hi), symmetric, triu, tril, softmax, one_hot, "
                   "permutation, arange(start, step), const(value), zeros, ones");
        return;
    }
    if (set->decl->direction == DIR_OUT && b->kind == BLOCK_OPERATOR) {
        sema_error(s, DIAG_bad_case, set->span, "`%s` is only written, so it has no data", set->name);
        return;
    }
    for (size_t i = 0; e->kind == EXPR_CALL && i < e->u.call.args.count; i++)
        if (!set_param(s, b, set, e->u.call.args.data[i].value)) return;
}

typedef struct {
    const Case *one;
    const Sema *sema;
} CaseValues;

static bool case_value(void *ctx, const Aff *leaf, int64_t *value) {
    const CaseValues *v = ctx;
    for (size_t i = 0; i < v->one->setting_count; i++) {
        const Setting *set = &v->one->settings[i];
        if (set->decl && set->decl->affine == leaf && set->constant.kind == CONST_INT) {
            *value = set->constant.i;
            return true;
        }
    }
    return false;
}

static void check_conditions(Sema *s, const Block *b, const Case *c) {
    CaseValues values = {c, s};
    for (size_t i = 0; i < b->condition_count; i++) {
        const Condition *k = &b->conditions[i];
        int64_t value;
        if (!aff_eval(k->expr, case_value, &values, &value)) continue;
        if (k->equal ? value == 0 : value >= 0) continue;
        Diag *d = sema_error(s, DIAG_bad_case, c->span, "`%s` breaks the constraint `%s`", c->name, sema_source_text(s, k->span));
        diag_note(s->diags, d, k->span, "the constraint stands here");
    }
}

static void check_complete(Sema *s, const Block *b, const Case *c) {
    for (size_t i = 0; i < b->decl_count; i++) {
        const Decl *d = b->decls[i];
        bool needed = d->kind == DECL_SYMBOL && !d->value && !d->define, set = !needed;
        for (size_t k = 0; k < c->setting_count && !set; k++) set = c->settings[k].decl == d;
        if (!set) sema_error(s, DIAG_bad_case, c->span, "`%s` gives no value for %s", c->name, d->name);
    }
}

void sema_cases(Sema *s, Block *b) {
    for (size_t i = 0; i < b->case_count; i++) {
        Case *c = &b->cases[i];
        for (size_t k = 0; k < i; k++)
            if (strcmp(b->cases[k].name, c->name) == 0) sema_error(s, DIAG_bad_case, c->span, "there is another case `%s`", c->name);
        for (size_t k = 0; k < c->setting_count; k++) {
            Setting *set = &c->settings[k];
            set->decl = find_decl(b, set->name);
            for (size_t l = 0; l < k; l++)
                if (strcmp(c->settings[l].name, set->name) == 0) sema_error(s, DIAG_bad_case, set->span, "`%s` is set twice", set->name);
            if (!set->decl)
                unknown_setting(s, b, set);
            else if (set->kind == SETTING_VALUE)
                set_value(s, set);
            else
                set_data(s, b, set);
        }
        if (s->had_syntax_errors) continue;
        check_complete(s, b, c);
        check_conditions(s, b, c);
    }
}

/* ---- implements ---- */

static const char *renamed(const Block *sketch, const char *name) {
    const Args *r = &sketch->implements.renames;
    for (size_t i = 0; i < r->count; i++)
        if (r->data[i].name && strcmp(r->data[i].name, name) == 0 && r->data[i].value->kind == EXPR_NAME)
            return r->data[i].value->u.name.name;
    return name;
}

static const char *new_name(const Arg *a) {
    return a->value->kind == EXPR_NAME ? a->value->u.name.name : "";
}

static void check_renamed_once(Sema *s, const Args *renames, size_t at) {
    const Arg *a = &renames->data[at];
    for (size_t i = 0; i < at && a->name && *new_name(a); i++) {
        const Arg *b = &renames->data[i];
        if (b->name && strcmp(a->name, b->name) == 0)
            sema_error(s, DIAG_bad_implements, a->name_span, "`%s` of the operator is renamed twice", a->name);
        else if (strcmp(new_name(a), new_name(b)) == 0)
            sema_error(s, DIAG_bad_implements, a->value->span, "`%s` stands for two names of the operator", new_name(a));
    }
}

static void check_renames(Sema *s, const Block *sketch) {
    const Args *r = &sketch->implements.renames;
    for (size_t i = 0; i < r->count; i++) {
        const Arg *a = &r->data[i];
        bool form = a->name && a->value->kind == EXPR_NAME;
        check_renamed_once(s, r, i);
        if (!form)
            sema_error(s, DIAG_bad_implements, a->value->span, "a renaming is OPERATOR_NAME = SKETCH_NAME");
        else if (!find_decl(sketch->op, a->name))
            sema_error(s, DIAG_bad_implements, a->name_span, "operator %s has no `%s`", sketch->op->name, a->name);
        else if (!find_decl(sketch, a->value->u.name.name))
            sema_error(s, DIAG_bad_implements, a->value->span, "this sketch has no `%s`", a->value->u.name.name);
    }
}

/* The operator's symbol in the sketch's terms. Operator and sketch share one context, so a symbol
 * without a binding stands for the sketch's of the same name only when it is bound to it. */
static const Aff *bound_symbol(void *ctx, const Aff *leaf) {
    const Block *sketch = ctx;
    for (size_t i = 0; leaf->kind == AFF_SYM && i < sketch->binding_count; i++) {
        const Binding *b = &sketch->bindings[i];
        if (b->op_decl->kind == DECL_SYMBOL && b->op_decl->affine == leaf) return b->value;
    }
    return NULL;
}

static Binding *binding_of(Block *sketch, const Aff *symbol) {
    for (size_t i = 0; i < sketch->binding_count; i++)
        if (sketch->bindings[i].op_decl->kind == DECL_SYMBOL && sketch->bindings[i].op_decl->affine == symbol) return &sketch->bindings[i];
    return NULL;
}

static Diag *implements_error(Sema *s, Span span, const Decl *other, const char *text) {
    Diag *d = diag_report(s->diags, DIAG_bad_implements, span, text);
    diag_note(s->diags, d, other->span, "the operator declares it here");
    return d;
}

static void bind_tensor(Sema *s, Block *sketch, Binding *b) {
    const char *name = renamed(sketch, b->op_decl->name);
    Decl *mine = find_decl(sketch, name), *op = b->op_decl;
    if (!mine || mine->kind != op->kind) {
        implements_error(s, sketch->implements.span, op,
                         arena_printf(s->arena, "the sketch declares no %s `%s`", op->kind == DECL_TENSOR ? "tensor" : "scalar", name));
        return;
    }
    b->sketch_decl = mine;
    mine->bound_to = op;
    op->bound_to = mine;
    if (mine->type.dtype != op->type.dtype)
        implements_error(s, mine->span, op,
                         arena_printf(s->arena, "`%s` is %s here and %s in the operator", name, dtype_name(mine->type.dtype),
                                      dtype_name(op->type.dtype)));
    b->is_reshape = op->kind == DECL_TENSOR && mine->type.rank != op->type.rank;
    for (unsigned i = 0; op->kind == DECL_TENSOR && !b->is_reshape && i < op->type.rank; i++) {
        Binding *symbol = binding_of(sketch, op->type.shape[i]);
        if (symbol && !symbol->value) symbol->value = mine->type.shape[i];
    }
}

static void bind_by_name(Sema *s, Block *sketch) {
    for (size_t i = 0; i < sketch->binding_count; i++) {
        Binding *b = &sketch->bindings[i];
        if (b->op_decl->kind != DECL_SYMBOL || b->value || b->op_decl->value) continue;
        const Decl *mine = find_decl(sketch, renamed(sketch, b->op_decl->name));
        if (mine && mine->kind == DECL_SYMBOL) b->value = mine->affine;
    }
    (void)s;
}

static const Aff *volume(Sema *s, const Type *t) {
    const Aff *n = aff_const(s->aff, 1);
    for (unsigned i = 0; i < t->rank; i++) n = aff_mul(s->aff, n, t->shape[i]);
    return n;
}

static void check_shape(Sema *s, Block *sketch, const Binding *b) {
    const Type *mine = &b->sketch_decl->type, *op = &b->op_decl->type;
    if (b->is_reshape && b->sketch_decl->stride_affs) {
        implements_error(s, b->sketch_decl->span, b->op_decl,
                         arena_printf(s->arena,
                                      "`%s` has strides here, so it has the operator's dims: only memory "
                                      "without gaps can be seen in another shape",
                                      b->sketch_decl->name));
        return;
    }
    if (b->is_reshape) {
        const Aff *theirs = aff_substitute(s->aff, volume(s, op), bound_symbol, sketch);
        if (!aff_prove_eq(s->facts, theirs, volume(s, mine)))
            implements_error(s, b->sketch_decl->span, b->op_decl,
                             arena_printf(s->arena, "`%s` has %s elements here and %s in the operator", b->sketch_decl->name,
                                          sema_aff_text(s, volume(s, mine)), sema_aff_text(s, theirs)));
        return;
    }
    if (b->sketch_decl->lacks_dims || b->op_decl->lacks_dims) return;
    for (unsigned i = 0; i < op->rank; i++) {
        const Aff *theirs = aff_substitute(s->aff, op->shape[i], bound_symbol, sketch);
        if (aff_prove_eq(s->facts, theirs, mine->shape[i])) continue;
        implements_error(s, b->sketch_decl->span, b->op_decl,
                         arena_printf(s->arena, "dim %u of `%s` is %s here and %s in the operator", i, b->sketch_decl->name,
                                      sema_aff_text(s, mine->shape[i]), sema_aff_text(s, theirs)));
        return;
    }
}

static void check_direction(Sema *s, const Binding *b) {
    bool op_writes = b->op_decl->direction == DIR_OUT || b->op_decl->direction == DIR_INOUT;
    bool writes = b->sketch_decl->direction == DIR_OUT || b->sketch_decl->direction == DIR_INOUT;
    /* What the operator goes on from and the sketch only stores to keeps what is not stored. */
    if (b->op_decl->direction == DIR_INOUT && b->sketch_decl->direction == DIR_OUT) b->sketch_decl->direction = DIR_INOUT;
    if (op_writes == writes || b->sketch_decl->direction == DIR_NONE || (s->incomplete && !writes)) return;
    implements_error(s, b->sketch_decl->span, b->op_decl,
                     writes ? arena_printf(s->arena, "`%s` is an input of the operator and is written here", b->sketch_decl->name)
                            : arena_printf(s->arena, "`%s` is a result of the operator and is never stored to here", b->sketch_decl->name));
}

static void check_extra(Sema *s, const Block *sketch) {
    for (size_t i = 0; i < sketch->decl_count; i++) {
        const Decl *d = sketch->decls[i];
        if (d->kind == DECL_TENSOR && !d->bound_to)
            sema_error(s, DIAG_bad_implements, d->span, "operator %s has no tensor `%s`; memory of the sketch's own is a top-level alloc",
                       sketch->op->name, d->name);
    }
}

void sema_implements(Sema *s, Block *sketch) {
    const Block *op = sketch->op;
    sketch->bindings = ARENA_ARRAY(s->arena, Binding, op->decl_count + 1);
    for (size_t i = 0; i < op->decl_count; i++) {
        Decl *d = op->decls[i];
        if (d->kind == DECL_SYMBOL || d->kind == DECL_SCALAR || d->kind == DECL_TENSOR)
            sketch->bindings[sketch->binding_count++].op_decl = d;
    }
    check_renames(s, sketch);
    for (size_t i = 0; i < sketch->binding_count; i++)
        if (sketch->bindings[i].op_decl->kind != DECL_SYMBOL) bind_tensor(s, sketch, &sketch->bindings[i]);
    bind_by_name(s, sketch);
    for (size_t i = 0; i < sketch->binding_count; i++) {
        const Binding *b = &sketch->bindings[i];
        if (b->op_decl->kind != DECL_TENSOR || !b->sketch_decl || b->sketch_decl->type.kind != TYPE_TENSOR) continue;
        check_shape(s, sketch, b);
        check_direction(s, b);
    }
    check_extra(s, sketch);
}
