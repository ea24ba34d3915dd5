/* Operations along axes in the evaluator: values worked out by hand, ties, bounds. */
#include "graph.h"
#include "scalars.h"

#include <math.h>

static Evaluator *bind(Arena *arena, const char *text, int64_t m, int64_t n, const void *const *data, bool exact) {
    const IrFunc *f = graph_parse(arena, text)->first;
    SymbolValue values[] = {{"M", m}, {"N", n}};
    return graph_bind_data(arena, f, graph_sizes(arena, f, 2, values), data, exact);
}

#define HEAD                                                                                                                               \
    "sketchc.ir 1\n"                                                                                                                       \
    "func @g graph (tensor %X: tensor<[M, N] x f32> in, symbol %M: index, symbol %N: index) {\n"

static void check_scans(void) {
    static const char *const text = HEAD "  %a = graph.scan(%X) {kind = \"add\", axis = 1} : tensor<[M, N] x f32>\n"
                                         "  %b = graph.scan(%X) {kind = \"add\", axis = 1, reverse = true, exclusive = true} : "
                                         "tensor<[M, N] x f32>\n"
                                         "  %c = graph.scan(%X) {kind = \"mul\", axis = 0} : tensor<[M, N] x f32>\n"
                                         "  %d = graph.scan(%X) {kind = \"max\", axis = 1, exclusive = true} : tensor<[M, N] x "
                                         "f32>\n"
                                         "  return(%a, %b, %c, %d) {names = [\"a\", \"b\", \"c\", \"d\"]}\n}\n";
    static const float x[] = {1, 2, -3, 4, 0.5F, -1, 2, 8};
    static const double want[4][8] = {{1, 3, 0, 4, 0.5, -0.5, 1.5, 9.5},
                                      {3, 1, 4, 0, 9, 10, 8, 0},
                                      {1, 2, -3, 4, 0.5, -2, -6, 32},
                                      {-INFINITY, 1, 2, 2, -INFINITY, 0.5, 0.5, 2}};
    Arena *arena = arena_create();
    Evaluator *ev = bind(arena, text, 2, 4, (const void *[]){x}, false);
    for (unsigned o = 0; o < 4; o++) {
        EvalResult r = graph_all(arena, ev, o);
        for (int i = 0; i < 8; i++) {
            CHECK(r.value[i] == want[o][i] && !r.undecided[i]);
            CHECK(o == 3 ? r.bound[i] == 0 : r.bound[i] < 1e-5);
        }
        /* A sum of one term is bounded by it, of four by the four. */
        if (o == 0) CHECK(r.bound[3] > r.bound[0]);
    }
    arena_destroy(arena);
}

/* Honest f32 sums of a long row in order and in blocks stay within the bound; dropping a term in
 * the middle does not. */
static void check_scan_bound(void) {
    static const char *const text = HEAD "  %a = graph.scan(%X) {kind = \"add\", axis = 1} : tensor<[M, N] x f32>\n"
                                         "  return(%a) {names = [\"a\"]}\n}\n";
    enum { N = 3000, BLOCK = 64 };
    Arena *arena = arena_create();
    float *x = ARENA_ARRAY(arena, float, N);
    for (int i = 0; i < N; i++) x[i] = (float)(i * 7919 % 1000) / 999.0F - 0.3F;
    Evaluator *ev = bind(arena, text, 1, N, (const void *[]){x}, false);
    EvalResult r = graph_all(arena, ev, 0);
    float running = 0, blocks = 0, inside = 0, missing = 0;
    int caught = 0;
    for (int i = 0; i < N; i++) {
        running += x[i];
        if (i % BLOCK == 0) blocks += inside, inside = 0;
        inside += x[i];
        missing += i == 1500 ? 0 : x[i];
        CHECK(fabs(running - r.value[i]) <= r.bound[i]);
        CHECK(fabs(blocks + inside - r.value[i]) <= r.bound[i]);
        caught += fabs(missing - r.value[i]) > r.bound[i];
    }
    CHECK(caught == N - 1500);
    arena_destroy(arena);
}

