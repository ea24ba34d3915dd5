/* Rewrites of values as they are. */
#include "query.h"
#include "rewrite_internal.h"

bool rewrite_common_values(Rewriter *r, IrOp *op) {
    if (op != r->f->body->last) return false;
    size_t before = ops_collect(r->arena, r->f->body).len;
    ir_simplify(r->f);
    return ops_collect(r->arena, r->f->body).len < before;
}
