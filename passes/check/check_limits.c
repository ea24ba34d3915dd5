/* Pass check_limits: refuses kernels that no machine would take.
 *
 * what:   reports a fragment that does not fit where it lives (CUDA: a thread's registers several times
 *         over; CPU: a worker thread's stack) and a kernel that unrolls to more than a million ops.
 * needs:  kernel level, after coalesce.
 * keeps:  everything.
 * breaks: nothing.
 * source: own.
 *
 *   %t = map() {extents = [4096, 4096]} : frag<[4096, 4096] x f32>     error[E0726]
 */
#include "passes.h"

enum {
    CUDA_FRAG_BYTES = 4096,    /* of one fragment of a thread */
    CPU_STACK_BYTES = 4 << 20, /* of all fragments of a kernel: half of a usual thread's stack */
    UNROLLED_OPS = 1000000     /* of a kernel, each loop that is unrolled counted in full */
};

typedef struct {
    PassContext *ctx;
    bool gpu, reported;
    int64_t stack;

    bool *counted; /* storages seen */
    unsigned counted_size;
} Limits;

/* Bytes of a fragment, or INT64_MAX. */
static int64_t frag_bytes(const IrType *t) {
    int64_t bytes = (int64_t)dtype_size(t->dtype);
    for (unsigned a = 0; a < t->rank; a++)
        if (__builtin_mul_overflow(bytes, ir_type_extent(t, a), &bytes)) return INT64_MAX;
    return bytes;
}

static void report_size(Limits *l, Span span, int64_t bytes, int64_t limit) {
    if (l->reported) return;
    l->reported = true;
    const char *where = l->gpu ? "of a thread's registers" : "of a worker's stack";
    Diag *d = diag_report(l->ctx->diags, DIAG_tile_too_large, span, (long long)bytes, where, (long long)limit);
    diag_note(l->ctx->diags, d, SPAN_NONE, "cut an axis of the tile by a constexpr and loop over the pieces");
}

static bool first_of_storage(Limits *l, const IrValue *v) {
    if (!v->storage) return true;
    if (v->storage >= l->counted_size) {
        unsigned size = v->storage * 2 + 16;
        bool *grown = ARENA_ARRAY(l->ctx->scratch, bool, size);
        for (unsigned i = 0; i < l->counted_size; i++) grown[i] = l->counted[i];
        l->counted = grown;
        l->counted_size = size;
    }
    bool first = !l->counted[v->storage];
    l->counted[v->storage] = true;
    return first;
}

static void check_op(void *ctx, IrOp *op) {
    Limits *l = ctx;
    for (unsigned i = 0; i < op->result_count; i++) {
        const IrValue *v = &op->results[i];
        if (v->type->kind != IR_TYPE_FRAG || !first_of_storage(l, v)) continue;
        int64_t bytes = frag_bytes(v->type);
        if (l->gpu && bytes > CUDA_FRAG_BYTES) report_size(l, op->span, bytes, CUDA_FRAG_BYTES);
        if (__builtin_add_overflow(l->stack, bytes, &l->stack)) l->stack = INT64_MAX;
        if (!l->gpu && l->stack > CPU_STACK_BYTES) report_size(l, op->span, l->stack, CPU_STACK_BYTES);
    }
}

static int64_t times(int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static int64_t unrolled(IrModule *m, const IrBlock *block);

static int64_t unrolled_op(IrModule *m, const IrOp *op) {
    int64_t ops = 1, copies = 1, lb, ub, step;
    for (unsigned r = 0; r < op->region_count; r++) {
        int64_t inner = op->regions[r] ? unrolled(m, op->regions[r]) : 0;
        ops = ops > INT64_MAX - inner ? INT64_MAX : ops + inner;
    }
    if (op->opcode == IR_MAP) {
        const IrAttr *extents = ir_attr(op, "extents");
        for (size_t i = 0; i < extents->count; i++) copies = times(copies, extents->ints[i]);
    } else if (op->opcode == IR_FOR && ir_attr_int(op, "unroll", 0) == -1 && aff_is_const(ir_aff_of(m, op->operands[0]), &lb) &&
               aff_is_const(ir_aff_of(m, op->operands[1]), &ub) && aff_is_const(ir_aff_of(m, op->operands[2]), &step) && step > 0 &&
               ub > lb) {
        copies = (ub - lb + step - 1) / step;
    }
    return times(ops, copies);
}

static int64_t unrolled(IrModule *m, const IrBlock *block) {
    int64_t sum = 0;
    for (const IrOp *op = block->first; op; op = op->next) {
        int64_t ops = unrolled_op(m, op);
        sum = sum > INT64_MAX - ops ? INT64_MAX : sum + ops;
    }
    return sum;
}

static Span first_span(const IrFunc *f) {
    for (const IrOp *op = f->body->first; op; op = op->next)
        if (op->span.file) return op->span;
    return SPAN_NONE;
}

bool pass_check_limits(PassContext *ctx) {
    bool ok = true;
    int64_t total = 0, most = ctx->most_ops ? ctx->most_ops : UNROLLED_OPS;
    for (IrFunc *f = ctx->module->first; f; f = f->next) {
        if (f->level != IR_LEVEL_KERNEL) continue;
        Limits l = {.ctx = ctx, .gpu = ctx->target->kind == TARGET_CUDA};
        if (!l.gpu) l.stack = ir_func_int(f, IR_FN_SHARED_BYTES, 0); /* scratch lies there too */
        ir_walk(f->body, check_op, &l);
        int64_t ops = l.gpu ? unrolled(ctx->module, f->body) : 0;
        total = ctx->most_ops && total < INT64_MAX - ops ? total + ops : ops;
        if (!l.reported && total > most) {
            diag_report(ctx->diags, DIAG_kernel_too_large, first_span(f), (long long)total, (long long)most);
            l.reported = true;
        }
        ok = ok && !l.reported;
        if (l.reported) break; /* the other versions would say the same */
    }
    return ok;
}
