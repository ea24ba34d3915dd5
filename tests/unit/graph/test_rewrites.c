/* Rewrites of graphs: that each row fires where it should and nowhere else, and that the reference finds the same value in what it made. */
#include "build.h"
#include "frontend.h"
#include "graph.h"
#include "rewrite.h"

#include <math.h>

enum { M = 5, N = 6, K = 4, P = 3 };

typedef struct {
    const char *rewrite; /* the row that is tried alone */
    unsigned times;      /* it is applied */
    const char *tensors, *equations;
    int ops;          /* of what comes out, `return` and regions with it; 0: any number */
    const char *data; /* of a case; null: there is none */
} Example;

static const Example examples[] = {
    {"nested_folds", 1, "X[M, N, K]: f32; Y[M]: f32", "Y = sum(sum(X, axis=2), axis=1)", 2, NULL},
    {"nested_folds", 1, "X[M, N, K]: f32; Y[N]: f32", "Y = sum(sum(X, axis=0), axis=1)", 2, NULL},
    {"nested_folds", 2, "X[M, N, K]: f32; Y[]: f32", "Y = reduce_max(reduce_max(reduce_max(X, axis=1), axis=1), axis=0)", 2, NULL},
    {"nested_folds", 2, "X[M, N, K]: f32; Y[1, 1, 1]: f32",
     "Y = mean(mean(mean(X, axis=2, keepdim=true), axis=1, keepdim=true), axis=0, keepdim=true)", 2, NULL},
    {"nested_folds", 1, "X[M, N, K]: f32; Y[N, 1]: f32", "Y = sum(sum(X, axis=2, keepdim=true), axis=0)", 3, NULL},
    {"nested_folds", 0, "X[M, N, K]: f32; Y[M]: f32", "Y = sum(mean(X, axis=2), axis=1)", 0, NULL},
    {"nested_folds", 0, "X[M, N, K]: f32; Y[M]: f32", "Y = sum(exp(sum(X, axis=2)), axis=1)", 0, NULL},
    {"nested_folds", 0, "X[M, N, K]: f32; Y[M]: f32", "Y = sum(reduce_max(X, axis=2), axis=1)", 0, NULL},
    {"common_values", 1, "X[M, N, K]: f32; Y[M, N, K]: f32", "A = exp(X)\nB = exp(X)\nY = A * B", 3, NULL},
    {"common_values", 0, "X[M, N, K]: f32; Y[M, N, K]: f32", "A = exp(X)\nB = tanh(X)\nY = A * B", 4, NULL},
    {"kept_axes", 1, "X[M, N]: f32; Y[M, 1]: f32", "Y = sum(X, axis=1, keepdim=true)", 3, NULL},
    {"kept_axes", 1, "X[M, N, K]: f32; Y[M, 1, 1]: f32", "Y = reduce_max(X, axis=[1, 2], keepdim=true)", 3, NULL},
    {"kept_axes", 0, "X[M, N]: f32; Y[M]: f32", "Y = sum(X, axis=1)", 2, NULL},
    {"unit_axes", 3, "X[M, N]: f32; G[M]: f32; Y[M, N]: f32", "Y = X * sqrt(abs(reshape(G, [M, 1])))", 5, NULL},
    {"unit_axes", 2, "X[M, N]: f32; Y[M, N]: f32", "Y = reshape(reshape(X, [N, M]), [M, N]) * 2", 0, NULL},
    {"unit_axes", 0, "X[M, N]: f32; G[M, 1]: f32; Y[M, N]: f32", "Y = X * sqrt(abs(G))", 0, NULL},
    {"split_axes", 1, "X[M, 6, N]: f32; F[N, K]: f32; Y[M, 2]: f32", "Y = sum(reshape(matmul(X, F), [M, 2, 3 * K]), axis=2)", 0, NULL},
    {"split_axes", 1, "X[M, 6, N]: f32; F[N, K]: f32; Y[6 * M]: f32",
     "A = reshape(exp(matmul(X, F)), [6 * M, K])\nY = sum(reshape(A, [M * 6 * K]), axis=0) + reduce_max(A, axis=1)", 0, NULL},
    {"split_axes", 0, "X[M, N]: f32; F[N, 6]: f32; Y[M, 2]: f32", "Y = sum(reshape(matmul(X, F), [M, 2, 3]), axis=2)", 0, NULL},
    {"split_axes", 0, "X[M, 6, N]: f32; F[N, K]: f32; Y[6 * M, K]: f32", "Y = exp(reshape(matmul(X, F), [6 * M, K]))", 0, NULL},
    {"split_axes", 0, "X[M, 6]: f32; Y[M, 2]: f32", "Y = sum(reshape(exp(X), [M, 2, 3]), axis=2)", 0, NULL},
    {"merge_axes", 1, "X[M, N, K]: f32; Y[M, N, K]: f32", "Y = exp(X)", 2, NULL},
    {"merge_axes", 1, "X[M, N, K]: f32; G[N, K]: f32; Y[M, N, K]: f32", "Y = X * G", 0, NULL},
    {"merge_axes", 1, "X[M, N, K]: f32; Y[K, M, N]: f32", "Y = transpose(X, axes=[2, 0, 1])", 2, NULL},
    {"merge_axes", 1, "X[M, N, K]: f32; Y[M]: f32", "Y = sum(X, axis=[1, 2])", 2, NULL},
    {"merge_axes", 1, "X[M, N, K]: f32; Y[M, N, K]: f32", "Y = cumsum(X, axis=0) * 2", 0, NULL},
    {"merge_axes", 0, "X[M, N]: f32; G[N]: f32; Y[M, N]: f32", "Y = X * G", 0, NULL},
    {"merge_axes", 0, "X[M, N]: f32; Y[N, M]: f32", "Y = transpose(X)", 2, NULL},
    {"merge_axes", 0, "X[M, N]: f32; Y[M, N]: f32", "Y = X * cast(iota([M, N], axis=1), f32)", 0, NULL},
    {"merge_axes", 0, "X[M, N]: f32; Y[M, N]: f32", "Y = X + cast(iota([M, N], axis=1) * iota([M, N], axis=0), f32)", 0, NULL},
    {"merge_axes", 0, "X[M, N]: f32; Y[M, N]: f32", "A = exp(X)\nY[i, j] = A[i, N - 1 - j]", 0, NULL},
    {"merge_axes", 0, "X[M, N]: f32; Y[M, N]: f32", "Y = X * reshape(X, [M, N]) + transpose(reshape(X, [N, M]))", 0, NULL},
    {"moments_by_parts", 1, "X[M, N]: f32; Y[]: f32", "A = X - mean(X)\nY = mean(A * A)", 0, NULL},
    {"moments_by_parts", 1, "X[M, N, K, P]: f32; Y[]: f32", "A = X * 100 + 1000\nB = A - mean(A)\nY = mean(B * B)", 0, NULL},
    {"moments_by_parts", 0, "X[M]: f32; Y[]: f32", "A = X - mean(X)\nY = mean(A * A)", 0, NULL},
    {"moments_by_parts", 0, "X[M, N]: f32; Y[]: f32", "A = X - mean(X)\nY = mean(A)", 0, NULL},
    {"moments_by_parts", 0, "X[M, N]: f32; Y[]: f32", "A = X - sum(X)\nY = mean(A * A)", 0, NULL},
    {"narrow_sums", 1, "A[N, N]: f32; B[N, N]: f32; Y[N, N]: f32", "Y[i, j] = sum(k, where(k <= i, A[i, k], 0) * B[k, j])", 0,
     "A: tril(); B: tril()"},
    {"narrow_sums", 1, "A[N, N]: f32; B[N, M]: f32; Y[M, N]: f32",
     "L = iota([N, N], axis=0) > iota([N, N], axis=1)\nY = transpose(matmul(where(L, A, 0), B))", 0, "A: normal(0, 1); B: triu()"},
    {"narrow_sums", 0, "A[N, N]: f32; B[N, N]: f32; Y[N, N]: f32", "Y[i, j] = sum(k, where(k <= i, A[i, k], 0) * B[k, j])", 0,
     "A: tril(); B: normal(0, 1)"},
    {"narrow_sums", 0, "A[N, N]: f32; B[N, N]: f32; Y[N, N]: f32", "Y[i, j] = sum(k, where(k <= i, A[i, k], 0) * B[k, j])", 0, NULL},
    {"narrow_sums", 0, "A[N, N]: f32; B[N, N]: f32; Y[N, N]: f32", "Y[i, j] = sum(k, where(k <= i, A[i, k], 1) * B[k, j])", 0,
     "A: tril(); B: tril()"},
    {"phases", 1, "X[N]: f32; F[3]: f32; Y[2 * N + 1]: f32",
     "Y[i] = sum(k in 0:3, where((i + 1 - k) % 2 == 0, pad(X, 0)[(i + 1 - k) // 2] * F[k], 0))", 0, NULL},
    {"phases", 0, "X[N]: f32; F[3]: f32; Y[N]: f32", "Y[i] = sum(k in 0:3, where(i + 1 - k >= 0, pad(X, 0)[i + 1 - k] * F[k], 0))", 0,
     NULL},
    {"groups", 1, "X[M, N]: f32; F[M, 2, 3]: f32; Y[2 * M, N]: f32",
     "Y[o, x] = sum(k in 0:3, pad(X, 0)[o // 2, x + k - 1] * F[o // 2, o % 2, k])", 0, NULL},
    {"groups", 0, "X[M, N]: f32; F[M, N]: f32; Y[M, N]: f32", "Y[o, x] = sum(k in 0:3, pad(X, 0)[o, x + k - 1] * F[o, x])", 0, NULL},
    {"packs", 1, "X[M, N]: f32; F[K, M, 3]: f32; Y[K, N]: f32", "Y[o, x] = sum(c, r in 0:3, pad(X, 0)[c, x + r - 1] * F[o, c, r])", 0,
     NULL},
    {"packs", 0, "X[M, N]: f32; F[K, M]: f32; Y[K, N]: f32", "Y[o, x] = sum(c, X[c, x] * F[o, c])", 0, NULL},
};

