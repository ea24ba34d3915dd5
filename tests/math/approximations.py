#!/usr/bin/env python3
"""What expand_math makes of functions of which few bits are asked, of every f16 and every bf16 argument, and of log a - log b,
interpreted: for a GPU by the machine's approximations, for a CPU without. The interpreter's instructions are exact; a GPU's are
off by 2^-22 each, which the limits here leave room for.

    approximations.py SKETCH_OPT INTERPRET_TOOL"""
import math
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

ARCHES = ("sm_90a", "x86-64-v3")
FROM_MACHINE = 2.0**-20  # an exponential's square, or a reciprocal's product


def floats(data):
    return struct.unpack(f"<{len(data) // 4}f", data)


def narrow_arguments():
    halves = struct.unpack("<65536e", struct.pack("<65536H", *range(65536)))
    return [*halves, *floats(b"".join(struct.pack("<I", b << 16) for b in range(65536)))]


def interpreted(tools, arch, folder, name, lines, arguments):
    """`lines` make %y of %a (and %b)."""
    names = "AB"[:len(arguments)]
    parameters = [f"tensor %{n}: ptr<f32, global> in" for n in names] + ["tensor %Y: ptr<f32, global> out", "symbol %N: index"]
    text = [f"func @{name} kernel ({', '.join(parameters)}) {{kernel = \"{name}\", num_warps = 1, grid_x = aff(1)}}", "{",
            "    %k0 = const() {value = 0} : index", "    %k1 = const() {value = 1} : index", "    for(%k0, %N, %k1) (%i: index) {"]
    text += [f"        %{n.lower()} = mem.load(%{n}, %i) : f32" for n in names] + [f"        {line}" for line in lines]
    text += ["        mem.store(%y, %Y, %i)", "        yield()", "    }", "    return()", "}"]
    path, low = folder / f"{name}.skir", folder / f"{name}.low.skir"
    path.write_text("sketchc.ir 1\n\n" + "\n".join(text) + "\n")
    low.write_text(subprocess.run([tools[0], f"--arch={arch}", "--passes=expand_math,simplify", path], check=True, capture_output=True,
                                  text=True).stdout)
    count, files = len(arguments[0]), []
    for n, values in zip(names, arguments):
        (folder / n).write_bytes(struct.pack(f"<{count}f", *values))
        files.append(f"{n}={folder / n}")
    (folder / "Y").write_bytes(bytes(4 * count))
    subprocess.run([tools[1], low, f"N={count}", *files, f"Y={folder / 'Y'}"], check=True, capture_output=True)
    assert ("machine" in low.read_text()) == (arch == ARCHES[0]), f"{name} for {arch}: instructions of the other kind"
    return floats((folder / "Y").read_bytes())


def power(base):
    def of(x):
        try:
            return base**x
        except OverflowError:
            return math.inf
    return of


def sigmoid(x):
    e = math.exp(-abs(x)) if abs(x) < 746 else 0.0
    return (e if x < 0 else 1) / (1 + e)


SIGMOID = ["%m = abs(%a) : f32", "%n = neg(%m) : f32", "%e = exp(%n) {{bits = {bits}}} : f32", "%o = const() {{value = 1.0}} : f32",
           "%z = const() {{value = 0.0}} : f32", "%c = lt(%a, %z) : bool", "%t = select(%c, %e, %o) : f32", "%d = add(%o, %e) : f32",
           "%y = div(%t, %d) {{bits = {bits}}} : f32"]
# what, its lines, the function, what it may be off beside its bits
NARROW = [("exp", ["%y = exp(%a) {{bits = {bits}}} : f32"], power(math.e), 2.0**-149),
          ("exp of -|a|", ["%m = abs(%a) : f32", "%n = neg(%m) : f32", "%y = exp(%n) {{bits = {bits}}} : f32"],
           lambda x: power(math.e)(-abs(x)), 2.0**-149),
          ("exp2", ["%y = exp2(%a) {{bits = {bits}}} : f32"], power(2.0), 2.0**-149),
          ("erfc", ["%y = erfc(%a) {{bits = {bits}}} : f32"], math.erfc, 2.0**-22.5),
          ("sigmoid", SIGMOID, sigmoid, 2.0**-149)]


def check_narrow(tools, arch, folder):
    arguments, good = narrow_arguments(), True
    for bits in (16, 13):
        for name, lines, function, least in NARROW:
            text = [line.format(bits=bits) for line in lines]
            results = interpreted(tools, arch, folder, f"{name[:4].strip()}_{bits}", text, [arguments])
            worst = (0.0, 0.0)
            for x, y in zip(arguments, results):
                exact = function(x) if x == x else x
                if exact != exact or exact >= 2.0**128:
                    off = 0.0 if (y != y) == (exact != exact) and (y != y or y >= 2.0**127.9) else math.inf
                else:
                    beyond = abs(y - exact) - least
                    off = 0.0 if beyond <= 0 else beyond / exact if exact else math.inf
                worst = max(worst, (off, x))
            ok = worst[0] + FROM_MACHINE <= 2.0**-bits
            good &= ok
            print(f"{'ok  ' if ok else 'FAIL'} {arch}: {name} of {bits} bits: 2^{math.log2(max(worst[0], 2.0**-60)):.2f} at {worst[1]!r}, "
                  f"{len(arguments)} arguments")
    return good


def ulp(x):
    return 2.0 ** (max(math.frexp(x)[1], -125) - 24)


def logarithm(x):
    return math.log(x) if x > 0 else -math.inf if x == 0 else math.nan


