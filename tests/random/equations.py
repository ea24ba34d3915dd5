#!/usr/bin/env python3
"""Random operators of several equations: tensors that are updated in place (also several times), exchanged, read transposed,
reversed, shifted, by index, as factors and in folds, before and behind the update, through intermediates. Rules design their
sketches; `verify` compares what those give with the reference.

    equations.py SKETCHC COUNT [SEED]    operators of the seeds from SEED (1) on; each in the style that is chosen and in one other
    equations.py --kinds SKETCHC         those of KINDS, in the style that is chosen, the naive one of rows and blocks
    equations.py --print SEED            the operator of a seed"""
import collections
import concurrent.futures
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

STYLES = re.compile(r'^STYLE\("(\w+)"', re.M)
SHAPES = {"A": "MN", "B": "MN", "C": "MN", "P": "NN", "Q": "NN", "R": "NN", "U": "M", "W": "M", "V": "N", "X": "N", "S": ""}
SIZES = [(1, 1), (5, 7), (33, 20), (16, 64), (3, 70), (40, 33), (67, 9)]
REFUSED = 1  # the status of a compiler that refuses
# What equations do to a tensor that they update, one operator a kind: tensors, equations.
KINDS = {
    "read_behind": ("H[M, N], U[M]", "H = H * 2\nU = sum(H, axis=1)"),
    "read_before": ("H[M, N], U[M]", "U = sum(H, axis=1)\nH = H * 2"),
    "exchanged": ("A[M, N], B[M, N]", "T = A\nA = B\nB = T"),
    "exchanged_transposed": ("A[N, N], B[N, N]", "T = transpose(A)\nA = transpose(B)\nB = T"),
    "copied_back": ("A[M, N], B[M, N]", "A = B\nB = A * 2"),
    "turned_about": ("A[N], B[N], C[N]", "T = A\nA[i] = B[N - 1 - i]\nB[i] = C[N - 1 - i]\nC[i] = T[N - 1 - i]"),
    "transposed": ("H[N, N]", "H = transpose(H)"),
    "symmetric": ("H[N, N]", "H = 0.5 * (H + transpose(H))"),
    "squared": ("H[N, N]", "H = H @ H"),
    "reversed": ("H[M, N]", "H[i, j] = H[M - 1 - i, j]"),
    "shifted": ("H[M, N]", "OLD = H\nH[i, j] = H[i, j] + pad(OLD, 1)[i - 1, j + 1]"),
    "gathered": ("H[N], V[N]", "H[i] = H[I[i]] + 1\nV[i] = H[I[i]]"),
    "gathered_before": ("H[N], V[N]", "V[i] = H[I[i]]\nH = H * 2"),
    "state_step": ("H[M, 8, N], A[8, N], X[M, 8], B[M, N], C[M, N], Y[M, 8]",
                   "H[b, d, s] = exp(A[d, s]) * H[b, d, s] + B[b, s] * X[b, d]\nY[b, d] = sum(s, H[b, d, s] * C[b, s])"),
    "factor_behind": ("H[M, N], B[N, 24], C[M, 24]", "H = relu(H)\nC = H @ B"),
    "factor_before": ("H[M, N], B[N, 24], C[M, 24]", "C = H @ B\nH = relu(H)"),
    "added_to": ("Y[M, 24], A[M, N], B[N, 24]", "Y = Y + A @ B"),
    "added_sum": ("U[M], X[M, N]", "U = U + sum(X, axis=1)"),
    "chain": ("H[M, N], U[M], V[N], W[M, N]",
              "U = sum(H, axis=1)\nH = H + 1\nV = sum(H, axis=0)\nH = H * 2\nW = H\nH = H - 3"),
    "without_mean": ("H[M, N]", "H = H - mean(H)"),
    "scanned_and_read": ("H[M, N], Y[M, N]", "H = cumsum(H, axis=0)\nY = H + 1"),
    "optimiser": ("P[N], G[N], A[N], B[N]",
                  "A = 0.9 * A + 0.1 * G\nB = 0.99 * B + 0.01 * G * G\nP = P - 0.01 * A / (sqrt(B * B) + 1)"),
    "view_inside_product": ("B[M, N], C[M, N], P[N, N], A[M, N], R[N, N]",
                            "P[i, j] = P[i, j] + P[N - 1 - i, j] + 0.2 * sum(k in 0:N, P[i, k] * R[k, j])\n"
                            "A[i, j] = B[M - 1 - i, j] + C[i, j] + 0.2 * sum(k in 0:N, pad(C, 0)[i + 2, k] * pad(P, 0)[k, j + 1])\n"
                            "P = abs(P)\nC = A"),
    "scanned": ("H[M, N], A[M, N], Y[M, N]", "S = linear_scan(tanh(A), H, axis=1)\nH = linear_scan(0.5, S, axis=1, reverse=true)\nY = S"),
    "carried_on": ("H[M, N], A[M, N], C[M, 1]", "Y = linear_scan(tanh(A), H, axis=1, init=C)\nH = linear_scan(0.5, Y, axis=1, exclusive=true, init=C + 1)\nC = reduce_max(Y, axis=1, keepdim=true)"),
    "notes": ("H[M, N], U[M]", "S[i, j] = H[i, j] * where(H[i, j] > 0, 1.0, 0.1)\nH[i, j] = S[i, N - 1 - j]\nU[i] = sum(j in 0:N, pad(S, 1)[i, j - 1])"),
    "number": ("S[], X[N]", "X = X * S\nS = S + sum(X)"),
    "each_of_two": ("A[N], B[M]", "T = sum(A)\nA = A + sum(B)\nB = B + T"),
}
UNDECIDED = re.compile(r"near ties?|undecided|is not decided|powerless", re.I)