static IrModule *operator_of(Arena *arena, const Example *e) {
    const char *text = arena_printf(arena, "operator o {\nsymbols: M, N, K, P\ntensors: %s\n%s\n%s\n}\n", e->tensors, e->equations,
                                    e->data ? arena_printf(arena, "case c { M=5, N=6, K=4, P=3; %s }", e->data) : "");
    DiagList diags;
    SourceMap *sources = source_map_create(arena);
    diag_list_init(&diags, arena, sources);
    uint32_t id = source_add(sources, "o.sketch", text, strlen(text));
    File *file = frontend_parse(arena, sources, id, &diags);
    IrModule *m = frontend_check(arena, file, &(FrontendOptions){0}, &diags) ? frontend_build(arena, sources, file, &diags) : NULL;
    if (!m) {
        show_diags(&diags);
        CHECK(false);
    }
    return m;
}

static void check_module(Arena *arena, const IrModule *m) {
    DiagList diags;
    diag_list_init(&diags, arena, source_map_create(arena));
    if (ir_verify(m, &diags)) return;
    Str text;
    str_init(&text);
    ir_print(m, &text);
    fputs(text.data, stderr);
    show_diags(&diags);
    CHECK(false);
}

static EvalResult values_of(Arena *arena, const IrFunc *f, int64_t *count) {
    SymbolValue values[] = {{"M", M}, {"N", N}, {"K", K}, {"P", P}};
    Evaluator *ev = graph_bind(arena, f, graph_sizes(arena, f, COUNT_OF(values), values), "normal", true, false, NULL);
    *count = evaluator_output(ev, 0)->elements;
    return graph_all(arena, ev, 0);
}

