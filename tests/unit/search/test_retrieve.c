/* Kinds, embeddings and shapes of operators; retrieval from a store: filter, threshold, ranking. */
#include "retrieve.h"

#include "check.h"

#include <stdlib.h>
#include <unistd.h>

/* An operator over X (and Y) with one result. */
static const char *op(const char *name, const char *tensors, const char *equations, const char *sizes) {
    static char texts[16][768];
    static unsigned next;
    char *text = texts[next++ % 16];
    snprintf(text, sizeof texts[0], "operator %s {\n    symbols: M, N;\n    tensors: %s;\n    %s\n    case c { %s }\n}\n", name, tensors,
             equations, sizes);
    return text;
}

#define ROWS "X[M, N]: f32, Y[M, N]: f32"
#define SIZES "M=64, N=128"

static OperatorKind kind(const char *tensors, const char *equations) {
    OperatorFeatures f;
    CHECK(operator_features(op("a", tensors, equations, SIZES), &f));
    OperatorKind result = f.kind;
    operator_features_release(&f);
    return result;
}

static void kinds(void) {
    CHECK(kind(ROWS, "Y = exp(X) + 1") == OPERATOR_ELEMENTWISE);
    CHECK(kind(ROWS, "Y = softmax(X, axis=1)") == OPERATOR_NORMALISATION);
    CHECK(kind("X[M, N]: f32, Y[M]: f32", "Y = sum(X, axis=1)") == OPERATOR_REDUCTION);
    CHECK(kind("X[M, N]: f32, Y[M]: f32", "Y[i] = max(k, X[i, k])") == OPERATOR_REDUCTION);
    CHECK(kind("X[M, N]: f32, Y[N, M]: f32", "Y = transpose(X)") == OPERATOR_MANIPULATION);
    CHECK(kind(ROWS, "Y[i, j] = pad(X, 0)[i, j-1]") == OPERATOR_MANIPULATION);
    CHECK(kind("X[M, N]: f32, W[N, M]: f32, Y[M, M]: f32", "Y = matmul(X, W)") == OPERATOR_PRODUCT);
    CHECK(kind("X[M, N]: f32, W[N, M]: f32, Y[M, M]: f32", "Y[i, j] = sum(k, X[i, k] * W[k, j])") == OPERATOR_PRODUCT);
    CHECK(kind("X[M, N]: f32, W[3]: f32, Y[M, N]: f32", "Y[i, j] = sum(k in 0:3, pad(X, 0)[i, j+k] * W[k])") == OPERATOR_CONVOLUTION);
    CHECK(kind("X[M, N]: f32, I[M]: i32, Y[M, N]: f32", "Y[i, j] = pad(X, 0)[I[i], j]") == OPERATOR_INDEXING);
    CHECK(kind(ROWS, "Y[i, j] = where(j <= i, X[i, j], 0)") == OPERATOR_INDEXING);
    CHECK(kind(ROWS, "Y = cumsum(X, axis=1)") == OPERATOR_SCAN);
    OperatorFeatures f;
    CHECK(!operator_features("operator a { no sense", &f));
    operator_features_release(&f);
}

static double alike(const char *a, const char *b) {
    OperatorFeatures x, y;
    double u[EMBEDDING_SIZE], v[EMBEDDING_SIZE];
    CHECK(operator_features(a, &x) && operator_features(b, &y));
    embed_words(x.description.data, u);
    embed_words(y.description.data, v);
    operator_features_release(&x);
    operator_features_release(&y);
    return embedding_cosine(u, v, EMBEDDING_SIZE);
}

static void embeddings(void) {
    const char *soft = op("a", ROWS, "Y = softmax(X, axis=1)", SIZES),
               *same = op("b", "P[M, N]: f32, Q[M, N]: f32", "Q = softmax(P)", "M=5, N=7");
    const char *log_soft = op("c", ROWS, "Y = log_softmax(X, axis=1)", SIZES), *rms = op("d", ROWS, "Y = rms_norm(X)", SIZES);
    const char *lanes = op("e", ROWS, "Y = tanh(X) * 2", SIZES);
    CHECK(alike(soft, same) > 0.999);
    CHECK(alike(soft, log_soft) > alike(soft, rms) && alike(soft, rms) > alike(soft, lanes));
    CHECK(alike(soft, lanes) < 0.5);
    double none[EMBEDDING_SIZE], some[EMBEDDING_SIZE];
    embed_words("", none);
    embed_words("a b", some);
    CHECK(embedding_cosine(none, some, EMBEDDING_SIZE) == 0);
    OperatorFeatures x, y, z;
    CHECK(operator_features(op("a", ROWS, "Y = X + 1", "M=1024, N=64"), &x) &&
          operator_features(op("a", ROWS, "Y = X + 1", "M=64, N=1024"), &y) &&
          operator_features(op("a", ROWS, "Y = X + 1", "M=4, N=4"), &z));
    CHECK(shape_similarity(&x, &y) == 1 && shape_similarity(&x, &z) < 0.2);
    operator_features_release(&x);
    operator_features_release(&y);
    operator_features_release(&z);
}

