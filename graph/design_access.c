/* design: what is read from tensors. An index that is one axis of the nest times a constant becomes
 * a slice, one from data a gather, everything else a view. */
#include "design_internal.h"

#include <string.h>

/* ---- Index expressions ---- */

typedef struct {
    Design *d;
    bool data;
} Bind;

static const Aff *bound(void *context, const Aff *leaf) {
    Bind *b = context;
    if (leaf->kind != AFF_VAR) return NULL;
    for (size_t i = b->d->bindings.len; i-- > 0;)
        if (b->d->bindings.data[i].arg == leaf->var) return b->d->bindings.data[i].index;
    b->data = true;
    return NULL;
}

const Aff *design_index(Design *d, IrValue *v) {
    Bind b = {.d = d};
    const Aff *e = ir_aff_of(d->module, v);
    e = aff_substitute(d->module->affs, e, bound, &b);
    if (d->facts && e->kind != AFF_OVERFLOW) e = design_parts(d, e);
    return b.data || e->kind == AFF_OVERFLOW ? NULL : e;
}

static const Aff *number_for(void *context, const Aff *leaf) {
    const Aff **pair = context; /* the axis' variable, what stands for it */
    return leaf == pair[0] ? pair[1] : NULL;
}

static const Aff *at_value(Design *d, const Aff *e, const DesignAxis *axis, int64_t value) {
    const Aff *pair[] = {axis->var, aff_const(d->module->affs, value)};
    return aff_substitute(d->module->affs, e, number_for, pair);
}

/* ---- One axis of a slice ---- */

/* index = step * axis + rest, with at most one axis that a tile has. */
typedef struct {
    DesignAxis *axis; /* null: a point */
    int64_t step;
    const Aff *rest;
    bool plain; /* of the form above */
} Access;

static bool in_tiles(const DesignAxis *axis) {
    return axis->walk != WALK_POINT;
}

static Access access_of(Design *d, const Aff *e) {
    AffCtx *c = d->module->affs;
    Access a = {.rest = e, .plain = true};
    for (unsigned i = 0; i < d->axis_count; i++) {
        DesignAxis *axis = d->axes[i];
        if (!in_tiles(axis) || !aff_depends_on(e, axis)) continue;
        a.plain &= !a.axis;
        a.axis = axis;
    }
    if (!a.axis || !a.plain) return a;
    a.rest = at_value(d, e, a.axis, 0);
    const Aff *step = aff_sub(c, at_value(d, e, a.axis, 1), a.rest);
    const Aff *line = aff_is_const(step, &a.step) ? aff_add(c, aff_mul(c, step, a.axis->var), a.rest) : NULL;
    int64_t begin = 0; /* a slice does not begin before 0 */
    bool before = a.axis->walk == WALK_WHOLE && aff_is_const(a.rest, &begin) && begin < 0;
    a.plain = line == e && a.step >= 1 && !before;
    return a;
}

const char *design_slice(Design *d, const DesignAxis *axis) {
    if (axis->walk == WALK_POINT) return axis->name;
    if (axis->walk == WALK_WHOLE) return ":";
    if (axis->slice) return axis->slice;
    return arena_printf(d->arena, "%s*%s:(%s+1)*%s", axis->name, axis->tile, axis->name, axis->tile);
}

static const char *slice_text(Design *d, const Access *a, const Aff *extent) {
    int64_t zero = 1;
    bool from_zero = aff_is_const(a->rest, &zero) && zero == 0;
    const char *rest = design_aff_text(d, a->rest);
    if (!a->axis) return rest;
    const DesignAxis *axis = a->axis;
    bool tiled = axis->walk == WALK_TILE;
    if (from_zero && a->step == 1 && (tiled || axis->extent == extent)) return design_slice(d, axis);
    AffCtx *c = d->module->affs;
    const Aff *size = tiled ? aff_sym(c, axis->tile) : axis->extent;
    const Aff *begin = axis->begin ? axis->begin : tiled ? aff_mul(c, axis->var, size) : aff_const(c, 0);
    const Aff *step = aff_const(c, a->step), *end = aff_add(c, begin, size);
    begin = aff_add(c, aff_mul(c, begin, step), a->rest);
    end = aff_add(c, aff_mul(c, end, step), a->rest);
    const char *text = arena_printf(d->arena, "%s:%s", design_aff_text(d, begin), design_aff_text(d, end));
    return a->step == 1 ? text : arena_printf(d->arena, "%s:%lld", text, (long long)a->step);
}

