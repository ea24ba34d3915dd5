/* Norms whose rows fit neither a block nor a cluster, by hand: rows are held on chip by all blocks, which meet in memory. README.md says what it decides. */
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>
#define CK(x) do { cudaError_t e_ = (x); if (e_) { printf("%s: %s\n", #x, cudaGetErrorString(e_)); return false; } } while (0)
typedef unsigned long long u64;
enum Mode { GROUP, LAYER, BATCH };
static constexpr int PLANE = 512 * 512; // elements of a channel
// A row is `count` elements; piece q of row r, `piece` elements, begins at (q >> shift) * outer + r * row + (q & ((1 << shift) - 1)) * piece.
struct Problem {
    const float *X, *S, *Z;
    float *Y;
    float2 *part;      // [rows][blocks of a team]
    unsigned *counter; // [rows]
    size_t outer, row;
    int rows, pieces, shift, blocks, teams; // 1 << shift pieces lie side by side
    float count;
    bool sentinel; // partial results are awaited themselves (no counter): 0xff bytes say that one is not there yet
    bool keep;     // weights are the last that the L2 gives up
};
__device__ __forceinline__ unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void init(unsigned bar, int n) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(bar), "r"(n) : "memory"); }
__device__ __forceinline__ void arrive(unsigned bar) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(bar) : "memory"); }
__device__ __forceinline__ void await(unsigned bar, unsigned parity) {
    asm volatile("{\n.reg .pred p;\nL:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra D;\nbra L;\nD:\n}" :: "r"(bar), "r"(parity) : "memory");
}
__device__ __forceinline__ void bulk(unsigned to, const void *from, unsigned bytes, unsigned bar) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(to), "l"(from), "r"(bytes), "r"(bar) : "memory");
}
__device__ __forceinline__ void cp16(unsigned to, const void *from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory"); }
template <int ID, int N> __device__ __forceinline__ void sync() { asm volatile("bar.sync %0, %1;" :: "n"(ID), "n"(N) : "memory"); }
__device__ __forceinline__ u64 policy(bool keep) {
    u64 last, normal;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(last));
    asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(normal));
    return keep ? last : normal;
}
__device__ __forceinline__ float4 weight(const float *p, u64 how) {
    float4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p), "l"(how) : "memory");
    return v;
}
// So that addresses of weights, the same for all rows, are no registers kept through the loop.
__device__ __forceinline__ int opaque(int i) {
    asm volatile("mov.u32 %0, %0;" : "+r"(i));
    return i;
}
// Where a ring stands: slot and the parity of its mbarrier.
struct Place {
    int slot = 0;
    unsigned parity = 0;
    __device__ __forceinline__ void go(int n, int slots) {
        slot += n;
        while (slot >= slots) slot -= slots, parity ^= 1;
    }
};
__device__ __forceinline__ size_t where(const Problem &p, int r, int q, int piece) {
    return (size_t)(q >> p.shift) * p.outer + (size_t)r * p.row + (size_t)(q & ((1 << p.shift) - 1)) * piece;
}
__device__ __forceinline__ void add(float2 &s, float4 v, float k) {
    const float a = v.x - k, b = v.y - k, c = v.z - k, d = v.w - k;
    s.x += (a + b) + (c + d);
    s.y = fmaf(a, a, fmaf(b, b, fmaf(c, c, fmaf(d, d, s.y))));
}
__device__ __forceinline__ float2 over_warp(float2 s) {
#pragma unroll
    for (int k = 1; k < 32; k *= 2) s.x += __shfl_xor_sync(~0u, s.x, k), s.y += __shfl_xor_sync(~0u, s.y, k);
    return s;
}
// The block's sums, by the first warp, into memory; `warps` of two rows in turn, so that one barrier is enough.
template <int ID, int T> __device__ __forceinline__ void publish(const Problem &p, int r, int b, float2 s, float2 (*warps)[32], int turn) {
    const int t = threadIdx.x % T, lane = t % 32;
    s = over_warp(s);
    if (lane == 0) warps[turn & 1][t / 32] = s;
    sync<ID, T>();
    if (t >= 32) return;
    s = lane < T / 32 ? warps[turn & 1][lane] : make_float2(0, 0);
    s = over_warp(s);
    if (lane) return;
    float2 *to = &p.part[(size_t)r * p.blocks + b];
    asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" :: "l"(to), "l"(*(u64 *)&s) : "memory");
    if (!p.sentinel) asm volatile("fence.acq_rel.gpu;\nred.relaxed.gpu.global.add.u32 [%0], 1;" :: "l"(p.counter + r) : "memory");
}
__device__ __forceinline__ u64 relaxed(const float2 *p) {
    u64 v;
    asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
// Centre and scale of row r, for all T threads; each waits for the partial result of a block (one after the other they cost a trip to the L2 each).
template <int ID, int T> __device__ __forceinline__ float2 meet(const Problem &p, int r, float k, float2 (*result)[32], int turn) {
    const int t = threadIdx.x % T, used = (min(p.blocks, T) + 31) / 32;
    const float2 *from = p.part + (size_t)r * p.blocks;
    if (!p.sentinel) {
        unsigned n, tries = 0;
        if (t == 0)
            do {
                asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(n) : "l"(p.counter + r) : "memory");
                if (++tries > 1 << 24) __trap();
            } while (n < p.blocks);
        sync<ID, T>();
    }
    if (t / 32 < used) {
        float2 s = make_float2(0, 0);
        for (int i = t; i < p.blocks; i += T) {
            u64 v = relaxed(from + i);
            if (p.sentinel)
                for (unsigned tries = 0; v == ~0ull; v = relaxed(from + i))
                    if (++tries > 1 << 24) __trap();
            const float2 o = *(float2 *)&v;
            s.x += o.x, s.y += o.y;
        }
        s = over_warp(s);
        if (t % 32 == 0) result[turn & 1][t / 32] = s;
    }
    sync<ID, T>();
    float2 s = result[turn & 1][0];
    for (int i = 1; i < used; i++) s.x += result[turn & 1][i].x, s.y += result[turn & 1][i].y;
    const float m = s.x / p.count;
    return make_float2(k + m, 1 / sqrtf(fmaxf(s.y / p.count - m * m, 0) + 1e-5f));
}
__device__ __forceinline__ float4 mapped(float4 v, float2 c, float4 g, float4 z) {
    return make_float4(fmaf((v.x - c.x) * c.y, g.x, z.x), fmaf((v.y - c.x) * c.y, g.y, z.y), fmaf((v.z - c.x) * c.y, g.z, z.z), fmaf((v.w - c.x) * c.y, g.w, z.w));
}
// Weights of K vectors, T vectors apart, of piece q.
template <int MODE, int K, int T> __device__ __forceinline__ void weights(const Problem &p, int r, int q, int piece, int t, u64 how, float4 *g, float4 *z) {
    if (MODE == LAYER) {
#pragma unroll
        for (int k = 0; k < K; k++) {
            const size_t o = (size_t)q * piece + (k * T + t) * 4;
            g[k] = weight(p.S + o, how), z[k] = weight(p.Z + o, how);
        }
        return;
    }
    const int o = MODE == GROUP ? r % 8 * 8 + (int)((size_t)q * piece / PLANE) : r;
    const float a = __ldg(p.S + o), b = __ldg(p.Z + o);
#pragma unroll
    for (int k = 0; k < K; k++) g[k] = make_float4(a, a, a, a), z[k] = make_float4(b, b, b, b);
}
// A thread that copies pieces: n of each row, the first m of them once more, the latest first.
__device__ void fetch(const Problem &p, int b, int team, int n, int m, int piece, int slots, unsigned ring, unsigned full, unsigned empty) {
    Place to;
    int filled = 0;
    for (int r = team; r < p.rows; r += p.teams)
        for (int i = 0; i < n + m; i++) {
            if (filled >= slots) await(empty + to.slot * 8, to.parity ^ 1);
            else filled++;
            const int q = b + (i < n ? i : n + m - 1 - i) * p.blocks;
            bulk(ring + to.slot * piece * 4, p.X + where(p, r, q, piece), piece * 4, full + to.slot * 8);
            to.go(1, slots);
        }
}
enum How { MEET, LAGGED, SPLIT };
// Rows stay in a ring of pieces in shared memory. MEET: reduced, met, mapped. LAGGED: a row is mapped behind the sums of the next one. SPLIT: T threads
// reduce, T others map. Where a row's pieces are more than the slots but `ahead` of them, the first ones are copied again.
template <int T, int K, int HOW, int MODE> __global__ void __launch_bounds__((HOW == SPLIT ? 2 * T : T) + 32, 1) ring(const Problem p, int slots, int ahead) {
    constexpr int piece = T * K * 4, BUSY = HOW == SPLIT ? 2 * T : T;
    extern __shared__ __align__(128) float4 data[];
    __shared__ u64 bars[2][128];
    __shared__ float2 warps[2][32], result[2][32];
    const unsigned full = at(bars[0]), empty = at(bars[1]);
    const int b = blockIdx.x % p.blocks, team = blockIdx.x / p.blocks, t = threadIdx.x % T, n = (p.pieces - b + p.blocks - 1) / p.blocks, m = max(0, n - (slots - ahead));
    if (threadIdx.x == 0) {
        for (int i = 0; i < slots; i++) init(full + i * 8, 1), init(empty + i * 8, T / 32);
        asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x >= BUSY) {
        if (threadIdx.x == BUSY) fetch(p, b, team, n, m, piece, slots, at(data), full, empty);
        return;
    }
    Place in, out;
    out.go(m, slots);
    const u64 how = policy(p.keep);
    auto reduce = [&](int r, int turn, float k) {
        float2 s = make_float2(0, 0);
        for (int i = 0; i < n; i++) {
            await(full + in.slot * 8, in.parity);
            const float4 *x = data + in.slot * (T * K) + t;
#pragma unroll
            for (int j = 0; j < K; j++) add(s, x[j * T], k);
            if (i < m) {
                __syncwarp();
                if (t % 32 == 0) arrive(empty + in.slot * 8);
            }
            in.go(1, slots);
        }
        for (int i = 0; i < m; i++, in.go(1, slots)) // a parity says nothing of the fill after the next
            if (HOW == SPLIT) await(full + in.slot * 8, in.parity);
        publish<1, T>(p, r, b, s, warps, turn);
    };
    auto map = [&](int r, int turn, float k) {
        const float2 c = meet<2, T>(p, r, k, result, turn);
        for (int i = 0; i < n; i++) {
            const int q = b + (i < n - m ? m + i : n - 1 - i) * p.blocks;
            float4 g[K], z[K], v[K];
            weights<MODE, K, T>(p, r, q, piece, t, how, g, z);
            if (i >= n - m || HOW == SPLIT) await(full + out.slot * 8, out.parity);
            const float4 *x = data + out.slot * (T * K) + t;
#pragma unroll
            for (int j = 0; j < K; j++) v[j] = x[j * T];
            __syncwarp();
            if (t % 32 == 0) arrive(empty + out.slot * 8);
            float4 *y = (float4 *)(p.Y + where(p, r, q, piece)) + t;
#pragma unroll
            for (int j = 0; j < K; j++) y[j * T] = mapped(v[j], c, g[j], z[j]);
            out.go(1, slots);
        }
        out.go(m, slots);
    };
    int turn = 0, before = -1;
    float next = p.X[team < p.rows ? team * p.row : 0], last = 0;
    for (int r = team; r < p.rows; r += p.teams, turn++) {
        const float k = next;
        next = r + p.teams < p.rows ? p.X[(r + p.teams) * p.row] : 0;
        if (HOW != SPLIT || threadIdx.x < T) reduce(r, turn, k);
        if (HOW == MEET || (HOW == SPLIT && threadIdx.x >= T)) map(r, turn, k);
        if (HOW == LAGGED && before >= 0) map(before, turn - 1, last);
        before = r, last = k;
    }
    if (HOW == LAGGED && before >= 0) map(before, turn - 1, last);
}
// Rows in registers, V vectors a thread, the next ones in the ring, which a thread refills behind the barrier of a row's sums. LAG: a row is stored behind
// the sums of the next one, and its registers are filled as they are stored. PIN: a block's scales stay in shared memory behind the ring.
template <int T, int V, int K, bool LAG, bool PIN, int MODE> __global__ void __launch_bounds__(T, 1) regs(const Problem p, int slots, int) {
    constexpr int piece = T * K * 4, P = V / K;
    extern __shared__ __align__(128) float4 data[];
    __shared__ u64 bars[128];
    __shared__ float2 warps[2][32], result[2][32];
    const unsigned full = at(bars);
    const int b = blockIdx.x % p.blocks, team = blockIdx.x / p.blocks, t = threadIdx.x, n = (p.pieces - b + p.blocks - 1) / p.blocks;
    float4 *const pinned = data + slots * (T * K) + t;
    Place in, out, to;
    int coming = team, piece_coming = 0; // what is copied next
    auto issue = [&](int count) {
        for (; count > 0 && coming < p.rows; count--) {
            bulk(at(data) + to.slot * piece * 4, p.X + where(p, coming, b + piece_coming * p.blocks, piece), piece * 4, full + to.slot * 8);
            to.go(1, slots);
            if (++piece_coming == n) piece_coming = 0, coming += p.teams;
        }
    };
    if (t == 32) {
        for (int i = 0; i < slots; i++) init(full + i * 8, 1);
        asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;" ::: "memory");
        issue(slots);
    }
    __syncthreads();
    const u64 how = policy(p.keep);
    if (PIN)
#pragma unroll 1
        for (int i = 0; i < n * K; i++) pinned[i * T] = weight(p.S + (size_t)(b + i / K * p.blocks) * piece + (i % K * T + t) * 4, how);
    float4 x[V];
    auto take = [&](int i) { // piece i into registers
        const float4 *from = data + out.slot * (T * K) + t;
#pragma unroll
        for (int j = 0; j < K; j++) x[i * K + j] = from[j * T];
        out.go(1, slots);
    };
    auto map = [&](int r, int turn, float k, bool refill) {
        float4 coming_z;
        if (PIN) coming_z = weight(p.Z + (size_t)opaque(b) * piece + t * 4, how);
        const float2 c = meet<2, T>(p, r, k, result, turn);
#pragma unroll
        for (int i = 0; i < P; i++)
            if (i < n) {
                const int q = opaque(b + i * p.blocks);
                float4 *y = (float4 *)(p.Y + where(p, r, q, piece)) + t;
#pragma unroll
                for (int j = 0; j < K; j++) {
                    float4 g, z;
                    if (PIN) {
                        g = pinned[(i * K + j) * T], z = coming_z;
                        if (i + 1 < n) coming_z = weight(p.Z + (size_t)opaque(b + (i + 1) * p.blocks) * piece + (j * T + t) * 4, how); // K is 1
                    } else weights<MODE, 1, T>(p, r, q, piece, j * T + t, how, &g, &z);
                    y[j * T] = mapped(x[i * K + j], c, g, z);
                }
                if (LAG && refill) take(i);
            }
    };
    int turn = 0, before = -1;
    float next = p.X[team < p.rows ? team * p.row : 0], last = 0;
    for (int r = team; r < p.rows; r += p.teams, turn++) {
        const float k = next;
        next = r + p.teams < p.rows ? p.X[(r + p.teams) * p.row] : 0;
        float2 s = make_float2(0, 0);
#pragma unroll
        for (int i = 0; i < P; i++)
            if (i < n) {
                await(full + in.slot * 8, in.parity);
                if (!LAG) {
                    take(i);
#pragma unroll
                    for (int j = 0; j < K; j++) add(s, x[i * K + j], k);
                } else {
                    const float4 *from = data + in.slot * (T * K) + t;
#pragma unroll
                    for (int j = 0; j < K; j++) add(s, from[j * T], k);
                }
                in.go(1, slots);
                if (PIN && i == P / 2 - 1) { // the ring is shorter than a row
                    sync<3, T>();
                    if (t == 32) issue(i + 1);
                }
            }
        publish<1, T>(p, r, b, s, warps, turn);
        if (t == 32 && (!LAG || turn)) issue(PIN ? n - P / 2 : n); // all threads have taken the row, or the one before
        if (!LAG) map(r, turn, k, false);
        else if (before >= 0) map(before, turn - 1, last, true);
        else {
#pragma unroll
            for (int i = 0; i < P; i++)
                if (i < n) take(i);
        }
        before = r, last = k;
    }
    if (LAG && before >= 0) map(before, turn - 1, last, false);
}
// What the compiler would make: a row in registers, the next one copied by each thread into places of its own, all ahead of the meeting; B blocks a
// multiprocessor, in teams that have a row each. AHEAD false: the next row is loaded when this one is stored.
template <int T, int V, int B, bool AHEAD, int MODE> __global__ void __launch_bounds__(T, B) own(const Problem p, int, int) {
    constexpr int piece = T * 4;
    extern __shared__ __align__(128) float4 data[];
    __shared__ float2 warps[2][32], result[2][32];
    const int b = blockIdx.x % p.blocks, team = blockIdx.x / p.blocks, t = threadIdx.x, q0 = b * V;
    const u64 how = policy(p.keep);
    const unsigned mine = at(data + t);
    if (team >= p.teams) return;
    auto ahead = [&](int r) {
        if (r >= p.rows) return;
#pragma unroll
        for (int i = 0; i < V; i++) cp16(mine + i * T * 16, p.X + where(p, r, q0, piece) + (i * T + t) * 4);
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    if (AHEAD) ahead(team);
    int turn = 0;
    float next = p.X[team < p.rows ? team * p.row : 0];
    for (int r = team; r < p.rows; r += p.teams, turn++) {
        const float k = next;
        next = r + p.teams < p.rows ? p.X[(r + p.teams) * p.row] : 0;
        const size_t o = where(p, r, q0, piece) + t * 4;
        float4 x[V];
        if (AHEAD) asm volatile("cp.async.wait_all;" ::: "memory");
#pragma unroll
        for (int i = 0; i < V; i++) x[i] = AHEAD ? data[i * T + t] : *(const float4 *)(p.X + o + i * piece);
        float2 s = make_float2(0, 0);
#pragma unroll
        for (int i = 0; i < V; i++) add(s, x[i], k);
        publish<1, T>(p, r, b, s, warps, turn);
        if (AHEAD) ahead(r + p.teams);
        const float2 c = meet<2, T>(p, r, k, result, turn);
#pragma unroll
        for (int i = 0; i < V; i++) {
            float4 g, z;
            weights<MODE, 1, T>(p, r, opaque(q0) + i, piece, t, how, &g, &z);
            *(float4 *)(p.Y + o + i * piece) = mapped(x[i], c, g, z);
        }
    }
}
// As `own`, but a chunk is mapped behind the sums of the next one, by the same threads, and chunks go round over all blocks: item i is chunk i % blocks of row i / blocks, block b of the
// launch has items b, b + grid, ... REGS: the chunk that is mapped stays in registers, `S` more are in shared memory; else S in all, of which two are summed or mapped.
// COUNTER 0: sentinel; 1: counter by thread 0; 2: counter by a warp that stores nothing else
template <int T, int V, int B, int S, bool REGS, int HOW, int MODE> __global__ void __launch_bounds__(T + (HOW == 2 ? 32 : 0), B) lag(const Problem p, int, int) {
    constexpr int piece = T * 4, ALL = T + (HOW == 2 ? 32 : 0);
    extern __shared__ __align__(128) float4 data[];
    __shared__ float2 warps[2][32], result[2][32];
    const int t = threadIdx.x, items = p.rows * p.blocks, step = gridDim.x;
    const u64 how = policy(p.keep);
    const unsigned mine = at(data + t);
    auto ahead = [&](int i, int slot) {
        if (i < items && t < T) {
            const int r = i / p.blocks, b = i % p.blocks;
#pragma unroll
            for (int j = 0; j < V; j++) cp16(mine + (slot * V + j) * T * 16, p.X + where(p, r, b * V, piece) + (j * T + t) * 4);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    float4 x[REGS ? V : 1];
    int turn = 0, slot = 0;
    auto sum = [&](int i) { // publishes item i, in `slot`
        const int r = i / p.blocks, b = i % p.blocks;
        float2 s = make_float2(0, 0);
        const float k = __ldg(p.X + r * p.row);
        if (t < T) {
#pragma unroll
            for (int j = 0; j < V; j++) add(s, data[(slot * V + j) * T + t], k);
            s = over_warp(s);
            if (t % 32 == 0) warps[turn & 1][t / 32] = s;
        }
        sync<1, ALL>();
        const int first = HOW == 2 ? T : 0;
        if (t < first || t >= first + 32) return;
        s = t - first < T / 32 ? warps[turn & 1][t - first] : make_float2(0, 0);
        s = over_warp(s);
        if (t != first) return;
        float2 *to = &p.part[(size_t)r * p.blocks + b];
        asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" :: "l"(to), "l"(*(u64 *)&s) : "memory");
        if (HOW) asm volatile("fence.acq_rel.gpu;\nred.relaxed.gpu.global.add.u32 [%0], 1;" :: "l"(p.counter + r) : "memory");
    };
    for (int i = 0; i < S; i++) ahead(blockIdx.x + i * step, i);
    asm volatile("cp.async.wait_group %0;" :: "n"(S - 1) : "memory");
    if ((int)blockIdx.x >= items) return;
    sum(blockIdx.x);
    if (REGS) {
#pragma unroll
        for (int j = 0; j < V; j++) x[j] = data[j * T + min(t, T - 1)];
        ahead(blockIdx.x + S * step, 0);
    }
    slot = 1 % S;
    for (int i = blockIdx.x; i < items; i += step) {
        turn++;
        const int r = i / p.blocks, b = i % p.blocks;
        const float k = __ldg(p.X + r * p.row);
        asm volatile("cp.async.wait_group %0;" :: "n"(REGS ? S - 1 : S - 2) : "memory");
        if (i + step < items) sum(i + step);
        float2 c;
        { // the meeting, for item i
            Problem q = p;
            q.sentinel = HOW == 0;
            c = meet<2, ALL>(q, r, k, result, turn);
        }
        if (t < T) {
            const int q0 = b * V, old = slot ? slot - 1 : S - 1;
#pragma unroll
            for (int j = 0; j < V; j++) {
                float4 g, z;
                weights<MODE, 1, T>(p, r, q0 + j, piece, t, how, &g, &z);
                const float4 v = REGS ? x[REGS ? j : 0] : data[(old * V + j) * T + t];
                *(float4 *)(p.Y + where(p, r, q0, piece) + t * 4 + j * piece) = mapped(v, c, g, z);
                if (REGS) x[REGS ? j : 0] = data[(slot * V + j) * T + t];
            }
            if (REGS) ahead(i + (S + 1) * step, slot);
            else ahead(i + S * step, old);
        }
        slot = slot == S - 1 ? 0 : slot + 1;
    }
}
__global__ void copy(const float4 *x, float4 *y) { y[blockIdx.x * 1024ull + threadIdx.x] = x[blockIdx.x * 1024ull + threadIdx.x]; }
__global__ void fill(float *x, size_t n, unsigned seed) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        u64 h = (i + seed * 77777777ull) * 0x9E3779B97F4A7C15ull;
        h ^= h >> 29, h *= 0xBF58476D1CE4E5B9ull, h ^= h >> 32;
        x[i] = (unsigned)(h >> 40) * (1.0f / 16777216);
    }
}
// The reference in two passes: sums in f64, then the largest difference. Pieces of 4,096 elements; blockIdx.y is the row.
__global__ void sums(const Problem p, double *to) {
    double s = 0, q = 0;
    for (int i = blockIdx.x; i < p.pieces; i += gridDim.x)
        for (int j = threadIdx.x; j < 4096; j += 256) {
            const double x = p.X[where(p, blockIdx.y, i, 4096) + j] - 0.5;
            s += x, q += x * x;
        }
    for (int k = 16; k; k /= 2) s += __shfl_xor_sync(~0u, s, k), q += __shfl_xor_sync(~0u, q, k);
    if (threadIdx.x % 32 == 0) atomicAdd(to + 2 * blockIdx.y, s), atomicAdd(to + 2 * blockIdx.y + 1, q);
}
__global__ void differ(const Problem p, const double *from, int mode, unsigned *worst) {
    const int r = blockIdx.y;
    const double m = from[2 * r] / p.count, c = 0.5 + m, scale = 1 / sqrt(from[2 * r + 1] / p.count - m * m + 1e-5);
    float w = 0;
    for (int i = blockIdx.x; i < p.pieces; i += gridDim.x)
        for (int j = threadIdx.x; j < 4096; j += 256) {
            const size_t o = where(p, r, i, 4096) + j, e = (size_t)i * 4096 + j;
            const size_t a = mode == LAYER ? e : mode == GROUP ? r % 8 * 8 + e / PLANE : r;
            const float d = fabsf((float)((p.X[o] - c) * scale * p.S[a] + p.Z[a]) - p.Y[o]);
            w = !(d <= w) ? d : w;
        }
    atomicMax(worst, __float_as_uint(w));
}
typedef void (*Kernel)(Problem, int, int);
struct Variant { const char *name; Kernel kernel; int threads, piece, kind, blocks_each, vectors, slots, ahead; };
static Problem problem;
static double *reference;
static float *flushed;
static unsigned *worst;
static int processors;
static void flush() { cudaMemsetAsync(flushed, 0, 256 << 20); }
static float median(std::vector<float> t) { return std::sort(t.begin(), t.end()), t[t.size() / 2]; }
template <class F> static float timed(int samples, F call) {
    cudaEvent_t a, b;
    cudaEventCreate(&a), cudaEventCreate(&b);
    std::vector<float> t;
    for (int i = 0; i < samples + 1; i++) {
        flush();
        cudaEventRecord(a), call(), cudaEventRecord(b), cudaEventSynchronize(b);
        float ms;
        cudaEventElapsedTime(&ms, a, b);
        if (i) t.push_back(ms);
    }
    return median(t);
}
static bool time(const Variant &v, int mode, bool sentinel, bool keep, size_t elements, float floor, int samples) {
    Problem p = problem;
    const int limit = 232448 - 4096, bytes = v.piece * 4;
    int slots = v.slots, smem;
    for (int i = v.piece; i > 4096; i /= 2) p.shift--;
    for (int i = v.piece; i < 4096; i *= 2) p.shift++;
    p.pieces = (int)(elements / v.piece), p.sentinel = sentinel, p.keep = keep;
    const bool pinned = v.kind == 3;
    if (v.kind >= 4) { // lag: `kind` - 4 is HOW; chunks go round over all blocks
        p.blocks = p.pieces / v.vectors, p.teams = 1, smem = v.slots * v.vectors * bytes, p.sentinel = v.kind == 4;
        if (p.blocks * v.vectors != p.pieces || p.blocks > 2 * processors * v.blocks_each) return printf("%-44s a row has no such chunks\n", v.name), true;
    } else if (v.kind == 2) { // own: a block's chunk is a part of the row that divides it
        p.blocks = p.pieces / v.vectors, p.teams = processors * v.blocks_each / p.blocks, smem = slots ? v.vectors * bytes : 0;
        if (p.blocks * v.vectors != p.pieces || p.teams < 1) return printf("%-44s a row has no such chunks\n", v.name), true;
    } else {
        p.blocks = processors, p.teams = 1;
        const int n = (p.pieces + p.blocks - 1) / p.blocks, most = (limit - (pinned ? n * bytes : 0)) / bytes;
        slots = slots ? std::min(slots * n, most) : most; // given: rows
        smem = (slots + (pinned ? n : 0)) * bytes;
        if (slots > 128 || slots < 2 || (v.vectors && n * bytes > v.threads * v.vectors * 16)) return printf("%-44s does not fit\n", v.name), true;
        if (strstr(v.name, "LAGGED") && slots < 2 * n) return printf("%-44s %d slots for rows of %d pieces\n", v.name, slots, n), true;
        if (((v.kind == 1 && slots < (strstr(v.name, "true") ? 2 * n : n)) || (v.kind == 3 && (slots < n - v.vectors * v.threads * 4 / v.piece / 2 || n < v.vectors * v.threads * 4 / v.piece / 2)) ||
             (strstr(v.name, "MEET") && mode != BATCH && slots < n))) return printf("%-44s %d slots for rows of %d pieces\n", v.name, slots, n), true;
    }
    const int grid = v.kind >= 4 ? processors * v.blocks_each : p.blocks * p.teams, all = v.threads + (v.kind == 0 || v.kind == 6 ? 32 : 0);
    CK(cudaFuncSetAttribute((const void *)v.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem));
    cudaFuncAttributes about;
    CK(cudaFuncGetAttributes(&about, (const void *)v.kernel));
    int ahead = v.ahead;
    void *args[] = {&p, &slots, &ahead};
    cudaError_t error = cudaSuccess;
    const float ms = timed(samples, [&] {
        if (p.sentinel) cudaMemsetAsync(p.part, 0xff, (size_t)p.rows * p.blocks * sizeof *p.part);
        else cudaMemsetAsync(p.counter, 0, p.rows * 4);
        const cudaError_t e = cudaLaunchCooperativeKernel((const void *)v.kernel, dim3(grid), dim3(all), args, smem, 0);
        if (e) error = e;
    });
    CK(error);
    CK(cudaMemset(worst, 0, 4));
    Problem whole = problem;
    differ<<<dim3(16, p.rows), 256>>>(whole, reference, mode, worst);
    float w;
    CK(cudaMemcpy(&w, worst, 4, cudaMemcpyDeviceToHost));
    CK(cudaMemset(p.Y, 0xff, (size_t)p.rows * elements * 4)); // the next one writes all of it
    printf("%-44s %s%s blocks %3d teams %d slots %3d regs %3d local %zu  %8.4f ms %.3f of the floor, differs %.1e%s\n", v.name, v.kind == 6 ? "apart   " : p.sentinel ? "sentinel" : "counter ", keep ? " keep" : "",
           p.blocks, p.teams, slots, about.numRegs, about.localSizeBytes, ms, ms / floor, w, w < 1e-3f ? "" : " WRONG");
    fflush(stdout);
    return true;
}
// kind 0: ring, 1: regs, 2: own, 3: regs with pinned scales
#define RING(T, K, HOW, M, ROWS, AHEAD) {"ring T" #T " K" #K " " #HOW " rows " #ROWS " ahead " #AHEAD, ring<T, K, HOW, M>, HOW == SPLIT ? 2 * T : T, T * K * 4, 0, 1, 0, ROWS, AHEAD}
#define REGS(T, V, K, LAG, M) {"regs T" #T " V" #V " K" #K " " #LAG, regs<T, V, K, LAG, false, M>, T, T * K * 4, 1, 1, V, 0, 0}
#define PINS(T, V, K, LAG, M) {"regs T" #T " V" #V " K" #K " " #LAG " pinned", regs<T, V, K, LAG, true, M>, T, T * K * 4, 3, 1, V, 0, 0}
#define LAG(T, V, B, S, REGS, HOW, M) {"lag T" #T " V" #V " B" #B " S" #S " regs " #REGS, lag<T, V, B, S, REGS, HOW, M>, T, T * 4, 4 + HOW, B, V, S, 0}
#define OWN(T, V, B, AHEAD, M) {"own T" #T " V" #V " B" #B " ahead " #AHEAD, own<T, V, B, AHEAD, M>, T, T * 4, 2, B, V, AHEAD, 0}
static const Variant group[] = {
    OWN(256, 8, 4, false, GROUP), OWN(256, 8, 4, true, GROUP), OWN(512, 8, 2, true, GROUP), OWN(256, 16, 2, true, GROUP), OWN(1024, 8, 1, true, GROUP),
    OWN(512, 16, 1, true, GROUP),
    REGS(512, 8, 2, false, GROUP), REGS(512, 8, 2, true, GROUP), REGS(1024, 4, 1, true, GROUP),
    RING(512, 2, MEET, GROUP, 0, 0), RING(512, 2, LAGGED, GROUP, 2, 0), RING(512, 2, LAGGED, GROUP, 3, 0), RING(512, 2, LAGGED, GROUP, 0, 0), RING(512, 4, LAGGED, GROUP, 3, 0),
    RING(256, 4, LAGGED, GROUP, 0, 0), RING(256, 4, SPLIT, GROUP, 2, 0), RING(256, 4, SPLIT, GROUP, 3, 0), RING(256, 4, SPLIT, GROUP, 0, 0), RING(256, 2, SPLIT, GROUP, 0, 0),
    LAG(512, 16, 1, 1, true, 0, GROUP), LAG(512, 16, 1, 1, true, 2, GROUP), LAG(256, 16, 2, 1, true, 0, GROUP), LAG(512, 8, 1, 3, true, 0, GROUP), LAG(512, 8, 1, 3, false, 0, GROUP),
    LAG(256, 8, 2, 3, false, 0, GROUP),
};
static const Variant layer[] = {
    OWN(512, 16, 1, true, LAYER), OWN(1024, 8, 1, true, LAYER), REGS(512, 16, 2, false, LAYER), PINS(512, 16, 1, false, LAYER), RING(512, 2, MEET, LAYER, 0, 0), RING(512, 4, MEET, LAYER, 0, 0),
    RING(256, 4, SPLIT, LAYER, 0, 0), RING(256, 2, SPLIT, LAYER, 0, 0),
};
static const Variant batch[] = {
    RING(512, 2, MEET, BATCH, 0, 3), RING(512, 2, MEET, BATCH, 0, 6), RING(256, 4, SPLIT, BATCH, 0, 2), RING(256, 4, SPLIT, BATCH, 0, 4), RING(256, 4, SPLIT, BATCH, 0, 6), RING(256, 2, SPLIT, BATCH, 0, 10),
};
int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "group";
    const int mode = !strcmp(name, "layer") ? LAYER : !strcmp(name, "batch") ? BATCH : GROUP;
    const size_t part = argc > 2 ? atoi(argv[2]) : 1; // a part of the rows or, for batch norm, of the images
    const int rows = mode == GROUP ? 896 / part : mode == LAYER ? 16 / part : 64;
    const size_t elements = mode == GROUP ? 8ull * PLANE : mode == LAYER ? 1 << 22 : 64ull / part * PLANE, total = rows * elements, small = mode == LAYER ? elements : 64;
    float *X, *S, *Z;
    auto make = [&]() -> bool {
        cudaDeviceProp about;
        CK(cudaGetDeviceProperties(&about, 0));
        processors = about.multiProcessorCount;
        Problem &p = problem;
        CK(cudaMalloc(&X, total * 4)); CK(cudaMalloc(&p.Y, total * 4)); CK(cudaMalloc(&S, small * 4)); CK(cudaMalloc(&Z, small * 4)); CK(cudaMalloc(&p.part, rows * 4096 * sizeof *p.part));
        CK(cudaMalloc(&p.counter, rows * 4)); CK(cudaMalloc(&reference, rows * 16)); CK(cudaMalloc(&flushed, 256 << 20)); CK(cudaMalloc(&worst, 4)); CK(cudaMemset(reference, 0, rows * 16));
        fill<<<2048, 512>>>(X, total, 1), fill<<<256, 512>>>(S, small, 2), fill<<<256, 512>>>(Z, small, 3);
        p.X = X, p.S = S, p.Z = Z, p.rows = rows, p.count = (float)elements, p.pieces = (int)(elements / 4096);
        p.shift = mode == BATCH ? 6 : 28, p.outer = mode == BATCH ? 64ull * PLANE : 0, p.row = mode == BATCH ? PLANE : elements;
        sums<<<dim3(16, rows), 256>>>(p, reference);
        CK(cudaDeviceSynchronize());
        return true;
    };
    if (!make()) return 1;
    const int samples = mode == LAYER ? 15 : 5;
    for (int i = 0; i < 20; i++) copy<<<(unsigned)(total / 4096), 1024>>>((const float4 *)X, (float4 *)problem.Y);
    const float ms = timed(samples, [&] { copy<<<(unsigned)(total / 4096), 1024>>>((const float4 *)X, (float4 *)problem.Y); });
    const double bytes = 8.0 * total, floor = ms * (bytes + (mode == LAYER ? 8.0 * small : 0)) / bytes;
    printf("%s norm: copy %.4f ms, %.0f GB/s, floor %.4f ms\n", name, ms, bytes / ms * 1e-6, floor);
    std::vector<Variant> all;
    if (mode == GROUP) all.assign(std::begin(group), std::end(group));
    if (mode == LAYER) all.assign(std::begin(layer), std::end(layer));
    if (mode == BATCH) all.assign(std::begin(batch), std::end(batch));
    for (const Variant &v : all)
        for (int how = 0; how < (v.kind >= 4 ? 1 : 2); how++) // the meeting by counter and by sentinel; layer norm by counter and with its weights kept in the L2
            if (v.threads + (v.kind && v.kind != 6 ? 0 : 32) <= 1024 && !time(v, mode, mode == LAYER ? false : how, mode == LAYER && how, elements, (float)floor, samples) && (printf("%-44s failed\n", v.name), cudaGetLastError(), cudaDeviceSynchronize() != cudaSuccess)) return 1;
}
