/* As test_faults.c, of what works along an axis: running sums and recurrences in several orders pass, and so do an argmax and a
 * sort over data with many equal elements; each planted fault is rejected by its named check.
 *
 *   test_along_faults FAULTS.skir [--table] [--long] */
#include "../unit/verify/graph.h"

#include <math.h>

enum { ROWS = 8, CHUNK = 32, MOST = 4096 };

/* One row: `values` and, where the operator has them, `indices`. */
typedef struct {
    float *values;
    int64_t *indices;
} Row;
typedef void (*RowKind)(const float *x, int n, Row out);

typedef struct {
    const char *op, *name;
    RowKind row;
    bool fault;
    unsigned output; /* faults: where the named check sees it */
    CheckId check;
} Way;

/* ---- Running sums ---- */

static void sum_in_order(const float *x, int n, Row out) {
    float sum = 0;
    for (int i = 0; i < n; i++) out.values[i] = sum += x[i];
}

/* A chunk's sums by doubling distances, as the lanes of a warp form them. */
static void sum_chunk(const float *x, int n, float before, float *out) {
    float a[CHUNK], b[CHUNK];
    memcpy(a, x, (size_t)n * sizeof *x);
    for (int d = 1; d < n; d *= 2) {
        for (int i = 0; i < n; i++) b[i] = i < d ? a[i] : a[i - d] + a[i];
        memcpy(a, b, (size_t)n * sizeof *a);
    }
    for (int i = 0; i < n; i++) out[i] = before + a[i];
}

typedef enum { CARRY_ALL, CARRY_NONE, CARRY_STALE } Carry;

static void sum_chunks(const float *x, int n, Carry carry, float *out) {
    float before = 0, stale = 0;
    for (int i = 0; i < n; i += CHUNK) {
        int count = n - i < CHUNK ? n - i : CHUNK;
        sum_chunk(x + i, count, carry == CARRY_ALL ? before : carry == CARRY_NONE ? 0 : stale, out + i);
        float total[CHUNK];
        sum_chunk(x + i, count, 0, total);
        stale = before;
        before += total[count - 1];
    }
}

static void sum_by_chunks(const float *x, int n, Row out) {
    sum_chunks(x, n, CARRY_ALL, out.values);
}
static void sum_without_carry(const float *x, int n, Row out) {
    sum_chunks(x, n, CARRY_NONE, out.values);
}
static void sum_of_stale_carry(const float *x, int n, Row out) {
    sum_chunks(x, n, CARRY_STALE, out.values);
}

static void sum_exclusive(const float *x, int n, Row out) {
    float sum = 0;
    for (int i = 0; i < n; sum += x[i++]) out.values[i] = sum;
}

static void sum_in_f16(const float *x, int n, Row out) {
    double sum = 0;
    for (int i = 0; i < n; i++) out.values[i] = (float)(sum = dtype_round(DTYPE_F16, sum + (double)x[i]));
}

static void sum_unfinished(const float *x, int n, Row out) {
    int whole = n - n % CHUNK - (n % CHUNK ? 0 : CHUNK);
    sum_chunks(x, whole, CARRY_ALL, out.values);
    poison_fill(DTYPE_F32, out.values + whole, (size_t)(n - whole) * sizeof(float));
}

/* ---- Linear recurrences, h = a * h + x ---- */

static const float FACTOR = 0.9F;

static void recur_in_order(const float *x, int n, Row out) {
    float h = 0;
    for (int i = 0; i < n; i++) out.values[i] = h = FACTOR * h + x[i];
}

/* h before each lane, begun from `start`, which every `period` lanes have anew. */
static void recur_begun(const float *x, int n, float start, int period, float *out) {
    float h = start;
    for (int i = 0; i < n; i++) {
        if (i && period && i % period == 0) h = start;
        out[i] = h;
        h = FACTOR * h + x[i];
    }
}

static void begun_in_order(const float *x, int n, Row out) {
    recur_begun(x, n, 3, 0, out.values);
}
static void begun_from_zero(const float *x, int n, Row out) {
    recur_begun(x, n, 0, 0, out.values);
}
static void begun_in_each_chunk(const float *x, int n, Row out) {
    recur_begun(x, n, 3, CHUNK, out.values);
}

