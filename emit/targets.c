#include "targets.h"

#include <string.h>

static const EmitTarget targets[EMIT_TARGET_COUNT] = {
#define EMIT_TARGET(id, ...) [EMIT_##id] = {__VA_ARGS__},
#include "targets.def"
#undef EMIT_TARGET
};

#define BY(id) (1u << EMIT_##id)
static const EmitForm forms[] = {
#define EMIT_FORM(...) {__VA_ARGS__},
#include "targets.def"
#undef EMIT_FORM
};

bool emit_by_tool(const IrModule *m, const EmitOptions *options, Str *out, DiagList *diags) {
    (void)m, (void)options, (void)out, (void)diags;
    return false;
}

const EmitTarget *emit_target(EmitTargetId id) {
    return &targets[id];
}

EmitTargetId emit_target_named(const char *name) {
    unsigned t = 0;
    while (t < EMIT_TARGET_COUNT && strcmp(targets[t].name, name) != 0) t++;
    return (EmitTargetId)t;
}

const char *emit_target_list(Arena *arena) {
    const char *list = targets[0].name;
    for (unsigned t = 1; t < EMIT_TARGET_COUNT; t++)
        list = arena_printf(arena, "%s%s%s", list, t + 1 < EMIT_TARGET_COUNT ? ", " : " and ", targets[t].name);
    return list;
}

const EmitForm *emit_form_named(const char *name) {
    for (size_t i = 0; name && i < COUNT_OF(forms); i++)
        if (strcmp(forms[i].name, name) == 0) return &forms[i];
    return NULL;
}

EmitTargetId emit_target_of_form(const EmitForm *form) {
    unsigned t = 0;
    while (t < EMIT_TARGET_COUNT && !(form->targets >> t & 1)) t++;
    return (EmitTargetId)t;
}
