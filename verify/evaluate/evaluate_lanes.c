/* Elementwise arithmetic on (value, error bound). The error of a result is the propagated error of
 * the operands, bounded by the operation's worst slope over their intervals, plus its own rounding
 * in the node's precision. At a discontinuity within the operands' intervals the error covers both
 * outcomes and the lane is marked as a near tie. */
#include "analyzer.h"
#include "evaluate_internal.h"

#include <math.h>

/* Own rounding in units of half an ulp: 1 for correctly rounded operations, 0 for exact ones, for
 * transcendental functions what ir/math.def states. */
static double own_units(const Node *node) {
    const IrMathInfo *function = ir_math_info(node->opcode);
    if (function) return 2 * (node->unit < 0x1p-30 ? function->ulps_f64 : function->ulps_f32);
    switch (node->opcode) {
    case IR_ADD:
    case IR_SUB:
    case IR_MUL:
    case IR_DIV:
    case IR_FMA:
    case IR_SQRT:
    case IR_CAST:
    case IR_MOD:
        return 1;
    default:
        return 0;
    }
}

double error_settle(const Node *node, double value, double error, double units) {
    if (isnan(error)) error = isfinite(value) ? INFINITY : 0; /* inf * 0 of an exact infinity */
    if (!isfinite(value)) return error == INFINITY ? error : 0;
    /* What rounds to the largest number still is one: less than half of its last place is let pass. */
    bool over = fabs(value) + error - node->largest >= node->half && error + units > 0;
    error += units * ((BOUND_SLACK * node->unit + 0x1p-53) * fabs(value) + node->tiny);
    return over ? INFINITY : error;
}

static double divide_error(double a, double ea, double b, double eb) {
    if (eb == 0 && (b == 0 || isnan(b))) return 0; /* an infinity or NaN */
    if (!(fabs(b) > eb)) return INFINITY;
    return isinf(a) ? ea : (ea + fabs(a / b) * eb) / (fabs(b) - eb);
}

static double pow_error(double a, double ea, double b, double eb, double v) {
    if (ea == 0 && eb == 0) return 0;
    if (fabs(a) <= ea) return b > 0 && eb == 0 ? pow(fabs(a) + ea, b) + fabs(v) : INFINITY;
    double relative = fabs(b) * ea / (fabs(a) - ea) + eb * (fabs(log(fabs(a))) + ea / fabs(a));
    return fabs(v) * expm1(relative);
}

/* floor is discontinuous at integers: with one inside (v - e, v + e] either side may come out. */
static double floor_error(double x, double e, unsigned *tie) {
    if (e == 0) return 0;
    if (floor(x - e) == floor(x + e)) return 0;
    *tie |= LANE_TIE;
    return floor(x + e) - floor(x - e);
}

/* What a result v in [low, high] may be, as error and flags: of a step by one nothing on the other side. */
static double range_error(double v, double low, double high, unsigned *tie) {
    if (low == high) return 0;
    *tie |= LANE_TIE;
    if (!(high - low < INFINITY)) return INFINITY;
    if (high - low == 1) *tie |= LANE_STEP;
    if (v == low) *tie |= LANE_UP;
    if (v == high) *tie |= LANE_DOWN;
    return high - low;
}

/* Lane l's own interval. */
static double lowest(const Lanes *x, size_t l) {
    return x->v[l] - (x->tie[l] & LANE_UP ? 0 : x->e[l]);
}
static double highest(const Lanes *x, size_t l) {
    return x->v[l] + (x->tie[l] & LANE_DOWN ? 0 : x->e[l]);
}

/* floor, ceil, trunc and rint are monotonous: the interval's ends are rounded. */
static double round_whole(IrOpcode op, double x) {
    return op == IR_FLOOR ? floor(x) : op == IR_CEIL ? ceil(x) : op == IR_TRUNC ? trunc(x) : rint(x);
}

static bool rounds_whole(IrOpcode op) {
    return op == IR_FLOOR || op == IR_CEIL || op == IR_TRUNC || op == IR_RINT;
}

static double whole_error(const Node *node, const Lanes *x, size_t l, unsigned *tie) {
    if (x->e[l] == 0) return 0;
    IrOpcode op = node->opcode;
    return range_error(round_whole(op, x->v[l]), round_whole(op, lowest(x, l)), round_whole(op, highest(x, l)), tie);
}

