/* design: reductions, and the loops over folded axes. */
#include "design_fold_internal.h"
#include "design_internal.h"
#include "query.h"

#include <string.h>

/* ---- Folded axes ---- */

enum { TURNS_OF_PART = 1024 }; /* of a loop, whose terms are added in order */
enum { MOST_OF_SUM = 2 };      /* times as many terms as a sum has */
enum { MOST_PACKED_TAPS = 512 };
enum { MOST_TAPS = 32 }; /* the same of a product that is summed along a longer axis too: a matrix product for each */

/* Few channels are walked in chunks as many are, and not index by index as the taps of a window. */
static DesignWalk fold_walk(const Design *d, const DesignAxis *axis, const DesignFold *f) {
    int64_t extent = INT64_MAX, chunk = d->style->fold, most = d->style->staging == STAGE_PACKED ? MOST_PACKED_TAPS : MOST_TAPS;
    int64_t longest = f->role == FOLD_TAP ? INT64_MAX : f->longest;
    if (f->role != FOLD_CHANNEL) aff_is_const(axis->extent, &extent);
    if (d->dry || !chunk || axis->coupled) return WALK_WHOLE;
    if (extent <= DESIGN_SMALL_FOLD || (chunk > 1 && extent <= most && extent < longest)) return WALK_POINT;
    if (chunk == 1) return axis->contiguous ? WALK_WHOLE : WALK_POINT;
    return extent <= chunk ? WALK_WHOLE : WALK_TILE;
}

DesignAxis *design_fold_axis(Design *d, const Aff *extent, const Aff *const *index, unsigned count, const DesignFold *f, bool rigid) {
    for (unsigned i = 0; i < d->axis_count; i++) {
        DesignAxis *axis = d->axes[i];
        bool taken = axis->walk != WALK_WHOLE || axis->extent != extent || (f->product && !axis->folded);
        for (unsigned k = 0; k < f->count; k++) taken |= f->axes[k] == axis;
        for (unsigned k = 0; k < count && !taken; k++) taken |= index[k] && aff_depends_on(index[k], axis);
        if (taken) continue;
        axis->coupled = true;
        return axis;
    }
    DesignAxis *axis = design_axis_add(d, extent, true);
    if (!axis) return NULL;
    axis->walk = rigid ? WALK_WHOLE : fold_walk(d, axis, f);
    if (axis->walk == WALK_TILE) axis->tile = design_constexpr(d, "F", d->style->fold);
    if (axis->walk == WALK_TILE) design_is_too_large(d, axis, d->style->fold, MOST_OF_SUM);
    return axis;
}

/* ---- Folding ---- */

int design_axis_position(const DesignTile *t, const DesignAxis *axis) {
    for (unsigned i = 0; i < t->rank; i++)
        if (t->axes[i] == axis) return (int)i;
    return -1;
}

/* How a sketch writes the reduction of a tile, the update of an accumulator (null: there is none) and where that begins. */
static const struct {
    const char *reduce, *update, *identity;
} kinds[] = {
    [IR_KIND_ADD] = {"sum", "%s = %s + %s", "0"},
    [IR_KIND_MEAN] = {"sum", "%s = %s + %s", "0"},
    [IR_KIND_MUL] = {"prod", "%s = %s * %s", "1"},
    [IR_KIND_MAX] = {"reduce_max", "%s = max(%s, %s)", "-inf"},
    [IR_KIND_MIN] = {"reduce_min", "%s = min(%s, %s)", "inf"},
    [IR_KIND_OR] = {"any", NULL, NULL},
    [IR_KIND_AND] = {"all", NULL, NULL},
    [IR_KIND_LINEAR] = {NULL, NULL, NULL},
};

DesignTile design_spread(Design *d, const DesignTile *t, DesignAxis *axis) {
    DesignAxis *axes[DESIGN_RANK];
    unsigned rank = 0;
    Str shape;
    if (t->rank == DESIGN_RANK) {
        design_fail(d, "more axes than a tile may have");
        return *t;
    }
    str_init(&shape);
    for (; rank < t->rank; rank++) {
        axes[rank + 1] = t->axes[rank];
    }
    axes[0] = axis;
    rank++;
    for (unsigned i = 0; i < rank; i++) str_printf(&shape, "%s%s", i ? ", " : "", design_extent(d, axes[i]));
    const char *text = arena_printf(d->arena, "broadcast(%s, [%s])", t->text, shape.data);
    str_release(&shape);
    return design_let(d, text, rank, axes, t->dtype);
}

