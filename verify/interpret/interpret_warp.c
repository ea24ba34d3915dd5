/* What a warp does together: shuffles, and the instructions of ir/atoms.def by their documented
 * fragment layouts (PTX ISA, "Matrix Fragments for mma.m16n8k16", "ldmatrix", "stmatrix"). */
#include "analyzer.h"
#include "interpret_internal.h"

#include <math.h>
#include <string.h>

static void need_whole_warp(Machine *m, const uint8_t *active, size_t warp) {
    for (size_t t = warp * WARP; t < (warp + 1) * WARP; t++)
        if (t >= m->threads || !active[t]) machine_trap(m, "a collective under divergent control");
}

static bool any_in_warp(const Machine *m, const uint8_t *active, size_t warp) {
    for (size_t t = warp * WARP; t < (warp + 1) * WARP && t < m->threads; t++)
        if (active[t]) return true;
    return false;
}

static void run_shuffle(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *x = inst->operands[0];
    Slot *r = inst->results[0];
    size_t mask = (size_t)ir_attr_int(inst->op, "mask", 0);
    for (size_t warp = 0; warp * WARP < m->threads; warp++) {
        if (!any_in_warp(m, active, warp)) continue;
        need_whole_warp(m, active, warp);
        Cell lanes[WARP];
        for (size_t e = 0; e < r->n; e++) {
            for (size_t l = 0; l < WARP; l++) lanes[l] = x->cells[(warp * WARP + (l ^ mask)) * x->n + e];
            for (size_t l = 0; l < WARP; l++) r->cells[(warp * WARP + l) * r->n + e] = lanes[l];
        }
    }
}

/* Half `high` of register `reg` of a thread's operand as a number. */
static double half_of(const Slot *s, size_t thread, unsigned reg, unsigned high, Dtype dtype) {
    uint32_t bits = (uint32_t)s->cells[thread * s->n + reg].i;
    uint16_t half = (uint16_t)(bits >> (16 * high));
    return dtype_read(dtype, &half);
}

static float cut_off(double sum) {
    float nearest = (float)sum;
    bool beyond = fabs(sum) < 0x1p128 && fabs((double)nearest) > fabs(sum);
    return beyond ? nextafterf(nearest, 0) : nearest;
}

float tensor_core_sum(float acc, const double *products, size_t depth, size_t factor_bytes) {
    for (size_t k = 0; k < depth;) {
        double sum = acc;
        for (size_t end = k + 16 / factor_bytes; k < end; k++) sum += products[k];
        acc = cut_off(sum);
    }
    return acc;
}

/* D = A B + C for 16 x 8 and `depth` k, which are 32 bytes of a factor. */
static void add_products(Inst *inst, size_t first, size_t depth, const double *a, double (*b)[8]) {
    const Slot *c = inst->operands[2];
    Slot *d = inst->results[0];
    double products[16];
    ANALYZER_ASSUME(depth > 0);
    for (size_t l = 0; l < WARP; l++)
        for (size_t e = 0; e < 4; e++) {
            size_t row = l / 4 + e / 2 * 8, column = l % 4 * 2 + e % 2;
            for (size_t k = 0; k < depth; k++) products[k] = a[row * depth + k] * b[k][column];
            d->cells[(first + l) * d->n + e].f = tensor_core_sum((float)c->cells[(first + l) * c->n + e].f, products, depth, 32 / depth);
        }
}

static void multiply_fragments(Inst *inst, size_t first, Dtype dtype) {
    double a[16][16], b[16][8];
    for (size_t l = 0; l < WARP; l++) {
        size_t group = l / 4, pair = l % 4 * 2, t = first + l;
        for (unsigned reg = 0; reg < 4; reg++)
            for (unsigned h = 0; h < 2; h++) a[group + reg % 2 * 8][pair + h + reg / 2 * 8] = half_of(inst->operands[0], t, reg, h, dtype);
        for (unsigned reg = 0; reg < 2; reg++)
            for (unsigned h = 0; h < 2; h++) b[pair + h + reg * 8][group] = half_of(inst->operands[1], t, reg, h, dtype);
    }
    add_products(inst, first, 16, a[0], b);
}

