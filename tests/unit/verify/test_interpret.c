/* The interpreter: presence of tiles, one rounding per op, threads in lockstep; and its traps, each
 * for a planted fault. */
#include "graph.h"
#include "interpret/interpret_internal.h"

#include <math.h>

typedef struct {
    Arena *arena;
    const char *error;
    size_t count;
    InterpretTensor tensors[4];
} Bench;

static Bench bench(void) {
    return (Bench){.arena = arena_create()};
}

static void *give(Bench *b, const char *name, size_t bytes) {
    void *data = arena_alloc(b->arena, bytes + 64);
    b->tensors[b->count++] = (InterpretTensor){name, data, bytes};
    return data;
}

static float *give_ramp(Bench *b, const char *name, size_t n) {
    float *data = give(b, name, n * sizeof *data);
    for (size_t i = 0; i < n; i++) data[i] = (float)(i + 1);
    return data;
}

static bool run(Bench *b, const char *text, size_t count, SymbolValue *values) {
    IrModule *m = graph_parse(b->arena, text);
    Sizes sizes = {count, values};
    InterpretArgs args = {.sizes = &sizes, .tensor_count = b->count, .tensors = b->tensors};
    return interpret_module(b->arena, m, &args, &b->error);
}

static void expect_run(Bench *b, const char *text, size_t count, SymbolValue *values) {
    bool ok = run(b, text, count, values);
    if (!ok) fprintf(stderr, "%s\n", b->error);
    CHECK(ok);
}

static void expect_trap(Bench *b, const char *text, const char *message) {
    CHECK(!run(b, text, 0, NULL));
    if (!strstr(b->error, message)) fprintf(stderr, "%s\n", b->error);
    CHECK(strstr(b->error, message));
}

/* ---- Tiles ---- */

/* Tiles of 4 over N = 6: the last has two absent lanes. Per tile: max over present lanes, the
 * count, the sum with absent lanes as 100, and the lanes stored back doubled. */
static void check_presence(void) {
    Bench b = bench();
    give_ramp(&b, "X", 6);
    float *y = give(&b, "Y", 6 * 4), *s = give(&b, "S", 6 * 4);
    SymbolValue n = {"N", 6};
    expect_run(&b,
               "sketchc.ir 1\n"
               "func @f tile open (tensor %X: tensor<[N] x f32> in, tensor %Y: tensor<[N] x f32> out, "
               "tensor %S: tensor<[6] x f32> out, symbol %N: index) {\n"
               "  %c0 = const() {value = 0} : index\n  %c1 = const() {value = 1} : index\n"
               "  %c2 = const() {value = 2} : index\n  %c3 = const() {value = 3} : index\n"
               "  %c4 = const() {value = 4} : index\n"
               "  parallel(%c0, %c2, %c1) (%i: index) {\n"
               "    %lo = mul(%i, %c4) : index\n    %hi = add(%lo, %c4) : index\n"
               "    %x = tile.load(%X, %lo, %hi) {axes = \"r\"} : tile<[4] x f32>\n"
               "    %neg = neg(%x) : tile<[4] x f32>\n"
               "    %m = tile.reduce(%neg) {kind = \"max\", axes = [0]} : tile<[] x f32>\n"
               "    %n = tile.count(%x) {axes = [0]} : index\n"
               "    %nf = cast(%n) : f32\n"
               "    %g = tile.fill(%x) {value = 100.0} : tile<[4] x f32>\n"
               "    %t = tile.reduce(%g) {kind = \"add\", axes = [0]} : tile<[] x f32>\n"
               "    %d = add(%x, %x) : tile<[4] x f32>\n"
               "    tile.store(%d, %Y, %lo, %hi) {axes = \"r\"}\n"
               "    %at = mul(%i, %c3) : index\n    %at1 = add(%at, %c1) : index\n"
               "    %at2 = add(%at, %c2) : index\n"
               "    tile.store(%m, %S, %at) {axes = \"p\"}\n"
               "    tile.store(%nf, %S, %at1) {axes = \"p\"}\n"
               "    tile.store(%t, %S, %at2) {axes = \"p\"}\n"
               "    yield()\n  }\n  return()\n}\n",
               1, &n);
    for (int i = 0; i < 6; i++) CHECK(y[i] == (float)(2 * i + 2));
    static const float want[6] = {-1, 4, 10, -5, 2, 211};
    for (int i = 0; i < 6; i++) CHECK(s[i] == want[i]);
    arena_destroy(b.arena);
}

/* A window past both ends, with a pad and without, with a step; store modes; a lost index. */
static void check_slices(void) {
    Bench b = bench();
    give_ramp(&b, "X", 5);
    float *y = give(&b, "Y", 8 * 4);
    for (int i = 0; i < 8; i++) y[i] = 7;
    expect_run(&b,
               "sketchc.ir 1\n"
               "func @f tile static (tensor %X: tensor<[5] x f32> in, tensor %Y: tensor<[8] x f32> out) "
               "{\n"
               "  %m2 = const() {value = -2} : index\n  %c0 = const() {value = 0} : index\n"
               "  %c2 = const() {value = 2} : index\n  %c6 = const() {value = 6} : index\n"
               "  %c9 = const() {value = 9} : index\n  %c8 = const() {value = 8} : index\n"
               "  %a = tile.load(%X, %m2, %c6) {axes = \"r\"} : tile<[8] x f32>\n"
               "  tile.store(%a, %Y, %c0, %c8) {axes = \"r\"}\n" /* lanes 2..6 */
               "  %b = tile.load(%X, %m2, %c6) {axes = \"r\", steps = [2], pad = 50.0} : tile<[4] x f32>\n"
               "  tile.store(%b, %Y, %c0, %c8) {axes = \"r\", steps = [2], mode = \"max\"}\n"
               "  %l = tile.load(%X, %c9) {axes = \"p\", pad = -3.0} : tile<[] x f32>\n"
               "  tile.store(%l, %Y, %c2) {axes = \"p\", mode = \"add\"}\n"
               "  tile.store(%l, %Y, %c9) {axes = \"p\"}\n" /* outside: nothing */
               "  return()\n}\n",
               0, NULL);
    static const float want[8] = {50, 7, 1 - 3, 2, 3, 4, 5, 7};
    for (int i = 0; i < 8; i++) CHECK(y[i] == want[i]);
    arena_destroy(b.arena);
}

