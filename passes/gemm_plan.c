#include "gemm_plan.h"

#include "layout.h"

#include <string.h>

/* Rows and columns that one warp covers at least. */
typedef struct {
    int64_t rows, columns, depth;
} Step;

static Step plan_step(const char *atom) {
    return strcmp(atom, "fma") == 0 ? (Step){4, 32, 4} : (Step){16, 16, 16};
}

static int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

/* The least extent that a layout may have and that `step` divides. */
static int64_t pad_extent(int64_t value, int64_t step) {
    int64_t padded = round_up(value, step);
    while (layout_pad_extent(padded) != padded) padded = round_up(layout_pad_extent(padded), step);
    return padded;
}

static const char *choose_atom(const Target *target, Dtype in, Dtype acc) {
    if (acc == DTYPE_F32 && target_has(target, TARGET_MMA)) {
        if (in == DTYPE_F16) return "mma.m16n8k16.f32.f16";
        if (in == DTYPE_BF16) return "mma.m16n8k16.f32.bf16";
    }
    return "fma";
}

/* About 64 accumulators a thread, a power of two between 1 and 8 warps. */
static int64_t choose_warps(int64_t m, int64_t n) {
    int64_t warps = 1;
    while (warps < 8 && warps * 2 * 1024 <= m * n) warps *= 2;
    return warps;
}

GemmPlan gemm_plan(const Target *target, int64_t m, int64_t n, int64_t k, Dtype in, Dtype acc, int64_t warps) {
    GemmPlan plan = {.atom = choose_atom(target, in, acc), .m = m, .n = n, .k = k};
    Step step = plan_step(plan.atom);
    plan.warps = warps ? warps : choose_warps(m, n);
    int64_t best = INT64_MAX;
    for (int64_t wm = 1; wm <= plan.warps; wm *= 2) {
        int64_t wn = plan.warps / wm;
        int64_t rows = pad_extent(m, step.rows * wm), columns = pad_extent(n, step.columns * wn);
        /* Padding costs work, a warp tile's edge costs shared memory reads. */
        int64_t cost = rows * columns * 16 + (rows / wm + columns / wn) * plan.warps * 64;
        if (cost >= best) continue;
        best = cost;
        plan.wm = wm, plan.wn = wn, plan.pad_m = rows, plan.pad_n = columns;
    }
    plan.pad_k = round_up(k, step.depth);
    return plan;
}

bool gemm_plan_is_mma(const GemmPlan *plan) { return strcmp(plan->atom, "fma") != 0; }

void gemm_plan_set(IrOp *op, const GemmPlan *plan) {
    ir_attr_set_str(op, "atom", plan->atom);
    int64_t shape[] = {plan->m, plan->n, plan->k, plan->pad_m, plan->pad_n, plan->pad_k};
    int64_t warps[] = {plan->wm, plan->wn};
    ir_attr_set_ints(op, "shape", COUNT_OF(shape), shape);
    ir_attr_set_ints(op, "warps", COUNT_OF(warps), warps);
}

GemmPlan gemm_plan_get(const IrOp *op) {
    const int64_t *s = ir_attr(op, "shape")->ints, *w = ir_attr(op, "warps")->ints;
    return (GemmPlan){ir_attr_str(op, "atom", "fma"), s[0], s[1], s[2], w[0] * w[1], w[0], w[1], s[3], s[4], s[5]};
}