class Operator:
    """Equations in the order in which they are made; what they read is known then."""

    def __init__(self, seed: int):
        for attempt in range(100):
            self.rng = random.Random(100 * seed + attempt)
            self.make()
            if self.is_legal():
                return

    def is_legal(self) -> bool:
        """What an equation gives is read before another one gives its tensor something."""
        unread: set[str] = set()
        for line in self.lines:
            target, value = line.split(" = ", 1)
            target = target.split("[")[0]
            unread -= set(re.findall(r"\w+", value))
            if target in unread:
                return False
            unread.add(target)
        return True

    def make(self) -> None:
        square = self.rng.random() < 0.35
        names = [n for n, s in SHAPES.items() if (s in ("NN", "N", "") if square else True)]
        self.shape = {n: SHAPES[n] for n in self.rng.sample(names, self.rng.randint(2, min(5, len(names))))}
        self.tensors = dict(self.shape)
        self.unread: set[str] = set()  # holds what an equation gives, and nobody reads
        self.indexed = False
        self.values: list[str] = []  # what `values:` says of intermediates
        self.lines: list[str] = []
        for number in range(self.rng.randint(2, 5)):
            self.equation(number)
        for k in range(len(self.lines) - 1, -1, -1):  # an intermediate that nothing reads makes its tensors unused
            name = re.split(r"\W", self.lines[k])[0]
            if name[0] == "T" and not any(re.search(rf"\b{name}\b", line) for line in self.lines[k + 1:]):
                del self.lines[k]
        if not self.lines:
            self.give(next(iter(self.tensors)), "%s * 2")

    # ---- Whole tensors ----

    def read(self, shape: str) -> str:
        names = [n for n, s in self.shape.items() if s == shape]
        if not names:
            return "1.5"
        name = self.rng.choice(names)
        self.unread.discard(name)
        return name

    def named(self, shape: str) -> bool:
        return shape in self.shape.values()

    def fold(self, shape: str, depth: int) -> str:
        rng = self.rng
        kind = rng.choice(["sum", "mean", "reduce_max"])
        if shape == "M":
            return f"{kind}({self.shaped('MN', depth)}, axis=1)" if self.named("MN") else self.read(shape)
        if shape == "N":
            of = rng.choice([s for s in ("MN", "NN") if self.named(s)] or [""])
            return f"{kind}({self.shaped(of, depth)}, axis=0)" if of else self.read(shape)
        if shape == "":
            of = rng.choice([s for s in ("M", "N", "MN") if self.named(s)] or [""])
            return f"{kind}({self.shaped(of, depth)})" if of else self.read(shape)
        return f"({self.read(shape)} - {kind}({self.shaped(shape, depth)}, axis={rng.randint(0, 1)}, keepdim=true))"

    def product(self, shape: str, depth: int) -> str:
        if shape in ("MN", "NN") and self.named("NN"):
            return f"(0.2 * ({self.shaped(shape, depth)} @ {self.shaped('NN', depth)}))"
        if shape == "M" and self.named("MN") and self.named("N"):
            return f"(0.2 * ({self.shaped('MN', depth)} @ {self.shaped('N', depth)}))"
        return self.fold(shape, depth)

    def moved(self, shape: str, depth: int) -> str:
        if shape == "NN" and self.rng.random() < 0.6:
            return f"transpose({self.shaped(shape, depth)})"
        if shape and self.rng.random() < 0.3:
            factor = self.rng.choice(["0.5", "-0.7", f"tanh({self.shaped(shape, depth)})", self.choice()])
            options = "".join(self.rng.choice(["", f", {name}=true"]) for name in ("reverse", "exclusive"))
            return f"linear_scan({factor}, {self.shaped(shape, depth)}, axis={len(shape) - 1}{options}{self.start(shape, depth)})"
        if shape:
            call = self.rng.choice(["flip", "flip", "cumsum"])
            return f"({'0.1 * ' * (call == 'cumsum')}{call}({self.shaped(shape, depth)}, axis={len(shape) - 1}))"
        return self.read(shape)

    def start(self, shape: str, depth: int) -> str:
        """What a recurrence along the last axis begins from."""
        draw = self.rng.random()
        if draw < 0.4:
            return ""
        lane = f"mean({self.shaped(shape, depth)}, axis={len(shape) - 1}, keepdim=true)"
        return ", init=" + (self.rng.choice(["0.5", "-2", self.choice()]) if draw < 0.7 else self.read("") if draw < 0.8 else lane)

    def choice(self) -> str:
        """A number that a scalar chooses."""
        return self.rng.choice(["where(s > 0.2, 0.3, 0.7)", "where(n > 2, 0.6, -0.2)", "where(n > 2 and s < 0.1, 0.1, 0.4)"])

    def shaped(self, shape: str, depth: int) -> str:
        """An expression whose shape is `shape`, with a tensor of that shape in it."""
        if depth <= 0 or not self.named(shape):
            return self.read(shape)
        return self.expression(shape, depth - 1)

    def expression(self, shape: str, depth: int) -> str:
        rng = self.rng
        draw = rng.random()
        if depth <= 0 or draw < 0.25:
            return self.read(shape)
        if draw < 0.55:
            left, right = self.shaped(shape, depth - 1), self.shaped(rng.choice([shape, shape, shape[-1:], ""]), depth - 1)
            return rng.choice(["({} + {})", "({} - 0.5 * {})", "(0.3 * {} * {})", "max({}, {})"]).format(left, right)
        if draw < 0.6 and shape:
            return f"({self.shaped(shape, depth - 1)} * {rng.choice([f'where({self.shaped(shape, depth - 1)} > 0.1, 1.0, 0.3)', self.choice()])})"
        if draw < 0.67:
            return f"{rng.choice(['tanh', 'abs', 'relu'])}({self.shaped(shape, depth - 1)})"
        return rng.choice([self.fold, self.product, self.moved])(shape, depth - 1)

    # ---- Index notation ----

    def element(self, shape: str, indices: str) -> str:
        """One element of a tensor of the shape, at an index that may be another one."""
        name, rng = self.read(shape), self.rng
        if name == "1.5":
            return name
        at = list(indices)
        place = rng.randrange(len(at)) if at else 0
        how = rng.randint(0, 5) if at else 0
        extent = shape[place] if at else ""
        if how == 1:
            at[place] = f"{extent} - 1 - {at[place]}"
        elif how == 2:
            at[place] += rng.choice([" - 1", " + 1", " - 3", " + 2"])
            return f"pad({name}, 0)[{', '.join(at)}]"
        elif how == 3 and shape == "NN":
            at.reverse()
        elif how == 4 and extent == "N" and self.rng.random() < 0.5:
            self.indexed = True
            at[place] = f"I[{at[place]}]"
        return f"{name}[{', '.join(at)}]" if at else name

    def notation(self, shape: str) -> str:
        rng = self.rng
        indices = "ij"[:len(shape)]
        terms = [self.element(shape, indices) for _ in range(rng.randint(1, 2))]
        if rng.random() < 0.4 and shape in ("MN", "NN") and self.named("NN"):
            terms.append(f"0.2 * sum(k in 0:N, {self.element(shape, 'ik')} * {self.element('NN', 'kj')})")
        if rng.random() < 0.3 and shape == "M" and self.named("MN"):
            terms.append(f"0.2 * sum(k in 0:N, {self.element('MN', 'ik')})")
        if rng.random() < 0.3:
            other = f"where({self.element(shape, indices)} > 0.1, 1.0, 0.1)" if self.named(shape) else "1.0"
            terms[0] = f"{rng.choice([other, self.choice()])} * {terms[0]}"
        if rng.random() < 0.3 and self.named(""):
            terms[-1] = f"{self.read('')}{rng.choice(['', '[]'])} * {terms[-1]}"
        return " + ".join(terms)

    def intermediate(self, number: int) -> None:
        """A new name in index notation, whose type inference finds or `values:` says."""
        shape = self.rng.choice([s for s in self.tensors.values() if s] or [""])
        if not shape or not self.named(shape):
            return
        name, indices = f"T{number}", "ij"[:len(shape)]
        value, extents = self.notation(shape), ", ".join(shape)
        says = self.rng.random()
        if says < 0.4:
            self.values.append(f"{name}[{extents}]: {self.rng.choice(['f32', 'f32', 'f64'])}")
            left = ", ".join(indices)
        else:
            left = ", ".join(f"{i} in 0:{n}" for i, n in zip(indices, shape))
        self.lines.append(f"{name}[{left}] = {value}")
        self.shape[name] = shape

    # ---- Equations ----

    def give(self, name: str, value: str) -> None:
        self.lines.append(f"{name} = {value.replace('%s', name)}")
        self.unread.add(name)

    def equation(self, number: int) -> None:
        rng = self.rng
        if rng.random() < 0.2:
            self.intermediate(number)
            return
        if rng.random() < 0.2:
            shape = rng.choice(list(self.tensors.values()))
            value = self.expression(shape, 2)
            if value not in self.shape and shape and self.has_shape(value, shape):
                name = f"T{number}"
                self.lines.append(f"{name} = {value}")
                self.shape[name] = shape
            return
        targets = [n for n in self.tensors if n not in self.unread]
        if not targets:
            return
        name = rng.choice(targets)
        shape = self.tensors[name]
        if rng.random() < 0.35 and shape:
            value = self.notation(shape)
            if name in self.unread or "I[" in value and name == "I":
                return
            if f"pad({name}," in value:  # which looks like a recurrence (E0323)
                value = value.replace(f"pad({name},", f"pad(T{number},")
                self.lines.append(f"T{number} = {name}")
                self.shape[f"T{number}"] = shape
            self.lines.append(f"{name}[{', '.join('ij'[:len(shape)])}] = {value}")
            self.unread.add(name)
        else:
            self.give(name, self.expression(shape, 3))

    def has_shape(self, value: str, shape: str) -> bool:
        """An intermediate has the shape of its value: one that names a tensor of it outside of calls."""
        bare = re.sub(r"\w+\(.*\)", "", value)
        return any(re.search(rf"\b{n}\b", bare) for n, s in self.shape.items() if s == shape)

    def text(self, name: str) -> str:
        body = "\n".join(self.lines)
        self.indexed = "I[" in body
        used = [n for n in self.tensors if re.search(rf"\b{n}\b", body)]
        tensors = [f"{n}[{', '.join(self.tensors[n])}]: f32" for n in used] + ["I[N]: i32"] * self.indexed
        shapes = "".join(self.tensors[n] for n in used) + "N" * self.indexed
        symbols = [s for s in "MN" if s in shapes]
        data = "; I: randint(0, N)" if self.indexed else ""
        cases = "".join("    case c{} {{ {}{} }}\n".format(
            k, ", ".join(f"{s}={v}" for s, v in zip("MN", size) if s in symbols) or "", data)
            for k, size in enumerate(self.rng.sample(SIZES, 2)))
        head = f"    symbols: {', '.join(symbols)};\n" if symbols else ""
        values = [v for v in self.values if re.search(rf"^{v.split('[')[0]}\[", body, re.M)]
        if "@" in body:  # the factors of a product have one type
            values = [v.replace("f64", "f32") for v in values]
        declared = f"    values: {', '.join(values)};\n" if values else ""
        if re.search(r"\b[sn] [<>]", body):
            declared += "    scalars: s: f32 = 0.5, n: i32 = 3;\n"
        lines = "".join(f"    {line}\n" for line in self.lines)
        return f"operator {name} {{\n{head}    tensors: {', '.join(tensors)};\n{declared}{lines}{cases}}}\n"


