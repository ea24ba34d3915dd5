/* The code of a box that a block's threads fill and read: copies in pieces, and reads without conflicts between banks. */
#include "window_stage.h"

#include <math.h>

enum {
    FEW_COPIES = 8, /* of a thread, that stand side by side */
    UNROLLED = 2    /* copies of a loop */
};

/* ---- The code ---- */

/* Bits [first, first + count) of a value of `all` bits. */
static IrValue *bits_of(IrBuilder *b, IrValue *v, unsigned first, unsigned count, unsigned all) {
    if (first) v = ir_binary(b, IR_SHR, v, ir_const_index(b, first));
    return first + count == all ? v : ir_binary(b, IR_AND, v, ir_const_index(b, ((int64_t)1 << count) - 1));
}

/* The part of lane or warp of an offset in shared memory: runs of bits each of which counts twice the one before. */
static IrValue *thread_part(WindowStage *s, IrBuilder *b, IrValue *sum, IrValue *source, unsigned first, unsigned count) {
    const Member *m = &s->members[first];
    for (unsigned i = 0, end; i < count; i = end) {
        end = i + 1;
        if (m[i].axis < 0) continue;
        int64_t weight = m[i].scale * s->axes[m[i].axis].pitch;
        while (end < count && m[end].axis >= 0 && m[end].scale * s->axes[m[end].axis].pitch == weight * ((int64_t)1 << (end - i))) end++;
        sum = add(b, sum, times(b, bits_of(b, source, i, end - i, count), weight));
    }
    return sum;
}

/* Holds what is asked of all elements of the box? */
static IrValue *all_inside(const WindowStage *s, IrBuilder *b) {
    AffCtx *c = s->w.m->affs;
    IrValue *all = NULL;
    for (unsigned a = 0; a < s->w.atom_count; a++) {
        if (s->w.atoms[a].other) {
            all = and_of(b, all, s->w.atoms[a].other);
            continue;
        }
        const Aff *least = s->fixed[a];
        for (unsigned i = 0; i < s->axis_count; i++) {
            int64_t before = s->misaligned ? PIECE_ELEMENTS - 1 : s->shift;
            int64_t low = i ? 0 : -before, high = i ? s->axes[i].extent - 1 : s->pieces * s->piece - s->shift - 1;
            least = aff_add(c, least, aff_const(c, s->axes[i].slope[a] * (s->axes[i].slope[a] < 0 ? high : low)));
        }
        all = and_of(b, all, at_least_zero(b, ir_aff_emit(b, least)));
    }
    return all;
}

/* The conditions at the first element of a piece. */
static IrValue *mask_at(const WindowStage *s, IrBuilder *outer, IrBuilder *b, IrValue *const *index) {
    IrValue *mask = NULL;
    for (unsigned a = 0; a < s->w.atom_count; a++) {
        if (s->w.atoms[a].other) {
            mask = and_of(b, mask, s->w.atoms[a].other);
            continue;
        }
        const Aff *fixed = aff_sub(s->w.m->affs, s->fixed[a], aff_const(s->w.m->affs, s->axes[0].slope[a] * s->shift));
        IrValue *at = ir_aff_emit(outer, fixed);
        for (unsigned i = 0; i < s->axis_count; i++)
            if (s->axes[i].slope[a]) at = add(b, at, times(b, index[i], s->axes[i].slope[a]));
        mask = and_of(b, mask, at_least_zero(b, at));
    }
    return mask;
}

/* What stands where the tensor ends; `width` of it. */
static IrValue *other_of(const WindowStage *s, IrBuilder *b, unsigned width) {
    IrValue *other = s->w.load->operands[3];
    if (!other->def || other->def->opcode != IR_CONST) return other;
    const IrType *type = ir_type_vec(s->w.m, other->type->dtype, width);
    IrOp *copy = ir_op_create(b, IR_CONST, 0, NULL, 1, &type);
    ir_attr_copy(copy, other->def, "value");
    return ir_result(copy, 0);
}

