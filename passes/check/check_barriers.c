/* Pass check_barriers: refuses kernels whose threads' accesses are not all ordered.
 *
 * what:   proves for every way through a cuda kernel, whatever the sizes, that two accesses of threads of one block (or
 *         cluster) to one place of shared memory, one of them a write, are of one thread, apart, or ordered by barriers
 *         and waits; reports the two accesses where it cannot.
 * needs:  kernel level.
 * keeps:  everything.
 * breaks: nothing.
 * source: own; barrier_check.h. docs/decisions/barriers.md has the rules.
 *
 *   mem.store(%v, %lanes, %tid); %w = mem.load(%lanes, %other)          error[B0722]
 */
#include <string.h>

#include "barrier_check.h"
#include "passes.h"

static void print_first_line(Str *out, const IrOp *op) {
    Str text;
    str_init(&text);
    ir_print_op(op, &text);
    str_append_n(out, text.data, strcspn(text.data, "\n"));
    str_release(&text);
}

static void report(PassContext *ctx, const IrFunc *f, const BarrierFault *fault) {
    Str text;
    str_init(&text);
    print_first_line(&text, fault->op);
    Diag *d = diag_report(ctx->diags, DIAG_barrier_missing, fault->op->span, f->name, fault->what);
    diag_note(ctx->diags, d, SPAN_NONE, "at %s", text.data);
    if (fault->other) {
        text.len = 0;
        print_first_line(&text, fault->other);
        diag_note(ctx->diags, d, fault->other->span, "earlier: %s", text.data);
    }
    str_release(&text);
}

static bool is_cuda(const IrFunc *f) {
    return f->level == IR_LEVEL_KERNEL && ir_func_is_cuda(f);
}

bool pass_check_barriers(PassContext *ctx) {
    bool ok = true;
    for (IrFunc *f = ctx->module->first; f; f = f->next) {
        if (!is_cuda(f)) continue;
        BarrierFault fault;
        if (barrier_check_holds(f, &fault)) continue;
        ok = false;
        report(ctx, f, &fault);
    }
    return ok;
}