def pairs():
    rng, one = random.Random(1), lambda x: struct.unpack("<f", struct.pack("<f", x))[0]
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, -1.0, -2.0**-140, 1.0, 2.0**-149, 2.0**-127, 2.0**-126, one(3.4028234e38),
               one(0.7), 1.5, 2.0]
    found = [(a, b) for a in special for b in special]
    for _ in range(60000):  # of any size, near each other, near 1, a factor of about 4/3 or 3/2 apart
        a, c = math.ldexp(rng.uniform(1, 2), rng.randrange(-149, 128)), rng.choice([1.3333333, 1.5, 1.4142135, 0.75])
        close, near = 1 + rng.uniform(-1, 1) * 2.0 ** -rng.randrange(1, 24), 1 + rng.uniform(-1, 1) * 2.0 ** -rng.randrange(1, 24)
        b = rng.choice([math.ldexp(rng.uniform(1, 2), rng.randrange(-149, 128)), a * close, a * c * close, rng.uniform(0.1, 10)])
        if rng.random() < 0.3:
            a, b = near, near * close
        if a < 2.0**127.9 and b < 2.0**127.9:
            found.append((one(a), one(b)))
    return found


def check_erf(tools, arch, folder):
    """In f32: 1.25 ulps, of which a GPU's power of two, off by 2^-22.7, may take its share of erf where it is used."""
    near = [struct.unpack("<f", struct.pack("<I", b))[0] for b in range(0x38000000, 0x40A00000, 977)] + [struct.unpack("<f", struct.pack("<I", b))[0] for b in range(0x3F700000, 0x3F980000, 17)]
    arguments = [*narrow_arguments(), *near, *(-x for x in near[::7])]
    worst = (0.0, 0.0)
    for x, y in zip(arguments, interpreted(tools, arch, folder, "erf", ["%y = erf(%a) : f32"], [arguments])):
        exact = math.erf(x)
        same = math.isnan(y) if math.isnan(x) else math.copysign(1, y) == math.copysign(1, x)
        machine = math.erfc(abs(x)) * 2.0**-22.7 if arch == ARCHES[0] and abs(x) >= 1.1 else 0.0
        off = (abs(y - exact) + machine) / ulp(exact) if exact == exact and same else 0.0 if same else math.inf
        worst = max(worst, (off, x))
    ok = worst[0] <= 1.25
    print(f"{'ok  ' if ok else 'FAIL'} {arch}: erf: {worst[0]:.3f} ulps at {worst[1]!r}, {len(arguments)} arguments")
    return ok


def check_tanh(tools, arch, folder):
    """In f32: 2.75 ulps, of which a GPU's power of two, off by 2^-22.7, and its reciprocal, off by 2^-23, may take what they are of tanh where they are used."""
    near = [struct.unpack("<f", struct.pack("<I", b))[0] for b in range(0x38000000, 0x42000000, 977)] + [struct.unpack("<f", struct.pack("<I", b))[0] for b in range(0x3F400000, 0x3F800000, 17)]
    arguments = [*narrow_arguments(), *near, *(-x for x in near[::7])]
    worst = (0.0, 0.0)
    for x, y in zip(arguments, interpreted(tools, arch, folder, "tanh", ["%y = tanh(%a) : f32"], [arguments])):
        exact = math.tanh(x)
        same = math.isnan(y) if math.isnan(x) else math.copysign(1, y) == math.copysign(1, x)
        rest = 2 / (1 + math.exp(2 * min(abs(x), 300))) if x == x else 0.0  # 1 - tanh |x|
        machine = rest * (2.0**-23 + (1 - rest / 2) * 2.0**-22.7) if arch == ARCHES[0] and abs(x) >= 0.8 else 0.0
        off = (abs(y - exact) + machine) / ulp(exact) if exact == exact and same else 0.0 if same else math.inf
        worst = max(worst, (off, x))
    ok = worst[0] <= 2.75
    print(f"{'ok  ' if ok else 'FAIL'} {arch}: tanh: {worst[0]:.3f} ulps at {worst[1]!r}, {len(arguments)} arguments")
    return ok


def check_ratio(tools, arch, folder):
    found = pairs()
    lines, arguments = ["%y = log_ratio(%a, %b) : f32"], [[p[0] for p in found], [p[1] for p in found]]
    results = interpreted(tools, arch, folder, "log_ratio", lines, arguments)
    worst, mine = (0.0, ()), 0.0
    for (a, b), y in zip(found, results):
        la, lb = logarithm(a), logarithm(b)
        exact = la - lb
        if math.isnan(exact) or math.isinf(exact):
            off = 0.0 if y == exact or (y != y and exact != exact) else math.inf
        else:
            if 0.5 < a / b < 2:  # near 1 in more bits than two logarithms have
                exact = math.log1p((a - b) / b)
            off = abs(y - exact) / (ulp(la) + ulp(lb) + ulp(exact) / 2)
            mine = max(mine, abs(y - exact) / ulp(exact)) if arch == ARCHES[0] else 0
        worst = max(worst, (off, (a, b)), key=lambda w: w[0])
    ulps = f"; {mine:.2f} ulps of the result" if mine else ""
    print(f"{'ok  ' if worst[0] <= 1 and mine < 2 else 'FAIL'} {arch}: log_ratio: {worst[0]:.3f} of what two logarithms may be off, "
          f"at {worst[1]}{ulps}; {len(found)} pairs")
    return worst[0] <= 1 and mine < 2


def main():
    tools = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        good = all([check(tools, arch, pathlib.Path(folder)) for arch in ARCHES for check in (check_narrow, check_erf, check_tanh, check_ratio)])
    return 0 if good else 1


sys.exit(main())
