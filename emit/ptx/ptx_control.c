#include "ptx_internal.h"

#include <llvm-c/DebugInfo.h>
#include <string.h>

enum {
    MANY = 16,       /* single copies of a thread from which they become a loop, as in ptx_hide.c */
    COPIES = 8,      /* of an iteration of that loop (not measured) */
    COPIED_BYTES = 4 /* the least that cp.async takes */
};

LLVMBasicBlockRef ptx_new_block(Ptx *p) {
    return LLVMAppendBasicBlockInContext(p->context, p->function, "");
}

/* ---- Copies of whole fragments ---- */

typedef struct {
    LLVMValueRef *values;
    size_t count;
} Elements;

static size_t frag_count(const IrType *t) {
    size_t n = 1;
    for (unsigned i = 0; i < t->rank; i++) n *= (size_t)ir_type_extent(t, i);
    return n;
}

static void element_indices(Ptx *p, const IrType *t, size_t flat, LLVMValueRef *indices) {
    for (unsigned i = t->rank; i-- > 0;) {
        size_t extent = (size_t)ir_type_extent(t, i);
        indices[i] = ptx_index(p, (int64_t)(flat % extent));
        flat /= extent;
    }
}

static LLVMValueRef element_place(Ptx *p, LLVMValueRef frag, const IrType *t, size_t flat) {
    LLVMValueRef at[9] = {ptx_index(p, 0)};
    element_indices(p, t, flat, at + 1);
    return LLVMBuildInBoundsGEP2(p->b, ptx_frag_type(p, t), frag, at, t->rank + 1, "");
}

static Elements frag_read(Ptx *p, LLVMValueRef frag, const IrType *t) {
    Elements e = {NULL, frag_count(t)};
    e.values = ARENA_ARRAY(p->arena, LLVMValueRef, e.count);
    for (size_t i = 0; i < e.count; i++) e.values[i] = LLVMBuildLoad2(p->b, ptx_type(p, t->dtype), element_place(p, frag, t, i), "");
    return e;
}

static void frag_write(Ptx *p, LLVMValueRef frag, const IrType *t, Elements e) {
    for (size_t i = 0; i < e.count; i++) LLVMBuildStore(p->b, e.values[i], element_place(p, frag, t, i));
}

/* ---- for ---- */

/* `llvm.loop` on a back edge: unroll fully (-1) or by a factor. */
static void unroll_hint(Ptx *p, LLVMValueRef branch, int64_t unroll) {
    if (!unroll) return;
    const char *key = unroll < 0 ? "llvm.loop.unroll.full" : unroll == 1 ? "llvm.loop.unroll.disable" : "llvm.loop.unroll.count";
    LLVMMetadataRef parts[2] = {LLVMMDStringInContext2(p->context, key, strlen(key))};
    if (unroll > 1) parts[1] = LLVMValueAsMetadata(ptx_int(p, DTYPE_I32, unroll));
    LLVMMetadataRef hint = LLVMMDNodeInContext2(p->context, parts, unroll > 1 ? 2 : 1);
    LLVMMetadataRef self = LLVMTemporaryMDNode(p->context, NULL, 0);
    LLVMMetadataRef loop[2] = {self, hint};
    LLVMMetadataRef node = LLVMMDNodeInContext2(p->context, loop, 2);
    LLVMMetadataReplaceAllUsesWith(self, node);
    LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(p->context, "llvm.loop", 9), LLVMMetadataAsValue(p->context, node));
}

typedef struct {
    LLVMBasicBlockRef header, body, exit;
    LLVMValueRef counter; /* phi */
} Loop;

/* Opens `for (i = lb; i < ub; ...)`; phis of carried scalars go into the header right after. */
static Loop loop_open(Ptx *p, LLVMValueRef lb) {
    Loop l = {ptx_new_block(p), ptx_new_block(p), ptx_new_block(p), NULL};
    LLVMBasicBlockRef from = LLVMGetInsertBlock(p->b);
    LLVMBuildBr(p->b, l.header);
    LLVMPositionBuilderAtEnd(p->b, l.header);
    l.counter = LLVMBuildPhi(p->b, LLVMTypeOf(lb), "");
    LLVMAddIncoming(l.counter, &lb, &from, 1);
    return l;
}

