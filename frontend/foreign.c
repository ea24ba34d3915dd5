/* What people write out of habit of other languages, and what stands for it here. */
#include "frontend_internal.h"

#include <string.h>

typedef struct {
    const char *theirs, *ours;
} Habit;

static const char *look_up(const Habit *habits, size_t count, const char *text, size_t size) {
    for (size_t i = 0; i < count; i++)
        if (strlen(habits[i].theirs) == size && memcmp(habits[i].theirs, text, size) == 0) return habits[i].ours;
    return NULL;
}

const char *foreign_statement(const char *word, size_t size) {
    static const Habit STATEMENTS[] = {
        {"return", "a sketch returns nothing: its results are stored, `store(y -> Y[...])`"},
        {"while", "loops are `for i in range(n):`, whose number of iterations is known when they begin"},
        {"break", "a loop runs to its end: make its range shorter, or put what is left out under an `if`"},
        {"continue", "there is no `continue`: put what follows under an `if`"},
        {"pass", "a block that does nothing is left out"},
        {"def", "there are no functions: a file holds operators and sketches"},
        {"import", "there are no modules: all operations are known by their names"},
        {"from", "there are no modules: all operations are known by their names"},
        {"with", "a tile lives to the end of its block; there is no `with`"},
    };
    return look_up(STATEMENTS, COUNT_OF(STATEMENTS), word, size);
}