/* Where nothing that was loaded says where the axis ends, what lies behind it adds nothing. */
static DesignTile end_tile(Design *d, DesignTile t, DesignAxis *axis, IrKind kind) {
    if (axis->walk != WALK_TILE || axis->ends) return t;
    DesignTile place = design_index_tile(d, axis->var, DTYPE_I64);
    const char *at = design_align(d, &place, t.rank, t.axes), *extent = design_aff_text(d, axis->extent);
    const char *text = arena_printf(d->arena, "where((%s) < %s, %s, %s)", at, extent, t.text, kinds[kind].identity);
    return design_let(d, text, t.rank, t.axes, t.dtype);
}

/* Folds the tile along the axes that are tiled; the others are loops. */
static DesignTile fold_tile(Design *d, DesignTile t, const DesignFold *f) {
    for (unsigned i = f->count; i-- > 0 && !d->error;) { /* rows first */
        DesignAxis *axis = f->axes[i];
        if (axis->walk == WALK_POINT) continue;
        if (design_axis_position(&t, axis) < 0) t = design_spread(d, &t, axis);
        t = end_tile(d, t, axis, f->kind);
        int at = design_axis_position(&t, axis);
        DesignAxis *left[DESIGN_RANK];
        unsigned rank = 0;
        for (unsigned k = 0; k < t.rank; k++)
            if ((int)k != at) left[rank++] = t.axes[k];
        const char *text = arena_printf(d->arena, "%s(%s, axis=%d)", kinds[f->kind].reduce, t.text, at);
        t = design_let(d, text, rank, left, t.dtype);
    }
    return t;
}

static DesignTile divide_by_count(Design *d, DesignTile t, const DesignFold *f) {
    const Aff *count = aff_const(d->module->affs, 1);
    for (unsigned i = 0; i < f->count; i++) count = aff_mul(d->module->affs, count, f->axes[i]->extent);
    const char *text = arena_printf(d->arena, "%s / (%s)", t.text, design_aff_text(d, count));
    return design_let(d, text, t.rank, t.axes, t.dtype);
}

static bool is_loop(const DesignAxis *axis) {
    return axis->walk != WALK_WHOLE;
}

bool design_has_loops(const DesignFold *f) {
    for (unsigned i = 0; i < f->count; i++)
        if (is_loop(f->axes[i])) return true;
    return false;
}

/* ---- Accumulators ---- */

static const char *shape_text(Design *d, unsigned rank, DesignAxis *const *axes) {
    Str shape;
    str_init(&shape);
    for (unsigned i = 0; i < rank; i++) str_printf(&shape, "%s%s", i ? ", " : "", design_extent(d, axes[i]));
    const char *text = arena_strdup(d->arena, shape.data);
    str_release(&shape);
    return text;
}

Dtype design_accumulator(Dtype dtype) {
    return dtype_is_float(dtype) && dtype != DTYPE_F64 ? DTYPE_F32 : dtype;
}

Dtype design_product_accumulator(Dtype dtype) {
    return dtype_is_float(dtype) || dtype_bits(dtype) > 32 ? design_accumulator(dtype) : DTYPE_I32;
}

DesignTile design_new_accumulator(Design *d, unsigned rank, DesignAxis *const *axes, Dtype dtype, const char *init) {
    DesignTile acc = {.text = design_name(d), .rank = rank, .is_tile = true, .dtype = design_accumulator(dtype)};
    for (unsigned i = 0; i < rank; i++) acc.axes[i] = axes[i];
    design_line(d, "%s = alloc([%s], dtype=%s, init=%s)", acc.text, shape_text(d, rank, axes), dtype_name(acc.dtype), init);
    return acc;
}

double design_most_turns(const Design *d, const DesignFold *f, bool turns) {
    double most = 0;
    for (size_t i = 0; d->vectors && i < d->module->case_count; i++) {
        double terms = 1;
        for (unsigned k = 0; k < f->count; k++) {
            int64_t extent;
            bool known = aff_eval(f->axes[k]->extent, case_symbol, &d->module->cases[i], &extent);
            if (known && turns && f->axes[k]->walk == WALK_WHOLE) continue;
            if (known) terms *= (double)extent / (double)(turns && f->axes[k]->walk == WALK_TILE ? d->style->fold : 1);
        }
        most = terms > most ? terms : most;
    }
    return most;
}

