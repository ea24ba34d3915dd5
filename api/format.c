/* The one style: a source put into it, and its grammar. */
#include "api_internal.h"

#include "frontend.h"

sketchc_status sketchc_format(sketchc_unit *unit, char **text, size_t *size) {
    *text = NULL;
    *size = 0;
    if (!api_begin(unit)) return SKETCHC_BUG;
    uint32_t id = source_add(unit->sources, unit->path, unit->text, unit->size);
    Str out;
    str_init(&out);
    if (frontend_format(unit->arena, unit->sources, id, &unit->diags, &out)) {
        *text = api_string(&out);
        *size = out.len;
    }
    str_release(&out);
    return *text ? SKETCHC_OK : unit->diags.error_count ? SKETCHC_SOURCE_ERROR : SKETCHC_BUG;
}

const char *sketchc_grammar(const char *form) {
    return frontend_grammar(form);
}
