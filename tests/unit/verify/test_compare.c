/* Each named check fails for its own fault and for nothing else. With the argument `json`: prints
 * a verdict, for the schema's check. */
#include "graph.h"

#include <math.h>

static const char *const add_text = "sketchc.ir 1\n"
                                    "func @g graph (tensor %A: tensor<[N] x f32> in, tensor %B: tensor<[N] x f32> in, "
                                    "symbol %N: index) {\n"
                                    "  %c = add(%A, %B) : tensor<[N] x f32>\n"
                                    "  return(%c) {names = [\"C\"]}\n}\n";

typedef struct {
    Arena *arena;
    Evaluator *ev;
    EvalInput *in;
    float *got;
    size_t n;
} Fixture;

static Fixture make(const char *text, const char *generator, int64_t n, bool exact) {
    Fixture x = {.arena = arena_create(), .n = (size_t)n};
    const IrFunc *f = graph_parse(x.arena, text)->first;
    const Sizes *sizes = graph_sizes(x.arena, f, 1, (SymbolValue[]){{"N", n}});
    x.ev = graph_bind(x.arena, f, sizes, generator, true, exact, &x.in);
    x.got = ARENA_ARRAY(x.arena, float, x.n + 1);
    return x;
}

static Fixture make_sum(const char *generator, int64_t n, bool exact) {
    Fixture x = make(add_text, generator, n, exact);
    const float *a = x.in[0].data, *b = x.in[1].data;
    for (size_t i = 0; i < x.n; i++) x.got[i] = a[i] + b[i];
    return x;
}

static Verdict judge(const Fixture *x, size_t budget, bool exact) {
    Verdict v;
    verdict_init(&v, x->arena);
    CompareOptions options = {.sample_budget = budget, .seed = 5, .exact = exact};
    verdict_check_output(&v, x->ev, 0, x->got, true, &options);
    return v;
}

static void expect(const Verdict *v, CheckId failing) {
    for (int i = 0; i < CHECK_COUNT; i++) {
        if (i == CHECK_PAPER_RULE || i == CHECK_ALLCLOSE || i == CHECK_RMS) continue;
        CHECK((v->checks[i].status == CHECK_FAILED) == (i == (int)failing));
    }
    CHECK(verdict_passed(v) == (failing == CHECK_COUNT));
}

static void check_honest(void) {
    Fixture x = make_sum("normal", 100000, false);
    Verdict v = judge(&x, 0, false);
    expect(&v, CHECK_COUNT);
    CHECK(v.outputs[0].checked == 100000 && v.outputs[0].rms > 0.2 && v.outputs[0].rms < 0.5);
    CHECK(v.checks[CHECK_PAPER_RULE].status == CHECK_PASSED);
    v = judge(&x, 1000, false);
    expect(&v, CHECK_COUNT);
    CHECK(v.outputs[0].checked > 300 && v.outputs[0].checked <= 1000);
    arena_destroy(x.arena);
}

/* The same error of nearly half an ulp everywhere is honest: one rounding, equal data. */
static void check_constant_data(void) {
    Fixture x = make_sum("ones", 5000, false);
    float *a = (float *)(uintptr_t)x.in[0].data, *b = (float *)(uintptr_t)x.in[1].data;
    for (size_t i = 0; i < x.n; i++) {
        a[i] = 1;
        b[i] = 0x1.fffffcp-25f;
        x.got[i] = a[i] + b[i];
    }
    Verdict v = judge(&x, 0, false);
    expect(&v, CHECK_COUNT);
    CHECK(v.outputs[0].rms > 0.6);
    arena_destroy(x.arena);
}

static void check_bound_and_poison(void) {
    Fixture x = make_sum("normal", 3000, false);
    x.got[1234] += fabsf(x.got[1234]) * 1e-6f;
    Verdict v = judge(&x, 0, false);
    CHECK(v.checks[CHECK_BOUND].status == CHECK_FAILED && v.checks[CHECK_BOUND].count == 1);
    CHECK(v.outputs[0].worst == 1234 && !verdict_passed(&v));
    poison_fill(DTYPE_F32, &x.got[1234], 3 * sizeof(float));
    v = judge(&x, 100, false);
    CHECK(v.checks[CHECK_UNWRITTEN].status == CHECK_FAILED && v.checks[CHECK_UNWRITTEN].count == 3);
    arena_destroy(x.arena);
}

/* What hardware makes of inf - inf, negated or not, is a result. */
static void check_nans_are_no_poison(void) {
    static const struct {
        Dtype dtype;
        uint64_t made[4];
    } rows[] = {
        {DTYPE_F64, {0xFFF8000000000000, 0x7FF8000000000000, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF}},
        {DTYPE_F32, {0xFFC00000, 0x7FC00000, 0x7FFFFFFF, 0xFFFFFFFF}},
        {DTYPE_BF16, {0xFFC0, 0x7FC0, 0x7FFF, 0xFFFF}},
        {DTYPE_F16, {0xFE00, 0x7E00, 0x7FFF, 0xFFFF}},
    };
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        unsigned char poison[8], element[8];
        size_t size = dtype_size(rows[r].dtype);
        poison_fill(rows[r].dtype, poison, size);
        CHECK(isnan(dtype_read(rows[r].dtype, poison)));
        for (size_t i = 0; i < 4; i++) {
            for (size_t b = 0; b < size; b++) element[b] = (unsigned char)(rows[r].made[i] >> 8 * b);
            CHECK(isnan(dtype_read(rows[r].dtype, element)) && memcmp(element, poison, size) != 0);
        }
    }
}

