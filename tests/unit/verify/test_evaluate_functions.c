/* Bounds of functions and of what happens at the ends of a type's range. */
#include "graph.h"
#include "scalars.h"

#include <math.h>

enum { COUNT = 400 };

/* y = OP(x * 1.1) of f32 data. */
static EvalResult evaluate(Arena *arena, const char *body, const float *x) {
    Str text;
    str_init(&text);
    str_printf(&text,
               "sketchc.ir 1\n"
               "func @g graph (tensor %%X: tensor<[N] x f32> in, symbol %%N: index) {\n%s}\n",
               body);
    const IrFunc *f = graph_parse(arena, text.data)->first;
    str_release(&text);
    const Sizes *sizes = graph_sizes(arena, f, 1, (SymbolValue[]){{"N", COUNT}});
    return graph_all(arena, graph_bind_data(arena, f, sizes, (const void *[]){x}, false), 0);
}

static const char *unary(Arena *arena, const char *name, double factor) {
    return arena_printf(arena,
                        "  %%c = const() {value = %.17g} : f32\n"
                        "  %%x = mul(%%X, %%c) : tensor<[N] x f32>\n"
                        "  %%y = %s(%%x) : tensor<[N] x f32>\n"
                        "  return(%%y) {names = [\"Y\"]}\n",
                        factor, name);
}

/* A kernel whose product is off by what rounding may do, and whose function is off by what
 * ir/math.def allows, stays within the bound. */
static void check_function(IrOpcode op, const IrMathInfo *info, double from, double to) {
    Arena *arena = arena_create();
    float x[COUNT], factor = 1.1f;
    for (int i = 0; i < COUNT; i++) x[i] = (float)(from + (to - from) * (i + 0.5) / COUNT);
    EvalResult r = evaluate(arena, unary(arena, info->name, (double)factor), x);
    for (int i = 0; i < COUNT; i++) {
        double exact = (double)x[i] * (double)factor, value = scalar_math(op, exact, 0);
        CHECK(r.value[i] == value && !r.undecided[i]);
        for (int side = -1; side <= 1; side += 2) {
            double off = scalar_math(op, exact * (1 + side * 0x1p-24), 0);
            off *= 1 + side * info->ulps_f32 * 0x1p-23;
            CHECK(fabs(off - value) <= r.bound[i]);
        }
    }
    arena_destroy(arena);
}

static void check_functions(void) {
    int checked = 0;
    for (unsigned op = 0; op < IR_OP_COUNT; op++) {
        const IrMathInfo *info = ir_math_info((IrOpcode)op);
        if (!info || op == IR_POW) continue;
        check_function((IrOpcode)op, info, 0.01, 1.3);
        check_function((IrOpcode)op, info, 2, 20);
        checked++;
    }
    CHECK(checked >= 14);
}

