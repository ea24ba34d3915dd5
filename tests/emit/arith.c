// cc -std=c17 -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math -fopenmp -lm
#include <stdbool.h>
#include <stdint.h>

typedef uint16_t sk_bf16;
typedef uint16_t sk_f16;

static inline int32_t floordiv_i32(int32_t a, int32_t b) {
    if (b == 0) return 0;
    if (b == -1) return (int32_t)(0 - (uint32_t)a);
    return (int32_t)(a / b - (a % b != 0 && (a < 0) != (b < 0)));
}

static inline int32_t floormod_i32(int32_t a, int32_t b) {
    if (b == 0 || b == -1) return 0;
    const int32_t r = (int32_t)(a % b);
    return (int32_t)(r != 0 && (r < 0) != (b < 0) ? r + b : r);
}

static inline int32_t max_i32(int32_t a, int32_t b) {
    return a > b ? a : b;
}

static inline int64_t add_i64(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int32_t add_i32(int32_t a, int32_t b) {
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

static inline int8_t add_i8(int8_t a, int8_t b) {
    return (int8_t)((uint32_t)a + (uint32_t)b);
}

static inline int32_t sub_i32(int32_t a, int32_t b) {
    return (int32_t)((uint32_t)a - (uint32_t)b);
}

static inline int32_t mul_i32(int32_t a, int32_t b) {
    return (int32_t)((uint32_t)a * (uint32_t)b);
}

static inline int32_t neg_i32(int32_t a) {
    return (int32_t)(0 - (uint32_t)a);
}

static inline int32_t abs_i32(int32_t a) {
    return a < 0 ? (int32_t)(0 - (uint32_t)a) : a;
}

static inline int32_t shl_i32(int32_t a, int32_t n) {
    return (int32_t)((uint32_t)n < 32 ? (uint32_t)a << n : 0);
}

static inline int32_t shr_i32(int32_t a, int32_t n) {
    return (int32_t)(a >> ((uint32_t)n < 32 ? n : 32 - 1));
}

static inline uint32_t shr_u32(uint32_t a, uint32_t n) {
    return (uint32_t)(n < 32 ? a >> n : 0);
}

static inline uint32_t bits_of_f32(float x) {
    uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float bits_to_f32(uint32_t bits) {
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint64_t bits_of_f64(double x) {
    uint64_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double bits_to_f64(uint64_t bits) {
    double x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float max_f32(float a, float b) {
    const float zero = bits_to_f32(bits_of_f32(a) & bits_of_f32(b));
    return a != a ? a : a == b ? zero : a > b ? a : b;
}

static inline float min_f32(float a, float b) {
    const float zero = bits_to_f32(bits_of_f32(a) | bits_of_f32(b));
    return a != a ? a : a == b ? zero : a < b ? a : b;
}

static inline float maxnum_f32(float a, float b) {
    const float zero = bits_to_f32(bits_of_f32(a) & bits_of_f32(b));
    return a != a ? b : a == b ? zero : a < b ? b : a;
}

static inline float minnum_f32(float a, float b) {
    const float zero = bits_to_f32(bits_of_f32(a) | bits_of_f32(b));
    return a != a ? b : a == b ? zero : a > b ? b : a;
}

static inline double max_f64(double a, double b) {
    const double zero = bits_to_f64(bits_of_f64(a) & bits_of_f64(b));
    return a != a ? a : a == b ? zero : a > b ? a : b;
}

static inline double min_f64(double a, double b) {
    const double zero = bits_to_f64(bits_of_f64(a) | bits_of_f64(b));
    return a != a ? a : a == b ? zero : a < b ? a : b;
}

static inline double maxnum_f64(double a, double b) {
    const double zero = bits_to_f64(bits_of_f64(a) & bits_of_f64(b));
    return a != a ? b : a == b ? zero : a < b ? b : a;
}

static inline double minnum_f64(double a, double b) {
    const double zero = bits_to_f64(bits_of_f64(a) | bits_of_f64(b));
    return a != a ? b : a == b ? zero : a > b ? b : a;
}

static inline int64_t f32_to_i64(float x) {
    const float y = x < -9.223372e+18f ? -9.223372e+18f : x < 9.2233715e+18f ? x : 9.2233715e+18f;
    return (int64_t)(x != x ? 0 : x < 9.223372e+18f ? (int64_t)y : 9223372036854775807LL);
}

static inline int8_t f32_to_i8(float x) {
    const float y = x < -128.0f ? -128.0f : x < 127.99999f ? x : 127.99999f;
    return (int8_t)(x != x ? 0 : x < 128.0f ? (int8_t)y : 127);
}

static inline float f16_to_f32(sk_f16 h) {
    const uint32_t sign = (h & 0x8000u) << 16, rest = (h & 0x7fffu) << 13;
    const uint32_t bits = bits_of_f32(bits_to_f32(rest) * 0x1p112f);
    return bits_to_f32(bits | sign | (rest < 0x0f800000u ? 0 : 0x7f800000u));
}

static inline sk_f16 f32_to_f16(float x) {
    const uint32_t bits = bits_of_f32(x), a = bits & 0x7fffffffu;
    const uint32_t normal = (a - 0x38000000u + 0xfffu + (a >> 13 & 1)) >> 13;
    const uint32_t tiny = bits_of_f32(bits_to_f32(a) + 0.5f) - 0x3f000000u;
    const uint32_t large = a > 0x7f800000u ? 0x7e00u : 0x7c00u;
    const uint32_t h = a < 0x38800000u ? tiny : a < 0x47800000u ? normal : large;
    return (sk_f16)((bits >> 16 & 0x8000u) | h);
}

static inline float bf16_to_f32(sk_bf16 h) {
    return bits_to_f32((uint32_t)h << 16);
}

static inline sk_bf16 f32_to_bf16(float x) {
    const uint32_t bits = bits_of_f32(x), quiet = bits >> 16 | 0x40u;
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    return (sk_bf16)(x != x ? quiet : rounded);
}

int arith(const float *restrict F, const double *restrict D, const int32_t *restrict I,
          const uint32_t *restrict U, const int64_t *restrict L, const int8_t *restrict S,
          const sk_f16 *restrict H, const sk_bf16 *restrict G, const uint8_t *restrict M,
          float *restrict OF, double *restrict OD, int32_t *restrict OI, uint32_t *restrict OU,
          int64_t *restrict OL, int8_t *restrict OS, sk_f16 *restrict OH, sk_bf16 *restrict OG,
          uint8_t *restrict OM, int64_t N, float alpha) {
    if (N < 0 || N - 64 < 0) return 1;
    // arith.skir:12
    for (int64_t i = 0; i < N; ++i) {
        const float fa = F[i];
        const int64_t jm = N == 0 ? 0 : (i + 1) % N;
        const float fb = F[jm], f4 = minnum_f32(maxnum_f32(min_f32(max_f32(fa, fb), fb), fa), fb);
        const float f6 = __builtin_fmaf(f4, fa, fb) / fb;
        const float f12 = __builtin_sqrtf(__builtin_fabsf(f6)) + __builtin_floorf(f6);
        const float f11 = -__builtin_rintf(f6);
        // arith.skir:34
        OF[i] = (f12 - f11) * alpha;
        const double da = D[i], db = D[jm];
        const double d4 = minnum_f64(maxnum_f64(min_f64(max_f64(da, db), db), da), db);
        // arith.skir:42
        OD[i] = __builtin_fma(d4, da, db);
        const int32_t ia = I[i], ib = I[jm], i3 = sub_i32(mul_i32(add_i32(ia, ib), ia), ib);
        const int32_t i4 = floordiv_i32(i3, ib), i5 = floormod_i32(i3, ib);
        const int32_t i11 = ((shr_i32(shl_i32(max_i32(i4, i5), 5), ib) & ia) | i5) ^ i4;
        // arith.skir:59
        OI[i] = (int32_t)~abs_i32(neg_i32(i11));
        const uint32_t ua = U[i], ub = U[jm];
        const uint32_t u5 = shr_u32((ub == 0 ? 0 : (ua + ub) / ub) << 3, ub);
        const uint32_t u3 = ub == 0 ? 0 : ua % ub;
        // arith.skir:70
        OU[i] = (u5 ^ u3) + bits_of_f32(fa);
        // arith.skir:74
        OL[i] = add_i64(L[i], f32_to_i64(fa));
        // arith.skir:78
        OS[i] = add_i8(S[i], f32_to_i8(fa));
        // arith.skir:83
        OH[i] = f32_to_f16(f16_to_f32(H[i]) * fa);
        // arith.skir:88
        OG[i] = f32_to_bf16(bf16_to_f32(G[i]) * fa);
        const bool ma = M[i] != 0;
        // arith.skir:96
        OM[i] = !((ma && fa < fb) || ia != ib) != ma;
    }
    return 0;
}
