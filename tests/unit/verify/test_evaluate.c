/* The evaluator against results worked out by hand in long double, and its bounds against f32
 * arithmetic done in other orders. */
#include "graph.h"

#include <math.h>

static const char *const rms_norm = "sketchc.ir 1\n"
                                    "func @g graph (tensor %X: tensor<[B, F, D] x f32> in, symbol %B: index, symbol %F: index, "
                                    "symbol %D: index, scalar %eps: f32 = 1e-05) {\n"
                                    "  %q = mul(%X, %X) : tensor<[B, F, D] x f32>\n"
                                    "  %m = graph.reduce(%q) {kind = \"mean\", axes = [1], keepdim = true} : tensor<[B, 1, D] x "
                                    "f32>\n"
                                    "  %s = add(%m, %eps) : tensor<[B, 1, D] x f32>\n"
                                    "  %r = sqrt(%s) : tensor<[B, 1, D] x f32>\n"
                                    "  %w = graph.broadcast(%r) {axes = [0, 1, 2]} : tensor<[B, F, D] x f32>\n"
                                    "  %Y = div(%X, %w) : tensor<[B, F, D] x f32>\n"
                                    "  return(%Y) {names = [\"Y\"]}\n}\n";

static void check_rms_norm(void) {
    Arena *arena = arena_create();
    const IrFunc *f = graph_parse(arena, rms_norm)->first;
    const Sizes *sizes = graph_sizes(arena, f, 3, (SymbolValue[]){{"B", 3}, {"F", 50}, {"D", 41}});
    EvalInput *in;
    Evaluator *ev = graph_bind(arena, f, sizes, "normal", true, false, &in);
    EvalResult r = graph_all(arena, ev, 0);
    const float *x = in[0].data;
    CHECK_STR(evaluator_output(ev, 0)->name, "Y");
    for (int b = 0; b < 3; b++)
        for (int d = 0; d < 41; d++) {
            long double sum = 0;
            float sum32 = 0;
            for (int k = 0; k < 50; k++) {
                float v = x[(b * 50 + k) * 41 + d];
                sum += (long double)v * v;
                sum32 += v * v;
            }
            for (int k = 0; k < 50; k++) {
                int i = (b * 50 + k) * 41 + d;
                long double want = x[i] / sqrtl(sum / 50 + 1e-5f);
                float got = x[i] / sqrtf(sum32 / 50 + 1e-5f);
                CHECK(fabsl(want - r.value[i]) <= 1e-14L * fabsl(want));
                CHECK(fabs(got - r.value[i]) <= r.bound[i]);
                CHECK(r.bound[i] < 30 * 0x1p-24 * fabs(r.value[i]) && !r.undecided[i]);
            }
        }
    arena_destroy(arena);
}

/* On-the-fly data, scattered order and several rows: the same numbers. */
static void check_sources_agree(void) {
    Arena *arena = arena_create();
    const IrFunc *f = graph_parse(arena, rms_norm)->first;
    const Sizes *sizes = graph_sizes(arena, f, 3, (SymbolValue[]){{"B", 4}, {"F", 301}, {"D", 9}});
    Evaluator *memory = graph_bind(arena, f, sizes, "uniform", true, false, NULL);
    Evaluator *made = graph_bind(arena, f, sizes, "uniform", false, false, NULL);
    EvalResult a = graph_all(arena, memory, 0);
    int64_t n = evaluator_output(made, 0)->elements;
    EvalRun *run = eval_run_create(made);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i * 7919 % n, integer;
        double value, bound;
        bool undecided;
        EvalResult one = {&value, &integer, &bound, &undecided, NULL};
        CHECK(eval_run(run, 0, 1, &at, &one));
        CHECK(fabs(value - a.value[at]) <= 1e-15 * fabs(value));
        CHECK(fabs(bound - a.bound[at]) <= 1e-12 * bound);
    }
    eval_run_destroy(run);
    arena_destroy(arena);
}

