/* design: reductions, products and what runs along an axis. */
#include "design_internal.h"
#include "query.h"

#include <string.h>

/* ---- Folded axes ---- */

typedef struct {
    const char *kind;
    Dtype dtype;
    int64_t longest; /* of a product: the largest extent; 0: no product */
    bool product;    /* a contraction's: what uses its result uses no tile of its factors, so no axis of the output serves both */
    unsigned count;
    DesignAxis *axes[2 * DESIGN_RANK];
} Fold;

enum { LONG_CHAIN = 16384 };   /* products of f32 that are added in order */
enum { TURNS_OF_PART = 1024 }; /* of a loop, whose terms are added in order */
enum { MOST_PACKED_TAPS = 512 };
enum { MOST_TAPS = 32 }; /* the same of a product that is summed along a longer axis too: a matrix product for each */

static DesignWalk fold_walk(const Design *d, const DesignAxis *axis, int64_t longest) {
    int64_t extent = INT64_MAX, chunk = d->style->fold, most = d->style->staging == STAGE_PACKED ? MOST_PACKED_TAPS : MOST_TAPS;
    aff_is_const(axis->extent, &extent);
    if (d->dry || !chunk || axis->coupled) return WALK_WHOLE;
    if (extent <= DESIGN_SMALL_FOLD || (chunk > 1 && extent <= most && extent < longest)) return WALK_POINT;
    if (chunk == 1) return axis->contiguous ? WALK_WHOLE : WALK_POINT;
    return extent <= chunk ? WALK_WHOLE : WALK_TILE;
}

/* The axis to fold over: one of the nest's that is whole, of this extent, free in `index` and not
 * folded over by `f` already, so that one tile serves the fold and what uses its result, else a new
 * one. */
static DesignAxis *fold_axis(Design *d, const Aff *extent, const Aff *const *index, unsigned count, const Fold *f, bool rigid) {
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
    axis->walk = rigid ? WALK_WHOLE : fold_walk(d, axis, f->longest);
    if (axis->walk == WALK_TILE) axis->tile = design_constexpr(d, "F", d->style->fold);
    return axis;
}

/* ---- Folding ---- */

typedef DesignTile (*Body)(Design *d, void *context);

static int axis_position(const DesignTile *t, const DesignAxis *axis) {
    for (unsigned i = 0; i < t->rank; i++)
        if (t->axes[i] == axis) return (int)i;
    return -1;
}

static const struct {
    const char *kind, *reduce, *update, *identity;
} kinds[] = {
    {"add", "sum", "%s + %s", "0"},
    {"mean", "sum", "%s + %s", "0"},
    {"mul", "prod", "%s * %s", "1"},
    {"max", "reduce_max", "max(%s, %s)", "-inf"},
    {"min", "reduce_min", "min(%s, %s)", "inf"},
    {"or", "any", NULL, NULL},
    {"and", "all", NULL, NULL},
};

static size_t kind_of(Design *d, const char *kind) {
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (strcmp(kinds[i].kind, kind) == 0) return i;
    design_fail(d, "a reduction of this kind is not designed for");
    return 0;
}