/* A ragged product: rows, columns and K absent in part; then transposed, as (N, M). */
static void check_gemm(void) {
    Bench b = bench();
    float *x = give_ramp(&b, "A", 3 * 5), *y = give_ramp(&b, "B", 5 * 2);
    float *c = give(&b, "C", 2 * 3 * 4);
    expect_run(&b,
               "sketchc.ir 1\n"
               "func @f tile static (tensor %A: tensor<[3, 5] x f32> in, tensor %B: tensor<[5, 2] x f32> "
               "in, "
               "tensor %C: tensor<[2, 3] x f32> out) {\n"
               "  %c0 = const() {value = 0} : index\n  %c4 = const() {value = 4} : index\n"
               "  %c8 = const() {value = 8} : index\n"
               "  %z = const() {value = 0.0} : tile<[4, 4] x f32>\n"
               "  %r = for(%c0, %c8, %c4, %z) : tile<[4, 4] x f32> (%k: index, %s: tile<[4, 4] x f32>) {\n"
               "    %e = add(%k, %c4) : index\n"
               "    %a = tile.load(%A, %c0, %c4, %k, %e) {axes = \"rr\"} : tile<[4, 4] x f32>\n"
               "    %b = tile.load(%B, %k, %e, %c0, %c4) {axes = \"rr\"} : tile<[4, 4] x f32>\n"
               "    %bt = tile.transpose(%b) {perm = [1, 0]} : tile<[4, 4] x f32>\n"
               "    %n = tile.gemm(%a, %bt, %s) {trans_b = true} : tile<[4, 4] x f32>\n"
               "    yield(%n)\n  }\n"
               "  %t = tile.transpose(%r) {perm = [1, 0]} : tile<[4, 4] x f32>\n"
               "  tile.store(%t, %C, %c0, %c4, %c0, %c4) {axes = \"rr\"}\n"
               "  return()\n}\n",
               0, NULL);
    for (int m = 0; m < 3; m++)
        for (int n = 0; n < 2; n++) {
            float want = 0;
            for (int k = 0; k < 5; k++) want += x[m * 5 + k] * y[k * 2 + n];
            CHECK(c[n * 3 + m] == want);
        }
    arena_destroy(b.arena);
}

/* Kernels in order, versions by guard, a workspace between them. */
static void check_module(void) {
    Bench b = bench();
    give_ramp(&b, "X", 4);
    float *y = give(&b, "Y", 16);
    const char *text = "sketchc.ir 1\n"
                       "func @a tile static (tensor %X: tensor<[4] x f32> in, workspace %W: "
                       "tensor<[4] x f32> elements 4) {\n"
                       "  %c0 = const() {value = 0} : index\n  %c4 = const() {value = 4} : index\n"
                       "  %x = tile.load(%X, %c0, %c4) {axes = \"r\"} : tile<[4] x f32>\n"
                       "  tile.store(%x, %W, %c0, %c4) {axes = \"r\"}\n  return()\n}\n"
                       "func @b1 tile static (tensor %Y: tensor<[4] x f32> out, symbol %N: index, "
                       "workspace %W: tensor<[4] x f32> elements 4) {kernel = \"b\"}\n    guard N "
                       "- 9 > 0\n{\n  return()\n}\n"
                       "func @b2 tile static (tensor %Y: tensor<[4] x f32> out, symbol %N: index, "
                       "workspace %W: tensor<[4] x f32> elements 4) {kernel = \"b\"} {\n"
                       "  %c0 = const() {value = 0} : index\n  %c4 = const() {value = 4} : index\n"
                       "  %w = tile.load(%W, %c0, %c4) {axes = \"r\"} : tile<[4] x f32>\n"
                       "  %v = mul(%w, %w) : tile<[4] x f32>\n"
                       "  tile.store(%v, %Y, %c0, %c4) {axes = \"r\"}\n  return()\n}\n";
    SymbolValue n = {"N", 5};
    expect_run(&b, text, 1, &n);
    for (int i = 0; i < 4; i++) CHECK(y[i] == (float)((i + 1) * (i + 1)));
    y[0] = 0;
    n.value = 10;
    expect_run(&b, text, 1, &n);
    CHECK(y[0] == 0); /* the other version did nothing */
    arena_destroy(b.arena);
}

/* ---- Arithmetic ---- */

