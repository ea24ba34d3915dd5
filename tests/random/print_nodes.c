/* In the sketch: values that are more than an operation on each lane. */
#include "print_internal.h"

#include <string.h>

/* ---- Slices with offsets and steps ---- */

/* The axis's part of the source with `stride` elements for each index, `offset` behind: "" or " + 2". */
static const char *strided_slice(Sketch *s, unsigned axis, int stride, const char *offset) {
    const Axis *a = &s->p->axes[axis];
    char v = loop_variable(axis);
    const char *t = tile_text(s, axis), *times = stride > 1 ? arena_printf(s->arena, "%d*", stride) : "";
    const char *step = stride > 1 ? arena_printf(s->arena, ":%d", stride) : "";
    if (a->walk == WALK_ONE) return arena_printf(s->arena, "%s%c%s", times, v, offset);
    if (a->walk == WALK_WHOLE) return arena_printf(s->arena, "0%s:%s%s%s%s", offset, times, extent_text(s, axis), offset, step);
    if (a->by_step) return arena_printf(s->arena, "%s%c%s:%s(%c + %s)%s%s", times, v, offset, times, v, t, offset, step);
    return arena_printf(s->arena, "%s%c*%s%s:%s(%c + 1)*%s%s%s", times, v, t, offset, times, v, t, offset, step);
}

/* A slice cannot reverse or halve; where it runs past the source, pad= has to say what is there. */
static bool is_slice(Sketch *s, const Node *n) {
    if (n->swapped || !(n->style & 1)) return false;
    for (unsigned i = 0; i < n->form.rank; i++) {
        const IndexMap *map = &n->maps[i];
        bool whole = s->p->axes[n->form.dims[i].axis].walk == WALK_WHOLE;
        if (map->kind == MAP_REVERSED || map->kind == MAP_HALVED) return false;
        if (map->kind == MAP_SHIFTED && (!n->padded || (whole && map->amount < 0))) return false;
    }
    return true;
}

static const char *make_view(Sketch *s, unsigned node) {
    const Node *n = &s->p->nodes[node];
    bool slice = is_slice(s, n);
    const char *name = declare(s, n, DTYPE_NONE, NULL);
    Str source;
    str_init(&source);
    str_printf(&source, "%c%u[", slice ? 'T' : 'V', node);
    for (unsigned i = 0; i < n->form.rank; i++) {
        Dim d = n->form.dims[i];
        const IndexMap *map = &n->maps[i];
        bool moved = slice && (map->kind == MAP_SHIFTED || map->kind == MAP_STRIDED);
        int offset = moved ? view_offset(n, i) : 0;
        const char *behind = !offset ? "" : offset < 0 ? arena_printf(s->arena, " - %d", -offset) : arena_printf(s->arena, " + %d", offset);
        str_printf(&source, "%s%s", i ? ", " : "",
                   moved ? strided_slice(s, d.axis, map->kind == MAP_STRIDED ? map->amount : 1, behind) : slice_text(s, d.axis, d.full));
    }
    str_append(&source, "]");
    if (n->padded)
        line(s, "load(%s -> %s, pad=%d)", source.data, name, (int)n->number);
    else
        line(s, "load(%s -> %s)", source.data, name);
    str_release(&source);
    return name;
}

/* A table of one axis may be a tile that is gathered from. */
static const char *gathered_from(Sketch *s, unsigned node, const Form *at) {
    const Node *n = &s->p->nodes[node];
    if (at->rank != n->form.rank || !(n->style & 1)) return arena_printf(s->arena, "T%u", node);
    const char *table = arena_printf(s->arena, "g%u", node);
    line(s, "%s = alloc([%u])", table, (unsigned)s->p->axes[n->axis].extent);
    line(s, "load(T%u -> %s)", node, table);
    return table;
}

static const char *make_gather(Sketch *s, unsigned node) {
    const Node *n = &s->p->nodes[node];
    const Form *at = &s->p->nodes[n->operands[0]].form;
    const char *index = sketch_value(s, n->operands[0]), *name = declare(s, n, DTYPE_NONE, NULL);
    Str source;
    str_init(&source);
    for (unsigned i = 0; i < n->form.rank; i++) {
        bool first = i == n->place;
        const char *part = first ? index : slice_text(s, n->form.dims[i].axis, true);
        str_printf(&source, "%s%s", i ? ", " : "", part);
        if (first) i += at->rank - 1;
    }
    bool pad = n->padded || !tile_rank(s, at);
    line(s, "load(%s[%s] -> %s%s)", gathered_from(s, node, at), source.data, name,
         pad ? arena_printf(s->arena, ", pad=%d", (int)n->number) : "");
    str_release(&source);
    return name;
}

