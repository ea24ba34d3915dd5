/* Shared memory, barriers of blocks and clusters, asynchronous copies, shuffles, atoms; the copy engine and wgmma. */
#include "ptx_internal.h"

void ptx_shared_pointer(Ptx *p, const IrOp *op) {
    LLVMTypeRef bytes = LLVMArrayType2(LLVMInt8TypeInContext(p->context), 0);
    p->smem = LLVMGetNamedGlobal(p->llvm, "smem");
    if (!p->smem) {
        p->smem = LLVMAddGlobalInAddressSpace(p->llvm, bytes, "smem", PTX_SHARED);
        LLVMSetAlignment(p->smem, 128);
    }
    int64_t align = ir_attr_int(op, "align", 0);
    if (align > LLVMGetAlignment(p->smem)) LLVMSetAlignment(p->smem, (unsigned)align);
    LLVMValueRef at = ptx_index(p, ir_attr_int(op, "offset", 0));
    ptx_bind(p, &op->results[0], LLVMBuildGEP2(p->b, LLVMInt8TypeInContext(p->context), p->smem, &at, 1, ""));
}

/* A generic address: loads and stores behind it find the other block by themselves. */
void ptx_cluster_pointer(Ptx *p, const IrOp *op) {
    LLVMTypeRef generic = LLVMPointerTypeInContext(p->context, 0), wide = LLVMInt64TypeInContext(p->context);
    LLVMValueRef own = LLVMBuildAddrSpaceCast(p->b, ptx_use(p, op->operands[0]), generic, "");
    LLVMValueRef args[2] = {LLVMBuildPtrToInt(p->b, own, wide, ""),
                            LLVMBuildTrunc(p->b, ptx_use(p, op->operands[1]), LLVMInt32TypeInContext(p->context), "")};
    LLVMValueRef other = ptx_asm(p, wide, 2, args, "mapa.u64 $0, $1, $2;", "=l,l,r", false);
    ptx_bind(p, &op->results[0], LLVMBuildIntToPtr(p->b, other, generic, ""));
}

/* Named barriers 1 on: 0 is the block's. */
void ptx_warpgroup_barrier(Ptx *p) {
    static const char text[] = "{ .reg .u32 %g; mov.u32 %g, %tid.x; shr.u32 %g, %g, 7; add.u32 %g, %g, 1; bar.sync %g, 128; }";
    ptx_call_attribute(p, ptx_asm(p, LLVMVoidTypeInContext(p->context), 0, NULL, text, "~{memory}", true), "convergent");
}

/* One thread counts the block's arrival and waits for the others'; the block's barriers pass on what that orders. */
void ptx_arrive(Ptx *p, const IrOp *op) {
    static const char text[] = "{ .reg .pred p; .reg .u32 %t; bar.sync 0; mov.u32 %t, %tid.x; setp.ne.u32 p, %t, 0; @p bra ARRIVED; "
                               "fence.acq_rel.gpu; red.relaxed.gpu.global.add.s32 [$0], 1; ARRIVED: }";
    LLVMValueRef counter = ptx_address(p, op->operands[0], op->operands[1]);
    ptx_call_attribute(p, ptx_asm(p, LLVMVoidTypeInContext(p->context), 1, &counter, text, "l,~{memory}", true), "convergent");
}

void ptx_meet(Ptx *p, const IrOp *op) {
    static const char text[] =
        "{ .reg .pred p; .reg .u32 %t; .reg .s32 %n; mov.u32 %t, %tid.x; setp.ne.u32 p, %t, 0; @p bra MET; "
        "AGAIN: ld.relaxed.gpu.global.s32 %n, [$0]; setp.lt.s32 p, %n, $1; @!p bra COME; nanosleep.u32 32; bra AGAIN; "
        "COME: fence.acq_rel.gpu; MET: bar.sync 0; }";
    LLVMValueRef args[2] = {ptx_address(p, op->operands[0], op->operands[1]),
                            LLVMBuildTrunc(p->b, ptx_use(p, op->operands[2]), LLVMInt32TypeInContext(p->context), "")};
    ptx_call_attribute(p, ptx_asm(p, LLVMVoidTypeInContext(p->context), 2, args, text, "l,r,~{memory}", true), "convergent");
}