/* Does what stands there have no bits? A copy of no bytes then makes it. */
bool window_pads_zeros(const WindowStage *s) {
    const IrOp *other = s->w.load->operands[3]->def;
    const IrAttr *value = other && other->opcode == IR_CONST ? ir_attr(other, "value") : NULL;
    if (!value) return false;
    return value->kind == IR_ATTR_FLOAT ? value->number == 0 && !signbit(value->number) : value->kind == IR_ATTR_INT && value->integer == 0;
}

static void store_shared(const WindowStage *s, IrBuilder *b, IrValue *value, IrValue *to) {
    IrValue *operands[3] = {value, s->shared, to};
    IrOp *store = ir_op_create(b, IR_MEM_STORE, 3, operands, 0, NULL);
    ir_attr_set_int(store, "align", (int64_t)value->type->width * element_size(s));
}

/* valid: so many bytes are there; null: all. */
static void copy_piece(const WindowStage *s, IrBuilder *b, IrValue *from, IrValue *to, IrValue *mask, IrValue *valid) {
    int64_t bytes = s->piece * element_size(s);
    IrValue *tensor = s->w.load->operands[0];
    if (!window_stage_is_async(s)) { /* too narrow for cp.async */
        IrValue *operands[4] = {tensor, from, mask, mask ? other_of(s, b, 1) : NULL};
        const IrType *type = s->w.load->results[0].type;
        IrOp *load = ir_op_create(b, IR_MEM_LOAD, mask ? 4 : 2, operands, 1, &type);
        ir_attr_set_int(load, "align", element_size(s));
        if (mask) ir_attr_set_bool(load, "predicated", true);
        store_shared(s, b, ir_result(load, 0), to);
        return;
    }
    IrBuilder in = *b;
    if (!valid) valid = ir_const_index(b, bytes);
    if (mask && window_pads_zeros(s)) {
        valid = ir_select(b, mask, valid, ir_const_index(b, 0));
        mask = NULL;
    }
    if (mask) {
        IrOp *branch = ir_op_create(b, IR_IF, 1, &mask, 0, NULL);
        in = ir_builder_at_end(branch->regions[0]);
        IrBuilder out = ir_builder_at_end(branch->regions[1]);
        store_shared(s, &out, other_of(s, &out, (unsigned)s->piece), to);
        ir_yield(&out, 0, NULL);
    }
    IrValue *operands[5] = {tensor, from, s->shared, to, valid};
    ir_attr_set_int(ir_op_create(&in, IR_ASYNC_COPY, 5, operands, 0, NULL), "bytes", bytes);
    if (mask) ir_yield(&in, 0, NULL);
}

/* Every thread's pieces; `masked`: conditions are asked of each. In a loop of the kernel many of them are
 * taken in a loop, too: the addresses of all of them, computed ahead, would take the registers. */
