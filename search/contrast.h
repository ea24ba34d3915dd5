/* Contrastive analysis: good and bad samples of an island, and what separates them, for a proposer outside. */
#ifndef SEARCH_CONTRAST_H
#define SEARCH_CONTRAST_H

#include "search_internal.h"

/* Sketches that a prompt shows beside its parent (not measured). */
enum { CONTRAST_SAMPLES = 4 };

typedef struct {
    ProposerCandidate list[CONTRAST_SAMPLES]; /* best first, bad ones last */
    Str outcomes[CONTRAST_SAMPLES];
    size_t count;
    Str analysis, roof; /* what separates first and last that run; what limits the parent */
} Contrast;

/* A stratified sample of the island: the parent, its elite, its slowest that runs, one that failed. */
void contrast_init(const Search *s, unsigned island, size_t parent, Contrast *c);
void contrast_release(Contrast *c);
/* Appends what one sketch has more or less of than another: loops, tiles, loads, reductions, hints, numbers. */
void contrast_compare(const char *good, const char *bad, Str *out);

#endif
