/* The evidence of docs/notes/001-error-bounds.md: honest f32 results in many orders pass, planted faults are
 * rejected by their named check, and the mildest fault is at least twice the rms figure away.
 *
 *   test_faults FAULTS.skir [--table] [--long]
 *
 * --table prints every figure; --long takes more elements. */
#include "../unit/verify/graph.h"
#include "sums.h"

#include <math.h>

static bool print_table, long_run;
static double worst_honest_rms, worst_honest_ratio, mildest_fault_rms = INFINITY;
static int failures;

typedef struct {
    const char *op, *data;
    Arena *arena;
    Evaluator *ev;
    EvalInput *in;
    const Shape *shape;
    float *x, *y; /* operands as f32 */
    float *out;
    int64_t sizes[3];
} Case;

static IrModule *module;

static float *as_floats(Arena *arena, const EvalInput *in) {
    float *data = ARENA_ARRAY(arena, float, (size_t)in->shape.elements + 1);
    size_t size = dtype_size(in->shape.dtype);
    for (int64_t i = 0; i < in->shape.elements; i++)
        data[i] = (float)dtype_read(in->shape.dtype, (const char *)in->data + (size_t)i * size);
    return data;
}

static Case open_case(const char *op, const char *data, const char *const *symbols, int64_t s0, int64_t s1, int64_t s2) {
    Case c = {.op = op, .data = data, .arena = arena_create(), .sizes = {s0, s1, s2}};
    const IrFunc *f = module->first;
    while (strcmp(f->name, op) != 0) f = f->next;
    SymbolValue values[3];
    size_t count = 0;
    for (; count < 3 && symbols[count]; count++) values[count] = (SymbolValue){symbols[count], c.sizes[count]};
    const Sizes *sizes = graph_sizes(c.arena, f, count, values);
    c.ev = graph_bind(c.arena, f, sizes, data, true, false, &c.in);
    c.shape = evaluator_output(c.ev, 0);
    c.x = as_floats(c.arena, &c.in[0]);
    if (strncmp(op, "matmul", 6) == 0) c.y = as_floats(c.arena, &c.in[1]);
    c.out = ARENA_ARRAY(c.arena, float, (size_t)c.shape->elements + 1);
    return c;
}

static Verdict judge(const Case *c, bool poisoned) {
    Verdict v;
    verdict_init(&v, c->arena);
    CompareOptions options = {.seed = 1};
    verdict_check_output(&v, c->ev, 0, c->out, poisoned, &options);
    return v;
}

static void say(const Case *c, const char *what, const Verdict *v, bool expected) {
    if (print_table || !expected)
        printf("%-8s %-11s %-8s %6lld %6lld %6lld  %-36s rms %-9.3g max %-9.3g %s%s%s%s\n", expected ? "" : "WRONG", c->op, c->data,
               (long long)c->sizes[0], (long long)c->sizes[1], (long long)c->sizes[2], what, v->outputs[0].rms, v->outputs[0].max_ratio,
               verdict_passed(v) ? "passes" : "fails", v->checks[CHECK_BOUND].status == CHECK_FAILED ? " bound" : "",
               v->checks[CHECK_RMS].status == CHECK_FAILED ? " rms" : "",
               v->checks[CHECK_UNWRITTEN].status == CHECK_FAILED ? " unwritten" : "");
    failures += !expected;
}

static void expect_honest(const Case *c, const char *what) {
    Verdict v = judge(c, true);
    worst_honest_rms = fmax(worst_honest_rms, v.outputs[0].rms);
    worst_honest_ratio = fmax(worst_honest_ratio, v.outputs[0].max_ratio);
    say(c, what, &v, verdict_passed(&v));
}

/* Expects the rejection by `check`; counts toward the mildest fault. */
static void expect_fault(const Case *c, const char *what, CheckId check, bool poisoned) {
    Verdict v = judge(c, poisoned);
    mildest_fault_rms = fmin(mildest_fault_rms, v.outputs[0].rms);
    say(c, what, &v, !verdict_passed(&v) && v.checks[check].status == CHECK_FAILED);
}

/* ---- The operators in f32 ---- */

static const float one = 1;

static void run_rms_norm(const Case *c, SumKind sum, bool reciprocal) {
    int64_t B = c->sizes[0], F = c->sizes[1], D = c->sizes[2];
    for (int64_t b = 0; b < B; b++)
        for (int64_t d = 0; d < D; d++) {
            const float *x = c->x + b * F * D + d;
            float *y = c->out + b * F * D + d;
            float r = sqrtf(sum(x, D, x, D, F) / (float)F + 1e-5f), q = 1 / r;
            for (int64_t f = 0; f < F; f++) y[f * D] = reciprocal ? x[f * D] * q : x[f * D] / r;
        }
}

