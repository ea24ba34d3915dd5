/* Operators from their text: what index notation means, element by element, by plain loops. */
#include "build.h"
#include "frontend.h"
#include "graph.h"

#include <math.h>

enum { M = 5, N = 7, K = 4 };

typedef struct {
    Arena *arena;
    Evaluator *ev;
    float x[M * N], w[K * N];
    int32_t i[M];
} Example;

/* The inputs are X, W and I, as far as they are declared. */
static Example evaluate(const char *tensors, const char *equations) {
    Example c = {.arena = arena_create()};
    for (int k = 0; k < M * N; k++) c.x[k] = (float)((k * 37 + 11) % 23) / 7.0F - 1.5F;
    for (int k = 0; k < K * N; k++) c.w[k] = (float)((k * 17 + 5) % 19) / 3.0F - 2.0F;
    for (int k = 0; k < M; k++) c.i[k] = (k * 3 + 1) % K;
    const char *text = arena_printf(c.arena, "operator o {\nsymbols: M, N >= 3, K\ntensors: %s\n%s\n}\n", tensors, equations);
    DiagList diags;
    SourceMap *sources = source_map_create(c.arena);
    diag_list_init(&diags, c.arena, sources);
    uint32_t id = source_add(sources, "o.sketch", text, strlen(text));
    File *file = frontend_parse(c.arena, sources, id, &diags);
    IrModule *m = frontend_check(c.arena, file, &(FrontendOptions){0}, &diags) ? frontend_build(c.arena, sources, file, &diags) : NULL;
    if (!m || !ir_verify(m, &diags)) {
        show_diags(&diags);
        CHECK(false);
    }
    const IrFunc *f = m->first;
    SymbolValue values[] = {{"M", M}, {"N", N}, {"K", K}};
    static const char *const names[] = {"X", "W", "I"};
    static const size_t bytes[] = {sizeof c.x, sizeof c.w, sizeof c.i};
    const void *all[] = {c.x, c.w, c.i}, *data[COUNT_OF(all)];
    size_t count = 0;
    for (unsigned p = 0; p < f->param_count; p++)
        for (size_t k = 0; k < COUNT_OF(names); k++)
            if (strcmp(f->params[p].name, names[k]) == 0) data[count++] = memcpy(arena_alloc(c.arena, bytes[k]), all[k], bytes[k]);
    c.ev = graph_bind_data(c.arena, f, graph_sizes(c.arena, f, 3, values), data, false);
    return c;
}

static void close_to(const EvalResult *r, int at, double want) {
    if (fabs(r->value[at] - want) > 1e-6 * (1 + fabs(want))) {
        fprintf(stderr, "element %d: %.9g, want %.9g\n", at, r->value[at], want);
        CHECK(false);
    }
    CHECK(!r->undecided[at]);
}

/* Several reductions in one equation, inside functions. */
static void test_inner_sums(void) {
    Example c =
        evaluate("X[M, N]: f32; W[K, N]: f32; Y[M, N]: f32", "Y[i, j] = X[i, j] / sqrt(sum(k, X[i, k] * X[i, k]) / N) - max(k, X[i, k]) + "
                                                             "prod(k in 0:2, relu(X[i, k]) + 1) - mean((p, q), X[p, q]) + min(k, W[k, j])");
    EvalResult r = graph_all(c.arena, c.ev, 0);
    double mean = 0;
    for (int k = 0; k < M * N; k++) mean += c.x[k] / (M * N);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double squares = 0, top = -INFINITY, product = 1, least = INFINITY;
            for (int k = 0; k < N; k++) {
                squares += (double)c.x[i * N + k] * c.x[i * N + k];
                top = fmax(top, c.x[i * N + k]);
                if (k < 2) product *= fmax(c.x[i * N + k], 0) + 1;
            }
            for (int k = 0; k < K; k++) least = fmin(least, c.w[k * N + j]);
            close_to(&r, i * N + j, c.x[i * N + j] / sqrt(squares / N) - top + product - mean + least);
        }
    arena_destroy(c.arena);
}

static int argmax(const float *row, int from, int n) {
    int best = from;
    for (int k = from; k < n; k++) best = row[k] > row[best] ? k : best;
    return best;
}

/* Indices read from tensors, and those of the largest element. */
static void test_read_indices(void) {
    Example c = evaluate("X[M, N]: f32; W[K, N]: f32; I[M]: i32; L[M]: f32; A[M]: i64",
                         "L[i] = sum(k, W[I[i], k] * X[i, k]) - X[i, argmax(j, X[i, j])]\n"
                         "A[i] = argmax(k in 2:N, X[i, k])");
    EvalResult r = graph_all(c.arena, c.ev, 0), a = graph_all(c.arena, c.ev, 1);
    for (int i = 0; i < M; i++) {
        double sum = 0;
        for (int k = 0; k < N; k++) sum += (double)c.w[c.i[i] * N + k] * c.x[i * N + k];
        close_to(&r, i, sum - c.x[i * N + argmax(c.x + i * N, 0, N)]);
        CHECK(a.integer[i] == argmax(c.x + i * N, 2, N));
    }
    arena_destroy(c.arena);
}

