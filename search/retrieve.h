/* Retrieval (Algorithm 2 of the AKG Kernel Agent paper): verified sketches of similar operators, from the store, as examples
 * for a proposer. */
#ifndef SEARCH_RETRIEVE_H
#define SEARCH_RETRIEVE_H

#include "operator_features.h"
#include "proposer.h"
#include "store/store.h"

/* Vectors for descriptions, by someone else: count x size numbers, malloc'ed, all of one length that is not known before. Null: they
 * could not be had, and the built-in ones are taken for all. */
typedef struct Embedder {
    double *(*embed)(void *context, const char *const *texts, size_t count, size_t *size);
    void *context;
} Embedder;

/* Words about operators, by someone else: texts[i] malloc'ed. False: they could not be had for all (what is there is freed), and the
 * features of the graphs alone are compared. */
typedef struct Describer {
    bool (*describe)(void *context, const char *const *operators, size_t count, char **texts);
    void *context;
} Describer;

typedef struct {
    const char *operator_text, *target;
    double threshold;           /* least cosine; 0: 0.35 */
    unsigned limit;             /* 0: 2 */
    const Embedder *embedder;   /* null: the built-in embedding */
    const Describer *describer; /* null: nobody describes operators */
} RetrieveOptions;

typedef struct {
    Arena *arena;
    ProposerExample *examples; /* the most similar in shape first */
    size_t count;
} Retrieved;

/* The fastest verified sketch of each operator in the store for this target and of the same kind, whose description
 * is near enough; ranked by shape, then by nearness. Never the operator itself. An empty result is no failure. */
void retrieve_examples(Store *store, const RetrieveOptions *options, Retrieved *found);
void retrieved_release(Retrieved *found);

#endif
