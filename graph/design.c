/* design: nests, walks and the sketch around them; design.h says what the whole is. */
#include "design_internal.h"

#include <string.h>

/* A block of a convolution has at most so many times as many results as there are: 128 for 32 and more. By prediction; what it leaves idle grows with it. */
enum { MOST_OF_RESULTS = 4 };

/* ---- Styles ---- */

static const DesignStyle styles[] = {
#define STYLE(...) {__VA_ARGS__},
#include "design_styles.def"
#undef STYLE
};

size_t design_style_count(void) {
    return COUNT_OF(styles);
}
const DesignStyle *design_style(size_t index) {
    return &styles[index];
}

bool design_by_form(const DesignStyle *s) {
    return s->staging == STAGE_FOLDED || s->staging == STAGE_FOLDS || design_of_library(s);
}

bool design_of_library(const DesignStyle *s) {
    return s->staging == STAGE_LIBRARY || s->staging == STAGE_OWN || s->staging == STAGE_LIMITED;
}

static unsigned variant_of(const DesignStyle *style) {
    unsigned n = 0;
    for (const DesignStyle *s = styles; s < style; s++) n += s->staging == style->staging;
    return design_of_library(style) ? n : 0;
}

/* ---- Names ---- */

/* Is it a name of the operator's, or of the sketch's constexprs? */
static bool is_taken(const Design *d, const char *name) {
    const IrOp *result = d->f->body->last;
    const IrAttr *names = result ? ir_attr(result, "names") : NULL;
    for (unsigned i = 0; i < d->f->param_count; i++)
        if (strcmp(d->f->params[i].name, name) == 0) return true;
    for (size_t i = 0; names && i < names->count; i++)
        if (strcmp(names->strs[i], name) == 0) return true;
    return false;
}

const char *design_free_name(const Design *d, const char *name) {
    while (is_taken(d, name)) name = arena_printf(d->arena, "%s_", name);
    return name;
}

/* A tile extent that -D may change. Equal ones of a prefix are one. */
const char *design_constexpr(Design *d, const char *prefix, int64_t value) {
    for (size_t i = 0; i < d->constexprs.len; i++)
        if (d->constexprs.data[i].value == value && d->constexprs.data[i].name[0] == prefix[0]) return d->constexprs.data[i].name;
    const char *name = design_free_name(d, arena_printf(d->arena, "%s%zu", prefix, d->constexprs.len));
    VEC_PUSH(d->arena, &d->constexprs, (DesignConstexpr){name, value});
    return name;
}

/* ---- Axes ---- */

DesignAxis *design_axis_add(Design *d, const Aff *extent, bool folded) {
    if (d->axis_count == DESIGN_AXES) {
        design_fail(d, "more axes than a nest may have");
        return NULL;
    }
    unsigned id = d->axis_count;
    DesignAxis *known = d->axes[id], *axis = ARENA_NEW(d->arena, DesignAxis);
    if (known) { /* of the dry run, or of a probe */
        axis->coupled = known->coupled;
        axis->contiguous = known->contiguous;
        axis->repeated = known->repeated;
        axis->product = known->product;
    }
    axis->id = id;
    axis->extent = extent;
    axis->folded = folded;
    axis->single = !folded && d->singles && !d->style->naive && extent == aff_const(d->module->affs, 1);
    axis->name = axis->single ? "0" : design_free_name(d, arena_printf(d->arena, "%c%u", folded ? 'k' : 'i', id));
    axis->var = axis->single ? aff_const(d->module->affs, 0) : aff_var(d->module->affs, axis, axis->name);
    d->axes[d->axis_count++] = axis;
    return axis;
}

/* ---- Walks of the output's axes ---- */

/* The axis that is cut beside the innermost one: of the other factor of a product, else the one
 * along which memory is read, else the next. */
static unsigned second_axis(const Design *d, unsigned last) {
    const DesignAxis *inner = d->axes[last];
    for (unsigned i = last; i-- > 0;)
        if (inner->product && d->axes[i]->product && d->axes[i]->product != inner->product) return i;
    for (unsigned i = last; i-- > 0;)
        if (d->axes[i]->contiguous && !d->axes[i]->phase) return i;
    for (unsigned i = last; i-- > 0;)
        if (!d->axes[i]->single && !d->axes[i]->phase) return i;
    return last;
}