static const Habit OPERATIONS[] = {
    {"einsum", "index notation says it in an operator: C[i, j] = sum(k, A[i, k] * B[k, j])"},
    {"tensordot", "index notation says it in an operator: C[i, j] = sum((k, l), A[i, k, l] * B[k, l, j])"},
    {"vmap", "leading axes go along by themselves, and index notation names each: C[b, i] = ..."},
    {"mm", "a product of matrices is `A @ B` or matmul(a, b)"},
    {"bmm", "a product of matrices is `A @ B` or matmul(a, b); leading axes go along"},
    {"linear", "a product of matrices is `X @ W`, or matmul(x, w, trans_b=true); a bias is added to it"},
    {"outer", "index notation says it in an operator: C[i, j] = A[i] * B[j]"},
    {"full", "a number stands for itself and goes with every shape; a tile filled with one is alloc([M, N], init=0)"},
    {"full_like", "a number stands for itself and goes with every shape; a tile filled with one is alloc([M, N], init=0)"},
    {"zeros", "a number stands for itself and goes with every shape; a tile filled with one is alloc([M, N], init=0)"},
    {"zeros_like", "a number stands for itself and goes with every shape; a tile filled with one is alloc([M, N], init=0)"},
    {"ones", "a number stands for itself and goes with every shape; a tile filled with one is alloc([M, N], init=1)"},
    {"ones_like", "a number stands for itself and goes with every shape; a tile filled with one is alloc([M, N], init=1)"},
    {"empty", "a tile without values is alloc([M, N])"},
    {"scan", "scans are cumsum, cumprod, cummax and linear_scan(a, b), which is h[t] = a[t] * h[t - 1] + b[t]"},
    {"associative_scan", "scans are cumsum, cumprod, cummax and linear_scan(a, b), which is h[t] = a[t] * h[t - 1] + b[t]"},
    {"arange", "whole numbers along an axis are iota([N], axis=0)"},
    {"one_hot", "it is a comparison with iota([M, N], axis=1)"},
    {"eye", "it is a comparison of iota([N, N], axis=0) with iota([N, N], axis=1)"},
    {"tril", "it is where(iota([N, N], axis=1) <= iota([N, N], axis=0), x, 0)"},
    {"triu", "it is where(iota([N, N], axis=1) >= iota([N, N], axis=0), x, 0)"},
    {"gather", "an index reads elements: Y[i] = X[IDX[i]]"},
    {"take", "an index reads elements: Y[i] = X[IDX[i]]"},
    {"index_select", "an index reads elements: Y[i, j] = X[IDX[i], j]"},
    {"embedding", "an index reads rows: Y[i, j] = TABLE[IDX[i], j]"},
    {"roll", "parts change places by concat(X[1:N], X[0:1], axis=0)"},
    {"diag", "an index says it in an operator: Y[i] = X[i, i]"},
    {"diagonal", "an index says it in an operator: Y[i] = X[i, i]"},
    {"conv1d", "index notation says it in an operator: Y[o, x] = sum(c, s in 0:3, X[c, x + s] * W[o, c, s])"},
    {"conv3d", "index notation says it in an operator, as in examples/conv3d.sketch"},
    {"max_pool2d", "index notation says it in an operator: Y[y, x] = max(r in 0:2, s in 0:2, X[2 * y + r, 2 * x + s])"},
    {"avg_pool2d", "index notation says it in an operator: Y[y, x] = mean(r in 0:2, s in 0:2, X[2 * y + r, 2 * x + s])"},
    {"group_norm", "it is written with reshape, mean and var, as in examples/group_norm.sketch"},
    {"batch_norm", "it is written with mean and var, as in examples/batch_norm_train.sketch"},
    {"norm", "it is sqrt(sum(x * x, axis=1))"},
    {"clip", "it is clamp(x, lo, hi)"},
    {"swish", "it is silu(x)"},
    {"relu6", "it is clamp(x, 0, 6)"},
    {"lerp", "it is a + t * (b - a)"},
    {"addmm", "it is c + a @ b"},
    {"isinf", "it is abs(x) == inf"},
    {"isfinite", "it is abs(x) < inf"},
    {"nan_to_num", "it is where(isnan(x), 0, x)"},
    {"cat", "it is concat(a, b, axis=0)"},
    {"view", "it is reshape(x, [M, N])"},
    {"flatten", "it is reshape(x, [M * N])"},
    {"squeeze", "axes of extent 1 go and come by reshape(x, [M, N])"},
    {"unsqueeze", "axes of extent 1 go and come by reshape(x, [M, 1, N])"},
    {"permute", "it is transpose(x, axes=(0, 2, 1))"},
    {"expand", "axes of extent 1 go with every extent by themselves; broadcast(x, [M, N]) repeats them"},
    {"broadcast_to", "axes of extent 1 go with every extent by themselves; broadcast(x, [M, N]) repeats them"},
    {"select", "it is where(condition, a, b)"},
    {"masked_fill", "it is where(condition, value, x)"},
    {"rint", "it is round(x), ties to even"},
    {"to", "it is cast(x, dtype=f16)"},
    {"astype", "it is cast(x, dtype=f16)"},
    {"float", "it is cast(x, dtype=f32)"},
    {"int", "it is cast(x, dtype=i32)"},
    {"len", "the extent of an axis is the symbol that names it"},
    {"rand", "it is random([M, N], seed=1, dtype=f32)"},
};

const char *foreign_operation(const char *name) {
    return look_up(OPERATIONS, COUNT_OF(OPERATIONS), name, strlen(name));
}

const char *foreign_argument(const char *name) {
    static const Habit ARGUMENTS[] = {{"dim", "axis"},    {"dims", "axis"},           {"axes", "axis"},          {"keepdims", "keepdim"},
                                      {"epsilon", "eps"}, {"type", "dtype"},          {"fill", "pad"},           {"fill_value", "pad"},
                                      {"other", "pad"},   {"transpose_a", "trans_a"}, {"transpose_b", "trans_b"}};
    return look_up(ARGUMENTS, COUNT_OF(ARGUMENTS), name, strlen(name));
}

const char *foreign_dtype(const char *name) {
    static const Habit DTYPES[] = {{"float32", "f32"},   {"float", "f32"},   {"float16", "f16"}, {"half", "f16"},
                                   {"bfloat16", "bf16"}, {"float64", "f64"}, {"double", "f64"},  {"int", "i32"},
                                   {"int32", "i32"},     {"int64", "i64"},   {"long", "i64"},    {"int16", "i16"},
                                   {"int8", "i8"},       {"uint8", "u8"},    {"fp16", "f16"},    {"fp32", "f32"}};
    return look_up(DTYPES, COUNT_OF(DTYPES), name, strlen(name));
}
