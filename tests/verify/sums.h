/* Orders and precisions in which a kernel may form a sum of products, honest and not. */
#ifndef TESTS_VERIFY_SUMS_H
#define TESTS_VERIFY_SUMS_H

/* n terms a[i * sa] * b[i * sb]; both zero-stride pointers to 1 make a plain sum. */
typedef float (*SumKind)(const float *a, long sa, const float *b, long sb, long n);

typedef struct {
    const char *name;
    SumKind sum;
    long max_depth; /* faults: rejected up to this depth; beyond it within the operator's promise */
    int counted;    /* faults: takes part in the figure of the mildest */
} SumInfo;

extern const SumInfo sums_honest[];
extern const int sums_honest_count;
extern const SumInfo sums_faulty[]; /* narrow accumulators, for products in f32 */
extern const int sums_faulty_count;
extern const SumInfo sums_tensor_core[]; /* honest for 16-bit operands only */
extern const int sums_tensor_core_count;
float sum_without_last_stage(const float *a, long sa, const float *b, long sb, long n);
float sum_in_order(const float *a, long sa, const float *b, long sb, long n);

#endif
