/* Polynomials of expand_math, highest power first; made by scripts/fit_polynomials.py. */
#ifndef PASSES_NUMERIC_MATH_TABLES_H
#define PASSES_NUMERIC_MATH_TABLES_H

/* (e^r - 1 - r) / r^2; error 2^-23.9. */
static const double math_exp_f32[] = {
    0x1.6d110ap-10, 0x1.120b6ep-7, 0x1.55551ap-5, 0x1.5554dcp-3, 0x1p-1,
};
/* (e^r - 1 - r) / r^2; error 2^-59.3. */
static const double math_exp_f64[] = {
    0x1.1f730349868cep-29,
    0x1.af4de97ca4194p-26,
    0x1.27e4db646b17ep-22,
    0x1.71de0231960ebp-19,
    0x1.a01a01a6d889cp-16,
    0x1.a01a01abe7fe1p-13,
    0x1.6c16c16c162d4p-10,
    0x1.11111111100dcp-7,
    0x1.5555555555556p-5,
    0x1.5555555555557p-3,
    0x1p-1,
};
/* (1 - e^-r - r) / r^2; error 2^-29.4. */
static const double math_shrink_f32[] = {
    0x1.a124f2p-13, -0x1.6d4324p-10, 0x1.1110ep-7, -0x1.5554eap-5, 0x1.555556p-3, -0x1p-1,
};
/* (2^r - 1 - r ln 2) / r^2; error 2^-24.9. */
static const double math_exp2_f32[] = {
    0x1.43e716p-13, 0x1.5ec866p-10, 0x1.3b2a8p-7, 0x1.c6afeep-5, 0x1.ebfbep-3,
};
/* (2^r - 1 - r ln 2) / r^2; error 2^-60.4. */
static const double math_exp2_f64[] = {
    0x1.c48f769ad2c46p-36, 0x1.e9d3fe3952179p-32, 0x1.e4cf1cd08d4b8p-28, 0x1.b524fae627834p-24,
    0x1.62c022401b97dp-20, 0x1.ffcbfc670dcd4p-17, 0x1.430912f86bf52p-13, 0x1.5d87fe78a5276p-10,
    0x1.3b2ab6fba4e78p-7,  0x1.c6b08d704a0c2p-5,  0x1.ebfbdff82c58fp-3,
};
/* (log((1 + s) / (1 - s)) / s - 2) / z, z = s^2; error 2^-22.3. */
static const double math_log_f32[] = {
    0x1.2ee656p-2,
    0x1.997c2ep-2,
    0x1.55555cp-1,
};
/* (log((1 + s) / (1 - s)) / s - 2) / z, z = s^2; error 2^-51.5. */
static const double math_log_f64[] = {
    0x1.2b5900de53b32p-3, 0x1.39fe51a7c18f9p-3, 0x1.7462b51cb66b1p-3, 0x1.c71c62e3f11e6p-3,
    0x1.2492492df281ap-2, 0x1.99999999952d7p-2, 0x1.5555555555558p-1,
};
/* (log((1 + s) / (1 - s)) / s - 2) / z, z = s^2, s to 1/5; error 2^-21.0. */
static const double math_log_ratio_f32[] = {
    0x1.32bf32p-2,
    0x1.996296p-2,
    0x1.555566p-1,
};
/* ((log(1 + f) - f) / f^2 + 1/2) / f; error 2^-25.1. */
static const double math_log_series_f32[] = {
    0x1.5f307cp-5,  -0x1.87a1e2p-4, 0x1.de726ep-4,  -0x1.02daa2p-3, 0x1.2436f8p-3,
    -0x1.5536a6p-3, 0x1.999a56p-3,  -0x1.000026p-2, 0x1.555556p-2,
};
/* (log((1 + s) / (1 - s)) / s - 2 - 2/3 z) / z^2, z = s^2; error 2^-58.9. */
static const double math_log_tail_f64[] = {
    0x1.e02e6fff27908p-4, 0x1.df7cc8e5fa539p-4, 0x1.1118c7e4b0917p-3, 0x1.3b1395d2190c1p-3,
    0x1.745d177a96056p-3, 0x1.c71c71c6eaa1p-3,  0x1.2492492492521p-2, 0x1.999999999999ap-2,
};
/* (sin x / x - 1) / z, z = x^2; error 2^-35.1. */
static const double math_sin_f32[] = {
    0x1.6dbdeep-19,
    -0x1.a013a8p-13,
    0x1.11110ep-7,
    -0x1.555556p-3,
};
/* (sin x / x - 1) / z, z = x^2; error 2^-66.2. */
static const double math_sin_f64[] = {
    -0x1.ab17bdcbd3414p-41, 0x1.61217ee5cca1bp-33, -0x1.ae64541295cdfp-26, 0x1.71de3a54607a5p-19,
    -0x1.a01a01a019937p-13, 0x1.111111111111p-7,   -0x1.5555555555555p-3,
};
/* (cos x - 1 + z / 2) / z^2, z = x^2; error 2^-28.9. */
static const double math_cos_f32[] = {
    0x1.9bd88p-16,
    -0x1.6c12d2p-10,
    0x1.555554p-5,
};
/* (cos x - 1 + z / 2) / z^2, z = x^2; error 2^-59.4. */
static const double math_cos_f64[] = {
    -0x1.907d8f29fe831p-37, 0x1.1eeb68cd22f56p-29,  -0x1.27e4fa17bf139p-22,
    0x1.a01a019f4e9b4p-16,  -0x1.6c16c16c16967p-10, 0x1.5555555555555p-5,
};
/* (atan t / t - 1) / z, z = t^2; error 2^-25.9. */
static const double math_atan_f32[] = {
    -0x1.08432cp-4, 0x1.b80f88p-4, -0x1.24202ep-3, 0x1.99973p-3, -0x1.555554p-2,
};
/* (atan t / t - 1) / z, z = t^2; error 2^-54.8. */
static const double math_atan_f64[] = {
    -0x1.3a2b7a07caea9p-6, 0x1.41603647c7a7cp-5, -0x1.a098bb6ba4941p-5, 0x1.dfe61e80903d2p-5, -0x1.10fa75382537fp-4, 0x1.3b1262d95579ep-4,
    -0x1.745d0b26b83e7p-4, 0x1.c71c7185314cbp-4, -0x1.24924924360cbp-3, 0x1.999999999934ap-3, -0x1.5555555555555p-2,
};
/* (sinh x / x - 1) / z, z = x^2; error 2^-32.2. */
static const double math_sinh_f32[] = {
    0x1.78a70ep-19,
    0x1.a009p-13,
    0x1.11111ep-7,
    0x1.555556p-3,
};
/* (sinh x / x - 1) / z, z = x^2; error 2^-61.3. */
static const double math_sinh_f64[] = {
    0x1.b41232cf9950fp-41, 0x1.611cb330c1fe8p-33, 0x1.ae6460fae3728p-26, 0x1.71de3a4e14f4p-19,
    0x1.a01a01a01ee7p-13,  0x1.11111111110fdp-7,  0x1.5555555555555p-3,
};
/* erf x / x - 1, z = x^2; error 2^-62.7. */
static const double math_erf_f64[] = {
    0x1.05ffd737fb32ep-34,  -0x1.389d4f2641625p-30, 0x1.f7b4bf3b13964p-27,  -0x1.5f1ecb6f0764cp-23, 0x1.b9df224ca4b97p-20,
    -0x1.f4d1e3183f7aep-17, 0x1.f9a321d5b8e1ep-14,  -0x1.c02db3dac435fp-11, 0x1.565bcd0dbaa38p-8,   -0x1.b82ce31284ep-6,
    0x1.ce2f21a042b3p-4,    -0x1.812746b0379e6p-2,  0x1.06eba8214db69p-3,
};
/* -log(erfc x) - x^2 from 1 on; the error is erf's; error 2^-56.9. */
static const double math_erfc_f64[] = {
    0x1.5522d5d7d90c5p-38,  -0x1.baced5d62fc63p-33, 0x1.0a7fd141d120ap-28,  -0x1.8970f863657c3p-25, 0x1.8bc3ba9093c17p-22,
    -0x1.1b1f886c21668p-19, 0x1.1f1cc484df044p-17,  -0x1.78dadfb48060cp-16, 0x1.4498c44e2349ep-16,  0x1.1f18b4f7d788cp-13,
    -0x1.9592dae184a46p-11, 0x1.f7349a77cd75p-10,   -0x1.b23c3bd6cdb51p-12, -0x1.3717eac14f8b9p-6,  0x1.a4aaf085e901bp-4,
    -0x1.74138fd6d09c4p-2,  0x1.20dd1ded63a3fp+0,   0x1.145f23f84226fp-21,
};
/* -log(erfc x) / x - 1; the error is erf's; error 2^-26.8. */
static const double math_erf_exponent_f32[] = {
    -0x1.3c279ep-17, 0x1.f4150ep-14, -0x1.4ef9ep-11, 0x1.b8205ap-10, -0x1.6b005ep-13,
    -0x1.39afcap-6,  0x1.a4f86p-4,   0x1.45f3p-1,    0x1.06eba8p-3,
};
/* 2^r for narrow results; relative; error 2^-13.7. */
static const double math_power_short_f32[] = {
    0x1.c3f76p-5,
    0x1.f0de1ap-3,
    0x1.62f31ap-1,
    0x1.fff692p-1,
};
/* 2^r for narrow results; relative; error 2^-18.6. */
static const double math_power_long_f32[] = {
    0x1.3997d6p-7, 0x1.ca144p-5, 0x1.ec06dap-3, 0x1.62e0dcp-1, 0x1.ffffe8p-1,
};
/* erf x / x - 1 below 1.1, z = x^2; the error is erf's; error 2^-29.3. */
static const double math_erf_near_f32[] = {
    -0x1.18a85p-17, 0x1.c194dcp-14, -0x1.b7f3a6p-11, 0x1.55a48ep-8, -0x1.b81abp-6, 0x1.ce2e36p-4, -0x1.812742p-2, 0x1.06eba8p-3,
};
/* log2(erfc(1 + t)) from 1 + t = 1.1 on; the error is erf's; error 2^-25.7. */
static const double math_erfc_far_f32[] = {
    -0x1.8eab56p-10, 0x1.9b90e8p-7, -0x1.e08026p-5, -0x1.377edap+0, -0x1.e7510ap+1, -0x1.558ecap+1,
};
/* (tanh x / x - 1) / z below 0.8, z = x^2; the error is tanh's; error 2^-23.2. */
static const double math_tanh_near_f32[] = {
    -0x1.22f75cp-8, 0x1.3b1ca8p-6, -0x1.b3c95cp-5, 0x1.10db8cp-3, -0x1.55542ap-2,
};
/* log2(erfc x) / x for narrow results; the error is erfc's, relative where it is above 2^-6.75; error 2^-16.1. */
static const double math_erfc_short_f32[] = {
    -0x1.4cb89p-9, 0x1.c5e7f4p-6, -0x1.2a6752p-3, -0x1.d73266p-1, -0x1.a0a77cp+0,
};
/* 2 / pi: words of 32 bits after the binary point. */
static const uint32_t math_two_over_pi[] = {
    0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB, 0xDEBBC561, 0xB7246E3A, 0x424DD2E0, 0x06492EEA,
    0x09D1921C, 0xFE1DEB1C, 0xB129A73E, 0xE88235F5, 0x2EBB4484, 0xE99C7026, 0xB45F7E41, 0x3991D639, 0x835339F4, 0x9C845F8B, 0xBDF9283B,
    0x1FF897FF, 0xDE05980F, 0xEF2F118B, 0x5A0A6D1F, 0x6D367ECF, 0x27CB09B7, 0x4F463F66, 0x9E5FEA2D, 0x7527BAC7, 0xEBE5F17B, 0x3D0739F7,
    0x8A5292EA, 0x6BFB5FB1, 0x1F8D5D08, 0x56033046, 0xFC7B6BAB, 0xF0CFBC20, 0x9AF4361D, 0xA9E39161,
};

#endif
