/* Softmax over 4,096 rows of 393,216 floats, by hand, as the compiler's kernel does it: which way for the next row is best. */
#include <cstdio>
#include <cstdint>
#include <cuda_runtime.h>
#include <algorithm>
#include <cstring>
#include <vector>
#define CK(x) do { cudaError_t e = (x); if (e) { printf("%s: %s\n", #x, cudaGetErrorString(e)); return 1; } } while (0)
#define NINF (-__int_as_float(0x7f800000))
__device__ __forceinline__ float max_f32(float a, float b) { float x; asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b)); return x; }
__device__ __forceinline__ int rank_in_cluster() { int r; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ __forceinline__ int cluster_number() { int r; asm("mov.u32 %0, %%clusterid.x;" : "=r"(r)); return r; }
__device__ __forceinline__ float *cluster_ptr(float *own, int rank) { float *o; asm("mapa.u64 %0, %1, %2;" : "=l"(o) : "l"(own), "r"(rank)); return o; }
__device__ __forceinline__ void cluster_barrier() { asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); }
__device__ __forceinline__ void cp16(unsigned dst, const void *src) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(dst), "l"(src) : "memory"); }
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void waitg() { asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }
__device__ __forceinline__ void waitn(int n) {
#define W(N) case N: waitg<N>(); break;
    switch (n) { W(0) W(1) W(2) W(3) W(4) W(5) W(6) W(7) W(8) W(9) W(10) W(11) W(12) W(13) W(14) W(15) W(16) W(17) W(18) W(19) W(20) W(21) W(22) W(23) W(24) }
}
__device__ __forceinline__ void bulk(unsigned dst, const void *src, unsigned bytes, unsigned bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(dst), "l"(src), "r"(bytes), "r"(bar) : "memory");
}
__device__ __forceinline__ void mbwait(unsigned bar, unsigned parity) {
    asm volatile("{\n.reg .pred p;\nL:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra D;\nbra L;\nD:\n}" :: "r"(bar), "r"(parity) : "memory");
}
__device__ __forceinline__ float ex(float v) {
    const float x_30 = max_f32(v, -104.0f);
    const float x_31 = fmaf(x_30, 1.442695f, 12583103.0f), x_32 = x_31 - 12583103.0f;
    const float x_33 = fmaf(x_32, -0.6931472f, x_30);
    const float x_34 = fmaf(x_32, 1.9046542e-09f, x_33);
    const int x_35 = (int)(__float_as_uint(x_31) << 23);
    const float x_36 = fmaf(7.5493995e-23f, x_34, 4.5336884e-22f);
    const float x_37 = fmaf(x_36, x_34, 2.2587485e-21f);
    const float x_38 = fmaf(x_37, x_34, 9.034969e-21f);
    const float x_39 = fmaf(x_38, x_34, 2.7105054e-20f);
    const float x_40 = fmaf(x_34, x_39, 5.421011e-20f);
    return fmaf(x_34, x_40, 5.421011e-20f) * __uint_as_float(x_35);
}
template <bool MAX> __device__ __forceinline__ float op(float a, float b) { return MAX ? max_f32(a, b) : a + b; }
// over the cluster
template <bool MAX, int W> __device__ __forceinline__ float everywhere(float v, float *partials, float *block_partials, int lane, int warp, int rank) {
#pragma unroll
    for (int k = 1; k < 32; k *= 2) v = op<MAX>(v, __shfl_xor_sync(~0u, v, k));
    if (!lane) partials[warp] = v;
    __syncthreads();
    float t = partials[0];
#pragma unroll
    for (int k = 1; k < W; ++k) t = op<MAX>(t, partials[k]);
    if (lane + warp == 0) {
#pragma unroll
        for (int k = 0; k < 8; ++k) cluster_ptr(block_partials, k)[rank] = t;
    }
    cluster_barrier();
    t = block_partials[0];
#pragma unroll
    for (int k = 1; k < 8; ++k) t = op<MAX>(t, block_partials[k]);
    return t;
}
enum { REGS, AT_MAX, BEHIND, AT_EXP, BULK };
// T threads; R of the 24 * 512 / T slots are kept in registers, the others in shared memory; LIGHT: no exponentials. The next row comes
// REGS: into registers behind the store; AT_MAX: by cp.async as soon as a slot is read; BEHIND: behind the maximum, all at once (what
// prefetch_rows does); AT_EXP: a slot's copy behind its exponentials; BULK: as BEHIND, by the copy engine.
template <int T, int R, int HOW, bool LIGHT> __global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(T, 1)
rows(const float *__restrict__ X, float *__restrict__ Y, long long M, long long N) {
    extern __shared__ __align__(128) unsigned char smem[];
    constexpr int S = 24 * 512 / T, ST = 32 * T;          // slots; elements of a row from one slot to the next
    float *const partials = (float *)smem, *const bp = (float *)(smem + 128), *const partials_2 = (float *)(smem + 256), *const bp_2 = (float *)(smem + 384);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, rank = rank_in_cluster(), at = threadIdx.x * 4 + rank * (T * 4);
    const int m = cluster_number(), count = gridDim.x / 8;
    const long long left = N - at;
    float4 *const slot = (float4 *)(smem + 1024) + threadIdx.x;
    const unsigned base = (unsigned)__cvta_generic_to_shared(slot), bars = (unsigned)__cvta_generic_to_shared(smem + 512);
    const float4 none = make_float4(NINF, NINF, NINF, NINF);
    float x[R][4];
    if (HOW == REGS) {
#pragma unroll
        for (int i = 0; i < S; ++i) *(float4 *)x[i] = i * ST < left ? *(const float4 *)&X[m * N + at + i * ST] : none;
    } else if (HOW != BULK) {
#pragma unroll
        for (int i = 0; i < S; ++i) {
            if (i * ST < left) cp16(base + i * T * 16, &X[m * N + at + i * ST]); else slot[i * T] = none;
            commit();
        }
    } else {
        if (threadIdx.x == 0) {
#pragma unroll
            for (int i = 0; i < S; ++i) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(bars + i * 8) : "memory");
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
            asm volatile("fence.proxy.async;" ::: "memory");
#pragma unroll 1
            for (int i = 0; i < S; ++i) {
                long long b = min((long long)(T * 4), max(0LL, N - rank * (T * 4) - i * ST)) * 4;
                asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(bars + i * 8), "r"((unsigned)b) : "memory");
                if (b) bulk(base + i * T * 16, &X[m * N + at + i * ST], (unsigned)b, bars + i * 8);
            }
        }
