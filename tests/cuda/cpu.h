/* What CUDA C finds when it is compiled for the CPU (README.md): types, words and functions of CUDA, each
 * kernel a function that one fiber a thread runs. Kernels reach the machine through what is extern "C" here;
 * machine.h is the other side. */
#ifndef TESTS_CUDA_CPU_H
#define TESTS_CUDA_CPU_H

#include <stdint.h>
#include <string.h>

/* C++'s own math.h takes longer to read than a kernel. */
extern "C" {
#define CPU_MATH(name)                                                                                                                     \
    double name(double x);                                                                                                                 \
    float name##f(float x);
CPU_MATH(sqrt)
CPU_MATH(floor)
CPU_MATH(ceil)
CPU_MATH(trunc)
CPU_MATH(rint)
CPU_MATH(fabs)
#undef CPU_MATH
double fma(double a, double b, double c);
float fmaf(float a, float b, float c);
}

/* ---- Words ---- */

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __align__(n) alignas(n)
#define __restrict__     /* other threads write between two points of synchronisation */
#define __CUDACC_RTC__ 1 /* without the launchers */

/* ---- The machine ---- */

struct CpuIndex {
    unsigned x, y, z;
};
struct CpuThread {
    CpuIndex thread, block, threads, blocks;
};
struct CpuKernel {
    const char *name;
    int threads, cluster, align;
    void (*invoke)(void **parameters);
};
struct TensorMap;

extern "C" {
extern const CpuThread *cpu_self;
[[noreturn]] void cpu_fault(const char *format, ...);
unsigned char *cpu_shared(void);
unsigned cpu_shared_address(const void *p);
void cpu_sync_block(int barrier, int threads);
void cpu_arrive_block(int barrier, int threads);
void cpu_sync_warp(unsigned mask);
void cpu_wait_for_steps(void);
uint64_t cpu_shuffle(unsigned mask, uint64_t x, int source);
unsigned cpu_ballot(unsigned mask, int predicate);
void cpu_yield(void);
int cpu_cluster_rank(void);
int cpu_cluster_number(void);
void *cpu_mapa(const void *own, int rank);
void cpu_cluster_arrive(void);
void cpu_cluster_wait(void);
float cpu_reciprocal(float x);
float cpu_power_of_two(float x);
float cpu_binary_logarithm(float x);
void cpu_copy_async(unsigned to, const void *from, int bytes, int valid);
void cpu_copy_commit(void);
void cpu_copy_wait(int pending);
void cpu_mbar_init(unsigned at, unsigned arrivals);
void cpu_mbar_drop(unsigned at);
void cpu_mbar_arrive(unsigned at, unsigned bytes);
void cpu_mbar_arrive_at(unsigned at);
int cpu_mbar_try(unsigned at, int parity);
unsigned cpu_mapa_address(unsigned own, int rank);
void cpu_send(unsigned to, const void *value, unsigned bytes, unsigned mbar);
void cpu_tma_load(unsigned to, const void *map, unsigned mbar, int rank, const int *at, unsigned blocks);
void cpu_ldmatrix(unsigned *const *d, int count, int turned, unsigned at);
void cpu_stmatrix(const unsigned *const *d, int count, int turned, unsigned at);
void cpu_mma(int shape, const char *types, void *const *d, const void *const *a, const void *const *b, const void *const *c);
void cpu_wgmma(int columns, const char *types, void *const *d, const void *const *left, uint64_t a, uint64_t b, int add, int turn_a,
               int turn_b);
void cpu_wgmma_fence(void);
void cpu_wgmma_commit(void);
void cpu_wgmma_wait(int pending);
}

#define threadIdx (cpu_self->thread)
#define blockIdx (cpu_self->block)
#define blockDim (cpu_self->threads)
#define gridDim (cpu_self->blocks)
enum { warpSize = 32 };

/* Braces evaluate from left to right. */
template <class... A> struct CpuCall {
    CpuCall(void (*f)(A...), A... a) { f(a...); }
};
template <class... A> static inline void cpu_invoke(void (*f)(A...), void **p) {
    CpuCall<A...>{f, *(A *)*p++...};
}
#define CPU_KERNEL(name, threads, cluster, align)                                                                                          \
    extern "C" __attribute__((visibility("default")))                                                                                      \
    const CpuKernel name##_on_cpu = {#name, threads, cluster, align, [](void **p) { cpu_invoke(name, p); }};

