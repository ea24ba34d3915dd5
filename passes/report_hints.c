/* Pass report_hints: says which hints this version does not follow, and why.
 *
 * what:   a note per hint that changes nothing on this target; an error under --strict-hints.
 * needs:  tile level, before the passes that consume hints.
 * keeps:  everything.
 * breaks: nothing.
 * source: docs/language.md, "Hints".
 *
 *   parallel(...) {hints = ["swizzle"]}    note[N0610]: hint "swizzle" is not followed: ...
 */
#include "passes.h"

#include <string.h>

static const struct {
    const char *name, *reason;
} unused[] = {
    {"vectorize", "vector widths follow from layouts and alignment"},
    {"swizzle", "blocks run in the order of the loops"},
    {"split_k", "a reduction stays in one block"},
    {"cluster", "blocks do not form clusters yet"},
    {"persistent", "each iteration is a block of its own"},
    {"threadidx", "threads share the tiles of the body; the loop is parallel over blocks"},
    {"warp", "warps share the tiles of the body; the loop is parallel over blocks"},
    {"simd", "lanes share the tiles of the body; the loop is parallel over blocks"},
};

static void report(PassContext *ctx, const IrOp *op, const char *hint, const char *reason) {
    DiagId id = ctx->strict_hints ? DIAG_hint_refused : DIAG_hint_not_followed;
    diag_report(ctx->diags, id, op->span, hint, reason);
}

static bool multiplies(const IrBlock *body) {
    for (const IrOp *op = body->first; op; op = op->next)
        if (op->opcode == IR_TILE_GEMM) return true;
    return false;
}

static void check(void *context, IrOp *op) {
    PassContext *ctx = context;
    const IrAttr *hints = ir_attr(op, "hints");
    for (size_t h = 0; hints && h < hints->count; h++)
        for (size_t i = 0; i < COUNT_OF(unused); i++)
            if (strcmp(hints->strs[h], unused[i].name) == 0) report(ctx, op, unused[i].name, unused[i].reason);
    if (op->opcode != IR_FOR || !ir_attr(op, "pipeline")) return;
    if (ctx->target->kind == TARGET_CPU) report(ctx, op, "pipeline", "a processor fetches ahead by itself");
    else if (!multiplies(op->regions[0])) report(ctx, op, "pipeline", "only the operands of a gemm are loaded ahead");
}

bool pass_report_hints(PassContext *ctx) {
    unsigned errors = ctx->diags->error_count;
    for (IrFunc *f = ctx->module->first; f; f = f->next)
        if (f->level == IR_LEVEL_TILE) ir_walk(f->body, check, ctx);
    return ctx->diags->error_count == errors;
}
