/* design: which nests of a sketch belong together, what they store and why it stands apart: what --explain tells. */
#include "design_internal.h"
#include "query.h"

#include <string.h>

/* Constexprs of a library's sketch that are told: its files list the extents of a block's tile first, rows, columns, sum. Nothing was measured. */
enum { TOLD = 3 };

static const char *why_apart(const Design *d, const IrValue *v) {
    unsigned readers = 0;
    bool product = false, fold = false, moved = false;
    for (const IrUse *u = v->uses; u; u = u->next) {
        if (u->op == d->f->body->last) continue;
        readers++;
        product |= design_is_contraction(u->op);
        fold |= design_folds(u->op);
        moved |= ir_has_trait(u->op, IR_MOVES);
    }
    if (product) return "a product reads it";
    if (fold) return "a reduction reads it";
    return readers > 1 ? "several operations read it" : moved ? "it is read in another order" : "what reads it would make it again";
}

static const char *join(Design *d, const char *list, const char *item) {
    return arena_printf(d->arena, "%s%s%s", list, *list ? ", " : "", item);
}

/* ---- What it reads ---- */

/* The tensor that a view sees; the name itself where it is no view's. */
static const char *base_of(Design *d, const char *name) {
    const char *view = strstr(d->all_views->data, arena_printf(d->arena, "view %s[", name)), *base = view ? strstr(view, "] = ") : NULL;
    return base ? arena_strndup(d->arena, base + 4, strcspn(base + 4, "[")) : name;
}

static bool is_in(const char *list, const char *item) {
    size_t n = strlen(item);
    for (const char *at = strstr(list, item); at; at = strstr(at + 1, item))
        if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ',')) return true;
    return false;
}

/* Else it is a workspace of the region's own. */
static bool is_from_outside(const Design *d, const char *name) {
    bool is = false;
    for (unsigned i = 0; i < d->f->param_count; i++) is |= strcmp(d->f->params[i].name, name) == 0;
    for (size_t i = 0; i < d->staged.len; i++) is |= strcmp(d->staged.data[i].name, name) == 0;
    return is;
}

static const char *reads_of(Design *d, const char *text) {
    const char *list = "";
    for (const char *at = strstr(text, "load("); at; at = strstr(at, "load(")) {
        at += strlen("load(");
        const char *name = base_of(d, arena_strndup(d->arena, at, strcspn(at, "[ ,)")));
        if (is_from_outside(d, name) && !is_in(list, name)) list = join(d, list, name);
    }
    return list;
}

/* ---- How it is made ---- */

static const char *walks_of(Design *d) {
    const char *list = "";
    for (unsigned i = 0; i < d->outer_count; i++) {
        const DesignAxis *a = d->axes[i];
        const char *extent = design_aff_text(d, a->extent);
        if (a->single) continue;
        list = join(d, list,
                    a->walk == WALK_TILE    ? arena_printf(d->arena, "%s by %s", extent, a->tile)
                    : a->walk == WALK_POINT ? arena_printf(d->arena, "%s one by one", extent)
                                            : arena_printf(d->arena, "%s whole", extent));
    }
    return *list ? list : "one element";
}

static const char *tiles_of(Design *d, const LibrarySketch *s) {
    const char *list = "";
    for (size_t i = 0; i < s->constexprs.len && i < TOLD; i++)
        for (size_t k = 0; k < d->constexprs.len; k++)
            if (strcmp(d->constexprs.data[k].name, design_free_name(d, s->constexprs.data[i].name)) == 0)
                list =
                    join(d, list, arena_printf(d->arena, "%s = %lld", s->constexprs.data[i].name, (long long)d->constexprs.data[k].value));
    return list;
}

static unsigned nests_in(const char *text) {
    unsigned count = 0;
    for (const char *at = text; at && *at; at = strchr(at, '\n'), at += at != NULL)
        count += strncmp(at, "    for ", 8) == 0 || strncmp(at, "    if ", 7) == 0;
    return count;
}

void design_add_region(Design *d, const DesignResults *r, const LibrarySketch *by, const Str *body) {
    DesignRegions *all = d->options->regions;
    DesignRegion region = {
        .values = "", .sketch = by ? by->name : NULL, .why = d->staging == r ? why_apart(d, r->values[0]) : "it is a result"};
    if (!all || d->error) return;
    for (unsigned i = 0; i < r->count; i++) region.values = join(d, region.values, r->names[i]);
    region.how = by ? tiles_of(d, by) : walks_of(d);
    region.reads = reads_of(d, body->data);
    region.nests = nests_in(body->data);
    VEC_PUSH(d->arena, all, region);
}
