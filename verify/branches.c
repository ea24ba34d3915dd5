/* Which way a sketch's conditions on sizes go: its tile IR walked with scalars alone. Values that hang on data are
 * unknown, and both ways of a branch on them are walked. */
#include "scalars.h"
#include "verify.h"

#include <math.h>
#include <string.h>

typedef struct {
    bool known, sized, real; /* sized: it depends on a symbol */
    int64_t i;
    double v;
} Scalar;

struct BranchMap {
    Arena *arena;
    const IrModule *module;
    size_t count, slots;
    Branch *sites;
    Scalar *values; /* by IrValue.storage */
    int64_t fuel;
    uint8_t *seen;
    const Sizes *sizes;
};

enum { FUEL = 1 << 16, ITERATIONS = 512 };

static bool is_compare(const IrOp *op) {
    return op->opcode == IR_LT || op->opcode == IR_LE || op->opcode == IR_EQ || op->opcode == IR_NE;
}

static bool is_loop(const IrOp *op) {
    return op->opcode == IR_FOR || op->opcode == IR_PARALLEL;
}

bool branch_is_site(const IrOp *op) {
    return is_compare(op) || is_loop(op) || op->opcode == IR_IF;
}

/* ---- Numbering ---- */

static void number_value(BranchMap *map, IrValue *value) {
    value->storage = (unsigned)map->slots++;
}

static void number_block(BranchMap *map, IrBlock *block, const IrFunc *f, size_t *in_func);

static void number_op(BranchMap *map, IrOp *op, const IrFunc *f, size_t *in_func) {
    size_t count;
    const int64_t *places = ir_func_ints(f, IR_FN_PLACES, &count);
    for (unsigned r = 0; r < op->result_count; r++) number_value(map, ir_result(op, r));
    op->mark = UINT32_MAX;
    if (branch_is_site(op)) {
        size_t at = 2 * (*in_func)++;
        bool placed = at + 1 < count;
        op->mark = (uint32_t)map->count;
        map->sites[map->count++] = (Branch){op, placed ? places[at] : 0, placed ? places[at + 1] : 0, is_loop(op)};
    }
    for (unsigned r = 0; r < op->region_count; r++) number_block(map, op->regions[r], f, in_func);
}

static void number_block(BranchMap *map, IrBlock *block, const IrFunc *f, size_t *in_func) {
    for (unsigned i = 0; i < block->arg_count; i++) number_value(map, block->args[i]);
    for (IrOp *op = block->first; op; op = op->next) number_op(map, op, f, in_func);
}

static void count_site(void *ctx, IrOp *op) {
    *(size_t *)ctx += branch_is_site(op);
}

BranchMap *branches_create(Arena *arena, const IrModule *m) {
    BranchMap *map = ARENA_NEW(arena, BranchMap);
    size_t sites = 0;
    for (const IrFunc *f = m->first; f; f = f->next) ir_walk(f->body, count_site, &sites);
    *map = (BranchMap){.arena = arena, .module = m, .sites = ARENA_ARRAY(arena, Branch, sites + 1)};
    for (const IrFunc *f = m->first; f; f = f->next) {
        size_t in_func = 0;
        if (f->level == IR_LEVEL_TILE) number_block(map, f->body, f, &in_func);
    }
    map->values = ARENA_ARRAY(arena, Scalar, map->slots + 1);
    return map;
}

size_t branches_count(const BranchMap *map) {
    return map->count;
}
const Branch *branches_site(const BranchMap *map, size_t i) {
    return &map->sites[i];
}

/* ---- Scalars ---- */

static Scalar get(const BranchMap *map, const IrValue *value) {
    return map->values[value->storage];
}
static void set(BranchMap *map, const IrValue *value, Scalar s) {
    map->values[value->storage] = s;
}

static Scalar constant(const IrOp *op) {
    const IrAttr *value = ir_attr(op, "value");
    if (!value || op->results[0].type->kind != IR_TYPE_SCALAR) return (Scalar){0};
    bool number = value->kind == IR_ATTR_FLOAT;
    bool fits = !number || fabs(value->number) < 0x1p62;
    return (Scalar){.known = true,
                    .real = dtype_is_float(op->results[0].type->dtype) && !op->results[0].type->is_index,
                    .i = number ? (fits ? (int64_t)value->number : 0) : value->integer,
                    .v = number ? value->number : (double)value->integer};
}

