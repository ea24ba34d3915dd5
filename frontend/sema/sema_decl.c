/* Declarations: symbols with constraints, scalars, constexprs, tensors, views. */
#include "sema_internal.h"

#include <string.h>

/* ---- Predefined names ---- */

static void predefine(Sema *s, const char *name, ConstValue value) {
    Decl *d = sema_new_decl(s, DECL_PREDEFINED, name, SPAN_NONE);
    d->constant = value;
    d->type = type_scalar(value.kind == CONST_FLOAT ? DTYPE_F64 : DTYPE_I64);
    if (value.kind == CONST_NONE) d->affine = aff_sym(s->aff, name);
    if (d->affine) aff_facts_range(s->facts, d->affine, aff_const(s->aff, 1), NULL);
    sema_declare(s, d);
}

void sema_predefine(Sema *s) {
    static const char *const LAUNCH[] = {"num_cores", "num_sms", "warp_size", "simd_width"};
    double inf = 0, nan = 0;
    parse_double("inf", &inf);
    parse_double("nan", &nan);
    for (size_t i = 0; i < COUNT_OF(LAUNCH); i++) predefine(s, LAUNCH[i], (ConstValue){0});
    predefine(s, "inf", (ConstValue){CONST_FLOAT, 0, inf, NULL});
    predefine(s, "nan", (ConstValue){CONST_FLOAT, 0, nan, NULL});
    predefine(s, "pi", (ConstValue){CONST_FLOAT, 0, 3.14159265358979323846, NULL});
}

/* ---- Values given by -D ---- */

const FrontendDefine *sema_find_define(const Sema *s, const char *name) {
    const FrontendDefine *found = NULL;
    for (size_t i = 0; i < s->options->define_count; i++)
        if (strcmp(s->options->defines[i].name, name) == 0) found = &s->options->defines[i];
    return found;
}

bool sema_parse_const(const char *text, ConstValue *value) {
    bool negative = *text == '-';
    int64_t sum = 0;
    const char *at = text + negative;
    *value = (ConstValue){CONST_BOOL, strcmp(text, "true") == 0, 0, NULL};
    if (value->i || strcmp(text, "false") == 0) return true;
    for (; *at >= '0' && *at <= '9' && sum < INT64_MAX / 10; at++) sum = sum * 10 + (*at - '0');
    if (!*at && at > text + negative) {
        *value = (ConstValue){CONST_INT, negative ? -sum : sum, (double)(negative ? -sum : sum), NULL};
        return true;
    }
    *value = (ConstValue){CONST_FLOAT, 0, 0, NULL};
    return parse_double(text, &value->f);
}

static void add_definable(Sema *s, const Block *b, PtrVec *names) {
    for (size_t i = 0; b && i < b->decl_count; i++) {
        Decl *d = b->decls[i];
        if (d->kind == DECL_SYMBOL || d->kind == DECL_CONSTEXPR || d->kind == DECL_SCALAR) VEC_PUSH(s->arena, names, (void *)d->name);
    }
}

void sema_define_unused(Sema *s) {
    PtrVec names = {0};
    add_definable(s, s->file->sketch, &names);
    add_definable(s, s->file->op, &names);
    for (size_t i = 0; i < s->options->define_count && !s->had_syntax_errors; i++) {
        const char *name = s->options->defines[i].name;
        bool known = false;
        for (size_t k = 0; k < names.len; k++) known |= strcmp(names.data[k], name) == 0;
        if (known) continue;
        const char *close = closest_name(name, (const char *const *)names.data, names.len);
        Diag *d = diag_report(s->diags, DIAG_unknown_define, SPAN_NONE, name);
        if (close) diag_note(s->diags, d, SPAN_NONE, "did you mean `%s`?", close);
    }
}

/* What -D gives a symbol or scalar: a number of its kind. The operator's declaration speaks for that of a sketch. */
static void take_define(Sema *s, Decl *d, const char *text) {
    const Block *op = s->block->op;
    bool symbol = d->kind == DECL_SYMBOL;
    int64_t size;
    ConstValue v;
    d->define = text;
    for (size_t i = 0; op && i < op->decl_count; i++)
        if (op->decls[i]->kind == d->kind && strcmp(op->decls[i]->name, d->name) == 0) return;
    if (symbol ? parse_int64(text, &size) && size >= 0 : sema_parse_const(text, &v)) return;
    sema_error(s, DIAG_bad_define, d->span, "`%s` is no %s", text,
               symbol ? "size: a symbol wants an integer of at least 0" : "number, which a scalar wants");
}

