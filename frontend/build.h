/* The only place where the syntax tree meets the IR. */
#ifndef FRONTEND_BUILD_H
#define FRONTEND_BUILD_H

#include "frontend.h"
#include "ir.h"

/* Lowers a checked file (frontend_check reported no error): the operator to a function at graph
 * level, the sketch to one at tile level (state open), the cases. The module lives in `unit`. Null
 * with errors for what is not lowered yet. */
IrModule *frontend_build(Arena *unit, SourceMap *sources, const File *file, DiagList *diags);

#endif