void ptx_cluster_barrier(Ptx *p) {
    LLVMValueRef call = ptx_asm(p, LLVMVoidTypeInContext(p->context), 0, NULL,
                                "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", "~{memory}", true);
    ptx_call_attribute(p, call, "convergent");
}

static LLVMValueRef shared_address(Ptx *p, const IrValue *ptr, const IrValue *offset) {
    return LLVMBuildPtrToInt(p->b, ptx_address(p, ptr, offset), LLVMInt32TypeInContext(p->context), "");
}

static LLVMValueRef shared_base(Ptx *p, const IrValue *ptr) {
    return LLVMBuildPtrToInt(p->b, ptx_use(p, ptr), LLVMInt32TypeInContext(p->context), "");
}

/* One thread makes the barriers. */
void ptx_cluster_begin(Ptx *p, const IrOp *op) {
    static const char text[] =
        "{ .reg .pred p; .reg .u32 %t; mov.u32 %t, %tid.x; setp.eq.u32 p, %t, 0; @p mbarrier.init.shared::cta.b64 [$0], 1; "
        "@p fence.mbarrier_init.release.cluster; }";
    LLVMTypeRef none = LLVMVoidTypeInContext(p->context);
    for (unsigned i = 0; i < op->operand_count; i++) {
        LLVMValueRef at = shared_base(p, op->operands[i]);
        ptx_asm(p, none, 1, &at, text, "r,~{memory}", true);
    }
    ptx_call_attribute(p, ptx_asm(p, none, 0, NULL, "barrier.cluster.arrive.relaxed.aligned;", "~{memory}", true), "convergent");
}

void ptx_cluster_begun(Ptx *p) {
    ptx_call_attribute(p, ptx_asm(p, LLVMVoidTypeInContext(p->context), 0, NULL, "barrier.cluster.wait.aligned;", "~{memory}", true),
                       "convergent");
}

/* No fence: each block's barrier counts what comes, and a thread's stores to global memory may be on their way still. */
void ptx_cluster_send(Ptx *p, const IrOp *op) {
    const IrValue *value = op->operands[0];
    unsigned bits = dtype_bits(value->type->dtype);
    LLVMBasicBlockRef join = NULL;
    if (op->operand_count > 4) {
        LLVMBasicBlockRef then = LLVMAppendBasicBlockInContext(p->context, p->function, "");
        join = LLVMAppendBasicBlockInContext(p->context, p->function, "");
        LLVMBuildCondBr(p->b, ptx_use(p, op->operands[4]), then, join);
        LLVMPositionBuilderAtEnd(p->b, then);
    }
    LLVMTypeRef word = LLVMIntTypeInContext(p->context, bits);
    LLVMValueRef args[3] = {shared_address(p, op->operands[1], op->operands[2]), shared_base(p, op->operands[3]),
                            LLVMBuildBitCast(p->b, ptx_use(p, value), word, "")};
    Str text;
    str_init(&text);
    str_append(&text, "{ .reg .b32 a; .reg .b32 b;");
    for (int64_t rank = 0; rank < ir_func_cluster(p->func); rank++)
        str_printf(&text,
                   " mapa.shared::cluster.u32 a, $0, %lld; mapa.shared::cluster.u32 b, $1, %lld;"
                   " st.async.shared::cluster.mbarrier::complete_tx::bytes.b%u [a], $2, [b];",
                   (long long)rank, (long long)rank, bits);
    str_append(&text, " }");
    ptx_asm(p, LLVMVoidTypeInContext(p->context), 3, args, text.data, bits == 64 ? "r,r,l,~{memory}" : "r,r,r,~{memory}", true);
    str_release(&text);
    if (!join) return;
    LLVMBuildBr(p->b, join);
    LLVMPositionBuilderAtEnd(p->b, join);
}