static void loop_test(Ptx *p, const Loop *l, LLVMValueRef ub) {
    LLVMBuildCondBr(p->b, LLVMBuildICmp(p->b, LLVMIntSLT, l->counter, ub, ""), l->body, l->exit);
    LLVMPositionBuilderAtEnd(p->b, l->body);
}

static LLVMBasicBlockRef loop_close(Ptx *p, const Loop *l, LLVMValueRef step, int64_t unroll) {
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(p->b);
    LLVMValueRef next = LLVMBuildNSWAdd(p->b, l->counter, step, "");
    LLVMAddIncoming(l->counter, &next, &latch, 1);
    unroll_hint(p, LLVMBuildBr(p->b, l->header), unroll);
    LLVMPositionBuilderAtEnd(p->b, l->exit);
    return latch;
}

static const IrOp *yield_of(Ptx *p, const IrOp *op, const IrBlock *block, unsigned count) {
    if (p->failed) return NULL;
    if (block->last && block->last->opcode == IR_YIELD && block->last->operand_count == count) return block->last;
    ptx_fail(p, op, "a region that does not yield its results");
    return NULL;
}

static Range counter_range(Ptx *p, const IrOp *op) {
    Range lo = ptx_range(p, op->operands[0]), hi = ptx_range(p, op->operands[1]);
    return (Range){lo.lo, hi.hi == INT64_MAX ? INT64_MAX : hi.hi - 1};
}

static void carried_enter(Ptx *p, const IrOp *op, LLVMBasicBlockRef from) {
    for (unsigned k = 0; k < op->result_count; k++) {
        const IrValue *arg = op->regions[0]->args[k + 1];
        if (arg->type->kind == IR_TYPE_FRAG) continue; /* copied before the loop */
        LLVMValueRef init = ptx_use(p, op->operands[k + 3]), phi = LLVMBuildPhi(p->b, LLVMTypeOf(init), "");
        LLVMAddIncoming(phi, &init, &from, 1);
        ptx_bind(p, arg, phi);
    }
}

static void carried_copy(Ptx *p, const IrOp *op) {
    for (unsigned k = 0; k < op->result_count; k++) {
        const IrValue *arg = op->regions[0]->args[k + 1];
        if (arg->type->kind != IR_TYPE_FRAG) continue;
        LLVMValueRef frag = ptx_frag_new(p, arg->type);
        frag_write(p, frag, arg->type, frag_read(p, ptx_use(p, op->operands[k + 3]), arg->type));
        ptx_bind(p, arg, frag);
        ptx_bind(p, &op->results[k], frag);
    }
}

/* All yields are read before the first is written: carried fragments may change places. */
static void carried_next(Ptx *p, const IrOp *op, const IrOp *yield) {
    Elements *all = ARENA_ARRAY(p->arena, Elements, op->result_count + 1);
    for (unsigned k = 0; k < op->result_count; k++)
        if (op->results[k].type->kind == IR_TYPE_FRAG) all[k] = frag_read(p, ptx_use(p, yield->operands[k]), op->results[k].type);
    for (unsigned k = 0; k < op->result_count; k++)
        if (op->results[k].type->kind == IR_TYPE_FRAG) frag_write(p, ptx_use(p, op->regions[0]->args[k + 1]), op->results[k].type, all[k]);
}

/* Arithmetic that a loop's body and what follows the loop both begin with, LLVM makes once in front of the loop's test, and so in front of the
 * products that it was written behind. So LLVM knows nothing of the floats that such a loop leaves. */
static void hide_results(Ptx *p, const IrOp *op) {
    enum { WORD = 4 };
    for (unsigned k = 0; k < op->result_count; k++) {
        const IrType *t = op->results[k].type;
        if (t->kind != IR_TYPE_FRAG || !dtype_is_float(t->dtype) || dtype_size(t->dtype) != WORD) continue;
        Elements e = frag_read(p, ptx_use(p, &op->results[k]), t);
        LLVMValueRef frag = ptx_frag_new(p, t);
        for (size_t i = 0; i < e.count; i++)
            e.values[i] = ptx_asm(p, LLVMTypeOf(e.values[i]), 1, &e.values[i], "mov.b32 $0, $1;", "=f,f", true);
        frag_write(p, frag, t, e);
        ptx_bind(p, &op->results[k], frag);
    }
}

