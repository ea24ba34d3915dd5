#!/usr/bin/env python3
"""Computes the polynomials of passes/expand_math.c and prints passes/math_tables.h.

    fit_polynomials.py > passes/math_tables.h

Needs mpmath. Each is the near-minimax polynomial (Chebyshev) of a smooth function on the interval
that the argument reduction leaves; erfc's exponent is fitted by least squares, weighted by what its
error means for erf. Coefficients are rounded to the type that evaluates them."""
import re
import struct

from mpmath import (atan, atanh, chebyfit, cos, erf, erfc, exp, log, matrix, mp, mpf, nstr, pi,
                    polyval, qr_solve, sin, sinh, sqrt)

mp.prec = 240
TINY = mpf(10) ** -20


def from_zero(f, limit):
    """f with its limit at 0, where the formula is 0 / 0."""
    return lambda x: f(x) if abs(x) > TINY else limit


def root(f):
    """f(sqrt z) / sqrt z: an odd function as one of the square."""
    return lambda z: f(sqrt(z)) / sqrt(z)


def half_log2():
    return log(2) / 2


LOG_Z = ((sqrt(mpf(2)) - 1) / (sqrt(mpf(2)) + 1)) ** 2 * mpf("1.0001")
TRIG_Z = (pi / 4) ** 2 * mpf("1.0001")
ATAN_Z = (sqrt(mpf(2)) - 1) ** 2 * mpf("1.0001")
ln2 = log(mpf(2))

# name: (what it approximates, function, from, to, coefficients f32, f64)
ROWS = {
    "exp": ("(e^r - 1 - r) / r^2", from_zero(lambda r: (exp(r) - 1 - r) / r**2, mpf(1) / 2),
            -half_log2() * mpf("1.0001"), half_log2() * mpf("1.0001"), 5, 11),
    "exp2": ("(2^r - 1 - r ln 2) / r^2",
             from_zero(lambda r: (exp(r * ln2) - 1 - r * ln2) / r**2, ln2**2 / 2),
             mpf("-0.5"), mpf("0.5"), 5, 11),
    "log": ("(log((1 + s) / (1 - s)) / s - 2) / z, z = s^2",
            from_zero(lambda z: (root(lambda s: 2 * atanh(s))(z) - 2) / z, mpf(2) / 3),
            mpf(0), LOG_Z, 3, 7),
    "log_series": ("((log(1 + f) - f) / f^2 + 1/2) / f",
                   from_zero(lambda f: ((log(1 + f) - f) / f**2 + mpf(1) / 2) / f, mpf(1) / 3),
                   mpf("-0.250025"), mpf("0.50005"), 9, 0),
    "log_tail": ("(log((1 + s) / (1 - s)) / s - 2 - 2/3 z) / z^2, z = s^2",
                 from_zero(lambda z: (root(lambda s: 2 * atanh(s))(z) - 2 - 2 * z / 3) / z**2,
                           mpf(2) / 5), mpf(0), LOG_Z, 0, 8),
    "sin": ("(sin x / x - 1) / z, z = x^2", from_zero(lambda z: (root(sin)(z) - 1) / z, -mpf(1) / 6),
            mpf(0), TRIG_Z, 4, 7),
    "cos": ("(cos x - 1 + z / 2) / z^2, z = x^2",
            from_zero(lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2, mpf(1) / 24),
            mpf(0), TRIG_Z, 3, 6),
    "atan": ("(atan t / t - 1) / z, z = t^2",
             from_zero(lambda z: (root(atan)(z) - 1) / z, -mpf(1) / 3), mpf(0), ATAN_Z, 5, 11),
    "sinh": ("(sinh x / x - 1) / z, z = x^2",
             from_zero(lambda z: (root(sinh)(z) - 1) / z, mpf(1) / 6), mpf(0), mpf(1), 4, 7),
    "erf": ("erf x / x - 1, z = x^2", from_zero(lambda z: root(erf)(z) - 1, 2 / sqrt(pi) - 1),
            mpf(0), mpf(1), 7, 13),
}


def weighted(f, weight, low, high, count):
    """Least squares at Chebyshev nodes."""
    nodes = [(low + high) / 2 + (high - low) / 2 * cos(pi * (k + mpf(1) / 2) / 120)
             for k in range(120)]
    a, b = matrix(len(nodes), count), matrix(len(nodes), 1)
    for i, x in enumerate(nodes):
        for j in range(count):
            a[i, j] = weight(x) * x ** (count - 1 - j)
        b[i] = weight(x) * f(x)
    c = list(qr_solve(a, b)[0])
    error = max(abs(weight(x) * (polyval(c, x) - f(x))) for x in
                (low + (high - low) * mpf(k) / 500 for k in range(501)))
    return c, error


def rounded(c, wide):
    return float(c) if wide else struct.unpack("f", struct.pack("f", float(c)))[0]


def table(name, suffix, what, coefficients, error, wide):
    print(f"/* {what}; error 2^{nstr(log(error, 2), 3)}. */")
    print(f"static const double math_{name}_{suffix}[] = {{")
    items = [re.sub(r"\.?0+p", "p", rounded(c, wide).hex()) for c in coefficients]
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > 98:
            print(line)
            line = "   "
        line += f" {item},"
    print(line + "\n};")


def erfc_exponent(x):
    return -log(erfc(x)) - x * x


print("/* Polynomials of expand_math, highest power first; made by scripts/fit_polynomials.py. */")
print("#ifndef PASSES_MATH_TABLES_H\n#define PASSES_MATH_TABLES_H\n")
for name, (what, f, low, high, narrow, wide) in ROWS.items():
    for suffix, count in (("f32", narrow), ("f64", wide)):
        if not count:
            continue
        c, error = chebyfit(f, [low, high], count, error=True)
        table(name, suffix, what, c, error, suffix == "f64")
for suffix, high, count in (("f32", 4, 7), ("f64", 6, 18)):
    c, error = weighted(erfc_exponent, lambda x: erfc(x) / erf(x), mpf(1), mpf(high), count)
    table("erfc", suffix, "-log(erfc x) - x^2 from 1 on; the error is erf's", c, error,
          suffix == "f64")

# 2 / pi in words of 32 bits, after as many zero words as the smallest argument needs.
mp.prec = 1500
bits = int(mp.floor(2 / mp.pi * mpf(2) ** 1312))
words = [bits >> (1312 - 32 * (k + 1)) & 0xFFFFFFFF for k in range(41)]
print("/* 2 / pi: words of 32 bits after the binary point. */")
print("static const uint32_t math_two_over_pi[] = {")
for k in range(0, len(words), 6):
    print("    " + " ".join(f"0x{w:08X}," for w in words[k:k + 6]))
print("};\n\n#endif")
