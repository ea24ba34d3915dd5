/* The fragment of a window, for stencil_reuse: its loads and reads, and sums and maxima made of it axis by axis. */
#include "gpu.h"
#include "window_internal.h"

/* ---- The code ---- */

static IrValue *and_of(IrBuilder *b, IrValue *a, IrValue *c) {
    return a ? ir_binary(b, IR_AND, a, c) : c;
}

static IrValue *at_least_zero(IrBuilder *b, const Aff *e) {
    return ir_binary(b, IR_LE, ir_const_index(b, 0), ir_aff_emit(b, e));
}

/* A condition at indices of the fragment. */
static const Aff *atom_at(const Window *w, const WindowAtom *a, const Aff *const *index) {
    AffCtx *c = w->m->affs;
    const Aff *e = a->fixed;
    for (unsigned i = 0; i < w->axis_count; i++) {
        const Aff *steps = aff_sub(c, index[i], aff_const(c, w->axes[i].start));
        e = aff_add(c, e, aff_mul(c, aff_const(c, a->held[i]), steps));
    }
    return e;
}

/* Do the conditions hold at every index? */
static IrValue *all_inside(const Window *w, IrBuilder *b) {
    AffCtx *c = w->m->affs;
    IrValue *all = NULL;
    for (unsigned a = 0; a < w->atom_count; a++) {
        const WindowAtom *atom = &w->atoms[a];
        const Aff *corner[WINDOW_VARS];
        for (unsigned i = 0; i < w->axis_count; i++) corner[i] = aff_const(c, atom->held[i] < 0 ? w->axes[i].extent - 1 : 0);
        all = and_of(b, all, atom->other ? atom->other : at_least_zero(b, atom_at(w, atom, corner)));
    }
    return all;
}

static IrValue *load_map(const Window *w, IrBuilder *b, bool masked) {
    AffCtx *c = w->m->affs;
    int64_t extents[WINDOW_VARS];
    const Aff *index[WINDOW_VARS], *offset = w->base;
    for (unsigned i = 0; i < w->axis_count; i++) extents[i] = w->axes[i].extent;
    const IrType *scalar = w->load->results[0].type;
    const IrType *type = ir_type_frag(w->m, scalar->dtype, w->axis_count, extents);
    IrOp *map = ir_map(b, w->axis_count, extents, 1, &type);
    IrBuilder outer = ir_builder_before(map), inner = ir_builder_at_end(map->regions[0]);
    outer.span = inner.span = b->span;
    for (unsigned i = 0; i < w->axis_count; i++) {
        index[i] = aff_var(c, map->regions[0]->args[i], NULL);
        offset = aff_sub(c, offset, aff_mul(c, w->axes[i].stride, aff_const(c, w->axes[i].start)));
    }
    IrValue *at = ir_aff_emit(&outer, offset), *mask = NULL;
    for (unsigned i = 0; i < w->axis_count; i++)
        at = ir_binary(&inner, IR_ADD, at, ir_binary(&inner, IR_MUL, map->regions[0]->args[i], ir_aff_emit(&outer, w->axes[i].stride)));
    for (unsigned a = 0; a < w->atom_count && masked; a++) {
        const WindowAtom *atom = &w->atoms[a];
        mask = and_of(&inner, mask, atom->other ? atom->other : at_least_zero(&inner, atom_at(w, atom, index)));
    }
    IrValue *operands[4] = {w->load->operands[0], at, mask, NULL};
    if (mask) {
        IrValue *other = w->load->operands[3];
        operands[3] = is_inside_op(home_of(other), w->outermost)
                          ? ir_result(ir_op_clone(&outer, other->def, ir_value_map_create(w->ctx->scratch)), 0)
                          : other;
    }
    IrOp *load = ir_op_create(&inner, IR_MEM_LOAD, mask ? 4 : 2, operands, 1, &scalar);
    ir_attr_copy(load, w->load, "align");
    ir_attr_copy(load, w->load, "cache");
    if (mask) ir_attr_set_bool(load, "predicated", true);
    IrValue *value = ir_result(load, 0);
    ir_yield(&inner, 1, &value);
    return ir_result(map, 0);
}

IrValue *window_load_window(const Window *w) {
    IrBuilder b = ir_builder_before((IrOp *)w->outermost);
    b.span = w->map->span;
    if (!w->atom_count) return load_map(w, &b, false);
    IrValue *inside = all_inside(w, &b);
    int64_t extents[WINDOW_VARS];
    for (unsigned i = 0; i < w->axis_count; i++) extents[i] = w->axes[i].extent;
    const IrType *type = ir_type_frag(w->m, w->load->results[0].type->dtype, w->axis_count, extents);
    IrOp *branch = ir_op_create(&b, IR_IF, 1, &inside, 1, &type);
    for (unsigned r = 0; r < 2; r++) {
        IrBuilder inner = ir_builder_at_end(branch->regions[r]);
        inner.span = b.span;
        IrValue *value = load_map(w, &inner, r == 1);
        ir_yield(&inner, 1, &value);
    }
    return ir_result(branch, 0);
}

