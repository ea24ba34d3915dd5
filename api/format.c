/* The one style: a source put into it, and its grammar. */
#include "api_internal.h"

#include "frontend.h"

typedef struct {
    sketchc_unit *unit;
    char **text;
    size_t *size;
} Format;

static void format_call(void *call) {
    Format *f = call;
    sketchc_unit *unit = f->unit;
    uint32_t id = source_add(unit->sources, unit->path, unit->text, unit->size);
    Str out;
    str_init(&out);
    if (frontend_format(unit->arena, unit->sources, id, &unit->diags, &out)) {
        *f->text = api_string(&out);
        *f->size = out.len;
    }
    str_release(&out);
}

sketchc_status sketchc_format(sketchc_unit *unit, char **text, size_t *size) {
    *text = NULL;
    *size = 0;
    if (!api_call(unit, format_call, &(Format){unit, text, size})) return SKETCHC_OUT_OF_MEMORY;
    return *text ? SKETCHC_OK : unit->diags.error_count ? SKETCHC_SOURCE_ERROR : SKETCHC_BUG;
}

const char *sketchc_grammar(const char *form) {
    return frontend_grammar(form);
}
