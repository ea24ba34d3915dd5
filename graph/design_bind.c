/* design: prints a sketch of the library for a product of the operator.
 *
 * Its statements are printed again, with names and sizes of the operator in place of the file's. Two kinds mean something else here: a load
 * of a factor reads the operand's tensor, which may lie transposed, and a store of the result is where the maps behind the product are made. */
#include "design_bind_internal.h"
#include "design_internal.h"

#include <string.h>

/* ---- Names ---- */

static void set_name(Binding *b, const char *from, const char *to) {
    for (size_t i = 0; i < b->names.len; i++)
        if (strcmp(b->names.data[i].from, from) == 0) {
            b->names.data[i].to = to;
            return;
        }
    VEC_PUSH(b->d->arena, &b->names, (BindName){from, to});
}

const char *bind_name_of(const Binding *b, const char *word) {
    for (size_t i = 0; i < b->names.len; i++)
        if (strcmp(b->names.data[i].from, word) == 0) return b->names.data[i].to;
    return word;
}

/* A name of the file's own: another nest of this kind has others. */
static const char *fresh(const Binding *b, const char *name) {
    if (b->d->bound_count > 1) name = arena_printf(b->d->arena, "%s_%u", name, b->d->bound_count);
    return design_free_name(b->d, name);
}

const char *bind_in_parentheses(Design *d, const Aff *e) {
    const char *text = design_aff_text(d, e);
    return strpbrk(text, " (") ? arena_printf(d->arena, "(%s)", text) : text;
}

const Aff *bind_whole_extent(Design *d, const LibraryAxis *a) {
    const Aff *all = aff_const(d->module->affs, 1);
    for (unsigned i = 0; i < a->count; i++) all = aff_mul(d->module->affs, all, a->extents[i]);
    return all;
}

static void bind_constexpr(Binding *b, const LibraryConstexpr *c) {
    Design *d = b->d;
    const char *name = design_free_name(d, c->name);
    unsigned variant = d->variant < c->count ? d->variant : c->count - 1;
    const DesignUse *use = design_use_of(d, b->match->sketch);
    int64_t value = c->values[variant];
    bool known = false;
    for (size_t i = 0; use && i < use->count; i++)
        if (strcmp(use->params[i].name, c->name) == 0) value = use->params[i].value;
    d->varied |= d->variant < c->count;
    for (size_t i = 0; i < d->constexprs.len; i++) known |= strcmp(d->constexprs.data[i].name, name) == 0;
    if (!known) VEC_PUSH(d->arena, &d->constexprs, (DesignConstexpr){name, value});
    set_name(b, c->name, name);
}

static bool is_loop(const LibraryLine *l) {
    return library_is(l, 0, "for");
}

static void bind_names(Binding *b) {
    const LibrarySketch *s = b->match->sketch;
    for (unsigned i = 0; i < b->match->count; i++) {
        const LibraryAxis *a = &b->match->axes[i];
        set_name(b, a->symbol, bind_in_parentheses(b->d, bind_whole_extent(b->d, a)));
    }
    for (size_t i = 0; i < s->constexprs.len; i++) bind_constexpr(b, &s->constexprs.data[i]);
    for (size_t i = 0; i < s->lines.len; i++) {
        const LibraryLine *l = &s->lines.data[i];
        const char *own = is_loop(l) ? l->tokens[1].text : library_is(l, 1, "=") ? l->tokens[0].text : NULL;
        if (own) set_name(b, own, fresh(b, own));
    }
}

const char *bind_text_of(const Binding *b, const LibraryLine *l, size_t first, size_t end) {
    Str text;
    str_init(&text);
    for (size_t i = first; i < end; i++) {
        const LibraryToken *t = &l->tokens[i];
        bool attribute = i > 0 && library_is(l, i + 1, "="); /* dtype= */
        if (t->space && i > first) str_append_char(&text, ' ');
        str_append(&text, attribute || !library_is_word(t->text) ? t->text : bind_name_of(b, t->text));
    }
    const char *copy = arena_strdup(b->d->arena, text.data);
    str_release(&text);
    return copy;
}

const LibraryAxis *bind_axis_named(const LibraryMatch *m, const char *symbol) {
    unsigned i = 0;
    while (i + 1 < m->count && strcmp(m->axes[i].symbol, symbol) != 0) i++;
    return &m->axes[i];
}

