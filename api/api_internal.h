/* Shared by the files that implement sketchc.h. */
#ifndef API_API_INTERNAL_H
#define API_API_INTERNAL_H

#include "artifact.h"
#include "ast.h"
#include "diag.h"
#include "ir.h"
#include "passes.h"
#include "sketchc.h"
#include "target.h"

struct sketchc_unit {
    Arena *source_arena; /* lives as long as the unit */
    const char *path, *text;
    size_t size;
    Arena *arena; /* of the last call; null before the first */
    SourceMap *sources;
    DiagList diags;
    File *file;
    const char *designed; /* stands for the text where it has no sketch; null: not made */
    size_t designed_size;
    Str dump, times;
    PassReport report; /* of the last lowering; holds its reproducer */
};

struct sketchc_artifact {
    Arena *arena;
    Artifact *artifact;
};

enum { EMIT_NVPTX, EMIT_CUDA, EMIT_OPENMP };

/* A call's view of the options, with defaults filled in. */
typedef struct {
    sketchc_options given;
    const Target *target;
    int emitter;
} Compile;

/* Parses and checks into the unit's fresh arena. */
bool api_check(sketchc_unit *unit, const sketchc_options *options);
/* Makes unit->designed for an operator that has no sketch; false when no style fits. */
bool api_design_missing(sketchc_unit *unit, const sketchc_options *options, IrModule *module);
/* The module as the front end built it; null with errors. */
IrModule *api_build(sketchc_unit *unit);
/* Lowers a built module to kernel level. */
bool api_lower(sketchc_unit *unit, const Compile *c, IrModule *module);
/* Target and emitter for a form of output, which may be null. */
bool api_target(sketchc_unit *unit, const sketchc_options *options, const char *form, Compile *c);
/* The constexprs of a checked sketch (or null) with the values that were taken; how many. */
size_t api_constexprs(Arena *arena, const Block *sketch, const ArtifactConstexpr **list);
/* `implements op(X=A)`: where the operator's names are others. Symbols follow from the shapes. */
size_t api_renames(Arena *arena, const Block *sketch, const ArtifactRename **list);
/* One comment, in lines of at most 100 columns: what the code was made from. */
void api_head_comment(sketchc_unit *unit, const Target *target, const char *leader, Str *out);
Artifact *api_artifact(sketchc_unit *unit, const Compile *c, Arena *arena);
sketchc_status api_status(const sketchc_unit *unit);
/* Starts a call: drops what the last one made. */
bool api_begin(sketchc_unit *unit);
char *api_string(const Str *s); /* malloc'ed copy */

#endif