static const char *const softmax = "sketchc.ir 1\n"
                                   "func @g graph (tensor %X: tensor<[M, N] x f32> in, symbol %M: index, symbol %N: index) {\n"
                                   "  %m = graph.reduce(%X) {kind = \"max\", axes = [1], keepdim = false} : tensor<[M] x f32>\n"
                                   "  %w = graph.broadcast(%m) {axes = [0]} : tensor<[M, N] x f32>\n"
                                   "  %d = sub(%X, %w) : tensor<[M, N] x f32>\n"
                                   "  %e = exp(%d) : tensor<[M, N] x f32>\n"
                                   "  %s = graph.reduce(%e) {kind = \"add\", axes = [1], keepdim = true} : tensor<[M, 1] x f32>\n"
                                   "  %t = graph.broadcast(%s) {axes = [0, 1]} : tensor<[M, N] x f32>\n"
                                   "  %Y = div(%e, %t) : tensor<[M, N] x f32>\n"
                                   "  %h = cast(%Y) : tensor<[M, N] x f16>\n"
                                   "  return(%Y, %h) {names = [\"Y\", \"H\"]}\n}\n";

static void check_softmax(int64_t columns) {
    Arena *arena = arena_create();
    const IrFunc *f = graph_parse(arena, softmax)->first;
    const Sizes *sizes = graph_sizes(arena, f, 2, (SymbolValue[]){{"M", 3}, {"N", columns}});
    EvalInput *in;
    Evaluator *ev = graph_bind(arena, f, sizes, "normal", true, false, &in);
    EvalResult r = graph_all(arena, ev, 0), h = graph_all(arena, ev, 1);
    const float *x = in[0].data;
    for (int64_t row = 0; row < 3; row++) {
        long double sum = 0;
        float top = -INFINITY;
        for (int64_t k = 0; k < columns; k++) top = fmaxf(top, x[row * columns + k]);
        for (int64_t k = 0; k < columns; k++) sum += expl((long double)x[row * columns + k] - top);
        for (int64_t k = 0; k < columns; k++) {
            int64_t i = row * columns + k;
            long double want = expl((long double)x[i] - top) / sum;
            CHECK(fabsl(want - r.value[i]) <= 1e-12L * want);
            CHECK(r.bound[i] > 0 && h.bound[i] > 0x1p-11 * h.value[i]);
        }
    }
    arena_destroy(arena);
}

static const char *const matrix_product = "sketchc.ir 1\n"
                                          "func @g graph (tensor %A: tensor<[G, M, K] x DT> in, tensor %B: tensor<[K, N, G] x DT> in, "
                                          "symbol %G: index, symbol %M: index, symbol %K: index, symbol %N: index) {\n"
                                          "  %C = graph.contract(%A, %B) {batch_a = [0], batch_b = [2], sum_a = [2], sum_b = [0]} : "
                                          "tensor<[G, M, N] x RT>\n"
                                          "  %D = graph.generic(%G, %M, %N, %K) {outer = 3, kind = \"add\"} : tensor<[G, M, N] x RT> "
                                          "(%g: index, %m: index, %n: index, %k: index) {\n"
                                          "    %a = graph.element(%A, %g, %m, %k) : DT\n"
                                          "    %b = graph.element(%B, %k, %n, %g) : DT\n"
                                          "    %x = cast(%a) : RT\n"
                                          "    %y = cast(%b) : RT\n"
                                          "    %p = mul(%x, %y) : RT\n"
                                          "    yield(%p)\n  }\n"
                                          "  return(%C, %D) {names = [\"C\", \"D\"]}\n}\n";

static const char *with_dtypes(Arena *arena, const char *text, const char *dt, const char *rt) {
    Str out;
    str_init(&out);
    for (const char *p = text; *p; p++) {
        bool mark = (p[0] == 'D' || p[0] == 'R') && p[1] == 'T' && p[2] != '_';
        if (mark)
            str_append(&out, *p++ == 'D' ? dt : rt);
        else
            str_append_char(&out, *p);
    }
    const char *copy = arena_strdup(arena, out.data);
    str_release(&out);
    return copy;
}