/* ---- Factors ---- */

/* Does the broadcast only add axes? */
static bool only_repeats(const IrOp *op) {
    const IrType *from = op->operands[0]->type;
    const IrAttr *axes = ir_attr(op, "axes");
    for (unsigned i = 0; from->kind == IR_TYPE_TENSOR && i < from->rank; i++)
        if (from->extents[i] != op->results[0].type->extents[axes->ints[i]]) return false;
    return from->kind == IR_TYPE_TENSOR;
}

/* What the value moves, with the factor's axes in its order; null: it is no transposition or repetition. */
static IrValue *behind_move(const IrValue *v, BindFactor *f) {
    IrOp *op = v->def;
    unsigned axes[DESIGN_RANK] = {0};
    if (!op || (op->opcode != IR_GRAPH_TRANSPOSE && op->opcode != IR_GRAPH_BROADCAST)) return NULL;
    bool turns = op->opcode == IR_GRAPH_TRANSPOSE;
    const IrAttr *to = ir_attr(op, turns ? "perm" : "axes");
    if (!turns && !only_repeats(op)) return NULL;
    f->rank = op->operands[0]->type->rank;
    for (unsigned i = 0; i < f->rank; i++) axes[turns ? to->ints[i] : i] = f->axes[turns ? i : to->ints[i]];
    memcpy(f->axes, axes, sizeof axes);
    return op->operands[0];
}

/* Where the axis of the factor stands in the tensor. */
static unsigned place_of(const BindFactor *f, unsigned axis) {
    unsigned i = 0;
    while (i + 1 < f->rank && f->axes[i] != axis) i++;
    return i;
}

/* A tensor with the rows as one axis: the operand's own, declared so, or a workspace. */
static bool find_rows(Binding *b, IrValue *v, BindFactor *f, const LibraryAxis *rows) {
    Design *d = b->d;
    unsigned first = place_of(f, rows->at[0][0]);
    for (unsigned i = 1; i < rows->count; i++)
        if (place_of(f, rows->at[0][i]) != first + i) return design_fail(d, "rows of a factor that do not lie one behind the other");
    f->name = design_source(d, v, NULL);
    if (f->name && (!v->def || design_merge_of(d, f->name))) return design_merge(d, f->name, v->type, first, rows->count);
    IrValue *flat = design_make_reshape(d, v, design_merged_type(d, v->type, first, rows->count), b->product);
    if (!design_stage(d, flat)) return false;
    f->name = design_staged_name(d, flat);
    return true;
}

const LibraryAxis *bind_rows_of(const Binding *b) {
    return bind_axis_named(b->match, b->match->sketch->tensors.data[0].axes[1]);
}

/* The tensor or workspace that holds the operand, behind what only moves it. */
static bool find_factor(Binding *b, unsigned side) {
    Design *d = b->d;
    BindFactor *f = &b->factors[side];
    IrValue *v = b->product->operands[side];
    f->rank = v->type->rank;
    for (unsigned i = 0; i < f->rank; i++) f->axes[i] = i;
    for (IrValue *from = v; from && !design_home(d, v);) {
        from = behind_move(v, f);
        if (from) v = from;
    }
    const LibraryAxis *rows = bind_rows_of(b);
    if (side == 0 && rows->count > 1) return find_rows(b, v, f, rows);
    f->name = design_source(d, v, NULL);
    if (!f->name && !design_stage(d, v)) return false;
    if (!f->name) f->name = design_staged_name(d, v);
    return true;
}

/* The results are stored with those axes as one that a loop of the sketch has as one. */
static void merge_results(const Binding *b) {
    const IrType *t = b->product->results[0].type;
    for (unsigned i = 0; i < b->match->count; i++) {
        const LibraryAxis *a = &b->match->axes[i];
        bool stored = a->count > 1 && a->at[2][0] != a->at[2][1];
        for (unsigned k = 0; stored && k < b->results->count; k++)
            design_merge(b->d, b->results->names[k], ir_type_with_dtype(b->d->module, t, b->results->values[k]->type->dtype), a->at[2][0],
                         a->count);
    }
}

/* ---- Statements ---- */