/* Does the access stay inside the tensor for every index of its axis? */
static bool fits(const Access *a, const Aff *extent) {
    int64_t rest = 1;
    return a->axis && a->step == 1 && aff_is_const(a->rest, &rest) && rest == 0 && a->axis->extent == extent;
}

/* Would a reader take the slice for a tile that is counted in elements by mistake (E0401)? Its begin moves by one for each index of another axis, which has as many
 * indices as the tensor has tiles of this extent. */
static bool looks_like_mistake(Design *d, const Access *a, const Aff *extent) {
    int64_t size, width, count, step;
    if (!a->axis || a->axis->walk != WALK_WHOLE || !aff_is_const(extent, &size) || !aff_is_const(a->axis->extent, &width) || width < 1)
        return false;
    for (unsigned i = 0; i < d->axis_count; i++) {
        const DesignAxis *axis = d->axes[i];
        if (!aff_is_const(axis->extent, &count) || !aff_depends_on(a->rest, axis)) continue;
        const Aff *moved = aff_sub(d->module->affs, at_value(d, a->rest, axis, 1), at_value(d, a->rest, axis, 0));
        if (aff_is_const(moved, &step) && step == 1 && (count == size / width || count == (size + width - 1) / width)) return true;
    }
    return false;
}

/* ---- Loads ---- */

static DesignTile alloc_for(Design *d, unsigned rank, DesignAxis *const *axes, Dtype dtype) {
    DesignTile t = {.text = design_name(d), .rank = rank, .is_tile = true, .is_loaded = true, .dtype = dtype};
    Str shape;
    str_init(&shape);
    for (unsigned i = 0; i < rank; i++) {
        str_printf(&shape, "%s%s", i ? ", " : "", design_extent(d, axes[i]));
        t.axes[i] = axes[i];
    }
    design_line(d, "%s = alloc([%s], dtype=%s)", t.text, shape.data, dtype_name(dtype));
    str_release(&shape);
    return t;
}

/* Lanes behind the end of the axes' last tiles are absent in what is loaded. */
static void set_ends(unsigned count, DesignAxis *const *axes) {
    for (unsigned i = 0; i < count; i++) axes[i]->ends = true;
}

static const char *pad_text(Design *d, const double *pad, Dtype dtype) {
    return pad ? arena_printf(d->arena, ", pad=%s", design_number(d, *pad, dtype)) : "";
}

/* Has what is multiplied lane by lane several axes whose last tile is cut off? Present lanes of two such axes are no interval once others lie between them. */
static bool ends_twice(const Design *d, unsigned rank, DesignAxis *const *axes) {
    unsigned cut = 0;
    for (unsigned i = 0; i < rank; i++) cut += axes[i]->walk == WALK_TILE;
    return d->direct && d->lanes && cut > 1;
}

/* Axes of a view: the nest's that the tensor's index names; or an axis of the tensor, where nothing in its index is tiled. */
typedef struct {
    unsigned count;
    DesignAxis *axes[2 * DESIGN_RANK];
    bool as_it_is[DESIGN_RANK]; /* by axis of the tensor */
} ViewDims;

static bool is_point(const Design *d, const Aff *e) {
    for (unsigned k = 0; k < d->axis_count; k++)
        if (in_tiles(d->axes[k]) && aff_depends_on(e, d->axes[k])) return false;
    return true;
}

