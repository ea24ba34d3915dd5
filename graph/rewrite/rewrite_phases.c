/* Notation that folds under a condition of divisibility, as a transposed convolution with a stride does, solved for the taps that meet it.
 *
 *   Y[.., h, ..] = sum(.., k in 0:K, ..) where((h + c - d*k) % s == 0, term, 0)
 *
 * becomes, with h = s*q + r and for each r the first tap first(r), every step-th of which meets the condition,
 *
 *   P[.., r, q, ..] = sum(.., t in 0:most, ..) where(t < count(r), term of h = s*q + r, k = first(r) + step*t, 0)
 *   Y[.., h, ..] = P[.., h % s, h // s, ..]
 *
 * The terms that are left out are the zeros of the condition, so the value is the same for all data. */
#include "notation.h"
#include "query.h"
#include "rewrite_internal.h"

/* Strides of a transposed convolution along an axis: each is a phase with code of its own (not measured). Axes of an output. */
enum { MOST_PHASES = 16, MOST_AXES = NOTATION_ARGS / 2 };

/* An index of the result that is split, and the folded one that is solved for. */
typedef struct {
    unsigned outer, folded; /* which index of the notation */
    int64_t stride, taps, step;
    const Aff *first, *count; /* of taps; over `phase` */
    const Aff *most;
    IrValue *phase; /* stands for r in the expressions; then the argument that is r */
} Phase;

typedef struct {
    IrOp *op;
    IrModule *m;
    unsigned outer;
    unsigned count;
    Phase phases[MOST_AXES];
    IrValue *left[MOST_AXES]; /* conditions that stay */
    unsigned left_count;
} Solver;

/* ---- Conditions ---- */

static bool is_zero(const IrValue *v) {
    const IrAttr *value = v->def && v->def->opcode == IR_CONST ? ir_attr(v->def, "value") : NULL;
    if (!value) return false;
    return value->kind == IR_ATTR_FLOAT ? value->number == 0 : value->integer == 0;
}

/* index % stride, of which the condition says that it is 0; null: it says something else. */
static const Aff *divided(IrModule *m, const IrValue *condition) {
    const IrOp *op = condition->def;
    if (!op || op->opcode != IR_EQ || !is_zero(op->operands[1])) return NULL;
    IrValue *v = op->operands[0];
    if (v->def && v->def->opcode == IR_CAST) v = v->def->operands[0];
    if (v->type->kind != IR_TYPE_SCALAR || !v->type->is_index) return NULL;
    const Aff *e = ir_aff_of(m, v);
    return e->kind == AFF_MOD ? e : NULL;
}

static int64_t modulo(int64_t a, int64_t n) {
    return (a % n + n) % n;
}

static int64_t gcd(int64_t a, int64_t b) {
    return b ? gcd(b, a % b) : a;
}

/* x with a*x = 1 modulo n, where there is one; of n = 1: 0. */
static int64_t inverse(int64_t a, int64_t n) {
    for (int64_t x = 0; x < n; x++)
        if (modulo(a * x, n) == 1 % n) return x;
    return 0;
}

/* ---- Taps ---- */

static bool is_solved(const Solver *s, unsigned outer, unsigned folded) {
    for (unsigned i = 0; i < s->count; i++)
        if (s->phases[i].outer == outer || s->phases[i].folded == folded) return true;
    return false;
}

static bool extent_of(const Solver *s, unsigned index, int64_t *extent) {
    return aff_is_const(ir_aff_of(s->m, s->op->operands[index]), extent) && *extent >= 1;
}

/* Does an element that the notation reads have both indices in one of its own? Then they move along one axis of a tensor. */
static bool share_axis(const Solver *s, unsigned outer, unsigned folded) {
    IrValue *const *args = s->op->regions[0]->args;
    for (const IrOp *e = s->op->regions[0]->first; e; e = e->next)
        for (unsigned i = 1; e->opcode == IR_GRAPH_ELEMENT && i < e->operand_count; i++) {
            const Aff *at = ir_aff_of(s->m, e->operands[i]);
            if (aff_depends_on(at, args[outer]) && aff_depends_on(at, args[folded])) return true;
        }
    return false;
}