def judge(sketchc: str, file: pathlib.Path, options: list[str]) -> str:
    """"ok", a code that refuses, or what is wrong."""
    try:
        done = subprocess.run([sketchc, "verify", str(file), "-t", os.environ.get("TARGET", "openmp"), "--no-ragged", *options], text=True, check=False,
                              capture_output=True, timeout=240)
    except subprocess.TimeoutExpired:
        return "over 240 s"
    if done.returncode == 0 and re.search(r": [1-9]\d* passed, 0 failed", done.stdout):
        return "ok"
    codes = re.findall(r"error\[(E\d+)\]", done.stderr)
    if "E0323" in codes:  # a recurrence through another equation
        return "undecided"
    if done.returncode == REFUSED and codes:
        return codes[0]
    if UNDECIDED.search(done.stdout) and "mismatch" not in done.stdout:
        return "undecided"
    return f"status {done.returncode}\n{done.stdout[-1200:]}{done.stderr[-1200:]}"


def kinds(sketchc: str) -> int:
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (tensors, equations) in KINDS.items():
            symbols = [x for x in "MN" if re.search(rf"\b{x}\b", tensors)]
            sizes = ", ".join(f"{x}={v}" for x, v in zip("MN", (19, 37)) if x in symbols)
            indices, data = (", I[N]: i32", "; I: randint(0, N)") if "I[" in equations else ("", "")
            lines = equations.replace("\n", "\n    ")
            file = pathlib.Path(folder, f"{name}.sketch")
            file.write_text(f"operator {name} {{\n    symbols: {', '.join(symbols)};\n    tensors: "
                            f"{tensors.replace(']', ']: f32')}{indices};\n    {lines}\n    case s {{ {sizes}{data} }}\n}}\n")
            for options in ([], ["--design=naive_rows"], ["--design=blocks"]):
                verdict = judge(sketchc, file, options)
                if verdict != "ok" and (not options or not re.fullmatch(r"E0[57]\d\d", verdict)):
                    problems.append(f"{name} {' '.join(options)}: {verdict}")
    print("\n".join(problems) if problems else f"{len(KINDS)} kinds")
    return 1 if problems else 0


