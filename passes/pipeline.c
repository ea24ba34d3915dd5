/* The pipelines, as lists to read, and the names of passes. */
#include "passes.h"

#include <string.h>

static const PassInfo infos[PASS_COUNT] = {
#define PASS(id, name, function, needs, keeps, breaks, summary)                                    \
    {name, function, needs, keeps, breaks, summary},
#include "passes.def"
#undef PASS
};

static const PassId cuda_pipeline[] = {
    PASS_LIFT_BRANCHES, PASS_REPORT_HINTS,
    PASS_SIMPLIFY,      PASS_OUTLINE_KERNELS, PASS_EXPAND_COUNTS,  PASS_GATHER_MOVES, PASS_STRIP_MINE,
    PASS_FOLD_ROWS,     PASS_GRID_ROWS,     PASS_SPREAD_FOLDS, PASS_REPEAT_FINISH, PASS_SPREAD_SCANS,    PASS_SPLIT_GEMMS,     PASS_SHORT_TILES,     PASS_SPLIT_PASSES,  PASS_SIMPLIFY,        PASS_GROUP_ROWS, PASS_PART_WALKS,     PASS_TURN_BACK,      PASS_GRID,           PASS_SIMPLIFY,
    PASS_TAKE_TURNS,    PASS_NARROW_RESULTS, PASS_SHARE_DIVISORS, PASS_SIMPLIFY,        PASS_MASK_SCORES,   PASS_PREPARE_GEMMS, PASS_ALIGN_VERSIONS,  PASS_STAGE_BUFFERS, PASS_ASSIGN_LAYOUTS, PASS_SUM_BEHIND, PASS_EXPAND,
    PASS_SIMPLIFY,      PASS_MEET_STEPS,      PASS_LOAD_AHEAD,      PASS_WINDOW_LOADS,    PASS_CHUNKS_AHEAD,    PASS_FUSE_MAPS,      PASS_EXPAND_MATH,     PASS_EXPAND_TYPES,  PASS_SIMPLIFY,
    PASS_DEPENDENT_STEPS, PASS_LONE_STORES, PASS_COALESCE, PASS_CHECK_LIMITS,
};

static const PassId cpu_pipeline[] = {
    PASS_LIFT_BRANCHES, PASS_REPORT_HINTS,
    PASS_SIMPLIFY,     PASS_OUTLINE_KERNELS, PASS_EXPAND_COUNTS, PASS_GATHER_MOVES, PASS_STRIP_MINE,
    PASS_SPLIT_PASSES, PASS_SIMPLIFY,        PASS_GRID,          PASS_NARROW_RESULTS, PASS_SHARE_DIVISORS, PASS_SIMPLIFY,
    PASS_PREPARE_GEMMS, PASS_EXPAND,         PASS_SIMPLIFY,      PASS_FUSE_MAPS,     PASS_EXPAND_MATH,    PASS_EXPAND_TYPES,
    PASS_SIMPLIFY,     PASS_COALESCE, PASS_CHECK_LIMITS,
};

const PassInfo *pass_info(PassId id) {
    return &infos[id];
}

bool pass_find(const char *name, PassId *id) {
    for (unsigned i = 0; i < PASS_COUNT; i++)
        if (strcmp(infos[i].name, name) == 0) {
            *id = (PassId)i;
            return true;
        }
    return false;
}

const PassId *pipeline_for(TargetKind kind, size_t *count) {
    if (kind == TARGET_CUDA) {
        *count = COUNT_OF(cuda_pipeline);
        return cuda_pipeline;
    }
    *count = COUNT_OF(cpu_pipeline);
    return cpu_pipeline;
}

static void report_unknown(DiagList *diags, const char *name) {
    const char *names[PASS_COUNT];
    for (unsigned i = 0; i < PASS_COUNT; i++) names[i] = infos[i].name;
    const char *close = closest_name(name, names, PASS_COUNT);
    Diag *d = diag_report(diags, DIAG_unknown_pass, SPAN_NONE, name);
    if (close) diag_note(diags, d, SPAN_NONE, "did you mean \"%s\"?", close);
}

bool pipeline_parse(Arena *scratch, DiagList *diags, const char *text, const PassId **passes,
                    size_t *count) {
    VEC(PassId) list = {0};
    bool ok = true;
    while (*text) {
        size_t length = strcspn(text, ",");
        char *name = arena_strndup(scratch, text, length);
        PassId id;
        if (!pass_find(name, &id)) {
            report_unknown(diags, name);
            ok = false;
        } else {
            VEC_PUSH(scratch, &list, id);
        }
        text += length;
        text += *text == ',';
    }
    *passes = list.data;
    *count = list.len;
    return ok;
}