static double real_of(Scalar s) {
    return s.real ? s.v : (double)s.i;
}

static Scalar compare(const IrOp *op, Scalar a, Scalar b) {
    bool truth = a.real || b.real ? scalar_compare_real(op->opcode, real_of(a), real_of(b))
                                  : scalar_compare_integer(op->opcode, op->operands[0]->type->dtype, a.i, b.i);
    return (Scalar){.known = true, .sized = a.sized || b.sized, .i = truth};
}

/* One side may decide what the other leaves open. */
static Scalar logic(const IrOp *op, Scalar a, Scalar b) {
    bool sized = a.sized || b.sized, is_and = op->opcode == IR_AND;
    if (op->results[0].type->dtype == DTYPE_BOOL && a.known != b.known) {
        int64_t value = a.known ? a.i : b.i;
        if (value == !is_and) return (Scalar){.known = true, .sized = sized, .i = value};
    }
    if (!a.known || !b.known) return (Scalar){.sized = sized};
    return (Scalar){.known = true, .sized = sized, .i = is_and ? a.i & b.i : a.i | b.i};
}

static Scalar binary(const IrOp *op, Scalar a, Scalar b) {
    Scalar s = {.known = a.known && b.known, .sized = a.sized || b.sized, .real = a.real || b.real};
    if (!s.known) return s;
    if (s.real)
        s.v = scalar_real_binary(op->opcode, real_of(a), real_of(b));
    else
        s.i = scalar_integer_binary(op->opcode, op->results[0].type->dtype, a.i, b.i);
    return s;
}

static Scalar cast(const IrOp *op, Scalar a) {
    Dtype to = op->results[0].type->dtype;
    Scalar s = {.known = a.known, .sized = a.sized, .real = dtype_is_float(to)};
    if (s.real)
        s.v = dtype_round(to, real_of(a));
    else if (a.real)
        s.i = to == DTYPE_BOOL ? a.v != 0 : scalar_to_integer(to, a.v);
    else
        s.i = scalar_wrap(to, a.i);
    return s;
}

static Scalar unary(const IrOp *op, Scalar a) {
    Scalar s = a;
    bool simple = op->opcode == IR_NEG || op->opcode == IR_ABS || op->opcode == IR_NOT;
    if (!simple || (a.real && op->opcode == IR_NOT)) return (Scalar){.sized = a.sized};
    if (a.real)
        s.v = op->opcode == IR_NEG ? -a.v : fabs(a.v);
    else
        s.i = scalar_integer_unary(op->opcode, op->results[0].type->dtype, a.i);
    return s;
}

static Scalar evaluate(BranchMap *map, const IrOp *op) {
    Scalar x[3] = {{0}};
    for (unsigned i = 0; i < op->operand_count && i < 3; i++) x[i] = get(map, op->operands[i]);
    bool sized = x[0].sized || x[1].sized || x[2].sized;
    switch (op->opcode) {
    case IR_CONST:
        return constant(op);
    case IR_LT:
    case IR_LE:
    case IR_EQ:
    case IR_NE:
        return x[0].known && x[1].known ? compare(op, x[0], x[1]) : (Scalar){.sized = sized};
    case IR_AND:
    case IR_OR:
        return logic(op, x[0], x[1]);
    case IR_ADD:
    case IR_SUB:
    case IR_MUL:
    case IR_DIV:
    case IR_FLOORDIV:
    case IR_MOD:
    case IR_MIN:
    case IR_MAX:
        return binary(op, x[0], x[1]);
    case IR_SELECT:
        if (!x[0].known) return (Scalar){.sized = sized};
        x[1].sized = x[2].sized = sized;
        return x[0].i ? x[1] : x[2];
    case IR_CAST:
        return cast(op, x[0]);
    default:
        return op->operand_count == 1 ? unary(op, x[0]) : (Scalar){.sized = sized};
    }
}

/* ---- Walking ---- */

