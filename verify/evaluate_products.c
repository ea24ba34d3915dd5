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

void acc_multiply(Acc *acc, const Node *node, double v, double e) {
    acc->error = product_error(acc->sum, acc->error, v, e);
    acc->sum *= v;
    find_range(acc, node, v, e);
}

bool product_hangs_on_order(const Node *node, const Acc *acc) {
    bool over = acc->most > node->largest * (1 + node->unit), under = acc->least < 2 * node->tiny;
    if (acc->nan || (acc->zero && acc->infinite)) return false; /* NaN in every order */
    return acc->infinite ? under : acc->zero && over;
}