static void begun_with_the_lane(const float *x, int n, Row out) {
    float h = 3;
    for (int i = 0; i < n; i++) out.values[i] = h = FACTOR * h + x[i];
}

/* A chunk's pairs by doubling distances, as the lanes of a warp form them. */
static void recur_chunk(const float *x, int n, float before, bool decays, float *out) {
    float a[CHUNK], b[CHUNK];
    for (int i = 0; i < n; i++) a[i] = FACTOR, b[i] = x[i];
    for (int d = 1; d < n; d *= 2)
        for (int i = n - 1; i >= d; i--) b[i] = a[i] * b[i - d] + b[i], a[i] *= a[i - d];
    for (int i = 0; i < n; i++) out[i] = (decays ? a[i] : 1) * before + b[i];
}

static void recur_chunks(const float *x, int n, Carry carry, bool decays, float *out) {
    float before = 0, stale = 0;
    for (int i = 0; i < n; i += CHUNK) {
        int count = n - i < CHUNK ? n - i : CHUNK;
        recur_chunk(x + i, count, carry == CARRY_ALL ? before : carry == CARRY_NONE ? 0 : stale, decays, out + i);
        stale = before;
        before = out[i + count - 1];
    }
}

static void recur_by_chunks(const float *x, int n, Row out) {
    recur_chunks(x, n, CARRY_ALL, true, out.values);
}
static void recur_without_carry(const float *x, int n, Row out) {
    recur_chunks(x, n, CARRY_NONE, true, out.values);
}
static void recur_of_stale_carry(const float *x, int n, Row out) {
    recur_chunks(x, n, CARRY_STALE, true, out.values);
}
static void recur_undamped(const float *x, int n, Row out) {
    recur_chunks(x, n, CARRY_ALL, false, out.values);
}

static void recur_in_f16(const float *x, int n, Row out) {
    double h = 0;
    for (int i = 0; i < n; i++) out.values[i] = (float)(h = dtype_round(DTYPE_F16, (double)FACTOR * h + (double)x[i]));
}

static void recur_late(const float *x, int n, Row out) {
    float h = 0;
    for (int i = 0; i < n; h = FACTOR * h + x[i++]) out.values[i] = h;
}

static void recur_with_swapped_pairs(const float *x, int n, Row out) {
    recur_in_order(x, n, out);
    for (int i = CHUNK; i < n; i++) out.values[i] = FACTOR * x[i] + out.values[i - 1];
}

static void recur_of_coarse_factor(const float *x, int n, Row out) {
    float h = 0;
    for (int i = 0; i < n; i++) out.values[i] = h = (FACTOR + 0x1p-14F) * h + x[i];
}

/* ---- Argmax ---- */

static void first_largest(const float *x, int n, Row out) {
    int at = 0;
    for (int i = 1; i < n; i++) at = x[i] > x[at] ? i : at;
    *out.indices = at;
}

/* Pairs meet over halving distances: of equals the lower index stays. */
static void first_largest_by_tree(const float *x, int n, Row out) {
    int at[MOST];
    for (int i = 0; i < n; i++) at[i] = i;
    for (int left = n; left > 1; left = (left + 1) / 2)
        for (int i = 0, far = (left + 1) / 2; far + i < left; i++) {
            int a = at[i], b = at[far + i];
            at[i] = x[b] > x[a] || (x[b] == x[a] && b < a) ? b : a;
        }
    *out.indices = at[0];
}

static void last_largest(const float *x, int n, Row out) {
    int at = 0;
    for (int i = 1; i < n; i++) at = x[i] >= x[at] ? i : at;
    *out.indices = at;
}

static void largest_in_its_chunk(const float *x, int n, Row out) {
    first_largest(x, n, out);
    *out.indices %= CHUNK;
}

static void largest_of_the_first_half(const float *x, int n, Row out) {
    first_largest(x, n / 2, out);
}

static void smallest(const float *x, int n, Row out) {
    int at = 0;
    for (int i = 1; i < n; i++) at = x[i] < x[at] ? i : at;
    *out.indices = at;
}

/* ---- Sort ---- */

