// The greatest errors of ex2.approx.ftz, its square of half an exponent, rcp.approx.ftz and lg2.approx.ftz over all floats.
#include <cmath>
#include <cstdint>
#include <cstdio>

enum { POWER, SQUARE, RECIPROCAL, LOG_NEAR, LOG_FAR, KINDS };
__device__ unsigned long long worst[KINDS];

__device__ float power(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__global__ void measure() {
    double off[KINDS] = {};
    uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t b = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; b < 1ull << 32; b += step) {
        float x = __uint_as_float((unsigned)b), y;
        if (!(fabsf(x) < INFINITY)) continue;
        if (x > -126 && x < 128) {
            double exact = exp2((double)x), half = power(x * 0.5f);
            off[POWER] = fmax(off[POWER], fabs(power(x) - exact) / exact);
            off[SQUARE] = fmax(off[SQUARE], fabs(half * half - exact) / exact);
        }
        if (fabsf(x) > 0x1p-100f && fabsf(x) < 0x1p100f) {
            asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
            off[RECIPROCAL] = fmax(off[RECIPROCAL], fabs(y * (double)x - 1));
        }
        if (x >= 0x1p-126f) {
            asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
            double exact = log2((double)x), error = fabs(y - exact);
            if (x > 0.5f && x < 2)
                off[LOG_NEAR] = fmax(off[LOG_NEAR], error);
            else
                off[LOG_FAR] = fmax(off[LOG_FAR], error / fabs(exact));
        }
    }
    for (int i = 0; i < KINDS; i++) atomicMax(&worst[i], (unsigned long long)__double_as_longlong(off[i]));
}

int main() {
    double w[KINDS];
    measure<<<132 * 8, 256>>>();
    cudaMemcpyFromSymbol(w, worst, sizeof w);
    printf("ex2 2^%.2f, ex2(x / 2)^2 2^%.2f, rcp 2^%.2f, lg2 from 1/2 to 2 2^%.2f absolute, beyond 2^%.2f (%s)\n", log2(w[POWER]), log2(w[SQUARE]),
           log2(w[RECIPROCAL]), log2(w[LOG_NEAR]), log2(w[LOG_FAR]), cudaGetErrorString(cudaGetLastError()));
}
