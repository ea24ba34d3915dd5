#include "timed.h"
int main() {
    long long N = 4096;
    for (long long M : {32768ll, 512ll}) {
        float *X = dev(M * N), *L = dev(1, false), *part = dev(M, false);
        long long *T;
        cudaMalloc(&T, 8 * M), cudaMemset(T, 0, 8 * M);
        const char *size = M > 512 ? "cross_entropy full" : "cross_entropy part";
#if PDL == 3
        cudaMemcpyToSymbol(last_out, &L, sizeof L);
        timed(size, [&] { cross_entropy_rows_launch(X, T, L, M, N, part, 0); }, L, 1);
#else
        timed(size, [&] { dependent = false; cross_entropy_rows_launch(X, T, L, M, N, part, 0); cross_entropy_rows_2_launch(X, T, L, M, N, part, 0); }, L, 1);
        timed("  its first step", [&] { dependent = false; cross_entropy_rows_launch(X, T, L, M, N, part, 0); }, part, M);
#endif
        cudaFree(X);
    }
}
