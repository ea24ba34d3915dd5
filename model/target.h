/* Targets: what the passes and emitters know of a machine. The documents are
 * docspec/targets/NAME.json, built in; --target-file gives another one. */
#ifndef MODEL_TARGET_H
#define MODEL_TARGET_H

#include "diag.h"

typedef enum { TARGET_CUDA, TARGET_CPU } TargetKind;

/* Bits of a target's features. */
enum {
    TARGET_MMA = 1,
    TARGET_CP_ASYNC = 2,
    TARGET_WGMMA = 4,
    TARGET_TMA = 8,
    TARGET_FMA = 16,
    TARGET_CLUSTER = 32,
    TARGET_MMA_F8 = 64,
    TARGET_STMATRIX = 128
};

typedef struct {
    const char *name; /* sm_90a, x86-64-v3 */
    TargetKind kind;
    const char *arch;  /* as the tools spell it: nvcc -arch=, LLVM's processor, gcc -march= */
    unsigned features; /* TARGET_* */
#define TARGET_FIELD(id, group, kinds, minimum, maximum, summary) int64_t id;
#include "target_fields.def"
#undef TARGET_FIELD
} Target;

/* The built-in target of that name, read into `arena`; null with an error that names the closest.
 */
const Target *target_find(Arena *arena, DiagList *diags, const char *name);
/* A target document. Every mistake in it is reported with `path`; null when there was one. */
const Target *target_parse(Arena *arena, DiagList *diags, const char *path, const char *text, size_t size);
size_t target_count(void);
const char *target_name(size_t index);
unsigned target_feature_named(const char *name);     /* TARGET_*; `cp_async` is cp.async; 0: there is none */
bool target_has(const Target *t, unsigned features); /* all of them */

#endif