/* ---- Symbols and constraints ---- */

static void declare_symbol(Sema *s, Decl *d) {
    const FrontendDefine *define = s->selected ? sema_find_define(s, d->name) : NULL;
    d->type = type_scalar(DTYPE_I64);
    d->affine = aff_sym(s->aff, d->name);
    const Decl *known = sema_find(s, d->name);
    if (known && known->kind == DECL_PREDEFINED) diag_report(s->diags, DIAG_reassigned, d->span, d->name);
    sema_declare(s, d);
    if (define && d->value) sema_error(s, DIAG_bad_define, d->span, "%s is derived from other symbols", d->name);
    if (define) take_define(s, d, define->value);
}

static void derive_symbol(Sema *s, Decl *d) {
    const Aff *value = d->value ? sema_scalar(s, d->value, "the value of a derived symbol") : NULL;
    if (value) d->affine = value;
}

static void add_condition(Sema *s, PtrVec *conditions, const Aff *expr, bool equal, Span span) {
    Condition *c = ARENA_NEW(s->arena, Condition);
    *c = (Condition){expr, equal, span};
    VEC_PUSH(s->arena, conditions, c);
}

/* a OP b as `expr >= 0` or `expr == 0`, with what follows for proofs. */
static void constrain(Sema *s, PtrVec *conditions, Expr *e) {
    if (e->kind == EXPR_BINARY && e->u.oper.op == OPER_AND) {
        constrain(s, conditions, e->u.oper.a);
        constrain(s, conditions, e->u.oper.b);
        return;
    }
    Oper op = e->kind == EXPR_BINARY ? e->u.oper.op : OPER_OR;
    if (op != OPER_EQ && op != OPER_LT && op != OPER_LE && op != OPER_GT && op != OPER_GE) {
        sema_error(s, DIAG_bad_constraint, e->span, "it must compare with ==, <, <=, > or >=");
        return;
    }
    const Aff *a = sema_scalar(s, e->u.oper.a, "a side of a constraint");
    const Aff *b = a ? sema_scalar(s, e->u.oper.b, "a side of a constraint") : NULL;
    if (!b) return;
    bool less = op == OPER_LT || op == OPER_LE, strict = op == OPER_LT || op == OPER_GT;
    const Aff *gap = less ? aff_sub(s->aff, b, a) : aff_sub(s->aff, a, b);
    if (strict) gap = aff_sub(s->aff, gap, aff_const(s->aff, 1));
    int64_t zero, divisor, known;
    if (aff_is_const(gap, &known)) { /* of constexprs alone */
        if (op == OPER_EQ ? known != 0 : known < 0)
            sema_error(s, DIAG_bad_constraint, e->span, "it does not hold for these values of the constexprs; -D gives others");
        return;
    }
    add_condition(s, conditions, gap, op == OPER_EQ, e->span);
    if (op != OPER_EQ)
        aff_facts_nonneg(s->facts, gap);
    else if (a->kind == AFF_MOD && aff_is_const(b, &zero) && zero == 0 && aff_is_const(a->args[1], &divisor) && divisor > 0)
        aff_facts_multiple(s->facts, a->args[0], divisor);
    else
        aff_facts_range(s->facts, a, b, b);
}

static void constrain_block(Sema *s, Block *b) {
    PtrVec conditions = {0};
    for (size_t i = 0; i < b->constraint_count; i++) constrain(s, &conditions, b->constraints[i]);
    b->condition_count = conditions.len;
    b->conditions = ARENA_ARRAY(s->arena, Condition, conditions.len);
    for (size_t i = 0; i < conditions.len; i++) b->conditions[i] = *(Condition *)conditions.data[i];
}

/* ---- Scalars ---- */