static void find_dims(const Design *d, const IrType *type, const Aff *const *index, bool keep, ViewDims *v) {
    unsigned kept = 0;
    v->count = 0;
    for (unsigned i = 0; i < type->rank; i++) {
        v->as_it_is[i] = keep && is_point(d, index[i]);
        kept += v->as_it_is[i];
        for (unsigned k = 0; k < d->axis_count && !v->as_it_is[i]; k++) {
            bool seen = !aff_depends_on(index[i], d->axes[k]);
            for (unsigned j = 0; j < v->count; j++) seen |= v->axes[j] == d->axes[k];
            if (!seen) v->axes[v->count++] = d->axes[k];
        }
    }
    v->count += kept;
}

/* The view over all axes that the index names; where these are too many, over what they are together. Elements outside are then outside of the view, and only zeros
 * stand for them, where they do no harm behind the end of a tile either. */
static bool view_dims(Design *d, const IrType *type, const Aff *const *index, const double *pad, ViewDims *v) {
    unsigned most = d->dry ? DESIGN_RANK : DESIGN_TILE_RANK;
    find_dims(d, type, index, false, v);
    if (v->count <= most) return true;
    find_dims(d, type, index, true, v);
    return v->count <= most && (!pad || (d->in_product && *pad == 0)) ? true : design_fail(d, "a view of more than 8 axes");
}

static DesignTile load_view(Design *d, const char *tensor, const IrType *type, const Aff *const *index, const double *pad) {
    DesignAxis *tile[DESIGN_RANK];
    ViewDims v;
    unsigned rank = 0, dims = 0;
    if (!view_dims(d, type, index, pad, &v)) return (DesignTile){0};
    Str head, slices;
    str_init(&head);
    str_init(&slices);
    const double zero = 0, *behind = NULL;
    for (unsigned i = 0; i < type->rank; i++) {
        if (!v.as_it_is[i]) continue;
        str_printf(&head, "%sa%u: %s", dims ? ", " : "[", i, design_aff_text(d, type->extents[i]));
        str_printf(&slices, "%s%s", dims++ ? ", " : "", design_aff_text(d, index[i]));
        behind = pad;
    }
    for (unsigned i = 0; dims < v.count; i++) {
        str_printf(&head, "%s%s: %s", dims ? ", " : "[", v.axes[i]->name, design_aff_text(d, v.axes[i]->extent));
        str_printf(&slices, "%s%s", dims++ ? ", " : "", design_slice(d, v.axes[i]));
        if (in_tiles(v.axes[i])) tile[rank++] = v.axes[i];
    }
    str_printf(&head, "%s] = %s[", dims ? "" : "[", tensor);
    for (unsigned i = 0; i < type->rank; i++) {
        const char *own = v.as_it_is[i] ? arena_printf(d->arena, "a%u", i) : design_aff_text(d, index[i]);
        str_printf(&head, "%s%s", i ? ", " : "", own);
    }
    str_printf(&head, "]%s%s\n", pad ? " pad " : "", pad ? design_number(d, *pad, type->dtype) : "");
    const char *name = arena_printf(d->arena, "V%u", d->view_count++);
    str_printf(d->views, "    view %s%s", name, head.data);
    DesignTile t = alloc_for(d, rank, tile, type->dtype);
    if (ends_twice(d, rank, tile)) behind = &zero;
    design_line(d, "load(%s[%s] -> %s%s)", name, slices.data, t.text, pad_text(d, behind, type->dtype));
    if (!behind) set_ends(rank, tile);
    str_release(&head);
    str_release(&slices);
    return t;
}

/* Finds out about axes: which run along memory, and along which a line is read again. */
static void note_axes(Design *d, const IrType *type, const Aff *const *index) {
    const Aff *last = type->rank ? index[type->rank - 1] : NULL;
    bool line = last && d->outer_count && aff_depends_on(last, d->axes[d->outer_count - 1]);
    for (unsigned k = 0; last && k < d->axis_count; k++) {
        bool varies = false;
        for (unsigned i = 0; i < type->rank; i++) varies |= aff_depends_on(index[i], d->axes[k]);
        d->axes[k]->contiguous |= aff_depends_on(last, d->axes[k]);
        d->axes[k]->repeated |= line && !varies && k < d->outer_count && !d->axes[k]->single;
    }
}

static bool divides(const Aff *e) {
    if (e->kind == AFF_FLOORDIV || e->kind == AFF_MOD) return true;
    for (unsigned i = 0; i < e->count; i++)
        if (divides(e->args[i])) return true;
    return false;
}

