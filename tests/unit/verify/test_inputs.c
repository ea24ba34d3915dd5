/* Data is a pure function of (seed, name, index): element by element, in pieces, over threads. */
#include "check.h"
#include "verify.h"

#include <math.h>

static Shape make_shape(const char *name, Dtype dtype, int64_t rows, int64_t columns) {
    return (Shape){name, dtype, 2, {rows, columns}, rows * columns};
}

static InputSpec make_spec(const Shape *shape, const char *generator, size_t count, const double *args) {
    InputSpec spec;
    const char *error = NULL;
    CHECK(input_spec_init(&spec, 7, shape, generator, count, args, &error));
    return spec;
}

static double element(const InputSpec *spec, const void *buffer, int64_t i) {
    return dtype_read(spec->shape.dtype, (const char *)buffer + (size_t)i * dtype_size(spec->shape.dtype));
}

static void check_fill(const InputSpec *spec) {
    int64_t n = spec->shape.elements;
    size_t size = dtype_size(spec->shape.dtype);
    char *whole = malloc((size_t)n * size), *pieces = malloc((size_t)n * size);
    CHECK(whole && pieces);
    input_fill(spec, whole, 0, n, 4);
    for (int64_t at = 0; at < n; at += 777) input_fill(spec, pieces + (size_t)at * size, at, at + 777 < n ? at + 777 : n, 1);
    CHECK(memcmp(whole, pieces, (size_t)n * size) == 0);
    for (int64_t i = 0; i < n; i += 13) {
        double want = input_value(spec, i), got = element(spec, whole, i), listed;
        input_values(spec, 1, &i, &listed);
        CHECK(got == want && listed == want);
    }
    CHECK(input_find_difference(spec, whole, 0, n, 3) == -1);
    whole[(size_t)(n - 2) * size] ^= 1;
    CHECK(input_find_difference(spec, whole, 0, n, 3) == n - 2);
    whole[5 * size] ^= 1;
    CHECK(input_find_difference(spec, whole, 0, n, 3) == 5);
    free(whole);
    free(pieces);
}

static void check_all_dtypes(void) {
    static const char *const generators[] = {"uniform", "normal", "exact",   "zeros",   "ones",        "arange", "symmetric",
                                             "triu",    "tril",   "softmax", "one_hot", "permutation", "wide"};
    for (int t = 1; t < DTYPE_COUNT; t++) {
        Shape shape = make_shape("X", (Dtype)t, 300, 300);
        for (size_t g = 0; g < COUNT_OF(generators); g++) {
            InputSpec spec = make_spec(&shape, generators[g], 0, NULL);
            if (g == 2 || t == DTYPE_F32) check_fill(&spec);
            double first = input_value(&spec, 12345);
            CHECK(isnan(first) || first == dtype_round((Dtype)t, first));
        }
    }
}

/* Lines of special integers: within the case's range, or up to both ends of the type. */
static void check_special_integers(void) {
    static const double range[] = {2, 6};
    for (int t = 1; t < DTYPE_COUNT; t++) {
        Shape shape = make_shape("I", (Dtype)t, 300, 40);
        if (dtype_is_float((Dtype)t) || t == DTYPE_BOOL) continue;
        for (int beyond = 0; beyond < 2; beyond++) {
            InputSpec spec = make_spec(&shape, "randint", 2, range);
            spec.special = 2;
            spec.beyond = beyond;
            check_fill(&spec);
            int64_t least = INT64_MAX, greatest = INT64_MIN;
            for (int64_t i = 0; i < shape.elements; i++) {
                int64_t value = input_value_int(&spec, i);
                least = value < least ? value : least;
                greatest = value > greatest ? value : greatest;
            }
            if (beyond)
                CHECK(dtype_is_signed((Dtype)t) ? least < -100 && greatest > 100 : t == DTYPE_U64 || (least == 0 && greatest > 200));
            else
                CHECK(least == 2 && greatest == 5);
        }
    }
}

