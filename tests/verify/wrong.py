#!/usr/bin/env python3
"""Wrong sketches of operators that update in place, scan, quantise, choose, gather, mask, convolve, normalise, count and give several results, and such as are wrong
at few sizes: `verify` accepts none.

    wrong.py SKETCHC [--all]

Each row is a right sketch with one change, which is what is wrong with it. The short run takes a sixth of the rows each day, and the right sketches that they change. Says of each
which case caught it, at which sizes, and by what check; the seed is in the first line."""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import daily

SEED = 22
NOT_VERIFIED = 3
NO_FAULT = ("powerless", "incomplete", "near_ties")  # of status 3, too, and say nothing of the sketch
# name: declarations, equations, case, body of the right sketch
OPERATORS = {
    "decay": ("symbols: M, N;\ntensors: H[M, N]: f32, G[M, N]: f32, Y[M]: f32;", "H = 0.9 * H + G\nY = sum(H, axis=1)",
              "M=5, N=70; H: normal(0, 1); G: normal(0, 1)", """for i in range(M):
    s = alloc([], init=0)
    for j in range(ceil(N, 32)):
        h = alloc([32])
        load(H[i, j*32:(j+1)*32] -> h)
        g = alloc([32])
        load(G[i, j*32:(j+1)*32] -> g)
        n = 0.9 * h + g
        store(n -> H[i, j*32:(j+1)*32])
        s += sum(n, axis=0)
    store(s -> Y[i])"""),
    "recurrence": ("symbols: M, N;\ntensors: A[M, N]: f32, X[M, N]: f32, Y[M, N]: f32;", "Y = linear_scan(A, X, axis=1)",
                   "M=5, N=150; A: uniform(0.3, 0.9); X: normal(0, 1)", """for i in range(M):
    a = alloc([N])
    load(A[i, :] -> a)
    x = alloc([N])
    load(X[i, :] -> x)
    y = linear_scan(a, x, axis=0)
    store(y -> Y[i, :])"""),
    "quantised": ("symbols: M, N;\ntensors: X[M, N]: f32, S[M]: f32, Q[M, N]: i8;",
                  "Q = cast(max(min(round(X / reshape(S, [M, 1])), 127), -128), dtype=i8)", "M=6, N=200; X: normal(0, 3); S: uniform(0.02, 0.2)",
                  """for i in range(M):
    s = alloc([])
    load(S[i] -> s)
    x = alloc([N])
    load(X[i, :] -> x)
    q = cast(max(min(round(x / s), 127), -128), dtype=i8)
    store(q -> Q[i, :])"""),
    "best": ("symbols: M, N, N <= 4096;\ntensors: X[M, N]: f32, I[M]: i64, B[M]: f32;", "I = argmax(X, axis=1)\nB = reduce_max(X, axis=1)",
             "M=40, N=90; X: randint(-4, 4)", """for i in range(M):
    x = alloc([N])
    load(X[i, :] -> x)
    k = argmax(x, axis=0)
    b = reduce_max(x, axis=0)
    store(k -> I[i])
    store(b -> B[i])"""),
    "bag": ("symbols: B, L, V, D;\ntensors: W[V, D]: f32, I[B, L]: i32, Y[B, D]: f32;", "Y[b, d] = sum(l in 0:L, W[I[b, l], d])",
            "B=7, L=9, V=11, D=40; W: normal(0, 1); I: randint(0, V)", """for b in range(B):
    y = alloc([D], init=0)
    for l in range(L):
        k = alloc([], dtype=i32)
        load(I[b, l] -> k)
        w = alloc([D])
        load(W[k, :] -> w, pad=0)
        y += w
    store(y -> Y[b, :])"""),
    "masked": ("symbols: T;\ntensors: S[T, T]: f32, P[T, T]: f32;", "P = softmax(where(iota([T, T], axis=1) <= iota([T, T], axis=0), S, -inf), axis=1)",
               "T=75; S: normal(0, 2)", """for i in range(T):
    s = alloc([T])
    load(S[i, :] -> s)
    m = where(iota([T], axis=0) <= i, s, -inf)
    e = exp(m - reduce_max(m, axis=0))
    p = e / sum(e, axis=0)
    store(p -> P[i, :])"""),
    "filtered": ("symbols: N;\ntensors: X[N + 4]: f32, F[5]: f32, Y[N]: f32;", "Y[i] = sum(k in 0:5, X[i + k] * F[k])",
                 "N=200; X: normal(0, 1); F: normal(0, 1)", """for i in range(ceil(N, 32)):
    y = alloc([32], init=0)
    for k in range(5):
        f = alloc([])
        load(F[k] -> f)
        x = alloc([32])
        load(X[i*32 + k:(i+1)*32 + k] -> x, pad=0)
        y += f * x
    store(y -> Y[i*32:(i+1)*32])"""),
    "spread": ("symbols: M, N, N >= 2;\ntensors: X[M, N]: f32, V[M]: f32;", "V = mean((X - mean(X, axis=1, keepdim=true)) * (X - mean(X, axis=1, keepdim=true)), axis=1)",
               "M=6, N=300; X: normal(100, 1)", """for i in range(M):
    x = alloc([N])
    load(X[i, :] -> x)
    d = x - sum(x, axis=0) / N
    v = sum(d * d, axis=0) / N
    store(v -> V[i])"""),
    "several": ("symbols: M, N;\ntensors: X[M, N]: f32, U[M, N]: f32, Z[M]: f32, C[N]: f32;",
                "T = tanh(X)\nU = T * T\nZ = sum(T, axis=1)\nC = reduce_max(U, axis=0)", "M=9, N=66; X: normal(0, 1)", """for i in range(M):
    x = alloc([N])
    load(X[i, :] -> x)
    t = tanh(x)
    u = t * t
    store(u -> U[i, :])
    z = sum(t, axis=0)
    store(z -> Z[i])
for j in range(N):
    y = alloc([M])
    load(X[:, j] -> y)
    w = tanh(y)
    c = reduce_max(w * w, axis=0)
    store(c -> C[j])"""),
    "sorted": ("symbols: M;\ntensors: X[M, 48]: f32, Y[M, 48]: f32, R[M, 48]: f32;", "Y = sort(X, axis=1)\nR = cumsum(X, axis=1)",
               "M=6; X: normal(0, 1)", """for i in range(M):
    x = alloc([48])
    load(X[i, :] -> x)
    y = sort(x, axis=0)
    r = cumsum(x, axis=0)
    store(y -> Y[i, :])
    store(r -> R[i, :])"""),
    "twice": ("symbols: M, N;\ntensors: X[M, N]: f32, Y[M, N]: f32, Z[M]: f32;", "Y = X * 2\nZ = sum(X, axis=1)", "M=6, N=200; X: normal(0, 1)", """for i in range(M):
    z = alloc([], init=0)
    for j in range(ceil(N, 32)):
        x = alloc([32])
        load(X[i, j*32:(j+1)*32] -> x)
        y = x * 2
        store(y -> Y[i, j*32:(j+1)*32])
        z += sum(x, axis=0)
    store(z -> Z[i])"""),
    "inverse": ("symbols: N;\ntensors: X[N]: f32, Y[N]: f32;", "Y = 1 / X", "N=300; X: uniform(1, 2)", """for i in range(ceil(N, 64)):
    x = alloc([64])
    load(X[i*64:(i+1)*64] -> x)
    y = 1 / x
    store(y -> Y[i*64:(i+1)*64])"""),
    "clipped": ("symbols: N;\ntensors: X[N]: f32, Y[N]: f32;", "Y = max(X, 0)", "N=300; X: normal(0, 1)", """for i in range(ceil(N, 64)):
    x = alloc([64])
    load(X[i*64:(i+1)*64] -> x)
    y = max(x, 0)
    store(y -> Y[i*64:(i+1)*64])"""),
    "positions": ("symbols: M, N;\ntensors: X[M, N]: f32, Y[M, N]: f32;", "Y = X * cast(iota([M, N], axis=1), dtype=f32)", "M=3, N=200; X: normal(0, 1)", """for i in range(M):
    x = alloc([N])
    load(X[i, :] -> x)
    y = x * cast(iota([N], axis=0), dtype=f32)
    store(y -> Y[i, :])"""),
    "normed": ("symbols: M, N;\ntensors: X[M, N]: f32, Y[M, N]: f32;", "C = X - mean(X, axis=1, keepdim=true)\nY = C * rsqrt(mean(C * C, axis=1, keepdim=true) + 0.00001)", "M=6, N=200; X: normal(0, 1)", """for i in range(M):
    x = alloc([N])
    load(X[i, :] -> x)
    c = x - sum(x, axis=0) / N
    y = c * rsqrt(sum(c * c, axis=0) / N + 0.00001)
    store(y -> Y[i, :])"""),
    "moments": ("symbols: M, N, N >= 1;\ntensors: X[M, N]: f32, V[M]: f32;", "C = X - mean(X, axis=1, keepdim=true)\nV = mean(C * C, axis=1)", "M=6, N=200; X: normal(0, 1)", """for i in range(M):
    x = alloc([N])
    load(X[i, :] -> x)
    c = x - sum(x, axis=0) / N
    v = sum(c * c, axis=0) / N
    store(v -> V[i])"""),
    "counted": ("symbols: N, V;\ntensors: I[N]: i32, Y[V]: i32;", "Y[v] = sum(n in 0:N, cast(I[n] == v, dtype=i32))", "N=300, V=40; I: randint(0, V)", """for v in range(V):
    zero = alloc([], dtype=i32, init=0)
    store(zero -> Y[v])
for n in range(ceil(N, 32)):
    at = alloc([32])
    load(I[n*32:(n+1)*32] -> at)
    one = alloc([32], dtype=i32, init=1)
    store(one -> Y[at], mode=add)"""),
    "looked_up": ("symbols: N, V, V >= 1;\ntensors: I[N]: i32, W[V]: f32, Y[N]: f32;", "Y[n] = W[I[n]]", "N=300, V=40; I: randint(0, V); W: normal(0, 1)", """for n in range(ceil(N, 32)):
    at = alloc([32])
    load(I[n*32:(n+1)*32] -> at)
    w = alloc([32])
    load(W[at] -> w)
    store(w -> Y[n*32:(n+1)*32])"""),
    "masked_mean": ("symbols: M, N;\ntensors: X[M, N]: f32, K[M, N]: bool, Y[M]: f32;", "Y = sum(where(K, X, 0), axis=1) / max(sum(cast(K, dtype=f32), axis=1), 1)", "M=6, N=200; X: normal(0, 1); K: randint(0, 2)", """for i in range(M):
    x = alloc([N])
    load(X[i, :] -> x)
    k = alloc([N])
    load(K[i, :] -> k)
    y = sum(where(k, x, 0), axis=0) / max(sum(cast(k, dtype=f32), axis=0), 1)
    store(y -> Y[i])"""),
    "first_best": ("symbols: M, N, N <= 4096;\ntensors: X[M, N]: f32, I[M]: i64;", "I = argmax(X, axis=1)", "M=40, N=90; X: normal(0, 1)", """for i in range(M):
    x = alloc([N])
    load(X[i, :] -> x)
    k = argmax(x, axis=0)
    store(k -> I[i])"""),
    "positive": ("symbols: M, N;\ntensors: X[M, N]: f32, Y[M, N]: f32;", "Y = X / sum(abs(X), axis=1, keepdim=true)", "M=6, N=200; X: uniform(1, 2)", """for i in range(M):
    x = alloc([N])
    load(X[i, :] -> x)
    y = x / sum(abs(x), axis=0)
    store(y -> Y[i, :])"""),
    "scaled": ("symbols: N;\ntensors: X[N]: f32, Y[N]: f32;\nscalars: s: f32;", "Y = X * s", "N=300, s=0.5; X: normal(0, 1)", """for i in range(ceil(N, 64)):
    x = alloc([64])
    load(X[i*64:(i+1)*64] -> x)
    y = x * s
    store(y -> Y[i*64:(i+1)*64])"""),
    "scaled_default": ("symbols: N;\ntensors: X[N]: f32, Y[N]: f32;\nscalars: s: f32 = 0.5;", "Y = X * s", "N=300; X: normal(0, 1)", """for i in range(ceil(N, 64)):
    x = alloc([64])
    load(X[i*64:(i+1)*64] -> x)
    y = x * s
    store(y -> Y[i*64:(i+1)*64])"""),
    "dequantised": ("symbols: N;\ntensors: Q[N]: i8, S[1]: f32, Y[N]: f32;", "Y = cast(Q, dtype=f32) * S[0]", "N=300; Q: randint(-8, 8); S: uniform(0.1, 1)", """s = alloc([])
load(S[0] -> s)
for i in range(ceil(N, 64)):
    q = alloc([64])
    load(Q[i*64:(i+1)*64] -> q)
    y = cast(q, dtype=f32) * s
    store(y -> Y[i*64:(i+1)*64])"""),
    "integers": ("symbols: N;\ntensors: X[N]: i32, Y[N]: i32;", "Y = X * 3 + 1", "N=300; X: randint(-100, 100)", """for i in range(ceil(N, 64)):
    x = alloc([64])
    load(X[i*64:(i+1)*64] -> x)
    y = x * 3 + 1
    store(y -> Y[i*64:(i+1)*64])"""),
    "of_bytes": ("symbols: N;\ntensors: X[N]: u8, Y[N]: f32;", "Y = cast(X, dtype=f32) / 255", "N=300; X: randint(0, 100)", """for i in range(ceil(N, 64)):
    x = alloc([64])
    load(X[i*64:(i+1)*64] -> x)
    y = cast(x, dtype=f32) / 255
    store(y -> Y[i*64:(i+1)*64])"""),
    "sparse_counts": ("symbols: N;\ntensors: I[N]: i32, Y[1000000]: i32;", "Y[v] = sum(n in 0:N, cast(I[n] == v, dtype=i32))", "N=300; I: randint(0, 1000000)", """for v in range(1000000 // 64):
    zero = alloc([64], dtype=i32, init=0)
    store(zero -> Y[v*64:(v+1)*64])
for n in range(ceil(N, 32)):
    at = alloc([32])
    load(I[n*32:(n+1)*32] -> at)
    one = alloc([32], dtype=i32, init=1)
    store(one -> Y[at], mode=add)"""),
}
# what is wrong: operator, and what is put in place of what
WRONG = {
    "sums what was there before the update": ("decay", "sum(n, axis=0)", "sum(h, axis=0)"),
    "updates twice": ("decay", "n = 0.9 * h + g", "n = 0.9 * (0.9 * h + g) + g"),
    "decays what is added, too": ("decay", "0.9 * h + g", "0.9 * (h + g)"),
    "takes another row's change": ("decay", "load(G[i,", "load(G[M - 1 - i,"),
    "leaves the state as it is": ("decay", "store(n -> H[i,", "store(h -> H[i,"),
    "adds the state to what is in memory": ("decay", "store(n -> H[i, j*32:(j+1)*32])", "store(n -> H[i, j*32:(j+1)*32], mode=add)"),
    "sums, with no factor": ("recurrence", "linear_scan(a, x, axis=0)", "cumsum(x, axis=0)"),
    "a step late": ("recurrence", "linear_scan(a, x, axis=0)", "linear_scan(a, x, axis=0, exclusive=true)"),
    "from the end": ("recurrence", "linear_scan(a, x, axis=0)", "linear_scan(a, x, axis=0, reverse=true)"),
    "factor and addend exchanged": ("recurrence", "linear_scan(a, x, axis=0)", "linear_scan(x, a, axis=0)"),
    "one factor for all": ("recurrence", "linear_scan(a, x, axis=0)", "linear_scan(0.6, x, axis=0)"),
    "begins from one": ("recurrence", "linear_scan(a, x, axis=0)", "linear_scan(a, x, axis=0, init=1)"),
    "factors of 16 bits": ("recurrence", "linear_scan(a, x, axis=0)", "linear_scan(cast(cast(a, dtype=f16), dtype=f32), x, axis=0)"),
    "forgets after 64 steps": ("recurrence", "load(A[i, :] -> a)", "load(A[i, :] -> a)\n    a = where(iota([N], axis=0) % 64 == 0, 0.0, a)"),
    "cuts off instead of rounding": ("quantised", "round(x / s)", "trunc(x / s)"),
    "rounds down": ("quantised", "round(x / s)", "floor(x / s)"),
    "never gives the least": ("quantised", "-128", "-127"),
    "a scale of 16 bits": ("quantised", "x / s", "x / cast(cast(s, dtype=f16), dtype=f32)"),
    "scales by a product": ("quantised", "round(x / s)", "round(x * s)"),
    "one step off": ("quantised", "round(x / s)", "round(x / s) + 1"),
    "the last of equals": ("best", "k = argmax(x, axis=0)", "k = N - 1 - argmax(flip(x, axis=0), axis=0)"),
    "the smallest": ("best", "argmax(x, axis=0)", "argmin(x, axis=0)"),
    "the largest by size": ("best", "argmax(x, axis=0)", "argmax(abs(x), axis=0)"),
    "never the last": ("best", "k = argmax(x, axis=0)", "k = argmax(where(iota([N], axis=0) == N - 1, -100.0, x), axis=0)"),
    "the largest of sizes": ("best", "b = reduce_max(x, axis=0)", "b = reduce_max(abs(x), axis=0)"),
    "leaves index 0 out": ("bag", "y += w", "y += where(k == 0, 0.0, 1.0) * w"),
    "leaves the last of a bag out": ("bag", "range(L)", "range(max(L - 1, 0))"),
    "the mean of a bag": ("bag", "store(y -> Y[b, :])", "y = y / max(L, 1)\n    store(y -> Y[b, :])"),
    "the row behind": ("bag", "load(W[k, :]", "load(W[k + 1, :]"),
    "another bag": ("bag", "load(I[b, l]", "load(I[B - 1 - b, l]"),
    "a row is its own mask": ("masked", "<= i", "< i"),
    "sees the next": ("masked", "<= i", "<= i + 1"),
    "no mask": ("masked", "where(iota([T], axis=0) <= i, s, -inf)", "s"),
    "masks by a large number": ("masked", "-inf)", "-10.0)"),
    "divides by all": ("masked", "sum(e, axis=0)", "sum(exp(s - reduce_max(m, axis=0)), axis=0)"),
    "the filter turned": ("filtered", "load(F[k]", "load(F[4 - k]"),
    "a tap left out": ("filtered", "range(5)", "range(4)"),
    "a window late": ("filtered", "X[i*32 + k:(i+1)*32 + k]", "X[i*32 + k + 1:(i+1)*32 + k + 1]"),
    "the first window for all": ("filtered", "X[i*32 + k:(i+1)*32 + k]", "X[k:32 + k]"),
    "windows of 16 bits": ("filtered", "y += f * x", "y += f * cast(cast(x, dtype=f16), dtype=f32)"),
    "divides by one less": ("spread", "sum(d * d, axis=0) / N", "sum(d * d, axis=0) / (N - 1)"),
    "squares less the square of the mean": ("spread", "sum(d * d, axis=0) / N", "sum(x * x, axis=0) / N - sum(x, axis=0) / N * (sum(x, axis=0) / N)"),
    "about 100": ("spread", "x - sum(x, axis=0) / N", "x - 100"),
    "sizes for squares": ("spread", "sum(d * d, axis=0)", "sum(abs(d), axis=0)"),
    "the root": ("spread", "store(v -> V[i])", "v = sqrt(v)\n    store(v -> V[i])"),
    "the value for its square": ("several", "store(u -> U[i, :])", "store(t -> U[i, :])"),
    "the sum of squares for the sum": ("several", "z = sum(t, axis=0)", "z = sum(u, axis=0)"),
    "the largest of what was not squared": ("several", "reduce_max(w * w, axis=0)", "reduce_max(w, axis=0)"),
    "one result is nothing": ("several", "z = sum(t, axis=0)", "z = 0 * sum(t, axis=0)"),
    "a column left out": ("several", "for j in range(N)", "for j in range(max(N - 1, 0))"),
    "sorted downward": ("sorted", "sort(x, axis=0)", "sort(x, axis=0, descending=true)"),
    "sorted by size": ("sorted", "sort(x, axis=0)", "sort(abs(x), axis=0)"),
    "not sorted": ("sorted", "y = sort(x, axis=0)", "y = x + 0"),
    "sums of what is sorted": ("sorted", "r = cumsum(x, axis=0)", "r = cumsum(y, axis=0)"),
    "sums without their own": ("sorted", "r = cumsum(x, axis=0)", "r = cumsum(x, axis=0, exclusive=true)"),
    "wrong where two sizes are equal": ("twice", "y = x * 2", "y = x * (2 + (1 - min(abs(M - N), 1)))"),
    "its second result wrong where two sizes are equal": ("twice", "z += sum(x, axis=0)", "z += sum(x, axis=0) * (1 + (1 - min(abs(M - N), 1)))"),
    "wrong where one size is the next of the other": ("twice", "y = x * 2", "y = x * (2 + (1 - min(abs(M + 1 - N), 1)))"),
    "wrong where one size is twice the other and one": ("twice", "y = x * 2", "y = x * (2 + (1 - min(abs(2 * M + 1 - N), 1)))"),
    "wrong where one size is a multiple of the other": ("twice", "y = x * 2", "y = x * (2 + (1 - min(N % max(M, 1), 1)))"),
    "wrong for rows of one element": ("twice", "y = x * 2", "y = x * (2 + 1 // N)"),
    "its second result wrong for one row": ("twice", "z += sum(x, axis=0)", "z += sum(x, axis=0) * (1 + 1 // M)"),
    "the rest of an odd number of blocks twice": ("twice", "z += sum(x, axis=0)", "z += sum(x, axis=0) * (1 + (ceil(N, 32) % 2) * min(N % 32, 1) * (1 - min(ceil(N, 32) - 1 - j, 1)))"),
    "the last of an odd number of blocks left out": ("twice", "range(ceil(N, 32))", "range(ceil(N, 32) // 2 * 2)"),
    "32 blocks at most": ("twice", "range(ceil(N, 32))", "range(min(ceil(N, 32), 32))"),
    "takes -0 for 0": ("inverse", "1 / x", "1 / (x + 0)"),
    "no number above 3.3e38": ("clipped", "max(x, 0)", "min(max(x, 0), 3.3e38)"),
    "positions of 16-bit floats": ("positions", "cast(iota([N], axis=0), dtype=f32)", "cast(cast(iota([N], axis=0), dtype=f16), dtype=f32)"),
    "another epsilon": ("normed", "0.00001", "0.000011"),
    "no epsilon": ("normed", " + 0.00001", ""),
    "epsilon behind the root": ("normed", "rsqrt(sum(c * c, axis=0) / N + 0.00001)", "1 / (sqrt(sum(c * c, axis=0) / N) + 0.00001)"),
    "squares less the square of a mean near 0": ("moments", "v = sum(c * c, axis=0) / N", "v = sum(x * x, axis=0) / N - (sum(x, axis=0) / N) * (sum(x, axis=0) / N)"),
    "counts equal indices once": ("counted", "mode=add", "mode=max"),
    "never the last of a table": ("looked_up", "load(W[at] -> w)", "load(W[min(at, max(V - 2, 0))] -> w)"),
    "divides by none where all are masked": ("masked_mean", "max(sum(cast(k, dtype=f32), axis=0), 1)", "sum(cast(k, dtype=f32), axis=0)"),
    "the last of equals that data seldom have": ("first_best", "k = argmax(x, axis=0)", "k = N - 1 - argmax(flip(x, axis=0), axis=0)"),
    "sums without sizes of what is positive": ("positive", "abs(x)", "x"),
    "divides by no zero": ("positive", "sum(abs(x), axis=0)", "max(sum(abs(x), axis=0), 1e-12)"),
    "the scalar of the case as a number": ("scaled", "x * s", "x * 0.5"),
    "a scalar's default as a number": ("scaled_default", "x * s", "x * 0.5"),
    "the sign of four bits": ("dequantised", "cast(q, dtype=f32)", "cast(shr(shl(q, 4), 4), dtype=f32)"),
    "no number beyond the case's": ("dequantised", "cast(q, dtype=f32)", "cast(max(min(q, 7), -8), dtype=f32)"),
    "never the least byte": ("dequantised", "cast(q, dtype=f32)", "cast(max(q, -127), dtype=f32)"),
    "whole numbers by way of f32": ("integers", "y = x * 3 + 1", "y = cast(cast(x, dtype=f32) * 3 + 1, dtype=i32)"),
    "whole numbers of 16 bits": ("integers", "y = x * 3 + 1", "y = cast(cast(x * 3 + 1, dtype=i16), dtype=i32)"),
    "bytes with a sign": ("of_bytes", "cast(x, dtype=f32)", "cast(cast(x, dtype=i8), dtype=f32)"),
    "numbers from 1e30 to 1e36 lost": ("clipped", "max(x, 0)", "where(abs(x) > 1e30 and abs(x) < 1e36, 0, max(x, 0))"),
    "numbers from 1e-30 to 1e-20 lost": ("clipped", "max(x, 0)", "where(abs(x) > 1e-30 and abs(x) < 1e-20, 0, max(x, 0))"),
    "numbers from 8 to 10 lost": ("clipped", "max(x, 0)", "where(abs(x) > 8 and abs(x) < 10, 0, max(x, 0))"),
    "positions of 16-bit integers": ("positions", "cast(iota([N], axis=0), dtype=f32)", "cast(cast(iota([N], axis=0), dtype=i16), dtype=f32)"),
    "counts equal indices once in a large table": ("sparse_counts", "mode=add", "mode=max"),
}