/* The tile repeated along an axis that it does not vary along. */
static DesignTile spread(Design *d, const DesignTile *t, DesignAxis *axis) {
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
static DesignTile end_tile(Design *d, DesignTile t, DesignAxis *axis, size_t kind) {
    if (axis->walk != WALK_TILE || axis->ends) return t;
    DesignTile place = design_index_tile(d, axis->var, DTYPE_I64);
    const char *at = design_align(d, &place, t.rank, t.axes), *extent = design_aff_text(d, axis->extent);
    const char *text = arena_printf(d->arena, "where((%s) < %s, %s, %s)", at, extent, t.text, kinds[kind].identity);
    return design_let(d, text, t.rank, t.axes, t.dtype);
}

/* Folds the tile along the axes that are tiled; the others are loops. */
static DesignTile fold_tile(Design *d, DesignTile t, const Fold *f, size_t kind) {
    for (unsigned i = f->count; i-- > 0 && !d->error;) { /* rows first */
        DesignAxis *axis = f->axes[i];
        if (axis->walk == WALK_POINT) continue;
        if (axis_position(&t, axis) < 0) t = spread(d, &t, axis);
        t = end_tile(d, t, axis, kind);
        int at = axis_position(&t, axis);
        DesignAxis *left[DESIGN_RANK];
        unsigned rank = 0;
        for (unsigned k = 0; k < t.rank; k++)
            if ((int)k != at) left[rank++] = t.axes[k];
        const char *text = arena_printf(d->arena, "%s(%s, axis=%d)", kinds[kind].reduce, t.text, at);
        t = design_let(d, text, rank, left, t.dtype);
    }
    return t;
}

static DesignTile divide_by_count(Design *d, DesignTile t, const Fold *f) {
    const Aff *count = aff_const(d->module->affs, 1);
    for (unsigned i = 0; i < f->count; i++) count = aff_mul(d->module->affs, count, f->axes[i]->extent);
    const char *text = arena_printf(d->arena, "%s / (%s)", t.text, design_aff_text(d, count));
    return design_let(d, text, t.rank, t.axes, t.dtype);
}

static bool is_loop(const DesignAxis *axis) {
    return axis->walk != WALK_WHOLE;
}

static bool has_loops(const Fold *f) {
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

static Dtype accumulator(Dtype dtype) {
    return dtype_is_float(dtype) && dtype != DTYPE_F64 ? DTYPE_F32 : dtype;
}

/* Of products of these: narrow integers are added in 32 bits, as tensor cores do. */
static Dtype product_accumulator(Dtype dtype) {
    return dtype_is_float(dtype) || dtype_bits(dtype) > 32 ? accumulator(dtype) : DTYPE_I32;
}

static DesignTile new_accumulator(Design *d, unsigned rank, DesignAxis *const *axes, Dtype dtype, const char *init) {
    DesignTile acc = {.text = design_name(d), .rank = rank, .is_tile = true, .dtype = accumulator(dtype)};
    for (unsigned i = 0; i < rank; i++) acc.axes[i] = axes[i];
    design_line(d, "%s = alloc([%s], dtype=%s, init=%s)", acc.text, shape_text(d, rank, axes), dtype_name(acc.dtype), init);
    return acc;
}

/* The most terms of a fold in a case, on a processor; of loops their turns. A GPU's passes divide long sums. */
static double most_turns(const Design *d, const Fold *f, bool turns) {
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

/* So many turns' terms are summed apart; null: there are not too many to be added in order. */
static const char *parts_of(Design *d, const Fold *f, Dtype dtype) {
    if (dtype != DTYPE_F32 || most_turns(d, f, true) <= TURNS_OF_PART) return NULL;
    return design_constexpr(d, "P", TURNS_OF_PART);
}

/* ---- Ranges of sums ---- */

/* The output's axis that an index is, if it is nothing else. */
static const DesignAxis *axis_at(const Design *d, const Aff *index) {
    for (unsigned i = 0; i < d->outer_count; i++)
        if (!d->axes[i]->single && d->axes[i]->var == index) return d->axes[i];
    return NULL;
}

/* Which terms of a sum of products are 0, as the operation says. */
static void set_range(const Design *d, const IrOp *op, const Aff *const *index, DesignAxis *axis) {
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

/* Loops that add into `acc`. Of more turns than f32 adds in order those of the innermost loop are summed in parts of so many: `inner` is what the body
 * adds to, which close_loops adds to `acc`. */
typedef struct {
    unsigned opened, in_part;
    DesignTile acc, inner;
} Loops;

/* `stages`: the innermost loop brings so many of its turns' loads ahead; 0: none. */
static Loops open_loops(Design *d, const Fold *f, int64_t stages, DesignTile acc, const char *parts) {
    Loops l = {.acc = acc, .inner = acc};
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
            l.inner = new_accumulator(d, acc.rank, acc.axes, acc.dtype, "0");
            r = (Range){part, arena_printf(d->arena, "min(%s + %s, %s)", part, parts, r.count)};
            l.in_part = 1;
        }
        if (stages && last) design_line(d, "@llm_hint(\"pipeline\", stages=%lld)", (long long)stages);
        open_loop(d, axis->name, r.first, r.count);
    }
    l.opened = opened;
    return l;
}

static void close_loops(Design *d, const Loops *l) {
    if (l->in_part) {
        d->depth--;
        design_line(d, "%s += %s", l->acc.text, l->inner.text);
    }
    d->depth -= l->opened;
}

/* Runs the body for its axes only: nothing that it writes stays. */
static DesignTile probe(Design *d, Body body, void *context) {
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

static DesignTile finish(Design *d, DesignTile t, const Fold *f) {
    if (strcmp(f->kind, "mean") == 0) t = divide_by_count(d, t, f);
    if (t.dtype == f->dtype || dtype_is_float(f->dtype)) return t;
    return design_let(d, arena_printf(d->arena, "cast(%s, dtype=%s)", t.text, dtype_name(f->dtype)), t.rank, t.axes, f->dtype);
}

static DesignTile fold(Design *d, const Fold *f, Body body, void *context) {
    size_t kind = kind_of(d, f->kind);
    if (d->error) return (DesignTile){0};
    if (!has_loops(f)) return finish(d, fold_tile(d, body(d, context), f, kind), f);
    if (!kinds[kind].update || (!dtype_is_float(f->dtype) && kinds[kind].identity[0] > '9')) {
        design_fail(d, "a reduction of this kind is not carried through a loop");
        return (DesignTile){0};
    }
    DesignTile shape = probe(d, body, context);
    DesignAxis *axes[DESIGN_RANK];
    unsigned rank = 0;
    for (unsigned i = 0; i < shape.rank; i++) {
        bool folded = false;
        for (unsigned k = 0; k < f->count; k++) folded |= f->axes[k] == shape.axes[i];
        if (!folded) axes[rank++] = shape.axes[i];
    }
    DesignTile acc = new_accumulator(d, rank, axes, f->dtype, kinds[kind].identity);
    size_t known = d->known.len;
    bool turns = d->turns;
    Loops loops = open_loops(d, f, 0, acc, kind <= 1 ? parts_of(d, f, acc.dtype) : NULL);
    d->turns = true;
    DesignTile t = fold_tile(d, body(d, context), f, kind);
    d->turns = turns;
    const char *part = design_align(d, &t, rank, axes);
    if (kind <= 1)
        design_line(d, "%s += %s", loops.inner.text, part);
    else if (kind == 2)
        design_line(d, "%s *= %s", acc.text, part);
    else
        design_line(d, "%s = %s(%s, %s)", acc.text, kind == 3 ? "max" : "min", acc.text, part);
    close_loops(d, &loops);
    d->known.len = known;
    return finish(d, acc, f);
}

/* ---- Reductions ---- */

typedef struct {
    IrValue *value;
    const Aff *index[DESIGN_RANK];
} Operand;

static DesignTile operand_body(Design *d, void *context) {
    Operand *o = context;
    return design_value(d, o->value, o->index);
}

/* Fills the operand's index: its folded axes, a bit each in `folded`, get axes of the nest. */
static bool operand_index(Design *d, const IrType *from, uint32_t folded, bool keepdim, const Aff *const *index, unsigned count, bool rigid,
                          const Aff **inner, Fold *f) {
    for (unsigned i = 0, next = 0; i < from->rank; i++) {
        if (!(folded >> i & 1)) {
            inner[i] = index[next++];
            continue;
        }
        if (keepdim) next++;
        DesignAxis *axis = fold_axis(d, from->extents[i], index, count, f, rigid);
        if (!axis) return false;
        f->axes[f->count++] = axis;
        inner[i] = axis->var;
    }
    return true;
}

DesignTile design_reduce(Design *d, IrOp *op, const Aff *const *index) {
    const IrAttr *axes = ir_attr(op, "axes");
    Operand o = {.value = op->operands[0]};
    Fold f = {.kind = ir_attr_str(op, "kind", ""), .dtype = op->results[0].type->dtype};
    uint32_t folded = 0;
    for (size_t i = 0; i < axes->count; i++) folded |= 1u << axes->ints[i];
    if (!operand_index(d, o.value->type, folded, ir_attr_bool(op, "keepdim"), index, op->results[0].type->rank, false, o.index, &f))
        return (DesignTile){0};
    return fold(d, &f, operand_body, &o);
}

/* ---- Products ---- */

typedef struct {
    IrValue *a, *b;
    const Aff *index_a[DESIGN_RANK], *index_b[DESIGN_RANK]; /* of whole tensors */
} Product;

static IrValue *without_cast(IrValue *v) {
    bool widens = v->def && v->def->opcode == IR_CAST && v->type->kind == IR_TYPE_SCALAR &&
                  v->def->operands[0]->type->kind == IR_TYPE_SCALAR && !v->def->operands[0]->type->is_index &&
                  dtype_size(v->def->operands[0]->type->dtype) < dtype_size(v->type->dtype);
    return widens ? v->def->operands[0] : v;
}

static const IrOp *yielded_product(const IrOp *op) {
    IrValue *v = op->regions[0] ? design_bounded_value(op) : NULL;
    return v && v->def && v->def->opcode == IR_MUL ? v->def : NULL;
}

bool design_is_product(const IrOp *op) {
    if (op->opcode == IR_GRAPH_CONTRACT) return true;
    return op->opcode == IR_GRAPH_GENERIC && ir_op_kind(op) == IR_KIND_ADD && yielded_product(op);
}

/* Which indices of the notation a value is made of, a bit each. */
static uint32_t indices_of(const IrOp *notation, const IrValue *v) {
    uint32_t found = 0;
    for (unsigned i = 0; i < notation->operand_count && i < 32; i++)
        if (notation->regions[0]->args[i] == v) found |= (uint32_t)1 << i;
    if (!v->def || v->def->block != notation->regions[0]) return found;
    for (unsigned i = 0; i < v->def->operand_count; i++) found |= indices_of(notation, v->def->operands[i]);
    return found;
}

static bool in_list(const IrAttr *list, unsigned axis, size_t *at) {
    for (size_t i = 0; list && i < list->count; i++)
        if (list->ints[i] == (int64_t)axis) {
            *at = i;
            return true;
        }
    return false;
}

bool design_is_contraction(const IrOp *op) {
    if (op->opcode == IR_GRAPH_CONTRACT) return true;
    const IrOp *mul = design_is_product(op) ? yielded_product(op) : NULL;
    if (!mul) return false;
    uint32_t a = indices_of(op, mul->operands[0]), b = indices_of(op, mul->operands[1]);
    uint32_t outer = ((uint32_t)1 << ir_attr_int(op, "outer", 0)) - 1;
    return ((a ^ b) & outer) && (a & b & ~outer);
}

/* Does the factor add axes of more than one index to the result? */
static bool adds_axes(const IrOp *op, unsigned factor) {
    const IrType *t = op->operands[factor]->type;
    const IrAttr *sum = ir_attr(op, factor ? "sum_b" : "sum_a"), *batch = ir_attr(op, factor ? "batch_b" : "batch_a");
    size_t at;
    for (unsigned i = 0; i < t->rank; i++) {
        int64_t extent = 0;
        aff_is_const(t->extents[i], &extent);
        if (extent != 1 && !in_list(sum, i, &at) && !in_list(batch, i, &at)) return true;
    }
    return false;
}

bool design_is_matrix_product(const IrOp *op) {
    if (op->opcode == IR_GRAPH_CONTRACT) return adds_axes(op, 0) && adds_axes(op, 1);
    return design_is_contraction(op);
}

static DesignTile factor(Design *d, const Product *p, bool second) {
    bool outside = !d->in_product, direct = d->direct;
    d->in_product = d->direct = true;
    DesignTile t = second ? design_value(d, p->b, p->index_b) : design_value(d, p->a, p->index_a);
    if (outside) d->in_product = false;
    d->direct = direct;
    return t;
}

static DesignTile product_body(Design *d, void *context) {
    const Product *p = context;
    bool lanes = d->lanes;
    d->lanes = true;
    DesignTile a = factor(d, p, false), b = factor(d, p, true);
    d->lanes = lanes;
    DesignAxis *axes[DESIGN_RANK];
    if (d->error) return a;
    unsigned rank = design_union(&a, &b, axes);
    const char *left = design_align(d, &a, rank, axes), *right = design_align(d, &b, rank, axes);
    Dtype dtype = accumulator(a.dtype);
    if (dtype != a.dtype || dtype != b.dtype) { /* narrow factors */
        dtype = product_accumulator(dtype);
        left = arena_printf(d->arena, "cast(%s, dtype=%s)", left, dtype_name(dtype));
        right = arena_printf(d->arena, "cast(%s, dtype=%s)", right, dtype_name(dtype));
    }
    return design_let(d, arena_printf(d->arena, "%s * %s", left, right), rank, axes, dtype);
}

/* How a pair of factors goes together: [batch, rows, sum] by [batch, sum, columns]. */
typedef struct {
    DesignAxis *sum, *rows, *columns;
    bool fits, swapped; /* swapped: the first factor gives the columns */
} Pairing;

static void mark_sides(const DesignTile *a, const DesignTile *b) {
    for (unsigned i = 0; i < a->rank; i++)
        if (axis_position(b, a->axes[i]) < 0) a->axes[i]->product |= 1;
    for (unsigned i = 0; i < b->rank; i++)
        if (axis_position(a, b->axes[i]) < 0) b->axes[i]->product |= 2;
}

static Pairing pair(const DesignTile *a, const DesignTile *b, const Fold *f) {
    Pairing p = {.fits = a->is_tile && b->is_tile && a->dtype == b->dtype && a->rank >= 2 && a->rank == b->rank};
    unsigned sums = 0, batch = a->rank - 2;
    for (unsigned i = 0; i < f->count; i++) {
        if (f->axes[i]->walk == WALK_POINT) continue;
        p.sum = f->axes[i];
        sums++;
    }
    p.fits = p.fits && sums == 1 && axis_position(a, p.sum) >= (int)batch && axis_position(b, p.sum) >= (int)batch;
    for (unsigned i = 0; p.fits && i < batch; i++) p.fits = a->axes[i] == b->axes[i];
    for (unsigned i = batch; p.fits && i < a->rank; i++) {
        if (a->axes[i] != p.sum) p.rows = a->axes[i];
        if (b->axes[i] != p.sum) p.columns = b->axes[i];
    }
    p.fits = p.fits && p.rows && p.columns && p.rows != p.columns;
    p.swapped = p.fits && p.rows->id > p.columns->id;
    if (p.swapped) {
        DesignAxis *rows = p.rows;
        p.rows = p.columns;
        p.columns = rows;
    }
    return p;
}

/* What the operator asks of factors of this type; elsewhere every bit counts. */
static const char *precision_text(Design *d, Dtype dtype) {
    unsigned own = ir_func_enum(d->f, IR_FN_PRECISION);
    bool sums = own == IR_PRECISION_F8 && dtype_size(dtype) == 1;
    bool says = own && own != IR_PRECISION_F32 && own != IR_PRECISION_F64 && dtype_is_float(dtype) && (dtype == DTYPE_F32 || sums);
    return says ? arena_printf(d->arena, ", precision=%s", ir_enum_word(IR_ENUM_PRECISION, own)) : "";
}

static const char *factors_text(Design *d, const Pairing *p, const DesignTile *a, const DesignTile *b, const char *acc) {
    const DesignTile *first = p->swapped ? b : a, *second = p->swapped ? a : b;
    bool trans_a = first->axes[first->rank - 1] != p->sum;
    bool trans_b = second->axes[second->rank - 1] == p->sum;
    return arena_printf(d->arena, "%s(%s, %s%s%s%s%s%s)", acc ? "gemm" : "matmul", first->text, second->text, acc ? ", " : "",
                        acc ? acc : "", trans_a ? ", trans_a=true" : "", trans_b ? ", trans_b=true" : "", precision_text(d, a->dtype));
}

static DesignTile product(Design *d, Product *p, Fold *f) {
    DesignTile a = factor(d, p, false), b = factor(d, p, true);
    if (d->error) return a;
    mark_sides(&a, &b);
    Pairing how = pair(&a, &b, f);
    bool open = how.fits && how.sum->walk == WALK_TILE && !how.sum->ends; /* neither factor ends where the sum does */
    if (!how.fits || open) return (DesignTile){0};
    DesignAxis *axes[DESIGN_RANK];
    unsigned rank = 0;
    for (; rank < a.rank - 2; rank++) axes[rank] = a.axes[rank];
    axes[rank++] = how.rows;
    axes[rank++] = how.columns;
    if (!has_loops(f)) return design_let(d, factors_text(d, &how, &a, &b, NULL), rank, axes, accumulator(a.dtype));
    DesignTile shape = {.text = "", .rank = rank, .is_tile = true, .dtype = a.dtype};
    memcpy(shape.axes, axes, rank * sizeof *axes);
    return shape;
}

static DesignTile product_probe(Design *d, void *context) {
    void **both = context;
    return product(d, both[0], both[1]);
}

/* Would a case have more products added in order than f32 keeps the promise for? A GPU's passes divide such a sum; a CPU's code adds as it is written,
 * so each chunk's products are summed apart there. */
static bool has_long_chain(const Design *d, const Fold *f) {
    return most_turns(d, f, false) > LONG_CHAIN;
}

static DesignTile product_loop(Design *d, Product *p, Fold *f, const DesignTile *shape) {
    Dtype dtype = product_accumulator(shape->dtype);
    DesignTile acc = new_accumulator(d, shape->rank, shape->axes, dtype, "0");
    size_t known = d->known.len;
    bool apart = dtype == DTYPE_F32 && has_long_chain(d, f);
    Loops loops = open_loops(d, f, d->style->stages, acc, parts_of(d, f, dtype));
    acc = loops.inner;
    d->ahead |= d->style->stages > 0;
    DesignTile a = factor(d, p, false), b = factor(d, p, true);
    Pairing how = pair(&a, &b, f);
    if (how.fits && apart)
        design_line(d, "%s += %s", acc.text, factors_text(d, &how, &a, &b, NULL));
    else if (how.fits)
        design_line(d, "%s", factors_text(d, &how, &a, &b, acc.text));
    close_loops(d, &loops);
    d->known.len = known;
    return loops.acc;
}

static DesignTile any_product(Design *d, Product *p, Fold *f) {
    void *both[] = {p, f};
    DesignTile shape = probe(d, product_probe, both);
    if (d->error) return shape;
    if (!shape.is_tile) return fold(d, f, product_body, p);
    return has_loops(f) ? product_loop(d, p, f, &shape) : product(d, p, f);
}

/* A product that a factor of another one is made of: would each tile along one of the output's axes make it anew, as it does not vary along that axis? */
static bool is_made_again(const Design *d, const IrOp *op, const Aff *const *index) {
    if (!d->in_product || d->dry || d->style->naive || !design_is_matrix_product(op)) return false;
    for (unsigned i = 0; i < d->outer_count; i++) {
        const DesignAxis *axis = d->axes[i];
        bool varies = axis->walk == WALK_WHOLE || axis->single;
        for (unsigned k = 0; k < op->results[0].type->rank; k++) varies |= aff_depends_on(index[k], axis);
        if (!varies) return true;
    }
    return false;
}

static bool refuse_again(Design *d, const IrOp *op, const Aff *const *index) {
    return is_made_again(d, op, index) && !design_fail(d, "a product inside of another one would be made anew for each of its tiles");
}

DesignTile design_contract(Design *d, IrOp *op, const Aff *const *index) {
    if (refuse_again(d, op, index)) return (DesignTile){0};
    Product p = {.a = op->operands[0], .b = op->operands[1]};
    Fold f = {.kind = "add", .dtype = op->results[0].type->dtype, .product = true};
    const IrAttr *sum_a = ir_attr(op, "sum_a"), *batch_a = ir_attr(op, "batch_a");
    const IrAttr *sum_b = ir_attr(op, "sum_b"), *batch_b = ir_attr(op, "batch_b");
    unsigned rank = op->results[0].type->rank, next = batch_a ? (unsigned)batch_a->count : 0;
    size_t at = 0;
    for (size_t i = 0; i < sum_a->count; i++) {
        f.axes[f.count] = fold_axis(d, p.a->type->extents[sum_a->ints[i]], index, rank, &f, false);
        if (!f.axes[f.count++]) return (DesignTile){0};
    }
    /* NOLINTBEGIN(*NullDereference): each axis that is summed has been made */
    for (unsigned i = 0; i < p.a->type->rank; i++)
        p.index_a[i] = in_list(sum_a, i, &at) ? f.axes[at]->var : in_list(batch_a, i, &at) ? index[at] : index[next++];
    for (unsigned i = 0; i < p.b->type->rank; i++)
        p.index_b[i] = in_list(sum_b, i, &at) ? f.axes[at]->var : in_list(batch_b, i, &at) ? index[at] : index[next++];
    /* NOLINTEND(*NullDereference) */
    if (f.count == 1) set_range(d, op, index, f.axes[0]);
    return any_product(d, &p, &f);
}

/* ---- Index notation ---- */

static DesignTile region_body(Design *d, void *context) {
    return design_value(d, context, NULL);
}

/* The largest of the extents that the notation folds along; 0: none. */
static int64_t longest_fold(Design *d, const IrOp *op) {
    int64_t longest = 0;
    for (unsigned i = (unsigned)ir_attr_int(op, "outer", 0); i < op->operand_count; i++) {
        const Aff *e = design_index(d, op->operands[i]);
        int64_t extent = INT64_MAX;
        if (e) aff_is_const(e, &extent);
        if (extent > longest) longest = extent;
    }
    return longest;
}

/* Gives each index of the notation its meaning here. */
static bool bind_indices(Design *d, IrOp *op, const Aff *const *index, Fold *f) {
    unsigned outer = (unsigned)ir_attr_int(op, "outer", 0);
    for (unsigned i = 0; i < op->operand_count; i++) {
        const Aff *at = i < outer ? index[i] : NULL;
        if (!at) {
            const Aff *extent = design_index(d, op->operands[i]);
            if (!extent) return design_fail(d, "an extent that depends on data");
            bool rigid = strcmp(f->kind, "or") == 0 || strcmp(f->kind, "and") == 0 || !dtype_is_float(f->dtype);
            DesignAxis *axis = fold_axis(d, extent, index, outer, f, rigid && f->kind[0] != 'a');
            if (!axis) return false;
            f->axes[f->count++] = axis;
            at = axis->var;
        }
        VEC_PUSH(d->arena, &d->bindings, (DesignBinding){op->regions[0]->args[i], at});
    }
    return true;
}

DesignTile design_generic(Design *d, IrOp *op, const Aff *const *index) {
    size_t bindings = d->bindings.len;
    const char *kind = ir_attr_str(op, "kind", NULL);
    Fold f = {.kind = kind ? kind : "", .dtype = op->results[0].type->dtype};
    DesignTile t = {0};
    if (kind && refuse_again(d, op, index)) return t;
    if (kind && design_is_product(op)) f.longest = longest_fold(d, op);
    if (bind_indices(d, op, index, &f)) {
        IrValue *folded = design_folded_value(d, op, f.axes);
        const IrOp *mul = folded->def;
        if (f.longest && mul && mul->opcode == IR_MUL) {
            Product p = {.a = without_cast(mul->operands[0]), .b = without_cast(mul->operands[1])};
            if (p.a->type->dtype != p.b->type->dtype) p.a = mul->operands[0], p.b = mul->operands[1];
            if (f.count == 1) set_range(d, op, index, f.axes[0]);
            t = any_product(d, &p, &f);
        } else {
            bool bounded = d->bounded;
            d->bounded |= folded != design_bounded_value(op);
            t = f.count ? fold(d, &f, region_body, folded) : region_body(d, folded);
            d->bounded = bounded;
        }
    }
    d->bindings.len = bindings;
    return t;
}

/* ---- Along an axis ---- */

/* The axis of the nest that the index is, if it is nothing else and the whole extent. */
static DesignAxis *whole_axis(Design *d, const Aff *index, const Aff *extent) {
    for (unsigned i = 0; i < d->axis_count; i++)
        if (d->axes[i]->var == index && d->axes[i]->walk == WALK_WHOLE && (!extent || d->axes[i]->extent == extent)) {
            d->axes[i]->coupled = true;
            return d->axes[i];
        }
    return NULL;
}

static DesignTile in_place(Design *d, const IrOp *op, const char *call, DesignTile t, DesignAxis *axis) {
    if (axis_position(&t, axis) < 0) t = spread(d, &t, axis);
    const char *text = arena_printf(
        d->arena, "%s(%s, axis=%d%s%s%s)", call, t.text, axis_position(&t, axis), ir_attr_bool(op, "reverse") ? ", reverse=true" : "",
        ir_attr_bool(op, "exclusive") ? ", exclusive=true" : "", ir_attr_bool(op, "descending") ? ", descending=true" : "");
    return design_let(d, text, t.rank, t.axes, t.dtype);
}

static DesignTile arg_extreme(Design *d, IrOp *op, const Aff *const *index) {
    Operand o = {.value = op->operands[0]};
    Fold f = {.kind = "max"};
    unsigned axis = (unsigned)ir_attr_int(op, "axis", 0);
    if (!operand_index(d, o.value->type, 1u << axis, ir_attr_bool(op, "keepdim"), index, op->results[0].type->rank, true, o.index, &f))
        return (DesignTile){0};
    DesignTile t = operand_body(d, &o);
    if (d->error) return t;
    if (axis_position(&t, f.axes[0]) < 0) t = spread(d, &t, f.axes[0]);
    int at = axis_position(&t, f.axes[0]);
    DesignAxis *left[DESIGN_RANK];
    unsigned rank = 0;
    for (unsigned i = 0; i < t.rank; i++)
        if ((int)i != at) left[rank++] = t.axes[i];
    const char *call = ir_op_kind(op) == IR_KIND_MIN ? "argmin" : "argmax";
    return design_let(d, arena_printf(d->arena, "%s(%s, axis=%d)", call, t.text, at), rank, left, DTYPE_I64);
}

/* The first k of a descending sort, with where they stood. */
static DesignTile best(Design *d, IrValue *v, const Aff *const *index, int64_t k) {
    IrOp *op = v->def;
    unsigned axis = (unsigned)ir_attr_int(op, "axis", 0), rank = v->type->rank;
    DesignAxis *short_axis = whole_axis(d, index[axis], NULL), *axes[DESIGN_RANK];
    const Aff *inner[DESIGN_RANK];
    for (unsigned i = 0; i < rank; i++) inner[i] = index[i];
    DesignAxis *whole = fold_axis(d, v->type->extents[axis], index, rank, &(Fold){0}, true);
    if (!whole) return (DesignTile){0};
    inner[axis] = whole->var;
    DesignTile t = design_value(d, op->operands[0], inner);
    if (d->error) return t;
    if (axis_position(&t, whole) < 0) t = spread(d, &t, whole);
    for (unsigned i = 0; i < t.rank; i++) axes[i] = t.axes[i] == whole ? short_axis : t.axes[i];
    const char *names[] = {design_name(d), design_name(d)};
    design_line(d, "%s, %s = topk(%s, %lld, axis=%d)", names[0], names[1], t.text, (long long)k, axis_position(&t, whole));
    DesignTile result = {0};
    for (unsigned i = 0; i < 2; i++) {
        DesignKnown known = {.value = &op->results[i], .count = rank};
        memcpy(known.index, index, rank * sizeof *index);
        known.tile = t;
        known.tile.text = names[i];
        known.tile.is_loaded = false;
        memcpy(known.tile.axes, axes, sizeof axes);
        if (i) known.tile.dtype = DTYPE_I64;
        if (v == known.value) result = known.tile;
        VEC_PUSH(d->arena, &d->known, known);
    }
    return result;
}

static DesignTile sorted(Design *d, IrValue *v, const Aff *const *index) {
    unsigned axis = (unsigned)ir_attr_int(v->def, "axis", 0);
    const Aff *extent = v->type->extents[axis];
    DesignAxis *whole = whole_axis(d, index[axis], extent);
    if (whole && v == &v->def->results[0]) {
        DesignTile t = design_value(d, v->def->operands[0], index);
        return d->error ? t : in_place(d, v->def, "sort", t, whole);
    }
    DesignAxis *part = whole_axis(d, index[axis], NULL);
    int64_t k;
    if (part && ir_attr_bool(v->def, "descending") && aff_is_const(part->extent, &k)) return best(d, v, index, k);
    design_fail(d, "the indices of a sort, and parts of one, are only designed for as topk");
    return (DesignTile){0};
}

/* What a recurrence begins from, at its lane along the axis. */
static DesignTile started(Design *d, const IrOp *op, const Aff *const *index) {
    unsigned axis = (unsigned)ir_attr_int(op, "axis", 0);
    const Aff *inner[DESIGN_RANK];
    for (unsigned i = 0; i < op->results[0].type->rank; i++) inner[i] = i == axis ? aff_const(d->module->affs, 0) : index[i];
    return design_value(d, op->operands[2], inner);
}

/* h = a * h + b: both parts have the axis, or one of them repeats along it; what it begins from has none that they have not. */
static DesignTile recurred(Design *d, const IrOp *op, const Aff *const *index, DesignAxis *axis) {
    DesignTile part[2], all = {0}, start = {0};
    DesignAxis *axes[DESIGN_RANK];
    bool starts = op->operand_count > 2;
    if (starts) start = started(d, op, index);
    for (unsigned i = 0; i < 2; i++) {
        part[i] = design_value(d, op->operands[1 - i], index);
        if (d->error) return all;
        all.rank = design_union(&all, &part[i], axes);
        memcpy(all.axes, axes, sizeof axes);
    }
    for (unsigned i = 0; i <= start.rank && !d->error; i++) {
        DesignAxis *wanted = i < start.rank ? start.axes[i] : axis;
        if (axis_position(&all, wanted) >= 0) continue;
        part[1] = spread(d, &part[1], wanted);
        all.rank = design_union(&all, &part[1], axes);
        memcpy(all.axes, axes, sizeof axes);
    }
    const char *a = design_align(d, &part[0], all.rank, all.axes), *b = design_align(d, &part[1], all.rank, all.axes);
    const char *begin = starts ? arena_printf(d->arena, ", init=%s", design_align(d, &start, all.rank, all.axes)) : "";
    const char *text =
        arena_printf(d->arena, "linear_scan(%s, %s, axis=%d%s%s%s)", a, b, axis_position(&all, axis),
                     ir_attr_bool(op, "reverse") ? ", reverse=true" : "", ir_attr_bool(op, "exclusive") ? ", exclusive=true" : "", begin);
    return design_let(d, text, all.rank, all.axes, op->results[0].type->dtype);
}

static DesignTile scanned(Design *d, IrOp *op, const Aff *const *index) {
    static const char *const calls[][2] = {{"add", "cumsum"}, {"mul", "cumprod"}, {"max", "cummax"}};
    unsigned axis = (unsigned)ir_attr_int(op, "axis", 0);
    DesignAxis *whole = whole_axis(d, index[axis], op->results[0].type->extents[axis]);
    if (whole && strcmp(ir_attr_str(op, "kind", ""), "linear") == 0) return recurred(d, op, index, whole);
    for (size_t i = 0; whole && i < COUNT_OF(calls); i++)
        if (strcmp(calls[i][0], ir_attr_str(op, "kind", "")) == 0) {
            DesignTile t = design_value(d, op->operands[0], index);
            return d->error ? t : in_place(d, op, calls[i][1], t, whole);
        }
    if (!design_stage(d, &op->results[0])) return (DesignTile){0};
    return design_load(d, design_staged_name(d, &op->results[0]), op->results[0].type, index, NULL);
}

static DesignTile joined(Design *d, IrOp *op, const Aff *const *index) {
    AffCtx *c = d->module->affs;
    unsigned axis = (unsigned)ir_attr_int(op, "axis", 0), rank = op->results[0].type->rank;
    const Aff *begin = aff_const(c, 0), *inner[DESIGN_RANK];
    DesignTile at = design_index_tile(d, index[axis], DTYPE_I64), result = {0};
    double zero = 0;
    for (unsigned i = 0; i < op->operand_count && !d->error; i++) {
        IrValue *v = op->operands[i];
        for (unsigned k = 0; k < rank; k++) inner[k] = k == axis ? aff_sub(c, index[k], begin) : index[k];
        const char *name = design_source(d, v, inner);
        if (!name && !design_stage(d, v)) break;
        if (!name) name = design_staged_name(d, v);
        DesignTile part = design_load(d, name, v->type, inner, &zero);
        if (i) {
            DesignAxis *axes[DESIGN_RANK];
            unsigned n = design_union(&part, &result, axes);
            const char *text = arena_printf(d->arena, "where(%s < %s, %s, %s)", design_align(d, &at, n, axes), design_aff_text(d, begin),
                                            design_align(d, &result, n, axes), design_align(d, &part, n, axes));
            part = design_let(d, text, n, axes, part.dtype);
        }
        result = part;
        begin = aff_add(c, begin, v->type->extents[axis]);
    }
    return result;
}

DesignTile design_along(Design *d, IrValue *v, const Aff *const *index) {
    switch (v->def->opcode) {
    case IR_GRAPH_SCAN:
        return scanned(d, v->def, index);
    case IR_GRAPH_ARG:
        return arg_extreme(d, v->def, index);
    case IR_GRAPH_SORT:
        return sorted(d, v, index);
    default:
        return joined(d, v->def, index);
    }
}