/* Does the index of one element divide? That it lies inside then follows from the graph, and not always from the sketch's text. */
static bool divides_at_point(const IrType *type, unsigned rank, const Aff *const *index) {
    bool found = false;
    for (unsigned i = 0; rank == 0 && i < type->rank; i++) found |= divides(index[i]);
    return found;
}

/* Is it a group that the nest walks by its number (design_phases.c)? A view has the number as an index, so that a block may take several. */
static bool is_group(const Design *d, const Access *a) {
    for (unsigned i = 0; a->axis && i < d->rank; i++)
        if (d->splits[i].grouped && a->axis->var == d->splits[i].second) return true;
    return false;
}

static DesignTile load_declared(Design *d, const char *tensor, const IrType *type, const Aff *const *index, const double *pad) {
    Access a[DESIGN_RANK];
    DesignAxis *axes[DESIGN_RANK];
    unsigned rank = 0;
    bool plain = true, inside = true, cut_fold = false, shifted = false;
    const double zero = 0;
    if (d->dry) note_axes(d, type, index);
    for (unsigned i = 0; i < type->rank; i++) {
        a[i] = access_of(d, index[i]);
        plain &= a[i].plain && !is_group(d, &a[i]);
        inside &= fits(&a[i], type->extents[i]);
        if (!a[i].axis) continue;
        for (unsigned k = 0; k < rank; k++) plain &= axes[k] != a[i].axis;
        axes[rank++] = a[i].axis;
        cut_fold |= a[i].axis->folded && a[i].axis->walk == WALK_TILE;
        shifted |= a[i].axis->walk == WALK_TILE && !fits(&a[i], type->extents[i]);
        if (a[i].axis->folded && !fits(&a[i], type->extents[i])) plain &= a[i].axis->walk == WALK_WHOLE;
        a[i].axis->contiguous |= i + 1 == type->rank;
    }
    if (inside) pad = NULL;
    /* The last phases may lie outside at positions where the first ones do not: one tile holds them all. */
    if (!inside && !pad && d->beside) pad = &zero;
    /* Which lanes are outside may change from turn to turn. Of a factor: the other one is 0 there, too, or the product is stored nowhere. Else where only axes of the
     * output are cut: what is made of these lanes is stored nowhere. */
    bool harmless = d->direct || (d->turns && !cut_fold && dtype_is_float(type->dtype));
    bool packed = d->direct && d->style->staging == STAGE_PACKED;
    if (!pad && plain && ((harmless && shifted) || packed || ends_twice(d, rank, axes))) pad = &zero;
    if (!pad && plain && divides_at_point(type, rank, index)) pad = &zero;
    /* What stands for elements outside also fills the lanes behind the end of a chunk. */
    if (pad && cut_fold) plain &= d->in_product && *pad == 0;
    if (!plain) return load_view(d, tensor, type, index, pad);
    Str slices;
    str_init(&slices);
    bool window = false;
    for (unsigned i = 0; i < type->rank; i++) {
        str_printf(&slices, "%s%s", i ? ", " : "", slice_text(d, &a[i], type->extents[i]));
        window |= looks_like_mistake(d, &a[i], type->extents[i]);
    }
    DesignTile t = alloc_for(d, rank, axes, type->dtype);
    if (window) design_line(d, "@llm_hint(\"sliding_window\")");
    design_line(d, "load(%s[%s] -> %s%s)", tensor, slices.data, t.text, pad_text(d, pad, type->dtype));
    if (!pad || packed) set_ends(rank, axes); /* zeros behind the end of a sum add nothing */
    str_release(&slices);
    return t;
}

/* Rows that are one axis: a slice where the index is one, else a view that says where each of them ends. */
static DesignTile load_merged(Design *d, const DesignMerge *m, const IrType *type, const Aff *const *index) {
    const Aff *merged[DESIGN_RANK];
    bool slices = true;
    design_merged_index(d, m, type, index, merged);
    for (unsigned i = 0; i < m->type->rank; i++) {
        Access a = access_of(d, merged[i]);
        slices &= !a.axis || fits(&a, m->type->extents[i]);
    }
    return slices ? load_declared(d, m->tensor, m->type, merged, NULL) : load_view(d, m->tensor, m->type, merged, NULL);
}