static void read_window(const Window *w, IrValue *held) {
    IrBuilder b = ir_builder_before(w->load);
    IrValue *operands[WINDOW_VARS + 1] = {held};
    for (unsigned a = 0; a < w->axis_count; a++) {
        int64_t start = w->axes[a].start;
        IrValue *index = NULL;
        for (unsigned i = 0; i < w->var_count; i++) {
            const WindowVar *v = &w->vars[i];
            if (v->axis != (int)a) continue;
            start -= v->first * v->scale;
            IrValue *steps = ir_binary(&b, IR_MUL, v->value, ir_const_index(&b, v->scale));
            index = index ? ir_binary(&b, IR_ADD, index, steps) : steps;
        }
        operands[1 + a] = ir_binary(&b, IR_ADD, index, ir_const_index(&b, start));
    }
    const IrType *type = w->load->results[0].type;
    IrOp *get = ir_op_create(&b, IR_FRAG_GET, 1 + w->axis_count, operands, 1, &type);
    ir_replace_uses(&w->load->results[0], ir_result(get, 0));
    ir_op_erase(w->load);
    for (unsigned i = 0; i < w->loop_count; i++) ir_attr_set_int(w->loops[i], "unroll", -1);
}

/* ---- Sums and maxima axis by axis ---- */

/* Is it the map's index of that axis? Of the one element of an axis it may be 0. */
static bool is_own_index(const Window *w, const IrOp *map, IrValue *index, unsigned axis) {
    int64_t at;
    return index == map->regions[0]->args[axis] ||
           (ir_attr(map, "extents")->ints[axis] == 1 && aff_is_const(ir_aff_of(w->m, index), &at) && at == 0);
}

static bool is_own_element(const Window *w, const IrOp *get, const IrOp *map, const IrValue *frag) {
    if (!get || get->opcode != IR_FRAG_GET || get->block != map->regions[0] || get->operands[0] != frag ||
        get->operand_count != map->regions[0]->arg_count + 1)
        return false;
    for (unsigned i = 1; i < get->operand_count; i++)
        if (!is_own_index(w, map, get->operands[i], i - 1)) return false;
    return true;
}

static bool is_used_once(const IrValue *v) {
    return v->uses && !v->uses->next;
}

/* Do the loops do anything but what `map` makes of the window's? */
static bool does_more(const Window *w, const IrOp *map) {
    for (unsigned i = 0; i < w->loop_count; i++)
        for (const IrOp *op = w->loops[i]->regions[0]->first; op; op = op->next) {
            bool known = op == w->loops[i]->regions[0]->last || op == w->map || op == map || (i && op == w->loops[i - 1]);
            if (!known && (op->region_count || !ir_has_trait(op, IR_PURE))) return true;
        }
    return false;
}

IrOp *window_combining(const Window *w) {
    for (unsigned i = 0; i < w->loop_count; i++) {
        const IrOp *loop = w->loops[i];
        if (loop->result_count != 1 || !is_used_once(loop->regions[0]->args[1])) return NULL;
        if (i && (loop->regions[0]->last->operands[0] != ir_result(w->loops[i - 1], 0) || !is_used_once(ir_result(w->loops[i - 1], 0)) ||
                  w->loops[i - 1]->operands[3] != loop->regions[0]->args[1]))
            return NULL;
    }
    const IrBlock *body = w->loops[0]->regions[0];
    const IrOp *map = body->last->operands[0]->def;
    if (!map || map->opcode != IR_MAP || map->block != body || map->result_count != 1 || !is_used_once(ir_result(w->map, 0))) return NULL;
    IrOp *op = map->regions[0]->last->operands[0]->def;
    if (!op || op->block != map->regions[0]) return NULL;
    switch (op->opcode) {
    case IR_ADD:
    case IR_MUL:
    case IR_MAX:
    case IR_MIN:
    case IR_MAXNUM:
    case IR_MINNUM:
    case IR_AND:
    case IR_OR:
    case IR_XOR:
        break;
    default:
        return NULL;
    }
    if (does_more(w, map)) return NULL;
    for (unsigned i = 0; i < 2; i++)
        if (is_own_element(w, op->operands[i]->def, map, body->args[1]) &&
            is_own_element(w, op->operands[1 - i]->def, map, ir_result(w->map, 0)))
            return op;
    return NULL;
}

/* Does the axis belong to this loop alone? */
static bool is_alone(const Window *w, unsigned var) {
    if (w->vars[var].axis < 0 || w->vars[var].count == 1) return false;
    for (unsigned i = 0; i < w->var_count; i++)
        if (i != var && w->vars[i].axis == w->vars[var].axis) return false;
    return true;
}

static void drop_axis(Window *w, unsigned var) {
    unsigned axis = (unsigned)w->vars[var].axis;
    w->vars[var].count = 1, w->vars[var].axis = -1;
    for (unsigned a = axis; a + 1 < w->axis_count; a++) w->axes[a] = w->axes[a + 1];
    w->axis_count--;
    for (unsigned i = 0; i < w->var_count; i++) w->vars[i].axis -= w->vars[i].axis > (int)axis;
}