/* Which phase each meeting is in: a register, a bit each. */
static LLVMValueRef phases(Ptx *p) {
    if (p->met) return p->met;
    LLVMTypeRef word = LLVMInt32TypeInContext(p->context);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(p->b);
    LLVMMetadataRef line = LLVMGetCurrentDebugLocation2(p->b);
    LLVMValueRef first = LLVMGetFirstInstruction(p->entry);
    if (first)
        LLVMPositionBuilderBefore(p->b, first);
    else
        LLVMPositionBuilderAtEnd(p->b, p->entry);
    p->met = LLVMBuildAlloca(p->b, word, "");
    LLVMBuildStore(p->b, LLVMConstInt(word, 0, false), p->met);
    LLVMPositionBuilderAtEnd(p->b, here);
    LLVMSetCurrentDebugLocation2(p->b, line);
    return p->met;
}

void ptx_cluster_meet(Ptx *p, const IrOp *op) {
    static const char text[] =
        "{ .reg .pred p; .reg .u32 %t; mov.u32 %t, %tid.x; setp.eq.u32 p, %t, 0; @p mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $2; "
        "AGAIN: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [$0], $1; @!p bra AGAIN; }";
    LLVMTypeRef word = LLVMInt32TypeInContext(p->context);
    LLVMValueRef met = phases(p), old = LLVMBuildLoad2(p->b, word, met, "");
    unsigned number = (unsigned)ir_attr_int(op, "number", 0);
    LLVMValueRef one = LLVMConstInt(word, 1, false), shift = LLVMConstInt(word, number, false);
    LLVMValueRef args[3] = {shared_base(p, op->operands[0]), LLVMBuildAnd(p->b, LLVMBuildLShr(p->b, old, shift, ""), one, ""),
                            LLVMConstInt(word, (unsigned long long)ir_attr_int(op, "bytes", 0), false)};
    ptx_call_attribute(p, ptx_asm(p, LLVMVoidTypeInContext(p->context), 3, args, text, "r,r,n,~{memory}", true), "convergent");
    LLVMBuildStore(p->b, LLVMBuildXor(p->b, old, LLVMConstInt(word, 1ull << number, false), ""), met);
}

/* An offset that is a value plus a constant: copies of a thread that are fixed distances apart then share one address, where LLVM
 * would keep each of them in a register. Null: it is no such sum. */
static const IrValue *constant_part(Ptx *p, const IrValue *offset, long long *fixed) {
    const IrOp *sum = offset->def;
    for (unsigned i = 0; sum && sum->opcode == IR_ADD && i < 2; i++) {
        LLVMValueRef v = LLVMIsAConstantInt(ptx_use(p, sum->operands[i]));
        if (!v || LLVMIsAConstantInt(ptx_use(p, sum->operands[1 - i]))) continue;
        *fixed = LLVMConstIntGetSExtValue(v);
        return sum->operands[1 - i];
    }
    return NULL;
}

void ptx_async(Ptx *p, const IrOp *op) {
    LLVMTypeRef none = LLVMVoidTypeInContext(p->context);
    if (op->opcode == IR_ASYNC_COMMIT) {
        ptx_asm(p, none, 0, NULL, "cp.async.commit_group;", "~{memory}", true);
        return;
    }
    if (op->opcode == IR_ASYNC_WAIT) {
        long long pending = ir_attr_int(op, "pending", 0);
        ptx_asm(p, none, 0, NULL, arena_printf(p->arena, "cp.async.wait_group %lld;", pending), "~{memory}", true);
        return;
    }
    long long bytes = ir_attr_int(op, "bytes", 16), fixed = 0;
    const IrValue *to = op->operands[3], *rest = constant_part(p, to, &fixed);
    LLVMValueRef valid = LLVMBuildTrunc(p->b, ptx_use(p, op->operands[4]), LLVMInt32TypeInContext(p->context), "");
    LLVMValueRef args[3] = {shared_address(p, op->operands[2], rest ? rest : to), ptx_address(p, op->operands[0], op->operands[1]), valid};
    const char *place = fixed ? arena_printf(p->arena, "$0 + %lld", fixed * (long long)dtype_size(op->operands[2]->type->dtype)) : "$0";
    const char *text = arena_printf(p->arena, "cp.async.%s.shared.global [%s], [$1], %lld, $2;", bytes == 16 ? "cg" : "ca", place, bytes);
    ptx_asm(p, none, 3, args, text, "r,l,r,~{memory}", true);
}

