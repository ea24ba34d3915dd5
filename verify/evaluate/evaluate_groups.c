/* Products and quotients of several factors may be formed in any grouping. Near the ends of the range that decides: of (a * b) * c a kernel may form
 * b * c first, which overflows where the whole does not, or loses its last bits below the least normal number. */
#include "evaluate_internal.h"

#include <math.h>

static bool is_product(const Node *node) {
    return node->kind == NODE_LANEWISE && node->is_real && (node->opcode == IR_MUL || node->opcode == IR_DIV);
}

void groups_mark(const Node *node) {
    if (!is_product(node)) return;
    for (unsigned i = 0; i < 2; i++) {
        Node *factor = node->operands[i];
        while (factor->kind == NODE_MOVE || factor->kind == NODE_RESHAPE || factor->kind == NODE_BODY) factor = factor->operands[0];
        if (is_product(factor)) factor->grouped = true;
    }
}

/* The largest and the smallest, turned over, that a product of some of the factors of x may be. */
static FactorRange range_of(const Lanes *x, size_t l) {
    if (x->factors) return x->factors[l];
    double v = x->v[l], size = fabs(v);
    if (size == 0 || !isfinite(size)) return (FactorRange){v, 1, 1};
    return (FactorRange){v, fmax(1, size), fmax(1, 1 / size)};
}

/* What some grouping may make of a product that another one gives as v. */
static double grouping_error(const Node *node, FactorRange r, double v) {
    double least_normal = node->tiny / node->unit, most = node->largest * (1 + node->unit);
    if (!isfinite(v)) { /* of an infinity or a NaN that only this grouping makes, and of inf * 0 that another one does, nothing is known */
        bool own = isnan(v) ? !isnan(r.value) : fabs(r.value) <= most;
        return own || (isinf(v) && r.down * node->tiny >= 1) ? INFINITY : 0;
    }
    if (r.up > most) return INFINITY;
    return r.down * least_normal > 1 ? r.up * node->tiny : 0;
}

void groups_judge(EvalRun *run, const Node *node, const Lanes *const *x, size_t count, Lanes *out) {
    if (!is_product(node)) return;
    bool chain = x[0]->factors || x[1]->factors;
    if (!chain && !node->grouped) return;
    FactorRange *factors = node->grouped ? stack_alloc(run, LANES * sizeof *factors) : NULL;
    for (size_t l = 0; l < count; l++) {
        FactorRange a = range_of(x[0], l), b = range_of(x[1], l);
        if (node->opcode == IR_DIV) b = (FactorRange){1 / b.value, b.down, b.up};
        FactorRange r = {a.value * b.value, a.up * b.up, a.down * b.down};
        if (factors) factors[l] = r;
        if (chain) out->e[l] += grouping_error(node, r, out->v[l]);
    }
    out->factors = factors;
}
