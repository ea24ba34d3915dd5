#include "check.h"
#include "cuda/nvrtc.h"

#include <sys/resource.h>

void check_limit_time(unsigned seconds) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    rlim_t end = (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + seconds;
    struct rlimit limit = {end, RLIM_INFINITY};
    setrlimit(RLIMIT_CPU, &limit);
}

void check_lift_limit(void) {
    struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_CPU, &none);
}

/* Does CUDA's own compiler take it? What this machine lacks is no answer. */
static bool assemble(const Str *bytes, const CheckOptions *options, Outcome *outcome) {
    Arena *arena = arena_create();
    Str cubin;
    const char *error = NULL;
    const Artifact *a = artifact_read(arena, bytes->data, bytes->len, &error);
    RtError e = rt_error(RT_BAD_ARTIFACT, "%s", error ? error : "");
    str_init(&cubin);
    if (a && a->blobs[0].kind == ARTIFACT_CUDA_C)
        e = nvrtc_compile((const char *)a->blobs[0].data, options->arch, 0, &cubin);
    else if (a)
        e = rt_cubin(a, "", &cubin);
    bool ok = !rt_failed(&e) || e.status == RT_MISSING;
    if (!ok) outcome_set(outcome, OUTCOME_BUG, "%s: %.200s", rt_status_name(e.status), e.text);
    str_release(&cubin);
    arena_destroy(arena);
    return ok;
}

static bool write_form(const RandomProgram *p, const CheckOptions *options, const char *target, const char *form, Outcome *outcome) {
    CheckOptions one = *options;
    char name[40], path[700];
    Str bytes;
    one.target = target;
    str_init(&bytes);
    snprintf(name, sizeof name, "r%llu", (unsigned long long)p->seed);
    snprintf(path, sizeof path, "%s/%s.%s.ska", options->folder, name, form);
    bool ok = check_emit(p, name, &one, &bytes, outcome);
    if (ok && options->assemble) ok = assemble(&bytes, options, outcome);
    if (ok && !file_write_atomic(path, bytes.data, bytes.len, 0644)) {
        outcome_set(outcome, OUTCOME_BUG, "%s cannot be written", path);
        ok = false;
    }
    str_release(&bytes);
    return ok;
}

void check_artifacts(const RandomProgram *programs, size_t count, const CheckOptions *options, Outcome *outcomes) {
    for (size_t i = 0; i < count; i++) {
        check_limit_time(12);
        if (write_form(&programs[i], options, "cuda", "cu", &outcomes[i]) &&
            write_form(&programs[i], options, "nvptx", "ptx", &outcomes[i]))
            outcome_set(&outcomes[i], OUTCOME_OK, "%s", "");
    }
    check_lift_limit();
}
