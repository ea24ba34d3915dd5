#!/usr/bin/env python3
"""Computes the polynomials of passes/numeric/expand_math.c and prints passes/numeric/math_tables.h.

    fit_polynomials.py > passes/numeric/math_tables.h

Needs mpmath. Each is the near-minimax polynomial (Chebyshev) of a smooth function on the interval
that the argument reduction leaves; erfc's exponents are fitted by least squares, weighted by what their
error means for erf, the one of f32 with its coefficients rounded one by one, lowest powers first. Coefficients are rounded to the type that evaluates them."""
import math
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
RATIO_Z = mpf("0.04") * mpf("1.0001")  # of numbers 3/2 apart at most
TRIG_Z = (pi / 4) ** 2 * mpf("1.0001")
ATAN_Z = (sqrt(mpf(2)) - 1) ** 2 * mpf("1.0001")
ln2 = log(mpf(2))

# name: (what it approximates, function, from, to, coefficients f32, f64)
ROWS = {
    "exp": ("(e^r - 1 - r) / r^2", from_zero(lambda r: (exp(r) - 1 - r) / r**2, mpf(1) / 2),
            -half_log2() * mpf("1.0001"), half_log2() * mpf("1.0001"), 5, 11),
    "shrink": ("(1 - e^-r - r) / r^2", from_zero(lambda r: (1 - exp(-r) - r) / r**2, -mpf(1) / 2),
               -half_log2() * mpf("1.0001"), half_log2() * mpf("1.0001"), 6, 0),
    "exp2": ("(2^r - 1 - r ln 2) / r^2",
             from_zero(lambda r: (exp(r * ln2) - 1 - r * ln2) / r**2, ln2**2 / 2),
             mpf("-0.5"), mpf("0.5"), 5, 11),
    "log": ("(log((1 + s) / (1 - s)) / s - 2) / z, z = s^2",
            from_zero(lambda z: (root(lambda s: 2 * atanh(s))(z) - 2) / z, mpf(2) / 3),
            mpf(0), LOG_Z, 3, 7),
    "log_ratio": ("(log((1 + s) / (1 - s)) / s - 2) / z, z = s^2, s to 1/5",
                  from_zero(lambda z: (root(lambda s: 2 * atanh(s))(z) - 2) / z, mpf(2) / 3),
                  mpf(0), RATIO_Z, 3, 0),
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
            mpf(0), mpf(1), 0, 13),
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


def slope(x):
    return -log(erfc(x)) / x - 1 if x > TINY else 2 / sqrt(pi) - 1


def ulps_of_erf(x):
    """What an error of slope(x) means for erf, in its ulps. Just below erf = 1/4, where the exponent is above 1/4
    and rounds coarsest, an ulp counts four times."""
    if x < TINY:
        return mpf(1)
    boost = 4 if mpf("0.19") < x < mpf("0.2297") else 1
    return boost * erfc(x) * x / mpf(2) ** mp.floor(log(erf(x), 2))


def rounded_in_turn(f, weight, high, count, points=260):
    """Least squares, weighted again by the error left (Lawson), a coefficient of f32 fixed in each turn."""
    nodes = [high / 2 + high / 2 * cos(pi * (k + mpf(1) / 2) / points) for k in range(points)]
    weights, fixed, error = [weight(x) for x in nodes], [], None
    for turn in range(count):
        want = [f(x) - sum(c * x**i for i, c in enumerate(fixed)) for x in nodes]
        lawson = [mpf(1)] * points
        for _ in range(8):
            a, b = matrix(points, count - turn), matrix(points, 1)
            for i, x in enumerate(nodes):
                w = weights[i] * sqrt(lawson[i])
                for j in range(count - turn):
                    a[i, j] = w * x ** (turn + j)
                b[i] = w * want[i]
            c = list(qr_solve(a, b)[0])
            off = [abs(weights[i] * (sum(c[j] * x ** (turn + j) for j in range(count - turn)) - want[i]))
                   for i, x in enumerate(nodes)]
            error = max(off)
            lawson = [v * (e / error + mpf("0.02")) for v, e in zip(lawson, off)]
            largest = max(lawson)
            lawson = [v / largest for v in lawson]
        fixed.append(mpf(rounded(c[0], False)))
    return fixed[::-1], error


def solved(rows):
    """The solution of linear equations [coefficients..., right side], by elimination with pivots."""
    n = len(rows)
    for i in range(n):
        best = max(range(i, n), key=lambda k: abs(rows[k][i]))
        rows[i], rows[best] = rows[best], rows[i]
        for k in range(i + 1, n):
            factor = rows[k][i] / rows[i][i]
            rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i])]
    x = [0.0] * n
    for i in reversed(range(n)):
        x[i] = (rows[i][n] - sum(rows[i][j] * x[j] for j in range(i + 1, n))) / rows[i][i]
    return x