template <class T, int n> struct alignas(sizeof(T) * n) CpuPiece { T items[n]; };
template <class T, int n> struct CpuList {
    T items[n];
    T *first() { return items; }
};

/* ---- Types ---- */

struct __half {
    unsigned short bits;
};
struct __nv_bfloat16 {
    unsigned short bits;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) double2 {
    double x, y;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
static inline float2 make_float2(float x, float y) {
    return {x, y};
}
static inline float4 make_float4(float x, float y, float z, float w) {
    return {x, y, z, w};
}
static inline double2 make_double2(double x, double y) {
    return {x, y};
}
static inline uint2 make_uint2(unsigned x, unsigned y) {
    return {x, y};
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return {x, y, z, w};
}

template <class To, class From> static inline To cpu_bits(From x) {
    static_assert(sizeof(To) == sizeof(From), "bits of another size");
    To y;
    memcpy(&y, &x, sizeof y);
    return y;
}
static inline float __int_as_float(int x) {
    return cpu_bits<float>(x);
}
static inline float __uint_as_float(unsigned x) {
    return cpu_bits<float>(x);
}
static inline int __float_as_int(float x) {
    return cpu_bits<int>(x);
}
static inline unsigned __float_as_uint(float x) {
    return cpu_bits<unsigned>(x);
}
static inline double __longlong_as_double(long long x) {
    return cpu_bits<double>(x);
}
static inline long long __double_as_longlong(double x) {
    return cpu_bits<long long>(x);
}
static inline unsigned short __half_as_ushort(__half x) {
    return x.bits;
}
static inline __half __ushort_as_half(unsigned short x) {
    return {x};
}
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) {
    return x.bits;
}
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) {
    return {x};
}
static inline float __half2float(__half x) {
    return (float)cpu_bits<_Float16>(x.bits);
}
static inline __half __float2half_rn(float x) {
    if (x != x) return {0x7fff};
    return {cpu_bits<unsigned short>((_Float16)x)};
}
static inline float __bfloat162float(__nv_bfloat16 x) {
    return cpu_bits<float>((unsigned)x.bits << 16);
}
static inline __nv_bfloat16 __float2bfloat16_rn(float x) {
    if (x != x) return {0x7fff};
    const unsigned u = cpu_bits<unsigned>(x);
    return {(unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16)};
}

/* ---- Arithmetic: a zero of either sign, NaN and what is not rounded as C's are CUDA's ---- */

template <class T> static inline T cpu_maximum(T a, T b) {
    return a != a ? b : b != b ? a : a == b ? (__builtin_signbit(a) ? b : a) : a > b ? a : b;
}
template <class T> static inline T cpu_minimum(T a, T b) {
    return a != a ? b : b != b ? a : a == b ? (__builtin_signbit(a) ? a : b) : a < b ? a : b;
}
static inline float cpu_fmaxf(float a, float b) {
    return cpu_maximum(a, b);
}
static inline float cpu_fminf(float a, float b) {
    return cpu_minimum(a, b);
}
static inline double cpu_fmax(double a, double b) {
    return cpu_maximum(a, b);
}
static inline double cpu_fmin(double a, double b) {
    return cpu_minimum(a, b);
}
static inline float cpu_max_nan(float a, float b) {
    return a != a || b != b ? __int_as_float(0x7fffffff) : cpu_maximum(a, b);
}
static inline float cpu_min_nan(float a, float b) {
    return a != a || b != b ? __int_as_float(0x7fffffff) : cpu_minimum(a, b);
}
#define fmaxf cpu_fmaxf
#define fminf cpu_fminf
#define fmax cpu_fmax
#define fmin cpu_fmin
static inline long long min(long long a, long long b) {
    return a < b ? a : b;
}
static inline long long max(long long a, long long b) {
    return a > b ? a : b;
}
static inline float __fdiv_rn(float a, float b) {
    return a / b;
}
static inline double __ddiv_rn(double a, double b) {
    return a / b;
}

