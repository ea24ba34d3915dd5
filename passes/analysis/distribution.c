#include "distribution.h"

#include "distribution_make.h"

/* A tile that lies wholly in one thread, row-major. */
static Dist row_major(const IrType *type) {
    Dist d = {.rank = type->rank};
    for (unsigned a = 0; a < type->rank; a++) {
        int64_t extent = ir_type_extent(type, a);
        d.extents[a] = d.padded[a] = extent;
        d.dims[a] = (DistDim){extent, 1, {{extent, a, 1}}};
    }
    d.dim_count = type->rank;
    if (!d.dim_count) d.dims[d.dim_count++] = (DistDim){.extent = 1};
    return d;
}

Dist dist_of(const IrType *type) {
    Dist d;
    if (!type->layout) return row_major(type);
    d = (Dist){.rank = type->rank};
    for (unsigned a = 0; a < type->rank; a++) d.extents[a] = ir_type_extent(type, a);
    dist_from_layout(&d, type->layout);
    return d;
}

const IrType *dist_frag_type(IrModule *m, const Dist *dist, Dtype dtype) {
    int64_t extents[DIST_MAX_DIMS];
    for (unsigned i = 0; i < dist->dim_count; i++) extents[i] = dist->dims[i].extent;
    return ir_type_frag(m, dtype, dist->dim_count, extents);
}

bool dist_equal(const Dist *a, const Dist *b) {
    if (a->rank != b->rank || a->dim_count != b->dim_count || a->term_count != b->term_count) return false;
    for (unsigned i = 0; i < a->rank; i++)
        if (a->extents[i] != b->extents[i]) return false;
    for (unsigned i = 0; i < a->dim_count; i++) {
        const DistDim *p = &a->dims[i], *q = &b->dims[i];
        if (p->extent != q->extent || p->sub_count != q->sub_count) return false;
        for (unsigned s = 0; s < p->sub_count; s++)
            if (p->subs[s].extent != q->subs[s].extent || p->subs[s].axis != q->subs[s].axis || p->subs[s].stride != q->subs[s].stride)
                return false;
    }
    for (unsigned i = 0; i < a->term_count; i++) {
        const DistTerm *p = &a->terms[i], *q = &b->terms[i];
        if (p->source != q->source || p->shift != q->shift || p->mask != q->mask || p->axis != q->axis || p->stride != q->stride)
            return false;
    }
    return true;
}

int64_t dist_vector(const Dist *dist, unsigned axis, int64_t limit) {
    const DistDim *last = &dist->dims[dist->dim_count - 1];
    if (!last->sub_count) return 1;
    const DistSub *sub = &last->subs[last->sub_count - 1];
    if (sub->axis != axis || sub->stride != 1) return 1;
    int64_t width = 1;
    while (width * 2 <= limit && sub->extent % (width * 2) == 0) width *= 2;
    return width;
}

static unsigned kept_axis(unsigned axis, uint32_t axes, bool keepdim) {
    if (keepdim) return axis;
    unsigned kept = 0;
    for (unsigned a = 0; a < axis; a++) kept += !(axes >> a & 1);
    return kept;
}

Dist dist_reduce(const Dist *dist, uint32_t axes, bool keepdim) {
    Dist d = {.free_lanes = dist->free_lanes, .free_warps = dist->free_warps, .used_blocks = dist->used_blocks};
    for (unsigned a = 0; a < dist->rank; a++) {
        bool gone = axes >> a & 1;
        if (gone && !keepdim) continue;
        d.extents[d.rank] = gone ? 1 : dist->extents[a];
        d.padded[d.rank++] = gone ? 1 : dist->padded[a];
    }
    for (unsigned i = 0; i < dist->dim_count; i++) {
        DistDim dim = {.extent = 1};
        for (unsigned s = 0; s < dist->dims[i].sub_count; s++) {
            DistSub sub = dist->dims[i].subs[s];
            if (axes >> sub.axis & 1) continue;
            sub.axis = kept_axis(sub.axis, axes, keepdim);
            dim.subs[dim.sub_count++] = sub;
            dim.extent *= sub.extent;
        }
        if (dim.sub_count) d.dims[d.dim_count++] = dim;
    }
    if (!d.dim_count) d.dims[d.dim_count++] = (DistDim){.extent = 1};
    for (unsigned i = 0; i < dist->term_count; i++) {
        DistTerm term = dist->terms[i];
        if (axes >> term.axis & 1) {
            if (term.source == DIST_BLOCK)
                d.used_blocks &= ~(term.mask << term.shift);
            else
                *(term.source == DIST_LANE ? &d.free_lanes : &d.free_warps) |= term.mask << term.shift;
            continue;
        }
        term.axis = kept_axis(term.axis, axes, keepdim);
        d.terms[d.term_count++] = term;
    }
    return d;
}
