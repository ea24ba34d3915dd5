/* Slices of tensors: tile.load, tile.store and buf.copy. Per tensor axis a range (begin, end) with
 * a step, or one index; a lane counts where begin <= index < end and the index is in the tensor. */
#include "interpret_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const Slot *tensor;
    IrSlice form;
    int64_t begin[SLOT_RANK];             /* by tensor axis */
    const Slot *index[SLOT_RANK];         /* the index tile, or null */
    int64_t lo[SLOT_RANK], hi[SLOT_RANK]; /* by kept axis: lanes that count */
    bool outside;                         /* an index is outside: no lane counts */
    const Inst *beyond;                   /* the last lane: in this view, outside of what it sees */
} Slice;

static int64_t ceil_divide(int64_t a, int64_t b) { /* b > 0 */
    return a / b + (a % b > 0);
}

static void add_range(Slice *s, unsigned d, int64_t begin, int64_t end) {
    unsigned k = (unsigned)s->form.axes[d].axis;
    int64_t extent = s->tensor->extents[d], stop = end < extent ? end : extent;
    int64_t step = s->form.axes[d].step;
    s->begin[d] = begin;
    s->lo[k] = begin < 0 ? ceil_divide(-begin, step) : 0;
    s->hi[k] = stop > begin ? ceil_divide(stop - begin, step) : 0;
}

/* A lane counts where all its indices are present. */
static void add_index(Slice *s, unsigned d, const Slot *index) {
    bool first = true;
    for (unsigned i = 0; i < d; i++) first = first && !s->index[i];
    s->index[d] = index;
    for (unsigned a = 0; a < index->rank; a++) {
        unsigned k = (unsigned)s->form.gather_axis + a;
        if (first || index->lo[a] > s->lo[k]) s->lo[k] = index->lo[a];
        if (first || index->hi[a] < s->hi[k]) s->hi[k] = index->hi[a];
    }
}

static Slice decode_slice(const Inst *inst) {
    Slice s = {.form = ir_slice(inst->op)};
    s.tensor = inst->operands[s.form.base];
    for (unsigned d = 0; d < s.tensor->rank; d++) {
        const IrSliceAxis *axis = &s.form.axes[d];
        if (axis->letter == IR_LETTER_GATHER) {
            add_index(&s, d, inst->operands[axis->operand]);
            continue;
        }
        int64_t begin = inst->operands[axis->operand]->cells[0].i;
        if (axis->letter == IR_LETTER_RANGE) {
            add_range(&s, d, begin, inst->operands[axis->operand + 1]->cells[0].i);
            continue;
        }
        s.begin[d] = begin;
        s.outside |= begin < 0 || begin >= s.tensor->extents[d];
    }
    return s;
}

/* Clips the slice's lanes to a tile of these extents. */
static void clip(Slice *s, const Slot *tile) {
    for (unsigned k = 0; k < s->form.kept; k++) {
        int64_t extent = tile->rank ? tile->extents[k] : 1;
        if (s->hi[k] > extent) s->hi[k] = extent;
        if (s->lo[k] > s->hi[k]) s->lo[k] = s->hi[k] = 0;
    }
}

static int64_t lane_index(const Slice *s, unsigned d, const int64_t *lane) {
    const Slot *index = s->index[d];
    int64_t at = 0;
    for (unsigned a = 0; a < index->rank; a++) at = at * index->extents[a] + lane[(unsigned)s->form.gather_axis + a];
    return index->cells[at].i;
}

/* The indices of what a view sees, in place; false outside of that. */
static bool through_view(Machine *m, const Inst *view, int64_t *index) {
    const Slot *base = view->operands[0];
    Code *map = view->regions[0];
    static const uint8_t one[1] = {1};
    for (unsigned d = 0; d < view->results[0]->rank; d++) map->args[d]->cells[0].i = index[d];
    run_code(m, map, one);
    Slot **yielded = map->insts[map->count - 1].operands;
    for (unsigned d = 0; d < base->rank; d++) {
        index[d] = yielded[d]->cells[0].i;
        if (index[d] < 0 || index[d] >= base->extents[d]) return false;
    }
    return true;
}