def main() -> int:
    if sys.argv[1] == "--kinds":
        return kinds(sys.argv[2])
    if sys.argv[1] == "--print":
        print(Operator(int(sys.argv[2])).text("o"), end="")
        return 0
    sketchc, count, first = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    styles = STYLES.findall((root / "graph/design_styles.def").read_text())
    seen: collections.Counter[str] = collections.Counter()
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        def check(seed: int) -> list[tuple[int, str, str]]:
            file = pathlib.Path(folder, f"o{seed}.sketch")
            file.write_text(Operator(seed).text(f"o{seed}"))
            other = f"--design={styles[seed % len(styles)]}"
            found = [(seed, " ".join(o), judge(sketchc, file, o)) for o in ([], [other])]
            file.unlink()
            return found
        with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count() or 1))) as pool:
            for results in pool.map(check, range(first, first + count)):
                for seed, options, verdict in results:
                    known = re.fullmatch(r"ok|undecided|E\d+", verdict)
                    seen[("other style: " if options else "") + (verdict if known else "failed")] += 1
                    # What is well-formed is taken by the front end; of styles none fits all operators.
                    if not known or not options and re.match(r"E0[1-6]", verdict):
                        failed.append(f"--print {seed} {options}: {verdict}")
                        print(failed[-1], flush=True)
    print(", ".join(f"{n} {k}" for k, n in sorted(seen.items())))
    print(f"figure: operators_of_several_equations {count} operators, {len(failed)} differences")
    return 1 if failed or not seen["ok"] else 0


if __name__ == "__main__":
    sys.exit(main())