static void check_rounding(void) {
    Bench b = bench();
    float *x = give(&b, "X", 8), *y = give(&b, "Y", 5 * 4);
    x[0] = 1 + 0x1p-12f;
    x[1] = 0x1.000001p0f;
    expect_run(&b,
               "sketchc.ir 1\n"
               "func @f kernel (tensor %X: ptr<f32, global> in, tensor %Y: ptr<f32, global> out) {target "
               "= \"cpu\"} {\n"
               "  %c0 = const() {value = 0} : index\n  %c1 = const() {value = 1} : index\n"
               "  %c2 = const() {value = 2} : index\n  %c3 = const() {value = 3} : index\n"
               "  %c4 = const() {value = 4} : index\n  %m1 = const() {value = -1.0} : f32\n"
               "  %x = mem.load(%X, %c0) : f32\n"
               "  %p = mul(%x, %x) : f32\n  %s = add(%p, %m1) : f32\n  mem.store(%s, %Y, %c0)\n"
               "  %f = fma(%x, %x, %m1) : f32\n  mem.store(%f, %Y, %c1)\n"
               "  %h = cast(%x) : f16\n  %hh = mul(%h, %h) : f16\n  %hf = cast(%hh) : f32\n"
               "  mem.store(%hf, %Y, %c2)\n"
               "  %big = const() {value = 3000000000.0} : f32\n  %i = cast(%big) : i32\n"
               "  %one = const() {value = 1} : i32\n  %w = add(%i, %one) : i32\n"
               "  %wf = cast(%w) : f32\n  mem.store(%wf, %Y, %c3)\n"
               "  %seven = const() {value = -7} : i32\n  %two = const() {value = 2} : i32\n"
               "  %q = floordiv(%seven, %two) : i32\n  %qf = cast(%q) : f32\n  mem.store(%qf, %Y, %c4)\n"
               "  return()\n}\n",
               0, NULL);
    float product = x[0] * x[0];
    CHECK(y[0] == product - 1 && y[1] == fmaf(x[0], x[0], -1) && y[0] != y[1]);
    CHECK(y[2] == 1); /* 1 + 2^-12 is 1 in f16 */
    CHECK(y[3] == -2147483648.0f && y[4] == -4);
    arena_destroy(b.arena);
}

/* ---- Threads ---- */

/* The sum of 64 numbers by two warps: shuffles, shared memory, a barrier. */
static const char *const block_sum = "sketchc.ir 1\n"
                                     "func @f kernel (tensor %X: ptr<f32, global> in, tensor %Y: ptr<f32, global> out) "
                                     "{target = \"cuda\", num_warps = 2, shared_bytes = 8, grid_x = aff(2)} {\n"
                                     "  %c0 = const() {value = 0} : index\n  %c1 = const() {value = 1} : index\n"
                                     "  %n = const() {value = 64} : index\n"
                                     "  %block = special() {name = \"ctaid.x\"} : index\n  %tid = special() {name = \"tid.x\"} : "
                                     "index\n"
                                     "  %lane = special() {name = \"lane\"} : index\n  %warp = special() {name = \"warp\"} : index\n"
                                     "  %base = mul(%block, %n) : index\n  %at = add(%base, %tid) : index\n"
                                     "  %x = mem.load(%X, %at) {align = 4} : f32\n"
                                     "  %s0 = shuffle.xor(%x) {mask = 16} : f32\n  %t0 = add(%x, %s0) : f32\n"
                                     "  %s1 = shuffle.xor(%t0) {mask = 8} : f32\n  %t1 = add(%t0, %s1) : f32\n"
                                     "  %s2 = shuffle.xor(%t1) {mask = 4} : f32\n  %t2 = add(%t1, %s2) : f32\n"
                                     "  %s3 = shuffle.xor(%t2) {mask = 2} : f32\n  %t3 = add(%t2, %s3) : f32\n"
                                     "  %s4 = shuffle.xor(%t3) {mask = 1} : f32\n  %t4 = add(%t3, %s4) : f32\n"
                                     "  %part = shared.ptr() {offset = 0, bytes = 8} : ptr<f32, shared>\n"
                                     "  %first = eq(%lane, %c0) : bool\n"
                                     "  mem.store(%t4, %part, %warp, %first)\n"
                                     "  barrier() {scope = \"block\"}\n"
                                     "  %a = mem.load(%part, %c0) : f32\n  %b = mem.load(%part, %c1) : f32\n"
                                     "  %sum = add(%a, %b) : f32\n  %leader = eq(%tid, %c0) : bool\n"
                                     "  if(%leader) {\n    mem.store(%sum, %Y, %block)\n    yield()\n  } {}\n"
                                     "  return()\n}\n";

static const char *replaced(Arena *arena, const char *text, const char *old, const char *with) {
    const char *at = strstr(text, old);
    CHECK(at);
    return arena_printf(arena, "%.*s%s%s", (int)(at - text), text, with, at + strlen(old));
}

static Bench sum_bench(float **y) {
    Bench b = bench();
    give_ramp(&b, "X", 128);
    *y = give(&b, "Y", 8);
    return b;
}

static void expect_planted_trap(const char *old, const char *with, const char *message) {
    float *y;
    Bench b = sum_bench(&y);
    expect_trap(&b, replaced(b.arena, block_sum, old, with), message);
    arena_destroy(b.arena);
}

static void check_threads(void) {
    float *y;
    Bench b = sum_bench(&y);
    expect_run(&b, block_sum, 0, NULL);
    CHECK(y[0] == 64 * 65 / 2 && y[1] == 64 * 65 / 2 + 64 * 64);
    expect_run(&b, replaced(b.arena, block_sum, "mask = 16", "mask = 8"), 0, NULL);
    CHECK(y[0] != 64 * 65 / 2);
    arena_destroy(b.arena);
    expect_planted_trap("  barrier() {scope = \"block\"}\n", "", "race");
    expect_planted_trap("scope = \"block\"", "scope = \"warp\"", "race");
    expect_planted_trap("%X, %at) {align = 4}", "%X, %at) {align = 8}", "not aligned");
    expect_planted_trap("value = 64", "value = 65", "outside X");
    expect_planted_trap("(%t4, %part, %warp, %first)", "(%t4, %part, %tid, %first)", "outside shared memory");
}