static void fill(const WindowStage *s, IrBuilder *b, bool masked) {
    Deal d = window_stage_deal_of(s);
    int64_t extents[MAX_AXES + 1], threads = (int64_t)32 << s->warp_bits;
    bool within = window_stage_is_async(s) && s->w.outermost->block != s->w.outermost->block->func->body;
    bool down = within && d.steps_down > 1 && d.steps_down * d.steps_across > FEW_COPIES,
         along = within && !down && d.steps_across > FEW_COPIES, looped = down || along;
    unsigned n = 0;
    IrBuilder outer = *b, around = *b;
    IrValue *thread = s->warp_bits ? add(&outer, times(&outer, s->warp, 32), s->lane) : s->lane, *index[MAX_AXES], *step = NULL;
    IrValue *across = ir_const_index(&outer, d.across), *column = ir_binary(&outer, IR_MOD, thread, across),
            *row = ir_binary(&outer, IR_FLOORDIV, thread, across);
    IrOp *loop = NULL;
    if (looped) {
        IrValue *one = ir_const_index(&outer, 1);
        IrValue *steps = ir_const_index(&outer, down ? d.steps_down : d.steps_across);
        loop = ir_for(&outer, ir_const_index(&outer, 0), steps, one, 0, NULL, "row");
        ir_attr_set_int(loop, "unroll", UNROLLED);
        step = loop->regions[0]->args[0];
        around = ir_builder_at_end(loop->regions[0]);
        around.span = b->span;
        outer = ir_builder_before(loop);
        outer.span = b->span;
    }
    for (unsigned i = 1; i < s->axis_count; i++) extents[n++] = i == d.rows ? (down ? 1 : d.steps_down) : s->axes[i].extent;
    extents[n++] = along ? 1 : d.steps_across;
    IrOp *map = ir_map(&around, n, extents, 0, NULL);
    IrBuilder in = ir_builder_at_end(map->regions[0]);
    if (!looped) outer = ir_builder_before(map);
    outer.span = in.span = b->span;
    IrValue *piece = add(&in, column, times(&in, along ? step : map->regions[0]->args[n - 1], d.across)), *need = NULL;
    if (d.steps_across * d.across > s->pieces) need = ir_binary(&in, IR_LT, piece, ir_const_index(&in, s->pieces));
    index[0] = times(&in, piece, s->piece);
    for (unsigned i = 1; i < s->axis_count; i++) {
        index[i] = map->regions[0]->args[i - 1];
        if (i != d.rows) continue;
        index[i] = add(&in, row, times(&in, down ? step : index[i], d.down));
        if (d.steps_down * d.down > s->axes[i].extent)
            need = and_of(&in, need, ir_binary(&in, IR_LT, index[i], ir_const_index(&in, s->axes[i].extent)));
    }
    /* Threads beyond the last whole row have none. */
    if (d.down * d.across < threads) need = and_of(&in, need, ir_binary(&in, IR_LT, row, ir_const_index(&in, d.down)));
    if (s->lines) need = and_of(&in, need, ir_binary(&in, IR_LT, index[s->members[s->w.var_count - 1].axis], s->lines));
    AffCtx *c = s->w.m->affs;
    IrValue *from = ir_aff_emit(&outer, aff_sub(c, s->base, aff_const(c, s->shift))), *to = s->place, *mask = NULL, *valid = NULL;
    if (s->misaligned) { /* the pieces of its line begin at or in front of it, its elements behind that */
        IrValue *line = from, *left = NULL;
        for (unsigned i = 1; i < s->axis_count; i++)
            line = add(&in, line, ir_binary(&in, IR_MUL, index[i], ir_aff_emit(&outer, s->axes[i].step)));
        IrValue *misalignment = ir_binary(&in, IR_AND, line, ir_const_index(&in, PIECE_ELEMENTS - 1));
        for (unsigned i = 0; i < s->axis_count; i++) to = add(&in, to, times(&in, index[i], s->axes[i].pitch));
        bool alone = s->piece == 1;
        from = ir_binary(&in, IR_ADD, line, alone ? index[0] : ir_binary(&in, IR_SUB, index[0], misalignment));
        if (alone) to = add(&in, to, misalignment);
        if (masked) mask = alone ? mask_at(s, &outer, &in, index) : window_misaligned_mask(s, &outer, &in, index, misalignment, &left);
        valid = left ? window_misaligned_valid(s, &in, left, misalignment) : NULL;
    }
    for (unsigned i = 0; i < s->axis_count && !s->misaligned; i++) {
        from = add(&in, from, ir_binary(&in, IR_MUL, index[i], ir_aff_emit(&outer, s->axes[i].step)));
        to = add(&in, to, times(&in, index[i], s->axes[i].pitch));
    }
    if (masked && !s->misaligned) mask = mask_at(s, &outer, &in, index);
    IrBuilder at = in;
    if (need) at = ir_builder_at_end(ir_op_create(&in, IR_IF, 1, &need, 0, NULL)->regions[0]);
    copy_piece(s, &at, from, to, mask, valid);
    if (need) ir_yield(&at, 0, NULL);
    ir_yield(&in, 0, NULL);
    if (looped) ir_yield(&around, 0, NULL);
}

static void barrier(IrBuilder *b) {
    build_barrier(b, IR_SCOPE_BLOCK);
}