static void declare_scalar(Sema *s, Decl *d) {
    const FrontendDefine *define = s->selected ? sema_find_define(s, d->name) : NULL;
    d->type = type_scalar(sema_dtype(s, d->dtype_name, d->dtype_span));
    d->type.number = false;
    if (dtype_is_int(d->type.dtype)) d->affine = aff_var(s->aff, d, d->name);
    if (define) take_define(s, d, define->value);
    sema_declare(s, d);
    if (!d->value) return;
    sema_expr(s, d->value);
    d->constant = d->value->value;
    if (!sema_is_error(d->value) && d->constant.kind == CONST_NONE)
        sema_error(s, DIAG_not_constant, d->value->span, "the default of a scalar");
}

/* ---- Constexprs ---- */

static void take_const(Sema *s, Decl *d, ConstValue value, Origin origin) {
    d->constant = value;
    d->origin = origin;
    d->type = type_scalar(value.kind == CONST_FLOAT ? DTYPE_F64 : value.kind == CONST_BOOL ? DTYPE_BOOL : DTYPE_I64);
    if (value.kind == CONST_STRING) d->type = (Type){.kind = TYPE_STRING};
    d->affine = value.kind == CONST_INT ? aff_const(s->aff, value.i) : NULL;
}

static bool const_of(Sema *s, Expr *e, const char *what, ConstValue *value) {
    sema_expr(s, e);
    if (sema_is_error(e)) return false;
    *value = e->value;
    if (e->value.kind == CONST_NONE) sema_error(s, DIAG_not_constant, e->span, "%s", what);
    return e->value.kind != CONST_NONE;
}

enum { MAX_CHOICES = 4096 };

static void evaluate_space(Sema *s, Decl *d) {
    int64_t lo = 0, hi = -1;
    size_t count = d->space_count;
    if (d->space_lo) {
        if (!sema_const_int(s, d->space_lo, "the start of a range", &lo) || !sema_const_int(s, d->space_hi, "the end of a range", &hi))
            return;
        if (hi < lo || hi - lo >= MAX_CHOICES) {
            sema_error(s, DIAG_bad_constexpr, d->space_lo->span, "a range lo..hi includes both ends and has 1 to %d values", MAX_CHOICES);
            return;
        }
        count = (size_t)(hi - lo + 1);
    }
    d->choices = ARENA_ARRAY(s->arena, ConstValue, count + 1);
    for (size_t i = 0; i < count; i++) {
        ConstValue v = {CONST_INT, lo + (int64_t)i, (double)(lo + (int64_t)i), NULL};
        if (!d->space_lo && !const_of(s, d->space[i], "a value of a search space", &v)) return;
        d->choices[d->choice_count++] = v;
    }
}

/* The operator's value for a constexpr that the sketch declares without one. */
static const Decl *inherited(const Sema *s, const char *name) {
    const Block *op = s->block->op;
    for (size_t i = 0; op && i < op->decl_count; i++)
        if (op->decls[i]->kind == DECL_CONSTEXPR && strcmp(op->decls[i]->name, name) == 0) return op->decls[i];
    return NULL;
}

static void choose_value(Sema *s, Decl *d) {
    const FrontendDefine *define = s->selected ? sema_find_define(s, d->name) : NULL;
    const Decl *from = inherited(s, d->name);
    ConstValue v;
    if (from && (d->value || d->space || d->space_lo)) {
        Diag *diag = diag_report(s->diags, DIAG_bad_constexpr, d->span,
                                 "it is the operator's: part of its meaning, inherited, never set "
                                 "or searched by a sketch");
        diag_note(s->diags, diag, from->span, "the operator declares it here");
    }
    if (define) {
        if (sema_parse_const(define->value, &v))
            take_const(s, d, v, ORIGIN_DEFINE);
        else
            sema_error(s, DIAG_bad_define, d->span, "`%s` is no number for %s", define->value, d->name);
    } else if (from && from->constant.kind != CONST_NONE) {
        take_const(s, d, from->constant, ORIGIN_OPERATOR);
    } else if (d->value && const_of(s, d->value, "the default of a constexpr", &v)) {
        take_const(s, d, v, ORIGIN_DEFAULT);
    } else if (!d->value && d->choice_count) {
        take_const(s, d, d->choices[0], ORIGIN_SPACE);
    }
}