static void run_softmax(const Case *c, SumKind sum, bool reciprocal) {
    int64_t M = c->sizes[0], N = c->sizes[1];
    for (int64_t m = 0; m < M; m++) {
        const float *x = c->x + m * N;
        float *y = c->out + m * N, top = -INFINITY;
        for (int64_t n = 0; n < N; n++) top = fmaxf(top, x[n]);
        for (int64_t n = 0; n < N; n++) y[n] = expf(x[n] - top);
        float s = sum(y, 1, &one, 0, N), q = 1 / s;
        for (int64_t n = 0; n < N; n++) y[n] = reciprocal ? y[n] * q : y[n] / s;
    }
}

/* The running maximum rescales the running sum. */
static void run_online_softmax(const Case *c) {
    int64_t M = c->sizes[0], N = c->sizes[1];
    for (int64_t m = 0; m < M; m++) {
        const float *x = c->x + m * N;
        float top = -INFINITY, s = 0;
        for (int64_t n = 0; n < N; n += 64) {
            float before = top, part = 0;
            for (int64_t k = n; k < n + 64 && k < N; k++) top = fmaxf(top, x[k]);
            for (int64_t k = n; k < n + 64 && k < N; k++) part += expf(x[k] - top);
            s = s * expf(before - top) + part;
        }
        for (int64_t n = 0; n < N; n++) c->out[m * N + n] = expf(x[n] - top) / s;
    }
}

static void run_matmul(const Case *c, SumKind sum, bool unused) {
    int64_t M = c->sizes[0], N = c->sizes[1], K = c->sizes[2];
    (void)unused;
    for (int64_t m = 0; m < M; m++)
        for (int64_t n = 0; n < N; n++) c->out[m * N + n] = sum(c->x + m * K, 1, c->y + n, N, K);
}

typedef void (*RunKind)(const Case *c, SumKind sum, bool reciprocal);

/* ---- Faults of the result ---- */

static void plant_faults(const Case *c, RunKind run) {
    int64_t n = c->shape->elements, row = c->shape->extents[c->shape->rank - 1];
    size_t bytes = (size_t)n * sizeof(float);
    float *good = ARENA_ARRAY(c->arena, float, (size_t)n + 1);
    run(c, sum_in_order, false);
    memcpy(good, c->out, bytes);

    memset(c->out, 0, bytes);
    expect_fault(c, "zeros", CHECK_BOUND, true);
    int64_t tile = row > 8 ? row - row / 8 : row - 1;
    memcpy(c->out, good, bytes);
    for (int64_t i = 0; i < n; i++)
        if (i % row >= tile) poison_fill(DTYPE_F32, &c->out[i], sizeof(float));
    expect_fault(c, "last tile skipped", CHECK_UNWRITTEN, true);
    for (int64_t i = 0; i < n; i++)
        if (i % row >= tile) c->out[i] = good[i - i % row + tile - 1];
    expect_fault(c, "last tile stale", CHECK_BOUND, true);
    memcpy(c->out, good, bytes);
    c->out[n / 2] = good[n / 2 + 1];
    expect_fault(c, "element moved", CHECK_BOUND, true);
    memcpy(c->out, good, bytes);
    memcpy(c->out + row, good + 2 * row, (size_t)row * sizeof(float));
    memcpy(c->out + 2 * row, good + row, (size_t)row * sizeof(float));
    expect_fault(c, "rows swapped", CHECK_BOUND, true);
    run(c, sum_without_last_stage, false);
    expect_fault(c, "last reduction stage missing", CHECK_BOUND, true);
}

/* ---- Faults around the result ---- */

static void check_surroundings(void) {
    static const char *const symbols[] = {"M", "N", NULL};
    Case c = open_case("softmax", "normal", symbols, 16, 100, 0);
    run_softmax(&c, sum_in_order, false);
    size_t bytes = (size_t)c.shape->elements * sizeof(float), zone = 256;
    char *memory = arena_alloc(c.arena, bytes + 2 * zone);
    guard_fill(memory, zone);
    guard_fill(memory + zone + bytes, zone);
    memcpy(memory + zone, c.out, bytes);
    CHECK(guard_find_damage(memory, zone) < 0 && guard_find_damage(memory + zone + bytes, zone) < 0);
    ((float *)(void *)(memory + zone))[c.shape->elements] = 0; /* one past the end */
    CHECK(guard_find_damage(memory + zone + bytes, zone) == 0);

    Verdict v = judge(&c, true);
    float *second = ARENA_ARRAY(c.arena, float, (size_t)c.shape->elements);
    poison_fill_round(DTYPE_F32, 1, second, bytes); /* work skipped from the second launch on */
    verdict_check_second(&v, c.shape, c.out, second, true);
    CHECK(v.checks[CHECK_SECOND_LAUNCH].status == CHECK_FAILED && !verdict_passed(&v));
    v = judge(&c, true);
    ((float *)(uintptr_t)c.in[0].data)[77] += 1;
    verdict_check_input(&v, c.in[0].spec, c.in[0].data, 1);
    CHECK(v.checks[CHECK_INPUT_MODIFIED].status == CHECK_FAILED && !verdict_passed(&v));
    arena_destroy(c.arena);
}