static bool is_read_behind(const IrOp *op, const IrOp *wait) {
    for (unsigned k = 0; k < op->result_count; k++)
        for (const IrUse *use = op->results[k].uses; use; use = use->next) {
            const IrOp *user = use->op;
            while (user->block != wait->block) user = user->block->parent;
            for (const IrOp *behind = wait->next; behind; behind = behind->next)
                if (behind == user) return true;
        }
    return false;
}

/* What is computed in front of a wait that keeps one for products behind it, and read behind them, LLVM makes where it is read: beside no
 * product. */
static void keep_in_front(Ptx *p, const IrOp *wait) {
    enum { IN_FRONT = 1 /* the switch */ };
    const IrOp *loop = wait->block->parent;
    if (!IN_FRONT || !wait->next || wait->next->opcode != IR_WGMMA_WAIT || !loop || loop->opcode != IR_FOR) return;
    if (!ptx_multiplies_from_registers(loop)) return;
    for (const IrOp *op = wait->block->first; op != wait; op = op->next)
        if (op->opcode == IR_MAP && is_read_behind(op, wait)) hide_results(p, op);
}

static void for_loop(Ptx *p, const IrOp *op) {
    const IrBlock *body = op->regions[0];
    LLVMValueRef lb = ptx_use(p, op->operands[0]), ub = ptx_use(p, op->operands[1]), step = ptx_use(p, op->operands[2]);
    carried_copy(p, op);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(p->b);
    Loop l = loop_open(p, lb);
    carried_enter(p, op, from);
    for (unsigned k = 0; k < op->result_count; k++)
        if (op->results[k].type->kind != IR_TYPE_FRAG) ptx_bind(p, &op->results[k], ptx_use(p, body->args[k + 1]));
    loop_test(p, &l, ub);
    ptx_bind(p, body->args[0], l.counter);
    if (body->args[0]->type->is_index) ptx_value(p, body->args[0])->range = counter_range(p, op);
    ptx_block(p, body);
    const IrOp *yield = yield_of(p, op, body, op->result_count);
    if (!yield) return;
    carried_next(p, op, yield);
    LLVMValueRef *next = ARENA_ARRAY(p->arena, LLVMValueRef, op->result_count + 1);
    for (unsigned k = 0; k < op->result_count; k++) next[k] = ptx_use(p, yield->operands[k]);
    LLVMBasicBlockRef latch = loop_close(p, &l, step, ir_attr_int(op, "unroll", 0));
    for (unsigned k = 0; k < op->result_count; k++)
        if (op->results[k].type->kind != IR_TYPE_FRAG) LLVMAddIncoming(ptx_use(p, body->args[k + 1]), &next[k], &latch, 1);
    if (ptx_multiplies_from_registers(op)) hide_results(p, op);
}

/* ---- if ---- */

static void branch(Ptx *p, const IrOp *op, const IrBlock *region, LLVMValueRef *frags, LLVMValueRef *values, LLVMBasicBlockRef *end,
                   LLVMBasicBlockRef join) {
    PtxHidden hidden = {0};
    if (region) {
        ptx_hide_indices(p, region, &hidden);
        ptx_block(p, region);
        ptx_show_indices(p, &hidden);
    }
    const IrOp *yield = op->result_count ? yield_of(p, op, region, op->result_count) : NULL;
    for (unsigned k = 0; yield && k < op->result_count; k++) {
        const IrType *t = op->results[k].type;
        values[k] = ptx_use(p, yield->operands[k]);
        if (frags[k]) frag_write(p, frags[k], t, frag_read(p, values[k], t));
    }
    *end = LLVMGetInsertBlock(p->b);
    LLVMBuildBr(p->b, join);
}

