#!/usr/bin/env python3
"""Rows divided by one value each (passes/numeric/divide_by_reciprocal.c), on the CPU: within 0.5000001 ulps and half the least
denormal of the exact quotient, and what a division gives of zeros, infinities and NaN, for divisors and
dividends of every size.

    quotients.py SKETCHC"""
import math
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
from fractions import Fraction

SKETCH = """operator rows {
    symbols: M, N;
    tensors: X[M, N]: f32; B[M, 1]: f32; Y[M, N]: f32;
    Y = X / B
    case full { M=4, N=64 }
}
sketch by_rows implements rows {
    symbols: M, N;
    tensors: X[M, N]: f32; B[M, 1]: f32; Y[M, N]: f32;
    @llm_hint("parallel", "coreidx")
    for m in range(M):
        x = alloc([1, N], llm_hint=["fast", "input_cache"])
        load(X[m:m+1, :] -> x)
        b = alloc([1, 1], llm_hint=["fast", "input_cache"])
        load(B[m:m+1, :] -> b)
        y = x / b
        store(y -> Y[m:m+1, :])
}
"""
LARGEST = struct.unpack("f", struct.pack("I", 0x7F7FFFFF))[0]
EDGES = [0.0, -0.0, math.inf, -math.inf, math.nan, 2.0**-149, -3 * 2.0**-149, 2.0**-126, 2.0**-127 * 1.5,
         LARGEST, -LARGEST, 1.0, -1.0, 3.0, 1 + 2.0**-23, 2 - 2.0**-23, 2.0**100, 2.0**101, -2.0**-101, 2.0**127,
         1.75 * 2.0**-100, 1.9 * 2.0**99]


def narrow(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def any_float(rng):
    while True:
        x = struct.unpack("f", struct.pack("I", rng.getrandbits(32)))[0]
        if math.isfinite(x):
            return x if rng.random() < 0.5 else math.ldexp(math.frexp(x)[0], rng.randrange(-20, 20))


def save(path, rows):
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    body = struct.pack(f"<{len(rows) * len(rows[0])}f", *(v for row in rows for v in row))
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + body)


def load(path):
    data = path.read_bytes()
    body = data[10 + struct.unpack("<H", data[8:10])[0]:]
    return struct.unpack(f"<{len(body) // 4}f", body)


def wrong(a, b, y):
    """Ulps beyond half a one, or infinity where something else than a division's special value came."""
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or math.isinf(b) or b == 0:
        sign = math.copysign(1, a) * math.copysign(1, b)
        want = math.nan if math.isnan(a) or math.isnan(b) or (a == 0 and b == 0) or (math.isinf(a) and math.isinf(b)) \
            else sign * (0.0 if math.isinf(b) else math.inf)
        same = math.isnan(y) if math.isnan(want) else y == want and math.copysign(1, y) == math.copysign(1, want)
        return 0 if same else math.inf
    if math.copysign(1, y) != math.copysign(1, a) * math.copysign(1, b):
        return math.inf
    exact = Fraction(a) / Fraction(b)
    value = Fraction(2)**128 * (1 if y > 0 else -1) if math.isinf(y) else Fraction(y)
    if abs(exact) >= Fraction(2)**128:
        return 0 if math.isinf(y) else math.inf
    size, exponent = abs(exact), -126
    if size >= Fraction(1, 2**126):
        exponent = size.numerator.bit_length() - size.denominator.bit_length()
        exponent -= size < Fraction(2)**exponent
    off = abs(value - exact) / Fraction(2)**(exponent - 23)
    slack = Fraction(1, 10**7) + Fraction(1, 2**150) / Fraction(2)**(exponent - 23)
    return float(max(0, off - Fraction(1, 2) - slack))


def main():
    sketchc, rng = sys.argv[1], random.Random(1)
    divisors = [narrow(v) for v in EDGES] + [narrow(any_float(rng)) for _ in range(106)]
    dividends = [narrow(v) for v in EDGES] + [narrow(any_float(rng)) for _ in range(234)]
    rows = [dividends[:128] + [narrow(b * rng.randrange(1, 4000)) if abs(b) < 2.0**100 else b for _ in range(64)] + dividends[128:192]
            for b in divisors]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "rows.sketch").write_text(SKETCH)
        save(folder / "x.npy", rows)
        save(folder / "b.npy", [[b] for b in divisors])
        subprocess.run([sketchc, "run", folder / "rows.sketch", "-t", "openmp", f"--in=X={folder}/x.npy",
                        f"--in=B={folder}/b.npy", f"--out=Y={folder}/y.npy", "-q"], check=True)
        y = load(folder / "y.npy")
    worst = max((wrong(a, b, y[m * len(rows[0]) + n]), a, b, y[m * len(rows[0]) + n])
                for m, b in enumerate(divisors) for n, a in enumerate(rows[m]))
    print(f"{len(y)} quotients, at most {worst[0]:.3g} ulps beyond a half and what was allowed: {worst[1:]}")
    return worst[0] > 0


sys.exit(main())
