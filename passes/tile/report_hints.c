/* Pass report_hints: says which hints this version does not follow, and why.
 *
 * what:   a note per hint that changes nothing on this target; an error under --strict-hints.
 * needs:  tile level, before the passes that consume hints.
 * keeps:  everything.
 * breaks: nothing.
 * source: docs/language.md, "Hints".
 *
 *   parallel(...) {hints = ["cluster"]}    note[N0610]: hint "cluster" is not followed: ...
 */
#include "analysis/analysis.h"

static const struct {
    IrHint hint;
    const char *reason;
} unused[] = {
    {IR_HINT_PIPELINE, "iterations of a parallel loop do not follow each other"},
    {IR_HINT_UNROLL, "iterations of a parallel loop do not follow each other"},
    {IR_HINT_VECTORIZE, "vector widths follow from layouts and alignment"},
    {IR_HINT_SPLIT_K, "parts of K follow from the sizes"},
    {IR_HINT_CLUSTER, "blocks do not form clusters yet"},
    {IR_HINT_THREAD, "threads share the tiles of the body; the loop is parallel over blocks"},
    {IR_HINT_WARP, "warps share the tiles of the body; the loop is parallel over blocks"},
    {IR_HINT_SIMD, "lanes share the tiles of the body; the loop is parallel over blocks"},
};

static const struct {
    IrHint hint;
    const char *reason;
} unused_by_cores[] = {
    {IR_HINT_SWIZZLE, "a core takes the iterations in the order of the loops"},
    {IR_HINT_PERSISTENT, "cores share the iterations out by themselves"},
};

static void report(PassContext *ctx, const IrOp *op, const char *hint, const char *reason) {
    report_hint(ctx, op->span, hint, reason);
}

static void report_loop(PassContext *ctx, const IrOp *op, IrHint hint, const char *reason) {
    report(ctx, op, ir_enum_word(IR_ENUM_HINT, hint), reason);
}

static bool multiplies(const IrBlock *body) {
    for (const IrOp *op = body->first; op; op = op->next)
        if (op->opcode == IR_TILE_GEMM) return true;
    return false;
}

/* A product runs in the precision asked for, or in a higher one that is named here. */
static void check_precision(PassContext *ctx, const IrOp *gemm) {
    const Precision *p = ir_op_precision(gemm);
    Dtype factors = gemm->operands[0]->type->dtype;
    if (!p || p->bits >= 24) return;
    const char *hint = arena_printf(ctx->diags->arena, "precision=%s", p->name);
    if (p->sums < 24 && dtype_size(factors) == 1 && target_has(ctx->target, TARGET_WGMMA)) return;
    if (factors != DTYPE_F32)
        report(ctx, gemm, hint, "factors that are no f32 are multiplied as they are");
    else if (!target_has(ctx->target, TARGET_MMA))
        report(ctx, gemm, hint, "this target multiplies in f32");
}

static void check(void *context, IrOp *op) {
    PassContext *ctx = context;
    IrHint hints[IR_HINT_COUNT];
    unsigned count = ir_op_hints(op, hints);
    if (op->opcode == IR_TILE_GEMM) check_precision(ctx, op);
    for (unsigned h = 0; h < count; h++)
        for (size_t i = 0; i < COUNT_OF(unused_by_cores) && ctx->target->kind == TARGET_CPU; i++)
            if (hints[h] == unused_by_cores[i].hint) report_loop(ctx, op, hints[h], unused_by_cores[i].reason);
    for (unsigned h = 0; h < count; h++)
        for (size_t i = 0; i < COUNT_OF(unused); i++)
            if (hints[h] == unused[i].hint && !(ctx->target->kind == TARGET_CPU && hints[h] == IR_HINT_VECTORIZE))
                report_loop(ctx, op, hints[h], unused[i].reason);
    if (op->opcode == IR_FOR && ir_attr_int(op, "unroll", 0) == -1 && ctx->target->kind == TARGET_CPU)
        report(ctx, op, "unroll", "for a processor it needs a factor=");
    if (op->opcode != IR_FOR || !ir_attr(op, "pipeline")) return;
    if (ctx->target->kind == TARGET_CPU)
        report(ctx, op, "pipeline", "a processor fetches ahead by itself");
    else if (!multiplies(op->regions[0]))
        report(ctx, op, "pipeline", "only the operands of a gemm are loaded ahead");
}

bool pass_report_hints(PassContext *ctx) {
    unsigned errors = ctx->diags->error_count;
    for (IrFunc *f = ctx->module->first; f; f = f->next)
        if (f->level == IR_LEVEL_TILE) ir_walk(f->body, check, ctx);
    return ctx->diags->error_count == errors;
}
