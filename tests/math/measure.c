/* Measures an emitted function against a reference of higher precision, in ulps of the result.
 *
 *   measure f32|f64 unary|binary STEP     (STEP: every STEP-th f32 pattern; f64: 2^32 / STEP samples)
 *
 * Built with -DREFERENCE=... and the emitted `int function(const T *X, [const T *W,] T *Y, int64_t N)`.
 * Prints the greatest error and its arguments; a wrong sign, infinity or NaN ends the run with 1. */
#include <math.h>
#include <quadmath.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4096 };

typedef __float128 Wide;

#ifdef BINARY
int function(const void *x, const void *w, void *y, int64_t n);
#else
int function(const void *x, void *y, int64_t n);
#endif

typedef struct {
    bool f64;
    double worst, at[2];
    long checked;
} Measure;

/* Functions of functions. */
__attribute__((unused)) static double log1p_of_exp(double x) {
    return log1p(exp(-fabs(x)));
}
__attribute__((unused)) static Wide log1p_of_expq(Wide x) {
    return log1pq(expq(-fabsq(x)));
}
__attribute__((unused)) static double log_above_one(double x) {
    return log(1.0f + fabsf((float)x));
}
__attribute__((unused)) static Wide log_above_oneq(Wide x) {
    return logq(1 + fabsq(x));
}
__attribute__((unused)) static double log_of_root(double x) {
    return log(sqrtf(fabsf((float)x)));
}
__attribute__((unused)) static Wide log_of_rootq(Wide x) {
    return logq(sqrtq(fabsq(x)));
}

/* The exact result, as near as the reference library comes: double has 29 bits more than f32. */
static Wide reference(const Measure *m, double a, double b) {
    (void)b;
#define JOIN_(x, y) x##y
#define JOIN(x, y) JOIN_(x, y)
#ifdef BINARY
    return m->f64 ? JOIN(REFERENCE, q)(a, b) : (Wide)REFERENCE(a, b);
#else
    return m->f64 ? JOIN(REFERENCE, q)(a) : (Wide)REFERENCE(a);
#endif
}

static double ulps_off(const Measure *m, double y, Wide exact) {
    int digits = m->f64 ? 53 : 24, least = m->f64 ? -1022 : -126, most = m->f64 ? 1024 : 128;
    Wide limit = ldexpq(1, most);
    if (isnanq(exact) || isnan(y)) return isnanq(exact) && isnan(y) ? 0 : INFINITY;
    if (isinfq(exact)) return (Wide)y == exact ? 0 : INFINITY;
    if ((signbitq(exact) != 0) != (signbit(y) != 0)) return INFINITY;
    if (exact == 0) return y == 0 ? 0 : INFINITY;
    if (fabsq(exact) >= limit) exact = copysignq(limit, exact);
    Wide value = isinf(y) ? copysignq(limit, (Wide)y) : (Wide)y;
    int exponent = ilogbq(exact);
    if (exponent < least) exponent = least;
    if (exponent >= most) exponent = most - 1;
    return (double)ldexpq(fabsq(value - exact), digits - 1 - exponent);
}

static void check(Measure *m, double a, double b, double y) {
    double off = ulps_off(m, y, reference(m, a, b));
    m->checked++;
    if (off <= m->worst) return;
    m->worst = off;
    m->at[0] = a;
    m->at[1] = b;
}

static float narrow[3][BATCH];
static double wide[3][BATCH];

static void run(Measure *m, size_t n) {
    void *x = m->f64 ? (void *)wide[0] : (void *)narrow[0];
    void *w = m->f64 ? (void *)wide[1] : (void *)narrow[1];
    void *y = m->f64 ? (void *)wide[2] : (void *)narrow[2];
#ifdef BINARY
    function(x, w, y, (int64_t)n);
#else
    (void)w;
    function(x, y, (int64_t)n);
#endif
    for (size_t i = 0; i < n; i++) {
        if (m->f64)
            check(m, wide[0][i], wide[1][i], wide[2][i]);
        else
            check(m, (double)narrow[0][i], (double)narrow[1][i], (double)narrow[2][i]);
    }
}

