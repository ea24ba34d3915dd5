/* From the checked syntax tree to IR: the module, its functions' parameters, cases, sizes. */
#include "build_internal.h"

#include <math.h>
#include <string.h>

IrValue *build_unsupported(Build *c, Span span, const char *what) {
    if (c->ok) diag_report(c->diags, DIAG_not_built, span, what);
    c->ok = false;
    return NULL;
}

IrValue *build_get(const Build *c, const Decl *d) {
    for (size_t i = c->env.len; i-- > 0;)
        if (c->env.data[i].decl == d) return c->env.data[i].value;
    return NULL;
}

void build_set(Build *c, const Decl *d, IrValue *v) {
    for (size_t i = c->env.len; i-- > 0;)
        if (c->env.data[i].decl == d) {
            c->env.data[i].value = v;
            return;
        }
    VEC_PUSH(c->unit, &c->env, ((NameValue){d, v}));
}

const char *build_name(Build *c, const char *name) {
    char *copy = arena_strndup(c->unit, name, strnlen(name, 40));
    for (char *p = copy; *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9'))) *p = '_';
    return *copy ? copy : "sketch";
}

/* ---- Sizes ---- */

static IrParam *param_of(Build *c, const char *name) {
    for (unsigned i = 0; i < c->f->param_count; i++)
        if (strcmp(c->f->params[i].name, name) == 0) return &c->f->params[i];
    return NULL;
}

/* num_sms, num_cores: symbols that the launch fills; the others are facts of the target. */
static const Aff *predefined(Build *c, const char *name) {
    const int64_t warp = c->file->warp_size, simd = c->file->simd_width;
    if (strcmp(name, "warp_size") == 0) return aff_const(c->m->affs, warp ? warp : 32);
    if (strcmp(name, "simd_width") == 0) return aff_const(c->m->affs, simd ? simd : 8);
    IrValue *v = ir_func_add_param(c->f, IR_PARAM_SYMBOL, name, ir_type_index(c->m), IR_DIR_IN);
    const Aff *symbol = aff_sym(c->m->affs, name);
    param_of(c, name)->derived = symbol;
    return ir_aff_of(c->m, v);
}

static const Aff *leaf_aff(Build *c, const Aff *e, Span span) {
    if (e->kind == AFF_SYM) {
        if (ir_func_symbol(c->f, e->name)) return aff_sym(c->m->affs, e->name);
        return predefined(c, e->name);
    }
    const Decl *d = e->var;
    IrValue *v = build_get(c, d);
    if (!v && d->kind == DECL_LOCAL && d->value) {
        v = build_number(c, d->value);
        if (!v) return aff_const(c->m->affs, 0);
        build_set(c, d, v);
    }
    if (!v) {
        build_unsupported(c, span, arena_printf(c->unit, "a size that depends on %s", e->name ? e->name : "a value"));
        return aff_const(c->m->affs, 0);
    }
    if (!v->type->is_index) { /* a parameter: where all that follows may use it */
        IrBuilder entry = c->b;
        entry.block = c->f->body;
        entry.before = c->f->body->first;
        v = ir_cast(&entry, v, ir_type_index(c->m));
        build_set(c, d, v);
    }
    return ir_aff_of(c->m, v);
}

const Aff *build_aff(Build *c, const Aff *e, Span span) {
    AffCtx *a = c->m->affs;
    const Aff *x = e->count > 0 ? build_aff(c, e->args[0], span) : NULL;
    const Aff *y = e->count > 1 ? build_aff(c, e->args[1], span) : NULL;
    const Aff *sum;
    switch (e->kind) {
    case AFF_CONST:
        return aff_const(a, e->value);
    case AFF_SYM:
    case AFF_VAR:
        return leaf_aff(c, e, span);
    case AFF_SUM:
        sum = aff_const(a, e->value);
        for (size_t i = 0; i < e->count; i++) {
            const Aff *term = i == 0 ? x : i == 1 ? y : build_aff(c, e->args[i], span);
            sum = aff_add(a, sum, aff_mul(a, aff_const(a, e->coefs[i]), term));
        }
        return sum;
    case AFF_PRODUCT:
        for (size_t i = 1; i < e->count; i++) x = aff_mul(a, x, i == 1 ? y : build_aff(c, e->args[i], span));
        return x;
    case AFF_FLOORDIV:
        return aff_floordiv(a, x, y);
    case AFF_MOD:
        return aff_mod(a, x, y);
    case AFF_MIN:
        return aff_min(a, x, y);
    case AFF_MAX:
        return aff_max(a, x, y);
    case AFF_OVERFLOW:
        break;
    }
    build_unsupported(c, span, "a size beyond 64 bits");
    return aff_const(a, 0);
}

IrValue *build_index(Build *c, const Aff *e, Span span) {
    return ir_aff_emit(&c->b, build_aff(c, e, span));
}

/* One form for extents that are equal by a proof only: the number, or the first that was met. */
static const Aff *canonical_extent(Build *c, const Aff *e) {
    const AffFacts *facts = c->block == c->file->sketch ? c->file->facts : NULL;
    int64_t lo, hi;
    if (!facts || e->kind == AFF_CONST) return e;
    if (aff_lower_bound(facts, e, &lo) && aff_upper_bound(facts, e, &hi) && lo == hi) return aff_const(c->file->aff, lo);
    for (size_t i = 0; i < c->extents.len; i++)
        if (aff_prove_eq(facts, c->extents.data[i], e)) return c->extents.data[i];
    VEC_PUSH(c->unit, &c->extents, e);
    return e;
}

const IrType *build_type(Build *c, const Type *t, Dtype dtype, Span span) {
    if (t->kind == TYPE_SCALAR) return ir_type_scalar(c->m, dtype);
    const Aff *extents[AST_MAX_RANK] = {0};
    for (unsigned i = 0; i < t->rank; i++) {
        const Aff *e = t->kind == TYPE_TILE ? canonical_extent(c, t->shape[i]) : t->shape[i];
        extents[i] = build_aff(c, e, span);
    }
    return c->graph || t->kind == TYPE_TENSOR ? ir_type_tensor(c->m, dtype, t->rank, extents)
                                              : ir_type_tile(c->m, dtype, t->rank, extents, NULL);
}

/* ---- Parameters ---- */

const char *build_text(Build *c, Span span) {
    const SourceFile *file = c->sources ? source_file(c->sources, span.file) : NULL;
    if (!file || span.end > file->size || span.begin >= span.end) return "";
    return arena_strndup(c->unit, file->text + span.begin, span.end - span.begin);
}

static double number_of(const ConstValue *v) {
    return v->kind == CONST_FLOAT ? v->f : v->kind == CONST_INT || v->kind == CONST_BOOL ? (double)v->i : NAN;
}

static void build_symbol(Build *c, const Decl *d) {
    IrValue *v = ir_func_add_param(c->f, IR_PARAM_SYMBOL, d->name, ir_type_index(c->m), IR_DIR_IN);
    build_set(c, d, v);
    if (d->value && d->affine) param_of(c, d->name)->derived = build_aff(c, d->affine, d->span);
}

static void build_scalar_param(Build *c, const Decl *d) {
    IrValue *v = ir_func_add_param(c->f, IR_PARAM_SCALAR, d->name, ir_type_scalar(c->m, d->type.dtype), IR_DIR_IN);
    build_set(c, d, v);
    param_of(c, d->name)->fallback = number_of(&d->constant);
}

void build_symbols(Build *c) {
    const Block *block = c->block;
    for (size_t i = 0; i < block->decl_count; i++)
        if (block->decls[i]->kind == DECL_SYMBOL) build_symbol(c, block->decls[i]);
    for (size_t i = 0; i < block->decl_count; i++)
        if (block->decls[i]->kind == DECL_SCALAR) build_scalar_param(c, block->decls[i]);
    for (size_t i = 0; i < block->condition_count; i++) {
        const Condition *k = &block->conditions[i];
        ir_func_add_constraint(c->f, build_aff(c, k->expr, k->span), k->equal, build_text(c, k->span));
    }
}

/* ---- Cases ---- */

/* What a case of a sketch is told in: the operator's names where the sketch implements one. */
typedef struct {
    Build *c;
    const Case *from;
    const Block *block; /* where the case stands */
    bool known;
} CaseNames;

static const Binding *find_binding(const Block *b, const Decl *own, const Aff *size) {
    for (size_t i = 0; i < b->binding_count; i++) {
        const Binding *x = &b->bindings[i];
        if (own ? x->sketch_decl == own : x->value && x->value == size) return x;
    }
    return NULL;
}

static const Aff *operator_size(void *ctx, const Aff *leaf) {
    CaseNames *n = ctx;
    const Binding *x = leaf->kind == AFF_SYM ? find_binding(n->block, NULL, leaf) : NULL;
    n->known &= x != NULL || leaf->kind != AFF_SYM;
    return x ? aff_sym(n->c->file->aff, x->op_decl->name) : NULL;
}

static const Aff *data_size(CaseNames *n, const Aff *e, Span span) {
    if (e && n->block->op) e = aff_substitute(n->c->file->aff, e, operator_size, n);
    if (!n->known) build_unsupported(n->c, span, "data of a size that no symbol of the operator gives");
    return e && n->known ? build_aff(n->c, e, span) : NULL;
}

static void build_data(CaseNames *n, IrCase *to, const Setting *s) {
    IrCaseArg args[COUNT_OF(s->params)];
    const Binding *x = find_binding(n->block, s->decl, NULL);
    const char *name = x ? x->op_decl->name : s->name;
    size_t count = s->kind == SETTING_VALUE ? 1 : s->param_count;
    BuiltinId kind = s->kind == SETTING_VALUE ? BUILTIN_CONSTANT : s->data;
    for (size_t i = 0; i < count; i++)
        args[i] = s->kind == SETTING_VALUE ? (IrCaseArg){.number = number_of(&s->constant)}
                                           : (IrCaseArg){data_size(n, s->sizes[i], s->span), s->params[i]};
    ir_case_set_data(n->c->m, to, name, builtin_info(kind)->name, count, args);
}

static bool size_in_case(void *ctx, const Aff *leaf, int64_t *value) {
    const CaseNames *n = ctx;
    for (size_t i = 0; i < n->from->setting_count; i++) {
        const Setting *s = &n->from->settings[i];
        if (!s->decl || s->decl->kind != DECL_SYMBOL || s->decl->affine != leaf) continue;
        *value = s->constant.i;
        return true;
    }
    return false;
}

/* A symbol of the sketch alone, as a stride is, keeps its name. */
static void build_sizes(CaseNames *n, IrCase *to) {
    for (size_t i = 0; i < n->from->setting_count; i++) {
        const Setting *s = &n->from->settings[i];
        if (s->kind == SETTING_VALUE && s->decl->kind == DECL_SYMBOL) ir_case_set_symbol(n->c->m, to, s->name, s->constant.i);
    }
    for (size_t i = 0; i < n->block->binding_count; i++) {
        const Binding *x = &n->block->bindings[i];
        int64_t value;
        if (x->op_decl->kind == DECL_SYMBOL && !x->op_decl->value && x->value && aff_eval(x->value, size_in_case, n, &value))
            ir_case_set_symbol(n->c->m, to, x->op_decl->name, value);
    }
}

/* `f`: what declares the symbols of its data. */
static void build_case(Build *c, IrFunc *f, const Block *block, const Case *from) {
    CaseNames names = {c, from, block, true};
    IrCase *to = ir_module_add_case(c->m, build_name(c, from->name));
    c->f = f;
    build_sizes(&names, to);
    for (size_t i = 0; i < from->setting_count; i++) {
        const Setting *s = &from->settings[i];
        if (s->kind != SETTING_VALUE || s->decl->kind == DECL_SCALAR) build_data(&names, to, s);
    }
}

/* ---- Module ---- */

static Build start(const Build *from, const Block *block, bool graph, const char *name) {
    Build c = *from;
    c.block = block;
    c.graph = graph;
    c.env.data = NULL;
    c.env.len = c.env.cap = 0;
    c.f = ir_func_create(c.m, name, graph ? IR_LEVEL_GRAPH : IR_LEVEL_TILE);
    c.b = ir_builder_at_end(c.f->body);
    return c;
}

static bool build_block(const Build *from, const Block *block, bool graph) {
    const char *name = build_name((Build *)from, block->name);
    if (!graph && from->m->first && strcmp(from->m->first->name, name) == 0) name = arena_printf(from->unit, "%.33s_sketch", name);
    Build c = start(from, block, graph, name);
    if (graph)
        build_operator(&c);
    else
        build_sketch(&c);
    return c.ok;
}

IrModule *frontend_build(Arena *unit, SourceMap *sources, const File *file, DiagList *diags) {
    Build c = {.unit = unit, .sources = sources, .file = file, .diags = diags, .ok = true};
    c.m = ir_module_create(unit, sources);
    bool ok = !file->op || build_block(&c, file->op, true);
    ok &= !file->sketch || build_block(&c, file->sketch, false);
    for (size_t i = 0; file->op && i < file->op->case_count; i++) build_case(&c, c.m->first, file->op, &file->op->cases[i]);
    for (size_t i = 0; file->sketch && i < file->sketch->case_count; i++) build_case(&c, c.m->first, file->sketch, &file->sketch->cases[i]);
    return ok && c.ok ? c.m : NULL;
}