/* ---- Sweeps ---- */

static const char *const data_kinds[] = {"normal", "uniform", "softmax"};

static void sweep_norms(void) {
    static const char *const rms[] = {"B", "F", "D"}, *const soft[] = {"M", "N", NULL};
    static const int64_t lengths[] = {2, 64, 1000, 4096};
    for (size_t d = 0; d < 2; d++)
        for (size_t l = 0; l < COUNT_OF(lengths); l++) {
            int64_t n = lengths[l];
            if (n > 1000 && !long_run) continue;
            Case r = open_case("rms_norm", data_kinds[d], rms, 4, n, 24);
            Case s = open_case("softmax", data_kinds[d], soft, 32, n, 0);
            for (int k = 0; k < sums_honest_count; k++)
                for (int q = 0; q < 2; q++) {
                    run_rms_norm(&r, sums_honest[k].sum, q);
                    expect_honest(&r, sums_honest[k].name);
                    run_softmax(&s, sums_honest[k].sum, q);
                    expect_honest(&s, sums_honest[k].name);
                }
            run_online_softmax(&s);
            expect_honest(&s, "online");
            if (n >= 64) {
                plant_faults(&r, run_rms_norm);
                plant_faults(&s, run_softmax);
            }
            arena_destroy(r.arena);
            arena_destroy(s.arena);
        }
}

/* tf32 is no fault of 16-bit operands, which it holds exactly. */
static void plant_narrow_sums(const Case *c, bool narrow) {
    for (int i = 0; i < sums_faulty_count; i++) {
        const SumInfo *fault = &sums_faulty[i];
        if (c->sizes[2] > fault->max_depth || (narrow && !fault->counted)) continue;
        double before = mildest_fault_rms;
        run_matmul(c, fault->sum, false);
        expect_fault(c, fault->name, CHECK_RMS, true);
        if (!fault->counted || narrow) mildest_fault_rms = before;
    }
}

static void sweep_matmul(const char *op, bool narrow) {
    static const char *const symbols[] = {"M", "N", "K"};
    static const int64_t depths[] = {1, 4, 64, 512, 4096, 16384};
    int64_t side = long_run ? 64 : 10;
    for (size_t d = 0; d < (narrow ? 2 : COUNT_OF(data_kinds)); d++)
        for (size_t k = narrow ? 2 : 0; k < COUNT_OF(depths); k++) {
            if (depths[k] == 4096 && !long_run) continue;
            Case c = open_case(op, data_kinds[d], symbols, side, side, depths[k]);
            for (int i = 0; i < sums_honest_count; i++) {
                run_matmul(&c, sums_honest[i].sum, false);
                expect_honest(&c, sums_honest[i].name);
            }
            for (int i = 0; narrow && i < sums_tensor_core_count; i++) {
                run_matmul(&c, sums_tensor_core[i].sum, false);
                expect_honest(&c, sums_tensor_core[i].name);
            }
            if (depths[k] >= 64) plant_narrow_sums(&c, narrow);
            if (depths[k] == 512) plant_faults(&c, run_matmul);
            arena_destroy(c.arena);
        }
}

int main(int argc, char **argv) {
    CHECK(argc > 1);
    for (int i = 2; i < argc; i++) {
        print_table |= strcmp(argv[i], "--table") == 0;
        long_run |= strcmp(argv[i], "--long") == 0;
    }
    Arena *arena = arena_create();
    Str text;
    str_init(&text);
    CHECK(file_read(argv[1], 1 << 20, &text));
    module = graph_parse(arena, text.data);
    sweep_norms();
    sweep_matmul("matmul_f32", false);
    sweep_matmul("matmul_f16", true);
    sweep_matmul("matmul_bf16", true);
    check_surroundings();
    printf("honest: rms at most %.3g, error over bound at most %.3g; mildest fault: rms %.3g; "
           "figure %.3g\n",
           worst_honest_rms, worst_honest_ratio, mildest_fault_rms, VERIFY_RMS_FIGURE);
    CHECK(failures == 0 && worst_honest_rms < VERIFY_RMS_FIGURE);
    CHECK(mildest_fault_rms >= 2 * VERIFY_RMS_FIGURE);
    str_release(&text);
    arena_destroy(arena);
    return 0;
}