int64_t window_stage_bytes(const WindowStage *s) {
    return whole_lines(window_stage_box_elements(s) * element_size(s));
}

/* One box after the other: is there one before this? */
static bool take_memory(WindowStage *s, IrFunc *f, IrBuilder *b, int64_t boxes) {
    WindowMemory *memory = s->memory;
    int64_t bytes = boxes * window_stage_bytes(s), used = ir_func_int(f, IR_FN_SHARED_BYTES, 0);
    bool again = memory->bytes;
    memory->offset = window_stage_place_of(memory, f);
    if (memory->bytes < bytes) memory->bytes = bytes;
    if (used < memory->offset + memory->bytes) ir_func_set_int(f, IR_FN_SHARED_BYTES, memory->offset + memory->bytes);
    const IrType *type = ir_type_ptr(s->w.m, s->w.load->results[0].type->dtype, IR_SPACE_SHARED);
    IrOp *pointer = ir_op_create(b, IR_SHARED_PTR, 0, NULL, 1, &type);
    ir_attr_set_int(pointer, "offset", memory->offset);
    ir_attr_set_int(pointer, "bytes", bytes);
    ir_attr_set_str(pointer, "name", "window");
    s->shared = ir_result(pointer, 0);
    if (s->misaligned) ir_func_set_int(f, IR_FN_MISALIGNED_BASE, 1);
    return again;
}

/* By the copies of a block whose box lies inside, else by those under conditions. */
static void fill_box(const WindowStage *s, IrBuilder *b) {
    if (!s->w.atom_count) {
        fill(s, b, false);
        return;
    }
    IrValue *inside = all_inside(s, b);
    IrOp *branch = ir_op_create(b, IR_IF, 1, &inside, 0, NULL);
    for (unsigned r = 0; r < 2; r++) {
        IrBuilder in = ir_builder_at_end(branch->regions[r]);
        in.span = b->span;
        WindowStage edge = window_stage_elements_of(s);
        fill(r && s->misaligned ? &edge : s, &in, r == 1);
        ir_yield(&in, 0, NULL);
    }
}

void window_stage_ring(WindowStage *s, IrBuilder *b, int64_t boxes) {
    take_memory(s, s->w.outermost->block->func, b, boxes);
}

typedef struct {
    const WindowIteration *iterations;
    unsigned count;
    IrModule *m;
} Iterations;

static const Aff *leaf_at(void *ctx, const Aff *leaf) {
    const Iterations *t = ctx;
    for (unsigned i = 0; i < t->count; i++)
        if (leaf->kind == AFF_VAR && leaf->var == t->iterations[i].variable) return ir_aff_of(t->m, t->iterations[i].at);
    return NULL;
}

static IrValue *place_in_ring(const WindowStage *s, IrBuilder *b, IrValue *box) {
    return box ? times(b, box, window_stage_bytes(s) / element_size(s)) : NULL;
}

void window_stage_copy(const WindowStage *s, IrBuilder *b, unsigned count, const WindowIteration *iterations, IrValue *box,
                       IrValue *lines) {
    AffCtx *c = s->w.m->affs;
    WindowStage moved = *s;
    Iterations t = {iterations, count, s->w.m};
    moved.base = aff_substitute(c, s->base, leaf_at, &t);
    for (unsigned a = 0; a < s->w.atom_count; a++)
        if (s->fixed[a]) moved.fixed[a] = aff_substitute(c, s->fixed[a], leaf_at, &t);
    moved.place = place_in_ring(s, b, box);
    moved.lines = lines;
    fill(&moved, b, s->w.atom_count > 0); /* one form only: the other's addresses would take registers of the loop around */
}

void window_stage_fill(WindowStage *s) {
    IrFunc *f = s->w.outermost->block->func;
    IrBuilder b = ir_builder_before(s->w.outermost);
    b.span = s->w.map->span;
    bool again = take_memory(s, f, &b, 1);
    if (again || s->w.outermost->block != f->body) barrier(&b); /* who reads what was there before is done */
    fill_box(s, &b);
    if (window_stage_is_async(s)) {
        ir_op_create(&b, IR_ASYNC_COMMIT, 0, NULL, 0, NULL);
        ir_attr_set_int(ir_op_create(&b, IR_ASYNC_WAIT, 0, NULL, 0, NULL), "pending", 0);
    }
    barrier(&b);
}

