#!/usr/bin/env python3
"""CUDA C as sketchc emits it to a program that times its steps: launched one after the other (PDL=0), each as a dependent of
the one before (1), also released by the one before as soon as all of its blocks run (2), or with the sum made by the block that
finishes last (3, cross_entropy only).

    dependent.py IN.cu MAIN.cu OUT.cu"""
import re
import sys

HEAD = r'''#include <algorithm>
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>
#if PDL == 1
#define BEGIN asm volatile("griddepcontrol.wait;" ::: "memory");
#elif PDL == 2
#define BEGIN asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); asm volatile("griddepcontrol.wait;" ::: "memory");
#else
#define BEGIN
#endif
#if PDL == 0
#define RESTRICT __restrict__
#else
#define RESTRICT // what an earlier step writes must not be read ahead of the wait
#endif
#if PDL == 3
__device__ unsigned ticket;
__device__ float *last_out;
#define STORE_PART \
    __shared__ int last; \
    if (lane + warp == 0) { part[m] = p[0]; __threadfence(); last = atomicAdd(&ticket, 1u) == gridDim.x - 1; } \
    __syncthreads(); \
    if (last) { \
        __threadfence(); \
        float4 a[4] = {}; \
        for (long long at = (lane + warp * 32) * 4; at < M; at += 4096) { \
            float4 x[4]; \
            _Pragma("unroll") for (int i = 0; i < 4; i++) x[i] = at + i * 1024 < M ? __ldcg((const float4 *)&part[at + i * 1024]) : float4(); \
            _Pragma("unroll") for (int i = 0; i < 4; i++) { a[i].x += x[i].x; a[i].y += x[i].y; a[i].z += x[i].z; a[i].w += x[i].w; } \
        } \
        float s = 0; \
        for (int i = 0; i < 4; i++) s += a[i].x + a[i].y + a[i].z + a[i].w; \
        for (int i = 1; i < 32; i *= 2) s += __shfl_xor_sync(~0u, s, i); \
        if (lane == 0) partials[warp] = s; \
        __syncthreads(); \
        if (lane + warp == 0) { s = 0; for (int i = 0; i < 8; i++) s += partials[i]; *last_out = s / M; ticket = 0; } \
    }
#else
#define STORE_PART if (lane + warp == 0) part[m] = p[0];
#endif
static bool dependent = false;
template <class... P, class... A> static void go(void (*f)(P...), unsigned grid, unsigned threads, unsigned shared, cudaStream_t s, A... a) {
    cudaLaunchConfig_t c = {};
    cudaLaunchAttribute at[1];
    c.gridDim = dim3(grid), c.blockDim = dim3(threads), c.dynamicSmemBytes = shared, c.stream = s;
    at[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    at[0].val.programmaticStreamSerializationAllowed = 1;
    c.attrs = at, c.numAttrs = (PDL == 1 || PDL == 2) && dependent;
    cudaError_t e = cudaLaunchKernelEx(&c, f, P(a)...);
    if (e != cudaSuccess) printf("launch: %s\n", cudaGetErrorString(e));
    dependent = true;
}
'''


def main(source, program, out):
    with open(source, encoding="utf-8") as f:
        text = f.read()
    text = re.sub(r'extern "C" __global__ void __launch_bounds__\(\d+\)\s+\w+\([^)]*\) \{', lambda m: m.group(0) + "\n    BEGIN", text)
    text = text.replace("__restrict__", "RESTRICT")
    text = re.sub(r"(\w+)<<<(.*?), (\d+), (\w+), stream>>>\(", r"go(\1, \2, \3, \4, stream, ", text)
    at = text.find(" cross_entropy_rows_row4096(")
    if at >= 0:
        store = "if (lane + warp == 0) part[m] = p[0];"
        place = text.index(store, at)
        text = text[:place] + "STORE_PART" + text[place + len(store):]
    with open(program, encoding="utf-8") as f, open(out, "w", encoding="utf-8") as o:
        o.write(HEAD + text + f.read())


if __name__ == "__main__":
    main(*sys.argv[1:])