/* The index that the condition is solved for. Where its taps are multiples of the stride it stands in none; then its taps are all or none. */
static bool find_folded(const Solver *s, const Aff *e, unsigned outer, unsigned *folded) {
    unsigned named = 0, sharing = 0, other = 0;
    int64_t extent;
    for (unsigned i = s->outer; i < s->op->operand_count; i++) {
        if (aff_depends_on(e, s->op->regions[0]->args[i])) {
            *folded = i;
            named++;
        } else if (extent_of(s, i, &extent) && !is_solved(s, outer, i) && share_axis(s, outer, i)) {
            other = i;
            sharing++;
        }
    }
    if (!named && sharing == 1) *folded = other, named = 1;
    return named == 1 && extent_of(s, *folded, &extent) && !is_solved(s, outer, *folded);
}

/* first, step and count of the taps k with (r + rest - distance*k) % stride == 0. */
static void solve_taps(const Solver *s, Phase *p, int64_t distance, const Aff *rest) {
    AffCtx *c = s->m->affs;
    const Aff *one = aff_const(c, 1);
    int64_t g = gcd(p->stride, modulo(distance, p->stride));
    p->step = p->stride / g;
    const Aff *at = aff_add(c, aff_var(c, p->phase, "r"), rest), *step = aff_const(c, p->step);
    const Aff *factor = aff_const(c, inverse(modulo(distance, p->stride) / g, p->step));
    p->first = aff_mod(c, aff_mul(c, aff_floordiv(c, at, aff_const(c, g)), factor), step);
    p->count = aff_add(c, aff_floordiv(c, aff_sub(c, aff_const(c, p->taps - 1), p->first), step), one);
    p->most = aff_const(c, (p->taps + p->step - 1) / p->step);
    if (g == 1 && p->taps % p->step == 0) p->count = p->most;
    if (g == 1) return;
    const Aff *meets = aff_sub(c, one, aff_min(c, one, aff_mod(c, at, aff_const(c, g))));
    p->count = aff_mul(c, p->count, meets);
}

/* One index of the result, by 1 in one direction or the other; at most one that is folded, by any constant. */
static bool solve(Solver *s, const Aff *condition) {
    AffCtx *c = s->m->affs;
    IrValue **args = s->op->regions[0]->args;
    const Aff *e = condition->args[0];
    Phase *p = &s->phases[s->count];
    int64_t by = 0, distance = 0;
    unsigned outers = 0;
    if (!aff_is_const(condition->args[1], &p->stride) || p->stride < 2 || p->stride > MOST_PHASES) return false;
    for (unsigned i = 0; i < s->outer; i++)
        if (aff_depends_on(e, args[i])) p->outer = i, outers++;
    if (outers != 1 || !notation_slope(s->m, e, args[p->outer], &by) || !find_folded(s, e, p->outer, &p->folded)) return false;
    by = modulo(by, p->stride);
    if ((by != 1 && by != p->stride - 1) || !extent_of(s, p->folded, &p->taps)) return false;
    if (aff_depends_on(e, args[p->folded]) && !notation_slope(s->m, e, args[p->folded], &distance)) return false;
    const Aff *rest = notation_with(s->m, notation_with(s->m, e, args[p->outer], aff_const(c, 0)), args[p->folded], aff_const(c, 0));
    if (by == 1) distance = -distance;
    if (by != 1) rest = aff_sub(c, aff_const(c, 0), rest);
    p->phase = ARENA_NEW(s->m->arena, IrValue);
    solve_taps(s, p, distance, rest);
    return true;
}

