/* Functions of the PTX module: their parameters and attributes. */
#include "ptx_internal.h"

#include <llvm-c/DebugInfo.h>
#include <string.h>

/* ---- Functions ---- */

static LLVMTypeRef param_type(Ptx *p, const IrType *t) {
    if (t->kind == IR_TYPE_PTR) return LLVMPointerTypeInContext(p->context, t->space == IR_SPACE_MAP ? 0 : PTX_GLOBAL);
    return ptx_type(p, t->dtype);
}

static void attribute(Ptx *p, LLVMValueRef f, LLVMAttributeIndex at, const char *name) {
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(f, at, LLVMCreateEnumAttribute(p->context, kind, 0));
}

static void text_attribute(Ptx *p, LLVMValueRef f, const char *key, const char *text) {
    LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(p->context, key, (unsigned)strlen(key), text, (unsigned)strlen(text)));
}

static void number_attribute(Ptx *p, LLVMValueRef f, const char *key, int64_t value) {
    text_attribute(p, f, key, arena_printf(p->arena, "%lld", (long long)value));
}

/* A tensor map is passed by value, in memory that the kernel does not change. */
static void map_attributes(Ptx *p, LLVMAttributeIndex at) {
    enum { MAP_BYTES = 128, MAP_ALIGN = 64 };
    LLVMTypeRef bytes = LLVMArrayType2(LLVMInt8TypeInContext(p->context), MAP_BYTES);
    unsigned by_value = LLVMGetEnumAttributeKindForName("byval", 5), align = LLVMGetEnumAttributeKindForName("align", 5);
    LLVMAddAttributeAtIndex(p->function, at, LLVMCreateTypeAttribute(p->context, by_value, bytes));
    LLVMAddAttributeAtIndex(p->function, at, LLVMCreateEnumAttribute(p->context, align, MAP_ALIGN));
    LLVMAddAttributeAtIndex(p->function, at, LLVMCreateStringAttribute(p->context, "nvvm.grid_constant", 18, "", 0));
}

static void bind_params(Ptx *p, const IrFunc *f) {
    for (unsigned i = 0; i < f->body->arg_count; i++) {
        const IrValue *v = f->body->args[i];
        LLVMValueRef x = LLVMGetParam(p->function, i);
        ptx_bind(p, v, x);
        if (i < f->param_count && f->params[i].kind == IR_PARAM_SYMBOL)
            ptx_value(p, v)->range = range_of_symbol(p->arena, f, f->params[i].name);
        if (v->type->kind != IR_TYPE_PTR) continue;
        if (v->type->space == IR_SPACE_MAP) {
            map_attributes(p, i + 1);
            continue;
        }
        if (!param_is_shared(f, i)) attribute(p, p->function, i + 1, "noalias");
        if (param_is_read_only(f, i)) attribute(p, p->function, i + 1, "readonly");
    }
}

bool ptx_function(Ptx *p, const IrFunc *f) {
    p->func = f;
    p->met = NULL;
    p->table = (ValueMap){0};
    unsigned n = f->body->arg_count;
    LLVMTypeRef *types = ARENA_ARRAY(p->arena, LLVMTypeRef, n + 1);
    for (unsigned i = 0; i < n; i++) types[i] = param_type(p, f->body->args[i]->type);
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(p->context), types, n, false);
    const char *name = emit_entry_name(p->arena, &p->plan, f);
    p->function = LLVMAddFunction(p->llvm, name, type);
    ptx_lines_function(p, name);
    LLVMSetFunctionCallConv(p->function, LLVMPTXKernelCallConv);
    number_attribute(p, p->function, "nvvm.maxntid", func_threads(f));
    int64_t min_blocks = ir_func_int(f, IR_FN_MIN_BLOCKS, 0), cluster = ir_func_cluster(f);
    if (min_blocks > 0) number_attribute(p, p->function, "nvvm.minctasm", min_blocks);
    if (cluster > 1) text_attribute(p, p->function, "nvvm.cluster_dim", arena_printf(p->arena, "%lld,1,1", (long long)cluster));
    attribute(p, p->function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, "nounwind");
    bind_params(p, f);
    /* Stack arrays stand in a block of their own, which ends with a jump to the code. */
    p->entry = ptx_new_block(p);
    LLVMBasicBlockRef start = ptx_new_block(p);
    LLVMPositionBuilderAtEnd(p->b, start);
    ptx_block(p, f->body);
    LLVMBuildRetVoid(p->b);
    LLVMPositionBuilderAtEnd(p->b, p->entry);
    LLVMBuildBr(p->b, start);
    return !p->failed;
}
