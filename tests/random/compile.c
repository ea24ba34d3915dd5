#include "check.h"
#include "sketchc.h"

#include <stdlib.h>
#include <string.h>

const char *outcome_name(OutcomeKind kind) {
    static const char *const names[OUTCOME_COUNT] = {"not run", "ok", "refused", "undecided", "invalid", "a bug", "wrong"};
    return names[kind];
}

void outcome_set(Outcome *o, OutcomeKind kind, const char *format, ...) {
    va_list args;
    o->kind = kind;
    va_start(args, format);
    vsnprintf(o->what, sizeof o->what, format, args);
    va_end(args);
    for (char *c = o->what; *c; c++)
        if (*c == '\n') *c = ' ';
}

/* The first error's line of rendered diagnostics, from its code on. */
static void first_error(const char *text, char *out, size_t size) {
    const char *error = strstr(text, "error["), *bug = strstr(text, "[B0");
    const char *at = error ? error + 6 : bug ? bug + 1 : text;
    size_t length = strcspn(at, "\n");
    snprintf(out, size, "%.*s", (int)(length < size ? length : size - 1), at);
}

static bool means_refused(const char *what) {
    static const char *const codes[] = {"E0723", "E0724", "E0726", "E0727", "E0728", "E0730"};
    for (size_t i = 0; i < COUNT_OF(codes); i++)
        if (strncmp(what, codes[i], 5) == 0) return true;
    return false;
}

void outcome_of_diagnostics(const char *text, Outcome *outcome) {
    char line[200];
    first_error(text, line, sizeof line);
    if (strncmp(line, "B0", 2) == 0)
        outcome_set(outcome, OUTCOME_BUG, "%s", line);
    else
        outcome_set(outcome, means_refused(line) ? OUTCOME_REFUSED : OUTCOME_INVALID, "%s", line);
}

bool check_emit(const RandomProgram *p, const char *name, const CheckOptions *options, Str *bytes, Outcome *outcome) {
    Str text;
    char *data = NULL;
    size_t size = 0;
    str_init(&text);
    program_print(p, name, &options->cases, &text);
    sketchc_unit *unit = sketchc_unit_create("random.sketch", text.data, text.len);
    sketchc_options compile = {.size = sizeof compile, .target = options->target, .arch = options->arch};
    sketchc_status status = sketchc_emit(unit, &compile, "artifact", &data, &size);
    if (status == SKETCHC_OK)
        str_append_n(bytes, data, size);
    else {
        char *said = sketchc_diagnostics(unit, "text");
        outcome_of_diagnostics(said, outcome);
        sketchc_free(said);
    }
    sketchc_free(data);
    sketchc_unit_destroy(unit);
    str_release(&text);
    return status == SKETCHC_OK;
}

Artifact *check_compile(const RandomProgram *p, const char *name, const CheckOptions *options, Arena *arena, Outcome *outcome) {
    Str bytes;
    Artifact *artifact = NULL;
    const char *error = NULL;
    str_init(&bytes);
    if (check_emit(p, name, options, &bytes, outcome)) {
        artifact = artifact_read(arena, bytes.data, bytes.len, &error);
        if (!artifact) outcome_set(outcome, OUTCOME_BUG, "artifact: %s", error ? error : "");
    }
    str_release(&bytes);
    return artifact;
}
