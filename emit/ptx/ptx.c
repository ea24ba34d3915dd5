/* PTX by LLVM's NVPTX back end: target machine, pass pipeline, and LLVM's ways to fail.
 *
 * LLVM ends the process on what it cannot select. Its fatal-error handler is a variable of the
 * whole process, installed once; while a thread generates code the handler jumps back to it, and
 * the LLVM context it worked in is given up (leaked): nothing in it can be trusted any more. */
#include "ptx_internal.h"

#include "memory.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

static pthread_once_t ptx_once = PTHREAD_ONCE_INIT;
static _Thread_local jmp_buf *ptx_escape;
static _Thread_local char ptx_reason[240];

static void note_reason(const char *reason) {
    snprintf(ptx_reason, sizeof ptx_reason, "%s", reason);
    for (char *c = ptx_reason; *c; c++)
        if (*c == '\n') *c = ' ';
}

static void on_fatal(const char *reason) {
    if (!ptx_escape) return; /* not ours: LLVM does what it would have done */
    note_reason(reason);
    jmp_buf *target = ptx_escape;
    ptx_escape = NULL;
    longjmp(*target, 1);
}

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *context) {
    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError) return;
    char *text = LLVMGetDiagInfoDescription(info);
    note_reason(text);
    LLVMDisposeMessage(text);
    *(bool *)context = true;
}

static void initialise(void) {
    static const char *const options[] = {
        "sketchc",
        /* The guard against reuse of what may be poison: nothing may, after ptx_drop_promises. */
        "-enable-poison-reuse-guard=false",
        /* Three searches without a find in our code, which has its loads and accumulators where
         * they belong: GVN's for loads to reuse, over each pair of accesses (a quarter of an
         * attention's time); LICM's for memory to keep in a register during a loop (half of a
         * triangular gemm's), over more accesses than this; loop strength reduction's over the
         * product of the uses' formulas (a third of an int8 gemm's), of more than this. */
        "-enable-gvn-memdep=false",
        "-licm-mssa-max-acc-promotion=40",
        "-lsr-complexity-limit=1000",
    };
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    LLVMResetFatalErrorHandler();
    LLVMInstallFatalErrorHandler(on_fatal);
    LLVMParseCommandLineOptions(sizeof options / sizeof *options, options, NULL);
}

typedef struct {
    Ptx ptx;
    LLVMTargetMachineRef machine;
    bool want_llvm, llvm_error;
    char *text; /* of LLVM's: LLVMDisposeMessage */
    LLVMMemoryBufferRef code;
} Job;

/* The newest language that an instruction of the module asks for; 0: the architecture's first. */
static void ask_version(void *context, IrOp *op) {
    const AtomInfo *atom = atom_of(op);
    unsigned *version = context;
    enum { OF_SENDS = 81 };
    if (atom && atom->version > *version) *version = atom->version;
    if (op->opcode == IR_CLUSTER_SEND && *version < OF_SENDS) *version = OF_SENDS;
}

static const char *ptx_features(Job *j, const char *arch) {
    enum { FIRST_OF_SM_100 = 86 };
    unsigned version = 0, first = strtoul(arch + strlen("sm_"), NULL, 10) >= 100 ? FIRST_OF_SM_100 : 0;
    for (size_t i = 0; i < j->ptx.plan.func_count; i++) ir_walk(j->ptx.plan.funcs[i]->body, ask_version, &version);
    return version > first ? arena_printf(j->ptx.arena, "+ptx%u", version) : "";
}

static bool make_machine(Job *j) {
    static const char triple[] = "nvptx64-nvidia-cuda";
    const char *arch = j->ptx.options->arch ? j->ptx.options->arch : "sm_80";
    LLVMTargetRef target;
    char *error = NULL;
    if (strncmp(arch, "sm_", 3) != 0) {
        note_reason("the architecture is not one of NVIDIA's (sm_...)");
        return false;
    }
    if (LLVMGetTargetFromTriple(triple, &target, &error)) {
        note_reason(error);
        LLVMDisposeMessage(error);
        return false;
    }
    j->machine = LLVMCreateTargetMachine(target, triple, arch, ptx_features(j, arch), LLVMCodeGenLevelAggressive, LLVMRelocDefault,
                                         LLVMCodeModelDefault);
    LLVMSetTarget(j->ptx.llvm, triple);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(j->machine);
    LLVMSetModuleDataLayout(j->ptx.llvm, layout);
    LLVMDisposeTargetData(layout);
    return true;
}

/* Tests: an instruction of another machine, which NVPTX cannot select. */
static void plant_fault(Ptx *p) {
    LLVMTypeRef none = LLVMVoidTypeInContext(p->context), type = LLVMFunctionType(none, NULL, 0, false);
    LLVMValueRef f = LLVMAddFunction(p->llvm, "planted", type);
    LLVMPositionBuilderAtEnd(p->b, LLVMAppendBasicBlockInContext(p->context, f, ""));
    ptx_intrinsic(p, "llvm.x86.sse2.pause", 0, NULL, 0, NULL);
    LLVMBuildRetVoid(p->b);
}