static void check_product(const char *dt, const char *rt, const char *generator, int64_t k) {
    Arena *arena = arena_create();
    const IrFunc *f = graph_parse(arena, with_dtypes(arena, matrix_product, dt, rt))->first;
    SymbolValue values[] = {{"G", 2}, {"M", 9}, {"K", k}, {"N", 33}};
    EvalInput *in;
    Evaluator *ev = graph_bind(arena, f, graph_sizes(arena, f, 4, values), generator, true, strcmp(generator, "exact") == 0, &in);
    EvalResult c = graph_all(arena, ev, 0), d = graph_all(arena, ev, 1);
    bool real = dtype_is_float(evaluator_output(ev, 0)->dtype);
    for (int64_t i = 0; i < 2 * 9 * 33; i++) {
        int64_t g = i / (9 * 33), m = i / 33 % 9, n = i % 33;
        double want = 0, magnitude = 0;
        for (int64_t j = 0; j < k; j++) {
            double p = input_value(in[0].spec, (g * 9 + m) * k + j) * input_value(in[1].spec, (j * 33 + n) * 2 + g);
            want += p;
            magnitude += fabs(p);
        }
        if (!real) {
            CHECK(c.integer[i] == (int64_t)want && d.integer[i] == (int64_t)want);
            CHECK(c.bound[i] == 0);
            continue;
        }
        CHECK(fabs(c.value[i] - want) <= 1e-13 * magnitude);
        CHECK(fabs(d.value[i] - want) <= 1e-13 * magnitude);
        bool exact = strcmp(generator, "exact") == 0;
        CHECK(exact ? c.bound[i] == 0 : k == 0 || c.bound[i] >= 0x1p-24 * magnitude);
        CHECK(c.bound[i] <= 0x1p-10 * magnitude);
    }
    arena_destroy(arena);
}

static const char *const ties = "sketchc.ir 1\n"
                                "func @g graph (tensor %X: tensor<[N] x f32> in, symbol %N: index) {\n"
                                "  %three = const() {value = 3.0} : f32\n"
                                "  %one = const() {value = 1.0} : f32\n"
                                "  %t = div(%X, %three) : tensor<[N] x f32>\n"
                                "  %f = floor(%t) : tensor<[N] x f32>\n"
                                "  %i = cast(%f) : tensor<[N] x i32>\n"
                                "  %c = lt(%t, %one) : tensor<[N] x bool>\n"
                                "  %s = select(%c, %t, %one) : tensor<[N] x f32>\n"
                                "  return(%f, %i, %c, %s) {names = [\"f\", \"i\", \"c\", \"s\"]}\n}\n";

/* X is 0, 1, 2, ...: every third quotient is an integer, where either floor may come out. */
static void check_ties(void) {
    Arena *arena = arena_create();
    const IrFunc *f = graph_parse(arena, ties)->first;
    const Sizes *sizes = graph_sizes(arena, f, 1, (SymbolValue[]){{"N", 30}});
    Evaluator *ev = graph_bind(arena, f, sizes, "arange", true, false, NULL);
    EvalResult floors = graph_all(arena, ev, 0), ints = graph_all(arena, ev, 1);
    EvalResult less = graph_all(arena, ev, 2), hull = graph_all(arena, ev, 3);
    for (int i = 0; i < 30; i++) {
        bool near = i % 3 == 0 && i > 0;
        CHECK(floors.undecided[i] == near || i == 0);
        CHECK(ints.undecided[i] == near || i == 0);
        CHECK(floors.value[i] == floor(i / 3.0) && ints.integer[i] == i / 3);
        CHECK((floors.bound[i] == near || i == 0) && ints.bound[i] == floors.bound[i]);
        CHECK((floors.way[i] == (near ? EVAL_STEP_DOWN : EVAL_EITHER) || i == 0) && ints.way[i] == floors.way[i]);
        CHECK(less.undecided[i] == (i == 3));
        CHECK(!hull.undecided[i]); /* both outcomes are within the bound */
        CHECK(hull.value[i] == fmin(1, i / 3.0) && hull.bound[i] < 1e-6);
    }
    arena_destroy(arena);
}

static const char *const windows = "sketchc.ir 1\n"
                                   "func @g graph (tensor %X: tensor<[N] x f32> in, symbol %N: index) {\n"
                                   "  %three = const() {value = 3} : index\n"
                                   "  %one = const() {value = 1} : index\n"
                                   "  %Y = graph.generic(%N, %three) {outer = 1, kind = \"max\"} : tensor<[N] x f32> "
                                   "(%i: index, %k: index) {\n"
                                   "    %p = add(%i, %k) : index\n"
                                   "    %q = sub(%p, %one) : index\n"
                                   "    %v = graph.element(%X, %q) {pad = -inf} : f32\n"
                                   "    yield(%v)\n  }\n"
                                   "  %R = graph.generic(%N) {outer = 1} : tensor<[N] x f32> (%j: index) {\n"
                                   "    %n = sub(%N, %one) : index\n"
                                   "    %r = sub(%n, %j) : index\n"
                                   "    %w = graph.element(%Y, %r) : f32\n"
                                   "    yield(%w)\n  }\n"
                                   "  %T = graph.reduce(%R) {kind = \"mul\", axes = [0]} : tensor<[] x f32>\n"
                                   "  %U = graph.reduce(%R) {kind = \"min\", axes = [0]} : tensor<[] x f32>\n"
                                   "  return(%R, %T, %U) {names = [\"R\", \"T\", \"U\"]}\n}\n";