static double padded(const Example *c, int i, int j, double pad) {
    return i >= 0 && i < M && j >= 0 && j < N ? c->x[i * N + j] : pad;
}

static void test_pad(void) {
    Example c = evaluate("X[M, N]: f32; P[M, N]: f32", "P[i, j] = sum(d in 0:3, pad(X, 0)[i, j + d - 1]) + pad(X, 2.5)[i - 1, j]");
    EvalResult r = graph_all(c.arena, c.ev, 0);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double sum = padded(&c, i - 1, j, 2.5);
            for (int d = -1; d <= 1; d++) sum += padded(&c, i, j + d, 0);
            close_to(&r, i * N + j, sum);
        }
    arena_destroy(c.arena);
}

/* Over all indices a reduction is a tensor of rank 0, a value among whole tensors. */
static void test_whole(void) {
    Example c = evaluate("X[M, N]: f32; W[K, N]: f32; S[1]: f32; T[M]: bool; U[M]: bool; C[M]: i32; Z[M]: f32",
                         "S = sum((i, j), X[i, j]) / max((i, j), W[i, j])\n"
                         "T[i] = any(k, X[i, k] > 1.4)\nU[i] = all(k, X[i, k] > -1.4)\n"
                         "C[i] = sum(k, X[i, k] > 0)\n"
                         "R = softmax(X)\nZ[i] = R[i, 2] + sum(k, R[i, k])");
    EvalResult s = graph_all(c.arena, c.ev, 0), t = graph_all(c.arena, c.ev, 1), u = graph_all(c.arena, c.ev, 2),
               n = graph_all(c.arena, c.ev, 3), z = graph_all(c.arena, c.ev, 4);
    double sum = 0, top = -INFINITY;
    for (int k = 0; k < M * N; k++) sum += c.x[k];
    for (int k = 0; k < K * N; k++) top = fmax(top, c.w[k]);
    close_to(&s, 0, sum / top);
    for (int i = 0; i < M; i++) {
        bool any = false, all = true;
        int positive = 0;
        double weights = 0;
        for (int k = 0; k < N; k++) {
            any |= c.x[i * N + k] > 1.4F;
            all &= c.x[i * N + k] > -1.4F;
            positive += c.x[i * N + k] > 0;
            weights += exp(c.x[i * N + k]);
        }
        CHECK(t.integer[i] == any && u.integer[i] == all && n.integer[i] == positive);
        close_to(&z, i, exp(c.x[i * N + 2]) / weights + 1);
    }
    arena_destroy(c.arena);
}

static double row_sum(const Example *c, int m) {
    double sum = 0;
    for (int n = 0; n < N; n++) sum += c->x[m * N + n];
    return sum;
}

/* A tensor that equations update: each sees what those before it made, also where it reads other elements. */
static void test_updates(void) {
    Example c = evaluate("X[M, N]: f32; Y[M]: f32; Z[M]: f32; D[M, N]: f32", "Y = sum(X, axis=1)\n"
                                                                             "X = X * 2\n"
                                                                             "Z[m] = sum(n, X[m, n])\n"
                                                                             "T = X\n"
                                                                             "X[m, n] = X[m, N - 1 - n] + 1\n"
                                                                             "D = T - X\n"
                                                                             "X = flip(X, axis=0)\n");
    EvalResult x = graph_all(c.arena, c.ev, 0), y = graph_all(c.arena, c.ev, 1);
    EvalResult z = graph_all(c.arena, c.ev, 2), d = graph_all(c.arena, c.ev, 3);
    for (int m = 0; m < M; m++) {
        close_to(&y, m, row_sum(&c, m));
        close_to(&z, m, 2 * row_sum(&c, m));
        for (int n = 0; n < N; n++) {
            double other = 2 * (double)c.x[m * N + N - 1 - n] + 1;
            close_to(&d, m * N + n, 2 * (double)c.x[m * N + n] - other);
            close_to(&x, (M - 1 - m) * N + n, other);
        }
    }
    arena_destroy(c.arena);
}

/* Two tensors exchange what they hold; B = A behind A = B reads the new A. */
static void test_exchange(void) {
    Example c = evaluate("X[M, N]: f32; Y[M, N]: f32; Z[M, N]: f32", "T = X\n"
                                                                     "Y = X + 1\n"
                                                                     "X = Y * 3\n"
                                                                     "Y = T\n"
                                                                     "Z = X - Y\n"
                                                                     "X = Y\n");
    EvalResult x = graph_all(c.arena, c.ev, 0), y = graph_all(c.arena, c.ev, 1);
    EvalResult z = graph_all(c.arena, c.ev, 2);
    for (int k = 0; k < M * N; k++) {
        close_to(&x, k, c.x[k]);
        close_to(&y, k, c.x[k]);
        close_to(&z, k, 3 * ((double)c.x[k] + 1) - c.x[k]);
    }
    arena_destroy(c.arena);
}

int main(void) {
    test_inner_sums();
    test_read_indices();
    test_pad();
    test_whole();
    test_updates();
    test_exchange();
    return 0;
}