static LLVMValueRef shuffle_word(Ptx *p, LLVMValueRef x, long long mask) {
    LLVMValueRef args[4] = {ptx_int(p, DTYPE_I32, -1), x, ptx_int(p, DTYPE_I32, mask), ptx_int(p, DTYPE_I32, 31)};
    return ptx_intrinsic(p, "llvm.nvvm.shfl.sync.bfly.i32", 0, NULL, 4, args);
}

void ptx_shuffle(Ptx *p, const IrOp *op) {
    const IrType *t = op->results[0].type;
    long long mask = ir_attr_int(op, "mask", 0);
    unsigned bits = dtype_bits(t->dtype);
    if ((bits != 32 && bits != 64) || t->dtype == DTYPE_BOOL) {
        ptx_fail(p, op, "shuffles of narrow types");
        return;
    }
    unsigned n = t->width * bits / 32;
    LLVMTypeRef i32 = LLVMInt32TypeInContext(p->context), words = n > 1 ? LLVMVectorType(i32, n) : i32;
    LLVMValueRef x = LLVMBuildBitCast(p->b, ptx_use(p, op->operands[0]), words, "");
    if (mask && n == 1) x = shuffle_word(p, x, mask);
    for (unsigned i = 0; mask && n > 1 && i < n; i++) {
        LLVMValueRef at = ptx_int(p, DTYPE_I32, i);
        x = LLVMBuildInsertElement(p->b, x, shuffle_word(p, LLVMBuildExtractElement(p->b, x, at, ""), mask), at, "");
    }
    ptx_bind(p, &op->results[0], LLVMBuildBitCast(p->b, x, ptx_scalar_type(p, t), ""));
}

static char class_letter(const AtomClass *c) {
    return c->dtype == DTYPE_F32 ? 'f' : c->dtype == DTYPE_F64 ? 'd' : !c->shared && dtype_bits(c->dtype) == 64 ? 'l' : 'r';
}

typedef struct {
    LLVMTypeRef types[64];
    LLVMValueRef args[64];
    unsigned results, count;
    const char *constraints;
} AtomCall;

static void atom_operands(Ptx *p, const IrOp *op, const AtomInfo *atom, AtomCall *c) {
    const char *text = atom->operands;
    AtomClass cls;
    for (unsigned i = 0; atom_next_class(&text, &cls); i += cls.shared ? 2 : 1) {
        if (i + (cls.shared ? 2 : 1) > op->operand_count || c->count + cls.count > 64) {
            ptx_fail(p, op, "an atom with too few operands");
            return;
        }
        for (unsigned l = 0; l < cls.count; l++) {
            LLVMValueRef x = cls.shared ? shared_address(p, op->operands[i], op->operands[i + 1]) : ptx_use(p, op->operands[i]);
            if (cls.vector) x = LLVMBuildExtractElement(p->b, x, ptx_int(p, DTYPE_I32, l), "");
            c->args[c->count++] = x;
            c->constraints = arena_printf(p->arena, "%s,%c", c->constraints, class_letter(&cls));
        }
    }
}