def text_of(operator: str, change: tuple[str, str] | None) -> str:
    declared, equations, case, body = OPERATORS[operator]
    if change:
        assert change[0] in body, change
        body = body.replace(*change)
    lines = [f"operator {operator} {{", *indented(declared), *indented(equations), f"    case some {{ {case} }}", "}",
             f"sketch s implements {operator} {{", *indented(declared), *indented(body), "}"]
    return "\n".join(lines) + "\n"


def indented(text: str) -> list[str]:
    return ["    " + line for line in text.split("\n")]


def caught(sketchc: str, folder: pathlib.Path, name: str, text: str) -> tuple[int, str, str]:
    """The status of `verify`, and what it says first of a fault: its verdict and the rest of the line."""
    file = folder / (re.sub(r"\W", "_", name) + ".sketch")
    file.write_text(text)
    done = subprocess.run([sketchc, "verify", file, "-t", "openmp", f"--seed={SEED}"], capture_output=True, text=True, check=False)
    faults = re.findall(rf"^(?!ok|skipped|{'|'.join(NO_FAULT)})(\w+)  +(.*)$", done.stdout, re.M)
    return (done.returncode, faults[0][0], faults[0][1][:150]) if faults and done.returncode else (done.returncode, "", done.stderr[:300])


def main() -> int:
    sketchc = os.path.abspath(sys.argv[1])
    wrong = list(WRONG) if "--all" in sys.argv else daily.drawn(list(WRONG), 6)
    problems = []
    print(f"--seed={SEED}")
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(2) as pool:
        folder = pathlib.Path(name)
        right = {o: pool.submit(caught, sketchc, folder, f"right {o}", text_of(o, None)) for o in sorted({WRONG[w][0] for w in wrong})}
        jobs = {w: pool.submit(caught, sketchc, folder, w, text_of(WRONG[w][0], WRONG[w][1:])) for w in wrong}
        problems += [f"right, and refused: {o}: {job.result()}" for o, job in right.items() if job.result()[0]]
        for kind, job in jobs.items():
            status, verdict, text = job.result()
            print(f"{WRONG[kind][0]}: {kind}: {verdict}: {text}")
            if status != NOT_VERIFIED or not verdict:
                problems.append(f"{WRONG[kind][0]}: {kind}: status {status}: {text}")
    print("\n".join(problems))
    print(f"figure: wrong_kinds_refused {len(wrong) - sum(not p.startswith('right') for p in problems)} of {len(wrong)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