static void cut(Design *d, DesignAxis *axis, int64_t size) {
    int64_t extent = INT64_MAX;
    aff_is_const(axis->extent, &extent);
    axis->walk = axis->coupled || extent <= size ? WALK_WHOLE : size == 1 ? WALK_POINT : WALK_TILE;
    if (axis->walk == WALK_TILE) axis->tile = design_constexpr(d, "T", size);
}

/* Beside what goes through a workspace, a nest without a product walks its rows one by one. */
static int64_t outer_extent(const Design *d) {
    bool product = d->style->staging == STAGE_NOTHING || d->style->staging == STAGE_PACKED;
    for (unsigned i = 0; i < d->outer_count; i++) product |= d->axes[i]->product != 0;
    return product ? d->style->outer : 1;
}

static void choose_walks(Design *d) {
    const DesignStyle *s = d->style;
    unsigned many = 0, last = 0; /* axes of more than one index */
    for (unsigned i = 0; i < d->outer_count; i++) {
        DesignAxis *axis = d->axes[i];
        axis->walk = WALK_POINT;
        if (axis->single || axis->phase) continue;
        bool rest = s->rest == WALK_POINT || many == 0;
        axis->walk = d->dry || axis->coupled || !rest ? WALK_WHOLE : s->rest;
        if (axis->walk == WALK_TILE) cut(d, axis, s->outer);
        last = i;
        many++;
    }
    if (d->dry || !many) return;
    if (s->rest == WALK_POINT && !s->tiles) d->axes[last]->walk = WALK_WHOLE;
    int64_t share = 1;
    d->beside = design_phases_beside(d, d->axes[last], &share);
    if (s->tiles) cut(d, d->axes[last], s->inner / share);
    if (s->tiles < 2 || many < 2) return;
    DesignAxis *second = d->axes[second_axis(d, last)];
    cut(d, second, outer_extent(d));
    design_is_too_large(d, second, s->outer, MOST_OF_RESULTS);
}

/* ---- Nests ---- */

static unsigned open_axis(Design *d, const DesignAxis *axis, unsigned opened) {
    const char *extent = design_aff_text(d, axis->extent);
    if (axis->walk == WALK_WHOLE || axis->single || axis == d->beside) return opened;
    if (d->vectors && !opened) design_line(d, "@llm_hint(\"vectorize\")");
    if (!d->style->naive) design_line(d, "@llm_hint(\"parallel\", \"coreidx\")");
    if (axis->walk == WALK_TILE)
        design_line(d, "for %s in range(0, ceil(%s, %s)):", axis->name, extent, axis->tile);
    else
        design_line(d, "for %s in range(%s):", axis->name, extent);
    d->depth++;
    return opened + 1;
}

static void open_outer(Design *d) {
    unsigned opened = 0;
    for (unsigned turn = 0; turn < 2; turn++)
        for (unsigned i = 0; i < d->outer_count; i++)
            if ((d->reused && d->axes[i]->repeated) == (turn == 1)) opened = open_axis(d, d->axes[i], opened);
    /* A top-level loop is a kernel: what it carries has to be inside. */
    if (opened || d->style->naive) return;
    if (d->vectors) design_line(d, "@llm_hint(\"vectorize\")");
    design_line(d, "for once in range(1):");
    d->depth++;
}

DesignTile design_storable(Design *d, DesignTile t, const IrType *type, unsigned rank, DesignAxis *const *axes) {
    const char *text = design_align(d, &t, rank, axes);
    bool whole = t.rank == rank && t.is_tile && (!t.is_loaded || d->depth);
    if (whole && text == t.text) return t;
    Str shape;
    str_init(&shape);
    for (unsigned i = 0; i < rank; i++) str_printf(&shape, "%s%s", i ? ", " : "", design_extent(d, axes[i]));
    if (!t.is_tile) {
        DesignTile filled = {.text = design_name(d), .rank = rank, .is_tile = true};
        design_line(d, "%s = alloc([%s], dtype=%s)", filled.text, shape.data, dtype_name(type->dtype));
        design_line(d, "copy(%s, %s)", t.text, filled.text);
        t = filled;
    } else if (t.rank < rank) {
        t = design_let(d, arena_printf(d->arena, "broadcast(%s, [%s])", text, shape.data), rank, axes, t.dtype);
    } else {
        t = design_let(d, text == t.text ? arena_printf(d->arena, "copy(%s)", text) : text, rank, axes, t.dtype);
    }
    str_release(&shape);
    return t;
}