static uint64_t next(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* One in four of any bits, the others between 2^-8 and 2^9, where functions change. */
static double any_double(uint64_t *state) {
    uint64_t bits = next(state), exponent = 1015 + next(state) % 17;
    if (next(state) % 4) bits = (bits & ~(0x7FFull << 52)) | exponent << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float any_float(uint64_t *state) {
    uint32_t bits = (uint32_t)next(state), exponent = 119 + (uint32_t)(next(state) % 17);
    if (next(state) % 4) bits = (bits & ~(0xFFu << 23)) | exponent << 23;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Small whole numbers, halves, the ends, arguments near multiples of pi/2, and the one float whose log2 is more than 1 off. */
static const double edges[] = {0.0,
                               -0.0,
                               1,
                               -1,
                               2,
                               -2,
                               3,
                               -3,
                               0.5,
                               -0.5,
                               1.5,
                               -1.5,
                               10,
                               -10,
                               20,
                               -20,
                               88.72283,
                               -88.72283,
                               89,
                               -87.33655,
                               -103.97,
                               -104,
                               709.782712893384,
                               -745.1332191019411,
                               -745.2,
                               710.4758600739439,
                               711,
                               0x1p-149,
                               -0x1p-149,
                               0x1p-1074,
                               -0x1p-1074,
                               0x1p-126,
                               0x1p-1022,
                               0x1.fffffep127,
                               -0x1.fffffep127,
                               0x1.fffffffffffffp1023,
                               -0x1.fffffffffffffp1023,
                               INFINITY,
                               -INFINITY,
                               NAN,
                               0x1.921fb6p0,
                               0x1.921fb54442d18p0,
                               0x1.921fb6p1,
                               0x1.921fb54442d18p1,
                               0x1.5fc2e6p3,
                               6381956970095103.0 * 0x1p797,
                               0x1.6ac5b262ca1ffp849,
                               0x1.cfp23,
                               12582917.0,
                               16777217.0,
                               0x1.fffffep-1,
                               0x1.000002p0,
                               0x1.fffffffffffffp-1,
                               0x1.0000000000001p0,
                               0x1p52,
                               0x1.8p53,
                               1e300,
                               -1e300,
                               1e-300,
                               5.0,
                               -5.0,
                               7.0,
                               1.0 / 3,
                               -0.9999999,
                               0.41421356,
                               2.41421356,
                               0.785398163,
                               0.70710678,
                               1.41421356,
                               0x1.69218ep0};

static void run_edges(Measure *m) {
    size_t count = sizeof edges / sizeof *edges, used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t inner = 1;
#ifdef BINARY
        inner = count;
#endif
        for (size_t k = 0; k < inner; k++) {
            wide[0][used] = edges[i];
            wide[1][used] = edges[k];
            narrow[0][used] = (float)edges[i];
            narrow[1][used] = (float)edges[k];
            if (++used < BATCH) continue;
            run(m, used);
            used = 0;
        }
    }
    run(m, used);
}

static void run_samples(Measure *m, uint64_t total) {
    uint64_t state = 1;
    for (uint64_t done = 0; done < total; done += BATCH) {
        for (size_t i = 0; i < BATCH; i++) {
            wide[0][i] = any_double(&state);
            wide[1][i] = any_double(&state);
            narrow[0][i] = any_float(&state);
            narrow[1][i] = any_float(&state);
        }
        run(m, BATCH);
    }
}

/* Every step-th pattern, with the ends of each binade. */
static void run_patterns(Measure *m, uint64_t step) {
    size_t used = 0;
    for (uint64_t bits = 0; bits < 1ull << 32; bits += step) {
        uint32_t pattern = (uint32_t)bits;
        memcpy(&narrow[0][used], &pattern, sizeof pattern);
        if (++used < BATCH && bits + step < 1ull << 32) continue;
        run(m, used);
        used = 0;
    }
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    Measure m = {.f64 = strcmp(argv[1], "f64") == 0};
    bool binary = strcmp(argv[2], "binary") == 0;
    uint64_t step = strtoull(argv[3], NULL, 10);
    run_edges(&m);
    if (m.f64 || binary)
        run_samples(&m, (1ull << 32) / step);
    else
        run_patterns(&m, step);
    printf("%.4f %a %a %ld\n", m.worst, m.at[0], m.at[1], m.checked);
    return isinf(m.worst) || isnan(m.worst);
}
