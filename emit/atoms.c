#include "emit_internal.h"

#include <stdlib.h>
#include <string.h>

static const AtomInfo atoms[] = {
#define ATOM(id, name, results, operands, ptx, is_volatile, summary)                               \
    {name, results, operands, ptx, is_volatile},
#include "atoms.def"
#undef ATOM
};

const AtomInfo *atom_find(const char *name) {
    for (size_t i = 0; i < COUNT_OF(atoms); i++)
        if (strcmp(atoms[i].name, name) == 0) return &atoms[i];
    return NULL;
}

bool atom_next_class(const char **text, AtomClass *cls) {
    const char *s = *text;
    while (*s == ' ') s++;
    if (!*s) return false;
    *cls = (AtomClass){.count = 1};
    if (*s == 'v') {
        char *end;
        cls->count = (unsigned)strtoul(s + 1, &end, 10);
        cls->vector = true;
        s = end + 1; /* the dot */
    }
    char word[16];
    size_t n = 0;
    while (*s && *s != ' ' && n + 1 < sizeof word) word[n++] = *s++;
    word[n] = 0;
    if (strcmp(word, "shared") == 0)
        cls->shared = true;
    else if (!dtype_find(word, &cls->dtype))
        return false;
    *text = s;
    return true;
}