const char *design_parts_of(Design *d, const DesignFold *f, Dtype dtype) {
    if (dtype != DTYPE_F32 || design_most_turns(d, f, true) <= TURNS_OF_PART) return NULL;
    return design_constexpr(d, "P", TURNS_OF_PART);
}

/* ---- Ranges of sums ---- */

/* The output's axis that an index is, if it is nothing else. */
static const DesignAxis *axis_at(const Design *d, const Aff *index) {
    for (unsigned i = 0; i < d->outer_count; i++)
        if (!d->axes[i]->single && d->axes[i]->var == index) return d->axes[i];
    return NULL;
}

void design_set_range(const Design *d, const IrOp *op, const Aff *const *index, DesignAxis *axis) {
    const IrAttr *low = ir_attr(op, "low"), *high = ir_attr(op, "high");
    axis->low = low ? axis_at(d, index[low->ints[0]]) : NULL;
    axis->high = high ? axis_at(d, index[high->ints[0]]) : NULL;
    if (axis->low) axis->low_offset = low->ints[1];
    if (axis->high) axis->high_offset = high->ints[1];
}

/* Where the tile of the axis begins or, with `end`, what lies behind it; null: it is the whole axis. */
static const Aff *edge_of(Design *d, const DesignAxis *axis, bool end) {
    AffCtx *c = d->module->affs;
    if (!axis || axis->walk == WALK_WHOLE) return NULL;
    const Aff *at = end ? aff_add(c, axis->var, aff_const(c, 1)) : axis->var;
    return axis->walk == WALK_TILE ? aff_mul(c, at, aff_sym(c, axis->tile)) : at;
}

/* The turns of the loop along a folded axis in which a term is not 0: from `first` (null: 0), up to `count`. */
typedef struct {
    const char *first, *count;
} Range;

static Range range_of(Design *d, const DesignAxis *axis) {
    AffCtx *c = d->module->affs;
    const Aff *low = edge_of(d, axis->low, false), *high = edge_of(d, axis->high, true);
    bool tiled = axis->walk == WALK_TILE;
    const char *first = "0", *count = design_aff_text(d, axis->turns && !tiled ? axis->turns : axis->extent);
    if (tiled) count = arena_printf(d->arena, "ceil(%s, %s)", count, axis->tile);
    if (low) {
        low = aff_add(c, low, aff_const(c, axis->low_offset));
        first = design_aff_text(d, axis->low_offset < 0 ? aff_max(c, low, aff_const(c, 0)) : low);
        if (tiled) first = arena_printf(d->arena, "(%s) // %s", first, axis->tile);
    }
    if (high) {
        const char *end = design_aff_text(d, aff_add(c, high, aff_const(c, axis->high_offset)));
        if (tiled) end = arena_printf(d->arena, "ceil(%s, %s)", end, axis->tile);
        count = arena_printf(d->arena, "min(%s, %s)", count, end);
    }
    return (Range){low || high || tiled ? first : NULL, count};
}

static void open_loop(Design *d, const char *name, const char *first, const char *end) {
    if (first)
        design_line(d, "for %s in range(%s, %s):", name, first, end);
    else
        design_line(d, "for %s in range(%s):", name, end);
    d->depth++;
}

/* How often the loop along the axis runs, where that is one number. */
static bool has_turns(const DesignAxis *axis, int64_t *turns) {
    return !axis->low && !axis->high && axis->walk == WALK_POINT && aff_is_const(axis->turns ? axis->turns : axis->extent, turns) &&
           *turns > 0;
}

/* Loops whose turns are those of one: of `first` (null: none), and inside of it those that run a known number of times. */
typedef struct {
    const DesignAxis *first, *even[2 * DESIGN_RANK];
    int64_t turns[2 * DESIGN_RANK], inside; /* of each; of all of them together */
    unsigned count;
} Joined;