static void check_special_values(void) {
    Fixture x = make_sum("normal", 200, false);
    float *a = (float *)(uintptr_t)x.in[0].data, *b = (float *)(uintptr_t)x.in[1].data;
    static const float left[] = {NAN, INFINITY, INFINITY, -INFINITY, 3e38f, 0x1p-149f};
    static const float right[] = {1, 1, -INFINITY, -INFINITY, 3e38f, 0x1p-149f};
    for (size_t i = 0; i < COUNT_OF(left); i++) {
        a[i] = left[i];
        b[i] = right[i];
        x.got[i] = a[i] + b[i];
    }
    Verdict v = judge(&x, 0, false);
    CHECK(v.checks[CHECK_BOUND].status == CHECK_PASSED);
    static const float wrong[] = {0, -INFINITY, INFINITY, 0, 0, 0};
    for (size_t i = 0; i < 4; i++) {
        float right_one = x.got[i];
        x.got[i] = wrong[i];
        v = judge(&x, 0, false);
        CHECK(v.checks[CHECK_BOUND].status == CHECK_FAILED);
        x.got[i] = right_one;
    }
    arena_destroy(x.arena);
}

static void check_exact(void) {
    Fixture x = make_sum("exact", 2000, true);
    Verdict v = judge(&x, 0, true);
    expect(&v, CHECK_COUNT);
    CHECK(v.checks[CHECK_EXACT].status == CHECK_PASSED && v.outputs[0].rms == 0);
    x.got[7] = nextafterf(x.got[7], 100);
    v = judge(&x, 0, true);
    CHECK(v.checks[CHECK_EXACT].status == CHECK_FAILED);
    arena_destroy(x.arena);
    x = make_sum("normal", 2000, true); /* data that do not stay exact are refused */
    v = judge(&x, 0, true);
    CHECK(v.checks[CHECK_EXACT].status == CHECK_FAILED && v.checks[CHECK_BOUND].count == 0);
    arena_destroy(x.arena);
}

static void check_undecided(void) {
    Fixture x = make("sketchc.ir 1\n"
                     "func @g graph (tensor %A: tensor<[N] x f32> in, symbol %N: index) {\n"
                     "  %k = const() {value = 3.0} : f32\n"
                     "  %q = div(%A, %k) : tensor<[N] x f32>\n"
                     "  %c = floor(%q) : tensor<[N] x f32>\n"
                     "  return(%c) {names = [\"C\"]}\n}\n",
                     "arange", 3000, false);
    for (size_t i = 0; i < x.n; i++) x.got[i] = floorf((float)i / 3);
    Verdict v = judge(&x, 0, false);
    expect(&v, CHECK_COUNT); /* every third element is a tie, which came out as in the reference */
    for (size_t i = 3; i < x.n; i += 3) x.got[i]--;
    v = judge(&x, 0, false);
    expect(&v, CHECK_UNDECIDED);
    CHECK(v.checks[CHECK_UNDECIDED].count == 999);
    x.got[3]--; /* the next but one */
    v = judge(&x, 0, false);
    CHECK(v.checks[CHECK_BOUND].status == CHECK_FAILED && v.checks[CHECK_BOUND].count == 1);
    arena_destroy(x.arena);
}

/* i / 100 to the nearest whole number of eight bits, at most 20: one of a hundred is a tie, between k and k + 1. */
enum { QUANTISED = 3000, TOP = 20 };
typedef int (*Quantise)(int i);

static int to_nearest(int i) {
    return (int)fminf(rintf((float)i / 100), TOP);
}
static int to_other(int i) {
    return i % 100 == 50 && i / 100 < TOP ? i / 100 + (to_nearest(i) == i / 100) : to_nearest(i);
}
static int to_lower(int i) {
    return (int)fminf(floorf((float)i / 100), TOP);
}
static int to_upper(int i) {
    return (int)fminf(ceilf((float)i / 100), TOP);
}
static int to_scaled(int i) {
    return (int)fminf(rintf((float)i / 99), TOP);
}
static int to_shifted(int i) {
    return (int)fminf(rintf((float)i / 100 + 0.02f), TOP);
}
static int to_low_top(int i) {
    return (int)fminf(rintf((float)i / 100), TOP - 1);
}
static int to_one_off(int i) {
    return to_nearest(i) + (i == 149);
}
static int to_above_tie(int i) {
    return to_nearest(i) + (i == 250 ? 2 : 0);
}
static int to_below_tie(int i) {
    return to_nearest(i) - (i == 250);
}

