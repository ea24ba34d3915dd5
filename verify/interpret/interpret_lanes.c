/* Ops that work lane by lane, on scalars, vectors and tiles. f32 is computed in float, wider and
 * narrower floats in double and rounded: one rounding per op in every case (double has more than
 * twice the bits that +, -, *, / and sqrt of a narrower type need). */
#include "interpret_internal.h"

#include <math.h>
#include <string.h>

Cell cell_load(Dtype dtype, const void *memory) {
    if (dtype_is_float(dtype)) return (Cell){.f = dtype_read(dtype, memory)};
    return (Cell){.i = dtype_read_int(dtype, memory)};
}

void cell_store(Dtype dtype, void *memory, Cell value) {
    if (dtype_is_float(dtype))
        dtype_write(dtype, memory, value.f);
    else
        dtype_write_int(dtype, memory, value.i);
}

Cell cell_poison(Dtype dtype) {
    return dtype_is_float(dtype) ? (Cell){.f = NAN} : (Cell){.i = scalar_wrap(dtype, 0x5EADBEEF)};
}

static double real_round(Dtype dtype, double v) {
    if (dtype == DTYPE_F64) return v;
    return dtype == DTYPE_F32 ? (float)v : dtype_round(dtype, v);
}

Cell cell_round(const Slot *as, Cell value) {
    if (as->is_real) return (Cell){.f = real_round(as->dtype, value.f)};
    return (Cell){.i = scalar_wrap(as->dtype, value.i)};
}

double real_fma(Dtype dtype, double a, double b, double c) {
    if (dtype == DTYPE_F32) return fmaf((float)a, (float)b, (float)c);
    return real_round(dtype, fma(a, b, c));
}

static double real_binary(IrOpcode op, Dtype dtype, double a, double b) {
    bool single = dtype == DTYPE_F32;
    float x = (float)a, y = (float)b;
    switch (op) {
    case IR_ADD:
        return single ? x + y : real_round(dtype, a + b);
    case IR_SUB:
        return single ? x - y : real_round(dtype, a - b);
    case IR_MUL:
        return single ? x * y : real_round(dtype, a * b);
    case IR_DIV:
        return single ? x / y : real_round(dtype, a / b);
    case IR_LOG_RATIO:
        return real_round(dtype, log(a) - log(b));
    case IR_FLOORDIV:
        return real_round(dtype, scalar_floor_quotient(a, b));
    case IR_MOD:
        return real_round(dtype, scalar_floor_remainder(a, b));
    case IR_MIN:
        return -scalar_real_max(-a, -b);
    case IR_MAX:
        return scalar_real_max(a, b);
    case IR_MINNUM:
        return isnan(a) ? b : isnan(b) ? a : -scalar_real_max(-a, -b);
    case IR_MAXNUM:
        return isnan(a) ? b : isnan(b) ? a : scalar_real_max(a, b);
    default:
        return real_round(dtype, scalar_math(op, a, b));
    }
}

static double real_unary(IrOpcode op, Dtype dtype, double a) {
    if (ir_math_info(op)) return real_round(dtype, scalar_math(op, a, 0));
    switch (op) {
    case IR_NEG:
        return -a;
    case IR_ABS:
        return fabs(a);
    case IR_ERFC:
        return real_round(dtype, erfc(a));
    case IR_SQRT:
        return dtype == DTYPE_F32 ? sqrtf((float)a) : real_round(dtype, sqrt(a));
    case IR_FLOOR:
        return floor(a);
    case IR_CEIL:
        return ceil(a);
    case IR_TRUNC:
        return trunc(a);
    default:
        return rint(a); /* IR_RINT */
    }
}

Cell cell_binary(IrOpcode op, Dtype dtype, Cell a, Cell b) {
    if (dtype_is_float(dtype)) return (Cell){.f = real_binary(op, dtype, a.f, b.f)};
    return (Cell){.i = scalar_integer_binary(op, dtype, a.i, b.i)};
}

static Cell cell_cast(const Slot *to, const Slot *from, Cell v) {
    if (to->is_real && from->is_real) return (Cell){.f = real_round(to->dtype, v.f)};
    if (to->is_real) return (Cell){.f = scalar_round_integer(to->dtype, from->dtype, v.i)};
    if (!from->is_real) return (Cell){.i = scalar_wrap(to->dtype, v.i)};
    if (to->dtype == DTYPE_BOOL) return (Cell){.i = v.f != 0};
    return (Cell){.i = scalar_to_integer(to->dtype, v.f)};
}

