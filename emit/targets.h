/* The targets and the forms of code, from targets.def. */
#ifndef EMIT_TARGETS_H
#define EMIT_TARGETS_H

#include "artifact.h"
#include "emit.h"

typedef enum {
#define EMIT_TARGET(id, ...) EMIT_##id,
#include "targets.def"
#undef EMIT_TARGET
    EMIT_TARGET_COUNT
} EmitTargetId;

typedef struct {
    const char *name;
    bool cpu;
    const char *arch; /* the machine when none is given */
    const char *form; /* its code */
    ArtifactBlobKind blob;
} EmitTarget;
const EmitTarget *emit_target(EmitTargetId id);
/* EMIT_TARGET_COUNT: there is none of that name. */
EmitTargetId emit_target_named(const char *name);
/* "nvptx, cuda and openmp" */
const char *emit_target_list(Arena *arena);

typedef struct {
    const char *name;
    EmitFunction *emit;
    const char *comment; /* how a line of comment begins */
    unsigned targets;    /* bit EmitTargetId: that target has the form */
} EmitForm;
/* Null: no form of code is called so. */
const EmitForm *emit_form_named(const char *name);
/* The first target that has the form. */
EmitTargetId emit_target_of_form(const EmitForm *form);

#endif