DesignTile design_load(Design *d, const char *tensor, const IrType *type, const Aff *const *index, const double *pad) {
    const DesignMerge *m = design_merge_of(d, tensor);
    if (!m) return load_declared(d, tensor, type, index, pad);
    if (pad) design_fail(d, "elements beside a tensor whose axes are one in the sketch");
    return pad ? (DesignTile){0} : load_merged(d, m, type, index);
}

/* ---- Indices as values ---- */

typedef struct {
    Design *d;
    unsigned rank;
    DesignAxis **axes;
    Dtype dtype;
} Names;

/* The index along an axis, as a tile over all axes of the expression. */
static const Aff *counted(void *context, const Aff *leaf) {
    Names *n = context;
    Design *d = n->d;
    for (unsigned i = 0; i < n->rank; i++) {
        DesignAxis *axis = n->axes[i];
        if (leaf != axis->var) continue;
        Str shape; /* extents of 1 for the axes behind it */
        str_init(&shape);
        for (unsigned k = i; k < n->rank; k++) str_printf(&shape, "%s%s", k > i ? ", " : "", k > i ? "1" : design_extent(d, axis));
        const char *text = arena_printf(d->arena, "iota([%s], axis=0, dtype=%s)", shape.data, dtype_name(n->dtype));
        str_release(&shape);
        if (axis->begin)
            text = arena_printf(d->arena, "%s + %s", text, design_aff_text(d, axis->begin));
        else if (axis->walk == WALK_TILE)
            text = arena_printf(d->arena, "%s + %s * %s", text, axis->name, axis->tile);
        text = design_let(d, text, 1, &axis, n->dtype).text;
        return aff_var(d->module->affs, text, text);
    }
    return NULL;
}

DesignTile design_index_tile(Design *d, const Aff *e, Dtype dtype) {
    DesignAxis *axes[DESIGN_RANK];
    unsigned rank = 0;
    for (unsigned i = 0; i < d->axis_count && rank < DESIGN_RANK; i++)
        if (in_tiles(d->axes[i]) && aff_depends_on(e, d->axes[i])) axes[rank++] = d->axes[i];
    Dtype integer = dtype == DTYPE_I32 ? DTYPE_I32 : DTYPE_I64;
    Names names = {d, rank, axes, integer};
    const Aff *counts = aff_substitute(d->module->affs, e, counted, &names);
    const char *text = design_aff_text(d, counts);
    if (!rank) return (DesignTile){.text = arena_printf(d->arena, "(%s)", text), .dtype = dtype};
    if (counts->kind == AFF_VAR && dtype == integer) {
        DesignTile t = {.text = text, .rank = rank, .is_tile = true, .dtype = dtype};
        memcpy(t.axes, axes, rank * sizeof *axes);
        return t;
    }
    if (dtype != integer) text = arena_printf(d->arena, "cast(%s, dtype=%s)", text, dtype_name(dtype));
    return design_let(d, text, rank, axes, dtype);
}

/* ---- Gathers ---- */

static const char *base_name(Design *d, IrValue *tensor) {
    const char *name = design_source(d, tensor, NULL);
    if (name && design_merge_of(d, name)) design_fail(d, "an index from data of a tensor whose axes are one in the sketch");
    if (name) return name;
    return design_stage(d, tensor) ? design_staged_name(d, tensor) : "";
}

typedef struct {
    Access access;
    DesignTile tile;
    bool from_tile;
} GatherAxis;

static bool shares_axis(const Design *d, const Aff *e, const DesignTile *all) {
    (void)d;
    for (unsigned i = 0; i < all->rank; i++)
        if (aff_depends_on(e, all->axes[i])) return true;
    return false;
}

static void widen(DesignTile *all, const DesignTile *t) {
    DesignAxis *axes[DESIGN_RANK];
    all->rank = design_union(all, t, axes);
    memcpy(all->axes, axes, sizeof axes);
}