#pragma unroll
        for (int i = 0; i < S; ++i) if (i * ST >= left) slot[i * T] = none;
    }
    cluster_barrier();
    unsigned parity = 0;
    for (long long turn = m; turn < M; turn += count) {
        const long long nx = min(turn + count, M - 1) * N + at;
        float acc = NINF;
#pragma unroll
        for (int i = 0; i < S; ++i) {
            if (HOW == AT_MAX) waitn(i < R ? S - 1 : S - 1 - (i - R));
            if (HOW == AT_EXP || HOW == BEHIND) waitn(S - 1 - i);
            if (HOW == BULK) mbwait(bars + i * 8, parity);
            float4 v;
            if (HOW == REGS) v = *(float4 *)x[i];
            else {
                v = slot[i * T];
                if (i < R) {
                    *(float4 *)x[i] = v;
                    if (HOW == AT_MAX) { if (i * ST < left) cp16(base + i * T * 16, &X[nx + i * ST]); commit(); }
                }
            }
            acc = max_f32(max_f32(max_f32(max_f32(acc, v.x), v.y), v.z), v.w);
        }
        parity ^= 1;
        const float top = everywhere<true, T / 32>(acc, partials, bp, lane, warp, rank);
        if (HOW == BULK && threadIdx.x == 0) { // all have passed the block's barrier; slots kept there: below
#pragma unroll 1
            for (int i = 0; i < R; ++i) {
                long long b = min((long long)(T * 4), max(0LL, N - rank * (T * 4) - i * ST)) * 4;
                asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(bars + i * 8), "r"((unsigned)b) : "memory");
                if (b) bulk(base + i * T * 16, &X[nx + i * ST], (unsigned)b, bars + i * 8);
            }
        }
        if (HOW == BEHIND) {
#pragma unroll
            for (int i = 0; i < R; ++i) {
                if (i * ST < left) cp16(base + i * T * 16, &X[nx + i * ST]);
                commit();
            }
        }
        float sum = 0;
#pragma unroll
        for (int i = 0; i < S; ++i) {
            float4 w;
            if (i >= R) w = slot[i * T];
            float *v = i < R ? x[i] : (float *)&w;
#pragma unroll
            for (int j = 0; j < 4; ++j) v[j] = LIGHT ? v[j] - top : ex(v[j] - top), sum += v[j];
            if (i >= R) slot[i * T] = w;
            else if (HOW == AT_EXP) { if (i * ST < left) cp16(base + i * T * 16, &X[nx + i * ST]); commit(); }
        }
        const float t = everywhere<false, T / 32>(sum, partials_2, bp_2, lane, warp, rank);
        const float r = 1.0f / t, hi = fmaf(r, -1.1920929e-07f, r), rest = fmaf(-t, hi, 1.0f);
        const float a = rest < 1.0f ? hi : r, b = rest < 1.0f ? rest * r : r;
        if (HOW == REGS) __syncthreads();
        const long long to = turn * N + at;