/* Four blocks in clusters of two: each thread gives its rank's number to the other block and reads its own. */
static const char *const neighbours = "sketchc.ir 1\n"
                                      "func @f kernel (tensor %X: ptr<f32, global> in, tensor %Y: ptr<f32, global> out) "
                                      "{target = \"cuda\", num_warps = 1, shared_bytes = 128, grid_x = aff(4), cluster = [2, 1, 1]} {\n"
                                      "  %one = const() {value = 1} : index\n  %n = const() {value = 32} : index\n"
                                      "  %block = special() {name = \"ctaid.x\"} : index\n  %tid = special() {name = \"tid.x\"} : index\n"
                                      "  %rank = special() {name = \"cluster.rank\"} : index\n"
                                      "  %pair = special() {name = \"clusterid.x\"} : index\n"
                                      "  %base = mul(%block, %n) : index\n  %at = add(%base, %tid) : index\n"
                                      "  %x = mem.load(%X, %at) {align = 4} : f32\n"
                                      "  %mine = shared.ptr() {offset = 0, bytes = 128} : ptr<f32, shared>\n"
                                      "  %other = sub(%one, %rank) : index\n"
                                      "  %theirs = cluster.ptr(%mine, %other) : ptr<f32, cluster>\n"
                                      "  barrier() {scope = \"cluster\"}\n  mem.store(%x, %theirs, %tid)\n"
                                      "  barrier() {scope = \"cluster\"}\n  %got = mem.load(%mine, %tid) : f32\n"
                                      "  %p = cast(%pair) : f32\n  %y = add(%got, %p) : f32\n"
                                      "  mem.store(%y, %Y, %at)\n  return()\n}\n";

static Bench neighbour_bench(float **y) {
    Bench b = bench();
    give_ramp(&b, "X", 128);
    *y = give(&b, "Y", 128 * sizeof **y);
    return b;
}

static void expect_cluster_trap(const char *old, const char *with, const char *message) {
    float *y;
    Bench b = neighbour_bench(&y);
    expect_trap(&b, replaced(b.arena, neighbours, old, with), message);
    arena_destroy(b.arena);
}

static void check_clusters(void) {
    float *y;
    Bench b = neighbour_bench(&y);
    expect_run(&b, neighbours, 0, NULL);
    for (int i = 0; i < 128; i++) CHECK(y[i] == (float)((i ^ 32) + 1 + i / 64));
    arena_destroy(b.arena);
    expect_cluster_trap("  barrier() {scope = \"cluster\"}\n  mem", "  mem", "since the cluster began");
    expect_cluster_trap("  barrier() {scope = \"cluster\"}\n  %got", "  %got", "race");
    expect_cluster_trap("scope = \"cluster\"}\n  %got", "scope = \"block\"}\n  %got", "race");
    expect_cluster_trap("%other = sub(%one, %rank)", "%other = add(%one, %rank)", "no block of rank 2");
    expect_cluster_trap("mem.store(%x, %theirs, %tid)", "mem.store(%x, %theirs, %n)", "outside shared memory");
    expect_cluster_trap("grid_x = aff(4)", "grid_x = aff(3)", "no multiple of its clusters");
}

/* The second step takes its number and X ahead of the waiting, W behind it. */
static const char *const two_steps =
    "sketchc.ir 1\n"
    "func @a kernel (tensor %X: ptr<f32, global> in, workspace %W: ptr<f32, global> of tensor<[4] x f32> elements 4) "
    "{kernel = \"a\", step = 0, target = \"cuda\", num_warps = 1, grid_x = aff(4)} {\n"
    "  %block = special() {name = \"ctaid.x\"} : index\n  %x = mem.load(%X, %block) : f32\n"
    "  %lane = special() {name = \"tid.x\"} : index\n  %zero = const() {value = 0} : index\n  %one = eq(%lane, %zero) : bool\n"
    "  mem.store(%x, %W, %block, %one)\n  return()\n}\n"
    "func @b kernel (tensor %X: ptr<f32, global> in, tensor %Y: ptr<f32, global> out, "
    "workspace %W: ptr<f32, global> of tensor<[4] x f32> elements 4) "
    "{kernel = \"b\", step = 1, dependent = 1, target = \"cuda\", num_warps = 1, grid_x = aff(4)} {\n"
    "  %block = special() {name = \"ctaid.x\"} : index\n  %x = mem.load(%X, %block) : f32\n"
    "  %lane = special() {name = \"tid.x\"} : index\n  %zero = const() {value = 0} : index\n  %one = eq(%lane, %zero) : bool\n"
    "  steps.wait()\n  %w = mem.load(%W, %block) : f32\n  %y = add(%x, %w) : f32\n"
    "  mem.store(%y, %Y, %block, %one)\n  return()\n}\n";

static Bench step_bench(float **y) {
    Bench b = bench();
    give_ramp(&b, "X", 4);
    *y = give(&b, "Y", 4 * sizeof **y);
    return b;
}

static void expect_step_trap(const char *old, const char *with, const char *message) {
    float *y;
    Bench b = step_bench(&y);
    expect_trap(&b, replaced(b.arena, two_steps, old, with), message);
    arena_destroy(b.arena);
}

