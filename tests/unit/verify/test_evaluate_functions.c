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
    for (int i = 0; i < COUNT; i++)
        CHECK(r.value[i] == 448 && r.bound[i] == 0 && !r.undecided[i]);
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
    for (int i = 0; i < COUNT; i++)
        CHECK(r.integer[i] == (int64_t)rintf(x[i]) + 3 && r.bound[i] == 0 && !r.undecided[i]);
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
    static const char product[] = "  %v = cast(%X) : tensor<[N] x bf16>\n"
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

int main(void) {
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
