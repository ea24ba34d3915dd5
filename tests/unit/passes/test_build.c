/* The examples from text to IR, and through the tile passes: what is verified, what is expected. */
#include "build.h"
#include "check.h"
#include "passes.h"
#include "show.h"

static const PassId tile_passes[] = {PASS_SIMPLIFY,     PASS_OUTLINE_KERNELS, PASS_EXPAND_COUNTS, PASS_STRIP_MINE,
                                     PASS_SPLIT_PASSES, PASS_SIMPLIFY,        PASS_GRID,          PASS_SIMPLIFY};

typedef struct {
    Arena *unit;
    SourceMap *sources;
    DiagList diags;
    Str text;
} Session;

static void start(Session *s) {
    s->unit = arena_create();
    s->sources = source_map_create(s->unit);
    diag_list_init(&s->diags, s->unit, s->sources);
    str_init(&s->text);
}

static void finish(Session *s) {
    str_release(&s->text);
    arena_destroy(s->unit);
}

/* Null when there were errors. */
static IrModule *build(Session *s, const char *path, const char *text) {
    uint32_t id = source_add(s->sources, path, text, strlen(text));
    File *file = frontend_parse(s->unit, s->sources, id, &s->diags);
    FrontendOptions options = {0};
    if (!frontend_check(s->unit, file, &options, &s->diags)) return NULL;
    return frontend_build(s->unit, s->sources, file, &s->diags);
}

static void lower(Session *s, IrModule *m, const char *arch) {
    PassContext ctx = {.module = m, .diags = &s->diags};
    ctx.target = target_find(s->unit, &s->diags, arch);
    PassOptions options = {.verify_each = true, .round_trip = true};
    PassReport report;
    pass_report_init(&report);
    bool ok = passes_run(&ctx, tile_passes, COUNT_OF(tile_passes), &options, &report);
    if (!ok) show_diags(&s->diags);
    CHECK(ok && report.done == COUNT_OF(tile_passes));
    pass_report_release(&report);
    ir_print(m, &s->text);
}

static void check_example(const char *root, const char *name, const char *arch, const char *const *wanted, size_t count) {
    Session s;
    start(&s);
    Str text;
    str_init(&text);
    char path[512];
    snprintf(path, sizeof path, "%s/%s.sketch", root, name);
    CHECK(file_read(path, 1 << 20, &text));
    IrModule *m = build(&s, path, text.data);
    CHECK(m && s.diags.error_count == 0);
    CHECK(m->case_count >= 3 && m->first->level == IR_LEVEL_GRAPH);
    lower(&s, m, arch);
    for (size_t i = 0; i < count; i++)
        if (!strstr(s.text.data, wanted[i])) {
            fprintf(stderr, "%s for %s lacks: %s\n%s\n", name, arch, wanted[i], s.text.data);
            exit(1);
        }
    str_release(&text);
    finish(&s);
}

/* A run-time scalar stays a parameter, whatever its default. */
static void check_scalar(void) {
    Session s;
    start(&s);
    IrModule *m = build(&s, "k.sketch",
                        "sketch k {\n    symbols: N;\n    tensors: X[N]: f32; Y[N]: f32;\n"
                        "    scalars: a: f32 = 2.5;\n    x = alloc([N])\n    load(X[0:N] -> x)\n"
                        "    y = x * (a + 1)\n    store(y -> Y[0:N])\n}\n");
    CHECK(m);
    ir_print(m, &s.text);
    CHECK(strstr(s.text.data, "scalar %a: f32 = 2.5"));
    CHECK(strstr(s.text.data, "add(%a, "));
    finish(&s);
}

static void check_refused(const char *body, const char *message) {
    Session s;
    start(&s);
    char text[2048];
    snprintf(text, sizeof text, "sketch k {\n    symbols: M, N;\n    tensors: X[M, N]: f32; Y[M, N]: f32;\n%s}\n", body);
    IrModule *m = build(&s, "k.sketch", text);
    CHECK(!m);
    CHECK(s.diags.first);
    if (!strstr(s.diags.first->text, message)) {
        fprintf(stderr, "got %s\nwant %s\n", s.diags.first->text, message);
        exit(1);
    }
    finish(&s);
}

/* A name that the text form does not hold: said to be our mistake, and nothing goes on. */
static void check_round_trip(void) {
    Session s;
    start(&s);
    IrModule *m = ir_module_create(s.unit, s.sources);
    IrFunc *f = ir_func_create(m, "two words", IR_LEVEL_TILE);
    IrBuilder b = ir_builder_at_end(f->body);
    ir_op_create(&b, IR_RETURN, 0, NULL, 0, NULL);
    PassContext ctx = {.module = m, .diags = &s.diags};
    ctx.target = target_find(s.unit, &s.diags, "x86-64-v3");
    PassOptions options = {.round_trip = true};
    PassReport report;
    pass_report_init(&report);
    CHECK(!passes_run(&ctx, tile_passes, COUNT_OF(tile_passes), &options, &report) && report.done == 0);
    Str text;
    str_init(&text);
    diag_render_text(&s.diags, false, &text);
    CHECK(strstr(text.data, "internal error[B0721]: the IR after input does not print and parse back to itself"));
    str_release(&text);
    pass_report_release(&report);
    finish(&s);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    const char *norm[] = {
        "case @small {B = 2, F = 7, D1 = 33, D2 = 5; X = normal(0.0, 1.0)}",
        "graph.reduce(%0) {kind = \"mean\", axes = [1], keepdim = true} : tensor<[B, 1, D1, D2] x "
        "f32>",
        "return(%Y) {names = [\"Y\"]}",
        "grid_x = aff(B*ceildiv(D1, 8)*ceildiv(D2, 128))",
        "{pipeline = 2} : tile<[8, 128] x f32> (%f: index,",
    };
    check_example(argv[1], "rmsnorm", "sm_80", norm, COUNT_OF(norm));
    const char *norm_cpu[] = {"parallel(%0, %B, %1) {collapse = true} (%b: index) {", "tile<[8, 256] x f32>"};
    check_example(argv[1], "rmsnorm", "x86-64-v3", norm_cpu, COUNT_OF(norm_cpu));
    const char *softmax[] = {"guard -N + 4097 > 0", "func @softmax_whole_row_passes tile static",
                             "tile.fill(%row) {value = -inf, axis = 0} : tile<[4096] x f32>", "grid_x = aff(M)"};
    check_example(argv[1], "softmax", "sm_90a", softmax, COUNT_OF(softmax));
    const char *gemm[] = {"sum_a = [1], sum_b = [0]} : tensor<[M, N] x f32>", "{pipeline = 3} : tile<[128, 128] x f32>",
                          "grid_x = aff(ceildiv(M, 128)*ceildiv(N, 128))", "= tile.gemm(%a, %b, %acc_2) : tile<[128, 128] x f32>"};
    check_example(argv[1], "matmul_f16", "sm_80", gemm, COUNT_OF(gemm));
    check_example(argv[1], "matmul_bf16", "sm_80", gemm, COUNT_OF(gemm));
    check_example(argv[1], "matmul_f32", "x86-64-v4", gemm, 1);
    check_scalar();
    check_round_trip();
    check_refused("    for m in range(M):\n        r = alloc([N])\n        load(X[m, 0:N] -> r)\n"
                  "        s = alloc([N])\n        store(s -> Y[m, 0:N])\n",
                  "`s`");
    return 0;
}