/* The tiles that hold the results, ready to be stored. */
static DesignTile result_tile(Design *d, const DesignResults *r, unsigned i, unsigned rank, DesignAxis *const *axes) {
    DesignTile t = d->beside ? design_beside(d, r->values[i]) : design_value(d, r->values[i], d->place);
    return d->error ? t : design_storable(d, t, r->values[i]->type, rank, axes);
}

static void store_results(Design *d, const DesignResults *r) {
    DesignAxis *axes[DESIGN_RANK];
    DesignTile tiles[DESIGN_AXES];
    unsigned rank = 0, ready = 0;
    for (unsigned i = 0; i < d->outer_count; i++)
        if (d->axes[i]->walk != WALK_POINT || d->axes[i] == d->beside) axes[rank++] = d->axes[i];
    for (unsigned i = 0; i < r->count && !d->error; i++) {
        /* Where a store overwrites what is read all reads come first. */
        for (; ready < (d->writes ? r->count : i + 1) && !d->error; ready++) tiles[ready] = result_tile(d, r, ready, rank, axes);
        if (d->error) break;
        design_line(d, "store(%s -> %s%s)", tiles[i].text, design_target(d, r->names[i]), r->unique ? ", unique=true" : "");
    }
}

static void run_nest(Design *d, const DesignResults *r, bool dry) {
    const IrType *type = r->values[0]->type;
    d->dry = dry;
    d->known.len = d->bindings.len = 0;
    d->axis_count = d->depth = 0;
    design_splits(d, r->values[0]);
    if (!design_outer_axes(d, type)) return;
    choose_walks(d);
    for (unsigned i = 0; !dry && r->unique && i < d->outer_count; i++)
        if (d->axes[i]->walk == WALK_WHOLE) d->crowded |= r->bits;
    if (!dry) open_outer(d);
    store_results(d, r);
}

void design_begin_nest(Design *d, Design *around, const DesignResults *r, Str *body) {
    *around = *d;
    memset(d->axes, 0, sizeof d->axes);
    memset(&d->known, 0, sizeof d->known);
    memset(&d->bindings, 0, sizeof d->bindings);
    d->body = body;
    d->beside = NULL;
    d->in_product = d->direct = d->lanes = d->turns = d->bounded = d->reused = false;
    d->writes = r->bits & d->inout;
    str_init(body);
}

bool design_end_nest(Design *d, const Design *around, Str *body) {
    Design done = *d;
    str_append_n(d->nests, body->data, body->len);
    str_release(body);
    *d = *around;
    d->names = done.names;
    d->view_count = done.view_count;
    d->staged.data = done.staged.data;
    d->staged.len = done.staged.len;
    d->staged.cap = done.staged.cap;
    d->constexprs.data = done.constexprs.data;
    d->constexprs.len = done.constexprs.len;
    d->constexprs.cap = done.constexprs.cap;
    d->bound_count = done.bound_count;
    d->made_of = done.made_of;
    d->op_count = done.op_count;
    d->ahead |= done.ahead;
    d->varied |= done.varied;
    d->limited |= done.limited;
    d->owned |= done.owned;
    d->late |= done.late;
    d->moved |= done.moved;
    d->crowded |= done.crowded;
    d->error = done.error;
    d->error_at = done.error_at;
    return !d->error;
}

/* Writes a nest, twice: first to find out about its axes. The state of a nest around it is kept. */
static bool write_walked(Design *d, const DesignResults *r) {
    Design around;
    Str body, views;
    size_t constexprs = d->constexprs.len;
    unsigned view_count = d->view_count, names = d->names;
    design_begin_nest(d, &around, r, &body);
    str_init(&views);
    d->views = &views;
    run_nest(d, r, true);
    str_release(&body);
    str_release(&views);
    d->views = d->all_views;
    str_init(&body);
    if (d->staged.len == around.staged.len) { /* no nest inside took numbers */
        d->constexprs.len = constexprs;
        d->view_count = view_count;
        d->names = names;
    }
    if (!d->error) d->style = design_nest_style(d, r);
    if (!d->error) run_nest(d, r, false);
    design_add_region(d, r, NULL, &body);
    return design_end_nest(d, &around, &body);
}

static bool write_nest(Design *d, const DesignResults *r) {
    IrOp *anchor = design_of_library(d->style) ? design_anchor(d, r->values[0]) : NULL;
    return anchor ? design_bind(d, anchor, r) : write_walked(d, r);
}

/* ---- Workspaces ---- */

