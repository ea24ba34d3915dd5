// nvcc -fmad=false -ftz=false -prec-div=true -prec-sqrt=true

// a, b >= 0: division in 32 bits; by 0 it is 0.
static __host__ __device__ inline int div_word(int a, long long b) {
    const unsigned int by = b < 0xffffffff ? (unsigned int)b : 0xffffffff;
    return by == 0 ? 0 : (int)((unsigned int)a / by);
}

// a, b >= 0: the remainder of a division in 32 bits; by 0 it is 0.
static __host__ __device__ inline int mod_word(int a, long long b) {
    const unsigned int by = b < 0xffffffff ? (unsigned int)b : 0xffffffff;
    return by == 0 ? 0 : (int)((unsigned int)a % by);
}

static __device__ __forceinline__ float4 load_or(const float4 *at, int mask, float4 other) {
    asm("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"
        "@p ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%5];\n}"
        : "+f"(other.x), "+f"(other.y), "+f"(other.z), "+f"(other.w)
        : "r"(mask), "l"(__cvta_generic_to_global(at)));
    return other;
}

extern "C" __global__ void __launch_bounds__(128)
    rms_norm_v0(const float *__restrict__ X, float *__restrict__ Y, long long B, long long F,
                long long D1, long long D2) {
    const int block = (int)blockIdx.x, block_y = (int)blockIdx.y, lane = (int)threadIdx.x % 32;
    const int warp = (int)threadIdx.x / 32;
    const long long rows = (D1 + 7) / 8;
    const int b = div_word(block, rows);
    const long long d1 = (long long)mod_word(block, rows) * 8 + warp * 2;
    const long long d2 = (long long)block_y * 128 + lane * 4;
    const bool d2_inside = d2 < D2;
    const long long plane = D1 * D2;
    __align__(16) float square_sum_2[2][4] = {};
    __align__(16) float x_row[2][4];
    for (long long f = 0; f < F; ++f) {
        const long long page = (b * F + f) * plane;
#pragma unroll
        for (int i_2 = 0; i_2 < 2; ++i_2) {
            const long long row = d1 + i_2, at = page + row * D2 + d2;
            const bool inside = row < D1 && d2_inside;
            *(float4 *)&x_row[i_2][0] = load_or((const float4 *)&X[at], inside, float4());
        }
        float(&next)[2][4] = square_sum_2;
#pragma unroll
        for (int i_3 = 0; i_3 < 2; ++i_3) {
#pragma unroll
            for (int j_3 = 0; j_3 < 4; ++j_3) {
                const float square_row = x_row[i_3][j_3] * x_row[i_3][j_3];
                const float a = square_sum_2[i_3][j_3];
                next[i_3][j_3] = square_row + a;
            }
        }
    }
    const float F_float = (float)F;
    float(&rms_row)[2][4] = square_sum_2;
#pragma unroll
    for (int i_4 = 0; i_4 < 2; ++i_4) {
#pragma unroll
        for (int j_4 = 0; j_4 < 4; ++j_4) {
            rms_row[i_4][j_4] = sqrtf(square_sum_2[i_4][j_4] / F_float + 1e-05f);
        }
    }
    for (long long f_2 = 0; f_2 < F; ++f_2) {
        const long long page_2 = (b * F + f_2) * plane;
        float(&x_row_2)[2][4] = x_row;
#pragma unroll
        for (int i_5 = 0; i_5 < 2; ++i_5) {
            const long long row_2 = d1 + i_5, at_2 = page_2 + row_2 * D2 + d2;
            const bool inside_2 = row_2 < D1 && d2_inside;
            *(float4 *)&x_row_2[i_5][0] = load_or((const float4 *)&X[at_2], inside_2, float4());
        }
        float(&y_row)[2][4] = x_row;
#pragma unroll
        for (int i_6 = 0; i_6 < 2; ++i_6) {
#pragma unroll
            for (int j_6 = 0; j_6 < 4; ++j_6) {
                y_row[i_6][j_6] = x_row_2[i_6][j_6] / rms_row[i_6][j_6];
            }
        }
#pragma unroll
        for (int i_7 = 0; i_7 < 2; ++i_7) {
            const long long row_3 = d1 + i_7;
            if (row_3 < D1 && d2_inside) {
                __stwb((float4 *)&Y[page_2 + row_3 * D2 + d2], *(const float4 *)&y_row[i_7][0]);
            }
        }
    }
}

#ifndef __CUDACC_RTC__
extern "C" cudaError_t rms_norm_launch(const float *X, float *Y, long long B, long long F,
                                       long long D1, long long D2, cudaStream_t stream) {
    if (B < 0 || F < 0 || D1 < 0 || D2 < 0) return cudaErrorInvalidValue;
    if (D2 % 4 == 0 && ((size_t)X | (size_t)Y) % 16 == 0) {
        const long long grid_x = B * ((D1 + 7) / 8);
        const long long grid_y = (D2 + 127) / 128;
        if (grid_x <= 0 || grid_y <= 0) return cudaSuccess;
        if (grid_x > 2147483647 || grid_y > 65535) return cudaErrorInvalidConfiguration;
        const dim3 grid((unsigned int)grid_x, (unsigned int)grid_y, 1);
        rms_norm_v0<<<grid, 128, 0, stream>>>(X, Y, B, F, D1, D2);
        return cudaGetLastError();
    }
    return cudaErrorInvalidValue;
}
#endif