static void check_windows(void) {
    Arena *arena = arena_create();
    const IrFunc *f = graph_parse(arena, windows)->first;
    const Sizes *sizes = graph_sizes(arena, f, 1, (SymbolValue[]){{"N", 12}});
    EvalInput *in;
    Evaluator *ev = graph_bind(arena, f, sizes, "normal", true, false, &in);
    EvalResult r = graph_all(arena, ev, 0), t = graph_all(arena, ev, 1), u = graph_all(arena, ev, 2);
    const float *x = in[0].data;
    double product = 1, least = INFINITY;
    for (int i = 0; i < 12; i++) {
        int at = 11 - i;
        double want = x[at];
        if (at > 0) want = fmax(want, x[at - 1]);
        if (at < 11) want = fmax(want, x[at + 1]);
        CHECK(r.value[i] == want && r.bound[i] == 0);
        product *= want;
        least = fmin(least, want);
    }
    CHECK(fabs(t.value[0] - product) < 1e-12 * fabs(product) && u.value[0] == least);
    arena_destroy(arena);
}

static void check_empty(void) {
    Arena *arena = arena_create();
    const IrFunc *f = graph_parse(arena, rms_norm)->first;
    const Sizes *sizes = graph_sizes(arena, f, 3, (SymbolValue[]){{"B", 3}, {"F", 0}, {"D", 4}});
    Evaluator *ev = graph_bind(arena, f, sizes, "normal", true, false, NULL);
    CHECK(evaluator_output(ev, 0)->elements == 0);
    graph_all(arena, ev, 0);
    arena_destroy(arena);
}

static void check_sizes(void) {
    Arena *arena = arena_create();
    const char *text = "sketchc.ir 1\n"
                       "func @g graph (tensor %X: tensor<[H] x f32> in, symbol %N: index, "
                       "symbol %H: index = N//2)\n    require -N + 8 >= 0 \"N <= 8\"\n{\n"
                       "  return(%X) {names = [\"Y\"]}\n}\n";
    const IrFunc *f = graph_parse(arena, text)->first;
    const char *error = NULL;
    SymbolValue six = {"N", 6}, nine = {"N", 9};
    const Sizes *ok = sizes_bind(arena, f, &(Sizes){1, &six}, &error);
    int64_t h = 0;
    CHECK(ok && sizes_eval(ok, aff_sym(f->module->affs, "H"), &h) && h == 3);
    CHECK(!sizes_bind(arena, f, &(Sizes){1, &nine}, &error) && strstr(error, "N <= 8"));
    CHECK(!sizes_bind(arena, f, &(Sizes){0, NULL}, &error) && strstr(error, "N"));
    arena_destroy(arena);
}

static const char *const plain_sum = "sketchc.ir 1\n"
                                     "func @g graph (tensor %X: tensor<[N] x f32> in, symbol %N: index) {\n"
                                     "  %Y = graph.reduce(%X) {kind = \"add\", axes = [0], keepdim = false} : tensor<[] x f32>\n"
                                     "  return(%Y) {names = [\"Y\"]}\n}\n";

/* 1 and then terms below half of its last place, which f32 in order loses one like the other: equal
 * ones by the worst case's bound, also with zeros between; different ones as a random walk. */
static void check_equal_terms(void) {
    enum { N = 256 };
    for (int kind = 0; kind < 3; kind++) {
        Arena *arena = arena_create();
        const IrFunc *f = graph_parse(arena, plain_sum)->first;
        const Sizes *sizes = graph_sizes(arena, f, 1, (SymbolValue[]){{"N", N}});
        float x[N] = {1}, got = 0;
        for (int i = 1; i < N; i++) x[i] = kind == 1 && i % 2 ? 0 : kind == 2 ? (float)(0x1p-26 + i * 0x1p-40) : 0x1.8p-25f;
        for (int i = 0; i < N; i++) got += x[i];
        Evaluator *ev = graph_bind_data(arena, f, sizes, (const void *[]){x}, false);
        EvalResult r = graph_all(arena, ev, 0);
        double random_walk = (8 + 4 * sqrt(N)) * 0x1p-24 * r.value[0];
        CHECK(fabs(got - r.value[0]) <= r.bound[0] || kind == 2);
        CHECK(kind == 2 ? r.bound[0] < 1.05 * random_walk : r.bound[0] > 1.5 * random_walk);
        CHECK(r.bound[0] < 1.01 * N * 0x1p-24 * r.value[0]);
        arena_destroy(arena);
    }
}

