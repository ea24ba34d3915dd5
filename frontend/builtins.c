#include "ast.h"

#include <string.h>

static const BuiltinInfo ROWS[BUILTIN_COUNT] = {
    {BUILTIN_NONE, "", "", "", "", RULE_NONE, CLASS_NONE},
#define BUILTIN(id, name, signature, rule, class, ir, summary) {BUILTIN_##id, name, signature, ir, summary, RULE_##rule, CLASS_##class},
#include "builtins.def"
#undef BUILTIN
};

static const struct {
    const char *name;
    BuiltinId id;
} ALIASES[] = {
#define BUILTIN(id, name, signature, rule, class, ir, summary)
#define BUILTIN_ALIAS(name, id) {name, BUILTIN_##id},
#include "builtins.def"
#undef BUILTIN
};

static const struct {
    const char *text;
    BuiltinId builtin;
} OPERS[OPER_COUNT] = {
#define OPER(id, text, builtin) {text, BUILTIN_##builtin},
#include "opers.def"
#undef OPER
};

const BuiltinInfo *builtin_info(BuiltinId id) {
    return &ROWS[id];
}
const char *oper_text(Oper op) {
    return OPERS[op].text;
}
BuiltinId oper_builtin(Oper op) {
    return OPERS[op].builtin;
}

static bool is_name(const char *row, const char *name, size_t length) {
    return strncmp(row, name, length) == 0 && row[length] == 0;
}

BuiltinId builtin_find(const char *name, size_t length) {
    for (int id = 1; id < BUILTIN_COUNT; id++)
        if (is_name(ROWS[id].name, name, length)) return (BuiltinId)id;
    for (size_t i = 0; i < COUNT_OF(ALIASES); i++)
        if (is_name(ALIASES[i].name, name, length)) return ALIASES[i].id;
    return BUILTIN_NONE;
}

static BuiltinParam read_param(Arena *arena, const char *word, size_t length) {
    BuiltinParam p = {0};
    p.accumulates = word[0] == '+';
    p.is_output = word[0] == '>' || p.accumulates;
    if (p.is_output) word++, length--;
    size_t name = strcspn(word, "=?* ");
    char mark = name < length ? word[name] : ' ';
    p.is_attribute = mark == '=';
    p.is_optional = mark == '?' || p.is_attribute;
    p.is_variadic = mark == '*';
    if (name + 1 < length) p.fallback = arena_strndup(arena, word + name + 1, length - name - 1);
    p.name = arena_strndup(arena, word, name);
    return p;
}

size_t builtin_params(BuiltinId id, Arena *arena, BuiltinParam *params) {
    size_t count = 0;
    for (const char *at = ROWS[id].signature; *at;) {
        size_t length = strcspn(at, " ");
        if (length && count < BUILTIN_MAX_PARAMS) params[count++] = read_param(arena, at, length);
        at += length;
        at += *at == ' ';
    }
    return count;
}
