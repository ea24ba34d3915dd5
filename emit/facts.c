#include "emit_internal.h"

#include <string.h>

enum { GUARDS = 1 /* 0: symbols may be anything, a ring's stage is a quotient of 64 bits */ };

static int64_t saturate(bool overflow, int64_t value, bool high) {
    if (overflow) return high ? INT64_MAX : INT64_MIN;
    return value;
}

static bool bounded(Range r) {
    return r.lo != INT64_MIN && r.hi != INT64_MAX;
}

static Range range_add(Range a, Range b) {
    Range r = RANGE_ALL;
    if (a.lo != INT64_MIN && b.lo != INT64_MIN) {
        bool o = __builtin_add_overflow(a.lo, b.lo, &r.lo);
        r.lo = saturate(o, r.lo, false);
    }
    if (a.hi != INT64_MAX && b.hi != INT64_MAX) {
        bool o = __builtin_add_overflow(a.hi, b.hi, &r.hi);
        r.hi = saturate(o, r.hi, true);
    }
    return r;
}

static Range range_negate(Range a) {
    return (Range){a.hi == INT64_MAX ? INT64_MIN : -a.hi, a.lo == INT64_MIN ? INT64_MAX : -a.lo};
}

static Range range_mul(Range a, Range b) {
    if (bounded(a) && bounded(b)) {
        Range r = {INT64_MAX, INT64_MIN};
        int64_t x[2] = {a.lo, a.hi}, y[2] = {b.lo, b.hi};
        for (int i = 0; i < 4; i++) {
            int64_t p;
            if (__builtin_mul_overflow(x[i / 2], y[i % 2], &p)) return a.lo >= 0 && b.lo >= 0 ? (Range){0, INT64_MAX} : RANGE_ALL;
            if (p < r.lo) r.lo = p;
            if (p > r.hi) r.hi = p;
        }
        return r;
    }
    return a.lo >= 0 && b.lo >= 0 ? (Range){0, INT64_MAX} : RANGE_ALL;
}

static int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static Range range_floordiv(Range a, Range b) {
    if (b.lo <= 0) return a.lo >= 0 && b.lo >= 0 ? (Range){0, a.hi} : RANGE_ALL;
    if (a.lo >= 0) return (Range){b.hi == INT64_MAX ? 0 : a.lo / b.hi, a.hi == INT64_MAX ? INT64_MAX : a.hi / b.lo};
    if (!bounded(a)) return RANGE_ALL;
    return (Range){floor_div(a.lo, b.lo), a.hi < 0 ? -1 : a.hi / b.lo};
}

static Range range_mod(Range a, Range b) {
    if (b.lo < 0) return RANGE_ALL;
    Range r = {0, b.hi == INT64_MAX ? INT64_MAX : b.hi > 0 ? b.hi - 1 : 0};
    if (a.lo >= 0 && b.lo > 0 && a.hi < b.lo) return a; /* too small to wrap */
    if (a.lo >= 0 && a.hi < r.hi) r.hi = a.hi;
    return r;
}

static Range range_and(Range a, Range b) {
    if (a.lo < 0 && b.lo < 0) return RANGE_ALL;
    int64_t hi = INT64_MAX;
    if (a.lo >= 0 && a.hi < hi) hi = a.hi;
    if (b.lo >= 0 && b.hi < hi) hi = b.hi;
    return (Range){0, hi};
}

/* Bits of either: below the next power of two. */
static Range range_or(Range a, Range b) {
    if (a.lo < 0 || b.lo < 0) return RANGE_ALL;
    int64_t most = a.hi > b.hi ? a.hi : b.hi, hi = 1;
    if (most >= INT64_MAX / 2) return (Range){0, INT64_MAX};
    while (hi <= most) hi *= 2;
    return (Range){0, hi - 1};
}

static Range range_shr(Range a, Range n) {
    if (!range_is_const(n) || n.lo < 0 || n.lo > 62) return a.lo >= 0 ? (Range){0, a.hi} : RANGE_ALL;
    return (Range){a.lo >> n.lo, a.hi == INT64_MAX ? INT64_MAX : a.hi >> n.lo};
}

static Range range_shl(Range a, Range n) {
    if (!range_is_const(n) || n.lo < 0 || n.lo > 61) return RANGE_ALL;
    return range_mul(a, (Range){(int64_t)1 << n.lo, (int64_t)1 << n.lo});
}