void ptx_atom(Ptx *p, const IrOp *op) {
    const AtomInfo *atom = atom_of(op);
    AtomCall c = {.constraints = ""};
    if (!atom) {
        ptx_fail(p, op, "an instruction that atoms.def does not have");
        return;
    }
    const char *text = atom->results;
    AtomClass cls;
    while (atom_next_class(&text, &cls) && c.results + cls.count <= 64)
        for (unsigned l = 0; l < cls.count; l++) {
            c.constraints = arena_printf(p->arena, "%s%s=%c", c.constraints, c.results ? "," : "", class_letter(&cls));
            c.types[c.results++] = ptx_type(p, cls.dtype);
        }
    atom_operands(p, op, atom, &c);
    if (p->failed) return;
    LLVMTypeRef type = c.results == 1 ? c.types[0]
                       : c.results    ? LLVMStructTypeInContext(p->context, c.types, c.results, false)
                                      : LLVMVoidTypeInContext(p->context);
    const char *constraints = c.constraints[0] == ',' ? c.constraints + 1 : c.constraints;
    if (atom->is_volatile) constraints = arena_printf(p->arena, "%s,~{memory}", constraints);
    LLVMValueRef r = ptx_asm(p, type, c.count, c.args, atom->ptx, constraints, atom->is_volatile);
    ptx_call_attribute(p, r, "convergent");
    unsigned at = 0;
    text = atom->results;
    for (unsigned k = 0; k < op->result_count && atom_next_class(&text, &cls); k++) {
        LLVMValueRef v = cls.vector ? LLVMGetPoison(ptx_scalar_type(p, op->results[k].type)) : NULL;
        for (unsigned l = 0; l < cls.count; l++, at++) {
            LLVMValueRef x = ptx_member(p, r, at, c.results);
            v = cls.vector ? LLVMBuildInsertElement(p->b, v, x, ptx_int(p, DTYPE_I32, l), "") : x;
        }
        ptx_bind(p, &op->results[k], v);
    }
}

/* ---- The copy engine, its barriers, wgmma ---- */

static LLVMValueRef as_word(Ptx *p, LLVMValueRef x) {
    LLVMTypeRef word = LLVMInt32TypeInContext(p->context);
    return LLVMTypeOf(x) == word ? x : LLVMBuildTrunc(p->b, x, word, "");
}

/* The words of a factor in registers: two elements each. What is volatile stays in front of the fence. */
static const LLVMValueRef *make_factor_words(Ptx *p, const IrOp *product) {
    const IrType *t = product->operands[0]->type;
    LLVMTypeRef element = ptx_type(p, t->dtype), pair = LLVMVectorType(element, 2), word = LLVMInt32TypeInContext(p->context);
    unsigned at = (unsigned)ir_attr_int(product->operands[1]->def, "value", 0);
    PtxWords made = {.product = product};
    for (unsigned i = 0; i < COUNT_OF(made.words); i++) {
        LLVMValueRef both = LLVMGetUndef(pair);
        for (unsigned k = 0; k < 2; k++) {
            LLVMValueRef x = LLVMBuildLoad2(p->b, element, ptx_frag_element(p, ptx_use(p, product->operands[0]), t, at + 2 * i + k), "");
            both = LLVMBuildInsertElement(p->b, both, x, ptx_int(p, DTYPE_I32, k), "");
        }
        both = LLVMBuildBitCast(p->b, both, word, "");
        made.words[i] = ptx_asm(p, word, 1, &both, "mov.b32 $0, $1;", "=r,r", true);
    }
    VEC_PUSH(p->arena, &p->words, made);
    return p->words.data[p->words.len - 1].words;
}

static const LLVMValueRef *factor_words(Ptx *p, const IrOp *product) {
    for (size_t i = p->words.len; i-- > 0;)
        if (p->words.data[i].product == product) return p->words.data[i].words;
    return make_factor_words(p, product);
}

void ptx_instruction(Ptx *p, const IrOp *op) {
    const IrOp *product = op->opcode == IR_WGMMA_FENCE ? wgmma_next_of_registers(op) : NULL;
    for (; product; product = wgmma_next_of_registers(product)) make_factor_words(p, product);
    const AtomInfo *atom = async_find(op);
    LLVMValueRef args[16];
    unsigned count = 0;
    const char *constraints = "";
    for (unsigned i = 0; i < op->operand_count;) {
        const IrType *t = op->operands[i]->type;
        bool shared = t->kind == IR_TYPE_PTR && t->space == IR_SPACE_SHARED, map = t->kind == IR_TYPE_PTR && !shared;
        args[count++] = shared ? shared_address(p, op->operands[i], op->operands[i + 1])
                        : map  ? LLVMBuildPtrToInt(p->b, ptx_use(p, op->operands[i]), LLVMInt64TypeInContext(p->context), "")
                               : as_word(p, ptx_use(p, op->operands[i]));
        constraints = arena_printf(p->arena, "%s%c,", constraints, map ? 'l' : 'r');
        i += shared ? 2 : 1;
    }
    int64_t attribute;
    if (async_attribute(op, &attribute)) {
        args[count++] = ptx_int(p, DTYPE_I32, attribute);
        constraints = arena_printf(p->arena, "%sr,", constraints);
    }
    constraints = arena_printf(p->arena, "%s~{memory}", constraints);
    LLVMValueRef call = ptx_asm(p, LLVMVoidTypeInContext(p->context), count, args, atom->ptx, constraints, true);
    ptx_call_attribute(p, call, "convergent");
}

