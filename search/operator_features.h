/* Features of operators, for finding similar ones: their kind, a vector of what their graph does, and their shapes. All from the
 * graph that the compiler makes of the equations, so that names and ways of writing do not count. */
#ifndef SEARCH_OPERATOR_FEATURES_H
#define SEARCH_OPERATOR_FEATURES_H

#include "support.h"

typedef enum {
#define KIND(id, name) OPERATOR_##id,
#include "operator_kinds.def"
#undef KIND
    OPERATOR_KIND_COUNT
} OperatorKind;

/* Numbers of a vector of words: an operator has some tens of words, so few share a number. Sizes of a case that are compared, in declared
 * order. (Neither was measured.) */
enum { EMBEDDING_SIZE = 256, SHAPE_SIZE = 8 };

typedef struct {
    OperatorKind kind;
    Str description;          /* words, one for each feature, as often as it occurs: what an embedding is made of */
    double shape[SHAPE_SIZE]; /* of the largest case: the logarithms of its sizes, largest first */
    unsigned shape_count;
} OperatorFeatures;

/* False when the text is no sound operator. `features` is initialised here. */
bool operator_features(const char *operator_text, OperatorFeatures *features);
void operator_features_release(OperatorFeatures *features);
const char *operator_kind_name(OperatorKind kind);

/* The built-in embedding: words hashed to places with signs, weighted by the logarithm of how often they occur, of length
 * 1. Equal texts give equal vectors on every machine. */
void embed_words(const char *description, double vector[EMBEDDING_SIZE]);
double embedding_cosine(const double *a, const double *b, size_t size);
/* 1 for equal shapes, towards 0 the more they differ. */
double shape_similarity(const OperatorFeatures *a, const OperatorFeatures *b);

#endif
