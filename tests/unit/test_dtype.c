#include "check.h"
#include "dtype.h"

#include <math.h>

static unsigned code_of(Dtype t, double value) {
    uint16_t code = 0;
    dtype_write(t, &code, value);
    return code;
}

static void test_every_code_survives(Dtype t) {
    unsigned count = 1u << dtype_bits(t);
    for (unsigned code = 0; code < count; code++) {
        uint16_t memory = (uint16_t)code;
        double value = dtype_read(t, &memory);
        if (isnan(value)) {
            CHECK(isnan(dtype_round(t, value)));
            continue;
        }
        CHECK(code_of(t, value) == code);
        CHECK(dtype_round(t, value) == value);
    }
}

/* The result is the nearest code: no neighbour is closer, ties go to an even code. */
static void test_nearest(Dtype t) {
    for (unsigned code = 0; code + 1 < 1u << (dtype_bits(t) - 1); code++) {
        uint16_t low = (uint16_t)code, high = (uint16_t)(code + 1);
        double a = dtype_read(t, &low), b = dtype_read(t, &high);
        if (!isfinite(a) || !isfinite(b)) continue;
        double middle = a + (b - a) / 2;
        CHECK(code_of(t, middle) == (code % 2 ? code + 1 : code));
        CHECK(code_of(t, nextafter(middle, 0)) == code);
        CHECK(code_of(t, nextafter(middle, INFINITY)) == code + 1);
    }
}

static void test_overflow(void) {
    CHECK(isinf(dtype_round(DTYPE_F16, 65520.0)) && dtype_round(DTYPE_F16, 65519.0) == 65504.0);
    CHECK(isinf(dtype_round(DTYPE_BF16, 3.4e38 * 10)));
    CHECK(isnan(dtype_round(DTYPE_F8E4M3, INFINITY)) && isnan(dtype_round(DTYPE_F8E4M3, 465)));
    CHECK(dtype_round(DTYPE_F8E4M3, 464) == 448 && dtype_max(DTYPE_F8E5M2) == 57344);
    CHECK(isinf(dtype_round(DTYPE_F32, 1e39)) && isnan(dtype_round(DTYPE_F16, NAN)));
    CHECK(dtype_min_normal(DTYPE_F32) == 0x1p-126 && dtype_unit_roundoff(DTYPE_F32) == 0x1p-24);
    CHECK(dtype_round(DTYPE_F16, 0x1p-24) == 0x1p-24 && dtype_round(DTYPE_F16, 0x1p-25) == 0);
    CHECK(signbit(dtype_round(DTYPE_BF16, -0.0)));
}

static void test_integers(void) {
    CHECK(dtype_round(DTYPE_I8, 1e9) == 127 && dtype_round(DTYPE_I8, -1e9) == -128);
    CHECK(dtype_round(DTYPE_U8, -3) == 0 && dtype_round(DTYPE_I32, NAN) == 0);
    CHECK(dtype_round(DTYPE_I16, -2.9) == -2);
    uint64_t wide = 0;
    dtype_write(DTYPE_U64, &wide, 1e30);
    CHECK(wide == UINT64_MAX && dtype_read(DTYPE_U64, &wide) == 0x1p64);
    dtype_write(DTYPE_I64, &wide, 0x1p63);
    CHECK(wide == INT64_MAX);
    int8_t byte = 0;
    dtype_write_int(DTYPE_I8, &byte, 255);
    CHECK(byte == -1 && dtype_read_int(DTYPE_I8, &byte) == -1 && dtype_read(DTYPE_I8, &byte) == -1);
    uint32_t word = 0;
    dtype_write_int(DTYPE_U32, &word, -1);
    CHECK(dtype_read_int(DTYPE_U32, &word) == 4294967295);
    uint8_t flag = 0;
    dtype_write_int(DTYPE_BOOL, &flag, 256);
    CHECK(flag == 1);
}

static void test_table(void) {
    Dtype t;
    CHECK(dtype_find("f8e4m3", &t) && t == DTYPE_F8E4M3 && !dtype_find("none", &t));
    CHECK(dtype_size(DTYPE_BF16) == 2 && dtype_is_float(DTYPE_BF16) && !dtype_is_int(DTYPE_BOOL));
    CHECK(dtype_is_signed(DTYPE_I8) && !dtype_is_signed(DTYPE_U8) && !dtype_is_float(DTYPE_NONE));
    CHECK_STR(dtype_npy(DTYPE_F32), "<f4");
    CHECK_STR(dtype_cuda_name(DTYPE_F16), "__half");
}

/* A row at once is what its elements are one by one. */
static void test_rows(Dtype t) {
    enum { N = 1000 };
    double values[N];
    unsigned char all[N * 8 + 8], one[8];
    size_t size = dtype_size(t);
    for (int i = 0; i < N; i++) values[i] = i % 97 == 0 ? (i % 2 ? NAN : -INFINITY) : ldexp(1 + i * 0.37, i % 60 - 30) * (i % 3 - 1);
    dtype_write_all(t, all, values, N);
    for (size_t i = 0; i < N; i++) {
        dtype_write(t, one, values[i]);
        CHECK(memcmp(one, all + i * size, size) == 0);
    }
}

int main(void) {
    const Dtype small[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F8E4M3, DTYPE_F8E5M2};
    for (size_t i = 0; i < COUNT_OF(small); i++) {
        test_every_code_survives(small[i]);
        test_nearest(small[i]);
    }
    test_overflow();
    test_integers();
    test_table();
    for (Dtype t = 1; t < DTYPE_COUNT; t++) test_rows(t);
    return 0;
}
