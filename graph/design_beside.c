/* design: phases of a transposed convolution side by side.
 *
 * A loop over the phases of the results' last axis stores the elements of each at a distance, and so fills every sector of memory in as many parts as there are phases, each of
 * which costs as much as a whole sector and is fetched again to be filled. Here a block makes one phase after the other for the same positions, and stores them as one tile whose last axis is the phase. */
#include "design_internal.h"

#include <string.h>

enum { MOST_BESIDE = 4 }; /* phases whose sums a block holds: those of more would be tiles too small for products */

static DesignSplit *last_split(Design *d) {
    return &d->splits[d->rank - 1];
}

DesignAxis *design_phases_beside(const Design *d, const DesignAxis *rows, int64_t *share) {
    const DesignStyle *style = d->style;
    const DesignSplit *s = d->rank ? &d->splits[d->rank - 1] : NULL;
    int64_t phases;
    if (style->staging != STAGE_PACKED || !style->stages || !s || !s->strided || s->first != rows->var) return NULL;
    if (!aff_is_const(s->size, &phases) || phases < 2 || phases > MOST_BESIDE) return NULL;
    for (*share = 1; *share < phases;) *share *= 2;
    return d->axes[d->outer_count - 1];
}

/* What is made next is of this phase. */
static void set_phase(Design *d, const Aff *phase) {
    AffCtx *c = d->module->affs;
    DesignSplit *s = last_split(d);
    d->beside->var = s->second = phase;
    d->place[d->rank - 1] = aff_add(c, aff_mul(c, s->size, s->first), phase);
}

/* One tile of several, chosen by the index along the axis. */
static DesignTile choose(Design *d, const DesignTile *tiles, int64_t count, DesignAxis *axis) {
    DesignTile index = design_index_tile(d, axis->var, DTYPE_I32), all = index;
    DesignAxis *axes[DESIGN_RANK];
    for (int64_t i = 0; i < count; i++) {
        all.rank = design_union(&all, &tiles[i], axes);
        memcpy(all.axes, axes, sizeof axes);
    }
    const char *at = design_align(d, &index, all.rank, all.axes), *text = design_align(d, &tiles[count - 1], all.rank, all.axes);
    for (int64_t i = count - 1; i-- > 0;) {
        text = arena_printf(d->arena, "where(%s == %lld, %s, %s)", at, (long long)i, design_align(d, &tiles[i], all.rank, all.axes), text);
        all = design_let(d, text, all.rank, all.axes, tiles[i].dtype);
        text = all.text;
    }
    return all;
}

DesignTile design_beside(Design *d, IrValue *v) {
    DesignTile tiles[MOST_BESIDE] = {0};
    DesignAxis *axis = d->beside;
    const Aff *var = axis->var;
    int64_t count = 0;
    aff_is_const(axis->extent, &count);
    axis->walk = WALK_POINT;
    for (int64_t i = 0; i < count && !d->error; i++) {
        set_phase(d, aff_const(d->module->affs, i));
        tiles[i] = design_value(d, v, d->place);
    }
    set_phase(d, var);
    axis->walk = WALK_WHOLE;
    return d->error ? tiles[0] : choose(d, tiles, count, axis);
}
