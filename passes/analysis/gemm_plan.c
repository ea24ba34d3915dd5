#include "gemm_plan.h"

#include "layout.h"

#include <string.h>

enum {
    MAX_SHAPES = 64 /* different products of a kernel: room */
};
enum {
    WARPGROUP_ROWS = 64, /* of a product of a warpgroup (PTX ISA, wgmma) */
    MAX_COLUMNS = 256    /* of one (PTX ISA, wgmma) */
};

/* What multiplies: rows and columns that one warp covers at least, the depth of a step. The first
 * row that fits is taken. */
static const GemmAtom atoms[] = {
    {IR_ATOM_MMA_M16N8K16_F32_F16, DTYPE_F16, DTYPE_F32, 16, 16, 16, false, TARGET_MMA, 24, 0, false},
    {IR_ATOM_MMA_M16N8K16_F32_BF16, DTYPE_BF16, DTYPE_F32, 16, 16, 16, false, TARGET_MMA, 24, 0, false},
    {IR_ATOM_MMA_M16N8K8_F32_TF32, DTYPE_F32, DTYPE_F32, 16, 16, 8, false, TARGET_MMA, 24, 11, false},
    {IR_ATOM_MMA_M16N8K32_S32_S8, DTYPE_I8, DTYPE_I32, 16, 16, 32, true, TARGET_MMA, 32, 0, false},
    {IR_ATOM_MMA_M16N8K32_S32_U8, DTYPE_U8, DTYPE_I32, 16, 16, 32, true, TARGET_MMA, 32, 0, false},
    {IR_ATOM_MMA_M16N8K32_F32_E4M3, DTYPE_F8E4M3, DTYPE_F32, 16, 16, 32, true, TARGET_MMA_F8, 14, 0, false},
    {IR_ATOM_MMA_M16N8K32_F32_E5M2, DTYPE_F8E5M2, DTYPE_F32, 16, 16, 32, true, TARGET_MMA_F8, 14, 0, false},
};
/* The same for warpgroups, whose warps lie one below the other. */
static const GemmAtom wide_atoms[] = {
#define WGMMA(id, name, types, in, acc, depth, columns, sums, k_major, bits, registers)                                                    \
    {IR_ATOM_##id, DTYPE_##in, DTYPE_##acc, 16, columns, depth, k_major, TARGET_WGMMA | TARGET_TMA, sums, bits, registers},
#include "wgmma.def"
#undef WGMMA
};
static const GemmAtom fma_atom = {IR_ATOM_FMA, DTYPE_NONE, DTYPE_NONE, 4, 32, 4, false, 0, 0, 0, false};

static const GemmAtom *find_atom(const GemmAtom *list, size_t count, const Target *target, const GemmShape *s) {
    for (size_t i = 0; i < count; i++) {
        bool enough = s->sums <= list[i].sums && (!list[i].bits || (s->bits && s->bits <= list[i].bits));
        if (list[i].in == s->in && list[i].acc == s->acc && enough && target_has(target, list[i].features)) return &list[i];
    }
    return NULL;
}

const GemmAtom *gemm_atom(const Target *target, const GemmShape *shape) {
    const GemmAtom *atom = find_atom(atoms, COUNT_OF(atoms), target, shape);
    return atom ? atom : &fma_atom;
}

static int64_t round_up(int64_t value, int64_t step) {
    return (value + step - 1) / step * step;
}

/* The least extent that a layout may have and that `step` divides. */
static int64_t pad_extent(int64_t value, int64_t step) {
    int64_t padded = round_up(value, step);
    while (layout_pad_extent(padded) != padded) padded = round_up(layout_pad_extent(padded), step);
    return padded;
}

/* About 64 accumulators a thread, a power of two between 1 and 8 warps. */
static int64_t choose_warps(const GemmShape *s) {
    int64_t warps = 1;
    while (warps < 8 && warps * 2 * 1024 <= s->lead * s->m * s->n) warps *= 2;
    return warps;
}

GemmShape gemm_shape(const IrOp *gemm) {
    const IrType *acc = gemm->results[0].type, *a = gemm->operands[0]->type;
    GemmShape s = {.lead = 1, .in = a->dtype, .acc = acc->dtype};
    for (unsigned i = 0; i + 2 < acc->rank; i++) s.lead *= ir_type_extent(acc, i);
    s.m = ir_type_extent(acc, acc->rank - 2);
    s.n = ir_type_extent(acc, acc->rank - 1);
    s.k = ir_type_extent(a, a->rank - (ir_attr_bool(gemm, "trans_a") ? 2 : 1));
    const Precision *precision = ir_op_precision(gemm);
    s.sums = precision ? precision->sums : 24;
    s.bits = precision && precision->bits < 24 ? precision->bits : 0;
    s.k_major = !ir_attr_bool(gemm, "trans_a") && ir_attr_bool(gemm, "trans_b");
    return s;
}

static GemmPlan divided(const GemmAtom *atom, const GemmShape *s, int64_t warps, int64_t wm) {
    GemmPlan plan = {.atom = atom->atom, .m = s->m, .n = s->n, .k = s->k};
    plan.warps = warps, plan.wm = wm, plan.wn = warps / wm;
    plan.pad_m = pad_extent(s->m, atom->rows * wm);
    plan.pad_n = pad_extent(s->n, atom->columns * plan.wn);
    plan.pad_k = round_up(s->k, atom->depth);
    return plan;
}

/* Padding costs work, a warp tile's edge costs shared memory reads; where rows are folded, a row that
 * lies in several warps costs an exchange through shared memory. */
static int64_t plan_cost(const GemmPlan *p, int64_t lead, bool folded) {
    int64_t area = p->pad_m * p->pad_n, edge = (p->pad_m / p->wm + p->pad_n / p->wn) * p->warps;
    return lead * (area * 16 + edge * 64 + (folded && p->wn > 1 ? area * 8 : 0));
}

/* ---- All gemms of a function ---- */

typedef struct {
    const Target *target;
    unsigned count;
    GemmShape shapes[MAX_SHAPES];
    bool folded; /* something is reduced in the function */
} Gemms;

static void collect(void *ctx, IrOp *op) {
    Gemms *g = ctx;
    g->folded = g->folded || op->opcode == IR_TILE_REDUCE;
    if (op->opcode == IR_TILE_GEMM && g->count < MAX_SHAPES) g->shapes[g->count++] = gemm_shape(op);
}

static int64_t choose_height(const Gemms *g, int64_t warps, int64_t m) {
    int64_t best = INT64_MAX, chosen = 1;
    for (int64_t wm = 1; wm <= warps; wm *= 2) {
        int64_t cost = 0;
        for (unsigned i = 0; i < g->count; i++) {
            if (g->shapes[i].m != m) continue;
            GemmPlan plan = divided(gemm_atom(g->target, &g->shapes[i]), &g->shapes[i], warps, wm);
            cost += plan_cost(&plan, g->shapes[i].lead, g->folded);
        }
        if (cost >= best) continue;
        best = cost;
        chosen = wm;
    }
    return chosen;
}

static bool find_height(const GemmWarps *w, int64_t m, unsigned *at) {
    for (*at = 0; *at < w->count; ++*at)
        if (w->m[*at] == m) return true;
    return false;
}

GemmWarps gemm_warps(PassContext *ctx, IrFunc *f) {
    Gemms g = {.target = ctx->target};
    GemmWarps w = {0};
    unsigned at;
    ir_walk(f->body, collect, &g);
    for (unsigned i = 0; i < g.count; i++) {
        int64_t warps = choose_warps(&g.shapes[i]);
        w.all = warps > w.all ? warps : w.all;
    }
    for (unsigned i = 0; i < g.count; i++) {
        if (find_height(&w, g.shapes[i].m, &at) || at == GEMM_HEIGHTS) continue;
        w.m[w.count] = g.shapes[i].m;
        w.wm[w.count++] = choose_height(&g, w.all, g.shapes[i].m);
    }
    return w;
}

GemmPlan gemm_plan(const Target *target, GemmShape shape, const GemmWarps *warps) {
    unsigned at;
    int64_t wm = find_height(warps, shape.m, &at) ? warps->wm[at] : 1;
    const GemmAtom *wide = warps->wgmma ? find_atom(wide_atoms, COUNT_OF(wide_atoms), target, &shape) : NULL;
    return divided(wide ? wide : gemm_atom(target, &shape), &shape, warps->all, wm);
}

/* ---- Warpgroups ---- */

bool gemm_fits_wgmma(const Target *target, GemmShape s) {
    const GemmAtom *atom = find_atom(wide_atoms, COUNT_OF(wide_atoms), target, &s);
    bool rows = s.m == WARPGROUP_ROWS || s.m == 2 * WARPGROUP_ROWS || s.m == 4 * WARPGROUP_ROWS;
    bool registers = s.m < 4 * WARPGROUP_ROWS || s.n <= MAX_COLUMNS / 2; /* of 512 threads */
    return atom && (s.k_major || !atom->k_major) && s.lead == 1 && rows && registers && s.n <= MAX_COLUMNS && s.n % atom->columns == 0 &&
           layout_pad_extent(s.n) == s.n && s.k % atom->depth == 0;
}

bool gemm_has_registers(const Target *target, GemmShape s) {
    const GemmAtom *atom = find_atom(wide_atoms, COUNT_OF(wide_atoms), target, &s);
    return atom && atom->registers && s.lead == 1;
}

GemmWarps gemm_warps_wgmma(int64_t m) {
    int64_t warps = m / 16;
    return (GemmWarps){.all = warps, .wgmma = true, .count = 1, .m = {m}, .wm = {warps}};
}

/* ---- Plans ---- */

bool gemm_plan_is_mma(const GemmPlan *plan) {
    return plan->atom != IR_ATOM_FMA;
}

bool gemm_plan_is_wgmma(const GemmPlan *plan) {
    return ir_atom_is_wgmma(plan->atom);
}

int64_t gemm_plan_depth(const GemmPlan *plan) {
    for (size_t i = 0; i < COUNT_OF(wide_atoms); i++)
        if (plan->atom == wide_atoms[i].atom) return wide_atoms[i].depth;
    for (size_t i = 0; i < COUNT_OF(atoms); i++)
        if (plan->atom == atoms[i].atom) return atoms[i].depth;
    return 1;
}

void gemm_plan_set(IrOp *op, const GemmPlan *plan) {
    ir_set_atom(op, plan->atom);
    int64_t shape[] = {plan->m, plan->n, plan->k, plan->pad_m, plan->pad_n, plan->pad_k};
    int64_t warps[] = {plan->wm, plan->wn};
    ir_attr_set_ints(op, "shape", COUNT_OF(shape), shape);
    ir_attr_set_ints(op, "warps", COUNT_OF(warps), warps);
}

GemmPlan gemm_plan_get(const IrOp *op) {
    const int64_t *s = ir_attr(op, "shape")->ints, *w = ir_attr(op, "warps")->ints;
    return (GemmPlan){ir_op_atom(op), s[0], s[1], s[2], w[0] * w[1], w[0], w[1], s[3], s[4], s[5]};
}