static Cell lane_result(const Inst *inst, const Slot *r, const Cell *x) {
    const Slot *a = inst->operands[0];
    IrOpcode op = inst->op->opcode;
    switch (op) {
    case IR_LT:
    case IR_LE:
    case IR_EQ:
    case IR_NE:
        return (Cell){.i = a->is_real ? scalar_compare_real(op, x[0].f, x[1].f) : scalar_compare_integer(op, a->dtype, x[0].i, x[1].i)};
    case IR_SELECT:
        return x[0].i ? x[1] : x[2];
    case IR_CAST:
        return cell_cast(r, a, x[0]);
    case IR_FMA:
        if (r->is_real) return (Cell){.f = real_fma(r->dtype, x[0].f, x[1].f, x[2].f)};
        x = (Cell[]){cell_binary(IR_MUL, r->dtype, x[0], x[1]), x[2]};
        return cell_binary(IR_ADD, r->dtype, x[0], x[1]);
    default:
        break;
    }
    if (inst->op->operand_count == 2) return cell_binary(op, r->dtype, x[0], x[1]);
    if (r->is_real) return (Cell){.f = real_unary(op, r->dtype, x[0].f)};
    return (Cell){.i = scalar_integer_unary(op, r->dtype, x[0].i)};
}

/* Presence is the intersection over tile operands; scalars are present everywhere. */
static void intersect_presence(const Inst *inst, Slot *r) {
    for (unsigned d = 0; d < r->rank; d++) {
        r->lo[d] = 0;
        r->hi[d] = r->extents[d];
        for (unsigned i = 0; i < inst->op->operand_count; i++) {
            const Slot *x = inst->operands[i];
            if (!x->is_tile) continue;
            if (x->lo[d] > r->lo[d]) r->lo[d] = x->lo[d];
            if (x->hi[d] < r->hi[d]) r->hi[d] = x->hi[d];
        }
        if (r->hi[d] < r->lo[d]) r->hi[d] = r->lo[d];
    }
}

/* What most ops are is decided once for all threads and lanes. */
#define EACH(field, value)                                                                                                                 \
    do {                                                                                                                                   \
        unsigned count = inst->op->operand_count;                                                                                          \
        const Slot *x = inst->operands[0], *y = inst->operands[count > 1 ? 1 : 0], *z = inst->operands[count > 2 ? 2 : 0];                 \
        const size_t n = r->n, threads = m->threads, xn = x->n, yn = y->n, zn = z->n;                                                      \
        for (size_t t = 0; t < threads; t++) {                                                                                             \
            if (!active[t]) continue;                                                                                                      \
            const Cell *a = &x->cells[t * xn], *b = &y->cells[t * yn], *c = &z->cells[t * zn];                                             \
            Cell *to = &r->cells[t * n];                                                                                                   \
            for (size_t e = 0; e < n; e++, a += xn != 1, b += yn != 1, c += zn != 1) to[e].field = (value);                                \
            (void)b, (void)c;                                                                                                              \
        }                                                                                                                                  \
        return true;                                                                                                                       \
    } while (0)

/* False for ops that are none of these: so below. */
static bool run_choice(const Machine *m, const Inst *inst, const uint8_t *active, Slot *r) {
    bool real = inst->operands[0]->is_real;
    Dtype dtype = inst->operands[0]->dtype;
    switch (inst->op->opcode) {
#define COMPARE(op)                                                                                                                        \
    case op:                                                                                                                               \
        if (real) EACH(i, scalar_compare_real(op, a->f, b->f));                                                                            \
        EACH(i, scalar_compare_integer(op, dtype, a->i, b->i))
        COMPARE(IR_LT);
        COMPARE(IR_LE);
        COMPARE(IR_EQ);
        COMPARE(IR_NE);
#undef COMPARE
    case IR_SELECT:
        EACH(i, (a->i ? b : c)->i); /* the same bytes for floats */
    default:
        return false;
    }
}

static bool run_integers(const Machine *m, const Inst *inst, const uint8_t *active, Slot *r) {
    Dtype dtype = r->dtype;
    if (r->is_real || inst->op->operand_count != 2) return false;
    switch (inst->op->opcode) {
#define BINARY(op)                                                                                                                         \
    case op:                                                                                                                               \
        EACH(i, scalar_integer_binary(op, dtype, a->i, b->i))
        BINARY(IR_ADD);
        BINARY(IR_SUB);
        BINARY(IR_MUL);
        BINARY(IR_FLOORDIV);
        BINARY(IR_MOD);
        BINARY(IR_MIN);
        BINARY(IR_MAX);
        BINARY(IR_AND);
        BINARY(IR_OR);
#undef BINARY
    default:
        return false;
    }
}

