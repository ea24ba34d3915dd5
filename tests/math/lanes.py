#!/usr/bin/env python3
"""Every elementwise op of every type, and every conversion: the emitted C, the interpreter before
and after the expanding passes, and a reference of its own (exact fractions) give the same bits; the
same kernels pass ptxas and, all in one file, nvcc.

The functions of ir/math.def are compared between C and interpreter only: functions.py measures them.

    lanes.py CC SKETCH_OPT EMIT_TOOL INTERPRET_TOOL SOURCE [--ptxas=PATH] [--nvcc=PATH]"""
import ctypes
import itertools
import math
import pathlib
import re
import subprocess
import sys
import tempfile
from fractions import Fraction

INTS = {f"{s}{n}": (s == "i", n) for s in "iu" for n in (8, 16, 32, 64)}
FLOATS = {"f64": (52, 1023, 64), "f32": (23, 127, 32), "bf16": (7, 127, 16), "f16": (10, 15, 16),
          "f8e4m3": (3, 7, 8), "f8e5m2": (2, 15, 8)}
TYPES = list(FLOATS) + list(INTS) + ["bool"]
UNARY = {"float": ["neg", "abs", "sqrt", "floor", "ceil", "trunc", "rint"], "int": ["neg", "abs", "not"]}
BINARY = {"float": ["add", "sub", "mul", "div", "min", "max", "minnum", "maxnum", "floordiv", "mod"],
          "int": ["add", "sub", "mul", "floordiv", "mod", "min", "max", "and", "or", "xor", "shl", "shr"]}
COMPARE = ["lt", "le", "eq", "ne"]


def size(t):
    return FLOATS[t][2] // 8 if t in FLOATS else INTS[t][1] // 8 if t in INTS else 1


# ---- Numbers as bits; a float is a Fraction, "nan", "inf", "-inf" or "-0" ----


def decode(t, bits):
    if t == "bool":
        return int(bits != 0)
    if t in INTS:
        signed, n = INTS[t]
        return bits - (1 << n) if signed and bits >> (n - 1) else bits
    mantissa, bias, n = FLOATS[t]
    sign, rest = bits >> (n - 1), bits & ((1 << (n - 1)) - 1)
    exponent, low = rest >> mantissa, rest & ((1 << mantissa) - 1)
    ones = (1 << (n - 1 - mantissa)) - 1
    if t == "f8e4m3" and rest == 0x7F:
        return "nan"
    if t != "f8e4m3" and exponent == ones:
        return "nan" if low else "-inf" if sign else "inf"
    scale = Fraction(2) ** (max(exponent, 1) - bias - mantissa)
    value = (low + ((1 << mantissa) if exponent else 0)) * scale
    return "-0" if sign and value == 0 else -value if sign else value


def nearest_even(x):
    low = math.floor(x)
    rest = x - low
    return low + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1))


def encode(t, x):
    """To the nearest, ties to even; beyond the largest number infinity, or NaN in f8e4m3."""
    mantissa, bias, n = FLOATS[t]
    ones = (1 << (n - 1 - mantissa)) - 1
    infinity = 0x7F if t == "f8e4m3" else ones << mantissa
    if x == "nan":
        return None
    if x in ("inf", "-inf"):
        return None if t == "f8e4m3" else infinity | ((x == "-inf") << (n - 1))
    if x == "-0":
        return 1 << (n - 1)
    sign, x = (1 << (n - 1)) if x < 0 else 0, abs(x)
    if x == 0:
        return 0
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > x
    exponent = max(exponent, 1 - bias)
    units = nearest_even(x / Fraction(2) ** (exponent - mantissa))
    code = units + ((exponent + bias - 1) << mantissa)
    if code >= infinity:
        return None if t == "f8e4m3" else sign | infinity
    return sign | code


def as_number(x):
    return Fraction(0) if x == "-0" else x


def convert(source, target, bits):
    """The bits of the converted number; None: any NaN."""
    x = decode(source, bits)
    if target in FLOATS:
        return encode(target, Fraction(x) if isinstance(x, int) else x)
    if target == "bool":
        return int(x == "nan" or as_number(x) != 0)
    signed, n = INTS[target]
    low, high = (-(1 << (n - 1)), (1 << (n - 1)) - 1) if signed else (0, (1 << n) - 1)
    if source in FLOATS:
        x = as_number(x)
        x = {"nan": 0, "inf": high, "-inf": low}.get(x, x) if isinstance(x, str) else math.trunc(x)
        x = min(max(x, low), high)
    return x & ((1 << n) - 1)