#pragma unroll
        for (int i = 0; i < S; ++i) {
            float4 w;
            if (i >= R) w = slot[i * T];
            float *v = i < R ? x[i] : (float *)&w;
#pragma unroll
            for (int j = 0; j < 4; ++j) v[j] = fmaf(v[j], a, v[j] * b);
            if (i * ST < left) __stwb((float4 *)&Y[to + i * ST], *(float4 *)v);
            if (HOW == REGS) *(float4 *)x[i] = i * ST < left ? *(const float4 *)&X[nx + i * ST] : none;
            else if (i >= R) { if (i * ST < left) cp16(base + i * T * 16, &X[nx + i * ST]); else slot[i * T] = none; commit(); }
        }
    }
    if (HOW != REGS && HOW != BULK) waitg<0>();
    if (HOW == BULK)
#pragma unroll 1
        for (int i = 0; i < S; ++i) mbwait(bars + i * 8, parity);
}
__global__ void fill(float *x, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        unsigned long long h = i * 0x9E3779B97F4A7C15ull; h ^= h >> 29; h *= 0xBF58476D1CE4E5B9ull; h ^= h >> 32;
        x[i] = (unsigned)(h >> 40) * (1.0f / 16777216);
    }
}
__global__ void differ(const float *a, const float *b, size_t n, unsigned *worst) {
    float w = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        float d = fabsf(a[i] - b[i]) / fmaxf(fabsf(a[i]), 1e-30f);
        w = !(d <= w) ? d : w;
    }
    atomicMax(worst, __float_as_uint(w));
}
typedef void (*Kernel)(const float *, float *, long long, long long);
struct V { const char *name; Kernel k; int threads, smem; };
int main() {
    static const V vs[] = {
#define A(T, R, H, L) {#H " threads " #T " slots in registers " #R " light " #L, rows<T, R, H, L>, T, 1024 + 196608 * (H != REGS)},
        A(512, 24, REGS, false)
        A(512, 24, AT_MAX, false) A(512, 24, BEHIND, false) A(512, 24, AT_EXP, false) A(512, 24, BULK, false)
        A(512, 20, BEHIND, false) A(512, 16, BEHIND, false) A(1024, 8, AT_MAX, false) A(1024, 8, BEHIND, false)
        A(1024, 10, AT_EXP, false)
        A(512, 24, REGS, true) A(512, 24, AT_MAX, true) A(512, 24, BEHIND, true) A(512, 24, BULK, true) A(1024, 8, AT_MAX, true)
    };
    float *X, *Y, *Z; unsigned *worst;
    const long long M = 4096, N = 393216, MC = 333;
    CK(cudaMalloc(&X, M * N * 4)); CK(cudaMalloc(&Y, M * N * 4)); CK(cudaMalloc(&Z, M * N * 4)); CK(cudaMalloc(&worst, 4));
    fill<<<2048, 512>>>(X, M * N);
    CK(cudaDeviceSynchronize());
    cudaEvent_t e0, e1; cudaEventCreate(&e0); cudaEventCreate(&e1);
    {
        std::vector<float> t;
        for (int i = 0; i < 7; i++) {
            cudaEventRecord(e0); cudaMemcpyAsync(Y, X, M * N * 4, cudaMemcpyDeviceToDevice); cudaEventRecord(e1); cudaEventSynchronize(e1);
            float ms; cudaEventElapsedTime(&ms, e0, e1); t.push_back(ms);
        }
        std::sort(t.begin(), t.end());
        printf("%-52s %.4f ms\n", "memcpy", t[3]);
    }
    for (const V &v : vs) {
        CK(cudaFuncSetAttribute((const void *)v.k, cudaFuncAttributeMaxDynamicSharedMemorySize, v.smem));
        cudaFuncAttributes at; CK(cudaFuncGetAttributes(&at, (const void *)v.k));
        std::vector<float> t;
        for (int i = 0; i < 7; i++) {
            cudaEventRecord(e0); v.k<<<120, v.threads, v.smem>>>(X, Y, M, N); cudaEventRecord(e1);
            CK(cudaEventSynchronize(e1));
            float ms; cudaEventElapsedTime(&ms, e0, e1); t.push_back(ms);
        }
        std::sort(t.begin(), t.end());
        // ragged and short against the plain one
        bool light = strstr(v.name, "true");
        float w[3];
        const long long ns[3] = {393216, 211216, 65540};
        for (int q = 0; q < 3; q++) {
            CK(cudaMemset(worst, 0, 4));
            (light ? rows<512, 24, REGS, true> : rows<512, 24, REGS, false>)<<<120, 512, 1024>>>(X, Z, MC, ns[q]);
            v.k<<<120, v.threads, v.smem>>>(X, Y, MC, ns[q]);
            differ<<<1024, 512>>>(Z, Y, MC * ns[q], worst);
            CK(cudaMemcpy(&w[q], worst, 4, cudaMemcpyDeviceToHost));
        }
        printf("%-52s %.4f ms %.2fx regs %d local %zu  differs %.1e %.1e %.1e\n", v.name, t[3], t[3] / 3.011, at.numRegs, at.localSizeBytes, w[0], w[1], w[2]);
    }
}
