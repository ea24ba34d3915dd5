/* Pass align_versions: a version for 16-byte accesses, one for everything else.
 *
 * what:   a kernel is doubled. The first version carries a guard that the extents which decide alignment
 *         (and strides) are multiples of 16 bytes' worth of elements, and asks for pointers aligned to 16 bytes
 *         (attribute pointer_align), as far as wide accesses gain by it; the second reads and writes single elements. A kernel has at most
 *         four versions: what is beyond them reads and writes single elements only. A version that already
 *         says its vector_bytes gets the guard alone.
 *         Kernels over windows: adjacent windows begin at unaligned elements. If neighbouring windows share elements along the last axis
 *         (a block may then stage its loads together), the guard concerns the loads alone; otherwise the kernel gets no wide version.
 *         If a case has rows whose length fails the guard, a version between the two asks only for aligned pointers, and copies
 *         boxes in whole pieces (window_stage.c, window_misaligned.c).
 *         Kernels whose products all fit a warpgroup: a version between the two puts the guard on the factors' tensors alone. Its
 *         other accesses are as wide as their known alignment permits.
 *         Kernels over tensors of one axis: a version between the two treats all tiles but the last one as whole, at any extent, if a
 *         case has an extent that needs it (peel_last_tile.c).
 * needs:  tile functions, target cuda.
 * keeps:  values.
 * breaks: nothing.
 * source: own; guards and versions as in docs/decisions/artifact.md.
 *
 *   func @f (tensor %X: tensor<[M, N] x f32> ...)                            becomes
 *   func @f {vector_bytes = 16, pointer_align = 16} guard min(1 - N % 4, ...)  and
 *   func @f_unaligned {vector_bytes = 1}
 */
#include <string.h>

#include "analysis/analysis.h"
#include "analysis/gemm_plan.h"
#include "peel_last_tile.h"

enum {
    LITTLE = 64,   /* accesses of a 64th of the widest one's elements may be narrow */
    MISALIGNED = 1 /* 0: no version for lines that begin anywhere */
};

typedef struct {
    IrModule *module;
    Arena *scratch;
    const Aff *guard; /* null: nothing to ask for */
    bool factors;     /* of factors alone */
    int64_t most;     /* elements of the largest tile that is loaded or stored */
    bool loads;       /* of what is loaded alone */
    bool narrow;      /* of an element that has no 4 bytes */
} Alignment;

/* Asks that `e` be a multiple of `width`, unless it is known to be. */
static void ask(Alignment *a, IrOp *op, const Aff *e, int64_t width) {
    AffCtx *c = a->module->affs;
    if (aff_known_divisor(ir_facts_at(a->scratch, op), e, width) % width == 0) return;
    const Aff *holds = aff_sub(c, aff_const(c, 1), aff_mod(c, e, aff_const(c, width)));
    a->guard = a->guard ? aff_min(c, a->guard, holds) : holds;
}

static bool feeds_gemm(const IrOp *load) {
    for (const IrUse *u = load->results[0].uses; u && load->result_count; u = u->next)
        if (u->op->opcode == IR_TILE_GEMM && u->index < 2) return true;
    return false;
}

static bool is_access(const IrOp *op) {
    return op->opcode == IR_TILE_LOAD || op->opcode == IR_TILE_STORE || op->opcode == IR_BUF_COPY;
}

/* Elements that the access moves; many where an extent is not known. */
static int64_t elements_of(const IrOp *op) {
    const IrAttr *extents = op->opcode == IR_BUF_COPY ? ir_attr(op, "extents") : NULL;
    const IrType *t = op->opcode == IR_TILE_STORE ? op->operands[0]->type : op->results[0].type;
    unsigned rank = extents ? (unsigned)extents->count : t->kind == IR_TYPE_TILE ? t->rank : 0;
    int64_t elements = 1;
    for (unsigned i = 0; i < rank; i++) {
        int64_t extent = extents ? extents->ints[i] : ir_type_extent(t, i);
        if (extent < 0 || extent > INT32_MAX || elements > INT32_MAX) return INT64_MAX;
        elements *= extent;
    }
    return elements;
}

static void find_most(void *ctx, IrOp *op) {
    Alignment *a = ctx;
    if (is_access(op) && elements_of(op) > a->most) a->most = elements_of(op);
}

/* Single numbers, what runs across the rows, and what is a 64th of other accesses or less need not
 * be wide: the others are not to wait for sizes that suit it. */
static bool may_be_narrow(const Alignment *a, IrOp *op) {
    const char *axes = ir_attr_str(op, "axes", "");
    return !axes[0] || axes[strlen(axes) - 1] != IR_LETTER_RANGE || elements_of(op) <= a->most / LITTLE;
}

static void visit(void *ctx, IrOp *op) {
    Alignment *a = ctx;
    bool store = op->opcode == IR_TILE_STORE;
    if (!is_access(op) || may_be_narrow(a, op)) return;
    const IrType *tensor = op->operands[store]->type;
    if (!tensor->rank || (a->factors && (store || !feeds_gemm(op))) || (a->loads && store)) return;
    int64_t width = 16 / (int64_t)dtype_size(tensor->dtype);
    if (width <= 1 || (tensor->strides && tensor->strides[tensor->rank - 1] != aff_const(a->module->affs, 1))) return;
    a->narrow = a->narrow || dtype_size(tensor->dtype) != 4;
    ask(a, op, tensor->extents[tensor->rank - 1], width);
    for (unsigned i = 0; tensor->strides && i + 1 < tensor->rank; i++) ask(a, op, tensor->strides[i], width);
}