def integer_op(op, t, a, b):
    signed, n = INTS[t]
    x, y, count = decode(t, a), decode(t, b), b
    if op in ("floordiv", "mod"):
        r = 0 if y == 0 else x // y if op == "floordiv" else x % y
    elif op in ("shl", "shr"):
        r = (0 if count >= n else x << count) if op == "shl" else x >> min(count, n)
    else:
        r = {"add": x + y, "sub": x - y, "mul": x * y, "min": min(x, y), "max": max(x, y), "and": x & y,
             "or": x | y, "xor": x ^ y, "neg": -x, "abs": abs(x), "not": ~x}[op]
    return r & ((1 << n) - 1)


# ---- Arguments ----


def patterns(t):
    """All of a type of 8 bits; else the edges, and a spread of patterns."""
    n = 8 * size(t)
    if t == "bool":
        return [0, 1] * 8
    if n == 8:
        return list(range(256))
    values = set(range(8)) | {(1 << n) - 1 - k for k in range(8)}
    for k in range(n):
        values |= {1 << k, (1 << k) - 1, (1 << k) + 1, (1 << n) - (1 << k)}
    if t in FLOATS:
        exact = [Fraction(k, 4) for k in range(-20, 21)]
        exact += [Fraction(2) ** k * f for k in (7, 8, 15, 16, 31, 32, 53, 63, 64) for f in (-1, 1)]
        exact += [Fraction(v) for v in (127, 128, 255, 256, 448, 464, 465, 480, 57344, 61440, 65504, 65519,
                                        65520, 65535, 2049, 4097, 16777217, 2**31 - 1, 2**63 - 512)]
        exact += [Fraction(1, 2**k) * f for k in (6, 9, 10, 14, 16, 17, 24, 25) for f in (1, 3, Fraction(5, 2))]
        # Between two f16 and two bf16, a last bit away from the middle: where a second rounding shows.
        exact += [1 + Fraction(1, 2**k) + s * Fraction(1, 2**j) for k in (4, 8, 11) for j in (26, 40, 52)
                  for s in (-1, 0, 1)]
        values |= {encode(t, x) for x in exact} - {None}
    if n == 64 and t in INTS:
        values |= {(1 << 62) + (1 << 54) + s for s in (-1, 0, 1)} | {(3 << 54) + s for s in (-1, 0, 1)}
    state = 88172645463325252
    while len(values) < 1000:
        state ^= state << 13 & (1 << 64) - 1
        state ^= state >> 7
        state ^= state << 17 & (1 << 64) - 1
        values.add(state >> (64 - n))
    return sorted(values)


def pack(t, bits):
    return b"".join(b.to_bytes(size(t), "little") for b in bits)


def unpack(t, data):
    return [int.from_bytes(data[i:i + size(t)], "little") for i in range(0, len(data), size(t))]


# ---- Kernels ----


def kernel(name, inputs, outputs):
    """inputs: (name, type); outputs: (name, type, op, operand names)."""
    parameters = [f"tensor %{n}: ptr<{t}, global> in" for n, t in inputs]
    parameters += [f"tensor %{n}: ptr<{t}, global> out" for n, t, _, _ in outputs]
    lines = [f"func @{name} kernel ({', '.join(parameters)}, symbol %N: index) "
             f'{{kernel = "{name}", num_warps = 1, grid_x = aff(1)}}', "{",
             "    %k0 = const() {value = 0} : index", "    %k1 = const() {value = 1} : index",
             "    for(%k0, %N, %k1) (%i: index) {"]
    lines += [f"        %{n.lower()} = mem.load(%{n}, %i) : {t}" for n, t in inputs]
    for n, t, op, operands in outputs:
        lines += [f"        %{n.lower()} = {op}({', '.join('%' + o.lower() for o in operands)}) : {t}",
                  f"        mem.store(%{n.lower()}, %{n}, %i)"]
    return "\n".join(lines + ["        yield()", "    }", "    return()", "}", ""])


