/* From a source text to the module that the front end builds of it. */
#include "api_internal.h"

#include "build.h"
#include "frontend.h"

bool api_usage(sketchc_unit *unit, const char *text) {
    diag_report(&unit->diags, DIAG_bad_option, SPAN_NONE, text);
    return false;
}

bool api_check(sketchc_unit *unit, const sketchc_options *options) {
    bool own = !unit->designed;
    uint32_t id =
        own ? source_add(unit->sources, unit->path, unit->text, unit->size)
            : source_add(unit->sources, arena_printf(unit->arena, "%s (designed)", unit->path), unit->designed, unit->designed_size);
    unit->file = frontend_parse(unit->arena, unit->sources, id, &unit->diags);
    FrontendDefine *defines = ARENA_ARRAY(unit->arena, FrontendDefine, options->define_count + 1);
    for (size_t i = 0; i < options->define_count; i++) defines[i] = (FrontendDefine){options->defines[i].name, options->defines[i].value};
    FrontendOptions front = {.defines = defines,
                             .define_count = options->define_count,
                             .sketch = options->sketch,
                             .deterministic = options->deterministic,
                             .check = options->check};
    bool checked = frontend_check(unit->arena, unit->file, &front, &unit->diags);
    return checked && !unit->diags.error_count;
}

IrModule *api_build(sketchc_unit *unit) {
    IrModule *module = frontend_build(unit->arena, unit->sources, unit->file, &unit->diags);
    return unit->diags.error_count ? NULL : module;
}

void api_keep_level(IrModule *module, unsigned level) {
    for (IrFunc *f = module->first, *next; f; f = next) {
        next = f->next;
        if (f->level != level) ir_func_remove(f);
    }
}