/* Stable: merges of doubling runs; those of `widest` elements are the last. */
static void merge_runs(const float *x, int n, int widest, bool stable, int64_t *at) {
    int64_t other[MOST];
    for (int i = 0; i < n; i++) at[i] = i;
    for (int run = 1; run < widest; run *= 2) {
        for (int begin = 0; begin < n; begin += 2 * run) {
            int a = begin, middle = begin + run < n ? begin + run : n, b = middle;
            int end = begin + 2 * run < n ? begin + 2 * run : n;
            for (int i = begin; i < end; i++) {
                bool second = a == middle || (b < end && (stable ? x[at[b]] < x[at[a]] : x[at[b]] <= x[at[a]]));
                other[i] = second ? at[b++] : at[a++];
            }
        }
        memcpy(at, other, (size_t)n * sizeof *at);
    }
}

static void take(const float *x, int n, Row out) {
    for (int i = 0; i < n; i++) out.values[i] = x[out.indices[i]];
}

static void sort_stable(const float *x, int n, Row out) {
    merge_runs(x, n, n, true, out.indices);
    take(x, n, out);
}
static void sort_unstable(const float *x, int n, Row out) {
    merge_runs(x, n, n, false, out.indices);
    take(x, n, out);
}
static void sort_without_last_merge(const float *x, int n, Row out) {
    merge_runs(x, n, (n + 1) / 2, true, out.indices);
    take(x, n, out);
}

static void sort_values_alone(const float *x, int n, Row out) {
    sort_stable(x, n, out);
    for (int i = 0; i < n; i++) out.indices[i] = i;
}

static void sort_loses_the_last(const float *x, int n, Row out) {
    sort_stable(x, n - 1, out);
    out.values[n - 1] = out.values[n - 2];
    out.indices[n - 1] = out.indices[n - 2];
}

static void sort_downward(const float *x, int n, Row out) {
    sort_stable(x, n, out);
    for (int i = 0; i < n / 2; i++) {
        int64_t kept = out.indices[i];
        out.indices[i] = out.indices[n - 1 - i];
        out.indices[n - 1 - i] = kept;
    }
    take(x, n, out);
}

static const Way ways[] = {
    {"running_sum", "in order", sum_in_order, false, 0, CHECK_BOUND},
    {"running_sum", "chunks of doubling distances", sum_by_chunks, false, 0, CHECK_BOUND},
    {"running_sum", "exclusive", sum_exclusive, true, 0, CHECK_BOUND},
    {"running_sum", "chunks without a carry", sum_without_carry, true, 0, CHECK_BOUND},
    {"running_sum", "a stale carry", sum_of_stale_carry, true, 0, CHECK_BOUND},
    {"running_sum", "f16 accumulator", sum_in_f16, true, 0, CHECK_BOUND},
    {"running_sum", "last chunk skipped", sum_unfinished, true, 0, CHECK_UNWRITTEN},
    {"recurrence", "in order", recur_in_order, false, 0, CHECK_BOUND},
    {"recurrence", "chunks of doubling distances", recur_by_chunks, false, 0, CHECK_BOUND},
    {"recurrence", "chunks without a carry", recur_without_carry, true, 0, CHECK_BOUND},
    {"recurrence", "a stale carry", recur_of_stale_carry, true, 0, CHECK_BOUND},
    {"recurrence", "a carry without the chunk's factor", recur_undamped, true, 0, CHECK_BOUND},
    {"recurrence", "f16 state", recur_in_f16, true, 0, CHECK_BOUND},
    {"recurrence", "a step late", recur_late, true, 0, CHECK_BOUND},
    {"recurrence", "pairs exchanged", recur_with_swapped_pairs, true, 0, CHECK_BOUND},
    {"recurrence", "a factor off by 2^-14", recur_of_coarse_factor, true, 0, CHECK_BOUND},
    {"recurrence_begun", "in order", begun_in_order, false, 0, CHECK_BOUND},
    {"recurrence_begun", "from zero", begun_from_zero, true, 0, CHECK_BOUND},
    {"recurrence_begun", "each chunk from the start", begun_in_each_chunk, true, 0, CHECK_BOUND},
    {"recurrence_begun", "with the lane itself", begun_with_the_lane, true, 0, CHECK_BOUND},
    {"argmax", "in order", first_largest, false, 0, CHECK_BOUND},
    {"argmax", "tree", first_largest_by_tree, false, 0, CHECK_BOUND},
    {"argmax", "last of equals", last_largest, true, 0, CHECK_BOUND},
    {"argmax", "index in its chunk", largest_in_its_chunk, true, 0, CHECK_BOUND},
    {"argmax", "second half not looked at", largest_of_the_first_half, true, 0, CHECK_BOUND},
    {"argmax", "smallest", smallest, true, 0, CHECK_BOUND},
    {"sort", "stable merges", sort_stable, false, 0, CHECK_BOUND},
    {"sort", "unstable", sort_unstable, true, 1, CHECK_BOUND},
    {"sort", "last merge missing", sort_without_last_merge, true, 0, CHECK_BOUND},
    {"sort", "indices not moved", sort_values_alone, true, 1, CHECK_BOUND},
    {"sort", "last element lost", sort_loses_the_last, true, 0, CHECK_BOUND},
    {"sort", "downward", sort_downward, true, 0, CHECK_BOUND},
};