/* The same of 16x8x8 32-bit floats, of which only the 19 upper bits are read. */
static void multiply_words(Inst *inst, size_t first) {
    double a[16][8], b[8][8];
    for (size_t l = 0; l < WARP; l++) {
        size_t group = l / 4, k = l % 4, t = first + l;
        for (unsigned reg = 0; reg < 4; reg++)
            a[group + reg % 2 * 8][k + reg / 2 * 4] = tf32_read((uint32_t)inst->operands[0]->cells[t * inst->operands[0]->n + reg].i);
        for (unsigned reg = 0; reg < 2; reg++)
            b[k + reg * 4][group] = tf32_read((uint32_t)inst->operands[1]->cells[t * inst->operands[1]->n + reg].i);
    }
    add_products(inst, first, 8, a[0], b);
}

/* cvt.rna.tf32.f32: half of what is dropped carries into the rest. */
static void round_words(Inst *inst, size_t first) {
    const Slot *x = inst->operands[0];
    Slot *r = inst->results[0];
    for (size_t i = first * r->n; i < (first + WARP) * r->n; i++) {
        uint32_t bits = (uint32_t)x->cells[i].i;
        bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
        r->cells[i].i = is_nan ? 0x7fffffff : (int64_t)((bits + 0x1000) & TF32_BITS);
    }
}

static int64_t byte_of(const Slot *s, size_t thread, unsigned reg, unsigned byte, bool is_signed) {
    uint8_t bits = (uint8_t)((uint64_t)s->cells[thread * s->n + reg].i >> (8 * byte));
    return is_signed ? (int8_t)bits : bits;
}

/* The same of 16x8x32 bytes, with sums that wrap. */
/* Rows and columns of bytes as a warp's threads hold them. */
static void factors_of_bytes(const Inst *inst, size_t first, bool is_signed, int64_t a[16][32], int64_t b[32][8]) {
    for (size_t l = 0; l < WARP; l++)
        for (unsigned byte = 0; byte < 4; byte++) {
            size_t group = l / 4, k = l % 4 * 4 + byte, t = first + l;
            for (unsigned reg = 0; reg < 4; reg++)
                a[group + reg % 2 * 8][k + reg / 2 * 16] = byte_of(inst->operands[0], t, reg, byte, is_signed);
            for (unsigned reg = 0; reg < 2; reg++) b[k + reg * 16][group] = byte_of(inst->operands[1], t, reg, byte, is_signed);
        }
}

static void multiply_bytes(Inst *inst, size_t first, bool is_signed) {
    int64_t a[16][32], b[32][8];
    factors_of_bytes(inst, first, is_signed, a, b);
    const Slot *c = inst->operands[2];
    Slot *d = inst->results[0];
    for (size_t l = 0; l < WARP; l++)
        for (size_t e = 0; e < 4; e++) {
            size_t row = l / 4 + e / 2 * 8, column = l % 4 * 2 + e % 2;
            int64_t sum = c->cells[(first + l) * c->n + e].i;
            for (size_t k = 0; k < 32; k++) sum += a[row][k] * b[k][column];
            d->cells[(first + l) * d->n + e].i = (int32_t)(uint32_t)(uint64_t)sum;
        }
}

static double float_of_byte(Dtype dtype, int64_t byte) {
    return dtype_read(dtype, &(uint8_t){(uint8_t)byte});
}

/* The same of 8-bit floats: terms are cut as sums of tensor cores cut them at worst. */
static void multiply_f8(Inst *inst, size_t first, Dtype dtype) {
    int64_t a[16][32], b[32][8];
    double terms[33];
    factors_of_bytes(inst, first, false, a, b);
    const Slot *c = inst->operands[2];
    Slot *d = inst->results[0];
    for (size_t l = 0; l < WARP; l++)
        for (size_t e = 0; e < 4; e++) {
            size_t row = l / 4 + e / 2 * 8, column = l % 4 * 2 + e % 2;
            terms[32] = c->cells[(first + l) * c->n + e].f;
            for (size_t k = 0; k < 32; k++) terms[k] = float_of_byte(dtype, a[row][k]) * float_of_byte(dtype, b[k][column]);
            d->cells[(first + l) * d->n + e].f = (float)interpret_cut_sum(terms, COUNT_OF(terms), F8_SUM_BITS);
        }
}

/* Lane i gives the address of row i % 8 of matrix i / 8; register j of lane l is elements 2 (l % 4)
 * and the next of row l / 4 of matrix j, or of its transpose. */