/* Which axes are read through index tiles: those from data, and affine ones that share an axis with
 * them or are no slice. `all` gets the axes of the index tiles together. */
static void gather_axes(Design *d, const IrOp *op, GatherAxis *g, DesignTile *all) {
    const IrType *type = op->operands[0]->type;
    for (unsigned i = 0; i < type->rank; i++) {
        const Aff *e = design_index(d, op->operands[i + 1]);
        g[i] = (GatherAxis){.from_tile = !e};
        if (e) g[i].access = access_of(d, e);
        if (e) continue;
        IrValue *v = op->operands[i + 1];
        if (v->def && v->def->opcode == IR_CAST) v = v->def->operands[0];
        g[i].tile = design_value(d, v, NULL);
        widen(all, &g[i].tile);
    }
    for (unsigned i = 0; i < type->rank && !d->error; i++) {
        const Aff *e = g[i].from_tile ? NULL : design_index(d, op->operands[i + 1]);
        if (!e || !g[i].access.axis) continue;
        bool whole = g[i].access.plain && !shares_axis(d, e, all) && (!g[i].access.axis->folded || fits(&g[i].access, type->extents[i]));
        if (whole) continue;
        g[i].from_tile = true;
        g[i].tile = design_index_tile(d, e, DTYPE_I64);
        widen(all, &g[i].tile);
    }
}

/* Where an axis has no element, what is read at an index from data is 0: so do gathers by index tiles read it; a scalar
 * index would leave the lanes absent. */
static bool reads_zero(const IrOp *op, const GatherAxis *g, const DesignTile *all) {
    bool from_data = false;
    for (unsigned i = 0; i < op->operands[0]->type->rank; i++) from_data |= g[i].from_tile;
    return from_data && all->rank == 0;
}

/* Along the axes of its slices, a gather that pads nothing is absent behind the end. */
static void set_ends_of_slices(const IrOp *op, const GatherAxis *g) {
    for (unsigned i = 0; i < op->operands[0]->type->rank; i++)
        if (!g[i].from_tile && g[i].access.axis) g[i].access.axis->ends = true;
}

DesignTile design_gather(Design *d, IrOp *op) {
    static const double ZERO = 0;
    const IrType *type = op->operands[0]->type;
    const IrAttr *pad = ir_attr(op, "pad");
    const char *tensor = base_name(d, op->operands[0]);
    GatherAxis g[DESIGN_RANK] = {0};
    DesignTile all = {0};
    DesignAxis *axes[DESIGN_RANK] = {0};
    unsigned rank = 0;
    bool placed = false, window = false;
    if (d->error) return all;
    gather_axes(d, op, g, &all);
    if (d->error) return all;
    Str slices;
    str_init(&slices);
    for (unsigned i = 0; i < type->rank; i++) {
        const char *text;
        if (g[i].from_tile) {
            text = design_align(d, &g[i].tile, all.rank, all.axes);
            if (text != g[i].tile.text) text = design_let(d, text, all.rank, all.axes, g[i].tile.dtype).text;
            for (unsigned k = 0; !placed && k < all.rank && rank < DESIGN_RANK; k++) axes[rank++] = all.axes[k];
            placed = true;
        } else {
            text = slice_text(d, &g[i].access, type->extents[i]);
            window |= looks_like_mistake(d, &g[i].access, type->extents[i]);
            if (g[i].access.axis && rank < DESIGN_RANK) axes[rank++] = g[i].access.axis;
        }
        str_printf(&slices, "%s%s", i ? ", " : "", text);
    }
    DesignTile t = alloc_for(d, rank, axes, type->dtype);
    const double *number = pad ? &pad->number : reads_zero(op, g, &all) ? &ZERO : NULL;
    if (window) design_line(d, "@llm_hint(\"sliding_window\")");
    design_line(d, "load(%s[%s] -> %s%s)", tensor, slices.data, t.text, pad_text(d, number, type->dtype));
    if (!number) set_ends_of_slices(op, g);
    str_release(&slices);
    return t;
}
