/* A sketch made of `use`: it is designed from the sketches of the library, or in the style, that it names (docs/language.md, "use"). */
#include "api_internal.h"

#include "design.h"
#include "frontend.h"
#include "library.h"

#include <string.h>

/* ---- What is used ---- */

static DesignUse use_of(Arena *arena, const Use *u) {
    DesignParam *params = ARENA_ARRAY(arena, DesignParam, u->params.count + 1);
    for (size_t i = 0; i < u->params.count; i++) params[i] = (DesignParam){u->params.data[i].name, u->values[i]};
    return (DesignUse){u->name, u->params.count, params};
}

typedef struct {
    sketchc_unit *unit;
    const sketchc_options *options;
} Asked;

static bool target_feature(const void *context, const char *feature) {
    const Asked *a = context;
    Compile c;
    unsigned bit = target_feature_named(feature);
    return bit && api_target(a->unit, a->options, NULL, &c) && target_has(c.target, bit);
}

void api_design_options(sketchc_unit *unit, const sketchc_options *options, DesignOptions *own) {
    const Block *used = unit->file->used;
    Asked *asked = ARENA_NEW(unit->arena, Asked);
    *asked = (Asked){unit, options};
    own->has = target_feature;
    own->target = asked;
    own->library = api_own_library(unit, options, &own->library_count);
    if (!used) return;
    DesignUse *uses = ARENA_ARRAY(unit->arena, DesignUse, used->use_count);
    for (size_t i = 0; i < used->use_count; i++) uses[i] = use_of(unit->arena, &used->uses[i]);
    own->uses = uses;
    own->use_count = used->use_count;
    own->name = used->name[0] ? used->name : NULL;
}

/* ---- Names ---- */

static bool is_in_library(const char *name, const LibraryFile *own, size_t own_count) {
    for (size_t i = 0; i < own_count; i++)
        if (strcmp(own[i].name, name) == 0) return true;
    for (size_t i = 0; i < library_count(); i++)
        if (strcmp(library_file(i).name, name) == 0) return true;
    return false;
}

static void report_unknown(sketchc_unit *unit, const Use *u, const LibraryFile *own, size_t own_count) {
    size_t count = 0;
    const char **names = ARENA_ARRAY(unit->arena, const char *, own_count + library_count() + design_style_count());
    for (size_t i = 0; i < own_count; i++) names[count++] = own[i].name;
    for (size_t i = 0; i < library_count(); i++) names[count++] = library_file(i).name;
    for (size_t i = 0; i < design_style_count(); i++) names[count++] = design_style(i)->name;
    const char *close = closest_name(u->name, names, count);
    Diag *d = diag_report(&unit->diags, DIAG_unknown_use, u->span, u->name);
    if (close) diag_note(&unit->diags, d, SPAN_NONE, "did you mean `%s`?", close);
    if (close) diag_fix(&unit->diags, d, u->span, close, "use this one");
    if (!close) diag_note(&unit->diags, d, SPAN_NONE, "`sketchc library list` lists the sketches");
}

bool api_use_style(sketchc_unit *unit, const sketchc_options *options, size_t *style) {
    size_t own_count;
    const Block *used = unit->file->used;
    const Use *first = &used->uses[0];
    for (*style = 0; *style < design_style_count(); ++*style)
        if (used->use_count == 1 && strcmp(design_style(*style)->name, first->name) == 0) return true;
    for (*style = 0; strcmp(design_style(*style)->name, "library") != 0;) ++*style;
    const LibraryFile *own = api_own_library(unit, options, &own_count);
    for (size_t i = 0; i < used->use_count; i++)
        if (!is_in_library(used->uses[i].name, own, own_count)) {
            report_unknown(unit, &used->uses[i], own, own_count);
            return false;
        }
    return true;
}
