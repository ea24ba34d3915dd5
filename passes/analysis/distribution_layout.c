/* From a linear layout to a distribution: runs of register bits become fragment dimensions, lane and
 * warp bits become terms. */
#include "distribution_make.h"

enum { MAX_RUNS = DIST_MAX_DIMS };

typedef struct {
    unsigned count;
    DistSub runs[MAX_RUNS]; /* fastest first */
} Runs;

static int basis_axis(const Layout *l, LayoutDim dim, unsigned bit, int64_t *stride) {
    for (unsigned a = 0; a < l->rank; a++) {
        *stride = l->bases[dim][bit * l->rank + a];
        if (*stride) return (int)a;
    }
    return -1;
}

static void add_run(Runs *r, unsigned axis, int64_t extent, int64_t stride) {
    DistSub *last = r->count ? &r->runs[r->count - 1] : NULL;
    if (last && last->axis == axis && last->stride * last->extent == stride)
        last->extent *= extent;
    else if (r->count < MAX_RUNS)
        r->runs[r->count++] = (DistSub){extent, axis, stride};
}

static Runs register_runs(const Layout *l) {
    Runs r = {0};
    int64_t stride;
    for (unsigned bit = 0; bit < l->in_bits[LAYOUT_REGISTER]; bit++) {
        int axis = basis_axis(l, LAYOUT_REGISTER, bit, &stride);
        if (axis >= 0) add_run(&r, (unsigned)axis, 2, stride);
    }
    for (unsigned i = l->repeat_count; i-- > 0;) {
        unsigned axis = l->repeat_order[i];
        add_run(&r, axis, l->repeat[axis], (int64_t)1 << l->bits[axis]);
    }
    return r;
}

/* The accumulator of an m16n8 atom: pairs of columns, then rows 8 apart, are one access of four. */
static bool is_mma_accumulator(const Layout *l, const Runs *r) {
    return l->rank >= 2 && r->count >= 2 && r->runs[0].extent == 2 && r->runs[0].stride == 1 && r->runs[1].extent == 2 &&
           r->runs[1].stride == 8 && r->runs[1].axis != r->runs[0].axis;
}

/* The runs along `axis` beyond the first two, slowest first. */
static void add_blocks(DistDim *dim, const Runs *r, unsigned axis) {
    for (unsigned i = r->count; i-- > 2;)
        if (r->runs[i].axis == axis) {
            dim->subs[dim->sub_count++] = r->runs[i];
            dim->extent *= r->runs[i].extent;
        }
}

/* A dimension for each leading axis; blocks of rows; blocks of columns with the atom's four values. */
static void add_accumulator_dims(Dist *d, const Runs *r) {
    DistDim rows = {.extent = 1}, columns = {.extent = 1};
    for (unsigned a = 0; a < d->rank; a++) {
        if (a == r->runs[0].axis || a == r->runs[1].axis) continue;
        DistDim lead = {.extent = 1};
        add_blocks(&lead, r, a);
        d->dims[d->dim_count++] = lead;
    }
    add_blocks(&rows, r, r->runs[1].axis);
    add_blocks(&columns, r, r->runs[0].axis);
    columns.subs[columns.sub_count++] = r->runs[1];
    columns.subs[columns.sub_count++] = r->runs[0];
    columns.extent *= 4;
    d->dims[d->dim_count++] = rows;
    d->dims[d->dim_count++] = columns;
}

static void add_terms(Dist *d, const Layout *l, LayoutDim dim, DistSource source) {
    int64_t stride;
    for (unsigned bit = 0; bit < l->in_bits[dim]; bit++) {
        int axis = basis_axis(l, dim, bit, &stride);
        if (axis >= 0 && source == DIST_BLOCK) d->used_blocks |= (int64_t)1 << bit;
        if (axis < 0) {
            if (source != DIST_BLOCK) *(source == DIST_LANE ? &d->free_lanes : &d->free_warps) |= (int64_t)1 << bit;
            continue;
        }
        DistTerm *last = d->term_count ? &d->terms[d->term_count - 1] : NULL;
        if (last && last->source == source && last->axis == (unsigned)axis && last->stride * (last->mask + 1) == stride &&
            (last->mask + 1) << last->shift == (int64_t)1 << bit)
            last->mask = last->mask * 2 + 1;
        else
            d->terms[d->term_count++] = (DistTerm){source, bit, 1, (unsigned)axis, stride};
    }
}

bool dist_can_read(const Layout *l) {
    LayoutLoop loops[LAYOUT_LOOP_LIMIT];
    LayoutTerm terms[LAYOUT_TERM_LIMIT];
    size_t count, axes;
    if (l->is_memory || l->rank > DIST_MAX_RANK) return false;
    if (!layout_register_dims(l, UINT32_MAX, loops, &count) || count > DIST_MAX_DIMS + LAYOUT_BITS_LIMIT) return false;
    for (size_t i = 0; i < count; i++) {
        axes = 0;
        for (unsigned a = 0; a < l->rank; a++) axes += loops[i].stride[a] != 0;
        if (axes > 1) return false;
    }
    return layout_lane_terms(l, terms, &count) && register_runs(l).count < MAX_RUNS;
}

void dist_from_layout(Dist *d, const Layout *l) {
    for (unsigned a = 0; a < l->rank; a++) d->padded[a] = l->extents[a];
    Runs r = register_runs(l);
    if (is_mma_accumulator(l, &r)) {
        add_accumulator_dims(d, &r);
    } else {
        for (unsigned i = r.count; i-- > 0;) d->dims[d->dim_count++] = (DistDim){r.runs[i].extent, 1, {r.runs[i]}};
    }
    if (!d->dim_count) d->dims[d->dim_count++] = (DistDim){.extent = 1};
    add_terms(d, l, LAYOUT_LANE, DIST_LANE);
    add_terms(d, l, LAYOUT_WARP, DIST_WARP);
    add_terms(d, l, LAYOUT_BLOCK, DIST_BLOCK);
    /* A tile without axes has a layout without bits: every thread holds its one lane. */
    if (!l->rank) {
        d->free_lanes = 31;
        d->free_warps = -1;
    }
}