/* Loops that end by the place of the block stay outside. */
static Joined joined_loops(Design *d, const DesignFold *f, DesignLoops *l) {
    Joined j = {.inside = 1};
    for (unsigned i = 0; i < f->count; i++) {
        const DesignAxis *axis = f->axes[i];
        if (!is_loop(axis)) continue;
        if (has_turns(axis, &j.turns[j.count])) {
            j.inside *= j.turns[j.count];
            j.even[j.count++] = axis;
        } else if (!j.first && !axis->turns && !axis->low && !axis->high) {
            j.first = axis;
        } else {
            Range r = range_of(d, axis);
            open_loop(d, axis->name, r.first, r.count);
            l->opened++;
        }
    }
    return j;
}

static const char *quotient(Design *d, const char *turn, int64_t by) {
    return by > 1 ? arena_printf(d->arena, "%s // %lld", turn, (long long)by) : turn;
}

/* From the turn of the joined loop the index along each axis. */
static void print_indices(Design *d, const Joined *j, const char *turn) {
    int64_t inside = j->inside;
    if (j->first) design_line(d, "%s = %s", j->first->name, quotient(d, turn, inside));
    for (unsigned i = 0; i < j->count; i++) {
        inside /= j->turns[i];
        const char *whole = quotient(d, turn, inside);
        if (j->turns[i] == 1)
            whole = "0";
        else if (i || j->first)
            whole = arena_printf(d->arena, "%s %% %lld", whole, (long long)j->turns[i]);
        design_line(d, "%s = %s", j->even[i]->name, whole);
    }
}

/* One loop brings the factors of all turns ahead, which several would do anew for each turn around them. */
static DesignLoops open_joined(Design *d, const DesignFold *f, int64_t stages, DesignTile acc) {
    DesignLoops l = {.acc = acc, .inner = acc};
    Joined j = joined_loops(d, f, &l);
    if (!j.count && !j.first) return l;
    const DesignAxis *only = j.count ? j.even[0] : j.first;
    bool one = j.count + (j.first != NULL) == 1;
    const char *turn = one ? only->name : arena_printf(d->arena, "q%s", only->name);
    const char *count = arena_printf(d->arena, "%lld", (long long)j.inside);
    if (j.first) count = j.inside > 1 ? arena_printf(d->arena, "%s * %s", range_of(d, j.first).count, count) : range_of(d, j.first).count;
    design_line(d, "@llm_hint(\"pipeline\", stages=%lld)", (long long)stages);
    open_loop(d, turn, NULL, count);
    l.opened++;
    if (!one) print_indices(d, &j, turn);
    return l;
}

DesignLoops design_open_loops(Design *d, const DesignFold *f, int64_t stages, DesignTile acc, const char *parts) {
    if (stages && !parts && d->style->staging == STAGE_PACKED) return open_joined(d, f, stages, acc);
    DesignLoops l = {.acc = acc, .inner = acc};
    unsigned loops = 0, opened = 0;
    for (unsigned i = 0; i < f->count; i++) loops += is_loop(f->axes[i]);
    for (unsigned i = 0; i < f->count; i++) {
        const DesignAxis *axis = f->axes[i];
        if (!is_loop(axis)) continue;
        Range r = range_of(d, axis);
        bool last = ++opened == loops;
        if (parts && last) {
            const char *part = arena_printf(d->arena, "q%s", axis->name);
            design_line(d, "for %s in range(%s, %s, %s):", part, r.first ? r.first : "0", r.count, parts);
            d->depth++;
            l.inner = design_new_accumulator(d, acc.rank, acc.axes, acc.dtype, "0");
            r = (Range){part, arena_printf(d->arena, "min(%s + %s, %s)", part, parts, r.count)};
            l.in_part = 1;
        }
        if (stages && last) design_line(d, "@llm_hint(\"pipeline\", stages=%lld)", (long long)stages);
        open_loop(d, axis->name, r.first, r.count);
    }
    l.opened = opened;
    return l;
}

void design_close_loops(Design *d, const DesignLoops *l) {
    if (l->in_part) {
        d->depth--;
        design_line(d, "%s += %s", l->acc.text, l->inner.text);
    }
    d->depth -= l->opened;
}

