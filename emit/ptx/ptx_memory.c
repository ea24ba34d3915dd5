#include "ptx_internal.h"

#include <string.h>

enum {
    MOST_TESTS = 3, /* limits that a mask keeps; further ones make a predicate (not measured) */
    FEW = 4         /* conditions of a kernel that fit into predicates, which are there sooner than a limit in 32 bits */
};

/* ---- Inline assembly ---- */

LLVMValueRef ptx_asm(Ptx *p, LLVMTypeRef result, unsigned count, LLVMValueRef *args, const char *text, const char *constraints,
                     bool effects) {
    LLVMTypeRef *types = ARENA_ARRAY(p->arena, LLVMTypeRef, count + 1);
    for (unsigned i = 0; i < count; i++) types[i] = LLVMTypeOf(args[i]);
    LLVMTypeRef f = LLVMFunctionType(result, types, count, false);
    LLVMValueRef code =
        LLVMGetInlineAsm(f, text, strlen(text), constraints, strlen(constraints), effects, false, LLVMInlineAsmDialectATT, false);
    return LLVMBuildCall2(p->b, f, code, args, count, "");
}

void ptx_call_attribute(Ptx *p, LLVMValueRef call, const char *name) {
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(p->context, kind, 0));
}

LLVMValueRef ptx_member(Ptx *p, LLVMValueRef aggregate, unsigned i, unsigned count) {
    return count == 1 ? aggregate : LLVMBuildExtractValue(p->b, aggregate, i, "");
}

LLVMTypeRef ptx_registers_type(Ptx *p, LLVMTypeRef t, unsigned count) {
    if (count == 1) return t;
    LLVMTypeRef *types = ARENA_ARRAY(p->arena, LLVMTypeRef, count);
    for (unsigned i = 0; i < count; i++) types[i] = t;
    return LLVMStructTypeInContext(p->context, types, count, false);
}

/* ---- Memory as 32-bit words, for predicated and streaming accesses ---- */

typedef struct {
    unsigned count; /* registers of one access */
    unsigned bits;  /* of a register */
    unsigned parts; /* accesses: 16 bytes each at most */
} Words;

static Words words_of(const IrType *t) {
    unsigned bytes = (unsigned)dtype_size(t->dtype) * t->width;
    if (bytes <= 2) return (Words){1, bytes * 8, 1};
    unsigned bits = dtype_bits(t->dtype) == 64 && t->width == 1 ? 64 : 32;
    unsigned part = bytes > 16 ? 16 : bytes;
    return (Words){part * 8 / bits, bits, bytes / part};
}

/* A value as its words: <n x iN>, one after the other. */
static LLVMValueRef word(Ptx *p, LLVMValueRef x, Words w, unsigned i) {
    LLVMTypeRef t = LLVMIntTypeInContext(p->context, w.bits);
    unsigned n = w.count * w.parts;
    if (n == 1) return LLVMBuildBitCast(p->b, x, t, "");
    return LLVMBuildExtractElement(p->b, LLVMBuildBitCast(p->b, x, LLVMVectorType(t, n), ""), ptx_int(p, DTYPE_I32, i), "");
}

static char letter(unsigned bits) {
    return bits == 64 ? 'l' : bits == 32 ? 'r' : 'h';
}

static const char *register_list(Ptx *p, unsigned first, unsigned count) {
    const char *text = arena_printf(p->arena, "$%u", first);
    for (unsigned i = 1; i < count; i++) text = arena_printf(p->arena, "%s, $%u", text, first + i);
    return count == 1 ? text : arena_printf(p->arena, "{%s}", text);
}

static const char *access_suffix(Ptx *p, Words w) {
    return arena_printf(p->arena, "%s.b%u", w.count == 4 ? ".v4" : w.count == 2 ? ".v2" : "", w.bits);
}

static LLVMTypeRef word_type(Ptx *p, Words w) {
    return LLVMIntTypeInContext(p->context, w.bits == 8 ? 16 : w.bits);
}

