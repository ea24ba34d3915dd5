#!/usr/bin/env python3
"""Builds the emitted C of arith.c and control.c and holds its results against the language's rules
for numbers: NaN, signed zeros, saturation, wrapping, division by zero, rounding.

    run_openmp.py CC FOLDER [FLAGS...]"""
import ctypes
import itertools
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np

I32, I64, I8 = 2**32, 2**64, 2**8


def wrap(x, m):
    x %= m
    return x - m if x >= m // 2 else x


def floordiv(a, b, m):
    return wrap(a // b, m) if b else 0


def mod(a, b):
    return a % b if b else 0


def is_negative(x):
    return math.copysign(1, x) < 0


def maximum(a, b, number=False):
    if math.isnan(a) or math.isnan(b):
        return (b if math.isnan(a) else a) if number else math.nan
    if a == b:
        return a if not is_negative(a) else b
    return a if a > b else b


def minimum(a, b, number=False):
    if math.isnan(a) or math.isnan(b):
        return (b if math.isnan(a) else a) if number else math.nan
    if a == b:
        return a if is_negative(a) else b
    return a if a < b else b


def to_int(x, bits):
    if math.isnan(x):
        return 0
    lo, hi = -2**(bits - 1), 2**(bits - 1) - 1
    return lo if x <= lo else hi if x >= hi else int(x)


def fma(a, b, c, kind):
    """Rounded once, by exact rationals where all is finite."""
    from fractions import Fraction
    a, b, c = float(a), float(b), float(c)
    if not all(map(math.isfinite, (a, b, c))):
        with np.errstate(all="ignore"):
            return float(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    if kind == np.float64:
        try:
            return float(exact)
        except OverflowError:
            return math.inf if exact > 0 else -math.inf
    return float(round_f32(exact))


def round_f32(exact):
    """A rational to f32, nearest even."""
    from fractions import Fraction
    sign, exact = (-1, -exact) if exact < 0 else (1, exact)
    e = max(-149, exact.numerator.bit_length() - exact.denominator.bit_length() - 25)
    while exact / Fraction(2)**e >= 2**24:
        e += 1
    n = round(exact / Fraction(2)**e)  # half to even
    value = n * Fraction(2)**e
    return sign * (math.inf if value >= Fraction(2)**128 else float(value))


def shl(a, n):
    return wrap(a << n, I32) if 0 <= n < 32 else 0


def shr(a, n):
    return a >> (n if 0 <= n < 32 else 31)


def same(got, want):
    if isinstance(want, float) and math.isnan(want):
        return math.isnan(got)
    return got == want and (not isinstance(want, float) or is_negative(got) == is_negative(want))


def bf16_bits(x):
    bits = struct.unpack("I", struct.pack("f", x))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def bits_f32(u):
    return np.array([u], np.uint32).view(np.float32)[0]


def expect(i, j, a, alpha):
    """The row `i` of every output; `j` is its neighbour."""
    with np.errstate(all="ignore"):
        f = np.float32
        fa, fb = a["F"][i], a["F"][j]
        f4 = minimum(maximum(minimum(maximum(fa, fb), fb), fa, True), fb, True)
        f6 = f(fma(f4, fa, fb, f)) / fb
        f12 = np.sqrt(np.abs(f6)) + np.floor(f6)
        of = (f12 - -np.rint(f6)) * f(alpha)
        da, db = float(a["D"][i]), float(a["D"][j])
        d4 = minimum(maximum(minimum(maximum(da, db), db), da, True), db, True)
        od = fma(d4, da, db, np.float64)
        ia, ib = int(a["I"][i]), int(a["I"][j])
        i3 = wrap(wrap(wrap(ia + ib, I32) * ia, I32) - ib, I32)
        i4, i5 = floordiv(i3, ib, I32), mod(i3, ib)
        i11 = ((shr(shl(max(i4, i5), 5), ib) & ia) | i5) ^ i4
        oi = ~wrap(abs(wrap(-i11, I32)), I32)
        ua, ub = int(a["U"][i]), int(a["U"][j])
        u4 = (floordiv((ua + ub) % I32, ub, 2**40) << 3) % I32
        u6 = (u4 >> ub if ub < 32 else 0) ^ mod(ua, ub)
        ou = (u6 + int(np.array([fa]).view(np.uint32)[0])) % I32
        ol = wrap(int(a["L"][i]) + to_int(float(fa), 64), I64)
        os = wrap(int(a["S"][i]) + to_int(float(fa), 8), I8)
        oh = f(f(a["H"][i:i + 1].view(np.float16)[0]) * fa).astype(np.float16)
        g = bits_f32(int(a["G"][i]) << 16) * fa
        m = bool(a["M"][i])
        om = (not ((m and fa < fb) or ia != ib)) != m
    return dict(OF=float(of), OD=float(od), OI=oi, OU=ou, OL=ol, OS=os, OH=float(oh), OG=float(g), OM=int(om))


def inputs():
    special = [0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 1e-45, -1e-45, 1.17549435e-38, 3.4e38, 65519.9,
               65520.0, 5.96e-8, 2.9e-8, 2147483648.0, -2147483648.0, 9.3e18, 127.5, -128.9, 0.1, 2.5, -3.5, 1e-5]
    rng = np.random.default_rng(7)
    pairs = list(itertools.product(special, special))
    f = np.array([x for p in pairs for x in p] + list(rng.standard_normal(500)), np.float32)
    n = len(f)
    edge = np.array([0, 1, -1, 2, 31, 32, 33, -2**31, 2**31 - 1, 7, -7], np.int64)
    i = rng.choice(edge, n).astype(np.int32)
    return n, dict(
        F=f, D=np.concatenate([f[:n // 2].astype(np.float64) * 1e-30, rng.standard_normal(n - n // 2) * 1e200]), I=i,
        U=rng.choice(np.array([0, 1, 2, 31, 32, 2**32 - 1, 2**31], np.uint64), n).astype(np.uint32),
        L=rng.choice(np.array([0, -1, 2**63 - 1, -2**63], np.int64), n), S=rng.integers(-128, 128, n).astype(np.int8),
        H=rng.integers(0, 65536, n).astype(np.uint16), G=rng.integers(0, 65536, n).astype(np.uint16),
        M=rng.integers(0, 2, n).astype(np.uint8))


def build(cc, flags, source, folder):
    library = folder / (source.stem + ".so")
    subprocess.run([*cc, "-std=c17", "-ffp-contract=off", "-fopenmp", "-shared", "-fPIC", *flags, "-o", library, source,
                    "-lm"], check=True)
    return ctypes.CDLL(str(library))


def pointer(a):
    return ctypes.c_void_p(a.ctypes.data)


def check_arith(lib):
    n, a = inputs()
    out = dict(OF=np.zeros(n, np.float32), OD=np.zeros(n), OI=np.zeros(n, np.int32), OU=np.zeros(n, np.uint32),
               OL=np.zeros(n, np.int64), OS=np.zeros(n, np.int8), OH=np.zeros(n, np.uint16), OG=np.zeros(n, np.uint16),
               OM=np.zeros(n, np.uint8))
    args = [pointer(x) for x in [*a.values(), *out.values()]]
    assert lib.arith(*args, ctypes.c_int64(63), ctypes.c_float(0.5)) == 1, "the constraint N >= 64"
    assert lib.arith(*args, ctypes.c_int64(n), ctypes.c_float(0.5)) == 0
    got = dict(out, OH=out["OH"].view(np.float16))
    for i in range(n):
        want = expect(i, (i + 1) % n, a, 0.5)
        for name, value in want.items():
            x = got[name][i]
            if name == "OG":
                ok = math.isnan(bits_f32(int(x) << 16)) if math.isnan(value) else int(x) == bf16_bits(value)
            else:
                ok = same(float(x) if isinstance(value, float) else int(x), value)
            assert ok, f"{name}[{i}] is {x}, not {value}; F {a['F'][i]} {a['F'][(i + 1) % n]} I {a['I'][i]} {a['I'][(i + 1) % n]}"
    return n


def check_control(lib):
    x = np.arange(1, 9, dtype=np.float32)
    for n in (0, 1, 2, 3, 4, 6, 64):
        y = np.zeros(8, np.float32)
        args = pointer(x), pointer(y), ctypes.c_int64(n), ctypes.c_int64(2 * n + 1)
        assert lib.control(*args) == 0
        a, b, p, q = x[:4], x[4:], np.float32(0), np.float32(1)
        for _ in range(n):
            a, b, p, q = b, a, q, np.float32(p + q)
        r, s = (a, p) if q > 1 else (b, -q)
        want = np.array([(r[k] + s) * (1 if k % 2 else 2) for k in range(4)]) if n % 2 == 0 else x * x
        assert np.array_equal(y[:len(want)], want), (n, y, want)
    assert lib.control(pointer(x), pointer(y), ctypes.c_int64(65), ctypes.c_int64(131)) == 1
    assert lib.control(pointer(x), pointer(y), ctypes.c_int64(4), ctypes.c_int64(8)) == 1, "M is derived"


def main():
    cc, source, *flags = sys.argv[1:]
    folder = pathlib.Path(source)
    with tempfile.TemporaryDirectory() as t:
        n = check_arith(build(cc.split(), flags, folder / "arith.c", pathlib.Path(t)))
        check_control(build(cc.split(), flags, folder / "control.c", pathlib.Path(t)))
    print(f"{n} rows of 9 outputs agree")


if __name__ == "__main__":
    main()
