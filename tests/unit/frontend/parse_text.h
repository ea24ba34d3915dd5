/* Parses and checks a text; shared by the front end's unit tests. */
#ifndef TESTS_PARSE_TEXT_H
#define TESTS_PARSE_TEXT_H
#include "check.h"
#include "frontend.h"

#include <time.h>

typedef struct {
    Arena *arena;
    DiagList diags;
    File *file;
    bool ok;
} Checked;

static inline Checked parse_text(const char *text, size_t size, const FrontendOptions *options) {
    Checked c = {.arena = arena_create()};
    SourceMap *sources = source_map_create(c.arena);
    diag_list_init(&c.diags, c.arena, sources);
    uint32_t id = source_add(sources, "test.sketch", text, size);
    c.file = frontend_parse(c.arena, sources, id, &c.diags);
    c.ok = options && frontend_check(c.arena, c.file, options, &c.diags);
    return c;
}

static inline bool has_code(const Checked *c, const char *code) {
    for (const Diag *d = c->diags.first; d; d = d->next)
        if (strcmp(diag_code(d->id), code) == 0) return true;
    return false;
}

/* Processor time: the wall's depends on what else the machine does. */
static inline double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
#endif