/* A clamp of whole numbers that may be one of two: what is beyond the limit either way is certain. */
static bool clamps_a_step(const Node *node, const Lanes *const *x, size_t l) {
    bool step = ((x[0]->tie[l] | x[1]->tie[l]) & LANE_STEP) && (x[0]->e[l] == 0 || x[1]->e[l] == 0);
    return step && (node->opcode == IR_MIN || node->opcode == IR_MAX) && !isnan(x[0]->v[l]) && !isnan(x[1]->v[l]);
}

static double clamped_error(const Node *node, const Lanes *const *x, size_t l, double v, unsigned *tie) {
    bool least = node->opcode == IR_MIN;
    double a = lowest(x[0], l), b = lowest(x[1], l), c = highest(x[0], l), d = highest(x[1], l);
    return range_error(v, least ? fmin(a, b) : fmax(a, b), least ? fmin(c, d) : fmax(c, d), tie);
}

/* The quotient's floor is exact below 2^23 (2^51); beyond, division has lost the last whole bits.
 */
static double quotient_error(const Node *node, double a, double ea, double b, double eb, unsigned *tie) {
    double q = a / b, limit = node->unit < 0x1p-30 ? 0x1p51 : 0x1p23;
    if (!isfinite(q)) return 0;
    if (fabs(q) >= limit) {
        *tie |= LANE_TIE;
        return INFINITY;
    }
    if (ea + eb == 0) return 0;
    double slip = divide_error(a, ea, b, eb) + 0x1p-52 * fabs(q);
    return floor_error(q, slip, tie);
}

/* Of the smaller one: where the intervals do not meet it is known which that is. */
static double extreme_error(double a, double ea, double b, double eb) {
    if (a + ea < b - eb) return ea;
    return b + eb < a - ea ? eb : fmax(ea, eb);
}

static double binary_error(const Node *node, double a, double ea, double b, double eb, double v, unsigned *tie) {
    switch (node->opcode) {
    case IR_ADD:
    case IR_SUB:
        return ea + eb;
    case IR_MUL:
        return node->fused && product_overflows(a, b) ? INFINITY : product_error(a, ea, b, eb);
    case IR_DIV:
        return divide_error(a, ea, b, eb);
    case IR_FLOORDIV:
        return quotient_error(node, a, ea, b, eb, tie);
    case IR_MOD: {
        double slip = quotient_error(node, a, ea, b, eb, tie);
        return ea + fabs(scalar_floor_quotient(a, b)) * eb + slip * fabs(b);
    }
    case IR_MAX:
        return extreme_error(-a, ea, -b, eb);
    case IR_MIN:
        return extreme_error(a, ea, b, eb);
    case IR_MAXNUM:
    case IR_MINNUM:
        return fmax(ea, eb);
    default: /* IR_POW */
        return pow_error(a, ea, b, eb, v);
    }
}

/* tan' between lo and hi, unless a pole lies between. */
static double tan_slope(double lo, double hi) {
    const double pi = 3.14159265358979323846;
    double steep = fmax(fabs(tan(lo)), fabs(tan(hi)));
    return floor(lo / pi + 0.5) == floor(hi / pi + 0.5) ? 1 + steep * steep : INFINITY;
}

/* The steepest slope of a function of ir/math.def on [lo, hi]. */
static double math_slope(IrOpcode op, double lo, double hi) {
    double far = fmax(fabs(lo), fabs(hi));
    double near = lo <= 0 && hi >= 0 ? 0 : fmin(fabs(lo), fabs(hi));
    switch (op) {
#define MATH(id, name, ulps_f32, ulps_f64, reference, slope, domain, method)                                                               \
    case IR_##id:                                                                                                                          \
        return slope;
#include "math.def"
#undef MATH
    default:
        return INFINITY;
    }
}

/* Functions that overflow do so monotonically: when both ends are beyond the largest number, so is
 * what lies between. */
