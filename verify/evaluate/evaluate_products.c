/* Products: their errors, and where an infinity or a zero among their factors decides them. */
#include "evaluate_internal.h"

#include <math.h>

double product_error(double a, double ea, double b, double eb) {
    if (ea == 0 && eb == 0) return 0;
    if (ea == INFINITY || eb == INFINITY) return INFINITY;
    if (isnan(a) || isnan(b)) return 0;
    if (isinf(a)) return fabs(b) > eb ? 0 : INFINITY;
    if (isinf(b)) return fabs(a) > ea ? 0 : INFINITY;
    return fabs(a) * eb + fabs(b) * ea + ea * eb;
}

bool product_overflows(double a, double b) {
    return isinf(a * b) && isfinite(a) && isfinite(b);
}

/* How large and how small a product of some of the terms may be: of any of them in a reduction, of neighbours in a scan. */
static void find_range(Acc *acc, const Node *node, double v, double e) {
    double size = fabs(v), high = size + e, low = fmax(size - e, 0);
    acc->nan |= isnan(v);
    acc->zero |= v == 0;
    acc->infinite |= isinf(v);
    if (!isfinite(v) || v == 0) return;
    bool scan = node->kind == NODE_SCAN;
    acc->span_most = scan ? fmax(acc->span_most, 1) * high : acc->most * fmax(high, 1);
    acc->span_least = scan ? fmin(acc->span_least, 1) * low : acc->least * fmin(low, 1);
    acc->most = fmax(acc->most, acc->span_most);
    acc->least = fmin(acc->least, acc->span_least);
}

/* The exponent that goes to the accumulator's: of what is near neither end of double's range none. */
static int spare_exponent(double size) {
    const double large = 0x1p400;
    return size == 0 || !isfinite(size) || (size < large && size > 1 / large) ? 0 : ilogb(size);
}

static void take_exponent(double *v, double *e, int by, Acc *acc) {
    if (by == 0) return;
    *v = scalbn(*v, -by);
    *e = scalbn(*e, -by);
    acc->exponent += by;
}

void acc_multiply(Acc *acc, const Node *node, double v, double e) {
    find_range(acc, node, v, e);
    take_exponent(&acc->sum, &acc->error, spare_exponent(fmax(fabs(acc->sum), acc->error)), acc);
    take_exponent(&v, &e, spare_exponent(fabs(v)), acc);
    acc->error = product_error(acc->sum, acc->error, v, e);
    acc->sum *= v;
}

/* Some grouping has a product of factors that is 0 in the node's precision. */
static bool may_vanish(const Node *node, const Acc *acc) {
    return acc->least < 2 * node->tiny;
}

/* A zero or an infinity decides a product, but for groupings in which the others make the opposite of it first, and so NaN. */
static bool hangs_on_order(const Node *node, const Acc *acc) {
    bool over = acc->most > node->largest * (1 + node->unit);
    if (acc->nan || (acc->zero && acc->infinite)) return false; /* NaN in every order */
    return acc->infinite ? may_vanish(node, acc) : acc->zero && over;
}

/* Factors that are numbers make an infinity. */
static bool overflows(const Node *node, const Acc *acc, double v, double e) {
    double slack = BOUND_SLACK * node->unit * (double)acc->terms;
    return isfinite(acc->sum) &&
           (isinf(v) ? fabs(acc->sum) * (1 - slack) > acc->error : fabs(v) * (1 - slack) - e > node->largest * (1 + node->unit));
}

double acc_product(const Node *node, const Acc *acc, double *error) {
    int by = (int)fmin(fmax((double)acc->exponent, -10000), 10000);
    double v = scalbn(acc->sum, by), e = scalbn(acc->error, by);
    if (overflows(node, acc, v, e)) {
        *error = may_vanish(node, acc) ? INFINITY : 0;
        return copysign(INFINITY, v);
    }
    bool unknown = acc->error == INFINITY || hangs_on_order(node, acc) || (isinf(v) && isfinite(acc->sum));
    *error = unknown ? INFINITY : error_settle(node, v, e, (double)acc->terms);
    return v;
}