static void check_steps(void) {
    float *y;
    Bench b = step_bench(&y);
    expect_run(&b, two_steps, 0, NULL);
    for (int i = 0; i < 4; i++) CHECK(y[i] == 2.0f * (float)(i + 1));
    arena_destroy(b.arena);
    expect_step_trap("  steps.wait()\n  %w = mem.load(%W, %block) : f32\n", "  %w = mem.load(%W, %block) : f32\n  steps.wait()\n",
                     "W, which a step before writes, is touched before that is waited for");
    expect_step_trap("  steps.wait()\n", "  mem.store(%x, %Y, %block, %one)\n  steps.wait()\n",
                     "Y is written before the steps before are waited for");
    expect_step_trap("  steps.wait()\n  %w = mem.load(%W, %block) : f32\n", "  %w = add(%x, %x) : f32\n",
                     "Y is written before the steps before are waited for");
    expect_step_trap("  steps.wait()\n  %w = mem.load(%W, %block) : f32\n  %y = add(%x, %w) : f32\n  mem.store(%y, %Y, %block, %one)\n", "",
                     "a block ends that has not waited");
}

/* Clusters of two: the first thread of each block gives its rank's number to both, the last one reads the other's. */
static const char *const senders =
    "sketchc.ir 1\n"
    "func @f kernel (tensor %X: ptr<f32, global> in, tensor %Y: ptr<f32, global> out) "
    "{target = \"cuda\", num_warps = 2, shared_bytes = 256, grid_x = aff(4), cluster = [2, 1, 1]} {\n"
    "  %zero = const() {value = 0} : index\n  %one = const() {value = 1} : index\n"
    "  %block = special() {name = \"ctaid.x\"} : index\n  %tid = special() {name = \"tid.x\"} : index\n"
    "  %rank = special() {name = \"cluster.rank\"} : index\n"
    "  %mine = shared.ptr() {offset = 0, bytes = 8} : ptr<f32, shared>\n"
    "  %bar = shared.ptr() {offset = 128, bytes = 8} : ptr<u64, shared>\n"
    "  cluster.begin(%bar)\n"
    "  %x = mem.load(%X, %block) {align = 4} : f32\n  %first = eq(%tid, %zero) : bool\n"
    "  cluster.begun()\n  cluster.send(%x, %mine, %rank, %bar, %first)\n"
    "  cluster.meet(%bar) {bytes = 8, number = 0}\n"
    "  %other = sub(%one, %rank) : index\n  %got = mem.load(%mine, %other) : f32\n"
    "  %n = const() {value = 64} : index\n  %base = mul(%block, %n) : index\n  %at = add(%base, %tid) : index\n"
    "  mem.store(%got, %Y, %at)\n  return()\n}\n";

static Bench sender_bench(float **y) {
    Bench b = bench();
    give_ramp(&b, "X", 4);
    *y = give(&b, "Y", 256 * sizeof **y);
    return b;
}

static void expect_sender_trap(const char *old, const char *with, const char *message) {
    float *y;
    Bench b = sender_bench(&y);
    expect_trap(&b, replaced(b.arena, senders, old, with), message);
    arena_destroy(b.arena);
}

static void check_senders(void) {
    float *y;
    Bench b = sender_bench(&y);
    expect_run(&b, senders, 0, NULL);
    for (int i = 0; i < 256; i++) CHECK(y[i] == (float)((i / 64 ^ 1) + 1));
    arena_destroy(b.arena);
    expect_sender_trap("  cluster.begun()\n", "", "since the cluster began");
    expect_sender_trap("  cluster.meet(%bar) {bytes = 8, number = 0}\n", "", "race");
    expect_sender_trap("bytes = 8, number", "bytes = 12, number", "8 bytes have come to a block where 12 are to");
    expect_sender_trap("%rank, %bar, %first", "%zero, %bar, %first", "race");
    expect_sender_trap("{offset = 0, bytes = 8}", "{offset = 252, bytes = 4}", "outside shared memory");
}

/* Clusters of two, whose blocks copy half of a row of 64 each into both; three rows through one buffer, which warps give back to both blocks. */
static const char *const multicast =
    "sketchc.ir 1\n"
    "func @f kernel (tensor %X: ptr<f32, global> in of tensor<[3, 64] x f32>, tensor %Y: ptr<f32, global> out of tensor<[4, 3, 64] x f32>, "
    "map %X_box: ptr<f32, map> of X [1, 32] swizzle 0) "
    "{target = \"cuda\", num_warps = 2, shared_bytes = 272, grid_x = aff(4), cluster = [2, 1, 1]} {\n"
    "  %row = shared.ptr() {offset = 0, bytes = 256, align = 128} : ptr<f32, shared>\n"
    "  %full = shared.ptr() {offset = 256, bytes = 8} : ptr<u64, shared>\n"
    "  %empty = shared.ptr() {offset = 264, bytes = 8} : ptr<u64, shared>\n"
    "  %tid = special() {name = \"tid.x\"} : index\n  %lane = special() {name = \"lane\"} : index\n"
    "  %block = special() {name = \"ctaid.x\"} : index\n  %rank = special() {name = \"cluster.rank\"} : index\n"
    "  %zero = const() {value = 0} : index\n  %one = const() {value = 1} : index\n  %two = const() {value = 2} : index\n"
    "  %three = const() {value = 3} : index\n  %wide = const() {value = 32} : index\n  %all = const() {value = 64} : index\n"
    "  %first = eq(%tid, %zero) : bool\n  %sends = lt(%lane, %two) : bool\n  %half = mul(%rank, %wide) : index\n  %own = mul(%block, "
    "%three) : index\n"
    "  if(%first) {\n    mbar.init(%full, %zero) {arrivals = 1}\n    mbar.init(%empty, %zero) {arrivals = 4}\n    yield()\n  } {}\n"
    "  barrier() {scope = \"cluster\"}\n"
    "  for(%zero, %three, %one) (%i: index) {\n"
    "    %parity = mod(%i, %two) : index\n    %next = add(%i, %one) : index\n    %before = mod(%next, %two) : index\n"
    "    if(%first) {\n      mbar.wait(%empty, %zero, %before)\n      mbar.expect(%full, %zero) {bytes = 256}\n"
    "      tma.load(%X_box, %row, %half, %full, %zero, %i, %half) {multicast = true}\n      yield()\n    } {}\n"
    "    mbar.wait(%full, %zero, %parity)\n    %v = mem.load(%row, %tid) : f32\n"
    "    %line = add(%own, %i) : index\n    %begin = mul(%line, %all) : index\n    %at = add(%begin, %tid) : index\n    mem.store(%v, %Y, "
    "%at)\n"
    "    barrier() {scope = \"warp\"}\n    if(%sends) {\n      mbar.arrive(%empty, %zero, %lane)\n      yield()\n    } {}\n    yield()\n  "
    "}\n"
    "  barrier() {scope = \"cluster\"}\n  return()\n}\n";