/* Both in double: what is grouped otherwise differs in the last places of a double, and what is exact nowhere. */
static void same_values(const EvalResult *a, const EvalResult *b, int64_t count, RewriteError error) {
    for (int64_t i = 0; i < count; i++) {
        double off = fabs(a->value[i] - b->value[i]);
        bool same = error == REWRITE_EXACT ? off == 0 : off <= 1e-12 * (1 + fabs(a->value[i]));
        if (!same) fprintf(stderr, "element %d: %.17g, then %.17g\n", (int)i, a->value[i], b->value[i]);
        CHECK(same && !b->undecided[i]);
    }
}

static const Rewrite *row_named(const char *name) {
    for (size_t i = 0; i < rewrite_count(); i++)
        if (strcmp(rewrite_row(i)->name, name) == 0) return rewrite_row(i);
    fprintf(stderr, "there is no rewrite %s\n", name);
    CHECK(false);
    return NULL;
}

static void count_op(void *count, IrOp *op) {
    (void)op;
    ++*(int *)count;
}

static void try_example(const Example *e) {
    Arena *arena = arena_create();
    IrModule *m = operator_of(arena, e);
    IrFunc *f = m->first, *copy = ir_func_clone(f, "copy");
    RewriteCounts counts =
        rewrite_graph(arena, copy, &(RewriteOptions){.only = e->rewrite, .workspaces = strstr(e->rewrite, "by_parts") != NULL});
    const Rewrite *row = row_named(e->rewrite);
    size_t at = 0;
    while (rewrite_row(at) != row) at++;
    int ops = 0;
    ir_walk(copy->body, count_op, &ops);
    if (counts.times[at] != e->times || (e->ops && e->ops != ops)) {
        Str text;
        str_init(&text);
        ir_print_func(copy, &text);
        fprintf(stderr, "%s of \"%s\": %u times, %d operations\n%s", e->rewrite, e->equations, counts.times[at], ops, text.data);
        CHECK(false);
    }
    check_module(arena, m);
    int64_t count, again;
    EvalResult before = values_of(arena, f, &count), after = values_of(arena, copy, &again);
    CHECK(count == again && count > 0);
    same_values(&before, &after, count, row->error);
    arena_destroy(arena);
}

