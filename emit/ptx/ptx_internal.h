/* The PTX emitter: kernel IR to LLVM IR, and LLVM to PTX. */
#ifndef EMIT_PTX_PTX_INTERNAL_H
#define EMIT_PTX_PTX_INTERNAL_H

#include "emit_internal.h"

#include <llvm-c/Core.h>

/* Iterations up to which a map is expanded; beyond, it is a loop with a hint to unroll. */
enum { PTX_EXPAND_LIMIT = 512 };
enum { PTX_GLOBAL = 1, PTX_SHARED = 3 }; /* NVPTX address spaces */

typedef struct {
    LLVMValueRef value; /* scalar, vec, pointer; frag: its stack array (gone after SROA) */
    Range range;        /* of an integer scalar */
} PtxValue;

/* The registers of a product's first factor. */
typedef struct {
    const IrOp *product;
    LLVMValueRef words[4];
} PtxWords;

typedef struct {
    Arena *arena;
    const IrModule *module;
    IrPlan plan;
    const IrFunc *func;
    const EmitOptions *options;
    DiagList *diags;
    bool failed;
    LLVMContextRef context;
    LLVMModuleRef llvm;
    LLVMBuilderRef b;
    LLVMValueRef function, smem, met; /* met: ptx_cluster_meet; null: none yet */
    LLVMBasicBlockRef entry;          /* holds the stack arrays */
    ValueMap table;                   /* IrValue -> PtxValue */
    VEC(PtxWords) words;
    LLVMDIBuilderRef lines; /* null: no line directives are wanted */
    LLVMMetadataRef lines_file, lines_scope;
} Ptx;

void ptx_fail(Ptx *p, const IrOp *op, const char *what);

/* ptx_ops.c */
PtxValue *ptx_value(Ptx *p, const IrValue *v);
LLVMValueRef ptx_use(Ptx *p, const IrValue *v);
void ptx_bind(Ptx *p, const IrValue *v, LLVMValueRef value);
Range ptx_range(Ptx *p, const IrValue *v);
LLVMTypeRef ptx_type(Ptx *p, Dtype t);
LLVMTypeRef ptx_scalar_type(Ptx *p, const IrType *t); /* vec<w> included */
LLVMTypeRef ptx_frag_type(Ptx *p, const IrType *t);
LLVMValueRef ptx_int(Ptx *p, Dtype t, int64_t value);
LLVMValueRef ptx_index(Ptx *p, int64_t value);
LLVMValueRef ptx_intrinsic(Ptx *p, const char *name, unsigned type_count, LLVMTypeRef *types, unsigned count, LLVMValueRef *args);
void ptx_pure(Ptx *p, const IrOp *op); /* elementwise ops, constants, vectors */

/* ptx_flags.c: what stays of the optimised IR has no poison; `b` is left somewhere in it. */
void ptx_drop_promises(LLVMModuleRef module, LLVMBuilderRef b);

/* ptx_lines.c: `.loc` directives, where options->line_directives asks for them. */
void ptx_lines_begin(Ptx *p);
void ptx_lines_function(Ptx *p, const char *name);
void ptx_lines_at(Ptx *p, Span span); /* what is built next; a span without a place changes nothing */
void ptx_lines_end(Ptx *p);

/* ptx_memory.c */
void ptx_load(Ptx *p, const IrOp *op);
void ptx_store(Ptx *p, const IrOp *op);
void ptx_atomic(Ptx *p, const IrOp *op); /* ptx_atomic.c */
/* Address of an element; memory holds bool as a byte. */
void ptx_arrive(Ptx *p, const IrOp *op);
void ptx_meet(Ptx *p, const IrOp *op);
void ptx_cluster_begin(Ptx *p, const IrOp *op);
void ptx_cluster_begun(Ptx *p);
void ptx_cluster_send(Ptx *p, const IrOp *op);
void ptx_cluster_meet(Ptx *p, const IrOp *op);
LLVMValueRef ptx_address(Ptx *p, const IrValue *ptr, const IrValue *offset);
void ptx_frag_get(Ptx *p, const IrOp *op);
/* Writes a scalar or vec into a frag at element indices. */
void ptx_frag_set(Ptx *p, LLVMValueRef frag, const IrType *t, LLVMValueRef *indices, const IrType *value_type, LLVMValueRef value);
LLVMValueRef ptx_frag_new(Ptx *p, const IrType *t);
void ptx_shared_pointer(Ptx *p, const IrOp *op);
void ptx_cluster_pointer(Ptx *p, const IrOp *op);
void ptx_cluster_barrier(Ptx *p);
void ptx_warpgroup_barrier(Ptx *p);
void ptx_async(Ptx *p, const IrOp *op);
void ptx_shuffle(Ptx *p, const IrOp *op);
void ptx_atom(Ptx *p, const IrOp *op);
void ptx_instruction(Ptx *p, const IrOp *op); /* of async.def */
void ptx_wgmma(Ptx *p, const IrOp *op);       /* wgmma and its wait */
LLVMValueRef ptx_asm(Ptx *p, LLVMTypeRef result, unsigned count, LLVMValueRef *args, const char *text, const char *constraints,
                     bool effects);

/* A function attribute of a call, by its LLVM name. */
void ptx_call_attribute(Ptx *p, LLVMValueRef call, const char *name);

/* The type of what inline assembly with `count` results of type t gives, and one of them. */
LLVMTypeRef ptx_registers_type(Ptx *p, LLVMTypeRef t, unsigned count);
LLVMValueRef ptx_member(Ptx *p, LLVMValueRef aggregate, unsigned i, unsigned count);

/* Element `at` of a thread's share of a tile, in the order of its layout. */
LLVMValueRef ptx_frag_element(Ptx *p, LLVMValueRef frag, const IrType *t, unsigned at);

/* ptx_hide.c: what LLVM is not to know of the indices that the copies in a region are made of. */
typedef struct {
    const IrValue *value;
    LLVMValueRef outside;
} PtxHiding;
typedef VEC(PtxHiding) PtxHidden;
bool ptx_multiplies(const IrFunc *f);                 /* by instructions for matrices */
bool ptx_multiplies_from_registers(const IrOp *loop); /* arithmetic stands beside its products */
void ptx_hide_indices(Ptx *p, const IrBlock *region, PtxHidden *hidden);
void ptx_show_indices(Ptx *p, const PtxHidden *hidden);

/* ptx_control.c */
void ptx_block(Ptx *p, const IrBlock *block);
bool ptx_function(Ptx *p, const IrFunc *f);

/* A basic block at the end of the function. */
LLVMBasicBlockRef ptx_new_block(Ptx *p);

#endif
