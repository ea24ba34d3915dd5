/* Misaligned boxes, for window_stage. The tensor begins at a multiple of 16 bytes, but its lines begin anywhere. Each line is copied as the
 * aligned 16-byte pieces that cover it. The distance of its first element from a multiple of 16 bytes (its misalignment, known at the launch) is
 * the same in the box as in memory, and reads from the box add it. The first piece may begin with elements of the preceding line. A window
 * that reads there must not use them: its presence condition is tested again. */
#include "window_stage.h"

/* Conditions on the index along a line must be on it alone: the columns. */
static bool columns_alone(const WindowStage *s) {
    for (unsigned a = 0; a < s->w.atom_count; a++) {
        int64_t slope = s->axes[0].slope[a];
        if (!slope) continue;
        if (slope != 1 && slope != -1) return false;
        for (unsigned i = 1; i < s->axis_count; i++)
            if (s->axes[i].slope[a]) return false;
    }
    return true;
}

/* Is a line's misalignment the same for all threads that read the line of one number? */
static bool misalignments_alike(const WindowStage *s, AffFacts *facts) {
    for (unsigned i = s->w.var_count; i < s->member_count; i++) {
        const Member *m = &s->members[i];
        if (m->axis > 0 && m->scale % PIECE_ELEMENTS != 0 && !is_multiple(facts, s->axes[m->axis].step, PIECE_ELEMENTS)) return false;
    }
    return true;
}

/* Extent of the tensor's rows, as it is declared; null: it is not, rows are of one element, or lie apart: what is between them is never
 * read. */
static const Aff *row_of(const WindowStage *s) {
    const IrFunc *f = s->w.outermost->block->func;
    const IrType *tensor = NULL;
    int64_t one;
    for (unsigned i = 0; i < f->param_count; i++)
        if (f->body->args[i] == s->w.load->operands[0]) tensor = f->params[i].type;
    if (!tensor || tensor->kind != IR_TYPE_TENSOR || !tensor->rank || tensor->strides) return NULL;
    const Aff *extent = tensor->extents[tensor->rank - 1];
    return aff_is_const(extent, &one) && one <= 1 ? NULL : extent;
}

/* Does a condition hold as far as the row? The last piece of a line may lie behind what is read of it, which no condition need keep within
 * the tensor where the window's own numbers do. */
static bool ends_with_row(const WindowStage *s) {
    AffCtx *c = s->w.m->affs;
    const Aff *row = row_of(s), *zero = aff_const(c, 0);
    bool ends = false;
    for (unsigned i = 1; row && i < s->axis_count; i++)
        if (aff_mod(c, s->axes[i].step, row) != zero) return false;
    for (unsigned a = 0; row && a < s->w.atom_count; a++)
        ends = ends || (s->axes[0].slope[a] < 0 && aff_mod(c, aff_add(c, aff_add(c, s->base, s->fixed[a]), aff_const(c, 1)), row) == zero);
    return ends;
}

bool window_may_be_misaligned(const WindowStage *s, AffFacts *facts) {
    const IrFunc *f = s->w.outermost->block->func;
    return ir_func_int(f, IR_FN_POINTER_ALIGN, 1) >= PIECE_BYTES && element_size(s) * PIECE_ELEMENTS == PIECE_BYTES &&
           s->axes[0].step == aff_const(s->w.m->affs, 1) && columns_alone(s) && misalignments_alike(s, facts) && ends_with_row(s);
}

/* At least low, at most high, in 32 bits: where that does not change from copy to copy, what is made of it there is cheap. */
static IrValue *clamped(const WindowStage *s, IrBuilder *b, IrValue *v, int64_t low, int64_t high) {
    v = ir_binary(b, IR_MAX, ir_binary(b, IR_MIN, v, ir_const_index(b, high)), ir_const_index(b, low));
    return ir_cast(b, v, ir_type_scalar(s->w.m, DTYPE_I32));
}