static void load_matrices(Machine *m, Inst *inst, size_t first, unsigned count, bool transposed) {
    const Slot *ptr = inst->operands[0], *offset = inst->operands[1];
    uint16_t rows[4][8][8];
    for (unsigned l = 0; l < count * 8; l++) {
        int64_t at = memory_address(m, ptr, offset->cells[first + l].i, 16, 16, first + l);
        memory_note(m, ptr->memory, at, 16, first + l, false);
        memcpy(rows[l / 8][l % 8], ptr->memory->data + at, 16);
    }
    Slot *r = inst->results[0];
    for (size_t l = 0; l < WARP; l++)
        for (unsigned j = 0; j < count; j++) {
            size_t row = l / 4, column = l % 4 * 2;
            /* NOLINTNEXTLINE(*uninitialized.Assign): all rows of `count` matrices have been copied */
            uint32_t low = transposed ? rows[j][column][row] : rows[j][row][column];
            uint32_t high = transposed ? rows[j][column + 1][row] : rows[j][row][column + 1];
            r->cells[(first + l) * r->n + j].i = (int64_t)(low | high << 16);
        }
}

/* The way back. */
static void store_matrices(Machine *m, Inst *inst, size_t first, unsigned count, bool transposed) {
    const Slot *ptr = inst->operands[0], *offset = inst->operands[1], *words = inst->operands[2];
    uint16_t rows[4][8][8];
    for (size_t l = 0; l < WARP; l++)
        for (unsigned j = 0; j < count; j++) {
            size_t row = l / 4, column = l % 4 * 2;
            uint32_t word = (uint32_t)words->cells[(first + l) * words->n + j].i;
            for (size_t h = 0; h < 2; h++)
                rows[j][transposed ? column + h : row][transposed ? row : column + h] = (uint16_t)(word >> 16 * h);
        }
    for (unsigned l = 0; l < count * 8; l++) {
        int64_t at = memory_address(m, ptr, offset->cells[first + l].i, 16, 16, first + l);
        memory_note(m, ptr->memory, at, 16, first + l, true);
        memcpy(ptr->memory->data + at, rows[l / 8][l % 8], 16);
    }
}

static void multiply_warp(Machine *m, Inst *inst, size_t first, IrAtom atom) {
    switch (atom) {
    case IR_ATOM_MMA_M16N8K16_F32_F16:
        multiply_fragments(inst, first, DTYPE_F16);
        break;
    case IR_ATOM_MMA_M16N8K16_F32_BF16:
        multiply_fragments(inst, first, DTYPE_BF16);
        break;
    case IR_ATOM_MMA_M16N8K8_F32_TF32:
        multiply_words(inst, first);
        break;
    case IR_ATOM_MMA_M16N8K32_S32_S8:
    case IR_ATOM_MMA_M16N8K32_S32_U8:
        multiply_bytes(inst, first, atom == IR_ATOM_MMA_M16N8K32_S32_S8);
        break;
    case IR_ATOM_MMA_M16N8K32_F32_E4M3:
    case IR_ATOM_MMA_M16N8K32_F32_E5M2:
        multiply_f8(inst, first, atom == IR_ATOM_MMA_M16N8K32_F32_E4M3 ? DTYPE_F8E4M3 : DTYPE_F8E5M2);
        break;
    default:
        machine_trap(m, "the interpreter does not know the product %s", ir_enum_word(IR_ENUM_ATOM, atom));
    }
}

static void run_atom(Machine *m, Inst *inst, const uint8_t *active) {
    const IrAtom atom = ir_op_atom(inst->op);
    const unsigned matrices = ir_atom_matrices(atom);
    const bool transposes = ir_atom_transposes(atom);
    for (size_t warp = 0; warp * WARP < m->threads; warp++) {
        if (!any_in_warp(m, active, warp)) continue;
        need_whole_warp(m, active, warp);
        size_t first = warp * WARP;
        if (matrices && ir_atom_stores(atom))
            store_matrices(m, inst, first, matrices, transposes);
        else if (matrices)
            load_matrices(m, inst, first, matrices, transposes);
        else if (ir_atom_multiplies(atom))
            multiply_warp(m, inst, first, atom);
        else if (atom == IR_ATOM_CVT_TF32_X4)
            round_words(inst, first);
        else
            machine_trap(m, "the interpreter does not know the instruction %s", ir_enum_word(IR_ENUM_ATOM, atom));
    }
}

InstRun interpret_warp_op(IrOpcode op) {
    switch (op) {
    case IR_SHUFFLE_XOR:
        return run_shuffle;
    case IR_ATOM:
        return run_atom;
    default:
        return NULL;
    }
}