class Tools:
    def __init__(self, args):
        plain = [a for a in args if not a.startswith("--")]
        self.options = dict(a[2:].partition("=")[::2] for a in args if a.startswith("--"))
        self.cc, self.opt, self.emit, self.interpret = plain[:4]
        text = (pathlib.Path(plain[4]) / "ir/math.def").read_text()
        self.functions = re.findall(r"^MATH2?\(\w+, (\w+), ", text, re.M)

    def run(self, *command):
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(str(c) for c in command)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        return done.stdout

    def lower(self, path, arch):
        """Each target's own: a GPU's functions may be its instructions, which C does not have."""
        low = path.with_suffix(f".{arch}.skir")
        low.write_text(self.run(self.opt, f"--arch={arch}", "--passes=expand_math,expand_types,simplify", path))
        return low


def run_c(tools, low, name, buffers, count):
    c, so = low.with_suffix(".c"), low.with_suffix(".so")
    c.write_text(tools.run(tools.emit, low, "-t", "openmp"))
    tools.run(tools.cc, "-std=c17", "-O2", "-ffp-contract=off", "-fno-math-errno", "-w", "-shared",
              "-fPIC", c, "-o", so, "-lm")
    memory = [ctypes.create_string_buffer(b, len(b)) for b in buffers]
    getattr(ctypes.CDLL(str(so)), name)(*memory, ctypes.c_int64(count))
    return [m.raw for m in memory]


def run_interpreter(tools, path, names, buffers, count):
    files = []
    for n, b in zip(names, buffers):
        f = path.parent / f"{n}.raw"
        f.write_bytes(b)
        files.append(f"{n}={f}")
    tools.run(tools.interpret, path, f"N={count}", *files)
    return [(path.parent / f"{n}.raw").read_bytes() for n in names]


def same(t, a, b):
    return a == b or (t in FLOATS and decode(t, a) == decode(t, b) == "nan")


class Check:
    def __init__(self, tools, folder):
        self.tools, self.folder, self.bad, self.compared, self.kernels = tools, folder, 0, 0, []

    def fail(self, text):
        self.bad += 1
        if self.bad <= 40:
            print("FAIL", text)

    def kernel(self, name, inputs, outputs, expected):
        """inputs: (name, type, bits); expected(output, row): bits, None for NaN, "?" for no opinion."""
        count = len(inputs[0][2])
        text = kernel(name, [(n, t) for n, t, _ in inputs], outputs)
        self.kernels.append(text)
        path = self.folder / f"{name}.skir"
        path.write_text("sketchc.ir 1\n\n" + text)
        low = self.tools.lower(path, "x86-64-v3")
        names = [n for n, _, _ in inputs] + [n for n, _, _, _ in outputs]
        buffers = [pack(t, b) for _, t, b in inputs] + [bytes(size(t) * count) for _, t, _, _ in outputs]
        emitted = run_c(self.tools, low, name, buffers, count)
        after = run_interpreter(self.tools, low, names, buffers, count)
        before = run_interpreter(self.tools, path, names, buffers, count)
        for k, (n, t, op, _) in enumerate(outputs, len(inputs)):
            got = {w: unpack(t, d[k]) for w, d in (("C", emitted), ("interpreter", after), ("before", before))}
            for row in range(count):
                arguments = [f"{decode(ty, b[row])} ({b[row]:#x})" for _, ty, b in inputs]
                self.compare(f"{name} {n}: {op} to {t} of {', '.join(arguments)}", t, op,
                             {w: v[row] for w, v in got.items()}, expected(n, row))
        self.ptx(path)

    def compare(self, what, t, op, got, want):
        self.compared += 1
        loose = {"floordiv", "mod", *self.tools.functions} if t in FLOATS else set()
        if not same(t, got["C"], got["interpreter"]):
            self.fail(f"{what}: C {got['C']:#x}, interpreter {got['interpreter']:#x}")
        elif op not in loose and not same(t, got["C"], got["before"]):
            self.fail(f"{what}: {got['C']:#x}, before the passes {got['before']:#x}")
        elif want is None and decode(t, got["C"]) != "nan":
            self.fail(f"{what}: {got['C']:#x} is no NaN")
        elif want not in (None, "?") and got["C"] != want:
            self.fail(f"{what}: {got['C']:#x}, not {want:#x}")

    def ptx(self, path):
        if "ptxas" not in self.tools.options:
            return
        low = self.tools.lower(path, "sm_80")
        ptx = low.with_suffix(".ptx")
        ptx.write_text(self.tools.run(self.tools.emit, low, "-t", "nvptx", "--arch=sm_80"))
        self.tools.run(self.tools.options["ptxas"], "-arch=sm_80", ptx, "-o", low.with_suffix(".cubin"))

    def cuda(self):
        if "nvcc" not in self.tools.options:
            return
        path = self.folder / "all.skir"
        path.write_text("sketchc.ir 1\n\n" + "\n".join(self.kernels))
        cu = self.folder / "all.cu"
        cu.write_text(self.tools.run(self.tools.emit, self.tools.lower(path, "sm_80"), "-t", "cuda"))
        self.tools.run(self.tools.options["nvcc"], "-arch=sm_80", "-fmad=false", "-w", "-ptx", cu, "-o",
                       self.folder / "all.nvcc.ptx")