static LLVMValueRef to_register(Ptx *p, LLVMValueRef x, Words w) {
    return w.bits == 8 ? LLVMBuildZExt(p->b, x, LLVMInt16TypeInContext(p->context), "") : x;
}

/* ---- Conditions of accesses ---- */

/* A mask as the text of an access makes it: a place that is a constant is held against limits, in 32 bits, where it is used.
 * A predicate that LLVM sees is made once for a loop, and many of them live in registers. */
typedef struct {
    unsigned count; /* 0: `predicate` is the mask */
    LLVMValueRef predicate, limit[MOST_TESTS];
    const char *relation[MOST_TESTS];
    int64_t place[MOST_TESTS];
} Condition;

static bool small_constant(Ptx *p, const IrValue *v, int64_t *value) {
    Range r = ptx_range(p, v);
    *value = r.lo;
    return v->type->is_index && range_is_const(r) && r.lo > INT32_MIN && r.lo < INT32_MAX;
}

/* The limit as 32 bits: a comparison with a number within them is the same. */
static LLVMValueRef clamped(Ptx *p, const IrValue *v) {
    LLVMTypeRef wide = LLVMInt64TypeInContext(p->context);
    LLVMValueRef low[2] = {ptx_use(p, v), ptx_index(p, INT32_MIN)}, high[2] = {NULL, ptx_index(p, INT32_MAX)};
    high[0] = ptx_intrinsic(p, "llvm.smax", 1, &wide, 2, low);
    return LLVMBuildTrunc(p->b, ptx_intrinsic(p, "llvm.smin", 1, &wide, 2, high), LLVMInt32TypeInContext(p->context), "");
}

static bool add_tests(Ptx *p, const IrValue *mask, Condition *c) {
    const IrOp *op = mask->def;
    if (!op || mask->type->width > 1) return false;
    if (op->opcode == IR_AND) return add_tests(p, op->operands[0], c) && add_tests(p, op->operands[1], c);
    if ((op->opcode != IR_LT && op->opcode != IR_LE) || c->count == MOST_TESTS || !op->operands[0]->type->is_index) return false;
    bool less = op->opcode == IR_LT, first = small_constant(p, op->operands[0], &c->place[c->count]);
    if (!first && !small_constant(p, op->operands[1], &c->place[c->count])) return false;
    c->relation[c->count] = first ? less ? "gt" : "ge" : less ? "lt" : "le";
    c->limit[c->count++] = clamped(p, op->operands[first]);
    return true;
}

/* How often the map around an access makes it. */
static int64_t times_made(const IrOp *op) {
    const IrOp *map = op->block->parent;
    const IrAttr *extents = map && map->opcode == IR_MAP ? ir_attr(map, "extents") : NULL;
    int64_t times = 1;
    for (size_t i = 0; extents && i < extents->count; i++) times *= extents->ints[i];
    return times;
}

static Condition condition_of(Ptx *p, const IrOp *access, const IrValue *mask) {
    Condition c = {.count = 0};
    if (mask && (times_made(access) <= FEW || !add_tests(p, mask, &c))) c.count = 0;
    if (mask) c.predicate = ptx_use(p, mask);
    return c;
}

/* Appends the mask's operands from number *n on; *guard stands before the access, the result before all. */
static const char *condition_text(Ptx *p, const Condition *c, unsigned first, LLVMValueRef *args, unsigned *n, const char **constraints,
                                  const char **guard) {
    const char *text = "";
    if (!c->count) {
        *guard = arena_printf(p->arena, "@$%u ", first);
        *constraints = arena_printf(p->arena, "%s,b", *constraints);
        args[(*n)++] = c->predicate;
        return text;
    }
    *guard = "@%inside ";
    for (unsigned i = 0; i < c->count; i++) {
        text = arena_printf(p->arena, "%ssetp.%s%s.s32 %%inside, $%u, %lld%s; ", text, c->relation[i], i ? ".and" : "", first + i,
                            (long long)c->place[i], i ? ", %inside" : "");
        *constraints = arena_printf(p->arena, "%s,r", *constraints);
        args[(*n)++] = c->limit[i];
    }
    return arena_printf(p->arena, "{ .reg .pred %%inside; %s", text);
}

