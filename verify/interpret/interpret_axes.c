/* Ops along axes of tiles: scans, arg-reductions, sorts, joins, slices and gather. */
#include "interpret_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The lanes of a tile along one axis: lane i of line n is at start + i * stride. */
typedef struct {
    int64_t lines, stride, extent;
    int64_t lo, hi; /* present, within [0, extent] */
    unsigned axis;
} Lines;

static int64_t clamp(int64_t v, int64_t extent) {
    return v < 0 ? 0 : v > extent ? extent : v;
}

static Lines lines_along(const Slot *s, unsigned axis) {
    Lines l = {.lines = 1, .stride = 1, .extent = s->extents[axis], .axis = axis};
    for (unsigned d = 0; d < s->rank; d++) {
        if (d != axis) l.lines *= s->extents[d];
        if (d > axis) l.stride *= s->extents[d];
    }
    l.lo = clamp(s->lo[axis], l.extent);
    l.hi = clamp(s->hi[axis], l.extent);
    return l;
}

static int64_t line_start(const Lines *l, int64_t n) {
    return n / l->stride * l->stride * l->extent + n % l->stride;
}

static void copy_presence(Slot *r, const Slot *x) {
    memcpy(r->lo, x->lo, sizeof r->lo);
    memcpy(r->hi, x->hi, sizeof r->hi);
}

static unsigned axis_of(const Inst *inst) {
    return (unsigned)ir_attr_int(inst->op, "axis", 0);
}

/* ---- Scans ---- */

/* h = a * h + b of the lanes where both are present. */
static void run_recurrence(Inst *inst) {
    const Slot *b = inst->operands[0], *a = inst->operands[1], *start = inst->op->operand_count > 2 ? inst->operands[2] : NULL;
    Slot *r = inst->results[0];
    unsigned axis = axis_of(inst);
    Lines l = lines_along(b, axis);
    bool reverse = ir_attr_bool(inst->op, "reverse"), before = ir_attr_bool(inst->op, "exclusive");
    for (unsigned d = 0; d < b->rank; d++) {
        r->lo[d] = b->lo[d] > a->lo[d] ? b->lo[d] : a->lo[d];
        r->hi[d] = b->hi[d] < a->hi[d] ? b->hi[d] : a->hi[d];
        if (!start || d == axis) continue;
        r->lo[d] = start->lo[d] > r->lo[d] ? start->lo[d] : r->lo[d];
        r->hi[d] = start->hi[d] < r->hi[d] ? start->hi[d] : r->hi[d];
    }
    int64_t lo = clamp(r->lo[axis], l.extent), hi = clamp(r->hi[axis], l.extent);
    for (int64_t n = 0; n < l.lines; n++) {
        Cell h = {.f = 0};
        if (start) h = start->cells[n];
        for (int64_t k = 0; k < l.extent; k++) {
            int64_t i = reverse ? l.extent - 1 - k : k, at = line_start(&l, n) + i * l.stride;
            Cell earlier = h;
            if (i >= lo && i < hi) h = cell_binary(IR_ADD, r->dtype, cell_binary(IR_MUL, r->dtype, a->cells[at], h), b->cells[at]);
            r->cells[at] = before ? earlier : h;
        }
    }
}

static void run_scan(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *x = inst->operands[0];
    Slot *r = inst->results[0];
    if (inst->op->operand_count > 1) {
        run_recurrence(inst);
        return;
    }
    Lines l = lines_along(x, axis_of(inst));
    IrOpcode op = interpret_reduce_op(m, ir_op_kind(inst->op));
    bool reverse = ir_attr_bool(inst->op, "reverse"), before = ir_attr_bool(inst->op, "exclusive");
    (void)active;
    copy_presence(r, x);
    for (int64_t n = 0; n < l.lines; n++) {
        Cell total = interpret_identity(op, r);
        for (int64_t k = 0; k < l.extent; k++) {
            int64_t i = reverse ? l.extent - 1 - k : k, at = line_start(&l, n) + i * l.stride;
            Cell earlier = total;
            if (i >= l.lo && i < l.hi) total = cell_binary(op, r->dtype, total, x->cells[at]);
            r->cells[at] = before ? earlier : total;
        }
    }
}

/* ---- Order ---- */

/* Does a come before b? NaN is last in either order. */
static bool precedes(const Slot *s, Cell a, Cell b, bool descending) {
    if (!s->is_real && s->dtype == DTYPE_U64) return descending ? (uint64_t)b.i < (uint64_t)a.i : (uint64_t)a.i < (uint64_t)b.i;
    if (!s->is_real) return descending ? b.i < a.i : a.i < b.i;
    if (isnan(a.f) || isnan(b.f)) return !isnan(a.f);
    return descending ? b.f < a.f : a.f < b.f;
}

/* NaN wins over every number: the reduction of the same kind is NaN. */
static bool is_better(const Slot *s, Cell a, Cell best, bool largest) {
    if (s->is_real && isnan(best.f)) return false;
    if (s->is_real && isnan(a.f)) return true;
    return precedes(s, a, best, largest);
}

