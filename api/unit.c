/* Units: their lifetime, their diagnostics and what a call left behind. */
#include "api_internal.h"

#include "memory.h"
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

/* Null: out of memory. */
static char *copied(const Str *s) {
    char *copy = malloc(s->len + 1);
    if (copy) memcpy(copy, s->data, s->len + 1);
    return copy;
}

char *api_string(const Str *s) {
    char *copy = copied(s);
    if (!copy) memory_out();
    return copy;
}

/* ---- Units ---- */

typedef struct {
    const char *path, *text;
    size_t size;
    sketchc_unit *unit;
} Create;

static void create(void *call) {
    Create *c = call;
    sketchc_unit *unit = memory_alloc(sizeof *unit);
    unit->source_arena = arena_create();
    unit->path = arena_strdup(unit->source_arena, c->path ? c->path : "<memory>");
    unit->text = arena_strndup(unit->source_arena, c->text, c->size);
    unit->size = c->size;
    str_init(&unit->dump);
    str_init(&unit->times);
    pass_report_init(&unit->report);
    c->unit = unit;
}

sketchc_unit *sketchc_unit_create(const char *path, const char *text, size_t size) {
    Create c = {path, text, size, NULL};
    return memory_guard(create, &c) ? c.unit : NULL;
}

void sketchc_unit_destroy(sketchc_unit *unit) {
    if (!unit) return;
    arena_destroy(unit->arena);
    arena_destroy(unit->source_arena);
    str_release(&unit->dump);
    str_release(&unit->times);
    pass_report_release(&unit->report);
    memory_free(unit);
}

/* What the last call made is gone already. */
static void forget(sketchc_unit *unit) {
    unit->arena = NULL;
    unit->sources = NULL;
    unit->diags = (DiagList){0};
    unit->file = NULL;
    unit->designed = NULL;
    unit->reasons = NULL;
    unit->choice = (DesignChoice){0};
    unit->regions = (DesignRegions){0};
    unit->places = NULL;
    str_init(&unit->dump);
    str_init(&unit->times);
    pass_report_init(&unit->report);
}

typedef struct {
    sketchc_unit *unit;
    void (*work)(void *call);
    void *call;
} Begin;

static void begin(void *context) {
    Begin *b = context;
    b->unit->arena = arena_create();
    b->unit->sources = source_map_create(b->unit->arena);
    diag_list_init(&b->unit->diags, b->unit->arena, b->unit->sources);
    b->work(b->call);
}

static void forget_undone(void *unit) {
    forget(unit);
}

bool api_call(sketchc_unit *unit, void (*work)(void *call), void *call) {
    MemoryUndo outer; /* where memory runs out in a call within another */
    arena_destroy(unit->arena);
    str_release(&unit->dump);
    str_release(&unit->times);
    pass_report_release(&unit->report);
    forget(unit);
    memory_push(&outer, forget_undone, unit);
    bool done = memory_guard(begin, &(Begin){unit, work, call});
    memory_pop(&outer);
    if (!done) forget(unit);
    return done;
}

void api_progress(const sketchc_unit *unit, const sketchc_options *options, const char *what, const char *name) {
    char text[256];
    if (!options->on_progress) return;
    snprintf(text, sizeof text, "%s%s%s%s %s", unit->style ? "design " : "", unit->style ? unit->style : "", unit->style ? ", " : "", what,
             name);
    options->on_progress(options->progress_context, text);
}

void api_tell_pass(void *unit, const char *name) {
    api_progress(unit, ((sketchc_unit *)unit)->told, "pass", name);
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

typedef struct {
    const sketchc_unit *unit;
    const char *format;
    char *text;
} Told;

static void tell_diagnostics(void *call) {
    Told *t = call;
    const sketchc_unit *unit = t->unit;
    Str out;
    str_init(&out);
    if (unit->arena) {
        if (strcmp(t->format, "json") == 0)
            diag_render_json(&unit->diags, &out);
        else if (strcmp(t->format, "sarif") == 0)
            diag_render_sarif(&unit->diags, SKETCHC_VERSION, &out);
        else if (strncmp(t->format, "brief", 5) == 0)
            diag_render_brief(&unit->diags, strcmp(t->format, "brief-color") == 0, &out);
        else
            diag_render_text(&unit->diags, strcmp(t->format, "color") == 0, &out);
    }
    t->text = api_string(&out);
    str_release(&out);
}

char *sketchc_diagnostics(const sketchc_unit *unit, const char *format) {
    Told t = {unit, format ? format : "text", NULL};
    return memory_guard(tell_diagnostics, &t) ? t.text : NULL;
}

unsigned sketchc_error_count(const sketchc_unit *unit) {
    return unit->arena ? unit->diags.error_count : 0;
}
char *sketchc_ir_dump(const sketchc_unit *unit) {
    return copied(&unit->dump);
}
char *sketchc_time_report(const sketchc_unit *unit) {
    return copied(&unit->times);
}

char *sketchc_reproducer(const sketchc_unit *unit) {
    bool wanted = api_status(unit) == SKETCHC_BUG && unit->report.reproducer.len;
    return wanted ? copied(&unit->report.reproducer) : NULL;
}

const char *sketchc_explain(const char *code) {
    DiagId id;
    return diag_find(code, &id) ? diag_explanation(id) : NULL;
}
