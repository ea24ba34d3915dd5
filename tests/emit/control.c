// cc -std=c17 -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math -fopenmp -lm
#include <stdbool.h>
#include <stdint.h>

// gcc 12 loses lanes of choices for scratch memory where it splits loops by conditions
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
#pragma GCC optimize("no-unswitch-loops")
#endif

typedef float __attribute__((may_alias)) sk_alias_f32;

int control_even(const float *restrict X, float *restrict Y, int64_t N, int64_t M) {
    if (N < 0 || M < 0 || M != 2 * N + 1 || -N + 64 < 0) return 1;
    float v_for[4];
#pragma omp simd
    for (int i = 0; i < 4; ++i) v_for[i] = X[i];
    float v_int[4];
#pragma omp simd
    for (int j = 0; j < 4; ++j) v_int[j] = X[j + 4];
    float ca[4];
    for (int i = 0; i < 4; ++i) ca[i] = v_for[i];
    float cb[4];
    for (int i = 0; i < 4; ++i) cb[i] = v_int[i];
    float cp = 0.0f;
    float cq = 1.0f;
    for (int64_t n = 0; n < N; ++n) {
        float saved[4];
        for (int i = 0; i < 4; ++i) saved[i] = ca[i];
        for (int i = 0; i < 4; ++i) ca[i] = cb[i];
        for (int i = 0; i < 4; ++i) cb[i] = saved[i];
        const float next = cp + cq;
        cp = cq;
        cq = next;
    }
    float r[4];
    float s;
    if (1.0f < cq) {
        for (int i = 0; i < 4; ++i) r[i] = ca[i];
        s = cp;
    } else {
        for (int i = 0; i < 4; ++i) r[i] = cb[i];
        s = -cq;
    }
    for (int k = 0; k < 4; ++k) {
        const float sum = r[k] + s;
        if (k % 2 == 1) {
            Y[k] = sum;
        } else {
            Y[k] = sum + sum;
        }
    }
    return 0;
}

int control_any(const float *restrict X, float *restrict Y, int64_t N, int64_t M) {
    if (N < 0 || M < 0 || M != 2 * N + 1 || -N + 64 < 0) return 1;
#pragma omp parallel for schedule(static)
    for (int i = 0; i < 8; ++i) {
        _Alignas(64) unsigned char smem[16];
        sk_alias_f32 *const part = (sk_alias_f32 *)smem;
        part[0] = X[i];
        const float y = part[0];
        Y[i] = y * y;
    }
    return 0;
}

int control(const float *restrict X, float *restrict Y, int64_t N, int64_t M) {
    if (N % 2 == 0) return control_even(X, Y, N, M);
    return control_any(X, Y, N, M);
}
