/* design: how a nest is walked that does one thing. */
#include "design_internal.h"
#include "query.h"

/* Elements of a block's tile. The predictor ranks the styles that are made with them; the numbers were chosen by hand and their
 * neighbours were not measured. */
enum {
    COLUMNS = 256,        /* next to each other, where a block folds the columns of a matrix */
    LEAST_COLUMNS = 16,   /* of those: 64 bytes of f32, two sectors */
    HELD = 8192,          /* that a block holds at once: 32 KiB of f32 */
    LINES = 2048,         /* of an axis whose elements are read again */
    ELEMENTS = 512,       /* of an axis that is only gone through */
    PACK_ELEMENTS = 1024, /* where several axes make one tile */
    ALWAYS = 16,          /* or terms of a sum, in a convolution's block: so few are never too many, as matrix units take 8 or 16 */
};

/* The axis of a window: lines of its elements overlap, and are no rows. */
static bool is_short(const DesignAxis *axis) {
    int64_t extent = INT64_MAX;
    return aff_is_const(axis->extent, &extent) && extent <= DESIGN_SMALL_FOLD;
}

int64_t design_longest(const Design *d, const Aff *extent) {
    int64_t most = case_most(d->module, extent);
    return most > 1 ? most : 1;
}

bool design_is_too_large(Design *d, const DesignAxis *axis, int64_t size, int64_t most) {
    bool asked = d->options && d->options->fitting && d->style->staging == STAGE_PACKED && d->style->stages && d->module->case_count;
    if (!asked || size <= ALWAYS || size <= most * design_longest(d, axis->extent)) return false;
    design_fail(d, "blocks that the cases would leave empty for the most part");
    return true;
}

/* Columns of a tile that holds what is folded and used again. */
static int64_t held_columns(const Design *d) {
    int64_t rows = 1, columns = COLUMNS;
    for (unsigned i = 0; i < d->axis_count; i++)
        if (d->axes[i]->coupled && !d->axes[i]->contiguous && rows < HELD) rows *= design_longest(d, d->axes[i]->extent);
    while (columns > LEAST_COLUMNS && columns * rows > HELD) columns /= 2;
    return columns;
}

/* Rows shorter than a tile's columns: several of them are a tile. */
static void take_rows(const Design *d, DesignStyle *s) {
    const DesignAxis *last = d->axes[d->outer_count - 1];
    int64_t row = 1, extent = design_longest(d, last->extent);
    while (row < extent) row *= 2;
    if (d->style->staging != STAGE_PACKED || last->single || extent < 2 || row * 2 > s->inner) return;
    s->tiles = 2, s->outer = s->inner / row, s->inner = row;
}

/* Where every nest does one thing, its own form says how it is walked: a product in blocks, a fold along rows or columns, and all else in pieces of rows. */
static const DesignStyle *nest_style(Design *d) {
    DesignStyle *s = ARENA_NEW(d->arena, DesignStyle);
    unsigned n = d->outer_count, sides = 0;
    bool folds = d->axis_count > n, along = n && d->axes[n - 1]->contiguous;
    for (unsigned i = n; i < d->axis_count; i++) along &= !d->axes[i]->contiguous || is_short(d->axes[i]);
    for (unsigned i = 0; i < n; i++) sides |= d->axes[i]->product, folds |= d->axes[i]->coupled;
    *s = *d->style;
    s->tiles = 1, s->inner = ELEMENTS, s->outer = 1, s->fold = 0, s->stages = 0;
    if (sides == 3) {
        s->tiles = 2, s->inner = 64, s->outer = 32, s->fold = 32;
    } else if (folds) {
        s->inner = along ? held_columns(d) : 1, s->fold = 1;
    } else {
        for (unsigned i = 0; i < n; i++) d->reused |= d->axes[i]->repeated;
        if (d->reused) s->inner = LINES;
    }
    if (n && sides != 3) take_rows(d, s);
    return s;
}

/* What is only stored in another order: its new rows are columns of what is read. */
static const DesignStyle *pack_style(const Design *d) {
    DesignStyle *s = ARENA_NEW(d->arena, DesignStyle);
    *s = *d->style;
    s->tiles = 2, s->inner = ir_attr_int(d->staging->values[0]->def, "stored", 0), s->outer = PACK_ELEMENTS / s->inner, s->fold = 0;
    return s;
}

/* In styles of convolutions, whatever none is made in. */
static bool is_by_form(const Design *d, const DesignResults *r) {
    if (d->style->staging != STAGE_PACKED) return design_by_form(d->style);
    for (unsigned i = 0; i < r->count; i++)
        if (design_has_packed(d, r->values[i])) return false;
    return true;
}

const DesignStyle *design_nest_style(Design *d, const DesignResults *r) {
    if (d->staging && design_is_stored(d->staging->values[0])) return pack_style(d);
    return is_by_form(d, r) ? nest_style(d) : d->style;
}