/* for p in range(P) of a product without such an axis. */
static bool is_over_nothing(const Binding *b, const LibraryLine *l) {
    for (unsigned i = 0; i < b->match->count && is_loop(l); i++) {
        const LibraryAxis *a = &b->match->axes[i];
        if (!a->count && l->count == 8 && library_is(l, 3, "range") && library_is(l, 5, a->symbol)) return true;
    }
    return false;
}

static bool is_alloc(const LibraryLine *l) {
    return library_is(l, 2, "alloc") && library_is(l, 4, "[");
}

static void print_alloc(Binding *b, size_t at) {
    const LibraryLine *l = &b->match->sketch->lines.data[at];
    BindShape s = {.tile = l->tokens[0].text, .turned = bind_is_multiplied_turned(b, at)};
    size_t i = 5;
    for (; s.rank < LIBRARY_RANK && i < l->count && !library_is(l, i - 1, "]"); s.rank++) {
        size_t end = library_item_end(l, i);
        s.extents[s.rank] = bind_text_of(b, l, i, end);
        i = end + 1;
    }
    VEC_PUSH(b->d->arena, &b->shapes, s);
    if (s.turned)
        design_line(b->d, "%s = alloc([%s, %s]%s", bind_name_of(b, s.tile), s.extents[1], s.extents[0], bind_text_of(b, l, i, l->count));
    else
        design_line(b->d, "%s", bind_text_of(b, l, 0, l->count));
}

static const char *turned_flag(const Binding *b, const char *tile, const char *flag) {
    const BindShape *s = bind_shape_of(b, tile);
    return s && s->turned ? flag : "";
}

/* gemm(a, b, c) */
static void print_gemm(Binding *b, const LibraryLine *l) {
    const char *left = turned_flag(b, l->tokens[2].text, ", trans_a=true"), *right = turned_flag(b, l->tokens[4].text, ", trans_b=true");
    design_line(b->d, "%s%s%s)", bind_text_of(b, l, 0, l->count - 1), left, right);
}

static void print_hint(Binding *b) {
    if (b->hint) design_line(b->d, "%s", bind_text_of(b, b->hint, 0, b->hint->count));
    b->hint = NULL;
}

static void print_plain(Binding *b, size_t at) {
    const LibrarySketch *s = b->match->sketch;
    const LibraryLine *l = &s->lines.data[at];
    print_hint(b);
    if (is_alloc(l))
        print_alloc(b, at);
    else if (library_is(l, 0, "gemm"))
        print_gemm(b, l);
    else if (bind_is_factor_load(b, l, 0) || bind_is_factor_load(b, l, 1))
        bind_print_load(b, l, bind_is_factor_load(b, l, 1));
    else if (library_is(l, 0, "store") && library_is(l, 4, s->tensors.data[2].name))
        bind_print_store(b, l);
    else
        design_line(b->d, "%s", bind_text_of(b, l, 0, l->count));
}

static void print_statement(Binding *b, size_t at) {
    const LibraryLine *l = &b->match->sketch->lines.data[at];
    while (b->drop_count && l->level <= b->dropped[b->drop_count - 1]) b->drop_count--;
    b->d->depth = l->level - 1 - b->drop_count;
    if (library_is(l, 0, "@")) {
        b->hint = l;
    } else if (is_over_nothing(b, l) && b->drop_count < MOST_DROPPED) {
        b->hint = NULL;
        b->dropped[b->drop_count++] = l->level;
        set_name(b, l->tokens[1].text, "0");
    } else {
        print_plain(b, at);
    }
}

bool design_bind(Design *d, IrOp *product, const DesignResults *r) {
    LibraryMatch match;
    Binding b = {.d = d, .match = &match, .product = product, .results = r};
    Design around;
    Str body;
    if (!design_match(d, product, &match)) return design_fail(d, "no sketch of the library makes the product");
    for (unsigned i = 0; i < 2; i++)
        if (!find_factor(&b, i)) return false;
    merge_results(&b);
    d->bound_count++;
    d->limited |= match.sketch->by_name;
    d->owned |= match.sketch->own;
    bind_names(&b);
    design_begin_nest(d, &around, r, &body);
    d->bound = product;
    for (size_t i = 0; i < match.sketch->lines.len && !d->error; i++) print_statement(&b, i);
    design_add_region(d, r, match.sketch, &body);
    return design_end_nest(d, &around, &body);
}