static void note(BranchMap *map, const IrOp *op, Scalar s) {
    if (op->mark != UINT32_MAX && s.known && s.sized) map->seen[op->mark] |= s.i ? BRANCH_TRUE : BRANCH_FALSE;
}

static void walk_block(BranchMap *map, const IrBlock *block);

static void walk_if(BranchMap *map, IrOp *op) {
    Scalar c = get(map, op->operands[0]);
    note(map, op, c);
    for (unsigned way = 0; way < 2; way++) {
        const IrBlock *region = op->regions[way];
        if (c.known && (way == 0) != (c.i != 0)) continue;
        walk_block(map, region);
        const IrOp *yield = region->last;
        for (unsigned r = 0; r < op->result_count; r++) {
            bool given = c.known && yield && yield->opcode == IR_YIELD && r < yield->operand_count;
            Scalar s = given ? get(map, yield->operands[r]) : (Scalar){0};
            s.sized |= c.sized;
            set(map, ir_result(op, r), s);
        }
    }
}

/* Number `k` of so many iterations of `trips`: all, or the first half of them and others to the end. */
static int64_t iteration(int64_t k, int64_t taken, int64_t trips) {
    int64_t front = taken / 2, rest = taken - front;
    if (taken == trips || k < front) return k;
    return trips - 1 - (int64_t)((double)(trips - 1 - front) * (double)(rest - 1 - (k - front)) / (double)rest);
}

static void run_iterations(BranchMap *map, IrOp *op, Scalar lo, Scalar step, int64_t trips, bool sized) {
    const IrBlock *body = op->regions[0];
    int64_t taken = trips < ITERATIONS ? trips : ITERATIONS, fuel = map->fuel;
    for (int64_t k = 0; k < taken && fuel > 0; k++) {
        int64_t share = fuel / (taken - k), before = share > 64 ? share : 64;
        Scalar i = {.known = lo.known, .sized = sized};
        i.i = scalar_wide_add(lo.i, scalar_wide_mul(iteration(k, taken, trips), step.i));
        if (body->arg_count) set(map, body->args[0], i);
        for (unsigned a = 1; a < body->arg_count; a++) set(map, body->args[a], (Scalar){.sized = true});
        map->fuel = before;
        walk_block(map, body);
        fuel -= before - map->fuel;
    }
    map->fuel = fuel;
}

static void walk_loop(BranchMap *map, IrOp *op) {
    Scalar lo = get(map, op->operands[0]), hi = get(map, op->operands[1]), step = get(map, op->operands[2]);
    bool known = lo.known && hi.known && step.known && !lo.real && !hi.real && step.i > 0;
    bool sized = lo.sized || hi.sized || step.sized;
    int64_t trips = 1;
    if (known) {
        double distance = ceil(((double)hi.i - (double)lo.i) / (double)step.i);
        trips = distance <= 0 ? 0 : distance < 0x1p60 ? (int64_t)distance : INT64_C(1) << 60;
        note(map, op, (Scalar){.known = true, .sized = sized, .i = trips > 0});
    } else {
        lo.known = false;
    }
    run_iterations(map, op, lo, step, trips, sized);
    for (unsigned r = 0; r < op->result_count; r++) set(map, ir_result(op, r), (Scalar){.sized = true});
}

static void walk_block(BranchMap *map, const IrBlock *block) {
    for (IrOp *op = block->first; op; op = op->next) {
        if (map->fuel-- <= 0) return;
        if (is_loop(op)) {
            walk_loop(map, op);
        } else if (op->opcode == IR_IF) {
            walk_if(map, op);
        } else if (op->result_count == 1 && op->results[0].type->kind == IR_TYPE_SCALAR && !op->region_count &&
                   op->results[0].type->width <= 1) {
            Scalar s = evaluate(map, op);
            if (is_compare(op)) note(map, op, s);
            set(map, ir_result(op, 0), s);
        } else {
            for (unsigned r = 0; r < op->result_count; r++) set(map, ir_result(op, r), (Scalar){0});
        }
    }
}

static Scalar parameter(const BranchMap *map, const IrParam *p) {
    if (p->kind != IR_PARAM_SYMBOL) return (Scalar){0};
    for (size_t i = 0; i < map->sizes->count; i++)
        if (strcmp(map->sizes->values[i].name, p->name) == 0)
            return (Scalar){.known = true, .sized = true, .i = map->sizes->values[i].value};
    return (Scalar){.sized = true};
}