static void if_else(Ptx *p, const IrOp *op) {
    unsigned n = op->result_count;
    LLVMValueRef *frags = ARENA_ARRAY(p->arena, LLVMValueRef, n + 1), *x = ARENA_ARRAY(p->arena, LLVMValueRef, n + 1),
                 *y = ARENA_ARRAY(p->arena, LLVMValueRef, n + 1);
    for (unsigned k = 0; k < n; k++)
        if (op->results[k].type->kind == IR_TYPE_FRAG) frags[k] = ptx_frag_new(p, op->results[k].type);
    LLVMBasicBlockRef then = ptx_new_block(p), otherwise = ptx_new_block(p), join = ptx_new_block(p), ends[2];
    LLVMBuildCondBr(p->b, ptx_use(p, op->operands[0]), then, otherwise);
    LLVMPositionBuilderAtEnd(p->b, then);
    branch(p, op, op->regions[0], frags, x, &ends[0], join);
    LLVMPositionBuilderAtEnd(p->b, otherwise);
    branch(p, op, op->region_count > 1 ? op->regions[1] : NULL, frags, y, &ends[1], join);
    LLVMPositionBuilderAtEnd(p->b, join);
    for (unsigned k = 0; k < n && !p->failed; k++) {
        LLVMValueRef result = frags[k];
        if (!result) {
            LLVMValueRef values[2] = {x[k], y[k]};
            result = LLVMBuildPhi(p->b, LLVMTypeOf(x[k]), "");
            LLVMAddIncoming(result, values, ends, 2);
        }
        ptx_bind(p, &op->results[k], result);
    }
}

/* ---- map ---- */

static void map_body(Ptx *p, const IrOp *op) {
    const IrBlock *body = op->regions[0];
    ptx_block(p, body);
    if (!op->result_count) return;
    const IrOp *yield = yield_of(p, op, body, op->result_count);
    for (unsigned r = 0; yield && r < op->result_count; r++) {
        const IrValue *v = yield->operands[r];
        LLVMValueRef indices[8];
        for (unsigned i = 0; i < body->arg_count; i++) indices[i] = ptx_use(p, body->args[i]);
        if (v->type->width > 1) {
            LLVMValueRef *last = &indices[body->arg_count - 1];
            *last = LLVMBuildMul(p->b, *last, ptx_index(p, v->type->width), "");
        }
        ptx_frag_set(p, ptx_use(p, &op->results[r]), op->results[r].type, indices, v->type, ptx_use(p, v));
    }
}

static void map_level(Ptx *p, const IrOp *op, const IrAttr *extents, unsigned dim, bool expand) {
    if (dim == extents->count) {
        map_body(p, op);
        return;
    }
    const IrValue *arg = op->regions[0]->args[dim];
    int64_t extent = extents->ints[dim];
    if (expand) {
        for (int64_t i = 0; i < extent && !p->failed; i++) {
            ptx_bind(p, arg, ptx_index(p, i));
            ptx_value(p, arg)->range = (Range){i, i};
            map_level(p, op, extents, dim + 1, expand);
        }
        return;
    }
    Loop l = loop_open(p, ptx_index(p, 0));
    loop_test(p, &l, ptx_index(p, extent));
    ptx_bind(p, arg, l.counter);
    ptx_value(p, arg)->range = (Range){0, extent - 1};
    map_level(p, op, extents, dim + 1, expand);
    loop_close(p, &l, ptx_index(p, 1), -1);
}

/* Copies into shared memory of elements that cp.async does not take, of which a thread has many? Expanded, each has an address of its own,
 * which LLVM computes ahead of the loop around and keeps in registers. */
static bool copies_elements(const IrOp *op, int64_t outer) {
    bool loads = false, stores = false;
    if (op->result_count || outer <= MANY || outer % COPIES) return false;
    for (const IrOp *inner = op->regions[0]->first; inner; inner = inner->next) {
        const IrType *t = inner->opcode == IR_MEM_LOAD ? inner->results[0].type : NULL;
        if (inner->region_count) return false;
        for (unsigned i = 0; i < inner->operand_count; i++)
            if (inner->operands[i]->type->kind == IR_TYPE_FRAG) return false;
        if (t) loads = inner->operands[0]->type->space == IR_SPACE_GLOBAL && t->width <= 1 && dtype_size(t->dtype) < COPIED_BYTES;
        stores |= inner->opcode == IR_MEM_STORE && inner->operands[1]->type->space == IR_SPACE_SHARED;
    }
    return loads && stores;
}

