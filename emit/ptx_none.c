/* The PTX target in a build without LLVM: a clear error. */
#include "emit_internal.h"

static bool missing(DiagList *diags) {
    diag_report(diags, DIAG_backend_failed, SPAN_NONE,
                "this build of sketchc has no LLVM (-Dllvm=enabled)");
    return false;
}

bool emit_ptx(const IrModule *m, const EmitOptions *options, Str *out, DiagList *diags) {
    (void)m, (void)options, (void)out;
    return missing(diags);
}

bool emit_llvm(const IrModule *m, const EmitOptions *options, Str *out, DiagList *diags) {
    (void)m, (void)options, (void)out;
    return missing(diags);
}
