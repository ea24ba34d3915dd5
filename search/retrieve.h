/* Retrieval (Algorithm 2 of the AKG Kernel Agent paper): verified sketches of similar operators, from the store, as examples
 * for a proposer. */
#ifndef SEARCH_RETRIEVE_H
#define SEARCH_RETRIEVE_H

#include "operator_features.h"
#include "proposer.h"
#include "store.h"

/* A vector for a description, by someone else. False: it could not be had, and the built-in one is taken for all. */
typedef struct {
    bool (*embed)(void *context, const char *const *texts, size_t count, double *vectors, size_t size); /* count x size */
    void *context;
    size_t size;
} Embedder;

typedef struct {
    const char *operator_text, *target;
    double threshold;  /* least cosine; 0: 0.35 */
    unsigned limit;    /* 0: 2 */
    const Embedder *embedder; /* null: the built-in embedding */
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