static float flush(float x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

/* Additions in a GPU's memory take denormals for zero: within the bound when it is told, and no
 * more is let pass than that. */
static void check_flushed_sum(void) {
    enum { N = 31 };
    for (int kind = 0; kind < 3; kind++) {
        Arena *arena = arena_create();
        const IrFunc *f = graph_parse(arena, plain_sum)->first;
        float x[N] = {0}, got = 0;
        for (int i = 0; i < N; i++) x[i] = kind == 0 ? 0x1p-127f : kind == 1 ? (i % 2 ? -0x1.8p-126f : 0x1p-125f) : 1;
        for (int i = 0; i < N; i++) got = flush(flush(got) + flush(x[i]));
        EvalInput in = {.data = x};
        EvalBinding binding = {.sizes = graph_sizes(arena, f, 1, (SymbolValue[]){{"N", N}}), .input_count = 1, .inputs = &in};
        CHECK(shape_of(binding.sizes, "X", f->body->args[0]->type, &in.shape));
        double bounds[2], value = 0;
        for (int told = 0; told < 2; told++) {
            const char *error = NULL;
            binding.flushes = told;
            EvalResult r = graph_all(arena, evaluator_create(arena, f, &binding, &error), 0);
            value = r.value[0];
            bounds[told] = r.bound[0];
        }
        CHECK(fabs(got - value) <= bounds[1]);
        CHECK(kind == 2 || fabs(got - value) > bounds[0]);
        CHECK(bounds[1] - bounds[0] <= 3 * N * 0x1p-126);
        arena_destroy(arena);
    }
}

static const char *const begun_sum = "sketchc.ir 1\n"
                                     "func @g graph (tensor %X: tensor<[] x f32> in, tensor %T: tensor<[N] x f32> in, symbol %N: "
                                     "index) {\n"
                                     "  %s = graph.reduce(%T) {kind = \"add\", axes = [0], keepdim = false} : tensor<[] x f32>\n"
                                     "  %Y = add(%X, %s) : tensor<[] x f32>\n"
                                     "  return(%Y) {names = [\"Y\"]}\n}\n";

/* X plus a sum, in f32 from X on: each addition rounds at X's size. Without terms that round the
 * bound is one rounding, and zero on small integers. */
static void check_begun_sum(void) {
    enum { N = 16 };
    for (int kind = 0; kind < 3; kind++) {
        Arena *arena = arena_create();
        const IrFunc *f = graph_parse(arena, begun_sum)->first;
        const Sizes *sizes = graph_sizes(arena, f, 1, (SymbolValue[]){{"N", N}});
        float x = kind == 2 ? 3 : -0x1.3p-1f, got = x, t[N] = {0};
        for (int i = 0; i < N && kind != 1; i++) t[i] = kind == 2 ? (float)i : (float)(0x1p-26 + i * 0x1p-40);
        for (int i = 0; i < N; i++) got += t[i];
        const void *data[] = {&x, t};
        EvalResult r = graph_all(arena, graph_bind_data(arena, f, sizes, data, kind == 2), 0);
        CHECK(fabs(got - r.value[0]) <= r.bound[0]);
        CHECK(r.bound[0] < (kind ? 2 : N + 2) * 0x1p-24 * fabs(x));
        CHECK(kind < 2 || r.bound[0] == 0);
        arena_destroy(arena);
    }
}

int main(void) {
    check_equal_terms();
    check_flushed_sum();
    check_begun_sum();
    check_rms_norm();
    check_sources_agree();
    static const int64_t columns[] = {1, 31, 255, 256, 257, 1000};
    for (size_t i = 0; i < COUNT_OF(columns); i++) check_softmax(columns[i]);
    static const int64_t depths[] = {0, 1, 17, 300, 2000};
    for (size_t i = 0; i < COUNT_OF(depths); i++) {
        check_product("f32", "f32", "normal", depths[i]);
        check_product("f16", "f32", "normal", depths[i]);
        check_product("f32", "f32", "exact", depths[i]);
        check_product("bf16", "f32", "exact", depths[i]);
        check_product("i8", "i32", "exact", depths[i]);
        check_product("i64", "i64", "exact", depths[i]);
    }
    check_ties();
    check_windows();
    check_empty();
    check_sizes();
    return 0;
}