static void put(Store *s, const char *definition, const char *sketch, const char *target, double seconds, bool complete) {
    StoreKey key = {
        .definition = definition, .sketch = sketch, .target = target, .arch = "a", .device = "d", .environment = "{}", .case_name = "c"};
    StoreResult r = {.status = "ok", .complete = complete, .seconds = seconds};
    CHECK(store_put(s, &key, &r, "test", NULL));
}

static double *from_elsewhere(void *context, const char *const *texts, size_t count, size_t *size) {
    enum { SIZE = 4 };
    const bool *answers = context;
    double *vectors = *answers ? malloc(count * SIZE * sizeof *vectors) : NULL;
    *size = SIZE;
    for (size_t i = 0; vectors && i < count; i++)
        for (size_t k = 0; k < SIZE; k++) vectors[i * SIZE + k] = strstr(texts[i], "log") ? (double)k : 1.0 - (double)k;
    return vectors;
}

static void retrieval(void) {
    char path[] = "/tmp/retrieveXXXXXX", *message = NULL;
    close(mkstemp(path));
    Store *s = store_open(path, &message);
    CHECK(s && !message);
    const char *own = op("own", ROWS, "Y = softmax(X, axis=1)", "M=2048, N=1024");
    put(s, own, "itself", "openmp", 1, true);
    put(s, op("far", ROWS, "Y = log_softmax(X, axis=1)", "M=8, N=8"), "far in shape", "openmp", 1, true);
    put(s, op("near", ROWS, "Y = softmax(X * 2, axis=1)", "M=1024, N=1024"), "slower", "openmp", 3, true);
    put(s, op("near", ROWS, "Y = softmax(X * 2, axis=1)", "M=1024, N=1024"), "faster", "openmp", 2, true);
    put(s, op("near", ROWS, "Y = softmax(X * 2, axis=1)", "M=1024, N=1024"), "not verified", "openmp", 1, false);
    put(s, op("other", ROWS, "Y = softmax(X + 1, axis=1)", "M=2048, N=1024"), "another target", "cuda", 1, true);
    put(s, op("lanes", ROWS, "Y = exp(X)", "M=2048, N=1024"), "another kind", "openmp", 1, true);
    RetrieveOptions o = {.operator_text = own, .target = "openmp"};
    Retrieved found;
    retrieve_examples(s, &o, &found);
    CHECK(found.count == 2);
    CHECK_STR(found.examples[0].sketch, "faster");
    CHECK(strstr(found.examples[0].note, "normalisation, 0.") && strstr(found.examples[0].note, "2000 ms at c"));
    CHECK_STR(found.examples[1].sketch, "far in shape");
    retrieved_release(&found);
    o.threshold = 0.9999;
    retrieve_examples(s, &o, &found);
    CHECK(found.count == 0);
    retrieved_release(&found);
    o.threshold = 0;
    o.limit = 1;
    retrieve_examples(s, &o, &found);
    CHECK(found.count == 1);
    retrieved_release(&found);
    /* Vectors of someone else: there log_softmax points elsewhere. Without an answer the built-in ones serve. */
    bool answers = true;
    Embedder other = {from_elsewhere, &answers};
    o = (RetrieveOptions){.operator_text = own, .target = "openmp", .embedder = &other};
    retrieve_examples(s, &o, &found);
    CHECK(found.count == 1);
    CHECK_STR(found.examples[0].sketch, "faster");
    retrieved_release(&found);
    answers = false;
    retrieve_examples(s, &o, &found);
    CHECK(found.count == 2);
    retrieved_release(&found);
    store_close(s);
    unlink(path);
}

int main(void) {
    kinds();
    embeddings();
    retrieval();
    return 0;
}