static double real_function(const Node *node, double a, double ea, double *e) {
    IrOpcode op = node->opcode;
    double v = scalar_math(op, a, 0), limit = node->largest * (1 + node->unit);
    *e = ea == 0 ? 0 : ea * math_slope(op, a - ea, a + ea);
    if (ea == 0 || !(fabs(v) > limit)) return v;
    double low = scalar_math(op, a - ea, 0), high = scalar_math(op, a + ea, 0);
    if (!(fabs(low) > limit && fabs(high) > limit)) return v;
    if (signbit(low) != signbit(high)) return v;
    *e = 0;
    return copysign(INFINITY, v);
}

static double real_unary(const Node *node, double a, double ea, double *e) {
    IrOpcode op = node->opcode;
    double v;
    if (ir_math_info(op)) return real_function(node, a, ea, e);
    switch (op) {
    case IR_NEG:
        *e = ea;
        return -a;
    case IR_ABS:
        *e = ea;
        return fabs(a);
    case IR_SQRT:
        v = sqrt(a);
        if (a < 0) /* NaN for certain, or perhaps -0 */
            *e = a + ea < 0 ? 0 : INFINITY;
        else
            *e = ea == 0 ? 0 : ea < a ? ea / (v + sqrt(a - ea)) : sqrt(a + ea);
        return v;
    default: /* rounds_whole; whole_error is the error */
        *e = 0;
        return round_whole(op, a);
    }
}

/* A correctly rounded sum or product of exact operands that is representable is exact. Outside of
 * exact mode that is claimed of whole numbers only, as quantisation makes them: a sketch may group
 * terms otherwise. A conversion of an exact value that is representable always is exact. */
static bool stays_exact(const Evaluator *ev, const Node *node, double v, double propagated) {
    if (propagated != 0) return false;
    bool whole = v == rint(v) && fabs(v) * node->unit <= 1;
    if ((!ev->exact || ev->trial) && !whole && node->opcode != IR_CAST) return false;
    switch (node->opcode) {
    case IR_ADD:
    case IR_SUB:
    case IR_MUL:
    case IR_FMA:
    case IR_CAST:
        return dtype_round(node->unit < 0x1p-30 ? DTYPE_F64 : node->shape.dtype, v) == v;
    default:
        return false;
    }
}

/* own: of the node, own_units. */
static void finish_real(const Evaluator *ev, const Node *node, double own, Lanes *out, size_t l, double v, double e) {
    double units = own == 0 || stays_exact(ev, node, v, e) ? 0 : own;
    bool over = fabs(v) * (1 - units * node->unit) - e > node->largest * (1 + node->unit);
    if (node->opcode == IR_CAST) /* it rounds once, to nearest */
        over = e == 0 ? !isfinite(dtype_round(node->shape.dtype, v)) : fabs(v) - e - node->largest > node->half;
    if (isfinite(v) && over && !node->fused) v = copysign(INFINITY, v), e = 0;      /* beyond the largest number for certain */
    if (isinf(v) && node->opcode == IR_CAST) v = dtype_round(node->shape.dtype, v); /* f8e4m3 has none */
    out->v[l] = v;
    out->e[l] = error_settle(node, v, e, units);
}

/* Numbers made an infinity, which is no pole: not x / 0, log(0), 0 ** -1. */
static bool overflows(const Node *node, const Lanes *const *x, size_t l) {
    bool finite = true;
    for (unsigned i = 0; i < node->operand_count; i++) finite &= isfinite(x[i]->v[l]);
    double last = x[node->operand_count - 1]->v[l];
    bool pole = node->opcode == IR_DIV ? last == 0 : node->opcode == IR_POW ? x[0]->v[l] == 0 : fabs(last) <= 1 && node->operand_count == 1;
    return finite && !pole;
}

static unsigned flags_of(const Node *node, const Lanes *const *x, size_t l) {
    unsigned flags = 0;
    for (unsigned i = 0; i < node->operand_count; i++) flags |= x[i]->tie[l];
    return flags & ~(unsigned)LANE_WAYS;
}

/* An operand of which nothing is known: 0 * inf of its error is no exact NaN. */
static bool is_unknown(const Node *node, const Lanes *const *x, size_t l) {
    bool unknown = false;
    for (unsigned i = 0; i < node->operand_count; i++) unknown |= x[i]->e[l] == INFINITY;
    return unknown;
}

static const Node *begun_sum(const Node *node, unsigned i) {
    const Node *sum = node->operands[i];
    if (sum->kind == NODE_ELEMENT) sum = sum->operands[0]; /* in index notation */
    return node->opcode == IR_ADD && sum->kind == NODE_REDUCE && sum->reduce == REDUCE_ADD ? sum : NULL;
}