static void declare_constexpr(Sema *s, Decl *d) {
    evaluate_space(s, d);
    if (s->block->kind == BLOCK_OPERATOR && (d->space || d->space_lo))
        sema_error(s, DIAG_bad_constexpr, d->span,
                   "an operator's constexpr is part of its meaning and is never searched; give it "
                   "one value, or put the search space into the sketch");
    choose_value(s, d);
    if (d->constant.kind == CONST_NONE) {
        bool is_needed = s->selected && !d->value && !s->options->allow_unbound;
        if (is_needed) diag_report(s->diags, DIAG_unbound_constexpr, d->span, d->name, d->name);
        d->type = type_scalar(DTYPE_I64); /* so that everything else can be checked */
        d->affine = aff_sym(s->aff, d->name);
        aff_facts_range(s->facts, d->affine, aff_const(s->aff, 1), NULL);
    }
    sema_declare(s, d);
}

static void inherit_constexprs(Sema *s, Block *b) {
    for (size_t i = 0; b->op && i < b->op->decl_count; i++) {
        const Decl *from = b->op->decls[i];
        if (from->kind != DECL_CONSTEXPR || sema_find(s, from->name)) continue;
        Decl *d = ARENA_NEW(s->arena, Decl);
        *d = *from;
        d->origin = ORIGIN_OPERATOR;
        sema_declare(s, d);
    }
}

/* ---- Tensors and views ---- */

enum { VIEWS_MAX = 8 };

static const Aff **extents(Sema *s, Decl *d) {
    const Aff **shape = ARENA_ARRAY(s->arena, const Aff *, d->dim_count + 1);
    for (size_t i = 0; i < d->dim_count; i++) {
        s->in_dims = true;
        const Aff *dim = sema_scalar(s, d->dims[i], "a dim");
        int64_t value;
        s->in_dims = false;
        d->lacks_dims |= !dim;
        shape[i] = dim ? dim : aff_const(s->aff, 1);
        if (dim && aff_is_const(dim, &value) && value < 0) sema_error(s, DIAG_bad_extent, d->dims[i]->span, "a dim is never negative");
        aff_facts_nonneg(s->facts, shape[i]);
    }
    return shape;
}

/* Null after a report. */
static const Aff *read_stride(Sema *s, Expr *e) {
    int64_t value;
    const Aff *stride = sema_scalar(s, e, "a stride");
    if (!stride || !aff_is_const(stride, &value) || value >= 0) return stride;
    sema_error(s, DIAG_bad_extent, e->span, "a stride is never negative: a view reverses an axis, `view R[i: N] = X[N - 1 - i];`");
    return NULL;
}

static void read_strides(Sema *s, Decl *d) {
    const Aff **strides = ARENA_ARRAY(s->arena, const Aff *, d->stride_count + 1);
    if (s->block->kind == BLOCK_OPERATOR) {
        sema_error(s, DIAG_bad_declaration, d->span,
                   "strides say where a tensor lies in memory, not what is computed: they stand in the sketch");
        return;
    }
    if (d->stride_count != d->dim_count) {
        sema_error(s, DIAG_bad_argument, d->span, "strides(...) has %zu values for %zu dims", d->stride_count, d->dim_count);
        return;
    }
    for (size_t i = 0; i < d->stride_count; i++)
        if (!(strides[i] = read_stride(s, d->strides[i]))) return;
    if (!d->stride_count) return;
    d->stride_affs = strides;
    if (sema_strides_are_injective(s, d)) return;
    diag_note(s->diags, diag_report(s->diags, DIAG_strides_overlap, d->span, d->name), SPAN_NONE,
              "a constraint of the symbols may prove that they do not, as `S >= N` for strides(S, 1) of [M, N]; what repeats or overlaps "
              "is a view");
}

static void declare_tensor(Sema *s, Decl *d) {
    if (d->dim_count > AST_MAX_RANK) {
        diag_report(s->diags, DIAG_rank_limit, d->span, d->name, AST_MAX_RANK);
        d->dim_count = AST_MAX_RANK;
    }
    d->type = (Type){.kind = TYPE_TENSOR, .rank = (uint8_t)d->dim_count};
    d->type.shape = extents(s, d);
    d->type.dtype = d->dtype_name ? sema_dtype(s, d->dtype_name, d->dtype_span) : DTYPE_F32;
    if (d->strides) read_strides(s, d);
    sema_declare(s, d);
}