/* Between any two powers of 16 lies some element. */
static void check_special_magnitudes(void) {
    Shape shape = make_shape("X", DTYPE_F32, 40000, 4);
    InputSpec spec = make_spec(&shape, "normal", 0, NULL);
    bool seen[64] = {false};
    spec.special = 2;
    for (int64_t i = 0; i < shape.elements; i++) {
        double size = fabs(input_value(&spec, i));
        if (isfinite(size) && size >= 0x1p-126) seen[(int)(floor(log2(size)) + 126) / 4] = true;
    }
    for (int i = 0; i < 63; i++) CHECK(seen[i]);
}

static void check_moments(const char *generator, const double *args, double mean, double variance) {
    Shape shape = make_shape("M", DTYPE_F64, 1000, 1000);
    InputSpec spec = make_spec(&shape, generator, 2, args);
    double sum = 0, squares = 0, cubes = 0, n = (double)shape.elements;
    for (int64_t i = 0; i < shape.elements; i++) {
        double x = input_value(&spec, i) - mean;
        sum += x;
        squares += x * x;
        cubes += x * x * x;
    }
    double deviation = sqrt(variance);
    CHECK(fabs(sum / n) < 5 * deviation / sqrt(n));
    CHECK(fabs(squares / n - variance) < 10 * variance / sqrt(n));
    CHECK(fabs(cubes / n) < 20 * variance * deviation / sqrt(n));
}

/* The share of a Gaussian beyond one, two and four standard deviations. */
static void check_tails(void) {
    Shape shape = make_shape("T", DTYPE_F64, 1000, 2000);
    InputSpec spec = make_spec(&shape, "normal", 0, NULL);
    double beyond[3] = {0, 0, 0}, limit[3] = {1, 2, 4}, share[3] = {0.317311, 0.0455003, 6.334e-5};
    for (int64_t i = 0; i < shape.elements; i++)
        for (int k = 0; k < 3; k++) beyond[k] += fabs(input_value(&spec, i)) > limit[k];
    for (int k = 0; k < 3; k++) {
        double want = share[k] * (double)shape.elements;
        CHECK(fabs(beyond[k] - want) < 5 * sqrt(want));
    }
}

static void check_structure(void) {
    Shape square = make_shape("S", DTYPE_F32, 65, 65), rows = make_shape("P", DTYPE_F32, 9, 31);
    InputSpec symmetric = make_spec(&square, "symmetric", 0, NULL);
    InputSpec upper = make_spec(&square, "triu", 0, NULL), soft = make_spec(&rows, "softmax", 0, NULL);
    for (int64_t i = 0; i < 65; i++)
        for (int64_t j = 0; j < 65; j++) {
            CHECK(input_value(&symmetric, i * 65 + j) == input_value(&symmetric, j * 65 + i));
            CHECK((input_value(&upper, i * 65 + j) == 0) == (j < i));
        }
    for (int64_t i = 0; i < 9; i++) {
        double sum = 0;
        for (int64_t j = 0; j < 31; j++) {
            CHECK(input_value(&soft, i * 31 + j) >= 0);
            sum += input_value(&soft, i * 31 + j);
        }
        CHECK(fabs(sum - 1) < 1e-6);
    }
}

static void check_integers(void) {
    double range[2] = {-3, 5};
    Shape shape = make_shape("I", DTYPE_I32, 100, 100);
    InputSpec spec = make_spec(&shape, "randint", 2, range);
    int64_t counts[8] = {0};
    for (int64_t i = 0; i < shape.elements; i++) {
        int64_t v = input_value_int(&spec, i);
        CHECK(v >= -3 && v < 5);
        counts[v + 3]++;
    }
    for (int k = 0; k < 8; k++) CHECK(llabs(counts[k] - 1250) < 200);
}

static void check_streams_differ(void) {
    Shape a = make_shape("A", DTYPE_F64, 100, 100), b = make_shape("B", DTYPE_F64, 100, 100);
    InputSpec x = make_spec(&a, "uniform", 0, NULL), y = make_spec(&b, "uniform", 0, NULL), z = x;
    input_spec_default(&z, 8, &a);
    double xy = 0;
    for (int64_t i = 0; i < a.elements; i++) {
        CHECK(input_value(&x, i) != input_value(&y, i));
        CHECK(input_value(&x, i) != input_value(&z, i));
        xy += (input_value(&x, i) - 0.5) * (input_value(&y, i) - 0.5);
    }
    CHECK(fabs(xy) < 5 * sqrt((double)a.elements) / 12);
}