/* A sketch may begin the accumulator of a sum with what is added to it, as an update of memory does:
 * its additions then round partial sums that hold the addend. Of a sum without error none does. */
static double begun_error(const Node *node, const Lanes *const *x, size_t l) {
    double e = 0;
    for (unsigned i = 0; i < 2; i++) {
        const Node *sum = begun_sum(node, i);
        if (!sum || x[i]->e[l] == 0) continue;
        if (isfinite(x[1 - i]->v[l]) && x[i]->walks) e += sum_begun_bound(sum, &x[i]->walks[l], x[1 - i]->v[l]);
    }
    return e;
}

static void compute_real(const Evaluator *ev, const Node *node, const Lanes *const *x, size_t count, Lanes *out) {
    double own = own_units(node);
    bool begun = node->operand_count == 2 && (begun_sum(node, 0) || begun_sum(node, 1));
    for (size_t l = 0; l < count; l++) {
        unsigned tie = 0, from = flags_of(node, x, l);
        double e, v;
        if (node->operand_count == 1) {
            v = real_unary(node, x[0]->v[l], x[0]->e[l], &e);
            if (rounds_whole(node->opcode)) e = whole_error(node, x[0], l, &tie), from &= e == 0 ? LANE_PAST : ~(unsigned)LANE_STEP;
        } else if (node->opcode == IR_FMA) {
            double a = x[0]->v[l], b = x[1]->v[l], ea = x[0]->e[l], eb = x[1]->e[l];
            v = fma(a, b, x[2]->v[l]);
            e = product_error(a, ea, b, eb) + x[2]->e[l];
        } else {
            v = scalar_real_binary(node->opcode, x[0]->v[l], x[1]->v[l]);
            e = binary_error(node, x[0]->v[l], x[0]->e[l], x[1]->v[l], x[1]->e[l], v, &tie);
            if (begun) e += begun_error(node, x, l);
            if (clamps_a_step(node, x, l)) e = clamped_error(node, x, l, v, &tie), from &= LANE_PAST;
        }
        if (!isfinite(v) && !(e == INFINITY) && is_unknown(node, x, l)) e = INFINITY;
        finish_real(ev, node, own, out, l, v, e);
        if (isinf(out->v[l]) && overflows(node, x, l)) from |= LANE_OVER;
        out->tie[l] = (uint8_t)(tie | from);
    }
}

/* ---- Integers ---- */

static double integer_error(IrOpcode op, int64_t a, double ea, int64_t b, double eb) {
    if (ea == 0 && eb == 0) return 0;
    switch (op) {
    case IR_ADD:
    case IR_SUB:
        return ea + eb;
    case IR_MIN:
    case IR_MAX:
        return fmax(ea, eb);
    case IR_AND:
        return (ea == 0 && a == 0) || (eb == 0 && b == 0) ? 0 : INFINITY;
    case IR_NEG:
    case IR_ABS:
    case IR_FLOOR:
    case IR_CEIL:
    case IR_TRUNC:
    case IR_RINT:
        return ea;
    default:
        return INFINITY;
    }
}

static int64_t integer_result(const Node *node, const Lanes *const *x, size_t l) {
    Dtype dtype = node->shape.dtype;
    int64_t a = x[0]->i[l];
    if (node->operand_count == 1) return scalar_integer_unary(node->opcode, dtype, a);
    ANALYZER_ASSUME(x[1]->i && (node->opcode != IR_FMA || x[2]->i)); /* integers, all of them */
    if (node->opcode != IR_FMA) return scalar_integer_binary(node->opcode, dtype, a, x[1]->i[l]);
    return scalar_integer_binary(IR_ADD, dtype, scalar_integer_binary(IR_MUL, dtype, a, x[1]->i[l]), x[2]->i[l]);
}