static void check_arg(void) {
    static const char *const text = HEAD "  %a = graph.arg(%X) {kind = \"max\", axis = 1} : tensor<[M] x i64>\n"
                                         "  %b = graph.arg(%X) {kind = \"min\", axis = 0, keepdim = true} : tensor<[1, N] x i64>\n"
                                         "  %three = const() {value = 3.0} : f32\n"
                                         "  %q = div(%X, %three) : tensor<[M, N] x f32>\n"
                                         "  %c = graph.arg(%q) {kind = \"max\", axis = 1} : tensor<[M] x i64>\n"
                                         "  return(%a, %b, %c) {names = [\"a\", \"b\", \"c\"]}\n}\n";
    static const float x[] = {1, 5, 5, -2, 7, NAN, 9, NAN, 4, 3, 2, 1};
    static const int64_t rows[] = {1, 1, 0}, columns[] = {0, 1, 2, 1};
    Arena *arena = arena_create();
    Evaluator *ev = bind(arena, text, 3, 4, (const void *[]){x}, false);
    EvalResult a = graph_all(arena, ev, 0), b = graph_all(arena, ev, 1), c = graph_all(arena, ev, 2);
    for (int i = 0; i < 3; i++) CHECK(a.integer[i] == rows[i] && !a.undecided[i] && !a.bound[i]);
    for (int i = 0; i < 4; i++) CHECK(b.integer[i] == columns[i] && !b.undecided[i]);
    CHECK(c.undecided[0] && c.bound[0] == INFINITY); /* two quotients of one value */
    CHECK(c.integer[2] == 0 && !c.undecided[2]);
    Evaluator *none = bind(arena, text, 3, 0, (const void *[]){x}, false);
    CHECK(graph_all(arena, none, 0).integer[1] == -1);
    arena_destroy(arena);
}

static void check_sort(void) {
    static const char *const text = HEAD "  %v, %i = graph.sort(%X) {axis = 1} : tensor<[M, N] x f32>, tensor<[M, N] x i64>\n"
                                         "  %w, %k = graph.sort(%X) {axis = 1, descending = true} : tensor<[M, N] x f32>, "
                                         "tensor<[M, N] x i64>\n"
                                         "  %three = const() {value = 3.0} : f32\n"
                                         "  %q = div(%X, %three) : tensor<[M, N] x f32>\n"
                                         "  %s, %t = graph.sort(%q) {axis = 1} : tensor<[M, N] x f32>, tensor<[M, N] x i64>\n"
                                         "  return(%v, %i, %w, %k, %s, %t) {names = [\"v\", \"i\", \"w\", \"k\", \"s\", \"t\"]}\n"
                                         "}\n";
    static const float x[] = {3, 1, NAN, 1, -2};
    static const double up[] = {-2, 1, 1, 3, NAN}, down[] = {3, 1, 1, -2, NAN};
    static const int64_t up_at[] = {4, 1, 3, 0, 2}, down_at[] = {0, 1, 3, 4, 2};
    Arena *arena = arena_create();
    Evaluator *ev = bind(arena, text, 1, 5, (const void *[]){x}, false);
    EvalResult r[6];
    for (unsigned o = 0; o < 6; o++) r[o] = graph_all(arena, ev, o);
    for (int i = 0; i < 5; i++) {
        CHECK(i == 4 ? isnan(r[0].value[i]) && isnan(r[2].value[i]) : r[0].value[i] == up[i] && r[2].value[i] == down[i]);
        CHECK(r[1].integer[i] == up_at[i] && !r[1].undecided[i]);
        CHECK(r[3].integer[i] == down_at[i] && !r[3].undecided[i]);
        CHECK(!r[4].undecided[i] && (i == 4 || r[4].bound[i] > 0));
        CHECK(r[5].undecided[i] == (i == 1 || i == 2)); /* equal quotients */
    }
    arena_destroy(arena);
}

static void check_moves(void) {
    static const char *const text = "sketchc.ir 1\n"
                                    "func @g graph (tensor %X: tensor<[M, N] x i32> in, tensor %Z: tensor<[M, 2] x i32> in, "
                                    "symbol %M: index, symbol %N: index) {\n"
                                    "  %c = graph.concat(%X, %Z, %X) {axis = 1} : tensor<[M, 2*N + 2] x i32>\n"
                                    "  %f = graph.flip(%c) {axis = 1} : tensor<[M, 2*N + 2] x i32>\n"
                                    "  %i = graph.iota() {axis = 1} : tensor<[M, N] x i32>\n"
                                    "  %s = add(%X, %i) : tensor<[M, N] x i32>\n"
                                    "  %o = graph.reduce(%s) {kind = \"or\", axes = [1]} : tensor<[M] x i32>\n"
                                    "  %a = graph.reduce(%s) {kind = \"and\", axes = [0, 1]} : tensor<[] x i32>\n"
                                    "  return(%f, %s, %o, %a) {names = [\"f\", \"s\", \"o\", \"a\"]}\n}\n";
    static const int32_t x[] = {1, 2, 3, 7, 6, 5}, z[] = {10, 11, 12, 13};
    static const int64_t want[] = {3, 2, 1, 11, 10, 3, 2, 1, 5, 6, 7, 13, 12, 5, 6, 7};
    Arena *arena = arena_create();
    Evaluator *ev = bind(arena, text, 2, 3, (const void *[]){x, z}, false);
    EvalResult f = graph_all(arena, ev, 0), s = graph_all(arena, ev, 1);
    for (int i = 0; i < 16; i++) CHECK(f.integer[i] == want[i] && f.bound[i] == 0);
    for (int i = 0; i < 6; i++) CHECK(s.integer[i] == x[i] + i % 3);
    EvalResult o = graph_all(arena, ev, 2), a = graph_all(arena, ev, 3);
    CHECK(o.integer[0] == (1 | 3 | 5) && o.integer[1] == 7 && a.integer[0] == 1);
    arena_destroy(arena);
}