/* A loop over the outermost index, a few of it at a time. */
static void map_in_groups(Ptx *p, const IrOp *op, const IrAttr *extents) {
    const IrValue *arg = op->regions[0]->args[0];
    Loop l = loop_open(p, ptx_index(p, 0));
    loop_test(p, &l, ptx_index(p, extents->ints[0]));
    for (int64_t i = 0; i < COPIES && !p->failed; i++) {
        ptx_bind(p, arg, LLVMBuildNSWAdd(p->b, l.counter, ptx_index(p, i), ""));
        ptx_value(p, arg)->range = (Range){i, extents->ints[0] - COPIES + i};
        map_level(p, op, extents, 1, true);
    }
    loop_close(p, &l, ptx_index(p, COPIES), 1);
}

static void map(Ptx *p, const IrOp *op) {
    const IrAttr *a = ir_attr(op, "extents");
    if (!a || a->count != op->regions[0]->arg_count || a->count > 8) {
        ptx_fail(p, op, "a map whose extents and indices differ in number");
        return;
    }
    int64_t total = 1;
    for (unsigned i = 0; i < a->count; i++) total *= a->ints[i];
    for (unsigned r = 0; r < op->result_count; r++) {
        if (op->results[r].type->kind != IR_TYPE_FRAG || op->results[r].type->rank != a->count) {
            ptx_fail(p, op, "a map whose result has another rank than its extents");
            return;
        }
        ptx_bind(p, &op->results[r], ptx_frag_new(p, op->results[r].type));
    }
    if (a->count && copies_elements(op, a->ints[0]))
        map_in_groups(p, op, a);
    else
        map_level(p, op, a, 0, total <= PTX_EXPAND_LIMIT);
}

/* ---- Registers and barriers ---- */

static LLVMValueRef sreg(Ptx *p, const char *name) {
    const char *full = arena_printf(p->arena, "llvm.nvvm.read.ptx.sreg.%s", name);
    LLVMValueRef x = ptx_intrinsic(p, full, 0, NULL, 0, NULL);
    LLVMValueRef wide = LLVMBuildZExt(p->b, x, LLVMInt64TypeInContext(p->context), "");
    LLVMSetNNeg(wide, true);
    return wide;
}

/* The number of the block, counted from the last; LLVM is told that it takes 31 bits. */
static LLVMValueRef backwards(Ptx *p, LLVMValueRef number) {
    LLVMTypeRef narrow = LLVMInt32TypeInContext(p->context);
    LLVMValueRef last = LLVMBuildSub(p->b, sreg(p, "nctaid.x"), ptx_index(p, 1), "");
    LLVMValueRef x = LLVMBuildTrunc(p->b, LLVMBuildSub(p->b, last, number, ""), narrow, "");
    LLVMValueRef wide = LLVMBuildZExt(p->b, x, LLVMInt64TypeInContext(p->context), "");
    LLVMSetNNeg(wide, true);
    return wide;
}

static void special(Ptx *p, const IrOp *op) {
    IrSpecial special = ir_op_special(op);
    LLVMValueRef x;
    Range r = {0, INT32_MAX};
    int64_t threads = func_threads(p->func);
    if (special == IR_SPECIAL_LANE) {
        x = LLVMBuildAnd(p->b, sreg(p, "tid.x"), ptx_index(p, 31), "");
        r.hi = 31;
    } else if (special == IR_SPECIAL_WARP) {
        x = LLVMBuildLShr(p->b, sreg(p, "tid.x"), ptx_index(p, 5), "");
        r.hi = threads / 32 - 1;
    } else if (special == IR_SPECIAL_CLUSTER_RANK) {
        x = sreg(p, "cluster.ctarank");
        r.hi = ir_func_cluster(p->func) - 1;
    } else {
        x = sreg(p, ir_enum_word(IR_ENUM_SPECIAL, special));
        if (ir_attr_bool(op, "backwards")) x = backwards(p, x);
        if (special == IR_SPECIAL_TID_X) r.hi = threads - 1;
    }
    ptx_bind(p, &op->results[0], x);
    ptx_value(p, &op->results[0])->range = r;
}