/* Indices are sums, differences and products of 64 bits nearly always. */
static void integer_results(const Node *node, const Lanes *const *x, size_t count, int64_t *out) {
    const int64_t *a = x[0]->i, *b = node->operand_count == 2 ? x[1]->i : NULL;
    IrOpcode op = b && dtype_bits(node->shape.dtype) == 64 ? node->opcode : IR_CONST;
    switch (op) {
    case IR_ADD:
        for (size_t l = 0; l < count; l++) out[l] = scalar_wide_add(a[l], b[l]);
        break;
    case IR_SUB:
        for (size_t l = 0; l < count; l++) out[l] = scalar_wide_sub(a[l], b[l]);
        break;
    case IR_MUL:
        for (size_t l = 0; l < count; l++) out[l] = scalar_wide_mul(a[l], b[l]);
        break;
    default:
        for (size_t l = 0; l < count; l++) out[l] = integer_result(node, x, l);
    }
}

/* No lane has an error or a flag: as new lanes do. */
static bool certain(const Node *node, const Lanes *const *x, size_t count) {
    bool doubt = false;
    for (unsigned i = 0; i < node->operand_count; i++)
        for (size_t l = 0; l < count && !x[i]->certain; l++) doubt |= (x[i]->e[l] != 0) | (x[i]->tie[l] != 0);
    return !doubt;
}

/* As clamps_a_step, of integers that doubles hold. */
static bool clamp_integer(const Node *node, const Lanes *const *x, size_t l, Lanes *out) {
    unsigned tie = 0;
    bool step = ((x[0]->tie[l] | x[1]->tie[l]) & LANE_STEP) && (x[0]->e[l] == 0 || x[1]->e[l] == 0);
    if (!step || (node->opcode != IR_MIN && node->opcode != IR_MAX)) return false;
    int64_t limit = (int64_t)1 << 52, a = x[0]->i[l], b = x[1]->i[l];
    if (a > limit || a < -limit || b > limit || b < -limit) return false;
    Lanes own[2];
    double v[2] = {(double)a, (double)b};
    for (int k = 0; k < 2; k++) own[k] = (Lanes){.v = &v[k], .e = &x[k]->e[l], .tie = &x[k]->tie[l]};
    out->e[l] = clamped_error(node, (const Lanes *const[]){&own[0], &own[1]}, 0, (double)out->i[l], &tie);
    out->tie[l] = (uint8_t)(tie | (flags_of(node, x, l) & LANE_PAST));
    return true;
}

static void compute_integer(const Node *node, const Lanes *const *x, size_t count, Lanes *out) {
    integer_results(node, x, count, out->i);
    out->certain = certain(node, x, count);
    for (size_t l = 0; l < count && !out->certain; l++) {
        bool two = node->operand_count > 1;
        if (two && clamp_integer(node, x, l, out)) continue;
        out->e[l] = integer_error(node->opcode, x[0]->i[l], x[0]->e[l], two ? x[1]->i[l] : 0, two ? x[1]->e[l] : 0);
        out->tie[l] = (uint8_t)((out->e[l] > 0) | (flags_of(node, x, l) & LANE_PAST));
    }
}

/* ---- Compare, select, cast ---- */

static void compute_compare(const Node *node, const Lanes *a, const Lanes *b, size_t count, Lanes *out) {
    bool real = node->operands[0]->is_real;
    Dtype dtype = node->operands[0]->shape.dtype;
    for (size_t l = 0; l < count; l++) {
        double reach = a->e[l] + b->e[l];
        double distance = real ? fabs(a->v[l] - b->v[l]) : fabs((double)a->i[l] - (double)b->i[l]);
        out->i[l] =
            real ? scalar_compare_real(node->opcode, a->v[l], b->v[l]) : scalar_compare_integer(node->opcode, dtype, a->i[l], b->i[l]);
        bool is_nan = real && ((isnan(a->v[l]) && a->e[l] == 0) || (isnan(b->v[l]) && b->e[l] == 0));
        bool near = reach > 0 && !(distance > reach) && !is_nan;
        out->e[l] = near;
        out->tie[l] = (uint8_t)(near | ((a->tie[l] | b->tie[l]) & LANE_PAST));
    }
}