const char *design_staged_name(const Design *d, const IrValue *v) {
    for (size_t i = 0; i < d->staged.len; i++)
        if (d->staged.data[i].value == v) return d->staged.data[i].name;
    return NULL;
}

bool design_is_stored(const IrValue *v) {
    return v->def && v->def->opcode == IR_GRAPH_GENERIC && ir_attr_int(v->def, "stored", 0) > 0;
}

static const char *add_workspace(Design *d, IrValue *v) {
    const char *name = design_free_name(d, arena_printf(d->arena, "W%zu", d->staged.len));
    const IrType *t = design_declared(d, name, v->type);
    Str shape;
    str_init(&shape);
    for (unsigned i = 0; i < t->rank; i++) str_printf(&shape, "%s%s", i ? ", " : "", design_aff_text(d, t->extents[i]));
    str_printf(d->nests, "    %s = alloc([%s], dtype=%s)\n", name, shape.data, dtype_name(v->type->dtype));
    str_release(&shape);
    VEC_PUSH(d->arena, &d->staged, (DesignStaged){v, name});
    return name;
}

bool design_stage_together(Design *d, size_t count, IrValue *const *values) {
    DesignResults r = {0};
    const DesignResults *outside = d->staging;
    if (values[0]->type->kind != IR_TYPE_TENSOR) return design_fail(d, "this value cannot be staged");
    for (size_t i = 0; i < count; i++) {
        r.values[r.count] = values[i];
        r.names[r.count++] = add_workspace(d, values[i]);
    }
    d->staging = &r;
    bool ok = write_nest(d, &r);
    d->staging = outside;
    return ok;
}

bool design_stage(Design *d, IrValue *v) {
    return design_staged_name(d, v) || design_stage_together(d, 1, &v);
}

/* ---- The sketch ---- */

static void print_symbols(Design *d, Str *out) {
    const IrFunc *f = d->f;
    unsigned n = 0;
    for (unsigned i = 0; i < f->param_count; i++) {
        const IrParam *p = &f->params[i];
        if (p->kind != IR_PARAM_SYMBOL) continue;
        str_printf(out, "%s%s", n++ ? ", " : "    symbols: ", p->name);
        if (p->derived) str_printf(out, " = %s", design_aff_text(d, p->derived));
    }
    for (size_t i = 0; i < f->constraint_count; i++) str_printf(out, "%s%s", n++ ? ", " : "    symbols: ", f->constraints[i].text);
    if (n) str_append(out, ";\n");
}

static void print_tensor(Design *d, const char *name, const IrType *type, unsigned *n, Str *out) {
    const IrType *t = design_declared(d, name, type);
    str_printf(out, "%s%s[", (*n)++ ? ", " : "    tensors: ", name);
    for (unsigned i = 0; i < t->rank; i++) str_printf(out, "%s%s", i ? ", " : "", design_aff_text(d, t->extents[i]));
    str_printf(out, "]: %s", dtype_name(t->dtype));
}

/* The tensor parameter of this name, if it is read. */
static IrValue *read_param(const IrFunc *f, const bool *live, const char *name) {
    for (unsigned i = 0; i < f->param_count; i++)
        if (f->params[i].kind == IR_PARAM_TENSOR && live[i] && strcmp(f->params[i].name, name) == 0) return f->body->args[i];
    return NULL;
}

static void print_head(Design *d, Str *out) {
    const IrFunc *f = d->f;
    const IrAttr *names = ir_attr(f->body->last, "names");
    unsigned tensors = 0, scalars = 0;
    print_symbols(d, out);
    for (unsigned i = 0; i < f->param_count; i++)
        if (f->params[i].kind == IR_PARAM_TENSOR && d->live[i]) print_tensor(d, f->params[i].name, f->body->args[i]->type, &tensors, out);
    for (size_t i = 0; i < names->count; i++)
        if (!read_param(f, d->live, names->strs[i])) print_tensor(d, names->strs[i], f->body->last->operands[i]->type, &tensors, out);
    if (tensors) str_append(out, ";\n");
    for (unsigned i = 0; i < f->param_count; i++)
        if (f->params[i].kind == IR_PARAM_SCALAR)
            str_printf(out, "%s%s: %s", scalars++ ? ", " : "    scalars: ", f->params[i].name, dtype_name(f->body->args[i]->type->dtype));
    if (scalars) str_append(out, ";\n");
    for (size_t i = 0; i < d->constexprs.len; i++)
        str_printf(out, "%s%s = %lld", i ? ", " : "    constexpr: ", d->constexprs.data[i].name, (long long)d->constexprs.data[i].value);
    if (d->constexprs.len) str_append(out, ";\n");
}

