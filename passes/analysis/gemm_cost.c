#include "gemm_cost.h"

#include "analysis.h"

enum { OTHER_REGISTERS = 64 /* of a thread, beside its accumulators */ };

int64_t gemm_cost_tile_bytes(const IrType *t) {
    int64_t bytes = (int64_t)dtype_size(t->dtype);
    for (unsigned i = 0; i < t->rank; i++) {
        int64_t extent = ir_type_extent(t, i);
        if (extent < 1) return -1;
        bytes *= extent;
    }
    return bytes;
}

static bool depends_on(PointerTable *seen, const IrValue *v, const IrOp *loop) {
    uint32_t known;
    if (!v->def) return home_of(v) == loop->regions[0];
    if (pointer_table_get(seen, v, &known)) return false;
    pointer_table_set(seen, v, 0);
    for (unsigned i = 0; i < v->def->operand_count; i++)
        if (depends_on(seen, v->def->operands[i], loop)) return true;
    return false;
}

bool gemm_cost_moves_with(PassContext *ctx, const IrOp *load, const IrOp *loop) {
    PointerTable seen = pointer_table(ctx->scratch);
    for (unsigned i = 1; i < load->operand_count; i++)
        if (depends_on(&seen, load->operands[i], loop)) return true;
    return false;
}

/* Bytes that warps read of both factors: of the instructions of warpgroups each reads its 64 rows and all columns. */
static double read_by_warps(const Target *target, const GemmShape *s, const GemmWarps *warps) {
    double left = (double)(s->lead * s->m * s->k), right = (double)(s->lead * s->n * s->k), size = (double)dtype_size(s->in);
    if (gemm_fits_wgmma(target, *s)) return size * (left + right * (double)s->m / 64);
    GemmPlan plan = gemm_plan(target, *s, warps);
    return size * (left * (double)plan.wn + right * (double)plan.wm);
}

static bool add_gemm(GemmCost *cost, const Target *target, const IrOp *gemm) {
    GemmShape s = gemm_shape(gemm);
    if (s.lead < 1 || s.m < 1 || s.n < 1 || s.k < 1) return false;
    const IrOp *before = gemm->operands[2]->def;
    bool cores = gemm_atom(target, &s)->features != 0;
    double size = (double)dtype_size(s.in) / 2; /* the cores take half as many of twice the size */
    cost->work += (double)(s.lead * s.m * s.n * s.k) * (cores ? size : 1);
    if (!before || before->opcode != IR_TILE_GEMM) cost->sums += s.lead * s.m * s.n;
    if (!cost->gemm) cost->gemm = gemm, cost->cores = cores;
    return true;
}

bool gemm_cost(PassContext *ctx, IrFunc *f, GemmCost *cost) {
    OpList ops = ops_collect(ctx->scratch, f->body);
    GemmWarps warps = gemm_warps(ctx, f);
    *cost = (GemmCost){0};
    for (size_t i = 0; i < ops.len; i++) {
        if (ops.data[i]->opcode != IR_TILE_GEMM) continue;
        if (cost->block && cost->block != ops.data[i]->block) return false;
        cost->block = ops.data[i]->block;
        if (!add_gemm(cost, ctx->target, ops.data[i])) return false;
        GemmShape shape = gemm_shape(ops.data[i]);
        if (cost->cores) cost->shared += read_by_warps(ctx->target, &shape, &warps);
    }
    if (!cost->block) return false;
    for (const IrOp *op = cost->block->first; op; op = op->next) {
        if (op->opcode != IR_TILE_LOAD) continue;
        int64_t bytes = gemm_cost_tile_bytes(op->results[0].type);
        if (bytes < 0) return false;
        cost->bytes += bytes;
    }
    cost->shared += (double)cost->bytes;
    return cost->bytes > 0 && cost->sums > 0 && cost->work > 0;
}

double gemm_cost_seconds(const GemmCost *cost, const Target *target, const CostMachine *machine) {
    double rate = cost->cores ? machine->products : machine->issue * (double)target->warp_size;
    return cost->work * (double)machine->sms / rate;
}

int64_t gemm_cost_beside(const GemmCost *cost, PassContext *ctx, IrFunc *f) {
    const Target *target = ctx->target;
    GemmShape s = gemm_shape(cost->gemm);
    int64_t threads = gemm_fits_wgmma(target, s) ? 2 * s.m : target->warp_size * gemm_warps(ctx, f).all;
    const IrOp *loop = cost->block->parent;
    int64_t stages = loop && loop->opcode == IR_FOR ? ir_attr_int(loop, "pipeline", 2) : 1;
    int64_t by_shared = target->shared_bytes_sm / (cost->bytes * (stages > 1 ? stages : 1));
    int64_t by_registers = target->registers_sm / (cost->sums + OTHER_REGISTERS * threads);
    int64_t least = target->threads_sm / threads < target->blocks_sm ? target->threads_sm / threads : target->blocks_sm;
    if (by_shared < least) least = by_shared;
    if (by_registers < least) least = by_registers;
    return least > 1 ? least : 1;
}
