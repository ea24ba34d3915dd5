/* Slices of tensors: tile.load, tile.store and buf.copy. Per tensor axis a range (begin, end) with
 * a step, or one index; a lane counts where begin <= index < end and the index is in the tensor. */
#include "interpret_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const Slot *tensor;
    unsigned kept;
    int64_t begin[SLOT_RANK], step[SLOT_RANK]; /* by tensor axis */
    int axis[SLOT_RANK];                       /* the tile's axis, -1: one index */
    int64_t lo[SLOT_RANK], hi[SLOT_RANK];      /* by kept axis: lanes that count */
    bool outside;                              /* an index is outside: no lane counts */
} Slice;

static int64_t ceil_divide(int64_t a, int64_t b) { /* b > 0 */
    return a / b + (a % b > 0);
}

static void add_range(Slice *s, unsigned d, int64_t begin, int64_t end, int64_t step) {
    unsigned k = s->kept++;
    int64_t extent = s->tensor->extents[d], stop = end < extent ? end : extent;
    s->axis[d] = (int)k;
    s->begin[d] = begin;
    s->step[d] = step;
    s->lo[k] = begin < 0 ? ceil_divide(-begin, step) : 0;
    s->hi[k] = stop > begin ? ceil_divide(stop - begin, step) : 0;
}

/* The slice operands start at `from`. */
static Slice decode_slice(const Inst *inst, const Slot *tensor, unsigned from) {
    Slice s = {.tensor = tensor};
    const char *axes = ir_attr_str(inst->op, "axes", "");
    const IrAttr *steps = ir_attr(inst->op, "steps");
    for (unsigned d = 0; d < tensor->rank; d++) {
        int64_t begin = inst->operands[from++]->cells[0].i;
        if (axes[d] == 'r') {
            add_range(&s, d, begin, inst->operands[from++]->cells[0].i,
                      steps ? steps->ints[s.kept] : 1);
            continue;
        }
        s.axis[d] = -1;
        s.begin[d] = begin;
        s.outside |= begin < 0 || begin >= tensor->extents[d];
    }
    return s;
}

/* Clips the slice's lanes to a tile of these extents. */
static void clip(Slice *s, const Slot *tile) {
    for (unsigned k = 0; k < s->kept; k++) {
        int64_t extent = tile->rank ? tile->extents[k] : 1;
        if (s->hi[k] > extent) s->hi[k] = extent;
        if (s->lo[k] > s->hi[k] || s->outside) s->lo[k] = s->hi[k] = 0;
    }
}

/* The tensor's flat index of a lane; false where the lane does not count. */
static bool slice_index(const Slice *s, const int64_t *lane, int64_t *flat) {
    if (s->outside) return false;
    *flat = 0;
    for (unsigned k = 0; k < s->kept; k++)
        if (lane[k] < s->lo[k] || lane[k] >= s->hi[k]) return false;
    for (unsigned d = 0; d < s->tensor->rank; d++) {
        int64_t at = s->begin[d] + (s->axis[d] >= 0 ? lane[s->axis[d]] * s->step[d] : 0);
        *flat = *flat * s->tensor->extents[d] + at;
    }
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

static void run_load(Machine *m, Inst *inst, const uint8_t *active) {
    Slot *r = inst->results[0];
    const Slot *tensor = inst->operands[0];
    const IrAttr *pad = ir_attr(inst->op, "pad");
    Slice s = decode_slice(inst, tensor, 1);
    int64_t lane[SLOT_RANK] = {0}, flat;
    Cell absent = cell_poison(r->dtype);
    (void)active;
    clip(&s, r);
    if (pad) {
        double value = pad->kind == IR_ATTR_FLOAT ? pad->number : (double)pad->integer;
        absent = r->is_real ? (Cell){.f = value} : (Cell){.i = (int64_t)value};
        absent = cell_round(r, absent);
    }
    for (unsigned k = 0; k < r->rank; k++) {
        r->lo[k] = pad ? 0 : s.lo[k];
        r->hi[k] = pad ? r->extents[k] : s.hi[k];
    }
    for (size_t e = 0; e < r->n; e++, next_lane(r, lane)) {
        bool inside = slice_index(&s, lane, &flat);
        r->cells[e] = inside ? cell_load(r->dtype, element(m, tensor, flat)) : absent;
    }
}

static bool present(const Slot *tile, const int64_t *lane) {
    for (unsigned d = 0; d < tile->rank && tile->is_tile; d++)
        if (lane[d] < tile->lo[d] || lane[d] >= tile->hi[d]) return false;
    return true;
}

IrOpcode interpret_update(const char *kind) {
    return strcmp(kind, "max") == 0 ? IR_MAX : strcmp(kind, "min") == 0 ? IR_MIN : IR_ADD;
}

static void run_store(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *tile = inst->operands[0], *tensor = inst->operands[1];
    const char *mode = ir_attr_str(inst->op, "mode", "set");
    IrOpcode op = interpret_update(mode);
    Slice s = decode_slice(inst, tensor, 2);
    int64_t lane[SLOT_RANK] = {0}, flat;
    (void)active;
    clip(&s, tile);
    for (size_t e = 0; e < tile->n; e++, next_lane(tile, lane)) {
        if (!present(tile, lane) || !slice_index(&s, lane, &flat)) continue;
        unsigned char *memory = element(m, tensor, flat);
        Cell value = tile->cells[e];
        if (strcmp(mode, "set") != 0)
            value = cell_binary(op, tensor->dtype, cell_load(tensor->dtype, memory), value);
        cell_store(tensor->dtype, memory, value);
    }
}

/* Into a stage, absent lanes zero; an asynchronous copy lands when it is waited for. */
static void run_copy(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *tensor = inst->operands[0], *buffer = inst->operands[1];
    int64_t stage = inst->operands[2]->cells[0].i, lane[SLOT_RANK] = {0}, flat;
    size_t size = dtype_size(buffer->dtype), count = 1;
    for (unsigned d = 0; d < buffer->rank; d++) count *= (size_t)buffer->extents[d];
    if (stage < 0 || stage >= (int64_t)buffer->type->stages)
        machine_trap(m, "stage %lld does not exist", (long long)stage);
    Slice s = decode_slice(inst, tensor, 3);
    (void)active;
    clip(&s, buffer);
    unsigned char *data = calloc(count + 1, size);
    if (!data) machine_trap(m, "out of memory");
    for (size_t e = 0; e < count; e++, next_lane(buffer, lane))
        if (slice_index(&s, lane, &flat))
            memcpy(data + e * size, tensor->memory->data + flat * (int64_t)size, size);
    int64_t to = stage * (int64_t)(count * size);
    if (ir_attr_bool(inst->op, "async")) {
        PendingCopy copy = {.data = data,
                            .memory = buffer->memory,
                            .offset = to,
                            .bytes = (int64_t)(count * size),
                            .group = m->open_group[0]};
        VEC_PUSH(m->arena, &m->pending, copy);
        return;
    }
    memcpy(buffer->memory->data + to, data, count * size);
    free(data);
}

InstRun interpret_slice_op(IrOpcode op) {
    switch (op) {
    case IR_TILE_LOAD:
        return run_load;
    case IR_TILE_STORE:
        return run_store;
    case IR_BUF_COPY:
        return run_copy;
    default:
        return NULL;
    }
}