static void barrier(Ptx *p, const IrOp *op) {
    IrScope scope = ir_op_scope(op);
    LLVMValueRef arg;
    if (scope == IR_SCOPE_WARP) {
        arg = ptx_int(p, DTYPE_I32, -1);
        ptx_intrinsic(p, "llvm.nvvm.bar.warp.sync", 0, NULL, 1, &arg);
    } else if (scope == IR_SCOPE_BLOCK) {
        arg = ptx_int(p, DTYPE_I32, 0);
        ptx_intrinsic(p, "llvm.nvvm.barrier.cta.sync.aligned.all", 0, NULL, 1, &arg);
    } else if (scope == IR_SCOPE_WARPGROUP) {
        ptx_warpgroup_barrier(p);
    } else {
        ptx_cluster_barrier(p);
    }
}

static void visit(Ptx *p, const IrOp *op) {
    switch (op->opcode) {
    case IR_FOR:
        for_loop(p, op);
        return;
    case IR_IF:
        if_else(p, op);
        return;
    case IR_MAP:
        map(p, op);
        return;
    case IR_PARALLEL:
        ptx_fail(p, op, "a parallel loop on the GPU: it is to become the grid");
        return;
    case IR_SPECIAL:
        special(p, op);
        return;
    case IR_BARRIER:
        barrier(p, op);
        return;
    case IR_STEPS_WAIT:
        ptx_asm(p, LLVMVoidTypeInContext(p->context), 0, NULL, "griddepcontrol.wait;", "~{memory}", true);
        return;
    case IR_STEPS_RELEASE:
        ptx_asm(p, LLVMVoidTypeInContext(p->context), 0, NULL, "griddepcontrol.launch_dependents;", "~{memory}", true);
        return;
    case IR_GRID_BARRIER_ARRIVE:
        ptx_arrive(p, op);
        return;
    case IR_GRID_BARRIER_WAIT:
        ptx_meet(p, op);
        return;
    case IR_MEM_LOAD:
        ptx_load(p, op);
        return;
    case IR_MEM_STORE:
        ptx_store(p, op);
        return;
    case IR_MEM_ATOMIC:
        ptx_atomic(p, op);
        return;
    case IR_FRAG_GET:
        ptx_frag_get(p, op);
        return;
    case IR_SHARED_PTR:
        ptx_shared_pointer(p, op);
        return;
    case IR_CLUSTER_PTR:
        ptx_cluster_pointer(p, op);
        return;
    case IR_CLUSTER_BEGIN:
        ptx_cluster_begin(p, op);
        return;
    case IR_CLUSTER_BEGUN:
        ptx_cluster_begun(p);
        return;
    case IR_CLUSTER_SEND:
        ptx_cluster_send(p, op);
        return;
    case IR_CLUSTER_MEET:
        ptx_cluster_meet(p, op);
        return;
    case IR_ASYNC_COPY:
    case IR_ASYNC_COMMIT:
    case IR_ASYNC_WAIT:
        ptx_async(p, op);
        return;
    case IR_SHUFFLE_XOR:
        ptx_shuffle(p, op);
        return;
    case IR_ATOM:
        ptx_atom(p, op);
        return;
    case IR_WGMMA:
    case IR_WGMMA_WAIT:
        ptx_wgmma(p, op);
        return;
    case IR_YIELD:
    case IR_RETURN:
        return;
    case IR_MBAR_WAIT:
        keep_in_front(p, op);
        ptx_instruction(p, op);
        return;
    default:
        (async_find(op) ? ptx_instruction : ptx_pure)(p, op);
        return;
    }
}

void ptx_block(Ptx *p, const IrBlock *block) {
    LLVMMetadataRef around = LLVMGetCurrentDebugLocation2(p->b);
    for (const IrOp *op = block->first; op && !p->failed; op = op->next) {
        ptx_lines_at(p, op->span);
        visit(p, op);
    }
    LLVMSetCurrentDebugLocation2(p->b, around);
}
