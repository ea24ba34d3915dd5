// nvcc -fmad=false -ftz=false -prec-div=true -prec-sqrt=true
#include <cuda_bf16.h>
#include <cuda_fp16.h>

static __host__ __device__ inline int floordiv_i32(int a, int b) {
    if (b == 0) return 0;
    if (b == -1) return (int)(0 - (unsigned int)a);
    return (int)(a / b - (a % b != 0 && (a < 0) != (b < 0)));
}

static __host__ __device__ inline int floormod_i32(int a, int b) {
    if (b == 0 || b == -1) return 0;
    const int r = (int)(a % b);
    return (int)(r != 0 && (r < 0) != (b < 0) ? r + b : r);
}

static __host__ __device__ inline int max_i32(int a, int b) {
    return a > b ? a : b;
}

static __device__ __forceinline__ long long add_i64(long long a, long long b) {
    return (long long)((unsigned long long)a + (unsigned long long)b);
}

static __device__ __forceinline__ int add_i32(int a, int b) {
    return (int)((unsigned int)a + (unsigned int)b);
}

static __device__ __forceinline__ signed char add_i8(signed char a, signed char b) {
    return (signed char)((unsigned int)a + (unsigned int)b);
}

static __device__ __forceinline__ int sub_i32(int a, int b) {
    return (int)((unsigned int)a - (unsigned int)b);
}

static __device__ __forceinline__ int mul_i32(int a, int b) {
    return (int)((unsigned int)a * (unsigned int)b);
}

static __device__ __forceinline__ int neg_i32(int a) {
    return (int)(0 - (unsigned int)a);
}

static __device__ __forceinline__ int abs_i32(int a) {
    return a < 0 ? (int)(0 - (unsigned int)a) : a;
}

static __device__ __forceinline__ int shl_i32(int a, int n) {
    return (int)((unsigned int)n < 32 ? (unsigned int)a << n : 0);
}

static __device__ __forceinline__ int shr_i32(int a, int n) {
    return (int)(a >> ((unsigned int)n < 32 ? n : 32 - 1));
}

static __device__ __forceinline__ unsigned int shr_u32(unsigned int a, unsigned int n) {
    return (unsigned int)(n < 32 ? a >> n : 0);
}

static __device__ __forceinline__ float max_f32(float a, float b) {
    float x;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
    return x;
}

static __device__ __forceinline__ float min_f32(float a, float b) {
    float x;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
    return x;
}

static __device__ __forceinline__ double max_f64(double a, double b) {
    return a != a ? a : b != b ? b : fmax(a, b);
}

static __device__ __forceinline__ double min_f64(double a, double b) {
    return a != a ? a : b != b ? b : fmin(a, b);
}

static __device__ __forceinline__ long long f32_to_i64(float x) {
    const float y = x < -9.223372e+18f ? -9.223372e+18f : x < 9.2233715e+18f ? x : 9.2233715e+18f;
    return (long long)(x != x ? 0 : x < 9.223372e+18f ? (long long)y : 9223372036854775807LL);
}

static __device__ __forceinline__ signed char f32_to_i8(float x) {
    const float y = x < -128.0f ? -128.0f : x < 127.99999f ? x : 127.99999f;
    return (signed char)(x != x ? 0 : x < 128.0f ? (signed char)y : 127);
}

extern "C" __global__ void __launch_bounds__(32)
    arith(const float *__restrict__ F, const double *__restrict__ D, const int *__restrict__ I,
          const unsigned int *__restrict__ U, const long long *__restrict__ L,
          const signed char *__restrict__ S, const __half *__restrict__ H,
          const __nv_bfloat16 *__restrict__ G, const unsigned char *__restrict__ M,
          float *__restrict__ OF, double *__restrict__ OD, int *__restrict__ OI,
          unsigned int *__restrict__ OU, long long *__restrict__ OL, signed char *__restrict__ OS,
          __half *__restrict__ OH, __nv_bfloat16 *__restrict__ OG, unsigned char *__restrict__ OM,
          long long N, float alpha) {
    // arith.skir:12
    for (long long i = 0; i < N; ++i) {
        const float fa = F[i];
        const long long jm = N == 0 ? 0 : (i + 1) % N;
        const float fb = F[jm], f4 = fminf(fmaxf(min_f32(max_f32(fa, fb), fb), fa), fb);
        const float f6 = fmaf(f4, fa, fb) / fb;
        // arith.skir:34
        OF[i] = (sqrtf(fabsf(f6)) + floorf(f6) - -rintf(f6)) * alpha;
        const double da = D[i], db = D[jm];
        const double d5 = fma(fmin(fmax(min_f64(max_f64(da, db), db), da), db), da, db);
        // arith.skir:42
        OD[i] = d5;
        const int ia = I[i], ib = I[jm], i3 = sub_i32(mul_i32(add_i32(ia, ib), ia), ib);
        const int i4 = floordiv_i32(i3, ib), i5 = floormod_i32(i3, ib);
        const int i11 = ((shr_i32(shl_i32(max_i32(i4, i5), 5), ib) & ia) | i5) ^ i4;
        // arith.skir:59
        OI[i] = (int)~abs_i32(neg_i32(i11));
        const unsigned int ua = U[i], ub = U[jm];
        const unsigned int u5 = shr_u32((ub == 0 ? 0 : (ua + ub) / ub) << 3, ub);
        const unsigned int u3 = ub == 0 ? 0 : ua % ub;
        // arith.skir:70
        OU[i] = (u5 ^ u3) + __float_as_uint(fa);
        // arith.skir:74
        OL[i] = add_i64(L[i], f32_to_i64(fa));
        // arith.skir:78
        OS[i] = add_i8(S[i], f32_to_i8(fa));
        // arith.skir:83
        OH[i] = __float2half_rn(__half2float(H[i]) * fa);
        // arith.skir:88
        OG[i] = __float2bfloat16_rn(__bfloat162float(G[i]) * fa);
        const bool ma = M[i] != 0;
        // arith.skir:96
        OM[i] = !((ma && fa < fb) || ia != ib) != ma;
    }
}

#ifndef __CUDACC_RTC__
extern "C" cudaError_t arith_launch(const float *F, const double *D, const int *I,
                                    const unsigned int *U, const long long *L, const signed char *S,
                                    const __half *H, const __nv_bfloat16 *G, const unsigned char *M,
                                    float *OF, double *OD, int *OI, unsigned int *OU, long long *OL,
                                    signed char *OS, __half *OH, __nv_bfloat16 *OG,
                                    unsigned char *OM, long long N, float alpha,
                                    cudaStream_t stream) {
    if (N < 0 || N - 64 < 0) return cudaErrorInvalidValue;
    arith<<<1, 32, 0, stream>>>(F, D, I, U, L, S, H, G, M, OF, OD, OI, OU, OL, OS, OH, OG, OM, N,
                                alpha);
    return cudaGetLastError();
}
#endif