static void check_quantised(void) {
    static const struct {
        Quantise made;
        int64_t n;
        CheckId check;
        int64_t undecided;
    } rows[] = {
        {to_nearest, QUANTISED, CHECK_COUNT, 0}, {to_other, QUANTISED, CHECK_UNDECIDED, 20}, {to_other, 480, CHECK_COUNT, 5},
        {to_other, 51, CHECK_COUNT, 1},          {to_lower, QUANTISED, CHECK_BOUND, -1},     {to_upper, QUANTISED, CHECK_BOUND, -1},
        {to_scaled, QUANTISED, CHECK_BOUND, -1}, {to_shifted, 480, CHECK_BOUND, -1},         {to_low_top, QUANTISED, CHECK_BOUND, -1},
        {to_one_off, 480, CHECK_BOUND, -1},      {to_above_tie, 480, CHECK_BOUND, -1},       {to_below_tie, 480, CHECK_BOUND, -1},
    };
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        Fixture x = make("sketchc.ir 1\n"
                         "func @g graph (tensor %A: tensor<[N] x f32> in, symbol %N: index) {\n"
                         "  %k = const() {value = 100.0} : f32\n"
                         "  %top = const() {value = 20.0} : f32\n"
                         "  %q = div(%A, %k) : tensor<[N] x f32>\n"
                         "  %r = rint(%q) : tensor<[N] x f32>\n"
                         "  %m = min(%r, %top) : tensor<[N] x f32>\n"
                         "  %c = cast(%m) : tensor<[N] x i8>\n"
                         "  return(%c) {names = [\"C\"]}\n}\n",
                         "arange", rows[r].n, false);
        for (size_t i = 0; i < x.n; i++) ((int8_t *)x.got)[i] = (int8_t)rows[r].made((int)i);
        Verdict v = judge(&x, 0, false);
        if (rows[r].check == CHECK_COUNT)
            expect(&v, CHECK_COUNT);
        else
            CHECK(v.checks[rows[r].check].status == CHECK_FAILED);
        CHECK(rows[r].undecided < 0 || v.outputs[0].undecided == rows[r].undecided);
        arena_destroy(x.arena);
    }
}

static void check_buffers(void) {
    Fixture x = make_sum("normal", 5000, false);
    Verdict v = judge(&x, 0, false);
    float *second = ARENA_ARRAY(x.arena, float, x.n);
    memcpy(second, x.got, x.n * sizeof *second);
    verdict_check_second(&v, evaluator_output(x.ev, 0), x.got, second, true);
    verdict_check_input(&v, x.in[0].spec, x.in[0].data, 2);
    expect(&v, CHECK_COUNT);
    second[17] = nextafterf(second[17], 0);
    Verdict w = v;
    verdict_check_second(&w, evaluator_output(x.ev, 0), x.got, second, false);
    CHECK(verdict_passed(&w));
    verdict_check_second(&w, evaluator_output(x.ev, 0), x.got, second, true);
    expect(&w, CHECK_SECOND_LAUNCH);
    w = v;
    poison_fill_round(DTYPE_F32, 1, second, x.n * sizeof *second);
    verdict_check_second(&w, evaluator_output(x.ev, 0), x.got, second, false);
    expect(&w, CHECK_SECOND_LAUNCH);
    w = v;
    ((float *)(uintptr_t)x.in[0].data)[4999] = 0;
    verdict_check_input(&w, x.in[0].spec, x.in[0].data, 2);
    expect(&w, CHECK_INPUT_MODIFIED);
    unsigned char zone[256];
    guard_fill(zone, sizeof zone);
    CHECK(guard_find_damage(zone, sizeof zone) == -1);
    zone[255] = 0;
    CHECK(guard_find_damage(zone, sizeof zone) == 255);
    arena_destroy(x.arena);
}

/* The paper's rule lets a whole wrong stretch pass; ours does not. */
static void check_paper_rule(void) {
    Fixture x = make_sum("normal", 10000, false);
    for (size_t i = 0; i < 9; i++) x.got[i] = 0;
    Verdict v = judge(&x, 0, false);
    CHECK(v.checks[CHECK_PAPER_RULE].status == CHECK_PASSED && !verdict_passed(&v));
    for (size_t i = 0; i < 200; i++) x.got[i] = 0;
    v = judge(&x, 0, false);
    CHECK(v.checks[CHECK_PAPER_RULE].status == CHECK_FAILED);
    CHECK(v.checks[CHECK_ALLCLOSE].status == CHECK_FAILED);
    arena_destroy(x.arena);
}

static void print_json(void) {
    Fixture x = make_sum("normal", 500, false);
    x.got[3] = INFINITY;
    Verdict v = judge(&x, 0, false);
    Str out;
    str_init(&out);
    verdict_print_json(&v, &out);
    fputs(out.data, stdout);
    str_release(&out);
    arena_destroy(x.arena);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "json") == 0) {
        print_json();
        return 0;
    }
    check_honest();
    check_constant_data();
    check_bound_and_poison();
    check_nans_are_no_poison();
    check_special_values();
    check_exact();
    check_undecided();
    check_quantised();
    check_buffers();
    check_paper_rule();
    return 0;
}