static Bench multicast_bench(float **y) {
    Bench b = bench();
    give_ramp(&b, "X", 192);
    *y = give(&b, "Y", 768 * sizeof **y);
    return b;
}

static void expect_multicast_trap(const char *old, const char *with, const char *message) {
    float *y;
    Bench b = multicast_bench(&y);
    expect_trap(&b, replaced(b.arena, multicast, old, with), message);
    arena_destroy(b.arena);
}

static void check_multicast(void) {
    float *y;
    Bench b = multicast_bench(&y);
    expect_run(&b, multicast, 0, NULL);
    for (int i = 0; i < 768; i++) CHECK(y[i] == (float)(i % 192 + 1));
    arena_destroy(b.arena);
    expect_multicast_trap("  barrier() {scope = \"cluster\"}\n  for", "  barrier() {scope = \"block\"}\n  for", "since the cluster began");
    expect_multicast_trap(" {multicast = true}", "", "waits for a phase that does not end");
    expect_multicast_trap("{bytes = 256}\n      tma", "{bytes = 128}\n      tma", "waits for a phase that does not end");
    expect_multicast_trap("      mbar.wait(%empty, %zero, %before)\n", "", "race");
    expect_multicast_trap("mbar.arrive(%empty, %zero, %lane)", "mbar.arrive(%empty, %zero)", "race");
    expect_multicast_trap("mbar.arrive(%empty, %zero, %lane)", "mbar.arrive(%empty, %zero, %zero)", "waits for a phase that does not end");
    expect_multicast_trap("mbar.arrive(%empty, %zero, %lane)", "mbar.arrive(%empty, %zero, %two)", "no block of rank 2");
    b = multicast_bench(&y);
    const char *single =
        replaced(b.arena, replaced(b.arena, multicast, "scope = \"warp\"", "scope = \"block\""), "arrivals = 4", "arrivals = 2");
    expect_run(&b, replaced(b.arena, single, "lt(%lane, %two)", "lt(%tid, %two)"), 0, NULL);
    for (int i = 0; i < 768; i++) CHECK(y[i] == (float)(i % 192 + 1));
    expect_trap(&b,
                replaced(b.arena, replaced(b.arena, single, "scope = \"block\"}\n    if", "scope = \"warp\"}\n    if"), "lt(%lane, %two)",
                         "lt(%tid, %two)"),
                "race");
    arena_destroy(b.arena);
    expect_multicast_trap("arrivals = 4", "arrivals = 5", "waits for a phase that does not end");
    expect_multicast_trap("    mbar.wait(%full, %zero, %parity)\n", "", "race");
}

/* Two warpgroups: each thread reads what one of the next warp of its group wrote. */
static const char *const groups = "sketchc.ir 1\n"
                                  "func @f kernel (tensor %X: ptr<f32, global> in, tensor %Y: ptr<f32, global> out) "
                                  "{target = \"cuda\", num_warps = 8, shared_bytes = 1024, grid_x = aff(1)} {\n"
                                  "  %far = const() {value = 33} : index\n  %tid = special() {name = \"tid.x\"} : index\n"
                                  "  %row = shared.ptr() {offset = 0, bytes = 1024} : ptr<f32, shared>\n"
                                  "  %x = mem.load(%X, %tid) : f32\n  mem.store(%x, %row, %tid)\n"
                                  "  barrier() {scope = \"warpgroup\"}\n"
                                  "  %other = xor(%tid, %far) : index\n  %y = mem.load(%row, %other) : f32\n"
                                  "  barrier() {scope = \"warpgroup\"}\n  mem.store(%y, %row, %tid)\n"
                                  "  mem.store(%y, %Y, %tid)\n  return()\n}\n";

static void expect_group_trap(const char *old, const char *with, const char *message) {
    Bench b = bench();
    give_ramp(&b, "X", 256);
    give(&b, "Y", 1024);
    expect_trap(&b, replaced(b.arena, groups, old, with), message);
    arena_destroy(b.arena);
}