static const char *const lookup = "sketchc.ir 1\n"
                                  "func @g graph (tensor %X: tensor<[M] x f32> in, tensor %K: tensor<[N] x i32> in, "
                                  "symbol %M: index, symbol %N: index) {\n"
                                  "  %r = graph.generic(%N) {outer = 1} : tensor<[N] x f32> (%i: index) {\n"
                                  "    %k = graph.element(%K, %i) : i32\n"
                                  "    %j = cast(%k) : index\n"
                                  "    %v = graph.element(%X, %j) PAD: f32\n"
                                  "    %zero = const() {value = 0} : i32\n"
                                  "    %c = le(%zero, %k) : bool\n"
                                  "    %none = const() {value = 0.5} : f32\n"
                                  "    %w = select(%c, %v, %none) : f32\n"
                                  "    yield(%w)\n  }\n"
                                  "  return(%r) {names = [\"r\"]}\n}\n";

/* An index read from a tensor: outside is an error unless padded, or not taken by a select. */
static void check_lookup(void) {
    static const float x[] = {10, 20, 30};
    static const int32_t inside[] = {2, -1, 0, 1}, outside[] = {2, -1, 3, 1};
    for (int padded = 0; padded < 2; padded++) {
        Arena *arena = arena_create();
        Str text;
        str_init(&text);
        const char *at = strstr(lookup, "PAD");
        str_printf(&text, "%.*s%s%s", (int)(at - lookup), lookup, padded ? "{pad = -4.0} " : "", at + 3);
        for (int bad = 0; bad < 2; bad++) {
            const void *data[] = {x, bad ? outside : inside};
            Evaluator *ev = bind(arena, text.data, 3, 4, data, false);
            EvalRun *run = eval_run_create(ev);
            static const int64_t all[] = {0, 1, 2, 3};
            double value[4], bound[4];
            int64_t integer[4];
            bool undecided[4];
            EvalResult r = {value, integer, bound, undecided, NULL};
            CHECK(eval_run(run, 0, 4, all, &r) == (!bad || padded));
            CHECK(value[0] == 30 && value[1] == 0.5 && value[3] == 20);
            if (padded && bad) CHECK(value[2] == -4);
            eval_run_destroy(run);
        }
        str_release(&text);
        arena_destroy(arena);
    }
}

/* The known answers of the paper's reference implementation. */
static void check_philox(void) {
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } KNOWN[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < COUNT_OF(KNOWN); i++) {
        uint32_t out[4];
        random_philox(KNOWN[i].counter, KNOWN[i].key, out);
        for (int k = 0; k < 4; k++) CHECK(out[k] == KNOWN[i].out[k]);
    }
    CHECK(random_uniform(DTYPE_F32, 0, 0) == (0x6627e8d5 >> 8) * 0x1p-24);
    CHECK(random_uniform(DTYPE_F16, 0, 0) == (0x6627e8d5 >> 21) * 0x1p-11);
}

static void check_random(void) {
    static const char *const text = "sketchc.ir 1\n"
                                    "func @g graph (symbol %M: index, symbol %N: index) {\n"
                                    "  %seed = const() {value = 7} : i64\n"
                                    "  %at = const() {value = 100} : i64\n"
                                    "  %r = graph.random(%seed, %at) : tensor<[M, N] x f32>\n"
                                    "  return(%r) {names = [\"r\"]}\n}\n";
    Arena *arena = arena_create();
    Evaluator *ev = bind(arena, text, 3, 50, NULL, false);
    EvalResult r = graph_all(arena, ev, 0);
    double sum = 0;
    for (int i = 0; i < 150; i++) {
        CHECK(r.value[i] == random_uniform(DTYPE_F32, 7, 100 + i) && r.bound[i] == 0);
        CHECK(r.value[i] >= 0 && r.value[i] < 1);
        sum += r.value[i];
    }
    CHECK(sum > 60 && sum < 90);
    arena_destroy(arena);
}

int main(void) {
    check_scans();
    check_scan_bound();
    check_arg();
    check_sort();
    check_moves();
    check_lookup();
    check_philox();
    check_random();
    return 0;
}