static void check_errors(void) {
    Shape flat = {"F", DTYPE_F32, 1, {5}, 5}, oblong = make_shape("O", DTYPE_F32, 4, 5);
    InputSpec spec;
    const char *error = NULL;
    double bad[2] = {3, 3};
    CHECK(!input_spec_init(&spec, 0, &flat, "gauss", 0, NULL, &error) && error);
    CHECK(!input_spec_init(&spec, 0, &flat, "const", 0, NULL, &error));
    CHECK(!input_spec_init(&spec, 0, &flat, "triu", 0, NULL, &error));
    CHECK(!input_spec_init(&spec, 0, &oblong, "symmetric", 0, NULL, &error));
    CHECK(!input_spec_init(&spec, 0, &oblong, "randint", 2, bad, &error));
}

/* Every row holds each number once; rows differ; the one of a one-hot row moves. */
static void check_rows(void) {
    static const int64_t lengths[] = {1, 2, 3, 64, 65, 1000};
    for (size_t k = 0; k < COUNT_OF(lengths); k++) {
        int64_t n = lengths[k], same = 0, moved = 0, before = -1;
        Shape shape = make_shape("X", DTYPE_I32, 20, n);
        InputSpec permutation = make_spec(&shape, "permutation", 0, NULL), one_hot = make_spec(&shape, "one_hot", 0, NULL);
        for (int64_t row = 0; row < 20; row++) {
            bool seen[1000] = {false};
            int64_t ones = 0, at = -1;
            for (int64_t i = 0; i < n; i++) {
                int64_t v = input_value_int(&permutation, row * n + i);
                CHECK(v >= 0 && v < n && !seen[v]);
                seen[v] = true;
                same += v == i;
                if (input_value_int(&one_hot, row * n + i)) ones++, at = i;
            }
            CHECK(ones == 1);
            moved += before >= 0 && at != before;
            before = at;
        }
        CHECK(n < 64 || (same < 20 * 8 && moved > 10));
    }
}

/* Whole numbers of trials: none is 0 while all may stay, and a share of them otherwise. */
static void check_nonzero(void) {
    enum { COUNT = 4000 };
    int seen[7] = {0}, ones = 0, zeros = 0;
    Shape shape = {.name = "X", .dtype = DTYPE_F32, .rank = 1, .extents = {COUNT}, .elements = COUNT};
    InputSpec spec;
    input_spec_exact(&spec, 1, &shape);
    spec.nonzero = true;
    for (int i = 0; i < COUNT; i++) {
        double v = input_value(&spec, i);
        CHECK(v == rint(v) && v != 0 && fabs(v) <= 3);
        seen[(int)v + 3]++;
    }
    for (int v = 0; v < 7; v++) CHECK(v == 3 ? seen[v] == 0 : seen[v] > COUNT / 6 - 200 && seen[v] < COUNT / 6 + 200);
    CHECK(input_spec_thin(&spec, 1));
    for (int i = 0; i < COUNT; i++) {
        CHECK(fabs(input_value(&spec, i)) == 1);
        ones += input_value(&spec, i) == 1;
    }
    CHECK(ones > COUNT / 2 - 200 && ones < COUNT / 2 + 200);
    CHECK(input_spec_thin(&spec, 0.25));
    for (int i = 0; i < COUNT; i++) zeros += input_value(&spec, i) == 0;
    CHECK(zeros > COUNT / 2);
}

int main(void) {
    double unit[2] = {0, 1}, normal[2] = {2, 3};
    check_all_dtypes();
    check_special_integers();
    check_special_magnitudes();
    check_moments("uniform", unit, 0.5, 1.0 / 12);
    check_moments("normal", normal, 2, 9);
    check_tails();
    check_structure();
    check_rows();
    check_integers();
    check_nonzero();
    check_streams_differ();
    check_errors();
    return 0;
}