IrValue *window_misaligned_mask(const WindowStage *s, IrBuilder *outer, IrBuilder *b, IrValue *const *index, IrValue *misalignment,
                                IrValue **left) {
    IrValue *mask = NULL;
    *left = NULL;
    for (unsigned a = 0; a < s->w.atom_count; a++) {
        if (s->w.atoms[a].other) {
            mask = and_of(b, mask, s->w.atoms[a].other);
            continue;
        }
        int64_t columns = s->axes[0].slope[a];
        const Aff *fixed = aff_add(s->w.m->affs, s->fixed[a],
                                   aff_const(s->w.m->affs, columns > 0   ? PIECE_ELEMENTS - 1
                                                           : columns < 0 ? 1
                                                                         : 0));
        IrValue *at = ir_aff_emit(outer, fixed);
        for (unsigned i = 0; i < s->axis_count; i++)
            if (s->axes[i].slope[a]) at = add(b, at, times(b, index[i], s->axes[i].slope[a]));
        if (columns > 0) at = ir_binary(b, IR_SUB, at, misalignment);
        if (columns < 0)
            *left = *left ? ir_binary(b, IR_MIN, *left, at) : at;
        else
            mask = and_of(b, mask, at_least_zero(b, at));
    }
    if (*left) *left = clamped(s, b, *left, 1 - PIECE_ELEMENTS, PIECE_ELEMENTS);
    return mask;
}

IrValue *window_misaligned_valid(const WindowStage *s, IrBuilder *b, IrValue *left, IrValue *misalignment) {
    const IrType *type = left->type;
    IrValue *n = ir_binary(b, IR_ADD, left, ir_cast(b, misalignment, type));
    n = ir_binary(b, IR_MAX, ir_binary(b, IR_MIN, n, ir_const_int(b, type, PIECE_ELEMENTS)), ir_const_int(b, type, 0));
    return ir_cast(b, ir_binary(b, IR_MUL, n, ir_const_int(b, type, element_size(s))), ir_type_index(s->w.m));
}

IrValue *window_misaligned_line(WindowStage *s, IrBuilder *b, const Window *inner, IrValue *line, const int *along, const int64_t *weight) {
    AffCtx *c = s->w.m->affs;
    const Aff *base = window_at_thread(s, inner->base, 0, 0); /* never null: the plan has asked it of the same window */
    int64_t column = s->axes[0].start;
    for (unsigned a = 0; a < inner->axis_count; a++)
        base = aff_sub(c, base, aff_mul(c, inner->axes[a].stride, aff_const(c, inner->axes[a].start)));
    IrValue *at = ir_aff_emit(b, base);
    for (unsigned i = 0; i < s->w.var_count; i++) {
        const Member *m = &s->members[i];
        if (m->axis != 0) continue;
        const WindowVar *v = &s->w.vars[i];
        if (i < inner->var_count) continue;
        at = ir_binary(b, IR_SUB, at, times(b, v->value ? v->value : line, m->scale));
        column -= v->first * m->scale;
    }
    for (unsigned a = 0; a < inner->axis_count; a++)
        if (along[a] == 0) column -= inner->axes[a].start * weight[a];
    return ir_binary(b, IR_SUB, at, ir_const_index(b, column));
}

IrValue *window_misaligned_at(IrBuilder *outer, IrBuilder *b, const Window *inner, IrValue *first, IrValue *const *index,
                              const int *along) {
    IrValue *at = first;
    for (unsigned a = 0; a < inner->axis_count; a++) {
        if (along[a] <= 0) continue;
        IrValue *number = ir_binary(b, IR_MOD, index[a], ir_const_index(b, PIECE_ELEMENTS));
        at = add(b, at, ir_binary(b, IR_MUL, number, ir_aff_emit(outer, inner->axes[a].stride)));
    }
    IrValue *misalignment = ir_binary(b, IR_AND, at, ir_const_index(b, PIECE_ELEMENTS - 1));
    if (!misalignment->name) misalignment->name = "misalignment";
    return misalignment;
}

IrValue *window_misaligned_columns(const WindowStage *s, IrBuilder *outer, IrBuilder *b, const Window *inner, IrValue *const *index) {
    AffCtx *c = s->w.m->affs;
    IrValue *mask = NULL;
    for (unsigned a = 0; a < s->w.atom_count; a++) {
        int64_t columns = s->axes[0].slope[a];
        const WindowAtom *atom = &inner->atoms[a];
        if (!columns || (columns < 0 && window_pads_zeros(s))) continue;
        IrValue *holds = atom->other;
        if (!holds) {
            const Aff *fixed = atom->fixed;
            for (unsigned i = 0; i < inner->axis_count; i++) fixed = aff_sub(c, fixed, aff_const(c, atom->held[i] * inner->axes[i].start));
            IrValue *at = ir_aff_emit(outer, fixed);
            for (unsigned i = 0; i < inner->axis_count; i++)
                if (atom->held[i]) at = add(b, at, times(b, index[i], atom->held[i]));
            holds = at_least_zero(b, at);
        }
        mask = and_of(b, mask, holds);
    }
    return mask;
}