void branches_walk(BranchMap *map, const Sizes *sizes, uint8_t *seen) {
    map->sizes = sizes;
    map->seen = seen;
    for (const IrFunc *f = map->module->first; f; f = f->next) {
        if (f->level != IR_LEVEL_TILE) continue;
        for (unsigned i = 0; i < f->body->arg_count && i < f->param_count; i++) set(map, f->body->args[i], parameter(map, &f->params[i]));
        map->fuel = FUEL;
        walk_block(map, f->body);
    }
}

/* ---- What can never be ---- */

static const Aff *view(IrModule *m, IrValue *value) {
    const IrOp *op = value->def;
    bool widens = op && op->opcode == IR_CAST && op->operands[0]->type->kind == IR_TYPE_SCALAR &&
                  (op->operands[0]->type->is_index || dtype_bits(op->operands[0]->type->dtype) == 64) &&
                  op->results[0].type->dtype == DTYPE_I64;
    return ir_aff_of(m, widens ? op->operands[0] : value);
}

/* Proved of all sizes that the constraints allow. */
static bool is_always(IrModule *m, Arena *arena, IrOp *op, bool truth) {
    const Aff *a = view(m, op->operands[0]), *b = view(m, op->operands[1]), *one = aff_const(m->affs, 1);
    const AffFacts *facts = ir_facts_at(arena, op);
    bool below = aff_prove_le(facts, aff_add(m->affs, a, one), b), above = aff_prove_le(facts, aff_add(m->affs, b, one), a);
    switch (op->opcode) {
    case IR_LT:
        return truth ? below : aff_prove_le(facts, b, a);
    case IR_LE:
        return truth ? aff_prove_le(facts, a, b) : above;
    case IR_EQ:
        return truth ? aff_prove_eq(facts, a, b) : below || above;
    default:
        return truth ? below || above : aff_prove_eq(facts, a, b);
    }
}

static bool holds_integers(const IrOp *op) {
    return is_compare(op) && op->operands[0]->type->kind == IR_TYPE_SCALAR &&
           (op->operands[0]->type->is_index || !dtype_is_float(op->operands[0]->type->dtype));
}

uint8_t branches_missing(const BranchMap *map, size_t site, const uint8_t *seen) {
    IrOp *op = map->sites[site].op;
    if (!seen[site]) return 0; /* the branch around it is what was not taken, or data decide */
    uint8_t missing = (uint8_t)(~seen[site] & (BRANCH_TRUE | BRANCH_FALSE));
    if (is_loop(op)) return missing & BRANCH_TRUE; /* that it may run no iteration is no code */
    if (!missing || !holds_integers(op)) return missing;
    return is_always((IrModule *)(uintptr_t)map->module, map->arena, op, missing == BRANCH_FALSE) ? 0 : missing;
}

/* ---- Numbers in the text ---- */

static void add(SizeLiterals *list, int64_t value) {
    if (value < 2 || value > (1 << 20)) return;
    for (size_t i = 0; i < list->count; i++)
        if (list->values[i] == value) return;
    if (list->count < SIZE_LITERALS) list->values[list->count++] = value;
}

static void collect(void *ctx, IrOp *op) {
    if (op->opcode == IR_CONST && op->results[0].type->kind == IR_TYPE_SCALAR) {
        Scalar s = constant(op);
        bool whole = s.known && (!s.real || (s.v == (double)s.i && s.v >= 16));
        if (whole) add(ctx, s.i);
    }
    for (unsigned r = 0; r < op->result_count; r++) {
        const IrType *t = ir_result(op, r)->type;
        for (unsigned d = 0; t->kind == IR_TYPE_TILE && d < t->rank; d++)
            if (ir_type_extent(t, d) > 0) add(ctx, ir_type_extent(t, d));
    }
}

void branches_literals(const IrModule *m, SizeLiterals *list) {
    for (const IrFunc *f = m->first; f; f = f->next)
        if (f->level == IR_LEVEL_TILE) ir_walk(f->body, collect, list);
}
