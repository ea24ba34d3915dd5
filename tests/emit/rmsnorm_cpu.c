// cc -std=c17 -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math -fopenmp -lm
#include <stdbool.h>
#include <stdint.h>

int rms_norm(const float *restrict X, float *restrict Y, int64_t B, int64_t F, int64_t D1,
             int64_t D2) {
    if (B < 0 || F < 0 || D1 < 0 || D2 < 0) return 1;
    const int64_t rows = (D1 + 7) / 8;
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t b = 0; b < B; ++b) {
        for (int64_t d1_outer = 0; d1_outer < rows; ++d1_outer) {
            const int64_t d1 = d1_outer * 8;
            for (int64_t d2 = 0; d2 < D2; d2 += 128) {
                _Alignas(64) float square_sum_2[8][128] = {{0}};
                for (int64_t f = 0; f < F; ++f) {
                    const int64_t page0 = (b * F + f) * D1;
                    _Alignas(64) float x_row[8][128];
                    for (int i_2 = 0; i_2 < 8; ++i_2) {
#pragma omp simd
                        for (int j_2 = 0; j_2 < 128; ++j_2) {
                            const int64_t row = d1 + i_2, col = d2 + j_2;
                            const int64_t at = (page0 + row) * D2 + col;
                            const bool inside = row < D1 && col < D2;
                            x_row[i_2][j_2] = inside ? X[at] : 0.0f;
                        }
                    }
                    float(*next)[128] = square_sum_2;
                    for (int i_3 = 0; i_3 < 8; ++i_3) {
#pragma omp simd
                        for (int j_3 = 0; j_3 < 128; ++j_3) {
                            const float square_row = x_row[i_3][j_3] * x_row[i_3][j_3];
                            const float a = square_sum_2[i_3][j_3];
                            next[i_3][j_3] = square_row + a;
                        }
                    }
                }
                const float F_float = (float)F;
                float(*rms_row)[128] = square_sum_2;
                for (int i_4 = 0; i_4 < 8; ++i_4) {
#pragma omp simd
                    for (int j_4 = 0; j_4 < 128; ++j_4) {
                        const float shifted = square_sum_2[i_4][j_4] / F_float + 1e-05f;
                        rms_row[i_4][j_4] = __builtin_sqrtf(shifted);
                    }
                }
                for (int64_t f_2 = 0; f_2 < F; ++f_2) {
                    const int64_t page0_2 = (b * F + f_2) * D1;
                    for (int i_5 = 0; i_5 < 8; ++i_5) {
                        for (int j_5 = 0; j_5 < 128; ++j_5) {
                            const int64_t row_2 = d1 + i_5, col_2 = d2 + j_5;
                            const bool inside_2 = row_2 < D1 && col_2 < D2;
                            const int64_t at_2 = (page0_2 + row_2) * D2 + col_2;
                            const float x_2 = inside_2 ? X[at_2] : 0.0f, r = rms_row[i_5][j_5];
                            if (inside_2) Y[at_2] = x_2 / r;
                        }
                    }
                }
            }
        }
    }
    return 0;
}
