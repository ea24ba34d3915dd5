/* design: prints a sketch of the library for a product of the operator.
 *
 * Its statements are printed again, with names and sizes of the operator in place of the file's. Two kinds mean something else here: a load
 * of a factor reads the operand's tensor, which may lie transposed, and a store of the result is where the maps behind the product are made. */
#include "design_internal.h"

#include <string.h>

enum { MOST_DROPPED = 8 };

typedef struct {
    const char *from, *to;
} Name;

typedef struct {
    const char *tile;
    unsigned rank;
    const char *extents[LIBRARY_RANK];
    bool turned; /* has the form in which its factor lies, for `gemm` */
} Shape;

/* Where a factor is read: axis i of the tensor is axis axes[i] of the factor. */
typedef struct {
    const char *name;
    unsigned rank, axes[DESIGN_RANK];
} Factor;

/* What stands for an axis in brackets; null: the product has no such axis. */
typedef struct {
    const char *text;
    const char *begin; /* of a range; null: a point */
} Slice;

typedef struct {
    Design *d;
    const LibraryMatch *match;
    IrOp *product;
    const DesignResults *results;
    Factor factors[2];
    VEC(Name) names;
    VEC(Shape) shapes;
    const LibraryLine *hint; /* of the next statement */
    unsigned dropped[MOST_DROPPED], drop_count;
} Binding;

/* ---- Names ---- */

static void set_name(Binding *b, const char *from, const char *to) {
    for (size_t i = 0; i < b->names.len; i++)
        if (strcmp(b->names.data[i].from, from) == 0) {
            b->names.data[i].to = to;
            return;
        }
    VEC_PUSH(b->d->arena, &b->names, (Name){from, to});
}

static const char *name_of(const Binding *b, const char *word) {
    for (size_t i = 0; i < b->names.len; i++)
        if (strcmp(b->names.data[i].from, word) == 0) return b->names.data[i].to;
    return word;
}

/* A name of the file's own: another nest of this kind has others. */
static const char *fresh(const Binding *b, const char *name) {
    if (b->d->bound_count > 1) name = arena_printf(b->d->arena, "%s_%u", name, b->d->bound_count);
    return design_free_name(b->d, name);
}

static const char *in_parentheses(Design *d, const Aff *e) {
    const char *text = design_aff_text(d, e);
    return strpbrk(text, " (") ? arena_printf(d->arena, "(%s)", text) : text;
}

static const Aff *whole_extent(Design *d, const LibraryAxis *a) {
    const Aff *all = aff_const(d->module->affs, 1);
    for (unsigned i = 0; i < a->count; i++) all = aff_mul(d->module->affs, all, a->extents[i]);
    return all;
}

static void bind_constexpr(Binding *b, const LibraryConstexpr *c) {
    Design *d = b->d;
    const char *name = design_free_name(d, c->name);
    unsigned variant = d->variant < c->count ? d->variant : c->count - 1;
    bool known = false;
    d->varied |= d->variant < c->count;
    for (size_t i = 0; i < d->constexprs.len; i++) known |= strcmp(d->constexprs.data[i].name, name) == 0;
    if (!known) VEC_PUSH(d->arena, &d->constexprs, (DesignConstexpr){name, c->values[variant]});
    set_name(b, c->name, name);
}

static bool is_loop(const LibraryLine *l) {
    return library_is(l, 0, "for");
}

static void bind_names(Binding *b) {
    const LibrarySketch *s = b->match->sketch;
    for (unsigned i = 0; i < b->match->count; i++) {
        const LibraryAxis *a = &b->match->axes[i];
        set_name(b, a->symbol, in_parentheses(b->d, whole_extent(b->d, a)));
    }
    for (size_t i = 0; i < s->constexprs.len; i++) bind_constexpr(b, &s->constexprs.data[i]);
    for (size_t i = 0; i < s->lines.len; i++) {
        const LibraryLine *l = &s->lines.data[i];
        const char *own = is_loop(l) ? l->tokens[1].text : library_is(l, 1, "=") ? l->tokens[0].text : NULL;
        if (own) set_name(b, own, fresh(b, own));
    }
}

/* The tokens from `first` to `end` with their new names. */
static const char *text_of(const Binding *b, const LibraryLine *l, size_t first, size_t end) {
    Str text;
    str_init(&text);
    for (size_t i = first; i < end; i++) {
        const LibraryToken *t = &l->tokens[i];
        bool attribute = i > 0 && library_is(l, i + 1, "="); /* dtype= */
        if (t->space && i > first) str_append_char(&text, ' ');
        str_append(&text, attribute || !library_is_word(t->text) ? t->text : name_of(b, t->text));
    }
    const char *copy = arena_strdup(b->d->arena, text.data);
    str_release(&text);
    return copy;
}