static bool lower(Job *j) {
    Ptx *p = &j->ptx;
    ptx_lines_begin(p);
    for (size_t i = 0; i < p->plan.func_count; i++)
        if (!ptx_function(p, p->plan.funcs[i])) return false;
    ptx_lines_end(p);
    if (!p->plan.func_count) ptx_fail(p, NULL, "a module without kernel functions");
    if (p->options->fault && strcmp(p->options->fault, "llvm-fatal") == 0) plant_fault(p);
    return !p->failed;
}

static bool optimise(Job *j) {
    char *error = NULL;
    if (LLVMVerifyModule(j->ptx.llvm, LLVMReturnStatusAction, &error)) note_reason(error);
    bool valid = !error || !*error;
    LLVMDisposeMessage(error);
    if (!valid) return false;
    LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
    LLVMPassBuilderOptionsSetLoopVectorization(o, false);
    LLVMPassBuilderOptionsSetSLPVectorization(o, false);
    LLVMPassBuilderOptionsSetLoopInterleaving(o, false);
    LLVMErrorRef failure = LLVMRunPasses(j->ptx.llvm, "default<O3>", j->machine, o);
    LLVMDisposePassBuilderOptions(o);
    if (!failure) {
        ptx_drop_promises(j->ptx.llvm, j->ptx.b);
        return true;
    }
    char *text = LLVMGetErrorMessage(failure);
    note_reason(text);
    LLVMDisposeErrorMessage(text);
    return false;
}

static bool generate(Job *j, Str *out) {
    if (j->want_llvm) {
        j->text = LLVMPrintModuleToString(j->ptx.llvm);
        str_append(out, j->text);
        return true;
    }
    char *error = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(j->machine, j->ptx.llvm, LLVMAssemblyFile, &error, &j->code)) {
        note_reason(error);
        LLVMDisposeMessage(error);
        return false;
    }
    bool ok = !j->llvm_error;
    if (ok) str_append_n(out, LLVMGetBufferStart(j->code), LLVMGetBufferSize(j->code));
    return ok;
}

static void dispose(Job *j) {
    if (j->text) LLVMDisposeMessage(j->text);
    if (j->code) LLVMDisposeMemoryBuffer(j->code);
    ptx_lines_end(&j->ptx);
    LLVMDisposeBuilder(j->ptx.b);
    LLVMDisposeModule(j->ptx.llvm);
    if (j->machine) LLVMDisposeTargetMachine(j->machine);
    LLVMContextDispose(j->ptx.context);
}

static void drop(void *job) {
    dispose(job);
    ptx_escape = NULL;
}

/* False with ptx_reason set (or a diagnostic reported) when it failed; after a jump from LLVM's
 * handler nothing of the job is disposed of. */
static bool run_guarded(Job *j, Str *out) {
    jmp_buf here;
    MemoryUndo undo; /* our own memory may run out between calls of LLVM, never within one */
    memory_push(&undo, drop, j);
    if (setjmp(here)) {
        memory_pop(&undo);
        return false;
    }
    ptx_escape = &here;
    LLVMContextSetDiagnosticHandler(j->ptx.context, on_diagnostic, &j->llvm_error);
    j->ptx.llvm = LLVMModuleCreateWithNameInContext("sketch", j->ptx.context);
    j->ptx.b = LLVMCreateBuilderInContext(j->ptx.context);
    bool ok = make_machine(j) && lower(j) && optimise(j) && generate(j, out);
    memory_pop(&undo);
    drop(j);
    return ok;
}

void ptx_fail(Ptx *p, const IrOp *op, const char *what) {
    if (!p->failed)
        diag_report(p->diags, DIAG_emit_unsupported, op ? op->span : SPAN_NONE, "nvptx", what,
                    op ? ir_op_info(op->opcode)->name : "module");
    p->failed = true;
}

static bool emit(const IrModule *m, const EmitOptions *options, Str *out, DiagList *diags, bool want_llvm) {
    pthread_once(&ptx_once, initialise);
    Arena *scratch = arena_create();
    Str text;
    str_init(&text);
    ptx_reason[0] = 0;
    Job *job = ARENA_NEW(scratch, Job);
    job->want_llvm = want_llvm;
    job->ptx = (Ptx){.arena = scratch, .module = m, .plan = ir_plan(scratch, m, IR_LEVEL_KERNEL), .options = options, .diags = diags};
    job->ptx.context = LLVMContextCreate();
    bool ok = run_guarded(job, &text);
    if (ok)
        str_append_n(out, text.data, text.len);
    else if (!job->ptx.failed)
        diag_report(diags, DIAG_backend_failed, SPAN_NONE, ptx_reason[0] ? ptx_reason : "for no stated reason");
    str_release(&text);
    arena_destroy(scratch);
    return ok;
}

bool emit_ptx(const IrModule *m, const EmitOptions *options, Str *out, DiagList *diags) {
    return emit(m, options, out, diags, false);
}

bool emit_llvm(const IrModule *m, const EmitOptions *options, Str *out, DiagList *diags) {
    return emit(m, options, out, diags, true);
}
