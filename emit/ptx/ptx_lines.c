/* Which line of the source PTX comes from: debug locations, of which LLVM keeps the `.loc` directives and
 * no debug information, so that the instructions are those of a build without. */
#include "ptx_internal.h"

#include <llvm-c/DebugInfo.h>
#include <string.h>

/* DebugDirectivesOnly, which the C interface hands through but does not name. */
enum { DIRECTIVES_ONLY = 3 };

void ptx_lines_begin(Ptx *p) {
    if (!p->options->line_directives) return;
    static const char version[] = "Debug Info Version";
    LLVMTypeRef i32 = LLVMInt32TypeInContext(p->context);
    LLVMAddModuleFlag(p->llvm, LLVMModuleFlagBehaviorWarning, version, strlen(version),
                      LLVMValueAsMetadata(LLVMConstInt(i32, LLVMDebugMetadataVersion(), false)));
    p->lines = LLVMCreateDIBuilder(p->llvm);
    p->lines_file = LLVMDIBuilderCreateFile(p->lines, "sketch", 6, "", 0);
    LLVMDIBuilderCreateCompileUnit(p->lines, LLVMDWARFSourceLanguageC, p->lines_file, "", 0, true, "", 0, 0, "", 0,
                                   (LLVMDWARFEmissionKind)DIRECTIVES_ONLY, 0, false, false, "", 0, "", 0);
}

void ptx_lines_function(Ptx *p, const char *name) {
    if (!p->lines) return;
    LLVMMetadataRef type = LLVMDIBuilderCreateSubroutineType(p->lines, p->lines_file, NULL, 0, LLVMDIFlagZero);
    p->lines_scope = LLVMDIBuilderCreateFunction(p->lines, p->lines_file, name, strlen(name), name, strlen(name), p->lines_file, 0, type,
                                                 false, true, 0, LLVMDIFlagZero, true);
    LLVMSetSubprogram(p->function, p->lines_scope);
    LLVMSetCurrentDebugLocation2(p->b, LLVMDIBuilderCreateDebugLocation(p->context, 0, 0, p->lines_scope, NULL));
}

void ptx_lines_at(Ptx *p, Span span) {
    if (!p->lines || !p->module->sources || !span.file) return;
    const SourceFile *file = source_file(p->module->sources, span.file);
    uint32_t line, column;
    if (!file) return;
    source_position(file, span.begin, &line, &column);
    LLVMSetCurrentDebugLocation2(p->b, LLVMDIBuilderCreateDebugLocation(p->context, line, 1, p->lines_scope, NULL));
}

void ptx_lines_end(Ptx *p) {
    if (!p->lines) return;
    LLVMSetCurrentDebugLocation2(p->b, NULL);
    LLVMDIBuilderFinalize(p->lines);
    LLVMDisposeDIBuilder(p->lines);
    p->lines = NULL;
}