/* ---- Banks ---- */

/* The lane's bit of which alone it comes that lanes read one bank at a time: those without it are all in banks of one parity, and
 * those with it in the same ones. -1: there is none. */
static int conflicting_bit(const WindowStage *s) {
    int64_t weights[LANE_BITS];
    int bit = -1;
    for (unsigned i = 0; i < LANE_BITS; i++) {
        const Member *m = &s->members[s->w.var_count + i];
        weights[i] = m->axis < 0 ? 0 : m->scale * s->axes[m->axis].pitch;
        if (!weights[i] || weights[i] % 2 != 0) return -1;
        if (weights[i] % BANKS != 0) continue;
        if (bit >= 0) return -1;
        bit = (int)i;
    }
    uint32_t taken = 0;
    for (int64_t lane = 0; bit >= 0 && lane < 1 << LANE_BITS; lane++) {
        int64_t at = 0;
        if (lane >> bit & 1) continue;
        for (unsigned i = 0; i < LANE_BITS; i++) at += (lane >> i & 1) * weights[i];
        uint32_t bank = 1u << ((at % BANKS + BANKS) % BANKS);
        if (taken & bank) return -1;
        taken |= bank;
    }
    return element_size(s) == BANK_BYTES ? bit : -1;
}

/* The axis of a loop alone along which neighbours lie in banks of both parities, where the order of what it combines is free; -1: none. */
static int swapped_axis(const Window *w, const int64_t *weight) {
    for (unsigned i = w->map_rank; i < w->var_count && window_combining(w); i++) {
        int axis = w->vars[i].axis;
        bool alone = axis >= 0 && w->vars[i].count > 1 && weight[axis] % 2 != 0;
        for (unsigned k = 0; k < w->var_count; k++) alone = alone && (k == i || w->vars[k].axis != axis);
        if (alone) return axis;
    }
    return -1;
}

/* What half of the lanes add to an element's place along that axis: they read its elements in pairs the other way round. */
static IrValue *swapped(IrBuilder *b, IrValue *index, int64_t count, IrValue *step) {
    IrValue *sign = ir_binary(b, IR_SUB, ir_const_index(b, 1), times(b, ir_binary(b, IR_MOD, index, ir_const_index(b, 2)), 2));
    IrValue *has_pair = ir_binary(b, IR_LT, index, ir_const_index(b, count / 2 * 2));
    return ir_select(b, has_pair, ir_binary(b, IR_MUL, step, sign), ir_const_index(b, 0));
}

/* Elements of less than a word are read several at once, as many as lie at multiples of them; those behind the last one lie in the same
 * row, which no one looks at. Other axes of the fragment move by such multiples, too. Not where lines are combined as they are read, element by element. 1: they are read alone. */
static int64_t words_of(const WindowStage *s, const Window *inner, IrValue *at, int64_t extent, const int64_t *weight) {
    AffFacts *facts = ir_facts_at(inner->ctx->scratch, inner->outermost);
    bool narrow = element_size(s) < BANK_BYTES && s->w.load->results[0].type->dtype != DTYPE_BOOL;
    int64_t width = narrow && inner->loop_count == 1 ? PIECE_BYTES / element_size(s) : 1;
    while (width > 1 && (extent < width || s->axes[0].extent < width || !is_multiple(facts, ir_aff_of(s->w.m, at), width))) width /= 2;
    for (unsigned i = 1; i < s->axis_count; i++)
        while (width > 1 && s->axes[i].pitch % width) width /= 2;
    for (unsigned a = 0; a + 1 < inner->axis_count; a++)
        while (width > 1 && weight[a] % width) width /= 2;
    return s->pieces * s->piece % width ? 1 : width;
}