static bool solve_all(Solver *s, IrValue *condition) {
    const IrOp *op = condition->def;
    if (op && op->opcode == IR_AND) return solve_all(s, op->operands[0]) && solve_all(s, op->operands[1]);
    const Aff *e = divided(s->m, condition);
    if (s->count == MOST_AXES || s->left_count == MOST_AXES) return false;
    if (e && solve(s, e))
        s->count++;
    else
        s->left[s->left_count++] = condition;
    return true;
}

/* ---- The notation in phases ---- */

static const Phase *phase_at(const Solver *s, unsigned outer) {
    for (unsigned i = 0; i < s->count; i++)
        if (s->phases[i].outer == outer) return &s->phases[i];
    return NULL;
}

static Phase *tap_at(Solver *s, unsigned folded) {
    for (unsigned i = 0; i < s->count; i++)
        if (s->phases[i].folded == folded) return &s->phases[i];
    return NULL;
}

static const Aff *arg_aff(const Solver *s, const IrValue *arg) {
    return aff_var(s->m->affs, arg, arg->name);
}

/* Extents of the indices: (r, q) in place of one that is split, the number of taps that most phases have of one that is solved for. */
static unsigned new_extents(Solver *s, IrBuilder *b, IrValue **extents, unsigned *outer) {
    AffCtx *c = s->m->affs;
    unsigned n = 0;
    for (unsigned i = 0; i < s->op->operand_count; i++) {
        const Phase *p = i < s->outer ? phase_at(s, i) : NULL, *t = i < s->outer ? NULL : tap_at(s, i);
        if (i == s->outer) *outer = n;
        if (p) extents[n++] = ir_const_index(b, p->stride);
        const Aff *extent = ir_aff_of(s->m, s->op->operands[i]);
        if (p) extent = aff_ceildiv(c, extent, aff_const(c, p->stride));
        extents[n++] = t ? ir_aff_emit(b, t->most) : p ? ir_aff_emit(b, extent) : s->op->operands[i];
    }
    return n;
}

static void add_args(Solver *s, IrBlock *to, Notation *b) {
    AffCtx *c = s->m->affs;
    const IrType *index = ir_type_index(s->m);
    for (unsigned i = 0; i < b->from->arg_count; i++) {
        const IrValue *arg = b->from->args[i];
        const Phase *p = i < s->outer ? phase_at(s, i) : NULL;
        const IrValue *phase = p ? ir_region_add_arg(to, index, NULL) : NULL;
        b->meaning[i] = arg_aff(s, ir_region_add_arg(to, index, arg->name));
        if (!p) continue;
        b->meaning[i] = aff_add(c, aff_mul(c, b->meaning[i], aff_const(c, p->stride)), arg_aff(s, phase));
        Phase *own = &s->phases[p - s->phases];
        own->first = notation_with(s->m, p->first, p->phase, arg_aff(s, phase));
        own->count = notation_with(s->m, p->count, p->phase, arg_aff(s, phase));
    }
    for (unsigned i = s->outer; i < b->from->arg_count; i++) {
        const Phase *p = tap_at(s, i);
        if (p) b->meaning[i] = aff_add(c, p->first, aff_mul(c, b->meaning[i], aff_const(c, p->step)));
    }
}

/* t < count(r), for each index that was solved for and has phases with fewer taps than others. */
static IrValue *bounds(Solver *s, IrBuilder *b, const IrBlock *to) {
    IrValue *all = NULL;
    const IrType *i64 = ir_type_scalar(s->m, DTYPE_I64);
    for (unsigned i = 0; i < s->count; i++) {
        const Phase *p = &s->phases[i];
        if (p->count == p->most) continue;
        IrValue *tap = to->args[to->arg_count - (s->op->operand_count - p->folded)];
        IrValue *below = ir_binary(b, IR_LT, ir_cast(b, tap, i64), ir_cast(b, ir_aff_emit(b, p->count), i64));
        all = all ? ir_binary(b, IR_AND, all, below) : below;
    }
    return all;
}

