/* Units: their lifetime, their diagnostics and what a call left behind. */
#include "api_internal.h"

#include "sketchc_config.h"

#include <stdlib.h>
#include <string.h>

const char *sketchc_version(void) {
    return SKETCHC_VERSION;
}
unsigned sketchc_api_version(void) {
    return SKETCHC_API_VERSION;
}
void sketchc_free(void *memory) {
    free(memory);
}

const char *sketchc_llvm_version(void) {
    return SKETCHC_HAVE_LLVM ? SKETCHC_LLVM_VERSION : NULL;
}

char *api_string(const Str *s) {
    char *copy = malloc(s->len + 1);
    if (!copy) return NULL;
    memcpy(copy, s->data, s->len);
    copy[s->len] = 0;
    return copy;
}

/* ---- Units ---- */

sketchc_unit *sketchc_unit_create(const char *path, const char *text, size_t size) {
    sketchc_unit *unit = calloc(1, sizeof *unit);
    if (!unit) return NULL;
    unit->source_arena = arena_create();
    if (!unit->source_arena) {
        free(unit);
        return NULL;
    }
    unit->path = arena_strdup(unit->source_arena, path ? path : "<memory>");
    unit->text = arena_strndup(unit->source_arena, text, size);
    unit->size = size;
    str_init(&unit->dump);
    str_init(&unit->times);
    pass_report_init(&unit->report);
    return unit;
}

void sketchc_unit_destroy(sketchc_unit *unit) {
    if (!unit) return;
    arena_destroy(unit->arena);
    arena_destroy(unit->source_arena);
    str_release(&unit->dump);
    str_release(&unit->times);
    pass_report_release(&unit->report);
    free(unit);
}

static void clear(Str *s) {
    str_release(s);
    str_init(s);
}

bool api_begin(sketchc_unit *unit) {
    arena_destroy(unit->arena);
    unit->arena = arena_create();
    if (!unit->arena) return false;
    unit->sources = source_map_create(unit->arena);
    diag_list_init(&unit->diags, unit->arena, unit->sources);
    unit->file = NULL;
    unit->designed = NULL;
    unit->reasons = NULL;
    clear(&unit->dump);
    clear(&unit->times);
    pass_report_release(&unit->report);
    pass_report_init(&unit->report);
    return true;
}

/* A word of the command line that names nothing is the caller's mistake, not the source's. */
static sketchc_status status_of_diag(DiagId id) {
    switch (id) {
    case DIAG_bad_option:
    case DIAG_unknown_target:
    case DIAG_unknown_pass:
    case DIAG_unknown_define:
    case DIAG_bad_define:
    case DIAG_unknown_sketch:
        return SKETCHC_USAGE_ERROR;
    case DIAG_no_backend:
    case DIAG_no_tool:
        return SKETCHC_MISSING;
    default:
        return SKETCHC_SOURCE_ERROR;
    }
}

sketchc_status api_status(const sketchc_unit *unit) {
    if (!unit->arena || !unit->diags.error_count) return SKETCHC_OK;
    const Diag *first = NULL;
    for (const Diag *d = unit->diags.first; d; d = d->next) {
        if (d->severity == SEVERITY_BUG) return SKETCHC_BUG;
        if (d->severity == SEVERITY_ERROR && !first) first = d;
    }
    return first ? status_of_diag(first->id) : SKETCHC_SOURCE_ERROR;
}

/* ---- Diagnostics ---- */

char *sketchc_diagnostics(const sketchc_unit *unit, const char *format) {
    Str out;
    str_init(&out);
    if (!format) format = "text";
    if (unit->arena) {
        if (strcmp(format, "json") == 0)
            diag_render_json(&unit->diags, &out);
        else if (strcmp(format, "sarif") == 0)
            diag_render_sarif(&unit->diags, SKETCHC_VERSION, &out);
        else if (strncmp(format, "brief", 5) == 0)
            diag_render_brief(&unit->diags, strcmp(format, "brief-color") == 0, &out);
        else
            diag_render_text(&unit->diags, strcmp(format, "color") == 0, &out);
    }
    char *text = api_string(&out);
    str_release(&out);
    return text;
}

unsigned sketchc_error_count(const sketchc_unit *unit) {
    return unit->arena ? unit->diags.error_count : 0;
}
char *sketchc_ir_dump(const sketchc_unit *unit) {
    return api_string(&unit->dump);
}
char *sketchc_time_report(const sketchc_unit *unit) {
    return api_string(&unit->times);
}

char *sketchc_reproducer(const sketchc_unit *unit) {
    bool wanted = api_status(unit) == SKETCHC_BUG && unit->report.reproducer.len;
    return wanted ? api_string(&unit->report.reproducer) : NULL;
}

const char *sketchc_explain(const char *code) {
    DiagId id;
    return diag_find(code, &id) ? diag_explanation(id) : NULL;
}