static void keep_tensors(Design *d, uint64_t kept) {
    const IrAttr *names = ir_attr(d->f->body->last, "names");
    for (size_t i = 0; i < names->count && !d->error; i++)
        if (kept >> i & 1) design_stage(d, read_param(d->f, d->live, names->strs[i]));
}

static void write_results(Design *d, const DesignResults *nests, size_t count) {
    for (size_t written = 0; written < count && !d->error; written++) {
        size_t next = design_next_nest(d, nests, count);
        if (!write_nest(d, &nests[next])) return;
        d->stored |= nests[next].bits;
        d->overwritten = d->stored & d->inout;
    }
}

/* The nests and their views; true when the remedy grew, so that all has to be written again. */
static bool write_all(Design *d, DesignRemedy *remedy) {
    DesignResults *nests = ARENA_ARRAY(d->arena, DesignResults, DESIGN_NESTS);
    design_order_init(d);
    keep_tensors(d, remedy->kept);
    if (!d->error && d->style->staging == STAGE_PRODUCTS) design_stage_products(d);
    if (!d->error && design_of_library(d->style))
        design_stage_library(d);
    else if (!d->error && design_by_form(d->style) && !design_stage_folds(d))
        design_fail(d, "no fold is used again");
    if (!d->error && d->style->staging == STAGE_PACKED && design_stage_windows(d)) design_stage_folds(d);
    size_t count = design_group_results(d, remedy->apart, nests); /* behind what makes one fold two */
    if (!d->error) write_results(d, nests, count);
    return design_remedy(d, nests, count, remedy) || d->merges->grew;
}

static uint64_t updated(const IrFunc *f, const bool *live) {
    const IrAttr *names = ir_attr(f->body->last, "names");
    uint64_t found = 0;
    for (size_t i = 0; names && i < names->count; i++)
        if (read_param(f, live, names->strs[i])) found |= (uint64_t)1 << i;
    return found;
}

bool design_updates(Arena *arena, const IrFunc *f) {
    return updated(f, design_live_params(arena, f)) != 0;
}

bool design_sketch(Arena *arena, IrFunc *f, const DesignStyle *style, const DesignOptions *options, Str *out, DesignError *error) {
    Str views, nests;
    Design d;
    const bool *live = design_live_params(arena, f);
    DesignStyle used;
    DesignRemedy remedy = {.kept = options->copies ? updated(f, live) : 0};
    DesignMerges merges = {0};
    bool again = true;
    str_init(&views);
    str_init(&nests);
    while (again) {
        str_release(&views);
        str_release(&nests);
        str_init(&views);
        str_init(&nests);
        merges.grew = false;
        if (options->regions) options->regions->len = 0;
        d = (Design){.arena = arena,
                     .module = f->module,
                     .f = f,
                     .style = style,
                     .options = options,
                     .vectors = options->vectors && !style->naive,
                     .singles = design_has_singles(f),
                     .live = live,
                     .variant = variant_of(style),
                     .merges = &merges,
                     .inout = updated(f, live),
                     .views = &views,
                     .all_views = &views,
                     .nests = &nests};
        used = design_style_used(&d, style, options);
        d.style = &used;
        if (used.inner == 1 && !design_folds_anything(f)) design_fail(&d, "nothing is folded, and single elements gain nothing");
        again = !d.error && write_all(&d, &remedy);
    }
    if (!d.error && style->stages && !d.ahead) design_fail(&d, "no loop over the factors of a product");
    if (!d.error && d.variant && !d.varied) design_fail(&d, "no sketch of the library that lists other tiles");
    if (!d.error && style->staging == STAGE_LIMITED && !d.limited)
        design_fail(&d, "no sketch of the library that is for these sizes alone");
    if (!d.error && style->staging == STAGE_OWN && !d.owned) design_fail(&d, "no sketch of the user's own library makes a product");
    if (!d.error) {
        if (options->name)
            str_printf(out, "sketch %s implements %s {\n", options->name, options->op_name);
        else
            str_printf(out, "sketch %s_%s implements %s {\n", f->name, style->name, options->op_name);
        print_head(&d, out);
        str_printf(out, "%s\n%s}\n", views.data, nests.data);
    }
    str_release(&views);
    str_release(&nests);
    *error = (DesignError){d.error, d.error_at};
    return !d.error;
}