static int64_t place_of(const Slot *tensor, const int64_t *index) {
    int64_t place = 0;
    for (unsigned d = 0; d < tensor->rank; d++) place += index[d] * tensor->strides[d];
    return place;
}

/* The place in the tensor behind views. */
static bool behind_views(Machine *m, Slice *s, int64_t *index, int64_t *flat) {
    const Slot *at = s->tensor;
    for (; at->view; at = at->view->operands[0])
        if (!through_view(m, at->view, index)) {
            s->beyond = at->view;
            return false;
        }
    *flat = place_of(at, index);
    return true;
}

/* The place of a lane in the tensor's memory; false where the lane does not count, or its index is outside. */
static bool slice_index(Machine *m, Slice *s, const int64_t *lane, int64_t *flat) {
    int64_t index[SLOT_RANK] = {0};
    s->beyond = NULL;
    if (s->outside) return false;
    for (unsigned k = 0; k < s->form.kept; k++)
        if (lane[k] < s->lo[k] || lane[k] >= s->hi[k]) return false;
    for (unsigned d = 0; d < s->tensor->rank; d++) {
        const IrSliceAxis *axis = &s->form.axes[d];
        int64_t at = s->begin[d];
        if (axis->letter == IR_LETTER_RANGE) at += lane[axis->axis] * axis->step;
        if (axis->letter == IR_LETTER_GATHER) at = lane_index(s, d, lane);
        if (at < 0 || at >= s->tensor->extents[d]) return false;
        index[d] = at;
    }
    if (s->tensor->view) return behind_views(m, s, index, flat);
    *flat = place_of(s->tensor, index);
    return true;
}

static bool next_lane(const Slot *tile, int64_t *lane) {
    for (unsigned d = tile->rank; d-- > 0;) {
        if (++lane[d] < tile->extents[d]) return true;
        lane[d] = 0;
    }
    return false;
}

static unsigned char *element(Machine *m, const Slot *tensor, int64_t flat) {
    int64_t size = (int64_t)dtype_size(tensor->dtype);
    memory_check(m, tensor->memory, flat * size, size, 1);
    return tensor->memory->data + flat * size;
}

/* 0 without one; what the type does not hold is rounded to it. */
Cell cell_pad(const IrOp *op, const Slot *r) {
    const IrAttr *pad = ir_attr(op, "pad");
    double value = !pad ? 0 : dtype_round(r->dtype, pad->kind == IR_ATTR_FLOAT ? pad->number : (double)pad->integer);
    return r->is_real ? (Cell){.f = value} : (Cell){.i = (int64_t)value};
}

/* What lanes outside read: the value of pad, else poison where they are absent. */
static Cell pad_cell(const Inst *inst, const Slot *r) {
    return ir_attr(inst->op, "pad") ? cell_pad(inst->op, r) : cell_poison(r->dtype);
}

static void run_view(Machine *m, Inst *inst, const uint8_t *active) {
    (void)m, (void)active;
    inst->results[0]->view = inst;
    inst->results[0]->memory = inst->operands[0]->memory;
}

/* The lanes present: all with pad=, but for absent indices. */
static void set_presence(const Slice *s, bool padded, Slot *r) {
    for (unsigned k = 0; k < r->rank; k++) {
        bool indexed = s->form.gather_axis >= 0 && (int)k >= s->form.gather_axis && k < (unsigned)s->form.gather_axis + s->form.gather_rank;
        bool none = s->outside && !padded;
        r->lo[k] = none || (padded && !indexed) ? 0 : s->lo[k];
        r->hi[k] = none ? 0 : padded && !indexed ? r->extents[k] : s->hi[k];
    }
}

static bool present(const Slot *tile, const int64_t *lane);