static void run_arg(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *x = inst->operands[0];
    Slot *r = inst->results[0];
    Lines l = lines_along(x, axis_of(inst));
    bool largest = ir_op_kind(inst->op) == IR_KIND_MAX;
    (void)m, (void)active;
    for (unsigned d = 0; d < x->rank; d++) {
        IrAxisLink link = ir_axis_link(inst->op, 0, d);
        if (link.axis < 0) continue;
        bool folded = link.relation == IR_AXIS_FOLDED;
        r->lo[link.axis] = folded ? 0 : x->lo[d];
        r->hi[link.axis] = folded ? 1 : x->hi[d];
    }
    for (int64_t n = 0; n < l.lines; n++) {
        int64_t best = -1, start = line_start(&l, n);
        for (int64_t i = l.lo; i < l.hi; i++)
            if (best < 0 || is_better(x, x->cells[start + i * l.stride], x->cells[start + best * l.stride], largest)) best = i;
        r->cells[n].i = best;
    }
}

/* Stable: an insertion sort of indices. */
static void sort_line(const Slot *x, const Lines *l, int64_t start, bool descending, int64_t *order) {
    int64_t count = 0;
    for (int64_t i = l->lo; i < l->hi; i++, count++) {
        int64_t k = count;
        for (; k > 0 && precedes(x, x->cells[start + i * l->stride], x->cells[start + order[k - 1] * l->stride], descending); k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (int64_t i = 0; i < l->extent; i++)
        if (i < l->lo || i >= l->hi) order[count++] = i;
}

static void run_sort(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *x = inst->operands[0];
    Lines l = lines_along(x, axis_of(inst));
    int64_t *order = ARENA_ARRAY(m->arena, int64_t, (size_t)l.extent + 1);
    (void)active;
    for (unsigned i = 0; i < 2; i++) {
        Slot *r = inst->results[i];
        copy_presence(r, x);
        r->lo[l.axis] = 0;
        r->hi[l.axis] = l.hi > l.lo ? l.hi - l.lo : 0;
    }
    for (int64_t n = 0; n < l.lines; n++) {
        int64_t start = line_start(&l, n);
        sort_line(x, &l, start, ir_attr_bool(inst->op, "descending"), order);
        for (int64_t i = 0; i < l.extent; i++) {
            int64_t at = start + i * l.stride;
            inst->results[0]->cells[at] = x->cells[start + order[i] * l.stride];
            inst->results[1]->cells[at].i = order[i];
        }
    }
}

/* ---- Movement ---- */

static void run_flip(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *x = inst->operands[0];
    Slot *r = inst->results[0];
    Lines l = lines_along(x, axis_of(inst));
    (void)m, (void)active;
    copy_presence(r, x);
    r->lo[l.axis] = l.extent - l.hi;
    r->hi[l.axis] = l.extent - l.lo;
    for (int64_t n = 0; n < l.lines; n++)
        for (int64_t i = 0; i < l.extent; i++) {
            int64_t start = line_start(&l, n);
            r->cells[start + i * l.stride] = x->cells[start + (l.extent - 1 - i) * l.stride];
        }
}

static void run_concat(Machine *m, Inst *inst, const uint8_t *active) {
    Slot *r = inst->results[0];
    unsigned axis = axis_of(inst), count = inst->op->operand_count;
    Lines to = lines_along(r, axis);
    int64_t begin = 0;
    (void)active;
    copy_presence(r, inst->operands[0]);
    for (unsigned o = 0; o < count; o++) {
        const Slot *x = inst->operands[o];
        Lines from = lines_along(x, axis);
        if ((o && from.lo > 0) || (o + 1 < count && from.hi < from.extent))
            machine_trap(m, "what is present of the concat's operands is no interval");
        for (int64_t n = 0; n < from.lines; n++)
            for (int64_t i = 0; i < from.extent; i++)
                r->cells[line_start(&to, n) + (begin + i) * to.stride] = x->cells[line_start(&from, n) + i * from.stride];
        r->hi[axis] = begin + from.hi;
        begin += from.extent;
    }
}

static bool next_index(const int64_t *extents, unsigned rank, int64_t *index) {
    for (unsigned d = rank; d-- > 0;) {
        if (++index[d] < extents[d]) return true;
        index[d] = 0;
    }
    return false;
}

static size_t flat_index(const Slot *s, const int64_t *index) {
    int64_t flat = 0;
    for (unsigned d = 0; d < s->rank; d++) flat = flat * s->extents[d] + index[d];
    return (size_t)flat;
}

static int64_t ceil_divide(int64_t a, int64_t b) { /* b > 0 */
    return a / b + (a % b > 0);
}

static void run_extract(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *x = inst->operands[0];
    Slot *r = inst->results[0];
    const char *letters = ir_attr_str(inst->op, "axes", "");
    const IrAttr *steps = ir_attr(inst->op, "steps");
    int64_t begin[SLOT_RANK], step[SLOT_RANK], index[SLOT_RANK] = {0}, from[SLOT_RANK];
    int kept_axis[SLOT_RANK];
    unsigned operand = 1, kept = 0;
    bool gone = false;
    (void)m, (void)active;
    for (unsigned d = 0; d < x->rank; d++) {
        begin[d] = inst->operands[operand++]->cells[0].i;
        kept_axis[d] = letters[d] == IR_LETTER_RANGE ? (int)kept : -1;
        gone |= letters[d] == IR_LETTER_POINT && (begin[d] < x->lo[d] || begin[d] >= x->hi[d]);
        if (letters[d] != IR_LETTER_RANGE) continue;
        int64_t end = inst->operands[operand++]->cells[0].i, hi = end < x->hi[d] ? end : x->hi[d];
        step[d] = steps ? steps->ints[kept] : 1;
        int64_t lo = x->lo[d] > begin[d] ? ceil_divide(x->lo[d] - begin[d], step[d]) : 0;
        r->lo[kept] = lo;
        r->hi[kept] = clamp(ceil_divide(hi - begin[d], step[d]), r->extents[kept]);
        kept++;
    }
    for (unsigned k = 0; k < kept && gone; k++) r->lo[k] = r->hi[k] = 0;
    for (size_t e = 0; e < r->n; e++, next_index(r->extents, r->rank, index)) {
        bool inside = true;
        for (unsigned d = 0; d < x->rank; d++) {
            from[d] = begin[d] + (kept_axis[d] >= 0 ? index[kept_axis[d]] * step[d] : 0);
            inside &= from[d] >= 0 && from[d] < x->extents[d];
        }
        r->cells[e] = inside ? x->cells[flat_index(x, from)] : cell_poison(r->dtype);
    }
}

/* The lane of the part that replaces `index` of the whole; false where there is none. */
static bool part_lane(const Inst *inst, const Slot *part, const int64_t *index, int64_t *lane) {
    const char *letters = ir_attr_str(inst->op, "axes", "");
    const IrAttr *steps = ir_attr(inst->op, "steps");
    unsigned operand = 2, kept = 0;
    for (unsigned d = 0; letters[d]; d++) {
        int64_t begin = inst->operands[operand++]->cells[0].i, offset = index[d] - begin;
        if (letters[d] != IR_LETTER_RANGE) {
            if (offset) return false;
            continue;
        }
        int64_t end = inst->operands[operand++]->cells[0].i, step = steps ? steps->ints[kept] : 1;
        if (offset < 0 || index[d] >= end || offset % step) return false;
        lane[kept] = offset / step;
        if (lane[kept] < part->lo[kept] || lane[kept] >= part->hi[kept]) return false;
        if (lane[kept] >= part->extents[kept]) return false;
        kept++;
    }
    return true;
}

static void run_insert(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *whole = inst->operands[0], *part = inst->operands[1];
    Slot *r = inst->results[0];
    int64_t index[SLOT_RANK] = {0}, lane[SLOT_RANK] = {0};
    slot_copy(m, r, whole, active);
    for (size_t e = 0; e < r->n; e++, next_index(r->extents, r->rank, index))
        if (part_lane(inst, part, index, lane)) r->cells[e] = part->cells[flat_index(part, lane)];
}

static void run_gather(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *x = inst->operands[0], *at = inst->operands[1];
    Slot *r = inst->results[0];
    unsigned axis = axis_of(inst);
    Cell outside = cell_pad(inst->op, r);
    int64_t index[SLOT_RANK] = {0}, from[SLOT_RANK];
    (void)m, (void)active;
    for (unsigned o = 0; o < 2; o++)
        for (unsigned d = 0; d < inst->operands[o]->rank; d++) {
            IrAxisLink link = ir_axis_link(inst->op, o, d);
            if (link.axis < 0) continue;
            r->lo[link.axis] = inst->operands[o]->lo[d];
            r->hi[link.axis] = inst->operands[o]->hi[d];
        }
    for (size_t e = 0; e < r->n; e++, next_index(r->extents, r->rank, index)) {
        int64_t lane = at->cells[flat_index(at, index + axis)].i;
        /* NOLINTNEXTLINE(*ArrayBound): an index tile has an axis */
        for (unsigned d = 0; d < x->rank; d++) from[d] = d < axis ? index[d] : d == axis ? lane : index[d + at->rank - 1];
        bool inside = lane >= x->lo[axis] && lane < x->hi[axis];
        r->cells[e] = inside ? x->cells[flat_index(x, from)] : outside;
    }
}

InstRun interpret_axes_op(IrOpcode op) {
    switch (op) {
    case IR_TILE_SCAN:
        return run_scan;
    case IR_TILE_ARG:
        return run_arg;
    case IR_TILE_SORT:
        return run_sort;
    case IR_TILE_FLIP:
        return run_flip;
    case IR_TILE_CONCAT:
        return run_concat;
    case IR_TILE_EXTRACT:
        return run_extract;
    case IR_TILE_INSERT:
        return run_insert;
    case IR_TILE_GATHER:
        return run_gather;
    default:
        return NULL;
    }
}