/* Truncation is monotonous, and beyond the type's limits all numbers are one. */
static void cast_to_integer(Dtype to, const Lanes *x, size_t l, Lanes *out, unsigned *tie) {
    out->i[l] = scalar_to_integer(to, x->v[l]);
    out->e[l] = 0;
    if (x->e[l] == 0) return;
    int64_t low = scalar_to_integer(to, lowest(x, l)), high = scalar_to_integer(to, highest(x, l));
    if (low == high && isfinite(x->e[l])) return;
    double apart = isfinite(x->e[l]) ? (double)((uint64_t)high - (uint64_t)low) : INFINITY;
    out->e[l] = apart;
    *tie |= LANE_TIE;
    if (apart == 1) *tie |= LANE_STEP;
    if (isfinite(apart)) *tie |= out->i[l] == low ? LANE_UP : out->i[l] == high ? LANE_DOWN : 0;
}

/* What wraps may be anything. */
static void cast_integer(Dtype to, const Lanes *x, size_t l, Lanes *out, unsigned *tie) {
    out->i[l] = scalar_wrap(to, x->i[l]);
    out->e[l] = x->e[l];
    if (x->e[l] == 0) return;
    *tie |= x->tie[l];
    double low = (double)x->i[l] - (x->tie[l] & LANE_UP ? 0 : x->e[l]), high = (double)x->i[l] + (x->tie[l] & LANE_DOWN ? 0 : x->e[l]);
    double least = dtype_is_signed(to) ? (double)scalar_limit(to, true) : 0, most = fmin(fabs((double)scalar_limit(to, false)), 0x1p52);
    if (!(low >= least && high <= most)) out->e[l] = INFINITY;
}

/* Only the operand that is taken is read. Where the outcomes differ no more than their own bounds
 * the choice is no tie: the bound covers both. */
static void compute_select(const Node *node, const Lanes *c, const Lanes *x, const Lanes *y, size_t count, Lanes *out) {
    for (size_t l = 0; l < count; l++) {
        const Lanes *taken = c->i[l] ? x : y;
        out->i[l] = taken->i[l]; /* the same bytes for floats */
        out->e[l] = taken->e[l];
        out->tie[l] = (uint8_t)(taken->tie[l] | (c->tie[l] & LANE_PAST));
        if (c->e[l] == 0) continue;
        out->tie[l] &= (uint8_t) ~(LANE_WAYS | LANE_STEP);
        double gap = node->is_real ? fabs(x->v[l] - y->v[l]) : fabs((double)x->i[l] - (double)y->i[l]);
        out->e[l] = isnan(gap) ? INFINITY : gap + fmax(x->e[l], y->e[l]);
        out->tie[l] |= (x->tie[l] | y->tie[l]) & (LANE_TIE | LANE_PAST);
        if (!(gap <= x->e[l] + y->e[l])) out->tie[l] |= LANE_TIE;
    }
}

static void compute_cast(const Evaluator *ev, const Node *node, const Lanes *x, size_t count, Lanes *out) {
    const Node *from = node->operands[0];
    double own = own_units(node);
    for (size_t l = 0; l < count; l++) {
        unsigned tie = 0, flags = x->tie[l] & ~(unsigned)LANE_WAYS;
        if (node->is_real && from->is_real) {
            finish_real(ev, node, own, out, l, x->v[l], x->e[l]);
        } else if (node->is_real) {
            finish_real(ev, node, own, out, l, scalar_from_integer(from->shape.dtype, x->i[l]), x->e[l]);
        } else if (from->is_real && node->shape.dtype == DTYPE_BOOL) {
            out->i[l] = x->v[l] != 0;
            out->e[l] = tie = x->e[l] > 0 && fabs(x->v[l]) <= x->e[l];
        } else {
            if (from->is_real)
                cast_to_integer(node->shape.dtype, x, l, out, &tie);
            else
                cast_integer(node->shape.dtype, x, l, out, &tie);
            flags &= LANE_PAST;
        }
        out->tie[l] = (uint8_t)(tie | flags);
    }
}

void lanes_compute(const Evaluator *ev, const Node *node, const Lanes *const *operands, size_t count, Lanes *out) {
    switch (node->opcode) {
    case IR_LT:
    case IR_LE:
    case IR_EQ:
    case IR_NE:
        compute_compare(node, operands[0], operands[1], count, out);
        break;
    case IR_SELECT:
        compute_select(node, operands[0], operands[1], operands[2], count, out);
        break;
    case IR_CAST:
        compute_cast(ev, node, operands[0], count, out);
        break;
    default:
        if (node->is_real)
            compute_real(ev, node, operands, count, out);
        else
            compute_integer(node, operands, count, out);
    }
}
