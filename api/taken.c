/* What a compilation took: constexprs and names, for the artifact and the head of the code. */
#include "api_internal.h"

#include "sketchc_config.h"

#include <string.h>

static const char *constant_text(Arena *arena, const ConstValue *v) {
    if (v->kind == CONST_STRING || (v->kind == CONST_FLOAT && v->s)) return v->s;
    if (v->kind == CONST_INT) return arena_printf(arena, "%lld", (long long)v->i);
    if (v->kind == CONST_BOOL) return v->i ? "true" : "false";
    Str text;
    str_init(&text);
    str_append_double(&text, v->f);
    const char *copy = arena_strdup(arena, text.data);
    str_release(&text);
    return copy;
}

size_t api_constexprs(Arena *arena, const Block *sketch, const ArtifactConstexpr **list) {
    size_t count = 0;
    ArtifactConstexpr *taken = ARENA_ARRAY(arena, ArtifactConstexpr, (sketch ? sketch->decl_count : 0) + 1);
    for (size_t i = 0; sketch && i < sketch->decl_count; i++) {
        const Decl *d = sketch->decls[i];
        if (d->kind == DECL_CONSTEXPR && d->constant.kind != CONST_NONE)
            taken[count++] = (ArtifactConstexpr){d->name, constant_text(arena, &d->constant)};
    }
    *list = taken;
    return count;
}

size_t api_renames(Arena *arena, const Block *sketch, const ArtifactRename **list) {
    size_t count = 0;
    ArtifactRename *names = ARENA_ARRAY(arena, ArtifactRename, (sketch ? sketch->binding_count : 0) + 1);
    for (size_t i = 0; sketch && i < sketch->binding_count; i++) {
        const Binding *b = &sketch->bindings[i];
        if (b->sketch_decl && strcmp(b->sketch_decl->name, b->op_decl->name) != 0)
            names[count++] = (ArtifactRename){b->sketch_decl->name, b->op_decl->name};
    }
    *list = names;
    return count;
}

void api_head_comment(sketchc_unit *unit, const Target *target, const char *leader, Str *out) {
    enum { COLUMNS = 100 };
    const Block *b = unit->file->sketch;
    const ArtifactConstexpr *taken;
    size_t line = out->len, count = api_constexprs(unit->arena, b, &taken);
    str_printf(out, "%s %s for %s, by sketchc " SKETCHC_VERSION "%s", leader, b && b->name[0] ? b->name : "kernel", target->arch,
               count ? ":" : "");
    for (size_t i = 0; i < count; i++) {
        const char *item = arena_printf(unit->arena, "%s = %s%s", taken[i].name, taken[i].value, i + 1 < count ? "," : "");
        if (out->len - line + 1 + strlen(item) > COLUMNS) {
            line = out->len + 1;
            str_printf(out, "\n%s", leader);
        }
        str_printf(out, " %s", item);
    }
    str_append_char(out, '\n');
}