static void run_load(Machine *m, Inst *inst, const uint8_t *active) {
    Slot *r = inst->results[0];
    const Slot *tensor = inst->operands[0];
    Slice s = decode_slice(inst);
    int64_t lane[SLOT_RANK] = {0}, flat;
    Cell outside = pad_cell(inst, r), poison = cell_poison(r->dtype);
    bool padded = ir_attr(inst->op, "pad") != NULL, gathers = s.form.gather_axis >= 0;
    (void)active;
    clip(&s, r);
    set_presence(&s, padded, r);
    for (size_t e = 0; e < r->n; e++, next_lane(r, lane)) {
        if (slice_index(m, &s, lane, &flat))
            r->cells[e] = cell_load(r->dtype, element(m, tensor, flat));
        else if (s.beyond)
            r->cells[e] = cell_pad(s.beyond->op, r);
        else if (padded)
            r->cells[e] = present(r, lane) ? outside : poison;
        else
            r->cells[e] = gathers && present(r, lane) ? (Cell){.i = 0} : outside;
    }
}

static bool present(const Slot *tile, const int64_t *lane) {
    for (unsigned d = 0; d < tile->rank && tile->is_tile; d++)
        if (lane[d] < tile->lo[d] || lane[d] >= tile->hi[d]) return false;
    return true;
}

IrOpcode interpret_update(IrKind kind) {
    return kind == IR_KIND_MAX ? IR_MAX : kind == IR_KIND_MIN ? IR_MIN : IR_ADD;
}

static void run_store(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *tile = inst->operands[0], *tensor = inst->operands[1];
    IrKind mode = ir_op_mode(inst->op);
    IrOpcode op = interpret_update(mode);
    Slice s = decode_slice(inst);
    int64_t lane[SLOT_RANK] = {0}, flat;
    (void)active;
    clip(&s, tile);
    for (size_t e = 0; e < tile->n; e++, next_lane(tile, lane)) {
        if (!present(tile, lane) || !slice_index(m, &s, lane, &flat)) continue;
        unsigned char *memory = element(m, tensor, flat);
        Cell value = tile->cells[e];
        if (mode != IR_KIND_SET) value = cell_binary(op, tensor->dtype, cell_load(tensor->dtype, memory), value);
        cell_store(tensor->dtype, memory, value);
    }
}

/* Into a stage, absent lanes zero; an asynchronous copy lands when it is waited for. */
static void run_copy(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *tensor = inst->operands[0], *buffer = inst->operands[1];
    int64_t stage = inst->operands[2]->cells[0].i, lane[SLOT_RANK] = {0}, flat;
    size_t size = dtype_size(buffer->dtype), count = 1;
    for (unsigned d = 0; d < buffer->rank; d++) count *= (size_t)buffer->extents[d];
    if (stage < 0 || stage >= (int64_t)buffer->type->stages) machine_trap(m, "stage %lld does not exist", (long long)stage);
    Slice s = decode_slice(inst);
    (void)active;
    clip(&s, buffer);
    unsigned char *data = calloc(count + 1, size);
    if (!data) machine_trap(m, "out of memory");
    for (size_t e = 0; e < count; e++, next_lane(buffer, lane))
        if (slice_index(m, &s, lane, &flat)) memcpy(data + e * size, tensor->memory->data + flat * (int64_t)size, size);
    int64_t to = stage * (int64_t)(count * size);
    if (ir_attr_bool(inst->op, "async")) {
        PendingCopy copy = {
            .data = data, .memory = buffer->memory, .offset = to, .bytes = (int64_t)(count * size), .group = m->open_group[0]};
        VEC_PUSH(m->arena, &m->pending, copy);
        return;
    }
    memcpy(buffer->memory->data + to, data, count * size);
    free(data);
}

InstRun interpret_slice_op(IrOpcode op) {
    switch (op) {
    case IR_VIEW:
        return run_view;
    case IR_TILE_LOAD:
        return run_load;
    case IR_TILE_STORE:
        return run_store;
    case IR_BUF_COPY:
    case IR_TMA_COPY:
        return run_copy;
    default:
        return NULL;
    }
}