/* One access, `what` being "ld.global.nc" or the like; where the mask is false the result is
 * `other`. */
static LLVMValueRef asm_load(Ptx *p, const char *what, Words w, LLVMValueRef address, const Condition *mask, LLVMValueRef other,
                             unsigned part, bool effects) {
    LLVMValueRef args[6 + MOST_TESTS] = {address};
    unsigned n = 1;
    const char *outs = "", *moves = "", *ins = ",l", *begin = "", *guard = "";
    for (unsigned i = 0; i < w.count; i++) outs = arena_printf(p->arena, "%s%s=&%c", outs, i ? "," : "", letter(w.bits));
    const char *list = register_list(p, 0, w.count);
    if (mask) {
        begin = condition_text(p, mask, w.count + 1, args, &n, &ins, &guard);
        for (unsigned i = 0; i < w.count; i++) {
            moves = arena_printf(p->arena, "%smov.b%u $%u, $%u; ", moves, w.bits == 8 ? 16 : w.bits, i, w.count + n);
            args[n++] = to_register(p, word(p, other, w, part * w.count + i), w);
            ins = arena_printf(p->arena, "%s,%c", ins, letter(w.bits));
        }
    }
    const char *text = arena_printf(p->arena, "%s%s%s%s%s %s, [$%u];%s", begin, moves, guard, what, access_suffix(p, w), list, w.count,
                                    *begin ? " }" : "");
    const char *constraints = arena_printf(p->arena, "%s%s%s", outs, ins, effects ? ",~{memory}" : "");
    return ptx_asm(p, ptx_registers_type(p, word_type(p, w), w.count), n, args, text, constraints, effects);
}

LLVMValueRef ptx_address(Ptx *p, const IrValue *ptr, const IrValue *offset) {
    LLVMTypeRef e = ptr->type->dtype == DTYPE_BOOL ? LLVMInt8TypeInContext(p->context) : ptx_type(p, ptr->type->dtype);
    LLVMValueRef at = ptx_use(p, offset);
    return LLVMBuildGEP2(p->b, e, ptx_use(p, ptr), &at, 1, "");
}

static LLVMValueRef next_part(Ptx *p, LLVMValueRef address, unsigned part) {
    if (!part) return address;
    LLVMValueRef at = ptx_index(p, part * 16);
    return LLVMBuildGEP2(p->b, LLVMInt8TypeInContext(p->context), address, &at, 1, "");
}

/* Memory holds bool as a byte. */
static IrType memory_type(const IrType *t) {
    IrType m = *t;
    if (m.dtype == DTYPE_BOOL) m.dtype = DTYPE_U8;
    return m;
}

static unsigned alignment_of(const IrOp *op, const IrType *t) {
    unsigned natural = (unsigned)dtype_size(t->dtype) * t->width;
    natural = natural > 16 ? 16 : natural & -natural;
    int64_t given = ir_attr_int(op, "align", 0);
    return given > 0 && given < natural ? (unsigned)given : natural;
}

static LLVMValueRef spread(Ptx *p, LLVMValueRef x, const IrType *t) {
    if (t->width <= 1 || LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMVectorTypeKind) return x;
    LLVMValueRef v = LLVMGetPoison(LLVMVectorType(LLVMTypeOf(x), t->width));
    for (unsigned i = 0; i < t->width; i++) v = LLVMBuildInsertElement(p->b, v, x, ptx_int(p, DTYPE_I32, i), "");
    return v;
}