def check_casts(check):
    for source in TYPES:
        bits = patterns(source)
        outputs = [(f"T{k}", t, "cast", ["X"]) for k, t in enumerate(TYPES) if t != source]
        targets = {n: t for n, t, _, _ in outputs}
        check.kernel(f"cast_{source}", [("X", source, bits)], outputs,
                     lambda n, row: convert(source, targets[n], bits[row]))


def check_floats(check):
    for t in FLOATS:
        bits = patterns(t)[::7] if size(t) > 1 else patterns(t)[::3]
        pairs = list(itertools.product(bits[::3], bits[1::4]))
        a, b = [p[0] for p in pairs], [p[1] for p in pairs]
        outputs = [(f"B{k}", t, op, ["A", "B"]) for k, op in enumerate(BINARY["float"])]
        outputs += [(f"U{k}", t, op, ["A"]) for k, op in enumerate(UNARY["float"])]
        outputs += [(f"C{k}", "bool", op, ["A", "B"]) for k, op in enumerate(COMPARE)]
        opinion = {n: op for n, _, op, _ in outputs if op in ("add", "sub", "mul") and size(t) < 4}

        def expected(n, row):
            if n not in opinion:
                return "?"
            x, y = decode(t, a[row]), decode(t, b[row])
            if isinstance(x, str) or isinstance(y, str) or x == 0 or y == 0:
                return "?"
            single = decode("f32", encode("f32", x + y if opinion[n] == "add" else
                                          x - y if opinion[n] == "sub" else x * y) or 0)
            return encode(t, single) if single != 0 and single != "-0" else "?"
        check.kernel(f"float_{t}", [("A", t, a), ("B", t, b)], outputs, expected)


def check_integers(check):
    for t in INTS:
        bits = patterns(t)
        few = bits[::max(1, len(bits) // 60)]
        pairs = list(itertools.product(few, few + [0, 1, 3, 7, (1 << 8 * size(t)) - 1]))
        a, b = [p[0] for p in pairs], [p[1] for p in pairs]
        outputs = [(f"B{k}", t, op, ["A", "B"]) for k, op in enumerate(BINARY["int"])]
        outputs += [(f"U{k}", t, op, ["A"]) for k, op in enumerate(UNARY["int"])]
        outputs += [(f"C{k}", "bool", op, ["A", "B"]) for k, op in enumerate(COMPARE)]
        by_name = {n: op for n, _, op, _ in outputs}

        def expected(n, row):
            x, y = decode(t, a[row]), decode(t, b[row])
            order = {"lt": x < y, "le": x <= y, "eq": x == y, "ne": x != y}
            op = by_name[n]
            return int(order[op]) if op in order else integer_op(op, t, a[row], b[row])
        check.kernel(f"int_{t}", [("A", t, a), ("B", t, b)], outputs, expected)


def check_functions(check):
    for t in FLOATS:
        bits = patterns(t)
        pairs = [(x, bits[(7 * k) % len(bits)]) for k, x in enumerate(bits)]
        a, b = [p[0] for p in pairs], [p[1] for p in pairs]
        outputs = [(f"F{k}", t, f, ["A", "B"] if f == "pow" else ["A"])
                   for k, f in enumerate(check.tools.functions)]
        check.kernel(f"functions_{t}", [("A", t, a), ("B", t, b)], outputs, lambda n, row: "?")


def main():
    with tempfile.TemporaryDirectory() as folder:
        check = Check(Tools(sys.argv[1:]), pathlib.Path(folder))
        check_casts(check)
        check_floats(check)
        check_integers(check)
        check_functions(check)
        check.cuda()
    print(f"{check.compared} results compared, {check.bad} differ")
    return 1 if check.bad or check.compared < 100000 else 0


sys.exit(main())