static const char *make_window(Sketch *s, unsigned node) {
    const Node *n = &s->p->nodes[node];
    bool sum = n->op == BUILTIN_REDUCE_SUM;
    const char *acc = declare(s, n, DTYPE_F32, sum ? "0" : "-inf");
    const char *offset = arena_printf(s->arena, " + %d*k%u", n->dilation, node);
    line(s, "for k%u in range(%u):", node, n->rounds);
    s->depth++;
    const char *x = declare(s, n, DTYPE_NONE, NULL);
    Str source;
    str_init(&source);
    for (unsigned i = 0; i < n->form.rank; i++) {
        unsigned axis = n->form.dims[i].axis;
        str_printf(&source, "%s%s", i ? ", " : "", axis == n->axis ? strided_slice(s, axis, n->stride, offset) : slice_text(s, axis, true));
    }
    line(s, "@llm_hint(\"sliding_window\")");
    line(s, "load(T%u[%s] -> %s, pad=%s)", node, source.data, x, sum ? "0" : "-inf");
    str_release(&source);
    if (sum) {
        const char *factor = new_name(s);
        line(s, "%s = alloc([])", factor);
        line(s, "load(F%u[k%u] -> %s)", node, node, factor);
        line(s, "%s += %s * %s", acc, x, factor);
    } else {
        line(s, "max(%s, %s, %s)", acc, x, acc);
    }
    s->depth--;
    return acc;
}

/* The first lanes of the axis only: its loop ends at a loaded number. */
static const char *make_ragged(Sketch *s, unsigned node) {
    const Node *n = &s->p->nodes[node];
    bool sum = n->op == BUILTIN_REDUCE_SUM, max = n->op == BUILTIN_REDUCE_MAX;
    const Axis *k = &s->p->axes[n->axis];
    const char *t = tile_text(s, n->axis), *end = new_name(s), *x = new_name(s);
    char v = loop_variable(n->axis);
    Form limits = limits_form(s->p, &n->form);
    line(s, "%s = alloc([])", end);
    Str at, shape;
    str_init(&at);
    for (unsigned i = 0; i < limits.rank; i++) {
        if (limits.dims[i].full)
            str_printf(&at, "%c, ", loop_variable(limits.dims[i].axis));
        else
            str_append(&at, "0, ");
    }
    line(s, "load(L%u[%s0] -> %s)", node, at.data, end);
    str_release(&at);
    const char *acc = declare(s, n, DTYPE_F32, sum ? "0" : max ? "-8" : "8");
    if (k->by_step)
        line(s, "for %c in range(0, %s, %s):", v, end, t);
    else
        line(s, "for %c in range(0, ceil(%s, %s)):", v, end, t);
    s->depth++;
    const char *outer = shape_text(s, &n->form);
    str_init(&shape);
    str_printf(&shape, "%s%s%s", outer, *outer ? ", " : "", t);
    line(s, "%s = alloc([%s])", x, shape.data);
    str_release(&shape);
    const char *slice = k->by_step ? arena_printf(s->arena, "%c:min(%c + %s, %s)", v, v, t, end)
                                   : arena_printf(s->arena, "%c*%s:min((%c + 1)*%s, %s)", v, t, v, t, end);
    line(s, "load(T%u[%s, %s] -> %s)", node, slices_text(s, &n->form), slice, x);
    line(s, "%s = %s(%s, %s(%s, axis=%u))", acc,
         sum   ? "add"
         : max ? "max"
               : "min",
         acc, builtin_info((BuiltinId)n->op)->name, x, tile_rank(s, &n->form));
    s->depth--;
    return acc;
}

/* ---- Positions ---- */

/* Where a tile of the axis begins, as a term behind: "" or " + a*8". */
static const char *first_position(Sketch *s, unsigned axis) {
    const Axis *a = &s->p->axes[axis];
    char v = loop_variable(axis);
    if (a->walk == WALK_WHOLE) return "";
    if (a->by_step) return arena_printf(s->arena, " + %c", v);
    return arena_printf(s->arena, " + %c*%s", v, tile_text(s, axis));
}

static const char *make_iota(Sketch *s, const Node *n) {
    if (s->p->axes[n->axis].walk == WALK_ONE) return arena_printf(s->arena, "%c", loop_variable(n->axis));
    return arena_printf(s->arena, "(iota([%s], axis=0)%s)", shape_text(s, &n->form), first_position(s, n->axis));
}

static const char *make_random(Sketch *s, const Node *n) {
    const char *position = NULL;
    for (unsigned i = 0; i < n->form.rank; i++) {
        unsigned axis = n->form.dims[i].axis;
        const char *index = s->p->axes[axis].walk == WALK_ONE
                                ? arena_printf(s->arena, "%c", loop_variable(axis))
                                : arena_printf(s->arena, "(iota([%s], axis=%d, dtype=i64)%s)", shape_text(s, &n->form),
                                               tile_place(s, &n->form, axis), first_position(s, axis));
        position = position ? arena_printf(s->arena, "(%s*%s + %s)", position, extent_text(s, axis), index) : index;
    }
    return arena_printf(s->arena, "random(%s, seed=%d)", position, (int)n->number);
}