static const LibraryAxis *axis_named(const LibraryMatch *m, const char *symbol) {
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
static IrValue *behind_move(const IrValue *v, Factor *f) {
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
static unsigned place_of(const Factor *f, unsigned axis) {
    unsigned i = 0;
    while (i + 1 < f->rank && f->axes[i] != axis) i++;
    return i;
}

/* A tensor with the rows as one axis: the operand's own, declared so, or a workspace. */
static bool find_rows(Binding *b, IrValue *v, Factor *f, const LibraryAxis *rows) {
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

/* The rows of the left factor. */
static const LibraryAxis *rows_of(const Binding *b) {
    return axis_named(b->match, b->match->sketch->tensors.data[0].axes[1]);
}

/* The tensor or workspace that holds the operand, behind what only moves it. */
static bool find_factor(Binding *b, unsigned side) {
    Design *d = b->d;
    Factor *f = &b->factors[side];
    IrValue *v = b->product->operands[side];
    f->rank = v->type->rank;
    for (unsigned i = 0; i < f->rank; i++) f->axes[i] = i;
    for (IrValue *from = v; from && !design_home(d, v);) {
        from = behind_move(v, f);
        if (from) v = from;
    }
    const LibraryAxis *rows = rows_of(b);
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

/* ---- Slices ---- */

/* What stands in the brackets that open at `i`, by axis of the file's tensor. */
static size_t read_slices(const Binding *b, const LibraryLine *l, size_t i, const LibraryTensor *t, Slice *slices) {
    for (unsigned k = 0; k < t->rank; k++) {
        size_t end = library_item_end(l, i + 1), colon = i + 1;
        while (colon < end && !library_is(l, colon, ":")) colon++;
        const LibraryAxis *a = axis_named(b->match, t->axes[k]);
        slices[k] = (Slice){0};
        if (a->count) slices[k].text = text_of(b, l, i + 1, end);
        if (a->count && colon < end) slices[k].begin = text_of(b, l, i + 1, colon);
        i = end;
    }
    return i;
}

static const Shape *shape_of(const Binding *b, const char *tile) {
    for (size_t i = b->shapes.len; i-- > 0;)
        if (strcmp(b->shapes.data[i].tile, tile) == 0) return &b->shapes.data[i];
    return NULL;
}

/* One of several axes that a loop goes through together. */
static const char *point_of(Design *d, const LibraryAxis *a, unsigned which, const char *text) {
    const Aff *inner = aff_const(d->module->affs, 1);
    for (unsigned i = which + 1; i < a->count; i++) inner = aff_mul(d->module->affs, inner, a->extents[i]);
    if (which + 1 < a->count) text = arena_printf(d->arena, "%s // %s", text, in_parentheses(d, inner));
    if (which)
        text = arena_printf(d->arena, "%s%% %s",
                            strchr(text, ' ') ? arena_printf(d->arena, "(%s) ", text) : arena_printf(d->arena, "%s ", text),
                            in_parentheses(d, a->extents[which]));
    return text;
}

/* ---- Loads of factors ---- */

/* The axis of the file's tensor that the factor's axis belongs to, and which one of it. */
static unsigned tensor_axis(const Binding *b, unsigned side, unsigned axis, unsigned *which) {
    const LibraryTensor *t = &b->match->sketch->tensors.data[side];
    for (unsigned k = 0; k < t->rank; k++) {
        const LibraryAxis *a = axis_named(b->match, t->axes[k]);
        for (*which = 0; *which < a->count; ++*which)
            if (a->at[side][*which] == axis) return k;
    }
    return 0;
}

static bool is_factor_load(const Binding *b, const LibraryLine *l, unsigned side) {
    return library_is(l, 0, "load") && library_is(l, 2, b->match->sketch->tensors.data[side].name);
}

/* Do the last two axes of the file's tensor lie the other way round? */
static bool lies_turned(const Binding *b, unsigned side) {
    const Factor *f = &b->factors[side];
    const LibraryTensor *t = &b->match->sketch->tensors.data[side];
    unsigned last = 0, which = 0;
    bool turned = false;
    for (unsigned i = 0; i < f->rank; i++) {
        unsigned k = tensor_axis(b, side, f->axes[i], &which);
        if (k + 2 < t->rank) continue;
        turned |= k < last;
        last = k;
    }
    return turned;
}

static bool mentions(const LibraryLine *l, const char *word) {
    for (size_t i = 0; i < l->count; i++)
        if (library_is(l, i, word)) return true;
    return false;
}

/* Is the tile of this line's alloc loaded from a factor that lies turned, and then multiplied? It is multiplied as it lies. */
static bool is_multiplied_turned(const Binding *b, size_t at) {
    const LibrarySketch *s = b->match->sketch;
    const char *tile = s->lines.data[at].tokens[0].text;
    bool loaded = false;
    for (size_t i = at + 1; i < s->lines.len; i++) {
        const LibraryLine *l = &s->lines.data[i];
        if (!mentions(l, tile)) continue;
        if (loaded) return library_is(l, 0, "gemm");
        for (unsigned side = 0; side < 2; side++) loaded |= is_factor_load(b, l, side) && lies_turned(b, side);
        if (!loaded) return false;
    }
    return false;
}

/* load(A[..] -> x, ..): of the operand's tensor; where two ranges lie the other way round in it, through a tile of that form. */
static void print_load(Binding *b, const LibraryLine *l, unsigned side) {
    Design *d = b->d;
    const Factor *f = &b->factors[side];
    const LibraryTensor *t = &b->match->sketch->tensors.data[side];
    Slice slices[LIBRARY_RANK];
    size_t end = read_slices(b, l, 3, t, slices);
    const char *tile = l->tokens[end + 2].text, *to = name_of(b, tile), *rest = text_of(b, l, end + 3, l->count);
    unsigned last = 0;
    bool turned = false;
    Str text;
    str_init(&text);
    for (unsigned i = 0; i < f->rank; i++) {
        unsigned which = 0, k = tensor_axis(b, side, f->axes[i], &which);
        const LibraryAxis *a = axis_named(b->match, t->axes[k]);
        bool one = slices[k].begin || (side == 0 && a == rows_of(b) && a->count > 1);
        if (one && which) continue; /* of an axis that is one with those before */
        if (slices[k].begin) turned |= k < last, last = k;
        str_printf(&text, "%s%s", text.len ? ", " : "", one ? slices[k].text : point_of(d, a, which, slices[k].text));
    }
    const Shape *shape = shape_of(b, tile);
    if (turned && shape && shape->rank == 2 && !shape->turned) {
        const char *lies = design_name(d);
        design_line(d, "%s = alloc([%s, %s], dtype=%s)", lies, shape->extents[1], shape->extents[0],
                    dtype_name(b->product->operands[side]->type->dtype));
        design_line(d, "load(%s[%s] -> %s%s", f->name, text.data, lies, rest);
        design_line(d, "%s = transpose(%s)", to, lies);
    } else {
        design_line(d, "load(%s[%s] -> %s%s", f->name, text.data, to, rest);
    }
    str_release(&text);
}

/* ---- Stores of the result ---- */

static DesignAxis *add_axis(Binding *b, const LibraryAxis *a, const Slice *s, const char *extent) {
    Design *d = b->d;
    DesignAxis *added = design_axis_add(d, whole_extent(d, a), false), *axis = ARENA_NEW(d->arena, DesignAxis);
    if (!added) return NULL;
    *axis = *added;
    d->axes[axis->id] = axis;
    axis->walk = s->begin ? WALK_TILE : WALK_POINT;
    if (s->begin) {
        const char *begin = strpbrk(s->begin, " +-*/%(") ? arena_printf(d->arena, "(%s)", s->begin) : s->begin;
        axis->tile = extent;
        axis->slice = s->text;
        axis->begin = aff_var(d->module->affs, begin, begin);
    }
    if (!s->begin) axis->name = s->text;
    axis->var = aff_var(d->module->affs, axis, axis->name);
    return axis;
}

/* The indices of the result's axes that are the one of the nest. */
static void set_index(Design *d, const LibraryAxis *a, const DesignAxis *axis, const Aff **index) {
    AffCtx *c = d->module->affs;
    const Aff *rest = axis->var;
    for (unsigned i = a->count; i-- > 0;) {
        index[a->at[2][i]] = i ? aff_mod(c, rest, a->extents[i]) : rest;
        rest = aff_floordiv(c, rest, a->extents[i]);
    }
}

/* The axes of the nest are those of the result, in its order. */
static const char *result_slices(Design *d) {
    Str text;
    str_init(&text);
    for (unsigned i = 0; i < d->axis_count; i++) str_printf(&text, "%s%s", i ? ", " : "", design_slice(d, d->axes[i]));
    const char *copy = arena_strdup(d->arena, text.data);
    str_release(&text);
    return copy;
}

/* The tile of the product at these axes, as if the designer had made it. */
static void make_known(Binding *b, const char *tile, const Aff *const *index) {
    Design *d = b->d;
    IrValue *v = &b->product->results[0];
    DesignKnown k = {.value = v, .count = v->type->rank, .tile = {.text = tile, .is_tile = true, .dtype = v->type->dtype}};
    memcpy(k.index, index, k.count * sizeof *index);
    for (unsigned i = 0; i < d->axis_count; i++)
        if (d->axes[i]->walk == WALK_TILE) k.tile.axes[k.tile.rank++] = d->axes[i];
    VEC_PUSH(d->arena, &d->known, k);
}

/* store(t -> C[..], ..): what is made of the tile. */
static void print_store(Binding *b, const LibraryLine *l) {
    Design *d = b->d;
    const LibraryTensor *t = &b->match->sketch->tensors.data[2];
    const Shape *shape = shape_of(b, l->tokens[2].text);
    const Aff *index[DESIGN_RANK] = {0};
    Slice slices[LIBRARY_RANK];
    DesignAxis *axes[DESIGN_RANK];
    size_t end = read_slices(b, l, 5, t, slices);
    unsigned rank = 0;
    memset(d->axes, 0, sizeof d->axes);
    d->known.len = d->axis_count = 0;
    for (unsigned k = 0; k < t->rank; k++) {
        const LibraryAxis *a = axis_named(b->match, t->axes[k]);
        DesignAxis *axis = a->count ? add_axis(b, a, &slices[k], slices[k].begin && shape ? shape->extents[rank] : NULL) : NULL;
        if (axis) set_index(d, a, axis, index);
        if (axis && axis->walk == WALK_TILE) axes[rank++] = axis;
    }
    d->outer_count = d->axis_count;
    make_known(b, name_of(b, l->tokens[2].text), index);
    for (unsigned i = 0; i < b->results->count && !d->error; i++) {
        IrValue *v = b->results->values[i];
        DesignTile tile = design_value(d, v, index);
        if (!d->error) tile = design_storable(d, tile, v->type, rank, axes);
        if (d->error) return;
        design_line(d, "store(%s -> %s[%s]%s", tile.text, b->results->names[i], result_slices(d), text_of(b, l, end + 1, l->count));
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
    Shape s = {.tile = l->tokens[0].text, .turned = is_multiplied_turned(b, at)};
    size_t i = 5;
    for (; s.rank < LIBRARY_RANK && i < l->count && !library_is(l, i - 1, "]"); s.rank++) {
        size_t end = library_item_end(l, i);
        s.extents[s.rank] = text_of(b, l, i, end);
        i = end + 1;
    }
    VEC_PUSH(b->d->arena, &b->shapes, s);
    if (s.turned)
        design_line(b->d, "%s = alloc([%s, %s]%s", name_of(b, s.tile), s.extents[1], s.extents[0], text_of(b, l, i, l->count));
    else
        design_line(b->d, "%s", text_of(b, l, 0, l->count));
}

static const char *turned_flag(const Binding *b, const char *tile, const char *flag) {
    const Shape *s = shape_of(b, tile);
    return s && s->turned ? flag : "";
}

/* gemm(a, b, c) */
static void print_gemm(Binding *b, const LibraryLine *l) {
    const char *left = turned_flag(b, l->tokens[2].text, ", trans_a=true"), *right = turned_flag(b, l->tokens[4].text, ", trans_b=true");
    design_line(b->d, "%s%s%s)", text_of(b, l, 0, l->count - 1), left, right);
}

static void print_hint(Binding *b) {
    if (b->hint) design_line(b->d, "%s", text_of(b, b->hint, 0, b->hint->count));
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
    else if (is_factor_load(b, l, 0) || is_factor_load(b, l, 1))
        print_load(b, l, is_factor_load(b, l, 1));
    else if (library_is(l, 0, "store") && library_is(l, 4, s->tensors.data[2].name))
        print_store(b, l);
    else
        design_line(b->d, "%s", text_of(b, l, 0, l->count));
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
    d->limited |= match.sketch->limits.len > 0;
    bind_names(&b);
    design_begin_nest(d, &around, r, &body);
    d->bound = product;
    for (size_t i = 0; i < match.sketch->lines.len && !d->error; i++) print_statement(&b, i);
    return design_end_nest(d, &around, &body);
}
