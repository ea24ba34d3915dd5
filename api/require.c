/* What a checked sketch requires of sizes, types and the target. */
#include "require.h"

#include "api_internal.h"
#include "library.h"

#include <string.h>

typedef struct {
    sketchc_unit *unit;
    const Compile *compile;
    const IrCase *sizes; /* null: none are known */
} Words;

static const Decl *decl_named(const Block *b, const char *name) {
    for (size_t i = 0; i < b->decl_count; i++)
        if (strcmp(b->decls[i]->name, name) == 0) return b->decls[i];
    return NULL;
}

static bool size_value(const IrCase *sizes, const char *name, int64_t *value) {
    for (size_t i = 0; sizes && i < sizes->symbol_count; i++)
        if (strcmp(sizes->symbols[i], name) == 0) {
            *value = sizes->values[i];
            return true;
        }
    return false;
}

static bool value_of(void *context, const char *name, const char *argument, int64_t *value) {
    const Words *w = context;
    const Decl *d = decl_named(w->unit->file->sketch, argument ? argument : name);
    if (argument && strcmp(name, "has") == 0) {
        unsigned bit = target_feature_named(argument);
        *value = bit && target_has(w->compile->target, bit);
        return true;
    }
    if (argument) *value = d ? d->type.dtype : 0;
    if (argument) return d != NULL;
    if (strcmp(name, "named") == 0) *value = 1;
    if (strcmp(name, "named") == 0) return true;
    if (d && d->kind == DECL_CONSTEXPR && d->constant.kind == CONST_INT) *value = d->constant.i;
    return d && d->kind == DECL_CONSTEXPR ? d->constant.kind == CONST_INT : size_value(w->sizes, name, value);
}

/* What is not known where no case tells sizes is not asked. */
static bool require(Words *w, const Expr *e) {
    sketchc_unit *unit = w->unit;
    const SourceFile *source = source_file(unit->sources, e->span.file);
    const char *text = arena_strndup(unit->arena, source->text + e->span.begin, e->span.end - e->span.begin), *unknown;
    LibraryLine condition = library_line(unit->arena, text);
    if (require_holds(&condition, &(RequireWords){value_of, w}, &unknown) != REQUIRE_FAILS) return true;
    diag_report(&unit->diags, DIAG_unmet_require, e->span, unit->file->sketch->name, text,
                w->sizes ? arena_printf(unit->arena, " in the case %s", w->sizes->name) : "");
    return false;
}

bool api_meets_requires(sketchc_unit *unit, const Compile *c, const IrModule *module) {
    const Block *b = unit->file ? unit->file->sketch : NULL;
    Words w = {unit, c, NULL};
    for (size_t i = 0; b && i < b->require_count; i++) {
        bool held = module->case_count || require(&w, b->requires[i]);
        for (size_t k = 0; held && k < module->case_count; k++) {
            w.sizes = &module->cases[k];
            held = require(&w, b->requires[i]);
        }
        w.sizes = NULL;
    }
    return !unit->diags.error_count;
}