DesignTile design_probe(Design *d, DesignBody body, void *context) {
    Design before = *d;
    Str text;
    size_t views = d->views->len;
    str_init(&text);
    d->body = &text;
    DesignTile t = body(d, context);
    str_release(&text);
    d->body = before.body;
    d->known.len = before.known.len;
    d->axis_count = before.axis_count;
    if (d->staged.len != before.staged.len) return t; /* a nest inside took numbers, and stays */
    d->names = before.names;
    d->view_count = before.view_count;
    d->constexprs.len = before.constexprs.len;
    d->views->len = views;
    d->views->data[views] = '\0';
    return t;
}

static DesignTile finish(Design *d, DesignTile t, const DesignFold *f) {
    if (f->kind == IR_KIND_MEAN) t = divide_by_count(d, t, f);
    if (t.dtype == f->dtype || dtype_is_float(f->dtype)) return t;
    return design_let(d, arena_printf(d->arena, "cast(%s, dtype=%s)", t.text, dtype_name(f->dtype)), t.rank, t.axes, f->dtype);
}

DesignTile design_folded(Design *d, const DesignFold *f, DesignBody body, void *context) {
    if (!kinds[f->kind].reduce) {
        design_fail(d, "a reduction of this kind is not designed for");
        return (DesignTile){0};
    }
    if (!design_has_loops(f)) return finish(d, fold_tile(d, body(d, context), f), f);
    bool sums = f->kind == IR_KIND_ADD || f->kind == IR_KIND_MEAN;
    if (!kinds[f->kind].update || (!dtype_is_float(f->dtype) && f->kind == IR_KIND_MIN)) {
        design_fail(d, "a reduction of this kind is not carried through a loop");
        return (DesignTile){0};
    }
    DesignTile shape = design_probe(d, body, context);
    DesignAxis *axes[DESIGN_RANK];
    unsigned rank = 0;
    for (unsigned i = 0; i < shape.rank; i++) {
        bool folded = false;
        for (unsigned k = 0; k < f->count; k++) folded |= f->axes[k] == shape.axes[i];
        if (!folded) axes[rank++] = shape.axes[i];
    }
    DesignTile acc = design_new_accumulator(d, rank, axes, f->dtype, kinds[f->kind].identity);
    size_t known = d->known.len;
    bool turns = d->turns;
    DesignLoops loops = design_open_loops(d, f, 0, acc, sums ? design_parts_of(d, f, acc.dtype) : NULL);
    d->turns = true;
    DesignTile t = fold_tile(d, body(d, context), f);
    d->turns = turns;
    const char *part = design_align(d, &t, rank, axes);
    if (sums)
        design_line(d, "%s += %s", loops.inner.text, part);
    else if (f->kind == IR_KIND_MUL)
        design_line(d, "%s *= %s", acc.text, part);
    else
        design_line(d, "%s = %s(%s, %s)", acc.text, f->kind == IR_KIND_MAX ? "max" : "min", acc.text, part);
    design_close_loops(d, &loops);
    d->known.len = known;
    return finish(d, acc, f);
}

/* ---- Reductions ---- */

DesignTile design_operand_body(Design *d, void *context) {
    DesignOperand *o = context;
    return design_value(d, o->value, o->index);
}

bool design_operand_index(Design *d, const IrType *from, uint32_t folded, bool keepdim, const Aff *const *index, unsigned count, bool rigid,
                          const Aff **inner, DesignFold *f) {
    for (unsigned i = 0, next = 0; i < from->rank; i++) {
        if (!(folded >> i & 1)) {
            inner[i] = index[next++];
            continue;
        }
        if (keepdim) next++;
        DesignAxis *axis = design_fold_axis(d, from->extents[i], index, count, f, rigid);
        if (!axis) return false;
        f->axes[f->count++] = axis;
        inner[i] = axis->var;
    }
    return true;
}

DesignTile design_reduce(Design *d, IrOp *op, const Aff *const *index) {
    const IrAttr *axes = ir_attr(op, "axes");
    DesignOperand o = {.value = op->operands[0]};
    DesignFold f = {.kind = ir_op_kind(op), .dtype = op->results[0].type->dtype};
    uint32_t folded = 0;
    for (size_t i = 0; i < axes->count; i++) folded |= 1u << axes->ints[i];
    if (!design_operand_index(d, o.value->type, folded, ir_attr_bool(op, "keepdim"), index, op->results[0].type->rank, false, o.index, &f))
        return (DesignTile){0};
    return design_folded(d, &f, design_operand_body, &o);
}
