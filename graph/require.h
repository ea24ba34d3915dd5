/* require: what a sketch is meant for, as conditions over sizes, constexprs, types and the target.
 *
 *     require: M <= 128, K % 8 == 0, dtype(A) == f16, has(wgmma);
 *
 * The words are read by whoever knows them; docs/language.md lists the operations. */
#ifndef GRAPH_REQUIRE_H
#define GRAPH_REQUIRE_H

#include "library.h"

typedef struct {
    /* What a name, or NAME(argument), stands for; false: not known. `argument` is null for a name alone. */
    bool (*value)(void *context, const char *name, const char *argument, int64_t *value);
    void *context;
} RequireWords;

typedef enum { REQUIRE_HOLDS, REQUIRE_FAILS, REQUIRE_UNKNOWN } RequireResult;

/* Does the condition hold? Where a word is not known that decides it, *unknown is the word, which is null elsewhere. */
RequireResult require_holds(const LibraryLine *condition, const RequireWords *words, const char **unknown);

#endif
