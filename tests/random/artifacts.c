#include "check.h"

#include <sys/resource.h>

/* Of the compiler, for one program. */
enum { CPU_SECONDS = 8 };

void check_limit_time(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    rlim_t end = (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + CPU_SECONDS;
    struct rlimit limit = {end, RLIM_INFINITY};
    setrlimit(RLIMIT_CPU, &limit);
}

void check_lift_limit(void) {
    struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_CPU, &none);
}

static bool write_form(const RandomProgram *p, const CheckOptions *options, const char *target,
                       const char *form, Outcome *outcome) {
    CheckOptions one = *options;
    char name[40], path[700];
    Str bytes;
    one.target = target;
    str_init(&bytes);
    snprintf(name, sizeof name, "r%llu", (unsigned long long)p->seed);
    snprintf(path, sizeof path, "%s/%s.%s.ska", options->folder, name, form);
    bool ok = check_emit(p, name, &one, &bytes, outcome);
    if (ok && !file_write_atomic(path, bytes.data, bytes.len, 0644)) {
        outcome_set(outcome, OUTCOME_BUG, "%s cannot be written", path);
        ok = false;
    }
    str_release(&bytes);
    return ok;
}

void check_artifacts(const RandomProgram *programs, size_t count, const CheckOptions *options,
                     Outcome *outcomes) {
    for (size_t i = 0; i < count; i++) {
        check_limit_time();
        if (write_form(&programs[i], options, "cuda", "cu", &outcomes[i]) &&
            write_form(&programs[i], options, "nvptx", "ptx", &outcomes[i]))
            outcome_set(&outcomes[i], OUTCOME_OK, "%s", "");
    }
    check_lift_limit();
}
