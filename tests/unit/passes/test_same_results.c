/* The tile passes keep results: each example, interpreted as built and after the passes, at extents
 * 0, 1, primes and tile edges +- 1. Only reductions may differ, by their order. */
#include <math.h>

#include "build.h"
#include "check.h"
#include "passes.h"
#include "verify.h"

static const PassId tile_passes[] = {PASS_SIMPLIFY,     PASS_OUTLINE_KERNELS, PASS_EXPAND_COUNTS, PASS_STRIP_MINE,
                                     PASS_SPLIT_PASSES, PASS_SIMPLIFY,        PASS_GRID,          PASS_SIMPLIFY};

enum { MAX_TENSORS = 4, MAX_SYMBOLS = 4 };

typedef struct {
    size_t count;
    Shape shapes[MAX_TENSORS];
    InterpretTensor tensors[MAX_TENSORS];
} Memory;

static IrModule *build_file(Arena *unit, DiagList *diags, const char *path) {
    Str text;
    str_init(&text);
    CHECK(file_read(path, 1 << 20, &text));
    uint32_t id = source_add(diags->sources, path, text.data, text.len);
    File *file = frontend_parse(unit, diags->sources, id, diags);
    FrontendOptions options = {0};
    CHECK(frontend_check(unit, file, &options, diags));
    IrModule *m = frontend_build(unit, diags->sources, file, diags);
    CHECK(m);
    str_release(&text);
    return m;
}

/* Inputs hold data, outputs poison. */
static Memory memory_for(Arena *unit, const IrFunc *f, const Sizes *sizes) {
    Memory m = {0};
    for (unsigned i = 0; i < f->param_count; i++) {
        if (f->params[i].kind != IR_PARAM_TENSOR) continue;
        Shape *shape = &m.shapes[m.count];
        CHECK(m.count < MAX_TENSORS && shape_of(sizes, f->params[i].name, f->body->args[i]->type, shape));
        size_t bytes = (size_t)shape->elements * dtype_size(shape->dtype);
        void *data = arena_alloc(unit, bytes + 16);
        InputSpec spec;
        input_spec_default(&spec, 7, shape);
        if (f->params[i].direction == IR_DIR_OUT)
            poison_fill(shape->dtype, data, bytes);
        else
            input_fill(&spec, data, 0, shape->elements, 1);
        m.tensors[m.count++] = (InterpretTensor){shape->name, data, bytes};
    }
    return m;
}

static void run(Arena *unit, const IrModule *m, const Sizes *sizes, const Memory *memory) {
    const char *error = NULL;
    InterpretArgs args = {.sizes = sizes, .tensor_count = memory->count, .tensors = memory->tensors};
    bool ok = interpret_module(unit, m, &args, &error);
    if (!ok) fprintf(stderr, "%s\n", error);
    CHECK(ok);
}

static double worst_difference(const Memory *a, const Memory *b) {
    double worst = 0;
    for (size_t t = 0; t < a->count; t++)
        for (int64_t i = 0; i < a->shapes[t].elements; i++) {
            size_t at = (size_t)i * dtype_size(a->shapes[t].dtype);
            double x = dtype_read(a->shapes[t].dtype, (char *)a->tensors[t].data + at);
            double y = dtype_read(a->shapes[t].dtype, (char *)b->tensors[t].data + at);
            double d = fabs(x - y) / (1e-30 + fabs(x));
            if (x == y) d = 0;
            if (!(d <= worst)) worst = isnan(d) ? INFINITY : d;
        }
    return worst;
}

static void check_sizes(const char *root, const char *name, const char *arch, const char *const *symbols, const int64_t *values,
                        double tolerance) {
    Arena *unit = arena_create();
    DiagList diags;
    diag_list_init(&diags, unit, source_map_create(unit));
    char path[512];
    snprintf(path, sizeof path, "%s/%s.sketch", root, name);
    IrModule *before = build_file(unit, &diags, path), *after = build_file(unit, &diags, path);
    PassContext ctx = {.module = after, .diags = &diags, .target = target_find(unit, &diags, arch)};
    PassOptions options = {0};
    PassReport report;
    pass_report_init(&report);
    CHECK(passes_run(&ctx, tile_passes, COUNT_OF(tile_passes), &options, &report));
    pass_report_release(&report);
    SymbolValue list[MAX_SYMBOLS];
    Sizes sizes = {0, list};
    for (; sizes.count < MAX_SYMBOLS && symbols[sizes.count]; sizes.count++)
        list[sizes.count] = (SymbolValue){symbols[sizes.count], values[sizes.count]};
    const IrFunc *f = before->last; /* the sketch */
    CHECK(f->level == IR_LEVEL_TILE);
    Memory a = memory_for(unit, f, &sizes), b = memory_for(unit, f, &sizes);
    run(unit, before, &sizes, &a);
    run(unit, after, &sizes, &b);
    double worst = worst_difference(&a, &b);
    if (worst > tolerance) {
        fprintf(stderr, "%s for %s differs by %g at", name, arch, worst);
        for (size_t i = 0; i < sizes.count; i++) fprintf(stderr, " %s=%lld", list[i].name, (long long)list[i].value);
        fprintf(stderr, "\n");
        exit(1);
    }
    arena_destroy(unit);
}

int main(int argc, char **argv) {
    static const char *const archs[] = {"x86-64-v3", "sm_80"};
    static const char *const norm[MAX_SYMBOLS] = {"B", "F", "D1", "D2"};
    static const int64_t norm_sizes[][4] = {{2, 3, 9, 5}, {1, 2, 8, 129}, {1, 2, 7, 257},  {2, 1, 1, 0},
                                            {0, 1, 1, 4}, {1, 0, 8, 4},   {1, 1, 17, 127}, {3, 1, 8, 256}};
    static const char *const row[MAX_SYMBOLS] = {"M", "N"};
    static const int64_t row_sizes[][4] = {{3, 0}, {2, 1}, {0, 7}, {3, 31}, {1, 4097}, {1, 8191}, {1, 8192}, {1, 8193}};
    static const char *const product[MAX_SYMBOLS] = {"M", "N", "K"};
    static const int64_t product_sizes[][4] = {{5, 7, 0}, {0, 3, 4}, {1, 1, 1}, {129, 65, 33}, {127, 3, 32}};
    CHECK(argc == 2);
    for (size_t a = 0; a < COUNT_OF(archs); a++) {
        for (size_t i = 0; i < COUNT_OF(norm_sizes); i++) check_sizes(argv[1], "rmsnorm", archs[a], norm, norm_sizes[i], 0);
        for (size_t i = 0; i < COUNT_OF(row_sizes); i++) check_sizes(argv[1], "softmax", archs[a], row, row_sizes[i], 2e-6);
        for (size_t i = 0; i < COUNT_OF(product_sizes); i++) check_sizes(argv[1], "matmul_f16", archs[a], product, product_sizes[i], 0);
    }
    return 0;
}