static bool run_singles(const Machine *m, const Inst *inst, const uint8_t *active, Slot *r) {
    if (r->dtype != DTYPE_F32) return false;
    switch (inst->op->opcode) {
    case IR_ADD:
        EACH(f, (float)a->f + (float)b->f);
    case IR_SUB:
        EACH(f, (float)a->f - (float)b->f);
    case IR_MUL:
        EACH(f, (float)a->f * (float)b->f);
    case IR_FMA:
        EACH(f, fmaf((float)a->f, (float)b->f, (float)c->f));
    case IR_MAX:
        EACH(f, scalar_real_max(a->f, b->f));
    default:
        return false;
    }
}
#undef EACH

static void run_lanewise(Machine *m, Inst *inst, const uint8_t *active) {
    Slot *r = inst->results[0];
    unsigned count = inst->op->operand_count;
    if (r->is_tile) intersect_presence(inst, r);
    if (run_choice(m, inst, active, r) || run_integers(m, inst, active, r) || run_singles(m, inst, active, r)) return;
    for (size_t t = 0; t < m->threads; t++) {
        if (!active[t]) continue;
        for (size_t e = 0; e < r->n; e++) {
            Cell x[3] = {{0}, {0}, {0}};
            for (unsigned i = 0; i < count; i++) {
                const Slot *from = inst->operands[i];
                x[i] = from->cells[t * from->n + (from->n == 1 ? 0 : e)];
            }
            r->cells[t * r->n + e] = lane_result(inst, r, x);
        }
    }
}

static void run_bitcast(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *from = inst->operands[0];
    Slot *to = inst->results[0];
    size_t small = dtype_size(from->dtype), large = dtype_size(to->dtype);
    unsigned char bytes[1024];
    if (to->is_tile) intersect_presence(inst, to);
    if (small == large) {
        for (size_t k = 0; k < m->threads * to->n; k++) {
            if (!active[k / to->n]) continue;
            cell_store(from->dtype, bytes, from->cells[k]);
            to->cells[k] = cell_load(to->dtype, bytes);
        }
        return;
    }
    if (from->n * small != to->n * large || to->n * large > sizeof bytes) machine_trap(m, "bitcast between types of different width");
    for (size_t t = 0; t < m->threads; t++) {
        if (!active[t]) continue;
        for (size_t e = 0; e < from->n; e++) cell_store(from->dtype, bytes + e * small, from->cells[t * from->n + e]);
        for (size_t e = 0; e < to->n; e++) to->cells[t * to->n + e] = cell_load(to->dtype, bytes + e * large);
    }
}

static void run_pack(Machine *m, Inst *inst, const uint8_t *active) {
    Slot *r = inst->results[0];
    for (size_t t = 0; t < m->threads; t++)
        for (size_t e = 0; active[t] && e < r->n; e++) r->cells[t * r->n + e] = inst->operands[e]->cells[t];
}

static void run_extract(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *x = inst->operands[0];
    size_t lane = (size_t)ir_attr_int(inst->op, "lane", 0);
    for (size_t t = 0; t < m->threads; t++)
        if (active[t]) inst->results[0]->cells[t] = x->cells[t * x->n + lane];
}

/* The value was decoded; all threads and lanes get it. */
static void run_const(Machine *m, Inst *inst, const uint8_t *active) {
    Slot *r = inst->results[0];
    Cell value = {.i = inst->integers[0]};
    (void)active;
    for (size_t k = 0; k < m->threads * r->n; k++) r->cells[k] = value;
    for (unsigned d = 0; d < r->rank; d++) {
        r->lo[d] = 0;
        r->hi[d] = r->extents[d];
    }
}

/* A tile has the same lane everywhere by its type; threads must hold one value. */
static void run_single(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *x = inst->operands[0];
    Slot *r = inst->results[0];
    const Cell *first = NULL;
    for (size_t t = 0; t < m->threads; t++) {
        if (!active[t]) continue;
        if (!first) first = &x->cells[t];
        /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): of equal bits */
        if (memcmp(first, &x->cells[t], sizeof *first) != 0) machine_trap(m, "threads of a block hold different values");
        r->cells[t] = x->cells[t];
    }
}

InstRun interpret_lanes_op(IrOpcode op) {
    switch (op) {
    case IR_CONST:
        return run_const;
    case IR_BITCAST:
        return run_bitcast;
    case IR_UNIFORM:
    case IR_TILE_SCALAR:
        return run_single;
    case IR_PACK:
        return run_pack;
    case IR_EXTRACT:
        return run_extract;
    default:
        return ir_op_info(op)->traits & IR_ELEMENTWISE ? run_lanewise : NULL;
    }
}
