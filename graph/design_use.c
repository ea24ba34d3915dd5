/* design: `use` in a sketch, and `require` of the library's sketches.
 *
 * A use names a sketch of the library, or a style, and gives values to its constexprs. What a sketch requires is asked in each case. */
#include "design_internal.h"
#include "query.h"
#include "require.h"

#include <string.h>

/* ---- Styles ---- */

static int64_t *field_of(DesignStyle *s, const char *name) {
    struct {
        const char *name;
        int64_t *field;
    } fields[] = {{"inner", &s->inner}, {"outer", &s->outer}, {"fold", &s->fold}, {"stages", &s->stages}};
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        if (strcmp(fields[i].name, name) == 0) return fields[i].field;
    return NULL;
}

DesignStyle design_style_used(Design *d, const DesignStyle *style, const DesignOptions *options) {
    DesignStyle used = *style;
    const DesignUse *use = options->use_count && strcmp(options->uses[0].name, style->name) == 0 ? options->uses : NULL;
    for (size_t i = 0; use && i < use->count; i++) {
        int64_t *field = design_by_form(style) ? NULL : field_of(&used, use->params[i].name);
        if (field)
            *field = use->params[i].value;
        else
            design_fail(d, arena_printf(d->arena,
                                        design_by_form(style) ? "a style that walks by forms has no parameter `%s`"
                                                              : "a style has no parameter `%s`, but inner, outer, fold and stages",
                                        use->params[i].name));
    }
    if (use) { /* nothing of the library is named by it */
        DesignOptions *own = ARENA_NEW(d->arena, DesignOptions);
        *own = *options;
        own->use_count = 0;
        d->options = own;
    }
    return used;
}

/* ---- Uses ---- */

const DesignUse *design_use_of(const Design *d, const LibrarySketch *s) {
    for (size_t i = 0; i < d->options->use_count; i++)
        if (strcmp(d->options->uses[i].name, s->name) == 0) return &d->options->uses[i];
    return NULL;
}

static const LibraryConstexpr *constexpr_named(const LibrarySketch *s, const char *name) {
    for (size_t i = 0; i < s->constexprs.len; i++)
        if (strcmp(s->constexprs.data[i].name, name) == 0) return &s->constexprs.data[i];
    return NULL;
}

static const char *list_constexprs(Design *d, const LibrarySketch *s) {
    const char *list = "";
    for (size_t i = 0; i < s->constexprs.len; i++) list = arena_printf(d->arena, "%s%s%s", list, i ? ", " : "", s->constexprs.data[i].name);
    return list;
}

static void check_params(Design *d, const DesignUse *use) {
    const LibrarySketch *s = NULL;
    for (size_t i = 0; i < d->library_count; i++)
        if (strcmp(d->library[i]->name, use->name) == 0) s = d->library[i];
    for (size_t i = 0; s && i < use->count; i++)
        if (!constexpr_named(s, use->params[i].name))
            design_fail(d,
                        arena_printf(d->arena, "%s has no constexpr `%s`; it has %s", s->name, use->params[i].name, list_constexprs(d, s)));
}

void design_check_uses(Design *d) {
    LibraryMatch m;
    uint64_t taken = 0;
    for (const IrOp *op = d->f->body->first; op; op = op->next)
        if (design_match(d, op, &m) && design_use_of(d, m.sketch)) taken |= (uint64_t)1 << (design_use_of(d, m.sketch) - d->options->uses);
    for (size_t i = 0; i < d->options->use_count && i < 64 && d->library_count && !d->error; i++) {
        const DesignUse *use = &d->options->uses[i];
        if (strcmp(use->name, d->style->name) != 0 && !(taken >> i & 1))
            design_fail(
                d, arena_printf(d->arena, "%s makes no product here%s%s", use->name, d->misfit ? ": " : "", d->misfit ? d->misfit : ""));
        check_params(d, use);
    }
}

/* ---- What is required ---- */

typedef struct {
    Design *d;
    const LibraryMatch *match;
    const IrCase *sizes;
} Asked;

const Aff *design_extent_of(Design *d, const LibraryMatch *m, const char *symbol) {
    const Aff *all = aff_const(d->module->affs, 1);
    for (unsigned i = 0; i < m->count; i++)
        for (unsigned k = 0; k < m->axes[i].count && strcmp(m->axes[i].symbol, symbol) == 0; k++)
            all = aff_mul(d->module->affs, all, m->axes[i].extents[k]);
    return all;
}

static bool is_symbol(const LibraryMatch *m, const char *name) {
    for (unsigned i = 0; i < m->count; i++)
        if (strcmp(m->axes[i].symbol, name) == 0) return true;
    return false;
}

static bool constexpr_value(const Asked *a, const char *name, int64_t *value) {
    const LibraryConstexpr *c = constexpr_named(a->match->sketch, name);
    const DesignUse *use = design_use_of(a->d, a->match->sketch);
    if (!c || !c->count) return false;
    *value = c->values[a->d->variant < c->count ? a->d->variant : c->count - 1];
    for (size_t i = 0; use && i < use->count; i++)
        if (strcmp(use->params[i].name, name) == 0) *value = use->params[i].value;
    return true;
}

static bool dtype_value(const Asked *a, const char *tensor, int64_t *value) {
    const LibrarySketch *s = a->match->sketch;
    for (size_t i = 0; i < s->tensors.len; i++)
        if (strcmp(s->tensors.data[i].name, tensor) == 0) {
            const IrOp *op = a->match->product;
            *value = i < 2 ? op->operands[i]->type->dtype : op->results[0].type->dtype;
            return true;
        }
    return false;
}

static bool value_of(void *context, const char *name, const char *argument, int64_t *value) {
    const Asked *a = context;
    const DesignOptions *o = a->d->options;
    if (argument && strcmp(name, "dtype") == 0) return dtype_value(a, argument, value);
    if (argument) {
        *value = strcmp(name, "has") == 0 && o->has && o->has(o->target, argument);
        return strcmp(name, "has") == 0;
    }
    if (strcmp(name, "named") == 0) {
        *value = o->use_count || a->d->style->staging == STAGE_LIMITED;
        return true;
    }
    if (!is_symbol(a->match, name)) return constexpr_value(a, name, value);
    return a->sizes && aff_eval(design_extent_of(a->d, a->match, name), case_symbol, (void *)(uintptr_t)a->sizes, value);
}

static const char *condition_text(Design *d, const LibraryLine *condition) {
    const char *text = "";
    for (size_t i = 0; i < condition->count; i++)
        text = arena_printf(d->arena, "%s%s%s", text, i && condition->tokens[i].space ? " " : "", condition->tokens[i].text);
    return text;
}

static bool meets(Design *d, const LibraryMatch *m, const IrCase *sizes) {
    const LibrarySketch *s = m->sketch;
    Asked asked = {d, m, sizes};
    RequireWords words = {value_of, &asked};
    const char *unknown;
    for (size_t i = 0; i < s->requires.len; i++) {
        if (require_holds(&s->requires.data[i], &words, &unknown) == REQUIRE_HOLDS) continue;
        d->misfit = arena_printf(d->arena, "%s requires `%s`, %s%s", s->name, condition_text(d, &s->requires.data[i]),
                                 sizes ? "which does not hold in the case " : "and no case tells sizes", sizes ? sizes->name : "");
        return false;
    }
    return true;
}

bool design_meets(Design *d, const LibraryMatch *m) {
    for (size_t i = 0; i < d->module->case_count; i++)
        if (!meets(d, m, &d->module->cases[i])) return false;
    return d->module->case_count || meets(d, m, NULL);
}