/* The thread waits until another block has published the element: its bits are 0 before. */
static LLVMValueRef awaited_load(Ptx *p, LLVMValueRef address) {
    static const char text[] = "{ .reg .pred p; AGAIN: ld.relaxed.gpu.global.b32 $0, [$1]; setp.ne.b32 p, $0, 0; @p bra COME; "
                               "nanosleep.u32 32; bra AGAIN; COME: }";
    LLVMValueRef bits = ptx_asm(p, LLVMInt32TypeInContext(p->context), 1, &address, text, "=&r,l,~{memory}", true);
    return LLVMBuildBitCast(p->b, bits, ptx_type(p, DTYPE_F32), "");
}

static LLVMValueRef plain_load(Ptx *p, const IrOp *op, const IrType *t, LLVMValueRef address) {
    if (ir_attr_bool(op, "awaits")) return awaited_load(p, address);
    if (ir_attr_bool(op, "peeks"))
        return ptx_asm(p, ptx_type(p, DTYPE_F32), 1, &address, "ld.relaxed.gpu.global.b32 $0, [$1];", "=f,l,~{memory}", true);
    LLVMValueRef x = LLVMBuildLoad2(p->b, ptx_scalar_type(p, t), address, "");
    LLVMSetAlignment(x, alignment_of(op, t));
    return x;
}

static LLVMBasicBlockRef new_block(Ptx *p) {
    return LLVMAppendBasicBlockInContext(p->context, p->function, "");
}

static void publish(Ptx *p, LLVMValueRef value, LLVMValueRef address) {
    static const char text[] = "{ .reg .pred p; .reg .b32 %v; setp.eq.b32 p, $1, 0; selp.b32 %v, 0x80000000, $1, p; "
                               "st.relaxed.gpu.global.b32 [$0], %v; }";
    LLVMValueRef args[2] = {address, LLVMBuildBitCast(p->b, value, LLVMInt32TypeInContext(p->context), "")};
    ptx_asm(p, LLVMVoidTypeInContext(p->context), 2, args, text, "l,r,~{memory}", true);
}

static LLVMValueRef branched_load(Ptx *p, const IrOp *op, const IrType *t, LLVMValueRef address, LLVMValueRef mask, LLVMValueRef other) {
    LLVMBasicBlockRef from = LLVMGetInsertBlock(p->b), load = new_block(p), join = new_block(p);
    LLVMBuildCondBr(p->b, mask, load, join);
    LLVMPositionBuilderAtEnd(p->b, load);
    LLVMValueRef x = plain_load(p, op, t, address);
    LLVMBuildBr(p->b, join);
    LLVMPositionBuilderAtEnd(p->b, join);
    LLVMValueRef phi = LLVMBuildPhi(p->b, LLVMTypeOf(x), ""), values[2] = {x, other};
    LLVMBasicBlockRef blocks[2] = {load, from};
    LLVMAddIncoming(phi, values, blocks, 2);
    return phi;
}

static LLVMValueRef word_load(Ptx *p, const IrType *t, const char *what, LLVMValueRef address, const Condition *mask, LLVMValueRef other,
                              bool effects) {
    Words w = words_of(t);
    unsigned n = w.count * w.parts;
    LLVMTypeRef wt = LLVMIntTypeInContext(p->context, w.bits);
    LLVMValueRef v = n == 1 ? NULL : LLVMGetPoison(LLVMVectorType(wt, n));
    for (unsigned part = 0; part < w.parts; part++) {
        LLVMValueRef r = asm_load(p, what, w, next_part(p, address, part), mask, other, part, effects);
        for (unsigned i = 0; i < w.count; i++) {
            LLVMValueRef x = ptx_member(p, r, i, w.count);
            if (w.bits == 8) x = LLVMBuildTrunc(p->b, x, wt, "");
            v = n == 1 ? x : LLVMBuildInsertElement(p->b, v, x, ptx_int(p, DTYPE_I32, part * w.count + i), "");
        }
    }
    return LLVMBuildBitCast(p->b, v, ptx_scalar_type(p, t), "");
}

static bool read_only(const Ptx *p, const IrValue *ptr) {
    return !ptr->def && ptr->block == p->func->body && param_is_read_only(p->func, ptr->index);
}