/* An intermediate whose shape and type are said; its name stands for it from its equation on. */
static void declare_value(Sema *s, Decl *d) {
    if (s->block->kind == BLOCK_SKETCH) {
        sema_error(s, DIAG_bad_declaration, d->span,
                   "values: are those of an operator's equations; what a sketch computes is in tiles, `%s = alloc([...])`", d->name);
        return;
    }
    if (d->dim_count > AST_MAX_RANK) {
        diag_report(s->diags, DIAG_rank_limit, d->span, d->name, AST_MAX_RANK);
        d->dim_count = AST_MAX_RANK;
    }
    if (d->strides) read_strides(s, d); /* reports */
    d->type = (Type){.kind = TYPE_TENSOR, .rank = (uint8_t)d->dim_count, .shape = extents(s, d)};
    d->type.dtype = sema_dtype(s, d->dtype_name, d->dtype_span);
}

Decl *sema_declared_value(const Sema *s, const char *name) {
    for (size_t i = 0; i < s->block->decl_count; i++) {
        Decl *d = s->block->decls[i];
        if (d->kind == DECL_VALUE && d->type.kind && strcmp(d->name, name) == 0) return d;
    }
    return NULL;
}

/* Each that is declared is made, once, and is no other name's. */
void sema_check_values(Sema *s, const Block *op) {
    for (size_t i = 0; i < op->decl_count; i++) {
        const Decl *d = op->decls[i], *known = d->kind == DECL_VALUE ? sema_find(s, d->name) : d;
        if (known == d || d->kind != DECL_VALUE) continue;
        if (known && known->type.kind == TYPE_ERROR) continue; /* reported */
        Diag *diag = diag_report(s->diags, known ? DIAG_redeclared : DIAG_value_not_made, d->span, d->name);
        if (known) diag_note(s->diags, diag, known->span, "`%s` is declared here", d->name);
    }
}

/* What a view sees: memory, at most VIEWS_MAX views away. False after a report. */
static bool is_seen(Sema *s, const Decl *d, const Decl *base) {
    unsigned depth = 1;
    for (const Decl *of = base; of->kind == DECL_VIEW; of = of->base) depth++;
    if (depth > VIEWS_MAX) {
        sema_error(s, DIAG_bad_declaration, d->view_of->span, "a view is at most %d views away from its tensor", VIEWS_MAX);
        return false;
    }
    if (base->kind == DECL_TENSOR || base->kind == DECL_VIEW || base->is_workspace) return true;
    Diag *diag = diag_report(s->diags, DIAG_bad_declaration, d->view_of->span, "a view sees memory: a tensor, another view or a workspace");
    diag_note(s->diags, diag, base->span, "`%s` takes part in computing: load a slice of it instead", base->name);
    return false;
}

static void see(Sema *s, Decl *d) {
    d->type.kind = TYPE_ERROR;
    if (!sema_slice(s, d->view_of) || !is_seen(s, d, d->view_of->decl)) return;
    d->type.kind = TYPE_TENSOR;
    d->base = d->view_of->decl;
    d->type.dtype = d->base->type.dtype;
    for (size_t i = 0; i < d->view_of->axis_count; i++) {
        if (d->view_of->axes[i].kind == AXIS_POINT) continue;
        sema_error(s, DIAG_bad_declaration, d->view_of->axes[i].span,
                   "a view has one index for each axis of its tensor, X[i, j], and no range");
        d->type.kind = TYPE_ERROR;
    }
}

static void declare_view(Sema *s, Decl *d) {
    if (!d->view_of || d->dim_count > AST_MAX_RANK) {
        d->type.kind = TYPE_ERROR;
        sema_declare(s, d);
        return;
    }
    d->type = (Type){.kind = TYPE_TENSOR, .rank = (uint8_t)d->dim_count};
    d->type.shape = extents(s, d);
    sema_open_scope(s);
    d->view_indices = ARENA_ARRAY(s->arena, Decl *, d->dim_count + 1);
    for (size_t i = 0; i < d->dim_count; i++) {
        Decl *index = sema_new_decl(s, DECL_INDEX, d->dim_names[i], d->dims[i]->span);
        index->type = type_scalar(DTYPE_I64);
        index->affine = aff_var(s->aff, index, index->name);
        index->index_lo = aff_const(s->aff, 0);
        index->index_hi = d->type.shape[i];
        d->view_indices[i] = index;
        sema_declare(s, index);
    }
    see(s, d);
    if (d->view_pad && sema_expr(s, d->view_pad)->kind != TYPE_ERROR && d->view_pad->value.kind == CONST_NONE)
        sema_error(s, DIAG_not_constant, d->view_pad->span, "pad");
    sema_close_scope(s);
    sema_declare(s, d);
}