/* ---- Movements ---- */

static const char *copied(Sketch *s, const char *operand) {
    const char *name = new_name(s);
    line(s, "%s = copy(%s)", name, operand);
    return name;
}

/* Of the dims that the tile has. */
static const char *make_transpose(Sketch *s, const Node *n) {
    const char *operand = sketch_value(s, n->operands[0]);
    const Form *from = &s->p->nodes[n->operands[0]].form;
    unsigned order[MAX_DOMAIN], rank = 0;
    bool moves = false;
    for (unsigned i = 0; i < n->form.rank; i++) {
        int at = tile_place(s, from, n->form.dims[i].axis);
        if (at < 0) continue;
        moves |= (unsigned)at != rank;
        order[rank++] = (unsigned)at;
    }
    if (!moves) return copied(s, operand);
    const char *name = new_name(s), *axes = "";
    for (unsigned i = 0; i < rank; i++) axes = arena_printf(s->arena, "%s%s%u", axes, i ? ", " : "", order[i]);
    if (rank == 2 && n->style & 1)
        line(s, "%s = transpose(%s)", name, operand);
    else
        line(s, "%s = transpose(%s, axes=[%s])", name, operand, axes);
    return name;
}

static const char *make_matmul(Sketch *s, unsigned node) {
    const Node *n = &s->p->nodes[node];
    const char *a = sketch_value(s, n->operands[0]);
    Node matrix = *n;
    matrix.form = (Form){.rank = 2, .dims = {{n->axis, true}, n->form.dims[n->form.rank - 1]}};
    const char *b = declare(s, &matrix, DTYPE_NONE, NULL), *name = new_name(s);
    line(s, "load(M%u -> %s)", node, b);
    line(s, n->style & 2 ? "%s = %s @ %s" : "%s = matmul(%s, %s)", name, a, b);
    return name;
}

static const char *make_movement(Sketch *s, const Node *n) {
    const char *operand = sketch_value(s, n->operands[0]), *name;
    if (n->kind == NODE_BROADCAST && strcmp(shape_text(s, &n->form), shape_text(s, &s->p->nodes[n->operands[0]].form)) == 0)
        return copied(s, operand);
    if (n->kind == NODE_CONCAT) {
        const char *second = sketch_value(s, n->operands[1]);
        name = new_name(s);
        line(s, "%s = concat(%s, %s, axis=%d)", name, operand, second, tile_place(s, &n->form, n->form.dims[n->place].axis));
        return name;
    }
    name = new_name(s);
    line(s, "%s = %s(%s, [%s])", name, n->kind == NODE_RESHAPE ? "reshape" : "broadcast", operand, shape_text(s, &n->form));
    return name;
}

static const char *make_topk(Sketch *s, unsigned node) {
    const Node *n = &s->p->nodes[node];
    const Form *from = &s->p->nodes[n->operands[0]].form;
    const char *operand = sketch_value(s, n->operands[0]);
    const char *values = new_name(s), *indices = new_name(s);
    line(s, "%s, %s = topk(%s, %u, axis=%d)", values, indices, operand, n->rounds, tile_place(s, from, n->axis));
    return n->second ? indices : values;
}

const char *sketch_more(Sketch *s, unsigned node) {
    const Node *n = &s->p->nodes[node];
    const char *name;
    switch (n->kind) {
    case NODE_VIEW:
        return make_view(s, node);
    case NODE_GATHER:
        return make_gather(s, node);
    case NODE_WINDOW:
        return make_window(s, node);
    case NODE_RAGGED:
        return make_ragged(s, node);
    case NODE_IOTA:
        return make_iota(s, n);
    case NODE_RANDOM:
        return make_random(s, n);
    case NODE_TRANSPOSE:
        return make_transpose(s, n);
    case NODE_MATMUL:
        return make_matmul(s, node);
    case NODE_TOPK:
        return make_topk(s, node);
    case NODE_COUNT:
        return arena_printf(s->arena, "count(%s, axis=%d)", sketch_value(s, n->operands[0]),
                            tile_place(s, &s->p->nodes[n->operands[0]].form, n->axis));
    case NODE_DOT: {
        const char *a = sketch_value(s, n->operands[0]), *b = sketch_value(s, n->operands[1]);
        name = new_name(s);
        line(s, "%s = dot(%s, %s)", name, a, b);
        return name;
    }
    default:
        return make_movement(s, n);
    }
}
