/* In the sketch: how results reach their tensors. */
#include "print_internal.h"

#include <string.h>

static const char *limit(Sketch *s, unsigned result, const Form *form) {
    Form limits = limits_form(s->p, form);
    const char *name = new_name(s), *at = "";
    for (unsigned i = 0; i < limits.rank; i++)
        at = limits.dims[i].full ? arena_printf(s->arena, "%s%s%c", at, i ? ", " : "", loop_variable(limits.dims[i].axis))
                                 : arena_printf(s->arena, "%s%s0", at, i ? ", " : "");
    line(s, "%s = alloc([])", name);
    line(s, "load(E%u[%s] -> %s)", result, at, name);
    return name;
}

static const char *limited_slice(Sketch *s, unsigned axis, const char *end) {
    const Axis *a = &s->p->axes[axis];
    char v = loop_variable(axis);
    const char *t = tile_text(s, axis);
    if (a->walk == WALK_WHOLE) return arena_printf(s->arena, "0:min(%s, %s)", extent_text(s, axis), end);
    if (a->by_step) return arena_printf(s->arena, "%c:min(%c + %s, %s)", v, v, t, end);
    return arena_printf(s->arena, "%c*%s:min((%c + 1)*%s, %s)", v, t, v, t, end);
}

static const char *flipped_slice(Sketch *s, unsigned axis) {
    const char *e = extent_text(s, axis), *t = tile_text(s, axis);
    char v = loop_variable(axis);
    if (s->p->axes[axis].by_step) return arena_printf(s->arena, "%s - %c - %s:%s - %c", e, v, t, e, v);
    return arena_printf(s->arena, "%s - (%c + 1)*%s:%s - %c*%s", e, v, t, e, v, t);
}

/* The slices of the form, with `special` in place of the axis's. */
static const char *slices_with(Sketch *s, const Form *form, unsigned axis, const char *special) {
    const char *text = "";
    for (unsigned i = 0; i < form->rank; i++)
        text = arena_printf(s->arena, "%s%s%s", text, i ? ", " : "",
                            form->dims[i].axis == axis ? special : slice_text(s, form->dims[i].axis, form->dims[i].full));
    return text;
}

static const char *mode_name(unsigned mode) {
    return mode == BUILTIN_ADD ? "add" : mode == BUILTIN_MAX ? "max" : "min";
}

static void store_by_mode(Sketch *s, unsigned result, const char *tile) {
    const Result *r = &s->p->results[result];
    const char *fold = r->mode == BUILTIN_ADD ? "reduce_sum" : r->mode == BUILTIN_MAX ? "reduce_max" : "reduce_min";
    Form form = s->p->nodes[r->node].form, left = result_form(s->p, r);
    for (unsigned i = form.rank; i-- > 0;) {
        int at = tile_place(s, &form, form.dims[i].axis);
        if (!(r->dropped & 1u << form.dims[i].axis)) continue;
        if (at >= 0) {
            const char *folded = new_name(s);
            line(s, "%s = %s(%s, axis=%d)", folded, fold, tile, at);
            tile = folded;
        }
        for (unsigned k = i; k + 1 < form.rank; k++) form.dims[k] = form.dims[k + 1];
        form.rank--;
    }
    line(s, "store(%s -> Y%u[%s], mode=%s)", tile, result, slices_text(s, &left), mode_name(r->mode));
}

static void store_limited(Sketch *s, unsigned result, const char *tile) {
    const Result *r = &s->p->results[result];
    const Node *n = &s->p->nodes[r->node];
    const char *end = limit(s, result, &n->form), *more = declare(s, n, DTYPE_NONE, NULL), *sum = new_name(s);
    line(s, "load(N%u[%s] -> %s)", result, slices_with(s, &n->form, r->axis, limited_slice(s, r->axis, end)), more);
    line(s, "%s = %s + %s", sum, tile, more);
    line(s, "store(%s -> Y%u[%s])", sum, result, slices_text(s, &n->form));
}

