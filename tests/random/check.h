/* Random programs against the reference, and what comes of each. */
#ifndef TESTS_RANDOM_CHECK_H
#define TESTS_RANDOM_CHECK_H

#include "artifact.h"
#include "random.h"

typedef enum {
    OUTCOME_NONE, /* not run */
    OUTCOME_OK,
    OUTCOME_REFUSED, /* the compiler says that it does not lower this yet */
    OUTCOME_SKIPPED, /* nothing could be judged: results hang on near ties */
    OUTCOME_INVALID, /* an error for what should be valid */
    OUTCOME_BUG,     /* an internal error, or code that a compiler refuses */
    OUTCOME_WRONG,   /* another result than the reference's, a fault, a hang */
    OUTCOME_COUNT
} OutcomeKind;
const char *outcome_name(OutcomeKind kind);
static inline bool outcome_failed(OutcomeKind kind) {
    return kind >= OUTCOME_INVALID;
}

typedef struct {
    OutcomeKind kind;
    char what[256]; /* the check or diagnostic code first */
} Outcome;
void outcome_set(Outcome *o, OutcomeKind kind, const char *format, ...) PRINTF_LIKE(3, 4);

typedef struct {
    CaseOptions cases;
    const char *target, *arch; /* as sketchc has them */
    const char *optimise;      /* "-O3": what artifacts ask for */
    bool assemble;             /* artifacts: also by CUDA's tools */
    const char *folder;        /* for C files and libraries; private to the process */
} CheckOptions;

/* compile.c: the program's artifact by way of the public interface, in `arena`; null with an
 * outcome. `name` is the sketch's. */
Artifact *check_compile(const RandomProgram *p, const char *name, const CheckOptions *options, Arena *arena, Outcome *outcome);

/* Its bytes as a file has them, appended to `bytes`; false with an outcome. */
bool check_emit(const RandomProgram *p, const char *name, const CheckOptions *options, Str *bytes, Outcome *outcome);

/* differential.c: compiles `count` programs, their C as one library, and verifies each with real and
 * with exact data. */
void check_batch(const RandomProgram *programs, size_t count, const CheckOptions *options, Outcome *outcomes);

/* artifacts.c: writes NAME.ptx.ska and NAME.cu.ska for options->arch into options->folder, for
 * bench/gpu_check.py. The outcome is OK when both were written. */
void check_artifacts(const RandomProgram *programs, size_t count, const CheckOptions *options, Outcome *outcomes);
/* passes_check.c: the interpreter before and after every pass, for options->arch or all of them. */
void check_passes(const RandomProgram *programs, size_t count, const CheckOptions *options, Outcome *outcomes);
/* What rendered diagnostics amount to. */
void outcome_of_diagnostics(const char *text, Outcome *outcome);
/* Gives the compiler some seconds from now on, after which the process is killed, so that a caller
 * sees which program was next; and takes the limit away. */
void check_limit_time(unsigned seconds);
void check_lift_limit(void);

#endif