Range range_of_op(const IrOp *op, const Range *x) {
    switch (op->opcode) {
    case IR_ADD:
        return range_add(x[0], x[1]);
    case IR_SUB:
        return range_add(x[0], range_negate(x[1]));
    case IR_NEG:
        return range_negate(x[0]);
    case IR_MUL:
        return range_mul(x[0], x[1]);
    case IR_FLOORDIV:
        return range_floordiv(x[0], x[1]);
    case IR_MOD:
        return range_mod(x[0], x[1]);
    case IR_AND:
        return range_and(x[0], x[1]);
    case IR_OR:
    case IR_XOR:
        return range_or(x[0], x[1]);
    case IR_SHR:
        return range_shr(x[0], x[1]);
    case IR_SHL:
        return range_shl(x[0], x[1]);
    case IR_MIN:
        return (Range){x[0].lo < x[1].lo ? x[0].lo : x[1].lo, x[0].hi < x[1].hi ? x[0].hi : x[1].hi};
    case IR_MAX:
        return (Range){x[0].lo > x[1].lo ? x[0].lo : x[1].lo, x[0].hi > x[1].hi ? x[0].hi : x[1].hi};
    case IR_SELECT:
        return (Range){x[1].lo < x[2].lo ? x[1].lo : x[2].lo, x[1].hi > x[2].hi ? x[1].hi : x[2].hi};
    default:
        return RANGE_ALL;
    }
}

bool range_fits_int(Range r) {
    return r.lo >= INT32_MIN && r.hi <= INT32_MAX;
}

bool range_is_const(Range r) {
    return r.lo == r.hi;
}

/* Which operand of an op is a global source that is only read, or -1. */
static bool reads_through(const IrUse *use) {
    return use->index == 0 && (use->op->opcode == IR_MEM_LOAD || use->op->opcode == IR_ASYNC_COPY);
}

bool param_is_read_only(const IrFunc *f, unsigned index) {
    for (const IrUse *use = f->body->args[index]->uses; use; use = use->next)
        if (!reads_through(use)) return false;
    return true;
}

bool param_is_shared(const IrFunc *f, unsigned index) {
    const IrParam *param = &f->params[index];
    if (param->kind == IR_PARAM_WORKSPACE && ir_func_has(f, IR_FN_MEETING)) return true;
    if (!ir_func_has(f, IR_FN_DEPENDENT)) return false;
    return ir_param_is_written_before(f, index) || (!param_is_read_only(f, index) && ir_param_is_used_before(f, index));
}

size_t param_access_bytes(const IrFunc *f, unsigned index) {
    const IrValue *p = f->body->args[index];
    size_t widest = dtype_size(p->type->dtype);
    for (unsigned i = 0; i < f->param_count; i++)
        if (f->params[i].kind == IR_PARAM_MAP && strcmp(f->params[i].map.tensor, f->params[index].name) == 0) widest = 16;
    for (const IrUse *use = p->uses; use; use = use->next) {
        const IrOp *op = use->op;
        size_t bytes = 0;
        if (op->opcode == IR_MEM_LOAD)
            bytes = dtype_size(p->type->dtype) * op->results[0].type->width;
        else if (op->opcode == IR_MEM_STORE || op->opcode == IR_MEM_ATOMIC)
            bytes = dtype_size(p->type->dtype) * op->operands[0]->type->width;
        else if (op->opcode == IR_ASYNC_COPY)
            bytes = (size_t)ir_attr_int(op, "bytes", 4);
        if (bytes > 16) bytes = 16;
        if (bytes > widest) widest = bytes;
    }
    return widest;
}

int64_t func_threads(const IrFunc *f) {
    return 32 * ir_func_int(f, IR_FN_NUM_WARPS, 1);
}

bool is_vec(const IrType *t) {
    return t->kind == IR_TYPE_SCALAR && t->width > 1;
}

/* Whether arithmetic stands beside products, of which a ring's indices take issue slots. */
static bool multiplies_from_registers(const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next) {
        if (op->opcode == IR_WGMMA && op->operands[0]->type->kind == IR_TYPE_FRAG) return true;
        for (unsigned r = 0; r < op->region_count; r++)
            if (multiplies_from_registers(op->regions[r])) return true;
    }
    return false;
}

Range range_of_symbol(Arena *scratch, const IrFunc *f, const char *name) {
    Range r = {0, INT64_MAX};
    if (GUARDS && f->guard && f->body->first && multiplies_from_registers(f->body))
        aff_upper_bound(ir_facts_at(scratch, f->body->first), aff_sym(f->module->affs, name), &r.hi);
    return r;
}