/* A predicated load of memory that the kernel never writes is a function of its operands; others
 * keep a branch, so that LLVM sees the access. */
void ptx_load(Ptx *p, const IrOp *op) {
    const IrValue *r = &op->results[0];
    IrType t = memory_type(r->type);
    bool streams = ir_op_cache(op) == IR_CACHE_STREAM, only_read = read_only(p, op->operands[0]);
    bool late = only_read && param_is_shared(p->func, op->operands[0]->index); /* behind the waiting for the step that wrote it */
    bool global = op->operands[0]->type->space == IR_SPACE_GLOBAL;
    LLVMValueRef address = ptx_address(p, op->operands[0], op->operands[1]), x;
    LLVMValueRef mask = op->operand_count > 2 ? ptx_use(p, op->operands[2]) : NULL, other = NULL;
    if (mask) {
        other = ptx_use(p, op->operands[3]);
        if (r->type->dtype == DTYPE_BOOL) other = LLVMBuildZExt(p->b, other, LLVMInt8TypeInContext(p->context), "");
        other = spread(p, other, &t);
    }
    bool whole = alignment_of(op, &t) >= (t.width * dtype_size(t.dtype) > 16 ? 16 : t.width * dtype_size(t.dtype));
    if (global && whole && (streams || (mask && only_read))) {
        Condition condition = condition_of(p, op, mask ? op->operands[2] : NULL);
        x = word_load(p, &t,
                      streams ? "ld.global.cs"
                      : late  ? "ld.global"
                              : "ld.global.nc",
                      address, mask ? &condition : NULL, other, !only_read || late);
    } else
        x = mask ? branched_load(p, op, &t, address, mask, other) : plain_load(p, op, &t, address);
    if (r->type->dtype == DTYPE_BOOL) x = LLVMBuildICmp(p->b, LLVMIntNE, x, LLVMConstNull(LLVMTypeOf(x)), "");
    ptx_bind(p, r, x);
}

static void word_store(Ptx *p, const IrType *t, LLVMValueRef x, LLVMValueRef address, const Condition *mask) {
    Words w = words_of(t);
    for (unsigned part = 0; part < w.parts; part++) {
        LLVMValueRef args[5 + MOST_TESTS] = {next_part(p, address, part)};
        const char *constraints = "l", *begin = "", *guard = "";
        unsigned n = 1;
        for (unsigned i = 0; i < w.count; i++) {
            args[n++] = to_register(p, word(p, x, w, part * w.count + i), w);
            constraints = arena_printf(p->arena, "%s,%c", constraints, letter(w.bits));
        }
        if (mask) begin = condition_text(p, mask, n, args, &n, &constraints, &guard);
        const char *text = arena_printf(p->arena, "%s%sst.global.cs%s [$0], %s;%s", begin, guard, access_suffix(p, w),
                                        register_list(p, 1, w.count), *begin ? " }" : "");
        ptx_asm(p, LLVMVoidTypeInContext(p->context), n, args, text, arena_printf(p->arena, "%s,~{memory}", constraints), true);
    }
}

void ptx_store(Ptx *p, const IrOp *op) {
    IrType t = memory_type(op->operands[0]->type);
    LLVMValueRef x = ptx_use(p, op->operands[0]), address = ptx_address(p, op->operands[1], op->operands[2]);
    if (op->operands[0]->type->dtype == DTYPE_BOOL) x = LLVMBuildZExt(p->b, x, ptx_scalar_type(p, &t), "");
    bool global = op->operands[1]->type->space == IR_SPACE_GLOBAL, masked = op->operand_count > 3;
    if (global && ir_op_cache(op) == IR_CACHE_STREAM) {
        Condition condition = condition_of(p, op, masked ? op->operands[3] : NULL);
        word_store(p, &t, x, address, masked ? &condition : NULL);
        return;
    }
    LLVMBasicBlockRef join = NULL;
    if (masked) {
        LLVMBasicBlockRef store = new_block(p);
        join = new_block(p);
        LLVMBuildCondBr(p->b, ptx_use(p, op->operands[3]), store, join);
        LLVMPositionBuilderAtEnd(p->b, store);
    }
    if (ir_attr_bool(op, "publishes"))
        publish(p, x, address);
    else
        LLVMSetAlignment(LLVMBuildStore(p->b, x, address), alignment_of(op, &t));
    if (join) {
        LLVMBuildBr(p->b, join);
        LLVMPositionBuilderAtEnd(p->b, join);
    }
}

