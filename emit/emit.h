/* Emitters: kernel-level IR to text. They hold no decisions: what they print is what the passes
 * made. Same module, same options: same bytes. Nothing here exits or prints by itself. */
#ifndef EMIT_EMIT_H
#define EMIT_EMIT_H

#include "diag.h"
#include "ir.h"
#include "plan.h"
#include "support.h"

typedef struct {
    const char *arch;        /* "sm_80", "sm_90a", "x86-64-v3", ...; null: sm_80 for PTX */
    const char *source_path; /* shown in `file:line` comments; null: the path in the source map */
    bool no_lines;           /* leaves the `file:line` comments out */
    bool line_directives;    /* ptx: with `.loc`, which names lines of the source; the instructions stay as they are */
    bool no_launcher;        /* cuda: kernels only */
    const char *fault;       /* tests only: "llvm-fatal" plants a fatal error inside LLVM */
} EmitOptions;

/* Each appends to `out` the text for all kernel-level functions of the module. False, with a
 * diagnostic in `diags`, when something cannot be expressed in the target; `out` then holds what
 * had been there before.
 *
 * emit_cuda    CUDA C: kernels and, per step, a host launcher
 *                  extern "C" cudaError_t STEP_launch(tensors..., symbols..., scalars...,
 *                                                     workspaces..., cudaStream_t stream)
 * emit_openmp  C17 with OpenMP: per version `int ENTRY(tensors..., int64_t symbols..., ...)`, 0
 * when it ran and 1 when a constraint does not hold; per step with several versions (or of another
 * name than its version) also `int STEP(...)`, which chooses by guard
 * emit_ptx     PTX by LLVM's NVPTX back end
 * emit_llvm    its optimised input as LLVM IR text
 * emit_by_tool nothing: a tool makes the form of a target's code */
typedef bool EmitFunction(const IrModule *m, const EmitOptions *options, Str *out, DiagList *diags);
#define EMIT_FORM(name, emit, ...) EmitFunction emit;
#include "targets.def"
#undef EMIT_FORM

/* The symbols under which a function and a step of the plan stand in the code. */
const char *emit_entry_name(Arena *arena, const IrPlan *plan, const IrFunc *f);
const char *emit_step_name(Arena *arena, const IrPlan *plan, const IrStep *step);

#endif