static void store_scattered(Sketch *s, unsigned result, const char *tile) {
    const Result *r = &s->p->results[result];
    const Form *form = &s->p->nodes[r->node].form;
    Form rows = {.rank = 1, .dims = {form->dims[0]}};
    const char *at = new_name(s);
    line(s, "%s = alloc([%s])", at, shape_text(s, &rows));
    line(s, "load(I%u[%s] -> %s)", result, slices_text(s, &rows), at);
    line(s, "store(%s -> Y%u[%s], mode=add)", tile, result, slices_with(s, form, form->dims[0].axis, at));
}

static void store_indexed(Sketch *s, unsigned result, const char *tile) {
    const Result *r = &s->p->results[result];
    const Form *form = &s->p->nodes[r->node].form;
    const Axis *a = &s->p->axes[r->axis];
    Form positions = {.rank = 1, .dims = {{r->axis, true}}};
    const char *at = new_name(s), *shape = shape_text(s, &positions);
    char v = loop_variable(r->axis);
    if (a->walk == WALK_WHOLE)
        line(s, "%s = iota([%s])", at, shape);
    else if (a->by_step)
        line(s, "%s = iota([%s]) + %c", at, shape, v);
    else
        line(s, "%s = iota([%s]) + %c*%s", at, shape, v, tile_text(s, r->axis));
    line(s, "store(%s -> Y%u[%s], unique=true)", tile, result, slices_with(s, form, r->axis, at));
}

void sketch_store(Sketch *s, unsigned result) {
    const Result *r = &s->p->results[result];
    const Form *form = &s->p->nodes[r->node].form;
    const char *tile = sketch_value(s, r->node);
    if (tile[0] != 'v' || strchr(tile, ' ')) {
        const char *name = new_name(s);
        line(s, "%s = %s", name, tile);
        tile = s->tile[r->node] = name;
    }
    if (s->to_workspace) {
        line(s, "store(%s -> %c%u[%s])", tile, has_workspace_view(s->p, true) ? 'K' : 'w', r->node, slices_text(s, form));
        return;
    }
    switch (r->kind) {
    case STORE_MODE:
        store_by_mode(s, result, tile);
        break;
    case STORE_LIMITED:
        store_limited(s, result, tile);
        break;
    case STORE_SCATTER:
        store_scattered(s, result, tile);
        break;
    case STORE_INDEXED:
        store_indexed(s, result, tile);
        break;
    case STORE_FLIPPED: {
        const char *name = new_name(s);
        line(s, "%s = flip(%s, axis=%d)", name, tile, tile_place(s, form, r->axis));
        line(s, "store(%s -> Y%u[%s])", name, result, slices_with(s, form, r->axis, flipped_slice(s, r->axis)));
        break;
    }
    case STORE_IN_PLACE:
        line(s, "store(%s -> T%u[%s])", tile, r->axis, slices_text(s, form));
        break;
    default:
        line(s, "store(%s -> Y%u[%s])", tile, result, slices_text(s, form));
    }
}

/* What is added to begins with 0. */
void sketch_zero(Sketch *s, unsigned result) {
    const Result *r = &s->p->results[result];
    Form form = result_form(s->p, r);
    unsigned opened = 0;
    for (unsigned i = 0; i < form.rank; i++)
        if (form.dims[i].full && s->p->axes[form.dims[i].axis].walk != WALK_WHOLE) {
            open_loop(s, form.dims[i].axis, true);
            opened++;
        }
    line(s, "z%u = alloc([%s], dtype=%s, init=0)", result, shape_text(s, &form), dtype_name(r->dtype));
    line(s, "store(z%u -> Y%u[%s])", result, result, slices_text(s, &form));
    s->depth -= opened;
    s->loop_count -= opened;
    memset(s->inside, 0, sizeof s->inside);
}
