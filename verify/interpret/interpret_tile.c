/* Ops on whole tiles, with the presence that language.md gives their results. */
#include "analyzer.h"
#include "interpret_internal.h"

#include <math.h>
#include <string.h>

static void all_present(Slot *r) {
    for (unsigned d = 0; d < r->rank; d++) {
        r->lo[d] = 0;
        r->hi[d] = r->extents[d];
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

static void run_broadcast(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *x = inst->operands[0];
    Slot *r = inst->results[0];
    const IrAttr *axes = ir_attr(inst->op, "axes");
    int64_t index[SLOT_RANK] = {0}, from[SLOT_RANK] = {0};
    bool repeats[SLOT_RANK];
    (void)m, (void)active;
    all_present(r);
    for (unsigned d = 0; d < x->rank; d++) {
        int64_t axis = axes->ints[d];
        repeats[d] = x->extents[d] == 1 && r->extents[axis] != 1;
        bool gone = x->is_tile && x->lo[d] >= x->hi[d];
        if (!repeats[d] || gone) {
            r->lo[axis] = x->lo[d];
            r->hi[axis] = x->hi[d];
        }
    }
    for (size_t e = 0; e < r->n; e++, next_index(r->extents, r->rank, index)) {
        for (unsigned d = 0; d < x->rank; d++) from[d] = repeats[d] ? 0 : index[axes->ints[d]];
        r->cells[e] = x->cells[flat_index(x, from)];
    }
}

static void run_transpose(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *x = inst->operands[0];
    Slot *r = inst->results[0];
    const IrAttr *perm = ir_attr(inst->op, "perm");
    int64_t index[SLOT_RANK] = {0}, from[SLOT_RANK] = {0};
    (void)m, (void)active;
    for (unsigned d = 0; d < r->rank; d++) {
        r->lo[d] = x->lo[perm->ints[d]];
        r->hi[d] = x->hi[perm->ints[d]];
    }
    for (size_t e = 0; e < r->n; e++, next_index(r->extents, r->rank, index)) {
        for (unsigned d = 0; d < r->rank; d++) from[perm->ints[d]] = index[d];
        r->cells[e] = x->cells[flat_index(x, from)];
    }
}

static bool whole_axis(const Slot *s, unsigned d) {
    return s->lo[d] <= 0 && s->hi[d] >= s->extents[d];
}

/* Presence survives on leading axes that the reshape keeps; else the interval of the outermost
 * partial axis must scale to an axis of the result. */
static void run_reshape(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *x = inst->operands[0];
    Slot *r = inst->results[0];
    (void)active;
    all_present(r);
    memcpy(r->cells, x->cells, r->n * sizeof *r->cells);
    if (!r->n) return;
    int64_t inner_x = 1, inner_r = 1;
    int dr = (int)r->rank - 1;
    for (int d = (int)x->rank - 1; d >= 0; inner_x *= x->extents[d], d--) {
        if (whole_axis(x, (unsigned)d)) continue;
        while (dr >= 0 && inner_r * r->extents[dr] <= inner_x) inner_r *= r->extents[dr--];
        bool same_end = dr >= 0 && inner_x * x->extents[d] == inner_r * r->extents[dr];
        if (!same_end || (x->lo[d] * inner_x) % inner_r || (x->hi[d] * inner_x) % inner_r)
            machine_trap(m, "the reshape's presence is no interval");
        r->lo[dr] = x->lo[d] * inner_x / inner_r;
        r->hi[dr] = x->hi[d] * inner_x / inner_r;
    }
}

static void run_iota(Machine *m, Inst *inst, const uint8_t *active) {
    Slot *r = inst->results[0];
    int64_t axis = ir_attr_int(inst->op, "axis", 0), index[SLOT_RANK] = {0};
    (void)m, (void)active;
    all_present(r);
    for (size_t e = 0; e < r->n; e++, next_index(r->extents, r->rank, index))
        r->cells[e] = r->is_real ? (Cell){.f = (double)index[axis]} : (Cell){.i = index[axis]};
}

static void run_convert(Machine *m, Inst *inst, const uint8_t *active) {
    slot_copy(m, inst->results[0], inst->operands[0], active);
}

static bool is_present(const Slot *s, const int64_t *index) {
    for (unsigned d = 0; d < s->rank; d++)
        if (index[d] < s->lo[d] || index[d] >= s->hi[d]) return false;
    return true;
}

static void run_fill(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *x = inst->operands[0];
    Slot *r = inst->results[0];
    const IrAttr *attr = ir_attr(inst->op, "value");
    double number = attr->kind == IR_ATTR_FLOAT ? attr->number : (double)attr->integer;
    Cell fill = r->is_real ? (Cell){.f = number} : (Cell){.i = attr->kind == IR_ATTR_FLOAT ? (int64_t)number : attr->integer};
    int64_t index[SLOT_RANK] = {0};
    int64_t axis = ir_attr_int(inst->op, "axis", -1);
    (void)m, (void)active;
    fill = cell_round(r, fill);
    for (size_t e = 0; e < r->n; e++, next_index(r->extents, r->rank, index)) r->cells[e] = is_present(x, index) ? x->cells[e] : fill;
    all_present(r);
    for (unsigned d = 0; axis >= 0 && d < r->rank; d++) {
        if (d == axis) continue;
        r->lo[d] = x->lo[d];
        r->hi[d] = x->hi[d];
    }
}

static int64_t length(const Slot *s, unsigned d) {
    return s->hi[d] > s->lo[d] ? s->hi[d] - s->lo[d] : 0;
}

static void run_count(Machine *m, Inst *inst, const uint8_t *active) {
    const IrAttr *axes = ir_attr(inst->op, "axes");
    int64_t count = 1;
    (void)m, (void)active;
    for (size_t i = 0; i < axes->count; i++) count *= length(inst->operands[0], (unsigned)axes->ints[i]);
    inst->results[0]->cells[0].i = count;
}

/* ---- Reductions ---- */

IrOpcode interpret_reduce_op(Machine *m, IrKind kind) {
    switch (kind) {
    case IR_KIND_ADD:
        return IR_ADD;
    case IR_KIND_MUL:
        return IR_MUL;
    case IR_KIND_MAX:
        return IR_MAX;
    case IR_KIND_MIN:
        return IR_MIN;
    case IR_KIND_AND:
        return IR_AND;
    case IR_KIND_OR:
        return IR_OR;
    default:
        machine_trap(m, "no such reduction: %s", ir_enum_word(IR_ENUM_KIND, kind));
    }
}

Cell interpret_identity(IrOpcode op, const Slot *r) {
    bool lowest = op == IR_MAX;
    if (op == IR_ADD || op == IR_MUL) return r->is_real ? (Cell){.f = op == IR_MUL} : (Cell){.i = op == IR_MUL};
    if (op == IR_AND || op == IR_OR) return (Cell){.i = op == IR_OR ? 0 : scalar_wrap(r->dtype, -1)};
    if (r->is_real) return (Cell){.f = lowest ? -INFINITY : INFINITY};
    return (Cell){.i = scalar_limit(r->dtype, lowest)};
}

static void run_reduce(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *x = inst->operands[0];
    Slot *r = inst->results[0];
    const IrAttr *axes = ir_attr(inst->op, "axes");
    bool keep = ir_attr_bool(inst->op, "keepdim"), reduced[SLOT_RANK] = {false};
    IrOpcode op = interpret_reduce_op(m, ir_op_kind(inst->op));
    int64_t index[SLOT_RANK] = {0}, to[SLOT_RANK] = {0};
    unsigned at = 0;
    (void)active;
    for (size_t i = 0; i < axes->count; i++) reduced[axes->ints[i]] = true;
    for (unsigned d = 0; d < x->rank; d++) {
        if (reduced[d] && !keep) continue;
        r->lo[at] = reduced[d] ? 0 : x->lo[d];
        r->hi[at++] = reduced[d] ? 1 : x->hi[d];
    }
    for (size_t e = 0; e < r->n; e++) r->cells[e] = interpret_identity(op, r);
    for (size_t e = 0; e < x->n; e++, next_index(x->extents, x->rank, index)) {
        bool counts = true;
        at = 0;
        for (unsigned d = 0; d < x->rank; d++) {
            counts &= !reduced[d] || (index[d] >= x->lo[d] && index[d] < x->hi[d]);
            if (!reduced[d] || keep) to[at++] = reduced[d] ? 0 : index[d];
        }
        if (!counts) continue;
        Cell *acc = &r->cells[r->rank ? flat_index(r, to) : 0];
        *acc = cell_binary(op, r->dtype, *acc, x->cells[e]);
    }
}

/* ---- Products ---- */

typedef struct {
    const Slot *shape; /* extents and dtype */
    const Cell *cells; /* or, of a staged buffer: */
    const unsigned char *data;
    bool transposed;
    int64_t lo[2], hi[2]; /* present rows and columns, after transposition */
    const IrAttr *lead;   /* of staged buffers: stages moved by a step along each leading axis */
} Factor;

static Cell factor_at(const Factor *f, int64_t batch, int64_t row, int64_t column) {
    unsigned rank = f->shape->rank;
    int64_t rows = f->shape->extents[rank - 2], columns = f->shape->extents[rank - 1];
    int64_t at = batch * rows * columns + (f->transposed ? column * columns + row : row * columns + column);
    if (f->cells) return f->cells[at];
    ANALYZER_ASSUME(f->data);
    return cell_load(f->shape->dtype, f->data + at * (int64_t)dtype_size(f->shape->dtype));
}

/* The matrix of `f` for matrix `batch` of r: leading axes line up from the last, extents of 1 repeat. */
static int64_t batch_of(const Factor *f, const Slot *r, int64_t batch) {
    int64_t at = 0, weight = 1;
    for (unsigned d = r->rank - 2; f->lead && d-- > 0; batch /= r->extents[d]) at += batch % r->extents[d] * f->lead->ints[d];
    if (f->lead) return at;
    for (unsigned d = r->rank - 2, k = f->shape->rank - 2; k > 0; k--) {
        /* NOLINTNEXTLINE(*ArrayBound): the result has as many leading axes as a factor */
        int64_t extent = r->extents[--d], own = f->shape->extents[k - 1];
        if (own != 1) at += batch % extent * weight;
        batch /= extent, weight *= own;
    }
    return at;
}

static Factor tile_factor(const Slot *s, bool transposed) {
    Factor f = {.shape = s, .cells = s->cells, .transposed = transposed};
    for (unsigned i = 0; i < 2; i++) {
        unsigned d = s->rank - 2 + (transposed ? 1 - i : i);
        f.lo[i] = s->lo[d];
        f.hi[i] = s->hi[d];
    }
    return f;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}
static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* A dot product in ascending k; a product of floats is added with one rounding. */
static Cell dot(const Factor *a, const Factor *b, const Slot *r, int64_t batch, int64_t row, int64_t column, Cell acc) {
    int64_t from = larger(a->lo[1], b->lo[0]), to = smaller(a->hi[1], b->hi[0]);
    int64_t matrix_a = batch_of(a, r, batch), matrix_b = batch_of(b, r, batch);
    for (int64_t k = from; k < to; k++) {
        Cell x = factor_at(a, matrix_a, row, k), y = factor_at(b, matrix_b, k, column);
        if (r->is_real)
            acc.f = real_fma(r->dtype, x.f, y.f, acc.f);
        else
            acc.i = scalar_integer_binary(IR_ADD, r->dtype, acc.i, (int64_t)((uint64_t)x.i * (uint64_t)y.i));
    }
    return acc;
}

static void multiply(const Factor *a, const Factor *b, const Slot *acc, Slot *r) {
    unsigned rank = r->rank;
    int64_t rows = r->extents[rank - 2], columns = r->extents[rank - 1], batches = 1;
    for (unsigned d = 0; d + 2 < rank; d++) batches *= r->extents[d];
    for (int64_t n = 0; n < batches; n++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++) {
                int64_t at = (n * rows + i) * columns + j;
                r->cells[at] = dot(a, b, r, n, i, j, acc->cells[at]);
            }
}

/* Leading lanes that are absent in a factor are so in the product. */
static void limit_leading(Slot *r, const Slot *x) {
    unsigned shift = r->rank - x->rank;
    for (unsigned d = 0; d + 2 < x->rank; d++) {
        if (x->extents[d] != r->extents[d + shift] && x->lo[d] == 0 && x->hi[d] == 1) continue;
        r->lo[d + shift] = larger(r->lo[d + shift], x->lo[d]);
        r->hi[d + shift] = smaller(r->hi[d + shift], x->hi[d]);
    }
}

static void run_gemm(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *x = inst->operands[0], *y = inst->operands[1], *acc = inst->operands[2];
    Slot *r = inst->results[0];
    Factor a = tile_factor(x, ir_attr_bool(inst->op, "trans_a"));
    Factor b = tile_factor(y, ir_attr_bool(inst->op, "trans_b"));
    unsigned rank = r->rank;
    (void)m, (void)active;
    multiply(&a, &b, acc, r);
    for (unsigned d = 0; d + 2 < rank; d++) r->lo[d] = acc->lo[d], r->hi[d] = acc->hi[d];
    limit_leading(r, x);
    limit_leading(r, y);
    r->lo[rank - 2] = larger(acc->lo[rank - 2], a.lo[0]);
    r->hi[rank - 2] = smaller(acc->hi[rank - 2], a.hi[0]);
    r->lo[rank - 1] = larger(acc->lo[rank - 1], b.lo[1]);
    r->hi[rank - 1] = smaller(acc->hi[rank - 1], b.hi[1]);
}

/* ---- Staged buffers ---- */

static unsigned char *stage_data(Machine *m, const Slot *buffer, const Slot *stage) {
    int64_t at = stage->cells[0].i, bytes = (int64_t)dtype_size(buffer->dtype);
    for (unsigned d = 0; d < buffer->rank; d++) bytes *= buffer->extents[d];
    if (at < 0 || at >= (int64_t)buffer->type->stages) machine_trap(m, "stage %lld does not exist", (long long)at);
    return buffer->memory->data + at * bytes;
}

static void run_buf_store(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *tile = inst->operands[0], *buffer = inst->operands[1];
    unsigned char *data = stage_data(m, buffer, inst->operands[2]);
    int64_t index[SLOT_RANK] = {0}, size = (int64_t)dtype_size(buffer->dtype), bytes = size;
    unsigned lead = tile->rank - buffer->rank;
    (void)active;
    for (unsigned d = 0; d < buffer->rank; d++) bytes *= buffer->extents[d];
    for (unsigned d = 0; d < lead; d++) bytes *= tile->extents[d];
    memset(data, 0, (size_t)bytes); /* a stage may be larger than the matrix */
    for (size_t e = 0; e < tile->n; e++, next_index(tile->extents, tile->rank, index)) {
        int64_t at = 0;
        for (unsigned d = 0; d < lead; d++) at = at * tile->extents[d] + index[d];
        for (unsigned d = 0; d < buffer->rank; d++) at = at * buffer->extents[d] + index[lead + d];
        if (is_present(tile, index)) cell_store(buffer->dtype, data + at * size, tile->cells[e]);
    }
}

static void run_buf_load(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *buffer = inst->operands[0];
    Slot *r = inst->results[0];
    const unsigned char *data = stage_data(m, buffer, inst->operands[1]);
    (void)active;
    all_present(r);
    for (size_t e = 0; e < r->n; e++) r->cells[e] = cell_load(r->dtype, data + e * dtype_size(r->dtype));
}

static Factor stage_factor(Machine *m, const Slot *buffer, const Slot *stage, const IrOp *op, bool second) {
    bool transposed = ir_attr_bool(op, second ? "trans_b" : "trans_a");
    Factor f = {
        .shape = buffer, .data = stage_data(m, buffer, stage), .transposed = transposed, .lead = ir_attr(op, second ? "lead_b" : "lead_a")};
    /* NOLINTNEXTLINE(*ArrayBound): a factor has two axes or more */
    for (unsigned i = 0; i < 2; i++) f.hi[i] = buffer->extents[buffer->rank - 2 + (transposed ? 1 - i : i)];
    return f;
}

static void run_buf_gemm(Machine *m, Inst *inst, const uint8_t *active) {
    Slot **x = inst->operands, *r = inst->results[0];
    bool registers = inst->op->operands[0]->type->kind == IR_TYPE_TILE;
    Factor a = registers ? tile_factor(x[0], false) : stage_factor(m, x[0], x[1], inst->op, false);
    Factor b = stage_factor(m, x[2], x[3], inst->op, true);
    (void)active;
    multiply(&a, &b, x[4], r);
    memcpy(r->lo, x[4]->lo, sizeof r->lo);
    memcpy(r->hi, x[4]->hi, sizeof r->hi);
    const IrAttr *bounds = ir_attr(inst->op, "bounds");
    for (unsigned i = 0; bounds && i < bounds->count; i++) {
        int64_t d = bounds->ints[i];
        r->lo[d] = larger(r->lo[d], x[5 + 2 * i]->cells[0].i);
        r->hi[d] = smaller(r->hi[d], x[6 + 2 * i]->cells[0].i);
    }
}

static void run_decoded(Machine *m, Inst *inst, const uint8_t *active) {
    (void)m, (void)inst, (void)active; /* buf.alloc: made when the function was decoded */
}

InstRun interpret_tile_op(IrOpcode op) {
    switch (op) {
    case IR_TILE_BROADCAST:
        return run_broadcast;
    case IR_TILE_TRANSPOSE:
        return run_transpose;
    case IR_TILE_RESHAPE:
        return run_reshape;
    case IR_TILE_IOTA:
        return run_iota;
    case IR_TILE_CONVERT:
    case IR_TILE_COMBINE: /* here a tile is whole */
        return run_convert;
    case IR_TILE_FILL:
        return run_fill;
    case IR_TILE_COUNT:
        return run_count;
    case IR_TILE_REDUCE:
        return run_reduce;
    case IR_TILE_GEMM:
        return run_gemm;
    case IR_BUF_ALLOC:
        return run_decoded;
    case IR_BUF_STORE:
        return run_buf_store;
    case IR_BUF_LOAD:
        return run_buf_load;
    case IR_BUF_GEMM:
        return run_buf_gemm;
    default:
        return NULL;
    }
}
