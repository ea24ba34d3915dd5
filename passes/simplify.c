/* simplify: local clean-up of every function.
 *
 * needs:  any level and state
 * keeps:  everything
 * breaks: nothing
 * source: constant folding, common subexpressions and dead code as in any SSA compiler; the
 *         rewriting itself is ir_simplify.
 *
 *     %a = const() {value = 2} : index            %c = const() {value = 6} : index
 *     %b = const() {value = 3} : index      =>
 *     %c = mul(%a, %b) : index
 */
#include "passes.h"

bool pass_simplify(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f; f = f->next) ir_simplify(f);
    return true;
}
