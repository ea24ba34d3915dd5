/* Calls what tests/python/test_export.py exports: a convolution with batch norm, residual and relu, as a block of a ResNet has it. */
#include "block.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 2, C = 4, H = 9, W = 7 };

static float x[N][C][H][W], w[C][C][3][3], scale[C], shift[C], y[N][C][H][W];

static float at(int n, int c, int h, int v) {
    return h < 0 || v < 0 || h >= H || v >= W ? 0 : x[n][c][h][v];
}

static double expected(int n, int c, int h, int v) {
    double sum = 0;
    for (int k = 0; k < C; k++)
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) sum += (double)w[c][k][i][j] * at(n, k, h + i - 1, v + j - 1);
    sum = sum * scale[c] + shift[c] + x[n][c][h][v];
    return sum > 0 ? sum : 0;
}

int main(void) {
    srand(1);
    for (float *p = &x[0][0][0][0], *end = p + N * C * H * W; p < end; p++) *p = (float)(rand() % 2001) / 1000 - 1;
    for (float *p = &w[0][0][0][0], *end = p + C * C * 9; p < end; p++) *p = (float)(rand() % 2001) / 1000 - 1;
    for (int c = 0; c < C; c++) scale[c] = 0.5f + (float)c, shift[c] = (float)c - 1;
    int64_t bytes = block_workspace(N, C, H, W);
    void *workspace = bytes > 0 ? aligned_alloc(256, (size_t)bytes) : NULL;
    int status = block(&x[0][0][0][0], &w[0][0][0][0], scale, shift, &y[0][0][0][0], N, C, H, W, workspace);
    double worst = 0;
    for (int n = 0; n < N; n++)
        for (int c = 0; c < C; c++)
            for (int h = 0; h < H; h++)
                for (int v = 0; v < W; v++) worst = fmax(worst, fabs(expected(n, c, h, v) - (double)y[n][c][h][v]));
    printf("status %d, %lld bytes of workspace, largest error %g\n", status, (long long)bytes, worst);
    free(workspace);
    if (block(&x[0][0][0][0], &w[0][0][0][0], scale, shift, &y[0][0][0][0], -1, C, H, W, NULL) != 1) return 1;
    return status != 0 || bytes < 0 || worst > 1e-4;
}
