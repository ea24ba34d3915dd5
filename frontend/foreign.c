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

const char *foreign_operation(const char *name) {
    static const Habit OPERATIONS[] = {
        {"einsum", "index notation says it in an operator: C[i, j] = sum(k, A[i, k] * B[k, j])"},
        {"tensordot", "index notation says it in an operator: C[i, j] = sum((k, l), A[i, k, l] * B[k, l, j])"},
        {"vmap", "leading axes go along by themselves, and index notation names each: C[b, i] = ..."},
    };
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