static void fill_body(Solver *s, IrOp *to) {
    IrValueMap *map = ir_value_map_create(s->m->arena);
    Notation meaning = {.m = s->m, .from = s->op->regions[0], .map = map};
    IrBlock *body = to->regions[0];
    const IrOp *last = meaning.from->last, *choice = last->operands[0]->def;
    add_args(s, body, &meaning);
    IrBuilder b = ir_builder_at_end(body);
    b.span = s->op->span;
    notation_begin(&b, &meaning);
    for (const IrOp *op = meaning.from->first; op != last; op = op->next)
        if (op != choice) notation_copy_op(&b, &meaning, op);
    IrValue *condition = bounds(s, &b, body), *term = ir_value_map_get(map, choice->operands[1]);
    for (unsigned i = 0; i < s->left_count; i++) {
        IrValue *left = ir_value_map_get(map, s->left[i]);
        condition = condition ? ir_binary(&b, IR_AND, condition, left) : left;
    }
    if (condition) term = ir_select(&b, condition, term, ir_value_map_get(map, choice->operands[2]));
    ir_yield(&b, 1, &term);
}

/* Elements of the phases, dealt out to where they stand in the result. */
static IrOp *deal(Solver *s, IrBuilder *b, IrValue *phases) {
    AffCtx *c = s->m->affs;
    IrOp *to = ir_op_create(b, IR_GRAPH_GENERIC, s->outer, s->op->operands, 1, &s->op->results[0].type);
    IrValue *at[2 * MOST_AXES + 1] = {phases};
    unsigned n = 1;
    ir_attr_set_int(to, "outer", s->outer);
    IrBlock *body = to->regions[0];
    for (unsigned i = 0; i < s->outer; i++) ir_region_add_arg(body, ir_type_index(s->m), s->op->regions[0]->args[i]->name);
    IrBuilder inner = ir_builder_at_end(body);
    inner.span = s->op->span;
    for (unsigned i = 0; i < s->outer; i++) {
        const Phase *p = phase_at(s, i);
        const Aff *whole = arg_aff(s, body->args[i]), *stride = p ? aff_const(c, p->stride) : NULL;
        if (p) at[n++] = ir_aff_emit(&inner, aff_mod(c, whole, stride));
        at[n++] = p ? ir_aff_emit(&inner, aff_floordiv(c, whole, stride)) : body->args[i];
    }
    const IrType *scalar = ir_type_scalar(s->m, phases->type->dtype);
    IrValue *element = ir_result(ir_op_create(&inner, IR_GRAPH_ELEMENT, n, at, 1, &scalar), 0);
    ir_yield(&inner, 1, &element);
    return to;
}

static void split(Solver *s) {
    IrValue *extents[2 * MOST_AXES];
    IrBuilder b = ir_builder_before(s->op);
    b.span = s->op->span;
    unsigned outer = 0, n = new_extents(s, &b, extents, &outer);
    IrOp *phases = notation_create(&b, s->op->results[0].type->dtype, n, extents, outer);
    ir_set_kind(phases, ir_op_kind(s->op));
    fill_body(s, phases);
    IrOp *dealt = deal(s, &b, ir_result(phases, 0));
    ir_replace_uses(&s->op->results[0], ir_result(dealt, 0));
    ir_op_erase(s->op);
}

bool rewrite_phases(Rewriter *r, IrOp *op) {
    if (op->opcode != IR_GRAPH_GENERIC || ir_op_kind(op) != IR_KIND_ADD) return false;
    const IrOp *choice = op->regions[0]->last->operands[0]->def;
    Solver s = {.op = op, .m = r->f->module, .outer = (unsigned)ir_attr_int(op, "outer", 0)};
    bool sums = choice && choice->opcode == IR_SELECT && is_zero(choice->operands[2]) && dtype_is_float(choice->results[0].type->dtype);
    if (!sums || op->operand_count > MOST_AXES) return false;
    if (!solve_all(&s, choice->operands[0]) || !s.count) return false;
    split(&s);
    return true;
}
