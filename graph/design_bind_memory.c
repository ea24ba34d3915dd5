/* design: what a sketch of the library loads and stores: factors that may lie transposed, and the maps behind the product. */
#include "design_bind_internal.h"
#include "design_internal.h"

#include <string.h>

/* ---- Slices ---- */

/* What stands in the brackets that open at `i`, by axis of the file's tensor. */
static size_t read_slices(const Binding *b, const LibraryLine *l, size_t i, const LibraryTensor *t, BindSlice *slices) {
    for (unsigned k = 0; k < t->rank; k++) {
        size_t end = library_item_end(l, i + 1), colon = i + 1;
        while (colon < end && !library_is(l, colon, ":")) colon++;
        const LibraryAxis *a = bind_axis_named(b->match, t->axes[k]);
        slices[k] = (BindSlice){0};
        if (a->count) slices[k].text = bind_text_of(b, l, i + 1, end);
        if (a->count && colon < end) slices[k].begin = bind_text_of(b, l, i + 1, colon);
        i = end;
    }
    return i;
}

const BindShape *bind_shape_of(const Binding *b, const char *tile) {
    for (size_t i = b->shapes.len; i-- > 0;)
        if (strcmp(b->shapes.data[i].tile, tile) == 0) return &b->shapes.data[i];
    return NULL;
}

/* One of several axes that a loop goes through together. */
static const char *point_of(Design *d, const LibraryAxis *a, unsigned which, const char *text) {
    const Aff *inner = aff_const(d->module->affs, 1);
    for (unsigned i = which + 1; i < a->count; i++) inner = aff_mul(d->module->affs, inner, a->extents[i]);
    if (which + 1 < a->count) text = arena_printf(d->arena, "%s // %s", text, bind_in_parentheses(d, inner));
    if (which)
        text = arena_printf(d->arena, "%s%% %s",
                            strchr(text, ' ') ? arena_printf(d->arena, "(%s) ", text) : arena_printf(d->arena, "%s ", text),
                            bind_in_parentheses(d, a->extents[which]));
    return text;
}

/* ---- Loads of factors ---- */

/* The axis of the file's tensor that the factor's axis belongs to, and which one of it. */
static unsigned tensor_axis(const Binding *b, unsigned side, unsigned axis, unsigned *which) {
    const LibraryTensor *t = &b->match->sketch->tensors.data[side];
    for (unsigned k = 0; k < t->rank; k++) {
        const LibraryAxis *a = bind_axis_named(b->match, t->axes[k]);
        for (*which = 0; *which < a->count; ++*which)
            if (a->at[side][*which] == axis) return k;
    }
    return 0;
}

bool bind_is_factor_load(const Binding *b, const LibraryLine *l, unsigned side) {
    return library_is(l, 0, "load") && library_is(l, 2, b->match->sketch->tensors.data[side].name);
}

/* Do the last two axes of the file's tensor lie the other way round? */
static bool lies_turned(const Binding *b, unsigned side) {
    const BindFactor *f = &b->factors[side];
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

bool bind_is_multiplied_turned(const Binding *b, size_t at) {
    const LibrarySketch *s = b->match->sketch;
    const char *tile = s->lines.data[at].tokens[0].text;
    bool loaded = false;
    for (size_t i = at + 1; i < s->lines.len; i++) {
        const LibraryLine *l = &s->lines.data[i];
        if (!mentions(l, tile)) continue;
        if (loaded) return library_is(l, 0, "gemm");
        for (unsigned side = 0; side < 2; side++) loaded |= bind_is_factor_load(b, l, side) && lies_turned(b, side);
        if (!loaded) return false;
    }
    return false;
}

void bind_print_load(Binding *b, const LibraryLine *l, unsigned side) {
    Design *d = b->d;
    const BindFactor *f = &b->factors[side];
    const LibraryTensor *t = &b->match->sketch->tensors.data[side];
    BindSlice slices[LIBRARY_RANK];
    size_t end = read_slices(b, l, 3, t, slices);
    const char *tile = l->tokens[end + 2].text, *to = bind_name_of(b, tile), *rest = bind_text_of(b, l, end + 3, l->count);
    unsigned last = 0;
    bool turned = false;
    Str text;
    str_init(&text);
    for (unsigned i = 0; i < f->rank; i++) {
        unsigned which = 0, k = tensor_axis(b, side, f->axes[i], &which);
        const LibraryAxis *a = bind_axis_named(b->match, t->axes[k]);
        bool one = slices[k].begin || (side == 0 && a == bind_rows_of(b) && a->count > 1);
        if (one && which) continue; /* of an axis that is one with those before */
        if (slices[k].begin) turned |= k < last, last = k;
        str_printf(&text, "%s%s", text.len ? ", " : "", one ? slices[k].text : point_of(d, a, which, slices[k].text));
    }
    const BindShape *shape = bind_shape_of(b, tile);
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

static DesignAxis *add_axis(Binding *b, const LibraryAxis *a, const BindSlice *s, const char *extent) {
    Design *d = b->d;
    DesignAxis *added = design_axis_add(d, bind_whole_extent(d, a), false), *axis = ARENA_NEW(d->arena, DesignAxis);
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

void bind_print_store(Binding *b, const LibraryLine *l) {
    Design *d = b->d;
    const LibraryTensor *t = &b->match->sketch->tensors.data[2];
    const BindShape *shape = bind_shape_of(b, l->tokens[2].text);
    const Aff *index[DESIGN_RANK] = {0};
    BindSlice slices[LIBRARY_RANK];
    DesignAxis *axes[DESIGN_RANK];
    size_t end = read_slices(b, l, 5, t, slices);
    unsigned rank = 0;
    memset(d->axes, 0, sizeof d->axes);
    d->known.len = d->axis_count = 0;
    for (unsigned k = 0; k < t->rank; k++) {
        const LibraryAxis *a = bind_axis_named(b->match, t->axes[k]);
        DesignAxis *axis = a->count ? add_axis(b, a, &slices[k], slices[k].begin && shape ? shape->extents[rank] : NULL) : NULL;
        if (axis) set_index(d, a, axis, index);
        if (axis && axis->walk == WALK_TILE) axes[rank++] = axis;
    }
    d->outer_count = d->axis_count;
    make_known(b, bind_name_of(b, l->tokens[2].text), index);
    for (unsigned i = 0; i < b->results->count && !d->error; i++) {
        IrValue *v = b->results->values[i];
        DesignTile tile = design_value(d, v, index);
        if (!d->error) tile = design_storable(d, tile, v->type, rank, axes);
        if (d->error) return;
        design_line(d, "store(%s -> %s[%s]%s", tile.text, b->results->names[i], result_slices(d), bind_text_of(b, l, end + 1, l->count));
    }
}