/* An element of the fragment. What lies in shared memory is read there and then: one element at a time is held. */
static IrValue *element_of(Window *w, IrBuilder *b, IrValue *held, IrValue *const *index) {
    const IrType *scalar = ir_type_scalar(w->m, held->type->dtype);
    const IrOp *map = held->def;
    IrValue *operands[WINDOW_VARS + 1] = {held};
    if (map->opcode != IR_MAP) {
        for (unsigned a = 0; a < held->type->rank; a++) operands[1 + a] = index[a];
        return ir_result(ir_op_create(b, IR_FRAG_GET, 1 + held->type->rank, operands, 1, &scalar), 0);
    }
    IrValueMap *values = ir_value_map_create(w->ctx->scratch);
    const IrBlock *body = map->regions[0];
    for (unsigned a = 0; a < held->type->rank; a++) ir_value_map_set(values, body->args[a], index[a]);
    for (const IrOp *op = body->first; op != body->last; op = op->next) ir_op_clone(b, op, values);
    return ir_value_map_get(values, body->last->operands[0]);
}

/* Combines the fragment's elements along the axis of a loop, of which one iteration remains. */
static IrValue *fold_axis(Window *w, unsigned var, IrValue *held, const IrOp *by) {
    unsigned axis = (unsigned)w->vars[var].axis, n = 0;
    int64_t extents[WINDOW_VARS], count = w->axes[axis].extent;
    for (unsigned a = 0; a < w->axis_count; a++)
        if (a != axis) extents[n++] = w->axes[a].extent;
    IrBuilder b = ir_builder_before(w->outermost);
    b.span = w->map->span;
    const IrType *scalar = ir_type_scalar(w->m, held->type->dtype), *type = ir_type_frag(w->m, scalar->dtype, n, extents);
    IrOp *map = ir_map(&b, n, extents, 1, &type), *loop = w->loops[var - w->map_rank];
    IrBuilder in = ir_builder_at_end(map->regions[0]);
    in.span = b.span;
    IrValue *sum = NULL;
    for (int64_t k = 0; k < count; k++) {
        IrValue *index[WINDOW_VARS];
        for (unsigned a = 0; a < w->axis_count; a++) index[a] = a == axis ? ir_const_index(&in, k) : map->regions[0]->args[a - (a > axis)];
        IrValue *element = element_of(w, &in, held, index);
        sum = sum ? ir_binary(&in, by->opcode, sum, element) : element;
    }
    ir_yield(&in, 1, &sum);
    if (held->def->opcode == IR_MAP) ir_op_erase(held->def);
    IrBuilder at = ir_builder_before(loop);
    ir_set_operand(loop, 1, ir_const_index(&at, w->vars[var].first + 1));
    drop_axis(w, var);
    return ir_result(map, 0);
}

/* Where neighbours share elements along one axis, what each of them combines along another is combined once. */
static bool is_folded(const Window *w, unsigned var) {
    return is_alone(w, var) && w->axis_count > 1 && window_held_elements(w) + window_reads(w) / w->vars[var].count < window_reads(w);
}

static IrValue *fold_axes(Window *w, IrValue *held) {
    const IrOp *by = window_combining(w);
    for (unsigned i = w->map_rank; by && i < w->var_count; i++)
        if (is_folded(w, i)) held = fold_axis(w, i, held, by);
    return held;
}

bool window_fits_folded(const Window *w, int64_t unrolled) {
    Window folded = *w;
    for (unsigned i = w->map_rank; window_combining(w) && i < w->var_count; i++)
        if (is_folded(&folded, i)) drop_axis(&folded, i);
    return window_held_elements(w) <= MAX_READS && window_held_registers(&folded) <= MAX_HELD && window_reads(&folded) <= MAX_READS &&
           unrolled <= MAX_UNROLLED;
}

void window_take(Window *w, IrValue *held) {
    read_window(w, fold_axes(w, held));
}

void window_put_words_last(Window *w) {
    int64_t step;
    unsigned from = 0, last = w->axis_count - 1;
    while (from < last && !(aff_is_const(w->axes[from].stride, &step) && step == 1)) from++;
    if (from == last || dtype_size(w->load->results[0].type->dtype) >= 4) return;
    WindowAxis axis = w->axes[from];
    w->axes[from] = w->axes[last], w->axes[last] = axis;
    for (unsigned i = 0; i < w->var_count; i++) {
        if (w->vars[i].axis == (int)from)
            w->vars[i].axis = (int)last;
        else if (w->vars[i].axis == (int)last)
            w->vars[i].axis = (int)from;
    }
    for (unsigned a = 0; a < w->atom_count; a++) {
        int64_t held = w->atoms[a].held[from];
        w->atoms[a].held[from] = w->atoms[a].held[last], w->atoms[a].held[last] = held;
    }
}