/* tf32 has 10 bits of a float's fraction; ties go away from zero. */
static inline unsigned cpu_tf32(unsigned x) {
    return (x & 0x7f800000u) == 0x7f800000u ? x : (x + 0x1000u) & 0xffffe000u;
}
static inline float cpu_tf32(float x) {
    return cpu_bits<float>(cpu_tf32(cpu_bits<unsigned>(x)));
}

/* ---- Memory ---- */

template <class T> static inline T __ldcs(const T *p) {
    return *p;
}
template <class T> static inline T __ldg(const T *p) {
    return *p;
}
template <class T> static inline T __ldcg(const T *p) {
    return *p;
}
template <class T> static inline void __stcs(T *p, T x) {
    *p = x;
}
template <class T> static inline void __stwb(T *p, T x) {
    *p = x;
}
template <class T> static inline void __stcg(T *p, T x) {
    *p = x;
}
static inline uint64_t __cvta_generic_to_shared(const void *p) {
    return cpu_shared_address(p);
}
static inline uint64_t __cvta_generic_to_global(const void *p) {
    return (uint64_t)p;
}

/* ---- Threads ---- */

static inline void __syncthreads() {
    cpu_sync_block(0, 0);
}
static inline void __syncwarp(unsigned mask = 0xffffffffu) {
    cpu_sync_warp(mask);
}
template <class T> static inline T cpu_exchange(unsigned mask, T x, int source) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "what a shuffle moves");
    uint64_t word = 0;
    memcpy(&word, &x, sizeof x);
    word = cpu_shuffle(mask, word, source);
    memcpy(&x, &word, sizeof x);
    return x;
}
static inline int cpu_lane() {
    return (int)(cpu_self->thread.x % 32);
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T x, int distance) {
    return cpu_exchange(mask, x, cpu_lane() ^ distance);
}
template <class T> static inline T __shfl_sync(unsigned mask, T x, int lane) {
    return cpu_exchange(mask, x, lane & 31);
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T x, int distance) {
    return cpu_exchange(mask, x, cpu_lane() < distance ? cpu_lane() : cpu_lane() - distance);
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T x, int distance) {
    return cpu_exchange(mask, x, cpu_lane() + distance > 31 ? cpu_lane() : cpu_lane() + distance);
}
static inline unsigned __ballot_sync(unsigned mask, int p) {
    return cpu_ballot(mask, p);
}
static inline int __any_sync(unsigned mask, int p) {
    return cpu_ballot(mask, p) != 0;
}
static inline int __all_sync(unsigned mask, int p) {
    return cpu_ballot(mask, p) == mask;
}
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __nanosleep(unsigned) {
    cpu_yield();
}

/* Others may come between any two updates; the order of threads is drawn already. */
template <class T> struct CpuSame { typedef T type; };
template <class T> static inline T atomicAdd(T *p, typename CpuSame<T>::type x) {
    const T old = *p;
    *p = (T)(old + x);
    return old;
}
static inline __half atomicAdd(__half *p, __half x) {
    const __half old = *p;
    *p = __float2half_rn(__half2float(old) + __half2float(x));
    return old;
}
static inline __nv_bfloat16 atomicAdd(__nv_bfloat16 *p, __nv_bfloat16 x) {
    const __nv_bfloat16 old = *p;
    *p = __float2bfloat16_rn(__bfloat162float(old) + __bfloat162float(x));
    return old;
}
template <class T> static inline T atomicMax(T *p, typename CpuSame<T>::type x) {
    const T old = *p;
    if (x > old) *p = x;
    return old;
}
template <class T> static inline T atomicMin(T *p, typename CpuSame<T>::type x) {
    const T old = *p;
    if (x < old) *p = x;
    return old;
}
template <class T> static inline T atomicExch(T *p, typename CpuSame<T>::type x) {
    const T old = *p;
    *p = x;
    return old;
}
template <class T> static inline T atomicCAS(T *p, typename CpuSame<T>::type seen, typename CpuSame<T>::type next) {
    const T old = *p;
    if (old == seen) *p = next;
    return old;
}

#endif
