/* What the files that decode a graph share: evaluate_build.c, evaluate_folds.c. */
#ifndef VERIFY_EVALUATE_EVALUATE_BUILD_H
#define VERIFY_EVALUATE_EVALUATE_BUILD_H

#include "evaluate_internal.h"

typedef struct {
    const IrValue *value;
    Node *node;
} Known;

typedef struct {
    Arena *arena;
    const IrFunc *f;
    const EvalBinding *binding;
    Evaluator *ev;
    const char *error;
    VEC(Known) known;
} Build;

/* Says why there is no evaluator, once; false. */
bool eval_decode_fail(Build *b, const char *format, const char *what);
/* An axis that may be counted from the end. */
static inline unsigned eval_decode_axis(int64_t axis, unsigned rank) {
    return (unsigned)(axis < 0 ? axis + rank : axis);
}

/* evaluate_folds.c */
bool eval_decode_reduce_kind(Build *b, Node *node, IrKind kind);
/* One more axis that the node reduces. */
void eval_decode_add_reduced(Node *node, int64_t extent);
bool eval_decode_reduce(Build *b, Node *node, const IrOp *op);
bool eval_decode_contract(Build *b, Node *node, const IrOp *op);
/* Of a sum of products whose factors have the type `from`. */
bool eval_decode_judge_products(Node *node, const Precision *precision, Dtype from, bool narrow);
const Precision *eval_decode_default_precision(const Build *b);
bool eval_decode_narrow_float(Dtype dtype);

#endif
