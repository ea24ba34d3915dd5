#include "sums.h"

#include "dtype.h"

#include <math.h>
#include <string.h>

float sum_in_order(const float *a, long sa, const float *b, long sb, long n) {
    float s = 0;
    for (long i = 0; i < n; i++) s += a[i * sa] * b[i * sb];
    return s;
}

static float sum_fma(const float *a, long sa, const float *b, long sb, long n) {
    float s = 0;
    for (long i = 0; i < n; i++) s = fmaf(a[i * sa], b[i * sb], s);
    return s;
}

static float sum_reversed(const float *a, long sa, const float *b, long sb, long n) {
    float s = 0;
    for (long i = n; i-- > 0;) s += a[i * sa] * b[i * sb];
    return s;
}

static float sum_pairwise(const float *a, long sa, const float *b, long sb, long n) {
    if (n <= 8) return sum_in_order(a, sa, b, sb, n);
    long h = n / 2;
    return sum_pairwise(a, sa, b, sb, h) + sum_pairwise(a + h * sa, sa, b + h * sb, sb, n - h);
}

static float sum_blocked(const float *a, long sa, const float *b, long sb, long n) {
    float s = 0;
    for (long i = 0; i < n; i += 32) s += sum_fma(a + i * sa, sa, b + i * sb, sb, n - i < 32 ? n - i : 32);
    return s;
}

/* 128 threads, a butterfly per warp, the warps' sums in order. `stages` of the butterfly's five. */
static float sum_by_threads(const float *a, long sa, const float *b, long sb, long n, int stages) {
    float lane[4][32] = {{0}}, next[32], s = 0;
    for (long i = 0; i < n; i++) {
        float *own = &lane[i / 32 % 4][i % 32];
        *own = fmaf(a[i * sa], b[i * sb], *own);
    }
    for (int w = 0; w < 4; w++) {
        for (int stage = 0, mask = 16; stage < stages; stage++, mask /= 2) {
            for (int l = 0; l < 32; l++) next[l] = lane[w][l] + lane[w][l ^ mask];
            memcpy(lane[w], next, sizeof next);
        }
        s += lane[w][0];
    }
    return s;
}

static float sum_threads(const float *a, long sa, const float *b, long sb, long n) {
    return sum_by_threads(a, sa, b, sb, n, 5);
}

float sum_without_last_stage(const float *a, long sa, const float *b, long sb, long n) {
    return sum_by_threads(a, sa, b, sb, n, 4);
}

static float sum_split_k(const float *a, long sa, const float *b, long sb, long n) {
    float s = 0;
    for (long part = 0; part < 4; part++) {
        long from = n * part / 4, to = n * (part + 1) / 4;
        s += sum_fma(a + from * sa, sa, b + from * sb, sb, to - from);
    }
    return s;
}

/* ---- Narrow accumulators ---- */

static float sum_narrow(const float *a, long sa, const float *b, long sb, long n, Dtype dtype, long group) {
    double s = 0;
    for (long i = 0; i < n; i += group) {
        double part = 0;
        for (long j = i; j < n && j < i + group; j++) part += (double)a[j * sa] * b[j * sb];
        s = dtype_round(dtype, s + part);
    }
    return (float)s;
}

static float sum_f16(const float *a, long sa, const float *b, long sb, long n) {
    return sum_narrow(a, sa, b, sb, n, DTYPE_F16, 1);
}
static float sum_f16_by_16(const float *a, long sa, const float *b, long sb, long n) {
    return sum_narrow(a, sa, b, sb, n, DTYPE_F16, 16);
}
static float sum_bf16(const float *a, long sa, const float *b, long sb, long n) {
    return sum_narrow(a, sa, b, sb, n, DTYPE_BF16, 1);
}

/* An f16 accumulator for 64 terms at a time, the parts in f32. */
static float sum_f16_promoted(const float *a, long sa, const float *b, long sb, long n) {
    float s = 0;
    for (long i = 0; i < n; i += 64) s += sum_f16(a + i * sa, sa, b + i * sb, sb, n - i < 64 ? n - i : 64);
    return s;
}

static double keep_bits(double x, int bits) { /* truncation to `bits` of precision */
    int exponent;
    double m = frexp(x, &exponent);
    return ldexp(trunc(ldexp(m, bits)), exponent - bits);
}

static float to_tf32(float x) { /* nearest even, 11 bits */
    int exponent;
    double m = frexp(x, &exponent);
    return (float)ldexp(rint(ldexp(m, 11)), exponent - 11);
}

static float sum_tf32_operands(const float *a, long sa, const float *b, long sb, long n) {
    float s = 0;
    for (long i = 0; i < n; i++) s = fmaf(to_tf32(a[i * sa]), to_tf32(b[i * sb]), s);
    return s;
}

/* A tensor core: groups of products added exactly to the accumulator, then cut to 24 bits. */
static float sum_truncating(const float *a, long sa, const float *b, long sb, long n, long group) {
    double s = 0;
    for (long i = 0; i < n; i += group) {
        double part = s;
        for (long j = i; j < n && j < i + group; j++) part += (double)a[j * sa] * b[j * sb];
        s = keep_bits(part, 24);
    }
    return (float)s;
}

static float sum_tensor_16(const float *a, long sa, const float *b, long sb, long n) {
    return sum_truncating(a, sa, b, sb, n, 16);
}
static float sum_tensor_8(const float *a, long sa, const float *b, long sb, long n) {
    return sum_truncating(a, sa, b, sb, n, 8);
}

const SumInfo sums_honest[] = {
    {"in order", sum_in_order, 0, 0}, {"fma", sum_fma, 0, 0},         {"reversed", sum_reversed, 0, 0}, {"pairwise", sum_pairwise, 0, 0},
    {"blocked", sum_blocked, 0, 0},   {"threads", sum_threads, 0, 0}, {"split k", sum_split_k, 0, 0},
};
const int sums_honest_count = sizeof sums_honest / sizeof *sums_honest;
const SumInfo sums_faulty[] = {
    {"f16 accumulator", sum_f16, 16384, 1},        {"f16 accumulator, 16 at a time", sum_f16_by_16, 16384, 1},
    {"bf16 accumulator", sum_bf16, 16384, 1},      {"f16 accumulator, promoted every 64", sum_f16_promoted, 4096, 0},
    {"tf32 operands", sum_tf32_operands, 1024, 0},
};
const int sums_faulty_count = sizeof sums_faulty / sizeof *sums_faulty;
const SumInfo sums_tensor_core[] = {
    {"tensor core k16", sum_tensor_16, 0, 0},
    {"tensor core k8", sum_tensor_8, 0, 0},
};
const int sums_tensor_core_count = sizeof sums_tensor_core / sizeof *sums_tensor_core;