/* ---- Fragments: arrays on the stack, which SROA turns into registers ---- */

LLVMValueRef ptx_frag_new(Ptx *p, const IrType *t) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(p->b);
    LLVMMetadataRef line = LLVMGetCurrentDebugLocation2(p->b);
    LLVMValueRef first = LLVMGetFirstInstruction(p->entry);
    if (first)
        LLVMPositionBuilderBefore(p->b, first);
    else
        LLVMPositionBuilderAtEnd(p->b, p->entry);
    LLVMValueRef frag = LLVMBuildAlloca(p->b, ptx_frag_type(p, t), "");
    LLVMPositionBuilderAtEnd(p->b, here);
    LLVMSetCurrentDebugLocation2(p->b, line);
    return frag;
}

static LLVMValueRef frag_place(Ptx *p, LLVMValueRef frag, const IrType *t, LLVMValueRef *indices, unsigned lane) {
    LLVMValueRef at[9] = {ptx_index(p, 0)};
    for (unsigned i = 0; i < t->rank; i++) at[1 + i] = indices[i];
    if (lane) at[t->rank] = LLVMBuildAdd(p->b, at[t->rank], ptx_index(p, lane), "");
    return LLVMBuildInBoundsGEP2(p->b, ptx_frag_type(p, t), frag, at, t->rank + 1, "");
}

/* The address of element `at`, counted in row-major order. */
LLVMValueRef ptx_frag_element(Ptx *p, LLVMValueRef frag, const IrType *t, unsigned at) {
    LLVMValueRef indices[8];
    for (unsigned i = t->rank; i-- > 0; at /= (unsigned)ir_type_extent(t, i))
        indices[i] = ptx_index(p, at % (unsigned)ir_type_extent(t, i));
    return frag_place(p, frag, t, indices, 0);
}

void ptx_frag_set(Ptx *p, LLVMValueRef frag, const IrType *t, LLVMValueRef *indices, const IrType *value_type, LLVMValueRef value) {
    for (unsigned l = 0; l < value_type->width; l++) {
        LLVMValueRef x = value_type->width > 1 ? LLVMBuildExtractElement(p->b, value, ptx_int(p, DTYPE_I32, l), "") : value;
        LLVMBuildStore(p->b, x, frag_place(p, frag, t, indices, l));
    }
}

void ptx_frag_get(Ptx *p, const IrOp *op) {
    const IrType *t = op->operands[0]->type, *rt = op->results[0].type;
    if (op->operand_count != t->rank + 1 || t->rank > 8) {
        ptx_fail(p, op, "an element of a fragment without all of its indices");
        return;
    }
    LLVMValueRef indices[8], frag = ptx_use(p, op->operands[0]);
    for (unsigned i = 0; i < t->rank; i++) indices[i] = ptx_use(p, op->operands[i + 1]);
    LLVMTypeRef e = ptx_type(p, t->dtype);
    LLVMValueRef v = rt->width > 1 ? LLVMGetPoison(ptx_scalar_type(p, rt)) : NULL;
    for (unsigned l = 0; l < rt->width; l++) {
        LLVMValueRef x = LLVMBuildLoad2(p->b, e, frag_place(p, frag, t, indices, l), "");
        v = rt->width > 1 ? LLVMBuildInsertElement(p->b, v, x, ptx_int(p, DTYPE_I32, l), "") : x;
    }
    ptx_bind(p, &op->results[0], v);
}