static void check_groups(void) {
    Bench b = bench();
    give_ramp(&b, "X", 256);
    float *y = give(&b, "Y", 256 * sizeof *y);
    expect_run(&b, groups, 0, NULL);
    for (int i = 0; i < 256; i++) CHECK(y[i] == (float)((i ^ 33) + 1));
    arena_destroy(b.arena);
    expect_group_trap("  barrier() {scope = \"warpgroup\"}\n  %other", "  %other", "race");
    expect_group_trap("  barrier() {scope = \"warpgroup\"}\n  mem", "  mem", "race");
    expect_group_trap("scope = \"warpgroup\"", "scope = \"warp\"", "race");
    expect_group_trap("value = 33", "value = 161", "race"); /* of the other group */
}

/* Registers by ldmatrix, product by mma, from asynchronous copies: D = A B for 16x16 by 16x8. */
static const char *const tensor_core = "sketchc.ir 1\n"
                                       "func @f kernel (tensor %A: ptr<f16, global> in, tensor %B: ptr<f16, global> in, "
                                       "tensor %D: ptr<f32, global> out) {target = \"cuda\", num_warps = 1, shared_bytes = 768} {\n"
                                       "  %c0 = const() {value = 0} : index\n  %c1 = const() {value = 1} : index\n"
                                       "  %c2 = const() {value = 2} : index\n  %c4 = const() {value = 4} : index\n"
                                       "  %c8 = const() {value = 8} : index\n  %c16 = const() {value = 16} : index\n"
                                       "  %lane = special() {name = \"lane\"} : index\n"
                                       "  %as = shared.ptr() {offset = 0, bytes = 512} : ptr<f16, shared>\n"
                                       "  %bs = shared.ptr() {offset = 512, bytes = 256} : ptr<f16, shared>\n"
                                       "  %mine = mul(%lane, %c8) : index\n"
                                       "  async.copy(%A, %mine, %as, %mine, %c16) {bytes = 16}\n"
                                       "  %few = lt(%lane, %c16) : bool\n"
                                       "  if(%few) {\n    async.copy(%B, %mine, %bs, %mine, %c16) {bytes = 16}\n    yield()\n  } {}\n"
                                       "  async.commit()\n  async.wait() {pending = 0}\n  barrier() {scope = \"block\"}\n"
                                       "  %row = mod(%lane, %c16) : index\n  %half = floordiv(%lane, %c16) : index\n"
                                       "  %r16 = mul(%row, %c16) : index\n  %h8 = mul(%half, %c8) : index\n"
                                       "  %aat = add(%r16, %h8) : index\n"
                                       "  %a = atom(%as, %aat) {name = \"ldmatrix.x4\"} : vec<4 x u32>\n"
                                       "  %bat = mul(%row, %c8) : index\n"
                                       "  %b = atom(%bs, %bat) {name = \"ldmatrix.x2.trans\"} : vec<2 x u32>\n"
                                       "  %c = const() {value = 0.0} : vec<4 x f32>\n"
                                       "  %d = atom(%a, %b, %c) {name = \"mma.m16n8k16.f32.f16\"} : vec<4 x f32>\n"
                                       "  %group = floordiv(%lane, %c4) : index\n  %tig = mod(%lane, %c4) : index\n"
                                       "  %col = mul(%tig, %c2) : index\n  %g8 = mul(%group, %c8) : index\n"
                                       "  %to = add(%g8, %col) : index\n"
                                       "  %d0 = extract(%d) {lane = 0} : f32\n  %d1 = extract(%d) {lane = 1} : f32\n"
                                       "  %low = pack(%d0, %d1) : vec<2 x f32>\n  mem.store(%low, %D, %to) {align = 8}\n"
                                       "  %d2 = extract(%d) {lane = 2} : f32\n  %d3 = extract(%d) {lane = 3} : f32\n"
                                       "  %high = pack(%d2, %d3) : vec<2 x f32>\n"
                                       "  %c64 = const() {value = 64} : index\n  %to2 = add(%to, %c64) : index\n"
                                       "  mem.store(%high, %D, %to2) {align = 8}\n"
                                       "  return()\n}\n";

static void fill_halves(void *data, int n, int seed) {
    for (int i = 0; i < n; i++) dtype_write(DTYPE_F16, (char *)data + 2 * i, (i * 7 + seed * 3) % 11 - 5);
}

static double half_at(const void *data, int i) {
    return dtype_read(DTYPE_F16, (const char *)data + 2 * i);
}

static void check_tensor_core(void) {
    Bench b = bench();
    void *x = give(&b, "A", 512), *y = give(&b, "B", 256);
    float *d = give(&b, "D", 512);
    fill_halves(x, 256, 1);
    fill_halves(y, 128, 2);
    expect_run(&b, tensor_core, 0, NULL);
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 8; n++) {
            double want = 0;
            for (int k = 0; k < 16; k++) want += half_at(x, m * 16 + k) * half_at(y, k * 8 + n);
            CHECK(d[m * 8 + n] == want);
        }
    /* Not waited for, the copies have not landed: poison, no products. */
    expect_run(&b, replaced(b.arena, tensor_core, "pending = 0", "pending = 1"), 0, NULL);
    CHECK(isnan(d[0]));
    expect_trap(&b, replaced(b.arena, tensor_core, "  barrier() {scope = \"block\"}\n", ""), "race");
    arena_destroy(b.arena);
}

/* Cut off, not rounded; beyond the largest float infinite all the same. */
static void check_cut_sums(void) {
    const double third[4] = {1, 0x1.8p-24, 0, 0}, large[4] = {3e38, 3e38, 0, 0}, small[4] = {-3e38, -3e38, 0, 0};
    CHECK(tensor_core_sum(0, third, 4, 4) == 1);
    CHECK(tensor_core_sum(0, large, 4, 4) == INFINITY && tensor_core_sum(0, small, 4, 4) == -INFINITY);
}

