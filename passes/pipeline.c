/* The pipelines and the names of passes, from passes.def. */
#include "passes.h"

#include <string.h>

enum {
    OPEN = PASS_STATE_OPEN,
    STATIC = PASS_STATE_STATIC,
    MAPPED = PASS_STATE_MAPPED,
    KERNEL = PASS_STATE_KERNEL,
    ANY = PASS_STATE_ANY,
    AS_IT_WAS = 0 /* the pass leaves the state that it found */
};

#define AGAIN(id, targets)
static const PassInfo infos[PASS_COUNT] = {
#define PASS(id, name, function, targets, needs, leaves, keeps, breaks, summary) {name, function, needs, leaves, keeps, breaks, summary},
#include "passes.def"
#undef PASS
};
#undef AGAIN

/* Which pipelines have a row; a list of one kind of target takes the rows that IN_name makes into something. */
#define IN_CUDA(id) PASS_##id,
#define IN_ALL(id) PASS_##id,
#define IN_NONE(id)
#define PASS(id, name, function, targets, ...) IN_##targets(id)
#define AGAIN(id, targets) IN_##targets(id)
static const PassId cuda_pipeline[] = {
#include "passes.def"
};
#undef IN_CUDA
#define IN_CUDA(id)
static const PassId cpu_pipeline[] = {
#include "passes.def"
};
#undef AGAIN
#undef PASS

static const struct {
    const char *old;
    PassId id;
} renamed[] = {
#define RENAMED(old, id) {old, PASS_##id},
#include "renamed.def"
#undef RENAMED
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
    for (size_t i = 0; i < COUNT_OF(renamed); i++)
        if (strcmp(renamed[i].old, name) == 0) {
            *id = renamed[i].id;
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

bool pipeline_parse(Arena *scratch, DiagList *diags, const char *text, const PassId **passes, size_t *count) {
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