def exchange(f, weight, low, high, count, fixed=()):
    """Remez' exchange for a weighted error, in double: for errors far above its rounding. Highest power first, without `fixed`,
    the coefficients of the lowest powers, lowest first."""
    first = len(fixed)
    nodes = [(low + high) / 2 - (high - low) / 2 * math.cos(math.pi * i / count) for i in range(count + 1)]
    grid = [low + (high - low) * k / 4000 for k in range(4001)]

    def off(c, x):
        return weight(x) * (sum(a * x**j for j, a in enumerate([*fixed, *c])) - f(x))

    for _ in range(12):
        c = solved([[x ** (first + j) for j in range(count)] + [(-1) ** i / weight(x), -off([], x) / weight(x)] for i, x in enumerate(nodes)])[:-1]
        errors = [(off(c, x), x) for x in grid]
        peaks = []
        for e in errors:
            if peaks and (peaks[-1][0] > 0) == (e[0] > 0):
                peaks[-1] = max(peaks[-1], e, key=lambda p: abs(p[0]))
            else:
                peaks.append(e)
        while len(peaks) > count + 1:
            peaks.pop(0 if abs(peaks[0][0]) < abs(peaks[-1][0]) else -1)
        nodes = [x for _, x in peaks]
    return c[::-1], max(abs(e) for e, _ in errors)


def exchange_in_turn(f, weight, low, high, count):
    """exchange with one coefficient, of f32, fixed in each turn. Highest power first, with the error in units of 1 / weight."""
    fixed, error = [], None
    while len(fixed) < count:
        c, error = exchange(f, weight, low, high, count - len(fixed), fixed)
        fixed.append(rounded(c[-1], False))
    return fixed[::-1], error


print("/* Polynomials of expand_math, highest power first; made by scripts/fit_polynomials.py. */")
print("#ifndef PASSES_MATH_TABLES_H\n#define PASSES_MATH_TABLES_H\n")
for name, (what, f, low, high, narrow, wide) in ROWS.items():
    for suffix, count in (("f32", narrow), ("f64", wide)):
        if not count:
            continue
        c, error = chebyfit(f, [low, high], count, error=True)
        table(name, suffix, what, c, error, suffix == "f64")
c, error = weighted(erfc_exponent, lambda x: erfc(x) / erf(x), mpf(1), mpf(6), 18)
table("erfc", "f64", "-log(erfc x) - x^2 from 1 on; the error is erf's", c, error, True)
c, error = rounded_in_turn(slope, ulps_of_erf, mpf(4), 9)
table("erf_exponent", "f32", "-log(erfc x) / x - 1; the error is erf's", c, error, False)
for name, count in (("power_short", 4), ("power_long", 5)):
    c, error = exchange(lambda r: 2.0**r, lambda r: 2.0**-r, -0.5, 0.5, count)
    table(name, "f32", "2^r for narrow results; relative", c, error, False)
ERF_SWITCH = 1.1  # of |x|: erfc is small enough from here on for a power of two that is approximate
c, error = exchange_in_turn(lambda z: math.erf(math.sqrt(z)) / math.sqrt(z) - 1 if z > 1e-6 else 2 / math.sqrt(math.pi) * (1 - z / 3 + z * z / 10) - 1,
                            lambda z: math.sqrt(max(z, 1e-12)) * 2.0 ** -math.floor(math.log2(math.erf(math.sqrt(max(z, 1e-12))))), 0.0, ERF_SWITCH**2, 8)
table("erf_near", "f32", "erf x / x - 1 below 1.1, z = x^2; the error is erf's", c, error, False)
c, error = exchange_in_turn(lambda t: math.log2(math.erfc(1 + t)), lambda t: 2 * math.log(2) * math.erfc(1 + t), ERF_SWITCH - 1, 3.2, 6)
table("erfc_far", "f32", "log2(erfc(1 + t)) from 1 + t = 1.1 on; the error is erf's", c, error, False)
TANH_SWITCH = 0.8  # of |x|: from here on a power of two and a reciprocal that are approximate
c, error = exchange_in_turn(lambda z: (math.tanh(math.sqrt(z)) / math.sqrt(z) - 1) / z if z > 0.01 else -1 / 3 + z * (2 / 15 - z * (17 / 315 - z * (62 / 2835 - z * 1382 / 155925))),
                            lambda z: max(z, 1e-6)**1.5 * 2.0 ** -math.floor(math.log2(math.tanh(math.sqrt(max(z, 1e-6))))), 0.0, TANH_SWITCH**2, 5)
table("tanh_near", "f32", "(tanh x / x - 1) / z below 0.8, z = x^2; the error is tanh's", c, error, False)
LEAST_ERFC = 22.75  # 1 + erf(x) is not asked for more bits behind the point
c, error = exchange(lambda x: -math.log2(math.erfc(x)) / x,
                    lambda x: math.log(2) * x * min(1, math.erfc(x) * 2 ** (LEAST_ERFC - 16)), 0.001, 4.2, 5)
table("erfc_short", "f32", "log2(erfc x) / x for narrow results; the error is erfc's, relative where it is above 2^-6.75", [-k for k in c], error, False)

# 2 / pi in words of 32 bits, after as many zero words as the smallest argument needs.
mp.prec = 1500
bits = int(mp.floor(2 / mp.pi * mpf(2) ** 1312))
words = [bits >> (1312 - 32 * (k + 1)) & 0xFFFFFFFF for k in range(41)]
print("/* 2 / pi: words of 32 bits after the binary point. */")
print("static const uint32_t math_two_over_pi[] = {")
for k in range(0, len(words), 6):
    print("    " + " ".join(f"0x{w:08X}," for w in words[k:k + 6]))
print("};\n\n#endif")
