/* The PTX target in a build without LLVM: a clear error. */
#include "emit_internal.h"

static bool missing(DiagList *diags, const char *form) {
    diag_report(diags, DIAG_no_backend, SPAN_NONE, form);
    return false;
}

bool emit_ptx(const IrModule *m, const EmitOptions *options, Str *out, DiagList *diags) {
    (void)m, (void)options, (void)out;
    return missing(diags, "PTX");
}

bool emit_llvm(const IrModule *m, const EmitOptions *options, Str *out, DiagList *diags) {
    (void)m, (void)options, (void)out;
    return missing(diags, "LLVM IR");
}