static void check_collectives(void) {
    Bench b = bench();
    float *y = give(&b, "Y", 128);
    (void)y;
    const char *text = "sketchc.ir 1\n"
                       "func @f kernel (tensor %Y: ptr<f32, global> out) {target = \"cuda\", num_warps = 1} {\n"
                       "  %lane = special() {name = \"lane\"} : index\n  %c9 = const() {value = 9} : index\n"
                       "  %c1 = const() {value = 1} : index\n  %x = cast(%lane) : f32\n"
                       "  %s = for(%lane, %c9, %c1, %x) : f32 (%i: index, %v: f32) {\n"
                       "    %n = add(%v, %x) : f32\n    yield(%n)\n  }\n"
                       "  mem.store(%s, %Y, %lane)\n  return()\n}\n";
    expect_run(&b, text, 0, NULL); /* trip counts that differ by lane */
    for (int l = 0; l < 32; l++) CHECK(y[l] == (float)(l < 9 ? l * (10 - l) : l));
    arena_destroy(b.arena);
}

/* map with vectors into a frag, in place through shared storage. */
static void check_frags(void) {
    Bench b = bench();
    give_ramp(&b, "X", 8);
    float *y = give(&b, "Y", 32);
    expect_run(&b,
               "sketchc.ir 1\n"
               "func @f kernel (tensor %X: ptr<f32, global> in, tensor %Y: ptr<f32, global> out) {target "
               "= \"cpu\"} {\n"
               "  %c4 = const() {value = 4} : index\n"
               "  %a!1 = map() {extents = [2, 1]} : frag<[2, 4] x f32> (%i: index, %j: index) {\n"
               "    %at = mul(%i, %c4) : index\n    %v = mem.load(%X, %at) {align = 16} : vec<4 x f32>\n"
               "    yield(%v)\n  }\n"
               "  %b!1 = map() {extents = [2, 4]} : frag<[2, 4] x f32> (%k: index, %l: index) {\n"
               "    %e = frag.get(%a, %k, %l) : f32\n    %s = mul(%e, %e) : f32\n    yield(%s)\n  }\n"
               "  map() {extents = [2, 1]} (%m: index, %n: index) {\n"
               "    %to = mul(%m, %c4) : index\n    %z = mul(%n, %c4) : index\n"
               "    %w = frag.get(%b, %m, %z) : vec<4 x f32>\n"
               "    mem.store(%w, %Y, %to) {align = 16}\n    yield()\n  }\n"
               "  return()\n}\n",
               0, NULL);
    for (int i = 0; i < 8; i++) CHECK(y[i] == (float)((i + 1) * (i + 1)));
    arena_destroy(b.arena);
}

/* Elements lie where the strides say, and what lies between them is nobody's. */
static void check_strides(void) {
    static const char twice[] =
        "sketchc.ir 1\n"
        "func @f kernel (tensor %X: ptr<f32, global> inout of tensor<[M, 2] x f32, strides [S, 2]>, symbol %M: index, symbol %S: index) "
        "{target = \"cpu\"} {\n"
        "  %c0 = const() {value = 0} : index\n  %c1 = const() {value = 1} : index\n  %c2 = const() {value = 2} : index\n"
        "  for(%c0, %M, %c1) (%i: index) {\n"
        "    %row = mul(%i, %S) : index\n    %at = add(%row, %c2) : index\n"
        "    %x = mem.load(%X, %at) : f32\n    %y = add(%x, %x) : f32\n    mem.store(%y, %X, %at)\n    yield()\n  }\n"
        "  return()\n}\n";
    SymbolValue sizes[2] = {{"M", 3}, {"S", 5}};
    Bench b = bench();
    float *x = give_ramp(&b, "X", 6);
    expect_run(&b, twice, 2, sizes);
    for (int i = 0; i < 6; i++) CHECK(x[i] == (float)(i + 1) * (i % 2 ? 2.0f : 1.0f));
    Bench stray = bench();
    give_ramp(&stray, "X", 6);
    CHECK(!run(&stray, replaced(stray.arena, twice, "mem.store(%y, %X, %at)", "%no = add(%row, %c1) : index\n    mem.store(%y, %X, %no)"),
               2, sizes) &&
          strstr(stray.error, "which is none of the tensor's"));
    arena_destroy(b.arena);
    arena_destroy(stray.arena);
}

static void check_limits(void) {
    Bench b = bench();
    SymbolValue n = {"N", 1000000};
    Sizes sizes = {1, &n};
    IrModule *m = graph_parse(b.arena, "sketchc.ir 1\n"
                                       "func @f kernel (symbol %N: index) {target = \"cpu\"} {\n"
                                       "  %c0 = const() {value = 0} : index\n  %c1 = const() {value = 1} : index\n"
                                       "  for(%c0, %N, %c1) (%i: index) {\n    yield()\n  }\n  return()\n}\n");
    InterpretArgs args = {.sizes = &sizes, .step_limit = 1000};
    CHECK(!interpret_module(b.arena, m, &args, &b.error) && strstr(b.error, "step limit"));
    n.value = 100;
    CHECK(interpret_module(b.arena, m, &args, &b.error));
    arena_destroy(b.arena);
}

int main(void) {
    check_presence();
    check_slices();
    check_gemm();
    check_module();
    check_rounding();
    check_threads();
    check_clusters();
    check_steps();
    check_senders();
    check_multicast();
    check_groups();
    check_tensor_core();
    check_cut_sums();
    check_collectives();
    check_frags();
    check_strides();
    check_limits();
    return 0;
}
