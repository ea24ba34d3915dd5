/* retrieve.h: hard filter on target and kind, cosine of embeddings, ranking by shape. */
#include "retrieve.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *definition, *sketch, *case_name;
    double seconds, cosine, shape;
    OperatorFeatures features;
} Entry;

typedef struct {
    Arena *arena;
    const RetrieveOptions *options;
    VEC(Entry *) list; /* the fastest of each definition */
    Map *by_definition;
} Reader;

static void visit(void *context, const StoreRow *row) {
    Reader *r = context;
    const char *definition = store_text(row, "definition");
    double seconds = store_number(row, "seconds");
    if (strcmp(store_text(row, "target"), r->options->target) != 0 || seconds <= 0) return;
    Entry *e = map_get(r->by_definition, definition);
    if (e && e->seconds <= seconds) return;
    if (!e) {
        e = ARENA_NEW(r->arena, Entry);
        map_set(r->by_definition, r->arena, definition, e);
        e->definition = arena_strdup(r->arena, definition);
        VEC_PUSH(r->arena, &r->list, e);
    }
    e->sketch = arena_strdup(r->arena, store_text(row, "sketch"));
    e->case_name = arena_strdup(r->arena, store_text(row, "case"));
    e->seconds = seconds;
}

/* The descriptions that are embedded: the graphs' features, and behind them what someone else says of the operators, if of all. */
static const char **texts_of(const Reader *r, const OperatorFeatures *own, Entry **entries, size_t count) {
    const Describer *other = count ? r->options->describer : NULL;
    const char **texts = ARENA_ARRAY(r->arena, const char *, count + 1), **operators = ARENA_ARRAY(r->arena, const char *, count + 1);
    char **said = ARENA_ARRAY(r->arena, char *, count + 1);
    texts[0] = own->description.data;
    operators[0] = r->options->operator_text;
    for (size_t i = 0; i < count; i++) {
        texts[i + 1] = entries[i]->features.description.data;
        operators[i + 1] = entries[i]->definition;
    }
    if (!other || !other->describe(other->context, operators, count + 1, said)) return texts;
    for (size_t i = 0; i <= count; i++) {
        texts[i] = arena_printf(r->arena, "%s %s", texts[i], said[i]);
        free(said[i]);
    }
    return texts;
}

/* By someone else when there is one who answers, else all by the built-in embedding: vectors of two kinds do not compare. */
static double *embed_all(const Reader *r, const OperatorFeatures *own, Entry **entries, size_t count, size_t *size) {
    const Embedder *other = count ? r->options->embedder : NULL;
    const char **texts = texts_of(r, own, entries, count);
    double *theirs = other ? other->embed(other->context, texts, count + 1, size) : NULL;
    if (theirs) {
        double *kept = ARENA_ARRAY(r->arena, double, (count + 1) * *size);
        memcpy(kept, theirs, (count + 1) * *size * sizeof *kept);
        free(theirs);
        return kept;
    }
    double *vectors = ARENA_ARRAY(r->arena, double, (count + 1) * EMBEDDING_SIZE);
    for (size_t i = 0; i <= count; i++) embed_words(texts[i], vectors + i * EMBEDDING_SIZE);
    *size = EMBEDDING_SIZE;
    return vectors;
}

static int by_rank(const void *a, const void *b) {
    const Entry *x = *(Entry *const *)a, *y = *(Entry *const *)b;
    if (x->shape != y->shape) return x->shape > y->shape ? -1 : 1;
    if (x->cosine != y->cosine) return x->cosine > y->cosine ? -1 : 1;
    return strcmp(x->definition, y->definition);
}

static void give(Retrieved *found, Entry **entries, size_t count, size_t limit) {
    found->examples = ARENA_ARRAY(found->arena, ProposerExample, count + 1);
    for (size_t i = 0; i < count && i < limit; i++) {
        const Entry *e = entries[i];
        found->examples[found->count++] =
            (ProposerExample){e->definition, e->sketch,
                              arena_printf(found->arena, "%s, %.2f alike, %.4g ms at %s", operator_kind_name(e->features.kind), e->cosine,
                                           1e3 * e->seconds, e->case_name)};
    }
}

static void rank(Reader *r, const OperatorFeatures *own, Retrieved *found) {
    double threshold = r->options->threshold > 0 ? r->options->threshold : 0.35;
    Entry **entries = ARENA_ARRAY(r->arena, Entry *, r->list.len + 1);
    size_t count = 0, near = 0, size;
    for (size_t i = 0; i < r->list.len; i++) {
        Entry *e = r->list.data[i];
        bool itself = strcmp(e->definition, r->options->operator_text) == 0;
        if (!itself && operator_features(e->definition, &e->features) && e->features.kind == own->kind) entries[count++] = e;
    }
    double *vectors = embed_all(r, own, entries, count, &size);
    for (size_t i = 0; i < count; i++) {
        Entry *e = entries[i];
        e->cosine = embedding_cosine(vectors, vectors + (i + 1) * size, size);
        e->shape = shape_similarity(own, &e->features);
        if (e->cosine >= threshold) entries[near++] = e;
    }
    qsort(entries, near, sizeof *entries, by_rank);
    give(found, entries, near, r->options->limit ? r->options->limit : 2);
    for (size_t i = 0; i < r->list.len; i++) operator_features_release(&r->list.data[i]->features);
}

void retrieve_examples(Store *store, const RetrieveOptions *options, Retrieved *found) {
    *found = (Retrieved){.arena = arena_create()};
    OperatorFeatures own;
    Reader r = {.arena = found->arena, .options = options, .by_definition = map_create(found->arena)};
    bool ok = operator_features(options->operator_text, &own);
    if (ok && store && store_each(store, "export", -1, visit, &r)) rank(&r, &own, found);
    operator_features_release(&own);
}

void retrieved_release(Retrieved *found) {
    arena_destroy(found->arena);
    *found = (Retrieved){0};
}