IrValue *window_stage_read(WindowStage *s, const Window *inner, IrValue *box, IrValue *line) {
    IrBuilder outer = ir_builder_before(inner->outermost);
    outer.span = inner->map->span;
    unsigned vars = s->w.var_count;
    int64_t fixed = s->shift, extents[WINDOW_VARS], weight[WINDOW_VARS] = {0};
    int along[WINDOW_VARS];
    for (unsigned a = 0; a < WINDOW_VARS; a++) along[a] = -1;
    for (unsigned i = 0; i < s->axis_count; i++) fixed += s->axes[i].start * s->axes[i].pitch;
    IrValue *at = thread_part(s, &outer, place_in_ring(s, &outer, box), s->lane, vars, LANE_BITS);
    at = thread_part(s, &outer, at, s->warp, vars + LANE_BITS, s->warp_bits);
    for (unsigned i = 0; i < vars; i++) { /* the same variables, but for the loops around */
        const Member *m = &s->members[i];
        if (m->axis < 0) continue;
        int64_t each = m->scale * s->axes[m->axis].pitch;
        const WindowVar *v = &s->w.vars[i];
        if (i >= inner->var_count) {
            at = add(&outer, at, times(&outer, v->value ? v->value : line, each));
            fixed -= v->first * each;
        } else if (inner->vars[i].axis >= 0) {
            weight[inner->vars[i].axis] = each / inner->vars[i].scale;
            along[inner->vars[i].axis] = m->axis;
        }
    }
    for (unsigned a = 0; a < inner->axis_count; a++) {
        extents[a] = inner->axes[a].extent;
        fixed -= inner->axes[a].start * weight[a];
    }
    at = add(&outer, at, ir_const_index(&outer, fixed));
    int bit = conflicting_bit(s), swap = bit < 0 ? -1 : swapped_axis(inner, weight);
    IrValue *step = swap < 0 ? NULL : times(&outer, bits_of(&outer, s->lane, (unsigned)bit, 1, LANE_BITS), weight[swap]);
    IrValue *first = s->misaligned ? window_misaligned_line(s, &outer, inner, line, along, weight) : NULL;
    const IrType *scalar = inner->load->results[0].type, *element = scalar;
    unsigned last = inner->axis_count - 1;
    int64_t width = swap < 0 && weight[last] == 1 ? words_of(s, inner, at, extents[last], weight) : 1;
    if (width > 1) {
        extents[last] = (extents[last] + width - 1) / width * width;
        element = ir_type_vec(s->w.m, scalar->dtype, (unsigned)width);
    }
    const IrType *type = ir_type_frag(s->w.m, scalar->dtype, inner->axis_count, extents);
    extents[last] /= width;
    IrOp *map = ir_map(&outer, inner->axis_count, extents, 1, &type);
    IrBuilder in = ir_builder_at_end(map->regions[0]);
    in.span = outer.span;
    outer.before = map;
    IrValue *index[WINDOW_VARS], *mask = NULL;
    for (unsigned a = 0; a < inner->axis_count; a++) {
        index[a] = map->regions[0]->args[a];
        at = add(&in, at, times(&in, map->regions[0]->args[a], a == last ? width * weight[a] : weight[a]));
        if ((int)a != swap) continue;
        at = add(&in, at, swapped(&in, map->regions[0]->args[a], extents[a], step));
        if (s->misaligned)
            index[a] = add(&in, index[a], swapped(&in, index[a], extents[a], bits_of(&outer, s->lane, (unsigned)bit, 1, LANE_BITS)));
    }
    if (s->misaligned) at = add(&in, at, window_misaligned_at(&outer, &in, inner, first, index, along));
    if (s->misaligned && s->memory->ahead) mask = window_misaligned_columns(s, &outer, &in, inner, index);
    IrValue *operands[2] = {s->shared, at};
    IrOp *load = ir_op_create(&in, IR_MEM_LOAD, 2, operands, 1, &element);
    ir_attr_set_int(load, "align", width * element_size(s));
    IrValue *value = ir_result(load, 0);
    if (mask) value = ir_select(&in, mask, value, other_of(s, &in, 1));
    ir_yield(&in, 1, &value);
    return ir_result(map, 0);
}