typedef struct {
    const Target *target;
    unsigned gemms, fit;
} Products;

static void count_products(void *ctx, IrOp *op) {
    Products *p = ctx;
    if (op->opcode != IR_TILE_GEMM) return;
    p->gemms++;
    p->fit += gemm_fits_wgmma(p->target, gemm_shape(op));
}

/* The one for everything else. Clones stand right behind f. */
static void add_plain_version(IrFunc *f, const char *name) {
    Arena *arena = f->module->arena;
    ir_func_set_int(ir_func_clone(f, arena_printf(arena, "%s_unaligned", name)), IR_FN_VECTOR_BYTES, 1);
    f->name = arena_printf(arena, "%s_aligned", name);
}

/* The version between, where there is one. */
static void add_factors_version(PassContext *ctx, IrFunc *f, const char *name, const Aff *asked) {
    Products products = {.target = ctx->target};
    Alignment a = {.module = ctx->module, .scratch = ctx->scratch, .factors = true};
    ir_walk(f->body, find_most, &a);
    ir_walk(f->body, count_products, &products);
    ir_walk(f->body, visit, &a);
    if (!products.gemms || products.fit < products.gemms || !asked || a.guard == asked || count_versions(f) + 1 >= MAX_VERSIONS) return;
    IrFunc *factors = ir_func_clone(f, arena_printf(ctx->module->arena, "%s_factors", name));
    ir_func_set_int(factors, IR_FN_VECTOR_BYTES, 16);
    ir_func_set_int(factors, IR_FN_POINTER_ALIGN, 16);
    AffCtx *c = ctx->module->affs;
    if (a.guard) factors->guard = factors->guard ? aff_min(c, factors->guard, a.guard) : a.guard;
}

/* The version for tensors of one axis that end within a piece. */
static void add_whole_version(PassContext *ctx, IrFunc *f, const char *name) {
    if (count_versions(f) > 2 || !has_whole_tiles(ctx, f)) return; /* versions for other lengths mean more */
    IrFunc *whole = ir_func_clone(f, arena_printf(ctx->module->arena, "%s_whole", name));
    ir_func_set_int(whole, IR_FN_VECTOR_BYTES, 16);
    ir_func_set_int(whole, IR_FN_POINTER_ALIGN, 16);
    part_whole_tiles(ctx, whole);
}

/* Windows of lines that begin anywhere, of tensors that begin at a multiple of 16 bytes (window_stage.c: misaligned boxes), where a
 * case asks for it. */
static void add_misaligned_version(PassContext *ctx, IrFunc *f, const char *name, const Alignment *a) {
    bool asked = false;
    int64_t holds;
    for (size_t i = 0; a->guard && i < sizes_asked(ctx); i++) asked = asked || (size_at(ctx, f, i, a->guard, &holds) && holds < 1);
    if (!MISALIGNED || !asked || a->narrow || count_versions(f) >= MAX_VERSIONS) return;
    IrFunc *misaligned = ir_func_clone(f, arena_printf(ctx->module->arena, "%s_misaligned", name));
    ir_func_set_int(misaligned, IR_FN_VECTOR_BYTES, 1);
    ir_func_set_int(misaligned, IR_FN_MISALIGNED_BASE, 0);
    ir_func_set_int(misaligned, IR_FN_POINTER_ALIGN, 16);
}

/* What split_passes says of registers for loads of 16 bytes. */
static void keep_loads(IrFunc *f) {
    int64_t blocks = ir_func_int(f, IR_FN_LOAD_BLOCKS, 0);
    if (blocks > 0 && !ir_func_has(f, IR_FN_MIN_BLOCKS)) ir_func_set_int(f, IR_FN_MIN_BLOCKS, blocks);
}

bool pass_align_versions(PassContext *ctx) {
    AffCtx *c = ctx->module->affs;
    IrFunc *last = ctx->module->last;
    for (IrFunc *f = ctx->module->first, *next; f; f = next) {
        next = f == last ? NULL : f->next;
        if (f->level != IR_LEVEL_TILE || ir_func_int(f, IR_FN_VECTOR_BYTES, 16) == 1) continue;
        bool decided = ir_func_has(f, IR_FN_VECTOR_BYTES); /* the other alignments have versions already */
        WindowAxes windows = window_axes(f);
        if (!decided && (count_versions(f) >= MAX_VERSIONS || (windows.apart && !windows.boxes))) {
            ir_func_set_int(f, IR_FN_VECTOR_BYTES, 1);
            continue;
        }
        Alignment a = {.module = ctx->module, .scratch = ctx->scratch, .loads = windows.boxes};
        ir_walk(f->body, find_most, &a);
        if (!ir_func_has(f, IR_FN_ROTATED)) ir_walk(f->body, visit, &a); /* its rows may begin at any element */
        const char *name = f->name;
        if (!decided) {
            add_plain_version(f, name);
            if (windows.boxes) add_misaligned_version(ctx, f, name, &a);
        }
        keep_loads(f); /* its versions' loads, too */
        if (!decided) {
            add_factors_version(ctx, f, name, a.guard);
            add_whole_version(ctx, f, name);
        }
        ir_func_set_int(f, IR_FN_VECTOR_BYTES, 16);
        ir_func_set_int(f, IR_FN_POINTER_ALIGN, 16);
        if (a.guard) f->guard = f->guard ? aff_min(c, f->guard, a.guard) : a.guard;
    }
    return true;
}