/* ---- Judging ---- */

static bool print_table;
static int failures;

/* Data with many equal elements, but where sums are to round: exact sums hide their order. */
static void coarsen(float *x, int count) {
    for (int i = 0; i < count; i++) x[i] = floorf(x[i] * 2);
}

static void check_way(const IrFunc *f, const Way *way, int n) {
    Arena *arena = arena_create();
    SymbolValue values[] = {{"M", ROWS}, {"N", n}};
    EvalInput *in;
    Evaluator *ev = graph_bind(arena, f, graph_sizes(arena, f, 2, values), "normal", true, false, &in);
    float *x = ARENA_ARRAY(arena, float, (size_t)ROWS *(size_t)n), *y = ARENA_ARRAY(arena, float, (size_t)ROWS *(size_t)n);
    int64_t *at = ARENA_ARRAY(arena, int64_t, (size_t)ROWS * (size_t)n);
    bool scan = strcmp(f->name, "running_sum") == 0 || strncmp(f->name, "recurrence", 10) == 0, rows = strcmp(f->name, "argmax") == 0;
    memcpy(x, in[0].data, (size_t)(ROWS * n) * sizeof *x);
    if (!scan) coarsen(x, ROWS * n);
    in[0].data = x;
    for (int m = 0; m < ROWS; m++) way->row(x + m * n, n, (Row){y + m * n, rows ? at + m : at + m * n});
    Verdict v;
    verdict_init(&v, arena);
    for (unsigned k = 0; k < evaluator_output_count(ev); k++) {
        CompareOptions options = {.seed = 1};
        Verdict one;
        verdict_init(&one, arena);
        bool real = dtype_is_float(evaluator_output(ev, k)->dtype);
        verdict_check_output(&one, ev, k, real ? (void *)y : at, true, &options);
        if (k == way->output) v = one;
        if (!way->fault && !verdict_passed(&one)) v = one;
    }
    bool expected = way->fault ? v.checks[way->check].status == CHECK_FAILED && !verdict_passed(&v) : verdict_passed(&v);
    failures += !expected;
    if (print_table || !expected)
        printf("%-6s %-11s %5d  %-30s rms %-9.3g %s: %s\n", expected ? "" : "WRONG", f->name, n, way->name, v.outputs[0].rms,
               verdict_passed(&v) ? "passes" : "fails", v.checks[way->check].detail ? v.checks[way->check].detail : "");
    arena_destroy(arena);
}

int main(int argc, char **argv) {
    static const int lengths[] = {65, 1000, MOST};
    bool long_run = false;
    CHECK(argc > 1);
    for (int i = 2; i < argc; i++) {
        print_table |= strcmp(argv[i], "--table") == 0;
        long_run |= strcmp(argv[i], "--long") == 0;
    }
    Arena *arena = arena_create();
    Str text;
    str_init(&text);
    CHECK(file_read(argv[1], 1 << 20, &text));
    const IrModule *module = graph_parse(arena, text.data);
    size_t faults = 0;
    for (size_t w = 0; w < COUNT_OF(ways); w++) {
        const IrFunc *f = module->first;
        while (strcmp(f->name, ways[w].op) != 0) f = f->next;
        for (size_t l = 0; l < (long_run ? 3 : 2); l++) check_way(f, &ways[w], lengths[l]);
        faults += ways[w].fault;
    }
    printf("%zu orders pass, %zu faults are rejected, %d wrong verdicts\n", COUNT_OF(ways) - faults, faults, failures);
    str_release(&text);
    arena_destroy(arena);
    return failures != 0;
}