static const char *name_seen(const Decl *view) {
    const Expr *base = view->view_of ? view->view_of->u.index.base : NULL;
    return base && base->kind == EXPR_NAME ? base->u.name.name : NULL;
}

/* The name of the tile that a statement allocs; null where it does not. */
static const char *name_alloced(const Stmt *stmt) {
    if (stmt->kind != STMT_ASSIGN || stmt->u.assign.target_count != 1 || stmt->u.assign.value_count != 1) return NULL;
    const Expr *target = stmt->u.assign.targets[0], *value = stmt->u.assign.values[0];
    bool alloc = value->kind == EXPR_CALL && strcmp(value->u.call.callee, "alloc") == 0;
    return alloc && target->kind == EXPR_NAME ? target->u.name.name : NULL;
}

/* A view of what an alloc at the top will make waits for it, and so do the views of this view. */
static void declare_views(Sema *s, Block *b) {
    Map *later = map_create(s->arena);
    for (size_t i = 0; i < b->body.count; i++)
        if (name_alloced(b->body.data[i])) map_set(later, s->arena, name_alloced(b->body.data[i]), b);
    for (size_t i = 0; i < b->decl_count; i++) {
        Decl *d = b->decls[i];
        if (d->kind == DECL_TENSOR) declare_tensor(s, d);
        if (d->kind == DECL_VALUE) declare_value(s, d);
        if (d->kind != DECL_VIEW) continue;
        const char *name = name_seen(d);
        d->waits = name && !sema_find(s, name) && map_get(later, name);
        if (d->waits)
            map_set(later, s->arena, d->name, d);
        else
            declare_view(s, d);
    }
}

void sema_views_of(Sema *s, const Decl *memory) {
    for (size_t i = 0; i < s->block->decl_count; i++) {
        Decl *d = s->block->decls[i];
        if (d->kind != DECL_VIEW || !d->waits || strcmp(name_seen(d), memory->name) != 0) continue;
        d->waits = false;
        declare_view(s, d);
        sema_views_of(s, d);
    }
}

bool sema_is_viewed(const Sema *s, const char *name) {
    for (size_t i = 0; i < s->block->decl_count; i++) {
        const char *seen = s->block->decls[i]->kind == DECL_VIEW ? name_seen(s->block->decls[i]) : NULL;
        if (seen && strcmp(seen, name) == 0) return true;
    }
    return false;
}

Decl *sema_memory(Decl *d) {
    while (d->kind == DECL_VIEW && d->base) d = d->base;
    return d;
}

static void read_precision(Sema *s, Block *b) {
    if (!b->precision_name) return;
    if (b->kind == BLOCK_SKETCH) {
        diag_report(s->diags, DIAG_bad_declaration, b->precision_span, "the precision belongs to the operator: it sets the error bound");
        return;
    }
    if (!precision_find(b->precision_name))
        sema_error(s, DIAG_bad_declaration, b->precision_span, "the precision is one of: %s", precision_names());
}

/* Symbols and constexprs first, wherever they stand: values and dims may use them. */
void sema_decls(Sema *s, Block *b) {
    for (size_t i = 0; i < b->decl_count; i++)
        if (b->decls[i]->kind == DECL_SYMBOL) declare_symbol(s, b->decls[i]);
    for (size_t i = 0; i < b->decl_count; i++)
        if (b->decls[i]->kind == DECL_CONSTEXPR) declare_constexpr(s, b->decls[i]);
    inherit_constexprs(s, b);
    for (size_t i = 0; i < b->decl_count; i++)
        if (b->decls[i]->kind == DECL_SYMBOL) derive_symbol(s, b->decls[i]);
    for (size_t i = 0; i < b->decl_count; i++)
        if (b->decls[i]->kind == DECL_SCALAR) declare_scalar(s, b->decls[i]);
    constrain_block(s, b);
    declare_views(s, b);
    read_precision(s, b);
}
