/* Passes: what lowers a module level by level, and the runner that owns everything around them.
 *
 * A pass is one file with one exported function and one row in passes.def. It works on the whole
 * module, looping over the functions of its level, and returns false when it reported an error.
 * It never prints, verifies or times by itself: the runner does. */
#ifndef PASSES_PASSES_H
#define PASSES_PASSES_H

#include "diag.h"
#include "ir.h"
#include "target.h"

typedef struct PassContext {
    IrModule *module;
    const Target *target;
    DiagList *diags;
    Arena *scratch;     /* one pass's own; emptied by the runner after each pass */
    bool deterministic; /* --deterministic */
    bool strict_hints;  /* --strict-hints */
    int64_t most_ops;   /* of all kernels together after unrolling, beyond which check_limits refuses; 0: its own limit */
} PassContext;

typedef bool (*PassFn)(PassContext *ctx);

typedef struct {
    const char *name; /* text form: --passes=, --print-ir-after= */
    PassFn run;
    unsigned needs;    /* states that functions below graph level may be in: bits of PassState */
    unsigned leaves;   /* and in which they are behind it; 0: as they were */
    const char *keeps; /* what of a function stays, in words */
    const char *breaks;
    const char *summary;
} PassInfo;

/* The states of functions below graph level (IrState, and kernel level), as bits. */
typedef enum {
    PASS_STATE_OPEN = 1 << IR_STATE_OPEN,
    PASS_STATE_STATIC = 1 << IR_STATE_STATIC,
    PASS_STATE_MAPPED = 1 << IR_STATE_MAPPED,
    PASS_STATE_KERNEL = 1 << (IR_STATE_MAPPED + 1),
    PASS_STATE_ANY = (PASS_STATE_KERNEL << 1) - 1
} PassState;
unsigned pass_state_of(const IrFunc *func); /* 0: graph level */

#define AGAIN(id, targets)
#define PASS(id, name, function, ...) bool function(PassContext *ctx);
#include "passes.def"
#undef PASS

typedef enum {
#define PASS(id, ...) PASS_##id,
#include "passes.def"
#undef PASS
#undef AGAIN
    PASS_COUNT
} PassId;

const PassInfo *pass_info(PassId id);
bool pass_find(const char *name, PassId *id); /* also by a name that it had (renamed.def) */

/* ---- Pipelines (pipeline.c) ---- */

/* From a module fresh from the front end to kernel level, for one kind of target. */
const PassId *pipeline_for(TargetKind kind, size_t *count);
/* Reads "a,b,c" into an array of `scratch`; false with an error that proposes the closest name. */
bool pipeline_parse(Arena *scratch, DiagList *diags, const char *text, const PassId **passes, size_t *count);

/* ---- The runner (run.c) ---- */

typedef struct {
    const char *print_after; /* --print-ir-after=: "all" or names with commas; null: none */
    const char *stop_after;  /* --stop-after=: a pass name; null: run all */
    bool verify_each;        /* after every pass, not only at both ends */
    bool round_trip;         /* parse(print(x)) == x after every pass */
    Str *dump;               /* where --print-ir-after writes; may be null when that is null */
    /* Called once the report's reproducer is made, before the first pass; may be null. The text
     * stays where it is as long as the report. */
    void (*on_reproducer)(void *context, const char *text, size_t size);
    void *context;
    void (*on_pass)(void *context, const char *name); /* as a pass begins; null: nobody asks */
    void *pass_context;
} PassOptions;

/* What the runner knows; filled as it goes, so that a crash handler finds the pass that ran. */
typedef struct {
    double seconds[PASS_COUNT]; /* accumulated wall time */
    unsigned runs[PASS_COUNT];
    double verify_seconds;
    size_t done;         /* passes that ended */
    const char *running; /* name of the pass now running, or null */
    bool stopped;        /* ended at stop_after */
    Str reproducer;      /* text IR before the first pass, headed by the command that repeats */
} PassReport;
void pass_report_init(PassReport *report);
void pass_report_release(PassReport *report);
/* One line a pass: milliseconds, share, name (-ftime-report). */
void pass_report_print(const PassReport *report, Str *out);

/* Runs the passes in order over ctx->module. ctx->scratch is the runner's to set. False when a pass
 * or the verifier reported; then report->reproducer holds what repeats it. */
bool passes_run(PassContext *ctx, const PassId *passes, size_t count, const PassOptions *options, PassReport *report);

#endif