/* Beyond the range for certain: an infinity or NaN, and no lane is undecided. */
static void check_ends(void) {
    Arena *arena = arena_create();
    float x[COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = 100 + (float)i;
    EvalResult large = evaluate(arena, unary(arena, "exp", 1.1), x);
    EvalResult none = evaluate(arena, unary(arena, "log", -1.1), x);
    EvalResult root = evaluate(arena, unary(arena, "sqrt", -1.1), x);
    for (int i = 0; i < COUNT; i++) {
        CHECK(isinf(large.value[i]) && large.bound[i] == 0 && !large.undecided[i]);
        CHECK(isnan(none.value[i]) && none.bound[i] == 0 && !none.undecided[i]);
        CHECK(isnan(root.value[i]) && root.bound[i] == 0 && !root.undecided[i]);
    }
    arena_destroy(arena);
}

/* What is clamped to the largest number of a narrow type converts to it, decided. */
static void check_clamped(void) {
    Arena *arena = arena_create();
    float x[COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = 500 + (float)i / 3;
    EvalResult r = evaluate(arena,
                            "  %c = const() {value = 1.1} : f32\n"
                            "  %x = mul(%X, %c) : tensor<[N] x f32>\n"
                            "  %top = const() {value = 448.0} : f32\n"
                            "  %m = min(%x, %top) : tensor<[N] x f32>\n"
                            "  %y = cast(%m) : tensor<[N] x f8e4m3>\n"
                            "  return(%y) {names = [\"Y\"]}\n",
                            x);
    for (int i = 0; i < COUNT; i++) CHECK(r.value[i] == 448 && r.bound[i] == 0 && !r.undecided[i]);
    arena_destroy(arena);
}

/* A cast rounds to nearest: what is beyond half of the largest number's last place is NaN for certain, by however little. */
static void check_beyond_cast(void) {
    Arena *arena = arena_create();
    float x[COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = (i % 2 ? -1.0f : 1.0f) * (464.01f + (float)i);
    EvalResult r = evaluate(arena,
                            "  %y = cast(%X) : tensor<[N] x f8e4m3>\n"
                            "  return(%y) {names = [\"Y\"]}\n",
                            x);
    for (int i = 0; i < COUNT; i++) CHECK(isnan(r.value[i]) && r.bound[i] == 0 && !r.undecided[i]);
    arena_destroy(arena);
}

/* inf - inf and 0 * inf of numbers that may be others are no exact NaN. */
static void check_unknown_is_no_nan(void) {
    Arena *arena = arena_create();
    float x[COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = 1e-30f;
    EvalResult r = evaluate(arena,
                            "  %a = mul(%X, %X) : tensor<[N] x f32>\n"
                            "  %b = mul(%a, %a) : tensor<[N] x f32>\n"
                            "  %c = mul(%b, %b) : tensor<[N] x f32>\n"
                            "  %d = mul(%c, %c) : tensor<[N] x f32>\n"
                            "  %q = div(%X, %d) : tensor<[N] x f32>\n"
                            "  %y = mul(%q, %d) : tensor<[N] x f32>\n"
                            "  return(%y) {names = [\"Y\"]}\n",
                            x);
    for (int i = 0; i < COUNT; i++) CHECK(r.bound[i] == INFINITY && r.undecided[i]);
    arena_destroy(arena);
}

/* f8e4m3 has no infinity: what is beyond its range, or was infinite, is NaN for certain. */
static void check_no_infinity(void) {
    Arena *arena = arena_create();
    float x[COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = i % 2 ? 600 + (float)i : INFINITY;
    EvalResult r = evaluate(arena,
                            "  %y = cast(%X) : tensor<[N] x f8e4m3>\n"
                            "  %z = cast(%y) : tensor<[N] x f32>\n"
                            "  return(%z) {names = [\"Y\"]}\n",
                            x);
    for (int i = 0; i < COUNT; i++) CHECK(isnan(r.value[i]) && r.bound[i] == 0 && !r.undecided[i]);
    r = evaluate(arena,
                 "  %y = cast(%X) : tensor<[N] x f8e4m3>\n"
                 "  return(%y) {names = [\"Y\"]}\n",
                 x);
    for (int i = 0; i < COUNT; i++) CHECK(isnan(r.value[i]) && r.bound[i] == 0 && !r.undecided[i]);
    arena_destroy(arena);
}

/* Whole numbers add without an error: a conversion to an integer after them is decided. */
static void check_whole(void) {
    Arena *arena = arena_create();
    float x[COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = (float)i / 7 - 20;
    EvalResult r = evaluate(arena,
                            "  %n = rint(%X) : tensor<[N] x f32>\n"
                            "  %c = const() {value = 3.0} : f32\n"
                            "  %s = add(%n, %c) : tensor<[N] x f32>\n"
                            "  %y = cast(%s) : tensor<[N] x i8>\n"
                            "  return(%y) {names = [\"Y\"]}\n",
                            x);
    for (int i = 0; i < COUNT; i++) CHECK(r.integer[i] == (int64_t)rintf(x[i]) + 3 && r.bound[i] == 0 && !r.undecided[i]);
    arena_destroy(arena);
}

/* A softmax's weights as bf16, by which an input that is 0 where the greatest weight is is multiplied: what is left are weights below 2^-126. */
static const char weights[] = "  %%m = graph.reduce(%%X) {kind = \"max\", axes = [0], keepdim = true} : tensor<[1] x f32>\n"
                              "  %%b = graph.broadcast(%%m) {axes = [0]} : tensor<[N] x f32>\n"
                              "  %%d = sub(%%X, %%b) : tensor<[N] x f32>\n"
                              "  %%e = exp(%%d) : tensor<[N] x f32>\n"
                              "  %%s = graph.reduce(%%e) {kind = \"add\", axes = [0], keepdim = true} : tensor<[1] x f32>\n"
                              "  %%t = graph.broadcast(%%s) {axes = [0]} : tensor<[N] x f32>\n"
                              "  %%y = div(%%e, %%t) : tensor<[N] x f32>\n"
                              "  %%w = cast(%%y) : tensor<[N] x bf16>\n"
                              "%s";

/* Kernels may take such weights for 0 where they are factors alone; stored, they are told from 0, and so are factors of another making. */
static void check_weights(void) {
    Arena *arena = arena_create();
    float x[COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = i ? -88 : 0;
    static const char product[] =
        "  %v = cast(%X) : tensor<[N] x bf16>\n"
        "  %o = graph.contract(%w, %v) {batch_a = [], batch_b = [], sum_a = [0], sum_b = [0]} : tensor<[] x f32>\n";
    const char *factors = arena_printf(arena, "%s  return(%%o) {names = [\"Y\"]}\n", product);
    const char *both = arena_printf(arena, "%s  return(%%w, %%o) {names = [\"Y\", \"O\"]}\n", product);
    EvalResult r = evaluate(arena, arena_printf(arena, weights, factors), x);
    CHECK(r.value[0] < 0 && fabs(r.value[0]) > 0x1p-113 && fabs(r.value[0]) < r.bound[0] && !r.undecided[0]);
    CHECK(r.bound[0] < 0x1p-126 * COUNT * 88 * 1.01 + fabs(r.value[0]) / 8);
    r = evaluate(arena, arena_printf(arena, weights, both), x);
    for (int i = 1; i < COUNT; i++) CHECK(r.value[i] > 0 && r.bound[i] < r.value[i] / 8);
    arena_destroy(arena);
}

/* X, of ones but for these. */
static const float *ones_but(Arena *arena, float first, float second, float last, int repeated) {
    float *x = ARENA_ARRAY(arena, float, COUNT);
    for (int i = 0; i < COUNT; i++) x[i] = i < repeated ? first : i < 2 * repeated ? second : 1;
    x[COUNT - 1] = last;
    return x;
}

typedef enum { NUMBER, NO_NUMBER, IN_DOUBT } Outcome;

/* A NaN and an infinity are certain, or nothing is. */
static void check_outcome(EvalResult r, int64_t at, Outcome want, double value) {
    CHECK((r.bound[at] == INFINITY) == (want == IN_DOUBT) && r.undecided[at] == (want == IN_DOUBT));
    if (want == NUMBER) CHECK(fabs(r.value[at] - value) <= r.bound[at]);
    if (want == NO_NUMBER) CHECK(r.bound[at] == 0 && (r.value[at] == value || (isnan(value) && isnan(r.value[at]))));
}

/* An infinity times numbers is NaN where a kernel multiplies so many of these first that they are 0; a 0, where they overflow. */
static void check_order_of_products(void) {
    static const struct {
        float first, second, last;
        int repeated;
        Outcome whole, scanned;
        double value;
    } rows[] = {
        {0.1f, 1, -INFINITY, 20, NO_NUMBER, NO_NUMBER, -INFINITY},
        {0.1f, 1, -INFINITY, 60, IN_DOUBT, IN_DOUBT, 0},
        {0.1f, 10, INFINITY, 60, IN_DOUBT, IN_DOUBT, 0},   /* which multiply to 1 */
        {0.001f, 1, INFINITY, 200, IN_DOUBT, IN_DOUBT, 0}, /* in double, too */
        {-10, 1, INFINITY, 199, NO_NUMBER, NO_NUMBER, -INFINITY},
        {10, 1, 0, 30, NUMBER, NUMBER, 0},
        {10, 1, 0, 60, IN_DOUBT, IN_DOUBT, 0},
        {0.1f, 1, 0, 60, NUMBER, NUMBER, 0},
        {0.1f, 10, NAN, 60, NO_NUMBER, NO_NUMBER, NAN},
        {0.1f, 10, 1, 60, NUMBER, NUMBER, 1},
        {10, 1, 1, 60, NO_NUMBER, NO_NUMBER, INFINITY},
        {-10, 1, 1, 199, NO_NUMBER, NO_NUMBER, -INFINITY},
        {0.1f, 1e3f, 1, 100, IN_DOUBT, IN_DOUBT, 0}, /* of which 60 of the first are 0 */
        {1e30f, 1e-30f, 2, 60, NUMBER, NUMBER, 2},   /* beyond double on the way */
        {1e-30f, 1e30f, 2, 60, NUMBER, NUMBER, 2},
        {1e-30f, 1, 2, 60, NUMBER, NUMBER, 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        Arena *arena = arena_create();
        const float *x = ones_but(arena, rows[i].first, rows[i].second, rows[i].last, rows[i].repeated);
        EvalResult whole =
            evaluate(arena, "  %y = graph.reduce(%X) {kind = \"mul\", axes = [0]} : tensor<[] x f32>\n  return(%y) {names = [\"Y\"]}\n", x);
        EvalResult scan =
            evaluate(arena, "  %y = graph.scan(%X) {kind = \"mul\", axis = 0} : tensor<[N] x f32>\n  return(%y) {names = [\"Y\"]}\n", x);
        check_outcome(whole, 0, rows[i].whole, rows[i].value);
        check_outcome(scan, COUNT - 1, rows[i].scanned, rows[i].value);
        arena_destroy(arena);
    }
}

/* A scan multiplies neighbours: of 0.1, 10, 0.1, 10 and so on none are so many that they are 0. */
static void check_order_of_neighbours(void) {
    Arena *arena = arena_create();
    float x[COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = i % 2 ? 10 : 0.1f;
    x[COUNT - 1] = INFINITY;
    EvalResult r =
        evaluate(arena, "  %y = graph.scan(%X) {kind = \"mul\", axis = 0} : tensor<[N] x f32>\n  return(%y) {names = [\"Y\"]}\n", x);
    check_outcome(r, COUNT - 1, NO_NUMBER, INFINITY);
    arena_destroy(arena);
}

/* sum(k, X[k] * |X[k]|) as index notation has it: stored as the first type, multiplied in the second. */
static const char *sum_of_squares(Arena *arena, const char *stored, const char *dtype) {
    return arena_printf(arena,
                        "  %%s = abs(%%X) : tensor<[N] x f32>\n"
                        "  %%g = cast(%%X) : tensor<[N] x %s>\n"
                        "  %%h = cast(%%s) : tensor<[N] x %s>\n"
                        "  %%y = graph.generic(%%N) {outer = 0, kind = \"add\"} : tensor<[] x %s> (%%k: index) {\n"
                        "    %%a = graph.element(%%g, %%k) : %s\n"
                        "    %%b = graph.element(%%h, %%k) : %s\n"
                        "    %%c = cast(%%a) : %s\n"
                        "    %%d = cast(%%b) : %s\n"
                        "    %%p = mul(%%c, %%d) : %s\n"
                        "    yield(%%p)\n  }\n"
                        "  return(%%y) {names = [\"Y\"]}\n",
                        stored, stored, dtype, stored, stored, dtype, dtype, dtype);
}

/* A product beyond the largest number is an infinity where it is rounded, and a number where it is fused with its addition: sums of two
 * that cancel may be inf, -inf or NaN. Of a factor that is NaN they are NaN. */
static void check_fused_products(void) {
    Arena *arena = arena_create();
    const char *f32 = sum_of_squares(arena, "bf16", "f32");
    check_outcome(evaluate(arena, f32, ones_but(arena, 3e30f, -3e30f, 1, 3)), 0, IN_DOUBT, 0);
    check_outcome(evaluate(arena, f32, ones_but(arena, 3e30f, 1, 1, 1)), 0, IN_DOUBT, 0);
    check_outcome(evaluate(arena, f32, ones_but(arena, 3e30f, 1, -INFINITY, 1)), 0, IN_DOUBT, 0);
    check_outcome(evaluate(arena, f32, ones_but(arena, 1e15f, -1e15f, 1, 3)), 0, NUMBER, COUNT - 6);
    check_outcome(evaluate(arena, f32, ones_but(arena, NAN, 1, 1, 1)), 0, NO_NUMBER, NAN);
    check_outcome(evaluate(arena, sum_of_squares(arena, "f32", "f64"), ones_but(arena, 3e30f, -3e30f, 1, 3)), 0, NUMBER, COUNT - 6);
    arena_destroy(arena);
}

/* An infinite term decides a sum: whatever rounds beside it changes nothing. What may overflow on the way, or be another number, decides none. */
static void check_infinite_terms(void) {
    static const struct {
        float first, second, last;
        Outcome want;
        double value;
    } rows[] = {
        {1, 1, INFINITY, NO_NUMBER, INFINITY},     {-0.1f, 3, -INFINITY, NO_NUMBER, -INFINITY},
        {INFINITY, 1, -INFINITY, NO_NUMBER, NAN},  {NAN, 1, -INFINITY, NO_NUMBER, NAN},
        {3e38f, 1, INFINITY, NO_NUMBER, INFINITY}, {3e38f, 3e38f, -INFINITY, IN_DOUBT, 0},
        {3e38f, -3e38f, INFINITY, IN_DOUBT, 0},    {3e38f, 3e38f, 1, IN_DOUBT, 0},
        {3e38f, 3e38f, NAN, NO_NUMBER, NAN},
    };
    static const char *const forms[] = {
        "  %y = graph.reduce(%X) {kind = \"add\", axes = [0]} : tensor<[] x f32>\n",
        "  %y = graph.reduce(%X) {kind = \"mean\", axes = [0]} : tensor<[] x f32>\n",
        "  %c = const() {value = 1.0} : f32\n  %o = graph.broadcast(%c) {axes = []} : tensor<[N] x f32>\n"
        "  %y = graph.contract(%X, %o) {batch_a = [], batch_b = [], sum_a = [0], sum_b = [0]} : tensor<[] x f32>\n",
        "  %y = graph.scan(%X) {kind = \"add\", axis = 0} : tensor<[N] x f32>\n",
    };
    for (size_t i = 0; i < COUNT_OF(rows) * COUNT_OF(forms); i++) {
        Arena *arena = arena_create();
        size_t row = i / COUNT_OF(forms), form = i % COUNT_OF(forms);
        const char *body = arena_printf(arena, "%s  return(%%y) {names = [\"Y\"]}\n", forms[form]);
        EvalResult r = evaluate(arena, body, ones_but(arena, rows[row].first, rows[row].second, rows[row].last, 1));
        check_outcome(r, form == 3 ? COUNT - 1 : 0, rows[row].want, rows[row].value);
        arena_destroy(arena);
    }
}

/* Factors of two parts: an infinity times the lower part of a number that has none is NaN. */
static void check_infinite_parts(void) {
    static const char *const precisions[] = {"f32", "bf16x3", "tf32x3", "tf32"};
    for (size_t i = 0; i < COUNT_OF(precisions); i++) {
        Arena *arena = arena_create();
        const char *body = arena_printf(arena,
                                        "  %%y = graph.contract(%%X, %%X) {batch_a = [], batch_b = [], sum_a = [0], sum_b = [0], precision "
                                        "= \"%s\"} : tensor<[] x f32>\n"
                                        "  return(%%y) {names = [\"Y\"]}\n",
                                        precisions[i]);
        bool parts = strstr(precisions[i], "x3") != NULL;
        check_outcome(evaluate(arena, body, ones_but(arena, INFINITY, 1, 1, 1)), 0, parts ? IN_DOUBT : NO_NUMBER, INFINITY);
        check_outcome(evaluate(arena, body, ones_but(arena, NAN, INFINITY, 1, 1)), 0, NO_NUMBER, NAN);
        arena_destroy(arena);
    }
}

/* An infinity times (over) a number that may be off is infinite, unless that number may be 0. */
static void check_infinite_factors(void) {
    Arena *arena = arena_create();
    EvalResult r = evaluate(arena,
                            "  %c = const() {value = 1.1} : f32\n"
                            "  %a = mul(%X, %X) : tensor<[N] x f32>\n"
                            "  %b = div(%c, %a) : tensor<[N] x f32>\n"
                            "  %i = const() {value = inf} : f32\n"
                            "  %p = mul(%i, %b) : tensor<[N] x f32>\n"
                            "  %q = div(%p, %b) : tensor<[N] x f32>\n"
                            "  return(%q) {names = [\"Y\"]}\n",
                            ones_but(arena, -3, 1e30f, 2, 1));
    check_outcome(r, 0, NO_NUMBER, INFINITY);
    check_outcome(r, COUNT - 1, NO_NUMBER, INFINITY);
    check_outcome(r, 1, IN_DOUBT, 0); /* 1.1 / 1e60 may be 0 */
    arena_destroy(arena);
}

/* h = a h + b behind an infinite b, in any order, unless products of a may be 0. */
static void check_infinite_recurrence(void) {
    Arena *arena = arena_create();
    EvalResult r = evaluate(arena,
                            "  %c = const() {value = 0.5} : f32\n"
                            "  %s = const() {value = 0.3} : f32\n"
                            "  %a = mul(%s, %c) : f32\n"
                            "  %b = graph.broadcast(%a) {axes = []} : tensor<[N] x f32>\n"
                            "  %y = graph.scan(%X, %b) {kind = \"linear\", axis = 0} : tensor<[N] x f32>\n"
                            "  return(%y) {names = [\"Y\"]}\n",
                            ones_but(arena, 1, -INFINITY, 1, 1));
    check_outcome(r, 0, NUMBER, 1);
    check_outcome(r, 1, NO_NUMBER, -INFINITY);
    check_outcome(r, 40, NO_NUMBER, -INFINITY);
    check_outcome(r, COUNT - 1, IN_DOUBT, 0); /* 0.15^198 is 0 in f32, and 0 * inf is NaN */
    arena_destroy(arena);
}

/* What overflows in double is a number where a sum takes it in by one rounding, or in another order. */
static void check_products_beyond_double(void) {
    Arena *arena = arena_create();
    const char *body = "  %g = cast(%X) : tensor<[N] x f64>\n"
                       "  %a = mul(%g, %g) : tensor<[N] x f64>\n"
                       "  %b = mul(%a, %a) : tensor<[N] x f64>\n"
                       "  %d = mul(%b, %a) : tensor<[N] x f64>\n"
                       "  %y = graph.contract(%d, %d) {batch_a = [], batch_b = [], sum_a = [0], sum_b = [0]} : tensor<[] x f64>\n"
                       "  return(%y) {names = [\"Y\"]}\n";
    check_outcome(evaluate(arena, body, ones_but(arena, 1e28f, 1, 1, 1)), 0, IN_DOUBT, 0);
    check_outcome(evaluate(arena, body, ones_but(arena, 1e28f, 1, INFINITY, 1)), 0, IN_DOUBT, 0);
    check_outcome(evaluate(arena, body, ones_but(arena, 1e2f, 1, INFINITY, 1)), 0, NO_NUMBER, INFINITY);
    arena_destroy(arena);
}

int main(void) {
    check_infinite_terms();
    check_infinite_factors();
    check_infinite_parts();
    check_infinite_recurrence();
    check_products_beyond_double();
    check_order_of_products();
    check_order_of_neighbours();
    check_fused_products();
    check_weights();
    check_functions();
    check_ends();
    check_clamped();
    check_no_infinity();
    check_beyond_cast();
    check_unknown_is_no_nan();
    check_whole();
    return 0;
}