/* Of a product whose factors are stored (packs), positions of rows that are shorter than a tile become one index: the value is the same, and long rows stay. */
static void test_planes(void) {
    static const Example e = {"planes",
                              1,
                              "X[M, P, N, K]: f32; F[P, P, 3, 3]: f32; Y[M, P, N, K]: f32",
                              "Y[n, o, y, x] = sum(c, q in 0:3, r in 0:3, pad(X, 0)[n, c, y + q - 1, x + r - 1] * F[o, c, q, r])",
                              0,
                              "X: normal(0, 1)"};
    for (int turn = 0; turn < 2; turn++) {
        Arena *arena = arena_create();
        IrModule *m = operator_of(arena, &e);
        IrFunc *f = m->first, *copy = ir_func_clone(f, "copy");
        RewriteCounts packs = rewrite_graph(arena, copy, &(RewriteOptions){.only = "packs"});
        RewriteCounts planes = rewrite_graph(arena, copy, &(RewriteOptions){.only = "planes", .tile = turn ? 64 : 4});
        CHECK(rewrite_counts_all(&packs) == 1 && rewrite_counts_all(&planes) == (turn ? 1 : 0));
        check_module(arena, m);
        int64_t count, again;
        EvalResult before = values_of(arena, f, &count), after = values_of(arena, copy, &again);
        CHECK(count == again && count > 0);
        same_values(&before, &after, count, REWRITE_ORDER);
        arena_destroy(arena);
    }
}

/* Every row has an example where it fires, and one where it does not. */
static void test_all_rows_have_examples(void) {
    for (size_t i = 0; i < rewrite_count(); i++) {
        bool fires = false, rests = false;
        for (size_t k = 0; k < COUNT_OF(examples); k++) {
            if (strcmp(examples[k].rewrite, rewrite_row(i)->name) != 0) continue;
            fires |= examples[k].times > 0;
            rests |= examples[k].times == 0;
        }
        if (strcmp(rewrite_row(i)->name, "planes") == 0) continue; /* test_planes */
        if (!fires || !rests) fprintf(stderr, "no example of %s\n", rewrite_row(i)->name);
        CHECK(fires && rests);
    }
}

/* What takes a share of the bound says how much, and only that. */
static void test_errors(void) {
    for (size_t i = 0; i < rewrite_count(); i++) {
        const Rewrite *row = rewrite_row(i);
        CHECK(row->error == REWRITE_SHARE ? row->share > 0 && row->share <= 1 : row->share == 0);
        CHECK(row->summary[strlen(row->summary) - 1] == '.');
    }
}

int main(void) {
    for (size_t i = 0; i < COUNT_OF(examples); i++) try_example(&examples[i]);
    test_all_rows_have_examples();
    test_planes();
    test_errors();
    return 0;
}