/* Two words: a shared address has 18 bits, so that what is added to its unit of 16 bytes stays in the lower one; in a cluster the block's rank stands
 * above them, which would be added to the distance of blocks. */
static LLVMValueRef factor_descriptor(Ptx *p, const IrOp *op, unsigned which) {
    uint64_t form = wgmma_descriptor(op, which);
    const IrValue *offset = wgmma_offset(op, which, &form);
    LLVMValueRef at = LLVMBuildLShr(p->b, shared_address(p, op->operands[2 * which], offset), ptx_int(p, DTYPE_I32, 4), "");
    if (ir_func_cluster(p->func) > 1) at = LLVMBuildAnd(p->b, at, ptx_int(p, DTYPE_I32, 0x3fff), "");
    LLVMValueRef lower = ptx_int(p, DTYPE_I32, (int64_t)(form & UINT32_MAX)), upper = ptx_int(p, DTYPE_I32, (int64_t)(form >> 32));
    LLVMValueRef words[2] = {LLVMBuildAdd(p->b, at, lower, ""), upper};
    return ptx_asm(p, LLVMInt64TypeInContext(p->context), 2, words, "mov.b64 $0, {$1, $2};", "=l,r,r", false);
}

/* The accumulators stay in their registers: each result is tied to its operand. */
void ptx_wgmma(Ptx *p, const IrOp *op) {
    WgmmaForm form = wgmma_form(op);
    const IrType *t = op->results[0].type;
    unsigned n = form.registers, count = form.fresh ? 0 : n;
    LLVMValueRef *args = ARENA_ARRAY(p->arena, LLVMValueRef, n + form.words + 2),
                 from = form.fresh ? NULL : ptx_use(p, op->operands[op->operand_count - 1]);
    LLVMTypeRef element = ptx_type(p, t->dtype);
    Str constraints;
    str_init(&constraints);
    for (unsigned i = 0; i < n; i++) {
        if (from) args[i] = LLVMBuildLoad2(p->b, element, ptx_frag_element(p, from, t, i), "");
        str_append(&constraints, dtype_is_float(t->dtype) ? "=f," : "=r,");
    }
    /* $n.. are the tied operands: factors come behind them. */
    for (unsigned i = 0; i < n && from; i++) str_printf(&constraints, "%u,", i);
    const LLVMValueRef *words = form.words ? factor_words(p, op) : NULL;
    for (unsigned i = 0; i < form.words; i++) {
        args[count++] = words[i];
        str_append(&constraints, "r,");
    }
    for (unsigned i = form.words ? 1 : 0; i < 2 && !form.wait; i++) {
        args[count++] = factor_descriptor(p, op, i);
        str_append(&constraints, "l,");
    }
    str_append(&constraints, "~{memory}");
    LLVMTypeRef type = n ? ptx_registers_type(p, element, n) : LLVMVoidTypeInContext(p->context);
    LLVMValueRef r = ptx_asm(p, type, count, args, wgmma_text(p->arena, form, '$', n + (from ? n : 0)), constraints.data, true);
    ptx_call_attribute(p, r, "convergent");
    str_release(&constraints);
    if (!n) {
        ptx_bind(p, &op->results[0], from);
        return;
    }
    LLVMValueRef to = ptx_frag_new(p, t);
    for (unsigned i = 0; i < n; i++) LLVMBuildStore(p->b, ptx_member(p, r, i, n), ptx_frag_element(p, to, t, i));
    ptx_bind(p, &op->results[0], to);
}
