/* Small changes to a sketch in the one style of .sketch files: tile sizes, hints, the order of loops. Works on
 * lines and knows indentation, nothing else of the language: what comes out is judged like any sketch. */
#ifndef SEARCH_MUTATE_H
#define SEARCH_MUTATE_H

#include "support.h"

typedef enum {
#define MUTATION(id, name, apply, summary) MUTATION_##id,
#include "mutations.def"
#undef MUTATION
    MUTATION_COUNT
} Mutation;

const char *mutation_name(Mutation mutation);
bool mutation_find(const char *name, Mutation *mutation);

/* Pseudo-random numbers that depend on the state alone (splitmix64). */
uint64_t mutate_random(uint64_t *state);

/* Replaces `out` (initialised) by the sketch with one change, chosen by the state. False when there is nothing
 * to change in this way. */
bool mutate_sketch(const char *sketch, Mutation mutation, uint64_t *state, Str *out);

#endif
